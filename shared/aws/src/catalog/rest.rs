//! Catalogs that speak Iceberg's REST interface (`open-api/rest-catalog-open-api.yaml` of Apache Iceberg): Apache's own, Polaris, Lakekeeper,
//! Nessie, Unity, and on AWS those of Glue and of S3 Tables, which take requests that are signed (SigV4).
//!
//! The server writes the metadata. A commit is what must hold and what changes; the server compares the former with the table as it is
//! then, and not with the whole of what was loaded: somebody else's change that none of the requirements tells of stays, and is no
//! conflict. So a commit says at least which table it is; one that changes properties alone is compared with nothing else.
//!
//! What is asked: `GET v1/config` once, `GET` and `POST` of `v1/{prefix}/namespaces/{namespace}/tables[/{table}]`, `POST` of
//! `v1/{prefix}/namespaces`, and to list `GET` of both. Files are read and written with our own credentials: the server is not asked to lend any.

mod access;
mod answer;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use aws_credential_types::provider::SharedCredentialsProvider;
use http::Method;
use iceberg::{TableRequirement, TableUpdate};
use model::clock::Clock;
use model::failure::Kind;
use model::id::Ids;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use table::catalog::{Catalog, Error, Loaded, TableCreation, TableName, check_name, metadata};
use tokio::sync::OnceCell;

use access::Client;
use answer::{Answer, Fault, Page, Told};

pub use access::{Auth, Settings};

/// What a name is not sent as, within a path (RFC 3986, all but what is unreserved).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Pages of one list: a server that never ends one is not followed for ever.
const PAGES_MAX: usize = 10_000;

/// Tables in a catalog that speaks REST.
pub struct RestCatalog {
    client: Client,
    warehouse: Option<String>,
    /// Where its paths begin: what it says of itself, asked when it is first needed.
    root: OnceCell<String>,
    ids: Arc<dyn Ids>,
}

impl fmt::Debug for RestCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestCatalog").field("client", &self.client).finish_non_exhaustive()
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

impl RestCatalog {
    /// A client. Nothing is asked yet.
    ///
    /// # Errors
    /// `Misconfigured`: what is wrong with the settings.
    pub async fn connect(settings: Settings, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Result<Self, Error> {
        Self::with(settings, None, clock, ids).await
    }

    /// The same with credentials of AWS in the place of those that the SDK's own chain finds.
    ///
    /// # Errors
    /// As [`RestCatalog::connect`].
    pub async fn with(
        settings: Settings,
        credentials: Option<SharedCredentialsProvider>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Result<Self, Error> {
        let client = Client::connect(&settings, credentials, clock).await?;
        Ok(Self { client, warehouse: settings.warehouse, root: OnceCell::new(), ids })
    }

    /// Where paths of namespaces begin.
    async fn root(&self) -> Result<&str, Error> {
        let ask = || async {
            let mut url = format!("{}/v1/config", self.client.base);
            if let Some(warehouse) = &self.warehouse {
                url.push_str(&format!("?warehouse={}", encoded(warehouse)));
            }
            let told: Result<Told, Fault> = self.client.send(Method::GET, &url, None, None).await.read();
            let told = told.map_err(|fault| {
                let is_about_names = matches!(fault, Fault::Refused { status: 400 | 404, kind: Some(_), .. });
                let error = fault.reading("ask the catalog for its settings");
                // In its own words, and not about who asks: it is about what was named.
                match is_about_names {
                    true => error.with_remedy("check the catalog's `warehouse`, and its URL"),
                    false => error,
                }
            })?;
            let said = |name: &str| told.overrides.get(name).or_else(|| told.defaults.get(name));
            let base = said("uri").map_or(self.client.base.as_str(), |uri| uri.trim_end_matches('/'));
            // A prefix may have several parts.
            let prefix = said("prefix").map_or_else(String::new, |prefix| {
                prefix.split('/').filter(|part| !part.is_empty()).map(|part| format!("/{}", encoded(part))).collect()
            });
            Ok::<_, Error>(format!("{base}/v1{prefix}/namespaces"))
        };
        self.root.get_or_try_init(ask).await.map(String::as_str)
    }

    async fn tables(&self, namespace: &str) -> Result<String, Error> {
        Ok(format!("{}/{}/tables", self.root().await?, encoded(namespace)))
    }

    async fn table(&self, table: &TableName) -> Result<String, Error> {
        Ok(format!("{}/{}", self.tables(&table.namespace).await?, encoded(&table.name)))
    }

    async fn get(&self, url: &str) -> Answer {
        self.client.send(Method::GET, url, None, None).await
    }

    /// The same request under one key is the same commit to a server that knows keys, whatever became of its answer.
    async fn post(&self, url: &str, body: &Value) -> Answer {
        let key = self.ids.uuid_text();
        self.client.send(Method::POST, url, Some(body.to_string().into_bytes()), Some(&key)).await
    }

    async fn make_namespace(&self, namespace: &str) -> Result<(), Error> {
        let root = self.root().await?;
        match self.get(&format!("{root}/{}", encoded(namespace))).await.done() {
            Ok(()) => return Ok(()),
            Err(fault) if fault.is_missing() => {}
            // Some servers do not tell of namespaces; that of the table is told when it is made.
            Err(fault) => return Err(fault.reading(&format!("look up the namespace `{namespace}`"))),
        }
        match self.post(root, &json!({"namespace": [namespace], "properties": {}})).await.done() {
            Ok(()) => Ok(()),
            // Somebody else's, in between.
            Err(fault) if fault.is_conflict() => Ok(()),
            Err(fault) => Err(fault.reading(&format!("make the namespace `{namespace}`"))),
        }
    }

    /// All pages of a list; none where there is no such namespace.
    async fn pages(&self, url: &str, doing: &str) -> Result<Vec<Page>, Error> {
        let mut pages: Vec<Page> = Vec::new();
        let mut token = String::new();
        for _ in 0..PAGES_MAX {
            match self.get(&format!("{url}?pageToken={token}")).await.read::<Page>() {
                Ok(page) => {
                    let next = page.next.clone().filter(|next| !next.is_empty());
                    pages.push(page);
                    match next {
                        Some(next) => token = encoded(&next),
                        None => return Ok(pages),
                    }
                }
                Err(fault) if fault.is_missing() => return Ok(Vec::new()),
                Err(fault) => return Err(fault.reading(doing)),
            }
        }
        Err(Error::failed(Kind::Corrupt, format!("could not {doing}: the list has no end")))
    }
}

#[async_trait]
impl Catalog for RestCatalog {
    async fn load(&self, table: &TableName) -> Result<Option<Loaded>, Error> {
        let url = format!("{}?snapshots=all", self.table(table).await?);
        match self.get(&url).await.table(table) {
            Ok(loaded) => Ok(Some(loaded)),
            Err(fault) if fault.is_missing() => Ok(None),
            Err(fault) => Err(fault.reading(&format!("look up {table}"))),
        }
    }

    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<Loaded, Error> {
        check_name(table)?;
        if self.load(table).await?.is_some() {
            return Err(Error::AlreadyExists { table: table.clone() });
        }
        self.make_namespace(&table.namespace).await?;
        let place = creation.location.clone();
        // What is sent is what we would have made ourselves: ids of fields, of the partition spec and the sort order are given.
        let made = metadata::create(
            creation,
            place.clone().unwrap_or_else(|| "s3://unknown/table".to_owned()),
            model::clock::Timestamp::from_millis(0),
            self.ids.as_ref(),
        )?;
        let bug = |e| Error::caused(Kind::Bug, "a table's definition does not serialise", e);
        let mut properties = made.metadata.properties().clone();
        properties.insert("format-version".to_owned(), (made.metadata.format_version() as u8).to_string());
        let mut body = json!({
            "name": table.name,
            "schema": serde_json::to_value(made.metadata.current_schema()).map_err(bug)?,
            "partition-spec": serde_json::to_value(made.metadata.default_partition_spec()).map_err(bug)?,
            "write-order": serde_json::to_value(made.metadata.default_sort_order()).map_err(bug)?,
            "stage-create": false,
            "properties": properties,
        });
        if let (Some(location), Some(body)) = (place, body.as_object_mut()) {
            body.insert("location".to_owned(), location.into());
        }
        match self.post(&self.tables(&table.namespace).await?, &body).await.table(table) {
            Ok(loaded) => Ok(loaded),
            Err(fault) if fault.is_conflict() => Err(Error::AlreadyExists { table: table.clone() }),
            Err(fault) => Err(fault.writing(table, &format!("make {table}"))),
        }
    }

    async fn commit(
        &self,
        base: &Loaded,
        mut requirements: Vec<TableRequirement>,
        updates: Vec<TableUpdate>,
    ) -> Result<Loaded, Error> {
        let table = &base.name;
        metadata::check(base, &requirements)?;
        let is_same = TableRequirement::UuidMatch { uuid: base.metadata.uuid() };
        if !requirements.contains(&is_same) {
            requirements.push(is_same);
        }
        let bug = |e| Error::caused(Kind::Bug, "a commit does not serialise", e);
        let body = json!({
            "identifier": {"namespace": [table.namespace], "name": table.name},
            "requirements": serde_json::to_value(&requirements).map_err(bug)?,
            "updates": serde_json::to_value(&updates).map_err(bug)?,
        });
        match self.post(&self.table(table).await?, &body).await.table(table) {
            Ok(loaded) => Ok(loaded),
            Err(fault) if fault.is_conflict() => {
                Err(Error::Conflict { table: table.clone(), detail: fault.words().to_owned() })
            }
            Err(fault) if fault.is_missing() => {
                Err(Error::Conflict { table: table.clone(), detail: "it is no longer in the catalog".to_owned() })
            }
            Err(fault) => Err(fault.writing(table, &format!("commit to {table}"))),
        }
    }

    async fn list_namespaces(&self) -> Result<Vec<String>, Error> {
        let root = self.root().await?;
        let pages = self.pages(root, "list namespaces").await?;
        // Only namespaces of one level are ours.
        let single = |levels: Vec<String>| <[String; 1]>::try_from(levels).ok().map(|[name]| name);
        let mut names: Vec<String> = pages.into_iter().flat_map(|page| page.namespaces).filter_map(single).collect();
        names.sort();
        Ok(names)
    }

    async fn list_tables(&self, namespace: &str) -> Result<Vec<TableName>, Error> {
        let url = self.tables(namespace).await?;
        let pages = self.pages(&url, &format!("list the tables of `{namespace}`")).await?;
        let names = pages.into_iter().flat_map(|page| page.identifiers);
        let mut tables: Vec<TableName> =
            names.map(|found| TableName { namespace: namespace.to_owned(), name: found.name }).collect();
        tables.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(tables)
    }
}

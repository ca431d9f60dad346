//! Amazon S3 Tables, by its own interface.
//!
//! A table bucket holds namespaces of one level, and those hold tables. Each table has a place of its own, its warehouse location, which
//! looks like a bucket and takes objects by S3's own interface, but lists and deletes none: everything of the table is there, and nobody
//! chooses another place. The entry of a table names its metadata file and has a version token. The swap is `UpdateTableMetadataLocation`
//! with the token that was read together with the file's name: who comes second gets `ConflictException`.
//!
//! A table is made in two steps: `CreateTable` makes an entry that names no metadata file, and the swap names the first one. An entry without
//! one, of a run that died between them, is no table yet: it is not found, and the next that makes the table goes on with it.
//!
//! S3 Tables compacts, expires snapshots and removes files that no snapshot names, all by itself.
//!
//! What is needed of IAM, on the table bucket and its tables: `s3tables:GetTableMetadataLocation`, `s3tables:UpdateTableMetadataLocation`,
//! `s3tables:GetTableData`, `s3tables:PutTableData`; to make a table `s3tables:GetNamespace`, `s3tables:CreateNamespace` and
//! `s3tables:CreateTable`, to list `s3tables:ListNamespaces` and `s3tables:ListTables`.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use aws_sdk_s3tables::Client;
use aws_sdk_s3tables::config::Region;
use aws_sdk_s3tables::types::OpenTableFormat;
use iceberg::io::FileIO;
use iceberg::spec::TableMetadata;
use iceberg::{TableRequirement, TableUpdate};
use model::clock::Clock;
use model::failure::Kind;
use model::id::Ids;
use table::catalog::{Catalog, Error, Loaded, TableCreation, TableName, check_name, metadata};

use super::fault::Fault;
use super::one_attempt;
use crate::sdk;

const SERVICE: &str = "S3 Tables";
const NOT_THERE: &str = "NotFoundException";
const CONFLICT: &str = "ConflictException";

/// Which table bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableBucket {
    /// `arn:aws:s3tables:REGION:ACCOUNT:bucket/NAME`
    pub arn: String,
    /// The region that the ARN says.
    pub region: String,
}

/// Tables in a table bucket of S3 Tables.
#[derive(Clone)]
pub struct S3TablesCatalog {
    client: Client,
    bucket: TableBucket,
    io: FileIO,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl fmt::Debug for S3TablesCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3TablesCatalog").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

/// A table's entry.
struct Entry {
    /// Its version: changed by every swap.
    token: String,
    /// The metadata file; none before the first swap.
    metadata: Option<String>,
    /// The place of all its files, without a slash at the end.
    place: String,
}

impl Entry {
    /// Whether a location is within the table's place.
    fn holds(&self, location: &str) -> bool {
        location.strip_prefix(&self.place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Refuses to put files elsewhere than S3 Tables gave the table; what `before` has already is nobody's doing now.
    fn check_places(
        &self,
        table: &TableName,
        after: &TableMetadata,
        before: Option<&TableMetadata>,
    ) -> Result<(), Error> {
        let places = |of: &TableMetadata| {
            let folders = metadata::FOLDER_PROPERTIES.iter().filter_map(|name| of.properties().get(*name).cloned());
            folders.chain([of.location().to_owned()]).collect::<Vec<_>>()
        };
        let known = before.map(places).unwrap_or_default();
        match places(after).iter().find(|place| !self.holds(place) && !known.contains(place)) {
            Some(place) => Err(elsewhere(table, place, &self.place)),
            None => Ok(()),
        }
    }
}

fn elsewhere(table: &TableName, wanted: &str, given: &str) -> Error {
    let why = format!("the files of {table} can't be at {wanted}: S3 Tables gives it {given}");
    let others = metadata::FOLDER_PROPERTIES.map(|name| format!("`{name}`")).join(", ");
    Error::failed(Kind::Misconfigured, why).with_remedy(format!("leave {others} and another location out"))
}

impl S3TablesCatalog {
    /// A client by the AWS SDK's own chain, in the table bucket's region. `AWS_ENDPOINT_URL` and `AWS_ENDPOINT_URL_S3TABLES` name another
    /// service. `io` reaches that region's buckets. Nothing is asked of S3 Tables yet.
    pub async fn connect(bucket: TableBucket, io: FileIO, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        let shared = sdk::settings().region(Region::new(bucket.region.clone())).load().await;
        Self::with(Client::new(&one_attempt(shared)), bucket, io, clock, ids)
    }

    /// Over a client made elsewhere, which makes one attempt a call.
    #[must_use]
    pub fn with(client: Client, bucket: TableBucket, io: FileIO, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self { client, bucket, io, clock, ids }
    }

    /// What to do where rights are missing.
    fn rights(&self, action: &str) -> String {
        format!("give who runs this s3tables:{action} on the table bucket {} and its tables", self.bucket.arn)
    }

    /// The entry of this name; none where there is no such table, namespace or table bucket.
    async fn entry(&self, table: &TableName) -> Result<Option<Entry>, Error> {
        let call = self.client.get_table_metadata_location().table_bucket_arn(&self.bucket.arn);
        match call.namespace(&table.namespace).name(&table.name).send().await {
            // The SDK makes empty texts of what is missing.
            Ok(answer) if answer.version_token.is_empty() || answer.warehouse_location.is_empty() => {
                let why = format!("the entry of {table} in S3 Tables has no version token or no place for its files");
                Err(Error::failed(Kind::Corrupt, why))
            }
            Ok(answer) => Ok(Some(Entry {
                token: answer.version_token,
                metadata: answer.metadata_location.filter(|location| !location.is_empty()),
                place: answer.warehouse_location.trim_end_matches('/').to_owned(),
            })),
            Err(error) => match Fault::of(SERVICE, error) {
                fault if fault.code() == NOT_THERE => Ok(None),
                fault => Err(fault.reading(&format!("look up {table}"), &self.rights("GetTableMetadataLocation"))),
            },
        }
    }

    async fn make_namespace(&self, name: &str) -> Result<(), Error> {
        let doing = format!("make the namespace `{name}`");
        match self.client.get_namespace().table_bucket_arn(&self.bucket.arn).namespace(name).send().await {
            Ok(_) => return Ok(()),
            Err(error) => match Fault::of(SERVICE, error) {
                fault if fault.code() == NOT_THERE => {}
                fault => return Err(fault.reading(&doing, &self.rights("GetNamespace"))),
            },
        }
        match self.client.create_namespace().table_bucket_arn(&self.bucket.arn).namespace(name).send().await {
            Ok(_) => Ok(()),
            Err(error) => match Fault::of(SERVICE, error) {
                // Somebody else's, in between.
                fault if fault.code() == CONFLICT => Ok(()),
                fault if fault.code() == NOT_THERE => Err(self.no_bucket(&doing)),
                fault => Err(fault.reading(&doing, &self.rights("CreateNamespace"))),
            },
        }
    }

    fn no_bucket(&self, doing: &str) -> Error {
        let why = format!("could not {doing}: there is no table bucket {}", self.bucket.arn);
        Error::failed(Kind::Misconfigured, why).with_remedy("make the table bucket, or name another in frazil.toml")
    }

    /// Makes an entry that names no metadata file: until the swap there is no table that anybody would find, whatever comes of this call.
    async fn make_entry(&self, table: &TableName) -> Result<(), Error> {
        let call = self.client.create_table().table_bucket_arn(&self.bucket.arn).namespace(&table.namespace);
        match call.name(&table.name).format(OpenTableFormat::Iceberg).send().await {
            Ok(_) => Ok(()),
            Err(error) => match Fault::of(SERVICE, error) {
                // Somebody else's, in between: the swap says whose table it will be.
                fault if fault.code() == CONFLICT => Ok(()),
                fault => Err(fault.reading(&format!("make {table}"), &self.rights("CreateTable"))),
            },
        }
    }

    /// The swap: from the metadata file that `entry` names to this one. The new version token, or the fault.
    async fn swap(&self, table: &TableName, entry: &Entry, location: &str) -> Result<String, Fault> {
        let call = self.client.update_table_metadata_location().table_bucket_arn(&self.bucket.arn);
        let call = call.namespace(&table.namespace).name(&table.name);
        match call.version_token(&entry.token).metadata_location(location).send().await {
            Ok(answer) => Ok(answer.version_token),
            Err(error) => Err(Fault::of(SERVICE, error)),
        }
    }
}

/// S3 Tables takes no other names; a table bucket's tables would be found under none.
fn check_rule(table: &TableName) -> Result<(), Error> {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ok = |part: &str| {
        part.bytes().all(|b| letter(b) || b == b'_')
            && part.bytes().next().is_some_and(letter)
            && part.bytes().next_back().is_some_and(letter)
    };
    for (part, what) in [(&table.namespace, "namespace"), (&table.name, "table")] {
        let rule = match ok(part) {
            false => "its names are small letters, digits and `_`, with no `_` at either end",
            true if what == "namespace" && part.starts_with("aws") => "names that begin with `aws` are its own",
            true => continue,
        };
        let why = format!("`{part}` can't be a {what} in S3 Tables: {rule}");
        return Err(Error::failed(Kind::Misconfigured, why).with_remedy("choose another `name` under [table]"));
    }
    Ok(())
}

#[async_trait]
impl Catalog for S3TablesCatalog {
    async fn load(&self, table: &TableName) -> Result<Option<Loaded>, Error> {
        check_rule(table)?;
        let Some(entry) = self.entry(table).await? else { return Ok(None) };
        // Without a metadata file it is no table yet.
        let Some(location) = &entry.metadata else { return Ok(None) };
        let loaded = metadata::read(&self.io, table, location).await?;
        Ok(Some(Loaded { version: Some(entry.token), ..loaded }))
    }

    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<Loaded, Error> {
        check_name(table)?;
        check_rule(table)?;
        let taken = || Error::AlreadyExists { table: table.clone() };
        let gone = || {
            Error::failed(
                Kind::Retry,
                format!("could not make {table}: somebody took its entry in S3 Tables away again"),
            )
        };
        let entry = match self.entry(table).await? {
            Some(entry) => entry,
            None => {
                self.make_namespace(&table.namespace).await?;
                self.make_entry(table).await?;
                self.entry(table).await?.ok_or_else(gone)?
            }
        };
        if entry.metadata.is_some() {
            return Err(taken());
        }
        if let Some(wanted) = creation.location.as_deref().filter(|wanted| wanted.trim_end_matches('/') != entry.place)
        {
            return Err(elsewhere(table, wanted, &entry.place));
        }
        let staged = metadata::create(creation, entry.place.clone(), self.clock.now(), self.ids.as_ref())?;
        entry.check_places(table, &staged.metadata, None)?;
        staged.write(&self.io).await?;
        match self.swap(table, &entry, &staged.location).await {
            Ok(token) => Ok(Loaded { version: Some(token), ..staged.loaded(table.clone()) }),
            // Who named a metadata file first has made the table.
            Err(fault) if fault.code() == CONFLICT => Err(taken()),
            Err(fault) if fault.code() == NOT_THERE => Err(gone()),
            Err(fault) => {
                Err(fault.writing(table, &format!("make {table}"), &self.rights("UpdateTableMetadataLocation")))
            }
        }
    }

    async fn commit(
        &self,
        base: &Loaded,
        requirements: Vec<TableRequirement>,
        updates: Vec<TableUpdate>,
    ) -> Result<Loaded, Error> {
        let table = &base.name;
        let conflict = |detail: String| Error::Conflict { table: table.clone(), detail };
        check_rule(table)?;
        // The token is read together with the file's name, which is what must not have changed: a rename back and forth is no conflict
        // of ours.
        let gone = || conflict("it is no longer in the catalog".to_owned());
        let entry = self.entry(table).await?.ok_or_else(gone)?;
        let now = entry.metadata.as_ref().ok_or_else(gone)?;
        if *now != base.metadata_location {
            return Err(conflict(format!("its metadata is {now}, no longer {}", base.metadata_location)));
        }
        let staged = metadata::stage(base, &requirements, &updates, self.clock.now(), self.ids.as_ref())?;
        entry.check_places(table, &staged.metadata, Some(&base.metadata))?;
        if !entry.holds(&staged.location) {
            return Err(elsewhere(table, &staged.location, &entry.place));
        }
        staged.write(&self.io).await?;
        match self.swap(table, &entry, &staged.location).await {
            Ok(token) => Ok(Loaded { version: Some(token), ..staged.loaded(table.clone()) }),
            Err(fault) if fault.code() == CONFLICT => Err(conflict("its entry in S3 Tables has changed".to_owned())),
            Err(fault) if fault.code() == NOT_THERE => Err(gone()),
            Err(fault) => {
                Err(fault.writing(table, &format!("commit to {table}"), &self.rights("UpdateTableMetadataLocation")))
            }
        }
    }

    async fn list_namespaces(&self) -> Result<Vec<String>, Error> {
        let call = self.client.list_namespaces().table_bucket_arn(&self.bucket.arn);
        let mut pages = call.into_paginator().send();
        let mut names = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| match Fault::of(SERVICE, error) {
                fault if fault.code() == NOT_THERE => self.no_bucket("list namespaces"),
                fault => fault.reading("list namespaces", &self.rights("ListNamespaces")),
            })?;
            names.extend(page.namespaces().iter().filter_map(|found| match found.namespace() {
                [name] => Some(name.clone()),
                _ => None,
            }));
        }
        names.sort();
        Ok(names)
    }

    async fn list_tables(&self, namespace: &str) -> Result<Vec<TableName>, Error> {
        let call = self.client.list_tables().table_bucket_arn(&self.bucket.arn).namespace(namespace);
        let mut pages = call.into_paginator().send();
        let mut tables = Vec::new();
        while let Some(page) = pages.next().await {
            let page = match page {
                Ok(page) => page,
                Err(error) => match Fault::of(SERVICE, error) {
                    fault if fault.code() == NOT_THERE => return Ok(Vec::new()),
                    fault => {
                        let doing = format!("list the tables of `{namespace}`");
                        return Err(fault.reading(&doing, &self.rights("ListTables")));
                    }
                },
            };
            let names = page.tables().iter().map(|found| found.name().to_owned());
            tables.extend(names.map(|name| TableName { namespace: namespace.to_owned(), name }));
        }
        tables.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(tables)
    }
}

//! The Glue Data Catalog.
//!
//! A table's entry names its metadata file among its parameters, as Iceberg's own `GlueCatalog` has it (`table_type`,
//! `metadata_location`, `previous_metadata_location`). The swap is `UpdateTable` with the `VersionId` of the entry that was
//! looked at: who comes second gets `ConcurrentModificationException`. `UpdateTable` replaces the whole entry, so everything that stands
//! there is carried over, whoever wrote it; `SkipArchive` keeps Glue from keeping every version of it, of which an account has few.
//! The table's own properties, its ledger among them, stay in the metadata file: parameters are short, and shown to everybody.
//!
//! What is needed of IAM: `glue:GetTable`, `glue:CreateTable`, `glue:UpdateTable`, `glue:GetDatabase` and `glue:CreateDatabase`, to list
//! `glue:GetDatabases` and `glue:GetTables`, on the catalog, the database and its tables; where Lake Formation governs them, its grants, too.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use aws_sdk_glue::Client;
use aws_sdk_glue::config::Region;
use aws_sdk_glue::types::{DatabaseInput, StorageDescriptor, Table, TableInput};
use iceberg::io::FileIO;
use iceberg::spec::TableMetadata;
use iceberg::{TableRequirement, TableUpdate};
use model::clock::Clock;
use model::failure::Kind;
use model::id::Ids;
use table::catalog::{Catalog, Error, Loaded, TableCreation, TableName, check_name, metadata};

use super::fault::Fault;
use super::{hive, one_attempt};
use crate::sdk;

const SERVICE: &str = "Glue";
const NOT_THERE: &str = "EntityNotFoundException";
const TAKEN: &str = "AlreadyExistsException";
const CHANGED: &str = "ConcurrentModificationException";

/// Parameters of an entry that is an Iceberg table.
const TABLE_TYPE: &str = "table_type";
const ICEBERG: &str = "ICEBERG";
const LOCATION: &str = "metadata_location";
const PREVIOUS: &str = "previous_metadata_location";

/// A parameter's limit, in bytes.
const PARAMETER_MAX: usize = 512_000;

/// Which catalog, and under which location its tables are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Its region, where it is not the one that the SDK's chain of settings says.
    pub region: Option<String>,
    /// The account's id, where it is not the caller's own.
    pub catalog_id: Option<String>,
    /// Under this location tables are made by default, such as `s3://bucket/warehouse`.
    pub warehouse: String,
}

/// Tables in the Glue Data Catalog.
#[derive(Clone)]
pub struct GlueCatalog {
    client: Client,
    access: Access,
    io: FileIO,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl fmt::Debug for GlueCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlueCatalog").field("access", &self.access).finish_non_exhaustive()
    }
}

impl GlueCatalog {
    /// A client by the AWS SDK's own chain: environment, profile, web identity, container, instance. `AWS_ENDPOINT_URL` and
    /// `AWS_ENDPOINT_URL_GLUE` name another service. Nothing is asked of Glue yet.
    ///
    /// # Errors
    /// `Misconfigured` when no region is known.
    pub async fn connect(access: Access, io: FileIO, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Result<Self, Error> {
        let mut settings = sdk::settings();
        if let Some(region) = &access.region {
            settings = settings.region(Region::new(region.clone()));
        }
        let shared = settings.load().await;
        if shared.region().is_none() {
            let error = Error::failed(Kind::Misconfigured, "no AWS region is set for the Glue catalog");
            return Err(error.with_remedy("say `catalog = \"glue:REGION\"` in frazil.toml, or set AWS_REGION"));
        }
        Ok(Self::with(Client::new(&one_attempt(shared)), access, io, clock, ids))
    }

    /// Over a client made elsewhere, which makes one attempt a call.
    #[must_use]
    pub fn with(client: Client, access: Access, io: FileIO, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        let warehouse = access.warehouse.trim_end_matches('/').to_owned();
        Self { client, access: Access { warehouse, ..access }, io, clock, ids }
    }

    fn catalog_id(&self) -> Option<String> {
        self.access.catalog_id.clone()
    }

    /// The entry of this name; none where there is no such table or database.
    async fn entry(&self, table: &TableName) -> Result<Option<Table>, Error> {
        let call = self.client.get_table().set_catalog_id(self.catalog_id());
        match call.database_name(&table.namespace).name(&table.name).send().await {
            Ok(answer) => Ok(answer.table),
            Err(error) => match Fault::of(SERVICE, error) {
                fault if fault.code() == NOT_THERE => Ok(None),
                fault => Err(fault.reading(&format!("look up {table}"), &rights("glue:GetTable", "DESCRIBE"))),
            },
        }
    }

    async fn make_database(&self, table: &TableName) -> Result<(), Error> {
        let name = &table.namespace;
        let doing = format!("make the database `{name}`");
        match self.client.get_database().set_catalog_id(self.catalog_id()).name(name).send().await {
            Ok(_) => return Ok(()),
            Err(error) => match Fault::of(SERVICE, error) {
                fault if fault.code() == NOT_THERE => {}
                fault => return Err(fault.reading(&doing, &rights("glue:GetDatabase", "DESCRIBE"))),
            },
        }
        let input = DatabaseInput::builder().name(name).build();
        let input = input.map_err(|e| Error::caused(Kind::Bug, "a database without a name", e))?;
        match self.client.create_database().set_catalog_id(self.catalog_id()).database_input(input).send().await {
            Ok(_) => Ok(()),
            Err(error) => match Fault::of(SERVICE, error) {
                // Somebody else's, in between.
                fault if fault.code() == TAKEN => Ok(()),
                fault => Err(fault.reading(&doing, &rights("glue:CreateDatabase", "CREATE_DATABASE"))),
            },
        }
    }
}

/// What to do where rights are missing.
fn rights(action: &str, grant: &str) -> String {
    format!(
        "give who runs this {action} on the catalog, the database and its tables; where Lake Formation governs them, {grant} there, too"
    )
}

/// Glue keeps names in small letters, whatever it is told: others would be found under a name that is not theirs.
fn check_case(table: &TableName) -> Result<(), Error> {
    for (part, what) in [(&table.namespace, "database"), (&table.name, "table")] {
        if part.chars().any(char::is_uppercase) {
            let lower = part.to_lowercase();
            let why =
                format!("`{part}` can't be a {what} in Glue, which keeps names in small letters: call it `{lower}`");
            return Err(Error::failed(Kind::Misconfigured, why));
        }
    }
    Ok(())
}

/// The metadata file that an entry names.
fn location(entry: &Table, table: &TableName) -> Result<String, Error> {
    let parameter = |name: &str| entry.parameters().and_then(|all| all.get(name));
    match (parameter(TABLE_TYPE), parameter(LOCATION)) {
        (Some(kind), Some(location)) if kind.eq_ignore_ascii_case(ICEBERG) => Ok(location.clone()),
        (Some(kind), None) if kind.eq_ignore_ascii_case(ICEBERG) => {
            let why = format!("{table} is an Iceberg table in Glue whose entry names no metadata file (`{LOCATION}`)");
            Err(Error::failed(Kind::Corrupt, why))
        }
        _ => {
            let why = format!("{table} is in Glue, and no Iceberg table");
            Err(Error::failed(Kind::Misconfigured, why).with_remedy("choose another name for the table"))
        }
    }
}

/// The entry of a table with this metadata: all that stands in the one before, but what tells of the metadata.
fn input(before: Option<&Table>, name: &str, location: &str, after: &TableMetadata) -> Result<TableInput, Error> {
    let mut parameters: HashMap<String, String> =
        before.and_then(|entry| entry.parameters()).cloned().unwrap_or_default();
    parameters.insert(TABLE_TYPE.to_owned(), ICEBERG.to_owned());
    if let Some(previous) = parameters.insert(LOCATION.to_owned(), location.to_owned()) {
        parameters.insert(PREVIOUS.to_owned(), previous);
    }
    if let Some((name, _)) = parameters.iter().find(|(_, value)| value.len() > PARAMETER_MAX) {
        let why = format!("the parameter `{name}` of the entry in Glue has more than {PARAMETER_MAX} bytes");
        return Err(Error::failed(Kind::Misconfigured, why));
    }
    let columns = hive::columns(after.current_schema());
    // The folders beside the table's own that its files may be in, which Lake Formation lets its readers into.
    let folders = metadata::FOLDER_PROPERTIES.iter().filter_map(|name| after.properties().get(*name));
    let folders: Vec<String> = folders.cloned().collect();
    let descriptor = match before.and_then(Table::storage_descriptor) {
        Some(before) => {
            let mut descriptor = before.clone();
            descriptor.columns = Some(columns);
            descriptor.location = Some(after.location().to_owned());
            descriptor.additional_locations = (!folders.is_empty()).then_some(folders);
            descriptor
        }
        None => StorageDescriptor::builder()
            .set_columns(Some(columns))
            .location(after.location())
            .set_additional_locations((!folders.is_empty()).then_some(folders))
            .build(),
    };
    let input = TableInput::builder().name(name).storage_descriptor(descriptor).set_parameters(Some(parameters));
    let input = match before {
        None => input.table_type("EXTERNAL_TABLE"),
        Some(entry) => {
            let view = (entry.view_original_text(), entry.view_expanded_text());
            input
                .set_description(entry.description().map(str::to_owned))
                .set_owner(entry.owner().map(str::to_owned))
                .set_last_access_time(entry.last_access_time().copied())
                .set_last_analyzed_time(entry.last_analyzed_time().copied())
                .retention(entry.retention())
                .set_partition_keys(entry.partition_keys.clone())
                .set_view_original_text(view.0.map(str::to_owned))
                .set_view_expanded_text(view.1.map(str::to_owned))
                .table_type(entry.table_type().unwrap_or("EXTERNAL_TABLE"))
                .set_target_table(entry.target_table().cloned())
        }
    };
    input.build().map_err(|e| Error::caused(Kind::Bug, "a table without a name", e))
}

#[async_trait]
impl Catalog for GlueCatalog {
    async fn load(&self, table: &TableName) -> Result<Option<Loaded>, Error> {
        check_case(table)?;
        let Some(entry) = self.entry(table).await? else { return Ok(None) };
        let loaded = metadata::read(&self.io, table, &location(&entry, table)?).await?;
        Ok(Some(Loaded { version: entry.version_id, ..loaded }))
    }

    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<Loaded, Error> {
        check_name(table)?;
        check_case(table)?;
        // Asked before any file is written, so that a repeated create leaves nothing; the call below still decides.
        if self.entry(table).await?.is_some() {
            return Err(Error::AlreadyExists { table: table.clone() });
        }
        self.make_database(table).await?;
        let location = creation.location_under(&self.access.warehouse, table);
        let staged = metadata::create(creation, location, self.clock.now(), self.ids.as_ref())?;
        staged.write(&self.io).await?;
        let input = input(None, &table.name, &staged.location, &staged.metadata)?;
        let call = self.client.create_table().set_catalog_id(self.catalog_id());
        match call.database_name(&table.namespace).table_input(input).send().await {
            Ok(_) => Ok(staged.loaded(table.clone())),
            Err(error) => match Fault::of(SERVICE, error) {
                fault if fault.code() == TAKEN => Err(Error::AlreadyExists { table: table.clone() }),
                fault => {
                    Err(fault.writing(table, &format!("make {table}"), &rights("glue:CreateTable", "CREATE_TABLE")))
                }
            },
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
        check_case(table)?;
        // What is carried over is what stands there now, and its version is what the swap compares with: a comment that somebody
        // changed meanwhile is kept, and is no conflict of ours.
        let entry = self.entry(table).await?.ok_or_else(|| conflict("it is no longer in the catalog".to_owned()))?;
        let now = location(&entry, table)?;
        if now != base.metadata_location {
            return Err(conflict(format!("its metadata is {now}, no longer {}", base.metadata_location)));
        }
        let Some(version) = entry.version_id() else {
            let why = format!("{table} has no version in Glue: a swap could not tell whether it came first");
            return Err(Error::failed(Kind::Corrupt, why));
        };
        let staged = metadata::stage(base, &requirements, &updates, self.clock.now(), self.ids.as_ref())?;
        staged.write(&self.io).await?;
        let call = self.client.update_table().set_catalog_id(self.catalog_id()).database_name(&table.namespace);
        let input = input(Some(&entry), &table.name, &staged.location, &staged.metadata)?;
        match call.table_input(input).version_id(version).skip_archive(true).send().await {
            Ok(_) => Ok(staged.loaded(table.clone())),
            Err(error) => match Fault::of(SERVICE, error) {
                fault if fault.code() == CHANGED => Err(conflict("its entry in Glue has changed".to_owned())),
                fault if fault.code() == NOT_THERE => Err(conflict("it is no longer in the catalog".to_owned())),
                fault => Err(fault.writing(table, &format!("commit to {table}"), &rights("glue:UpdateTable", "ALTER"))),
            },
        }
    }

    async fn list_namespaces(&self) -> Result<Vec<String>, Error> {
        let mut pages = self.client.get_databases().set_catalog_id(self.catalog_id()).into_paginator().send();
        let mut names = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| {
                Fault::of(SERVICE, error).reading("list databases", &rights("glue:GetDatabases", "DESCRIBE"))
            })?;
            names.extend(page.database_list().iter().map(|database| database.name().to_owned()));
        }
        names.sort();
        Ok(names)
    }

    async fn list_tables(&self, namespace: &str) -> Result<Vec<TableName>, Error> {
        let call = self.client.get_tables().set_catalog_id(self.catalog_id()).database_name(namespace);
        let mut pages = call.into_paginator().send();
        let mut tables = Vec::new();
        while let Some(page) = pages.next().await {
            let page = match page {
                Ok(page) => page,
                Err(error) => match Fault::of(SERVICE, error) {
                    fault if fault.code() == NOT_THERE => return Ok(Vec::new()),
                    fault => {
                        let doing = format!("list the tables of `{namespace}`");
                        return Err(fault.reading(&doing, &rights("glue:GetTables", "DESCRIBE")));
                    }
                },
            };
            let kind = |entry: &&Table| entry.parameters().and_then(|all| all.get(TABLE_TYPE)).cloned();
            let is_iceberg = |entry: &&Table| kind(entry).is_some_and(|kind| kind.eq_ignore_ascii_case(ICEBERG));
            let found = page.table_list().iter().filter(is_iceberg);
            tables.extend(
                found.map(|entry| TableName { namespace: namespace.to_owned(), name: entry.name().to_owned() }),
            );
        }
        tables.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(tables)
    }
}

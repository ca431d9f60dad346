//! Catalogs in a database, in the layout that Iceberg's SQL catalogs share (`iceberg_tables`, `iceberg_namespace_properties`; the
//! columns and statements of Iceberg's `JdbcUtil`), so that other engines open the same one: PyIceberg's `SqlCatalog`, Iceberg's
//! `JdbcCatalog`.
//!
//! Statements and rules stand here once. A [`Driver`] runs statements and says what a failure means; that is all that differs from one
//! database to another.
//!
//! Several processes may use one database. The swap is a single `UPDATE … WHERE metadata_location = $2`: one row or nothing.

use std::sync::Arc;

use async_trait::async_trait;
use iceberg::io::FileIO;
use iceberg::{TableRequirement, TableUpdate};
use model::clock::Clock;
use model::failure::Kind;
use model::id::Ids;

use super::{Catalog, Error, Loaded, Source, TableCreation, TableName, check_name, metadata};

/// The catalog's name within the database; the layout allows several.
pub const NAME: &str = "frazil";

/// What makes the tables where they are missing. Each statement says so itself.
pub(super) const LAYOUT: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS iceberg_tables (
        catalog_name VARCHAR(255) NOT NULL,
        table_namespace VARCHAR(255) NOT NULL,
        table_name VARCHAR(255) NOT NULL,
        metadata_location VARCHAR(1000),
        previous_metadata_location VARCHAR(1000),
        iceberg_type VARCHAR(5),
        PRIMARY KEY (catalog_name, table_namespace, table_name)
    )",
    "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
        catalog_name VARCHAR(255) NOT NULL,
        namespace VARCHAR(255) NOT NULL,
        property_key VARCHAR(255) NOT NULL,
        property_value VARCHAR(1000) NOT NULL,
        PRIMARY KEY (catalog_name, namespace, property_key)
    )",
];

/// Characters of a column that holds a location.
const LOCATION_MAX: usize = 1000;

/// Catalogs of the layout's first version have no `iceberg_type`, and all their rows are tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    V0,
    V1,
}

impl Layout {
    /// The condition that keeps views out.
    const fn tables_only(self) -> &'static str {
        match self {
            Self::V0 => "",
            Self::V1 => " AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)",
        }
    }
}

/// One statement. Values are `$1`, `$2` … in the text, which first names them in that order: SQLite counts them as it meets them.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) text: String,
    pub(super) values: Vec<String>,
}

impl Statement {
    fn new<const N: usize>(text: impl Into<String>, values: [&str; N]) -> Self {
        Self { text: text.into(), values: values.map(str::to_owned).into() }
    }
}

/// Why a statement was not done.
#[derive(Debug)]
pub(super) enum Fault {
    /// A row of this key is there.
    Taken(Source),
    /// It was certainly not done.
    Failed {
        /// What happens next.
        kind: Kind,
        /// What it is, and what a person can do about it.
        advice: &'static str,
        /// In the database's own words.
        source: Option<Source>,
    },
    /// Nobody knows whether it was done.
    Open {
        /// What came instead of an answer.
        detail: &'static str,
        /// The cause.
        source: Option<Source>,
    },
}

impl Fault {
    /// Of a statement that only reads.
    pub(super) fn reading(self, doing: &str) -> Error {
        match self {
            Self::Failed { kind, advice, source } => {
                Error::Failed { kind, message: format!("could not {doing}: {advice}"), remedy: None, source }
            }
            Self::Open { detail, source } => Error::Failed {
                kind: Kind::Retry,
                message: format!("could not {doing}: {detail}"),
                remedy: None,
                source,
            },
            Self::Taken(source) => Error::caused(Kind::Bug, format!("could not {doing}"), source),
        }
    }

    /// Of statements that change the catalog.
    fn writing(self, table: &TableName) -> Error {
        match self {
            Self::Open { detail, source } => {
                Error::OutcomeUnknown { table: table.clone(), detail: detail.to_owned(), source }
            }
            other => other.reading(&format!("change {table}")),
        }
    }
}

/// A database. Each call is one attempt.
#[async_trait]
pub(super) trait Driver: std::fmt::Debug + Send + Sync {
    /// The first column of every row, which is text.
    async fn column(&self, statement: Statement) -> Result<Vec<String>, Fault>;

    /// Runs statements as one transaction, and gives how many rows the last one changed.
    async fn change(&self, statements: Vec<Statement>) -> Result<u64, Fault>;
}

/// A catalog in a database.
#[derive(Debug)]
#[expect(private_bounds, reason = "the drivers are those of this module")]
pub struct SqlCatalog<D: Driver> {
    pub(super) driver: D,
    pub(super) layout: Layout,
    warehouse: String,
    io: FileIO,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

#[expect(private_bounds, reason = "the drivers are those of this module")]
impl<D: Driver> SqlCatalog<D> {
    pub(super) fn over(
        driver: D,
        layout: Layout,
        warehouse: &str,
        io: FileIO,
        (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>),
    ) -> Self {
        Self { driver, layout, warehouse: warehouse.trim_end_matches('/').to_owned(), io, clock, ids }
    }

    async fn pointer(&self, table: &TableName) -> Result<Option<String>, Error> {
        let text = format!(
            "SELECT metadata_location FROM iceberg_tables
             WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3
               AND metadata_location IS NOT NULL{}",
            self.layout.tables_only()
        );
        let found = self.driver.column(Statement::new(text, [NAME, &table.namespace, &table.name])).await;
        Ok(found.map_err(|fault| fault.reading(&format!("look up {table}")))?.pop())
    }
}

/// A new table whose location the layout has no room for would be refused by one database and kept by another.
fn check_location(location: &str) -> Result<(), Error> {
    if location.chars().count() > LOCATION_MAX {
        let why = format!(
            "the table's metadata file has a location of more than {LOCATION_MAX} characters, which an SQL catalog has no room for"
        );
        return Err(Error::failed(Kind::Misconfigured, why).with_remedy("choose a shorter warehouse, or shorter names"));
    }
    Ok(())
}

#[async_trait]
impl<D: Driver> Catalog for SqlCatalog<D> {
    async fn load(&self, table: &TableName) -> Result<Option<Loaded>, Error> {
        match self.pointer(table).await? {
            Some(location) => metadata::read(&self.io, table, &location).await.map(Some),
            None => Ok(None),
        }
    }

    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<Loaded, Error> {
        check_name(table)?;
        // Asked before any file is written, so that a repeated create leaves nothing; the insert below still decides.
        if self.pointer(table).await?.is_some() {
            return Err(Error::AlreadyExists { table: table.clone() });
        }
        let location = creation.location_under(&self.warehouse, table);
        let staged = metadata::create(creation, location, self.clock.now(), self.ids.as_ref())?;
        check_location(&staged.location)?;
        staged.write(&self.io).await?;

        let namespace = "INSERT INTO iceberg_namespace_properties
             (catalog_name, namespace, property_key, property_value) VALUES ($1, $2, 'exists', 'true')
             ON CONFLICT DO NOTHING";
        let (column, value) = match self.layout {
            Layout::V0 => ("", ""),
            Layout::V1 => (", iceberg_type", ", 'TABLE'"),
        };
        let row = format!(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location{column})
             VALUES ($1, $2, $3, $4{value})"
        );
        let inserted = self.driver.change(vec![
            Statement::new(namespace, [NAME, &table.namespace]),
            Statement::new(row, [NAME, &table.namespace, &table.name, &staged.location]),
        ]);
        match inserted.await {
            Ok(_) => Ok(staged.loaded(table.clone())),
            Err(Fault::Taken(_)) => Err(Error::AlreadyExists { table: table.clone() }),
            Err(fault) => Err(fault.writing(table)),
        }
    }

    async fn commit(
        &self,
        base: &Loaded,
        requirements: Vec<TableRequirement>,
        updates: Vec<TableUpdate>,
    ) -> Result<Loaded, Error> {
        let conflict = |detail: String| Err(Error::Conflict { table: base.name.clone(), detail });
        // A look before the swap: a plan that is late writes no file. The swap alone decides.
        match self.pointer(&base.name).await? {
            Some(now) if now == base.metadata_location => {}
            Some(now) => return conflict(format!("its metadata is {now}, no longer {}", base.metadata_location)),
            None => return conflict("it is no longer in the catalog".to_owned()),
        }
        let staged = metadata::stage(base, &requirements, &updates, self.clock.now(), self.ids.as_ref())?;
        staged.write(&self.io).await?;

        let text = format!(
            "UPDATE iceberg_tables SET metadata_location = $1, previous_metadata_location = $2
             WHERE catalog_name = $3 AND table_namespace = $4 AND table_name = $5
               AND metadata_location = $2{}",
            self.layout.tables_only()
        );
        let values = [&staged.location, &base.metadata_location, NAME, &base.name.namespace, &base.name.name];
        match self.driver.change(vec![Statement::new(text, values)]).await {
            Ok(1) => Ok(staged.loaded(base.name.clone())),
            Ok(_) => conflict(format!("its metadata is no longer {}", base.metadata_location)),
            Err(fault) => Err(fault.writing(&base.name)),
        }
    }

    async fn list_namespaces(&self) -> Result<Vec<String>, Error> {
        let text = "SELECT table_namespace FROM iceberg_tables WHERE catalog_name = $1
                    UNION SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = $1";
        let names = self.driver.column(Statement::new(text, [NAME])).await;
        let mut names = names.map_err(|fault| fault.reading("list namespaces"))?;
        // Databases order text each in its own way.
        names.sort();
        Ok(names)
    }

    async fn list_tables(&self, namespace: &str) -> Result<Vec<TableName>, Error> {
        let text = format!(
            "SELECT table_name FROM iceberg_tables WHERE catalog_name = $1 AND table_namespace = $2{}",
            self.layout.tables_only()
        );
        let names = self.driver.column(Statement::new(text, [NAME, namespace])).await;
        let mut names = names.map_err(|fault| fault.reading("list tables"))?;
        names.sort();
        Ok(names.into_iter().map(|name| TableName { namespace: namespace.to_owned(), name }).collect())
    }
}

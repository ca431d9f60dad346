//! A catalog in one SQLite file, in the layout Iceberg's SQL catalogs share (`iceberg_tables`,
//! `iceberg_namespace_properties`; the columns of Iceberg's `JdbcUtil`), so that other engines open the same file:
//! PyIceberg as `SqlCatalog("frazil", uri="sqlite:////DIR/catalog.db", warehouse="file:///DIR/warehouse")`. (The `uri` is
//! decoded there, so a `%` in the folder's name is written `%25`; the warehouse is not.)
//!
//! Several processes may use one file. The swap is a single `UPDATE … WHERE metadata_location = ?`: one row or nothing.
//!
//! The journal stays SQLite's rollback journal: at rest the catalog is one file, which copies whole, opens read-only, and
//! needs no shared memory; a swap is one small row, so the write-ahead log's concurrency would gain nothing. `EXTRA`
//! synchronisation makes an acknowledged swap outlive a power cut, as the metadata file it names already does.
//!
//! SQLite's calls wait for locks and the disk, so each runs on the blocking pool.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use iceberg::io::FileIO;
use iceberg::{TableRequirement, TableUpdate};
use model::clock::Clock;
use model::failure::Kind;
use model::id::Ids;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use super::{Catalog, Error, Loaded, TableCreation, TableName, check_name, metadata};

/// The catalog's name within the file; the layout allows several.
pub const NAME: &str = "frazil";

/// How long a call waits for another process's transaction: many times what one takes (a few syncs), and short enough
/// for a person to see that something holds the file.
const BUSY: Duration = Duration::from_secs(10);

const LAYOUT: &str = "
    CREATE TABLE IF NOT EXISTS iceberg_tables (
        catalog_name VARCHAR(255) NOT NULL,
        table_namespace VARCHAR(255) NOT NULL,
        table_name VARCHAR(255) NOT NULL,
        metadata_location VARCHAR(1000),
        previous_metadata_location VARCHAR(1000),
        iceberg_type VARCHAR(5),
        PRIMARY KEY (catalog_name, table_namespace, table_name)
    );
    CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
        catalog_name VARCHAR(255) NOT NULL,
        namespace VARCHAR(255) NOT NULL,
        property_key VARCHAR(255) NOT NULL,
        property_value VARCHAR(1000) NOT NULL,
        PRIMARY KEY (catalog_name, namespace, property_key)
    );";

/// Catalogs of the layout's first version have no `iceberg_type`, and all their rows are tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
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

/// A catalog in one SQLite file.
#[derive(Debug)]
pub struct SqliteCatalog {
    connection: Arc<Mutex<Connection>>,
    layout: Layout,
    warehouse: String,
    io: FileIO,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl SqliteCatalog {
    /// Opens the catalog at `path`, making file, folder and tables where they are missing.
    ///
    /// `warehouse` is the location under which tables are made by default, such as `file:///data/warehouse`.
    ///
    /// # Errors
    /// `Misconfigured` where the file can't be opened or made; `Corrupt` where it is no SQLite database; `Retry` where
    /// another process holds it too long.
    pub async fn open(
        path: &Path,
        warehouse: &str,
        io: FileIO,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Result<Self, Error> {
        let path = path.to_owned();
        let shown = path.display().to_string();
        let (connection, layout) = tokio::task::spawn_blocking(move || open(&path))
            .await
            .map_err(|e| Error::caused(Kind::Bug, "opening the catalog panicked", e))?
            .map_err(|e| failed(&format!("could not open the catalog {shown}"), e))?;
        let warehouse = warehouse.trim_end_matches('/').to_owned();
        Ok(Self { connection: Arc::new(Mutex::new(connection)), layout, warehouse, io, clock, ids })
    }

    /// Runs one statement's worth of work on the blocking pool. `None`: the work panicked or the pool is gone, so that
    /// nobody knows what was done.
    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Option<rusqlite::Result<T>> {
        let connection = Arc::clone(&self.connection);
        // A connection is sound after a panic elsewhere: each call is one statement or one transaction, rolled back on drop.
        let call = move || work(&connection.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::task::spawn_blocking(call).await.ok()
    }

    async fn read<T: Send + 'static>(
        &self,
        doing: &str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        match self.call(work).await {
            Some(done) => done.map_err(|e| failed(&format!("could not {doing}"), e)),
            None => Err(Error::failed(Kind::Bug, format!("could not {doing}: the call did not return"))),
        }
    }

    async fn pointer(&self, table: &TableName) -> Result<Option<String>, Error> {
        let (layout, key) = (self.layout, table.clone());
        self.read(&format!("look up {table}"), move |connection| {
            let sql = format!(
                "SELECT metadata_location FROM iceberg_tables
                 WHERE catalog_name = ?1 AND table_namespace = ?2 AND table_name = ?3
                   AND metadata_location IS NOT NULL{}",
                layout.tables_only()
            );
            connection
                .prepare_cached(&sql)?
                .query_row(params![NAME, key.namespace, key.name], |row| row.get(0))
                .optional()
        })
        .await
    }
}

fn open(path: &Path) -> rusqlite::Result<(Connection, Layout)> {
    if let Some(folder) = path.parent() {
        // Left to the open below to report: it names what is wrong with the path as a whole.
        drop(std::fs::create_dir_all(folder));
    }
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "synchronous", "EXTRA")?;
    let tables: i64 = connection.query_row(
        "SELECT count(*) FROM sqlite_master
         WHERE type = 'table' AND name IN ('iceberg_tables', 'iceberg_namespace_properties')",
        [],
        |row| row.get(0),
    )?;
    // Asked first, so that a finished catalog opens from a read-only disk.
    if tables < 2 {
        connection.execute_batch(&format!("BEGIN IMMEDIATE; {LAYOUT} COMMIT;"))?;
    }
    let typed: i64 = connection.query_row(
        "SELECT count(*) FROM pragma_table_info('iceberg_tables') WHERE name = 'iceberg_type'",
        [],
        |row| row.get(0),
    )?;
    Ok((connection, if typed == 1 { Layout::V1 } else { Layout::V0 }))
}

#[async_trait]
impl Catalog for SqliteCatalog {
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
        let location = creation
            .location
            .clone()
            .unwrap_or_else(|| format!("{}/{}/{}", self.warehouse, table.namespace, table.name));
        let staged = metadata::create(creation, location, self.clock.now(), self.ids.as_ref())?;
        staged.write(&self.io).await?;

        let (layout, key, location) = (self.layout, table.clone(), staged.location.clone());
        let inserted = self
            .call(move |connection| {
                let transaction =
                    rusqlite::Transaction::new_unchecked(connection, rusqlite::TransactionBehavior::Immediate)?;
                transaction.execute(
                    "INSERT OR IGNORE INTO iceberg_namespace_properties
                     (catalog_name, namespace, property_key, property_value) VALUES (?1, ?2, 'exists', 'true')",
                    params![NAME, key.namespace],
                )?;
                let (column, value) = match layout {
                    Layout::V0 => ("", ""),
                    Layout::V1 => (", iceberg_type", ", 'TABLE'"),
                };
                transaction.execute(
                    &format!(
                        "INSERT INTO iceberg_tables
                         (catalog_name, table_namespace, table_name, metadata_location{column})
                         VALUES (?1, ?2, ?3, ?4{value})"
                    ),
                    params![NAME, key.namespace, key.name, location],
                )?;
                transaction.commit()
            })
            .await;
        match inserted {
            Some(Ok(())) => Ok(staged.loaded(table.clone())),
            Some(Err(e)) if e.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                Err(Error::AlreadyExists { table: table.clone() })
            }
            other => Err(unsettled(table, other.and_then(Result::err))),
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

        let (layout, key) = (self.layout, base.name.clone());
        let (new, old) = (staged.location.clone(), base.metadata_location.clone());
        let swapped = self
            .call(move |connection| {
                let sql = format!(
                    "UPDATE iceberg_tables SET metadata_location = ?1, previous_metadata_location = ?2
                     WHERE catalog_name = ?3 AND table_namespace = ?4 AND table_name = ?5
                       AND metadata_location = ?2{}",
                    layout.tables_only()
                );
                connection.prepare_cached(&sql)?.execute(params![new, old, NAME, key.namespace, key.name])
            })
            .await;
        match swapped {
            Some(Ok(1)) => Ok(staged.loaded(base.name.clone())),
            Some(Ok(_)) => conflict(format!("its metadata is no longer {}", base.metadata_location)),
            other => Err(unsettled(&base.name, other.and_then(Result::err))),
        }
    }

    async fn list_namespaces(&self) -> Result<Vec<String>, Error> {
        self.read("list namespaces", |connection| {
            connection
                .prepare_cached(
                    "SELECT table_namespace FROM iceberg_tables WHERE catalog_name = ?1
                     UNION SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = ?1 ORDER BY 1",
                )?
                .query_map([NAME], |row| row.get(0))?
                .collect()
        })
        .await
    }

    async fn list_tables(&self, namespace: &str) -> Result<Vec<TableName>, Error> {
        let (layout, namespace) = (self.layout, namespace.to_owned());
        self.read("list tables", move |connection| {
            let sql = format!(
                "SELECT table_name FROM iceberg_tables WHERE catalog_name = ?1 AND table_namespace = ?2{} ORDER BY 1",
                layout.tables_only()
            );
            connection
                .prepare_cached(&sql)?
                .query_map([NAME, &namespace], |row| Ok(TableName { namespace: namespace.clone(), name: row.get(0)? }))?
                .collect()
        })
        .await
    }
}

/// The kind of an SQLite failure, and what a person can do about it.
fn kind_of(error: &rusqlite::Error) -> (Kind, &'static str) {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (Kind::Retry, "another process holds the catalog file")
        }
        Some(ErrorCode::DiskFull) => (Kind::Misconfigured, "the disk is full: free some space"),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
            (Kind::Misconfigured, "the catalog file or its folder is read-only for this user")
        }
        Some(ErrorCode::CannotOpen) => {
            (Kind::Misconfigured, "the catalog file can't be opened or made: check its folder and rights")
        }
        Some(ErrorCode::DatabaseCorrupt) => (Kind::Corrupt, "the catalog file is damaged: restore it from a copy"),
        Some(ErrorCode::NotADatabase) => (Kind::Corrupt, "the catalog file is not an SQLite database"),
        Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory | ErrorCode::FileLockingProtocolFailed) => {
            (Kind::Retry, "the disk or the system failed")
        }
        // A table of the layout without its columns, a value of another type: some other program's file.
        Some(ErrorCode::Unknown) | None => {
            (Kind::Corrupt, "the catalog file does not have the layout of an Iceberg SQL catalog")
        }
        _ => (Kind::Bug, "SQLite refused the statement"),
    }
}

fn failed(doing: &str, error: rusqlite::Error) -> Error {
    let (kind, advice) = kind_of(&error);
    Error::caused(kind, format!("{doing}: {advice}"), error)
}

/// The failure of a statement that changes the catalog. SQLite rolls a failed statement back; after an I/O failure or a
/// call that never returned the journal decides later, so the outcome is open.
fn unsettled(table: &TableName, error: Option<rusqlite::Error>) -> Error {
    let table = table.clone();
    match error {
        None => Error::OutcomeUnknown { table, detail: "the call did not return".to_owned(), source: None },
        Some(e) if matches!(e.sqlite_error_code(), Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory)) => {
            let detail = "the disk or the system failed during the swap".to_owned();
            Error::OutcomeUnknown { table, detail, source: Some(e.into()) }
        }
        Some(e) => failed(&format!("could not change {table}"), e),
    }
}

#[cfg(test)]
mod tests;

//! An SQL catalog in one SQLite file, which other engines open: PyIceberg as
//! `SqlCatalog("frazil", uri="sqlite:////DIR/catalog.db", warehouse="file:///DIR/warehouse")`. (The `uri` is decoded there, so a `%` in
//! the folder's name is written `%25`; the warehouse is not.)
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
use model::clock::Clock;
use model::failure::Kind;
use model::id::Ids;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, params_from_iter};

use super::Error;
use super::sql::{Driver, Fault, LAYOUT, Layout, SqlCatalog, Statement};

pub use super::sql::NAME;

/// How long a call waits for another process's transaction: many times what one takes (a few syncs), and short enough
/// for a person to see that something holds the file.
const BUSY: Duration = Duration::from_secs(10);

/// A catalog in one SQLite file.
pub type SqliteCatalog = SqlCatalog<File>;

/// A database in a file.
#[derive(Debug)]
pub struct File {
    connection: Arc<Mutex<Connection>>,
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
        let driver = File { connection: Arc::new(Mutex::new(connection)) };
        Ok(Self::over(driver, layout, warehouse, io, (clock, ids)))
    }
}

impl File {
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
}

#[async_trait]
impl Driver for File {
    async fn column(&self, Statement { text, values }: Statement) -> Result<Vec<String>, Fault> {
        let done = self.call(move |connection| {
            connection.prepare_cached(&text)?.query_map(params_from_iter(values), |row| row.get(0))?.collect()
        });
        match done.await {
            Some(done) => done.map_err(fault),
            None => Err(Fault::Failed { kind: Kind::Bug, advice: "the call did not return", source: None }),
        }
    }

    async fn change(&self, statements: Vec<Statement>) -> Result<u64, Fault> {
        let done = self.call(move |connection| {
            let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            let mut rows = 0;
            for Statement { text, values } in statements {
                rows = transaction.prepare_cached(&text)?.execute(params_from_iter(values))?;
            }
            transaction.commit()?;
            Ok(rows as u64)
        });
        match done.await {
            Some(Ok(rows)) => Ok(rows),
            // SQLite rolls a failed statement back; after an I/O failure the journal decides later, so the outcome is open.
            Some(Err(e))
                if matches!(e.sqlite_error_code(), Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory)) =>
            {
                Err(Fault::Open { detail: "the disk or the system failed during the swap", source: Some(e.into()) })
            }
            Some(Err(e)) if e.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                Err(Fault::Taken(e.into()))
            }
            Some(Err(e)) => Err(fault(e)),
            None => Err(Fault::Open { detail: "the call did not return", source: None }),
        }
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
        connection.execute_batch(&format!("BEGIN IMMEDIATE; {}; COMMIT;", LAYOUT.join("; ")))?;
    }
    let typed: i64 = connection.query_row(
        "SELECT count(*) FROM pragma_table_info('iceberg_tables') WHERE name = 'iceberg_type'",
        [],
        |row| row.get(0),
    )?;
    Ok((connection, if typed == 1 { Layout::V1 } else { Layout::V0 }))
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

fn fault(error: rusqlite::Error) -> Fault {
    let (kind, advice) = kind_of(&error);
    Fault::Failed { kind, advice, source: Some(error.into()) }
}

fn failed(doing: &str, error: rusqlite::Error) -> Error {
    let (kind, advice) = kind_of(&error);
    Error::caused(kind, format!("{doing}: {advice}"), error)
}

#[cfg(test)]
mod tests;

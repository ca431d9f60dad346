//! The contract of catalogs, on the one in SQLite.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use iceberg::io::FileIO;
use model::clock::{ManualClock, Timestamp};
use model::id::SeededIds;
use rusqlite::{Connection, params};
use table::catalog::sqlite::{NAME, SqliteCatalog};
use table::catalog::{Catalog, TableName};
use table::storage;
use testkit::catalog::contract::{self, Bench};

struct Sqlite(PathBuf, Arc<SeededIds>);

impl Sqlite {
    fn file(&self) -> PathBuf {
        self.0.join("made/catalog.db")
    }
}

#[async_trait]
impl Bench for Sqlite {
    async fn open(&self) -> Arc<dyn Catalog> {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        let warehouse = storage::location_of(&self.0.join("ware house%20")).unwrap();
        Arc::new(SqliteCatalog::open(&self.file(), &warehouse, self.io(), clock, self.1.clone()).await.unwrap())
    }

    fn io(&self) -> FileIO {
        storage::local()
    }

    async fn forget(&self, table: &TableName) -> bool {
        let sql = "DELETE FROM iceberg_tables WHERE catalog_name = ?1 AND table_namespace = ?2 AND table_name = ?3";
        let connection = Connection::open(self.file()).unwrap();
        connection.execute(sql, params![NAME, table.namespace, table.name]).unwrap() == 1
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_sqlite_catalog_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    contract::kept(&Sqlite(dir.path().to_owned(), Arc::new(SeededIds::new(1))), "SQLite").await;
}

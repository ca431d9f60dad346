//! The contract of catalogs, on a PostgreSQL server. `./test` starts one and runs these with `--ignored`.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "all of it is test code, with its own settings"
)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use iceberg::io::FileIO;
use model::clock::{Clock, ManualClock, Timestamp};
use model::failure::Kind;
use model::id::{Ids, SeededIds};
use table::catalog::postgres::PostgresCatalog;
use table::catalog::{Catalog, Error, TableName};
use table::storage;
use testkit::catalog::contract::{self, Bench};
use testkit::catalog::wire::{Refusal, Wire, holds};
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};

/// A database of its own on the server that the environment names, and a folder for tables.
struct Postgres {
    config: Config,
    folder: PathBuf,
    ids: Arc<SeededIds>,
}

async fn client(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    drop(tokio::spawn(connection));
    client
}

impl Postgres {
    async fn new(database: &str, folder: PathBuf) -> Self {
        let server = std::env::var("FRAZIL_TEST_POSTGRES").expect("FRAZIL_TEST_POSTGRES says how to connect");
        let mut config: Config = server.parse().unwrap();
        assert!(matches!(config.get_hosts(), [Host::Tcp(host)] if host == "127.0.0.1"), "{server}");
        let administrator = client(&config).await;
        administrator.batch_execute(&format!("DROP DATABASE IF EXISTS {database} WITH (FORCE)")).await.unwrap();
        administrator.batch_execute(&format!("CREATE DATABASE {database}")).await.unwrap();
        config.dbname(database);
        Self { config, folder, ids: Arc::new(SeededIds::new(11)) }
    }

    fn means(&self) -> (Arc<dyn Clock>, Arc<dyn Ids>) {
        (Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000))), self.ids.clone())
    }

    async fn catalog(&self, config: Config) -> Result<PostgresCatalog<NoTls>, Error> {
        let warehouse = storage::location_of(&self.folder).unwrap();
        PostgresCatalog::open(config, NoTls, &warehouse, self.io(), self.means()).await
    }

    /// A role that may log in and read, made anew.
    async fn role(&self, name: &str) -> Config {
        let sql = format!(
            "DO $$ BEGIN CREATE ROLE {name} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
             ALTER ROLE {name} CONNECTION LIMIT -1;
             GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name};"
        );
        client(&self.config).await.batch_execute(&sql).await.unwrap();
        let mut config = self.config.clone();
        config.user(name);
        config
    }
}

/// A value that is bound to a statement is in a message of its own: that of a swap binds two metadata files.
fn is_swap(request: &[u8]) -> bool {
    const FILE: &[u8] = b".metadata.json";
    let after = |bytes: &[u8]| bytes.windows(FILE.len()).position(|window| window == FILE).map(|at| at + FILE.len());
    request.starts_with(b"B") && after(request).is_some_and(|at| holds(&request[at..], FILE))
}

/// What binds values ends with the request to be answered (`Sync`); the rest is passed on as it comes.
fn is_whole(request: &[u8]) -> bool {
    !request.starts_with(b"B") || request.ends_with(b"S\0\0\0\x04")
}

#[async_trait]
impl Bench for Postgres {
    async fn open(&self) -> Arc<dyn Catalog> {
        Arc::new(self.catalog(self.config.clone()).await.unwrap())
    }

    fn io(&self) -> FileIO {
        storage::local()
    }

    fn wire(&self) -> Option<Wire> {
        let service = SocketAddr::from(([127, 0, 0, 1], self.config.get_ports()[0]));
        Some(Wire { service, is_whole, is_commit: is_swap, refusal: |_| None })
    }

    async fn through(&self, service: SocketAddr) -> Option<Arc<dyn Catalog>> {
        let mut config = Config::new();
        config.host("127.0.0.1").port(service.port()).user(self.config.get_user().unwrap());
        config.dbname(self.config.get_dbname().unwrap());
        Some(Arc::new(self.catalog(config).await.unwrap()))
    }

    async fn refusing(&self, refusal: Refusal) -> Option<Arc<dyn Catalog>> {
        let name = match refusal {
            Refusal::Throttled => "frazil_one_too_many",
            Refusal::Denied => "frazil_reader",
        };
        let catalog = self.catalog(self.role(name).await).await.unwrap();
        if refusal == Refusal::Throttled {
            // Its connection goes, and it may make no other.
            let sql = format!(
                "ALTER ROLE {name} CONNECTION LIMIT 0;
                 SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{name}'"
            );
            client(&self.config).await.batch_execute(&sql).await.unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Some(Arc::new(catalog))
    }

    async fn forget(&self, table: &TableName) -> bool {
        let sql = "DELETE FROM iceberg_tables WHERE table_namespace = $1 AND table_name = $2";
        client(&self.config).await.execute(sql, &[&table.namespace, &table.name]).await.unwrap() == 1
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a PostgreSQL server: ./test runs it"]
async fn a_catalog_in_postgresql_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let database = Postgres::new("frazil_contract", dir.path().to_owned()).await;
    // Its tables are made by all that open it first, at once.
    let (one, two, three) = tokio::join!(database.open(), database.open(), database.open());
    drop((one, two, three));
    contract::kept(&database, "PostgreSQL").await;
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: ./test runs it"]
async fn what_is_wrong_with_the_server_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let database = Postgres::new("frazil_wrong", dir.path().to_owned()).await;
    let check = async |config: Config, kind: Kind, words: &str| {
        let error = database.catalog(config).await.unwrap_err();
        assert_eq!((error.kind(), error.to_string().contains(words)), (kind, true), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    };
    let with = |change: &dyn Fn(&mut Config)| {
        let mut config = database.config.clone();
        config.password("hunter2");
        change(&mut config);
        config
    };
    check(
        with(&|c| {
            c.dbname("frazil_nowhere");
        }),
        Kind::Misconfigured,
        "no such database",
    )
    .await;
    check(
        with(&|c| {
            c.user("frazil_nobody");
        }),
        Kind::Misconfigured,
        "does not let this role in",
    )
    .await;
    let mut nowhere = Config::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    nowhere.host("127.0.0.1").port(free.port()).user("frazil").password("hunter2");
    check(nowhere, Kind::Retry, "could not be reached").await;
    // Who may make no tables, where there are none.
    let reader = database.role("frazil_reader").await;
    check(reader, Kind::Misconfigured, "CREATE on the schema").await;

    let connection = client(&database.config).await;
    let sql = "CREATE TABLE iceberg_tables (a INT); CREATE TABLE iceberg_namespace_properties (b INT)";
    connection.batch_execute(sql).await.unwrap();
    let foreign = database.catalog(database.config.clone()).await.unwrap();
    let name = TableName { namespace: "ns".to_owned(), name: "t".to_owned() };
    let error = foreign.load(&name).await.unwrap_err();
    assert_eq!((error.kind(), error.to_string().contains("layout")), (Kind::Corrupt, true), "{error}");
    let sql = "ALTER ROLE frazil_reader SET default_transaction_read_only = on; DROP TABLE iceberg_tables;
               DROP TABLE iceberg_namespace_properties; GRANT ALL ON SCHEMA public TO frazil_reader";
    connection.batch_execute(sql).await.unwrap();
    check(database.role("frazil_reader").await, Kind::Misconfigured, "read-only").await;
    connection.batch_execute("ALTER ROLE frazil_reader RESET default_transaction_read_only").await.unwrap();
}

/// A connection that broke while nobody used it is made again, unseen.
#[tokio::test]
#[ignore = "needs a PostgreSQL server: ./test runs it"]
async fn a_connection_that_ended_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let database = Postgres::new("frazil_ended", dir.path().to_owned()).await;
    let catalog = database.catalog(database.config.clone()).await.unwrap();
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = 'frazil_ended' AND pid <> pg_backend_pid()";
    client(&database.config).await.batch_execute(sql).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(catalog.list_namespaces().await.unwrap(), Vec::<String>::new());
}

/// PyIceberg's catalog opens what ours made, commits to it and makes a table beside it; ours goes on with both.
#[tokio::test]
#[ignore = "needs a PostgreSQL server and PyIceberg: ./test runs it"]
async fn pyiceberg_shares_the_catalog() {
    let dir = tempfile::tempdir().unwrap();
    let database = Postgres::new("frazil_shared", dir.path().to_owned()).await;
    let catalog = database.catalog(database.config.clone()).await.unwrap();
    let name = |name: &str| TableName { namespace: "shared".to_owned(), name: name.to_owned() };
    let base = catalog.create(&name("ours"), contract::creation()).await.unwrap();

    let python = std::env::var_os("FRAZIL_TEST_PYTHON").expect("FRAZIL_TEST_PYTHON names a Python with PyIceberg");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/interop/sql_catalog.py");
    let port = database.config.get_ports()[0];
    let uri = format!("postgresql+psycopg2://frazil@127.0.0.1:{port}/frazil_shared");
    let warehouse = storage::location_of(dir.path()).unwrap();
    let arguments = ["--uri", &uri, "--warehouse", &warehouse, "--table", "shared.ours", "--makes", "theirs"];
    let done = std::process::Command::new(python).arg(script).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));

    let stale = catalog.commit(&base, vec![], vec![]).await.unwrap_err();
    assert_eq!(stale.kind(), Kind::Conflict, "{stale}");
    let now = catalog.load(&name("ours")).await.unwrap().unwrap();
    let added = &now.metadata.current_snapshot().unwrap().summary().additional_properties["total-records"];
    assert_eq!(added, "3");
    catalog.commit(&now, vec![], vec![]).await.unwrap();
    assert!(catalog.load(&name("theirs")).await.unwrap().is_some());
    assert_eq!(catalog.list_tables("shared").await.unwrap(), [name("ours"), name("theirs")]);
}

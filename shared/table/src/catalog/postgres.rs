//! An SQL catalog in PostgreSQL, which other engines open: PyIceberg as
//! `SqlCatalog("frazil", uri="postgresql+psycopg2://…", warehouse="s3://…")`, Iceberg's `JdbcCatalog` with `jdbc.schema-version` V1.
//!
//! Tables are in the first schema of the connection's search path. Who connects and how, with TLS or without, is the caller's to say:
//! a handle makes one connection, and another when that is gone. Nothing is sent twice.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use iceberg::io::FileIO;
use model::clock::Clock;
use model::failure::Kind;
use model::id::Ids;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::{ToSql, WasNull, WrongType};
use tokio_postgres::{Client, Config, Socket};

use super::Error;
use super::sql::{Driver, Fault, LAYOUT, Layout, SqlCatalog, Statement};

/// How long a call may take, and how long making a connection. A statement touches one row; a late answer is one that nobody heard.
const CALL: Duration = Duration::from_secs(20);

/// Who makes the layout's tables holds this lock meanwhile: `CREATE TABLE IF NOT EXISTS` fails where two make one table at once. The
/// number is ours alone: "frazil" in ASCII.
const LAYOUT_LOCK: &str = "SELECT pg_advisory_xact_lock(112624706742636)";

/// A catalog in PostgreSQL.
pub type PostgresCatalog<T> = SqlCatalog<Database<T>>;

/// What makes connections, with TLS or without.
pub trait Connector:
    MakeTlsConnect<Socket, Stream: Send + 'static, TlsConnect: TlsConnect<Socket, Future: Send> + Send>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<T> Connector for T where
    T: MakeTlsConnect<Socket, Stream: Send + 'static, TlsConnect: TlsConnect<Socket, Future: Send> + Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// A database on a server.
pub struct Database<T> {
    config: Config,
    tls: T,
    session: Mutex<Option<Session>>,
}

/// A connection, and the task that carries it: dropped, it ends.
struct Session {
    client: Client,
    _task: JoinSet<()>,
}

impl<T> fmt::Debug for Database<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration holds a password.
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

impl<T: Connector> PostgresCatalog<T> {
    /// Connects, and makes the layout's tables where they are missing.
    ///
    /// `warehouse` is the location under which tables are made by default, such as `s3://bucket/warehouse`.
    ///
    /// # Errors
    /// `Retry` where the server can't be reached; `Misconfigured` where it lets nobody in who is called so, or has no such database;
    /// `Corrupt` where tables of these names are something else.
    pub async fn open(
        config: Config,
        tls: T,
        warehouse: &str,
        io: FileIO,
        (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>),
    ) -> Result<Self, Error> {
        let database = Database { config, tls, session: Mutex::new(None) };
        let layout = database.layout().await.map_err(|fault| fault.reading("open the catalog"))?;
        Ok(Self::over(database, layout, warehouse, io, (clock, ids)))
    }
}

impl<T: Connector> Database<T> {
    /// A call on the connection. One that failed on the way is not used again.
    async fn call<R, F>(&self, work: impl FnOnce(Session) -> F + Send) -> Result<R, Fault>
    where
        F: Future<Output = (Session, Result<R, tokio_postgres::Error>)> + Send,
        R: Send,
    {
        // One call at a time: a connection knows one transaction.
        let mut kept = self.session.lock().await;
        let session = match kept.take().filter(|session| !session.client.is_closed()) {
            Some(session) => session,
            None => self.connect().await?,
        };
        let Ok((session, outcome)) = tokio::time::timeout(CALL, work(session)).await else {
            return Err(Fault::Open { detail: "PostgreSQL did not answer in time", source: None });
        };
        if !session.client.is_closed() {
            *kept = Some(session);
        }
        outcome.map_err(fault)
    }

    async fn connect(&self) -> Result<Session, Fault> {
        let connecting = self.config.connect(self.tls.clone());
        let connected = tokio::time::timeout(CALL, connecting).await.map_err(|_| Fault::Failed {
            kind: Kind::Retry,
            advice: "PostgreSQL could not be reached in time",
            source: None,
        })?;
        let (client, connection) = connected.map_err(unconnected)?;
        let mut task = JoinSet::new();
        // What ends it is told by the client's calls.
        task.spawn(async move { drop(connection.await) });
        Ok(Session { client, _task: task })
    }

    async fn layout(&self) -> Result<Layout, Fault> {
        const TABLES: &str =
            "SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema()
             AND table_name IN ('iceberg_tables', 'iceberg_namespace_properties')";
        const TYPED: &str =
            "SELECT column_name::text FROM information_schema.columns WHERE table_schema = current_schema()
             AND table_name = 'iceberg_tables' AND column_name = 'iceberg_type'";
        let all = |text: &str| Statement { text: text.to_owned(), values: Vec::new() };
        // Asked first, so that who may make no table opens a finished catalog.
        if self.column(all(TABLES)).await?.len() < 2 {
            let made = [LAYOUT_LOCK].into_iter().chain(LAYOUT).map(all).collect();
            self.change(made).await?;
        }
        let is_typed = !self.column(all(TYPED)).await?.is_empty();
        Ok(if is_typed { Layout::V1 } else { Layout::V0 })
    }
}

fn parameters(values: &[String]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

#[async_trait]
impl<T: Connector> Driver for Database<T> {
    async fn column(&self, Statement { text, values }: Statement) -> Result<Vec<String>, Fault> {
        self.call(|session| async move {
            let rows = session.client.query(&text, &parameters(&values)).await;
            let column = rows.and_then(|rows| rows.iter().map(|row| row.try_get(0)).collect());
            (session, column)
        })
        .await
    }

    async fn change(&self, statements: Vec<Statement>) -> Result<u64, Fault> {
        self.call(|mut session| async move {
            let changed = change(&mut session.client, &statements).await;
            (session, changed)
        })
        .await
    }
}

async fn change(client: &mut Client, statements: &[Statement]) -> Result<u64, tokio_postgres::Error> {
    // A statement alone is a transaction of its own: what it answers is the answer to the commit.
    if let [Statement { text, values }] = statements {
        return client.execute(text, &parameters(values)).await;
    }
    let transaction = client.transaction().await?;
    let mut rows = 0;
    for Statement { text, values } in statements {
        rows = transaction.execute(text, &parameters(values)).await?;
    }
    transaction.commit().await?;
    Ok(rows)
}

/// What the server said of a statement, or that it said nothing.
fn fault(error: tokio_postgres::Error) -> Fault {
    const LAYOUT: &str = "the database does not have the layout of an Iceberg SQL catalog";
    let Some(code) = error.code() else {
        // A column that is no text is found out here; whatever else is the connection.
        return match is_conversion(&error) {
            true => failed(Kind::Corrupt, LAYOUT, error),
            false => Fault::Open { detail: "the connection to PostgreSQL broke off", source: Some(error.into()) },
        };
    };
    let (kind, advice) = match code {
        code if *code == SqlState::UNIQUE_VIOLATION => return Fault::Taken(error.into()),
        code if is_ending(code) => {
            return Fault::Open { detail: "PostgreSQL ended the connection", source: Some(error.into()) };
        }
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE => (
            Kind::Misconfigured,
            "give the role SELECT, INSERT and UPDATE on iceberg_tables and iceberg_namespace_properties, and CREATE on the schema where they are missing",
        ),
        code if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
            (Kind::Misconfigured, "the server is read-only, a standby perhaps: connect to the primary one")
        }
        code if *code == SqlState::DISK_FULL => (Kind::Misconfigured, "the server's disk is full: free some space"),
        code if [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN].contains(code) => (Kind::Corrupt, LAYOUT),
        code if *code == SqlState::INVALID_SCHEMA_NAME => {
            (Kind::Misconfigured, "there is no schema to make tables in: make one, or set the role's search_path")
        }
        // Rolled back: deadlocks and serialisation (40), resources (53), locks (55), cancelled and shut down (57).
        code if ["40", "53", "55", "57"].iter().any(|class| code.code().starts_with(class)) => {
            (Kind::Retry, "PostgreSQL can't do it now")
        }
        _ => (Kind::Bug, "PostgreSQL refused the statement"),
    };
    failed(kind, advice, error)
}

/// What the server says as it ends a connection, while a statement may have been done.
fn is_ending(code: &SqlState) -> bool {
    let ends = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::TRANSACTION_RESOLUTION_UNKNOWN];
    ends.contains(code) || code.code().starts_with("08")
}

fn is_conversion(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<WasNull>() || source.is::<WrongType>())
}

/// Why there is no connection: nothing was asked.
fn unconnected(error: tokio_postgres::Error) -> Fault {
    let (kind, advice) = match error.code() {
        Some(code) if code.code().starts_with("28") => {
            (Kind::Misconfigured, "PostgreSQL does not let this role in: check its name, its password, and pg_hba.conf")
        }
        Some(code) if *code == SqlState::INVALID_CATALOG_NAME => {
            (Kind::Misconfigured, "there is no such database: make it, or name another one")
        }
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            (Kind::Misconfigured, "give the role CONNECT on the database")
        }
        Some(_) => (Kind::Retry, "PostgreSQL can't take the connection now"),
        None => (Kind::Retry, "PostgreSQL could not be reached"),
    };
    failed(kind, advice, error)
}

fn failed(kind: Kind, advice: &'static str, error: tokio_postgres::Error) -> Fault {
    Fault::Failed { kind, advice, source: Some(error.into()) }
}

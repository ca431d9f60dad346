//! A catalog that does what a script says to chosen calls, and what the catalog under it does otherwise.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use iceberg::io::FileIO;
use iceberg::{TableRequirement, TableUpdate};
use model::clock::Timestamp;
use model::failure::Kind;
use model::id::Ids;
use table::catalog::{Catalog, Error, Loaded, TableCreation, TableName};
use table::snapshot::{self, Change, Terms};

/// What happens to one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not applied; the answer is a conflict, though nobody else committed.
    Conflict,
    /// Not applied; the answer says to try later.
    Refused,
    /// Applied; the answer is lost.
    AnswerLost,
    /// Applied; the answer is lost, and another writer commits before anyone can look.
    AnswerLostThenOvertaken,
    /// Applied; a layer between sent it twice, and the answer to the second is a conflict.
    AnsweredTwice,
    /// Not applied; no answer.
    Lost,
    /// Not applied yet; no answer. Arrives just before the next commit of anyone, or when told to.
    Late,
    /// Applied, after others had this many turns to run.
    Delayed(u32),
    /// Somebody sets a property first, and the answer is that the plan does not go with the table: a catalog that compares
    /// requirements alone. Only where a script says so: what is no conflict by its kind is for few tests.
    Unsuited,
}

/// The kinds of faults that are drawn.
const FAULTS: [Fault; 8] = [
    Fault::Conflict,
    Fault::Refused,
    Fault::AnswerLost,
    Fault::AnswerLostThenOvertaken,
    Fault::AnsweredTwice,
    Fault::Lost,
    Fault::Late,
    Fault::Delayed(3),
];

#[derive(Debug, Default)]
struct Script {
    /// Faults by number of commit, from 0.
    commits: BTreeMap<u64, Fault>,
    /// Chance of a fault at every other commit, in a thousand.
    per_mille: u64,
    /// The call, counted from 0 over all methods, at which the process dies.
    kill_at: Option<u64>,
    calls: u64,
    commits_seen: u64,
    dead: bool,
    /// Tables that are not given out, and how that fails.
    refused: BTreeMap<TableName, Kind>,
    late: Vec<(Loaded, Vec<TableRequirement>, Vec<TableUpdate>)>,
    trace: Vec<String>,
}

/// A catalog that fails on a script. Clones share script and counters.
#[derive(Clone, Debug)]
pub struct FaultyCatalog {
    inner: Arc<dyn Catalog>,
    io: FileIO,
    ids: Arc<dyn Ids>,
    script: Arc<Mutex<Script>>,
}

impl FaultyCatalog {
    /// Passes everything on. `io` and `ids` serve the other writer of [`Fault::AnswerLostThenOvertaken`] and the draws.
    #[must_use]
    pub fn new(inner: Arc<dyn Catalog>, io: FileIO, ids: Arc<dyn Ids>) -> Self {
        Self { inner, io, ids, script: Arc::default() }
    }

    /// Does `fault` to the `n`th commit, counted from 0.
    #[must_use]
    pub fn at_commit(self, n: u64, fault: Fault) -> Self {
        self.script().commits.insert(n, fault);
        self
    }

    /// Draws a fault for `per_mille` of a thousand commits.
    #[must_use]
    pub fn with_chance(self, per_mille: u64) -> Self {
        self.script().per_mille = per_mille;
        self
    }

    /// Dies at the `n`th call, counted from 0 over all methods: it and every later one fail and do nothing.
    #[must_use]
    pub fn kill_at(self, n: u64) -> Self {
        self.script().kill_at = Some(n);
        self
    }

    /// Gives these tables out to nobody: loading one fails so.
    #[must_use]
    pub fn refusing(self, tables: impl IntoIterator<Item = TableName>, kind: Kind) -> Self {
        self.script().refused.extend(tables.into_iter().map(|table| (table, kind)));
        self
    }

    /// Calls so far, the failed ones included.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.script().calls
    }

    /// Whether it was killed.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.script().dead
    }

    /// What was done to each commit, in order.
    #[must_use]
    pub fn trace(&self) -> Vec<String> {
        self.script().trace.clone()
    }

    /// Lets commits that were late arrive now; each is applied or refused as it comes.
    pub async fn arrive(&self) {
        let late = std::mem::take(&mut self.script().late);
        for (base, requirements, updates) in late {
            let outcome = match self.inner.commit(&base, requirements, updates).await {
                Ok(_) => "late commit applied".to_owned(),
                Err(e) => format!("late commit refused: {}", e.kind()),
            };
            self.script().trace.push(outcome);
        }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self) -> Result<(), Error> {
        let mut script = self.script();
        if script.kill_at == Some(script.calls) {
            script.dead = true;
        }
        script.calls += 1;
        if script.dead { Err(Error::failed(Kind::Retry, "the process was killed")) } else { Ok(()) }
    }

    fn fault(&self) -> Option<Fault> {
        let mut script = self.script();
        let n = script.commits_seen;
        script.commits_seen += 1;
        let drawn = script.per_mille > 0 && self.ids.next_u64() % 1000 < script.per_mille;
        let fault = script.commits.get(&n).copied().or_else(|| {
            let at = usize::try_from(self.ids.next_u64() % FAULTS.len() as u64).unwrap_or(0);
            drawn.then(|| FAULTS.get(at).copied()).flatten()
        });
        script.trace.push(format!("commit {n}: {fault:?}"));
        fault
    }

    /// Another writer: an empty snapshot on whatever is there.
    async fn overtake(&self, table: &TableName) -> Result<(), Error> {
        let Some(base) = self.inner.load(table).await? else { return Ok(()) };
        let terms = Terms {
            time: Timestamp::from_millis(base.metadata.last_updated_ms()),
            summary: [("written-by".to_owned(), "somebody else".to_owned())].into(),
            properties: BTreeMap::new(),
        };
        let attempt = snapshot::prepare(&base, Change::append(Vec::new()), terms, &self.io, self.ids.as_ref())
            .await
            .map_err(|e| Error::caused(e.kind(), "the other writer could not write", e))?;
        self.inner.commit(&base, attempt.requirements().to_vec(), attempt.updates().to_vec()).await.map(drop)
    }
}

#[async_trait]
impl Catalog for FaultyCatalog {
    async fn load(&self, table: &TableName) -> Result<Option<Loaded>, Error> {
        self.enter()?;
        if let Some(kind) = self.script().refused.get(table) {
            return Err(Error::failed(*kind, format!("{table} is refused")));
        }
        self.inner.load(table).await
    }

    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<Loaded, Error> {
        self.enter()?;
        self.inner.create(table, creation).await
    }

    async fn commit(
        &self,
        base: &Loaded,
        requirements: Vec<TableRequirement>,
        updates: Vec<TableUpdate>,
    ) -> Result<Loaded, Error> {
        self.enter()?;
        let fault = self.fault();
        self.arrive().await;
        let unknown = |detail: &str| {
            Err(Error::OutcomeUnknown { table: base.name.clone(), detail: detail.to_owned(), source: None })
        };
        let conflict = |detail: &str| Err(Error::Conflict { table: base.name.clone(), detail: detail.to_owned() });
        match fault {
            None => self.inner.commit(base, requirements, updates).await,
            Some(Fault::Conflict) => conflict("so the script says"),
            Some(Fault::Refused) => Err(Error::failed(Kind::Retry, "try later")),
            Some(Fault::AnswerLost) => {
                self.inner.commit(base, requirements, updates).await?;
                unknown("503 after it was applied")
            }
            Some(Fault::AnswerLostThenOvertaken) => {
                self.inner.commit(base, requirements, updates).await?;
                self.overtake(&base.name).await?;
                unknown("503 after it was applied")
            }
            Some(Fault::AnsweredTwice) => {
                self.inner.commit(base, requirements, updates).await?;
                conflict("409 to what was sent twice")
            }
            Some(Fault::Lost) => unknown("503, and nothing was applied"),
            Some(Fault::Late) => {
                self.script().late.push((base.clone(), requirements, updates));
                unknown("timed out on the way")
            }
            Some(Fault::Unsuited) => {
                let updates = [("comment".to_owned(), "set by somebody else".to_owned())].into();
                self.inner.commit(base, Vec::new(), vec![TableUpdate::SetProperties { updates }]).await?;
                Err(Error::failed(Kind::Bug, "400: the snapshot is older than the table's last update"))
            }
            Some(Fault::Delayed(turns)) => {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                self.inner.commit(base, requirements, updates).await
            }
        }
    }

    async fn list_namespaces(&self) -> Result<Vec<String>, Error> {
        self.enter()?;
        self.inner.list_namespaces().await
    }

    async fn list_tables(&self, namespace: &str) -> Result<Vec<TableName>, Error> {
        self.enter()?;
        self.inner.list_tables(namespace).await
    }
}

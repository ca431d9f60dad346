//! A pipeline of many tables. Each has a ledger of its own and is folded by itself; what they share is the listing, and the
//! footers that it took to see which tables have rows.
//!
//! Which tables there are is kept in the store, a key for each: before any table's commit can pass an object, the keys of
//! all tables that it has rows for are durable. A table without a ledger begins with the oldest object that is kept, so
//! whatever became of the run that met it, its rows are found.
//!
//! A run folds the tables that have rows among what is new. Another one's ledger may stay behind what is staged, for an hour
//! or so many objects: it would only say that nothing of them is the table's. A table whose fold failed, or left something,
//! is named in the run's note, and folded by the next run whatever is new; without that note all of them are. So are those that
//! have rows in what one table's fold listed by itself, others having come between: it may settle what the run never saw.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use model::clock::Timestamp;
use model::coordinate::Coordinate;
use model::failure::Kind;
use model::ledger::{self, Epoch};
use model::mutation::{self, Mutation};
use model::run::{Run, State as Stands};
use pipeline::resolved::TableName;
use staging::key;
use staging::list::Listed;
use staging::store;

use crate::budget::Budget;
use crate::error::Error;
use crate::evidence;
use crate::history;
use crate::intake::{self, Intake, Shared};
use crate::ledger_property;
use crate::plan::Plan;
use crate::report::{Report, TableFailure, TableReport};
use crate::run::Fold;
use crate::state::State;

/// How many times as many tables as are folded may be known. Each fold asks the catalog for each of them.
const KNOWN_TIMES_MAX: usize = 10;
/// How long a table's ledger may stay behind objects that have no row for it.
const BEHIND_MICROS_MAX: i64 = 3_600_000_000;
/// How many such objects it may stay behind. When a row comes, their footers are read for it.
const BEHIND_OBJECTS_MAX: usize = 1000;

/// What a run has found of a table before it folds it.
#[derive(Debug)]
pub(crate) struct Given {
    /// The table's state when the listing began; absent where there was no table.
    pub(crate) state: Option<State>,
    pub(crate) shared: Arc<Shared>,
}

/// What a run knows of the tables beside the one that it folds.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// Topics that have begun anew in some of them.
    pub(crate) begun: Vec<Epoch>,
    /// Those whose keys are durable.
    pub(crate) known: BTreeSet<TableName>,
}

/// A table that a run may fold.
struct Candidate {
    state: Option<State>,
    folded: BTreeSet<String>,
}

impl Candidate {
    fn is_new(&self) -> bool {
        self.state.as_ref().is_none_or(|state| state.first_run)
    }
}

impl Fold {
    /// The fold of one of the pipeline's tables.
    #[must_use]
    pub fn of(&self, table: &TableName) -> Self {
        Self { pipeline: Arc::new(self.pipeline.of(table)), ..self.clone() }
    }

    /// The pipeline's tables: the only one, or those that were met so far.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn tables(&self) -> Result<BTreeSet<TableName>, Error> {
        if !self.pipeline.has_many() {
            return Ok(BTreeSet::from([self.pipeline.table.name.clone()]));
        }
        let prefix = key::tables_prefix(&self.id);
        let mut tables = BTreeSet::new();
        for key in store::keys(self.store.as_ref(), &prefix, None).await? {
            match key.strip_prefix(&prefix).and_then(|name| name.parse().ok()) {
                Some(table) => drop(tables.insert(table)),
                None => tracing::warn!(key, "this is not the name of a table"),
            }
        }
        Ok(tables)
    }

    /// Makes the keys of tables that some objects have rows for, where they are not known yet. Those that are not the
    /// pipeline's are no affair of this.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn meet<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        known: &mut BTreeSet<TableName>,
    ) -> Result<(), Error> {
        for name in names {
            let Some(table) = self.taken(name).filter(|table| !known.contains(table)) else { continue };
            if !self.settings.dry_run && !mutation::on(Mutation::TablesMetLate) {
                self.store.put_new(&key::table(&self.id, name), Bytes::from(format!("{name}\n"))).await?;
            }
            known.insert(table);
        }
        Ok(())
    }

    /// The table of this name, where it may be one of the pipeline's.
    fn taken(&self, name: &str) -> Option<TableName> {
        name.parse().ok().filter(|table| self.pipeline.takes(table))
    }

    /// Whether rows for a table are the pipeline's: it is known, or may be met.
    pub(crate) fn is_met(&self, name: &str, known: &BTreeSet<TableName>) -> bool {
        self.taken(name).is_some() || name.parse().is_ok_and(|table| known.contains(&table))
    }

    /// Whether a plan says nothing of this table but that what is staged is not its own, which can wait.
    pub(crate) fn may_wait(&self, state: &State, intake: &Intake, plan: &Plan) -> bool {
        if self.pipeline.route.is_none() {
            return false;
        }
        let name = self.pipeline.table.name.to_string();
        let spoken = plan.judgement.admitted.iter().zip(&plan.judgement.stale);
        let has_rows = intake
            .objects
            .iter()
            .zip(spoken)
            .any(|(found, (a, s))| (!a.is_empty() || !s.is_empty()) && found.footer.table(&name).is_some());
        !has_rows
            && !is_due(state, intake.objects.len(), intake.date)
            && !history::anchor_due(&state.loaded.metadata, &self.id, intake.date)
    }

    /// Folds every table that has something to fold.
    ///
    /// # Errors
    /// What keeps every table from being folded. One table's failure is in its report.
    pub(crate) async fn fold_many(&self, budget: Budget, last: Option<&Run>) -> Result<Report, Error> {
        let mut known = self.tables().await?;
        let mut candidates: BTreeMap<TableName, Result<Candidate, Error>> = BTreeMap::new();
        for table in &known {
            candidates.insert(table.clone(), self.of(table).candidate().await);
        }
        let given = || candidates.values().filter_map(|c| c.as_ref().ok());
        // From the beginning, where a table has no ledger: also where it has, and can't be read.
        let all_begun = !candidates.is_empty() && given().all(|c| !c.is_new());
        let minutes = || given().filter_map(|c| Some(c.state.as_ref()?.ledger.low_minute));
        let low_minute = if all_begun { minutes().min() } else { None };
        let passed = minutes().max().filter(|_| all_begun);
        let asked = self.clock.now();
        let shared = Arc::new(Shared::list(self.store.as_ref(), &self.id, low_minute, asked).await?);
        let listed = shared.objects();

        // Whatever some table has settled was seen by the run that did so, and so were its tables.
        let is_fresh = |listed: &&&Listed| {
            let key = listed.key.to_string();
            passed.is_none_or(|passed| listed.key.minute >= passed) && !given().any(|c| c.folded.contains(&key))
        };
        let fresh: Vec<Listed> = listed.iter().filter(is_fresh).map(|listed| (*listed).clone()).collect();
        // What some of them were told of topics that were made again is true for one that comes later, too.
        let mut begun: Vec<Epoch> =
            given().filter_map(|c| c.state.as_ref()).flat_map(|s| s.ledger.epochs.clone()).collect();
        let mut unreadable = None;
        for (table, candidate) in &candidates {
            let Err(error) = candidate else { continue };
            match self.of(table).epochs_written().await {
                Ok(epochs) => begun.extend(epochs),
                Err(_) => {
                    unreadable
                        .get_or_insert_with(|| format!("{table} can't be read, and may count topics anew: {error}"));
                }
            }
        }
        begun.sort_by(|a, b| (a.since, &a.counts_as, a.partition).cmp(&(b.since, &b.counts_as, b.partition)));
        begun.dedup();
        let mut report = Report {
            runs: 1,
            staged_objects: fresh.len() as u64,
            staged_bytes: fresh.iter().map(|listed| listed.size).sum(),
            ..Report::default()
        };
        let with_rows = shared.tables(self.store.as_ref(), fresh).await?;
        if with_rows.iter().any(|name| !self.is_met(name, &known)) {
            // Every table's own fold would stop at it; but none may have anything to fold.
            let (store, none) = (self.store.as_ref(), BTreeMap::new());
            let intake =
                intake::take(store, &self.id, low_minute, &BTreeSet::new(), &none, None, Some(&shared)).await?;
            self.settled_elsewhere(&intake, None, |table| self.is_met(table, &known)).await?;
        }
        self.not_too_many(&known, &with_rows)?;
        self.meet(with_rows.iter().map(String::as_str), &mut known).await?;
        for table in &known {
            candidates.entry(table.clone()).or_insert_with(|| Ok(Candidate { state: None, folded: BTreeSet::new() }));
        }
        let made_again = self.made_again(&shared, &candidates).await?;
        let is_behind = |name: &str| match last {
            Some(last) if last.state == Stands::Done => last.behind.contains(name),
            Some(last) => last.behind.is_empty() || last.behind.contains(name),
            None => true,
        };
        let beside = Beside { begun, known };
        // Tables that were never folded come first: the others' listings then need not begin with the oldest object.
        let mut order: Vec<(TableName, Result<Candidate, Error>)> = candidates.into_iter().collect();
        order.sort_by_key(|(_, candidate)| !candidate.as_ref().is_ok_and(Candidate::is_new));
        let mut surplus = order.len().saturating_sub(self.tables_max());
        for (table, candidate) in order {
            let name = table.to_string();
            // Tables that are folded already go on.
            if surplus > 0 && candidate.as_ref().is_ok_and(Candidate::is_new) {
                surplus -= 1;
                report.tables.push(self.failed(&name, &self.surplus()));
                continue;
            }
            let candidate = match candidate {
                Ok(candidate) => candidate,
                Err(error) => {
                    report.tables.push(self.failed(&name, &error));
                    continue;
                }
            };
            let unread = |state: &State| {
                let is_unread = |listed: &&&Listed| {
                    listed.key.minute >= state.ledger.low_minute && !candidate.folded.contains(&listed.key.to_string())
                };
                listed.iter().filter(is_unread).count()
            };
            let wanted = match &candidate.state {
                None => true,
                Some(state) => {
                    state.first_run
                        || with_rows.contains(&name)
                        || is_behind(&name)
                        || is_due(state, unread(state), shared.date())
                        || history::anchor_due(&state.loaded.metadata, &self.id, shared.date())
                }
            };
            if !wanted {
                let metadata_location = candidate.state.map(|state| state.loaded.metadata_location);
                report.tables.push(TableReport { name, metadata_location, ..TableReport::default() });
                continue;
            }
            // It would take the old topic's offsets and the new one's for those of one.
            if let (true, Some((at, key, than))) = (candidate.is_new(), &made_again) {
                report.tables.push(self.failed(&name, &evidence::recreated(at, key, than)));
                continue;
            }
            if let (true, Some(why)) = (candidate.is_new(), &unreadable) {
                let message = format!("{name} does not begin yet: {why}");
                report.tables.push(waits(&name, message));
                continue;
            }
            // One that was just met begins with the oldest object, where the listing may not.
            let is_listed =
                !candidate.is_new() || low_minute.is_none() || mutation::on(Mutation::NewTableSharesListing);
            let given = is_listed.then(|| Given { state: candidate.state, shared: Arc::clone(&shared) });
            // Not on this call's own stack: a fold of one table is a large future.
            match Box::pin(self.of(&table).fold_one(budget, given, &beside)).await {
                Ok(one) => report.beside(one),
                Err(error) => report.tables.push(self.failed(&name, &error)),
            }
        }
        if mutation::on(Mutation::TablesMetLate) {
            for name in &with_rows {
                self.store.put_new(&key::table(&self.id, name), Bytes::from(format!("{name}\n"))).await?;
            }
        }
        report.tables.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(report)
    }

    fn tables_max(&self) -> usize {
        usize::try_from(self.pipeline.fold.tables_max()).unwrap_or(usize::MAX)
    }

    /// Why a table that is one too many is not folded.
    fn surplus(&self) -> Error {
        let max = self.pipeline.fold.tables_max();
        Error::Stopped {
            code: "fold.many_tables",
            message: format!("{} folds at most {max} tables, and has met more", self.pipeline.name),
            remedy:
                "set `tables_max` of `[fold]` higher, or name tables by a field with fewer values; what is staged for \
                     this one waits, and objects that hold rows for it are kept"
                    .to_owned(),
        }
    }

    /// Refuses to meet tables without end: a field that is different in every record was hardly meant to name them.
    fn not_too_many(&self, known: &BTreeSet<TableName>, with_rows: &BTreeSet<String>) -> Result<(), Error> {
        let new = with_rows.iter().filter_map(|name| self.taken(name)).filter(|table| !known.contains(table)).count();
        let (met, max) = (known.len() + new, self.tables_max());
        if new == 0 || met <= max.saturating_mul(KNOWN_TIMES_MAX) {
            return Ok(());
        }
        Err(Error::Stopped {
            code: "fold.many_tables",
            message: format!("rows are staged for {met} tables, and {} folds at most {max}", self.pipeline.name),
            remedy: "name tables by a field with fewer values, or set `tables_max` of `[fold]` higher; nothing staged is lost"
                .to_owned(),
        })
    }

    /// Something listed that contradicts what one of the tables has settled: its topic was made again, and nobody has said so
    /// yet. Gives the coordinate, the object, and what it contradicts.
    async fn made_again(
        &self,
        shared: &Shared,
        candidates: &BTreeMap<TableName, Result<Candidate, Error>>,
    ) -> Result<Option<(Coordinate, String, String)>, Error> {
        let is_met = |candidate: &Result<Candidate, Error>| candidate.as_ref().is_ok_and(Candidate::is_new);
        if mutation::on(Mutation::EvidenceSkipped) || !candidates.values().any(is_met) {
            return Ok(None);
        }
        for (table, candidate) in candidates {
            let Ok(Candidate { state: Some(state), folded }) = candidate else { continue };
            if state.first_run {
                continue;
            }
            let (ledger, none) = (&state.ledger, BTreeMap::new());
            let (store, low_minute) = (self.store.as_ref(), Some(ledger.low_minute));
            let intake = intake::take(store, &self.id, low_minute, folded, &none, Some(ledger), Some(shared)).await?;
            for found in &intake.objects {
                match evidence::contradiction(store, table, ledger, found).await {
                    Ok(Some(at)) => return Ok(Some((at, found.key.clone(), format!("{table} has settled")))),
                    Ok(None) => {}
                    // What is damaged says nothing; whoever folds it will say so.
                    Err(Error::Object { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(None)
    }

    /// Names a table in the run's note as one that the next run folds, whatever is new.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn leave_behind(&self) -> Result<(), Error> {
        let Some(mut run) = self.last_run().await? else { return Ok(()) };
        // One that says nothing, and was not done, speaks of all.
        if run.state == Stands::Done || !run.behind.is_empty() {
            run.behind.insert(self.pipeline.table.name.to_string());
            self.note(&run).await?;
        }
        Ok(())
    }

    /// Whether the run's note is still the one that it left when it began.
    pub(crate) async fn is_noted(&self, run: &Run) -> bool {
        self.last_run().await.is_ok_and(|there| there.as_ref() == Some(run))
    }

    async fn candidate(&self) -> Result<Candidate, Error> {
        let Some(loaded) = self.catalog.load(&self.pipeline.table.name).await? else {
            return Ok(Candidate { state: None, folded: BTreeSet::new() });
        };
        let state = State::read(self.store.as_ref(), &self.io, &self.pipeline, &self.id, loaded).await?;
        let folded = state.folded(self.store.as_ref(), &self.id).await?;
        Ok(Candidate { state: Some(state), folded })
    }

    /// From when on a table's ledger counts topics anew, as it is written there, whether a fold could go on from it or not.
    async fn epochs_written(&self) -> Result<Vec<Epoch>, Error> {
        let Some(loaded) = self.catalog.load(&self.pipeline.table.name).await? else { return Ok(Vec::new()) };
        let property = ledger::property(&self.id);
        match loaded.metadata.properties().get(&property) {
            Some(text) => Ok(ledger_property::read(self.store.as_ref(), &property, text).await?.epochs),
            None => Ok(Vec::new()),
        }
    }

    fn failed(&self, name: &str, error: &Error) -> TableReport {
        tracing::warn!(table = name, %error, "this table was not folded");
        let remedy = error.remedy().map(|remedy| match error.code() {
            "fold.table_replaced" => format!(
                "{remedy}; to do without this table, delete the key `{}`: rows for it then wait as they are staged",
                key::table(&self.id, name)
            ),
            _ => remedy.to_owned(),
        });
        let failure =
            TableFailure { kind: error.kind(), code: error.code().to_owned(), message: error.to_string(), remedy };
        TableReport { name: name.to_owned(), failure: Some(failure), ..TableReport::default() }
    }
}

/// A table that could be folded, and not now.
fn waits(name: &str, message: String) -> TableReport {
    let failure = TableFailure { kind: Kind::Retry, code: "fold.table_waits".to_owned(), message, remedy: None };
    TableReport { name: name.to_owned(), failure: Some(failure), ..TableReport::default() }
}

/// Whether a ledger has been left behind what is staged for long enough.
fn is_due(state: &State, unread: usize, date: Timestamp) -> bool {
    let since = state.ledger.settled_at;
    unread > BEHIND_OBJECTS_MAX || unread > 0 && date.micros().saturating_sub(since.micros()) > BEHIND_MICROS_MAX
}

//! One run: read the state, take in what is staged, plan, write, commit; and again where others came first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use iceberg::TableUpdate;
use iceberg::io::FileIO;
use model::clock::{Clock, Timestamp};
use model::coordinate::TopicPartition;
use model::failure::Kind;
use model::id::{Ids, PipelineId};
use model::interval::Intervals;
use model::ledger::{Counts, Ledger};
use model::mutation::{self, Mutation};
use model::run::{Failure, Run, Stage};
use model::verdict::{Judgement, Known, Undelivered};
use pipeline::resolved::{Mode, Pipeline};
use staging::key;
use staging::object::{self, Object};
use staging::store::Store;
use table::catalog::{Catalog, Loaded, TableCreation, metadata};
use table::data_file::{PartitionedWriter, Target};
use table::fault::Fault;
use table::snapshot::{self, Change, NewFile, Operation};
use table::{partition, schema, sort};

use crate::ahead;
use crate::bind::{self, Binding};
use crate::budget::{self, Budget};
use crate::commit::{Attempt, Settled};
use crate::dead::DeadRows;
use crate::dedup::{self, Candidates};
use crate::error::Error;
use crate::evidence;
use crate::evolve::{Evolved, evolve};
use crate::intake::{self, Found, Intake};
use crate::join;
use crate::keys;
use crate::many::{Beside, Given};
use crate::marks;
use crate::ordered;
use crate::overlap::Begun;
use crate::pause;
use crate::plan::{Plan, plan};
use crate::report::{Report, TableFailure, TableReport};
use crate::rows::{self, Admitted, Rows, runs_of};
use crate::state::{self, State};
use crate::upsert::{self, Upserted, Upserts};

/// How often a run plans anew when others commit between its plan and its swap, or an answer is lost. Each attempt
/// re-reads the table; a table so busy that eight in a row fail needs fewer writers, not more attempts.
const ATTEMPTS_MAX: u32 = 8;
/// How often one plan's files are put on a new base after a certain conflict, before planning anew.
const REBASES_MAX: u32 = 16;
/// Unreadable objects found in one run before it gives up: each costs a plan from the start.
const DAMAGED_MAX: usize = 100;
/// How far a host's clock may be off the store's, in seconds.
const CLOCK_SKEW_SECONDS_MAX: i64 = 60;
/// The version of the type mapping that new tables remember.
const MAPPING_VERSION: &str = "1";

/// What may be set of a run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How much it may take and hold.
    pub budget: Budget,
    /// Plan only: nothing is written, not even the table.
    pub dry_run: bool,
    /// Whether the event source mapping may pass records over (it retries a number of times, filters, decodes): offsets
    /// missing between objects then stay open instead of counting as never delivered.
    pub may_skip: bool,
}

/// A fold of one pipeline, with everything it works on.
#[derive(Clone, Debug)]
pub struct Fold {
    /// The pipeline.
    pub pipeline: Arc<Pipeline>,
    /// Its id.
    pub id: PipelineId,
    /// Where staged objects and settlements are.
    pub store: Arc<dyn Store>,
    /// Where the table is.
    pub catalog: Arc<dyn Catalog>,
    /// How the table's files are read and written.
    pub io: FileIO,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Ids and file names.
    pub ids: Arc<dyn Ids>,
    /// What may be set.
    pub settings: Settings,
}

/// What came instead of an answer to a change of the table; none where there was one.
pub(crate) type Unanswered = Option<Box<table::catalog::Error>>;

fn unanswered(error: table::catalog::Error) -> Unanswered {
    (error.kind() == Kind::OutcomeUnknown).then(|| Box::new(error))
}

/// How one attempt ended.
pub(crate) enum Ended {
    Done(Box<TableReport>),
    /// Plan again: others committed, or an answer was lost.
    Again(Unanswered),
    /// Plan again without this object.
    Damaged(String, String),
}

/// Counts records that delete, and were staged before the table's mode changed to one where nothing is deleted.
fn pass_over(
    admitted: &BTreeMap<TopicPartition, Intervals>,
    deleting: &[Admitted],
    counted: &mut BTreeMap<TopicPartition, u64>,
    passed_over: &mut BTreeMap<TopicPartition, Counts>,
) {
    for run in deleting.iter().flat_map(|rows| runs_of(admitted, &rows.origin)) {
        let records = run.rows.len() as u64;
        if let Some(rows) = counted.get_mut(run.at) {
            *rows = rows.saturating_sub(records);
        }
        passed_over.entry(run.at.clone()).or_default().superseded += records;
    }
}

/// What decides about rows before they enter.
enum Merging {
    Nothing,
    Dedup(Box<Candidates>),
    Upsert(Box<Upserts>),
}

/// The files of a commit.
#[derive(Debug, Default)]
pub(crate) struct Files {
    data: Vec<NewFile>,
    deletes: Vec<NewFile>,
    /// Paths of files that go.
    removed: Vec<String>,
}

impl Ended {
    pub(crate) fn done(table: TableReport) -> Self {
        Self::Done(Box::new(table))
    }
}

impl Fold {
    /// Folds what is staged. Leaves the outcome in `runs/<pipeline-id>/fold.json`.
    ///
    /// # Errors
    /// See [`Error`]. After any of them the table is as it was or holds the whole commit, and nothing staged is lost.
    pub async fn run(&self) -> Result<Report, Error> {
        pause::refuse(self.store.as_ref(), &self.pipeline.name, Stage::Fold).await?;
        let begun = match self.pipeline.has_many() && !self.settings.dry_run {
            true => Some(self.begin().await?),
            false => None,
        };
        let is_alone = match &begun {
            Some(begun) => !self.meets_others(begun).await?,
            None => true,
        };
        let last = self.last_run().await?;
        let budget = self.budget(last.as_ref()).await?;
        let last = last.filter(|_| is_alone);
        if self.settings.dry_run {
            return Box::pin(self.fold(budget, last.as_ref())).await;
        }
        // Boxed, for a fold's futures are large, and whoever waits for one holds them.
        let outcome = Box::pin(self.noted(budget, last.as_ref(), begun.as_ref())).await;
        if let Some(begun) = &begun {
            self.end(begun).await;
        }
        outcome
    }

    /// Folds, and leaves a note of it.
    async fn noted(&self, budget: Budget, last: Option<&Run>, begun: Option<&Begun>) -> Result<Report, Error> {
        let run = Run::begun(Stage::Fold, self.clock.now(), budget.bytes);
        self.note(&run).await?;
        let outcome = self.fold(budget, last).await;
        let failure =
            |error: &Error| Failure { kind: error.kind(), code: error.code().to_owned(), message: error.to_string() };
        let mut behind = BTreeSet::new();
        let remembers = !mutation::on(Mutation::BehindForgotten);
        let is_alone = match begun {
            Some(begun) if remembers => self.is_noted(&run).await && !self.meets_others(begun).await.unwrap_or(true),
            _ => true,
        };
        let ended = match &outcome {
            Err(error) => Err(failure(error)),
            Ok(report) => {
                // All may have left something where one has: the budget is of objects, and those are the same.
                let is_behind = |t: &&TableReport| t.failure.is_some() || t.committed && report.objects_left > 0;
                // Where runs met, either's note hides what the other's says.
                let is_behind = |t: &&TableReport| remembers && (!is_alone || is_behind(t));
                behind.extend(report.tables.iter().filter(is_behind).map(|t| t.name.clone()));
                behind.extend(report.others.iter().filter(|_| remembers).cloned());
                match report.failures().next() {
                    None => Ok(figures(report)),
                    Some((table, TableFailure { kind, code, message, .. })) => {
                        let others = report.failures().count() - 1;
                        let others =
                            if others == 0 { String::new() } else { format!("; {others} other tables failed") };
                        let message = format!("{table}: {message}{others}");
                        Err(Failure { kind: *kind, code: code.clone(), message })
                    }
                }
            }
        };
        let run = Run { behind, ..run.ended(self.clock.now(), ended) };
        // The work is done or has failed for its own reason: that this note could not be left must not hide it.
        if let Err(error) = self.note(&run).await {
            tracing::warn!(%error, "the run's outcome could not be noted");
        }
        outcome
    }

    /// Whether a fold could go on from the table as it stands; of many tables, the one that this fold is of.
    ///
    /// # Errors
    /// What a fold would stop at before it read any row; the store's and the catalog's.
    pub async fn stands(&self) -> Result<(), Error> {
        let (store, name) = (self.store.as_ref(), &self.pipeline.table.name);
        let state = match self.catalog.load(name).await? {
            None => {
                state::never_another(store, &self.id, name, None).await?;
                if join::is_joined(&self.pipeline.table) {
                    return Err(join::missing(name));
                }
                None
            }
            Some(loaded) => Some(State::read(store, &self.io, &self.pipeline, &self.id, loaded).await?),
        };
        match self.pipeline.route {
            None => self.foresee_tables(state.as_ref()).await,
            Some(_) => Ok(()),
        }
    }

    /// Whether the table has rows of which none was ever compared with others of its key, as far as the ledger tells: a key may have
    /// several.
    ///
    /// # Errors
    /// As [`Fold::stands`].
    pub async fn is_uncompared(&self) -> Result<bool, Error> {
        let Some(loaded) = self.catalog.load(&self.pipeline.table.name).await? else { return Ok(false) };
        let rows = loaded.metadata.current_snapshot().map(|snapshot| {
            let total = snapshot.summary().additional_properties.get("total-records").cloned();
            total.unwrap_or_default()
        });
        if rows.is_none_or(|rows| rows == "0") {
            return Ok(false);
        }
        let totals =
            State::read(self.store.as_ref(), &self.io, &self.pipeline, &self.id, loaded).await?.ledger.totals();
        Ok(totals.rows_updated + totals.deletes + totals.superseded + totals.deduplicated == 0)
    }

    /// Why the next fold would stop at what is staged, if it would; of many tables, for the one that this fold is of. Nothing is
    /// written.
    pub async fn foresee(&self) -> Option<Error> {
        if self.pipeline.has_many() {
            return None;
        }
        let dry = Self { settings: Settings { dry_run: true, ..self.settings.clone() }, ..self.clone() };
        let budget = match dry.budget(None).await {
            Ok(budget) => budget,
            Err(error) => return Some(error),
        };
        // Not on the caller's own stack: a fold of one table is a large future.
        Box::pin(dry.fold_one(budget, None, &Beside::default())).await.err()
    }

    /// Folds until nothing waits, in as many runs as the budget asks for, each with a commit of its own. `each` is given the
    /// report of every run as it ends; the answer is their sum. A dry run is one run: it changes nothing that a second one
    /// would find.
    ///
    /// # Errors
    /// As [`Fold::run`]. What the runs before committed stays.
    pub async fn drain(&self, mut each: impl FnMut(&Report)) -> Result<Report, Error> {
        let mut sum = Report::default();
        loop {
            let report = self.run().await?;
            each(&report);
            let committed = report.tables.iter().any(|table| table.committed);
            let waits = report.objects_left > 0;
            sum.add(report);
            // A run that committed nothing would find the same again.
            if !waits || !committed {
                return Ok(sum);
            }
        }
    }

    pub(crate) async fn note(&self, run: &Run) -> Result<(), Error> {
        let body = Bytes::from(serde_json::to_vec(run)?);
        self.store.put(&key::run(&self.id, Stage::Fold.as_str()), body).await?;
        Ok(())
    }

    async fn fold(&self, budget: Budget, last: Option<&Run>) -> Result<Report, Error> {
        match self.pipeline.has_many() {
            true => self.fold_many(budget, last).await,
            false => self.fold_one(budget, None, &Beside::default()).await,
        }
    }

    /// Folds into one table. What is `given` was found of it before; one without a ledger starts with the epochs that have
    /// begun in those `beside` it.
    pub(crate) async fn fold_one(
        &self,
        budget: Budget,
        mut given: Option<Given>,
        beside: &Beside,
    ) -> Result<Report, Error> {
        let mut report = Report { runs: 1, ..Report::default() };
        let mut damaged: BTreeMap<String, String> = BTreeMap::new();
        let mut attempts = 0;
        loop {
            match self.attempt(&damaged, budget, &mut report, given.take(), beside).await? {
                Ended::Done(table) => {
                    report.tables.push(*table);
                    return Ok(report);
                }
                Ended::Damaged(key, why) => {
                    tracing::warn!(key, why, "a staged object can't be read; the rest goes on");
                    damaged.insert(key.clone(), why.clone());
                    if damaged.len() > DAMAGED_MAX {
                        let source = object::Error::Corrupt { why, source: None };
                        return Err(Error::object(key, source));
                    }
                }
                Ended::Again(unanswered) => {
                    attempts += 1;
                    report.conflicts_retried += 1;
                    if attempts >= ATTEMPTS_MAX {
                        let table = self.pipeline.table.name.to_string();
                        return Err(match unanswered {
                            Some(source) => Error::Unanswered { table, attempts, source },
                            None => Error::Contended { table, attempts },
                        });
                    }
                    // A rollback pauses before it commits: a run that it overtook must not undo it.
                    pause::refuse(self.store.as_ref(), &self.pipeline.name, Stage::Fold).await?;
                }
            }
        }
    }

    async fn attempt(
        &self,
        damaged: &BTreeMap<String, String>,
        budget: Budget,
        report: &mut Report,
        given: Option<Given>,
        beside: &Beside,
    ) -> Result<Ended, Error> {
        let read = async |loaded| {
            let mut state = State::read(self.store.as_ref(), &self.io, &self.pipeline, &self.id, loaded).await?;
            if state.first_run {
                state.ledger.epochs.clone_from(&beside.begun);
            }
            Ok::<_, Error>(state)
        };
        let (given, shared) = given.map(|given| (given.state, given.shared)).unzip();
        let state = match given.flatten() {
            Some(mut state) => {
                if state.first_run {
                    state.ledger.epochs.clone_from(&beside.begun);
                }
                Some(state)
            }
            None => match self.catalog.load(&self.pipeline.table.name).await? {
                Some(loaded) => Some(read(loaded).await?),
                None => {
                    let name = &self.pipeline.table.name;
                    if let Err(error) = state::never_another(self.store.as_ref(), &self.id, name, None).await {
                        // Another run may have made the table, and settled into it, since it was asked for.
                        let made = self.catalog.load(name).await?.is_some();
                        return if made { Ok(Ended::Again(None)) } else { Err(error) };
                    }
                    None
                }
            },
        };
        let low_minute = state.as_ref().filter(|s| !s.first_run).map(|s| s.ledger.low_minute);
        let folded = match &state {
            Some(state) => state.folded(self.store.as_ref(), &self.id).await?,
            None => BTreeSet::new(),
        };
        let empty = Ledger { epochs: beside.begun.clone(), ..Ledger::empty(Timestamp::from_micros(0).minute()) };
        let ledger = state.as_ref().map_or(&empty, |s| &s.ledger);
        let asked = shared.as_ref().map_or_else(|| self.clock.now(), |shared| shared.asked);
        let shared = shared.as_deref();
        let mut intake =
            intake::take(self.store.as_ref(), &self.id, low_minute, &folded, damaged, Some(ledger), shared).await?;
        intake.may_skip = self.settings.may_skip;
        if mutation::on(Mutation::LowMinuteByHost) {
            intake.date = self.clock.now();
        }
        self.clock_agrees(asked, &intake)?;
        let name = &self.pipeline.table.name;
        // Of all that is listed, and not only of what the budget allows: once a ledger says when it was written, maintenance takes
        // what was there before, and lies where that ledger has been, for settled.
        if let Some(state) = &state
            && let Some((key, why)) = evidence::same_topics(self.store.as_ref(), name, &state.ledger, &intake).await?
        {
            return Ok(Ended::Damaged(key, why));
        }
        if self.pipeline.table.mode.is_ordered() {
            if let Some(state) = &state {
                ordered::is_alone(&state.loaded.metadata, &self.id, &self.pipeline.table.name)?;
            }
            ordered::keep_contiguous(&mut intake, ledger);
        }
        let (left, undelivered) = self.cut(&mut intake, state.as_ref(), budget).await?;
        report.objects_left = left as u64;
        report.staged_objects = intake.objects.len() as u64;
        report.staged_bytes = intake.objects.iter().map(|o| o.size).sum();
        report.quarantined = intake.quarantined.iter().map(|(key, _, why)| (key.clone(), why.clone())).collect();
        report.foreign_keys = intake.foreign.len() as u64;

        self.own_tables(&intake, state.as_ref(), beside).await?;
        if self.pipeline.route.is_some() && shared.is_none() {
            let own = self.pipeline.table.name.to_string();
            let tables = intake.objects.iter().flat_map(|found| &found.footer.tables).filter(|table| table.rows > 0);
            report.others.extend(tables.filter(|table| table.name != own).map(|table| table.name.clone()));
        }
        let Some(newest) = intake.newest() else {
            return match state {
                Some(state) => {
                    let plan = plan(&state.ledger, &Undelivered::default(), &intake);
                    self.stay(state, &plan, &intake).await
                }
                None => Ok(Ended::done(self.unchanged())),
            };
        };
        let state = match state {
            Some(state) => state,
            None if join::is_joined(&self.pipeline.table) => return Err(join::missing(name)),
            None if self.settings.dry_run => {
                let empty = Ledger::empty(Timestamp::from_micros(0).minute());
                let plan = plan(&empty, &Undelivered::default(), &intake);
                return Ok(Ended::done(self.planned(&plan, &intake)));
            }
            None => match self.create(&newest.footer).await? {
                // What is left may contradict what is not: with the table there, all of it is looked at.
                Ok(_) if left > 0 => return Ok(Ended::Again(None)),
                Ok(loaded) => {
                    let state = read(loaded).await?;
                    let found = evidence::same_topics(self.store.as_ref(), name, &state.ledger, &intake).await?;
                    if let Some((key, why)) = found {
                        return Ok(Ended::Damaged(key, why));
                    }
                    state
                }
                Err(unanswered) => return Ok(Ended::Again(unanswered)),
            },
        };
        evidence::own_topics(self.store.as_ref(), &self.id, &state, &intake).await?;
        let undelivered = match undelivered {
            Some(undelivered) => undelivered,
            None => state.undelivered(self.store.as_ref(), &self.id, &intake).await?,
        };
        let mut plan = plan(&state.ledger, &undelivered, &intake);
        let evolved = self.evolved(&state, &intake, &plan)?;
        let differences = self.differences(&state);
        let written = evolved.of(&state)?;
        if self.has_rows(&intake, &plan) {
            self.compares(&written, &intake, &evolved)?;
        }
        if plan.is_empty() || self.settings.dry_run {
            let mut ended = self.stay(state, &plan, &intake).await?;
            if let Ended::Done(table) = &mut ended {
                table.column_changes = evolved.changes.iter().map(ToString::to_string).collect();
                table.differences = differences;
            }
            return Ok(ended);
        }
        // Where the budget has left something, its rows may be there.
        if left == 0 && self.may_wait(&state, &intake, &plan) {
            let metadata_location = Some(state.loaded.metadata_location);
            return Ok(Ended::done(TableReport { metadata_location, ..self.unchanged() }));
        }
        let mut judgement = plan.judgement.clone();
        let mut marks = state.ledger.clone();
        let files = match self.write(&written, &intake, &mut judgement, &evolved, &mut marks).await? {
            Ok(files) => files,
            Err((key, why)) => return Ok(Ended::Damaged(key, why)),
        };
        if judgement.is_empty() {
            // Everything that was new had been dead before, and is so again.
            plan.judgement = judgement;
            return self.stay(state, &plan, &intake).await;
        }
        let attempt = Attempt {
            store: self.store.as_ref(),
            ids: self.ids.as_ref(),
            pipeline: &self.id,
            plan: &plan,
            judgement: &judgement,
            evolved: &evolved,
            marks: (marks != state.ledger).then_some(&marks),
            date: intake.date,
        };
        let mut ended = self.commit(&attempt, state, files).await?;
        if let Ended::Done(table) = &mut ended {
            table.differences = differences;
        }
        Ok(ended)
    }

    /// What the first fold into a joined table says: where the pipeline file says something else than the table does.
    fn differences(&self, state: &State) -> Vec<String> {
        let table = &self.pipeline.table;
        match state.first_run && join::is_joined(table) {
            true => join::differences(table, &state.loaded.metadata).iter().map(ToString::to_string).collect(),
            false => Vec::new(),
        }
    }

    /// Rows staged for a table that is not the pipeline's would be settled here without being anywhere. Those that are for
    /// another of its tables must not be forgotten.
    async fn own_tables(&self, intake: &Intake, state: Option<&State>, beside: &Beside) -> Result<(), Error> {
        let name = &self.pipeline.table.name;
        if self.pipeline.route.is_none() {
            let own = name.to_string();
            return self.settled_elsewhere(intake, state, |table| table == own).await;
        }
        let mut known = beside.known.clone();
        known.insert(name.clone());
        self.settled_elsewhere(intake, state, |table| self.is_met(table, &known)).await?;
        let tables = intake.objects.iter().flat_map(|found| &found.footer.tables).filter(|table| table.rows > 0);
        let names: BTreeSet<&str> = tables.map(|table| table.name.as_str()).collect();
        self.meet(names, &mut known).await
    }

    /// The table's columns as the rows that enter ask for them.
    fn evolved(&self, state: &State, intake: &Intake, plan: &Plan) -> Result<Evolved, Error> {
        let (name, metadata) = (self.pipeline.table.name.to_string(), &state.loaded.metadata);
        // A new table was made from the newest object, whether that one has rows for it or not.
        let newest = || intake.newest().map_or(&[][..], |found| &found.footer.columns);
        let binding = state.binding.clone().unwrap_or_else(|| Binding::fresh(metadata.current_schema(), newest()));
        let spoken = plan.judgement.admitted.iter().zip(&plan.judgement.stale);
        let speaks = intake.objects.iter().zip(spoken).filter(|(_, (a, s))| !a.is_empty() || !s.is_empty());
        let objects = speaks.map(|(found, _)| (found.key.as_str(), &found.footer));
        let objects = objects.filter(|(_, footer)| footer.table(&name).is_some());
        let evolved = evolve(&self.pipeline.table, metadata, &binding, objects)?;
        // Rows that are there get their marks in the commit that has some for them: where rows enter.
        match self.has_rows(intake, plan) {
            true => marks::follow(&self.pipeline.table, metadata, evolved),
            false => Ok(evolved),
        }
    }

    /// Whether an object has rows for the table that a plan admits.
    fn has_rows(&self, intake: &Intake, plan: &Plan) -> bool {
        let name = self.pipeline.table.name.to_string();
        let mut entering = intake.objects.iter().zip(&plan.judgement.admitted);
        entering.any(|(found, admitted)| !admitted.is_empty() && found.footer.table(&name).is_some())
    }

    /// Refuses a table that rows can't be compared with, before anything is written, in a dry run too.
    fn compares(&self, written: &State, intake: &Intake, evolved: &Evolved) -> Result<(), Error> {
        let table = &self.pipeline.table;
        if table.mode == Mode::Append {
            return Ok(());
        }
        let target = Target::new(&written.loaded.metadata, &[], self.io.clone(), Arc::clone(&self.ids));
        let target = target.map_err(|source| Error::table(table.name.to_string(), source))?;
        match table.mode {
            Mode::Append => Ok(()),
            Mode::Dedup => Candidates::new(table, &target, &evolved.binding, intake).map(drop),
            Mode::Upsert => Upserts::new(table, &target, &evolved.binding, intake, &written.ledger, false).map(drop),
        }
    }

    /// Leaves in an intake what the budget allows. Gives how many objects wait, and the table's undelivered offsets where they
    /// had to be looked up for it.
    async fn cut(
        &self,
        intake: &mut Intake,
        state: Option<&State>,
        budget: Budget,
    ) -> Result<(usize, Option<Undelivered>), Error> {
        let table = &self.pipeline.table;
        if !budget::is_exceeded(intake, table, budget) {
            return Ok((0, None));
        }
        let undelivered = match state {
            None => None,
            Some(state) => Some(state.undelivered(self.store.as_ref(), &self.id, intake).await?),
        };
        let (empty, none) = (Ledger::empty(Timestamp::from_micros(0).minute()), Undelivered::default());
        let known = Known {
            ledger: state.map_or(&empty, |state| &state.ledger),
            undelivered: undelivered.as_ref().unwrap_or(&none),
            open_holes: intake.open_holes(),
        };
        let left = budget::cut(intake, &known, table, budget);
        Ok((left, undelivered))
    }

    /// The store's date is of some moment since it was asked: taking in a large backlog takes minutes.
    fn clock_agrees(&self, asked: Timestamp, intake: &Intake) -> Result<(), Error> {
        let (date, now) = (intake.date.micros(), self.clock.now().micros());
        let micros = if date < asked.micros() { asked.micros() - date } else { (now - date).min(0) };
        let seconds = micros / 1_000_000;
        if seconds.abs() > CLOCK_SKEW_SECONDS_MAX {
            return Err(Error::Clock { seconds, max: CLOCK_SKEW_SECONDS_MAX });
        }
        Ok(())
    }

    /// Makes the table from what the newest object says of its rows. `None` when somebody made it first.
    async fn create(&self, footer: &staging::footer::Footer) -> Result<Result<Loaded, Unanswered>, Error> {
        let name = &self.pipeline.table.name;
        let fault = |source: Fault| Error::table(name.to_string(), source);
        let mut columns = bind::columns(&self.pipeline, footer)?;
        // The footer speaks for all tables of a pipeline, of which this one may be the only one that asks for it.
        if let (Some(_), Some(within)) = (&self.pipeline.route, &self.pipeline.table.dedup_within) {
            columns.iter_mut().filter(|column| column.name == within.column).for_each(|column| column.required = true);
        }
        let schema = Arc::new(schema::iceberg_schema(&columns).map_err(fault)?);
        let spec = partition::spec(&schema, &self.pipeline.table.partition_by).map_err(fault)?;
        let order = sort::order(&schema, &self.pipeline.table.sort_by).map_err(fault)?;
        let mut properties: std::collections::HashMap<String, String> =
            self.pipeline.table.properties.clone().into_iter().collect();
        properties.insert(bind::MAPPING_VERSION.to_owned(), MAPPING_VERSION.to_owned());
        let creation = TableCreation::new(schema.as_ref().clone(), spec, order, properties);
        match self.catalog.create(name, creation).await {
            Ok(loaded) => Ok(Ok(loaded)),
            Err(table::catalog::Error::AlreadyExists { .. }) => Ok(Err(None)),
            // Whether it was made, the next attempt's load tells.
            Err(error) if error.kind() == Kind::OutcomeUnknown => Ok(Err(unanswered(error))),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the admitted rows as data files, and those that the table does not take as dead letters, and counts both into
    /// the judgement. Gives key and reason of an object that turned out to be unreadable.
    async fn write(
        &self,
        state: &State,
        intake: &Intake,
        judgement: &mut Judgement,
        evolved: &Evolved,
        marks: &mut Ledger,
    ) -> Result<Result<Files, (String, String)>, Error> {
        let (name, binding) = (self.pipeline.table.name.to_string(), &evolved.binding);
        let fault = |source: Fault| Error::table(name.clone(), source);
        // Bloom filters are for those who look rows up by their keys.
        let keys = match self.pipeline.table.mode {
            Mode::Append => Vec::new(),
            Mode::Dedup | Mode::Upsert => keys::names(&self.pipeline.table, &state.loaded.metadata, binding, intake),
        };
        let target =
            Target::new(&state.loaded.metadata, &keys, self.io.clone(), Arc::clone(&self.ids)).map_err(fault)?;
        let Budget { memory_bytes, .. } = self.settings.budget;
        let row_group_bytes = usize::try_from(self.settings.budget.row_group_bytes()).unwrap_or(usize::MAX);
        let target = Arc::new(target.with_row_group_bytes_max(row_group_bytes));
        let rows_bytes = self.settings.budget.rows_bytes();
        let rows_bytes_max = usize::try_from(rows_bytes).unwrap_or(usize::MAX);
        let mut writer = PartitionedWriter::new(Arc::clone(&target), rows_bytes_max).map_err(fault)?;
        let mut counted: BTreeMap<TopicPartition, u64> = BTreeMap::new();
        let mut passed_over: BTreeMap<TopicPartition, Counts> = BTreeMap::new();
        let mut dead_rows = DeadRows::new(self.store.as_ref(), &self.id, &name, &state.ledger);
        // First: an object may be in memory twice otherwise.
        for (found, stale) in intake.objects.iter().zip(&judgement.stale) {
            if stale.is_empty() || found.footer.table(&name).is_none() {
                continue;
            }
            let object = Object::read(self.store.as_ref(), &found.key).await;
            match self.rows_of(found, object, stale, evolved, &target, &mut BTreeMap::new())? {
                Ok(rows) => dead_rows.stale(found, stale, &rows).await?,
                Err(why) => return Ok(Err((found.key.clone(), why))),
            }
        }
        let is_wanted = |found: &Found, admitted: &BTreeMap<TopicPartition, Intervals>| {
            !admitted.is_empty() && found.footer.table(&name).is_some()
        };
        let all = || intake.objects.iter().zip(&judgement.admitted);
        let wanted: Vec<_> = all().filter(|(found, admitted)| is_wanted(found, admitted)).collect();
        let table = &*join::as_it_is_written(&self.pipeline.table, &state.loaded.metadata);
        let rows: u64 = wanted.iter().filter_map(|(found, _)| found.footer.table(&name)).map(|t| t.rows).sum();
        // A footer may say anything; more than memory has room for does not come.
        let most = |row_bytes: u64| usize::try_from(rows.min(rows_bytes / row_bytes)).unwrap_or(usize::MAX);
        let mut merging = match table.mode {
            _ if wanted.is_empty() => Merging::Nothing,
            Mode::Append => Merging::Nothing,
            Mode::Dedup => {
                let mut candidates = Candidates::new(table, &target, binding, intake)?;
                candidates.reserve(most(dedup::row_bytes(table, intake)), wanted.len());
                Merging::Dedup(Box::new(candidates))
            }
            Mode::Upsert => {
                let before = state.binding.clone().unwrap_or_default();
                let fills = marks::are_new(table, &before, binding);
                let mut upserts = Upserts::new(table, &target, binding, intake, &state.ledger, fills)?;
                upserts.reserve(most(upsert::row_bytes(table, intake)), wanted.len());
                Merging::Upsert(Box::new(upserts))
            }
        };
        let mut high_water = match &merging {
            Merging::Upsert(upserts) => self.high_water(state, judgement, evolved, &target, upserts).await?,
            _ => None,
        };
        let objects = ahead::read(self.store.as_ref(), wanted.into_iter(), ahead::bytes_max(memory_bytes));
        let mut objects = Box::pin(objects);
        for (found, admitted) in all() {
            let read = match is_wanted(found, admitted) {
                true => objects.next().await.map(|(_, _, object)| object),
                false => None,
            };
            let spoken = dead_rows.spoken(found, admitted);
            let admitted = spoken.as_ref();
            if !is_wanted(found, admitted) {
                continue;
            }
            let object = match read {
                Some(object) => object,
                // It speaks for what an earlier one left dead, which nobody could know before.
                None => Object::read(self.store.as_ref(), &found.key).await,
            };
            let rows = match self.rows_of(found, object, admitted, evolved, &target, &mut counted)? {
                Ok(rows) => rows,
                Err(why) => return Ok(Err((found.key.clone(), why))),
            };
            match &mut merging {
                Merging::Upsert(upserts) => {
                    let reasons = upserts.judge(admitted, &rows, high_water.as_mut())?;
                    let dead = dead_rows.dead(admitted, &rows, &reasons);
                    let left = dead_rows.bury(found, admitted, &dead, rows, &reasons, &mut counted).await?;
                    upserts.add(admitted, left, high_water.as_mut())?;
                }
                Merging::Dedup(candidates) => {
                    let entered = candidates.enter(found, marks);
                    let reasons = candidates.judge(found, &entered, &rows.fit)?;
                    let dead = dead_rows.dead(admitted, &rows, &reasons);
                    candidates.see(found, admitted, &entered, &rows.fit, &dead, marks)?;
                    let left = dead_rows.bury(found, admitted, &dead, rows, &reasons, &mut counted).await?;
                    pass_over(admitted, &left.deleting, &mut counted, &mut passed_over);
                    candidates.add(found, admitted, &entered, left.fit)?;
                }
                Merging::Nothing => {
                    let dead = dead_rows.dead(admitted, &rows, &[]);
                    let left = dead_rows.bury(found, admitted, &dead, rows, &[], &mut counted).await?;
                    pass_over(admitted, &left.deleting, &mut counted, &mut passed_over);
                    for rows in left.fit {
                        writer.write(rows.batch).await.map_err(fault)?;
                    }
                }
            }
        }
        drop(objects);
        dead_rows.finish(judgement).await?;
        let mut upserted = Upserted::default();
        let counts: Vec<(TopicPartition, Counts)> = match merging {
            Merging::Dedup(candidates) => {
                let entering = candidates.against(&state.loaded.metadata, &self.io).await?;
                for (batch, enter) in entering.batches {
                    writer.write_some(batch, Some(&enter)).await.map_err(fault)?;
                }
                entering.counts.into_iter().collect()
            }
            Merging::Upsert(upserts) => {
                upserted = upserts.against(&state.loaded.metadata, &self.io, &target, &mut writer).await?;
                std::mem::take(&mut upserted.counts).into_iter().collect()
            }
            Merging::Nothing => {
                let added = |rows_added| Counts { rows_added, ..Counts::default() };
                counted.into_iter().map(|(at, rows)| (at, added(rows))).collect()
            }
        };
        for (at, counts) in counts.into_iter().chain(passed_over) {
            if let Some(settled) = judgement.partitions.get_mut(&at) {
                settled.counts.add(&counts);
            }
        }
        let spec_id = state.loaded.metadata.default_partition_spec_id();
        let files = writer.finish().await.map_err(fault)?;
        Ok(Ok(Files {
            data: files.into_iter().map(|file| NewFile { spec_id, file }).collect(),
            deletes: upserted.delete_files,
            removed: upserted.removed,
        }))
    }

    /// The rows of an object at some coordinates, counted. Gives the reason why it is unreadable where it is.
    pub(crate) fn rows_of(
        &self,
        found: &Found,
        object: Result<Object, object::Error>,
        wanted: &BTreeMap<TopicPartition, Intervals>,
        evolved: &Evolved,
        target: &Target,
        counted: &mut BTreeMap<TopicPartition, u64>,
    ) -> Result<Result<Rows, String>, Error> {
        let name = &self.pipeline.table.name;
        let rows = match object {
            Ok(object) => rows::admitted(&object, &self.pipeline.table, wanted, evolved, target, counted),
            Err(error) => Err(error.into()),
        };
        match rows {
            Ok(rows) => Ok(Ok(rows)),
            Err(rows::Error::Object(error)) => match *error {
                error @ object::Error::Corrupt { .. } => Ok(Err(error.to_string())),
                object::Error::Store(error) => Err(error.into()),
                error => Err(Error::object(&found.key, error)),
            },
            Err(rows::Error::Column(fault)) => Err(bind::unfit(name, &found.key, &fault)),
            Err(rows::Error::Table(fault)) => Err(Error::table(format!("{} into {name}", found.key), *fault)),
        }
    }

    /// Settles and commits. After a certain conflict with the ledger unmoved, the files stay and only the manifest list
    /// is made anew; after an unknown outcome only a positive look-up counts, and otherwise everything starts over under
    /// new names.
    pub(crate) async fn commit(&self, attempt: &Attempt<'_>, mut state: State, files: Files) -> Result<Ended, Error> {
        let spec_id = state.loaded.metadata.default_partition_spec_id();
        let data_files = files.data.len() as u64;
        let paths: Vec<String> = match mutation::on(Mutation::NegativeBelieved) {
            true => files.data.iter().map(|file| file.file.file_path().to_owned()).collect(),
            false => Vec::new(),
        };
        let change = Change {
            operation: match (files.removed.is_empty(), files.deletes.is_empty()) {
                (true, true) => Operation::Append,
                (true, false) => Operation::RowDelta,
                (false, _) => Operation::Overwrite,
            },
            delete_files: files.deletes,
            removed: files.removed,
            evolution: attempt.evolved.updates.clone(),
            requirements: attempt.evolved.requirements.clone(),
            ..Change::append(files.data)
        };
        let written = snapshot::plan(&state.loaded, change)?.write(&self.io, self.ids.as_ref()).await?;
        let snapshot_id = written.snapshot_id();
        let mut settled = attempt.settle(&state, snapshot_id).await?;
        let mut prepared = written.attach(&state.loaded, settled.terms.clone(), &self.io, self.ids.as_ref()).await?;
        for _ in 0..REBASES_MAX {
            let sent = self.send(&state.loaded, &prepared).await;
            let error = match sent {
                Ok(loaded) => {
                    self.drop_metadata(&state.loaded, &loaded).await;
                    return Ok(Ended::done(self.done(attempt, &loaded, &prepared, data_files)));
                }
                Err(error) => error,
            };
            if !matches!(error.kind(), Kind::Conflict | Kind::OutcomeUnknown | Kind::Bug) {
                return Err(error.into());
            }
            let Some(loaded) = self.catalog.load(&self.pipeline.table.name).await? else {
                return Ok(Ended::Again(None));
            };
            if error.kind() == Kind::Bug {
                // A catalog that compares requirements alone may find that a plan does not go with a change which none of
                // them names: a snapshot that is older than a changed property, say.
                let moved = loaded.metadata_location != state.loaded.metadata_location;
                return if moved { Ok(Ended::Again(None)) } else { Err(error.into()) };
            }
            let Settled { commit, .. } = &settled;
            let now = State::read(self.store.as_ref(), &self.io, &self.pipeline, &self.id, loaded).await?;
            if now.holds(&self.id, commit) {
                return Ok(Ended::done(self.done(attempt, &now.loaded, &prepared, data_files)));
            }
            let unmoved = now.ledger == state.ledger
                && now.uuid == state.uuid
                && now.binding == state.binding
                && now.loaded.metadata.current_schema_id() == state.loaded.metadata.current_schema_id()
                && now.loaded.metadata.default_partition_spec_id() == spec_id;
            // What was compared with the table has to be compared with what it holds now.
            let compared = self.pipeline.table.mode != Mode::Append;
            if mutation::on(Mutation::NegativeBelieved) && error.kind() == Kind::OutcomeUnknown {
                for path in &paths {
                    self.drop_file(path).await;
                }
            }
            let reapplied = mutation::on(Mutation::CommitReapplied);
            if error.kind() == Kind::OutcomeUnknown || ((!unmoved || compared) && !reapplied) {
                return Ok(Ended::Again(unanswered(error)));
            }
            state = now;
            settled = attempt.settle(&state, snapshot_id).await?;
            prepared = prepared.rebase(&state.loaded, settled.terms.clone(), &self.io, self.ids.as_ref()).await?;
        }
        Ok(Ended::Again(None))
    }

    /// One commit (I3).
    async fn send(&self, base: &Loaded, prepared: &snapshot::Prepared) -> Result<Loaded, table::catalog::Error> {
        let (requirements, updates) = (prepared.requirements().to_vec(), prepared.updates().to_vec());
        if mutation::on(Mutation::LedgerApart) {
            let (ledger, rows) =
                updates.into_iter().partition(|update| matches!(update, TableUpdate::SetProperties { .. }));
            let loaded = self.catalog.commit(base, requirements, rows).await?;
            return self.catalog.commit(&loaded, Vec::new(), ledger).await;
        }
        self.catalog.commit(base, requirements, updates).await
    }

    async fn drop_file(&self, path: &str) {
        if let Err(error) = self.io.delete(path).await {
            tracing::warn!(path, %error, "a file could not be deleted");
        }
    }

    /// Deletes the metadata files that the table's own log has just dropped, where the table asks for it.
    async fn drop_metadata(&self, before: &Loaded, after: &Loaded) {
        for file in metadata::dropped(&before.metadata, &after.metadata) {
            // The commit stands: a file that stays is an orphan, which maintenance removes by age.
            self.drop_file(&file).await;
        }
    }

    fn unchanged(&self) -> TableReport {
        TableReport { name: self.pipeline.table.name.to_string(), ..TableReport::default() }
    }

    pub(crate) fn planned(&self, plan: &Plan, intake: &Intake) -> TableReport {
        let counts = plan.judgement.counts();
        let decided: u64 = plan.judgement.partitions.values().map(|s| s.decided.count()).sum();
        // One row a record, as long as nothing explodes, and before rows are compared; a commit says what was really added.
        let mut rows_added = decided - counts.filtered.values().sum::<u64>();
        if self.pipeline.route.is_some() {
            // Most records may be another table's.
            let name = self.pipeline.table.name.to_string();
            let admitted =
                intake.objects.iter().zip(&plan.judgement.admitted).filter(|(_, offsets)| !offsets.is_empty());
            let staged: u64 = admitted.filter_map(|(found, _)| found.footer.table(&name)).map(|table| table.rows).sum();
            rows_added = rows_added.min(staged);
        }
        self.counted(Counts { rows_added, ..counts })
    }

    fn counted(&self, counts: Counts) -> TableReport {
        TableReport {
            rows_added: counts.rows_added,
            rows_updated: counts.rows_updated,
            rows_deleted: counts.rows_deleted,
            deletes: counts.deletes,
            superseded: counts.superseded,
            duplicates: counts.duplicates + counts.deduplicated,
            deduplicated: counts.deduplicated,
            late: counts.late + counts.late_kept + counts.late_dead,
            late_dropped: counts.late,
            late_dead: counts.late_dead,
            stale: counts.stale,
            filtered: counts.filtered,
            undelivered: counts.undelivered,
            dead_letters: counts.dead + counts.stale,
            ..self.unchanged()
        }
    }

    fn done(
        &self,
        attempt: &Attempt<'_>,
        loaded: &Loaded,
        prepared: &snapshot::Prepared,
        data_files: u64,
    ) -> TableReport {
        TableReport {
            committed: true,
            snapshot_id: Some(prepared.snapshot().snapshot_id()),
            metadata_location: Some(loaded.metadata_location.clone()),
            data_files,
            column_changes: attempt.evolved.changes.iter().map(ToString::to_string).collect(),
            ..self.counted(attempt.judgement.counts())
        }
    }
}

fn figures(report: &Report) -> BTreeMap<String, u64> {
    let mut figures = BTreeMap::from([
        ("staged_objects".to_owned(), report.staged_objects),
        ("staged_bytes".to_owned(), report.staged_bytes),
        ("quarantined".to_owned(), report.quarantined.len() as u64),
        ("conflicts_retried".to_owned(), u64::from(report.conflicts_retried)),
    ]);
    let mut most = |name: &str, n: u64| {
        let figure: &mut u64 = figures.entry(name.to_owned()).or_default();
        *figure = n.max(*figure);
    };
    for table in &report.tables {
        // Of records that no row was made of each table's ledger tells the same.
        most("duplicates", table.duplicates);
        most("undelivered", table.undelivered);
        most("dead_letters", table.dead_letters);
        most("filtered", table.filtered.values().sum());
    }
    most("rows_added", report.tables.iter().map(|table| table.rows_added).sum());
    figures
}

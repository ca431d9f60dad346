//! Folds on a schedule, and the person who is called when one stops.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fold::rewind::{Choice, Target};
use fold::{Budget, Error, Fold, Report, Reset, Settings, TableFailure};
use iceberg::TableUpdate;
use maintain::Maintain;
use model::clock::Clock;
use model::failure::Kind;
use model::id::PipelineId;
use pipeline::resolved::{Pipeline, TableName};

use crate::catalog::{REFUSED, RemoteCatalog, Tables};
use crate::fault::Fault;
use crate::files::{Disk, RemoteFiles};
use crate::foreign::Taken;
use crate::kafka::TOPIC;
use crate::oracle::{Actor, Oracle};
use crate::store::{Bucket, RemoteStore};
use crate::world::{Process, World};

/// A topic that was made again.
const RECREATED: &str = "fold.topic_recreated";

/// A function's longest time.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// One pipeline's folds.
#[derive(Debug)]
pub(crate) struct Folds {
    pub(crate) world: Arc<World>,
    pub(crate) cluster: usize,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) id: PipelineId,
    pub(crate) bucket: Arc<Bucket>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) oracle: Arc<Oracle>,
    /// Properties of tables as they were before somebody took them away.
    pub(crate) properties: Arc<Mutex<Taken>>,
    pub(crate) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    runs: u64,
    pub(crate) ended: bool,
    /// Nothing is folded for a while.
    pub(crate) held: bool,
}

/// How a run of anything ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It did what it should; whether there is more to do.
    Done { more: bool },
    /// The same may succeed later.
    Later,
    /// A person must do something, about one table or several.
    Stopped(Vec<Stop>),
}

/// What a person is called for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    /// The table, where it is one of many.
    table: Option<TableName>,
    code: String,
    message: String,
}

/// Whether the same may succeed later.
fn is_for_later(kind: Kind, code: &str, message: &str) -> bool {
    matches!(kind, Kind::Retry | Kind::Conflict | Kind::OutcomeUnknown)
        || code == "fold.clock"
        || message.contains(REFUSED)
}

impl Folds {
    fn number(&self) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.runs += 1;
        state.runs
    }

    fn ended(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).ended
    }

    /// Whether folds are held back.
    pub(crate) fn hold(&self, held: bool) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).held = held;
    }

    fn is_held(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).held
    }

    /// No more scheduled folds.
    pub(crate) fn end(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
    }

    fn fold(&self, process: &Arc<Process>, actor: Actor, rows: Option<u64>) -> Fold {
        Fold {
            pipeline: Arc::clone(&self.pipeline),
            id: self.id.clone(),
            store: Arc::new(RemoteStore {
                bucket: Arc::clone(&self.bucket),
                process: Arc::clone(process),
                oracle: Arc::clone(&self.oracle),
            }),
            catalog: Arc::new(RemoteCatalog { tables: Arc::clone(&self.tables), process: Arc::clone(process), actor }),
            io: RemoteFiles::io(&self.disk, Some(process)),
            clock: Arc::clone(process) as Arc<dyn Clock>,
            ids: self.world.ids(),
            settings: Settings { budget: Budget { rows, ..Budget::default() }, ..Settings::default() },
        }
    }

    /// One fold.
    pub(crate) async fn once(&self) -> Ended {
        let world = &self.world;
        let name = format!("fold {}/{}", self.cluster, self.number());
        let calls = if world.has_many() { 400 } else { 120 };
        let kill_at = world.happens(Fault::FoldKilled).then(|| world.below(calls));
        let ahead = if world.happens(Fault::FoldClock) {
            world.below(4 * 3_600_000_000).cast_signed() - 2 * 3_600_000_000
        } else {
            world.below(100_000_000).cast_signed() - 50_000_000
        };
        let process = Process::new(world, name.clone(), ahead, kill_at);
        let rows = world.happens(Fault::Budget).then(|| world.between(1, 10));
        let fold = self.fold(&process, Actor::Fold(self.cluster), rows);
        world.note(|| format!("{name}: begins, {rows:?} rows at most"));
        let outcome = process.run(LIMIT, async move { fold.run().await }, false).await;
        let Some(outcome) = outcome else { return Ended::Later };
        let failed = outcome.as_ref().map_or_else(|_| Vec::new(), |report| self.failed(&name, report));
        let ended = self.of(
            &name,
            outcome.map(|report: Report| {
                world.note(|| {
                    let (objects, left) = (report.staged_objects, report.objects_left);
                    let rows: u64 = report.tables.iter().map(|t| t.rows_added).sum();
                    let stale: u64 = report.tables.iter().map(|t| t.stale).sum();
                    format!("{name}: {objects} objects, {rows} rows, {stale} stale, {left} left")
                });
                if let Some((key, why)) = report.quarantined.first_key_value() {
                    world.violated("stuck", format!("{key} is quarantined: {why}"));
                }
                report.objects_left > 0 || report.tables.iter().any(|t| t.committed)
            }),
        );
        match failed.is_empty() {
            true => ended,
            false if failed.iter().any(Option::is_some) => Ended::Stopped(failed.into_iter().flatten().collect()),
            false => Ended::Later,
        }
    }

    /// The tables of a run that were not folded: what a person is called for, or nothing where it may succeed later.
    fn failed(&self, name: &str, report: &Report) -> Vec<Option<Stop>> {
        let failures = report.failures();
        let of = |(table, failure): (&str, &TableFailure)| {
            let TableFailure { kind, code, message, .. } = failure;
            self.world.note(|| format!("{name}: {table}: {code} {message}"));
            if is_for_later(*kind, code, message) {
                return None;
            }
            if *kind != Kind::Misconfigured {
                self.world.violated("stuck", format!("{table}: {code}: {message}"));
                return None;
            }
            Some(Stop { table: table.parse().ok(), code: code.clone(), message: message.clone() })
        };
        failures.map(of).collect()
    }

    fn of(&self, name: &str, outcome: Result<bool, Error>) -> Ended {
        let error = match outcome {
            Ok(more) => return Ended::Done { more },
            Err(error) => error,
        };
        self.world.note(|| format!("{name}: {} {error}", error.code()));
        match &error {
            Error::Stopped { code, .. } => {
                Ended::Stopped(vec![Stop { table: None, code: (*code).to_owned(), message: error.to_string() }])
            }
            _ if is_for_later(error.kind(), error.code(), &error.to_string()) => Ended::Later,
            _ => {
                self.world.violated("stuck", format!("{}: {error}", error.code()));
                Ended::Later
            }
        }
    }

    /// Folds until told to end.
    pub(crate) async fn schedule(self: Arc<Self>) {
        while !self.ended() {
            self.world.wait_ms(20_000, 150_000).await;
            if self.is_held() {
                continue;
            }
            if self.world.happens(Fault::FoldOutage) {
                self.world.note(|| format!("folds of {}: an outage", self.cluster));
                self.world.wait_ms(25 * 60_000, 60 * 60_000).await;
            }
            let again = self.world.happens(Fault::FoldTwice);
            let second = async {
                if again {
                    self.world.wait_ms(0, 2_000).await;
                    Some(self.once().await)
                } else {
                    None
                }
            };
            let (first, second) = tokio::join!(self.once(), second);
            for ended in [Some(first), second].into_iter().flatten() {
                if let Ended::Stopped(stops) = ended {
                    self.world.wait_ms(10_000, 300_000).await;
                    self.mend(stops).await;
                    break;
                }
            }
        }
    }

    /// What a person does about stops: about each table's own, then about those of all.
    pub(crate) async fn mend(&self, mut stops: Vec<Stop>) {
        stops.sort_by_key(|stop| stop.code == RECREATED);
        let mut is_reset = false;
        for Stop { table, code, message } in stops {
            if code == RECREATED {
                if !std::mem::replace(&mut is_reset, true) {
                    self.reset().await;
                }
                continue;
            }
            let table = table.unwrap_or_else(|| self.pipeline.table.name.clone());
            self.mend_table(&table, &code, &message).await;
        }
    }

    async fn mend_table(&self, table: &TableName, code: &str, message: &str) {
        let world = &self.world;
        match code {
            "fold.ledger_missing" if world.below(2) == 0 && self.is_kept(table) => self.set_back(table),
            "fold.properties_unset" if world.below(2) == 0 => self.set_back(table),
            "fold.rewound" | "fold.ledger_missing" | "fold.properties_unset" => {
                let choice = if world.below(3) == 0 { Choice::KeepLedger } else { Choice::Refold };
                self.recover(table, choice).await;
            }
            // What a person can't have back is let go of.
            "fold.would_miss" | "fold.ledger_then" => self.recover(table, Choice::KeepLedger).await,
            // They are set back to what they were.
            "fold.columns" | "fold.foreign_table" => self.set_back(table),
            // The table was moved in between; the next fold says more.
            "fold.recover_nothing" | "fold.not_on_main" | "fold.rollback_nothing" => {}
            _ => world.violated("stuck", format!("{code}: {message}")),
        }
    }

    /// Resets the topic, in every table.
    async fn reset(&self) {
        let process = Process::new(&self.world, format!("reset {}/{}", self.cluster, self.number()), 0, None);
        let fold = self.fold(&process, Actor::Operator(self.cluster), None);
        let reset = Reset { topic: TOPIC.to_owned(), partition: None, since: None };
        let has_many = self.world.has_many();
        let work = async move {
            match has_many {
                true => Fold::reset_planned(&fold.plan_resets(&reset).await?).await.map(|_| false),
                false => fold.reset(&reset).await.map(|_| false),
            }
        };
        if let Some(outcome) = process.run(LIMIT, work, false).await {
            drop(self.of(&process.name, outcome));
        }
    }

    /// The tables that the pipeline has met: what a person sees of it.
    pub(crate) fn met(&self) -> BTreeSet<TableName> {
        if !self.world.has_many() {
            return BTreeSet::from([self.pipeline.table.name.clone()]);
        }
        self.oracle.met(self.cluster)
    }

    /// Whether the ledger that somebody took away is still known.
    fn is_kept(&self, table: &TableName) -> bool {
        let before = self.properties.lock().unwrap_or_else(PoisonError::into_inner);
        before.get(table).is_some_and(|before| before.contains_key(&model::ledger::property(&self.id)))
    }

    /// Sets properties back that somebody took away.
    pub(crate) fn set_back(&self, table: &TableName) {
        let Some(base) = self.tables.load(table) else { return };
        let mut before = self.properties.lock().unwrap_or_else(PoisonError::into_inner);
        let mut updates: HashMap<String, String> = before.remove(table).unwrap_or_default();
        updates.retain(|name, _| !base.metadata.properties().contains_key(name));
        drop(self.tables.commit(Actor::Operator(self.cluster), &base, &[], &[TableUpdate::SetProperties { updates }]));
    }

    /// Goes on from where main is.
    pub(crate) async fn recover(&self, table: &TableName, choice: Choice) {
        let actor = match choice {
            Choice::Refold => Actor::Operator(self.cluster),
            Choice::KeepLedger => Actor::Keeper(self.cluster),
        };
        for _ in 0..20 {
            let process = Process::new(&self.world, format!("recover {}/{}", self.cluster, self.number()), 0, None);
            let fold = self.fold(&process, actor, None).of(table);
            self.world.note(|| format!("{}: {choice:?}", process.name));
            // Nobody begins anew who can have the ledger back.
            let kept = self.is_kept(table);
            let work = async move {
                if kept && fold.plan_recover(choice).await.is_ok_and(|plan| !plan.forgotten.is_empty()) {
                    return Ok(true);
                }
                fold.recover(choice).await.map(|_| false)
            };
            let outcome = process.run(LIMIT, work, false).await;
            match outcome.map(|outcome| self.of(&process.name, outcome)) {
                None | Some(Ended::Later) => self.world.wait_ms(1_000, 20_000).await,
                Some(Ended::Done { more: true }) => return self.set_back(table),
                Some(Ended::Done { .. }) => {
                    if choice == Choice::KeepLedger
                        && let Some(loaded) = self.tables.load(table)
                    {
                        // It may have found nothing to commit: what is gone is gone all the same.
                        self.oracle.committed(actor, None, &loaded);
                    }
                    return;
                }
                Some(Ended::Stopped(stops)) => {
                    let code = stops.first().map_or("", |stop| stop.code.as_str());
                    if choice == Choice::Refold && matches!(code, "fold.would_miss" | "fold.ledger_then") {
                        return Box::pin(self.recover(table, Choice::KeepLedger)).await;
                    }
                    if code == "fold.recover_young" {
                        // Nobody waits at a terminal for an hour.
                        self.world.wait_ms(600_000, 1_200_000).await;
                        continue;
                    }
                    if matches!(
                        code,
                        "fold.columns" | "fold.foreign_table" | "fold.properties_unset" | "fold.recover_nothing"
                    ) {
                        return self.set_back(table);
                    }
                    return;
                }
            }
        }
    }

    /// Our own rollback, some snapshots back, and a recovery some time later.
    pub(crate) async fn roll_back(&self, table: &TableName, back: usize) {
        let Some(loaded) = self.tables.load(table) else { return };
        let line: Vec<i64> = table::snapshot::ancestry(&loaded.metadata).map(|s| s.snapshot_id()).collect();
        let Some(&target) = line.get(back) else { return };
        let process = Process::new(&self.world, format!("rollback {}/{}", self.cluster, self.number()), 0, None);
        let fold = self.fold(&process, Actor::Operator(self.cluster), None).of(table);
        let outcome =
            process.run(LIMIT, async move { fold.rollback(Target::Snapshot(target)).await.map(|_| false) }, false);
        if let Some(outcome) = outcome.await {
            drop(self.of(&process.name, outcome));
        }
    }

    /// Maintenance of what is staged.
    pub(crate) async fn maintain(&self) {
        let process = Process::new(&self.world, format!("maintain {}/{}", self.cluster, self.number()), 0, None);
        let fold = self.fold(&process, Actor::Other, None);
        let maintain = Maintain { fold, settings: maintain::Settings::default() };
        let at_work = self.oracle.maintenance_begins(self.cluster);
        let world = Arc::clone(&self.world);
        let name = process.name.clone();
        let work = async move {
            let _at_work = at_work;
            match maintain.run().await {
                Ok(report) => world.note(|| {
                    format!(
                        "{name}: removed {}, unsettled {}, unproved {}",
                        report.files_removed, report.unsettled, report.unproved
                    )
                }),
                Err(error) => world.note(|| format!("{name}: {error}")),
            }
        };
        let _: Option<()> = process.run(LIMIT, work, false).await;
    }
}

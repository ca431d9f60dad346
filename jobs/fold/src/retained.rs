//! What a table's retained snapshots show of its past: what maintenance may rest a deletion on.

use std::collections::{BTreeSet, VecDeque};

use iceberg::spec::SnapshotRef;
use model::clock::{Minute, Timestamp};
use model::coverage::Coverage;
use model::id::{CommitId, TableUuid};
use model::ledger::{Ledger, Pointer};
use model::settlement::{SUMMARY_KEYS, summary_key};
use model::verdict::Undelivered;
use staging::footer::Footer;
use table::snapshot::ancestry;

use crate::error::Error;
use crate::evidence;
use crate::ledger_property;
use crate::plan::Found;
use crate::rewind::never_folded;
use crate::run::Fold;
use crate::state::{Line, State, commit_of, passed_over, readable_settlement};

/// How far the minute of an object may be ahead of the store's time when it was folded: ingest's clock may be wrong.
const AHEAD_MICROS: i64 = 3 * 3_600_000_000;

/// How long after the beginning of its minute an object is durable at the latest: ingest writes it anew otherwise. One minute more
/// is for what the store's time is off.
const DURABLE_MICROS: i64 = 6 * 60_000_000;

/// A table with what is known of its past.
#[derive(Clone, Debug)]
pub struct Retained {
    /// The table's UUID.
    pub table: TableUuid,
    /// From which minute the next fold lists.
    pub low_minute: Minute,
    /// What main had settled at the time that was asked for; nothing where no retained snapshot of the pipeline is as old.
    pub then: Option<Then>,
    /// Keys of settlements and ledgers that a retained snapshot or a property names.
    pub named: BTreeSet<String>,
}

/// What a table had settled at a time.
#[derive(Clone, Debug)]
pub struct Then {
    /// The newest snapshot of main that is as old.
    pub snapshot: i64,
    table: TableUuid,
    ledger: Ledger,
    /// The ledger now: it says which topics began anew.
    now: Ledger,
    undelivered: Undelivered,
    /// Objects that settlements of the ledger's line name as settled whole, as far back as it was asked for.
    whole: Whole,
}

/// The settlements of a line, read as far back as needed.
#[derive(Clone, Debug)]
struct Whole {
    keys: BTreeSet<String>,
    /// When the oldest settlement read so far was written.
    since: Option<Timestamp>,
    /// The commits whose settlements are next.
    behind: VecDeque<CommitId>,
    is_broken: bool,
}

/// Whether an object is needed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// All of it was settled then.
    Settled,
    /// All of it was passed then, and whether some of it as never delivered is not known any more.
    Unproved,
    /// Some of it was not settled then.
    Unsettled,
}

impl Then {
    /// Whether every offset that an object accounts for had been passed, and which of them it has rows for that lay in dead
    /// letters: another object had not been able to decode them, or a fold had sent these rows there.
    fn passed(&self, coverage: &Coverage, minute: Minute) -> (Need, bool) {
        let Undelivered { listed, unlisted, .. } = &self.undelivered;
        let mut need = Need::Settled;
        let mut rows_at_dead = false;
        for (at, covered) in coverage.iter() {
            let at = self.now.counted(at, minute);
            let Some(known) = self.ledger.partition(&at) else { return (Need::Unsettled, false) };
            let passed_over = listed.get(&at).map(|listed| known.reached.subtract(listed));
            if !passed_over.as_ref().unwrap_or(&known.reached).contains_all(&covered.delivered) {
                return (Need::Unsettled, false);
            }
            if unlisted.get(&at).is_some_and(|unlisted| !unlisted.intersect(&covered.delivered).is_empty()) {
                need = Need::Unproved;
            }
            let rows = covered.decided().subtract(&covered.filtered_any());
            rows_at_dead |= !rows.intersect(&known.dead).is_empty();
        }
        (need, rows_at_dead)
    }
}

impl Fold {
    /// Whether an object is needed any more: it is not where every offset that it accounts for had been settled, with a row
    /// in the table, by a filter, or by a letter in the dead letters. An offset that had been counted as never delivered was
    /// not, nor one that lay in dead letters and for which this object has a row that no fold has read.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn need(&self, then: &mut Then, key: &str, minute: Minute, footer: &Footer) -> Result<Need, Error> {
        let mut need = Need::Settled;
        if !then.undelivered.settled.contains(key) {
            let (passed, rows_at_dead) = then.passed(&footer.coverage, minute);
            need = passed;
            let is_later = minute.start().plus_micros(DURABLE_MICROS) > then.ledger.settled_at;
            if need == Need::Settled && is_later && !self.is_whole(then, key, minute).await? {
                need = Need::Unproved;
            }
            if rows_at_dead && !self.is_whole(then, key, minute).await? {
                need = need.max(if then.whole.is_broken { Need::Unproved } else { Need::Unsettled });
            }
        }
        if need != Need::Unsettled && self.contradicts(then, key, minute, footer).await? {
            need = Need::Unsettled;
        }
        Ok(need)
    }

    /// Whether a settlement of the line names an object as settled whole. Those that are older than the object can't.
    async fn is_whole(&self, then: &mut Then, key: &str, minute: Minute) -> Result<bool, Error> {
        let Whole { keys, since, behind, is_broken } = &mut then.whole;
        let oldest = minute.start().plus_micros(-AHEAD_MICROS);
        let commits = std::mem::take(behind);
        let mut line = Line::behind(self.store.as_ref(), &self.id, &then.table, commits);
        while !keys.contains(key) && since.is_none_or(|since| since >= oldest) {
            let Some(settlement) = line.next().await? else { break };
            keys.extend(settlement.objects);
            *since = Some(settlement.at);
        }
        *is_broken |= line.is_broken;
        *behind = line.commits;
        Ok(keys.contains(key))
    }

    /// Whether an object says something else of an offset than the ledger kept: it is of a topic that was made again, and
    /// what was settled under its offsets were other records. One that can't be read proves nothing, and counts as such.
    ///
    /// # Errors
    /// When the store fails.
    async fn contradicts(&self, then: &Then, key: &str, minute: Minute, footer: &Footer) -> Result<bool, Error> {
        let Ok(coverage) = then.now.counted_coverage(&footer.coverage, minute) else { return Ok(true) };
        let footer = Footer { coverage, ..footer.clone() };
        let found = Found { key: key.to_owned(), minute, size: 0, footer, limits: None };
        match evidence::contradiction(self.store.as_ref(), &self.pipeline.table.name, &then.now, &found).await {
            Ok(contradiction) => Ok(contradiction.is_some()),
            Err(Error::Object { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// What the table's retained snapshots show of its past, and of what main had settled at a time. Nothing where the
    /// pipeline has not folded yet.
    ///
    /// # Errors
    /// Those of a fold's start: a table that other hands moved says nothing that a deletion may rest on.
    pub async fn retained(&self, time: Timestamp) -> Result<Option<Retained>, Error> {
        let store = self.store.as_ref();
        let Some(loaded) = self.catalog.load(&self.pipeline.table.name).await? else {
            never_folded(store, &self.id, &self.pipeline.table.name).await?;
            return Ok(None);
        };
        let state = State::read(store, &self.io, &self.pipeline, &self.id, loaded).await?;
        if state.first_run {
            return Ok(None);
        }
        let metadata = &state.loaded.metadata;
        let mut named = BTreeSet::new();
        for snapshot in metadata.snapshots() {
            let summary = &snapshot.summary().additional_properties;
            let keys = summary.keys().filter(|key| key.starts_with(SUMMARY_KEYS));
            named.extend(keys.filter_map(|key| commit_of(summary, key)).map(|(_, settlement)| settlement.to_owned()));
        }
        for text in ledger_property::all(metadata).into_values() {
            if let Ok(pointer) = serde_json::from_str::<Pointer>(text) {
                named.insert(pointer.object);
            }
        }
        let line: Vec<&SnapshotRef> =
            ancestry(metadata).skip_while(|snapshot| snapshot.timestamp_ms() > time.millis()).collect();
        let key = summary_key(&self.id);
        let newest = line.iter().find_map(|s| Some((s, commit_of(&s.summary().additional_properties, &key)?)));
        let mut then = None;
        if let Some((snapshot, (commit, key))) = newest
            // That one itself must be readable: an older one's ledger would be right, and say less than is known.
            && let Some(settlement) = readable_settlement(store, key).await?.filter(|s| s.commit.as_str() == commit)
        {
            let ledger = settlement.ledger;
            let counted = ledger.partitions().filter(|(_, partition)| partition.counts.undelivered > 0);
            let wanted = counted.map(|(at, partition)| (at, partition.reached.clone())).collect();
            let undelivered = passed_over(store, &self.id, &state.uuid, &ledger, wanted).await?;
            let now = state.ledger.clone();
            let behind = ledger.commits.clone();
            let whole = Whole { keys: BTreeSet::new(), since: None, behind, is_broken: false };
            let (snapshot, table) = (snapshot.snapshot_id(), state.uuid.clone());
            then = Some(Then { snapshot, table, ledger, now, undelivered, whole });
        }
        Ok(Some(Retained { table: state.uuid, low_minute: state.ledger.low_minute, then, named }))
    }
}

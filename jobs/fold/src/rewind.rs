//! Going back, by a person's decision: a rollback of the table with every pipeline's ledger; and, in [`recover`], what
//! follows it, or a rollback by another hand.

use std::collections::BTreeMap;

use iceberg::spec::{SnapshotRef, TableMetadata};
use iceberg::{TableRequirement, TableUpdate};
use model::clock::Timestamp;
use model::coordinate::TopicPartition;
use model::failure::Kind;
use model::id::{CommitId, PipelineId, TableUuid};
use model::interval::Intervals;
use model::ledger::{self, Ledger};
use model::settlement::{Offsets, SUMMARY_KEYS, summary_key};
use model::verdict::Undelivered;
use pipeline::resolved::TableName;
use serde::Serialize;
use staging::list;
use staging::object::{self, Object};
use staging::store::Store;
use table::catalog::Loaded;
use table::snapshot::{ancestry, branch};

use crate::error::Error;
use crate::history;
use crate::join;
use crate::ledger_property;
use crate::pause;
use crate::run::Fold;
use crate::state::{commit_of, found_between, never_another, passed_over, read_settlement};

mod recover;

pub use recover::{Choice, RecoverPlan};

/// Where a rollback goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A snapshot on main's ancestry.
    Snapshot(i64),
    /// The snapshot that was main's newest at this time.
    Time(Timestamp),
}

/// What a rollback would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RollbackPlan {
    /// The table.
    pub table: String,
    /// Main's newest snapshot now.
    pub from: i64,
    /// The one it would be moved to.
    pub to: i64,
    /// When that one was made.
    pub made: Timestamp,
    /// How many snapshots would be left behind.
    pub snapshots: u64,
    /// Every pipeline that has folded into the table.
    pub pipelines: Vec<Rewound>,
}

/// One pipeline's part of going back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rewound {
    /// The pipeline.
    pub pipeline: PipelineId,
    /// Offsets that would no longer be settled, and would be folded again.
    pub offsets: u64,
    /// Those of them that no staged object holds any more: they would be missing from the table.
    pub missing: Vec<Offsets>,
    /// The ledger it would go on from.
    #[serde(skip)]
    ledger: Option<Ledger>,
}

fn stopped(code: &'static str, message: String, remedy: impl Into<String>) -> Error {
    Error::Stopped { code, message, remedy: remedy.into() }
}

/// Refuses to go back where staged objects are gone.
fn nothing_missing(parts: &[&Rewound]) -> Result<(), Error> {
    let missing: Vec<String> = parts
        .iter()
        .flat_map(|part| &part.missing)
        .map(|lost| {
            let spans: Vec<String> =
                lost.offsets.as_slice().iter().map(|i| format!("{}-{}", i.first(), i.last())).collect();
            format!("topic `{}`, partition {}: offsets {}", lost.topic, lost.partition, spans.join(", "))
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(stopped(
        "fold.would_miss",
        format!("what is staged no longer holds everything that would be folded again: {}", missing.join("; ")),
        "restore the staged objects from the bucket's versions, go back less far, or keep the ledger",
    ))
}

/// Makes sure that a table which is not there never was, as far as settlements tell.
///
/// # Errors
/// [`Error::Stopped`] that names a settlement where the table was folded into, with what to do; the store's.
pub async fn never_folded(store: &dyn Store, id: &PipelineId, table: &TableName) -> Result<(), Error> {
    never_another(store, id, table, None).await
}

impl Fold {
    /// What [`Fold::rollback`] would do.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the target is not on main's retained ancestry or what a pipeline had settled there can't be
    /// told; the store's and the catalog's.
    pub async fn plan_rollback(&self, target: Target) -> Result<RollbackPlan, Error> {
        let loaded = self.loaded().await?;
        self.rollback_of(&loaded, target).await
    }

    /// Moves main back and every pipeline's ledger with it, in one commit. All of them are paused first: what follows is
    /// for `recover` to decide.
    ///
    /// # Errors
    /// As [`Fold::plan_rollback`]; [`Error::Stopped`] with the offsets that would be missing; those of a commit.
    pub async fn rollback(&self, target: Target) -> Result<RollbackPlan, Error> {
        let loaded = self.loaded().await?;
        let plan = self.rollback_of(&loaded, target).await?;
        nothing_missing(&plan.pipelines.iter().collect::<Vec<_>>())?;
        let why = format!("it was rolled back to snapshot {}: `frazil recover` decides what follows", plan.to);
        for part in &plan.pipelines {
            let name = part.pipeline.name();
            let before = pause::read(self.store.as_ref(), name).await?;
            let paused = pause::with_rollback(before, why.clone(), self.clock.now());
            pause::write(self.store.as_ref(), name, Some(&paused)).await?;
        }
        let uuid = TableUuid::new(loaded.metadata.uuid().to_string());
        let mut properties = std::collections::HashMap::new();
        for part in &plan.pipelines {
            let Some(ledger) = &part.ledger else { continue };
            // A name of its own: what was stored with the commit may be another text.
            let name = CommitId::new(self.ids.as_ref());
            let text = ledger_property::write(self.store.as_ref(), &part.pipeline, &uuid, &name, ledger).await?;
            properties.insert(ledger::property(&part.pipeline), text);
        }
        let requirements = vec![
            TableRequirement::UuidMatch { uuid: loaded.metadata.uuid() },
            TableRequirement::RefSnapshotIdMatch {
                r#ref: iceberg::spec::MAIN_BRANCH.to_owned(),
                snapshot_id: Some(plan.from),
            },
        ];
        let updates =
            vec![TableUpdate::SetProperties { updates: properties }, branch::move_main(&loaded.metadata, plan.to)];
        match self.catalog.commit(&loaded, requirements, updates).await {
            Ok(_) => Ok(plan),
            // Only a positive look-up is an answer.
            Err(error) if error.kind() == Kind::OutcomeUnknown => {
                let now = self.loaded().await?;
                let moved = now.metadata.current_snapshot().is_some_and(|s| s.snapshot_id() == plan.to);
                if moved { Ok(plan) } else { Err(error.into()) }
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn loaded(&self) -> Result<Loaded, Error> {
        let name = &self.pipeline.table.name;
        match self.catalog.load(name).await? {
            Some(loaded) => Ok(loaded),
            None => {
                never_folded(self.store.as_ref(), &self.id, name).await?;
                Err(stopped("fold.no_table", format!("there is no table {name}"), "fold something first"))
            }
        }
    }

    async fn rollback_of(&self, loaded: &Loaded, target: Target) -> Result<RollbackPlan, Error> {
        let metadata = &loaded.metadata;
        let line: Vec<&SnapshotRef> = ancestry(metadata).collect();
        let place = line.iter().position(|snapshot| match target {
            Target::Snapshot(id) => snapshot.snapshot_id() == id,
            Target::Time(time) => snapshot.timestamp_ms() <= time.millis(),
        });
        let (Some(place), Some(head)) = (place, line.first()) else {
            let oldest = line.last().map_or_else(
                || "it has none".to_owned(),
                |s| format!("the oldest is {} of {}", s.snapshot_id(), Timestamp::from_millis(s.timestamp_ms())),
            );
            return Err(stopped(
                "fold.not_on_main",
                format!("main of {} has no such snapshot among its retained ones: {oldest}", loaded.name),
                "choose a snapshot that is one of main's own, or a later time",
            ));
        };
        let Some(to) = line.get(place).filter(|_| place > 0) else {
            return Err(stopped(
                "fold.rollback_nothing",
                format!("main of {} is at that snapshot already", loaded.name),
                "there is nothing to roll back",
            ));
        };
        let is_joined = join::is_joined(&self.pipeline.table);
        let is_ours =
            |s: &SnapshotRef| s.summary().additional_properties.keys().any(|key| key.starts_with(SUMMARY_KEYS));
        if let Some(theirs) = line.iter().take(place).find(|snapshot| is_joined && !is_ours(snapshot)) {
            return Err(stopped(
                "fold.rollback_others",
                format!(
                    "snapshot {} of {}, which others made and write to, is not frazil's: going back would take what it did away",
                    theirs.snapshot_id(),
                    loaded.name
                ),
                "choose a later snapshot; or roll back with the engine that owns the table, and let `frazil recover` decide what \
                 follows",
            ));
        }
        let log = is_joined.then_some(&self.io);
        let mut pipelines = Vec::new();
        for (id, text) in ledger_property::all(metadata) {
            let property = ledger_property::name(id);
            let id: PipelineId = id.parse().map_err(|e| {
                stopped("fold.foreign_ledger", format!("the table property `{property}`: {e}"), "remove the property")
            })?;
            let now = ledger_property::read(self.store.as_ref(), &property, text).await?;
            history::not_moved(self.store.as_ref(), &id, &now, loaded, log).await?;
            let then = self.ledger_at(&id, metadata, line.iter().skip(place).copied(), &now).await?;
            pipelines.push(self.rewound(id, metadata, &now, then).await?);
        }
        pipelines.sort_by(|a, b| a.pipeline.cmp(&b.pipeline));
        Ok(RollbackPlan {
            table: loaded.name.to_string(),
            from: head.snapshot_id(),
            to: to.snapshot_id(),
            made: Timestamp::from_millis(to.timestamp_ms()),
            snapshots: place as u64,
            pipelines,
        })
    }

    /// What a pipeline had settled at the newest of these snapshots: its settlement holds the ledger. Topics that have
    /// begun anew since go on doing so.
    async fn ledger_at<'a>(
        &self,
        id: &PipelineId,
        metadata: &TableMetadata,
        mut line: impl Iterator<Item = &'a SnapshotRef> + Send,
        now: &Ledger,
    ) -> Result<Ledger, Error> {
        let key = summary_key(id);
        let lost = |why: String| {
            stopped(
                "fold.ledger_then",
                format!("what pipeline `{id}` had settled at that snapshot can't be told: {why}"),
                "choose a later snapshot; where the pipeline had not begun yet, drop the table instead",
            )
        };
        let found = line.find_map(|s| commit_of(&s.summary().additional_properties, &key));
        let Some((commit, settlement)) = found else {
            return Err(lost("no snapshot up to it is of the pipeline".to_owned()));
        };
        let gone = || lost(format!("its settlement `{settlement}` is gone"));
        let mut then = read_settlement(self.store.as_ref(), settlement).await?.ok_or_else(gone)?;
        let same = then.table_uuid.as_str() == metadata.uuid().to_string();
        if !same || then.ledger.commits.front().is_none_or(|newest| newest.as_str() != commit) {
            return Err(lost(format!("`{settlement}` is not the settlement of commit {commit}")));
        }
        then.ledger.epochs.clone_from(&now.epochs);
        Ok(then.ledger)
    }

    async fn rewound(
        &self,
        pipeline: PipelineId,
        metadata: &TableMetadata,
        now: &Ledger,
        then: Ledger,
    ) -> Result<Rewound, Error> {
        let store = self.store.as_ref();
        let uuid = TableUuid::new(metadata.uuid().to_string());
        let never_now = undelivered(store, &pipeline, &uuid, now).await?;
        let never_then = undelivered(store, &pipeline, &uuid, &then).await?;
        // Passed over then, and found since.
        let found = match then.totals().undelivered {
            0 => BTreeMap::new(),
            _ => found_between(store, &pipeline, &uuid, &then, now).await?.ok_or_else(|| {
                stopped(
                    "fold.ledger_then",
                    "what entered since that snapshot of records that had been passed over can't be told: a settlement is gone"
                        .to_owned(),
                    "choose a later snapshot, or keep the ledger as it is (`frazil recover --keep-ledger`)",
                )
            })?,
        };
        let none = Intervals::new();
        let nothing = ledger::PartitionLedger::default();
        // By partition: offsets that need a staged decision, and those for which a dead letter's word is enough.
        let mut need: BTreeMap<TopicPartition, (Intervals, Intervals)> = BTreeMap::new();
        for (at, now) in now.partitions() {
            let before = then.partition(&at).unwrap_or(&nothing);
            let settled = |l: &ledger::PartitionLedger, never: &Undelivered| {
                l.reached.subtract(&l.dead).subtract(never.listed.get(&at).unwrap_or(&none))
            };
            let found =
                found.get(&at).unwrap_or(&none).intersect(&before.reached).subtract(&before.dead).subtract(&now.dead);
            let decided = settled(now, &never_now).subtract(&settled(before, &never_then)).union(&found);
            let dead = now.dead.subtract(&before.reached);
            if !decided.is_empty() || !dead.is_empty() {
                need.insert(at, (decided, dead));
            }
        }
        let offsets = need.values().map(|(decided, dead)| decided.count() + dead.count()).sum();
        if !need.is_empty() {
            self.take_off(&pipeline, &then, &never_then.unlisted, &mut need).await?;
        }
        let missing = need
            .iter()
            .map(|(at, (decided, dead))| Offsets::new(at, decided.union(dead)))
            .filter(|lost| !lost.offsets.is_empty())
            .collect();
        Ok(Rewound { pipeline, offsets, missing, ledger: Some(then) })
    }

    /// Takes off what a fold from this ledger would find staged, and take: not what it could not tell from what it has.
    async fn take_off(
        &self,
        pipeline: &PipelineId,
        then: &Ledger,
        unlisted: &BTreeMap<TopicPartition, Intervals>,
        need: &mut BTreeMap<TopicPartition, (Intervals, Intervals)>,
    ) -> Result<(), Error> {
        let listing = list::list_all(self.store.as_ref(), pipeline, Some(then.low_minute)).await?;
        for listed in listing.objects {
            let key = listed.key.to_string();
            let footer = match Object::read_footer(self.store.as_ref(), &key, listed.size).await {
                Ok(footer) => footer,
                Err(object::Error::Store(error)) if error.is_not_found() => continue,
                Err(object::Error::Store(error)) => return Err(error.into()),
                // It would not be folded either.
                Err(object::Error::Corrupt { .. }) => continue,
                Err(error) => return Err(Error::object(key, error)),
            };
            for (at, covered) in footer.coverage.iter() {
                let at = then.counted(at, listed.key.minute);
                if let Some((decided, dead)) = need.get_mut(&at) {
                    let staged = covered.decided();
                    let taken = unlisted.get(&at).map(|unlisted| staged.subtract(unlisted));
                    *decided = decided.subtract(taken.as_ref().unwrap_or(&staged));
                    *dead = dead.subtract(&covered.delivered);
                }
            }
        }
        Ok(())
    }
}

/// The exact offsets that a ledger counts as never delivered, as far as the settlements of its line are kept.
async fn undelivered(
    store: &dyn Store,
    pipeline: &PipelineId,
    uuid: &TableUuid,
    ledger: &Ledger,
) -> Result<Undelivered, Error> {
    let all = ledger.partitions().map(|(at, partition)| (at, partition.reached.clone())).collect();
    passed_over(store, pipeline, uuid, ledger, all).await
}

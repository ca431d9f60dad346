//! The commit: settlement, then one compare-and-swap that makes rows and ledger visible together (I3).

use std::collections::BTreeMap;

use bytes::Bytes;
use model::clock::Timestamp;
use model::id::{CommitId, Ids, PipelineId, SeededIds};
use model::ledger::{self, Ledger};
use model::mutation::{self, Mutation};
use model::settlement::{Offsets, SUMMARY_KEYS, Settlement, summary_key};
use model::stored::Tag;
use model::verdict::Judgement;
use staging::key;
use staging::store::Store;
use table::snapshot::{Terms, ancestry};

use crate::bind;
use crate::error::Error;
use crate::evolve::Evolved;
use crate::ledger_property;
use crate::plan::Plan;
use crate::state::State;

/// What stays the same over the attempts of one plan.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) ids: &'a dyn Ids,
    pub(crate) pipeline: &'a PipelineId,
    pub(crate) plan: &'a Plan,
    pub(crate) judgement: &'a Judgement,
    pub(crate) evolved: &'a Evolved,
    /// A copy of the ledger in which the rows' event times were noted, where the pipeline has any.
    pub(crate) marks: Option<&'a Ledger>,
    /// The store's time when the plan was made.
    pub(crate) date: Timestamp,
}

/// One attempt: a fresh id, its settlement in the store, and what its snapshot will say.
pub(crate) struct Settled {
    pub(crate) commit: CommitId,
    pub(crate) terms: Terms,
}

impl Attempt<'_> {
    /// Works out the next ledger on a state and writes the settlement. A commit id is never used for two attempts: were
    /// the first to land late, the look-up would take one for the other.
    pub(crate) async fn settle(&self, state: &State, snapshot_id: i64) -> Result<Settled, Error> {
        let commit = match mutation::on(Mutation::CommitIdReused) {
            // One that every attempt after the same commit comes to.
            true => CommitId::new(&SeededIds::new(state.ledger.settled_at.micros().cast_unsigned())),
            false => CommitId::new(self.ids),
        };
        let mut next = state
            .ledger
            .settle(self.judgement, &commit, self.plan.low_minute, self.date)
            .map_err(|source| Error::Ledger { what: state.loaded.name.to_string(), source })?;
        next.quarantined.clone_from(&self.plan.quarantined);
        if let Some(marks) = self.marks {
            next.take_event_times(marks);
        }
        next.anchor = Some(snapshot_id);
        let property = ledger_property::write(self.store, self.pipeline, &state.uuid, &commit, &next).await?;
        let key = self.write_settlement(state, &commit, next).await?;

        let mut properties = BTreeMap::from([(ledger::property(self.pipeline), property)]);
        let Evolved { binding, .. } = self.evolved;
        if state.binding.as_ref() != Some(binding) {
            properties.insert(bind::property(self.pipeline), binding.to_property()?);
        }
        properties.extend(state.restored.clone());
        let counts = self.judgement.counts();
        let mut summary = carried(state, self.pipeline);
        summary.insert(summary_key(self.pipeline), format!("{commit} {key}"));
        for (name, count) in [
            ("frazil.staged-objects", self.plan.objects.len() as u64),
            ("frazil.duplicates", counts.duplicates),
            ("frazil.deduplicated", counts.deduplicated),
            ("frazil.late", counts.late + counts.late_kept + counts.late_dead),
            ("frazil.dead-letters", counts.dead + counts.stale),
            ("frazil.undelivered", counts.undelivered),
        ] {
            summary.insert(name.to_owned(), count.to_string());
        }
        Ok(Settled { commit, terms: Terms { time: self.date, summary, properties } })
    }

    async fn write_settlement(&self, state: &State, commit: &CommitId, ledger: Ledger) -> Result<String, Error> {
        let offsets = |pick: fn(&model::verdict::Settled) -> &model::interval::Intervals| {
            self.judgement
                .partitions
                .iter()
                .filter(|(_, s)| !pick(s).is_empty())
                .map(|(at, s)| Offsets::new(at, pick(s).clone()))
                .collect()
        };
        let settlement = Settlement {
            schema: Tag::of::<Settlement>(),
            pipeline: self.pipeline.clone(),
            table: state.loaded.name.to_string(),
            table_uuid: state.uuid.clone(),
            commit: commit.clone(),
            parent_snapshot: state.loaded.metadata.current_snapshot().map(|s| s.snapshot_id()),
            at: self.date,
            objects: self.plan.objects.clone(),
            undelivered: offsets(|s| &s.undelivered),
            found: offsets(|s| &s.found),
            counts: self.judgement.counts(),
            ledger,
        };
        let key = key::settlement(self.pipeline, &state.uuid, commit);
        self.store.put_new(&key, Bytes::from(serde_json::to_vec(&settlement)?)).await?;
        Ok(key)
    }
}

/// The newest commits of the table's other pipelines, carried on: their own look-up must find them although ours, or an
/// expiry, put distance between.
fn carried(state: &State, pipeline: &PipelineId) -> BTreeMap<String, String> {
    let mine = summary_key(pipeline);
    let mut carried = BTreeMap::new();
    for snapshot in ancestry(&state.loaded.metadata) {
        for (key, value) in &snapshot.summary().additional_properties {
            if key.starts_with(SUMMARY_KEYS) && *key != mine {
                carried.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }
    carried
}

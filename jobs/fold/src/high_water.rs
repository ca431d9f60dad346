//! Rows below what their partition has settled, in modes whose rows change what is there: a record that had been dead, or had been
//! passed over, and comes after all.
//!
//! Such a row is held against the rows of the table like any other. But a row that is not there may never have been, or a record
//! that came later may have deleted it. Staged objects tell, as long as they are retained: a row whose key was deleted later was
//! gone by then and changes nothing; one of which nothing tells any more is stale.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use futures::StreamExt;
use merge::Origin;
use merge::upsert::{Deletions, Epochs};
use model::coordinate::TopicPartition;
use model::interval::{Interval, Intervals};
use model::verdict::Judgement;
use staging::dead_letter::Class;
use staging::list;
use staging::object::Object;
use table::data_file::Target;

use crate::dead::Reason;
use crate::error::Error;
use crate::evolve::Evolved;
use crate::intake::Found;
use crate::rows::{Admitted, runs_of};
use crate::run::Fold;
use crate::state::{self, State};
use crate::upsert::Upserts;

/// Footers that are read at once.
const FOOTERS_AT_ONCE: usize = 32;

/// What is known of what came later.
pub(crate) struct HighWater {
    deletions: Deletions,
    /// Rows that came later, where a delete that comes after all would have let them in.
    followers: Option<Deletions>,
    /// By partition how far the ledger has been, and from which offset on everything up to there is known.
    partitions: BTreeMap<TopicPartition, (i64, i64)>,
    /// Why a row is dead of which nothing tells whether it was deleted later.
    pub(crate) stale: Arc<Reason>,
    /// Why a delete is dead that others came after.
    pub(crate) followed: Arc<Reason>,
}

/// What becomes of rows.
pub(crate) struct Below {
    /// Those that were deleted later.
    pub(crate) deleted: BooleanArray,
    /// Those of which nothing tells.
    pub(crate) stale: BooleanArray,
    /// Those of whose key a row came later.
    pub(crate) followed: BooleanArray,
}

impl HighWater {
    /// What becomes of rows of an object.
    ///
    /// # Errors
    /// [`merge::Error`], which would be a bug.
    pub(crate) fn below(
        &mut self,
        admitted: &BTreeMap<TopicPartition, Intervals>,
        key: &[ArrayRef],
        origin: &Origin,
        epochs: &Epochs,
    ) -> Result<Below, merge::Error> {
        let mut stale = vec![false; origin.offsets.len()];
        let mut is_below = vec![false; origin.offsets.len()];
        for run in runs_of(admitted, origin) {
            let Some((last, known_from)) = self.partitions.get(run.at) else { continue };
            for row in run.rows {
                let offset = origin.offsets.value(row);
                if let (Some(stale), Some(below)) = (stale.get_mut(row), is_below.get_mut(row)) {
                    *below = offset < *last;
                    *stale = *below && offset + 1 < *known_from;
                }
            }
        }
        let followed = match &mut self.followers {
            Some(followers) => followers.before(key, origin, epochs)?,
            None => BooleanArray::from(vec![false; origin.offsets.len()]),
        };
        let followed = followed.iter().zip(&is_below).map(|(followed, below)| Some(followed == Some(true) && *below));
        let followed = followed.collect();
        let deleted = self.deletions.before(key, origin, epochs)?;
        let deleted = deleted.iter().zip(&is_below).map(|(deleted, below)| Some(deleted == Some(true) && *below));
        Ok(Below { deleted: deleted.collect(), stale: BooleanArray::from(stale), followed })
    }
}

impl Fold {
    /// What staged objects tell of the time behind rows that come below what their partition has settled. Nothing where there are no
    /// such rows, or no record deletes.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn high_water(
        &self,
        state: &State,
        judgement: &Judgement,
        evolved: &Evolved,
        target: &Target,
        upserts: &Upserts,
    ) -> Result<Option<HighWater>, Error> {
        if !self.pipeline.table.takes_deletes() {
            return Ok(None);
        }
        // By partition the lowest of them, and how far the ledger has been.
        let mut wanted: BTreeMap<TopicPartition, (i64, i64)> = BTreeMap::new();
        for (at, offsets) in judgement.admitted.iter().flatten() {
            let last = state.ledger.partition(at).and_then(|known| Some(known.reached.hull()?.last()));
            if let (Some(last), Some(first)) = (last, offsets.first())
                && first < last
            {
                wanted
                    .entry(at.clone())
                    .and_modify(|(lowest, _)| *lowest = first.min(*lowest))
                    .or_insert((first, last));
            }
        }
        if wanted.is_empty() {
            return Ok(None);
        }
        let span =
            |(first, last): &(i64, i64)| Interval::new(first + 1, *last).map(Intervals::from).unwrap_or_default();
        let spans: BTreeMap<TopicPartition, Intervals> =
            wanted.iter().map(|(at, ends)| (at.clone(), span(ends))).collect();
        let store = self.store.as_ref();
        let passed = state::passed_over(store, &self.id, &state.uuid, &state.ledger, spans.clone()).await?;
        let mut known = passed.listed;
        let mut deletions = upserts.deletions()?;
        let mut followers = if upserts.is_ordered() { Some(upserts.deletions()?) } else { None };
        for found in self.retained_above(state, &spans).await? {
            let mut mine: BTreeMap<TopicPartition, Intervals> = BTreeMap::new();
            for (at, covered) in found.footer.coverage.iter() {
                let (Some(span), Some(hull)) = (spans.get(at), covered.delivered.hull()) else { continue };
                let all = known.entry(at.clone()).or_default();
                *all = all.union(&Intervals::from(hull));
                mine.insert(at.clone(), covered.decided().intersect(span));
            }
            let has_rows =
                found.footer.table(&self.pipeline.table.name.to_string()).is_some_and(|table| table.rows > 0);
            if !has_rows {
                continue;
            }
            let object = Object::read(store, &found.key).await;
            // One that can't be read is a hole in what is known.
            let Ok(rows) = self.rows_of(&found, object, &mine, evolved, target, &mut BTreeMap::new())? else {
                for (at, offsets) in mine {
                    known.entry(at).and_modify(|all| *all = all.subtract(&offsets));
                }
                continue;
            };
            let note = |to: &mut Deletions, rows: &Admitted| {
                let (key, epochs) = (upserts.key_of(&rows.batch), upserts.epochs(&mine, &rows.origin));
                to.add(&key, &rows.origin, &epochs).map_err(|source| upserts.bug(source))
            };
            for deleting in &rows.deleting {
                note(&mut deletions, deleting)?;
            }
            if let Some(followers) = &mut followers {
                for row in &rows.fit {
                    note(followers, row)?;
                }
            }
        }
        let partitions = wanted.into_iter().map(|(at, (_, last))| {
            let all = known.get(&at).cloned().unwrap_or_default();
            let from =
                all.as_slice().iter().find(|i| (i.first()..=i.last()).contains(&last)).map_or(last + 1, |i| i.first());
            (at, (last, from))
        });
        let stale = Arc::new(Reason {
            class: Class::Stale,
            path: String::new(),
            message: "it comes below what its partition has settled, and what tells whether a later record deleted its key is no \
                      longer kept"
                .to_owned(),
        });
        let followed = Arc::new(Reason {
            class: Class::Stale,
            path: String::new(),
            message: "it deletes below what its partition has settled, and a row of its key came after it, which it would have let in"
                .to_owned(),
        });
        Ok(Some(HighWater { deletions, followers, partitions: partitions.collect(), stale, followed }))
    }

    /// Staged objects that account for some of these offsets.
    async fn retained_above(
        &self,
        state: &State,
        spans: &BTreeMap<TopicPartition, Intervals>,
    ) -> Result<Vec<Found>, Error> {
        let store = self.store.as_ref();
        let listing = list::list_all(store, &self.id, None).await?;
        let footers = futures::stream::iter(listing.objects).map(|listed| async move {
            let key = listed.key.to_string();
            let footer = Object::read_footer(store, &key, listed.size).await;
            (key, listed.key.minute, listed.size, footer)
        });
        let mut footers = footers.buffered(FOOTERS_AT_ONCE);
        let mut found = Vec::new();
        while let Some((key, minute, size, footer)) = footers.next().await {
            // What can't be read leaves a hole in what is known.
            let Ok(mut footer) = footer else { continue };
            let Ok(coverage) = state.ledger.counted_coverage(&footer.coverage, minute) else { continue };
            footer.coverage = coverage;
            let touches = footer
                .coverage
                .iter()
                .any(|(at, covered)| spans.get(at).is_some_and(|span| !span.intersect(&covered.delivered).is_empty()));
            if touches {
                found.push(Found { key, minute, size, footer, limits: None });
            }
        }
        Ok(found)
    }
}

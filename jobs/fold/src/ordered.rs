//! Modes whose rows change what is there take a partition's records in order: nothing at or above an offset that is missing and
//! may still come.

use std::collections::BTreeMap;

use model::coordinate::TopicPartition;
use model::interval::Intervals;
use model::ledger::Ledger;

use crate::budget;
use crate::intake::Intake;

/// Leaves of every partition what goes on from where the ledger has been; the rest waits, as it is staged.
pub(crate) fn keep_contiguous(intake: &mut Intake, ledger: &Ledger) {
    if !intake.open_holes() {
        // What is missing was never handed over.
        return;
    }
    let mut known: BTreeMap<&TopicPartition, Intervals> = BTreeMap::new();
    for found in &intake.objects {
        let staged = found.staged();
        for (at, covered) in found.footer.coverage.iter() {
            // What lies between the records of one object was passed over.
            let Some(hull) = covered.delivered.intersect(&staged.usable(at)).hull() else { continue };
            let all =
                known.entry(at).or_insert_with(|| ledger.partition(at).map(|p| p.reached.clone()).unwrap_or_default());
            *all = all.union(&Intervals::from(hull));
        }
    }
    let first_hole = |all: &Intervals| match all.as_slice() {
        [first, _, ..] => Some(first.last() + 1),
        _ => None,
    };
    let holes: BTreeMap<TopicPartition, i64> =
        known.into_iter().filter_map(|(at, all)| Some((at.clone(), first_hole(&all)?))).collect();
    if holes.is_empty() {
        return;
    }
    tracing::warn!(partitions = holes.len(), "offsets are missing that may still come: what is above them waits");
    for found in &mut intake.objects {
        budget::limit(found, &holes);
    }
}

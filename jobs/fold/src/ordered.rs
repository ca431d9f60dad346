//! Modes whose rows change what is there take a partition's records in order, nothing at or above an offset that is missing and
//! may still come, and have the table to themselves.

use std::collections::BTreeMap;

use iceberg::spec::TableMetadata;
use model::coordinate::{SourceId, TopicPartition};
use model::id::PipelineId;
use model::interval::Intervals;
use model::ledger::{self, Ledger};
use pipeline::resolved::TableName;

use crate::budget;
use crate::error::Error;
use crate::intake::Intake;

/// Refuses a table that another pipeline folds into, too: its rows would be replaced by keys that mean something else, and its
/// offsets come in an order of their own.
///
/// # Errors
/// [`Error::Stopped`] with the other pipeline's id.
pub(crate) fn is_alone(metadata: &TableMetadata, id: &PipelineId, table: &TableName) -> Result<(), Error> {
    let own = ledger::property(id);
    let ledgers =
        metadata.properties().keys().filter_map(|name| name.strip_prefix(ledger::PROPERTIES).map(|id| (name, id)));
    let mut others: Vec<&str> = ledgers.filter(|(name, _)| **name != own).map(|(_, id)| id).collect();
    others.sort_unstable();
    let Some(other) = others.first() else { return Ok(()) };
    Err(Error::Stopped {
        code: "fold.two_pipelines",
        message: format!("the pipeline `{other}` folds into {table}, too, and rows of `{id}` change what is there"),
        remedy: format!(
            "fold into a table of its own; or, where `{other}` is no more, take its ledger away by removing the table property \
             `{}{other}`",
            ledger::PROPERTIES
        ),
    })
}

/// The source of each topic, of the ledger and of what is staged. Offsets of two say nothing of which record came later, and rows of
/// the table do not say which source they are of.
///
/// # Errors
/// [`Error::Stopped`] where a topic has two.
pub(crate) fn sources(
    intake: &Intake,
    ledger: &Ledger,
    table: &TableName,
) -> Result<BTreeMap<String, SourceId>, Error> {
    let mut sources: BTreeMap<String, SourceId> = BTreeMap::new();
    let known = ledger.partitions().map(|(at, _)| at);
    let staged = intake.objects.iter().flat_map(|found| found.footer.coverage.iter()).map(|(at, _)| at.clone());
    for at in known.chain(staged) {
        let source = ledger.origin(&at.source);
        match sources.get(&at.topic) {
            Some(other) if other != source => {
                return Err(Error::Stopped {
                    code: "fold.two_sources",
                    message: format!(
                        "records of the topic `{}` come from two sources, `{other}` and `{source}` (each the hash of a cluster's ARN, or of \
                         `name` under [source]), and which of two versions of a row in {table} came later only one source's offsets tell",
                        at.topic
                    ),
                    remedy: "fold each source into a table of its own; for a cluster that took the place of another, into a new table \
                             from its topic's beginning; nothing staged is lost"
                        .to_owned(),
                });
            }
            Some(_) => {}
            None => drop(sources.insert(at.topic.clone(), source.clone())),
        }
    }
    Ok(sources)
}

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

//! Signs that what is staged is not what the table's past says it must be. Each of them would lose rows silently, or
//! repeat them; so each stops the fold.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType};
use model::coordinate::{Coordinate, Sample, SourceId, TopicPartition};
use model::coverage::PartitionCoverage;
use model::id::PipelineId;
use model::interval::Intervals;
use model::ledger::Ledger;
use model::mutation::{self, Mutation};
use pipeline::resolved::TableName;
use staging::object::{self, Object, Projection, Types};
use staging::record_columns;
use staging::store::Store;

use crate::error::Error;
use crate::intake::{Found, Intake};
use crate::ledger_property;
use crate::rows;
use crate::state::State;

/// A topic deleted and made again starts over at offset 0, where the ledger has settled another record. The ledger keeps
/// some offsets with their timestamps: what a staged object says of such an offset, by a row or by an end of its
/// coverage, must agree. Gives key and reason of an object whose rows can't be read.
pub(crate) async fn same_topics(
    store: &dyn Store,
    table: &TableName,
    ledger: &Ledger,
    intake: &Intake,
) -> Result<Option<(String, String)>, Error> {
    if mutation::on(Mutation::EvidenceSkipped) {
        return Ok(None);
    }
    let corrupt = |error| match error {
        Error::Object { key, source } if matches!(*source, object::Error::Corrupt { .. }) => {
            Ok(Some((key, source.to_string())))
        }
        error => Err(error),
    };
    for found in &intake.objects {
        match contradiction(store, table, ledger, found).await {
            Ok(None) => {}
            Ok(Some(at)) => {
                return Err(recreated(&at, &found.key, &format!("{table} has settled")));
            }
            Err(error) => return corrupt(error),
        }
    }
    match disagreements(store, table, &intake.objects).await {
        Ok(found) => match found.into_iter().next() {
            None => Ok(None),
            Some((at, n)) => {
                let key = intake.objects.get(n).map_or("", |found| found.key.as_str());
                Err(recreated(&at, key, "another staged object has"))
            }
        },
        Err(error) => corrupt(error),
    }
}

/// What objects, by their places, say of one offset: its timestamp.
type Said = Vec<(usize, Option<i64>)>;

/// Where staged objects say different things of one offset: one is of the topic before it was made again, and none of it
/// was folded yet. Gives each such coordinate with the place of the later object, by its key, among those given.
pub(crate) async fn disagreements(
    store: &dyn Store,
    table: &TableName,
    objects: &[Found],
) -> Result<Vec<(Coordinate, usize)>, Error> {
    // What each object says of its ends.
    let mut ends: BTreeMap<&TopicPartition, BTreeMap<i64, Said>> = BTreeMap::new();
    for (n, found) in objects.iter().enumerate() {
        for (at, covered) in found.footer.coverage.iter() {
            for end in [covered.first, covered.last] {
                let said = ends.entry(at).or_default().entry(end.offset).or_default();
                if !said.contains(&(n, end.timestamp_ms)) {
                    said.push((n, end.timestamp_ms));
                }
            }
        }
    }
    let mut found_in = Vec::new();
    for (n, found) in objects.iter().enumerate() {
        // Ends of others that lie inside this object, at offsets where it has a row.
        let mut inside = Inside::new();
        for (at, covered) in found.footer.coverage.iter() {
            let Some(ends) = ends.get(at) else { continue };
            let rows = rows_in(covered);
            for (&offset, said) in ends.range(covered.first.offset..=covered.last.offset) {
                for &(other, timestamp_ms) in said.iter().filter(|(other, _)| *other != n) {
                    match at_end(covered, offset) {
                        Some(end) if end.timestamp_ms != timestamp_ms => {
                            found_in.push((Coordinate { partition: at.clone(), offset }, n.max(other)));
                        }
                        None if rows.contains(offset) => inside.entry(offset).or_default().push((at, timestamp_ms)),
                        _ => {}
                    }
                }
            }
        }
        if let Some(at) = rows_against(store, table, found, &inside).await? {
            let said = ends.get(&at.partition).and_then(|ends| ends.get(&at.offset));
            let latest = said.into_iter().flatten().map(|(other, _)| *other).max().unwrap_or(n);
            found_in.push((at, n.max(latest)));
        }
    }
    Ok(found_in)
}

/// The first coordinate of which an object says something else than the ledger. Its rows are read only where the ledger
/// knows an offset inside it: an object that goes on where the last one ended holds none.
pub(crate) async fn contradiction(
    store: &dyn Store,
    table: &TableName,
    ledger: &Ledger,
    found: &Found,
) -> Result<Option<Coordinate>, Error> {
    let mut inside = Inside::new();
    for (at, covered) in found.footer.coverage.iter() {
        let Some(known) = ledger.partition(at) else { continue };
        let mut rows = None;
        for sample in &known.samples {
            match at_end(covered, sample.offset) {
                Some(end) if end.timestamp_ms != sample.timestamp_ms => {
                    return Ok(Some(Coordinate { partition: at.clone(), offset: sample.offset }));
                }
                None if rows.get_or_insert_with(|| rows_in(covered)).contains(sample.offset) => {
                    inside.entry(sample.offset).or_default().push((at, sample.timestamp_ms));
                }
                _ => {}
            }
        }
    }
    rows_against(store, table, found, &inside).await
}

/// What a footer says of one of its partitions' ends.
fn at_end(covered: &PartitionCoverage, offset: i64) -> Option<&Sample> {
    [&covered.first, &covered.last].into_iter().find(|end| end.offset == offset)
}

/// The offsets of a partition at which an object has a row.
fn rows_in(covered: &PartitionCoverage) -> Intervals {
    covered.decided().subtract(&covered.filtered_any())
}

/// Timestamps that are known of offsets inside an object.
type Inside<'a> = BTreeMap<i64, Vec<(&'a TopicPartition, Option<i64>)>>;

/// The first row of an object whose timestamp is not the one known of its offset. Nothing is read where nothing is known.
async fn rows_against(
    store: &dyn Store,
    table: &TableName,
    found: &Found,
    inside: &Inside<'_>,
) -> Result<Option<Coordinate>, Error> {
    let (key, name) = (&found.key, table.to_string());
    if inside.is_empty() || found.footer.table(&name).is_none() {
        return Ok(None);
    }
    let fault = |source| Error::object(key, source);
    let object = match Object::read(store, key).await {
        Err(object::Error::Store(error)) => return Err(error.into()),
        other => other.map_err(fault)?,
    };
    let columns = [record_columns::TOPIC, record_columns::PARTITION, record_columns::OFFSET, record_columns::TIMESTAMP];
    let projection = Projection {
        columns: Some(columns.iter().map(|&name| name.to_owned()).collect()),
        types: Types::Views,
        ..Projection::default()
    };
    for batch in object.rows(&name, &projection).map_err(fault)? {
        let batch = batch.map_err(fault)?;
        if let Some(at) = row_against(&batch, inside).map_err(fault)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// The first row of a batch whose timestamp is not the one known of its offset.
fn row_against(batch: &RecordBatch, known: &Inside<'_>) -> Result<Option<Coordinate>, object::Error> {
    let topics = rows::text(batch, record_columns::TOPIC)?;
    let partitions = rows::numbers::<Int32Type>(batch, record_columns::PARTITION)?;
    let offsets = rows::numbers::<Int64Type>(batch, record_columns::OFFSET)?;
    let times = rows::numbers::<TimestampMicrosecondType>(batch, record_columns::TIMESTAMP)?;
    for (row, offset) in offsets.iter().enumerate() {
        let Some((offset, known)) = offset.and_then(|offset| known.get(&offset).map(|known| (offset, known))) else {
            continue;
        };
        let time = times.is_valid(row).then(|| times.value(row));
        let here = |at: &TopicPartition| topics.value(row) == at.topic && partitions.value(row) == at.partition;
        let other = known.iter().find(|(at, ms)| here(at) && ms.and_then(record_columns::micros) != time);
        if let Some((at, _)) = other {
            return Ok(Some(Coordinate { partition: (*at).clone(), offset }));
        }
    }
    Ok(None)
}

pub(crate) fn recreated(at: &Coordinate, key: &str, than: &str) -> Error {
    let Coordinate { partition: TopicPartition { topic, partition, .. }, offset } = at;
    Error::Stopped {
        code: "fold.topic_recreated",
        message: format!(
            "`{key}` has another record at offset {offset} of topic `{topic}`, partition {partition}, than {than}: the topic \
             was deleted and made again"
        ),
        remedy: format!(
            "`frazil reset-source --topic {topic}` counts the new topic's offsets from their own start; nothing staged is \
             lost meanwhile"
        ),
    }
}

/// A coordinate's rows enter a table once over all its pipelines (I2): two of them may not take the same topic.
pub(crate) async fn own_topics(
    store: &dyn Store,
    pipeline: &PipelineId,
    state: &State,
    intake: &Intake,
) -> Result<(), Error> {
    let staged: BTreeSet<(&SourceId, &str)> = intake
        .objects
        .iter()
        .flat_map(|found| found.footer.coverage.iter())
        .map(|(at, _)| (state.ledger.origin(&at.source), at.topic.as_str()))
        .collect();
    for (other, text) in ledger_property::all(&state.loaded.metadata) {
        if other == pipeline.as_str() {
            continue;
        }
        let ledger = ledger_property::read(store, &ledger_property::name(other), text).await?;
        let shared =
            ledger.partitions().find(|(at, _)| staged.contains(&(ledger.origin(&at.source), at.topic.as_str())));
        if let Some((at, _)) = shared {
            return Err(Error::Stopped {
                code: "fold.shared_topic",
                message: format!(
                    "pipeline `{other}` has folded topic `{}` into {} already; `{pipeline}` would repeat its rows",
                    at.topic, state.loaded.name
                ),
                remedy:
                    "fold into another table; if this is the same pipeline, restore its id at `pipelines/<name>/id`"
                        .to_owned(),
            });
        }
    }
    Ok(())
}

//! What ingest makes of a sample.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type, Schema};
use ingest::event::Reader;
use ingest::{Ingest, IngestConfig};
use model::coverage::Coverage;
use model::failure::Kind;
use staging::dead_letter::{self, Part};
use staging::footer::Footer;
use staging::object::{Object, Projection};
use staging::record_columns::{INGESTED_AT, OFFSET, OP, PARTITION, TIMESTAMP, TOPIC};

use super::expected::{Dead, Found, Row};
use super::samples::{SENT, Sample};
use crate::command::ingest::failed;
use crate::manners::failure::Failure;
use crate::value;

/// Nobody is asked but folders.
const PATIENCE: Duration = Duration::from_secs(60);

/// Topic, partition, offset.
type At = (String, i32, i64);

/// A pipeline's ingest. Each sample meets it as on its first day, so that one says nothing of the columns of another.
pub(super) struct Trial {
    config: IngestConfig,
}

impl Trial {
    pub(super) const fn of(config: IngestConfig) -> Self {
        Self { config }
    }

    /// What becomes of each record of a sample, by what names it.
    ///
    /// # Errors
    /// What fails a whole event: a sample that is none, a schema that is a service's. Never a bad record.
    pub(super) async fn hold(&self, sample: &Sample) -> Result<Vec<(String, Found)>, Failure> {
        let refused = |error: ingest::Error| match error {
            ingest::Error::Registries(registry::Error::Denied { .. }) => super::unasked(&error).at(&sample.id),
            error => failed(&error).at(&sample.id),
        };
        let ingest = Ingest::new(self.config.clone()).map_err(refused)?;
        let mut reader = Reader::new();
        let event = reader.read(&sample.event).map_err(|e| refused(e.into()))?;
        let staged = ingest.stage(&sample.event, SENT.minute(), PATIENCE).await.map_err(refused)?;
        let object = Object::open(staged.object.body).map_err(|e| unreadable(&e))?;
        let mut found = self.rows(&object)?;
        for letter in staged.dead_letters.iter().map(|letters| dead_letter::decode(&letters.body)) {
            for letter in letter.map_err(|e| unreadable(&e))? {
                let path = match letter.part {
                    Part::Key if letter.path.is_empty() => "@key".to_owned(),
                    Part::Key => format!("@key.{}", letter.path),
                    Part::Value => letter.path,
                };
                let dead =
                    Dead { class: letter.class.as_str().to_owned(), path: Some(path), message: Some(letter.message) };
                found.insert((letter.topic, letter.partition, letter.offset), Found::DeadLetter(dead));
            }
        }
        let records = event.records().map(|record| {
            let at = (record.topic().to_owned(), record.partition(), record.offset());
            let id = match sample.is_one {
                true => sample.id.clone(),
                false => format!("{}:{}-{}@{}", sample.id, at.0, at.1, at.2),
            };
            let found = match found.remove(&at) {
                Some(found) => found,
                None => filtered(&object.footer().coverage, &at)?,
            };
            Ok((id, found))
        });
        records.collect()
    }

    /// The rows of an object by record.
    fn rows(&self, object: &Object) -> Result<BTreeMap<At, Found>, Failure> {
        let mut found = BTreeMap::new();
        let is_routed = self.config.pipeline.route.is_some();
        for table in &object.footer().tables {
            let batches = object.rows(&table.name, &Projection::default()).map_err(|e| unreadable(&e))?;
            for batch in batches {
                let batch = batch.map_err(|e| unreadable(&e))?;
                let shown = shown(&batch, object.footer())?;
                for row in 0..batch.num_rows() {
                    let place = at(&batch, row)?;
                    let of = is_routed.then(|| table.name.clone());
                    let mut json = Vec::new();
                    value::row(&shown, row, &mut json).map_err(|e| unreadable(&e))?;
                    let json: Row = serde_json::from_slice(&json).map_err(|e| unreadable(&e))?;
                    // A record that deletes is no row of nulls: nothing of it but the key means anything.
                    if batch.column_by_name(OP).is_some_and(|ops| ops.is_valid(row)) {
                        found.insert(place, Found::Deletes { table: of, key: json.present() });
                        continue;
                    }
                    let made = found.entry(place).or_insert_with(|| Found::Rows { table: of, rows: Vec::new() });
                    if let Found::Rows { rows, .. } = made {
                        rows.push(json);
                    }
                }
            }
        }
        Ok(found)
    }
}

/// The table's columns alone, as its rows show them: those that the record fills are staged once, under other names.
fn shown(batch: &RecordBatch, footer: &Footer) -> Result<RecordBatch, Failure> {
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for column in &footer.columns {
        let staged = match column.source.as_str() {
            "@topic" => TOPIC,
            "@partition" => PARTITION,
            "@offset" => OFFSET,
            "@timestamp" => TIMESTAMP,
            "@ingested_at" => INGESTED_AT,
            _ => &column.name,
        };
        let index = batch.schema_ref().index_of(staged).map_err(|e| unreadable(&e))?;
        fields.push(batch.schema_ref().field(index).clone().with_name(&column.name));
        columns.push(batch.column(index).clone());
    }
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Schema::new(fields).into(), columns, &options).map_err(|e| unreadable(&e))
}

fn at(batch: &RecordBatch, row: usize) -> Result<At, Failure> {
    let missing = || Failure::new(Kind::Bug, "test.object", "a staged row lacks its record's place");
    let column = |name: &str| batch.schema_ref().index_of(name).ok();
    let topic = column(TOPIC).ok_or_else(missing)?;
    let text = value::text(batch.schema_ref().field(topic), batch.column(topic).as_ref(), row);
    let topic = text.map_err(|e| unreadable(&e))?.ok_or_else(missing)?.into_owned();
    let partition = column(PARTITION).and_then(|n| batch.column(n).as_primitive_opt::<Int32Type>());
    let offset = column(OFFSET).and_then(|n| batch.column(n).as_primitive_opt::<Int64Type>());
    let (partition, offset) = partition.zip(offset).ok_or_else(missing)?;
    Ok((topic, partition.value(row), offset.value(row)))
}

/// Why a record made no row by choice.
fn filtered(coverage: &Coverage, (topic, partition, offset): &At) -> Result<Found, Failure> {
    let (_, covered) = coverage
        .iter()
        .find(|(at, _)| at.topic == *topic && at.partition == *partition)
        .ok_or_else(|| Failure::new(Kind::Bug, "test.object", "a record is not accounted for"))?;
    let why = covered.filtered.iter().find(|(_, offsets)| offsets.contains(*offset));
    let why = why.ok_or_else(|| Failure::new(Kind::Bug, "test.object", "a record is not accounted for"))?;
    Ok(Found::Filtered(*why.0))
}

/// What we have just written ourselves.
fn unreadable(error: &dyn std::error::Error) -> Failure {
    Failure::of(Kind::Bug, "test.object", error)
}

//! One payload at a time through the pipeline's own decoder.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{FieldRef, Schema};
use codec::protobuf::{Decoder, Filter, schema};
use codec::routing::{self, Router};
use codec::texts::Texts;
use codec::{Rejected, columns};
use model::coverage::Filtered;
use model::failure::Kind;
use model::secret::Secret;
use pipeline::resolved::Pipeline;
use pipeline::route::{Part, Route};

use super::input::Record;
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;
use crate::value;

/// One row, for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// A JSON object.
    pub(crate) json: Vec<u8>,
    /// Its columns with their values, in order.
    pub(crate) cells: Vec<[String; 2]>,
}

/// What became of a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// Its rows, and the table that they go to where there are many and the record is known well enough.
    Rows { table: Option<String>, rows: Vec<Row> },
    /// A null value: in the modes there are it makes no row.
    Tombstone,
    /// It makes no row by choice.
    Filtered(Filtered),
    /// It can never be a row.
    Dead { class: &'static str, path: String, message: String },
}

impl Decoded {
    /// What is said of one that made no row.
    pub(crate) fn said(&self) -> String {
        match self {
            Self::Rows { rows, .. } => format!("{} rows", rows.len()),
            Self::Tombstone => "a tombstone: no row".to_owned(),
            Self::Filtered(Filtered::Explode) => "nothing to explode: no row".to_owned(),
            Self::Filtered(_) => "left out by the filter: no row".to_owned(),
            Self::Dead { class, path, message } => {
                let at = if path.is_empty() { String::new() } else { format!(" at {path}") };
                format!("a dead letter, {class}{at}: {message}")
            }
        }
    }

    /// The command was done; for a dead letter the answer is no.
    pub(super) const fn exit(&self) -> Exit {
        match self {
            Self::Rows { .. } | Self::Tombstone | Self::Filtered(_) => Exit::Done,
            Self::Dead { .. } => Exit::No,
        }
    }
}

/// A pipeline's decoder.
pub(crate) struct Reader {
    filter: Option<Filter>,
    decoder: Decoder,
    texts: Texts,
    router: Option<Router>,
    /// Whether a record's topic is a part of its table's name.
    by_topic: bool,
}

impl Reader {
    /// Loads the pipeline's schema and plans its columns.
    ///
    /// # Errors
    /// When the schema can't be used, or the `[value]` or `[table]` block does not fit it.
    pub(crate) fn open(pipeline: &Pipeline, salt: Option<&Secret>) -> Result<Self, Failure> {
        let message = schema::load(&pipeline.value.schema).map_err(|e| codec_failure(&e))?;
        let tables = columns::plan_tables(&message, pipeline).map_err(|faults| {
            let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
            let failure = Failure::usage("pipeline.columns", lines.join("\n"))
                .remedy("change the pipeline file where that says, or the message");
            match faults.first() {
                Some(first) => failure.at(first.place.clone()),
                None => failure,
            }
        })?;
        let columns = &tables.columns;
        let decoder = Decoder::salted(&message, columns, salt).map_err(|e| codec_failure(&e))?;
        let texts = Texts::new(columns, salt).map_err(|e| codec_failure(&e))?;
        let filter = Filter::new(&message, columns).map_err(|e| codec_failure(&e))?;
        let router = pipeline.route.as_ref().map(|route| Router::new(route, &message, &tables));
        let router = router.transpose().map_err(|e| codec_failure(&e))?;
        let by_topic = pipeline.route.iter().flat_map(Route::parts).any(|part| *part == Part::Topic);
        Ok(Self { filter, decoder, texts, router, by_topic })
    }

    /// Decodes one record, of which the topic may not be known.
    ///
    /// # Errors
    /// Never for a bad payload, which is an answer.
    pub(crate) fn read(&mut self, record: &Record, topic: Option<&str>) -> Result<Decoded, Failure> {
        let Some(value) = record.value.as_deref() else { return Ok(Decoded::Tombstone) };
        match self.filter.as_mut().map_or(Ok(true), |filter| filter.takes(value)) {
            Ok(true) => {}
            Ok(false) => return Ok(Decoded::Filtered(Filtered::Filter)),
            Err(rejected) => return Ok(dead(rejected)),
        }
        let headers = record.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
        let table = match &mut self.router {
            Some(router) if topic.is_some() || !self.by_topic => {
                let name = router.name(topic, &headers, value);
                match name.and_then(|name| routing::check(name).map(|()| name.to_owned())) {
                    Ok(name) => Some(name),
                    Err(rejected) => return Ok(dead(rejected)),
                }
            }
            _ => None,
        };
        let read = self.texts.read(record.key.as_deref(), headers);
        if let Err(rejected) = read.and_then(|()| self.decoder.decode_beside(value, self.texts.bytes())) {
            return Ok(dead(rejected));
        }
        match self.decoder.rows() {
            0 => return Ok(Decoded::Filtered(Filtered::Explode)),
            rows => self.texts.add(rows),
        }
        let batch = self.batch().map_err(|e| codec_failure(&e))?;
        let rows = (0..batch.num_rows()).map(|n| {
            let unwritable = |e| Failure::of(Kind::Bug, "decode.value", &e);
            let mut json = Vec::new();
            value::row(&batch, n, &mut json).map_err(unwritable)?;
            let cells = batch.schema_ref().fields().iter().zip(batch.columns()).map(|(field, column)| {
                let text = value::text(field, column.as_ref(), n).map_err(unwritable)?;
                Ok([field.name().clone(), text.map_or_else(|| "NULL".to_owned(), |t| value::printable(&t))])
            });
            Ok(Row { json, cells: cells.collect::<Result<_, Failure>>()? })
        });
        Ok(Decoded::Rows { table, rows: rows.collect::<Result<_, Failure>>()? })
    }
}

impl Reader {
    /// The rows of the record that was read last: columns of the value, then those of key and headers.
    fn batch(&mut self) -> Result<RecordBatch, codec::Error> {
        let batch = self.decoder.finish()?;
        let mut fields: Vec<FieldRef> = batch.schema_ref().fields().to_vec();
        fields.extend(self.texts.fields().cloned().map(Arc::new));
        let rows = batch.num_rows();
        let columns = batch.columns().iter().cloned().chain(self.texts.finish()?).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
    }
}

fn dead(rejected: Rejected) -> Decoded {
    Decoded::Dead { class: rejected.class.as_str(), path: rejected.path, message: rejected.message }
}

fn codec_failure(error: &codec::Error) -> Failure {
    let mend = error.kind() == Kind::Misconfigured;
    let remedy = mend.then_some("mend the schema, or the `[value]` block that names it");
    Failure::of(error.kind(), "pipeline.schema", error).remedy_if(remedy)
}

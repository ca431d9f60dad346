//! One payload at a time through the pipeline's own decoder.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{FieldRef, Schema};
use codec::columns::{self, Arrangement, Reading, United, Versions};
use codec::framing::{self, Framed, Message, Reference, Splitter, Unwrapped, VALUE_HEADER};
use codec::payload::{Decoder, Filter, Schema as Payload};
use codec::routing::{self, Router};
use codec::texts::Texts;
use codec::written::Written;
use codec::{Class, Rejected};
use model::coverage::Filtered;
use model::failure::Kind;
use model::secret::Secret;
use pipeline::Environment;
use pipeline::resolved::{Format, Pipeline};
use pipeline::route::{Part, Route};
use registry::{Registered, Registries, Wanted};

use super::input::Record;
use super::key::Key;
use crate::Session;
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
    /// A null value: it deletes the row of its key, or marks it.
    Delete { marks: bool },
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
            Self::Delete { marks: false } => "a tombstone: it deletes the row of its key".to_owned(),
            Self::Delete { marks: true } => "a tombstone: it marks the row of its key as deleted".to_owned(),
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
            Self::Rows { .. } | Self::Tombstone | Self::Delete { .. } | Self::Filtered(_) => Exit::Done,
            Self::Dead { .. } => Exit::No,
        }
    }
}

/// The pipeline's own schema among the writers.
const OWN: usize = 0;

/// A pipeline's decoder.
pub(crate) struct Reader {
    pipeline: Pipeline,
    salt: Option<Secret>,
    registries: Registries,
    splitter: Splitter,
    versions: Versions,
    /// The own schema's, where a fingerprint may name it.
    fingerprint: Option<u64>,
    /// What payloads are written with; the pipeline's own schema first.
    writers: Vec<Writer>,
    /// Writers by what values say.
    found: HashMap<(Reference, Message), Result<usize, Rejected>>,
    texts: Texts,
    /// What reads keys, where columns are made of fields in them.
    key: Option<Key>,
    /// Whether a record's topic is a part of its table's name.
    by_topic: bool,
}

/// What reads payloads that are written with one schema.
struct Writer {
    filter: Option<Filter>,
    decoder: Decoder,
    /// How its columns stand in those that ingest stages of such a record alone.
    arrangement: Arrangement,
    router: Option<Router>,
}

impl Writer {
    fn new(
        pipeline: &Pipeline,
        versions: &Versions,
        reading: &Reading,
        schema: &Payload,
        salt: Option<&Secret>,
    ) -> Result<Self, codec::Error> {
        let Reading { reader, tables, .. } = reading;
        let router = pipeline.route.as_ref().map(|route| Router::new(route, reader, schema, tables));
        let mut united = United::of(versions.own());
        // It goes with the others, or there would be no reading.
        if united.add(reading).is_ok() {
            versions.name(&mut united);
        }
        Ok(Self {
            filter: reader.filter(schema, &tables.columns)?,
            arrangement: united.arrangement(reading, ""),
            decoder: reader.decoder(schema, &tables.columns, salt)?,
            router: router.transpose()?,
        })
    }
}

impl Reader {
    /// Loads the pipeline's schema, from its file or the registry that keeps it, and plans its columns.
    ///
    /// # Errors
    /// When the schema or a registry can't be used, or the `[value]` or `[table]` block does not fit it.
    pub(crate) async fn open(
        pipeline: Pipeline,
        environment: &Environment,
        session: &Session<'_>,
    ) -> Result<Self, Failure> {
        let failed = |error: ingest::Error| crate::command::ingest::failed(&error);
        let salt = ingest::salt(&pipeline, environment, &session.variable).map_err(failed)?;
        let registries = ingest::registries(&pipeline, environment, &session.variable, session.clock.clone());
        let registries = Box::pin(registries).await.map_err(failed)?;
        let own = ingest::own_schema(&pipeline, &registries).await.map_err(failed)?;
        let (pipeline, key) = match pipeline.of_key() {
            Some(of_key) => {
                let own = ingest::own_schema(&of_key, &registries).await.map_err(failed)?;
                let planned = columns::plan_keys(&own, &pipeline, &of_key);
                let (columns, typed) = planned.map_err(|faults| misplanned(&faults))?;
                (typed, Some(Key::new(of_key, own, columns, salt.clone()).map_err(|e| codec_failure(&e))?))
            }
            None => (pipeline, None),
        };
        let tables = columns::plan_tables(&own, &pipeline).map_err(|faults| misplanned(&faults))?;
        let texts = Texts::new(&tables.columns, salt.as_ref()).map_err(|e| codec_failure(&e))?;
        let schema = own.schema.clone();
        let fingerprint = schema.fingerprint();
        let versions = Versions::new(&pipeline, own, tables);
        let own =
            Writer::new(&pipeline, &versions, versions.own(), &schema, salt.as_ref()).map_err(|e| codec_failure(&e))?;
        let by_topic = pipeline.route.iter().flat_map(Route::parts).any(|part| *part == Part::Topic);
        let splitter = Splitter::new(framing::Settings::of(&pipeline.value)).map_err(|e| codec_failure(&e))?;
        let (writers, found) = (vec![own], HashMap::new());
        Ok(Self { pipeline, salt, registries, splitter, versions, fingerprint, writers, found, texts, key, by_topic })
    }

    /// What becomes of a record that has no value, by its key's columns alone.
    fn without_value(&self, record: &Record) -> Decoded {
        let table = &self.pipeline.table;
        match table.beside_record_key() {
            _ if !table.takes_deletes() => Decoded::Tombstone,
            _ if self.pipeline.route.as_ref().is_some_and(Route::takes_fields) => dead(Rejected::no_field_of_a_route()),
            Some(column) => dead(Rejected::key_beside(column)),
            None if record.key.is_none() => dead(Rejected::no_key_to_delete()),
            None => Decoded::Delete { marks: table.marks_deletes() },
        }
    }

    /// Decodes one record, of which the topic may not be known.
    ///
    /// # Errors
    /// Where a registry can't be asked; never for a bad payload, which is an answer.
    pub(crate) async fn read(&mut self, record: &Record, topic: Option<&str>) -> Result<Decoded, Failure> {
        let Some(value) = record.value.as_deref() else { return Ok(self.without_value(record)) };
        let headers = record.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
        let schema_header = headers.clone().rfind(|(name, _)| *name == VALUE_HEADER).and_then(|(_, id)| id);
        let unwrapped = record.unwrapped.as_ref();
        let unwrapped = unwrapped.map(|(format, id)| Unwrapped { data_format: format, schema_id: id });
        let framed = framing::Record { value, schema_header, unwrapped };
        let (payload, writer) = match self.splitter.split(&framed) {
            Ok(Framed { schema: None, payload, .. }) => (payload.to_vec(), Ok(OWN)),
            // No registry is needed for what the schema itself is named by.
            Ok(Framed { schema: Some(Reference::AvroFingerprint(crc)), payload, .. })
                if self.fingerprint == Some(crc) =>
            {
                (payload.to_vec(), Ok(OWN))
            }
            Ok(Framed { schema: Some(reference), message, payload, .. }) => {
                let payload = payload.to_vec();
                (payload, self.writer(reference, message).await?)
            }
            Err(rejected) => return Ok(dead(rejected)),
        };
        let writer = match writer {
            Ok(number) => self.writers.get_mut(number),
            Err(rejected) => return Ok(dead(rejected)),
        };
        let Some(Writer { filter, decoder, router, arrangement }) = writer else {
            return Ok(Decoded::Filtered(Filtered::Filter));
        };
        match filter.as_mut().map_or(Ok(true), |filter| filter.takes(&payload)) {
            Ok(true) => {}
            Ok(false) => return Ok(Decoded::Filtered(Filtered::Filter)),
            Err(rejected) => return Ok(dead(rejected)),
        }
        let table = match router {
            Some(router) if topic.is_some() || !self.by_topic => {
                let name = router.name(topic, &headers, &payload);
                match name.and_then(|name| routing::check(name).map(|()| name.to_owned())) {
                    Ok(name) => Some(name),
                    Err(rejected) => return Ok(dead(rejected)),
                }
            }
            _ => None,
        };
        let read = self.texts.read(record.key.as_deref(), headers);
        if let Err(rejected) = read.and_then(|()| decoder.decode_beside(&payload, self.texts.bytes())) {
            return Ok(dead(rejected));
        }
        let rows = match decoder.rows() {
            0 => return Ok(Decoded::Filtered(Filtered::Explode)),
            rows => rows,
        };
        self.texts.add(rows);
        let keys = match &mut self.key {
            None => Vec::new(),
            Some(key) => match key.read(record, &self.registries, rows).await? {
                Ok(columns) => columns,
                Err(rejected) => {
                    // The value's rows go with their key.
                    batch(decoder, arrangement, &mut self.texts, Vec::new()).map_err(|e| codec_failure(&e))?;
                    return Ok(dead(rejected));
                }
            },
        };
        let batch = batch(decoder, arrangement, &mut self.texts, keys).map_err(|e| codec_failure(&e))?;
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

    /// The number of the writer that a value names; why there is none, where there is none.
    async fn writer(&mut self, reference: Reference, message: Message) -> Result<Result<usize, Rejected>, Failure> {
        if let Some(known) = self.found.get(&(reference, message)) {
            return Ok(known.clone());
        }
        let registered = match registered(&self.registries, reference).await? {
            Ok(registered) => registered,
            Err(rejected) => return Ok(Err(rejected)),
        };
        let format = self.pipeline.value.format;
        let named = (format == Format::Protobuf).then(|| self.versions.own().reader.name());
        let found = match Written::compile(&registered, format).and_then(|written| written.schema(message, named)) {
            Err(rejected) => Err(rejected),
            Ok(schema) => self.add(&schema).map_err(|error| codec_failure(&error))?,
        };
        self.found.insert((reference, message), found.clone());
        Ok(found)
    }

    /// One more writer, with the columns that it brings where the pipeline adds such.
    fn add(&mut self, schema: &Payload) -> Result<Result<usize, Rejected>, codec::Error> {
        let pipeline = &self.pipeline;
        let reading = match self.versions.judge(pipeline, schema) {
            Ok(reading) => reading,
            Err(rejected) => return Ok(Err(rejected)),
        };
        match Writer::new(pipeline, &self.versions, &reading, schema, self.salt.as_ref()) {
            Ok(writer) => {
                self.writers.push(writer);
                Ok(Ok(self.writers.len() - 1))
            }
            Err(error) => error.unlike().map(Err),
        }
    }
}

/// The schema that a record names; why its record is a dead letter, where no registry has it.
pub(super) async fn registered(
    registries: &Registries,
    reference: Reference,
) -> Result<Result<Arc<Registered>, Rejected>, Failure> {
    match registries.schema(&Wanted::Named(reference)).await {
        Ok(registered) => Ok(Ok(registered)),
        Err(missing @ registry::Error::NotFound { .. }) => {
            let message = missing.to_string();
            Ok(Err(Rejected { class: Class::UnknownSchema, path: String::new(), message }))
        }
        Err(error) => Err(crate::command::ingest::failed(&error.into())),
    }
}

/// The rows of the record that was read last: columns of the value, then those of key and headers.
fn batch(
    decoder: &mut Decoder,
    arrangement: &Arrangement,
    texts: &mut Texts,
    keys: Vec<(FieldRef, ArrayRef)>,
) -> Result<RecordBatch, codec::Error> {
    let batch = decoder.finish()?;
    let mut fields: Vec<FieldRef> = arrangement.fields().to_vec();
    fields.extend(texts.fields().cloned().map(Arc::new));
    let rows = batch.num_rows();
    let (key_fields, keys): (Vec<FieldRef>, Vec<ArrayRef>) = keys.into_iter().unzip();
    fields.extend(key_fields);
    let columns = arrangement.of(&batch)?.into_iter().chain(texts.finish()?).chain(keys).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
}

fn misplanned(faults: &[columns::Fault]) -> Failure {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let failure = Failure::usage("pipeline.columns", lines.join("\n"))
        .remedy("change the pipeline file where that says, or the message");
    match faults.first() {
        Some(first) => failure.at(first.place.clone()),
        None => failure,
    }
}

fn dead(rejected: Rejected) -> Decoded {
    Decoded::Dead { class: rejected.class.as_str(), path: rejected.path, message: rejected.message }
}

pub(super) fn codec_failure(error: &codec::Error) -> Failure {
    let mend = error.kind() == Kind::Misconfigured;
    let remedy = mend.then_some("mend the schema, or the `[value]` block that names it");
    Failure::of(error.kind(), "pipeline.schema", error).remedy_if(remedy)
}

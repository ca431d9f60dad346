//! Where an event's rows go: to the pipeline's table, or each to the one that its record's route names.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::FieldRef;
use codec::columns::{self, Arrangement, Reading, United};
use codec::payload::{Decoder, Filter, Schema};
use codec::routing::{self, Router};
use codec::texts::Texts;
use codec::{Class, Rejected};
use model::clock::Minute;
use model::coverage::Filtered;
use model::secret::Secret;
use pipeline::resolved::{Pipeline, Table};
use pipeline::route::Route;
use staging::footer;
use staging::object::TableRows;
use staging::record_columns;

use crate::Error;
use crate::event::Record;
use crate::ingest::TIMESTAMP_SOURCE;
use crate::plan::Fate;
use crate::target::{Key, KeyLane, Target};
use crate::writers::{OWN, Readers};

/// Tables that one event's records may go to. A field that is different in every record was hardly meant to name tables, and
/// each of them would take a row group.
const TABLES_MAX: usize = 1000;
/// Tables whose buffers are kept for the next event.
const KEPT_MAX: usize = 100;
/// Decoders of other versions of the schema, of all tables, that are kept for the next event.
const DECODERS_KEPT_MAX: usize = 200;
/// Rows that a table's buffers have room for at first, where there may be many tables.
const ROWS_EACH: usize = 64;

/// What makes the rows of a pipeline's tables.
#[derive(Debug)]
pub(crate) struct Making {
    /// What the footer, which is of all tables, says of the columns.
    pub(crate) footer: Vec<footer::Column>,
    /// The pipeline's own schema, and what its records are read as.
    pub(crate) schema: Schema,
    pub(crate) own: Arc<Reading>,
    /// The columns of that and of the versions that were met.
    united: United,
    /// What columns are made of that keys fill.
    pub(crate) key: Option<Arc<KeyMaking>>,
    salt: Option<Secret>,
}

/// What reads keys: as of values, the pipeline's own schema of them, what such are read as, and the columns of that and of the versions
/// that were met.
#[derive(Clone, Debug)]
pub(crate) struct KeyMaking {
    pub(crate) schema: Schema,
    pub(crate) own: Arc<Reading>,
    pub(crate) united: United,
}

impl Making {
    pub(crate) fn new(
        own: Arc<Reading>,
        schema: Schema,
        united: United,
        key: Option<Arc<KeyMaking>>,
        salt: Option<Secret>,
    ) -> Self {
        let (mut columns, mut former) = (united.tables.clone(), united.former.clone());
        if let Some(key) = &key {
            columns.tell_keys(&key.united.tables.columns);
            former.extend(columns::former_of_keys(&key.united.former));
        }
        let column = |column: &columns::Column| footer::Column {
            name: column.name.clone(),
            source: column.source.clone(),
            source_name: column.source_name.clone(),
            former: former.get(&column.source).cloned().unwrap_or_default(),
            data_type: column.data_type.to_string(),
            required: columns.requires(&column.name),
        };
        let footer = columns.columns.columns.iter().map(column).collect();
        Self { footer, schema, own, united, key, salt }
    }

    /// The same with the columns that records of another version bring, if any. They are called as they are among all that are judged,
    /// in whatever order they are met.
    pub(crate) fn with(&self, reading: &Reading, judged: &columns::Versions) -> Result<Option<Self>, Rejected> {
        let mut united = self.united.clone();
        united.add(reading)?;
        judged.name(&mut united);
        Ok((united != self.united).then(|| {
            Self::new(Arc::clone(&self.own), self.schema.clone(), united, self.key.clone(), self.salt.clone())
        }))
    }

    /// The same of another version of the keys' schema.
    pub(crate) fn with_key(&self, reading: &Reading, judged: &columns::Versions) -> Result<Option<Self>, Rejected> {
        let Some(key) = &self.key else { return Ok(None) };
        let mut united = key.united.clone();
        united.add(reading)?;
        judged.name(&mut united);
        Ok((united != key.united).then(|| {
            let key = Arc::new(KeyMaking { united, ..KeyMaking::clone(key) });
            Self::new(Arc::clone(&self.own), self.schema.clone(), self.united.clone(), Some(key), self.salt.clone())
        }))
    }

    fn target(&self, table: &str) -> Result<Target, Error> {
        let columns = self.united.tables.of(unqualified(table));
        let decoding = self.decoding(table, &self.own, &self.schema)?;
        let texts = Texts::new(columns, self.salt.as_ref())?;
        // The other fields of a record are always there.
        let timestamp_required = columns.columns.iter().any(|c| c.required && c.source == TIMESTAMP_SOURCE);
        let keys = match &self.key {
            Some(key) => {
                let decodings = self.key_decodings(key, &key.own, &key.schema)?;
                Some(KeyLane::new(&key.united.tables.columns, decodings))
            }
            None => None,
        };
        Ok(Target::new(table.to_owned(), decoding, texts, keys, timestamp_required))
    }

    /// What tries keys that were written with a schema, and what reads them.
    fn key_decodings(
        &self,
        key: &KeyMaking,
        reading: &Reading,
        writer: &Schema,
    ) -> Result<[Decoding; 2], codec::Error> {
        let decoding = || {
            let decoder = reading.reader.decoder(writer, &reading.tables.columns, self.salt.as_ref())?;
            Ok::<_, codec::Error>(Decoding { decoder, arrangement: key.united.arrangement(reading, "") })
        };
        Ok([decoding()?, decoding()?])
    }

    /// What makes rows of a table of what was written with a schema.
    fn decoding(&self, table: &str, reading: &Reading, writer: &Schema) -> Result<Decoding, codec::Error> {
        let table = unqualified(table);
        Ok(Decoding {
            decoder: reading.reader.decoder(writer, reading.tables.of(table), self.salt.as_ref())?,
            arrangement: self.united.arrangement(reading, table),
        })
    }

    /// What is asked of records that were written with a schema, before they are rows.
    fn writer(&self, pipeline: &Pipeline, reading: Arc<Reading>, schema: Schema) -> Result<Writer, codec::Error> {
        let (reader, tables) = (&reading.reader, &reading.tables);
        let route = pipeline.route.as_ref();
        Ok(Writer {
            digest: schema.digest(),
            filter: reader.filter(&schema, &tables.columns)?,
            router: route.map(|route| Router::new(route, reader, &schema, tables)).transpose()?,
            reading,
            schema,
        })
    }
}

/// A table's name without its namespace.
fn unqualified(table: &str) -> &str {
    table.rsplit_once('.').map_or(table, |(_, name)| name)
}

/// What reads the payloads of a writer into columns of its own, and how these stand in the table's.
pub(crate) struct Decoding {
    pub(crate) decoder: Decoder,
    arrangement: Arrangement,
}

impl Decoding {
    /// The table's columns.
    pub(crate) fn fields(&self) -> Vec<FieldRef> {
        self.arrangement.fields().to_vec()
    }

    /// The rows since the last batch, in the table's columns.
    pub(crate) fn finish(&mut self) -> Result<Vec<ArrayRef>, codec::Error> {
        self.arrangement.of(&self.decoder.finish()?)
    }
}

/// A schema that payloads are written with, and what is asked of such payloads.
struct Writer {
    schema: Schema,
    reading: Arc<Reading>,
    digest: String,
    filter: Option<Filter>,
    router: Option<Router>,
}

/// A schema that keys are written with, and what they are read as.
struct KeyWriter {
    digest: String,
    schema: Schema,
    reading: Arc<Reading>,
}

/// The tables of one event at a time.
pub(crate) struct Tables {
    making: Arc<Making>,
    pipeline: Arc<Pipeline>,
    /// Whether some table takes deletes.
    takes_deletes: bool,
    /// The only table's name, where there is one.
    only: Option<String>,
    /// What payloads are written with; the pipeline's own schema first.
    writers: Vec<Writer>,
    /// The same of keys.
    key_writers: Vec<KeyWriter>,
    /// Decoders of other writers than the first.
    decoders: usize,
    targets: Vec<Target>,
    by_name: HashMap<String, usize>,
    /// What comes of the event for each target, as far as it has rows.
    rows: Vec<Option<Rows>>,
    used: usize,
    minute: Minute,
    capacity: usize,
    /// Where the next records come from, and how many times that was said.
    from: (String, i32, usize),
}

/// Where one table's rows come from.
struct Rows {
    builder: record_columns::Builder,
    /// As `Tables::from` counts.
    started: usize,
}

impl Tables {
    pub(crate) fn new(making: Arc<Making>, pipeline: Arc<Pipeline>) -> Result<Self, Error> {
        let own = making.writer(&pipeline, Arc::clone(&making.own), making.schema.clone())?;
        let key_writer = |key: &Arc<KeyMaking>| KeyWriter {
            digest: key.schema.digest(),
            schema: key.schema.clone(),
            reading: Arc::clone(&key.own),
        };
        let key_writers = making.key.iter().map(key_writer).collect();
        let only = pipeline.route.is_none().then(|| pipeline.table.name.to_string());
        let takes_deletes = pipeline.table.takes_deletes() || pipeline.tables.values().any(Table::takes_deletes);
        let mut tables = Self {
            making,
            pipeline,
            takes_deletes,
            only,
            writers: vec![own],
            key_writers,
            decoders: 0,
            targets: Vec::new(),
            by_name: HashMap::new(),
            rows: Vec::new(),
            used: 0,
            minute: model::clock::Timestamp::from_micros(0).minute(),
            capacity: 0,
            from: (String::new(), 0, 0),
        };
        // What can't be made is found before there is an event.
        match tables.only.clone() {
            Some(only) => drop(tables.target(&only)?),
            None => drop(tables.making.target("")?),
        }
        Ok(tables)
    }

    /// What it makes rows by.
    pub(crate) const fn making(&self) -> &Arc<Making> {
        &self.making
    }

    /// The same for keys.
    pub(crate) const fn keys(&mut self) -> KeyReaders<'_> {
        KeyReaders(self)
    }

    /// Lets go of what fills memory for nothing; whether the numbers of writers mean nothing any more.
    pub(crate) fn tidy(&mut self) -> bool {
        let is_full = self.decoders > DECODERS_KEPT_MAX
            || self.writers.len() > DECODERS_KEPT_MAX
            || self.key_writers.len() > DECODERS_KEPT_MAX;
        if is_full || self.targets.len() > KEPT_MAX {
            self.targets.clear();
            self.by_name.clear();
            self.decoders = 0;
        }
        if is_full {
            self.writers.truncate(OWN + 1);
            self.key_writers.truncate(OWN + 1);
        }
        is_full
    }

    /// Begins an event of so many records.
    pub(crate) fn begin(&mut self, minute: Minute, records: usize) -> Result<(), Error> {
        self.rows.clear();
        self.rows.resize_with(self.targets.len(), || None);
        self.used = 0;
        self.minute = minute;
        self.from.2 = 0;
        self.capacity = if self.only.is_some() { records } else { ROWS_EACH.min(records) };
        // The only table is in every object, if without a row.
        if let Some(only) = self.only.clone() {
            let only = self.target(&only)?;
            self.use_target(only);
        }
        Ok(())
    }

    /// Says where the next records come from.
    pub(crate) fn start(&mut self, topic: &str, partition: i32) {
        self.from.0.clear();
        self.from.0.push_str(topic);
        self.from.1 = partition;
        self.from.2 += 1;
        if self.only.is_some() {
            self.use_target(0);
        }
    }

    /// Makes the rows of a record whose payload is written with the schema of this number.
    ///
    /// # Errors
    /// [`Error::Decode`] when a table's columns can't be filled from the message; never for a bad record.
    #[inline]
    pub(crate) fn take(
        &mut self,
        record: &Record<'_>,
        payload: &[u8],
        writer: usize,
        key: &Key<'_>,
    ) -> Result<Fate, Error> {
        if let Some(Writer { filter: Some(filter), .. }) = self.writers.get_mut(writer) {
            match filter.takes(payload) {
                Ok(true) => {}
                Ok(false) => return Ok(Fate::Filtered(Filtered::Filter)),
                Err(rejected) => return Ok(Fate::Dead(rejected)),
            }
        }
        let number = match self.only {
            Some(_) => 0,
            None => match self.routed(record, payload, writer)? {
                Ok(number) => number,
                Err(fate) => return Ok(fate),
            },
        };
        if writer != OWN
            && let Some(target) = self.targets.get_mut(number)
            && !target.reads(writer)
            && let Some(writer_of) = self.writers.get(writer)
        {
            target.add(writer, self.making.decoding(&target.table, &writer_of.reading, &writer_of.schema)?);
            self.decoders += 1;
        }
        self.read_key(number, key)?;
        Ok(match (self.targets.get_mut(number), self.rows.get_mut(number)) {
            (Some(target), Some(Some(rows))) => target.take(record, payload, writer, key, &mut rows.builder),
            // Each target is used before.
            _ => Fate::Filtered(Filtered::Filter),
        })
    }

    /// Has a record without a value delete the row of its key, in a table that takes deletes. Elsewhere there is no row to make of it.
    ///
    /// # Errors
    /// As [`Tables::take`].
    pub(crate) fn delete(&mut self, record: &Record<'_>, key: &Key<'_>) -> Result<Fate, Error> {
        if !self.takes_deletes {
            return Ok(Fate::Filtered(Filtered::Tombstone));
        }
        if self.pipeline.route.as_ref().is_some_and(Route::takes_fields) {
            return Ok(Fate::Dead(Rejected::no_field_of_a_route()));
        }
        let number = match self.only {
            Some(_) => 0,
            None => match self.routed(record, &[], OWN)? {
                Ok(number) => number,
                Err(fate) => return Ok(fate),
            },
        };
        self.read_key(number, key)?;
        let Some(target) = self.targets.get_mut(number) else { return Ok(Fate::Filtered(Filtered::Tombstone)) };
        let settings = self.pipeline.settings(unqualified(&target.table));
        if !settings.takes_deletes() {
            return Ok(Fate::Filtered(Filtered::Tombstone));
        }
        if let Some(column) = settings.beside_record_key() {
            return Ok(Fate::Dead(Rejected::key_beside(column)));
        }
        Ok(match self.rows.get_mut(number) {
            Some(Some(rows)) => target.delete(record, key, &mut rows.builder),
            _ => Fate::Filtered(Filtered::Tombstone),
        })
    }

    /// Makes sure that a target reads what a key is written with.
    fn read_key(&mut self, number: usize, key: &Key<'_>) -> Result<(), Error> {
        if let (Key::Written { writer, .. }, Some(making)) = (key, &self.making.key)
            && let Some(target) = self.targets.get_mut(number)
            && !target.reads_key(*writer)
            && let Some(KeyWriter { schema, reading, .. }) = self.key_writers.get(*writer)
        {
            target.add_key(*writer, self.making.key_decodings(making, reading, schema)?);
            self.decoders += 1;
        }
        Ok(())
    }

    /// Takes the number of records since the last time that had fields which their schemas do not know, and which were left out.
    pub(crate) fn take_ignoring(&mut self) -> u64 {
        self.targets.iter_mut().map(Target::take_ignoring).sum()
    }

    /// The rows of each table that has some, in the order in which the tables were met.
    pub(crate) fn finish(&mut self) -> Result<Vec<TableRows>, Error> {
        let mut tables = Vec::with_capacity(self.used);
        for (target, rows) in self.targets.iter_mut().zip(&mut self.rows) {
            let Some(rows) = rows.take() else { continue };
            let batch = target.batch(rows.builder)?;
            if batch.num_rows() > 0 || self.only.is_some() {
                tables.push(TableRows { table: target.table.clone(), batch });
            }
        }
        // In what order targets are kept depends on the events before.
        tables.sort_by(|a, b| a.table.cmp(&b.table));
        Ok(tables)
    }

    /// The target of the table that a record goes to, or what becomes of it instead.
    fn routed(&mut self, record: &Record<'_>, payload: &[u8], writer: usize) -> Result<Result<usize, Fate>, Error> {
        let Some(Writer { router: Some(router), .. }) = self.writers.get_mut(writer) else { return Ok(Ok(0)) };
        let name = match router.name(Some(record.topic()), &record.headers(), payload) {
            Ok(name) => name,
            Err(rejected) => return Ok(Err(Fate::Dead(rejected))),
        };
        let number = match self.by_name.get(name) {
            Some(number) => *number,
            None => {
                if let Err(rejected) = routing::check(name) {
                    return Ok(Err(Fate::Dead(rejected)));
                }
                let name = name.to_owned();
                self.target(&name)?
            }
        };
        let is_new = self.rows.get(number).is_none_or(Option::is_none);
        if is_new && self.used == TABLES_MAX {
            let message = format!("the records of its event go to more than {TABLES_MAX} tables");
            return Ok(Err(Fate::Dead(Rejected { class: Class::Unroutable, path: String::new(), message })));
        }
        self.use_target(number);
        Ok(Ok(number))
    }

    /// The target of a table, which is made where it is met first.
    fn target(&mut self, name: &str) -> Result<usize, Error> {
        if let Some(number) = self.by_name.get(name) {
            return Ok(*number);
        }
        let number = self.targets.len();
        self.targets.push(self.making.target(name)?);
        self.rows.push(None);
        self.by_name.insert(name.to_owned(), number);
        Ok(number)
    }

    /// Makes sure that a target's rows are said to come from where the records do.
    fn use_target(&mut self, number: usize) {
        let Some(rows) = self.rows.get_mut(number) else { return };
        let rows = rows.get_or_insert_with(|| {
            self.used += 1;
            Rows { builder: record_columns::Builder::new(self.minute, self.capacity), started: 0 }
        });
        let (topic, partition, times) = &self.from;
        if rows.started != *times {
            rows.builder.start(topic, *partition);
            rows.started = *times;
        }
    }
}

impl Readers for Tables {
    fn reader_name(&self) -> &str {
        self.making.own.reader.name()
    }

    fn writer(&mut self, schema: Schema, reading: Option<&Arc<Reading>>) -> Result<Result<usize, Rejected>, Error> {
        let digest = schema.digest();
        if let Some(known) = self.writers.iter().position(|known| known.digest == digest) {
            return Ok(Ok(known));
        }
        let making = Arc::clone(&self.making);
        // Tables differ in what they require, and not in what fills their columns.
        let table = self.only.clone().unwrap_or_default();
        let reading = reading.unwrap_or(&making.own);
        let made = making
            .decoding(&table, reading, &schema)
            .and_then(|decoding| Ok((decoding, making.writer(&self.pipeline, Arc::clone(reading), schema)?)));
        let (decoding, writer) = match made {
            Ok(made) => made,
            Err(error) => return Ok(Err(error.unlike()?)),
        };
        let number = self.writers.len();
        self.writers.push(writer);
        if self.only.is_some()
            && let Some(target) = self.targets.first_mut()
        {
            target.add(number, decoding);
            self.decoders += 1;
        }
        Ok(Ok(number))
    }
}

/// What reads the keys of records.
pub(crate) struct KeyReaders<'t>(&'t mut Tables);

impl Readers for KeyReaders<'_> {
    fn reader_name(&self) -> &str {
        self.0.making.key.as_ref().map_or("", |key| key.own.reader.name())
    }

    fn writer(&mut self, schema: Schema, reading: Option<&Arc<Reading>>) -> Result<Result<usize, Rejected>, Error> {
        let digest = schema.digest();
        if let Some(known) = self.0.key_writers.iter().position(|known| known.digest == digest) {
            return Ok(Ok(known));
        }
        let making = Arc::clone(&self.0.making);
        let Some(key) = &making.key else { return Ok(Ok(OWN)) };
        let reading = Arc::clone(reading.unwrap_or(&key.own));
        // Whether it can be read at all; each table makes decoders of its own.
        if let Err(error) = reading.reader.decoder(&schema, &reading.tables.columns, making.salt.as_ref()) {
            return Ok(Err(error.unlike()?));
        }
        self.0.key_writers.push(KeyWriter { digest, schema, reading });
        Ok(Ok(self.0.key_writers.len() - 1))
    }
}

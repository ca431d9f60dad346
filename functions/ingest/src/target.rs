//! One table's rows in the making.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::{Field, FieldRef, Int32Type, Schema, SchemaRef};
use codec::Rejected;
use codec::columns::Columns;
use codec::payload::Decoder;
use codec::texts::Texts;
use model::coverage::Filtered;
use staging::record_columns;

use crate::Error;
use crate::event::Record;
use crate::ingest::TIMESTAMP_SOURCE;
use crate::plan::Fate;
use crate::tables::Decoding;
use crate::writers::OWN;

/// A record's key, as far as rows are made of it.
#[derive(Debug)]
pub(crate) enum Key<'a> {
    /// No column is made of it, or it is null.
    Nothing,
    /// Without its framing, with the number of what it was written with.
    Written { writer: usize, payload: &'a [u8] },
    /// Why it can't be read.
    Rejected(Rejected),
}

/// Payloads in the order in which they were taken, whatever they were written with.
#[derive(Default)]
struct Lane {
    /// For each writer that was met what reads its payloads, by the writer's number. All of them make the same columns.
    decodings: Vec<Option<Decoding>>,
    /// The writers of the rows since the last batch, and how many rows in a row are each's.
    runs: Vec<(usize, usize)>,
}

/// In the place of a writer: rows of nulls.
const NULLS: usize = usize::MAX;

impl Lane {
    fn of(own: Decoding) -> Self {
        Self { decodings: vec![Some(own)], runs: Vec::new() }
    }

    fn reads(&self, writer: usize) -> bool {
        matches!(self.decodings.get(writer), Some(Some(_)))
    }

    fn add(&mut self, writer: usize, decoding: Decoding) {
        if self.decodings.len() <= writer {
            self.decodings.resize_with(writer + 1, || None);
        }
        if let Some(place) = self.decodings.get_mut(writer) {
            *place = Some(decoding);
        }
    }

    fn decoder(&mut self, writer: usize) -> Option<&mut Decoder> {
        self.decodings.get_mut(writer)?.as_mut().map(|decoding| &mut decoding.decoder)
    }

    /// Says that the next rows are a writer's.
    fn note(&mut self, writer: usize, rows: usize) {
        match self.runs.last_mut() {
            Some((last, count)) if *last == writer => *count += rows,
            _ => self.runs.push((writer, rows)),
        }
    }

    /// The columns of the rows since the last batch, of these fields.
    fn columns(&mut self, fields: &[FieldRef]) -> Result<Vec<ArrayRef>, Error> {
        let runs = std::mem::take(&mut self.runs);
        if let [] | [_] = runs[..]
            && runs.first().is_none_or(|(writer, _)| *writer != NULLS)
        {
            let writer = runs.first().map_or(OWN, |(writer, _)| *writer);
            let Some(Some(decoding)) = self.decodings.get_mut(writer) else { return Ok(Vec::new()) };
            return Ok(decoding.finish()?);
        }
        let mut batches: Vec<Vec<ArrayRef>> = Vec::new();
        // For each writer its batch, and how many of the batch's rows have their place. Nulls have one row, which serves for all.
        let mut placed: Vec<Option<(usize, usize)>> = vec![None; self.decodings.len()];
        let mut nulls = None;
        let mut places = Vec::with_capacity(runs.iter().map(|(_, count)| count).sum());
        for (writer, count) in runs {
            if writer == NULLS {
                let batch = *nulls.get_or_insert_with(|| {
                    batches.push(fields.iter().map(|field| new_null_array(field.data_type(), 1)).collect());
                    batches.len() - 1
                });
                places.extend(std::iter::repeat_n((batch, 0), count));
                continue;
            }
            let (Some(place), Some(Some(decoding))) = (placed.get_mut(writer), self.decodings.get_mut(writer)) else {
                continue;
            };
            let (batch, taken) = match place {
                Some(known) => known,
                None => {
                    batches.push(decoding.finish()?);
                    place.insert((batches.len() - 1, 0))
                }
            };
            places.extend((*taken..*taken + count).map(|row| (*batch, row)));
            *taken += count;
        }
        let column = |index: usize| {
            let parts: Vec<&dyn Array> =
                batches.iter().filter_map(|batch| batch.get(index)).map(AsRef::as_ref).collect();
            Ok(interleave(&parts, &places)?)
        };
        (0..fields.len()).map(column).collect()
    }
}

/// Reads keys. Whether one can be read is tried before the value is, for of a record's row nothing may stay behind.
pub(crate) struct KeyLane {
    tried: Lane,
    taken: Lane,
    /// Whether a record without a key lacks a required column.
    required: bool,
}

impl KeyLane {
    /// Of columns, and two decoders of keys of the pipeline's own schema.
    pub(crate) fn new(columns: &Columns, [tried, taken]: [Decoding; 2]) -> Self {
        let required = columns.columns.iter().any(|column| column.required);
        Self { tried: Lane::of(tried), taken: Lane::of(taken), required }
    }

    fn fields(&self) -> Vec<FieldRef> {
        let own = self.taken.decodings.first().and_then(Option::as_ref);
        own.map(Decoding::fields).unwrap_or_default()
    }

    /// Whether rows can be made of a key.
    fn tries(&mut self, key: &Key<'_>) -> Result<(), Rejected> {
        match key {
            Key::Rejected(rejected) => Err(rejected.clone().of_key()),
            Key::Nothing if self.required => Err(Rejected::no_key()),
            Key::Nothing => Ok(()),
            Key::Written { writer, payload } => match self.tried.decoder(*writer) {
                Some(decoder) => decoder.decode(payload).map_err(Rejected::of_key),
                None => Ok(()),
            },
        }
    }

    /// Makes a key a part of so many rows. It was tried before.
    fn take(&mut self, key: &Key<'_>, rows: usize) -> Result<(), Rejected> {
        match key {
            Key::Written { writer, payload } => {
                if let Some(decoder) = self.taken.decoder(*writer) {
                    for _ in 0..rows {
                        decoder.decode(payload).map_err(Rejected::of_key)?;
                    }
                }
                self.taken.note(*writer, rows);
            }
            Key::Nothing | Key::Rejected(_) => self.taken.note(NULLS, rows),
        }
        Ok(())
    }

    fn columns(&mut self) -> Result<Vec<ArrayRef>, Error> {
        for decoding in self.tried.decodings.iter_mut().flatten().filter(|decoding| decoding.decoder.rows() > 0) {
            drop(decoding.decoder.finish()?);
        }
        let fields = self.fields();
        self.taken.columns(&fields)
    }
}

/// Makes rows of one table.
pub(crate) struct Target {
    pub(crate) table: String,
    values: Lane,
    texts: Texts,
    keys: Option<KeyLane>,
    /// The fields that come from payloads, and all of them.
    fields: Vec<FieldRef>,
    schema: SchemaRef,
    timestamp_required: bool,
    /// The rows since the last batch that are records without a value, which delete the row of their key.
    deletes: Vec<usize>,
}

impl Target {
    /// `timestamp_required` is whether a record without a timestamp lacks a required column.
    pub(crate) fn new(
        table: String,
        own: Decoding,
        texts: Texts,
        keys: Option<KeyLane>,
        timestamp_required: bool,
    ) -> Self {
        let fields = own.fields();
        let mut all = fields.clone();
        all.extend(texts.fields().cloned().map(Arc::new));
        all.extend(keys.iter().flat_map(KeyLane::fields));
        all.extend(record_columns::fields());
        let schema = Arc::new(Schema::new(all));
        let deletes = Vec::new();
        Self { table, values: Lane::of(own), texts, keys, fields, schema, timestamp_required, deletes }
    }

    /// Whether it reads a writer's payloads.
    pub(crate) fn reads(&self, writer: usize) -> bool {
        self.values.reads(writer)
    }

    /// Reads a writer's payloads from now on.
    pub(crate) fn add(&mut self, writer: usize, decoding: Decoding) {
        self.values.add(writer, decoding);
    }

    /// Whether it reads a writer's keys, where it reads any.
    pub(crate) fn reads_key(&self, writer: usize) -> bool {
        self.keys.as_ref().is_none_or(|keys| keys.taken.reads(writer))
    }

    /// Reads a writer's keys from now on.
    pub(crate) fn add_key(&mut self, writer: usize, [tried, taken]: [Decoding; 2]) {
        if let Some(keys) = &mut self.keys {
            keys.tried.add(writer, tried);
            keys.taken.add(writer, taken);
        }
    }

    /// Reads what of a record is neither its value nor a field of its key; gives its timestamp.
    #[inline]
    fn beside_value(&mut self, record: &Record<'_>) -> Result<Option<i64>, Rejected> {
        let timestamp_us = record.timestamp_ms().and_then(record_columns::micros);
        if timestamp_us.is_none()
            && let Some(rejected) = self.without_timestamp(record)
        {
            return Err(rejected);
        }
        if !self.texts.is_empty() {
            self.texts.read(record.key(), record.headers())?;
        }
        Ok(timestamp_us)
    }

    /// Makes a record's rows, and says where they come from in `rows`. The payload's writer is one that it reads.
    pub(crate) fn take(
        &mut self,
        record: &Record<'_>,
        payload: &[u8],
        writer: usize,
        key: &Key<'_>,
        rows: &mut record_columns::Builder,
    ) -> Fate {
        let timestamp_us = match self.beside_value(record) {
            Ok(timestamp_us) => timestamp_us,
            Err(rejected) => return Fate::Dead(rejected),
        };
        if let Some(keys) = &mut self.keys
            && let Err(rejected) = keys.tries(key)
        {
            return Fate::Dead(rejected);
        }
        let Some(decoder) = self.values.decoder(writer) else { return Fate::Filtered(Filtered::Filter) };
        let before = decoder.rows();
        if let Err(rejected) = decoder.decode_beside(payload, self.texts.bytes()) {
            return Fate::Dead(rejected);
        }
        let made = decoder.rows() - before;
        if made == 0 {
            return Fate::Filtered(Filtered::Explode);
        }
        self.values.note(writer, made);
        if let Some(keys) = &mut self.keys
            && let Err(rejected) = keys.take(key, made)
        {
            // What was tried a moment ago is read the same way.
            return Fate::Dead(rejected);
        }
        for (ordinal, _) in (0..).zip(0..made) {
            rows.row(record.offset(), timestamp_us, ordinal);
        }
        if !self.texts.is_empty() {
            self.texts.add(made);
        }
        Fate::Row
    }

    /// Makes what deletes the row of a record's key, which has no value. What is made of the value is null in it, and whatever else
    /// is no part of the key means nothing.
    pub(crate) fn delete(&mut self, record: &Record<'_>, key: &Key<'_>, rows: &mut record_columns::Builder) -> Fate {
        let timestamp_us = match self.beside_value(record) {
            Ok(timestamp_us) => timestamp_us,
            Err(rejected) => return Fate::Dead(rejected),
        };
        if record.key().is_none() {
            return Fate::Dead(Rejected::no_key_to_delete());
        }
        if let Some(keys) = &mut self.keys
            && let Err(rejected) = keys.tries(key).and_then(|()| keys.take(key, 1))
        {
            return Fate::Dead(rejected);
        }
        self.values.note(NULLS, 1);
        self.deletes.push(rows.rows());
        rows.row(record.offset(), timestamp_us, 0);
        if !self.texts.is_empty() {
            self.texts.add(1);
        }
        Fate::Row
    }

    /// Why a record whose timestamp can't be kept is no row; none where it simply has no timestamp.
    #[cold]
    fn without_timestamp(&self, record: &Record<'_>) -> Option<Rejected> {
        let (class, message) = match record.timestamp_ms() {
            Some(ms) => {
                (codec::Class::OutOfRange, format!("the record's timestamp, {ms} ms, is out of range in microseconds"))
            }
            None if self.timestamp_required => (
                codec::Class::MissingRequired,
                "the record has no timestamp, and a required column is made of it".to_owned(),
            ),
            None => return None,
        };
        Some(Rejected { class, path: TIMESTAMP_SOURCE.to_owned(), message })
    }

    /// Takes the number of records with fields that no column was made of for want of a schema, since it was last taken.
    pub(crate) fn take_ignoring(&mut self) -> u64 {
        self.values.decodings.iter_mut().flatten().map(|decoding| decoding.decoder.take_ignoring()).sum()
    }

    /// The rows taken since the last batch.
    pub(crate) fn batch(&mut self, rows: record_columns::Builder) -> Result<RecordBatch, Error> {
        let mut columns = self.values.columns(&self.fields)?;
        columns.extend(self.texts.finish()?);
        if let Some(keys) = &mut self.keys {
            columns.extend(keys.columns()?);
        }
        let deletes = std::mem::take(&mut self.deletes);
        let all = rows.rows();
        columns.extend(rows.finish());
        if deletes.is_empty() {
            return Ok(RecordBatch::try_new(self.schema.clone(), columns)?);
        }
        // A record that deletes has nulls in columns that are required of rows.
        let own = self.schema.fields().len() - record_columns::fields().len();
        let field = |(place, field): (usize, &FieldRef)| match place < own {
            true => Arc::new(field.as_ref().clone().with_nullable(true)),
            false => Arc::clone(field),
        };
        let mut fields: Vec<FieldRef> = self.schema.fields().iter().enumerate().map(field).collect();
        fields.push(Arc::new(Field::new(record_columns::OP, record_columns::dictionary_type(), true)));
        let mut ops = vec![None; all];
        for row in deletes {
            if let Some(op) = ops.get_mut(row) {
                *op = Some(0);
            }
        }
        let words = Arc::new(StringArray::from_iter_values([record_columns::DELETE]));
        columns.push(Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(ops), words)));
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }
}

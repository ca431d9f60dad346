//! One table's rows in the making.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::interleave;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use codec::Rejected;
use codec::texts::Texts;
use model::coverage::Filtered;
use staging::record_columns;

use crate::Error;
use crate::event::Record;
use crate::ingest::TIMESTAMP_SOURCE;
use crate::plan::Fate;
use crate::tables::Decoding;
use crate::writers::OWN;

/// Makes rows of one table.
pub(crate) struct Target {
    pub(crate) table: String,
    /// For each writer that it has met what reads its payloads, by the writer's number. All of them come to the same columns.
    decodings: Vec<Option<Decoding>>,
    /// The writers of the rows since the last batch, and how many rows in a row are each's.
    runs: Vec<(usize, usize)>,
    texts: Texts,
    schema: SchemaRef,
    timestamp_required: bool,
}

impl Target {
    /// `timestamp_required` is whether a record without a timestamp lacks a required column.
    pub(crate) fn new(table: String, own: Decoding, texts: Texts, timestamp_required: bool) -> Self {
        let mut fields: Vec<FieldRef> = own.arrangement.fields().to_vec();
        fields.extend(texts.fields().cloned().map(Arc::new));
        fields.extend(record_columns::fields());
        let schema = Arc::new(Schema::new(fields));
        Self { table, decodings: vec![Some(own)], runs: Vec::new(), texts, schema, timestamp_required }
    }

    /// Whether it reads a writer's payloads.
    pub(crate) fn reads(&self, writer: usize) -> bool {
        matches!(self.decodings.get(writer), Some(Some(_)))
    }

    /// Reads a writer's payloads from now on.
    pub(crate) fn add(&mut self, writer: usize, decoding: Decoding) {
        if self.decodings.len() <= writer {
            self.decodings.resize_with(writer + 1, || None);
        }
        if let Some(place) = self.decodings.get_mut(writer) {
            *place = Some(decoding);
        }
    }

    /// Makes a record's rows, and says where they come from in `rows`. The payload's writer is one that it reads.
    pub(crate) fn take(
        &mut self,
        record: &Record<'_>,
        payload: &[u8],
        writer: usize,
        rows: &mut record_columns::Builder,
    ) -> Fate {
        let timestamp_us = record.timestamp_ms().and_then(record_columns::micros);
        if timestamp_us.is_none()
            && let Some(rejected) = self.without_timestamp(record)
        {
            return Fate::Dead(rejected);
        }
        if !self.texts.is_empty()
            && let Err(rejected) = self.texts.read(record.key(), record.headers())
        {
            return Fate::Dead(rejected);
        }
        let Some(Some(Decoding { decoder, .. })) = self.decodings.get_mut(writer) else {
            return Fate::Filtered(Filtered::Filter);
        };
        let before = decoder.rows();
        if let Err(rejected) = decoder.decode_beside(payload, self.texts.bytes()) {
            return Fate::Dead(rejected);
        }
        let made = decoder.rows() - before;
        if made == 0 {
            return Fate::Filtered(Filtered::Explode);
        }
        match self.runs.last_mut() {
            Some((last, count)) if *last == writer => *count += made,
            _ => self.runs.push((writer, made)),
        }
        for (ordinal, _) in (0..).zip(0..made) {
            rows.row(record.offset(), timestamp_us, ordinal);
        }
        if !self.texts.is_empty() {
            self.texts.add(made);
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
        self.decodings.iter_mut().flatten().map(|decoding| decoding.decoder.take_ignoring()).sum()
    }

    /// The rows taken since the last batch.
    pub(crate) fn batch(&mut self, rows: record_columns::Builder) -> Result<RecordBatch, Error> {
        let mut columns = self.payloads()?;
        columns.extend(self.texts.finish()?);
        columns.extend(rows.finish());
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }

    /// The columns that come from payloads, in the order in which they were taken, whatever they were written with.
    fn payloads(&mut self) -> Result<Vec<ArrayRef>, Error> {
        let runs = std::mem::take(&mut self.runs);
        if let [] | [_] = runs[..] {
            let writer = runs.first().map_or(OWN, |(writer, _)| *writer);
            let Some(Some(decoding)) = self.decodings.get_mut(writer) else { return Ok(Vec::new()) };
            return Ok(decoding.finish()?);
        }
        let mut batches: Vec<Vec<ArrayRef>> = Vec::new();
        // For each writer its batch, and how many of the batch's rows have their place.
        let mut placed: Vec<Option<(usize, usize)>> = vec![None; self.decodings.len()];
        let mut places = Vec::with_capacity(runs.iter().map(|(_, count)| count).sum());
        for (writer, count) in runs {
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
        let width = batches.first().map_or(0, Vec::len);
        let column = |index: usize| {
            let parts: Vec<&dyn Array> = batches.iter().filter_map(|batch| Some(batch.get(index)?.as_ref())).collect();
            Ok(interleave(&parts, &places)?)
        };
        (0..width).map(column).collect()
    }
}

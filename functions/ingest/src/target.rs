//! One table's rows in the making.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use codec::Rejected;
use codec::protobuf::Decoder;
use codec::texts::Texts;
use model::coverage::Filtered;
use staging::record_columns;

use crate::Error;
use crate::event::Record;
use crate::ingest::TIMESTAMP_SOURCE;
use crate::plan::Fate;

/// Makes rows of one table.
pub(crate) struct Target {
    pub(crate) table: String,
    decoder: Decoder,
    texts: Texts,
    schema: SchemaRef,
    timestamp_required: bool,
}

impl Target {
    /// `timestamp_required` is whether a record without a timestamp lacks a required column.
    pub(crate) fn new(table: String, decoder: Decoder, texts: Texts, timestamp_required: bool) -> Self {
        let mut fields: Vec<FieldRef> = decoder.schema().fields().to_vec();
        fields.extend(texts.fields().cloned().map(Arc::new));
        fields.extend(record_columns::fields());
        Self { table, decoder, texts, schema: Arc::new(Schema::new(fields)), timestamp_required }
    }

    /// Makes a record's rows, and says where they come from in `rows`.
    pub(crate) fn take(&mut self, record: &Record<'_>, rows: &mut record_columns::Builder) -> Fate {
        // In append mode a tombstone deletes nothing, and there is no row to make of it.
        let Some(value) = record.value() else { return Fate::Filtered(Filtered::Tombstone) };
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
        let before = self.decoder.rows();
        if let Err(rejected) = self.decoder.decode_beside(value, self.texts.bytes()) {
            return Fate::Dead(rejected);
        }
        let made = self.decoder.rows() - before;
        if made == 0 {
            return Fate::Filtered(Filtered::Explode);
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

    /// The rows taken since the last batch.
    pub(crate) fn batch(&mut self, rows: record_columns::Builder) -> Result<RecordBatch, Error> {
        let mut columns = self.decoder.finish()?.columns().to_vec();
        columns.extend(self.texts.finish()?);
        columns.extend(rows.finish());
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }
}

use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch, RecordBatchOptions};
use arrow::compute::take;
use arrow::datatypes::{Field, Schema, SchemaRef};
use model::secret::Secret;
use pipeline::resolved::UnknownFields;
use prost_reflect::MessageDescriptor;

use super::level::{Level, List};
use super::program::{Message, Output, Source};
use super::wire::{Foreign, Reader};
use super::{arrays, compile, run};
use crate::columns::Columns;
use crate::{Class, Error, Rejected, arrow_types};

/// Payloads up to this size are copied to a buffer with room behind it, which lets every short read be one of a whole
/// word; the copy costs a few nanoseconds. Larger ones are read where they are.
const COPIED_MAX: usize = 4096;

/// Room behind a copied payload: the longest read of a whole block.
const ROOM: usize = 64;

/// Turns protobuf payloads into record batches of the columns that come from the payload.
///
/// A payload is one bare message; of zero bytes, it is the message of defaults. What protobuf says about repeated
/// occurrences, packed and unpacked numbers, missing parts of map entries, unknown fields and values of another wire
/// type holds. On top of it:
/// - strings in `string` columns are UTF-8, in proto2 as well;
/// - a value that does not fit its column rejects the record, even if a later occurrence would have replaced it;
/// - fields that are in no column are passed over without a look inside, but for their bounds;
/// - proto2's `required` is not checked (a column's own `required` is), and its custom defaults are not used: absent is
///   null.
pub struct Decoder {
    root: Message,
    outputs: Vec<Output>,
    schema: SchemaRef,
    level: Level,
    foreign: Foreign,
    rest: Option<usize>,
    exploded: Option<Exploded>,
    copy: Box<[u8; COPIED_MAX + ROOM]>,
}

/// The list of which each element becomes a row.
struct Exploded {
    list: usize,
    /// For each column whether it is made of the element.
    of_element: Vec<bool>,
    /// Bytes that the rows since the last batch repeat of their records.
    repeated: usize,
}

/// Bytes that the rows of one batch may repeat of their records. An event of 6 MB comes near it only where a record with
/// large fields has thousands of elements, or a million rows come of two bytes each; the memory of a function ends soon after.
const REPEATED_MAX: usize = 128 << 20;

/// Bytes that a row repeats of every record: where it comes from, in memory and once more while it is written.
const PLACE_BYTES: usize = 64;

impl Exploded {
    /// Judges the record that was read last: without elements it leaves no row, and with too many none either.
    fn settle(&mut self, level: &mut Level, beside: usize) -> Result<(), Rejected> {
        let Some(last) = level.rows().checked_sub(1) else { return Ok(()) };
        let elements = level.lists.get(self.list).map_or(0, |list| list.length(last));
        if elements == 0 {
            level.rewind(last);
            return Ok(());
        }
        let repeated = (level.row_bytes(last, self.list) + PLACE_BYTES).saturating_add(beside).saturating_mul(elements);
        if self.repeated.saturating_add(repeated) > REPEATED_MAX {
            level.rewind(last);
            let message = format!(
                "each of the {elements} rows would repeat the rest of the record: with those before them more than {} MiB",
                REPEATED_MAX >> 20
            );
            return Err(Rejected { class: Class::TooLarge, path: String::new(), message });
        }
        self.repeated += repeated;
        Ok(())
    }

    /// For each element the row of its record. The list is empty of offsets afterwards.
    fn records(&mut self, level: &mut Level) -> Int32Array {
        self.repeated = 0;
        let offsets = level.lists.get_mut(self.list).map(List::take_offsets).unwrap_or_default();
        let mut records = Vec::with_capacity(offsets.last().map_or(0, |end| *end as usize));
        for (record, ends) in (0..).zip(offsets.windows(2)) {
            if let [from, to] = ends {
                records.resize(records.len() + (to - from) as usize, record);
            }
        }
        Int32Array::from(records)
    }
}

impl Decoder {
    /// Compiles the columns of the message.
    ///
    /// # Errors
    /// [`Error::Columns`] when the columns were planned for another message or a version of it that differs in them,
    /// [`Error::NoSalt`] when values are hashed: see [`Decoder::salted`].
    pub fn new(message: &MessageDescriptor, columns: &Columns) -> Result<Self, Error> {
        Self::salted(message, columns, None)
    }

    /// Compiles the columns of the message, with the salt of those whose values are hashed.
    ///
    /// # Errors
    /// As [`Decoder::new`]; [`Error::NoSalt`] when values are hashed and there is no salt.
    pub fn salted(message: &MessageDescriptor, columns: &Columns, salt: Option<&Secret>) -> Result<Self, Error> {
        let hasher = Arc::new(crate::hasher(columns, salt)?);
        let program = compile(message, columns, &hasher).map_err(|faults| {
            let (index, reason) = faults.into_iter().next().unwrap_or_default();
            let name = columns.columns.get(index).map_or("", |column| &column.name);
            Error::Columns { message: message.full_name().to_owned(), reason: format!("column `{name}`: {reason}") }
        })?;
        let fields: Vec<Field> = columns
            .columns
            .iter()
            .filter(|column| column.value_path().is_some() || column.is_rest())
            .map(|column| arrow_types::field(&column.name, &column.data_type, column.required))
            .collect();
        Ok(Self {
            root: program.root,
            outputs: program.outputs,
            schema: Arc::new(Schema::new(fields)),
            level: Level::new(program.layout),
            foreign: match columns.unknown_fields {
                UnknownFields::Ignore => Foreign::Skip,
                UnknownFields::Rest => Foreign::Keep { retyped: columns.columns.iter().all(|c| c.pii.is_none()) },
                UnknownFields::DeadLetter => Foreign::Refuse,
            },
            rest: program.rest,
            exploded: program.exploded.map(|list| Exploded { list, of_element: program.of_element, repeated: 0 }),
            copy: Box::new([0; COPIED_MAX + ROOM]),
        })
    }

    /// The schema of the batches that [`Decoder::finish`] gives.
    #[must_use]
    pub const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Appends one payload: as one row, or, where a repeated field is exploded, as one for each of its elements, none at all
    /// for none. [`Decoder::rows`] tells how many.
    ///
    /// # Errors
    /// Why the payload can't be rows. Nothing of it stays behind: a record goes as a whole.
    #[inline]
    pub fn decode(&mut self, payload: &[u8]) -> Result<(), Rejected> {
        self.decode_beside(payload, 0)
    }

    /// [`Decoder::decode`] of a payload that each of its rows has this many bytes beside: of the record's key and headers.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    #[inline]
    pub fn decode_beside(&mut self, payload: &[u8], beside: usize) -> Result<(), Rejected> {
        let record = self.record(payload);
        match &mut self.exploded {
            None => record,
            Some(exploded) => record.and_then(|()| exploded.settle(&mut self.level, beside)),
        }
    }

    #[inline]
    fn record(&mut self, payload: &[u8]) -> Result<(), Rejected> {
        let length = payload.len();
        let mut reader = match self.copy.get_mut(..length) {
            Some(copy) if length <= COPIED_MAX => {
                copy.copy_from_slice(payload);
                Reader::new(self.copy.as_slice(), length, self.foreign)
            }
            _ => Reader::new(payload, length, self.foreign),
        };
        let level = &mut self.level;
        let read = level
            .open_row(&mut reader.opened)
            .and_then(|()| run::message(&self.root, level, &mut reader, 0))
            .and_then(|()| match self.rest {
                Some(list) if !reader.unknown.is_empty() => {
                    reader.unknown.write(reader.buf(), list, level, &mut reader.opened)
                }
                _ => Ok(()),
            })
            .and_then(|()| level.close_row());
        read.map_err(|stop| {
            let rows = level.rows();
            level.rewind(rows);
            stop.into_rejected()
        })
    }

    /// The text of the only column in the last row, where it has one.
    pub(crate) fn only_text(&self) -> Option<&[u8]> {
        let output = self.outputs.first()?;
        let Source::Text(slot) = output.source else { return None };
        self.level.last_text(slot, output.valid)
    }

    /// Drops the rows since the last batch.
    pub(crate) fn forget(&mut self) {
        self.level.rewind(0);
    }

    /// Rows since the last batch.
    #[must_use]
    pub fn rows(&self) -> usize {
        let elements = self.exploded.as_ref().and_then(|exploded| self.level.lists.get(exploded.list));
        elements.map_or_else(|| self.level.rows(), |list| list.elements.rows())
    }

    /// Bytes that these rows take, near enough to decide when a batch is large enough.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.level.bytes()
    }

    /// Takes the rows as a batch of [`Decoder::schema`]. The decoder goes on with none.
    ///
    /// # Errors
    /// [`Error::Batch`] when Arrow refuses what was built, which would be a defect here.
    pub fn finish(&mut self) -> Result<RecordBatch, Error> {
        let rows = self.rows();
        let mut arrays = Vec::with_capacity(self.outputs.len());
        match &mut self.exploded {
            None => {
                for (output, field) in self.outputs.iter().zip(self.schema.fields()) {
                    arrays.push(arrays::take(output, field.data_type(), &mut self.level)?);
                }
            }
            Some(exploded) => {
                let records = exploded.records(&mut self.level);
                let outputs = self.outputs.iter().zip(&exploded.of_element).zip(self.schema.fields());
                for ((output, of_element), field) in outputs {
                    let elements = self.level.lists.get_mut(exploded.list).filter(|_| *of_element);
                    arrays.push(match elements {
                        Some(list) => arrays::take(output, field.data_type(), &mut list.elements)?,
                        None => take(&arrays::take(output, field.data_type(), &mut self.level)?, &records, None)?,
                    });
                }
            }
        }
        arrays::finish(&mut self.level);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?)
    }
}

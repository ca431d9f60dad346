use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use model::secret::Secret;
use pipeline::resolved::UnknownFields;
use prost_reflect::MessageDescriptor;

use super::level::Level;
use super::program::{Message, Output, Source};
use super::wire::{Foreign, Reader};
use super::{arrays, compile, run};
use crate::columns::Columns;
use crate::{Error, Rejected, arrow_types};

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
    copy: Box<[u8; COPIED_MAX + ROOM]>,
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
                UnknownFields::Rest => Foreign::Keep,
                UnknownFields::DeadLetter => Foreign::Refuse,
            },
            rest: program.rest,
            copy: Box::new([0; COPIED_MAX + ROOM]),
        })
    }

    /// The schema of the batches that [`Decoder::finish`] gives.
    #[must_use]
    pub const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Appends one payload as one row.
    ///
    /// # Errors
    /// Why the payload can't be a row. Nothing of it stays behind.
    #[inline]
    pub fn decode(&mut self, payload: &[u8]) -> Result<(), Rejected> {
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
    pub const fn rows(&self) -> usize {
        self.level.rows()
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
        let rows = self.level.rows();
        let mut arrays = Vec::with_capacity(self.outputs.len());
        for (output, field) in self.outputs.iter().zip(self.schema.fields()) {
            arrays.push(arrays::take(output, field.data_type(), &mut self.level)?);
        }
        arrays::finish(&mut self.level);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?)
    }
}

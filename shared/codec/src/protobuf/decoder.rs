use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use model::secret::Secret;
use pipeline::resolved::UnknownFields;
use prost_reflect::MessageDescriptor;

use super::program::Message;
use super::wire::{Foreign, Reader};
use super::{compile, run};
use crate::columns::{Columns, Withheld};
use crate::rows::batch::Batch;
use crate::rows::padded::Padded;
use crate::source::{self, Described as _};
use crate::{Error, Rejected};

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
    batch: Batch,
    foreign: Foreign,
    rest: Option<usize>,
    /// What is not kept of unknown fields.
    withheld: Withheld,
    padded: Padded,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("schema", self.batch.schema()).finish_non_exhaustive()
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
        Self::resolved(message, &message.describe(), columns, salt)
    }

    /// Compiles the columns of the reader's schema for a writer's message: another version of the reader's, say. Fields are the
    /// same whose numbers are; a value is read as its writer has it, and one of a field that the writer lacks is null.
    ///
    /// # Errors
    /// [`Error::Columns`] when the columns were planned for another schema than the reader's, or the writer's is of another kind
    /// in one of them; [`Error::NoSalt`] when values are hashed and there is no salt.
    pub fn resolved(
        writer: &MessageDescriptor,
        reader: &source::Schema,
        columns: &Columns,
        salt: Option<&Secret>,
    ) -> Result<Self, Error> {
        let hasher = Arc::new(crate::hasher(columns, salt)?);
        let program = compile(writer, reader, columns, &hasher)
            .map_err(|faults| Error::columns(writer.full_name(), columns, faults))?;
        let withheld = match columns.withheld.is_empty() {
            true => Withheld::default(),
            false => columns.withheld.clone().learned(&[reader, &writer.describe()]),
        };
        Ok(Self {
            withheld,
            root: program.root,
            rest: program.plan.rest,
            batch: Batch::new(program.plan, columns),
            foreign: match columns.unknown_fields {
                UnknownFields::Ignore | UnknownFields::Add => Foreign::Skip,
                UnknownFields::Rest => Foreign::Keep { retyped: columns.columns.iter().all(|c| c.pii.is_none()) },
                UnknownFields::DeadLetter => Foreign::Refuse,
            },
            padded: Padded::new(),
        })
    }

    /// The schema of the batches that [`Decoder::finish`] gives.
    #[must_use]
    pub const fn schema(&self) -> &SchemaRef {
        self.batch.schema()
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
        self.record(payload)?;
        self.batch.settle(beside)
    }

    #[inline]
    fn record(&mut self, payload: &[u8]) -> Result<(), Rejected> {
        let mut reader = Reader::new(self.padded.hold(payload), payload.len(), self.foreign);
        let level = &mut self.batch.level;
        let read = level
            .open_row(&mut reader.opened)
            .and_then(|()| run::message(&self.root, level, &mut reader, 0))
            .and_then(|()| match self.rest {
                Some(list) if !reader.unknown.is_empty() => {
                    if !self.withheld.is_empty() {
                        reader.ignored |= reader.unknown.withhold(&self.withheld);
                    }
                    reader.unknown.write(reader.buf(), list, level, &mut reader.opened)
                }
                _ => Ok(()),
            })
            .and_then(|()| level.close_row());
        let ignored = reader.ignored;
        self.batch.settled(read, ignored)
    }

    /// The text of the only column in the last row, where it has one.
    pub(crate) fn only_text(&self) -> Option<&[u8]> {
        self.batch.only_text()
    }

    /// Drops the rows since the last batch.
    pub(crate) fn forget(&mut self) {
        self.batch.forget();
    }

    /// Takes the number of records with fields that the schema does not know and that were left out, since it was last taken.
    pub const fn take_ignoring(&mut self) -> u64 {
        self.batch.take_ignoring()
    }

    /// Rows since the last batch.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.batch.rows()
    }

    /// Bytes that these rows take, near enough to decide when a batch is large enough.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.batch.bytes()
    }

    /// Takes the rows as a batch of [`Decoder::schema`]. The decoder goes on with none.
    ///
    /// # Errors
    /// [`Error::Batch`] when Arrow refuses what was built, which would be a defect here.
    pub fn finish(&mut self) -> Result<RecordBatch, Error> {
        self.batch.finish()
    }
}

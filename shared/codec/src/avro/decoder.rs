use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use model::secret::Secret;

use super::program::Program;
use super::schema::Schema;
use super::wire::Reader;
use super::{compile, run};
use crate::columns::Columns;
use crate::rows::batch::Batch;
use crate::rows::level::Level;
use crate::rows::padded::Padded;
use crate::rows::stop::{Outcome, Stop};
use crate::{Class, Error, Rejected};

/// Turns Avro records into record batches of the columns that come from the payload.
///
/// A payload is one record in binary encoding, without a container or a header. Its writer's schema says what the bytes
/// are, the reader's, which the columns were planned from, what they mean: the specification's schema resolution. On top of
/// it:
/// - a value that can't be read as the reader has it rejects the record where it is met;
/// - times of the writer's unit become those of the reader's, and decimals of fewer digits those of more;
/// - strings in `string` columns are UTF-8; of a map's equal keys the last wins; no byte is left over;
/// - fields that are in no column are passed over without a look inside, but for their bounds.
pub struct Decoder {
    program: Program,
    batch: Batch,
    padded: Padded,
    /// Whether a record takes a byte at least.
    has_bytes: bool,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("schema", self.batch.schema()).finish_non_exhaustive()
    }
}

impl Decoder {
    /// Compiles the columns of the reader's records for a writer's.
    ///
    /// # Errors
    /// [`Error::Columns`] when the columns were planned for another schema than the reader's, or a version of it that differs
    /// in them, [`Error::NoSalt`] when values are hashed: see [`Decoder::salted`]. A writer's schema is never an error:
    /// records that can't be read as the reader's are rejected one by one.
    pub fn new(writer: &Schema, reader: &Schema, columns: &Columns) -> Result<Self, Error> {
        Self::salted(writer, reader, columns, None)
    }

    /// Compiles the columns of the reader's records for a writer's, with the salt of those whose values are hashed.
    ///
    /// # Errors
    /// As [`Decoder::new`]; [`Error::NoSalt`] when values are hashed and there is no salt.
    pub fn salted(writer: &Schema, reader: &Schema, columns: &Columns, salt: Option<&Secret>) -> Result<Self, Error> {
        let hasher = Arc::new(crate::hasher(columns, salt)?);
        let (program, plan) = compile::compile(writer, reader, columns, &hasher)
            .map_err(|faults| Error::columns(reader.name(), columns, faults))?;
        let has_bytes = program.writer.least.bytes(writer.root) > 0;
        Ok(Self { program, batch: Batch::new(plan, columns), padded: Padded::new(), has_bytes })
    }

    /// The schema of the batches that [`Decoder::finish`] gives.
    #[must_use]
    pub const fn schema(&self) -> &SchemaRef {
        self.batch.schema()
    }

    /// Appends one payload: as one row, or, where an array is exploded, as one for each of its elements, none at all for
    /// none. [`Decoder::rows`] tells how many.
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
        if payload.is_empty() && self.has_bytes {
            let message = "the value has no bytes, and a record of its schema has some".to_owned();
            return Err(Rejected { class: Class::EmptyValue, path: String::new(), message });
        }
        let mut reader = Reader::new(self.padded.hold(payload), payload.len());
        let (program, level) = (&self.program, &mut self.batch.level);
        let read = level
            .open_row(&mut reader.opened)
            .and_then(|()| run::run(&program.root, program, level, &mut reader))
            .and_then(|()| reader.finish())
            .and_then(|()| match program.rest {
                Some(list) if !reader.foreign.is_empty() => keep(program, list, level, &mut reader),
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

/// Fields that the reader does not know, by their paths: more of one record are another schema's.
pub(super) const FOREIGN_MAX: usize = 10_000;

/// Writes what the reader does not know as the open row of a map from paths to JSON: of what is in a list or map, an array of
/// every one there is.
#[cold]
fn keep(program: &Program, list: usize, level: &mut Level, reader: &mut Reader<'_>) -> Outcome {
    let mut entries: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (place, text) in std::mem::take(&mut reader.foreign) {
        let first = program.foreign.get(place).map_or(place, |foreign| foreign.first);
        entries.entry(first).or_default().push(text);
    }
    for (place, texts) in entries {
        let Some(foreign) = program.foreign.get(place) else { continue };
        let text = if foreign.several { format!("[{}]", texts.join(",")) } else { texts.concat() };
        level.put_entry(list, foreign.path.as_bytes(), text.as_bytes(), &mut reader.opened)?;
    }
    Ok(())
}

impl Reader<'_> {
    /// Keeps what the reader does not know.
    #[cold]
    pub(super) fn keep(&mut self, place: usize, text: String) -> Outcome {
        if self.foreign.len() >= FOREIGN_MAX {
            let message = format!("the record has more than {FOREIGN_MAX} fields that are not in the schema");
            return Err(Stop::new(Class::TooLarge, message));
        }
        self.open(text.len())?;
        self.foreign.push((place, text));
        Ok(())
    }
}

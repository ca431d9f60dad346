use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use model::secret::Secret;

use super::place::{self, Compiled};
use super::program::Op;
use super::run;
use super::schema::Schema;
use super::store;
use super::wire::Reader;
use crate::columns::Columns;
use crate::rows::batch::Batch;
use crate::rows::level::Level;
use crate::rows::padded::Padded;
use crate::rows::stop::{Outcome, Stop};
use crate::{Class, Error, Rejected};

/// Turns JSON objects into record batches of the columns that come from the payload.
///
/// A payload is one object as RFC 8259 has it, in UTF-8, without a byte order mark, and with nothing behind it but blanks.
/// - Of several members of one name the last counts, and the others are not looked at.
/// - Numbers keep every digit: a whole number may be written `12.0` or `1e3`, and one with a fraction is none. Those of
///   floating-point columns are the nearest there is, and neither infinite nor zero in its place.
/// - Dates and times are text, or count what their column says. Bytes are base64.
/// - A missing member is its default, where the schema has one, or null; null is null.
/// - What is in no column is JSON all the same, or the record is refused.
pub struct Decoder {
    root: Op,
    /// The list of what the schema does not know, where it is kept.
    rest: Option<usize>,
    batch: Batch,
    padded: Padded,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("schema", self.batch.schema()).finish_non_exhaustive()
    }
}

impl Decoder {
    /// Compiles the columns of a schema's objects.
    ///
    /// # Errors
    /// [`Error::Columns`] when the columns were planned for another schema or a version of it that differs in them,
    /// [`Error::NoSalt`] when values are hashed: see [`Decoder::salted`].
    pub fn new(schema: &Schema, columns: &Columns) -> Result<Self, Error> {
        Self::salted(schema, columns, None)
    }

    /// Compiles the columns of a schema's objects, with the salt of those whose values are hashed.
    ///
    /// # Errors
    /// As [`Decoder::new`]; [`Error::NoSalt`] when values are hashed and there is no salt.
    pub fn salted(schema: &Schema, columns: &Columns, salt: Option<&Secret>) -> Result<Self, Error> {
        let hasher = Arc::new(crate::hasher(columns, salt)?);
        let Compiled { root, plan } = place::compile(schema, columns, &hasher)
            .map_err(|faults| Error::columns(schema.name(), columns, faults))?;
        Ok(Self { root, rest: plan.rest, batch: Batch::new(plan, columns), padded: Padded::new() })
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
        let buf = self.padded.hold(payload);
        let level = &mut self.batch.level;
        let mut reader = Reader::new(buf, payload.len());
        let mut read = object(&self.root, level, &mut reader);
        // What stopped it may be a value that a later one takes the place of.
        if read.is_err() && !reader.malformed {
            level.rewind(level.rows());
            reader = Reader::new(buf, payload.len());
            reader.careful = true;
            read = object(&self.root, level, &mut reader);
        }
        let closed = read
            .and_then(|()| match self.rest {
                Some(list) if !reader.foreign.is_empty() => rest(list, level, &mut reader),
                _ => Ok(()),
            })
            .and_then(|()| level.close_row());
        let ignored = reader.ignored;
        self.batch.settled(closed, ignored)
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

/// Reads the payload's object into the open row.
#[inline]
fn object(root: &Op, level: &mut Level, reader: &mut Reader<'_>) -> Outcome {
    level.open_row(&mut reader.opened)?;
    if !reader.is_at_object() {
        return Err(no_object(reader));
    }
    run::run(root, level, reader)?;
    reader.finish()
}

#[cold]
#[inline(never)]
fn no_object(reader: &mut Reader<'_>) -> Box<Stop> {
    let begins = reader.written(0, 3);
    let found = reader.begin();
    let skipped = if found.is_ok() { reader.skip() } else { Ok(()) };
    reader.malformed = true;
    match (found, skipped) {
        _ if reader.is_empty() => Stop::new(Class::EmptyValue, "the value has no bytes, and JSON has some"),
        _ if begins == b"\xef\xbb\xbf" => {
            Stop::new(Class::BadFraming, "a byte order mark stands before the JSON: writers of UTF-8 leave it out")
        }
        (Err(stop), _) | (_, Err(stop)) => stop,
        (Ok(begin), Ok(())) => store::unlike("an object", begin),
    }
}

/// Writes what the schema does not know as the open row of a map from paths to JSON: of what is in a list or map, an array of
/// every one there is.
#[cold]
fn rest(list: usize, level: &mut Level, reader: &mut Reader<'_>) -> Outcome {
    let mut entries: Vec<(String, Vec<u8>, bool)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (start, foreign) in std::mem::take(&mut reader.foreign) {
        let text = reader.written(start, foreign.end);
        let place = *places.entry(foreign.path.clone()).or_insert(entries.len());
        match entries.get_mut(place) {
            None => {
                let text = if foreign.several { [b"[", text].concat() } else { text.to_vec() };
                entries.push((foreign.path, text, foreign.several));
            }
            Some((_, texts, _)) => {
                texts.push(b',');
                texts.extend_from_slice(text);
            }
        }
    }
    for (path, mut text, several) in entries {
        text.extend(several.then_some(b']'));
        level.put_entry(list, path.as_bytes(), &text, &mut reader.opened)?;
    }
    Ok(())
}

//! Payloads of whatever format a pipeline names: their schema, what decodes them, and what filters them.
//!
//! Columns are planned from one schema, the [`Reader`]'s, and each payload is written with one, which may be another version of it.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use model::secret::Secret;
use pipeline::resolved::{ColumnCase, Pipeline};
use prost_reflect::MessageDescriptor;

use crate::columns::{Columns, Field};
use crate::source::{self, Brought, Described};
use crate::{Error, Rejected, avro, json, protobuf};

/// A payload's schema.
#[derive(Clone, Debug)]
pub enum Schema {
    /// A protobuf message.
    Protobuf(MessageDescriptor),
    /// An Avro schema.
    Avro(avro::Schema),
    /// A JSON Schema, or what is declared of JSON payloads.
    Json(json::Schema),
}

/// What payloads are read as, whatever version of a schema they were written with.
#[derive(Clone, Debug)]
pub enum Reader {
    /// Protobuf messages: fields are found by their numbers.
    Protobuf {
        /// The message's full name.
        name: String,
        /// What it has fields for.
        described: source::Schema,
    },
    /// Avro records, by the specification's schema resolution.
    Avro(avro::Schema),
    /// JSON objects: members are found by their names, whatever schema their writer had.
    Json(json::Schema),
}

/// Turns payloads into record batches.
#[derive(Debug)]
pub enum Decoder {
    /// Of protobuf messages.
    Protobuf(Box<protobuf::Decoder>),
    /// Of Avro records.
    Avro(Box<avro::Decoder>),
    /// Of JSON objects.
    Json(Box<json::Decoder>),
}

/// Tells the payloads that a pipeline takes from those that it leaves out.
#[derive(Debug)]
pub enum Filter {
    /// Of protobuf messages.
    Protobuf(Box<protobuf::Filter>),
    /// Of Avro records.
    Avro(Box<avro::Filter>),
    /// Of JSON objects.
    Json(Box<json::Filter>),
}

/// Reads one field of payloads as text.
#[derive(Debug)]
pub enum OneText {
    /// Of protobuf messages.
    Protobuf(Box<protobuf::OneText>),
    /// Of Avro records.
    Avro(Box<avro::OneText>),
    /// Of JSON objects.
    Json(Box<json::OneText>),
}

impl From<MessageDescriptor> for Schema {
    fn from(message: MessageDescriptor) -> Self {
        Self::Protobuf(message)
    }
}

impl From<avro::Schema> for Schema {
    fn from(schema: avro::Schema) -> Self {
        Self::Avro(schema)
    }
}

impl From<json::Schema> for Schema {
    fn from(schema: json::Schema) -> Self {
        Self::Json(schema)
    }
}

impl Described for Schema {
    fn describe(&self) -> source::Schema {
        match self {
            Self::Protobuf(message) => message.describe(),
            Self::Avro(schema) => schema.describe(),
            Self::Json(schema) => schema.describe(),
        }
    }

    fn misfits(&self, columns: &Columns) -> Vec<(usize, String)> {
        match self {
            Self::Protobuf(message) => message.misfits(columns),
            Self::Avro(schema) => schema.misfits(columns),
            Self::Json(schema) => schema.misfits(columns),
        }
    }
}

impl Schema {
    /// Its full name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Protobuf(message) => message.full_name(),
            Self::Avro(schema) => schema.name(),
            Self::Json(schema) => schema.name(),
        }
    }

    /// Names its content: SHA-256 in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> String {
        match self {
            Self::Protobuf(message) => protobuf::schema::digest(message),
            Self::Avro(schema) => schema.digest().to_owned(),
            Self::Json(schema) => schema.digest().to_owned(),
        }
    }

    /// The CRC-64-AVRO that Avro's single objects name it by; other formats have none.
    #[must_use]
    pub fn fingerprint(&self) -> Option<u64> {
        match self {
            Self::Avro(schema) => Some(schema.fingerprint()),
            Self::Protobuf(_) | Self::Json(_) => None,
        }
    }

    /// The schema that a pipeline reads payloads as, of a file or of its own columns.
    ///
    /// # Errors
    /// As [`Schema::load`].
    pub fn of(pipeline: &Pipeline) -> Result<Self, Error> {
        match &pipeline.value.schema {
            pipeline::resolved::Schema::Declared => Ok(Self::Json(json::Schema::declared(pipeline))),
            other => Self::load(other),
        }
    }

    /// Loads the schema of a pipeline's file.
    ///
    /// # Errors
    /// As [`protobuf::schema::load`], [`avro::schema::load`] and [`json::schema::load`].
    pub fn load(schema: &pipeline::resolved::Schema) -> Result<Self, Error> {
        match schema {
            pipeline::resolved::Schema::Avro { path } => avro::schema::load(path).map(Self::Avro),
            pipeline::resolved::Schema::Json { path } => json::schema::load(path).map(Self::Json),
            other => protobuf::schema::load(other).map(Self::Protobuf),
        }
    }

    /// What payloads of this very schema are read as.
    #[must_use]
    pub fn reader(&self) -> Reader {
        match self {
            Self::Protobuf(message) => {
                Reader::Protobuf { name: message.full_name().to_owned(), described: message.describe() }
            }
            Self::Avro(schema) => Reader::Avro(schema.clone()),
            Self::Json(schema) => Reader::Json(schema.clone()),
        }
    }

    /// What decodes payloads of this very schema, with the salt of columns whose values are hashed.
    ///
    /// # Errors
    /// As [`Reader::decoder`].
    pub fn decoder(&self, columns: &Columns, salt: Option<&Secret>) -> Result<Decoder, Error> {
        self.reader().decoder(self, columns, salt)
    }
}

impl Reader {
    /// The full name of what payloads are read as.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Protobuf { name, .. } => name,
            Self::Avro(schema) => schema.name(),
            Self::Json(schema) => schema.name(),
        }
    }

    /// What payloads of this schema and of another version of it are read as: with the fields of both, or of the other's those that
    /// are `brought`. Nothing where it is that already. Fields that are found by their names are the same under another spelling of which
    /// `case` makes one column.
    #[must_use]
    pub(crate) fn united(&self, version: &Schema, case: ColumnCase, brought: &Brought) -> Option<Self> {
        match (self, version) {
            (Self::Protobuf { name, described }, Schema::Protobuf(message)) => {
                let described = described.united(&message.describe(), brought)?;
                Some(Self::Protobuf { name: name.clone(), described })
            }
            (Self::Avro(own), Schema::Avro(other)) => own.united(other, case, brought).map(Self::Avro),
            (Self::Json(own), Schema::Json(other)) => own.united(other, case, brought).map(Self::Json),
            _ => None,
        }
    }

    /// The same without these fields of the payload's record, as sources name them: it does not know them.
    pub(crate) fn without(&self, fields: &[String]) -> Self {
        match self {
            Self::Protobuf { name, described } => {
                Self::Protobuf { name: name.clone(), described: described.without(fields) }
            }
            Self::Avro(schema) => Self::Avro(schema.without(fields)),
            Self::Json(schema) => Self::Json(schema.without(fields)),
        }
    }

    /// Why no record that was written with a schema can be rows of these columns, where that is so.
    pub(crate) fn unlike(&self, writer: &Schema, columns: &Columns) -> Option<String> {
        match (self, writer) {
            (Self::Protobuf { described, .. }, Schema::Protobuf(writer)) => {
                let (index, reason) = protobuf::misfits(writer, described, columns).into_iter().next()?;
                let name = columns.columns.get(index).map_or("", |column| &column.name);
                Some(format!("column `{name}`: {reason}"))
            }
            // Which of them can, each record tells.
            (Self::Avro(_), Schema::Avro(_)) | (Self::Json(_), Schema::Json(_)) => None,
            _ => Some("it is of another format".to_owned()),
        }
    }

    /// What decodes payloads that were written with this schema, with the salt of columns whose values are hashed.
    ///
    /// # Errors
    /// As [`protobuf::Decoder::resolved`], [`avro::Decoder::salted`] and [`json::Decoder::salted`]; [`Error::Columns`] where the writer's schema is of another
    /// format.
    pub fn decoder(&self, writer: &Schema, columns: &Columns, salt: Option<&Secret>) -> Result<Decoder, Error> {
        Ok(match (self, writer) {
            (Self::Protobuf { described, .. }, Schema::Protobuf(writer)) => {
                let decoder = protobuf::Decoder::resolved(writer, described, columns, salt)?;
                Decoder::Protobuf(Box::new(decoder))
            }
            (Self::Avro(reader), Schema::Avro(writer)) => {
                Decoder::Avro(Box::new(avro::Decoder::salted(writer, reader, columns, salt)?))
            }
            (Self::Json(reader), Schema::Json(_)) => {
                Decoder::Json(Box::new(json::Decoder::salted(reader, columns, salt)?))
            }
            _ => return Err(self.other_format(writer)),
        })
    }

    /// What reads a field of payloads that were written with this schema; it was found beside these columns.
    ///
    /// # Errors
    /// As [`Reader::decoder`].
    pub fn one_text(&self, writer: &Schema, field: &Field, columns: &Columns) -> Result<OneText, Error> {
        Ok(match (self, writer) {
            (Self::Protobuf { described, .. }, Schema::Protobuf(writer)) => {
                OneText::Protobuf(Box::new(protobuf::OneText::resolved(writer, described, field, columns)?))
            }
            (Self::Avro(reader), Schema::Avro(writer)) => {
                OneText::Avro(Box::new(avro::OneText::new(writer, reader, field, columns)?))
            }
            (Self::Json(reader), Schema::Json(_)) => {
                OneText::Json(Box::new(json::OneText::new(reader, field, columns)?))
            }
            _ => return Err(self.other_format(writer)),
        })
    }

    /// What filters payloads that were written with this schema, where the columns have a filter.
    ///
    /// # Errors
    /// As [`Reader::decoder`].
    pub fn filter(&self, writer: &Schema, columns: &Columns) -> Result<Option<Filter>, Error> {
        Ok(match (self, writer) {
            (Self::Protobuf { described, .. }, Schema::Protobuf(writer)) => {
                let filter = protobuf::Filter::resolved(writer, described, columns)?;
                filter.map(|filter| Filter::Protobuf(Box::new(filter)))
            }
            (Self::Avro(reader), Schema::Avro(writer)) => {
                avro::Filter::new(writer, reader, columns)?.map(|filter| Filter::Avro(Box::new(filter)))
            }
            (Self::Json(reader), Schema::Json(_)) => {
                json::Filter::new(reader, columns)?.map(|filter| Filter::Json(Box::new(filter)))
            }
            _ => return Err(self.other_format(writer)),
        })
    }

    fn other_format(&self, writer: &Schema) -> Error {
        let reason = format!("`{}` is of another format", writer.name());
        Error::Columns { message: self.name().to_owned(), reason }
    }
}

impl Described for Reader {
    fn describe(&self) -> source::Schema {
        match self {
            Self::Protobuf { described, .. } => described.clone(),
            Self::Avro(schema) => schema.describe(),
            Self::Json(schema) => schema.describe(),
        }
    }

    fn misfits(&self, columns: &Columns) -> Vec<(usize, String)> {
        match self {
            // Whether a message fills them is the writer's matter.
            Self::Protobuf { .. } => Vec::new(),
            Self::Avro(schema) => schema.misfits(columns),
            Self::Json(schema) => schema.misfits(columns),
        }
    }
}

impl OneText {
    /// What `with` makes of a payload's text, which is none where the field is absent or null.
    ///
    /// # Errors
    /// Why the payload can't be read as far as it has to be.
    pub fn read<T>(&mut self, payload: &[u8], with: impl FnOnce(Option<&[u8]>) -> T) -> Result<T, Rejected> {
        match self {
            Self::Protobuf(text) => text.read(payload, with),
            Self::Avro(text) => text.read(payload, with),
            Self::Json(text) => text.read(payload, with),
        }
    }
}

impl Decoder {
    /// The schema of the batches that [`Decoder::finish`] gives.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        match self {
            Self::Protobuf(decoder) => decoder.schema(),
            Self::Avro(decoder) => decoder.schema(),
            Self::Json(decoder) => decoder.schema(),
        }
    }

    /// Appends one payload, each of whose rows has this many bytes beside: of the record's key and headers.
    ///
    /// # Errors
    /// Why the payload can't be rows. Nothing of it stays behind: a record goes as a whole.
    #[inline]
    pub fn decode_beside(&mut self, payload: &[u8], beside: usize) -> Result<(), Rejected> {
        match self {
            Self::Protobuf(decoder) => decoder.decode_beside(payload, beside),
            Self::Avro(decoder) => decoder.decode_beside(payload, beside),
            Self::Json(decoder) => decoder.decode_beside(payload, beside),
        }
    }

    /// Appends one payload: as one row, or, where a list is exploded, as one for each of its elements.
    ///
    /// # Errors
    /// As [`Decoder::decode_beside`].
    #[inline]
    pub fn decode(&mut self, payload: &[u8]) -> Result<(), Rejected> {
        self.decode_beside(payload, 0)
    }

    /// Takes the number of records with fields that the schema does not know and that were left out, since it was last taken.
    pub const fn take_ignoring(&mut self) -> u64 {
        match self {
            Self::Protobuf(decoder) => decoder.take_ignoring(),
            Self::Avro(decoder) => decoder.take_ignoring(),
            Self::Json(decoder) => decoder.take_ignoring(),
        }
    }

    /// Rows since the last batch.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Protobuf(decoder) => decoder.rows(),
            Self::Avro(decoder) => decoder.rows(),
            Self::Json(decoder) => decoder.rows(),
        }
    }

    /// Bytes that these rows take, near enough to decide when a batch is large enough.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Protobuf(decoder) => decoder.bytes(),
            Self::Avro(decoder) => decoder.bytes(),
            Self::Json(decoder) => decoder.bytes(),
        }
    }

    /// Takes the rows as a batch of [`Decoder::schema`]. The decoder goes on with none.
    ///
    /// # Errors
    /// [`Error::Batch`] when Arrow refuses what was built, which would be a defect here.
    pub fn finish(&mut self) -> Result<RecordBatch, Error> {
        match self {
            Self::Protobuf(decoder) => decoder.finish(),
            Self::Avro(decoder) => decoder.finish(),
            Self::Json(decoder) => decoder.finish(),
        }
    }
}

impl Filter {
    /// Whether a payload's record is taken.
    ///
    /// # Errors
    /// Why the payload can't be read as far as it has to be.
    pub fn takes(&mut self, payload: &[u8]) -> Result<bool, Rejected> {
        match self {
            Self::Protobuf(filter) => filter.takes(payload),
            Self::Avro(filter) => filter.takes(payload),
            Self::Json(filter) => filter.takes(payload),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::plan;
    use crate::columns::tests::table;
    use crate::testing::cells::print;

    /// Whoever holds a decoder need not know of which format.
    #[test]
    fn a_payload_of_any_format_becomes_the_same_row() {
        let check = |schema: Schema, payload: &[u8]| {
            let mut decoder = schema.decoder(&plan(&schema, &table()).unwrap(), None).unwrap();
            decoder.decode(payload).unwrap();
            let field = Field { source: "value:name".to_owned(), source_name: "name".to_owned() };
            let field = match &schema {
                Schema::Protobuf(_) => Field { source: "value:2".to_owned(), ..field },
                Schema::Avro(_) | Schema::Json(_) => field,
            };
            let columns = plan(&schema, &table()).unwrap();
            let mut text = schema.reader().one_text(&schema, &field, &columns).unwrap();
            assert_eq!(text.read(payload, |text| text.map(<[u8]>::to_vec)).unwrap(), Some(b"a".to_vec()));
            assert_eq!((decoder.rows(), decoder.bytes() > 0, schema.digest().len()), (1, true, 64));
            assert_eq!(print(&decoder.finish().unwrap()), ["id=7 name=\"a\""], "{}", schema.name());
        };
        let text = "syntax = \"proto3\"; message M { int32 id = 1; string name = 2; }";
        check(protobuf::schema::from_text(&[("m.proto", text)], "M").unwrap().into(), b"\x08\x07\x12\x01a");
        let text = "{\"type\": \"record\", \"name\": \"M\", \"fields\": [{\"name\": \"id\", \"type\": \"int\"},
            {\"name\": \"name\", \"type\": \"string\"}]}";
        check(avro::Schema::parse(text, &[]).unwrap().into(), b"\x0e\x02a");
        let text =
            "{\"title\": \"M\", \"properties\": {\"id\": {\"type\": \"integer\"}, \"name\": {\"type\": \"string\"}}}";
        check(json::Schema::parse(text, &[]).unwrap().into(), b"{\"id\": 7, \"name\": \"a\"}");
    }
}

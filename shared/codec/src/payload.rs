//! Payloads of whatever format a pipeline names: their schema, what decodes them, and what filters them.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use model::secret::Secret;
use prost_reflect::MessageDescriptor;

use crate::columns::{Columns, Field};
use crate::source::{self, Described};
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

    /// What decodes payloads of this very schema, with the salt of columns whose values are hashed.
    ///
    /// # Errors
    /// As [`protobuf::Decoder::salted`], [`avro::Decoder::salted`] and [`json::Decoder::salted`].
    pub fn decoder(&self, columns: &Columns, salt: Option<&Secret>) -> Result<Decoder, Error> {
        Ok(match self {
            Self::Protobuf(message) => Decoder::Protobuf(Box::new(protobuf::Decoder::salted(message, columns, salt)?)),
            Self::Avro(schema) => Decoder::Avro(Box::new(avro::Decoder::salted(schema, schema, columns, salt)?)),
            Self::Json(schema) => Decoder::Json(Box::new(json::Decoder::salted(schema, columns, salt)?)),
        })
    }

    /// What reads a field of payloads of this very schema, which was found beside these columns.
    ///
    /// # Errors
    /// As [`protobuf::OneText::new`], [`avro::OneText::new`] and [`json::OneText::new`].
    pub fn one_text(&self, field: &Field, columns: &Columns) -> Result<OneText, Error> {
        Ok(match self {
            Self::Protobuf(message) => OneText::Protobuf(Box::new(protobuf::OneText::new(message, field, columns)?)),
            Self::Avro(schema) => OneText::Avro(Box::new(avro::OneText::new(schema, schema, field, columns)?)),
            Self::Json(schema) => OneText::Json(Box::new(json::OneText::new(schema, field, columns)?)),
        })
    }

    /// What filters payloads of this very schema, where the columns have a filter.
    ///
    /// # Errors
    /// As [`protobuf::Filter::new`], [`avro::Filter::new`] and [`json::Filter::new`].
    pub fn filter(&self, columns: &Columns) -> Result<Option<Filter>, Error> {
        Ok(match self {
            Self::Protobuf(message) => {
                protobuf::Filter::new(message, columns)?.map(|filter| Filter::Protobuf(Box::new(filter)))
            }
            Self::Avro(schema) => {
                avro::Filter::new(schema, schema, columns)?.map(|filter| Filter::Avro(Box::new(filter)))
            }
            Self::Json(schema) => json::Filter::new(schema, columns)?.map(|filter| Filter::Json(Box::new(filter))),
        })
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
            let mut text = schema.one_text(&field, &plan(&schema, &table()).unwrap()).unwrap();
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

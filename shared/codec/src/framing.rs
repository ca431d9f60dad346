//! What surrounds a payload: which schema it was written with, which of the schema's messages it is, where it begins.
//!
//! | framing | bytes of the value |
//! | --- | --- |
//! | bare | the payload |
//! | Glue | `03`, `00` (as it is) or `05` (zlib, RFC 1950), the schema version's UUID; then, for protobuf, an unsigned varint and the payload |
//! | Confluent | `00`, the schema's number in four bytes, big-endian; for protobuf the message's path; the payload |
//! | Avro single object | `C3 01`, the schema's CRC-64-AVRO fingerprint in eight bytes, little-endian; the payload |
//!
//! With Confluent's newer clients the value is the payload, and the header `__value_schema_id` (for keys
//! `__key_schema_id`) holds `00` and a number or `01` and a GUID, then for protobuf the path. Where an event source mapping
//! knows a registry, Lambda takes framings off and names the schema beside the value; protobuf's index or path stays.
//!
//! Sources: the serializers of awslabs/aws-glue-schema-registry and of confluentinc/schema-registry, the Avro
//! specification ("Single-object encoding"), and AWS's description of event source mappings with schema registries.

mod inflate;
mod last;
mod message;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;

use std::fmt;

use pipeline::resolved::{Format, Framing, Indexes};
use uuid::Uuid;

use crate::{Class, Error, Rejected};
use inflate::Inflater;
use last::Last;

pub use last::Beginning;
pub use message::{Message, Path};

/// The header of a record in which Confluent's newer clients name its value's schema. Of several, the last one counts.
pub const VALUE_HEADER: &str = "__value_schema_id";

/// The same for its key's.
pub const KEY_HEADER: &str = "__key_schema_id";

/// The most bytes that a compressed payload may become: many times what a broker or Lambda takes, and little enough to be
/// held beside the columns in a small function.
pub const INFLATED_BYTES_MAX: usize = 16 << 20;

const GLUE_VERSION: u8 = 3;
const GLUE_PLAIN: u8 = 0;
const GLUE_ZLIB: u8 = 5;
const CONFLUENT_NUMBER: u8 = 0;
const CONFLUENT_GUID: u8 = 1;
const SINGLE_OBJECT: [u8; 2] = [0xC3, 0x01];

/// A schema as a record names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reference {
    /// A version of a schema in the Glue Schema Registry.
    GlueVersion(Uuid),
    /// A schema's number in a registry that speaks Confluent's interface.
    ConfluentId(u32),
    /// A schema's GUID there.
    ConfluentGuid(Uuid),
    /// The CRC-64-AVRO of an Avro schema's Parsing Canonical Form.
    AvroFingerprint(u64),
}

impl Reference {
    /// The name alone, as its registry spells it.
    #[must_use]
    pub fn id(&self) -> String {
        match self {
            Self::GlueVersion(id) | Self::ConfluentGuid(id) => id.to_string(),
            Self::ConfluentId(id) => id.to_string(),
            Self::AvroFingerprint(crc) => format!("{crc:016x}"),
        }
    }
}

impl Reference {
    /// The bytes at the beginning of a value that name it, where they do: a value that begins with the same ones names the same.
    #[must_use]
    pub fn in_front(&self, record: &Record<'_>) -> Option<Beginning> {
        let bytes = match self {
            _ if record.schema_header.is_some() || record.unwrapped.is_some() => return None,
            Self::GlueVersion(_) => 18,
            Self::ConfluentId(_) => 5,
            Self::AvroFingerprint(_) => 10,
            Self::ConfluentGuid(_) => return None,
        };
        Beginning::of(record.value.get(..bytes)?)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GlueVersion(id) => write!(f, "the Glue schema version {id}"),
            Self::ConfluentId(id) => write!(f, "the schema id {id}"),
            Self::ConfluentGuid(id) => write!(f, "the schema GUID {id}"),
            Self::AvroFingerprint(crc) => write!(f, "the Avro fingerprint {crc:016x}"),
        }
    }
}

/// A value (or a key), and what a record says of it elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record<'a> {
    /// Its bytes. Null is no value, and has no framing.
    pub value: &'a [u8],
    /// The last header named [`VALUE_HEADER`] (for a key [`KEY_HEADER`]).
    pub schema_header: Option<&'a [u8]>,
    /// `valueSchemaMetadata` (for a key `keySchemaMetadata`), where the mapping took the framing off.
    pub unwrapped: Option<Unwrapped<'a>>,
}

impl<'a> From<&'a [u8]> for Record<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self { value, ..Self::default() }
    }
}

/// What Lambda says of a value whose framing it took off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwrapped<'a> {
    /// `AVRO`, `PROTOBUF` or `JSON`.
    pub data_format: &'a str,
    /// A UUID of Glue's or a number of Confluent's.
    pub schema_id: &'a str,
}

/// What a mapping that knows a registry hands over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventRecordFormat {
    /// The payload in its own encoding.
    #[default]
    Source,
    /// JSON text made of it.
    Json,
}

/// How values are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What payloads are.
    pub format: Format,
    /// What surrounds them.
    pub framing: Framing,
    /// How Confluent-framed protobuf names a message.
    pub indexes: Indexes,
    /// What a mapping that knows a registry hands over. The records don't tell.
    pub event_record_format: EventRecordFormat,
    /// The most bytes that a compressed payload may become.
    pub inflated_bytes_max: usize,
}

impl Settings {
    /// Values of a format in a framing, and everything else as it is most often.
    #[must_use]
    pub const fn new(format: Format, framing: Framing) -> Self {
        Self {
            format,
            framing,
            indexes: Indexes::Zigzag,
            event_record_format: EventRecordFormat::Source,
            inflated_bytes_max: INFLATED_BYTES_MAX,
        }
    }

    /// What a pipeline says of its values, or of its keys.
    #[must_use]
    pub const fn of(value: &pipeline::resolved::Value) -> Self {
        Self { indexes: value.indexes, ..Self::new(value.format, value.framing) }
    }
}

/// A value taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed<'a> {
    /// The schema that it was written with; the pipeline's own where it names none.
    pub schema: Option<Reference>,
    /// Which of the schema's messages it is.
    pub message: Message,
    /// The payload: a part of the value, or what it was inflated to.
    pub payload: &'a [u8],
    /// Whether schema and message are those of the value that was taken apart before this one: then so is what decodes it.
    pub repeated: bool,
}

/// Takes framings off values, one after the other, and keeps the buffer that compressed ones are inflated to.
#[derive(Debug)]
pub struct Splitter {
    settings: Settings,
    inflater: Inflater,
    last: Last,
}

/// A value whose framing was recognised, and nothing of the payload looked at.
struct Head<'a> {
    schema: Option<Reference>,
    index: Index<'a>,
    zlib: bool,
    rest: &'a [u8],
}

/// Where a value says which message it is.
enum Index<'a> {
    Nowhere,
    /// Glue's number before the payload.
    Sorted,
    /// Confluent's path before the payload.
    Path,
    /// Confluent's path in a header.
    PathIn(&'a [u8]),
}

impl Splitter {
    /// Takes values of these settings.
    ///
    /// # Errors
    /// [`Error::Framing`] when the format does not come in this framing.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        match settings.framing.refusal(settings.format) {
            Some(reason) => Err(Error::Framing { reason }),
            None => Ok(Self { settings, inflater: Inflater::default(), last: Last::default() }),
        }
    }

    /// Whether the header of [`Record::schema_header`] is looked at: with other settings it need not be looked for.
    #[must_use]
    pub const fn reads_header(&self) -> bool {
        matches!(self.settings.framing, Framing::Auto | Framing::Confluent)
    }

    /// The schema that a value names, without a look at the payload: what registries are to be asked for before a batch is
    /// decoded. Nothing where the pipeline's own holds.
    ///
    /// # Errors
    /// A part of what [`Splitter::split`] finds.
    pub fn reference(&self, record: &Record<'_>) -> Result<Option<Reference>, Rejected> {
        self.head(record).map(|head| head.schema)
    }

    /// The payload of a value that begins as the one before it did, with the same schema and message: most do, and nothing else of
    /// them is to be looked at. Nothing where [`Splitter::split`] has to tell.
    #[must_use]
    #[inline]
    pub fn repeated<'a>(&self, record: &Record<'a>) -> Option<&'a [u8]> {
        self.last.rest(record)
    }

    /// Takes a value apart. The payload holds until the next call.
    ///
    /// # Errors
    /// - `empty_value` for zero bytes, but for a bare protobuf message and one whose schema a header names: both are the
    ///   message of defaults;
    /// - `truncated` where the value ends inside its framing or its compressed payload;
    /// - `bad_framing` for another version, compression or index than there are, for metadata that is not Lambda's, and
    ///   for Avro without framing under `auto`;
    /// - `bad_checksum`, `trailing_bytes`, `too_large` for compressed payloads;
    /// - `incompatible_schema` where Lambda handed over another format than the pipeline's.
    pub fn split<'a>(&'a mut self, record: &Record<'a>) -> Result<Framed<'a>, Rejected> {
        if let Some((schema, message, payload)) = self.last.again(record) {
            return Ok(Framed { schema, message, payload, repeated: true });
        }
        let Head { schema, index, zlib, rest } = self.head(record)?;
        let rest = if zlib { self.inflater.inflate(rest, self.settings.inflated_bytes_max)? } else { rest };
        let (message, payload) = match index {
            Index::Nowhere => (Message::Unsaid, rest),
            Index::Sorted => message::sorted(rest)?,
            Index::Path => message::path(rest, self.settings.indexes)?,
            Index::PathIn(header) => match message::path(header, self.settings.indexes)? {
                (message, []) => (message, rest),
                _ => {
                    return Err(bad("the header that names the schema has bytes behind the message's path".to_owned()));
                }
            },
        };
        let repeated = self.last.replace(record, zlib, schema, message, payload.len());
        Ok(Framed { schema, message, payload, repeated })
    }

    fn head<'a>(&self, record: &Record<'a>) -> Result<Head<'a>, Rejected> {
        let value = record.value;
        if let Some(unwrapped) = record.unwrapped {
            return self.unwrapped(value, unwrapped);
        }
        if let Some(header) = record.schema_header
            && self.reads_header()
        {
            return self.header_borne(value, header);
        }
        let bare = Head { schema: None, index: Index::Nowhere, zlib: false, rest: value };
        match (self.settings.framing, value.first()) {
            (Framing::Bare, None) if self.protobuf() => Ok(bare),
            (_, None) => Err(empty()),
            (Framing::Bare, _) => Ok(bare),
            (Framing::Glue, _) | (Framing::Auto, Some(&GLUE_VERSION)) => self.glue(value),
            (Framing::Confluent, _) | (Framing::Auto, Some(&CONFLUENT_NUMBER)) => self.confluent(value),
            (Framing::AvroSingleObject, _) => single_object(value),
            // No tag of protobuf begins with 00 or 03, and no JSON text; Avro's bytes may begin with any.
            (Framing::Auto, Some(first)) => match (self.settings.format, *first == SINGLE_OBJECT[0]) {
                (Format::Avro, true) => single_object(value),
                (Format::Avro, false) => Err(bad(format!(
                    "the value begins with {first:02x}, as no framing does; where topics hold bare Avro, say `framing = \"bare\"`"
                ))),
                _ => Ok(bare),
            },
        }
    }

    fn glue<'a>(&self, value: &'a [u8]) -> Result<Head<'a>, Rejected> {
        let (version, rest) = value.split_first().ok_or_else(empty)?;
        if *version != GLUE_VERSION {
            return Err(bad(format!("Glue's framing begins with 03, and this value with {version:02x}")));
        }
        let (compression, rest) = rest.split_first().ok_or_else(|| short("Glue's framing of 18 bytes"))?;
        let zlib = match *compression {
            GLUE_PLAIN => false,
            GLUE_ZLIB => true,
            other => {
                return Err(bad(format!(
                    "Glue's framing knows the compressions 00 and 05, and this value has {other:02x}"
                )));
            }
        };
        let (id, rest) = rest.split_first_chunk().ok_or_else(|| short("Glue's framing of 18 bytes"))?;
        let schema = Some(Reference::GlueVersion(Uuid::from_bytes(*id)));
        Ok(Head { schema, index: if self.protobuf() { Index::Sorted } else { Index::Nowhere }, zlib, rest })
    }

    fn confluent<'a>(&self, value: &'a [u8]) -> Result<Head<'a>, Rejected> {
        let (magic, rest) = value.split_first().ok_or_else(empty)?;
        if *magic != CONFLUENT_NUMBER {
            return Err(bad(format!("Confluent's framing begins with 00, and this value with {magic:02x}")));
        }
        let (id, rest) = rest.split_first_chunk().ok_or_else(|| short("Confluent's framing of 5 bytes"))?;
        let schema = Some(confluent_id(u32::from_be_bytes(*id))?);
        Ok(Head { schema, index: if self.protobuf() { Index::Path } else { Index::Nowhere }, zlib: false, rest })
    }

    fn header_borne<'a>(&self, value: &'a [u8], header: &'a [u8]) -> Result<Head<'a>, Rejected> {
        let cut = || short("the header that names the schema");
        let (magic, rest) = header.split_first().ok_or_else(cut)?;
        let (schema, rest) = match *magic {
            CONFLUENT_NUMBER => {
                let (id, rest) = rest.split_first_chunk().ok_or_else(cut)?;
                (confluent_id(u32::from_be_bytes(*id))?, rest)
            }
            CONFLUENT_GUID => {
                let (id, rest) = rest.split_first_chunk().ok_or_else(cut)?;
                (Reference::ConfluentGuid(Uuid::from_bytes(*id)), rest)
            }
            other => {
                return Err(bad(format!(
                    "the header that names the schema begins with {other:02x}, not with 00 or 01"
                )));
            }
        };
        let index = match (self.protobuf(), rest) {
            (true, path) => Index::PathIn(path),
            (false, []) => Index::Nowhere,
            (false, _) => return Err(bad("the header that names the schema has bytes behind its id".to_owned())),
        };
        if value.is_empty() && !self.protobuf() {
            return Err(empty());
        }
        Ok(Head { schema: Some(schema), index, zlib: false, rest: value })
    }

    /// Whatever framing the topic has: Lambda found one, and took it off.
    fn unwrapped<'a>(&self, value: &'a [u8], said: Unwrapped<'_>) -> Result<Head<'a>, Rejected> {
        let Unwrapped { data_format, schema_id } = said;
        let schema = match (Uuid::try_parse(schema_id), schema_id.parse()) {
            (Ok(id), _) => Reference::GlueVersion(id),
            (_, Ok(id)) => confluent_id(id)?,
            _ => return Err(bad("the event names a schema that is neither a UUID nor a number".to_owned())),
        };
        let format = self.settings.format;
        let written = match data_format {
            "PROTOBUF" => Format::Protobuf,
            "AVRO" => Format::Avro,
            "JSON" => Format::Json,
            _ => return Err(bad("the event names a data format other than AVRO, PROTOBUF and JSON".to_owned())),
        };
        let json = self.settings.event_record_format == EventRecordFormat::Json;
        let handed_over = if json { Format::Json } else { written };
        let fits = match format {
            Format::Dms => handed_over == Format::Json,
            Format::Debezium => matches!(handed_over, Format::Json | Format::Avro),
            Format::Protobuf | Format::Avro | Format::Json => handed_over == format,
        };
        if !fits {
            let as_json = if json { ", as JSON" } else { "" };
            let message = format!("Lambda handed over {data_format}{as_json}, and the pipeline reads another format");
            return Err(Rejected { class: Class::IncompatibleSchema, path: String::new(), message });
        }
        if value.is_empty() {
            return Err(empty());
        }
        let index = match (handed_over, schema) {
            (Format::Protobuf, Reference::GlueVersion(_)) => Index::Sorted,
            (Format::Protobuf, _) => Index::Path,
            _ => Index::Nowhere,
        };
        // JSON made of something else is not what that schema describes.
        let schema = (handed_over == written).then_some(schema);
        Ok(Head { schema, index, zlib: false, rest: value })
    }

    fn protobuf(&self) -> bool {
        self.settings.format == Format::Protobuf
    }
}

fn single_object(value: &[u8]) -> Result<Head<'_>, Rejected> {
    let (marker, rest) = value.split_at_checked(SINGLE_OBJECT.len()).unwrap_or((value, &[]));
    if !SINGLE_OBJECT.starts_with(marker) {
        let first = value.first().copied().unwrap_or_default();
        return Err(bad(format!("Avro's single objects begin with c3 01, and this value with {first:02x}")));
    }
    let (crc, rest) =
        rest.split_first_chunk().ok_or_else(|| short("the framing of an Avro single object, of 10 bytes"))?;
    let schema = Some(Reference::AvroFingerprint(u64::from_le_bytes(*crc)));
    Ok(Head { schema, index: Index::Nowhere, zlib: false, rest })
}

/// Confluent's numbers are Java's `int`, counted from 1.
fn confluent_id(id: u32) -> Result<Reference, Rejected> {
    if i32::try_from(id).is_ok() {
        Ok(Reference::ConfluentId(id))
    } else {
        Err(bad(format!("no schema has the id {id}: they end at {}", i32::MAX)))
    }
}

fn bad(message: String) -> Rejected {
    Rejected { class: Class::BadFraming, path: String::new(), message }
}

fn short(what: &str) -> Rejected {
    Rejected { class: Class::Truncated, path: String::new(), message: format!("the value ends inside {what}") }
}

fn empty() -> Rejected {
    Rejected { class: Class::EmptyValue, path: String::new(), message: "the value has no bytes".to_owned() }
}

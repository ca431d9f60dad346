//! What surrounds payloads: the other way round of `codec::framing`, which says where the formats are from.

use std::io::Write;

use clap::ValueEnum;
use codec::framing::{Reference, VALUE_HEADER};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use pipeline::resolved::{Format, Framing, Indexes};
use prost_reflect::MessageDescriptor;
use registry::Naming;
use uuid::Uuid;

/// How records are framed that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// The payload alone
    Bare,
    /// Confluent's, before the payload
    Confluent,
    /// Confluent's, in a header
    ConfluentHeader,
    /// AWS Glue's
    Glue,
    /// AWS Glue's, compressed
    GlueZlib,
    /// Avro's single-object encoding
    AvroSingleObject,
}

impl Form {
    /// The form that a pipeline's framing asks for; none where that leaves it open.
    pub(crate) fn of(framing: Framing) -> Option<Self> {
        match framing {
            Framing::Auto => None,
            Framing::Bare => Some(Self::Bare),
            Framing::Glue => Some(Self::Glue),
            Framing::Confluent => Some(Self::Confluent),
            Framing::AvroSingleObject => Some(Self::AvroSingleObject),
        }
    }

    /// The framing that reads it.
    pub(crate) const fn framing(self) -> Framing {
        match self {
            Self::Bare => Framing::Bare,
            Self::Confluent | Self::ConfluentHeader => Framing::Confluent,
            Self::Glue | Self::GlueZlib => Framing::Glue,
            Self::AvroSingleObject => Framing::AvroSingleObject,
        }
    }

    /// Why a format does not come in it.
    pub(crate) fn refusal(self, format: Format) -> Option<&'static str> {
        self.framing().refusal(format)
    }

    /// What it names schemas by; `id` is for a registry that makes up none, `crc` of an Avro schema.
    pub(crate) const fn naming(self, id: Uuid, crc: u64) -> Option<Naming> {
        match self {
            Self::Bare => None,
            Self::Confluent | Self::ConfluentHeader => Some(Naming::Number),
            Self::Glue | Self::GlueZlib => Some(Naming::Version(id)),
            Self::AvroSingleObject => Some(Naming::Fingerprint(crc)),
        }
    }
}

/// Frames payloads of one schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    before: Vec<u8>,
    /// In front of the payload, compressed with it where there is compression.
    index: Vec<u8>,
    header: Option<Vec<u8>>,
    zlib: bool,
}

impl Frame {
    /// A frame that names a schema; `message` is which of its messages payloads are, of protobuf.
    pub(crate) fn new(
        form: Form,
        reference: Option<Reference>,
        message: Option<&MessageDescriptor>,
        indexes: Indexes,
    ) -> Self {
        let mut frame = Self { before: Vec::new(), index: Vec::new(), header: None, zlib: form == Form::GlueZlib };
        let mut name = Vec::new();
        match reference {
            Some(Reference::ConfluentId(id)) => {
                name.push(0);
                name.extend_from_slice(&id.to_be_bytes());
            }
            Some(Reference::ConfluentGuid(id)) => {
                name.push(1);
                name.extend_from_slice(id.as_bytes());
            }
            Some(Reference::GlueVersion(id)) => {
                name.extend_from_slice(&[3, if frame.zlib { 5 } else { 0 }]);
                name.extend_from_slice(id.as_bytes());
            }
            Some(Reference::AvroFingerprint(crc)) => {
                name.extend_from_slice(&[0xC3, 1]);
                name.extend_from_slice(&crc.to_le_bytes());
            }
            None => {}
        }
        match form {
            Form::Bare => {}
            Form::ConfluentHeader => {
                name.extend(message.map(|message| path(message, indexes)).unwrap_or_default());
                frame.header = Some(name);
            }
            Form::Confluent => {
                frame.before = name;
                frame.index = message.map(|message| path(message, indexes)).unwrap_or_default();
            }
            Form::Glue | Form::GlueZlib => {
                frame.before = name;
                frame.index = message.map(|message| varint(sorted(message))).unwrap_or_default();
            }
            Form::AvroSingleObject => frame.before = name,
        }
        frame
    }

    /// A Kafka value.
    ///
    /// # Errors
    /// Where compressing fails, which in memory it does not.
    pub(crate) fn around(&self, payload: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut value = self.before.clone();
        if self.zlib {
            let mut encoder = ZlibEncoder::new(value, Compression::default());
            encoder.write_all(&self.index)?;
            encoder.write_all(payload)?;
            return encoder.finish();
        }
        value.extend_from_slice(&self.index);
        value.extend_from_slice(payload);
        Ok(value)
    }

    /// The header of each record, where there is one.
    pub(crate) fn header(&self) -> Option<(&'static str, &[u8])> {
        self.header.as_deref().map(|header| (VALUE_HEADER, header))
    }
}

/// Confluent's path of a message: how many places there are, then the places, as they are written down in the file; one zero for
/// the first message of a file.
fn path(message: &MessageDescriptor, indexes: Indexes) -> Vec<u8> {
    let mut places = Vec::new();
    let mut inner = message.clone();
    while let Some(outer) = inner.parent_message() {
        let place = outer.child_messages().filter(|m| !m.is_map_entry()).position(|m| m == inner);
        places.push(place.unwrap_or_default());
        inner = outer;
    }
    places.push(inner.parent_file().messages().position(|m| m == inner).unwrap_or_default());
    places.reverse();
    let number = |n: usize| match indexes {
        Indexes::Zigzag => varint(n << 1),
        Indexes::Plain => varint(n),
    };
    if places == [0] {
        return number(0);
    }
    let mut bytes = number(places.len());
    bytes.extend(places.into_iter().flat_map(number));
    bytes
}

/// Glue's number of a message: its place among all of the file's by full name.
fn sorted(message: &MessageDescriptor) -> usize {
    let mut names = Vec::new();
    let mut below: Vec<MessageDescriptor> = message.parent_file().messages().collect();
    while let Some(found) = below.pop() {
        below.extend(found.child_messages());
        names.push(found.full_name().to_owned());
    }
    names.sort();
    names.iter().position(|name| name == message.full_name()).unwrap_or_default()
}

fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

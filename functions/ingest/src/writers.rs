//! What each record of an event is written with.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use codec::Rejected;
use codec::columns::Reading;
use codec::framing::{self, Beginning, Framed, KEY_HEADER, Message, Reference, Splitter, Unwrapped, VALUE_HEADER};
use codec::payload::Schema;
use pipeline::resolved::{Format, Framing, Pipeline};
use staging::footer::SchemaVersion;

use crate::Error;
use crate::event::{Event, Record};
use crate::schemas::Known;

/// What reads payloads, writer by writer.
pub(crate) trait Readers {
    /// The full name of what payloads are read as.
    fn reader_name(&self) -> &str;

    /// The number of a schema that payloads are written with, and read as this or else as those of the pipeline's own are; why they
    /// can't be, where they can't.
    ///
    /// # Errors
    /// [`Error::Decode`] for anything else.
    fn writer(&mut self, schema: Schema, reading: Option<&Arc<Reading>>) -> Result<Result<usize, Rejected>, Error>;
}

/// Which part of records it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Value,
    Key,
}

/// The pipeline's own schema among the writers of [`Readers`].
pub(crate) const OWN: usize = 0;

/// What values were written with that are remembered for the next event. More are another topic's.
const KEPT_MAX: usize = 1000;

/// Takes framings off, and finds what payloads were written with.
pub(crate) struct Writers {
    splitter: Splitter,
    of: Of,
    /// Whether records are bare, unless the mapping says of one that it is not.
    bare: bool,
    format: Format,
    /// The own schema's, where a fingerprint may name it.
    fingerprint: Option<u64>,
    /// Writers by what values say, as [`Readers`] numbers them.
    found: HashMap<(Reference, Message), Result<usize, Rejected>>,
    /// What the value before was written with.
    last: Option<Result<usize, Rejected>>,
    /// The schemas that values of the event were read with, and their versions.
    used: BTreeSet<(Reference, Option<u32>)>,
}

impl Writers {
    /// # Errors
    /// [`Error::Decode`] when the format does not come in the framing.
    pub(crate) fn new(pipeline: &Pipeline, own: &Schema, of: Of) -> Result<Self, Error> {
        let value = &pipeline.value;
        Ok(Self {
            splitter: Splitter::new(framing::Settings::of(value))?,
            of,
            bare: value.framing == Framing::Bare,
            format: value.format,
            fingerprint: own.fingerprint(),
            found: HashMap::new(),
            last: None,
            used: BTreeSet::new(),
        })
    }

    /// Whether each value of an event is the payload, written with the pipeline's own schema.
    pub(crate) fn is_bare(&self, event: &Event<'_>) -> bool {
        self.bare && !event.names_schemas()
    }

    /// The schemas that an event's records name, as far as they can be asked for.
    pub(crate) fn references(&self, event: &Event<'_>) -> BTreeSet<Reference> {
        let mut references = BTreeSet::new();
        // Most values begin as their neighbour does, and name what it names.
        let mut before: Option<Beginning> = None;
        let mut last = None;
        for record in event.records() {
            let Some(framed) = self.framed(&record) else { continue };
            let is_in_front = framed.schema_header.is_none() && framed.unwrapped.is_none();
            if is_in_front && before.is_some_and(|before| before.rest(framed.value).is_some()) {
                continue;
            }
            let Ok(Some(reference)) = self.splitter.reference(&framed) else { continue };
            before = reference.in_front(&framed);
            if last.replace(reference) != Some(reference) && !self.is_own(reference) {
                references.insert(reference);
            }
        }
        references
    }

    /// Begins an event.
    pub(crate) fn begin(&mut self) {
        self.last = None;
        self.used.clear();
        if self.found.len() > KEPT_MAX {
            self.found.clear();
        }
    }

    /// Forgets the writers, whose numbers mean others from now on.
    pub(crate) fn forget(&mut self) {
        self.found.clear();
        self.last = None;
    }

    /// The payload of a record that has a value (or a key), and the number of its writer.
    ///
    /// # Errors
    /// [`Error`] where the event can't go on; what is wrong with the record is an answer.
    #[inline]
    pub(crate) fn split<'a>(
        &'a mut self,
        record: &Record<'a>,
        known: &Known,
        readers: &mut impl Readers,
    ) -> Result<Result<(usize, &'a [u8]), Rejected>, Error> {
        let Some(framed) = self.framed(record) else { return Ok(Ok((OWN, &[]))) };
        if let (Some(Ok(last)), Some(payload)) = (&self.last, self.splitter.repeated(&framed)) {
            return Ok(Ok((*last, payload)));
        }
        let Framed { schema, message, payload, repeated } = match self.splitter.split(&framed) {
            Ok(framed) => framed,
            Err(rejected) => return Ok(Err(rejected)),
        };
        let number = match &self.last {
            Some(last) if repeated => last,
            _ => {
                let found = match schema {
                    // The splitter's own mistake aside, a value that names nothing is of the pipeline's schema.
                    None => Ok(OWN),
                    Some(reference)
                        if self.fingerprint.is_some_and(|own| reference == Reference::AvroFingerprint(own)) =>
                    {
                        Ok(OWN)
                    }
                    Some(reference) => {
                        let place = (reference, message);
                        let version = known.get(&reference);
                        let found = match (self.found.get(&place), version) {
                            (Some(found), _) => found.clone(),
                            (None, Some(Ok(version))) => {
                                let named = (self.format == Format::Protobuf).then(|| readers.reader_name());
                                let schema = version.written.schema(message, named);
                                let found = match schema {
                                    Ok(schema) => readers.writer(schema, version.reading.as_ref())?,
                                    Err(rejected) => Err(rejected),
                                };
                                self.found.insert(place, found.clone());
                                found
                            }
                            (None, Some(Err(rejected))) => Err(rejected.clone()),
                            (None, None) => return Err(Error::Unasked { reference: reference.to_string() }),
                        };
                        if found.is_ok() {
                            let number = version.and_then(|version| version.as_ref().ok()?.number);
                            self.used.insert((reference, number));
                        }
                        found
                    }
                };
                self.last.insert(found)
            }
        };
        Ok(match number {
            Ok(number) => Ok((*number, payload)),
            Err(rejected) => Err(rejected.clone()),
        })
    }

    /// The schemas that values of the event were read with.
    pub(crate) fn versions(&self) -> Vec<SchemaVersion> {
        let version = |(reference, number): &(Reference, Option<u32>)| SchemaVersion {
            id: reference.id(),
            version: number.map_or(0, u64::from),
        };
        self.used.iter().map(version).collect()
    }

    /// What a record's value, or its key, names a schema by, in the registry's own spelling; none where it names none.
    pub(crate) fn schema_id(&self, record: &Record<'_>) -> Option<String> {
        let said = match self.of {
            Of::Value => record.value_schema(),
            Of::Key => record.key_schema(),
        };
        if let Some(said) = said {
            return said.schema_id.clone();
        }
        let reference = self.splitter.reference(&self.framed(record)?).ok()??;
        Some(reference.id())
    }

    fn is_own(&self, reference: Reference) -> bool {
        matches!((reference, self.fingerprint), (Reference::AvroFingerprint(crc), Some(own)) if crc == own)
    }

    /// A record's value with what is said of its framing; nothing where it has none.
    #[inline]
    fn framed<'a>(&self, record: &Record<'a>) -> Option<framing::Record<'a>> {
        let (value, header, said) = match self.of {
            Of::Value => (record.value()?, VALUE_HEADER, record.value_schema()),
            Of::Key => (record.key()?, KEY_HEADER, record.key_schema()),
        };
        let schema_header = match self.splitter.reads_header() {
            true => record.headers().filter(|(name, _)| *name == header).last().and_then(|(_, value)| value),
            false => None,
        };
        let unwrapped = said.and_then(|said| match (&said.data_format, &said.schema_id) {
            (None, None) => None,
            (format, id) => Some(Unwrapped {
                data_format: format.as_deref().unwrap_or_default(),
                schema_id: id.as_deref().unwrap_or_default(),
            }),
        });
        Some(framing::Record { value, schema_header, unwrapped })
    }
}

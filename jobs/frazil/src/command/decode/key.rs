//! One key at a time through the pipeline's own decoder.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::FieldRef;
use codec::Rejected;
use codec::columns::{Arrangement, Own, Reading, Tables, United, Versions};
use codec::framing::{self, Framed, KEY_HEADER, Message, Reference, Splitter, Unwrapped};
use codec::payload::{Decoder, Schema};
use codec::written::Written;
use model::failure::Kind;
use model::secret::Secret;
use pipeline::resolved::{Format, Pipeline};
use registry::Registries;

use super::input::Record;
use super::payload::{codec_failure, registered};
use crate::manners::failure::Failure;

/// A pipeline's decoder of keys.
pub(super) struct Key {
    /// Of keys in the place of values.
    pipeline: Pipeline,
    splitter: Splitter,
    versions: Versions,
    /// The own schema's fingerprint, where one may name it.
    fingerprint: Option<u64>,
    salt: Option<Secret>,
    own: Writer,
    /// What reads keys that are written with other versions.
    found: HashMap<(Reference, Message), Result<Writer, Rejected>>,
}

/// What reads keys that are written with one schema.
struct Writer {
    decoder: Decoder,
    /// How its columns stand in those that ingest stages of such a key alone.
    arrangement: Arrangement,
}

impl Writer {
    fn new(
        versions: &Versions,
        reading: &Reading,
        schema: &Schema,
        salt: Option<&Secret>,
    ) -> Result<Self, codec::Error> {
        let mut united = United::of(versions.own());
        // It goes with the others, or there would be no reading.
        if united.add(reading).is_ok() {
            versions.name(&mut united);
        }
        let decoder = reading.reader.decoder(schema, &reading.tables.columns, salt)?;
        Ok(Self { decoder, arrangement: united.arrangement(reading, "") })
    }
}

impl Key {
    pub(super) fn new(of_key: Pipeline, own: Own, columns: Tables, salt: Option<Secret>) -> Result<Self, codec::Error> {
        let schema = own.schema.clone();
        let versions = Versions::new(&of_key, own, columns);
        Ok(Self {
            splitter: Splitter::new(framing::Settings::of(&of_key.value))?,
            fingerprint: schema.fingerprint(),
            own: Writer::new(&versions, versions.own(), &schema, salt.as_ref())?,
            versions,
            salt,
            found: HashMap::new(),
            pipeline: of_key,
        })
    }

    /// The columns that a record's key fills, in each of so many rows.
    ///
    /// # Errors
    /// Where a registry can't be asked; what is wrong with the key is an answer.
    pub(super) async fn read(
        &mut self,
        record: &Record,
        registries: &Registries,
        rows: usize,
    ) -> Result<Result<Vec<(FieldRef, ArrayRef)>, Rejected>, Failure> {
        let Some(key) = record.key.as_deref() else { return Ok(self.nulls(rows)) };
        let headers = record.headers.iter().rfind(|(name, _)| name == KEY_HEADER);
        let schema_header = headers.and_then(|(_, id)| id.as_deref());
        let unwrapped = record.unwrapped_key.as_ref();
        let unwrapped = unwrapped.map(|(format, id)| Unwrapped { data_format: format, schema_id: id });
        let framed = framing::Record { value: key, schema_header, unwrapped };
        let (payload, named) = match self.splitter.split(&framed) {
            Ok(Framed { schema, message, payload, .. }) => (payload.to_vec(), schema.map(|named| (named, message))),
            Err(rejected) => return Ok(Err(rejected.of_key())),
        };
        let is_own = |(named, _): &(Reference, Message)| match named {
            Reference::AvroFingerprint(crc) => self.fingerprint == Some(*crc),
            _ => false,
        };
        let writer = match named.filter(|named| !is_own(named)) {
            None => Ok(&mut self.own),
            Some(named) => self.writer(named, registries).await?,
        };
        let Writer { decoder, arrangement } = match writer {
            Ok(writer) => writer,
            Err(rejected) => return Ok(Err(rejected.of_key())),
        };
        if let Err(rejected) = decoder.decode(&payload) {
            return Ok(Err(rejected.of_key()));
        }
        let batch = decoder.finish().map_err(|e| codec_failure(&e))?;
        let places: Vec<(usize, usize)> = (0..rows).map(|_| (0, 0)).collect();
        let column = |(field, column): (&FieldRef, &ArrayRef)| {
            let repeated = interleave(&[column.as_ref() as &dyn Array], &places);
            Ok((Arc::clone(field), repeated.map_err(|e| Failure::of(Kind::Bug, "decode.key", &e))?))
        };
        let arranged = arrangement.of(&batch).map_err(|e| codec_failure(&e))?;
        let columns = arrangement.fields().iter().zip(&arranged).map(column);
        Ok(Ok(columns.collect::<Result<_, Failure>>()?))
    }

    /// Of a record without a key.
    fn nulls(&self, rows: usize) -> Result<Vec<(FieldRef, ArrayRef)>, Rejected> {
        if self.versions.own().tables.columns.columns.iter().any(|column| column.required) {
            return Err(Rejected::no_key());
        }
        let null = |field: &FieldRef| (Arc::clone(field), new_null_array(field.data_type(), rows));
        Ok(self.own.arrangement.fields().iter().map(null).collect())
    }

    /// What reads keys that are written with what they name.
    async fn writer(
        &mut self,
        named: (Reference, Message),
        registries: &Registries,
    ) -> Result<Result<&mut Writer, Rejected>, Failure> {
        if !self.found.contains_key(&named) {
            let registered = match registered(registries, named.0).await? {
                Ok(registered) => registered,
                // It may be registered the moment after.
                Err(rejected) => return Ok(Err(rejected)),
            };
            let format = self.pipeline.value.format;
            let own = (format == Format::Protobuf).then(|| self.versions.own().reader.name());
            let schema = Written::compile(&registered, format).and_then(|written| written.schema(named.1, own));
            let read = schema.and_then(|schema| Ok((self.versions.judge(&self.pipeline, &schema)?, schema)));
            let writer = match read {
                Err(rejected) => Err(rejected),
                Ok((reading, schema)) => match Writer::new(&self.versions, &reading, &schema, self.salt.as_ref()) {
                    Ok(writer) => Ok(writer),
                    Err(error) => Err(error.unlike().map_err(|e| codec_failure(&e))?),
                },
            };
            self.found.insert(named, writer);
        }
        match self.found.get_mut(&named) {
            Some(Ok(writer)) => Ok(Ok(writer)),
            Some(Err(rejected)) => Ok(Err(rejected.clone())),
            None => Err(Failure::new(Kind::Bug, "decode.key", "a decoder is gone")),
        }
    }
}

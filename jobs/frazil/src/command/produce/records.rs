//! Records one by one: generated, or of a person's JSON.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use codec::framing::Reference;
use codec::json::Json;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::subject::Subject;
use crate::arguments::Produce;
use crate::encoding::Encoder;
use crate::encoding::framing::Frame;
use crate::encoding::key::{Key, Unkeyed};
use crate::generator::stream::{Options, Sent, Stream};
use crate::manners::failure::Failure;

/// A line of a record as large as brokers take at most, with room for how JSON spells it.
const LINE_BYTES_MAX: u64 = 400 * 1024 * 1024;

/// A record, whose memory serves for the next one.
#[derive(Debug, Default)]
pub(super) struct Record {
    key: Vec<u8>,
    is_keyed: bool,
    pub(super) value: Vec<u8>,
    /// What is to be known of one that was generated.
    pub(super) sent: Option<Sent>,
}

impl Record {
    pub(super) fn key(&self) -> Option<&[u8]> {
        self.is_keyed.then_some(&self.key)
    }

    /// As events and samples have it.
    pub(super) fn json(&self, timestamp_ms: i64, header: Option<(&str, &[u8])>) -> Value {
        let base64 = |bytes: &[u8]| base64_simd::STANDARD.encode_to_string(bytes);
        let signed = |bytes: &[u8]| bytes.iter().map(|b| b.cast_signed()).collect::<Vec<i8>>();
        let headers: Vec<Value> = header.iter().map(|(name, value)| json!({ *name: signed(value) })).collect();
        json!({"timestamp": timestamp_ms, "key": self.key().map(base64), "value": base64(&self.value), "headers": headers})
    }
}

/// Where records come from.
pub(super) struct Records<'a> {
    values: Values<'a>,
    subject: Subject,
    frame: Frame,
    keys: Option<Keys>,
    count: u64,
}

/// Where records' keys are from.
pub(super) struct Keys {
    /// The field, as it was typed.
    field: String,
    key: Key,
}

impl Keys {
    /// What is said of keys; nothing where records have none.
    ///
    /// # Errors
    /// When no value can have such a field.
    pub(super) fn of(arguments: &Produce, encoder: &Encoder) -> Result<Option<Self>, Failure> {
        let field = arguments.keys.as_str();
        if field == "none" {
            return Ok(None);
        }
        let path = pipeline::path::parse(field).map_err(|wrong| {
            Failure::usage("usage", format!("`{field}` names no field: {wrong}"))
                .at("--keys")
                .remedy("name a field of the values, or `none`")
        })?;
        let key = Key::of(encoder, &path).ok_or_else(|| {
            Failure::usage("produce.key", format!("the schema has no field `{field}`"))
                .at("--keys")
                .remedy("name a field of the values, or `none`")
        })?;
        Ok(Some(Self { field: field.to_owned(), key }))
    }

    /// Puts a value's key into its record.
    fn put(&self, value: &Json, record: &mut Record) -> Result<(), Failure> {
        let field = &self.field;
        match self.key.find(value) {
            Ok(found) => {
                record.is_keyed = found.is_some();
                record.key = found.unwrap_or_default();
                Ok(())
            }
            Err(Unkeyed::Missing) => {
                Err(Failure::usage("produce.key", format!("the value has no `{field}`, which is to be its key"))
                    .remedy("give it, null for a record without a key, or name another field: --keys FIELD"))
            }
            Err(Unkeyed::Is(what)) => Err(Failure::usage("produce.key", format!("the key is {what}"))
                .remedy("name a field of text, of a number, or of true and false: --keys FIELD")),
        }
    }
}

enum Values<'a> {
    Employees(Stream),
    Lines { from: Box<dyn BufRead + Send + 'a>, place: String, number: u64 },
}

impl<'a> Records<'a> {
    pub(super) fn open(
        arguments: &Produce,
        subject: Subject,
        keys: Option<Keys>,
        reference: Option<Reference>,
        folder: &Path,
        stdin: &'a mut (dyn BufRead + Send),
    ) -> Result<Self, Failure> {
        let values = match &arguments.values {
            None => Values::Employees(Stream::new(Options { records: arguments.records, seed: arguments.seed })),
            Some(path) if path == Path::new("-") => {
                Values::Lines { from: Box::new(stdin), place: "stdin".to_owned(), number: 0 }
            }
            Some(path) => {
                let place = path.display().to_string();
                let file =
                    File::open(folder.join(path)).map_err(|e| Failure::io("produce.values", place.clone(), &e))?;
                Values::Lines { from: Box::new(BufReader::new(file)), place, number: 0 }
            }
        };
        let frame = Frame::new(subject.form, reference, subject.message(), subject.indexes);
        let count = if arguments.values.is_some() { 0 } else { arguments.records };
        Ok(Self { values, subject, frame, keys, count })
    }

    /// How many there are, where that is known; else 0.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Whether they are a person's.
    pub(super) const fn is_given(&self) -> bool {
        matches!(self.values, Values::Lines { .. })
    }

    /// The header of each.
    pub(super) fn header(&self) -> Option<(&str, &[u8])> {
        self.frame.header()
    }

    /// Makes the next record; `false` when there are no more.
    ///
    /// # Errors
    /// What is wrong with a value, and in which line.
    pub(super) fn next(&mut self, now_ms: i64, record: &mut Record) -> Result<bool, Failure> {
        record.key.clear();
        record.value.clear();
        (record.is_keyed, record.sent) = (false, None);
        let (value, text, place) = match &mut self.values {
            Values::Employees(stream) if self.subject.is_generated => {
                let Some(sent) = stream.next(now_ms, &mut record.value) else { return Ok(false) };
                record.sent = Some(sent);
                match self.keys.as_ref().map(|keys| keys.field.as_str()) {
                    None => return Ok(true),
                    Some("id") => {
                        record.key.extend_from_slice(itoa::Buffer::new().format(sent.id).as_bytes());
                        record.is_keyed = true;
                        return Ok(true);
                    }
                    Some(_) => {
                        return Err(Failure::usage(
                            "produce.key",
                            "of bare Employee messages the key is `id` or `none`",
                        )
                        .at("--keys")
                        .remedy("say --keys id, or name a pipeline, which takes any field"));
                    }
                }
            }
            Values::Employees(stream) => {
                let Some((value, sent)) = stream.next_json(now_ms) else { return Ok(false) };
                record.sent = Some(sent);
                (Json::from(&value), value.to_string().into_bytes(), None)
            }
            Values::Lines { from, place, number } => {
                let Some(line) = next_line(from.as_mut(), place, number)? else { return Ok(false) };
                let place = format!("{place}:{number}");
                let value = json(&line).map_err(|why| {
                    Failure::usage("produce.value", format!("the line is no JSON ({why})"))
                        .at(place.clone())
                        .remedy("give a value as JSON a line")
                })?;
                (value, line, Some(place))
            }
        };
        let placed = |failure: Failure| place.iter().fold(failure, |failure, place| failure.at(place.clone()));
        let payload = self.subject.encoder.encode(&value, &text).map_err(|misfit| {
            let failure = Failure::usage("produce.value", format!("the value does not fit the schema: {misfit}"));
            placed(failure.remedy("mend it there, or choose the pipeline of its schema"))
        })?;
        record.value = self
            .frame
            .around(&payload)
            .map_err(|error| Failure::of(model::failure::Kind::Bug, "produce.frame", &error))?;
        if let Some(keys) = &self.keys {
            keys.put(&value, record).map_err(placed)?;
        }
        Ok(true)
    }
}

/// The next line that is not blank.
fn next_line(from: &mut dyn BufRead, place: &str, number: &mut u64) -> Result<Option<Vec<u8>>, Failure> {
    loop {
        let mut line = Vec::new();
        let taken = from.take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        let taken = taken.map_err(|e| Failure::io("produce.values", place, &e))?;
        *number += 1;
        if taken == 0 {
            return Ok(None);
        }
        if taken as u64 == LINE_BYTES_MAX {
            return Err(Failure::usage("produce.value", "the line is longer than any Kafka record")
                .at(format!("{place}:{number}"))
                .remedy("give one value a line"));
        }
        let text = line.trim_ascii();
        if !text.is_empty() {
            return Ok(Some(text.to_vec()));
        }
    }
}

/// A line's value; why it is no JSON.
fn json(line: &[u8]) -> Result<Json, String> {
    let text = str::from_utf8(line).map_err(|error| format!("column {}", error.valid_up_to() + 1))?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| format!("column {}", error.column()))?;
    Json::parse(text)
}

//! From a topic itself: some of its newest records tell their framing, and a registry or the values the rest.

#![expect(clippy::disallowed_methods, reason = "real brokers are waited for in real time; no simulation comes here")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use codec::framing::{self, Reference, Settings, Splitter, VALUE_HEADER};
use kafka::Consumer;
use kafka::consumer::Place;
use pipeline::environment::{Environment, Registry};
use pipeline::resolved::{Format, Framing};
use registry::Wanted;
use serde_json::Value;

use super::{Draft, kept, samples};
use crate::Session;
use crate::arguments::Init;
use crate::kafka::{failed, settings, tokens};
use crate::manners::failure::Failure;

/// Records that are looked at, of all partitions.
const RECORDS: i64 = 200;
/// How long brokers may let us wait for the next of them.
const IDLE: Duration = Duration::from_secs(10);
/// Bytes that are fetched ahead.
const AHEAD_BYTES: u64 = 16 * 1024 * 1024;

/// What a value shows of itself.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    /// A framing that names a schema.
    Framed(Reference),
    /// A JSON object.
    Json(Value),
    /// Neither: bare Protobuf or Avro, say.
    Other,
}

pub(super) async fn draft(
    arguments: &Init,
    name: &str,
    environment: &Environment,
    session: &mut Session<'_>,
) -> Result<Draft, Failure> {
    let settings = settings(&arguments.kafka, environment, session)?;
    let consumer =
        Consumer::new(&settings, "frazil-init", AHEAD_BYTES, tokens(&settings, session)?).map_err(|e| failed(&e))?;
    let seen = read(&consumer, &arguments.topic)?;
    let count = seen.len();
    let mut draft = Box::pin(of(seen, arguments, name, environment, session)).await?;
    let records = if count == 1 { "record" } else { "records" };
    draft
        .guesses
        .insert(0, format!("{} in the framing {}, as {count} {records} of the topic are", draft.format, draft.framing));
    Ok(draft)
}

/// The newest records that have a value.
fn read(consumer: &Consumer, topic: &str) -> Result<Vec<Seen>, Failure> {
    let partitions = consumer.partitions(topic).map_err(|e| failed(&e))?;
    let of_each = RECORDS / i64::try_from(partitions.len().max(1)).unwrap_or(RECORDS) + 1;
    let (mut from, mut left) = (BTreeMap::new(), BTreeMap::new());
    for partition in partitions {
        let place = Place { topic: topic.to_owned(), partition };
        let (first, next) = consumer.bounds(&place).map_err(|e| failed(&e))?;
        let start = first.max(next - of_each);
        if start < next {
            from.insert(place, start);
            left.insert(partition, next);
        }
    }
    let mut seen = Vec::new();
    if !from.is_empty() {
        consumer.read(&from).map_err(|e| failed(&e))?;
    }
    let mut last = Instant::now();
    // Compaction and transactions leave offsets out: what does not come is not waited for long.
    while !left.is_empty() && last.elapsed() < IDLE {
        if let Some(record) = consumer.poll(Duration::from_millis(200)).map_err(|e| failed(&e))? {
            last = Instant::now();
            if left.get(&record.partition()).is_some_and(|next| record.offset() + 1 >= *next) {
                left.remove(&record.partition());
            }
            if let Some(value) = record.value() {
                let header = record.headers().filter(|(name, _)| *name == VALUE_HEADER).last();
                seen.push(self::seen(value, header.and_then(|(_, id)| id)));
            }
        }
    }
    Ok(seen)
}

/// No tag of protobuf begins with 00 or 03, and no JSON text; of Avro any byte may be first.
fn seen(value: &[u8], schema_header: Option<&[u8]>) -> Seen {
    if let [0xC3, 1, crc @ ..] = value
        && let Some((crc, _)) = crc.split_first_chunk()
    {
        return Seen::Framed(Reference::AvroFingerprint(u64::from_le_bytes(*crc)));
    }
    if value.trim_ascii_start().starts_with(b"{")
        && schema_header.is_none()
        && let Ok(object) = serde_json::from_slice::<Value>(value)
    {
        return Seen::Json(object);
    }
    let splitter = Splitter::new(Settings::new(Format::Protobuf, Framing::Auto));
    let record = framing::Record { value, schema_header, unwrapped: None };
    match splitter.ok().and_then(|splitter| splitter.reference(&record).ok().flatten()) {
        Some(reference) => Seen::Framed(reference),
        None => Seen::Other,
    }
}

async fn of(
    seen: Vec<Seen>,
    arguments: &Init,
    name: &str,
    environment: &Environment,
    session: &Session<'_>,
) -> Result<Draft, Failure> {
    if seen.is_empty() {
        return Err(Failure::usage(
            "init.topic",
            format!("the topic `{}` has no record with a value", arguments.topic),
        )
        .remedy("send some first, or give the schema: frazil init SCHEMA --topic T"));
    }
    let mut references: Vec<Reference> = seen
        .iter()
        .filter_map(|seen| match seen {
            Seen::Framed(reference) => Some(*reference),
            Seen::Json(_) | Seen::Other => None,
        })
        .collect();
    // Bare Avro begins with any byte, and now and then as a framing does.
    if references.len() * 2 < seen.len() {
        references.clear();
    }
    let framings: BTreeSet<&str> = references.iter().map(word).collect();
    let found = match (framings.iter().collect::<Vec<_>>().as_slice(), references.len() == seen.len()) {
        ([only], true) => (**only).to_owned(),
        ([], _) => "bare".to_owned(),
        _ => "auto".to_owned(),
    };
    let framing = arguments.framing.clone().unwrap_or(found);
    // What comes first in most records is what is asked for.
    let Some(reference) = references.first() else {
        let values: Vec<Value> = seen
            .iter()
            .filter_map(|seen| match seen {
                Seen::Json(value) => Some(value.clone()),
                Seen::Framed(_) | Seen::Other => None,
            })
            .collect();
        if values.len() < seen.len() {
            let message =
                "the values are neither JSON nor in a framing that names a schema: bare Protobuf or Avro does not tell";
            return Err(Failure::usage("init.topic", message).remedy("give the schema: frazil init SCHEMA --topic T"));
        }
        return samples::of(&values, name, framing);
    };
    let known = kept::known(arguments.registry.as_deref(), environment)?;
    let written = kept::ask(&known, &Wanted::Named(*reference), session).await?;
    let topic = &arguments.topic;
    let candidates = match (&arguments.subject, &known.registry) {
        (Some(subject), _) => vec![subject.clone()],
        (None, Registry::Glue { .. }) => vec![topic.clone()],
        (None, _) => vec![format!("{topic}-value"), topic.clone()],
    };
    for (n, subject) in candidates.iter().enumerate() {
        match kept::ask(&known, &Wanted::Latest(subject.clone()), session).await {
            Ok(newest) if newest.kind == written.kind => {
                return kept::of(known, subject, &newest, framing, arguments.message.as_deref());
            }
            Ok(_) => {}
            Err(failure) if failure.code == "init.subject" && n + 1 < candidates.len() => {}
            Err(failure) => return Err(failure),
        }
    }
    let message = format!(
        "records name {reference}, and under no name that is usual for the topic is a schema of {}",
        written.kind
    );
    Err(Failure::usage("init.subject", message).remedy("name the schema as the registry has it: --subject S"))
}

const fn word(reference: &Reference) -> &'static str {
    match reference {
        Reference::GlueVersion(_) => "glue",
        Reference::ConfluentId(_) | Reference::ConfluentGuid(_) => "confluent",
        Reference::AvroFingerprint(_) => "avro-single-object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_shows_its_framing_or_that_it_is_json() {
        let check = |value: &[u8], header: Option<&[u8]>, expected: Seen| assert_eq!(seen(value, header), expected);
        check(b"\0\0\0\0\x07\0x", None, Seen::Framed(Reference::ConfluentId(7)));
        check(b"{}", Some(b"\0\0\0\0\x07"), Seen::Framed(Reference::ConfluentId(7)));
        let glue = [&[3, 0][..], &[7; 16], b"x"].concat();
        check(&glue, None, Seen::Framed(Reference::GlueVersion(uuid::Uuid::from_bytes([7; 16]))));
        check(b"\xC3\x01\x05\0\0\0\0\0\0\0x", None, Seen::Framed(Reference::AvroFingerprint(5)));
        check(b" {\"a\": 1}", None, Seen::Json(json!({"a": 1})));
        for other in [&b"\x08\x01"[..], b"{", b"", b"\0\0", b"\xC3\x01"] {
            check(other, None, Seen::Other);
        }
    }
}

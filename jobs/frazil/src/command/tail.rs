//! `frazil tail`: a topic's records as they come, and what the pipeline would make of each.

#![expect(clippy::disallowed_methods, reason = "real brokers are waited for in real time; no simulation comes here")]

use std::time::{Duration, Instant};

use kafka::Consumer;
use kafka::consumer::Record as Received;
use model::clock::Timestamp;
use serde::Serialize;

use super::decode;
use super::decode::input::Record;
use super::decode::payload::{Decoded, Reader};
use crate::Session;
use crate::arguments;
use crate::environment;
use crate::kafka::{failed, settings, tokens};
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;
use crate::places::{self, Where};

/// The longest wait between two looks at whether to end.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes that are fetched ahead.
const AHEAD_BYTES: u64 = 16 * 1024 * 1024;

/// Where a record stands.
#[derive(Debug, Serialize)]
struct Place<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    /// Kafka's.
    timestamp: Option<Timestamp>,
}

pub(crate) async fn run(arguments: &arguments::Tail, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let place = match arguments.from.as_deref() {
        None => Where::Latest,
        Some(text) => places::typed(text, "--from", session.clock.now())?,
    };
    let environment = environment::settings(session)?;
    let pipeline = environment::pipeline(&environment, arguments.named.pipeline.as_deref(), session)?;
    let mut reader = Reader::open(pipeline.clone(), &environment, session).await?;
    let settings = settings(&arguments.kafka, &environment, session)?;
    // A group that nothing is committed to: the client wants a name.
    let consumer =
        Consumer::new(&settings, "frazil-tail", AHEAD_BYTES, tokens(&settings, session)?).map_err(|e| failed(&e))?;
    let found = places::of_source(&consumer, &pipeline.source, arguments.topic.as_deref())?;
    let from = places::resolve(&consumer, &found, &place, "--from")?;
    consumer.read(&from).map_err(|e| failed(&e))?;

    session.signals.drain();
    let idle = arguments.idle_seconds.map(Duration::from_secs);
    let (mut last, mut count) = (Instant::now(), 0);
    let mut said = None;
    while !session.signals.asked() && !session.output.closed() && arguments.records.is_none_or(|most| count < most) {
        match consumer.poll(LOOK).map_err(|e| failed(&e))? {
            Some(record) => {
                show(&record, &mut reader, session).await?;
                (last, count) = (Instant::now(), count + 1);
            }
            None if idle.is_some_and(|idle| last.elapsed() >= idle) => break,
            None => {
                let trouble = consumer.trouble().map(|error| format!("{error}; {}", error.remedy()));
                if let Some(text) = trouble.as_ref().filter(|text| said.as_ref() != Some(*text)) {
                    session.output.warn(text);
                }
                said = trouble;
            }
        }
    }
    // Without a number it is meant to be ended so.
    if let Some(wanted) = arguments.records.filter(|wanted| session.signals.asked() && count < *wanted) {
        return Err(Failure::interrupted(format!("ended after {count} of {wanted} records")));
    }
    Ok(Exit::Done)
}

async fn show(record: &Received<'_>, reader: &mut Reader, session: &mut Session<'_>) -> Result<(), Failure> {
    let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    let owned = Record {
        key: owned(record.key()),
        value: owned(record.value()),
        headers: record.headers().map(|(name, value)| (name.to_owned(), owned(value))).collect(),
        unwrapped: None,
        unwrapped_key: None,
    };
    let decoded = reader.read(&owned, Some(record.topic())).await?;
    let (topic, partition, offset) = (record.topic(), record.partition(), record.offset());
    if session.output.json() {
        let timestamp = record.timestamp().map(|(ms, _)| Timestamp::from_millis(ms));
        return decode::document("tail", Some(Place { topic, partition, offset, timestamp }), &decoded, session);
    }
    let at = format!("{topic}-{partition}@{offset}");
    let Decoded::Rows { table, rows } = &decoded else {
        return session.output.text(&format!("{at}  {}", decoded.said()));
    };
    let at = table.as_ref().map_or_else(|| at.clone(), |table| format!("{at}  {table}"));
    rows.iter().try_for_each(|row| session.output.text(&format!("{at}  {}", String::from_utf8_lossy(&row.json))))
}

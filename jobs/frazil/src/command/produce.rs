//! `frazil produce`: a load generator.

#![expect(clippy::disallowed_methods, reason = "a rate is kept in real time, and shown to a person")]

use std::time::{Duration, Instant};

use kafka::Producer;
use serde::Serialize;

use crate::Session;
use crate::arguments;
use crate::environment;
use crate::generator::stream::{Options, Stream};
use crate::kafka::{failed, settings, tokens};
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;

/// How long the last records may take to be stored.
const FLUSH: Duration = Duration::from_secs(120);
/// Records between two looks at the clock, at the rate and at what became of those before.
const LOOK_EVERY: u64 = 1000;

/// The document's body.
#[derive(Debug, Serialize)]
struct Body<'a> {
    topic: &'a str,
    dry_run: bool,
    /// Records stored by the cluster.
    sent: u64,
    /// Of them, those that repeat an earlier one.
    repeated: u64,
    /// Of them, those whose event time is two hours late.
    late: u64,
    /// Of values and keys.
    bytes: u64,
    seconds: f64,
    records_per_second: u64,
}

pub(crate) fn run(arguments: &arguments::Produce, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let settings = settings(&arguments.kafka, &environment::settings(session)?, session)?;
    let options = Options { records: arguments.records, seed: arguments.seed };
    let mut stream = Stream::new(options);
    let mut body = Body {
        topic: &arguments.topic,
        dry_run: arguments.dry_run,
        sent: 0,
        repeated: 0,
        late: 0,
        bytes: 0,
        seconds: 0.0,
        records_per_second: 0,
    };
    if !arguments.dry_run {
        let tokens = tokens(&settings, session)?;
        let producer = Producer::new(&settings, tokens).map_err(|e| failed(&e))?;
        producer.find(&arguments.topic).map_err(|e| failed(&e))?;
        let started = Instant::now();
        let bar = session.progress.bar("sending", arguments.records);
        let (mut sent, mut value) = (0_u64, Vec::with_capacity(256));
        let (mut key, mut digits) = (String::new(), itoa::Buffer::new());
        loop {
            let now_ms = session.clock.now().millis();
            value.clear();
            let Some(record) = stream.next(now_ms, &mut value) else { break };
            key.clear();
            let key = match arguments.keys {
                arguments::Keys::None => None,
                arguments::Keys::Id => {
                    key.push_str(digits.format(record.id));
                    Some(key.as_bytes())
                }
            };
            producer.send(&arguments.topic, None, key, Some(&value), Some(now_ms)).map_err(|e| failed(&e))?;
            body.bytes += (value.len() + key.map_or(0, <[u8]>::len)) as u64;
            body.repeated += u64::from(record.is_repeated);
            body.late += u64::from(record.is_late);
            sent += 1;
            if sent.is_multiple_of(LOOK_EVERY) {
                bar.set_position(sent);
                producer.hear().map_err(|e| failed(&e))?;
            }
            if let Some(rate) = arguments.rate {
                // Late by how much the records sent so far take at that rate.
                let due = Duration::from_secs_f64(sent as f64 / rate as f64);
                if let Some(early) =
                    due.checked_sub(started.elapsed()).filter(|early| *early > Duration::from_millis(5))
                {
                    producer.hear().map_err(|e| failed(&e))?;
                    std::thread::park_timeout(early);
                }
            }
        }
        producer.flush(FLUSH).map_err(|e| failed(&e))?;
        bar.finish_and_clear();
        body.sent = producer.stored();
        body.seconds = started.elapsed().as_secs_f64();
        body.records_per_second = (body.sent as f64 / body.seconds.max(1e-9)) as u64;
    }
    session.output.reply("produce", &body, human)?;
    Ok(Exit::Done)
}

fn human(body: &Body<'_>) -> String {
    if body.dry_run {
        return format!("would send records to {}", body.topic);
    }
    format!(
        "{} records stored in {}, {} repeated, {} late; {} bytes in {:.1} s, {} records/s",
        body.sent, body.topic, body.repeated, body.late, body.bytes, body.seconds, body.records_per_second
    )
}

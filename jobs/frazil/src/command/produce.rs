//! `frazil produce`: a load generator, and whatever values people have, in any format and framing.

#![expect(clippy::disallowed_methods, reason = "a rate is kept in real time, and shown to a person")]

mod records;
mod subject;

use std::time::{Duration, Instant};

use kafka::Producer;
use pipeline::glob;
use pipeline::resolved::Pipeline;
use serde::Serialize;
use serde_json::Value;

use crate::Session;
use crate::arguments;
use crate::environment;
use crate::kafka::{failed, settings, tokens};
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;
use records::{Keys, Record, Records};
use subject::Subject;

/// How long the last records may take to be stored.
const FLUSH: Duration = Duration::from_secs(120);
/// Records between two looks at the clock, at the rate and at what became of those before.
const LOOK_EVERY: u64 = 1000;

/// The document's body.
#[derive(Debug, Serialize)]
struct Body {
    topic: String,
    dry_run: bool,
    format: String,
    framing: String,
    /// What records name their schema by, where they do.
    schema_id: Option<String>,
    /// Whether the schema was put into the registry.
    registered: bool,
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
    /// Of a dry run, the records that could be made: all values that were given, one of those that are generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    made: Option<u64>,
    /// Of a dry run, the first record, as events and samples have records.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<Value>,
}

pub(crate) async fn run(arguments: &arguments::Produce, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let environment = environment::settings(session)?;
    let is_of_pipeline = arguments.pipeline.is_some() || arguments.values.is_some();
    let pipeline = match is_of_pipeline {
        true => Some(environment::pipeline(&environment, arguments.pipeline.as_deref(), session)?),
        false => None,
    };
    let topic = topic(arguments, pipeline.as_ref())?;
    let settings = settings(&arguments.kafka, &environment, session)?;
    let subject = match &pipeline {
        Some(pipeline) => Box::pin(Subject::of(pipeline, arguments, &environment, session)).await?,
        None => Subject::employee(arguments)?,
    };
    let keys = Keys::of(arguments, &subject.encoder)?;
    // All is looked for before anything is made: a registry gets no schema for a topic that is not there, and a cluster that makes
    // topics when asked for them makes none for records that can't be sent.
    let looked = Box::pin(subject.look(arguments, &topic, &environment, session)).await?;
    let producer = match arguments.dry_run {
        true => None,
        false => {
            let producer = Producer::new(&settings, tokens(&settings, session)?).map_err(|e| failed(&e))?;
            producer.find(&topic).map_err(|e| failed(&e))?;
            Some(producer)
        }
    };
    let known = Box::pin(subject.known(looked, arguments.dry_run)).await?;
    let mut body = Body {
        topic,
        dry_run: arguments.dry_run,
        format: subject.format.to_string(),
        framing: subject.form_name(),
        schema_id: known.reference.map(|reference| reference.id()),
        registered: known.is_new,
        sent: 0,
        repeated: 0,
        late: 0,
        bytes: 0,
        seconds: 0.0,
        records_per_second: 0,
        made: None,
        first: None,
    };
    let clock = session.clock.clone();
    let is_known = known.reference.is_some() || subject.form == arguments::Form::Bare;
    let mut records = Records::open(arguments, subject, keys, known.reference, &session.folder, &mut *session.stdin)?;
    match producer {
        None => rehearse(&mut records, is_known, clock.now().millis(), &mut body)?,
        Some(producer) => {
            let bar = session.progress.bar("sending", records.count());
            let sent = send(&producer, &mut records, arguments.rate, &|| clock.now().millis(), &bar, &mut body);
            producer.flush(FLUSH).map_err(|e| failed(&e))?;
            bar.finish_and_clear();
            body.sent = producer.stored();
            if let Err(failure) = sent {
                let message = format!("{} ({} records before it are stored)", failure.message, body.sent);
                return Err(Failure { message, ..failure });
            }
        }
    }
    session.output.reply("produce", &body, human)?;
    Ok(Exit::Done)
}

/// The topic that is given, or the only one that the pipeline names.
fn topic(arguments: &arguments::Produce, pipeline: Option<&Pipeline>) -> Result<String, Failure> {
    if let Some(topic) = &arguments.topic {
        return Ok(topic.clone());
    }
    let mut named = pipeline.iter().flat_map(|pipeline| &pipeline.source.topics).filter(|topic| !glob::is_glob(topic));
    match (named.next(), named.next()) {
        (Some(only), None) => Ok(only.clone()),
        _ => Err(Failure::usage("usage", "which topic the records are for is not said").remedy("name it: --topic T")),
    }
}

/// Sends all records, and waits for none of the last ones.
fn send(
    producer: &Producer,
    records: &mut Records<'_>,
    rate: Option<u64>,
    now_ms: &dyn Fn() -> i64,
    bar: &indicatif::ProgressBar,
    body: &mut Body,
) -> Result<(), Failure> {
    let started = Instant::now();
    let (mut record, mut sent) = (Record::default(), 0_u64);
    loop {
        let now_ms = now_ms();
        if !records.next(now_ms, &mut record)? {
            break;
        }
        let key = record.key();
        producer
            .send(&body.topic, None, key, Some(&record.value), Some(now_ms), records.header())
            .map_err(|e| failed(&e))?;
        body.bytes += (record.value.len() + key.map_or(0, <[u8]>::len)) as u64;
        body.repeated += u64::from(record.sent.is_some_and(|sent| sent.is_repeated));
        body.late += u64::from(record.sent.is_some_and(|sent| sent.is_late));
        sent += 1;
        if sent.is_multiple_of(LOOK_EVERY) {
            bar.set_position(sent);
            producer.hear().map_err(|e| failed(&e))?;
        }
        if let Some(rate) = rate {
            // Late by how much the records sent so far take at that rate.
            let due = Duration::from_secs_f64(sent as f64 / rate as f64);
            if let Some(early) = due.checked_sub(started.elapsed()).filter(|early| *early > Duration::from_millis(5)) {
                producer.hear().map_err(|e| failed(&e))?;
                std::thread::park_timeout(early);
            }
        }
    }
    producer.flush(FLUSH).map_err(|e| failed(&e))?;
    body.seconds = started.elapsed().as_secs_f64();
    body.records_per_second = (sent as f64 / body.seconds.max(1e-9)) as u64;
    Ok(())
}

/// Makes the records that a person gave, and one that is generated; sends none. Where nothing knows the schema yet, none can be
/// shown.
fn rehearse(records: &mut Records<'_>, is_known: bool, now_ms: i64, body: &mut Body) -> Result<(), Failure> {
    let (mut record, mut made) = (Record::default(), 0);
    while records.next(now_ms, &mut record)? {
        if made == 0 && is_known {
            body.first = Some(record.json(now_ms, records.header()));
        }
        made += 1;
        if !records.is_given() {
            break;
        }
    }
    body.made = Some(made);
    Ok(())
}

fn human(body: &Body) -> String {
    let of = format!("{} {}", body.framing, body.format);
    let named = match (&body.schema_id, body.registered) {
        (Some(id), true) => format!("; the schema was registered, its id is {id}"),
        (Some(id), false) => format!("; the schema's id is {id}"),
        (None, _) => String::new(),
    };
    if body.dry_run {
        let first = body.first.as_ref().map_or_else(String::new, |first| format!("\nthe first: {first}"));
        return format!("would send records of {of} to {}{named}{first}", body.topic);
    }
    format!(
        "{} records of {of} stored in {}, {} repeated, {} late; {} bytes in {:.1} s, {} records/s{named}",
        body.sent, body.topic, body.repeated, body.late, body.bytes, body.seconds, body.records_per_second
    )
}

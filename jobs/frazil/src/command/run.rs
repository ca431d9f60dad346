//! `frazil run`: Kafka into tables on any machine. Pollers in threads of their own, folds beside them.

#![expect(clippy::disallowed_methods, reason = "real brokers are waited for in real time; no simulation comes here")]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fold::Fold;
use ingest::{Ingest, IngestConfig};
use kafka::Consumer;
use kafka::consumer::Place;
use model::clock::Timestamp;
use model::failure::Kind;
use pipeline::environment::{Environment, Start};
use serde::Serialize;

use crate::Session;
use crate::arguments;
use crate::environment;
use crate::kafka::{failed, settings};
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;
use crate::mapping::{Poller, Settings, Shared};
use crate::tables::Tables;

/// Records of an event at most, and how long it may be filled, where nobody says.
const BATCH: usize = 10_000;
const WINDOW: Duration = Duration::from_millis(500);
/// Bytes that all pollers together fetch ahead.
const AHEAD_BYTES: u64 = 64 * 1024 * 1024;
/// How often the triggers of a fold are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// The first wait after a fold that failed, and the longest.
const BACKOFF_FIRST: Duration = Duration::from_secs(5);
const BACKOFF_MAX: Duration = Duration::from_secs(300);

/// The document's body.
#[derive(Debug, Serialize)]
struct Body<'a> {
    pipeline: &'a str,
    records: u64,
    invocations: u64,
    failed_invocations: u64,
    folds: u64,
    rows_added: u64,
    rows_in_table: u64,
    seconds: f64,
    /// Seconds of all threads together.
    spent: Spent,
}

#[derive(Debug, Serialize)]
struct Spent {
    fetch: f64,
    form: f64,
    ingest: f64,
    fold: f64,
}

/// What the folds came to.
#[derive(Debug, Default)]
struct Folded {
    folds: u64,
    rows_added: u64,
    time: Duration,
    failure: Option<Failure>,
}

pub(crate) async fn run(arguments: &arguments::Run, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let environment = environment::settings(session)?;
    let pipeline = environment::pipeline(&environment, arguments.named.pipeline.as_deref(), session)?;
    let chosen = Chosen::of(arguments, &environment, session.clock.now())?;
    let settings = settings(&arguments.kafka, &environment, session)?;
    if pipeline.source.name.is_none() {
        return Err(Failure::usage("ingest.no_source", "the pipeline does not say which cluster it reads")
            .remedy("set `name` under [source] in the pipeline file: it stays when brokers come and go"));
    }
    let name = pipeline.name.clone();
    let store = environment::store(&environment, session).await?;
    let id = environment::pipeline_id(store.as_ref(), &name, session.ids.as_ref()).await?;
    let tables = Tables::open(&environment, session).await?;
    let fold = tables.fold(pipeline.clone(), id.clone(), Arc::clone(&store), false, session);
    let config = IngestConfig::load(pipeline.clone(), id.clone(), Arc::clone(&store), session.clock.clone())
        .map_err(|e| super::ingest::failed(&e))?;
    let ingest = Arc::new(Ingest::new(config).map_err(|e| super::ingest::failed(&e))?);

    let group = settings.group().map_or_else(|| format!("frazil-{id}"), str::to_owned);
    let pollers = chosen.pollers;
    let new = || Consumer::new(&settings, &group, AHEAD_BYTES / pollers as u64, None).map_err(|e| failed(&e));
    let first = new()?;
    let next = positions(&first, &pipeline.source.topics, chosen.from)?;
    let source = format!(
        "\"eventSource\":\"SelfManagedKafka\",\"bootstrapServers\":{},",
        serde_json::Value::from(settings.bootstrap_servers())
    );
    let shared = Arc::new(Shared::default());
    let mut consumers = vec![first];
    for _ in 1..pollers.min(next.len().max(1)) {
        consumers.push(new()?);
    }
    let count = consumers.len();
    let mapping = chosen.events;
    let pollers: Vec<Poller> = consumers
        .into_iter()
        .enumerate()
        .map(|(number, consumer)| Poller {
            number,
            consumer,
            next: next
                .iter()
                .enumerate()
                .filter(|(n, _)| n % count == number)
                .map(|(_, (p, o))| (p.clone(), *o))
                .collect(),
            ingest: Arc::clone(&ingest),
            store: Arc::clone(&store),
            pipeline: name.clone(),
            source: source.clone(),
            settings: mapping,
            shared: Arc::clone(&shared),
            signals: session.signals.clone(),
        })
        .collect();

    // From here on a signal lets what is under way end.
    session.signals.drain();
    let started = Instant::now();
    let (outcomes, folded) = std::thread::scope(|scope| {
        let threads: Vec<_> = pollers.into_iter().map(|poller| scope.spawn(|| poller.run())).collect();
        // Not here: this thread's runtime is in use.
        let folding = scope.spawn(|| folds(&fold, &shared, count));
        let outcomes: Vec<Result<(), Failure>> = threads
            .into_iter()
            .map(|thread| {
                thread.join().unwrap_or_else(|_| Err(Failure::new(Kind::Bug, "run.poller", "a poller panicked")))
            })
            .collect();
        let folded = folding.join();
        (outcomes, folded.unwrap_or_else(|_| Err(Failure::new(Kind::Bug, "run.fold", "the folding thread panicked"))))
    });
    let seconds = started.elapsed().as_secs_f64();
    let folded = folded?;
    let rows_in_table = match tables.load(&pipeline.table.name).await? {
        None => 0,
        Some(table) => table
            .metadata
            .current_snapshot()
            .and_then(|s| s.summary().additional_properties.get("total-records")?.parse().ok())
            .unwrap_or(0),
    };
    for outcome in outcomes {
        outcome?;
    }
    if let Some(failure) = folded.failure {
        return Err(failure);
    }
    let of = |nanos: &std::sync::atomic::AtomicU64| Duration::from_nanos(nanos.load(Ordering::Relaxed)).as_secs_f64();
    let body = Body {
        pipeline: &name,
        records: shared.records.load(Ordering::Relaxed),
        invocations: shared.invocations.load(Ordering::Relaxed),
        failed_invocations: shared.failed_invocations.load(Ordering::Relaxed),
        folds: folded.folds,
        rows_added: folded.rows_added,
        rows_in_table,
        seconds,
        spent: Spent {
            fetch: of(&shared.fetch),
            form: of(&shared.form),
            ingest: of(&shared.ingest),
            fold: folded.time.as_secs_f64(),
        },
    };
    session.output.reply("run", &body, human)?;
    Ok(Exit::Done)
}

/// Where partitions are read from that were never read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Earliest,
    Latest,
    /// Milliseconds since 1970-01-01T00:00:00Z.
    At(i64),
}

/// What flags, variables and the environment's mapping say of this run, in this order.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    from: From,
    pollers: usize,
    events: Settings,
}

impl Chosen {
    /// # Errors
    /// When `--from` is no place, or the mapping asks for what this command does not do.
    fn of(arguments: &arguments::Run, environment: &Environment, now: Timestamp) -> Result<Self, Failure> {
        let mapping = &environment.mapping;
        // It tries for ever, and hands over all there is: what would be skipped elsewhere is not skipped in silence here.
        let mut not_here: Vec<&str> = mapping.skips().into_iter().filter(|name| *name != "bisect").collect();
        not_here.extend(mapping.partial_answers.then_some("partial_answers"));
        if !not_here.is_empty() {
            let names: Vec<String> = not_here.iter().map(|name| format!("`{name}`")).collect();
            let message = format!(
                "`mapping` of the environment `{}` has {}, which this command does not do: it tries an event until all of it \
                 is stored, and passes nothing over",
                environment.name,
                names.join(", ")
            );
            return Err(Failure::usage("run.mapping", message)
                .remedy("leave them to Lambda: choose an environment without them for this command"));
        }
        let from = match (arguments.from.as_deref(), mapping.start) {
            (None, Some(Start::Latest)) | (Some("latest"), _) => From::Latest,
            (None, Some(Start::At(ms))) => From::At(ms),
            (None, Some(Start::TrimHorizon) | None) | (Some("earliest"), _) => From::Earliest,
            (Some(text), _) => {
                let time = crate::moment::parse(text, now).map_err(|why| {
                    Failure::usage("usage", why).at("--from").remedy("write earliest, latest or a time")
                })?;
                From::At(time.millis())
            }
        };
        let window = arguments.window_ms.map(Duration::from_millis);
        Ok(Self {
            from,
            pollers: arguments.pollers.map(NonZeroUsize::get).or(mapping.pollers.map(|(least, _)| least)).unwrap_or(1),
            events: Settings {
                batch: arguments.batch.or(mapping.batch).unwrap_or(BATCH),
                window: window.or(mapping.window_seconds.map(Duration::from_secs)).unwrap_or(WINDOW),
                bisect: arguments.bisect || mapping.bisect,
                idle: arguments.idle_seconds.map(Duration::from_secs),
            },
        })
    }
}

/// Where each partition is read from: where the group has got to, else where it was chosen.
fn positions(consumer: &Consumer, topics: &[String], from: From) -> Result<BTreeMap<Place, i64>, Failure> {
    let failed = |e: kafka::Error| failed(&e);
    let mut places = Vec::new();
    for topic in topics {
        for partition in consumer.partitions(topic).map_err(failed)? {
            places.push(Place { topic: topic.clone(), partition });
        }
    }
    let mut next = consumer.committed(&places).map_err(failed)?;
    let new: Vec<Place> = places.iter().filter(|place| !next.contains_key(place)).cloned().collect();
    if new.is_empty() {
        return Ok(next);
    }
    if let From::At(ms) = from {
        next.extend(consumer.at(&new, ms).map_err(failed)?);
        return Ok(next);
    }
    for place in new {
        let (first, end) = consumer.bounds(&place).map_err(failed)?;
        next.insert(place, if from == From::Latest { end } else { first });
    }
    Ok(next)
}

/// Folds on the pipeline's triggers until all pollers have ended, and then what is left.
fn folds(fold: &Fold, shared: &Shared, pollers: usize) -> Result<Folded, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::of(Kind::Retry, "runtime.start", &e))?;
    let triggers = &fold.pipeline.fold;
    let mut folded = Folded::default();
    // What an earlier process staged may wait, too.
    let begun = Instant::now();
    let mut is_first = true;
    let mut not_before = Instant::now();
    let mut backoff = BACKOFF_FIRST;
    loop {
        let has_ended = shared.ended() == pollers;
        let waiting = shared.waiting();
        let age = waiting.since.or(is_first.then_some(begun)).map(|since| since.elapsed());
        let is_due = age.is_some_and(|age| age.as_secs() >= triggers.max_age_seconds)
            || waiting.rows >= triggers.max_rows
            || waiting.bytes >= triggers.max_bytes;
        if has_ended || (is_due && Instant::now() >= not_before) {
            let taken = shared.take_waiting();
            is_first = false;
            let started = Instant::now();
            let outcome = runtime.block_on(fold.drain(|_| {}));
            folded.time += started.elapsed();
            match outcome {
                Ok(report) => {
                    folded.folds += report.runs;
                    folded.rows_added += report.tables.iter().map(|table| table.rows_added).sum::<u64>();
                    folded.failure = None;
                    backoff = BACKOFF_FIRST;
                }
                Err(error) => {
                    let failure = super::fold::failed(&error);
                    tracing::warn!(
                        rows = taken.rows,
                        "a fold failed, and what is staged waits: {}; {}",
                        failure.message,
                        failure.advice().unwrap_or("it is tried again")
                    );
                    folded.failure = Some(failure);
                    is_first = true;
                    not_before = Instant::now() + backoff;
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                }
            }
            if has_ended {
                return Ok(folded);
            }
        }
        std::thread::park_timeout(LOOK);
    }
}

fn human(body: &Body<'_>) -> String {
    let Spent { fetch, form, ingest, fold } = body.spent;
    format!(
        "{} records in {} invocations ({} failed and were tried again), {} folds; {} rows added, {} in the table\n{:.1} s: waiting for \
         records {fetch:.1} s, forming events {form:.1} s, ingest {ingest:.1} s, folds {fold:.1} s",
        body.records,
        body.invocations,
        body.failed_invocations,
        body.folds,
        body.rows_added,
        body.rows_in_table,
        body.seconds
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn chosen(flags: &[&str], mapping: &str) -> Result<Chosen, Failure> {
        let parsed = Arguments::try_parse_from([&["frazil", "run"], flags].concat()).unwrap();
        let Command::Run(arguments) = parsed.command else { panic!("{flags:?}") };
        let text = format!("[env.local]\ndir = \"x\"\n{mapping}");
        let file = std::path::Path::new("/project/frazil.toml");
        let environment = pipeline::environment::parse(&text, file).unwrap().get(None).unwrap();
        Chosen::of(&arguments, &environment, "2026-11-29T14:00:00.000000Z".parse().unwrap())
    }

    #[test]
    fn flags_go_before_the_mapping_and_the_mapping_before_what_is_usual() {
        let check = |flags: &[&str], mapping: &str, expected: (From, usize, usize, u64, bool)| {
            let found = chosen(flags, mapping).unwrap();
            let Settings { batch, window, bisect, .. } = found.events;
            let window = u64::try_from(window.as_millis()).unwrap();
            assert_eq!((found.from, found.pollers, batch, window, bisect), expected, "{flags:?} {mapping}");
        };
        check(&[], "", (From::Earliest, 1, 10_000, 500, false));
        let mapping = "mapping = { batch = 7, window = \"0s\", start = \"LATEST\", pollers = [3, 20], bisect = true }";
        check(&[], mapping, (From::Latest, 3, 7, 0, true));
        let flags = ["--batch", "9", "--window-ms", "20", "--from", "earliest", "--pollers", "2"];
        check(&flags, mapping, (From::Earliest, 2, 9, 20, true));
        let at = "mapping = { start = 1970-01-01T00:00:01Z }";
        check(&[], at, (From::At(1000), 1, 10_000, 500, false));
        check(&["--from", "latest"], at, (From::Latest, 1, 10_000, 500, false));
        check(&["--from", "1970-01-01T00:00Z"], at, (From::At(0), 1, 10_000, 500, false));
    }

    #[test]
    fn what_a_mapping_would_skip_is_refused_by_name() {
        let refused = |mapping: &str, names: &[&str]| {
            let failure = chosen(&[], &format!("mapping = {{ {mapping}, pollers = [1, 2] }}")).unwrap_err();
            assert_eq!((failure.code.as_ref(), failure.exit()), ("run.mapping", Exit::Usage));
            assert!(names.iter().all(|name| failure.message.contains(name)), "{}", failure.message);
        };
        refused("retries = 3, max_age = \"1h\"", &["`retries`", "`max_age`"]);
        refused("filter = ['{}'], partial_answers = true", &["`filter`", "`partial_answers`"]);
        assert!(chosen(&[], "mapping = { retries = -1, partial_answers = false, filter = [] }").is_ok());
    }
}

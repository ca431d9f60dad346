//! `frazil run`: Kafka into tables on any machine, until told to end.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use kafka::Consumer;
use kafka::consumer::Place;
use model::clock::Timestamp;
use pipeline::environment::{Environment, Start};
use pipeline::resolved::Source;

use crate::Session;
use crate::arguments;
use crate::environment;
use crate::kafka::{failed, settings};
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;
use crate::mapping::endpoint::{self, Target};
use crate::mapping::{Listening, Outcome, Read, Readiness, Settings, Work};
use crate::places::{self, Where};

/// Records of an event at most, and how long it may be filled, where nobody says.
const BATCH: usize = 10_000;
const WINDOW: Duration = Duration::from_millis(500);
/// How often it is looked whether topics have got partitions.
const REFRESH: Duration = Duration::from_secs(60);

pub(crate) async fn run(arguments: &arguments::Run, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let environment = environment::settings(session)?;
    let (events, pollers) = events(&arguments.mapping, &environment)?;
    let place = chosen(arguments.from.as_deref(), &environment, session.clock.now())?;
    let time_out = arguments.invoke_timeout.unwrap_or(endpoint::TIME_OUT);
    let invoke = arguments.invoke.as_deref().map(|url| Target::read(url, time_out)).transpose()?;
    // Whoever asks is answered from here on, and until all is stored.
    let readiness = arguments.listen.as_ref().map(|_| Arc::new(Readiness::new(session.signals.clone())));
    let listening = arguments.listen.as_deref().zip(readiness.clone());
    let listening = listening.map(|(at, readiness)| Listening::begin(at, readiness)).transpose()?;
    if let Some(listening) = &listening {
        session.output.note(&format!("http://{}/ready says whether this is ready", listening.address()));
    }
    let settings = settings(&arguments.kafka, &environment, session)?;
    let work = Work::open(&environment, arguments.named.pipeline.as_deref(), settings, invoke, session).await?;
    let group = work.settings.group().map_or_else(|| format!("frazil-{}", work.id), str::to_owned);
    let consumer = work.consumer(&group)?;
    let found = places::of_source(&consumer, &work.pipeline.source, None)?;
    let from = from(&consumer, &work.pipeline.source, &found, &place)?;
    let mapping = Settings {
        idle: arguments.idle_seconds.map(Duration::from_secs),
        partial: events.partial || arguments.partial_answers,
        ..events
    };
    let watch = Some((consumer, arguments.refresh_seconds.map_or(REFRESH, Duration::from_secs)));
    let read = Read { from, until: None, group: Some(group), pollers, watch, mapping, readiness };
    let outcome = work.carry_out(read, session).await?;
    session.output.reply("run", &outcome, Outcome::human)?;
    Ok(Exit::Done)
}

/// How events are formed, and by how many pollers: as the flags say, else as the environment's mapping does.
///
/// # Errors
/// When the mapping asks for what is not done without Lambda.
pub(crate) fn events(flags: &arguments::Mapping, environment: &Environment) -> Result<(Settings, usize), Failure> {
    let mapping = &environment.mapping;
    // It tries for ever, and hands over all there is: what would be skipped elsewhere is not skipped in silence here.
    let not_here: Vec<&str> = mapping.skips().into_iter().filter(|name| *name != "bisect").collect();
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
    let window = flags.window_ms.map(Duration::from_millis);
    let events = Settings {
        batch: flags.batch.or(mapping.batch).unwrap_or(BATCH),
        window: window.or(mapping.window_seconds.map(Duration::from_secs)).unwrap_or(WINDOW),
        bisect: flags.bisect || mapping.bisect,
        idle: None,
        wait: None,
        partial: mapping.partial_answers,
    };
    let pollers = flags.pollers.map(NonZeroUsize::get).or(mapping.pollers.map(|(least, _)| least)).unwrap_or(1);
    Ok((events, pollers))
}

/// Where partitions are read from that were never read.
fn chosen(text: Option<&str>, environment: &Environment, now: Timestamp) -> Result<Where, Failure> {
    match (text, environment.mapping.start) {
        (Some(text), _) => places::typed(text, "--from", now),
        (None, Some(Start::Latest)) => Ok(Where::Latest),
        (None, Some(Start::At(ms))) => Ok(Where::Time(Timestamp::from_millis(ms))),
        (None, Some(Start::TrimHorizon) | None) => Ok(Where::Earliest),
    }
}

/// Where each partition is read from: where the group has got to, else where it was chosen. What was chosen is committed at once:
/// chosen anew with the next run, `latest` would pass over what came to a quiet partition meanwhile. So a partition of a topic
/// that the group knows, and that it has no offset of, came later, and is read from its first record on; so is a topic that
/// nobody has named, and that fits a pattern.
fn from(consumer: &Consumer, source: &Source, found: &[Place], place: &Where) -> Result<BTreeMap<Place, i64>, Failure> {
    let mut next = consumer.committed(found).map_err(|e| failed(&e))?;
    let named = |topic: &str| source.topics.iter().any(|named| named == topic);
    let known = |topic: &str| next.keys().any(|place| place.topic == topic || !named(topic) && !named(&place.topic));
    let missing = found.iter().filter(|place| !next.contains_key(place)).cloned();
    let (later, new): (Vec<Place>, Vec<Place>) = missing.partition(|place| known(&place.topic));
    let mut chosen = BTreeMap::new();
    if !new.is_empty() {
        chosen.extend(places::resolve(consumer, &new, place, "--from")?);
    }
    if !later.is_empty() {
        chosen.extend(places::resolve(consumer, &later, &Where::Earliest, "--from")?);
    }
    consumer.commit(&chosen).map_err(|e| failed(&e))?;
    next.extend(chosen);
    Ok(next)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn said(flags: &[&str], mapping: &str) -> Result<(Where, usize, Settings), Failure> {
        let parsed = Arguments::try_parse_from([&["frazil", "run"], flags].concat()).unwrap();
        let Command::Run(arguments) = parsed.command else { panic!("{flags:?}") };
        let text = format!("[env.local]\ndir = \"x\"\n{mapping}");
        let file = std::path::Path::new("/project/frazil.toml");
        let environment = pipeline::environment::parse(&text, file).unwrap().get(None).unwrap();
        let now = "2026-11-29T14:00:00.000000Z".parse().unwrap();
        let (events, pollers) = events(&arguments.mapping, &environment)?;
        Ok((chosen(arguments.from.as_deref(), &environment, now)?, pollers, events))
    }

    #[test]
    fn flags_go_before_the_mapping_and_the_mapping_before_what_is_usual() {
        let check = |flags: &[&str], mapping: &str, expected: (Where, usize, usize, u64, bool)| {
            let (place, pollers, Settings { batch, window, bisect, .. }) = said(flags, mapping).unwrap();
            let window = u64::try_from(window.as_millis()).unwrap();
            assert_eq!((place, pollers, batch, window, bisect), expected, "{flags:?} {mapping}");
        };
        let at = |ms| Where::Time(Timestamp::from_millis(ms));
        check(&[], "", (Where::Earliest, 1, 10_000, 500, false));
        let mapping = "mapping = { batch = 7, window = \"0s\", start = \"LATEST\", pollers = [3, 20], bisect = true }";
        check(&[], mapping, (Where::Latest, 3, 7, 0, true));
        let flags = ["--batch", "9", "--window-ms", "20", "--from", "earliest", "--pollers", "2"];
        check(&flags, mapping, (Where::Earliest, 2, 9, 20, true));
        let first = "mapping = { start = 1970-01-01T00:00:01Z }";
        check(&[], first, (at(1000), 1, 10_000, 500, false));
        check(&["--from", "latest"], first, (Where::Latest, 1, 10_000, 500, false));
        check(&["--from", "1970-01-01T00:00Z"], first, (at(0), 1, 10_000, 500, false));
    }

    #[test]
    fn what_a_mapping_would_skip_is_refused_by_name() {
        let refused = |mapping: &str, names: &[&str]| {
            let failure = said(&[], &format!("mapping = {{ {mapping}, pollers = [1, 2] }}")).unwrap_err();
            assert_eq!((failure.code.as_ref(), failure.exit()), ("run.mapping", Exit::Usage));
            assert!(names.iter().all(|name| failure.message.contains(name)), "{}", failure.message);
        };
        refused("retries = 3, max_age = \"1h\"", &["`retries`", "`max_age`"]);
        refused("filter = ['{}']", &["`filter`"]);
        let (.., settings) =
            said(&[], "mapping = { retries = -1, partial_answers = true, filter = [], pollers = [1, 2] }").unwrap();
        assert!(settings.partial);
        assert!(!said(&[], "").unwrap().2.partial);
    }
}

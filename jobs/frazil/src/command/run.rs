//! `frazil run`: Kafka into tables on any machine, until told to end.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka::Consumer;
use kafka::consumer::Place;

use crate::Session;
use crate::arguments;
use crate::kafka::{failed, settings};
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;
use crate::mapping::{Outcome, Read, Settings, Work};
use crate::places::{self, Where};

/// How often it is looked whether topics have got partitions.
const REFRESH: Duration = Duration::from_secs(60);

pub(crate) async fn run(arguments: &arguments::Run, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let settings = settings(&arguments.kafka, session)?;
    let work = Work::open(arguments.named.pipeline.as_deref(), settings, session).await?;
    let group = work.settings.group().map_or_else(|| format!("frazil-{}", work.id), str::to_owned);
    let consumer = work.consumer(&group)?;
    let found = places::of_topics(&consumer, &work.pipeline.source.topics, None)?;
    let from = from(&consumer, &found, arguments, session)?;
    drop(consumer);
    let mapping = Settings {
        batch: arguments.mapping.batch,
        window: Duration::from_millis(arguments.mapping.window_ms),
        bisect: arguments.mapping.bisect,
        idle: arguments.idle_seconds.map(Duration::from_secs),
        refresh: arguments.refresh_seconds.map_or(REFRESH, Duration::from_secs),
    };
    let read = Read { from, until: None, group: Some(group), pollers: arguments.mapping.pollers.get(), mapping };
    let outcome = work.carry_out(read, session).await?;
    session.output.reply("run", &outcome, Outcome::human)?;
    Ok(Exit::Done)
}

/// Where each partition is read from: where the group has got to, else where the command line says.
fn from(
    consumer: &Consumer,
    found: &[Place],
    arguments: &arguments::Run,
    session: &Session<'_>,
) -> Result<BTreeMap<Place, i64>, Failure> {
    let place = match arguments.from.as_deref() {
        None => Where::Earliest,
        Some(text) => places::typed(text, "--from", session.clock.now())?,
    };
    let mut next = consumer.committed(found).map_err(|e| failed(&e))?;
    let new: Vec<Place> = found.iter().filter(|place| !next.contains_key(place)).cloned().collect();
    if !new.is_empty() {
        next.extend(places::resolve(consumer, &new, &place, "--from")?);
    }
    Ok(next)
}

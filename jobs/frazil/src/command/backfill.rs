//! `frazil backfill`: a stretch of a topic into its table, and then an end.

#![expect(clippy::disallowed_methods, reason = "real brokers are waited for in real time; no simulation comes here")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kafka::Consumer;
use kafka::consumer::Place;
use model::failure::Kind;

use crate::Session;
use crate::arguments;
use crate::environment;
use crate::kafka::{failed, settings};
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;
use crate::mapping::{Outcome, Read, Settings, Work};
use crate::places::{self, Where};

/// How long it waits where it can't go on, where nobody says.
const WAIT: Duration = Duration::from_secs(60);
/// How often it is looked whether transactions have ended.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) async fn run(arguments: &arguments::Backfill, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let now = session.clock.now();
    let [from, to] = [(&arguments.from, "--from"), (&arguments.to, "--to")]
        .map(|(text, flag)| text.as_deref().map(|text| places::typed(text, flag, now)).transpose());
    let (from, to) = (from?.unwrap_or(Where::Earliest), to?.unwrap_or(Where::Latest));
    let environment = environment::settings(session)?;
    let (events, pollers) = super::run::events(&arguments.mapping, &environment)?;
    let settings = settings(&arguments.kafka, &environment, session)?;
    let work = Work::open(&environment, arguments.named.pipeline.as_deref(), settings, None, session).await?;
    let group = format!("frazil-{}", work.id);
    // The end is behind the last record there is, of a transaction that may be open still.
    let consumer = work.consumer_of_all(&group)?;
    let all = places::of_source(&consumer, &work.pipeline.source, arguments.topic.as_deref())?;
    // Offsets that are typed name the partitions that are meant.
    let named = |place: &Where, flag| match place {
        Where::Offsets(_) => places::resolve(&consumer, &all, place, flag).map(Some),
        _ => Ok(None),
    };
    let (named_from, named_to) = (named(&from, "--from")?, named(&to, "--to")?);
    let is_meant =
        |place: &&Place| [&named_from, &named_to].into_iter().flatten().all(|named| named.contains_key(place));
    let found: Vec<Place> = all.iter().filter(is_meant).cloned().collect();
    let offsets = |named: Option<BTreeMap<Place, i64>>, place: &Where, flag| match named {
        Some(named) => Ok(named.into_iter().filter(|(place, _)| found.contains(place)).collect()),
        None => places::resolve(&consumer, &found, place, flag),
    };
    let (from, until) = (offsets(named_from, &from, "--from")?, offsets(named_to, &to, "--to")?);
    drop(consumer);
    let backwards = from.iter().find(|(place, from)| until.get(place).is_some_and(|until| until < from));
    if let Some((place, from)) = backwards.filter(|_| arguments.from.is_some() && arguments.to.is_some()) {
        let Place { topic, partition } = place;
        let message =
            format!("topic `{topic}`, partition {partition}: it would end before offset {from}, where it begins");
        return Err(Failure::usage("usage", message).at("--from").remedy("give an end that lies behind the beginning"));
    }
    if arguments.dry_run {
        return planned(&from, &until, session);
    }
    let wait = arguments.wait.unwrap_or(WAIT);
    let open = until.iter().filter(|(place, end)| from.get(place).is_some_and(|from| from < end));
    let open = open.map(|(place, end)| (place.clone(), *end)).collect();
    transactions(&work.consumer(&group)?, open, wait, session).await?;
    let mapping = Settings { wait: Some(wait), ..events };
    let read = Read { from, until: Some(until), group: None, pollers, watch: None, mapping, readiness: None };
    let outcome = work.carry_out(read, session).await?;
    session.output.reply("backfill", &outcome, Outcome::human)?;
    Ok(Exit::Done)
}

/// Waits until no transaction is open before the ends of partitions: what they hold is known only then, and a consumer would see
/// the end of its records before that.
async fn transactions(
    consumer: &Consumer,
    mut ends: BTreeMap<Place, i64>,
    wait: Duration,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut is_said = false;
    loop {
        let mut first = None;
        let mut open = BTreeMap::new();
        for (place, end) in ends {
            let decided = consumer.decided(&place).map_err(|e| failed(&e))?;
            if decided < end {
                first.get_or_insert_with(|| (place.clone(), decided));
                open.insert(place, end);
            }
        }
        let Some((Place { topic, partition }, decided)) = first else { return Ok(()) };
        let others =
            if open.len() > 1 { format!(" (and in {} more partitions)", open.len() - 1) } else { String::new() };
        let what = format!("the transaction that is open in {topic}-{partition} from offset {decided} on{others}");
        if begun.elapsed() >= wait {
            let message = format!("{what} has not ended within {} s; nothing was read", wait.as_secs());
            return Err(Failure::new(Kind::Retry, "backfill.transaction", message).remedy(format!(
                "see whose it is (kafka-transactions.sh find-hanging), wait longer with --wait, or end before it: --topic {topic} --to {partition}:{decided}"
            )));
        }
        if !is_said {
            session.output.note(&format!("waiting for {what}, for {} s at most", wait.as_secs()));
            is_said = true;
        }
        tokio::time::sleep(LOOK.min(wait)).await;
        ends = open;
    }
}

#[derive(Debug, serde::Serialize)]
struct Planned<'a> {
    dry_run: bool,
    /// Offsets between the two ends; as many records at most.
    records_at_most: u64,
    partitions: Vec<Stretch<'a>>,
}

#[derive(Debug, serde::Serialize)]
struct Stretch<'a> {
    topic: &'a str,
    partition: i32,
    from: i64,
    /// The first offset that is not read.
    to: i64,
}

fn planned(
    from: &BTreeMap<Place, i64>,
    until: &BTreeMap<Place, i64>,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let stretch = |(place, from): (&'_ Place, &i64)| {
        let to = until.get(place).copied().unwrap_or(*from).max(*from);
        (place.clone(), *from, to)
    };
    let stretches: Vec<_> = from.iter().map(stretch).collect();
    let body = Planned {
        dry_run: true,
        records_at_most: stretches.iter().map(|(_, from, to)| (to - from).unsigned_abs()).sum(),
        partitions: stretches
            .iter()
            .map(|(place, from, to)| Stretch { topic: &place.topic, partition: place.partition, from: *from, to: *to })
            .collect(),
    };
    let human = |body: &Planned<'_>| {
        let lines =
            body.partitions.iter().map(|p| format!("{}-{}: offsets {} to {}", p.topic, p.partition, p.from, p.to - 1));
        let lines: Vec<String> = lines.collect();
        format!("at most {} records would be read\n{}", body.records_at_most, lines.join("\n"))
    };
    session.output.reply("backfill", &body, human)?;
    Ok(Exit::Done)
}

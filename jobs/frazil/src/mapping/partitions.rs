//! What is asked of the cluster while topics are read: whether it answers, and which partitions they have got.

#![expect(clippy::disallowed_methods, reason = "real brokers are waited for in real time; no simulation comes here")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kafka::Consumer;
use kafka::consumer::Place;
use pipeline::resolved::Source;

use super::Shared;
use crate::places;

/// The longest wait between two looks at whether all pollers have ended.
const LOOK: Duration = Duration::from_millis(200);

/// How often it is looked whether every partition can be read, where somebody wants to know.
const GLANCE: Duration = Duration::from_secs(5);

/// Looks for new partitions, and for new topics that fit a pattern, until all pollers have ended, and gives each partition to
/// one of them, by its number, from its first record on. `consumer` reads nothing itself: what it is asked may take its
/// records away.
pub(super) fn watch(
    consumer: &Consumer,
    source: &Source,
    mut known: BTreeSet<Place>,
    every: Duration,
    pollers: usize,
    shared: &Shared,
) {
    let mut topics: BTreeSet<String> = known.iter().map(|place| place.topic.clone()).collect();
    let mut looked = Instant::now();
    let mut glanced: Option<Instant> = None;
    let mut glance = |topics: &BTreeSet<String>| {
        if let Some(readiness) = shared.readiness.as_ref().filter(|_| glanced.is_none_or(|at| at.elapsed() >= GLANCE)) {
            readiness.cluster(topics.iter().find_map(|topic| why_not(consumer, topic)));
            glanced = Some(Instant::now());
        }
    };
    while shared.ended() < pollers {
        glance(&topics);
        std::thread::park_timeout(LOOK);
        if looked.elapsed() < every {
            continue;
        }
        looked = Instant::now();
        if source.has_patterns() {
            match places::topics(consumer, source) {
                Ok(found) => topics.extend(found),
                Err(error) => tracing::warn!("new topics were not looked for: {error}"),
            }
        }
        for topic in &topics {
            // A cluster that is away takes its time to say so.
            if shared.ended() == pollers {
                return;
            }
            glance(&topics);
            let found = consumer.partitions(topic).and_then(|partitions| {
                let new = partitions.into_iter().map(|partition| Place { topic: topic.clone(), partition });
                let new = new.filter(|place| !known.contains(place));
                new.map(|place| Ok((consumer.bounds(&place)?.0, place))).collect::<Result<Vec<_>, kafka::Error>>()
            });
            match found {
                Ok(new) => {
                    for (first, place) in new {
                        let number = usize::try_from(place.partition).unwrap_or(0) % pollers;
                        known.insert(place.clone());
                        shared.add(number, place, first);
                    }
                }
                Err(error) => tracing::warn!(topic, "new partitions were not looked for: {error}"),
            }
        }
    }
}

/// What keeps a topic from being read.
fn why_not(consumer: &Consumer, topic: &str) -> Option<String> {
    match consumer.leaderless(topic) {
        Ok(partitions) => {
            let first = partitions.first()?;
            let others =
                if partitions.len() > 1 { format!(" and {} more", partitions.len() - 1) } else { String::new() };
            Some(format!("{topic}-{first}{others} can't be read: there is no leader"))
        }
        Err(error) => Some(error.to_string()),
    }
}

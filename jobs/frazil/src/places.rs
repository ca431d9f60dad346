//! Where in a topic to read, as it is typed: `earliest`, `latest`, a time (2026-11-01T00:00Z, -2h), or offsets
//! (`0:100,1:250`, partition and offset).

use std::collections::{BTreeMap, BTreeSet};

use kafka::Consumer;
use kafka::consumer::Place;
use model::clock::Timestamp;
use model::failure::Kind;
use pipeline::glob;
use pipeline::resolved::Source;

use crate::manners::failure::Failure;
use crate::moment;

/// A place in each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// The oldest record there is.
    Earliest,
    /// Behind the newest one.
    Latest,
    /// The first record of this time or later.
    Time(Timestamp),
    /// The offset, by partition. Other partitions are not meant.
    Offsets(BTreeMap<i32, i64>),
}

/// Reads what was typed.
///
/// # Errors
/// The forms there are.
pub(crate) fn parse(text: &str, now: Timestamp) -> Result<Where, String> {
    match text {
        "earliest" => return Ok(Where::Earliest),
        "latest" => return Ok(Where::Latest),
        _ => {}
    }
    if let Some(offsets) = offsets(text) {
        return offsets.map(Where::Offsets);
    }
    moment::parse(text, now).map(Where::Time).map_err(|_| {
        format!(
            "`{text}` is no place in a topic: write earliest, latest, a time (2026-11-01T00:00Z, or -2h for that long ago), or \
             offsets (0:100,1:250: partition and offset)"
        )
    })
}

/// The place that a flag names.
///
/// # Errors
/// As [`parse`], as a failure of usage.
pub(crate) fn typed(text: &str, flag: &str, now: Timestamp) -> Result<Where, Failure> {
    parse(text, now)
        .map_err(|why| Failure::usage("usage", why).at(flag).remedy("write earliest, latest, a time or offsets"))
}

/// `None` where it is something else: every part is two whole numbers, which no time is.
fn offsets(text: &str) -> Option<Result<BTreeMap<i32, i64>, String>> {
    let mut found = BTreeMap::new();
    for part in text.split(',') {
        let (partition, offset) = part.trim().split_once(':')?;
        let (partition, offset) = (partition.parse::<i32>().ok()?, offset.parse::<i64>().ok()?);
        if partition < 0 || offset < 0 {
            return Some(Err(format!("`{part}`: partitions and offsets are not negative")));
        }
        if found.insert(partition, offset).is_some() {
            return Some(Err(format!("partition {partition} is there twice")));
        }
    }
    Some(Ok(found))
}

/// The topics of a source: those that it names, and those of the cluster that fit its patterns.
///
/// # Errors
/// Why nobody could be asked.
pub(crate) fn topics(consumer: &Consumer, source: &Source) -> Result<BTreeSet<String>, kafka::Error> {
    let mut topics: BTreeSet<String> = source.topics.iter().filter(|topic| !glob::is_glob(topic)).cloned().collect();
    if source.has_patterns() {
        topics.extend(consumer.topics()?.into_iter().filter(|topic| source.takes(topic)));
    }
    Ok(topics)
}

/// Every partition of a source's topics, or of one of them.
///
/// # Errors
/// A topic that is not there; one that is none of these; a pattern that no topic fits.
pub(crate) fn of_source(consumer: &Consumer, source: &Source, topic: Option<&str>) -> Result<Vec<Place>, Failure> {
    if let Some(topic) = topic
        && !source.takes(topic)
    {
        let message = format!("`{topic}` is none of the pipeline's topics: {}", source.topics.join(", "));
        return Err(Failure::usage("usage", message).at("--topic").remedy("name one of them"));
    }
    let failed = |error: kafka::Error| crate::kafka::failed(&error);
    let topics = match topic {
        Some(topic) => BTreeSet::from([topic.to_owned()]),
        None => topics(consumer, source).map_err(failed)?,
    };
    if topics.is_empty() {
        let message = format!("no topic of the cluster fits {}", source.topics.join(", "));
        return Err(Failure::new(Kind::Misconfigured, "kafka.no_topic", message)
            .remedy("make a topic first, or let this client describe those that there are"));
    }
    let mut places = Vec::new();
    for topic in topics {
        for partition in consumer.partitions(&topic).map_err(failed)? {
            places.push(Place { topic: topic.clone(), partition });
        }
    }
    Ok(places)
}

/// The offsets of a place. Partitions that are not meant are left out.
///
/// # Errors
/// The client's; a partition that the topic has not; offsets for several topics.
pub(crate) fn resolve(
    consumer: &Consumer,
    places: &[Place],
    place: &Where,
    flag: &str,
) -> Result<BTreeMap<Place, i64>, Failure> {
    let failed = |error: kafka::Error| crate::kafka::failed(&error);
    let bounds = |end: bool| {
        let bound = |place: &Place| {
            let (first, next) = consumer.bounds(place).map_err(failed)?;
            Ok((place.clone(), if end { next } else { first }))
        };
        places.iter().map(bound).collect()
    };
    match place {
        Where::Earliest => bounds(false),
        Where::Latest => bounds(true),
        // Kafka's times begin in 1970.
        Where::Time(time) => consumer.at(places, time.millis().max(0)).map_err(failed),
        Where::Offsets(offsets) => {
            let fault = |why: String| Failure::usage("usage", why).at(flag);
            let first = places.first().map(|place| &place.topic);
            if places.iter().any(|place| Some(&place.topic) != first) {
                return Err(fault("offsets are a topic's, and these would be of several".to_owned())
                    .remedy("name one of the pipeline's topics with --topic"));
            }
            let of = |(partition, offset): (&i32, &i64)| match places.iter().find(|p| p.partition == *partition) {
                // Beyond its ends there is nothing to read; the client would begin at the oldest record instead.
                Some(place) => {
                    let (first, next) = consumer.bounds(place).map_err(failed)?;
                    Ok((place.clone(), (*offset).clamp(first, next.max(first))))
                }
                None => {
                    let topic = first.map_or("", String::as_str);
                    Err(fault(format!("topic `{topic}` has no partition {partition}"))
                        .remedy("name partitions that it has, from 0 on"))
                }
            };
            offsets.iter().map(of).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_words_times_or_offsets() {
        let now: Timestamp = "2026-11-29T14:00:00.000000Z".parse().unwrap();
        let offsets = |pairs: &[(i32, i64)]| Ok(Where::Offsets(pairs.iter().copied().collect()));
        for (text, want) in [
            ("earliest", Ok(Where::Earliest)),
            ("latest", Ok(Where::Latest)),
            ("-2h", Ok(Where::Time(now.plus_micros(-7_200_000_000)))),
            ("2026-11-29T13:00Z", Ok(Where::Time(now.plus_micros(-3_600_000_000)))),
            ("0:100", offsets(&[(0, 100)])),
            ("0:100, 12:9223372036854775807", offsets(&[(0, 100), (12, i64::MAX)])),
        ] {
            assert_eq!(parse(text, now), want, "{text}");
        }
        for bad in ["", "first", "0", "0:", ":5", "0:1,0:2", "-1:5", "0:-5", "0:1;1:2", "a:1", "0:1,latest", "14:00Z"] {
            assert!(parse(bad, now).is_err(), "{bad}");
        }
    }
}

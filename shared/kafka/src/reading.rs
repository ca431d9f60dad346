//! How a consumer's reading stands, by librdkafka's statistics (its `STATISTICS.md`).

use rdkafka::statistics::Statistics;

/// How reading stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// Nothing is known yet.
    #[default]
    Unknown,
    /// Every partition is being read, from a broker whose connection is up.
    All,
    /// Some are not: how many, and one of them as `topic-partition`.
    Lacking {
        /// How many partitions are not being read.
        partitions: usize,
        /// One of them.
        example: String,
    },
}

impl Reading {
    pub(crate) fn of(statistics: &Statistics) -> Self {
        // Numbers below 0 are of brokers whose own number is not known yet.
        let is_up =
            |id: i32| id >= 0 && statistics.brokers.values().any(|broker| broker.nodeid == id && broker.state == "UP");
        let mut read = 0;
        let mut lacking = Vec::new();
        for topic in statistics.topics.values() {
            // What the client was not told to read stands among them, too; partition -1 is of producers.
            for partition in topic.partitions.values().filter(|partition| partition.partition >= 0 && partition.desired)
            {
                match partition.fetch_state == "active" && is_up(partition.broker) {
                    true => read += 1,
                    false => lacking.push(format!("{}-{}", topic.topic, partition.partition)),
                }
            }
        }
        let partitions = lacking.len();
        match (lacking.into_iter().min(), read) {
            (Some(example), _) => Self::Lacking { partitions, example },
            (None, 0) => Self::Unknown,
            (None, _) => Self::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::statistics::{Broker, Partition, Topic};

    use super::*;

    #[test]
    fn a_partition_is_read_that_is_fetched_from_a_broker_that_is_up() {
        let check = |partitions: &[(i32, bool, &str, i32)], expected: Reading| {
            let mut statistics = Statistics::default();
            for (nodeid, state) in [(1, "UP"), (2, "DOWN"), (-1, "UP")] {
                let broker = Broker { nodeid, state: state.to_owned(), ..Broker::default() };
                statistics.brokers.insert(format!("b/{nodeid}"), broker);
            }
            let mut topic = Topic { topic: "t".to_owned(), ..Topic::default() };
            for (partition, desired, state, broker) in partitions {
                let fetch_state = (*state).to_owned();
                let of = Partition {
                    partition: *partition,
                    desired: *desired,
                    fetch_state,
                    broker: *broker,
                    ..Partition::default()
                };
                topic.partitions.insert(*partition, of);
            }
            statistics.topics.insert("t".to_owned(), topic);
            assert_eq!(Reading::of(&statistics), expected, "{partitions:?}");
        };
        let lacking = |partitions, example: &str| Reading::Lacking { partitions, example: example.to_owned() };
        check(&[], Reading::Unknown);
        check(&[(-1, true, "none", 1)], Reading::Unknown);
        check(&[(0, true, "active", 1), (1, false, "none", -1)], Reading::All);
        check(&[(0, true, "active", 1), (3, true, "active", 2), (2, true, "offset-query", 1)], lacking(2, "t-2"));
        check(&[(0, true, "active", -1)], lacking(1, "t-0"));
    }
}

//! Where a record stands: source, topic, partition, offset.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One Kafka cluster, as a hash of what names it. Two clusters with a topic of the same name stay apart, and no ARN
/// (which carries an account number) is written into tables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SourceId(String);

impl SourceId {
    /// From the event's `eventSourceArn` (it carries the cluster's UUID) or the configured source name:
    /// the first 16 hexadecimal digits of its xxh3-128.
    #[must_use]
    pub fn of(arn_or_name: &str) -> Self {
        let hash = xxhash_rust::xxh3::xxh3_128(arn_or_name.as_bytes());
        Self(format!("{:016x}", hash >> 64))
    }

    /// The hash as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A partition of a topic of a source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopicPartition {
    /// The cluster.
    pub source: SourceId,
    /// The topic's name, hyphens and all.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.source, self.topic, self.partition)
    }
}

/// One record's place. At one coordinate Kafka holds one record, for as long as the topic is the same topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Coordinate {
    /// Where it stands.
    #[serde(flatten)]
    pub partition: TopicPartition,
    /// Its offset there.
    pub offset: i64,
}

impl fmt::Display for Coordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.partition, self.offset)
    }
}

/// An offset with its record's timestamp: evidence that a topic is still the same topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sample {
    /// The offset.
    pub offset: i64,
    /// Kafka's timestamp, milliseconds since the epoch; absent where the record has none (-1 on the wire).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp_ms: Option<i64>,
}

//! The columns that say where a row came from. They are in every staged object, whatever the table keeps of them.
//!
//! | column | type in memory | null |
//! | --- | --- | --- |
//! | `_kafka_topic` | dictionary of 32-bit indices into UTF-8 | never |
//! | `_kafka_partition` | 32-bit integer | never |
//! | `_kafka_offset` | 64-bit integer | never |
//! | `_kafka_timestamp` | microseconds, UTC | where the record has no timestamp |
//! | `_ingested_at` | microseconds, UTC: the first instant of the object's minute | never |
//! | `_ordinal` | 32-bit integer: which of its record's rows this is, from 0 | never |
//! | `_op` | dictionary of 32-bit indices into UTF-8: `d` where the record deletes the row of its key; only in objects that have such a record | where the record is a row |

use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, Int64Array, PrimitiveArray, StringArray, TimestampMicrosecondArray,
};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Int32Type, TimeUnit};
use model::clock::Minute;

/// The table a row goes to: constant within a row group. Added by [`crate::object::encode`].
pub const TABLE: &str = "_table";
/// The topic.
pub const TOPIC: &str = "_kafka_topic";
/// The partition.
pub const PARTITION: &str = "_kafka_partition";
/// The offset.
pub const OFFSET: &str = "_kafka_offset";
/// Kafka's timestamp.
pub const TIMESTAMP: &str = "_kafka_timestamp";
/// The object's minute.
pub const INGESTED_AT: &str = "_ingested_at";
/// Which of its record's rows this is.
pub const ORDINAL: &str = "_ordinal";

/// What a record does, where it is not a row: see [`DELETE`].
pub const OP: &str = "_op";
/// The record deletes the row of its key. Of its columns those of the key alone mean something.
pub const DELETE: &str = "d";

/// UTC, as Arrow names a zone that Parquet and Iceberg call "adjusted to UTC".
pub const UTC: &str = "UTC";

/// The type of a text column that repeats.
#[must_use]
pub fn dictionary_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// The fields of the record columns, in the order of [`Builder::finish`]; [`TABLE`] is not among them.
#[must_use]
pub fn fields() -> Vec<FieldRef> {
    let instant = || DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()));
    vec![
        Arc::new(Field::new(TOPIC, dictionary_type(), false)),
        Arc::new(Field::new(PARTITION, DataType::Int32, false)),
        Arc::new(Field::new(OFFSET, DataType::Int64, false)),
        Arc::new(Field::new(TIMESTAMP, instant(), true)),
        Arc::new(Field::new(INGESTED_AT, instant(), false)),
        Arc::new(Field::new(ORDINAL, DataType::Int32, false)),
    ]
}

/// Kafka's milliseconds as the microseconds of [`TIMESTAMP`]; absent when they leave the range of the column, which makes
/// the record a dead letter rather than a wrong time.
#[must_use]
pub const fn micros(timestamp_ms: i64) -> Option<i64> {
    timestamp_ms.checked_mul(1000)
}

/// Builds the record columns of one table's rows.
#[derive(Debug)]
pub struct Builder {
    minute: Minute,
    topics: Vec<String>,
    /// Rows in a row that share topic and partition: index of the topic, partition, how many.
    runs: Vec<(i32, i32, usize)>,
    offsets: Vec<i64>,
    timestamps: Vec<i64>,
    /// Which timestamps are there; empty as long as all are.
    present: Vec<bool>,
    ordinals: Vec<i32>,
}

impl Builder {
    /// A builder with room for this many rows.
    #[must_use]
    pub fn new(minute: Minute, rows: usize) -> Self {
        Self {
            minute,
            topics: Vec::new(),
            runs: Vec::new(),
            offsets: Vec::with_capacity(rows),
            timestamps: Vec::with_capacity(rows),
            present: Vec::new(),
            ordinals: Vec::with_capacity(rows),
        }
    }

    /// Says where the next rows come from.
    pub fn start(&mut self, topic: &str, partition: i32) {
        let index = self.topics.iter().position(|t| t == topic).unwrap_or_else(|| {
            self.topics.push(topic.to_owned());
            self.topics.len() - 1
        });
        // An event of 6 MB cannot name 2^31 topics.
        self.runs.push((i32::try_from(index).unwrap_or(i32::MAX), partition, 0));
    }

    /// Adds a row from where [`Builder::start`] last said. `timestamp_us` comes from [`micros`].
    #[inline]
    pub fn row(&mut self, offset: i64, timestamp_us: Option<i64>, ordinal: i32) {
        if self.runs.is_empty() {
            self.start("", 0);
        }
        if let Some((_, _, rows)) = self.runs.last_mut() {
            *rows += 1;
        }
        if timestamp_us.is_none() && self.present.is_empty() {
            self.present = vec![true; self.timestamps.len()];
            self.present.reserve(self.timestamps.capacity() - self.timestamps.len());
        }
        if timestamp_us.is_none() || !self.present.is_empty() {
            self.present.push(timestamp_us.is_some());
        }
        self.offsets.push(offset);
        self.timestamps.push(timestamp_us.unwrap_or(0));
        self.ordinals.push(ordinal);
    }

    /// How many rows there are.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.offsets.len()
    }

    /// The columns, in the order of [`fields`].
    #[must_use]
    pub fn finish(self) -> Vec<ArrayRef> {
        let rows = self.offsets.len();
        let (mut topics, mut partitions) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        for (topic, partition, count) in self.runs {
            topics.resize(topics.len() + count, topic);
            partitions.resize(partitions.len() + count, partition);
        }
        let topics = DictionaryArray::<Int32Type>::new(
            PrimitiveArray::new(ScalarBuffer::from(topics), None),
            Arc::new(StringArray::from_iter_values(&self.topics)),
        );
        let nulls = if self.present.is_empty() { None } else { Some(NullBuffer::from(self.present)) };
        let timestamps = TimestampMicrosecondArray::new(ScalarBuffer::from(self.timestamps), nulls);
        let minute = TimestampMicrosecondArray::from_value(self.minute.start().micros(), rows);
        vec![
            Arc::new(topics),
            Arc::new(Int32Array::from(partitions)),
            Arc::new(Int64Array::from(self.offsets)),
            Arc::new(timestamps.with_timezone(UTC)),
            Arc::new(minute.with_timezone(UTC)),
            Arc::new(Int32Array::from(self.ordinals)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, RecordBatch, cast::AsArray};
    use arrow::datatypes::Schema;

    use super::*;

    #[test]
    fn rows_keep_where_they_came_from() {
        let minute: Minute = "2026-11-29/14/05".parse().unwrap();
        let mut builder = Builder::new(minute, 4);
        builder.start("a", 3);
        builder.row(10, micros(1), 0);
        builder.row(12, None, 0);
        builder.start("b-b", 0);
        builder.start("a", 4);
        builder.row(0, micros(-1), 0);
        builder.row(0, micros(-1), 1);
        assert_eq!(builder.rows(), 4);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields())), builder.finish()).unwrap();
        let topics = batch.column(0).as_dictionary::<Int32Type>();
        let names = topics.downcast_dict::<StringArray>().unwrap();
        assert_eq!(names.into_iter().flatten().collect::<Vec<_>>(), ["a", "a", "a", "a"]);
        assert_eq!(batch.column(1).as_ref(), &Int32Array::from(vec![3, 3, 4, 4]));
        assert_eq!(batch.column(2).as_ref(), &Int64Array::from(vec![10, 12, 0, 0]));
        let times = TimestampMicrosecondArray::from(vec![Some(1000), None, Some(-1000), Some(-1000)]);
        assert_eq!(batch.column(3).as_ref(), &times.with_timezone("UTC"));
        let minutes = TimestampMicrosecondArray::from_value(minute.start().micros(), 4);
        assert_eq!(batch.column(4).as_ref(), &minutes.with_timezone("UTC"));
        assert_eq!(batch.column(5).as_ref(), &Int32Array::from(vec![0, 0, 0, 1]));
        assert_eq!(batch.column(3).null_count(), 1);
    }

    #[test]
    fn no_rows_are_columns_too_and_no_time_is_made_up() {
        let minute: Minute = "2026-11-29/14/05".parse().unwrap();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields())), Builder::new(minute, 0).finish()).unwrap();
        assert_eq!(batch.num_rows(), 0);
        assert_eq!(micros(i64::MAX), None);
        assert_eq!(micros(-9_223_372_036_854_775), Some(-9_223_372_036_854_775_000));
    }
}

//! How long ingest's last steps take: hashing 10,000 raw records, and encoding their rows as one staged object.
//!
//! `cargo bench -p staging` prints one JSON document: milliseconds per 10,000 records, the least and the median of many
//! repetitions on one thread. Rows are those of the Employee schema: 7 value columns and the record columns.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a benchmark prints, and stops at the first fault")]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{Field, FieldRef, Schema};
use bytes::Bytes;
use model::clock::{Minute, Timestamp};
use model::coordinate::{Sample, SourceId, TopicPartition};
use model::coverage::{Coverage, PartitionCoverage};
use model::id::{Ids, SeededIds};
use model::interval::Interval;
use model::stored::Tag;
use staging::footer::{Column, Footer};
use staging::hash::{ObjectHasher, RawRecord};
use staging::object::{Object, Projection, TableRows, Types, encode};
use staging::record_columns;

const ROWS: i64 = 10_000;
const PARTITIONS: i64 = 4;
const REPETITIONS: usize = 300;

fn minute() -> Minute {
    Timestamp::from_millis(1_790_000_000_000).minute()
}

fn employees(unique_names: bool) -> RecordBatch {
    let ids = SeededIds::new(1);
    let below = |n: u64| i64::try_from(ids.next_u64() % n).expect("small");
    let start = minute().start().micros();
    let names: Vec<String> =
        (0..ROWS).map(|_| format!("Dummy{}", below(if unique_names { 1 << 60 } else { 100 }))).collect();
    let long = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let text = |value: &str| Arc::new(StringArray::from_iter_values((0..ROWS).map(|_| value))) as ArrayRef;
    let times: Vec<i64> =
        (0..ROWS).map(|n| start + (n / 7) * 1000 - i64::from(below(1000) == 0) * 3_600_000_000).collect();
    let mut columns: Vec<(FieldRef, ArrayRef)> = Vec::new();
    let mut add = |name: &str, array: ArrayRef| {
        columns.push((Arc::new(Field::new(name, array.data_type().clone(), true)), array));
    };
    add("employee_id", long((0..ROWS).map(|_| below(100_000)).collect()));
    add("name", Arc::new(StringArray::from_iter_values(&names)));
    add("address", text("Melbourne, Australia"));
    add("age", long((0..ROWS).map(|_| below(99)).collect()));
    add("start_date", Arc::new(TimestampMicrosecondArray::from(times).with_timezone("UTC")));
    add("team", text("Solutions Architects"));
    add("role", text("ARCHITECT"));
    let mut record = record_columns::Builder::new(minute(), usize::try_from(ROWS).expect("small"));
    for partition in 0..PARTITIONS {
        record.start("protobuf-demo-topic-pure", i32::try_from(partition).expect("small"));
        for n in 0..ROWS / PARTITIONS {
            record.row(1_000_000 * partition + n, record_columns::micros(start / 1000 + n / 5), 0);
        }
    }
    let record = record_columns::fields().into_iter().zip(record.finish());
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().chain(record).unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("columns of one length")
}

fn footer() -> Footer {
    let mut coverage = Coverage::default();
    for partition in 0..PARTITIONS {
        let (first, last) = (1_000_000 * partition, 1_000_000 * partition + ROWS / PARTITIONS - 1);
        let at = TopicPartition {
            source: SourceId::of("cluster"),
            topic: "protobuf-demo-topic-pure".to_owned(),
            partition: i32::try_from(partition).expect("small"),
        };
        let covered = PartitionCoverage {
            delivered: Interval::new(first, last).expect("in order").into(),
            filtered: Default::default(),
            dead: Default::default(),
            first: Sample { offset: first, timestamp_ms: Some(1) },
            last: Sample { offset: last, timestamp_ms: Some(1) },
        };
        coverage.insert(at, covered).expect("a coverage");
    }
    Footer {
        schema: Tag::of::<Footer>(),
        pipeline_id: "employee-00ff00ff".parse().expect("an id"),
        pipeline_file_hash: "0".repeat(64),
        apply_sequence: 1,
        mapping_version: 1,
        hash: None,
        minute: minute(),
        origin: Default::default(),
        writer: "0.1.0".to_owned(),
        coverage,
        event_time_bounds: None,
        schemas: Vec::new(),
        tables: Vec::new(),
        columns: ["employee_id", "name", "address", "age", "start_date", "team", "role"]
            .into_iter()
            .enumerate()
            .map(|(n, name)| Column {
                name: name.to_owned(),
                source: (n + 1).to_string(),
                source_name: name.to_owned(),
                former: Vec::new(),
                data_type: "string".to_owned(),
                required: false,
            })
            .collect(),
    }
}

/// Least and median milliseconds of a step.
fn measure<T>(mut step: impl FnMut() -> T) -> (f64, f64) {
    let mut times: Vec<f64> = (0..REPETITIONS)
        .map(|_| {
            let start = Instant::now();
            drop(black_box(step()));
            start.elapsed().as_secs_f64() * 1000.0
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times.first().copied().unwrap_or(0.0), times.get(times.len() / 2).copied().unwrap_or(0.0))
}

fn main() {
    let footer = footer();
    let mut results = serde_json::Map::new();
    let mut note = |name: &str, (least, median): (f64, f64), bytes: usize| {
        results.insert(
            name.to_owned(),
            serde_json::json!({ "ms_per_10k_least": least, "ms_per_10k_median": median, "bytes": bytes }),
        );
    };
    for (name, unique_names) in [("encode_employee", false), ("encode_employee_unique_names", true)] {
        let rows = [TableRows { table: "bigdata.employee".to_owned(), batch: employees(unique_names) }];
        let bytes = encode(&footer, &rows).expect("an object").len();
        note(name, measure(|| encode(&footer, &rows).expect("an object")), bytes);
    }
    let rows = [TableRows { table: "bigdata.employee".to_owned(), batch: employees(false) }];
    let object = encode(&footer, &rows).expect("an object");
    let projection = Projection { types: Types::Views, ..Projection::default() };
    let read = |bytes: &Bytes| {
        let object = Object::open(bytes.clone()).expect("an object");
        let rows = object.rows("bigdata.employee", &projection).expect("rows");
        rows.map(|batch| batch.expect("a batch").num_rows()).sum::<usize>()
    };
    note("read_employee_as_views", measure(|| read(&object)), object.len());

    let value = vec![7u8; 86];
    let hash = || {
        let mut hasher = ObjectHasher::new(&SourceId::of("cluster"), "file");
        for offset in 0..ROWS {
            hasher.record(RawRecord {
                topic: "protobuf-demo-topic-pure",
                partition: 0,
                offset,
                timestamp_ms: Some(offset),
                key: None,
                value: Some(&value),
                headers: [],
            });
        }
        hasher.finish(&footer.coverage)
    };
    note("hash_86_byte_records", measure(hash), 86 * 10_000);
    println!("{}", serde_json::Value::Object(results));
}

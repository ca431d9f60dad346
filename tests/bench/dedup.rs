//! Folds in mode `dedup`, hour after hour of a stream of a million rows an hour, one in 500 of them sent twice. What a
//! fold costs should follow its own rows, not the table's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
use model::clock::{Clock, ManualClock, Timestamp};
use model::coordinate::{Sample, SourceId, TopicPartition};
use model::coverage::{Coverage, PartitionCoverage};
use model::interval::Interval;
use serde_json::{Value, json};
use staging::footer::Footer;
use staging::key::{ObjectHash, StagedKey};
use staging::local::LocalStore;
use staging::object::{self, TableRows};
use staging::store::Store;

use super::Bench;
use super::folding::{Order, Taken, median, spread};

const ROWS_PER_HOUR: i64 = 1_000_000;
const HOUR_MICROS: i64 = 3_600_000_000;
/// 2026-11-02T08:00:00Z
pub(super) const START_MICROS: i64 = 1_793_606_400_000_000;
const PARTITIONS: i64 = 32;
const REPEATED_EVERY: i64 = 500;
/// How many rows earlier a repeated row was sent, in turn: from the same fold or, half an hour earlier, as often from the
/// one before. Neither is a multiple of [`REPEATED_EVERY`]: what is repeated was itself sent as it is.
const REPEATED_AFTER: [i64; 2] = [1001, 500_001];

/// The row that is sent as the `n`-th.
fn sent(n: i64) -> i64 {
    let after = REPEATED_AFTER[(n / REPEATED_EVERY % 2) as usize];
    if n % REPEATED_EVERY == REPEATED_EVERY - 1 && n >= after { n - after } else { n }
}

/// Staged objects made from the rows of one event, each with coordinates, keys and times of its own.
pub(super) struct Stream {
    footer: Footer,
    template: TableRows,
    pub(super) next_row: i64,
    offsets: [i64; PARTITIONS as usize],
    objects: i64,
    /// The key of the row that is sent as the `n`-th.
    pub(super) key: Box<dyn Fn(i64) -> i64>,
}

impl Stream {
    /// Of a pipeline, in the form of these rows.
    pub(super) fn new(bench: &Bench, footer: &Footer, template: &TableRows, key: Box<dyn Fn(i64) -> i64>) -> Self {
        let footer = Footer { pipeline_id: bench.id.clone(), ..footer.clone() };
        Self { footer, template: template.clone(), next_row: 0, offsets: [0; PARTITIONS as usize], objects: 0, key }
    }

    /// The next object: its rows from `next_row` on.
    pub(super) fn object(&mut self) -> (StagedKey, bytes::Bytes) {
        let batch = &self.template.batch;
        let rows = batch.num_rows() as i64;
        let partition = self.objects % PARTITIONS;
        let offset = self.offsets[partition as usize];
        self.offsets[partition as usize] += rows;
        let row = |n: i64| (self.key)(self.next_row + n);
        let micros = |n: i64| START_MICROS + n * (HOUR_MICROS / ROWS_PER_HOUR);
        let minute = Timestamp::from_micros(micros(self.next_row + rows)).minute();
        let utc =
            |values: Vec<i64>| -> ArrayRef { Arc::new(TimestampMicrosecondArray::from(values).with_timezone("UTC")) };
        let schema = batch.schema();
        let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| -> ArrayRef {
            match field.name().as_str() {
                "employee_id" => Arc::new(Int64Array::from_iter_values((0..rows).map(row))),
                "start_date" => utc((0..rows).map(|n| micros(row(n))).collect()),
                "_kafka_partition" => Arc::new(Int32Array::from_iter_values((0..rows).map(|_| partition as i32))),
                "_kafka_offset" => Arc::new(Int64Array::from_iter_values(offset..offset + rows)),
                "_kafka_timestamp" => utc((0..rows).map(|n| micros(self.next_row + n)).collect()),
                "_ingested_at" => utc(vec![minute.start().micros(); rows as usize]),
                _ => Arc::clone(column),
            }
        });
        let batch = RecordBatch::try_new(schema.clone(), columns.collect()).unwrap();
        let sample = |offset| Sample { offset, timestamp_ms: None };
        let mut coverage = Coverage::default();
        let at = TopicPartition { source: SourceId::of("bench"), topic: topic(&batch), partition: partition as i32 };
        let covered = PartitionCoverage {
            delivered: Interval::new(offset, offset + rows - 1).unwrap().into(),
            filtered: BTreeMap::new(),
            dead: model::interval::Intervals::new(),
            first: sample(offset),
            last: sample(offset + rows - 1),
        };
        coverage.insert(at, covered).unwrap();
        let hash = ObjectHash::new(self.objects as u128);
        let footer = Footer { coverage, minute, hash: Some(hash), ..self.footer.clone() };
        let key = StagedKey { pipeline: footer.pipeline_id.clone(), minute, hash };
        self.next_row += rows;
        self.objects += 1;
        (key, object::encode(&footer, &[TableRows { table: self.template.table.clone(), batch }]).unwrap())
    }
}

fn topic(batch: &RecordBatch) -> String {
    let topics = batch.column_by_name("_kafka_topic").unwrap();
    let plain = arrow::compute::cast(topics, &arrow::datatypes::DataType::Utf8).unwrap();
    plain.as_string::<i32>().value(0).to_owned()
}

/// Folds hour after hour into one table, and reports three folds around each of these numbers of hours in the table: the
/// table then holds about so many millions of rows.
pub(super) fn measure(footer: &Footer, template: &TableRows, sizes: [i64; 2], memory_bytes: u64) -> Value {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(START_MICROS)));
    let bench = Bench::deduplicating(clock.clone() as Arc<dyn Clock>);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = Arc::new(LocalStore::open(&bench.folder, clock.clone()).unwrap());
    let mut stream = Stream::new(&bench, footer, template, Box::new(sent));
    // By hours in the table: rows in it, and what the fold of the next hour took.
    let mut folds: Vec<(u64, Taken)> = Vec::new();
    let (mut held, mut staging_seconds) = (0, 0.0);
    for hour in 1..=sizes[1].max(sizes[0]) + 2 {
        let first = stream.next_row;
        while stream.next_row < hour * ROWS_PER_HOUR {
            let (key, body) = stream.object();
            clock.set(key.minute.start());
            let started = Instant::now();
            runtime.block_on(store.put_new(&key.to_string(), body)).unwrap();
            staging_seconds += started.elapsed().as_secs_f64();
        }
        let order = Order { folder: &bench.folder, memory_bytes, now: clock.now(), seed: hour as u64 };
        let taken = order.carry_out();
        let rows = first..stream.next_row;
        assert_eq!(taken.rows(), (rows.end - rows.start) as u64, "every row is taken in");
        let repeated = rows.filter(|n| sent(*n) != *n).count() as u64;
        assert_eq!(taken.deduplicated, repeated, "what was sent twice, and nothing else, is left out");
        let added = taken.rows_added;
        folds.push((held, taken));
        held += added;
    }
    let around = |hours: i64| {
        let hours = usize::try_from(hours).unwrap();
        &folds[hours.saturating_sub(1)..=hours + 1]
    };
    let cores = |folds: &[(u64, Taken)]| median(folds.iter().map(|(_, taken)| taken.cores.all()));
    json!({
        "folds": sizes.map(|hours| report(around(hours))),
        "core_seconds_ratio": cores(around(sizes[1])) / cores(around(sizes[0])),
        "target_core_seconds_ratio": 1.1,
        "target_rows_per_second_per_core": 1_000_000,
        "memory_bytes": memory_bytes,
        "peak_rss_bytes": folds.iter().map(|(_, taken)| taken.peak_rss_bytes).max(),
        "target_peak_rss_bytes": memory_bytes,
        "staging_seconds": staging_seconds,
    })
}

/// Folds into a table of about one size, together.
fn report(folds: &[(u64, Taken)]) -> Value {
    let figure = |of: fn(&Taken) -> f64| spread(folds.iter().map(|(_, taken)| of(taken)));
    json!({
        "rows_in_table": folds.iter().map(|(held, _)| held).collect::<Vec<_>>(),
        "rows": folds.iter().map(|(_, taken)| taken.rows()).collect::<Vec<_>>(),
        "deduplicated": folds.iter().map(|(_, taken)| taken.deduplicated).collect::<Vec<_>>(),
        "runs": folds.iter().map(|(_, taken)| taken.runs).collect::<Vec<_>>(),
        "seconds": figure(|taken| taken.seconds),
        "core_seconds": figure(|taken| taken.cores.all()),
        "user_core_seconds": figure(|taken| taken.cores.user),
        "system_core_seconds": figure(|taken| taken.cores.system),
        "rows_per_second_per_core": figure(|taken| taken.rows_per_second_per_core().round()),
        "peak_rss_bytes": figure(|taken| taken.peak_rss_bytes as f64),
    })
}

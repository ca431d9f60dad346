//! Folds in mode `dedup`, hour after hour of a stream of a million rows an hour, one in 500 of them sent twice. What a
//! fold costs should follow its own rows, not the table's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
use fold::{Fold, Settings};
use model::clock::{Clock, ManualClock, Timestamp};
use model::coordinate::{Sample, SourceId, TopicPartition};
use model::coverage::{Coverage, PartitionCoverage};
use model::id::SeededIds;
use model::interval::Interval;
use serde_json::{Value, json};
use staging::footer::Footer;
use staging::key::{ObjectHash, StagedKey};
use staging::local::LocalStore;
use staging::object::{self, TableRows};
use staging::store::Store;
use table::catalog::sqlite::SqliteCatalog;
use table::storage;

use super::{Bench, on_cores, peak};

const ROWS_PER_HOUR: i64 = 1_000_000;
const HOUR_MICROS: i64 = 3_600_000_000;
/// 2026-11-02T08:00:00Z
const START_MICROS: i64 = 1_793_606_400_000_000;
const PARTITIONS: i64 = 32;
const REPEATED_EVERY: i64 = 500;

/// Staged objects made from the rows of one event, each with coordinates, keys and times of its own.
struct Stream {
    footer: Footer,
    template: TableRows,
    next_row: i64,
    offsets: [i64; PARTITIONS as usize],
    objects: i64,
}

impl Stream {
    /// The next object: its rows from `next_row` on.
    fn object(&mut self) -> (StagedKey, bytes::Bytes) {
        let batch = &self.template.batch;
        let rows = batch.num_rows() as i64;
        let partition = self.objects % PARTITIONS;
        let offset = self.offsets[partition as usize];
        self.offsets[partition as usize] += rows;
        let row = |n: i64| {
            let n = self.next_row + n;
            // One in 500 is the row sent a thousand earlier, once more.
            if n % REPEATED_EVERY == REPEATED_EVERY - 1 && n > 1000 { n - 1000 } else { n }
        };
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

/// Folds `hours` hours one by one; the table then holds about so many millions of rows.
pub(super) fn measure(footer: &Footer, template: &TableRows, hours: i64, report: &[i64]) -> Value {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(START_MICROS)));
    let bench = Bench::deduplicating(clock.clone() as Arc<dyn Clock>);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = Arc::new(LocalStore::open(bench.folder.path(), clock.clone()).unwrap());
    let ids = Arc::new(SeededIds::new(1));
    let mut footer = footer.clone();
    footer.pipeline_id = bench.id.clone();
    let template = TableRows { table: template.table.clone(), batch: template.batch.clone() };
    let mut stream = Stream { footer, template, next_row: 0, offsets: [0; PARTITIONS as usize], objects: 0 };
    let mut folds: Vec<Value> = Vec::new();
    let mut held = 0;
    for hour in 1..=hours {
        let mut before = std::time::Duration::ZERO;
        while stream.next_row < hour * ROWS_PER_HOUR {
            let (key, body) = stream.object();
            clock.set(key.minute.start());
            let started = Instant::now();
            runtime.block_on(store.put_new(&key.to_string(), body)).unwrap();
            before += started.elapsed();
        }
        let (wall, cores, outcome) = runtime.block_on(async {
            let warehouse = storage::location_of(&bench.folder.path().join("warehouse")).unwrap();
            let catalog_file = bench.folder.path().join("catalog.db");
            let clock: Arc<dyn Clock> = clock.clone();
            let catalog =
                SqliteCatalog::open(&catalog_file, &warehouse, storage::local(), Arc::clone(&clock), ids.clone()).await;
            let fold = Fold {
                pipeline: Arc::new(bench.pipeline.clone()),
                id: bench.id.clone(),
                store: store.clone(),
                catalog: Arc::new(catalog.unwrap()),
                io: storage::local(),
                clock,
                ids: ids.clone(),
                settings: Settings::default(),
            };
            let (started, cores) = (Instant::now(), on_cores());
            let outcome = fold.run().await.unwrap();
            (started.elapsed().as_secs_f64(), on_cores() - cores, outcome)
        });
        let table = &outcome.tables[0];
        let rows = table.rows_added + table.deduplicated;
        if report.contains(&(hour - 1)) {
            folds.push(json!({
                "rows_in_table": held,
                "rows": rows,
                "deduplicated": table.deduplicated,
                "seconds": wall,
                "core_seconds": cores,
                "rows_per_second_per_core": (rows as f64 / cores).round(),
                "staging_seconds": before.as_secs_f64(),
            }));
        }
        held += table.rows_added;
    }
    json!({ "folds": folds, "target_rows_per_second_per_core": 1_000_000, "peak_rss_bytes": peak() })
}

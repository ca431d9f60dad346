//! How fast rows become data files: `cargo run --release -p table --example throughput [rows] [seed|varied] [stages|filters]`.
//!
//! Employee rows (seven columns and five of the Kafka record) in batches of 10,000, text as views, partitioned by
//! `bucket(8, employee_id), hour(start_date)`. `seed` has the values of the examples frazil grew from (a hundred names, one
//! hour and some late rows); `varied` has a name and an address of its own in every row and spreads over 24 hours.
//! Prints rows a second of processor time (one thread; where the system tells it, else of the clock), with `stages` the
//! cost of each step alone. With `filters` the first column and the name have bloom filters, as keys have.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a measurement, run by hand: it prints durations to a person"
)]

use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Int32Type};
use iceberg::io::FileIO;
use iceberg::spec::SortOrder;
use model::id::{Ids, SeededIds};
use pipeline::resolved::{PartitionField, SortField, Transform};
use pipeline::types::Type;
use table::data_file::{PartitionedWriter, Target};
use table::partition::{self, Partitioner};
use table::schema::{Column, Strings, arrow_schema, iceberg_schema};
use table::sort;

const BATCH_ROWS: usize = 10_000;
const HOUR: i64 = 3_600_000_000;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let rows: usize = arguments.get(1).map_or(1_000_000, |n| n.parse().unwrap());
    let varied = arguments.get(2).is_some_and(|shape| shape == "varied");
    let text = |name: &str| (name.to_owned(), Type::String);
    let columns: Vec<Column> = [
        ("employee_id".to_owned(), Type::Long),
        text("name"),
        text("address"),
        ("age".to_owned(), Type::Int),
        ("start_date".to_owned(), Type::Timestamptz),
        text("team"),
        text("role"),
        text("_kafka_topic"),
        ("_kafka_partition".to_owned(), Type::Int),
        ("_kafka_offset".to_owned(), Type::Long),
        ("_kafka_timestamp".to_owned(), Type::Timestamptz),
        ("_ingested_at".to_owned(), Type::Timestamptz),
    ]
    .into_iter()
    .map(|(name, data_type)| Column { name, data_type, required: false, doc: None })
    .collect();
    let schema = Arc::new(iceberg_schema(&columns).unwrap());
    let field = |column: &str, transform| PartitionField { column: column.to_owned(), transform };
    let spec = [field("employee_id", Transform::Bucket(8)), field("start_date", Transform::Hour)];
    let spec = Arc::new(partition::spec(&schema, &spec).unwrap());
    let ids = SeededIds::new(7);
    let arrow = arrow_schema(&schema, Strings::Views).unwrap();
    let batches: Vec<RecordBatch> =
        (0..rows.div_ceil(BATCH_ROWS)).map(|n| batch(n, varied, &ids, Arc::clone(&arrow))).collect();

    let filters = arguments.get(3).is_some_and(|word| word == "filters");
    let keys = if filters { vec!["employee_id".to_owned(), "name".to_owned()] } else { Vec::new() };
    let by_start = SortField { column: "start_date".to_owned(), descending: true, nulls_first: false };
    for (label, order) in [
        ("arrival order", SortOrder::unsorted_order()),
        ("start_date desc", sort::order(&schema, &[by_start]).unwrap()),
    ] {
        let target = Arc::new(
            Target::with_parts(
                Arc::clone(&schema),
                Arc::clone(&spec),
                Arc::new(order),
                &std::collections::HashMap::new(),
                "memory://bench/table",
                &keys,
                FileIO::new_with_memory(),
                Arc::new(SeededIds::new(8)),
            )
            .unwrap(),
        );
        for _ in 0..3 {
            let start = seconds();
            let files = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
                let mut writer = PartitionedWriter::new(Arc::clone(&target), 8 << 30).unwrap();
                for batch in &batches {
                    writer.write(batch.clone()).await.unwrap();
                }
                writer.finish().await.unwrap()
            });
            let spent = seconds() - start;
            let bytes: u64 = files.iter().map(iceberg::spec::DataFile::file_size_in_bytes).sum();
            println!(
                "{label}: {rows} rows, {} files, {:.1} bytes a row, {:.3} µs a row, {:.2} M rows/s",
                files.len(),
                bytes as f64 / rows as f64,
                spent * 1e6 / rows as f64,
                rows as f64 / spent / 1e6,
            );
        }
        if arguments.get(3).is_some_and(|word| word == "stages") {
            stages(&target, &batches, rows);
        }
    }
}

/// Processor time of this thread, which neighbours on a busy machine do not stretch.
fn seconds() -> f64 {
    let nanos = std::fs::read_to_string("/proc/thread-self/schedstat");
    let nanos = nanos.ok().and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanos.map_or_else(|| CLOCK.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

static CLOCK: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);

fn stages(target: &Target, batches: &[RecordBatch], rows: usize) {
    let timed = |label: &str, work: &mut dyn FnMut()| {
        let start = seconds();
        work();
        println!("  {label}: {:.1} ns a row", (seconds() - start) * 1e9 / rows as f64);
    };
    let mut partitioner = Partitioner::new(target.spec(), target.schema()).unwrap();
    timed("partition", &mut || {
        for batch in batches {
            std::hint::black_box(partitioner.assign(batch).unwrap());
        }
    });
    let mut collector = table::metrics::Collector::new(
        target.schema(),
        &table::metrics::Modes::all(table::metrics::Mode::Truncate(16)),
    );
    timed("metrics", &mut || {
        for batch in batches {
            collector.update(batch).unwrap();
        }
    });
    for column in 0..target.arrow_schema().fields().len() {
        let picked: Vec<RecordBatch> = batches.iter().map(|batch| batch.project(&[column]).unwrap()).collect();
        let name = target.arrow_schema().field(column).name().clone();
        timed(&format!("encode {name}"), &mut || {
            let level = parquet::basic::ZstdLevel::try_new(3).unwrap();
            let properties = parquet::file::properties::WriterProperties::builder()
                .set_compression(parquet::basic::Compression::ZSTD(level))
                .build();
            let schema = picked[0].schema();
            let mut encoder = parquet::arrow::ArrowWriter::try_new(Vec::new(), schema, Some(properties)).unwrap();
            for batch in &picked {
                encoder.write(batch).unwrap();
            }
            encoder.close().unwrap();
        });
    }
}

fn batch(n: usize, varied: bool, ids: &dyn Ids, schema: arrow::datatypes::SchemaRef) -> RecordBatch {
    let now = 494_000 * HOUR;
    let rows = 0..BATCH_ROWS as i64;
    let first = (n * BATCH_ROWS) as i64;
    let random: Vec<i64> = rows.clone().map(|_| (ids.next_u64() >> 1) as i64).collect();
    // As a staged object's reader gives them: views of the values of a dictionary page.
    let strings = |text: &dyn Fn(i64) -> String| -> ArrayRef {
        let dictionary: DictionaryArray<Int32Type> =
            random.iter().map(|r| text(*r)).collect::<Vec<_>>().iter().map(|text| Some(text.as_str())).collect();
        arrow::compute::cast(&dictionary, &DataType::Utf8View).unwrap()
    };
    let times = |time: &dyn Fn(i64, i64) -> i64| -> ArrayRef {
        let times = rows.clone().zip(&random).map(|(row, r)| time(first + row, *r));
        Arc::new(TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC"))
    };
    let millis = |micros: i64| micros / 1000 * 1000;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(random.iter().map(|r| r % 100_000))),
        strings(&|r| if varied { format!("Employee {r:x}") } else { format!("Dummy{}", r % 100) }),
        strings(&|r| {
            if varied {
                format!("{} Long Street, Town {}", r % 9_999, r % 100_003)
            } else {
                "Melbourne, Australia".to_owned()
            }
        }),
        Arc::new(Int32Array::from_iter_values(random.iter().map(|r| (r >> 8) as i32 % 99))),
        times(&|row, r| {
            let late = if varied {
                r % 24 * HOUR
            } else if r % 1000 == 0 {
                HOUR
            } else {
                0
            };
            millis(now + row * 2 - late)
        }),
        strings(&|_| "Solutions Architects".to_owned()),
        strings(&|r| if varied { format!("ROLE{}", r % 7) } else { "ARCHITECT".to_owned() }),
        strings(&|_| "protobuf-demo-topic-pure".to_owned()),
        Arc::new(Int32Array::from(vec![(n % 6) as i32; BATCH_ROWS])),
        Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| first / 6 + row))),
        times(&|row, _| millis(now + row * 2 + 40_000)),
        times(&|row, _| now + row / 100_000 * 60_000_000),
    ];
    RecordBatch::try_new(schema, columns).unwrap()
}

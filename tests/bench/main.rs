//! The speed of ingest and of a fold's append, on Employee records, beside floors measured in the same run: what the parts
//! that can't be avoided cost alone. One JSON document on stdout. Figures depend on the machine; ratios within one run
//! are what to compare.
//!
//! `throughput [--events N] [--rounds N] [--hours N] [--memory BYTES]` measures. `throughput --handle EVENT` handles one event,
//! and `throughput --fold FOLDER --memory BYTES --now MICROS --seed N` folds what is staged there, each in a process of its own,
//! and prints the most memory it held. `throughput --upsert MILLIONS,…` measures folds in mode `upsert` alone, into tables of so many
//! million rows. With `--beside COMMAND` the command is run by the shell before these folds, with the folder of the table made as its last
//! argument, and what it prints (a JSON document) is told beside them; it leaves the table as it is.
//!
//! Files are put in the folder that `TMPDIR` names, else in memory (`/dev/shm`) where there is such a place: how fast a disk
//! is says nothing of the programs.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time and reads its arguments")]
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a failure of a benchmark is its end")]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use codec::columns::Columns;
use frazil::generator::{Generator, Options};
use ingest::event::Reader;
use ingest::{Ingest, IngestConfig};
use model::clock::{Clock, SystemClock};
use model::id::PipelineId;
use pipeline::environment::Environment;
use pipeline::resolved::Pipeline;
use serde_json::{Value, json};
use staging::local::LocalStore;
use staging::object::{self, Object, Projection, TableRows};

mod by_hand;
mod dedup;
mod folding;
mod framed;
mod upsert;
mod wide;

/// The most that an event holds; those of the generator hold three fifths of it and more.
const RECORDS_PER_EVENT: usize = 10_000;

fn main() {
    // That of the programs measured.
    allocator::give_back_soon();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| arguments.iter().skip_while(|a| *a != name).nth(1).cloned();
    if let Some(event) = value("--handle") {
        println!("{}", handle_alone(Path::new(&event)));
        return;
    }
    let number = |name: &str, default: usize| value(name).map_or(default, |text| text.parse().unwrap());
    let memory_bytes = number("--memory", 512 * 1024 * 1024) as u64;
    if let Some(folder) = value("--fold") {
        let now = number("--now", 0) as i64;
        println!("{}", folding::here(folder.into(), memory_bytes, now, number("--seed", 1) as u64));
        return;
    }
    if let Some(sizes) = value("--upsert") {
        let sizes: Vec<i64> = sizes.split(',').map(|millions| millions.parse().unwrap()).collect();
        println!("{:#}", upsert::measure(&sizes, memory_bytes, value("--beside").as_deref()));
        return;
    }
    let (events, rounds) = (number("--events", 100), number("--rounds", 5));
    // Millions of rows in the larger of the two tables that are deduplicated against.
    let hours = number("--hours", 20) as i64;
    println!("{:#}", measure(events, rounds, hours, memory_bytes));
}

/// The pipeline of the demo, in a folder of its own.
struct Bench {
    folder: PathBuf,
    /// Removes the folder in the end, where this process made it.
    _made: Option<tempfile::TempDir>,
    pipeline: Pipeline,
    id: PipelineId,
    clock: Arc<dyn Clock>,
}

impl Bench {
    fn new() -> Self {
        Self::with(&|text| text, Arc::new(SystemClock))
    }

    /// The same in mode `dedup`, as the demo has it.
    fn deduplicating(clock: Arc<dyn Clock>) -> Self {
        let dedup = "mode = \"dedup\"\nprimary_key = [\"employee_id\"]\n\
                     dedup_within = { column = \"start_date\", lookback = \"1h\" }";
        let changed = |text: String| text.replace("mode = \"append\"", dedup);
        Self::with(&changed, clock)
    }

    /// The same in mode `upsert`, bucketed by key.
    fn upserting(write: &str, clock: Arc<dyn Clock>) -> Self {
        let upsert = format!("mode = \"upsert\"\nprimary_key = [\"employee_id\"]\nwrite = \"{write}\"");
        let by = "partition_by = [\"bucket(8, employee_id)\", \"hour(start_date)\", \"team\"]";
        let changed = |text: String| {
            let text = text.replace("mode = \"append\"", &upsert);
            let sized = "partition_by = [\"bucket(8, employee_id)\"]";
            format!(
                "{}\n[table.properties]\n\"write.target-file-size-bytes\" = \"268435456\"\n",
                text.replace(by, sized)
            )
        };
        Self::with(&changed, clock)
    }

    fn with(change: &dyn Fn(String) -> String, clock: Arc<dyn Clock>) -> Self {
        let made = tempfile::Builder::new().prefix("frazil-bench-").tempdir_in(place()).unwrap();
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let place = |from: &str, to: &str, change: &dyn Fn(String) -> String| {
            let to = made.path().join(to);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::write(to, change(std::fs::read_to_string(Path::new(root).join(from)).unwrap())).unwrap();
        };
        place("jobs/frazil/demo/employee.toml", "pipelines/employee.toml", change);
        place("proto/employee.proto", "proto/employee.proto", &|text| text);
        let bench = Self::open(made.path().to_owned(), clock);
        Self { _made: Some(made), ..bench }
    }

    /// One that another process made.
    fn open(folder: PathBuf, clock: Arc<dyn Clock>) -> Self {
        let environment = Environment::embedded(&folder);
        let pipeline = pipeline::file::load(&folder.join("pipelines/employee.toml"), &environment).unwrap();
        Self { folder, _made: None, pipeline, id: "employee-00000001".parse().unwrap(), clock }
    }

    fn store(&self) -> Arc<LocalStore> {
        Arc::new(LocalStore::open(&self.folder, Arc::clone(&self.clock)).unwrap())
    }

    fn config(&self) -> IngestConfig {
        IngestConfig::load(self.pipeline.clone(), self.id.clone(), self.store(), Arc::clone(&self.clock)).unwrap()
    }
}

/// The median time of `rounds` passes over all inputs, in milliseconds per 10,000 of their records.
fn time<T>(rounds: usize, records: usize, inputs: &[T], mut work: impl FnMut(&T)) -> f64 {
    inputs.iter().for_each(&mut work);
    let mut passes: Vec<Duration> = (0..rounds.max(1))
        .map(|_| {
            let start = Instant::now();
            inputs.iter().for_each(&mut work);
            start.elapsed()
        })
        .collect();
    passes.sort_unstable();
    passes[passes.len() / 2].as_secs_f64() * 1000.0 * 10_000.0 / records as f64
}

fn measure(events: usize, rounds: usize, hours: i64, memory_bytes: u64) -> Value {
    let bench = Bench::new();
    let records = (events * RECORDS_PER_EVENT) as u64 * 5 / 4;
    let mut generator = Generator::new(Options { records, bad: 0.0, seed: 1, dedup: false });
    let deliveries = std::iter::from_fn(|| generator.next_delivery()).filter(|delivery| !delivery.again);
    let bodies: Vec<Vec<u8>> = deliveries.take(events).map(|delivery| delivery.body).collect();
    let few = &bodies[..bodies.len().min(10)];

    let mut reader = Reader::new();
    let payloads: Vec<Vec<Vec<u8>>> = few
        .iter()
        .map(|body| reader.read(body).unwrap().records().map(|r| r.value().unwrap().to_vec()).collect())
        .collect();
    let records: usize = payloads.iter().map(Vec::len).sum();
    let encoded: Vec<Vec<String>> = payloads
        .iter()
        .map(|values| values.iter().map(|v| base64_simd::STANDARD.encode_to_string(v)).collect())
        .collect();

    let mut arena: Vec<u8> = Vec::new();
    let base64 = time(rounds, records, &encoded, |texts| {
        arena.clear();
        for text in texts {
            base64_simd::STANDARD.decode_append(text.as_bytes(), &mut arena).unwrap();
        }
        black_box(&arena);
    });
    let read = time(rounds, records, few, |body| {
        black_box(reader.read(body).unwrap().len());
    });
    let mut rows = by_hand::Rows::default();
    let by_hand = time(rounds, records, &payloads, |values| {
        rows.clear();
        values.iter().for_each(|value| rows.decode(value).unwrap());
        black_box(&rows);
    });
    let config = bench.config();
    let columns: Columns = config.columns.columns.clone();
    let mut decoder = config.own.schema.decoder(&columns, None).unwrap();
    let decode = time(rounds, records, &payloads, |values| {
        for value in values {
            if let Err(rejected) = decoder.decode(value) {
                panic!("{rejected:?}");
            }
        }
        black_box(decoder.finish().unwrap());
    });
    let many: Vec<Vec<u8>> = payloads.concat().into_iter().cycle().take(10_000).collect();
    let framed_to_arrow = framed::to_arrow(&many, &mut decoder);
    let ingest = Ingest::new(config).unwrap();
    let minute = bench.clock.now().minute();
    let staged: Vec<(staging::footer::Footer, Vec<TableRows>)> =
        few.iter().map(|body| staged_of(&bench, &ingest, body)).collect();
    let encode = time(rounds, records, &staged, |(footer, rows)| {
        black_box(object::encode(footer, rows).unwrap());
    });
    let whole = time(rounds, records, few, |body| {
        black_box(ingest.plan(body, minute).unwrap());
    });

    let mut peaks: Vec<Value> = Vec::new();
    let largest = large_event();
    for (name, body) in [("Employee records", &bodies[0]), ("6 MB", &largest)] {
        let path = bench.folder.join("event.json");
        std::fs::write(&path, body).unwrap();
        let child =
            std::process::Command::new(std::env::current_exe().unwrap()).arg("--handle").arg(&path).output().unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
        let mut peak: Value = serde_json::from_slice(&child.stdout).unwrap();
        peak["event"] = name.into();
        peaks.push(peak);
    }

    let per_second = |ms_per_10k: f64| (10_000.0 / ms_per_10k * 1000.0).round();
    let bytes: usize = few.iter().map(Vec::len).sum();
    json!({
        "schema": "frazil.bench.throughput/1",
        "records": records,
        "event_bytes_per_record": bytes as f64 / records as f64,
        "ingest": {
            "milliseconds_per_10000": {
                "event_to_object": whole,
                "event_read_with_base64": read,
                "protobuf_to_arrow": decode,
                "arrow_to_parquet": encode,
            },
            "floors_milliseconds_per_10000": {
                "json_scan": read - base64,
                "base64": base64,
                "protobuf_by_hand": by_hand,
                "parquet": encode,
            },
            "records_per_second_per_core": per_second(whole),
            "target_records_per_second_per_core": 2_000_000,
            "peak": peaks,
            "target_peak_bytes": 96 * 1024 * 1024,
        },
        "framed": { "to_arrow": framed_to_arrow, "event_to_object": framed::measure(&bodies[0]) },
        "files": files(),
        "fold_wide": wide::fold(),
        "fold_append": fold_append(&bodies, rounds, memory_bytes),
        "fold_dedup": dedup::measure(&staged[0].0, &staged[0].1[0], [hours / 4, hours], memory_bytes),
    })
}

/// What an event is staged as: the footer, and the rows as ingest hands them over, without the column that encoding adds.
fn staged_of(bench: &Bench, ingest: &Ingest, body: &[u8]) -> (staging::footer::Footer, Vec<TableRows>) {
    let minute = bench.clock.now().minute();
    let object = Object::open(ingest.plan(body, minute).unwrap().object.body).unwrap();
    let table = bench.pipeline.table.name.to_string();
    let rows = object.rows(&table, &Projection::default()).unwrap().map(|batch| {
        let batch = batch.unwrap();
        let kept: Vec<usize> =
            (0..batch.num_columns()).filter(|n| batch.schema().field(*n).name() != "_table").collect();
        TableRows { table: table.clone(), batch: batch.project(&kept).unwrap() }
    });
    (object.footer().clone(), rows.collect())
}

/// An event of nearly 6 MB: Employee records until the next would not fit.
fn large_event() -> Vec<u8> {
    let mut generator = Generator::new(Options { records: 200_000, bad: 0.0, seed: 2, dedup: false });
    let mut bodies = std::iter::from_fn(|| generator.next_delivery());
    let first = bodies.next().unwrap().body;
    // Values of an event are few and small; headers make it large, as headers do.
    let text = String::from_utf8(first).unwrap();
    let room = 6 * 1024 * 1024 - text.len();
    let records = text.matches("\"headers\":[]").count().max(1);
    let each = room / records;
    let header = format!("\"headers\":[{{\"h\":[{}1]}}]", "1,".repeat(each.saturating_sub(16) / 2));
    text.replace("\"headers\":[]", &header).into_bytes()
}

fn handle_alone(path: &Path) -> Value {
    let bench = Bench::new();
    let before = peak();
    let body = std::fs::read(path).unwrap();
    let ingest = Ingest::new(bench.config()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let outcome = runtime.block_on(ingest.handle(&body, None)).unwrap();
    json!({ "bytes": body.len(), "records": outcome.records, "peak_rss_bytes": peak(), "peak_before_bytes": before })
}

/// The most memory the process ever held, in bytes: `VmHWM` of Linux's `/proc/self/status`.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Time on cores over all threads, in seconds.
#[derive(Clone, Copy, Debug)]
struct Cores {
    user: f64,
    system: f64,
}

impl Cores {
    /// Of this process so far, from Linux's `/proc/self/stat`, in hundredths of a second.
    fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let after_name = stat.rsplit(')').next().unwrap();
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let seconds = |field: usize| fields[field].parse::<u64>().unwrap() as f64 / 100.0;
        Self { user: seconds(11), system: seconds(12) }
    }

    fn since(self, before: Self) -> Self {
        Self { user: self.user - before.user, system: self.system - before.system }
    }

    fn all(self) -> f64 {
        self.user + self.system
    }
}

/// The folder that benchmarks make theirs in.
fn place() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    match std::env::var_os("TMPDIR") {
        Some(folder) if !folder.is_empty() => folder.into(),
        _ if memory.is_dir() => memory,
        _ => std::env::temp_dir(),
    }
}

/// Where files are, and on what kind of file system, from Linux's `/proc/mounts`.
fn files() -> Value {
    let place = place();
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let real = std::fs::canonicalize(&place).unwrap();
    let here = mounts.filter(|(folder, _)| real.starts_with(folder)).max_by_key(|(folder, _)| folder.len());
    json!({ "folder": place, "file_system": here.map(|(_, kind)| kind) })
}

fn fold_append(bodies: &[Vec<u8>], rounds: usize, memory_bytes: u64) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let runs: Vec<folding::Taken> = (0..rounds.clamp(1, 3))
        .map(|_| {
            let bench = Bench::new();
            let ingest = Ingest::new(bench.config()).unwrap();
            runtime.block_on(async {
                for body in bodies {
                    ingest.handle(body, None).await.unwrap();
                }
            });
            let order = folding::Order { folder: &bench.folder, memory_bytes, now: bench.clock.now(), seed: 1 };
            order.carry_out()
        })
        .collect();
    let figure = |of: fn(&folding::Taken) -> f64| folding::spread(runs.iter().map(of));
    json!({
        "rows": runs[0].rows_added,
        "data_files": runs[0].data_files,
        "runs": runs[0].runs,
        "seconds": figure(|taken| taken.seconds),
        "core_seconds": figure(|taken| taken.cores.all()),
        "user_core_seconds": figure(|taken| taken.cores.user),
        "system_core_seconds": figure(|taken| taken.cores.system),
        "rows_per_second_per_core": figure(|taken| taken.rows_per_second_per_core().round()),
        "target_rows_per_second_per_core": 1_500_000,
        "memory_bytes": memory_bytes,
        "peak_rss_bytes": figure(|taken| taken.peak_rss_bytes as f64),
        "target_peak_rss_bytes": memory_bytes,
    })
}

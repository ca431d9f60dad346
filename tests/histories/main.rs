//! Random histories of one topic, through the real ingest and fold into tables on this disk, in every mode; beside them what a
//! dictionary says that the tables hold. Other people's readers are held against that (`tests/interop/check_histories.py`).
//!
//! `histories [--seeds N] [--from S] [--dir DIR]` writes one table a seed and mode under `DIR`, as `frazil --dir` would, and
//! `DIR/histories.jsonl`, a line for each: `{"table", "mode", "seed", "rows"}`, rows in the order of `COLUMNS`. Whatever is written is
//! read here first. Without `--dir` the folder is a temporary one.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a failure is its end")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType};
use base64_simd::STANDARD;
use fold::{Fold, Settings};
use futures::TryStreamExt;
use ingest::{Ingest, IngestConfig};
use model::clock::{ManualClock, Timestamp};
use model::id::{Ids, PipelineId, SeededIds};
use pipeline::environment::Environment;
use pipeline::resolved::Pipeline;
use serde_json::{Value, json};
use staging::local::LocalStore;
use table::catalog::Catalog;
use table::catalog::sqlite::SqliteCatalog;
use table::scan::{self, Request};
use table::storage;

mod cases;

/// Histories of each mode when nothing is asked for: what the suite runs.
const SEEDS_DEFAULT: u64 = 12;
/// 2026-11-29T14:00:00Z
const START: Timestamp = Timestamp::from_micros(1_795_960_800_000_000);
/// The columns of every table, and of the rows in the file.
const COLUMNS: [&str; 6] = ["id", "version", "at", "name", "_kafka_partition", "_kafka_offset"];
/// Those that tables have besides whose deletes are soft.
const MARKS: [&str; 2] = ["_is_deleted", "_deleted_at"];

/// A mode, with what the pipeline file says of it.
#[derive(Clone, Copy)]
struct Mode {
    name: &'static str,
    settings: &'static str,
    /// What deletes do. Where there are several, one after the other, from fold to fold; the last of them to the end.
    deletes: &'static [&'static str],
    shape: Shape,
}

/// What a history is like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Of few keys, in partitions.
    Plain,
    /// Of many keys in files that many folds take a few rows from.
    ManyFolds,
}

const HARD: &[&str] = &["hard"];
const SOFT: &[&str] = &["soft"];
const UPSERT: &str = "mode = \"upsert\"\nprimary_key = [\"id\"]";
const MERGE_ON_READ: &str =
    "mode = \"upsert\"\nprimary_key = [\"id\"]\norder_by = [\"version\"]\nwrite = \"merge-on-read\"";
const COPY_ON_WRITE: &str =
    "mode = \"upsert\"\nprimary_key = [\"id\"]\norder_by = [\"version\"]\nwrite = \"copy-on-write\"";

const MODES: [Mode; 12] = [
    Mode { name: "append", settings: "mode = \"append\"", deletes: &[], shape: Shape::Plain },
    Mode { name: "dedup", settings: "mode = \"dedup\"\nprimary_key = [\"id\"]", deletes: &[], shape: Shape::Plain },
    Mode { name: "upsert_mor", settings: MERGE_ON_READ, deletes: HARD, shape: Shape::Plain },
    Mode { name: "upsert_cow", settings: COPY_ON_WRITE, deletes: HARD, shape: Shape::Plain },
    Mode { name: "upsert_auto", settings: UPSERT, deletes: HARD, shape: Shape::Plain },
    Mode { name: "upsert_soft_mor", settings: MERGE_ON_READ, deletes: SOFT, shape: Shape::Plain },
    Mode { name: "upsert_soft_cow", settings: COPY_ON_WRITE, deletes: SOFT, shape: Shape::Plain },
    Mode { name: "upsert_soft_auto", settings: UPSERT, deletes: SOFT, shape: Shape::Plain },
    Mode { name: "upsert_ignore", settings: MERGE_ON_READ, deletes: &["ignore"], shape: Shape::Plain },
    Mode {
        name: "upsert_turned",
        settings: UPSERT,
        deletes: &["hard", "soft", "ignore", "hard", "soft"],
        shape: Shape::Plain,
    },
    Mode { name: "upsert_merged", settings: MERGE_ON_READ, deletes: HARD, shape: Shape::ManyFolds },
    Mode { name: "upsert_merged_soft", settings: MERGE_ON_READ, deletes: SOFT, shape: Shape::ManyFolds },
];

impl Mode {
    fn is_upsert(&self) -> bool {
        self.name.starts_with("upsert")
    }

    fn is_marked(&self) -> bool {
        self.deletes.contains(&"soft")
    }

    fn deletes_after(&self, folds: usize) -> &'static str {
        self.deletes.get(folds).or(self.deletes.last()).copied().unwrap_or("hard")
    }

    fn columns(&self) -> Vec<&'static str> {
        COLUMNS.into_iter().chain(MARKS.into_iter().filter(|_| self.is_marked())).collect()
    }
}

/// One record. A record without a name deletes.
#[derive(Clone, Debug)]
struct Record {
    partition: i32,
    offset: i64,
    timestamp_ms: i64,
    id: Option<i64>,
    version: Option<i64>,
    at_minutes: i64,
    name: Option<String>,
    /// What deletes do in the fold that takes it.
    deletes: &'static str,
}

/// A row as the file has it: see [`COLUMNS`] and [`MARKS`].
type Row = (Option<i64>, Option<i64>, Option<i64>, Option<String>, i32, i64, Option<bool>, Option<i64>);

impl Record {
    fn row(&self) -> Row {
        let at = START.micros() + self.at_minutes * 60_000_000;
        (self.id, self.version, Some(at), self.name.clone(), self.partition, self.offset, None, None)
    }

    /// The row of a key that this record deletes: what there was, or nothing but the key.
    fn marked(&self, there: Option<Row>) -> Row {
        let (version, at, name) = there.map_or((None, None, None), |row| (row.1, row.2, row.3));
        let deleted_at = Some(self.timestamp_ms * 1000);
        (self.id, version, at, name, self.partition, self.offset, Some(true), deleted_at)
    }

    fn event(&self) -> Value {
        let key = self.id.map(|id| STANDARD.encode_to_string(json!({ "id": id }).to_string()));
        let at = Timestamp::from_micros(START.micros() + self.at_minutes * 60_000_000).to_string();
        let value = self.name.as_ref().map(|name| {
            let value = json!({ "id": self.id, "version": self.version, "at": at, "name": name });
            STANDARD.encode_to_string(value.to_string())
        });
        json!({ "topic": "orders", "partition": self.partition, "offset": self.offset, "timestamp": self.timestamp_ms,
                "timestampType": "CREATE_TIME", "key": key, "value": value, "headers": [] })
    }
}

/// What a dictionary holds after these records, which are in the order in which they came.
fn dictionary(mode: Mode, records: &[Record]) -> Vec<Row> {
    let mut table: BTreeMap<Option<i64>, Row> = BTreeMap::new();
    let is_ordered = mode.settings.contains("order_by");
    let live = |record: &Record| {
        let mut row = record.row();
        row.6 = mode.is_marked().then_some(false);
        row
    };
    for record in records {
        let there = table.get(&record.id);
        match mode.name {
            "append" => return records.iter().filter(|record| record.name.is_some()).map(Record::row).collect(),
            "dedup" if record.name.is_none() || there.is_some() => {}
            "dedup" => drop(table.insert(record.id, record.row())),
            _ if record.name.is_none() => match record.deletes {
                "hard" => drop(table.remove(&record.id)),
                "soft" => drop(table.insert(record.id, record.marked(there.cloned()))),
                _ => {}
            },
            _ if is_ordered && there.is_some_and(|there| there.6 != Some(true) && record.version < there.1) => {}
            _ => drop(table.insert(record.id, live(record))),
        }
    }
    table.into_values().collect()
}

struct World {
    folder: PathBuf,
    clock: Arc<ManualClock>,
    ids: Arc<SeededIds>,
    store: Arc<LocalStore>,
    catalog: Arc<SqliteCatalog>,
}

impl World {
    async fn new(folder: &Path) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let ids = Arc::new(SeededIds::new(1));
        std::fs::create_dir_all(folder.join("pipelines")).unwrap();
        let store = Arc::new(LocalStore::open(folder, clock.clone()).unwrap());
        let warehouse = storage::location_of(&folder.join("warehouse")).unwrap();
        let catalog = folder.join("catalog.db");
        let catalog =
            SqliteCatalog::open(&catalog, &warehouse, storage::local(), clock.clone(), ids.clone()).await.unwrap();
        Self { folder: folder.to_owned(), clock, ids, store, catalog: Arc::new(catalog) }
    }

    fn pipeline(&self, mode: Mode, seed: u64, folds: usize) -> Pipeline {
        let key = if mode.is_upsert() { "[key]\nformat = \"json\"\nframing = \"bare\"\n" } else { "" };
        let id = if key.is_empty() { "{ type = \"long\" }" } else { "{ from = \"@key.id\", type = \"long\" }" };
        let name = format!("h_{}_{seed}", mode.name);
        let by = match mode.shape {
            Shape::Plain => "partition_by = [\"day(at)\", \"bucket(3, id)\"]",
            Shape::ManyFolds => "",
        };
        let deletes = match mode.is_upsert() {
            true => format!("deletes = \"{}\"\n", mode.deletes_after(folds)),
            false => String::new(),
        };
        let text = format!(
            "[source]\ntopics = [\"orders\"]\nname = \"cluster\"\n{key}[value]\nformat = \"json\"\nframing = \"bare\"\n\
             [table]\nname = \"db.{name}\"\n{}\n{deletes}{by}\n\
             [table.columns]\nid = {id}\nversion = {{ type = \"long\" }}\nat = {{ type = \"timestamptz\" }}\n\
             name = {{ type = \"string\" }}\n",
            mode.settings
        );
        self.pipeline_of(&name, &text)
    }

    fn pipeline_of(&self, name: &str, text: &str) -> Pipeline {
        let file = self.folder.join(format!("pipelines/{name}.toml"));
        std::fs::write(&file, text).unwrap();
        pipeline::file::load(&file, &Environment::embedded(&self.folder)).unwrap()
    }

    fn id(&self, name: &str) -> PipelineId {
        PipelineId::new(name, self.ids.as_ref())
    }

    fn ingest(&self, pipeline: &Pipeline, id: &PipelineId) -> Ingest {
        let (store, clock) = (self.store.clone(), self.clock.clone());
        Ingest::new(IngestConfig::load(pipeline.clone(), id.clone(), store, clock).unwrap()).unwrap()
    }

    fn fold(&self, pipeline: &Pipeline, id: &PipelineId) -> Fold {
        Fold {
            pipeline: Arc::new(pipeline.clone()),
            id: id.clone(),
            store: self.store.clone(),
            catalog: self.catalog.clone(),
            io: storage::local(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            settings: Settings::default(),
        }
    }

    /// Lives through a history; gives its records.
    async fn live(&self, mode: Mode, seed: u64) -> (Pipeline, Vec<Record>) {
        let mut pipeline = self.pipeline(mode, seed, 0);
        let id = self.id(&pipeline.name);
        let number = MODES.iter().position(|other| other.name == mode.name).unwrap();
        let chance = SeededIds::new(seed * MODES.len() as u64 + number as u64);
        let below = |n: u64| i64::try_from(chance.next_u64() % n).unwrap();
        let mut records: Vec<Record> = Vec::new();
        let (mut next, mut rounds) = ([0_i64; 2], 3 + below(5));
        let mut folds = 0;
        // Long enough for everything that deletes are to do.
        rounds += i64::try_from(mode.deletes.len().saturating_sub(1)).unwrap() * 2;
        rounds += if mode.shape == Shape::ManyFolds { 10 } else { 0 };
        while rounds > 0 {
            rounds -= 1;
            let (ingest, fold) = (self.ingest(&pipeline, &id), self.fold(&pipeline, &id));
            let from = records.len();
            let (keys, many) = match mode.shape {
                Shape::Plain => (15, 1 + below(40)),
                Shape::ManyFolds if from == 0 => (300, 400),
                Shape::ManyFolds => (300, 1 + below(12)),
            };
            for _ in 0..many {
                // A key has one partition; null is the key of records without one.
                let id = below(keys) - 1;
                let partition = usize::try_from(id.rem_euclid(2)).unwrap();
                let offset = next[partition];
                // Now and then an offset is a marker of a transaction.
                next[partition] += 1 + i64::from(below(12) == 0);
                let deletes = mode.is_upsert() && id >= 0 && below(5) == 0;
                records.push(Record {
                    partition: i32::try_from(partition).unwrap(),
                    offset,
                    timestamp_ms: START.millis() + records.len() as i64,
                    id: (id >= 0).then_some(id),
                    version: (below(6) > 0).then(|| below(20)),
                    at_minutes: below(3 * 1440) - 1440,
                    name: (!deletes).then(|| format!("n{}", below(1000))),
                    deletes: mode.deletes_after(folds),
                });
            }
            // What came before may come again, and everything may be cut anywhere.
            let mut start = from.saturating_sub(usize::try_from(below(6)).unwrap());
            while start < records.len() {
                let end = (start + 1 + usize::try_from(below(25)).unwrap()).min(records.len());
                let part = &records[start..end];
                let of = |partition: i32| part.iter().filter(move |r| r.partition == partition).map(Record::event);
                let event = json!({ "eventSource": "SelfManagedKafka", "bootstrapServers": "localhost:9092", "records": {
                    "orders-0": of(0).collect::<Vec<_>>(), "orders-1": of(1).collect::<Vec<_>>() } });
                let outcome = ingest.handle(event.to_string().as_bytes(), None).await.unwrap();
                assert_eq!(outcome.dead_letters, 0, "{mode} {seed}", mode = mode.name);
                start = end;
            }
            if below(3) > 0 || rounds == 0 {
                fold.run().await.unwrap();
                folds += 1;
                pipeline = self.pipeline(mode, seed, folds);
            }
            self.clock.advance_micros(60_000_000);
        }
        (pipeline, records)
    }

    async fn batches(&self, pipeline: &Pipeline) -> Vec<RecordBatch> {
        let Some(loaded) = self.catalog.load(&pipeline.table.name).await.unwrap() else { return Vec::new() };
        let io = storage::local();
        let plan = scan::plan(&loaded.metadata, &io, &Request::default()).await.unwrap();
        plan.execute(io).try_collect().await.unwrap()
    }

    async fn rows(&self, pipeline: &Pipeline, mode: Mode) -> Vec<Row> {
        let mut rows = Vec::new();
        for batch in &self.batches(pipeline).await {
            let long = |name: &str| batch[name].as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
            let (ids, versions, offsets) = (long("id"), long("version"), long("_kafka_offset"));
            let at = batch["at"].as_primitive::<TimestampMicrosecondType>();
            let partitions = batch["_kafka_partition"].as_primitive::<Int32Type>();
            let names = batch["name"].as_string::<i32>();
            for row in 0..batch.num_rows() {
                let name = names.is_valid(row).then(|| names.value(row).to_owned());
                let at = at.is_valid(row).then(|| at.value(row));
                let (mut is_deleted, mut deleted_at) = (None, None);
                if mode.is_marked() {
                    let (marks, times) =
                        (batch[MARKS[0]].as_boolean(), batch[MARKS[1]].as_primitive::<TimestampMicrosecondType>());
                    is_deleted = marks.is_valid(row).then(|| marks.value(row));
                    deleted_at = times.is_valid(row).then(|| times.value(row));
                }
                let (partition, offset) = (partitions.value(row), offsets[row].unwrap());
                rows.push((ids[row], versions[row], at, name, partition, offset, is_deleted, deleted_at));
            }
        }
        rows.sort_unstable();
        rows
    }
}

/// The first cells of a row.
fn cells(row: &Row, columns: usize) -> Vec<Value> {
    let Value::Array(mut cells) = json!(row) else { return Vec::new() };
    cells.truncate(columns);
    cells
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // A filter that asks for other tests.
    if arguments.iter().any(|argument| !argument.starts_with('-') && arguments.len() == 1) {
        return ExitCode::SUCCESS;
    }
    let value = |name: &str| arguments.iter().skip_while(|a| *a != name).nth(1).cloned();
    let number = |name: &str, default: u64| value(name).map_or(default, |text| text.parse().unwrap());
    let (seeds, from) = (number("--seeds", SEEDS_DEFAULT), number("--from", 1));
    let temporary = tempfile::tempdir().unwrap();
    let folder = value("--dir").map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut wrong = 0;
    runtime.block_on(async {
        let world = World::new(&folder).await;
        for case in cases::all(&world).await {
            wrong += 1;
            println!("{case}");
        }
        let mut file = std::fs::File::create(folder.join("histories.jsonl")).unwrap();
        for seed in from..from + seeds {
            for mode in MODES {
                let (pipeline, records) = world.live(mode, seed).await;
                let mut wanted = dictionary(mode, &records);
                wanted.sort_unstable();
                if world.rows(&pipeline, mode).await != wanted {
                    wrong += 1;
                    println!("{} of seed {seed}: the table does not hold what the dictionary does", mode.name);
                }
                let table = pipeline.table.name.to_string();
                let columns = mode.columns();
                let rows: Vec<Vec<Value>> = wanted.iter().map(|row| cells(row, columns.len())).collect();
                let line = json!({ "table": table, "mode": mode.name, "seed": seed, "columns": columns, "rows": rows });
                writeln!(file, "{line}").unwrap();
            }
        }
    });
    println!("{} histories from {from} in {} modes, {wrong} wrong", seeds * MODES.len() as u64, MODES.len());
    if wrong > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

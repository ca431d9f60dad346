//! Random histories of one topic, through the real ingest and fold into tables on this disk, in every mode; beside them what a
//! dictionary says that the tables hold. Other people's readers are held against that (`tests/interop/check_histories.py`).
//!
//! `histories [--seeds N] [--from S] [--dir DIR]` writes one table a seed and mode under `DIR`, as `frazil --dir` would, and
//! `DIR/histories.jsonl`, a line for each: `{"table", "mode", "seed", "rows"}`, rows in the order of `COLUMNS`. Whatever is written is
//! read here first. Without `--dir` the folder is a temporary one.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a failure is its end")]
#![expect(clippy::large_futures, reason = "a history lives on the main thread's stack alone")]

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

/// A mode, with what the pipeline file says of it.
#[derive(Clone, Copy)]
struct Mode {
    name: &'static str,
    settings: &'static str,
}

const MODES: [Mode; 5] = [
    Mode { name: "append", settings: "mode = \"append\"" },
    Mode { name: "dedup", settings: "mode = \"dedup\"\nprimary_key = [\"id\"]" },
    Mode {
        name: "upsert_mor",
        settings: "mode = \"upsert\"\nprimary_key = [\"id\"]\norder_by = [\"version\"]\nwrite = \"merge-on-read\"",
    },
    Mode {
        name: "upsert_cow",
        settings: "mode = \"upsert\"\nprimary_key = [\"id\"]\norder_by = [\"version\"]\nwrite = \"copy-on-write\"",
    },
    Mode { name: "upsert_auto", settings: "mode = \"upsert\"\nprimary_key = [\"id\"]" },
];

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
}

/// A row as the file has it: see [`COLUMNS`].
type Row = (Option<i64>, Option<i64>, Option<i64>, Option<String>, i32, i64);

impl Record {
    fn row(&self) -> Row {
        let at = START.micros() + self.at_minutes * 60_000_000;
        (self.id, self.version, Some(at), self.name.clone(), self.partition, self.offset)
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
    let mut table: BTreeMap<Option<i64>, &Record> = BTreeMap::new();
    let is_ordered = mode.settings.contains("order_by");
    for record in records {
        let there = table.get(&record.id);
        match mode.name {
            "append" => return records.iter().filter(|record| record.name.is_some()).map(Record::row).collect(),
            "dedup" if record.name.is_none() || there.is_some() => {}
            "dedup" => drop(table.insert(record.id, record)),
            _ if record.name.is_none() => drop(table.remove(&record.id)),
            _ if is_ordered && there.is_some_and(|there| record.version < there.version) => {}
            _ => drop(table.insert(record.id, record)),
        }
    }
    table.into_values().map(Record::row).collect()
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

    fn pipeline(&self, mode: Mode, seed: u64) -> Pipeline {
        let key = if mode.name.starts_with("upsert") { "[key]\nformat = \"json\"\nframing = \"bare\"\n" } else { "" };
        let id = if key.is_empty() { "{ type = \"long\" }" } else { "{ from = \"@key.id\", type = \"long\" }" };
        let name = format!("h_{}_{seed}", mode.name);
        let text = format!(
            "[source]\ntopics = [\"orders\"]\nname = \"cluster\"\n{key}[value]\nformat = \"json\"\nframing = \"bare\"\n\
             [table]\nname = \"db.{name}\"\n{}\npartition_by = [\"day(at)\", \"bucket(3, id)\"]\n\
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
        let pipeline = self.pipeline(mode, seed);
        let id = self.id(&pipeline.name);
        let (ingest, fold) = (self.ingest(&pipeline, &id), self.fold(&pipeline, &id));
        let chance = SeededIds::new(seed * MODES.len() as u64 + mode.name.len() as u64);
        let below = |n: u64| i64::try_from(chance.next_u64() % n).unwrap();
        let mut records: Vec<Record> = Vec::new();
        let (mut next, mut rounds) = ([0_i64; 2], 3 + below(5));
        while rounds > 0 {
            rounds -= 1;
            let from = records.len();
            for _ in 0..1 + below(40) {
                // A key has one partition; null is the key of records without one.
                let id = below(15) - 1;
                let partition = usize::try_from(id.rem_euclid(2)).unwrap();
                let offset = next[partition];
                // Now and then an offset is a marker of a transaction.
                next[partition] += 1 + i64::from(below(12) == 0);
                let deletes = mode.name.starts_with("upsert") && id >= 0 && below(5) == 0;
                records.push(Record {
                    partition: i32::try_from(partition).unwrap(),
                    offset,
                    timestamp_ms: START.millis() + records.len() as i64,
                    id: (id >= 0).then_some(id),
                    version: (below(6) > 0).then(|| below(20)),
                    at_minutes: below(3 * 1440) - 1440,
                    name: (!deletes).then(|| format!("n{}", below(1000))),
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

    async fn rows(&self, pipeline: &Pipeline) -> Vec<Row> {
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
                rows.push((ids[row], versions[row], at, name, partitions.value(row), offsets[row].unwrap()));
            }
        }
        rows.sort_unstable();
        rows
    }
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
                if world.rows(&pipeline).await != wanted {
                    wrong += 1;
                    println!("{} of seed {seed}: the table does not hold what the dictionary does", mode.name);
                }
                let table = pipeline.table.name.to_string();
                let line =
                    json!({ "table": table, "mode": mode.name, "seed": seed, "columns": COLUMNS, "rows": wanted });
                writeln!(file, "{line}").unwrap();
            }
        }
    });
    println!("{} histories from {from} in {} modes, {wrong} wrong", seeds * MODES.len() as u64, MODES.len());
    if wrong > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

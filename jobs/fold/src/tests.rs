//! Folds of small staged objects, against whatever can go wrong around them. The judge is the table itself, read back
//! with a plain scan.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema};
use futures::{StreamExt, TryStreamExt};
use iceberg::io::FileIO;
use model::clock::{Clock, ManualClock, Minute, Timestamp};
use model::coordinate::{Sample, SourceId, TopicPartition};
use model::coverage::{Coverage, Filtered, PartitionCoverage};
use model::id::{Ids, PipelineId, SeededIds};
use model::interval::{Interval, Intervals};
use model::stored::Tag;
use model::verdict::Origin;
use pipeline::resolved::{
    ColumnCase, Exists, Fields, Fold as Triggers, Format, Framing, Indexes, Mode, NullKeys, PartitionField, Pipeline,
    Schema as Source, Source as Topics, Staging, Table, TableName, Transform, Types, UnknownFields, Value,
};
use staging::footer::{Column, Footer};
use staging::key::{ObjectHash, StagedKey};
use staging::object::{self, TableRows};
use staging::record_columns;
use staging::store::Store;
use table::catalog::{Catalog, Loaded};
use table::scan::{self, Request};
use table::storage;
use testkit::catalog::memory::MemoryCatalog;
use testkit::store_memory::MemoryStore;

use super::*;

mod anchors;
mod budgets;
mod crashes;
mod dead;
mod dedup;
mod epochs;
mod evolution;
mod faults;
mod former;
mod gone;
mod history;
mod join;
mod many;
mod overlap;
mod reading;
mod requests;
mod resets;
mod rewinds;
mod simulated;
mod upsert;

/// 2026-11-29T14:00:00Z
const START: Timestamp = Timestamp::from_micros(1_795_960_800_000_000);

/// A store, a catalog and a table folder, with the pipeline that folds into them.
struct World {
    _folder: tempfile::TempDir,
    store: Arc<MemoryStore>,
    catalog: Arc<dyn Catalog>,
    clock: Arc<ManualClock>,
    ids: Arc<SeededIds>,
    pipeline: Arc<Pipeline>,
    id: PipelineId,
}

impl World {
    fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(START));
        let ids = Arc::new(SeededIds::new(seed));
        let warehouse = storage::location_of(folder.path()).unwrap();
        let catalog = Arc::new(MemoryCatalog::new(&warehouse, storage::local(), clock.clone(), ids.clone()));
        let id = PipelineId::new("orders", ids.as_ref());
        let store = Arc::new(MemoryStore::new(clock.clone()).with_page_objects(3));
        Self { _folder: folder, store, catalog, clock, ids, pipeline: Arc::new(pipeline()), id }
    }

    fn fold(&self) -> Fold {
        self.fold_with(self.store.clone(), self.catalog.clone(), storage::local())
    }

    fn fold_with(&self, store: Arc<dyn Store>, catalog: Arc<dyn Catalog>, io: FileIO) -> Fold {
        Fold {
            pipeline: self.pipeline.clone(),
            id: self.id.clone(),
            store,
            catalog,
            io,
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            settings: Settings::default(),
        }
    }

    /// Stages an object: `"<partition>:<first offset>:<what>"` each, `what` per offset `r`ow, `f`iltered, `d`ead or `.`
    fn stage(&self, parts: &[&str]) -> String {
        let key = StagedKey {
            pipeline: self.id.clone(),
            minute: self.clock.now().minute(),
            hash: ObjectHash::new((u128::from(self.ids.next_u64()) << 64) | u128::from(self.ids.next_u64())),
        };
        let (footer, rows) = invocation(&self.id, key.minute, parts);
        self.store.insert(&key.to_string(), object::encode(&footer, &[rows]).unwrap());
        key.to_string()
    }

    /// Lets time pass.
    fn wait(&self, minutes: i64) {
        self.clock.advance_micros(minutes * 60_000_000);
    }

    async fn ledger(&self) -> model::ledger::Ledger {
        let loaded = self.loaded().await;
        model::ledger::Ledger::from_json(&loaded.metadata.properties()[&model::ledger::property(&self.id)]).unwrap()
    }

    async fn loaded(&self) -> Loaded {
        self.catalog.load(&self.pipeline.table.name).await.unwrap().unwrap()
    }

    /// Every row's (partition, offset), sorted, repeats and all.
    async fn rows(&self) -> Vec<(i32, i64)> {
        self.rows_of(&self.pipeline.table.name).await
    }

    async fn rows_of(&self, table: &TableName) -> Vec<(i32, i64)> {
        let Some(loaded) = self.catalog.load(table).await.unwrap() else { return Vec::new() };
        let io = storage::local();
        let plan = scan::plan(&loaded.metadata, &io, &Request::default()).await.unwrap();
        let batches: Vec<RecordBatch> = plan.execute(io).try_collect().await.unwrap();
        let mut rows = Vec::new();
        for batch in &batches {
            let partitions = batch["_kafka_partition"].as_primitive::<Int32Type>().values();
            let offsets = batch["_kafka_offset"].as_primitive::<Int64Type>().values();
            let ids = batch["id"].as_primitive::<Int64Type>().values();
            for ((p, o), id) in partitions.iter().zip(offsets).zip(ids) {
                assert_eq!(*id, value(*p, *o), "a row's value stays with its coordinate");
                rows.push((*p, *o));
            }
        }
        rows.sort_unstable();
        rows
    }
}

fn value(partition: i32, offset: i64) -> i64 {
    (i64::from(partition) * 1_000_000).wrapping_add(offset)
}

fn at(partition: i32) -> TopicPartition {
    TopicPartition { source: SourceId::of("cluster"), topic: "orders-eu".to_owned(), partition }
}

fn invocation(id: &PipelineId, minute: Minute, parts: &[&str]) -> (Footer, TableRows) {
    shifted(id, minute, parts, 0)
}

/// An invocation whose records' timestamps are their offsets and `shift_ms`.
fn shifted(id: &PipelineId, minute: Minute, parts: &[&str], shift_ms: i64) -> (Footer, TableRows) {
    let mut coverage = Coverage::default();
    let mut record_columns = record_columns::Builder::new(minute, 0);
    let mut ids = Vec::new();
    for part in parts {
        let mut words = part.splitn(3, ':');
        let mut next = || words.next().unwrap();
        let (partition, first, what): (i32, i64, &str) = (next().parse().unwrap(), next().parse().unwrap(), next());
        record_columns.start("orders-eu", partition);
        let of = |wanted: &str| -> Intervals {
            let hits = what.chars().enumerate().filter(|(_, c)| wanted.contains(*c));
            hits.map(|(n, _)| Interval::new(first + n as i64, first + n as i64).unwrap()).collect()
        };
        for offset in of("r").as_slice().iter().flat_map(|i| i.first()..=i.last()) {
            record_columns.row(offset, record_columns::micros(offset + shift_ms), 0);
            ids.push(value(partition, offset));
        }
        let delivered = of("rfd");
        let hull = delivered.hull().unwrap();
        let filtered = of("f");
        let sample = |offset| Sample { offset, timestamp_ms: Some(offset + shift_ms) };
        let covered = PartitionCoverage {
            filtered: if filtered.is_empty() { BTreeMap::new() } else { [(Filtered::Tombstone, filtered)].into() },
            dead: of("d"),
            first: sample(hull.first()),
            last: sample(hull.last()),
            delivered,
        };
        coverage.insert(at(partition), covered).unwrap();
    }
    let mut fields = vec![Arc::new(Field::new("id", DataType::Int64, false))];
    fields.extend(record_columns::fields());
    let mut columns: Vec<arrow::array::ArrayRef> = vec![Arc::new(Int64Array::from(ids))];
    columns.extend(record_columns.finish());
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let footer = Footer {
        schema: Tag::of::<Footer>(),
        pipeline_id: id.clone(),
        pipeline_file_hash: "00".repeat(32),
        apply_sequence: 0,
        mapping_version: 1,
        hash: None,
        minute,
        origin: Origin::Stream,
        writer: "test".to_owned(),
        coverage,
        event_time_bounds: None,
        schemas: Vec::new(),
        tables: Vec::new(),
        columns: vec![Column {
            name: "id".to_owned(),
            source: "value:1".to_owned(),
            source_name: "id".to_owned(),
            former: Vec::new(),
            data_type: "long".to_owned(),
            required: true,
        }],
    };
    (footer, TableRows { table: "db.orders".to_owned(), batch })
}

fn pipeline() -> Pipeline {
    Pipeline {
        name: "orders".to_owned(),
        source: Topics { topics: vec!["orders-eu".to_owned()], exclude: Vec::new(), name: Some("cluster".to_owned()) },
        value: Value {
            format: Format::Protobuf,
            framing: Framing::Bare,
            indexes: Indexes::Zigzag,
            schema: Source::Proto { path: "orders.proto".into(), message: "Order".to_owned() },
            filter: None,
            explode: None,
        },
        key: None,
        table: Table {
            name: TableName { namespace: "db".to_owned(), name: "orders".to_owned() },
            exists: Exists::Create,
            mode: Mode::Append,
            primary_key: Vec::new(),
            dedup_within: None,
            upsert: None,
            null_keys: NullKeys::Match,
            partition_by: vec![PartitionField { column: "id".to_owned(), transform: Transform::Bucket(2) }],
            sort_by: Vec::new(),
            fields: Fields::All,
            exclude: Vec::new(),
            unknown_fields: UnknownFields::Ignore,
            column_case: ColumnCase::Lower,
            types: Types::Portable,
            record_columns: true,
            format_version: 2,
            columns: Vec::new(),
            properties: BTreeMap::new(),
        },
        fold: Triggers {
            max_age_seconds: 60,
            max_bytes: 1 << 30,
            max_rows: 1 << 30,
            memory_bytes: None,
            tables_max: None,
        },
        route: None,
        tables: BTreeMap::new(),
        staging: Staging { retention_seconds: 7 * 86_400 },
    }
}

/// (partition, offset) of each row that these parts hold.
fn wanted(parts: &[&str]) -> Vec<(i32, i64)> {
    let mut rows = Vec::new();
    for part in parts {
        let mut words = part.splitn(3, ':');
        let mut next = || words.next().unwrap();
        let (partition, first, what): (i32, i64, &str) = (next().parse().unwrap(), next().parse().unwrap(), next());
        let offsets = what.chars().enumerate().filter(|(_, c)| *c == 'r').map(|(n, _)| (partition, first + n as i64));
        rows.extend(offsets);
    }
    rows.sort_unstable();
    rows.dedup();
    rows
}

#[tokio::test]
async fn staged_rows_enter_once_however_often_they_come() {
    let world = World::new(1);
    let parts = ["0:0:rrdrf", "1:10:rr.r", "0:5:rrr"];
    world.stage(&parts[..2]);
    let report = world.fold().run().await.unwrap();
    let table = &report.tables[0];
    assert_eq!((table.rows_added, table.dead_letters, table.undelivered, table.duplicates), (6, 1, 1, 0));
    assert_eq!(table.filtered[&Filtered::Tombstone], 1);
    assert!(table.committed && table.snapshot_id.is_some());
    // The same offsets again, cut elsewhere, with something new behind them; and nothing new at all.
    world.clock.advance_micros(60_000_000);
    world.stage(&["0:3:rfrr"]);
    world.stage(&parts[1..]);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].duplicates), (3, 7));
    assert_eq!(report.staged_objects, 2, "objects that are settled whole are not looked at again");
    let report = world.fold().run().await.unwrap();
    assert!(!report.tables[0].committed);
    assert_eq!(report.staged_objects, 0);
    assert_eq!(world.rows().await, wanted(&parts));
    assert_eq!(world.loaded().await.metadata.snapshots().len(), 2);
}

#[tokio::test]
async fn nothing_staged_makes_no_table_and_a_dry_run_writes_nothing() {
    let world = World::new(1);
    assert!(!world.fold().run().await.unwrap().tables[0].committed);
    world.stage(&["0:0:rrd"]);
    let before = world.store.objects().len();
    let fold = Fold { settings: Settings { dry_run: true, ..Settings::default() }, ..world.fold() };
    let report = fold.run().await.unwrap();
    let table = &report.tables[0];
    assert_eq!((table.committed, table.rows_added, table.dead_letters), (false, 2, 1));
    assert_eq!(world.store.objects().len(), before);
    assert!(world.catalog.load(&world.pipeline.table.name).await.unwrap().is_none());
}

#[tokio::test]
async fn the_last_run_can_be_read_from_the_store() {
    let world = World::new(1);
    world.stage(&["0:0:rrr"]);
    world.fold().run().await.unwrap();
    let read = |objects: BTreeMap<String, bytes::Bytes>| -> model::run::Run {
        serde_json::from_slice(&objects[&staging::key::run(&world.id, "fold")]).unwrap()
    };
    let run = read(world.store.objects());
    assert_eq!((run.state, run.figures["rows_added"]), (model::run::State::Done, 3));
    world
        .store
        .insert("pipelines/orders/paused.json", bytes::Bytes::from_static(br#"{"stage":"fold","why":"vacation"}"#));
    let error = world.fold().run().await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (model::failure::Kind::Retry, "fold.paused"));
    assert!(error.to_string().contains("vacation"));
}

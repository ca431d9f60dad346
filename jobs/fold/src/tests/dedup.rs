//! Mode `dedup`, held against the definition in a few lines over everything that was staged.

use arrow::array::{DictionaryArray, TimestampMicrosecondArray};
use arrow::datatypes::TimestampMicrosecondType;
use model::ledger::Ledger;
use pipeline::resolved::{DedupWithin, Late};

use super::*;

const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;

/// One staged row: partition, offset, key, event time in minutes since [`START`].
pub(super) type Row = (i32, i64, i64, i64);

pub(super) fn world(seed: u64, lookback_minutes: Option<u64>, late: Late) -> World {
    let world = World::new(seed);
    let mut pipeline = pipeline();
    pipeline.table.mode = Mode::Dedup;
    pipeline.table.primary_key = vec!["id".to_owned()];
    pipeline.table.dedup_within =
        lookback_minutes.map(|minutes| DedupWithin { column: "at".to_owned(), lookback_seconds: minutes * 60, late });
    let by = |column: &str, transform| PartitionField { column: column.to_owned(), transform };
    pipeline.table.partition_by = vec![by("at", Transform::Hour)];
    World { pipeline: Arc::new(pipeline), ..world }
}

/// No event time.
pub(super) const NONE: i64 = i64::MIN;
/// No row, but a record that deletes the row of its key.
pub(super) const DELETE: i64 = i64::MIN + 1;

/// Stages rows, in order of partition and offset, in the minute that it is.
pub(super) fn stage(world: &World, rows: &[Row]) -> String {
    stage_from(world, "cluster", rows)
}

fn stage_from(world: &World, source: &str, rows: &[Row]) -> String {
    let hash = (u128::from(world.ids.next_u64()) << 64) | u128::from(world.ids.next_u64());
    stage_as(world, source, rows, ObjectHash::new(hash))
}

pub(super) fn stage_as(world: &World, source: &str, rows: &[Row], hash: ObjectHash) -> String {
    let key = StagedKey { pipeline: world.id.clone(), minute: world.clock.now().minute(), hash };
    let parts: Vec<String> = rows
        .chunk_by(|a, b| a.0 == b.0 && a.1 + 1 == b.1)
        .map(|run| format!("{}:{}:{}", run[0].0, run[0].1, "r".repeat(run.len())))
        .collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (mut footer, staged) = invocation(&world.id, key.minute, &parts);
    let mut coverage = Coverage::default();
    for (at, covered) in footer.coverage.iter() {
        let at = TopicPartition { source: SourceId::of(source), ..at.clone() };
        coverage.insert(at, covered.clone()).unwrap();
    }
    footer.coverage = coverage;
    let column = |name: &str, source: &str, data_type: &str, required| Column {
        name: name.to_owned(),
        source: source.to_owned(),
        source_name: name.to_owned(),
        former: Vec::new(),
        data_type: data_type.to_owned(),
        required,
    };
    footer.columns = vec![column("id", "value:1", "long", false), column("at", "value:2", "timestamptz", false)];
    let mut fields: Vec<Arc<Field>> = vec![
        Arc::new(Field::new("id", DataType::Int64, true)),
        Arc::new(Field::new(
            "at",
            DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some("UTC".into())),
            true,
        )),
    ];
    fields.extend(staged.batch.schema().fields().iter().skip(1).cloned());
    // A key of -1 is null.
    let ids = Int64Array::from_iter(rows.iter().map(|row| (row.2 >= 0).then_some(row.2)));
    let time = |row: &Row| (row.3 > DELETE).then(|| START.micros() + row.3 * MINUTE);
    let times = TimestampMicrosecondArray::from_iter(rows.iter().map(time));
    let mut columns: Vec<arrow::array::ArrayRef> = vec![Arc::new(ids), Arc::new(times.with_timezone("UTC"))];
    columns.extend(staged.batch.columns().iter().skip(1).cloned());
    if rows.iter().any(|row| row.3 == DELETE) {
        let ops: DictionaryArray<Int32Type> =
            rows.iter().map(|row| (row.3 == DELETE).then_some(record_columns::DELETE)).collect();
        fields.push(Arc::new(Field::new(record_columns::OP, record_columns::dictionary_type(), true)));
        columns.push(Arc::new(ops));
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let rows = TableRows { table: staged.table, batch };
    world.store.insert(&key.to_string(), object::encode(&footer, &[rows]).unwrap());
    key.to_string()
}

/// (key, event time in minutes, partition, offset) of the table's rows, sorted.
pub(super) async fn held(world: &World) -> Vec<(i64, i64, i32, i64)> {
    let loaded = world.loaded().await;
    let io = storage::local();
    let plan = scan::plan(&loaded.metadata, &io, &Request::default()).await.unwrap();
    let batches: Vec<RecordBatch> = plan.execute(io).try_collect().await.unwrap();
    let mut rows = Vec::new();
    for batch in &batches {
        let ids = batch["id"].as_primitive::<Int64Type>();
        let times = batch["at"].as_primitive::<TimestampMicrosecondType>().values();
        let partitions = batch["_kafka_partition"].as_primitive::<Int32Type>().values();
        let offsets = batch["_kafka_offset"].as_primitive::<Int64Type>().values();
        for row in 0..batch.num_rows() {
            let id = ids.iter().nth(row).flatten().unwrap_or(-1);
            rows.push((id, (times[row] - START.micros()) / MINUTE, partitions[row], offsets[row]));
        }
    }
    rows.sort_unstable();
    rows
}

async fn ledger(world: &World) -> Ledger {
    let loaded = world.loaded().await;
    Ledger::from_json(&loaded.metadata.properties()[&model::ledger::property(&world.id)]).unwrap()
}

#[tokio::test]
async fn a_row_enters_unless_one_of_its_key_is_near_in_the_batch_or_in_the_table() {
    let world = world(3, Some(60), Late::Keep);
    stage(&world, &[(0, 0, 1, 0), (0, 1, 1, 30), (0, 2, 2, 0), (1, 0, 1, 100), (1, 1, -1, 0), (1, 2, -1, 5)]);
    let report = world.fold().run().await.unwrap();
    let table = &report.tables[0];
    assert_eq!((table.rows_added, table.duplicates, table.deduplicated, table.late), (4, 2, 2, 0));
    let first = [(-1, 0, 1, 1), (1, 0, 0, 0), (1, 100, 1, 0), (2, 0, 0, 2)];
    assert_eq!(held(&world).await, first);
    // Against the table: 60 minutes away is near, 61 is not; on both sides; a new key enters.
    stage(&world, &[(0, 3, 2, 60), (0, 4, 2, 61), (0, 5, 1, -61), (0, 6, 1, 161), (0, 7, 3, 0), (0, 8, -1, 60)]);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].deduplicated), (4, 2));
    let mut all = first.to_vec();
    all.extend([(2, 61, 0, 4), (1, -61, 0, 5), (1, 161, 0, 6), (3, 0, 0, 7)]);
    all.sort_unstable();
    assert_eq!(held(&world).await, all);
    // Every coordinate is settled, and none comes again.
    let ledger = ledger(&world).await;
    assert_eq!((ledger.totals().rows_added, ledger.totals().deduplicated), (8, 4));
    stage(&world, &[(0, 4, 2, 61), (0, 5, 1, -61)]);
    let report = world.fold().run().await.unwrap();
    assert!(!report.tables[0].committed);
    assert_eq!(held(&world).await, all);
}

#[tokio::test]
async fn without_an_event_time_the_whole_table_is_looked_at() {
    let world = world(4, None, Late::Keep);
    stage(&world, &[(0, 0, 1, 0), (0, 1, 1, 9000), (1, 0, 2, 0)]);
    world.fold().run().await.unwrap();
    stage(&world, &[(0, 2, 1, -90_000), (0, 3, 2, 1), (0, 4, 3, 1)]);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].deduplicated), (1, 2));
    assert_eq!(held(&world).await, [(1, 0, 0, 0), (2, 0, 1, 0), (3, 1, 0, 4)]);
}

/// Makes the pages of a data file's first column unreadable, and leaves footer and filters as they are.
fn damage(path: &str) {
    let path = path.strip_prefix("file://").unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    bytes[4..40].fill(0xff);
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn of_a_whole_table_only_what_may_hold_a_key_is_read() {
    let made = world(10, None, Late::Keep);
    let mut pipeline = made.pipeline.as_ref().clone();
    let rare = ("write.parquet.bloom-filter-fpp.column.id".to_owned(), "0.0001".to_owned());
    pipeline.table.properties.extend([rare]);
    let world = World { pipeline: Arc::new(pipeline), ..made };
    // Keys whose bounds say nothing: every file reaches over all of them.
    let key = |n: i64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64).unsigned_abs() as i64 & i64::MAX;
    for file in 0..6 {
        let rows: Vec<Row> = (0..400).map(|n| (0, file * 400 + n, key(file * 400 + n), 0)).collect();
        stage(&world, &rows);
        world.fold().run().await.unwrap();
    }
    let loaded = world.loaded().await;
    let io = storage::local();
    let all = scan::plan(&loaded.metadata, &io, &Request::default()).await.unwrap();
    assert_eq!(all.files.len(), 6);
    // One key of the newest file, and new ones.
    let rows: Vec<Row> =
        [5 * 400 + 7, 100_000, 100_001, 100_002].into_iter().zip(2400..).map(|(n, at)| (0, at, key(n), 0)).collect();
    let ids: arrow::array::ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2)));
    let keys = scan::Keys { columns: vec!["id".to_owned()], values: vec![ids] };
    let request = Request { columns: Some(vec!["id".to_owned()]), keys: Some(keys), ..Request::default() };
    let plan = scan::plan(&loaded.metadata, &io, &request).await.unwrap();
    for task in &plan.files {
        let before = plan.figures().row_groups_read;
        let _batches: Vec<RecordBatch> = plan.read(&io, task).try_collect().await.unwrap();
        if plan.figures().row_groups_read == before {
            damage(&task.path);
        }
    }
    assert_eq!((plan.figures().row_groups_read, plan.figures().row_groups_filtered), (1, 5));
    stage(&world, &rows);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].deduplicated), (3, 1));
    // A fold that has a key of theirs meets the damage.
    stage(&world, &[(0, 2404, key(3), 0)]);
    assert!(world.fold().run().await.is_err());
}

#[tokio::test]
async fn a_key_that_was_renamed_in_the_table_stays_the_key() {
    let world = world(11, None, Late::Keep);
    stage(&world, &[(0, 0, 1, 0), (0, 1, 2, 0)]);
    world.fold().run().await.unwrap();
    let loaded = world.loaded().await;
    let fields = loaded.metadata.current_schema().as_struct().fields().iter().map(|field| {
        let mut field = field.as_ref().clone();
        if field.name == "id" {
            field.name = "order_id".to_owned();
        }
        Arc::new(field)
    });
    let schema = iceberg::spec::Schema::builder().with_schema_id(1).with_fields(fields).build().unwrap();
    let updates =
        vec![iceberg::TableUpdate::AddSchema { schema }, iceberg::TableUpdate::SetCurrentSchema { schema_id: -1 }];
    world.catalog.commit(&loaded, Vec::new(), updates).await.unwrap();
    stage(&world, &[(0, 2, 1, 0), (0, 3, 3, 0)]);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].deduplicated), (1, 1));
}

#[tokio::test]
async fn a_table_that_rows_are_appended_to_has_no_filters() {
    for (mode, expected) in [(Mode::Append, false), (Mode::Dedup, true)] {
        let made = world(12, None, Late::Keep);
        let mut pipeline = made.pipeline.as_ref().clone();
        pipeline.table.mode = mode;
        let world = World { pipeline: Arc::new(pipeline), ..made };
        stage(&world, &[(0, 0, 1, 0), (0, 1, 2, 0)]);
        world.fold().run().await.unwrap();
        let io = storage::local();
        let key: arrow::array::ArrayRef = Arc::new(Int64Array::from(vec![7]));
        let keys = scan::Keys { columns: vec!["id".to_owned()], values: vec![key] };
        let request = Request { keys: Some(keys), ..Request::default() };
        let plan = scan::plan(&world.loaded().await.metadata, &io, &request).await.unwrap();
        let _batches: Vec<RecordBatch> = plan.execute_unordered(&io).try_collect().await.unwrap();
        assert_eq!(plan.figures().filters_read > 0, expected);
    }
}

/// O-24, the part of it that dedup has: several rows of one key in a batch, and duplicates in the table already.
#[tokio::test]
async fn duplicates_that_are_in_the_table_stay_and_nothing_of_their_key_enters() {
    let dedup = world(8, None, Late::Keep);
    let mut append = dedup.pipeline.as_ref().clone();
    append.table.mode = Mode::Append;
    let append = World { pipeline: Arc::new(append), ..dedup };
    stage(&append, &[(0, 0, 1, 0), (0, 1, 1, 0), (0, 2, 2, 0)]);
    append.fold().run().await.unwrap();
    let mut pipeline = append.pipeline.as_ref().clone();
    pipeline.table.mode = Mode::Dedup;
    let world = World { pipeline: Arc::new(pipeline), ..append };
    stage(&world, &[(0, 3, 1, 0), (0, 4, 1, 0), (0, 5, 3, 0), (0, 6, 3, 0)]);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].deduplicated), (1, 3));
    assert_eq!(held(&world).await, [(1, 0, 0, 0), (1, 0, 0, 1), (2, 0, 0, 2), (3, 0, 0, 5)]);
}

#[tokio::test]
async fn only_files_near_in_time_are_read() {
    let world = world(5, Some(60), Late::Keep);
    for hour in 0..5 {
        stage(&world, &[(0, hour, 1, hour * 240)]);
        world.fold().run().await.unwrap();
    }
    // A file that can't be read any more, four hours away, is not missed.
    let far = world.loaded().await;
    let io = storage::local();
    let plan = scan::plan(&far.metadata, &io, &Request::default()).await.unwrap();
    let oldest = plan.files.iter().find(|f| f.path.contains("at_hour=2026-11-29-14")).unwrap();
    std::fs::remove_file(oldest.path.strip_prefix("file://").unwrap()).unwrap();
    stage(&world, &[(0, 5, 1, 4 * 240 + 30)]);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].deduplicated), (0, 1));
    stage(&world, &[(0, 6, 1, 30)]);
    assert!(world.fold().run().await.is_err(), "near it, the file is needed");
}

#[tokio::test]
async fn late_rows_are_kept_or_dropped_and_always_counted() {
    for (late, dropped) in [(Late::Keep, 0), (Late::Drop, 2)] {
        let world = world(6, Some(60), late);
        stage(&world, &[(0, 0, 1, 0), (1, 0, 2, 0)]);
        world.fold().run().await.unwrap();
        world.clock.advance_micros(HOUR / 2);
        stage(&world, &[(0, 1, 3, 30), (1, 1, 4, 30)]);
        world.fold().run().await.unwrap();
        world.clock.advance_micros(5 * MINUTE);
        // The watermark is at 30: event times below -30 are late.
        stage(&world, &[(0, 2, 5, -31), (0, 3, 6, -30), (1, 2, 7, -1_000_000_000), (1, 3, 8, 2_000_000_000)]);
        let report = world.fold().run().await.unwrap();
        let table = &report.tables[0];
        assert_eq!((table.late, table.late_dropped, table.rows_added), (2, dropped, 4 - dropped));
        let counts = ledger(&world).await.totals();
        assert_eq!((counts.late, counts.late_kept), (dropped, 2 - dropped));
        assert_eq!(held(&world).await.len() as u64, 8 - dropped);
    }
}

#[tokio::test]
async fn what_rows_are_compared_by_has_to_be_there() {
    let world = world(7, Some(60), Late::Keep);
    stage(&world, &[(0, 0, 1, 0)]);
    world.fold().run().await.unwrap();
    let key = stage(&world, &[(0, 1, 2, 0)]);
    let by = |column: &str| {
        let mut other = world.pipeline.as_ref().clone();
        let within = DedupWithin { column: column.to_owned(), lookback_seconds: 60, late: Late::Keep };
        other.table.dedup_within = Some(within);
        Fold { pipeline: Arc::new(other), ..world.fold() }
    };
    let error = by("id").run().await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (model::failure::Kind::Misconfigured, "fold.event_time"));
    assert!(error.to_string().contains(&key) && error.remedy().is_some(), "{error}");
    assert_eq!(by("sent").run().await.unwrap_err().code(), "fold.dedup_column");
}

/// The rows that a table must hold: all staged, in order of their definition, against those that stay.
fn defined(rows: &[Row], lookback: i64) -> Vec<(i64, i64, i32, i64)> {
    let mut order = rows.to_vec();
    order.sort_by_key(|(partition, offset, _, at)| (*at, *offset, *partition));
    let mut stay: Vec<(i64, i64, i32, i64)> = Vec::new();
    for (partition, offset, key, at) in order {
        if !stay.iter().any(|kept| kept.0 == key && (kept.1 - at).abs() <= lookback) {
            stay.push((key, at, partition, offset));
        }
    }
    stay.sort_unstable();
    stay
}

#[tokio::test]
async fn one_fold_of_many_objects_is_the_definition_and_crashes_change_nothing() {
    for seed in 0..20 {
        let ids = SeededIds::new(seed);
        let mut next = [0i64; 3];
        let rows: Vec<Row> = (0..120)
            .map(|_| {
                let partition = (ids.next_u64() % 3) as usize;
                let offset = next[partition];
                next[partition] += 1;
                (partition as i32, offset, (ids.next_u64() % 8) as i64 - 1, (ids.next_u64() % 300) as i64)
            })
            .collect();
        let world = world(seed, Some(20), Late::Keep);
        for chunk in rows.chunks(17) {
            let mut chunk = chunk.to_vec();
            chunk.sort_unstable();
            stage(&world, &chunk);
        }
        // Two at once: one of them finds the other's rows in the table.
        let (left, right) = (world.fold(), world.fold());
        let (left, right) = tokio::join!(left.run(), right.run());
        let added: u64 = [left, right].into_iter().map(|r| r.unwrap().tables[0].rows_added).sum();
        let expected = defined(&rows, 20);
        assert_eq!(held(&world).await, expected, "seed {seed}");
        assert_eq!(added, expected.len() as u64);
        let totals = ledger(&world).await.totals();
        assert_eq!((totals.rows_added, totals.rows_added + totals.deduplicated), (added, 120));
    }
}

#[tokio::test]
async fn what_another_pipeline_commits_meanwhile_is_compared_with_too() {
    let world = world(9, Some(60), Late::Keep);
    stage(&world, &[(0, 0, 1, 0)]);
    world.fold().run().await.unwrap();
    let other = World { id: PipelineId::new("others", world.ids.as_ref()), ..world };
    let world =
        World { id: PipelineId::new("orders", &SeededIds::new(9)), store: other.store.clone(), ..clone(&other) };
    stage_from(&other, "other", &[(7, 0, 2, 0), (7, 1, 3, 0)]);
    stage(&world, &[(8, 0, 2, 10), (8, 1, 4, 0)]);
    let (left, right) = (world.fold(), other.fold());
    let (left, right) = tokio::join!(left.run(), right.run());
    let added: u64 = [left, right].into_iter().map(|r| r.unwrap().tables[0].rows_added).sum();
    assert_eq!(added, 3, "of key 2 one row stays");
    let keys: Vec<i64> = held(&world).await.into_iter().map(|row| row.0).collect();
    assert_eq!(keys, [1, 2, 3, 4]);
}

fn clone(world: &World) -> World {
    World {
        _folder: tempfile::tempdir().unwrap(),
        store: world.store.clone(),
        catalog: world.catalog.clone(),
        clock: world.clock.clone(),
        ids: world.ids.clone(),
        pipeline: world.pipeline.clone(),
        id: world.id.clone(),
    }
}

#[tokio::test]
async fn a_partition_that_began_anew_counts_apart_from_its_objects_others() {
    let world = world(97, None, Late::Keep);
    stage(&world, &[(0, 0, 10, 0), (1, 0, 11, 0)]);
    world.fold().run().await.unwrap();
    let since = Some(world.clock.now().minute().plus(1));
    let reset = Reset { topic: "orders-eu".to_owned(), partition: Some(0), since };
    let (plan, _) = world.fold().reset(&reset).await.unwrap();
    world.wait(1);
    stage(&world, &[(0, 0, 12, 1), (1, 1, 10, 1)]);
    let table = &world.fold().run().await.unwrap().tables[0];
    assert_eq!((table.rows_added, table.deduplicated), (1, 1));
    let ledger = world.ledger().await;
    let counts = |at: &TopicPartition| ledger.partition(at).map(|p| (p.counts.rows_added, p.counts.deduplicated));
    let anew = TopicPartition { source: plan.counts_as, ..at(0) };
    assert_eq!((counts(&anew), counts(&at(0)), counts(&at(1))), (Some((1, 0)), Some((1, 0)), Some((1, 1))));
}

#[tokio::test]
async fn a_backlog_larger_than_memory_ends_as_in_one_run() {
    let mut ends = Vec::new();
    for memory_bytes in [u64::MAX, 160_000, 1] {
        let world = world(9, Some(60), Late::Keep);
        for n in 0..12 {
            // A key's event time is its own, so that it repeats with its key.
            let rows: Vec<Row> = (0..30).map(|row| (0, n * 30 + row, n * 20 + row, (n * 20 + row) * 2)).collect();
            stage(&world, &rows);
            world.wait(1);
        }
        let settings = Settings { budget: Budget { memory_bytes, ..Budget::default() }, ..Settings::default() };
        let fold = Fold { settings, ..world.fold() };
        let sum = fold.drain(|_| ()).await.unwrap();
        let totals = ledger(&world).await.totals();
        assert_eq!((sum.tables[0].rows_added, sum.tables[0].deduplicated), (totals.rows_added, totals.deduplicated));
        assert_eq!((totals.rows_added, totals.deduplicated, totals.undelivered), (250, 110, 0));
        ends.push((sum.runs, held(&world).await));
    }
    let runs: Vec<u64> = ends.iter().map(|(runs, _)| *runs).collect();
    assert!(runs[0] == 1 && (2..12).contains(&runs[1]) && runs[2] == 12, "{runs:?}");
    assert!(ends.iter().all(|(_, rows)| *rows == ends[0].1));
}

//! Mode `upsert`, held against the rule record after record over everything that was staged.

use std::collections::BTreeMap;

use arrow::datatypes::TimestampMicrosecondType;
use pipeline::resolved::{Deletes, Upsert, Write};

use super::dedup::{DELETE, NONE, Row, held, stage};
use super::*;

fn world(seed: u64, order_by: &[&str], write: Write) -> World {
    let world = World::new(seed);
    let mut pipeline = pipeline();
    pipeline.table.mode = Mode::Upsert;
    pipeline.table.primary_key = vec!["id".to_owned()];
    pipeline.table.upsert = Some(Upsert {
        order_by: order_by.iter().map(|name| (*name).to_owned()).collect(),
        write,
        deletes: Deletes::Hard,
    });
    let by = |column: &str, transform| PartitionField { column: column.to_owned(), transform };
    pipeline.table.partition_by = vec![by("at", Transform::Hour)];
    World { pipeline: Arc::new(pipeline), ..world }
}

fn deleting(world: World, deletes: Deletes) -> World {
    let mut pipeline = Pipeline::clone(&world.pipeline);
    pipeline.table.upsert.as_mut().unwrap().deletes = deletes;
    World { pipeline: Arc::new(pipeline), ..world }
}

/// A row with its mark: key, event time in minutes, offset of the record that it is of, whether it is marked, and when it was deleted.
type Marked = (i64, Option<i64>, i64, Option<bool>, Option<i64>);

async fn marked(world: &World) -> Vec<Marked> {
    let loaded = world.loaded().await;
    let io = storage::local();
    let plan = scan::plan(&loaded.metadata, &io, &Request::default()).await.unwrap();
    let batches: Vec<RecordBatch> = plan.execute(io).try_collect().await.unwrap();
    let mut rows = Vec::new();
    for batch in &batches {
        let long = |name: &str| batch[name].as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
        let time = |name: &str| batch[name].as_primitive::<TimestampMicrosecondType>().iter().collect::<Vec<_>>();
        let (ids, offsets, at, deleted_at) = (long("id"), long("_kafka_offset"), time("at"), time("_deleted_at"));
        let marks = batch["_is_deleted"].as_boolean();
        for row in 0..batch.num_rows() {
            let at = at[row].map(|at| (at - START.micros()) / 60_000_000);
            rows.push((ids[row].unwrap(), at, offsets[row].unwrap(), marks.iter().nth(row).unwrap(), deleted_at[row]));
        }
    }
    rows.sort_unstable();
    rows
}

/// Files of the current snapshot: data files, position delete files.
async fn files(world: &World) -> (u64, u64) {
    let loaded = world.loaded().await;
    let summary = loaded.metadata.current_snapshot().unwrap().summary().additional_properties.clone();
    let number = |name: &str| summary.get(name).map_or(0, |n| n.parse().unwrap());
    (number("total-data-files"), number("total-delete-files"))
}

#[tokio::test]
async fn the_newest_version_of_each_key_stays_and_moves_with_its_partition() {
    for write in [Write::Auto, Write::MergeOnRead, Write::CopyOnWrite] {
        let world = world(1, &["at"], write);
        stage(&world, &[(0, 0, 1, 10), (0, 1, 2, 10), (0, 2, 1, 20), (0, 3, 3, 10), (0, 4, -1, 10), (0, 5, 4, 10)]);
        let report = world.fold().run().await.unwrap();
        let table = &report.tables[0];
        assert_eq!((table.rows_added, table.rows_updated, table.superseded), (5, 0, 1));
        world.wait(1);
        // Newer, in another hour; older; equal, and later; the null key; a new one.
        stage(&world, &[(0, 6, 1, 100), (0, 7, 2, 5), (0, 8, 3, 10), (0, 9, -1, 11), (0, 10, 5, 200)]);
        let report = world.fold().run().await.unwrap();
        let table = &report.tables[0];
        assert_eq!((table.rows_added, table.rows_updated, table.superseded), (1, 3, 1), "{write:?}");
        let rows = [(-1, 11, 0, 9), (1, 100, 0, 6), (2, 10, 0, 1), (3, 10, 0, 8), (4, 10, 0, 5), (5, 200, 0, 10)];
        assert_eq!(held(&world).await, rows, "{write:?}");
        let deletes = files(&world).await.1;
        assert_eq!(deletes, u64::from(write == Write::MergeOnRead), "{write:?}");
        let totals = world.ledger().await.totals();
        assert_eq!((totals.rows_added, totals.rows_updated, totals.superseded), (6, 3, 2));
        // A null of what rows are told apart by is lowest.
        world.wait(1);
        stage(&world, &[(0, 11, 4, NONE), (0, 12, 6, NONE), (0, 13, 6, -50)]);
        world.fold().run().await.unwrap();
        let rows = held(&world).await;
        assert!(rows.contains(&(4, 10, 0, 5)) && rows.contains(&(6, -50, 0, 13)), "{rows:?}");
    }
}

#[tokio::test]
async fn what_comes_again_changes_nothing_and_a_file_without_rows_is_none() {
    let world = world(2, &[], Write::MergeOnRead);
    stage(&world, &[(0, 0, 1, 0), (0, 1, 2, 0)]);
    world.fold().run().await.unwrap();
    world.wait(1);
    stage(&world, &[(0, 0, 1, 0), (0, 1, 2, 0), (0, 2, 1, 0)]);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_updated, report.tables[0].duplicates), (1, 2));
    assert_eq!(held(&world).await, [(1, 0, 0, 2), (2, 0, 0, 1)]);
    assert_eq!(files(&world).await, (2, 1));
    world.wait(1);
    // Both rows of the first file are gone then: the file goes, and with it the delete file that is about it.
    stage(&world, &[(0, 3, 2, 0)]);
    world.fold().run().await.unwrap();
    assert_eq!(held(&world).await, [(1, 0, 0, 2), (2, 0, 0, 3)]);
    assert_eq!(files(&world).await, (2, 0));
}

#[tokio::test]
async fn what_is_deleted_softly_stays_and_is_marked_by_the_records_time() {
    for write in [Write::Auto, Write::MergeOnRead, Write::CopyOnWrite] {
        let world = deleting(world(8, &["at"], write), Deletes::Soft);
        stage(&world, &[(0, 0, 1, 10), (0, 1, 2, 90), (0, 2, 3, 10), (0, 3, 9, DELETE)]);
        let report = world.fold().run().await.unwrap();
        assert_eq!((report.tables[0].rows_added, report.tables[0].deletes), (4, 0), "the row of a key alone");
        world.wait(1);
        // Deleted; deleted and there again; a row and its delete in one fold; the key alone, and a row after all.
        let rows = [(0, 4, 1, DELETE), (0, 5, 2, DELETE), (0, 6, 2, 5), (0, 7, 4, 20), (0, 8, 4, DELETE), (0, 9, 9, 1)];
        stage(&world, &rows);
        let report = world.fold().run().await.unwrap();
        let table = &report.tables[0];
        assert_eq!(
            (table.rows_added, table.rows_updated, table.rows_deleted, table.deletes),
            (1, 2, 0, 2),
            "{write:?}"
        );
        let at = |ms: i64| Some(ms * 1000);
        let live = |key, minutes, offset| (key, Some(minutes), offset, Some(false), None);
        let rows = [
            (1, Some(10), 4, Some(true), at(4)),
            live(2, 5, 6),
            live(3, 10, 2),
            (4, Some(20), 8, Some(true), at(8)),
            live(9, 1, 9),
        ];
        assert_eq!(marked(&world).await, rows, "{write:?}");
        world.wait(1);
        // Again, later; what came before comes again; and a row that is older by its values, but comes later.
        stage(&world, &[(0, 4, 1, DELETE), (0, 5, 2, DELETE)]);
        stage(&world, &[(0, 10, 1, DELETE), (0, 11, 4, -30)]);
        world.fold().run().await.unwrap();
        let rows =
            [(1, Some(10), 10, Some(true), at(10)), live(2, 5, 6), live(3, 10, 2), live(4, -30, 11), live(9, 1, 9)];
        assert_eq!(marked(&world).await, rows, "{write:?}");
        let totals = world.ledger().await.totals();
        assert_eq!(totals.rows_added - totals.rows_deleted, 5);
        let fates = totals.rows_added + totals.rows_updated + totals.superseded + totals.deletes;
        assert_eq!(fates, 12, "each record is one thing");
    }
}

/// A record that had been a dead letter comes after all, and a later one has deleted its key.
#[tokio::test]
async fn what_comes_below_what_is_settled_stays_deleted() {
    for deletes in [Deletes::Hard, Deletes::Soft] {
        let world = deleting(world(15, &[], Write::Auto), deletes);
        stage(&world, &[(0, 0, 1, 10)]);
        world.fold().run().await.unwrap();
        world.wait(1);
        world.stage(&["0:1:d"]);
        stage(&world, &[(0, 2, 1, DELETE), (0, 3, 2, 20)]);
        assert_eq!(world.fold().run().await.unwrap().tables[0].dead_letters, 1);
        world.wait(1);
        stage(&world, &[(0, 1, 1, 50)]);
        let report = world.fold().run().await.unwrap();
        assert_eq!((report.tables[0].superseded, report.tables[0].rows_added), (1, 0), "{deletes:?}");
        match deletes {
            Deletes::Soft => {
                let rows = [(1, Some(10), 2, Some(true), Some(2000)), (2, Some(20), 3, Some(false), None)];
                assert_eq!(marked(&world).await, rows);
            }
            _ => assert_eq!(held(&world).await, [(2, 20, 0, 3)]),
        }
    }
    // A delete that comes after all, where rows that came after it may have lost to what it deletes.
    let world = deleting(world(16, &["at"], Write::Auto), Deletes::Soft);
    stage(&world, &[(0, 0, 1, 10)]);
    world.fold().run().await.unwrap();
    world.wait(1);
    world.stage(&["0:1:d"]);
    stage(&world, &[(0, 2, 1, 5)]);
    world.fold().run().await.unwrap();
    world.wait(1);
    stage(&world, &[(0, 1, 1, DELETE)]);
    world.fold().run().await.unwrap();
    assert_eq!(marked(&world).await, [(1, Some(10), 0, Some(false), None)]);
    let totals = world.ledger().await.totals();
    assert_eq!((totals.dead, totals.deletes, totals.superseded), (1, 0, 1), "it is dead as before");
}

#[tokio::test]
async fn rows_that_are_there_get_their_marks_with_the_columns() {
    for write in [Write::Auto, Write::MergeOnRead, Write::CopyOnWrite] {
        let world = world(9, &[], write);
        stage(&world, &[(0, 0, 1, 10), (0, 1, 2, 10), (0, 2, 3, 90), (0, 3, 4, 90), (0, 4, 5, 90), (0, 5, 6, 90)]);
        world.fold().run().await.unwrap();
        world.wait(1);
        stage(&world, &[(0, 6, 3, 91)]);
        world.fold().run().await.unwrap();
        world.wait(1);
        let before = world.loaded().await;
        let world = deleting(world, Deletes::Soft);
        let foreseen = || async {
            let loaded = world.loaded().await;
            let bound = crate::bound(loaded.metadata.properties(), &world.id).unwrap();
            crate::foresee_marks(&world.pipeline.table, &loaded.metadata, bound.as_ref()).unwrap()
        };
        assert_eq!((foreseen().await.changes.len(), foreseen().await.rewrites), (2, true));
        stage(&world, &[(0, 8, 4, DELETE)]);
        let dry = Fold { settings: Settings { dry_run: true, ..Settings::default() }, ..world.fold() };
        let changes = ["_is_deleted boolean is added", "_deleted_at timestamptz is added"];
        assert_eq!(dry.run().await.unwrap().tables[0].column_changes, changes);
        assert_eq!(world.fold().run().await.unwrap().tables[0].column_changes, changes);
        let live = |key, minutes, offset| (key, Some(minutes), offset, Some(false), None);
        let rows = [
            live(1, 10, 0),
            live(2, 10, 1),
            live(3, 91, 6),
            (4, Some(90), 8, Some(true), Some(8000)),
            live(5, 90, 4),
            live(6, 90, 5),
        ];
        assert_eq!(marked(&world).await, rows, "{write:?}");
        assert_eq!(files(&world).await.1, 0, "all files are new");
        assert_eq!(
            (foreseen().await.changes.len(), foreseen().await.rewrites, foreseen().await.places.len()),
            (0, false, 2)
        );
        assert_eq!(world.loaded().await.metadata.last_column_id(), before.metadata.last_column_id() + 2);
        // Once only.
        world.wait(1);
        stage(&world, &[(0, 9, 1, 11)]);
        let report = world.fold().run().await.unwrap();
        assert!(report.tables[0].column_changes.is_empty());
        // Hard again: marks go on being written, and what is marked goes.
        world.wait(1);
        let world = deleting(world, Deletes::Hard);
        stage(&world, &[(0, 10, 4, DELETE), (0, 11, 7, 1), (0, 12, 5, DELETE)]);
        world.fold().run().await.unwrap();
        let rows = [live(1, 11, 9), live(2, 10, 1), live(3, 91, 6), live(6, 90, 5), live(7, 1, 11)];
        assert_eq!(marked(&world).await, rows, "{write:?}");
    }
}

#[tokio::test]
async fn a_column_of_the_name_that_is_another_s_stops() {
    let world = world(10, &[], Write::Auto);
    stage(&world, &[(0, 0, 1, 10)]);
    world.fold().run().await.unwrap();
    let loaded = world.loaded().await;
    let alter = |fields: Vec<iceberg::spec::NestedField>| {
        let before = loaded.metadata.current_schema();
        let mut all = before.as_struct().fields().to_vec();
        all.extend(fields.into_iter().map(Arc::new));
        let schema = iceberg::spec::Schema::builder().with_schema_id(before.schema_id() + 1).with_fields(all);
        iceberg::TableUpdate::AddSchema { schema: schema.build().unwrap() }
    };
    let text = iceberg::spec::Type::Primitive(iceberg::spec::PrimitiveType::String);
    let added = alter(vec![iceberg::spec::NestedField::optional(50, "_Is_Deleted", text)]);
    let updates = vec![added, iceberg::TableUpdate::SetCurrentSchema { schema_id: -1 }];
    world.catalog.commit(&loaded, Vec::new(), updates).await.unwrap();
    world.wait(1);
    let world = deleting(world, Deletes::Soft);
    stage(&world, &[(0, 1, 1, DELETE)]);
    let error = world.fold().run().await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("fold.mark_column", model::failure::Kind::Misconfigured));
    assert!(error.to_string().contains("`_Is_Deleted` of type string"), "{error}");
    assert_eq!(held(&world).await, [(1, 10, 0, 0)]);
}

#[tokio::test]
async fn deletes_that_were_staged_before_they_were_ignored_are_counted() {
    let world = deleting(world(11, &[], Write::Auto), Deletes::Ignore);
    stage(&world, &[(0, 0, 1, 10), (0, 1, 1, DELETE), (0, 2, 2, DELETE)]);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].filtered[&Filtered::Tombstone]), (1, 2));
    assert_eq!(held(&world).await, [(1, 10, 0, 0)]);
}

/// A table whose rows do not say which records they are of: said by a dry run, too.
#[tokio::test]
async fn a_table_without_record_columns_stops_before_anything_is_written() {
    let world = world(12, &[], Write::Auto);
    let mut pipeline = Pipeline::clone(&world.pipeline);
    (pipeline.table.mode, pipeline.table.upsert, pipeline.table.record_columns) = (Mode::Append, None, false);
    let appending = World { pipeline: Arc::new(pipeline), ..world };
    stage(&appending, &[(0, 0, 1, 10)]);
    appending.fold().run().await.unwrap();
    assert!(appending.fold().is_uncompared().await.unwrap());
    appending.wait(1);
    let world = World { pipeline: super::upsert::world(12, &[], Write::Auto).pipeline, ..appending };
    stage(&world, &[(0, 1, 1, 11)]);
    let dry = Fold { settings: Settings { dry_run: true, ..Settings::default() }, ..world.fold() };
    for error in [dry.run().await.unwrap_err(), world.fold().run().await.unwrap_err()] {
        assert_eq!(error.code(), "fold.upsert_column");
        assert!(error.to_string().contains("`_kafka_topic`"), "{error}");
        assert!(error.remedy().unwrap().contains("another `name`"));
    }
    assert_eq!(world.fold().foresee().await.unwrap().code(), "fold.upsert_column");
}

#[tokio::test]
async fn a_table_is_compared_once_a_fold_has_found_rows_of_a_key() {
    let world = world(13, &[], Write::Auto);
    assert!(!world.fold().is_uncompared().await.unwrap());
    stage(&world, &[(0, 0, 1, 10)]);
    world.fold().run().await.unwrap();
    assert!(world.fold().is_uncompared().await.unwrap());
    world.wait(1);
    stage(&world, &[(0, 1, 1, 11)]);
    world.fold().run().await.unwrap();
    assert!(!world.fold().is_uncompared().await.unwrap());
}

/// A data file of which each fold replaces some rows is not about more and more delete files.
#[tokio::test]
async fn delete_files_are_merged() {
    let world = world(14, &[], Write::MergeOnRead);
    let mut log: Vec<Row> = (0..60).map(|n| (0, n, n, 0)).collect();
    stage(&world, &log);
    world.fold().run().await.unwrap();
    let mut fewer = 0;
    for fold in 0..12_i64 {
        world.wait(1);
        let offset = log.len() as i64;
        // In a partition of their own.
        let next: Vec<Row> = (0..3).map(|n| (0, offset + n, fold * 3 + n, 600 + fold * 60)).collect();
        stage(&world, &next);
        log.extend(&next);
        let before = files(&world).await.1;
        world.fold().run().await.unwrap();
        let after = files(&world).await.1;
        assert!(after <= 5, "{after} delete files");
        fewer += u64::from(after < before);
        assert_eq!(held(&world).await, defined(&log, false), "after {fold}");
        let loaded = world.loaded().await;
        let summary = &loaded.metadata.current_snapshot().unwrap().summary().additional_properties;
        let gone: i64 = summary["total-position-deletes"].parse().unwrap();
        assert_eq!(gone, (fold + 1) * 3, "each row is named once");
    }
    assert!(fewer > 1, "some were merged");
}

#[tokio::test]
async fn rows_of_null_keys_may_be_refused() {
    let world = world(3, &[], Write::Auto);
    let mut pipeline = Pipeline::clone(&world.pipeline);
    pipeline.table.null_keys = NullKeys::Reject;
    let world = World { pipeline: Arc::new(pipeline), ..world };
    stage(&world, &[(0, 0, 1, 0), (0, 1, -1, 0), (0, 2, 2, 0)]);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].dead_letters), (2, 1));
    let letters = world.store.objects().into_iter().find(|(key, _)| key.starts_with("dead-letters/")).unwrap().1;
    let letter = String::from_utf8(letters.to_vec()).unwrap();
    assert!(letter.contains("\"null_key\"") && letter.contains("a column of its key is null"), "{letter}");
}

#[tokio::test]
async fn a_key_that_no_column_has_stops_and_an_order_that_none_has_is_of_nulls() {
    let with = |keys: &[&str], order_by: &[&str]| {
        let world = world(4, order_by, Write::Auto);
        let mut pipeline = Pipeline::clone(&world.pipeline);
        pipeline.table.primary_key = keys.iter().map(|name| (*name).to_owned()).collect();
        World { pipeline: Arc::new(pipeline), ..world }
    };
    let of_key = with(&["nope"], &[]);
    stage(&of_key, &[(0, 0, 1, 0)]);
    assert_eq!(of_key.fold().run().await.unwrap_err().code(), "fold.upsert_column");
    assert!(held_or_nothing(&of_key).await.is_empty());
    // Staged before there was such a column.
    let of_order = with(&["id"], &["later"]);
    stage(&of_order, &[(0, 0, 1, 9), (0, 1, 1, 0)]);
    of_order.fold().run().await.unwrap();
    assert_eq!(held(&of_order).await, [(1, 0, 0, 1)]);
}

/// Offsets begin at 0 again, and what is of the new topic comes later all the same.
#[tokio::test]
async fn rows_of_a_topic_made_again_replace_those_of_before() {
    for later_fold in [false, true] {
        let world = world(7, &[], Write::Auto);
        stage(&world, &(0..20).map(|n| (0, n, n, 0)).collect::<Vec<Row>>());
        world.fold().run().await.unwrap();
        world.wait(60);
        let since = Some(world.clock.now().minute());
        let reset = crate::Reset { topic: "orders-eu".to_owned(), partition: None, since };
        world.fold().reset(&reset).await.unwrap();
        stage(&world, &[(0, 0, 3, 1), (0, 1, 4, 1)]);
        if later_fold {
            world.fold().run().await.unwrap();
            world.wait(1);
        }
        stage(&world, &[(0, 2, 3, 2), (0, 3, 50, 2)]);
        world.fold().run().await.unwrap();
        let rows = held(&world).await;
        assert!(
            rows.contains(&(3, 2, 0, 2)) && rows.contains(&(4, 1, 0, 1)) && rows.contains(&(50, 2, 0, 3)),
            "{rows:?}"
        );
        assert_eq!(rows.len(), 21);
    }
}

#[tokio::test]
async fn a_table_of_two_pipelines_is_refused() {
    let world = world(6, &[], Write::Auto);
    stage(&world, &[(0, 0, 1, 0)]);
    world.fold().run().await.unwrap();
    let other = PipelineId::new("others", world.ids.as_ref());
    let theirs = World { id: other.clone(), ..world };
    stage(&theirs, &[(0, 0, 2, 0)]);
    let error = theirs.fold().run().await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("fold.two_pipelines", model::failure::Kind::Misconfigured));
    assert_eq!(held(&theirs).await, [(1, 0, 0, 0)]);
}

async fn held_or_nothing(world: &World) -> Vec<(i64, i64, i32, i64)> {
    match world.catalog.load(&world.pipeline.table.name).await.unwrap() {
        Some(loaded) if loaded.metadata.current_snapshot().is_some() => held(world).await,
        _ => Vec::new(),
    }
}

/// The rule, for one partition.
fn defined(records: &[Row], is_ordered: bool) -> Vec<(i64, i64, i32, i64)> {
    let mut table: BTreeMap<i64, Row> = BTreeMap::new();
    for record in records {
        match table.get(&record.2) {
            Some(there) if is_ordered && record.3 < there.3 => {}
            _ => drop(table.insert(record.2, *record)),
        }
    }
    let mut rows: Vec<_> =
        table.into_values().map(|(partition, offset, key, at)| (key, at, partition, offset)).collect();
    rows.sort_unstable();
    rows
}

#[tokio::test]
async fn every_history_ends_with_what_the_rule_says() {
    for seed in 0..60 {
        let is_ordered = seed % 2 == 0;
        let write = [Write::Auto, Write::MergeOnRead, Write::CopyOnWrite][seed as usize % 3];
        let world = world(seed, if is_ordered { &["at"] } else { &[] }, write);
        let mut log: Vec<Row> = Vec::new();
        let draw = |n: u64| i64::try_from(world.ids.next_u64() % n).unwrap();
        for _ in 0..4 + draw(5) {
            let from = log.len();
            for _ in 0..1 + draw(30) {
                let offset = log.len() as i64;
                log.push((0, offset, draw(12) - 1, draw(300) - 150));
            }
            // Some of what came before comes again, cut elsewhere.
            let again = from - usize::try_from(draw(3)).unwrap().min(from);
            let middle = from + usize::try_from(draw(u64::try_from(log.len() - from).unwrap())).unwrap();
            for part in [&log[again..middle], &log[middle..]] {
                if !part.is_empty() {
                    stage(&world, part);
                }
            }
            if draw(3) > 0 {
                world.fold().run().await.unwrap();
            }
            world.wait(1);
        }
        world.fold().run().await.unwrap();
        assert_eq!(held(&world).await, defined(&log, is_ordered), "seed {seed}");
        let totals = world.ledger().await.totals();
        let records = totals.rows_added + totals.rows_updated + totals.superseded;
        assert_eq!((records, totals.rows_added), (log.len() as u64, held(&world).await.len() as u64), "seed {seed}");
    }
}

#[tokio::test]
async fn what_lies_above_a_hole_that_may_be_filled_waits() {
    let world = world(5, &[], Write::Auto);
    let fold = || Fold { settings: Settings { may_skip: true, ..Settings::default() }, ..world.fold() };
    stage(&world, &[(0, 0, 1, 0), (0, 1, 2, 0)]);
    stage(&world, &[(0, 4, 1, 4), (0, 5, 3, 5), (1, 7, 9, 7)]);
    fold().run().await.unwrap();
    assert_eq!(held(&world).await, [(1, 0, 0, 0), (2, 0, 0, 1), (9, 7, 1, 7)]);
    world.wait(1);
    fold().run().await.unwrap();
    assert_eq!(held(&world).await.len(), 3, "and goes on waiting");
    stage(&world, &[(0, 2, 1, 2), (0, 3, 3, 3)]);
    fold().run().await.unwrap();
    assert_eq!(held(&world).await, [(1, 4, 0, 4), (2, 0, 0, 1), (3, 5, 0, 5), (9, 7, 1, 7)]);
    // Where the mapping passes nothing over, a hole is nothing.
    let world = super::upsert::world(5, &[], Write::Auto);
    stage(&world, &[(0, 0, 1, 0), (0, 1, 2, 0)]);
    stage(&world, &[(0, 4, 1, 4)]);
    world.fold().run().await.unwrap();
    assert_eq!(held(&world).await, [(1, 4, 0, 4), (2, 0, 0, 1)]);
}

//! Rows that their table does not take: none lost, none doubled, and the same ones however the folds are cut.

use std::collections::BTreeSet;

use arrow::array::{ArrayRef, Int32Array};
use iceberg::TableUpdate;
use model::coordinate::Coordinate;
use model::ledger::Counts;
use pipeline::resolved::Late;
use serde_json::json;
use staging::dead_letter::{self, Class, DeadLetter};
use staging::key::DeadLetterKey;

use super::crashes::{Where, die};
use super::dedup::{NONE, Row, held, stage, stage_as, world};
use super::*;
use testkit::store_faulty::Death;

/// Everything in dead letters, in order of (partition, offset, ordinal). Each row has one letter.
fn letters(world: &World) -> Vec<DeadLetter> {
    let mut letters = Vec::new();
    for (key, body) in world.store.objects() {
        let Ok(key) = key.parse::<DeadLetterKey>() else { continue };
        for letter in dead_letter::decode(&body).unwrap() {
            assert_eq!((&letter.pipeline_id, letter.minute), (&key.pipeline, key.minute));
            assert!(letter.row.is_some() && letter.value.is_none() && letter.table.as_deref() == Some("db.orders"));
            assert!(world.store.objects().contains_key(letter.staged.as_deref().unwrap()));
            letters.push(letter);
        }
    }
    letters.sort_by_key(|letter| (letter.partition, letter.offset, letter.ordinal));
    let rows: BTreeSet<_> = letters.iter().map(|l| (l.partition, l.offset, l.ordinal)).collect();
    assert_eq!(rows.len(), letters.len(), "a row has two letters");
    letters
}

fn places(letters: &[DeadLetter]) -> Vec<(i32, i64)> {
    letters.iter().map(|letter| (letter.partition, letter.offset)).collect()
}

async fn dead_of(world: &World, partition: i32) -> Intervals {
    world.ledger().await.partition(&at(partition)).unwrap().dead.clone()
}

fn offsets(offsets: &[i64]) -> Intervals {
    offsets.iter().map(|offset| Interval::new(*offset, *offset).unwrap()).collect()
}

/// The pipeline of a world under another mode.
fn in_mode(world: &World, mode: Mode) -> Fold {
    let mut pipeline = world.pipeline.as_ref().clone();
    pipeline.table.mode = mode;
    if mode == Mode::Append {
        pipeline.table.dedup_within = None;
    }
    Fold { pipeline: Arc::new(pipeline), ..world.fold() }
}

#[tokio::test]
async fn a_pipeline_that_becomes_dedup_goes_on_without_the_rows_that_have_no_event_time() {
    let world = world(1, Some(60), Late::Keep);
    stage(&world, &[(0, 0, 1, 0), (0, 1, 2, NONE)]);
    in_mode(&world, Mode::Append).run().await.unwrap();
    world.wait(1);
    let key = stage(&world, &[(0, 2, 1, 30), (0, 3, 3, NONE), (1, 0, 4, NONE), (1, 1, 5, 9)]);
    let before = world.store.objects().len();
    let dry = Fold { settings: Settings { dry_run: true, ..Settings::default() }, ..world.fold() };
    dry.run().await.unwrap();
    assert_eq!(world.store.objects().len(), before, "a dry run writes nothing");

    let report = world.fold().run().await.unwrap();
    let table = &report.tables[0];
    assert_eq!((table.rows_added, table.deduplicated, table.dead_letters, table.late), (1, 1, 2, 0));
    let found = letters(&world);
    assert_eq!(places(&found), [(0, 3), (1, 0)]);
    let letter = &found[0];
    assert_eq!((letter.class, letter.path.as_str(), letter.ordinal), (Class::MissingRequired, "at", Some(0)));
    assert_eq!((letter.timestamp_ms, letter.staged.as_ref(), &letter.source), (Some(3), Some(&key), &at(0).source));
    assert_eq!(serde_json::Value::from(letter.row.clone().unwrap()), json!({"id": 3, "at": null}));
    let ledger = world.ledger().await;
    assert_eq!((ledger.totals().dead, ledger.totals().rows_added), (2, 3));
    assert_eq!((dead_of(&world, 0).await, dead_of(&world, 1).await), (offsets(&[3]), offsets(&[0])));
    let snapshot = world.loaded().await.metadata.current_snapshot().unwrap().clone();
    assert_eq!(snapshot.summary().additional_properties["frazil.dead-letters"], "2");

    // The same rows again, cut elsewhere: nothing is new, so nothing is committed, and no letter is written twice.
    world.wait(1);
    stage(&world, &[(0, 2, 1, 30), (0, 3, 3, NONE)]);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].committed, report.tables[0].duplicates), (false, 2));
    assert_eq!(letters(&world), found);
    assert_eq!(world.ledger().await, ledger);

    // A good row at a dead coordinate enters, once.
    world.wait(1);
    for _ in 0..2 {
        stage(&world, &[(0, 3, 3, 40), (1, 0, 4, NONE)]);
        world.fold().run().await.unwrap();
        world.wait(1);
    }
    assert_eq!(held_but_nulls(&world).await, [(1, 0, 0, 0), (3, 40, 0, 3), (5, 9, 1, 1)]);
    assert_eq!((world.ledger().await.totals().dead, dead_of(&world, 0).await), (1, offsets(&[])));
    assert_eq!(letters(&world), found);
}

/// As [`held`], without the row of no event time that the table took in mode `append`.
async fn held_but_nulls(world: &World) -> Vec<(i64, i64, i32, i64)> {
    held(world).await.into_iter().filter(|row| row.0 != 2).collect()
}

#[tokio::test]
async fn late_rows_may_go_to_dead_letters_and_are_counted_as_late_and_dead() {
    let world = world(6, Some(60), Late::DeadLetter);
    stage(&world, &[(0, 0, 1, 0), (1, 0, 2, 0)]);
    world.fold().run().await.unwrap();
    world.wait(30);
    stage(&world, &[(0, 1, 3, 30), (1, 1, 4, 30)]);
    world.fold().run().await.unwrap();
    world.wait(5);
    // The watermark is at 30: event times below -30 are late.
    stage(&world, &[(0, 2, 5, -31), (0, 3, 6, -30), (1, 2, 7, -1_000_000_000), (1, 3, 8, 2_000_000_000)]);
    let report = world.fold().run().await.unwrap();
    let table = &report.tables[0];
    assert_eq!((table.late, table.late_dead, table.late_dropped, table.dead_letters), (2, 2, 0, 2));
    assert_eq!(table.rows_added, 2);
    let totals = world.ledger().await.totals();
    assert_eq!((totals.late, totals.late_kept, totals.late_dead, totals.dead), (0, 0, 2, 2));
    let found = letters(&world);
    assert_eq!(places(&found), [(0, 2), (1, 2)]);
    assert!(found.iter().all(|letter| letter.class == Class::Late && letter.path == "at"));
    assert_eq!(found[0].row.as_ref().unwrap()["at"], "2026-11-29T13:29:00.000000Z");
}

/// What is staged in the course of a day: minutes to wait, then rows. Event times lag behind by up to two lookbacks, some
/// are null; a third of the batches come again later, cut elsewhere; partition 2 is silent for hours.
fn day(seed: u64) -> Vec<(i64, Vec<Row>)> {
    let ids = SeededIds::new(seed);
    let chance = |n: u64| (ids.next_u64() % n) as i64;
    let mut next = [0i64; 3];
    let (mut key, mut minute) = (0, 0);
    let mut day: Vec<(i64, Vec<Row>)> = Vec::new();
    for step in 0..150 {
        let wait = chance(8);
        minute += wait;
        let mut rows = Vec::new();
        for partition in 0..3 {
            if partition == 2 && step % 50 > 12 {
                continue;
            }
            for _ in 0..chance(4) {
                key += 1;
                let time = if chance(12) == 0 { NONE } else { minute - chance(8) * chance(8) };
                rows.push((partition, next[partition as usize], key, time));
                next[partition as usize] += 1;
            }
        }
        day.push((wait, rows));
        if chance(3) == 0 {
            let (_, before) = day[chance(day.len() as u64) as usize].clone();
            let cut = chance(before.len() as u64 + 1) as usize;
            day.push((chance(2), before[cut..].to_vec()));
            minute += day.last().unwrap().0;
        }
    }
    day.retain(|(_, rows)| !rows.is_empty());
    day
}

/// What must not depend on the cut into folds.
#[derive(Debug, PartialEq)]
struct Outcome {
    table: Vec<(i64, i64, i32, i64)>,
    counts: Counts,
    dead: Vec<Intervals>,
    letters: Vec<DeadLetter>,
    watermark: Option<model::watermark::Watermark>,
}

impl Outcome {
    /// Which of two objects of one minute speaks for what both hold depends on where a budget cuts.
    fn unnamed(mut self) -> Self {
        self.letters.iter_mut().for_each(|letter| letter.staged = None);
        self
    }
}

async fn after(seed: u64, folds: usize, budget: Budget) -> Outcome {
    let world = world(seed, Some(10), Late::DeadLetter);
    let day = day(seed);
    let each = day.len().div_ceil(folds);
    for (n, (wait, rows)) in day.iter().enumerate() {
        world.wait(*wait);
        stage_as(
            &world,
            "cluster",
            rows,
            ObjectHash::new((n as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)),
        );
        if (n + 1) % each == 0 || n + 1 == day.len() {
            loop {
                let fold = Fold { settings: Settings { budget, ..Settings::default() }, ..world.fold() };
                let report = fold.run().await.unwrap();
                if report.objects_left == 0 {
                    break;
                }
                assert!(report.tables[0].committed, "{report:?}");
            }
        }
    }
    let ledger = world.ledger().await;
    let counts = Counts { duplicates: 0, ..ledger.totals() };
    let dead = (0..3).map(|n| ledger.partition(&at(n)).unwrap().dead.clone()).collect();
    Outcome { table: held(&world).await, counts, dead, letters: letters(&world), watermark: ledger.watermark }
}

#[tokio::test]
async fn one_fold_and_fifty_leave_the_same_table_counts_and_dead_letters() {
    let (mut late, mut missing) = (0, 0);
    for seed in 0..4 {
        let whole = after(seed, 1, Budget::default()).await;
        let sent: BTreeMap<(i32, i64), Row> =
            day(seed).into_iter().flat_map(|(_, rows)| rows).map(|row| ((row.0, row.1), row)).collect();
        // I5: every row that was sent is in the table, or has its letter.
        let in_table: BTreeSet<(i32, i64)> = whole.table.iter().map(|row| (row.2, row.3)).collect();
        let in_letters: BTreeSet<(i32, i64)> = places(&whole.letters).into_iter().collect();
        assert!(in_table.is_disjoint(&in_letters));
        assert_eq!(in_table.union(&in_letters).copied().collect::<Vec<_>>(), sent.keys().copied().collect::<Vec<_>>());
        assert_eq!(whole.counts.dead, in_letters.len() as u64);
        late += whole.counts.late_dead;
        missing += whole.letters.iter().filter(|letter| letter.class == Class::MissingRequired).count();
        for folds in [7, 50] {
            assert_eq!(after(seed, folds, Budget::default()).await, whole, "seed {seed}, {folds} folds");
        }
    }
    assert!(late > 50 && missing > 100, "{late} late, {missing} without an event time");
}

#[tokio::test]
async fn a_budget_that_cuts_changes_nothing_either() {
    for seed in 0..2 {
        let whole = after(seed, 1, Budget::default()).await.unnamed();
        for rows in [3, 20] {
            let budget = Budget { rows: Some(rows), ..Budget::default() };
            assert_eq!(after(seed, 3, budget).await.unnamed(), whole, "seed {seed}, {rows} rows at a time");
        }
    }
}

#[tokio::test]
async fn a_fold_killed_at_any_step_loses_and_doubles_no_letter() {
    for place in [Where::Store(Death::Before), Where::Store(Death::After), Where::Catalog, Where::File] {
        for step in 0.. {
            let world = world(step, Some(10), Late::DeadLetter);
            stage(&world, &[(0, 0, 1, 0), (1, 0, 2, 0), (1, 1, 3, NONE)]);
            world.fold().run().await.unwrap();
            world.wait(30);
            stage(&world, &[(0, 1, 4, 30), (1, 2, 5, 30)]);
            world.wait(1);
            stage(&world, &[(0, 2, 6, 30), (0, 3, 7, 2), (1, 3, 8, 0)]);
            stage(&world, &[(1, 1, 3, NONE)]);
            stage(&world, &[(1, 4, 9, NONE), (1, 5, 10, 19), (1, 6, 11, 20)]);
            let (died, _) = die(&world, place, step).await;
            // What a killed run left as letters stays, and the next run writes the same ones.
            let report = world.fold().run().await.unwrap();
            let what = format!("{place:?}, step {step}: {report:?}");
            let keys: Vec<i64> = held(&world).await.into_iter().map(|row| row.0).collect();
            assert_eq!(keys, [1, 2, 4, 5, 6, 11], "{what}");
            assert_eq!(places(&letters(&world)), [(0, 3), (1, 1), (1, 3), (1, 4), (1, 5)], "{what}");
            let totals = world.ledger().await.totals();
            assert_eq!((totals.rows_added, totals.dead, totals.late_dead), (6, 5, 3), "{what}");
            if !died {
                assert!(step > 1, "{what}");
                break;
            }
        }
    }
}

#[tokio::test]
async fn two_folds_at_once_write_one_letter_for_a_row() {
    for seed in 0..10 {
        let world = world(seed, Some(10), Late::DeadLetter);
        for (n, (wait, rows)) in day(seed).iter().take(40).enumerate() {
            world.wait(*wait);
            stage_as(&world, "cluster", rows, ObjectHash::new(n as u128));
            if n % 10 == 9 {
                let (left, right) = (world.fold(), world.fold());
                let (left, right) = tokio::join!(left.run(), right.run());
                left.unwrap();
                right.unwrap();
            }
        }
        let (table, dead) = (held(&world).await.len() as u64, letters(&world).len() as u64);
        let totals = world.ledger().await.totals();
        assert_eq!((totals.rows_added, totals.dead), (table, dead), "seed {seed}");
        assert!(dead > 0);
    }
}

#[tokio::test]
async fn a_later_object_of_the_same_fold_speaks_for_what_an_earlier_one_left_dead() {
    for at_once in [true, false] {
        let world = world(3, Some(60), Late::Keep);
        stage_as(&world, "cluster", &[(0, 0, 1, NONE), (0, 1, 2, NONE), (0, 2, 3, NONE)], ObjectHash::new(1));
        if !at_once {
            world.fold().run().await.unwrap();
        }
        // Decoded under another file: the first has its event time, the second still has none, and the third is filtered.
        stage_as(&world, "cluster", &[(0, 0, 1, 5), (0, 1, 2, NONE)], ObjectHash::new(3));
        let filtered =
            StagedKey { pipeline: world.id.clone(), minute: world.clock.now().minute(), hash: ObjectHash::new(2) };
        let (footer, rows) = invocation(&world.id, filtered.minute, &["0:2:f"]);
        world.store.insert(&filtered.to_string(), object::encode(&footer, &[rows]).unwrap());
        world.fold().run().await.unwrap();
        assert_eq!(held(&world).await, [(1, 5, 0, 0)]);
        let totals = world.ledger().await.totals();
        assert_eq!((totals.rows_added, totals.dead), (1, 1), "at once: {at_once}");
        assert_eq!(totals.filtered, BTreeMap::from([(Filtered::Tombstone, 1)]), "at once: {at_once}");
        assert_eq!(dead_of(&world, 0).await, offsets(&[1]));
        assert_eq!(places(&letters(&world)), [(0, 0), (0, 1), (0, 2)], "the first one's letters stay, superseded");
    }
}

/// Stages one object of `id`s of a type, all of partition 0.
fn stage_ids(world: &World, first: i64, data_type: &str, ids: ArrayRef, ordinals: &[i32]) {
    let minute = world.clock.now().minute();
    let key = StagedKey { pipeline: world.id.clone(), minute, hash: ObjectHash::new(first as u128) };
    // The offset goes on with each row of ordinal 0.
    let mut offset = first - 1;
    let mut record_columns = record_columns::Builder::new(minute, ids.len());
    record_columns.start("orders-eu", 0);
    for ordinal in ordinals {
        offset += i64::from(*ordinal == 0);
        record_columns.row(offset, record_columns::micros(offset), *ordinal);
    }
    let parts = format!("0:{first}:{}", "r".repeat((offset - first + 1) as usize));
    let (mut footer, rows) = invocation(&world.id, minute, &[&parts]);
    footer.columns[0].data_type = data_type.to_owned();
    footer.columns[0].required = ids.null_count() == 0;
    let mut fields = vec![Arc::new(Field::new("id", ids.data_type().clone(), ids.null_count() > 0))];
    fields.extend(record_columns::fields());
    let mut columns = vec![ids];
    columns.extend(record_columns.finish());
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    world.store.insert(&key.to_string(), object::encode(&footer, &[TableRows { batch, ..rows }]).unwrap());
}

async fn ids(world: &World) -> Vec<i32> {
    let io = storage::local();
    let plan = scan::plan(&world.loaded().await.metadata, &io, &Request::default()).await.unwrap();
    let batches: Vec<RecordBatch> = plan.execute(io).try_collect().await.unwrap();
    let mut ids: Vec<i32> =
        batches.iter().flat_map(|batch| batch["id"].as_primitive::<Int32Type>().values().to_vec()).collect();
    ids.sort_unstable();
    ids
}

/// Makes `id` one of the table's identifier fields, which another engine may do: it is never optional from then on.
async fn identify(world: &World) {
    let loaded = world.loaded().await;
    let schema = iceberg::spec::Schema::clone(loaded.metadata.current_schema());
    let id = schema.field_by_name("id").unwrap().id;
    let schema = schema.into_builder().with_schema_id(1).with_identifier_field_ids([id]).build().unwrap();
    let updates = vec![TableUpdate::AddSchema { schema }, TableUpdate::SetCurrentSchema { schema_id: -1 }];
    world.catalog.commit(&loaded, Vec::new(), updates).await.unwrap();
}

#[tokio::test]
async fn rows_that_do_not_fit_the_tables_column_leave_the_others_alone() {
    let world = World::new(4);
    stage_ids(&world, 0, "int", Arc::new(Int32Array::from(vec![1, 2])), &[0, 0]);
    world.fold().run().await.unwrap();
    world.wait(1);
    identify(&world).await;
    let some = Int32Array::from(vec![Some(3), None, Some(i32::MAX)]);
    stage_ids(&world, 2, "int", Arc::new(some), &[0, 0, 0]);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].dead_letters), (2, 1));
    assert_eq!(ids(&world).await, [1, 2, 3, i32::MAX]);
    let found = letters(&world);
    let seen: Vec<_> = found.iter().map(|l| (l.offset, l.class, l.path.as_str())).collect();
    assert_eq!(seen, [(3, Class::MissingRequired, "id")]);
    assert_eq!(world.ledger().await.totals().rows_added, 4);
    // A column of another kind is nobody's row's fault.
    world.wait(1);
    stage_ids(&world, 6, "string", Arc::new(arrow::array::StringArray::from(vec!["7"])), &[0]);
    let error = world.fold().run().await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("fold.column_unfit", model::failure::Kind::Misconfigured));
    assert!(error.to_string().contains("column `id` (from `id`) is string") && error.remedy().is_some(), "{error}");
}

#[tokio::test]
async fn a_record_of_several_rows_goes_whole() {
    let world = World::new(4);
    stage_ids(&world, 0, "int", Arc::new(Int32Array::from(vec![1])), &[0]);
    world.fold().run().await.unwrap();
    world.wait(1);
    identify(&world).await;
    let rows = Int32Array::from(vec![Some(2), Some(3), None, Some(4), Some(5), Some(6)]);
    stage_ids(&world, 1, "int", Arc::new(rows), &[0, 0, 1, 2, 0, 1]);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].dead_letters), (3, 1), "one record is dead");
    assert_eq!(ids(&world).await, [1, 2, 5, 6]);
    assert_eq!((dead_of(&world, 0).await, world.ledger().await.totals().rows_added), (offsets(&[2]), 4));
    let found = letters(&world);
    let seen: Vec<_> =
        found.iter().map(|l| (l.offset, l.ordinal.unwrap(), l.row.as_ref().unwrap()["id"].clone())).collect();
    assert_eq!(seen, [(2, 0, json!(3)), (2, 1, json!(null)), (2, 2, json!(4))]);
    assert!(found[0].message.starts_with("another row of its record"));
    assert!(found.iter().all(|letter| letter.class == Class::MissingRequired));
}

#[tokio::test]
async fn many_letters_are_cut_into_several_objects() {
    let world = world(5, Some(60), Late::Keep);
    let rows: Vec<Row> = (0..20_000).map(|n| (0, n, n, if n == 7 { 0 } else { NONE })).collect();
    stage(&world, &rows);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].dead_letters), (1, 19_999));
    let objects = world.store.objects();
    let sizes: Vec<usize> =
        objects.iter().filter(|(key, _)| key.starts_with("dead-letters/")).map(|(_, body)| body.len()).collect();
    assert!(sizes.len() > 1 && sizes.iter().all(|size| *size < 5 << 20), "{sizes:?}");
    assert_eq!(letters(&world).len(), 19_999);
}

#[tokio::test]
async fn a_letter_of_a_topic_made_again_names_its_source_as_kafka_has_it() {
    let world = world(97, Some(60), Late::Keep);
    stage(&world, &[(0, 0, 10, 0)]);
    world.fold().run().await.unwrap();
    let since = Some(world.clock.now().minute().plus(1));
    let reset = Reset { topic: "orders-eu".to_owned(), partition: None, since };
    let (plan, _) = world.fold().reset(&reset).await.unwrap();
    world.wait(1);
    stage(&world, &[(0, 0, 12, NONE)]);
    world.fold().run().await.unwrap();
    let found = letters(&world);
    assert_eq!(found[0].source, at(0).source);
    let anew = TopicPartition { source: plan.counts_as, ..at(0) };
    let dead = Coordinate { partition: anew.clone(), offset: 0 };
    assert!(world.ledger().await.partition(&anew).unwrap().dead.contains(dead.offset));
}

/// A record that was passed over comes when the settlement that listed it is gone: nobody can tell it from those around it
/// that entered. What younger settlements tell apart stays told apart.
#[tokio::test]
async fn rows_at_offsets_that_no_settlement_tells_of_any_more_are_stale() {
    let world = World::new(107);
    world.stage(&["0:0:rr"]);
    world.stage(&["0:3:rr"]);
    world.fold().run().await.unwrap();
    let oldest: Vec<String> = world.store.objects().into_keys().filter(|key| key.starts_with("settled/")).collect();
    for part in ["0:5:r", "0:7:r", "0:9:r"] {
        world.wait(20);
        world.stage(&[part]);
        world.fold().run().await.unwrap();
    }
    let before = (world.rows().await, world.ledger().await);
    assert_eq!(before.1.totals().undelivered, 3);
    let gone: Vec<_> = oldest.iter().map(|key| (key.clone(), world.store.objects()[key].clone())).collect();
    for key in &oldest {
        world.store.delete(key).await.unwrap();
    }
    world.wait(1);
    let again = world.stage(&["0:1:rrr"]);
    world.stage(&["0:6:rr"]);
    let report = world.fold().run().await.unwrap();
    let table = &report.tables[0];
    assert_eq!((table.rows_added, table.duplicates, table.stale, table.dead_letters), (1, 1, 3, 3));
    let found = letters(&world);
    let seen: Vec<_> = found.iter().map(|l| (l.offset, l.class, l.staged.as_deref() == Some(&*again))).collect();
    assert_eq!(seen, [(1, Class::Stale, true), (2, Class::Stale, true), (3, Class::Stale, true)]);
    let (rows, ledger) = (world.rows().await, world.ledger().await);
    assert_eq!(rows, wanted(&["0:0:rr.rrrrr.r"]));
    let at = at(0);
    assert_eq!(ledger.partition(&at).unwrap().reached, before.1.partition(&at).unwrap().reached);
    assert!(ledger.partition(&at).unwrap().dead.is_empty());
    assert!(!world.fold().run().await.unwrap().tables[0].committed, "once");
    // With the list back, the same record enters.
    for (key, body) in gone {
        world.store.insert(&key, body);
    }
    world.wait(1);
    world.stage(&["0:1:rrr"]);
    let table = &world.fold().run().await.unwrap().tables[0];
    assert_eq!((table.rows_added, table.duplicates, table.stale), (1, 2, 0));
    assert!(world.rows().await.contains(&(0, 2)));
}

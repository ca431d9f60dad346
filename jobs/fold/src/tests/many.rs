//! One pipeline, many tables: each is folded as if it were the only one.

use bytes::Bytes;
use iceberg::TableUpdate;
use model::failure::Kind;
use model::ledger::{self, Ledger};
use model::run::State;
use pipeline::route::{Part, Route};
use staging::key;
use table::catalog::TableCreation;
use table::schema;

use super::crashes::{Where, die};
use super::*;
use crate::rewind::{Choice, Target};

/// A pipeline whose records name their tables with a header. What is staged is written as elsewhere, with the table's name,
/// one of `a`, `b` and `c`, in place of `r`.
pub(super) fn world(seed: u64) -> World {
    let mut world = World::new(seed);
    let mut pipeline = pipeline();
    let route = Route { namespace: vec![Part::Text("db".to_owned())], name: vec![Part::Header("to".to_owned())] };
    pipeline.table.name = route.written();
    pipeline.route = Some(route);
    world.pipeline = Arc::new(pipeline);
    world
}

pub(super) fn table(name: &str) -> TableName {
    TableName { namespace: "db".to_owned(), name: name.to_owned() }
}

/// The parts as one table has them: its own rows, and those of others, which it knows nothing of but that they came.
fn own(parts: &[&str], name: char) -> Vec<String> {
    let of = |c: char| match c {
        'a'..='c' if c == name => 'r',
        'a'..='c' => 'f',
        other => other,
    };
    let own = |part: &&str| {
        let (place, what) = part.rsplit_once(':').unwrap();
        format!("{place}:{}", what.chars().map(of).collect::<String>())
    };
    parts.iter().map(own).collect()
}

pub(super) fn stage(world: &World, parts: &[&str]) -> String {
    let (key, body) = staged(world, parts, 0);
    world.store.insert(&key, body);
    key
}

/// An object, of records whose timestamps are so many milliseconds later.
pub(super) fn staged(world: &World, parts: &[&str], shift_ms: i64) -> (String, Bytes) {
    let key = StagedKey {
        pipeline: world.id.clone(),
        minute: world.clock.now().minute(),
        hash: ObjectHash::new((u128::from(world.ids.next_u64()) << 64) | u128::from(world.ids.next_u64())),
    };
    let any: Vec<String> = parts.iter().map(|part| part.replace(['a', 'b', 'c'], "r")).collect();
    let any: Vec<&str> = any.iter().map(String::as_str).collect();
    let (footer, _) = shifted(&world.id, key.minute, &any, shift_ms);
    let tables: Vec<TableRows> = ["a", "b", "c"]
        .into_iter()
        .map(|name| {
            let own = own(parts, name.chars().next().unwrap());
            let own: Vec<&str> = own.iter().map(String::as_str).collect();
            TableRows { table: format!("db.{name}"), ..shifted(&world.id, key.minute, &own, shift_ms).1 }
        })
        .filter(|rows| rows.batch.num_rows() > 0)
        .collect();
    (key.to_string(), object::encode(&footer, &tables).unwrap())
}

pub(super) async fn ledger_of(world: &World, name: &str) -> Ledger {
    let loaded = world.catalog.load(&table(name)).await.unwrap().unwrap();
    Ledger::from_json(&loaded.metadata.properties()[&ledger::property(&world.id)]).unwrap()
}

async fn snapshots(world: &World, name: &str) -> usize {
    world.catalog.load(&table(name)).await.unwrap().map_or(0, |loaded| loaded.metadata.snapshots().len())
}

/// Each table has its rows, and its ledger counts no more.
pub(super) async fn every_row_in_its_table(world: &World, parts: &[&str], what: &str) {
    for name in ["a", "b", "c"] {
        let own = own(parts, name.chars().next().unwrap());
        let own = wanted(&own.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(world.rows_of(&table(name)).await, own, "{what}: {name}");
        if !own.is_empty() {
            let totals = ledger_of(world, name).await.totals();
            assert_eq!(totals.rows_added, own.len() as u64, "{what}: {name}");
        }
    }
}

#[tokio::test]
async fn each_table_gets_its_rows_and_a_ledger_of_all_offsets() {
    let world = world(1);
    let parts = ["0:0:aabda.f", "1:10:ccc"];
    stage(&world, &parts);
    let report = world.fold().run().await.unwrap();
    assert_eq!(
        report.tables.iter().map(|t| (t.name.as_str(), t.rows_added)).collect::<Vec<_>>(),
        [("db.a", 3), ("db.b", 1), ("db.c", 3)]
    );
    assert!(report.tables.iter().all(|t| t.committed) && report.failures().next().is_none());
    assert_eq!((report.runs, report.staged_objects), (1, 1));
    every_row_in_its_table(&world, &parts, "").await;
    for name in ["a", "b", "c"] {
        let totals = ledger_of(&world, name).await.totals();
        assert_eq!((totals.dead, totals.undelivered, totals.filtered[&Filtered::Tombstone]), (1, 1, 1), "{name}");
    }
    let tables: Vec<String> = world.fold().tables().await.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(tables, ["db.a", "db.b", "db.c"]);
    let report = world.fold().run().await.unwrap();
    assert!(!report.tables.iter().any(|t| t.committed));
    assert_eq!((report.tables.len(), report.staged_objects), (3, 0));
}

#[tokio::test]
async fn a_table_without_rows_is_left_alone_and_catches_up_when_one_comes() {
    let world = world(2);
    stage(&world, &["0:0:ab"]);
    world.fold().run().await.unwrap();
    for n in 0..5 {
        world.wait(1);
        stage(&world, &[&format!("0:{}:a.d", 2 + 3 * n)]);
        let report = world.fold().run().await.unwrap();
        assert_eq!(report.tables.iter().map(|t| t.committed).collect::<Vec<_>>(), [true, false], "{n}");
        assert_eq!(report.staged_objects, 1, "what is settled is not looked at again");
    }
    assert_eq!((snapshots(&world, "a").await, snapshots(&world, "b").await), (6, 1));
    world.wait(1);
    stage(&world, &["0:17:b"]);
    world.fold().run().await.unwrap();
    // What was the other's is passed, and what was nobody's is known for it.
    let (a, b) = (ledger_of(&world, "a").await, ledger_of(&world, "b").await);
    assert_eq!((b.totals().rows_added, b.totals().dead, b.totals().undelivered), (2, 5, 5));
    assert_eq!(a.totals().rows_added, 6);
    assert_eq!(b.partitions().next().unwrap().1.reached.last(), Some(17));
}

#[tokio::test]
async fn a_table_without_rows_follows_after_an_hour() {
    let world = world(3);
    stage(&world, &["0:0:ab"]);
    world.fold().run().await.unwrap();
    for n in 0..4 {
        world.wait(16);
        stage(&world, &[&format!("0:{}:a", 2 + n)]);
        world.fold().run().await.unwrap();
    }
    assert_eq!((snapshots(&world, "a").await, snapshots(&world, "b").await), (5, 2));
    assert_eq!(ledger_of(&world, "b").await.partitions().next().unwrap().1.reached.last(), Some(5));
    assert_eq!(ledger_of(&world, "b").await.totals().rows_added, 1);
}

#[tokio::test]
async fn a_table_that_can_not_be_folded_holds_no_other_back_and_loses_nothing() {
    let world = world(4);
    // Made by somebody else.
    let columns =
        [table::schema::Column { name: "id".into(), data_type: "long".parse().unwrap(), required: true, doc: None }];
    let creation = TableCreation::new(
        schema::iceberg_schema(&crate::bind::table_columns(
            &world.pipeline.table,
            columns.into_iter().map(|c| (c.name, c.data_type, c.required)),
        ))
        .unwrap(),
        table::partition::spec(&Arc::new(schema::iceberg_schema(&[]).unwrap()), &[]).unwrap(),
        iceberg::spec::SortOrder::unsorted_order(),
        std::collections::HashMap::new(),
    );
    world.catalog.create(&table("b"), creation).await.unwrap();
    let parts = ["0:0:abab", "0:4:bbac", "0:8:aaaa"];
    for part in parts {
        stage(&world, &[part]);
        let report = world.fold().run().await.unwrap();
        let failures: Vec<_> = report.failures().collect();
        assert_eq!(failures.len(), 1);
        assert_eq!((failures[0].0, failures[0].1.code.as_str()), ("db.b", "fold.foreign_table"));
        assert_eq!(failures[0].1.kind, Kind::Misconfigured);
        let run = world.fold().last_run().await.unwrap().unwrap();
        assert_eq!(run.state, State::Failed);
        assert!(run.behind.contains("db.b") && run.failure.unwrap().message.starts_with("db.b: "));
        world.wait(10);
    }
    let without: Vec<String> = parts.iter().map(|part| part.replace('b', "f")).collect();
    every_row_in_its_table(&world, &without.iter().map(String::as_str).collect::<Vec<_>>(), "without b").await;
    // Given to us by whoever made it, an hour and more after its rows were staged, with nothing new.
    world.wait(50);
    let loaded = world.catalog.load(&table("b")).await.unwrap().unwrap();
    let updates = [(crate::MAPPING_VERSION.to_owned(), "1".to_owned())].into();
    let updates = vec![TableUpdate::SetProperties { updates }];
    world.catalog.commit(&loaded, Vec::new(), updates).await.unwrap();
    let report = world.fold().run().await.unwrap();
    assert_eq!(report.failures().count(), 0);
    every_row_in_its_table(&world, &parts, "with b").await;
    assert!(world.fold().last_run().await.unwrap().unwrap().behind.is_empty());
}

#[tokio::test]
async fn a_table_that_comes_later_begins_with_what_is_kept() {
    let world = world(5);
    let parts = ["0:0:a.da", "0:4:aa", "0:6:ca", "0:8:cb"];
    for part in parts {
        stage(&world, &[part]);
        world.fold().run().await.unwrap();
        world.wait(30);
    }
    every_row_in_its_table(&world, &parts, "").await;
    let (a, b) = (ledger_of(&world, "a").await, ledger_of(&world, "b").await);
    let (a, b) = (a.totals(), b.totals());
    assert_eq!((b.dead, b.undelivered), (1, 1));
    assert_eq!((a.dead, a.undelivered), (1, 1));
}

#[tokio::test]
async fn rows_of_a_table_that_the_pipeline_can_not_have_stop_it() {
    let world = world(6);
    stage(&world, &["0:0:ab"]);
    let mut other = (*world.pipeline).clone();
    let route = Route { namespace: vec![Part::Text("other".to_owned())], name: vec![Part::Topic] };
    other.table.name = route.written();
    other.route = Some(route);
    let fold = Fold { pipeline: Arc::new(other), ..world.fold() };
    let error = fold.run().await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Misconfigured, "fold.table_changed"));
    assert!(error.to_string().contains("db.a") && error.to_string().contains("other.{topic}"), "{error}");
    world.fold().run().await.unwrap();
    every_row_in_its_table(&world, &["0:0:ab"], "").await;
}

#[tokio::test]
async fn a_run_that_dies_between_tables_leaves_nothing_behind_that_is_not_found() {
    const PARTS: [&[&str]; 4] =
        [&["0:0:aadb", "1:0:b.c"], &["0:4:aca", "1:3:bbbb"], &["0:2:dbacaab"], &["1:7:fc", "2:100:aab"]];
    for place in [Where::Store(testkit::store_faulty::Death::After), Where::Catalog, Where::File] {
        for seed in 0..40 {
            let world = world(seed);
            let (before, after) = PARTS.split_at(if seed % 2 == 0 { 2 } else { 0 });
            for parts in before {
                stage(&world, parts);
            }
            if !before.is_empty() {
                world.fold().run().await.unwrap();
                world.wait(1);
            }
            for parts in after {
                stage(&world, parts);
            }
            let what = format!("{place:?}, seed {seed}");
            let _whatever = die(&world, place, seed / 2).await;
            let report = world.fold().run().await.unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(report.failures().count(), 0, "{what}");
            let parts: Vec<&str> = PARTS.concat();
            every_row_in_its_table(&world, &parts, &what).await;
        }
    }
}

#[tokio::test]
async fn two_runs_at_once_settle_each_table_once() {
    for seed in 0..10 {
        let world = world(seed);
        let mut parts = Vec::new();
        for round in 0..6 {
            let part = format!("0:{}:abc.ad", 6 * round);
            stage(&world, &[&part]);
            parts.push(part);
            let (left, right) = (world.fold(), world.fold());
            let (left, right) = tokio::join!(left.run(), right.run());
            let conflicts = left.unwrap().conflicts_retried + right.unwrap().conflicts_retried;
            assert!(round > 0 || conflicts > 0, "they did not meet");
            world.wait(1);
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        every_row_in_its_table(&world, &parts, &format!("seed {seed}")).await;
    }
}

#[tokio::test]
async fn a_dry_run_says_what_each_table_would_get_and_writes_nothing() {
    let world = world(7);
    stage(&world, &["0:0:aabd"]);
    let before = world.store.objects();
    let fold = Fold { settings: Settings { dry_run: true, ..Settings::default() }, ..world.fold() };
    let report = fold.run().await.unwrap();
    let found: Vec<_> = report.tables.iter().map(|t| (t.name.as_str(), t.rows_added, t.committed)).collect();
    assert_eq!(found, [("db.a", 2, false), ("db.b", 1, false)]);
    assert_eq!(world.store.objects(), before);
}

/// A catalog that answers the first commit of table `b` with silence, and has not made it. Meanwhile something is stored.
#[derive(Debug)]
struct Silent {
    inner: Arc<dyn Catalog>,
    store: Arc<MemoryStore>,
    stored: Vec<(String, Bytes)>,
    done: std::sync::atomic::AtomicBool,
}

impl Silent {
    fn fold(world: &World, stored: Vec<(String, Bytes)>) -> Fold {
        let (inner, store, done) = (world.catalog.clone(), world.store.clone(), false.into());
        world.fold_with(store.clone(), Arc::new(Self { inner, store, stored, done }), storage::local())
    }
}

#[async_trait::async_trait]
impl Catalog for Silent {
    async fn load(&self, table: &TableName) -> Result<Option<Loaded>, table::catalog::Error> {
        self.inner.load(table).await
    }
    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<Loaded, table::catalog::Error> {
        self.inner.create(table, creation).await
    }
    async fn commit(
        &self,
        base: &Loaded,
        requirements: Vec<iceberg::TableRequirement>,
        updates: Vec<TableUpdate>,
    ) -> Result<Loaded, table::catalog::Error> {
        if base.name.name == "b" && !self.done.swap(true, std::sync::atomic::Ordering::SeqCst) {
            for (key, body) in &self.stored {
                self.store.insert(key, body.clone());
            }
            let (table, detail) = (base.name.clone(), "no answer".to_owned());
            return Err(table::catalog::Error::OutcomeUnknown { table, detail, source: None });
        }
        self.inner.commit(base, requirements, updates).await
    }
    async fn list_namespaces(&self) -> Result<Vec<String>, table::catalog::Error> {
        self.inner.list_namespaces().await
    }
    async fn list_tables(&self, namespace: &str) -> Result<Vec<TableName>, table::catalog::Error> {
        self.inner.list_tables(namespace).await
    }
}

#[tokio::test]
async fn what_one_table_alone_has_seen_the_next_run_folds_into_the_others() {
    let world = world(8);
    let parts = ["0:0:abc", "0:3:abc", "0:6:abca"];
    stage(&world, &parts[..1]);
    world.fold().run().await.unwrap();
    world.wait(1);
    stage(&world, &parts[1..2]);
    // The first table is done with its listing by then, and the second one lists anew.
    let later = staged(&world, &parts[2..], 0);
    Silent::fold(&world, vec![later]).run().await.unwrap();
    assert_eq!(ledger_of(&world, "b").await.partitions().next().unwrap().1.reached.last(), Some(9));
    world.fold().run().await.unwrap();
    every_row_in_its_table(&world, &parts, "").await;
}

#[tokio::test]
async fn runs_that_meet_leave_no_table_out_of_the_note() {
    let world = world(9);
    stage(&world, &["0:0:abc"]);
    world.fold().run().await.unwrap();
    world.wait(1);
    stage(&world, &["0:3:bb"]);
    // Another run that could not fold `c` ends before this one does.
    let mut other = world.fold().last_run().await.unwrap().unwrap();
    other.started = world.clock.now();
    other.behind.insert("db.c".to_owned());
    let note = (key::run(&world.id, "fold"), Bytes::from(serde_json::to_vec(&other).unwrap()));
    Silent::fold(&world, vec![note]).run().await.unwrap();
    assert!(world.fold().last_run().await.unwrap().unwrap().behind.contains("db.c"));
}

#[tokio::test]
async fn a_table_that_went_back_is_folded_by_the_next_run() {
    let world = world(10);
    let parts = ["0:0:ab", "0:2:ab", "0:4:a"];
    for part in parts {
        stage(&world, &[part]);
        world.fold().run().await.unwrap();
        world.wait(2);
    }
    let loaded = world.catalog.load(&table("b")).await.unwrap().unwrap();
    let before = table::snapshot::ancestry(&loaded.metadata).nth(1).unwrap().snapshot_id();
    let fold = world.fold().of(&table("b"));
    fold.rollback(Target::Snapshot(before)).await.unwrap();
    fold.recover(Choice::Refold).await.unwrap();
    let report = world.fold().run().await.unwrap();
    assert_eq!(report.tables.iter().map(|t| t.rows_added).collect::<Vec<_>>(), [0, 1]);
    every_row_in_its_table(&world, &parts, "").await;
}

use model::clock::ManualClock;
use model::id::SeededIds;

use iceberg::TableUpdate;

use super::super::metadata::tests::{creation, time};
use super::super::{Catalog as _, TableName, check_name};
use super::*;
use crate::storage;

async fn open(folder: &Path, seed: u64) -> Result<SqliteCatalog, Error> {
    let warehouse = storage::location_of(&folder.join("warehouse")).unwrap();
    let (clock, ids) = (Arc::new(ManualClock::new(time(0))), Arc::new(SeededIds::new(seed)));
    SqliteCatalog::open(&folder.join("catalog.db"), &warehouse, storage::local(), clock, ids).await
}

fn name(name: &str) -> TableName {
    TableName { namespace: "ns".to_owned(), name: name.to_owned() }
}

fn set(value: &str) -> Vec<TableUpdate> {
    vec![TableUpdate::SetProperties { updates: [("k".to_owned(), value.to_owned())].into() }]
}

#[tokio::test]
async fn a_catalog_of_the_first_layout_is_used_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let raw = Connection::open(dir.path().join("catalog.db")).unwrap();
    raw.execute_batch(&LAYOUT.join(";").replace("iceberg_type VARCHAR(5),", "")).unwrap();
    let catalog = open(dir.path(), 1).await.unwrap();
    assert_eq!(catalog.layout, Layout::V0);
    let base = catalog.create(&name("t"), creation()).await.unwrap();
    let after = catalog.commit(&base, vec![], set("1")).await.unwrap();
    assert_eq!(catalog.load(&name("t")).await.unwrap().unwrap().metadata_location, after.metadata_location);
    assert_eq!(catalog.list_tables("ns").await.unwrap(), [name("t")]);
}

#[tokio::test]
async fn rows_are_those_of_the_shared_layout_and_views_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path(), 1).await.unwrap();
    let base = catalog.create(&name("t"), creation()).await.unwrap();
    let after = catalog.commit(&base, vec![], set("1")).await.unwrap();

    let raw = Connection::open(dir.path().join("catalog.db")).unwrap();
    let row: [Option<String>; 6] = raw
        .query_row("SELECT * FROM iceberg_tables", [], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?])
        })
        .unwrap();
    let text = |s: &str| Some(s.to_owned());
    let expected = [
        text("frazil"),
        text("ns"),
        text("t"),
        Some(after.metadata_location.clone()),
        Some(base.metadata_location),
        text("TABLE"),
    ];
    assert_eq!(row, expected);
    assert_eq!(raw.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0)).unwrap(), "delete");

    raw.execute("INSERT INTO iceberg_tables VALUES ('frazil', 'ns', 'v', 'file:///v', NULL, 'VIEW')", []).unwrap();
    raw.execute("INSERT INTO iceberg_tables VALUES ('other', 'ns', 'o', 'file:///o', NULL, NULL)", []).unwrap();
    assert!(catalog.load(&name("v")).await.unwrap().is_none());
    assert!(catalog.load(&name("o")).await.unwrap().is_none());
    assert_eq!(catalog.list_tables("ns").await.unwrap(), [name("t")]);
    let refused = catalog.create(&name("v"), creation()).await.unwrap_err();
    assert!(matches!(refused, Error::AlreadyExists { .. }), "{refused}");

    raw.execute("UPDATE iceberg_tables SET iceberg_type = 'VIEW' WHERE table_name = 't'", []).unwrap();
    assert_eq!(catalog.commit(&after, vec![], set("2")).await.unwrap_err().kind(), Kind::Conflict);
}

#[tokio::test]
async fn a_late_plan_writes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path(), 1).await.unwrap();
    let base = catalog.create(&name("t"), creation()).await.unwrap();
    catalog.commit(&base, vec![], set("1")).await.unwrap();
    let files = || std::fs::read_dir(dir.path().join("warehouse/ns/t/metadata")).unwrap().count();
    let before = files();
    assert_eq!(catalog.commit(&base, vec![], set("2")).await.unwrap_err().kind(), Kind::Conflict);
    assert!(matches!(catalog.create(&name("t"), creation()).await.unwrap_err(), Error::AlreadyExists { .. }));
    assert_eq!(files(), before);
}

#[tokio::test]
async fn what_is_wrong_with_the_file_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("catalog.db"), b"this is certainly no database, whatever its name may say").unwrap();
    assert_eq!(open(dir.path(), 1).await.unwrap_err().kind(), Kind::Corrupt);

    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("catalog.db")).unwrap();
    assert_eq!(open(dir.path(), 1).await.unwrap_err().kind(), Kind::Misconfigured);

    let dir = tempfile::tempdir().unwrap();
    let raw = Connection::open(dir.path().join("catalog.db")).unwrap();
    raw.execute_batch("CREATE TABLE iceberg_tables (a); CREATE TABLE iceberg_namespace_properties (b)").unwrap();
    let foreign = open(dir.path(), 1).await.unwrap();
    assert_eq!(foreign.load(&name("t")).await.unwrap_err().kind(), Kind::Corrupt);
}

#[tokio::test]
async fn a_full_disk_a_held_file_and_a_read_only_catalog_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path(), 1).await.unwrap();
    let base = catalog.create(&name("t"), creation()).await.unwrap();
    let raw = Connection::open(dir.path().join("catalog.db")).unwrap();
    let unchanged = async || {
        let now = catalog.load(&name("t")).await.unwrap().unwrap();
        assert_eq!(now.metadata_location, base.metadata_location);
    };

    catalog.driver.connection.lock().unwrap().busy_timeout(Duration::from_millis(1)).unwrap();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(catalog.commit(&base, vec![], set("1")).await.unwrap_err().kind(), Kind::Retry);
    raw.execute_batch("ROLLBACK").unwrap();
    unchanged().await;

    catalog.driver.connection.lock().unwrap().pragma_update(None, "query_only", true).unwrap();
    assert_eq!(catalog.commit(&base, vec![], set("1")).await.unwrap_err().kind(), Kind::Misconfigured);
    catalog.driver.connection.lock().unwrap().pragma_update(None, "query_only", false).unwrap();
    unchanged().await;

    // A page limit at the present size is what a full disk looks like: the next page can't be had.
    let pages: i64 = raw.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    catalog
        .driver
        .connection
        .lock()
        .unwrap()
        .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
        .unwrap();
    let mut kinds = Vec::new();
    for n in 0..100 {
        match catalog.create(&name(&format!("{}{n}", "x".repeat(200))), creation()).await {
            Ok(_) => {}
            Err(e) => kinds.push(e.kind()),
        }
    }
    assert!(!kinds.is_empty() && kinds.iter().all(|kind| *kind == Kind::Misconfigured), "{kinds:?}");
    unchanged().await;
    catalog.commit(&base, vec![], set("1")).await.unwrap();
}

#[tokio::test]
async fn a_location_that_the_layout_has_no_room_for_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path(), 1).await.unwrap();
    let mut long = creation();
    let folder = storage::location_of(&dir.path().join("far")).unwrap();
    long.location = Some(format!("{folder}{}", "/x".repeat(500)));
    let refused = catalog.create(&name("t"), long).await.unwrap_err();
    assert_eq!((refused.kind(), refused.remedy().is_some()), (Kind::Misconfigured, true), "{refused}");
    assert!(!dir.path().join("far").exists());
    assert!(catalog.load(&name("t")).await.unwrap().is_none());
}

#[test]
fn names_that_would_be_read_as_something_else_are_refused() {
    let check = |part: &str, ok: bool| {
        let with = |namespace: &str, name: &str| TableName { namespace: namespace.to_owned(), name: name.to_owned() };
        assert_eq!(check_name(&with(part, "t")).is_ok(), ok, "namespace {part:?}");
        assert_eq!(check_name(&with("ns", part)).is_ok(), ok, "table {part:?}");
    };
    for good in ["t", "T_1", "a-b", "_x", "0", &"x".repeat(255)] {
        check(good, true);
    }
    for bad in [
        "",
        ".",
        "..",
        "a.b",
        "a/b",
        "a\\b",
        "a b",
        "a%20b",
        "a?b",
        "a#b",
        "a\"b",
        "a'b",
        "-a",
        "é",
        "a\0b",
        &"x".repeat(256),
    ] {
        check(bad, false);
    }
}

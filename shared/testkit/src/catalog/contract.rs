//! What every catalog keeps, as checks that run on any of them. Each makes its own table.

mod race;
mod refused;
mod results;
mod wired;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, NestedField, PartitionSpec, PrimitiveType, Schema, SortOrder,
    Type,
};
use iceberg::{TableRequirement, TableUpdate};
use model::clock::Timestamp;
use model::failure::Kind;
use model::id::{Ids, SeededIds};
use table::catalog::{Catalog, Error, Loaded, TableCreation, TableName};
use table::snapshot::{self, Change, NewFile, Prepared, Terms};
use tokio::task::JoinSet;

use super::wire::{Refusal, Wire};

pub use results::{Results, Verdict};

/// A catalog under test.
#[async_trait]
pub trait Bench: Send + Sync {
    /// A handle of its own on the one catalog, as another process would open it.
    async fn open(&self) -> Arc<dyn Catalog>;

    /// The files of the catalog's tables.
    fn io(&self) -> FileIO;

    /// Whether a commit is compared with the whole of what was loaded. Where it is with its requirements alone, somebody else's change
    /// that none of them tells of stays beside it.
    fn swaps_exactly(&self) -> bool {
        true
    }

    /// The namespace to make tables in, which may be there already.
    fn namespace(&self) -> String {
        "contract".to_owned()
    }

    /// How it speaks with its service; nothing where there is none.
    fn wire(&self) -> Option<Wire> {
        None
    }

    /// As [`Bench::open`], with the service at this address. Of a catalog that has a [`Bench::wire`].
    async fn through(&self, _service: SocketAddr) -> Option<Arc<dyn Catalog>> {
        None
    }

    /// A handle whose changes the service refuses so, where its wire can't say it alone.
    async fn refusing(&self, _refusal: Refusal) -> Option<Arc<dyn Catalog>> {
        None
    }

    /// Takes a table out of the catalog, as somebody else would. False where there is no way to.
    async fn forget(&self, _table: &TableName) -> bool {
        false
    }
}

/// Runs every check.
///
/// # Panics
/// Where the catalog breaks the contract.
pub async fn run(bench: &dyn Bench) {
    check(bench).await.assert_kept();
}

/// As [`run`]. Where the variable `FRAZIL_TEST_CONTRACT` names a file, what each check found is added to it under the catalog's name.
///
/// # Panics
/// As [`run`], and where the file can't be written.
#[expect(clippy::disallowed_methods, clippy::expect_used, reason = "how ./test is told what its tests found")]
pub async fn kept(bench: &dyn Bench, catalog: &str) {
    let results = check(bench).await;
    if let Some(file) = std::env::var_os("FRAZIL_TEST_CONTRACT") {
        results.append_to(file.as_ref(), catalog).expect("the file of results is written");
    }
    results.assert_kept();
}

/// Runs every check, and says of each property whether it is kept.
pub async fn check(bench: &dyn Bench) -> Results {
    let mut results = Results::default();
    results.of("create", made_once(bench)).await;
    results.of("created at once", made_by_one_of_many(bench)).await;
    results.of("load", missing_is_nothing(bench)).await;
    results.of("swap", swaps_only_what_was_loaded(bench)).await;
    results.of("requirements", requirements_are_checked(bench)).await;
    results.of("properties", properties_are_set_and_unset(bench)).await;
    results.of("big property", big_properties_are_kept(bench)).await;
    results.of("names", odd_names_are_refused(bench)).await;
    results.of("schema race", race::schemas(bench)).await;
    results.of("foreign commit", race::foreign_commits(bench)).await;
    results.of("lost before", wired::lost_before(bench)).await;
    results.of("lost after", wired::lost_after(bench)).await;
    results.of("landing late", wired::late(bench)).await;
    results.of("throttled", refused::refused(bench, Refusal::Throttled)).await;
    results.of("denied", refused::refused(bench, Refusal::Denied)).await;
    results.of("recreated", race::made_again(bench)).await;
    results.of("O-33", race::no_update_is_lost(bench)).await;
    results
}

/// An unpartitioned table of one column.
#[must_use]
#[expect(clippy::expect_used, reason = "a constant definition")]
pub fn creation() -> TableCreation {
    let schema = Schema::builder()
        .with_fields([NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long)).into()])
        .build()
        .expect("one column");
    TableCreation::new(schema, PartitionSpec::unpartition_spec(), SortOrder::unsorted_order(), HashMap::new())
}

/// A data file of `records` rows that nobody reads.
#[must_use]
#[expect(clippy::expect_used, reason = "all required members are given")]
pub fn file(path: String, records: u64) -> NewFile {
    let file = DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(path)
        .file_format(DataFileFormat::Parquet)
        .record_count(records)
        .file_size_in_bytes(records * 8)
        .build()
        .expect("a data file");
    NewFile { spec_id: 0, file }
}

/// Terms without properties, at the table's own time.
#[must_use]
pub fn terms(base: &Loaded) -> Terms {
    let time = Timestamp::from_millis(base.metadata.last_updated_ms());
    Terms { time, summary: BTreeMap::new(), properties: BTreeMap::new() }
}

/// One commit of an attempt.
///
/// # Errors
/// The catalog's.
pub async fn commit(catalog: &dyn Catalog, base: &Loaded, attempt: &Prepared) -> Result<Loaded, Error> {
    catalog.commit(base, attempt.requirements().to_vec(), attempt.updates().to_vec()).await
}

/// Paths of the live files of a table's head, repeats included, sorted.
///
/// # Panics
/// Where manifests can't be read.
#[expect(clippy::expect_used, reason = "an unreadable table is the test's failure")]
pub async fn live_files(table: &Loaded, io: &FileIO) -> Vec<String> {
    let mut paths = Vec::new();
    let Some(head) = table.metadata.current_snapshot() else { return paths };
    for list in snapshot::manifests(&table.metadata, head, io).await.expect("the manifest list is readable") {
        let manifest = list.load_manifest(io).await.expect("the manifest is readable");
        paths.extend(manifest.entries().iter().filter(|e| e.is_alive()).map(|e| e.file_path().to_owned()));
    }
    paths.sort();
    paths
}

async fn made(bench: &dyn Bench, name: &str) -> (Arc<dyn Catalog>, TableName, Loaded) {
    let catalog = bench.open().await;
    let name = TableName { namespace: bench.namespace(), name: name.to_owned() };
    let table = catalog.create(&name, creation()).await;
    let table = table.unwrap_or_else(|e| panic_with("create", &e));
    (catalog, name, table)
}

#[expect(clippy::panic, reason = "a broken contract fails the test that runs it")]
fn panic_with<T>(doing: &str, error: &Error) -> T {
    panic!("{doing}: {error} ({})", error.kind())
}

async fn load(catalog: &dyn Catalog, name: &TableName) -> Loaded {
    match catalog.load(name).await {
        Ok(Some(table)) => table,
        Ok(None) => panic_with("load", &Error::failed(Kind::Bug, format!("{name} is gone"))),
        Err(e) => panic_with("load", &e),
    }
}

fn kind_of(outcome: Result<Loaded, Error>) -> Option<Kind> {
    outcome.err().map(|e| e.kind())
}

fn set(key: &str, value: &str) -> Vec<TableUpdate> {
    vec![TableUpdate::SetProperties { updates: [(key.to_owned(), value.to_owned())].into() }]
}

async fn made_once(bench: &dyn Bench) -> Verdict {
    let (catalog, name, table) = made(bench, "made_once").await;
    for handle in [catalog, bench.open().await] {
        let again = handle.create(&name, creation()).await;
        assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
        let loaded = load(handle.as_ref(), &name).await;
        assert_eq!(loaded.metadata_location, table.metadata_location);
        assert_eq!(loaded.metadata, table.metadata);
        assert_eq!(loaded.name, name);
    }
    let catalog = bench.open().await;
    let tables = catalog.list_tables(&name.namespace).await.unwrap_or_default();
    assert!(tables.contains(&name), "{tables:?}");
    assert!(tables.is_sorted(), "{tables:?}");
    let namespaces = catalog.list_namespaces().await.unwrap_or_default();
    assert!(namespaces.contains(&name.namespace), "{namespaces:?}");
    Verdict::Kept
}

/// Of many that make one table at once, one makes it and the others are told.
async fn made_by_one_of_many(bench: &dyn Bench) -> Verdict {
    let catalog = bench.open().await;
    let race = TableName { namespace: bench.namespace(), name: "race".to_owned() };
    let mut makers = JoinSet::new();
    for _ in 0..8 {
        let (catalog, race) = (bench.open().await, race.clone());
        makers.spawn(async move { catalog.create(&race, creation()).await });
    }
    let mut winners = Vec::new();
    while let Some(maker) = makers.join_next().await {
        match maker {
            Ok(Ok(table)) => winners.push(table.metadata_location),
            Ok(Err(Error::AlreadyExists { .. })) => {}
            Ok(Err(e)) => panic_with("create in a race", &e),
            Err(e) => panic_with("create in a race", &Error::caused(Kind::Bug, "task", e)),
        }
    }
    assert_eq!(winners, [load(catalog.as_ref(), &race).await.metadata_location]);
    Verdict::Kept
}

async fn missing_is_nothing(bench: &dyn Bench) -> Verdict {
    let catalog = bench.open().await;
    for namespace in [bench.namespace(), "no_such_namespace".to_owned()] {
        let name = TableName { namespace, name: "never_made".to_owned() };
        match catalog.load(&name).await {
            Ok(found) => assert!(found.is_none(), "{name}"),
            Err(e) => panic_with("load a missing table", &e),
        }
    }
    match catalog.list_tables("no_such_namespace").await {
        Ok(tables) => assert!(tables.is_empty(), "{tables:?}"),
        Err(e) => panic_with("list a missing namespace", &e),
    }
    Verdict::Kept
}

async fn swaps_only_what_was_loaded(bench: &dyn Bench) -> Verdict {
    let (first, name, base) = made(bench, "swaps").await;
    let second = bench.open().await;
    let stale = load(second.as_ref(), &name).await;
    let after = match first.commit(&base, vec![], set("by", "first")).await {
        Ok(after) => after,
        Err(e) => panic_with("commit", &e),
    };
    if !bench.swaps_exactly() {
        assert_eq!(kind_of(second.commit(&stale, vec![], set("with", "second")).await), None);
        let now = load(second.as_ref(), &name).await;
        let of = |key: &str| now.metadata.properties().get(key).map(String::as_str);
        assert_eq!((of("by"), of("with")), (Some("first"), Some("second")));
        return Verdict::Otherwise("requirements alone");
    }
    // Without a requirement too: what was loaded is the requirement.
    assert_eq!(kind_of(second.commit(&stale, vec![], set("by", "second")).await), Some(Kind::Conflict));
    assert_eq!(kind_of(first.commit(&base, vec![], set("by", "first again")).await), Some(Kind::Conflict));
    let now = load(second.as_ref(), &name).await;
    assert_eq!(now.metadata_location, after.metadata_location);
    assert_eq!(now.metadata.properties().get("by").map(String::as_str), Some("first"));
    assert_eq!(kind_of(second.commit(&now, vec![], set("by", "second")).await), None);
    Verdict::Kept
}

async fn requirements_are_checked(bench: &dyn Bench) -> Verdict {
    let (catalog, name, base) = made(bench, "requirements").await;
    let main = |snapshot_id| TableRequirement::RefSnapshotIdMatch { r#ref: "main".to_owned(), snapshot_id };
    for requirement in [
        main(Some(1)),
        TableRequirement::LastAssignedFieldIdMatch { last_assigned_field_id: 9 },
        TableRequirement::CurrentSchemaIdMatch { current_schema_id: 9 },
        TableRequirement::NotExist,
    ] {
        let outcome = catalog.commit(&base, vec![requirement.clone()], set("a", "1")).await;
        assert_eq!(kind_of(outcome), Some(Kind::Conflict), "{requirement:?}");
    }
    assert_eq!(load(catalog.as_ref(), &name).await.metadata_location, base.metadata_location);
    let met = vec![TableRequirement::UuidMatch { uuid: base.metadata.uuid() }, main(None)];
    assert_eq!(kind_of(catalog.commit(&base, met, set("a", "1")).await), None);
    Verdict::Kept
}

async fn properties_are_set_and_unset(bench: &dyn Bench) -> Verdict {
    let (catalog, name, base) = made(bench, "properties").await;
    // With what JSON and SQL quote.
    let odd = "{\"a\": \"'é\u{1F9CA}\\\n\"}";
    let updates = [set("frazil.ledger.p-12345678", odd), set("b", "2")].concat();
    assert_eq!(kind_of(catalog.commit(&base, vec![], updates).await), None);
    let table = load(bench.open().await.as_ref(), &name).await;
    assert_eq!(table.metadata.properties().get("frazil.ledger.p-12345678").map(String::as_str), Some(odd));
    let unset = vec![TableUpdate::RemoveProperties { removals: vec!["b".to_owned(), "never set".to_owned()] }];
    assert_eq!(kind_of(catalog.commit(&table, vec![], unset).await), None);
    let table = load(bench.open().await.as_ref(), &name).await;
    assert_eq!(table.metadata.properties().get("b"), None);
    assert_eq!(table.metadata.properties().len(), base.metadata.properties().len() + 1);
    Verdict::Kept
}

/// A ledger as long as it may be (16 KiB), and what others keep of a megabyte: both are in the table's metadata, whatever the catalog's
/// entries have room for.
async fn big_properties_are_kept(bench: &dyn Bench) -> Verdict {
    let (catalog, name, base) = made(bench, "big").await;
    let of = |bytes: usize| "{\"a\": \"'é\u{1F9CA}\\\n\"}".chars().cycle().take(bytes / 2).collect::<String>();
    let (ledger, theirs) = (of(16 << 10), of(1 << 20));
    let updates = [set("frazil.ledger.p-12345678", &ledger), set("theirs", &theirs)].concat();
    assert_eq!(kind_of(catalog.commit(&base, vec![], updates).await), None);
    let table = load(bench.open().await.as_ref(), &name).await;
    let property = |key: &str| table.metadata.properties().get(key);
    assert!(property("frazil.ledger.p-12345678") == Some(&ledger) && property("theirs") == Some(&theirs));
    Verdict::Kept
}

async fn odd_names_are_refused(bench: &dyn Bench) -> Verdict {
    let catalog = bench.open().await;
    for name in ["", "a.b", "a/b", "..", "a b", "a\"b", "a'; DROP TABLE iceberg_tables; --", "a%2Fb"] {
        let name = TableName { namespace: bench.namespace(), name: name.to_owned() };
        let outcome = catalog.create(&name, creation()).await;
        assert_eq!(kind_of(outcome), Some(Kind::Misconfigured), "{name}");
    }
    Verdict::Kept
}

/// Many writers append at once, each through its own handle: nothing is lost, nothing is twice, one line of ancestry.
async fn writers_form_one_line(bench: &dyn Bench, writers: usize, appends: usize) {
    let (catalog, name, base) = made(bench, "writers").await;
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        let (catalog, io, name) = (bench.open().await, bench.io(), name.clone());
        tasks.spawn(async move {
            let ids = SeededIds::new(0xF00D + writer as u64);
            for n in 0..appends {
                append(catalog.as_ref(), &io, &name, &format!("w{writer}-{n}"), &ids).await;
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        assert!(task.is_ok(), "a writer failed");
    }
    let table = load(catalog.as_ref(), &name).await;
    let expected: BTreeSet<_> = (0..writers)
        .flat_map(|writer| (0..appends).map(move |n| format!("w{writer}-{n}")))
        .map(|file| format!("{}/data/{file}.parquet", base.metadata.location()))
        .collect();
    let live = live_files(&table, &bench.io()).await;
    assert_eq!(live.len(), writers * appends);
    assert_eq!(live.into_iter().collect::<BTreeSet<_>>(), expected);

    let line: Vec<_> = snapshot::ancestry(&table.metadata).collect();
    assert_eq!(line.len(), writers * appends);
    assert_eq!(table.metadata.snapshots().len(), writers * appends, "no snapshot stands beside the line");
    assert_eq!(line.last().and_then(|oldest| oldest.parent_snapshot_id()), None);
    for (age, snapshot) in line.iter().enumerate() {
        let number = i64::try_from(line.len() - age).unwrap_or(-1);
        assert_eq!(snapshot.sequence_number(), number);
        let total = snapshot.summary().additional_properties.get("total-data-files");
        assert_eq!(total, Some(&number.to_string()));
    }
}

/// Appends one file, planning anew against whatever came in between.
async fn append(catalog: &dyn Catalog, io: &FileIO, name: &TableName, file_name: &str, ids: &dyn Ids) {
    let mut base = load(catalog, name).await;
    let path = format!("{}/data/{file_name}.parquet", base.metadata.location());
    let written = snapshot::plan(&base, Change::append(vec![file(path, 10)]));
    let mut attempt = match written {
        Ok(plan) => match plan.write(io, ids).await {
            Ok(written) => written.attach(&base, terms(&base), io, ids).await,
            Err(e) => Err(e),
        },
        Err(e) => Err(e),
    };
    // Each round somebody's commit goes through, so a writer waits for at most all the others' commits.
    for round in 1..10_000 {
        let prepared = match attempt {
            Ok(prepared) => prepared,
            Err(e) => return panic_with("prepare", &Error::caused(e.kind(), "attempt", e)),
        };
        match commit(catalog, &base, &prepared).await {
            Ok(_) => return,
            Err(e) if matches!(e.kind(), Kind::Conflict | Kind::Retry) => {}
            Err(e) => return panic_with("commit", &e),
        }
        // As writers do: the more rounds were lost, the longer the pause, so that most attempts meet nobody.
        let pause = ids.next_u64() % (4 * round).min(100);
        tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
        base = load(catalog, name).await;
        attempt = prepared.rebase(&base, terms(&base), io, ids).await;
    }
    panic_with("commit", &Error::failed(Kind::Bug, format!("{file_name} never got its turn")))
}

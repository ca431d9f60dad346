//! Commits that take rows away.

use super::*;

fn path(name: &str) -> String {
    format!("file:///w/ns/t/data/{name}")
}

/// Deletes of so many rows of a data file.
fn deletes(name: &str, of: &str, partition: &str, rows: u64) -> NewFile {
    let file = DataFileBuilder::default()
        .content(DataContentType::PositionDeletes)
        .file_path(path(name))
        .file_format(DataFileFormat::Parquet)
        .partition(Struct::from_iter([Some(Literal::string(partition))]))
        .record_count(rows)
        .file_size_in_bytes(rows)
        .referenced_data_file(Some(path(of)))
        .build()
        .unwrap();
    NewFile { spec_id: 0, file }
}

fn row_delta(data_files: Vec<NewFile>, delete_files: Vec<NewFile>) -> Change {
    Change { operation: Operation::RowDelta, delete_files, ..Change::append(data_files) }
}

fn overwrite(data_files: Vec<NewFile>, removed: &[&str]) -> Change {
    let removed = removed.iter().map(|name| path(name)).collect();
    Change { operation: Operation::Overwrite, removed, ..Change::append(data_files) }
}

fn rewrite(data_files: Vec<NewFile>, removed: &[&str], starting_sequence_number: i64) -> Change {
    Change { operation: Operation::Rewrite { starting_sequence_number }, ..overwrite(data_files, removed) }
}

struct World {
    io: FileIO,
    ids: SeededIds,
}

impl World {
    fn new() -> Self {
        Self { io: FileIO::new_with_memory(), ids: SeededIds::new(1) }
    }

    async fn commit(&self, base: &Loaded, change: Change) -> Loaded {
        let attempt = prepare(base, change, terms(5), &self.io, &self.ids).await.unwrap();
        committed(base, &attempt, &self.ids)
    }

    /// The table with three files in two partitions, of two commits.
    async fn table(&self) -> Loaded {
        let first = self.commit(&table(&self.ids), Change::append(vec![file("a", "x", 3), file("b", "y", 4)])).await;
        self.commit(&first, Change::append(vec![file("c", "x", 5)])).await
    }

    /// Names of live files with their data sequence numbers.
    async fn live(&self, table: &Loaded) -> Vec<(String, i64)> {
        live(table, &self.io).await.into_iter().map(|(name, _, number)| (name, number)).collect()
    }

    async fn refusal(&self, attempt: Prepared, base: &Loaded) -> Error {
        let error = attempt.rebase(base, terms(9), &self.io, &self.ids).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
        error
    }
}

fn names(live: &[(&str, i64)]) -> Vec<(String, i64)> {
    live.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
}

fn says(table: &Loaded, counters: &[(&str, &str)]) {
    let head = table.metadata.current_snapshot().unwrap();
    let summary = &head.summary().additional_properties;
    for (key, value) in counters {
        assert_eq!(summary.get(*key).map(String::as_str), Some(*value), "{key}: {summary:?}");
    }
}

fn operation(table: &Loaded) -> iceberg::spec::Operation {
    table.metadata.current_snapshot().unwrap().summary().operation.clone()
}

#[tokio::test]
async fn a_row_delta_adds_rows_and_takes_others_away() {
    let world = World::new();
    let base = world.table().await;
    let change = row_delta(vec![file("d", "x", 2)], vec![deletes("p", "a", "x", 1), deletes("q", "b", "y", 2)]);
    let after = world.commit(&base, change).await;
    assert_eq!(world.live(&after).await, names(&[("a", 1), ("b", 1), ("c", 2), ("d", 3), ("p", 3), ("q", 3)]));
    assert_eq!(operation(&after), iceberg::spec::Operation::Overwrite);
    says(
        &after,
        &[
            ("added-data-files", "1"),
            ("added-delete-files", "2"),
            ("added-position-delete-files", "2"),
            ("added-position-deletes", "3"),
            ("added-files-size", "23"),
            ("changed-partition-count", "2"),
            ("manifests-created", "2"),
            ("manifests-kept", "2"),
            ("total-data-files", "4"),
            ("total-delete-files", "2"),
            ("total-position-deletes", "3"),
            ("total-records", "14"),
            ("total-files-size", "143"),
        ],
    );
    let lists = manifests(&after.metadata, after.metadata.current_snapshot().unwrap(), &world.io).await.unwrap();
    let kinds: Vec<_> = lists.iter().map(|list| (list.content, list.sequence_number)).collect();
    use ManifestContentType::{Data, Deletes};
    assert_eq!(kinds, [(Data, 3), (Deletes, 3), (Data, 2), (Data, 1)]);

    let only = world.commit(&after, row_delta(vec![], vec![deletes("r", "c", "x", 1)])).await;
    assert_eq!(operation(&only), iceberg::spec::Operation::Delete);
    let none = world.commit(&after, row_delta(vec![file("e", "x", 1)], vec![])).await;
    assert_eq!(operation(&none), iceberg::spec::Operation::Append);
}

#[tokio::test]
async fn an_overwrite_takes_files_out_of_their_manifests_and_leaves_the_others() {
    let world = World::new();
    let delta = row_delta(vec![], vec![deletes("p", "a", "x", 1), deletes("q", "b", "y", 2)]);
    let base = world.commit(&world.table().await, delta).await;
    let after = world.commit(&base, overwrite(vec![file("a2", "x", 2)], &["a", "p"])).await;
    assert_eq!(world.live(&after).await, names(&[("a2", 4), ("b", 1), ("c", 2), ("q", 3)]));
    assert_eq!(operation(&after), iceberg::spec::Operation::Overwrite);
    says(
        &after,
        &[
            ("deleted-data-files", "1"),
            ("deleted-records", "3"),
            ("removed-delete-files", "1"),
            ("removed-position-delete-files", "1"),
            ("removed-position-deletes", "1"),
            ("removed-files-size", "31"),
            ("changed-partition-count", "1"),
            ("manifests-created", "3"),
            ("manifests-kept", "1"),
            ("manifests-replaced", "2"),
            ("entries-processed", "2"),
            ("total-data-files", "3"),
            ("total-delete-files", "1"),
            ("total-position-deletes", "2"),
            ("total-records", "11"),
        ],
    );
    // What was removed stands in the manifest as deleted by this snapshot, and is gone from the next one that is written.
    let entries = async |table: &Loaded| {
        let mut found = Vec::new();
        for list in manifests(&table.metadata, table.metadata.current_snapshot().unwrap(), &world.io).await.unwrap() {
            for entry in list.load_manifest(&world.io).await.unwrap().entries().iter().filter(|e| !e.is_alive()) {
                let name = entry.file_path().rsplit('/').next().unwrap().to_owned();
                found.push((name, entry.snapshot_id.unwrap(), entry.sequence_number.unwrap()));
            }
        }
        found
    };
    let by = after.metadata.current_snapshot().unwrap().snapshot_id();
    let mut gone = entries(&after).await;
    gone.sort();
    assert_eq!(gone, [("a".to_owned(), by, 1), ("p".to_owned(), by, 3)]);
    let emptied = world.commit(&after, overwrite(vec![], &["b", "q"])).await;
    assert_eq!(world.live(&emptied).await, names(&[("a2", 4), ("c", 2)]));
    assert_eq!(operation(&emptied), iceberg::spec::Operation::Delete);
    let mut gone: Vec<String> = entries(&emptied).await.into_iter().map(|(name, ..)| name).collect();
    gone.sort();
    assert_eq!(gone, ["b", "q"]);
    says(&emptied, &[("total-delete-files", "0"), ("total-records", "7")]);
    let list = emptied.metadata.current_snapshot().unwrap();
    let lists = manifests(&emptied.metadata, list, &world.io).await.unwrap();
    assert!(lists.iter().all(|list| list.min_sequence_number <= list.sequence_number && list.sequence_number > 0));
}

/// What is rewritten is as old as it was: deletes that came meanwhile for other files, and equality deletes of other writers, still
/// hold for it as far as they did.
#[tokio::test]
async fn a_rewrite_keeps_the_age_of_what_it_put_together() {
    let world = World::new();
    let base = world.table().await;
    let after = world.commit(&base, rewrite(vec![file("ac", "x", 8)], &["a", "c"], 2)).await;
    assert_eq!(world.live(&after).await, names(&[("ac", 2), ("b", 1)]));
    assert_eq!(operation(&after), iceberg::spec::Operation::Replace);
    says(
        &after,
        &[("total-records", "12"), ("total-data-files", "2"), ("added-records", "8"), ("deleted-records", "8")],
    );
    // On a newer base too.
    let mine = prepare(&after, rewrite(vec![file("acb", "x", 12)], &["ac", "b"], 3), terms(9), &world.io, &world.ids);
    let mine = mine.await.unwrap();
    let theirs = world.commit(&after, Change::append(vec![file("d", "y", 1)])).await;
    let again = mine.rebase(&theirs, terms(9), &world.io, &world.ids).await.unwrap();
    let both = committed(&theirs, &again, &world.ids);
    assert_eq!(world.live(&both).await, names(&[("acb", 3), ("d", 4)]));
}

#[tokio::test]
async fn what_is_no_longer_true_of_the_table_is_a_conflict() {
    let world = World::new();
    let base = world.table().await;
    let prepared = async |change: Change| prepare(&base, change, terms(9), &world.io, &world.ids).await.unwrap();
    let delta = prepared(row_delta(vec![file("d", "x", 1)], vec![deletes("p", "a", "x", 1)])).await;
    let over = prepared(overwrite(vec![file("a2", "x", 2)], &["a"])).await;
    let other = prepared(overwrite(vec![file("b2", "y", 2)], &["b"])).await;
    let compaction = prepared(rewrite(vec![file("ac", "x", 8)], &["a", "c"], 2)).await;
    let looked = Change {
        validations: vec![Validation::DataFilesLive(vec![path("a")]), Validation::NoNewDeletes(vec![path("b")])],
        ..row_delta(vec![file("e", "x", 1)], vec![deletes("s", "c", "x", 1)])
    };
    let looked = prepared(looked).await;

    // The file is gone.
    let compacted = world.commit(&base, rewrite(vec![file("ac2", "x", 8)], &["a", "c"], 2)).await;
    for attempt in [&delta, &over, &compaction, &looked] {
        let error = world.refusal(attempt.clone(), &compacted).await;
        assert!(error.to_string().contains("is no longer in the table"), "{error}");
    }
    let again = other.clone().rebase(&compacted, terms(9), &world.io, &world.ids).await.unwrap();
    let after = committed(&compacted, &again, &world.ids);
    assert_eq!(world.live(&after).await, names(&[("ac2", 2), ("b2", 4)]));

    // Rows of it were deleted.
    let deleted = world.commit(&base, row_delta(vec![], vec![deletes("q", "a", "x", 1)])).await;
    for attempt in [&over, &compaction] {
        let error = world.refusal(attempt.clone(), &deleted).await;
        assert!(error.to_string().contains("has deleted rows of"), "{error}");
    }
    for attempt in [&delta, &other, &looked] {
        attempt.clone().rebase(&deleted, terms(9), &world.io, &world.ids).await.unwrap();
    }
    let deleted = world.commit(&base, row_delta(vec![], vec![deletes("q", "b", "y", 1)])).await;
    let error = world.refusal(looked, &deleted).await;
    assert!(error.to_string().contains("has deleted rows of"), "{error}");
    // Deletes that the plan knew of are no news.
    let known = world.commit(&deleted, overwrite(vec![file("b2", "y", 3)], &["b", "q"])).await;
    assert_eq!(world.live(&known).await, names(&[("a", 1), ("b2", 4), ("c", 2)]));

    // A delete file that does not say whose rows it deletes may be about any.
    let mut unsaid = deletes("u", "b", "y", 1);
    unsaid.file = DataFileBuilder::default()
        .content(DataContentType::EqualityDeletes)
        .file_path(path("u"))
        .file_format(DataFileFormat::Parquet)
        .partition(Struct::from_iter([Some(Literal::string("y"))]))
        .record_count(1)
        .file_size_in_bytes(1)
        .equality_ids(Some(vec![1]))
        .build()
        .unwrap();
    let foreign = foreign_deletes(&world, &base, unsaid).await;
    let error = world.refusal(over, &foreign).await;
    assert!(error.to_string().contains("has deleted rows of"), "{error}");
}

/// A table to which another writer has added a delete file of a kind that we don't write.
async fn foreign_deletes(world: &World, base: &Loaded, file: NewFile) -> Loaded {
    let plain = prepare(base, row_delta(vec![], vec![deletes("v", "b", "y", 1)]), terms(5), &world.io, &world.ids);
    let mut attempt = plain.await.unwrap();
    let spec = base.metadata.default_partition_spec();
    let location = "file:///w/ns/t/metadata/foreign.avro";
    let id = attempt.written.snapshot_id();
    let schema = base.metadata.current_schema();
    let mut writer =
        manifest_writer(&world.io, location, FormatVersion::V2, Content::Deletes, id, schema, spec).unwrap();
    writer.add_file(file.file, iceberg::spec::UNASSIGNED_SEQUENCE_NUMBER).unwrap();
    attempt.written.manifests = vec![writer.write_manifest_file().await.unwrap()];
    let attempt = attempt.rebase(base, terms(5), &world.io, &world.ids).await.unwrap();
    committed(base, &attempt, &world.ids)
}

#[tokio::test]
async fn delete_files_that_do_not_say_whose_rows_they_delete_are_refused() {
    let world = World::new();
    let base = world.table().await;
    let check = |file: DataFile, says: &str| {
        let refused = plan(&base, row_delta(vec![], vec![NewFile { spec_id: 0, file }])).unwrap_err();
        assert!(refused.kind() == Kind::Bug && refused.to_string().contains(says), "{refused}");
    };
    let made = |content, format, of: Option<String>| {
        let mut file = DataFileBuilder::default();
        file.content(content).file_path(path("p")).file_format(format).referenced_data_file(of);
        file.partition(Struct::from_iter([Some(Literal::string("x"))])).record_count(1).file_size_in_bytes(1);
        file.build().unwrap()
    };
    let of = || Some(path("a"));
    check(made(DataContentType::PositionDeletes, DataFileFormat::Parquet, None), "whose rows");
    check(made(DataContentType::PositionDeletes, DataFileFormat::Avro, of()), "no Parquet file");
    check(made(DataContentType::EqualityDeletes, DataFileFormat::Parquet, of()), "no positions");
    check(made(DataContentType::Data, DataFileFormat::Parquet, None), "no positions");
    let upgrade = TableUpdate::UpgradeFormatVersion { format_version: FormatVersion::V3 };
    let lineage = stage(&base, &[], &[upgrade], time(6), &world.ids).unwrap().loaded(base.name.clone());
    for change in [row_delta(vec![], vec![deletes("p", "a", "x", 1)]), overwrite(vec![], &["a"])] {
        assert_eq!(plan(&lineage, change).unwrap_err().kind(), Kind::Misconfigured);
    }
}

#[tokio::test]
async fn manifests_of_deletes_are_not_put_together_with_those_of_data() {
    let world = World::new();
    let base = with_property(&table(&world.ids), "commit.manifest.min-count-to-merge", "2", &world.ids);
    let mut table = world.commit(&base, Change::append(vec![file("a", "x", 30)])).await;
    for n in 0..4 {
        let (data, delete) = (file(&format!("f{n}"), "x", 1), deletes(&format!("d{n}"), "a", "x", 1));
        table = world.commit(&table, row_delta(vec![data], vec![delete])).await;
    }
    let live = world.live(&table).await;
    assert_eq!(live.len(), 9, "{live:?}");
    says(&table, &[("total-records", "34"), ("total-position-deletes", "4"), ("total-data-files", "5")]);
    let after = world.commit(&table, overwrite(vec![], &["a", "d0", "d1", "d2", "d3"])).await;
    assert_eq!(world.live(&after).await, names(&[("f0", 2), ("f1", 3), ("f2", 4), ("f3", 5)]));
    says(&after, &[("total-records", "4"), ("total-position-deletes", "0"), ("total-data-files", "4")]);
}

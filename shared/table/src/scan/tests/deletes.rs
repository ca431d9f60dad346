//! Rows that delete files take away.

use std::collections::{BTreeMap, BTreeSet};

use iceberg::spec::DataFile;
use model::id::Ids;

use super::*;
use crate::delete_file::{self, Of};

/// The rows of a table by file, each file's in order: id and position.
fn located(table: &Table, request: &Request) -> BTreeMap<String, Vec<(i64, i64)>> {
    let plan = table.plan(request);
    let mut found: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
    let all: Vec<Located> = run(plan.execute_located(&table.file_io).try_collect()).unwrap();
    for located in all {
        assert_eq!(located.positions.len(), located.batch.num_rows());
        let ids = located.batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec();
        let rows = found.entry(plan.files[located.file].path.clone()).or_default();
        rows.extend(ids.into_iter().zip(located.positions));
    }
    found
}

fn ids(table: &Table) -> Vec<i64> {
    let mut ids = table.read(&Request::default())["id"].as_primitive::<Int64Type>().values().to_vec();
    ids.sort_unstable();
    ids
}

fn delete(table: &Table, file: &DataFile, positions: &[i64]) -> DataFile {
    let spec = table.metadata.default_partition_spec();
    let of = Of { path: file.file_path(), spec, partition: file.partition() };
    run(delete_file::write(&table.target(), of, positions)).unwrap()
}

fn rows(table: &Table, range: std::ops::Range<i64>) -> RecordBatch {
    let ids: Vec<i64> = range.collect();
    let names: Vec<&str> = ids.iter().map(|id| if id % 2 == 0 { "even" } else { "odd" }).collect();
    two_columns(table, &ids, &names)
}

fn simple(properties: &[(&str, &str)]) -> Table {
    Table::new(&schema(&[("id", "long"), ("name", "string")]), &[], &[], properties)
}

#[test]
fn positions_are_skipped_and_the_others_keep_theirs() {
    // Row groups of a thousand rows or so.
    let mut table = simple(&[("write.parquet.row-group-size-bytes", "4096"), ("write.parquet.page-row-limit", "100")]);
    let files = table.write(&[rows(&table, 0..20_000)], usize::MAX);
    let [file] = files.clone().try_into().unwrap();
    table.append(&[files], false);
    let gone: Vec<i64> =
        (0..20_000).filter(|n| n % 7 == 3 || *n == 0 || *n == 19_999 || (8000..9000).contains(n)).collect();
    let (first, second) = gone.split_at(gone.len() / 2);
    let first = delete(&table, &file, first);
    assert_eq!(first.record_count() as usize, gone.len() / 2);
    assert_eq!(first.referenced_data_file().as_deref(), Some(file.file_path()));
    assert!(first.file_path().ends_with("-deletes.parquet"), "{}", first.file_path());
    table.append(&[vec![first]], true);
    assert_eq!(ids(&table).len(), 20_000 - gone.len() / 2);
    let second = delete(&table, &file, second);
    table.append(&[vec![second]], true);

    let gone: BTreeSet<i64> = gone.into_iter().collect();
    let kept: Vec<i64> = (0..20_000).filter(|n| !gone.contains(n)).collect();
    assert_eq!(ids(&table), kept);
    let all = located(&table, &Request::default());
    let want: Vec<(i64, i64)> = kept.iter().map(|n| (*n, *n)).collect();
    assert_eq!(all.into_values().collect::<Vec<_>>(), [want]);
    // Row groups that can't match are left out, and positions are those of the file.
    let request = Request { predicate: equal("id", Datum::long(15_000)), ..Request::default() };
    let some = located(&table, &request).into_values().next().unwrap();
    assert!(some.len() < 15_000 && some.contains(&(15_000, 15_000)), "{}", some.len());
    assert!(some.iter().all(|(id, position)| id == position && !gone.contains(id)));
    // One column is enough, and none still counts.
    let request = Request { columns: Some(Vec::new()), ..Request::default() };
    assert_eq!(table.read(&request).num_rows(), kept.len());
    let plan = table.plan(&Request::default());
    assert_eq!(plan.files[0].delete_files().count(), 2);
    assert_eq!(plan.files[0].sequence_number, 1);
}

#[test]
fn a_delete_holds_for_what_is_as_old_as_it_and_no_younger() {
    let mut table = simple(&[]);
    let old = table.write(&[rows(&table, 0..4)], usize::MAX);
    table.append(std::slice::from_ref(&old), false);
    let gone = delete(&table, &old[0], &[1, 3]);
    table.append(&[vec![gone]], true);
    // The same rows once more, of a later commit.
    let young = table.write(&[rows(&table, 0..4)], usize::MAX);
    table.append(&[young], false);
    assert_eq!(ids(&table), [0, 0, 1, 2, 2, 3]);
}

/// Other writers put the deletes of a partition's files into one, and don't say in the manifest whose they are.
#[test]
fn a_delete_file_may_be_about_several_files_of_its_partition() {
    let by_name = [by("name", resolved::Transform::Identity)];
    let mut table = Table::new(&schema(&[("id", "long"), ("name", "string")]), &by_name, &[], &[]);
    let first = table.write(&[rows(&table, 0..10)], usize::MAX);
    let second = table.write(&[rows(&table, 10..20)], usize::MAX);
    let even = |files: &[DataFile]| {
        let is_even = |file: &&DataFile| file.partition().fields()[0] == Some(Literal::string("even"));
        files.iter().find(is_even).unwrap().clone()
    };
    let (one, two) = (even(&first), even(&second));
    table.append(&[first, second], false);
    // Both files' deletes, as they would lie in one file: written apart, and put together by their bytes' columns.
    let spec = table.metadata.default_partition_spec().clone();
    let both = run(async {
        let schema = delete_file::schema().unwrap();
        let arrow = crate::schema::arrow_schema(&schema, Strings::Plain).unwrap();
        let paths = [one.file_path(), one.file_path(), two.file_path(), "elsewhere"];
        let columns: Vec<ArrayRef> =
            vec![Arc::new(StringArray::from(paths.to_vec())), Arc::new(Int64Array::from(vec![0, 4, 2, 0]))];
        let batch = RecordBatch::try_new(Arc::clone(&arrow), columns).unwrap();
        let options = crate::schema::parquet::options(crate::schema::parquet::descriptor(&schema).unwrap());
        let mut encoder = parquet::arrow::ArrowWriter::try_new_with_options(Vec::new(), arrow, options).unwrap();
        encoder.write(&batch).unwrap();
        let bytes = encoder.into_inner().unwrap();
        let path = "memory://warehouse/t/data/both.parquet";
        let size = bytes.len() as u64;
        table.file_io.new_output(path).unwrap().write(bytes.into()).await.unwrap();
        let mut file = DataFileBuilder::default();
        file.content(DataContentType::PositionDeletes).file_path(path.to_owned()).file_format(DataFileFormat::Parquet);
        file.partition(one.partition().clone()).partition_spec_id(spec.spec_id());
        file.record_count(4).file_size_in_bytes(size).build().unwrap()
    });
    table.append(&[vec![both]], true);
    // Even ids of the first file: 0 2 4 6 8, of the second: 10 12 14 16 18.
    assert_eq!(ids(&table), [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 15, 16, 17, 18, 19]);
}

#[test]
fn what_is_no_list_of_rows_is_refused() {
    let mut table = simple(&[]);
    let files = table.write(&[rows(&table, 0..4)], usize::MAX);
    let file = files[0].clone();
    let refused = |positions: &[i64]| {
        let spec = table.metadata.default_partition_spec();
        let of = Of { path: file.file_path(), spec, partition: file.partition() };
        run(delete_file::write(&table.target(), of, positions)).unwrap_err().to_string()
    };
    assert!(refused(&[]).contains("no rows"));
    for wrong in [&[2, 1][..], &[1, 1], &[-1, 0]] {
        assert!(refused(wrong).contains("not in order"), "{wrong:?}");
    }
    // A delete file that is gone, cut short, or none.
    let gone = delete(&table, &file, &[1]);
    table.append(&[files], false);
    let path = gone.file_path().to_owned();
    table.append(&[vec![gone]], true);
    run(async {
        let whole = table.file_io.new_input(&path).unwrap().read().await.unwrap();
        for bytes in [whole.slice(0..whole.len() / 2), whole.slice(0..0)] {
            table.file_io.new_output(&path).unwrap().write(bytes).await.unwrap();
            let read: Result<Vec<RecordBatch>, Fault> =
                table_plan(&table).await.execute(table.file_io.clone()).try_collect().await;
            let fault = read.unwrap_err();
            assert!(fault.to_string().contains("-deletes.parquet"), "{fault}");
        }
        table.file_io.delete(&path).await.unwrap();
        let read: Result<Vec<RecordBatch>, Fault> =
            table_plan(&table).await.execute(table.file_io.clone()).try_collect().await;
        assert!(read.unwrap_err().to_string().contains("-deletes.parquet"));
    });
}

async fn table_plan(table: &Table) -> Plan {
    plan(&table.metadata, &table.file_io, &Request::default()).await.unwrap()
}

/// An equality delete file of another writer: by some of the table's columns.
fn equality(table: &Table, columns: &[&str], values: Vec<ArrayRef>, partition: Struct) -> DataFile {
    let schema = table.metadata.current_schema();
    let fields: Vec<_> = columns.iter().map(|name| schema.as_struct().field_by_name(name).unwrap().clone()).collect();
    let ids = fields.iter().map(|field| field.id).collect();
    let schema = Schema::builder().with_fields(fields).build().unwrap();
    let arrow = crate::schema::arrow_schema(&schema, Strings::Plain).unwrap();
    let batch = RecordBatch::try_new(Arc::clone(&arrow), values).unwrap();
    let options = crate::schema::parquet::options(crate::schema::parquet::descriptor(&schema).unwrap());
    let mut encoder = parquet::arrow::ArrowWriter::try_new_with_options(Vec::new(), arrow, options).unwrap();
    encoder.write(&batch).unwrap();
    let bytes = encoder.into_inner().unwrap();
    let path = format!("memory://warehouse/t/data/{}-eq.parquet", table.ids.uuid_text());
    let size = bytes.len() as u64;
    run(async { table.file_io.new_output(&path).unwrap().write(bytes.into()).await.unwrap() });
    let mut file = DataFileBuilder::default();
    file.content(DataContentType::EqualityDeletes).file_path(path).file_format(DataFileFormat::Parquet);
    file.partition(partition).equality_ids(Some(ids)).record_count(batch.num_rows() as u64).file_size_in_bytes(size);
    file.build().unwrap()
}

fn longs(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

#[test]
fn rows_that_equal_a_younger_delete_are_gone() {
    let mut table = simple(&[]);
    let files = table.write(&[rows(&table, 0..10)], usize::MAX);
    let file = files[0].clone();
    table.append(&[files], false);
    let gone = equality(&table, &["id"], vec![longs(&[Some(2), Some(7), Some(70), None])], Struct::empty());
    table.append(&[vec![gone]], true);
    assert_eq!(ids(&table), [0, 1, 3, 4, 5, 6, 8, 9]);
    // The same ids once more, of the same commit as another delete: it holds for what is older alone.
    let again = table.write(&[rows(&table, 1..3)], usize::MAX);
    table.append(&[again], false);
    assert_eq!(ids(&table), [0, 1, 1, 2, 3, 4, 5, 6, 8, 9]);
    // Two columns that must both be equal; and positions beside them.
    let names: ArrayRef = Arc::new(StringArray::from(vec!["odd", "even"]));
    let both = equality(&table, &["name", "id"], vec![names, longs(&[Some(4), Some(8)])], Struct::empty());
    let some = delete(&table, &file, &[0, 5]);
    table.append(&[vec![both, some]], true);
    assert_eq!(ids(&table), [1, 1, 2, 3, 4, 6, 9]);
    // A column that is compared need not be asked for, and places stay those of the file.
    let request = Request { columns: Some(vec!["name".to_owned()]), ..Request::default() };
    let read = table.read(&request);
    assert_eq!((read.num_rows(), read.num_columns()), (7, 1));
    let all = located(&table, &Request::default());
    let of_first = &all[file.file_path()];
    assert_eq!(*of_first, [1, 3, 4, 6, 9].map(|id| (id, id)));
    let none = Request { columns: Some(Vec::new()), ..Request::default() };
    assert_eq!(table.read(&none).num_rows(), 7);
}

#[test]
fn null_equals_null_and_a_dropped_column_is_still_compared() {
    let mut table = simple(&[]);
    let columns: Vec<ArrayRef> =
        vec![longs(&[Some(1), None, Some(3)]), Arc::new(StringViewArray::from(vec![Some("a"), Some("b"), None]))];
    let batch = RecordBatch::try_new(Arc::clone(table.target().arrow_schema()), columns).unwrap();
    let files = table.write(&[batch], usize::MAX);
    table.append(&[files], false);
    let by_name: ArrayRef = Arc::new(StringArray::from(vec![None, Some("zz")]));
    let by_name = equality(&table, &["name"], vec![by_name], Struct::empty());
    let by_id = equality(&table, &["id"], vec![longs(&[None])], Struct::empty());
    table.append(&[vec![by_name]], true);
    assert_eq!(table.read(&Request::default()).num_rows(), 2);
    // The column goes, and another one gets its name; what the old one says still holds.
    let fields = [
        Arc::new(NestedField::optional(1, "id", Type::Primitive(PrimitiveType::Long))),
        Arc::new(NestedField::optional(7, "name", Type::Primitive(PrimitiveType::Long))),
    ];
    table.evolve(Schema::builder().with_schema_id(1).with_fields(fields).build().unwrap());
    let read = table.read(&Request::default());
    assert_eq!((read.num_rows(), read.num_columns(), read["name"].null_count()), (2, 2, 2));
    table.append(&[vec![by_id]], true);
    assert_eq!(ids(&table), [1]);
}

#[test]
fn an_equality_delete_holds_for_its_partition() {
    let by_name = [by("name", resolved::Transform::Identity)];
    let mut table = Table::new(&schema(&[("id", "long"), ("name", "string")]), &by_name, &[], &[]);
    let files = table.write(&[rows(&table, 0..6)], usize::MAX);
    table.append(&[files], false);
    let partition = Struct::from_iter([Some(Literal::string("even"))]);
    let gone = equality(&table, &["id"], vec![longs(&[Some(1), Some(2), Some(4)])], partition);
    table.append(&[vec![gone]], true);
    assert_eq!(ids(&table), [0, 1, 3, 5]);
    // One that does not say by which columns, or by one that never was.
    let mut file = DataFileBuilder::default();
    file.content(DataContentType::EqualityDeletes).file_path("memory://warehouse/t/data/x".to_owned());
    file.file_format(DataFileFormat::Parquet).partition(Struct::from_iter([Some(Literal::string("odd"))]));
    file.record_count(1).file_size_in_bytes(1).equality_ids(Some(vec![99]));
    table.append(&[vec![file.build().unwrap()]], true);
    let fault = run(plan(&table.metadata, &table.file_io, &Request::default())).unwrap_err();
    assert!(fault.to_string().contains("the field 99"), "{fault}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Whatever rows are deleted by however many files: the others come, with their own positions.
    #[test]
    fn any_rows_may_be_deleted_in_any_parts(
        size in 1i64..3000,
        gone in prop::collection::vec((0i64..3000, 0usize..3), 0..300),
        from in 0i64..3000,
    ) {
        let mut table = simple(&[("write.parquet.row-group-size-bytes", "2048"), ("write.parquet.page-row-limit", "100")]);
        let files = table.write(&[rows(&table, 0..size)], usize::MAX);
        let file = files[0].clone();
        table.append(&[files], false);
        let mut all = BTreeSet::new();
        for part in 0..3 {
            let positions: BTreeSet<i64> =
                gone.iter().filter(|(at, of)| *of == part && *at < size).map(|(at, _)| *at).collect();
            if !positions.is_empty() {
                let deletes = delete(&table, &file, &positions.iter().copied().collect::<Vec<_>>());
                table.append(&[vec![deletes]], true);
                all.extend(positions);
            }
        }
        let kept: Vec<i64> = (0..size).filter(|n| !all.contains(n)).collect();
        prop_assert_eq!(&ids(&table), &kept);
        let predicate = Predicate::Compare {
            column: "id".to_owned(), comparison: Comparison::GreaterOrEqual, value: Datum::long(from),
        };
        let some = located(&table, &Request { predicate, ..Request::default() });
        let some: Vec<(i64, i64)> = some.into_values().flatten().collect();
        prop_assert!(some.iter().all(|(id, position)| id == position && !all.contains(id)));
        let wanted = kept.iter().filter(|id| **id >= from).all(|id| some.contains(&(*id, *id)));
        prop_assert!(wanted);
    }
}

#[test]
fn chosen_rows_and_all_but_chosen_rows_of_a_file_are_read_without_deleted_ones() {
    let mut table = simple(&[("write.parquet.row-group-size-bytes", "4096"), ("write.parquet.page-row-limit", "100")]);
    let files = table.write(&[rows(&table, 0..20_000)], usize::MAX);
    let [file] = files.clone().try_into().unwrap();
    table.append(&[files], false);
    let gone: BTreeSet<i64> = (0..20_000).filter(|n| n % 7 == 3).collect();
    let deletes = delete(&table, &file, &gone.iter().copied().collect::<Vec<_>>());
    table.append(&[vec![deletes]], true);

    // Looked for by one column, read in another.
    let by_id = table.plan(&Request { columns: Some(vec!["id".to_owned()]), ..Request::default() });
    let names = by_id.with_columns(&table.metadata, Some(&["name".to_owned()])).unwrap();
    let chosen: Vec<i64> = vec![0, 3, 4, 7_000, 7_001, 19_998, 19_999];
    let read: Vec<Located> = run(names.execute_at(&table.file_io, [(0, chosen.clone())]).try_collect()).unwrap();
    let positions: Vec<i64> = read.iter().flat_map(|located| located.positions.clone()).collect();
    let kept: Vec<i64> = chosen.into_iter().filter(|n| !gone.contains(n)).collect();
    assert_eq!(positions, kept);
    let names = read.iter().flat_map(|l| l.batch["name"].as_string::<i32>().iter().flatten().map(str::to_owned));
    let names: Vec<String> = names.collect();
    let want: Vec<&str> = kept.iter().map(|n| if n % 2 == 0 { "even" } else { "odd" }).collect();
    assert_eq!(names, want);

    let whole = by_id.with_columns(&table.metadata, None).unwrap();
    assert_eq!(whole.arrow_schema.fields().len(), 2);
    let without: Vec<i64> = (5_000..15_000).collect();
    let read: Vec<Located> = run(whole.execute_without(&table.file_io, [(0, without)]).try_collect()).unwrap();
    let positions: Vec<i64> = read.iter().flat_map(|located| located.positions.clone()).collect();
    let is_kept = |n: &i64| !gone.contains(n) && !(5_000..15_000).contains(n);
    assert_eq!(positions, (0..20_000).filter(is_kept).collect::<Vec<_>>());
    // A place that no file has is none.
    let nothing: Vec<Located> = run(whole.execute_at(&table.file_io, [(1, vec![0])]).try_collect()).unwrap();
    assert!(nothing.is_empty());
    assert!(by_id.with_columns(&table.metadata, Some(&["nope".to_owned()])).is_err());
}

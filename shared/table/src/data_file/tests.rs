use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use iceberg::spec::{DataFile, Literal, Struct};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::reader::{FileReader, SerializedFileReader};
use pipeline::resolved::{PartitionField, SortField, Transform};

use super::*;
use crate::testing::{Table, run, schema};

const HOUR: i64 = 3_600_000_000;

fn table(properties: &[(&str, &str)]) -> Table {
    let schema = schema(&[("id", "long"), ("at", "timestamptz"), ("team", "string")]);
    let by = |column: &str, transform| PartitionField { column: column.to_owned(), transform };
    let partition_by = [by("at", Transform::Hour), by("team", Transform::Identity)];
    let sort_by = [SortField { column: "id".to_owned(), descending: true, nulls_first: false }];
    Table::new(&schema, &partition_by, &sort_by, properties)
}

/// Rows `(id, hour, team)`.
fn rows(table: &Table, rows: &[(Option<i64>, i64, &str)]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter(rows.iter().map(|(id, _, _)| *id))),
        Arc::new(
            TimestampMicrosecondArray::from_iter_values(rows.iter().map(|(_, hour, _)| hour * HOUR + 1))
                .with_timezone("UTC"),
        ),
        Arc::new(StringViewArray::from_iter_values(rows.iter().map(|(_, _, team)| *team))),
    ];
    RecordBatch::try_new(Arc::clone(table.target().arrow_schema()), columns).unwrap()
}

fn bytes(table: &Table, file: &DataFile) -> bytes::Bytes {
    run(async { table.file_io.new_input(file.file_path()).unwrap().read().await.unwrap() })
}

fn ids(table: &Table, file: &DataFile) -> Vec<Option<i64>> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes(table, file)).unwrap().build().unwrap();
    reader.flat_map(|batch| batch.unwrap()["id"].as_primitive::<Int64Type>().iter().collect::<Vec<_>>()).collect()
}

#[test]
fn rows_go_to_their_partitions_sorted_and_files_say_what_they_hold() {
    let table = table(&[]);
    let batches = [
        rows(&table, &[(Some(1), 0, "a/b"), (Some(2), -1, "a/b"), (None, 0, "a/b"), (Some(9), 0, "é")]),
        rows(&table, &[(Some(3), 0, "a/b"), (Some(-4), -1, "a/b"), (Some(3), 0, "a/b")]),
    ];
    let files = table.write(&batches, usize::MAX);
    let by_path: HashMap<String, &DataFile> =
        files.iter().map(|file| (file.file_path().rsplit_once('/').unwrap().0.to_owned(), file)).collect();
    assert_eq!(by_path.len(), 3);
    let first = by_path["memory://warehouse/t/data/at_hour=1970-01-01-00/team=a%2Fb"];
    assert_eq!(ids(&table, first), [Some(3), Some(3), Some(1), None]);
    let late = by_path["memory://warehouse/t/data/at_hour=1969-12-31-23/team=a%2Fb"];
    assert_eq!(ids(&table, late), [Some(2), Some(-4)]);
    assert!(by_path.contains_key("memory://warehouse/t/data/at_hour=1970-01-01-00/team=%C3%A9"));

    // The tuple holds raw values.
    assert_eq!(first.partition(), &Struct::from_iter([Some(Literal::int(0)), Some(Literal::string("a/b"))]));
    assert_eq!(first.record_count(), 4);
    assert_eq!(first.file_size_in_bytes(), bytes(&table, first).len() as u64);
    assert_eq!(first.sort_order_id(), Some(1));
    assert_eq!(first.split_offsets(), Some([4].as_slice()));
    assert_eq!(first.null_value_counts(), &HashMap::from([(1, 1), (2, 0), (3, 0)]));
    assert_eq!(first.lower_bounds()[&1], iceberg::spec::Datum::long(1));
    assert_eq!(first.upper_bounds()[&3], iceberg::spec::Datum::string("a/b"));
    let on_disk: u64 = first.column_sizes().values().sum();
    assert!(on_disk > 0 && on_disk < first.file_size_in_bytes());

    let reader = SerializedFileReader::new(bytes(&table, first)).unwrap();
    let chunk = reader.metadata().row_group(0).column(2);
    assert_eq!(chunk.compression(), Compression::ZSTD(ZstdLevel::default()));
    assert!(chunk.dictionary_page_offset().is_some() && chunk.column_index_offset().is_some());
    assert!(reader.metadata().file_metadata().key_value_metadata().is_none());
}

#[test]
fn only_the_wanted_rows_of_a_batch_are_written() {
    let table = table(&[]);
    let made: Vec<_> = (0..100).map(|id| (Some(id), id % 3, "t")).collect();
    for wanted in [
        vec![true; 100],
        vec![false; 100],
        (0..100).map(|id| id % 7 != 0).collect(),
        (0..100).map(|id| id < 50).collect(),
    ] {
        let files = run(async {
            let mut writer = PartitionedWriter::new(table.target(), usize::MAX).unwrap();
            let mask = arrow::array::BooleanArray::from(wanted.clone());
            writer.write_some(rows(&table, &made), Some(&mask)).await.unwrap();
            assert!(writer.write_some(rows(&table, &made), Some(&mask.slice(0, 99))).await.is_err());
            writer.finish().await.unwrap()
        });
        let mut found: Vec<i64> = files.iter().flat_map(|file| ids(&table, file)).map(Option::unwrap).collect();
        found.sort_unstable();
        let expected: Vec<i64> = (0..100).zip(&wanted).filter(|(_, wanted)| **wanted).map(|(id, _)| id).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_bound_of_memory_makes_more_files_and_loses_nothing() {
    let table = table(&[]);
    let mut expected: HashMap<(i64, i64), usize> = HashMap::new();
    let batches: Vec<RecordBatch> = (0..40)
        .map(|n| {
            let made: Vec<_> = (0..100).map(|row| (Some(row * 7 % 50), (n + row) % 5, "team")).collect();
            made.iter().for_each(|(id, hour, _)| *expected.entry((id.unwrap(), *hour)).or_default() += 1);
            rows(&table, &made)
        })
        .collect();
    let one_go = table.write(&batches, usize::MAX);
    assert_eq!(one_go.len(), 5);
    let files = table.write(&batches, 20_000);
    assert!(files.len() > 10, "{}", files.len());
    let mut got: HashMap<(i64, i64), usize> = HashMap::new();
    for file in &files {
        let found = ids(&table, file);
        assert!(found.is_sorted_by(|a, b| a >= b), "{found:?}");
        assert_eq!(found.len() as u64, file.record_count());
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes(&table, file)).unwrap().build().unwrap();
        for batch in reader {
            let batch = batch.unwrap();
            let hours = batch["at"].as_primitive::<TimestampMicrosecondType>().values();
            let ids = batch["id"].as_primitive::<Int64Type>().values();
            for (id, at) in ids.iter().zip(hours) {
                assert_eq!(file.partition()[0], Some(Literal::int((at / HOUR) as i32)));
                *got.entry((*id, at / HOUR)).or_default() += 1;
            }
        }
    }
    assert_eq!(got, expected);
}

#[test]
fn a_file_is_closed_at_its_size_and_row_groups_at_theirs() {
    let table = table(&[
        ("write.target-file-size-bytes", "60000"),
        ("write.parquet.row-group-size-bytes", "20000"),
        ("write.parquet.compression-codec", "uncompressed"),
        ("write.parquet.dict-size-bytes", "1000"),
    ]);
    let made: Vec<_> =
        (0..20_000).map(|row: i64| (Some(row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)), 0, "t")).collect();
    let target = table.target();
    let files = run(async {
        let mut writer =
            FileWriter::new(target, Struct::from_iter([Some(Literal::int(0)), Some(Literal::string("t"))]), 20_000);
        for chunk in made.chunks(1000) {
            writer.write(&rows(&table, chunk)).await.unwrap();
        }
        writer.finish().await.unwrap()
    });
    assert!(files.len() >= 2, "{}", files.len());
    let mut found = Vec::new();
    for (n, file) in files.iter().enumerate() {
        assert!(file.file_size_in_bytes() < 100_000 || n + 1 == files.len(), "{}", file.file_size_in_bytes());
        let offsets = file.split_offsets().unwrap();
        assert!(offsets.len() >= 2 || n + 1 == files.len(), "{offsets:?}");
        assert!(offsets.is_sorted());
        found.extend(ids(&table, file));
    }
    assert_eq!(found, made.iter().map(|(id, _, _)| *id).collect::<Vec<_>>());
}

/// Parquet's writer looks at sizes between the batches that it is given: one of wide rows was one row group and one page.
#[test]
fn wide_rows_of_one_batch_fill_many_pages_and_row_groups() {
    let table = table(&[
        ("write.parquet.compression-codec", "uncompressed"),
        ("write.parquet.page-size-bytes", "20000"),
        ("write.parquet.dict-size-bytes", "20000"),
        ("write.parquet.row-group-size-bytes", "1000000"),
    ]);
    let texts: Vec<String> = (0..400).map(|n| format!("{n:03}").repeat(1000)).collect();
    let made: Vec<_> = texts.iter().zip(0..).map(|(text, n)| (Some(n), 0, text.as_str())).collect();
    let written = |row_group_bytes_max: usize| {
        let target = Arc::into_inner(table.target()).unwrap().with_row_group_bytes_max(row_group_bytes_max);
        let partition = Struct::from_iter([Some(Literal::int(0)), Some(Literal::string("t"))]);
        let files = run(async {
            let mut writer = FileWriter::new(Arc::new(target), partition, made.len());
            writer.write(&rows(&table, &made)).await.unwrap();
            writer.finish().await.unwrap()
        });
        assert_eq!(files.len(), 1);
        assert_eq!(ids(&table, &files[0]).len(), made.len());
        SerializedFileReader::new(bytes(&table, &files[0])).unwrap()
    };
    for (most, bound) in [(usize::MAX, 1_000_000), (100_000, 100_000)] {
        let file = written(most);
        let groups = file.metadata().row_groups();
        assert!(groups.len() >= 1_200_000 / bound, "{most}: {}", groups.len());
        for (n, group) in groups.iter().enumerate() {
            assert!(group.total_byte_size() <= bound as i64 * 5 / 4, "{most}: {}", group.total_byte_size());
            let mut pages = file.get_row_group(n).unwrap().get_column_page_reader(2).unwrap();
            while let Some(page) = pages.get_next_page().unwrap() {
                assert!(page.buffer().len() < 45_000, "{most}: {}", page.buffer().len());
            }
        }
    }
}

#[test]
fn bloom_filters_are_written_for_keys_and_for_columns_that_ask() {
    let table = table(&[("write.parquet.bloom-filter-enabled.column.team", "true")]);
    let target = Target::new(&table.metadata, &["id".to_owned()], table.file_io.clone(), table.ids.clone()).unwrap();
    let files = run(async {
        let mut writer = PartitionedWriter::new(Arc::new(target), usize::MAX).unwrap();
        writer.write(rows(&table, &[(Some(5), 0, "x"), (Some(6), 0, "x")])).await.unwrap();
        writer.finish().await.unwrap()
    });
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes(&table, &files[0])).unwrap();
    let filter = |column| builder.get_row_group_column_bloom_filter(0, column).unwrap();
    let id = filter(0).unwrap();
    assert!(id.check(&5i64) && id.check(&6i64) && !id.check(&7i64));
    assert!(filter(1).is_none());
    assert!(filter(2).unwrap().check(&"x"));
    // They lie side by side, behind all row groups.
    let chunk = |column: usize| builder.metadata().row_group(0).column(column).clone();
    let end = chunk(0).bloom_filter_offset().unwrap() + i64::from(chunk(0).bloom_filter_length().unwrap());
    assert_eq!(chunk(2).bloom_filter_offset(), Some(end));
    let missing = Target::new(&table.metadata, &["no".to_owned()], table.file_io.clone(), table.ids.clone());
    assert!(missing.unwrap_err().to_string().contains("`no`"));
}

#[test]
fn filters_keep_to_their_largest_size_and_off_columns_that_need_none() {
    let table = table(&[("write.parquet.bloom-filter-max-bytes", "1000")]);
    let keys = ["id".to_owned(), "team".to_owned()];
    let target = Target::new(&table.metadata, &keys, table.file_io.clone(), table.ids.clone()).unwrap();
    let made: Vec<_> = (0..5000).map(|id| (Some(id), 0, "x")).collect();
    let files = run(async {
        let mut writer = PartitionedWriter::new(Arc::new(target), usize::MAX).unwrap();
        writer.write(rows(&table, &made)).await.unwrap();
        writer.finish().await.unwrap()
    });
    let reader = SerializedFileReader::new(bytes(&table, &files[0])).unwrap();
    let length = |column| reader.metadata().row_group(0).column(column).bloom_filter_length();
    // A header of 16 bytes, and the largest power of two.
    assert_eq!(length(0), Some(16 + 512));
    assert_eq!((length(1), length(2)), (None, None), "every row's team is what its partition says");
}

#[test]
fn a_property_that_means_nothing_is_named() {
    for (key, value) in [
        ("write.target-file-size-bytes", "512 MB"),
        ("write.parquet.row-group-size-bytes", "0"),
        ("write.parquet.compression-codec", "lzo"),
        ("write.parquet.compression-level", "99"),
        ("write.parquet.bloom-filter-enabled.column.id", "yes"),
        ("write.metadata.metrics.default", "most"),
    ] {
        let table = table(&[(key, value)]);
        let fault = Target::new(&table.metadata, &[], table.file_io.clone(), table.ids.clone()).unwrap_err();
        assert!(fault.to_string().contains(key) && fault.to_string().contains(value), "{fault}");
        assert_eq!(fault.kind(), model::failure::Kind::Misconfigured);
    }
}

#[test]
fn a_full_disk_is_a_clear_failure() {
    let folder = tempfile::tempdir().unwrap();
    let blocked = folder.path().join("data");
    std::fs::write(&blocked, "a file where a folder should be").unwrap();
    let table = table(&[("write.data.path", &format!("file://{}", blocked.display()))]);
    let target = Target::new(&table.metadata, &[], FileIO::new_with_fs(), table.ids.clone()).unwrap();
    let fault = run(async {
        let mut writer = PartitionedWriter::new(Arc::new(target), usize::MAX).unwrap();
        writer.write(rows(&table, &[(Some(5), 0, "x")])).await.unwrap();
        writer.finish().await.unwrap_err()
    });
    assert!(matches!(fault, Fault::Storage { .. }), "{fault:?}");
    assert!(fault.to_string().contains("data/at_hour=1970-01-01-00/team=x/"), "{fault}");
}

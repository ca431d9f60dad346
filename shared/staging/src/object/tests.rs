use std::collections::HashSet;
use std::sync::Mutex;

use arrow::array::{
    Array, ArrayData, ArrayRef, BinaryArray, DictionaryArray, Int32Array, Int64Array, ListArray, StringArray,
    StringViewArray, StructArray, TimestampMicrosecondArray, cast::AsArray,
};
use arrow::datatypes::{Int32Type, Int64Type, TimeUnit};
use async_trait::async_trait;
use model::clock::Timestamp;
use model::coordinate::{Sample, SourceId, TopicPartition};
use model::coverage::{Coverage, PartitionCoverage};
use model::interval::Interval;
use model::stored::Tag;
use parquet::basic::Compression;
use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::prelude::*;

use super::*;
use crate::footer::{Column, RowGroups};
use crate::record_columns::{self, Builder};
use crate::store::{ObjectMeta, Page, Put};

pub(super) fn footer() -> Footer {
    let mut coverage = Coverage::default();
    let at = TopicPartition { source: SourceId::of("cluster"), topic: "orders".to_owned(), partition: 3 };
    let covered = PartitionCoverage {
        delivered: Interval::new(7, 12).unwrap().into(),
        filtered: Default::default(),
        dead: Interval::new(9, 9).unwrap().into(),
        first: Sample { offset: 7, timestamp_ms: Some(1) },
        last: Sample { offset: 12, timestamp_ms: None },
    };
    coverage.insert(at, covered).unwrap();
    Footer {
        schema: Tag::of::<Footer>(),
        pipeline_id: "orders-00ff00ff".parse().unwrap(),
        pipeline_file_hash: "ab".repeat(32),
        apply_sequence: 4,
        mapping_version: 1,
        hash: None,
        minute: "2026-11-29/14/05".parse().unwrap(),
        origin: model::verdict::Origin::Stream,
        writer: "0.1.0".to_owned(),
        coverage,
        event_time_bounds: None,
        schemas: Vec::new(),
        tables: Vec::new(),
        columns: vec![Column {
            name: "id".to_owned(),
            source: "1".to_owned(),
            source_name: "id".to_owned(),
            former: Vec::new(),
            data_type: "long".to_owned(),
            required: false,
        }],
    }
}

/// A batch of the record columns and these columns, with rows of two partitions.
fn batch(columns: Vec<(Field, ArrayRef)>) -> RecordBatch {
    let rows = columns.first().map_or(0, |(_, c)| c.len());
    let mut record = Builder::new(footer().minute, rows);
    for row in 0..rows {
        if row % 3 == 0 {
            record.start("orders", i32::from(row % 2 == 0));
        }
        let time = if row % 5 == 0 { None } else { record_columns::micros(row as i64) };
        record.row(100 + row as i64, time, (row % 2) as i32);
    }
    let (mut fields, mut arrays): (Vec<_>, Vec<_>) = columns.into_iter().map(|(f, a)| (Arc::new(f), a)).unzip();
    fields.extend(record_columns::fields());
    arrays.extend(record.finish());
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn longs(name: &str, values: Vec<Option<i64>>) -> (Field, ArrayRef) {
    (Field::new(name, DataType::Int64, true), Arc::new(Int64Array::from(values)))
}

fn texts(name: &str, values: Vec<Option<&str>>) -> (Field, ArrayRef) {
    (Field::new(name, DataType::Utf8, true), Arc::new(StringArray::from(values)))
}

fn orders(batch: RecordBatch) -> TableRows {
    TableRows { table: "db.orders".to_owned(), batch }
}

fn read(object: &Object, table: &str, projection: &Projection) -> Vec<RecordBatch> {
    object.rows(table, projection).unwrap().map(Result::unwrap).collect()
}

/// A column as staged: what was a dictionary is read as text.
fn as_text(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Dictionary(..) => {
            let column = column.as_dictionary::<Int32Type>().downcast_dict::<StringArray>().unwrap();
            Arc::new(column.into_iter().collect::<StringArray>())
        }
        _ => Arc::clone(column),
    }
}

/// Encodes, opens and reads; every column must come back as it was, and `_table` beside them.
fn check_round_trip(given: &[TableRows]) -> Object {
    let object = Object::open(encode(&footer(), given).unwrap()).unwrap();
    let names: std::collections::BTreeSet<&str> = given.iter().map(|t| t.table.as_str()).collect();
    assert_eq!(object.footer().tables.len(), names.len());
    for name in names {
        let want: Vec<&RecordBatch> = given.iter().filter(|t| t.table == name).map(|t| &t.batch).collect();
        let got = read(&object, name, &Projection::default());
        assert_eq!(object.footer().table(name).unwrap().rows, want.iter().map(|b| b.num_rows() as u64).sum::<u64>());
        for batch in &got {
            assert!(batch.column_by_name("_table").unwrap().as_string::<i32>().iter().all(|t| t == Some(name)));
        }
        for field in want[0].schema_ref().fields() {
            let whole = |batches: Vec<ArrayRef>| {
                let parts: Vec<&dyn Array> = batches.iter().map(AsRef::as_ref).collect();
                if parts.is_empty() { None } else { Some(arrow::compute::concat(&parts).unwrap()) }
            };
            let want = whole(want.iter().map(|b| as_text(b.column_by_name(field.name()).unwrap())).collect());
            let got = whole(got.iter().map(|b| Arc::clone(b.column_by_name(field.name()).unwrap())).collect());
            if want.as_ref().is_some_and(|w| !w.is_empty()) {
                assert_eq!(got, want, "{}", field.name());
            }
        }
    }
    object
}

#[test]
fn rows_of_several_tables_come_back_as_they_were() {
    let nested: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
        Some(vec![Some(2)]),
    ]));
    let inner: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None, Some(""), Some("y")]));
    let record: ArrayRef =
        Arc::new(StructArray::from(vec![(Arc::new(Field::new("a b", DataType::Utf8, true)), inner)]));
    let wide = vec![
        longs("id", vec![Some(i64::MIN), None, Some(0), Some(i64::MAX)]),
        texts("name", vec![Some("a"), Some(""), None, Some("ключ")]),
        (Field::new("list", nested.data_type().clone(), true), nested),
        (Field::new("record", record.data_type().clone(), true), record),
        (
            Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), false),
            Arc::new(TimestampMicrosecondArray::from(vec![-1, 0, 1, 2]).with_timezone("UTC")) as ArrayRef,
        ),
        (Field::new("raw", DataType::Binary, true), Arc::new(BinaryArray::from(vec![&b"\xff"[..], b"", b"a", b"b"]))),
    ];
    let narrow = || batch(vec![longs("id", vec![Some(5), Some(6)])]);
    let second = |batch| TableRows { table: "db.refunds".to_owned(), batch };
    let object = check_round_trip(&[orders(batch(wide)), second(narrow()), second(narrow())]);
    let footer = object.footer();
    assert_eq!(footer.table("db.orders").unwrap().row_groups, RowGroups::new(0, 0).ok());
    assert_eq!(footer.table("db.refunds").unwrap().row_groups, RowGroups::new(1, 1).ok());
    assert_eq!(read(&object, "db.refunds", &Projection::default())[0].column_by_name("name").unwrap().null_count(), 4);
    assert!(read(&object, "db.unknown", &Projection::default()).is_empty());
    assert_eq!(footer.coverage, self::footer().coverage);
}

#[test]
fn an_object_without_a_row_still_accounts_for_its_records() {
    let object = Object::open(encode(&footer(), &[]).unwrap()).unwrap();
    let names: Vec<_> = object.schema().fields().iter().map(|f| f.name().as_str()).collect();
    let record = ["_kafka_topic", "_kafka_partition", "_kafka_offset", "_kafka_timestamp", "_ingested_at", "_ordinal"];
    assert_eq!(names, [&["_table"], &record[..]].concat());
    assert!(object.footer().tables.is_empty());
    assert_eq!(object.footer().coverage, footer().coverage);
    let empty = check_round_trip(&[orders(batch(vec![longs("id", vec![])]))]);
    assert_eq!(
        empty.footer().tables,
        [crate::footer::Table {
            name: "db.orders".to_owned(),
            rows: 0,
            row_groups: None,
            memory_bytes: None,
            columns_without_values: Vec::new()
        }]
    );
}

#[test]
fn the_file_is_what_the_contract_says() {
    let rows = batch(vec![longs("id", (0..2000).map(Some).collect()), texts("name", vec![Some("a"); 2000])]);
    let bytes = encode(&footer(), &[orders(rows)]).unwrap();
    let reader = SerializedFileReader::new(bytes).unwrap();
    let file = reader.metadata().file_metadata();
    assert_eq!(file.created_by(), Some("frazil 0.1.0"));
    let keys: Vec<_> = file.key_value_metadata().unwrap().iter().map(|pair| pair.key.as_str()).collect();
    assert_eq!(keys, ["frazil"]);
    for chunk in reader.metadata().row_group(0).columns() {
        let name = chunk.column_path().string();
        assert!(matches!(chunk.compression(), Compression::LZ4_RAW | Compression::UNCOMPRESSED), "{name}");
        assert!(chunk.statistics().is_some_and(|s| s.min_bytes_opt().is_some()), "{name}");
        assert_eq!(chunk.bloom_filter_offset(), None, "{name}");
        assert_eq!((chunk.column_index_offset(), chunk.offset_index_offset()), (None, None), "{name}");
        let dictionary = !["id", "_kafka_offset", "_kafka_timestamp"].contains(&name.as_str());
        assert_eq!(chunk.dictionary_page_offset().is_some(), dictionary, "{name}");
    }
}

#[test]
fn rows_can_be_had_in_other_types_and_fewer_columns() {
    let rows = batch(vec![
        longs("id", vec![Some(1), Some(2), Some(3)]),
        texts("name", vec![Some("a"), None, Some("longer than twelve bytes")]),
    ]);
    let object = Object::open(encode(&footer(), &[orders(rows)]).unwrap()).unwrap();
    let names = |names: &[&str]| Some(names.iter().map(|n| (*n).to_owned()).collect());

    let views = Projection { columns: names(&["name"]), types: Types::Views, batch_rows: 2 };
    let got = read(&object, "db.orders", &views);
    assert_eq!(got.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(got[0].num_columns(), 1);
    assert_eq!(got[1].column(0).as_ref(), &StringViewArray::from(vec!["longer than twelve bytes"]));

    let wanted = Schema::new(vec![Field::new("_kafka_topic", record_columns::dictionary_type(), false)]);
    let types = Projection { columns: names(&["_kafka_topic"]), types: Types::As(Arc::new(wanted)), batch_rows: 0 };
    let topics = read(&object, "db.orders", &types);
    let topics: &DictionaryArray<Int32Type> = topics[0].column(0).as_dictionary();
    assert_eq!(topics.values().len(), 1, "constant text is read as one value");

    let wrong = |columns, types| {
        let wanted = Projection { columns, types, batch_rows: 0 };
        assert_eq!(object.rows("db.orders", &wanted).unwrap_err().kind(), Kind::Bug);
    };
    wrong(names(&["nmae"]), Types::Staged);
    let field = |name: &str| Types::As(Arc::new(Schema::new(vec![Field::new(name, DataType::Boolean, true)])));
    wrong(None, field("nmae"));
    wrong(None, field("id"));
}

#[test]
fn tables_that_disagree_about_a_column_are_refused() {
    let a = orders(batch(vec![longs("id", vec![Some(1)])]));
    let b = TableRows { table: "db.b".to_owned(), batch: batch(vec![texts("id", vec![Some("1")])]) };
    assert_eq!(encode(&footer(), &[a, b]).unwrap_err().kind(), Kind::Misconfigured);
    let reserved = orders(batch(vec![longs("_table", vec![Some(1)])]));
    assert_eq!(encode(&footer(), &[reserved]).unwrap_err().kind(), Kind::Misconfigured);
}

/// Opens and reads everything; no panic whatever the bytes.
fn open_and_read(bytes: Bytes) -> Result<Vec<RecordBatch>, Error> {
    let object = Object::open(bytes)?;
    object.rows("db.orders", &Projection { types: Types::Views, ..Projection::default() })?.collect()
}

fn sound() -> Bytes {
    let names: Vec<_> = (0..300).map(|n| Some(if n % 3 == 0 { "ab" } else { "cde" })).collect();
    let rows = batch(vec![longs("id", (0..300).map(|n| Some(n * n)).collect()), texts("name", names)]);
    encode(&footer(), &[orders(rows)]).unwrap()
}

#[test]
fn an_object_that_was_cut_short_is_damaged_and_a_newer_one_is_not() {
    let sound = sound();
    assert_eq!(open_and_read(sound.clone()).unwrap()[0].num_rows(), 300);
    for length in 0..sound.len() {
        assert_eq!(open_and_read(sound.slice(..length)).unwrap_err().kind(), Kind::Corrupt, "{length} bytes");
    }
    for foreign in [&b"PAR1"[..], b"{}", b"PAR1\0\0\0\0PAR1", b"PAR1\xff\xff\xff\xffPAR1", b"PAR1\x01\0\0\0PAR1"] {
        assert_eq!(open_and_read(Bytes::from_static(foreign)).unwrap_err().kind(), Kind::Corrupt);
    }

    let newer = replace(&sound, b"frazil.stored.footer/1", b"frazil.stored.footer/2");
    assert_eq!(Object::open(newer.clone()).unwrap_err().kind(), Kind::Misconfigured);
    assert!(Object::open(newer).unwrap_err().to_string().contains("upgrade"));
    for (from, to) in [
        (&b"frazil.stored.footer/1"[..], &b"frazil.stored.ledger/1"[..]),
        (b"\"tables\":[{", b"\"tables\":[["),
        (b"\"rows\":300", b"\"rows\":301"),
        (b"\"row_groups\":[0,0]", b"\"row_groups\":[0,1]"),
        (b"\"pipeline_id\"", b"\"pipeline_ix\""),
    ] {
        assert_eq!(open_and_read(replace(&sound, from, to)).unwrap_err().kind(), Kind::Corrupt);
    }
    // A sound Parquet file that is not ours.
    let plain = parquet::arrow::ArrowWriter::try_new(Vec::new(), batch(vec![]).schema(), None).unwrap();
    assert_eq!(open_and_read(plain.into_inner().unwrap().into()).unwrap_err().kind(), Kind::Corrupt);
}

#[test]
fn members_added_later_are_passed_over() {
    let text = footer().to_json().unwrap().replacen('{', r#"{"added_later":[{"a":1}],"#, 1);
    assert_eq!(Footer::from_json(&text).unwrap(), footer());
}

/// The object with another text of the same length in its footer, sealed again.
fn replace(bytes: &Bytes, from: &[u8], to: &[u8]) -> Bytes {
    assert_eq!(from.len(), to.len());
    let at = bytes.windows(from.len()).rposition(|w| w == from).unwrap_or_else(|| panic!("{from:?} is not there"));
    let mut out = bytes.to_vec();
    out[at..at + to.len()].copy_from_slice(to);
    let start = sealed_range(bytes, bytes.len() as u64).unwrap().start;
    let after = start + seal::BYTES;
    let sealed = Seal::of(&out[..start], &out[after..]).bytes();
    out[start..after].copy_from_slice(&sealed);
    out.into()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_byte_anywhere_is_found_out(at in 0usize..1 << 20, bits in 1u8..) {
        let sound = sound();
        let mut changed = sound.to_vec();
        let at = at % changed.len();
        changed[at] ^= bits;
        prop_assert_eq!(open_and_read(changed.into()).unwrap_err().kind(), Kind::Corrupt, "byte {}", at);
    }

    #[test]
    fn columns_of_runs_come_back_whatever_their_runs(
        runs in prop::collection::vec((0i32..300, 0i32..40, 1usize..200), 1..40),
    ) {
        let mut record = Builder::new(footer().minute, 0);
        let mut ids = Vec::new();
        for (partition, topic, rows) in runs {
            record.start(&format!("topic-{topic}"), partition - 100);
            for row in 0..rows {
                record.row(row as i64, Some(row as i64), topic);
                ids.push(i64::from(partition) * 7);
            }
        }
        let mut fields = vec![Arc::new(Field::new("id", DataType::Int64, false))];
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(ids))];
        fields.extend(record_columns::fields());
        arrays.extend(record.finish());
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
        let half = batch.num_rows() / 2;
        check_round_trip(&[orders(batch.slice(0, half)), orders(batch.slice(half, batch.num_rows() - half))]);
    }
}

/// Bytes behind arrays, each buffer once.
fn held(data: &ArrayData, seen: &mut HashSet<usize>) -> usize {
    let nulls = data.nulls().map(|nulls| nulls.buffer());
    let buffers = data.buffers().iter().chain(nulls);
    let own: usize = buffers.filter(|b| seen.insert(b.data_ptr().as_ptr() as usize)).map(|b| b.capacity()).sum();
    own + data.child_data().iter().map(|child| held(child, seen)).sum::<usize>()
}

#[test]
fn the_footer_says_what_rows_take_in_memory() {
    let rows = 20_000;
    let text = |of: &dyn Fn(usize) -> String| -> Vec<Option<String>> { (0..rows).map(|n| Some(of(n))).collect() };
    let column = |values: Vec<Option<String>>| -> ArrayRef { Arc::new(StringArray::from(values)) };
    let field = |array: &ArrayRef| Field::new("x", array.data_type().clone(), true);
    let lists = (0..rows as i64).map(|n| (n % 3 > 0).then(|| vec![Some(n); n as usize % 4]));
    let decimals = arrow::array::Decimal128Array::from_iter_values(0..rows as i128);
    let empty = vec![None; rows];
    let cases: Vec<(&str, ArrayRef)> = vec![
        ("numbers", Arc::new(Int64Array::from_iter_values(0..rows as i64))),
        ("short texts that differ", column(text(&|n| format!("{n}")))),
        ("long texts that differ", column(text(&|n| format!("{n}").repeat(40)))),
        ("long texts that repeat", column(text(&|n| format!("{}", n % 7).repeat(1000)))),
        ("no texts", column(empty)),
        ("lists", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
        ("decimals", Arc::new(decimals.with_precision_and_scale(9, 2).unwrap())),
    ];
    for (what, array) in cases {
        let batches = [orders(batch(vec![(field(&array), array)]))];
        let object = Object::open(encode(&footer(), &batches).unwrap()).unwrap();
        let said = object.footer().table("db.orders").unwrap().memory_bytes.unwrap() as usize;
        for batch_rows in [rows, 3000] {
            let projection = Projection { types: Types::Views, batch_rows, ..Projection::default() };
            let mut seen = HashSet::new();
            let batches = read(&object, "db.orders", &projection);
            let columns = batches.iter().flat_map(|batch| batch.columns());
            let found: usize = columns.map(|column| held(&column.to_data(), &mut seen)).sum();
            // Buffers are a little larger than what is in them.
            assert!(said * 10 >= found * 9 && said * 10 <= found * 13, "{what}: {said} said, {found} found");
        }
    }
}

/// Where the bytes of arrays' buffers are.
fn places(data: &ArrayData, found: &mut Vec<Range<usize>>) {
    found.extend(data.buffers().iter().map(|b| b.as_ptr() as usize..b.as_ptr() as usize + b.len()));
    data.child_data().iter().for_each(|child| places(child, found));
}

/// Rows that were held kept their objects, whole: the page of a column of runs is not compressed, and was a part of them.
#[test]
fn rows_hold_on_to_nothing_of_the_object_that_they_came_from() {
    let names: Vec<Option<&str>> = (0..500).map(|n| Some(["a name of many letters", "another"][n % 2])).collect();
    let staged = [orders(batch(vec![longs("id", (0..500).map(Some).collect()), texts("name", names)]))];
    let bytes = encode(&footer(), &staged).unwrap();
    let own = bytes.as_ptr() as usize..bytes.as_ptr() as usize + bytes.len();
    let object = Object::open(bytes).unwrap();
    for types in [Types::Staged, Types::Views] {
        let mut found = Vec::new();
        for batch in read(&object, "db.orders", &Projection { types, ..Projection::default() }) {
            batch.columns().iter().for_each(|column| places(&column.to_data(), &mut found));
        }
        assert!(found.len() > 8);
        assert!(!found.iter().any(|at| at.start < own.end && own.start < at.end), "{own:?} {found:?}");
    }
}

#[test]
fn many_short_runs_are_left_to_the_general_writer() {
    let mut record = Builder::new(footer().minute, 0);
    for row in 0..2000 {
        record.start("t", row % 7);
        record.row(i64::from(row), None, row);
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(record_columns::fields())), record.finish()).unwrap();
    let partitions: &Int32Array = batch.column(1).as_primitive();
    assert_eq!(partitions.len(), 2000);
    check_round_trip(&[orders(batch)]);
}

/// A store of one object that counts what is read of it.
#[derive(Debug)]
struct One {
    body: Bytes,
    reads: Mutex<Vec<u64>>,
}

#[async_trait]
impl Store for One {
    async fn put_new(&self, _: &str, _: Bytes) -> Result<Put, store::Error> {
        unreachable!("only read")
    }
    async fn put(&self, _: &str, _: Bytes) -> Result<Timestamp, store::Error> {
        unreachable!("only read")
    }
    async fn get(&self, _: &str) -> Result<Bytes, store::Error> {
        Ok(self.body.clone())
    }
    async fn get_range(&self, _: &str, range: Range<u64>) -> Result<Bytes, store::Error> {
        self.reads.lock().unwrap().push(range.end - range.start);
        let end = (range.end as usize).min(self.body.len());
        Ok(self.body.slice((range.start as usize).min(end)..end))
    }
    async fn head(&self, _: &str) -> Result<Option<ObjectMeta>, store::Error> {
        unreachable!("only read")
    }
    async fn list(&self, _: &str, _: Option<&str>, _: Option<&str>) -> Result<Page, store::Error> {
        unreachable!("only read")
    }
    async fn delete(&self, _: &str) -> Result<(), store::Error> {
        unreachable!("only read")
    }
}

#[tokio::test]
async fn a_footer_is_read_from_the_end_of_the_object() {
    let mut long = footer();
    long.columns = vec![long.columns[0].clone(); 2000];
    // Values without any repetition in them, so that the object is larger than its end.
    let ids = (0..50_000i64).map(|n| Some(n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64))).collect();
    let rows = [orders(batch(vec![longs("id", ids)]))];
    for (footer, reads) in [(footer(), 1), (long, 2)] {
        let one = One { body: encode(&footer, &rows).unwrap(), reads: Mutex::default() };
        let size = one.body.len() as u64;
        assert!(size > 2 * FOOTER_GUESS_BYTES);
        let read = Object::read_footer(&one, "k", size).await.unwrap();
        assert_eq!(read.coverage, footer.coverage);
        assert_eq!(read, *Object::read(&one, "k").await.unwrap().footer());
        let read = one.reads.lock().unwrap().clone();
        assert_eq!(read.len(), reads);
        assert!(read.iter().sum::<u64>() < size / 2 + FOOTER_GUESS_BYTES, "{read:?} of {size}");
        // A size that is no longer true is a damaged object, not a wrong footer.
        assert!(Object::read_footer(&one, "k", size - 1).await.is_err());
        assert!(Object::read_footer(&one, "k", 0).await.is_err());
    }
}

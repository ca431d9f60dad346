use std::collections::HashMap;

use arrow::array::{AsArray, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::Int64Type;
use futures::TryStreamExt;
use iceberg::io::FileRead;
use iceberg::spec::{DataContentType, DataFileBuilder, DataFileFormat, NestedField, Struct, Type};
use parquet::bloom_filter::Sbbf;
use parquet::data_type::{
    ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, Int32Type as Int32Values,
};
use parquet::file::metadata::{ColumnChunkMetaDataBuilder, ParquetMetaDataReader, ParquetMetaDataWriter};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use super::super::figures::Figures;
use super::super::{Request, plan};
use super::*;
use crate::schema::Strings;
use crate::testing::{Table, array, column, primitives, run, schema, value, values};

const ENABLED: &str = "write.parquet.bloom-filter-enabled.column.";

fn request(columns: &[&str], values: Vec<ArrayRef>) -> Request {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    Request { keys: Some(Keys { columns, values }), strings: Strings::Views, ..Request::default() }
}

/// What a plan's files hold for a request, and what was left out.
fn read(table: &Table, request: &Request) -> Result<(RecordBatch, Figures), Fault> {
    run(async {
        let plan = plan(&table.metadata, &table.file_io, request).await?;
        let batches: Vec<RecordBatch> = plan.execute_unordered(&table.file_io).try_collect().await?;
        Ok((arrow::compute::concat_batches(&plan.arrow_schema, &batches)?, plan.figures()))
    })
}

fn longs(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

/// A table of one column `id`, a file for each of these.
fn numbered(properties: &[(&str, &str)], files: &[Vec<i64>]) -> Table {
    let properties = [&[("write.parquet.bloom-filter-enabled.column.id", "true")], properties].concat();
    let mut table = Table::new(&schema(&[("id", "long")]), &[], &[], &properties);
    for ids in files {
        let arrow = Arc::clone(table.target().arrow_schema());
        let batch = RecordBatch::try_new(arrow, vec![longs(ids.iter().copied())]).unwrap();
        let written = table.write(&[batch], usize::MAX);
        table.append(&[written], false);
    }
    table
}

fn contents(table: &Table) -> (String, Bytes) {
    let plan = table.plan(&Request::default());
    let path = plan.files[0].path.clone();
    let body = run(async { table.file_io.new_input(&path).unwrap().read().await.unwrap() });
    (path, body)
}

/// Numbers spread over all of their range, so that no bounds tell them apart.
fn spread(n: i64) -> i64 {
    n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)
}

#[test]
fn files_that_hold_no_key_are_left_out_and_the_others_read() {
    let files: Vec<Vec<i64>> = (0..20).map(|file| (0..500).map(|n| spread(file * 500 + n)).collect()).collect();
    let table = numbered(&[], &files);
    let keys = [spread(3 * 500 + 7), spread(11 * 500), spread(100_000), spread(100_001)];
    let (found, figures) = read(&table, &request(&["id"], vec![longs(keys)])).unwrap();
    let ids = found["id"].as_primitive::<Int64Type>().values();
    assert!(ids.contains(&keys[0]) && ids.contains(&keys[1]));
    // Four keys at one in a hundred, over twenty files: the numbers are fixed, and so is the outcome.
    assert_eq!((figures.row_groups_read, figures.row_groups_filtered, figures.filters_read), (2, 18, 20));
    assert_eq!(found.num_rows(), 1000);
    // Nothing is asked without keys, or for nulls only.
    let (found, figures) = read(&table, &Request::default()).unwrap();
    assert_eq!((found.num_rows(), figures.filters_read), (10_000, 0));
    let nulls: ArrayRef = Arc::new(Int64Array::from(vec![None, None]));
    let (found, figures) = read(&table, &request(&["id"], vec![nulls])).unwrap();
    assert_eq!((found.num_rows(), figures.row_groups_filtered), (10_000, 0));
}

#[test]
fn filters_are_not_read_for_more_keys_than_they_can_deny() {
    let files: Vec<Vec<i64>> = (0..4).map(|file| (0..500).map(|n| spread(file * 500 + n)).collect()).collect();
    let table = numbered(&[], &files);
    let asked = |keys: i64| {
        let absent = (0..keys).map(|n| spread(1_000_000 + n));
        read(&table, &request(&["id"], vec![longs(absent)])).unwrap().1
    };
    assert_eq!(asked(10).row_groups_filtered, 4);
    // 500 rows take 1 KiB: one absent key in 1,100 passes, so that ten thousand are never all denied.
    assert_eq!((asked(1000).filters_read, asked(10_000).filters_read), (4, 0));
    assert_eq!(asked(KEYS_MAX as i64 + 1), Figures { row_groups_read: 4, ..Figures::default() });
    // One that is too small for its rows lets so many pass that it is not worth its bytes for many keys.
    let small = numbered(&[("write.parquet.bloom-filter-max-bytes", "64")], &files);
    let absent = (0..400).map(|n| spread(1_000_000 + n));
    let (_, figures) = read(&small, &request(&["id"], vec![longs(absent)])).unwrap();
    assert_eq!(figures.filters_read, 0);
}

#[test]
fn one_key_of_several_columns_must_be_there_in_all_of_them() {
    let properties = [(&*format!("{ENABLED}a"), "true"), (&*format!("{ENABLED}b"), "true")];
    let mut table = Table::new(&schema(&[("a", "long"), ("b", "string")]), &[], &[], &properties);
    let arrow = Arc::clone(table.target().arrow_schema());
    let texts = |texts: Vec<String>| -> ArrayRef { Arc::new(StringViewArray::from(texts)) };
    let columns =
        vec![longs((0..300).map(spread)), texts((0..300).map(|n| format!("a text that is not inlined {n}")).collect())];
    let files = table.write(&[RecordBatch::try_new(arrow, columns).unwrap()], usize::MAX);
    table.append(&[files], false);
    let rows = |a: Vec<i64>, b: Vec<&str>| {
        let keys = vec![longs(a), texts(b.into_iter().map(str::to_owned).collect())];
        read(&table, &request(&["a", "b"], keys)).unwrap().0.num_rows()
    };
    assert_eq!(rows(vec![spread(5)], vec!["a text that is not inlined 5"]), 300);
    assert_eq!(rows(vec![spread(5), 7], vec!["no", "a text that is not inlined 5"]), 0, "each half of a key is there");
    // A null half says nothing, the other still does.
    let half = |a: i64| {
        let b: ArrayRef = Arc::new(StringViewArray::from(vec![None::<&str>]));
        read(&table, &request(&["a", "b"], vec![longs([a]), b])).unwrap().0.num_rows()
    };
    assert_eq!((half(spread(9)), half(9)), (300, 0));
}

/// A file whose footer says something else of its chunks.
fn retold(file: &[u8], change: impl Fn(ColumnChunkMetaDataBuilder) -> ColumnChunkMetaDataBuilder) -> Vec<u8> {
    let footer = ParquetMetaDataReader::new().parse_and_finish(&Bytes::copy_from_slice(file)).unwrap();
    let mut groups = Vec::new();
    for group in footer.row_groups() {
        let chunks = group.columns().iter().map(|chunk| change(chunk.clone().into_builder()).build().unwrap());
        groups.push(group.clone().into_builder().set_column_metadata(chunks.collect()).build().unwrap());
    }
    let footer = footer.into_builder().set_row_groups(groups).build();
    let mut out = file[..file.len() - 8].to_vec();
    let mut tail = Vec::new();
    ParquetMetaDataWriter::new(&mut tail, &footer).finish().unwrap();
    out.extend(tail);
    out
}

/// Puts another file in the place of a table's only one.
fn replaced(schema: &str, body: &[u8]) -> Table {
    let columns: Vec<(&str, &str)> = schema.split(", ").map(|column| column.split_once(' ').unwrap()).collect();
    let mut table = Table::new(&crate::testing::schema(&columns), &[], &[], &[]);
    let path = "memory://warehouse/t/data/foreign.parquet".to_owned();
    run(async {
        table.file_io.new_output(&path).unwrap().write(Bytes::copy_from_slice(body)).await.unwrap();
    });
    let mut file = DataFileBuilder::default();
    file.content(DataContentType::Data)
        .file_path(path)
        .file_format(DataFileFormat::Parquet)
        .record_count(1)
        .file_size_in_bytes(body.len() as u64)
        .partition(Struct::empty());
    table.append(&[vec![file.build().unwrap()]], false);
    table
}

#[test]
fn a_filter_whose_length_only_its_header_tells_is_read_too() {
    let (_, body) = contents(&numbered(&[], &[(0..2000).map(spread).collect()]));
    let body = retold(&body, |chunk| chunk.set_bloom_filter_length(None));
    let table = replaced("id long", &body);
    let rows = |key: i64| read(&table, &request(&["id"], vec![longs([key])])).unwrap().0.num_rows();
    assert_eq!((rows(spread(1999)), rows(spread(2000)), rows(7)), (2000, 0, 0));
}

#[test]
fn a_filter_that_is_not_whole_or_not_its_columns_says_nothing() {
    let (_, body) = contents(&numbered(&[], &[(0..2000).map(spread).collect()]));
    let footer = ParquetMetaDataReader::new().parse_and_finish(&body).unwrap();
    let chunk = footer.row_group(0).column(0);
    let (offset, length) = (chunk.bloom_filter_offset().unwrap(), chunk.bloom_filter_length().unwrap());
    let place = usize::try_from(offset).unwrap()..usize::try_from(offset + i64::from(length)).unwrap();
    let overwritten = |from: usize, bytes: &[u8]| {
        let mut body = body.to_vec();
        body[from..from + bytes.len()].copy_from_slice(bytes);
        body
    };
    let (header, bits) = header_of(&body[place.clone()]).unwrap();
    assert_eq!(header as u64 + bits, length as u64);
    let told = |offset: i64, length: i32| {
        retold(&body, |chunk| chunk.set_bloom_filter_offset(Some(offset)).set_bloom_filter_length(Some(length)))
    };
    let mut cases: Vec<(String, Vec<u8>)> = vec![
        ("no bit is set".to_owned(), overwritten(place.start + header, &vec![0; bits as usize])),
        ("a length with another sign".to_owned(), overwritten(place.start, &[0x15, 0x01])),
        ("compressed in an unknown way".to_owned(), overwritten(place.start + header - 4, &[0x2c])),
        ("no header".to_owned(), overwritten(place.start, &[0xff; 8])),
        ("it begins at the data".to_owned(), told(4, length)),
        ("it begins before the file".to_owned(), told(-1, length)),
        ("it is told too long".to_owned(), told(offset, length + 32)),
        ("its length is negative".to_owned(), told(offset, -5)),
        ("its length is nothing".to_owned(), told(offset, 0)),
        ("it ends behind the file".to_owned(), told(body.len() as i64 - 3, length)),
        ("it begins behind the file".to_owned(), told(i64::MAX, i32::MAX)),
    ];
    for cut in [1, 15, 16, 17, 31, 32, 33, length - 32, length - 1] {
        cases.push((format!("cut to {cut}"), told(offset, cut)));
    }
    for (what, body) in cases {
        for without_length in [false, true] {
            let body = if without_length { retold(&body, |c| c.set_bloom_filter_length(None)) } else { body.clone() };
            // Its length is in its header then, and that is right: nothing is wrong with it.
            let mended =
                without_length && (what.contains("cut") || what.contains("length is") || what.contains("long"));
            let table = replaced("id long", &body);
            let (found, figures) = read(&table, &request(&["id"], vec![longs([7])])).unwrap();
            let expected = if mended { (0, 1) } else { (2000, 0) };
            assert_eq!((found.num_rows(), figures.row_groups_filtered), expected, "{what}, {without_length}");
        }
    }
}

/// A file of another writer: one column of these values, by the low-level writer.
fn foreign<T: parquet::data_type::DataType>(message: &str, values: &[T::T]) -> Vec<u8> {
    let message = Arc::new(parse_message_type(message).unwrap());
    let properties = WriterProperties::builder().set_bloom_filter_enabled(true).set_bloom_filter_ndv(1000).build();
    let mut out = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut out, message, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(values, Some(&vec![1; values.len()]), None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    out
}

#[test]
fn values_are_hashed_as_the_file_spells_them() {
    // An int column that has become a long: its old files hold four bytes.
    let body =
        foreign::<Int32Values>("message m { optional int32 c = 1; }", &(0..200).map(|n| n * 1000).collect::<Vec<_>>());
    let table = replaced("c long", &body);
    let rows = |key: i64| read(&table, &request(&["c"], vec![longs([key])])).unwrap().0.num_rows();
    assert_eq!((rows(5000), rows(5001), rows(5000 + (1 << 32))), (200, 0, 0));

    let decimals = |values: Vec<i128>, precision, scale| -> ArrayRef {
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(precision, scale).unwrap())
    };
    let rows = |table: &Table, key: ArrayRef| read(table, &request(&["c"], vec![key])).unwrap().0.num_rows();
    // Decimals as four bytes, in more bytes than they need, and of a narrower type than the table's.
    let body = foreign::<Int32Values>("message m { optional int32 c (DECIMAL(5,2)) = 1; }", &[-12345, 0, 700]);
    let table = replaced("c decimal(5,2)", &body);
    assert_eq!((rows(&table, decimals(vec![-12345], 5, 2)), rows(&table, decimals(vec![701], 5, 2))), (3, 0));
    let wide = |value: i128, length: usize| FixedLenByteArray::from(sign_cut(value, length).unwrap());
    let values: Vec<FixedLenByteArray> = [-12345, 0, 700].map(|value| wide(value, 9)).into();
    let body = foreign::<FixedLenByteArrayType>(
        "message m { optional fixed_len_byte_array(9) c (DECIMAL(5,2)) = 1; }",
        &values,
    );
    for declared in ["c decimal(5,2)", "c decimal(38,2)"] {
        let table = replaced(declared, &body);
        let precision = if declared.contains("38") { 38 } else { 5 };
        assert_eq!(rows(&table, decimals(vec![-12345], precision, 2)), 3);
        assert_eq!(rows(&table, decimals(vec![12345], precision, 2)), 0);
    }
    // Of variable length they have no one spelling: whatever is asked for, they are read.
    let values: Vec<ByteArray> = [-12345, 700].map(|value| ByteArray::from(sign_cut(value, 4).unwrap())).into();
    let body = foreign::<ByteArrayType>("message m { optional binary c (DECIMAL(5,2)) = 1; }", &values);
    let figures = read(&replaced("c decimal(5,2)", &body), &request(&["c"], vec![decimals(vec![1], 5, 2)])).unwrap().1;
    assert_eq!((figures.filters_read, figures.row_groups_read), (0, 1));
    // Text and bytes without their length.
    let body = foreign::<ByteArrayType>(
        "message m { optional binary c (UTF8) = 1; }",
        &[ByteArray::from("é"), ByteArray::from("")],
    );
    let text = |text: &str| -> ArrayRef { Arc::new(StringViewArray::from(vec![text])) };
    let table = replaced("c string", &body);
    assert_eq!((rows(&table, text("é")), rows(&table, text("")), rows(&table, text("e"))), (2, 2, 0));
    // Times in another unit are not taken for absent: the reader gets to refuse them.
    let millis =
        foreign::<parquet::data_type::Int64Type>("message m { optional int64 c (TIMESTAMP_MILLIS) = 1; }", &[5]);
    let key: ArrayRef = Arc::new(arrow::array::TimestampMicrosecondArray::from(vec![5000]).with_timezone("UTC"));
    let fault = read(&replaced("c timestamptz", &millis), &request(&["c"], vec![key])).unwrap_err();
    assert!(fault.to_string().contains("Timestamp(ms"), "{fault}");
}

#[test]
fn numbers_are_cut_only_where_they_lose_nothing() {
    for value in [0, 1, -1, 127, 128, -128, -129, i128::from(i64::MAX), i128::MIN, i128::MAX, 10i128.pow(38) - 1] {
        for length in 1..20 {
            match sign_cut(value, length) {
                Some(bytes) => {
                    let sign = if bytes[0] & 0x80 == 0 { 0u8 } else { 0xff };
                    let mut whole = vec![sign; 20 - length];
                    whole.extend(&bytes);
                    assert_eq!((bytes.len(), i128::from_be_bytes(whole[4..].try_into().unwrap())), (length, value));
                }
                None => assert!(length < 16 && (value >> (length * 8 - 1)) != 0 && (value >> (length * 8 - 1)) != -1),
            }
        }
    }
}

#[test]
fn a_filter_answers_as_another_implementation_does() {
    for size in [32usize, 64, 1024, 96 * 1024] {
        let mut other = Sbbf::new_with_num_of_bytes(size);
        (0..size as i64 / 2).for_each(|n| other.insert(&spread(n)));
        let mut body = Vec::new();
        other.write(&mut body).unwrap();
        let filter = Filter::read(&body.into()).unwrap();
        for n in 0..size as i64 * 2 {
            let probe = probe(Some(&PrimitiveLiteral::Long(spread(n))), Encoding::Int64);
            assert_eq!(filter.may_hold(Some(&probe)), other.check(&spread(n)), "{size} {n}");
        }
    }
}

#[test]
fn as_many_absent_values_pass_as_the_size_says() {
    for rows in [400usize, 2000, 30_000] {
        let (_, body) = contents(&numbered(&[], &[(0..rows as i64).map(spread).collect()]));
        let footer = ParquetMetaDataReader::new().parse_and_finish(&body).unwrap();
        let chunk = footer.row_group(0).column(0);
        let start = chunk.bloom_filter_offset().unwrap() as usize;
        let length = chunk.bloom_filter_length().unwrap() as usize;
        let filter = Filter::read(&body.slice(start..start + length)).unwrap();
        let hash = |n: i64| probe(Some(&PrimitiveLiteral::Long(spread(n))), Encoding::Int64);
        let passed = (0..100_000).filter(|n| filter.may_hold(Some(&hash(1_000_000 + n)))).count();
        let rate = (1.0 - (-(rows as f64) / (length as f64)).exp()).powi(8) * 100_000.0;
        assert!((passed as f64) < rate * UNEVEN * 1.5, "{rows} rows in {length} bytes: {passed}, by their size {rate}");
    }
}

/// A file in memory that remembers what was asked of it.
#[derive(Debug)]
struct Watched(Bytes, Mutex<Vec<Range<u64>>>);

#[async_trait::async_trait]
impl FileRead for Watched {
    async fn read(&self, range: Range<u64>) -> iceberg::Result<Bytes> {
        self.1.lock().unwrap().push(range.clone());
        Ok(self.0.slice(range.start as usize..range.end as usize))
    }
}

#[test]
fn filters_take_one_request_and_none_where_the_footers_brought_them() {
    for (rows, requests) in [(2000, 1), (100_000, 2)] {
        let properties = [("write.parquet.row-group-size-bytes", "100000"), ("write.parquet.dict-size-bytes", "1")];
        let (_, body) = contents(&numbered(&properties, &[(0..rows).map(spread).collect()]));
        let watched = Arc::new(Watched(body.clone(), Mutex::default()));
        let mut file = File::new(Arc::clone(&watched) as Arc<dyn FileRead>, body.len() as u64);
        run(async {
            let footer = file.get_metadata(None).await.unwrap();
            let groups: Vec<usize> = (0..footer.num_row_groups()).collect();
            assert!(rows < 50_000 || groups.len() > 3);
            let wanted = request(&["id"], vec![longs([7])]).keys.unwrap().bind(&schema(&[("id", "long")])).unwrap();
            let counters = Counters::default();
            let kept = row_groups(&mut file, &footer, &wanted.unwrap(), groups.clone(), &[0], &counters).await.unwrap();
            assert!(kept.is_empty());
            assert_eq!(counters.figures().filters_read, groups.len() as u64);
        });
        assert_eq!(watched.1.lock().unwrap().len(), requests, "{rows} rows");
    }
}

/// Bytes that a filter adds to a row: `cargo test -p table bytes_a_row -- --nocapture --ignored`.
#[test]
#[ignore = "prints figures"]
fn bytes_a_row() {
    for rows in [1_000, 10_000, 50_000, 100_000, 200_000] {
        let ids: Vec<i64> = (0..rows).map(spread).collect();
        let with = contents(&numbered(&[], std::slice::from_ref(&ids))).1.len();
        let without = contents(&numbered(&[("write.parquet.bloom-filter-enabled.column.id", "false")], &[ids])).1.len();
        eprintln!("{rows} rows: {:.2} bytes a row", (with - without) as f64 / rows as f64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_row_of_a_wanted_key_is_lost_whatever_its_type(
        (types, columns, others) in prop::collection::vec(prop::sample::select(primitives()), 1..3).prop_flat_map(|types| {
            let columns: Vec<_> = types.iter().map(|data_type| column(data_type, 24)).collect();
            let others: Vec<_> = types.iter().map(|t| prop::collection::vec(prop::option::weighted(0.9, value(t)), 4)).collect();
            (Just(types), columns, others)
        }),
        present in prop::collection::vec(0usize..24, 0..6),
        filtered in prop::collection::vec(any::<bool>(), 2),
        max_bytes in prop::sample::select(vec!["32", "1024", "1048576"]),
        memory in prop::sample::select(vec![0, usize::MAX]),
    ) {
        let names = ["c0", "c1"];
        let fields = types.iter().enumerate().map(|(n, data_type)| {
            Arc::new(NestedField::optional(n as i32 + 1, names[n], Type::Primitive(data_type.clone())))
        });
        let row = Arc::new(NestedField::required(9, "row", Type::Primitive(PrimitiveType::Long)));
        let schema = Arc::new(Schema::builder().with_fields(fields.chain([row])).build().unwrap());
        let enabled: HashMap<String, &str> = types.iter().enumerate()
            .map(|(n, _)| (format!("{ENABLED}{}", names[n]), if filtered[n] { "true" } else { "false" })).collect();
        let mut properties: Vec<(&str, &str)> = enabled.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        properties.push(("write.parquet.bloom-filter-max-bytes", max_bytes));
        let mut table = Table::new(&schema, &[], &[], &properties);
        let arrow = Arc::clone(table.target().arrow_schema());
        for n in 0..3 {
            let from = n * 8;
            let mut batch: Vec<ArrayRef> = types.iter().zip(&columns)
                .map(|(data_type, values)| array(data_type, &values[from..from + 8], Strings::Views)).collect();
            batch.push(longs(from as i64..from as i64 + 8));
            let files = table.write(&[RecordBatch::try_new(Arc::clone(&arrow), batch).unwrap()], memory);
            table.append(&[files], false);
        }
        let mut wanted: Vec<Vec<Option<PrimitiveLiteral>>> = Vec::new();
        for (values, others) in columns.iter().zip(&others) {
            wanted.push(present.iter().map(|row| values[*row].clone()).chain(others.iter().cloned()).collect());
        }
        let keys: Vec<ArrayRef> = types.iter().zip(&wanted).map(|(t, values)| array(t, values, Strings::Views)).collect();
        let (found, figures) = read(&table, &request(&names[..types.len()], keys)).unwrap();
        let kept = found["row"].as_primitive::<Int64Type>().values();
        for row in 0..24usize {
            let same = |key: usize| columns.iter().zip(&wanted).all(|(column, wanted)| column[row] == wanted[key]);
            if (0..wanted[0].len()).any(same) {
                prop_assert!(kept.contains(&(row as i64)), "row {} is lost, {:?}", row, figures);
            }
        }
        // What is kept is as it was.
        for (n, data_type) in types.iter().enumerate() {
            for (row, value) in kept.iter().zip(values(&found[names[n]], data_type)) {
                prop_assert_eq!(&value, &columns[n][*row as usize]);
            }
        }
    }
}

#[test]
fn keys_that_make_no_sense_are_refused() {
    let table = numbered(&[], &[vec![1]]);
    let short: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    for (request, expected) in [
        (request(&["no"], vec![longs([1])]), "no column `no`"),
        (request(&["id"], vec![]), "one value in each"),
        (request(&["id", "id"], vec![longs([1]), longs([1, 2])]), "one value in each"),
        (request(&["id"], vec![short]), "does not hold a long"),
    ] {
        let fault = read(&table, &request).unwrap_err();
        assert!(fault.to_string().contains(expected), "{fault}");
    }
}

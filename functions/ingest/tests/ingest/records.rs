//! What becomes of records: rows, tombstones, dead letters.

use std::collections::BTreeMap;

use arrow::array::{Array, RecordBatch, cast::AsArray};
use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType};
use base64_simd::STANDARD;
use bytes::Bytes;
use model::clock::Timestamp;
use model::coordinate::SourceId;
use model::coverage::Filtered;
use model::failure::Kind;
use serde_json::json;
use staging::dead_letter::{Class, Part};
use staging::key::StagedKey;
use staging::object::{Object, Projection};

use crate::shop::{A1, ARN, Shop, TABLE, at, event, offsets, order, orders, record, rows};

#[tokio::test(start_paused = true)]
async fn records_become_rows_with_where_they_came_from_and_a_footer_that_accounts_for_them() {
    let shop = Shop::new();
    let mut untimed = record(9, b"\x10\x05");
    untimed["timestamp"] = json!(-1);
    let event = event(json!({"orders-eu-3": [record(7, A1), untimed], "orders-0": [record(0, b"\x0a\x01b")]}));
    let outcome = shop.handle(&event).await.unwrap();
    assert_eq!((outcome.records, outcome.dead_letters, outcome.already_stored), (3, 0, false));
    assert_eq!(outcome.dead_letter_keys, Vec::<String>::new());
    assert_eq!(serde_json::to_string(&outcome.response).unwrap(), r#"{"batchItemFailures":[]}"#);

    let object = shop.object();
    // The order is the event's.
    let mut found = orders(&object);
    found.sort_unstable();
    assert_eq!(found, [order(0, 0, "b", 0), order(3, 7, "a1", 1), order(3, 9, "", 5)]);
    let batch = rows(&object);
    let untimed = found_row(&batch, 9);
    assert!(batch.column_by_name("_kafka_timestamp").unwrap().is_null(untimed));
    let stamped = batch.column_by_name("_kafka_timestamp").unwrap();
    let stamped = stamped.as_primitive::<TimestampMicrosecondType>().value(found_row(&batch, 7));
    assert_eq!(stamped, 1_764_424_000_007_000);
    let minute: Timestamp = "2026-11-29T14:05:00Z".parse().unwrap();
    let ingested = batch.column_by_name("_ingested_at").unwrap();
    assert_eq!(ingested.as_primitive::<TimestampMicrosecondType>().value(0), minute.micros());

    let (key, object) = shop.objects().pop_first().unwrap();
    assert_eq!(outcome.staged, [key.to_string()]);
    assert_eq!(key.minute, minute.minute());
    let footer = object.footer();
    assert_eq!((footer.minute, footer.apply_sequence), (minute.minute(), 0));
    assert_eq!(footer.pipeline_file_hash.len(), 64);
    let covered = footer.coverage.get(&at("orders-eu", 3)).unwrap();
    assert_eq!(covered.delivered, offsets(&[(7, 7), (9, 9)]));
    assert_eq!((covered.first.timestamp_ms, covered.last.timestamp_ms), (Some(1_764_424_000_007), None));
    assert!(covered.dead.is_empty() && covered.filtered.is_empty());
    assert_eq!(footer.coverage.delivered_count(), 3);
    let columns: Vec<(&str, &str)> = footer.columns.iter().map(|c| (c.name.as_str(), c.data_type.as_str())).collect();
    assert_eq!(columns.get(..2), Some(&[("id", "string"), ("qty", "long")][..]));
}

#[tokio::test(start_paused = true)]
async fn an_expectation_that_is_not_met_is_a_dead_letter_without_the_value_in_words() {
    let shop = Shop::with("", "[table.columns]\nid = { pattern = '^[a-z]\\d?$', required = true }\nqty = { max = 5 }");
    let records =
        [record(1, A1), record(2, b"\x0a\x01b\x10\x06"), record(3, b"\x0a\x06secret"), record(4, b"\x0a\x01b")];
    let outcome = shop.handle(&event(json!({"orders-0": records}))).await.unwrap();
    assert_eq!((outcome.records, outcome.dead_letters), (4, 2));
    assert_eq!(orders(&shop.object()), [order(0, 1, "a1", 1), order(0, 4, "b", 0)]);
    let letters = shop.letters();
    let found: Vec<(i64, Class, &str)> = letters.iter().map(|l| (l.offset, l.class, l.path.as_str())).collect();
    assert_eq!(found, [(2, Class::Expectation, "qty"), (3, Class::Expectation, "id")]);
    assert!(letters.iter().all(|letter| !letter.message.contains("secret")));
}

#[tokio::test(start_paused = true)]
async fn keys_and_headers_become_columns_or_dead_letters() {
    let columns = r#"
        [table.columns]
        k = { from = "@key", type = "string", required = true }
        city = { from = "@header.city", type = "string" }
        trace = "@header.trace"
    "#;
    let shop = Shop::with("", columns);
    let with = |offset: i64, key: Option<&[u8]>, headers: serde_json::Value| {
        let mut record = record(offset, A1);
        record["key"] = key.map_or(serde_json::Value::Null, |key| json!(STANDARD.encode_to_string(key)));
        record["headers"] = headers;
        record
    };
    let records = [
        with(1, Some(b"k1"), json!([{"city": [65]}, {"trace": [-1]}, {"city": [66]}])),
        with(2, None, json!([])),
        with(3, Some(b""), json!([{"city": null}])),
        with(4, Some(b"k4"), json!([{"city": [-1]}])),
    ];
    let outcome = shop.handle(&event(json!({"orders-0": records}))).await.unwrap();
    assert_eq!((outcome.records, outcome.dead_letters), (4, 2));
    let batch = rows(&shop.object());
    let column = |name: &str| batch.column_by_name(name).unwrap();
    let texts = |name: &str| column(name).as_string::<i32>().iter().map(Option::unwrap_or_default).collect::<Vec<_>>();
    assert_eq!((texts("k"), texts("city")), (vec!["k1", ""], vec!["B", ""]));
    assert_eq!((column("city").is_null(1), column("trace").as_binary::<i32>().value(0)), (true, &b"\xff"[..]));
    let footer: Vec<(String, String)> =
        shop.object().footer().columns.iter().map(|c| (c.name.clone(), c.source.clone())).collect();
    assert!(footer.contains(&("city".to_owned(), "@header.city".to_owned())), "{footer:?}");
    let letters = shop.letters();
    let found: Vec<_> = letters.iter().map(|l| (l.offset, l.class, l.part, l.path.as_str())).collect();
    assert_eq!(
        found,
        [(2, Class::MissingRequired, Part::Key, ""), (4, Class::InvalidUtf8, Part::Value, "@header.city")]
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_filter_does_not_take_is_counted_and_nothing_else_is_asked_of_it() {
    let filter = "filter = { field = \"id\", in = [\"a1\", \"\"] }";
    let shop = Shop::of("", filter, "[table.columns]\nqty = { max = 5 }");
    let event = event(json!({"orders-0": [
        record(1, A1),
        // Beyond the expectation, in a record that is left out and in one that is not.
        record(2, b"\x0a\x01b\x10\x06"),
        record(3, b"\x10\x06"),
        record(4, b""),
        {"offset": 5},
        // No message at all.
        record(6, b"\x0a\x01b\x10"),
    ]}));
    let outcome = shop.handle(&event).await.unwrap();
    assert_eq!(outcome.filtered, BTreeMap::from([(Filtered::Filter, 1), (Filtered::Tombstone, 1)]));
    assert_eq!((outcome.records, outcome.dead_letters), (6, 2));
    assert_eq!(orders(&shop.object()), [order(0, 1, "a1", 1), order(0, 4, "", 0)]);
    let covered = shop.object().footer().coverage.get(&at("orders", 0)).unwrap().clone();
    assert_eq!(covered.filtered[&Filtered::Filter], offsets(&[(2, 2)]));
    let classes: Vec<(i64, Class)> = shop.letters().iter().map(|letter| (letter.offset, letter.class)).collect();
    assert_eq!(classes, [(3, Class::Expectation), (6, Class::Truncated)]);
}

#[tokio::test(start_paused = true)]
async fn personal_data_is_in_dead_letters_only() {
    let columns = r#"
        [table.columns]
        id = { pii = "hash" }
        text = { from = "nest.text", pii = "drop" }
        k = { from = "@key", pii = "last4" }
    "#;
    let shop = Shop::with("", columns);
    let value = b"\x0a\x06secret\x1a\x08\x12\x06hidden";
    let (mut good, mut bad) = (record(1, value), record(2, b"\x0a\x06secret\xff"));
    good["key"] = json!(STANDARD.encode_to_string("covered1234"));
    bad["key"] = good["key"].clone();
    let outcome = shop.handle(&event(json!({"orders-0": [good, bad]}))).await.unwrap();
    assert_eq!((outcome.records, outcome.dead_letters), (2, 1));
    let staged = shop.store.under("staging/").into_values().next().unwrap();
    for raw in ["secret", "hidden", "covered", "a salt of some"] {
        assert!(!staged.windows(raw.len()).any(|window| window == raw.as_bytes()), "{raw}");
    }
    let batch = rows(&shop.object());
    assert_eq!(batch.column_by_name("id").unwrap().as_string::<i32>().value(0).len(), 64);
    assert_eq!(batch.column_by_name("k").unwrap().as_string::<i32>().value(0), "1234");
    assert!(shop.letters()[0].value.as_ref().unwrap().0.windows(6).any(|window| window == b"secret"));
    assert!(!format!("{:?}", shop.ingest).contains("salt of"));
}

#[tokio::test(start_paused = true)]
async fn a_record_is_as_many_rows_as_it_has_elements() {
    let columns = "[table.columns]\nline = { from = \"lines.text\", in = [\"x\", \"y\"] }\nk = \"@key\"";
    let shop = Shop::of("", "explode = \"lines\"", columns);
    let mut first = record(1, b"\x0a\x01a\x22\x03\x12\x01x\x22\x03\x12\x01y");
    first["key"] = json!("aw==");
    let records = [
        first,
        record(2, b"\x0a\x01b"),
        record(3, b"\x22\x03\x12\x01x\x22\x03\x12\x01z"),
        record(4, b"\x0a\x01d\x22\x03\x12\x01y"),
    ];
    let outcome = shop.handle(&event(json!({"orders-0": records}))).await.unwrap();
    assert_eq!((outcome.records, outcome.dead_letters), (4, 1));
    assert_eq!(outcome.filtered, BTreeMap::from([(Filtered::Explode, 1)]));
    let object = shop.object();
    assert_eq!(orders(&object), [order(0, 1, "a", 0), order(0, 1, "a", 0), order(0, 4, "d", 0)]);
    let batch = rows(&object);
    let column = |name: &str| batch.column_by_name(name).unwrap().clone();
    let lines: Vec<_> = column("line").as_string::<i32>().iter().flatten().map(str::to_owned).collect();
    assert_eq!(lines, ["x", "y", "y"]);
    assert_eq!(column("_ordinal").as_primitive::<Int32Type>().values(), &[0, 1, 0]);
    assert_eq!((column("k").null_count(), column("k").as_binary::<i32>().value(1)), (1, &b"k"[..]));
    assert_eq!(object.footer().tables[0].rows, 3);
    let letters = shop.letters();
    assert_eq!((letters[0].offset, letters[0].path.as_str()), (3, "lines[1].text"));
}

fn found_row(batch: &RecordBatch, offset: i64) -> usize {
    let offsets = batch.column_by_name("_kafka_offset").unwrap();
    offsets.as_primitive::<Int64Type>().values().iter().position(|o| *o == offset).unwrap()
}

/// O-38, in a record that goes to dead letters, where headers are kept.
#[tokio::test(start_paused = true)]
async fn headers_of_a_bad_record_are_kept_byte_by_byte() {
    let shop = Shop::new();
    let headers = json!([{"city": [122, 111, -61, -85, -30, -126, -84]}, {"trace": [-128, 0, 127, -1]}, {"city": [65]},
        {"empty": []}, {"none": null}]);
    let (mut signed, mut unsigned) = (record(1, b"\xff"), record(2, b"\xff"));
    signed["headers"] = headers;
    unsigned["headers"] = json!([{"city": [195, 171]}]);
    let outcome = shop.handle(&event(json!({"orders-0": [signed, unsigned, record(3, A1)]}))).await.unwrap();
    assert_eq!((outcome.records, outcome.dead_letters), (3, 2));
    let letters = shop.letters();
    let headers = |n: usize| -> Vec<(String, Option<Bytes>)> {
        letters[n].headers.iter().map(|(name, value)| (name.clone(), value.clone().map(|v| v.0))).collect()
    };
    let some = |name: &str, bytes: &'static [u8]| (name.to_owned(), Some(Bytes::from_static(bytes)));
    assert_eq!(
        headers(0),
        [
            some("city", b"zo\xc3\xab\xe2\x82\xac"),
            some("trace", b"\x80\x00\x7f\xff"),
            some("city", b"A"),
            some("empty", b""),
            ("none".to_owned(), None)
        ]
    );
    assert_eq!(headers(1), [some("city", b"\xc3\xab")]);
}

/// O-39, append: a null value makes no row; a value of zero bytes is a message of defaults.
#[tokio::test(start_paused = true)]
async fn tombstones_are_filtered_and_an_empty_value_is_a_row_of_defaults() {
    let shop = Shop::new();
    let event = event(json!({"orders-0": [
        {"offset": 40, "key": "eyJpZCI6N30=", "value": null},
        {"offset": 41, "key": "eyJpZCI6OX0="},
        {"offset": 42, "key": "eyJpZCI6N30=", "value": STANDARD.encode_to_string(A1)},
        {"offset": 43, "value": null},
        {"offset": 44, "key": "", "value": ""},
    ]}));
    let outcome = shop.handle(&event).await.unwrap();
    assert_eq!(outcome.filtered, BTreeMap::from([(Filtered::Tombstone, 3)]));
    assert_eq!((outcome.records, outcome.dead_letters), (5, 0));
    let object = shop.object();
    assert_eq!(orders(&object), [order(0, 42, "a1", 1), order(0, 44, "", 0)]);
    let covered = object.footer().coverage.get(&at("orders", 0)).unwrap();
    assert_eq!(covered.delivered, offsets(&[(40, 44)]));
    assert_eq!(covered.filtered, BTreeMap::from([(Filtered::Tombstone, offsets(&[(40, 41), (43, 43)]))]));
}

/// A `Node` nested this many times.
fn nested(depth: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..depth {
        let mut outer = vec![0x0a];
        let mut length = bytes.len();
        while length >= 0x80 {
            outer.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        outer.push(length as u8);
        outer.extend(&bytes);
        bytes = outer;
    }
    // As field 3 of an order.
    if let Some(tag) = bytes.first_mut() {
        *tag = 0x1a;
    }
    bytes
}

/// O-40.
#[tokio::test(start_paused = true)]
async fn a_bad_record_amid_good_ones_is_set_aside_with_its_place_and_bytes() {
    let bad: [(Vec<u8>, Class); 3] = [
        (b"\x0a\x05a2".to_vec(), Class::Truncated),
        (nested(101), Class::TooDeep),
        (b"\x0a\x02\xc3\x28".to_vec(), Class::InvalidUtf8),
    ];
    for (bytes, class) in bad {
        let shop = Shop::new();
        let mut spoiled = record(11, &bytes);
        spoiled["key"] = json!("a2V5");
        let event = event(json!({
            "orders-eu-0": [record(10, A1), spoiled, record(12, b"\x0a\x02a3\x10\x03")],
            "orders-eu-1": [record(5, b"\x0a\x02b1\x10\x05"), record(6, b"\x0a\x02b2\x10\x06")],
        }));
        let outcome = shop.handle(&event).await.unwrap();
        assert_eq!(serde_json::to_value(&outcome.response).unwrap(), json!({"batchItemFailures": []}));
        let object = shop.object();
        let mut found = orders(&object);
        found.sort_unstable();
        let expected = [order(0, 10, "a1", 1), order(0, 12, "a3", 3), order(1, 5, "b1", 5), order(1, 6, "b2", 6)];
        assert_eq!(found, expected, "{class}");
        let covered = object.footer().coverage.get(&at("orders-eu", 0)).unwrap();
        assert_eq!((&covered.delivered, &covered.dead), (&offsets(&[(10, 12)]), &offsets(&[(11, 11)])));

        let [letter] = shop.letters().try_into().unwrap();
        assert_eq!((letter.topic.as_str(), letter.partition, letter.offset), ("orders-eu", 0, 11));
        assert_eq!(letter.timestamp_ms, Some(1_764_424_000_011));
        assert_eq!(letter.class, class, "{}", letter.message);
        assert_eq!(letter.value.unwrap().0, bytes);
        assert_eq!(letter.key.unwrap().0, "key");
        let key: StagedKey = outcome.staged[0].parse().unwrap();
        assert_eq!(outcome.dead_letter_keys, [key.dead_letters().to_string()]);
    }
    let shop = Shop::new();
    shop.handle(&event(json!({"orders-0": [record(1, &nested(100))]}))).await.unwrap();
    assert!(shop.letters().is_empty(), "100 levels decode");
}

#[tokio::test(start_paused = true)]
async fn an_object_is_written_even_without_a_row() {
    for (lists, records, dead) in [
        (json!({"orders-0": [record(1, b"\xff"), record(2, b"\xff")]}), 2, 2),
        (json!({"orders-0": [{"offset": 1}]}), 1, 0),
        (json!({"orders-0": []}), 0, 0),
        (json!({}), 0, 0),
    ] {
        let shop = Shop::new();
        let outcome = shop.handle(&event(lists)).await.unwrap();
        assert_eq!((outcome.records, outcome.dead_letters), (records, dead));
        let object = shop.object();
        assert_eq!(object.footer().coverage.delivered_count(), records);
        assert!(orders_or_none(&object).is_empty());
        assert_eq!(shop.letters().len() as u64, dead);
        assert_eq!(object.schema().fields().len(), 11, "the columns are there: {:?}", object.schema());
    }
}

fn orders_or_none(object: &Object) -> Vec<RecordBatch> {
    object.rows(TABLE, &Projection::default()).unwrap().map(Result::unwrap).filter(|b| b.num_rows() > 0).collect()
}

#[tokio::test(start_paused = true)]
async fn what_an_event_must_say_it_says_or_nothing_is_stored() {
    let shop = Shop::new();
    let foreign =
        event(json!({"orders-0": [record(1, A1)], "payments-0": [record(1, A1)], "orders-eu-x-1": [record(1, A1)]}));
    let error = shop.handle(&foreign).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Misconfigured);
    assert!(error.to_string().contains("`orders-eu-x`, `payments`, which pipeline orders does not take"), "{error}");
    // A foreign list without a record asks for nothing.
    shop.handle(&event(json!({"orders-0": [record(1, A1)], "payments-0": []}))).await.unwrap();

    let nameless = json!({"eventSource": "SelfManagedKafka", "records": {"orders-0": [record(1, A1)]}});
    let shop = Shop::new();
    let error = shop.handle(&nameless).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Misconfigured);
    assert!(error.to_string().contains("`name` under [source]"), "{error}");
    let error = shop.handle(&json!({"Records": []})).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Misconfigured);
    assert!(shop.store.under("").is_empty());

    let shop = Shop::with(r#"name = "orders-cluster""#, "");
    shop.handle(&nameless).await.unwrap();
    let source = SourceId::of("orders-cluster");
    let coverage = shop.object().footer().coverage.clone();
    assert!(coverage.iter().all(|(at, _)| at.source == source));
    // The event's own word goes before the file's.
    shop.handle(&event(json!({"orders-0": [record(1, A1)]}))).await.unwrap();
    let sources: Vec<SourceId> = shop
        .objects()
        .values()
        .flat_map(|o| o.footer().coverage.iter().map(|(at, _)| at.source.clone()).collect::<Vec<_>>())
        .collect();
    assert!(sources.contains(&SourceId::of(ARN)) && sources.contains(&source));
}

#[tokio::test(start_paused = true)]
async fn a_timestamp_that_its_column_can_not_hold_is_a_dead_letter() {
    let with = |timestamp: i64| {
        let mut record = record(1, A1);
        record["timestamp"] = json!(timestamp);
        event(json!({"orders-0": [record]}))
    };
    let shop = Shop::new();
    shop.handle(&with(i64::MAX)).await.unwrap();
    assert_eq!(shop.letters()[0].class, Class::OutOfRange);
    let required = Shop::with("", "[table.columns]\nsent = { from = \"@timestamp\", required = true }");
    required.handle(&with(-1)).await.unwrap();
    assert_eq!(required.letters()[0].class, Class::MissingRequired);
    required.handle(&with(5)).await.unwrap();
    assert_eq!(required.letters().len(), 1);
}

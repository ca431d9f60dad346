//! One event after another through the whole of ingest, into a store that can fail.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod memory;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, cast::AsArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType};
use base64_simd::STANDARD;
use bytes::Bytes;
use ingest::{Error, Ingest, IngestConfig, Outcome};
use memory::{Answer, Memory, TokioClock};
use model::clock::{Clock, Timestamp};
use model::coordinate::{SourceId, TopicPartition};
use model::coverage::Filtered;
use model::failure::Kind;
use model::interval::{Interval, Intervals};
use pipeline::Environment;
use proptest::prelude::*;
use serde_json::{Value, json};
use staging::dead_letter::{self, Class, DeadLetter};
use staging::key::StagedKey;
use staging::object::{Object, Projection};

const ARN: &str = "arn:aws:kafka:eu-west-1:123456789012:cluster/demo/0a1b2c3d-4e5f-2";
const TABLE: &str = "shop.orders";
/// `{id: "a1", qty: 1}`
const A1: &[u8] = b"\x0a\x02a1\x10\x01";

const PROTO: &str = r#"
    syntax = "proto3";
    package shop;
    message Order { string id = 1; int64 qty = 2; Node nest = 3; }
    message Node { Node next = 1; string text = 2; }
"#;

/// An ingest of orders, its store and its clock.
struct Shop {
    ingest: Ingest,
    store: Arc<Memory>,
    clock: Arc<TokioClock>,
    folder: tempfile::TempDir,
}

impl Shop {
    fn new() -> Self {
        Self::with("", "")
    }

    /// With more lines under `[source]` and `[table]`.
    fn with(source: &str, table: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pipelines/orders.toml");
        std::fs::create_dir_all(folder.path().join("schemas")).unwrap();
        std::fs::write(folder.path().join("schemas/orders.proto"), PROTO).unwrap();
        let text = format!(
            r#"
            [source]
            topics = ["orders", "orders-eu"]
            {source}
            [value]
            format = "protobuf"
            framing = "bare"
            schema = {{ proto = "schemas/orders.proto", message = "shop.Order" }}
            [table]
            name = "{TABLE}"
            mode = "append"
            {table}
            "#
        );
        let environment = Environment::embedded(folder.path());
        let pipeline = pipeline::file::parse(&text, &environment, &file).unwrap();
        let clock = Arc::new(TokioClock::new("2026-11-29T14:05:10Z".parse().unwrap()));
        let store = Arc::new(Memory::new(clock.clone()));
        let id = "orders-00ff00ff".parse().unwrap();
        let config = IngestConfig::load(pipeline, id, store.clone(), clock.clone()).unwrap();
        Self { ingest: Ingest::new(config).unwrap(), store, clock, folder }
    }

    async fn handle(&self, event: &Value) -> Result<Outcome, Error> {
        self.handle_within(event, 10).await
    }

    async fn handle_within(&self, event: &Value, seconds: i64) -> Result<Outcome, Error> {
        let deadline = self.clock.now().plus_micros(seconds * 1_000_000);
        self.ingest.handle(event.to_string().as_bytes(), Some(deadline)).await
    }

    /// The staged objects, by key.
    fn objects(&self) -> BTreeMap<StagedKey, Object> {
        let staged = self.store.under("staging/").into_iter();
        staged.map(|(key, body)| (key.parse().unwrap(), Object::open(body).unwrap())).collect()
    }

    /// The only staged object.
    fn object(&self) -> Object {
        let mut objects = self.objects();
        assert_eq!(objects.len(), 1);
        objects.pop_first().unwrap().1
    }

    fn letters(&self) -> Vec<DeadLetter> {
        let all = self.store.under("dead-letters/").into_values();
        all.flat_map(|body| dead_letter::decode(&body).unwrap()).collect()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "a call reads as the event it makes")]
fn event(lists: Value) -> Value {
    json!({"eventSource": "aws:kafka", "eventSourceArn": ARN, "records": lists})
}

fn record(offset: i64, value: &[u8]) -> Value {
    json!({"offset": offset, "timestamp": 1_764_424_000_000_i64 + offset, "timestampType": "CREATE_TIME",
        "value": STANDARD.encode_to_string(value)})
}

fn rows(object: &Object) -> RecordBatch {
    let rows = object.rows(TABLE, &Projection::default()).unwrap();
    let schema = rows.schema();
    let batches: Vec<RecordBatch> = rows.map(Result::unwrap).collect();
    concat_batches(&schema, &batches).unwrap()
}

/// Partition, offset, id and quantity of each row.
fn orders(object: &Object) -> Vec<(i32, i64, String, i64)> {
    let batch = rows(object);
    let column = |name: &str| batch.column_by_name(name).unwrap().clone();
    let (partitions, offsets) = (column("_kafka_partition"), column("_kafka_offset"));
    let (ids, quantities) = (column("id"), column("qty"));
    (0..batch.num_rows())
        .map(|row| {
            let partition = partitions.as_primitive::<Int32Type>().value(row);
            let offset = offsets.as_primitive::<Int64Type>().value(row);
            let id = ids.as_string::<i32>().value(row).to_owned();
            (partition, offset, id, quantities.as_primitive::<Int64Type>().value(row))
        })
        .collect()
}

fn order(partition: i32, offset: i64, id: &str, qty: i64) -> (i32, i64, String, i64) {
    (partition, offset, id.to_owned(), qty)
}

fn at(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition { source: SourceId::of(ARN), topic: topic.to_owned(), partition }
}

fn offsets(list: &[(i64, i64)]) -> Intervals {
    list.iter().map(|(first, last)| Interval::new(*first, *last).unwrap()).collect()
}

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
        assert_eq!(object.schema().fields().len(), 10, "the columns are there: {:?}", object.schema());
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

/// Good and bad records together, so that an invocation stores two objects.
fn mixed() -> Value {
    event(json!({"orders-0": [record(1, A1), record(2, b"\xff")], "orders-1": [record(8, b"\x10\x02")]}))
}

/// What a redelivery of [`mixed`] must leave: one object and one dead letter, and both under one hash.
fn one_of_each(shop: &Shop) {
    let key = shop.objects().into_keys().next().unwrap();
    let keys: Vec<String> = shop.store.under("").into_keys().collect();
    assert_eq!(keys, [key.dead_letters().to_string(), key.to_string()]);
    assert_eq!(orders(&shop.object()).len(), 2);
    assert_eq!(shop.letters().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_put_that_can_succeed_later_is_tried_until_it_does() {
    for answers in [
        vec![Answer::Refuse],
        vec![Answer::Refuse, Answer::Refuse, Answer::LoseBefore, Answer::Refuse],
        vec![Answer::LoseBefore],
        vec![Answer::LoseAfter],
        vec![Answer::Store, Answer::LoseAfter],
        vec![Answer::Store, Answer::Refuse, Answer::LoseAfter, Answer::LoseBefore],
    ] {
        let shop = Shop::new();
        shop.store.script(answers.clone());
        let outcome = shop.handle(&mixed()).await.unwrap();
        one_of_each(&shop);
        assert_eq!(outcome.already_stored, answers.len() > 1 && answers.contains(&Answer::LoseAfter), "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_put_that_does_not_succeed_by_the_deadline_fails_the_invocation() {
    let check = |answer: Answer, kind: Kind| async move {
        let shop = Shop::new();
        shop.store.always(answer);
        let before = shop.clock.now();
        let error = shop.handle_within(&mixed(), 3).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{answer:?}: {error}");
        let took = shop.clock.now().micros() - before.micros();
        assert!(took <= 3_000_000, "{answer:?}: {took}");
        // The redelivery, once the store works again.
        shop.store.always(Answer::Store);
        shop.handle(&mixed()).await.unwrap();
        one_of_each(&shop);
    };
    check(Answer::Refuse, Kind::Retry).await;
    check(Answer::LoseBefore, Kind::OutcomeUnknown).await;
    check(Answer::LoseAfter, Kind::OutcomeUnknown).await;
    check(Answer::Hang, Kind::OutcomeUnknown).await;
    check(Answer::Deny, Kind::Misconfigured).await;
}

#[tokio::test(start_paused = true)]
async fn no_attempt_starts_after_the_deadline() {
    let shop = Shop::new();
    let error = shop.handle_within(&mixed(), 0).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Retry);
    assert!(shop.store.under("").is_empty());
}

/// I1: whatever dies between the steps, nothing is answered before both are durable, and a redelivery adds nothing.
#[tokio::test(start_paused = true)]
async fn a_crash_between_the_steps_leaves_what_a_redelivery_completes() {
    // Dead letters stored, the object not.
    let shop = Shop::new();
    shop.store.script(vec![Answer::Store, Answer::Deny]);
    shop.handle(&mixed()).await.unwrap_err();
    assert_eq!((shop.objects().len(), shop.letters().len()), (0, 1));
    let outcome = shop.handle(&mixed()).await.unwrap();
    assert!(!outcome.already_stored);
    one_of_each(&shop);
    // Both stored, the answer lost on its way to Lambda.
    let again = shop.handle(&mixed()).await.unwrap();
    assert!(again.already_stored);
    assert_eq!(Outcome { already_stored: false, ..again }, outcome);
    one_of_each(&shop);
}

#[tokio::test(start_paused = true)]
async fn a_redelivery_in_a_later_minute_covers_the_same_under_the_same_hash() {
    let shop = Shop::new();
    shop.handle(&mixed()).await.unwrap();
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    let outcome = shop.handle(&mixed()).await.unwrap();
    assert!(!outcome.already_stored);
    let objects: Vec<(StagedKey, Object)> = shop.objects().into_iter().collect();
    let [(first, a), (second, b)] = objects.as_slice() else { panic!("{objects:?}") };
    assert_eq!(first.minute.plus(1), second.minute);
    assert_eq!(first.hash, second.hash);
    assert_eq!(a.footer().coverage, b.footer().coverage);
    assert_eq!(orders(a), orders(b));
}

#[tokio::test(start_paused = true)]
async fn what_the_store_answers_minutes_later_is_written_again_under_a_newer_minute() {
    // The process was paused before the put of dead letters, or before that of the object.
    for before in [vec![], vec![Answer::Store]] {
        let shop = Shop::new();
        let start = shop.clock.now().minute();
        shop.store.script(before.into_iter().chain([Answer::Pause(400)]).collect());
        let outcome = shop.handle_within(&mixed(), 3600).await.unwrap();
        let key: StagedKey = outcome.staged[0].parse().unwrap();
        assert_eq!(key.minute, start.plus(6));
        let objects = shop.objects();
        let object = objects.get(&key).unwrap();
        assert_eq!(object.footer().minute, key.minute);
        let batch = rows(object);
        let ingested = batch.column_by_name("_ingested_at").unwrap();
        assert_eq!(ingested.as_primitive::<TimestampMicrosecondType>().value(0), key.minute.start().micros());
        assert!(shop.store.under("").contains_key(&key.dead_letters().to_string()));
    }
    // Five minutes past are not yet late.
    let shop = Shop::new();
    let start = shop.clock.now().minute();
    shop.store.script(vec![Answer::Store, Answer::Pause(5 * 60 - 10)]);
    let outcome = shop.handle_within(&mixed(), 3600).await.unwrap();
    assert_eq!(outcome.staged[0].parse::<StagedKey>().unwrap().minute, start);
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_clock_is_behind_takes_the_stores_minute() {
    let shop = Shop::new();
    shop.store.ahead(2 * 60 * 60);
    let outcome = shop.handle(&mixed()).await.unwrap();
    let key: StagedKey = outcome.staged[0].parse().unwrap();
    assert_eq!(key.minute, shop.clock.now().minute().plus(120));
}

#[test]
fn a_plan_depends_on_event_and_minute_only() {
    let shop = Shop::new();
    let minute = "2026-11-29/14/05".parse().unwrap();
    let body = mixed().to_string();
    let plan = shop.ingest.plan(body.as_bytes(), minute).unwrap();
    // Other events in between, good and bad, leave nothing behind in the buffers.
    shop.ingest
        .plan(event(json!({"orders-7": [record(3, A1), record(4, b"\xff")]})).to_string().as_bytes(), minute)
        .unwrap();
    shop.ingest.plan(b"{", minute).unwrap_err();
    assert_eq!(shop.ingest.plan(body.as_bytes(), minute).unwrap(), plan);
    let other = Shop::new();
    assert_eq!(other.ingest.plan(body.as_bytes(), minute).unwrap(), plan);
    assert!(project(&shop) != project(&other));
}

fn project(shop: &Shop) -> PathBuf {
    Path::new(shop.folder.path()).to_owned()
}

#[test]
fn a_coordinate_twice_in_an_event_is_counted_and_stored_once() {
    let shop = Shop::new();
    let minute = "2026-11-29/14/05".parse().unwrap();
    let twice = event(json!({"orders-0": [record(2, A1), record(1, A1), record(2, A1)]})).to_string();
    let plan = shop.ingest.plan(twice.as_bytes(), minute).unwrap();
    assert_eq!((plan.outcome.records, plan.outcome.duplicates_in_event), (2, 1));
    let object = Object::open(plan.object.body).unwrap();
    assert_eq!(orders(&object), [order(0, 2, "a1", 1), order(0, 1, "a1", 1)]);
    let covered = object.footer().coverage.get(&at("orders", 0)).unwrap();
    assert_eq!((covered.first.offset, covered.last.offset), (1, 2));
    let differing = event(json!({"orders-0": [record(2, A1), record(2, b"")]})).to_string();
    assert_eq!(shop.ingest.plan(differing.as_bytes(), minute).unwrap_err().kind(), Kind::Corrupt);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// I5, for one event: every record is a row, filtered or dead, and covered as what it is.
    #[test]
    fn every_record_is_accounted_for(
        lists in prop::collection::vec(prop::collection::btree_map(0..30_i64, prop::option::of(prop_oneof![
            Just(A1.to_vec()),
            prop::collection::vec(any::<u8>(), 0..12),
        ]), 0..12), 0..4),
    ) {
        let shop = Shop::new();
        let names = ["orders-0", "orders-1", "orders-eu-0", "orders-eu-12"];
        let text: serde_json::Map<String, Value> = names.iter().zip(&lists).map(|(name, list)| {
            let records = list.iter().map(|(offset, value)| match value {
                Some(value) => record(*offset, value),
                None => json!({"offset": offset}),
            });
            ((*name).to_owned(), records.collect())
        }).collect();
        let minute = "2026-11-29/14/05".parse().unwrap();
        let staged = shop.ingest.plan(event(Value::Object(text)).to_string().as_bytes(), minute).unwrap();
        let object = Object::open(staged.object.body).unwrap();
        let coverage = &object.footer().coverage;
        let sent: usize = lists.iter().map(|list| list.len()).sum();
        prop_assert_eq!(staged.outcome.records, sent as u64);
        prop_assert_eq!(coverage.delivered_count(), sent as u64);
        let kept: Vec<(i32, i64, String, i64)> = if coverage.is_empty() { Vec::new() } else { orders(&object) };
        let letters = staged.dead_letters.map_or_else(Vec::new, |p| dead_letter::decode(&p.body).unwrap());
        let filtered: u64 = staged.outcome.filtered.values().sum();
        prop_assert_eq!(kept.len() as u64 + letters.len() as u64 + filtered, sent as u64);
        for letter in &letters {
            let covered = coverage.get(&letter.at()).unwrap();
            prop_assert!(covered.dead.contains(letter.offset));
        }
        let dead: u64 = coverage.iter().map(|(_, covered)| covered.dead.count()).sum();
        prop_assert_eq!(dead, letters.len() as u64);
    }
}

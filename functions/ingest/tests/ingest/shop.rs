//! An ingest of orders over a store in memory, and what its objects hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{RecordBatch, cast::AsArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{Int32Type, Int64Type};
use base64_simd::STANDARD;
use ingest::{Error, Ingest, IngestConfig, Outcome};
use model::clock::Clock;
use model::coordinate::{SourceId, TopicPartition};
use model::interval::{Interval, Intervals};
use model::secret::Secret;
use pipeline::Environment;
use serde_json::{Value, json};
use staging::dead_letter::{self, DeadLetter};
use staging::key::StagedKey;
use staging::object::{Object, Projection};

use crate::memory::{Memory, TokioClock};

pub(crate) const ARN: &str = "arn:aws:kafka:eu-west-1:123456789012:cluster/demo/0a1b2c3d-4e5f-2";
pub(crate) const TABLE: &str = "shop.orders";
/// `{id: "a1", qty: 1}`
pub(crate) const A1: &[u8] = b"\x0a\x02a1\x10\x01";

const PROTO: &str = r#"
    syntax = "proto3";
    package shop;
    message Order { string id = 1; int64 qty = 2; Node nest = 3; repeated Node lines = 4; }
    message Node { Node next = 1; string text = 2; }
"#;

/// An ingest of orders, its store and its clock.
pub(crate) struct Shop {
    pub(crate) ingest: Ingest,
    pub(crate) store: Arc<Memory>,
    pub(crate) clock: Arc<TokioClock>,
    pub(crate) folder: tempfile::TempDir,
}

impl Shop {
    pub(crate) fn new() -> Self {
        Self::with("", "")
    }

    /// With more lines under `[source]` and `[table]`.
    pub(crate) fn with(source: &str, table: &str) -> Self {
        Self::of(source, "", table)
    }

    /// With more lines under `[source]`, `[value]` and `[table]`.
    pub(crate) fn of(source: &str, value: &str, table: &str) -> Self {
        Self::named(TABLE, source, value, table)
    }

    /// The same with a table's name, or a route.
    pub(crate) fn named(name: &str, source: &str, value: &str, table: &str) -> Self {
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
            {value}
            [table]
            name = "{name}"
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
        let config = config.salted(Some(Secret::new(*b"a salt of some length")));
        Self { ingest: Ingest::new(config).unwrap(), store, clock, folder }
    }

    pub(crate) async fn handle(&self, event: &Value) -> Result<Outcome, Error> {
        self.handle_within(event, 10).await
    }

    pub(crate) async fn handle_within(&self, event: &Value, seconds: i64) -> Result<Outcome, Error> {
        let deadline = self.clock.now().plus_micros(seconds * 1_000_000);
        self.ingest.handle(event.to_string().as_bytes(), Some(deadline)).await
    }

    /// The staged objects, by key.
    pub(crate) fn objects(&self) -> BTreeMap<StagedKey, Object> {
        let staged = self.store.under("staging/").into_iter();
        staged.map(|(key, body)| (key.parse().unwrap(), Object::open(body).unwrap())).collect()
    }

    /// The only staged object.
    pub(crate) fn object(&self) -> Object {
        let mut objects = self.objects();
        assert_eq!(objects.len(), 1);
        objects.pop_first().unwrap().1
    }

    pub(crate) fn letters(&self) -> Vec<DeadLetter> {
        let all = self.store.under("dead-letters/").into_values();
        all.flat_map(|body| dead_letter::decode(&body).unwrap()).collect()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "a call reads as the event it makes")]
pub(crate) fn event(lists: Value) -> Value {
    json!({"eventSource": "aws:kafka", "eventSourceArn": ARN, "records": lists})
}

pub(crate) fn record(offset: i64, value: &[u8]) -> Value {
    json!({"offset": offset, "timestamp": 1_764_424_000_000_i64 + offset, "timestampType": "CREATE_TIME",
        "value": STANDARD.encode_to_string(value)})
}

pub(crate) fn rows(object: &Object) -> RecordBatch {
    rows_of(object, TABLE)
}

pub(crate) fn rows_of(object: &Object, table: &str) -> RecordBatch {
    let rows = object.rows(table, &Projection::default()).unwrap();
    let schema = rows.schema();
    let batches: Vec<RecordBatch> = rows.map(Result::unwrap).collect();
    concat_batches(&schema, &batches).unwrap()
}

/// Partition, offset, id and quantity of each row.
pub(crate) fn orders(object: &Object) -> Vec<(i32, i64, String, i64)> {
    orders_of(object, TABLE)
}

pub(crate) fn orders_of(object: &Object, table: &str) -> Vec<(i32, i64, String, i64)> {
    let batch = rows_of(object, table);
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

pub(crate) fn order(partition: i32, offset: i64, id: &str, qty: i64) -> (i32, i64, String, i64) {
    (partition, offset, id.to_owned(), qty)
}

pub(crate) fn at(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition { source: SourceId::of(ARN), topic: topic.to_owned(), partition }
}

pub(crate) fn offsets(list: &[(i64, i64)]) -> Intervals {
    list.iter().map(|(first, last)| Interval::new(*first, *last).unwrap()).collect()
}

//! One event, many tables.

use std::collections::BTreeMap;

use model::coverage::Filtered;
use serde_json::{Value, json};
use staging::dead_letter::Class;

use crate::shop::{A1, Shop, at, event, offsets, order, orders_of, record};

/// `{id, qty: 1}`
fn value(id: &str) -> Vec<u8> {
    [&[0x0a, u8::try_from(id.len()).unwrap()], id.as_bytes(), &[0x10, 1]].concat()
}

fn with_header(mut record: Value, name: &str, value: Option<&[u8]>) -> Value {
    record["headers"] = json!([{ name: value.map(<[u8]>::to_vec) }]);
    record
}

/// The tables of the only object with how many rows each has.
fn tables(shop: &Shop) -> Vec<(String, u64)> {
    shop.object().footer().tables.iter().map(|table| (table.name.clone(), table.rows)).collect()
}

fn named(tables: &[(&str, u64)]) -> Vec<(String, u64)> {
    tables.iter().map(|(name, rows)| ((*name).to_owned(), *rows)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_topic_names_the_table_of_its_records() {
    let shop = Shop::named("shop.t_{topic}", "", "", "");
    let event = event(json!({
        "orders-eu-3": [record(7, A1), record(9, &value("b"))],
        "orders-0": [record(0, &value("c"))],
        "orders-eu-1": [record(4, &value("d"))],
    }));
    let outcome = shop.handle(&event).await.unwrap();
    assert_eq!((outcome.records, outcome.dead_letters), (4, 0));
    let object = shop.object();
    assert_eq!(tables(&shop), named(&[("shop.t_orders", 1), ("shop.t_orders_eu", 3)]));
    assert_eq!(orders_of(&object, "shop.t_orders"), [order(0, 0, "c", 1)]);
    let mut eu = orders_of(&object, "shop.t_orders_eu");
    eu.sort_unstable();
    assert_eq!(eu, [order(1, 4, "d", 1), order(3, 7, "a1", 1), order(3, 9, "b", 1)]);
    // What is covered is covered for every table.
    assert_eq!(object.footer().coverage.get(&at("orders-eu", 3)).unwrap().delivered, offsets(&[(7, 7), (9, 9)]));
}

#[tokio::test(start_paused = true)]
async fn fields_and_headers_name_tables_or_the_record_is_unroutable() {
    let shop = Shop::named("{header:land}.{field:id}", "", "", "");
    let eu = |record| with_header(record, "land", Some(b"EU"));
    let records = [
        eu(record(0, &value("Tenant-1"))),
        eu(record(1, &value("tenant.1"))),
        with_header(record(2, &value("b")), "land", Some(b"us")),
        record(3, &value("b")),
        with_header(record(4, &value("b")), "land", None),
        eu(record(5, &value("a b"))),
        eu(record(6, b"\x10\x01")),
        eu(record(7, &value("_x"))),
        eu(record(8, b"\x0a\x05a")),
        eu(json!({"offset": 9, "timestamp": 1, "timestampType": "CREATE_TIME"})),
        with_header(record(10, &value("b")), "land", Some(b"\xff")),
        eu(record(11, &value("b"))),
    ];
    let outcome = shop.handle(&event(json!({"orders-0": records}))).await.unwrap();
    assert_eq!((outcome.records, outcome.dead_letters), (12, 7));
    assert_eq!(outcome.filtered, BTreeMap::from([(Filtered::Tombstone, 1)]));
    assert_eq!(tables(&shop), named(&[("eu.b", 1), ("eu.tenant_1", 2), ("us.b", 1)]));
    let object = shop.object();
    assert_eq!(orders_of(&object, "eu.tenant_1"), [order(0, 0, "Tenant-1", 1), order(0, 1, "tenant.1", 1)]);
    assert_eq!(orders_of(&object, "us.b"), [order(0, 2, "b", 1)]);
    let letters = shop.letters();
    let found: Vec<(i64, Class, &str)> = letters.iter().map(|l| (l.offset, l.class, l.path.as_str())).collect();
    let unroutable = |offset, path| (offset, Class::Unroutable, path);
    assert_eq!(
        found,
        [
            unroutable(3, "@header.land"),
            unroutable(4, "@header.land"),
            unroutable(5, "id"),
            unroutable(6, "id"),
            unroutable(7, ""),
            (8, Class::Truncated, "id"),
            unroutable(10, "@header.land"),
        ]
    );
    // Values are not repeated: they may be somebody's.
    assert!(letters.iter().all(|letter| !letter.message.contains("a b")), "{letters:?}");
    assert_eq!(object.footer().coverage.get(&at("orders", 0)).unwrap().dead, offsets(&[(3, 8), (10, 10)]));
}

#[tokio::test(start_paused = true)]
async fn nothing_of_one_event_is_left_in_the_next() {
    let shop = Shop::named("shop.{field:id}", "", "", "");
    let one = |n: i64, id: &str| event(json!({"orders-0": [record(n, &value(id))]}));
    shop.handle(&one(0, "a")).await.unwrap();
    shop.handle(&one(1, "b")).await.unwrap();
    shop.handle(&event(json!({"orders-0": [record(2, &value("a b"))]}))).await.unwrap();
    shop.handle(&one(3, "a")).await.unwrap();
    let objects = shop.objects();
    let mut found: Vec<(i64, Vec<String>)> = objects
        .values()
        .map(|object| {
            let footer = object.footer();
            let first = footer.coverage.get(&at("orders", 0)).unwrap().first.offset;
            (first, footer.tables.iter().map(|t| format!("{} {}", t.name, t.rows)).collect())
        })
        .collect();
    found.sort();
    let text = |text: &str| vec![text.to_owned()];
    assert_eq!(found, [(0, text("shop.a 1")), (1, text("shop.b 1")), (2, vec![]), (3, text("shop.a 1"))]);
}

#[tokio::test(start_paused = true)]
async fn a_field_with_a_value_for_each_record_names_no_tables_without_end() {
    let shop = Shop::named("shop.{field:id}", "", "", "");
    let records: Vec<Value> = (0..1200).map(|n| record(n, &value(&format!("t{}", n % 1100)))).collect();
    let outcome = shop.handle(&event(json!({"orders-0": records}))).await.unwrap();
    // A thousand tables, and of the last hundred names no row.
    assert_eq!((shop.object().footer().tables.len(), outcome.dead_letters), (1000, 100));
    assert!(shop.letters().iter().all(|letter| letter.class == Class::Unroutable));
}

#[tokio::test(start_paused = true)]
async fn a_name_is_as_long_as_a_key_in_the_store_takes() {
    let shop = Shop::named("shop.{field:id}", "", "", "");
    let text = |n: usize| [&[0x0a, 0x80 | u8::try_from(n % 128).unwrap(), 1], "x".repeat(n).as_bytes()].concat();
    let records = [record(0, &text(250)), record(1, &text(251))];
    let outcome = shop.handle(&event(json!({"orders-0": records}))).await.unwrap();
    assert_eq!((outcome.dead_letters, shop.letters()[0].offset), (1, 1));
    assert_eq!(tables(&shop)[0].0.len(), 255);
}

#[tokio::test(start_paused = true)]
async fn what_differs_for_one_table_is_asked_of_its_records_alone() {
    let dedup = "primary_key = [\"id\"]\n[table.columns]\nsent = \"@timestamp\"\nqty = { min = 0 }\n\
                 [tables.orders]\nmode = \"dedup\"\ndedup_within = { column = \"sent\", lookback = \"1h\" }";
    let shop = Shop::named("shop.{topic}", "", "", dedup);
    let untimed = |offset| {
        let mut record = record(offset, A1);
        record["timestamp"] = json!(-1);
        record
    };
    let event = event(json!({"orders-0": [untimed(1), record(2, A1)], "orders-eu-0": [untimed(3)]}));
    let outcome = shop.handle(&event).await.unwrap();
    assert_eq!(outcome.dead_letters, 1);
    assert_eq!((shop.letters()[0].offset, shop.letters()[0].class), (1, Class::MissingRequired));
    assert_eq!(tables(&shop), named(&[("shop.orders", 1), ("shop.orders_eu", 1)]));
    // The footer's word is one for all tables.
    let footer = shop.object().footer().clone();
    assert!(footer.columns.iter().all(|column| !column.required), "{:?}", footer.columns);
}

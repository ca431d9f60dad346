//! Plans: the same from the same, and accounting for everything.

use model::failure::Kind;
use proptest::prelude::*;
use serde_json::{Value, json};
use staging::dead_letter;
use staging::object::Object;

use crate::shop::{A1, Shop, at, event, order, orders, record};
use crate::storing::mixed;

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
    assert_ne!(shop.folder.path(), other.folder.path(), "the place of the project plays no part");
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

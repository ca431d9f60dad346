use std::collections::BTreeMap;

use serde_json::Value;

use super::*;

fn everything(options: Options) -> (Vec<Delivery>, Generator) {
    let mut generator = Generator::new(options);
    let mut all = Vec::new();
    while let Some(delivery) = generator.next_delivery() {
        all.push(delivery);
    }
    (all, generator)
}

/// Each record of an event as (partition, offset, timestamp, value), in the event's order.
fn records(body: &[u8]) -> Vec<(i64, i64, i64, String)> {
    let event: Value = serde_json::from_slice(body).unwrap();
    let mut all = Vec::new();
    for (key, records) in event["records"].as_object().unwrap() {
        for record in records.as_array().unwrap() {
            let partition = record["partition"].as_i64().unwrap();
            assert_eq!(*key, format!("{TOPIC}-{partition}"));
            assert_eq!(record["topic"], TOPIC);
            all.push((
                partition,
                record["offset"].as_i64().unwrap(),
                record["timestamp"].as_i64().unwrap(),
                record["value"].as_str().unwrap().to_owned(),
            ));
        }
    }
    all
}

#[test]
fn every_record_comes_once_in_order_and_redeliveries_repeat_what_came() {
    let (deliveries, generator) = everything(Options { records: 40_000, bad: 0.01, seed: 5, dedup: false });
    let mut next: BTreeMap<i64, i64> = BTreeMap::new();
    let mut seen = BTreeMap::new();
    let (mut again, mut pieces, mut partitions_most) = (0, 0, 0);
    for delivery in &deliveries {
        let all = records(&delivery.body);
        assert_eq!(all.len() as u64, delivery.records);
        assert!(delivery.records <= RECORDS_MAX && delivery.body.len() <= BYTES_MAX);
        let mut partitions: Vec<i64> = all.iter().map(|r| r.0).collect();
        partitions.sort_unstable();
        partitions.dedup();
        partitions_most = partitions_most.max(partitions.len());
        for (partition, offset, timestamp, value) in all {
            if delivery.again {
                assert_eq!(seen.get(&(partition, offset)), Some(&(timestamp, value)));
                again += 1;
            } else {
                let expected = next.entry(partition).or_insert(0);
                assert_eq!(*expected, offset, "partition {partition}");
                *expected += 1;
                seen.insert((partition, offset), (timestamp, value));
            }
        }
        pieces += usize::from(delivery.again);
    }
    let sent = generator.sent();
    assert_eq!(seen.len(), 40_000);
    assert_eq!(sent, Sent { records: 40_000, duplicates: again, late: 40, bad: 400 });
    assert_eq!(generator.truth().rows(), 39_600);
    assert_eq!(next.len(), PARTITIONS, "all partitions are used");
    assert!(partitions_most > 4);
    assert_eq!(pieces, 3, "one event again as it was, one in two halves");
}

#[test]
fn a_seed_repeats_every_byte_and_another_seed_does_not() {
    let bytes = |seed| -> Vec<Vec<u8>> {
        everything(Options { records: 3000, bad: 0.001, seed, dedup: false }).0.into_iter().map(|d| d.body).collect()
    };
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}

#[test]
fn odd_sizes_are_met_exactly() {
    for (count, bad) in [(0, 0.5), (1, 1.0), (19, 0.0), (2001, f64::NAN)] {
        let (deliveries, generator) = everything(Options { records: count, bad, seed: 9, dedup: false });
        let first: u64 = deliveries.iter().filter(|d| !d.again).map(|d| d.records).sum();
        assert_eq!((first, generator.sent().records), (count, count));
        assert_eq!(generator.sent().bad, if bad == 1.0 { count } else { 0 });
    }
}

#[test]
fn sums_follow_the_written_definition() {
    // By tests/interop/checksum.py, of a table of these two rows.
    let mut truth = Truth::default();
    truth.add(&Employee { id: 0, name: 0, age: 98, start_ms: 1_793_607_600_123 }, 0, 0, 1_793_607_600_125);
    truth.add(&Employee { id: 99_999, name: 99, age: 0, start_ms: -1 }, 31, 7, 0);
    let found = truth.fingerprint();
    let sum = |column: &str| found.columns[column].sum.clone();
    assert_eq!(found.rows, 2);
    assert_eq!(
        [sum("employee_id"), sum("name"), sum("start_date"), sum("_kafka_partition"), found.row_sum],
        [
            "14650572585364866188",
            "4502778827883852197",
            "5176505219921838013",
            "6057085510246920549",
            "6114238988348616043"
        ]
    );
}

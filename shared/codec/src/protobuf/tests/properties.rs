//! Random schemas and payloads: whatever is accepted means what the oracle says, whatever it rejects is rejected.

use proptest::prelude::*;
use prost_reflect::DynamicMessage;

use super::generate::{self, Random};
use super::oracle;
use super::*;
use crate::columns::Columns;
use crate::columns::tests::value;

const PAYLOADS: usize = 40;

/// Decodes many payloads of one random schema; returns how many were accepted.
fn judge(seed: u64) -> usize {
    let mut random = Random(seed);
    let (one, other) = generate::schema(&mut random);
    let (one, other) = (super::message(&one), super::message(&other));
    let Ok(Columns { columns, .. }) = columns::plan(&one, &table()) else {
        // A message of no fields has no columns.
        return 0;
    };
    let types: Vec<_> = columns.into_iter().map(|column| (column.name, column.data_type)).collect();
    let mut decoder = decoder(&one, &table());
    let mut expected = Vec::new();
    for _ in 0..PAYLOADS {
        let payload = generate::payload(&one, &other, &mut random);
        let ours = decoder.decode(&payload);
        if oracle::has_foreign_wire_type(&one, &payload) {
            // Nothing to compare with, and the row must not disturb its neighbours.
            if ours.is_ok() {
                expected.push((payload, Vec::new()));
            }
            continue;
        }
        let theirs = DynamicMessage::decode(one.clone(), payload.as_slice());
        match (ours, theirs) {
            (Ok(()), Ok(message)) => match oracle::row(&message, &types) {
                Ok(row) => expected.push((payload, row)),
                Err(oracle::Unfit) => panic!("accepted a value out of range: {payload:02x?} of\n{one:?}"),
            },
            (Err(_), Err(_)) => {}
            // A range may be judged before a later occurrence mends it.
            (Err(rejected), Ok(_)) if rejected.class == Class::OutOfRange => {}
            (Err(rejected), Ok(_)) => panic!("refused {payload:02x?}: {rejected}"),
            (Ok(()), Err(error)) => panic!("accepted {payload:02x?}, but {error}"),
        }
    }
    assert_eq!(decoder.rows(), expected.len());
    let rows = cells::of(&decoder.finish().unwrap());
    for (actual, (payload, expected)) in rows.iter().zip(&expected) {
        for ((name, actual), (_, expected)) in actual.iter().zip(expected) {
            assert!(
                oracle::same(actual, expected),
                "{name} of {payload:02x?}\nis        {actual}\nshould be {expected}"
            );
        }
    }
    expected.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_payload_means_what_the_oracle_says(seed in any::<u64>()) {
        judge(seed);
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let message = proto3(
            "message N { repeated N n = 1; map<int32, N> m = 2; oneof o { string s = 3; fixed64 f = 4; } }
             message M { int32 a = 1; string b = 2; N n = 3; google.protobuf.Timestamp t = 4; google.protobuf.Struct j = 5; repeated double d = 6; }",
        );
        let mut decoder = decoder(&message, &table());
        let accepted = decoder.decode(&bytes).is_ok();
        prop_assert_eq!(decoder.finish().unwrap().num_rows(), usize::from(accepted));
    }
}

/// An element: its text, its numbers, and a number that it may have.
type Element = (String, Vec<i32>, Option<i64>);

fn element((sku, numbers, quantity): &Element) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::string::encode(1, sku, &mut bytes);
    prost::encoding::int32::encode_packed(2, numbers, &mut bytes);
    quantity.iter().for_each(|quantity| prost::encoding::int64::encode(3, quantity, &mut bytes));
    bytes
}

fn record(who: &str, elements: &[Element], before: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (n, one) in elements.iter().enumerate() {
        if n == before {
            prost::encoding::string::encode(1, &who.to_owned(), &mut bytes);
        }
        prost::encoding::bytes::encode(2, &element(one), &mut bytes);
    }
    if before >= elements.len() {
        prost::encoding::string::encode(1, &who.to_owned(), &mut bytes);
    }
    bytes
}

fn elements() -> impl Strategy<Value = Vec<Element>> {
    let one = ("[a-zß]{0,40}", proptest::collection::vec(any::<i32>(), 0..4), proptest::option::of(any::<i64>()));
    proptest::collection::vec(one, 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn exploded_records_are_what_their_elements_are_alone(
        records in proptest::collection::vec(("[a-z]{0,40}", elements(), 0..7_usize), 0..6),
    ) {
        let text = |e: &str| format!(
            "message E {{ string sku = 1; repeated int32 n = 2; optional int64 q = 3; }} message M {{ string who = 1; {e} e = 2; }}"
        );
        let (many, one) = (proto3(&text("repeated E")), proto3(&text("E")));
        let value = pipeline::resolved::Value { explode: Some(vec!["e".to_owned()]), ..value(None) };
        let planned = columns::plan_records(&many, &value, &table()).unwrap();
        let (mut exploded, mut single) = (Decoder::new(&many, &planned).unwrap(), decoder(&one, &table()));
        for (who, elements, before) in &records {
            let rows = exploded.rows();
            exploded.decode(&record(who, elements, *before)).unwrap();
            prop_assert_eq!(exploded.rows() - rows, elements.len());
            for one in elements {
                single.decode(&record(who, std::slice::from_ref(one), *before)).unwrap();
            }
        }
        prop_assert_eq!(print(&exploded.finish().unwrap()), print(&single.finish().unwrap()));
    }
}

/// The first property would hold of a decoder that refuses everything.
#[test]
fn most_generated_payloads_are_accepted() {
    let accepted: usize = (0..100).map(judge).sum();
    assert!(accepted > 100 * PAYLOADS / 2, "{accepted}");
}

//! Random schemas and payloads: whatever is accepted means what the oracle says, whatever it rejects is rejected.

use proptest::prelude::*;
use prost_reflect::DynamicMessage;

use super::generate::{self, Random};
use super::oracle;
use super::*;
use crate::columns::Columns;

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

/// The property above would hold of a decoder that refuses everything.
#[test]
fn most_generated_payloads_are_accepted() {
    let accepted: usize = (0..100).map(judge).sum();
    assert!(accepted > 100 * PAYLOADS / 2, "{accepted}");
}

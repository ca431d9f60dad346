//! Random schemas and payloads: whatever is accepted means what the oracle says, whatever it refuses is refused.

use pipeline::resolved::ColumnCase;
use proptest::prelude::*;
use serde_json::Value;

use super::generate::{self, Kind};
use super::oracle::{self, Unfit};
use super::*;
use crate::testing::Random;
use crate::testing::cells::{self, Cell, same};

const PAYLOADS: usize = 30;

type Row = Vec<(String, Cell)>;

struct Subject {
    decoder: Decoder,
    kind: Kind,
    /// Rows that must come.
    expected: Vec<(Vec<u8>, Row)>,
}

impl Subject {
    fn new(random: &mut Random) -> Self {
        let kind = generate::schema(random);
        let subject = schema(&generate::text(&kind).to_string());
        let mut table = iceberg();
        table.column_case = ColumnCase::AsIs;
        Self { decoder: decoder(&subject, &table), kind, expected: Vec::new() }
    }

    fn judge(&mut self, payload: Vec<u8>) {
        let shown = || String::from_utf8_lossy(&payload).into_owned();
        let theirs = serde_json::from_slice::<Value>(&payload);
        let means = theirs.map_err(|error| error.to_string()).map(|value| oracle::row(&value, &self.kind));
        // Numbers that the judge has rounded, or has no room for.
        let is_beyond = match &means {
            Ok(Err(unfit)) => *unfit == Unfit::Rounded,
            Err(error) => error.contains("number out of range"),
            Ok(Ok(_)) => false,
        };
        if is_beyond || has_long_fraction(&payload) {
            return;
        }
        match (self.decoder.decode(&payload), means) {
            (Ok(()), Ok(Ok(row))) => self.expected.push((payload, row)),
            (Err(_), Ok(Err(_)) | Err(_)) => {}
            // Zero for want of digits is refused, and only there.
            (Err(rejected), Ok(Ok(_))) if rejected.message.contains("closer to zero") => {}
            (Err(rejected), Ok(Ok(_))) => panic!("refused {}: {rejected}", shown()),
            (Ok(()), other) => panic!("accepted {}, but {other:?}\n{:?}", shown(), self.kind),
        }
    }

    /// Compares the rows with what they had to be; how many there are.
    fn finish(mut self) -> usize {
        assert_eq!(self.decoder.rows(), self.expected.len());
        let rows = cells::of(&self.decoder.finish().unwrap());
        for (row, (payload, expected)) in rows.iter().zip(&self.expected) {
            for (name, expected) in expected {
                let (_, actual) = row.iter().find(|(known, _)| known == name).unwrap();
                let payload = String::from_utf8_lossy(payload);
                assert!(alike(actual, expected), "{name} of {payload}\nis        {actual}\nshould be {expected}");
            }
        }
        rows.len()
    }
}

/// Whether there is a number, or what looks like one, with a point or an exponent and more digits than a double holds.
fn has_long_fraction(payload: &[u8]) -> bool {
    let is_of_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    payload.chunk_by(|one, other| is_of_number(one) == is_of_number(other)).any(|run| {
        run.iter().any(|byte| b".eE".contains(byte)) && run.iter().filter(|byte| byte.is_ascii_digit()).count() > 15
    })
}

/// Members of structs come in the schema's order, which the judge's maps have not.
fn alike(actual: &Cell, expected: &Cell) -> bool {
    match (actual, expected) {
        (Cell::Struct(actual), Cell::Struct(expected)) => {
            actual.len() == expected.len()
                && expected.iter().all(|(name, e)| actual.iter().any(|(known, a)| known == name && alike(a, e)))
        }
        (Cell::List(actual), Cell::List(expected)) => {
            actual.len() == expected.len() && actual.iter().zip(expected).all(|(a, e)| alike(a, e))
        }
        (Cell::Map(actual), Cell::Map(expected)) => {
            actual.len() == expected.len()
                && expected.iter().all(|(key, e)| actual.iter().any(|(known, a)| known == key && alike(a, e)))
        }
        _ => same(actual, expected),
    }
}

fn judge(seed: u64) -> usize {
    let mut random = Random(seed);
    let mut subject = Subject::new(&mut random);
    for _ in 0..PAYLOADS {
        let payload = generate::payload(&subject.kind, &mut random).into_bytes();
        subject.judge(payload);
    }
    subject.finish()
}

/// Text that was a payload once.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() + 1);
        let letter = *random.pick(b"{}[],:\"\\ \n0123456789.eE+-tfnualsr/\x00\x7f\xc3\xa9\xed\xa0\x80\xff");
        match random.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, letter),
            2 if at < bytes.len() => bytes[at] = letter,
            3 if at < bytes.len() => drop(bytes.remove(at)),
            // A part of it again.
            _ => {
                let end = (at + random.below(12)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
}

fn judge_mutated(seed: u64) -> usize {
    let mut random = Random(seed);
    let mut subject = Subject::new(&mut random);
    for _ in 0..PAYLOADS {
        let mut payload = generate::payload(&subject.kind, &mut random).into_bytes();
        mutate(&mut payload, &mut random);
        subject.judge(payload);
    }
    subject.finish()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_payload_means_what_the_oracle_says(seed in any::<u64>()) {
        judge(seed);
    }

    #[test]
    fn what_becomes_a_row_of_broken_text_is_what_it_says(seed in any::<u64>()) {
        judge_mutated(seed);
    }

    #[test]
    fn random_bytes_never_panic(seed in any::<u64>(), bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut subject = Subject::new(&mut Random(seed));
        let accepted = subject.decoder.decode(&bytes).is_ok();
        prop_assert_eq!(subject.decoder.finish().unwrap().num_rows(), usize::from(accepted));
    }
}

/// The properties would hold of a decoder that refuses everything.
#[test]
fn most_payloads_are_rows() {
    let accepted: usize = (0..100).map(judge).sum();
    assert!(accepted > 100 * PAYLOADS / 3, "{accepted}");
    let accepted: usize = (0..100).map(judge_mutated).sum();
    assert!(accepted > 100 * PAYLOADS / 10, "{accepted}");
}

//! The protobuf decoder takes any bytes: a row, or a reason. The input is several payloads, each behind its length in two
//! bytes, because what may go wrong is what one payload leaves behind for the next.

#![no_main]

use std::cell::RefCell;
use std::collections::BTreeMap;

use codec::columns;
use codec::protobuf::{Decoder, schema};
use libfuzzer_sys::fuzz_target;
use pipeline::resolved::{ColumnCase, Exists, Fields, Mode, Table, TableName, Types, UnknownFields};
use prost_reflect::{DynamicMessage, MessageDescriptor};

/// Every kind of field there is, proto3 and what proto2 adds to it.
const MODERN: &str = include_str!("../schemas/modern.proto");
const OLD: &str = include_str!("../schemas/old.proto");

/// More payloads than this repeat what fewer show, slower.
const PAYLOADS_MAX: usize = 16;

struct Subject {
    message: MessageDescriptor,
    /// Takes all payloads of an input, one after the other.
    together: Decoder,
    /// Takes each payload that became a row, alone.
    alone: Decoder,
}

impl Subject {
    fn new(text: &str, message: &str) -> Self {
        let message = schema::from_text(&[("subject.proto", text)], message).expect("the schema is usable");
        let columns = columns::plan(&message, &table()).expect("every field can be a column");
        let decoder = || Decoder::new(&message, &columns).expect("the columns are the message's");
        Self { together: decoder(), alone: decoder(), message }
    }

    fn check(&mut self, payloads: &[&[u8]]) {
        let mut accepted = Vec::new();
        for payload in payloads {
            let before = self.together.rows();
            match self.together.decode(payload) {
                Ok(()) => {
                    assert_eq!(self.together.rows(), before + 1);
                    accepted.push(*payload);
                    self.judge(payload);
                }
                Err(_) => assert_eq!(self.together.rows(), before),
            }
        }
        let batch = self.together.finish().expect("what was built is a batch");
        assert_eq!(batch.num_rows(), accepted.len());
        for (row, payload) in accepted.into_iter().enumerate() {
            self.alone.decode(payload).expect("what was a row once is a row again");
            let single = self.alone.finish().expect("what was built is a batch");
            // As text: NaN is not equal to itself.
            assert_eq!(format!("{:?}", batch.slice(row, 1).columns()), format!("{:?}", single.columns()));
        }
    }

    /// What became a row is a message to an independent decoder too. Two differences are known and right: a field of
    /// another wire type is an unknown field by protobuf's rules and an error there (where a map is meant, that decoder
    /// does not look at the wire type: it reads an entry from whatever bytes are there, and stumbles over tags or keys that
    /// are none), and the two follow messages to different depths.
    fn judge(&self, payload: &[u8]) {
        if let Err(fault) = DynamicMessage::decode(self.message.clone(), payload) {
            let text = fault.to_string();
            let entries = ["invalid tag value", "invalid key value", "delimited length exceeded", "buffer underflow"];
            let known = entries.into_iter().chain(["wire type", "recursion limit"]).collect::<Vec<_>>();
            assert!(known.iter().any(|known| text.contains(known)), "{text}");
        }
    }
}

fn table() -> Table {
    Table {
        name: TableName { namespace: "fuzz".to_owned(), name: "subject".to_owned() },
        exists: Exists::Create,
        mode: Mode::Append,
        primary_key: Vec::new(),
        dedup_within: None,
        partition_by: Vec::new(),
        sort_by: Vec::new(),
        fields: Fields::All,
        exclude: Vec::new(),
        unknown_fields: UnknownFields::Ignore,
        column_case: ColumnCase::Lower,
        types: Types::Iceberg,
        record_columns: false,
        format_version: 2,
        columns: Vec::new(),
        properties: BTreeMap::new(),
    }
}

thread_local! {
    static SUBJECTS: RefCell<[Subject; 2]> =
        RefCell::new([Subject::new(MODERN, "fuzz.Modern"), Subject::new(OLD, "fuzz.Old")]);
}

fn payloads(mut input: &[u8]) -> Vec<&[u8]> {
    let mut payloads = Vec::new();
    while let Some((length, rest)) = input.split_first_chunk::<2>()
        && payloads.len() < PAYLOADS_MAX
    {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (payload, after) = rest.split_at(length);
        payloads.push(payload);
        input = after;
    }
    payloads
}

fuzz_target!(|input: &[u8]| {
    // The first byte chooses the schema.
    let Some((which, rest)) = input.split_first() else { return };
    SUBJECTS.with_borrow_mut(|subjects| subjects[usize::from(which % 2)].check(&payloads(rest)));
});

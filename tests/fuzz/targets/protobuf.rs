//! The protobuf decoder takes any bytes: a row, or a reason. The input is several payloads, each behind its length in two
//! bytes, because what may go wrong is what one payload leaves behind for the next.

#![no_main]

use std::cell::RefCell;
use std::collections::BTreeMap;

use codec::columns;
use codec::protobuf::{Decoder, schema};
use libfuzzer_sys::fuzz_target;
use pipeline::resolved::{ColumnCase, Exists, Fields, Mode, NullKeys, Table, TableName, Types, UnknownFields};
use prost_reflect::{DynamicMessage, Kind, MessageDescriptor};

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
    /// another wire type is an unknown field by protobuf's rules and an error there, and the two follow messages to
    /// different depths. A third is that decoder's own: it does not look at the wire types of maps and their entries, and
    /// reads one from whatever bytes are there. Payloads with such a map are not judged.
    fn judge(&self, payload: &[u8]) {
        if maps_amiss(&self.message, payload, 0) {
            return;
        }
        if let Err(fault) = DynamicMessage::decode(self.message.clone(), payload) {
            let text = fault.to_string();
            let known = ["wire type", "recursion limit"];
            assert!(known.iter().any(|known| text.contains(known)), "{text}");
        }
    }
}

/// Deeper messages than this are not walked.
const DEPTH_MAX: u32 = 100;

/// Whether a map, or the key or value of an entry, comes in another wire type than its own; also where that can't be told
/// because of a group or of too deep a message.
fn maps_amiss(message: &MessageDescriptor, mut bytes: &[u8], depth: u32) -> bool {
    if depth > DEPTH_MAX {
        return true;
    }
    while !bytes.is_empty() {
        let Some((key, rest)) = varint(bytes) else { return true };
        let (number, wire) = (key >> 3, key & 7);
        let split = match wire {
            0 => varint(rest).map(|(_, rest)| (&rest[..0], rest)),
            1 => rest.split_at_checked(8),
            2 => varint(rest).and_then(|(length, rest)| rest.split_at_checked(usize::try_from(length).ok()?)),
            5 => rest.split_at_checked(4),
            _ => None,
        };
        let Some((value, rest)) = split else { return true };
        bytes = rest;
        let Some(field) = u32::try_from(number).ok().and_then(|number| message.get_field(number)) else { continue };
        let own = field.kind().wire_type() as u64;
        if (field.is_map() && wire != 2) || (message.is_map_entry() && wire != own) {
            return true;
        }
        if let (2, Kind::Message(inner)) = (wire, field.kind())
            && maps_amiss(&inner, value, depth + 1)
        {
            return true;
        }
    }
    false
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let length = bytes.iter().take(10).position(|byte| *byte < 0x80)? + 1;
    let (digits, rest) = bytes.split_at(length);
    Some((digits.iter().rev().fold(0, |value, digit| value << 7 | u64::from(digit & 0x7f)), rest))
}

fn table() -> Table {
    Table {
        name: TableName { namespace: "fuzz".to_owned(), name: "subject".to_owned() },
        exists: Exists::Create,
        mode: Mode::Append,
        primary_key: Vec::new(),
        dedup_within: None,
        upsert: None,
        null_keys: NullKeys::Match,
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

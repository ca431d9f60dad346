//! The Avro decoder takes any bytes: a row, or a reason. The input is several payloads, each behind its length in two
//! bytes, because what may go wrong is what one payload leaves behind for the next. They are records of a schema with every
//! type; they are read as that schema's and as another's.

#![no_main]

use std::cell::RefCell;
use std::collections::BTreeMap;

use codec::avro::{Decoder, Schema};
use codec::columns;
use libfuzzer_sys::fuzz_target;
use pipeline::resolved::{ColumnCase, Exists, Fields, Mode, NullKeys, Table, TableName, Types, UnknownFields};

/// Every type there is.
const WRITER: &str = include_str!("../schemas/every.avsc");
/// The same with other fields, in another order, of other types.
const READER: &str = include_str!("../schemas/reader.avsc");

/// More payloads than this repeat what fewer show, slower.
const PAYLOADS_MAX: usize = 16;

struct Subject {
    /// Takes all payloads of an input, one after the other.
    together: Decoder,
    /// Takes each payload that became a row, alone.
    alone: Decoder,
}

impl Subject {
    fn new(reader: &str, unknown_fields: UnknownFields) -> Self {
        let schema = |text: &str| Schema::parse(text, &[]).expect("the schema is usable");
        let (writer, reader) = (schema(WRITER), schema(reader));
        let table = Table { unknown_fields, ..table() };
        let columns = columns::plan(&reader, &table).expect("every field can be a column");
        let decoder = || Decoder::new(&writer, &reader, &columns).expect("the columns are the reader's");
        Self { together: decoder(), alone: decoder() }
    }

    fn check(&mut self, payloads: &[&[u8]]) {
        let mut accepted = Vec::new();
        for payload in payloads {
            let before = self.together.rows();
            match self.together.decode(payload) {
                Ok(()) => {
                    assert_eq!(self.together.rows(), before + 1);
                    accepted.push(*payload);
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
    static SUBJECTS: RefCell<[Subject; 3]> = RefCell::new([
        Subject::new(WRITER, UnknownFields::Ignore),
        Subject::new(READER, UnknownFields::Ignore),
        Subject::new(READER, UnknownFields::Rest),
    ]);
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
    // The first byte chooses the reader.
    let Some((which, rest)) = input.split_first() else { return };
    SUBJECTS.with_borrow_mut(|subjects| subjects[usize::from(which % 3)].check(&payloads(rest)));
});

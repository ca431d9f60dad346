//! The JSON decoder takes any bytes: a row, or a reason. The input is several payloads with a record separator (RFC 7464)
//! between them, which no JSON has, because what may go wrong is what one payload leaves behind for the next. They are read as
//! a schema with every kind of value has them, and as declared columns do.

#![no_main]

use std::cell::RefCell;
use std::collections::BTreeMap;

use codec::columns::{self, Columns};
use codec::json::{Decoder, Schema};
use codec::{Class, Rejected};
use libfuzzer_sys::fuzz_target;
use pipeline::resolved::{
    ColumnCase, ColumnDeclaration, Exists, Fields, Fold, Format, Framing, From, Indexes, Mode, NullKeys, Pipeline, Source, Staging,
    Table, TableName, Types, UnknownFields, Value,
};

/// Every kind of value there is.
const SCHEMA: &str = include_str!("../schemas/every.schema.json");

/// The columns of payloads without a schema.
const COLUMNS: [(&str, &str); 8] = [
    ("flag", "boolean"),
    ("user_id", "long"),
    ("text", "string"),
    ("twice", "double"),
    ("amount", "decimal(20, 4)"),
    ("at", "timestamptz"),
    ("pairs", "list<struct<left: string not null, right: map<string, long>>>"),
    ("map", "map<string, list<string>>"),
];

/// More payloads than this repeat what fewer show, slower.
const PAYLOADS_MAX: usize = 16;

struct Subject {
    /// Takes all payloads of an input, one after the other.
    together: Decoder,
    /// Takes each payload that became a row, alone.
    alone: Decoder,
}

impl Subject {
    fn new(schema: &Schema, columns: &Columns) -> Self {
        let decoder = || Decoder::new(schema, columns).expect("the columns are the schema's");
        Self { together: decoder(), alone: decoder() }
    }

    fn of_schema(unknown_fields: UnknownFields) -> Self {
        let schema = Schema::parse(SCHEMA, &[]).expect("the schema is usable");
        let columns = columns::plan(&schema, &table(unknown_fields)).expect("every member can be a column");
        Self::new(&schema, &columns)
    }

    fn declared(unknown_fields: UnknownFields) -> Self {
        let mut table = table(unknown_fields);
        (table.fields, table.column_case) = (Fields::Listed, ColumnCase::Snake);
        table.columns = COLUMNS.iter().map(|(name, data_type)| declaration(name, data_type)).collect();
        let pipeline = pipeline(table);
        let schema = Schema::declared(&pipeline);
        let columns = columns::plan_records(&schema, &pipeline.value, &pipeline.table);
        Self::new(&schema, &columns.expect("every declaration can be a column"))
    }

    fn check(&mut self, payloads: &[&[u8]]) {
        let mut accepted = Vec::new();
        for payload in payloads {
            let before = self.together.rows();
            let read = self.together.decode(payload);
            judge(payload, &read);
            match read {
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
            assert_eq!(format!("{:?}", batch.slice(row, 1).columns()), format!("{:?}", single.columns()));
        }
    }
}

/// What became a row is an object to an independent parser too, and what is no JSON here is none there. That parser follows
/// values a little deeper, and reads numbers where they are passed over here.
fn judge(payload: &[u8], read: &Result<(), Rejected>) {
    let theirs = serde_json::from_slice::<serde_json::Value>(payload);
    match (read, theirs) {
        (Ok(()), Ok(value)) => assert!(value.is_object()),
        (Ok(()), Err(error)) => assert!(error.to_string().contains("number out of range"), "{error}"),
        (Err(rejected), Ok(_)) => {
            let is_syntax = matches!(
                rejected.class,
                Class::Truncated | Class::TrailingBytes | Class::InvalidUtf8 | Class::BadFraming | Class::EmptyValue
            );
            assert!(!is_syntax && !rejected.message.contains("not JSON"), "{rejected}");
        }
        (Err(_), Err(_)) => {}
    }
}

fn table(unknown_fields: UnknownFields) -> Table {
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
        unknown_fields,
        column_case: ColumnCase::Lower,
        types: Types::Iceberg,
        record_columns: false,
        format_version: 2,
        columns: Vec::new(),
        properties: BTreeMap::new(),
    }
}

fn declaration(name: &str, data_type: &str) -> ColumnDeclaration {
    ColumnDeclaration {
        name: name.to_owned(),
        from: From::Path(vec![name.to_owned()]),
        data_type: Some(data_type.parse().expect("it is a type")),
        unit: None,
        required: false,
        doc: None,
        expect: Default::default(),
        pii: None,
    }
}

fn pipeline(table: Table) -> Pipeline {
    Pipeline {
        name: "fuzz".to_owned(),
        source: Source { topics: Vec::new(), exclude: Vec::new(), name: None },
        value: Value {
            format: Format::Json,
            framing: Framing::Bare,
            indexes: Indexes::Zigzag,
            schema: pipeline::resolved::Schema::Declared,
            filter: None,
            explode: None,
        },
        table,
        route: None,
        tables: BTreeMap::new(),
        fold: Fold { max_age_seconds: 60, max_bytes: 1, max_rows: 1, memory_bytes: None },
        staging: Staging { retention_seconds: 1 },
    }
}

thread_local! {
    static SUBJECTS: RefCell<[Subject; 4]> = RefCell::new([
        Subject::of_schema(UnknownFields::Ignore),
        Subject::of_schema(UnknownFields::Rest),
        Subject::declared(UnknownFields::Ignore),
        Subject::declared(UnknownFields::Rest),
    ]);
}

fuzz_target!(|input: &[u8]| {
    // The first byte chooses the subject.
    let Some((which, rest)) = input.split_first() else { return };
    let payloads: Vec<&[u8]> = rest.split(|byte| *byte == 0x1e).take(PAYLOADS_MAX).collect();
    SUBJECTS.with_borrow_mut(|subjects| subjects[usize::from(which % 4)].check(&payloads));
});

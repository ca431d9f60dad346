//! How fast payloads become Arrow columns on one core: ride requests in Avro, beside the same bytes as `arrow-avro`'s columns and
//! `apache-avro`'s values; weather reports in JSON, beside `serde_json`'s values; employees in protobuf, those of the demo and
//! those of proto2 with all that they have, beside `prost-reflect`'s messages; and what a framing costs. One JSON document on stdout. Figures depend on the
//! machine; ratios within one run are what to compare.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a failure of a benchmark is its end")]

use std::hint::black_box;
use std::time::Instant;

use arrow_avro::reader::ReaderBuilder;
use arrow_avro::schema::{AvroSchema, Fingerprint, FingerprintAlgorithm, SchemaStore};
use codec::columns;
use codec::framing::{Beginning, Settings, Splitter};
use codec::{avro, json, protobuf};
use pipeline::resolved::{
    ColumnCase, Exists, Fields, Format, Framing, Mode, NullKeys, Table, TableName, Types, UnknownFields,
};

const RECORDS: usize = 10_000;
const ROUNDS: usize = 11;

/// The median time of a pass over all records, in records a second.
fn rate(mut pass: impl FnMut()) -> f64 {
    pass();
    let mut passes: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            pass();
            start.elapsed().as_secs_f64()
        })
        .collect();
    passes.sort_unstable_by(f64::total_cmp);
    (RECORDS as f64 / passes[ROUNDS / 2]).round()
}

fn long(number: i64, bytes: &mut Vec<u8>) {
    let mut zigzag = ((number << 1) ^ (number >> 63)) as u64;
    while zigzag >= 0x80 {
        bytes.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    bytes.push(zigzag as u8);
}

fn text(text: &str, bytes: &mut Vec<u8>) {
    long(text.len() as i64, bytes);
    bytes.extend_from_slice(text.as_bytes());
}

/// A ride request as those of the examples are.
fn ride(n: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    long(n * 7919 % 100_000, &mut bytes);
    text("Melbourne, Australia", &mut bytes);
    text(["Sydney, Australia", "Perth Airport, Terminal 4"][n as usize % 2], &mut bytes);
    bytes.extend_from_slice(&(1200.5 + n as f32).to_le_bytes());
    long(n % 120, &mut bytes);
    long(n % 5, &mut bytes);
    long(n % 3000, &mut bytes);
    long(n % 3, &mut bytes);
    long(1, &mut bytes);
    long(n % 6, &mut bytes);
    long(1001 + n, &mut bytes);
    text(["Jane", "Dummy76"][n as usize % 2], &mut bytes);
    if n % 2 == 0 {
        long(0, &mut bytes);
    } else {
        long(1, &mut bytes);
        text("Q", &mut bytes);
    }
    text("Doe", &mut bytes);
    long(1, &mut bytes);
    long(1, &mut bytes);
    text("jane.doe@example.com", &mut bytes);
    long(0, &mut bytes);
    text("8th Street, Melbourne 3000, Australia, Earth", &mut bytes);
    long(n % 2, &mut bytes);
    long(0, &mut bytes);
    bytes
}

/// An employee as the examples' producer makes them.
fn employee(n: u64) -> Vec<u8> {
    use prost::encoding::{encode_varint, string};
    let mut bytes = vec![0x08];
    encode_varint(n * 7919 % 100_000, &mut bytes);
    string::encode(2, &format!("Dummy{}", n % 100), &mut bytes);
    string::encode(3, &"Melbourne, Australia".to_owned(), &mut bytes);
    bytes.extend([0x22, 2, 0x08, (n % 99) as u8 + 1]);
    let mut at = vec![0x08];
    encode_varint(1_764_400_000 + n, &mut at);
    at.push(0x10);
    encode_varint(n % 1000 * 1_000_000, &mut at);
    bytes.extend([0x2a, at.len() as u8]);
    bytes.extend(at);
    let mut team = Vec::new();
    string::encode(1, &"Solutions Architects".to_owned(), &mut team);
    string::encode(2, &"Australia".to_owned(), &mut team);
    bytes.extend([0x32, team.len() as u8]);
    bytes.extend(team);
    bytes.extend([0x38, 2]);
    bytes
}

/// A weather report as the examples' producer makes them, with a member that the schema does not name.
fn weather(n: usize) -> Vec<u8> {
    let (city, state) =
        [("Melbourne", "Victoria"), ("Sydney", "New South Wales"), ("Perth", "Western Australia")][n % 3];
    let (temperature, timestamp, wind) = (n as i64 % 60 - 10, 1_764_400_000 + n, n % 40);
    format!(
        "{{\"location\":{{\"city\":\"{city}\",\"state\":\"{state}\"}},\"temperature\":{temperature},\
         \"timestamp\":{timestamp},\"windSpeed\":{wind}}}"
    )
    .into_bytes()
}

fn table() -> Table {
    Table {
        name: TableName { namespace: "bench".to_owned(), name: "ride".to_owned() },
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
        types: Types::Portable,
        record_columns: false,
        format_version: 2,
        columns: Vec::new(),
        properties: std::collections::BTreeMap::new(),
    }
}

/// The employee of proto2, which has everything: wrappers, a duration, an enum, money, messages in it.
const ALL_OF_EMPLOYEE: &str = r#"
    syntax = "proto2";
    package gsr.proto.post;
    import "google/protobuf/duration.proto";
    import "google/protobuf/timestamp.proto";
    import "google/protobuf/wrappers.proto";
    import "google/type/money.proto";
    message Employee {
        required int32 id = 1;
        required string name = 2;
        required string address = 3;
        required google.protobuf.Int32Value employee_age = 4;
        required google.protobuf.Timestamp start_date = 5;
        required google.protobuf.Duration total_time_span_in_company = 6;
        required google.protobuf.BoolValue is_certified = 7;
        required Team team = 8;
        required Project project = 9;
        required Role role = 10;
        required google.type.Money total_award_value = 11;
        optional string title = 12;
    }
    message Team { required string name = 1; required string location = 2; }
    message Project { required string name = 1; required string state = 2; }
    enum Role { MANAGER = 0; DEVELOPER = 1; ARCHITECT = 2; }
"#;

fn all_of_employee(n: u64) -> Vec<u8> {
    use prost::encoding::{encode_varint, string};
    let message = |number: u8, inner: &[u8], bytes: &mut Vec<u8>| {
        bytes.extend([number << 3 | 2, inner.len() as u8]);
        bytes.extend(inner);
    };
    let varints = |fields: &[(u8, u64)]| {
        let mut inner = Vec::new();
        for (number, value) in fields {
            inner.push(number << 3);
            encode_varint(*value, &mut inner);
        }
        inner
    };
    let texts = |fields: [&str; 2]| {
        let mut inner = Vec::new();
        (1..).zip(fields).for_each(|(number, text)| string::encode(number, &text.to_owned(), &mut inner));
        inner
    };
    let mut bytes = varints(&[(1, n * 7919 % 100_000)]);
    string::encode(2, &format!("Dummy{}", n % 100), &mut bytes);
    string::encode(3, &"Melbourne, Australia".to_owned(), &mut bytes);
    message(4, &varints(&[(1, n % 99 + 1)]), &mut bytes);
    message(5, &varints(&[(1, 1_764_400_000 + n), (2, n % 1000 * 1_000_000)]), &mut bytes);
    message(6, &varints(&[(1, n % 900_000)]), &mut bytes);
    message(7, &varints(&[(1, n % 2)]), &mut bytes);
    message(8, &texts(["Solutions Architects", "Australia"]), &mut bytes);
    message(9, &texts(["Migration", "Victoria"]), &mut bytes);
    bytes.extend(varints(&[(10, n % 3)]));
    let mut money = Vec::new();
    string::encode(1, &"AUD".to_owned(), &mut money);
    money.extend(varints(&[(2, n % 5000), (3, 500_000_000)]));
    message(11, &money, &mut bytes);
    bytes
}

/// Employees to Arrow, and to `prost-reflect`'s messages.
fn employees(text: &str, of: fn(u64) -> Vec<u8>) -> [f64; 2] {
    let message = protobuf::schema::from_text(&[("employee.proto", text)], "gsr.proto.post.Employee").unwrap();
    let planned = columns::plan(&message, &table()).unwrap();
    let payloads: Vec<Vec<u8>> = (0..RECORDS as u64).map(of).collect();
    let mut decoder = protobuf::Decoder::new(&message, &planned).unwrap();
    let ours = rate(|| {
        for payload in &payloads {
            decoder.decode(payload).unwrap();
        }
        black_box(decoder.finish().unwrap());
    });
    let theirs = rate(|| {
        for payload in &payloads {
            black_box(prost_reflect::DynamicMessage::decode(message.clone(), payload.as_slice()).unwrap());
        }
    });
    [ours, theirs]
}

/// How much longer employees of the demo take to Arrow in a framing than bare, as a part of that: which schemas they name is looked
/// at first, as ingest does, and all are the one that a decoder is there for. Each round measures both, one after the other.
fn more_than_bare(framing: Framing, before: &[u8]) -> f64 {
    let text = include_str!("../../../proto/employee.proto");
    let message = protobuf::schema::from_text(&[("employee.proto", text)], "gsr.proto.post.Employee").unwrap();
    let planned = columns::plan(&message, &table()).unwrap();
    let payloads: Vec<Vec<u8>> = (0..RECORDS as u64).map(employee).collect();
    let values: Vec<Vec<u8>> = payloads.iter().map(|payload| [before, payload].concat()).collect();
    let mut decoder = protobuf::Decoder::new(&message, &planned).unwrap();
    let mut splitter = Splitter::new(Settings::new(Format::Protobuf, framing)).unwrap();
    let mut pass = |values: &[Vec<u8>], is_framed: bool| {
        let start = Instant::now();
        if is_framed {
            let (mut named, mut before): (_, Option<Beginning>) = (None, None);
            for value in values.iter().map(Vec::as_slice) {
                if before.is_none_or(|before| before.rest(value).is_none()) {
                    named = splitter.reference(&value.into()).unwrap();
                    before = named.and_then(|named| named.in_front(&value.into()));
                }
            }
            for value in values {
                decoder.decode(splitter.split(&value.as_slice().into()).unwrap().payload).unwrap();
            }
            assert!(named.is_some());
        } else {
            for value in values {
                decoder.decode(value).unwrap();
            }
        }
        black_box(decoder.finish().unwrap());
        start.elapsed().as_secs_f64()
    };
    let mut rounds: Vec<f64> = (0..ROUNDS * 3)
        .map(|_| {
            let (bare, framed) = (pass(&payloads, false), pass(&values, true));
            (framed - bare) / bare
        })
        .collect();
    rounds.sort_unstable_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

/// Weather reports to Arrow, and to `serde_json`'s values.
fn weather_reports() -> [f64; 2] {
    let schema = json::Schema::parse(include_str!("../src/json/tests/weather.json"), &[]).unwrap();
    let planned = columns::plan(&schema, &table()).unwrap();
    let payloads: Vec<Vec<u8>> = (0..RECORDS).map(weather).collect();
    let mut decoder = json::Decoder::new(&schema, &planned).unwrap();
    let ours = rate(|| {
        for payload in &payloads {
            decoder.decode(payload).unwrap();
        }
        black_box(decoder.finish().unwrap());
    });
    let theirs = rate(|| {
        for payload in &payloads {
            black_box(serde_json::from_slice::<serde_json::Value>(payload).unwrap());
        }
    });
    [ours, theirs]
}

fn main() {
    let schema_text = include_str!("../src/avro/tests/ride.avsc");
    let schema = avro::Schema::parse(schema_text, &[]).unwrap();
    let planned = columns::plan(&schema, &table()).unwrap();
    let payloads: Vec<Vec<u8>> = (0..RECORDS as i64).map(ride).collect();

    let mut decoder = avro::Decoder::new(&schema, &schema, &planned).unwrap();
    let ours = rate(|| {
        for payload in &payloads {
            decoder.decode(payload).unwrap();
        }
        black_box(decoder.finish().unwrap());
    });
    let theirs_schema = apache_avro::Schema::parse_str(schema_text).unwrap();
    let theirs = rate(|| {
        for payload in &payloads {
            black_box(apache_avro::from_avro_datum(&theirs_schema, &mut payload.as_slice(), None).unwrap());
        }
    });
    // It takes records that name their schema, as Confluent's do.
    let framed: Vec<Vec<u8>> = payloads.iter().map(|payload| [&[0, 0, 0, 0, 42], &payload[..]].concat()).collect();
    let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
    store.set(Fingerprint::Id(42), AvroSchema::new(schema_text.to_owned())).unwrap();
    let builder = ReaderBuilder::new().with_writer_schema_store(store).with_batch_size(RECORDS);
    let mut decoder = builder.with_active_fingerprint(Fingerprint::Id(42)).build_decoder().unwrap();
    let arrow_avro = rate(|| {
        for record in &framed {
            assert_eq!(decoder.decode(record).unwrap(), record.len());
        }
        assert_eq!(decoder.flush().unwrap().unwrap().num_rows(), RECORDS);
    });
    let bytes: usize = payloads.iter().map(Vec::len).sum();
    let [demo, demo_messages] = employees(include_str!("../../../proto/employee.proto"), employee);
    let [all, all_messages] = employees(ALL_OF_EMPLOYEE, all_of_employee);
    let [weather, weather_values] = weather_reports();
    println!(
        "{:#}",
        serde_json::json!({
            "schema": "frazil.bench.decode/1",
            "records_per_second": {
                "ride_request_avro_to_arrow": ours,
                "ride_request_arrow_avro": arrow_avro,
                "ride_request_apache_avro_values": theirs,
                "employee_protobuf_to_arrow": demo,
                "employee_prost_reflect_messages": demo_messages,
                "employee_proto2_to_arrow": all,
                "employee_proto2_prost_reflect_messages": all_messages,
                "weather_report_json_to_arrow": weather,
                "weather_report_serde_json_values": weather_values,
            },
            "framed_over_bare": {
                "glue": more_than_bare(Framing::Glue, &[&[3, 0][..], &[0x5c; 16], &[0]].concat()),
                "confluent": more_than_bare(Framing::Confluent, &[0, 0, 0, 0, 42, 0]),
                "target": 0.05,
            },
            "ride_request_bytes": bytes as f64 / RECORDS as f64,
            "targets": {
                "ride_request_avro_to_arrow": 3_000_000,
                "employee_protobuf_to_arrow": 8_000_000,
                "employee_proto2_to_arrow": 3_000_000,
                "weather_report_json_to_arrow": 1_500_000,
            },
        })
    );
}

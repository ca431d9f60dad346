//! Persisted contracts: the schemas in `proto/`, the golden files, and what the code reads and writes, held together.
//!
//! Golden files are never changed: they stand for what installations have stored. `v1-later-members.*` stand for what a
//! later frazil of the same version adds: read, and not written back.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use bytes::Bytes;
use model::clock::{Minute, Timestamp};
use model::coordinate::{Sample, SourceId, TopicPartition};
use model::coverage::{Coverage, Filtered, PartitionCoverage};
use model::id::{CommitId, PipelineId, SeededIds, TableUuid};
use model::interval::{Interval, Intervals};
use model::ledger::{Ledger, Pointer};
use model::run::{Run, Stage, State};
use model::settlement::{Offsets, Settlement};
use model::stored::Tag;
use model::verdict::{Known, Origin, Precedence, Staged, Undelivered, judge};
use proptest::prelude::*;
use serde_json::{Value, json};
use staging::dead_letter::{self, Class, DeadLetter, Part, Payload, TimestampType};
use staging::footer::{Column, EventTimeBounds, Footer, SchemaVersion};
use staging::object::{Object, Projection, TableRows, encode};
use staging::record_columns;

use crate::root;

/// A contract: its name, and how the code reads a document of it and writes it again.
struct Contract {
    name: &'static str,
    again: fn(&str) -> Result<Value, String>,
}

const CONTRACTS: &[Contract] = &[
    Contract {
        name: "footer",
        again: |text| written(serde_json::to_value(Footer::from_json(text).map_err(|e| e.to_string())?)),
    },
    Contract { name: "ledger", again: ledger_or_pointer },
    Contract {
        name: "settlement",
        again: |text| written(serde_json::to_value(Settlement::from_json(text.as_bytes()).map_err(|e| e.to_string())?)),
    },
    Contract { name: "run", again: run },
    Contract { name: "dead_letter", again: one_dead_letter },
];

fn written(document: Result<Value, serde_json::Error>) -> Result<Value, String> {
    document.map_err(|e| e.to_string())
}

fn ledger_or_pointer(text: &str) -> Result<Value, String> {
    let Ok(pointer) = serde_json::from_str::<Pointer>(text) else {
        return written(serde_json::to_value(Ledger::from_json(text).map_err(|e| e.to_string())?));
    };
    pointer.schema.check::<Ledger>().map_err(|e| e.to_string())?;
    written(serde_json::to_value(pointer))
}

fn run(text: &str) -> Result<Value, String> {
    let run: Run = serde_json::from_str(text).map_err(|e| e.to_string())?;
    run.schema.check::<Run>().map_err(|e| e.to_string())?;
    written(serde_json::to_value(run))
}

fn one_dead_letter(text: &str) -> Result<Value, String> {
    let compact = serde_json::from_str::<Value>(text).map_err(|e| e.to_string())?.to_string();
    let letters = dead_letter::decode(format!("{compact}\n").as_bytes()).map_err(|e| e.to_string())?;
    written(serde_json::to_value(letters.first().ok_or("no letter")?))
}

fn schema(name: &str) -> Value {
    let path = root().join(format!("proto/frazil.stored.{name}-1.schema.json"));
    serde_json::from_str(&fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).unwrap()
}

/// The same schema, refusing members it does not describe: what the code writes must all be described.
fn closed(mut schema: Value) -> Value {
    fn close(at: &mut Value) {
        match at {
            Value::Object(members) => {
                if members.get("type") == Some(&json!("object")) && members.contains_key("properties") {
                    members.entry("additionalProperties").or_insert(json!(false));
                }
                members.values_mut().for_each(close);
            }
            Value::Array(items) => items.iter_mut().for_each(close),
            _ => {}
        }
    }
    close(&mut schema);
    schema
}

fn faults(schema: &Value, document: &Value) -> Vec<String> {
    let validator = jsonschema::validator_for(schema).unwrap();
    validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

fn assert_valid(schema: &Value, document: &Value, what: &str) {
    let faults = faults(schema, document);
    assert!(faults.is_empty(), "{what}: {faults:#?}\n{document:#}");
}

/// The golden documents of a contract, each with its file's name.
fn golden(name: &str) -> Vec<(String, Value)> {
    let folder = root().join("tests/golden").join(name);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut documents = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let label = format!("{name}/{}", file.file_name().unwrap().to_string_lossy());
        if file.extension().is_some_and(|e| e == "jsonl") {
            documents.extend(text.lines().map(|line| (label.clone(), serde_json::from_str(line).unwrap())));
        } else {
            documents.push((label, serde_json::from_str(&text).unwrap()));
        }
    }
    assert!(documents.len() >= 3, "{name}: {}", documents.len());
    documents
}

#[test]
fn golden_files_fit_their_schemas_and_come_back_as_they_were() {
    for Contract { name, again } in CONTRACTS {
        let (open, closed) = (schema(name), closed(schema(name)));
        assert!(jsonschema::meta::is_valid(&open), "{name}");
        for (file, document) in golden(name) {
            assert_valid(&open, &document, &file);
            let read = again(&document.to_string()).unwrap_or_else(|e| panic!("{file}: {e}"));
            assert_valid(&closed, &read, &file);
            if file.contains("later-members") {
                assert!(document.to_string().contains("later"));
                assert!(!read.to_string().contains("later"), "{file}");
            } else {
                assert_eq!(read, document, "{file}");
            }
        }
    }
}

#[test]
fn code_and_schemas_refuse_the_same_documents() {
    for Contract { name, again } in CONTRACTS {
        let schema = schema(name);
        let mut refused = 0;
        for (file, document) in golden(name) {
            let members: Vec<String> = document.as_object().unwrap().keys().cloned().collect();
            for member in members {
                let mut changed = document.clone();
                changed.as_object_mut().unwrap().remove(&member);
                let by_schema = !faults(&schema, &changed).is_empty();
                let by_code = again(&changed.to_string()).is_err();
                assert_eq!(by_code, by_schema, "{file} without `{member}`");
                refused += usize::from(by_code);

                let mut changed = document.clone();
                changed[&member] = json!({"odd": []});
                let by_code = again(&changed.to_string()).is_err();
                // What the code takes the schema must take too, or a reader would pass what a validator stops.
                assert!(by_code || faults(&schema, &changed).is_empty(), "{file} with an odd `{member}`");
            }
            let tag = document["schema"].as_str().unwrap().to_owned();
            for other in [tag.replace("/1", "/2"), tag.replace("stored", "other"), tag.replace("/1", "/01")] {
                let mut changed = document.clone();
                changed["schema"] = json!(other);
                assert!(!faults(&schema, &changed).is_empty(), "{file} as {other}");
                let fault = again(&changed.to_string()).unwrap_err();
                assert!(!other.ends_with("/2") || fault.contains("upgrade"), "{file} as {other}: {fault}");
            }
        }
        assert!(refused > 5, "{name}");
    }
}

fn pipeline() -> PipelineId {
    "employee-00ff00ff".parse().unwrap()
}

fn minute() -> Minute {
    "2026-11-29/14/05".parse().unwrap()
}

fn some(offsets: &[i64]) -> Intervals {
    offsets.iter().map(|o| Interval::new(*o, *o).unwrap()).collect()
}

/// Coverage of one partition: each offset with its verdict, 0 to 3 a row, 4 dead, 5 to 7 a reason of filtering.
fn covered(partition: i32, offsets: &BTreeMap<i64, u8>) -> (TopicPartition, PartitionCoverage) {
    let with = |wanted: u8| some(&offsets.iter().filter(|(_, v)| **v == wanted).map(|(o, _)| *o).collect::<Vec<_>>());
    let reasons = [(Filtered::Filter, with(5)), (Filtered::Explode, with(6)), (Filtered::Tombstone, with(7))];
    let sample = |offset: i64| Sample { offset, timestamp_ms: (offset % 2 == 0).then_some(-offset) };
    let at = TopicPartition { source: SourceId::of("cluster"), topic: "a.b_c-d".to_owned(), partition };
    let covered = PartitionCoverage {
        delivered: some(&offsets.keys().copied().collect::<Vec<_>>()),
        filtered: reasons.into_iter().filter(|(_, which)| !which.is_empty()).collect(),
        dead: with(4),
        first: sample(*offsets.keys().next().unwrap()),
        last: sample(*offsets.keys().next_back().unwrap()),
    };
    (at, covered)
}

fn footer(coverage: Coverage, origin: Origin) -> Footer {
    Footer {
        schema: Tag::of::<Footer>(),
        pipeline_id: pipeline(),
        pipeline_file_hash: "9b".repeat(32),
        apply_sequence: u64::MAX,
        mapping_version: 1,
        hash: None,
        minute: minute(),
        origin,
        writer: "0.1.0".to_owned(),
        coverage,
        event_time_bounds: Some(EventTimeBounds { first: Timestamp::from_micros(-1), last: minute().start() }),
        schemas: vec![SchemaVersion { id: "17".to_owned(), version: u64::MAX }],
        tables: Vec::new(),
        columns: vec![Column {
            name: "id".to_owned(),
            source: "1".to_owned(),
            source_name: "id".to_owned(),
            former: Vec::new(),
            data_type: "long".to_owned(),
            required: false,
        }],
    }
}

fn rows(offsets: &[i64]) -> RecordBatch {
    let mut record = record_columns::Builder::new(minute(), offsets.len());
    record.start("a.b_c-d", 0);
    offsets.iter().for_each(|o| record.row(*o, record_columns::micros(*o), 0));
    let ids: ArrayRef = Arc::new(offsets.iter().map(|o| Some(o * 10)).collect::<Int64Array>());
    let names: ArrayRef = Arc::new(offsets.iter().map(|o| (o % 2 == 0).then_some("name")).collect::<StringArray>());
    let mut fields =
        vec![Arc::new(Field::new("id", DataType::Int64, true)), Arc::new(Field::new("name", DataType::Utf8, true))];
    fields.extend(record_columns::fields());
    let columns = [ids, names].into_iter().chain(record.finish()).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn part() -> impl Strategy<Value = BTreeMap<i64, u8>> {
    prop::collection::btree_map(0i64..40, 0u8..8, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// From random coverage through the real code to each document, all of it described by the schemas.
    #[test]
    fn what_the_code_writes_fits_the_schemas(first in part(), second in part(), backfill in any::<bool>()) {
        let origin = if backfill { Origin::Backfill } else { Origin::Stream };
        let mut coverages = Vec::new();
        let mut ledger = Ledger::empty(minute());
        let mut undelivered = Undelivered::default();
        for (n, offsets) in [&first, &second].into_iter().enumerate() {
            let mut coverage = Coverage::default();
            let (at, covered) = covered(0, offsets);
            coverage.insert(at.clone(), covered).unwrap();

            let delivered: Vec<i64> = offsets.keys().copied().collect();
            let given = [TableRows { table: "db.t".to_owned(), batch: rows(&delivered) }];
            let object = Object::open(encode(&footer(coverage.clone(), origin), &given).unwrap()).unwrap();
            let written: Value = serde_json::from_str(&object.footer().to_json().unwrap()).unwrap();
            assert_valid(&closed(schema("footer")), &written, "footer");
            prop_assert_eq!(&object.footer().coverage, &coverage);
            coverages.push(coverage);

            let key = format!("staging/employee-00ff00ff/2026-11-29/14/05/{n:032x}.parquet");
            let staged = Staged { key: &key, precedence: Precedence::default(), origin, coverage: &coverages[n], limits: None };
            let known = Known { ledger: &ledger, undelivered: &undelivered, open_holes: n == 1 };
            let judgement = judge(&known, &[staged]);
            let commit = CommitId::new(&SeededIds::new(n as u64));
            let mut next = ledger.settle(&judgement, &commit, minute(), minute().start()).unwrap();
            if n == 1 {
                next.quarantined.push(key.clone());
            }
            let offsets: Vec<Offsets> =
                judgement.partitions.iter().map(|(at, s)| Offsets::new(at, s.undelivered.clone())).collect();
            undelivered.listed = judgement.partitions.iter().map(|(at, s)| (at.clone(), s.undelivered.clone())).collect();
            let settlement = Settlement {
                schema: Tag::of::<Settlement>(),
                pipeline: pipeline(),
                table: "db.t".to_owned(),
                table_uuid: TableUuid::new("9c12d441-03fe-4693-9a96-a0705ddf69c1"),
                commit,
                parent_snapshot: (n == 1).then_some(i64::MAX),
                at: minute().start(),
                objects: vec![key],
                undelivered: offsets,
                found: judgement.partitions.iter().map(|(at, s)| Offsets::new(at, s.found.clone())).collect(),
                counts: judgement.counts(),
                ledger: next.clone(),
            };
            let text = serde_json::to_string(&settlement).unwrap();
            assert_valid(&closed(schema("settlement")), &serde_json::from_str(&text).unwrap(), "settlement");
            assert_valid(&closed(schema("ledger")), &serde_json::to_value(&next).unwrap(), "ledger");
            prop_assert_eq!(Settlement::from_json(text.as_bytes()).unwrap(), settlement);
            ledger = next;
        }
    }
}

#[test]
fn every_class_and_every_failure_kind_fits_the_schemas() {
    let letters: Vec<DeadLetter> = Class::ALL
        .iter()
        .enumerate()
        .map(|(n, class)| DeadLetter {
            schema: Tag::of::<DeadLetter>(),
            pipeline_id: pipeline(),
            minute: minute(),
            source: SourceId::of("cluster"),
            topic: "a.b_c-d".to_owned(),
            partition: i32::MAX,
            offset: i64::MAX,
            timestamp_ms: (n % 2 == 0).then_some(i64::MIN),
            timestamp_type: (n % 2 == 0).then_some(TimestampType::LogAppendTime),
            key: (n % 3 == 0).then(|| Payload::from(&[0xff, n as u8][..n % 3])),
            value: (n % 3 != 0).then(|| Payload(Bytes::from(vec![n as u8; n]))),
            headers: vec![("h".to_owned(), None), ("h".to_owned(), Some(Payload::default()))],
            schema_id: (n % 2 == 1).then(|| "17".to_owned()),
            class: *class,
            part: if n % 2 == 0 { Part::Key } else { Part::Value },
            path: String::new(),
            message: "wrong".to_owned(),
            ordinal: (n % 2 == 0).then_some(i32::MAX),
            table: (n % 2 == 0).then(|| "db.t".to_owned()),
            staged: (n % 2 == 0).then(|| "staging/x".to_owned()),
            row: (n % 2 == 0).then(|| [("id".to_owned(), json!(u64::MAX))].into_iter().collect()),
        })
        .collect();
    let body = dead_letter::encode(&letters).unwrap();
    let described = closed(schema("dead_letter"));
    for line in std::str::from_utf8(&body).unwrap().lines() {
        assert_valid(&described, &serde_json::from_str(line).unwrap(), "dead letter");
    }
    let classes = described["properties"]["class"]["enum"].as_array().unwrap();
    assert_eq!(classes.len(), Class::ALL.len());

    use model::failure::Kind;
    let described = closed(schema("run"));
    let kinds = [
        Kind::Retry,
        Kind::Conflict,
        Kind::OutcomeUnknown,
        Kind::Poison,
        Kind::Misconfigured,
        Kind::Corrupt,
        Kind::Bug,
    ];
    for kind in kinds {
        for (stage, state) in
            [(Stage::Ingest, State::Running), (Stage::Fold, State::Failed), (Stage::Maintain, State::Done)]
        {
            let run = Run {
                schema: Tag::of::<Run>(),
                stage,
                state,
                started: minute().start(),
                until: minute().plus(15).start(),
                finished: (state != State::Running).then(|| minute().plus(1).start()),
                budget_bytes: Some(u64::MAX),
                failure: Some(model::run::Failure { kind, code: "a.b".to_owned(), message: String::new() }),
                figures: [("rows_added".to_owned(), u64::MAX)].into(),
                behind: ["db.a".to_owned()].into(),
            };
            assert_valid(&described, &serde_json::to_value(&run).unwrap(), "run");
        }
    }
}

const GOLDEN_OBJECT: &str = "tests/golden/object/v1.parquet";

fn golden_offsets() -> BTreeMap<i64, u8> {
    [(5, 4), (7, 0), (8, 0), (9, 5), (12, 0)].into()
}

fn golden_footer() -> Footer {
    let mut coverage = Coverage::default();
    let (at, covered) = covered(0, &golden_offsets());
    coverage.insert(at, covered).unwrap();
    footer(coverage, Origin::Stream)
}

/// A staged object written when the contract began stays readable, to the last value.
#[test]
fn the_golden_object_is_read_as_it_was_written() {
    let object = Object::open(Bytes::from(fs::read(root().join(GOLDEN_OBJECT)).unwrap())).unwrap();
    let mut want = golden_footer();
    want.tables = object.footer().tables.clone();
    assert_eq!(*object.footer(), want);
    let tables: Vec<_> = object.footer().tables.iter().map(|t| (t.name.as_str(), t.rows)).collect();
    assert_eq!(tables, [("db.other", 1), ("db.t", 3)]);
    for (table, offsets) in [("db.t", &[7, 8, 12][..]), ("db.other", &[9])] {
        let batches: Vec<_> = object.rows(table, &Projection::default()).unwrap().map(Result::unwrap).collect();
        let [batch] = &batches[..] else { panic!("{} batches", batches.len()) };
        let want = rows(offsets);
        for field in want.schema_ref().fields() {
            let got = batch.column_by_name(field.name()).unwrap();
            let want = want.column_by_name(field.name()).unwrap();
            let want = if field.name() == record_columns::TOPIC {
                Arc::new(StringArray::from(vec!["a.b_c-d"; offsets.len()])) as ArrayRef
            } else {
                Arc::clone(want)
            };
            assert_eq!(got, &want, "{table}.{}", field.name());
        }
        let stored = batch.column_by_name(record_columns::OFFSET).unwrap().as_primitive::<Int64Type>();
        assert_eq!(stored.values(), offsets);
    }
}

/// Run by name, once, when a new version of the contract begins: `cargo test -p tests write_golden_object -- --ignored`.
#[test]
#[ignore = "writes the golden object of a new version"]
fn write_golden_object() {
    let given = [
        TableRows { table: "db.other".to_owned(), batch: rows(&[9]) },
        TableRows { table: "db.t".to_owned(), batch: rows(&[7, 8]) },
        TableRows { table: "db.t".to_owned(), batch: rows(&[12]) },
    ];
    let path = root().join(GOLDEN_OBJECT);
    assert!(!path.exists(), "golden files are not changed");
    fs::write(path, encode(&golden_footer(), &given).unwrap()).unwrap();
}

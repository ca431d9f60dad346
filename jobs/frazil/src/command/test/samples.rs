//! Sample records, as files of a folder.
//!
//! | ending | what is in it |
//! | --- | --- |
//! | `.bin` | one value, as it is |
//! | `.json` | the same, where the pipeline reads JSON |
//! | `.hex`, `.base64` | a value a line; lines that begin with `#` are comments |
//! | `.jsonl` | the same of JSON values, where the pipeline reads JSON |
//! | `.records.jsonl` | a record a line: `value` and `key` in base64, `headers`, as in events and in dead letters |
//! | `.event.json` | an event, as a mapping hands it over: its records are read together |
//!
//! A folder's name is the topic of the records in it.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use model::clock::Timestamp;
use pipeline::glob;
use pipeline::resolved::{Format, Pipeline};
use serde_json::{Map, Value, json};

use super::expected::FILE;
use crate::command::decode::PAYLOAD_BYTES_MAX;
use crate::command::decode::input::{self, Encoding, Record};
use crate::manners::failure::Failure;

/// Samples are looked at by people.
const SAMPLES_MAX: usize = 10_000;
/// Where records come from that don't say it.
const CLUSTER: &str = "arn:aws:kafka:eu-west-1:000000000000:cluster/samples/0";
/// When they were sent: a test says the same tomorrow.
pub(super) const SENT: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// What ingest is handed at once.
#[derive(Debug)]
pub(super) struct Sample {
    /// The file from the folder on, and the line where there are lines.
    pub(super) id: String,
    /// One invocation's JSON.
    pub(super) event: Vec<u8>,
    /// Whether it is one record, named by the sample alone.
    pub(super) is_one: bool,
}

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Value,
    Lines(Encoding),
    JsonLines,
    Records,
    Event,
}

/// Every ending, longer ones first.
const ENDINGS: [(&str, Kind); 7] = [
    (".records.jsonl", Kind::Records),
    (".event.json", Kind::Event),
    (".jsonl", Kind::JsonLines),
    (".base64", Kind::Lines(Encoding::Base64)),
    (".json", Kind::Value),
    (".hex", Kind::Lines(Encoding::Hex)),
    (".bin", Kind::Value),
];

/// The samples of a folder, in the order of their files' names.
///
/// # Errors
/// When a file can't be read, or is of no kind that there is.
pub(super) fn read(folder: &Path, pipeline: &Pipeline) -> Result<Vec<Sample>, Failure> {
    let mut samples = Vec::new();
    let named = pipeline.source.topics.iter().find(|topic| !glob::is_glob(topic));
    for path in entries(folder)? {
        let name = name_of(&path);
        if !path.is_dir() {
            if name != FILE {
                Reading { pipeline, topic: named.map(String::as_str), id: &name, path: &path }.file(&mut samples)?;
            }
            continue;
        }
        if !pipeline.source.takes(&name) {
            let message =
                format!("a folder of samples is named for a topic, and `{name}` is none that the pipeline takes");
            return Err(Failure::usage("test.topic", message)
                .at(path.display().to_string())
                .remedy(format!("name it for one of {}", pipeline.source.topics.join(", "))));
        }
        for inner in entries(&path)? {
            let id = format!("{name}/{}", name_of(&inner));
            Reading { pipeline, topic: Some(&name), id: &id, path: &inner }.file(&mut samples)?;
        }
    }
    Ok(samples)
}

/// What is in a folder, by name, but for notes and hidden files. One that is not there is empty.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let fault = |e: &std::io::Error| Failure::io("test.samples", folder.display().to_string(), e);
    let found = match fs::read_dir(folder) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(fault(&error)),
    };
    let mut paths = Vec::new();
    for entry in found {
        let path = entry.map_err(|e| fault(&e))?.path();
        let name = name_of(&path);
        if !name.starts_with('.') && !name.ends_with(".md") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// One file in the reading.
struct Reading<'a> {
    pipeline: &'a Pipeline,
    /// The topic of records that name none.
    topic: Option<&'a str>,
    id: &'a str,
    path: &'a Path,
}

impl Reading<'_> {
    fn file(&self, samples: &mut Vec<Sample>) -> Result<(), Failure> {
        let Some((ending, kind)) = ENDINGS.iter().find(|(ending, _)| self.id.ends_with(ending)) else {
            let endings: Vec<&str> = ENDINGS.iter().map(|(ending, _)| *ending).collect();
            return Err(self
                .refused("what is in it does not show", None)
                .remedy(format!("give it one of the endings {}", endings.join(", "))));
        };
        if matches!(*ending, ".json" | ".jsonl") && self.pipeline.value.format != Format::Json {
            let message = format!("it is of JSON values, and the pipeline reads {}", self.pipeline.value.format);
            return Err(self
                .refused(&message, None)
                .remedy("give values as .bin, .hex or .base64, or records as .records.jsonl"));
        }
        let bytes = self.bytes()?;
        match kind {
            Kind::Value => samples.push(self.record(self.id.to_owned(), &value(bytes), &Value::Null)?),
            Kind::Event => samples.push(Sample { id: self.id.to_owned(), event: bytes, is_one: false }),
            Kind::Lines(_) | Kind::JsonLines | Kind::Records => {
                for (number, line) in (1..).zip(bytes.split(|b| *b == b'\n')) {
                    let line = line.trim_ascii();
                    if line.is_empty() || line.starts_with(b"#") && *kind != Kind::JsonLines {
                        continue;
                    }
                    samples.push(self.line(*kind, number, line)?);
                    if samples.len() > SAMPLES_MAX {
                        let message = format!("there are more than {SAMPLES_MAX} samples");
                        return Err(self.refused(&message, None).remedy("keep those that tell something"));
                    }
                }
            }
        }
        Ok(())
    }

    fn line(&self, kind: Kind, number: usize, line: &[u8]) -> Result<Sample, Failure> {
        let id = format!("{}:{number}", self.id);
        let (encoding, is_record) = match kind {
            Kind::Lines(encoding) => (encoding, false),
            Kind::Records => (Encoding::Base64, true),
            _ => return self.record(id, &value(line.to_vec()), &Value::Null),
        };
        if is_record != line.starts_with(b"{") {
            let message = if is_record { "a record is a JSON object" } else { "a value is no JSON object here" };
            return Err(self
                .refused(message, Some(number))
                .remedy("keep records in a file that ends in .records.jsonl, values in others"));
        }
        let record = input::line(line, encoding).map_err(|failure| failure.at(self.place(Some(number))))?;
        let said = if is_record { serde_json::from_slice(line).unwrap_or_default() } else { Value::Null };
        self.record(id, &record, &said)
    }

    /// A record as an event of its own. What it says of its place holds.
    fn record(&self, id: String, record: &Record, said: &Value) -> Result<Sample, Failure> {
        let topic = said.get("topic").and_then(Value::as_str).or(self.topic);
        let Some(topic) = topic else {
            return Err(self
                .refused("nothing says which topic it is of: the pipeline names patterns alone", None)
                .remedy("put it into a folder that is named for a topic"));
        };
        let number = |name: &str| said.get(name).and_then(Value::as_i64);
        let partition = number("partition").unwrap_or(0);
        // A dead letter spells it its own way.
        let timestamp = number("timestamp").or(number("timestamp_ms")).unwrap_or(SENT.millis());
        let mut made = Map::new();
        made.insert("topic".to_owned(), json!(topic));
        made.insert("partition".to_owned(), json!(partition));
        made.insert("offset".to_owned(), json!(number("offset").unwrap_or(0)));
        made.insert("timestamp".to_owned(), json!(timestamp));
        made.insert("timestampType".to_owned(), said.get("timestampType").cloned().unwrap_or(json!("CREATE_TIME")));
        for (name, bytes) in [("key", &record.key), ("value", &record.value)] {
            if let Some(bytes) = bytes {
                made.insert(name.to_owned(), json!(base64_simd::STANDARD.encode_to_string(bytes)));
            }
        }
        let header = |(name, value): &(String, Option<Vec<u8>>)| {
            let signed = |bytes: &Vec<u8>| bytes.iter().map(|b| b.cast_signed()).collect::<Vec<i8>>();
            json!({ name: value.as_ref().map(signed) })
        };
        made.insert("headers".to_owned(), record.headers.iter().map(header).collect());
        for name in ["keySchemaMetadata", "valueSchemaMetadata"] {
            if let Some(metadata) = said.get(name) {
                made.insert(name.to_owned(), metadata.clone());
            }
        }
        let mut records = Map::new();
        records.insert(format!("{topic}-{partition}"), json!([made]));
        let event = json!({"eventSource": "aws:kafka", "eventSourceArn": CLUSTER, "records": records});
        Ok(Sample { id, event: event.to_string().into_bytes(), is_one: true })
    }

    fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let fault = |e: std::io::Error| Failure::io("test.samples", self.place(None), &e);
        // Opening a pipe would wait for somebody to write to it.
        if !fs::metadata(self.path).map_err(fault)?.is_file() {
            return Err(self.refused("it is no file", None).remedy("move it away"));
        }
        let mut bytes = Vec::new();
        fs::File::open(self.path).map_err(fault)?.take(PAYLOAD_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(fault)?;
        if bytes.len() as u64 > PAYLOAD_BYTES_MAX {
            return Err(self.refused("it is larger than any Kafka record", None).remedy("keep a part of it"));
        }
        Ok(bytes)
    }

    fn place(&self, line: Option<usize>) -> String {
        let path = self.path.display();
        line.map_or_else(|| path.to_string(), |line| format!("{path}:{line}"))
    }

    fn refused(&self, message: &str, line: Option<usize>) -> Failure {
        Failure::usage("test.samples", message).at(self.place(line))
    }
}

fn value(bytes: Vec<u8>) -> Record {
    Record { value: Some(bytes), ..Record::default() }
}

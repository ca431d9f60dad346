//! An ingest of one topic whose schemas are files: the pipeline's own, and those of a registry.

use std::path::Path;
use std::sync::Arc;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use base64_simd::STANDARD;
use ingest::{Error, Ingest, IngestConfig, Outcome};
use model::clock::Clock;
use pipeline::Environment;
use pipeline::environment::Registry;
use registry::{Limits, Registries, Source};
use serde_json::{Value, json};
use staging::dead_letter::{self, Class, DeadLetter};
use staging::footer::Footer;
use staging::object::Object;

use crate::memory::{Memory, TokioClock};
use crate::shop::{event, rows_of};

pub(crate) const TABLE: &str = "db.t";

/// The registry of the environment is a folder, `registry`, beside `schemas`.
pub(crate) struct Topic {
    pub(crate) ingest: Ingest,
    pub(crate) store: Arc<Memory>,
    pub(crate) clock: Arc<TokioClock>,
    folder: tempfile::TempDir,
}

impl Topic {
    /// Of files, and the lines of `[value]` and `[table]`.
    pub(crate) async fn of(files: &[(&str, &str)], value: &str, table: &str) -> Result<Self, Error> {
        Self::with(files, value, table, None, None).await
    }

    /// The same with another registry of the environment.
    pub(crate) async fn at(registry: Registry, files: &[(&str, &str)], value: &str) -> Result<Self, Error> {
        Self::with(files, value, "", Some(registry), None).await
    }

    /// The same with other registries in the place of the environment's.
    pub(crate) async fn asking(source: Arc<dyn Source>, files: &[(&str, &str)], value: &str) -> Self {
        Self::with(files, value, "", None, Some(source)).await.unwrap()
    }

    async fn with(
        files: &[(&str, &str)],
        value: &str,
        table: &str,
        main: Option<Registry>,
        source: Option<Arc<dyn Source>>,
    ) -> Result<Self, Error> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let name = if table.starts_with("name = ") { String::new() } else { format!("name = \"{TABLE}\"") };
        let text =
            format!("[source]\ntopics = [\"t\"]\n[value]\n{value}\n[table]\n{name}\nrecord_columns = false\n{table}");
        let main = main.unwrap_or_else(|| Registry::Files { dir: folder.path().join("registry") });
        let environment =
            Environment { registries: [("main".to_owned(), main)].into(), ..Environment::embedded(folder.path()) };
        let pipeline = pipeline::file::parse(&text, &environment, &folder.path().join("pipelines/t.toml"));
        let pipeline = pipeline.unwrap_or_else(|faults| panic!("{faults:?}"));
        let clock = Arc::new(TokioClock::new("2026-11-30T14:05:10Z".parse().unwrap()));
        let store = Arc::new(Memory::new(clock.clone()));
        let id = "t-00ff00ff".parse().unwrap();
        let salt = |name: &str| (name != "NOT_SET").then(|| "ann:a salt of some length".to_owned());
        let mut config = IngestConfig::open(pipeline, &environment, &salt, id, store.clone(), clock.clone()).await?;
        if let Some(source) = source {
            config.registries = Arc::new(Registries::new(vec![source], clock.clone(), Limits::default()));
        }
        Ok(Self { ingest: Ingest::new(config)?, store, clock, folder })
    }

    /// Registers a schema while it runs.
    pub(crate) fn register(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join("registry").join(name), text).unwrap();
    }

    /// Records of partition 0, from offset 0 on.
    pub(crate) async fn handle(&self, records: Vec<Value>) -> Result<Outcome, Error> {
        let deadline = self.clock.now().plus_micros(60 * 1_000_000);
        self.ingest.handle(event(json!({"t-0": records})).to_string().as_bytes(), Some(deadline)).await
    }

    fn object(&self) -> Object {
        let mut staged = self.store.under("staging/").into_values();
        let object = Object::open(staged.next_back().unwrap()).unwrap();
        assert!(staged.next().is_none(), "one event was handled");
        object
    }

    pub(crate) fn footer(&self) -> Footer {
        self.object().footer().clone()
    }

    /// The columns with their types, those of the record aside.
    pub(crate) fn columns(&self) -> Vec<String> {
        self.footer().columns.iter().map(|column| format!("{} {}", column.name, column.data_type)).collect()
    }

    /// Rows as `offset: name=value …`, those columns of the record aside.
    pub(crate) fn rows(&self) -> Vec<String> {
        self.rows_of(TABLE)
    }

    pub(crate) fn rows_of(&self, table: &str) -> Vec<String> {
        let batch = rows_of(&self.object(), table);
        let options = FormatOptions::default().with_null("NULL");
        let schema = batch.schema();
        let shown: Vec<(&str, ArrayFormatter<'_>)> = schema
            .fields()
            .iter()
            .zip(batch.columns())
            .map(|(field, column)| (field.name().as_str(), ArrayFormatter::try_new(column.as_ref(), &options).unwrap()))
            .collect();
        let row = |row: usize| {
            let cell = |(name, cell): &(&str, ArrayFormatter<'_>)| format!("{name}={}", cell.value(row));
            let is_own = |(name, _): &&(&str, ArrayFormatter<'_>)| !name.starts_with('_') || *name == "_rest";
            let offset = shown.iter().find(|(name, _)| *name == "_kafka_offset").unwrap().1.value(row);
            format!("{offset}: {}", shown.iter().filter(is_own).map(cell).collect::<Vec<_>>().join(" "))
        };
        (0..batch.num_rows()).map(row).collect()
    }

    pub(crate) fn letters(&self) -> Vec<DeadLetter> {
        let all = self.store.under("dead-letters/").into_values();
        all.flat_map(|body| dead_letter::decode(&body).unwrap()).collect()
    }

    /// Offset and class of each dead letter.
    pub(crate) fn dead(&self) -> Vec<(i64, Class)> {
        self.letters().iter().map(|letter| (letter.offset, letter.class)).collect()
    }
}

/// Bytes from hexadecimal with blanks.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap()).collect()
}

/// A record of a value in hexadecimal.
pub(crate) fn at(offset: i64, value: &str) -> Value {
    json!({"offset": offset, "value": STANDARD.encode_to_string(hex(value))})
}

/// The same for each value, from offset 0 on.
pub(crate) fn all(values: &[&str]) -> Vec<Value> {
    (0..).zip(values).map(|(offset, value)| at(offset, value)).collect()
}

/// A record with one header, in hexadecimal.
pub(crate) fn with_header(mut record: Value, name: &str, value: &str) -> Value {
    record["headers"] = json!([{ name: hex(value) }]);
    record
}

/// A record whose framing the mapping has taken off.
pub(crate) fn unwrapped(mut record: Value, format: &str, id: &str) -> Value {
    record["valueSchemaMetadata"] = json!({"dataFormat": format, "schemaId": id});
    record
}

/// The golden file of a framing: schemas as files of the registry, and the values.
pub(crate) fn golden(name: &str) -> (Vec<(String, String)>, Vec<Value>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/framing").join(name);
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut files = Vec::new();
    for (id, schema) in golden["schemas"].as_object().unwrap() {
        let ending = match schema["kind"].as_str().unwrap() {
            "PROTOBUF" => "proto",
            "AVRO" => "avsc",
            _ => "json",
        };
        let ids = [Some(id.as_str()), schema["guid"].as_str()];
        let text = schema["text"].as_str().unwrap();
        files.extend(ids.into_iter().flatten().map(|id| (format!("registry/{id}.{ending}"), text.to_owned())));
    }
    (files, golden["values"].as_array().unwrap().clone())
}

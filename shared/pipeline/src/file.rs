//! Reads `pipelines/<name>.toml`: strictly, and every fault at once.
//!
//! Every string value may hold `${name}`, replaced by the environment's variable; keys may not. Schema paths are relative
//! to the project: the folder of `frazil.toml` where one was found, else the folder that holds the pipeline file's folder
//! (so that `schemas/` stands beside `pipelines/`).

mod columns;
mod expectation;
mod properties;
mod schedule;
mod source;
mod table;
mod value;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::document::{self, Section};
use crate::environment::{Catalog, Environment};
use crate::fault::{Error, Fault, Found, code, locate};
use crate::glob;
use crate::grammar;
use crate::name;
use crate::reader::Reader;
use crate::resolved::{
    ColumnDeclaration, Exists, FOLDER_PROPERTIES, Fields, From, Pipeline, Schema, Source, Staging, Table,
    UnknownFields, Value,
};
use crate::route::{self, Part, Route};

/// Both files are written by hand. A larger one is something else, and is not read into memory.
pub(crate) const BYTES_MAX: u64 = 1 << 20;

/// Reads the text of a pipeline file. Pure: no file is opened, and schema files need not exist.
///
/// # Errors
/// Every fault of the file, sorted by position; never an empty list. After a fault of syntax (other than a key that is
/// there twice) only such faults are reported, for what follows them cannot be told with certainty.
pub fn parse(text: &str, environment: &Environment, path: &Path) -> Result<Pipeline, Vec<Fault>> {
    read(text, environment, path).outcome(text, path)
}

/// Reads a pipeline file, and looks whether its schema file is there.
///
/// # Errors
/// [`Error::Faults`] with every fault, [`Error::Unreadable`].
pub fn load(path: &Path, environment: &Environment) -> Result<Pipeline, Error> {
    let Examined { pipeline, faults, .. } = examine(path, environment)?;
    match pipeline {
        Some(pipeline) if faults.is_empty() => Ok(pipeline),
        _ => Err(Error::Faults(faults)),
    }
}

/// A pipeline file as far as it could be read, whatever is wrong with it.
#[derive(Clone, Debug)]
pub struct Examined {
    /// What was read; nothing where no schema is named or there is no `[table]`. It is good only where there are no faults.
    pub pipeline: Option<Pipeline>,
    /// Every fault of the file, as [`load`] has them.
    pub faults: Vec<Fault>,
    /// The schema that the file names.
    pub schema: Option<Schema>,
    /// Declared columns that could not be read: what is missing without them is nobody's fault.
    pub unread: Vec<String>,
    path: PathBuf,
    text: String,
    /// Where settings stand: `table.columns.age`, `table.partition_by[0]`.
    places: BTreeMap<String, usize>,
    /// Where the keys of single values stand.
    keys: BTreeMap<String, usize>,
    /// Where the file's own faults stand.
    found: BTreeSet<usize>,
}

impl Examined {
    /// Whether a fault of the file itself stands at a setting, or at one within it.
    #[must_use]
    pub fn is_at_fault(&self, setting: &str) -> bool {
        let within = |place: &String| place.strip_prefix(setting).is_some_and(|r| r.is_empty() || r.starts_with('.'));
        let at: BTreeSet<usize> = self.places.iter().filter(|(place, _)| within(place)).map(|(_, at)| *at).collect();
        let key = self.keys.get(setting);
        self.found.iter().any(|found| at.contains(found) || Some(found) == key)
    }

    /// A fault that was found later, at the setting that is to blame: `table.columns.age`, `table.partition_by[0]`. Where
    /// that is not in the file, at what is around it.
    #[must_use]
    pub fn fault(&self, place: &str, code: &'static str, message: String, nearest: Option<String>) -> Fault {
        let mut around = place;
        let at = loop {
            match (self.places.get(around), around.rfind(['.', '['])) {
                (Some(at), _) => break *at,
                (None, Some(end)) => around = around.get(..end).unwrap_or_default(),
                (None, None) => break 0,
            }
        };
        let found = vec![Found { at, code, message: message.clone(), nearest: nearest.clone() }];
        let fault = || Fault { file: self.path.clone(), line: 1, column: 1, code, message, nearest };
        locate(&self.text, &self.path, found).pop().unwrap_or_else(fault)
    }
}

/// Reads a pipeline file as [`load`] does, and gives what there is of it.
///
/// # Errors
/// [`Error::Unreadable`], and [`Error::Faults`] for what is not UTF-8.
pub fn examine(path: &Path, environment: &Environment) -> Result<Examined, Error> {
    let text = text_of(path)?;
    let mut read = read(&text, environment, path);
    for (schema, at) in read.schemas.iter().filter(|(schema, _)| !schema.is_file()) {
        read.found.push(Found {
            at: *at,
            code: code::SCHEMA_MISSING,
            message: format!("there is no schema file {}", schema.display()),
            nearest: None,
        });
    }
    let found = read.found.iter().map(|found| found.at).collect();
    let faults = locate(&text, path, read.found);
    let schema = read.value.map(|value| value.schema);
    Ok(Examined {
        pipeline: read.pipeline,
        faults,
        schema,
        unread: read.unread,
        path: path.to_owned(),
        text,
        places: read.places,
        keys: read.keys,
        found,
    })
}

/// The folder that a pipeline's schema paths are relative to.
#[must_use]
pub fn project_folder(environment: &Environment, pipeline: &Path) -> PathBuf {
    if let Some(root) = &environment.root {
        return root.clone();
    }
    match pipeline.parent() {
        // A bare file name stands in the current folder, whose parent has no shorter name.
        Some(folder) if folder.as_os_str().is_empty() => PathBuf::from(".."),
        Some(folder) => folder.parent().unwrap_or(folder).to_owned(),
        None => PathBuf::new(),
    }
}

/// What stands under a name in place of a file. Opening a pipe would wait for somebody to write to it; one that a shell hands over
/// has no such name.
fn what_else(path: &Path) -> Option<String> {
    if path.extension().is_none_or(|e| e != "toml") {
        return None;
    }
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => None,
        Ok(found) if found.is_dir() => Some("it is a folder, and not a file".to_owned()),
        Ok(_) => Some("it is a pipe, a socket or a device, and not a file".to_owned()),
        Err(error) => {
            let target = std::fs::read_link(path).ok()?;
            let (target, error) = (target.display(), error.kind());
            Some(format!("it is a link to {target}, where no file can be reached ({error})"))
        }
    }
}

/// A file's text.
pub(crate) fn text_of(path: &Path) -> Result<String, Error> {
    let unreadable = |source| Error::Unreadable { path: path.to_owned(), source };
    what_else(path).map_or(Ok(()), |what| Err(unreadable(std::io::Error::other(what))))?;
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(unreadable(std::io::Error::new(
            std::io::ErrorKind::FileTooLarge,
            format!("larger than {BYTES_MAX} bytes, which no such file needs to be"),
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
        let message = "not UTF-8 from here on".to_owned();
        let found = Found { at, code: code::SYNTAX, message, nearest: None };
        Error::Faults(locate(&text, path, vec![found]))
    })
}

/// What was read, before anybody decides whether it is good.
#[derive(Default)]
struct Outcome {
    pipeline: Option<Pipeline>,
    found: Vec<Found>,
    value: Option<Value>,
    /// Each schema file's path and the place that names it.
    schemas: Vec<(PathBuf, usize)>,
    unread: Vec<String>,
    places: BTreeMap<String, usize>,
    keys: BTreeMap<String, usize>,
}

impl Outcome {
    fn outcome(self, text: &str, path: &Path) -> Result<Pipeline, Vec<Fault>> {
        match self.pipeline {
            Some(pipeline) if self.found.is_empty() => Ok(pipeline),
            _ => Err(locate(text, path, self.found)),
        }
    }
}

fn read(text: &str, environment: &Environment, path: &Path) -> Outcome {
    let (table, syntax) = document::parse(text);
    let mut reader = Reader::new(text, &environment.name, &environment.vars);
    reader.found = syntax;
    let mut outcome = Outcome::default();
    if let Some(table) = &table {
        let document = Section::new(table, 0);
        outcome = pipeline(&mut reader, document, environment, path);
        places(document, "", &mut outcome);
    }
    outcome.places.extend(reader.items);
    Outcome { found: reader.found, unread: reader.unread, ..outcome }
}

/// Where each key's value stands, and each table's key. TOML's reader has bounded the depth.
fn places(section: Section<'_>, around: &str, all: &mut Outcome) {
    for entry in section.entries() {
        let name = if around.is_empty() { entry.key.to_owned() } else { format!("{around}.{}", entry.key) };
        match entry.section() {
            Some(inner) => {
                places(inner, &name, all);
                all.places.insert(name, entry.key_at);
            }
            None => {
                all.keys.insert(name.clone(), entry.key_at);
                all.places.insert(name, entry.value_at());
            }
        }
    }
}

fn pipeline<'t>(reader: &mut Reader<'t>, document: Section<'t>, environment: &Environment, path: &Path) -> Outcome {
    grammar::check(reader, document, grammar::PIPELINE);

    let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or("").to_owned();
    if let Err(message) = name::pipeline(&stem) {
        reader.fault(0, code::INVALID, message);
    }
    let source = block(reader, document, "source").map(|s| source::read(reader, s));
    let project = project_folder(environment, path);
    let value =
        block(reader, document, "value").map(|s| value::read(reader, s, "value", &project, &environment.registries));
    let key = document.get("key").and_then(|_| reader.section(document, "key"));
    let key = key.map(|s| value::read(reader, s, "key", &project, &environment.registries));
    let staging = schedule::staging(reader, document);
    let fold = schedule::fold(reader, document);
    // Of a block that can't be read nothing is held against the others.
    let schema = value.as_ref().and_then(|found| Some(&found.value.as_ref()?.schema));
    let is_registered = schema.is_none_or(|schema| matches!(schema, Schema::Registered { .. }));
    let table = block(reader, document, "table").map(|s| table::read(reader, s, is_registered, staging.as_ref()));
    let (mut table, route) = table.unzip();
    if let (Some(Schema::Declared), Some(table)) = (schema, &mut table) {
        // Beside the declared columns there is nothing that could be one.
        table.fields = Fields::Listed;
        if table.columns.is_empty() && table.unknown_fields != UnknownFields::Rest {
            let at = document.get("table").map_or(0, |entry| entry.key_at);
            let message = "`format = \"json\"` without a schema needs columns in `[table.columns]`";
            reader.fault(at, code::MISSING, message);
        }
    }
    let route = route.flatten();
    let tables = match &table {
        Some(table) => differing(reader, document, table, route.as_ref(), staging.as_ref()),
        None => BTreeMap::new(),
    };
    // Of a table that others made the properties are only held beside its own.
    if matches!(environment.catalog, Catalog::S3Tables { .. })
        && table.as_ref().is_none_or(|table| !matches!(table.exists, Exists::Join))
    {
        given_places(reader, document);
    }

    let (key, key_schema) = keys_read(reader, document, key, table.as_ref());
    let (value, schema) = value.map_or((None, None), |v| (v.value, v.schema_file));
    let schemas = schema.into_iter().chain(key_schema).collect();
    // What is not there was reported: the rest is judged with what would be there if nobody had said anything.
    let source = source.unwrap_or_else(|| Source { topics: Vec::new(), exclude: Vec::new(), name: None });
    let staging = staging.unwrap_or(Staging { retention_seconds: schedule::RETENTION_SECONDS });
    if let Some(route) = &route {
        one_table_each(reader, document, &source, route);
    }
    let pipeline = value.clone().zip(table).map(|(value, table)| Pipeline {
        name: stem,
        source,
        value,
        key,
        table,
        route,
        tables,
        fold,
        staging,
    });
    Outcome { pipeline, value, schemas, ..Outcome::default() }
}

/// Refuses properties that put files elsewhere than where S3 Tables puts the table.
fn given_places<'t>(reader: &mut Reader<'t>, document: Section<'t>) {
    let tables = document.get("tables").and_then(|entry| entry.section());
    let tables = tables.map(Section::entries).unwrap_or_default().into_iter();
    let blocks = document.get("table").into_iter().chain(tables).filter_map(|entry| entry.section());
    let properties = blocks.filter_map(|block| block.get("properties")?.section()).flat_map(Section::entries);
    for entry in properties.filter(|entry| FOLDER_PROPERTIES.contains(&entry.key)) {
        let message =
            format!("`{}` puts files elsewhere, and S3 Tables gives each table the place of all its files", entry.key);
        reader.fault(entry.key_at, code::INVALID, message);
    }
}

/// How keys are read: where columns are made of fields in them, and only there. With their schema's file.
fn keys_read<'t>(
    reader: &mut Reader<'t>,
    document: Section<'t>,
    key: Option<value::Found>,
    table: Option<&Table>,
) -> (Option<Value>, Option<(PathBuf, usize)>) {
    let of_field = |column: &&ColumnDeclaration| matches!(column.from, From::KeyField(_));
    let column = table.and_then(|table| table.columns.iter().find(of_field));
    if let (None, Some(column)) = (&key, column) {
        let at = document.get("table").map_or(0, |entry| entry.key_at);
        let message = format!(
            "`{}` is made of a field of the key, and there is no `[key]` that says how keys are read",
            column.name
        );
        reader.fault(at, code::MISSING, message);
    }
    let Some(found) = key else { return (None, None) };
    // A column that could not be read may have been such a one.
    if let (Some(_), None, Some(entry)) = (table, column, document.get("key"))
        && reader.unread.is_empty()
    {
        let message = "`[key]` says how keys are read, and no column is made of one: `id = \"@key.id\"`";
        reader.fault(entry.key_at, code::INVALID, message);
    }
    (found.value, found.schema_file)
}

/// `[tables]`: the tables that differ from the others.
fn differing<'t>(
    reader: &mut Reader<'t>,
    document: Section<'t>,
    others: &Table,
    route: Option<&Route>,
    staging: Option<&Staging>,
) -> BTreeMap<String, Table> {
    let Some(entry) = document.get("tables") else { return BTreeMap::new() };
    let Some(section) = reader.section(document, "tables") else { return BTreeMap::new() };
    let Some(route) = route else {
        // A table's name that can't be read was reported: it may have been a route.
        if !others.name.name.is_empty() && !reader.found.iter().any(|found| found.code == code::INVALID) {
            let message = "`[tables]` says what differs for one of many tables, and `name` under `[table]` is of one: it has no \
                           `{topic}`, `{field:…}` or `{header:…}`";
            reader.fault(entry.key_at, code::INVALID, message);
        }
        return BTreeMap::new();
    };
    let mut tables = BTreeMap::new();
    for entry in section.entries() {
        let name = route::spelled(entry.key).map(Cow::into_owned);
        let Some(name) = name.filter(|name| route.takes_name(name)) else {
            let message = format!("no table of `{}` is called `{}`", others.name, entry.key);
            reader.fault(entry.key_at, code::INVALID, message);
            continue;
        };
        let Some(inner) = entry.section() else {
            reader.expected(entry.key, entry.value.get_ref(), entry.value_at(), "a table");
            continue;
        };
        let table = table::differing(reader, inner, entry.key, others, staging);
        if tables.insert(name.clone(), table).is_some() {
            reader.fault(entry.key_at, code::DUPLICATE, format!("the table `{name}` is there twice"));
        }
    }
    tables
}

/// Two topics whose names make one table's name would be mixed there without anybody having said so.
fn one_table_each<'t>(reader: &mut Reader<'t>, document: Section<'t>, source: &Source, route: &Route) {
    if !route.parts().any(|part| *part == Part::Topic) {
        return;
    }
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for topic in &source.topics {
        let is_pattern = glob::is_glob(topic);
        let problem = match route::spelled(topic) {
            _ if !route.may_begin(topic) => format!(
                "{} `{topic}` can't begin a table's name, or a namespace's: a letter or a digit does",
                if is_pattern { "what fits" } else { "the topic" }
            ),
            _ if is_pattern => continue,
            None => format!("the topic `{topic}` can't be part of a table's name"),
            Some(spelled) => match seen.insert(spelled.to_string(), topic) {
                None => continue,
                Some(other) => format!("the topics `{other}` and `{topic}` would share the table part `{spelled}`"),
            },
        };
        let at = document.get("source").and_then(|entry| entry.section()).and_then(|s| s.get("topics"));
        reader.fault(at.map_or(0, |entry| entry.value_at()), code::INVALID, problem);
    }
}

/// A block that every pipeline has.
fn block<'t>(reader: &mut Reader<'t>, document: Section<'t>, name: &str) -> Option<Section<'t>> {
    if document.get(name).is_none() {
        reader.fault(0, code::MISSING, format!("there is no `[{name}]`"));
    }
    reader.section(document, name)
}

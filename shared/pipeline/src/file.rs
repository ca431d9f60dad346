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

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use crate::document::{self, Section};
use crate::environment::Environment;
use crate::fault::{Error, Fault, Found, code, locate};
use crate::grammar;
use crate::name;
use crate::reader::Reader;
use crate::resolved::Pipeline;

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
    let text = text_of(path)?;
    let mut read = read(&text, environment, path);
    if let Some((schema, at)) = &read.schema
        && !schema.is_file()
    {
        read.found.push(Found {
            at: *at,
            code: code::SCHEMA_MISSING,
            message: format!("there is no schema file {}", schema.display()),
            nearest: None,
        });
    }
    read.outcome(&text, path).map_err(Error::Faults)
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

/// A file's text.
pub(crate) fn text_of(path: &Path) -> Result<String, Error> {
    let unreadable = |source| Error::Unreadable { path: path.to_owned(), source };
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
struct Outcome {
    pipeline: Option<Pipeline>,
    found: Vec<Found>,
    /// The schema file's path and the place that names it.
    schema: Option<(PathBuf, usize)>,
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
    let (pipeline, schema) = match &table {
        Some(table) => pipeline(&mut reader, table, environment, path),
        None => (None, None),
    };
    Outcome { pipeline, found: reader.found, schema }
}

fn pipeline<'t>(
    reader: &mut Reader<'t>,
    document: &'t DeTable<'t>,
    environment: &Environment,
    path: &Path,
) -> (Option<Pipeline>, Option<(PathBuf, usize)>) {
    let document = Section::new(document, 0);
    grammar::check(reader, document, grammar::PIPELINE);

    let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or("").to_owned();
    if let Err(message) = name::pipeline(&stem) {
        reader.fault(0, code::INVALID, message);
    }
    let source = block(reader, document, "source").and_then(|s| source::read(reader, s));
    let value = block(reader, document, "value").map(|s| value::read(reader, s, &project_folder(environment, path)));
    let staging = schedule::staging(reader, document);
    let fold = schedule::fold(reader, document);
    let table = block(reader, document, "table").and_then(|s| table::read(reader, s, staging.as_ref()));

    let (value, schema_file) = value.map_or((None, None), |v| (v.value, v.schema_file));
    let assemble =
        || Some(Pipeline { name: stem, source: source?, value: value?, table: table?, fold: fold?, staging: staging? });
    (assemble(), schema_file)
}

/// A block that every pipeline has.
fn block<'t>(reader: &mut Reader<'t>, document: Section<'t>, name: &str) -> Option<Section<'t>> {
    if document.get(name).is_none() {
        reader.fault(0, code::MISSING, format!("there is no `[{name}]`"));
    }
    reader.section(document, name)
}

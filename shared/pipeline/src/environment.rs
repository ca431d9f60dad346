//! `frazil.toml`: where things run, one `[env.NAME]` block per environment.
//!
//! Without a file, and without a block of that name, `local` is the embedded environment in `.frazil`. Relative paths
//! in the file are relative to its folder. Every block is held to the grammar; what is not of this version is refused
//! only in the environment that is used, so that a laptop can work beside a block for production.

mod aws;
mod catalog;
mod location;
mod mapping;
mod registries;
mod url;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::document::{self, Section};
use crate::fault::{Error, Fault, code, locate};
use crate::file::text_of;
use crate::grammar;
use crate::name;
use crate::nearest::nearest;
use crate::reader::{Reader, Text};

pub use catalog::{Catalog, Rest, RestAuth};
pub use location::Location;
pub use mapping::{Kafka, Mapping, RecordFormat, Start};
pub use registries::Registry;

/// The file's name, looked for upward.
pub const FILE: &str = "frazil.toml";

/// The environment used when nothing else is chosen.
pub const DEFAULT: &str = "local";

/// Where `local` keeps everything, when nothing is said.
const DEFAULT_FOLDER: &str = ".frazil";

/// A variable's value is part of a name: long ones would only multiply.
const VARIABLE_LENGTH_MAX: usize = 1024;

/// One environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// Its name.
    pub name: String,
    /// The project: the folder of `frazil.toml`, where there is one.
    pub root: Option<PathBuf>,
    /// The embedded environment's folder, where it is one.
    pub dir: Option<PathBuf>,
    /// Staging, settlements, dead letters, runs.
    pub store: Location,
    /// Where tables are found.
    pub catalog: Catalog,
    /// Where tables are created; nothing where the catalog gives each its own place, as S3 Tables does.
    pub warehouse: Option<Location>,
    /// The only names that `${…}` may use in pipeline files.
    pub vars: BTreeMap<String, String>,
    /// Where the salt of hashed personal data is.
    pub pii_salt: Option<SecretReference>,
    /// How its Kafka cluster is reached.
    pub kafka: Option<Kafka>,
    /// How records are handed over.
    pub mapping: Mapping,
    /// Where schemas are kept.
    pub registries: BTreeMap<String, Registry>,
}

/// Where a secret is: never the secret itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretReference {
    /// `env:NAME`: in the variable of this name.
    Env(String),
}

impl Environment {
    /// Everything in one folder: `catalog.db` and `warehouse/` beside staging and the rest. What `--dir` means. The
    /// folder should be absolute, for it becomes part of the locations that tables keep.
    #[must_use]
    pub fn embedded(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self {
            name: DEFAULT.to_owned(),
            root: None,
            store: Location::File(dir.clone()),
            catalog: Catalog::Sqlite(dir.join("catalog.db")),
            warehouse: Some(Location::File(dir.join("warehouse"))),
            dir: Some(dir),
            vars: BTreeMap::new(),
            pii_salt: None,
            kafka: None,
            mapping: Mapping::default(),
            registries: BTreeMap::new(),
        }
    }

    /// The folders in which pipelines are looked for by name, nearest first: `pipelines/` of the project (or, without
    /// one, of the folder the search began in) and of the embedded folder.
    #[must_use]
    pub fn pipeline_folders(&self, from: &Path) -> Vec<PathBuf> {
        let project = self.root.as_deref().unwrap_or(from).join("pipelines");
        let embedded = self.dir.iter().map(|dir| dir.join("pipelines")).filter(|folder| *folder != project);
        std::iter::once(project.clone()).chain(embedded).collect()
    }
}

/// The file that holds for a folder: in it, or in the nearest folder above that has one. What has its name and can't be read,
/// a link to nothing say, is found too: without it commands would work elsewhere than they should.
#[must_use]
pub fn find(from: &Path) -> Option<PathBuf> {
    from.ancestors().map(|folder| folder.join(FILE)).find(|file| file.symlink_metadata().is_ok())
}

/// The environment of a name (`local` when none is chosen) as it holds for a folder, which should be absolute.
///
/// # Errors
/// [`Error::Faults`], [`Error::Unreadable`], [`Error::UnknownEnvironment`].
pub fn load(from: &Path, chosen: Option<&str>) -> Result<Environment, Error> {
    match find(from) {
        Some(file) => parse(&text_of(&file)?, &file).map_err(Error::Faults)?.get(chosen),
        None if chosen.is_none_or(|name| name == DEFAULT) => Ok(Environment::embedded(from.join(DEFAULT_FOLDER))),
        None => Err(Error::UnknownEnvironment {
            name: chosen.unwrap_or(DEFAULT).to_owned(),
            file: from.join(FILE),
            known: vec![DEFAULT.to_owned()],
            nearest: chosen.and_then(|name| nearest(name, [DEFAULT])).map(str::to_owned),
        }),
    }
}

/// The environments of one file.
#[derive(Clone, Debug)]
pub struct Environments {
    file: PathBuf,
    blocks: BTreeMap<String, Block>,
}

/// One environment, as far as it could be read, and what it asks for that is not of this version.
#[derive(Clone, Debug)]
struct Block {
    environment: Environment,
    later: Vec<Fault>,
}

impl Environments {
    /// Their names, sorted; `local` is always one of them.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.blocks.keys().cloned().collect()
    }

    /// The environment of a name, `local` when none is chosen.
    ///
    /// # Errors
    /// [`Error::UnknownEnvironment`]; [`Error::Faults`] where it asks for what is not of this version.
    pub fn get(&self, chosen: Option<&str>) -> Result<Environment, Error> {
        match self.sketch(chosen)? {
            (environment, []) => Ok(environment.clone()),
            (_, later) => Err(Error::Faults(later.to_vec())),
        }
    }

    /// The environment of a name as far as it could be read, and what it asks for that is not of this version.
    ///
    /// # Errors
    /// [`Error::UnknownEnvironment`].
    pub fn sketch(&self, chosen: Option<&str>) -> Result<(&Environment, &[Fault]), Error> {
        let name = chosen.unwrap_or(DEFAULT);
        match self.blocks.get(name) {
            Some(Block { environment, later }) => Ok((environment, later)),
            None => Err(Error::UnknownEnvironment {
                name: name.to_owned(),
                file: self.file.clone(),
                known: self.names(),
                nearest: nearest(name, self.blocks.keys().map(String::as_str)).map(str::to_owned),
            }),
        }
    }
}

/// Reads the text of `frazil.toml`. Pure.
///
/// # Errors
/// Every fault of the file, sorted by position, except those of things that are only not of this version:
/// [`Environments::get`] reports them.
pub fn parse(text: &str, file: &Path) -> Result<Environments, Vec<Fault>> {
    let (environments, faults) = examine(text, file);
    if faults.is_empty() { Ok(environments) } else { Err(faults) }
}

/// Reads the file that holds for a folder, whatever is wrong with it: the environments as far as they could be read, and
/// the faults of [`parse`]. Without a file there is `local` alone.
///
/// # Errors
/// [`Error::Unreadable`], and [`Error::Faults`] for what is not UTF-8.
pub fn examine_at(from: &Path) -> Result<(Environments, Vec<Fault>), Error> {
    match find(from) {
        Some(file) => Ok(examine(&text_of(&file)?, &file)),
        None => {
            let environment = Environment::embedded(from.join(DEFAULT_FOLDER));
            let blocks = BTreeMap::from([(DEFAULT.to_owned(), Block { environment, later: Vec::new() })]);
            Ok((Environments { file: from.join(FILE), blocks }, Vec::new()))
        }
    }
}

fn examine(text: &str, file: &Path) -> (Environments, Vec<Fault>) {
    let root = file.parent().unwrap_or(Path::new("")).to_owned();
    let none = BTreeMap::new();
    let (table, syntax) = document::parse(text);
    let mut reader = Reader::new(text, "", &none);
    reader.found = syntax;
    let mut blocks = BTreeMap::new();
    if let Some(table) = &table {
        let document = Section::new(table, 0);
        // Blocks are told apart by where they begin; all keys are checked first, then each block's values.
        grammar::check(&mut reader, document, grammar::ENVIRONMENTS);
        if let Some(env) = reader.section(document, "env") {
            for entry in env.entries() {
                let name = entry.key;
                if !name::variable(name) {
                    reader.fault(entry.key_at, code::INVALID, format!("`{name}` cannot name an environment"));
                }
                let Some(section) = reader.section(env, name) else { continue };
                let environment = environment(&mut reader, section, name, &root);
                let inside = positions(section);
                let (later, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut reader.found)
                    .into_iter()
                    .partition(|f| f.code == code::NOT_YET && inside.contains(&f.at));
                reader.found = rest;
                blocks.insert(name.to_owned(), Block { environment, later: locate(text, file, later) });
            }
        }
    }
    blocks.entry(DEFAULT.to_owned()).or_insert_with(|| {
        let environment = Environment { root: Some(root.clone()), ..Environment::embedded(root.join(DEFAULT_FOLDER)) };
        Block { environment, later: Vec::new() }
    });
    (Environments { file: file.to_owned(), blocks }, locate(text, file, reader.found))
}

/// Without `.` and `..`: tables keep their locations, and those are compared as text. Links stay as they are written.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            // Above the root is the root.
            Component::ParentDir if plain.has_root() => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Every place in a block that a fault may stand at: of each key and value, however deep.
fn positions(section: Section<'_>) -> BTreeSet<usize> {
    let mut all = BTreeSet::new();
    let mut open = vec![section];
    while let Some(section) = open.pop() {
        for entry in section.entries() {
            all.extend([entry.key_at, entry.value_at()]);
            open.extend(entry.section());
        }
    }
    all
}

/// What can't be read is reported, if only as not of this version, and what an embedded environment has stands in its place.
fn environment<'t>(reader: &mut Reader<'t>, section: Section<'t>, name: &str, root: &Path) -> Environment {
    let dir = reader.text(section, "dir");
    if let Some(text) = &dir
        && text.value.is_empty()
    {
        reader.fault(text.at, code::INVALID, "`dir` is a folder; for the one of this file, write \".\"");
    }
    let gives_places = catalog::gives_places(section);
    let places: &[&str] = if gives_places { &["store", "catalog"] } else { &["store", "catalog", "warehouse"] };
    let said: Vec<&str> = places.iter().copied().filter(|name| section.get(name).is_some()).collect();
    if section.get("dir").is_none() && said.len() < places.len() && !(name == DEFAULT && said.is_empty()) {
        let all = if gives_places {
            "`store` beside its catalog in S3 Tables"
        } else {
            "all of `store`, `catalog` and `warehouse`"
        };
        reader.fault(section.at, code::MISSING, format!("`[env.{name}]` needs `dir`, or {all}"));
    }
    if gives_places && let Some(entry) = section.get("warehouse") {
        let message = "S3 Tables gives each table a place of its own: leave `warehouse` out";
        reader.fault(entry.key_at, code::INVALID, message);
    }
    let folder = plain(&root.join(dir.as_ref().map_or(DEFAULT_FOLDER, |text| &text.value)));
    let embedded = Environment::embedded(&folder);
    let store = location::read(reader, section, "store", embedded.store.clone());
    let default = Location::File(folder.join("warehouse"));
    let warehouse = if gives_places { None } else { location::read(reader, section, "warehouse", default.clone()) };
    let catalog = catalog::read(reader, section, embedded.catalog.clone(), root);
    if let (Some(store), Some(warehouse)) = (&store, &warehouse) {
        location::apart(reader, section, store, warehouse);
    }
    if let (Some(Catalog::Glue { .. }), Some(Location::File(_))) = (&catalog, &warehouse) {
        let at = section.get("warehouse").or(section.get("catalog")).map_or(section.at, |entry| entry.value_at());
        let message =
            "a table that Glue names is read from anywhere: `warehouse = \"s3://BUCKET/PREFIX\"`, not a folder";
        reader.fault(at, code::INVALID, message);
    }
    let vars = vars(reader, section);
    let pii_salt = secret(reader, section, "pii_salt");
    let kafka = mapping::kafka(reader, section, root);
    let mapping = mapping::mapping(reader, section).unwrap_or_default();
    let registries = registries::read(reader, section, root);
    Environment {
        name: name.to_owned(),
        root: Some(root.to_owned()),
        dir: (dir.is_some() || said.is_empty()).then_some(folder),
        store: store.unwrap_or(embedded.store),
        catalog: catalog.unwrap_or(embedded.catalog),
        warehouse: (!gives_places).then(|| warehouse.unwrap_or(default)),
        vars,
        pii_salt,
        kafka,
        mapping,
        registries,
    }
}

/// A reference to a secret. What stands there instead may be the secret: it is not repeated.
fn secret<'t>(reader: &mut Reader<'t>, section: Section<'t>, name: &str) -> Option<SecretReference> {
    section.get(name)?;
    let text = reader.text(section, name)?;
    let is_name = |name: &str| {
        name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    match text.value.split_once(':') {
        Some(("env", variable)) if is_name(variable) => return Some(SecretReference::Env(variable.to_owned())),
        Some((kind @ ("secretsmanager" | "ssm"), _)) => reader.not_yet(text.at, &format!("{name} = \"{kind}:…\"")),
        _ => {
            let message = format!(
                "`{name}` says where the secret is, as in \"env:FRAZIL_{}\", the name of a variable; a secret itself never stands \
                 in a file",
                name.to_ascii_uppercase()
            );
            reader.fault(text.at, code::INVALID, message);
        }
    }
    None
}

fn vars<'t>(reader: &mut Reader<'t>, section: Section<'t>) -> BTreeMap<String, String> {
    let mut vars = BTreeMap::new();
    let Some(section) = reader.section(section, "vars") else { return vars };
    for entry in section.entries() {
        if !name::variable(entry.key) {
            let message = format!("`{}` cannot name a variable: letters, digits, `_` and `-`", entry.key);
            reader.fault(entry.key_at, code::INVALID, message);
        }
        let Some(Text { value, at, .. }) = reader.string(entry.key, entry.value, "a string") else { continue };
        if value.len() > VARIABLE_LENGTH_MAX {
            reader.fault(at, code::INVALID, format!("a variable's value is at most {VARIABLE_LENGTH_MAX} bytes long"));
        }
        vars.insert(entry.key.to_owned(), value);
    }
    vars
}

#[cfg(test)]
mod tests;

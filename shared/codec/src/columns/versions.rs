//! The versions of a pipeline's schema: what the records of each are read as, and the columns of several together.
//!
//! A version is read by itself beside the pipeline's own schema, so that the versions that others of an event are written with change
//! nothing for it. Where two versions make different things of one column, one of them is not read at all: the later judged. Those that
//! a registry lists are judged first and in its order, whoever is written with what.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pipeline::resolved::{ColumnCase, Pipeline, UnknownFields};
use pipeline::types::{Field, Type};

use super::arrangement::Arrangement;
use super::plan::{clashes, only_of};
use super::{Column, Columns, Fault, Tables, former_sources, plan_tables};
use crate::naming::fold;
use crate::payload::{Reader, Schema};
use crate::source::{self, Brought, Described, ROOT};
use crate::{Class, Rejected, avro};

/// A pipeline's own schema, with the other versions of it that a registry lists, the newest first.
#[derive(Clone, Debug)]
pub struct Own {
    /// What columns are planned from.
    pub schema: Schema,
    /// What else there is, each with its number in the registry. What is called otherwise there is known by that name, too.
    versions: Vec<(u32, Schema)>,
    /// What payloads of the schema are read as: Avro's fields with the aliases that listed versions have for those before.
    reader: Reader,
}

impl Own {
    /// A schema with the versions that are listed, the newest first.
    #[must_use]
    pub fn new(schema: Schema, versions: Vec<(u32, Schema)>) -> Self {
        let reader = match &schema {
            Schema::Avro(own) => Reader::Avro(own.knowing(&avro_of(versions.iter().map(|(_, version)| version)))),
            other => other.reader(),
        };
        Self { schema, versions, reader }
    }

    /// A schema of which no other version is known.
    #[must_use]
    pub fn alone(schema: Schema) -> Self {
        Self::new(schema, Vec::new())
    }

    /// A version with the earlier names, as aliases, that its fields have in the listed ones.
    fn telling(&self, version: &Schema) -> Schema {
        match version {
            Schema::Avro(version) => {
                let all = std::iter::once(&self.schema).chain(self.versions.iter().map(|(_, version)| version));
                let mut others = avro_of(all);
                others.retain(|other| other.digest() != version.digest());
                Schema::Avro(version.knowing(&others))
            }
            other => other.clone(),
        }
    }

    /// The listed versions as they are described.
    fn listed(&self) -> Vec<source::Schema> {
        self.versions.iter().map(|(_, version)| version.describe()).collect()
    }
}

fn avro_of<'v>(versions: impl Iterator<Item = &'v Schema>) -> Vec<&'v avro::Schema> {
    let avro = |version: &'v Schema| match version {
        Schema::Avro(version) => Some(version),
        _ => None,
    };
    versions.filter_map(avro).collect()
}

/// A schema with the names that its fields have in other versions; those that are but spelled otherwise each pipeline learns by itself.
fn told<'v>(mut described: source::Schema, versions: impl Iterator<Item = &'v source::Schema>) -> source::Schema {
    described.versions.extend(versions.cloned());
    described.learn_all(ColumnCase::AsIs);
    described
}

impl Described for Own {
    fn describe(&self) -> source::Schema {
        let own = self.reader.describe();
        told(own.clone(), self.listed().iter().chain([&own]))
    }

    fn misfits(&self, columns: &Columns) -> Vec<(usize, String)> {
        self.schema.misfits(columns)
    }
}

/// What the records of one version are read as: the fields of the pipeline's own schema and of that version.
#[derive(Debug)]
pub struct Reading {
    /// What their payloads are read as.
    pub reader: Reader,
    /// The columns that they fill.
    pub tables: Tables,
    /// Fields of the version's record that are in no column, for a column of their name is declared of something else. They are left out
    /// as unknown ones are, and counted.
    pub replaced: Vec<String>,
    former: BTreeMap<String, Vec<String>>,
}

/// A reader with the names that its fields have in the listed versions, and in the one that it is for.
struct Told<'a> {
    reader: &'a Reader,
    listed: &'a [source::Schema],
    /// The pipeline's own, too.
    own: &'a source::Schema,
    version: source::Schema,
}

impl Described for Told<'_> {
    fn describe(&self) -> source::Schema {
        told(self.reader.describe(), self.listed.iter().chain([self.own, &self.version]))
    }

    fn misfits(&self, columns: &Columns) -> Vec<(usize, String)> {
        self.reader.misfits(columns)
    }
}

impl Reading {
    fn new(reader: Reader, tables: Tables, replaced: Vec<String>) -> Self {
        let former = former_sources(&reader, &tables.columns);
        Self { reader, tables, replaced, former }
    }
}

/// The versions of a pipeline's schema, each with its verdict.
#[derive(Debug)]
pub struct Versions {
    own: Own,
    /// Its listed versions, described once, and it itself with the names that they know.
    listed: Vec<source::Schema>,
    known: source::Schema,
    reading: Arc<Reading>,
    /// The columns of all that are read.
    all: United,
    judged: HashMap<String, Result<Arc<Reading>, Rejected>>,
}

/// Verdicts that are remembered. One that is forgotten is given anew, against the same columns.
const JUDGED_MAX: usize = 2000;

impl Versions {
    /// Over the tables that were planned for a pipeline's own schema, and its listed versions.
    #[must_use]
    pub fn new(pipeline: &Pipeline, own: Own, tables: Tables) -> Self {
        let reading = Arc::new(Reading::new(own.reader.clone(), tables, Vec::new()));
        let judged = HashMap::from([(own.schema.digest(), Ok(Arc::clone(&reading)))]);
        let listed = own.listed();
        let known = told(reading.reader.describe(), listed.iter());
        let mut versions = Self { all: United::of(&reading), reading, judged, listed, known, own };
        for (_, version) in versions.own.versions.clone() {
            // What can't be read is nobody's fault as long as nothing is written with it.
            drop(versions.judge(pipeline, &version));
        }
        versions
    }

    /// What records of the pipeline's own schema are read as.
    #[must_use]
    pub const fn own(&self) -> &Arc<Reading> {
        &self.reading
    }

    /// Why records of listed versions are not read, by the versions' numbers, where they are not.
    #[must_use]
    pub fn refused(&self) -> Vec<(u32, &Rejected)> {
        let verdict = |(number, version): &(u32, Schema)| match self.judged.get(&version.digest()) {
            Some(Err(rejected)) => Some((*number, rejected)),
            _ => None,
        };
        self.own.versions.iter().filter_map(verdict).collect()
    }

    /// Fields of listed versions that are in no column, for a column of their name is declared of something else: by the versions' numbers,
    /// where there are some.
    #[must_use]
    pub fn replaced(&self) -> Vec<(u32, &[String])> {
        let fields = |(number, version): &(u32, Schema)| match self.judged.get(&version.digest()) {
            Some(Ok(reading)) if !reading.replaced.is_empty() => Some((*number, reading.replaced.as_slice())),
            _ => None,
        };
        self.own.versions.iter().filter_map(fields).collect()
    }

    /// Whether a version has its verdict.
    #[must_use]
    pub fn is_judged(&self, version: &Schema) -> bool {
        self.judged.contains_key(&version.digest())
    }

    /// What the records of a version are read as. It is judged against the versions before it, once.
    ///
    /// # Errors
    /// `incompatible_schema` where its fields can't be columns, beside those of the versions before it or at all: a name that is taken,
    /// a type that has to be declared. Its records can't be rows then, and the others' go on as before.
    pub fn judge(&mut self, pipeline: &Pipeline, version: &Schema) -> Result<Arc<Reading>, Rejected> {
        let digest = version.digest();
        if let Some(known) = self.judged.get(&digest) {
            return known.clone();
        }
        let verdict = self.reading_of(pipeline, version).and_then(|reading| {
            self.all.add(&reading)?;
            Ok(reading)
        });
        if self.judged.len() >= JUDGED_MAX {
            self.judged.clear();
        }
        self.judged.insert(digest, verdict.clone());
        verdict
    }

    /// Names columns as they are named among those of all versions that are read, whichever of these came first.
    pub fn name(&self, united: &mut United) {
        let all = &self.all.tables.columns.columns;
        let of = |column: &Column, former: &BTreeMap<String, Vec<String>>| {
            let were = former.get(&column.source);
            all.iter().find(|other| other.source == column.source).or_else(|| {
                let is_it = |other: &&Column| {
                    were.is_some_and(|all| all.contains(&other.source))
                        || self.all.former.get(&other.source).is_some_and(|all| all.contains(&column.source))
                };
                all.iter().find(is_it)
            })
        };
        let former = std::mem::take(&mut united.former);
        let tables = std::iter::once(&mut united.tables.columns).chain(united.tables.differing.values_mut());
        for column in tables.flat_map(|columns| &mut columns.columns) {
            let Some(named) = of(column, &former) else { continue };
            column.name.clone_from(&named.name);
            column.source.clone_from(&named.source);
            column.source_name.clone_from(&named.source_name);
            if let Some(former) = self.all.former.get(&named.source) {
                united.former.insert(named.source.clone(), former.clone());
            }
        }
    }

    fn reading_of(&self, pipeline: &Pipeline, version: &Schema) -> Result<Arc<Reading>, Rejected> {
        let (told, case) = (self.own.telling(version), pipeline.table.column_case);
        let described = told.describe();
        let brought = match pipeline.table.unknown_fields {
            UnknownFields::Add => Brought::All,
            // What the file names is not unknown, whichever version has it.
            _ => Brought::Only(only_of(&described, &self.known, pipeline)),
        };
        let mut reader = match self.reading.reader.united(&told, case, &brought) {
            Some(reader) => reader,
            // What it calls a field may be what the file leaves out.
            None if self.known.clone().learn(&described, case) => self.reading.reader.clone(),
            None => return Ok(Arc::clone(&self.reading)),
        };
        let plan = |reader: &Reader| {
            let told = Told { reader, listed: &self.listed, own: &self.known, version: described.clone() };
            plan_tables(&told, pipeline).map_err(|faults| {
                let faults: Vec<String> = faults.iter().map(Fault::to_string).collect();
                incompatible(format!("its schema has fields that can't be columns: {}", faults.join("; ")))
            })
        };
        let mut tables = plan(&reader)?;
        let (replaced, names) = self.replaced_of(&reader, &tables.columns)?;
        if !replaced.is_empty() {
            reader = reader.without(&replaced);
            tables = plan(&reader)?;
        }
        if let Some(reason) = reader.unlike(version, &tables.columns) {
            return Err(incompatible(format!("its schema can't be read as the pipeline's: {reason}")));
        }
        Ok(Arc::new(Reading::new(reader, tables, names)))
    }

    /// The fields that a declared column takes the place of and that the pipeline's own schema has not: as sources name them, and by
    /// their names. Of its own fields the file says by the declaration that they are to be in no column.
    ///
    /// # Errors
    /// `incompatible_schema` where one is a column by the name that the pipeline's own schema has for it.
    fn replaced_of(&self, reader: &Reader, columns: &Columns) -> Result<(Vec<String>, Vec<String>), Rejected> {
        let read = reader.describe();
        let (mut ids, mut names) = (Vec::new(), Vec::new());
        for field in read.record(ROOT).fields.iter().filter(|field| columns.replaced.contains(&field.id)) {
            let is_it = |own: &&source::Field| {
                own.id == field.id || own.former.contains(&field.id) || field.former.contains(&own.id)
            };
            match self.known.record(ROOT).fields.iter().find(is_it) {
                None => {
                    ids.push(field.id.clone());
                    names.push(field.name.clone());
                }
                Some(own) if !self.reading.tables.columns.replaced.contains(&own.id) && own.name != field.name => {
                    return Err(incompatible(format!(
                        "its schema calls the field `{}` `{}`, and a column of that name is declared of something else",
                        own.name, field.name
                    )));
                }
                Some(_) => {}
            }
        }
        Ok((ids, names))
    }
}

fn incompatible(message: String) -> Rejected {
    Rejected { class: Class::IncompatibleSchema, path: String::new(), message }
}

/// The columns of several versions together, those of the pipeline's own schema first.
#[derive(Clone, Debug, PartialEq)]
pub struct United {
    /// A column has the name under which it came first, and the source of the latest name of its field.
    pub tables: Tables,
    /// The other sources that a table may know a column by, for each source that has such: [`former_sources`].
    pub former: BTreeMap<String, Vec<String>>,
}

impl United {
    /// Those of one version.
    #[must_use]
    pub fn of(reading: &Reading) -> Self {
        Self { tables: reading.tables.clone(), former: reading.former.clone() }
    }

    /// Takes in the columns of another version: behind those that there are, whose types become those that hold both.
    ///
    /// # Errors
    /// `incompatible_schema` where one can't be a column of both. Nothing has changed then.
    pub fn add(&mut self, reading: &Reading) -> Result<(), Rejected> {
        let mut united = self.clone();
        let places = united.places(reading);
        join(&mut united.tables.columns, &reading.tables.columns, &places, &self.former).map_err(incompatible)?;
        for (name, columns) in &reading.tables.differing {
            let Some(ours) = united.tables.differing.get_mut(name) else { continue };
            join(ours, columns, &places, &self.former).map_err(incompatible)?;
        }
        for (column, place) in reading.tables.columns.columns.iter().zip(&places) {
            let theirs = reading.former.get(&column.source).into_iter().flatten();
            let before = place.and_then(|place| self.tables.columns.columns.get(place)).map(|before| &before.source);
            let ours = before.and_then(|source| self.former.get(source)).into_iter().flatten();
            let names: Vec<String> = theirs.chain(before).chain(ours).chain([&column.source]).cloned().collect();
            let now =
                place.and_then(|place| united.tables.columns.columns.get(place)).map_or(&column.source, |c| &c.source);
            let former = united.former.entry(now.clone()).or_default();
            for name in names {
                if name != *now && !former.contains(&name) {
                    former.push(name);
                }
            }
        }
        united.former.retain(|source, former| {
            !former.is_empty() && united.tables.columns.columns.iter().any(|column| column.source == *source)
        });
        *self = united;
        Ok(())
    }

    /// How the batches of a version's records stand in these columns of a table.
    #[must_use]
    pub fn arrangement(&self, reading: &Reading, table: &str) -> Arrangement {
        let (columns, theirs) = (self.tables.of(table), &reading.tables.columns.columns);
        let is_decoded = |column: &Column| column.is_of_payload() || column.is_rest();
        let places = self.places(reading);
        let mut from: BTreeMap<usize, usize> = BTreeMap::new();
        for (decoded, (_, place)) in theirs.iter().zip(&places).filter(|(column, _)| is_decoded(column)).enumerate() {
            from.extend(place.map(|place| (place, decoded)));
        }
        let decoded = columns.columns.iter().enumerate().filter(|(_, column)| is_decoded(column));
        Arrangement::new(decoded.map(|(place, column)| (column, from.get(&place).copied())))
    }

    /// For each column of a version its place among these. Where a field was called otherwise they may be told by that; but only those
    /// that nothing else is the same as.
    fn places(&self, reading: &Reading) -> Vec<Option<usize>> {
        let (ours, theirs) = (&self.tables.columns.columns, &reading.tables.columns.columns);
        let by_source: HashMap<&str, usize> = ours.iter().map(|column| column.source.as_str()).zip(0..).collect();
        let mut places: Vec<Option<usize>> =
            theirs.iter().map(|column| by_source.get(column.source.as_str()).copied()).collect();
        for (column, place) in theirs.iter().zip(0..) {
            if places.get(place) != Some(&None) {
                continue;
            }
            let was = |former: Option<&Vec<String>>, source: &String| former.is_some_and(|all| all.contains(source));
            let is_it = |other: &Column| {
                was(reading.former.get(&column.source), &other.source)
                    || was(self.former.get(&other.source), &column.source)
                    || is_respelled(other, column, self.tables.columns.column_case)
            };
            let found = ours.iter().enumerate().find(|(at, other)| !places.contains(&Some(*at)) && is_it(other));
            if let (Some((at, _)), Some(place)) = (found, places.get_mut(place)) {
                *place = Some(at);
            }
        }
        places
    }
}

/// Takes a version's columns into those of a table, whose places are known.
fn join(
    ours: &mut Columns,
    theirs: &Columns,
    places: &[Option<usize>],
    former: &BTreeMap<String, Vec<String>>,
) -> Result<(), String> {
    for (column, place) in theirs.columns.iter().zip(places) {
        let Some(known) = place.and_then(|place| ours.columns.get_mut(place)) else {
            // Rows of other versions have no value for it; where it is required, they are none.
            ours.columns.push(column.clone());
            continue;
        };
        known.data_type = joined(&known.data_type, &column.data_type).ok_or_else(|| {
            format!(
                "column `{}` is {} in its schema, and {} in another version, which was judged before it",
                column.name, column.data_type, known.data_type
            )
        })?;
        // The name that it has now, unless it is one that it had before. Of two spellings neither is the newer: the first stays.
        let is_older = former.get(&known.source).is_some_and(|former| former.contains(&column.source))
            || is_respelled(known, column, theirs.column_case);
        if !is_older {
            known.source.clone_from(&column.source);
            known.source_name.clone_from(&column.source_name);
        }
    }
    match clashes(ours).into_iter().next() {
        Some((_, clash)) => Err(format!("its columns can't be beside those of other versions: {clash}")),
        None => Ok(()),
    }
}

/// Whether two columns are of one name, and of a field that is but spelled otherwise.
fn is_respelled(one: &Column, other: &Column, case: ColumnCase) -> bool {
    one.name == other.name && one.source != other.source && fold(case, &one.source) == fold(case, &other.source)
}

/// The type that holds the values of both, where there is one.
fn joined(one: &Type, other: &Type) -> Option<Type> {
    Some(match (one, other) {
        (one, other) if one == other => one.clone(),
        (Type::Int, Type::Long) | (Type::Long, Type::Int) => Type::Long,
        (Type::Float, Type::Double) | (Type::Double, Type::Float) => Type::Double,
        (Type::Decimal(digits, scale), Type::Decimal(others, same)) if scale == same => {
            Type::Decimal(*digits.max(others), *scale)
        }
        (Type::Struct(fields), Type::Struct(others)) => {
            let mut fields: Vec<Field> = fields.clone();
            for field in &mut fields {
                match others.iter().find(|other| other.name == field.name) {
                    Some(other) => {
                        field.data_type = joined(&field.data_type, &other.data_type)?;
                        field.required &= other.required;
                    }
                    None => field.required = false,
                }
            }
            let new = others.iter().filter(|other| one_of(one, &other.name).is_none());
            fields.extend(new.map(|field| Field { required: false, ..field.clone() }));
            Type::Struct(fields)
        }
        (Type::List { element, required }, Type::List { element: other, required: also }) => {
            Type::List { element: Box::new(joined(element, other)?), required: *required && *also }
        }
        (Type::Map { key, value, required }, Type::Map { key: same, value: other, required: also }) if key == same => {
            Type::Map { key: key.clone(), value: Box::new(joined(value, other)?), required: *required && *also }
        }
        _ => return None,
    })
}

fn one_of<'t>(of: &'t Type, name: &str) -> Option<&'t Field> {
    let Type::Struct(fields) = of else { return None };
    fields.iter().find(|field| field.name == name)
}

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use pipeline::expectation::{Expectations, Literal};
use pipeline::resolved::{
    self, ColumnCase, ColumnDeclaration, Fields, From, MARK_COLUMNS, Mode, Pii, RECORD_COLUMNS, RecordField, Table,
    Transform, Types, UnknownFields, Value,
};
use pipeline::types::Type;
use pipeline::{partition, path};

use super::defaults::{Defaults, Excluded, FIELDS_MAX, segments};
use super::{
    About, Column, Columns, Fault, Field, Filter, HEADER, KEY, NAMED, REST, REST_SOURCE, TREATED, VALUE, Withheld,
};
use crate::naming;
use crate::source::{self, At, Comparable, Described, Kind, ROOT, Schema, Single};

/// The type of a column that the table is laid out by: a column, a field within one, or a record column.
///
/// # Errors
/// That there is none, with the nearest.
fn layout_column<'c>(table: &Table, columns: &'c Columns, path: &str) -> Result<&'c Type, String> {
    let record = if table.record_columns { &RECORD_COLUMNS[..] } else { &[] };
    if let Some((_, data_type, _)) = record.iter().find(|(name, ..)| *name == path) {
        return Ok(data_type);
    }
    // A column's own name may have dots in it; the longest that fits is meant.
    let top = columns.columns.iter().filter(|c| within(path, &c.name).is_some()).max_by_key(|c| c.name.len());
    let missing = || {
        let names = columns.columns.iter().map(|c| c.name.as_str()).chain(record.iter().map(|(name, ..)| *name));
        let hint = naming::nearest(path, names).map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
        format!("there is no column `{path}`{hint}")
    };
    let top = top.ok_or_else(missing)?;
    let (mut data_type, mut rest) = (&top.data_type, within(path, &top.name).unwrap_or_default());
    while !rest.is_empty() {
        let Type::Struct(fields) = data_type else { return Err(missing()) };
        let field = fields.iter().filter(|f| within(rest, &f.name).is_some()).max_by_key(|f| f.name.len());
        let field = field.ok_or_else(missing)?;
        (data_type, rest) = (&field.data_type, within(rest, &field.name).unwrap_or_default());
    }
    Ok(data_type)
}

const fn fault(place: String, message: String) -> Fault {
    Fault { place, message, about: About::Message }
}

/// What follows a name and its dot at the beginning of a path; nothing when the name is all of it.
fn within<'p>(path: &'p str, name: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(name)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('.').filter(|rest| !rest.is_empty()) }
}

/// Decides a table's columns.
///
/// Under `fields = "all"` every field of the payload's record is a column, in the order of its declaration, but for
/// - the excluded ones,
/// - those that a declared column is made from, even in part: with `team = "team.name"` there is no struct `team` any
///   more, and its other fields are in the table only if they are declared too,
/// - those whose name a declared column takes.
///
/// Declared columns stand where the field that they are made from stands, columns of the record itself at the end.
/// Under `fields = "listed"` there are the declared columns only, in their order.
///
/// A declared column without a type has its source's default; a record inside itself becomes JSON text. Names are
/// matched exactly, or else as `column_case` spells them. Excluded paths lead through lists as if they weren't there,
/// and through maps by way of `value`.
///
/// # Errors
/// Every fault of the block, not just the first.
pub fn plan<S: Described + ?Sized>(source: &S, table: &Table) -> Result<Columns, Vec<Fault>> {
    plan_of(source.describe(), &|columns| source.misfits(columns), None, table, &laid_out_by([table]))
}

/// Decides a table's columns, and what else the pipeline file asks of payloads: [`plan`] with the `[value]` block.
///
/// # Errors
/// Every fault of both blocks.
pub fn plan_records<S: Described + ?Sized>(source: &S, value: &Value, table: &Table) -> Result<Columns, Vec<Fault>> {
    plan_among(source, value, table, &laid_out_by([table]))
}

/// [`plan_records`] of one of several tables, which are laid out by these columns: all have the same, under the same names.
pub(super) fn plan_among<S: Described + ?Sized>(
    source: &S,
    value: &Value,
    table: &Table,
    laid_out_by: &BTreeSet<&str>,
) -> Result<Columns, Vec<Fault>> {
    plan_of(source.describe(), &|columns| source.misfits(columns), Some(value), table, laid_out_by)
}

/// The columns, or fields within columns, that settings of tables name without saying what they are made of.
pub(super) fn laid_out_by<'t>(tables: impl IntoIterator<Item = &'t Table>) -> BTreeSet<&'t str> {
    let mut names = BTreeSet::new();
    for table in tables {
        names.extend(table.primary_key.iter().map(String::as_str));
        names.extend(table.partition_by.iter().map(|field| field.column.as_str()));
        names.extend(table.sort_by.iter().map(|field| field.column.as_str()));
        names.extend(table.dedup_within.iter().map(|within| within.column.as_str()));
        names.extend(table.upsert.iter().flat_map(|upsert| &upsert.order_by).map(String::as_str));
    }
    names
}

/// The columns of a table that a source can't fill: the index of each, and why.
type Misfits<'a> = &'a dyn Fn(&Columns) -> Vec<(usize, String)>;

/// A schema with the names that its versions have for its fields, where these are but spelled otherwise, too.
pub(super) fn spelled(mut source: Schema, case: ColumnCase) -> Schema {
    source.learn_all(case);
    source
}

fn plan_of(
    source: Schema,
    misfits: Misfits<'_>,
    value: Option<&Value>,
    table: &Table,
    laid_out_by: &BTreeSet<&str>,
) -> Result<Columns, Vec<Fault>> {
    let defaults = Defaults::new(table.column_case, table.types, table.excluded_fields());
    let rest = source.rest;
    let source = spelled(source, table.column_case);
    let mut planner = Planner::new(source, table, laid_out_by, defaults);
    planner.rename_exclusions();
    // A filter is about records: it doesn't lead into what becomes of them.
    let filter = value.and_then(|value| value.filter.as_ref()).and_then(|filter| planner.filter(filter));
    planner.exploded = value.and_then(|value| value.explode.as_ref()).and_then(|path| planner.exploded(path));
    let explode = planner.exploded.as_ref().map(|path| planner.source_of(path));
    let mut columns = Columns { filter, explode, ..planner.columns() };
    if table.unknown_fields == UnknownFields::Rest {
        columns.columns.push(self::rest(rest));
        columns.withheld = planner.withheld();
    }
    planner.check_defaults();
    planner.check_exclusions(&columns);
    planner.check_personal(&columns);
    planner.check_names(&columns);
    planner.tell_apart(&mut columns);
    planner.check_types(&columns, misfits);
    planner.check_layout(&columns);
    planner.event_time(&mut columns);
    if planner.defaults.fields > FIELDS_MAX {
        planner.fault(
            "table",
            format!(
                "the {} has more than {FIELDS_MAX} fields, nested ones included; list or exclude some",
                planner.source.noun
            ),
        );
    }
    if columns.columns.is_empty() && planner.faults.is_empty() && !table.record_columns {
        planner.fault("table", "no column is left".to_owned());
    }
    if planner.faults.is_empty() { Ok(columns) } else { Err(planner.faults) }
}

/// A field whose values are plain text: a string, an enum's names, a whole number's digits, `true` and `false`.
///
/// # Errors
/// What is wrong with the path, or with the field.
pub(super) fn plain_field(source: Schema, table: &Table, path: &[String]) -> Result<Plain, String> {
    let defaults = Defaults::new(table.column_case, table.types, []);
    let none = BTreeSet::new();
    let planner = Planner::new(spelled(source, table.column_case), table, &none, defaults);
    let (fields, _) = planner.meant(path)?;
    let source_name = path::text(&planner.source.names(&fields));
    if planner.comparable(&fields).is_none() {
        return Err(format!("`{source_name}` is not a string, an enum, a whole number or a boolean"));
    }
    // It, what it is in, or a part of it.
    let is_of = |other: &[String]| {
        planner.resolve(other).is_ok_and(|(other, _)| other.starts_with(&fields) || fields.starts_with(&other))
    };
    let of = |declaration: &&ColumnDeclaration| match &declaration.from {
        From::Path(path) => is_of(path),
        _ => false,
    };
    let is_personal = table.columns.iter().filter(of).any(|declaration| declaration.pii.is_some());
    Ok(Plain { field: Field { source: planner.source_of(&fields), source_name }, is_personal })
}

/// The fields of a version that columns are declared of and that the pipeline's own schema lacks, as paths of what they are found by.
pub(super) fn only_of(version: &Schema, own: &Schema, pipeline: &resolved::Pipeline) -> Vec<Vec<String>> {
    let (none, mut found) = (BTreeSet::new(), Vec::new());
    for table in std::iter::once(&pipeline.table).chain(pipeline.tables.values()) {
        // Every version of every start is asked.
        if !table.columns.iter().any(|declaration| matches!(declaration.from, From::Path(_))) {
            continue;
        }
        let planner = |schema: &Schema| {
            let defaults = Defaults::new(table.column_case, table.types, []);
            Planner::new(spelled(schema.clone(), table.column_case), table, &none, defaults)
        };
        let (own, version) = (planner(own), planner(version));
        for declaration in &table.columns {
            let From::Path(path) = &declaration.from else { continue };
            if own.resolve(path).is_err()
                && let Ok((fields, _)) = version.resolve(path)
            {
                found.push(fields.iter().map(|at| version.source.field(*at).id.clone()).collect());
            }
        }
    }
    found
}

/// See [`plain_field`].
pub(super) struct Plain {
    pub(super) field: Field,
    /// Whether the pipeline file says that its values are personal data.
    pub(super) is_personal: bool,
}

struct Planner<'a> {
    source: Schema,
    table: &'a Table,
    /// What this and other tables are laid out by.
    laid_out_by: &'a BTreeSet<&'a str>,
    /// The way to the repeated field of which each element becomes a row.
    exploded: Option<Vec<At>>,
    defaults: Defaults,
    /// Columns that are missing for reasons that were given.
    unplanned: BTreeSet<String>,
    /// What [`Columns`] says of these.
    absent: Vec<String>,
    replaced: Vec<String>,
    faults: Vec<Fault>,
}

impl<'a> Planner<'a> {
    const fn new(source: Schema, table: &'a Table, laid_out_by: &'a BTreeSet<&'a str>, defaults: Defaults) -> Self {
        Self {
            source,
            table,
            laid_out_by,
            exploded: None,
            defaults,
            unplanned: BTreeSet::new(),
            absent: Vec::new(),
            replaced: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn fault(&mut self, place: impl Into<String>, message: String) {
        self.faults.push(fault(place.into(), message));
    }

    /// What a declaration says is wrong by itself.
    fn misdeclared(&mut self, place: &str, message: String) {
        self.faults.push(Fault { place: place.to_owned(), message, about: About::Declaration });
    }

    /// A column that the table is to be laid out by is not there.
    fn missing(&mut self, place: impl Into<String>, column: &str, message: String) {
        if !self.unplanned.iter().any(|name| within(column, name).is_some()) {
            self.faults.push(Fault { place: place.into(), message, about: About::Missing(column.to_owned()) });
        }
    }

    fn columns(&mut self) -> Columns {
        let table = self.table;
        // By the field of the payload's record that they are made from; none for the record's own.
        let mut declared: BTreeMap<Option<usize>, Vec<Column>> = BTreeMap::new();
        let mut listed = Vec::new();
        let (others, here): (Vec<_>, Vec<_>) =
            table.columns.iter().partition(|declaration| self.is_of_another(declaration));
        for declaration in others {
            let From::Path(path) = &declaration.from else { continue };
            if declaration.required {
                self.absent.push(path::text(path));
            }
            // What is around it in other versions is no column there, so it is none here.
            if let [first, _, ..] = path.as_slice()
                && declaration.pii != Some(Pii::Drop)
                && let Ok(at) = self.find(ROOT, first)
            {
                declared.entry(Some(at.field)).or_default();
            }
        }
        let (dropped, kept): (Vec<_>, Vec<_>) =
            here.into_iter().partition(|declaration| declaration.pii == Some(Pii::Drop));
        for declaration in dropped {
            self.drop(declaration);
        }
        for declaration in kept {
            let Some((field, column)) = self.declared(declaration) else {
                self.unplanned.insert(declaration.name.clone());
                continue;
            };
            match table.fields {
                Fields::All => declared.entry(field).or_default().push(column),
                Fields::Listed => listed.push(column),
            }
        }
        if table.fields == Fields::All
            && let Some((first, column)) = self.exploded_column()
        {
            declared.entry(Some(first)).or_default().push(column);
        }
        if table.fields == Fields::All {
            for at in self.source.fields(ROOT) {
                match declared.remove(&Some(at.field)) {
                    Some(columns) => {
                        // Met, though not needed: the field would not have been a column anyway.
                        self.defaults.excludes(&[self.source.field(at).name.clone()]);
                        listed.extend(columns);
                    }
                    None => listed.extend(self.default(at)),
                }
            }
            listed.extend(declared.into_values().flatten());
        }
        Columns {
            columns: listed,
            column_case: table.column_case,
            unknown_fields: table.unknown_fields,
            filter: None,
            explode: None,
            withheld: Withheld::default(),
            absent: std::mem::take(&mut self.absent),
            replaced: std::mem::take(&mut self.replaced),
        }
    }

    /// The paths to what the file leaves out or says is personal, by all names that known versions have for them.
    fn withheld(&self) -> Withheld {
        let excluded = self.table.excluded_fields().map(|(_, text)| segments(text)).collect::<Vec<_>>();
        let personal = self.table.columns.iter().filter(|column| column.pii.is_some());
        let personal = personal.filter_map(|column| match &column.from {
            From::Path(path) => Some(path.as_slice()),
            _ => None,
        });
        let versions: Vec<&Schema> = std::iter::once(&self.source).chain(&self.source.versions).collect();
        let written = excluded.iter().map(Vec::as_slice).chain(personal);
        Withheld::new(self.table.column_case, written).learned(&versions)
    }

    /// The repeated field of which each element becomes a row, with the fields that lead to it.
    fn exploded(&mut self, path: &[String]) -> Option<Vec<At>> {
        const PLACE: &str = "value.explode";
        match self.meant(path) {
            Ok((fields, _)) if fields.last().is_some_and(|at| self.source.field(*at).value.is_list()) => Some(fields),
            Ok(_) => {
                self.fault(
                    PLACE,
                    format!("`{}` is not repeated: each element of a list becomes a row", path.join(".")),
                );
                None
            }
            Err(message) => {
                self.fault(PLACE, message);
                None
            }
        }
    }

    /// Whether these fields lead to what is exploded.
    fn is_exploded(&self, fields: &[At]) -> bool {
        self.exploded.as_ref().is_some_and(|exploded| exploded == fields)
    }

    /// The default type of the last of some fields: of what is exploded, an element's.
    fn type_of(&mut self, fields: &[At], names: &[String], around: &[usize]) -> Option<Type> {
        match self.defaults.of(&self.source, *fields.last()?, names, around)? {
            Type::List { element, .. } if self.is_exploded(fields) => Some(*element),
            other => Some(other),
        }
    }

    /// The column of an element deep in the message that nothing is said about, and the message's field that it is in: as
    /// the fields around those that are declared, what is around it is no column. At the top it is a default like others.
    fn exploded_column(&mut self) -> Option<(usize, Column)> {
        let exploded = self.exploded.clone().filter(|fields| fields.len() > 1)?;
        let within = |declaration: &&ColumnDeclaration| match &declaration.from {
            From::Path(path) => self.resolve(path).is_ok_and(|(fields, _)| fields.starts_with(&exploded)),
            _ => false,
        };
        if self.table.columns.iter().any(|declaration| within(&declaration)) {
            return None;
        }
        let path = self.source.names(&exploded);
        let (_, around) = self.resolve(&path).ok()?;
        if self.defaults.excludes(&path) {
            return None;
        }
        let data_type = self.type_of(&exploded, &path, &around)?;
        let last = self.source.field(*exploded.last()?);
        let column = Column {
            name: naming::fold(self.table.column_case, &last.name),
            source: self.source_of(&exploded),
            source_name: path::text(&path),
            data_type,
            unit: None,
            required: false,
            doc: last.doc.clone(),
            expect: Expectations::default(),
            pii: None,
        };
        Some((exploded.first()?.field, column))
    }

    /// What the values of the last of some fields are compared with.
    fn comparable(&self, fields: &[At]) -> Option<&Comparable> {
        match &self.source.field(*fields.last()?).value.kind {
            Kind::Single(Single { comparable, .. }) => comparable.as_ref(),
            _ => None,
        }
    }

    /// What stands in sources for a path.
    fn source_of(&self, path: &[At]) -> String {
        format!("{VALUE}{}", self.source.ids(path))
    }

    /// What the column of a field is called that nothing is said about: as the field, unless what the table is laid out by has a name
    /// that the field had before, and no other has now. The table has it under that name.
    fn column_name(&self, at: At) -> String {
        let (case, field) = (self.table.column_case, self.source.field(at));
        let is_named = |name: &String| {
            let others = self.source.fields(ROOT).filter(|other| *other != at).map(|other| self.source.field(other));
            self.laid_out_by.iter().any(|path| within(path, name).is_some())
                && !self.table.columns.iter().any(|declaration| declaration.name == *name)
                && others
                    .flat_map(|other| std::iter::once(&other.name).chain(&other.former).chain(&other.names))
                    .all(|other| naming::fold(case, other) != *name)
        };
        let own = naming::fold(case, &field.name);
        let before = field.former.iter().chain(&field.names).map(|name| naming::fold(case, name));
        match self.laid_out_by.iter().any(|path| within(path, &own).is_some()) {
            true => own,
            false => before.into_iter().find(is_named).unwrap_or(own),
        }
    }

    /// The column of a field that nothing is said about.
    fn default(&mut self, at: At) -> Option<Column> {
        let field = self.source.field(at);
        let (path, doc) = ([field.name.clone()], field.doc.clone());
        let name = self.column_name(at);
        if self.defaults.excludes(&path) {
            return None;
        }
        let declared = |declaration: &ColumnDeclaration| declaration.name == name && declaration.pii != Some(Pii::Drop);
        if self.table.columns.iter().any(declared) {
            self.replaced.push(field.id.clone());
            return None;
        }
        if let Some(reason) = naming::reserved(&name) {
            let message = format!(
                "the field `{}` can't be a column of that name: {reason}; rename it in table.columns or exclude it",
                path.concat()
            );
            self.fault("table", message);
            self.unplanned.insert(name);
            return None;
        }
        let data_type = self.type_of(&[at], &path, &[ROOT])?;
        Some(Column {
            name,
            source: self.source_of(&[at]),
            source_name: path::text(&path),
            data_type,
            unit: None,
            required: false,
            doc,
            expect: Expectations::default(),
            pii: None,
        })
    }

    /// A declared column and the field of the payload's record that it is made from.
    fn declared(&mut self, declaration: &ColumnDeclaration) -> Option<(Option<usize>, Column)> {
        let place = format!("table.columns.{}", declaration.name);
        let before = self.faults.len();
        self.check_name(declaration, &place);
        let (field, source, source_name, data_type) = match &declaration.from {
            From::Record(field) => {
                let (name, data_type) = record_field(*field);
                match &declaration.data_type {
                    Some(other) if *other != data_type => {
                        self.fault(&place, format!("`{name}` can't be {other}: it can be {data_type}"));
                        return None;
                    }
                    _ => (None, name.to_owned(), name.to_owned(), data_type),
                }
            }
            From::Key | From::Header(_) => {
                let source = match &declaration.from {
                    From::Header(name) => format!("{HEADER}{name}"),
                    _ => KEY.to_owned(),
                };
                let default = if declaration.pii.is_some() { Type::String } else { Type::Binary };
                let data_type = declaration.data_type.clone().unwrap_or(default);
                if !matches!(data_type, Type::Binary | Type::String) {
                    self.misdeclared(&place, format!("`{source}` can't be {data_type}: it can be binary, string"));
                    return None;
                }
                for (_, message) in declaration.expect.misfits(&data_type) {
                    self.misdeclared(&place, message);
                }
                (None, source.clone(), source, data_type)
            }
            From::KeyField(path) => {
                let source = format!("{KEY}.{}", path::text(path));
                // The key's own schema has decided it, or nothing could be decided.
                (None, source.clone(), source, declaration.data_type.clone()?)
            }
            From::Path(path) => {
                let (fields, around) = match self.meant(path) {
                    Ok(found) => found,
                    Err(message) => {
                        self.fault(&place, message);
                        return None;
                    }
                };
                let names = self.source.names(&fields);
                if self.defaults.forbids(&names) {
                    self.fault(&place, format!("`{}` is excluded and declared at the same time", names.join(".")));
                }
                let first = fields.first()?;
                let undecided = self.defaults.undecided.len();
                let data_type = match &declaration.data_type {
                    Some(data_type) => data_type.clone(),
                    // What is left of personal data is text.
                    None if declaration.pii.is_some() => Type::String,
                    None => match self.type_of(&fields, &names, &around) {
                        Some(data_type) => data_type,
                        None if self.defaults.undecided.len() > undecided => {
                            let (_, reason) = self.defaults.undecided.pop()?;
                            self.fault(&place, reason);
                            return None;
                        }
                        None => {
                            self.fault(&place, "every field in it is excluded".to_owned());
                            return None;
                        }
                    },
                };
                (Some(first.field), self.source_of(&fields), path::text(&names), data_type)
            }
        };
        if declaration.pii.is_some() && data_type != Type::String {
            self.misdeclared(&place, format!("what is left of personal data is a string, not {data_type}"));
        }
        let source = match declaration.pii {
            Some(Pii::Hash) => format!("{source}{TREATED}hash"),
            Some(Pii::Last4) => format!("{source}{TREATED}last4"),
            _ => source,
        };
        if self.table.types == Types::Portable
            && let Some(foreign) = unportable(&data_type)
        {
            let message =
                format!("Athena doesn't read {foreign}; `types = \"iceberg\"` allows it where that doesn't matter");
            self.misdeclared(&place, message);
        }
        (self.faults.len() == before).then(|| {
            let column = Column {
                name: declaration.name.clone(),
                source,
                source_name,
                data_type,
                unit: declaration.unit,
                required: declaration.required,
                doc: declaration.doc.clone(),
                expect: declaration.expect.clone(),
                pii: declaration.pii,
            };
            (field, column)
        })
    }

    /// Whether a column is declared of a field that this version of the schema lacks, and another one has: there it is a column.
    fn is_of_another(&self, declaration: &ColumnDeclaration) -> bool {
        let From::Path(path) = &declaration.from else { return false };
        self.resolve(path).is_err()
            && self.source.versions.iter().any(|version| {
                let (none, table) = (BTreeSet::new(), self.table);
                let defaults = Defaults::new(table.column_case, table.types, []);
                Planner::new(version.clone(), table, &none, defaults).resolve(path).is_ok()
            })
    }

    /// Leaves out the source of a column that is dropped.
    fn drop(&mut self, declaration: &ColumnDeclaration) {
        let place = format!("table.columns.{}", declaration.name);
        let From::Path(path) = &declaration.from else {
            return self.misdeclared(&place, "only a field of the value can be dropped".to_owned());
        };
        match self.resolve(path) {
            Ok((fields, _)) => {
                let path = self.source.names(&fields);
                self.defaults.excluded.push(Excluded { path, applied: false, place, is_personal: false });
            }
            Err(message) => self.fault(place, message),
        }
    }

    /// No column holds as it is what another column keeps of personal data, nor a part of it.
    fn check_personal(&mut self, columns: &Columns) {
        let table = self.table;
        let personal = table.columns.iter().filter(|declaration| declaration.pii.is_some());
        let mut faults = Vec::new();
        let holds = |name: &str, of: &str| {
            let message = format!("it holds what `pii` of the column `{of}` is to keep out of the table");
            // Where paths as they are written tell, the file's own reader says so as well.
            Fault { about: About::Declaration, ..fault(format!("table.columns.{name}"), message) }
        };
        for one in personal {
            if let From::Path(path) = &one.from
                && let Some(text) = self.text_around(columns, path)
            {
                faults.push(Fault { place: self.place(&text), ..holds(&text, &one.name) });
            }
            for other in table.columns.iter().filter(|other| other.pii.is_none()) {
                match (&other.from, &one.from) {
                    (From::Path(outer), From::Path(inner)) => {
                        let is_heir =
                            |path: &Vec<String>| self.found(outer).is_some_and(|outer| outer.starts_with(path));
                        if self.heirs(inner).iter().any(is_heir) {
                            let message = format!(
                                "another version of the {} has under this name what `{}` is made of, which is personal data: give it a \
                                 `pii`, too, or leave it out",
                                self.source.noun, one.name
                            );
                            faults.push(fault(format!("table.columns.{}", other.name), message));
                        }
                        let (Ok((outer, _)), Ok((inner, _))) = (self.resolve(outer), self.resolve(inner)) else {
                            continue;
                        };
                        // A default type leaves out what is dropped.
                        let whole =
                            one.pii != Some(Pii::Drop) || other.data_type.is_some() || outer.len() == inner.len();
                        if whole && inner.starts_with(&outer) || outer.len() > inner.len() && outer.starts_with(&inner)
                        {
                            faults.push(holds(&other.name, &one.name));
                        }
                    }
                    (From::Key, From::KeyField(_)) | (From::KeyField(_), From::Key) => {
                        faults.push(holds(&other.name, &one.name));
                    }
                    (outer, inner) if outer == inner => faults.push(holds(&other.name, &one.name)),
                    _ => {}
                }
            }
        }
        self.faults.append(&mut faults);
    }

    /// The column that has what a path leads into as text, with whatever another version of the schema has in it: where the path ends
    /// the pipeline's own schema has nothing.
    fn text_around(&self, columns: &Columns, path: &[String]) -> Option<String> {
        let (mut record, mut fields) = (ROOT, Vec::new());
        for segment in path {
            let Ok(at) = self.find(record, segment) else { break };
            fields.push(at);
            record = self.source.field(at).value.inside().unwrap_or(usize::MAX);
        }
        if fields.is_empty() || fields.len() == path.len() {
            return None;
        }
        let ids: Vec<&str> = fields.iter().map(|at| self.source.field(*at).id.as_str()).collect();
        let is_text = |column: &&Column| {
            let Some(made_of) = super::split(&column.source).and_then(|(path, _)| path::parse(path).ok()) else {
                return false;
            };
            let starts = made_of.len() <= ids.len() && made_of.iter().zip(&ids).all(|(one, other)| one == other);
            starts && column.pii.is_none() && self.ends_as_text(&column.data_type, fields.get(made_of.len()..))
        };
        columns.columns.iter().find(is_text).map(|column| column.name.clone())
    }

    /// Whether what a way leads to within a column is text there.
    fn ends_as_text(&self, mut data_type: &Type, way: Option<&[At]>) -> bool {
        let mut way = way.unwrap_or_default().iter();
        loop {
            match data_type {
                Type::List { element, .. } => data_type = element,
                Type::Map { value, .. } => match way.next() {
                    Some(_) => data_type = value,
                    None => return false,
                },
                Type::Struct(members) => {
                    let name = way.next().map(|at| naming::fold(self.table.column_case, &self.source.field(*at).name));
                    match members.iter().find(|member| Some(&member.name) == name.as_ref()) {
                        Some(member) => data_type = &member.data_type,
                        None => return false,
                    }
                }
                other => return matches!(other, Type::String | Type::Binary),
            }
        }
    }

    /// The filter on a field, its values as the texts that a column of strings would hold.
    fn filter(&mut self, filter: &resolved::Filter) -> Option<Filter> {
        const PLACE: &str = "value.filter";
        let fields = match self.meant(&filter.field) {
            Ok((fields, _)) => fields,
            Err(message) => {
                self.fault(PLACE, message);
                return None;
            }
        };
        let name = path::text(&self.source.names(&fields));
        let Some(comparable) = self.comparable(&fields).cloned() else {
            let message =
                format!("`{name}` can't be filtered by: that takes a string, an enum, a whole number or a boolean");
            self.fault(PLACE, message);
            return None;
        };
        let kind = match &comparable {
            Comparable::Text => "a string",
            Comparable::Enum(_) => "the name of one of its values",
            Comparable::Boolean => "true or false",
            Comparable::Whole => "a whole number",
        };
        let mut values = Vec::with_capacity(filter.one_of.len());
        for literal in &filter.one_of {
            match (literal, &comparable) {
                (Literal::Text(text), Comparable::Text) => values.push(text.clone()),
                (Literal::Text(text), Comparable::Enum(known)) => {
                    match known.names.iter().find(|(name, _)| name == text) {
                        Some((_, stored)) => values.push(stored.clone()),
                        None if known.numbers && text.parse::<i32>().is_ok() => values.push(text.clone()),
                        None => {
                            let hint = naming::nearest(text, known.names.iter().map(|(name, _)| name.as_str()))
                                .map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
                            self.fault(PLACE, format!("{} has no value `{text}`{hint}", known.name));
                        }
                    }
                }
                (Literal::Boolean(flag), Comparable::Boolean) => values.push(flag.to_string()),
                (Literal::Integer(number), Comparable::Whole) => values.push(number.to_string()),
                (other, _) => self.fault(PLACE, format!("a value of `{name}` is {kind}, not {other}")),
            }
        }
        Some(Filter { source: self.source_of(&fields), source_name: name, values })
    }

    fn check_name(&mut self, declaration: &ColumnDeclaration, place: &str) {
        let name = &declaration.name;
        let folded = naming::fold(self.table.column_case, name);
        if name.is_empty() {
            self.misdeclared(place, "a column has a name".to_owned());
        } else if let Some(reason) = naming::reserved(name) {
            self.misdeclared(place, format!("a column can't be called `{name}`: {reason}"));
        } else if folded != *name {
            let case = match self.table.column_case {
                ColumnCase::Lower => "lower",
                ColumnCase::Snake => "snake",
                ColumnCase::AsIs => "as-is",
            };
            self.misdeclared(place, format!("column_case is \"{case}\": write `{folded}`, or set it to \"as-is\""));
        }
    }

    /// [`Planner::resolve`], where no field could be meant that had one of the names before. By numbers two such fields are told apart
    /// for ever; by names what was made of the one is taken for the other's, unless the file says something of that one, too.
    fn meant(&self, path: &[String]) -> Result<(Vec<At>, Vec<usize>), String> {
        let (fields, records) = self.resolve(path)?;
        if fields.iter().any(|at| self.source.field(*at).id != self.source.field(*at).name) {
            return Ok((fields, records));
        }
        let own = self.source.names(&fields);
        let case = self.table.column_case;
        let was = matching(&self.source, path, |field, name| field.name == *name || field.was_spelled(case, name));
        let excluded = self.table.excluded_fields().filter_map(|(_, text)| self.found(&segments(text)));
        let declared = self.table.columns.iter().filter_map(|declaration| match &declaration.from {
            From::Path(path) => self.found(path),
            _ => None,
        });
        let said: Vec<Vec<String>> = excluded.chain(declared).collect();
        match was.into_iter().find(|other| *other != own && !said.iter().any(|path| other.starts_with(path))) {
            Some(other) => Err(format!(
                "`{0}` was `{1}` in another version of the {2}, and another field is called so now: declare or exclude `{0}`, too, so \
                 that the name means but one of them",
                path::text(&other),
                path::text(path),
                self.source.noun,
            )),
            None => Ok((fields, records)),
        }
    }

    /// The fields along a path, and the records that they lie in, the outermost first.
    fn resolve(&self, path: &[String]) -> Result<(Vec<At>, Vec<usize>), String> {
        let mut records = vec![ROOT];
        let mut fields: Vec<At> = Vec::with_capacity(path.len());
        for segment in path {
            if let Some(through) = fields.last() {
                let through = self.source.field(*through);
                match through.value.through(self.is_exploded(&fields)) {
                    Some(record) => records.push(record),
                    None => {
                        let noun = self.source.noun;
                        return Err(format!(
                            "a path leads through single {noun}s only, and `{}` isn't one",
                            through.name
                        ));
                    }
                }
            }
            fields.push(self.find(records.last().copied().unwrap_or(ROOT), segment)?);
        }
        if fields.is_empty() { Err("its source path is empty".to_owned()) } else { Ok((fields, records)) }
    }

    /// The field of a source name: exactly, or else as `column_case` spells it.
    fn find(&self, record: usize, name: &str) -> Result<At, String> {
        let named = |at: At| self.source.field(at).name.as_str();
        if let Some(at) = self.source.fields(record).find(|at| named(*at) == name) {
            return Ok(at);
        }
        // What a field was called means it as long as no other is called so.
        let mut former = self.source.fields(record).filter(|at| self.source.field(*at).was(name));
        if let (Some(at), None) = (former.next(), former.next()) {
            return Ok(at);
        }
        let (case, full_name) = (self.table.column_case, &self.source.record(record).name);
        let mut folded = self.source.fields(record).filter(|at| naming::fold(case, named(*at)) == name);
        match (folded.next(), folded.next()) {
            (Some(at), None) => Ok(at),
            (Some(one), Some(other)) => Err(format!(
                "`{name}` could be `{}` or `{}` of {full_name}: name one with `from`",
                named(one),
                named(other)
            )),
            (None, _) => {
                let mut spelled =
                    self.source.fields(record).filter(|at| self.source.field(*at).was_spelled(case, name));
                if let (Some(at), None) = (spelled.next(), spelled.next()) {
                    return Ok(at);
                }
                let hint = naming::nearest(name, self.source.fields(record).map(named))
                    .map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
                Err(format!("{full_name} has no field `{name}`{hint}"))
            }
        }
    }

    /// What is left out stays so under a name that it has got since, also where another field is called so now: of which of them
    /// the file speaks can't be told, and either may be what should stay private. So is what was treated as personal data.
    fn rename_exclusions(&mut self) {
        let mut excluded = std::mem::take(&mut self.defaults.excluded);
        let mut others = Vec::new();
        // Of what is declared itself the file says what becomes of it.
        let is_declared = |path: &Vec<String>| {
            let of = |from: &From| matches!(from, From::Path(written) if self.found(written).as_ref() == Some(path));
            self.table.columns.iter().any(|other| of(&other.from))
        };
        for excluded in &mut excluded {
            let (place, written) = (excluded.place.clone(), std::mem::take(&mut excluded.path));
            let all = self.ever_called(&written);
            let own = self.found(&written).or_else(|| all.first().cloned());
            if own.is_none() {
                others.extend(self.shut(&written).map(|path| (path, place.clone())));
            }
            let heirs = self.heirs(&written).into_iter().filter(|path| !is_declared(path));
            others.extend(heirs.map(|path| (path, place.clone())));
            others.extend(all.into_iter().filter(|path| Some(path) != own.as_ref()).map(|path| (path, place.clone())));
            excluded.path = own.unwrap_or(written);
        }
        for column in self.table.columns.iter().filter(|column| column.pii.is_some()) {
            let From::Path(written) = &column.from else { continue };
            let (own, place) = (self.found(written), format!("table.columns.{}", column.name));
            let (same, all): (Vec<_>, Vec<_>) =
                self.ever_called(written).into_iter().partition(|path| Some(path) == own.as_ref());
            let all = all.into_iter().chain(self.heirs(written));
            others.extend(all.filter(|path| !is_declared(path)).map(|path| (path, place.clone())));
            // No column can be made of it, and what it lies in would be one.
            if self.resolve(written).is_err() {
                others.extend(same.iter().map(|path| (path.clone(), place.clone())));
                if same.is_empty() {
                    others.extend(self.shut(written).map(|path| (path, place.clone())));
                }
            }
            // A version has used the name again: the column is made of one of the fields.
            if let [path, _, ..] = same.as_slice() {
                excluded.push(Excluded { path: path.clone(), applied: true, place, is_personal: true });
            }
        }
        let other = |(path, place)| Excluded { path, applied: true, place, is_personal: false };
        excluded.extend(others.into_iter().map(other));
        self.defaults.excluded = excluded;
    }

    /// The way along a path to the first field that has no fields by which it goes on: a union, a map, something that is JSON or of one
    /// value. What the path leads to in another version may be in there. None where a record lacks the next field, or none is missing.
    fn shut(&self, path: &[String]) -> Option<Vec<String>> {
        let case = self.table.column_case;
        if self.source.versions.iter().all(|version| ever_called(version, case, path).is_empty()) {
            return None;
        }
        let (mut record, mut names) = (ROOT, Vec::new());
        let mut segments = path.iter().peekable();
        while let Some(segment) = segments.next() {
            let field = self.source.field(self.find(record, segment).ok()?);
            names.push(field.name.clone());
            let next = *segments.peek()?;
            let inside = field.value.inside().map(|inside| (inside, self.source.record(inside)));
            match inside {
                Some((inside, of)) if self.find(inside, next).is_ok() || !(of.is_entry || of.is_union) => {
                    record = inside
                }
                _ => return Some(names),
            }
        }
        None
    }

    /// The paths of fields that are called now as one along a path was before, where fields are found by names: what earlier versions
    /// have there is of the path's field.
    fn heirs(&self, path: &[String]) -> Vec<Vec<String>> {
        let (mut record, mut names, mut heirs) = (ROOT, Vec::new(), Vec::new());
        for segment in path {
            let Ok(at) = self.find(record, segment) else { break };
            let field = self.source.field(at);
            let others = self.source.fields(record).map(|at| self.source.field(at));
            let others = others.filter(|other| other.id == other.name && other.name != field.name);
            let called_so = others.filter(|other| field.was(&other.name));
            heirs.extend(called_so.map(|other| [names.as_slice(), std::slice::from_ref(&other.name)].concat()));
            names.push(field.name.clone());
            record = match field.value.inside() {
                Some(inside) => inside,
                None => break,
            };
        }
        heirs
    }

    /// The names of the fields that a path leads through, where it was written with names that they had before, or spelled otherwise.
    fn found(&self, path: &[String]) -> Option<Vec<String>> {
        let (mut record, mut names) = (ROOT, Vec::new());
        for segment in path {
            let field = self.source.field(self.find(record, segment).ok()?);
            names.push(field.name.clone());
            record = field.value.inside().unwrap_or(usize::MAX);
        }
        Some(names)
    }

    /// The paths of all fields that are, or were, called as a path is written.
    fn ever_called(&self, path: &[String]) -> Vec<Vec<String>> {
        ever_called(&self.source, self.table.column_case, path)
    }

    /// What has no default type is declared or left out.
    fn check_defaults(&mut self) {
        for (path, reason) in std::mem::take(&mut self.defaults.undecided) {
            // The declaration's own fault was found.
            let declared = |from: &From| matches!(from, From::Path(written) if written.join(".") == path);
            if self.table.columns.iter().any(|column| declared(&column.from)) {
                continue;
            }
            self.fault("table", format!("`{path}`: {reason}"));
        }
    }

    /// An exclusion that leaves nothing out is a mistake, and perhaps one that publishes what should stay private.
    fn check_exclusions(&mut self, columns: &Columns) {
        let mut faults = Vec::new();
        for excluded in &self.defaults.excluded {
            let path = excluded.path.join(".");
            let place = excluded.place.clone();
            let nothing = || {
                format!("`{path}` excludes nothing: what it is part of is no column, is JSON, or has a declared type")
            };
            if let Err(message) = self.excludable(&excluded.path) {
                if !self.may_come(&excluded.path) {
                    faults.push(fault(place, message));
                } else if self.text_around(columns, &excluded.path).is_some() {
                    faults.push(fault(place, nothing()));
                }
            } else if !excluded.applied && excluded.path.len() > 1 && !self.is_aside(&excluded.path) {
                faults.push(fault(place, nothing()));
            }
        }
        self.faults.append(&mut faults);
    }

    /// Whether a path leads to what is in no column for one is declared of another field of the same record: to exclude it says so.
    fn is_aside(&self, path: &[String]) -> bool {
        let declared = self.table.columns.iter().filter_map(|declaration| match &declaration.from {
            From::Path(path) => self.found(path),
            _ => None,
        });
        let shared = |other: &[String]| path.iter().zip(other).take_while(|(one, other)| one == other).count();
        declared.into_iter().any(|other| (1..path.len().min(other.len())).contains(&shared(&other)))
    }

    /// Whether a field that this version of a schema lacks is another version's, or may be one's that is not known yet. Where such
    /// fields are in no column it leaves nothing out.
    fn may_come(&self, path: &[String]) -> bool {
        let (case, versions) = (self.table.column_case, &self.source.versions);
        let is_open = matches!(self.table.unknown_fields, UnknownFields::Add | UnknownFields::Rest);
        let mut record = ROOT;
        for segment in path {
            match self.find(record, segment) {
                Ok(at) => record = self.source.field(at).value.inside().unwrap_or(usize::MAX),
                Err(_) => {
                    return is_open || versions.iter().any(|version| !ever_called(version, case, path).is_empty());
                }
            }
        }
        false
    }

    fn excludable(&self, path: &[String]) -> Result<(), String> {
        let mut record = ROOT;
        let mut segments = path.iter().peekable();
        while let Some(segment) = segments.next() {
            let field = self.source.field(self.find(record, segment)?);
            if self.source.record(record).is_entry && segments.peek().is_none() {
                return Err(format!("the `{segment}` of a map can't be left out; exclude the map"));
            }
            match (field.value.inside(), segments.peek()) {
                (Some(inner), Some(_)) => record = inner,
                (None, Some(_)) => return Err(format!("`{segment}` has no fields")),
                (_, None) => {}
            }
        }
        Ok(())
    }

    /// What the table is partitioned, sorted and keyed by is there, and of a type that can be.
    fn check_layout(&mut self, columns: &Columns) {
        let table = self.table;
        for (n, field) in table.partition_by.iter().enumerate() {
            let place = format!("table.partition_by[{n}]");
            match layout_column(table, columns, &field.column) {
                Err(message) => self.missing(place, &field.column, message),
                Ok(data_type) if !partition::takes(field.transform, data_type) => {
                    let text = partition::text(field);
                    self.fault(place, format!("`{text}` can't be: `{}` is {data_type}", field.column));
                }
                Ok(Type::Uuid) if matches!(field.transform, Transform::Identity | Transform::Void) => {
                    let text = format!("`{}` is a uuid; this version partitions by buckets of it only", field.column);
                    self.fault(place, text);
                }
                Ok(_) => {}
            }
        }
        for (n, field) in table.sort_by.iter().enumerate() {
            let place = format!("table.sort_by[{n}]");
            match layout_column(table, columns, &field.column) {
                Err(message) => self.missing(place, &field.column, message),
                Ok(data_type @ (Type::Struct(_) | Type::List { .. } | Type::Map { .. })) => {
                    self.fault(place, format!("`{}` is {data_type}, which has no order", field.column));
                }
                Ok(_) => {}
            }
        }
        for (n, column) in table.primary_key.iter().enumerate() {
            let place = format!("table.primary_key[{n}]");
            let top = |name: &str| name == column;
            let whole =
                columns.columns.iter().any(|c| top(&c.name)) || RECORD_COLUMNS.iter().any(|(name, ..)| top(name));
            match layout_column(table, columns, column) {
                Err(message) => self.missing(place, column, message),
                Ok(_) if table.mode != Mode::Append && !whole => {
                    self.fault(place, format!("`{column}` lies within a column: declare a column for it"));
                }
                Ok(
                    data_type @ (Type::Struct(_) | Type::List { .. } | Type::Map { .. } | Type::Float | Type::Double),
                ) => {
                    self.fault(place, format!("`{column}` is {data_type}, which can't be a key"));
                }
                Ok(_) => {}
            }
        }
        if table.marks_deletes() {
            let is_mark = |name: &str| MARK_COLUMNS.iter().any(|(mark, _)| name.to_lowercase() == *mark);
            if let Some(column) = columns.columns.iter().find(|column| is_mark(&column.name)) {
                let message = format!(
                    "`deletes = \"soft\"` makes the column `{}` itself, and a field is called so: declare a column of another name \
                     for it, or exclude it",
                    column.name
                );
                self.fault("table.deletes".to_owned(), message);
            }
        }
        for (n, column) in table.upsert.iter().flat_map(|upsert| &upsert.order_by).enumerate() {
            let place = format!("table.order_by[{n}]");
            let whole = columns.columns.iter().any(|c| c.name == *column)
                || RECORD_COLUMNS.iter().any(|(name, ..)| name == column);
            match layout_column(table, columns, column) {
                Err(message) => self.missing(place, column, message),
                Ok(_) if !whole => {
                    self.fault(place, format!("`{column}` lies within a column: declare a column for it"));
                }
                Ok(data_type @ (Type::Struct(_) | Type::List { .. } | Type::Map { .. })) => {
                    self.fault(place, format!("`{column}` is {data_type}, which has no order"));
                }
                Ok(_) => {}
            }
        }
    }

    /// The event time that rows are compared by: every row has one, and a record without is a dead letter.
    fn event_time(&mut self, columns: &mut Columns) {
        const PLACE: &str = "table.dedup_within.column";
        let Some(within) = &self.table.dedup_within else { return };
        let name = &within.column;
        match layout_column(self.table, columns, name) {
            Err(message) => return self.missing(PLACE, name, message),
            Ok(Type::Timestamp | Type::Timestamptz) => {}
            Ok(other) => {
                let message = format!("`{name}` is {other}; an event time is a timestamptz or a timestamp");
                return self.fault(PLACE, message);
            }
        }
        match columns.columns.iter_mut().find(|column| column.name == *name) {
            Some(column) => column.required = true,
            None => self.fault(
                PLACE,
                format!("`{name}` lies within a column, or is the record's own: declare a column for it"),
            ),
        }
    }

    /// Two columns of one name, at any depth; names that differ only in case are one name to Glue and Athena.
    fn check_names(&mut self, columns: &Columns) {
        let faults = clashes(columns).into_iter().map(|(column, message)| fault(self.place(column), message));
        let mut faults: Vec<Fault> = faults.collect();
        self.faults.append(&mut faults);
    }

    /// Gives each of several columns of one source a source of its own.
    fn tell_apart(&mut self, columns: &mut Columns) {
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for column in &columns.columns {
            names.entry(column.source.clone()).or_default().push(column.name.clone());
        }
        for column in &mut columns.columns {
            let Some([first, _, ..]) = names.get(&column.source).map(Vec::as_slice) else { continue };
            if RECORD_FIELDS.contains(&column.source.as_str()) {
                // They are staged once, and found by their source alone.
                if *first != column.name {
                    let message = format!("`{}` is the column `{first}` already", column.source);
                    self.faults.push(fault(format!("table.columns.{}", column.name), message));
                }
            } else {
                column.source = format!("{}{NAMED}{}", column.source, column.name);
            }
        }
    }

    /// Whether the source can fill the columns, judged by what will fill them.
    fn check_types(&mut self, columns: &Columns, misfits: Misfits<'_>) {
        for (index, message) in misfits(columns) {
            let name = columns.columns.get(index).map_or("", |column| &column.name);
            let place = self.place(name);
            self.fault(place, message);
        }
    }

    fn place(&self, column: &str) -> String {
        if self.table.columns.iter().any(|declaration| declaration.name == column) {
            format!("table.columns.{column}")
        } else {
            "table".to_owned()
        }
    }
}

/// The paths of all fields of a schema that are, or were, called as a path is written, and of those that are spelled as columns of these
/// names would be: who leaves one out means the other, unless a version has both.
pub(super) fn ever_called(source: &Schema, case: ColumnCase, path: &[String]) -> Vec<Vec<String>> {
    let mut called = matching(source, path, |field, name| field.name == *name || field.was(name));
    let versions = if source.versions.is_empty() { std::slice::from_ref(source) } else { source.versions.as_slice() };
    let has =
        |version: &Schema, path: &[String]| !matching(version, path, |field, name| field.name == *name).is_empty();
    let spelled = matching(source, path, |field, name| {
        field.name == *name
            || field.was_spelled(case, name)
            || naming::fold(case, &field.name) == naming::fold(case, name)
    });
    for other in spelled {
        let is_told_apart = |version: &Schema| has(version, &other) && called.iter().any(|one| has(version, one));
        if !called.contains(&other) && !versions.iter().any(is_told_apart) {
            called.push(other);
        }
    }
    called
}

/// The paths of the fields of which each is what the path says.
fn matching(source: &Schema, path: &[String], is_it: impl Fn(&source::Field, &String) -> bool) -> Vec<Vec<String>> {
    let mut all = vec![(ROOT, Vec::new())];
    for segment in path {
        let mut next = Vec::new();
        for (record, names) in &all {
            for field in source.record(*record).fields.iter().filter(|field| is_it(field, segment)) {
                let names: Vec<String> = names.iter().chain([&field.name]).cloned().collect();
                next.push((field.value.inside().unwrap_or(usize::MAX), names));
            }
        }
        all = next;
    }
    all.into_iter().map(|(_, names)| names).collect()
}

/// Names that two columns would have, or that differ in case only, at any depth: the latter of the two columns, and what is wrong.
pub(super) fn clashes(columns: &Columns) -> Vec<(&str, String)> {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut clashes = Vec::new();
    for column in &columns.columns {
        let mut names = Vec::new();
        full_names(&column.name, &column.data_type, &mut names);
        for name in names {
            if let Some(other) = seen.insert(name.to_lowercase(), name.clone()) {
                let message = if other == name {
                    format!("two columns are named `{name}`; rename or exclude one of them")
                } else {
                    format!(
                        "`{other}` and `{name}` differ only in case, and Glue and Athena would take them for one; rename or exclude one of them"
                    )
                };
                clashes.push((column.name.as_str(), message));
            }
        }
    }
    clashes
}

/// The column of fields that the schema does not know.
fn rest(doc: &str) -> Column {
    Column {
        name: REST.to_owned(),
        source: REST_SOURCE.to_owned(),
        source_name: REST_SOURCE.to_owned(),
        data_type: Type::Map { key: Box::new(Type::String), value: Box::new(Type::String), required: false },
        unit: None,
        required: false,
        doc: Some(doc.to_owned()),
        expect: Expectations::default(),
        pii: None,
    }
}

const RECORD_FIELDS: [&str; 5] = ["@topic", "@partition", "@offset", "@timestamp", "@ingested_at"];

/// A record field's name in pipeline files and sources, and its column type.
const fn record_field(field: RecordField) -> (&'static str, Type) {
    match field {
        RecordField::Topic => ("@topic", Type::String),
        RecordField::Partition => ("@partition", Type::Int),
        RecordField::Offset => ("@offset", Type::Long),
        RecordField::Timestamp => ("@timestamp", Type::Timestamptz),
        RecordField::IngestedAt => ("@ingested_at", Type::Timestamptz),
    }
}

/// The full names that Iceberg gives a column and everything in it.
fn full_names(name: &str, data_type: &Type, names: &mut Vec<String>) {
    names.push(name.to_owned());
    match data_type {
        Type::Struct(fields) => {
            for field in fields {
                full_names(&format!("{name}.{}", field.name), &field.data_type, names);
            }
        }
        Type::List { element, .. } => full_names(&format!("{name}.element"), element, names),
        Type::Map { key, value, .. } => {
            full_names(&format!("{name}.key"), key, names);
            full_names(&format!("{name}.value"), value, names);
        }
        _ => {}
    }
}

/// The first part of a type that Athena doesn't read.
fn unportable(data_type: &Type) -> Option<&Type> {
    match data_type {
        Type::Uuid | Type::Time | Type::Fixed(_) => Some(data_type),
        Type::Struct(fields) => fields.iter().find_map(|field| unportable(&field.data_type)),
        Type::List { element, .. } => unportable(element),
        Type::Map { key, value, .. } => unportable(key).or_else(|| unportable(value)),
        _ => None,
    }
}

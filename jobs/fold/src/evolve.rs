//! How a table's columns follow what is staged, in the fold's own commit: a new column is added, at any depth; a narrower type
//! is widened as Iceberg allows; one that was required becomes optional where values may be missing. Nothing else changes: a
//! column keeps its id, its name and its place, whatever its source is called now, and nothing is ever removed.
//!
//! An object's columns are those of all its tables. Where a table's rows have no value in one that can't be the table's, it is
//! another's, and left out.
//!
//! A column is known by its source. One whose source is new is the column of a source that it was in earlier versions of
//! the schema, or is in later ones ([`renames`]), where the table knows one of these; else the one of its name that nothing fills
//! yet, or that a source fills which is but spelled otherwise; else it is new. What is inside a column is known by its name.
//!
//! A table that others made is widened and relaxed by nobody here ([`joined`]): columns are added, and that is all.

mod joined;
mod renames;
mod stops;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use iceberg::spec::{ListType, MapType, NestedField, NestedFieldRef, Schema, StructType, TableMetadata, Type};
use iceberg::{TableRequirement, TableUpdate};
use model::clock::Timestamp;
use pipeline::resolved::{Mode, RECORD_COLUMNS, Table};
use pipeline::types::Type as ColumnType;
use staging::footer::{self, Footer};
use table::schema;

use crate::bind::{self, Binding};
use crate::error::Error;
use crate::state::State;
use renames::Renames;
use stops::{
    ambiguous, ambiguous_case, lacking, misfit, new_key, renamed_and_reused, taken, too_wide, two_columns, unfit,
};

/// A table's columns as rows are written with.
#[derive(Clone, Debug)]
pub(crate) struct Evolved {
    pub(crate) binding: Binding,
    /// What the commit does to the schema; nothing where it stays.
    pub(crate) updates: Vec<TableUpdate>,
    /// What nobody may have changed meanwhile.
    pub(crate) requirements: Vec<TableRequirement>,
    /// What changes.
    pub(crate) changes: Vec<Change>,
    /// Staged columns, by source and type, that are left out, for they have no values and can't be the table's.
    pub(crate) left_out: BTreeSet<(String, String)>,
}

/// What becomes of a column, or of a field within one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its names, joined by dots.
    pub path: String,
    /// What becomes of it.
    pub what: What,
}

/// Kinds of [`Change`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It is added.
    Added {
        /// Its type.
        data_type: String,
    },
    /// Its type is widened.
    Widened {
        /// What it was.
        from: String,
        /// What it is then.
        to: String,
    },
    /// It was required, and may be null.
    Optional,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.what {
            What::Added { data_type } => write!(f, "{path} {data_type} is added"),
            What::Widened { from, to } => write!(f, "{path} becomes {to}, and was {from}"),
            What::Optional => write!(f, "{path} becomes optional"),
        }
    }
}

/// What a fold would make of columns.
#[derive(Debug)]
pub struct Foreseen {
    /// What would change.
    pub changes: Vec<Change>,
    /// What would change in a table that frazil made, and does not in one that others did: rows whose values the table's column
    /// does not take go to dead letters.
    pub unmade: Vec<Change>,
    /// Why it would stop, each with the column.
    pub stops: Vec<(String, Error)>,
    /// The ids of the table's fields that columns go to, by the columns' names.
    pub places: BTreeMap<String, i32>,
}

/// What a fold would make of columns, were they staged with values. `bound` is what [`crate::bound`] says.
///
/// # Errors
/// [`Error::Stopped`] where a type is not readable, or the columns could not be a table's.
pub fn foresee(
    table: &Table,
    metadata: &TableMetadata,
    bound: Option<&BTreeMap<String, i32>>,
    columns: &[footer::Column],
) -> Result<Foreseen, Error> {
    let schema = metadata.current_schema();
    let binding = bound.map_or_else(|| Binding::fresh(schema, columns), |bound| Binding::of(bound.clone()));
    let staged = [Staged { object: None, columns, without_values: &[] }];
    let mut evolution = Evolution::new(table, metadata, &binding, &staged);
    evolution.follow_all(&staged)?;
    let place = |column: &footer::Column| Some((column.name.clone(), *evolution.bound.get(&column.source)?));
    let places = columns.iter().filter_map(place).collect();
    let (stops, unmade) = (std::mem::take(&mut evolution.stops), std::mem::take(&mut evolution.unmade));
    let changes = evolution.finish(schema, metadata)?.changes;
    Ok(Foreseen { changes, unmade, stops, places })
}

impl Evolved {
    /// A table that stays as it is.
    pub(crate) const fn unchanged(binding: Binding) -> Self {
        Self { binding, updates: Vec::new(), requirements: Vec::new(), changes: Vec::new(), left_out: BTreeSet::new() }
    }

    /// Whether an object's column is left out, for rows of this table have no values in it there, and it can't be the table's. The same
    /// column of another object may have some.
    pub(crate) fn leaves_out(&self, footer: &Footer, table: &str, column: &footer::Column) -> bool {
        if self.left_out.is_empty() || !self.left_out.contains(&(column.source.clone(), column.data_type.clone())) {
            return false;
        }
        let without_values = footer.table(table).map_or(&[][..], |table| &table.columns_without_values);
        (0_u32..)
            .zip(&footer.columns)
            .any(|(place, other)| other.name == column.name && without_values.contains(&place))
    }

    /// The table as its rows are written: with the columns that it will have, and all else as it is.
    ///
    /// # Errors
    /// When the updates do not apply.
    pub(crate) fn of(&self, state: &State) -> Result<State, Error> {
        let mut state = state.clone();
        if !self.updates.is_empty() {
            let now = Timestamp::from_millis(state.loaded.metadata.last_updated_ms());
            let metadata = table::catalog::metadata::apply(&state.loaded, &self.requirements, &self.updates, now)?;
            state.loaded.metadata = Arc::new(metadata);
        }
        Ok(state)
    }
}

/// Works out how a table follows objects that have rows for it. Pure; of several objects the newest is asked first.
///
/// # Errors
/// [`Error::Stopped`] where a column can't be told from another, or went to one that the table has dropped.
pub(crate) fn evolve<'f>(
    table: &Table,
    metadata: &TableMetadata,
    binding: &Binding,
    objects: impl IntoIterator<Item = (&'f str, &'f Footer)>,
) -> Result<Evolved, Error> {
    let mut objects: Vec<(&str, &Footer)> = objects.into_iter().collect();
    objects.sort_by_key(|(_, footer)| std::cmp::Reverse(footer.precedence()));
    let name = table.name.to_string();
    let mut staged: Vec<Staged<'_>> = Vec::new();
    for (key, footer) in objects {
        let columns = footer.columns.as_slice();
        let without_values = footer.table(&name).map_or(&[][..], |table| &table.columns_without_values);
        // Most objects of a fold say the same.
        if !staged.iter().any(|known| (known.columns, known.without_values) == (columns, without_values)) {
            staged.push(Staged { object: Some(key), columns, without_values });
        }
    }
    let mut evolution = Evolution::new(table, metadata, binding, &staged);
    evolution.follow_all(&staged)?;
    if let Some((_, stop)) = evolution.stops.drain(..).next() {
        return Err(stop);
    }
    evolution.finish(metadata.current_schema(), metadata)
}

/// What an object says of its columns.
struct Staged<'f> {
    /// Its key; none where nothing is staged yet.
    object: Option<&'f str>,
    columns: &'f [footer::Column],
    /// The places of those that the table's rows have no value in.
    without_values: &'f [u32],
}

impl<'f> Staged<'f> {
    /// Its columns that the pipeline's file does not exclude, each with whether the table's rows have no value in it.
    fn columns(&self, table: &Table) -> Vec<(bool, &'f footer::Column)> {
        let columns = (0_u32..).zip(self.columns).filter(|(_, column)| !bind::is_left_out(table, column));
        columns.map(|(place, column)| (self.without_values.contains(&place), column)).collect()
    }
}

struct Evolution<'a> {
    table: &'a Table,
    renames: Renames,
    fields: Vec<NestedFieldRef>,
    /// Iceberg's identifier fields, which are never optional.
    keys: BTreeSet<i32>,
    last_id: i32,
    /// Whether there are rows already.
    has_rows: bool,
    /// As it was before the fold.
    before: Binding,
    binding: Binding,
    /// What objects of this fold have bound.
    bound: BTreeMap<String, i32>,
    /// Sources of staged columns, by the columns' names.
    named: BTreeMap<String, String>,
    changes: Vec<Change>,
    /// What others' table keeps as it is.
    unmade: Vec<Change>,
    left_out: BTreeSet<(String, String)>,
    /// Why the fold can't go on, each with the column.
    stops: Vec<(String, Error)>,
}

impl<'a> Evolution<'a> {
    fn new(table: &'a Table, metadata: &TableMetadata, binding: &Binding, staged: &[Staged<'_>]) -> Self {
        let schema = metadata.current_schema();
        let columns = staged.iter().map(|staged| staged.columns(table));
        Self {
            table,
            renames: Renames::of(binding, columns),
            fields: schema.as_struct().fields().to_vec(),
            keys: schema.identifier_field_ids().collect(),
            last_id: metadata.last_column_id(),
            has_rows: metadata.current_snapshot().is_some_and(|snapshot| {
                snapshot.summary().additional_properties.get("total-records").is_none_or(|rows| rows != "0")
            }),
            before: binding.clone(),
            binding: binding.clone(),
            bound: BTreeMap::new(),
            named: staged.iter().rev().flat_map(|s| s.columns).map(|c| (c.name.clone(), c.source.clone())).collect(),
            changes: Vec::new(),
            unmade: Vec::new(),
            left_out: BTreeSet::new(),
            stops: Vec::new(),
        }
    }

    fn change(&mut self, path: impl Into<String>, what: What) {
        self.changes.push(Change { path: path.into(), what });
    }

    /// Whether a column becomes what other rows need; one of others' table stays as it is.
    fn alters(&mut self, path: impl Into<String>, what: What) -> bool {
        let change = Change { path: path.into(), what };
        match self.is_joined() {
            false => self.changes.push(change),
            true if self.unmade.contains(&change) => {}
            true => self.unmade.push(change),
        }
        !self.is_joined()
    }

    fn follow_all(&mut self, staged: &[Staged<'_>]) -> Result<(), Error> {
        staged.iter().try_for_each(|staged| self.follow(staged))?;
        if self.is_joined() {
            self.join()?;
        }
        Ok(())
    }

    /// Takes in what an object says of its columns; what can't be the table's is in `stops`, unless it has no values.
    fn follow(&mut self, staged: &Staged<'_>) -> Result<(), Error> {
        let mut filled: BTreeSet<i32> = BTreeSet::new();
        let columns = staged.columns(self.table);
        for (is_empty, column) in &columns {
            let data_type: ColumnType = bind::data_type(column)?;
            let before = is_empty.then(|| (self.binding.clone(), self.bound.clone(), self.changes.len(), self.last_id));
            let taken = match self.reused(*is_empty, column, &columns) {
                Some(other) => Err(renamed_and_reused(&self.table.name, column, other)),
                None => self.take(column, &data_type, staged, &mut filled),
            };
            match (taken, before) {
                (Ok(()), _) => {}
                (Err(_), Some((binding, bound, changes, last_id))) => {
                    (self.binding, self.bound, self.last_id) = (binding, bound, last_id);
                    self.changes.truncate(changes);
                    self.left_out.insert((column.source.clone(), column.data_type.clone()));
                }
                (Err(stop), None) => self.stops.push((column.name.clone(), stop)),
            }
        }
        // Rows of such an object have no value for what it does not name.
        if self.is_joined() {
            self.lacks(&filled);
            return Ok(());
        }
        for field in &mut self.fields {
            let is_ours = self.binding.fills(field.id) && !RECORD_COLUMNS.iter().any(|(name, ..)| *name == field.name);
            if field.required && is_ours && !filled.contains(&field.id) && !self.keys.contains(&field.id) {
                let mut optional = NestedField::clone(field);
                optional.required = false;
                self.changes.push(Change { path: field.name.clone(), what: What::Optional });
                *field = Arc::new(optional);
            }
        }
        Ok(())
    }

    /// The column beside one that keeps the table from telling which of them its own is: one has a name that the other had before.
    /// Where no row of that name is in the table, or it knows both, it can be told.
    fn reused<'f>(
        &self,
        is_empty: bool,
        column: &footer::Column,
        columns: &[(bool, &'f footer::Column)],
    ) -> Option<&'f footer::Column> {
        let was = |other: &footer::Column| column.former.contains(&other.source);
        let is_unclear = |other: &footer::Column| {
            self.before
                .settled(&other.source)
                .is_some_and(|known| self.before.settled(&column.source).is_none_or(|own| own == known))
        };
        let mut others = columns.iter().filter(|(_, other)| other.source != column.source);
        if let Some((_, other)) = others.clone().find(|(is_empty, other)| !is_empty && was(other) && is_unclear(other))
        {
            return Some(other);
        }
        if !is_empty {
            return None;
        }
        // Without values it is not to take what the other goes to.
        let (own, later) = (self.binding.id(&column.source), self.renames.later(&column.source));
        let told = own.or_else(|| self.binding.former(&column.source));
        let is_its = |(is_empty, other): &&(bool, &footer::Column)| {
            let known = self.binding.id(&other.source);
            let was = later.contains(other.source.as_str()) || other.former.contains(&column.source);
            (told.is_some() && told == known) || (own.is_none() && was && (known.is_some() || !is_empty))
        };
        others.find(is_its).map(|(_, other)| *other)
    }

    /// Takes in one column: the table's, or a new one.
    fn take(
        &mut self,
        column: &footer::Column,
        data_type: &ColumnType,
        staged: &Staged<'_>,
        filled: &mut BTreeSet<i32>,
    ) -> Result<(), Error> {
        let Some(place) = self.place_of(column, staged)? else { return self.add(column, data_type, staged) };
        let Some(field) = self.fields.get(place).cloned() else { return Ok(()) };
        if filled.contains(&field.id) {
            return Err(taken(&self.table.name, column, &field.name));
        }
        let found = misfit(&field.field_type, data_type, &field.name);
        let found =
            found.or_else(|| self.is_joined().then(|| too_wide(&field.field_type, data_type, &field.name)).flatten());
        if let Some(misfit) = found {
            return Err(unfit(&self.table.name, column, staged.object, &misfit));
        }
        let mut field = NestedField::clone(&field);
        if let Some(wider) = self.widened(&field.name.clone(), &field.field_type, data_type)? {
            field.field_type = Box::new(wider);
        }
        let is_relaxed = field.required && !column.required && self.may_lack(&field, column);
        if is_relaxed && self.alters(field.name.clone(), What::Optional) {
            field.required = false;
        }
        filled.insert(field.id);
        if let Some(place) = self.fields.get_mut(place) {
            *place = Arc::new(field);
        }
        Ok(())
    }

    /// Where the table has a staged column, which is bound there from now on.
    fn place_of(&mut self, column: &footer::Column, staged: &Staged<'_>) -> Result<Option<usize>, Error> {
        let name = &self.table.name;
        let id = match self.shared(column).or_else(|| self.binding.id(&column.source)) {
            Some(id) => Some(id),
            None => self.renamed(column)?,
        };
        if let Some(id) = id {
            let place = self.fields.iter().position(|field| field.id == id);
            // One that was dropped and added again is another column, and this one's name's.
            let again = || self.fields.iter().position(|f| f.name == column.name && !self.binding.fills(f.id));
            let place = place.or_else(again);
            let Some(id) = place.and_then(|place| self.fields.get(place)).map(|field| field.id) else {
                return Err(bind::dropped(name, column));
            };
            self.bind(column, staged, id)?;
            return Ok(place);
        }
        let same = |field: &NestedFieldRef| field.name.to_lowercase() == column.name.to_lowercase();
        let Some(place) = self.fields.iter().position(same) else { return Ok(None) };
        match self.fields.get(place) {
            // A field that is but spelled otherwise now is the same where the columns of both are called alike.
            Some(field)
                if (field.name == column.name || self.is_joined())
                    && (!self.binding.fills(field.id)
                        || self.binding.respells(field.id, &column.source, self.table.column_case)) =>
            {
                self.bind(column, staged, field.id)?;
                Ok(Some(place))
            }
            other => Err(taken(name, column, other.map_or("", |field| &field.name))),
        }
    }

    /// The field that a column went to while it was the only one of its source, or one of several.
    fn shared(&self, column: &footer::Column) -> Option<i32> {
        let source = match column.source.strip_suffix(&column.name).and_then(|source| source.strip_suffix('#')) {
            Some(only) => only.to_owned(),
            None => format!("{}#{}", column.source, column.name),
        };
        let id = self.binding.id(&source)?;
        self.fields.iter().any(|field| field.id == id && field.name == column.name).then_some(id)
    }

    /// Whether rows that are there would have no value in a column that rows are told apart by.
    fn is_new_key(&self, column: &footer::Column) -> bool {
        self.has_rows && self.table.mode != Mode::Append && self.table.primary_key.contains(&column.name)
    }

    fn add(&mut self, column: &footer::Column, data_type: &ColumnType, staged: &Staged<'_>) -> Result<(), Error> {
        if self.is_new_key(column) {
            return Err(new_key(&self.table.name, column));
        }
        let id = self.next_id();
        self.change(&column.name, What::Added { data_type: data_type.to_string() });
        let data_type = self.fresh(data_type);
        // Optional, whatever the file says: the rows that are there have no value for it.
        let field = NestedField::optional(id, &column.name, data_type);
        let doc = self.table.columns.iter().find(|c| c.name == column.name).and_then(|c| c.doc.as_ref());
        let field = doc.map_or_else(|| field.clone(), |doc| field.clone().with_doc(doc));
        self.fields.push(Arc::new(field));
        self.bind(column, staged, id)
    }

    /// From now on a column's source goes to a field, in all objects of a fold alike.
    fn bind(&mut self, column: &footer::Column, staged: &Staged<'_>, id: i32) -> Result<(), Error> {
        if self.bound.insert(column.source.clone(), id).is_some_and(|other| other != id) {
            return Err(two_columns(&self.table.name, column));
        }
        self.binding.bind(&column.source, id);
        self.binding.was(column, staged.columns, id);
        Ok(())
    }

    /// The field of a column that the table knows by another name only: an earlier one, or one that it has got since, which an object
    /// of this fold tells, or told in an earlier one.
    fn renamed(&self, column: &footer::Column) -> Result<Option<i32>, Error> {
        let ids = |sources: &BTreeSet<&str>| -> BTreeSet<i32> {
            sources.iter().filter_map(|source| self.binding.id(source)).collect()
        };
        let (name, source) = (&self.table.name, column.source.as_str());
        let earlier = self.renames.earlier(source);
        let found = ids(&earlier);
        if found.len() > 1 {
            return Err(ambiguous(name, column));
        }
        let later = ids(&self.renames.later(source));
        if found.is_empty() && later.len() > 1 {
            return Err(two_columns(name, column));
        }
        let told = |source: &str| if self.renames.is_reused(source) { None } else { self.binding.former(source) };
        let told = || told(source).or_else(|| earlier.iter().find_map(|source| told(source)));
        Ok(found.first().or(later.first()).copied().or_else(told))
    }

    /// Whether a column may be null from now on: not where the file makes rows be told apart or dated by it.
    fn may_lack(&self, field: &NestedField, column: &footer::Column) -> bool {
        let is_event_time = self.table.dedup_within.as_ref().is_some_and(|within| within.column == column.name);
        !self.keys.contains(&field.id) && !is_event_time
    }

    const fn next_id(&mut self) -> i32 {
        self.last_id += 1;
        self.last_id
    }

    fn fresh(&mut self, data_type: &ColumnType) -> Type {
        schema::iceberg_type(data_type, &mut || self.next_id())
    }

    /// A type that holds what both hold, of which one does ([`misfit`]); nothing where the table's does.
    fn widened(&mut self, path: &str, there: &Type, incoming: &ColumnType) -> Result<Option<Type>, Error> {
        Ok(match (there, incoming) {
            (Type::Primitive(there), incoming) => match schema::iceberg_type(incoming, &mut || 0) {
                Type::Primitive(wider) if schema::widens(there, &wider) => {
                    let what = What::Widened { from: there.to_string(), to: wider.to_string() };
                    self.alters(path, what).then_some(Type::Primitive(wider))
                }
                _ => None,
            },
            (Type::Struct(there), ColumnType::Struct(incoming)) => {
                let before = self.changes.len();
                let mut fields: Vec<NestedFieldRef> = there.fields().to_vec();
                for field in &mut fields {
                    let path = format!("{path}.{}", field.name);
                    let mut now = NestedField::clone(field);
                    let found = incoming.iter().find(|incoming| incoming.name == field.name);
                    if let Some(incoming) = found
                        && let Some(wider) = self.widened(&path, &field.field_type, &incoming.data_type)?
                    {
                        now.field_type = Box::new(wider);
                    }
                    let is_relaxed =
                        field.required && !found.is_some_and(|f| f.required) && !self.keys.contains(&field.id);
                    if is_relaxed && self.is_joined() && found.is_none() {
                        return Err(lacking(&self.table.name, &path));
                    }
                    if is_relaxed && self.alters(path, What::Optional) {
                        now.required = false;
                    }
                    *field = Arc::new(now);
                }
                for incoming in incoming {
                    let same = |field: &&NestedFieldRef| field.name.to_lowercase() == incoming.name.to_lowercase();
                    match fields.iter().find(same) {
                        Some(field) if field.name == incoming.name => {}
                        Some(field) => return Err(ambiguous_case(&self.table.name, path, &incoming.name, &field.name)),
                        None => {
                            let id = self.next_id();
                            let path = format!("{path}.{}", incoming.name);
                            self.change(path, What::Added { data_type: incoming.data_type.to_string() });
                            let data_type = self.fresh(&incoming.data_type);
                            fields.push(Arc::new(NestedField::optional(id, &incoming.name, data_type)));
                        }
                    }
                }
                (self.changes.len() > before).then(|| Type::Struct(StructType::new(fields)))
            }
            (Type::List(list), ColumnType::List { element, required }) => {
                let there = &list.element_field;
                let element = self.inside(&format!("{path}.element"), there, element, *required)?;
                element.map(|element| Type::List(ListType::new(element)))
            }
            (Type::Map(map), ColumnType::Map { value, required, .. }) => {
                let there = &map.value_field;
                let value = self.inside(&format!("{path}.value"), there, value, *required)?;
                value.map(|value| Type::Map(MapType::new(Arc::clone(&map.key_field), value)))
            }
            _ => None,
        })
    }

    /// The elements of a list, or the values of a map.
    fn inside(
        &mut self,
        path: &str,
        there: &NestedFieldRef,
        incoming: &ColumnType,
        required: bool,
    ) -> Result<Option<NestedFieldRef>, Error> {
        let mut now = NestedField::clone(there);
        let wider = self.widened(path, &there.field_type, incoming)?;
        let relaxed = there.required && !required && self.alters(path, What::Optional);
        if relaxed {
            now.required = false;
        }
        let changed = relaxed || wider.is_some();
        if let Some(wider) = wider {
            now.field_type = Box::new(wider);
        }
        Ok(changed.then(|| Arc::new(now)))
    }

    fn finish(self, before: &Schema, metadata: &TableMetadata) -> Result<Evolved, Error> {
        let Self { fields, keys, binding, changes, table, left_out, .. } = self;
        if changes.is_empty() {
            return Ok(Evolved { left_out, ..Evolved::unchanged(binding) });
        }
        let (updates, requirements) = schema_change(before, metadata, fields, keys).map_err(|error| Error::Stopped {
            code: "fold.columns",
            message: format!("{} can't have the columns that are staged: {error}", table.name),
            remedy: "name the columns otherwise under [table.columns], or leave fields out with `exclude`; nothing staged \
                     is lost"
                .to_owned(),
        })?;
        Ok(Evolved { binding, updates, requirements, changes, left_out })
    }
}

/// What makes these fields a table's schema, and what nobody may have changed meanwhile.
pub(crate) fn schema_change(
    before: &Schema,
    metadata: &TableMetadata,
    fields: Vec<NestedFieldRef>,
    keys: impl IntoIterator<Item = i32>,
) -> iceberg::Result<(Vec<TableUpdate>, Vec<TableRequirement>)> {
    let schema = Schema::builder()
        .with_schema_id(before.schema_id() + 1)
        .with_fields(fields)
        .with_identifier_field_ids(keys)
        .build()?;
    let updates = vec![TableUpdate::AddSchema { schema }, TableUpdate::SetCurrentSchema { schema_id: -1 }];
    let requirements = vec![
        TableRequirement::CurrentSchemaIdMatch { current_schema_id: before.schema_id() },
        TableRequirement::LastAssignedFieldIdMatch { last_assigned_field_id: metadata.last_column_id() },
    ];
    Ok((updates, requirements))
}

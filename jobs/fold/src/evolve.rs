//! How a table's columns follow what is staged, in the fold's own commit: a new column is added, at any depth; a narrower type
//! is widened as Iceberg allows; one that was required becomes optional where values may be missing. Nothing else changes: a
//! column keeps its id, its name and its place, whatever its source is called now, and nothing is ever removed.
//!
//! A column is known by its source. One whose source is new is the column of the source that it was in earlier versions of
//! the schema, where the table knows one of these; else the one of its name that nothing fills yet; else it is new.
//! What is inside a column is known by its name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use iceberg::spec::{ListType, MapType, NestedField, NestedFieldRef, Schema, StructType, TableMetadata, Type};
use iceberg::{TableRequirement, TableUpdate};
use model::clock::Timestamp;
use pipeline::resolved::{RECORD_COLUMNS, Table, TableName};
use pipeline::types::Type as ColumnType;
use staging::footer::{self, Footer};
use table::schema;

use crate::bind::{self, Binding};
use crate::error::Error;
use crate::state::State;

/// A table's columns as rows are written with.
#[derive(Clone, Debug)]
pub(crate) struct Evolved {
    pub(crate) binding: Binding,
    /// What the commit does to the schema; nothing where it stays.
    pub(crate) updates: Vec<TableUpdate>,
    /// What nobody may have changed meanwhile.
    pub(crate) requirements: Vec<TableRequirement>,
    /// What changes, in words.
    pub(crate) changes: Vec<String>,
}

impl Evolved {
    /// A table that stays as it is.
    pub(crate) const fn unchanged(binding: Binding) -> Self {
        Self { binding, updates: Vec::new(), requirements: Vec::new(), changes: Vec::new() }
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
    footers: impl IntoIterator<Item = &'f Footer>,
) -> Result<Evolved, Error> {
    let mut footers: Vec<&Footer> = footers.into_iter().collect();
    footers.sort_by_key(|footer| std::cmp::Reverse(footer.precedence()));
    let schema = metadata.current_schema();
    let mut evolution = Evolution {
        table,
        fields: schema.as_struct().fields().to_vec(),
        keys: schema.identifier_field_ids().collect(),
        last_id: metadata.last_column_id(),
        binding: binding.clone(),
        bound: BTreeMap::new(),
        changes: Vec::new(),
    };
    let mut seen: Vec<&[footer::Column]> = Vec::new();
    for footer in footers {
        // Most objects of a fold say the same.
        if !seen.contains(&footer.columns.as_slice()) {
            seen.push(&footer.columns);
            evolution.follow(&footer.columns)?;
        }
    }
    evolution.finish(schema, metadata)
}

struct Evolution<'a> {
    table: &'a Table,
    fields: Vec<NestedFieldRef>,
    /// Iceberg's identifier fields, which are never optional.
    keys: BTreeSet<i32>,
    last_id: i32,
    binding: Binding,
    /// What objects of this fold have bound.
    bound: BTreeMap<String, i32>,
    changes: Vec<String>,
}

impl Evolution<'_> {
    fn follow(&mut self, columns: &[footer::Column]) -> Result<(), Error> {
        let mut filled: BTreeSet<i32> = BTreeSet::new();
        let columns: Vec<&footer::Column> =
            columns.iter().filter(|column| !bind::is_left_out(self.table, column)).collect();
        for column in &columns {
            // Its earlier name is another field's now: which of them the table's column is, depends on who is asked.
            if let Some(other) = columns.iter().find(|other| column.former.contains(&other.source)) {
                return Err(renamed_and_reused(&self.table.name, column, other));
            }
        }
        for column in columns {
            let data_type: ColumnType = bind::data_type(column)?;
            let place = match self.place_of(column)? {
                Some(place) => place,
                None => {
                    self.add(column, &data_type)?;
                    continue;
                }
            };
            let Some(field) = self.fields.get(place).cloned() else { continue };
            if !filled.insert(field.id) {
                return Err(taken(&self.table.name, column, &field.name));
            }
            let mut field = NestedField::clone(&field);
            if let Some(wider) = self.widened(&field.name.clone(), &field.field_type, &data_type)? {
                field.field_type = Box::new(wider);
            }
            if field.required && !column.required && self.may_lack(&field, column) {
                field.required = false;
                self.changes.push(format!("{} becomes optional", field.name));
            }
            if let Some(place) = self.fields.get_mut(place) {
                *place = Arc::new(field);
            }
        }
        // Rows of such an object have no value for what it does not name.
        for field in &mut self.fields {
            let is_ours = self.binding.fills(field.id) && !RECORD_COLUMNS.iter().any(|(name, ..)| *name == field.name);
            if field.required && is_ours && !filled.contains(&field.id) && !self.keys.contains(&field.id) {
                let mut optional = NestedField::clone(field);
                optional.required = false;
                self.changes.push(format!("{} becomes optional", field.name));
                *field = Arc::new(optional);
            }
        }
        Ok(())
    }

    /// Where the table has a staged column, which is bound there from now on.
    fn place_of(&mut self, column: &footer::Column) -> Result<Option<usize>, Error> {
        let name = &self.table.name;
        let id = match self.shared(column).or_else(|| self.binding.id(&column.source)) {
            Some(id) => Some(id),
            None => {
                let former: BTreeSet<i32> = column.former.iter().filter_map(|source| self.binding.id(source)).collect();
                if former.len() > 1 {
                    return Err(ambiguous(name, column));
                }
                former.first().copied()
            }
        };
        if let Some(id) = id {
            let place = self.fields.iter().position(|field| field.id == id);
            if place.is_none() {
                return Err(bind::dropped(name, column));
            }
            self.bind(column, id)?;
            return Ok(place);
        }
        let same = |field: &NestedFieldRef| field.name.to_lowercase() == column.name.to_lowercase();
        let Some(place) = self.fields.iter().position(same) else { return Ok(None) };
        match self.fields.get(place) {
            Some(field) if field.name == column.name && !self.binding.fills(field.id) => {
                self.bind(column, field.id)?;
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

    fn add(&mut self, column: &footer::Column, data_type: &ColumnType) -> Result<(), Error> {
        let id = self.next_id();
        self.changes.push(format!("{} {data_type} is added", column.name));
        let data_type = self.fresh(data_type);
        // Optional, whatever the file says: the rows that are there have no value for it.
        let field = NestedField::optional(id, &column.name, data_type);
        let doc = self.table.columns.iter().find(|c| c.name == column.name).and_then(|c| c.doc.as_ref());
        let field = doc.map_or_else(|| field.clone(), |doc| field.clone().with_doc(doc));
        self.fields.push(Arc::new(field));
        self.bind(column, id)
    }

    /// From now on a column's source goes to a field, in all objects of a fold alike.
    fn bind(&mut self, column: &footer::Column, id: i32) -> Result<(), Error> {
        if self.bound.insert(column.source.clone(), id).is_some_and(|other| other != id) {
            return Err(two_columns(&self.table.name, column));
        }
        self.binding.bind(&column.source, id);
        Ok(())
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

    /// A type that holds what both hold; nothing where the table's does. One that can't be joined stays: the rows say so.
    fn widened(&mut self, path: &str, there: &Type, incoming: &ColumnType) -> Result<Option<Type>, Error> {
        Ok(match (there, incoming) {
            (Type::Primitive(there), incoming) => match schema::iceberg_type(incoming, &mut || 0) {
                Type::Primitive(wider) if schema::widens(there, &wider) => {
                    self.changes.push(format!("{path} becomes {wider}, and was {there}"));
                    Some(Type::Primitive(wider))
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
                    if field.required && !found.is_some_and(|f| f.required) && !self.keys.contains(&field.id) {
                        now.required = false;
                        self.changes.push(format!("{path} becomes optional"));
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
                            self.changes.push(format!("{path}.{} {} is added", incoming.name, incoming.data_type));
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
        let relaxed = there.required && !required;
        if relaxed {
            now.required = false;
            self.changes.push(format!("{path} becomes optional"));
        }
        let changed = relaxed || wider.is_some();
        if let Some(wider) = wider {
            now.field_type = Box::new(wider);
        }
        Ok(changed.then(|| Arc::new(now)))
    }

    fn finish(self, before: &Schema, metadata: &TableMetadata) -> Result<Evolved, Error> {
        let Self { fields, keys, binding, changes, table, .. } = self;
        if changes.is_empty() {
            return Ok(Evolved::unchanged(binding));
        }
        let schema = Schema::builder()
            .with_schema_id(before.schema_id() + 1)
            .with_fields(fields)
            .with_identifier_field_ids(keys)
            .build()
            .map_err(|error| Error::Stopped {
                code: "fold.columns",
                message: format!("{} can't have the columns that are staged: {error}", table.name),
                remedy: "name the columns otherwise under [table.columns], or leave fields out with `exclude`; nothing staged \
                         is lost"
                    .to_owned(),
            })?;
        let updates = vec![TableUpdate::AddSchema { schema }, TableUpdate::SetCurrentSchema { schema_id: -1 }];
        let requirements = vec![
            TableRequirement::CurrentSchemaIdMatch { current_schema_id: before.schema_id() },
            TableRequirement::LastAssignedFieldIdMatch { last_assigned_field_id: metadata.last_column_id() },
        ];
        Ok(Evolved { binding, updates, requirements, changes })
    }
}

fn ambiguous(table: &TableName, column: &footer::Column) -> Error {
    Error::Stopped {
        code: "fold.column_ambiguous",
        message: format!(
            "column `{}` (from `{}`) was {} in earlier versions of its schema, and {table} has a column for each of several of \
             these",
            column.name,
            column.source_name,
            column.former.join(" or ")
        ),
        remedy: format!(
            "say which of them it is no more: leave it out with `exclude = [\"{}\"]` under [table], or take the alias away; \
             nothing staged is lost",
            column.source_name
        ),
    }
}

fn renamed_and_reused(table: &TableName, column: &footer::Column, other: &footer::Column) -> Error {
    Error::Stopped {
        code: "fold.column_ambiguous",
        message: format!(
            "column `{}` (from `{}`) was `{}` in earlier versions of its schema, and another field of the same schema has that name \
             now: which of them is the column that {table} knows can't be told",
            column.name, column.source_name, other.source_name
        ),
        remedy: format!(
            "give the new field a name that no field had before, or leave one of them out with `exclude = [\"{}\"]` under [table]; \
             nothing staged is lost",
            other.source_name
        ),
    }
}

fn two_columns(table: &TableName, column: &footer::Column) -> Error {
    Error::Stopped {
        code: "fold.column_ambiguous",
        message: format!(
            "objects that are staged together say that `{}` is `{}` and another column of {table}",
            column.source_name, column.name
        ),
        remedy: format!(
            "fold what is staged so far with the pipeline file as it was, or leave the field out with `exclude = [\"{}\"]` under \
             [table]; nothing staged is lost",
            column.source_name
        ),
    }
}

fn taken(table: &TableName, column: &footer::Column, there: &str) -> Error {
    Error::Stopped {
        code: "fold.column_taken",
        message: format!(
            "column `{}` (from `{}`) is staged, and {table} has a column `{there}` that another source fills",
            column.name, column.source_name
        ),
        remedy: format!(
            "give it another name under [table.columns] (new_name = \"{0}\") for what is staged from now on, and leave out what \
             is staged already with `exclude = [\"{0}\"]`, or rename the table's column; nothing staged is lost",
            column.source_name
        ),
    }
}

fn ambiguous_case(table: &TableName, path: &str, name: &str, there: &str) -> Error {
    Error::Stopped {
        code: "fold.column_taken",
        message: format!(
            "`{path}` has a field `{name}`, and {table} has `{there}` there: engines that fold case can't tell them apart"
        ),
        remedy: format!(
            "leave `{path}` out with `exclude` under [table], or rename one of them; nothing staged is lost"
        ),
    }
}

//! Rows that were deleted and stay, marked (`deletes = "soft"`): the columns that say so, and what is in them.
//!
//! A row that is marked keeps its values. Its record columns are those of the record that deleted it, so that the table says from
//! when on the key was gone: a row that comes from before that changes nothing. A key without a row gets one that has the key's
//! columns, the record's and the marks, and nulls elsewhere.
//!
//! No row is without a mark: once a table has these columns, every row that enters has `false`, whatever its mode and `deletes` are
//! then; and the fold that brings them writes the files that are there anew (format version 2 has no defaults).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, new_null_array};
use arrow::compute::interleave;
use iceberg::TableUpdate;
use iceberg::spec::{NestedField, NestedFieldRef, TableMetadata};
use pipeline::resolved::{MARK_COLUMNS, RECORD_COLUMNS, Table};
use staging::record_columns;
use table::data_file::Target;
use table::fault::Fault;
use table::schema::{self, field_id};

use crate::bind::Binding;
use crate::error::Error;
use crate::evolve::{Change, Evolved, What, schema_change};
use crate::keys;

/// Whether a row was deleted.
const IS_DELETED: &str = MARK_COLUMNS[0].0;
/// When.
const DELETED_AT: &str = MARK_COLUMNS[1].0;

/// Batch and row.
pub(crate) type At = (usize, usize);

/// What a fold would do to a table so that deletes mark its rows.
#[derive(Debug)]
pub struct ForeseenMarks {
    /// Columns that would be added.
    pub changes: Vec<Change>,
    /// Whether it would write the files that are there anew.
    pub rewrites: bool,
    /// The ids of the table's fields that mark rows already, whatever the pipeline says now.
    pub places: Vec<i32>,
}

/// What the next fold with rows would do to a table for its marks. `bound` is what [`crate::bound`] says.
///
/// # Errors
/// [`Error::Stopped`] where a column that marks rows is another's, or was dropped.
pub fn foresee_marks(
    table: &Table,
    metadata: &TableMetadata,
    bound: Option<&BTreeMap<String, i32>>,
) -> Result<ForeseenMarks, Error> {
    let before = Binding::of(bound.cloned().unwrap_or_default());
    let after = follow(table, metadata, Evolved::unchanged(before.clone()))?;
    let is_live = |id: &i32| metadata.current_schema().as_struct().field_by_id(*id).is_some();
    let places =
        [IS_DELETED, DELETED_AT].into_iter().filter_map(|name| after.binding.id(name)).filter(is_live).collect();
    let has_files = metadata.current_snapshot().is_some_and(|snapshot| {
        snapshot.summary().additional_properties.get("total-data-files").is_none_or(|files| files != "0")
    });
    let rewrites = has_files && are_new(table, &before, &after.binding);
    Ok(ForeseenMarks { changes: after.changes, rewrites, places })
}

/// Whether rows that are there have no marks yet, and are to have some.
pub(crate) fn are_new(table: &Table, before: &Binding, after: &Binding) -> bool {
    table.marks_deletes() && before.id(IS_DELETED).is_none() && after.id(IS_DELETED).is_some()
}

/// Adds to what becomes of a table's columns those that mark rows, where the pipeline wants marks. A column is theirs by name, once,
/// where nothing else fills it; then by its id.
///
/// # Errors
/// [`Error::Stopped`] where a column of the name is another's, or of another type, or was dropped.
pub(crate) fn follow(table: &Table, metadata: &TableMetadata, mut evolved: Evolved) -> Result<Evolved, Error> {
    if !table.marks_deletes() {
        return Ok(evolved);
    }
    let before = metadata.current_schema();
    let added = evolved.updates.iter().find_map(|update| match update {
        TableUpdate::AddSchema { schema } => Some(schema),
        _ => None,
    });
    let schema = added.unwrap_or(before);
    let mut fields: Vec<NestedFieldRef> = schema.as_struct().fields().to_vec();
    let mut last_id = metadata.last_column_id().max(schema.highest_field_id());
    let keys: Vec<i32> = schema.identifier_field_ids().collect();
    let mut is_changed = false;
    for (name, data_type) in &MARK_COLUMNS {
        let wanted = schema::iceberg_type(data_type, &mut || 0);
        let bound = evolved.binding.id(name);
        let there = match bound {
            Some(id) => fields.iter().find(|field| field.id == id),
            None => fields.iter().find(|field| field.name.to_lowercase() == *name),
        };
        match (there, bound) {
            (None, Some(_)) => return Err(dropped(table, name)),
            (Some(field), Some(_)) if *field.field_type == wanted => {}
            (Some(field), None)
                if *field.field_type == wanted && field.name == *name && !evolved.binding.fills(field.id) =>
            {
                evolved.binding.bind(name, field.id);
            }
            (Some(field), _) => return Err(taken(table, name, field)),
            (None, None) => {
                last_id += 1;
                fields.push(Arc::new(NestedField::optional(last_id, *name, wanted)));
                evolved.binding.bind(name, last_id);
                evolved
                    .changes
                    .push(Change { path: (*name).to_owned(), what: What::Added { data_type: data_type.to_string() } });
                is_changed = true;
            }
        }
    }
    if !is_changed {
        return Ok(evolved);
    }
    let (updates, requirements) = schema_change(before, metadata, fields, keys).map_err(|error| Error::Stopped {
        code: "fold.columns",
        message: format!("{} can't have the columns of `deletes = \"soft\"`: {error}", table.name),
        remedy: "fold into a new table; nothing staged is lost".to_owned(),
    })?;
    Ok(Evolved { updates, requirements, ..evolved })
}

fn dropped(table: &Table, name: &str) -> Error {
    Error::Stopped {
        code: "fold.mark_column",
        message: format!("{} has dropped `{name}`, which `deletes = \"soft\"` marks rows by", table.name),
        remedy: "say `deletes = \"hard\"` or \"ignore\", or fold into a new table; nothing staged is lost".to_owned(),
    }
}

fn taken(table: &Table, name: &str, field: &NestedField) -> Error {
    Error::Stopped {
        code: "fold.mark_column",
        message: format!(
            "{} has a column `{}` of type {}, and `deletes = \"soft\"` marks rows by a `{name}` of its own",
            table.name, field.name, field.field_type
        ),
        remedy: format!(
            "rename `{}` in the table (`ALTER TABLE … RENAME COLUMN`), or fold into a new table; nothing staged is lost",
            field.name
        ),
    }
}

/// Where a table marks rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    pub(crate) is_deleted: keys::Column,
    deleted_at: Option<keys::Column>,
}

impl Marks {
    /// Nothing where the table has no such columns.
    pub(crate) fn of(target: &Target, binding: &Binding) -> Option<Self> {
        let column = |name: &str| place(target, binding, name);
        Some(Self { is_deleted: column(IS_DELETED)?, deleted_at: column(DELETED_AT) })
    }

    /// Rows on their way in, none of which is deleted.
    pub(crate) fn live(&self, batch: RecordBatch) -> Result<RecordBatch, Fault> {
        let none = BooleanArray::from(vec![false; batch.num_rows()]);
        with(batch, &[(self.is_deleted.place, Arc::new(none) as _)])
    }

    /// Rows of the table: those without a mark are not deleted.
    pub(crate) fn filled(&self, batch: RecordBatch) -> Result<RecordBatch, Fault> {
        let marks = batch.columns().get(self.is_deleted.place).and_then(|column| column.as_boolean_opt());
        let Some(marks) = marks else { return Err(Fault::Mismatch(format!("`{IS_DELETED}` is no boolean"))) };
        let filled: BooleanArray = marks.iter().map(|mark| Some(mark == Some(true))).collect();
        with(batch, &[(self.is_deleted.place, Arc::new(filled) as _)])
    }
}

/// A column that is bound by its own name.
fn place(target: &Target, binding: &Binding, name: &str) -> Option<keys::Column> {
    let id = binding.id(name)?;
    let place = target.arrow_schema().fields().iter().position(|field| field_id(field) == Some(id))?;
    Some(keys::Column { place, field_id: id })
}

fn with(batch: RecordBatch, columns: &[(usize, ArrayRef)]) -> Result<RecordBatch, Fault> {
    let (schema, mut all, _) = batch.into_parts();
    for (place, column) in columns {
        if let Some(old) = all.get_mut(*place) {
            *old = Arc::clone(column);
        }
    }
    Ok(RecordBatch::try_new(schema, all)?)
}

/// What makes marked rows, of rows and of the records that delete them.
pub(crate) struct Marking<'a> {
    target: &'a Target,
    marks: Marks,
    /// The places of the key's columns.
    key: Vec<usize>,
    /// Those of the record columns.
    record: Vec<usize>,
    timestamp: Option<usize>,
    /// What records are in, by batch.
    held: Vec<&'a RecordBatch>,
}

impl<'a> Marking<'a> {
    pub(crate) fn new(
        target: &'a Target,
        binding: &Binding,
        marks: Marks,
        key: &[keys::Column],
        held: Vec<&'a RecordBatch>,
    ) -> Self {
        let record = RECORD_COLUMNS.iter().filter_map(|(name, ..)| place(target, binding, name));
        Self {
            target,
            marks,
            key: key.iter().map(|column| column.place).collect(),
            record: record.map(|column| column.place).collect(),
            timestamp: place(target, binding, record_columns::TIMESTAMP).map(|column| column.place),
            held,
        }
    }

    /// Whether a record that deletes can be a row: all columns but those that it fills may be null.
    pub(crate) fn makes_rows(target: &Target, binding: &Binding, key: &[keys::Column]) -> bool {
        let fields = target.arrow_schema().fields().iter().enumerate();
        let mut others = fields.filter(|(at, field)| {
            let is_record = RECORD_COLUMNS.iter().any(|(name, ..)| binding.id(name) == field_id(field));
            !is_record && key.iter().all(|column| column.place != *at)
        });
        others.all(|(_, field)| field.is_nullable())
    }

    /// Rows on their way in, each with the record that deletes it, which may be itself.
    pub(crate) fn entering(&self, rows: &[(At, At)]) -> Result<RecordBatch, Fault> {
        let by: Vec<At> = rows.iter().map(|(_, by)| *by).collect();
        let own: Vec<Option<At>> = rows.iter().map(|(row, _)| Some(*row)).collect();
        // Of a record that deletes its key alone means something.
        let values: Vec<Option<At>> = rows.iter().map(|(row, by)| (row != by).then_some(*row)).collect();
        let mut columns = Vec::new();
        for place in 0..self.target.arrow_schema().fields().len() {
            columns.push(match self.key.contains(&place) {
                true => self.gathered(place, &own)?,
                false => self.gathered(place, &values)?,
            });
        }
        let schema = Arc::clone(self.target.arrow_schema());
        self.marked(columns, &by).and_then(|columns| Ok(RecordBatch::try_new(schema, columns)?))
    }

    /// Rows of the table, each with the record that deletes it.
    pub(crate) fn stored(&self, rows: &RecordBatch, by: &[At]) -> Result<RecordBatch, Fault> {
        let schema = Arc::clone(self.target.arrow_schema());
        self.marked(rows.columns().to_vec(), by).and_then(|columns| Ok(RecordBatch::try_new(schema, columns)?))
    }

    fn marked(&self, mut columns: Vec<ArrayRef>, by: &[At]) -> Result<Vec<ArrayRef>, Fault> {
        let by: Vec<Option<At>> = by.iter().copied().map(Some).collect();
        let mut marks: Vec<(usize, ArrayRef)> =
            vec![(self.marks.is_deleted.place, Arc::new(BooleanArray::from(vec![true; by.len()])))];
        if let (Some(deleted_at), Some(timestamp)) = (self.marks.deleted_at, self.timestamp) {
            marks.push((deleted_at.place, self.gathered(timestamp, &by)?));
        }
        for place in &self.record {
            marks.push((*place, self.gathered(*place, &by)?));
        }
        for (place, column) in marks {
            if let Some(old) = columns.get_mut(place) {
                *old = column;
            }
        }
        Ok(columns)
    }

    /// A column of rows of what is held, with nulls where there is none.
    fn gathered(&self, place: usize, rows: &[Option<At>]) -> Result<ArrayRef, Fault> {
        let lacks = || Fault::Mismatch("a batch of records lacks a column".to_owned());
        let data_type = self.target.arrow_schema().fields().get(place).ok_or_else(lacks)?.data_type();
        let null = new_null_array(data_type, 1);
        let mut arrays: Vec<&dyn Array> = vec![null.as_ref()];
        let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
        let mut indices = Vec::with_capacity(rows.len());
        for row in rows {
            let Some((batch, row)) = *row else {
                indices.push((0, 0));
                continue;
            };
            let number = match numbers.get(&batch) {
                Some(number) => *number,
                None => {
                    let column = self.held.get(batch).and_then(|held| held.columns().get(place)).ok_or_else(lacks)?;
                    arrays.push(column.as_ref());
                    numbers.insert(batch, arrays.len() - 1);
                    arrays.len() - 1
                }
            };
            indices.push((number, row));
        }
        Ok(interleave(&arrays, &indices)?)
    }
}

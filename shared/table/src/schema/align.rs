//! Fitting an array tree to a schema's: columns by field id or name, missing ones filled, representations changed,
//! and Iceberg's promotions (int to long, float to double, wider decimals). Rows on their way into a table may be of the
//! wider type where the table has the narrower one, as long as each value fits. Nothing else is ever cast.
//!
//! A column that can't be fitted is a fault of [`Alignment::new`]; rows of which a value does not fit are found with
//! [`Alignment::misfits`].

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    DataType, Decimal128Type, DecimalType, Field, FieldRef, Fields, Int64Type, Schema as ArrowSchema, SchemaRef,
};
use iceberg::spec::PrimitiveLiteral;

use super::literal;
use crate::fault::Fault;

/// How fields of the two sides find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// By field id on both sides: files of a table.
    Id,
    /// By field id where the incoming field carries one, else by exact name: rows on their way into a table.
    IdOrName,
}

/// What stands in a column that the incoming side lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct Fill {
    /// The field.
    pub field_id: i32,
    /// Its value in every row.
    pub value: Option<PrimitiveLiteral>,
}

/// A worked-out fitting from one Arrow schema to another, to be used for many batches.
#[derive(Clone, Debug)]
pub struct Alignment {
    target: SchemaRef,
    columns: Vec<Child>,
    /// Whether values have to be looked at one by one.
    narrows: bool,
}

#[derive(Clone, Debug)]
enum Child {
    From(usize, Step),
    Fill(Option<PrimitiveLiteral>),
}

#[derive(Clone, Debug)]
enum Step {
    Same,
    Cast,
    /// To a type that does not hold all values of the incoming one.
    Narrow,
    Struct(Vec<Child>),
    List(Box<Step>),
    Map(Box<Step>, Box<Step>),
}

/// A row of which a value does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The row's place in its batch.
    pub row: usize,
    /// The target's column, with the names inside it joined by dots.
    pub path: String,
    /// What is wrong with the value.
    pub why: Why,
}

/// What is wrong with a value that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is null, and must not be.
    Null,
    /// Its type's narrower form does not hold it.
    Range,
}

/// Schemas nest at most this deep; deeper ones are refused rather than recursed into.
const DEPTH_MAX: usize = 64;

impl Alignment {
    /// Works out the fitting. Incoming columns that the target does not name are left out.
    ///
    /// # Errors
    /// [`Fault::Mismatch`] naming the column: a required one missing without a fill, or a type that is neither the same
    /// nor promoted.
    pub fn new(incoming: &ArrowSchema, target: &SchemaRef, by: Match, fills: &[Fill]) -> Result<Self, Fault> {
        let columns = children(incoming.fields(), target.fields(), by, fills, "", 0)?;
        let narrows = columns.iter().any(Child::narrows);
        Ok(Self { target: Arc::clone(target), columns, narrows })
    }

    /// The batch in the target's schema. Columns that fit already are shared, not copied.
    ///
    /// # Errors
    /// [`Fault::Mismatch`] when a value does not fit, as a null in a required column, or the batch is not of the incoming
    /// schema.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, Fault> {
        if self.narrows
            && let Some(Misfit { path, .. }) = self.misfits(batch)?.into_iter().find(|misfit| misfit.why == Why::Range)
        {
            return Err(Fault::Mismatch(format!("the column `{path}` holds a value outside its range")));
        }
        let columns = build(&self.columns, batch.columns(), self.target.fields(), batch.num_rows())?;
        for (field, column) in self.target.fields().iter().zip(&columns) {
            if !field.is_nullable() && column.null_count() > 0 {
                return Err(Fault::Mismatch(format!("the required column `{}` holds a null", field.name())));
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.target), columns, &options)
            .map_err(|fault| Fault::Mismatch(fault.to_string()))
    }

    /// The rows that keep [`Alignment::apply`] from fitting a batch, in order, each with the first of its values that
    /// does not fit.
    ///
    /// # Errors
    /// [`Fault::Mismatch`] when the batch is not of the incoming schema.
    pub fn misfits(&self, batch: &RecordBatch) -> Result<Vec<Misfit>, Fault> {
        let rows: Vec<Option<usize>> = (0..batch.num_rows()).map(Some).collect();
        let mut found = BTreeMap::new();
        look_in_all(&self.columns, batch.columns(), self.target.fields(), &rows, "", &mut found)?;
        Ok(found.into_iter().map(|(row, (path, why))| Misfit { row, path, why }).collect())
    }
}

fn joined(around: &str, name: &str) -> String {
    if around.is_empty() { name.to_owned() } else { format!("{around}.{name}") }
}

fn children(
    incoming: &Fields,
    target: &Fields,
    by: Match,
    fills: &[Fill],
    around: &str,
    depth: usize,
) -> Result<Vec<Child>, Fault> {
    if depth > DEPTH_MAX {
        return Err(Fault::Mismatch(format!("{around} nests more than {DEPTH_MAX} deep")));
    }
    target
        .iter()
        .map(|wanted| {
            let id = super::field_id(wanted);
            let same = |field: &Field| match (by, super::field_id(field)) {
                (_, Some(other)) => Some(other) == id,
                (Match::Id, None) => false,
                (Match::IdOrName, None) => field.name() == wanted.name(),
            };
            let path = joined(around, wanted.name());
            match incoming.iter().position(|field| same(field)) {
                Some(at) => {
                    let found = incoming.get(at).map_or(&DataType::Null, |field| field.data_type());
                    Ok(Child::From(at, step(found, wanted.data_type(), by, fills, &path, depth)?))
                }
                None => match fills.iter().find(|fill| Some(fill.field_id) == id) {
                    Some(fill) => Ok(Child::Fill(fill.value.clone())),
                    None if wanted.is_nullable() => Ok(Child::Fill(None)),
                    None => Err(Fault::Mismatch(format!("the required column `{path}` is missing"))),
                },
            }
        })
        .collect()
}

fn step(
    incoming: &DataType,
    target: &DataType,
    by: Match,
    fills: &[Fill],
    path: &str,
    depth: usize,
) -> Result<Step, Fault> {
    let mismatch = || Fault::Mismatch(format!("the column `{path}` is {incoming}; the table holds {target}"));
    Ok(match (incoming, target) {
        (DataType::Struct(from), DataType::Struct(to)) => Step::Struct(children(from, to, by, fills, path, depth + 1)?),
        (DataType::List(from), DataType::List(to)) => Step::List(Box::new(element(from, to, by, fills, path, depth)?)),
        (DataType::Map(from, _), DataType::Map(to, _)) => {
            let (DataType::Struct(from), DataType::Struct(to)) = (from.data_type(), to.data_type()) else {
                return Err(mismatch());
            };
            let ([from_key, from_value], [to_key, to_value]) = (&from[..], &to[..]) else { return Err(mismatch()) };
            let key = element(from_key, to_key, by, fills, &format!("{path}.key"), depth)?;
            let value = element(from_value, to_value, by, fills, &format!("{path}.value"), depth)?;
            Step::Map(Box::new(key), Box::new(value))
        }
        (DataType::Dictionary(_, values), _) if step(values, target, by, fills, path, depth).is_ok() => Step::Cast,
        _ if incoming == target => Step::Same,
        _ if same_values(incoming, target) || promoted(incoming, target) => Step::Cast,
        // What is in a file of the table was fitted when it was written.
        _ if by == Match::IdOrName && promoted(target, incoming) && !matches!(incoming, DataType::Float64) => {
            Step::Narrow
        }
        _ => return Err(mismatch()),
    })
}

/// Elements, keys and values are found by place: a list has one, whatever it is called.
fn element(from: &FieldRef, to: &FieldRef, by: Match, fills: &[Fill], path: &str, depth: usize) -> Result<Step, Fault> {
    if depth > DEPTH_MAX {
        return Err(Fault::Mismatch(format!("{path} nests more than {DEPTH_MAX} deep")));
    }
    step(from.data_type(), to.data_type(), by, fills, path, depth + 1)
}

/// Whether two Arrow types hold the same values in another representation.
fn same_values(from: &DataType, to: &DataType) -> bool {
    let utc = |zone: &str| matches!(zone, "UTC" | "+00:00" | "Z" | "Etc/UTC");
    match (from, to) {
        (DataType::Timestamp(a, Some(x)), DataType::Timestamp(b, Some(y))) => a == b && utc(x) && utc(y),
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, DataType::Utf8 | DataType::Utf8View) => true,
        (DataType::Binary | DataType::LargeBinary | DataType::BinaryView, DataType::Binary | DataType::BinaryView) => {
            true
        }
        _ => false,
    }
}

/// Iceberg's type promotions.
fn promoted(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Int32, DataType::Int64) | (DataType::Float32, DataType::Float64) => true,
        (DataType::Decimal128(p, s), DataType::Decimal128(q, t)) => p <= q && s == t,
        _ => false,
    }
}

/// Looks for values that don't fit. `rows` has, for each value of the arrays, the row of the batch that it is of; none
/// where nothing refers to it.
fn look_in_all(
    children: &[Child],
    columns: &[ArrayRef],
    fields: &Fields,
    rows: &[Option<usize>],
    around: &str,
    found: &mut BTreeMap<usize, (String, Why)>,
) -> Result<(), Fault> {
    for (child, field) in children.iter().zip(fields) {
        let Child::From(at, step) = child else { continue };
        let path = joined(around, field.name());
        let column = columns
            .get(*at)
            .ok_or_else(|| Fault::Mismatch(format!("a batch lacks the column `{path}` of its schema")))?;
        look_in(step, column, field, rows, &path, found)?;
    }
    Ok(())
}

fn look_in(
    step: &Step,
    array: &ArrayRef,
    field: &Field,
    rows: &[Option<usize>],
    path: &str,
    found: &mut BTreeMap<usize, (String, Why)>,
) -> Result<(), Fault> {
    let mismatch = || Fault::Mismatch(format!("{} is not of its own schema", array.data_type()));
    let nulls = array.logical_nulls();
    let is_null = |n: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(n));
    let mut note = |row: usize, why| {
        found.entry(row).or_insert_with(|| (path.to_owned(), why));
    };
    // The rows of the values that are not null.
    let mut held = rows.to_vec();
    for (_, row) in held.iter_mut().enumerate().filter(|(n, _)| is_null(*n)) {
        if let (false, Some(row)) = (field.is_nullable(), *row) {
            note(row, Why::Null);
        }
        *row = None;
    }
    match (step, field.data_type()) {
        (Step::Same | Step::Cast, _) => {}
        (Step::Narrow, target) => {
            for (n, row) in held.iter().enumerate().filter_map(|(n, row)| row.map(|row| (n, row))) {
                if !narrow(array, n, target).ok_or_else(mismatch)? {
                    note(row, Why::Range);
                }
            }
        }
        (Step::Struct(children), DataType::Struct(fields)) => {
            let from = array.as_struct_opt().ok_or_else(mismatch)?;
            look_in_all(children, from.columns(), fields, &held, path, found)?;
        }
        (Step::List(step), DataType::List(element)) => {
            let from = array.as_list_opt::<i32>().ok_or_else(mismatch)?;
            let rows = spread(&held, from.offsets(), from.values().len());
            look_in(step, from.values(), element, &rows, &joined(path, element.name()), found)?;
        }
        (Step::Map(key, value), DataType::Map(entries, _)) => {
            let from = array.as_map_opt().ok_or_else(mismatch)?;
            let DataType::Struct(fields) = entries.data_type() else { return Err(mismatch()) };
            let [key_field, value_field] = &fields[..] else { return Err(mismatch()) };
            let rows = spread(&held, from.offsets(), from.entries().len());
            look_in(key, from.keys(), key_field, &rows, &joined(path, key_field.name()), found)?;
            look_in(value, from.values(), value_field, &rows, &joined(path, value_field.name()), found)?;
        }
        _ => return Err(mismatch()),
    }
    Ok(())
}

/// Whether a value fits the narrower type; none where the array is not of the wider one.
fn narrow(array: &ArrayRef, n: usize, target: &DataType) -> Option<bool> {
    match target {
        DataType::Int32 => Some(i32::try_from(array.as_primitive_opt::<Int64Type>()?.value(n)).is_ok()),
        DataType::Decimal128(precision, scale) => {
            let value = array.as_primitive_opt::<Decimal128Type>()?.value(n);
            Some(Decimal128Type::validate_decimal_precision(value, *precision, *scale).is_ok())
        }
        _ => None,
    }
}

/// For each element of lists, the row of the list that holds it.
fn spread(rows: &[Option<usize>], offsets: &OffsetBuffer<i32>, elements: usize) -> Vec<Option<usize>> {
    let mut spread = vec![None; elements];
    for (row, ends) in rows.iter().zip(offsets.windows(2)) {
        let &[start, end] = ends else { continue };
        let range = usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
        if let Some(held) = spread.get_mut(range) {
            held.fill(*row);
        }
    }
    spread
}

fn build(children: &[Child], columns: &[ArrayRef], fields: &Fields, rows: usize) -> Result<Vec<ArrayRef>, Fault> {
    children
        .iter()
        .zip(fields)
        .map(|(child, field)| match child {
            Child::Fill(value) => literal::repeat(value.as_ref(), field.data_type(), rows),
            Child::From(at, step) => {
                let column = columns.get(*at).ok_or_else(|| {
                    Fault::Mismatch(format!("a batch lacks the column `{}` of its own schema", field.name()))
                })?;
                step.apply(column, field.data_type())
            }
        })
        .collect()
}

impl Child {
    fn narrows(&self) -> bool {
        matches!(self, Self::From(_, step) if step.narrows())
    }
}

impl Step {
    fn narrows(&self) -> bool {
        match self {
            Self::Same | Self::Cast => false,
            Self::Narrow => true,
            Self::Struct(children) => children.iter().any(Child::narrows),
            Self::List(element) => element.narrows(),
            Self::Map(key, value) => key.narrows() || value.narrows(),
        }
    }

    fn apply(&self, array: &ArrayRef, target: &DataType) -> Result<ArrayRef, Fault> {
        let mismatch = || Fault::Mismatch(format!("{} is not of its own schema", array.data_type()));
        // A null where a nested field is required.
        let unfit = |fault: arrow::error::ArrowError| Fault::Mismatch(fault.to_string());
        Ok(match (self, target) {
            (Self::Same, _) => Arc::clone(array),
            (Self::Cast, _) => cast(array, target)?,
            // Every value that a row refers to was looked at; what stands under a null may be anything.
            (Self::Narrow, _) => {
                cast_with_options(array, target, &CastOptions { safe: true, ..CastOptions::default() })?
            }
            (Self::Struct(children), DataType::Struct(fields)) => {
                let from = array.as_struct_opt().ok_or_else(mismatch)?;
                let columns = build(children, from.columns(), fields, from.len())?;
                let nulls = from.nulls().cloned();
                Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, from.len()).map_err(unfit)?)
            }
            (Self::List(step), DataType::List(field)) => {
                let from = array.as_list_opt::<i32>().ok_or_else(mismatch)?;
                let values = step.apply(from.values(), field.data_type())?;
                let (offsets, nulls) = (from.offsets().clone(), from.nulls().cloned());
                Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, nulls).map_err(unfit)?)
            }
            (Self::Map(key, value), DataType::Map(entries, ordered)) => {
                let from = array.as_map_opt().ok_or_else(mismatch)?;
                let DataType::Struct(fields) = entries.data_type() else { return Err(mismatch()) };
                let [key_field, value_field] = &fields[..] else { return Err(mismatch()) };
                let columns = vec![
                    key.apply(from.keys(), key_field.data_type())?,
                    value.apply(from.values(), value_field.data_type())?,
                ];
                let inner = StructArray::try_new(fields.clone(), columns, None).map_err(unfit)?;
                let (offsets, nulls) = (from.offsets().clone(), from.nulls().cloned());
                Arc::new(MapArray::try_new(Arc::clone(entries), offsets, inner, nulls, *ordered).map_err(unfit)?)
            }
            _ => return Err(mismatch()),
        })
    }
}

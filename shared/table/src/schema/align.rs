//! Fitting an array tree to a schema's: columns by field id or name, missing ones filled, representations changed,
//! and Iceberg's promotions (int to long, float to double, wider decimals). Nothing else is ever cast.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema as ArrowSchema, SchemaRef};
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
    Struct(Vec<Child>),
    List(Box<Step>),
    Map(Box<Step>, Box<Step>),
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
        Ok(Self { target: Arc::clone(target), columns })
    }

    /// The batch in the target's schema. Columns that fit already are shared, not copied.
    ///
    /// # Errors
    /// [`Fault::Mismatch`] when a required column holds a null or the batch is not of the incoming schema.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, Fault> {
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
            let path = if around.is_empty() { wanted.name().clone() } else { format!("{around}.{}", wanted.name()) };
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

impl Step {
    fn apply(&self, array: &ArrayRef, target: &DataType) -> Result<ArrayRef, Fault> {
        let mismatch = || Fault::Mismatch(format!("{} is not of its own schema", array.data_type()));
        // A null where a nested field is required.
        let unfit = |fault: arrow::error::ArrowError| Fault::Mismatch(fault.to_string());
        Ok(match (self, target) {
            (Self::Same, _) => Arc::clone(array),
            (Self::Cast, _) => cast(array, target)?,
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

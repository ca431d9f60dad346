//! Arrow's cells as plain values.

use std::fmt;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType,
};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Int(i128),
    /// Bits, so that NaNs are told apart.
    Float(u32),
    Double(u64),
    Text(String),
    Bytes(Vec<u8>),
    Struct(Vec<(String, Cell)>),
    List(Vec<Cell>),
    Map(Vec<(Cell, Cell)>),
}

pub(crate) fn of(batch: &RecordBatch) -> Vec<Vec<(String, Cell)>> {
    let schema = batch.schema();
    (0..batch.num_rows())
        .map(|row| {
            let columns = schema.fields().iter().zip(batch.columns());
            columns.map(|(field, column)| (field.name().clone(), cell(column, row))).collect()
        })
        .collect()
}

fn cell(array: &ArrayRef, row: usize) -> Cell {
    if array.is_null(row) {
        return Cell::Null;
    }
    match array.data_type() {
        DataType::Boolean => Cell::Bool(array.as_boolean().value(row)),
        DataType::Int32 => Cell::Int(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Cell::Int(array.as_primitive::<Int64Type>().value(row).into()),
        DataType::Date32 => Cell::Int(array.as_primitive::<Date32Type>().value(row).into()),
        DataType::Time64(_) => Cell::Int(array.as_primitive::<Time64MicrosecondType>().value(row).into()),
        DataType::Timestamp(..) => Cell::Int(array.as_primitive::<TimestampMicrosecondType>().value(row).into()),
        DataType::Decimal128(..) => Cell::Int(array.as_primitive::<Decimal128Type>().value(row)),
        DataType::Float32 => Cell::Float(array.as_primitive::<Float32Type>().value(row).to_bits()),
        DataType::Float64 => Cell::Double(array.as_primitive::<Float64Type>().value(row).to_bits()),
        DataType::Utf8 => Cell::Text(array.as_string::<i32>().value(row).to_owned()),
        DataType::Binary => Cell::Bytes(array.as_binary::<i32>().value(row).to_vec()),
        DataType::FixedSizeBinary(_) => Cell::Bytes(array.as_fixed_size_binary().value(row).to_vec()),
        DataType::Struct(fields) => {
            let members = fields.iter().zip(array.as_struct().columns());
            Cell::Struct(members.map(|(field, column)| (field.name().clone(), cell(column, row))).collect())
        }
        DataType::List(_) => {
            let elements = array.as_list::<i32>().value(row);
            Cell::List((0..elements.len()).map(|row| cell(&elements, row)).collect())
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let (from, to) = (map.value_offsets()[row] as usize, map.value_offsets()[row + 1] as usize);
            Cell::Map((from..to).map(|row| (cell(map.keys(), row), cell(map.values(), row))).collect())
        }
        other => panic!("no decoder makes {other}"),
    }
}

/// Rows of `name=value` texts.
pub(crate) fn print(batch: &RecordBatch) -> Vec<String> {
    let print = |row: Vec<(String, Cell)>| {
        let cells: Vec<String> = row.into_iter().map(|(name, cell)| format!("{name}={cell}")).collect();
        cells.join(" ")
    };
    of(batch).into_iter().map(print).collect()
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |parts: Vec<String>| parts.join(",");
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(bits) => write!(f, "{:?}", f32::from_bits(*bits)),
            Self::Double(bits) => write!(f, "{:?}", f64::from_bits(*bits)),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Bytes(bytes) => write!(f, "x{bytes:02x?}"),
            Self::Struct(members) => {
                write!(f, "{{{}}}", join(members.iter().map(|(name, cell)| format!("{name}:{cell}")).collect()))
            }
            Self::List(elements) => write!(f, "[{}]", join(elements.iter().map(Self::to_string).collect())),
            Self::Map(entries) => {
                write!(f, "{{{}}}", join(entries.iter().map(|(key, value)| format!("{key}:{value}")).collect()))
            }
        }
    }
}

/// Whether a row is what it should be: maps in any order, JSON compared as values.
pub(crate) fn same(actual: &Cell, expected: &Cell) -> bool {
    match (actual, expected) {
        (Cell::Struct(actual), Cell::Struct(expected)) => {
            actual.len() == expected.len() && actual.iter().zip(expected).all(|((a, x), (e, y))| a == e && same(x, y))
        }
        (Cell::List(actual), Cell::List(expected)) => {
            actual.len() == expected.len() && actual.iter().zip(expected).all(|(x, y)| same(x, y))
        }
        (Cell::Map(actual), Cell::Map(expected)) => {
            actual.len() == expected.len()
                && expected.iter().all(|(key, value)| actual.iter().any(|(a, x)| a == key && same(x, value)))
        }
        (Cell::Text(actual), Cell::Text(expected)) if actual != expected => {
            let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
            matches!((parse(actual), parse(expected)), (Some(actual), Some(expected)) if alike(&actual, &expected))
        }
        _ => actual == expected,
    }
}

/// Whether two JSON values are the same, but for the last digit of a number: this parser rounds long ones.
fn alike(actual: &serde_json::Value, expected: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (actual, expected) {
        (Number(actual), Number(expected)) => {
            let (actual, expected) = (actual.as_f64().unwrap(), expected.as_f64().unwrap());
            (actual - expected).abs() <= expected.abs() * 1e-14
        }
        (Array(actual), Array(expected)) => {
            actual.len() == expected.len() && actual.iter().zip(expected).all(|(a, e)| alike(a, e))
        }
        (Object(actual), Object(expected)) => {
            actual.len() == expected.len()
                && expected.iter().all(|(key, value)| actual.get(key).is_some_and(|actual| alike(actual, value)))
        }
        (actual, expected) => actual == expected,
    }
}

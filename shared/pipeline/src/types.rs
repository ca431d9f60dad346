//! Logical column types, written as Iceberg writes them: `struct<sku: string, qty: int>`.

use serde::{Deserialize, Serialize};

/// An Iceberg type without field ids. A struct's fields keep their order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Type {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    /// precision 1..=38, scale 0..=precision
    Decimal(u8, u8),
    Date,
    /// microseconds of the day
    Time,
    /// microseconds, without zone
    Timestamp,
    /// microseconds, UTC
    Timestamptz,
    String,
    Uuid,
    Fixed(u32),
    Binary,
    Struct(Vec<Field>),
    List { element: Box<Type>, required: bool },
    Map { key: Box<Type>, value: Box<Type>, required: bool },
}

/// One field of a struct.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// The field's name.
    pub name: String,
    /// Its type.
    pub data_type: Type,
    /// Whether null is refused.
    pub required: bool,
}

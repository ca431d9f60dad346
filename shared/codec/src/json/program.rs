//! What decoding an object comes down to: what to do with each member's value, and where to put it.

use std::sync::Arc;

use super::schema::Unit;
use crate::columns::{Withheld, Within};
use crate::naming::Spelled;

/// What is done with a value. Null is nothing to any of them.
pub(super) enum Op {
    /// It is in no column.
    Skip,
    Single {
        store: Store,
        slot: usize,
        present: usize,
    },
    Object(Box<Object>),
    List {
        list: usize,
        element: Box<Op>,
        present: Option<usize>,
    },
    Map {
        list: usize,
        value: Box<Op>,
        present: usize,
    },
    /// Several columns of one value.
    Each(Box<[Op]>),
}

pub(super) struct Object {
    /// The known members, in the order of the schema: most writers write them in that order, too.
    pub(super) members: Box<[Member]>,
    /// The places of the members, by their names.
    pub(super) by_name: Box<[usize]>,
    /// The bit that is set where the object is there.
    pub(super) present: Option<usize>,
    pub(super) unknown: Unknown,
    /// The places of the members by how columns are spelled, for names of which none is a member's.
    pub(super) spelled: Spelled,
    /// Whether a member has a default.
    pub(super) has_defaults: bool,
}

pub(super) struct Member {
    pub(super) name: Box<str>,
    /// The name as most writers write it: in quotes.
    pub(super) quoted: Box<[u8]>,
    pub(super) op: Op,
    /// The JSON of what it is where it is missing.
    pub(super) default: Option<Box<[u8]>>,
}

/// What is done with a member that the schema does not know.
pub(super) enum Unknown {
    Skip,
    Refuse,
    /// It is kept as JSON.
    Keep {
        /// The path to the object.
        path: Box<[String]>,
        /// Whether that is in a list or map, so that a record may have several of it.
        several: bool,
        /// What of it is to be in no column, where there is such.
        withheld: Option<(Arc<Withheld>, Within)>,
    },
}

/// How a single value is read and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    /// A number's exact digits, or a string's; `encoded` where a string is the base64 of an unscaled value of that scale.
    Decimal {
        precision: u8,
        scale: u8,
        encoded: Option<u8>,
    },
    /// A date, a time or both: text, and numbers where they count something.
    Date(Option<Unit>),
    Time(Option<Unit>),
    Moment {
        unit: Option<Unit>,
        instant: bool,
    },
    /// A string's content.
    Text,
    /// A time of the day as every column of strings has it.
    TimeText(Option<Unit>),
    Uuid,
    /// Bytes in base64; of this length, where one is asked for.
    Bytes(Option<u32>),
    /// A whole number's digits.
    IntegerText,
    /// A number as it is written.
    NumberText,
    BooleanText,
    /// Any value as it is written.
    Json,
    /// An object or an array as it is written.
    Nested,
    /// A string's content; objects and arrays as they are written.
    TextOrNested,
}

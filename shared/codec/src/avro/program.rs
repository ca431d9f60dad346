//! What decoding a record comes down to: what to do with each value in the writer's order, and where to put it.

use super::resolve::{Least, Length, Read, Resolution};
use super::schema::Schema;
use crate::rows::names::Names;
use crate::rows::scale::Scale;

/// A writer's records compiled for a set of columns.
pub(super) struct Program {
    pub(super) root: Op,
    /// The writer's types, and the reader's, which its defaults are written in.
    pub(super) writer: Side,
    pub(super) reader: Side,
    /// How the writer's values are read as the reader's, for what becomes JSON.
    pub(super) resolution: Resolution,
    /// Whether a field that the reader does not know rejects the record.
    pub(super) strict: bool,
    /// What is written down of fields that the reader does not know.
    pub(super) foreign: Vec<Foreign>,
    /// The list that holds these, where they are kept.
    pub(super) rest: Option<usize>,
}

/// A schema, and how many bytes its values take at least.
pub(super) struct Side {
    pub(super) schema: Schema,
    pub(super) least: Least,
}

/// A field that the reader does not know, where such are kept.
pub(super) struct Foreign {
    /// Its path.
    pub(super) path: String,
    /// The place of the first of this path: branches of a union may have a field of one name each.
    pub(super) first: usize,
    /// Whether it is in a list or map, so that a record may have several of it.
    pub(super) several: bool,
    /// Its type with itself.
    pub(super) resolution: Resolution,
    pub(super) of: usize,
}

/// What is done with a value.
pub(super) enum Op {
    /// Nothing: it takes no bytes.
    Nothing,
    /// There is no such value.
    Refuse(Box<str>),
    /// A writer's value that is in no column.
    Skip(usize),
    /// A part of a default that is in no column.
    SkipOwn(usize),
    /// A writer's value that is unknown to the reader.
    Ignore(usize),
    /// So many bytes are in no column.
    Pass(usize),
    /// It is unknown to the reader, and kept: its place in [`Program::foreign`].
    Keep(usize),
    Number {
        read: Read,
        store: Store,
        slot: usize,
        present: Option<usize>,
    },
    /// A string, or bytes; `utf8` where it has to be.
    Text {
        length: Length,
        text: usize,
        utf8: bool,
        present: Option<usize>,
    },
    Symbol {
        symbols: Box<Symbols>,
        text: usize,
        present: Option<usize>,
    },
    Decimal {
        length: Length,
        to: Box<Digits>,
        present: Option<usize>,
    },
    /// Text to the sixteen bytes of a UUID.
    Uuid {
        text: usize,
        present: Option<usize>,
    },
    /// The sixteen bytes to text.
    UuidText {
        text: usize,
        present: Option<usize>,
    },
    Record {
        fields: Box<[Field]>,
        present: Option<usize>,
    },
    /// A value as if these bytes were in the payload.
    Default {
        bytes: Box<[u8]>,
        op: Box<Op>,
    },
    /// The number of one of these comes first.
    Union(Box<[Op]>),
    List {
        list: usize,
        element: Box<Op>,
        least: usize,
        present: Option<usize>,
    },
    Map {
        list: usize,
        value: Box<Op>,
        least: usize,
        present: Option<usize>,
    },
    Json {
        node: usize,
        of: usize,
        text: usize,
        present: Option<usize>,
    },
    /// Several columns of one value.
    Each(Box<[Op]>),
}

pub(super) struct Field {
    pub(super) name: Box<str>,
    pub(super) op: Op,
}

/// What the numbers of an enum stand for.
pub(super) struct Symbols {
    pub(super) names: Names,
    /// Why those without a name have none.
    pub(super) refused: Vec<(u64, String)>,
}

/// A decimal number's column.
pub(super) struct Digits {
    /// Of sixteen bytes, or text.
    pub(super) slot: usize,
    pub(super) is_text: bool,
    /// Larger ones than this, either way, do not fit.
    pub(super) max: i128,
    /// Digits behind the point.
    pub(super) scale: usize,
    /// What it takes to get to the column's scale.
    pub(super) factor: i128,
}

/// How a number is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    Word4,
    Word8,
    Word16,
    Bit,
    IntToDouble,
    FloatToDouble,
    SignedText,
    BoolText,
    /// In another unit.
    Scaled(Scale),
    /// Microseconds of the day.
    OfDay(Scale),
    OfDayText(Scale),
    DateText,
    /// Nanoseconds and their unit: the text keeps what a unit has.
    Moment {
        per_second: i64,
        zone: bool,
    },
}

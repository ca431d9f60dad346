//! Where values stand while a row is open, and how columns are put together from them.

/// A cell of the open row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Word4(usize),
    Word8(usize),
    Word16(usize),
    Bit(usize),
    Text(usize),
    List(usize),
    Moment(usize),
    Oneof(usize),
    Raw(usize),
}

/// A column, or a part of one, as it is put together from a level.
pub(crate) struct Output {
    /// The validity bit; none where every row has a value.
    pub(crate) valid: Option<usize>,
    pub(crate) source: Source,
}

pub(crate) enum Source {
    Word4(usize),
    Word8(usize),
    Word16(usize),
    Bit(usize),
    Text(usize),
    Struct(Vec<Output>),
    List(usize, Box<Output>),
    Map(usize, Box<(Output, Output)>),
}

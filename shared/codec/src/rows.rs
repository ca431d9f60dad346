//! Rows in the making, whatever their records are written in: columns that are written value by value, closed row by row,
//! taken back where a record turns out to be none, and handed over as Arrow arrays.

mod arrays;
pub(crate) mod batch;
pub(crate) mod cells;
mod demand;
pub(crate) mod digits;
pub(crate) mod laid;
pub(crate) mod level;
pub(crate) mod names;
mod nothing;
pub(crate) mod padded;
pub(crate) mod scale;
pub(crate) mod stop;
pub(crate) mod text;

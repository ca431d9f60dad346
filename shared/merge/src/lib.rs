//! Which rows win, worked out from Arrow arrays alone: rows that want to enter on one side, rows of the table on the
//! other.
//!
//! Entry point: [`dedup::Dedup`]. Nothing here reads or writes anything.

pub mod dedup;
mod keys;

use model::failure::Kind;

/// Why rows can't be compared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A type that has no order, or arrays that are not of the types given.
    #[error("keys can't be compared: {0}")]
    Arrow(#[from] arrow::error::ArrowError),
    /// More rows than one run may hold.
    #[error("more than 2^32 rows at once")]
    TooMany,
    /// Arrays of one batch that do not go together.
    #[error("{0}")]
    Shape(&'static str),
}

impl Error {
    /// What happens next.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        Kind::Bug
    }
}

//! Which rows win, worked out from Arrow arrays alone: rows that want to enter on one side, rows of the table on the
//! other.
//!
//! Entry points: [`dedup::Dedup`], [`upsert::Upsert`]. Nothing here reads or writes anything.

pub mod dedup;
mod keys;
mod sieve;
pub mod upsert;

use arrow::array::{Array, PrimitiveArray, StringViewArray};
use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType};
use model::failure::Kind;

/// Where rows come from: what decides between rows that are alike otherwise. All of one length.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The topic of each row.
    pub topics: StringViewArray,
    /// Its partition.
    pub partitions: PrimitiveArray<Int32Type>,
    /// Its offset.
    pub offsets: PrimitiveArray<Int64Type>,
    /// Kafka's timestamp, in microseconds; null is lowest.
    pub timestamps: PrimitiveArray<TimestampMicrosecondType>,
    /// Which of its record's rows this is.
    pub ordinals: PrimitiveArray<Int32Type>,
}

impl Origin {
    /// How many rows there are.
    fn rows(&self) -> Result<usize, Error> {
        let rows = self.offsets.len();
        let lengths = [self.topics.len(), self.partitions.len(), self.timestamps.len(), self.ordinals.len()];
        match lengths.iter().all(|length| *length == rows) {
            true => Ok(rows),
            false => Err(Error::Shape("the arrays of a batch differ in length")),
        }
    }
}

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

//! Folds staged objects into an Iceberg table, each coordinate once.
//!
//! Entry point: [`Fold::run`]. One run lists what is staged, judges every coordinate against the ledger that travels in
//! the table, writes the admitted rows as data files, and makes rows and ledger visible in one compare-and-swap (I2, I3).
//! [`plan::plan`] is the pure middle: it can be printed, tested and refused.
//!
//! What a fold never does: delete a file or a staged object, commit the ledger apart from its rows, trust its own memory
//! of what an earlier run did.

mod bind;
mod commit;
mod dedup;
mod error;
mod evidence;
mod intake;
mod ledger_property;
pub mod plan;
mod report;
mod rows;
mod run;
mod state;

pub use error::Error;
pub use report::{Report, TableReport};
pub use run::{Fold, Settings};

#[cfg(test)]
mod tests;

//! Folds staged objects into an Iceberg table, each coordinate once.
//!
//! Entry point: [`Fold::run`]. One run lists what is staged, judges every coordinate against the ledger that travels in
//! the table, writes the admitted rows as data files, and those that the table does not take as dead letters, and makes rows
//! and ledger visible, with what they ask of the table's columns, in one compare-and-swap (I2, I3).
//! [`plan::plan`] is the pure middle: it can be printed, tested and refused.
//!
//! What a fold never does: delete a file or a staged object, commit the ledger apart from its rows, trust its own memory
//! of what an earlier run did.

mod ahead;
mod anchor;
mod bind;
mod budget;
mod commit;
mod dead;
mod dedup;
mod error;
mod evidence;
mod evolve;
mod former;
mod high_water;
mod history;
mod intake;
mod join;
mod keys;
mod ledger_property;
mod many;
mod marks;
mod ordered;
mod overlap;
pub mod pause;
pub mod plan;
mod report;
pub mod requests;
mod reset;
mod resets;
pub mod retained;
pub mod rewind;
mod rows;
mod run;
mod state;
mod upsert;

pub use bind::{MAPPING_VERSION, bound, table_columns};
pub use budget::Budget;
pub use error::Error;
pub use evolve::{Change, Foreseen, What, foresee};
pub use join::{Difference, differences, order_text, spec_text};
pub use marks::{ForeseenMarks, foresee_marks};
pub use report::{Report, TableFailure, TableReport};
pub use reset::{Reset, ResetPlan};
pub use run::{Fold, Settings};

#[cfg(test)]
mod tests;

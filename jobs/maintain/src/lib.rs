//! Keeps what frazil stores from growing without end, and takes nothing away that is still needed.
//!
//! Entry point: [`Maintain::run`]. In this version it removes staged objects, and the settlements behind them.
//!
//! What it never does: remove an object because it is old. A staged object goes once a retained snapshot of main, itself
//! older than the retention, shows that all of it was settled (I1); a settlement once nothing names it.

mod error;
mod report;
mod run;
mod settlements;
mod staging_objects;

pub use error::Error;
pub use report::Report;
pub use run::{Maintain, Settings};

#[cfg(test)]
mod tests;

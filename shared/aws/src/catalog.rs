//! Iceberg's catalogs on AWS.
//!
//! Each call is one attempt: of a commit that was sent again after a lost answer nobody could say any more whether it was its own first
//! attempt that stands in its way. What a failure means is told by [`table::catalog::Error`]'s kinds.

mod fault;
pub mod glue;
mod hive;

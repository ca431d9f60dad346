//! One event after another through the whole of ingest, into a store that can fail.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod company;
mod framings;
mod json;
mod keys;
mod memory;
mod plan;
mod private;
mod records;
mod registered;
mod routes;
mod services;
mod shop;
mod storing;
mod topic;
mod values;

//! The ingest function: one Kafka event of Lambda becomes one staged object, and its bad records dead letters.
//!
//! Entry points: [`Ingest::new`] once, then [`Ingest::handle`] for each event. [`Ingest::plan`] is the part without I/O:
//! the same bytes in the same minute always make the same objects; [`Ingest::stage`] looks the schemas up first that records
//! name. [`event::Reader`] reads events on its own.
//!
//! Order is everything here (I1): dead letters are durable first, then the one staged object, which is written even when
//! it has no row, then comes the answer. Any record that is not known to be stored fails the whole invocation.
//!
//! This crate never links Iceberg, DataFusion or a Kafka client, never keeps a record from one invocation to the next, and
//! never reads a key unless the pipeline asks for it.

pub mod config;
mod error;
pub mod event;
mod execute;
mod ingest;
mod outcome;
mod plan;
mod registries;
mod salt;
mod schemas;
mod tables;
mod target;
mod versions;
mod writers;

pub use error::Error;
pub use ingest::{Ingest, IngestConfig, KeyConfig};
pub use outcome::{Outcome, Response};
pub use plan::{MAPPING_VERSION, Planned, Staged};
pub use registries::{registries, registries_of, source};
pub use salt::salt;
pub use schemas::own_schema;

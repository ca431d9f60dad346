//! Kafka, for what polls and produces without Lambda: client settings as Kafka's own tools take them, a consumer of chosen
//! partitions, and a producer. The only crate that names `rdkafka`.
//!
//! Entry points: [`settings::Settings::read`], [`consumer::Consumer::new`], [`producer::Producer::new`]. Logins by AWS's IAM
//! need tokens, which whoever makes a client brings along as [`Tokens`]. Nothing here says a secret: not in errors, and not
//! in `Debug`.

mod client;
mod commits;
pub mod consumer;
pub mod error;
mod jaas;
pub mod producer;
pub mod properties;
mod rules;
pub mod settings;

pub use client::{Token, Tokens};
pub use consumer::{Consumer, Record, TimestampType};
pub use error::Error;
pub use producer::Producer;
pub use settings::{Fault, Faults, Given, Login, MskIam, Settings};

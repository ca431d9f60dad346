//! What may be typed after the commands that look at files before anything runs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pipeline::resolved::Framing;

use super::Named;

/// `frazil init`
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("origin").required(true).multiple(true).args(["schema", "samples", "subject", "from_topic"]))]
pub struct Init {
    /// The schema of the topic's values: a .proto, a .desc, an .avsc, or a JSON Schema as .json
    #[arg(value_name = "SCHEMA", conflicts_with_all = ["samples", "subject", "from_topic"])]
    pub schema: Option<PathBuf>,
    /// JSON values of the topic, one a line, to guess columns from; Kafka Connect's, of schema and payload, too; `-` reads stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["subject", "from_topic"])]
    pub samples: Option<PathBuf>,
    /// The registry that keeps the schema: its name in frazil.toml, or the URL of one that speaks Confluent's interface
    #[arg(long, value_name = "NAME", conflicts_with_all = ["schema", "samples"])]
    pub registry: Option<String>,
    /// The schema's name in the registry
    #[arg(long, value_name = "S")]
    pub subject: Option<String>,
    /// Reads some of the topic's records to tell their framing and format
    #[arg(long)]
    pub from_topic: bool,
    #[cfg(feature = "kafka")]
    #[command(flatten)]
    pub kafka: super::Kafka,
    /// The topic
    #[arg(long, value_name = "TOPIC")]
    pub topic: String,
    /// The protobuf message of its values; the only one there is unless given
    #[arg(long, value_name = "NAME")]
    pub message: Option<String>,
    /// The table, as namespace.name; made of the topic's name unless given
    #[arg(long, value_name = "TABLE")]
    pub table: Option<String>,
    /// The pipeline's name; the table's unless given
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// What surrounds the values (bare; of a registry, as its kind has it; of a topic, as is found)
    #[arg(long, value_name = "FRAMING", value_parser = Framing::NAMED.map(|(word, _)| word))]
    pub framing: Option<String>,
    /// Shows the file, and writes none
    #[arg(long)]
    pub dry_run: bool,
}

/// `frazil check`
#[derive(Clone, Debug, Args)]
pub struct Check {
    /// A pipeline's name or the path of its file; all of them unless given
    #[arg(value_name = "PIPELINE")]
    pub pipeline: Option<String>,
    /// All pipelines there are
    #[arg(long, conflicts_with = "pipeline")]
    pub all: bool,
}

/// `frazil plan`
#[derive(Clone, Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    pub named: Named,
    /// Records that come in a second, for the estimate of files
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub records_per_second: Option<u64>,
    /// Bytes of one record, for the estimate of files
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub record_bytes: Option<u64>,
    /// Ends with exit code 3 when applying it would change something
    #[arg(long)]
    pub exit_code: bool,
}

/// `frazil test`
#[derive(Clone, Debug, Args)]
pub struct Test {
    #[command(flatten)]
    pub named: Named,
    /// Where the samples are and what is expected of them (samples/PIPELINE of the project)
    #[arg(long, value_name = "DIR")]
    pub samples: Option<PathBuf>,
    /// Writes what the samples come to where it is not as expected
    #[arg(long)]
    pub update: bool,
    /// Says what would be written; nothing is
    #[arg(long, requires = "update")]
    pub dry_run: bool,
}

/// `frazil schema`
#[derive(Clone, Debug, Args)]
pub struct Schema {
    /// Which of the files
    #[arg(value_enum, value_name = "FILE")]
    pub file: Described,
}

/// The files that people write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Described {
    /// pipelines/<name>.toml
    Pipeline,
    /// frazil.toml
    Environment,
}

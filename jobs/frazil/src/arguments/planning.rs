//! What may be typed after the commands that look at files before anything runs.

use clap::{Args, ValueEnum};

use super::Named;

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

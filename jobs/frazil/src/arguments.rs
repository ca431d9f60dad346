//! What may be typed after `frazil`.

#[cfg(feature = "kafka")]
mod kafka;
mod planning;
mod sizing;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

#[cfg(feature = "kafka")]
pub use kafka::{Backfill, Form, Kafka, Mapping, Produce, Run, Tail, Written};
pub use planning::{Check, Described, Init, Plan, Schema, Test};
pub use sizing::{Architecture, Cost, Polling, Size};

/// Kafka topics into Iceberg tables: exactly once, with nothing running in between.
#[derive(Debug, Parser)]
#[command(name = "frazil", version, about, disable_help_subcommand = true, arg_required_else_help = true)]
pub struct Arguments {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// The environment, a block of frazil.toml (`local` when none is chosen)
    #[arg(long, global = true, env = "FRAZIL_ENV", value_name = "ENV", help_heading = "Everywhere")]
    pub env: Option<String>,
    /// The embedded environment in a folder: staging, warehouse and catalog under DIR, without frazil.toml
    #[arg(long, global = true, env = "FRAZIL_DIR", value_name = "DIR", help_heading = "Everywhere")]
    pub dir: Option<PathBuf>,
    /// One JSON document on stdout, whether it succeeds or not
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub json: bool,
    /// Nothing on stderr but failures
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Everywhere")]
    pub quiet: bool,
    /// More of the log on stderr; twice for all of it
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Everywhere")]
    pub verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Generates a topic's worth of events, ingests and folds them, and shows what is in the table
    Demo(Demo),
    /// Writes a pipeline file for a topic: from a schema, samples, a registry, or the topic itself
    Init(Init),
    /// Finds every fault of frazil.toml, of pipeline files and of their schemas, offline; exit code 3 when there are some
    Check(Check),
    /// Shows what a pipeline comes to: columns, table, files of a fold, and what would change in the table that is there
    Plan(Plan),
    /// Holds sample records against the rows that are expected of them, offline; exit code 3 when some are otherwise
    Test(Test),
    /// Prints the JSON Schema of one of the two files, for editors
    Schema(Schema),
    /// Runs the ingest function on one captured Lambda event
    Ingest(Ingest),
    /// Folds what is staged into the pipeline's tables, whatever its triggers say
    Fold(Fold),
    /// Decodes a payload as the pipeline would, storing nothing; exit code 3 when it would be a dead letter
    Decode(Decode),
    /// Answers SQL over the catalog's tables, named `namespace.table`
    Query(Query),
    /// Removes staged objects and settlements that are not needed any more
    Maintain(Maintain),
    /// Reads the pipeline's topics, ingests and folds, until it is told to end (SIGTERM, Ctrl-C)
    #[cfg(feature = "kafka")]
    Run(Run),
    /// Reads a stretch of the pipeline's topics, ingests and folds it, and ends
    #[cfg(feature = "kafka")]
    Backfill(Backfill),
    /// Shows records as they come, decoded as the pipeline would; stores nothing
    #[cfg(feature = "kafka")]
    Tail(Tail),
    /// Sends records to a topic: Employee records, or values as JSON, in any format and framing
    #[cfg(feature = "kafka")]
    Produce(Produce),
    /// Holds a pipeline's folds or ingests back
    Pause(Pause),
    /// Lets a pipeline go on
    Unpause(Unpause),
    /// Moves a table back to an earlier snapshot, the ledgers of all its pipelines with it, and pauses them
    Rollback(Rollback),
    /// Goes on after a rollback, by frazil or by another hand
    Recover(Recover),
    /// Works out what a pipeline costs on AWS, line by line, with every formula
    Cost(Cost),
    /// Works out how much a Kafka cluster takes; exit code 3 when it is asked for more than is recommended
    Size(Size),
    /// Counts the offsets of a topic that was deleted and made again from their own start
    ResetSource(ResetSource),
}

impl Command {
    /// The name in schemas and messages.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Demo(_) => "demo",
            Self::Init(_) => "init",
            Self::Check(_) => "check",
            Self::Plan(_) => "plan",
            Self::Test(_) => "test",
            Self::Schema(_) => "schema",
            Self::Ingest(_) => "ingest",
            Self::Fold(_) => "fold",
            Self::Decode(_) => "decode",
            Self::Query(_) => "query",
            Self::Maintain(_) => "maintain",
            #[cfg(feature = "kafka")]
            Self::Run(_) => "run",
            #[cfg(feature = "kafka")]
            Self::Backfill(_) => "backfill",
            #[cfg(feature = "kafka")]
            Self::Tail(_) => "tail",
            #[cfg(feature = "kafka")]
            Self::Produce(_) => "produce",
            Self::Pause(_) => "pause",
            Self::Unpause(_) => "unpause",
            Self::Rollback(_) => "rollback",
            Self::Recover(_) => "recover",
            Self::Cost(_) => "cost",
            Self::Size(_) => "size",
            Self::ResetSource(_) => "reset-source",
        }
    }
}

/// The pipeline that a command works for.
#[derive(Clone, Debug, Args)]
pub struct Named {
    /// A pipeline's name or the path of its file; may be left out when there is one
    #[arg(value_name = "PIPELINE")]
    pub pipeline: Option<String>,
}

/// `frazil demo`
#[derive(Clone, Debug, Args)]
pub struct Demo {
    /// Records to send, not counting redeliveries
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    pub records: u64,
    /// The share of records that can't be decoded, 0 to 1
    #[arg(long, value_name = "RATE", default_value_t = 0.0001, value_parser = share)]
    pub bad: f64,
    /// How rows change the table
    #[arg(long, value_enum, default_value_t = Mode::Append)]
    pub mode: Mode,
    /// How many folds, spread over the run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub folds: u32,
    /// Repeats a run exactly
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Writes what the table must hold, as sums per column, to FILE
    #[arg(long, value_name = "FILE")]
    pub truth: Option<PathBuf>,
    /// Says what would be done, and does nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// How rows change the demo's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Every row is inserted
    Append,
    /// Rows of one employee within an hour are one
    Dedup,
}

/// `frazil ingest`
#[derive(Clone, Debug, Args)]
pub struct Ingest {
    #[command(flatten)]
    pub named: Named,
    /// The event's JSON; `-` reads stdin
    #[arg(long, value_name = "FILE")]
    pub event: PathBuf,
    /// Decodes and says what would be staged; nothing is written
    #[arg(long)]
    pub dry_run: bool,
}

/// `frazil fold`
#[derive(Clone, Debug, Args)]
pub struct Fold {
    #[command(flatten)]
    pub named: Named,
    /// Says what would be folded; nothing is written
    #[arg(long)]
    pub dry_run: bool,
}

/// `frazil decode`
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("payload").args(["hex", "base64", "file", "null"]))]
pub struct Decode {
    #[command(flatten)]
    pub named: Named,
    /// The value in hexadecimal; `-` reads one a line from stdin (as without any of these) and answers JSON Lines
    #[arg(long, value_name = "H")]
    pub hex: Option<String>,
    /// The value in base64; `-` reads one a line from stdin and answers JSON Lines
    #[arg(long, value_name = "B")]
    pub base64: Option<String>,
    /// The value as a file's bytes
    #[arg(long, value_name = "F")]
    pub file: Option<PathBuf>,
    /// A null value: a tombstone
    #[arg(long)]
    pub null: bool,
    /// The key in hexadecimal
    #[arg(long, value_name = "H")]
    pub key_hex: Option<String>,
    /// A header, its value in hexadecimal; may be repeated
    #[arg(long, value_name = "NAME=HEX")]
    pub header: Vec<String>,
}

/// `frazil query`
#[derive(Clone, Debug, Args)]
pub struct Query {
    /// One SELECT (or WITH, VALUES, EXPLAIN, SHOW TABLES, DESCRIBE)
    #[arg(value_name = "SQL")]
    pub sql: String,
    /// How the answer is written (`table`, or `json` under --json)
    #[arg(long, value_enum)]
    pub format: Option<Format>,
}

/// How `query` writes its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// One document: columns and rows
    Json,
    /// One object a line
    Jsonl,
    /// RFC 4180, with a header line
    Csv,
}

/// `frazil maintain`
#[derive(Clone, Debug, Args)]
pub struct Maintain {
    #[command(flatten)]
    pub named: Named,
    /// One kind of maintenance (this version has one)
    #[arg(long, value_enum)]
    pub only: Option<Kind>,
    /// Says what would be removed; nothing is
    #[arg(long)]
    pub dry_run: bool,
}

/// A kind of maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Staged objects that were settled longer ago than the retention, and settlements that nothing names
    Staging,
}

/// What a pause holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Held {
    /// Kafka to staged objects
    Ingest,
    /// Staged objects to snapshots
    Fold,
}

/// `frazil pause`
#[derive(Clone, Debug, Args)]
pub struct Pause {
    #[command(flatten)]
    pub named: Named,
    /// What to hold back (everything unless given)
    #[arg(long, value_enum)]
    pub stage: Option<Held>,
    /// Why, for whoever meets it
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
    /// Says what would be held back; nothing is written
    #[arg(long)]
    pub dry_run: bool,
}

/// `frazil unpause`
#[derive(Clone, Debug, Args)]
pub struct Unpause {
    #[command(flatten)]
    pub named: Named,
    /// What goes on (everything unless given)
    #[arg(long, value_enum)]
    pub stage: Option<Held>,
    /// Says what would go on; nothing is written
    #[arg(long)]
    pub dry_run: bool,
}

/// `frazil rollback`
#[derive(Clone, Debug, Args)]
pub struct Rollback {
    #[command(flatten)]
    pub named: Named,
    /// Which of the pipeline's tables, where it has many
    #[arg(long, value_name = "NAMESPACE.NAME")]
    pub table: Option<String>,
    /// `snapshot:ID`, or a time (2026-11-01T00:00Z, -2h): to the snapshot that was main's newest then
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true)]
    pub to: String,
    /// Does it without asking
    #[arg(long)]
    pub yes: bool,
    /// Says what would be done, and what would be missing; exit code 3 when something would
    #[arg(long)]
    pub dry_run: bool,
}

/// `frazil recover`
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("choice").args(["refold", "keep_ledger"]).required(true))]
pub struct Recover {
    #[command(flatten)]
    pub named: Named,
    /// Which of the pipeline's tables, where it has many
    #[arg(long, value_name = "NAMESPACE.NAME")]
    pub table: Option<String>,
    /// What main no longer holds is folded again from what is staged
    #[arg(long)]
    pub refold: bool,
    /// What main no longer holds stays away
    #[arg(long)]
    pub keep_ledger: bool,
    /// Does it without asking
    #[arg(long)]
    pub yes: bool,
    /// Says what would be done, and what would be missing; exit code 3 when something would
    #[arg(long)]
    pub dry_run: bool,
}

/// `frazil reset-source`
#[derive(Clone, Debug, Args)]
pub struct ResetSource {
    #[command(flatten)]
    pub named: Named,
    /// The topic that was made again
    #[arg(long, value_name = "T")]
    pub topic: String,
    /// One partition of it (all of them unless given)
    #[arg(long, value_name = "P")]
    pub partition: Option<i32>,
    /// What was staged in this minute or later is of the new topic (from the first object that contradicts the ledger on,
    /// unless given; where none does, it has to be)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub since: Option<String>,
    /// Does it without asking
    #[arg(long)]
    pub yes: bool,
    /// Says what would be done; nothing is written
    #[arg(long)]
    pub dry_run: bool,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("it must be a number from 0 to 1".to_owned()),
    }
}

/// What a command line asks for, as far as it can be told without its being right: a usage error too is answered in the
/// form that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// Whether `--json` is among the arguments.
    pub json: bool,
    /// The first word that is a command.
    pub command: Option<String>,
}

impl Glance {
    /// Looks at the arguments, program name first.
    #[must_use]
    pub fn at(arguments: &[OsString]) -> Self {
        let commands = Arguments::command();
        let mut seen = Self::default();
        for argument in arguments.iter().skip(1) {
            match argument.to_str() {
                Some("--") => break,
                Some("--json") => seen.json = true,
                Some(word) if seen.command.is_none() => {
                    seen.command = commands.find_subcommand(word).map(|command| command.get_name().to_owned());
                }
                _ => {}
            }
        }
        seen
    }
}

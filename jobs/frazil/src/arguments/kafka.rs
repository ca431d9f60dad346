//! What commands take that speak Kafka.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::Named;
pub use crate::encoding::framing::Form;

/// The flags of Kafka's own tools.
#[derive(Clone, Debug, Args)]
pub struct Kafka {
    /// Brokers to begin with (the environment's `kafka`, unless given)
    #[arg(short, long, env = "FRAZIL_BOOTSTRAP_SERVER", value_name = "HOST:PORT,…", help_heading = "Kafka")]
    pub bootstrap_server: Option<String>,
    /// Client settings, a properties file as Kafka's own tools read it
    #[arg(long, env = "FRAZIL_COMMAND_CONFIG", value_name = "FILE", help_heading = "Kafka")]
    pub command_config: Option<PathBuf>,
    /// One client setting; may be repeated, and wins over the file's
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Kafka")]
    pub command_property: Vec<String>,
}

/// `frazil run`
#[derive(Clone, Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub named: Named,
    #[command(flatten)]
    pub kafka: Kafka,
    /// Where partitions are read from that were never read: earliest, latest, a time (2026-11-01T00:00Z, -2h), or offsets
    /// (0:100,1:250) (the mapping's `start`, else earliest)
    #[arg(long, env = "FRAZIL_FROM", value_name = "WHERE", allow_hyphen_values = true)]
    pub from: Option<String>,
    #[command(flatten)]
    pub mapping: Mapping,
    /// Ends once nothing came for so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub idle_seconds: Option<u64>,
    /// How often it is looked whether topics have got partitions (60 seconds)
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub refresh_seconds: Option<u64>,
    /// Hands events to a function behind a Lambda endpoint, http(s)://HOST:PORT/2015-03-31/functions/NAME/invocations, in place
    /// of ingest in this process
    #[arg(long, env = "FRAZIL_INVOKE", hide_env_values = true, value_name = "URL")]
    pub invoke: Option<String>,
    /// How long an invocation of that function may take (15m)
    #[arg(long, value_name = "TIME", value_parser = time_out, requires = "invoke")]
    pub invoke_timeout: Option<Duration>,
    /// Takes answers that name the records which were not stored, and hands those over again (the mapping's `partial_answers`)
    #[arg(long)]
    pub partial_answers: bool,
    /// Answers GET /ready and GET /live over HTTP at this address; port 0 takes a free one, and says which
    #[arg(long, env = "FRAZIL_LISTEN", value_name = "HOST:PORT")]
    pub listen: Option<String>,
}

fn duration(text: &str) -> Result<Duration, String> {
    pipeline::quantity::duration_ms(text).map(Duration::from_millis)
}

fn time_out(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it takes longer than nothing".to_owned()),
        time => Ok(time),
    }
}

/// How events are formed.
#[derive(Clone, Copy, Debug, Args)]
pub struct Mapping {
    /// Records of an event at most (the mapping's `batch`, else 10000)
    #[arg(long, env = "FRAZIL_BATCH", value_name = "N", value_parser = batch)]
    pub batch: Option<usize>,
    /// How long an event may be filled, in milliseconds (the mapping's `window`, else 500)
    #[arg(long, env = "FRAZIL_WINDOW_MS", value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=300_000))]
    pub window_ms: Option<u64>,
    /// Pollers, each with some of the partitions (the least of the mapping's `pollers`, else 1)
    #[arg(long, env = "FRAZIL_POLLERS", value_name = "N")]
    pub pollers: Option<std::num::NonZeroUsize>,
    /// Cuts an event that fails in two
    #[arg(long)]
    pub bisect: bool,
}

/// `frazil backfill`
#[derive(Clone, Debug, Args)]
pub struct Backfill {
    #[command(flatten)]
    pub named: Named,
    #[command(flatten)]
    pub kafka: Kafka,
    /// Where to begin: earliest (the default), a time (2026-11-01T00:00Z, -2h), or offsets (0:100,1:250)
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// Where to end: latest (the default), a time, or offsets; what stands there is not read any more
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// One of the pipeline's topics
    #[arg(long, value_name = "T")]
    pub topic: Option<String>,
    #[command(flatten)]
    pub mapping: Mapping,
    /// How long it waits where it can't go on (an open transaction, a pause, brokers that are away) before it fails (60s)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub wait: Option<Duration>,
    /// Says which offsets would be read; nothing is
    #[arg(long)]
    pub dry_run: bool,
}

/// `frazil tail`
#[derive(Clone, Debug, Args)]
pub struct Tail {
    #[command(flatten)]
    pub named: Named,
    #[command(flatten)]
    pub kafka: Kafka,
    /// Where to begin: latest (the default), earliest, a time (2026-11-01T00:00Z, -2h), or offsets (0:100,1:250)
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// One of the pipeline's topics
    #[arg(long, value_name = "T")]
    pub topic: Option<String>,
    /// Ends after so many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub records: Option<u64>,
    /// Ends once nothing came for so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub idle_seconds: Option<u64>,
}

fn batch(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(n) if (1..=10_000).contains(&n) => Ok(n),
        _ => Err("it must be a number from 1 to 10000".to_owned()),
    }
}

/// `frazil produce`
#[derive(Clone, Debug, Args)]
pub struct Produce {
    /// The pipeline whose schema the records are of, its name or the path of its file; Employee records of their own schema
    /// unless given (with --values, the only pipeline there is)
    #[arg(value_name = "PIPELINE")]
    pub pipeline: Option<String>,
    /// The topic (the pipeline's, where it names one)
    #[arg(long, value_name = "T")]
    pub topic: Option<String>,
    #[command(flatten)]
    pub kafka: Kafka,
    /// Records, not counting the one in 500 that comes twice
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=4_000_000_000), conflicts_with = "values")]
    pub records: u64,
    /// Records a second at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: Option<u64>,
    /// Repeats a run, but for the times of its records
    #[arg(long, value_name = "S", default_value_t = 1, conflicts_with = "values")]
    pub seed: u64,
    /// Values as JSON, one a line, in place of Employee records; `-` reads stdin
    #[arg(long, value_name = "FILE")]
    pub values: Option<PathBuf>,
    /// The field of the value that is its key, as text: every value has it, or null for no key; `none` leaves partitions to the
    /// client
    #[arg(long, value_name = "FIELD", default_value = "none")]
    pub keys: String,
    /// What Employee records are written in (protobuf)
    #[arg(long, value_enum, conflicts_with_all = ["pipeline", "values"])]
    pub format: Option<Written>,
    /// What surrounds the values (the pipeline's framing, else bare)
    #[arg(long, value_enum)]
    pub framing: Option<Form>,
    /// Registers the schema first, where it is not registered
    #[arg(long)]
    pub register: bool,
    /// The registry that knows the schema (the pipeline's, else the only one there is)
    #[arg(long, value_name = "NAME")]
    pub registry: Option<String>,
    /// The schema's name there (the pipeline's, else TOPIC-value; in Glue TOPIC)
    #[arg(long, value_name = "S")]
    pub subject: Option<String>,
    /// Says what would be done, and shows the first record; nothing is sent or registered
    #[arg(long)]
    pub dry_run: bool,
}

/// What records are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Written {
    /// Protocol Buffers
    Protobuf,
    /// Avro
    Avro,
    /// JSON
    Json,
}

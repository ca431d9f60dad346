//! What `cost` and `size` take: figures, each within bounds that are checked before anything is worked out.

use clap::{Args, ValueEnum};

/// `frazil cost`
#[derive(Clone, Debug, Args)]
pub struct Cost {
    /// Records that come in a second
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = rate)]
    pub records_per_second: f64,
    /// Bytes of a record's key and value, as they are in Kafka
    #[arg(long, value_name = "B", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub record_bytes: u64,
    /// Partitions of the topic: no more pollers than these work
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub partitions: Option<u64>,
    /// The most records that the mapping puts into one event (10000 unless given)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub batch: Option<u64>,
    /// Seconds that the mapping waits for an event to fill; 0 waits for nothing (5 unless given)
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = window)]
    pub window: Option<f64>,
    /// Records that come in one event, where it is known; worked out of batch, window and bytes unless given
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub records_per_invocation: Option<u64>,
    /// What the functions run on (arm64 unless given)
    #[arg(long, value_enum)]
    pub architecture: Option<Architecture>,
    /// Memory of the ingest function in MB; a whole processor comes with 1,769 (512 unless given)
    #[arg(long, value_name = "MB", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(128..=10_240))]
    pub memory: Option<u64>,
    /// Memory of the fold function in MB (1769 unless given)
    #[arg(long, value_name = "MB", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(128..=10_240))]
    pub fold_memory: Option<u64>,
    /// Milliseconds until S3 answers a PUT (50 unless given)
    #[arg(long, value_name = "MS", allow_negative_numbers = true, value_parser = milliseconds)]
    pub put_ms: Option<f64>,
    /// Milliseconds of one processor to bring 10,000 records from event to staged object (8.01 unless given)
    #[arg(long, value_name = "MS", allow_negative_numbers = true, value_parser = milliseconds)]
    pub ingest_ms: Option<f64>,
    /// Milliseconds of one processor to fold 10,000 rows (12.9 unless given)
    #[arg(long, value_name = "MS", allow_negative_numbers = true, value_parser = milliseconds)]
    pub fold_ms: Option<f64>,
    /// Folds in an hour (60 unless given)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = folds)]
    pub folds_per_hour: Option<f64>,
    /// Tables that get rows in each fold (1 unless given)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub tables: Option<u64>,
    /// Data files that a fold writes into each table; `frazil plan` estimates them (8 unless given)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub files_per_fold: Option<u64>,
    /// Bytes that a record takes when it is staged (14 of 86 bytes unless given)
    #[arg(long, value_name = "B", allow_negative_numbers = true, value_parser = bytes)]
    pub staged_bytes: Option<f64>,
    /// Hours that what is staged is kept (168 unless given)
    #[arg(long, value_name = "H", allow_negative_numbers = true, value_parser = hours)]
    pub retention_hours: Option<f64>,
    /// Runs of `frazil maintain` in a day (1 unless given)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = folds)]
    pub maintain_per_day: Option<f64>,
    /// Who polls the topic (provisioned unless given)
    #[arg(long, value_enum)]
    pub polling: Option<Polling>,
    /// The least number of pollers; more are counted where the rate takes them (1 unless given)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=2000))]
    pub pollers: Option<u64>,
    /// Interface endpoints times availability zones that are there for the mapping alone (on demand 6, provisioned none, unless given)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(0..=1000))]
    pub endpoints: Option<u64>,
    /// Bytes of logs that an invocation leaves (800 unless given)
    #[arg(long, value_name = "B", allow_negative_numbers = true, value_parser = log_bytes)]
    pub log_bytes: Option<f64>,
    /// Metrics of its own that a pipeline has (6 unless given)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub metrics: Option<u64>,
    /// The region whose prices these are; another one's have to be given
    #[arg(long, value_name = "REGION", default_value = crate::cost::prices::REGION)]
    pub region: String,
    /// A price of your own, in dollars for what the table says; may be repeated
    #[arg(long, value_name = "NAME=DOLLARS")]
    pub price: Vec<String>,
}

/// What functions run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Architecture {
    /// AWS's own processors
    Arm64,
    /// Intel's and AMD's
    #[value(name = "x86", alias = "x86_64")]
    X86,
}

/// Who polls a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Polling {
    /// Event pollers, charged by the hour
    Provisioned,
    /// Lambda, free of charge, by endpoints in the cluster's network
    OnDemand,
}

/// `frazil size`
#[derive(Clone, Debug, Args)]
pub struct Size {
    /// Brokers of the cluster
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub brokers: u64,
    /// Copies of each partition
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub replication: u64,
    /// Consumer groups that read at the end of the log, the mapping of a pipeline among them
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub consumer_groups: u64,
    /// The brokers' size
    #[arg(long, value_name = "TYPE", default_value = "m5.large")]
    pub instance: String,
    /// MB a second that a broker's volume sustains (250 unless given: a volume of more than 334 GB, nothing provisioned)
    #[arg(long, value_name = "MB", allow_negative_numbers = true, value_parser = megabytes)]
    pub storage_mb_per_second: Option<f64>,
    /// MB a second between a broker and its volume, for a size that frazil does not know
    #[arg(long, value_name = "MB", allow_negative_numbers = true, value_parser = megabytes)]
    pub ebs_mb_per_second: Option<f64>,
    /// MB a second of a broker's network, for a size that frazil does not know
    #[arg(long, value_name = "MB", allow_negative_numbers = true, value_parser = megabytes)]
    pub network_mb_per_second: Option<f64>,
    /// MB a second that are to be written to the cluster; exit code 3 where it can't be recommended
    #[arg(long, value_name = "MB", allow_negative_numbers = true, value_parser = megabytes)]
    pub mb_per_second: Option<f64>,
    /// Partitions of all topics, copies not counted
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub partitions: Option<u64>,
    /// Hours that records are kept
    #[arg(long, value_name = "H", allow_negative_numbers = true, value_parser = hours)]
    pub retention_hours: Option<f64>,
    /// Availability zones: brokers are added in multiples of them
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10))]
    pub zones: u64,
}

/// A number within bounds; NaN is within none.
fn within(text: &str, least: f64, most: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        _ => Err(format!("it must be a number from {least} to {most}")),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    within(text, 0.001, 1e9)
}

fn window(text: &str) -> Result<f64, String> {
    within(text, 0.0, 300.0).map(f64::abs)
}

fn milliseconds(text: &str) -> Result<f64, String> {
    within(text, 0.001, 900_000.0)
}

/// As often as once in ten days, and no more than once a second.
fn folds(text: &str) -> Result<f64, String> {
    within(text, 0.004, 3600.0)
}

fn bytes(text: &str) -> Result<f64, String> {
    within(text, 0.01, 1e9)
}

fn log_bytes(text: &str) -> Result<f64, String> {
    within(text, 0.0, 1e6).map(f64::abs)
}

fn hours(text: &str) -> Result<f64, String> {
    within(text, 0.01, 100_000.0)
}

fn megabytes(text: &str) -> Result<f64, String> {
    within(text, 0.001, 1e6)
}

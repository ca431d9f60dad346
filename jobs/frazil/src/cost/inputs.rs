//! What an estimate starts from: what is given, and what is taken where nothing is said, each with where it comes from.

use serde::Serialize;

/// Hours of a month, as AWS counts them.
pub(crate) const MONTH_HOURS: f64 = 730.0;
/// Bytes of an invocation's payload.
const PAYLOAD_BYTES: f64 = 6_000_000.0;
/// What surrounds a value in the event: topic, partition, offset, timestamp, an empty list of headers. Of a record without a key.
const ENVELOPE_BYTES: f64 = 150.0;
/// Memory that comes with one whole processor.
pub(crate) const CORE_MEMORY_MB: f64 = 1769.0;
/// What one provisioned poller carries, and how many invocations it has under way.
pub(crate) const POLLER_BYTES_PER_SECOND: f64 = 5e6;
pub(crate) const POLLER_INVOCATIONS: f64 = 5.0;

/// How a processor is built, which decides the price of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Architecture {
    Arm64,
    X86,
}

/// How Lambda polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polling {
    /// Event pollers of one's own, charged by the hour.
    Provisioned,
    /// Lambda's, free of charge, in the cluster's network: it takes endpoints there, or a NAT gateway.
    OnDemand,
}

/// Everything that an estimate is made of, within the bounds that [`Inputs::fault`] names.
#[derive(Clone, Debug)]
pub(crate) struct Inputs {
    pub(crate) records_per_second: f64,
    /// Bytes of a record's key and value as they are in Kafka.
    pub(crate) record_bytes: f64,
    pub(crate) partitions: Option<u64>,
    /// The most records of an invocation that the mapping is set to.
    pub(crate) batch: u64,
    pub(crate) window_seconds: f64,
    /// Where it is known how many come in an invocation.
    pub(crate) records_per_invocation: Option<u64>,
    pub(crate) architecture: Architecture,
    pub(crate) memory_mb: u64,
    pub(crate) fold_memory_mb: u64,
    /// Milliseconds until a request of S3 is answered.
    pub(crate) put_ms: f64,
    /// Milliseconds of one whole processor for 10,000 records, event bytes to staged object.
    pub(crate) ingest_ms: f64,
    /// Milliseconds of one whole processor for 10,000 rows, staged objects to data files.
    pub(crate) fold_ms: f64,
    pub(crate) folds_per_hour: f64,
    pub(crate) tables: u64,
    /// Of each table and fold.
    pub(crate) files_per_fold: u64,
    pub(crate) staged_bytes: Option<f64>,
    pub(crate) retention_hours: f64,
    pub(crate) maintain_per_day: f64,
    pub(crate) polling: Polling,
    /// The least number of pollers.
    pub(crate) pollers: u64,
    /// Endpoints times availability zones; by how Lambda polls unless given.
    pub(crate) endpoints: Option<u64>,
    pub(crate) log_bytes: f64,
    pub(crate) metrics: u64,
    /// Names of what was given on the command line.
    pub(crate) given: Vec<&'static str>,
}

/// Bytes that a staged record takes, of those that it has in Kafka: so many of so many for the demo's Employee records.
const STAGED_SHARE: (f64, f64) = (14.0, 86.0);
/// Interface endpoints for lambda and sts, in three zones.
const ENDPOINTS: u64 = 6;

/// One input as the answer shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Input {
    pub(crate) name: &'static str,
    pub(crate) value: serde_json::Value,
    pub(crate) unit: &'static str,
    /// `given`, or where the default comes from.
    pub(crate) from: &'static str,
}

/// Inputs that do not go together.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("a record of {record_bytes} bytes is {event_bytes} in an event, and an event has room for {room}")]
    RecordBytes { record_bytes: f64, event_bytes: f64, room: f64 },
    #[error("{given} records an invocation were given, and no more than {most} come: {why}")]
    RecordsPerInvocation { given: u64, most: u64, why: &'static str },
    #[error(
        "{pollers} pollers were given, and a topic of {partitions} partitions has no use for more than {partitions}"
    )]
    Pollers { pollers: u64, partitions: u64 },
}

impl Fault {
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::RecordBytes { .. } => "cost.record_bytes",
            Self::RecordsPerInvocation { .. } => "cost.records_per_invocation",
            Self::Pollers { .. } => "cost.pollers",
        }
    }

    pub(crate) const fn remedy(&self) -> &'static str {
        match self {
            Self::RecordBytes { .. } => {
                "Lambda hands over no record of this size (it goes to the mapping's destination for failures): say --record-bytes \
                 of the topic's usual record"
            }
            Self::RecordsPerInvocation { .. } => {
                "leave --records-per-invocation out, and it is worked out of --batch and --window"
            }
            Self::Pollers { .. } => "give fewer --pollers, or the topic's own --partitions",
        }
    }
}

impl Inputs {
    /// A rate and a size with the default of everything else. [`Inputs::shown`] says where each comes from.
    pub(crate) const fn of(records_per_second: f64, record_bytes: f64) -> Self {
        Self {
            records_per_second,
            record_bytes,
            partitions: None,
            batch: 10_000,
            window_seconds: 5.0,
            records_per_invocation: None,
            architecture: Architecture::Arm64,
            memory_mb: 512,
            fold_memory_mb: 1769,
            put_ms: 50.0,
            ingest_ms: 8.01,
            fold_ms: 12.9,
            folds_per_hour: 60.0,
            tables: 1,
            files_per_fold: 8,
            staged_bytes: None,
            retention_hours: 168.0,
            maintain_per_day: 1.0,
            polling: Polling::Provisioned,
            pollers: 1,
            endpoints: None,
            log_bytes: 800.0,
            metrics: 6,
            given: Vec::new(),
        }
    }

    /// Bytes of a record in the event's JSON: base64 makes four of three.
    pub(crate) fn event_bytes(&self) -> f64 {
        (self.record_bytes / 3.0).ceil() * 4.0 + ENVELOPE_BYTES
    }

    /// Records that an invocation has room for, by its bytes and by the mapping's batch.
    pub(crate) fn room(&self) -> f64 {
        (PAYLOAD_BYTES / self.event_bytes()).floor().min(self.batch as f64)
    }

    pub(crate) fn staged_bytes(&self) -> f64 {
        let (staged, record) = STAGED_SHARE;
        self.staged_bytes.unwrap_or(self.record_bytes * staged / record)
    }

    pub(crate) fn endpoints(&self) -> u64 {
        self.endpoints.unwrap_or(match self.polling {
            Polling::Provisioned => 0,
            Polling::OnDemand => ENDPOINTS,
        })
    }

    /// How many times longer a computation takes than on one whole processor.
    pub(crate) fn slowness(memory_mb: u64) -> f64 {
        (CORE_MEMORY_MB / memory_mb as f64).max(1.0)
    }

    /// What of the inputs can't be.
    pub(crate) fn fault(&self) -> Option<Fault> {
        let (record_bytes, event_bytes) = (self.record_bytes, self.event_bytes());
        if event_bytes > PAYLOAD_BYTES {
            return Some(Fault::RecordBytes { record_bytes, event_bytes, room: PAYLOAD_BYTES });
        }
        let room = self.room();
        if let Some(given) = self.records_per_invocation.filter(|&n| n as f64 > room) {
            let why = match room < self.batch as f64 {
                true => "an event has 6 MB, in which values are base64",
                false => "--batch is the most that the mapping puts together",
            };
            return Some(Fault::RecordsPerInvocation { given, most: room as u64, why });
        }
        match self.partitions {
            Some(partitions) if self.pollers > partitions => Some(Fault::Pollers { pollers: self.pollers, partitions }),
            _ => None,
        }
    }

    /// All of them, as they are shown.
    pub(crate) fn shown(&self) -> Vec<Input> {
        let number = |value: f64| match value.fract() == 0.0 && value.abs() < 9e15 {
            true => serde_json::Value::from(value as i64),
            false => serde_json::Value::from(value),
        };
        let word = serde_json::Value::from;
        let input = |name, value, unit, default| {
            let from = if self.given.contains(&name) { "given" } else { default };
            Input { name, value, unit, from }
        };
        let architecture = match self.architecture {
            Architecture::Arm64 => "arm64",
            Architecture::X86 => "x86",
        };
        let polling = match self.polling {
            Polling::Provisioned => "provisioned",
            Polling::OnDemand => "on-demand",
        };
        let mut shown = vec![
            input("records-per-second", number(self.records_per_second), "records/s", "given"),
            input("record-bytes", number(self.record_bytes), "bytes", "given"),
        ];
        if let Some(partitions) = self.partitions {
            shown.push(input("partitions", number(partitions as f64), "partitions", "given"));
        }
        shown.extend([
            input("batch", number(self.batch as f64), "records", "the most that Lambda takes"),
            input("window", number(self.window_seconds), "seconds", "the batching window of the README's example"),
        ]);
        if let Some(records) = self.records_per_invocation {
            shown.push(input("records-per-invocation", number(records as f64), "records", "given"));
        }
        shown.extend([
            input("architecture", word(architecture), "", "what the functions are built for"),
            input("memory", number(self.memory_mb as f64), "MB", "room for the ingest of 6 MB events: 96 MiB and the runtime"),
            input("fold-memory", number(self.fold_memory_mb as f64), "MB", "one whole processor"),
            input("put-ms", number(self.put_ms), "ms", "assumed: a conditional PUT of a small object within a region"),
            input(
                "ingest-ms",
                number(self.ingest_ms),
                "ms a 10,000 records",
                "the demo as the README shows it, 1,249,041 records/s a core of a shared x86 machine; tests/bench/run measures yours",
            ),
            input(
                "fold-ms",
                number(self.fold_ms),
                "ms a 10,000 rows",
                "the demo as the README shows it, 776,743 rows/s a core in mode append; tests/bench/run measures yours",
            ),
            input("folds-per-hour", number(self.folds_per_hour), "folds/h", "the default of [fold] max_age, 60 s"),
            input("tables", number(self.tables as f64), "tables", "a pipeline of one table"),
            input("files-per-fold", number(self.files_per_fold as f64), "files", "bucket(8, …), as in the demo's pipeline file"),
            input(
                "staged-bytes",
                number(self.staged_bytes()),
                "bytes a record",
                "14 of 86 bytes, as the demo's Employee records come to; others may compress less",
            ),
            input("retention-hours", number(self.retention_hours), "hours", "the default of [staging] retention, 7d"),
            input("maintain-per-day", number(self.maintain_per_day), "runs/day", "once a day"),
            input("polling", word(polling), "", "the mode that a mapping's pollers, retries and registry take"),
            input("pollers", number(self.pollers as f64), "pollers", "the least that there are"),
            input(
                "endpoints",
                number(self.endpoints() as f64),
                "endpoints times zones",
                match self.polling {
                    Polling::Provisioned => "provisioned pollers need none",
                    Polling::OnDemand => "lambda and sts, in three zones",
                },
            ),
            input(
                "log-bytes",
                number(self.log_bytes),
                "bytes an invocation",
                "one line of ingest (about 450), and Lambda's START, END and REPORT (about 350)",
            ),
            input("metrics", number(self.metrics as f64), "metrics", "the most that a pipeline is to have; this version writes none"),
        ]);
        shown
    }
}

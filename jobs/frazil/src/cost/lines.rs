//! The lines: how many of everything there are in a month, and how that comes about.

use fold::requests::{self, PAGE_OBJECTS, Work};

use super::figures::{dollars, figure};
use super::inputs::{
    Architecture, CORE_MEMORY_MB, Inputs, MONTH_HOURS, POLLER_BYTES_PER_SECOND, POLLER_INVOCATIONS, Polling,
};
use super::prices::Prices;
use super::{BILLION, Line, Part};

const HOUR: f64 = 3600.0;
/// Bytes of a gigabyte, as what is stored and sent is counted.
const GB: f64 = 1e9;
/// Megabytes of a gigabyte of memory.
const GB_MB: f64 = 1024.0;
/// A file of more bytes goes in parts of so many: a PUT each, one before and one after.
const PART_BYTES: f64 = 8.0 * 1024.0 * 1024.0;
/// What one event poller unit carries, in bytes a second and in pollers.
const EPU_BYTES_PER_SECOND: f64 = 20e6;
const EPU_POLLERS: f64 = 10.0;

/// What the lines have in common.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    pub(super) records_per_month: f64,
    pub(super) invocations_per_second: f64,
    pub(super) records_per_invocation: f64,
    /// Pollers that carry the rate, whatever the partitions allow.
    needed: f64,
    pollers: f64,
    /// How the invocations of a second come about.
    how: String,
    month_seconds: f64,
    invocations: f64,
    folds: f64,
    work: Work,
    rows_per_fold: f64,
    /// Data files of a fold, all tables together, and the bytes of one.
    files: f64,
    file_bytes: f64,
}

impl Rates {
    pub(super) fn of(inputs: &Inputs) -> Self {
        let rate = inputs.records_per_second;
        let (put_seconds, room) = (inputs.put_ms / 1000.0, inputs.room());
        let compute_seconds = inputs.ingest_ms / 1000.0 / 10_000.0 * Inputs::slowness(inputs.memory_mb);
        let full = rate / inputs.records_per_invocation.map_or(room, |records| records as f64);
        // Invocations under way at any time: records are computed whatever their batches, and each batch waits for its PUT.
        let under_way = rate * compute_seconds + full * put_seconds;
        let by_bytes = rate * inputs.record_bytes / POLLER_BYTES_PER_SECOND;
        let needed = by_bytes.max(under_way / POLLER_INVOCATIONS).ceil().max(inputs.pollers as f64);
        let pollers = inputs.partitions.map_or(needed, |partitions| needed.min(partitions as f64));
        let (invocations_per_second, how) = match inputs.records_per_invocation {
            Some(records) => {
                (full, format!("{} records/s ÷ {} records an invocation", figure(rate), figure(records as f64)))
            }
            None => batched(inputs, full, room, pollers, put_seconds),
        };
        let month_seconds = MONTH_HOURS * HOUR;
        let folds = inputs.folds_per_hour * MONTH_HOURS;
        let minutes_between = 60.0 / inputs.folds_per_hour;
        let rows_per_fold = rate * minutes_between * 60.0;
        let files = (inputs.tables * inputs.files_per_fold) as f64;
        // A file without a row is none.
        let files = files.min(rows_per_fold.ceil().max(1.0));
        let file_bytes = rows_per_fold * inputs.staged_bytes() / files;
        let file_puts = if file_bytes > PART_BYTES { (file_bytes / PART_BYTES).ceil() + 2.0 } else { 1.0 };
        let objects_per_minute = invocations_per_second * 60.0;
        let work = Work {
            tables: inputs.tables,
            has_many: inputs.tables > 1,
            objects: objects_per_minute * minutes_between,
            listed: objects_per_minute * requests::listed_minutes(minutes_between),
            minutes_between,
            data_puts: files * file_puts,
        };
        Self {
            records_per_month: rate * month_seconds,
            invocations_per_second,
            records_per_invocation: rate / invocations_per_second,
            needed,
            pollers,
            how,
            month_seconds,
            invocations: invocations_per_second * month_seconds,
            folds,
            work,
            rows_per_fold,
            files,
            file_bytes,
        }
    }

    /// What does not go as it is set.
    pub(super) fn warnings(&self, inputs: &Inputs) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.needed > self.pollers {
            warnings.push(format!(
                "the rate takes {} pollers and the partitions allow {}: lag grows, and the lines are of what can't be",
                figure(self.needed),
                figure(self.pollers)
            ));
        }
        let seconds = self.fold_seconds(inputs);
        let between = self.work.minutes_between * 60.0;
        if seconds > between {
            let (seconds, between) = (figure(seconds), figure(between));
            warnings.push(format!(
                "a fold takes {seconds} s and the next one comes after {between} s: one function can't keep up; the lines are of \
                 all its work"
            ));
        }
        if seconds > 900.0 {
            warnings
                .push(format!("a fold takes {} s, and Lambda ends it after 900 s: fold more often", figure(seconds)));
        }
        warnings
    }

    fn fold_seconds(&self, inputs: &Inputs) -> f64 {
        let compute = self.rows_per_fold / 10_000.0 * inputs.fold_ms / 1000.0 * Inputs::slowness(inputs.fold_memory_mb);
        compute + requests::in_turn(&self.work) * inputs.put_ms / 1000.0
    }
}

/// Invocations of a second where the mapping puts records together: full ones, or one a window and poller, or one a record.
fn batched(inputs: &Inputs, full: f64, room: f64, pollers: f64, put_seconds: f64) -> (f64, String) {
    let rate = inputs.records_per_second;
    let (by_window, how_window) = match inputs.window_seconds > 0.0 {
        true => {
            let window = inputs.window_seconds;
            (pollers / window, format!("{} pollers ÷ a window of {} s", figure(pollers), figure(window)))
        }
        // Nothing is waited for: a poller hands over as often as its invocations end.
        false => (
            pollers * POLLER_INVOCATIONS / put_seconds,
            format!(
                "{} pollers × {} invocations at once ÷ {} s of a PUT (no window)",
                figure(pollers),
                figure(POLLER_INVOCATIONS),
                figure(put_seconds)
            ),
        ),
    };
    if full >= by_window {
        return (full, format!("{} records/s ÷ {} records an invocation has room for", figure(rate), figure(room)));
    }
    match by_window < rate {
        true => (by_window, how_window),
        false => (rate, format!("{} records/s, each by itself", figure(rate))),
    }
}

/// Makes lines of quantities.
struct Bill<'a> {
    prices: &'a Prices,
    records_per_month: f64,
    lines: Vec<Line>,
}

impl Bill<'_> {
    /// A line: `how` says how the quantity comes about.
    fn line(&mut self, part: Part, name: &'static str, price: &str, quantity: f64, how: &str, from: &'static str) {
        let price = self.prices.of(price);
        let amount = quantity / price.per * price.dollars;
        let per = if price.per == 1.0 { String::new() } else { format!(" ÷ {}", figure(price.per)) };
        let formula = format!(
            "{how} = {} {}; × ${}{per} = {}",
            figure(quantity),
            price.unit,
            figure(price.dollars),
            dollars(amount)
        );
        self.lines.push(Line {
            name,
            part,
            quantity,
            unit: price.unit,
            price: price.name,
            dollars_per_month: amount,
            dollars_per_billion_records: amount / self.records_per_month * BILLION,
            formula,
            from,
            confirmed: price.confirmed,
        });
    }
}

/// All lines of a month.
pub(super) fn all(inputs: &Inputs, rates: &Rates, prices: &Prices) -> Vec<Line> {
    let mut bill = Bill { prices, records_per_month: rates.records_per_month, lines: Vec::new() };
    let compute = match inputs.architecture {
        Architecture::Arm64 => "lambda-gb-second-arm64",
        Architecture::X86 => "lambda-gb-second-x86",
    };
    ingest(inputs, rates, compute, &mut bill);
    fold(inputs, rates, compute, &mut bill);
    maintain(inputs, rates, &mut bill);
    watch(inputs, rates, &mut bill);
    pollers(inputs, rates, &mut bill);
    bill.lines
}

fn ingest(inputs: &Inputs, rates: &Rates, compute: &str, bill: &mut Bill<'_>) {
    let invocations = rates.invocations;
    let how = format!(
        "{} = {} a second; × {} s",
        rates.how,
        figure(rates.invocations_per_second),
        figure(rates.month_seconds)
    );
    let from = "what the event source mapping puts into one event";
    bill.line(Part::Ingest, "Lambda requests", "lambda-request", invocations, &how, from);

    let (gb, slowness) = (inputs.memory_mb as f64 / GB_MB, Inputs::slowness(inputs.memory_mb));
    let record_seconds = rates.records_per_month / 10_000.0 * inputs.ingest_ms / 1000.0 * slowness;
    let put_seconds = invocations * inputs.put_ms / 1000.0;
    let how = format!(
        "({} records ÷ 10,000 × {} ms{} + {} invocations × {} ms for the PUT) ÷ 1,000 × {} MB ÷ 1,024",
        figure(rates.records_per_month),
        figure(inputs.ingest_ms),
        slower(slowness, inputs.memory_mb),
        figure(invocations),
        figure(inputs.put_ms),
        figure(inputs.memory_mb as f64),
    );
    let from = "functions/ingest: it computes, and then waits for its object to be stored";
    bill.line(Part::Ingest, "Lambda compute", compute, (record_seconds + put_seconds) * gb, &how, from);

    let from = "functions/ingest: one staged object an invocation, whatever is in it";
    bill.line(Part::Ingest, "S3 PUT", "s3-put", invocations, &format!("{} invocations × 1", figure(invocations)), from);

    let bytes = inputs.records_per_second * HOUR * inputs.retention_hours * inputs.staged_bytes();
    let how = format!(
        "{} records/s × 3,600 s × {} h × {} bytes ÷ 1,000,000,000, there all month",
        figure(inputs.records_per_second),
        figure(inputs.retention_hours),
        figure(inputs.staged_bytes()),
    );
    let from = "[staging] retention: what is staged at any time";
    bill.line(Part::Ingest, "S3 storage", "s3-gb-month", bytes / GB, &how, from);
}

/// Where less than a processor comes with the memory: by how much longer everything takes.
fn slower(slowness: f64, memory_mb: u64) -> String {
    if slowness == 1.0 {
        return String::new();
    }
    format!(" × {} MB of a processor ÷ {} MB", figure(CORE_MEMORY_MB), figure(memory_mb as f64))
}

fn fold(inputs: &Inputs, rates: &Rates, compute: &str, bill: &mut Bill<'_>) {
    let Rates { folds, work, .. } = rates;
    let asked = requests::of(work);
    let hours = format!("{} folds/h × {} h", figure(inputs.folds_per_hour), figure(MONTH_HOURS));
    let from = "one schedule a pipeline; a fold that finds nothing ends sooner, and counts as a whole one here";
    bill.line(Part::Fold, "EventBridge Scheduler", "scheduler-invocation", *folds, &hours, from);
    bill.line(Part::Fold, "Lambda requests", "lambda-request", *folds, &hours, from);

    let (gb, slowness) = (inputs.fold_memory_mb as f64 / GB_MB, Inputs::slowness(inputs.fold_memory_mb));
    let others = requests::of(&Work { objects: 0.0, ..*work }).gets;
    let footers = requests::in_turn(work) - asked.puts - others - asked.lists;
    let how = format!(
        "{} folds × ({} rows ÷ 10,000 × {} ms{} + ({} PUTs + {} GETs + {} LISTs + {} rounds of footers) × {} ms) ÷ 1,000 × {} MB ÷ 1,024",
        figure(*folds),
        figure(rates.rows_per_fold),
        figure(inputs.fold_ms),
        slower(slowness, inputs.fold_memory_mb),
        figure(asked.puts),
        figure(others),
        figure(asked.lists),
        figure(footers),
        figure(inputs.put_ms),
        figure(inputs.fold_memory_mb as f64),
    );
    let from = "jobs/fold: rows are computed; 32 footers are read at once, objects ahead of their rows; other requests wait for one another";
    bill.line(Part::Fold, "Lambda compute", compute, folds * rates.fold_seconds(inputs) * gb, &how, from);

    let how = format!(
        "{} folds × ({} for {} data files of {} bytes + {} others)",
        figure(*folds),
        figure(work.data_puts),
        figure(rates.files),
        figure(rates.file_bytes.round()),
        figure(asked.puts - work.data_puts)
    );
    let from = "jobs/fold, requests: two notes (of many tables four); a settlement, a manifest, a manifest list, a metadata file of each \
                table, and a hundredth of a merged manifest; of a file over 8 MiB each 8 MiB, and two requests more";
    bill.line(Part::Fold, "S3 PUT", "s3-put", folds * asked.puts, &how, from);

    let how = format!(
        "{} folds × {} (pages of {} objects, {} minutes of them, twice)",
        figure(*folds),
        figure(asked.lists),
        figure(work.listed),
        figure(requests::listed_minutes(work.minutes_between))
    );
    let from = "jobs/fold, requests: two passes of pages of 1,000 keys, from 19 minutes before the last fold on; of many tables three more";
    bill.line(Part::Fold, "S3 LIST", "s3-list", folds * asked.lists, &how, from);

    let how = format!(
        "{} folds × ({} new objects × {} + {} others)",
        figure(*folds),
        figure(work.objects),
        figure(1.0 + work.tables as f64),
        figure(others)
    );
    let from = "jobs/fold, requests: each object's footer, and its body for each table; the pause and the last note; of each table the \
                metadata file, the manifest list, a manifest, and the settlements of the last 19 minutes and one more (of many tables \
                twice)";
    bill.line(Part::Fold, "S3 GET", "s3-get", folds * asked.gets, &how, from);

    let glue = requests::GLUE_A_TABLE as f64;
    let how = format!("{} folds × {} tables × {}", figure(*folds), figure(work.tables as f64), figure(glue));
    let from = "shared/aws, catalog: an entry is read, read again before the swap, and swapped";
    bill.line(Part::Fold, "Glue requests", "glue-request", folds * work.tables as f64 * glue, &how, from);
}

fn maintain(inputs: &Inputs, rates: &Rates, bill: &mut Bill<'_>) {
    let how = format!("{} objects × 1", figure(rates.invocations));
    let from = "jobs/maintain: the footer of each object is read before it is removed";
    bill.line(Part::Maintain, "S3 GET", "s3-get", rates.invocations, &how, from);
    let kept = rates.invocations_per_second * HOUR * (inputs.retention_hours + 24.0 / inputs.maintain_per_day);
    let (runs, pages) = (inputs.maintain_per_day * MONTH_HOURS / 24.0, (kept / PAGE_OBJECTS).ceil().max(1.0));
    let how = format!("{} runs × {} pages of {} objects", figure(runs), figure(pages), figure(kept));
    let from = "jobs/maintain: every object that is there is listed";
    bill.line(Part::Maintain, "S3 LIST", "s3-list", runs * pages, &how, from);
}

fn watch(inputs: &Inputs, rates: &Rates, bill: &mut Bill<'_>) {
    let lines = rates.invocations + rates.folds;
    let how = format!(
        "({} invocations + {} folds) × {} bytes ÷ 1,000,000,000",
        figure(rates.invocations),
        figure(rates.folds),
        figure(inputs.log_bytes)
    );
    let from = "functions/ingest: one line an invocation; Lambda's own lines";
    bill.line(Part::Watch, "CloudWatch logs", "cloudwatch-log-gb", lines * inputs.log_bytes / GB, &how, from);
    let metrics = inputs.metrics as f64;
    let how = format!("{} metrics", figure(metrics));
    let from = "at most six a pipeline";
    bill.line(Part::Watch, "CloudWatch metrics", "cloudwatch-metric-month", metrics, &how, from);
}

fn pollers(inputs: &Inputs, rates: &Rates, bill: &mut Bill<'_>) {
    let (units, how) = match inputs.polling {
        Polling::OnDemand => (0.0, "on demand: none are charged".to_owned()),
        Polling::Provisioned => {
            let by_bytes = inputs.records_per_second * inputs.record_bytes / EPU_BYTES_PER_SECOND;
            let units = (rates.pollers / EPU_POLLERS).ceil().max(by_bytes.ceil());
            let how = format!(
                "the larger of {} pollers ÷ 10 and {} records/s × {} bytes ÷ 20 MB/s, rounded up to {}; × {} h",
                figure(rates.pollers),
                figure(inputs.records_per_second),
                figure(inputs.record_bytes),
                figure(units),
                figure(MONTH_HOURS)
            );
            (units, how)
        }
    };
    let from = "Lambda: a poller carries 5 MB/s and 5 invocations; ten pollers or 20 MB/s are an event poller unit";
    bill.line(Part::Pollers, "event poller units", "poller-epu-hour", units * MONTH_HOURS, &how, from);
    let endpoints = inputs.endpoints() as f64;
    let how = format!("{} × {} h", figure(endpoints), figure(MONTH_HOURS));
    let from = "Lambda: pollers on demand are in the cluster's network, and reach lambda and sts by endpoints there";
    bill.line(Part::Pollers, "interface endpoints", "endpoint-hour", endpoints * MONTH_HOURS, &how, from);
    let bytes = if endpoints > 0.0 { rates.records_per_month * inputs.event_bytes() } else { 0.0 };
    let how = match endpoints > 0.0 {
        false => "nothing goes through an endpoint".to_owned(),
        true => format!(
            "{} records × {} bytes of an event ÷ 1,000,000,000",
            figure(rates.records_per_month),
            figure(inputs.event_bytes())
        ),
    };
    let from = "derived, not confirmed: every event goes through the endpoint of lambda, as JSON with base64";
    bill.line(Part::Pollers, "data through endpoints", "endpoint-gb", bytes / GB, &how, from);
}

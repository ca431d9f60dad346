//! What a pipeline costs on AWS, line by line: arithmetic from a rate of records, measured times, the requests that the code makes, and a
//! table of prices. An estimate for a steady rate: every line says its formula with the numbers in it.
//!
//! Pure: nothing is asked of AWS. Free tiers and discounts are not taken off, and where prices come in steps the first counts.

pub(crate) mod figures;
pub(crate) mod inputs;
mod lines;
pub(crate) mod prices;
#[cfg(test)]
mod tests;

use serde::Serialize;

use inputs::{Fault, Input, Inputs, MONTH_HOURS};
use lines::Rates;
use prices::{Price, Prices};

/// A thousand million records: what costs are compared by.
const BILLION: f64 = 1e9;

/// What a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Events to staged objects.
    Ingest,
    /// Staged objects to the table.
    Fold,
    /// Removing what was settled.
    Maintain,
    /// Logs and metrics.
    Watch,
    /// How records get from Kafka to Lambda.
    Pollers,
}

/// One line of a bill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) part: Part,
    /// A month's.
    pub(crate) quantity: f64,
    pub(crate) unit: &'static str,
    /// The name of its price.
    pub(crate) price: &'static str,
    pub(crate) dollars_per_month: f64,
    pub(crate) dollars_per_billion_records: f64,
    /// How the quantity and the dollars come about, with the numbers in it.
    pub(crate) formula: String,
    /// Where the quantity is from.
    pub(crate) from: &'static str,
    /// Whether AWS itself says the price where it was read.
    pub(crate) confirmed: bool,
}

/// An estimate with everything that it was made of.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Estimate {
    pub(crate) region: String,
    pub(crate) month_hours: f64,
    pub(crate) records_per_month: f64,
    pub(crate) invocations_per_second: f64,
    pub(crate) records_per_invocation: f64,
    pub(crate) dollars_per_month: f64,
    pub(crate) dollars_per_billion_records: f64,
    /// The same without what gets the records from Kafka to Lambda.
    pub(crate) dollars_per_billion_records_without_pollers: f64,
    pub(crate) lines: Vec<Line>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) prices: Vec<Price>,
    pub(crate) warnings: Vec<String>,
    /// What is in no line.
    pub(crate) not_counted: Vec<&'static str>,
}

const NOT_COUNTED: [&str; 8] = [
    "the Kafka cluster, and what it asks for data that crosses zones",
    "the table's own storage, which its rows need whoever writes them",
    "free tiers, discounts and savings plans",
    "cold starts, retries, records that come twice, dead letters",
    "the compute of `maintain`, which runs from the command line; a DELETE is free of charge",
    "modes dedup and upsert, which read files of the table besides, and compaction",
    "keys of KMS, a NAT gateway, and a registry's own price",
    "part of a millisecond that is charged as a whole one, at the end of each invocation",
];

/// Works out what a month and a billion records cost.
///
/// # Errors
/// The first [`Fault`] of the inputs.
pub(crate) fn estimate(inputs: &Inputs, prices: &Prices) -> Result<Estimate, Fault> {
    if let Some(fault) = inputs.fault() {
        return Err(fault);
    }
    let rates = Rates::of(inputs);
    let lines = lines::all(inputs, &rates, prices);
    let sum = |wanted: &dyn Fn(&Line) -> bool| -> f64 {
        lines.iter().filter(|line| wanted(line)).map(|line| line.dollars_per_month).sum()
    };
    let dollars_per_month = sum(&|_| true);
    let without_pollers = sum(&|line| line.part != Part::Pollers);
    let records_per_month = rates.records_per_month;
    let mut warnings = rates.warnings(inputs);
    let used = |price: &&Price| lines.iter().any(|line| line.price == price.name);
    let used: Vec<Price> = prices.all.iter().filter(used).cloned().collect();
    let unconfirmed: Vec<&str> = used.iter().filter(|price| !price.confirmed).map(|price| price.name).collect();
    if !unconfirmed.is_empty() {
        warnings.push(format!(
            "not confirmed by AWS's own list or page where they were read: {}; --price NAME=DOLLARS gives your own",
            unconfirmed.join(", ")
        ));
    }
    Ok(Estimate {
        region: prices.region.clone(),
        month_hours: MONTH_HOURS,
        records_per_month,
        invocations_per_second: rates.invocations_per_second,
        records_per_invocation: rates.records_per_invocation,
        dollars_per_month,
        dollars_per_billion_records: dollars_per_month / records_per_month * BILLION,
        dollars_per_billion_records_without_pollers: without_pollers / records_per_month * BILLION,
        lines,
        inputs: inputs.shown(),
        prices: used,
        warnings,
        not_counted: NOT_COUNTED.to_vec(),
    })
}

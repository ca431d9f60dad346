//! What came of one event.

use std::collections::BTreeMap;

use model::coverage::Filtered;
use serde::Serialize;

/// What came of one event. Serialised as the command line shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Records in the event, each coordinate once.
    pub records: u64,
    /// Records left out because their coordinate was in the event before, with the same contents.
    pub duplicates_in_event: u64,
    /// Keys of the staged objects: one.
    pub staged: Vec<String>,
    /// Whether the staged object was there already: a repeated delivery, or a put whose first answer was lost.
    pub already_stored: bool,
    /// Records that went to dead letters.
    pub dead_letters: u64,
    /// Keys of the dead-letter objects: one, or none.
    pub dead_letter_keys: Vec<String>,
    /// Records that made no row by choice, by reason.
    pub filtered: BTreeMap<Filtered, u64>,
    /// Records of which fields were left out that the schema does not know (`unknown_fields = "ignore"`): their other fields are rows.
    pub records_with_unknown_fields: u64,
    /// The answer to Lambda.
    pub response: Response,
}

/// The answer to Lambda. All records are stored or none is acknowledged, so the list of failures is always empty: a
/// partial answer would need the mapping's consent (`ReportBatchItemFailures`), and redelivery costs little.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    /// Always empty: no room for a partial answer to slip in.
    pub batch_item_failures: [(); 0],
}

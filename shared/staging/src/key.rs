//! How keys are spelled. They sort by time, so a listing can start where the last fold ended.
//!
//! | key | holds |
//! | --- | --- |
//! | `staging/<pipeline-id>/<yyyy-mm-dd>/<hh>/<mm>/<hash>.parquet` | one invocation's rows and coverage |
//! | `dead-letters/<pipeline-id>/<yyyy-mm-dd>/<hh>/<mm>/<hash>.jsonl` | the records of the same invocation that made no row, or rows of it that a table does not take |
//! | `settled/<pipeline-id>/<table-uuid>/<commit-id>.json` | what one attempt at a commit settles |
//! | `settled/<pipeline-id>/<table-uuid>/<commit-id>.ledger.json` | a ledger too large for a table property |
//! | `tables/<pipeline-id>/<namespace>.<name>` | that a pipeline of many tables has met rows for this one |
//! | `runs/<pipeline-id>/<stage>.json` | a stage's last outcome |
//! | `runs/<pipeline-id>/begun/<microseconds>-<16 hex>`, with `.ended` | that a fold of many tables began, and ended |
//! | `pipelines/<name>/id` | the pipeline's id, stored once |
//! | `pipelines/<name>/paused.json` | that it is paused, and why |
//! | `pipelines/<name>/<hash>/…` | an applied version with its schemas |

use std::fmt;
use std::str::FromStr;

use model::clock::{Minute, Timestamp};
use model::id::{CommitId, PipelineId, TableUuid};
use serde::{Deserialize, Serialize};

/// A 128-bit hash of what an object was made from ([`crate::hash`]), as 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectHash(u128);

impl ObjectHash {
    /// From the hash's value.
    #[must_use]
    pub const fn new(value: u128) -> Self {
        Self(value)
    }

    /// The hash's value.
    #[must_use]
    pub const fn value(self) -> u128 {
        self.0
    }
}

impl From<ObjectHash> for String {
    fn from(hash: ObjectHash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for ObjectHash {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        text.parse()
    }
}

impl fmt::Display for ObjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Why a text is not a key of the kind asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct ParseError {
    text: String,
    expected: &'static str,
}

impl FromStr for ObjectHash {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let value = if digits { u128::from_str_radix(text, 16).ok() } else { None };
        value
            .map(Self)
            .ok_or_else(|| ParseError { text: text.to_owned(), expected: "32 lower-case hexadecimal digits" })
    }
}

/// The three parts of both timed keys.
fn timed(root: &str, pipeline: &PipelineId, minute: Minute, hash: ObjectHash, ending: &str) -> String {
    format!("{root}/{pipeline}/{minute}/{hash}.{ending}")
}

fn parse_timed(text: &str, root: &str, ending: &str) -> Option<(PipelineId, Minute, ObjectHash)> {
    let rest = text.strip_prefix(root)?.strip_prefix('/')?;
    let (pipeline, rest) = rest.split_once('/')?;
    let (minute, name) = rest.rsplit_once('/')?;
    let hash = name.strip_suffix(ending)?.strip_suffix('.')?;
    let minute: Minute = minute.parse().ok()?;
    let (pipeline, hash): (PipelineId, ObjectHash) = (pipeline.parse().ok()?, hash.parse().ok()?);
    // One object has one spelling: what would be written differently is not ours (a sign or a space in a number).
    (timed(root, &pipeline, minute, hash, ending) == text).then_some((pipeline, minute, hash))
}

macro_rules! timed_key {
    ($(#[$doc:meta])* $name:ident, $root:literal, $ending:literal, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            /// The pipeline.
            pub pipeline: PipelineId,
            /// The minute of the write, in UTC.
            pub minute: Minute,
            /// What it was made from.
            pub hash: ObjectHash,
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&timed($root, &self.pipeline, self.minute, self.hash, $ending))
            }
        }

        impl FromStr for $name {
            type Err = ParseError;

            fn from_str(text: &str) -> Result<Self, ParseError> {
                parse_timed(text, $root, $ending)
                    .map(|(pipeline, minute, hash)| Self { pipeline, minute, hash })
                    .ok_or_else(|| ParseError { text: text.to_owned(), expected: $expected })
            }
        }
    };
}

timed_key!(
    /// The key of a staged object. Keys of one pipeline sort by minute.
    StagedKey,
    "staging",
    "parquet",
    "the key of a staged object"
);
timed_key!(
    /// The key of the dead letters of one invocation, or of letters that a fold made of its rows.
    DeadLetterKey,
    "dead-letters",
    "jsonl",
    "the key of a dead-letter object"
);

impl StagedKey {
    /// The key of the same invocation's dead letters.
    #[must_use]
    pub fn dead_letters(&self) -> DeadLetterKey {
        DeadLetterKey { pipeline: self.pipeline.clone(), minute: self.minute, hash: self.hash }
    }
}

impl DeadLetterKey {
    /// The key of the same invocation's staged object, where ingest made the letters. A letter of a row names its own.
    #[must_use]
    pub fn staged(&self) -> StagedKey {
        StagedKey { pipeline: self.pipeline.clone(), minute: self.minute, hash: self.hash }
    }
}

/// The prefix of a pipeline's staged objects.
#[must_use]
pub fn staging_prefix(pipeline: &PipelineId) -> String {
    format!("staging/{pipeline}/")
}

/// The prefix of a pipeline's dead letters.
#[must_use]
pub fn dead_letters_prefix(pipeline: &PipelineId) -> String {
    format!("dead-letters/{pipeline}/")
}

/// The prefix of what a pipeline has settled for a table.
#[must_use]
pub fn settled_prefix(pipeline: &PipelineId, table: &TableUuid) -> String {
    format!("settled/{pipeline}/{table}/")
}

/// The prefix of what a pipeline has settled for any table: a folder for each table's UUID.
#[must_use]
pub fn all_settled_prefix(pipeline: &PipelineId) -> String {
    format!("settled/{pipeline}/")
}

/// Whether a key under [`settled_prefix`] is that of a ledger, and not of a settlement.
#[must_use]
pub fn is_ledger(key: &str) -> bool {
    key.ends_with(".ledger.json")
}

/// Where a listing starts that must show the staged objects of `low_minute` and later, and none before.
#[must_use]
pub fn start_after(pipeline: &PipelineId, low_minute: Minute) -> String {
    // The folder's own text: before every key in it, after every key of the minute before.
    format!("staging/{pipeline}/{low_minute}/")
}

/// The key of a settlement.
#[must_use]
pub fn settlement(pipeline: &PipelineId, table: &TableUuid, commit: &CommitId) -> String {
    format!("settled/{pipeline}/{table}/{commit}.json")
}

/// The key of a ledger that is too large for a table property.
#[must_use]
pub fn ledger(pipeline: &PipelineId, table: &TableUuid, commit: &CommitId) -> String {
    format!("settled/{pipeline}/{table}/{commit}.ledger.json")
}

/// The prefix of the tables that a pipeline of many has met.
#[must_use]
pub fn tables_prefix(pipeline: &PipelineId) -> String {
    format!("tables/{pipeline}/")
}

/// The key that says of a table, `namespace.name`, that a pipeline of many has met rows for it. Its body says nothing more.
#[must_use]
pub fn table(pipeline: &PipelineId, table: &str) -> String {
    format!("tables/{pipeline}/{table}")
}

/// The key of a stage's last outcome. `stage` is the stage's name in lower case: `ingest`, `fold`, `maintain`.
#[must_use]
pub fn run(pipeline: &PipelineId, stage: &str) -> String {
    format!("runs/{pipeline}/{stage}.json")
}

/// The prefix of the folds that have begun. Those behind it sort by time.
#[must_use]
pub fn begun_prefix(pipeline: &PipelineId) -> String {
    format!("runs/{pipeline}/begun/")
}

/// The key of a fold that began at some time. `id` is random.
#[must_use]
pub fn begun(pipeline: &PipelineId, at: Timestamp, id: u64) -> String {
    // As many digits as any time has, so that they sort as times do.
    format!("{}{:019}-{id:016x}", begun_prefix(pipeline), at.micros().max(0))
}

/// The key that says of one of them that it has ended.
#[must_use]
pub fn ended(begun: &str) -> String {
    format!("{begun}.ended")
}

/// The key of a pipeline's id.
#[must_use]
pub fn pipeline_id(name: &str) -> String {
    format!("pipelines/{name}/id")
}

/// The key of a pipeline's pause.
#[must_use]
pub fn paused(name: &str) -> String {
    format!("pipelines/{name}/paused.json")
}

/// The prefix of one applied version of a pipeline: `hash` is its pipeline-file hash.
#[must_use]
pub fn applied_prefix(name: &str, hash: &str) -> String {
    format!("pipelines/{name}/{hash}/")
}

#[cfg(test)]
mod tests {
    use model::clock::Timestamp;
    use model::id::SeededIds;
    use proptest::prelude::*;

    use super::*;
    use crate::store::check_key;

    fn key(minute: i64, hash: u128) -> StagedKey {
        StagedKey {
            pipeline: "orders-00ff00ff".parse().unwrap(),
            minute: Timestamp::from_micros(0).minute().plus(minute),
            hash: ObjectHash::new(hash),
        }
    }

    #[test]
    fn keys_are_spelled_as_the_contract_says() {
        let at: Minute = "2026-11-29/14/05".parse().unwrap();
        let staged = StagedKey { minute: at, ..key(0, 0xabc) };
        let hash = "00000000000000000000000000000abc";
        assert_eq!(staged.to_string(), format!("staging/orders-00ff00ff/2026-11-29/14/05/{hash}.parquet"));
        assert_eq!(
            staged.dead_letters().to_string(),
            format!("dead-letters/orders-00ff00ff/2026-11-29/14/05/{hash}.jsonl")
        );
        assert_eq!(staged.dead_letters().staged(), staged);
        let (table, commit) = (TableUuid::new("t-1"), CommitId::new(&SeededIds::new(1)));
        let p = &staged.pipeline;
        assert_eq!(settlement(p, &table, &commit), format!("{}{commit}.json", settled_prefix(p, &table)));
        assert_eq!(settled_prefix(p, &table), format!("{}{table}/", all_settled_prefix(p)));
        assert!(is_ledger(&ledger(p, &table, &commit)) && !is_ledger(&settlement(p, &table, &commit)));
        for key in [
            staged.to_string(),
            settlement(p, &table, &commit),
            ledger(p, &table, &commit),
            run(p, "fold"),
            pipeline_id("orders"),
            paused("orders"),
            format!("{}pipeline.json", applied_prefix("orders", "ab12")),
        ] {
            check_key(&key).unwrap();
        }
    }

    #[test]
    fn other_texts_are_not_keys() {
        let good = key(29_000_000, 5).to_string();
        good.parse::<StagedKey>().unwrap();
        for bad in [
            good.replace("staging", "stagings"),
            good.replace(".parquet", ".parquet.tmp"),
            good.replace(".parquet", ".PARQUET"),
            good.replace("orders-00ff00ff", "orders"),
            good.replace("/2025", "/+025"),
            good.replace("00000000000000000000000000000005", "5"),
            good.replace("0005.p", "000F.p"),
            good.replace("parquet", "jsonl"),
            format!("/{good}"),
            "staging/".to_owned(),
            String::new(),
        ] {
            assert_ne!(bad, good);
            assert!(bad.parse::<StagedKey>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn keys_read_back_and_sort_by_minute(
            a in -10_000_000i64..30_000_000, b in -10_000_000i64..30_000_000, x in any::<u128>(), y in any::<u128>(),
        ) {
            let (a, b) = (key(a, x), key(b, y));
            prop_assert_eq!(&a.to_string().parse::<StagedKey>().unwrap(), &a);
            prop_assert_eq!(a.dead_letters().to_string().parse::<DeadLetterKey>().unwrap(), a.dead_letters());
            prop_assert_eq!(a.to_string().cmp(&b.to_string()), a.cmp(&b));
            prop_assert!(a.to_string().starts_with(&staging_prefix(&a.pipeline)));
            let start = start_after(&a.pipeline, a.minute);
            prop_assert_eq!(b.to_string() > start, b.minute >= a.minute);
        }
    }
}

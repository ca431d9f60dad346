//! The columns that a table gets from a message and from what the pipeline file says about it.

mod defaults;
mod plan;
mod tables;
#[cfg(test)]
pub(crate) mod tests;

use pipeline::expectation::Expectations;
use pipeline::resolved::{ColumnCase, Pii, UnknownFields};
use pipeline::types::Type;
use serde::{Deserialize, Serialize};

pub use plan::{plan, plan_records};
pub use tables::{Tables, plan_tables};

/// A table's columns, in order, and what else decoding depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Columns {
    /// The columns of the table, without `_kafka_*` and `_ingested_at`.
    pub columns: Vec<Column>,
    /// How names in their types are spelled.
    pub column_case: ColumnCase,
    /// What happens to a record with fields that the schema doesn't know.
    pub unknown_fields: UnknownFields,
    /// Which records are taken; all where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter>,
    /// The field numbers that lead to the repeated field of which each element becomes a row. Columns whose paths begin with
    /// these are made of the element; others are the same in every row of a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explode: Option<Vec<u32>>,
}

/// A field of the payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// As a column's `source` names it.
    pub source: String,
    /// The same for people.
    pub source_name: String,
}

/// Takes the records with one of some values in a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// The field, as a column's `source` names it.
    pub source: String,
    /// The same for people.
    pub source_name: String,
    /// The values as text: numbers in digits, enums by name, `true` and `false`.
    pub values: Vec<String>,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Its name in the table.
    pub name: String,
    /// Where its value comes from, in terms that a rename of source fields doesn't change: `value:6.1` is field 1 of the
    /// message in field 6; `@topic`, `@partition`, `@offset`, `@timestamp`, `@ingested_at` are the record's own, `@key` its
    /// key, `@header.city` its header `city`; `@rest` is what the schema does not know. Behind what is hashed or cut stands `|hash` or `|last4`. Of several columns of one source each has `#` and its name behind it.
    pub source: String,
    /// The same for people: `team.name`, `@topic`. Nothing is behind the names.
    pub source_name: String,
    /// Its type.
    pub data_type: Type,
    /// Whether a row without a value is refused.
    pub required: bool,
    /// Its comment.
    pub doc: Option<String>,
    /// What its values must be like.
    #[serde(default, skip_serializing_if = "Expectations::is_empty")]
    pub expect: Expectations,
    /// What is left of its values: a column that is dropped is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pii: Option<Pii>,
}

/// What is wrong with a pipeline's `[table]` block for a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Fault {
    /// The setting: `table.columns.age`, `table.exclude[0]`, or `table` where no single one is to blame.
    pub place: String,
    /// What is wrong.
    pub message: String,
    /// What it is about.
    pub about: About,
}

/// What a fault is about: not every one takes a schema to be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// What the file says does not go with the message.
    Message,
    /// The table is to be laid out by a column that is not there.
    Missing(String),
    /// What a column's declaration says is wrong whatever the message is.
    Declaration,
}

/// How a source in the payload begins.
const VALUE: &str = "value:";

/// The source that is the record's key.
pub(crate) const KEY: &str = "@key";

/// How a source that is a header begins; its name follows, letter by letter.
pub(crate) const HEADER: &str = "@header.";

/// The source and the name of the column of fields that the schema does not know.
pub(crate) const REST_SOURCE: &str = "@rest";
pub(crate) const REST: &str = "_rest";

/// What stands between a source and the column's name where several columns are made of the source: a table tells its
/// columns apart by their sources.
const NAMED: char = '#';

/// What stands between a source and what is left of it: a hash is another value than what it was made of.
const TREATED: char = '|';

impl Columns {
    /// The first column whose values are hashed: decoding takes a salt then.
    #[must_use]
    pub fn hashed(&self) -> Option<&Column> {
        self.columns.iter().find(|column| column.pii == Some(Pii::Hash))
    }
}

impl Column {
    /// Whether it holds the fields that the schema does not know.
    pub(crate) fn is_rest(&self) -> bool {
        self.source == REST_SOURCE
    }

    /// The field numbers that lead to its value; none for a column that the record itself fills. An unreadable source
    /// is an empty path, which no message has.
    #[must_use]
    pub fn value_path(&self) -> Option<Vec<u32>> {
        let path = self.source.strip_prefix(VALUE)?;
        let path = path.split([NAMED, TREATED]).next().unwrap_or(path);
        Some(path.split('.').map(str::parse).collect::<Result<_, _>>().unwrap_or_default())
    }
}

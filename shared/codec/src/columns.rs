//! The columns that a table gets from a message and from what the pipeline file says about it.

mod arrangement;
mod aside;
mod defaults;
mod keys;
mod plan;
mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod unmatched;
mod versions;
mod withheld;

use std::collections::{BTreeMap, HashSet};

use pipeline::expectation::Expectations;
use pipeline::path;
use pipeline::resolved::{ColumnCase, Pii, Unit, UnknownFields};
use pipeline::types::Type;
use serde::{Deserialize, Serialize};

use crate::source::{Described, ROOT};

pub(crate) use withheld::{Withheld, Within};

pub use arrangement::Arrangement;
pub use aside::left_aside;
pub use keys::{former_of_keys, plan_keys};
pub use plan::{plan, plan_records};
pub use tables::{Tables, plan_tables};
pub use unmatched::{Unmatched, unmatched};
pub use versions::{Own, Reading, United, Versions};

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
    /// The repeated field of which each element becomes a row, as a column's `source` names it. Columns whose paths begin
    /// with its path are made of the element; others are the same in every row of a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explode: Option<String>,
    /// What the column of unknown fields has nothing of, where there is one.
    #[serde(default, skip_serializing_if = "Withheld::is_empty")]
    pub(crate) withheld: Withheld,
    /// The paths of required columns that are missing here, for only another version of the schema has their fields: every record of
    /// this version lacks a value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) absent: Vec<String>,
    /// The fields of the payload's record, as sources name them, that are in no column for one of their name is declared of something
    /// else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) replaced: Vec<String>,
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
    /// Where its value comes from, in terms that a rename of source fields doesn't change where the format has such:
    /// `value:6.1` is field 1 of the protobuf message in field 6; `value:team.name` the field `name` of the Avro record in the
    /// field `team`, whose earlier names [`former_sources`] tells; `@topic`, `@partition`, `@offset`, `@timestamp`, `@ingested_at` are the record's own, `@key` its
    /// key, `@key.6.1` a field of its key as in `value:6.1`, `@header.city` its header `city`; `@rest` is what the schema does not know. Behind what is hashed or cut stands `|hash` or `|last4`. Of several columns of one source each has `#` and its name behind it.
    pub source: String,
    /// The same for people: `team.name`, `@topic`. Nothing is behind the names.
    pub source_name: String,
    /// Its type.
    pub data_type: Type,
    /// What a whole number of the source counts since 1970 that becomes a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
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

    /// The fields, by their paths, of required columns that the schema lacks, and another version of it has: none of its records is a
    /// row.
    #[must_use]
    pub fn absent(&self) -> &[String] {
        &self.absent
    }
}

impl Field {
    /// It as the only column there is, of strings, where the columns that it was found beside have theirs.
    pub(crate) fn alone(&self, beside: &Columns) -> Columns {
        let column = Column {
            name: "text".to_owned(),
            source: self.source.clone(),
            source_name: self.source_name.clone(),
            data_type: Type::String,
            unit: None,
            required: false,
            doc: None,
            expect: Expectations::default(),
            pii: None,
        };
        Columns {
            columns: vec![column],
            column_case: beside.column_case,
            unknown_fields: UnknownFields::Ignore,
            filter: None,
            explode: None,
            withheld: Withheld::default(),
            absent: Vec::new(),
            replaced: Vec::new(),
        }
    }
}

impl Filter {
    /// The field, and its values that are taken.
    pub(crate) fn parts(&self) -> (Field, HashSet<Box<[u8]>>) {
        let field = Field { source: self.source.clone(), source_name: self.source_name.clone() };
        (field, self.values.iter().map(|text| text.as_bytes().into()).collect())
    }
}

impl Column {
    /// Whether it holds the fields that the schema does not know.
    pub(crate) fn is_rest(&self) -> bool {
        self.source == REST_SOURCE
    }

    /// Whether its value comes from the payload.
    pub(crate) fn is_of_payload(&self) -> bool {
        self.source.starts_with(VALUE)
    }

    /// The field numbers that lead to its value; none for a column that the record itself fills. An unreadable source
    /// is an empty path, which no message has.
    #[must_use]
    pub fn value_path(&self) -> Option<Vec<u32>> {
        numbers(&self.source)
    }

    /// The names that lead to its value, where fields are found by their names; none for a column that the record itself
    /// fills. An unreadable source is an empty path, which no record has.
    #[must_use]
    pub fn value_names(&self) -> Option<Vec<String>> {
        names(&self.source)
    }
}

/// The field numbers of a source in the payload.
pub(crate) fn numbers(source: &str) -> Option<Vec<u32>> {
    let (path, _) = split(source)?;
    Some(path.split('.').map(str::parse).collect::<Result<_, _>>().unwrap_or_default())
}

/// The field names of a source in the payload.
pub(crate) fn names(source: &str) -> Option<Vec<String>> {
    let (path, _) = split(source)?;
    Some(path::parse(path).unwrap_or_default())
}

/// The path of a source in the payload, and what stands behind it: quoted names may hold anything.
fn split(source: &str) -> Option<(&str, &str)> {
    let path = source.strip_prefix(VALUE)?;
    let mut quoted = false;
    let end = path.find(|c| {
        quoted ^= c == '"';
        !quoted && (c == NAMED || c == TREATED)
    });
    Some(path.split_at(end.unwrap_or(path.len())))
}

/// The sources that a table may know columns by which come from renamed fields, for each source that has such: the same
/// path with one or several of its fields under an earlier name. A table binds a column to its source when it first sees
/// it; one whose source it has not seen is the column of a former source, where it has seen one of these.
#[must_use]
pub fn former_sources<S: Described + ?Sized>(schema: &S, columns: &Columns) -> BTreeMap<String, Vec<String>> {
    let schema = schema.describe();
    let found = columns.columns.iter().filter_map(|column| {
        let (path, behind) = split(&column.source)?;
        let mut written: Vec<Vec<String>> = vec![Vec::new()];
        let mut record = ROOT;
        for id in path::parse(path).ok()? {
            let field = schema.record(record).fields.iter().find(|field| field.id == id)?;
            let ids = || std::iter::once(&field.id).chain(&field.former);
            written = written
                .iter()
                .flat_map(|path| ids().map(move |id| [path.as_slice(), std::slice::from_ref(id)].concat()))
                .take(FORMER_MAX)
                .collect();
            record = field.value.inside().unwrap_or(usize::MAX);
        }
        // The first is the source itself.
        let former = written.iter().skip(1).map(|ids| format!("{VALUE}{}{behind}", path::text(ids)));
        Some((column.source.clone(), former.collect::<Vec<_>>())).filter(|(_, former)| !former.is_empty())
    });
    found.collect()
}

/// Former sources of one column: more are not looked for.
const FORMER_MAX: usize = 64;

//! What is expected of samples, as a file beside them, and how it differs from what was found.
//!
//! ```json
//! {
//!   "values.hex:1": { "rows": [ { "id": 1, "name": "a" } ] },
//!   "values.hex:2": { "dead_letter": { "class": "truncated" } },
//!   "all.records.jsonl:1": { "filtered": "tombstone" },
//!   "all.records.jsonl:2": { "deletes": { "id": 1 } }
//! }
//! ```
//!
//! Rows are compared whole, in their order; of a dead letter, and of `table`, what is said.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use model::coverage::Filtered;
use model::failure::Kind;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::manners::failure::Failure;

/// The file.
pub(super) const FILE: &str = "expected.json";

/// A JSON object in the order that it is written in: a row's columns, the samples of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ordered<T>(Vec<(String, T)>);

/// A row by its columns.
pub(super) type Row = Ordered<Value>;

impl Row {
    /// It without its nulls.
    pub(super) fn present(self) -> Self {
        Self(self.0.into_iter().filter(|(_, value)| !value.is_null()).collect())
    }
}

impl<T> Ordered<T> {
    fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

impl<T: Serialize> Serialize for Ordered<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered<T>, A::Error> {
                let (mut members, mut seen) = (Vec::new(), BTreeSet::new());
                while let Some((name, value)) = map.next_entry::<String, T>()? {
                    if !seen.insert(name.clone()) {
                        return Err(serde::de::Error::custom(format!("`{name}` comes twice")));
                    }
                    members.push((name, value));
                }
                Ok(Ordered(members))
            }
        }
        deserializer.deserialize_map(Members(std::marker::PhantomData))
    }
}

/// What becomes of a record.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "Written")]
pub(super) enum Found {
    /// Its rows, and their table where there are many.
    Rows { table: Option<String>, rows: Vec<Row> },
    /// The key whose row it deletes, and that one's table where there are many.
    Deletes { table: Option<String>, key: Row },
    /// Why it can never be a row.
    DeadLetter(Dead),
    /// Why it makes no row by choice.
    Filtered(Filtered),
}

/// A dead letter, as far as it is known or matters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dead {
    pub(super) class: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
}

/// The same as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rows: Option<Vec<Row>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deletes: Option<Row>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dead_letter: Option<Dead>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filtered: Option<Filtered>,
}

impl From<Found> for Written {
    fn from(found: Found) -> Self {
        let nothing = Self { table: None, rows: None, deletes: None, dead_letter: None, filtered: None };
        match found {
            Found::Rows { table, rows } => Self { table, rows: Some(rows), ..nothing },
            Found::Deletes { table, key } => Self { table, deletes: Some(key), ..nothing },
            Found::DeadLetter(dead) => Self { dead_letter: Some(dead), ..nothing },
            Found::Filtered(why) => Self { filtered: Some(why), ..nothing },
        }
    }
}

impl<'de> Deserialize<'de> for Found {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fault = |message: &str| Err(serde::de::Error::custom(message));
        let Written { table, rows, deletes, dead_letter, filtered } = Written::deserialize(deserializer)?;
        match (rows, deletes, dead_letter, filtered) {
            (Some(rows), None, None, None) if !rows.is_empty() => Ok(Self::Rows { table, rows }),
            (Some(rows), ..) if rows.is_empty() => {
                fault("a record without rows is a `dead_letter` or `filtered`, or one that `deletes`")
            }
            (None, Some(key), None, None) => Ok(Self::Deletes { table, key }),
            (None, None, ..) if table.is_some() => fault("`table` is that of `rows`, or of a row that it `deletes`"),
            (None, None, Some(dead), None) => Ok(Self::DeadLetter(dead)),
            (None, None, None, Some(why)) => Ok(Self::Filtered(why)),
            _ => fault("what becomes of a record is one of `rows`, `deletes`, `dead_letter` and `filtered`"),
        }
    }
}

/// One thing that is otherwise than expected.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Difference {
    pub(super) sample: String,
    /// Where: `row 1, name`; empty for the whole record.
    at: String,
    /// Null, too, where nothing is expected.
    expected: Option<Value>,
    /// Null, too, where there is nothing.
    found: Option<Value>,
}

impl Difference {
    /// Lines for a person. `is_next` is whether they follow another difference of the sample.
    pub(super) fn say(&self, is_next: bool, lines: &mut Vec<String>) {
        let said = |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
        if !is_next {
            lines.push(match (&self.expected, &self.found, self.at.is_empty()) {
                (None, Some(_), true) => format!("{}: nothing is expected of it yet", self.sample),
                (Some(_), None, true) => format!("{}: there is no such sample", self.sample),
                _ => format!("{}: not as expected", self.sample),
            });
        }
        let at = if self.at.is_empty() { String::new() } else { format!("{}: ", self.at) };
        let (expected, found) = (said(&self.expected), said(&self.found));
        match expected.len() + found.len() < 70 {
            true => lines.push(format!("  {at}expected {expected}, found {found}")),
            false => {
                lines.push(format!("  {at}expected {expected}"));
                lines.push(format!("  {}found    {found}", " ".repeat(at.chars().count())));
            }
        }
    }
}

/// The file's content.
#[derive(Debug)]
pub(super) struct Expected {
    path: PathBuf,
    samples: Ordered<Found>,
}

impl Expected {
    /// Reads the file; one that is not there expects nothing.
    ///
    /// # Errors
    /// When it can't be read, or what it says of a sample makes no sense.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let place = || path.display().to_string();
        let samples = match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                let at = format!("{}:{}:{}", place(), error.line(), error.column());
                Failure::usage("test.expected", error.to_string())
                    .at(at)
                    .remedy("mend it there, or remove the file and have --update write it")
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ordered(Vec::new()),
            Err(error) => return Err(Failure::io("test.expected", place(), &error)),
        };
        Ok(Self { path: path.to_owned(), samples })
    }

    /// Adds what is otherwise than expected of a sample.
    pub(super) fn compare(&self, id: &str, found: &Found, differences: &mut Vec<Difference>) {
        let whole = |found: &Found| serde_json::to_value(found).ok();
        let mut differ = |at: String, expected, found| {
            differences.push(Difference { sample: id.to_owned(), at, expected, found });
        };
        let text = |text: &Option<String>| text.clone().map(Value::from);
        match (self.samples.get(id), found) {
            (None, found) => differ(String::new(), None, whole(found)),
            (Some(Found::Rows { table, rows }), Found::Rows { table: found_table, rows: found }) => {
                if table.is_some() && table != found_table {
                    differ("table".to_owned(), text(table), text(found_table));
                }
                for (n, found) in found.iter().enumerate() {
                    let Some(expected) = rows.get(n) else {
                        differ(format!("row {}", n + 1), None, serde_json::to_value(found).ok());
                        continue;
                    };
                    for (name, value) in &expected.0 {
                        let at = || format!("row {}, {name}", n + 1);
                        match found.get(name) {
                            Some(found) if is_same(value, found) => {}
                            found => differ(at(), Some(value.clone()), found.cloned()),
                        }
                    }
                    for (name, value) in found.0.iter().filter(|(name, _)| expected.get(name).is_none()) {
                        differ(format!("row {}, {name}", n + 1), None, Some(value.clone()));
                    }
                }
                for (n, expected) in rows.iter().enumerate().skip(found.len()) {
                    differ(format!("row {}", n + 1), serde_json::to_value(expected).ok(), None);
                }
            }
            (Some(Found::DeadLetter(expected)), Found::DeadLetter(found)) => {
                if expected.class != found.class {
                    let (expected, found) = (expected.class.clone(), found.class.clone());
                    differ("class".to_owned(), Some(expected.into()), Some(found.into()));
                }
                for (name, expected, found) in
                    [("path", &expected.path, &found.path), ("message", &expected.message, &found.message)]
                {
                    if expected.is_some() && expected != found {
                        differ(name.to_owned(), text(expected), text(found));
                    }
                }
            }
            (Some(expected), found) if expected == found => {}
            (Some(expected), found) => differ(String::new(), whole(expected), whole(found)),
        }
    }

    /// Adds the samples that are expected and not there, and says how many they are.
    pub(super) fn gone(&self, met: &[(String, Found)], differences: &mut Vec<Difference>) -> usize {
        let met: BTreeSet<&str> = met.iter().map(|(id, _)| id.as_str()).collect();
        let gone = self.samples.0.iter().filter(|(id, _)| !met.contains(id.as_str()));
        let gone: Vec<Difference> = gone
            .map(|(id, expected)| Difference {
                sample: id.clone(),
                at: String::new(),
                expected: serde_json::to_value(expected).ok(),
                found: None,
            })
            .collect();
        let count = gone.len();
        differences.extend(gone);
        count
    }

    /// Writes the file anew, in the order of the samples. What holds stays as a person wrote it.
    ///
    /// # Errors
    /// When it can't be written.
    pub(super) fn write(&mut self, met: Vec<(String, Found)>, differences: &[Difference]) -> Result<(), Failure> {
        let changed: BTreeSet<&str> = differences.iter().map(|difference| difference.sample.as_str()).collect();
        let samples = met.into_iter().map(|(id, found)| {
            let kept = self.samples.get(&id).filter(|_| !changed.contains(id.as_str())).cloned();
            (id, kept.unwrap_or(found))
        });
        self.samples = Ordered(samples.collect());
        let mut text =
            serde_json::to_vec_pretty(&self.samples).map_err(|e| Failure::of(Kind::Bug, "test.expected", &e))?;
        text.push(b'\n');
        std::fs::write(&self.path, text).map_err(|e| Failure::io("test.expected", self.path.display().to_string(), &e))
    }
}

/// Whether two values are the same: a person writes 1 for 1.0.
fn is_same(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Number(a), Value::Number(b)) => a == b || (a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| is_same(a, b)))
        }
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expecting(text: &str) -> Expected {
        Expected { path: PathBuf::new(), samples: serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}")) }
    }

    #[test]
    fn what_differs_is_told_at_its_place() {
        let check = |expected: &str, found: &str, places: &[&str]| {
            let expected = expecting(&format!("{{\"s\": {expected}}}"));
            let found = serde_json::from_str(found).unwrap_or_else(|e| panic!("{found}: {e}"));
            let mut differences = Vec::new();
            expected.compare("s", &found, &mut differences);
            let told: Vec<&str> = differences.iter().map(|difference| difference.at.as_str()).collect();
            assert_eq!(told, places, "{found:?}");
        };
        let row = r#"{"rows": [{"a": 1, "b": [{"c": 1.0}]}]}"#;
        check(row, row, &[]);
        check(row, r#"{"rows": [{"b": [{"c": 1}], "a": 1.0}]}"#, &[]);
        check(row, r#"{"table": "t.t", "rows": [{"a": 1, "b": [{"c": 1}]}]}"#, &[]);
        check(row, r#"{"rows": [{"a": 2, "b": [{"c": 2}]}]}"#, &["row 1, a", "row 1, b"]);
        check(row, r#"{"rows": [{"a": 1, "d": null}]}"#, &["row 1, b", "row 1, d"]);
        check(row, r#"{"rows": [{"a": 1, "b": [{"c": 1}]}, {"a": 2}]}"#, &["row 2"]);
        check(r#"{"rows": [{"a": 1}, {"a": 2}]}"#, r#"{"rows": [{"a": 1}]}"#, &["row 2"]);
        check(r#"{"table": "t.a", "rows": [{}]}"#, r#"{"table": "t.b", "rows": [{}]}"#, &["table"]);
        // Whole numbers are compared by every digit.
        check(r#"{"rows": [{"a": 9007199254740993}]}"#, r#"{"rows": [{"a": 9007199254740992}]}"#, &["row 1, a"]);
        let dead = r#"{"dead_letter": {"class": "truncated", "path": "a", "message": "m"}}"#;
        check(r#"{"dead_letter": {"class": "truncated"}}"#, dead, &[]);
        check(
            r#"{"dead_letter": {"class": "late", "path": "b", "message": "n"}}"#,
            dead,
            &["class", "path", "message"],
        );
        check(r#"{"filtered": "filter"}"#, r#"{"filtered": "filter"}"#, &[]);
        check(r#"{"filtered": "filter"}"#, r#"{"filtered": "explode"}"#, &[""]);
        check(row, dead, &[""]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            r#"{"s": {}}"#,
            r#"{"s": {"rows": []}}"#,
            r#"{"s": {"row": [{}]}}"#,
            r#"{"s": {"rows": [{}], "filtered": "filter"}}"#,
            r#"{"s": {"table": "t", "filtered": "filter"}}"#,
            r#"{"s": {"filtered": "no"}}"#,
            r#"{"s": {"dead_letter": {"path": "a"}}}"#,
            r#"{"s": {"filtered": "filter"}, "s": {"filtered": "filter"}}"#,
            "[]",
        ] {
            assert!(serde_json::from_str::<Ordered<Found>>(text).is_err(), "{text}");
        }
    }
}

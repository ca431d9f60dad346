//! Which engines can read a table, by its format version and the types of its columns. Whether an engine reaches the
//! table's catalog and files is another question.
//!
//! What is known comes from each engine's own pages on Iceberg: Athena's and Redshift Spectrum's supported types, Iceberg's
//! "Spark Writes: Iceberg type to Spark type", and for PyIceberg and DuckDB the readers in this project's own tests. What
//! none of them says is `unknown`.

use iceberg::spec::{PrimitiveType, Schema, Type};
use serde::Serialize;

/// What is known of one engine.
#[derive(Debug, Serialize)]
pub(crate) struct Engine {
    pub(crate) engine: &'static str,
    pub(crate) reads: Reads,
    /// Why not, or what to look out for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}

/// Whether a table can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reads {
    Yes,
    No,
    Unknown,
}

/// Types that not all engines have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    Time,
    Uuid,
    Fixed,
    /// Nanoseconds, of format version 3.
    Nanoseconds,
}

/// What an engine says of a special type.
type Says = fn(Special) -> (Reads, &'static str);

const ENGINES: [(&str, Says, &str); 7] = [
    ("athena", |_| (Reads::No, "it has no such type"), ""),
    (
        "spark",
        |special| match special {
            Special::Time => (Reads::No, "it has no such type"),
            Special::Uuid => (Reads::Yes, "reads it as a string"),
            Special::Fixed => (Reads::Yes, "reads it as binary"),
            Special::Nanoseconds => (Reads::Unknown, ""),
        },
        "",
    ),
    ("trino", |_| (Reads::Unknown, ""), ""),
    ("redshift_spectrum", |_| (Reads::No, "it has no such type"), "it cuts strings at 16384 bytes"),
    ("snowflake", |_| (Reads::Unknown, ""), ""),
    ("duckdb", |_| (Reads::Unknown, ""), ""),
    (
        "pyiceberg",
        |special| match special {
            Special::Nanoseconds => (Reads::Unknown, ""),
            _ => (Reads::Yes, ""),
        },
        "",
    ),
];

/// What is known of each engine.
pub(crate) fn of(schema: &Schema) -> Vec<Engine> {
    let mut special = Vec::new();
    let mut strings = false;
    for field in schema.as_struct().fields() {
        walk(&field.field_type, &field.name, &mut special, &mut strings);
    }
    ENGINES
        .iter()
        .map(|(engine, says, of_strings)| {
            let said = special.iter().map(|(column, special, text)| {
                let (reads, why) = says(*special);
                let named = format!("`{column}` is {text}");
                (reads, if why.is_empty() { named } else { format!("{named}: {why}") })
            });
            // The worst decides: no before unknown before yes.
            let worst = said.max_by_key(|(reads, _)| match reads {
                Reads::Yes => 0,
                Reads::Unknown => 1,
                Reads::No => 2,
            });
            let (reads, why) = match worst {
                Some((reads, why)) => (reads, Some(why)),
                None => (Reads::Yes, (strings && !of_strings.is_empty()).then(|| (*of_strings).to_owned())),
            };
            Engine { engine, reads, why }
        })
        .collect()
}

fn walk(data_type: &Type, column: &str, special: &mut Vec<(String, Special, String)>, strings: &mut bool) {
    match data_type {
        Type::Primitive(primitive) => {
            let found = match primitive {
                PrimitiveType::Time => Special::Time,
                PrimitiveType::Uuid => Special::Uuid,
                PrimitiveType::Fixed(_) => Special::Fixed,
                PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs => Special::Nanoseconds,
                PrimitiveType::String => {
                    *strings = true;
                    return;
                }
                _ => return,
            };
            special.push((column.to_owned(), found, primitive.to_string()));
        }
        Type::Struct(fields) => {
            for field in fields.fields() {
                walk(&field.field_type, &format!("{column}.{}", field.name), special, strings);
            }
        }
        Type::List(list) => walk(&list.element_field.field_type, &format!("{column}.element"), special, strings),
        Type::Map(map) => {
            walk(&map.key_field.field_type, &format!("{column}.key"), special, strings);
            walk(&map.value_field.field_type, &format!("{column}.value"), special, strings);
        }
    }
}

#[cfg(test)]
mod tests {
    use table::schema::{Column, iceberg_schema};

    use super::*;

    #[test]
    fn nothing_is_said_that_is_not_known() {
        let check = |data_type: &str, expected: &str| {
            let column =
                Column { name: "a".to_owned(), data_type: data_type.parse().unwrap(), required: false, doc: None };
            let engines = of(&iceberg_schema(&[column]).unwrap());
            let letters: String = engines
                .iter()
                .map(|engine| match engine.reads {
                    Reads::Yes => 'y',
                    Reads::No => 'n',
                    Reads::Unknown => '?',
                })
                .collect();
            assert_eq!(letters, expected, "{data_type}: {engines:?}");
            assert!(engines.iter().all(|engine| engine.reads == Reads::Yes || engine.why.is_some()));
        };
        // athena, spark, trino, redshift_spectrum, snowflake, duckdb, pyiceberg
        check("struct<x: list<decimal(38, 2)>, y: map<string, timestamptz>>", "yyyyyyy");
        check("time", "nn?n??y");
        check("list<uuid>", "ny?n??y");
        check("struct<x: fixed(3)>", "ny?n??y");
        check("struct<x: fixed(3), y: time>", "nn?n??y");
    }
}

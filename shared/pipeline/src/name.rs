//! Names that other systems restrict: pipelines, topics, tables, columns.

use crate::resolved;

/// Part of object keys and of table property names (`frazil.ledger.<pipeline-id>`): short, and plain in both.
const PIPELINE_LENGTH_MAX: usize = 64;

/// Kafka's own limit on a topic's name.
const TOPIC_LENGTH_MAX: usize = 249;

/// Glue's limit on the names of databases, tables and columns.
const GLUE_LENGTH_MAX: usize = 255;

/// Metadata columns that the Iceberg specification keeps for itself.
const ICEBERG_RESERVED: [&str; 7] =
    ["_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"];

/// What staged objects hold beside the table's columns.
const STAGED: [&str; 5] = ["_table", "_ordinal", "_op", "_key", "_value"];

/// The record columns, in table order.
pub(crate) const RECORD_COLUMNS: [&str; 5] = {
    let [(topic, ..), (partition, ..), (offset, ..), (timestamp, ..), (ingested_at, ..)] = &resolved::RECORD_COLUMNS;
    [*topic, *partition, *offset, *timestamp, *ingested_at]
};

/// The column of the fields that a schema does not know, where a pipeline keeps them.
pub(crate) const REST: &str = "_rest";

/// A pipeline's name: lower-case letters, digits, `-` and `_`.
pub(crate) fn pipeline(name: &str) -> Result<(), String> {
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
    let begins = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if plain && begins && name.len() <= PIPELINE_LENGTH_MAX {
        return Ok(());
    }
    Err(format!(
        "`{name}` is not a pipeline name: the file's stem has lower-case letters, digits, `-` and `_`, begins with a letter \
         or digit and is at most {PIPELINE_LENGTH_MAX} long, because it becomes part of object keys and table properties"
    ))
}

/// A variable's or an environment's name.
pub(crate) fn variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// A topic's name, as Kafka allows it.
pub(crate) fn topic(name: &str) -> Result<(), String> {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if plain && !name.is_empty() && name.len() <= TOPIC_LENGTH_MAX && name != "." && name != ".." {
        return Ok(());
    }
    Err(format!(
        "`{name}` is not a topic name: Kafka allows letters, digits, `.`, `_` and `-`, 1 to {TOPIC_LENGTH_MAX} of them"
    ))
}

/// One part of a table's name.
pub(crate) fn table_part(part: &str) -> Result<(), String> {
    let plain = part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let begins = part.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if plain && begins && part.len() <= GLUE_LENGTH_MAX {
        return Ok(());
    }
    Err(format!(
        "`{part}` cannot name a namespace or table: only lower-case letters, digits and `_`, beginning with a letter or digit, at \
         most {GLUE_LENGTH_MAX}; Glue and Athena fold case and S3 Tables refuses the rest, so another spelling would be another table there"
    ))
}

/// Why a column may not have this name, whatever its case: engines fold it.
pub(crate) fn reserved_column(name: &str) -> Option<&'static str> {
    let folded = name.to_lowercase();
    if ICEBERG_RESERVED.contains(&folded.as_str()) || folded.starts_with("_change_") {
        Some("the Iceberg specification keeps it for its metadata columns")
    } else if RECORD_COLUMNS.contains(&folded.as_str()) {
        Some("it is one of the record columns; to hold the same value under another name, use `from = \"@…\"`")
    } else if folded.starts_with("_kafka_") {
        Some("frazil keeps names that begin with `_kafka_` for record columns")
    } else if STAGED.contains(&folded.as_str()) {
        Some("frazil stages a column of that name beside the table's own")
    } else {
        None
    }
}

/// A column's length in Glue.
pub(crate) fn column(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("a column has a name".to_owned());
    }
    if name.len() > GLUE_LENGTH_MAX || name.chars().any(char::is_control) {
        return Err(format!(
            "a column's name is at most {GLUE_LENGTH_MAX} bytes long and has no control characters, for Glue"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_held_to_what_every_system_on_the_way_allows() {
        for good in ["employee", "employee-v2", "0_a"] {
            pipeline(good).unwrap();
        }
        for bad in ["", "Employee", "a b", "-a", "ä", "a.b", &"a".repeat(65)] {
            assert!(pipeline(bad).is_err(), "{bad}");
        }
        for good in ["protobuf-demo-topic-pure", "cdc.public.orders", "__consumer_offsets", "A"] {
            topic(good).unwrap();
        }
        for bad in ["", ".", "..", "a b", "a/b", "ü", &"a".repeat(250)] {
            assert!(topic(bad).is_err(), "{bad}");
        }
        for bad in ["", "Employee", "em-ployee", "_employee", "a b"] {
            assert!(table_part(bad).is_err(), "{bad}");
        }
    }
}

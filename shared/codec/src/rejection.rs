use serde::{Deserialize, Serialize};

/// Why a record is a dead letter. A closed list: people filter and count by these names, so one is never renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The payload ends before what it announces.
    Truncated,
    /// Bytes are left over after the payload's end.
    TrailingBytes,
    /// A string is not UTF-8.
    InvalidUtf8,
    /// It nests deeper than any reader promises to follow.
    TooDeep,
    /// It does not fit a batch's bounds.
    TooLarge,
    /// What surrounds the payload is not what the pipeline names.
    BadFraming,
    /// A checksum does not match.
    BadChecksum,
    /// The schema it names does not exist.
    UnknownSchema,
    /// Its schema can't be read with the pipeline's.
    IncompatibleSchema,
    /// The bytes or a value are of another type than the schema says.
    WrongType,
    /// A value does not fit its column.
    OutOfRange,
    /// A required column has no value.
    MissingRequired,
    /// An expectation of the pipeline file is not met.
    Expectation,
    /// A key column is null.
    NullKey,
    /// Two source names fall on one column.
    AmbiguousName,
    /// There is a value, of zero bytes.
    EmptyValue,
    /// No table is named for it.
    Unroutable,
    /// Its event time is below the watermark.
    Late,
    /// It changes a row that has settled too long ago.
    Stale,
}

impl Class {
    /// Every class, in the order of the documentation.
    pub const ALL: [Self; 19] = [
        Self::Truncated,
        Self::TrailingBytes,
        Self::InvalidUtf8,
        Self::TooDeep,
        Self::TooLarge,
        Self::BadFraming,
        Self::BadChecksum,
        Self::UnknownSchema,
        Self::IncompatibleSchema,
        Self::WrongType,
        Self::OutOfRange,
        Self::MissingRequired,
        Self::Expectation,
        Self::NullKey,
        Self::AmbiguousName,
        Self::EmptyValue,
        Self::Unroutable,
        Self::Late,
        Self::Stale,
    ];

    /// The name in dead letters, metrics and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::TrailingBytes => "trailing_bytes",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::TooDeep => "too_deep",
            Self::TooLarge => "too_large",
            Self::BadFraming => "bad_framing",
            Self::BadChecksum => "bad_checksum",
            Self::UnknownSchema => "unknown_schema",
            Self::IncompatibleSchema => "incompatible_schema",
            Self::WrongType => "wrong_type",
            Self::OutOfRange => "out_of_range",
            Self::MissingRequired => "missing_required",
            Self::Expectation => "expectation",
            Self::NullKey => "null_key",
            Self::AmbiguousName => "ambiguous_name",
            Self::EmptyValue => "empty_value",
            Self::Unroutable => "unroutable",
            Self::Late => "late",
            Self::Stale => "stale",
        }
    }
}

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A payload that can never become a row of these columns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{class}{}{path}: {message}", if path.is_empty() { "" } else { " at " })]
pub struct Rejected {
    /// The dead letter's class.
    pub class: Class,
    /// Where, in the source's own names: `items[3].sku`; empty for the payload as a whole.
    pub path: String,
    /// What is wrong, for a person.
    pub message: String,
}

impl Rejected {
    /// The same of a record's key, told apart from its value's.
    #[must_use]
    pub fn of_key(self) -> Self {
        let path = if self.path.is_empty() { "@key".to_owned() } else { format!("@key.{}", self.path) };
        Self { path, ..self }
    }

    /// Of a record without a key, where a required column is made of one.
    #[must_use]
    pub fn no_key() -> Self {
        let message = "the record has no key, and a required column is made of it".to_owned();
        Self { class: Class::MissingRequired, path: String::new(), message }.of_key()
    }

    /// Why a record that has neither a value nor a key deletes nothing.
    #[must_use]
    pub fn no_key_to_delete() -> Self {
        let message = "the record has neither a value nor a key: there is nothing to delete".to_owned();
        Self { class: Class::NullKey, path: String::new(), message }.of_key()
    }

    /// Why a record without a value does not say which row it deletes.
    #[must_use]
    pub fn key_beside(column: &str) -> Self {
        let message = format!(
            "a record without a value deletes the row of its key, and `{column}` of the table's key is not made of the record's"
        );
        Self { class: Class::NullKey, path: column.to_owned(), message }
    }

    /// Why a record without a value has no table, where a field of the value names it.
    #[must_use]
    pub fn no_field_of_a_route() -> Self {
        let message = "the record has no value, and its table is named by a field of it".to_owned();
        Self { class: Class::Unroutable, path: String::new(), message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_one_name_everywhere() {
        for class in Class::ALL {
            assert_eq!(serde_json::to_string(&class).unwrap(), format!("\"{class}\""));
        }
    }

    #[test]
    fn a_rejection_reads_as_a_sentence() {
        let check = |path: &str, text: &str| {
            let message = "the string is not UTF-8".to_owned();
            assert_eq!(Rejected { class: Class::InvalidUtf8, path: path.to_owned(), message }.to_string(), text);
        };
        check("team.name", "invalid_utf8 at team.name: the string is not UTF-8");
        check("", "invalid_utf8: the string is not UTF-8");
    }
}

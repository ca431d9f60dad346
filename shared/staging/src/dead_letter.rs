//! Records that could not become rows, kept whole: contract `frazil.stored.dead_letter/1`, one JSON document a line.
//!
//! Ingest makes letters of records that it can't decode: their payload stands in the base64 members. The fold makes letters
//! of rows that a table does not take: a staged object no longer holds the payload, so the row itself stands in `row`.
//! `message` says what is wrong in words and positions; it never quotes payload or row, which may hold secrets that logs
//! and consoles must not show.

use base64_simd::STANDARD;
use bytes::Bytes;
use model::clock::Minute;
use model::coordinate::{SourceId, TopicPartition};
use model::failure::Kind;
use model::id::PipelineId;
use model::stored::{Contract, Refused, Tag};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One record in dead letters, or one of its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// `frazil.stored.dead_letter/<version>`.
    pub schema: Tag,
    /// The pipeline that could not use it.
    pub pipeline_id: PipelineId,
    /// The minute in which the record was staged, as in the key.
    pub minute: Minute,
    /// The cluster.
    pub source: SourceId,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// Kafka's timestamp, milliseconds since the epoch; absent where the record has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp_ms: Option<i64>,
    /// What the timestamp is the time of; absent where the record has none, and in a letter of a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp_type: Option<TimestampType>,
    /// The key: null is null, no bytes are the empty text. Null in a letter of a row.
    #[serde(deserialize_with = "present")]
    pub key: Option<Payload>,
    /// The value: null is null, no bytes are the empty text. Null in a letter of a row, which says nothing of a tombstone.
    #[serde(deserialize_with = "present")]
    pub value: Option<Payload>,
    /// The headers, in order; names may repeat.
    #[serde(default)]
    pub headers: Vec<(String, Option<Payload>)>,
    /// The id of the schema that the bad part claims, as on the wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_id: Option<String>,
    /// What is wrong with it.
    pub class: Class,
    /// Which part is wrong.
    pub part: Part,
    /// Where in that part, as a path of names and indices; empty for the whole. In a letter of a row, the table's column.
    #[serde(default)]
    pub path: String,
    /// What is wrong, for a person. Without payload text.
    pub message: String,
    /// In a letter of a row: which of its record's rows it is, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<i32>,
    /// In a letter of a row: the table that does not take it, `namespace.name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// In a letter of a row: the key of the staged object that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<String>,
    /// The row, its values by column as they were staged; present in letters of rows only. Integers keep every digit,
    /// decimals are strings, as in the rows that the command line prints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<Map<String, Value>>,
}

impl Contract for DeadLetter {
    const NAME: &'static str = "frazil.stored.dead_letter";
    const VERSION: u32 = 1;
}

impl DeadLetter {
    /// Where the record stands.
    #[must_use]
    pub fn at(&self) -> TopicPartition {
        TopicPartition { source: self.source.clone(), topic: self.topic.clone(), partition: self.partition }
    }
}

/// What a record's timestamp is the time of, as Kafka spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TimestampType {
    /// Given by the producer.
    CreateTime,
    /// Given by the broker.
    LogAppendTime,
}

/// The part of a record that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The key.
    Key,
    /// The value.
    Value,
}

/// Bytes, serialised as standard base64 with padding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Payload(pub Bytes);

impl From<&[u8]> for Payload {
    fn from(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }
}

impl Serialize for Payload {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode_to_string(&self.0))
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode_to_vec(text).map_err(|_| serde::de::Error::custom("not standard base64"))?;
        Ok(Self(Bytes::from(bytes)))
    }
}

/// Serde takes an absent member for null; here null is a tombstone, and an absent member a damaged line.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Payload>, D::Error> {
    Option::deserialize(deserializer)
}

macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        /// What is wrong with a record: a closed list. A new class is a new version of the contract.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Class {
            $($(#[$doc])* $name,)+
        }

        impl Class {
            /// All classes.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The name in documents and counts.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }
    };
}

classes! {
    /// It ends too early.
    Truncated = "truncated",
    /// There is more after its end.
    TrailingBytes = "trailing_bytes",
    /// A text is not UTF-8.
    InvalidUtf8 = "invalid_utf8",
    /// It nests deeper than the limit.
    TooDeep = "too_deep",
    /// It, or what it unpacks to, is larger than the limit.
    TooLarge = "too_large",
    /// What surrounds the payload is not what it should be.
    BadFraming = "bad_framing",
    /// A checksum does not fit.
    BadChecksum = "bad_checksum",
    /// No registry knows its schema.
    UnknownSchema = "unknown_schema",
    /// Its schema can't be read as the table's columns.
    IncompatibleSchema = "incompatible_schema",
    /// A value of another kind than its column.
    WrongType = "wrong_type",
    /// A value outside its column's range.
    OutOfRange = "out_of_range",
    /// A required value is not there; a null event time too.
    MissingRequired = "missing_required",
    /// An expectation of the pipeline file is not met.
    Expectation = "expectation",
    /// A null key where null keys are refused.
    NullKey = "null_key",
    /// Two of its names fall on one column.
    AmbiguousName = "ambiguous_name",
    /// A value without bytes where there must be some.
    EmptyValue = "empty_value",
    /// No table takes it.
    Unroutable = "unroutable",
    /// It came too late.
    Late = "late",
    /// It came after what tells its place was gone: something newer, or whether it had entered already.
    Stale = "stale",
}

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a class of dead letters")]
pub struct NotAClass(String);

impl std::str::FromStr for Class {
    type Err = NotAClass;

    fn from_str(text: &str) -> Result<Self, NotAClass> {
        Self::ALL.iter().copied().find(|c| c.as_str() == text).ok_or_else(|| NotAClass(text.to_owned()))
    }
}

/// Why a dead-letter object can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A line is not JSON of the right shape. The line's text is left out: it holds payload.
    #[error("line {line}, column {column} is not a dead letter")]
    Shape {
        /// From 1.
        line: usize,
        /// From 1; 0 at the end of the line.
        column: usize,
    },
    /// A line of another version or another document.
    #[error("line {line}: {refused}")]
    Refused {
        /// From 1.
        line: usize,
        /// Why.
        #[source]
        refused: Refused,
    },
}

impl Error {
    /// What happens next.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Refused { refused: Refused::Newer { .. }, .. } => Kind::Misconfigured,
            Self::Shape { .. } | Self::Refused { .. } => Kind::Corrupt,
        }
    }
}

/// The body of a dead-letter object: a line for each, each ended by a line feed.
///
/// # Errors
/// Never for letters made from valid parts: nothing in them can fail to be JSON.
pub fn encode(letters: &[DeadLetter]) -> Result<Bytes, Error> {
    let mut out = Vec::new();
    for (n, letter) in letters.iter().enumerate() {
        serde_json::to_writer(&mut out, letter).map_err(|e| Error::Shape { line: n + 1, column: e.column() })?;
        out.push(b'\n');
    }
    Ok(Bytes::from(out))
}

/// Appends the line of a letter whose row is JSON text already: numbers keep the digits that they are written with.
///
/// # Errors
/// As [`encode`].
pub fn append(letter: &DeadLetter, row: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    serde_json::to_writer(&mut *out, letter).map_err(|e| Error::Shape { line: 1, column: e.column() })?;
    // `row` is the last member.
    debug_assert!(letter.row.is_none() && out.len() > start);
    out.pop();
    out.extend_from_slice(b",\"row\":");
    out.extend_from_slice(row);
    out.extend_from_slice(b"}\n");
    Ok(())
}

/// The letters of a dead-letter object.
///
/// # Errors
/// With the first line that can't be read: an object that was cut short, or written by a newer version.
pub fn decode(body: &[u8]) -> Result<Vec<DeadLetter>, Error> {
    #[derive(Deserialize)]
    struct Tagged {
        schema: Tag,
    }
    let mut letters = Vec::new();
    // Each line is ended, so the last piece is empty; anything there is a line that was cut short.
    let mut lines = body.split(|b| *b == b'\n').enumerate().peekable();
    while let Some((n, text)) = lines.next() {
        let line = n + 1;
        if lines.peek().is_none() {
            if text.is_empty() {
                break;
            }
            return Err(Error::Shape { line, column: text.len() + 1 });
        }
        let shape = |e: &serde_json::Error| Error::Shape { line, column: e.column() };
        let tagged: Tagged = serde_json::from_slice(text).map_err(|e| shape(&e))?;
        tagged.schema.check::<DeadLetter>().map_err(|refused| Error::Refused { line, refused })?;
        letters.push(serde_json::from_slice(text).map_err(|e| shape(&e))?);
    }
    Ok(letters)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn letter() -> DeadLetter {
        DeadLetter {
            schema: Tag::of::<DeadLetter>(),
            pipeline_id: "orders-00ff00ff".parse().unwrap(),
            minute: "2026-11-29/14/05".parse().unwrap(),
            source: SourceId::of("cluster"),
            topic: "orders".to_owned(),
            partition: 3,
            offset: 9,
            timestamp_ms: Some(-5),
            timestamp_type: Some(TimestampType::LogAppendTime),
            key: None,
            value: Some(Payload(Bytes::from_static(b"\n\xffpassword=x"))),
            headers: vec![("h".to_owned(), Some(Payload::default())), ("h".to_owned(), None)],
            schema_id: None,
            class: Class::Truncated,
            part: Part::Value,
            path: "team.name".to_owned(),
            message: "the value ends inside a field".to_owned(),
            ordinal: None,
            table: None,
            staged: None,
            row: None,
        }
    }

    #[test]
    fn a_row_stands_in_its_letter_with_every_digit() {
        let text =
            r#"{"id":18446744073709551615,"least":-9223372036854775808,"ratio":0.1,"sum":"0.10","tags":[null,{}]}"#;
        let row: Map<String, Value> = serde_json::from_str(text).unwrap();
        let letter = DeadLetter {
            value: None,
            class: Class::Late,
            ordinal: Some(1),
            table: Some("db.t".to_owned()),
            staged: Some("staging/x".to_owned()),
            row: Some(row),
            ..letter()
        };
        let body = encode(std::slice::from_ref(&letter)).unwrap();
        assert!(std::str::from_utf8(&body).unwrap().contains(&format!(r#""row":{text}"#)));
        assert_eq!(decode(&body).unwrap(), std::slice::from_ref(&letter));
        let mut appended = Vec::new();
        append(&DeadLetter { row: None, ..letter }, text.as_bytes(), &mut appended).unwrap();
        assert_eq!(appended, body);
    }

    #[test]
    fn null_and_no_bytes_stay_apart_and_payload_stands_in_base64_only() {
        let mut empty = letter();
        (empty.key, empty.value) = (Some(Payload::default()), None);
        let letters = vec![letter(), empty];
        let body = encode(&letters).unwrap();
        assert_eq!(decode(&body).unwrap(), letters);
        let text = std::str::from_utf8(&body).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert!(text.contains(r#""key":null,"value":"Cv9wYXNzd29yZD14""#), "{text}");
        assert!(text.contains(r#""key":"","value":null"#) && text.contains(r#"[["h",""],["h",null]]"#), "{text}");
        assert!(!text.contains("password"));
        assert!(decode(b"").unwrap().is_empty());
        assert!(encode(&[]).unwrap().is_empty());
    }

    #[test]
    fn what_is_not_a_dead_letter_says_the_line_and_nothing_of_the_payload() {
        let good = String::from_utf8(encode(&[letter()]).unwrap().to_vec()).unwrap();
        let check = |body: String, kind: Kind, line: &str| {
            let fault = decode(body.as_bytes()).unwrap_err();
            assert_eq!(fault.kind(), kind, "{body}");
            assert!(fault.to_string().starts_with(&format!("line {line}")), "{fault}");
            assert!(!fault.to_string().contains("Cv9w"), "{fault}");
        };
        check(format!("{good}{}", &good[..40]), Kind::Corrupt, "2");
        check(good.trim_end().to_owned(), Kind::Corrupt, "1");
        check(format!("{good}\n{good}"), Kind::Corrupt, "2");
        check(good.replace("dead_letter/1", "dead_letter/2"), Kind::Misconfigured, "1");
        check(good.replace("dead_letter/1", "footer/1"), Kind::Corrupt, "1");
        check(good.replace("truncated", "odd"), Kind::Corrupt, "1");
        check(good.replace(r#""key":null,"#, ""), Kind::Corrupt, "1");
        check(good.replace("Cv9wYXNzd29yZD14", "Cv9wYXNzd29yZD1"), Kind::Corrupt, "1");
        let more = good.replace(r#""class""#, r#""added_later":{"a":[1]},"class""#);
        assert_eq!(decode(more.as_bytes()).unwrap(), [letter()]);
    }

    #[test]
    fn classes_are_named_as_they_are_written() {
        for class in Class::ALL {
            assert_eq!(serde_json::to_string(class).unwrap(), format!("\"{class}\""));
            assert_eq!(class.as_str().parse::<Class>().unwrap(), *class);
        }
        assert!("odd".parse::<Class>().is_err());
    }

    proptest! {
        #[test]
        fn any_payload_reads_back(
            key in prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
            value in prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
            name in ".{0,8}", message in ".{0,20}",
        ) {
            let mut letter = letter();
            letter.key = key.map(|k| Payload(k.into()));
            letter.value = value.map(|v| Payload(v.into()));
            letter.headers = vec![(name, letter.key.clone())];
            letter.message = message;
            let letters = vec![letter.clone(), letter];
            prop_assert_eq!(decode(&encode(&letters).unwrap()).unwrap(), letters);
        }
    }
}

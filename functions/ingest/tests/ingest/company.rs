//! A record's verdict is its own: whatever other records its event holds, of whatever versions of the schema, in whatever order.

use base64_simd::STANDARD;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use staging::dead_letter::Class;

use crate::topic::Topic;

/// What a version has as `x`, apart from `id`, and whether it has `y`, a record of `p` and perhaps `q`.
#[derive(Clone, Copy, Debug)]
struct Version {
    x: Option<Kind>,
    y: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Int,
    Long,
}

/// What a record says, as far as its version has it.
#[derive(Clone, Copy, Debug)]
struct Said {
    version: usize,
    x: bool,
    y: bool,
    /// What a JSON value has as `x` besides, whatever its schema knows.
    foreign: Option<Kind>,
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Avro,
    Json,
    Protobuf,
}

impl Format {
    fn schema(self, version: Version) -> String {
        match self {
            Self::Avro => {
                let optional = |name: &str, of: Value| json!({"name": name, "type": ["null", of], "default": null});
                let mut fields = vec![json!({"name": "id", "type": "long"})];
                fields.extend(version.x.map(|kind| {
                    optional(
                        "x",
                        json!(match kind {
                            Kind::Text => "string",
                            Kind::Int => "int",
                            Kind::Long => "long",
                        }),
                    )
                }));
                fields.extend(version.y.map(|more| {
                    let mut members = vec![json!({"name": "p", "type": "long"})];
                    members.extend(more.then(|| optional("q", json!("long"))));
                    optional("y", json!({"type": "record", "name": "Y", "fields": members}))
                }));
                json!({"type": "record", "name": "R", "fields": fields}).to_string()
            }
            Self::Json => {
                let whole = json!({"type": "integer"});
                let mut members = Map::from_iter([("id".to_owned(), whole.clone())]);
                members.extend(version.x.map(|kind| {
                    let of = match kind {
                        Kind::Text => json!({"type": "string"}),
                        Kind::Int => json!({"type": "integer", "format": "int32"}),
                        Kind::Long => whole.clone(),
                    };
                    ("x".to_owned(), of)
                }));
                members.extend(version.y.map(|more| {
                    let of = match more {
                        false => json!({"type": "object", "properties": {"p": whole}}),
                        true => json!({"type": "object", "properties": {"p": whole, "q": whole}}),
                    };
                    ("y".to_owned(), of)
                }));
                json!({"type": "object", "properties": members}).to_string()
            }
            Self::Protobuf => {
                // Texts have a number of their own, so that the column's name is all that both have.
                let x = version.x.map(|kind| match kind {
                    Kind::Text => "optional string x = 2;",
                    Kind::Int => "optional int32 x = 3;",
                    Kind::Long => "optional int64 x = 3;",
                });
                let y = version.y.map(|_| "Y y = 4;");
                let q = version.y.is_some_and(|more| more).then_some("int64 q = 2;");
                format!(
                    "syntax = \"proto3\"; message R {{ int64 id = 1; {} {} }} message Y {{ int64 p = 1; {} }}",
                    x.unwrap_or_default(),
                    y.unwrap_or_default(),
                    q.unwrap_or_default()
                )
            }
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Avro => "avsc",
            Self::Json => "json",
            Self::Protobuf => "proto",
        }
    }

    fn value(self) -> String {
        let (format, message) = match self {
            Self::Avro => ("avro", ""),
            Self::Json => ("json", ""),
            Self::Protobuf => ("protobuf", ", message = \"R\""),
        };
        format!(
            "format = \"{format}\"\nframing = \"confluent\"\nschema = {{ registry = \"main\", name = \"r\"{message} }}"
        )
    }

    /// A framed value, of small numbers and single letters throughout.
    fn record(self, offset: u8, said: Said, version: Version) -> Vec<u8> {
        let x = version.x.filter(|_| said.x);
        let y = version.y.filter(|_| said.y);
        let mut value = vec![0, 0, 0, 0, u8::try_from(said.version).unwrap()];
        match self {
            Self::Avro => {
                value.push(2 * offset);
                match (version.x, x) {
                    (None, _) => {}
                    (Some(_), None) => value.push(0),
                    (_, Some(Kind::Text)) => value.extend([2, 2, b'a']),
                    (_, Some(Kind::Int | Kind::Long)) => value.extend([2, 14]),
                }
                match (version.y, y) {
                    (None, _) => {}
                    (Some(_), None) => value.push(0),
                    (_, Some(false)) => value.extend([2, 10]),
                    (_, Some(true)) => value.extend([2, 10, 2, 12]),
                }
            }
            Self::Json => {
                let mut members = Map::from_iter([("id".to_owned(), json!(offset))]);
                let of = |kind| match kind {
                    Kind::Text => json!("a"),
                    Kind::Int | Kind::Long => json!(7),
                };
                members.extend(x.or(said.foreign).map(|kind| ("x".to_owned(), of(kind))));
                members.extend(
                    y.map(|more| ("y".to_owned(), if more { json!({"p": 5, "q": 6}) } else { json!({"p": 5}) })),
                );
                value.extend(Value::from(members).to_string().into_bytes());
            }
            Self::Protobuf => {
                value.extend([0, 8, offset]);
                value.extend(match x {
                    None => &[][..],
                    Some(Kind::Text) => &[18, 1, b'a'],
                    Some(Kind::Int | Kind::Long) => &[24, 7],
                });
                value.extend(match y {
                    None => &[][..],
                    Some(false) => &[34, 2, 8, 5],
                    Some(true) => &[34, 4, 8, 5, 16, 6],
                });
            }
        }
        value
    }
}

/// The rows and dead letters of an event: what is null is left out, for a column may be there for
/// another's sake.
async fn verdicts(
    format: Format,
    files: &[(String, String)],
    values: &[(u8, Vec<u8>)],
) -> (Vec<String>, Vec<(i64, Class)>) {
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let topic = Topic::of(&files, &format.value(), "").await.unwrap();
    let record = |(offset, value): &(u8, Vec<u8>)| json!({"offset": offset, "value": STANDARD.encode_to_string(value)});
    topic.handle(values.iter().map(record).collect()).await.unwrap();
    // A struct has blanks of its own.
    let plain = |row: String| {
        let mut cells: Vec<String> = Vec::new();
        for word in row.replace(", q: NULL", "").split(' ') {
            match cells.last_mut().filter(|last| last.contains('{') && !last.contains('}')) {
                Some(open) => *open = format!("{open} {word}"),
                None => cells.push(word.to_owned()),
            }
        }
        cells.retain(|cell| !cell.ends_with("=NULL"));
        // Columns stand in the order in which they came.
        cells.sort();
        cells.join(" ")
    };
    (topic.rows().into_iter().map(plain).collect(), topic.dead())
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Text), Just(Kind::Int), Just(Kind::Long)]
}

fn version() -> impl Strategy<Value = Version> {
    (proptest::option::of(kind()), proptest::option::of(any::<bool>())).prop_map(|(x, y)| Version { x, y })
}

fn said() -> impl Strategy<Value = Said> {
    (0..4_usize, any::<bool>(), any::<bool>(), proptest::option::of(kind())).prop_map(|(version, x, y, foreign)| Said {
        version,
        x,
        y,
        foreign,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Alone, in company, and in the company's other order: the same rows and the same dead letters.
    #[test]
    fn a_record_makes_the_same_of_itself_in_any_company(
        versions in proptest::collection::vec(version(), 4),
        newest in 0..4_usize,
        all in proptest::collection::vec(said(), 2..6),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        for format in [Format::Avro, Format::Json, Format::Protobuf] {
            let file = |name: &str, version: Version| (format!("registry/{name}.{}", format.ending()), format.schema(version));
            let mut files: Vec<(String, String)> =
                versions.iter().enumerate().map(|(id, version)| file(&id.to_string(), *version)).collect();
            files.push(file("r", versions[newest]));
            let values: Vec<(u8, Vec<u8>)> =
                (1..).zip(&all).map(|(offset, said)| (offset, format.record(offset, *said, versions[said.version]))).collect();
            let mut alone = (Vec::new(), Vec::new());
            for value in &values {
                let (rows, dead) = runtime.block_on(verdicts(format, &files, std::slice::from_ref(value)));
                alone.0.extend(rows);
                alone.1.extend(dead);
            }
            let together = runtime.block_on(verdicts(format, &files, &values));
            prop_assert_eq!(&together, &alone, "{:?}", format);
            // Which version is met first must not matter either: all but the first record, and then the first.
            let mut turned: Vec<(u8, Vec<u8>)> = values.iter().rev().cloned().collect();
            for (offset, (place, _)) in (1..).zip(&mut turned) {
                *place = offset;
            }
            let mut other = runtime.block_on(verdicts(format, &files, &turned));
            let last = i64::try_from(values.len() + 1).unwrap();
            let renumbered = |row: &String| {
                let (offset, rest) = row.split_once(':').unwrap();
                format!("{}:{rest}", last - offset.parse::<i64>().unwrap())
            };
            other = (other.0.iter().rev().map(renumbered).collect(), other.1.iter().rev().map(|(at, class)| (last - at, *class)).collect());
            prop_assert_eq!(&other, &alone, "{:?} turned", format);
        }
    }
}

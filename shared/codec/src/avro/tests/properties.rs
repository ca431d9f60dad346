//! Random schemas, readers and bytes: whatever is accepted means what the oracle says.

use apache_avro::{from_avro_datum, to_avro_datum};
use pipeline::types::Type;
use proptest::prelude::*;

use super::generate::{self, Field, Kind};
use super::oracle;
use super::*;
use crate::testing::Random;
use crate::testing::cells::{self, Cell, same};

const PAYLOADS: usize = 20;

struct Subject {
    decoder: Decoder,
    types: Vec<(String, Type)>,
    kind: Kind,
    writer: apache_avro::Schema,
    /// None where it is the writer's.
    reader: Option<apache_avro::Schema>,
    /// Rows that must come.
    expected: Vec<(Vec<u8>, Vec<Cell>)>,
}

impl Subject {
    /// A writer's records read as a reader's, some of their fields as JSON; none where the reader has no columns.
    fn new(writer: &Kind, reader: Option<&Kind>, random: &mut Random) -> Option<Self> {
        let kind = reader.unwrap_or(writer);
        let text = |kind: &Kind, former: bool| generate::text(kind, former).to_string();
        let ours = [schema(&text(writer, false)), schema(&text(kind, false))];
        let theirs =
            |text: &str| apache_avro::Schema::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let mut table = iceberg();
        if let Kind::Record(_, fields) = kind {
            for field in fields.iter().filter(|field| is_json(&field.of)) {
                if random.chance(4) {
                    let from = pipeline::resolved::From::Path(vec![field.name.clone()]);
                    crate::columns::tests::declare(&mut table, &field.name, from, Some("string"));
                }
            }
        }
        let columns = plan(&ours[1], &table).ok()?;
        let types = columns.columns.iter().map(|column| (column.name.clone(), column.data_type.clone())).collect();
        // Theirs keeps what logical types need, and writes `{"type":"long"}`.
        if !text(writer, false).contains("logicalType") {
            assert_eq!(ours[0].canonical_form(), theirs(&text(writer, false)).canonical_form());
        }
        Some(Self {
            decoder: Decoder::new(&ours[0], &ours[1], &columns).unwrap(),
            types,
            kind: kind.clone(),
            writer: theirs(&text(writer, false)),
            reader: reader.map(|reader| theirs(&text(reader, true))),
            expected: Vec::new(),
        })
    }

    /// The cells of the row according to the oracle, which has to find every byte a use.
    fn means(&self, payload: &[u8]) -> Result<Vec<Cell>, String> {
        let mut rest = payload;
        let value = from_avro_datum(&self.writer, &mut rest, self.reader.as_ref()).map_err(|e| e.to_string())?;
        if !rest.is_empty() {
            return Err("bytes are left".to_owned());
        }
        let (apache_avro::types::Value::Record(values), Kind::Record(_, fields)) = (value, &self.kind) else {
            return Err("it is no record".to_owned());
        };
        let mut records = Vec::new();
        generate::records(&self.kind, &mut records);
        // A field without a column is one of no fields.
        let cells = self.types.iter().map(|(name, data_type)| {
            let at = fields.iter().position(|Field { name: known, .. }| known == name).unwrap();
            oracle::cell(&values[at].1, &fields[at].of, data_type, &records)
        });
        Ok(cells.collect())
    }

    fn decode(&mut self, payload: &[u8]) -> Result<(), Rejected> {
        self.decoder.decode(payload)
    }

    /// Compares the rows with what they had to be; how many there are.
    fn finish(mut self) -> usize {
        assert_eq!(self.decoder.rows(), self.expected.len());
        let rows = cells::of(&self.decoder.finish().unwrap());
        for (row, (payload, expected)) in rows.iter().zip(&self.expected) {
            for ((name, actual), expected) in row.iter().zip(expected) {
                assert!(
                    same(actual, expected),
                    "{name} of {payload:02x?}\nis        {actual}\nshould be {expected}\n{}",
                    self.writer.canonical_form()
                );
            }
        }
        rows.len()
    }
}

/// Whether a column of strings holds values of a type as JSON.
fn is_json(kind: &Kind) -> bool {
    match kind {
        Kind::Nullable(inner, _) => is_json(inner),
        Kind::Record(..) | Kind::Array(_) | Kind::Map(_) | Kind::Union(_) => true,
        _ => false,
    }
}

/// Records of a random schema.
fn judge(seed: u64) -> usize {
    let mut random = Random(seed);
    let writer = generate::schema(&mut random);
    let Some(mut subject) = Subject::new(&writer, None, &mut random) else { return 0 };
    for _ in 0..PAYLOADS {
        let payload = match generate::value(&writer, &mut random) {
            Some(value) if random.chance(4) => to_avro_datum(&subject.writer, value).unwrap(),
            _ => generate::payload(&writer, &mut random),
        };
        let expected = subject.means(&payload).unwrap_or_else(|error| panic!("{error}: {payload:02x?}"));
        subject.decode(&payload).unwrap_or_else(|rejected| {
            panic!("refused {payload:02x?}: {rejected}\n{}", subject.writer.canonical_form())
        });
        subject.expected.push((payload, expected));
    }
    subject.finish()
}

/// Records of a random schema read as a reader's.
fn resolve(seed: u64) -> usize {
    let mut random = Random(seed);
    let writer = generate::schema(&mut random);
    let reader = generate::reader(&writer, &mut random);
    let Some(mut subject) = Subject::new(&writer, Some(&reader), &mut random) else { return 0 };
    for _ in 0..PAYLOADS {
        let payload = generate::payload(&writer, &mut random);
        match (subject.decode(&payload), subject.means(&payload)) {
            (Ok(()), Ok(expected)) => subject.expected.push((payload, expected)),
            (Err(rejected), Err(_)) => {
                assert!(matches!(rejected.class, Class::IncompatibleSchema | Class::InvalidUtf8), "{rejected}");
            }
            (Ok(()), Err(error)) => panic!("accepted {payload:02x?}, but {error}\n{writer:?}\n{reader:?}"),
            (Err(rejected), Ok(_)) => panic!("refused {payload:02x?}: {rejected}\n{writer:?}\n{reader:?}"),
        }
    }
    subject.finish()
}

/// The paths through records and branches of unions.
fn paths(kind: &Kind, before: &[String], found: &mut Vec<Vec<String>>) {
    match kind {
        Kind::Nullable(inner, _) => paths(inner, before, found),
        Kind::Record(_, fields) => {
            for field in fields {
                let path = [before, std::slice::from_ref(&field.name)].concat();
                found.push(path.clone());
                paths(&field.of, &path, found);
            }
        }
        Kind::Union(branches) => {
            for branch in branches {
                let name = match branch {
                    Kind::Primitive("null") => continue,
                    Kind::Primitive(name) => name,
                    Kind::Array(_) => "array",
                    Kind::Record(name, _) => name.trim_start_matches("n."),
                    other => panic!("{other:?}"),
                };
                let path = [before, &[name.to_owned()]].concat();
                found.push(path.clone());
                paths(branch, &path, found);
            }
        }
        _ => {}
    }
}

/// What a column of a path must hold where whole fields are columns.
fn along(row: &[(String, Cell)], path: &[String]) -> Cell {
    let (first, rest) = path.split_first().unwrap();
    let Some((_, cell)) = row.iter().find(|(name, _)| *name == first.to_lowercase()) else { return Cell::Null };
    match (rest, cell) {
        ([], cell) => cell.clone(),
        (rest, Cell::Struct(members)) => along(members, rest),
        _ => Cell::Null,
    }
}

/// Columns of paths hold what is there in the columns of whole fields.
fn judge_paths(seed: u64) -> usize {
    let mut random = Random(seed);
    let writer = generate::schema(&mut random);
    let schema = schema(&generate::text(&writer, false).to_string());
    let mut found = Vec::new();
    paths(&writer, &[], &mut found);
    let mut table = iceberg();
    table.fields = pipeline::resolved::Fields::Listed;
    for (n, path) in found.iter().enumerate() {
        let from = pipeline::resolved::From::Path(path.clone());
        crate::columns::tests::declare(&mut table, &format!("c{n}"), from, None);
    }
    let Ok(listed) = plan(&schema, &table) else { return 0 };
    let mut listed = Decoder::new(&schema, &schema, &listed).unwrap();
    let mut whole = decoder(&schema, &schema, &iceberg());
    for _ in 0..PAYLOADS {
        let payload = generate::payload(&writer, &mut random);
        listed.decode(&payload).unwrap();
        whole.decode(&payload).unwrap();
    }
    let (listed, whole) = (listed.finish().unwrap(), whole.finish().unwrap());
    for (listed, whole) in cells::of(&listed).iter().zip(&cells::of(&whole)) {
        for ((_, actual), path) in listed.iter().zip(&found) {
            let expected = along(whole, path);
            // As text, for NaN is not equal to itself.
            assert_eq!(actual.to_string(), expected.to_string(), "{path:?} of {}", schema.canonical_form());
        }
    }
    found.iter().filter(|path| path.len() > 1).count()
}

/// Bytes that were a record once.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() + 1);
        match random.below(4) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.next() as u8),
            2 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            _ if at < bytes.len() => bytes[at] = *random.pick(&[0, 1, 2, 0x7f, 0x80, 0xff]),
            _ => {}
        }
    }
}

fn judge_mutated(seed: u64) {
    let mut random = Random(seed);
    let writer = generate::schema(&mut random);
    let Some(mut subject) = Subject::new(&writer, None, &mut random) else { return };
    for _ in 0..PAYLOADS {
        let mut payload = generate::payload(&writer, &mut random);
        mutate(&mut payload, &mut random);
        // What is refused is not shown to the oracle, which believes the lengths it reads.
        if subject.decode(&payload).is_ok() {
            let expected = subject.means(&payload).unwrap_or_else(|error| {
                panic!("accepted {payload:02x?}, but {error}\n{}", subject.writer.canonical_form())
            });
            subject.expected.push((payload, expected));
        }
    }
    subject.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_record_means_what_the_oracle_says(seed in any::<u64>()) {
        judge(seed);
    }

    #[test]
    fn every_reader_reads_what_the_oracle_reads(seed in any::<u64>()) {
        resolve(seed);
    }

    #[test]
    fn columns_of_paths_are_parts_of_columns_of_fields(seed in any::<u64>()) {
        judge_paths(seed);
    }

    #[test]
    fn what_becomes_a_row_of_broken_bytes_is_what_they_say(seed in any::<u64>()) {
        judge_mutated(seed);
    }

    #[test]
    fn random_bytes_never_panic(seed in any::<u64>(), bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut random = Random(seed);
        let writer = generate::schema(&mut random);
        let reader = generate::reader(&writer, &mut random);
        if let Some(mut subject) = Subject::new(&writer, Some(&reader), &mut random) {
            let accepted = subject.decode(&bytes).is_ok();
            prop_assert_eq!(subject.decoder.finish().unwrap().num_rows(), usize::from(accepted));
        }
    }
}

/// The properties would hold of a decoder that refuses everything.
#[test]
fn most_records_are_resolved() {
    let accepted: usize = (0..100).map(resolve).sum();
    assert!(accepted > 100 * PAYLOADS / 2, "{accepted}");
    let paths: usize = (0..100).map(judge_paths).sum();
    assert!(paths > 100, "{paths}");
}

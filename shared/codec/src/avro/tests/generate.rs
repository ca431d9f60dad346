//! Random schemas, readers of them, values and bytes from one seed.

use apache_avro::types::Value;
use apache_avro::{Days, Decimal, Duration, Millis, Months};
use serde_json::{Value as Json, json};

use crate::testing::Random;

/// A type, as this test needs it.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Primitive(&'static str),
    Logical(&'static str, &'static str),
    /// Digits, and bytes where it is fixed.
    Decimal(usize, Option<(String, usize)>),
    Duration(String),
    Enum(String, Vec<String>, Option<String>),
    Fixed(String, usize),
    Array(Box<Kind>),
    Map(Box<Kind>),
    Record(String, Vec<Field>),
    /// Null comes first or last.
    Nullable(Box<Kind>, bool),
    Union(Vec<Kind>),
    /// The record around it, which an array or an optional field leads back to.
    Again(String),
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    /// What it is called by the writer, where that is another name.
    pub(super) former: Option<String>,
    pub(super) of: Kind,
    pub(super) default: Option<Json>,
}

const PRIMITIVES: [&str; 7] = ["boolean", "int", "long", "float", "double", "bytes", "string"];
const LOGICAL: [(&str, &str); 8] = [
    ("int", "date"),
    ("int", "time-millis"),
    ("long", "time-micros"),
    ("long", "timestamp-millis"),
    ("long", "timestamp-micros"),
    ("long", "local-timestamp-millis"),
    ("long", "local-timestamp-micros"),
    ("string", "colour"),
];

/// Names that no two types have.
#[derive(Default)]
struct Names(usize);

impl Names {
    fn next(&mut self) -> String {
        self.0 += 1;
        format!("n.T{}", self.0)
    }
}

fn word(random: &mut Random, from: &[&'static str]) -> &'static str {
    from[random.below(from.len())]
}

/// A record.
pub(super) fn schema(random: &mut Random) -> Kind {
    record(random, 0, &mut Names::default())
}

fn record(random: &mut Random, depth: usize, names: &mut Names) -> Kind {
    let name = names.next();
    let count = random.below(5) + usize::from(depth == 0);
    let fields = (0..count).map(|n| Field {
        name: format!("f{n}"),
        former: None,
        of: kind(random, depth + 1, names, &name),
        default: None,
    });
    let fields = fields.collect();
    Kind::Record(name, fields)
}

fn kind(random: &mut Random, depth: usize, names: &mut Names, around: &str) -> Kind {
    let nested = depth < 4;
    match random.below(16) {
        0 => {
            let (of, logical) = *random.pick(&LOGICAL);
            Kind::Logical(of, logical)
        }
        1 => Kind::Enum(names.next(), (0..=random.below(4)).map(|n| format!("S{n}")).collect(), None),
        2 => Kind::Fixed(names.next(), 1 + random.below(20)),
        3 => match random.below(3) {
            0 => Kind::Decimal(1 + random.below(38), None),
            1 => {
                let size = 1 + random.below(16);
                Kind::Decimal((size * 8 - 1) * 30_103 / 100_000, Some((names.next(), size)))
            }
            _ => Kind::Duration(names.next()),
        },
        4 | 5 if nested => Kind::Array(Box::new(kind(random, depth + 1, names, around))),
        6 if nested => Kind::Map(Box::new(kind(random, depth + 1, names, around))),
        7 | 8 if nested => record(random, depth + 1, names),
        9 if random.chance(3) => {
            let again = Box::new(Kind::Again(around.to_owned()));
            if random.chance(2) { Kind::Nullable(again, true) } else { Kind::Array(again) }
        }
        10 if nested => {
            let mut branches = vec![Kind::Primitive("long"), Kind::Primitive("string")];
            if random.chance(2) {
                branches.insert(0, Kind::Primitive("null"));
            }
            if random.chance(2) {
                branches.push(record(random, depth + 1, names));
            }
            if random.chance(3) {
                branches.push(Kind::Array(Box::new(kind(random, depth + 2, names, around))));
            }
            Kind::Union(branches)
        }
        11 | 12 => {
            let inner = kind(random, depth + 1, names, around);
            match inner {
                Kind::Nullable(..) | Kind::Union(_) => inner,
                inner => Kind::Nullable(Box::new(inner), random.chance(2)),
            }
        }
        _ => Kind::Primitive(word(random, &PRIMITIVES)),
    }
}

/// A schema's text; `former` with the names that the writer has, and no aliases.
pub(super) fn text(kind: &Kind, former: bool) -> Json {
    match kind {
        Kind::Primitive(name) => json!(name),
        Kind::Logical(of, logical) => json!({"type": of, "logicalType": logical}),
        Kind::Decimal(precision, fixed) => {
            let mut text = match fixed {
                None => json!({"type": "bytes"}),
                Some((name, size)) => json!({"type": "fixed", "name": name, "size": size}),
            };
            text["logicalType"] = json!("decimal");
            text["precision"] = json!(precision);
            text["scale"] = json!(precision / 2);
            text
        }
        Kind::Duration(name) => json!({"type": "fixed", "name": name, "size": 12, "logicalType": "duration"}),
        Kind::Enum(name, symbols, default) => {
            let mut text = json!({"type": "enum", "name": name, "symbols": symbols});
            if let Some(default) = default {
                text["default"] = json!(default);
            }
            text
        }
        Kind::Fixed(name, size) => json!({"type": "fixed", "name": name, "size": size}),
        Kind::Array(items) => json!({"type": "array", "items": text(items, former)}),
        Kind::Map(values) => json!({"type": "map", "values": text(values, former)}),
        Kind::Record(name, fields) => {
            let fields: Vec<Json> = fields
                .iter()
                .map(|field| {
                    let mut written = json!({"name": field.name, "type": text(&field.of, former)});
                    match &field.former {
                        Some(name) if former => written["name"] = json!(name),
                        Some(name) => written["aliases"] = json!(["other", name]),
                        None => {}
                    }
                    if let Some(default) = &field.default {
                        written["default"] = default.clone();
                    }
                    written
                })
                .collect();
            json!({"type": "record", "name": name, "fields": fields})
        }
        Kind::Nullable(inner, true) => json!(["null", text(inner, former)]),
        Kind::Nullable(inner, false) => json!([text(inner, former), "null"]),
        Kind::Union(branches) => branches.iter().map(|branch| text(branch, former)).collect(),
        Kind::Again(name) => json!(name),
    }
}

/// What a later version of a reader might be.
pub(super) fn reader(kind: &Kind, random: &mut Random) -> Kind {
    match kind {
        Kind::Primitive(name) if random.chance(3) => Kind::Primitive(match *name {
            "int" => word(random, &["long", "float", "double", "int"]),
            "long" => word(random, &["float", "double", "long"]),
            "float" => "double",
            "string" => "bytes",
            "bytes" => "string",
            same => same,
        }),
        Kind::Array(items) => Kind::Array(Box::new(reader(items, random))),
        Kind::Map(values) => Kind::Map(Box::new(reader(values, random))),
        Kind::Nullable(inner, first) if !random.chance(6) => {
            let first = if random.chance(4) { !first } else { *first };
            Kind::Nullable(Box::new(reader(inner, random)), first)
        }
        Kind::Nullable(inner, _) => reader(inner, random),
        Kind::Enum(name, symbols, _) if random.chance(2) => {
            let mut kept: Vec<String> = symbols.iter().filter(|_| !random.chance(4)).cloned().collect();
            kept.reverse();
            kept.push("S9".to_owned());
            let default = random.chance(2).then(|| "S9".to_owned());
            Kind::Enum(name.clone(), kept, default)
        }
        Kind::Record(name, fields) => {
            let mut read: Vec<Field> = Vec::new();
            for (n, field) in fields.iter().enumerate() {
                if random.chance(8) && fields.len() > 1 {
                    continue;
                }
                let mut of = reader(&field.of, random);
                let branches = matches!(of, Kind::Nullable(..) | Kind::Union(_) | Kind::Again(_));
                if !branches && random.chance(6) {
                    of = Kind::Nullable(Box::new(of), random.chance(2));
                }
                let renamed = random.chance(6);
                let name = if renamed { format!("g{n}") } else { field.name.clone() };
                let former = renamed.then(|| field.name.clone());
                let at = random.below(read.len() + 1);
                read.insert(at, Field { name, former, of, default: None });
            }
            if random.chance(2) || read.is_empty() {
                let (of, default) = match random.below(7) {
                    0 => (Kind::Primitive("int"), json!(-7)),
                    1 => (Kind::Primitive("string"), json!("given")),
                    2 => (Kind::Nullable(Box::new(Kind::Primitive("double")), true), json!(null)),
                    3 => (Kind::Array(Box::new(Kind::Primitive("long"))), json!([1, 2])),
                    4 => (Kind::Map(Box::new(Kind::Primitive("float"))), json!({"k": 0.5})),
                    5 => (Kind::Primitive("bytes"), json!("ab")),
                    _ => (Kind::Nullable(Box::new(Kind::Primitive("boolean")), false), json!(true)),
                };
                read.push(Field { name: "h".to_owned(), former: None, of, default: Some(default) });
            }
            Kind::Record(name.clone(), read)
        }
        other => other.clone(),
    }
}

/// Every record by its name.
pub(super) fn records<'k>(kind: &'k Kind, found: &mut Vec<(&'k str, &'k Kind)>) {
    match kind {
        Kind::Array(inner) | Kind::Map(inner) | Kind::Nullable(inner, _) => records(inner, found),
        Kind::Union(branches) => branches.iter().for_each(|branch| records(branch, found)),
        Kind::Record(name, fields) => {
            found.push((name, kind));
            fields.iter().for_each(|field| records(&field.of, found));
        }
        _ => {}
    }
}

/// Bytes of a random value, which only an encoder of one's own cuts into blocks as it likes.
pub(super) fn payload(kind: &Kind, random: &mut Random) -> Vec<u8> {
    let mut found = Vec::new();
    records(kind, &mut found);
    let mut bytes = Vec::new();
    Encoder { records: found, random }.write(kind, 0, &mut bytes);
    bytes
}

pub(super) fn long(number: i64, bytes: &mut Vec<u8>) {
    prost::encoding::encode_varint(((number << 1) ^ (number >> 63)) as u64, bytes);
}

struct Encoder<'k, 'r> {
    records: Vec<(&'k str, &'k Kind)>,
    random: &'r mut Random,
}

impl Encoder<'_, '_> {
    fn number(&mut self, bits: u32) -> i64 {
        let number = self.random.next() as i64;
        // Of every length.
        number >> (64 - bits + self.random.below(bits as usize) as u32)
    }

    fn write(&mut self, kind: &Kind, depth: usize, bytes: &mut Vec<u8>) {
        let text = ["", "a", "größe", "a text that is longer than the block that short ones are copied in"];
        match kind {
            Kind::Primitive("null") => {}
            Kind::Primitive("boolean") => bytes.push(self.random.below(2) as u8),
            Kind::Primitive("int") => long(self.number(32), bytes),
            Kind::Primitive("long") => long(self.number(64), bytes),
            Kind::Primitive("float") => bytes.extend((self.random.next() as u32).to_le_bytes()),
            Kind::Primitive("double") => bytes.extend(self.random.next().to_le_bytes()),
            Kind::Primitive("bytes") if self.random.chance(2) => {
                let value: Vec<u8> = (0..self.random.below(40)).map(|_| self.random.next() as u8).collect();
                long(value.len() as i64, bytes);
                bytes.extend(value);
            }
            Kind::Primitive(_) | Kind::Logical("string", _) => {
                let text = self.random.pick(&text);
                long(text.len() as i64, bytes);
                bytes.extend(text.bytes());
            }
            Kind::Logical(_, "time-millis") => long(self.random.below(86_400_000) as i64, bytes),
            Kind::Logical(_, "time-micros") => long(self.random.below(86_400_000_000) as i64, bytes),
            Kind::Logical("int", _) => long(self.number(22), bytes),
            // Within the years 1 to 9999, whatever the unit.
            Kind::Logical(..) => long(self.number(46), bytes),
            Kind::Decimal(precision, fixed) => {
                let number = i128::from(self.random.next()) << 64 | i128::from(self.random.next());
                let number =
                    number % 10_i128.pow((*precision).min(38) as u32) * if self.random.chance(2) { -1 } else { 1 };
                let size = fixed.as_ref().map_or(16, |(_, size)| *size);
                if fixed.is_none() {
                    long(16, bytes);
                }
                bytes.extend(&number.to_be_bytes()[16 - size..]);
            }
            Kind::Duration(_) => bytes.extend((0..12).map(|_| self.random.next() as u8)),
            Kind::Enum(_, symbols, _) => long(self.random.below(symbols.len()) as i64, bytes),
            Kind::Fixed(_, size) => bytes.extend((0..*size).map(|_| self.random.next() as u8)),
            Kind::Array(items) => self.blocks(items, false, depth, bytes),
            Kind::Map(values) => self.blocks(values, true, depth, bytes),
            Kind::Record(_, fields) => fields.iter().for_each(|field| self.write(&field.of, depth, bytes)),
            Kind::Nullable(inner, first) => {
                let null = depth > 6 || self.random.chance(3);
                long(i64::from(null != *first), bytes);
                if !null {
                    self.write(inner, depth + 1, bytes);
                }
            }
            Kind::Union(branches) => {
                let branch = self.random.below(branches.len());
                long(branch as i64, bytes);
                self.write(&branches[branch], depth + 1, bytes);
            }
            Kind::Again(name) => {
                let record = self.records.iter().find(|(known, _)| known == name).unwrap().1.clone();
                self.write(&record, depth + 1, bytes);
            }
        }
    }

    fn blocks(&mut self, of: &Kind, keyed: bool, depth: usize, bytes: &mut Vec<u8>) {
        let blocks = if depth > 6 { 0 } else { self.random.below(3) };
        for block in 0..blocks {
            let count = 1 + self.random.below(3);
            let mut inner = Vec::new();
            for n in 0..count {
                if keyed {
                    let key = format!("k{block}{n}");
                    long(key.len() as i64, &mut inner);
                    inner.extend(key.bytes());
                }
                self.write(of, depth + 1, &mut inner);
            }
            if self.random.chance(2) {
                long(-(count as i64), bytes);
                long(inner.len() as i64, bytes);
            } else {
                long(count as i64, bytes);
            }
            bytes.extend(inner);
        }
        long(0, bytes);
    }
}

/// A value of a type as `apache-avro` has it, for what it encodes itself.
pub(super) fn value(kind: &Kind, random: &mut Random) -> Option<Value> {
    Some(match kind {
        Kind::Primitive("null") => Value::Null,
        Kind::Primitive("boolean") => Value::Boolean(random.chance(2)),
        Kind::Primitive("int") => Value::Int(random.next() as i32),
        Kind::Primitive("long") => Value::Long(random.next() as i64),
        Kind::Primitive("float") => Value::Float(f32::from_bits(random.next() as u32)),
        Kind::Primitive("double") => Value::Double(f64::from_bits(random.next())),
        Kind::Primitive("bytes") => Value::Bytes((0..random.below(40)).map(|_| random.next() as u8).collect()),
        Kind::Primitive(_) | Kind::Logical("string", _) => Value::String("ß".repeat(random.below(30))),
        Kind::Logical(_, "date") => Value::Date(random.below(1 << 20) as i32 - (1 << 19)),
        Kind::Logical(_, "time-millis") => Value::TimeMillis(random.below(86_400_000) as i32),
        Kind::Logical(_, "time-micros") => Value::TimeMicros(random.below(86_400_000_000) as i64),
        Kind::Logical(_, logical) => {
            let at = random.next() as i64 >> 20;
            match *logical {
                "timestamp-millis" => Value::TimestampMillis(at),
                "timestamp-micros" => Value::TimestampMicros(at),
                "local-timestamp-millis" => Value::LocalTimestampMillis(at),
                _ => Value::LocalTimestampMicros(at),
            }
        }
        Kind::Decimal(_, Some((_, size))) => Value::Decimal(Decimal::from(vec![0; *size])),
        Kind::Decimal(_, None) => Value::Decimal(Decimal::from(vec![0xff])),
        Kind::Duration(_) => {
            let part = |random: &mut Random| random.next() as u32;
            let (months, days) = (Months::new(part(random)), Days::new(part(random)));
            Value::Duration(Duration::new(months, days, Millis::new(part(random))))
        }
        Kind::Enum(_, symbols, _) => {
            let at = random.below(symbols.len());
            Value::Enum(at as u32, symbols[at].clone())
        }
        Kind::Fixed(_, size) => Value::Fixed(*size, (0..*size).map(|_| random.next() as u8).collect()),
        Kind::Array(items) => Value::Array((0..random.below(4)).map(|_| value(items, random)).collect::<Option<_>>()?),
        Kind::Map(values) => {
            let entries = (0..random.below(4)).map(|n| Some((format!("k{n}"), value(values, random)?)));
            Value::Map(entries.collect::<Option<_>>()?)
        }
        Kind::Record(_, fields) => {
            let members = fields.iter().map(|field| Some((field.name.clone(), value(&field.of, random)?)));
            Value::Record(members.collect::<Option<_>>()?)
        }
        Kind::Nullable(inner, first) => {
            let null = random.chance(3) || matches!(**inner, Kind::Again(_));
            let inner = if null { Value::Null } else { value(inner, random)? };
            Value::Union(u32::from(null != *first), Box::new(inner))
        }
        Kind::Union(branches) => {
            let branch = random.below(branches.len());
            Value::Union(branch as u32, Box::new(value(&branches[branch], random)?))
        }
        Kind::Again(_) => return None,
    })
}

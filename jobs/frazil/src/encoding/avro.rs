//! JSON to Avro. There is no one way to write Avro's values as JSON: what our own rows and Avro's JSON encoding have, both are taken.
//!
//! Unions are the value itself, of the branch whose own spelling it is, or `{"branch": value}`; fields that are missing are their
//! default; bytes and fixed are base64; logical types are a number, as in Avro, or the text of our rows (RFC 3339, dates, digits of
//! a decimal).

mod union;

use std::cell::Cell;

use apache_avro::schema::{FixedSchema, Name, NamesRef, ResolvedSchema, Schema};
use apache_avro::types::Value as Avro;
use apache_avro::{Decimal, to_avro_datum_schemata};
use codec::json::Json;
use codec::schema::Registered;
use serde_json::Value;

use super::key::Step;
use super::number::Unfit;
use super::{Misfit, boolean, bytes, elements, float, integer, members, number, ranged, single, text, times, wrong};

/// How deep values may nest.
const DEPTH_MAX: usize = 100;

/// What is kept from the library, under names of its own. It makes one type of both kinds of UUIDs, forgets the names of fixed
/// types that are durations or UUIDs, and judges defaults by rules of its own.
const LOGICAL: &str = "frazil.logicalType";
const DEFAULT: &str = "frazil.default";

/// Makes payloads of one schema.
#[derive(Debug)]
pub(crate) struct Encoder {
    schema: Schema,
    /// What it refers to, in other texts.
    others: Vec<Schema>,
}

impl Encoder {
    pub(super) fn new(schema: &Registered) -> Result<Self, Misfit> {
        let failed = |error: apache_avro::Error| Misfit::new(format!("the schema can't be used: {error}"));
        let kept = |text: &str| {
            let schema = serde_json::from_str::<Value>(text);
            let schema =
                schema.map_err(|error| Misfit::new(format!("the schema can't be used: it is not JSON: {error}")));
            schema.map(|schema| kept(schema, false).to_string())
        };
        let text = kept(&schema.text)?;
        let texts = schema.imports.iter().map(|import| kept(&import.text)).collect::<Result<Vec<_>, _>>()?;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (schema, others) = match texts.as_slice() {
            [] => (Schema::parse_str(&text).map_err(failed)?, Vec::new()),
            texts => Schema::parse_str_with_list(&text, texts).map_err(failed)?,
        };
        Ok(Self { schema, others })
    }

    pub(super) fn encode(&self, value: &Json) -> Result<Vec<u8>, Misfit> {
        let failed = |error: apache_avro::Error| Misfit::new(error.to_string());
        let all: Vec<&Schema> = self.others.iter().chain([&self.schema]).collect();
        let resolved = ResolvedSchema::try_from(all.clone()).map_err(failed)?;
        let left = Cell::new(union::tries(value));
        let making = Making { names: resolved.get_names(), is_default: false, left: &left };
        let value = making.value(&self.schema, value, None, DEPTH_MAX)?;
        to_avro_datum_schemata(&self.schema, all, value).map_err(failed)
    }

    /// What the whole value may be wrapped in, and a field's path as values spell it; none where there is no such field.
    pub(super) fn steps(&self, path: &[String]) -> Option<(Vec<String>, Vec<Step>)> {
        let all: Vec<&Schema> = self.others.iter().chain([&self.schema]).collect();
        let resolved = ResolvedSchema::try_from(all).ok()?;
        let left = Cell::new(0);
        let making = Making { names: resolved.get_names(), is_default: false, left: &left };
        let (around, mut here) = making.opened(vec![(&self.schema, None)]);
        let mut steps = Vec::new();
        for name in path {
            let mut next = Vec::new();
            for (schema, namespace) in here {
                match schema {
                    Schema::Record(record) => {
                        let namespace = record.name.namespace.as_deref().or(namespace);
                        let field = record.fields.iter().find(|field| field.name == *name);
                        next.extend(field.map(|field| (&field.schema, namespace)));
                    }
                    Schema::Map(map) => next.push((&map.types, namespace)),
                    _ => {}
                }
            }
            if next.is_empty() {
                return None;
            }
            let (wrappers, opened) = making.opened(next);
            steps.push(Step { names: vec![name.clone()], wrappers });
            here = opened;
        }
        Some((around, steps))
    }
}

/// A schema as the library gets it; `is_field` says that it is a record's field.
fn kept(schema: Value, is_field: bool) -> Value {
    match schema {
        Value::Array(branches) => branches.into_iter().map(|branch| kept(branch, false)).collect(),
        Value::Object(members) => {
            let is_fixed = |of: &Value| of.as_str() == Some("fixed");
            let of = members.get("type");
            // What is said beside the definition of a fixed type does not hold for it.
            let is_beside = of.and_then(|of| of.get("type")).is_some_and(is_fixed);
            let is_fixed = of.is_some_and(is_fixed);
            let member = |(name, value): (String, Value)| match name.as_str() {
                "logicalType" if is_beside => None,
                "logicalType" if is_fixed => Some((LOGICAL.to_owned(), value)),
                "default" if is_field => Some((DEFAULT.to_owned(), value)),
                "type" | "items" | "values" => Some((name, kept(value, false))),
                "fields" => {
                    let value = match value {
                        Value::Array(fields) => fields.into_iter().map(|field| kept(field, true)).collect(),
                        value => value,
                    };
                    Some((name, value))
                }
                _ => Some((name, value)),
            };
            Value::Object(members.into_iter().filter_map(member).collect())
        }
        name => name,
    }
}

/// What the bytes of a fixed type mean.
enum Logical {
    Uuid,
    Decimal { precision: usize, scale: usize },
    Duration,
}

impl Logical {
    /// What can't be is not said, as the specification has it.
    fn of(fixed: &FixedSchema) -> Option<Self> {
        let whole = |name: &str| fixed.attributes.get(name)?.as_u64().and_then(|n| usize::try_from(n).ok());
        match (fixed.attributes.get(LOGICAL)?.as_str()?, fixed.size) {
            ("uuid", 16) => Some(Self::Uuid),
            ("duration", 12) => Some(Self::Duration),
            ("decimal", size) => {
                let precision = whole("precision").filter(|precision| *precision > 0)?;
                let scale = if fixed.attributes.contains_key("scale") { whole("scale")? } else { 0 };
                // Digits that any number of so many bytes has room for, by log10(2).
                let digits = size.saturating_mul(8).saturating_sub(1).saturating_mul(3_010_299_956) / 10_000_000_000;
                (scale <= precision && precision <= digits).then_some(Self::Decimal { precision, scale })
            }
            _ => None,
        }
    }
}

/// Values in the making.
#[derive(Clone, Copy)]
struct Making<'a> {
    /// The schemas that have names.
    names: &'a NamesRef<'a>,
    /// Whether the value is a default. Those stand in a schema by its own rules: of a union it is the first branch's that it fits,
    /// and bytes are characters.
    is_default: bool,
    /// How many more branches of unions may be tried.
    left: &'a Cell<u64>,
}

impl<'a> Making<'a> {
    /// `namespace` is that of the record around it.
    fn value(&self, schema: &Schema, value: &Json, namespace: Option<&str>, depth: usize) -> Result<Avro, Misfit> {
        let depth = depth.checked_sub(1).ok_or_else(|| Misfit::new(format!("it nests more than {DEPTH_MAX} deep")))?;
        Ok(match schema {
            Schema::Null if matches!(value, Json::Null) => Avro::Null,
            Schema::Null => return Err(wrong("null", value)),
            Schema::Boolean => Avro::Boolean(boolean(value)?),
            Schema::Int => Avro::Int(ranged(value)?),
            Schema::Long => Avro::Long(ranged(value)?),
            Schema::Float => Avro::Float(single(value)?),
            Schema::Double => Avro::Double(float(value)?),
            Schema::String => Avro::String(text(value)?.to_owned()),
            Schema::Bytes => Avro::Bytes(self.bytes(value)?),
            Schema::Fixed(fixed) => Avro::Fixed(fixed.size, self.fixed(fixed, value)?),
            Schema::Enum(known) => {
                let symbol = text(value)?;
                let place = known.symbols.iter().position(|known| known == symbol);
                let place = place.and_then(|place| u32::try_from(place).ok());
                let place = place.ok_or_else(|| Misfit::new(format!("`{}` has no such symbol", known.name.name)))?;
                Avro::Enum(place, symbol.to_owned())
            }
            Schema::Array(array) => {
                let elements = elements(value)?.iter().enumerate();
                let element = |(n, v)| self.value(&array.items, v, namespace, depth).map_err(|e: Misfit| e.at(n));
                Avro::Array(elements.map(element).collect::<Result<_, _>>()?)
            }
            Schema::Map(map) => {
                let member = |(name, v): &(String, Json)| {
                    let value = self.value(&map.types, v, namespace, depth).map_err(|e| e.within(name))?;
                    Ok((name.clone(), value))
                };
                Avro::Map(members(value)?.iter().map(member).collect::<Result<_, _>>()?)
            }
            Schema::Union(union) => self.union(union.variants(), value, namespace, depth)?,
            Schema::Record(record) => self.record(record, members(value)?, namespace, depth)?,
            Schema::Ref { name } => self.value(self.named(name, namespace)?, value, namespace, depth)?,
            Schema::Decimal(_) if self.is_default => Avro::Decimal(Decimal::from(self.bytes(value)?)),
            Schema::Decimal(decimal) => {
                let unscaled = unscaled(value, decimal.precision, decimal.scale)?;
                Avro::Decimal(Decimal::from(unscaled.to_be_bytes()))
            }
            Schema::Uuid => {
                let found = uuid::Uuid::try_parse(text(value)?);
                Avro::Uuid(found.map_err(|_| Misfit::new("it is no UUID"))?)
            }
            Schema::Date => Avro::Date(match value {
                Json::Text(text) if integer(value).is_err() => {
                    let days = times::date_days(text).ok_or_else(|| Misfit::new("it is no date"))?;
                    i32::try_from(days).map_err(|_| Misfit::new("it is out of range"))?
                }
                value => ranged(value)?,
            }),
            Schema::TimeMillis => Avro::TimeMillis(counted(value, times::day_nanos, 1_000_000)?),
            Schema::TimeMicros => Avro::TimeMicros(counted(value, times::day_nanos, 1000)?),
            Schema::TimestampMillis => Avro::TimestampMillis(counted(value, times::instant_nanos, 1_000_000)?),
            Schema::TimestampMicros => Avro::TimestampMicros(counted(value, times::instant_nanos, 1000)?),
            Schema::TimestampNanos => Avro::TimestampNanos(counted(value, times::instant_nanos, 1)?),
            Schema::LocalTimestampMillis => Avro::LocalTimestampMillis(counted(value, times::local_nanos, 1_000_000)?),
            Schema::LocalTimestampMicros => Avro::LocalTimestampMicros(counted(value, times::local_nanos, 1000)?),
            Schema::LocalTimestampNanos => Avro::LocalTimestampNanos(counted(value, times::local_nanos, 1)?),
            // Durations are fixed types here.
            Schema::Duration => return Err(Misfit::new("a duration of no fixed type is not written")),
            Schema::BigDecimal => return Err(Misfit::new("big-decimal is not written")),
        })
    }

    fn record(
        &self,
        record: &apache_avro::schema::RecordSchema,
        members: &[(String, Json)],
        namespace: Option<&str>,
        depth: usize,
    ) -> Result<Avro, Misfit> {
        let namespace = record.name.namespace.as_deref().or(namespace);
        let unknown = members.iter().find(|(name, _)| !record.fields.iter().any(|field| field.name == *name));
        if let Some((name, _)) = unknown {
            return Err(Misfit::new(format!("`{}` has no such field", record.name.name)).within(name));
        }
        let mut fields = Vec::new();
        for field in &record.fields {
            let given = members.iter().find(|(name, _)| *name == field.name).map(|(_, value)| value);
            let made = match (given, field.custom_attributes.get(DEFAULT)) {
                (Some(value), _) => self.value(&field.schema, value, namespace, depth),
                (None, Some(default)) => {
                    let default = Json::from(default);
                    let left = Cell::new(union::tries(&default));
                    let making = Making { names: self.names, is_default: true, left: &left };
                    making.value(&field.schema, &default, namespace, depth)
                }
                // What may be null is left out as null is.
                (None, None) => match self.value(&field.schema, &Json::Null, namespace, depth) {
                    Ok(null) if !self.is_default => Ok(null),
                    _ => Err(Misfit::new("it is missing, and has no default")),
                },
            };
            fields.push((field.name.clone(), made.map_err(|misfit| misfit.within(&field.name))?));
        }
        Ok(Avro::Record(fields))
    }

    fn bytes(&self, value: &Json) -> Result<Vec<u8>, Misfit> {
        if !self.is_default {
            return bytes(value);
        }
        let bytes: Option<Vec<u8>> = text(value)?.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
        bytes.ok_or_else(|| Misfit::new("its default is no bytes"))
    }

    fn fixed(&self, fixed: &FixedSchema, value: &Json) -> Result<Vec<u8>, Misfit> {
        match Logical::of(fixed).filter(|_| !self.is_default) {
            Some(Logical::Uuid) => {
                // Our rows have base64, other people's the text.
                let found = uuid::Uuid::try_parse(text(value)?).map(|uuid| uuid.as_bytes().to_vec());
                found.or_else(|_| self.sized(value, fixed.size).map_err(|_| Misfit::new("it is no UUID")))
            }
            Some(Logical::Decimal { precision, scale }) => {
                let unscaled = unscaled(value, precision, scale)?.to_be_bytes();
                let sign = if unscaled.first().is_some_and(|first| *first >= 0x80) { 0xFF } else { 0 };
                let more = vec![sign; fixed.size.saturating_sub(unscaled.len())];
                // By its precision it has room.
                let kept = unscaled.get(unscaled.len().saturating_sub(fixed.size)..).unwrap_or_default();
                Ok([&more, kept].concat())
            }
            Some(Logical::Duration) if matches!(value, Json::Object(_)) => {
                const PARTS: [&str; 3] = ["months", "days", "milliseconds"];
                if let Some((name, _)) = value.members().iter().find(|(name, _)| !PARTS.contains(&name.as_str())) {
                    return Err(Misfit::new("a duration has months, days and milliseconds").within(name));
                }
                let part = |name: &&str| match value.member(name) {
                    Some(part) => ranged::<u32>(part).map_err(|misfit| misfit.within(name)),
                    None => Ok(0),
                };
                let parts = PARTS.iter().map(part).collect::<Result<Vec<_>, _>>()?;
                Ok(parts.into_iter().flat_map(u32::to_le_bytes).collect())
            }
            Some(Logical::Duration) | None => self.sized(value, fixed.size),
        }
    }

    fn named(&self, name: &Name, namespace: Option<&str>) -> Result<&'a Schema, Misfit> {
        let full = name.fully_qualified_name(&namespace.map(str::to_owned));
        let found = self.names.get(&full).or_else(|| self.names.get(name)).copied();
        found.ok_or_else(|| Misfit::new(format!("the schema has no `{}`", name.name)))
    }

    fn sized(&self, value: &Json, size: usize) -> Result<Vec<u8>, Misfit> {
        let found = self.bytes(value)?;
        if found.len() == size {
            return Ok(found);
        }
        Err(Misfit::new(format!("it has {} bytes, and {size} are wanted", found.len())))
    }
}

/// A time as a number of its unit, of `nanos` each, or as text.
fn counted<T: TryFrom<i128>>(value: &Json, parse: fn(&str) -> Option<i128>, nanos: i128) -> Result<T, Misfit> {
    let text = match value {
        Json::Text(text) if integer(value).is_err() => text,
        value => return ranged(value),
    };
    let found = parse(text).ok_or_else(|| Misfit::new("it is no time of this kind"))?;
    if found.rem_euclid(nanos) != 0 {
        return Err(Misfit::new("it is finer than the schema's unit"));
    }
    T::try_from(found.div_euclid(nanos)).map_err(|_| Misfit::new("it is out of range"))
}

/// The digits of a decimal, as one whole number.
fn unscaled(value: &Json, precision: usize, scale: usize) -> Result<i128, Misfit> {
    let (Json::Text(digits) | Json::Number(digits)) = value else { return Err(wrong("a decimal", value)) };
    let unscaled = number::scaled(digits, scale).map_err(|unfit| match unfit {
        Unfit::NoNumber => Misfit::new("it is no decimal such as \"12.34\""),
        Unfit::Finer => Misfit::new(format!("it has more than {scale} digits behind the point")),
        Unfit::Larger => Misfit::new("it has more digits than its type, or than are written"),
    })?;
    let most = u32::try_from(precision).ok().and_then(|digits| 10u128.checked_pow(digits));
    match most.is_some_and(|most| unscaled.unsigned_abs() >= most) {
        true => Err(Misfit::new("it has more digits than its type")),
        false => Ok(unscaled),
    }
}

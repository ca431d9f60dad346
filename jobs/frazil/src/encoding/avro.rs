//! JSON to Avro. There is no one way to write Avro's values as JSON: what our own rows and Avro's JSON encoding have, both are taken.
//!
//! Unions are the value itself, of the first branch that it fits, or `{"branch": value}`; fields that are missing are their default;
//! bytes and fixed are base64; logical types are a number, as in Avro, or the text of our rows (RFC 3339, dates, digits of a decimal).

use apache_avro::schema::{Name, NamesRef, ResolvedSchema, Schema};
use apache_avro::types::Value as Avro;
use apache_avro::{Days, Decimal, Duration, Millis, Months, to_avro_datum_schemata};
use codec::schema::Registered;
use serde_json::{Map, Value};

use super::{Misfit, boolean, bytes, float, integer, ranged, single, text, times, wrong};

/// How deep values may nest.
const DEPTH_MAX: usize = 100;

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
        let texts: Vec<&str> = schema.imports.iter().map(|import| import.text.as_str()).collect();
        let (schema, others) = match texts.as_slice() {
            [] => (Schema::parse_str(&schema.text).map_err(failed)?, Vec::new()),
            texts => Schema::parse_str_with_list(&schema.text, texts).map_err(failed)?,
        };
        Ok(Self { schema, others })
    }

    pub(super) fn encode(&self, value: &Value) -> Result<Vec<u8>, Misfit> {
        let failed = |error: apache_avro::Error| Misfit::new(error.to_string());
        let all: Vec<&Schema> = self.others.iter().chain([&self.schema]).collect();
        let resolved = ResolvedSchema::try_from(all.clone()).map_err(failed)?;
        let value = Making(resolved.get_names()).value(&self.schema, value, None, DEPTH_MAX)?;
        to_avro_datum_schemata(&self.schema, all, value).map_err(failed)
    }
}

/// Values in the making, with the schemas that have names.
struct Making<'a>(&'a NamesRef<'a>);

impl Making<'_> {
    /// `namespace` is that of the record around it.
    fn value(&self, schema: &Schema, value: &Value, namespace: Option<&str>, depth: usize) -> Result<Avro, Misfit> {
        let depth = depth.checked_sub(1).ok_or_else(|| Misfit::new(format!("it nests more than {DEPTH_MAX} deep")))?;
        Ok(match schema {
            Schema::Null if value.is_null() => Avro::Null,
            Schema::Null => return Err(wrong("null", value)),
            Schema::Boolean => Avro::Boolean(boolean(value)?),
            Schema::Int => Avro::Int(ranged(value)?),
            Schema::Long => Avro::Long(ranged(value)?),
            Schema::Float => Avro::Float(single(value)?),
            Schema::Double => Avro::Double(float(value)?),
            Schema::String => Avro::String(text(value)?.to_owned()),
            Schema::Bytes => Avro::Bytes(bytes(value)?),
            Schema::Fixed(fixed) => Avro::Fixed(fixed.size, self.sized(value, fixed.size)?),
            Schema::Enum(known) => {
                let symbol = text(value)?;
                let place = known.symbols.iter().position(|known| known == symbol);
                let place = place.and_then(|place| u32::try_from(place).ok());
                let place = place.ok_or_else(|| Misfit::new(format!("`{}` has no such symbol", known.name.name)))?;
                Avro::Enum(place, symbol.to_owned())
            }
            Schema::Array(array) => {
                let elements = value.as_array().ok_or_else(|| wrong("an array", value))?.iter().enumerate();
                let element = |(n, v)| self.value(&array.items, v, namespace, depth).map_err(|e: Misfit| e.at(n));
                Avro::Array(elements.map(element).collect::<Result<_, _>>()?)
            }
            Schema::Map(map) => {
                let members = value.as_object().ok_or_else(|| wrong("an object", value))?;
                let member = |(name, v): (&String, &Value)| {
                    let value = self.value(&map.types, v, namespace, depth).map_err(|e| e.within(name))?;
                    Ok((name.clone(), value))
                };
                Avro::Map(members.iter().map(member).collect::<Result<_, _>>()?)
            }
            Schema::Union(union) => self.union(union.variants(), value, namespace, depth)?,
            Schema::Record(record) => {
                let members = value.as_object().ok_or_else(|| wrong("an object", value))?;
                self.record(record, members, namespace, depth)?
            }
            Schema::Ref { name } => self.value(self.named(name, namespace)?, value, namespace, depth)?,
            Schema::Decimal(decimal) => {
                let unscaled = unscaled(value, decimal.scale)?;
                let bits = match &*decimal.inner {
                    Schema::Fixed(fixed) => fixed.size.saturating_mul(8),
                    _ => 128,
                };
                let digits = u32::try_from(decimal.precision).ok().and_then(|digits| 10u128.checked_pow(digits));
                // Without the sign's copies, and one of these.
                let fits = 128 - leading_sign_bits(unscaled) < bits;
                if !fits || digits.is_some_and(|most| unscaled.unsigned_abs() >= most) {
                    return Err(Misfit::new("it has more digits than its type"));
                }
                Avro::Decimal(Decimal::from(unscaled.to_be_bytes()))
            }
            Schema::Uuid => {
                let found = uuid::Uuid::try_parse(text(value)?);
                Avro::Uuid(found.map_err(|_| Misfit::new("it is no UUID"))?)
            }
            Schema::Date => Avro::Date(match value {
                Value::String(text) if integer(value).is_none() => {
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
            Schema::Duration => {
                let part =
                    |name: &str| ranged::<u32>(value.get(name).unwrap_or(&Value::from(0))).map_err(|e| e.within(name));
                let (months, days, millis) = (part("months")?, part("days")?, part("milliseconds")?);
                Avro::Duration(Duration::new(Months::new(months), Days::new(days), Millis::new(millis)))
            }
            Schema::BigDecimal => return Err(Misfit::new("big-decimal is not written")),
        })
    }

    fn record(
        &self,
        record: &apache_avro::schema::RecordSchema,
        members: &Map<String, Value>,
        namespace: Option<&str>,
        depth: usize,
    ) -> Result<Avro, Misfit> {
        let namespace = record.name.namespace.as_deref().or(namespace);
        let unknown = members.keys().find(|name| !record.fields.iter().any(|field| field.name == **name));
        if let Some(name) = unknown {
            return Err(Misfit::new(format!("`{}` has no such field", record.name.name)).within(name));
        }
        let mut fields = Vec::new();
        for field in &record.fields {
            let made = match (members.get(&field.name), &field.default) {
                (Some(value), _) => self.value(&field.schema, value, namespace, depth),
                (None, Some(default)) => self.default(&field.schema, default, namespace, depth),
                // What may be null is left out as null is.
                (None, None) => match self.value(&field.schema, &Value::Null, namespace, depth) {
                    Ok(null) => Ok(null),
                    Err(_) => Err(Misfit::new("it is missing, and has no default")),
                },
            };
            fields.push((field.name.clone(), made.map_err(|misfit| misfit.within(&field.name))?));
        }
        Ok(Avro::Record(fields))
    }

    /// A default stands in a schema by the schema's own rules: of a union it is the first branch's, and bytes are characters.
    fn default(&self, schema: &Schema, value: &Value, namespace: Option<&str>, depth: usize) -> Result<Avro, Misfit> {
        let characters = |value: &Value| {
            let bytes: Option<Vec<u8>> = text(value)?.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
            bytes
                .map(|bytes| Value::from(base64_simd::STANDARD.encode_to_string(bytes)))
                .ok_or_else(|| Misfit::new("its default is no bytes"))
        };
        match schema {
            Schema::Union(union) => {
                let first = union.variants().first().ok_or_else(|| Misfit::new("its union is empty"))?;
                Ok(Avro::Union(0, Box::new(self.default(first, value, namespace, depth)?)))
            }
            Schema::Bytes | Schema::Fixed(_) => self.value(schema, &characters(value)?, namespace, depth),
            schema => self.value(schema, value, namespace, depth),
        }
    }

    fn union(&self, branches: &[Schema], value: &Value, namespace: Option<&str>, depth: usize) -> Result<Avro, Misfit> {
        let made = |place: usize, made: Avro| {
            let place = u32::try_from(place).map_err(|_| Misfit::new("its union is too long"))?;
            Ok(Avro::Union(place, Box::new(made)))
        };
        if let Some((name, inner)) = value.as_object().filter(|one| one.len() == 1).and_then(|one| one.iter().next())
            && let Some(place) = branches.iter().position(|branch| self.is_called(branch, name, namespace))
            && let Some(branch) = branches.get(place)
        {
            return made(place, self.value(branch, inner, namespace, depth).map_err(|misfit| misfit.within(name))?);
        }
        let mut misfit = None;
        for (place, branch) in branches.iter().enumerate() {
            match self.value(branch, value, namespace, depth) {
                Ok(found) => return made(place, found),
                // Of the branches that hold anything the first one says what is wrong.
                Err(error) if !matches!(branch, Schema::Null) => {
                    misfit.get_or_insert(error);
                }
                Err(_) => {}
            }
        }
        Err(misfit.unwrap_or_else(|| wrong("null", value)))
    }

    /// Whether Avro's JSON encoding calls a branch so.
    fn is_called(&self, branch: &Schema, name: &str, namespace: Option<&str>) -> bool {
        let full = match branch {
            Schema::Record(record) => &record.name,
            Schema::Enum(symbols) => &symbols.name,
            Schema::Fixed(fixed) => &fixed.name,
            Schema::Ref { name } => name,
            Schema::Boolean => return name == "boolean",
            Schema::Int | Schema::Date | Schema::TimeMillis => return name == "int",
            Schema::Long
            | Schema::TimeMicros
            | Schema::TimestampMillis
            | Schema::TimestampMicros
            | Schema::TimestampNanos
            | Schema::LocalTimestampMillis
            | Schema::LocalTimestampMicros
            | Schema::LocalTimestampNanos => return name == "long",
            Schema::Float => return name == "float",
            Schema::Double => return name == "double",
            Schema::String | Schema::Uuid => return name == "string",
            Schema::Bytes => return name == "bytes",
            Schema::Array(_) => return name == "array",
            Schema::Map(_) => return name == "map",
            _ => return false,
        };
        let namespace = full.namespace.as_deref().or(namespace);
        namespace.map_or_else(|| full.name == name, |namespace| format!("{namespace}.{}", full.name) == name)
    }

    fn named(&self, name: &Name, namespace: Option<&str>) -> Result<&Schema, Misfit> {
        let full = name.fully_qualified_name(&namespace.map(str::to_owned));
        let found = self.0.get(&full).or_else(|| self.0.get(name)).copied();
        found.ok_or_else(|| Misfit::new(format!("the schema has no `{}`", name.name)))
    }

    fn sized(&self, value: &Value, size: usize) -> Result<Vec<u8>, Misfit> {
        let found = bytes(value)?;
        if found.len() == size {
            return Ok(found);
        }
        Err(Misfit::new(format!("it has {} bytes, and {size} are wanted", found.len())))
    }
}

/// A time as a number of its unit, of `nanos` each, or as text.
fn counted<T: TryFrom<i128>>(value: &Value, parse: fn(&str) -> Option<i128>, nanos: i128) -> Result<T, Misfit> {
    let text = match value {
        Value::String(text) if integer(value).is_none() => text,
        value => return ranged(value),
    };
    let found = parse(text).ok_or_else(|| Misfit::new("it is no time of this kind"))?;
    if found.rem_euclid(nanos) != 0 {
        return Err(Misfit::new("it is finer than the schema's unit"));
    }
    T::try_from(found.div_euclid(nanos)).map_err(|_| Misfit::new("it is out of range"))
}

/// The digits of a decimal of this scale, as one whole number.
fn unscaled(value: &Value, scale: usize) -> Result<i128, Misfit> {
    let digits = match value {
        Value::String(digits) => digits.clone(),
        Value::Number(number) => number.to_string(),
        value => return Err(wrong("a decimal", value)),
    };
    let no_decimal = || Misfit::new("it is no decimal such as \"12.34\"");
    let (digits, sign) = digits.strip_prefix('-').map_or((digits.as_str(), 1), |rest| (rest, -1));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return Err(no_decimal());
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > scale {
        return Err(Misfit::new(format!("it has more than {scale} digits behind the point")));
    }
    let digits = format!("{whole}{fraction}{}", "0".repeat(scale - fraction.len()));
    let number: i128 = digits.parse().map_err(|_| Misfit::new("it has more digits than are written"))?;
    Ok(sign * number)
}

/// How many bits at the beginning of a number are its sign's copies.
const fn leading_sign_bits(number: i128) -> usize {
    let zeros = if number < 0 { (!number).leading_zeros() } else { number.leading_zeros() };
    zeros as usize
}

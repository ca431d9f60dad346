//! Messages as JSON text, for what no column type can hold: `Struct`, `Value`, `ListValue`, and messages inside
//! themselves.
//!
//! The text is protobuf's own JSON mapping with the fields' names as the schema spells them: 64-bit integers are text,
//! bytes base64, enums their names. `Any` and `FieldMask` are written as the messages they are. As in the columns, a
//! field of implicit presence is always there; an absent one of explicit presence and an empty list or map are left out.

use std::collections::HashMap;

use chrono::{DateTime, SecondsFormat};
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor, Value};

use super::mapping::{self, Shape};
use super::run::{check_duration, check_timestamp, number};
use super::wire::{self, Foreign, Reader};
use crate::Class;
use crate::rows::level::{Deferred, Moment};
use crate::rows::stop::{Outcome, Stop};
use crate::rows::text::check_utf8;

/// A message that becomes JSON.
pub(crate) struct Source {
    pub(crate) message: MessageDescriptor,
    pub(crate) depth: usize,
    pub(crate) strict: bool,
}

impl Deferred for Source {
    fn check(&self, bytes: &[u8]) -> Outcome {
        Writer { out: String::new(), strict: self.strict }.check(&self.message, bytes, self.depth)
    }

    fn write(&self, bytes: &[u8]) -> Outcome<String> {
        let mut writer = Writer { out: String::new(), strict: self.strict };
        writer.message(&self.message, &[bytes], self.depth)?;
        Ok(writer.out)
    }
}

/// A value as it stands on the wire.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// A known field's values, in wire order.
struct Found<'a> {
    field: FieldDescriptor,
    values: Vec<Wire<'a>>,
}

struct Writer {
    out: String,
    strict: bool,
}

impl Writer {
    /// Text holds what the schema knows: the rest of such a message is kept nowhere else.
    const fn foreign(&self) -> Foreign {
        if self.strict { Foreign::Refuse } else { Foreign::Skip }
    }

    fn check(&self, message: &MessageDescriptor, bytes: &[u8], depth: usize) -> Outcome {
        wire::check_depth(depth)?;
        let mut reader = Reader::new(bytes, bytes.len(), self.foreign());
        while !reader.done() {
            let (number, wire) = reader.tag()?;
            match message.get_field(number) {
                Some(field) => {
                    self.check_field(&field, &mut reader, wire, depth).map_err(|stop| stop.within(field.name()))?
                }
                None => reader.unknown(0, number, wire, depth)?,
            }
        }
        Ok(())
    }

    fn check_field(&self, field: &FieldDescriptor, reader: &mut Reader<'_>, wire: u8, depth: usize) -> Outcome {
        let mut values = Vec::new();
        if !take(field, reader, wire, depth, &mut values)? {
            return reader.unknown(0, field.number(), wire, depth);
        }
        for value in values {
            match (field.kind(), value) {
                (Kind::Message(message), Wire::Bytes(bytes)) => self.check(&message, bytes, depth + 1)?,
                (Kind::String, Wire::Bytes(bytes)) => check_utf8(bytes)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes the message whose occurrences are `parts`.
    fn message(&mut self, message: &MessageDescriptor, parts: &[&[u8]], depth: usize) -> Outcome {
        let found = self.read(message, parts, depth)?;
        match message.full_name() {
            "google.protobuf.Struct" => self.object(found.first(), depth),
            "google.protobuf.ListValue" => self.array(found.first(), depth),
            "google.protobuf.Value" => self.any_value(&found, depth),
            _ => self.members(&found, depth),
        }
    }

    /// Sorts a message's values by field, oneofs settled, packed ones taken apart.
    fn read<'a>(&self, message: &MessageDescriptor, parts: &[&'a [u8]], depth: usize) -> Outcome<Vec<Found<'a>>> {
        wire::check_depth(depth)?;
        let mut found: Vec<Found<'a>> = message.fields().map(|field| Found { field, values: Vec::new() }).collect();
        for part in parts {
            let mut reader = Reader::new(part, part.len(), self.foreign());
            while !reader.done() {
                let (number, wire) = reader.tag()?;
                let index = found.binary_search_by_key(&number, |found| found.field.number()).ok();
                let Some(slot) = index.and_then(|index| found.get_mut(index)) else {
                    reader.unknown(0, number, wire, depth)?;
                    continue;
                };
                if !take(&slot.field, &mut reader, wire, depth, &mut slot.values)? {
                    reader.unknown(0, number, wire, depth)?;
                    continue;
                }
                let oneof = slot.field.containing_oneof().filter(|oneof| !oneof.is_synthetic());
                for other in oneof.iter().flat_map(prost_reflect::OneofDescriptor::fields) {
                    let other = other.number();
                    if other != number
                        && let Ok(index) = found.binary_search_by_key(&other, |found| found.field.number())
                        && let Some(other) = found.get_mut(index)
                    {
                        other.values.clear();
                    }
                }
            }
        }
        Ok(found)
    }

    fn members(&mut self, found: &[Found<'_>], depth: usize) -> Outcome {
        self.out.push('{');
        let mut first = true;
        for Found { field, values } in found {
            let implicit = !field.is_list() && !field.is_map() && !field.supports_presence();
            if values.is_empty() && !implicit {
                continue;
            }
            if !std::mem::take(&mut first) {
                self.out.push(',');
            }
            self.text(field.name());
            self.out.push(':');
            self.field(field, values, depth).map_err(|stop| stop.within(field.name()))?;
        }
        self.out.push('}');
        Ok(())
    }

    fn field(&mut self, field: &FieldDescriptor, values: &[Wire<'_>], depth: usize) -> Outcome {
        if field.is_map() {
            return self.map(field, values, depth);
        }
        if field.is_list() {
            self.out.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    self.out.push(',');
                }
                self.value(field, &[*value], depth).map_err(|stop| stop.element(index))?;
            }
            self.out.push(']');
            return Ok(());
        }
        self.value(field, values, depth)
    }

    /// One value of a field: the last of its occurrences, or all of them as one message.
    fn value(&mut self, field: &FieldDescriptor, values: &[Wire<'_>], depth: usize) -> Outcome {
        match field.kind() {
            Kind::Message(message) => {
                let parts: Vec<&[u8]> = values.iter().map(|value| value.bytes()).collect();
                self.nested(field, &message, &parts, depth + 1)
            }
            Kind::String => {
                let value = values.last().map_or(&[][..], |value| value.bytes());
                // Checked already, so nothing is lost.
                self.text(&String::from_utf8_lossy(value));
                Ok(())
            }
            Kind::Bytes => {
                let value = values.last().map_or(&[][..], |value| value.bytes());
                self.text(&base64_simd::STANDARD.encode_to_string(value));
                Ok(())
            }
            kind => {
                match values.last() {
                    Some(Wire::Number(bits)) => self.number(&kind, *bits),
                    _ => self.number(&kind, default_bits(field)),
                }
                Ok(())
            }
        }
    }

    fn nested(
        &mut self,
        field: &FieldDescriptor,
        message: &MessageDescriptor,
        parts: &[&[u8]],
        depth: usize,
    ) -> Outcome {
        match Shape::of(field) {
            shape @ (Shape::Timestamp | Shape::Duration) => {
                let found = self.read(message, parts, depth)?;
                let last = |index: usize| match found.get(index).and_then(|found| found.values.last()) {
                    Some(Wire::Number(bits)) => *bits,
                    _ => 0,
                };
                let moment = Moment { seconds: last(0) as i64, nanos: last(1) as i32 };
                let text = if matches!(shape, Shape::Timestamp) { timestamp(moment)? } else { duration(moment)? };
                self.text(&text);
                Ok(())
            }
            Shape::Wrapper(inner) => {
                let found = self.read(message, parts, depth)?;
                let values = found.first().map_or(&[][..], |found| &found.values);
                self.value(&inner, values, depth)
            }
            _ => self.message(message, parts, depth),
        }
    }

    fn map(&mut self, field: &FieldDescriptor, values: &[Wire<'_>], depth: usize) -> Outcome {
        let kind = field.kind();
        let Some(entry) = kind.as_message() else { return Ok(()) };
        let mut entries: Vec<(String, Vec<Wire<'_>>, FieldDescriptor)> = Vec::with_capacity(values.len());
        let mut places: HashMap<String, usize> = HashMap::new();
        for (index, value) in values.iter().enumerate() {
            let read = self.read(entry, &[value.bytes()], depth + 1).and_then(|found| {
                let mut found = found.into_iter();
                let (Some(key), Some(value)) = (found.next(), found.next()) else { return Ok(None) };
                Ok(Some((key_text(&key)?, value)))
            });
            let Some((key, value)) = read.map_err(|stop| stop.element(index))? else { continue };
            let place = *places.entry(key.clone()).or_insert(entries.len());
            match entries.get_mut(place) {
                // The last of a key wins, at the place of the first.
                Some(earlier) => earlier.1 = value.values,
                None => entries.push((key, value.values, value.field)),
            }
        }
        self.out.push('{');
        for (index, (key, values, field)) in entries.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            self.text(key);
            self.out.push(':');
            self.value(field, values, depth + 1).map_err(|stop| stop.within(key))?;
        }
        self.out.push('}');
        Ok(())
    }

    fn object(&mut self, fields: Option<&Found<'_>>, depth: usize) -> Outcome {
        match fields {
            Some(found) if found.field.is_map() => self.map(&found.field, &found.values, depth),
            _ => {
                self.out.push_str("{}");
                Ok(())
            }
        }
    }

    fn array(&mut self, values: Option<&Found<'_>>, depth: usize) -> Outcome {
        match values {
            Some(found) if found.field.is_list() => self.field(&found.field, &found.values, depth),
            _ => {
                self.out.push_str("[]");
                Ok(())
            }
        }
    }

    /// `google.protobuf.Value`: whichever of its kinds is set. None at all reads as null.
    fn any_value(&mut self, found: &[Found<'_>], depth: usize) -> Outcome {
        let Some(Found { field, values }) = found.iter().find(|found| !found.values.is_empty()) else {
            self.out.push_str("null");
            return Ok(());
        };
        match (field.kind(), values.last()) {
            (Kind::Double, Some(Wire::Number(bits))) => {
                let number = f64::from_bits(*bits);
                if !number.is_finite() {
                    let stop = Stop::new(Class::OutOfRange, format!("JSON has no number {number}"));
                    return Err(stop.within(field.name()));
                }
                self.float(number);
                Ok(())
            }
            (Kind::Enum(_), _) => {
                self.out.push_str("null");
                Ok(())
            }
            _ => self.value(field, values, depth).map_err(|stop| stop.within(field.name())),
        }
    }

    fn number(&mut self, kind: &Kind, bits: u64) {
        use std::fmt::Write as _;
        let _infallible = match kind {
            Kind::Bool => write!(self.out, "{}", bits != 0),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => write!(self.out, "{}", bits as i32),
            Kind::Uint32 | Kind::Fixed32 => write!(self.out, "{}", bits as u32),
            // As text, since JSON readers keep 53 bits.
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => write!(self.out, "\"{}\"", bits as i64),
            Kind::Uint64 | Kind::Fixed64 => write!(self.out, "\"{bits}\""),
            Kind::Enum(values) => {
                let number = bits as i32;
                let declared = &values.enum_descriptor_proto().value;
                match declared.iter().find(|value| value.number() == number) {
                    Some(value) => write!(self.out, "\"{}\"", value.name()),
                    None => write!(self.out, "{number}"),
                }
            }
            Kind::Float => {
                let number = f32::from_bits(bits as u32);
                if !number.is_finite() {
                    write!(self.out, "\"{}\"", not_finite(number.into()))
                } else if number.fract() == 0.0 && number.abs() < EXACT_FLOAT {
                    write!(self.out, "{number}")
                } else {
                    write!(self.out, "{number:?}")
                }
            }
            Kind::Double => {
                let number = f64::from_bits(bits);
                if number.is_finite() {
                    self.float(number);
                    Ok(())
                } else {
                    write!(self.out, "\"{}\"", not_finite(number))
                }
            }
            Kind::String | Kind::Bytes | Kind::Message(_) => Ok(()),
        };
    }

    /// The shortest text that reads back as the same number; whole numbers without a fraction.
    fn float(&mut self, number: f64) {
        use std::fmt::Write as _;
        let _infallible = if number.fract() == 0.0 && number.abs() < EXACT_DOUBLE {
            write!(self.out, "{number}")
        } else {
            write!(self.out, "{number:?}")
        };
    }

    fn text(&mut self, text: &str) {
        self.out.push_str(&serde_json::Value::from(text).to_string());
    }
}

/// Below these every whole number is exact, and a plain integer is what people expect of one.
const EXACT_FLOAT: f32 = 16_777_216.0;
const EXACT_DOUBLE: f64 = 9_007_199_254_740_992.0;

impl<'a> Wire<'a> {
    const fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) => &[],
        }
    }
}

/// Reads a value of a known field; `false`, and nothing read, where its wire type isn't the field's.
fn take<'a>(
    field: &FieldDescriptor,
    reader: &mut Reader<'a>,
    wire: u8,
    depth: usize,
    values: &mut Vec<Wire<'a>>,
) -> Outcome<bool> {
    match mapping::read(&field.kind()) {
        Some(read) if wire == read.wire() => {
            let value = number(read, reader)?;
            values.push(Wire::Number(value));
        }
        Some(read) if wire == wire::LENGTH && field.is_list() => {
            let end = reader.length()?;
            let outer = reader.narrow(end);
            while !reader.done() {
                let value = number(read, reader)?;
                values.push(Wire::Number(value));
            }
            reader.widen(outer);
        }
        None if wire == wire::GROUP && field.is_group() => {
            let bytes = reader.group(field.number(), depth)?;
            values.push(Wire::Bytes(bytes));
        }
        None if wire == wire::LENGTH && !field.is_group() => {
            values.push(Wire::Bytes(reader.bytes()?));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// What a number holds that isn't on the wire: zero, but for an enum whose first value isn't.
fn default_bits(field: &FieldDescriptor) -> u64 {
    match field.default_value() {
        Value::EnumNumber(number) => i64::from(number) as u64,
        _ => 0,
    }
}

fn key_text(key: &Found<'_>) -> Outcome<String> {
    let mut writer = Writer { out: String::new(), strict: false };
    Ok(match (key.field.kind(), key.values.last()) {
        (Kind::String, value) => String::from_utf8_lossy(value.map_or(&[][..], |value| value.bytes())).into_owned(),
        (kind, value) => {
            let bits = if let Some(Wire::Number(bits)) = value { *bits } else { 0 };
            writer.number(&kind, bits);
            writer.out.trim_matches('"').to_owned()
        }
    })
}

const fn not_finite(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

/// RFC 3339 in UTC with 0, 3, 6 or 9 digits of a second.
pub(crate) fn timestamp(moment: Moment) -> Outcome<String> {
    check_timestamp(moment)?;
    let nanos = u32::try_from(moment.nanos).unwrap_or(0);
    DateTime::from_timestamp(moment.seconds, nanos)
        .map(|at| at.to_rfc3339_opts(SecondsFormat::AutoSi, true))
        .ok_or_else(|| Stop::new(Class::OutOfRange, "no calendar has this time"))
}

/// Seconds with 0, 3, 6 or 9 digits, and an `s`.
pub(crate) fn duration(moment: Moment) -> Outcome<String> {
    check_duration(moment)?;
    let sign = if moment.seconds < 0 || moment.nanos < 0 { "-" } else { "" };
    let (seconds, nanos) = (moment.seconds.unsigned_abs(), moment.nanos.unsigned_abs());
    Ok(match nanos {
        0 => format!("{sign}{seconds}s"),
        _ if nanos % 1_000_000 == 0 => format!("{sign}{seconds}.{:03}s", nanos / 1_000_000),
        _ if nanos % 1_000 == 0 => format!("{sign}{seconds}.{:06}s", nanos / 1_000),
        _ => format!("{sign}{seconds}.{nanos:09}s"),
    })
}

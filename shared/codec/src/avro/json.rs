//! Values as JSON text, for what no column type can hold: records inside themselves, and fields that the reader does not
//! know.
//!
//! A record is an object of its fields, also those that its writer lacks and that have a default; a union is the value of
//! its branch; bytes and fixed are base64, enums their names, whole numbers and decimals all their digits (a decimal as
//! text), times as text columns have them. Of a map's equal keys the last wins.

use std::collections::HashMap;

use super::program::Program;
use super::resolve::{Elements, Length, Missing, Node, Resolution, Step};
use super::run::{no_symbol, number, skip};
use super::schema::{Logical, Schema, Shape, Unit};
use super::times;
use super::wire::{Reader, check_depth};
use super::{compile, describe};
use crate::Class;
use crate::rows::scale::Scale;
use crate::rows::stop::{Outcome, Stop};
use crate::rows::text::check_utf8;

/// Writes values of a schema as they are read.
pub(super) struct Writer<'p> {
    schema: &'p Schema,
    resolution: &'p Resolution,
    program: &'p Program,
    pub(super) out: String,
    /// Bytes of the text that are charged already.
    charged: usize,
}

/// Text grows by names and defaults that are not in the payload: it is charged in steps of this many bytes.
const CHARGED: usize = 64 << 10;

impl<'p> Writer<'p> {
    pub(super) const fn new(schema: &'p Schema, resolution: &'p Resolution, program: &'p Program) -> Self {
        Self { schema, resolution, program, out: String::new(), charged: 0 }
    }

    /// Writes the next value, which is of the type `of` when it is read as the node says.
    pub(super) fn value(&mut self, node: usize, of: usize, reader: &mut Reader<'_>, depth: usize) -> Outcome {
        if self.out.len() - self.charged > CHARGED {
            reader.open(self.out.len() - self.charged)?;
            self.charged = self.out.len();
        }
        let (resolution, schema) = (self.resolution, self.schema);
        match resolution.node(node) {
            Node::Refuse(reason) => Err(Stop::new(Class::IncompatibleSchema, reason.clone())),
            Node::Null => {
                self.out.push_str("null");
                Ok(())
            }
            Node::Union(branches) => {
                let branch = reader.choice()?;
                match branches.get(branch) {
                    Some(node) => self.value(*node, of, reader, depth),
                    None => Err(Reader::no_such("branch", branch, branches.len())),
                }
            }
            Node::Branch { branch, node, .. } => {
                let Shape::Union(branches) = schema.shape(of) else { return Ok(()) };
                self.value(*node, branches.get(*branch).copied().unwrap_or_default(), reader, depth)
            }
            Node::Number { read, units } => {
                let bits = number(*read, reader)?;
                self.number(bits, of, *units)
            }
            Node::Bytes(length) => self.bytes(*length, of, reader),
            Node::Enum(symbols) => {
                let Shape::Enum(known) = schema.shape(of) else { return Ok(()) };
                let number = reader.choice()?;
                match symbols.get(number) {
                    Some(Ok(symbol)) => self.text(known.symbols.get(*symbol).map_or("", String::as_str)),
                    Some(Err(reason)) => return Err(Stop::new(Class::IncompatibleSchema, reason.clone())),
                    None => return Err(no_symbol(&[], number)),
                }
                Ok(())
            }
            Node::Record { steps, missing } => self.record(steps, missing, of, reader, depth),
            Node::Array(elements) => {
                let Shape::Array(items) = schema.shape(of) else { return Ok(()) };
                self.array(elements, *items, reader, depth)
            }
            Node::Map(elements) => {
                let Shape::Map(values) = schema.shape(of) else { return Ok(()) };
                self.map(elements, *values, reader, depth)
            }
        }
    }

    fn record(
        &mut self,
        steps: &[Step],
        missing: &[Missing],
        of: usize,
        reader: &mut Reader<'_>,
        depth: usize,
    ) -> Outcome {
        check_depth(depth)?;
        let Shape::Record(record) = self.schema.shape(of) else { return Ok(()) };
        self.out.push('{');
        let mut first = true;
        for step in steps {
            let known = step.to.and_then(|(field, node)| Some((record.fields.get(field)?, node)));
            let read = match known {
                Some((field, node)) => {
                    self.member(&mut first, &field.name);
                    self.value(node, field.of, reader, depth + 1)
                }
                // Text holds what the reader knows: the rest of such a record is kept nowhere else.
                None if self.program.strict => Err(Stop::new(Class::IncompatibleSchema, compile::UNKNOWN)),
                None => skip(&self.program.writer, step.writer, reader, depth + 1),
            };
            read.map_err(|stop| stop.within(&step.name))?;
        }
        for Missing { field, value } in missing {
            let Some(field) = record.fields.get(*field) else { continue };
            let written = match value {
                Ok((bytes, node)) => reader.open(bytes.len()).and_then(|()| {
                    self.member(&mut first, &field.name);
                    let mut inner = Reader::new(bytes, bytes.len());
                    inner.opened = reader.opened;
                    self.value(*node, field.of, &mut inner, depth + 1)?;
                    reader.opened = inner.opened;
                    Ok(())
                }),
                Err(reason) => Err(Stop::new(Class::IncompatibleSchema, reason.clone())),
            };
            written.map_err(|stop| stop.within(&field.name))?;
        }
        self.out.push('}');
        Ok(())
    }

    fn array(&mut self, elements: &Elements, of: usize, reader: &mut Reader<'_>, depth: usize) -> Outcome {
        check_depth(depth)?;
        self.out.push('[');
        let mut index = 0;
        while let Some(block) = reader.block(elements.least)? {
            for _ in 0..block.count {
                if index > 0 {
                    self.out.push(',');
                }
                self.value(elements.node, of, reader, depth + 1).map_err(|stop| stop.element(index))?;
                index += 1;
            }
            reader.end(&block)?;
        }
        self.out.push(']');
        Ok(())
    }

    /// The last of a key wins, at the place of the first.
    fn map(&mut self, elements: &Elements, of: usize, reader: &mut Reader<'_>, depth: usize) -> Outcome {
        check_depth(depth)?;
        let mut entries: Vec<(String, String)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut index = 0;
        while let Some(block) = reader.block(elements.least.saturating_add(1))? {
            for _ in 0..block.count {
                let (key, value) = self.entry(elements, of, reader, depth).map_err(|stop| stop.element(index))?;
                let place = *places.entry(key.clone()).or_insert(entries.len());
                match entries.get_mut(place) {
                    Some((_, earlier)) => *earlier = value,
                    None => entries.push((key, value)),
                }
                index += 1;
            }
            reader.end(&block)?;
        }
        self.out.push('{');
        let mut first = true;
        for (key, value) in entries {
            self.member(&mut first, &key);
            self.out.push_str(&value);
        }
        self.out.push('}');
        Ok(())
    }

    fn entry(
        &mut self,
        elements: &Elements,
        of: usize,
        reader: &mut Reader<'_>,
        depth: usize,
    ) -> Outcome<(String, String)> {
        let key = reader.bytes(Length::Prefixed)?;
        check_utf8(key)?;
        let start = self.out.len();
        self.value(elements.node, of, reader, depth + 1)?;
        let value = self.out.split_off(start);
        // The text is shorter than it was: what was charged of it begins anew.
        reader.open(value.len())?;
        self.charged = self.charged.min(start);
        // Checked, so nothing is lost.
        Ok((String::from_utf8_lossy(key).into_owned(), value))
    }

    fn member(&mut self, first: &mut bool, name: &str) {
        if !std::mem::take(first) {
            self.out.push(',');
        }
        self.text(name);
        self.out.push(':');
    }

    fn number(&mut self, bits: u64, of: usize, units: Option<(Unit, Unit)>) -> Outcome {
        use std::fmt::Write as _;
        let found = self.schema.at(of);
        let signed = bits as i64;
        let moment = |zone| times::moment_text(signed, units.map_or(1, |(from, _)| compile::per_second(from)), zone);
        let micros = || units.map_or(Scale::Same, |(from, _)| compile::scale(from, Unit::Micros));
        let text = match found.logical {
            Some(Logical::Date) => Some(times::date_text(signed)?),
            Some(Logical::Time(_)) => Some(times::of_day_text(signed, micros())?),
            Some(Logical::Timestamp(_)) => Some(moment(true)?),
            Some(Logical::Local(_)) => Some(moment(false)?),
            _ => None,
        };
        if let Some(text) = text {
            self.text(&text);
            return Ok(());
        }
        let _infallible = match found.shape {
            Shape::Boolean => write!(self.out, "{}", bits != 0),
            Shape::Float if f32::from_bits(bits as u32).is_finite() => {
                write!(self.out, "{:?}", f32::from_bits(bits as u32))
            }
            Shape::Float => write!(self.out, "\"{}\"", not_finite(f32::from_bits(bits as u32).into())),
            Shape::Double if f64::from_bits(bits).is_finite() => write!(self.out, "{:?}", f64::from_bits(bits)),
            Shape::Double => write!(self.out, "\"{}\"", not_finite(f64::from_bits(bits))),
            _ => write!(self.out, "{signed}"),
        };
        Ok(())
    }

    fn bytes(&mut self, length: Length, of: usize, reader: &mut Reader<'_>) -> Outcome {
        let bytes = reader.bytes(length)?;
        let found = self.schema.at(of);
        match (found.logical, &found.shape) {
            (Some(Logical::Decimal { scale, .. }), _) => {
                let number = times::number(bytes)?
                    .ok_or_else(|| Stop::new(Class::OutOfRange, "the number has more than 128 bits"))?;
                self.text(&times::decimal_text(number, scale));
            }
            (Some(Logical::Uuid), Shape::Fixed(_)) => self.text(&times::uuid_text(bytes)),
            (Some(Logical::Duration), _) => {
                self.out.push('{');
                let mut first = true;
                for (name, part) in describe::DURATION.iter().zip(bytes.chunks_exact(4)) {
                    self.member(&mut first, name);
                    let part = part.first_chunk::<4>().map_or(0, |part| u32::from_le_bytes(*part));
                    self.out.push_str(&part.to_string());
                }
                self.out.push('}');
            }
            (_, Shape::String) => {
                check_utf8(bytes)?;
                self.text(&String::from_utf8_lossy(bytes));
            }
            _ => self.text(&base64_simd::STANDARD.encode_to_string(bytes)),
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.out.push_str(&serde_json::Value::from(text).to_string());
    }
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

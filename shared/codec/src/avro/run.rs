//! Carries out a [`Program`] on a record's bytes.
//!
//! Recursion here follows the columns, whose nesting is bounded where they are placed; what is passed over and what becomes
//! JSON goes as deep as the payload says, and that is counted.

use super::json::Writer;
use super::program::{Digits, Field, Op, Program, Side, Store};
use super::resolve::{Length, Read};
use super::schema::Shape;
use super::times;
use super::wire::{Reader, check_depth};
use crate::Class;
use crate::rows::digits;
use crate::rows::level::Level;
use crate::rows::stop::{Outcome, Stop};

/// Reads a value into the level's open row.
pub(super) fn run(op: &Op, program: &Program, level: &mut Level, reader: &mut Reader<'_>) -> Outcome {
    match op {
        Op::Number { read, store, slot, present } => {
            let bits = number(*read, reader)?;
            keep(*store, *slot, bits, level)?;
            mark(*present, level);
            Ok(())
        }
        Op::Text { length, text, utf8, present } => {
            let (at, length) = reader.span(*length)?;
            if let Some(text) = level.texts.get_mut(*text) {
                if *utf8 {
                    text.put_utf8(reader.buf(), at, length)?;
                } else {
                    text.put(reader.buf(), at, length)?;
                }
            }
            mark(*present, level);
            Ok(())
        }
        Op::Symbol { symbols, text, present } => {
            let number = reader.choice()?;
            match i32::try_from(number).ok().and_then(|number| symbols.names.find(number)) {
                Some((at, length)) => {
                    if let Some(text) = level.texts.get_mut(*text) {
                        text.put(symbols.names.bytes(), at, length)?;
                    }
                }
                None => return Err(no_symbol(&symbols.refused, number)),
            }
            mark(*present, level);
            Ok(())
        }
        Op::Record { fields, present } => {
            mark(*present, level);
            for Field { name, op } in fields {
                if let Err(stop) = run(op, program, level, reader) {
                    return Err(if name.is_empty() { stop } else { stop.within(name) });
                }
            }
            Ok(())
        }
        Op::Union(branches) => {
            let branch = reader.choice()?;
            match branches.get(branch) {
                Some(op) => run(op, program, level, reader),
                None => Err(Reader::no_such("branch", branch, branches.len())),
            }
        }
        Op::Nothing => Ok(()),
        Op::Skip(of) => skip(&program.writer, *of, reader, 0),
        Op::SkipOwn(of) => skip(&program.reader, *of, reader, 0),
        Op::Ignore(of) => {
            reader.ignored = true;
            skip(&program.writer, *of, reader, 0)
        }
        Op::Pass(length) => reader.pass(*length).map(drop),
        Op::List { list, element, least, present } => {
            mark(*present, level);
            let Some(list) = level.lists.get_mut(*list) else { return Ok(()) };
            while let Some(block) = reader.block(*least)? {
                for _ in 0..block.count {
                    let elements = &mut list.elements;
                    elements
                        .open_row(&mut reader.opened)
                        .and_then(|()| run(element, program, elements, reader))
                        .and_then(|()| elements.close_row())
                        .map_err(|stop| stop.element(list.position()))?;
                }
                reader.end(&block)?;
            }
            Ok(())
        }
        Op::Map { list, value, least, present } => {
            mark(*present, level);
            let Some(list) = level.lists.get_mut(*list) else { return Ok(()) };
            while let Some(block) = reader.block(*least)? {
                for _ in 0..block.count {
                    let elements = &mut list.elements;
                    elements
                        .open_row(&mut reader.opened)
                        .and_then(|()| key(elements, reader))
                        .and_then(|()| run(value, program, elements, reader))
                        .and_then(|()| elements.close_row())
                        .map_err(|stop| stop.element(list.position()))?;
                }
                reader.end(&block)?;
            }
            Ok(())
        }
        Op::Decimal { length, to, present } => {
            let bytes = reader.bytes(*length)?;
            decimal(to, bytes, level)?;
            mark(*present, level);
            Ok(())
        }
        Op::Uuid { text, present } => {
            let bytes = times::uuid(reader.bytes(Length::Prefixed)?)?;
            keep_text(*text, &bytes, level)?;
            mark(*present, level);
            Ok(())
        }
        Op::UuidText { text, present } => {
            let written = times::uuid_text(reader.bytes(Length::Fixed(16))?);
            keep_text(*text, written.as_bytes(), level)?;
            mark(*present, level);
            Ok(())
        }
        Op::Json { node, of, text, present } => {
            let mut writer = Writer::new(&program.reader.schema, &program.resolution, program);
            writer.value(*node, *of, reader, 0)?;
            keep_text(*text, writer.out.as_bytes(), level)?;
            mark(*present, level);
            Ok(())
        }
        Op::Default { bytes, op } => {
            reader.open(bytes.len())?;
            let mut inner = Reader::new(bytes, bytes.len());
            inner.opened = reader.opened;
            run(op, program, level, &mut inner)?;
            reader.opened = inner.opened;
            Ok(())
        }
        Op::Keep(place) => {
            let Some(foreign) = program.foreign.get(*place) else { return Ok(()) };
            let mut writer = Writer::new(&program.writer.schema, &foreign.resolution, program);
            writer.value(foreign.resolution.root, foreign.of, reader, 0)?;
            reader.keep(*place, writer.out)
        }
        Op::Each(ops) => {
            let at = reader.at();
            for op in ops {
                reader.seek(at);
                run(op, program, level, reader)?;
            }
            Ok(())
        }
        Op::Refuse(reason) => Err(refused(reason)),
    }
}

#[cold]
fn refused(reason: &str) -> Box<Stop> {
    Stop::new(Class::IncompatibleSchema, reason.to_owned())
}

#[cold]
pub(super) fn no_symbol(refused: &[(u64, String)], number: usize) -> Box<Stop> {
    match refused.iter().find(|(known, _)| *known == number as u64) {
        Some((_, reason)) => self::refused(reason),
        None => {
            let message = format!("the enum has no symbol {}: these are not the schema's bytes", number as i64);
            Stop::new(Class::WrongType, message)
        }
    }
}

#[inline(always)]
fn mark(present: Option<usize>, level: &mut Level) {
    if let Some(bit) = present {
        level.put_bit(bit, true);
    }
}

/// A map's key, which its entries are told apart by.
#[inline]
fn key(entries: &mut Level, reader: &mut Reader<'_>) -> Outcome {
    let (at, length) = reader.span(Length::Prefixed)?;
    entries.texts.first_mut().map_or(Ok(()), |text| text.put_utf8(reader.buf(), at, length))
}

/// A number as 64 bits: signed ones sign-extended, floats as their bits.
#[inline(always)]
pub(super) fn number(read: Read, reader: &mut Reader<'_>) -> Outcome<u64> {
    Ok(match read {
        Read::Int => reader.int()? as u64,
        Read::Long => reader.long()? as u64,
        Read::Boolean => u64::from(reader.boolean()?),
        Read::Float | Read::Unsigned32 => u64::from(reader.word4()?),
        Read::Double => reader.word8()?,
        Read::IntToFloat => u64::from((reader.int()? as f32).to_bits()),
        Read::LongToFloat => u64::from((reader.long()? as f32).to_bits()),
        Read::IntToDouble => (reader.int()? as f64).to_bits(),
        Read::LongToDouble => (reader.long()? as f64).to_bits(),
        Read::FloatToDouble => f64::from(f32::from_bits(reader.word4()?)).to_bits(),
    })
}

#[inline(always)]
fn keep(store: Store, slot: usize, bits: u64, level: &mut Level) -> Outcome {
    let signed = bits as i64;
    match store {
        Store::Word4 => level.put4(slot, bits as i32),
        Store::Word8 => level.put8(slot, signed),
        Store::Word16 => level.put16(slot, i128::from(signed)),
        Store::Bit => level.put_bit(slot, bits != 0),
        // 32-bit integers only: a double holds every one.
        Store::IntToDouble => level.put8(slot, f64::from(signed as i32).to_bits() as i64),
        Store::FloatToDouble => level.put8(slot, f64::from(f32::from_bits(bits as u32)).to_bits() as i64),
        Store::Scaled(scale) => level.put8(slot, times::scaled(signed, scale)?),
        Store::OfDay(scale) => level.put8(slot, times::of_day(signed, scale)?),
        _ => return keep_as_text(store, slot, bits, level),
    }
    Ok(())
}

#[inline(never)]
fn keep_as_text(store: Store, slot: usize, bits: u64, level: &mut Level) -> Outcome {
    let signed = bits as i64;
    let text = match store {
        Store::SignedText => return keep_text(slot, digits::Digits::of(signed).as_bytes(), level),
        Store::BoolText => return keep_text(slot, if bits == 0 { b"false" } else { b"true" }, level),
        Store::DateText => times::date_text(signed)?,
        Store::OfDayText(scale) => times::of_day_text(signed, scale)?,
        Store::Moment { per_second, zone } => times::moment_text(signed, per_second, zone)?,
        _ => return Ok(()),
    };
    keep_text(slot, text.as_bytes(), level)
}

fn keep_text(slot: usize, value: &[u8], level: &mut Level) -> Outcome {
    level.texts.get_mut(slot).map_or(Ok(()), |text| text.put_any(value))
}

fn decimal(to: &Digits, bytes: &[u8], level: &mut Level) -> Outcome {
    let number = times::number(bytes)?.and_then(|number| number.checked_mul(to.factor));
    let fits = |number: &i128| number.unsigned_abs() <= to.max.unsigned_abs();
    let number = number.filter(fits).ok_or_else(|| {
        Stop::new(Class::OutOfRange, format!("the number has more than the {} digits of its column", digits_of(to.max)))
    })?;
    if to.is_text {
        return keep_text(to.slot, times::decimal_text(number, to.scale).as_bytes(), level);
    }
    level.put16(to.slot, number);
    Ok(())
}

fn digits_of(max: i128) -> usize {
    max.to_string().len()
}

/// Passes over a value.
pub(super) fn skip(side: &Side, of: usize, reader: &mut Reader<'_>, depth: usize) -> Outcome {
    match side.schema.shape(of) {
        Shape::Null => Ok(()),
        Shape::Boolean => reader.boolean().map(drop),
        Shape::Int => reader.int().map(drop),
        Shape::Long => reader.long().map(drop),
        Shape::Float => reader.pass(4).map(drop),
        Shape::Double => reader.pass(8).map(drop),
        Shape::Fixed(fixed) => reader.pass(fixed.size).map(drop),
        Shape::Bytes | Shape::String => reader.span(Length::Prefixed).map(drop),
        Shape::Enum(values) => {
            let number = reader.choice()?;
            if number < values.symbols.len() { Ok(()) } else { Err(no_symbol(&[], number)) }
        }
        Shape::Union(branches) => {
            let branch = reader.choice()?;
            match branches.get(branch) {
                Some(of) => skip(side, *of, reader, depth),
                None => Err(Reader::no_such("branch", branch, branches.len())),
            }
        }
        Shape::Record(record) => {
            check_depth(depth)?;
            for field in &record.fields {
                skip(side, field.of, reader, depth + 1).map_err(|stop| stop.within(&field.name))?;
            }
            Ok(())
        }
        Shape::Array(items) => skip_blocks(side, *items, false, reader, depth),
        Shape::Map(values) => skip_blocks(side, *values, true, reader, depth),
    }
}

fn skip_blocks(side: &Side, of: usize, keyed: bool, reader: &mut Reader<'_>, depth: usize) -> Outcome {
    check_depth(depth)?;
    let bytes = side.least.bytes(of).saturating_add(usize::from(keyed));
    while let Some(block) = reader.block(bytes)? {
        if let Some(end) = block.end {
            // Passed over as a whole, without a look inside.
            reader.pass(end - reader.at())?;
            continue;
        }
        for index in 0..block.count {
            let key = if keyed { reader.span(Length::Prefixed).map(drop) } else { Ok(()) };
            key.and_then(|()| skip(side, of, reader, depth + 1))
                .map_err(|stop| stop.element(usize::try_from(index).unwrap_or(usize::MAX)))?;
        }
    }
    Ok(())
}

//! Carries out a [`super::program::Message`] on wire bytes.
//!
//! Recursion here follows the columns, whose nesting the compiler bounds; only unknown groups and JSON go as deep as
//! the payload says, and those are counted.

use super::json;
use super::program::{Field, Message, MomentStore, Op, Read, Store};
use super::wire::{self, Reader};
use crate::Class;
use crate::rows::cells::Slot;
use crate::rows::digits::Digits;
use crate::rows::level::{Level, Moment};
use crate::rows::scale::{scaled, too_far};
use crate::rows::stop::{Outcome, Stop};

/// Reads a message up to the reader's end, or up to the end of the group of this number if it isn't 0, into the level's
/// open row.
pub(crate) fn message(plan: &Message, level: &mut Level, reader: &mut Reader<'_>, group: u32) -> Outcome {
    while !reader.done() {
        let tag = reader.peek().unwrap_or(0);
        let index = plan.by_tag.get(usize::from(tag)).map_or(0, |index| usize::from(*index));
        let (field, wire) = match plan.fields.get(index.wrapping_sub(1)) {
            Some(field) => {
                reader.advance();
                (field, tag & 7)
            }
            None => {
                let start = reader.at();
                let (number, wire) = reader.tag()?;
                if wire == wire::GROUP_END && number == group {
                    return Ok(());
                }
                match plan.field(number) {
                    Some(field) if wire == field.wire || (field.packable && wire == wire::LENGTH) => (field, wire),
                    // A value of another wire type than the schema's is an unknown field, as protobuf sees it.
                    Some(field) => {
                        let in_column = !matches!(field.op, Op::Skip);
                        reader.retyped(start, in_column, number, wire, plan.depth)?;
                        continue;
                    }
                    None => {
                        reader.unknown(start, number, wire, plan.depth)?;
                        continue;
                    }
                }
            }
        };
        if field.oneof != 0 {
            switch(plan, field, level);
        }
        if let Err(stop) = run(&field.op, field, plan.depth, level, reader, wire) {
            return Err(stop.within(&field.name));
        }
    }
    if group == 0 { Ok(()) } else { Err(Stop::truncated()) }
}

/// Setting a member of a oneof unsets the one that was set before.
#[inline]
fn switch(plan: &Message, field: &Field, level: &mut Level) {
    let Some(oneof) = plan.oneofs.get(field.oneof as usize - 1) else { return };
    let Some(member) = level.oneofs.get_mut(oneof.state) else { return };
    let before = std::mem::replace(member, field.number);
    if before != field.number
        && before != 0
        && let Some((_, slots)) = oneof.members.iter().find(|(number, _)| *number == before)
    {
        level.erase(slots);
    }
}

fn run(op: &Op, field: &Field, depth: usize, level: &mut Level, reader: &mut Reader<'_>, wire: u8) -> Outcome {
    match op {
        Op::Number { read, store, slot, present } => {
            let bits = number(*read, reader)?;
            keep(*store, *slot, bits, level)?;
            mark(*present, level);
            Ok(())
        }
        Op::Text { text, utf8, present } => {
            let (at, length) = reader.span()?;
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
        Op::Message { message: plan, present } => {
            mark(*present, level);
            nested(plan, field.number, level, reader, wire)
        }
        Op::Moment { store, slot, moment: state, present, depth } => {
            let before = reader.unknown.count();
            let moment = moment(level.moment(*state), *depth, field.number, reader, wire)?;
            if reader.unknown.count() > before {
                reader.unknown.within(before, field.number);
            }
            level.put_moment(*state, moment);
            keep_moment(*store, *slot, moment, level)?;
            mark(*present, level);
            Ok(())
        }
        Op::EnumName { names, text, present } => {
            let number = reader.varint()? as i32;
            if let Some(text) = level.texts.get_mut(*text) {
                match names.find(number) {
                    Some((at, length)) => text.put(names.bytes(), at, length)?,
                    None => text.put_any(Digits::of(number).as_bytes())?,
                }
            }
            mark(*present, level);
            Ok(())
        }
        Op::Counted { read, scale, unsigned, slot, present } => {
            let bits = number(*read, reader)?;
            let value = bits as i64;
            if *unsigned && value < 0 {
                return Err(too_far(bits));
            }
            level.put8(*slot, scaled(value, *scale)?);
            mark(*present, level);
            Ok(())
        }
        Op::List { list, element } => list_field(*list, element, field, depth, level, reader, wire),
        Op::Map { list, entry, prefill } => map_entry(*list, entry, *prefill, field, level, reader, wire),
        Op::Json { raw, present, depth } => {
            // The group's own depth is counted from the message around it.
            let bytes = if wire == wire::GROUP { reader.group(field.number, depth - 1)? } else { reader.bytes()? };
            level.put_raw(*raw, bytes)?;
            mark(*present, level);
            Ok(())
        }
        Op::Skip => reader.skip(field.number, wire, depth),
        Op::Each(ops) => {
            let at = reader.at();
            for op in ops {
                reader.seek(at);
                run(op, field, depth, level, reader, wire)?;
            }
            Ok(())
        }
    }
}

#[inline(always)]
fn mark(present: Option<usize>, level: &mut Level) {
    if let Some(bit) = present {
        level.put_bit(bit, true);
    }
}

#[inline]
fn nested(plan: &Message, number: u32, level: &mut Level, reader: &mut Reader<'_>, wire: u8) -> Outcome {
    let before = reader.unknown.count();
    if wire == wire::GROUP {
        message(plan, level, reader, number)?;
    } else {
        let end = reader.length()?;
        let outer = reader.narrow(end);
        message(plan, level, reader, 0)?;
        reader.widen(outer);
    }
    if reader.unknown.count() > before {
        reader.unknown.within(before, number);
    }
    Ok(())
}

fn list_field(
    list: usize,
    element: &Op,
    field: &Field,
    depth: usize,
    level: &mut Level,
    reader: &mut Reader<'_>,
    wire: u8,
) -> Outcome {
    let Some(list) = level.lists.get_mut(list) else { return Ok(()) };
    let mut one = |reader: &mut Reader<'_>, wire: u8| {
        let elements = &mut list.elements;
        elements
            .open_row(&mut reader.opened)
            .and_then(|()| run(element, field, depth, elements, reader, wire))
            .and_then(|()| elements.close_row())
            .map_err(|stop| stop.element(list.position()))
    };
    if field.packable && wire == wire::LENGTH {
        let end = reader.length()?;
        let outer = reader.narrow(end);
        while !reader.done() {
            one(reader, field.wire)?;
        }
        reader.widen(outer);
        Ok(())
    } else {
        one(reader, wire)
    }
}

fn map_entry(
    list: usize,
    entry: &Message,
    prefill: Option<(Slot, i32)>,
    field: &Field,
    level: &mut Level,
    reader: &mut Reader<'_>,
    wire: u8,
) -> Outcome {
    let Some(list) = level.lists.get_mut(list) else { return Ok(()) };
    let elements = &mut list.elements;
    let read = elements.open_row(&mut reader.opened).and_then(|()| {
        match prefill {
            Some((Slot::Word4(slot), value)) => elements.put4(slot, value),
            Some((Slot::Bit(slot), value)) => elements.put_bit(slot, value != 0),
            _ => {}
        }
        nested(entry, field.number, elements, reader, wire)
    });
    read.and_then(|()| elements.close_row()).map_err(|stop| stop.element(list.position()))
}

/// A number as 64 bits. As protobuf has it, a varint for a 32-bit field keeps its low 32 bits.
#[inline(always)]
pub(crate) fn number(read: Read, reader: &mut Reader<'_>) -> Outcome<u64> {
    Ok(match read {
        Read::Int32 => i64::from(reader.varint()? as i32) as u64,
        Read::Int64 => reader.varint()?,
        Read::Uint32 => u64::from(reader.varint()? as u32),
        Read::Sint32 => {
            let zigzag = reader.varint()? as u32;
            i64::from((zigzag >> 1) as i32 ^ -((zigzag & 1) as i32)) as u64
        }
        Read::Sint64 => {
            let zigzag = reader.varint()?;
            ((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)) as u64
        }
        Read::Bool => u64::from(reader.varint()? != 0),
        Read::Fixed32 => u64::from(reader.fixed32()?),
        Read::Sfixed32 => i64::from(reader.fixed32()? as i32) as u64,
        Read::Fixed64 => reader.fixed64()?,
    })
}

#[inline(always)]
fn keep(store: Store, slot: usize, bits: u64, level: &mut Level) -> Outcome {
    let signed = bits as i64;
    match store {
        Store::Word4 => level.put4(slot, bits as i32),
        Store::Word8 => level.put8(slot, signed),
        Store::Word8Checked if signed < 0 => return Err(beyond_long(bits)),
        Store::Word8Checked => level.put8(slot, signed),
        Store::Signed16 => level.put16(slot, i128::from(signed)),
        Store::Unsigned16 => level.put16(slot, i128::from(bits)),
        Store::Bit => level.put_bit(slot, bits != 0),
        Store::FloatToDouble => level.put8(slot, f64::from(f32::from_bits(bits as u32)).to_bits() as i64),
        // 32-bit integers only: a double holds every one.
        Store::SignedToDouble => level.put8(slot, f64::from(signed as i32).to_bits() as i64),
        Store::UnsignedToDouble => level.put8(slot, f64::from(bits as u32).to_bits() as i64),
        Store::SignedText => return keep_text(slot, Digits::of(signed).as_bytes(), level),
        Store::UnsignedText => return keep_text(slot, Digits::of(bits).as_bytes(), level),
        Store::BoolText => return keep_text(slot, if bits == 0 { b"false" } else { b"true" }, level),
    }
    Ok(())
}

fn keep_text(slot: usize, value: &[u8], level: &mut Level) -> Outcome {
    level.texts.get_mut(slot).map_or(Ok(()), |text| text.put_any(value))
}

#[cold]
fn beyond_long(value: u64) -> Box<Stop> {
    Stop::new(Class::OutOfRange, format!("{value} is larger than a long holds; a decimal(20, 0) column holds it"))
}

/// Reads the two fields of a timestamp or duration over what an earlier occurrence left.
#[inline]
fn moment(mut moment: Moment, depth: usize, field: u32, reader: &mut Reader<'_>, wire: u8) -> Outcome<Moment> {
    const SECONDS: u8 = 1 << 3;
    const NANOS: u8 = 2 << 3;
    let outer = match wire {
        wire::GROUP => None,
        _ => {
            let end = reader.length()?;
            Some(reader.narrow(end))
        }
    };
    while !reader.done() {
        match reader.peek() {
            Some(SECONDS) => {
                reader.advance();
                moment.seconds = reader.varint()? as i64;
            }
            Some(NANOS) => {
                reader.advance();
                moment.nanos = reader.varint()? as i32;
            }
            _ => {
                let start = reader.at();
                match reader.tag()? {
                    (1, wire::VARINT) => moment.seconds = reader.varint()? as i64,
                    (2, wire::VARINT) => moment.nanos = reader.varint()? as i32,
                    (number, wire::GROUP_END) if outer.is_none() && number == field => return Ok(moment),
                    (number, wire) => reader.unknown(start, number, wire, depth)?,
                }
            }
        }
    }
    match outer {
        Some(outer) => {
            reader.widen(outer);
            Ok(moment)
        }
        None => Err(Stop::truncated()),
    }
}

#[inline]
fn keep_moment(store: MomentStore, slot: usize, moment: Moment, level: &mut Level) -> Outcome {
    match store {
        MomentStore::Timestamp => {
            check_timestamp(moment)?;
            level.put8(slot, micros(moment));
            Ok(())
        }
        MomentStore::Duration => {
            check_duration(moment)?;
            level.put8(slot, micros(moment));
            Ok(())
        }
        MomentStore::TimestampText => keep_text(slot, json::timestamp(moment)?.as_bytes(), level),
        MomentStore::DurationText => keep_text(slot, json::duration(moment)?.as_bytes(), level),
    }
}

/// Microseconds, towards the past. What the checks let through stays far inside 64 bits.
#[inline(always)]
const fn micros(moment: Moment) -> i64 {
    moment.seconds * 1_000_000 + (moment.nanos as i64).div_euclid(1_000)
}

/// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z, between which `google.protobuf.Timestamp` is defined.
const TIMESTAMP_SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// Some 10,000 years, between which `google.protobuf.Duration` is defined.
const DURATION_SECONDS: std::ops::RangeInclusive<i64> = -315_576_000_000..=315_576_000_000;

const NANOS_MAX: i32 = 999_999_999;

#[inline(always)]
pub(crate) fn check_timestamp(moment: Moment) -> Outcome {
    // Nanoseconds count forward, also before 1970.
    if TIMESTAMP_SECONDS.contains(&moment.seconds) && (0..=NANOS_MAX).contains(&moment.nanos) {
        return Ok(());
    }
    Err(out_of_range("timestamp", moment, "from year 1 to 9999, its nanoseconds 0 to 999999999"))
}

#[inline(always)]
pub(crate) fn check_duration(moment: Moment) -> Outcome {
    let signs_agree = moment.seconds == 0 || moment.nanos == 0 || (moment.seconds < 0) == (moment.nanos < 0);
    if DURATION_SECONDS.contains(&moment.seconds) && (-NANOS_MAX..=NANOS_MAX).contains(&moment.nanos) && signs_agree {
        return Ok(());
    }
    Err(out_of_range("duration", moment, "of at most 315576000000 seconds, its nanoseconds of the same sign"))
}

#[cold]
fn out_of_range(what: &str, moment: Moment, bounds: &str) -> Box<Stop> {
    let Moment { seconds, nanos } = moment;
    Stop::new(Class::OutOfRange, format!("{seconds} seconds and {nanos} nanoseconds are no {what}: one is {bounds}"))
}

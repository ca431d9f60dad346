//! Carries out a program on a payload's text.
//!
//! Recursion here follows the columns, whose nesting is bounded where they are placed; what is passed over goes as deep as the
//! payload says, and that is counted.

use std::borrow::Cow;
use std::collections::HashMap;

use super::program::{Member, Object, Op, Unknown};
use super::store;
use super::wire::{Begin, Foreign, Reader};
use crate::Class;
use crate::rows::level::Level;
use crate::rows::stop::{Outcome, Stop};

/// Why a member that the schema does not know rejects a record.
pub(super) const UNKNOWN: &str = "it is not in the schema";

/// Members that the schema does not know: more of one record are another schema's.
const FOREIGN_MAX: usize = 10_000;

/// Reads a value into the level's open row.
pub(super) fn run(op: &Op, level: &mut Level, reader: &mut Reader<'_>) -> Outcome {
    if let Op::Skip = op {
        return reader.skip();
    }
    let begin = reader.begin()?;
    if begin == Begin::Null {
        return reader.word(b"null");
    }
    match op {
        Op::Single { store, slot, present } => {
            store::keep(*store, *slot, begin, level, reader)?;
            level.put_bit(*present, true);
            Ok(())
        }
        Op::Object(object) => {
            if begin != Begin::Object {
                return Err(store::unlike("an object", begin));
            }
            if let Some(bit) = object.present {
                level.put_bit(bit, true);
            }
            if reader.careful { last_members(object, level, reader) } else { members(object, level, reader) }
        }
        Op::List { list, element, present } => {
            if begin != Begin::Array {
                return Err(store::unlike("an array", begin));
            }
            if let Some(bit) = present {
                level.put_bit(*bit, true);
            }
            let Some(list) = level.lists.get_mut(*list) else { return Ok(()) };
            reader.enter()?;
            let mut first = true;
            while reader.more(first, b']')? {
                first = false;
                let elements = &mut list.elements;
                elements
                    .open_row(&mut reader.opened)
                    .and_then(|()| run(element, elements, reader))
                    .and_then(|()| elements.close_row())
                    .map_err(|stop| stop.element(list.position()))?;
            }
            Ok(())
        }
        Op::Map { list, value, present } => {
            if begin != Begin::Object {
                return Err(store::unlike("an object", begin));
            }
            level.put_bit(*present, true);
            let Some(list) = level.lists.get_mut(*list) else { return Ok(()) };
            if reader.careful {
                return last_entries(value, &mut list.elements, reader);
            }
            reader.enter()?;
            let mut first = true;
            while reader.more(first, b'}')? {
                first = false;
                let elements = &mut list.elements;
                elements.open_row(&mut reader.opened)?;
                let key = reader.key()?;
                put_key(elements, reader.content(key))?;
                if let Err(stop) = run(value, elements, reader).and_then(|()| elements.close_row()) {
                    return Err(stop.within(&reader.spelled(key)));
                }
            }
            Ok(())
        }
        Op::Each(ops) => {
            let at = reader.at();
            for op in ops {
                reader.seek(at);
                run(op, level, reader)?;
            }
            Ok(())
        }
        Op::Skip => Ok(()),
    }
}

/// Which members an object has had so far.
#[derive(Default)]
struct Seen {
    first: u64,
    more: Vec<u64>,
}

impl Seen {
    /// Whether a member has come before, as it has from now on.
    #[inline(always)]
    fn has_come(&mut self, member: usize) -> bool {
        if member >= 64 {
            return self.has_come_late(member);
        }
        let bit = 1 << member;
        let before = self.first & bit != 0;
        self.first |= bit;
        before
    }

    #[inline(never)]
    fn has_come_late(&mut self, member: usize) -> bool {
        let (word, bit) = (member / 64 - 1, 1 << (member % 64));
        if self.more.len() <= word {
            self.more.resize(word + 1, 0);
        }
        let Some(word) = self.more.get_mut(word) else { return false };
        let before = *word & bit != 0;
        *word |= bit;
        before
    }
}

/// Reads an object's members as they come. One that comes twice, or is to be kept beside the columns, takes a careful look at
/// all of them.
fn members(object: &Object, level: &mut Level, reader: &mut Reader<'_>) -> Outcome {
    reader.enter()?;
    let (mut seen, mut next, mut first) = (Seen::default(), 0, true);
    while reader.more(first, b'}')? {
        first = false;
        // Most writers have members in the schema's order.
        let place = match object.members.get(next) {
            Some(member) if reader.takes_key(&member.quoted) => next,
            _ => match unexpected(object, reader)? {
                Some(place) => place,
                None => continue,
            },
        };
        next = place + 1;
        let Some(member) = object.members.get(place) else { continue };
        if let Op::Skip = member.op {
            reader.skip().map_err(|stop| stop.within(&member.name))?;
            continue;
        }
        if seen.has_come(place) {
            return Err(again());
        }
        if let Err(stop) = run(&member.op, level, reader) {
            return Err(stop.within(&member.name));
        }
    }
    if object.has_defaults {
        defaults(object, |place| seen.has_come(place), level, reader)?;
    }
    Ok(())
}

/// A member's place, where its name is not the one that was expected; of what the schema does not know the value is passed
/// over.
#[inline(never)]
fn unexpected(object: &Object, reader: &mut Reader<'_>) -> Outcome<Option<usize>> {
    let name = reader.key()?;
    if let Some(place) = find(object, reader.content(name)) {
        return Ok(Some(place));
    }
    match object.unknown {
        Unknown::Keep { .. } => Err(again()),
        Unknown::Refuse => Err(unknown(&reader.name(name))),
        Unknown::Skip => {
            reader.ignored = true;
            reader.skip().map(|()| None).map_err(|stop| stop.within(&reader.spelled(name)))
        }
    }
}

#[cold]
fn unknown(name: &str) -> Box<Stop> {
    Stop::new(Class::IncompatibleSchema, UNKNOWN).within(name)
}

/// Never seen: the record is read again, carefully.
#[cold]
fn again() -> Box<Stop> {
    Stop::new(Class::WrongType, "the object has to be read again")
}

/// The place of the member of a name, or of the one that it is another spelling of.
fn find(object: &Object, name: &[u8]) -> Option<usize> {
    exactly(object, name).or_else(|| {
        // Small letters are spelled as they are.
        let is_spelled = name.iter().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
        if object.spelled.is_empty() || is_spelled && object.spelled.is_plain() {
            return None;
        }
        let name = std::str::from_utf8(name).ok()?;
        exactly(object, object.spelled.fold(name).as_bytes()).or_else(|| object.spelled.find(name))
    })
}

fn exactly(object: &Object, name: &[u8]) -> Option<usize> {
    let order = |place: &usize| object.members.get(*place).map_or(&[][..], |member| member.name.as_bytes()).cmp(name);
    object.by_name.get(object.by_name.binary_search_by(order).ok()?).copied()
}

/// Reads the defaults of members that did not come.
#[inline(never)]
fn defaults(
    object: &Object,
    mut has_come: impl FnMut(usize) -> bool,
    level: &mut Level,
    reader: &mut Reader<'_>,
) -> Outcome {
    for (place, member) in object.members.iter().enumerate() {
        let Some(default) = &member.default else { continue };
        if !has_come(place) {
            take_default(member, default, level, reader).map_err(|stop| stop.within(&member.name))?;
        }
    }
    Ok(())
}

fn take_default(member: &Member, default: &[u8], level: &mut Level, reader: &mut Reader<'_>) -> Outcome {
    reader.open(default.len())?;
    let mut inner = Reader::new(default, default.len());
    (inner.opened, inner.careful) = (reader.opened, true);
    run(&member.op, level, &mut inner)?;
    reader.opened = inner.opened;
    Ok(())
}

/// Reads of several members of one name the last: what the others hold is nobody's concern, if it is JSON.
#[cold]
fn last_members(object: &Object, level: &mut Level, reader: &mut Reader<'_>) -> Outcome {
    let (found, end) = last_of_each(reader)?;
    let mut names: HashMap<usize, &str> = HashMap::new();
    for (name, at) in &found {
        reader.seek(*at);
        let Some(place) = find(object, name.as_bytes()) else {
            stray(object, name, reader)?;
            continue;
        };
        let Some(member) = object.members.get(place) else { continue };
        if let Op::Skip = member.op {
            continue;
        }
        if let Some(other) = names.insert(place, name) {
            let message = format!("`{other}` and `{name}` are both the column's");
            return Err(Stop::new(Class::AmbiguousName, message).within(&member.name));
        }
        run(&member.op, level, reader).map_err(|stop| stop.within(&member.name))?;
    }
    reader.leave(end);
    if object.has_defaults {
        defaults(object, |place| names.contains_key(&place), level, reader)?;
    }
    Ok(())
}

/// A member that the schema does not know, whose value is next.
fn stray(object: &Object, name: &str, reader: &mut Reader<'_>) -> Outcome {
    match &object.unknown {
        Unknown::Skip => {
            reader.ignored = true;
            Ok(())
        }
        Unknown::Refuse => Err(unknown(name)),
        Unknown::Keep { withheld: Some((all, within)), .. } if all.holds(within, name) => {
            reader.ignored = true;
            Ok(())
        }
        Unknown::Keep { path, several, .. } => {
            if reader.foreign.len() >= FOREIGN_MAX {
                let message = format!("the record has more than {FOREIGN_MAX} fields that are not in the schema");
                return Err(Stop::new(Class::TooLarge, message));
            }
            let names: Vec<&str> = path.iter().map(String::as_str).chain([name]).collect();
            let path = pipeline::path::text(&names);
            reader.open(path.len())?;
            let start = reader.blanks();
            reader.skip()?;
            // Several columns of one object meet it once each.
            reader.foreign.insert(start, Foreign { path, several: *several, end: reader.at() });
            Ok(())
        }
    }
}

#[cold]
fn last_entries(value: &Op, elements: &mut Level, reader: &mut Reader<'_>) -> Outcome {
    let (found, end) = last_of_each(reader)?;
    for (name, at) in &found {
        reader.seek(*at);
        elements
            .open_row(&mut reader.opened)
            .and_then(|()| put_key(elements, name.as_bytes()))
            .and_then(|()| run(value, elements, reader))
            .and_then(|()| elements.close_row())
            .map_err(|stop| stop.within(name))?;
    }
    reader.leave(end);
    Ok(())
}

/// A member's name, and where its value begins.
type Found<'a> = (Cow<'a, str>, usize);

/// The names of an object's members in the order in which they came first, each with where its last value begins; and where
/// the object ends. It is still entered.
fn last_of_each<'a>(reader: &mut Reader<'a>) -> Outcome<(Vec<Found<'a>>, usize)> {
    reader.enter()?;
    let mut found: Vec<Found<'a>> = Vec::new();
    let mut places: HashMap<Cow<'a, str>, usize> = HashMap::new();
    let mut first = true;
    while reader.more(first, b'}')? {
        first = false;
        let key = reader.key()?;
        let name = reader.name(key);
        let at = reader.at();
        reader.skip().map_err(|stop| stop.within(&name))?;
        let place = *places.entry(name.clone()).or_insert(found.len());
        match found.get_mut(place) {
            Some((_, earlier)) => *earlier = at,
            None => found.push((name, at)),
        }
    }
    let end = reader.at();
    reader.stay();
    Ok((found, end))
}

fn put_key(elements: &mut Level, name: &[u8]) -> Outcome {
    elements.texts.first_mut().map_or(Ok(()), |key| key.put_any(name))
}

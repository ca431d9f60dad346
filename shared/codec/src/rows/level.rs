//! Columns in the making that share a row number: a batch's own, and below each list or map one level for its elements.
//! A struct's members live on the level of the struct, since Arrow gives them as many rows.
//!
//! Of a level, the rows below `rows` are closed. The row `rows` is open between [`Level::open_row`] and
//! [`Level::close_row`]; whatever is written to it can be written again or taken back.

use std::collections::HashMap;
use std::sync::Arc;

use super::cells::Slot;
use super::stop::{Outcome, Stop};
use super::text::{self, Text};
use crate::Class;
use crate::expectation::Rule;
use crate::pii::{self, Hasher};

/// What a compiler asks of a level.
#[derive(Default)]
pub(crate) struct Layout {
    pub(crate) words4: usize,
    pub(crate) words8: usize,
    pub(crate) words16: usize,
    pub(crate) bits: usize,
    pub(crate) moments: usize,
    pub(crate) oneofs: usize,
    pub(crate) texts: Vec<Option<text::Default>>,
    pub(crate) raws: Vec<Gathered>,
    pub(crate) lists: Vec<(Layout, Option<Slot>)>,
    pub(crate) required: Vec<Required>,
    pub(crate) checks: Vec<Check>,
    pub(crate) veils: Vec<Veil>,
}

impl Layout {
    /// One more bit.
    pub(crate) const fn bit(&mut self) -> usize {
        self.bits += 1;
        self.bits - 1
    }

    /// One more text.
    pub(crate) fn text(&mut self, default: Option<text::Default>) -> usize {
        self.texts.push(default);
        self.texts.len() - 1
    }
}

/// A validity bit that must be set in every closed row.
pub(crate) struct Required {
    pub(crate) bit: usize,
    /// Only where this bit is set too: a member of a struct that may itself be absent.
    pub(crate) within: Option<usize>,
    pub(crate) path: String,
}

/// What the values of a column must be like in every closed row.
pub(crate) struct Check {
    /// The validity bit; none where every row has a value.
    pub(crate) valid: Option<usize>,
    pub(crate) cell: Cell,
    pub(crate) rule: Rule,
    pub(crate) path: String,
}

/// A text of which only a part or a hash may stay in a closed row.
pub(crate) struct Veil {
    /// The validity bit; none where every row has a value.
    pub(crate) valid: Option<usize>,
    pub(crate) text: usize,
    pub(crate) kept: Kept,
}

/// What stays of a text.
pub(crate) enum Kept {
    Hash(Arc<Hasher>),
    Last4,
}

/// A column of single values, and how they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Word4(usize),
    Word8(usize),
    Word16(usize),
    Float(usize),
    Double(usize),
    Bit(usize),
    Text(usize),
}

/// Columns in the making.
pub(crate) struct Level {
    rows: usize,
    /// Rows for which fixed-width columns have room. What lies beyond the closed rows is zero.
    room: usize,
    pub(crate) words4: Vec<Vec<i32>>,
    pub(crate) words8: Vec<Vec<i64>>,
    pub(crate) words16: Vec<Vec<i128>>,
    /// Booleans and validity, least significant bit first, as Arrow has them.
    bits: Vec<Vec<u8>>,
    pub(crate) texts: Vec<Text>,
    pub(crate) lists: Vec<List>,
    /// Timestamps and durations of the open row: their two fields may come apart.
    moments: Vec<Moment>,
    /// The field number of the member that each oneof holds in the open row; 0 where none.
    pub(crate) oneofs: Vec<u32>,
    pub(crate) raws: Vec<Raw>,
    required: Vec<Required>,
    checks: Vec<Check>,
    veils: Vec<Veil>,
    /// Whether there are moments, oneofs or raws, which each row starts without.
    has_state: bool,
    /// Bytes that a row takes before anything is written to it.
    width: usize,
}

/// A list or map column: where each row's elements end, and the elements.
pub(crate) struct List {
    offsets: Vec<i32>,
    pub(crate) elements: Level,
    /// A map's key, by which entries of one row are told apart.
    key: Option<Slot>,
}

/// `google.protobuf.Timestamp` or `Duration`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Moment {
    pub(crate) seconds: i64,
    pub(crate) nanos: i32,
}

/// The wire bytes of a message that becomes JSON. Protobuf merges two occurrences of a message exactly as it reads
/// their bytes one after the other, so that is how they are kept until the row closes.
pub(crate) struct Raw {
    bytes: Vec<u8>,
    seen: bool,
    source: Gathered,
}

/// A text that is made of gathered bytes when the row closes.
pub(crate) struct Gathered {
    /// Its path from the level's beginning.
    pub(crate) name: String,
    pub(crate) text: usize,
    /// Whether it is there even if no bytes are: a map's value.
    pub(crate) always: bool,
    pub(crate) writer: Box<dyn Deferred>,
}

/// Makes text of gathered bytes.
pub(crate) trait Deferred: Send {
    /// Judges every byte of an occurrence, also of values that later ones replace and that are never written.
    fn check(&self, bytes: &[u8]) -> Outcome;

    /// Writes what the occurrences, each of them checked, say one after the other.
    fn write(&self, bytes: &[u8]) -> Outcome<String>;
}

/// How many bytes of columns one record may open before anything is written to them. Two wire bytes can open an element
/// of a thousand columns; no honest record comes near this.
const OPENED_MAX: usize = 128 << 20;

/// Charges bytes that take memory and were never sent to what a record has opened so far.
pub(crate) fn charge(opened: &mut usize, bytes: usize) -> Outcome {
    *opened = opened.saturating_add(bytes);
    if *opened > OPENED_MAX {
        let message = "the record has so many elements that they would not fit in memory";
        return Err(Stop::new(Class::TooLarge, message));
    }
    Ok(())
}

/// Rows for which a column that was never used first makes room.
const ROOM_MIN: usize = 64;

impl Level {
    /// Adds an entry to the open row of a map from text to text.
    pub(crate) fn put_entry(&mut self, list: usize, key: &[u8], value: &[u8], opened: &mut usize) -> Outcome {
        let Some(list) = self.lists.get_mut(list) else { return Ok(()) };
        list.elements.open_row(opened)?;
        if let [keys, values] = list.elements.texts.as_mut_slice() {
            keys.put_any(key)?;
            values.put_any(value)?;
        }
        list.elements.close_row()
    }

    pub(crate) fn new(layout: Layout) -> Self {
        let width = layout.words4 * 4
            + layout.words8 * 8
            + layout.words16 * 16
            + layout.bits.div_ceil(8)
            + (layout.texts.len() + layout.lists.len()) * 4
            + 1;
        let raws = !layout.raws.is_empty();
        Self {
            rows: 0,
            room: 0,
            words4: vec![Vec::new(); layout.words4],
            words8: vec![Vec::new(); layout.words8],
            words16: vec![Vec::new(); layout.words16],
            bits: vec![Vec::new(); layout.bits],
            texts: layout.texts.into_iter().map(Text::new).collect(),
            lists: layout
                .lists
                .into_iter()
                .map(|(elements, key)| List { offsets: vec![0], elements: Self::new(elements), key })
                .collect(),
            moments: vec![Moment::default(); layout.moments],
            oneofs: vec![0; layout.oneofs],
            raws: layout.raws.into_iter().map(|source| Raw { bytes: Vec::new(), seen: false, source }).collect(),
            required: layout.required,
            checks: layout.checks,
            veils: layout.veils,
            has_state: layout.moments + layout.oneofs > 0 || raws,
            width,
        }
    }

    pub(crate) const fn rows(&self) -> usize {
        self.rows
    }

    /// Makes the next row ready to be written. `opened` counts what one record has opened so far.
    #[inline(always)]
    pub(crate) fn open_row(&mut self, opened: &mut usize) -> Outcome {
        *opened += self.width;
        if self.rows >= self.room || *opened > OPENED_MAX {
            self.make_room(*opened)?;
        }
        if self.has_state {
            self.forget_state();
        }
        Ok(())
    }

    #[inline(never)]
    fn forget_state(&mut self) {
        // Loops, not `fill`: on an empty vector that is still a call to memset, at an address that isn't mapped, and some
        // processors take longer over such a masked store than over the rest of a record.
        for moment in &mut self.moments {
            *moment = Moment::default();
        }
        for member in &mut self.oneofs {
            *member = 0;
        }
        for raw in &mut self.raws {
            raw.bytes.clear();
            raw.seen = false;
        }
    }

    #[inline(never)]
    fn make_room(&mut self, opened: usize) -> Outcome {
        if opened > OPENED_MAX {
            let message = "the record has so many elements that their columns would not fit in memory";
            return Err(Stop::new(Class::TooLarge, message));
        }
        // Row numbers are 32-bit offsets in the level above.
        if self.rows >= i32::MAX as usize {
            return Err(Stop::new(Class::TooLarge, "a column of one batch holds at most 2^31-1 elements"));
        }
        if self.rows >= self.room {
            self.room = (self.room * 2).max(ROOM_MIN);
            self.resize();
        }
        Ok(())
    }

    fn resize(&mut self) {
        let room = self.room;
        self.words4.iter_mut().for_each(|column| column.resize(room, 0));
        self.words8.iter_mut().for_each(|column| column.resize(room, 0));
        self.words16.iter_mut().for_each(|column| column.resize(room, 0));
        self.bits.iter_mut().for_each(|column| column.resize(room.div_ceil(8), 0));
    }

    /// Makes the open row one of the closed ones. On an error the row stays open, for [`Level::rewind`].
    #[inline(always)]
    pub(crate) fn close_row(&mut self) -> Outcome {
        if !self.raws.is_empty() {
            self.write_json()?;
        }
        let (row, bits) = (self.rows, &self.bits);
        for text in &mut self.texts {
            text.close_row(|bit| bits.get(bit).is_some_and(|column| is_set(column, row)))?;
        }
        for list in &mut self.lists {
            list.close_row()?;
        }
        if !self.required.is_empty() {
            self.check_required()?;
        }
        if !self.checks.is_empty() {
            self.check_values()?;
        }
        if !self.veils.is_empty() {
            self.veil()?;
        }
        self.rows += 1;
        Ok(())
    }

    #[inline(never)]
    fn write_json(&mut self) -> Outcome {
        for raw in &self.raws {
            if raw.seen || raw.source.always {
                let written = raw.source.writer.write(&raw.bytes);
                let json = written.map_err(|stop| stop.within(&raw.source.name))?;
                if let Some(text) = self.texts.get_mut(raw.source.text) {
                    text.put_any(json.as_bytes())?;
                }
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn check_required(&self) -> Outcome {
        for required in &self.required {
            if required.within.is_none_or(|bit| self.bit(bit)) && !self.bit(required.bit) {
                let stop = Stop::new(Class::MissingRequired, "a required value is missing");
                return Err(stop.within(&required.path));
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn check_values(&self) -> Outcome {
        fn word<T: Copy + Default>(columns: &[Vec<T>], slot: usize, row: usize) -> T {
            columns.get(slot).and_then(|column| column.get(row)).copied().unwrap_or_default()
        }
        let row = self.rows;
        for check in self.checks.iter().filter(|check| check.valid.is_none_or(|bit| self.bit(bit))) {
            let rule = &check.rule;
            let met = match check.cell {
                Cell::Word4(slot) => rule.integer(word(&self.words4, slot, row).into()),
                Cell::Word8(slot) => rule.integer(word(&self.words8, slot, row).into()),
                Cell::Word16(slot) => rule.integer(word(&self.words16, slot, row)),
                Cell::Float(slot) => rule.float(f32::from_bits(word(&self.words4, slot, row) as u32).into()),
                Cell::Double(slot) => rule.float(f64::from_bits(word(&self.words8, slot, row) as u64)),
                Cell::Bit(slot) => rule.boolean(self.bit(slot)),
                Cell::Text(slot) => rule.text(self.texts.get(slot).map_or(&[], |text| text.row(row))),
            };
            met.map_err(|unmet| Stop::new(Class::Expectation, unmet).within(&check.path))?;
        }
        Ok(())
    }

    /// Puts in the place of personal data what may stay of it.
    #[inline(never)]
    fn veil(&mut self) -> Outcome {
        let row = self.rows;
        for veil in &self.veils {
            let is_valid = veil.valid.is_none_or(|bit| self.bits.get(bit).is_some_and(|column| is_set(column, row)));
            let Some(text) = self.texts.get_mut(veil.text).filter(|_| is_valid) else { continue };
            match &veil.kept {
                Kept::Hash(hasher) => {
                    let hash = hasher.hash(text.row(row));
                    text.replace(row, hash.as_bytes())?;
                }
                Kept::Last4 => {
                    let end = pii::last4(text.row(row)).to_vec();
                    text.replace(row, &end)?;
                }
            }
        }
        Ok(())
    }

    /// Takes back the open row, and of the closed ones those from `rows` on.
    pub(crate) fn rewind(&mut self, rows: usize) {
        let end = self.rows + 1;
        self.words4.iter_mut().for_each(|column| clear(column, rows, end));
        self.words8.iter_mut().for_each(|column| clear(column, rows, end));
        self.words16.iter_mut().for_each(|column| clear(column, rows, end));
        for column in &mut self.bits {
            for row in rows..end.min(column.len() * 8) {
                write_bit(column, row, false);
            }
        }
        self.texts.iter_mut().for_each(|text| text.rewind(rows));
        self.lists.iter_mut().for_each(|list| list.rewind(rows));
        self.forget_state();
        self.rows = rows;
    }

    /// Takes back what was written to some columns of the open row.
    #[cold]
    pub(crate) fn erase(&mut self, slots: &[Slot]) {
        for slot in slots {
            match *slot {
                Slot::Word4(slot) => self.put4(slot, 0),
                Slot::Word8(slot) => self.put8(slot, 0),
                Slot::Word16(slot) => self.put16(slot, 0),
                Slot::Bit(slot) => self.put_bit(slot, false),
                Slot::Text(slot) => self.texts.get_mut(slot).into_iter().for_each(Text::erase),
                Slot::List(slot) => self.lists.get_mut(slot).into_iter().for_each(List::erase),
                Slot::Moment(slot) => self.put_moment(slot, Moment::default()),
                Slot::Oneof(slot) => self.oneofs.get_mut(slot).into_iter().for_each(|member| *member = 0),
                Slot::Raw(slot) => {
                    if let Some(raw) = self.raws.get_mut(slot) {
                        raw.bytes.clear();
                        raw.seen = false;
                    }
                }
            }
        }
    }

    /// Keeps, of the closed rows from `start` on, those of `order`, in that order.
    #[cold]
    fn gather(&mut self, start: usize, order: &[usize]) -> Outcome {
        let end = self.rows;
        self.words4.iter_mut().for_each(|column| gather(column, start, end, order));
        self.words8.iter_mut().for_each(|column| gather(column, start, end, order));
        self.words16.iter_mut().for_each(|column| gather(column, start, end, order));
        for column in &mut self.bits {
            let kept: Vec<bool> = order.iter().map(|&row| is_set(column, row)).collect();
            for row in start..end {
                write_bit(column, row, kept.get(row - start).copied().unwrap_or(false));
            }
        }
        for text in &mut self.texts {
            text.gather(start, order)?;
        }
        for list in &mut self.lists {
            list.gather(start, order)?;
        }
        self.rows = start + order.len();
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn put4(&mut self, slot: usize, value: i32) {
        if let Some(cell) = self.words4.get_mut(slot).and_then(|column| column.get_mut(self.rows)) {
            *cell = value;
        }
    }

    #[inline(always)]
    pub(crate) fn put8(&mut self, slot: usize, value: i64) {
        if let Some(cell) = self.words8.get_mut(slot).and_then(|column| column.get_mut(self.rows)) {
            *cell = value;
        }
    }

    #[inline(always)]
    pub(crate) fn put16(&mut self, slot: usize, value: i128) {
        if let Some(cell) = self.words16.get_mut(slot).and_then(|column| column.get_mut(self.rows)) {
            *cell = value;
        }
    }

    #[inline(always)]
    pub(crate) fn put_bit(&mut self, slot: usize, value: bool) {
        if let Some(column) = self.bits.get_mut(slot) {
            write_bit(column, self.rows, value);
        }
    }

    /// Whether a bit of the open row is set.
    pub(crate) fn bit(&self, slot: usize) -> bool {
        self.bits.get(slot).is_some_and(|column| is_set(column, self.rows))
    }

    /// A text of the last closed row, where its validity bit is set or there is none.
    pub(crate) fn last_text(&self, slot: usize, valid: Option<usize>) -> Option<&[u8]> {
        let row = self.rows.checked_sub(1)?;
        let is_valid = valid.is_none_or(|bit| self.bits.get(bit).is_some_and(|column| is_set(column, row)));
        self.texts.get(slot).filter(|_| is_valid).map(|text| text.row(row))
    }

    #[inline(always)]
    pub(crate) fn moment(&self, slot: usize) -> Moment {
        self.moments.get(slot).copied().unwrap_or_default()
    }

    #[inline(always)]
    pub(crate) fn put_moment(&mut self, slot: usize, moment: Moment) {
        if let Some(cell) = self.moments.get_mut(slot) {
            *cell = moment;
        }
    }

    /// Adds an occurrence of a message that becomes JSON.
    pub(crate) fn put_raw(&mut self, slot: usize, bytes: &[u8]) -> Outcome {
        if let Some(raw) = self.raws.get_mut(slot) {
            raw.source.writer.check(bytes)?;
            raw.bytes.extend_from_slice(bytes);
            raw.seen = true;
        }
        Ok(())
    }

    /// Bytes that the closed rows take, near enough.
    pub(crate) fn bytes(&self) -> usize {
        let texts: usize = self.texts.iter().map(Text::bytes).sum();
        let lists: usize = self.lists.iter().map(|list| list.elements.bytes()).sum();
        self.rows * self.width + texts + lists
    }

    /// Bytes of a closed row, near enough, but for one of its lists.
    pub(crate) fn row_bytes(&self, row: usize, without: usize) -> usize {
        let texts: usize = self.texts.iter().map(|text| text.row(row).len()).sum();
        let lists = self.lists.iter().enumerate().filter(|(place, _)| *place != without).map(|(_, list)| {
            let elements = list.bounds(row);
            elements.map(|element| list.elements.row_bytes(element, usize::MAX)).sum::<usize>()
        });
        self.width + texts + lists.sum::<usize>()
    }

    /// Starts anew, with room for as many rows as there were. The fixed-width columns come back cut to their rows; texts
    /// and lists are to be taken first.
    pub(crate) fn reset(&mut self) {
        self.room = self.rows.next_multiple_of(ROOM_MIN);
        self.rows = 0;
        self.resize();
    }

    /// The bits of the closed rows.
    pub(crate) fn bits(&self, slot: usize) -> Vec<u8> {
        let bytes = self.rows.div_ceil(8);
        self.bits.get(slot).and_then(|column| column.get(..bytes)).map_or_else(|| vec![0; bytes], <[u8]>::to_vec)
    }

    /// Forgets the bits; they were copied by [`Level::bits`], since several columns may share them.
    pub(crate) fn clear_bits(&mut self) {
        self.bits.iter_mut().for_each(Vec::clear);
    }
}

impl List {
    /// The elements of a closed row.
    fn bounds(&self, row: usize) -> std::ops::Range<usize> {
        match (self.offsets.get(row), self.offsets.get(row + 1)) {
            (Some(&from), Some(&to)) => from as usize..to as usize,
            _ => 0..0,
        }
    }

    /// How many elements a closed row has.
    pub(crate) fn length(&self, row: usize) -> usize {
        self.bounds(row).len()
    }

    fn start(&self) -> usize {
        self.offsets.last().map_or(0, |&end| end as usize)
    }

    /// How many elements the open row has so far.
    #[cold]
    pub(crate) fn position(&self) -> usize {
        self.elements.rows.saturating_sub(self.start())
    }

    #[inline(always)]
    fn close_row(&mut self) -> Outcome {
        if let Some(key) = self.key
            && self.position_is_several()
        {
            self.merge_entries(key)?;
        }
        // `make_room` keeps row numbers in 31 bits.
        self.offsets.push(self.elements.rows as i32);
        Ok(())
    }

    fn position_is_several(&self) -> bool {
        self.elements.rows > self.start() + 1
    }

    /// Leaves one entry a key: the last one's value at the first one's place.
    fn merge_entries(&mut self, key: Slot) -> Outcome {
        let (start, end) = (self.start(), self.elements.rows);
        // Most maps are small, and their keys differ: seen without allocating.
        if end - start <= 8 {
            let distinct = (start..end).all(|row| {
                let this = self.elements.key(key, row);
                (start..row).all(|earlier| self.elements.key(key, earlier) != this)
            });
            if distinct {
                return Ok(());
            }
        }
        let mut places: HashMap<Key<'_>, usize> = HashMap::with_capacity(end - start);
        let mut order: Vec<usize> = Vec::with_capacity(end - start);
        for row in start..end {
            let place = *places.entry(self.elements.key(key, row)).or_insert(order.len());
            match order.get_mut(place) {
                Some(earlier) => *earlier = row,
                None => order.push(row),
            }
        }
        if order.len() < end - start {
            drop(places);
            self.elements.gather(start, &order)?;
        }
        Ok(())
    }

    fn erase(&mut self) {
        let start = self.start();
        self.elements.rewind(start);
    }

    fn rewind(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.erase();
    }

    fn gather(&mut self, start: usize, order: &[usize]) -> Outcome {
        let ranges: Vec<_> = order.iter().map(|&row| self.bounds(row)).collect();
        let elements: Vec<usize> = ranges.iter().cloned().flatten().collect();
        let first = self.offsets.get(start).map_or(0, |&at| at as usize);
        self.elements.gather(first, &elements)?;
        self.offsets.truncate(start + 1);
        let mut end = first;
        for range in ranges {
            end += range.len();
            self.offsets.push(end as i32);
        }
        Ok(())
    }

    /// The offsets of the closed rows; the list is empty afterwards, its elements are to be taken by themselves.
    pub(crate) fn take_offsets(&mut self) -> Vec<i32> {
        let room = self.offsets.len();
        let offsets = std::mem::replace(&mut self.offsets, Vec::with_capacity(room));
        self.offsets.push(0);
        offsets
    }
}

/// A map key; booleans are 0 and 1.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Number(i128),
    Text(&'a [u8]),
}

impl Level {
    fn key(&self, slot: Slot, row: usize) -> Key<'_> {
        fn cell<T: Copy + Into<i128>>(columns: &[Vec<T>], slot: usize, row: usize) -> Key<'_> {
            let value = columns.get(slot).and_then(|column| column.get(row));
            Key::Number(value.map_or(0, |value| (*value).into()))
        }
        match slot {
            Slot::Word4(slot) => cell(&self.words4, slot, row),
            Slot::Word8(slot) => cell(&self.words8, slot, row),
            Slot::Word16(slot) => cell(&self.words16, slot, row),
            Slot::Bit(slot) => Key::Number(self.bits.get(slot).is_some_and(|column| is_set(column, row)).into()),
            Slot::Text(slot) => Key::Text(self.texts.get(slot).map_or(&[], |text| text.row(row))),
            // Protobuf has no other keys.
            Slot::List(_) | Slot::Moment(_) | Slot::Oneof(_) | Slot::Raw(_) => Key::Text(&[]),
        }
    }
}

fn clear<T: Copy + Default>(column: &mut [T], from: usize, to: usize) {
    let to = to.min(column.len());
    if let Some(cells) = column.get_mut(from..to) {
        cells.fill(T::default());
    }
}

fn gather<T: Copy + Default>(column: &mut [T], start: usize, end: usize, order: &[usize]) {
    let kept: Vec<T> = order.iter().map(|&row| column.get(row).copied().unwrap_or_default()).collect();
    clear(column, start, end);
    if let Some(cells) = column.get_mut(start..start + kept.len()) {
        cells.copy_from_slice(&kept);
    }
}

#[inline(always)]
fn is_set(column: &[u8], row: usize) -> bool {
    column.get(row >> 3).is_some_and(|byte| byte >> (row & 7) & 1 == 1)
}

#[inline(always)]
fn write_bit(column: &mut [u8], row: usize, value: bool) {
    if let Some(byte) = column.get_mut(row >> 3) {
        let mask = 1_u8 << (row & 7);
        *byte = if value { *byte | mask } else { *byte & !mask };
    }
}

//! Avro's binary encoding: zig-zag varints, floats, lengths and blocks. Source of the format: the Apache Avro 1.12
//! specification, "Binary Encoding".

use super::resolve::Length;
use crate::Class;
use crate::rows::level::charge;
use crate::rows::stop::{Outcome, Stop};
use crate::varint;

/// What is skipped or becomes JSON nests this deep; columns end long before.
pub(super) const DEPTH_MAX: usize = 100;

/// How many elements without bytes one record may have: they cost nothing to send.
const EMPTY_MAX: u64 = 1 << 16;

/// Reads values from `buf[at..end]`. The buffer may go on after `end`, which lets short reads and copies be done in whole
/// words.
pub(super) struct Reader<'a> {
    buf: &'a [u8],
    at: usize,
    end: usize,
    /// Elements without bytes so far.
    empty: u64,
    /// Bytes of columns opened so far for this record.
    pub(super) opened: usize,
    /// What the reader's schema does not know: the place of each in the program, and its text.
    pub(super) foreign: Vec<(usize, String)>,
    /// Whether a field was passed over that the reader's schema does not know.
    pub(super) ignored: bool,
}

/// A block of elements, and where it ends if it says so.
pub(super) struct Block {
    pub(super) count: u64,
    pub(super) end: Option<usize>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(buf: &'a [u8], end: usize) -> Self {
        Self { buf, at: 0, end: end.min(buf.len()), empty: 0, opened: 0, foreign: Vec::new(), ignored: false }
    }

    pub(super) const fn buf(&self) -> &'a [u8] {
        self.buf
    }

    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// Goes back to a position that [`Reader::at`] gave.
    pub(super) const fn seek(&mut self, at: usize) {
        self.at = at;
    }

    /// Charges bytes that take memory and were never sent.
    pub(super) fn open(&mut self, bytes: usize) -> Outcome {
        charge(&mut self.opened, bytes)
    }

    #[inline(always)]
    const fn left(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    /// Refuses bytes behind the record.
    #[inline]
    pub(super) fn finish(&self) -> Outcome {
        match self.left() {
            0 => Ok(()),
            left => Err(Stop::new(Class::TrailingBytes, format!("{left} bytes are left over behind the record"))),
        }
    }

    #[inline(always)]
    fn varint(&mut self) -> Outcome<u64> {
        match self.buf.get(self.at) {
            Some(&byte) if byte < 0x80 && self.at < self.end => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.varint_of_several_bytes(),
        }
    }

    #[inline]
    fn varint_of_several_bytes(&mut self) -> Outcome<u64> {
        if let Some((value, length)) = self.buf.get(self.at..).and_then(|rest| rest.first_chunk()).and_then(varint::of)
        {
            self.at += length;
            return if self.at <= self.end { Ok(value) } else { Err(Stop::truncated()) };
        }
        let window = self.buf.get(self.at..self.end).unwrap_or_default();
        match varint::bytewise(window) {
            Some(Ok((value, length))) => {
                self.at += length;
                Ok(value)
            }
            Some(Err(varint::TooLong)) => {
                Err(Stop::new(Class::WrongType, "a number is longer than 64 bits: these are not the schema's bytes"))
            }
            None => Err(Stop::truncated()),
        }
    }

    #[inline(always)]
    pub(super) fn long(&mut self) -> Outcome<i64> {
        let zigzag = self.varint()?;
        Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    #[inline(always)]
    pub(super) fn int(&mut self) -> Outcome<i64> {
        let number = self.long()?;
        if number == i64::from(number as i32) { Ok(number) } else { Err(Self::beyond_int()) }
    }

    #[cold]
    fn beyond_int() -> Box<Stop> {
        Stop::new(Class::WrongType, "an int is longer than 32 bits: these are not the schema's bytes")
    }

    #[inline(always)]
    pub(super) fn boolean(&mut self) -> Outcome<bool> {
        match self.buf.get(self.at) {
            Some(&byte) if byte < 2 && self.at < self.end => {
                self.at += 1;
                Ok(byte == 1)
            }
            Some(_) if self.at < self.end => {
                Err(Stop::new(Class::WrongType, "a boolean is neither 0 nor 1: these are not the schema's bytes"))
            }
            _ => Err(Stop::truncated()),
        }
    }

    #[inline(always)]
    pub(super) fn word4(&mut self) -> Outcome<u32> {
        match self.buf.get(self.at..).and_then(|rest| rest.first_chunk::<4>()) {
            Some(bytes) if self.left() >= 4 => {
                self.at += 4;
                Ok(u32::from_le_bytes(*bytes))
            }
            _ => Err(Stop::truncated()),
        }
    }

    #[inline(always)]
    pub(super) fn word8(&mut self) -> Outcome<u64> {
        match self.buf.get(self.at..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(bytes) if self.left() >= 8 => {
                self.at += 8;
                Ok(u64::from_le_bytes(*bytes))
            }
            _ => Err(Stop::truncated()),
        }
    }

    /// Passes over bytes; where they begin.
    #[inline(always)]
    pub(super) fn pass(&mut self, length: usize) -> Outcome<usize> {
        if length > self.left() {
            return Err(Stop::truncated());
        }
        let at = self.at;
        self.at += length;
        Ok(at)
    }

    /// Position and length of a string or of bytes, which are consumed.
    #[inline(always)]
    pub(super) fn span(&mut self, length: Length) -> Outcome<(usize, usize)> {
        let length = match length {
            Length::Fixed(length) => length,
            Length::Prefixed => {
                let length = self.long()?;
                if length < 0 {
                    return Err(Self::negative());
                }
                usize::try_from(length).unwrap_or(usize::MAX)
            }
        };
        Ok((self.pass(length)?, length))
    }

    #[cold]
    fn negative() -> Box<Stop> {
        Stop::new(Class::WrongType, "a length is negative: these are not the schema's bytes")
    }

    /// A string's or bytes' content.
    #[inline]
    pub(super) fn bytes(&mut self, length: Length) -> Outcome<&'a [u8]> {
        let (at, length) = self.span(length)?;
        self.buf.get(at..at + length).ok_or_else(Stop::truncated)
    }

    /// The number of a union's branch or of an enum's symbol.
    #[inline(always)]
    pub(super) fn choice(&mut self) -> Outcome<usize> {
        // A negative number is no smaller than any count.
        Ok(self.long()? as usize)
    }

    #[cold]
    pub(super) fn no_such(what: &str, number: usize, of: usize) -> Box<Stop> {
        let number = number as i64;
        let message = format!("there is no {what} {number} among {of}: these are not the schema's bytes");
        Stop::new(Class::WrongType, message)
    }

    /// The next block of an array or map whose elements take `least` bytes each at least; none behind the last.
    #[inline]
    pub(super) fn block(&mut self, least: usize) -> Outcome<Option<Block>> {
        let count = self.long()?;
        if count == 0 {
            return Ok(None);
        }
        let end = if count < 0 {
            let size = self.long()?;
            let size = usize::try_from(size).map_err(|_| Self::negative())?;
            if size > self.left() {
                return Err(Stop::truncated());
            }
            Some(self.at + size)
        } else {
            None
        };
        let count = count.unsigned_abs();
        let room = end.map_or(self.left(), |end| end - self.at) as u64;
        if least == 0 {
            self.empty = self.empty.saturating_add(count);
            if self.empty > EMPTY_MAX {
                let message = format!("the record has more than {EMPTY_MAX} elements that take no bytes");
                return Err(Stop::new(Class::TooLarge, message));
            }
        } else if count > room / least as u64 {
            return Err(Stop::truncated());
        }
        Ok(Some(Block { count, end }))
    }

    /// Refuses a block that did not end where it said.
    #[inline]
    pub(super) fn end(&self, block: &Block) -> Outcome {
        if block.end.is_none_or(|end| end == self.at) {
            return Ok(());
        }
        Err(Stop::new(Class::WrongType, "a block is not as long as it says: these are not the schema's bytes"))
    }
}

/// Refuses a value that is `depth` levels below the outermost one, if that is too deep.
#[inline]
pub(super) fn check_depth(depth: usize) -> Outcome {
    if depth > DEPTH_MAX {
        return Err(Stop::new(Class::TooDeep, format!("records nest more than {DEPTH_MAX} deep")));
    }
    Ok(())
}

//! Strings.

use std::borrow::Cow;

use super::Reader;
use crate::Class;
use crate::rows::stop::{Outcome, Stop};
use crate::rows::text::check_utf8;

/// A string that was read.
#[derive(Clone, Copy)]
pub(in crate::json) struct Text {
    at: usize,
    length: usize,
    /// Whether it is [`Reader::unescaped`], and not in the buffer.
    escaped: bool,
}

const fn every(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

const HIGH: u64 = every(0x80);

/// Marks the bytes of a word that end a run of plain characters: quotes, backslashes and control characters. The first
/// mark is right; those behind it may be borrowed.
#[inline(always)]
const fn ends(word: u64) -> u64 {
    let quote = word ^ every(b'"');
    let backslash = word ^ every(b'\\');
    let quote = quote.wrapping_sub(every(1)) & !quote;
    let backslash = backslash.wrapping_sub(every(1)) & !backslash;
    let control = word.wrapping_sub(every(0x20)) & !word;
    (quote | backslash | control) & HIGH
}

impl<'a> Reader<'a> {
    /// A string's content.
    #[inline]
    pub(in crate::json) fn content(&self, text: Text) -> &[u8] {
        if text.escaped { &self.unescaped } else { self.written(text.at, text.at + text.length) }
    }

    /// Where a string's content is in a buffer that may go on behind it: the buffer, the position and the length.
    #[inline(always)]
    pub(in crate::json) fn place(&self, text: Text) -> (&[u8], usize, usize) {
        if text.escaped { (&self.unescaped, 0, self.unescaped.len()) } else { (self.buf, text.at, text.length) }
    }

    /// A string as it is spelled, with its escapes.
    #[cold]
    pub(in crate::json) fn spelled(&self, text: Text) -> Cow<'a, str> {
        String::from_utf8_lossy(self.written(text.at, text.at + text.length))
    }

    /// A name, which was read as UTF-8.
    pub(in crate::json) fn name(&self, text: Text) -> Cow<'a, str> {
        match text.escaped {
            true => Cow::Owned(String::from_utf8_lossy(&self.unescaped).into_owned()),
            false => self.spelled(text),
        }
    }

    /// A string, of whose quotes the first is next.
    #[inline(always)]
    pub(in crate::json) fn text(&mut self) -> Outcome<Text> {
        let start = self.at + 1;
        let (mut at, mut high) = (start, 0);
        while let Some(chunk) = self.buf.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            let word = u64::from_le_bytes(*chunk);
            let ends = ends(word);
            if ends != 0 {
                let plain = ends.trailing_zeros() & !7;
                high |= word & ((1 << plain) - 1);
                at += plain as usize >> 3;
                break;
            }
            high |= word;
            at += 8;
        }
        if let Some(b'"') = self.buf.get(at)
            && at < self.end
        {
            let text = Text { at: start, length: at - start, escaped: false };
            if high & HIGH != 0 {
                self.check(text)?;
            }
            self.at = at + 1;
            return Ok(text);
        }
        self.text_of_any_kind(start, at)
    }

    #[inline(never)]
    fn check(&mut self, text: Text) -> Outcome {
        let checked = check_utf8(self.content(text));
        self.malformed |= checked.is_err();
        checked
    }

    /// A string that is escaped, is near the buffer's end, or is none: up to `at` its bytes are plain.
    #[inline(never)]
    fn text_of_any_kind(&mut self, start: usize, at: usize) -> Outcome<Text> {
        self.unescaped.clear();
        self.at = at.min(self.end);
        let mut from = start;
        loop {
            let found = match self.buf.get(self.at) {
                Some(byte) if self.at < self.end => *byte,
                _ => return Err(self.amiss("")),
            };
            match found {
                b'"' => break,
                b'\\' => {
                    self.unescaped.extend_from_slice(self.buf.get(from..self.at).unwrap_or_default());
                    self.escape()?;
                    from = self.at;
                }
                0..0x20 => return Err(self.amiss("control characters of a string are escaped")),
                _ => self.at += 1,
            }
        }
        let escaped = from > start;
        if escaped {
            self.unescaped.extend_from_slice(self.buf.get(from..self.at).unwrap_or_default());
        }
        let text = Text { at: start, length: self.at - start, escaped };
        self.check(text)?;
        self.at += 1;
        Ok(text)
    }

    /// An escape, of which the backslash is next.
    fn escape(&mut self) -> Outcome {
        self.at += 1;
        let byte = if self.at < self.end { self.buf.get(self.at).copied() } else { None };
        let plain = match byte {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => return self.code_point(),
            _ => return Err(self.amiss("there is no such escape")),
        };
        self.at += 1;
        self.unescaped.push(plain);
        Ok(())
    }

    /// A character by its number, of which `u` is next: of those above 16 bits as two surrogates.
    fn code_point(&mut self) -> Outcome {
        let first = self.four_digits()?;
        let number = match first {
            0xd800..0xdc00 if self.written(self.at, self.end).starts_with(b"\\u") => {
                self.at += 1;
                match self.four_digits()? {
                    second @ 0xdc00..0xe000 => 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                    _ => first,
                }
            }
            other => other,
        };
        let Some(character) = char::from_u32(number) else {
            self.malformed = true;
            return Err(Stop::new(
                Class::InvalidUtf8,
                "the string has half of a surrogate pair, which is no character",
            ));
        };
        self.unescaped.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn four_digits(&mut self) -> Outcome<u32> {
        let mut number = 0;
        for _ in 0..4 {
            self.at += 1;
            let byte = if self.at < self.end { self.buf.get(self.at) } else { None };
            let digit = byte.and_then(|byte| char::from(*byte).to_digit(16));
            number = number << 4 | digit.ok_or_else(|| self.amiss("four hexadecimal digits are expected"))?;
        }
        self.at += 1;
        Ok(number)
    }
}

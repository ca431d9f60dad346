//! JSON text, byte by byte. Source of the format: RFC 8259, whose grammar is held to throughout, also where a value is in no
//! column: what this accepts is JSON to every other reader.

mod digits;
mod text;

use std::collections::BTreeMap;

use crate::Class;
use crate::rows::level::charge;
use crate::rows::stop::{Outcome, Stop};

pub(super) use text::Text;

/// Objects and arrays nest this deep; columns end long before.
pub(super) const DEPTH_MAX: usize = 100;

/// Reads values from `buf[at..end]`. The buffer may go on after `end`, which lets short reads and copies be done in whole
/// words.
pub(super) struct Reader<'a> {
    buf: &'a [u8],
    at: usize,
    end: usize,
    /// Objects and arrays around.
    depth: usize,
    /// Bytes of columns opened so far for this record.
    pub(super) opened: usize,
    /// Whether what stopped reading was no JSON: then nothing in it counts, wherever it stands.
    pub(super) malformed: bool,
    /// The last string with an escape, without it.
    unescaped: Vec<u8>,
    /// Whether objects are looked through for later members of the same name before any is read.
    pub(super) careful: bool,
    /// Members that the schema does not know, where such are kept, by where their values begin.
    pub(super) foreign: BTreeMap<usize, Foreign>,
    /// Whether a member was passed over that the schema does not know.
    pub(super) ignored: bool,
}

/// A member that the schema does not know.
pub(super) struct Foreign {
    pub(super) path: String,
    /// Whether it is in a list or map, so that a record may have several of this path.
    pub(super) several: bool,
    /// Where its value ends.
    pub(super) end: usize,
}

/// What stands where a value begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    Object,
    Array,
    Text,
    Number,
    True,
    False,
    Null,
}

impl<'a> Reader<'a> {
    #[inline]
    pub(super) fn new(buf: &'a [u8], end: usize) -> Self {
        Self {
            buf,
            at: 0,
            end: end.min(buf.len()),
            depth: 0,
            opened: 0,
            malformed: false,
            unescaped: Vec::new(),
            careful: false,
            foreign: BTreeMap::new(),
            ignored: false,
        }
    }

    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// Goes to a position that [`Reader::at`] gave.
    pub(super) const fn seek(&mut self, at: usize) {
        self.at = at;
    }

    /// The text between two positions, which was read and so is UTF-8.
    pub(super) fn written(&self, from: usize, to: usize) -> &'a [u8] {
        self.buf.get(from..to).unwrap_or_default()
    }

    /// Passes over blanks; where what follows begins.
    pub(super) fn blanks(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// Is again in the object whose end was passed over.
    pub(super) const fn stay(&mut self) {
        self.depth += 1;
    }

    /// Leaves an object that ends there.
    pub(super) const fn leave(&mut self, end: usize) {
        self.depth = self.depth.saturating_sub(1);
        self.at = end;
    }

    /// Charges bytes that take memory and were never sent.
    pub(super) fn open(&mut self, bytes: usize) -> Outcome {
        charge(&mut self.opened, bytes)
    }

    /// What is no JSON.
    #[cold]
    #[inline(never)]
    pub(super) fn amiss(&mut self, what: &str) -> Box<Stop> {
        self.malformed = true;
        if self.at >= self.end {
            return Stop::truncated();
        }
        let found = match self.buf.get(self.at) {
            Some(byte @ b' '..=b'~') => format!("`{}`", char::from(*byte)),
            Some(byte) => format!("the byte 0x{byte:02x}"),
            None => "nothing".to_owned(),
        };
        Stop::new(Class::WrongType, format!("it is not JSON: {what}, not {found}, at byte {}", self.at))
    }

    #[cold]
    #[inline(never)]
    fn too_deep(&mut self) -> Box<Stop> {
        self.malformed = true;
        Stop::new(Class::TooDeep, format!("objects and arrays nest more than {DEPTH_MAX} deep"))
    }

    /// The next byte that is no blank.
    #[inline(always)]
    fn peek(&mut self) -> Option<u8> {
        match self.buf.get(self.at) {
            Some(&byte) if byte > b' ' && self.at < self.end => Some(byte),
            _ => self.peek_behind_blanks(),
        }
    }

    #[inline(never)]
    fn peek_behind_blanks(&mut self) -> Option<u8> {
        while self.at < self.end {
            match self.buf.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other.copied(),
            }
        }
        None
    }

    /// Whether the next byte is this one, which is passed over then.
    #[inline(always)]
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let is = self.peek() == Some(byte);
        self.at += usize::from(is);
        is
    }

    /// What the next value is, by its first byte, which is not passed over.
    #[inline(always)]
    pub(super) fn begin(&mut self) -> Outcome<Begin> {
        Ok(match self.peek() {
            Some(b'"') => Begin::Text,
            Some(b'0'..=b'9' | b'-') => Begin::Number,
            Some(b'{') => Begin::Object,
            Some(b'[') => Begin::Array,
            Some(b'n') => Begin::Null,
            Some(b't') => Begin::True,
            Some(b'f') => Begin::False,
            _ => return Err(self.no_value()),
        })
    }

    #[cold]
    #[inline(never)]
    fn no_value(&mut self) -> Box<Stop> {
        let rest = self.buf.get(self.at..self.end).unwrap_or_default();
        let is_no_number = [&b"NaN"[..], b"Inf", b"+"].iter().any(|word| rest.starts_with(word));
        self.amiss(if is_no_number { "JSON has no such number; a value is expected" } else { "a value is expected" })
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Whether an object is next.
    #[inline(always)]
    pub(super) fn is_at_object(&mut self) -> bool {
        self.peek() == Some(b'{')
    }

    /// Refuses bytes behind the value.
    #[inline]
    pub(super) fn finish(&mut self) -> Outcome {
        if self.peek().is_none() {
            return Ok(());
        }
        self.malformed = true;
        let left = self.end.saturating_sub(self.at);
        Err(Stop::new(Class::TrailingBytes, format!("{left} bytes are left over behind the object")))
    }

    /// Enters an object or array, whose first byte is next.
    #[inline(always)]
    pub(super) fn enter(&mut self) -> Outcome {
        self.at += 1;
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(self.too_deep()) } else { Ok(()) }
    }

    /// Whether another element or member follows, where `first` says whether it would be the first; behind the last the end
    /// is passed over.
    #[inline(always)]
    pub(super) fn more(&mut self, first: bool, close: u8) -> Outcome<bool> {
        match self.peek() {
            Some(b',') if !first => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                self.depth = self.depth.saturating_sub(1);
                Ok(false)
            }
            Some(_) if first => Ok(true),
            _ => Err(self.no_end(close)),
        }
    }

    #[cold]
    #[inline(never)]
    fn no_end(&mut self, close: u8) -> Box<Stop> {
        self.amiss(if close == b'}' { "`,` or `}` is expected" } else { "`,` or `]` is expected" })
    }

    /// Whether the next member has this name, whose quotes are part of it; its name and colon are passed over then.
    #[inline(always)]
    pub(super) fn takes_key(&mut self, quoted: &[u8]) -> bool {
        if self.peek() != Some(b'"') {
            return false;
        }
        let end = self.at + quoted.len();
        if end >= self.end || self.buf.get(self.at..end) != Some(quoted) {
            return false;
        }
        if self.buf.get(end) == Some(&b':') {
            self.at = end + 1;
            return true;
        }
        let before = std::mem::replace(&mut self.at, end);
        if self.take(b':') {
            return true;
        }
        self.at = before;
        false
    }

    /// A member's name and the colon behind it.
    #[inline]
    pub(super) fn key(&mut self) -> Outcome<Text> {
        if self.peek() != Some(b'"') {
            return Err(self.amiss("a member's name is expected"));
        }
        let name = self.text()?;
        if self.take(b':') { Ok(name) } else { Err(self.amiss("`:` is expected")) }
    }

    /// A word of which the first letter was seen.
    #[inline(always)]
    pub(super) fn word(&mut self, word: &'static [u8]) -> Outcome {
        let end = self.at + word.len();
        if end <= self.end && self.buf.get(self.at..end) == Some(word) {
            self.at = end;
            return Ok(());
        }
        Err(self.no_word(word))
    }

    #[cold]
    #[inline(never)]
    fn no_word(&mut self, word: &'static [u8]) -> Box<Stop> {
        let matching = word.iter().zip(self.written(self.at, self.end)).take_while(|(a, b)| a == b).count();
        self.at += matching;
        self.amiss("a word is expected to be `true`, `false` or `null`")
    }

    /// Passes over a value.
    pub(super) fn skip(&mut self) -> Outcome {
        match self.begin()? {
            Begin::Text => self.text().map(drop),
            Begin::Number => match self.short_integer() {
                Some(_) => Ok(()),
                None => self.number().map(drop),
            },
            Begin::True => self.word(b"true"),
            Begin::False => self.word(b"false"),
            Begin::Null => self.word(b"null"),
            Begin::Array => {
                self.enter()?;
                let mut first = true;
                while self.more(first, b']')? {
                    self.skip()?;
                    first = false;
                }
                Ok(())
            }
            Begin::Object => {
                self.enter()?;
                let mut first = true;
                while self.more(first, b'}')? {
                    self.key()?;
                    self.skip()?;
                    first = false;
                }
                Ok(())
            }
        }
    }
}

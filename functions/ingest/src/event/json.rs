//! JSON byte by byte, as RFC 8259 has it: no tree, no recursion, and a position for every fault.

use std::borrow::Cow;

use memchr::memchr2;

use super::Error;

/// How deep a skipped value may nest: one bit a level is kept in a word.
const DEPTH_MAX: u32 = 64;

/// A position in a body.
#[derive(Debug)]
pub(super) struct Scan<'b> {
    body: &'b [u8],
    at: usize,
}

impl<'b> Scan<'b> {
    pub(super) const fn new(body: &'b [u8]) -> Self {
        Self { body, at: 0 }
    }

    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// Moves on by bytes that the caller has looked at in [`Self::rest`].
    #[inline]
    pub(super) const fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Goes back to a position that [`Self::at`] gave.
    pub(super) const fn back_to(&mut self, at: usize) {
        self.at = at;
    }

    #[inline]
    pub(super) fn rest(&self) -> &'b [u8] {
        self.body.get(self.at..).unwrap_or_default()
    }

    pub(super) const fn fault(&self, fault: &'static str) -> Error {
        Error::NotJson { at: self.at, fault }
    }

    pub(super) const fn truncated(&self, expected: &'static str) -> Error {
        Error::Truncated { at: self.body.len(), expected }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    #[inline]
    pub(super) fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// The next byte that is not white space; it is not consumed.
    #[inline]
    pub(super) fn token(&mut self, expected: &'static str) -> Result<u8, Error> {
        self.space();
        self.peek().ok_or_else(|| self.truncated(expected))
    }

    /// Consumes the wanted byte if it comes next.
    #[inline]
    pub(super) fn eat(&mut self, wanted: u8, expected: &'static str) -> Result<bool, Error> {
        let found = self.token(expected)? == wanted;
        self.at += usize::from(found);
        Ok(found)
    }

    /// Consumes the wanted byte, which must come next.
    pub(super) fn expect(&mut self, wanted: u8, expected: &'static str, fault: &'static str) -> Result<(), Error> {
        if self.eat(wanted, expected)? { Ok(()) } else { Err(self.fault(fault)) }
    }

    /// After a member or an element: true when another one follows, false when `close` ended the object or array.
    #[inline]
    pub(super) fn more(&mut self, close: u8) -> Result<bool, Error> {
        let found = self.token("`,` or the closing bracket")?;
        if found == b',' || found == close {
            self.at += 1;
            Ok(found == b',')
        } else {
            Err(self.fault("`,` or the closing bracket is missing"))
        }
    }

    /// Consumes `null` if it comes next.
    #[inline]
    pub(super) fn null(&mut self) -> Result<bool, Error> {
        if self.token("a value")? != b'n' {
            return Ok(false);
        }
        self.word(b"null").map(|()| true)
    }

    fn word(&mut self, word: &'static [u8]) -> Result<(), Error> {
        let rest = self.rest();
        if rest.starts_with(word) {
            self.at += word.len();
            Ok(())
        } else if rest.len() < word.len() && word.starts_with(rest) {
            Err(self.truncated("the rest of a word"))
        } else {
            Err(self.fault("this is no JSON value"))
        }
    }

    /// Nothing but white space may be left.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        self.space();
        if self.at == self.body.len() { Ok(()) } else { Err(self.fault("there is something after the event's end")) }
    }

    /// A member's name and its colon.
    pub(super) fn name(&mut self) -> Result<Cow<'b, str>, Error> {
        if self.token("a member's name")? != b'"' {
            return Err(self.fault("a member's name is missing"));
        }
        let name = self.string()?;
        self.expect(b':', "`:`", "`:` is missing")?;
        Ok(name)
    }

    /// A string; the next byte must be its opening quote. Borrowed when it has no escapes.
    pub(super) fn string(&mut self) -> Result<Cow<'b, str>, Error> {
        self.at += 1;
        let mut owned: Option<String> = None;
        loop {
            let rest = self.rest();
            let Some(end) = memchr2(b'"', b'\\', rest) else { return Err(self.truncated("the end of a string")) };
            let (plain, tail) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            if let Some(bad) = plain.iter().position(|&b| b < 0x20) {
                self.at += bad;
                return Err(self.fault("a control character in a string is not escaped"));
            }
            let plain = match std::str::from_utf8(plain) {
                Ok(text) => text,
                Err(e) => {
                    self.at += e.valid_up_to();
                    return Err(self.fault("a string is not valid UTF-8"));
                }
            };
            self.at += end + 1;
            if tail.first() == Some(&b'"') {
                return Ok(match owned {
                    None => Cow::Borrowed(plain),
                    Some(text) => Cow::Owned(text + plain),
                });
            }
            let text = owned.get_or_insert_default();
            text.push_str(plain);
            text.push(self.escape()?);
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<char, Error> {
        let Some(letter) = self.peek() else { return Err(self.truncated("the rest of an escape")) };
        self.at += 1;
        Ok(match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let start = self.at;
                let lone = Error::NotJson { at: start, fault: "half of a surrogate pair stands alone" };
                let unit = self.hex()?;
                let code = match unit {
                    0xd800..=0xdbff => {
                        if !self.rest().starts_with(b"\\u") {
                            let cut = b"\\u".starts_with(self.rest());
                            return Err(if cut { self.truncated("the rest of a string") } else { lone });
                        }
                        self.at += 2;
                        let low = self.hex()?;
                        if !(0xdc00..=0xdfff).contains(&low) {
                            return Err(lone);
                        }
                        0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
                    }
                    unit => unit,
                };
                char::from_u32(code).ok_or(lone)?
            }
            _ => {
                self.at -= 1;
                return Err(self.fault("an escape is not one of JSON's"));
            }
        })
    }

    fn hex(&mut self) -> Result<u32, Error> {
        let mut unit = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek() else { return Err(self.truncated("the rest of an escape")) };
            let Some(digit) = char::from(digit).to_digit(16) else {
                return Err(self.fault("`\\u` needs four hexadecimal digits"));
            };
            unit = unit * 16 + digit;
            self.at += 1;
        }
        Ok(unit)
    }

    /// A whole number in the range of `i64`, written without fraction or exponent.
    #[inline]
    pub(super) fn integer(&mut self) -> Result<i64, Error> {
        let start = self.at;
        let whole = |at| Error::Malformed { at, fault: Cow::Borrowed("a whole number of 64 bits is expected") };
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(negative);
        // Counted downwards, because the lowest number has no positive counterpart.
        let mut number: i64 = 0;
        let first = self.at;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            number = number
                .checked_mul(10)
                .and_then(|n| n.checked_sub(i64::from(digit - b'0')))
                .ok_or_else(|| whole(start))?;
            self.at += 1;
        }
        match self.peek() {
            None => return Err(self.truncated("the rest of a number")),
            Some(b'.' | b'e' | b'E') => return Err(whole(start)),
            Some(_) if self.at == first => return Err(whole(start)),
            Some(_) => {}
        }
        if self.at > first + 1 && self.body.get(first) == Some(&b'0') {
            return Err(Error::NotJson { at: first, fault: "a number has a leading zero" });
        }
        if negative { Ok(number) } else { number.checked_neg().ok_or_else(|| whole(start)) }
    }

    /// Any number, unread.
    fn number(&mut self) -> Result<(), Error> {
        self.at += usize::from(self.peek() == Some(b'-'));
        let leading_zero = self.peek() == Some(b'0');
        let whole = self.digits()?;
        if leading_zero && whole > 1 {
            return Err(self.fault("a number has a leading zero"));
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<usize, Error> {
        let count = self.rest().iter().take_while(|b| b.is_ascii_digit()).count();
        self.at += count;
        match (count, self.peek()) {
            (0, None) => Err(self.truncated("the rest of a number")),
            (0, Some(_)) => Err(self.fault("a digit is missing")),
            (count, _) => Ok(count),
        }
    }

    /// Any value, unread but checked.
    pub(super) fn skip(&mut self) -> Result<(), Error> {
        // The lowest bit is the innermost open level: 1 for an object, 0 for an array.
        let mut objects: u64 = 0;
        let mut depth = 0;
        loop {
            match self.token("a value")? {
                open @ (b'{' | b'[') => {
                    self.at += 1;
                    let object = open == b'{';
                    if !self.eat(if object { b'}' } else { b']' }, "the rest of an object or array")? {
                        if depth == DEPTH_MAX {
                            return Err(Error::Malformed {
                                at: self.at,
                                fault: Cow::Borrowed("a value nests more than 64 deep"),
                            });
                        }
                        depth += 1;
                        objects = objects << 1 | u64::from(object);
                        if object {
                            self.name()?;
                        }
                        continue;
                    }
                }
                b'"' => drop(self.string()?),
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                b'-' | b'0'..=b'9' => self.number()?,
                _ => return Err(self.fault("this is no JSON value")),
            }
            loop {
                if depth == 0 {
                    return Ok(());
                }
                let object = objects & 1 == 1;
                if self.more(if object { b'}' } else { b']' })? {
                    if object {
                        self.name()?;
                    }
                    break;
                }
                depth -= 1;
                objects >>= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whole_numbers_are_read_as_the_standard_library_reads_them(number in any::<i64>(), digits in "-?[0-9]{1,21}") {
            for text in [number.to_string(), (number >> 20).to_string(), (number >> 40).to_string(), digits] {
                let body = format!("{text},");
                let plain = text.trim_start_matches('-');
                let expected = text.parse::<i64>().ok().filter(|_| plain == "0" || !plain.starts_with('0'));
                prop_assert_eq!(Scan::new(body.as_bytes()).integer().ok(), expected, "{}", text);
            }
        }
    }
}

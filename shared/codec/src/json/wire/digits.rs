//! Numbers, which are left as they are written unless they are short.

use super::Reader;
use crate::rows::stop::Outcome;

impl<'a> Reader<'a> {
    /// A whole number of at most 18 digits without a point or an exponent, if that is what is next.
    #[inline(always)]
    pub(in crate::json) fn short_integer(&mut self) -> Option<i64> {
        let negative = self.buf.get(self.at) == Some(&b'-');
        let first = self.at + usize::from(negative);
        let (mut at, mut number) = (first, 0_i64);
        while let Some(digit) = self.buf.get(at).map(|byte| byte.wrapping_sub(b'0'))
            && digit < 10
        {
            if at - first == 18 {
                return None;
            }
            number = number * 10 + i64::from(digit);
            at += 1;
        }
        let is_padded = at - first > 1 && self.buf.get(first) == Some(&b'0');
        // Behind the end there may be digits that are not the payload's.
        if at == first || at >= self.end || is_padded || matches!(self.buf.get(at), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        self.at = at;
        Some(if negative { -number } else { number })
    }

    /// The text of a number, of which the first character is next.
    #[inline]
    pub(in crate::json) fn number(&mut self) -> Outcome<&'a [u8]> {
        let start = self.at;
        if self.digit_or(b'-') == Some(b'-') {
            self.at += 1;
        }
        match self.digit_or(b'0') {
            Some(b'0') => self.at += 1,
            Some(_) => self.digits(),
            None => return Err(self.amiss("a digit is expected")),
        }
        if self.digit_or(b'.') == Some(b'.') {
            self.at += 1;
            if self.digit_or(b'0').is_none() {
                return Err(self.amiss("a digit is expected behind the point"));
            }
            self.digits();
        }
        if self.digit_or(b'e').or_else(|| self.digit_or(b'E')).is_some_and(|byte| byte.is_ascii_alphabetic()) {
            self.at += 1;
            if self.digit_or(b'+').or_else(|| self.digit_or(b'-')).is_some_and(|byte| !byte.is_ascii_digit()) {
                self.at += 1;
            }
            if self.digit_or(b'0').is_none() {
                return Err(self.amiss("a digit is expected in the exponent"));
            }
            self.digits();
        }
        Ok(self.written(start, self.at))
    }

    /// The next byte where it is a digit or this one.
    #[inline(always)]
    fn digit_or(&self, other: u8) -> Option<u8> {
        let byte = self.buf.get(self.at).copied().filter(|_| self.at < self.end)?;
        (byte.is_ascii_digit() || byte == other).then_some(byte)
    }

    fn digits(&mut self) {
        while self.digit_or(b'0').is_some() {
            self.at += 1;
        }
    }
}

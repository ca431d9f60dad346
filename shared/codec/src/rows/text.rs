//! A column of strings or bytes in the making.

use super::stop::{Outcome, Stop};
use crate::Class;

/// Short values are copied as one block of this size, which costs less than asking how long they are; what lies behind
/// the value is overwritten by the next one.
pub(crate) const BLOCK: usize = 32;

/// Arrow's 32-bit offsets end a block behind this, so that a block that is copied where there is room never passes them.
const BYTES_MAX: usize = i32::MAX as usize - BLOCK;

/// The bytes of closed rows, and of one open row that may still be replaced: writing always starts at `start`, so the
/// last writer of a row wins.
pub(crate) struct Text {
    /// Longer than what is used, by at least a block once anything was written, and at most `bytes_max` and a block.
    data: Vec<u8>,
    bytes_max: usize,
    /// Where the open row starts.
    start: usize,
    /// Where the open row ends.
    used: usize,
    offsets: Vec<i32>,
    /// What an open row that was not written holds.
    default: Option<Default>,
}

/// The default of a column whose values are never empty: an enum's name, a number as text.
#[derive(Clone)]
pub(crate) struct Default {
    pub(crate) bytes: Vec<u8>,
    /// The validity bit that must be set for the default to apply; none where every row has a value.
    pub(crate) within: Option<usize>,
}

impl Text {
    pub(crate) fn new(default: Option<Default>) -> Self {
        Self { data: Vec::new(), bytes_max: BYTES_MAX, start: 0, used: 0, offsets: vec![0], default }
    }

    /// Sets the open row to `source[at..at + length]`.
    #[inline(always)]
    pub(crate) fn put(&mut self, source: &[u8], at: usize, length: usize) -> Outcome {
        if length <= BLOCK
            && let Some(from) = source.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>())
            && let Some(to) = self.data.get_mut(self.start..).and_then(|rest| rest.first_chunk_mut::<BLOCK>())
        {
            *to = *from;
            self.used = self.start + length;
            return Ok(());
        }
        self.put_any(source.get(at..at + length).ok_or_else(Stop::truncated)?)
    }

    /// [`Text::put`] of a string, which must be UTF-8.
    #[inline(always)]
    pub(crate) fn put_utf8(&mut self, source: &[u8], at: usize, length: usize) -> Outcome {
        let value = source.get(at..at + length).ok_or_else(Stop::truncated)?;
        check_utf8(value)?;
        self.put(source, at, length)
    }

    #[inline(never)]
    pub(crate) fn put_any(&mut self, value: &[u8]) -> Outcome {
        let end = self.start.saturating_add(value.len());
        if end > self.bytes_max {
            return Err(Stop::new(Class::TooLarge, "a column of one batch holds at most 2 GiB"));
        }
        if self.data.len() < end + BLOCK {
            let doubled = self.data.len().saturating_mul(2).max(1024).min(self.bytes_max + BLOCK);
            self.data.resize(doubled.max(end + BLOCK), 0);
        }
        if let Some(to) = self.data.get_mut(self.start..end) {
            to.copy_from_slice(value);
        }
        self.used = end;
        Ok(())
    }

    /// Forgets what was written to the open row.
    pub(crate) fn erase(&mut self) {
        self.used = self.start;
    }

    /// Closes the open row. `valid` answers whether a validity bit is set in it.
    #[inline(always)]
    pub(crate) fn close_row(&mut self, valid: impl Fn(usize) -> bool) -> Outcome {
        if self.used == self.start && self.default.is_some() {
            self.put_default(valid)?;
        }
        self.start = self.used;
        // Never past what `put_any` makes room for, which 31 bits hold.
        self.offsets.push(self.used as i32);
        Ok(())
    }

    #[inline(never)]
    fn put_default(&mut self, valid: impl Fn(usize) -> bool) -> Outcome {
        if let Some(default) = &self.default
            && default.within.is_none_or(valid)
        {
            let bytes = default.bytes.clone();
            self.put_any(&bytes)?;
        }
        Ok(())
    }

    /// The bytes of a closed row.
    pub(crate) fn row(&self, row: usize) -> &[u8] {
        match (self.offsets.get(row), self.offsets.get(row + 1)) {
            (Some(&from), Some(&to)) => self.data.get(from as usize..to as usize).unwrap_or(&[]),
            _ => &[],
        }
    }

    /// Puts another value in the place of the last closed row's.
    pub(crate) fn replace(&mut self, row: usize, value: &[u8]) -> Outcome {
        self.rewind(row);
        self.put_any(value)?;
        self.start = self.used;
        self.offsets.push(self.used as i32);
        Ok(())
    }

    /// Drops the closed rows from `rows` on, and the open one.
    pub(crate) fn rewind(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.start = self.offsets.last().map_or(0, |&at| at as usize);
        self.used = self.start;
    }

    /// Keeps, of the closed rows from `start` on, those of `order`, in that order.
    pub(crate) fn gather(&mut self, start: usize, order: &[usize]) -> Outcome {
        let kept: Vec<Vec<u8>> = order.iter().map(|&row| self.row(row).to_vec()).collect();
        self.rewind(start);
        for value in kept {
            self.put_any(&value)?;
            self.start = self.used;
            self.offsets.push(self.used as i32);
        }
        Ok(())
    }

    /// Bytes of closed rows.
    pub(crate) const fn bytes(&self) -> usize {
        self.start
    }

    /// Offsets and bytes of the closed rows; the column is empty afterwards and has room for as much again.
    pub(crate) fn take(&mut self) -> (Vec<i32>, Vec<u8>) {
        let room = self.offsets.len();
        let offsets = std::mem::replace(&mut self.offsets, Vec::with_capacity(room));
        self.offsets.push(0);
        let next = if self.start > 0 { vec![0; self.start + BLOCK] } else { Vec::new() };
        let mut data = std::mem::replace(&mut self.data, next);
        data.truncate(self.start);
        (self.start, self.used) = (0, 0);
        (offsets, data)
    }
}

/// Refuses bytes that are not UTF-8. Short ASCII, by far the commonest, is seen in a few instructions.
#[inline(always)]
pub(crate) fn check_utf8(value: &[u8]) -> Outcome {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let length = value.len();
    let ascii = if length > BLOCK {
        false
    } else if let (Some(first), Some(last)) = (value.first_chunk::<8>(), value.last_chunk::<8>()) {
        let mut seen = u64::from_le_bytes(*first) | u64::from_le_bytes(*last);
        if length > 16
            && let (Some((_, second)), Some((third, _))) = (
                value.first_chunk::<16>().and_then(|c| c.split_last_chunk::<8>()),
                value.last_chunk::<16>().and_then(|c| c.split_last_chunk::<8>()),
            )
        {
            seen |= u64::from_le_bytes(*second);
            seen |= third.first_chunk::<8>().map_or(HIGH, |chunk| u64::from_le_bytes(*chunk));
        }
        seen & HIGH == 0
    } else if let (Some(first), Some(last)) = (value.first_chunk::<4>(), value.last_chunk::<4>()) {
        (u32::from_le_bytes(*first) | u32::from_le_bytes(*last)) & 0x8080_8080 == 0
    } else {
        value.iter().all(|byte| *byte < 0x80)
    };
    if ascii { Ok(()) } else { check_utf8_of_any_length(value) }
}

#[inline(never)]
fn check_utf8_of_any_length(value: &[u8]) -> Outcome {
    match simdutf8::basic::from_utf8(value) {
        Ok(_) => Ok(()),
        Err(_) => Err(Stop::new(Class::InvalidUtf8, "the string is not UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf8_is_judged_at_every_length_and_position() {
        for length in 0..80 {
            let plain = vec![b'a'; length];
            assert!(check_utf8(&plain).is_ok());
            for at in 0..length {
                let mut wrong = plain.clone();
                wrong[at] = 0xc3;
                assert!(check_utf8(&wrong).is_err(), "{length} {at}");
                if at + 1 < length {
                    wrong[at + 1] = 0xa9;
                    assert!(check_utf8(&wrong).is_ok(), "{length} {at}");
                }
            }
        }
    }

    #[test]
    fn rows_are_replaced_closed_rewound_and_gathered() {
        let mut text = Text::new(None);
        let values: Vec<String> = (0..50).map(|n| "xyz".repeat(n)).collect();
        for value in &values {
            text.put(&[b'-'; 64], 0, 40).unwrap();
            text.put_utf8(value.as_bytes(), 0, value.len()).unwrap();
            text.close_row(|_| true).unwrap();
        }
        text.rewind(40);
        text.gather(38, &[39, 38, 3]).unwrap();
        let (offsets, data) = text.take();
        let rows: Vec<&[u8]> = offsets.windows(2).map(|w| &data[w[0] as usize..w[1] as usize]).collect();
        let mut expected: Vec<&[u8]> = values[..38].iter().map(String::as_bytes).collect();
        expected.extend([&values[39], &values[38], &values[3]].map(|value| value.as_bytes()));
        assert_eq!(rows, expected);
        assert_eq!(text.take(), (vec![0], vec![]));
    }

    #[test]
    fn a_column_ends_where_its_offsets_do() {
        let mut text = Text::new(None);
        text.bytes_max = 100;
        let mut rows = 0;
        let stop = loop {
            match text.put(&[b'x'; 64], 0, 30) {
                Ok(()) => text.close_row(|_| true).unwrap(),
                Err(stop) => break stop.into_rejected(),
            }
            rows += 1;
        };
        assert_eq!((rows, stop.class), (4, Class::TooLarge));
        assert_eq!(text.take().1.len(), 120);
    }

    #[test]
    fn a_default_fills_only_rows_that_are_there() {
        let mut text = Text::new(Some(Default { bytes: b"ZERO".to_vec(), within: Some(3) }));
        text.put(b"ONE", 0, 3).unwrap();
        text.close_row(|_| true).unwrap();
        text.close_row(|bit| bit == 3).unwrap();
        text.close_row(|_| false).unwrap();
        assert_eq!(text.take(), (vec![0, 3, 7, 7], b"ONEZERO".to_vec()));
    }
}

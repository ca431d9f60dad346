//! The wire format of Protocol Buffers: tags, varints, fixed-width values, lengths and groups. Source of the format:
//! protobuf.dev, "Encoding".

use super::unknown::Unknown;
use crate::Class;
use crate::rows::stop::{Outcome, Stop};
use crate::varint;

pub(crate) const VARINT: u8 = 0;
pub(crate) const FIXED64: u8 = 1;
pub(crate) const LENGTH: u8 = 2;
pub(crate) const GROUP: u8 = 3;
pub(crate) const GROUP_END: u8 = 4;
pub(crate) const FIXED32: u8 = 5;

/// Messages may nest this deep below the outermost one; protobuf's own readers draw the line at the same place.
pub(crate) const DEPTH_MAX: usize = 100;

/// What is done with a field that the schema doesn't know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    Skip,
    /// So are values of known fields in another wire type than the schema's, where `retyped` says so: what is personal in
    /// one of them can't be hashed or cut.
    Keep {
        retyped: bool,
    },
    /// It rejects the record.
    Refuse,
}

/// Reads values from `buf[at..end]`. The buffer may go on after `end`, which lets short reads and copies be done in
/// whole words.
pub(crate) struct Reader<'a> {
    buf: &'a [u8],
    at: usize,
    end: usize,
    foreign: Foreign,
    /// The fields that the schema doesn't know, where they are kept.
    pub(crate) unknown: Unknown,
    /// Bytes of columns opened so far for this record.
    pub(crate) opened: usize,
    /// Whether a field was passed over that the schema does not know.
    pub(crate) ignored: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(buf: &'a [u8], end: usize, foreign: Foreign) -> Self {
        Self { buf, at: 0, end: end.min(buf.len()), foreign, unknown: Unknown::default(), opened: 0, ignored: false }
    }

    pub(crate) const fn buf(&self) -> &'a [u8] {
        self.buf
    }

    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    pub(crate) const fn done(&self) -> bool {
        self.at >= self.end
    }

    /// Goes back to a position that [`Reader::at`] gave.
    pub(crate) const fn seek(&mut self, at: usize) {
        self.at = at;
    }

    /// Narrows to a value that ends at `end`; returns the outer end for [`Reader::widen`].
    pub(crate) const fn narrow(&mut self, end: usize) -> usize {
        std::mem::replace(&mut self.end, end)
    }

    pub(crate) const fn widen(&mut self, end: usize) {
        self.end = end;
    }

    /// The next byte if it is a whole one-byte tag; it is not consumed.
    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.buf.get(self.at).copied()
    }

    /// Consumes the byte that [`Reader::peek`] gave.
    #[inline(always)]
    pub(crate) const fn advance(&mut self) {
        self.at += 1;
    }

    /// A field number, 1 to 2^29-1, and a wire type, 0 to 5.
    #[inline]
    pub(crate) fn tag(&mut self) -> Outcome<(u32, u8)> {
        let first = self.at == 0;
        let tag = self.varint()?;
        let (number, wire) = (tag >> 3, (tag & 7) as u8);
        if number == 0 || tag > u64::from(u32::MAX) || wire > FIXED32 {
            return Err(invalid_tag(tag, first));
        }
        Ok((number as u32, wire))
    }

    #[inline(always)]
    pub(crate) fn varint(&mut self) -> Outcome<u64> {
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
        self.varint_bytewise()
    }

    /// Near the buffer's end, and for varints of nine and ten bytes.
    #[inline(never)]
    fn varint_bytewise(&mut self) -> Outcome<u64> {
        match varint::bytewise(self.buf.get(self.at..self.end).unwrap_or_default()) {
            Some(Ok((value, length))) => {
                self.at += length;
                Ok(value)
            }
            Some(Err(varint::TooLong)) => {
                Err(Stop::new(Class::WrongType, "a varint is longer than 64 bits: this is not a protobuf message"))
            }
            None => Err(Stop::truncated()),
        }
    }

    /// Where a length-delimited value ends.
    #[inline(always)]
    pub(crate) fn length(&mut self) -> Outcome<usize> {
        let length = self.varint()?;
        let left = self.end.saturating_sub(self.at);
        match usize::try_from(length) {
            Ok(length) if length <= left => Ok(self.at + length),
            _ => Err(Stop::truncated()),
        }
    }

    /// Position and length of a length-delimited value, which is consumed.
    #[inline(always)]
    pub(crate) fn span(&mut self) -> Outcome<(usize, usize)> {
        let end = self.length()?;
        let at = std::mem::replace(&mut self.at, end);
        Ok((at, end - at))
    }

    /// A length-delimited value, which is consumed.
    pub(crate) fn bytes(&mut self) -> Outcome<&'a [u8]> {
        let (at, length) = self.span()?;
        self.buf.get(at..at + length).ok_or_else(Stop::truncated)
    }

    #[inline(always)]
    pub(crate) fn fixed32(&mut self) -> Outcome<u32> {
        match self.buf.get(self.at..).and_then(|rest| rest.first_chunk::<4>()) {
            Some(bytes) if self.end - self.at >= 4 => {
                self.at += 4;
                Ok(u32::from_le_bytes(*bytes))
            }
            _ => Err(Stop::truncated()),
        }
    }

    #[inline(always)]
    pub(crate) fn fixed64(&mut self) -> Outcome<u64> {
        match word_at(self.buf, self.at) {
            Some(word) if self.end - self.at >= 8 => {
                self.at += 8;
                Ok(word)
            }
            _ => Err(Stop::truncated()),
        }
    }

    /// Passes over the value of a known field that is in no column, or whose wire type is not the schema's: protobuf
    /// treats the latter as unknown, and so does a strict reader.
    pub(crate) fn skip(&mut self, number: u32, wire: u8, depth: usize) -> Outcome {
        match wire {
            VARINT => self.varint().map(drop),
            FIXED64 => self.fixed64().map(drop),
            LENGTH => self.span().map(drop),
            FIXED32 => self.fixed32().map(drop),
            GROUP => self.group(number, depth).map(drop),
            _ => Err(Self::stray_group_end(number)),
        }
    }

    /// Passes over a value of a known field in another wire type than the schema's, which protobuf takes for an unknown one.
    /// What is in no column is not kept for that.
    #[cold]
    pub(crate) fn retyped(&mut self, start: usize, in_column: bool, number: u32, wire: u8, depth: usize) -> Outcome {
        match self.foreign {
            Foreign::Keep { retyped } if !(retyped && in_column) => self.skip(number, wire, depth),
            _ => self.unknown(start, number, wire, depth),
        }
    }

    /// Passes over a field that the schema doesn't know, whose tag begins at `start`.
    #[cold]
    pub(crate) fn unknown(&mut self, start: usize, number: u32, wire: u8, depth: usize) -> Outcome {
        if let Foreign::Keep { .. } = self.foreign {
            self.skip(number, wire, depth)?;
            return self.unknown.add(number, start..self.at);
        }
        if self.foreign == Foreign::Refuse && wire != GROUP_END {
            let message = format!("the field {number} (wire type {wire}) is not in the schema");
            return Err(Stop::new(Class::IncompatibleSchema, message));
        }
        self.ignored = true;
        self.skip(number, wire, depth)
    }

    /// The content of a group whose start has been read, without its end, which is consumed too. `depth` is how deep
    /// the message around it is.
    pub(crate) fn group(&mut self, number: u32, depth: usize) -> Outcome<&'a [u8]> {
        check_depth(depth + 1)?;
        let start = self.at;
        // Explicit rather than recursive: the bound is on nesting, not on our stack.
        let mut open = vec![number];
        while let Some(&innermost) = open.last() {
            let before = self.at;
            let (number, wire) = self.tag()?;
            match wire {
                GROUP => {
                    check_depth(depth + open.len() + 1)?;
                    open.push(number);
                }
                GROUP_END if number == innermost => {
                    open.pop();
                    if open.is_empty() {
                        return self.buf.get(start..before).ok_or_else(Stop::truncated);
                    }
                }
                _ => self.skip(number, wire, depth)?,
            }
        }
        Err(Stop::truncated())
    }

    #[cold]
    pub(crate) fn stray_group_end(number: u32) -> Box<Stop> {
        let message = format!("a group of field {number} ends that was not open: this is not a protobuf message");
        Stop::new(Class::WrongType, message)
    }
}

/// Refuses a message that is `depth` levels below the outermost one, if that is too deep.
#[inline(always)]
pub(crate) fn check_depth(depth: usize) -> Outcome {
    if depth > DEPTH_MAX {
        return Err(Stop::new(Class::TooDeep, format!("messages nest more than {DEPTH_MAX} deep")));
    }
    Ok(())
}

#[inline(always)]
fn word_at(buf: &[u8], at: usize) -> Option<u64> {
    buf.get(at..).and_then(|rest| rest.first_chunk::<8>()).map(|bytes| u64::from_le_bytes(*bytes))
}

#[cold]
fn invalid_tag(tag: u64, first: bool) -> Box<Stop> {
    // No protobuf message begins with these bytes, and two registries' framings do.
    match (first, tag) {
        (true, 0) => Stop::new(
            Class::BadFraming,
            "it begins with 00, which a bare protobuf message never does: it looks like the Confluent registry's framing",
        ),
        (true, 3) => Stop::new(
            Class::BadFraming,
            "it begins with 03, which a bare protobuf message never does: it looks like the Glue registry's framing",
        ),
        _ => {
            let (number, wire) = (tag >> 3, tag & 7);
            let message =
                format!("field number {number} with wire type {wire} can't be: this is not a protobuf message");
            Stop::new(Class::WrongType, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_every_length_are_read_with_and_without_room_behind() {
        let mut values = vec![0, 1, u64::MAX, i64::MAX as u64, 1 << 63];
        for bits in 0..64 {
            values.extend([1_u64 << bits, (1_u64 << bits).wrapping_sub(1), (1_u64 << bits) + 1]);
        }
        for value in values {
            let mut bytes = Vec::new();
            prost::encoding::encode_varint(value, &mut bytes);
            let length = bytes.len();
            for room in [0, 1, 7, 8, 20] {
                let mut padded = bytes.clone();
                padded.resize(length + room, 0xff);
                let mut reader = Reader::new(&padded, length, Foreign::Skip);
                assert_eq!(reader.varint().unwrap(), value);
                assert!(reader.done());
                for end in 0..length {
                    let stop = Reader::new(&padded, end, Foreign::Skip).varint().unwrap_err();
                    assert_eq!(stop.into_rejected().class, Class::Truncated);
                }
            }
        }
    }

    #[test]
    fn over_long_varints_are_refused() {
        let check = |bytes: &[u8], expected: Result<u64, Class>| {
            let read = Reader::new(bytes, bytes.len(), Foreign::Skip).varint();
            assert_eq!(read.map_err(|stop| stop.into_rejected().class), expected, "{bytes:x?}");
        };
        // Longer than needed is allowed; more than 64 bits is not.
        check(&[0x80, 0x80, 0x00], Ok(0));
        check(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Ok(u64::MAX));
        check(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], Err(Class::WrongType));
        check(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], Err(Class::WrongType));
    }

    #[test]
    fn tags_that_cannot_be_are_refused() {
        let check = |bytes: &[u8], expected: Result<(u32, u8), Class>| {
            let read = Reader::new(bytes, bytes.len(), Foreign::Skip).tag();
            assert_eq!(read.map_err(|stop| stop.into_rejected().class), expected, "{bytes:x?}");
        };
        check(&[0x08], Ok((1, VARINT)));
        check(&[0xfd, 0xff, 0xff, 0xff, 0x0f], Ok(((1 << 29) - 1, FIXED32)));
        check(&[0x00, 0, 0, 0, 42], Err(Class::BadFraming));
        check(&[0x03, 0], Err(Class::BadFraming));
        check(&[0x01], Err(Class::WrongType));
        check(&[0x0e], Err(Class::WrongType));
        check(&[0x0f], Err(Class::WrongType));
        check(&[0x88, 0x80, 0x80, 0x80, 0x10], Err(Class::WrongType));
    }

    #[test]
    fn groups_are_passed_over_as_a_whole() {
        let check = |bytes: &[u8], expected: Result<usize, Class>| {
            let mut reader = Reader::new(bytes, bytes.len(), Foreign::Skip);
            let (number, wire) = reader.tag().unwrap();
            let skipped = reader.skip(number, wire, 0).map(|()| reader.at());
            assert_eq!(skipped.map_err(|stop| stop.into_rejected().class), expected, "{bytes:x?}");
        };
        check(&[0x0b, 0x0c, 0xff], Ok(2));
        check(&[0x0b, 0x10, 0x01, 0x13, 0x14, 0x0c], Ok(6));
        check(&[0x0b, 0x14], Err(Class::WrongType));
        check(&[0x0b, 0x13, 0x0c, 0x14], Err(Class::WrongType));
        check(&[0x0c], Err(Class::WrongType));
        check(&[0x0b, 0x10], Err(Class::Truncated));
        let nested = |n: usize| [vec![0x0b; n], vec![0x0c; n]].concat();
        check(&nested(100), Ok(200));
        check(&nested(101), Err(Class::TooDeep));
    }
}

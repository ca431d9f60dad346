//! Which message of a `.proto` file a payload is, as framings say it.

use std::fmt;

use pipeline::resolved::Indexes;

use super::{bad, short};
use crate::Rejected;

/// How deep messages may be declared in one another. Nobody goes half as deep, and a path stays small enough to be copied
/// for every record.
const PATH_MAX: usize = 8;

/// Which message of its schema a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    /// The framing does not say: a schema that is of one thing, or the one that the pipeline names.
    Unsaid,
    /// Glue: its place among the full names of all messages of the file, nested ones and those of map entries too, sorted
    /// as Java sorts strings.
    Sorted(u32),
    /// Confluent: the places of declarations, from the file downwards.
    Declared(Path),
}

/// Places of declarations, the file's own messages first: `[1, 0]` is the first message inside the second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    depth: u8,
    at: [u16; PATH_MAX],
}

impl Path {
    /// The file's first message.
    pub const FIRST: Self = Self { depth: 1, at: [0; PATH_MAX] };

    /// A path of one to eight places.
    #[must_use]
    pub fn new(places: &[u16]) -> Option<Self> {
        let mut at = [0; PATH_MAX];
        at.get_mut(..places.len())?.copy_from_slice(places);
        let depth = u8::try_from(places.len()).ok().filter(|depth| *depth > 0)?;
        Some(Self { depth, at })
    }

    /// The places.
    #[must_use]
    pub fn places(&self) -> &[u16] {
        self.at.get(..usize::from(self.depth)).unwrap_or(&[])
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.places()).finish()
    }
}

/// Glue's number, and what follows it: an unsigned varint, although a comment of its encoder calls it zigzag.
pub(super) fn sorted(bytes: &[u8]) -> Result<(Message, &[u8]), Rejected> {
    let (number, rest) = varint(bytes)?;
    Ok((Message::Sorted(number), rest))
}

/// Confluent's path, and what follows it: how many places there are, then the places. None at all is written for `[0]`.
pub(super) fn path(bytes: &[u8], indexes: Indexes) -> Result<(Message, &[u8]), Rejected> {
    let number = |bytes| {
        let (number, rest) = varint(bytes)?;
        match indexes {
            Indexes::Plain => Ok((number, rest)),
            Indexes::Zigzag if number & 1 == 0 => Ok((number >> 1, rest)),
            Indexes::Zigzag => {
                let negative = -i64::from(number >> 1) - 1;
                Err(bad(format!(
                    "the message's path holds the negative number {negative}: was it not written as zigzag?"
                )))
            }
        }
    };
    let (depth, mut rest) = number(bytes)?;
    if depth == 0 {
        return Ok((Message::Declared(Path::FIRST), rest));
    }
    let mut at = [0; PATH_MAX];
    let Some(places) = usize::try_from(depth).ok().and_then(|depth| at.get_mut(..depth)) else {
        return Err(bad(format!("the message's path has {depth} places; at most {PATH_MAX} are read")));
    };
    for place in places {
        let (found, after) = number(rest)?;
        // Few files have as many as a thousand messages.
        *place = u16::try_from(found).map_err(|_| bad(format!("no schema has a message at place {found}")))?;
        rest = after;
    }
    // Not beyond eight, as was just seen.
    Ok((Message::Declared(Path { depth: depth as u8, at }), rest))
}

/// A varint of 32 bits.
fn varint(bytes: &[u8]) -> Result<(u32, &[u8]), Rejected> {
    let mut value = 0_u32;
    let mut rest = bytes;
    for shift in [0, 7, 14, 21, 28] {
        let Some((byte, after)) = rest.split_first() else { return Err(short("what says which message it is")) };
        rest = after;
        let bits = u32::from(byte & 0x7F);
        if shift == 28 && *byte > 0x0F {
            break;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok((value, rest));
        }
    }
    Err(bad("what says which message it is does not fit 32 bits".to_owned()))
}

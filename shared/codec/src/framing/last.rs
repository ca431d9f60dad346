//! What the last value began with. Most values of a topic begin alike, and then there is nothing to read in them again.

use super::{Message, Record, Reference};

/// The longest beginning that is kept: Glue's framing with any number, Confluent's with a path of eight places of two bytes.
const BYTES_MAX: usize = 24;

/// How values may begin.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beginning {
    length: usize,
    words: [u64; BYTES_MAX / 8],
    /// The bits that count.
    masks: [u64; BYTES_MAX / 8],
}

fn words(bytes: &[u8; BYTES_MAX]) -> [u64; BYTES_MAX / 8] {
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|at| words.get(at).copied().map_or(0, u64::from_ne_bytes))
}

impl Beginning {
    /// These bytes; nothing where there are none, or more than are kept.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let (mut whole, mut mask) = ([0; BYTES_MAX], [0; BYTES_MAX]);
        whole.get_mut(..bytes.len()).filter(|place| !place.is_empty())?.copy_from_slice(bytes);
        mask.get_mut(..bytes.len())?.fill(0xff);
        Some(Self { length: bytes.len(), words: words(&whole), masks: words(&mask) })
    }

    /// What of a value comes behind it, where the value begins so.
    #[must_use]
    #[inline]
    pub fn rest<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        let rest = value.get(self.length..)?;
        let begins = match value.first_chunk::<BYTES_MAX>() {
            // A fixed number of bytes is compared at once.
            Some(first) => {
                let ([a, b, c], [x, y, z], [p, q, r]) = (words(first), self.words, self.masks);
                ((a ^ x) & p) | ((b ^ y) & q) | ((c ^ z) & r) == 0
            }
            None => {
                let mut first = [0; BYTES_MAX];
                first.get_mut(..value.len())?.copy_from_slice(value);
                let ([a, b, c], [x, y, z], [p, q, r]) = (words(&first), self.words, self.masks);
                ((a ^ x) & p) | ((b ^ y) & q) | ((c ^ z) & r) == 0
            }
        };
        begins.then_some(rest)
    }
}

/// The schema and the message of the value that was taken apart last, and by which bytes they were recognised.
#[derive(Debug, Default)]
pub(super) struct Last {
    schema: Option<Reference>,
    message: Option<Message>,
    /// It had no framing; then what else is here is that of an earlier one.
    bare: bool,
    /// Nothing where only a look at all of a value tells.
    beginning: Option<Beginning>,
}

impl Last {
    /// The parts of a value that begins as the last one did.
    #[inline]
    pub(super) fn again<'a>(&self, record: &Record<'a>) -> Option<(Option<Reference>, Message, &'a [u8])> {
        Some((self.schema, self.message?, self.rest(record)?))
    }

    /// The payload of such a value.
    #[inline]
    pub(super) fn rest<'a>(&self, record: &Record<'a>) -> Option<&'a [u8]> {
        let beginning = self.beginning.as_ref()?;
        if record.schema_header.is_some() || record.unwrapped.is_some() {
            return None;
        }
        beginning.rest(record.value)
    }

    /// Remembers a value's; whether they are those of the one before it. `payload` is the number of its bytes.
    pub(super) fn replace(
        &mut self,
        record: &Record<'_>,
        zlib: bool,
        schema: Option<Reference>,
        message: Message,
        payload: usize,
    ) -> bool {
        self.beginning = None;
        if schema.is_none() && message == Message::Unsaid {
            return std::mem::replace(&mut self.bare, true);
        }
        let repeated = !self.bare && self.message == Some(message) && self.schema == schema;
        self.bare = false;
        (self.schema, self.message) = (schema, Some(message));
        let length = record.value.len().checked_sub(payload).filter(|_| !zlib).unwrap_or_default();
        if record.schema_header.is_none() && record.unwrapped.is_none() {
            self.beginning = record.value.get(..length).and_then(Beginning::of);
        }
        repeated
    }
}

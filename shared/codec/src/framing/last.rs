//! What the last value began with. Most values of a topic begin alike, and then there is nothing to read in them again.

use super::{Message, Record, Reference};

/// The longest beginning that is kept: Glue's framing with any number, Confluent's with a path of eight places of two bytes.
const PREFIX_MAX: usize = 24;

/// The schema and the message of the value that was taken apart last, and by which bytes they were recognised.
#[derive(Debug, Default)]
pub(super) struct Last {
    schema: Option<Reference>,
    message: Option<Message>,
    /// It had no framing; then what else is here is that of an earlier one.
    bare: bool,
    /// Zero where only a look at all of a value tells.
    length: u8,
    prefix: [u8; PREFIX_MAX],
}

impl Last {
    /// The parts of a value that begins as the last one did.
    pub(super) fn again<'a>(&self, record: &Record<'a>) -> Option<(Option<Reference>, Message, &'a [u8])> {
        let length = usize::from(self.length);
        if length == 0 || record.schema_header.is_some() || record.unwrapped.is_some() {
            return None;
        }
        // A fixed number of bytes is compared at once, where a value has them.
        let alike = match record.value.first_chunk::<PREFIX_MAX>() {
            Some(first) => {
                first.iter().zip(&self.prefix).enumerate().all(|(at, (one, other))| one == other || at >= length)
            }
            None => record.value.get(..length) == self.prefix.get(..length),
        };
        match (alike, self.message, record.value.get(length..)) {
            (true, Some(message), Some(payload)) => Some((self.schema, message, payload)),
            _ => None,
        }
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
        self.length = 0;
        if schema.is_none() && message == Message::Unsaid {
            return std::mem::replace(&mut self.bare, true);
        }
        let repeated = !self.bare && self.message == Some(message) && self.schema == schema;
        self.bare = false;
        (self.schema, self.message) = (schema, Some(message));
        let length = record.value.len().checked_sub(payload).filter(|_| !zlib).unwrap_or_default();
        if record.schema_header.is_none()
            && record.unwrapped.is_none()
            && let (Some(to), Some(from)) = (self.prefix.get_mut(..length), record.value.get(..length))
        {
            to.copy_from_slice(from);
            self.length = u8::try_from(length).unwrap_or_default();
        }
        repeated
    }
}

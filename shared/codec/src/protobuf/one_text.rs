use prost_reflect::MessageDescriptor;

use super::Decoder;
use crate::columns::{Columns, Field};
use crate::source::{self, Described as _};
use crate::{Error, Rejected};

/// Reads one field of payloads as text: a string, an enum's name, a whole number's digits, `true` or `false`.
///
/// The whole message is passed over, so that a payload which is no message is refused, whatever the field says; but
/// nothing is asked of other fields.
#[derive(Debug)]
pub struct OneText {
    decoder: Decoder,
}

impl OneText {
    /// # Errors
    /// [`Error::Columns`] when the field was found in another message or a version of it that differs there.
    pub fn new(message: &MessageDescriptor, field: &Field, columns: &Columns) -> Result<Self, Error> {
        Self::resolved(message, &message.describe(), field, columns)
    }

    /// The same for a writer's messages, of a field that was found in the reader's schema.
    ///
    /// # Errors
    /// As [`Decoder::resolved`].
    pub fn resolved(
        writer: &MessageDescriptor,
        reader: &source::Schema,
        field: &Field,
        columns: &Columns,
    ) -> Result<Self, Error> {
        Ok(Self { decoder: Decoder::resolved(writer, reader, &field.alone(columns), None)? })
    }

    /// What `with` makes of a payload's text, which is none where the field is absent.
    ///
    /// # Errors
    /// Why the payload can't be read as far as it has to be.
    pub fn read<T>(&mut self, payload: &[u8], with: impl FnOnce(Option<&[u8]>) -> T) -> Result<T, Rejected> {
        self.decoder.decode(payload)?;
        let made = with(self.decoder.only_text());
        self.decoder.forget();
        Ok(made)
    }
}

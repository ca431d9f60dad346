use super::{Decoder, Schema};
use crate::columns::{Columns, Field};
use crate::{Error, Rejected};

/// Reads one field of payloads as text: a string, an enum's name, a whole number's digits, `true` or `false`.
///
/// The whole record is passed over, so that a payload which is no record is refused, whatever the field says; but nothing
/// is asked of other fields.
#[derive(Debug)]
pub struct OneText {
    decoder: Decoder,
}

impl OneText {
    /// # Errors
    /// [`Error::Columns`] when the field was found in another schema than the reader's, or a version of it that differs
    /// there.
    pub fn new(writer: &Schema, reader: &Schema, field: &Field, columns: &Columns) -> Result<Self, Error> {
        Ok(Self { decoder: Decoder::new(writer, reader, &field.alone(columns))? })
    }

    /// What `with` makes of a payload's text, which is none where the field is null.
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

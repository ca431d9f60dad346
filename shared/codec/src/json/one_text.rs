use super::{Decoder, Schema};
use crate::columns::{Columns, Field};
use crate::{Error, Rejected};

/// Reads one member of payloads as text: a string, a whole number's digits, `true` or `false`.
///
/// The whole object is passed over, so that a payload which is none is refused, whatever the member says; but nothing is asked
/// of other members.
#[derive(Debug)]
pub struct OneText {
    decoder: Decoder,
}

impl OneText {
    /// # Errors
    /// [`Error::Columns`] when the member was found in another schema, or a version of it that differs there.
    pub fn new(schema: &Schema, field: &Field, columns: &Columns) -> Result<Self, Error> {
        Ok(Self { decoder: Decoder::new(schema, &field.alone(columns))? })
    }

    /// What `with` makes of a payload's text, which is none where the member is missing or null.
    ///
    /// # Errors
    /// Why the payload can't be read.
    pub fn read<T>(&mut self, payload: &[u8], with: impl FnOnce(Option<&[u8]>) -> T) -> Result<T, Rejected> {
        self.decoder.decode(payload)?;
        let made = with(self.decoder.only_text());
        self.decoder.forget();
        Ok(made)
    }
}

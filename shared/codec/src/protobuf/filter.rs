use std::collections::HashSet;

use prost_reflect::MessageDescriptor;

use super::Decoder;
use crate::columns::Columns;
use crate::{Error, Rejected};

/// Tells the records that a pipeline takes from those that it leaves out, by one field of the payload.
///
/// The whole message is passed over, so that a payload which is no message is refused, whatever its field says; but
/// nothing is asked of other fields: what a record that is left out holds in them is nobody's concern.
#[derive(Debug)]
pub struct Filter {
    decoder: Decoder,
    taken: HashSet<Box<[u8]>>,
}

impl Filter {
    /// The filter of planned columns, where they have one.
    ///
    /// # Errors
    /// [`Error::Columns`] when it was planned for another message or a version of it that differs in the field.
    pub fn new(message: &MessageDescriptor, columns: &Columns) -> Result<Option<Self>, Error> {
        let Some((column, taken)) = columns.filtered() else { return Ok(None) };
        Ok(Some(Self { decoder: Decoder::new(message, &column)?, taken }))
    }

    /// Whether a payload's record is taken. An absent field is no value, and taken by none.
    ///
    /// # Errors
    /// Why the payload can't be read as far as it has to be.
    pub fn takes(&mut self, payload: &[u8]) -> Result<bool, Rejected> {
        self.decoder.decode(payload)?;
        let takes = self.decoder.only_text().is_some_and(|text| self.taken.contains(text));
        self.decoder.forget();
        Ok(takes)
    }
}

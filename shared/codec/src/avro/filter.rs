use std::collections::HashSet;

use super::{Decoder, Schema};
use crate::columns::Columns;
use crate::{Error, Rejected};

/// Tells the records that a pipeline takes from those that it leaves out, by one field of the payload.
///
/// The whole record is passed over, so that a payload which is no record is refused, whatever its field says; but nothing is
/// asked of other fields: what a record that is left out holds in them is nobody's concern.
#[derive(Debug)]
pub struct Filter {
    decoder: Decoder,
    taken: HashSet<Box<[u8]>>,
}

impl Filter {
    /// The filter of planned columns, where they have one, for a writer's records.
    ///
    /// # Errors
    /// [`Error::Columns`] when it was planned for another schema than the reader's, or a version of it that differs in the
    /// field.
    pub fn new(writer: &Schema, reader: &Schema, columns: &Columns) -> Result<Option<Self>, Error> {
        let Some((column, taken)) = columns.filtered() else { return Ok(None) };
        Ok(Some(Self { decoder: Decoder::new(writer, reader, &column)?, taken }))
    }

    /// Whether a payload's record is taken. Null is no value, and taken by none.
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

use std::collections::HashSet;

use prost_reflect::MessageDescriptor;

use super::OneText;
use crate::columns::Columns;
use crate::source::{self, Described as _};
use crate::{Error, Rejected};

/// Tells the records that a pipeline takes from those that it leaves out, by one field of the payload: what a record that
/// is left out holds in others is nobody's concern.
#[derive(Debug)]
pub struct Filter {
    text: OneText,
    taken: HashSet<Box<[u8]>>,
}

impl Filter {
    /// The filter of planned columns, where they have one.
    ///
    /// # Errors
    /// [`Error::Columns`] when it was planned for another message or a version of it that differs in the field.
    pub fn new(message: &MessageDescriptor, columns: &Columns) -> Result<Option<Self>, Error> {
        Self::resolved(message, &message.describe(), columns)
    }

    /// The filter of columns that were planned for the reader's schema, for a writer's messages.
    ///
    /// # Errors
    /// As [`super::Decoder::resolved`].
    pub fn resolved(
        writer: &MessageDescriptor,
        reader: &source::Schema,
        columns: &Columns,
    ) -> Result<Option<Self>, Error> {
        let Some(filter) = &columns.filter else { return Ok(None) };
        let (field, taken) = filter.parts();
        Ok(Some(Self { text: OneText::resolved(writer, reader, &field, columns)?, taken }))
    }

    /// Whether a payload's record is taken. An absent field is no value, and taken by none.
    ///
    /// # Errors
    /// Why the payload can't be read as far as it has to be.
    pub fn takes(&mut self, payload: &[u8]) -> Result<bool, Rejected> {
        let taken = &self.taken;
        self.text.read(payload, |text| text.is_some_and(|text| taken.contains(text)))
    }
}

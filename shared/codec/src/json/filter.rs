use std::collections::HashSet;

use super::{OneText, Schema};
use crate::columns::Columns;
use crate::{Error, Rejected};

/// Tells the objects that a pipeline takes from those that it leaves out, by one member of the payload: what a record that is
/// left out holds in others is nobody's concern.
#[derive(Debug)]
pub struct Filter {
    text: OneText,
    taken: HashSet<Box<[u8]>>,
}

impl Filter {
    /// The filter of planned columns, where they have one.
    ///
    /// # Errors
    /// [`Error::Columns`] when it was planned for another schema, or a version of it that differs in the member.
    pub fn new(schema: &Schema, columns: &Columns) -> Result<Option<Self>, Error> {
        let Some(filter) = &columns.filter else { return Ok(None) };
        let (field, taken) = filter.parts();
        Ok(Some(Self { text: OneText::new(schema, &field, columns)?, taken }))
    }

    /// Whether a payload's record is taken. Null is no value, and taken by none.
    ///
    /// # Errors
    /// Why the payload can't be read.
    pub fn takes(&mut self, payload: &[u8]) -> Result<bool, Rejected> {
        let taken = &self.taken;
        self.text.read(payload, |text| text.is_some_and(|text| taken.contains(text)))
    }
}

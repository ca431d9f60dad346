//! Fields of a payload that its schema does not know, kept for the day when it does.

use base64_simd::STANDARD;

use crate::Class;
use crate::columns::Withheld;
use crate::rows::level::Level;
use crate::rows::stop::{Outcome, Stop};

/// A schema that lacks more of a record than this is another message's.
const FIELDS_MAX: usize = 10_000;

/// The unknown fields of one payload.
#[derive(Default)]
pub(crate) struct Unknown {
    found: Vec<Field>,
}

struct Field {
    /// Its number, and those of the fields around it, the innermost first.
    path: Vec<u32>,
    /// Where it is in the payload, its tag included.
    at: std::ops::Range<usize>,
}

impl Unknown {
    pub(crate) const fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// How many there are so far, for [`Unknown::within`].
    pub(crate) const fn count(&self) -> usize {
        self.found.len()
    }

    #[cold]
    pub(crate) fn add(&mut self, number: u32, at: std::ops::Range<usize>) -> Outcome {
        if self.found.len() >= FIELDS_MAX {
            let message = format!("the record has more than {FIELDS_MAX} fields that are not in the schema");
            return Err(Stop::new(Class::TooLarge, message));
        }
        self.found.push(Field { path: vec![number], at });
        Ok(())
    }

    /// Says of those found since there were `before` that they are in a field.
    #[cold]
    pub(crate) fn within(&mut self, before: usize, number: u32) {
        for field in self.found.iter_mut().skip(before) {
            field.path.push(number);
        }
    }

    /// Lets go of those that are to be in no column. Gives whether there were some.
    #[cold]
    pub(crate) fn withhold(&mut self, withheld: &Withheld) -> bool {
        let before = self.found.len();
        self.found.retain(|field| !withheld.holds_number(&field.path));
        self.found.len() < before
    }

    /// Writes them as the open row of a map from numbers, joined with dots, to base64 of the wire bytes: tag and value of
    /// every occurrence, one after the other, which is the message again that holds nothing else.
    #[cold]
    pub(crate) fn write(&self, payload: &[u8], list: usize, level: &mut Level, opened: &mut usize) -> Outcome {
        let mut entries: Vec<(String, Vec<u8>)> = Vec::new();
        let mut places = std::collections::HashMap::new();
        for field in &self.found {
            let numbers: Vec<String> = field.path.iter().rev().map(u32::to_string).collect();
            let place = *places.entry(&field.path).or_insert(entries.len());
            if place == entries.len() {
                entries.push((numbers.join("."), Vec::new()));
            }
            let bytes = payload.get(field.at.clone()).ok_or_else(Stop::truncated)?;
            if let Some((_, all)) = entries.get_mut(place) {
                all.extend_from_slice(bytes);
            }
        }
        for (key, bytes) in entries {
            level.put_entry(list, key.as_bytes(), STANDARD.encode_to_string(bytes).as_bytes(), opened)?;
        }
        Ok(())
    }
}

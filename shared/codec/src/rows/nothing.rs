//! Columns that no record fills: of fields that the writer's schema lacks.

use pipeline::types::Type;

use super::cells::{Output, Source};
use super::level::Layout;

impl Layout {
    /// A column that is null in every row.
    pub(crate) fn nothing(&mut self, data_type: &Type) -> Output {
        let bit = self.bit();
        self.unfilled(data_type, Some(bit))
    }

    fn unfilled(&mut self, data_type: &Type, valid: Option<usize>) -> Output {
        let next = |count: &mut usize| {
            *count += 1;
            *count - 1
        };
        let source = match data_type {
            Type::Int | Type::Float | Type::Date => Source::Word4(next(&mut self.words4)),
            Type::Long | Type::Double | Type::Time | Type::Timestamp | Type::Timestamptz => {
                Source::Word8(next(&mut self.words8))
            }
            Type::Decimal(..) => Source::Word16(next(&mut self.words16)),
            Type::Boolean => Source::Bit(self.bit()),
            Type::String | Type::Binary | Type::Uuid | Type::Fixed(_) => Source::Text(self.text(None)),
            // Members have as many rows as the struct, and are null where it is.
            Type::Struct(fields) => {
                Source::Struct(fields.iter().map(|field| self.unfilled(&field.data_type, valid)).collect())
            }
            Type::List { element, .. } => {
                let mut elements = Self::default();
                let output = elements.unfilled(element, None);
                self.lists.push((elements, None));
                Source::List(self.lists.len() - 1, Box::new(output))
            }
            Type::Map { key, value, .. } => {
                let mut elements = Self::default();
                let entry = (elements.unfilled(key, None), elements.unfilled(value, None));
                self.lists.push((elements, None));
                Source::Map(self.lists.len() - 1, Box::new(entry))
            }
        };
        Output { valid, source }
    }
}

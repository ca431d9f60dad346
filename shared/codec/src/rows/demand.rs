use std::sync::Arc;

use pipeline::resolved::Pii;
use pipeline::types::Type;

use super::cells::{Output, Source};
use super::level::{Cell, Check, Kept, Layout, Required, Veil};
use crate::columns::Column;
use crate::expectation::Rule;
use crate::pii::Hasher;

impl Layout {
    /// Asks of a column's values, which stand in `output`, what the column asks of them. `path` leads to them from the
    /// level's beginning.
    ///
    /// # Errors
    /// What can't be asked of such values.
    pub(crate) fn demand(
        &mut self,
        column: &Column,
        output: &Output,
        is_json: bool,
        path: &str,
        hasher: &Arc<Hasher>,
    ) -> Result<(), String> {
        if let (true, Some(bit)) = (column.required, output.valid) {
            self.required.push(Required { bit, within: None, path: path.to_owned() });
        }
        if let Some(rule) = Rule::of(&column.expect, &column.data_type)? {
            let cell = cell(&output.source, &column.data_type).ok_or("only single values have expectations")?;
            self.checks.push(Check { valid: output.valid, cell, rule, path: path.to_owned() });
        }
        if let Some(pii) = column.pii {
            let (Source::Text(text), false) = (&output.source, is_json) else {
                return Err("personal data is a single value: name a field within it".to_owned());
            };
            let kept = match pii {
                Pii::Hash => Kept::Hash(Arc::clone(hasher)),
                Pii::Last4 => Kept::Last4,
                Pii::Drop => return Err("a column that is dropped is none".to_owned()),
            };
            self.veils.push(Veil { valid: output.valid, text: *text, kept });
        }
        Ok(())
    }
}

/// Where a column's single values stand; none for nested ones.
const fn cell(source: &Source, data_type: &Type) -> Option<Cell> {
    Some(match (source, data_type) {
        (Source::Word4(slot), Type::Float) => Cell::Float(*slot),
        (Source::Word4(slot), _) => Cell::Word4(*slot),
        (Source::Word8(slot), Type::Double) => Cell::Double(*slot),
        (Source::Word8(slot), _) => Cell::Word8(*slot),
        (Source::Word16(slot), _) => Cell::Word16(*slot),
        (Source::Bit(slot), _) => Cell::Bit(*slot),
        (Source::Text(slot), _) => Cell::Text(*slot),
        (Source::Struct(_) | Source::List(..) | Source::Map(..), _) => return None,
    })
}

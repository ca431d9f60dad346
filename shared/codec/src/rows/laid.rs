//! Columns laid out one after the other, which is the same whatever fills them.

use super::batch::Plan;
use super::cells::{Output, Source};
use super::level::Layout;
use crate::columns::{Column, Columns};

/// The columns that come from a payload, before it is known whether all of them can be filled.
#[derive(Default)]
pub(crate) struct Laid {
    layout: Layout,
    outputs: Vec<Output>,
    /// For each of `outputs` whether it is of the elements that become rows.
    of_element: Vec<bool>,
    /// The list of what the schema does not know, where it is kept.
    rest: Option<usize>,
    /// The columns that can't be filled, and why.
    faults: Vec<(usize, String)>,
}

impl Laid {
    /// Lays out every column. `place` says of one whether it is of the elements that become rows, and what it is put together from;
    /// nothing of one that does not come from the payload.
    pub(crate) fn columns(
        columns: &Columns,
        mut place: impl FnMut(&Column, &mut Layout) -> Option<Result<(bool, Output), String>>,
    ) -> Self {
        let mut laid = Self::default();
        for (index, column) in columns.columns.iter().enumerate() {
            if column.is_rest() {
                laid.keep_rest();
            }
            match place(column, &mut laid.layout) {
                None => {}
                Some(Ok((of_element, output))) => {
                    laid.of_element.push(of_element);
                    laid.outputs.push(output);
                }
                Some(Err(fault)) => laid.faults.push((index, fault)),
            }
        }
        laid
    }

    /// What the columns come to. `explode` gives the list of which each element
    /// becomes a row, where there is one; it is asked where every column can be filled.
    ///
    /// # Errors
    /// Every column that can't be filled: its index, and why.
    pub(crate) fn finish(
        mut self,
        explode: impl FnOnce(&mut Layout) -> Option<Result<usize, String>>,
    ) -> Result<Plan, Vec<(usize, String)>> {
        let exploded = if self.faults.is_empty() { explode(&mut self.layout).transpose() } else { Ok(None) };
        let exploded = exploded.unwrap_or_else(|fault| {
            self.faults.push((0, fault));
            None
        });
        let Self { layout, outputs, of_element, rest, faults } = self;
        if faults.is_empty() { Ok(Plan { layout, outputs, exploded, of_element, rest }) } else { Err(faults) }
    }

    /// A map from text to text.
    fn keep_rest(&mut self) {
        self.layout.lists.push((Layout { texts: vec![None, None], ..Layout::default() }, None));
        let list = self.layout.lists.len() - 1;
        let text = |slot| Output { valid: None, source: Source::Text(slot) };
        self.rest = Some(list);
        self.outputs.push(Output { valid: None, source: Source::Map(list, Box::new((text(0), text(1)))) });
        self.of_element.push(false);
    }
}

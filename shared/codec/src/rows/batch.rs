use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch, RecordBatchOptions};
use arrow::compute::take;
use arrow::datatypes::{Schema, SchemaRef};

use super::arrays;
use super::cells::{Output, Source};
use super::level::{Layout, Level, List};
use super::stop::Outcome;
use crate::columns::Columns;
use crate::{Class, Error, Rejected, arrow_types};

/// What a compiler makes of columns, whatever fills them.
pub(crate) struct Plan {
    /// What the columns of a batch consist of.
    pub(crate) layout: Layout,
    /// The columns that come from the payload, in order.
    pub(crate) outputs: Vec<Output>,
    /// The list of which each element becomes a row; its columns are apart from those of the record.
    pub(crate) exploded: Option<usize>,
    /// For each of `outputs` whether it is on that list's level.
    pub(crate) of_element: Vec<bool>,
    /// The list of what the schema does not know, where it is kept.
    pub(crate) rest: Option<usize>,
}

/// The rows of a batch in the making.
pub(crate) struct Batch {
    /// The columns of records.
    pub(crate) level: Level,
    outputs: Vec<Output>,
    schema: SchemaRef,
    exploded: Option<Exploded>,
    /// Records with fields that the schema does not know, and that were left out for it.
    ignoring: u64,
    /// The path of a required column that no record has a value for.
    absent: Option<String>,
}

/// The list of which each element becomes a row.
struct Exploded {
    list: usize,
    /// For each column whether it is made of the element.
    of_element: Vec<bool>,
    /// Bytes that the rows since the last batch repeat of their records.
    repeated: usize,
}

/// Bytes that the rows of one batch may repeat of their records. An event of 6 MB comes near it only where a record with
/// large fields has thousands of elements, or a million rows come of two bytes each; the memory of a function ends soon after.
const REPEATED_MAX: usize = 128 << 20;

/// Bytes that a row repeats of every record: where it comes from, in memory and once more while it is written.
const PLACE_BYTES: usize = 64;

impl Exploded {
    /// Judges the record that was read last: without elements it leaves no row, and with too many none either.
    fn settle(&mut self, level: &mut Level, beside: usize) -> Result<(), Rejected> {
        let Some(last) = level.rows().checked_sub(1) else { return Ok(()) };
        let elements = level.lists.get(self.list).map_or(0, |list| list.length(last));
        if elements == 0 {
            level.rewind(last);
            return Ok(());
        }
        let repeated = (level.row_bytes(last, self.list) + PLACE_BYTES).saturating_add(beside).saturating_mul(elements);
        if self.repeated.saturating_add(repeated) > REPEATED_MAX {
            level.rewind(last);
            let message = format!(
                "each of the {elements} rows would repeat the rest of the record: with those before them more than {} MiB",
                REPEATED_MAX >> 20
            );
            return Err(Rejected { class: Class::TooLarge, path: String::new(), message });
        }
        self.repeated += repeated;
        Ok(())
    }

    /// For each element the row of its record. The list is empty of offsets afterwards.
    fn records(&mut self, level: &mut Level) -> Int32Array {
        self.repeated = 0;
        let offsets = level.lists.get_mut(self.list).map(List::take_offsets).unwrap_or_default();
        let mut records = Vec::with_capacity(offsets.last().map_or(0, |end| *end as usize));
        for (record, ends) in (0..).zip(offsets.windows(2)) {
            if let [from, to] = ends {
                records.resize(records.len() + (to - from) as usize, record);
            }
        }
        Int32Array::from(records)
    }
}

/// Takes back the row of a record that lacks what every row has to have, if one was made of it.
#[cold]
fn lacking(path: &str, before: usize, level: &mut Level) -> Result<(), Rejected> {
    if level.rows() == before {
        return Ok(());
    }
    level.rewind(before);
    let message = "the schema of the record has no such field, and a required column is made of it".to_owned();
    Err(Rejected { class: Class::MissingRequired, path: path.to_owned(), message })
}

impl Batch {
    /// Of the columns that come from payloads.
    pub(crate) fn new(plan: Plan, columns: &Columns) -> Self {
        let fields: Vec<_> = columns
            .columns
            .iter()
            .filter(|column| column.is_of_payload() || column.is_rest())
            .map(|column| arrow_types::field(&column.name, &column.data_type, column.required))
            .collect();
        Self {
            level: Level::new(plan.layout),
            outputs: plan.outputs,
            schema: Arc::new(Schema::new(fields)),
            exploded: plan.exploded.map(|list| Exploded { list, of_element: plan.of_element, repeated: 0 }),
            ignoring: 0,
            absent: columns.absent.first().cloned(),
        }
    }

    pub(crate) const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Judges a record whose row is closed, each of whose rows has this many bytes beside.
    #[inline]
    pub(crate) fn settle(&mut self, beside: usize) -> Result<(), Rejected> {
        let before = if self.absent.is_some() { self.level.rows().saturating_sub(1) } else { 0 };
        if let Some(exploded) = &mut self.exploded {
            exploded.settle(&mut self.level, beside)?;
        }
        match &self.absent {
            None => Ok(()),
            Some(path) => lacking(path, before, &mut self.level),
        }
    }

    /// Takes back the row that is open where reading it has stopped; `ignored` is whether some of the record was left out for want of
    /// a place.
    #[inline]
    pub(crate) fn settled(&mut self, read: Outcome, ignored: bool) -> Result<(), Rejected> {
        self.ignoring += u64::from(ignored && read.is_ok());
        read.map_err(|stop| {
            let rows = self.level.rows();
            self.level.rewind(rows);
            stop.into_rejected()
        })
    }

    /// The text of the only column in the last row, where it has one.
    pub(crate) fn only_text(&self) -> Option<&[u8]> {
        let output = self.outputs.first()?;
        let Source::Text(slot) = output.source else { return None };
        self.level.last_text(slot, output.valid)
    }

    /// Takes the number of records with fields that were left out, since it was last taken.
    pub(crate) const fn take_ignoring(&mut self) -> u64 {
        std::mem::replace(&mut self.ignoring, 0)
    }

    /// Drops the rows.
    pub(crate) fn forget(&mut self) {
        self.level.rewind(0);
    }

    pub(crate) fn rows(&self) -> usize {
        let elements = self.exploded.as_ref().and_then(|exploded| self.level.lists.get(exploded.list));
        elements.map_or_else(|| self.level.rows(), |list| list.elements.rows())
    }

    /// Bytes that the rows take, near enough.
    pub(crate) fn bytes(&self) -> usize {
        self.level.bytes()
    }

    /// Takes the rows, and goes on with none.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch, Error> {
        let rows = self.rows();
        let mut arrays = Vec::with_capacity(self.outputs.len());
        match &mut self.exploded {
            None => {
                for (output, field) in self.outputs.iter().zip(self.schema.fields()) {
                    arrays.push(arrays::take(output, field.data_type(), &mut self.level)?);
                }
            }
            Some(exploded) => {
                let records = exploded.records(&mut self.level);
                let outputs = self.outputs.iter().zip(&exploded.of_element).zip(self.schema.fields());
                for ((output, of_element), field) in outputs {
                    let elements = self.level.lists.get_mut(exploded.list).filter(|_| *of_element);
                    arrays.push(match elements {
                        Some(list) => arrays::take(output, field.data_type(), &mut list.elements)?,
                        None => take(&arrays::take(output, field.data_type(), &mut self.level)?, &records, None)?,
                    });
                }
            }
        }
        arrays::finish(&mut self.level);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?)
    }
}

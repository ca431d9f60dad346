//! What a manifest says about the columns of a data file: counts, and bounds that every value of the file lies within.
//!
//! A [`Collector`] sees the very rows that are written. Modes are the table's own (`write.metadata.metrics.*`); fields
//! inside lists and maps have no counts and no bounds, as in other writers.

mod bounds;
mod cut;
mod mode;

use std::collections::HashMap;

use arrow::array::{Array, RecordBatch};
use iceberg::spec::{Datum, PrimitiveType, Schema};

use crate::fault::Fault;
use crate::schema::{Position, array_at, positions};
use bounds::Bounds;

pub use mode::{Mode, Modes};

/// Figures by field id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Rows, nulls and NaN included.
    pub value_counts: HashMap<i32, u64>,
    /// Rows in which the field, or a struct around it, is null.
    pub null_value_counts: HashMap<i32, u64>,
    /// Rows that are NaN; float and double fields only.
    pub nan_value_counts: HashMap<i32, u64>,
    /// No value that is neither null nor NaN is below.
    pub lower_bounds: HashMap<i32, Datum>,
    /// No value that is neither null nor NaN is above.
    pub upper_bounds: HashMap<i32, Datum>,
}

/// Gathers the metrics of one file.
#[derive(Debug)]
pub struct Collector {
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    id: i32,
    position: Position,
    mode: Mode,
    values: u64,
    nulls: u64,
    nans: u64,
    bounds: Bounds,
}

impl Collector {
    /// For rows of the schema, in the modes given.
    #[must_use]
    pub fn new(schema: &Schema, modes: &Modes) -> Self {
        let columns = positions(schema)
            .into_iter()
            .map(|(id, position)| (id, position, modes.of(id)))
            .filter(|(_, _, mode)| *mode != Mode::None)
            .map(|(id, position, mode)| {
                let bounds = if mode == Mode::Counts { Bounds::Unwanted } else { Bounds::new(&position.data_type) };
                Column { id, position, mode, values: 0, nulls: 0, nans: 0, bounds }
            })
            .collect();
        Self { columns }
    }

    /// Takes in rows, in the table's Arrow schema (text and binary plain or as views).
    ///
    /// # Errors
    /// [`Fault::Mismatch`] when the batch is not of the schema.
    pub fn update(&mut self, batch: &RecordBatch) -> Result<(), Fault> {
        for column in &mut self.columns {
            let array = array_at(batch, &column.position.path)?;
            column.values += array.len() as u64;
            column.nulls += array.null_count() as u64;
            match &mut column.bounds {
                // A float's NaN are counted without bounds, too.
                Bounds::Unwanted => column.nans += bounds::nans(&array),
                wanted => column.nans += wanted.update(&array)?,
            }
        }
        Ok(())
    }

    /// The figures.
    ///
    /// # Errors
    /// [`Fault::Mismatch`] when a decimal has more digits than its column.
    pub fn finish(self) -> Result<Metrics, Fault> {
        let mut metrics = Metrics::default();
        for column in self.columns {
            metrics.value_counts.insert(column.id, column.values);
            metrics.null_value_counts.insert(column.id, column.nulls);
            if matches!(column.position.data_type, PrimitiveType::Float | PrimitiveType::Double) {
                metrics.nan_value_counts.insert(column.id, column.nans);
            }
            let (lower, upper) = column.bounds.finish(&column.position.data_type, column.mode)?;
            metrics.lower_bounds.extend(lower.map(|lower| (column.id, lower)));
            metrics.upper_bounds.extend(upper.map(|upper| (column.id, upper)));
        }
        Ok(metrics)
    }
}

#[cfg(test)]
mod tests;

//! Rows to partitions. Every distinct tuple gets a small number, and rows carry that number.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Int32Type, Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampNanosecondType,
};
use arrow::row::{RowConverter, SortField};
use iceberg::spec::{Literal, PartitionSpec, PrimitiveType, Schema, Struct, Transform};

use crate::fault::Fault;
use crate::schema::{array_at, literal, position};
use crate::transform;

/// Numbers the partitions of a table's rows, batch after batch.
#[derive(Debug)]
pub struct Partitioner {
    fields: Vec<Field>,
    tuples: Vec<Struct>,
}

#[derive(Debug)]
struct Field {
    path: Vec<usize>,
    transform: Transform,
    result: PrimitiveType,
    /// (Number of the tuple of the fields before this one, this field's value) to the number of both together.
    numbers: HashMap<Key, u32, BuildHasherDefault<Mix>>,
    /// Values that are no integers, row-encoded, to integers that stand for them.
    encoded: HashMap<Box<[u8]>, i64, BuildHasherDefault<Mix>>,
}

/// The number of a tuple so far, doubled, one more for a null; and a value.
type Key = (u64, i64);

fn key(number: u32, value: Option<i64>) -> Key {
    (u64::from(number) << 1 | u64::from(value.is_none()), value.unwrap_or(0))
}

/// A multiplicative hash. The keys are partition values: few, and of our own making, so that nobody gains from making
/// them collide but themselves.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let word = chunk.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
            self.write_u64(word);
        }
        self.write_u64(bytes.len() as u64);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_i64(&mut self, word: i64) {
        self.write_u64(word.cast_unsigned());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word.cast_unsigned() as u64);
    }
}

impl Partitioner {
    /// For a spec and its table's schema.
    ///
    /// # Errors
    /// [`Fault::Request`] when a source column is not primitive and outside lists and maps, or a transform unknown.
    pub fn new(spec: &PartitionSpec, schema: &Schema) -> Result<Self, Fault> {
        let fields = spec.fields().iter().map(|field| {
            let position = position(schema, field.source_id)?;
            let result = transform::result_type(field.transform, &position.data_type)?;
            Ok(Field {
                path: position.path,
                transform: field.transform,
                result,
                numbers: HashMap::default(),
                encoded: HashMap::default(),
            })
        });
        Ok(Self { fields: fields.collect::<Result<_, Fault>>()?, tuples: Vec::new() })
    }

    /// How many partitions have been numbered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tuples.len()
    }

    /// Whether no row has been seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tuples.is_empty()
    }

    /// The partition tuple of a number, raw values.
    #[must_use]
    pub fn tuple(&self, number: u32) -> Option<&Struct> {
        self.tuples.get(number as usize)
    }

    /// Forgets all numbers.
    pub fn clear(&mut self) {
        self.tuples.clear();
        for field in &mut self.fields {
            field.numbers.clear();
            field.encoded.clear();
        }
    }

    /// The partition number of every row of a batch of the table's schema.
    ///
    /// # Errors
    /// As the transforms.
    pub fn assign(&mut self, batch: &RecordBatch) -> Result<Vec<u32>, Fault> {
        let rows = batch.num_rows();
        let mut numbers = vec![0; rows];
        if rows == 0 {
            return Ok(numbers);
        }
        let mut columns = Vec::with_capacity(self.fields.len());
        for field in &mut self.fields {
            let column = transform::column(field.transform, &array_at(batch, &field.path)?)?;
            field.refine(&column, &mut numbers)?;
            columns.push(column);
        }
        if self.fields.is_empty() && self.tuples.is_empty() {
            self.tuples.push(Struct::empty());
        }
        // Numbers are given in order of first appearance, so new ones appear in their order.
        for (row, number) in numbers.iter().enumerate() {
            if *number as usize == self.tuples.len() {
                let values = self
                    .fields
                    .iter()
                    .zip(&columns)
                    .map(|(field, column)| Ok(literal::at(column, row, &field.result)?.map(Literal::Primitive)));
                self.tuples.push(values.collect::<Result<Struct, Fault>>()?);
            }
        }
        Ok(numbers)
    }
}

impl Field {
    /// Turns numbers of the tuple so far into numbers of the tuple with this field.
    fn refine(&mut self, column: &ArrayRef, numbers: &mut [u32]) -> Result<(), Fault> {
        match column.data_type() {
            DataType::Int32 => self.refine_primitive::<Int32Type>(column, numbers),
            DataType::Date32 => self.refine_primitive::<Date32Type>(column, numbers),
            DataType::Int64 => self.refine_primitive::<Int64Type>(column, numbers),
            DataType::Time64(TimeUnit::Microsecond) => self.refine_primitive::<Time64MicrosecondType>(column, numbers),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                self.refine_primitive::<TimestampMicrosecondType>(column, numbers)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                self.refine_primitive::<TimestampNanosecondType>(column, numbers)
            }
            _ => return self.refine_encoded(column, numbers),
        }
        Ok(())
    }

    fn refine_primitive<T: ArrowPrimitiveType>(&mut self, column: &ArrayRef, numbers: &mut [u32])
    where
        T::Native: Into<i64>,
    {
        let column = column.as_primitive::<T>();
        let values = column.values().iter().map(|value| (*value).into());
        match column.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => self.number(values.map(Some), numbers),
            Some(nulls) => {
                self.number(
                    values.zip(nulls.iter()).map(|(value, valid): (i64, bool)| valid.then_some(value)),
                    numbers,
                );
            }
        }
    }

    fn refine_encoded(&mut self, column: &ArrayRef, numbers: &mut [u32]) -> Result<(), Fault> {
        let converter = RowConverter::new(vec![SortField::new(column.data_type().clone())])?;
        let rows = converter.convert_columns(std::slice::from_ref(column))?;
        let mut codes = Vec::with_capacity(numbers.len());
        for row in &rows {
            let next = self.encoded.len() as i64;
            // Most values have been seen: only new ones are copied.
            codes.push(match self.encoded.get(row.as_ref()) {
                Some(code) => *code,
                None => *self.encoded.entry(row.as_ref().into()).or_insert(next),
            });
        }
        self.number(codes.into_iter().map(Some), numbers);
        Ok(())
    }

    fn number(&mut self, values: impl Iterator<Item = Option<i64>>, numbers: &mut [u32]) {
        for (number, value) in numbers.iter_mut().zip(values) {
            let next = self.numbers.len() as u32;
            *number = *self.numbers.entry(key(*number, value)).or_insert(next);
        }
    }
}

//! Keys of rows, each distinct one numbered. Two keys are one when all their columns are, null and null included.

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, Rows, SortField};
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use crate::Error;
use crate::sieve::Sieve;

/// Numbers distinct keys.
pub(crate) struct Keys {
    converter: RowConverter,
    /// (Hash, number) of every key.
    table: HashTable<(u64, u32)>,
    /// The encoded keys, end to end, and where each number's ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Reused from batch to batch.
    rows: Option<Rows>,
    /// Which rows are worth looking up, and how many keys there were when it was made; made when it is first asked.
    sieve: Option<(Option<Sieve>, usize)>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("distinct", &self.ends.len()).finish_non_exhaustive()
    }
}

impl Keys {
    /// For key columns of these types.
    pub(crate) fn new(types: &[DataType]) -> Result<Self, Error> {
        let fields = types.iter().map(|data_type| SortField::new(data_type.clone())).collect();
        Ok(Self {
            converter: RowConverter::new(fields)?,
            table: HashTable::new(),
            bytes: Vec::new(),
            ends: Vec::new(),
            rows: None,
            sieve: None,
        })
    }

    /// Makes room for this many more distinct keys, so that nothing is moved while they come.
    pub(crate) fn reserve(&mut self, keys: usize, key_bytes: usize) {
        self.table.reserve(keys, |(hash, _)| *hash);
        self.ends.reserve(keys);
        self.bytes.reserve(keys.saturating_mul(key_bytes));
    }

    /// How many distinct keys there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The distinct keys as columns, by number.
    pub(crate) fn columns(&self) -> Result<Vec<ArrayRef>, Error> {
        let parser = self.converter.parser();
        let rows = (0..self.len()).filter_map(|n| u32::try_from(n).ok());
        let rows = rows.map(|number| parser.parse(of(&self.bytes, &self.ends, number)));
        Ok(self.converter.convert_rows(rows)?)
    }

    /// Bytes held.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.table.capacity() * size_of::<(u64, u32)>() * 8 / 7
    }

    /// The number of each row's key; new keys get the next ones.
    pub(crate) fn add(&mut self, columns: &[ArrayRef], mut each: impl FnMut(u32)) -> Result<(), Error> {
        let rows = self.encode(columns)?;
        for row in &rows {
            let key = row.data();
            let hash = xxh3_64(key);
            let (bytes, ends) = (&mut self.bytes, &mut self.ends);
            let found = self.table.find(hash, |(other, number)| *other == hash && of(bytes, ends, *number) == key);
            let number = match found {
                Some((_, number)) => *number,
                None => {
                    let number = u32::try_from(ends.len()).map_err(|_| Error::TooMany)?;
                    bytes.extend_from_slice(key);
                    ends.push(bytes.len());
                    self.table.insert_unique(hash, (hash, number), |(hash, _)| *hash);
                    number
                }
            };
            each(number);
        }
        self.rows = Some(rows);
        Ok(())
    }

    /// The number of each row's key, where it has one.
    pub(crate) fn look_up(&mut self, columns: &[ArrayRef], mut each: impl FnMut(usize, u32)) -> Result<(), Error> {
        if self.sieve.as_ref().is_none_or(|(_, keys)| *keys != self.len()) {
            self.sieve = Some((Sieve::new(&self.columns()?), self.len()));
        }
        let Some((Some(sieve), _)) = &mut self.sieve else { return self.find(columns, each) };
        let mut passing: Vec<u32> = Vec::new();
        sieve.pass(columns, |row| passing.extend(u32::try_from(row)));
        let rows = columns.first().map_or(0, |column| column.len());
        // Where most pass there is nothing to be saved.
        if passing.len() * 2 > rows {
            return self.find(columns, each);
        }
        if passing.is_empty() {
            return Ok(());
        }
        let places = UInt32Array::from(passing);
        let some = columns.iter().map(|column| take(column, &places, None)).collect::<Result<Vec<_>, _>>()?;
        self.find(&some, |row, number| {
            if let Some(row) = places.values().get(row) {
                each(*row as usize, number);
            }
        })
    }

    fn find(&mut self, columns: &[ArrayRef], mut each: impl FnMut(usize, u32)) -> Result<(), Error> {
        let rows = self.encode(columns)?;
        for (at, row) in rows.iter().enumerate() {
            let key = row.data();
            let hash = xxh3_64(key);
            let same = |(other, number): &(u64, u32)| *other == hash && of(&self.bytes, &self.ends, *number) == key;
            if let Some((_, number)) = self.table.find(hash, same) {
                each(at, *number);
            }
        }
        self.rows = Some(rows);
        Ok(())
    }

    fn encode(&mut self, columns: &[ArrayRef]) -> Result<Rows, Error> {
        let mut rows = match self.rows.take() {
            Some(rows) => rows,
            None => self.converter.empty_rows(0, 0),
        };
        rows.clear();
        self.converter.append(&mut rows, columns)?;
        Ok(rows)
    }
}

/// Bytes that one key takes, encoded: exact for columns of fixed width, and for text and binary room for 64 bytes of it,
/// which come in blocks of 32 and a byte.
pub(crate) fn encoded_bytes(types: &[DataType]) -> usize {
    types.iter().map(|data_type| 1 + data_type.primitive_width().unwrap_or(VARIABLE_BYTES)).sum()
}

const VARIABLE_BYTES: usize = 2 * 33;

/// Bytes that one key takes beside its encoded form: its end, and its place in a hash table that has just doubled.
pub(crate) const PLACE_BYTES: usize = size_of::<usize>() + (size_of::<(u64, u32)>() + 1) * 16 / 7;

fn of<'k>(bytes: &'k [u8], ends: &[usize], number: u32) -> &'k [u8] {
    let number = number as usize;
    let start = number.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    ends.get(number).and_then(|end| bytes.get(start..*end)).unwrap_or_default()
}

//! Insert unless it is there: of the rows of one key whose event times lie within a lookback of each other, one stays.
//!
//! Rows of the table always stay. Of the rows that want to enter, taken in order of (event time, Kafka timestamp, topic,
//! partition, offset, ordinal), a row enters unless a row of its key that stays has an event time at most `lookback` from
//! its own. So no two rows that enter lie within the lookback, and every row that does not enter has one within it that
//! stays. Without an event time the whole table is looked at, and the first row of each key enters.
//!
//! Use: [`Dedup::add`] for every batch of rows that want to enter, [`Dedup::meet`] for batches of the table's rows (only
//! those that [`Dedup::event_times`] covers and that have one of [`Dedup::keys`] matter) in any order, then
//! [`Dedup::finish`].

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, PrimitiveArray};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};

use crate::keys::{self, Keys};
use crate::{Error, Origin};

/// Decides which rows enter.
#[derive(Debug)]
pub struct Dedup {
    keys: Keys,
    /// Bytes of one encoded key, about.
    key_bytes: usize,
    /// In microseconds; absent for the whole table.
    lookback: Option<i64>,
    batches: Vec<Batch>,
    /// By key number: how many rows want to enter, and between which event times.
    wanting: Vec<Wanting>,
    /// (Key number, event time) of the table's rows that may matter to keys with several rows.
    met: Vec<(u32, i64)>,
}

#[derive(Debug)]
struct Batch {
    keys: Vec<u32>,
    /// Empty without event times.
    event_times: Vec<i64>,
    origin: Origin,
}

#[derive(Clone, Copy, Debug)]
struct Wanting {
    rows: u32,
    least: i64,
    greatest: i64,
    /// The table holds a row of the key (within reach of the only row, where there is just one).
    taken: bool,
}

/// One row on its way in.
#[derive(Clone, Copy, Debug)]
struct Row {
    key: u32,
    event_time: i64,
    batch: u32,
    row: u32,
}

impl Dedup {
    /// For key columns of these types, and a lookback in microseconds where event times count.
    ///
    /// # Errors
    /// [`Error::Arrow`] for a type that keys can't have.
    pub fn new(key_types: &[DataType], lookback_micros: Option<i64>) -> Result<Self, Error> {
        if key_types.is_empty() {
            return Err(Error::Shape("a key has at least one column"));
        }
        Ok(Self {
            keys: Keys::new(key_types)?,
            key_bytes: keys::encoded_bytes(key_types),
            lookback: lookback_micros,
            batches: Vec::new(),
            wanting: Vec::new(),
            met: Vec::new(),
        })
    }

    /// Makes room for this many more rows, in this many more batches. Without it the tables are moved again and again
    /// while they grow, and are there twice meanwhile.
    pub fn reserve(&mut self, rows: usize, batches: usize) {
        self.keys.reserve(rows, self.key_bytes);
        self.wanting.reserve(rows);
        self.batches.reserve(batches);
    }

    /// Bytes that one row takes at the most beside the arrays that are handed in, for key columns of these types. Text and
    /// binary are counted as 64 bytes at the most: longer keys take as much more as they are long.
    #[must_use]
    pub fn row_bytes(key_types: &[DataType]) -> usize {
        // Its key's number and event time; its event time once more while they are put in order, or its place while rows of
        // one key are.
        let row = size_of::<u32>() + size_of::<i64>() + size_of::<Row>();
        row + keys::encoded_bytes(key_types) + keys::PLACE_BYTES + size_of::<Wanting>()
    }

    /// How many rows want to enter.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.batches.iter().map(|batch| batch.keys.len()).sum()
    }

    /// How many distinct keys they have.
    #[must_use]
    pub fn distinct_keys(&self) -> usize {
        self.keys.len()
    }

    /// The distinct keys, as arrays of the key columns' types.
    ///
    /// # Errors
    /// [`Error::Arrow`], which would be a bug: the keys were made from such arrays.
    pub fn keys(&self) -> Result<Vec<ArrayRef>, Error> {
        self.keys.columns()
    }

    /// Bytes held beside the arrays that were handed in.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let batch = |batch: &Batch| batch.keys.capacity() * 4 + batch.event_times.capacity() * 8;
        self.keys.held_bytes()
            + self.batches.iter().map(batch).sum::<usize>()
            + self.wanting.capacity() * size_of::<Wanting>()
            + self.met.capacity() * size_of::<(u32, i64)>()
    }

    /// Adds rows that want to enter. `event_time` is a timestamp in microseconds without nulls, present exactly when there is
    /// a lookback.
    ///
    /// # Errors
    /// [`Error::Shape`] when the arrays do not go together.
    pub fn add(&mut self, key: &[ArrayRef], event_time: Option<&ArrayRef>, origin: Origin) -> Result<(), Error> {
        let event_times = match (self.lookback, event_time) {
            (None, None) => Vec::new(),
            (Some(_), Some(array)) => micros(array)?,
            _ => return Err(Error::Shape("event times come with a lookback, and only then")),
        };
        let rows = origin.rows()?;
        if key.iter().any(|column| column.len() != rows) || (self.lookback.is_some() && event_times.len() != rows) {
            return Err(Error::Shape("the arrays of a batch differ in length"));
        }
        u32::try_from(rows).map_err(|_| Error::TooMany)?;
        u32::try_from(self.batches.len()).map_err(|_| Error::TooMany)?;
        let mut keys = Vec::with_capacity(rows);
        self.keys.add(key, |number| keys.push(number))?;
        let fresh = Wanting { rows: 0, least: i64::MAX, greatest: i64::MIN, taken: false };
        self.wanting.resize(self.keys.len(), fresh);
        for (row, number) in keys.iter().enumerate() {
            if let Some(wanting) = self.wanting.get_mut(*number as usize) {
                wanting.rows = wanting.rows.saturating_add(1);
                if let Some(event_time) = event_times.get(row) {
                    wanting.least = wanting.least.min(*event_time);
                    wanting.greatest = wanting.greatest.max(*event_time);
                }
            }
        }
        self.batches.push(Batch { keys, event_times, origin });
        Ok(())
    }

    /// The spans of event time in which rows of the table can matter, both ends included, in order and apart; `None` when
    /// all rows of the table can.
    #[must_use]
    pub fn event_times(&self) -> Option<Vec<(i64, i64)>> {
        let lookback = self.lookback?;
        let mut times: Vec<i64> = self.batches.iter().flat_map(|batch| batch.event_times.iter().copied()).collect();
        times.sort_unstable();
        let mut spans: Vec<(i64, i64)> = Vec::new();
        for time in times {
            let (start, end) = (time.saturating_sub(lookback), time.saturating_add(lookback));
            match spans.last_mut() {
                Some((_, last)) if start <= last.saturating_add(1) => *last = end.max(*last),
                _ => spans.push((start, end)),
            }
        }
        Some(spans)
    }

    /// Takes in rows of the table, in key columns of the same types. A null event time matches nothing.
    ///
    /// # Errors
    /// As [`Dedup::add`].
    pub fn meet(&mut self, key: &[ArrayRef], event_time: Option<&ArrayRef>) -> Result<(), Error> {
        let Self { keys, lookback, wanting, met, .. } = self;
        match (*lookback, event_time) {
            (None, _) => keys.look_up(key, |_, number| {
                if let Some(wanting) = wanting.get_mut(number as usize) {
                    wanting.taken = true;
                }
            }),
            (Some(_), None) => Err(Error::Shape("event times come with a lookback, and only then")),
            (Some(lookback), Some(array)) => {
                let times = timestamps(array)?;
                keys.look_up(key, |row, number| {
                    let Some(wanting) = wanting.get_mut(number as usize) else { return };
                    if times.is_null(row) || wanting.taken {
                        return;
                    }
                    let Some(time) = times.values().get(row).copied() else { return };
                    let near = time >= wanting.least.saturating_sub(lookback)
                        && time <= wanting.greatest.saturating_add(lookback);
                    if near && wanting.least == wanting.greatest {
                        // Within reach of the only event time there is.
                        wanting.taken = true;
                    } else if near {
                        met.push((number, time));
                    }
                })
            }
        }
    }

    /// Which rows enter, by batch in the order added.
    #[must_use]
    pub fn finish(mut self) -> Vec<BooleanArray> {
        let mut several: Vec<Row> = Vec::new();
        let mut enter: Vec<BooleanBufferBuilder> = Vec::with_capacity(self.batches.len());
        for (at, batch) in (0..).zip(&self.batches) {
            let mut mask = BooleanBufferBuilder::new(batch.keys.len());
            for (row, key) in (0..).zip(&batch.keys) {
                let wanting = self.wanting.get(*key as usize).copied();
                let alone = wanting.is_none_or(|wanting| wanting.rows <= 1);
                let taken = wanting.is_some_and(|wanting| wanting.taken);
                mask.append(alone && !taken);
                if !alone && !taken {
                    let event_time = batch.event_times.get(row as usize).copied().unwrap_or(0);
                    several.push(Row { key: *key, event_time, batch: at, row });
                }
            }
            enter.push(mask);
        }
        self.met.sort_unstable();
        several.sort_unstable_by(|a, b| {
            (a.key, a.event_time).cmp(&(b.key, b.event_time)).then_with(|| self.origin(a).cmp(&self.origin(b)))
        });
        for rows in several.chunk_by(|a, b| a.key == b.key) {
            let mut last: Option<i64> = None;
            for row in rows {
                if self.stays(row, last) {
                    last = Some(row.event_time);
                    if let Some(mask) = enter.get_mut(row.batch as usize) {
                        mask.set_bit(row.row as usize, true);
                    }
                }
            }
        }
        enter.into_iter().map(|mut mask| BooleanArray::new(mask.finish(), None)).collect()
    }

    /// Whether a row stays, given the event time of the last row of its key that does. Rows come in order of event time, so
    /// no earlier one can be nearer.
    fn stays(&self, row: &Row, last: Option<i64>) -> bool {
        let Some(lookback) = self.lookback else { return last.is_none() };
        if last.is_some_and(|last| row.event_time.saturating_sub(last) <= lookback) {
            return false;
        }
        let (from, to) = (row.event_time.saturating_sub(lookback), row.event_time.saturating_add(lookback));
        let first = self.met.partition_point(|(key, time)| (*key, *time) < (row.key, from));
        self.met.get(first).is_none_or(|(key, time)| *key != row.key || *time > to)
    }

    /// What decides between two rows of one event time.
    fn origin(&self, row: &Row) -> (Option<i64>, &str, i32, i64, i32) {
        let at = row.row as usize;
        let Some(batch) = self.batches.get(row.batch as usize) else { return (None, "", 0, 0, 0) };
        let origin = &batch.origin;
        (
            (!origin.timestamps.is_null(at)).then(|| origin.timestamps.value(at)),
            origin.topics.value(at),
            origin.partitions.value(at),
            origin.offsets.value(at),
            origin.ordinals.value(at),
        )
    }
}

fn timestamps(array: &ArrayRef) -> Result<PrimitiveArray<TimestampMicrosecondType>, Error> {
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => Ok(array.as_primitive::<TimestampMicrosecondType>().clone()),
        _ => Err(Error::Shape("an event time is a timestamp in microseconds")),
    }
}

fn micros(array: &ArrayRef) -> Result<Vec<i64>, Error> {
    let times = timestamps(array)?;
    if times.null_count() > 0 {
        return Err(Error::Shape("an event time is null"));
    }
    Ok(times.values().to_vec())
}

#[cfg(test)]
mod tests;

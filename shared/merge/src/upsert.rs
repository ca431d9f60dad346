//! The newest version of each key stays: rows that want to enter, and records that delete, against the rows of the table.
//!
//! The records of a key act one after the other. A row replaces what is there where its `order_by` values are greater (nulls
//! are lowest), or equal and it comes later; else it is superseded. A record that deletes has no such values: it removes what is
//! there where it comes later, and the key begins anew. Of two records of one partition the one of the higher offset comes
//! later, of two of different partitions that of the greater (Kafka timestamp, topic, partition, offset). One record's rows
//! come in their order.
//!
//! Where deletes are soft, what is deleted stays and is marked, and counts as a version of the place of the record that deleted it:
//! a row that comes later takes its place whatever its `order_by` values, one that does not is superseded. A delete that comes
//! later still marks it anew.
//!
//! `order_by` values compare as in SQL: -0.0 and 0.0 are equal, and NaN, whatever its sign, is equal to itself and greatest.
//!
//! Records of one partition act in the order of their offsets; those of several are put together by the greatest timestamp
//! that their partition has shown so far. Where timestamps never run backwards within a partition, no other order could
//! give another result.
//!
//! A row is told from others by where it came from; where the table holds several rows of a key, the newest of them counts, and
//! all of them go together.
//!
//! Use: [`Upsert::add`] for every batch of records, [`Upsert::meet`] for the table's rows (only those with one of
//! [`Upsert::keys`] matter) in any order, [`Upsert::matched`] for where those are whose versions have to be known, then
//! [`Upsert::versions`] for each of these, then [`Upsert::finish`].

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, PrimitiveArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::row::{RowConverter, Rows, SortField};

use crate::keys::{self, Keys};
use crate::{Error, Origin};

/// What becomes of a key's row when a record deletes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletes {
    /// It goes.
    Hard,
    /// It stays, and is marked.
    Soft {
        /// Whether a key that has no row gets one: the record that deletes it, marked by itself.
        makes_rows: bool,
    },
    /// It stays as it is.
    Ignore,
}

/// Decides which rows enter, and which rows of the table go.
#[derive(Debug)]
pub struct Upsert {
    keys: Keys,
    key_bytes: usize,
    order: Option<RowConverter>,
    batches: Vec<Batch>,
    /// The table's rows of those keys.
    stored: Vec<Stored>,
    /// Versions of stored rows, by their place in `stored` once that is in order.
    versions: Vec<Version>,
    /// The encoded `order_by` values of stored rows, end to end.
    orders: Vec<u8>,
    topics: Vec<String>,
    /// Whether `stored` is in order, and `versions` belong to it.
    is_in_order: bool,
}

#[derive(Debug)]
struct Batch {
    keys: Vec<u32>,
    order: Option<Rows>,
    deletes: Option<BooleanArray>,
    origin: Origin,
    epochs: Epochs,
}

/// Which log of its topic and partition each row is of: a topic that was made again begins another, and whatever is of it comes later
/// than all of the one before. Empty where there was one only.
pub type Epochs = Vec<u32>;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stored {
    file: u32,
    position: i64,
    key: u32,
}

/// What is known of a stored row.
#[derive(Clone, Copy, Debug)]
struct Version {
    /// Where its `order_by` values, encoded, begin and end.
    order: (usize, usize),
    /// Whether it is marked as deleted.
    is_deleted: bool,
    timestamp: Option<i64>,
    /// Its place in `topics`; none for rows that no record made.
    topic: Option<u32>,
    partition: i32,
    epoch: u32,
    offset: i64,
}

impl Version {
    /// Of a row of which nothing was said: everything is newer.
    const UNKNOWN: Self =
        Self { order: (0, 0), is_deleted: false, timestamp: None, topic: None, partition: 0, epoch: 0, offset: 0 };
}

/// One record on its way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    key: u32,
    batch: u32,
    row: u32,
}

/// Records that deleted rows of their keys, and are settled: a row of such a key that comes from before one of them was gone by then.
#[derive(Debug)]
pub struct Deletions {
    keys: Keys,
    /// By key number the latest of each partition.
    latest: Vec<Vec<Latest>>,
}

#[derive(Clone, Debug)]
struct Latest {
    timestamp: Option<i64>,
    topic: String,
    partition: i32,
    epoch: u32,
    offset: i64,
    ordinal: i32,
}

impl Latest {
    fn place(&self) -> Place<'_> {
        let Self { timestamp, topic, partition, epoch, offset, ordinal } = self;
        let (partition, epoch, offset, ordinal) = (*partition, *epoch, *offset, *ordinal);
        Place { timestamp: *timestamp, topic: Some(topic), partition, epoch, offset, ordinal }
    }
}

impl Deletions {
    /// For key columns of these types.
    ///
    /// # Errors
    /// [`Error::Arrow`] for a type that has no order.
    pub fn new(key_types: &[DataType]) -> Result<Self, Error> {
        Ok(Self { keys: Keys::new(key_types)?, latest: Vec::new() })
    }

    /// Takes in records that deleted.
    ///
    /// # Errors
    /// [`Error::Shape`] when the arrays do not go together.
    pub fn add(&mut self, key: &[ArrayRef], origin: &Origin, epochs: &Epochs) -> Result<(), Error> {
        let rows = origin.rows()?;
        if key.iter().any(|column| column.len() != rows) {
            return Err(Error::Shape("the arrays of a batch differ in length"));
        }
        let mut numbers = Vec::with_capacity(rows);
        self.keys.add(key, |number| numbers.push(number as usize))?;
        self.latest.resize_with(self.keys.len(), Vec::new);
        for (row, number) in numbers.into_iter().enumerate() {
            let Some(latest) = self.latest.get_mut(number) else { continue };
            let place = origin.place(row, epochs);
            let same =
                latest.iter_mut().find(|l| Some(l.topic.as_str()) == place.topic && l.partition == place.partition);
            let owned = || Latest {
                timestamp: place.timestamp,
                topic: place.topic.unwrap_or_default().to_owned(),
                partition: place.partition,
                epoch: place.epoch,
                offset: place.offset,
                ordinal: place.ordinal,
            };
            match same {
                Some(known) if place.is_later(&known.place()) => *known = owned(),
                Some(_) => {}
                None => latest.push(owned()),
            }
        }
        Ok(())
    }

    /// Which rows come from before a record that deleted their key.
    ///
    /// # Errors
    /// As [`Deletions::add`].
    pub fn before(&mut self, key: &[ArrayRef], origin: &Origin, epochs: &Epochs) -> Result<BooleanArray, Error> {
        let rows = origin.rows()?;
        let mut before = vec![false; rows];
        let Self { keys, latest } = self;
        keys.look_up(key, |row, number| {
            let latest = latest.get(number as usize).map_or(&[][..], Vec::as_slice);
            if let Some(before) = before.get_mut(row) {
                *before = latest.iter().any(|deleted| deleted.place().is_later(&origin.place(row, epochs)));
            }
        })?;
        Ok(BooleanArray::from(before))
    }
}

/// Where a record, or a stored row, comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place<'a> {
    timestamp: Option<i64>,
    /// None for a row that no record made: everything comes later.
    topic: Option<&'a str>,
    partition: i32,
    /// Which log of the partition.
    epoch: u32,
    offset: i64,
    ordinal: i32,
}

impl Place<'_> {
    /// Whether it comes later than another.
    fn is_later(&self, other: &Self) -> bool {
        let within = self.in_log().cmp(&other.in_log());
        let order = match (self.topic, other.topic) {
            (None, _) => Ordering::Less,
            (_, None) => Ordering::Greater,
            (a, b) if (a, self.partition) == (b, other.partition) => within,
            (a, b) => (self.timestamp, a, self.partition).cmp(&(other.timestamp, b, other.partition)).then(within),
        };
        order == Ordering::Greater
    }

    /// Where it is in its partition.
    const fn in_log(&self) -> (u32, i64, i32) {
        (self.epoch, self.offset, self.ordinal)
    }
}

impl Origin {
    fn place(&self, row: usize, epochs: &Epochs) -> Place<'_> {
        Place {
            epoch: epochs.get(row).copied().unwrap_or(0),
            timestamp: self.timestamps.is_valid(row).then(|| self.timestamps.value(row)),
            topic: Some(self.topics.value(row)),
            partition: self.partitions.value(row),
            offset: self.offsets.value(row),
            ordinal: self.ordinals.value(row),
        }
    }
}

/// What a record came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its row enters, and none of its key was in the table.
    Added,
    /// Its row enters in place of one.
    Updated,
    /// It deletes a row of the table, or marks it or one that enters. One that enters as a row itself, marked, is `Added`.
    Deleted,
    /// Another record of its key comes later, or is newer; or there was nothing to delete.
    Superseded,
}

/// A row of the table that goes, and enters again marked as deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marked {
    /// Its file, and its position there.
    pub file: u32,
    /// See `file`.
    pub position: i64,
    /// Batch and row of the record that deletes it.
    pub by: (usize, usize),
}

/// What was decided.
#[derive(Debug)]
pub struct Outcome {
    /// Which rows enter, by batch in the order added.
    pub enter: Vec<BooleanArray>,
    /// Of the rows that enter those that are marked as deleted: batch and row, and those of the record that deletes it. Both are the
    /// same where a record that deletes is the row.
    pub entering_marked: Vec<((usize, usize), (usize, usize))>,
    /// What each record came to, by batch in the order added.
    pub fates: Vec<Vec<Fate>>,
    /// Rows of the table that go, in order of files and positions: (file, position).
    pub removed: Vec<(u32, i64)>,
    /// Of the rows that go those that enter again, marked.
    pub marked: Vec<Marked>,
    /// Rows of the table that go without another in their place, by the record (batch and row) that made them go.
    pub gone: BTreeMap<(usize, usize), u64>,
}

/// What is there of a key, while its records act.
#[derive(Clone, Copy, Debug)]
enum There {
    Nothing,
    /// Nothing any more, and by which record.
    Gone(Record),
    /// The newest stored row.
    Stored(usize),
    Row(Record),
    /// A marked one, and by which record.
    MarkedStored(usize, Record),
    MarkedRow(Record, Record),
}

/// An outcome that is being worked out.
struct Decided {
    enter: Vec<BooleanBufferBuilder>,
    entering_marked: Vec<((usize, usize), (usize, usize))>,
    fates: Vec<Vec<Fate>>,
    removed: Vec<(u32, i64)>,
    marked: Vec<Marked>,
    gone: BTreeMap<(usize, usize), u64>,
}

impl Decided {
    fn enter(&mut self, record: Record, fate: Fate) {
        if let Some(mask) = self.enter.get_mut(record.batch as usize) {
            mask.set_bit(record.row as usize, true);
        }
        self.fate(record, fate);
    }

    fn fate(&mut self, record: Record, fate: Fate) {
        let (batch, row) = record.at();
        if let Some(place) = self.fates.get_mut(batch).and_then(|fates| fates.get_mut(row)) {
            *place = fate;
        }
    }
}

impl Record {
    const fn at(self) -> (usize, usize) {
        (self.batch as usize, self.row as usize)
    }
}

impl Upsert {
    /// For key columns and `order_by` columns of these types.
    ///
    /// # Errors
    /// [`Error::Arrow`] for a type that has no order.
    pub fn new(key_types: &[DataType], order_types: &[DataType]) -> Result<Self, Error> {
        if key_types.is_empty() {
            return Err(Error::Shape("a key has at least one column"));
        }
        let lowest = SortOptions { descending: false, nulls_first: true };
        let fields: Vec<SortField> =
            order_types.iter().map(|t| SortField::new_with_options(t.clone(), lowest)).collect();
        let order = if fields.is_empty() { None } else { Some(RowConverter::new(fields)?) };
        Ok(Self {
            keys: Keys::new(key_types)?,
            key_bytes: keys::encoded_bytes(key_types),
            order,
            batches: Vec::new(),
            stored: Vec::new(),
            versions: Vec::new(),
            orders: Vec::new(),
            topics: Vec::new(),
            is_in_order: true,
        })
    }

    /// Makes room for this many more records, in this many more batches.
    pub fn reserve(&mut self, records: usize, batches: usize) {
        self.keys.reserve(records, self.key_bytes);
        self.batches.reserve(batches);
    }

    /// Bytes that one record takes at the most beside the arrays that are handed in, with one row of the table that has its key:
    /// for key and order columns of these types. Text and binary are counted as 64 bytes at the most.
    #[must_use]
    pub fn record_bytes(key_types: &[DataType], order_types: &[DataType]) -> usize {
        let order =
            if order_types.is_empty() { 0 } else { 2 * (keys::encoded_bytes(order_types) + size_of::<usize>()) };
        let record = size_of::<u32>() + size_of::<Record>() + size_of::<Fate>() + size_of::<usize>();
        let stored = size_of::<Stored>()
            + size_of::<Version>()
            + size_of::<(u32, i64)>()
            + size_of::<u32>()
            + size_of::<usize>();
        record + stored + order + keys::encoded_bytes(key_types) + keys::PLACE_BYTES
    }

    /// How many records act.
    #[must_use]
    pub fn records(&self) -> usize {
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

    /// Adds records. `deletes` says which of them delete; none where it is absent. What `order_by` holds of these does not matter.
    ///
    /// # Errors
    /// [`Error::Shape`] when the arrays do not go together.
    pub fn add(
        &mut self,
        key: &[ArrayRef],
        order_by: &[ArrayRef],
        deletes: Option<BooleanArray>,
        origin: Origin,
        epochs: Epochs,
    ) -> Result<(), Error> {
        let rows = origin.rows()?;
        let uneven = !epochs.is_empty() && epochs.len() != rows
            || key.iter().chain(order_by).any(|column| column.len() != rows)
            || deletes.as_ref().is_some_and(|deletes| deletes.len() != rows || deletes.null_count() > 0);
        if uneven {
            return Err(Error::Shape("the arrays of a batch differ in length"));
        }
        u32::try_from(rows).map_err(|_| Error::TooMany)?;
        u32::try_from(self.batches.len()).map_err(|_| Error::TooMany)?;
        let order = self.order_of(order_by)?;
        let mut keys = Vec::with_capacity(rows);
        self.keys.add(key, |number| keys.push(number))?;
        self.batches.push(Batch { keys, order, deletes, origin, epochs });
        Ok(())
    }

    fn order_of(&self, order_by: &[ArrayRef]) -> Result<Option<Rows>, Error> {
        match &self.order {
            None if order_by.is_empty() => Ok(None),
            Some(order) if !order_by.is_empty() => {
                let columns: Vec<ArrayRef> = order_by.iter().map(plain).collect();
                Ok(Some(order.convert_columns(&columns)?))
            }
            _ => Err(Error::Shape("records are ordered by the columns that were said")),
        }
    }

    /// Takes in rows of the table, in key columns of the same types: their file, and their positions there. Each row comes once.
    ///
    /// # Errors
    /// As [`Upsert::add`].
    pub fn meet(&mut self, key: &[ArrayRef], file: u32, positions: &[i64]) -> Result<(), Error> {
        if key.iter().any(|column| column.len() != positions.len()) {
            return Err(Error::Shape("each row of the table has a position"));
        }
        let Self { keys, stored, .. } = self;
        let before = stored.len();
        keys.look_up(key, |row, key| {
            if let Some(position) = positions.get(row) {
                stored.push(Stored { file, position: *position, key });
            }
        })?;
        self.is_in_order &= stored.len() == before;
        Ok(())
    }

    /// The table's rows that have one of the keys: by file their positions, ascending.
    pub fn matched(&mut self) -> BTreeMap<u32, Vec<i64>> {
        self.put_in_order();
        let mut matched: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
        for files in self.stored.chunk_by(|a, b| a.file == b.file) {
            let Some(first) = files.first() else { continue };
            matched.insert(first.file, files.iter().map(|row| row.position).collect());
        }
        matched
    }

    fn put_in_order(&mut self) {
        if !self.is_in_order {
            self.stored.sort_unstable();
            self.is_in_order = true;
        }
        self.versions.resize(self.stored.len(), Version::UNKNOWN);
    }

    /// Says of which version some of the matched rows are: rows of one file, with where they came from. Rows that no record made
    /// have a null topic, or offset. `deleted` says which are marked as deleted.
    ///
    /// # Errors
    /// As [`Upsert::add`].
    pub fn versions(
        &mut self,
        file: u32,
        positions: &[i64],
        order_by: &[ArrayRef],
        deleted: Option<&BooleanArray>,
        origin: &Origin,
        epochs: &Epochs,
    ) -> Result<(), Error> {
        let rows = origin.rows()?;
        let uneven = !epochs.is_empty() && epochs.len() != rows
            || order_by.iter().any(|column| column.len() != rows)
            || positions.len() != rows
            || deleted.is_some_and(|deleted| deleted.len() != rows);
        if uneven {
            return Err(Error::Shape("the arrays of a batch differ in length"));
        }
        self.put_in_order();
        let order = self.order_of(order_by)?;
        let mut last: Option<(String, u32)> = None;
        for (row, position) in positions.iter().enumerate() {
            let found = self.stored.binary_search_by(|stored| (stored.file, stored.position).cmp(&(file, *position)));
            let Some(version) = found.ok().and_then(|at| self.versions.get_mut(at)) else { continue };
            let is_ours =
                origin.topics.is_valid(row) && origin.partitions.is_valid(row) && origin.offsets.is_valid(row);
            let topic = is_ours.then(|| origin.topics.value(row));
            let topic = topic.map(|topic| match &last {
                Some((known, number)) if known == topic => *number,
                _ => {
                    let number = self.topics.iter().position(|known| known == topic).unwrap_or_else(|| {
                        self.topics.push(topic.to_owned());
                        self.topics.len() - 1
                    });
                    let number = u32::try_from(number).unwrap_or(u32::MAX);
                    last = Some((topic.to_owned(), number));
                    number
                }
            });
            let from = self.orders.len();
            if let Some(order) = &order {
                self.orders.extend_from_slice(order.row(row).data());
            }
            *version = Version {
                order: (from, self.orders.len()),
                is_deleted: deleted.is_some_and(|deleted| deleted.is_valid(row) && deleted.value(row)),
                timestamp: origin.timestamps.is_valid(row).then(|| origin.timestamps.value(row)),
                topic,
                partition: if is_ours { origin.partitions.value(row) } else { 0 },
                epoch: epochs.get(row).copied().unwrap_or(0),
                offset: if is_ours { origin.offsets.value(row) } else { 0 },
            };
        }
        Ok(())
    }

    /// What becomes of every record, and of the table's rows.
    #[must_use]
    pub fn finish(mut self, how: Deletes) -> Outcome {
        self.put_in_order();
        let mut stored = ByKey::new(self.keys.len(), self.stored.iter().map(|stored| stored.key), 0_u32);
        (0..).zip(&self.stored).for_each(|(at, row)| stored.put(row.key, at));
        let all = self.batches.iter().flat_map(|batch| batch.keys.iter().copied());
        let mut records = ByKey::new(self.keys.len(), all, Record { key: 0, batch: 0, row: 0 });
        for (batch, keys) in (0..).zip(self.batches.iter().map(|batch| &batch.keys)) {
            (0..).zip(keys).for_each(|(row, key)| records.put(*key, Record { key: *key, batch, row }));
        }
        let mut decided = Decided {
            enter: self.batches.iter().map(|batch| mask(batch.keys.len())).collect(),
            fates: self.batches.iter().map(|batch| vec![Fate::Superseded; batch.keys.len()]).collect(),
            entering_marked: Vec::new(),
            removed: Vec::new(),
            marked: Vec::new(),
            gone: BTreeMap::new(),
        };
        for key in 0..self.keys.len() {
            let records = records.of(key);
            self.put_together(records);
            self.decide(records, stored.of(key), how, &mut decided);
        }
        decided.removed.sort_unstable();
        decided.marked.sort_unstable_by_key(|marked| (marked.file, marked.position));
        Outcome {
            enter: decided.enter.into_iter().map(|mut mask| BooleanArray::new(mask.finish(), None)).collect(),
            entering_marked: decided.entering_marked,
            fates: decided.fates,
            removed: decided.removed,
            marked: decided.marked,
            gone: decided.gone,
        }
    }

    /// Puts the records of a key in the order in which they act.
    fn put_together(&self, records: &mut [Record]) {
        if records.len() < 2 {
            return;
        }
        let at = |record: &Record| self.place(*record);
        records.sort_by(|a, b| {
            let (a, b) = (at(a), at(b));
            (a.topic, a.partition, a.in_log()).cmp(&(b.topic, b.partition, b.in_log()))
        });
        let same = |a: &Record, b: &Record| {
            let (a, b) = (at(a), at(b));
            (a.topic, a.partition) == (b.topic, b.partition)
        };
        if records.chunk_by(same).count() < 2 {
            return;
        }
        let mut shown: Vec<(Option<i64>, usize, Record)> = Vec::with_capacity(records.len());
        for (number, partition) in records.chunk_by(same).enumerate() {
            let mut greatest = None;
            for record in partition {
                greatest = at(record).timestamp.max(greatest);
                shown.push((greatest, number, *record));
            }
        }
        // Stable, and partitions are numbered in their order.
        shown.sort_by_key(|(timestamp, number, _)| (*timestamp, *number));
        for (to, (.., record)) in records.iter_mut().zip(shown) {
            *to = record;
        }
    }

    fn decide(&self, records: &[Record], stored: &[u32], how: Deletes, decided: &mut Decided) {
        let newest = stored.iter().map(|at| *at as usize).reduce(|a, b| if self.is_newer(b, a) { b } else { a });
        let mut there = newest.map_or(There::Nothing, There::Stored);
        for record in records {
            there = match self.deletes(*record) {
                true => self.after_delete(there, *record, how),
                false => self.after_row(there, *record),
            };
        }
        let fate = if newest.is_some() { Fate::Updated } else { Fate::Added };
        let by = match there {
            There::Nothing | There::Stored(_) => return,
            There::Gone(_) if newest.is_none() => return,
            There::Gone(by) => {
                decided.fate(by, Fate::Deleted);
                by
            }
            There::Row(row) => {
                decided.enter(row, fate);
                row
            }
            There::MarkedRow(row, by) => {
                decided.fate(by, Fate::Deleted);
                decided.enter(row, fate);
                decided.entering_marked.push((row.at(), by.at()));
                row
            }
            There::MarkedStored(at, by) => {
                decided.fate(by, Fate::Deleted);
                if let Some(Stored { file, position, .. }) = self.stored.get(at).copied() {
                    decided.marked.push(Marked { file, position, by: by.at() });
                }
                by
            }
        };
        let rows = stored.iter().filter_map(|at| self.stored.get(*at as usize));
        decided.removed.extend(rows.map(|row| (row.file, row.position)));
        let in_place = u64::from(!matches!(there, There::Gone(_)));
        let gone = (stored.len() as u64).saturating_sub(in_place);
        if gone > 0 {
            decided.gone.insert(by.at(), gone);
        }
    }

    fn after_delete(&self, there: There, record: Record, how: Deletes) -> There {
        let is_after = match there {
            _ if how == Deletes::Ignore => false,
            There::Stored(at) => self.comes_after(record, at),
            There::Row(other) | There::MarkedStored(_, other) | There::MarkedRow(_, other) => {
                self.place(record).is_later(&self.place(other))
            }
            There::Nothing => matches!(how, Deletes::Soft { makes_rows: true }),
            There::Gone(_) => false,
        };
        match (there, how) {
            _ if !is_after => there,
            (There::Nothing, _) => There::MarkedRow(record, record),
            (There::Stored(at) | There::MarkedStored(at, _), Deletes::Soft { .. }) => There::MarkedStored(at, record),
            (There::MarkedRow(row, by), Deletes::Soft { .. }) if row == by => There::MarkedRow(record, record),
            (There::Row(row) | There::MarkedRow(row, _), Deletes::Soft { .. }) => There::MarkedRow(row, record),
            _ => There::Gone(record),
        }
    }

    fn after_row(&self, there: There, record: Record) -> There {
        let enters = match there {
            There::Nothing | There::Gone(_) | There::MarkedStored(..) | There::MarkedRow(..) => true,
            There::Stored(at) if self.version(at).is_deleted => self.comes_after(record, at),
            There::Stored(at) => match self.order(record).cmp(self.stored_order(at)) {
                Ordering::Equal => self.comes_after(record, at),
                order => order == Ordering::Greater,
            },
            There::Row(row) => match self.order(record).cmp(self.order(row)) {
                Ordering::Equal => self.place(record).is_later(&self.place(row)),
                order => order == Ordering::Greater,
            },
        };
        if enters { There::Row(record) } else { there }
    }

    fn version(&self, at: usize) -> &Version {
        self.versions.get(at).unwrap_or(&Version::UNKNOWN)
    }

    fn stored_order(&self, at: usize) -> &[u8] {
        let (from, to) = self.version(at).order;
        self.orders.get(from..to).unwrap_or_default()
    }

    fn stored_place(&self, at: usize) -> Place<'_> {
        let version = self.version(at);
        Place {
            timestamp: version.timestamp,
            topic: version.topic.and_then(|topic| self.topics.get(topic as usize)).map(String::as_str),
            partition: version.partition,
            epoch: version.epoch,
            offset: version.offset,
            // Rows of the table do not say which of their record's they are: the last one that acted.
            ordinal: i32::MAX,
        }
    }

    /// Whether one stored row counts before another of its key.
    fn is_newer(&self, at: usize, other: usize) -> bool {
        match self.stored_order(at).cmp(self.stored_order(other)) {
            Ordering::Equal => self.stored_place(at).is_later(&self.stored_place(other)),
            order => order == Ordering::Greater,
        }
    }

    fn place(&self, record: Record) -> Place<'_> {
        const NOWHERE: Place<'_> =
            Place { timestamp: None, topic: None, partition: 0, epoch: 0, offset: 0, ordinal: 0 };
        let row = record.row as usize;
        self.batches.get(record.batch as usize).map_or(NOWHERE, |batch| batch.origin.place(row, &batch.epochs))
    }

    fn deletes(&self, record: Record) -> bool {
        let deletes = self.batches.get(record.batch as usize).and_then(|batch| batch.deletes.as_ref());
        deletes.is_some_and(|deletes| deletes.value(record.row as usize))
    }

    fn order(&self, record: Record) -> &[u8] {
        let order = self.batches.get(record.batch as usize).and_then(|batch| batch.order.as_ref());
        order.map_or(&[], |order| order.row(record.row as usize).data())
    }

    fn comes_after(&self, record: Record, at: usize) -> bool {
        self.place(record).is_later(&self.stored_place(at))
    }
}

/// Things of numbered keys, those of one key together, in the order in which they came.
struct ByKey<T> {
    things: Vec<T>,
    /// By key where the next thing goes: in the end where the key's things end.
    ends: Vec<usize>,
}

impl<T: Copy> ByKey<T> {
    /// Makes room for things of these keys, of so many that there are. `none` stands where none was put yet.
    fn new(keys: usize, of: impl Iterator<Item = u32>, none: T) -> Self {
        let mut ends = vec![0; keys];
        let mut all: usize = 0;
        for key in of {
            if let Some(things) = ends.get_mut(key as usize) {
                *things += 1;
                all += 1;
            }
        }
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        Self { things: vec![none; all], ends }
    }

    fn put(&mut self, key: u32, thing: T) {
        let Some(next) = self.ends.get_mut(key as usize) else { return };
        if let Some(place) = self.things.get_mut(*next) {
            *place = thing;
            *next += 1;
        }
    }

    /// Those of a key, once all were put.
    fn of(&mut self, key: usize) -> &mut [T] {
        let start = key.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(key).copied().unwrap_or(start);
        self.things.get_mut(start..end).unwrap_or_default()
    }
}

/// A column whose floating-point values that compare as equal are the same: of all zeros the positive one, of all NaNs one that is
/// greater than every number.
fn plain(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float32 => {
            let floats: PrimitiveArray<Float32Type> =
                column.as_primitive::<Float32Type>().unary(|x| if x.is_nan() { f32::NAN } else { x + 0.0 });
            Arc::new(floats)
        }
        DataType::Float64 => {
            let floats: PrimitiveArray<Float64Type> =
                column.as_primitive::<Float64Type>().unary(|x| if x.is_nan() { f64::NAN } else { x + 0.0 });
            Arc::new(floats)
        }
        _ => Arc::clone(column),
    }
}

fn mask(rows: usize) -> BooleanBufferBuilder {
    let mut mask = BooleanBufferBuilder::new(rows);
    mask.append_n(rows, false);
    mask
}

#[cfg(test)]
mod tests;

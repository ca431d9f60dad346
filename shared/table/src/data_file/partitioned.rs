//! Rows of any partition: grouped, sorted and written within a bound of memory.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{concat, concat_batches, interleave, take_record_batch};
use arrow::datatypes::DataType;
use iceberg::spec::{DataFile, Struct};

use super::{FileWriter, Target};
use crate::fault::Fault;
use crate::partition::Partitioner;
use crate::sort::Sorter;

/// Holds rows until all have come or memory is short, then writes them partition by partition, each in the table's sort
/// order. A partition that is written more than once in a run gets more than one file, each sorted in itself.
///
/// A batch is put in order of its partitions as it comes, while it is in the processor's cache: later each partition's
/// rows are runs that lie side by side, and nothing is gathered row by row from all over memory.
///
/// Memory: the batches as they came (shared buffers counted once), at most `memory_bytes` plus one batch; beside it one
/// row group in the making and one partition's sort keys.
#[derive(Debug)]
pub struct PartitionedWriter {
    target: Arc<Target>,
    partitioner: Partitioner,
    sorter: Sorter,
    memory_bytes: usize,
    batches: Vec<RecordBatch>,
    /// The sort keys of each batch.
    keys: Vec<Vec<ArrayRef>>,
    /// For each partition number, where its rows are, in the order they came.
    runs: Vec<Vec<Run>>,
    held: Held,
    files: Vec<DataFile>,
}

/// Rows of one batch that lie side by side.
#[derive(Clone, Copy, Debug)]
struct Run {
    batch: u32,
    first: u32,
    rows: u32,
}

/// Rows are put together and encoded so many at a time: few enough for a processor's cache, enough to spread the cost
/// of looking at every batch.
const CHUNK_ROWS: usize = 16 * 1024;
/// Partitions open at once. Beyond, all are written: their lists and files would cost more than their rows.
const PARTITIONS_MAX: usize = 64 * 1024;

fn outside() -> Fault {
    Fault::Mismatch("a row lies outside the batches held".to_owned())
}

impl PartitionedWriter {
    /// A writer that keeps at most about `memory_bytes` of rows.
    ///
    /// # Errors
    /// [`Fault::Request`] when the spec or the order does not fit the schema.
    pub fn new(target: Arc<Target>, memory_bytes: usize) -> Result<Self, Fault> {
        let partitioner = Partitioner::new(&target.spec, &target.schema)?;
        let sorter = Sorter::new(&target.order, &target.schema)?;
        Ok(Self {
            target,
            partitioner,
            sorter,
            memory_bytes,
            batches: Vec::new(),
            keys: Vec::new(),
            runs: Vec::new(),
            held: Held::default(),
            files: Vec::new(),
        })
    }

    /// Adds rows, in [`Target::arrow_schema`].
    ///
    /// # Errors
    /// As [`FileWriter::write`] and the partition transforms.
    pub async fn write(&mut self, batch: RecordBatch) -> Result<(), Fault> {
        self.write_some(batch, None).await
    }

    /// As [`PartitionedWriter::write`], but only rows of a mask (without nulls, as long as the batch). That costs less than
    /// a batch without the others: rows are put in order anyway.
    ///
    /// # Errors
    /// As [`PartitionedWriter::write`], and [`Fault::Mismatch`] when mask and batch differ in length.
    pub async fn write_some(&mut self, batch: RecordBatch, wanted: Option<&BooleanArray>) -> Result<(), Fault> {
        if wanted.is_some_and(|wanted| wanted.len() != batch.num_rows()) {
            return Err(Fault::Mismatch("a mask is not as long as its batch".to_owned()));
        }
        if wanted.map_or(batch.num_rows(), BooleanArray::true_count) == 0 {
            return Ok(());
        }
        let too_many = || Fault::Mismatch("more than 2^32 batches or rows of a batch are held at once".to_owned());
        let at = u32::try_from(self.batches.len()).map_err(|_| too_many())?;
        u32::try_from(batch.num_rows()).map_err(|_| too_many())?;
        let mut numbers = self.partitioner.assign(&batch)?;
        let partitions = self.partitioner.len();
        self.runs.resize_with(partitions, Vec::new);
        let unwanted = wanted.filter(|wanted| wanted.true_count() < wanted.len());
        if let Some(wanted) = unwanted {
            // The others come last, behind all partitions, where they are cut off.
            let behind = u32::try_from(partitions).map_err(|_| too_many())?;
            numbers.iter_mut().zip(wanted.values()).filter(|(_, wanted)| !wanted).for_each(|(n, _)| *n = behind);
        }
        let mut clusters = Clusters::of(&numbers, partitions + usize::from(unwanted.is_some()));
        if unwanted.is_some() {
            clusters.cut_last(numbers.len());
        }
        let batch = match clusters.order {
            None => batch,
            Some(order) => take_record_batch(&batch, &UInt32Array::from(order))?,
        };
        let mut first = 0;
        for (number, rows) in clusters.sizes {
            if let Some(runs) = self.runs.get_mut(number as usize) {
                runs.push(Run { batch: at, first, rows });
                self.held.runs += 1;
            }
            first += rows;
        }
        self.keys.push(self.sorter.keys(&batch)?);
        self.held.add(&batch);
        self.batches.push(batch);
        if self.partitioner.len() >= PARTITIONS_MAX {
            self.write_all().await?;
        } else if self.held.bytes() > self.memory_bytes {
            self.make_room().await?;
        }
        Ok(())
    }

    /// Writes what is left and returns all files.
    ///
    /// # Errors
    /// As [`FileWriter::write`].
    pub async fn finish(mut self) -> Result<Vec<DataFile>, Fault> {
        self.write_all().await?;
        Ok(self.files)
    }

    async fn write_all(&mut self) -> Result<(), Fault> {
        for number in 0..self.runs.len() {
            self.write_partition(number).await?;
        }
        self.batches.clear();
        self.keys.clear();
        self.runs.clear();
        self.partitioner.clear();
        self.held = Held::default();
        Ok(())
    }

    /// Writes the largest partitions until half of the rows are gone, and copies the others' rows into one batch, so that
    /// the old ones can be let go.
    async fn make_room(&mut self) -> Result<(), Fault> {
        let rows_of = |runs: &Vec<Run>| runs.iter().map(|run| run.rows as usize).sum::<usize>();
        let sizes: Vec<usize> = self.runs.iter().map(rows_of).collect();
        let total: usize = sizes.iter().sum();
        let mut order: Vec<(usize, usize)> = sizes.into_iter().enumerate().collect();
        order.sort_by_key(|(_, rows)| std::cmp::Reverse(*rows));
        let mut left = total;
        for (number, rows) in order {
            if left <= total / 2 {
                break;
            }
            left -= rows;
            self.write_partition(number).await?;
        }
        let mut kept: Vec<RecordBatch> = Vec::new();
        let mut first = 0;
        let mut held = Held::default();
        for runs in &mut self.runs {
            for run in runs.iter() {
                kept.push(slice(&self.batches, *run)?);
            }
            let rows = rows_of(runs) as u32;
            if rows > 0 {
                *runs = vec![Run { batch: 0, first, rows }];
                held.runs += 1;
            }
            first += rows;
        }
        let gathered =
            if kept.is_empty() { None } else { Some(compacted(&concat_batches(&self.target.arrow, &kept)?)?) };
        self.batches = gathered.into_iter().collect();
        self.keys = self.batches.iter().map(|batch| self.sorter.keys(batch)).collect::<Result<_, _>>()?;
        self.batches.iter().for_each(|batch| held.add(batch));
        self.held = held;
        Ok(())
    }

    async fn write_partition(&mut self, number: usize) -> Result<(), Fault> {
        let runs = match self.runs.get_mut(number) {
            Some(runs) if !runs.is_empty() => std::mem::take(runs),
            _ => return Ok(()),
        };
        let partition = u32::try_from(number).ok().and_then(|number| self.partitioner.tuple(number)).cloned();
        let partition = partition.unwrap_or_else(Struct::empty);
        let rows = runs.iter().map(|run| run.rows as usize).sum();
        let mut writer = FileWriter::new(Arc::clone(&self.target), partition, rows);
        let order = if self.sorter.is_unsorted() { None } else { self.sorter.permutation(&self.sort_keys(&runs)?)? };
        match order {
            None => self.write_as_they_came(&runs, &mut writer).await?,
            Some(order) => self.write_ordered(&runs, &order, &mut writer).await?,
        }
        self.files.extend(writer.finish().await?);
        Ok(())
    }

    async fn write_as_they_came(&self, runs: &[Run], writer: &mut FileWriter) -> Result<(), Fault> {
        let mut chunk: Vec<RecordBatch> = Vec::new();
        let mut rows = 0;
        for run in runs {
            let mut rest = slice(&self.batches, *run)?;
            while rows + rest.num_rows() >= CHUNK_ROWS {
                let head = CHUNK_ROWS - rows;
                chunk.push(rest.slice(0, head));
                rest = rest.slice(head, rest.num_rows() - head);
                writer.write(&concat_batches(&self.target.arrow, &chunk)?).await?;
                chunk.clear();
                rows = 0;
            }
            rows += rest.num_rows();
            chunk.push(rest);
        }
        writer.write(&concat_batches(&self.target.arrow, &chunk)?).await
    }

    async fn write_ordered(&self, runs: &[Run], order: &[u32], writer: &mut FileWriter) -> Result<(), Fault> {
        let slices = runs.iter().map(|run| slice(&self.batches, *run)).collect::<Result<Vec<_>, _>>()?;
        // (Slice, row in it) of each row as they came.
        let places: Vec<(usize, usize)> =
            slices.iter().enumerate().flat_map(|(at, slice)| (0..slice.num_rows()).map(move |row| (at, row))).collect();
        for chunk in order.chunks(CHUNK_ROWS) {
            writer.write(&self.gather(&slices, &places, chunk)?).await?;
        }
        Ok(())
    }

    /// The sort keys of a partition's rows, as they came.
    fn sort_keys(&self, runs: &[Run]) -> Result<Vec<ArrayRef>, Fault> {
        let fields = self.keys.first().map_or(0, Vec::len);
        (0..fields)
            .map(|field| {
                let slices = runs.iter().map(|run| {
                    let keys =
                        self.keys.get(run.batch as usize).and_then(|keys| keys.get(field)).ok_or_else(outside)?;
                    Ok(keys.slice(run.first as usize, run.rows as usize))
                });
                let slices = slices.collect::<Result<Vec<ArrayRef>, Fault>>()?;
                let arrays: Vec<&dyn Array> = slices.iter().map(AsRef::as_ref).collect();
                Ok(concat(&arrays)?)
            })
            .collect()
    }

    /// Rows from all over a partition's slices as one batch.
    fn gather(&self, slices: &[RecordBatch], places: &[(usize, usize)], order: &[u32]) -> Result<RecordBatch, Fault> {
        // Only the slices that rows come from are looked at: with many of them the looking would cost more than the rows.
        let mut slots: Vec<Option<usize>> = vec![None; slices.len()];
        let mut used: Vec<&RecordBatch> = Vec::new();
        let mut within: Vec<(usize, usize)> = Vec::with_capacity(order.len());
        for row in order {
            let (slice, row) = places.get(*row as usize).ok_or_else(outside)?;
            let slot = slots.get_mut(*slice).ok_or_else(outside)?;
            let at = match slot {
                Some(at) => *at,
                None => {
                    used.push(slices.get(*slice).ok_or_else(outside)?);
                    *slot.insert(used.len() - 1)
                }
            };
            within.push((at, *row));
        }
        let columns = (0..self.target.arrow.fields().len()).map(|column| {
            let arrays: Vec<&dyn Array> =
                used.iter().filter_map(|batch| batch.columns().get(column)).map(AsRef::as_ref).collect();
            Ok(interleave(&arrays, &within)?)
        });
        let columns = columns.collect::<Result<Vec<_>, Fault>>()?;
        RecordBatch::try_new(Arc::clone(&self.target.arrow), columns)
            .map_err(|fault| Fault::Mismatch(fault.to_string()))
    }
}

/// How a batch's rows come together by partition.
struct Clusters {
    /// Which row comes where, rows of one partition in the order they came; absent when they are together already.
    order: Option<Vec<u32>>,
    /// (Partition number, rows), in order.
    sizes: Vec<(u32, u32)>,
}

impl Clusters {
    /// From each row's partition number; a batch has at most 2^32 rows.
    fn of(numbers: &[u32], partitions: usize) -> Self {
        if numbers.is_sorted() {
            return Self { order: None, sizes: sizes(numbers) };
        }
        if partitions > numbers.len() * 4 {
            // Counting would cost more than sorting.
            let mut pairs: Vec<(u32, u32)> = numbers.iter().copied().zip(0..).collect();
            pairs.sort_unstable();
            let (sorted, order): (Vec<u32>, Vec<u32>) = pairs.into_iter().unzip();
            return Self { order: Some(order), sizes: sizes(&sorted) };
        }
        let mut places = vec![0u32; partitions];
        for number in numbers {
            if let Some(count) = places.get_mut(*number as usize) {
                *count += 1;
            }
        }
        let sizes = (0..).zip(places.iter().copied()).filter(|(_, rows)| *rows > 0).collect();
        let mut next = 0;
        for place in &mut places {
            next += std::mem::replace(place, next);
        }
        let mut order = vec![0u32; numbers.len()];
        for (row, number) in (0..).zip(numbers) {
            if let Some(place) = places.get_mut(*number as usize) {
                if let Some(slot) = order.get_mut(*place as usize) {
                    *slot = row;
                }
                *place += 1;
            }
        }
        Self { order: Some(order), sizes }
    }
}

impl Clusters {
    /// Leaves out the last partition's rows, of a batch of so many.
    fn cut_last(&mut self, rows: usize) {
        let last = self.sizes.pop().map_or(0, |(_, rows)| rows as usize);
        let order = self.order.get_or_insert_with(|| (0..).take(rows).collect());
        order.truncate(rows - last);
    }
}

fn sizes(sorted: &[u32]) -> Vec<(u32, u32)> {
    sorted.chunk_by(|a, b| a == b).filter_map(|run| Some((*run.first()?, run.len() as u32))).collect()
}

fn slice(batches: &[RecordBatch], run: Run) -> Result<RecordBatch, Fault> {
    let batch = batches.get(run.batch as usize).ok_or_else(outside)?;
    Ok(batch.slice(run.first as usize, run.rows as usize))
}

/// A batch whose views hold on to no more text than they show.
fn compacted(batch: &RecordBatch) -> Result<RecordBatch, Fault> {
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()) as ArrayRef,
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => Arc::clone(column),
    });
    Ok(RecordBatch::try_new(batch.schema(), columns.collect())?)
}

/// The memory behind batches, each buffer once however many arrays share it.
#[derive(Debug, Default)]
struct Held {
    seen: HashSet<usize>,
    buffers: usize,
    runs: usize,
}

impl Held {
    fn add(&mut self, batch: &RecordBatch) {
        for column in batch.columns() {
            self.add_data(&column.to_data());
        }
    }

    // Schemas nest at most as deep as `schema::align` allows.
    fn add_data(&mut self, data: &ArrayData) {
        let nulls = data.nulls().map(|nulls| nulls.buffer());
        for buffer in data.buffers().iter().chain(nulls) {
            if self.seen.insert(buffer.data_ptr().as_ptr() as usize) {
                self.buffers += buffer.capacity();
            }
        }
        data.child_data().iter().for_each(|child| self.add_data(child));
    }

    const fn bytes(&self) -> usize {
        self.buffers + self.runs * size_of::<Run>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_together_by_partition_and_keep_their_order_within() {
        for (rows, partitions) in [(1, 1), (5, 1000), (100, 3), (1000, 1000), (1000, 7), (50, 60_000)] {
            let mixed = |n: u32| (n.wrapping_mul(0x9e37_79b9) >> 7) % partitions;
            let mut numbers: Vec<u32> = (0..rows).map(mixed).collect();
            for sorted in [false, true] {
                if sorted {
                    numbers.sort_unstable();
                }
                let clusters = Clusters::of(&numbers, partitions as usize);
                let order = clusters.order.unwrap_or_else(|| (0..rows).collect());
                let mut expected: Vec<u32> = (0..rows).collect();
                expected.sort_by_key(|row| numbers[*row as usize]);
                assert_eq!(order, expected);
                let laid_out =
                    clusters.sizes.iter().flat_map(|(number, rows)| std::iter::repeat_n(*number, *rows as usize));
                assert!(laid_out.eq(order.iter().map(|row| numbers[*row as usize])));
            }
        }
    }
}

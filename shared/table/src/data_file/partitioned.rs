//! Rows of any partition: grouped, sorted and written within a bound of memory.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, RecordBatch};
use arrow::compute::interleave;
use arrow::datatypes::DataType;
use iceberg::spec::{DataFile, Struct};

use super::{FileWriter, Target};
use crate::fault::Fault;
use crate::partition::Partitioner;
use crate::sort::Sorter;

/// Holds rows until all have come or memory is short, then writes them partition by partition, each in the table's sort
/// order. A partition that is written more than once in a run gets more than one file, each sorted in itself.
///
/// Memory: the batches as they came (shared buffers counted once) and eight bytes a row, at most `memory_bytes` plus one
/// batch; beside it one row group in the making and one partition's sort keys.
#[derive(Debug)]
pub struct PartitionedWriter {
    target: Arc<Target>,
    partitioner: Partitioner,
    sorter: Sorter,
    memory_bytes: usize,
    batches: Vec<RecordBatch>,
    /// The sort keys of each batch.
    keys: Vec<Vec<ArrayRef>>,
    /// For each partition number, (batch, row) of its rows as they came.
    rows: Vec<Vec<(u32, u32)>>,
    held: Held,
    files: Vec<DataFile>,
}

/// Rows are put together and encoded so many at a time: few enough for a processor's cache, enough to spread the cost
/// of looking at every batch.
const CHUNK_ROWS: usize = 16 * 1024;
/// Partitions open at once. Beyond, all are written: their row lists and files would cost more than their rows.
const PARTITIONS_MAX: usize = 64 * 1024;

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
            rows: Vec::new(),
            held: Held::default(),
            files: Vec::new(),
        })
    }

    /// Adds rows, in [`Target::arrow_schema`].
    ///
    /// # Errors
    /// As [`FileWriter::write`] and the partition transforms.
    pub async fn write(&mut self, batch: RecordBatch) -> Result<(), Fault> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let too_many = || Fault::Mismatch("more than 2^32 batches or rows of a batch are held at once".to_owned());
        let at = u32::try_from(self.batches.len()).map_err(|_| too_many())?;
        u32::try_from(batch.num_rows()).map_err(|_| too_many())?;
        let numbers = self.partitioner.assign(&batch)?;
        self.rows.resize_with(self.partitioner.len(), Vec::new);
        for (row, number) in (0..).zip(numbers) {
            if let Some(rows) = self.rows.get_mut(number as usize) {
                rows.push((at, row));
            }
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
        for number in 0..self.rows.len() {
            self.write_partition(number).await?;
        }
        self.batches.clear();
        self.keys.clear();
        self.rows.clear();
        self.partitioner.clear();
        self.held = Held::default();
        Ok(())
    }

    /// Writes the largest partitions until half of the rows are gone, and gathers the others' rows into one batch, so
    /// that the old ones can be let go.
    async fn make_room(&mut self) -> Result<(), Fault> {
        let total: usize = self.rows.iter().map(Vec::len).sum();
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by_key(|number| std::cmp::Reverse(self.rows.get(*number).map_or(0, Vec::len)));
        let mut left = total;
        for number in order {
            if left <= total / 2 {
                break;
            }
            left -= self.rows.get(number).map_or(0, Vec::len);
            self.write_partition(number).await?;
        }
        let kept: Vec<(usize, usize)> =
            self.rows.iter().flatten().map(|(batch, row)| (*batch as usize, *row as usize)).collect();
        let gathered = if kept.is_empty() { None } else { Some(compacted(&self.gather(&kept)?)?) };
        self.batches = gathered.into_iter().collect();
        self.keys = self.batches.iter().map(|batch| self.sorter.keys(batch)).collect::<Result<_, _>>()?;
        for (row, place) in (0..).zip(self.rows.iter_mut().flatten()) {
            *place = (0, row);
        }
        self.held = Held::default();
        self.batches.iter().for_each(|batch| self.held.add(batch));
        Ok(())
    }

    async fn write_partition(&mut self, number: usize) -> Result<(), Fault> {
        let rows = match self.rows.get_mut(number) {
            Some(rows) if !rows.is_empty() => std::mem::take(rows),
            _ => return Ok(()),
        };
        let partition = u32::try_from(number).ok().and_then(|number| self.partitioner.tuple(number)).cloned();
        let partition = partition.unwrap_or_else(Struct::empty);
        let mut places: Vec<(usize, usize)> =
            rows.into_iter().map(|(batch, row)| (batch as usize, row as usize)).collect();
        if !self.sorter.is_unsorted()
            && let Some(order) = self.sorter.permutation(&self.sort_keys(&places)?)?
        {
            let place = |at: u32| places.get(at as usize).copied().unwrap_or_default();
            places = order.into_iter().map(place).collect();
        }
        let mut writer = FileWriter::new(Arc::clone(&self.target), partition, places.len());
        for chunk in places.chunks(CHUNK_ROWS) {
            writer.write(&self.gather(chunk)?).await?;
        }
        self.files.extend(writer.finish().await?);
        Ok(())
    }

    /// The sort keys of rows, gathered.
    fn sort_keys(&self, places: &[(usize, usize)]) -> Result<Vec<ArrayRef>, Fault> {
        let fields = self.keys.first().map_or(0, Vec::len);
        (0..fields)
            .map(|field| {
                let arrays: Vec<&dyn Array> =
                    self.keys.iter().filter_map(|keys| keys.get(field)).map(AsRef::as_ref).collect();
                Ok(interleave(&arrays, places)?)
            })
            .collect()
    }

    /// Rows from all over the batches as one batch.
    fn gather(&self, places: &[(usize, usize)]) -> Result<RecordBatch, Fault> {
        // Only the batches that rows come from are looked at: with many batches the looking would cost more than the rows.
        let mut slots: Vec<Option<usize>> = vec![None; self.batches.len()];
        let mut used: Vec<&RecordBatch> = Vec::new();
        let mut within: Vec<(usize, usize)> = Vec::with_capacity(places.len());
        let lost = || Fault::Mismatch("a row lies outside the batches held".to_owned());
        for (batch, row) in places {
            let slot = slots.get_mut(*batch).ok_or_else(lost)?;
            let at = match slot {
                Some(at) => *at,
                None => {
                    used.push(self.batches.get(*batch).ok_or_else(lost)?);
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
    rows: usize,
}

impl Held {
    fn add(&mut self, batch: &RecordBatch) {
        for column in batch.columns() {
            self.add_data(&column.to_data());
        }
        self.rows += batch.num_rows();
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
        self.buffers + self.rows * size_of::<(u32, u32)>()
    }
}

//! One data file's rows in the table's schema, found by field id.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef as ArrowSchemaRef;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{BoxStream, StreamExt};
use iceberg::io::{FileIO, FileRead};
use iceberg::spec::{NestedFieldRef, Schema, SchemaRef, StructType, Type};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::async_reader::{AsyncFileReader, ParquetRecordBatchStreamBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::schema::types::{SchemaDescriptor, Type as ParquetType};

use roaring::RoaringTreemap;

use super::deletes::{self, Kept};
use super::equality::Filter;
use super::figures::Counters;
use super::keys::{self, Wanted};
use super::predicate::Bound;
use super::{FileTask, prune};
use crate::fault::Fault;
use crate::schema::align::{Alignment, Fill, Match};
use crate::schema::parquet::leaf_ids;
use crate::schema::{Strings, arrow_schema};

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;
/// The footers of most files fit in their last 64 KiB, and one request brings both.
const FOOTER_BYTES_GUESSED: usize = 64 * 1024;
/// Ranges closer than this are fetched as one: a request costs more than the bytes between.
const GAP_BYTES_MAX: u64 = 256 * 1024;

/// What is read of a plan's files, the same for all of them.
#[derive(Clone)]
pub(super) struct Reading {
    pub(super) schema: SchemaRef,
    pub(super) arrow: ArrowSchemaRef,
    pub(super) strings: Strings,
    pub(super) predicate: Bound,
    pub(super) wanted: Option<Arc<Wanted>>,
    pub(super) counters: Arc<Counters>,
    /// Whether it is asked where rows are.
    pub(super) located: bool,
    pub(super) rows: Rows,
}

/// Which of a file's rows are wanted, by their positions. Deleted ones never are.
#[derive(Clone)]
pub(super) enum Rows {
    /// Those of row groups that may match.
    All,
    /// These alone.
    Only(Arc<RoaringTreemap>),
    /// All but these.
    Without(Arc<RoaringTreemap>),
}

/// Some rows of a file.
pub(super) struct Piece {
    pub(super) batch: RecordBatch,
    /// Where they are, where that is asked.
    pub(super) positions: Vec<i64>,
}

/// All rows of a file that is no data file, in the columns of a schema. Boxed: reading a data file reads its deletes.
pub(super) fn whole(
    file_io: FileIO,
    path: String,
    bytes: u64,
    schema: SchemaRef,
) -> BoxFuture<'static, Result<BoxStream<'static, Result<Piece, Fault>>, Fault>> {
    async move {
        let reading = Reading {
            arrow: arrow_schema(&schema, Strings::Plain)?,
            schema,
            strings: Strings::Plain,
            predicate: Bound::All,
            wanted: None,
            counters: Arc::default(),
            located: false,
            rows: Rows::All,
        };
        open(file_io, FileTask::plain(path, bytes), reading).await
    }
    .boxed()
}

/// Opens a file and gives its rows, deleted ones left out.
pub(super) async fn open(
    file_io: FileIO,
    task: FileTask,
    reading: Reading,
) -> Result<BoxStream<'static, Result<Piece, Fault>>, Fault> {
    let Reading { mut schema, mut arrow, strings, predicate, wanted, counters, located, rows } = reading;
    let mut filter = None;
    if let Some((whole, equals)) = Filter::new(&file_io, &schema, &task.equality).await? {
        arrow = arrow_schema(&whole, strings)?;
        schema = whole;
        filter = Some(equals);
    }
    let path = task.path.clone();
    let input = file_io.new_input(&path).map_err(Fault::storage("opening", &path))?;
    let reader = input.reader().await.map_err(Fault::storage("opening", &path))?;
    let mut file = File::new(Arc::from(reader), task.bytes);
    let unreadable = |path: &str| {
        let path = path.to_owned();
        move |source| Fault::Unreadable { path, source }
    };
    let footer = file.get_metadata(None).await.map_err(unreadable(&path))?;
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::try_new(footer, options).map_err(unreadable(&path))?;
    if !leaf_ids(metadata.parquet_schema()).iter().any(Option::is_some) {
        return Err(Fault::Unsupported(format!("{path}, which has no field ids")));
    }
    let mut groups = match &rows {
        Rows::Only(rows) => deletes::groups_of(metadata.metadata(), rows),
        Rows::All | Rows::Without(_) => row_groups(metadata.metadata(), &predicate),
    };
    counters.pruned(metadata.metadata().num_row_groups() - groups.len());
    let leaves = wanted_leaves(metadata.parquet_schema(), schema.as_struct());
    if let Some(wanted) = wanted {
        groups = keys::row_groups(&mut file, metadata.metadata(), &wanted, groups, &leaves, &counters)
            .await
            .map_err(unreadable(&path))?;
    }
    counters.read(groups.len());
    let deleted = match groups.is_empty() {
        true => RoaringTreemap::new(),
        false => deletes::positions(&file_io, &path, &task.deletes).await?,
    };
    let mut kept = match &rows {
        Rows::All => Kept::new(metadata.metadata(), &groups, &deleted),
        Rows::Only(rows) => Kept::only(metadata.metadata(), &groups, &(&**rows - &deleted)),
        Rows::Without(rows) => Kept::new(metadata.metadata(), &groups, &(&**rows | &deleted)),
    };
    let mask = ProjectionMask::leaves(metadata.parquet_schema(), leaves);
    let mut builder = ParquetRecordBatchStreamBuilder::new_with_metadata(file, metadata)
        .with_batch_size(BATCH_ROWS)
        .with_row_groups(groups)
        .with_projection(mask);
    if let Some(selection) = kept.selection.take() {
        builder = builder.with_row_selection(selection);
    }
    let stream = builder.build().map_err(unreadable(&path))?;
    // The first fill of a field is taken: a partition value goes before a default.
    let fills: Vec<Fill> = task.fills.into_iter().chain(defaults(&schema)).collect();
    let alignment = Alignment::new(stream.schema(), &arrow, Match::Id, &fills)
        .map_err(|fault| Fault::Contradiction { path: path.clone(), what: fault.to_string() })?;
    let mut positions = located.then(|| kept.positions());
    Ok(stream
        .map(move |batch| {
            let batch = batch.map_err(unreadable(&path))?;
            let contradiction = |fault: Fault| Fault::Contradiction { path: path.clone(), what: fault.to_string() };
            let batch = alignment.apply(&batch).map_err(contradiction)?;
            let mut own: Vec<i64> =
                positions.iter_mut().flat_map(|positions| positions.by_ref().take(batch.num_rows())).collect();
            let Some(filter) = &mut filter else { return Ok(Piece { batch, positions: own }) };
            let (batch, keep) = filter.apply(&batch)?;
            let mut keep = keep.values().iter();
            own.retain(|_| keep.next().unwrap_or(true));
            Ok(Piece { batch, positions: own })
        })
        .boxed())
}

/// The initial defaults of columns, which stand in for columns older files lack.
fn defaults(schema: &Schema) -> impl Iterator<Item = Fill> + '_ {
    schema.field_id_to_fields().values().filter_map(|field: &NestedFieldRef| {
        let value = field.initial_default.as_ref()?.as_primitive_literal()?;
        Some(Fill { field_id: field.id, value: Some(value) })
    })
}

/// The row groups that may hold a matching row.
fn row_groups(footer: &ParquetMetaData, predicate: &Bound) -> Vec<usize> {
    let ids = leaf_ids(footer.file_metadata().schema_descr());
    let may_match = |group: usize| {
        let Some(group) = footer.row_groups().get(group) else { return true };
        let rows = u64::try_from(group.num_rows()).unwrap_or(u64::MAX);
        predicate.may_match(&|id, data_type| match ids.iter().position(|other| *other == Some(id)) {
            Some(place) => {
                let chunk = group.columns().get(place);
                chunk.map_or(prune::Range::UNKNOWN, |chunk| prune::chunk_range(chunk, rows, data_type))
            }
            // Filled in from elsewhere, or null.
            None => prune::Range::UNKNOWN,
        })
    };
    (0..footer.num_row_groups()).filter(|group| may_match(*group)).collect()
}

/// The leaf columns of a file that the schema asks for. Of a struct, list or map none of whose leaves is asked for, the
/// first leaf is read all the same: it tells null from not null, and how many elements there are.
fn wanted_leaves(file: &SchemaDescriptor, schema: &StructType) -> Vec<usize> {
    let mut leaves = Vec::new();
    let mut next = 0;
    for column in file.root_schema().get_fields() {
        let field = id(column).and_then(|id| schema.field_by_id(id));
        collect(column, field.map(|field| &*field.field_type), &mut next, &mut leaves);
    }
    leaves
}

fn id(column: &ParquetType) -> Option<i32> {
    let info = column.get_basic_info();
    info.has_id().then(|| info.id())
}

// Parquet schemas nest at most as deep as the footer's decoder allows.
fn collect(column: &ParquetType, wanted: Option<&Type>, next: &mut usize, leaves: &mut Vec<usize>) {
    let first = *next;
    if column.is_primitive() {
        *next += 1;
        if wanted.is_some() {
            leaves.push(first);
        }
        return;
    }
    let before = leaves.len();
    for inner in column.get_fields() {
        // Groups without an id are the middle levels of lists and maps: what is wanted lies further in.
        let inner_wanted = match id(inner) {
            None => wanted,
            Some(id) => wanted.and_then(|wanted| child(wanted, id)),
        };
        collect(inner, inner_wanted, next, leaves);
    }
    if wanted.is_some() && leaves.len() == before && *next > first {
        leaves.push(first);
    }
}

fn child(wanted: &Type, id: i32) -> Option<&Type> {
    let found = match wanted {
        Type::Struct(fields) => fields.field_by_id(id)?,
        Type::List(list) if list.element_field.id == id => &list.element_field,
        Type::Map(map) if map.key_field.id == id => &map.key_field,
        Type::Map(map) if map.value_field.id == id => &map.value_field,
        _ => return None,
    };
    Some(&found.field_type)
}

/// A file in the table's storage, as the Parquet reader wants it.
pub(super) struct File {
    reader: Arc<dyn FileRead>,
    /// Its size.
    pub(super) bytes: u64,
    /// Its end, which came with the footer: filters, or all of a small file, are in it and not asked for again.
    tail: Bytes,
}

impl File {
    pub(super) fn new(reader: Arc<dyn FileRead>, bytes: u64) -> Self {
        Self { reader, bytes, tail: Bytes::new() }
    }

    /// Whether bytes came with the footer.
    pub(super) fn holds(&self, range: &Range<u64>) -> bool {
        self.held(range).is_some()
    }

    fn held(&self, range: &Range<u64>) -> Option<Bytes> {
        let start = self.bytes.checked_sub(self.tail.len() as u64)?;
        let place = |offset: u64| usize::try_from(offset.checked_sub(start)?).ok();
        let (from, to) = (place(range.start)?, place(range.end)?);
        (from <= to && to <= self.tail.len()).then(|| self.tail.slice(from..to))
    }
}

fn external(fault: iceberg::Error) -> ParquetError {
    ParquetError::External(Box::new(fault))
}

impl AsyncFileReader for File {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        async move {
            if let Some(held) = self.held(&range) {
                return Ok(held);
            }
            let bytes = self.reader.read(range.clone()).await.map_err(external)?;
            let guessed = range.end == self.bytes && bytes.len() <= FOOTER_BYTES_GUESSED;
            if guessed && range.end.checked_sub(range.start) == Some(bytes.len() as u64) {
                self.tail = bytes.clone();
            }
            Ok(bytes)
        }
        .boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        async move {
            let mut order: Vec<usize> = (0..ranges.len()).collect();
            order.sort_by_key(|at| ranges.get(*at).map_or(0, |range| range.start));
            let mut parts = vec![Bytes::new(); ranges.len()];
            order.retain(|at| match (ranges.get(*at).and_then(|range| self.held(range)), parts.get_mut(*at)) {
                (Some(held), Some(part)) => {
                    *part = held;
                    false
                }
                _ => true,
            });
            let mut pending: Vec<usize> = Vec::new();
            let mut joined: Option<Range<u64>> = None;
            for at in order.iter().copied() {
                let Some(range) = ranges.get(at) else { continue };
                match &mut joined {
                    Some(joined) if range.start <= joined.end + GAP_BYTES_MAX => {
                        joined.end = joined.end.max(range.end);
                    }
                    _ => {
                        fetch(&*self.reader, joined.replace(range.clone()), &pending, &ranges, &mut parts).await?;
                        pending.clear();
                    }
                }
                pending.push(at);
            }
            fetch(&*self.reader, joined, &pending, &ranges, &mut parts).await?;
            Ok(parts)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        async move {
            let bytes = self.bytes;
            let reader = ParquetMetaDataReader::new().with_prefetch_hint(Some(FOOTER_BYTES_GUESSED));
            Ok(Arc::new(reader.load_and_finish(self, bytes).await?))
        }
        .boxed()
    }
}

/// Fetches a joined range and cuts the wanted ones out of it.
async fn fetch(
    reader: &dyn FileRead,
    joined: Option<Range<u64>>,
    pending: &[usize],
    ranges: &[Range<u64>],
    parts: &mut [Bytes],
) -> parquet::errors::Result<()> {
    let Some(joined) = joined else { return Ok(()) };
    let bytes = reader.read(joined.clone()).await.map_err(external)?;
    for at in pending {
        let (Some(range), Some(part)) = (ranges.get(*at), parts.get_mut(*at)) else { continue };
        let place = |offset: u64| usize::try_from(offset - joined.start).unwrap_or(usize::MAX);
        if place(range.end) > bytes.len() {
            return Err(ParquetError::EOF("a file is shorter than its manifest says".to_owned()));
        }
        *part = bytes.slice(place(range.start)..place(range.end));
    }
    Ok(())
}

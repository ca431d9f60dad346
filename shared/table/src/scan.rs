//! Reading a table: which files of a snapshot may hold matching rows, then the rows themselves.
//!
//! A [`Plan`] is plain data. It leaves out what can't match (by partition, by the manifests' bounds, by row group
//! statistics, by bloom filters) and gives everything else: rows that do not match come along, and the caller filters.
//!
//! Deleted rows do not come, whether delete files name their positions or what they equal. A format other than Parquet,
//! encryption or files without field ids are refused by name.

mod deletes;
mod equality;
mod figures;
mod keys;
mod predicate;
mod prune;
mod read;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef as ArrowSchemaRef;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use iceberg::ErrorKind;
use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFile, DataFileFormat, FormatVersion, Literal, Manifest, ManifestContentType, ManifestFile,
    ManifestList, PartitionSpec, PartitionSpecRef, PrimitiveLiteral, Schema, SchemaRef, Snapshot, Struct,
    TableMetadata, Transform,
};
use roaring::RoaringTreemap;
use tokio::sync::Semaphore;

use crate::fault::Fault;
use crate::schema::align::Fill;
use crate::schema::{Strings, arrow_schema};
use deletes::Deletes;
use equality::Equality;
use figures::Counters;
use keys::Wanted;
use predicate::Bound;

pub use figures::Figures;
pub use keys::{KEYS_MAX, Keys};
pub use predicate::{Comparison, Predicate};

/// Manifests read at a time: each is a round trip, and some hundred KiB.
const MANIFESTS_AT_ONCE: usize = 8;
/// Files that [`Plan::execute_unordered`] reads at a time: a file is two or three round trips, one after the other.
const FILES_AT_ONCE: usize = 8;
/// What they may hold together, in KiB as they are on disk; a file that takes more is read alone.
const FILES_KIB_AT_ONCE: u32 = 64 * 1024;

/// What is to be read.
#[derive(Clone, Debug)]
pub struct Request {
    /// The snapshot; `None` is the current one.
    pub snapshot_id: Option<i64>,
    /// The top-level columns, in the order wanted; `None` is all of them.
    pub columns: Option<Vec<String>>,
    /// What the rows are looked for by.
    pub predicate: Predicate,
    /// The keys that the rows are looked for by, beside the predicate; `None` is any. They cost something only where bloom
    /// filters are likely to leave more out.
    pub keys: Option<Keys>,
    /// How text and binary are wanted.
    pub strings: Strings,
}

impl Default for Request {
    fn default() -> Self {
        Self { snapshot_id: None, columns: None, predicate: Predicate::All, keys: None, strings: Strings::Plain }
    }
}

/// One file to be read.
#[derive(Clone, Debug)]
pub struct FileTask {
    /// Its full path.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its rows, deleted ones too.
    pub rows: u64,
    /// The spec that it was written under.
    pub spec: PartitionSpecRef,
    /// Its partition.
    pub partition: Struct,
    /// Its data sequence number.
    pub sequence_number: i64,
    deletes: Vec<Arc<Deletes>>,
    equality: Vec<Arc<Equality>>,
    /// Values of identity partition fields, which stand in for columns that the file lacks.
    fills: Vec<Fill>,
    /// Bytes that one of its row groups takes in the columns to be read, about.
    group_bytes: u64,
    /// Its row groups.
    groups: u64,
}

impl FileTask {
    /// A file of no table's partition, without deletes.
    fn plain(path: String, bytes: u64) -> Self {
        Self {
            path,
            bytes,
            rows: 0,
            spec: Arc::new(PartitionSpec::unpartition_spec()),
            partition: Struct::empty(),
            sequence_number: 0,
            deletes: Vec::new(),
            equality: Vec::new(),
            fills: Vec::new(),
            group_bytes: 0,
            groups: 1,
        }
    }

    /// The paths of delete files of positions that may hold for it.
    pub fn delete_files(&self) -> impl Iterator<Item = &str> {
        self.deletes.iter().map(|deletes| deletes.path())
    }

    /// How many of its rows those name that are about it alone. Two may name the same row.
    #[must_use]
    pub fn rows_deleted_max(&self) -> u64 {
        self.deletes.iter().filter(|deletes| deletes.is_of_one()).map(|deletes| deletes.count()).sum()
    }

    /// Those that are about it alone, each with how many rows it names.
    pub fn own_deletes(&self) -> impl Iterator<Item = (&str, u64)> {
        self.deletes.iter().filter(|deletes| deletes.is_of_one()).map(|deletes| (deletes.path(), deletes.count()))
    }

    /// The rows that a delete file names which is about it alone, in order; nothing where the file names rows of others after all, or is
    /// not about this one.
    ///
    /// # Errors
    /// When it can't be read.
    pub async fn deleted_by(&self, file_io: &FileIO, delete_file: &str) -> Result<Option<Vec<i64>>, Fault> {
        match self.deletes.iter().find(|deletes| deletes.is_of_one() && deletes.path() == delete_file) {
            Some(deletes) => deletes.of_one(file_io, &self.path).await,
            None => Ok(None),
        }
    }

    /// Those of them that are about it alone.
    pub fn own_delete_files(&self) -> impl Iterator<Item = &str> {
        self.deletes.iter().filter(|deletes| deletes.is_of_one()).map(|deletes| deletes.path())
    }
}

/// Rows with where they are.
#[derive(Clone, Debug)]
pub struct Located {
    /// The place of their file in [`Plan::files`].
    pub file: usize,
    /// The rows.
    pub batch: RecordBatch,
    /// Each one's position in the file, ascending; deleted rows count and do not come.
    pub positions: Vec<i64>,
}

/// What is read, worked out.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The columns, Iceberg's way.
    pub schema: SchemaRef,
    /// The columns of the batches.
    pub arrow_schema: ArrowSchemaRef,
    /// The files that may hold matching rows, in manifest order.
    pub files: Vec<FileTask>,
    /// Live files that can't.
    pub files_pruned: usize,
    /// Manifests that can't; their files are not in `files_pruned`.
    pub manifests_pruned: usize,
    strings: Strings,
    predicate: Bound,
    wanted: Option<Arc<Wanted>>,
    counters: Arc<Counters>,
}

/// Finds the files of a snapshot that may hold matching rows.
///
/// # Errors
/// [`Fault::Request`] for a snapshot or column that is not there, [`Fault::Unsupported`] for tables this version can't
/// read, [`Fault::Storage`] and [`Fault::Specification`] for manifests that can't be read.
pub async fn plan(metadata: &TableMetadata, file_io: &FileIO, request: &Request) -> Result<Plan, Fault> {
    let (snapshot, whole) = snapshot_and_schema(metadata, request.snapshot_id)?;
    let predicate = request.predicate.bind(&whole)?;
    let wanted = match &request.keys {
        Some(keys) => keys.bind(&whole)?,
        None => None,
    };
    let schema = Arc::new(projected(&whole, request.columns.as_deref())?);
    let mut plan = Plan {
        arrow_schema: arrow_schema(&schema, request.strings)?,
        schema,
        files: Vec::new(),
        files_pruned: 0,
        manifests_pruned: 0,
        strings: request.strings,
        predicate,
        wanted,
        counters: Arc::default(),
    };
    let Some(snapshot) = snapshot else { return Ok(plan) };
    let mut needed = Vec::new();
    for manifest in manifests(metadata, file_io, snapshot).await? {
        if let Some(spec) = plan.needs(metadata, &whole, &manifest)? {
            needed.push((manifest, spec));
        }
    }
    // What is read owns what it reads with: a future that borrows from its caller can't be sent between threads here.
    let file_io = file_io.clone();
    let mut loaded = stream::iter(needed)
        .map(move |(manifest, spec)| load(file_io.clone(), manifest, spec))
        .buffered(MANIFESTS_AT_ONCE);
    let mut data = Vec::new();
    let (mut deletes, mut equality) = (deletes::Index::default(), equality::Index::default());
    while let Some((manifest, spec)) = loaded.try_next().await? {
        match manifest.metadata().content() {
            ManifestContentType::Data => data.push((manifest, spec)),
            ManifestContentType::Deletes => {
                for entry in manifest.entries().iter().filter(|entry| entry.is_alive()) {
                    match entry.content_type() {
                        DataContentType::EqualityDeletes => equality.add(metadata, &spec, entry)?,
                        _ => deletes.add(spec.spec_id(), entry)?,
                    }
                }
            }
        }
    }
    for (manifest, spec) in data {
        plan.add(&manifest, &spec, &deletes, &equality)?;
    }
    Ok(plan)
}

async fn load(
    file_io: FileIO,
    manifest: ManifestFile,
    spec: PartitionSpecRef,
) -> Result<(Manifest, PartitionSpecRef), Fault> {
    let path = &manifest.manifest_path;
    let loaded = manifest.load_manifest(&file_io).await.map_err(|fault| match fault.kind() {
        ErrorKind::DataInvalid => Fault::specification(format!("{path} is not a manifest of this table"))(fault),
        _ => Fault::storage("reading", path)(fault),
    })?;
    Ok((loaded, spec))
}

fn snapshot_and_schema(metadata: &TableMetadata, id: Option<i64>) -> Result<(Option<&Snapshot>, SchemaRef), Fault> {
    let current = metadata.current_snapshot();
    let Some(id) = id.filter(|id| current.is_none_or(|current| current.snapshot_id() != *id)) else {
        return Ok((current.map(AsRef::as_ref), Arc::clone(metadata.current_schema())));
    };
    let snapshot =
        metadata.snapshot_by_id(id).ok_or_else(|| Fault::Request(format!("the table has no snapshot {id}")))?;
    let schema = snapshot.schema(metadata).map_err(Fault::specification(format!("the schema of snapshot {id}")))?;
    Ok((Some(snapshot), schema))
}

fn projected(schema: &Schema, columns: Option<&[String]>) -> Result<Schema, Fault> {
    let Some(columns) = columns else { return Ok(schema.clone()) };
    let fields = columns.iter().map(|name| {
        let found = schema.as_struct().field_by_name(name);
        found.cloned().ok_or_else(|| Fault::Request(format!("there is no column `{name}`")))
    });
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    let built = Schema::builder().with_schema_id(schema.schema_id()).with_fields(fields).build();
    built.map_err(Fault::specification("the columns asked for make no schema"))
}

async fn manifests(
    metadata: &TableMetadata,
    file_io: &FileIO,
    snapshot: &Snapshot,
) -> Result<Vec<ManifestFile>, Fault> {
    if snapshot.encryption_key_id().is_some() {
        return Err(Fault::Unsupported("an encrypted snapshot".to_owned()));
    }
    let path = snapshot.manifest_list();
    if path.is_empty() {
        return Err(Fault::Unsupported("a version 1 snapshot without a manifest list".to_owned()));
    }
    let bytes = file_io.new_input(path).map_err(Fault::storage("opening", path))?;
    let bytes = bytes.read().await.map_err(Fault::storage("reading", path))?;
    let version: FormatVersion = metadata.format_version();
    let list = ManifestList::parse_with_version(&bytes, version);
    let list = list.map_err(Fault::specification(format!("{path} is not a manifest list")))?;
    Ok(list.consume_entries().into_iter().collect())
}

impl Plan {
    /// The partition spec of a manifest that must be read; `None` when nothing in it can match.
    fn needs(
        &mut self,
        metadata: &TableMetadata,
        schema: &Schema,
        manifest: &ManifestFile,
    ) -> Result<Option<PartitionSpecRef>, Fault> {
        if !manifest.has_added_files() && !manifest.has_existing_files() {
            return Ok(None);
        }
        let spec = metadata.partition_spec_by_id(manifest.partition_spec_id).ok_or_else(|| Fault::Contradiction {
            path: manifest.manifest_path.clone(),
            what: format!("it names the partition spec {}, which the table lacks", manifest.partition_spec_id),
        })?;
        let deletes = manifest.content == ManifestContentType::Deletes;
        if !deletes && !prune::manifest(&self.predicate, spec, schema, manifest) {
            self.manifests_pruned += 1;
            return Ok(None);
        }
        Ok(Some(Arc::clone(spec)))
    }

    fn add(
        &mut self,
        manifest: &Manifest,
        spec: &PartitionSpecRef,
        deletes: &deletes::Index,
        equality: &equality::Index,
    ) -> Result<(), Fault> {
        for entry in manifest.entries().iter().filter(|entry| entry.is_alive()) {
            let file = entry.data_file();
            if file.file_format() != DataFileFormat::Parquet {
                let format = file.file_format();
                return Err(Fault::Unsupported(format!("the {format} file {}", file.file_path())));
            }
            if file.key_metadata().is_some() {
                return Err(Fault::Unsupported(format!("the encrypted file {}", file.file_path())));
            }
            if prune::partition(&self.predicate, spec, file) && prune::metrics(&self.predicate, file) {
                let sequence_number = deletes::sequence_number(entry)?;
                self.files.push(FileTask {
                    path: file.file_path().to_owned(),
                    bytes: file.file_size_in_bytes(),
                    rows: file.record_count(),
                    spec: Arc::clone(spec),
                    partition: file.partition().clone(),
                    sequence_number,
                    deletes: deletes.of(spec.spec_id(), file, sequence_number),
                    equality: equality.of(spec.spec_id(), file, sequence_number),
                    fills: fills(spec, file),
                    group_bytes: self.group_bytes(file),
                    groups: groups(file),
                });
            } else {
                self.files_pruned += 1;
            }
        }
        Ok(())
    }

    fn group_bytes(&self, file: &DataFile) -> u64 {
        let sizes = file.column_sizes();
        let of_columns = self.schema.field_id_to_fields().keys().filter_map(|id| sizes.get(id)).sum();
        let bytes = if sizes.is_empty() { file.file_size_in_bytes() } else { of_columns };
        bytes / groups(file)
    }

    /// Reads one file, row groups that can't match left out.
    #[must_use]
    pub fn read(&self, file_io: &FileIO, task: &FileTask) -> BoxStream<'static, Result<RecordBatch, Fault>> {
        let opened = read::open(file_io.clone(), task.clone(), self.reading(false));
        stream::once(opened).try_flatten().map_ok(|piece| piece.batch).boxed()
    }

    fn reading(&self, located: bool) -> read::Reading {
        read::Reading {
            schema: Arc::clone(&self.schema),
            arrow: Arc::clone(&self.arrow_schema),
            strings: self.strings,
            predicate: self.predicate.clone(),
            wanted: self.wanted.clone(),
            counters: Arc::clone(&self.counters),
            located,
            rows: read::Rows::All,
        }
    }

    /// Reads all files, one after the other.
    #[must_use]
    pub fn execute(self, file_io: FileIO) -> BoxStream<'static, Result<RecordBatch, Fault>> {
        let files = self.files.clone();
        stream::iter(files).flat_map(move |task| self.read(&file_io, &task)).boxed()
    }

    /// Reads all files, a few at a time: their batches come in no order. Memory is a row group's columns, as they are on
    /// disk, of each file at work, together at most about 64 MiB or one file's.
    #[must_use]
    pub fn execute_unordered(&self, file_io: &FileIO) -> BoxStream<'static, Result<RecordBatch, Fault>> {
        self.unordered(file_io, false).map_ok(|(_, piece)| piece.batch).boxed()
    }

    /// As [`Plan::execute_unordered`], with where each row is.
    #[must_use]
    pub fn execute_located(&self, file_io: &FileIO) -> BoxStream<'static, Result<Located, Fault>> {
        let located = |(file, read::Piece { batch, positions })| Located { file, batch, positions };
        self.unordered(file_io, true).map_ok(located).boxed()
    }

    /// The same files with other columns: what is looked for by few columns is read in more of them where it is found.
    ///
    /// # Errors
    /// [`Fault::Request`] for a column that is not there.
    pub fn with_columns(&self, metadata: &TableMetadata, columns: Option<&[String]>) -> Result<Self, Fault> {
        let schema = Arc::new(projected(metadata.current_schema(), columns)?);
        // Not told by column any more: all of a file at the most.
        let files = self.files.iter().map(|file| FileTask { group_bytes: file.bytes / file.groups, ..file.clone() });
        Ok(Self {
            arrow_schema: arrow_schema(&schema, self.strings)?,
            schema,
            files: files.collect(),
            predicate: Bound::All,
            wanted: None,
            ..self.clone()
        })
    }

    /// Rows of some files (by their places in [`Plan::files`]) at these positions, ascending and each once, a few files at a time.
    /// Deleted ones do not come.
    #[must_use]
    pub fn execute_at(
        &self,
        file_io: &FileIO,
        rows: impl IntoIterator<Item = (usize, Vec<i64>)>,
    ) -> BoxStream<'static, Result<Located, Fault>> {
        self.of_files(file_io, rows, read::Rows::Only)
    }

    /// All rows of some files but those at these positions; else as [`Plan::execute_at`].
    #[must_use]
    pub fn execute_without(
        &self,
        file_io: &FileIO,
        rows: impl IntoIterator<Item = (usize, Vec<i64>)>,
    ) -> BoxStream<'static, Result<Located, Fault>> {
        self.of_files(file_io, rows, read::Rows::Without)
    }

    fn of_files(
        &self,
        file_io: &FileIO,
        rows: impl IntoIterator<Item = (usize, Vec<i64>)>,
        wanted: fn(Arc<RoaringTreemap>) -> read::Rows,
    ) -> BoxStream<'static, Result<Located, Fault>> {
        let positions = |rows: Vec<i64>| rows.into_iter().filter_map(|row| u64::try_from(row).ok()).collect();
        let files = rows.into_iter().filter_map(|(place, rows)| {
            let rows = wanted(Arc::new(positions(rows)));
            Some((place, self.files.get(place)?.clone(), read::Reading { rows, ..self.reading(true) }))
        });
        let located = |(file, read::Piece { batch, positions })| Located { file, batch, positions };
        at_once(file_io.clone(), files.collect()).map_ok(located).boxed()
    }

    fn unordered(&self, file_io: &FileIO, located: bool) -> BoxStream<'static, Result<(usize, read::Piece), Fault>> {
        let files = self.files.iter().cloned().enumerate().map(|(place, task)| (place, task, self.reading(located)));
        at_once(file_io.clone(), files.collect())
    }

    /// What reading this plan's files has left out so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.counters.figures()
    }

    /// The rows of the files to be read, matching or not.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }
}

/// Reads files a few at a time, each piece with its file's place.
fn at_once(
    file_io: FileIO,
    files: Vec<(usize, FileTask, read::Reading)>,
) -> BoxStream<'static, Result<(usize, read::Piece), Fault>> {
    let room = Arc::new(Semaphore::new(FILES_KIB_AT_ONCE as usize));
    let streams = stream::iter(files).map(move |(place, task, reading)| {
        let kib = u32::try_from(task.group_bytes / 1024).unwrap_or(u32::MAX).clamp(1, FILES_KIB_AT_ONCE);
        let room = Arc::clone(&room).acquire_many_owned(kib);
        let opened = read::open(file_io.clone(), task, reading);
        let rows = async move {
            // Nobody closes the semaphore; the room is given back when the file's stream is dropped.
            let room = room.await;
            let rows = opened.await?;
            Ok::<_, Fault>(rows.map_ok(move |piece| {
                let _held = &room;
                (place, piece)
            }))
        };
        stream::once(rows).try_flatten().boxed()
    });
    streams.flatten_unordered(FILES_AT_ONCE).boxed()
}

fn groups(file: &DataFile) -> u64 {
    file.split_offsets().map_or(1, |offsets| offsets.len().max(1) as u64)
}

/// A column that a file lacks has the value of its identity partition field, where there is one (the specification's
/// column projection; files brought in from other tables).
fn fills(spec: &PartitionSpec, file: &DataFile) -> Vec<Fill> {
    let fields = spec.fields().iter().zip(file.partition().iter());
    fields
        .filter(|(field, _)| field.transform == Transform::Identity)
        .map(|(field, value)| Fill { field_id: field.source_id, value: value.and_then(primitive) })
        .collect()
}

fn primitive(value: &Literal) -> Option<PrimitiveLiteral> {
    value.as_primitive_literal()
}

#[cfg(test)]
mod tests;

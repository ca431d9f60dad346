//! Making a snapshot: which files a commit adds, as manifests, a manifest list, and the requirements and updates of one
//! [`Catalog::commit`](crate::catalog::Catalog::commit).
//!
//! [`plan`] is pure and refuses what can't be right. [`Plan::write`] writes the new manifests, and [`Written::attach`] a
//! manifest list on a base. After a conflict the same manifests go under a new list on the new base
//! ([`Prepared::rebase`]): sequence numbers are inherited, so a manifest does not know which attempt takes it. What a commit
//! removes, and what must still hold of the table, is looked for in every base anew. Manifests, lists and summaries follow
//! <https://iceberg.apache.org/spec/> and the counters of Iceberg's `SnapshotSummary`.
//!
//! The snapshot id is drawn once and kept over attempts: were an attempt thought lost to have landed, attaching to a base
//! that holds it is refused ([`Error::Committed`]) instead of adding the files twice.
//!
//! Nothing here deletes a file: what a failed attempt leaves is an orphan, which maintenance removes by age.

use std::collections::{BTreeMap, BTreeSet};

use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFile, DataFileFormat, FormatVersion, Literal, ManifestContentType, ManifestFile,
    ManifestWriter, ManifestWriterBuilder, PartitionSpec, PartitionSpecRef, SchemaRef, SnapshotRef, TableMetadata,
};
use iceberg::{TableRequirement, TableUpdate};
use model::clock::Timestamp;
use model::failure::Kind;
use model::id::Ids;

use crate::catalog::{self, Loaded, metadata};
use crate::storage;

mod attempt;
pub mod branch;
mod manifest_list;
mod manifest_merge;
mod removal;
pub mod summary;
mod validation;

pub use attempt::{Prepared, Written};
pub use manifest_list::manifests;

/// Entries of one manifest: at one to two kilobytes each, near the 8 MiB that Iceberg aims for, and what is held in memory
/// while one is written.
const ENTRIES_MAX: usize = 5_000;

/// A file to be added, and the partition spec it was written under.
#[derive(Clone, Debug)]
pub struct NewFile {
    /// The spec's id in the table's metadata (after [`Change::evolution`]).
    pub spec_id: i32,
    /// The file. Its partition holds one value per field of the spec.
    pub file: DataFile,
}

/// What a commit does to the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Adds data files only; none at all for a commit of the ledger alone.
    Append,
    /// Adds data files, and delete files for rows of others.
    RowDelta,
    /// Removes files, changing rows; adds data files, and delete files for rows of others.
    Overwrite,
    /// Removes files and adds data files, changing no row. What is added counts as old as the plan's base.
    Rewrite {
        /// Data sequence number of the added files: that of the snapshot whose files were rewritten.
        starting_sequence_number: i64,
    },
}

impl Operation {
    const fn name(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::RowDelta => "row delta",
            Self::Overwrite => "overwrite",
            Self::Rewrite { .. } => "rewrite",
        }
    }

    /// The data sequence number of added data files, where it is not the snapshot's own.
    const fn data_sequence_number(self) -> i64 {
        match self {
            Self::Rewrite { starting_sequence_number } => starting_sequence_number,
            _ => iceberg::spec::UNASSIGNED_SEQUENCE_NUMBER,
        }
    }
}

/// What must still hold of the snapshots committed since the plan was made; checked before every attempt. Of every commit that
/// has delete files, the data files that they refer to must be live; of every one that removes files, those must be, and nobody may
/// have deleted rows of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validation {
    /// These data files are live.
    DataFilesLive(Vec<String>),
    /// No delete was added since for these data files.
    NoNewDeletes(Vec<String>),
}

/// The files of a commit, and the changes of schema and spec they were written under.
#[derive(Clone, Debug)]
pub struct Change {
    /// What is done.
    pub operation: Operation,
    /// Data files added.
    pub data_files: Vec<NewFile>,
    /// Delete files added: position deletes, each for the rows of one data file.
    pub delete_files: Vec<NewFile>,
    /// Paths of live data or delete files removed.
    pub removed: Vec<String>,
    /// What must hold of commits in between.
    pub validations: Vec<Validation>,
    /// Updates of schema and partition spec, applied before the snapshot and in the same commit.
    pub evolution: Vec<TableUpdate>,
    /// Requirements beyond the table's uuid and the head of main, such as the last assigned field id.
    pub requirements: Vec<TableRequirement>,
}

impl Change {
    /// Data files added to a table as it is; none for a commit of the ledger alone.
    #[must_use]
    pub const fn append(data_files: Vec<NewFile>) -> Self {
        Self {
            operation: Operation::Append,
            data_files,
            delete_files: Vec::new(),
            removed: Vec::new(),
            validations: Vec::new(),
            evolution: Vec::new(),
            requirements: Vec::new(),
        }
    }
}

/// What one attempt says beside its files; given anew for each.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The server's time. The snapshot's is this, or 1 ms past the table's last update where that is later.
    pub time: Timestamp,
    /// Summary properties beyond Iceberg's counters.
    pub summary: BTreeMap<String, String>,
    /// Table properties set in the same commit.
    pub properties: BTreeMap<String, String>,
}

/// Why no snapshot could be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The table, or this version, does not support what is asked.
    #[error("{0}")]
    Unsupported(String),
    /// The plan contradicts itself or the table.
    #[error("the commit does not hold together: {0}")]
    Invalid(String),
    /// The base already holds this snapshot: an earlier attempt was applied.
    #[error("snapshot {0} is already in the table: an earlier attempt was applied")]
    Committed(i64),
    /// The base is another table than the plan was made for.
    #[error("the table was replaced: its uuid was {expected}, now it is {found}")]
    Replaced {
        /// The plan's.
        expected: String,
        /// The base's.
        found: String,
    },
    /// The evolved metadata could not be made.
    #[error(transparent)]
    Catalog(#[from] catalog::Error),
    /// A manifest or manifest list could not be read or written.
    #[error("could not {doing}")]
    File {
        /// What was done to which file.
        doing: String,
        /// The cause.
        #[source]
        source: Box<iceberg::Error>,
    },
}

impl Error {
    /// What happens next.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Unsupported(_) | Self::Replaced { .. } => Kind::Misconfigured,
            Self::Invalid(_) => Kind::Bug,
            Self::Committed(_) => Kind::Conflict,
            Self::Catalog(e) => e.kind(),
            Self::File { source, .. } => storage::kind_of(source),
        }
    }

    fn file(doing: String) -> impl FnOnce(iceberg::Error) -> Self {
        move |source| Self::File { doing, source: Box::new(source) }
    }
}

/// A change that was checked against a table: what will be written.
#[derive(Clone, Debug)]
pub struct Plan {
    table_uuid: uuid::Uuid,
    format_version: FormatVersion,
    folder: String,
    schema: SchemaRef,
    operation: Operation,
    /// Files to add, by what they hold and partition spec.
    added: BTreeMap<(Content, i32), (PartitionSpecRef, Vec<DataFile>)>,
    removed: BTreeSet<String>,
    /// Data files that must be live.
    live: BTreeSet<String>,
    /// Data files for which no delete may have come since.
    undeleted: BTreeSet<String>,
    /// The table's last sequence number when the plan was made: what is newer came since.
    made_at: i64,
    counts: summary::Counts,
    evolution: Vec<TableUpdate>,
    requirements: Vec<TableRequirement>,
}

/// What the files of a manifest hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Content {
    Data,
    Deletes,
}

impl From<ManifestContentType> for Content {
    fn from(content: ManifestContentType) -> Self {
        match content {
            ManifestContentType::Data => Self::Data,
            ManifestContentType::Deletes => Self::Deletes,
        }
    }
}

/// Checks a change against the table it is for. Pure.
///
/// # Errors
/// [`Error::Unsupported`] for operations and tables this version does not write; [`Error::Invalid`] for files that
/// contradict the table or each other; `Conflict` where a requirement does not hold.
pub fn plan(base: &Loaded, change: Change) -> Result<Plan, Error> {
    let Change { operation, data_files, delete_files, removed, validations, evolution, requirements } = change;
    let after;
    let table: &TableMetadata = if evolution.is_empty() {
        &base.metadata
    } else {
        let now = Timestamp::from_millis(base.metadata.last_updated_ms());
        after = metadata::apply(base, &requirements, &evolution, now)?;
        &after
    };
    writable(table)?;
    let made_at = base.metadata.last_sequence_number();
    let inconsistent = match operation {
        Operation::Append if !delete_files.is_empty() || !removed.is_empty() || !validations.is_empty() => {
            Some("an append only adds data files")
        }
        Operation::RowDelta if !removed.is_empty() => Some("a row delta removes no files"),
        Operation::Overwrite | Operation::Rewrite { .. } if removed.is_empty() => Some("nothing is removed"),
        Operation::Rewrite { .. } if !delete_files.is_empty() => Some("a rewrite changes no row"),
        Operation::Rewrite { starting_sequence_number: at } if !(0..=made_at).contains(&at) => {
            Some("what is rewritten can't be of a snapshot that is not there yet")
        }
        _ => None,
    };
    if let Some(why) = inconsistent {
        return Err(Error::Invalid(format!("{}: {why}", operation.name())));
    }
    let is_lineage = table.format_version() == FormatVersion::V3;
    if is_lineage && (!removed.is_empty() || !delete_files.is_empty()) {
        let why = format!("a commit of kind `{}` on a table of format version 3 is not written", operation.name());
        return Err(Error::Unsupported(why));
    }

    let mut plan = Plan {
        table_uuid: table.uuid(),
        format_version: table.format_version(),
        folder: metadata::folder(table),
        schema: table.current_schema().clone(),
        operation,
        added: BTreeMap::new(),
        removed: removed.iter().cloned().collect(),
        live: BTreeSet::new(),
        undeleted: BTreeSet::new(),
        made_at,
        counts: summary::Counts::default(),
        evolution,
        requirements,
    };
    if plan.removed.len() < removed.len() {
        return Err(Error::Invalid("a file is removed twice".to_owned()));
    }
    let mut paths = BTreeSet::new();
    let all = data_files.into_iter().map(|file| (Content::Data, file));
    for (content, NewFile { spec_id, file }) in all.chain(delete_files.into_iter().map(|f| (Content::Deletes, f))) {
        plan.add(table, content, spec_id, file, &mut paths)?;
    }
    for validation in validations {
        match validation {
            Validation::DataFilesLive(paths) => plan.live.extend(paths),
            Validation::NoNewDeletes(paths) => plan.undeleted.extend(paths),
        }
    }
    plan.undeleted.extend(removed);
    if let Some(path) = plan.live.intersection(&plan.removed).next() {
        return Err(Error::Invalid(format!("{path} is removed, and must be live")));
    }
    Ok(plan)
}

/// Refuses tables whose commits need what is not written here: format version 1, encryption.
///
/// # Errors
/// [`Error::Unsupported`].
pub fn writable(table: &TableMetadata) -> Result<(), Error> {
    if table.format_version() == FormatVersion::V1 {
        let why = "the table has format version 1, which is not written: upgrade it to version 2";
        return Err(Error::Unsupported(why.to_owned()));
    }
    if table.properties().contains_key("encryption.key-id") || table.encryption_keys_iter().len() > 0 {
        return Err(Error::Unsupported("the table is encrypted, which is not written".to_owned()));
    }
    Ok(())
}

impl Plan {
    /// Data files the plan adds.
    #[must_use]
    pub fn files(&self) -> usize {
        let data = self.added.iter().filter(|((content, _), _)| *content == Content::Data);
        data.map(|(_, (_, files))| files.len()).sum()
    }

    fn add(
        &mut self,
        table: &TableMetadata,
        content: Content,
        spec_id: i32,
        file: DataFile,
        paths: &mut BTreeSet<String>,
    ) -> Result<(), Error> {
        let path = file.file_path();
        let invalid = |why: String| Error::Invalid(format!("{path}: {why}"));
        match (content, file.content_type()) {
            (Content::Data, DataContentType::Data) | (Content::Deletes, DataContentType::PositionDeletes) => {}
            (Content::Data, _) => return Err(invalid("is not a data file".to_owned())),
            (Content::Deletes, _) => return Err(invalid("holds no positions of deleted rows".to_owned())),
        }
        if !paths.insert(path.to_owned()) || self.removed.contains(path) {
            return Err(invalid("is added twice, or removed at once".to_owned()));
        }
        let spec = table
            .partition_spec_by_id(spec_id)
            .ok_or_else(|| invalid(format!("partition spec {spec_id} is not in the table")))?;
        let values = file.partition().fields();
        // The manifest writer takes both for granted.
        if values.len() != spec.fields().len() {
            let (found, expected) = (values.len(), spec.fields().len());
            return Err(invalid(format!("has {found} partition values, where spec {spec_id} has {expected} fields")));
        }
        if values.iter().flatten().any(|value| !matches!(value, Literal::Primitive(_))) {
            return Err(invalid("has a nested partition value".to_owned()));
        }
        if content == Content::Deletes {
            if file.file_format() != DataFileFormat::Parquet {
                return Err(invalid("is no Parquet file".to_owned()));
            }
            let of = file.referenced_data_file().ok_or_else(|| invalid("does not say whose rows".to_owned()))?;
            self.live.insert(of);
        }
        self.counts.add(spec_id, &file);
        self.added.entry((content, spec_id)).or_insert_with(|| (spec.clone(), Vec::new())).1.push(file);
        Ok(())
    }

    /// Writes the new manifests: per partition spec, as few as hold the files. None for an empty append.
    ///
    /// # Errors
    /// The storage's, or [`Error::File`] where a partition value does not fit its spec.
    pub async fn write(self, io: &FileIO, ids: &dyn Ids) -> Result<Written, Error> {
        let snapshot_id = ids.snapshot_id();
        let commit = ids.uuid_text();
        let mut manifests = Vec::new();
        for ((content, _), (spec, files)) in &self.added {
            for chunk in files.chunks(ENTRIES_MAX) {
                let location = format!("{}/{commit}-m{}.avro", self.folder, manifests.len());
                let doing = format!("write the manifest {location}");
                let written = self.write_manifest(io, &location, *content, spec, chunk, snapshot_id).await;
                manifests.push(written.map_err(Error::file(doing))?);
            }
        }
        Ok(Written { plan: self, snapshot_id, manifests, attempt: 0 })
    }

    async fn write_manifest(
        &self,
        io: &FileIO,
        location: &str,
        content: Content,
        spec: &PartitionSpecRef,
        files: &[DataFile],
        snapshot_id: i64,
    ) -> iceberg::Result<ManifestFile> {
        let mut writer = manifest_writer(io, location, self.format_version, content, snapshot_id, &self.schema, spec)?;
        // Unassigned: the number of the snapshot that takes the manifest is inherited.
        let sequence_number = match content {
            Content::Data => self.operation.data_sequence_number(),
            Content::Deletes => iceberg::spec::UNASSIGNED_SEQUENCE_NUMBER,
        };
        for file in files {
            writer.add_file(file.clone(), sequence_number)?;
        }
        writer.write_manifest_file().await
    }
}

fn manifest_writer(
    io: &FileIO,
    location: &str,
    version: FormatVersion,
    content: Content,
    snapshot_id: i64,
    schema: &SchemaRef,
    spec: &PartitionSpec,
) -> iceberg::Result<ManifestWriter> {
    let builder = ManifestWriterBuilder::new(io.new_output(location)?, Some(snapshot_id), schema.clone(), spec.clone());
    Ok(match (version, content) {
        (FormatVersion::V1 | FormatVersion::V2, Content::Data) => builder.build_v2_data(),
        (FormatVersion::V1 | FormatVersion::V2, Content::Deletes) => builder.build_v2_deletes(),
        (FormatVersion::V3, Content::Data) => builder.build_v3_data(),
        (FormatVersion::V3, Content::Deletes) => builder.build_v3_deletes(),
    })
}

/// Plans, writes and attaches in one go.
///
/// # Errors
/// As [`plan`], [`Plan::write`] and [`Written::attach`].
pub async fn prepare(
    base: &Loaded,
    change: Change,
    terms: Terms,
    io: &FileIO,
    ids: &dyn Ids,
) -> Result<Prepared, Error> {
    plan(base, change)?.write(io, ids).await?.attach(base, terms, io, ids).await
}

/// The retained snapshots of main, newest first, from its head along the parents until one is expired.
pub fn ancestry(table: &TableMetadata) -> impl Iterator<Item = &SnapshotRef> {
    // A chain is no longer than the snapshots kept; metadata whose parents run in a circle must not hang a reader.
    std::iter::successors(table.current_snapshot(), |snapshot| {
        snapshot.parent_snapshot_id().and_then(|parent| table.snapshot_by_id(parent))
    })
    .take(table.snapshots().len())
}

#[cfg(test)]
mod tests;

//! One attempt at a commit: new manifests under a manifest list on a base.

use iceberg::io::FileIO;
use iceberg::spec::{
    FormatVersion, MAIN_BRANCH, ManifestFile, ManifestListWriter, Snapshot, SnapshotRef, Summary, TableMetadata,
};
use iceberg::{TableRequirement, TableUpdate};
use model::id::Ids;

use super::manifest_merge::{self, Merged};
use super::{Error, Plan, Terms, manifests, removal, summary, validation, writable};
use crate::catalog::{self, Loaded, metadata};

/// Manifests that are in storage, and not in a table yet.
#[derive(Clone, Debug)]
pub struct Written {
    pub(super) plan: Plan,
    pub(super) snapshot_id: i64,
    pub(super) manifests: Vec<ManifestFile>,
    pub(super) attempt: u32,
}

impl Written {
    /// The id that the snapshot will have, whichever attempt brings it.
    #[must_use]
    pub const fn snapshot_id(&self) -> i64 {
        self.snapshot_id
    }

    /// Writes the manifest list of one attempt on `base`, and gives what its commit needs.
    ///
    /// # Errors
    /// [`Error::Committed`] where the base holds this snapshot; [`Error::Replaced`] where it is another table;
    /// `Conflict` where a requirement of the plan does not hold on it, a file that it removes or refers to is not live any more,
    /// or rows were deleted since of a file that it removes; otherwise the storage's.
    pub async fn attach(mut self, base: &Loaded, terms: Terms, io: &FileIO, ids: &dyn Ids) -> Result<Prepared, Error> {
        let table = &base.metadata;
        if table.uuid() != self.plan.table_uuid {
            return Err(Error::Replaced {
                expected: self.plan.table_uuid.to_string(),
                found: table.uuid().to_string(),
            });
        }
        if table.snapshot_by_id(self.snapshot_id).is_some() {
            return Err(Error::Committed(self.snapshot_id));
        }
        if table.format_version() != self.plan.format_version {
            let why = "the table's format version changed since the plan was made".to_owned();
            return Err(catalog::Error::Conflict { table: base.name.clone(), detail: why }.into());
        }
        writable(table)?;
        if let Some(name) = terms.summary.keys().find(|key| summary::is_counter(key)) {
            return Err(Error::Invalid(format!("the summary property `{name}` is counted, not given")));
        }

        // Properties and evolution first: they may change the schema the snapshot names.
        let mut updates = self.plan.evolution.clone();
        if !terms.properties.is_empty() {
            updates.push(TableUpdate::SetProperties { updates: terms.properties.into_iter().collect() });
        }
        let parent = table.current_snapshot();
        let mut requirements = vec![
            TableRequirement::UuidMatch { uuid: table.uuid() },
            TableRequirement::RefSnapshotIdMatch {
                r#ref: MAIN_BRANCH.to_owned(),
                snapshot_id: parent.map(|snapshot| snapshot.snapshot_id()),
            },
        ];
        requirements.extend(self.plan.requirements.iter().cloned());
        metadata::check(base, &requirements)?;
        let schema_id = if self.plan.evolution.is_empty() {
            table.current_schema_id()
        } else {
            metadata::apply(base, &[], &self.plan.evolution, terms.time)?.current_schema_id()
        };

        let kept = match parent {
            Some(snapshot) => manifests(table, snapshot, io).await?,
            None => Vec::new(),
        };
        validation::check(base, &kept, &self.plan, io).await?;
        let removal::Removed { manifests: kept, files: removed, rewritten, moved } =
            removal::remove(base, kept, &self.plan, self.snapshot_id, io, ids).await?;
        let Merged { manifests: kept, replaced, created, entries } =
            manifest_merge::merge(table, kept, self.snapshot_id, io, ids).await?;
        let handled = summary::Manifests {
            created: self.manifests.len() + created + rewritten,
            kept: kept.len() - created - rewritten,
            replaced: replaced + rewritten,
            entries: entries + moved,
        };
        let counts = self.plan.counts.clone().without(&removed);
        let operation = counts.operation(self.plan.operation);
        let properties = counts.summary(parent.map(|p| p.summary()), &handled, terms.summary);

        self.attempt = self.attempt.saturating_add(1);
        let location =
            format!("{}/snap-{}-{}-{}.avro", self.plan.folder, self.snapshot_id, self.attempt, ids.uuid_text());
        let sequence_number = table.last_sequence_number().saturating_add(1);
        let rows = self
            .write_list(io, &location, parent, kept, sequence_number, table)
            .await
            .map_err(Error::file(format!("write the manifest list {location}")))?;

        let builder = Snapshot::builder()
            .with_snapshot_id(self.snapshot_id)
            .with_parent_snapshot_id(parent.map(|snapshot| snapshot.snapshot_id()))
            .with_sequence_number(sequence_number)
            .with_timestamp_ms(terms.time.millis().max(metadata::last_change_ms(table).saturating_add(1)))
            .with_manifest_list(location)
            .with_summary(Summary { operation, additional_properties: properties.into_iter().collect() })
            .with_schema_id(schema_id);
        let snapshot = match rows {
            Some((first, assigned)) => builder.with_row_range(first, assigned).build(),
            None => builder.build(),
        };
        updates.extend(main_to(table, &snapshot)?);
        Ok(Prepared { written: self, requirements, updates, snapshot })
    }

    /// Writes kept and new manifests as a list. On tables with row lineage, gives the first row id and how many were
    /// assigned.
    async fn write_list(
        &self,
        io: &FileIO,
        location: &str,
        parent: Option<&SnapshotRef>,
        kept: Vec<ManifestFile>,
        sequence_number: i64,
        table: &TableMetadata,
    ) -> iceberg::Result<Option<(u64, u64)>> {
        let output = io.new_output(location)?.writer().await?;
        let parent = parent.map(|snapshot| snapshot.snapshot_id());
        let first = (table.format_version() == FormatVersion::V3).then(|| table.next_row_id());
        let mut list = match first {
            None => ManifestListWriter::v2(output, self.snapshot_id, parent, sequence_number),
            Some(_) => ManifestListWriter::v3(output, self.snapshot_id, parent, sequence_number, first),
        };
        list.add_manifests(self.manifests.iter().cloned().chain(kept))?;
        let next = list.next_row_id();
        list.close().await?;
        Ok(first.zip(next).map(|(first, next)| (first, next.saturating_sub(first))))
    }
}

/// The updates that add a snapshot and move main to it, with main's retention kept. Refused by the same rules that the
/// catalog applies.
fn main_to(table: &TableMetadata, snapshot: &Snapshot) -> Result<Vec<TableUpdate>, Error> {
    table
        .clone()
        .into_builder(None)
        .set_branch_snapshot(snapshot.clone(), MAIN_BRANCH)
        .and_then(iceberg::spec::TableMetadataBuilder::build)
        .map(|built| built.changes)
        .map_err(|e| Error::Invalid(e.to_string()))
}

/// One attempt: everything a [`Catalog::commit`](crate::catalog::Catalog::commit) takes.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(super) written: Written,
    requirements: Vec<TableRequirement>,
    updates: Vec<TableUpdate>,
    snapshot: Snapshot,
}

impl Prepared {
    /// The table's uuid, main as the base had it, and the plan's own.
    #[must_use]
    pub fn requirements(&self) -> &[TableRequirement] {
        &self.requirements
    }

    /// Evolution, properties, the snapshot, main.
    #[must_use]
    pub fn updates(&self) -> &[TableUpdate] {
        &self.updates
    }

    /// The snapshot as it will stand in the table.
    #[must_use]
    pub const fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// How many attempts were prepared, this one included.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.written.attempt
    }

    /// The same files on another base, after a conflict: new manifests are kept, a new manifest list is written.
    ///
    /// For a certain conflict only. After an unknown outcome a plan starts over with new file names.
    ///
    /// # Errors
    /// As [`Written::attach`].
    pub async fn rebase(self, base: &Loaded, terms: Terms, io: &FileIO, ids: &dyn Ids) -> Result<Self, Error> {
        self.written.attach(base, terms, io, ids).await
    }
}

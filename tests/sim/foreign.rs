//! Other hands on the table: engines that rewrite, expire, move and change it, as their specification lets them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use iceberg::TableUpdate;
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, Manifest, ManifestList, NestedField, PrimitiveType, Schema,
    SnapshotRef, TableMetadata, Type,
};
use model::id::Ids;
use model::id::SeededIds;
use table::catalog::{Loaded, TableName};
use table::snapshot::{self, Change, NewFile, Operation, Terms, ancestry, branch};

use crate::catalog::Tables;
use crate::fault::Fault;
use crate::files::{Disk, RemoteFiles};
use crate::oracle::Actor;
use crate::world::World;

/// The other hands.
#[derive(Debug)]
pub(crate) struct Foreign {
    pub(crate) world: Arc<World>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) ids: Arc<SeededIds>,
    /// The one table, where there are not many.
    pub(crate) table: TableName,
    /// What was taken away, by table.
    pub(crate) properties: Arc<Mutex<Taken>>,
    /// Where main was before it was moved back, by table.
    pub(crate) before: Mutex<BTreeMap<TableName, (i64, i64)>>,
}

/// Properties of tables as they were before somebody took them away.
pub(crate) type Taken = BTreeMap<TableName, HashMap<String, String>>;

impl Foreign {
    /// Does what is due now, to one table.
    pub(crate) async fn act(&self) {
        let world = &self.world;
        let table = match world.has_many() {
            true => {
                let names = self.tables.names();
                let pick = usize::try_from(world.below(names.len() as u64)).unwrap_or(0);
                names.get(pick).unwrap_or(&self.table).clone()
            }
            false => self.table.clone(),
        };
        let hand = Hand { foreign: self, table: &table };
        if world.happens(Fault::Foreign) {
            hand.add(Change::append(Vec::new()), "append").await;
        }
        if world.happens(Fault::Compaction) {
            hand.compact().await;
        }
        if world.happens(Fault::Expiry) {
            hand.expire();
        }
        if world.happens(Fault::Rollback) {
            hand.roll_back();
            // Who moved main back often goes on writing at once.
            if world.below(2) == 0 {
                hand.add(Change::append(Vec::new()), "append").await;
            }
        }
        if world.happens(Fault::RollForward) {
            hand.roll_forward();
        }
        if world.happens(Fault::Alter) {
            hand.alter();
        }
        if world.happens(Fault::Unset) {
            hand.unset();
        }
    }
}

/// The other hands on one table.
#[derive(Clone, Copy, Debug)]
struct Hand<'a> {
    foreign: &'a Foreign,
    table: &'a TableName,
}

impl Hand<'_> {
    fn loaded(self) -> Option<Loaded> {
        self.foreign.tables.load(self.table).filter(|loaded| loaded.metadata.current_snapshot().is_some())
    }

    fn commit(self, base: &Loaded, updates: &[TableUpdate]) {
        if let Err(error) = self.foreign.tables.commit(Actor::Other, base, &[], updates) {
            self.foreign.world.note(|| format!("other hands: {error}"));
        }
    }

    /// Adds a snapshot that does not carry our keys.
    async fn add(self, change: Change, what: &str) {
        let Some(base) = self.loaded() else { return };
        let terms = Terms { time: self.foreign.world.now(), summary: BTreeMap::new(), properties: BTreeMap::new() };
        let io = RemoteFiles::io(&self.foreign.disk, None);
        match snapshot::prepare(&base, change, terms, &io, self.foreign.ids.as_ref()).await {
            Ok(prepared) => {
                self.foreign.world.note(|| format!("other hands: {what}"));
                self.commit(&base, prepared.updates());
            }
            Err(error) => self.foreign.world.note(|| format!("other hands: {what}: {error}")),
        }
    }

    /// Rewrites some files: every row stays, under other names.
    async fn compact(self) {
        let Some(base) = self.loaded() else { return };
        let files = live(&self.foreign.disk, &base.metadata);
        // What has lost rows is left to those who read delete files.
        let touched: BTreeSet<String> = files.iter().filter_map(DataFile::referenced_data_file).collect();
        let whole =
            |file: &&DataFile| file.content_type() == DataContentType::Data && !touched.contains(file.file_path());
        let some = files.iter().filter(whole).filter(|_| self.foreign.world.below(3) > 0);
        let some: Vec<&DataFile> = some.take(8).collect();
        if some.is_empty() {
            return;
        }
        let spec_id = base.metadata.default_partition_spec_id();
        let mut added = Vec::new();
        for file in &some {
            let path = format!("{}/data/rewritten-{}.parquet", base.metadata.location(), self.foreign.ids.uuid_text());
            let Some(bytes) = self.foreign.disk.read(file.file_path()) else { return };
            self.foreign.disk.write(&path, bytes);
            let Some(file) = renamed(file, &path) else { return };
            added.push(NewFile { spec_id, file });
        }
        let starting = base.metadata.current_snapshot().map_or(0, |s| s.sequence_number());
        let change = Change {
            operation: Operation::Rewrite { starting_sequence_number: starting },
            data_files: added,
            removed: some.iter().map(|file| file.file_path().to_owned()).collect(),
            ..Change::append(Vec::new())
        };
        self.add(change, "compaction").await;
    }

    /// Forgets old snapshots of main and all that main does not hold.
    fn expire(self) {
        let Some(base) = self.loaded() else { return };
        let keep = usize::try_from(self.foreign.world.between(1, 6)).unwrap_or(1);
        let mut kept: Vec<i64> = ancestry(&base.metadata).take(keep).map(|s| s.snapshot_id()).collect();
        let mut gone: Vec<i64> =
            base.metadata.snapshots().map(|s| s.snapshot_id()).filter(|id| !kept.contains(id)).collect();
        gone.sort_unstable();
        // Some had tags that kept them: what is gone is in the middle then.
        if self.foreign.world.below(2) == 0 {
            kept.extend(gone.iter().copied().filter(|_| self.foreign.world.below(3) == 0));
            gone.retain(|id| !kept.contains(id));
        }
        if !gone.is_empty() {
            self.foreign.world.note(|| format!("other hands: expiry of {}", gone.len()));
            self.commit(&base, &[TableUpdate::RemoveSnapshots { snapshot_ids: sorted(gone) }]);
        }
    }

    fn roll_back(self) {
        let Some(base) = self.loaded() else { return };
        let line: Vec<&SnapshotRef> = ancestry(&base.metadata).collect();
        let back = usize::try_from(self.foreign.world.between(1, 4)).unwrap_or(1);
        let (Some(head), Some(target)) = (line.first(), line.get(back)) else { return };
        self.foreign.world.note(|| format!("other hands: rollback by {back} to {}", target.snapshot_id()));
        let moved = (target.snapshot_id(), head.snapshot_id());
        self.foreign.before.lock().unwrap_or_else(PoisonError::into_inner).insert(self.table.clone(), moved);
        self.commit(&base, &[branch::move_main(&base.metadata, target.snapshot_id())]);
    }

    /// Moves main to where it was before it was moved back, if nobody has committed since.
    fn roll_forward(self) {
        let Some(base) = self.loaded() else { return };
        let moved = self.foreign.before.lock().unwrap_or_else(PoisonError::into_inner).remove(self.table);
        let Some((at, to)) = moved else { return };
        let here = base.metadata.current_snapshot().is_some_and(|s| s.snapshot_id() == at);
        if here && base.metadata.snapshot_by_id(to).is_some() {
            self.foreign.world.note(|| "other hands: roll-forward".to_owned());
            self.commit(&base, &[branch::move_main(&base.metadata, to)]);
        }
    }

    fn alter(self) {
        let Some(base) = self.loaded() else { return };
        let metadata = &base.metadata;
        let property = ("comment".to_owned(), format!("as of {}", self.foreign.world.now()));
        let mut updates = vec![TableUpdate::SetProperties { updates: [property].into() }];
        if self.foreign.world.below(2) == 0 {
            let schema = metadata.current_schema();
            let mut fields = schema.as_struct().fields().to_vec();
            let id = metadata.last_column_id() + 1;
            fields.push(Arc::new(NestedField::optional(
                id,
                format!("theirs_{id}"),
                Type::Primitive(PrimitiveType::String),
            )));
            let next = Schema::builder().with_fields(fields).with_schema_id(schema.schema_id() + 1).build();
            if let Ok(schema) = next {
                updates.push(TableUpdate::AddSchema { schema });
                updates.push(TableUpdate::SetCurrentSchema { schema_id: -1 });
            }
        }
        self.foreign.world.note(|| "other hands: alter".to_owned());
        self.commit(&base, &updates);
    }

    /// Takes some or all of our properties away.
    fn unset(self) {
        let Some(base) = self.loaded() else { return };
        let ours = base.metadata.properties().iter().filter(|(name, _)| name.starts_with("frazil."));
        let mut ours: Vec<(String, String)> = ours.map(|(name, value)| (name.clone(), value.clone())).collect();
        ours.sort();
        let all = self.foreign.world.below(2) == 0;
        ours.retain(|_| all || self.foreign.world.below(2) == 0);
        if ours.is_empty() {
            return;
        }
        self.foreign
            .world
            .note(|| format!("other hands: unset {:?}", ours.iter().map(|(name, _)| name).collect::<Vec<_>>()));
        let removals = ours.iter().map(|(name, _)| name.clone()).collect();
        let mut taken = self.foreign.properties.lock().unwrap_or_else(PoisonError::into_inner);
        taken.entry(self.table.clone()).or_default().extend(ours);
        drop(taken);
        self.commit(&base, &[TableUpdate::RemoveProperties { removals }]);
    }
}

fn sorted(mut ids: Vec<i64>) -> Vec<i64> {
    ids.sort_unstable();
    ids
}

/// The live files of a table.
fn live(disk: &Disk, metadata: &TableMetadata) -> Vec<DataFile> {
    let mut files = Vec::new();
    let list = metadata.current_snapshot().and_then(|s| disk.read(s.manifest_list()));
    let list = list.and_then(|bytes| ManifestList::parse_with_version(&bytes, metadata.format_version()).ok());
    for entry in list.iter().flat_map(|list| list.entries()) {
        let manifest = disk.read(&entry.manifest_path).and_then(|bytes| Manifest::parse_avro(&bytes).ok());
        for entry in manifest.iter().flat_map(|manifest| manifest.entries()) {
            if entry.is_alive() {
                files.push(entry.data_file().clone());
            }
        }
    }
    files
}

/// The same file under another name.
fn renamed(file: &DataFile, path: &str) -> Option<DataFile> {
    DataFileBuilder::default()
        .content(file.content_type())
        .file_path(path.to_owned())
        .file_format(file.file_format())
        .partition(file.partition().clone())
        .partition_spec_id(0)
        .record_count(file.record_count())
        .file_size_in_bytes(file.file_size_in_bytes())
        .column_sizes(file.column_sizes().clone())
        .value_counts(file.value_counts().clone())
        .null_value_counts(file.null_value_counts().clone())
        .nan_value_counts(file.nan_value_counts().clone())
        .lower_bounds(file.lower_bounds().clone())
        .upper_bounds(file.upper_bounds().clone())
        .split_offsets(file.split_offsets().map(<[i64]>::to_vec))
        .build()
        .ok()
}

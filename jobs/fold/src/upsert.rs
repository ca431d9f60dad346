//! Mode `upsert`: of the rows of one key, those on their way in and those of the table, the newest stays.
//!
//! Of the table the files are read whose partition, bounds and row group statistics show that they may hold a key, of those the
//! row groups whose bloom filters do not deny all keys (where they are few enough for that), and of those the key columns. Only
//! where a row of a key is found, it is read which version it is. Memory is bounded by the rows on their way in.
//!
//! Old rows go by position delete files, or by writing their file anew without them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, PrimitiveArray, RecordBatch, StringViewArray};
use arrow::compute::not;
use arrow::datatypes::{DataType, Int32Type, Int64Type, TimestampMicrosecondType};
use futures::{StreamExt, TryStreamExt};
use iceberg::io::FileIO;
use iceberg::spec::TableMetadata;
use merge::Origin;
use merge::upsert::{Deletes, Deletions, Epochs, Fate, Upsert};
use model::clock::Timestamp;
use model::coordinate::{SourceId, TopicPartition};
use model::interval::Intervals;
use model::ledger::{Counts, Ledger};
use model::mutation::{self, Mutation};
use pipeline::resolved::{NullKeys, Table, Write};
use staging::record_columns;
use table::data_file::{PartitionedWriter, Target};
use table::delete_file;
use table::fault::Fault;
use table::scan::{self, KEYS_MAX, Keys, Predicate, Request};
use table::schema::Strings;
use table::snapshot::NewFile;

use crate::bind::Binding;
use crate::dead::{Left, Reason, Reasons};
use crate::error::Error;
use crate::high_water::HighWater;
use crate::intake::Intake;
use crate::keys;
use crate::ordered;
use crate::rows::{Admitted, Rows, Run, runs_of};

/// Where so much of a file's rows goes, `auto` writes the file anew: reading it costs less from then on, and is done once.
const REWRITE_SHARE: f64 = 0.3;
/// A file that this many delete files are about already is written anew by `auto`: each of them is a request for every reader.
const DELETE_FILES_MAX: usize = 8;
/// Keys that are looked for one by one in partitions and bounds. More are looked for between the least and the greatest.
const POINTS_MAX: usize = 64 * 1024;
/// Delete files that are written at a time.
const DELETES_AT_ONCE: usize = 16;

/// The columns that say which record a row of the table is of.
const ORIGIN: [&str; 4] =
    [record_columns::TOPIC, record_columns::PARTITION, record_columns::OFFSET, record_columns::TIMESTAMP];

/// Bytes that a record takes here beside its values, at the most, told from the types of key and order columns as staged
/// objects name them.
pub(crate) fn row_bytes(table: &Table, intake: &Intake) -> u64 {
    let types = |names: &[String]| names.iter().map(|name| keys::width(intake, name)).collect::<Vec<_>>();
    let order = table.upsert.iter().flat_map(|upsert| &upsert.order_by).cloned().collect::<Vec<_>>();
    Upsert::record_bytes(&types(&table.primary_key), &types(&order)) as u64
}

/// Records on their way in.
pub(crate) struct Upserts {
    table: String,
    upsert: Upsert,
    write: Write,
    /// Where the key columns are, in the target's schema, and their field ids; then those that versions are told apart by.
    key: Vec<keys::Column>,
    order: Vec<keys::Column>,
    origin: Vec<keys::Column>,
    logs: Logs,
    /// Why rows whose key has a null are dead, where they are.
    null_key: Option<Arc<Reason>>,
    held: Vec<Held>,
    key_types: Vec<DataType>,
    /// Records below what their partition has settled, of keys that a later one deleted.
    superseded: BTreeMap<TopicPartition, Counts>,
}

/// Which log of their topics rows are of, where topics were made again.
struct Logs {
    /// By topic.
    sources: BTreeMap<String, SourceId>,
    ledger: Ledger,
    /// Where it stands when a row was staged; nothing where no topic was made again.
    ingested_at: Option<keys::Column>,
}

impl Logs {
    /// Of staged rows.
    fn of_staged(&self, admitted: &BTreeMap<TopicPartition, Intervals>, origin: &Origin) -> Epochs {
        if self.ingested_at.is_none() {
            return Epochs::new();
        }
        let mut epochs = vec![0; origin.offsets.len()];
        for run in runs_of(admitted, origin) {
            let number = self.ledger.log_number(&run.at.source);
            epochs.iter_mut().take(run.rows.end).skip(run.rows.start).for_each(|epoch| *epoch = number);
        }
        epochs
    }

    /// Of rows of the table, from when they were staged.
    fn of_stored(&self, origin: &Origin, ingested_at: &PrimitiveArray<TimestampMicrosecondType>) -> Epochs {
        let rows = origin.topics.iter().zip(origin.partitions.iter()).zip(ingested_at.iter());
        let number = |((topic, partition), at): ((Option<&str>, Option<i32>), Option<i64>)| {
            let (topic, partition, at) = (topic?, partition?, at?);
            let at = self.ledger.counted(
                &TopicPartition { source: self.sources.get(topic)?.clone(), topic: topic.to_owned(), partition },
                Timestamp::from_micros(at).minute(),
            );
            Some(self.ledger.log_number(&at.source))
        };
        rows.map(|row| number(row).unwrap_or(0)).collect()
    }
}

struct Held {
    batch: RecordBatch,
    runs: Vec<(TopicPartition, Range<usize>)>,
}

/// What a table's rows become, beside those that enter.
#[derive(Default)]
pub(crate) struct Upserted {
    pub(crate) delete_files: Vec<NewFile>,
    /// Paths of files that go.
    pub(crate) removed: Vec<String>,
    /// What to add to each partition's counts.
    pub(crate) counts: BTreeMap<TopicPartition, Counts>,
}

impl Upserts {
    /// For a pipeline's table.
    ///
    /// # Errors
    /// [`Error::Stopped`] when a column that rows are compared by is not in the table any more.
    pub(crate) fn new(
        table: &Table,
        target: &Target,
        binding: &Binding,
        intake: &Intake,
        ledger: &Ledger,
    ) -> Result<Self, Error> {
        let name = table.name.to_string();
        let settings = table.upsert.clone().unwrap_or_default();
        let stopped = |column: &str| Error::Stopped {
            code: "fold.upsert_column",
            message: format!("{name} has no column for `{column}`, which the versions of its rows are told apart by"),
            remedy: "bring the column back, or change `primary_key` or `order_by`; nothing staged is lost".to_owned(),
        };
        let columns = |names: &[String]| {
            let found = |column: &String| keys::column(target, binding, intake, column).ok_or_else(|| stopped(column));
            names.iter().map(found).collect::<Result<Vec<_>, Error>>()
        };
        // What no row has yet, neither in the table nor staged, is null in all of them.
        let is_somewhere = |name: &&String| {
            keys::column(target, binding, intake, name).is_some()
                || intake.objects.iter().any(|found| found.footer.columns.iter().any(|column| column.name == **name))
        };
        let order_by: Vec<String> = settings.order_by.iter().filter(is_somewhere).cloned().collect();
        let (key, order) = (columns(&table.primary_key)?, columns(&order_by)?);
        let origin = columns(&ORIGIN.map(str::to_owned))?;
        let logs = Logs {
            sources: ordered::sources(intake, ledger, &table.name)?,
            ledger: ledger.clone(),
            ingested_at: match ledger.epochs.is_empty() {
                true => None,
                false => columns(&[record_columns::INGESTED_AT.to_owned()])?.pop(),
            },
        };
        let types = |columns: &[keys::Column]| {
            let fields = columns.iter().filter_map(|column| target.arrow_schema().fields().get(column.place));
            fields.map(|field| field.data_type().clone()).collect::<Vec<DataType>>()
        };
        let key_types = types(&key);
        let upsert = Upsert::new(&key_types, &types(&order));
        let upsert = upsert.map_err(|source| Error::Merge { table: name.clone(), source })?;
        let null_key = (table.null_keys == NullKeys::Reject).then(|| keys::null_key(table));
        let (held, superseded) = (Vec::new(), BTreeMap::new());
        let write = settings.write;
        Ok(Self { table: name, upsert, write, key, order, origin, logs, null_key, held, key_types, superseded })
    }

    /// Makes room for records that are to come, from so many objects.
    pub(crate) fn reserve(&mut self, records: usize, objects: usize) {
        self.upsert.reserve(records, objects);
        self.held.reserve(objects);
    }

    /// Nothing yet of what deleted rows of such keys.
    ///
    /// # Errors
    /// [`Error::Merge`], which would be a bug.
    pub(crate) fn deletions(&self) -> Result<Deletions, Error> {
        Deletions::new(&self.key_types).map_err(|source| self.bug(source))
    }

    pub(crate) fn epochs(&self, admitted: &BTreeMap<TopicPartition, Intervals>, origin: &Origin) -> Epochs {
        self.logs.of_staged(admitted, origin)
    }

    /// Whether anything but what came later tells versions apart.
    pub(crate) const fn is_ordered(&self) -> bool {
        !self.order.is_empty()
    }

    pub(crate) fn key_of(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        columns_of(&self.key, batch)
    }

    /// Why rows of an object are dead, by batch: a column of their key is null, where such rows are refused; or nothing tells
    /// whether a later record deleted their key.
    ///
    /// # Errors
    /// [`Error::Merge`], which would be a bug.
    pub(crate) fn judge(
        &self,
        admitted: &BTreeMap<TopicPartition, Intervals>,
        rows: &Rows,
        high_water: Option<&mut HighWater>,
    ) -> Result<Vec<Reasons>, Error> {
        let batches = || rows.fit.iter().chain(&rows.deleting);
        let mut reasons: Vec<Reasons> = match &self.null_key {
            None => batches().map(|_| Reasons::new()).collect(),
            Some(reason) => batches().map(|rows| keys::without_key(&self.key, &rows.batch, reason)).collect(),
        };
        let Some(high_water) = high_water else { return Ok(reasons) };
        let fit = rows.fit.len();
        for ((number, rows), reasons) in batches().enumerate().zip(&mut reasons) {
            let below = high_water.below(
                admitted,
                &self.key_of(&rows.batch),
                &rows.origin,
                &self.epochs(admitted, &rows.origin),
            );
            let below = below.map_err(|source| self.bug(source))?;
            let mut dies = |dead: &BooleanArray, why: &Arc<Reason>| {
                if dead.true_count() > 0 {
                    reasons.resize(rows.batch.num_rows(), None);
                    for (reason, _) in reasons.iter_mut().zip(dead).filter(|(_, dies)| *dies == Some(true)) {
                        reason.get_or_insert_with(|| Arc::clone(why));
                    }
                }
            };
            dies(&below.stale, &high_water.stale);
            // Records that delete are behind the rows.
            if number >= fit {
                dies(&below.followed, &high_water.followed);
            }
        }
        Ok(reasons)
    }

    /// Adds the records of an object that may enter.
    ///
    /// # Errors
    /// [`Error::Merge`], which would be a bug.
    pub(crate) fn add(
        &mut self,
        admitted: &BTreeMap<TopicPartition, Intervals>,
        left: Left,
        mut high_water: Option<&mut HighWater>,
    ) -> Result<(), Error> {
        let deleting = left.deleting.into_iter().map(|batch| (batch, true));
        for (mut rows, deletes) in left.fit.into_iter().map(|batch| (batch, false)).chain(deleting) {
            if let Some(high_water) = high_water.as_deref_mut() {
                let below = high_water.below(
                    admitted,
                    &self.key_of(&rows.batch),
                    &rows.origin,
                    &self.epochs(admitted, &rows.origin),
                );
                let deleted = below.map_err(|source| self.bug(source))?.deleted;
                if deleted.true_count() > 0 {
                    for run in runs_of(admitted, &rows.origin) {
                        let gone = deleted.slice(run.rows.start, run.rows.len()).true_count() as u64;
                        self.superseded.entry(run.at.clone()).or_default().superseded += gone;
                    }
                    let kept = not(&deleted).map_err(|e| self.fault(e.into()))?;
                    rows = rows.filtered(&kept).map_err(|e| self.fault(e.into()))?;
                }
            }
            let Admitted { batch, origin, .. } = rows;
            let runs = runs_of(admitted, &origin).into_iter().map(|Run { at, rows }| (at.clone(), rows)).collect();
            let (key, order) = (columns_of(&self.key, &batch), columns_of(&self.order, &batch));
            let mask = deletes.then(|| BooleanArray::from(vec![true; batch.num_rows()]));
            let epochs = self.logs.of_staged(admitted, &origin);
            self.upsert.add(&key, &order, mask, origin, epochs).map_err(|source| self.bug(source))?;
            self.held.push(Held { batch, runs });
        }
        Ok(())
    }

    pub(crate) fn bug(&self, source: merge::Error) -> Error {
        Error::Merge { table: self.table.clone(), source }
    }

    fn fault(&self, fault: Fault) -> Error {
        Error::table(self.table.clone(), fault)
    }

    /// Holds all records against the table as it is in this metadata, writes the rows that enter, and has those go that they
    /// replace.
    ///
    /// # Errors
    /// When the table can't be read, or its files not be written.
    pub(crate) async fn against(
        mut self,
        metadata: &TableMetadata,
        io: &FileIO,
        target: &Target,
        writer: &mut PartitionedWriter,
    ) -> Result<Upserted, Error> {
        let mut upserted = Upserted { counts: std::mem::take(&mut self.superseded), ..Upserted::default() };
        if self.upsert.records() == 0 {
            return Ok(upserted);
        }
        let plan = match mutation::on(Mutation::TableNotMet) {
            true => None,
            false => Some(self.meet(metadata, io).await?),
        };
        let Self { upsert, held, table, write, .. } = self;
        let fault = |fault: Fault| Error::table(table.clone(), fault);
        let outcome = upsert.finish(Deletes::Hard);
        for (number, (Held { batch, runs }, enter)) in held.into_iter().zip(&outcome.enter).enumerate() {
            let fates = outcome.fates.get(number).map_or(&[][..], Vec::as_slice);
            for (at, rows) in runs {
                let counts = upserted.counts.entry(at).or_default();
                for fate in fates.get(rows.clone()).unwrap_or_default() {
                    *match fate {
                        Fate::Added => &mut counts.rows_added,
                        Fate::Updated => &mut counts.rows_updated,
                        Fate::Deleted => &mut counts.deletes,
                        Fate::Superseded => &mut counts.superseded,
                    } += 1;
                }
                let gone = outcome.gone.range((number, rows.start)..(number, rows.end));
                counts.rows_deleted += gone.map(|(_, rows)| rows).sum::<u64>();
            }
            if enter.true_count() > 0 {
                writer.write_some(batch, Some(enter)).await.map_err(fault)?;
            }
        }
        if let Some(plan) = plan {
            let removal = Removal { plan, metadata, io, target, write };
            removal.remove(&outcome.removed, writer, &mut upserted).await.map_err(fault)?;
        }
        Ok(upserted)
    }

    /// Finds the rows of the table that have a key of the records, and of which version they are.
    async fn meet(&mut self, metadata: &TableMetadata, io: &FileIO) -> Result<scan::Plan, Error> {
        let names = |columns: &[keys::Column]| {
            let name = |column: &keys::Column| keys::name(metadata, column.field_id).map_err(|fault| self.fault(fault));
            columns.iter().map(name).collect::<Result<Vec<_>, _>>()
        };
        let key = names(&self.key)?;
        let mut of_version: Vec<String> = Vec::new();
        let ingested_at = names(&self.logs.ingested_at.into_iter().collect::<Vec<_>>())?.pop();
        for name in names(&self.order)?.into_iter().chain(names(&self.origin)?).chain(ingested_at.clone()) {
            if !of_version.contains(&name) {
                of_version.push(name);
            }
        }
        let (order, origin) = (names(&self.order)?, names(&self.origin)?);
        let distinct = self.upsert.distinct_keys();
        let values = self.upsert.keys().map_err(|source| self.bug(source))?;
        let wanted = key.iter().zip(&values).filter_map(|(name, values)| keys::among(name, values, POINTS_MAX));
        let predicate = Predicate::And(wanted.collect());
        let keys = (distinct <= KEYS_MAX).then(|| Keys { columns: key.clone(), values });
        let request = Request { columns: Some(key), predicate, keys, strings: Strings::Views, ..Request::default() };
        let plan = scan::plan(metadata, io, &request).await.map_err(|fault| self.fault(fault))?;
        tracing::debug!(
            files = plan.files.len(),
            pruned = plan.files_pruned,
            rows = plan.rows(),
            "rows to look keys up in"
        );
        // In no order: which rows are met first makes no difference.
        let mut rows = plan.execute_located(io);
        while let Some(found) = rows.try_next().await.map_err(|fault| self.fault(fault))? {
            let file = u32::try_from(found.file).map_err(|_| self.bug(merge::Error::TooMany))?;
            self.upsert.meet(found.batch.columns(), file, &found.positions).map_err(|source| self.bug(source))?;
        }
        drop(rows);
        let matched = self.upsert.matched();
        tracing::debug!(figures = ?plan.figures(), files = matched.len(), "keys were looked up");
        if !matched.is_empty() {
            let versions = plan.with_columns(metadata, Some(&of_version)).map_err(|fault| self.fault(fault))?;
            let place = |names: &[String]| -> Vec<usize> {
                names.iter().filter_map(|name| of_version.iter().position(|other| other == name)).collect()
            };
            let (order, origin) = (place(&order), place(&origin));
            let mut rows = versions.execute_at(io, matched.into_iter().map(|(file, rows)| (file as usize, rows)));
            while let Some(found) = rows.try_next().await.map_err(|fault| self.fault(fault))? {
                let file = u32::try_from(found.file).map_err(|_| self.bug(merge::Error::TooMany))?;
                let columns = |places: &[usize]| -> Vec<ArrayRef> {
                    places.iter().filter_map(|place| found.batch.columns().get(*place)).cloned().collect()
                };
                let table = self.table.clone();
                let untyped = || Error::Stopped {
                    code: "fold.record_columns",
                    message: format!("the record columns of {table} do not have the types that frazil gives them"),
                    remedy: "fold into a new table, or set the columns' types back; nothing staged is lost".to_owned(),
                };
                let origin = origin_of(&columns(&origin)).ok_or_else(untyped)?;
                let epochs = match ingested_at.as_ref().and_then(|name| found.batch.column_by_name(name)) {
                    None => Epochs::new(),
                    Some(at) => self.logs.of_stored(&origin, at.as_primitive_opt().ok_or_else(untyped)?),
                };
                let versions = self.upsert.versions(file, &found.positions, &columns(&order), None, &origin, &epochs);
                versions.map_err(|source| self.bug(source))?;
            }
        }
        Ok(plan)
    }
}

/// What removes rows of the table.
struct Removal<'a> {
    plan: scan::Plan,
    metadata: &'a TableMetadata,
    io: &'a FileIO,
    target: &'a Target,
    write: Write,
}

impl Removal<'_> {
    /// Removes rows (file, position), which are in order. What stays of files that go is written.
    async fn remove(
        self,
        rows: &[(u32, i64)],
        writer: &mut PartitionedWriter,
        upserted: &mut Upserted,
    ) -> Result<(), Fault> {
        let mut by_delete_file = Vec::new();
        let mut rewritten = Vec::new();
        for of_file in rows.chunk_by(|a, b| a.0 == b.0) {
            let Some((place, _)) = of_file.first() else { continue };
            let place = *place as usize;
            let Some(file) = self.plan.files.get(place) else { continue };
            let positions: Vec<i64> = of_file.iter().map(|(_, position)| *position).collect();
            let gone = positions.len() as u64;
            let share = gone as f64 / file.rows.max(1) as f64;
            // What would be empty, or hold next to nothing, is no file.
            let is_empty = gone.saturating_add(file.rows_deleted_max()) >= file.rows;
            let is_rewritten = match self.write {
                Write::CopyOnWrite => true,
                Write::MergeOnRead => is_empty,
                Write::Auto => is_empty || share >= REWRITE_SHARE || file.delete_files().count() >= DELETE_FILES_MAX,
            };
            match is_rewritten {
                true => rewritten.push((place, positions)),
                false => by_delete_file.push((place, positions)),
            }
        }
        let this = &self;
        let files = futures::stream::iter(by_delete_file).map(|(place, positions)| async move {
            let Some(file) = this.plan.files.get(place) else { return Ok(None) };
            let of = delete_file::Of { path: &file.path, spec: &file.spec, partition: &file.partition };
            let written = delete_file::write(this.target, of, &positions).await?;
            Ok::<_, Fault>(Some(NewFile { spec_id: file.spec.spec_id(), file: written }))
        });
        let mut files = files.buffered(DELETES_AT_ONCE);
        while let Some(file) = files.try_next().await? {
            upserted.delete_files.extend(file);
        }
        drop(files);
        if rewritten.is_empty() {
            return Ok(());
        }
        let whole = self.plan.with_columns(self.metadata, None)?;
        let mut removed = BTreeSet::new();
        for (place, _) in &rewritten {
            let Some(file) = self.plan.files.get(*place) else { continue };
            removed.insert(file.path.clone());
            // They would be about a file that is gone.
            removed.extend(file.own_delete_files().map(str::to_owned));
        }
        let mut kept = whole.execute_without(self.io, rewritten);
        while let Some(rows) = kept.try_next().await? {
            writer.write(rows.batch).await?;
        }
        upserted.removed.extend(removed);
        Ok(())
    }
}

fn columns_of(columns: &[keys::Column], batch: &RecordBatch) -> Vec<ArrayRef> {
    columns.iter().filter_map(|column| batch.columns().get(column.place)).cloned().collect()
}

/// The record columns of rows of the table, in the order of [`ORIGIN`].
fn origin_of(columns: &[ArrayRef]) -> Option<Origin> {
    let [topics, partitions, offsets, timestamps] = columns else { return None };
    let topics: &StringViewArray = topics.as_string_view_opt()?;
    let rows = topics.len();
    Some(Origin {
        topics: topics.clone(),
        partitions: partitions.as_primitive_opt::<Int32Type>()?.clone(),
        offsets: offsets.as_primitive_opt::<Int64Type>()?.clone(),
        timestamps: timestamps.as_primitive_opt::<TimestampMicrosecondType>()?.clone(),
        // A row of the table does not say which of its record's it is.
        ordinals: Int32Array::from_value(0, rows),
    })
}

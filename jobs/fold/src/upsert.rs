//! Mode `upsert`: of the rows of one key, those on their way in and those of the table, the newest stays.
//!
//! Of the table the files are read whose partition, bounds and row group statistics show that they may hold a key, of those the
//! row groups whose bloom filters do not deny all keys (where they are few enough for that), and of those the key columns. Only
//! where a row of a key is found, it is read which version it is. Memory is bounded by the rows on their way in.
//!
//! Old rows go by position delete files, or by writing their file anew without them. Where deletes are soft, a row that is deleted goes
//! like that, too, and enters again with a mark ([`crate::marks`]).

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
use merge::upsert::{Deletes, Deletions, Epochs, Fate, Outcome, Upsert};
use model::clock::Timestamp;
use model::coordinate::{SourceId, TopicPartition};
use model::coverage::Filtered;
use model::interval::Intervals;
use model::ledger::{Counts, Ledger};
use model::mutation::{self, Mutation};
use pipeline::resolved::{self, NullKeys, Table, Write};
use staging::record_columns;
use table::data_file::{PartitionedWriter, Target};
use table::delete_file;
use table::fault::Fault;
use table::scan::{self, FileTask, KEYS_MAX, Keys, Located, Predicate, Request};
use table::schema::Strings;
use table::snapshot::NewFile;

use crate::bind::Binding;
use crate::dead::{Left, Reason, Reasons};
use crate::error::Error;
use crate::high_water::HighWater;
use crate::intake::Intake;
use crate::keys;
use crate::marks::{Marking, Marks};
use crate::ordered;
use crate::rows::{Admitted, Rows, Run, runs_of};

/// Where so much of a file's rows goes, with those that were deleted before, `auto` writes the file anew: reading it costs less from
/// then on, and is done once.
const REWRITE_SHARE: f64 = 0.3;
/// A file that this many delete files are about already is written anew by `auto`: each of them is a request for every reader.
const DELETE_FILES_MAX: usize = 8;
/// From so many delete files of its own on those of a data file are merged with the new one.
const MERGED_FROM: usize = 4;
/// A delete file is merged where it names at most so many times the rows that are merged without it: a large one is not written anew
/// for a few rows, and the sizes of those that stay grow so fast that they are few.
const MERGED_GROWTH: u64 = 4;
/// Keys that are looked for one by one in partitions and bounds. More are looked for between the least and the greatest.
const POINTS_MAX: usize = 64 * 1024;
/// Delete files that are written at a time.
const DELETES_AT_ONCE: usize = 16;
/// Rows that are marked at a time.
const MARKED_AT_ONCE: usize = 8192;

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
    /// Records below what their partition has settled, of keys that a later one deleted; and those that delete, where deletes are
    /// ignored.
    passed_over: BTreeMap<TopicPartition, Counts>,
    deletes: Deletes,
    binding: Binding,
    /// Where the table marks rows as deleted, if it does.
    marks: Option<Marks>,
    /// Whether rows that are there get marks.
    fills: bool,
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
    /// For a pipeline's table. `fills` says whether rows that are there have no marks yet, and are to have some.
    ///
    /// # Errors
    /// [`Error::Stopped`] when a column that rows are compared by is not in the table any more.
    pub(crate) fn new(
        table: &Table,
        target: &Target,
        binding: &Binding,
        intake: &Intake,
        ledger: &Ledger,
        fills: bool,
    ) -> Result<Self, Error> {
        let name = table.name.to_string();
        let settings = table.upsert.clone().unwrap_or_default();
        let without_records = |column: &str| {
            Error::Stopped {
            code: "fold.upsert_column",
            message: format!("{name} has no column `{column}`: its rows do not say which record they are of, and so not which of two came later"),
            remedy: "fold into a new table (another `name` under [table]), which is made with the record columns, or go on with \
                     `mode = \"append\"` or \"dedup\"; nothing staged is lost"
                .to_owned(),
        }
        };
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
        let of_record =
            |column: &str| keys::column(target, binding, intake, column).ok_or_else(|| without_records(column));
        let origin = ORIGIN.into_iter().map(of_record).collect::<Result<Vec<_>, Error>>()?;
        let logs = Logs {
            sources: ordered::sources(intake, ledger, &table.name)?,
            ledger: ledger.clone(),
            ingested_at: match ledger.epochs.is_empty() {
                true => None,
                false => Some(of_record(record_columns::INGESTED_AT)?),
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
        let deletes = match settings.deletes {
            resolved::Deletes::Hard => Deletes::Hard,
            resolved::Deletes::Soft => Deletes::Soft { makes_rows: Marking::makes_rows(target, binding, &key) },
            resolved::Deletes::Ignore => Deletes::Ignore,
        };
        Ok(Self {
            upsert,
            write: settings.write,
            key,
            order,
            origin,
            logs,
            null_key,
            held: Vec::new(),
            key_types,
            passed_over: BTreeMap::new(),
            deletes,
            binding: binding.clone(),
            marks: Marks::of(target, binding),
            fills,
            table: name,
        })
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
            if deletes && self.deletes == Deletes::Ignore {
                // Staged before deletes were ignored: counted as ingest counts them now.
                for run in runs_of(admitted, &rows.origin) {
                    let counts = self.passed_over.entry(run.at.clone()).or_default();
                    *counts.filtered.entry(Filtered::Tombstone).or_default() += run.rows.len() as u64;
                }
                continue;
            }
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
                        self.passed_over.entry(run.at.clone()).or_default().superseded += gone;
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
        let mut upserted = Upserted { counts: std::mem::take(&mut self.passed_over), ..Upserted::default() };
        if self.upsert.records() == 0 && !self.fills {
            return Ok(upserted);
        }
        let plan = match mutation::on(Mutation::TableNotMet) {
            true => None,
            false => Some(self.meet(metadata, io).await?),
        };
        let Self { upsert, held, table, write, key, deletes, binding, marks, fills, .. } = self;
        let fault = |fault: Fault| Error::table(table.clone(), fault);
        let mut outcome = upsert.finish(deletes);
        if let Some(marks) = marks {
            let marking = Marking::new(target, &binding, marks, &key, held.iter().map(|held| &held.batch).collect());
            let (outcome, plan) = (&mut outcome, plan.as_ref());
            write_marked(&marking, outcome, plan, metadata, io, writer).await.map_err(fault)?;
        }
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
            let fills = marks.filter(|_| fills);
            let removal = Removal { plan, metadata, io, target, write, fills };
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
        let is_deleted = names(&self.marks.map(|marks| marks.is_deleted).into_iter().collect::<Vec<_>>())?.pop();
        let others = ingested_at.clone().into_iter().chain(is_deleted.clone());
        for name in names(&self.order)?.into_iter().chain(names(&self.origin)?).chain(others) {
            if !of_version.contains(&name) {
                of_version.push(name);
            }
        }
        let (order, origin) = (names(&self.order)?, names(&self.origin)?);
        let distinct = self.upsert.distinct_keys();
        let values = self.upsert.keys().map_err(|source| self.bug(source))?;
        let wanted = key.iter().zip(&values).filter_map(|(name, values)| keys::among(name, values, POINTS_MAX));
        // All files are written anew where their rows get marks.
        let predicate = if self.fills { Predicate::All } else { Predicate::And(wanted.collect()) };
        let keys = (distinct <= KEYS_MAX && !self.fills).then(|| Keys { columns: key.clone(), values });
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
                let deleted = is_deleted.as_ref().and_then(|name| found.batch.column_by_name(name)?.as_boolean_opt());
                let order = columns(&order);
                let versions = self.upsert.versions(file, &found.positions, &order, deleted, &origin, &epochs);
                versions.map_err(|source| self.bug(source))?;
            }
        }
        Ok(plan)
    }
}

/// Writes the rows that are marked as deleted, and leaves the others to be written.
async fn write_marked(
    marking: &Marking<'_>,
    outcome: &mut Outcome,
    plan: Option<&scan::Plan>,
    metadata: &TableMetadata,
    io: &FileIO,
    writer: &mut PartitionedWriter,
) -> Result<(), Fault> {
    for rows in outcome.entering_marked.chunks(MARKED_AT_ONCE) {
        writer.write(marking.entering(rows)?).await?;
    }
    let mut by_batch: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for ((batch, row), _) in &outcome.entering_marked {
        by_batch.entry(*batch).or_default().insert(*row);
    }
    for (batch, rows) in by_batch {
        if let Some(enter) = outcome.enter.get_mut(batch) {
            *enter = (0..).zip(enter.values()).map(|(row, enters)| Some(enters && !rows.contains(&row))).collect();
        }
    }
    let Some(plan) = plan.filter(|_| !outcome.marked.is_empty()) else { return Ok(()) };
    let of_file = outcome.marked.chunk_by(|a, b| a.file == b.file).filter_map(|marked| {
        let file = marked.first()?.file as usize;
        Some((file, marked.iter().map(|marked| marked.position).collect::<Vec<_>>()))
    });
    let whole = plan.with_columns(metadata, None)?;
    let mut rows = whole.execute_at(io, of_file.collect::<Vec<_>>());
    while let Some(Located { file, batch, positions }) = rows.try_next().await? {
        let by = |position: &i64| {
            let at = outcome.marked.binary_search_by(|m| (m.file as usize, m.position).cmp(&(file, *position)));
            at.ok().and_then(|at| outcome.marked.get(at)).map(|marked| marked.by)
        };
        let by: Vec<_> = positions.iter().filter_map(by).collect();
        writer.write(marking.stored(&batch, &by)?).await?;
    }
    Ok(())
}

/// What removes rows of the table.
struct Removal<'a> {
    plan: scan::Plan,
    metadata: &'a TableMetadata,
    io: &'a FileIO,
    target: &'a Target,
    write: Write,
    /// Where the rows that are there get marks: all files are written anew.
    fills: Option<Marks>,
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
            let share = gone.saturating_add(file.rows_deleted_max()) as f64 / file.rows.max(1) as f64;
            // What would be empty, or hold next to nothing, is no file.
            let is_empty = gone.saturating_add(file.rows_deleted_max()) >= file.rows;
            let is_rewritten = match self.write {
                _ if self.fills.is_some() => true,
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
            let (positions, merged) = merged(this.io, file, positions).await?;
            let written = delete_file::write(this.target, of, &positions).await?;
            Ok::<_, Fault>(Some((NewFile { spec_id: file.spec.spec_id(), file: written }, merged)))
        });
        let mut files = files.buffered(DELETES_AT_ONCE);
        while let Some(written) = files.try_next().await? {
            let Some((file, merged)) = written else { continue };
            upserted.delete_files.push(file);
            upserted.removed.extend(merged);
        }
        drop(files);
        if self.fills.is_some() {
            let touched: BTreeSet<usize> = rewritten.iter().map(|(place, _)| *place).collect();
            let others = (0..self.plan.files.len()).filter(|place| !touched.contains(place));
            rewritten.extend(others.map(|place| (place, Vec::new())));
        }
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
            let batch = match &self.fills {
                Some(marks) => marks.filled(rows.batch)?,
                None => rows.batch,
            };
            writer.write(batch).await?;
        }
        upserted.removed.extend(removed);
        Ok(())
    }
}

/// Positions of a data file's rows that are to be deleted, with those of its delete files that go for it; and these files' paths.
async fn merged(io: &FileIO, file: &FileTask, mut positions: Vec<i64>) -> Result<(Vec<i64>, Vec<String>), Fault> {
    let mut gone = Vec::new();
    for path in mergeable(positions.len() as u64, file.own_deletes().collect()) {
        // What names rows of other files holds for them, too.
        if let Some(rows) = file.deleted_by(io, path).await? {
            positions.extend(rows);
            gone.push(path.to_owned());
        }
    }
    if !gone.is_empty() {
        positions.sort_unstable();
        positions.dedup();
    }
    Ok((positions, gone))
}

/// Which delete files of a data file (path, and how many rows it names) go with a new one of so many rows.
fn mergeable(rows: u64, mut own: Vec<(&str, u64)>) -> Vec<&str> {
    if own.len() < MERGED_FROM {
        return Vec::new();
    }
    own.sort_by_key(|(_, rows)| *rows);
    let mut all = rows;
    let fits = |(_, rows): &(&str, u64)| {
        let fits = *rows <= all.saturating_mul(MERGED_GROWTH);
        all = all.saturating_add(*rows);
        fits
    };
    own.into_iter().take_while(fits).map(|(path, _)| path).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delete_files_of_a_file_are_merged_from_some_on_and_large_ones_stay() {
        let merged = |rows, own: &[u64]| {
            let names: Vec<String> = own.iter().map(u64::to_string).collect();
            let own = names.iter().map(String::as_str).zip(own.iter().copied()).collect();
            mergeable(rows, own).into_iter().map(|name| name.parse::<u64>().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(merged(10, &[10, 10, 10]), [] as [u64; 0]);
        assert_eq!(merged(10, &[10, 10, 10, 10]), [10, 10, 10, 10]);
        assert_eq!(merged(10, &[1000, 10, 12, 11]), [10, 11, 12], "a large one is not written anew for a few rows");
        assert_eq!(merged(100, &[1000, 10, 12, 11, 400]), [10, 11, 12, 400, 1000]);
        assert_eq!(merged(1, &[100, 100, 100, 100]), [] as [u64; 0]);
        // However long it goes on, few are left, and no row is written often.
        let (mut files, mut written) = (Vec::<u64>::new(), 0);
        for _ in 0..1000 {
            let gone = merged(10, &files);
            for rows in &gone {
                files.remove(files.iter().position(|other| other == rows).unwrap());
            }
            files.push(10 + gone.iter().sum::<u64>());
            written += files.last().unwrap();
            assert!(files.len() <= 8, "{files:?}");
        }
        assert_eq!(files.iter().sum::<u64>(), 10_000);
        assert!(written < 10_000 * 12, "{written} rows");
    }
}

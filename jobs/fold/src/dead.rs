//! Rows that a table does not take, and that go to dead letters: durable before the commit that counts them (I1).
//!
//! A coordinate is one record, and a record goes whole: where one of its rows is dead, none of them enters, and each has a
//! letter. So a later record at the coordinate can be admitted with all of its rows (I2).
//!
//! What is dead here was decided by its object. A later object of the same fold that has decided about the coordinate,
//! too, speaks for it then, as it would in the next fold: so the cut into folds changes nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::compute::{filter, filter_record_batch};
use bytes::Bytes;
use futures::future::try_join_all;
use merge::Origin;
use model::coordinate::TopicPartition;
use model::id::PipelineId;
use model::interval::Intervals;
use model::ledger::{Counts, Ledger};
use model::stored::Tag;
use model::verdict::Judgement;
use staging::dead_letter::{self, Class, DeadLetter, Part};
use staging::hash;
use staging::key::DeadLetterKey;
use staging::record_columns;
use staging::store::Store;
use table::fault::Fault;
use table::json;

use crate::error::Error;
use crate::plan::Found;
use crate::rows::{Admitted, Rows, runs_of};

/// Bytes of one object of letters, before its last letter: a row staged in a few bytes may take a thousand times as many
/// as JSON, and a fold must not hold all of them.
const OBJECT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of letters that wait to be put together.
const WAITING_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Objects that are put at once.
const PUTS_MAX: usize = 16;

/// Why a row is dead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) class: Class,
    /// The table's column.
    pub(crate) path: String,
    /// Without the row's values.
    pub(crate) message: String,
}

/// For each row of a batch why it is dead; none where it is not. Empty where no row is.
pub(crate) type Reasons = Vec<Option<Arc<Reason>>>;

/// What one fold sends to dead letters.
pub(crate) struct DeadRows<'a> {
    store: &'a dyn Store,
    pipeline: &'a PipelineId,
    table: &'a str,
    ledger: &'a Ledger,
    /// Coordinates that are dead as far as this fold has read.
    dead: BTreeMap<TopicPartition, Intervals>,
    /// Those of them for which a later object of this fold spoke, too.
    ever: BTreeMap<TopicPartition, Intervals>,
    counts: BTreeMap<TopicPartition, Counts>,
    waiting: Vec<(String, Bytes)>,
}

/// The dead coordinates of one object.
#[derive(Debug, Default)]
pub(crate) struct Dead {
    all: BTreeMap<TopicPartition, Intervals>,
    /// Those of `all` that were dead before, in the ledger or by an earlier object of this fold. They came again: they have
    /// a letter, and nothing of them is counted or noted twice.
    again: BTreeMap<TopicPartition, Intervals>,
}

impl Dead {
    /// Whether the record at a coordinate was dead before, and is so again.
    pub(crate) fn is_again(&self, at: &TopicPartition, offset: i64) -> bool {
        self.again.get(at).is_some_and(|offsets| offsets.contains(offset))
    }

    /// Whether some record was dead before, and is so again.
    pub(crate) fn any_again(&self) -> bool {
        !self.again.is_empty()
    }

    fn holds(&self, at: &TopicPartition, offset: i64) -> bool {
        self.all.get(at).is_some_and(|offsets| offsets.contains(offset))
    }
}

/// What is left of an object's rows.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) fit: Vec<Admitted>,
    pub(crate) deleting: Vec<Admitted>,
}

/// A dead row: where it is counted, its offset and ordinal, and its batch and place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'r> {
    at: &'r TopicPartition,
    offset: i64,
    ordinal: i32,
    batch: usize,
    row: usize,
}

/// The rows of a batch, as they were staged, each with the reason it may have.
struct Batch<'r> {
    staged: &'r RecordBatch,
    origin: &'r Origin,
    reasons: &'r Reasons,
}

impl<'a> DeadRows<'a> {
    pub(crate) fn new(store: &'a dyn Store, pipeline: &'a PipelineId, table: &'a str, ledger: &'a Ledger) -> Self {
        let (dead, ever, counts) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { store, pipeline, table, ledger, dead, ever, counts, waiting: Vec::new() }
    }

    /// The coordinates for which an object speaks: those of the judgement, and those that earlier objects left dead.
    pub(crate) fn spoken<'b>(
        &mut self,
        found: &Found,
        admitted: &'b BTreeMap<TopicPartition, Intervals>,
    ) -> Cow<'b, BTreeMap<TopicPartition, Intervals>> {
        let mut spoken = Cow::Borrowed(admitted);
        if self.dead.is_empty() {
            return spoken;
        }
        let staged = found.staged();
        for (at, covered) in found.footer.coverage.iter() {
            let Some(dead) = self.dead.get_mut(at) else { continue };
            let more = staged.decided(at).intersect(dead);
            if more.is_empty() {
                continue;
            }
            *dead = dead.subtract(&more);
            let counts = self.counts.entry(at.clone()).or_default();
            for (why, offsets) in &covered.filtered {
                let filtered = offsets.intersect(&more).count();
                if filtered > 0 {
                    *counts.filtered.entry(*why).or_default() += filtered;
                }
            }
            let all = spoken.to_mut().entry(at.clone()).or_default();
            *all = all.union(&more);
        }
        self.dead.retain(|_, offsets| !offsets.is_empty());
        spoken
    }

    /// The dead coordinates among those for which an object speaks, from what keeps its rows from entering. `reasons` is
    /// by batch of rows that fit, and behind them of records that delete.
    pub(crate) fn dead(&self, spoken: &BTreeMap<TopicPartition, Intervals>, rows: &Rows, reasons: &[Reasons]) -> Dead {
        let mut dead = Dead::default();
        for batch in batches(rows, reasons).filter(|batch| !batch.reasons.is_empty()) {
            for run in runs_of(spoken, batch.origin) {
                for row in run.rows.clone().filter(|row| reason(batch.reasons, *row).is_some()) {
                    dead.all.entry(run.at.clone()).or_default().push(batch.origin.offsets.value(row));
                }
            }
        }
        for (at, offsets) in &dead.all {
            let mut again = self.ledger.partition(at).map(|known| known.dead.intersect(offsets)).unwrap_or_default();
            if let Some(ever) = self.ever.get(at) {
                again = again.union(&ever.intersect(offsets));
            }
            if !again.is_empty() {
                dead.again.insert(at.clone(), again);
            }
        }
        dead
    }

    /// Takes the rows of dead records out of an object's and writes their letters; `counted` loses them, too. Gives what is
    /// left.
    ///
    /// # Errors
    /// The store's; [`Error::Table`] for a row that has no JSON form.
    pub(crate) async fn bury(
        &mut self,
        found: &Found,
        spoken: &BTreeMap<TopicPartition, Intervals>,
        dead: &Dead,
        rows: Rows,
        reasons: &[Reasons],
        counted: &mut BTreeMap<TopicPartition, u64>,
    ) -> Result<Left, Error> {
        if dead.all.is_empty() {
            return Ok(Left { fit: rows.fit, deleting: rows.deleting });
        }
        self.write(found, spoken, dead, &rows, reasons).await?;
        for (at, offsets) in &dead.all {
            for coordinates in [&mut self.dead, &mut self.ever] {
                let all = coordinates.entry(at.clone()).or_default();
                *all = all.union(offsets);
            }
        }
        for batch in &rows.unfit {
            take_off(counted, spoken, &batch.origin, |_| true);
        }
        Ok(Left {
            fit: self.alive(spoken, dead, rows.fit, counted)?,
            deleting: self.alive(spoken, dead, rows.deleting, counted)?,
        })
    }

    /// Takes the rows of dead records out of some batches.
    fn alive(
        &self,
        spoken: &BTreeMap<TopicPartition, Intervals>,
        dead: &Dead,
        batches: Vec<Admitted>,
        counted: &mut BTreeMap<TopicPartition, u64>,
    ) -> Result<Vec<Admitted>, Error> {
        let mut left = Vec::with_capacity(batches.len());
        for mut batch in batches {
            let mut keep = vec![true; batch.batch.num_rows()];
            for run in runs_of(spoken, &batch.origin) {
                for row in run.rows {
                    if let Some(keep) = keep.get_mut(row) {
                        *keep = !dead.holds(run.at, batch.origin.offsets.value(row));
                    }
                }
            }
            if keep.contains(&false) {
                take_off(counted, spoken, &batch.origin, |row| keep.get(row) == Some(&false));
                let keep = BooleanArray::from(keep);
                batch = batch.filtered(&keep).map_err(|fault| Error::table(self.table, fault.into()))?;
            }
            if batch.batch.num_rows() > 0 {
                left.push(batch);
            }
        }
        Ok(left)
    }

    /// Writes the letters of an object's stale rows. Nothing becomes of their coordinates.
    ///
    /// # Errors
    /// As [`Self::bury`].
    pub(crate) async fn stale(
        &mut self,
        found: &Found,
        stale: &BTreeMap<TopicPartition, Intervals>,
        rows: &Rows,
    ) -> Result<(), Error> {
        let reason = Arc::new(Reason {
            class: Class::Stale,
            path: String::new(),
            message: "its offset was passed before, and what tells whether its row entered then is no longer kept"
                .to_owned(),
        });
        let reasons = |batch: &Admitted| vec![Some(Arc::clone(&reason)); batch.staged.num_rows()];
        let reasons: Vec<Reasons> = rows.fit.iter().chain(&rows.deleting).map(reasons).collect();
        let dead = Dead { all: stale.clone(), again: BTreeMap::new() };
        self.write(found, stale, &dead, rows, &reasons).await
    }

    /// Writes the letters of the records that were not dead before.
    async fn write(
        &mut self,
        found: &Found,
        spoken: &BTreeMap<TopicPartition, Intervals>,
        dead: &Dead,
        rows: &Rows,
        reasons: &[Reasons],
    ) -> Result<(), Error> {
        let batches: Vec<Batch<'_>> = batches(rows, reasons).collect();
        let mut places = Vec::new();
        // A row without a reason of its own goes for that of its record's first other one.
        let mut firsts: BTreeMap<(&TopicPartition, i64), &Arc<Reason>> = BTreeMap::new();
        for (n, batch) in batches.iter().enumerate() {
            for run in runs_of(spoken, batch.origin) {
                for row in run.rows {
                    let offset = batch.origin.offsets.value(row);
                    if !dead.holds(run.at, offset) || dead.is_again(run.at, offset) {
                        continue;
                    }
                    let ordinal = batch.origin.ordinals.value(row);
                    places.push(Place { at: run.at, offset, ordinal, batch: n, row });
                    if let Some(reason) = reason(batch.reasons, row) {
                        firsts.entry((run.at, offset)).or_insert(reason);
                    }
                }
            }
        }
        // Batches are cut by bytes; a letter's place must not depend on that.
        places.sort_unstable();
        let late: BTreeSet<(&TopicPartition, i64)> =
            firsts.iter().filter(|(_, reason)| reason.class == Class::Late).map(|(at, _)| *at).collect();
        for (at, _) in late {
            self.counts.entry(at.clone()).or_default().late_dead += 1;
        }
        let mut body = Vec::new();
        let mut row_text = Vec::new();
        let values: Vec<RecordBatch> = batches.iter().map(|batch| without_record_columns(batch.staged)).collect();
        for place in places {
            let (Some(batch), Some(values)) = (batches.get(place.batch), values.get(place.batch)) else { continue };
            let (reason, mine) = match (reason(batch.reasons, place.row), firsts.get(&(place.at, place.offset))) {
                (Some(reason), _) => (reason, true),
                (None, Some(first)) => (*first, false),
                (None, None) => continue,
            };
            row_text.clear();
            json::row(values, place.row, &mut row_text).map_err(|e| self.unwritable(&e))?;
            let letter = self.letter(found, place, batch.origin, reason, mine);
            dead_letter::append(&letter, &row_text, &mut body).map_err(|e| self.unwritable(&e))?;
            if body.len() >= OBJECT_BYTES_MAX {
                self.wait(found, std::mem::take(&mut body)).await?;
            }
        }
        if !body.is_empty() {
            self.wait(found, body).await?;
        }
        Ok(())
    }

    fn letter(&self, found: &Found, place: Place<'_>, origin: &Origin, reason: &Reason, mine: bool) -> DeadLetter {
        let Place { at, offset, ordinal, row, .. } = place;
        let timestamp = origin.timestamps.is_valid(row).then(|| origin.timestamps.value(row).div_euclid(1000));
        let message = match mine {
            true => reason.message.clone(),
            false => format!("another row of its record is in dead letters: {}", reason.message),
        };
        DeadLetter {
            schema: Tag::of::<DeadLetter>(),
            pipeline_id: self.pipeline.clone(),
            minute: found.minute,
            // Under the name that Kafka's records have, also where the ledger counts a topic made again apart.
            source: self.ledger.origin(&at.source).clone(),
            topic: at.topic.clone(),
            partition: at.partition,
            offset,
            timestamp_ms: timestamp,
            timestamp_type: None,
            key: None,
            value: None,
            headers: Vec::new(),
            schema_id: None,
            class: reason.class,
            part: Part::Value,
            path: reason.path.clone(),
            message,
            ordinal: Some(ordinal),
            table: Some(self.table.to_owned()),
            staged: Some(found.key.clone()),
            row: None,
        }
    }

    /// Keeps an object of letters until enough of them are together. Its key follows from what it holds and from the minute
    /// of the staged object: the same letters are stored once, whichever run writes them.
    async fn wait(&mut self, found: &Found, body: Vec<u8>) -> Result<(), Error> {
        let key = DeadLetterKey { pipeline: self.pipeline.clone(), minute: found.minute, hash: hash::of_bytes(&body) };
        self.waiting.push((key.to_string(), Bytes::from(body)));
        let bytes: usize = self.waiting.iter().map(|(_, body)| body.len()).sum();
        if bytes >= WAITING_BYTES_MAX || self.waiting.len() >= PUTS_MAX {
            self.put().await?;
        }
        Ok(())
    }

    async fn put(&mut self) -> Result<(), Error> {
        let store = self.store;
        let puts = self.waiting.drain(..).map(|(key, body)| async move { store.put_new(&key, body).await });
        try_join_all(puts).await?;
        Ok(())
    }

    /// Makes all letters durable, and tells the judgement what became of their coordinates.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn finish(mut self, judgement: &mut Judgement) -> Result<(), Error> {
        self.put().await?;
        for (at, dead) in &self.dead {
            judgement.bury(at, dead, self.ledger);
        }
        for (at, counts) in &self.counts {
            if let Some(settled) = judgement.partitions.get_mut(at) {
                settled.counts.add(counts);
            }
        }
        Ok(())
    }

    fn unwritable(&self, error: &dyn std::error::Error) -> Error {
        Error::table(self.table, Fault::Mismatch(format!("a row that does not fit can't be written as JSON: {error}")))
    }
}

/// All rows of an object: those that fit, records that delete, and rows that don't fit.
fn batches<'r>(rows: &'r Rows, reasons: &'r [Reasons]) -> impl Iterator<Item = Batch<'r>> {
    const NONE: &Reasons = &Vec::new();
    let fit = rows.fit.iter().chain(&rows.deleting).enumerate().map(|(n, batch)| Batch {
        staged: &batch.staged,
        origin: &batch.origin,
        reasons: reasons.get(n).unwrap_or(NONE),
    });
    let unfit =
        rows.unfit.iter().map(|batch| Batch { staged: &batch.staged, origin: &batch.origin, reasons: &batch.reasons });
    fit.chain(unfit)
}

fn reason(reasons: &Reasons, row: usize) -> Option<&Arc<Reason>> {
    reasons.get(row).and_then(Option::as_ref)
}

fn take_off(
    counted: &mut BTreeMap<TopicPartition, u64>,
    spoken: &BTreeMap<TopicPartition, Intervals>,
    origin: &Origin,
    gone: impl Fn(usize) -> bool,
) {
    for run in runs_of(spoken, origin) {
        let rows = run.rows.clone().filter(|row| gone(*row)).count() as u64;
        if let Some(counted) = counted.get_mut(run.at) {
            *counted = counted.saturating_sub(rows);
        }
    }
}

/// The values of staged rows: a letter has members of its own for where they come from.
fn without_record_columns(staged: &RecordBatch) -> RecordBatch {
    let record = record_columns::fields();
    let others = [record_columns::TABLE, record_columns::OP];
    let is_value = |name: &String| !others.contains(&name.as_str()) && !record.iter().any(|field| field.name() == name);
    let fields = staged.schema_ref().fields().iter().enumerate();
    let values: Vec<usize> = fields.filter(|(_, field)| is_value(field.name())).map(|(n, _)| n).collect();
    // The positions are the batch's own.
    staged.project(&values).unwrap_or_else(|_| staged.clone())
}

/// The origins of some rows.
pub(crate) fn kept(origin: &Origin, mask: &BooleanArray) -> Result<Origin, arrow::error::ArrowError> {
    use arrow::array::AsArray;
    Ok(Origin {
        topics: filter(&origin.topics, mask)?.as_string_view().clone(),
        partitions: filter(&origin.partitions, mask)?.as_primitive().clone(),
        offsets: filter(&origin.offsets, mask)?.as_primitive().clone(),
        timestamps: filter(&origin.timestamps, mask)?.as_primitive().clone(),
        ordinals: filter(&origin.ordinals, mask)?.as_primitive().clone(),
    })
}

impl Admitted {
    /// Some of the rows.
    pub(crate) fn filtered(&self, mask: &BooleanArray) -> Result<Self, arrow::error::ArrowError> {
        Ok(Self {
            batch: filter_record_batch(&self.batch, mask)?,
            origin: kept(&self.origin, mask)?,
            staged: filter_record_batch(&self.staged, mask)?,
        })
    }
}

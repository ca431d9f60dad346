//! Mode `dedup`: rows that want to enter are held against each other and against the table, and the others are left out.
//!
//! Of the table only what can matter is read: files whose partition, bounds or row group statistics show an event time
//! within a lookback of a row on its way in, of those the row groups whose bloom filters do not deny all keys (where the
//! rows are few enough for that), and of those the key columns and the event time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{max, min};
use arrow::datatypes::{DataType, Int32Type, Int64Type, TimestampMicrosecondType};
use futures::TryStreamExt;
use iceberg::io::FileIO;
use iceberg::spec::{Datum, TableMetadata};
use merge::dedup::Dedup;
use model::clock::Timestamp;
use model::coordinate::TopicPartition;
use model::interval::Intervals;
use model::ledger::{Counts, Ledger};
use model::mutation::{self, Mutation};
use model::watermark::Watermark;
use pipeline::resolved::{Late, NullKeys, Table};
use staging::dead_letter::Class;
use table::data_file::Target;
use table::fault::Fault;
use table::scan::{self, Comparison, KEYS_MAX, Keys, Predicate, Request};
use table::schema::Strings;

use crate::bind::Binding;
use crate::dead::{Dead, Reason, Reasons};
use crate::error::Error;
use crate::intake::Intake;
use crate::keys::{self, Column};
use crate::plan::Found;
use crate::rows::{Admitted, Run, runs_of};

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Bytes that a row takes here beside its values, at the most, told from the key's types as staged objects name them.
pub(crate) fn row_bytes(table: &Table, intake: &Intake) -> u64 {
    let key: Vec<DataType> = table.primary_key.iter().map(|name| keys::width(intake, name)).collect();
    Dedup::row_bytes(&key) as u64
}

/// Rows on their way in.
pub(crate) struct Candidates {
    table: String,
    dedup: Dedup,
    /// Where the key columns are, in the target's schema, and their field ids.
    key: Vec<Column>,
    within: Option<Within>,
    /// Why rows whose key has a null are dead, where they are.
    null_key: Option<Arc<Reason>>,
    /// Why rows without an event time, and late ones, are dead.
    missing: Arc<Reason>,
    too_late: Arc<Reason>,
    held: Vec<Held>,
    counts: BTreeMap<TopicPartition, Counts>,
}

#[derive(Clone, Copy, Debug)]
struct Within {
    event_time: Column,
    lookback_micros: i64,
    late: Late,
}

struct Held {
    batch: RecordBatch,
    runs: Vec<(TopicPartition, Range<usize>)>,
}

/// What one object's rows are held against.
pub(crate) struct Entered {
    /// Rows of an earlier event time are late, in microseconds.
    earliest: i64,
    /// How far event time had come before the object.
    before: Option<Watermark>,
}

/// What was decided.
pub(crate) struct Entering {
    /// Batches in the target's schema, each with the rows that enter.
    pub(crate) batches: Vec<(RecordBatch, BooleanArray)>,
    /// What to add to each partition's counts.
    pub(crate) counts: BTreeMap<TopicPartition, Counts>,
}

impl Candidates {
    /// For a pipeline's table.
    ///
    /// # Errors
    /// [`Error::Stopped`] when a column that rows are compared by is not in the table any more.
    pub(crate) fn new(table: &Table, target: &Target, binding: &Binding, intake: &Intake) -> Result<Self, Error> {
        let name = table.name.to_string();
        let column = |column: &str| {
            keys::column(target, binding, intake, column).ok_or_else(|| Error::Stopped {
                code: "fold.dedup_column",
                message: format!("{name} has no column for `{column}`, which its rows are compared by"),
                remedy: "bring the column back, or change `primary_key` or `dedup_within`; nothing staged is lost"
                    .to_owned(),
            })
        };
        let key = table.primary_key.iter().map(|name| column(name)).collect::<Result<Vec<_>, Error>>()?;
        let within = match &table.dedup_within {
            None => None,
            Some(within) => Some(Within {
                event_time: column(&within.column)?,
                lookback_micros: i64::try_from(within.lookback_seconds)
                    .unwrap_or(i64::MAX)
                    .saturating_mul(MICROS_PER_SECOND),
                late: within.late,
            }),
        };
        let types: Vec<DataType> = key
            .iter()
            .filter_map(|column| target.arrow_schema().fields().get(column.place))
            .map(|field| field.data_type().clone())
            .collect();
        let dedup = Dedup::new(&types, within.map(|within| within.lookback_micros));
        let dedup = dedup.map_err(|source| Error::Merge { table: name.clone(), source })?;
        let path = table.dedup_within.as_ref().map(|within| within.column.as_str()).unwrap_or_default();
        let reason =
            |class, message: &str| Arc::new(Reason { class, path: path.to_owned(), message: message.to_owned() });
        let missing = reason(Class::MissingRequired, "its event time is null");
        let too_late = reason(Class::Late, "its event time lies more than the lookback before the watermark");
        let null_key = (table.null_keys == NullKeys::Reject).then(|| keys::null_key(table));
        let (held, counts) = (Vec::new(), BTreeMap::new());
        Ok(Self { table: name, dedup, key, within, null_key, missing, too_late, held, counts })
    }

    /// Makes room for rows that are to come, from so many objects.
    pub(crate) fn reserve(&mut self, rows: usize, objects: usize) {
        self.dedup.reserve(rows, objects);
        self.held.reserve(objects);
    }

    /// Moves the marks to an object's minute. Objects come in order of their keys.
    pub(crate) fn enter(&self, found: &Found, marks: &mut Ledger) -> Entered {
        let before = marks.watermark;
        let Some(within) = self.within else { return Entered { earliest: i64::MIN, before } };
        let watermark = marks.enter_minute(found.minute);
        let earliest = watermark.map_or(i64::MIN, |at| at.micros().saturating_sub(within.lookback_micros));
        Entered { earliest, before }
    }

    /// Why rows of an object are dead, by batch: a column of their key is null, where such rows are refused; or their event time is,
    /// or late where late rows go to dead letters.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the event time's column holds no times.
    pub(crate) fn judge(&self, found: &Found, entered: &Entered, batches: &[Admitted]) -> Result<Vec<Reasons>, Error> {
        let without_key = self.null_key.as_ref().map(|reason| {
            batches.iter().map(|rows| keys::without_key(&self.key, &rows.batch, reason)).collect::<Vec<_>>()
        });
        let Some(within) = self.within else { return Ok(without_key.unwrap_or_default()) };
        let dies = |time: Option<i64>| match time {
            None => Some(&self.missing),
            Some(time) if within.late == Late::DeadLetter && time < entered.earliest => Some(&self.too_late),
            Some(_) => None,
        };
        let mut reasons = Vec::with_capacity(batches.len());
        for Admitted { batch, .. } in batches {
            let times = self.event_times(&found.key, batch, within)?;
            let some = times.null_count() > 0
                || within.late == Late::DeadLetter && times.values().iter().any(|time| *time < entered.earliest);
            reasons.push(if some { times.iter().map(|time| dies(time).cloned()).collect() } else { Vec::new() });
        }
        for (reasons, without_key) in reasons.iter_mut().zip(without_key.into_iter().flatten()) {
            if reasons.is_empty() {
                *reasons = without_key;
            } else {
                reasons
                    .iter_mut()
                    .zip(without_key)
                    .for_each(|(reason, other)| *reason = other.or_else(|| reason.take()));
            }
        }
        Ok(reasons)
    }

    /// Notes the event times of an object's rows in the marks, whatever becomes of them; not those of records that were dead
    /// before and are so again. An object that brings no other rows leaves the marks as they were.
    ///
    /// # Errors
    /// As [`Candidates::judge`].
    pub(crate) fn see(
        &self,
        found: &Found,
        admitted: &BTreeMap<TopicPartition, Intervals>,
        entered: &Entered,
        batches: &[Admitted],
        dead: &Dead,
        marks: &mut Ledger,
    ) -> Result<(), Error> {
        let Some(within) = self.within else { return Ok(()) };
        let mut seen = false;
        for Admitted { batch, origin, .. } in batches {
            let times = self.event_times(&found.key, batch, within)?;
            for Run { at, rows } in runs_of(admitted, origin) {
                let greatest = if dead.any_again() {
                    let new = |row: &usize| times.is_valid(*row) && !dead.is_again(at, origin.offsets.value(*row));
                    rows.filter(new).map(|row| times.value(row)).max()
                } else {
                    max(&times.slice(rows.start, rows.len()))
                };
                if let Some(greatest) = greatest {
                    seen = true;
                    marks.see(at, Timestamp::from_micros(greatest), found.minute);
                }
            }
        }
        if !seen {
            marks.watermark = entered.before;
        }
        Ok(())
    }

    /// Adds those rows of an object that may enter.
    ///
    /// # Errors
    /// As [`Candidates::judge`].
    pub(crate) fn add(
        &mut self,
        found: &Found,
        admitted: &BTreeMap<TopicPartition, Intervals>,
        entered: &Entered,
        batches: Vec<Admitted>,
    ) -> Result<(), Error> {
        for mut rows in batches {
            let mut runs = runs_of(admitted, &rows.origin);
            if let Some(within) = self.within {
                let times = self.event_times(&found.key, &rows.batch, within)?;
                let punctual: BooleanArray =
                    times.values().iter().map(|time| Some(*time >= entered.earliest)).collect();
                let drops = within.late == Late::Drop;
                for Run { at, rows } in &runs {
                    let late = (rows.len() - punctual.slice(rows.start, rows.len()).true_count()) as u64;
                    let counts = self.counts.entry((*at).clone()).or_default();
                    match within.late {
                        Late::Keep => counts.late_kept += late,
                        Late::Drop => counts.late += late,
                        // They were taken out before.
                        Late::DeadLetter => {}
                    }
                }
                if drops && punctual.true_count() < punctual.len() {
                    rows = rows.filtered(&punctual).map_err(|e| self.fault(e.into()))?;
                    runs = runs_of(admitted, &rows.origin);
                }
            }
            let Admitted { batch, origin, .. } = rows;
            let key = self.key_of(&batch);
            let event_time = self.within.and_then(|within| batch.columns().get(within.event_time.place));
            self.dedup
                .add(&key, event_time, origin)
                .map_err(|source| Error::Merge { table: self.table.clone(), source })?;
            let runs = runs.into_iter().map(|Run { at, rows }| (at.clone(), rows)).collect();
            self.held.push(Held { batch, runs });
        }
        Ok(())
    }

    fn event_times(
        &self,
        key: &str,
        batch: &RecordBatch,
        within: Within,
    ) -> Result<arrow::array::PrimitiveArray<TimestampMicrosecondType>, Error> {
        let column = batch.columns().get(within.event_time.place);
        let times = column.and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
        times.cloned().ok_or_else(|| Error::Stopped {
            code: "fold.event_time",
            message: format!(
                "`{key}` holds rows whose event time is no timestamp in microseconds, and {} is deduplicated by it",
                self.table
            ),
            remedy: "choose another `dedup_within.column`; nothing staged is lost meanwhile".to_owned(),
        })
    }

    fn key_of(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.key.iter().filter_map(|column| batch.columns().get(column.place)).cloned().collect()
    }

    fn fault(&self, fault: Fault) -> Error {
        Error::table(self.table.clone(), fault)
    }

    /// Holds all rows against the table as it is in this metadata.
    ///
    /// # Errors
    /// When the table can't be read.
    pub(crate) async fn against(mut self, metadata: &TableMetadata, io: &FileIO) -> Result<Entering, Error> {
        if self.dedup.rows() > 0 && !mutation::on(Mutation::TableNotMet) {
            self.meet(metadata, io).await?;
        }
        let Self { dedup, held, mut counts, .. } = self;
        let masks = dedup.finish();
        let mut batches = Vec::with_capacity(held.len());
        for (Held { batch, runs }, enter) in held.into_iter().zip(masks) {
            for (at, rows) in runs {
                let entering = enter.slice(rows.start, rows.len()).true_count() as u64;
                let counts = counts.entry(at).or_default();
                counts.rows_added += entering;
                counts.deduplicated += rows.len() as u64 - entering;
            }
            batches.push((batch, enter));
        }
        Ok(Entering { batches, counts })
    }

    async fn meet(&mut self, metadata: &TableMetadata, io: &FileIO) -> Result<(), Error> {
        let schema = metadata.current_schema();
        let name = |id: i32| keys::name(metadata, id).map_err(|fault| self.fault(fault));
        let mut columns = self.key.iter().map(|column| name(column.field_id)).collect::<Result<Vec<_>, _>>()?;
        let few = self.dedup.distinct_keys() <= KEYS_MAX;
        let values = if few { Some(self.dedup.keys()) } else { None }.transpose();
        let values = values.map_err(|source| Error::Merge { table: self.table.clone(), source })?;
        let mut wanted: Vec<Predicate> = match &values {
            Some(values) => columns.iter().zip(values).filter_map(|(name, v)| keys::among(name, v, KEYS_MAX)).collect(),
            None => self.key.iter().zip(&columns).filter_map(|(column, name)| self.key_bounds(*column, name)).collect(),
        };
        if let (Some(within), Some(spans)) = (self.within, self.dedup.event_times()) {
            let event_time = name(within.event_time.field_id)?;
            let zoned = schema.field_by_id(within.event_time.field_id).is_some_and(|field| {
                *field.field_type == iceberg::spec::Type::Primitive(iceberg::spec::PrimitiveType::Timestamptz)
            });
            let datum = if zoned { Datum::timestamptz_micros } else { Datum::timestamp_micros };
            let ranges = spans.into_iter().map(|(first, last)| (datum(first), datum(last))).collect();
            wanted.push(Predicate::Within { column: event_time.clone(), ranges });
            // A key may hold it too.
            if !columns.contains(&event_time) {
                columns.push(event_time);
            }
        }
        let keys = values.map(|values| Keys { columns: columns.iter().take(values.len()).cloned().collect(), values });
        let request = Request {
            columns: Some(columns.clone()),
            predicate: Predicate::And(wanted),
            keys,
            strings: Strings::Views,
            ..Request::default()
        };
        let plan = scan::plan(metadata, io, &request).await.map_err(|e| self.fault(e))?;
        tracing::debug!(
            files = plan.files.len(),
            pruned = plan.files_pruned,
            rows = plan.rows(),
            "table rows to compare"
        );
        let event_time = match self.within {
            None => None,
            Some(within) => {
                let event_time = name(within.event_time.field_id)?;
                columns.iter().position(|column| *column == event_time)
            }
        };
        // In no order: which rows are met first makes no difference.
        let mut rows = plan.execute_unordered(io);
        while let Some(batch) = rows.try_next().await.map_err(|e| self.fault(e))? {
            let key = batch.columns().get(..self.key.len()).unwrap_or_default();
            let event_time = event_time.and_then(|place| batch.columns().get(place));
            self.dedup.meet(key, event_time).map_err(|source| Error::Merge { table: self.table.clone(), source })?;
        }
        tracing::debug!(figures = ?plan.figures(), "table rows were compared");
        Ok(())
    }

    /// Where the keys of the rows on their way in lie, for types whose order is plain.
    fn key_bounds(&self, column: Column, name: &str) -> Option<Predicate> {
        let arrays = || self.held.iter().filter_map(|held| held.batch.columns().get(column.place));
        let nulls = arrays().any(|array| array.null_count() > 0);
        fn ends<T: Ord + Copy>(ends: impl Iterator<Item = (Option<T>, Option<T>)>) -> Option<(T, T)> {
            ends.filter_map(|(least, greatest)| least.zip(greatest)).reduce(|(a, b), (c, d)| (a.min(c), b.max(d)))
        }
        let (least, greatest) = match arrays().next()?.data_type() {
            DataType::Int32 => {
                let of = arrays().map(|a| a.as_primitive::<Int32Type>()).map(|a| (min(a), max(a)));
                ends(of).map(|(a, b)| (Datum::int(a), Datum::int(b)))?
            }
            DataType::Int64 => {
                let of = arrays().map(|a| a.as_primitive::<Int64Type>()).map(|a| (min(a), max(a)));
                ends(of).map(|(a, b)| (Datum::long(a), Datum::long(b)))?
            }
            _ => return None,
        };
        let compare = |comparison, value| Predicate::Compare { column: name.to_owned(), comparison, value };
        let between = Predicate::And(vec![
            compare(Comparison::GreaterOrEqual, least),
            compare(Comparison::LessOrEqual, greatest),
        ]);
        Some(if nulls { Predicate::Or(vec![Predicate::IsNull(name.to_owned()), between]) } else { between })
    }
}

//! Mode `dedup`: rows that want to enter are held against each other and against the table, and the others are left out.
//!
//! Of the table only what can matter is read: files whose partition, bounds or row group statistics show an event time
//! within a lookback of a row on its way in, of those the row groups whose bloom filters do not deny all keys (where the
//! rows are few enough for that), and of those the key columns and the event time.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{filter, filter_record_batch, max, min};
use arrow::datatypes::{DataType, Int32Type, Int64Type, TimestampMicrosecondType};
use futures::TryStreamExt;
use iceberg::io::FileIO;
use iceberg::spec::{Datum, TableMetadata};
use merge::dedup::{Dedup, Origin};
use model::clock::Timestamp;
use model::coordinate::TopicPartition;
use model::interval::Intervals;
use model::ledger::{Counts, Ledger};
use pipeline::resolved::{Late, Table};
use table::data_file::Target;
use table::fault::Fault;
use table::scan::{self, Comparison, KEYS_MAX, Keys, Predicate, Request};
use table::schema::{Strings, field_id};

use crate::bind::Binding;
use crate::error::Error;
use crate::intake::Intake;
use crate::plan::Found;
use crate::rows::Admitted;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Rows on their way in.
pub(crate) struct Candidates {
    table: String,
    dedup: Dedup,
    /// Where the key columns are, in the target's schema, and their field ids.
    key: Vec<Column>,
    within: Option<Within>,
    held: Vec<Held>,
    counts: BTreeMap<TopicPartition, Counts>,
}

#[derive(Clone, Copy, Debug)]
struct Column {
    place: usize,
    field_id: i32,
}

#[derive(Clone, Copy, Debug)]
struct Within {
    event_time: Column,
    lookback_micros: i64,
    late: Late,
}

struct Held {
    batch: RecordBatch,
    runs: Vec<Run>,
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
            let id = column_id(binding, intake, column);
            let fields = target.arrow_schema().fields();
            let found = id.and_then(|id| Some((id, fields.iter().position(|field| field_id(field) == Some(id))?)));
            let (field_id, place) = found.ok_or_else(|| Error::Stopped {
                code: "fold.dedup_column",
                message: format!("{name} has no column for `{column}`, which its rows are compared by"),
                remedy: "bring the column back, or change `primary_key` or `dedup_within`; nothing staged is lost"
                    .to_owned(),
            })?;
            Ok(Column { place, field_id })
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
        Ok(Self { table: name, dedup, key, within, held: Vec::new(), counts: BTreeMap::new() })
    }

    /// Adds one object's rows, and notes their event times in the marks. Objects come in order of their keys.
    pub(crate) fn add(
        &mut self,
        found: &Found,
        admitted: &BTreeMap<TopicPartition, Intervals>,
        batches: Vec<Admitted>,
        marks: &mut Ledger,
    ) -> Result<(), Error> {
        let watermark = self.within.map(|_| marks.enter_minute(found.minute));
        for Admitted { mut batch, mut origin } in batches {
            let mut runs = runs_of(admitted, &origin);
            if let Some(within) = self.within {
                let times = self.event_times(&found.key, &batch, within)?;
                let earliest =
                    watermark.flatten().map_or(i64::MIN, |at| at.micros().saturating_sub(within.lookback_micros));
                let punctual: BooleanArray = times.values().iter().map(|time| Some(*time >= earliest)).collect();
                for Run { at, rows } in &runs {
                    let greatest = times.values().get(rows.clone()).and_then(|times| times.iter().max());
                    if let Some(greatest) = greatest {
                        marks.see(at, Timestamp::from_micros(*greatest), found.minute);
                    }
                    let late = (rows.len() - punctual.slice(rows.start, rows.len()).true_count()) as u64;
                    let counts = self.counts.entry(at.clone()).or_default();
                    match within.late {
                        Late::Keep => counts.late_kept += late,
                        Late::Drop => counts.late += late,
                    }
                }
                if within.late == Late::Drop && punctual.true_count() < punctual.len() {
                    batch = filter_record_batch(&batch, &punctual).map_err(|e| self.fault(e.into()))?;
                    origin = kept(&origin, &punctual).map_err(|e| self.fault(e.into()))?;
                    runs = runs_of(admitted, &origin);
                }
            }
            let key = self.key_of(&batch);
            let event_time = self.within.and_then(|within| batch.columns().get(within.event_time.place));
            self.dedup
                .add(&key, event_time, origin)
                .map_err(|source| Error::Merge { table: self.table.clone(), source })?;
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
        let stopped = |what: &str, remedy: &str| Error::Stopped {
            code: "fold.event_time",
            message: format!("`{key}` holds rows whose event time {what}, and {} is deduplicated by it", self.table),
            remedy: format!("{remedy}; nothing staged is lost meanwhile"),
        };
        let column = batch.columns().get(within.event_time.place);
        let times = column.and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
        let times =
            times.ok_or_else(|| stopped("is no timestamp in microseconds", "choose another `dedup_within.column`"))?;
        if times.null_count() > 0 {
            return Err(stopped(
                "is null: they were staged before the pipeline said `dedup_within`",
                "fold with the pipeline file of that time first",
            ));
        }
        Ok(times.clone())
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
        if self.dedup.rows() > 0 {
            self.meet(metadata, io).await?;
        }
        let Self { dedup, held, mut counts, .. } = self;
        let masks = dedup.finish();
        let mut batches = Vec::with_capacity(held.len());
        for (Held { batch, runs }, enter) in held.into_iter().zip(masks) {
            for Run { at, rows } in runs {
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
        let gone = |id: i32| self.fault(Fault::Request(format!("the table has no column of field id {id}")));
        let name = |id: i32| schema.name_by_field_id(id).map(str::to_owned).ok_or_else(|| gone(id));
        let mut columns = self.key.iter().map(|column| name(column.field_id)).collect::<Result<Vec<_>, _>>()?;
        let mut wanted = Vec::new();
        for (column, name) in self.key.iter().zip(&columns) {
            wanted.extend(self.key_bounds(*column, name));
        }
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
        let few = self.dedup.distinct_keys() <= KEYS_MAX;
        let values = if few { Some(self.dedup.keys()) } else { None }.transpose();
        let values = values.map_err(|source| Error::Merge { table: self.table.clone(), source })?;
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

/// The field id of the table's column that a staged column goes to: by its source, as rows are bound, so that a rename in
/// the table leaves it the same column.
fn column_id(binding: &Binding, intake: &Intake, column: &str) -> Option<i32> {
    let footers = intake.objects.iter().map(|found| &found.footer);
    let of = |footer| binding.field_id(footer, column);
    let id = footers.filter(|footer| footer.columns.iter().any(|c| c.name == column)).find_map(of);
    id.or_else(|| intake.objects.first().and_then(|found| of(&found.footer)))
}

/// The key columns as the table calls them now. One that is gone is left out: [`Candidates::new`] says so.
pub(crate) fn key_names(table: &Table, metadata: &TableMetadata, binding: &Binding, intake: &Intake) -> Vec<String> {
    let name = |column: &String| metadata.current_schema().name_by_field_id(column_id(binding, intake, column)?);
    table.primary_key.iter().filter_map(name).map(str::to_owned).collect()
}

/// Rows of one partition that follow each other.
struct Run {
    at: TopicPartition,
    rows: std::ops::Range<usize>,
}

/// The runs of an object's rows, by where the ledger counts them: of one object topic and partition tell that apart.
fn runs_of(admitted: &BTreeMap<TopicPartition, Intervals>, origin: &Origin) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let rows = origin.topics.iter().zip(origin.partitions.values());
    for (row, (topic, partition)) in rows.enumerate() {
        let topic = topic.unwrap_or_default();
        match runs.last_mut() {
            Some(run) if run.at.partition == *partition && run.at.topic == topic => run.rows.end = row + 1,
            _ => {
                let counted = admitted.keys().find(|at| at.partition == *partition && at.topic == topic);
                runs.extend(counted.map(|at| Run { at: at.clone(), rows: row..row + 1 }));
            }
        }
    }
    runs
}

fn kept(origin: &Origin, mask: &BooleanArray) -> Result<Origin, arrow::error::ArrowError> {
    Ok(Origin {
        topics: filter(&origin.topics, mask)?.as_string_view().clone(),
        partitions: filter(&origin.partitions, mask)?.as_primitive().clone(),
        offsets: filter(&origin.offsets, mask)?.as_primitive().clone(),
        timestamps: filter(&origin.timestamps, mask)?.as_primitive().clone(),
        ordinals: filter(&origin.ordinals, mask)?.as_primitive().clone(),
    })
}

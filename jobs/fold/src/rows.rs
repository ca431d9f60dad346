//! From staged objects to rows of the table: only the admitted ones, bound to the table's columns.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, PrimitiveArray, RecordBatch, StringViewArray};
use arrow::compute::{filter_record_batch, not};
use arrow::datatypes::{ArrowPrimitiveType, Field, Int32Type, Int64Type, Schema, SchemaRef};
use merge::Origin;
use model::coordinate::TopicPartition;
use model::interval::Intervals;
use pipeline::resolved::Table;
use staging::dead_letter::Class;
use staging::footer::{self, Footer};
use staging::object::{self, Object, Projection, Types};
use staging::record_columns;
use table::data_file::Target;
use table::fault::Fault;
use table::schema::align::{Alignment, Match, Why};

use crate::bind;
use crate::dead::{Reason, Reasons, kept};
use crate::evolve::Evolved;
use crate::marks::Marks;

/// The key under which Arrow and Parquet carry a field id.
const FIELD_ID: &str = "PARQUET:field_id";

/// Why an object's rows can't be had.
pub(crate) enum Error {
    /// The object is at fault, and only it.
    Object(Box<object::Error>),
    /// A column can't be bound to the table's.
    Column(Box<Fault>),
    /// The rows can't be fitted to the table.
    Table(Box<Fault>),
}

impl From<object::Error> for Error {
    fn from(e: object::Error) -> Self {
        Self::Object(Box::new(e))
    }
}

impl From<Fault> for Error {
    fn from(e: Fault) -> Self {
        Self::Table(Box::new(e))
    }
}

/// Admitted rows.
#[derive(Debug)]
pub(crate) struct Admitted {
    /// In the target's schema.
    pub(crate) batch: RecordBatch,
    /// Where each of them comes from.
    pub(crate) origin: Origin,
    /// The same rows as they were staged.
    pub(crate) staged: RecordBatch,
}

/// Admitted rows that the table does not take.
#[derive(Debug)]
pub(crate) struct Unfit {
    /// As they were staged.
    pub(crate) staged: RecordBatch,
    /// Where each of them comes from.
    pub(crate) origin: Origin,
    /// One for each.
    pub(crate) reasons: Reasons,
}

/// The admitted rows of one object.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) fit: Vec<Admitted>,
    /// Records that delete the row of their key. Of their columns, any of which may be null, those of the key mean something.
    pub(crate) deleting: Vec<Admitted>,
    pub(crate) unfit: Vec<Unfit>,
}

/// Rows of one partition that follow each other.
pub(crate) struct Run<'a> {
    /// Where the ledger counts them.
    pub(crate) at: &'a TopicPartition,
    pub(crate) rows: std::ops::Range<usize>,
}

/// The runs of an object's rows, by where the ledger counts them: of one object topic and partition tell that apart.
pub(crate) fn runs_of<'a>(admitted: &'a BTreeMap<TopicPartition, Intervals>, origin: &Origin) -> Vec<Run<'a>> {
    let mut runs: Vec<Run<'_>> = Vec::new();
    let rows = origin.topics.iter().zip(origin.partitions.values());
    for (row, (topic, partition)) in rows.enumerate() {
        let topic = topic.unwrap_or_default();
        match runs.last_mut() {
            Some(run) if run.at.partition == *partition && run.at.topic == topic => run.rows.end = row + 1,
            _ => {
                let counted = admitted.keys().find(|at| at.partition == *partition && at.topic == topic);
                runs.extend(counted.map(|at| Run { at, rows: row..row + 1 }));
            }
        }
    }
    runs
}

/// The admitted rows of one object as batches in the target's schema, with their number by partition; apart from them
/// those of which a value does not fit, which are counted, too.
pub(crate) fn admitted(
    object: &Object,
    table: &Table,
    admitted: &BTreeMap<TopicPartition, Intervals>,
    evolved: &Evolved,
    target: &Target,
    counted: &mut BTreeMap<TopicPartition, u64>,
) -> Result<Rows, Error> {
    let footer = object.footer();
    // All rows of the object are admitted when it speaks for every coordinate that it decided about: the common case.
    // The ledger may count them under another source than the object does.
    let admitted: BTreeMap<(&str, i32), _> =
        admitted.iter().map(|(at, offsets)| ((at.topic.as_str(), at.partition), (at, offsets))).collect();
    let whole = footer.coverage.iter().all(|(at, covered)| {
        admitted
            .get(&(at.topic.as_str(), at.partition))
            .is_some_and(|(_, offsets)| offsets.contains_all(&covered.decided()))
    });
    let mut wanted = Wanted::new(&admitted, whole);

    let rows = object.rows(&table.name.to_string(), &Projection { types: Types::Views, ..Projection::default() })?;
    let all = rows.schema();
    let name = table.name.to_string();
    let is_left_out = |c: &footer::Column| bind::is_left_out(table, c) || evolved.leaves_out(footer, &name, c);
    let is_named_so = |name: &str| footer.columns.iter().any(|c| c.name == name && is_left_out(c));
    let places: Vec<usize> = (0..all.fields().len()).filter(|n| !is_named_so(all.field(*n).name())).collect();
    let is_whole = places.len() == all.fields().len();
    let staged = Arc::new(all.project(&places).map_err(Fault::from)?);
    let repeated = repeated(footer, &staged, is_left_out)?;
    let bound = |field: &Field, name: &str| match evolved.binding.field_id(footer, name) {
        None => field.clone(),
        Some(id) => {
            let mut metadata = field.metadata().clone();
            metadata.insert(FIELD_ID.to_owned(), id.to_string());
            field.clone().with_metadata(metadata)
        }
    };
    let mut fields: Vec<Field> = staged.fields().iter().map(|field| bound(field, field.name())).collect();
    fields.extend(repeated.iter().map(|(name, from)| bound(staged.field(*from), name).with_name(*name)));
    let incoming = Arc::new(Schema::new(fields));
    let onto = |schema: &SchemaRef| {
        Alignment::new(&incoming, schema, Match::IdOrName, &[]).map_err(|fault| Error::Column(Box::new(fault)))
    };
    let alignment = onto(target.arrow_schema())?;
    let deleting = match incoming.column_with_name(record_columns::OP) {
        Some(_) => Some(onto(&Arc::new(nullable(target.arrow_schema())))?),
        None => None,
    };

    let marks = Marks::of(target, &evolved.binding);
    let marks = marks.as_ref();
    let mut all = Rows::default();
    for batch in rows {
        let mut batch = batch?;
        if !is_whole {
            batch = batch.project(&places).map_err(Fault::from)?;
        }
        if let Some(mask) = wanted.mask(&batch)? {
            batch = filter_record_batch(&batch, &mask).map_err(Fault::from)?;
        }
        if batch.num_rows() > 0 {
            let origin = origin(&batch)?;
            let mut columns = batch.columns().to_vec();
            columns.extend(repeated.iter().map(|(_, from)| Arc::clone(batch.column(*from))));
            let batch = RecordBatch::try_new(Arc::clone(&incoming), columns).map_err(Fault::from)?;
            let Some(deletes) = deleting.as_ref().map(|_| deletes(&batch)).transpose()? else {
                fit(&alignment, marks, batch, origin, &mut all)?;
                continue;
            };
            let some = |mask: &BooleanArray| Ok::<_, Fault>((filter_record_batch(&batch, mask)?, kept(&origin, mask)?));
            if deletes.true_count() < deletes.len() {
                let (staged, origin) = some(&not(&deletes).map_err(Fault::from)?)?;
                fit(&alignment, marks, staged, origin, &mut all)?;
            }
            if let (Some(alignment), true) = (&deleting, deletes.true_count() > 0) {
                let (staged, origin) = some(&deletes)?;
                all.deleting.push(Admitted { batch: alignment.apply(&staged)?, origin, staged });
            }
        }
    }
    wanted.into_counts(counted);
    Ok(all)
}

/// Which records of a batch delete the row of their key.
fn deletes(batch: &RecordBatch) -> Result<BooleanArray, object::Error> {
    let ops = text(batch, record_columns::OP)?;
    Ok(ops.iter().map(|op| Some(op == Some(record_columns::DELETE))).collect())
}

/// The same columns, any of which may be null.
fn nullable(schema: &Schema) -> Schema {
    Schema::new(schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>())
}

/// Fits a batch of rows to the table. Where a value keeps it from fitting, its rows are taken out and the others fitted.
fn fit(
    alignment: &Alignment,
    marks: Option<&Marks>,
    staged: RecordBatch,
    origin: Origin,
    all: &mut Rows,
) -> Result<(), Fault> {
    // Who comes is not deleted.
    let apply = |staged: &RecordBatch| match (alignment.apply(staged), marks) {
        (Ok(batch), Some(marks)) => marks.live(batch),
        (applied, _) => applied,
    };
    let fault = match apply(&staged) {
        Ok(batch) => {
            all.fit.push(Admitted { batch, origin, staged });
            return Ok(());
        }
        Err(fault @ Fault::Mismatch(_)) => fault,
        Err(fault) => return Err(fault),
    };
    let misfits = alignment.misfits(&staged)?;
    if misfits.is_empty() {
        return Err(fault);
    }
    let mut unfit = vec![false; staged.num_rows()];
    // A batch has few columns of which values do not fit: their reasons are shared.
    let mut shared: BTreeMap<(String, bool), Arc<Reason>> = BTreeMap::new();
    let mut reasons = Vec::with_capacity(misfits.len());
    for misfit in misfits {
        if let Some(unfit) = unfit.get_mut(misfit.row) {
            *unfit = true;
        }
        let reason = shared.entry((misfit.path, misfit.why == Why::Null)).or_insert_with_key(|(path, null)| {
            let (class, message) = match null {
                true => (Class::MissingRequired, "the table requires a value, and there is none"),
                false => (Class::OutOfRange, "the value is outside the range of the table's column"),
            };
            Arc::new(Reason { class, path: path.clone(), message: message.to_owned() })
        });
        reasons.push(Some(Arc::clone(reason)));
    }
    let unfit = BooleanArray::from(unfit);
    let fit = not(&unfit)?;
    if fit.true_count() > 0 {
        let staged = filter_record_batch(&staged, &fit)?;
        all.fit.push(Admitted { batch: apply(&staged)?, origin: kept(&origin, &fit)?, staged });
    }
    let (staged, origin) = (filter_record_batch(&staged, &unfit)?, kept(&origin, &unfit)?);
    all.unfit.push(Unfit { staged, origin, reasons });
    Ok(())
}

pub(crate) fn damaged(what: &str) -> object::Error {
    object::Error::Corrupt { why: format!("its rows have no readable {what}"), source: None }
}

/// A record column of staged rows, read with [`Types::Views`]: text.
pub(crate) fn text<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b StringViewArray, object::Error> {
    batch.column_by_name(name).and_then(|column| column.as_string_view_opt()).ok_or_else(|| damaged(name))
}

/// The same: numbers and times.
pub(crate) fn numbers<'b, T: ArrowPrimitiveType>(
    batch: &'b RecordBatch,
    name: &str,
) -> Result<&'b PrimitiveArray<T>, object::Error> {
    batch.column_by_name(name).and_then(|column| column.as_primitive_opt()).ok_or_else(|| damaged(name))
}

/// The record columns of staged rows.
fn origin(batch: &RecordBatch) -> Result<Origin, object::Error> {
    Ok(Origin {
        topics: text(batch, record_columns::TOPIC)?.clone(),
        partitions: numbers(batch, record_columns::PARTITION)?.clone(),
        offsets: numbers(batch, record_columns::OFFSET)?.clone(),
        timestamps: numbers(batch, record_columns::TIMESTAMP)?.clone(),
        ordinals: numbers(batch, record_columns::ORDINAL)?.clone(),
    })
}

/// Columns that the record itself fills (`sent = { from = "@timestamp" }`), each with the position of the staged record
/// column that holds its values: they are staged once.
fn repeated<'f>(
    footer: &'f Footer,
    staged: &Schema,
    is_left_out: impl Fn(&footer::Column) -> bool,
) -> Result<Vec<(&'f str, usize)>, Error> {
    let mut repeated = Vec::new();
    let missing = |c: &&footer::Column| staged.index_of(&c.name).is_err() && !is_left_out(c);
    for column in footer.columns.iter().filter(missing) {
        let from = match column.source.as_str() {
            "@topic" => record_columns::TOPIC,
            "@partition" => record_columns::PARTITION,
            "@offset" => record_columns::OFFSET,
            "@timestamp" => record_columns::TIMESTAMP,
            "@ingested_at" => record_columns::INGESTED_AT,
            other => {
                let why = format!("its rows lack the column `{}` from `{other}`, which its footer names", column.name);
                return Err(object::Error::Corrupt { why, source: None }.into());
            }
        };
        let missing = |_| object::Error::Corrupt { why: format!("its rows have no {from}"), source: None };
        repeated.push((column.name.as_str(), staged.index_of(from).map_err(missing)?));
    }
    Ok(repeated)
}

/// Picks rows by coordinate and counts them. Rows of one partition follow each other, so a look-up is needed only where
/// topic or partition change.
struct Wanted<'a> {
    by_topic: HashMap<&'a str, HashMap<i32, Place<'a>>>,
    whole: bool,
}

struct Place<'a> {
    at: &'a TopicPartition,
    admitted: &'a Intervals,
    rows: u64,
}

impl<'a> Wanted<'a> {
    fn new(admitted: &BTreeMap<(&'a str, i32), (&'a TopicPartition, &'a Intervals)>, whole: bool) -> Self {
        // One object is one invocation's, and an invocation has one source: topic and partition tell its rows apart.
        let mut by_topic: HashMap<&str, HashMap<i32, Place<'_>>> = HashMap::new();
        for ((topic, partition), (at, admitted)) in admitted {
            by_topic.entry(topic).or_default().insert(*partition, Place { at, admitted, rows: 0 });
        }
        Self { by_topic, whole }
    }

    /// Which rows to keep; `None` for all.
    fn mask(&mut self, batch: &RecordBatch) -> Result<Option<BooleanArray>, object::Error> {
        let topics = text(batch, record_columns::TOPIC)?;
        let partitions = numbers::<Int32Type>(batch, record_columns::PARTITION)?;
        let offsets = numbers::<Int64Type>(batch, record_columns::OFFSET)?;
        if topics.null_count() + partitions.null_count() + offsets.null_count() > 0 {
            return Err(damaged("coordinate"));
        }
        let mut keep = Vec::with_capacity(if self.whole { 0 } else { batch.num_rows() });
        let rows = topics.iter().flatten().zip(partitions.values().iter()).zip(offsets.values().iter());
        let mut rows = rows.peekable();
        while let Some(((topic, partition), _)) = rows.peek().copied() {
            let mut place = self.by_topic.get_mut(topic).and_then(|partitions| partitions.get_mut(partition));
            while let Some(((_, _), offset)) = rows.next_if(|((t, p), _)| *t == topic && **p == *partition) {
                let wanted = place.as_ref().is_some_and(|p| self.whole || p.admitted.contains(*offset));
                if let Some(place) = &mut place
                    && wanted
                {
                    place.rows += 1;
                }
                if !self.whole {
                    keep.push(wanted);
                }
            }
        }
        Ok((!self.whole).then(|| BooleanArray::from(keep)))
    }

    fn into_counts(self, counted: &mut BTreeMap<TopicPartition, u64>) {
        for place in self.by_topic.into_values().flat_map(HashMap::into_values) {
            *counted.entry(place.at.clone()).or_default() += place.rows;
        }
    }
}

//! What is allowed and may still not be meant: wasteful layouts, rows that are left out for good.

use pipeline::Fault;
use pipeline::environment::{Environment, Start};
use pipeline::partition;
use pipeline::resolved::{Deletes, From, Late, Mode, PartitionField, Pipeline, Table, Transform, Write};
use pipeline::route::Route;
use pipeline::types::Type;
use serde::Serialize;

use super::estimate::{Estimate, bytes};
use crate::examination::Resolved;

/// Files of one fold, of less than so many bytes, that are called many and small. One file a fold can't be helped.
const MANY_FILES: u64 = 32;
const SMALL_FILE_BYTES: u64 = 1 << 20;
/// Smaller row groups are read one by one, with a footer entry of each column.
const ROW_GROUP_BYTES_MIN: u64 = 8 << 20;
const TARGET_FILE_BYTES_MIN: u64 = 32 << 20;
/// Names in a warning, and warnings of one kind.
const SHOWN_MAX: usize = 10;

/// A warning.
#[derive(Debug, Serialize)]
pub(crate) struct Remark {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

/// The warnings about settings of a file, which has them at some place.
pub(crate) fn of_file(warnings: &[Fault]) -> impl Iterator<Item = Remark> {
    warnings.iter().map(|warning| {
        let message = format!("line {}, column {}: {}", warning.line, warning.column, warning.message);
        Remark { code: warning.code, message }
    })
}

/// Every other warning about a pipeline without faults.
pub(crate) fn of(resolved: &Resolved, environment: &Environment, estimate: &Estimate) -> Vec<Remark> {
    let mut remarks = Remarks { resolved, all: Vec::new() };
    remarks.files(estimate);
    remarks.partitions();
    remarks.lookups();
    remarks.properties();
    remarks.rows();
    remarks.fields();
    remarks.versions();
    remarks.mapping(environment);
    remarks.all
}

struct Remarks<'a> {
    resolved: &'a Resolved,
    all: Vec<Remark>,
}

impl<'a> Remarks<'a> {
    fn add(&mut self, code: &'static str, message: impl Into<String>) {
        self.all.push(Remark { code, message: message.into() });
    }

    fn pipeline(&self) -> &'a Pipeline {
        &self.resolved.pipeline
    }

    fn files(&mut self, estimate: &Estimate) {
        if estimate.files_per_fold <= MANY_FILES || estimate.bytes_per_file >= SMALL_FILE_BYTES {
            return;
        }
        self.add(
            "plan.small_files",
            format!(
                "a fold writes {} files of {}, {} a day: fewer buckets, a coarser time, or a longer `[fold] max_age` make larger \
                 ones",
                estimate.files_per_fold,
                bytes(estimate.bytes_per_file),
                estimate.files_per_day
            ),
        );
    }

    /// A column's type, by its name in the table.
    fn type_of(&self, name: &str) -> Option<&'a Type> {
        self.resolved.columns.columns.iter().find(|column| column.name == name).map(|column| &column.data_type)
    }

    fn partitions(&mut self) {
        let fields = &self.pipeline().table.partition_by;
        for field in fields.iter().filter(|field| field.transform == Transform::Identity) {
            let PartitionField { column, .. } = field;
            let is_key = self.pipeline().table.primary_key.contains(column);
            let many = match self.type_of(column) {
                _ if column == "_kafka_offset" => true,
                _ if matches!(column.as_str(), "_kafka_timestamp" | "_ingested_at") => true,
                Some(Type::Timestamp | Type::Timestamptz | Type::Time | Type::Float | Type::Double) => true,
                Some(Type::Binary | Type::Fixed(_) | Type::Decimal(..)) => true,
                _ => false,
            };
            if is_key || many {
                let why = if is_key { "it is part of the key" } else { "it has as many values as rows, or nearly" };
                let instead = match self.type_of(column) {
                    Some(Type::Timestamp | Type::Timestamptz) => format!("day({column}) or hour({column})"),
                    _ => format!("bucket(8, {column})"),
                };
                self.add(
                    "plan.partition_per_value",
                    format!("each value of `{column}` is a partition of its own, and {why}: {instead} is a few"),
                );
            }
        }
    }

    /// What modes that look keys up have to read.
    fn lookups(&mut self) {
        let table = &self.pipeline().table;
        if table.mode == Mode::Append {
            return;
        }
        let keyed = table.partition_by.iter().any(|field| table.primary_key.contains(&field.column));
        if !table.partition_by.is_empty() && !keyed {
            let key = table.primary_key.join(", ");
            self.add(
                "plan.key_not_in_partition",
                format!("no partition field is of the key ({key}): a key may be in every partition, and is looked for in all"),
            );
        }
        if table.mode == Mode::Upsert {
            if table.takes_deletes() && self.pipeline().route.as_ref().is_some_and(Route::takes_fields) {
                self.add(
                    "plan.deletes_unroutable",
                    "records without a value have no field that names their table, and go to dead letters: nothing is deleted",
                );
            }
            if let Some(column) = table.of_one_record() {
                self.add(
                    "plan.key_per_record",
                    format!(
                        "`{column}` is another in each record: no row replaces one, and nothing is deleted; leave it out of `primary_key`, \
                         or say `mode = \"append\"`"
                    ),
                );
            } else if let (true, Some(column)) = (table.takes_deletes(), table.beside_record_key()) {
                self.add("plan.deletes_without_key", without_key(table, column));
            }
            return;
        }
        let Some(within) = &table.dedup_within else {
            self.add(
                "plan.whole_table",
                "without `dedup_within` each key is looked for in the whole table, which takes longer as it grows",
            );
            return;
        };
        let by_time = |field: &PartitionField| {
            let time = matches!(field.transform, Transform::Hour | Transform::Day | Transform::Month | Transform::Year);
            field.column == within.column && time
        };
        if !table.partition_by.iter().any(by_time) {
            self.add(
                "plan.event_time_not_in_partition",
                format!(
                    "no partition field is of the event time `{}`: files near in time are found by their bounds alone, which \
                     maintenance may widen; partition by hour or day of it",
                    within.column
                ),
            );
        }
    }

    fn properties(&mut self) {
        let number = |name: &str| self.pipeline().table.properties.get(name).and_then(|n| n.parse::<u64>().ok());
        let groups = number("write.parquet.row-group-size-bytes").filter(|n| *n < ROW_GROUP_BYTES_MIN);
        let files = number("write.target-file-size-bytes").filter(|n| *n < TARGET_FILE_BYTES_MIN);
        if let Some(n) = groups {
            let message = format!("row groups of {} cost readers more than they save: leave it at 128 MiB", bytes(n));
            self.add("plan.small_row_groups", message);
        }
        if let Some(n) = files {
            self.add(
                "plan.small_target_files",
                format!("files of at most {} are small for Iceberg's readers", bytes(n)),
            );
        }
    }

    /// Rows that do not come, or not back.
    fn rows(&mut self) {
        let pipeline = self.pipeline();
        if let Some(within) = &pipeline.table.dedup_within {
            let late = format!(
                "rows whose `{}` lies more than {} s before the newest",
                within.column, within.lookback_seconds
            );
            match within.late {
                Late::Keep => {}
                Late::Drop => self.add("plan.late_dropped", format!("{late} are left out for good, and counted")),
                Late::DeadLetter => self.add("plan.late_dead_letters", format!("{late} go to dead letters")),
            }
        }
        if pipeline.value.filter.is_some() {
            self.add(
                "plan.filter_settles",
                "records that the filter leaves out are settled: another filter later does not bring them back, a rollback or a \
                 backfill does",
            );
        }
        if !pipeline.table.record_columns {
            self.add(
                "plan.no_record_columns",
                "without record columns no row tells which record it is of: it can't be traced to an offset",
            );
        }
    }

    /// Fields that are in no column, and that nobody said should not be.
    fn fields(&mut self) {
        let left = &self.resolved.left_aside;
        if left.is_empty() {
            return;
        }
        let names: Vec<String> = left.iter().take(SHOWN_MAX).map(|name| format!("`{name}`")).collect();
        let more = if left.len() > SHOWN_MAX { format!(" and {} more", left.len() - SHOWN_MAX) } else { String::new() };
        self.add(
            "plan.fields_left_aside",
            format!(
                "in no column, for one is made of another field of the same record: {}{more}; declare columns for them under \
                 [table.columns], or name them under `exclude`",
                names.join(", ")
            ),
        );
    }

    /// Versions of the schema of which every record goes to dead letters.
    fn versions(&mut self) {
        let refused = &self.resolved.refused;
        for (number, why) in refused.iter().take(SHOWN_MAX) {
            self.add(
                "plan.incompatible_version",
                format!("records of version {number} of the schema go to dead letters: {why}"),
            );
        }
        if refused.len() > SHOWN_MAX {
            let message = format!("so do records of {} more versions", refused.len() - SHOWN_MAX);
            self.add("plan.incompatible_version", message);
        }
        for (number, fields) in self.resolved.replaced.iter().take(SHOWN_MAX) {
            let names: Vec<String> = fields.iter().take(SHOWN_MAX).map(|name| format!("`{name}`")).collect();
            self.add(
                "plan.field_replaced",
                format!(
                    "version {number} of the schema has {}, and a column of that name is declared of something else: it is left out, \
                     and its records are counted as having unknown fields; call the declared column otherwise to have both",
                    names.join(", ")
                ),
            );
        }
        for path in self.resolved.columns.absent() {
            self.add(
                "plan.required_absent",
                format!(
                    "a required column is made of `{path}`, which the newest version of the schema has not: its records go to dead \
                     letters (missing_required)"
                ),
            );
        }
    }

    fn mapping(&mut self, environment: &Environment) {
        let skips = environment.mapping.skips();
        if !skips.is_empty() {
            let names: Vec<String> = skips.iter().map(|name| format!("`{name}`")).collect();
            let message = format!(
                "with {} the mapping may pass records over: offsets that are missing between staged objects stay open, and are \
                 not counted as never delivered",
                names.join(", ")
            );
            self.add("plan.mapping_skips", message);
        }
        if environment.mapping.start == Some(Start::Latest) {
            let message =
                "`start = \"LATEST\"` misses what comes while the mapping is made or changed: TRIM_HORIZON does not";
            self.add("plan.start_latest", message);
        }
    }
}

/// Records without a value do not name their row, for a column of the key is not made of what they have.
fn without_key(table: &Table, column: &str) -> String {
    let why = match table.source_of(column) {
        Some(From::Header(_)) => format!("`{column}` is made of a header, which they need not have"),
        Some(From::Record(_)) => format!("`{column}` is of each record itself"),
        _ => format!("`{column}` is made of the value"),
    };
    // The last of a path's names is what the field in the key is most likely called.
    let field = match table.source_of(column) {
        Some(From::Path(path)) => path.last().cloned(),
        Some(From::Header(name)) => Some(name),
        _ => None,
    };
    let field = field.unwrap_or_else(|| column.to_owned());
    format!(
        "records without a value delete the row of their key, and go to dead letters: {why}; make it of the record's key, where that \
         has it (`{column} = {{ from = \"@key.{field}\", … }}` with [key]), or say `deletes = \"ignore\"`"
    )
}

fn upserted(table: &Table) -> String {
    let upsert = table.upsert.clone().unwrap_or_default();
    let newer = match upsert.order_by.as_slice() {
        [] => "the one of the later record".to_owned(),
        order => format!("the one of the greater ({}), and of equal ones that of the later record", order.join(", ")),
    };
    let removed = match upsert.write {
        Write::MergeOnRead => "go by position delete files",
        Write::CopyOnWrite => "go by writing their files anew",
        Write::Auto => "go by position delete files, and where many of a file's rows go, by writing it anew",
    };
    let deleted = match upsert.deletes {
        Deletes::Hard => "a record without a value removes the row of its key",
        Deletes::Soft => "a record without a value marks the row of its key as deleted (`_is_deleted`, `_deleted_at`)",
        Deletes::Ignore => "records without a value are left out",
    };
    format!(
        "of the rows of one ({}) the newest stays: {newer}; {deleted}; old rows {removed}; of the table those files are read that \
         partitions, bounds and bloom filters of the key do not rule out",
        table.primary_key.join(", ")
    )
}

/// What a fold does with rows, in a sentence.
pub(crate) fn merge(pipeline: &Pipeline) -> String {
    let table = &pipeline.table;
    match (table.mode, &table.dedup_within) {
        (Mode::Upsert, _) => upserted(table),
        (Mode::Append, _) => "every row is inserted; nothing of the table is read".to_owned(),
        (Mode::Dedup, None) => format!(
            "a row is inserted unless a row of the same ({}) is in the fold or anywhere in the table; of the table those files are \
             read that bounds and bloom filters of the key do not rule out",
            table.primary_key.join(", ")
        ),
        (Mode::Dedup, Some(within)) => {
            let pruned = table
                .partition_by
                .iter()
                .filter(|f| f.column == within.column || table.primary_key.contains(&f.column));
            let pruned: Vec<String> = pruned.map(partition::text).collect();
            let by = if pruned.is_empty() { String::new() } else { format!(" ({})", pruned.join(", ")) };
            format!(
                "a row is inserted unless a row of the same ({}) has a `{}` within {} s of its own, in the fold or in the table; of \
                 the table those files are read that partitions{by}, bounds and bloom filters do not rule out; rows that come late \
                 are {}",
                table.primary_key.join(", "),
                within.column,
                within.lookback_seconds,
                match within.late {
                    Late::Keep => "kept",
                    Late::Drop => "left out",
                    Late::DeadLetter => "dead letters",
                }
            )
        }
    }
}

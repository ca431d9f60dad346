//! A pipeline against the table that is there: what would change, and what a fold would stop at.

use std::collections::{BTreeMap, BTreeSet};

use fold::{Foreseen, ForeseenMarks, What, order_text, spec_text};
use iceberg::spec::{NestedField, TableMetadata, Type};
use pipeline::Fault;
use pipeline::resolved::{Exists, RECORD_COLUMNS};
use serde::Serialize;
use staging::footer;
use table::schema::written;

use super::estimate::bytes;
use super::remarks::Remark;
use crate::examination::{Examinee, Resolved};

/// A snapshot's life where a table does not say, by Iceberg's own default: 5 days, in milliseconds.
const SNAPSHOT_AGE_DEFAULT_MS: u64 = 5 * DAY_MS;
const SNAPSHOT_AGE: &str = "history.expire.max-snapshot-age-ms";
const DAY_MS: u64 = 24 * 3600 * 1000;

/// Something in which file and table differ.
#[derive(Debug, Serialize)]
pub(crate) struct Change {
    pub(crate) change: Kind,
    /// The table, column or property.
    pub(crate) name: String,
    /// What the table has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) table: Option<String>,
    /// What the file says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    /// What comes of it.
    pub(crate) effect: String,
}

/// Kinds of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    CreateTable,
    AddColumn,
    PromoteColumn,
    LeaveColumnAway,
    ChangeColumn,
    PartitionSpec,
    SortOrder,
    Property,
    Write,
}

/// What came of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub(crate) changes: Vec<Change>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) warnings: Vec<Remark>,
}

/// Holds a pipeline against its table. `bound` are the columns that the pipeline's earlier folds filled, by source.
pub(crate) fn compare(
    resolved: &Resolved,
    examinee: &Examinee,
    metadata: &TableMetadata,
    bound: Option<&BTreeMap<String, i32>>,
    has_committed: bool,
) -> Compared {
    let mut comparison = Comparison { resolved, examinee, metadata, compared: Compared::default() };
    let name = &resolved.pipeline.table.name;
    if comparison.is_joined() {
        comparison.columns(bound);
        comparison.own();
        comparison.history();
        return comparison.compared;
    }
    if !metadata.properties().contains_key(fold::MAPPING_VERSION) {
        match resolved.pipeline.table.exists {
            Exists::MustBeNew => {
                let message = format!(
                    "{name} exists, others made it, and it must be new: `exists = \"join\"` writes into theirs"
                );
                comparison.fault("table.exists", "plan.table_exists", message);
            }
            _ => {
                let message = format!(
                    "{name} exists and was not made by frazil: `exists = \"join\"` writes into a table that others made"
                );
                comparison.fault("table.name", "plan.foreign_table", message);
            }
        }
        return comparison.compared;
    }
    if resolved.pipeline.table.exists == Exists::MustBeNew && !has_committed && metadata.last_sequence_number() > 0 {
        let message = format!("{name} has snapshots already, and must be new");
        comparison.fault("table.exists", "plan.table_exists", message);
    }
    comparison.columns(bound);
    comparison.layout();
    comparison.properties();
    comparison.history();
    comparison.compared
}

/// A pipeline whose table is not there: the first fold makes it, but for one that others make.
pub(crate) fn absent(resolved: &Resolved, examinee: &Examinee) -> Compared {
    let name = resolved.pipeline.table.name.to_string();
    if resolved.pipeline.table.exists == Exists::Join {
        let message = format!(
            "there is no table {name} to join: make it with the engine that owns it, mend its name, or say `exists = \"create\"`"
        );
        let fault = examinee.examined.fault("table.exists", "plan.table_missing", message, None);
        return Compared { faults: vec![fault], ..Compared::default() };
    }
    let effect = "the first fold makes it".to_owned();
    let creation = Change { change: Kind::CreateTable, name, table: None, file: None, effect };
    Compared { changes: vec![creation], ..Compared::default() }
}

struct Comparison<'a> {
    resolved: &'a Resolved,
    examinee: &'a Examinee,
    metadata: &'a TableMetadata,
    compared: Compared,
}

impl Comparison<'_> {
    fn fault(&mut self, place: &str, code: &'static str, message: String) {
        self.compared.faults.push(self.examinee.examined.fault(place, code, message, None));
    }

    fn change(&mut self, change: Kind, name: &str, table: Option<String>, file: Option<String>, effect: &str) {
        let (name, effect) = (name.to_owned(), effect.to_owned());
        self.compared.changes.push(Change { change, name, table, file, effect });
    }

    fn is_joined(&self) -> bool {
        self.resolved.pipeline.table.exists == Exists::Join
    }

    fn columns(&mut self, bound: Option<&BTreeMap<String, i32>>) {
        let (resolved, live) = (self.resolved, self.metadata.current_schema());
        let column = |column: &codec::columns::Column| footer::Column {
            name: column.name.clone(),
            source: column.source.clone(),
            source_name: column.source_name.clone(),
            former: resolved.former.get(&column.source).cloned().unwrap_or_default(),
            data_type: column.data_type.to_string(),
            required: column.required,
        };
        let staged: Vec<footer::Column> = resolved.columns.columns.iter().map(column).collect();
        let Foreseen { changes, unmade, stops, places } =
            match fold::foresee(&resolved.pipeline.table, self.metadata, bound, &staged) {
                Ok(foreseen) => foreseen,
                Err(stop) => return self.fault("table", stop.code(), format!("folds would stop: {stop}")),
            };
        let mut used: BTreeSet<i32> = BTreeSet::new();
        for wanted in resolved.schema.as_struct().fields() {
            let is_record = RECORD_COLUMNS.iter().any(|(record, ..)| *record == wanted.name);
            let there = match places.get(&wanted.name) {
                Some(id) => live.field_by_id(*id),
                None if is_record => live.as_struct().field_by_name(&wanted.name),
                None => None,
            };
            match there {
                Some(there) => {
                    used.insert(there.id);
                    let mut left = Vec::new();
                    missing(&there.field_type, &wanted.field_type, &there.name, &mut left);
                    for path in left {
                        self.left(&path, &there.field_type);
                    }
                    if there.required && !wanted.required && self.is_key(there) && !self.is_joined() {
                        self.key_may_lack(there, "the file takes nulls there");
                    }
                }
                // Others' table gets those that it lacks: they are among the changes.
                None if is_record && self.is_joined() => {}
                None if is_record && resolved.pipeline.table.mode.is_ordered() => {
                    let message = format!(
                        "the table has no column `{}`, which tells which of two versions of a row came later: `mode = \"upsert\"` takes \
                         a table that was made with the record columns; fold into a new one, another `name` under [table]",
                        wanted.name
                    );
                    self.fault("table.mode", "plan.record_columns", message);
                }
                None if is_record => {
                    let effect = "the table has no such column, and this version adds none: it is left out";
                    self.change(Kind::AddColumn, &wanted.name, None, Some(written(&wanted.field_type)), effect);
                }
                None => {}
            }
        }
        used.extend(self.marks(bound));
        let is_filled = |name: &str| self.is_joined() && RECORD_COLUMNS.iter().any(|(record, ..)| *record == name);
        let left =
            live.as_struct().fields().iter().filter(|field| !used.contains(&field.id) && !is_filled(&field.name));
        for there in left.cloned().collect::<Vec<_>>() {
            self.left(&there.name, &there.field_type);
            if there.required && self.is_key(&there) && !self.is_joined() {
                self.key_may_lack(&there, "the file fills it no more");
            }
        }
        for fold::Change { path, what } in unmade {
            let (table, file, effect) = match what {
                What::Added { .. } => continue,
                What::Widened { from, to } => {
                    (from, Some(to), "others' table keeps its type: rows whose value it can't hold go to dead letters")
                }
                What::Optional => (
                    "not null".to_owned(),
                    None,
                    "others' table takes no nulls there: rows with one go to dead letters",
                ),
            };
            self.change(Kind::ChangeColumn, &path, Some(table), file, effect);
        }
        for fold::Change { path, what } in changes {
            match what {
                What::Added { data_type } => {
                    let effect = "the first fold that finds it staged adds it";
                    self.change(Kind::AddColumn, &path, None, Some(data_type), effect);
                }
                What::Widened { from, to } => {
                    let effect = "the first fold that finds it staged so widens it";
                    self.change(Kind::PromoteColumn, &path, Some(from), Some(to), effect);
                }
                What::Optional => {
                    let effect = "the file takes nulls there, or fills it no more: the first fold of such rows makes it optional";
                    self.change(Kind::ChangeColumn, &path, Some("not null".to_owned()), None, effect);
                }
            }
        }
        for (column, stop) in stops {
            self.stop(&column, places.get(&column).copied(), &stop);
        }
    }

    /// What soft deletes change. Gives the table's fields that mark rows.
    fn marks(&mut self, bound: Option<&BTreeMap<String, i32>>) -> Vec<i32> {
        let ForeseenMarks { changes, rewrites, places } =
            match fold::foresee_marks(&self.resolved.pipeline.table, self.metadata, bound) {
                Ok(foreseen) => foreseen,
                Err(stop) => {
                    let remedy = stop.remedy().map_or_else(String::new, |remedy| format!("; {remedy}"));
                    self.fault("table.deletes", stop.code(), format!("folds would stop: {stop}{remedy}"));
                    return Vec::new();
                }
            };
        for fold::Change { path, what } in changes {
            if let What::Added { data_type } = what {
                self.change(Kind::AddColumn, &path, None, Some(data_type), "the first fold of rows adds it");
            }
        }
        if rewrites {
            let summary = self.metadata.current_snapshot().map(|s| &s.summary().additional_properties);
            let total = |name: &str| summary.and_then(|summary| summary.get(name)?.parse::<u64>().ok());
            let files = total("total-data-files").map_or_else(|| "all".to_owned(), |files| format!("all {files}"));
            let size = total("total-files-size").map_or_else(String::new, |size| format!(", {}", bytes(size)));
            let message = format!(
                "rows that are there get `_is_deleted` = false by writing them anew: the first fold of rows writes {files} data files{size}, \
                 once, in one commit"
            );
            self.compared.warnings.push(Remark { code: "plan.marks_rewrite", message });
        }
        places
    }

    /// A column that folds would stop at.
    fn stop(&mut self, column: &str, place: Option<i32>, stop: &fold::Error) {
        let there = place.and_then(|id| self.metadata.current_schema().field_by_id(id));
        let table = there.map(|there| written(&there.field_type));
        let file = self.resolved.schema.field_by_name(column).map(|wanted| written(&wanted.field_type));
        let (change, code, setting) = match stop.code() {
            "fold.column_unfit" => (Kind::ChangeColumn, "plan.incompatible_column", ".type"),
            "fold.column_dropped" => (Kind::AddColumn, "plan.column_dropped", ""),
            "fold.column_taken" => (Kind::AddColumn, "plan.column_taken", ""),
            // The file has no place for what it lacks.
            code @ ("fold.column_required" | "fold.record_columns") => {
                let code = if code == "fold.column_required" { "plan.required_column" } else { "plan.record_columns" };
                self.change(Kind::ChangeColumn, column, table, file, "folds stop");
                let remedy = stop.remedy().unwrap_or_default();
                return self.fault("table.exists", code, format!("folds would stop: {stop}; {remedy}"));
            }
            "fold.join_key" => {
                let remedy = stop.remedy().unwrap_or_default();
                return self.fault("table.primary_key", "plan.join_key", format!("folds would stop: {stop}; {remedy}"));
            }
            _ => (Kind::ChangeColumn, "plan.column_ambiguous", ""),
        };
        self.change(change, column, table, file, "folds stop");
        let remedy = stop.remedy().map_or_else(String::new, |remedy| format!("; {remedy}"));
        self.fault(&format!("table.columns.{column}{setting}"), code, format!("folds would stop: {stop}{remedy}"));
    }

    /// A column, or a field within one, that the file does not fill.
    fn left(&mut self, path: &str, data_type: &Type) {
        let effect = "it stays in the table, and is null in rows that come";
        self.change(Kind::LeaveColumnAway, path, Some(written(data_type)), None, effect);
    }

    fn is_key(&self, there: &NestedField) -> bool {
        self.metadata.current_schema().identifier_field_ids().any(|id| id == there.id)
    }

    /// One of the table's identifier fields, never null, that may be by what the file says.
    fn key_may_lack(&mut self, there: &NestedField, why: &str) {
        let table = Some(format!("{} not null", written(&there.field_type)));
        let effect = "the table takes no nulls there: rows with one go to dead letters";
        self.change(Kind::ChangeColumn, &there.name, table, None, effect);
        let message = format!("`{}` is one of the table's identifier fields, never null, and {why}", there.name);
        self.fault("table", "plan.required_column", message);
    }

    /// What others' table says otherwise than the file.
    fn own(&mut self) {
        for difference in fold::differences(&self.resolved.pipeline.table, self.metadata) {
            let kind = match difference.setting.as_str() {
                "partition_by" => Kind::PartitionSpec,
                "sort_by" => Kind::SortOrder,
                "write" => Kind::Write,
                _ => Kind::Property,
            };
            let fold::Difference { setting, table, file } = difference;
            self.change(kind, &setting, table, Some(file), "the table's own wins");
        }
    }

    fn layout(&mut self) {
        let live = self.metadata.current_schema();
        let (table, file) = (
            spec_text(self.metadata.default_partition_spec(), live),
            spec_text(&self.resolved.spec, &self.resolved.schema),
        );
        if table != file {
            let effect = "the table keeps its own: this version changes no table that is there";
            self.change(Kind::PartitionSpec, "partition_by", Some(table), Some(file), effect);
        }
        let (table, file) = (
            order_text(self.metadata.default_sort_order(), live),
            order_text(&self.resolved.order, &self.resolved.schema),
        );
        if table != file {
            let effect = "the table keeps its own: this version changes no table that is there";
            self.change(Kind::SortOrder, "sort_by", Some(table), Some(file), effect);
        }
    }

    fn properties(&mut self) {
        let table = self.metadata.properties();
        for (name, wanted) in &self.resolved.pipeline.table.properties {
            if table.get(name) != Some(wanted) {
                let there = table.get(name).cloned();
                self.change(Kind::Property, name, there, Some(wanted.clone()), "the table's own wins");
            }
        }
    }

    /// Whether the table's snapshots live as long as what is staged.
    fn history(&mut self) {
        let table = self.metadata.properties();
        let least = self.resolved.pipeline.staging.retention_seconds.saturating_mul(1000).saturating_add(DAY_MS);
        let said = table.get(SNAPSHOT_AGE).map(|text| text.parse::<u64>().unwrap_or(0));
        let age = said.unwrap_or(SNAPSHOT_AGE_DEFAULT_MS);
        if age < least && self.is_joined() {
            let effect = "others' history is theirs: staged objects stay until a snapshot of the table is older than `[staging] retention`, \
                          which no expiry may have taken by then; a retention of a day less than what the table keeps frees them";
            return self.change(Kind::Property, SNAPSHOT_AGE, Some(age.to_string()), Some(least.to_string()), effect);
        }
        if age < least {
            let message = format!(
                "the table lets snapshots expire after {age} ms{}, and `[staging] retention` and a day are {least}: set its \
                 `{SNAPSHOT_AGE}` to that or more, or shorten the retention",
                if said.is_none() { " (Iceberg's default)" } else { "" }
            );
            self.fault("staging.retention", "plan.history_expiry", message);
        }
    }
}

/// Fields within a column of the table that the file has not.
// Both are schemas, whose depth is bounded where they are read.
fn missing(table: &Type, file: &Type, path: &str, found: &mut Vec<String>) {
    match (table, file) {
        (Type::Struct(there), Type::Struct(wanted)) => {
            for field in there.fields() {
                let path = format!("{path}.{}", field.name);
                match wanted.field_by_name(&field.name) {
                    Some(wanted) => missing(&field.field_type, &wanted.field_type, &path, found),
                    None => found.push(path),
                }
            }
        }
        (Type::List(there), Type::List(wanted)) => {
            let path = format!("{path}.element");
            missing(&there.element_field.field_type, &wanted.element_field.field_type, &path, found);
        }
        (Type::Map(there), Type::Map(wanted)) => {
            let path = format!("{path}.value");
            missing(&there.value_field.field_type, &wanted.value_field.field_type, &path, found);
        }
        _ => {}
    }
}

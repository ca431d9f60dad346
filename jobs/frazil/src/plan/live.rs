//! A pipeline against the table that is there: what would change, and what a fold would stop at.

use std::collections::{BTreeMap, BTreeSet};

use iceberg::spec::{NestedField, NestedFieldRef, PrimitiveType, Schema, SortOrder, TableMetadata, Transform, Type};
use iceberg::spec::{NullOrder, PartitionSpec, SortDirection};
use pipeline::Fault;
use pipeline::resolved::{Exists, RECORD_COLUMNS};
use serde::Serialize;
use table::schema::widens;

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
}

/// What came of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub(crate) changes: Vec<Change>,
    pub(crate) faults: Vec<Fault>,
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
    if !metadata.properties().contains_key(fold::MAPPING_VERSION) {
        let message = format!("{} exists and was not made by frazil", resolved.pipeline.table.name);
        comparison.fault("table.name", "plan.foreign_table", message);
        return comparison.compared;
    }
    if resolved.pipeline.table.exists == Exists::MustBeNew && !has_committed && metadata.last_sequence_number() > 0 {
        let message = format!("{} has snapshots already, and must be new", resolved.pipeline.table.name);
        comparison.fault("table.exists", "plan.table_exists", message);
    }
    comparison.columns(bound);
    comparison.layout();
    comparison.properties();
    comparison.compared
}

/// The change that makes a table.
pub(crate) fn creation(resolved: &Resolved) -> Change {
    Change {
        change: Kind::CreateTable,
        name: resolved.pipeline.table.name.to_string(),
        table: None,
        file: None,
        effect: "the first fold makes it".to_owned(),
    }
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

    fn columns(&mut self, bound: Option<&BTreeMap<String, i32>>) {
        let (resolved, live) = (self.resolved, self.metadata.current_schema());
        let record = |name: &str| RECORD_COLUMNS.iter().any(|(record, ..)| *record == name);
        let source = |name: &str| {
            let planned = resolved.columns.columns.iter().find(|column| column.name == name);
            planned.map_or(name.to_owned(), |column| column.source.clone())
        };
        let mut used = BTreeSet::new();
        for wanted in resolved.schema.as_struct().fields() {
            // Before a pipeline's first commit its columns find theirs by name.
            let id = match bound {
                Some(bound) => {
                    let (source, named) = (source(&wanted.name), live.as_struct().field_by_name(&wanted.name));
                    let former = || resolved.former.get(&source)?.iter().find_map(|former| bound.get(former));
                    let unfilled = named.map(|field| field.id).filter(|id| !bound.values().any(|bound| bound == id));
                    bound.get(&source).or_else(former).copied().or(unfilled)
                }
                None => live.as_struct().fields().iter().find(|field| field.name == wanted.name).map(|field| field.id),
            };
            match id.and_then(|id| live.field_by_id(id)) {
                Some(there) => {
                    if !used.insert(there.id) {
                        let message = format!(
                            "`{}` and another field would both fill the table's column `{}`",
                            wanted.name, there.name
                        );
                        self.fault(&format!("table.columns.{}", wanted.name), "plan.column_taken", message);
                    }
                    self.column(there, wanted);
                }
                None if record(&wanted.name) => {
                    let effect = "the table has no such column, and this version adds none: it is left out";
                    self.change(Kind::AddColumn, &wanted.name, None, Some(text(&wanted.field_type)), effect);
                }
                None => self.added(wanted, id.is_some()),
            }
        }
        for there in live.as_struct().fields().iter().filter(|field| !used.contains(&field.id)) {
            let text = Some(text(&there.field_type));
            self.change(
                Kind::LeaveColumnAway,
                &there.name,
                text,
                None,
                "it stays in the table, and is null in rows that come",
            );
            if there.required {
                self.relaxed(there, "the file fills it no more");
            }
        }
    }

    fn added(&mut self, wanted: &NestedField, was_there: bool) {
        let place = format!("table.columns.{}", wanted.name);
        let data_type = text(&wanted.field_type);
        let same = |field: &&NestedFieldRef| field.name.to_lowercase() == wanted.name.to_lowercase();
        let taken = self.metadata.current_schema().as_struct().fields().iter().find(same).map(|field| &field.name);
        let stop = match (was_there, taken) {
            (false, None) => None,
            (true, _) => Some((
                "plan.column_dropped",
                format!(
                    "`{}`: the table has dropped its column: folds would stop; leave the field out with `exclude`",
                    wanted.name
                ),
            )),
            (false, Some(taken)) => Some((
                "plan.column_taken",
                format!(
                    "`{}` ({data_type}): another source fills the table's column `{taken}`: folds would stop; name it otherwise \
                     under [table.columns], or leave the field out with `exclude`",
                    wanted.name
                ),
            )),
        };
        let effect = match stop {
            None => "the first fold that finds it staged adds it",
            Some(_) => "folds stop",
        };
        self.change(Kind::AddColumn, &wanted.name, None, Some(data_type), effect);
        if let Some((code, message)) = stop {
            self.fault(&place, code, message);
        }
    }

    fn column(&mut self, there: &NestedField, wanted: &NestedField) {
        let mut fits = Vec::new();
        fit(&there.field_type, &wanted.field_type, &wanted.name, &mut fits);
        let place = format!("table.columns.{}.type", wanted.name);
        let (table, file) = (text(&there.field_type), text(&wanted.field_type));
        for fit in fits {
            let texts = (Some(table.clone()), Some(file.clone()));
            match fit {
                Fit::Promoted(path) => {
                    self.change(
                        Kind::PromoteColumn,
                        &path,
                        texts.0,
                        texts.1,
                        "the first fold that finds it staged so widens it",
                    );
                }
                Fit::Incompatible(path, live, asked) => {
                    self.change(Kind::ChangeColumn, &path, texts.0, texts.1, "folds stop");
                    let message =
                        format!("`{path}` is {live} in the table and {asked} in the file: neither becomes the other");
                    self.fault(&place, "plan.incompatible_column", message);
                }
                Fit::Added(path) => {
                    self.change(Kind::AddColumn, &path, None, texts.1, "the first fold that finds it staged adds it");
                }
                Fit::Left(path) => {
                    let effect = "it stays in the table, and is null in rows that come";
                    self.change(Kind::LeaveColumnAway, &path, texts.0, None, effect);
                }
            }
        }
        if there.required && !wanted.required {
            self.relaxed(there, "the file takes nulls there");
        }
    }

    /// A column that was required, and may be null by what the file says.
    fn relaxed(&mut self, there: &NestedField, why: &str) {
        let table = Some(format!("{} not null", text(&there.field_type)));
        if self.metadata.current_schema().identifier_field_ids().any(|id| id == there.id) {
            let effect = "the table takes no nulls there: rows with one go to dead letters";
            self.change(Kind::ChangeColumn, &there.name, table, None, effect);
            let message = format!("`{}` is one of the table's identifier fields, never null, and {why}", there.name);
            self.fault("table", "plan.required_column", message);
            return;
        }
        let effect = format!("{why}: the first fold of such rows makes it optional");
        self.change(Kind::ChangeColumn, &there.name, table, Some(text(&there.field_type)), &effect);
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
        let least = self.resolved.pipeline.staging.retention_seconds.saturating_mul(1000).saturating_add(DAY_MS);
        let said = table.get(SNAPSHOT_AGE).map(|text| text.parse::<u64>().unwrap_or(0));
        let age = said.unwrap_or(SNAPSHOT_AGE_DEFAULT_MS);
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

/// How a column's type goes with the table's.
enum Fit {
    /// The table's could be widened to it.
    Promoted(String),
    Incompatible(String, String, String),
    /// A field inside that the table has not.
    Added(String),
    /// A field inside that the file has not.
    Left(String),
}

// Both are schemas, whose depth is bounded where they are read.
fn fit(table: &Type, file: &Type, path: &str, fits: &mut Vec<Fit>) {
    match (table, file) {
        (Type::Struct(there), Type::Struct(wanted)) => {
            for field in wanted.fields() {
                let path = format!("{path}.{}", field.name);
                match there.field_by_name(&field.name) {
                    Some(other) => fit(&other.field_type, &field.field_type, &path, fits),
                    None => fits.push(Fit::Added(path)),
                }
            }
            let missing = there.fields().iter().filter(|field| wanted.field_by_name(&field.name).is_none());
            fits.extend(missing.map(|field| Fit::Left(format!("{path}.{}", field.name))));
        }
        (Type::List(there), Type::List(wanted)) => {
            let path = format!("{path}.element");
            fit(&there.element_field.field_type, &wanted.element_field.field_type, &path, fits);
        }
        (Type::Map(there), Type::Map(wanted)) => {
            fit(&there.key_field.field_type, &wanted.key_field.field_type, &format!("{path}.key"), fits);
            fit(&there.value_field.field_type, &wanted.value_field.field_type, &format!("{path}.value"), fits);
        }
        (Type::Primitive(there), Type::Primitive(wanted)) if there == wanted || widens(wanted, there) => {}
        (Type::Primitive(there), Type::Primitive(wanted)) if widens(there, wanted) => {
            fits.push(Fit::Promoted(path.to_owned()));
        }
        (there, wanted) => fits.push(Fit::Incompatible(path.to_owned(), text(there), text(wanted))),
    }
}

/// A type as pipeline files write it.
pub(super) fn text(data_type: &Type) -> String {
    match data_type {
        Type::Primitive(PrimitiveType::Decimal { precision, scale }) => format!("decimal({precision}, {scale})"),
        Type::Primitive(primitive) => primitive.to_string(),
        Type::Struct(fields) => {
            let fields = fields.fields().iter().map(|field| format!("{}: {}", field.name, text(&field.field_type)));
            format!("struct<{}>", fields.collect::<Vec<_>>().join(", "))
        }
        Type::List(list) => format!("list<{}>", text(&list.element_field.field_type)),
        Type::Map(map) => format!("map<{}, {}>", text(&map.key_field.field_type), text(&map.value_field.field_type)),
    }
}

/// A partition spec as pipeline files write it.
fn spec_text(spec: &PartitionSpec, schema: &Schema) -> String {
    let fields = spec.fields().iter().map(|field| {
        let column = schema.name_by_field_id(field.source_id).unwrap_or("?");
        match field.transform {
            Transform::Identity => column.to_owned(),
            Transform::Bucket(n) => format!("bucket({n}, {column})"),
            Transform::Truncate(n) => format!("truncate({n}, {column})"),
            other => format!("{other}({column})"),
        }
    });
    fields.collect::<Vec<_>>().join(", ")
}

/// A sort order as pipeline files write it.
fn order_text(order: &SortOrder, schema: &Schema) -> String {
    let fields = order.fields.iter().map(|field| {
        let column = schema.name_by_field_id(field.source_id).unwrap_or("?");
        let column = match field.transform {
            Transform::Identity => column.to_owned(),
            other => format!("{other}({column})"),
        };
        let direction = if field.direction == SortDirection::Descending { "desc" } else { "asc" };
        let nulls = if field.null_order == NullOrder::First { "first" } else { "last" };
        format!("{column} {direction} nulls {nulls}")
    });
    fields.collect::<Vec<_>>().join(", ")
}

//! `[table]`: the table that rows go to.

use std::collections::BTreeSet;

use crate::document::Section;
use crate::fault::code;
use crate::name;
use crate::nearest::nearest;
use crate::partition;
use crate::path::{self, Wrong};
use crate::quantity;
use crate::reader::{Reader, Text};
use crate::resolved::{
    ColumnCase, ColumnDeclaration, DedupWithin, Deletes, Exists, Fields, From, Late, MARK_COLUMNS, Mode, NullKeys,
    PartitionField, Pii, SortField, Staging, Table, TableName, Transform, Types, UnknownFields, Upsert, Write,
};
use crate::route::{self, Refused, Route};
use crate::sort;
use crate::types::Type;

use super::{columns, properties};

/// What can't be read is reported, and something harmless stands in its place. `is_registered` is whether the schema is kept in a
/// registry.
pub(super) fn read<'t>(
    reader: &mut Reader<'t>,
    section: Section<'t>,
    is_registered: bool,
    staging: Option<&Staging>,
) -> (Table, Option<Route>) {
    let name = reader.required_text(section, "table", "name").and_then(|text| table_name(reader, &text));
    let (name, route) = name.unzip();
    let exists = choice(
        reader,
        section,
        "exists",
        &[("create", Exists::Create), ("must-be-new", Exists::MustBeNew), ("join", Exists::Join)],
        &[],
    );
    let mode = mode(reader, section);
    let fields = choice(reader, section, "fields", &[("all", Fields::All), ("listed", Fields::Listed)], &[]);
    let unknown_fields = unknown_fields(reader, section, is_registered);
    let column_case = choice(
        reader,
        section,
        "column_case",
        &[("lower", ColumnCase::Lower), ("snake", ColumnCase::Snake), ("as-is", ColumnCase::AsIs)],
        &[],
    );
    let types = choice(reader, section, "types", &[("portable", Types::Portable), ("iceberg", Types::Iceberg)], &[]);
    // Others' tables get columns of ours where the mode can't do without, or somebody asks for them.
    let record_columns = reader.flag(section, "record_columns", exists != Exists::Join || mode == Mode::Upsert);
    let format_version = format_version(reader, section);
    let columns = columns::read(reader, section, column_case, types);
    if let (UnknownFields::Rest, Some(entry)) = (unknown_fields, rest_column(section)) {
        let message = "`unknown_fields = \"rest\"` makes the column `_rest` itself";
        reader.fault(entry, code::RESERVED, message);
    }
    let exclude = exclude(reader, section, &columns);
    if fields == Fields::Listed && columns.is_empty() {
        let at = section.get("fields").map_or(section.at, |entry| entry.value_at());
        reader.fault(at, code::INVALID, "`fields = \"listed\"` needs columns in `[table.columns]`");
    }

    let known = Known { columns: &columns, fields, column_case, record_columns, unknown_fields };
    let block = Block { section, name: "table" };
    let primary_key = primary_key(reader, &block, &known);
    let dedup_within = dedup_within(reader, &block, &known, mode);
    if mode != Mode::Append && section.get("primary_key").is_none_or(|entry| entry.is_empty_array()) {
        no_key(reader, section, mode);
    }
    let upsert = upsert(reader, &block, &known, mode, None);
    let null_keys = null_keys(reader, section, mode);
    let partition_by = partition_by(reader, &block, &known);
    let sort_by = sort_by(reader, &block, &known);
    let properties = properties::read(reader, section, staging);
    let table = Table {
        name: name.unwrap_or_else(|| TableName { namespace: "unnamed".to_owned(), name: "unnamed".to_owned() }),
        exists,
        mode,
        primary_key,
        dedup_within,
        upsert,
        null_keys,
        partition_by,
        sort_by,
        fields,
        exclude,
        unknown_fields,
        column_case,
        types,
        record_columns,
        format_version: format_version.unwrap_or(2),
        columns,
        properties,
    };
    (table, route.flatten())
}

/// A file's schema names all fields there are, so "add" would have nothing to add: without a registry, fields that the schema does
/// not know are skipped.
fn unknown_fields<'t>(reader: &mut Reader<'t>, section: Section<'t>, is_registered: bool) -> UnknownFields {
    const KNOWN: [(&str, UnknownFields); 4] = [
        ("ignore", UnknownFields::Ignore),
        ("add", UnknownFields::Add),
        ("rest", UnknownFields::Rest),
        ("dead-letter", UnknownFields::DeadLetter),
    ];
    let default = if is_registered { UnknownFields::Add } else { UnknownFields::Ignore };
    let chosen = reader.choice(section, "unknown_fields", &KNOWN, &[]).unwrap_or(default);
    if let (UnknownFields::Add, false, Some(entry)) = (chosen, is_registered, section.get("unknown_fields")) {
        let message =
            "`unknown_fields = \"add\"` takes a schema in a registry, which knows the versions that have new fields";
        reader.fault(entry.value_at(), code::INVALID, message);
        return default;
    }
    chosen
}

/// One of many tables, where it differs from the others.
pub(super) fn differing<'t>(
    reader: &mut Reader<'t>,
    section: Section<'t>,
    name: &str,
    others: &Table,
    staging: Option<&Staging>,
) -> Table {
    let mut table = others.clone();
    let name = format!("tables.{name}");
    let block = Block { section, name: &name };
    let says = |key| section.get(key).is_some();
    if says("mode") {
        table.mode = mode(reader, section);
    }
    let Table { columns, fields, column_case, record_columns, unknown_fields, .. } = others;
    let known = Known {
        columns,
        fields: *fields,
        column_case: *column_case,
        record_columns: *record_columns,
        unknown_fields: *unknown_fields,
    };
    if says("primary_key") {
        table.primary_key = primary_key(reader, &block, &known);
    }
    match table.mode {
        Mode::Append | Mode::Upsert if !says("dedup_within") => table.dedup_within = None,
        mode if says("dedup_within") => table.dedup_within = dedup_within(reader, &block, &known, mode),
        _ => {}
    }
    let has_no_key = section.get("primary_key").map_or(others.primary_key.is_empty(), |entry| entry.is_empty_array());
    if table.mode != Mode::Append && has_no_key {
        no_key(reader, section, table.mode);
    }
    table.upsert = upsert(reader, &block, &known, table.mode, others.upsert.as_ref());
    if says("null_keys") {
        table.null_keys = null_keys(reader, section, table.mode);
    }
    if says("partition_by") {
        table.partition_by = partition_by(reader, &block, &known);
    }
    if says("sort_by") {
        table.sort_by = sort_by(reader, &block, &known);
    }
    // Each property by itself: what is not named is as elsewhere.
    table.properties.extend(properties::read(reader, section, staging));
    table
}

/// A block that describes a table, and how it is called: `table`, `tables.orders`.
struct Block<'t, 'n> {
    section: Section<'t>,
    name: &'n str,
}

fn mode<'t>(reader: &mut Reader<'t>, section: Section<'t>) -> Mode {
    let here = [("append", Mode::Append), ("dedup", Mode::Dedup), ("upsert", Mode::Upsert)];
    choice(reader, section, "mode", &here, &["changelog", "mirror"])
}

fn no_key<'t>(reader: &mut Reader<'t>, section: Section<'t>, mode: Mode) {
    let at = section.get("mode").map_or(section.at, |entry| entry.value_at());
    let mode = if mode == Mode::Upsert { "upsert" } else { "dedup" };
    reader.fault(at, code::MISSING, format!("`mode = \"{mode}\"` needs a `primary_key`"));
}

fn null_keys<'t>(reader: &mut Reader<'t>, section: Section<'t>, mode: Mode) -> NullKeys {
    if let (Mode::Append, Some(entry)) = (mode, section.get("null_keys")) {
        reader.fault(
            entry.key_at,
            code::INVALID,
            "`null_keys` belongs to modes that compare keys, which `append` does not",
        );
    }
    choice(reader, section, "null_keys", &[("match", NullKeys::Match), ("reject", NullKeys::Reject)], &[])
}

/// What is said of versions; of one of many tables what is not said is as it is for the `others`.
fn upsert<'t>(
    reader: &mut Reader<'t>,
    block: &Block<'t, '_>,
    known: &Known<'_>,
    mode: Mode,
    others: Option<&Upsert>,
) -> Option<Upsert> {
    let said = ["order_by", "write", "deletes"].into_iter().filter_map(|key| Some((key, block.section.get(key)?)));
    if mode != Mode::Upsert {
        for (key, entry) in said {
            let message = format!("`{key}` belongs to `mode = \"upsert\"`");
            reader.fault(entry.key_at, code::INVALID, message);
        }
        return None;
    }
    if !known.record_columns {
        let at = block.section.get("record_columns").or_else(|| block.section.get("mode"));
        let message = "`mode = \"upsert\"` needs `record_columns`: they say which of two versions came later";
        reader.fault(at.map_or(block.section.at, |entry| entry.value_at()), code::INVALID, message);
    }
    let mut upsert = others.cloned().unwrap_or_default();
    if block.section.get("order_by").is_some() {
        upsert.order_by = order_by(reader, block, known);
    }
    if block.section.get("write").is_some() {
        let here =
            [("auto", Write::Auto), ("merge-on-read", Write::MergeOnRead), ("copy-on-write", Write::CopyOnWrite)];
        upsert.write = choice(reader, block.section, "write", &here, &[]);
    }
    if block.section.get("deletes").is_some() {
        let here = [("hard", Deletes::Hard), ("soft", Deletes::Soft), ("ignore", Deletes::Ignore)];
        upsert.deletes = choice(reader, block.section, "deletes", &here, &[]);
    }
    if upsert.deletes == Deletes::Soft {
        let is_mark = |name: &str| MARK_COLUMNS.iter().any(|(mark, _)| name.to_lowercase() == *mark);
        if let Some(column) = known.columns.iter().find(|c| is_mark(&c.name) && c.pii != Some(Pii::Drop)) {
            let at = block.section.get("deletes").or_else(|| block.section.get("mode"));
            let message = format!(
                "`deletes = \"soft\"` makes the column `{}` itself: call the declared one otherwise",
                column.name
            );
            reader.fault(at.map_or(block.section.at, |entry| entry.value_at()), code::RESERVED, message);
        }
    }
    Some(upsert)
}

fn order_by<'t>(reader: &mut Reader<'t>, block: &Block<'t, '_>, known: &Known<'_>) -> Vec<String> {
    columns_of(reader, block, known, "order_by", |column| match (&column.data_type, column.pii) {
        (Some(nested @ (Type::Struct(_) | Type::List { .. } | Type::Map { .. })), _) => {
            Some(format!("`{}` has the type `{nested}`, which has no order", column.name))
        }
        (_, Some(Pii::Hash | Pii::Last4)) => {
            Some(format!("what is left of `{}` has not the order of its values", column.name))
        }
        _ => None,
    })
}

/// The columns that a setting lists, each once. `why_not` says of a declared one why it can't be among them.
fn columns_of<'t>(
    reader: &mut Reader<'t>,
    block: &Block<'t, '_>,
    known: &Known<'_>,
    setting: &str,
    why_not: impl Fn(&ColumnDeclaration) -> Option<String>,
) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    for text in reader.texts(block.section, setting) {
        let column = match path::parse(&text.value) {
            Ok(path) => path.join("."),
            Err(wrong) => {
                reader.wrong(&text, &wrong);
                continue;
            }
        };
        known.check(reader, &text, &column);
        if let Some(message) = known.declared(&column).and_then(&why_not) {
            reader.fault(text.at, code::INVALID, message);
        }
        if columns.contains(&column) {
            reader.fault(text.at, code::DUPLICATE, format!("the column `{column}` is there twice"));
        } else {
            reader.items.push((format!("{}.{setting}[{}]", block.name, columns.len()), text.at));
            columns.push(column);
        }
    }
    columns
}

/// Where a column is declared that has the name of the one for unknown fields, whatever its case.
fn rest_column(section: Section<'_>) -> Option<usize> {
    let columns = section.get("columns").and_then(|entry| entry.section())?;
    columns.entries().into_iter().find(|entry| entry.key.eq_ignore_ascii_case(name::REST)).map(|entry| entry.key_at)
}

/// One of the words, the first of them where there is none or another (which is then reported).
fn choice<'t, T: Copy, const N: usize>(
    reader: &mut Reader<'t>,
    section: Section<'t>,
    name: &str,
    here: &[(&str, T); N],
    later: &[&str],
) -> T {
    const { assert!(N > 0, "there is always a default") };
    reader.choice(section, name, here, later).unwrap_or(here[0].1)
}

/// A table's name, and the route where there are many. The variables are applied: what is left in braces is a placeholder.
fn table_name(reader: &mut Reader<'_>, text: &Text) -> Option<(TableName, Option<Route>)> {
    if route::is_route(&text.value) {
        return match route::parse(&text.value) {
            Ok(route) => Some((route.written(), Some(route))),
            Err(Refused::Later(placeholder, at)) => {
                reader.not_yet(text.position(at), &placeholder);
                None
            }
            Err(Refused::Wrong(wrong)) => {
                reader.near(text.position(wrong.at), code::INVALID, wrong.message, wrong.nearest.as_deref());
                None
            }
        };
    }
    let parts: Vec<&str> = text.value.split('.').collect();
    let &[namespace, table] = parts.as_slice() else {
        let message = format!("`{}` is not a table's name: exactly `namespace.table`", text.value);
        reader.fault(text.at, code::INVALID, message);
        return None;
    };
    let mut whole = true;
    for (part, offset) in [(namespace, 0), (table, namespace.len() + 1)] {
        if let Err(message) = name::table_part(part) {
            let lower = part.to_lowercase();
            let nearest = (name::table_part(&lower).is_ok()).then_some(lower);
            reader.near(text.position(offset), code::INVALID, message, nearest.as_deref());
            whole = false;
        }
    }
    whole.then(|| (TableName { namespace: namespace.to_owned(), name: table.to_owned() }, None))
}

fn format_version<'t>(reader: &mut Reader<'t>, section: Section<'t>) -> Option<u8> {
    if section.get("format_version").is_none() {
        return Some(2);
    }
    let (version, at) = reader.number(section, "format_version")?;
    match version {
        2 => return Some(2),
        3 => reader.not_yet(at, "format_version = 3"),
        1 => reader.fault(at, code::INVALID, "`format_version` cannot be 1: it has no row-level deletes; it takes 2"),
        _ => reader.fault(at, code::INVALID, format!("`format_version` cannot be {version}; it takes 2")),
    }
    None
}

fn exclude<'t>(reader: &mut Reader<'t>, section: Section<'t>, columns: &[ColumnDeclaration]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut exclude = Vec::new();
    for text in reader.texts(section, "exclude") {
        // Of columns that were made of keys and headers what is staged can be left out.
        let part = ["@key.", "@header."].into_iter().find(|part| text.value.starts_with(part)).unwrap_or_default();
        let path = match path::parse(text.value.strip_prefix(part).unwrap_or_default()) {
            Ok(path) => path,
            Err(wrong) => {
                reader.wrong(&text, &Wrong { at: wrong.at + part.len(), ..wrong });
                continue;
            }
        };
        let written = format!("{part}{}", path::text(&path));
        let is_made_of_it = |column: &&ColumnDeclaration| match &column.from {
            From::Path(from) => part.is_empty() && *from == path,
            // Only what is staged is left out, and a column that holds it, or lies in it, would go on.
            From::KeyField(from) => part == "@key." && (from.starts_with(&path) || path.starts_with(from)),
            From::Key => part == "@key.",
            From::Header(name) => part == "@header." && path == [name.as_str()],
            From::Record(_) => false,
        };
        if let Some(column) = columns.iter().find(is_made_of_it) {
            let message = format!("`{written}` is left out here, and the column `{}` is made from it", column.name);
            reader.fault(text.at, code::INVALID, message);
        } else if !seen.insert(written.clone()) {
            reader.fault(text.at, code::DUPLICATE, format!("`{written}` is there twice"));
        } else {
            reader.items.push((format!("table.exclude[{}]", exclude.len()), text.at));
            exclude.push(written);
        }
    }
    exclude
}

/// What can be said of columns without the schema.
struct Known<'a> {
    columns: &'a [ColumnDeclaration],
    fields: Fields,
    column_case: ColumnCase,
    record_columns: bool,
    unknown_fields: UnknownFields,
}

impl Known<'_> {
    fn declared(&self, column: &str) -> Option<&ColumnDeclaration> {
        self.columns.iter().find(|c| c.name == column)
    }

    /// Reports a column that cannot be there, whatever the schema says.
    fn check(&self, reader: &mut Reader<'_>, text: &Text, column: &str) {
        let dropped = |c: &&ColumnDeclaration| c.pii == Some(Pii::Drop);
        if self.declared(column).filter(dropped).is_some() {
            let message = format!("`{column}` is no column of the table: it is dropped as personal data");
            reader.fault(text.at, code::UNKNOWN_COLUMN, message);
            return;
        }
        let names = || self.columns.iter().filter(|c| !dropped(c)).map(|c| c.name.as_str());
        let within = |name: &str| column == name || column.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        if names().any(within) || self.record_columns && name::RECORD_COLUMNS.contains(&column) {
            return;
        }
        if name::RECORD_COLUMNS.contains(&column) {
            let message = format!("`{column}` is no column of the table: `record_columns` is false");
            reader.fault(text.at, code::UNKNOWN_COLUMN, message);
            return;
        }
        if let Some(renamed) = self.columns.iter().find(|c| matches!(&c.from, From::Path(p) if p.join(".") == column)) {
            let message =
                format!("`{column}` is the source's name; in the table that column is called `{}`", renamed.name);
            reader.near(text.at, code::UNKNOWN_COLUMN, message, Some(&renamed.name));
            return;
        }
        if column == name::REST && self.unknown_fields == UnknownFields::Rest {
            return;
        }
        let offered = if self.record_columns { &name::RECORD_COLUMNS[..] } else { &[] };
        let nearest = nearest(column, names().chain(offered.iter().copied()));
        let meant = nearest.map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
        if self.fields == Fields::Listed {
            let message = format!("`{column}` is not one of the listed columns{meant}");
            reader.near(text.at, code::UNKNOWN_COLUMN, message, nearest);
        } else if self.column_case != ColumnCase::AsIs && column.chars().any(char::is_uppercase) {
            let message = format!("no column is called `{column}`: `column_case` makes names lower case{meant}");
            reader.near(text.at, code::UNKNOWN_COLUMN, message, nearest);
        }
    }
}

fn primary_key<'t>(reader: &mut Reader<'t>, block: &Block<'t, '_>, known: &Known<'_>) -> Vec<String> {
    let Some(entry) = block.section.get("primary_key") else { return Vec::new() };
    if columns::is_record_key(&entry) {
        reader.not_yet(entry.value_at(), "primary_key = \"record-key\"");
        return Vec::new();
    }
    columns_of(reader, block, known, "primary_key", |column| {
        let cannot = |data_type: &Type, why: &str| {
            format!("`{}` has the type `{data_type}` and cannot be part of a key: {why}", column.name)
        };
        match (&column.data_type, column.pii) {
            (Some(float @ (Type::Float | Type::Double)), _) => {
                Some(cannot(float, "floating-point values are not compared for equality"))
            }
            (Some(nested @ (Type::Struct(_) | Type::List { .. } | Type::Map { .. })), _) => {
                Some(cannot(nested, "nested values are not compared"))
            }
            (_, Some(Pii::Last4)) => {
                Some(format!("`{}` keeps four characters of its values, and rows of many would be one", column.name))
            }
            _ => None,
        }
    })
}

fn dedup_within<'t>(
    reader: &mut Reader<'t>,
    block: &Block<'t, '_>,
    known: &Known<'_>,
    mode: Mode,
) -> Option<DedupWithin> {
    let entry = block.section.get("dedup_within")?;
    let within = reader.section(block.section, "dedup_within")?;
    if mode != Mode::Dedup {
        reader.fault(entry.key_at, code::INVALID, "`dedup_within` belongs to `mode = \"dedup\"`");
        return None;
    }
    let name = format!("{}.dedup_within", block.name);
    let text = reader.required_text(within, &name, "column");
    let lookback = reader.required_text(within, &name, "lookback");
    let late = choice(
        reader,
        within,
        "late",
        &[("keep", Late::Keep), ("drop", Late::Drop), ("dead-letter", Late::DeadLetter)],
        &[],
    );
    let lookback_seconds = lookback.and_then(|text| {
        let read = quantity::duration_seconds(&text.value);
        read.map_err(|message| reader.fault(text.at, code::INVALID, format!("`lookback`: {message}"))).ok()
    });
    let text = text?;
    let column = match path::parse(&text.value) {
        Ok(path) => path.join("."),
        Err(wrong) => {
            reader.wrong(&text, &wrong);
            return None;
        }
    };
    known.check(reader, &text, &column);
    if let Some(data_type) = known.declared(&column).and_then(|c| c.data_type.as_ref())
        && !matches!(data_type, Type::Timestamptz | Type::Timestamp)
    {
        let message = format!("`{column}` has the type `{data_type}`; an event time is a timestamptz or a timestamp");
        reader.fault(text.at, code::INVALID, message);
    }
    Some(DedupWithin { column, lookback_seconds: lookback_seconds?, late })
}

fn partition_by<'t>(reader: &mut Reader<'t>, block: &Block<'t, '_>, known: &Known<'_>) -> Vec<PartitionField> {
    let mut fields: Vec<PartitionField> = Vec::new();
    for text in reader.texts(block.section, "partition_by") {
        let field = match partition::parse(&text.value) {
            Ok(field) => field,
            Err(wrong) => {
                reader.wrong(&text, &wrong);
                continue;
            }
        };
        known.check(reader, &text, &field.column);
        let name = partition::name(&field);
        if fields.contains(&field) {
            reader.fault(text.at, code::DUPLICATE, format!("`{}` is there twice", text.value));
        } else if fields.iter().any(|f| partition::name(f) == name) {
            reader.fault(text.at, code::DUPLICATE, format!("two partition fields would be called `{name}`"));
        } else if time(field.transform) && fields.iter().any(|f| f.column == field.column && time(f.transform)) {
            // Iceberg's builders refuse it: the finer one implies the coarser.
            let message = format!("`{}` is already partitioned by time; keep the finer transform only", field.column);
            reader.fault(text.at, code::INVALID, message);
        } else if field.transform != Transform::Identity && known.declared(&name).is_some() {
            let message = format!("the partition field would be called `{name}`, as a column is");
            reader.fault(text.at, code::INVALID, message);
        } else {
            reader.items.push((format!("{}.partition_by[{}]", block.name, fields.len()), text.at));
            fields.push(field);
        }
    }
    fields
}

const fn time(transform: Transform) -> bool {
    matches!(transform, Transform::Year | Transform::Month | Transform::Day | Transform::Hour)
}

fn sort_by<'t>(reader: &mut Reader<'t>, block: &Block<'t, '_>, known: &Known<'_>) -> Vec<SortField> {
    let mut fields: Vec<SortField> = Vec::new();
    for text in reader.texts(block.section, "sort_by") {
        match sort::parse(&text.value) {
            Err(wrong) => reader.wrong(&text, &wrong),
            Ok(field) => {
                known.check(reader, &text, &field.column);
                if fields.iter().any(|f| f.column == field.column) {
                    reader.fault(text.at, code::DUPLICATE, format!("the column `{}` is there twice", field.column));
                } else {
                    reader.items.push((format!("{}.sort_by[{}]", block.name, fields.len()), text.at));
                    fields.push(field);
                }
            }
        }
    }
    fields
}

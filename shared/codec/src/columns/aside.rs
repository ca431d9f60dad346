//! Fields that a declared column leaves without one.

use std::collections::BTreeSet;

use pipeline::path;
use pipeline::resolved::{Fields, From, Pii, Table};

use super::{Columns, split};
use crate::source::{Described, ROOT, Schema};

/// The fields, by their paths, that are in no column because one is made of another field of the same record: `fields = "all"` leaves the
/// rest of such a record out. None is named that the file excludes, or drops.
#[must_use]
pub fn left_aside<S: Described + ?Sized>(source: &S, table: &Table, columns: &Columns) -> Vec<String> {
    if table.fields != Fields::All {
        return Vec::new();
    }
    let schema = source.describe();
    let ids = |source: &str| split(source).and_then(|(path, _)| path::parse(path).ok());
    let made_of = columns.columns.iter().filter_map(|column| ids(&column.source));
    let excluded = table.exclude.iter().filter_map(|text| path::parse(text).ok());
    let dropped = table.columns.iter().filter_map(|column| match &column.from {
        From::Path(path) => Some(path.clone()),
        _ => None,
    });
    let known: BTreeSet<Vec<String>> = excluded.chain(dropped).collect();
    let made_of: Vec<Vec<String>> = made_of.chain(elsewhere(&schema, table)).collect();
    let mut left = BTreeSet::new();
    for path in &made_of {
        let (mut record, mut names, mut around) = (ROOT, Vec::new(), Vec::new());
        for id in path {
            let fields = &schema.record(record).fields;
            if !names.is_empty() {
                for field in fields {
                    let own: Vec<String> = around.iter().chain([&field.id]).cloned().collect();
                    let called: Vec<String> = names.iter().chain([&field.name]).cloned().collect();
                    let is_made = made_of.iter().any(|other| other.starts_with(&own) || own.starts_with(other));
                    if !is_made && !known.iter().any(|path| called.starts_with(path)) {
                        left.insert(path::text(&called));
                    }
                }
            }
            let Some(field) = fields.iter().find(|field| field.id == *id) else { break };
            names.push(field.name.clone());
            around.push(id.clone());
            record = field.value.inside().unwrap_or(usize::MAX);
        }
    }
    left.into_iter().collect()
}

/// The beginnings, by what fields are found by, of declared paths that go on in other versions of the schema only; behind them stands what
/// finds nothing.
fn elsewhere(schema: &Schema, table: &Table) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for declaration in table.columns.iter().filter(|declaration| declaration.pii != Some(Pii::Drop)) {
        let From::Path(path) = &declaration.from else { continue };
        let (mut record, mut ids) = (ROOT, Vec::new());
        for name in path {
            let Some(field) = schema.record(record).fields.iter().find(|field| field.name == *name) else {
                ids.push(String::new());
                found.push(std::mem::take(&mut ids));
                break;
            };
            ids.push(field.id.clone());
            record = field.value.inside().unwrap_or(usize::MAX);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::plan;
    use super::super::tests::{declare, path, table};
    use super::*;
    use crate::protobuf::schema;

    #[test]
    fn what_is_beside_a_column_within_a_record_is_told() {
        let text =
            "syntax = \"proto3\"; message M { int64 id = 1; P p = 2; message P { string a = 1; string b = 2; Q q = 3; }
            message Q { string c = 1; string d = 2; } }";
        let message = schema::from_text(&[("m.proto", text)], "M").unwrap();
        let check = |froms: &[&str], exclude: &[&str], expected: &[&str]| {
            let mut table = table();
            for (n, from) in froms.iter().enumerate() {
                declare(&mut table, &format!("c{n}"), path(from), None);
            }
            table.exclude = exclude.iter().map(|path| (*path).to_owned()).collect();
            let columns = plan(&message, &table).unwrap();
            assert_eq!(left_aside(&message, &table, &columns), expected, "{froms:?}");
        };
        check(&[], &[], &[]);
        check(&["p"], &[], &[]);
        check(&["p.a"], &[], &["p.b", "p.q"]);
        check(&["p.a", "p.q"], &[], &["p.b"]);
        check(&["p.q.c"], &[], &["p.a", "p.b", "p.q.d"]);
        check(&["p.a", "p.b", "p.q.c"], &["p.q.d"], &[]);
        // What only another version has makes columns there, and leaves as much out here.
        let older =
            schema::from_text(&[("m.proto", &text.replace("string c = 1;", "string c = 1; string e = 3;"))], "M");
        let own = crate::columns::Own::new(message.clone().into(), vec![(1, older.unwrap().into())]);
        let mut table = table();
        declare(&mut table, "e", path("p.q.e"), None);
        let columns = plan(&own, &table).unwrap();
        assert_eq!(columns.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(), ["id"]);
        assert_eq!(left_aside(&own, &table, &columns), ["p.a", "p.b", "p.q.c", "p.q.d"]);
    }
}

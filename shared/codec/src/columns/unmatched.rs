//! Exclusions of what no version of the schema has.

use pipeline::path;
use pipeline::resolved::{Table, UnknownFields};

use super::defaults::segments;
use super::plan::{ever_called, spelled};
use crate::naming;
use crate::source::{Described, ROOT, Schema};

/// A path under `exclude` that leads to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmatched {
    /// The setting: `table.exclude[0]`.
    pub place: String,
    /// The path as it is written there.
    pub path: String,
    /// The path that was probably meant.
    pub nearest: Option<String>,
}

/// The paths under `exclude` to fields that neither the schema nor a known version of it has. A version to come may have them, so that
/// they are no fault where its fields would be in the table; one that is misspelled leaves nothing out, and publishes what it was to.
/// Where fields that the schema does not know are in no column, such a path is a fault of the file.
#[must_use]
pub fn unmatched<S: Described + ?Sized>(source: &S, table: &Table) -> Vec<Unmatched> {
    if !matches!(table.unknown_fields, UnknownFields::Add | UnknownFields::Rest) {
        return Vec::new();
    }
    let (source, case) = (spelled(source.describe(), table.column_case), table.column_case);
    let versions: Vec<&Schema> = std::iter::once(&source).chain(&source.versions).collect();
    let of = |(n, written): (usize, &String)| {
        let path = segments(written);
        let is_known = versions.iter().any(|version| !ever_called(version, case, &path).is_empty());
        (!is_known).then(|| Unmatched {
            place: format!("table.exclude[{n}]"),
            path: written.clone(),
            nearest: versions.iter().find_map(|version| nearest(version, &path)),
        })
    };
    table.excluded_fields().filter_map(of).collect()
}

/// The path that a version has and that is nearest to one which it has not.
fn nearest(version: &Schema, wanted: &[String]) -> Option<String> {
    let (mut record, mut found) = (ROOT, Vec::new());
    for segment in wanted {
        let fields = &version.record(record).fields;
        let exact = fields.iter().find(|field| field.name == *segment);
        let named = || {
            let name = naming::nearest(segment, fields.iter().map(|field| field.name.as_str()))?;
            fields.iter().find(|field| field.name == name)
        };
        let field = exact.or_else(named)?;
        found.push(field.name.clone());
        record = field.value.inside().unwrap_or(usize::MAX);
    }
    Some(path::text(&found))
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;
    use crate::columns::Own;
    use crate::protobuf::schema;

    #[test]
    fn what_no_version_has_is_told_with_what_was_probably_meant() {
        let version = |fields: &str| {
            let text = format!("syntax = \"proto3\"; message M {{ {fields} }}");
            schema::from_text(&[("m.proto", &text)], "M").unwrap().into()
        };
        let own = version("int64 id = 1; string phone = 2; P p = 4; message P { string mail = 1; }");
        let older = version("int64 id = 1; string phone2 = 3; string social = 5;");
        let own = Own::new(own, vec![(1, older)]);
        let mut table = table();
        let exclude = ["phone", "phone2", "Social", "phon3", "p.mails", "passport", "p.mail"];
        table.exclude = exclude.map(str::to_owned).to_vec();
        let found = |table: &Table| unmatched(&own, table);
        assert_eq!(found(&table), [], "they are faults");
        for unknown_fields in [UnknownFields::Add, UnknownFields::Rest] {
            table.unknown_fields = unknown_fields;
            let told = |n: usize, nearest: Option<&str>| Unmatched {
                place: format!("table.exclude[{n}]"),
                path: exclude[n].to_owned(),
                nearest: nearest.map(str::to_owned),
            };
            assert_eq!(found(&table), [told(3, Some("phone")), told(4, Some("p.mail")), told(5, None)]);
        }
    }
}

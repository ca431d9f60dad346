//! What the file leaves out, or says is personal: the column of unknown fields has none of it either.
//!
//! A field that the pipeline's own schema does not know may be what the file speaks of all the same: another version of the schema calls
//! it so, or has it under the number, or with the alias. Whatever any known version says counts, and so does another spelling: better
//! one field too few in the column than one too many.

use std::collections::BTreeSet;

use pipeline::resolved::ColumnCase;
use serde::{Deserialize, Serialize};

use crate::naming;
use crate::source::{ROOT, Schema};

/// The paths to what is withheld.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Withheld {
    case: ColumnCase,
    paths: Vec<Vec<Called>>,
}

/// What a field of a path is called by the versions that know it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Called {
    /// In small letters, as the pipeline's columns are spelled.
    names: BTreeSet<String>,
    /// What finds it where a name does not: protobuf's numbers.
    ids: BTreeSet<String>,
}

/// How far names have led into the paths: for each that leads on its place, and the next of its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Within(Vec<(usize, usize)>);

/// Paths that lead to one another are known after as many looks as there are versions; this is for those that never end.
const LOOKS_MAX: usize = 200;

impl Default for Withheld {
    fn default() -> Self {
        Self { case: ColumnCase::AsIs, paths: Vec::new() }
    }
}

impl Withheld {
    /// Of paths as the file writes them.
    pub(super) fn new<'p>(case: ColumnCase, paths: impl IntoIterator<Item = &'p [String]>) -> Self {
        let called = |name: &String| Called { names: [spelled(case, name)].into(), ids: BTreeSet::new() };
        let paths = paths.into_iter().filter(|path| !path.is_empty());
        let paths: Vec<_> = paths.map(|path| path.iter().map(called).collect()).collect();
        if paths.is_empty() { Self::default() } else { Self { case, paths } }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The same with what versions of the schema call the fields, until none has anything to add.
    pub(crate) fn learned(mut self, versions: &[&Schema]) -> Self {
        for _ in 0..LOOKS_MAX {
            let mut is_new = false;
            for version in versions {
                is_new |= self.learn(version);
            }
            if !is_new {
                break;
            }
        }
        self
    }

    fn learn(&mut self, version: &Schema) -> bool {
        let (case, mut is_new) = (self.case, false);
        for path in &mut self.paths {
            let mut records = BTreeSet::from([ROOT]);
            for called in path {
                let mut inside = BTreeSet::new();
                for field in records.iter().flat_map(|record| &version.record(*record).fields) {
                    let names = || std::iter::once(&field.name).chain(&field.former).chain(&field.names);
                    let is_it = called.ids.contains(&field.id)
                        || names().any(|name| called.names.contains(&spelled(case, name)));
                    if is_it {
                        for name in names() {
                            is_new |= called.names.insert(spelled(case, name));
                        }
                        is_new |= called.ids.insert(field.id.clone());
                        inside.extend(field.value.inside());
                    }
                }
                records = inside;
            }
        }
        is_new
    }

    /// At the payload's own record.
    pub(crate) fn start(&self) -> Within {
        Within((0..self.paths.len()).map(|path| (path, 0)).collect())
    }

    /// In a field, whose name or number is this. Lists are no step of a path.
    pub(crate) fn enter(&self, within: &Within, name: &str) -> Within {
        let spelled = spelled(self.case, name);
        let next = within.0.iter().filter(|at| self.is_called(**at, &spelled));
        Within(next.map(|(path, at)| (*path, at + 1)).collect())
    }

    /// Whether a field is withheld, is in something that is, or has something in it that may be: who does not know it can't part the
    /// one from the other.
    pub(crate) fn holds(&self, within: &Within, name: &str) -> bool {
        let spelled = spelled(self.case, name);
        within.0.iter().any(|at| self.is_called(*at, &spelled))
    }

    /// The same for the fields along a way from the payload, by their numbers, the innermost first.
    pub(crate) fn holds_number(&self, way: &[u32]) -> bool {
        let is_it = |(called, number): (&Called, &u32)| called.ids.contains(number.to_string().as_str());
        self.paths.iter().any(|path| path.iter().zip(way.iter().rev()).all(is_it))
    }

    fn is_called(&self, (path, at): (usize, usize), spelled: &str) -> bool {
        let called = self.paths.get(path).and_then(|path| path.get(at));
        called.is_some_and(|called| called.names.contains(spelled))
    }
}

impl Within {
    pub(crate) const NOWHERE: Self = Self(Vec::new());

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A name as it is compared: as columns are spelled, and without regard to case where they keep theirs, too.
fn spelled(case: ColumnCase, name: &str) -> String {
    naming::fold(case, name).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::schema;
    use crate::source::Described;

    fn version(text: &str) -> Schema {
        schema::from_text(&[("m.proto", &format!("syntax = \"proto3\"; {text}"))], "M").unwrap().describe()
    }

    fn withheld(case: ColumnCase, paths: &[&[&str]]) -> Withheld {
        let paths: Vec<Vec<String>> =
            paths.iter().map(|path| path.iter().map(|&name| name.to_owned()).collect()).collect();
        Withheld::new(case, paths.iter().map(Vec::as_slice))
    }

    #[test]
    fn what_any_version_calls_so_is_withheld() {
        let one = version("message M { string ssn = 1; P p = 2; message P { string mail = 1; string o = 2; } }");
        let other = version("message M { string tax = 1; P q = 2; message P { string contact = 1; } }");
        let third = version("message M { string tax = 7; }");
        let all = withheld(ColumnCase::Lower, &[&["ssn"], &["p", "mail"]]).learned(&[&third, &other, &one]);
        let check = |way: &[u32], expected: bool| {
            let inwards: Vec<u32> = way.iter().rev().copied().collect();
            assert_eq!(all.holds_number(&inwards), expected, "{way:?}");
        };
        check(&[1], true);
        check(&[7], true);
        check(&[2], true);
        check(&[2, 1], true);
        check(&[2, 1, 5], true);
        check(&[2, 2], false);
        check(&[3], false);
        let start = all.start();
        for (name, expected) in [("ssn", true), ("TAX", true), ("q", true), ("o", false), ("mail", false)] {
            assert_eq!(all.holds(&start, name), expected, "{name}");
        }
        let within = all.enter(&start, "Q");
        assert!(all.holds(&within, "contact") && all.holds(&within, "mail") && !all.holds(&within, "ssn"));
        assert!(all.enter(&start, "o").is_empty());
    }

    #[test]
    fn spelling_is_no_difference() {
        let snake = withheld(ColumnCase::Snake, &[&["home_mail"]]);
        assert!(snake.holds(&snake.start(), "homeMail") && !snake.holds(&snake.start(), "homemail"));
        let as_is = withheld(ColumnCase::AsIs, &[&["homeMail"]]);
        assert!(as_is.holds(&as_is.start(), "HOMEMAIL"));
        let nothing = withheld(ColumnCase::AsIs, &[]);
        assert!(nothing.is_empty() && !nothing.holds_number(&[1]));
    }
}

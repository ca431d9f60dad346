//! How column names are spelled, which are taken, and which was probably meant.

use std::collections::HashMap;

use pipeline::resolved::ColumnCase;

/// A source name as a column name.
pub(crate) fn fold(case: ColumnCase, name: &str) -> String {
    case.spell(name)
}

/// Names by how columns are spelled that are made of them. Nothing is where columns are as their sources are: then each name is its own.
pub(crate) struct Spelled {
    case: ColumnCase,
    /// None where several names are spelled alike.
    places: HashMap<String, Option<usize>>,
    /// Whether all are written as columns are.
    is_plain: bool,
}

impl Spelled {
    pub(crate) fn of<'n>(case: ColumnCase, names: impl IntoIterator<Item = &'n str>) -> Self {
        let (mut places, mut is_plain) = (HashMap::new(), true);
        if case != ColumnCase::AsIs {
            for (place, name) in names.into_iter().enumerate() {
                let spelled = fold(case, name);
                is_plain &= spelled == name;
                places.entry(spelled).and_modify(|known| *known = None).or_insert(Some(place));
            }
        }
        Self { case, places, is_plain }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(crate) const fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// A name as a column's is spelled.
    pub(crate) fn fold(&self, name: &str) -> String {
        fold(self.case, name)
    }

    /// The place of the only name that is spelled as this one.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        if self.places.is_empty() { None } else { self.places.get(&fold(self.case, name)).copied().flatten() }
    }
}

/// Why a top-level column may not have this name, if so. Compared without case, as Glue and Athena compare.
pub(crate) fn reserved(name: &str) -> Option<&'static str> {
    let lower = name.to_lowercase();
    match lower.as_str() {
        "_file" | "_pos" | "_deleted" | "_spec_id" | "_partition" | "_row_id" | "_last_updated_sequence_number" => {
            Some("Iceberg reserves it")
        }
        "_ingested_at" | "_ordinal" | "_op" | "_table" | "_key" | "_value" => Some("frazil reserves it"),
        _ if lower.starts_with("_change_") => Some("Iceberg reserves names that begin with `_change_`"),
        _ if lower.starts_with("_kafka_") => Some("frazil reserves names that begin with `_kafka_`"),
        _ => None,
    }
}

/// The known name that `wanted` most likely stands for: at most a third of it may differ.
pub(crate) fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (wanted.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (distance(&wanted.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| name)
}

/// Names longer than this are not compared: the cost is the product of the lengths.
const COMPARED_MAX: usize = 200;

/// Edits (insert, delete, replace) between two texts.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len() > COMPARED_MAX || b.len() > COMPARED_MAX {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, cb) in row.iter_mut().skip(1).zip(&b) {
            let replaced = diagonal + usize::from(ca != cb);
            diagonal = *cell;
            left = replaced.min(*cell + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_by_its_spelling_where_no_other_is_spelled_so() {
        let names = ["userId", "mail", "MAIL"];
        let lower = Spelled::of(ColumnCase::Lower, names);
        assert_eq!(lower.find("USERID"), Some(0));
        assert_eq!((lower.find("Mail"), lower.find("user_id"), lower.find("x")), (None, None, None));
        assert_eq!(Spelled::of(ColumnCase::Snake, names).find("user_id"), Some(0));
        assert_eq!(Spelled::of(ColumnCase::AsIs, names).find("userId"), None);
    }

    #[test]
    fn the_nearest_name_is_found() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(nearest("Employe", ["Team", "Employee"]), Some("Employee"));
        assert_eq!(nearest("TEAM", ["team", "teams"]), Some("team"));
        assert_eq!(nearest("zzz", ["team", "teams"]), None);
    }

    #[test]
    fn reserved_names_are_known() {
        for name in ["_pos", "_FILE", "_change_type", "_kafka_offset", "_Kafka_x", "_op", "_value"] {
            assert!(reserved(name).is_some(), "{name}");
        }
        for name in ["pos", "_position", "kafka_offset", "value", "_changes"] {
            assert!(reserved(name).is_none(), "{name}");
        }
    }
}

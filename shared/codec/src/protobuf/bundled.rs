//! Files that registered schemas import and no registry holds: `google/type/*` and Confluent's own. What they hold is
//! public: the names and numbers of the fields, and no more is written down here.

use protox::file::{File, FileResolver};

macro_rules! files {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("../../proto/", $name)))),*] };
}

const FILES: &[(&str, &str)] = files! {
    "confluent/meta.proto"
    "confluent/type/decimal.proto"
    "google/type/calendar_period.proto"
    "google/type/color.proto"
    "google/type/date.proto"
    "google/type/datetime.proto"
    "google/type/dayofweek.proto"
    "google/type/decimal.proto"
    "google/type/expr.proto"
    "google/type/fraction.proto"
    "google/type/interval.proto"
    "google/type/latlng.proto"
    "google/type/localized_text.proto"
    "google/type/money.proto"
    "google/type/month.proto"
    "google/type/phone_number.proto"
    "google/type/postal_address.proto"
    "google/type/quaternion.proto"
    "google/type/timeofday.proto"
};

/// Finds the files held here.
pub(super) struct Bundled;

impl FileResolver for Bundled {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match FILES.iter().find(|(known, _)| *known == name) {
            Some((name, text)) => File::from_source(name, text),
            None => Err(protox::Error::file_not_found(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_is_held_is_known_and_compiles() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
        let mut found = Vec::new();
        let mut folders = vec![folder.clone()];
        while let Some(next) = folders.pop() {
            for entry in std::fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
                match entry.is_dir() {
                    true => folders.push(entry),
                    false => found.push(entry.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned()),
                }
            }
        }
        found.sort();
        assert_eq!(found, FILES.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>());
        for (name, _) in FILES {
            let importing = format!("syntax = \"proto3\"; import \"{name}\"; message M {{}}");
            super::super::schema::from_text(&[("m.proto", &importing)], "M").unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}

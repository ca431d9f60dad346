//! Places for objects: folders and buckets.

use std::fmt;
use std::path::{Path, PathBuf};

use super::plain;
use crate::document::Section;
use crate::fault::code;
use crate::reader::Reader;

/// What a prefix leaves of S3's 1024 bytes is enough for every key of ours, and for most partition folders.
const S3_PREFIX_BYTES_MAX: usize = 256;

/// A place for objects. Displayed as a URL, letter by letter: nothing is percent-encoded, as in Iceberg's locations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A folder.
    File(PathBuf),
    /// A bucket, and what keys in it begin with: no slash at either end, empty for all of the bucket.
    S3 {
        /// The bucket's name.
        bucket: String,
        /// What comes before every key, without the slash between.
        prefix: String,
    },
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file://{}", path.display()),
            Self::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

pub(super) fn read<'t>(
    reader: &mut Reader<'t>,
    section: Section<'t>,
    name: &str,
    default: Location,
) -> Option<Location> {
    if section.get(name).is_none() {
        return Some(default);
    }
    let text = reader.text(section, name)?;
    if let Some(path) = text.value.strip_prefix("file://") {
        if path.starts_with('/') {
            return Some(Location::File(plain(Path::new(path))));
        }
        let message =
            format!("`{name}` takes \"file:///\" and an absolute folder; for folders beside this file use `dir`");
        reader.fault(text.at, code::INVALID, message);
    } else if let Some(rest) = text.value.strip_prefix("s3://") {
        match bucket_and_prefix(rest) {
            Ok((bucket, prefix)) => return Some(Location::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() }),
            // Somebody may have put credentials before the bucket or behind the prefix: they are not repeated.
            Err(why) if rest.contains(['@', '?']) => {
                reader.fault(text.at, code::INVALID, format!("`{name}` cannot be what it is: {why}"));
            }
            Err(why) => {
                reader.fault(text.at, code::INVALID, format!("`{name}` cannot be {:?}: {why}", text.value));
            }
        }
    } else {
        let said = if text.value.contains(['@', '?']) { "what it is".to_owned() } else { format!("{:?}", text.value) };
        let message = format!(
            "`{name}` cannot be {said}; it takes a URL such as \"file:///data/frazil\" or \"s3://bucket/frazil\""
        );
        reader.fault(text.at, code::INVALID, message);
    }
    None
}

/// What follows `s3://`, if a store or a warehouse can be there.
fn bucket_and_prefix(rest: &str) -> Result<(&str, &str), &'static str> {
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '-';
    if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(letter) {
        return Err("a bucket's name has 3 to 63 small letters, digits, dots and hyphens");
    }
    if bucket.ends_with("--x-s3") {
        return Err("a directory bucket does not list in order: it takes a general purpose bucket");
    }
    if prefix.len() > S3_PREFIX_BYTES_MAX {
        return Err("the prefix is too long: a key has 1024 bytes in all");
    }
    if !prefix.is_empty() && prefix.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        return Err("its prefix holds an empty segment, `.` or `..`");
    }
    // Locations are compared as text and read by others, who cut them at `?` and `#`.
    if prefix.contains(['\\', '?', '#']) || prefix.chars().any(char::is_control) {
        return Err("its prefix holds a backslash, `?`, `#` or a control character");
    }
    Ok((bucket, prefix))
}

/// A location as a path, for telling what lies under what.
fn as_path(location: &Location) -> PathBuf {
    match location {
        Location::File(path) => Path::new("file").join(path.strip_prefix("/").unwrap_or(path)),
        Location::S3 { bucket, prefix } => Path::new("s3").join(bucket).join(prefix),
    }
}

/// What the store keeps under its own names never lies under a table's location, nor the reverse: maintenance removes
/// files by their folder.
pub(super) fn apart(reader: &mut Reader<'_>, section: Section<'_>, store_at: &Location, warehouse_at: &Location) {
    const STORED: [&str; 5] = ["staging", "settled", "dead-letters", "runs", "pipelines"];
    let (store, warehouse) = (as_path(store_at), as_path(warehouse_at));
    let inside = STORED.iter().find(|name| warehouse.starts_with(store.join(name)));
    if !store.starts_with(&warehouse) && inside.is_none() {
        return;
    }
    let at = section.get("warehouse").or(section.get("store")).map_or(section.at, |entry| entry.value_at());
    let message = format!(
        "the warehouse {warehouse_at} and what the store {store_at} keeps must lie apart, so that no table's files are \
         among staged ones"
    );
    reader.fault(at, code::INVALID, message);
}

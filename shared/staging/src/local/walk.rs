//! A folder's files in byte order of their keys, from a given key on.

use std::io::{self, ErrorKind};
use std::path::Path;

use crate::store::{ObjectMeta, SEGMENTS_MAX};

/// What stands in a folder: a file, or a folder (its text then ends with a slash, which makes texts sort as keys do).
struct Entry {
    text: String,
    size: Option<u64>,
}

/// At most `wanted` files under `root` whose keys begin with `prefix` and come after `after`, in byte order.
///
/// Folders that cannot hold such a key are not opened. Names that are not UTF-8 were not written by a store and are
/// passed over, and so is `hidden` in the root.
pub(super) fn objects(
    root: &Path,
    hidden: &str,
    prefix: &str,
    after: Option<&str>,
    wanted: usize,
) -> io::Result<Vec<ObjectMeta>> {
    let mut found = Vec::new();
    // One level of entries still to visit per folder on the way: never more than a key has segments.
    let mut levels = vec![entries(root, "", Some(hidden))?];
    while let Some(level) = levels.last_mut() {
        let Some(entry) = level.pop() else {
            levels.pop();
            continue;
        };
        match entry.size {
            Some(size) => {
                if entry.text.starts_with(prefix) && after.is_none_or(|after| entry.text.as_str() > after) {
                    found.push(ObjectMeta { key: entry.text, size });
                    if found.len() >= wanted {
                        break;
                    }
                }
            }
            None => {
                let related = entry.text.starts_with(prefix) || prefix.starts_with(&entry.text);
                // Every key below sorts as the folder's text does, unless `after` lies below it too.
                let passed = after.is_some_and(|after| entry.text.as_str() < after && !after.starts_with(&entry.text));
                if related && !passed && levels.len() < SEGMENTS_MAX {
                    levels.push(entries(&root.join(&entry.text), &entry.text, None)?);
                }
            }
        }
    }
    Ok(found)
}

/// A folder's entries in descending order of their texts, each with the folder's own key text before its name.
fn entries(folder: &Path, above: &str, hidden: Option<&str>) -> io::Result<Vec<Entry>> {
    let listed = match std::fs::read_dir(folder) {
        Ok(listed) => listed,
        // Removed between being seen and being opened, or a listing before the first put.
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut found = Vec::new();
    for entry in listed {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| Some(*name) != hidden) else { continue };
        let meta = match std::fs::metadata(entry.path()) {
            Ok(meta) => meta,
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        if meta.is_dir() {
            found.push(Entry { text: format!("{above}{name}/"), size: None });
        } else if meta.is_file() {
            found.push(Entry { text: format!("{above}{name}"), size: Some(meta.len()) });
        }
    }
    found.sort_unstable_by(|a, b| b.text.cmp(&a.text));
    Ok(found)
}

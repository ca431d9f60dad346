//! `[fold]` and `[staging]`: when a fold starts, and how long settled objects stay.

use crate::document::Section;
use crate::fault::code;
use crate::quantity;
use crate::reader::Reader;
use crate::resolved::{Fold, Staging};

/// Seconds, where the file says nothing.
const MAX_AGE_SECONDS: u64 = 60;
const MAX_BYTES: u64 = 512 << 20;
const MAX_ROWS: u64 = 50_000_000;
/// With less, what a fold takes beside its rows leaves no room for them, and its process comes to more than was named.
const MEMORY_BYTES_MIN: u64 = 256 << 20;
pub(super) const RETENTION_SECONDS: u64 = 7 * 24 * 3600;

pub(super) fn fold<'t>(reader: &mut Reader<'t>, document: Section<'t>) -> Fold {
    let (mut age, mut bytes, mut rows) = (Some(MAX_AGE_SECONDS), Some(MAX_BYTES), Some(MAX_ROWS));
    let (mut memory, mut tables_max) = (Some(None), None);
    if let Some(section) = reader.section(document, "fold") {
        age = quantity(reader, section, "max_age", MAX_AGE_SECONDS, quantity::duration_seconds);
        bytes = quantity(reader, section, "max_bytes", MAX_BYTES, quantity::bytes);
        if section.get("max_rows").is_some() {
            rows = count(reader, section, "max_rows");
        }
        tables_max = count(reader, section, "tables_max");
        memory = self::memory(reader, section);
    }
    Fold {
        max_age_seconds: age.unwrap_or(MAX_AGE_SECONDS),
        max_bytes: bytes.unwrap_or(MAX_BYTES),
        max_rows: rows.unwrap_or(MAX_ROWS),
        memory_bytes: memory.flatten(),
        tables_max,
    }
}

/// A whole number of 1 or more, where it is said.
fn count<'t>(reader: &mut Reader<'t>, section: Section<'t>, name: &str) -> Option<u64> {
    section.get(name)?;
    let (number, at) = reader.number(section, name)?;
    let count = u64::try_from(number).ok().filter(|n| *n > 0);
    if count.is_none() {
        reader.fault(at, code::INVALID, format!("`{name}` is at least 1"));
    }
    count
}

/// `auto`, which is nothing, or a size.
fn memory<'t>(reader: &mut Reader<'t>, section: Section<'t>) -> Option<Option<u64>> {
    if section.get("memory").is_none() {
        return Some(None);
    }
    let text = reader.text(section, "memory")?;
    if text.value == "auto" {
        return Some(None);
    }
    let read = quantity::bytes(&text.value).and_then(|bytes| {
        if bytes < MEMORY_BYTES_MIN { Err(format!("`{}` is less than 256MiB", text.value)) } else { Ok(bytes) }
    });
    match read {
        Ok(bytes) => Some(Some(bytes)),
        Err(message) => {
            reader.fault(text.at, code::INVALID, format!("`memory` is \"auto\" or at least 256MiB: {message}"));
            None
        }
    }
}

pub(super) fn staging<'t>(reader: &mut Reader<'t>, document: Section<'t>) -> Option<Staging> {
    let mut retention = Some(RETENTION_SECONDS);
    if let Some(section) = reader.section(document, "staging") {
        retention = quantity(reader, section, "retention", RETENTION_SECONDS, quantity::duration_seconds);
    }
    Some(Staging { retention_seconds: retention? })
}

fn quantity<'t>(
    reader: &mut Reader<'t>,
    section: Section<'t>,
    name: &str,
    default: u64,
    read: fn(&str) -> Result<u64, String>,
) -> Option<u64> {
    if section.get(name).is_none() {
        return Some(default);
    }
    let text = reader.text(section, name)?;
    match read(&text.value) {
        Ok(value) => Some(value),
        Err(message) => {
            reader.fault(text.at, code::INVALID, format!("`{name}`: {message}"));
            None
        }
    }
}

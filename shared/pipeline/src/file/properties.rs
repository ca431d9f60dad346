//! `[table.properties]`: Iceberg's own names, checked where a wrong value would lose something.

use std::collections::BTreeMap;

use toml::de::DeValue;

use crate::document::Section;
use crate::fault::code;
use crate::reader::Reader;
use crate::resolved::Staging;

/// How old a snapshot may be before engines expire it.
const SNAPSHOT_AGE: &str = "history.expire.max-snapshot-age-ms";

/// What engines do where a table does not say: 5 days.
const SNAPSHOT_AGE_DEFAULT_MS: u64 = 5 * DAY_MS;

const DAY_MS: u64 = 24 * 3600 * 1000;

/// What Iceberg writes by itself, or takes as an instruction rather than a property.
const RESERVED: [&str; 9] = [
    "format-version",
    "uuid",
    "snapshot-count",
    "current-snapshot-summary",
    "current-snapshot-id",
    "current-snapshot-timestamp-ms",
    "current-schema",
    "default-partition-spec",
    "default-sort-order",
];

pub(super) fn read<'t>(
    reader: &mut Reader<'t>,
    table: Section<'t>,
    staging: Option<&Staging>,
) -> BTreeMap<String, String> {
    let mut properties = BTreeMap::new();
    let section = reader.section(table, "properties");
    // One day more than settled objects are kept: rolling back to any retained snapshot then finds every object that
    // has to be folded again.
    let age_min_ms = staging.map(|s| s.retention_seconds.saturating_mul(1000).saturating_add(DAY_MS));
    for entry in section.map(Section::entries).unwrap_or_default() {
        let name = entry.key;
        if name.starts_with("frazil.") {
            let message = format!("`{name}`: properties that begin with `frazil.` are written by frazil only");
            reader.fault(entry.key_at, code::RESERVED, message);
            continue;
        }
        if RESERVED.contains(&name) {
            let instead = if name == "format-version" { "; use `format_version` in `[table]`" } else { "" };
            reader.fault(entry.key_at, code::RESERVED, format!("`{name}` is not a property that can be set{instead}"));
            continue;
        }
        if matches!(entry.value.get_ref(), DeValue::Table(_)) {
            let message = format!(
                "`{name}` takes a string; a property's name with dots is quoted, as in \"write.target-file-size-bytes\""
            );
            reader.fault(entry.key_at, code::WRONG_TYPE, message);
            continue;
        }
        let Some(text) = reader.string(name, entry.value, "a string (Iceberg's properties are text)") else { continue };
        let problem = match name {
            SNAPSHOT_AGE => match (text.value.parse::<u64>(), age_min_ms) {
                (Err(_), _) => Some("milliseconds as a whole number".to_owned()),
                (Ok(age), Some(least)) if age < least => Some(format!(
                    "at least {least}, the retention of staging and a day: snapshots that are kept less long cannot be rolled back to and folded again"
                )),
                (Ok(_), _) => None,
            },
            "write.target-file-size-bytes" | "write.parquet.row-group-size-bytes" | "write.parquet.page-size-bytes" => {
                let positive = text.value.parse::<i64>().is_ok_and(|n| n > 0);
                (!positive).then(|| "a whole number of bytes, at least 1".to_owned())
            }
            "write.format.default" => (!text.value.eq_ignore_ascii_case("parquet"))
                .then(|| "\"parquet\", the only format frazil writes".to_owned()),
            _ => None,
        };
        match problem {
            Some(expected) => {
                reader.fault(
                    text.at,
                    code::INVALID,
                    format!("`{name}` cannot be {:?}; it takes {expected}", text.value),
                );
            }
            None => {
                properties.insert(name.to_owned(), text.value);
            }
        }
    }
    // Left unsaid, engines would expire snapshots before the objects behind them.
    if let Some(least) = age_min_ms.filter(|least| *least > SNAPSHOT_AGE_DEFAULT_MS) {
        properties.entry(SNAPSHOT_AGE.to_owned()).or_insert_with(|| least.to_string());
    }
    properties
}

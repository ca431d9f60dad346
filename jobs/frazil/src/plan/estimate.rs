//! How many files a fold writes, and how large they are: arithmetic from the triggers of `[fold]`, the partition spec, and
//! a rate of records that a person names or that is assumed. An estimate: skewed values make fewer files, late rows more.

use pipeline::partition;
use pipeline::resolved::{From, PartitionField, Pipeline, RecordField, Transform};
use pipeline::types::Type;
use serde::Serialize;

use crate::examination::Resolved;

/// Assumed where nothing is said: a busy topic of small records.
const RECORDS_PER_SECOND: u64 = 1_000;
const RECORD_BYTES: u64 = 250;
/// Iceberg's target where a table does not say.
const TARGET_FILE_BYTES: u64 = 512 << 20;
const TARGET_FILE: &str = "write.target-file-size-bytes";

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// An estimate with what it was made from.
#[derive(Debug, Serialize)]
pub(crate) struct Estimate {
    pub(crate) records_per_second: u64,
    /// Bytes of a record, taken for those of its row in staged objects and in data files.
    pub(crate) record_bytes: u64,
    /// Which of the two nobody said.
    pub(crate) assumed: Vec<&'static str>,
    /// The trigger that comes first.
    pub(crate) trigger: &'static str,
    pub(crate) seconds_between_folds: u64,
    pub(crate) rows_per_fold: u64,
    pub(crate) partition_fields: Vec<Values>,
    /// Of a fold, times the values of the fields whose number is not known.
    pub(crate) files_per_fold: u64,
    pub(crate) files_per_day: u64,
    pub(crate) bytes_per_file: u64,
    /// Partition fields whose number of values is not known: there are so many times more files, and as much smaller ones.
    pub(crate) times_values_of: Vec<String>,
}

/// How many values of one partition field are in a fold.
#[derive(Debug, Serialize)]
pub(crate) struct Values {
    pub(crate) field: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) values: Option<u64>,
    pub(crate) why: String,
}

/// Estimates a pipeline's files.
pub(crate) fn of(resolved: &Resolved, records_per_second: Option<u64>, record_bytes: Option<u64>) -> Estimate {
    let pipeline = &resolved.pipeline;
    let rate = records_per_second.unwrap_or(RECORDS_PER_SECOND).max(1);
    let bytes = record_bytes.unwrap_or(RECORD_BYTES).max(1);
    let fold = &pipeline.fold;
    let triggers = [
        ("max_age", fold.max_age_seconds.saturating_mul(rate)),
        ("max_bytes", (fold.max_bytes / bytes).max(1)),
        ("max_rows", fold.max_rows),
    ];
    let (trigger, rows) = triggers.into_iter().min_by_key(|(_, rows)| *rows).unwrap_or(("max_age", rate));
    let seconds = (rows / rate).max(1);
    let partition_fields: Vec<Values> =
        pipeline.table.partition_by.iter().map(|field| values(field, resolved, seconds)).collect();
    let partitions =
        partition_fields.iter().filter_map(|field| field.values).fold(1_u64, u64::saturating_mul).clamp(1, rows.max(1));
    let target = pipeline.table.properties.get(TARGET_FILE).and_then(|text| text.parse().ok());
    let all_bytes = rows.saturating_mul(bytes);
    let files_per_partition = (all_bytes / partitions).div_ceil(target.unwrap_or(TARGET_FILE_BYTES)).max(1);
    let files = partitions.saturating_mul(files_per_partition);
    Estimate {
        records_per_second: rate,
        record_bytes: bytes,
        assumed: [("records_per_second", records_per_second.is_none()), ("record_bytes", record_bytes.is_none())]
            .into_iter()
            .filter(|(_, assumed)| *assumed)
            .map(|(name, _)| name)
            .collect(),
        trigger,
        seconds_between_folds: seconds,
        rows_per_fold: rows,
        times_values_of: partition_fields
            .iter()
            .filter(|field| field.values.is_none())
            .map(|field| field.field.clone())
            .collect(),
        partition_fields,
        files_per_fold: files,
        files_per_day: files.saturating_mul(DAY) / seconds,
        bytes_per_file: all_bytes / files,
    }
}

fn values(field: &PartitionField, resolved: &Resolved, seconds: u64) -> Values {
    let (values, why) = match field.transform {
        Transform::Bucket(n) => (Some(u64::from(n)), "as many as buckets".to_owned()),
        Transform::Void => (Some(1), "always null".to_owned()),
        Transform::Hour => times(field, &resolved.pipeline, seconds, HOUR),
        Transform::Day => times(field, &resolved.pipeline, seconds, DAY),
        Transform::Month => times(field, &resolved.pipeline, seconds, 30 * DAY),
        Transform::Year => times(field, &resolved.pipeline, seconds, 365 * DAY),
        Transform::Identity => identities(field, resolved),
        Transform::Truncate(_) => (None, "as many as beginnings of its values".to_owned()),
    };
    Values { field: partition::text(field), values, why }
}

/// Hours, days and so on that a fold's rows lie in.
fn times(field: &PartitionField, pipeline: &Pipeline, seconds: u64, unit: u64) -> (Option<u64>, String) {
    let within = pipeline.table.dedup_within.as_ref().filter(|within| within.column == field.column);
    let lookback = within.map_or(0, |within| within.lookback_seconds);
    let span = seconds.saturating_add(lookback);
    let beside = if within.is_some() { " and the lookback" } else { "" };
    (Some(span / unit + 1), format!("of times within the {seconds} s between two folds{beside}"))
}

fn identities(field: &PartitionField, resolved: &Resolved) -> (Option<u64>, String) {
    let unknown = || (None, "as many as values of the column".to_owned());
    let Some(column) = resolved.columns.columns.iter().find(|column| column.name == field.column) else {
        return match field.column.as_str() {
            "_kafka_topic" => (Some(resolved.pipeline.source.topics.len() as u64), "as many as topics".to_owned()),
            _ => unknown(),
        };
    };
    let declared = resolved.pipeline.table.columns.iter().find(|declared| declared.name == column.name);
    let is_topic = declared.is_some_and(|declared| declared.from == From::Record(RecordField::Topic));
    match column.data_type {
        _ if is_topic => (Some(resolved.pipeline.source.topics.len() as u64), "as many as topics".to_owned()),
        _ if !column.expect.one_of.is_empty() => {
            (Some(column.expect.one_of.len() as u64), "the values that `in` allows".to_owned())
        }
        Type::Boolean => (Some(2), "true and false".to_owned()),
        _ => unknown(),
    }
}

impl Estimate {
    /// For a person.
    pub(crate) fn text(&self) -> String {
        let assumed = |name: &str| if self.assumed.contains(&name) { " (assumed)" } else { "" };
        let mut text = format!(
            "{} records/s{} of {} bytes{}: a fold every {} s ({}), {} rows each\n",
            self.records_per_second,
            assumed("records_per_second"),
            self.record_bytes,
            assumed("record_bytes"),
            self.seconds_between_folds,
            self.trigger,
            self.rows_per_fold
        );
        for field in &self.partition_fields {
            let values = field.values.map_or("?".to_owned(), |n| n.to_string());
            text.push_str(&format!("  {:<32} {values:>6}  {}\n", field.field, field.why));
        }
        let times = self.times_values_of.iter().map(|field| format!(" × the values of {field}")).collect::<String>();
        text.push_str(&format!(
            "{} files a fold{times}, {} each{}; {} a day",
            self.files_per_fold,
            bytes(self.bytes_per_file),
            if times.is_empty() { "" } else { " or as much less" },
            self.files_per_day
        ));
        text
    }
}

/// Bytes for a person.
pub(super) fn bytes(n: u64) -> String {
    match n {
        0..1024 => format!("{n} B"),
        1024..1_048_576 => format!("{} KiB", n >> 10),
        1_048_576..1_073_741_824 => format!("{} MiB", n >> 20),
        _ => format!("{} GiB", n >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(text: &str, rate: u64, bytes: u64) -> Estimate {
        let file = format!(
            "[source]\ntopics = [\"t\", \"u\", \"v\"]\n[value]\nformat = \"protobuf\"\nframing = \"bare\"\n\
             schema = {{ proto = \"e.proto\", message = \"M\" }}\n[table]\nname = \"db.t\"\n{text}"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipelines/t.toml");
        std::fs::create_dir(folder.path().join("pipelines")).unwrap();
        std::fs::write(&path, file).unwrap();
        std::fs::write(
            folder.path().join("e.proto"),
            "syntax = \"proto3\"; import \"google/protobuf/timestamp.proto\";\n\
             message M { int64 id = 1; google.protobuf.Timestamp at = 2; bool ok = 3; string kind = 4; }",
        )
        .unwrap();
        let environment = pipeline::Environment::embedded(folder.path().join(".frazil"));
        let examinee = {
            let clock = std::sync::Arc::new(model::clock::SystemClock);
            let asked = crate::examination::Asked { services: false, variable: |_| None, clock };
            futures::executor::block_on(crate::examination::examine(&path, &environment, &asked)).unwrap()
        };
        let resolved = examinee.resolved.unwrap_or_else(|| panic!("{:?}", examinee.faults));
        of(&resolved, Some(rate), Some(bytes))
    }

    /// Values of each partition field, `?` where they are not known; files of a fold.
    fn check(partition_by: &str, more: &str, expected: &str, files: u64) {
        let found = estimate(&format!("partition_by = [{partition_by}]\n{more}"), 1000, 100);
        let values: Vec<String> =
            found.partition_fields.iter().map(|f| f.values.map_or("?".to_owned(), |n| n.to_string())).collect();
        assert_eq!((values.join(" ").as_str(), found.files_per_fold), (expected, files), "{partition_by}: {found:?}");
    }

    #[test]
    fn values_are_counted_where_they_are_known() {
        check("", "", "", 1);
        check("\"bucket(16, id)\", \"day(at)\"", "", "16 1", 16);
        check("\"hour(at)\", \"ok\", \"_kafka_topic\", \"void(id)\"", "", "1 2 3 1", 6);
        check("\"kind\", \"truncate(3, kind)\"", "", "? ?", 1);
        check("\"kind\"", "columns.kind = { in = [\"a\", \"b\"] }\n", "2", 2);
        check("\"topic\"", "columns.topic = \"@topic\"\n", "3", 3);
        let within =
            "mode = \"dedup\"\nprimary_key = [\"id\"]\ndedup_within = { column = \"at\", lookback = \"2d\" }\n";
        check("\"hour(at)\"", within, "49", 49);
        check("\"month(at)\"", within, "1", 1);
        // There are no more partitions than rows.
        check("\"bucket(1000000, id)\"", "", "1000000", 60_000);
    }

    #[test]
    fn the_first_trigger_decides_how_much_a_fold_takes() {
        let check = |fold: &str, rate: u64, bytes: u64, expected: (&str, u64, u64, u64)| {
            let found = estimate(&format!("[fold]\n{fold}\n"), rate, bytes);
            let Estimate { trigger, seconds_between_folds, rows_per_fold, files_per_fold, .. } = found;
            assert_eq!((trigger, seconds_between_folds, rows_per_fold, files_per_fold), expected, "{fold}");
        };
        check("", 10, 100, ("max_age", 60, 600, 1));
        check("max_rows = 100", 10, 100, ("max_rows", 10, 100, 1));
        check("max_bytes = \"1MB\"", 100, 1000, ("max_bytes", 10, 1000, 1));
        // Files end at the target of 512 MiB.
        check("max_bytes = \"1TiB\"\nmax_age = \"1h\"", 10_000, 100, ("max_age", 3600, 36_000_000, 7));
        check("max_bytes = \"1TiB\"\nmax_age = \"100000000d\"", 1_000_000_000, 1, ("max_rows", 1, 50_000_000, 1));
        let weekly = estimate("[fold]\nmax_age = \"7d\"\nmax_bytes = \"1TiB\"\n", 1, 1);
        assert_eq!((weekly.files_per_fold, weekly.files_per_day), (1, 0));
    }
}

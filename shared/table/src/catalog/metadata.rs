//! Table metadata as values: making it, changing it, naming its files.
//!
//! Iceberg's table metadata, versions 2 and 3 (<https://iceberg.apache.org/spec/#table-metadata>). A new version is a new
//! file `<V+1>-<uuid>.metadata.json`; the builder keeps the log of previous files within
//! `write.metadata.previous-versions-max`. Nothing here deletes an old file.

use std::collections::HashSet;
use std::str::FromStr;

use iceberg::io::FileIO;
use iceberg::spec::{FormatVersion, TableMetadata, TableMetadataBuilder};
use iceberg::{MetadataLocation, TableRequirement, TableUpdate};
use model::clock::Timestamp;
use model::failure::Kind;
use model::id::Ids;
pub use pipeline::resolved::FOLDER_PROPERTIES;
use uuid::Uuid;

use super::{Error, Loaded, TableCreation, TableName};

/// Metadata that is ready to be written and swapped in.
#[derive(Clone, Debug)]
pub struct Staged {
    /// The new metadata.
    pub metadata: TableMetadata,
    /// The file it goes to; nobody else's name.
    pub location: String,
}

impl Staged {
    /// Writes the metadata file.
    ///
    /// # Errors
    /// The storage's; the table is unchanged.
    pub async fn write(&self, io: &FileIO) -> Result<(), Error> {
        let fault = |e| Error::storage(format!("could not write {}", self.location), e);
        if self.metadata.metadata_compression_codec().map_err(fault)? == iceberg::compression::CompressionCodec::None {
            let json = serde_json::to_vec(&self.metadata)
                .map_err(|e| Error::caused(Kind::Bug, "table metadata does not serialise", e))?;
            return io.new_output(&self.location).map_err(fault)?.write(json.into()).await.map_err(fault);
        }
        let location = MetadataLocation::from_str(&self.location).map_err(fault)?;
        self.metadata.write_to(io, &location).await.map_err(fault)
    }

    /// The table as it is once a catalog names this metadata.
    #[must_use]
    pub fn loaded(self, name: TableName) -> Loaded {
        Loaded::new(name, self.metadata, self.location)
    }
}

/// Reads a metadata file, compressed or not.
///
/// # Errors
/// The storage's, or `Corrupt` where the file is not table metadata.
pub async fn read(io: &FileIO, table: &TableName, location: &str) -> Result<Loaded, Error> {
    match TableMetadata::read_from(io, location).await {
        Ok(metadata) => Ok(Loaded::new(table.clone(), metadata, location.to_owned())),
        Err(e) => Err(Error::storage(format!("could not read the metadata of {table} at {location}"), e)),
    }
}

/// The first metadata of a table.
///
/// # Errors
/// `Misconfigured` where schema, spec, order and properties do not fit together, or the format version is 1.
pub fn create(creation: TableCreation, location: String, now: Timestamp, ids: &dyn Ids) -> Result<Staged, Error> {
    if creation.format_version == FormatVersion::V1 {
        let why = "format version 1 tables can't record which rows a commit deletes; use version 2";
        return Err(Error::failed(Kind::Misconfigured, why));
    }
    let TableCreation { schema, partition_spec, sort_order, properties, format_version, .. } = creation;
    let metadata = TableMetadataBuilder::new(schema, partition_spec, sort_order, location, format_version, properties)
        .and_then(|builder| builder.assign_uuid(Uuid::from_bytes(ids.uuid())).build())
        .map_err(|e| Error::caused(Kind::Misconfigured, "the table's definition does not hold together", e))?
        .metadata;
    // A new table has no time but the builder's own.
    let metadata = with_times(&metadata, |_| now.millis())?;
    let location = file_location(&metadata, 0, ids)?;
    Ok(Staged { metadata, location })
}

/// The next metadata of a table, from the metadata a plan was made from. Pure.
///
/// Without a snapshot among the updates the metadata's time is `now`, or 1 ms past the last update if that is later.
///
/// # Errors
/// `Conflict` for a requirement that does not hold; `Bug` for updates that do not apply.
pub fn apply(
    base: &Loaded,
    requirements: &[TableRequirement],
    updates: &[TableUpdate],
    now: Timestamp,
) -> Result<TableMetadata, Error> {
    check(base, requirements)?;
    let fault = |e| Error::caused(Kind::Bug, format!("an update does not apply to {}", base.name), e);
    let build = |table: TableMetadata| {
        let mut builder = table.into_builder(Some(base.metadata_location.clone()));
        for update in updates {
            builder = update.clone().apply(builder)?;
        }
        builder.build().map(|built| built.metadata)
    };
    if updates.iter().any(|update| matches!(update, TableUpdate::AddSnapshot { .. })) {
        // The snapshot's own time is the metadata's.
        return build(TableMetadata::clone(&base.metadata)).map_err(fault);
    }
    let time = now.millis().max(last_change_ms(&base.metadata).saturating_add(1));
    on_record(&build(long_ago(&base.metadata)?).map_err(fault)?, time)
}

/// Holds requirements against the metadata a plan was made from. Pure.
///
/// # Errors
/// `Conflict` for one that does not hold.
pub fn check(base: &Loaded, requirements: &[TableRequirement]) -> Result<(), Error> {
    requirements.iter().try_for_each(|requirement| {
        requirement
            .check(Some(&base.metadata))
            .map_err(|e| Error::Conflict { table: base.name.clone(), detail: e.to_string() })
    })
}

/// When the table last changed by its own account, in milliseconds since the epoch: a next change must be later, whatever
/// the clocks of its other writers say.
#[must_use]
pub fn last_change_ms(table: &TableMetadata) -> i64 {
    table.history().last().map_or(i64::MIN, |entry| entry.timestamp_ms).max(table.last_updated_ms())
}

/// The next metadata and the name of its file.
///
/// # Errors
/// As [`apply`].
pub fn stage(
    base: &Loaded,
    requirements: &[TableRequirement],
    updates: &[TableUpdate],
    now: Timestamp,
    ids: &dyn Ids,
) -> Result<Staged, Error> {
    let metadata = apply(base, requirements, updates, now)?;
    let location = file_location(&metadata, version_of(&base.metadata_location).saturating_add(1), ids)?;
    Ok(Staged { metadata, location })
}

/// Metadata files that a commit has dropped from the table's log of previous ones, where the table says that they are to be
/// deleted (`write.metadata.delete-after-commit.enabled`; how long the log is, `write.metadata.previous-versions-max` says).
/// For after a commit that certainly was applied.
#[must_use]
pub fn dropped(base: &TableMetadata, after: &TableMetadata) -> Vec<String> {
    let wanted = after.properties().get("write.metadata.delete-after-commit.enabled");
    if wanted.is_none_or(|text| !text.eq_ignore_ascii_case("true")) {
        return Vec::new();
    }
    let kept: HashSet<&str> = after.metadata_log().iter().map(|entry| entry.metadata_file.as_str()).collect();
    let logged = base.metadata_log().iter().map(|entry| entry.metadata_file.as_str());
    logged.filter(|file| !kept.contains(file)).map(str::to_owned).collect()
}

/// The folder of a table's metadata files, manifests and manifest lists: `write.metadata.path`, or `metadata` under the
/// table's location.
#[must_use]
pub fn folder(metadata: &TableMetadata) -> String {
    match metadata.properties().get("write.metadata.path") {
        Some(path) => path.trim_end_matches('/').to_owned(),
        None => format!("{}/metadata", metadata.location()),
    }
}

fn file_location(metadata: &TableMetadata, version: u64, ids: &dyn Ids) -> Result<String, Error> {
    let codec = metadata
        .metadata_compression_codec()
        .map_err(|e| Error::caused(Kind::Misconfigured, "write.metadata.compression-codec must be none or gzip", e))?;
    let suffix = match codec {
        iceberg::compression::CompressionCodec::None => "",
        _ => ".gz",
    };
    Ok(format!("{}/{version:05}-{}{suffix}.metadata.json", folder(metadata), ids.uuid_text()))
}

/// The version in a metadata file's name: `00012-<uuid>.metadata.json`, or the older `v12.metadata.json`. A file named
/// otherwise counts as version 0: the number orders names for people, and the uuid alone keeps them apart.
fn version_of(location: &str) -> u64 {
    let name = location.rsplit('/').next().unwrap_or(location);
    let digits = name.strip_prefix('v').unwrap_or(name);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits.get(..end).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Further back than any table's history: it tells times that were there before from those the builder adds.
const AGES_MS: i64 = 1 << 52;

/// The same metadata with all its times moved back by [`AGES_MS`].
///
/// Where no snapshot brings a time the builder reads the machine's clock, and refuses a table whose last writer's clock was
/// ahead of it. Its times are kept out of its sight, and [`on_record`] puts them back with the time that was asked for.
fn long_ago(table: &TableMetadata) -> Result<TableMetadata, Error> {
    with_times(table, |millis| millis.saturating_sub(AGES_MS))
}

fn on_record(table: &TableMetadata, time: i64) -> Result<TableMetadata, Error> {
    with_times(table, |millis| if millis < 0 { millis.saturating_add(AGES_MS) } else { time })
}

/// The metadata with its last update and the times in its logs changed.
fn with_times(table: &TableMetadata, change: impl Fn(i64) -> i64) -> Result<TableMetadata, Error> {
    let fault = |e| Error::caused(Kind::Bug, "table metadata does not survive its own format", e);
    let mut document = serde_json::to_value(table).map_err(fault)?;
    let set = |entry: &mut serde_json::Value, member: &str| {
        if let Some(time) = entry.get_mut(member)
            && let Some(millis) = time.as_i64()
        {
            *time = change(millis).into();
        }
    };
    set(&mut document, "last-updated-ms");
    for log in ["snapshot-log", "metadata-log"] {
        let entries = document.get_mut(log).and_then(serde_json::Value::as_array_mut);
        entries.into_iter().flatten().for_each(|entry| set(entry, "timestamp-ms"));
    }
    serde_json::from_value(document).map_err(fault)
}

#[cfg(test)]
pub(crate) mod tests;

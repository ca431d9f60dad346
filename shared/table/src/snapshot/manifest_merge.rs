//! Small manifests of earlier commits, put together on the way: every commit adds one, and every reader opens them all.
//!
//! By the table properties that Iceberg has for it, and its defaults: `commit.manifest-merge.enabled` (true),
//! `commit.manifest.min-count-to-merge` (100), `commit.manifest.target-size-bytes` (8 MiB). The new files' own manifests stay
//! apart, so that another attempt can take them along.

use std::collections::BTreeMap;

use iceberg::io::FileIO;
use iceberg::spec::{
    FormatVersion, ManifestContentType, ManifestFile, ManifestWriterBuilder, PartitionSpec, TableMetadata,
};
use model::id::Ids;

use super::{ENTRIES_MAX, Error, removal};
use crate::catalog::metadata;

const COUNT_MIN: usize = 100;
const TARGET_BYTES: i64 = 8 * 1024 * 1024;

/// A parent's manifests, fewer of them.
pub(super) struct Merged {
    /// What the list holds beside the new files' manifests.
    pub(super) manifests: Vec<ManifestFile>,
    /// How many manifests of the parent are no longer in it.
    pub(super) replaced: usize,
    /// How many were written in their place.
    pub(super) created: usize,
    /// Entries that moved.
    pub(super) entries: u64,
}

/// How a table wants its manifests merged; nothing where it does not.
fn wanted(table: &TableMetadata) -> Option<(usize, i64)> {
    let property = |name: &str| table.properties().get(name);
    // Row ids are assigned by a manifest's place in the list: there every entry would have to carry its own.
    if table.format_version() == FormatVersion::V3
        || property("commit.manifest-merge.enabled").is_some_and(|text| text.eq_ignore_ascii_case("false"))
    {
        return None;
    }
    let count = property("commit.manifest.min-count-to-merge").and_then(|text| text.parse().ok()).unwrap_or(COUNT_MIN);
    let bytes =
        property("commit.manifest.target-size-bytes").and_then(|text| text.parse().ok()).unwrap_or(TARGET_BYTES);
    Some((count.max(2), bytes))
}

/// Puts small data manifests of one partition spec together once there are many of them. A group is as large as one
/// manifest may be.
pub(super) async fn merge(
    table: &TableMetadata,
    kept: Vec<ManifestFile>,
    snapshot_id: i64,
    io: &FileIO,
    ids: &dyn Ids,
) -> Result<Merged, Error> {
    let mut merged = Merged { manifests: kept, replaced: 0, created: 0, entries: 0 };
    let Some((count_min, bytes_max)) = wanted(table) else { return Ok(merged) };
    let is_small = |manifest: &ManifestFile| {
        manifest.content == ManifestContentType::Data
            // One that this commit has written anew says what was removed.
            && manifest.added_snapshot_id != snapshot_id
            && manifest.key_metadata.is_none()
            && manifest.manifest_length < bytes_max
            && entries(manifest).is_some_and(|count| count < ENTRIES_MAX)
    };
    let mut small: BTreeMap<i32, usize> = BTreeMap::new();
    for manifest in merged.manifests.iter().filter(|m| is_small(m)) {
        *small.entry(manifest.partition_spec_id).or_default() += 1;
    }
    small.retain(|_, count| *count >= count_min);
    if small.is_empty() {
        return Ok(merged);
    }
    let (groups, rest): (Vec<ManifestFile>, Vec<ManifestFile>) = std::mem::take(&mut merged.manifests)
        .into_iter()
        .partition(|m| is_small(m) && small.contains_key(&m.partition_spec_id));
    let folder = metadata::folder(table);
    for group in packed(groups, bytes_max) {
        if let [_] = group.as_slice() {
            merged.manifests.extend(group);
            continue;
        }
        let location = format!("{folder}/{}-merged.avro", ids.uuid_text());
        let doing = format!("merge {} manifests into {location}", group.len());
        let (manifest, entries) = one_of(&group, &location, snapshot_id, io).await.map_err(Error::file(doing))?;
        merged.replaced += group.len();
        merged.created += usize::from(manifest.is_some());
        merged.entries += entries;
        merged.manifests.extend(manifest);
    }
    merged.manifests.extend(rest);
    Ok(merged)
}

/// How many entries of a manifest are live, where its list says so.
fn entries(manifest: &ManifestFile) -> Option<usize> {
    let count = manifest.added_files_count?.checked_add(manifest.existing_files_count?)?;
    usize::try_from(count).ok()
}

/// Groups that one manifest can hold, of one spec each, in the order of the list.
fn packed(manifests: Vec<ManifestFile>, bytes_max: i64) -> Vec<Vec<ManifestFile>> {
    let mut open: BTreeMap<i32, (i64, usize, Vec<ManifestFile>)> = BTreeMap::new();
    let mut full = Vec::new();
    for manifest in manifests {
        let (bytes, count, group) = open.entry(manifest.partition_spec_id).or_default();
        let more = entries(&manifest).unwrap_or(ENTRIES_MAX);
        if *bytes + manifest.manifest_length > bytes_max || *count + more > ENTRIES_MAX {
            full.push(std::mem::take(group));
            (*bytes, *count) = (0, 0);
        }
        *bytes += manifest.manifest_length;
        *count += more;
        group.push(manifest);
    }
    full.extend(open.into_values().map(|(_, _, group)| group));
    full.retain(|group| !group.is_empty());
    full
}

/// Writes the live entries of a group as one manifest, each with the snapshot and the sequence numbers it had; no manifest
/// where none is live.
async fn one_of(
    group: &[ManifestFile],
    location: &str,
    snapshot_id: i64,
    io: &FileIO,
) -> iceberg::Result<(Option<ManifestFile>, u64)> {
    let mut writer = None;
    let mut moved = 0;
    for file in group {
        let (entries, of) = file.load_manifest(io).await?.into_parts();
        for entry in entries.iter().filter(|entry| entry.is_alive()) {
            let (snapshot, sequence) = removal::numbers(entry, &file.manifest_path)?;
            let writer = match &mut writer {
                Some(writer) => writer,
                None => {
                    // The schema that the partition values were written under: a later one may lack their columns.
                    let (schema, spec) = (of.schema().clone(), PartitionSpec::clone(of.partition_spec()));
                    let output = io.new_output(location)?;
                    writer.insert(ManifestWriterBuilder::new(output, Some(snapshot_id), schema, spec).build_v2_data())
                }
            };
            writer.add_existing_file(entry.data_file.clone(), snapshot, sequence, entry.file_sequence_number)?;
            moved += 1;
        }
    }
    match writer {
        Some(writer) => Ok((Some(writer.write_manifest_file().await?), moved)),
        None => Ok((None, moved)),
    }
}

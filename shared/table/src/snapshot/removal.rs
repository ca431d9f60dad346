//! Files that a commit removes: each manifest that holds one is written anew, with the file as deleted and all others as
//! they were. A manifest that holds none stays, and what an earlier commit deleted is left out.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt};
use iceberg::io::FileIO;
use iceberg::spec::{DataFile, Manifest, ManifestContentType, ManifestEntry, ManifestFile};
use model::id::Ids;

use super::{Error, Plan, manifest_writer};
use crate::catalog::{self, Loaded, metadata};

/// Manifests read at a time: each is a round trip, and some hundred KiB.
const MANIFESTS_AT_ONCE: usize = 8;

/// A base's manifests without some files.
pub(super) struct Removed {
    /// In the order that they had.
    pub(super) manifests: Vec<ManifestFile>,
    /// What was removed, by partition spec.
    pub(super) files: Vec<(i32, DataFile)>,
    /// How many manifests were written anew.
    pub(super) rewritten: usize,
    /// Entries that moved.
    pub(super) moved: u64,
}

/// Removes a plan's files from the manifests of a base, and makes sure that those which it refers to are there.
///
/// # Errors
/// `Conflict` where one of them is not live on this base; otherwise the storage's.
pub(super) async fn remove(
    base: &Loaded,
    kept: Vec<ManifestFile>,
    plan: &Plan,
    snapshot_id: i64,
    io: &FileIO,
    ids: &dyn Ids,
) -> Result<Removed, Error> {
    let mut removed = Removed { manifests: Vec::with_capacity(kept.len()), files: Vec::new(), rewritten: 0, moved: 0 };
    let mut wanted: BTreeSet<&str> = plan.removed.iter().map(String::as_str).collect();
    let mut live: BTreeSet<&str> = plan.live.iter().map(String::as_str).collect();
    if wanted.is_empty() && live.is_empty() {
        return Ok(Removed { manifests: kept, ..removed });
    }
    let folder = metadata::folder(&base.metadata);
    let mut loaded = stream::iter(kept)
        .map(|listed| async move {
            // Delete files may be removed, and nothing refers to them.
            let is_asked = listed.content == ManifestContentType::Data || !plan.removed.is_empty();
            let is_empty = !listed.has_added_files() && !listed.has_existing_files();
            let manifest = if is_asked && !is_empty { Some(load(&listed, io).await?) } else { None };
            Ok::<_, Error>((listed, manifest))
        })
        .buffered(MANIFESTS_AT_ONCE);
    while let Some(next) = loaded.next().await {
        let (listed, manifest) = next?;
        let Some(manifest) = manifest else {
            removed.manifests.push(listed);
            continue;
        };
        let mut holds_some = false;
        for entry in manifest.entries().iter().filter(|entry| entry.is_alive()) {
            live.remove(entry.file_path());
            holds_some |= wanted.contains(entry.file_path());
        }
        if !holds_some {
            removed.manifests.push(listed);
            continue;
        }
        let location = format!("{folder}/{}-without.avro", ids.uuid_text());
        let doing = format!("write {} without some of its files as {location}", listed.manifest_path);
        let (manifest, files) = without(&listed, &manifest, &mut wanted, plan, &location, snapshot_id, io)
            .await
            .map_err(Error::file(doing))?;
        removed.moved += u64::from(manifest.existing_files_count.unwrap_or(0));
        removed.rewritten += 1;
        removed.files.extend(files.into_iter().map(|file| (listed.partition_spec_id, file)));
        removed.manifests.push(manifest);
    }
    let gone = |path: &str, why: &str| {
        let detail = format!("{path}, {why}, is no longer in the table");
        Error::from(catalog::Error::Conflict { table: base.name.clone(), detail })
    };
    if let Some(path) = wanted.first() {
        return Err(gone(path, "which the commit removes"));
    }
    match live.first() {
        Some(path) => Err(gone(path, "whose rows the commit deletes")),
        None => Ok(removed),
    }
}

/// Reads a manifest.
pub(super) async fn load(listed: &ManifestFile, io: &FileIO) -> Result<Manifest, Error> {
    listed.load_manifest(io).await.map_err(Error::file(format!("read the manifest {}", listed.manifest_path)))
}

/// Writes a manifest's live entries anew, those of some files as deleted. Takes these out of what is wanted.
async fn without(
    listed: &ManifestFile,
    manifest: &Manifest,
    wanted: &mut BTreeSet<&str>,
    plan: &Plan,
    location: &str,
    snapshot_id: i64,
    io: &FileIO,
) -> iceberg::Result<(ManifestFile, Vec<DataFile>)> {
    // The schema that the partition values were written under: a later one may lack their columns.
    let (schema, spec) = (manifest.metadata().schema(), manifest.metadata().partition_spec());
    let content = listed.content.into();
    let mut writer = manifest_writer(io, location, plan.format_version, content, snapshot_id, schema, spec)?;
    let mut files = Vec::new();
    for entry in manifest.entries().iter().filter(|entry| entry.is_alive()) {
        let (snapshot, sequence) = numbers(entry, &listed.manifest_path)?;
        let file = entry.data_file.clone();
        if wanted.remove(entry.file_path()) {
            files.push(file.clone());
            writer.add_delete_file(file, sequence, entry.file_sequence_number)?;
        } else {
            writer.add_existing_file(file, snapshot, sequence, entry.file_sequence_number)?;
        }
    }
    Ok((writer.write_manifest_file().await?, files))
}

/// Snapshot and data sequence number of a live entry, which it has inherited where it does not hold them.
pub(super) fn numbers(entry: &ManifestEntry, path: &str) -> iceberg::Result<(i64, i64)> {
    entry.snapshot_id.zip(entry.sequence_number).ok_or_else(|| {
        let what = format!("{path} has an entry without snapshot or sequence number");
        iceberg::Error::new(iceberg::ErrorKind::DataInvalid, what)
    })
}

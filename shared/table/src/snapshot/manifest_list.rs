//! Reading a snapshot's manifest list.

use iceberg::io::FileIO;
use iceberg::spec::{FormatVersion, ManifestFile, ManifestList, Snapshot, TableMetadata};

use super::Error;

/// The manifests of a snapshot, in the order of its list.
///
/// # Errors
/// [`Error::Unsupported`] for an encrypted list; otherwise the storage's, or `Corrupt` where the list is not one.
pub async fn manifests(table: &TableMetadata, snapshot: &Snapshot, io: &FileIO) -> Result<Vec<ManifestFile>, Error> {
    if snapshot.encryption_key_id().is_some() {
        return Err(Error::Unsupported(format!("snapshot {} is encrypted, which is not read", snapshot.snapshot_id())));
    }
    let location = snapshot.manifest_list();
    let fault = || Error::file(format!("read the manifest list {location}"));
    let bytes = io.new_input(location).map_err(fault())?.read().await.map_err(fault())?;
    // A list written before the table was upgraded keeps its older form.
    let older: &[FormatVersion] = match table.format_version() {
        FormatVersion::V1 => &[],
        FormatVersion::V2 => &[FormatVersion::V1],
        FormatVersion::V3 => &[FormatVersion::V2, FormatVersion::V1],
    };
    let list = older
        .iter()
        .fold(ManifestList::parse_with_version(&bytes, table.format_version()), |found, version| {
            found.or_else(|e| ManifestList::parse_with_version(&bytes, *version).map_err(|_| e))
        })
        .map_err(fault())?;
    Ok(list.consume_entries().into_iter().collect())
}

//! What may not have happened since a plan was made: rows deleted of files that it takes away, which would come back with what
//! it puts in their place.

use iceberg::io::FileIO;
use iceberg::spec::{DataContentType, DataFile, ManifestContentType, ManifestFile};

use super::{Error, Plan, removal};
use crate::catalog::{self, Loaded};

/// Looks at delete files that are younger than a plan.
///
/// # Errors
/// `Conflict` where one of them may hold for a file of which the plan took no row to be deleted; otherwise the storage's.
pub(super) async fn check(base: &Loaded, manifests: &[ManifestFile], plan: &Plan, io: &FileIO) -> Result<(), Error> {
    if plan.undeleted.is_empty() || base.metadata.last_sequence_number() == plan.made_at {
        return Ok(());
    }
    let deletes = manifests.iter().filter(|listed| listed.content == ManifestContentType::Deletes);
    for listed in deletes.filter(|listed| listed.sequence_number > plan.made_at) {
        let manifest = removal::load(listed, io).await?;
        for entry in manifest.entries().iter().filter(|entry| entry.is_alive()) {
            let is_younger = entry.sequence_number.is_none_or(|number| number > plan.made_at);
            if is_younger && let Some(path) = concerned(plan, entry.data_file()) {
                let detail = format!("{} has deleted rows of {path} since", entry.file_path());
                return Err(catalog::Error::Conflict { table: base.name.clone(), detail }.into());
            }
        }
    }
    Ok(())
}

/// A file whose rows a delete file may be about. One that does not name its data file may be about any.
fn concerned<'p>(plan: &'p Plan, deletes: &DataFile) -> Option<&'p str> {
    let own = match (deletes.content_type(), deletes.referenced_data_file()) {
        (DataContentType::PositionDeletes, Some(path)) => plan.undeleted.get(&path),
        _ => plan.undeleted.first(),
    };
    own.map(String::as_str)
}

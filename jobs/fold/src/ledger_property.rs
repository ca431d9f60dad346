//! The ledger's two homes: a table property, or an object that the property names.

use std::collections::BTreeMap;

use bytes::Bytes;
use iceberg::spec::TableMetadata;
use model::id::{CommitId, PipelineId, TableUuid};
use model::ledger::{Ledger, PROPERTIES, PROPERTY_BYTES_MAX, Pointer};
use model::stored::Tag;
use sha2::{Digest, Sha256};
use staging::key;
use staging::store::Store;

use crate::error::Error;

/// The ledger properties of a table, by the text of their pipelines' ids: in one order, so that what is read for them is
/// read in the same order every time.
pub(crate) fn all(metadata: &TableMetadata) -> BTreeMap<&str, &str> {
    let pairs = metadata.properties().iter();
    pairs.filter_map(|(name, text)| Some((name.strip_prefix(PROPERTIES)?, text.as_str()))).collect()
}

/// The name of the property of the pipeline with such an id.
pub(crate) fn name(id: &str) -> String {
    format!("{PROPERTIES}{id}")
}

/// The property's text for a ledger. One that is too large for a property is stored first, as an object that is never
/// changed: a property that names it is only ever committed after it is durable.
pub(crate) async fn write(
    store: &dyn Store,
    pipeline: &PipelineId,
    table: &TableUuid,
    commit: &CommitId,
    ledger: &Ledger,
) -> Result<String, Error> {
    let text = serde_json::to_string(ledger)?;
    if text.len() <= PROPERTY_BYTES_MAX {
        return Ok(text);
    }
    let object = key::ledger(pipeline, table, commit);
    let pointer = Pointer { schema: Tag::of::<Ledger>(), sha256: digest(text.as_bytes()), object };
    store.put_new(&pointer.object, Bytes::from(text)).await?;
    Ok(serde_json::to_string(&pointer)?)
}

/// Reads the ledger behind a property.
pub(crate) async fn read(store: &dyn Store, property: &str, text: &str) -> Result<Ledger, Error> {
    let fault = |source| Error::Ledger { what: format!("the table property `{property}`"), source };
    let Ok(pointer) = serde_json::from_str::<Pointer>(text) else {
        return Ledger::from_json(text).map_err(fault);
    };
    pointer.schema.check::<Ledger>().map_err(|e| fault(e.into()))?;
    let stopped = |message| Error::Stopped {
        code: "fold.ledger_object",
        message,
        remedy: "restore the object from the bucket's versions, or rebuild the ledger by `frazil recover`".to_owned(),
    };
    let bytes = match store.get(&pointer.object).await {
        Err(staging::store::Error::NotFound { .. }) => {
            return Err(stopped(format!("the ledger's object `{}` is gone", pointer.object)));
        }
        other => other?,
    };
    if digest(&bytes) != pointer.sha256 {
        return Err(stopped(format!("the ledger's object `{}` is not the one that was written", pointer.object)));
    }
    let text = String::from_utf8_lossy(&bytes);
    Ledger::from_json(&text).map_err(|source| Error::Ledger { what: pointer.object.clone(), source })
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

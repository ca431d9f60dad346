//! Finding what is staged.

use model::clock::{Minute, Timestamp};
use model::id::PipelineId;

use crate::key::{StagedKey, staging_prefix, start_after};
use crate::store::{Error, Operation, Store};

/// Objects that one pass holds in memory. A backlog of this size is 20 billion records in full batches, and about 400 MB
/// of keys; more than that is not folded by listing it.
pub const OBJECTS_MAX: usize = 2_000_000;

/// One staged object as listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Its key.
    pub key: StagedKey,
    /// Bytes of its body.
    pub size: u64,
}

/// One pass over a pipeline's staged objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// In byte order of their keys, which is order of minute.
    pub objects: Vec<Listed>,
    /// What stands under the prefix and is no staged object of this pipeline: reported, never folded, never deleted.
    pub foreign: Vec<String>,
    /// The store's time of the first answer: whatever was acknowledged before it is in the listing.
    pub date: Timestamp,
}

/// Two passes, the second begun after the first had ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passes {
    /// The objects that may be folded.
    pub first: Listing,
    /// What must be looked at for lower offsets of the same partitions. Holds every object of the first pass that has not
    /// been deleted meanwhile.
    pub second: Listing,
}

/// Lists the staged objects of a pipeline from a minute on, or all of them.
///
/// # Errors
/// When the store fails, its pages are out of order ([`Error::Corrupt`]), or there are more than [`OBJECTS_MAX`]
/// ([`Error::Misconfigured`]).
pub async fn list_all(store: &dyn Store, pipeline: &PipelineId, low_minute: Option<Minute>) -> Result<Listing, Error> {
    let prefix = staging_prefix(pipeline);
    let after = low_minute.map(|minute| start_after(pipeline, minute));
    let (mut objects, mut foreign) = (Vec::new(), Vec::new());
    let mut date: Option<Timestamp> = None;
    let mut continuation: Option<String> = None;
    let mut last_key = String::new();
    let mut pages_empty = 0usize;
    loop {
        let page = store.list(&prefix, after.as_deref(), continuation.as_deref()).await?;
        let first_date = *date.get_or_insert(page.date);
        pages_empty = if page.objects.is_empty() { pages_empty + 1 } else { 0 };
        for object in page.objects {
            // A page that goes back would make a pass without end, or hide a key.
            if object.key <= last_key || !object.key.starts_with(&prefix) {
                return Err(corrupt(prefix, format!("`{}` was listed after `{last_key}`", object.key)));
            }
            last_key.clone_from(&object.key);
            match object.key.parse::<StagedKey>() {
                Ok(key) => objects.push(Listed { key, size: object.size }),
                Err(_) => foreign.push(object.key),
            }
        }
        if objects.len() + foreign.len() > OBJECTS_MAX {
            return Err(Error::Misconfigured {
                operation: Operation::List,
                key: prefix,
                message: format!("more than {OBJECTS_MAX} staged objects are waiting: fold more often, or by Spark"),
                source: None,
            });
        }
        match page.next {
            // S3 may answer with an empty page in the middle; without a bound a store that only did so would hold us.
            Some(_) if pages_empty > 1000 => return Err(corrupt(prefix, "a thousand empty pages".to_owned())),
            Some(next) => continuation = Some(next),
            None => return Ok(Listing { objects, foreign, date: first_date }),
        }
    }
}

/// Lists twice, as a fold must: by I1 and in-order delivery, when an object of the first pass covers an offset, every
/// object that covers a lower offset of the same partition was durable before the second pass began, so it is in the
/// second pass or below `low_minute`. One pass is not enough: its early pages are older than its late ones.
///
/// # Errors
/// As [`list_all`].
pub async fn two_passes(store: &dyn Store, pipeline: &PipelineId, low_minute: Option<Minute>) -> Result<Passes, Error> {
    let first = list_all(store, pipeline, low_minute).await?;
    let second = list_all(store, pipeline, low_minute).await?;
    Ok(Passes { first, second })
}

fn corrupt(key: String, message: String) -> Error {
    Error::Corrupt { operation: Operation::List, key, message }
}

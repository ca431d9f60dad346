//! Finding what is staged.

use model::clock::{Minute, Timestamp};
use model::id::PipelineId;
use model::mutation::{self, Mutation};

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
            None => {
                if mutation::on(Mutation::UpperBound) {
                    objects.retain(|object: &Listed| object.key.minute <= first_date.minute());
                }
                return Ok(Listing { objects, foreign, date: first_date });
            }
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
    if mutation::on(Mutation::OnePass) {
        return Ok(Passes { second: first.clone(), first });
    }
    let second = list_all(store, pipeline, low_minute).await?;
    Ok(Passes { first, second })
}

fn corrupt(key: String, message: String) -> Error {
    Error::Corrupt { operation: Operation::List, key, message }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::ops::Range;
    use std::sync::{Arc, Mutex};

    use async_trait::async_trait;
    use bytes::Bytes;
    use model::clock::ManualClock;
    use model::failure::Kind;

    use super::*;
    use crate::key::ObjectHash;
    use crate::local::LocalStore;
    use crate::store::{ObjectMeta, Page, Put};

    fn pipeline() -> PipelineId {
        "orders-00ff00ff".parse().unwrap()
    }

    fn minute(n: i64) -> Minute {
        Timestamp::from_micros(0).minute().plus(n)
    }

    fn key(pipeline: &str, at: i64, hash: u128) -> String {
        StagedKey { pipeline: pipeline.parse().unwrap(), minute: minute(at), hash: ObjectHash::new(hash) }.to_string()
    }

    #[tokio::test]
    async fn what_is_staged_is_listed_once_in_order_of_minutes() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(42)));
        let store = LocalStore::open(folder.path(), clock).unwrap().with_page_objects(2);
        let empty = list_all(&store, &pipeline(), None).await.unwrap();
        assert_eq!(empty, Listing { objects: vec![], foreign: vec![], date: Timestamp::from_micros(42) });
        for (at, hash) in [(1500, 1), (3, 9), (3, 2), (59, 5), (60, 4)] {
            store.put_new(&key("orders-00ff00ff", at, hash), Bytes::from(vec![0; hash as usize])).await.unwrap();
        }
        let foreign = "staging/orders-00ff00ff/1970-01-01/00/03/README.md";
        for other in [foreign, &key("orders-00ff00fe", 3, 1), &key("orders-00ff00ff-00ff00ff", 3, 1)] {
            store.put_new(other, Bytes::new()).await.unwrap();
        }
        let check = async |low: Option<i64>, want: &[(i64, u64)], foreign: &[&str]| {
            let listing = list_all(&store, &pipeline(), low.map(minute)).await.unwrap();
            let got: Vec<_> = listing.objects.iter().map(|o| (o.key.minute, o.size)).collect();
            assert_eq!(got, want.iter().map(|(at, size)| (minute(*at), *size)).collect::<Vec<_>>(), "{low:?}");
            assert_eq!(listing.foreign, foreign, "{low:?}");
        };
        check(None, &[(3, 2), (3, 9), (59, 5), (60, 4), (1500, 1)], &[foreign]).await;
        check(Some(3), &[(3, 2), (3, 9), (59, 5), (60, 4), (1500, 1)], &[foreign]).await;
        check(Some(4), &[(59, 5), (60, 4), (1500, 1)], &[]).await;
        check(Some(60), &[(60, 4), (1500, 1)], &[]).await;
        check(Some(1501), &[], &[]).await;
    }

    /// Gives pages as scripted, one a call.
    #[derive(Debug)]
    struct Scripted(Mutex<VecDeque<Page>>);

    #[async_trait]
    impl Store for Scripted {
        async fn put_new(&self, _: &str, _: Bytes) -> Result<Put, Error> {
            unreachable!("only listed")
        }
        async fn put(&self, _: &str, _: Bytes) -> Result<Timestamp, Error> {
            unreachable!("only listed")
        }
        async fn get(&self, _: &str) -> Result<Bytes, Error> {
            unreachable!("only listed")
        }
        async fn get_range(&self, _: &str, _: Range<u64>) -> Result<Bytes, Error> {
            unreachable!("only listed")
        }
        async fn head(&self, _: &str) -> Result<Option<ObjectMeta>, Error> {
            unreachable!("only listed")
        }
        async fn list(&self, _: &str, _: Option<&str>, _: Option<&str>) -> Result<Page, Error> {
            let mut pages = self.0.lock().unwrap();
            // The last page again and again, as a store caught in a circle would.
            Ok(if pages.len() > 1 { pages.pop_front().unwrap() } else { pages.front().unwrap().clone() })
        }
        async fn delete(&self, _: &str) -> Result<(), Error> {
            unreachable!("only listed")
        }
    }

    fn page(hashes: &[u128], date: i64, more: bool) -> Page {
        let object = |hash: &u128| ObjectMeta { key: key("orders-00ff00ff", 3, *hash), size: 1 };
        let next = more.then(|| "more".to_owned());
        Page { objects: hashes.iter().map(object).collect(), next, date: Timestamp::from_micros(date) }
    }

    #[tokio::test]
    async fn the_second_pass_sees_what_came_during_the_first_and_dates_are_of_first_answers() {
        let pages = [page(&[5], 1, true), page(&[6], 2, false), page(&[4, 5], 3, true), page(&[6, 7], 4, false)];
        let store = Scripted(Mutex::new(pages.into()));
        let passes = two_passes(&store, &pipeline(), None).await.unwrap();
        let hashes = |l: &Listing| l.objects.iter().map(|o| o.key.hash.value()).collect::<Vec<_>>();
        assert_eq!((hashes(&passes.first), hashes(&passes.second)), (vec![5, 6], vec![4, 5, 6, 7]));
        let dates = (passes.first.date, passes.second.date);
        assert_eq!(dates, (Timestamp::from_micros(1), Timestamp::from_micros(3)));
    }

    #[tokio::test]
    async fn a_listing_that_goes_in_circles_is_found_out() {
        for pages in [
            vec![page(&[5, 4], 1, false)],
            vec![page(&[5], 1, true)],
            vec![page(&[5], 1, true), page(&[4], 1, false)],
            vec![page(&[], 1, true)],
        ] {
            let store = Scripted(Mutex::new(pages.into()));
            assert_eq!(list_all(&store, &pipeline(), None).await.unwrap_err().kind(), Kind::Corrupt);
        }
    }
}

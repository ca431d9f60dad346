//! The store that is not there yet.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use model::clock::{Clock, Timestamp};
use staging::store::{Error, ObjectMeta, Operation, Page, Put, Store};

/// Empty, and refuses to be anything else: what a dry run sees before the first real one.
#[derive(Clone, Debug)]
pub(super) struct Nowhere(pub(super) Arc<dyn Clock>);

fn refused<T>(operation: Operation, key: &str) -> Result<T, Error> {
    let message = "a dry run stores nothing".to_owned();
    Err(Error::Misconfigured { operation, key: key.to_owned(), message, source: None })
}

#[async_trait]
impl Store for Nowhere {
    async fn put_new(&self, key: &str, _body: Bytes) -> Result<Put, Error> {
        refused(Operation::PutNew, key)
    }

    async fn put(&self, key: &str, _body: Bytes) -> Result<Timestamp, Error> {
        refused(Operation::Put, key)
    }

    async fn get(&self, key: &str) -> Result<Bytes, Error> {
        Err(Error::NotFound { key: key.to_owned() })
    }

    async fn get_range(&self, key: &str, _range: Range<u64>) -> Result<Bytes, Error> {
        Err(Error::NotFound { key: key.to_owned() })
    }

    async fn head(&self, _key: &str) -> Result<Option<ObjectMeta>, Error> {
        Ok(None)
    }

    async fn list(&self, _prefix: &str, _after: Option<&str>, _continuation: Option<&str>) -> Result<Page, Error> {
        Ok(Page { objects: Vec::new(), next: None, date: self.0.now() })
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        refused(Operation::Delete, key)
    }
}

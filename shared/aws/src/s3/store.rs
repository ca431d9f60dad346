//! The store in a bucket.

use std::ops::Range;

use async_trait::async_trait;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::EncodingType;
use bytes::Bytes;
use model::clock::Timestamp;
use percent_encoding::percent_decode_str;
use staging::store::{Error, KEY_BYTES_MAX, ObjectMeta, Operation, Page, Put, Store, check_key};

use super::S3;
use super::call::{Call, Wire};
use super::{fault, put};

/// How the names of directory buckets end.
const DIRECTORY_BUCKET: &str = "--x-s3";
/// Times a body is asked for when it breaks off on the way.
const BODIES_MAX: u32 = 3;
/// S3 gives this many by itself.
const PAGE_OBJECTS: i32 = 1000;

/// Objects of a bucket, under a prefix.
///
/// All calls but [`Store::put_new`] may be repeated by the SDK, a few times, after answers that say nothing was done and
/// after none: reading changes nothing, an object that replaces is the same the second time, and what is deleted twice is
/// deleted. The conditional put is another matter: see there.
#[derive(Clone, Debug)]
pub struct S3Store {
    s3: S3,
    bucket: String,
    /// Empty, or ending with a slash.
    prefix: String,
    page_objects: i32,
}

impl S3Store {
    pub(super) fn new(s3: S3, bucket: &str, prefix: &str) -> Result<Self, Error> {
        let prefix = prefix.trim_matches('/');
        if !prefix.is_empty() {
            check_key(prefix)?;
        }
        if bucket.is_empty() || bucket.contains('/') || bucket.ends_with(DIRECTORY_BUCKET) {
            return Err(Error::Misconfigured {
                operation: Operation::List,
                key: format!("s3://{bucket}/{prefix}"),
                message: "a store needs a general purpose bucket: a directory bucket does not list in order".to_owned(),
                source: None,
            });
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Self { s3, bucket: bucket.to_owned(), prefix, page_objects: PAGE_OBJECTS })
    }

    /// The same store with smaller pages (at least one object each).
    #[must_use]
    pub fn with_page_objects(self, objects: u16) -> Self {
        Self { page_objects: i32::from(objects).clamp(1, PAGE_OBJECTS), ..self }
    }

    /// The key in the bucket.
    fn key(&self, key: &str) -> Result<String, Error> {
        check_key(key)?;
        let whole = format!("{}{key}", self.prefix);
        if whole.len() > KEY_BYTES_MAX {
            return Err(Error::BadKey { key: whole, fault: "with the store's prefix it is longer than 1024 bytes" });
        }
        Ok(whole)
    }

    fn call<'a>(&'a self, operation: Operation, name: &'a str, key: &'a str) -> Call<'a> {
        Call { s3: &self.s3, operation, name, bucket: &self.bucket, key }
    }
}

#[async_trait]
impl Store for S3Store {
    async fn put_new(&self, key: &str, body: Bytes) -> Result<Put, Error> {
        let whole = self.key(key)?;
        put::put_new(&self.call(Operation::PutNew, key, &whole), body).await
    }

    async fn put(&self, key: &str, body: Bytes) -> Result<Timestamp, Error> {
        let whole = self.key(key)?;
        let (call, wire) = (self.call(Operation::Put, key, &whole), Wire::default());
        let request = self.s3.client.put_object().bucket(&self.bucket).key(&whole).body(ByteStream::from(body));
        let sent = request.customize().interceptor(wire.clone()).send().await;
        sent.map_err(|e| fault::of(&call, e, &wire))?;
        wire.date(&call)
    }

    async fn get(&self, key: &str) -> Result<Bytes, Error> {
        let whole = self.key(key)?;
        get(&self.call(Operation::Get, key, &whole), None).await
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, Error> {
        let whole = self.key(key)?;
        let call = self.call(Operation::GetRange, key, &whole);
        if !range.is_empty() {
            return get(&call, Some(range)).await;
        }
        match size(&call).await? {
            Some(_) => Ok(Bytes::new()),
            None => Err(Error::NotFound { key: key.to_owned() }),
        }
    }

    async fn head(&self, key: &str) -> Result<Option<ObjectMeta>, Error> {
        let whole = self.key(key)?;
        let size = size(&self.call(Operation::Head, key, &whole)).await?;
        Ok(size.map(|size| ObjectMeta { key: key.to_owned(), size }))
    }

    async fn list(&self, prefix: &str, start_after: Option<&str>, continuation: Option<&str>) -> Result<Page, Error> {
        let whole = format!("{}{prefix}", self.prefix);
        let (call, wire) = (self.call(Operation::List, prefix, &whole), Wire::default());
        let after = start_after.filter(|_| continuation.is_none()).map(|after| format!("{}{after}", self.prefix));
        let request = self
            .s3
            .client
            .list_objects_v2()
            .bucket(&self.bucket)
            .prefix(&whole)
            .max_keys(self.page_objects)
            // XML can't hold every character that a key may, and one foreign object must not stop a listing.
            .encoding_type(EncodingType::Url)
            .set_start_after(after)
            .set_continuation_token(continuation.map(str::to_owned));
        let sent = request.customize().interceptor(wire.clone()).send().await;
        let answer = sent.map_err(|e| fault::of(&call, e, &wire))?;
        let corrupt = |message| Error::Corrupt { operation: Operation::List, key: prefix.to_owned(), message };
        let mut objects = Vec::with_capacity(answer.contents().len());
        for object in answer.contents() {
            let encoded = object.key().ok_or_else(|| corrupt("an object without a key".to_owned()))?;
            let key = decoded(encoded).ok_or_else(|| corrupt(format!("the key {encoded:?} is not UTF-8")))?;
            let Some(key) = key.strip_prefix(&self.prefix).filter(|key| key.starts_with(prefix)) else {
                return Err(corrupt(format!("the object `{key}` was not asked for")));
            };
            // What consoles make to show a folder; no key of a store ends so.
            if key.is_empty() || key.ends_with('/') {
                continue;
            }
            let size = object.size().and_then(|size| u64::try_from(size).ok());
            let size = size.ok_or_else(|| corrupt(format!("`{key}` has no size")))?;
            objects.push(ObjectMeta { key: key.to_owned(), size });
        }
        let next = match (answer.is_truncated(), answer.next_continuation_token()) {
            (Some(true), None) => return Err(corrupt("more follows, and it is not said how to ask for it".to_owned())),
            (Some(true), Some(token)) => Some(token.to_owned()),
            _ => None,
        };
        Ok(Page { objects, next, date: wire.date(&call)? })
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        let whole = self.key(key)?;
        delete(&self.call(Operation::Delete, key, &whole)).await
    }
}

/// A listed key: percent-encoded, a space as `+`.
fn decoded(encoded: &str) -> Option<String> {
    let spaced = encoded.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().ok().map(|key| key.into_owned())
}

/// An object's bytes, or those in a range that is not empty, cut at the object's end.
pub(super) async fn get(call: &Call<'_>, range: Option<Range<u64>>) -> Result<Bytes, Error> {
    // The last byte, not the one after it; a number no object reaches would be refused by some services.
    let wanted = range.as_ref().map(|range| match range.end {
        end if end > i64::MAX as u64 => format!("bytes={}-", range.start),
        end => format!("bytes={}-{}", range.start, end - 1),
    });
    let mut attempt = 1;
    loop {
        let wire = Wire::default();
        let request = call.s3.client.get_object().bucket(call.bucket).key(call.key).set_range(wanted.clone());
        let answer = match request.customize().interceptor(wire.clone()).send().await {
            Ok(answer) => answer,
            Err(error) if fault::status(&error) == Some(416) && range.is_some() => return Ok(Bytes::new()),
            Err(error) => return Err(fault::of(call, error, &wire)),
        };
        match answer.body.collect().await {
            Ok(body) => {
                let body = body.into_bytes();
                if range.as_ref().is_some_and(|range| body.len() as u64 > range.end - range.start) {
                    let message = format!("{} bytes came for {wanted:?}", body.len());
                    return Err(Error::Corrupt { operation: call.operation, key: call.name.to_owned(), message });
                }
                return Ok(body);
            }
            // The SDK repeats a request, not a body that breaks off.
            Err(error) if attempt == BODIES_MAX => return Err(fault::cut_off(call, error)),
            Err(_) => attempt += 1,
        }
    }
}

/// The size of an object, if there is one. (HEAD has no body: a bucket that is not there has no objects either.)
pub(super) async fn size(call: &Call<'_>) -> Result<Option<u64>, Error> {
    let wire = Wire::default();
    let request = call.s3.client.head_object().bucket(call.bucket).key(call.key);
    match request.customize().interceptor(wire.clone()).send().await {
        Ok(answer) => {
            let size = answer.content_length().and_then(|size| u64::try_from(size).ok());
            let message = "the answer has no length".to_owned();
            let corrupt = Error::Corrupt { operation: call.operation, key: call.name.to_owned(), message };
            size.ok_or(corrupt).map(Some)
        }
        Err(error) => match fault::of(call, error, &wire) {
            Error::NotFound { .. } => Ok(None),
            error => Err(error),
        },
    }
}

/// Removes an object; S3 says the same whether it was there or not.
pub(super) async fn delete(call: &Call<'_>) -> Result<(), Error> {
    let wire = Wire::default();
    let request = call.s3.client.delete_object().bucket(call.bucket).key(call.key);
    let sent = request.customize().interceptor(wire.clone()).send().await;
    sent.map(|_| ()).map_err(|e| fault::of(call, e, &wire))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_keys_are_decoded() {
        for (encoded, key) in
            [("a/b%20c", "a/b c"), ("a+b", "a b"), ("a%2Bb%2520", "a+b%20"), ("%D0%BA", "к"), ("plain", "plain")]
        {
            assert_eq!(decoded(encoded).as_deref(), Some(key));
        }
        assert_eq!(decoded("%FF"), None);
    }
}

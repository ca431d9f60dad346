//! Iceberg's files in buckets.
//!
//! A location is a string, as everywhere in frazil: what follows `s3://BUCKET/` is the key, letter by letter. Files are
//! written once. A file appears whole or not at all, and a name that is taken is refused: every name of a table carries a
//! UUID, so a second write under one name is never an update.

use std::fmt;
use std::io;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use iceberg::io::{FileMetadata, FileRead, FileWrite, InputFile, OutputFile, Storage};
use iceberg::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use staging::store::Operation;

use super::S3;
use super::call::Call;
use super::store;
use super::upload::{Upload, WriteError};

/// What the bucket of a table's files is called in S3 Tables, and no other bucket may be.
const OF_S3_TABLES: &str = "--table-s3";

/// Files at `s3://` locations.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct S3Storage {
    // A client can't be written down; a storage read back says so when it is used.
    #[serde(skip)]
    s3: Option<S3>,
}

impl S3Storage {
    /// Over a client.
    #[must_use]
    pub const fn new(s3: S3) -> Self {
        Self { s3: Some(s3) }
    }

    fn file(&self, location: &str) -> Result<File> {
        let s3 = self.s3.clone().ok_or_else(|| {
            Error::new(ErrorKind::FeatureUnsupported, "this storage lives in one process and can't be sent to another")
        })?;
        let (bucket, key) = split(location)?;
        Ok(File { s3, bucket: bucket.to_owned(), key: key.to_owned(), location: location.to_owned() })
    }
}

/// The bucket and the key of a location: `s3://…`, or `s3a://…` and `s3n://…` as Hadoop writes it.
fn split(location: &str) -> Result<(&str, &str)> {
    let refuse = |why: &str| Error::new(ErrorKind::FeatureUnsupported, format!("`{location}` {why}"));
    let rest = ["s3://", "s3a://", "s3n://"].iter().find_map(|scheme| location.strip_prefix(scheme));
    let (bucket, key) = rest.ok_or_else(|| refuse("is not in S3"))?.split_once('/').unwrap_or_default();
    if bucket.is_empty() || key.is_empty() {
        return Err(refuse("names no object: it takes s3://BUCKET/KEY"));
    }
    Ok((bucket, key))
}

/// One file's place.
#[derive(Clone)]
pub(super) struct File {
    pub(super) s3: S3,
    pub(super) bucket: String,
    pub(super) key: String,
    pub(super) location: String,
}

impl File {
    pub(super) fn call(&self, operation: Operation) -> Call<'_> {
        Call { s3: &self.s3, operation, name: &self.location, bucket: &self.bucket, key: &self.key }
    }

    fn fault(&self, doing: &str, source: staging::store::Error) -> Error {
        fault(&self.location, doing, source)
    }
}

/// In the words that [`table::storage::kind_of`] reads kinds from.
fn fault(location: &str, doing: &str, source: staging::store::Error) -> Error {
    use staging::store::Error as Fault;
    let (kind, cause, again) = match source {
        // Metadata named it.
        Fault::NotFound { .. } => (ErrorKind::DataInvalid, io::ErrorKind::NotFound, false),
        Fault::Corrupt { .. } => (ErrorKind::DataInvalid, io::ErrorKind::InvalidData, false),
        Fault::Misconfigured { .. } => (ErrorKind::Unexpected, io::ErrorKind::PermissionDenied, false),
        Fault::BadKey { .. } => (ErrorKind::Unexpected, io::ErrorKind::InvalidInput, false),
        // Of a file nobody knows of yet: under a new name it may be written again.
        Fault::Retry { .. } | Fault::OutcomeUnknown { .. } => (ErrorKind::Unexpected, io::ErrorKind::Other, true),
    };
    Error::new(kind, format!("could not {doing} `{location}`"))
        .with_source(io::Error::new(cause, source))
        .with_retryable(again)
}

fn write_fault(location: &str, error: WriteError) -> Error {
    match error {
        WriteError::Taken => Error::new(ErrorKind::PreconditionFailed, format!("could not write `{location}`"))
            .with_source(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file of this name")),
        WriteError::TooLarge => {
            Error::new(ErrorKind::FeatureUnsupported, format!("`{location}` has more parts than S3 takes"))
        }
        WriteError::Store(source) => fault(location, "write", source),
    }
}

#[async_trait]
#[typetag::serde(name = "frazil.s3")]
impl Storage for S3Storage {
    async fn exists(&self, path: &str) -> Result<bool> {
        let file = self.file(path)?;
        let size = store::size(&file.call(Operation::Head)).await;
        size.map(|size| size.is_some()).map_err(|e| file.fault("look for", e))
    }

    async fn metadata(&self, path: &str) -> Result<FileMetadata> {
        let file = self.file(path)?;
        match store::size(&file.call(Operation::Head)).await {
            Ok(Some(size)) => Ok(FileMetadata { size }),
            Ok(None) => Err(file.fault("look at", staging::store::Error::NotFound { key: path.to_owned() })),
            Err(e) => Err(file.fault("look at", e)),
        }
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        let file = self.file(path)?;
        store::get(&file.call(Operation::Get), None).await.map_err(|e| file.fault("read", e))
    }

    /// Asks for nothing yet: each read names its bytes, and finds out.
    async fn reader(&self, path: &str) -> Result<Box<dyn FileRead>> {
        Ok(Box::new(S3Reader { file: self.file(path)? }))
    }

    async fn write(&self, path: &str, bs: Bytes) -> Result<()> {
        let mut writer = self.writer(path).await?;
        writer.write(bs).await?;
        writer.close().await
    }

    /// Asks for nothing yet: a small file is one request, made when it is closed.
    async fn writer(&self, path: &str) -> Result<Box<dyn FileWrite>> {
        let file = self.file(path)?;
        Ok(Box::new(S3Writer { upload: Some(Upload::new(file)), location: path.to_owned() }))
    }

    /// A file that is not there counts as deleted, and so does one of S3 Tables, which takes no such request and removes what no snapshot
    /// of the table names by itself.
    async fn delete(&self, path: &str) -> Result<()> {
        let file = self.file(path)?;
        if file.bucket.ends_with(OF_S3_TABLES) {
            return Ok(());
        }
        store::delete(&file.call(Operation::Delete)).await.map_err(|e| file.fault("delete", e))
    }

    /// Refused: nothing in frazil removes files it has not named one by one.
    async fn delete_prefix(&self, path: &str) -> Result<()> {
        Err(Error::new(ErrorKind::FeatureUnsupported, format!("files under `{path}` are only ever deleted one by one")))
    }

    async fn delete_stream(&self, mut paths: BoxStream<'static, String>) -> Result<()> {
        while let Some(path) = paths.next().await {
            self.delete(&path).await?;
        }
        Ok(())
    }

    fn new_input(&self, path: &str) -> Result<InputFile> {
        Ok(InputFile::new(std::sync::Arc::new(self.clone()), path.to_owned()))
    }

    fn new_output(&self, path: &str) -> Result<OutputFile> {
        Ok(OutputFile::new(std::sync::Arc::new(self.clone()), path.to_owned()))
    }
}

struct S3Reader {
    file: File,
}

impl fmt::Debug for S3Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("S3Reader").field(&self.file.location).finish()
    }
}

#[async_trait]
impl FileRead for S3Reader {
    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let short = |found: usize| {
            let why = format!("bytes {range:?} of `{}` were asked for, {found} are there", self.file.location);
            Error::new(ErrorKind::DataInvalid, why)
        };
        // A damaged footer may ask for any range. S3 gives no more than there is.
        let length = range.end.checked_sub(range.start).ok_or_else(|| short(0))?;
        if length == 0 {
            return Ok(Bytes::new());
        }
        let call = self.file.call(Operation::GetRange);
        let bytes = store::get(&call, Some(range.clone())).await.map_err(|e| self.file.fault("read", e))?;
        if bytes.len() as u64 == length { Ok(bytes) } else { Err(short(bytes.len())) }
    }
}

struct S3Writer {
    /// Gone once the file is closed, or a write to it failed: a shorter file must not come of a later close.
    upload: Option<Upload>,
    location: String,
}

impl S3Writer {
    fn take(&mut self) -> Result<Upload> {
        self.upload.take().ok_or_else(|| {
            Error::new(ErrorKind::Unexpected, format!("`{}` is closed, or a write to it failed", self.location))
        })
    }
}

#[async_trait]
impl FileWrite for S3Writer {
    async fn write(&mut self, bs: Bytes) -> Result<()> {
        let mut upload = self.take()?;
        match upload.write(bs).await {
            Ok(()) => {
                self.upload = Some(upload);
                Ok(())
            }
            Err(error) => {
                upload.abort().await;
                Err(write_fault(&self.location, error))
            }
        }
    }

    async fn close(&mut self) -> Result<()> {
        let mut upload = self.take()?;
        match upload.finish().await {
            Ok(()) => Ok(()),
            Err(error) => {
                upload.abort().await;
                Err(write_fault(&self.location, error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_a_bucket_and_a_key_letter_by_letter() {
        for (location, expected) in [
            ("s3://lake/w/t/data/k=a%2Fb/x y.parquet", ("lake", "w/t/data/k=a%2Fb/x y.parquet")),
            ("s3a://lake/a", ("lake", "a")),
            ("s3n://lake/a//b", ("lake", "a//b")),
        ] {
            assert_eq!(split(location).unwrap(), expected);
        }
        for bad in ["s3://lake", "s3://lake/", "s3:///key", "file:///lake/key", "/lake/key", "gs://lake/key", ""] {
            assert_eq!(split(bad).unwrap_err().kind(), ErrorKind::FeatureUnsupported, "{bad}");
        }
    }

    #[test]
    fn kinds_are_told_as_for_local_files() {
        use model::failure::Kind;
        use staging::store::Error as Fault;
        let (operation, key, message) = (Operation::Get, "k".to_owned(), "m".to_owned());
        for (error, kind) in [
            (Fault::NotFound { key: key.clone() }, Kind::Corrupt),
            (Fault::Corrupt { operation, key: key.clone(), message: message.clone() }, Kind::Corrupt),
            (
                Fault::Misconfigured { operation, key: key.clone(), message: message.clone(), source: None },
                Kind::Misconfigured,
            ),
            (Fault::Retry { operation, key: key.clone(), message: message.clone(), source: None }, Kind::Retry),
            (Fault::OutcomeUnknown { operation, key: key.clone(), message, source: None }, Kind::Retry),
            (Fault::BadKey { key, fault: "f" }, Kind::Bug),
        ] {
            let text = error.to_string();
            assert_eq!(table::storage::kind_of(&fault("s3://b/k", "read", error)), kind, "{text}");
        }
        assert_eq!(table::storage::kind_of(&write_fault("s3://b/k", WriteError::Taken)), Kind::Bug);
    }
}

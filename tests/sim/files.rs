//! The files of tables, at the other end of the same network.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;
use iceberg::io::{FileIO, FileMetadata, FileRead, FileWrite, InputFile, OutputFile, Storage};
use iceberg::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::world::Process;

/// What is written.
#[derive(Debug, Default)]
pub(crate) struct Disk(Mutex<BTreeMap<String, Bytes>>);

impl Disk {
    /// A file's bytes.
    pub(crate) fn read(&self, path: &str) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    /// Writes a file; false where the name is taken.
    pub(crate) fn write(&self, path: &str, bytes: Bytes) -> bool {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files.contains_key(path) {
            return false;
        }
        files.insert(path.to_owned(), bytes);
        true
    }

    fn delete(&self, path: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
    }
}

/// The files as one process reaches them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RemoteFiles {
    #[serde(skip)]
    disk: Arc<Disk>,
    /// Absent for a writer at which nothing fails.
    #[serde(skip)]
    process: Option<Arc<Process>>,
}

impl RemoteFiles {
    /// The files as a process reaches them.
    pub(crate) fn io(disk: &Arc<Disk>, process: Option<&Arc<Process>>) -> FileIO {
        table::storage::file_io(Arc::new(Self { disk: Arc::clone(disk), process: process.cloned() }))
    }

    async fn call(&self) {
        if let Some(process) = &self.process {
            process.call().await;
        }
    }

    async fn fetch(&self, path: &str) -> Result<Bytes> {
        self.call().await;
        if self.process.as_ref().is_some_and(|p| p.world.happens(Fault::GetRefused)) {
            return Err(Error::new(ErrorKind::Unexpected, "503 slow down").with_retryable(true));
        }
        self.disk.read(path).ok_or_else(|| {
            let missing = std::io::Error::new(std::io::ErrorKind::NotFound, path.to_owned());
            Error::new(ErrorKind::Unexpected, format!("there is no file {path}")).with_source(missing)
        })
    }

    async fn publish(&self, path: &str, bytes: Bytes) -> Result<()> {
        self.call().await;
        let failed = |what: &str| Err(Error::new(ErrorKind::Unexpected, what.to_owned()).with_retryable(true));
        let Some(process) = &self.process else {
            return if self.disk.write(path, bytes) { Ok(()) } else { taken(path) };
        };
        if process.world.happens(Fault::FileRefused) {
            return failed("503 slow down");
        }
        if !self.disk.write(path, bytes) {
            process.world.violated("stuck", format!("{} wrote {path} twice", process.name));
            return taken(path);
        }
        process.answered().await;
        if process.world.happens(Fault::FileAnswerLost) { failed("no answer") } else { Ok(()) }
    }
}

fn taken(path: &str) -> Result<()> {
    Err(Error::new(ErrorKind::DataInvalid, format!("there is a file {path} already")))
}

#[async_trait]
#[typetag::serde(name = "sim.files")]
impl Storage for RemoteFiles {
    async fn exists(&self, path: &str) -> Result<bool> {
        self.call().await;
        Ok(self.disk.read(path).is_some())
    }

    async fn metadata(&self, path: &str) -> Result<FileMetadata> {
        Ok(FileMetadata { size: self.fetch(path).await?.len() as u64 })
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        self.fetch(path).await
    }

    async fn reader(&self, path: &str) -> Result<Box<dyn FileRead>> {
        Ok(Box::new(Reader(self.fetch(path).await?)))
    }

    async fn write(&self, path: &str, bytes: Bytes) -> Result<()> {
        self.publish(path, bytes).await
    }

    async fn writer(&self, path: &str) -> Result<Box<dyn FileWrite>> {
        Ok(Box::new(Writer { files: self.clone(), path: path.to_owned(), bytes: BytesMut::new() }))
    }

    async fn delete(&self, path: &str) -> Result<()> {
        self.call().await;
        self.disk.delete(path);
        Ok(())
    }

    async fn delete_prefix(&self, path: &str) -> Result<()> {
        Err(Error::new(ErrorKind::FeatureUnsupported, format!("nobody deletes everything under {path}")))
    }

    async fn delete_stream(&self, mut paths: BoxStream<'static, String>) -> Result<()> {
        while let Some(path) = paths.next().await {
            self.delete(&path).await?;
        }
        Ok(())
    }

    fn new_input(&self, path: &str) -> Result<InputFile> {
        Ok(InputFile::new(Arc::new(self.clone()), path.to_owned()))
    }

    fn new_output(&self, path: &str) -> Result<OutputFile> {
        Ok(OutputFile::new(Arc::new(self.clone()), path.to_owned()))
    }
}

struct Reader(Bytes);

#[async_trait]
impl FileRead for Reader {
    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(self.0.len());
        Ok(self.0.slice(place(range.start)..place(range.end)))
    }
}

struct Writer {
    files: RemoteFiles,
    path: String,
    bytes: BytesMut,
}

#[async_trait]
impl FileWrite for Writer {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.bytes.extend_from_slice(&bytes);
        Ok(())
    }

    async fn close(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.bytes).freeze();
        self.files.publish(&self.path, bytes).await
    }
}

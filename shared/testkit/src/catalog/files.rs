//! A table's files behind a storage that fails on a script.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use iceberg::io::{FileIO, FileMetadata, FileRead, FileWrite, InputFile, OutputFile, Storage};
use iceberg::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use table::storage::{Local, file_io};

/// What happens to one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is stored; the answer says to try later.
    Refused,
    /// The file is stored; the answer is lost.
    AnswerLost,
    /// Nothing is stored, and every later call fails: the process is dead.
    Killed,
}

#[derive(Debug)]
struct Script {
    inner: Arc<dyn Storage>,
    writes: BTreeMap<u64, Fault>,
    seen: u64,
    reads: u64,
    dead: bool,
}

impl Default for Script {
    fn default() -> Self {
        Self { inner: Arc::new(Local), writes: BTreeMap::new(), seen: 0, reads: 0, dead: false }
    }
}

/// A storage that fails on a script. Clones share script and counters. A write is one whole file, counted when it is
/// published.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FaultyStorage {
    #[serde(skip)]
    script: Arc<Mutex<Script>>,
}

impl FaultyStorage {
    /// Passes everything on.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self { script: Arc::new(Mutex::new(Script { inner, ..Script::default() })) }
    }

    /// Does `fault` to the `n`th write, counted from 0.
    #[must_use]
    pub fn at_write(self, n: u64, fault: Fault) -> Self {
        self.script().writes.insert(n, fault);
        self
    }

    /// The files behind this storage.
    #[must_use]
    pub fn io(&self) -> FileIO {
        file_io(Arc::new(self.clone()))
    }

    /// Writes so far, the failed ones included.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.script().seen
    }

    /// Reads so far: whole files, ranges of them, and looks at their sizes. Each is a request where files are in an object store.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.script().reads
    }

    /// Whether it was killed.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.script().dead
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alive(&self) -> Result<Arc<dyn Storage>> {
        let script = self.script();
        if script.dead { Err(killed()) } else { Ok(Arc::clone(&script.inner)) }
    }

    fn count_read(&self) {
        self.script().reads += 1;
    }

    fn next_write(&self) -> Option<Fault> {
        let mut script = self.script();
        let fault = script.writes.get(&script.seen).copied();
        script.seen += 1;
        script.dead |= fault == Some(Fault::Killed);
        fault
    }
}

fn killed() -> Error {
    Error::new(ErrorKind::Unexpected, "the process was killed").with_retryable(true)
}

fn answer(fault: Option<Fault>) -> Result<()> {
    match fault {
        None => Ok(()),
        Some(Fault::Killed) => Err(killed()),
        Some(fault) => Err(Error::new(ErrorKind::Unexpected, format!("{fault:?}")).with_retryable(true)),
    }
}

#[async_trait]
#[typetag::serde(name = "testkit.faulty")]
impl Storage for FaultyStorage {
    async fn exists(&self, path: &str) -> Result<bool> {
        self.count_read();
        self.alive()?.exists(path).await
    }

    async fn metadata(&self, path: &str) -> Result<FileMetadata> {
        self.count_read();
        self.alive()?.metadata(path).await
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        self.count_read();
        self.alive()?.read(path).await
    }

    async fn reader(&self, path: &str) -> Result<Box<dyn FileRead>> {
        let inner = self.alive()?.reader(path).await?;
        Ok(Box::new(CountedReader { storage: self.clone(), inner }))
    }

    async fn write(&self, path: &str, bs: Bytes) -> Result<()> {
        let inner = self.alive()?;
        let fault = self.next_write();
        if matches!(fault, None | Some(Fault::AnswerLost)) {
            inner.write(path, bs).await?;
        }
        answer(fault)
    }

    async fn writer(&self, path: &str) -> Result<Box<dyn FileWrite>> {
        let inner = self.alive()?.writer(path).await?;
        Ok(Box::new(FaultyWriter { storage: self.clone(), inner }))
    }

    async fn delete(&self, path: &str) -> Result<()> {
        self.alive()?.delete(path).await
    }

    async fn delete_prefix(&self, path: &str) -> Result<()> {
        self.alive()?.delete_prefix(path).await
    }

    async fn delete_stream(&self, paths: BoxStream<'static, String>) -> Result<()> {
        self.alive()?.delete_stream(paths).await
    }

    fn new_input(&self, path: &str) -> Result<InputFile> {
        Ok(InputFile::new(Arc::new(self.clone()), path.to_owned()))
    }

    fn new_output(&self, path: &str) -> Result<OutputFile> {
        Ok(OutputFile::new(Arc::new(self.clone()), path.to_owned()))
    }
}

struct CountedReader {
    storage: FaultyStorage,
    inner: Box<dyn FileRead>,
}

#[async_trait]
impl FileRead for CountedReader {
    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.storage.count_read();
        self.inner.read(range).await
    }
}

struct FaultyWriter {
    storage: FaultyStorage,
    inner: Box<dyn FileWrite>,
}

#[async_trait]
impl FileWrite for FaultyWriter {
    async fn write(&mut self, bs: Bytes) -> Result<()> {
        drop(self.storage.alive()?);
        self.inner.write(bs).await
    }

    async fn close(&mut self) -> Result<()> {
        drop(self.storage.alive()?);
        let fault = self.storage.next_write();
        if matches!(fault, None | Some(Fault::AnswerLost)) {
            self.inner.close().await?;
        }
        answer(fault)
    }
}

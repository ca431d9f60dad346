//! A store in a folder, for the embedded environment.
//!
//! An object is written to a hidden file in the same file system, fsynced, and only then given its name: by a hard link,
//! which fails when the name is taken, or by a rename, which replaces. The folders on the way are fsynced too before a put
//! answers, so what is acknowledged outlives a crash of the machine.
//!
//! File calls block, an fsync for milliseconds: each operation runs on tokio's blocking threads. A caller that goes away
//! does not stop one half way.
//!
//! Folders stay when their last object is deleted: removing them would race with a put that has just made them.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use model::clock::{Clock, Timestamp};

use crate::store::{Error, ObjectMeta, Operation, Page, Put, Store, check_key};

mod walk;

/// Hidden from listings: every name that starts so in the root belongs to this store's own work.
const TEMPORARY: &str = ".staging-tmp";
/// Objects of one page of a listing, as S3 gives.
const PAGE_OBJECTS: usize = 1000;
/// A hidden file older than this was left by a process that died: no put takes a day.
const LEFTOVER_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Folders remembered as durable before all are forgotten: a memory bound, no more.
const DURABLE_FOLDERS_MAX: usize = 4096;
/// Tries to find a free temporary name: only leftovers of dead processes with our number can be in the way.
const TEMPORARY_TRIES: usize = 1000;

/// Fills a file. A seam for tests, which have no full disk at hand.
type Fill = fn(&mut File, &[u8]) -> io::Result<()>;

/// Objects as files under a folder.
#[derive(Debug)]
pub struct LocalStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    clock: Arc<dyn Clock>,
    page_objects: usize,
    next_temporary: AtomicU64,
    /// Folders whose own entries, up to the root, this process has fsynced.
    durable: Mutex<HashSet<PathBuf>>,
    fill: Fill,
}

impl LocalStore {
    /// Opens the store in a folder, which is made when it is not there, and removes what dead processes left half written
    /// more than a day ago.
    ///
    /// # Errors
    /// When the folder cannot be made or read.
    pub fn open(root: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let inner = Inner {
            root: root.into(),
            clock,
            page_objects: PAGE_OBJECTS,
            next_temporary: AtomicU64::new(0),
            durable: Mutex::default(),
            fill: |file, body| file.write_all(body),
        };
        let made = fs::create_dir_all(inner.temporary()).and_then(|()| inner.remove_leftovers());
        made.map_err(|e| not_done(Operation::List, &inner.root.to_string_lossy(), e))?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The same store with smaller pages (at least one object each).
    #[must_use]
    pub fn with_page_objects(self, objects: usize) -> Self {
        self.changed(|inner| inner.page_objects = objects.max(1))
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.inner.root
    }

    fn changed(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = self.inner;
        if let Some(inner) = Arc::get_mut(&mut inner) {
            change(inner);
        }
        Self { inner }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        operation: Operation,
        key: &str,
        run: impl FnOnce(&Inner, &str) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        if operation != Operation::List {
            check_key(key)?;
            if key.split('/').next() == Some(TEMPORARY) {
                return Err(Error::BadKey { key: key.to_owned(), fault: "its first segment is reserved" });
            }
        }
        let inner = Arc::clone(&self.inner);
        let owned = key.to_owned();
        tokio::task::spawn_blocking(move || run(&inner, &owned)).await.unwrap_or_else(|gone| {
            // Only a runtime that is shutting down, or a defect of ours, ends a blocking task without an answer.
            Err(Error::OutcomeUnknown {
                operation,
                key: key.to_owned(),
                message: "the task that did it ended early".to_owned(),
                source: Some(Box::new(gone)),
            })
        })
    }
}

#[async_trait]
impl Store for LocalStore {
    async fn put_new(&self, key: &str, body: Bytes) -> Result<Put, Error> {
        self.blocking(Operation::PutNew, key, move |inner, key| inner.put_new(key, &body)).await
    }

    async fn put(&self, key: &str, body: Bytes) -> Result<Timestamp, Error> {
        self.blocking(Operation::Put, key, move |inner, key| inner.put(key, &body)).await
    }

    async fn get(&self, key: &str) -> Result<Bytes, Error> {
        self.blocking(Operation::Get, key, |inner, key| {
            fs::read(inner.path(key)).map(Bytes::from).map_err(|e| unreadable(Operation::Get, key, e))
        })
        .await
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, Error> {
        self.blocking(Operation::GetRange, key, move |inner, key| {
            let read = || -> io::Result<Bytes> {
                let mut file = File::open(inner.path(key))?;
                let end = range.end.min(file.metadata()?.len());
                let wanted = end.saturating_sub(range.start);
                let mut body = Vec::new();
                if wanted > 0 {
                    file.seek(SeekFrom::Start(range.start))?;
                    file.take(wanted).read_to_end(&mut body)?;
                }
                Ok(Bytes::from(body))
            };
            read().map_err(|e| unreadable(Operation::GetRange, key, e))
        })
        .await
    }

    async fn head(&self, key: &str) -> Result<Option<ObjectMeta>, Error> {
        self.blocking(Operation::Head, key, |inner, key| match fs::metadata(inner.path(key)) {
            Ok(meta) if meta.is_file() => Ok(Some(ObjectMeta { key: key.to_owned(), size: meta.len() })),
            Ok(_) => Ok(None),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(e) => Err(not_done(Operation::Head, key, e)),
        })
        .await
    }

    async fn list(&self, prefix: &str, start_after: Option<&str>, continuation: Option<&str>) -> Result<Page, Error> {
        // A continuation is the last key given.
        let after = continuation.or(start_after).map(str::to_owned);
        self.blocking(Operation::List, prefix, move |inner, prefix| {
            let wanted = inner.page_objects.saturating_add(1);
            let mut objects = walk::objects(&inner.root, TEMPORARY, prefix, after.as_deref(), wanted)
                .map_err(|e| not_done(Operation::List, prefix, e))?;
            let more = objects.len() > inner.page_objects;
            objects.truncate(inner.page_objects);
            let next = if more { objects.last().map(|o| o.key.clone()) } else { None };
            Ok(Page { objects, next, date: inner.clock.now() })
        })
        .await
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        self.blocking(Operation::Delete, key, |inner, key| {
            let path = inner.path(key);
            match fs::remove_file(&path) {
                Ok(()) => path.parent().map_or(Ok(()), sync_folder).map_err(|e| unknown(Operation::Delete, key, e)),
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(()),
                Err(e) => Err(not_done(Operation::Delete, key, e)),
            }
        })
        .await
    }
}

/// A hidden file that is removed again, whatever happens to the put it is for.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // A rename has taken it already; anything else that keeps it here is cleaned by a later start.
        drop(fs::remove_file(&self.0));
    }
}

impl Inner {
    fn path(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    fn temporary(&self) -> PathBuf {
        self.root.join(TEMPORARY)
    }

    fn put_new(&self, key: &str, body: &[u8]) -> Result<Put, Error> {
        let failed = |e| not_done(Operation::PutNew, key, e);
        let path = self.path(key);
        let new = self.written(body).map_err(failed)?;
        let (stored, folder) = self
            .named(&path, || match fs::hard_link(&new.0, &path) {
                Ok(()) => Ok(true),
                // A folder of that name is not an object that was stored.
                Err(e) if e.kind() == ErrorKind::AlreadyExists && path.is_file() => Ok(false),
                Err(e) => Err(e),
            })
            .map_err(failed)?;
        // Also when another process gave the name: it may not have got as far as making it durable.
        sync_folder(&folder).map_err(|e| unknown(Operation::PutNew, key, e))?;
        let date = self.clock.now();
        Ok(if stored { Put::Stored { date } } else { Put::AlreadyStored { date } })
    }

    fn put(&self, key: &str, body: &[u8]) -> Result<Timestamp, Error> {
        let failed = |e| not_done(Operation::Put, key, e);
        let path = self.path(key);
        let new = self.written(body).map_err(failed)?;
        let ((), folder) = self.named(&path, || fs::rename(&new.0, &path)).map_err(failed)?;
        sync_folder(&folder).map_err(|e| unknown(Operation::Put, key, e))?;
        Ok(self.clock.now())
    }

    /// Makes the folder of `path` and gives a file its name there; also gives the folder.
    fn named<T>(&self, path: &Path, give: impl Fn() -> io::Result<T>) -> io::Result<(T, PathBuf)> {
        let folder = self.make_folder(path)?;
        match give() {
            // Somebody removed a folder that this process remembers: make it again, once.
            Err(e) if e.kind() == ErrorKind::NotFound => {
                self.durable.lock().unwrap_or_else(PoisonError::into_inner).clear();
                let folder = self.make_folder(path)?;
                Ok((give()?, folder))
            }
            given => Ok((given?, folder)),
        }
    }

    /// A hidden file with this body, fsynced.
    fn written(&self, body: &[u8]) -> io::Result<Temporary> {
        let folder = self.temporary();
        for _ in 0..TEMPORARY_TRIES {
            let number = self.next_temporary.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{}-{number}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    let temporary = Temporary(path);
                    (self.fill)(&mut file, body)?;
                    file.sync_all()?;
                    return Ok(temporary);
                }
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
        Err(io::Error::new(ErrorKind::AlreadyExists, format!("no free name in {}", folder.display())))
    }

    /// Makes the folder a file goes into, durably, and gives it.
    fn make_folder(&self, file: &Path) -> io::Result<PathBuf> {
        let folder = file.parent().unwrap_or(&self.root).to_path_buf();
        if self.durable.lock().unwrap_or_else(PoisonError::into_inner).contains(&folder) {
            return Ok(folder);
        }
        fs::create_dir_all(&folder)?;
        // Another process may have made a folder of the chain and not have fsynced it yet, so each one is, once.
        for parent in folder.ancestors().skip(1).take_while(|p| p.starts_with(&self.root)) {
            sync_folder(parent)?;
        }
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if durable.len() >= DURABLE_FOLDERS_MAX {
            durable.clear();
        }
        durable.insert(folder.clone());
        Ok(folder)
    }

    /// Removes hidden files that are a day older than one made now: ages are told by the file system's own clock.
    fn remove_leftovers(&self) -> io::Result<()> {
        let entries: Vec<_> = fs::read_dir(self.temporary())?.collect::<io::Result<_>>()?;
        if entries.is_empty() {
            return Ok(());
        }
        let now = fs::metadata(&self.written(&[])?.0)?.modified()?;
        for entry in entries {
            // Gone already is as good; one that cannot be removed harms nobody.
            let old = entry.metadata().and_then(|m| m.modified()).ok().and_then(|then| now.duration_since(then).ok());
            if old.is_some_and(|age| age > LEFTOVER_AGE) {
                drop(fs::remove_file(entry.path()));
            }
        }
        Ok(())
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(OsStr::new(".")) } else { folder };
    File::open(folder)?.sync_all()
}

/// An error of a call that has changed nothing a reader could see.
fn not_done(operation: Operation, key: &str, e: io::Error) -> Error {
    let key = key.to_owned();
    let retry = |message: String, e| Error::Retry { operation, key: key.clone(), message, source: Some(Box::new(e)) };
    let fix = |message: &str, e| Error::Misconfigured {
        operation,
        key: key.clone(),
        message: message.to_owned(),
        source: Some(Box::new(e)),
    };
    match e.kind() {
        // Nothing was stored, and the same call succeeds as soon as there is room: Kafka keeps the records until then.
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => retry("the disk is full: make room".to_owned(), e),
        ErrorKind::FileTooLarge => retry("the file would be larger than the system allows".to_owned(), e),
        ErrorKind::PermissionDenied => fix("permission denied: the store's folder must be writable for this user", e),
        ErrorKind::ReadOnlyFilesystem => fix("the file system is read-only", e),
        ErrorKind::NotADirectory => fix("a file stands where a folder is needed", e),
        ErrorKind::IsADirectory => fix("a folder stands where a file is needed", e),
        ErrorKind::AlreadyExists => fix("a file stands where a folder is needed, or the reverse", e),
        ErrorKind::NotFound => fix("the store's folder is gone", e),
        ErrorKind::Unsupported => fix("the file system has no hard links", e),
        _ => retry(e.to_string(), e),
    }
}

/// An error after the object may have become visible.
fn unknown(operation: Operation, key: &str, e: io::Error) -> Error {
    Error::OutcomeUnknown {
        operation,
        key: key.to_owned(),
        message: "it was written, and may not be durable".to_owned(),
        source: Some(Box::new(e)),
    }
}

fn unreadable(operation: Operation, key: &str, e: io::Error) -> Error {
    match e.kind() {
        // A folder, or something below a file, is no object.
        ErrorKind::NotFound | ErrorKind::IsADirectory | ErrorKind::NotADirectory => {
            Error::NotFound { key: key.to_owned() }
        }
        _ => not_done(operation, key, e),
    }
}

#[cfg(test)]
mod tests;

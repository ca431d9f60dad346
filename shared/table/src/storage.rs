//! Files of a table on the local disk, and how any [`Storage`] becomes a [`FileIO`].
//!
//! A location is a string, compared and stored byte for byte: `file:///a b/k=x%2Fy/f.parquet` names the file
//! `/a b/k=x%2Fy/f.parquet`. Nothing is percent-encoded or decoded on the way, because other engines do neither
//! (PyIceberg, DuckDB and Hadoop's `Path` take what follows `file://` as it stands), and a partition folder whose name
//! holds an encoded value must keep it.
//!
//! Files are written once. A file appears under its name whole and durable, or not at all: it is written beside its
//! target, synced, and renamed without replacing; then its folder is synced. A name that is taken is refused: every name
//! of a table carries a UUID, so a second write under one name is never an update.

use std::fmt;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use iceberg::io::{
    FileIO, FileIOBuilder, FileMetadata, FileRead, FileWrite, InputFile, OutputFile, Storage, StorageConfig,
    StorageFactory,
};
use iceberg::{Error, ErrorKind, Result};
use model::failure::Kind;
use serde::{Deserialize, Serialize};

/// A [`FileIO`] over local files.
#[must_use]
pub fn local() -> FileIO {
    file_io(Arc::new(Local))
}

/// A [`FileIO`] over any storage: the local disk, an object store's client, a test's fault injector.
#[must_use]
pub fn file_io(storage: Arc<dyn Storage>) -> FileIO {
    FileIOBuilder::new(Arc::new(Given { storage: Some(storage) })).build()
}

/// The location of an absolute path: `file://` and the path as it is.
///
/// # Errors
/// A path that is not absolute, is not UTF-8, or holds `?`, `#` or a control character, where other engines would cut it.
pub fn location_of(path: &Path) -> Result<String> {
    let refuse = |why: &str| Error::new(ErrorKind::DataInvalid, format!("`{}` {why}", path.display()));
    let text = path.to_str().ok_or_else(|| refuse("is not UTF-8, so no location can name it"))?;
    if !path.is_absolute() {
        return Err(refuse("is not an absolute path"));
    }
    if text.contains(['?', '#']) || text.chars().any(char::is_control) {
        return Err(refuse("holds `?`, `#` or a control character: other readers would look for another file"));
    }
    Ok(format!("file://{text}"))
}

/// The path of a location: `file:///…`, `file:/…` or an absolute path.
///
/// # Errors
/// Another scheme, a host name, or a relative path.
pub fn path_of(location: &str) -> Result<PathBuf> {
    let refuse = |why: &str| Error::new(ErrorKind::FeatureUnsupported, format!("`{location}` {why}"));
    let path = match location.strip_prefix("file:") {
        Some(rest) => match rest.strip_prefix("//") {
            Some(path) if path.starts_with('/') => path,
            Some(_) => return Err(refuse("names a host: local files are file:///path")),
            None => rest,
        },
        None if location.contains("://") => return Err(refuse("is not on the local disk")),
        None => location,
    };
    let path = Path::new(path);
    if !path.is_absolute() {
        return Err(refuse("is relative: it would depend on the working directory"));
    }
    // `..` would let one file have two names, and names are compared byte for byte.
    if path.components().any(|part| matches!(part, Component::ParentDir)) {
        return Err(refuse("holds `..`"));
    }
    Ok(path.to_owned())
}

/// What happens next after a storage or format error.
///
/// A storage says `retryable` where the same call may succeed later. A file that is gone is `Corrupt`: metadata named it.
#[must_use]
pub fn kind_of(error: &Error) -> Kind {
    if error.retryable() {
        return if error.kind() == ErrorKind::CatalogCommitConflicts { Kind::Conflict } else { Kind::Retry };
    }
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return match io.kind() {
                io::ErrorKind::PermissionDenied
                | io::ErrorKind::ReadOnlyFilesystem
                | io::ErrorKind::InvalidFilename
                | io::ErrorKind::NotADirectory => Kind::Misconfigured,
                io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => Kind::Corrupt,
                io::ErrorKind::AlreadyExists | io::ErrorKind::InvalidInput => Kind::Bug,
                // A full disk, too: with room made the same call succeeds, as it does in the store.
                _ => Kind::Retry,
            };
        }
        source = inner.source();
    }
    match error.kind() {
        ErrorKind::CatalogCommitConflicts => Kind::Conflict,
        ErrorKind::DataInvalid => Kind::Corrupt,
        ErrorKind::FeatureUnsupported
        | ErrorKind::NamespaceNotFound
        | ErrorKind::TableNotFound
        | ErrorKind::NamespaceAlreadyExists
        | ErrorKind::TableAlreadyExists => Kind::Misconfigured,
        _ => Kind::Bug,
    }
}

/// A factory that hands out one storage it was given.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Given {
    // A client, a handle or a test's script can't be written down; a factory read back says so when it is used.
    #[serde(skip)]
    storage: Option<Arc<dyn Storage>>,
}

#[typetag::serde(name = "frazil.given")]
impl StorageFactory for Given {
    fn build(&self, _: &StorageConfig) -> Result<Arc<dyn Storage>> {
        self.storage.clone().ok_or_else(|| {
            Error::new(ErrorKind::FeatureUnsupported, "this storage lives in one process and can't be sent to another")
        })
    }
}

/// The local disk.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Local;

#[async_trait]
#[typetag::serde(name = "frazil.local")]
impl Storage for Local {
    async fn exists(&self, path: &str) -> Result<bool> {
        let target = path_of(path)?;
        blocking(path, "look for", move || target.try_exists()).await
    }

    async fn metadata(&self, path: &str) -> Result<FileMetadata> {
        let target = path_of(path)?;
        let size = blocking(path, "look at", move || target.metadata().map(|found| found.len())).await?;
        Ok(FileMetadata { size })
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        let target = path_of(path)?;
        blocking(path, "read", move || std::fs::read(target).map(Bytes::from)).await
    }

    async fn reader(&self, path: &str) -> Result<Box<dyn FileRead>> {
        let target = path_of(path)?;
        let (file, size) = blocking(path, "open", move || {
            let file = std::fs::File::open(target)?;
            let size = file.metadata()?.len();
            Ok((file, size))
        })
        .await?;
        Ok(Box::new(LocalReader { file: Arc::new(file), size, location: path.to_owned() }))
    }

    async fn write(&self, path: &str, bs: Bytes) -> Result<()> {
        let target = path_of(path)?;
        blocking(path, "write", move || {
            let mut draft = Draft::new(target)?;
            draft.write(&bs)?;
            draft.publish()
        })
        .await
    }

    async fn writer(&self, path: &str) -> Result<Box<dyn FileWrite>> {
        let target = path_of(path)?;
        let draft = blocking(path, "create", move || Draft::new(target)).await?;
        Ok(Box::new(LocalWriter { draft: Some(draft), location: path.to_owned() }))
    }

    /// A file that is not there counts as deleted.
    async fn delete(&self, path: &str) -> Result<()> {
        let target = path_of(path)?;
        blocking(path, "delete", move || match std::fs::remove_file(target) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        })
        .await
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
        Ok(InputFile::new(Arc::new(*self), path.to_owned()))
    }

    fn new_output(&self, path: &str) -> Result<OutputFile> {
        Ok(OutputFile::new(Arc::new(*self), path.to_owned()))
    }
}

/// Runs file work on the blocking pool: a sync takes milliseconds, which must not stop the other futures of a thread.
async fn blocking<T: Send + 'static>(
    location: &str,
    doing: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|e| fault(location, doing, e)),
        Err(e) => Err(Error::new(ErrorKind::Unexpected, format!("could not {doing} `{location}`")).with_source(e)),
    }
}

fn fault(location: &str, doing: &str, source: io::Error) -> Error {
    let kind = match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => ErrorKind::DataInvalid,
        io::ErrorKind::AlreadyExists => ErrorKind::PreconditionFailed,
        _ => ErrorKind::Unexpected,
    };
    Error::new(kind, format!("could not {doing} `{location}`")).with_source(source)
}

/// A file being written under a hidden name beside its target; dropped unpublished, it leaves nothing.
struct Draft {
    file: tempfile::NamedTempFile,
    target: PathBuf,
    folder: PathBuf,
    /// Folders that held no child on the way down before this file, deepest first: their entries must be durable too.
    made: Vec<PathBuf>,
}

impl Draft {
    fn new(target: PathBuf) -> io::Result<Self> {
        let folder = target
            .parent()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a file needs a folder"))?
            .to_owned();
        let mut made = Vec::new();
        for ancestor in folder.ancestors() {
            if ancestor.try_exists()? {
                break;
            }
            made.extend(ancestor.parent().map(Path::to_owned));
        }
        std::fs::create_dir_all(&folder).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => io::Error::new(io::ErrorKind::NotADirectory, e),
            _ => e,
        })?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".frazil-").suffix(".part");
        // The temporary file becomes the real one, which readers under other users open: as open as the umask lets it be.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(&folder)?;
        Ok(Self { file, target, folder, made })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn publish(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        self.file.persist_noclobber(&self.target).map_err(|e| e.error)?;
        sync_folder(&self.folder)?;
        self.made.iter().try_for_each(|folder| sync_folder(folder))
    }
}

/// Makes a folder's entries durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    // Only unix opens folders as files; elsewhere a rename is as durable as the file system makes it.
    if cfg!(unix) { std::fs::File::open(folder)?.sync_all() } else { Ok(()) }
}

struct LocalWriter {
    draft: Option<Draft>,
    location: String,
}

impl LocalWriter {
    fn closed(&self) -> Error {
        Error::new(ErrorKind::Unexpected, format!("`{}` is closed, or a write to it failed", self.location))
    }
}

#[async_trait]
impl FileWrite for LocalWriter {
    async fn write(&mut self, bs: Bytes) -> Result<()> {
        let mut draft = self.draft.take().ok_or_else(|| self.closed())?;
        // After a failed write the draft is gone, so that a shorter file can't be published by a later close.
        let draft = blocking(&self.location, "write", move || {
            draft.write(&bs)?;
            Ok(draft)
        })
        .await?;
        self.draft = Some(draft);
        Ok(())
    }

    async fn close(&mut self) -> Result<()> {
        let draft = self.draft.take().ok_or_else(|| self.closed())?;
        blocking(&self.location, "write", move || draft.publish()).await
    }
}

struct LocalReader {
    file: Arc<std::fs::File>,
    size: u64,
    location: String,
}

impl fmt::Debug for LocalReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalReader").field(&self.location).finish()
    }
}

#[async_trait]
impl FileRead for LocalReader {
    async fn read(&self, range: std::ops::Range<u64>) -> Result<Bytes> {
        // Checked before anything is allocated: a damaged footer may ask for any range.
        let length = range.end.checked_sub(range.start).filter(|_| range.end <= self.size);
        let Some(length) = length.and_then(|n| usize::try_from(n).ok()) else {
            let why = format!("bytes {range:?} of `{}` were asked for, which has {}", self.location, self.size);
            return Err(Error::new(ErrorKind::DataInvalid, why));
        };
        let file = Arc::clone(&self.file);
        blocking(&self.location, "read", move || {
            let mut buffer = vec![0; length];
            read_at(&file, &mut buffer, range.start)?;
            Ok(Bytes::from(buffer))
        })
        .await
    }
}

#[cfg(unix)]
fn read_at(file: &std::fs::File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(not(unix))]
fn read_at(file: &std::fs::File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    use std::io::{Read, Seek};
    // Clones share one cursor; a reader on such a system is used by one future at a time.
    let mut file = file.try_clone()?;
    file.seek(io::SeekFrom::Start(offset))?;
    file.read_exact(buffer)
}

#[cfg(test)]
mod tests;

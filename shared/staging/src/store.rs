//! Where objects are kept: the trait, and what can go wrong.

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use model::clock::Timestamp;
use model::failure::Kind;

/// The longest key, in bytes: S3's bound.
pub const KEY_BYTES_MAX: usize = 1024;
/// The longest segment of a key, in bytes: what local file systems take as one name.
pub const SEGMENT_BYTES_MAX: usize = 255;
/// The deepest key, in segments. Ours have at most seven below a pipeline's schema folder; a walk of folders needs a bound.
pub const SEGMENTS_MAX: usize = 32;

/// How a conditional put ended. Either way the object is durable when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// This call stored it.
    Stored {
        /// The store's own time of the answer.
        date: Timestamp,
    },
    /// An object of this key was there already and was left as it is.
    AlreadyStored {
        /// The store's own time of the answer.
        date: Timestamp,
    },
}

impl Put {
    /// The store's own time of the answer.
    #[must_use]
    pub const fn date(self) -> Timestamp {
        match self {
            Self::Stored { date } | Self::AlreadyStored { date } => date,
        }
    }
}

/// What a listing says of one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectMeta {
    /// The whole key.
    pub key: String,
    /// Bytes of the body.
    pub size: u64,
}

/// A part of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// In byte order of the keys. May be empty although more follows.
    pub objects: Vec<ObjectMeta>,
    /// Given back as `continuation` it brings the next page; absent on the last one. Its text means nothing to a caller.
    pub next: Option<String>,
    /// The store's own time of the answer.
    pub date: Timestamp,
}

/// A flat space of immutable objects, and of a few that are overwritten (`runs/`, `pipelines/`).
///
/// Every implementation passes one contract suite (`testkit::store_contract`). What protocol and tests rest on: an object
/// appears whole or not at all; when a put has answered, the object is durable and every later listing shows it; of
/// several `put_new` of one key exactly one stores; and an implementation never repeats a call by itself in a way that
/// could turn a lost answer into a false one.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync {
    /// Stores an object unless its key is taken (`If-None-Match: *`).
    ///
    /// # Errors
    /// [`Error::Retry`] when nothing was stored, a 409 of a concurrent conditional put included;
    /// [`Error::OutcomeUnknown`] when the answer was lost: calling again with the same body is then the look-up.
    async fn put_new(&self, key: &str, body: Bytes) -> Result<Put, Error>;

    /// Stores an object, replacing one of the same key whole. Only for `runs/` and `pipelines/`.
    ///
    /// Gives the store's own time of the answer.
    ///
    /// # Errors
    /// As [`Store::put_new`].
    async fn put(&self, key: &str, body: Bytes) -> Result<Timestamp, Error>;

    /// The body of an object.
    ///
    /// # Errors
    /// [`Error::NotFound`], or why it could not be read.
    async fn get(&self, key: &str) -> Result<Bytes, Error>;

    /// The bytes of an object that lie in `range`, which is cut at the object's end: a range that starts there or later,
    /// or is empty, gives no bytes.
    ///
    /// # Errors
    /// [`Error::NotFound`], or why it could not be read.
    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, Error>;

    /// What is known of an object, or that there is none.
    ///
    /// # Errors
    /// Why it could not be told.
    async fn head(&self, key: &str) -> Result<Option<ObjectMeta>, Error>;

    /// One page of the keys that begin with `prefix` (any text, not only whole segments), in byte order, those after
    /// `start_after` when it is given. With a `continuation` the listing goes on where that page ended, and
    /// `start_after` is not looked at.
    ///
    /// # Errors
    /// Why it could not be listed.
    async fn list(&self, prefix: &str, start_after: Option<&str>, continuation: Option<&str>) -> Result<Page, Error>;

    /// Removes an object. One that is not there is removed already.
    ///
    /// # Errors
    /// Why it could not be removed.
    async fn delete(&self, key: &str) -> Result<(), Error>;
}

/// All keys under a prefix, those behind `start_after` where it is given, in their order. For prefixes of few keys: all of them
/// are held at once.
///
/// # Errors
/// As [`Store::list`].
pub async fn keys(store: &dyn Store, prefix: &str, start_after: Option<&str>) -> Result<Vec<String>, Error> {
    let mut keys = Vec::new();
    let mut continuation: Option<String> = None;
    loop {
        let page = store.list(prefix, start_after, continuation.as_deref()).await?;
        keys.extend(page.objects.into_iter().map(|object| object.key));
        match page.next {
            Some(next) => continuation = Some(next),
            None => return Ok(keys),
        }
    }
}

/// What was asked of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// [`Store::put_new`]
    PutNew,
    /// [`Store::put`]
    Put,
    /// [`Store::get`]
    Get,
    /// [`Store::get_range`]
    GetRange,
    /// [`Store::head`]
    Head,
    /// [`Store::list`]
    List,
    /// [`Store::delete`]
    Delete,
}

impl Operation {
    /// Whether it can change what is stored.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::PutNew | Self::Put | Self::Delete)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PutNew => "put-new",
            Self::Put => "put",
            Self::Get => "get",
            Self::GetRange => "get-range",
            Self::Head => "head",
            Self::List => "list",
            Self::Delete => "delete",
        })
    }
}

/// An underlying error.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such object.
    #[error("there is no object `{key}`")]
    NotFound {
        /// The key asked for.
        key: String,
    },
    /// Nothing was done: throttled, a conditional put that met another one (409), no connection, a full disk.
    #[error("{operation} `{key}`: nothing was done, the same may succeed later: {message}")]
    Retry {
        /// What was asked.
        operation: Operation,
        /// The key, or the prefix of a listing.
        key: String,
        /// What was in the way.
        message: String,
        /// The underlying error.
        #[source]
        source: Option<Cause>,
    },
    /// The answer was lost: it may or may not have been done.
    #[error("{operation} `{key}`: it is not known whether it was done: {message}")]
    OutcomeUnknown {
        /// What was asked.
        operation: Operation,
        /// The key, or the prefix of a listing.
        key: String,
        /// What happened.
        message: String,
        /// The underlying error.
        #[source]
        source: Option<Cause>,
    },
    /// Denied, read-only, no such bucket, a file where a folder is needed. Nothing was done, and nothing will be until a
    /// person changes something.
    #[error("{operation} `{key}`: {message}")]
    Misconfigured {
        /// What was asked.
        operation: Operation,
        /// The key, or the prefix of a listing.
        key: String,
        /// What must be changed.
        message: String,
        /// The underlying error.
        #[source]
        source: Option<Cause>,
    },
    /// What the store answered contradicts itself.
    #[error("{operation} `{key}`: {message}")]
    Corrupt {
        /// What was asked.
        operation: Operation,
        /// The key, or the prefix of a listing.
        key: String,
        /// The contradiction.
        message: String,
    },
    /// A key no store may be asked for: our own code made it.
    #[error("`{key}` cannot be a key: {fault}")]
    BadKey {
        /// The key.
        key: String,
        /// What is wrong with it.
        fault: &'static str,
    },
}

impl Error {
    /// What happens next.
    ///
    /// An object that is not there is a [`Kind::Conflict`]: whoever listed it or read its name must look again, somebody
    /// has removed it since. Where absence means something else (a pause, a first run), match [`Error::is_not_found`] first.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::NotFound { .. } => Kind::Conflict,
            Self::Retry { .. } => Kind::Retry,
            Self::OutcomeUnknown { .. } => Kind::OutcomeUnknown,
            Self::Misconfigured { .. } => Kind::Misconfigured,
            Self::Corrupt { .. } => Kind::Corrupt,
            Self::BadKey { .. } => Kind::Bug,
        }
    }

    /// Whether it says that there is no such object.
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// Refuses what no store may be asked for. `=`, `%`, spaces and other letters are all right.
///
/// # Errors
/// [`Error::BadKey`] for an empty or too long key, an empty, `.` or `..` segment (a leading or trailing slash makes an
/// empty one), too many segments, a backslash or a control character.
pub fn check_key(key: &str) -> Result<(), Error> {
    let fault = if key.is_empty() {
        "it is empty"
    } else if key.len() > KEY_BYTES_MAX {
        "it is longer than 1024 bytes"
    } else if key.chars().any(|c| c.is_control() || c == '\\') {
        "it holds a backslash or a control character"
    } else if key.split('/').any(|s| s.is_empty() || s == "." || s == "..") {
        "it holds an empty segment, `.` or `..`"
    } else if key.split('/').any(|s| s.len() > SEGMENT_BYTES_MAX) {
        "a segment is longer than 255 bytes"
    } else if key.split('/').count() > SEGMENTS_MAX {
        "it has more than 32 segments"
    } else {
        return Ok(());
    };
    Err(Error::BadKey { key: key.chars().take(KEY_BYTES_MAX).collect(), fault })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_could_leave_the_store_or_not_be_kept_are_refused() {
        for good in ["a", "a/b.c", "k=v/50%/two words", "ключ/é", ".hidden/x", "a/..b", &"s/".repeat(31).as_str()[..61]]
        {
            check_key(good).unwrap_or_else(|e| panic!("{good}: {e}"));
        }
        let long = "x".repeat(256);
        let longer = format!("{}/z", "y/".repeat(520));
        let deep = format!("{}z", "d/".repeat(32));
        for bad in ["", "/a", "a/", "a//b", "..", "a/../b", "a/.", "./a", "a\\b", "a\nb", "a\0b", &long, &longer, &deep]
        {
            assert_eq!(check_key(bad).unwrap_err().kind(), Kind::Bug, "{bad}");
        }
    }
}

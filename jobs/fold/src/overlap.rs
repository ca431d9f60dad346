//! Folds of one pipeline that are under way at once, which with many tables must know of each other: what one has settled
//! in some of them the other takes for seen.
//!
//! A run leaves a key of its own before it looks at anything, and another one when it has ended. Of two runs that overlap the
//! one that began later sees the other's key without its end, whichever of them dies, and when. Then nothing is taken for
//! seen: all tables are folded, and left to the next run. A run that was killed counts as under way for an hour.

use std::collections::BTreeSet;

use bytes::Bytes;
use model::clock::Timestamp;
use model::mutation::{self, Mutation};
use staging::{key, store};

use crate::error::Error;
use crate::run::Fold;

/// For how long a run without an end counts. Functions live for a quarter of it.
const UNDER_WAY_MICROS_MAX: i64 = 3_600_000_000;

/// A run that has begun.
#[derive(Debug)]
pub(crate) struct Begun {
    key: String,
}

impl Fold {
    /// Says that a run begins.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn begin(&self) -> Result<Begun, Error> {
        let key = key::begun(&self.id, self.clock.now(), self.ids.next_u64());
        self.store.put_new(&key, Bytes::new()).await?;
        Ok(Begun { key })
    }

    /// Whether other runs have begun, and have not ended.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn meets_others(&self, begun: &Begun) -> Result<bool, Error> {
        if mutation::on(Mutation::OverlapUnseen) {
            return Ok(false);
        }
        let since = self.clock.now().micros().saturating_sub(UNDER_WAY_MICROS_MAX);
        let after = key::begun(&self.id, Timestamp::from_micros(since), 0);
        let mut under_way: BTreeSet<String> = BTreeSet::new();
        for key in store::keys(self.store.as_ref(), &key::begun_prefix(&self.id), Some(&after)).await? {
            // An end sorts behind its beginning.
            match key.strip_suffix(".ended") {
                Some(ended) => drop(under_way.remove(ended)),
                None => drop(under_way.insert(key)),
            }
        }
        under_way.remove(&begun.key);
        Ok(!under_way.is_empty())
    }

    /// Says that a run has ended, once its note is there.
    pub(crate) async fn end(&self, begun: &Begun) {
        // Without it the next runs fold all tables for an hour, which costs no more than their looking.
        if let Err(error) = self.store.put_new(&key::ended(&begun.key), Bytes::new()).await {
            tracing::warn!(%error, "the run's end could not be noted");
        }
    }
}

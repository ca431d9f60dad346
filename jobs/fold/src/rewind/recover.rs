//! Going on after a rollback, by frazil or by another hand.

use std::cmp::Reverse;
use std::sync::Arc;

use iceberg::spec::{SnapshotRef, TableMetadata};
use model::id::TableUuid;
use model::ledger::{self, Ledger};
use model::settlement::summary_key;
use serde::Serialize;
use staging::{key, list, store};
use table::catalog::Loaded;
use table::snapshot::ancestry;

use super::{Rewound, nothing_missing, stopped};
use crate::bind;
use crate::error::Error;
use crate::ledger_property;
use crate::pause;
use crate::report::TableReport;
use crate::run::{Ended, Fold};
use crate::state::{State, commit_of, never_another, properties_of, readable_settlement};

/// How often a recovery is planned anew when others commit in between.
const ATTEMPTS_MAX: u32 = 8;

/// How old a settlement must be to be forgotten, in minutes: a commit that was sent long ago may still arrive.
const FORGET_MINUTES: i64 = 60;

/// What a recovery goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// What main no longer holds is folded again.
    Refold,
    /// What main no longer holds stays away.
    KeepLedger,
}

/// What a recovery would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecoverPlan {
    /// The table.
    pub table: String,
    /// Main's newest snapshot.
    pub snapshot: i64,
    /// Whether a snapshot with another ledger must be made.
    pub commits: bool,
    /// Rows that the pipeline had added and main no longer holds; absent where what main holds can't be told any more, its
    /// snapshots being expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_gone: Option<u64>,
    /// What the pipeline would fold again; nothing where its ledger is kept.
    #[serde(skip)]
    pub rewound: Rewound,
    /// Whether the pause that a rollback left would be lifted.
    pub unpauses: bool,
    /// Settlements that would be forgotten, where neither the table nor its retained snapshots know the pipeline: it begins
    /// anew with all that is staged. Had one of them been committed after all, its rows would enter a second time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<String>,
}

impl Fold {
    /// What [`Fold::recover`] would do.
    ///
    /// # Errors
    /// [`Error::Stopped`] when what the pipeline had settled at main can't be told; the store's and the catalog's.
    pub async fn plan_recover(&self, choice: Choice) -> Result<RecoverPlan, Error> {
        Ok(self.recover_of(choice).await?.0)
    }

    /// Goes on from where main is, with the ledger that belongs to it or with the newest one, and lifts the pause that a
    /// rollback left.
    ///
    /// # Errors
    /// As [`Fold::plan_recover`]; [`Error::Stopped`] with the offsets that would be missing; those of a commit.
    pub async fn recover(&self, choice: Choice) -> Result<(RecoverPlan, Option<TableReport>), Error> {
        for _ in 0..ATTEMPTS_MAX {
            let (plan, state) = self.recover_of(choice).await?;
            nothing_missing(&[&plan.rewound])?;
            let mut table = None;
            for key in &plan.forgotten {
                self.store.delete(key).await?;
            }
            if let Some(state) = state.filter(|_| plan.commits) {
                let date = list::list_all(self.store.as_ref(), &self.id, Some(self.clock.now().minute())).await?.date;
                match self.commit_ledger(state, date).await? {
                    Ended::Done(report) => table = Some(*report),
                    Ended::Again(_) | Ended::Damaged(..) => continue,
                }
            }
            if self.pipeline.route.is_some() {
                // Its rows may lie where the pipeline's other tables have been.
                self.leave_behind().await?;
            }
            if plan.unpauses {
                let paused = pause::read(self.store.as_ref(), self.id.name()).await?;
                let left = paused.and_then(pause::without_rollback);
                pause::write(self.store.as_ref(), self.id.name(), left.as_ref()).await?;
            }
            return Ok((plan, table));
        }
        Err(Error::Contended { table: self.pipeline.table.name.to_string(), attempts: ATTEMPTS_MAX })
    }

    async fn recover_of(&self, choice: Choice) -> Result<(RecoverPlan, Option<State>), Error> {
        let loaded = self.loaded().await?;
        let metadata = Arc::clone(&loaded.metadata);
        let newest = self.newest_ledger(&metadata).await?;
        let current = match metadata.properties().get(&ledger::property(&self.id)) {
            Some(text) => Some(ledger_property::read(self.store.as_ref(), &ledger::property(&self.id), text).await?),
            None => None,
        };
        // A retained snapshot may be an old one that a tag has kept: the table's own log knows of later ones.
        let logged = if current.is_some() { None } else { self.ledger_of_log(&metadata).await? };
        // Of two that are as new, the later in this order.
        let known = [logged, current.clone(), newest].into_iter().flatten();
        let Some(newest) = known.max_by_key(|ledger| ledger.settled_at) else {
            return Ok((self.without_ledger(choice, &loaded).await?, None));
        };
        let then = match self.ledger_at(&self.id, &metadata, ancestry(&metadata), &newest).await {
            Ok(then) => Some(then),
            // To go on with the newest ledger nobody needs to know what main's history would say of an older one.
            Err(Error::Stopped { code: "fold.ledger_then", .. }) if choice == Choice::KeepLedger => None,
            Err(Error::Stopped { code: code @ "fold.ledger_then", message, .. }) => {
                let remedy = "`frazil recover --keep-ledger` goes on with the newest ledger: what main no longer holds stays away";
                return Err(stopped(code, message, remedy));
            }
            Err(error) => return Err(error),
        };
        let rows_gone = then.as_ref().map(|then| newest.totals().rows_added.saturating_sub(then.totals().rows_added));
        // The table is in order when its ledger is the one that its history ends with.
        let end = then.as_ref().and_then(|then| then.commits.front());
        let in_order = end.is_some() && current.as_ref().is_some_and(|c| c.commits.front() == end);
        let unset = properties_of(&self.pipeline, &self.id);
        let unset = unset.iter().any(|name| !metadata.properties().contains_key(name));
        let commits = match choice {
            Choice::Refold => !in_order || unset,
            Choice::KeepLedger => !in_order || unset || newest.commits.front() != end,
        };
        let nothing = Rewound { pipeline: self.id.clone(), offsets: 0, missing: Vec::new(), ledger: None };
        let (next, rewound) = match (choice, then) {
            (Choice::Refold, Some(then)) => {
                (then.clone(), self.rewound(self.id.clone(), &metadata, &newest, then).await?)
            }
            (Choice::Refold | Choice::KeepLedger, _) => (newest, nothing),
        };
        let unpauses = self.is_paused_by_rollback().await?;
        let plan = RecoverPlan {
            table: loaded.name.to_string(),
            snapshot: metadata.current_snapshot().map_or(0, |s| s.snapshot_id()),
            commits,
            rows_gone,
            rewound,
            unpauses,
            forgotten: Vec::new(),
        };
        Ok((plan, Some(State::recovered(&self.io, &self.pipeline, &self.id, loaded, next).await?)))
    }

    /// What can be done where nothing of the table knows a ledger of the pipeline.
    async fn without_ledger(&self, choice: Choice, loaded: &Loaded) -> Result<RecoverPlan, Error> {
        let metadata = &loaded.metadata;
        let uuid = TableUuid::new(metadata.uuid().to_string());
        never_another(self.store.as_ref(), &self.id, &loaded.name, Some(&uuid)).await?;
        if metadata.properties().contains_key(&bind::property(&self.id)) {
            // Set by a commit of ours, and by nothing else.
            let message = format!(
                "pipeline `{}` has folded into {}, and neither the table nor a retained snapshot or metadata file holds its \
                 ledger any more",
                self.id, loaded.name
            );
            let property = ledger::property(&self.id);
            let remedy = format!("set the property `{property}` back from a backup of the table's metadata");
            return Err(stopped("fold.recover_nothing", message, remedy));
        }
        let forgotten = self.settlements_left(loaded).await?;
        if choice == Choice::Refold && !forgotten.is_empty() {
            return self.anew(metadata, forgotten).await;
        }
        let message = format!("pipeline `{}` has not folded into {} yet", self.id, loaded.name);
        Err(stopped("fold.recover_nothing", message, "fold; there is nothing to recover from"))
    }

    async fn is_paused_by_rollback(&self) -> Result<bool, Error> {
        let paused = pause::read(self.store.as_ref(), self.id.name()).await?;
        Ok(paused.is_some_and(|pause| pause.rollback.is_some()))
    }

    /// Settlements and ledgers of the pipeline for a table.
    async fn settlements_left(&self, loaded: &Loaded) -> Result<Vec<String>, Error> {
        let prefix = key::settled_prefix(&self.id, &TableUuid::new(loaded.metadata.uuid().to_string()));
        Ok(store::keys(self.store.as_ref(), &prefix, None).await?)
    }

    /// The plan of a pipeline that begins anew.
    async fn anew(&self, metadata: &TableMetadata, forgotten: Vec<String>) -> Result<RecoverPlan, Error> {
        let before = self.clock.now().plus_micros(-FORGET_MINUTES * 60_000_000);
        for key in forgotten.iter().filter(|key| !key::is_ledger(key)) {
            // One that can't be read has been there for as long as anybody knows.
            let Some(settlement) = readable_settlement(self.store.as_ref(), key).await? else { continue };
            if settlement.at >= before {
                return Err(stopped(
                    "fold.recover_young",
                    format!("`{key}` is of {}: the commit that it was written for may still arrive", settlement.at),
                    format!("try again once it is {FORGET_MINUTES} minutes old"),
                ));
            }
        }
        Ok(RecoverPlan {
            table: self.pipeline.table.name.to_string(),
            snapshot: metadata.current_snapshot().map_or(0, |s| s.snapshot_id()),
            commits: false,
            rows_gone: None,
            rewound: Rewound { pipeline: self.id.clone(), offsets: 0, missing: Vec::new(), ledger: None },
            unpauses: self.is_paused_by_rollback().await?,
            forgotten,
        })
    }

    /// The ledger that the newest earlier metadata file holds which has one: of a table that has lost the property, and every
    /// snapshot of the pipeline.
    async fn ledger_of_log(&self, metadata: &TableMetadata) -> Result<Option<Ledger>, Error> {
        let property = ledger::property(&self.id);
        for earlier in metadata.metadata_log().iter().rev() {
            // A ledger from before one that can't be read would be an old one: what came after it would be folded again.
            let path = &earlier.metadata_file;
            let earlier = TableMetadata::read_from(&self.io, path).await.map_err(|error| {
                let message = format!("the table's earlier metadata file `{path}`, which may hold its newest ledger, can't be read: {error}");
                stopped("fold.ledger_log", message, format!("try again; if the file is gone, set the property `{property}` back from a backup"))
            })?;
            if let Some(text) = earlier.properties().get(&property) {
                return Ok(Some(ledger_property::read(self.store.as_ref(), &property, text).await?));
            }
        }
        Ok(None)
    }

    /// The ledger of the pipeline's newest commit of all, also of those that main was moved away from.
    async fn newest_ledger(&self, metadata: &TableMetadata) -> Result<Option<Ledger>, Error> {
        let key = summary_key(&self.id);
        let mut snapshots: Vec<&SnapshotRef> = metadata.snapshots().collect();
        snapshots.sort_by_key(|s| Reverse(s.sequence_number()));
        for snapshot in snapshots {
            let Some((_, settlement)) = commit_of(&snapshot.summary().additional_properties, &key) else { continue };
            let Some(settlement) = readable_settlement(self.store.as_ref(), settlement).await? else { continue };
            // Other pipelines carry the key of an older commit on: only the snapshot that a commit made stands for it.
            if settlement.ledger.anchor.is_none_or(|own| own == snapshot.snapshot_id()) {
                return Ok(Some(settlement.ledger));
            }
        }
        Ok(None)
    }
}

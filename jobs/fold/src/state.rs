//! What the table says of its own past, checked before anything is planned from it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use iceberg::io::FileIO;
use iceberg::spec::{SnapshotRef, TableMetadata};
use model::clock::Timestamp;
use model::coordinate::TopicPartition;
use model::failure::Kind;
use model::id::{CommitId, PipelineId, TableUuid};
use model::interval::Intervals;
use model::ledger::{self, Ledger};
use model::mutation::{self, Mutation};
use model::settlement::{Offsets, SUMMARY_KEYS, Settlement, summary_key};
use model::verdict::Undelivered;
use pipeline::resolved::{Exists, Pipeline, TableName};
use staging::key;
use staging::store::{self, Store};
use table::catalog::Loaded;
use table::snapshot::ancestry;

use crate::bind::{self, Binding};
use crate::error::Error;
use crate::history;
use crate::intake::Intake;
use crate::join;
use crate::ledger_property;

/// Settlements looked at when a ledger is missing. There are as many as folds within the retention; to be sure that none
/// of them was committed, a few are enough to say no, and past this many a person is asked.
const SETTLEMENTS_MAX: usize = 1000;

/// Settlements read for the list of objects to skip: the folds of half an hour, one every ten seconds. Beyond it objects
/// are judged again, which costs their footers.
pub(crate) const SKIP_SETTLEMENTS_MAX: usize = 180;

/// A table as a fold goes on from it.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) loaded: Loaded,
    pub(crate) uuid: TableUuid,
    pub(crate) ledger: Ledger,
    /// Absent before the first commit of this pipeline: then columns are bound by name.
    pub(crate) binding: Option<Binding>,
    /// Whether this pipeline has never committed to the table.
    pub(crate) first_run: bool,
    /// Properties that the table has lost and an earlier metadata file holds: the next commit puts them back.
    pub(crate) restored: BTreeMap<String, String>,
}

/// The properties beside the ledger that the table of a pipeline which has folded into it holds.
pub(crate) fn properties_of(pipeline: &Pipeline, id: &PipelineId) -> Vec<String> {
    let made = (!join::is_joined(&pipeline.table)).then(|| bind::MAPPING_VERSION.to_owned());
    made.into_iter().chain([bind::property(id)]).collect()
}

/// A table with a ledger of the pipeline's, and without what frazil leaves in tables that it makes.
fn unmarked(table: &TableName) -> Error {
    Error::Stopped {
        code: "fold.properties_unset",
        message: format!(
            "{table} has the pipeline's ledger and not the property `{}` of tables that frazil makes: it was joined, or somebody \
             unset that property",
            bind::MAPPING_VERSION
        ),
        remedy: "say `exists = \"join\"` again where others made the table; else `frazil recover --refold` puts the property back \
                 from an earlier metadata file; nothing staged is lost meanwhile"
            .to_owned(),
    }
}

/// One snapshot's word for a pipeline's commit: its id and the key of its settlement.
pub(crate) fn commit_of<'a>(
    summary: &'a std::collections::HashMap<String, String>,
    key: &str,
) -> Option<(&'a str, &'a str)> {
    summary.get(key)?.split_once(' ')
}

impl State {
    /// Reads ledger and binding from a table and checks them against its history.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the table is not this pipeline's to write, when its ledger is missing although the
    /// pipeline has committed before, or when ledger and snapshots contradict each other (a rollback by another engine).
    pub(crate) async fn read(
        store: &dyn Store,
        io: &FileIO,
        pipeline: &Pipeline,
        id: &PipelineId,
        loaded: Loaded,
    ) -> Result<Self, Error> {
        let metadata = &loaded.metadata;
        let uuid = TableUuid::new(metadata.uuid().to_string());
        let is_joined = join::is_joined(&pipeline.table);
        if is_joined {
            join::admissible(&loaded.name, metadata)?;
        } else if !metadata.properties().contains_key(bind::MAPPING_VERSION) {
            let ours = |snapshot: &&SnapshotRef| {
                snapshot.summary().additional_properties.keys().any(|key| key.starts_with(SUMMARY_KEYS))
            };
            if let Some(snapshot) = ancestry(metadata).find(ours) {
                if metadata.properties().contains_key(&ledger::property(id)) {
                    return Err(unmarked(&loaded.name));
                }
                return Err(Error::Stopped {
                    code: "fold.properties_unset",
                    message: format!(
                        "{} has lost the properties that frazil keeps in it (`{}` is not there), and snapshot {} carries a \
                         commit of ours: somebody unset them",
                        loaded.name,
                        bind::MAPPING_VERSION,
                        snapshot.snapshot_id()
                    ),
                    remedy: "`frazil recover --refold` takes the ledger of main's newest commit and puts the properties back \
                             from an earlier metadata file; nothing staged is lost meanwhile"
                        .to_owned(),
                });
            }
            never_another(store, id, &pipeline.table.name, Some(&uuid)).await?;
            if pipeline.table.exists == Exists::MustBeNew {
                return Err(Error::Stopped {
                    code: "fold.table_exists",
                    message: format!(
                        "{} exists, others made it, and the pipeline says `exists = \"must-be-new\"`",
                        loaded.name
                    ),
                    remedy: "choose another table name, or say `exists = \"join\"` to write into theirs".to_owned(),
                });
            }
            return Err(Error::Stopped {
                code: "fold.foreign_table",
                message: format!("{} exists and was not made by frazil", loaded.name),
                remedy: "say `exists = \"join\"` to write into a table that others made, or choose another table name"
                    .to_owned(),
            });
        }
        let property = ledger::property(id);
        let Some(text) = metadata.properties().get(&property) else {
            never_committed(store, id, &pipeline.table.name, &loaded, &uuid, is_joined.then_some(io)).await?;
            if pipeline.table.exists == Exists::MustBeNew && metadata.last_sequence_number() > 0 {
                return Err(Error::Stopped {
                    code: "fold.table_exists",
                    message: format!(
                        "{} has snapshots already, and the pipeline says `exists = \"must-be-new\"`",
                        loaded.name
                    ),
                    remedy: "choose another table name, or `exists = \"create\"`".to_owned(),
                });
            }
            let ledger = Ledger::empty(Timestamp::from_micros(0).minute());
            return Ok(Self { loaded, uuid, ledger, binding: None, first_run: true, restored: BTreeMap::new() });
        };
        let ledger = ledger_property::read(store, &property, text).await?;
        let log = is_joined.then_some(io);
        history::not_moved(store, id, &ledger, &loaded, log).await?;
        Self::with_ledger(id, loaded, ledger)
    }

    /// A table with a ledger that its history was held against.
    pub(crate) fn with_ledger(id: &PipelineId, loaded: Loaded, ledger: Ledger) -> Result<Self, Error> {
        Self::with_restored(id, loaded, ledger, BTreeMap::new())
    }

    fn with_restored(
        id: &PipelineId,
        loaded: Loaded,
        ledger: Ledger,
        restored: BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        let name = bind::property(id);
        let binding = match restored.get(&name).or_else(|| loaded.metadata.properties().get(&name)) {
            Some(text) => Binding::from_property(&name, text)?,
            None => {
                return Err(Error::Stopped {
                    code: "fold.columns",
                    message: format!("{} has lost its property `{name}`", loaded.name),
                    remedy: "set the property back to what an earlier metadata file holds".to_owned(),
                });
            }
        };
        let uuid = TableUuid::new(loaded.metadata.uuid().to_string());
        Ok(Self { loaded, uuid, ledger, binding: Some(binding), first_run: false, restored })
    }

    /// A table with a ledger that a person chose: what of our properties beside the ledger the table has lost is taken from
    /// the newest earlier metadata file that holds it.
    ///
    /// # Errors
    /// [`Error::Stopped`] when no retained metadata file holds them.
    pub(crate) async fn recovered(
        io: &FileIO,
        pipeline: &Pipeline,
        id: &PipelineId,
        loaded: Loaded,
        ledger: Ledger,
    ) -> Result<Self, Error> {
        let wanted = properties_of(pipeline, id);
        let mut lost: Vec<&String> =
            wanted.iter().filter(|name| !loaded.metadata.properties().contains_key(*name)).collect();
        let mut restored = BTreeMap::new();
        for earlier in loaded.metadata.metadata_log().iter().rev() {
            if lost.is_empty() {
                break;
            }
            // One that is gone or can't be read is as good as one that says nothing.
            let Ok(earlier) = TableMetadata::read_from(io, &earlier.metadata_file).await else { continue };
            lost.retain(|name| match earlier.properties().get(*name) {
                Some(text) => {
                    restored.insert((*name).clone(), text.clone());
                    false
                }
                None => true,
            });
        }
        if let Some(name) = lost.first() {
            return Err(Error::Stopped {
                code: "fold.columns",
                message: format!(
                    "{} has lost its property `{name}`, and no retained metadata file holds it",
                    loaded.name
                ),
                remedy: "set the property back by hand, from a backup of the table's metadata".to_owned(),
            });
        }
        Self::with_restored(id, loaded, ledger, restored)
    }

    /// The exact offsets behind the ledger's `undelivered` counts, where something staged lies where the ledger has been.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn undelivered(
        &self,
        store: &dyn Store,
        id: &PipelineId,
        intake: &Intake,
    ) -> Result<Undelivered, Error> {
        let mut wanted: BTreeMap<TopicPartition, Intervals> = BTreeMap::new();
        for (at, covered) in intake.objects.iter().flat_map(|found| found.footer.coverage.iter()) {
            let Some(known) = self.ledger.partition(at).filter(|known| known.counts.undelivered > 0) else { continue };
            let again = covered.delivered.intersect(&known.reached).subtract(&known.dead);
            if !again.is_empty() {
                let all = wanted.entry(at.clone()).or_default();
                *all = all.union(&again);
            }
        }
        passed_over(store, id, &self.uuid, &self.ledger, wanted).await
    }

    /// Keys of staged objects that a retained commit has folded whole, as far as a listing from `low_minute` on would show
    /// them again. Only settlements that a snapshot on main's ancestry names count. Nothing rests on this list but work
    /// and figures: an object that is missing from it is judged again, and found settled.
    ///
    /// # Errors
    /// When the store fails or a settlement can't be read.
    pub(crate) async fn folded(&self, store: &dyn Store, id: &PipelineId) -> Result<BTreeSet<String>, Error> {
        if mutation::on(Mutation::SkipListUnproved) {
            return self.ever_folded(store, id).await;
        }
        let since = self.ledger.low_minute.start();
        let settlements = self.settlements(store, id, SKIP_SETTLEMENTS_MAX, since).await?;
        Ok(settlements.into_iter().flat_map(|s| s.objects).collect())
    }

    /// What any settlement says, whether its commit came to be or not: the skip list as it must not be.
    async fn ever_folded(&self, store: &dyn Store, id: &PipelineId) -> Result<BTreeSet<String>, Error> {
        let mut folded = BTreeSet::new();
        let page = store.list(&key::settled_prefix(id, &self.uuid), None, None).await?;
        for object in page.objects {
            if let Some(settlement) = read_settlement(store, &object.key).await? {
                folded.extend(settlement.objects);
            }
        }
        Ok(folded)
    }

    async fn settlements(
        &self,
        store: &dyn Store,
        id: &PipelineId,
        max: usize,
        since: Timestamp,
    ) -> Result<Vec<Settlement>, Error> {
        settlements_of(store, id, ancestry(&self.loaded.metadata), max, since).await
    }

    /// Whether an attempt of ours is in the table: in the ledger, else in a snapshot's summary. The ledger remembers the
    /// newest commits even after their snapshots expired; snapshots tell it even if the property was unset meanwhile.
    pub(crate) fn holds(&self, id: &PipelineId, commit: &CommitId) -> bool {
        let key = summary_key(id);
        self.ledger.knows(commit)
            || ancestry(&self.loaded.metadata).any(|snapshot| {
                commit_of(&snapshot.summary().additional_properties, &key).is_some_and(|(c, _)| c == commit.as_str())
            })
    }
}

/// The settlements of these snapshots' commits, written at `since` or later. Snapshots come newest first.
pub(crate) async fn settlements_of<'a>(
    store: &dyn Store,
    id: &PipelineId,
    snapshots: impl Iterator<Item = &'a SnapshotRef>,
    max: usize,
    since: Timestamp,
) -> Result<Vec<Settlement>, Error> {
    let summary = summary_key(id);
    let mut settlements: Vec<Settlement> = Vec::new();
    let mut last = "";
    for snapshot in snapshots {
        let Some((_, key)) = commit_of(&snapshot.summary().additional_properties, &summary) else { continue };
        // Other writers may carry the key on; each settlement counts once.
        if key == last {
            continue;
        }
        last = key;
        match readable_settlement(store, key).await? {
            Some(settlement) if settlement.at < since => break,
            Some(settlement) => settlements.push(settlement),
            // What it said of rows is in the ledger, which is checked on its own.
            None => tracing::warn!(key, "a settlement named by a snapshot is gone"),
        }
        if settlements.len() >= max {
            break;
        }
    }
    Ok(settlements)
}

/// Which of some offsets a ledger counts as never delivered, as far as the settlements of its line are kept.
///
/// A ledger names the commits that led to it, and each of their settlements those before: the line can be followed though
/// its snapshots are expired. It is followed only as long as an older settlement may say something of these offsets, and
/// no further than to one that is gone: what those behind it list, the gone one may have found.
///
/// # Errors
/// When the store fails.
pub(crate) async fn passed_over(
    store: &dyn Store,
    id: &PipelineId,
    uuid: &TableUuid,
    ledger: &Ledger,
    wanted: BTreeMap<TopicPartition, Intervals>,
) -> Result<Undelivered, Error> {
    // What was listed as never delivered, and what of it was found, by the settlements read so far: newest first.
    let mut listed: BTreeMap<TopicPartition, Intervals> = BTreeMap::new();
    let mut found: BTreeMap<TopicPartition, Intervals> = BTreeMap::new();
    let mut settled = BTreeSet::new();
    let all_listed = |at: &TopicPartition, listed: &BTreeMap<TopicPartition, Intervals>| {
        let counted = ledger.partition(at).map_or(0, |partition| partition.counts.undelivered);
        listed.get(at).map_or(0, Intervals::count) >= counted
    };
    // Of which the settlements that follow may say something.
    let mut open = wanted;
    let mut line = Line::of(store, id, uuid, ledger);
    loop {
        open.retain(|at, offsets| !offsets.is_empty() && !all_listed(at, &listed));
        if open.is_empty() {
            break;
        }
        let Some(settlement) = line.next().await? else { break };
        for (at, offsets) in &mut open {
            // What had not been reached then, later ones would have listed.
            let then = settlement.ledger.partition(at).map(|then| offsets.intersect(&then.reached));
            *offsets = then.unwrap_or_default();
        }
        gather(&mut found, &settlement.found);
        for entry in &settlement.undelivered {
            let at = place(entry);
            let left = found.get(&at).map_or_else(|| entry.offsets.clone(), |found| entry.offsets.subtract(found));
            let all = listed.entry(at).or_default();
            *all = all.union(&left);
        }
        settled.extend(settlement.objects);
    }
    // At the line's beginning nothing is behind it.
    let mut unlisted = if line.is_broken { open } else { BTreeMap::new() };
    unlisted.retain(|at, offsets| {
        for known in [listed.get(at), found.get(at)].into_iter().flatten() {
            *offsets = offsets.subtract(known);
        }
        !offsets.is_empty()
    });
    Ok(Undelivered { listed, unlisted, settled })
}

/// Which offsets that had been passed over entered, or went to dead letters, between two ledgers of one line. `None` where
/// a settlement between them is gone.
///
/// # Errors
/// When the store fails.
pub(crate) async fn found_between(
    store: &dyn Store,
    id: &PipelineId,
    uuid: &TableUuid,
    then: &Ledger,
    now: &Ledger,
) -> Result<Option<BTreeMap<TopicPartition, Intervals>>, Error> {
    let mut found: BTreeMap<TopicPartition, Intervals> = BTreeMap::new();
    let mut line = Line::of(store, id, uuid, now);
    while line.newest() != then.commits.front() {
        let Some(settlement) = line.next().await? else { return Ok(None) };
        gather(&mut found, &settlement.found);
    }
    Ok(Some(found))
}

/// Adds what entries list to what is there.
fn gather(all: &mut BTreeMap<TopicPartition, Intervals>, entries: &[Offsets]) {
    for entry in entries {
        let of = all.entry(place(entry)).or_default();
        *of = of.union(&entry.offsets);
    }
}

fn place(entry: &Offsets) -> TopicPartition {
    TopicPartition { source: entry.source.clone(), topic: entry.topic.clone(), partition: entry.partition }
}

/// The settlements of the commits that led to a ledger, newest first, as far as each names one that is kept.
pub(crate) struct Line<'a> {
    store: &'a dyn Store,
    id: &'a PipelineId,
    uuid: &'a TableUuid,
    /// Those whose settlements are next, newest first.
    pub(crate) commits: VecDeque<CommitId>,
    /// Whether it ended at a settlement that is gone.
    pub(crate) is_broken: bool,
}

impl<'a> Line<'a> {
    fn of(store: &'a dyn Store, id: &'a PipelineId, uuid: &'a TableUuid, ledger: &Ledger) -> Self {
        Self::behind(store, id, uuid, ledger.commits.clone())
    }

    /// The line from these commits on.
    pub(crate) fn behind(
        store: &'a dyn Store,
        id: &'a PipelineId,
        uuid: &'a TableUuid,
        commits: VecDeque<CommitId>,
    ) -> Self {
        Self { store, id, uuid, commits, is_broken: false }
    }

    /// The commit whose settlement is next.
    fn newest(&self) -> Option<&CommitId> {
        self.commits.front()
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Settlement>, Error> {
        let Some(commit) = self.commits.pop_front() else { return Ok(None) };
        let key = key::settlement(self.id, self.uuid, &commit);
        let settlement = readable_settlement(self.store, &key).await?;
        match &settlement {
            // It names those that are waited for, and older ones behind them.
            Some(settlement) => {
                self.commits = settlement.ledger.commits.iter().filter(|named| **named != commit).cloned().collect();
            }
            None => self.is_broken = true,
        }
        Ok(settlement)
    }
}

/// Makes sure that no other table of this name was folded into: a catalog that was lost or emptied, or a table that was
/// dropped and made again, would begin anew with what is still staged, and lack everything before it.
///
/// # Errors
/// [`Error::Stopped`] when a settlement names this table under another UUID.
pub(crate) async fn never_another(
    store: &dyn Store,
    id: &PipelineId,
    name: &TableName,
    uuid: Option<&TableUuid>,
) -> Result<(), Error> {
    let prefix = key::all_settled_prefix(id);
    let mut after: Option<String> = None;
    // One settlement of each table is looked at.
    loop {
        let page = store.list(&prefix, after.as_deref(), None).await?;
        let Some(first) = page.objects.first() else { return Ok(()) };
        let Some((other, _)) = first.key.get(prefix.len()..).and_then(|rest| rest.split_once('/')) else {
            after = Some(first.key.clone());
            continue;
        };
        // `0` follows `/`: everything under this table is passed over.
        after = Some(format!("{prefix}{other}0"));
        if uuid.is_some_and(|own| own.as_str() == other) {
            continue;
        }
        let settlement =
            page.objects.iter().find(|o| o.key.starts_with(&format!("{prefix}{other}/")) && !key::is_ledger(&o.key));
        let Some(settlement) = settlement else { continue };
        let same = match read_settlement(store, &settlement.key).await {
            Ok(Some(settlement)) => settlement.table == name.to_string(),
            Ok(None) => continue,
            // What can't be read may be of this table.
            Err(Error::Ledger { .. }) => true,
            Err(error) => return Err(error),
        };
        if same {
            return Err(Error::Stopped {
                code: "fold.table_replaced",
                message: format!(
                    "{name} was folded into before, as the table with UUID {other} (`{}`), and that table is gone: a new one \
                     would hold only what is still staged",
                    settlement.key
                ),
                remedy: format!(
                    "bring the catalog or the table back; to begin anew with what is still staged, move everything under \
                     `{prefix}{other}/` away first"
                ),
            });
        }
    }
}

/// Makes sure that a table without a ledger of ours never had one. Where others commit and expire as a rule, `log` is given: the
/// table's earlier metadata files hold what is expired.
async fn never_committed(
    store: &dyn Store,
    id: &PipelineId,
    name: &TableName,
    loaded: &Loaded,
    uuid: &TableUuid,
    log: Option<&FileIO>,
) -> Result<(), Error> {
    never_another(store, id, name, Some(uuid)).await?;
    let metadata = &loaded.metadata;
    // A table that never had a snapshot has none of ours, whatever attempts left behind.
    if metadata.last_sequence_number() == 0 {
        return Ok(());
    }
    let lost = |what: String| Error::Stopped {
        code: "fold.ledger_missing",
        message: format!("{} has no ledger of this pipeline, but {what}: folding would repeat rows", loaded.name),
        remedy: format!(
            "set the table property `{}` back to what an earlier metadata file holds, or let `frazil recover --refold` take the \
             ledger of main's newest commit; nothing staged is lost meanwhile",
            ledger::property(id)
        ),
    };
    // A commit of ours sets it together with the ledger.
    let columns = bind::property(id);
    if metadata.properties().contains_key(&columns) {
        return Err(lost(format!("its property `{columns}` is there")));
    }
    let key = summary_key(id);
    let expired = match log {
        Some(io) => history::expired(metadata, io).await,
        None => Vec::new(),
    };
    let line = || ancestry(metadata).chain(&expired);
    if let Some(snapshot) = line().find(|s| s.summary().additional_properties.contains_key(&key)) {
        return Err(lost(format!("snapshot {} carries its commit", snapshot.snapshot_id())));
    }
    // An attempt writes its settlement before its commit. One that died between the two left a settlement and no ledger:
    // harmless if it can be shown that its snapshot was never made.
    let mut continuation = None;
    let mut seen = 0;
    loop {
        let page = store.list(&key::settled_prefix(id, uuid), None, continuation.as_deref()).await?;
        for object in page.objects {
            seen += 1;
            if seen > SETTLEMENTS_MAX {
                return Err(lost(format!("more than {SETTLEMENTS_MAX} settlements name it")));
            }
            if key::is_ledger(&object.key) {
                continue;
            }
            let Some(settlement) = read_settlement(store, &object.key).await? else { continue };
            if settlement.ledger.commits.len() != 1 || !never_made(metadata, line(), &settlement) {
                return Err(lost(format!("`{}` may have settled something for it", object.key)));
            }
        }
        match page.next {
            Some(next) => continuation = Some(next),
            None => return Ok(()),
        }
    }
}

/// Whether the snapshot that a first settlement was written for certainly is not in the table's history: its parent is
/// still main, or the snapshot that took its place after that parent is on main's line (and, as the caller saw, not ours).
fn never_made<'a>(
    metadata: &TableMetadata,
    mut line: impl Iterator<Item = &'a SnapshotRef>,
    settlement: &Settlement,
) -> bool {
    let head = metadata.current_snapshot().map(|s| s.snapshot_id());
    if settlement.parent_snapshot == head {
        return true;
    }
    // Expiry clears the parent of the oldest snapshot that it leaves: without one, only a table's first commit is its first.
    let is_of = |s: &SnapshotRef| s.parent_snapshot_id().is_some() || s.sequence_number() == 1;
    line.any(|s| s.parent_snapshot_id() == settlement.parent_snapshot && is_of(s))
}

/// A settlement, where there is one that can be read: another is as good as gone.
///
/// # Errors
/// When the store fails.
pub(crate) async fn readable_settlement(store: &dyn Store, key: &str) -> Result<Option<Settlement>, Error> {
    match read_settlement(store, key).await {
        Err(error) if error.kind() == Kind::Corrupt => {
            tracing::warn!(key, %error, "a settlement can't be read");
            Ok(None)
        }
        read => read,
    }
}

pub(crate) async fn read_settlement(store: &dyn Store, key: &str) -> Result<Option<Settlement>, Error> {
    match store.get(key).await {
        Ok(bytes) => Settlement::from_json(&bytes)
            .map(Some)
            .map_err(|source| Error::Ledger { what: format!("the settlement `{key}`"), source }),
        Err(store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

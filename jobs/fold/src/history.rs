//! What main's history says of the ledger: whether other hands moved the table, and when our place in it must be marked
//! anew.

use iceberg::io::FileIO;
use iceberg::spec::{SnapshotRef, TableMetadata};
use model::clock::Timestamp;
use model::id::{CommitId, PipelineId};
use model::ledger::Ledger;
use model::mutation::{self, Mutation};
use model::settlement::summary_key;
use staging::store::Store;
use table::catalog::Loaded;
use table::snapshot::{ancestry, branch};

use crate::error::Error;
use crate::state::{commit_of, readable_settlement};

/// How long other writers' snapshots may stand on our newest before it is marked anew, in milliseconds: the more stand on
/// it, the sooner an expiry takes it away. It is also how often a commit of the ledger alone may be made.
const FOREIGN_MS_MAX: i64 = 3_600_000;

/// The commit that a snapshot carries for a pipeline, with the key of its settlement.
fn carried<'a>(snapshot: &'a SnapshotRef, key: &str) -> Option<(&'a str, &'a str)> {
    commit_of(&snapshot.summary().additional_properties, key)
}

/// The newest commit on main's retained ancestry must be the ledger's newest: a table moved back, moved forward or
/// replaced by other hands would lose or repeat rows. Where none is retained any more, the ledger is trusted only if the
/// snapshot of its newest commit is on the ancestry, or is what the oldest retained snapshot stands on. Where others commit and
/// expire as a rule, `log` is given: the table's earlier metadata files tell what expired snapshots stood on.
pub(crate) async fn not_moved(
    store: &dyn Store,
    id: &PipelineId,
    ledger: &Ledger,
    loaded: &Loaded,
    log: Option<&FileIO>,
) -> Result<(), Error> {
    let metadata = &loaded.metadata;
    let key = summary_key(id);
    if mutation::on(Mutation::RewindUnchecked) {
        return Ok(());
    }
    if mutation::on(Mutation::HeadOnly) && metadata.current_snapshot().is_none_or(|s| carried(s, &key).is_none()) {
        return Ok(());
    }
    let expected = ledger.commits.front().map_or("none", CommitId::as_str);
    let found = match ancestry(metadata).find_map(|snapshot| carried(snapshot, &key)) {
        Some((commit, _)) if commit == expected => return Ok(()),
        Some((commit, settlement)) => moved(store, ledger, commit, settlement).await?,
        None if anchored(metadata, ledger) || descends(metadata, ledger, &key, log).await => return Ok(()),
        None => unanchored(metadata, ledger),
    };
    Err(Error::Stopped {
        code: "fold.rewound",
        message: format!("{}: its ledger ends with commit {expected}, {found}", loaded.name),
        remedy:
            "move main to the snapshot whose summary names the ledger's commit, or let `frazil recover` go on from \
                 where main is; nothing staged is lost meanwhile"
                .to_owned(),
    })
}

/// What happened to a table whose history ends with another commit than its ledger.
async fn moved(store: &dyn Store, ledger: &Ledger, commit: &str, settlement: &str) -> Result<String, Error> {
    if let Some(behind) = ledger.commits.iter().position(|known| known.as_str() == commit) {
        return Ok(format!(
            "and main ends {behind} commits before it, with {commit}: the table was rolled back by another hand"
        ));
    }
    Ok(match readable_settlement(store, settlement).await? {
        Some(theirs) if ledger.commits.front().is_some_and(|newest| theirs.ledger.knows(newest)) => {
            format!("and main ends with {commit}, which came after it: the table was moved forward, or its ledger back")
        }
        Some(theirs) if theirs.at < ledger.settled_at => format!(
            "and main ends with {commit}, which is of {} and further back than the ledger remembers: the table was rolled \
             back by another hand",
            theirs.at
        ),
        _ => format!("and main ends with {commit}, which is not of its line: the table's history was replaced"),
    })
}

/// Whether the retained history stands on the snapshot of the ledger's newest commit.
fn anchored(metadata: &TableMetadata, ledger: &Ledger) -> bool {
    let Some(anchor) = ledger.anchor else { return false };
    ancestry(metadata).any(|s| s.snapshot_id() == anchor || s.parent_snapshot_id() == Some(anchor))
}

/// Whether main stands on the snapshot of the ledger's newest commit, over snapshots that are expired. A commit of ours among them
/// would be newer than the ledger.
async fn descends(metadata: &TableMetadata, ledger: &Ledger, key: &str, log: Option<&FileIO>) -> bool {
    let (Some(io), Some(anchor)) = (log, ledger.anchor) else { return false };
    let line = expired(metadata, io).await;
    let ours = line.iter().take_while(|snapshot| carried(snapshot, key).is_none());
    ours.map(|snapshot| snapshot.parent_snapshot_id()).any(|parent| parent == Some(anchor))
}

/// The snapshots that the oldest retained one on main's line stands on, newest first and with it, as far as the metadata files of the
/// table's log hold them from before they expired. What a snapshot stands on never changes; some writers clear it in the oldest one
/// that they leave.
pub(crate) async fn expired(metadata: &TableMetadata, io: &FileIO) -> Vec<SnapshotRef> {
    let mut line = Vec::new();
    let Some(mut at) = ancestry(metadata).last().map(|oldest| oldest.snapshot_id()) else { return line };
    for earlier in metadata.metadata_log().iter().rev() {
        // One that is gone or can't be read is as good as one that says nothing.
        let Ok(earlier) = TableMetadata::read_from(io, &earlier.metadata_file).await else { continue };
        if earlier.uuid() != metadata.uuid() {
            break;
        }
        while let Some((snapshot, parent)) = earlier.snapshot_by_id(at).and_then(|s| Some((s, s.parent_snapshot_id()?)))
        {
            line.push(SnapshotRef::clone(snapshot));
            at = parent;
        }
    }
    line
}

fn unanchored(metadata: &TableMetadata, ledger: &Ledger) -> String {
    match ledger.anchor {
        Some(anchor) if metadata.snapshot_by_id(anchor).is_some() => format!(
            "whose snapshot {anchor} is not on main, and nothing of the pipeline is: the table was rolled back by another \
             hand, to before its first commit that is retained"
        ),
        Some(anchor) => format!(
            "whose snapshot {anchor} is gone, and nothing on main stands on it: the table was replaced, or its snapshots \
             expired while other writers committed and no fold ran"
        ),
        None => "and no snapshot on main is of this pipeline: the table was rolled back, replaced, or its snapshots \
                 expired, by another hand"
            .to_owned(),
    }
}

/// Whether our newest commit must be marked anew by an empty snapshot, although there is nothing to add: it is expired, or
/// will soon be. Without it nobody could tell any more that main was not moved.
pub(crate) fn anchor_due(metadata: &TableMetadata, id: &PipelineId, now: Timestamp) -> bool {
    let key = summary_key(id);
    let age_ms = |snapshot: &SnapshotRef| now.millis().saturating_sub(snapshot.timestamp_ms());
    let mut above: Option<&SnapshotRef> = None;
    for snapshot in ancestry(metadata) {
        if carried(snapshot, &key).is_some() {
            return age_ms(snapshot) > branch::expiry_age_ms(metadata) / 2
                || above.is_some_and(|foreign| age_ms(foreign) >= FOREIGN_MS_MAX);
        }
        above = Some(snapshot);
    }
    true
}

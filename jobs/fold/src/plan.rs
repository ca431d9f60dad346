//! What a fold would do, worked out from values alone.

use std::collections::BTreeSet;

use model::clock::Minute;
use model::interval::Intervals;
use model::ledger::Ledger;
use model::mutation::{self, Mutation};
use model::verdict::{self, Judgement, Known, Undelivered};

pub use crate::intake::{Found, Intake};

/// How far `low_minute` stays behind the store's time: longer than any invocation can run between choosing its minute
/// and having its put answered (14 minutes, plus the 5 that an answer may be late, which ingest checks).
pub(crate) const LOW_MINUTE_LAG_MINUTES: i64 = 19;

/// What a fold would do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is settled, and which object speaks for which coordinates.
    pub judgement: Judgement,
    /// Keys of the objects that are settled whole by this, in order.
    pub objects: Vec<String>,
    /// From which minute the next fold lists.
    pub low_minute: Minute,
    /// Objects that can't be read.
    pub quarantined: Vec<String>,
}

impl Plan {
    /// Whether a commit would add nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.judgement.is_empty()
    }
}

/// Judges what was found against a ledger. Pure.
#[must_use]
pub fn plan(ledger: &Ledger, undelivered: &Undelivered, intake: &Intake) -> Plan {
    let known = Known { ledger, undelivered, open_holes: intake.open_holes() };
    let staged: Vec<_> = intake.objects.iter().map(Found::staged).collect();
    let judgement = verdict::judge(&known, &staged);

    let none = Intervals::new();
    let settled_after = |found: &Found| {
        let staged = found.staged();
        found.footer.coverage.iter().all(|(at, covered)| {
            let before = ledger.partition(at);
            let reached = before.map_or(&none, |before| &before.reached);
            let (decided, dead) = judgement.partitions.get(at).map_or((&none, &none), |now| (&now.decided, &now.dead));
            let used = staged.usable(at).intersect(&covered.delivered);
            let unused = covered.delivered.subtract(&used);
            // What was not used now is settled only where it would not be admitted later either: a row at an offset that
            // lies in dead letters, or was passed over, would be.
            let mut settled =
                reached.subtract(&covered.decided().intersect(before.map_or(&none, |before| &before.dead)));
            for passed_over in [&undelivered.listed, &undelivered.unlisted] {
                settled = settled.subtract(passed_over.get(at).unwrap_or(&none));
            }
            reached.union(decided).union(dead).contains_all(&used) && settled.union(decided).contains_all(&unused)
        })
    };
    let unsettled = intake.objects.iter().filter(|f| !settled_after(f)).map(|f| f.minute);
    let quarantined = intake.quarantined.iter().map(|(_, minute, _)| *minute);
    let oldest_left = unsettled.chain(quarantined).chain(intake.later.iter().copied()).min();
    let oldest_left = oldest_left.filter(|_| !mutation::on(Mutation::LowMinutePastBacklog));
    let now = intake.date.minute().plus(-LOW_MINUTE_LAG_MINUTES);
    // Never back: what was below was settled, and listing it again would only cost.
    let low_minute = oldest_left.map_or(now, |left| left.min(now)).max(ledger.low_minute);

    let objects = intake.objects.iter().filter(|f| settled_after(f)).map(|f| f.key.clone()).collect();

    Plan {
        judgement,
        objects,
        low_minute,
        quarantined: intake
            .quarantined
            .iter()
            .map(|(key, ..)| key.clone())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
    }
}

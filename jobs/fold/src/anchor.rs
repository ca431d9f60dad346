//! Commits of the ledger alone: a run with nothing to add whose place must be marked, and what a person decided.

use model::clock::Timestamp;
use model::verdict::Judgement;

use crate::commit::Attempt;
use crate::error::Error;
use crate::evolve::Evolved;
use crate::history;
use crate::intake::Intake;
use crate::plan::Plan;
use crate::run::{Ended, Files, Fold};
use crate::state::State;

impl Fold {
    /// Leaves the table as it is, unless the pipeline's newest snapshot may soon be expired: then an empty snapshot
    /// carries the ledger on. Never the property alone: that is no compare-and-swap in every catalog.
    pub(crate) async fn stay(&self, state: State, plan: &Plan, intake: &Intake) -> Result<Ended, Error> {
        let date = intake.date;
        let due = !state.first_run && history::anchor_due(&state.loaded.metadata, &self.id, date);
        let (true, false, Some(binding)) = (due, self.settings.dry_run, state.binding.clone()) else {
            let mut table = self.planned(plan, intake);
            table.metadata_location = Some(state.loaded.metadata_location.clone());
            return Ok(Ended::done(table));
        };
        let evolved = Evolved::unchanged(binding);
        let attempt = Attempt {
            store: self.store.as_ref(),
            ids: self.ids.as_ref(),
            pipeline: &self.id,
            plan,
            judgement: &plan.judgement,
            evolved: &evolved,
            marks: None,
            date,
        };
        self.commit(&attempt, state, Files::default()).await
    }

    /// Commits a state's ledger, which a person had changed, in an empty snapshot.
    pub(crate) async fn commit_ledger(&self, state: State, date: Timestamp) -> Result<Ended, Error> {
        let Some(binding) = state.binding.clone() else { return Ok(Ended::Again(None)) };
        let plan = Plan {
            judgement: Judgement::default(),
            objects: Vec::new(),
            low_minute: state.ledger.low_minute,
            quarantined: state.ledger.quarantined.clone(),
        };
        let evolved = Evolved::unchanged(binding);
        let attempt = Attempt {
            store: self.store.as_ref(),
            ids: self.ids.as_ref(),
            pipeline: &self.id,
            plan: &plan,
            judgement: &plan.judgement,
            evolved: &evolved,
            marks: None,
            date,
        };
        self.commit(&attempt, state, Files::default()).await
    }
}

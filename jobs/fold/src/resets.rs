//! A topic that was made again, in all of a pipeline's tables: their ledgers count it anew from the same minute on.

use std::collections::BTreeMap;

use model::clock::Minute;
use model::ledger::Epoch;
use pipeline::resolved::TableName;

use crate::error::Error;
use crate::report::TableReport;
use crate::reset::{Reset, ResetPlan};
use crate::run::Fold;
use crate::state::State;

impl Fold {
    /// What a reset would do to each of the pipeline's tables. Those that have begun anew already are left out. Where some
    /// have, by a reset that failed for the others, these follow from the same minute on.
    ///
    /// # Errors
    /// [`Error::Stopped`] when no table is left, or one of them can't be reset; the store's and the catalog's.
    pub async fn plan_resets(&self, reset: &Reset) -> Result<Vec<(Self, ResetPlan)>, Error> {
        let mut plans: Vec<(Self, ResetPlan)> = Vec::new();
        let mut epochs: BTreeMap<TableName, Vec<Epoch>> = BTreeMap::new();
        let mut known = None;
        for table in self.tables().await? {
            let fold = self.of(&table);
            if self.pipeline.has_many() {
                epochs.insert(table, fold.epochs(reset).await?);
            }
            match fold.plan_reset(reset).await {
                Ok(plan) => plans.push((fold, plan)),
                Err(error) if is_settled(&error) => known = Some(error),
                Err(error) => return Err(error),
            }
        }
        if !self.pipeline.has_many() {
            plans.iter().try_for_each(|(_, plan)| reset.is_needed(plan))?;
            return if plans.is_empty() { known.map_or(Ok(plans), Err) } else { Ok(plans) };
        }
        let own = |fold: &Self| epochs.get(&fold.pipeline.table.name);
        // The oldest that it lacks, unless what contradicts it is of a topic before.
        let lacks = |(fold, plan): &(Self, ResetPlan)| -> Option<Minute> {
            let has = |epoch: &&Epoch| own(fold).is_some_and(|own| own.iter().any(|o| o.counts_as == epoch.counts_as));
            let all = epochs.values().flatten().filter(|epoch| epoch.source == plan.source && !has(epoch));
            let may = |since: &Minute| plan.contradicting.is_empty() || *since <= plan.since;
            all.map(|epoch| epoch.since).min().filter(may)
        };
        let followers: Vec<(Self, Minute)> =
            plans.iter().filter_map(|part| Some((part.0.clone(), lacks(part)?))).collect();
        let contradicted = |part: &&(Self, ResetPlan)| !part.1.contradicting.is_empty();
        let is_contradicted = plans.iter().any(|part| contradicted(&part));
        if let (false, true, Some((_, plan))) = (is_contradicted, followers.is_empty(), plans.first()) {
            reset.is_needed(plan)?;
        }
        // The first object that contradicts a ledger may do so in one table's alone.
        let since = plans.iter().filter(contradicted).map(|(_, plan)| plan.since).min();
        let since = since.or_else(|| plans.iter().map(|(_, plan)| plan.since).min());
        let all: Vec<(Self, Minute)> = match since {
            Some(since) if followers.is_empty() => plans.iter().map(|(fold, _)| (fold.clone(), since)).collect(),
            _ => followers,
        };
        let mut agreed = Vec::new();
        for (fold, since) in all {
            let contradicting = plans.iter().find(|(other, _)| other.pipeline.table.name == fold.pipeline.table.name);
            let contradicting = contradicting.map_or_else(Vec::new, |(_, plan)| plan.contradicting.clone());
            match fold.plan_reset(&Reset { since: Some(since), ..reset.clone() }).await {
                Ok(plan) => agreed.push((fold, plan)),
                Err(error) if is_settled(&error) => known = Some(error),
                // A table that was met after the topic was made again has settled nothing of the one before.
                Err(error) if error.code() == "fold.reset_minute" && contradicting.is_empty() && is_contradicted => {
                    known = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        if agreed.is_empty() { known.map_or(Ok(agreed), Err) } else { Ok(agreed) }
    }

    /// Resets tables as planned, each from its plan's minute on.
    ///
    /// # Errors
    /// As [`Fold::reset`]. Those before it are reset then; planned again, the others follow.
    pub async fn reset_planned(plans: &[(Self, ResetPlan)]) -> Result<Vec<TableReport>, Error> {
        let mut tables = Vec::new();
        for (fold, plan) in plans {
            let reset = Reset { topic: plan.topic.clone(), partition: plan.partition, since: Some(plan.since) };
            tables.push(fold.reset(&reset).await?.1);
        }
        Ok(tables)
    }

    /// From when on a table counts a topic anew.
    async fn epochs(&self, reset: &Reset) -> Result<Vec<Epoch>, Error> {
        let Some(loaded) = self.catalog.load(&self.pipeline.table.name).await? else { return Ok(Vec::new()) };
        let state = State::read(self.store.as_ref(), &self.io, &self.pipeline, &self.id, loaded).await?;
        let mut epochs = state.ledger.epochs;
        epochs.retain(|epoch| epoch.topic == reset.topic && epoch.partition == reset.partition);
        Ok(epochs)
    }
}

/// Whether a table's refusal leaves the pipeline's other tables to a reset: it knows nothing of the topic, or has begun anew.
fn is_settled(error: &Error) -> bool {
    matches!(error.code(), "fold.reset_unknown" | "fold.reset_again")
}

//! A topic that was deleted and made again: from a minute on its offsets count anew.

use std::collections::{BTreeMap, BTreeSet};

use model::clock::Minute;
use model::coordinate::{SourceId, TopicPartition};
use model::interval::{Interval, Intervals};
use model::ledger::{Epoch, Ledger};
use serde::Serialize;
use staging::key::StagedKey;
use staging::object::{self, Object};

use crate::bind::{self, Binding};
use crate::error::Error;
use crate::evidence;
use crate::intake;
use crate::report::TableReport;
use crate::rewind::never_folded;
use crate::run::{Ended, Fold};
use crate::state::State;

/// How often it is planned anew when folds commit in between.
const ATTEMPTS_MAX: u32 = 8;

/// Which topic begins anew, and from when.
#[derive(Clone, Debug)]
pub struct Reset {
    /// The topic.
    pub topic: String,
    /// One partition of it; every one when absent.
    pub partition: Option<i32>,
    /// Objects staged in this minute and later are of the new topic. When absent: from the first object on that
    /// contradicts the ledger; where none does, it has to be said.
    pub since: Option<Minute>,
}

/// What a reset would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResetPlan {
    /// The topic.
    pub topic: String,
    /// The partition, where it is one.
    pub partition: Option<i32>,
    /// The source as staged objects name it.
    pub source: SourceId,
    /// The source under which the new offsets will be counted.
    pub counts_as: SourceId,
    /// The first minute of the new topic.
    pub since: Minute,
    /// Staged objects that contradict the ledger.
    pub contradicting: Vec<String>,
    /// Staged objects of the topic that will count anew.
    pub objects: u64,
    /// Rows of the old topic in the table: they stay.
    pub rows_kept: u64,
}

/// A message names so many topics, and so many runs of a topic's partitions.
const NAMED_MAX: usize = 8;

/// A reset may be said this long before its minute, in minutes.
const RESET_AHEAD_MINUTES_MAX: i64 = 24 * 60;

fn refused(code: &'static str, message: String, remedy: &str) -> Error {
    Error::Stopped { code, message, remedy: remedy.to_owned() }
}

/// The topics of a ledger with their partitions, as a person would name them. Long lists are cut.
fn folded_so_far(ledger: &Ledger) -> Vec<String> {
    let mut topics: BTreeMap<&str, BTreeSet<i32>> = BTreeMap::new();
    let partitions: Vec<TopicPartition> = ledger.partitions().map(|(at, _)| at).collect();
    for at in &partitions {
        topics.entry(&at.topic).or_default().insert(at.partition);
    }
    let mut named: Vec<String> = Vec::new();
    for (topic, partitions) in topics.iter().take(NAMED_MAX) {
        let all: Intervals = partitions.iter().filter_map(|p| Interval::new((*p).into(), (*p).into()).ok()).collect();
        let spans: Vec<String> = all
            .as_slice()
            .iter()
            .map(|i| if i.first() == i.last() { i.first().to_string() } else { format!("{}-{}", i.first(), i.last()) })
            .take(NAMED_MAX)
            .collect();
        let more = if all.as_slice().len() > NAMED_MAX { ", …" } else { "" };
        named.push(format!("topic `{topic}`, partitions {}{more}", spans.join(", ")));
    }
    if topics.len() > NAMED_MAX {
        named.push(format!("and {} more topics", topics.len() - NAMED_MAX));
    }
    named
}

impl Reset {
    /// Refuses what nothing staged asks for and nobody has named a minute of: another person's reset may have been done meanwhile,
    /// and what comes again of the topic as it is would enter a second time.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub(crate) fn is_needed(&self, plan: &ResetPlan) -> Result<(), Error> {
        if self.since.is_some() || !plan.contradicting.is_empty() {
            return Ok(());
        }
        Err(refused(
            "fold.reset_unneeded",
            format!("nothing that is staged of topic `{}` contradicts what is settled", self.topic),
            "fold; where the topic was made again and nothing of it is staged yet, say from when on it is the new one: --since TIME",
        ))
    }

    fn is_about(&self, at: &TopicPartition) -> bool {
        at.topic == self.topic && self.partition.is_none_or(|partition| partition == at.partition)
    }
}

impl Fold {
    /// What [`Fold::reset`] would do.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the topic was never folded, or the minute does not tell the old topic's objects from the new.
    pub async fn plan_reset(&self, reset: &Reset) -> Result<ResetPlan, Error> {
        Ok(self.reset_of(reset).await?.0)
    }

    /// Makes a topic's offsets count anew, in an empty snapshot. What the old topic settled stays settled, and its rows stay.
    ///
    /// # Errors
    /// As [`Fold::plan_reset`], and those of a commit.
    pub async fn reset(&self, reset: &Reset) -> Result<(ResetPlan, TableReport), Error> {
        let mut before: Option<Vec<Epoch>> = None;
        for _ in 0..ATTEMPTS_MAX {
            let (plan, mut state, date) = self.reset_of(reset).await?;
            let about = state.ledger.epochs.iter().filter(|epoch| epoch.topic == reset.topic);
            let epochs: Vec<Epoch> = about.cloned().collect();
            // What was asked for was about the topic as it was then. Once it has begun anew, the same words would make its
            // newest records count a second time.
            if before.get_or_insert_with(|| epochs.clone()) != &epochs {
                let since = epochs.last().map_or_else(String::new, |epoch| format!(" from {} on", epoch.since));
                return Err(refused(
                    "fold.reset_again",
                    format!(
                        "topic `{}` was made to count anew{since} meanwhile, by another run or an earlier attempt",
                        reset.topic
                    ),
                    "fold; a second reset needs a later minute",
                ));
            }
            reset.is_needed(&plan)?;
            let epoch = Epoch::new(&plan.source, &plan.topic, plan.partition, plan.since);
            state.ledger.epochs.push(epoch);
            if let Ended::Done(table) = self.commit_ledger(state, date).await? {
                return Ok((plan, *table));
            }
        }
        Err(Error::Contended { table: self.pipeline.table.name.to_string(), attempts: ATTEMPTS_MAX })
    }

    async fn reset_of(&self, reset: &Reset) -> Result<(ResetPlan, State, model::clock::Timestamp), Error> {
        let (store, name) = (self.store.as_ref(), &self.pipeline.table.name);
        let loaded = self.catalog.load(name).await?;
        let unknown = |known: &[String]| {
            let what = format!("topic `{}`", reset.topic);
            let what = reset.partition.map_or(what.clone(), |partition| format!("partition {partition} of {what}"));
            let known = if known.is_empty() { "nothing at all".to_owned() } else { known.join("; ") };
            let message = format!("nothing of {what} was ever folded into {name}; what was: {known}");
            refused("fold.reset_unknown", message, "name a topic and a partition that were folded, or no partition")
        };
        let Some(loaded) = loaded else {
            never_folded(store, &self.id, name).await?;
            return Err(unknown(&[]));
        };
        let mut state = State::read(store, &self.io, &self.pipeline, &self.id, loaded).await?;
        let ledger = &state.ledger.clone();
        let known: Vec<_> = ledger.partitions().filter(|(at, _)| reset.is_about(at)).collect();
        let mut sources: BTreeSet<&SourceId> = known.iter().map(|(at, _)| ledger.origin(&at.source)).collect();

        let folded = state.folded(store, &self.id).await?;
        let intake =
            intake::take(store, &self.id, Some(ledger.low_minute), &folded, &BTreeMap::new(), Some(ledger), None)
                .await?;
        let mut contradicting = Vec::new();
        let mut found_in = BTreeSet::new();
        for found in intake.objects.iter().filter(|f| f.footer.coverage.iter().any(|(at, _)| reset.is_about(at))) {
            if let Some(at) = evidence::contradiction(store, name, ledger, found).await?
                && reset.is_about(&at.partition)
            {
                contradicting.push((found.minute, found.key.clone()));
                found_in.insert(ledger.origin(&at.partition.source).clone());
            }
        }
        for (at, n) in evidence::disagreements(store, name, &intake.objects).await? {
            if let Some(found) = intake.objects.get(n).filter(|_| reset.is_about(&at.partition)) {
                contradicting.push((found.minute, found.key.clone()));
                found_in.insert(ledger.origin(&at.partition.source).clone());
            }
        }
        contradicting.sort();
        contradicting.dedup();
        if !found_in.is_empty() {
            sources.extend(found_in.iter());
            sources.retain(|source| found_in.contains(*source));
        }
        let mut sources = sources.into_iter();
        let source = sources.next().ok_or_else(|| unknown(&folded_so_far(ledger)))?.clone();
        if sources.next().is_some() {
            return Err(refused(
                "fold.reset_source",
                format!(
                    "topic `{}` was folded from several clusters, and nothing staged says which began anew",
                    reset.topic
                ),
                "wait until records of the new topic are staged, then reset",
            ));
        }
        let first = contradicting.iter().map(|(minute, _)| *minute).min();
        let since = reset.since.or(first).unwrap_or_else(|| intake.date.minute().plus(1));
        let counts_as = Epoch::new(&source, &reset.topic, reset.partition, since).counts_as;
        let of_source = known.iter().filter(|(at, _)| *ledger.origin(&at.source) == source);
        // Before what is settled since then is held against it.
        let is_epoch = |epoch: &Epoch| epoch.counts_as == counts_as && epoch.partition == reset.partition;
        if known.iter().any(|(at, _)| at.source == counts_as) || ledger.epochs.iter().any(is_epoch) {
            return Err(refused(
                "fold.reset_again",
                format!("topic `{}` counts anew from {since} on already", reset.topic),
                "fold; a second reset needs a later minute",
            ));
        }
        if since < ledger.low_minute {
            return Err(refused(
                "fold.reset_minute",
                format!(
                    "everything staged before {} is settled: {since} can't be the new topic's first minute",
                    ledger.low_minute
                ),
                "choose a later minute",
            ));
        }
        let about = |at: &TopicPartition| reset.is_about(at) && at.source == source;
        self.none_settled_since(since, &folded, &about).await?;
        let objects = intake.objects.iter().filter(|found| {
            found.minute >= since
                && found
                    .footer
                    .coverage
                    .iter()
                    .any(|(at, _)| reset.is_about(at) && *ledger.origin(&at.source) == source)
        });
        let waits = |epoch: &Epoch| {
            epoch.source == source
                && epoch.topic == reset.topic
                && epoch.partition == reset.partition
                && !known.iter().any(|(at, _)| at.source == epoch.counts_as)
        };
        if let Some(epoch) = ledger.epochs.iter().find(|epoch| waits(epoch))
            && contradicting.is_empty()
        {
            return Err(refused(
                "fold.reset_again",
                format!(
                    "topic `{}` counts anew from {} on already, and nothing of it was folded since",
                    reset.topic, epoch.since
                ),
                "fold first",
            ));
        }
        if since > intake.date.minute().plus(RESET_AHEAD_MINUTES_MAX) {
            return Err(refused(
                "fold.reset_minute",
                format!(
                    "{since} is more than a day ahead: until then the new topic's records would be taken for the old one's"
                ),
                "choose an earlier minute",
            ));
        }
        let plan = ResetPlan {
            topic: reset.topic.clone(),
            partition: reset.partition,
            since,
            contradicting: contradicting.into_iter().map(|(_, key)| key).collect(),
            objects: objects.count() as u64,
            rows_kept: of_source.map(|(_, progress)| progress.counts.rows_added).sum(),
            counts_as,
            source,
        };
        if state.binding.is_none() {
            // Nothing was folded yet: the columns are bound as the first fold would bind them.
            let newest = intake.newest().map_or(&[][..], |found| &found.footer.columns);
            let binding = Binding::fresh(state.loaded.metadata.current_schema(), newest);
            state.restored.insert(bind::property(&self.id), binding.to_property()?);
            state.binding = Some(binding);
        }
        let date = intake.date;
        Ok((plan, state, date))
    }

    /// Objects that are settled are of the old topic. Were one of them to count as the new topic's, its rows could enter
    /// twice once nothing remembers that it was folded.
    async fn none_settled_since(
        &self,
        since: Minute,
        folded: &BTreeSet<String>,
        about: &(dyn Fn(&TopicPartition) -> bool + Send + Sync),
    ) -> Result<(), Error> {
        for key in folded {
            let late = key.parse::<StagedKey>().is_ok_and(|key| key.minute >= since);
            let Some(meta) = (if late { self.store.head(key).await? } else { None }) else { continue };
            let footer = match Object::read_footer(self.store.as_ref(), key, meta.size).await {
                Ok(footer) => footer,
                Err(object::Error::Store(error)) if error.is_not_found() => continue,
                Err(object::Error::Store(error)) => return Err(error.into()),
                Err(error) => return Err(Error::object(key, error)),
            };
            if footer.coverage.iter().any(|(at, _)| about(at)) {
                return Err(refused(
                    "fold.reset_minute",
                    format!("`{key}` was staged in {since} or later and is folded already: it is of the old topic"),
                    "choose a later minute; where old and new objects share one, give the pipeline a new source name",
                ));
            }
        }
        Ok(())
    }
}

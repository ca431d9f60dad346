//! What a mapping reads, and how it comes to an end: pollers in threads of their own, folds beside them.

#![expect(clippy::disallowed_methods, reason = "real brokers are waited for in real time; no simulation comes here")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fold::Fold;
use ingest::{Ingest, IngestConfig};
use kafka::Consumer;
use kafka::consumer::{Place, Says};
use model::coverage::Filtered;
use model::failure::Kind;
use model::id::PipelineId;
use model::verdict::Origin;
use pipeline::environment::Environment;
use pipeline::resolved::Pipeline;
use serde::Serialize;
use staging::store::Store;

use super::endpoint::{Endpoint, Target};
use super::folds::{Without, folds};
use super::function::Function;
use super::poller::Poller;
use super::{Readiness, Settings, Shared, partitions};
use crate::Session;
use crate::command;
use crate::environment;
use crate::kafka::{failed, tokens};
use crate::manners::failure::Failure;
use crate::tables::Tables;

/// Bytes that all pollers together fetch ahead.
const AHEAD_BYTES: u64 = 64 * 1024 * 1024;

/// A pipeline with everything that reading it into its table needs.
pub(crate) struct Work {
    pub(crate) pipeline: Pipeline,
    pub(crate) id: PipelineId,
    /// What the ingest function in this process is made of; none where it is elsewhere.
    config: Option<IngestConfig>,
    store: Arc<dyn Store>,
    tables: Tables,
    pub(crate) settings: kafka::Settings,
    tokens: Option<Arc<dyn kafka::Tokens>>,
    /// Where events go; ingest in this process where absent.
    invoke: Option<Target>,
}

/// Which offsets are read.
pub(crate) struct Read {
    /// Where each partition begins.
    pub(crate) from: BTreeMap<Place, i64>,
    /// Where each ends; never where absent.
    pub(crate) until: Option<BTreeMap<Place, i64>>,
    /// The consumer group that offsets are committed to, where they are.
    pub(crate) group: Option<String>,
    pub(crate) pollers: usize,
    /// Who looks for partitions that topics get meanwhile, and how often.
    pub(crate) watch: Option<(Consumer, Duration)>,
    pub(crate) mapping: Settings,
    /// Who is told what keeps it from its work.
    pub(crate) readiness: Option<Arc<Readiness>>,
}

/// The document's body.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pipeline: String,
    pub(crate) records: u64,
    invocations: u64,
    failed_invocations: u64,
    folds: u64,
    rows_added: u64,
    /// Records that made no row by choice, by reason.
    filtered: BTreeMap<Filtered, u64>,
    /// Records in dead letters.
    dead_letters: u64,
    /// Records whose coordinate had come before, and rows whose key was there.
    duplicates: u64,
    rows_in_table: u64,
    seconds: f64,
    /// Seconds of all threads together.
    spent: Spent,
}

#[derive(Debug, Serialize)]
struct Spent {
    fetch: f64,
    form: f64,
    ingest: f64,
    fold: f64,
}

impl Outcome {
    pub(crate) fn human(&self) -> String {
        let Spent { fetch, form, ingest, fold } = self.spent;
        let words = |why: &Filtered| match why {
            Filtered::Filter => "by the filter",
            Filtered::Explode => "with nothing to explode",
            Filtered::Tombstone => "as tombstones",
        };
        let mut filtered: Vec<String> =
            self.filtered.iter().map(|(why, records)| format!("{records} {}", words(why))).collect();
        if filtered.is_empty() {
            filtered.push("0".to_owned());
        }
        format!(
            "{} records in {} invocations ({} failed and were tried again), {} folds; {} rows added, {} in the table\n\
             filtered: {}; dead letters: {}; duplicates: {}\n{:.1} s: waiting for records {fetch:.1} s, forming events {form:.1} s, ingest {ingest:.1} s, folds {fold:.1} s",
            self.records,
            self.invocations,
            self.failed_invocations,
            self.folds,
            self.rows_added,
            self.rows_in_table,
            filtered.join(", "),
            self.dead_letters,
            self.duplicates,
            self.seconds
        )
    }
}

impl Work {
    /// # Errors
    /// Where the pipeline, its store or its table can't be had.
    pub(crate) async fn open(
        environment: &Environment,
        pipeline: Option<&str>,
        settings: kafka::Settings,
        invoke: Option<Target>,
        session: &mut Session<'_>,
    ) -> Result<Self, Failure> {
        let tokens = tokens(&settings, session)?;
        let pipeline = environment::pipeline(environment, pipeline, session)?;
        if pipeline.source.name.is_none() {
            return Err(Failure::usage("ingest.no_source", "the pipeline does not say which cluster it reads")
                .remedy("set `name` under [source] in the pipeline file: it stays when brokers come and go"));
        }
        let store = environment::store(environment, session).await?;
        let id = environment::pipeline_id(store.as_ref(), &pipeline.name, session.ids.as_ref()).await?;
        let config = match invoke {
            // Whoever decodes has the schemas, and whoever hashes the salt.
            Some(_) => None,
            None => {
                let (pipeline, store, clock) = (pipeline.clone(), Arc::clone(&store), session.clock.clone());
                let config = IngestConfig::open(pipeline, environment, &session.variable, id.clone(), store, clock);
                Some(Box::pin(config).await.map_err(|e| command::ingest::failed(&e))?)
            }
        };
        let tables = Tables::open(environment, session).await?;
        Ok(Self { pipeline, id, config, store, tables, settings, tokens, invoke })
    }

    /// A consumer that asks, and reads nothing.
    ///
    /// # Errors
    /// The client's.
    pub(crate) fn consumer(&self, group: &str) -> Result<Consumer, Failure> {
        Consumer::new(&self.settings, group, AHEAD_BYTES, self.tokens.clone()).map_err(|e| failed(&e))
    }

    /// The same, to which records of open transactions are there, too.
    ///
    /// # Errors
    /// The client's.
    pub(crate) fn consumer_of_all(&self, group: &str) -> Result<Consumer, Failure> {
        let says = Says { open_transactions: true, ..Says::default() };
        Consumer::saying(says, &self.settings, group, AHEAD_BYTES, self.tokens.clone()).map_err(|e| failed(&e))
    }

    /// Reads, ingests and folds until told to end or all is read.
    ///
    /// # Errors
    /// What a person must change.
    pub(crate) async fn carry_out(&self, read: Read, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        let fold = self.tables.fold(self.pipeline.clone(), self.id.clone(), Arc::clone(&self.store), false, session);
        let ingest = self.ingest(read.until.is_some())?;
        let shared = Arc::new(Shared::new(read.readiness.clone()));
        let pollers = self.pollers(&read, ingest.as_ref(), &shared, session)?;
        let count = pollers.len();
        let known: BTreeSet<Place> = read.from.keys().cloned().collect();

        if let Some(readiness) = &read.readiness {
            readiness.begin(count);
        }
        // From here on a signal lets what is under way end.
        session.signals.drain();
        let started = Instant::now();
        let (outcomes, folded) = std::thread::scope(|scope| {
            let threads: Vec<_> = pollers.into_iter().map(|poller| scope.spawn(|| poller.run())).collect();
            // Not here: this thread's runtime is in use.
            let folding = scope.spawn(|| folds(&fold, &shared, count, self.invoke.is_some()));
            if let Some((consumer, every)) = &read.watch {
                scope.spawn(|| partitions::watch(consumer, &self.pipeline.source, known, *every, count, &shared));
            }
            let outcomes: Vec<Result<bool, Failure>> = threads
                .into_iter()
                .map(|thread| {
                    thread.join().unwrap_or_else(|_| Err(Failure::new(Kind::Bug, "run.poller", "a poller panicked")))
                })
                .collect();
            let folded = folding.join();
            (
                outcomes,
                folded.unwrap_or_else(|_| Err(Failure::new(Kind::Bug, "run.fold", "the folding thread panicked"))),
            )
        });
        let seconds = started.elapsed().as_secs_f64();
        let folded = folded?;
        let rows_in_table = self.rows(&fold).await?;
        let mut is_all = true;
        let stored = shared.records.load(Ordering::Relaxed);
        for outcome in outcomes {
            is_all &= outcome.map_err(|failure| match &read.until {
                Some(_) => Failure { message: format!("{}; {stored} records are stored", failure.message), ..failure },
                None => failure,
            })?;
        }
        if let Some(failure) = folded.failure {
            return Err(failure);
        }
        if read.until.is_some() && !is_all {
            let message = format!("ended before all was read; {stored} records are stored");
            return Err(Failure::interrupted(message));
        }
        let of = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Ordering::Relaxed)).as_secs_f64();
        let Without { filtered, dead_letters, duplicates } = folded.without();
        Ok(Outcome {
            filtered,
            dead_letters,
            duplicates,
            pipeline: self.pipeline.name.clone(),
            records: stored,
            invocations: shared.invocations.load(Ordering::Relaxed),
            failed_invocations: shared.failed_invocations.load(Ordering::Relaxed),
            folds: folded.folds,
            rows_added: folded.rows_added,
            rows_in_table,
            seconds,
            spent: Spent {
                fetch: of(&shared.fetch),
                form: of(&shared.form),
                ingest: of(&shared.ingest),
                fold: folded.time.as_secs_f64(),
            },
        })
    }

    /// Rows in the pipeline's tables, as their newest snapshots say.
    async fn rows(&self, fold: &Fold) -> Result<u64, Failure> {
        let mut rows = 0;
        for name in fold.tables().await.map_err(|e| command::fold::failed(&e))? {
            let Some(table) = self.tables.load(&name).await? else { continue };
            let newest = table.metadata.current_snapshot();
            let said = newest.and_then(|s| s.summary().additional_properties.get("total-records")?.parse::<u64>().ok());
            rows += said.unwrap_or(0);
        }
        Ok(rows)
    }

    /// The ingest function in this process, unless it is elsewhere.
    fn ingest(&self, is_backfill: bool) -> Result<Option<Arc<Ingest>>, Failure> {
        let Some(config) = self.config.clone() else { return Ok(None) };
        let origin = if is_backfill { Origin::Backfill } else { Origin::Stream };
        let ingest = Ingest::new(IngestConfig { origin, ..config });
        Ok(Some(Arc::new(ingest.map_err(|error| command::ingest::failed(&error))?)))
    }

    fn pollers(
        &self,
        read: &Read,
        ingest: Option<&Arc<Ingest>>,
        shared: &Arc<Shared>,
        session: &Session<'_>,
    ) -> Result<Vec<Poller>, Failure> {
        let source = format!(
            "\"eventSource\":\"SelfManagedKafka\",\"bootstrapServers\":{},",
            serde_json::Value::from(self.settings.bootstrap_servers())
        );
        let parts = shared_out(&read.from, read.pollers, read.until.is_some());
        let count = parts.len();
        let own = format!("frazil-{}", self.id);
        let group = read.group.as_deref().unwrap_or(&own);
        let says = Says { ends: read.until.is_some(), ..Says::default() };
        // Each has an endpoint of its own: what it awaits runs in its own thread.
        let function = || match (&self.invoke, ingest) {
            (Some(target), _) => {
                let endpoint = Box::new(Endpoint::new(target.clone())?);
                Ok(Function::There { endpoint, partial: read.mapping.partial })
            }
            (None, Some(ingest)) => Ok(Function::Here(Arc::clone(ingest))),
            (None, None) => Err(Failure::new(Kind::Bug, "run.function", "there is no function to hand events to")),
        };
        let poller = |(number, next): (usize, BTreeMap<Place, i64>)| {
            let ahead = AHEAD_BYTES / count as u64;
            Ok(Poller {
                number,
                consumer: Consumer::saying(says, &self.settings, group, ahead, self.tokens.clone())
                    .map_err(|e| failed(&e))?,
                next,
                function: function()?,
                store: Arc::clone(&self.store),
                pipeline: self.pipeline.name.clone(),
                source: source.clone(),
                until: read.until.clone(),
                commits: read.group.is_some(),
                settings: read.mapping,
                shared: Arc::clone(shared),
                signals: session.signals.clone(),
            })
        };
        parts.into_iter().enumerate().map(poller).collect()
    }
}

/// The partitions of each poller. Those that read to an end read one topic each: see [`kafka::consumer::Next::End`].
fn shared_out(from: &BTreeMap<Place, i64>, pollers: usize, apart: bool) -> Vec<BTreeMap<Place, i64>> {
    let mut groups: BTreeMap<&str, Vec<(&Place, i64)>> = BTreeMap::new();
    for (place, offset) in from {
        groups.entry(if apart { &place.topic } else { "" }).or_default().push((place, *offset));
    }
    let mut parts = Vec::new();
    for group in groups.into_values() {
        let count = pollers.clamp(1, group.len().max(1));
        for number in 0..count {
            let mine = group.iter().enumerate().filter(|(n, _)| n % count == number);
            parts.push(mine.map(|(_, (place, offset))| ((*place).clone(), *offset)).collect());
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partition_is_one_pollers() {
        let place = |topic: &str, partition| Place { topic: topic.to_owned(), partition };
        let from: BTreeMap<Place, i64> =
            (0..5).map(|n| (place("a", n), 0)).chain((0..2).map(|n| (place("b", n), 7))).collect();
        for (pollers, apart, want) in
            [(1, false, vec![7]), (3, false, vec![3, 2, 2]), (9, false, vec![1; 7]), (3, true, vec![2, 2, 1, 1, 1])]
        {
            let parts = shared_out(&from, pollers, apart);
            assert_eq!(parts.iter().map(BTreeMap::len).collect::<Vec<_>>(), want, "{pollers} {apart}");
            let mut all = BTreeMap::new();
            for part in parts {
                let topics: BTreeSet<String> = part.keys().map(|place| place.topic.clone()).collect();
                assert!(!apart || topics.len() == 1);
                for (place, offset) in part {
                    assert_eq!(all.insert(place, offset), None);
                }
            }
            assert_eq!(all, from);
        }
        assert!(shared_out(&BTreeMap::new(), 3, true).is_empty());
    }
}

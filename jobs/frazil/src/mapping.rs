//! An event source mapping for machines without Lambda. Pollers read a topic's partitions, form events as AWS does (batch
//! size, window, 6 MB of JSON, order within a partition), invoke the ingest function, and commit offsets once it has
//! answered. What fails comes again, whole or cut in two; nothing is ever skipped.
//!
//! Offsets are committed to a consumer group so that the next run goes on from there. They are no truth: what comes twice
//! enters the table once, whatever they say.

#![expect(clippy::disallowed_methods, reason = "real brokers are waited for in real time; no simulation comes here")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fold::pause;
use ingest::Ingest;
use kafka::Consumer;
use kafka::consumer::Place;
use model::run::Stage;
use staging::store::Store;

use crate::events::{Record, Records};
use crate::host::Signals;
use crate::manners::failure::Failure;

/// What Lambda hands over at most, in bytes of JSON.
const EVENT_BYTES_MAX: usize = 6 * 1024 * 1024;
/// The longest wait between two looks at whether to end.
const LOOK: Duration = Duration::from_millis(200);
/// The first wait before an event is tried again, and the longest.
const BACKOFF: Range<Duration> = Duration::from_millis(500)..Duration::from_secs(60);
/// How often it is looked whether ingest is paused.
const PAUSE_LOOK: Duration = Duration::from_secs(5);

/// How events are formed and tried again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Records of an event at most.
    pub(crate) batch: usize,
    /// How long an event may be filled.
    pub(crate) window: Duration,
    /// Whether an event that fails is cut in two.
    pub(crate) bisect: bool,
    /// End once nothing came for so long.
    pub(crate) idle: Option<Duration>,
}

/// What pollers tell those beside them.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) records: AtomicU64,
    pub(crate) invocations: AtomicU64,
    pub(crate) failed_invocations: AtomicU64,
    /// Nanoseconds spent waiting for records, forming events, and in ingest.
    pub(crate) fetch: AtomicU64,
    pub(crate) form: AtomicU64,
    pub(crate) ingest: AtomicU64,
    waiting: Mutex<Waiting>,
    /// Pollers that have ended.
    ended: AtomicUsize,
}

/// What is staged and not folded, as far as this process has staged it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    /// Since when.
    pub(crate) since: Option<Instant>,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

impl Shared {
    /// Takes what waits for a fold: the fold that follows will find it.
    pub(crate) fn take_waiting(&self) -> Waiting {
        std::mem::take(&mut *self.locked())
    }

    /// What waits for a fold.
    pub(crate) fn waiting(&self) -> Waiting {
        *self.locked()
    }

    fn locked(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn staged(&self, rows: u64, bytes: u64) {
        let mut waiting = self.locked();
        waiting.since.get_or_insert_with(Instant::now);
        waiting.rows += rows;
        waiting.bytes += bytes;
    }

    /// How many pollers have ended.
    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }
}

/// One poller.
pub(crate) struct Poller {
    pub(crate) number: usize,
    pub(crate) consumer: Consumer,
    /// Where it begins, by partition.
    pub(crate) next: BTreeMap<Place, i64>,
    pub(crate) ingest: Arc<Ingest>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) pipeline: String,
    /// What events say of their source.
    pub(crate) source: String,
    pub(crate) settings: Settings,
    pub(crate) shared: Arc<Shared>,
    pub(crate) signals: Signals,
}

/// Told to end before an event was taken.
struct Ended;

/// Counts a poller as ended, however it ends: the folds beside it wait for that.
struct End<'a>(&'a AtomicUsize);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Poller {
    /// Polls until told to end, or idle for as long as it may be.
    ///
    /// # Errors
    /// What a person must change.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let _end = End(&self.shared.ended);
        let outcome = self.poll();
        // Its partitions would stay unread, and nobody would know: better all end, and say why.
        if outcome.is_err() && self.signals.ask() {
            tracing::warn!(poller = self.number, "this poller can't go on, and the others end with it");
        }
        outcome
    }

    fn poll(&self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Failure::of(model::failure::Kind::Retry, "runtime.start", &e))?;
        self.consumer.read(&self.next).map_err(|e| crate::kafka::failed(&e))?;
        let mut records = Records::new(&self.source);
        let mut last = Instant::now();
        // The record that had no room in the last event.
        let mut held = None;
        // What was last said of the connections.
        let mut said: Option<String> = None;
        let mut looked = None;
        while !self.signals.asked() {
            records.clear();
            let started = Instant::now();
            let mut form = Duration::ZERO;
            let mut until: Option<Instant> = None;
            let mut count = 0;
            while count < self.settings.batch {
                let wait = until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()).min(LOOK));
                let record = match held.take() {
                    Some(record) => record,
                    None => match self.consumer.poll(wait) {
                        Ok(Some(record)) => record,
                        Ok(None) if self.signals.asked() => break,
                        Ok(None) if until.is_some_and(|until| Instant::now() >= until) => break,
                        Ok(None) if until.is_none() && self.is_idle(last) => break,
                        Ok(None) => {
                            self.say_trouble(&mut said);
                            continue;
                        }
                        Err(error) => return Err(crate::kafka::failed(&error)),
                    },
                };
                let began = Instant::now();
                let (timestamp_ms, log_append) = match record.timestamp() {
                    Some((ms, kind)) => (ms, kind == kafka::TimestampType::LogAppend),
                    None => (-1, false),
                };
                let put = Record {
                    offset: record.offset(),
                    timestamp_ms,
                    log_append,
                    key: record.key(),
                    value: record.value(),
                };
                let headers: usize =
                    record.headers().map(|(name, value)| 2 * name.len() + 16 + 5 * value.map_or(0, <[u8]>::len)).sum();
                if count > 0 && records.bytes() + Records::bytes_of(record.topic(), &put) + headers > EVENT_BYTES_MAX {
                    held = Some(record);
                    break;
                }
                records.push(record.topic(), record.partition(), &put, record.headers());
                count += 1;
                form += began.elapsed();
                until.get_or_insert_with(|| Instant::now() + self.settings.window);
            }
            add(&self.shared.fetch, started.elapsed().saturating_sub(form));
            add(&self.shared.form, form);
            if count == 0 {
                if self.is_idle(last) {
                    break;
                }
                continue;
            }
            said = None;
            if runtime.block_on(self.deliver(&records, &mut looked)).is_err() {
                break;
            }
            last = Instant::now();
        }
        Ok(())
    }

    fn is_idle(&self, last: Instant) -> bool {
        self.settings.idle.is_some_and(|idle| last.elapsed() >= idle)
    }

    /// Tells the log what the client says of its connections, once for as long as it says the same.
    fn say_trouble(&self, said: &mut Option<String>) {
        let text = self.consumer.trouble().map(|error| format!("{error}; {}", error.remedy()));
        if let Some(text) = &text
            && said.as_ref() != Some(text)
        {
            tracing::warn!(poller = self.number, "{text}");
        }
        *said = text;
    }

    /// Invokes until every record of an event is stored.
    /// `looked` is when it was last seen that ingest is not paused.
    async fn deliver(&self, records: &Records, looked: &mut Option<Instant>) -> Result<(), Ended> {
        let all: Vec<Range<usize>> = records.partitions().iter().map(|p| 0..p.offsets.len()).collect();
        // The part that is next comes last.
        let mut parts = vec![all];
        let mut wait = BACKOFF.start;
        while let Some(part) = parts.last() {
            if looked.is_none_or(|looked| looked.elapsed() >= PAUSE_LOOK) {
                self.wait_while_paused().await?;
                *looked = Some(Instant::now());
            }
            let started = Instant::now();
            let (body, count) = records.event(|n, _| part.get(n).cloned().unwrap_or_default());
            add(&self.shared.form, started.elapsed());
            let started = Instant::now();
            let outcome = self.ingest.handle(&body, None).await;
            add(&self.shared.ingest, started.elapsed());
            self.shared.invocations.fetch_add(1, Ordering::Relaxed);
            match outcome {
                Ok(_) => {
                    self.shared.records.fetch_add(count, Ordering::Relaxed);
                    // A staged object takes about a tenth of its event.
                    self.shared.staged(count, body.len() as u64 / 10);
                    self.commit(records, part);
                    parts.pop();
                    wait = BACKOFF.start;
                }
                Err(error) => {
                    self.shared.failed_invocations.fetch_add(1, Ordering::Relaxed);
                    let failure = crate::command::ingest::failed(&error);
                    let advice = failure.advice().unwrap_or("it is tried again");
                    tracing::warn!(poller = self.number, records = count, "{}; {advice}", failure.message);
                    if self.settings.bisect && count > 1 {
                        let (first, second) = cut(part);
                        parts.pop();
                        parts.extend([second, first]);
                    }
                    self.sleep(wait).await?;
                    wait = (wait * 2).min(BACKOFF.end);
                }
            }
        }
        Ok(())
    }

    /// Commits what comes after the last records of a part. A failure costs a redelivery.
    fn commit(&self, records: &Records, part: &[Range<usize>]) {
        let mut next = BTreeMap::new();
        for (partition, range) in records.partitions().iter().zip(part) {
            if let Some(last) =
                range.end.checked_sub(1).filter(|_| !range.is_empty()).and_then(|n| partition.offsets.get(n))
            {
                next.insert(Place { topic: partition.topic.clone(), partition: partition.partition }, last + 1);
            }
        }
        if let Err(error) = self.consumer.commit(&next) {
            tracing::warn!(
                poller = self.number,
                "offsets could not be committed, their records will come again: {error}"
            );
        }
    }

    async fn wait_while_paused(&self) -> Result<(), Ended> {
        let mut is_said = false;
        while let Err(paused) = pause::refuse(self.store.as_ref(), &self.pipeline, Stage::Ingest).await {
            if !is_said {
                tracing::warn!(poller = self.number, "{paused}");
                is_said = true;
            }
            self.sleep(PAUSE_LOOK).await?;
        }
        Ok(())
    }

    async fn sleep(&self, time: Duration) -> Result<(), Ended> {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if self.signals.asked() {
                return Err(Ended);
            }
            tokio::time::sleep(left.min(LOOK)).await;
        }
        Ok(())
    }
}

fn add(to: &AtomicU64, time: Duration) {
    to.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// A part of an event as two, each with the earlier or later records of every partition.
fn cut(part: &[Range<usize>]) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    let several = part.iter().any(|range| range.len() > 1);
    if several {
        let middle = |range: &Range<usize>| range.start + range.len().div_ceil(2);
        let first = part.iter().map(|range| range.start..middle(range)).collect();
        return (first, part.iter().map(|range| middle(range)..range.end).collect());
    }
    // One record of each partition: half of the partitions.
    let half = part.iter().filter(|range| !range.is_empty()).count() / 2;
    let (mut seen, mut first, mut second) = (0, Vec::new(), Vec::new());
    for range in part {
        let is_first = !range.is_empty() && seen < half;
        seen += usize::from(!range.is_empty());
        first.push(if is_first { range.clone() } else { range.start..range.start });
        second.push(if is_first { range.end..range.end } else { range.clone() });
    }
    (first, second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "one partition's part")]
    fn a_part_is_cut_until_one_record_is_left() {
        assert_eq!(cut(&[0..5, 2..3, 4..4]), (vec![0..3, 2..3, 4..4], vec![3..5, 3..3, 4..4]));
        assert_eq!(cut(&[0..1, 7..7, 2..3, 1..2]), (vec![0..1, 7..7, 2..2, 1..1], vec![1..1, 7..7, 2..3, 1..2]));
        let mut parts = vec![vec![0..9, 0..4, 0..1]];
        let mut single = 0;
        while let Some(part) = parts.pop() {
            let count: usize = part.iter().map(Range::len).sum();
            match count {
                1 => single += 1,
                _ => {
                    let (first, second) = cut(&part);
                    let len = |part: &[Range<usize>]| part.iter().map(Range::len).sum::<usize>();
                    assert!(len(&first) > 0 && len(&second) > 0 && len(&first) + len(&second) == count);
                    parts.extend([first, second]);
                }
            }
        }
        assert_eq!(single, 14);
        assert_eq!(cut(&[0..2]), (vec![0..1], vec![1..2]));
    }
}

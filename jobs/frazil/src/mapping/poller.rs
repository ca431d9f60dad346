//! One poller: reads its partitions, forms events, and invokes until every record of an event is stored.

#![expect(clippy::disallowed_methods, reason = "real brokers are waited for in real time; no simulation comes here")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fold::pause;
use kafka::Consumer;
use kafka::consumer::{Next, Place};
use model::failure::Kind;
use model::run::Stage;
use staging::store::Store;

use super::ends::Ends;
use super::function::Function;
use super::part;
use super::{Settings, Shared};
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
/// Partitions that a message names.
const SHOWN_MAX: usize = 5;
/// How long the last commits of offsets are waited for.
const COMMITS: Duration = Duration::from_secs(10);

/// One poller.
pub(crate) struct Poller {
    pub(crate) number: usize,
    pub(crate) consumer: Consumer,
    /// Where it begins, by partition.
    pub(crate) next: BTreeMap<Place, i64>,
    pub(super) function: Function,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) pipeline: String,
    /// What events say of their source.
    pub(crate) source: String,
    /// Where partitions end for it: before these offsets, or where their records end now. It ends with the last of them.
    pub(crate) until: Option<BTreeMap<Place, i64>>,
    /// Whether offsets are committed.
    pub(crate) commits: bool,
    pub(crate) settings: Settings,
    pub(crate) shared: Arc<Shared>,
    pub(crate) signals: Signals,
}

/// Why an event was not taken to its end.
enum Stop {
    /// Told to end.
    Asked,
    /// It was waited for as long as it may be.
    Waited(Failure),
}

/// Counts a poller as ended, however it ends: the folds beside it wait for that.
struct End<'a>(&'a AtomicUsize);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Poller {
    /// Polls until told to end, idle for as long as it may be, or at the end of what it reads. Gives whether it read all of that.
    ///
    /// # Errors
    /// What a person must change.
    pub(crate) fn run(self) -> Result<bool, Failure> {
        let _end = End(&self.shared.ended);
        let outcome = self.poll();
        if self.commits
            && let Err(error) = self.consumer.settle(COMMITS)
        {
            self.say_uncommitted(&error);
        }
        // Its partitions would stay unread, and nobody would know: better all end, and say why.
        if outcome.is_err() && self.signals.ask() {
            tracing::warn!(poller = self.number, "this poller can't go on, and the others end with it");
        }
        outcome
    }

    fn poll(&self) -> Result<bool, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Failure::of(Kind::Retry, "runtime.start", &e))?;
        let mut ends = Ends::new(&self.next, self.until.as_ref());
        self.consumer.read(&self.next).map_err(|e| crate::kafka::failed(&e))?;
        if let Some(readiness) = &self.shared.readiness {
            readiness.reads(self.number);
        }
        let mut records = Records::new(&self.source);
        let mut last = Instant::now();
        // The record that had no room in the last event.
        let mut held = None;
        // What was last said of the connections.
        let mut said: Option<String> = None;
        let mut looked = None;
        // Told to end before all of an event was stored.
        let mut is_cut = false;
        while !self.signals.asked() && !ends.all() {
            records.clear();
            let started = Instant::now();
            let mut form = Duration::ZERO;
            let mut until: Option<Instant> = None;
            let mut count = 0;
            while count < self.settings.batch && !ends.all() {
                let wait = until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()).min(LOOK));
                let next = match held.take() {
                    Some(record) => Next::Record(record),
                    None => self.consumer.next(wait).map_err(|e| crate::kafka::failed(&e))?,
                };
                let record = match next {
                    Next::Record(record) => record,
                    Next::End(partition) => {
                        ends.end(partition);
                        continue;
                    }
                    Next::Nothing if self.signals.asked() => break,
                    Next::Nothing if until.is_some_and(|until| Instant::now() >= until) => break,
                    Next::Nothing if until.is_none() && self.is_idle(last) => break,
                    Next::Nothing => {
                        self.say_trouble(&mut said);
                        self.read_more();
                        if until.is_none() && self.has_waited(last) {
                            return Err(self.waited_for(&ends));
                        }
                        continue;
                    }
                };
                if !ends.takes(record.partition(), record.offset()) {
                    continue;
                }
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
                ends.took(record.partition(), record.offset());
                count += 1;
                form += began.elapsed();
                until.get_or_insert_with(|| Instant::now() + self.settings.window);
            }
            add(&self.shared.fetch, started.elapsed().saturating_sub(form));
            add(&self.shared.form, form);
            if count > 0 {
                said = None;
                match runtime.block_on(self.deliver(&records, &mut looked)) {
                    Ok(()) => last = Instant::now(),
                    Err(Stop::Waited(failure)) => return Err(failure),
                    Err(Stop::Asked) => {
                        is_cut = true;
                        break;
                    }
                }
            } else if self.is_idle(last) {
                break;
            }
            self.read_more();
        }
        Ok(ends.all() && !is_cut)
    }

    /// Begins to read partitions that topics got meanwhile and that are this poller's.
    fn read_more(&self) {
        for (place, from) in self.shared.take_added(self.number) {
            let Place { topic, partition } = &place;
            match self.consumer.read_also(&place, from) {
                Ok(()) => tracing::info!(poller = self.number, topic, partition, "a new partition is read"),
                Err(error) => {
                    tracing::warn!(
                        poller = self.number,
                        topic,
                        partition,
                        "a new partition waits for the next run: {error}"
                    );
                }
            }
        }
    }

    fn is_idle(&self, last: Instant) -> bool {
        self.settings.idle.is_some_and(|idle| last.elapsed() >= idle)
    }

    /// Whether nothing has gone on for as long as that may be.
    fn has_waited(&self, since: Instant) -> bool {
        self.settings.wait.is_some_and(|wait| since.elapsed() >= wait)
    }

    /// What was waited for in vain, where records should have come.
    fn waited_for(&self, ends: &Ends) -> Failure {
        let seconds = self.settings.wait.unwrap_or_default().as_secs();
        let topic = self.next.keys().next().map_or("", |place| place.topic.as_str());
        let open: Vec<String> =
            ends.open().map(|(partition, end)| format!("{topic}-{partition} before {end}")).collect();
        let open = match open.get(SHOWN_MAX..) {
            Some(more) if !more.is_empty() => {
                format!("{} and {} more", open.get(..SHOWN_MAX).unwrap_or_default().join(", "), more.len())
            }
            _ => open.join(", "),
        };
        let why = self.consumer.trouble().map_or_else(String::new, |error| format!(": {error}"));
        let message = format!("no record has come for {seconds} s, and not all is read ({open}){why}");
        Failure::new(Kind::Retry, "run.waited", message)
            .remedy("see that its brokers are up, and run the same command again; --wait gives it longer")
    }

    /// Tells the log what the client says of its connections and of commits, once for as long as it says the same.
    fn say_trouble(&self, said: &mut Option<String>) {
        if let Some(error) = self.consumer.uncommitted() {
            self.say_uncommitted(&error);
        }
        let text = self.consumer.trouble().map(|error| format!("{error}; {}", error.remedy()));
        if let Some(text) = &text
            && said.as_ref() != Some(text)
        {
            tracing::warn!(poller = self.number, "{text}");
        }
        *said = text;
    }

    fn say_uncommitted(&self, error: &kafka::Error) {
        tracing::warn!(
            poller = self.number,
            "offsets could not be committed, and their records come again with the next run, where none were committed later: {error}"
        );
    }

    /// Invokes until every record of an event is stored.
    /// `looked` is when it was last seen that ingest is not paused.
    async fn deliver(&self, records: &Records, looked: &mut Option<Instant>) -> Result<(), Stop> {
        // The part that is next comes last.
        let mut parts = vec![part::whole(records)];
        let mut wait = BACKOFF.start;
        let mut since = Instant::now();
        while let Some(part) = parts.pop() {
            if looked.is_none_or(|looked| looked.elapsed() >= PAUSE_LOOK) {
                self.wait_while_paused(since).await?;
                *looked = Some(Instant::now());
            }
            let started = Instant::now();
            let (body, count) = records.event(|n, _| part.get(n).cloned().unwrap_or_default());
            // A staged object takes about a tenth of its event.
            let bytes = body.len() as u64 / 10;
            add(&self.shared.form, started.elapsed());
            let started = Instant::now();
            let answer = self.function.invoke(body).await;
            add(&self.shared.ingest, started.elapsed());
            self.shared.invocations.fetch_add(1, Ordering::Relaxed);
            let answer = answer.and_then(|reported| {
                part::left(records, &part, &reported).map_err(|stranger| {
                    let message = format!(
                        "the function names {} of `{}`, which was not handed over",
                        stranger.offset, stranger.partition
                    );
                    Failure::new(Kind::Misconfigured, "invoke.stranger", message)
                        .remedy("have it name records as they are in the event: \"topic-partition\" and offset")
                })
            });
            let (left, failure) = match answer {
                Ok(left) => {
                    let done = part::done(&part, &left);
                    let stored = part::count(&done) as u64;
                    if stored > 0 {
                        self.shared.records.fetch_add(stored, Ordering::Relaxed);
                        self.shared.staged(stored, bytes * stored / count.max(1));
                        if self.commits {
                            self.commit(records, &done);
                        }
                        (wait, since) = (BACKOFF.start, Instant::now());
                    }
                    if stored == count {
                        self.tell(None);
                        continue;
                    }
                    (left, not_all(count - stored, count))
                }
                Err(failure) => (part, failure),
            };
            self.shared.failed_invocations.fetch_add(1, Ordering::Relaxed);
            let advice = failure.advice().unwrap_or("it is tried again");
            tracing::warn!(poller = self.number, records = count, "{}; {advice}", failure.message);
            self.tell(Some(failure.message.clone()));
            let is_stuck = part::count(&left) as u64 == count;
            if self.settings.bisect && is_stuck && count > 1 {
                let (first, second) = part::cut(&left);
                parts.extend([second, first]);
            } else {
                parts.push(left);
            }
            if self.has_waited(since) {
                return Err(Stop::Waited(failure));
            }
            self.sleep(wait).await?;
            wait = (wait * 2).min(BACKOFF.end);
        }
        Ok(())
    }

    /// Tells whoever asks what keeps an event from being stored.
    fn tell(&self, why: Option<String>) {
        if let Some(readiness) = &self.shared.readiness {
            readiness.delivery(self.number, why);
        }
    }

    /// Has committed what comes after the last records of a part. A failure costs a redelivery.
    fn commit(&self, records: &Records, part: &[Range<usize>]) {
        let mut next = BTreeMap::new();
        for (partition, range) in records.partitions().iter().zip(part) {
            if let Some(last) =
                range.end.checked_sub(1).filter(|_| !range.is_empty()).and_then(|n| partition.offsets.get(n))
            {
                next.insert(Place { topic: partition.topic.clone(), partition: partition.partition }, last + 1);
            }
        }
        if let Err(error) = self.consumer.commit_later(&next) {
            self.say_uncommitted(&error);
        }
    }

    /// Waits for the end of a pause. `since` is when something was last stored.
    async fn wait_while_paused(&self, since: Instant) -> Result<(), Stop> {
        let mut is_said = false;
        while let Err(paused) = pause::refuse(self.store.as_ref(), &self.pipeline, Stage::Ingest).await {
            if !is_said {
                tracing::warn!(poller = self.number, "{paused}");
                self.tell(Some(paused.to_string()));
                is_said = true;
            }
            if self.has_waited(since) {
                return Err(Stop::Waited(crate::command::fold::failed(&paused)));
            }
            self.sleep(PAUSE_LOOK.min(self.settings.wait.unwrap_or(PAUSE_LOOK))).await?;
        }
        if is_said {
            self.tell(None);
        }
        Ok(())
    }

    async fn sleep(&self, time: Duration) -> Result<(), Stop> {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if self.signals.asked() {
                return Err(Stop::Asked);
            }
            tokio::time::sleep(left.min(LOOK)).await;
        }
        Ok(())
    }
}

fn not_all(left: u64, count: u64) -> Failure {
    let message =
        format!("the function has not stored all records of an event: {left} of {count} are left, and come again");
    Failure::new(Kind::Retry, "invoke.partial", message).remedy("what the function logs says more")
}

fn add(to: &AtomicU64, time: Duration) {
    to.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

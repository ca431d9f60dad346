//! One poller: reads its partitions, forms events, and invokes until every record of an event is stored.

#![expect(clippy::disallowed_methods, reason = "real brokers are waited for in real time; no simulation comes here")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fold::pause;
use ingest::Ingest;
use kafka::Consumer;
use kafka::consumer::{Next, Place};
use model::run::Stage;
use staging::store::Store;

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
    /// Where partitions end for it: before these offsets, or where their records end now. It ends with the last of them.
    pub(crate) until: Option<BTreeMap<Place, i64>>,
    /// Whether offsets are committed.
    pub(crate) commits: bool,
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
    /// Polls until told to end, idle for as long as it may be, or at the end of what it reads. Gives whether it read all of that.
    ///
    /// # Errors
    /// What a person must change.
    pub(crate) fn run(self) -> Result<bool, Failure> {
        let _end = End(&self.shared.ended);
        let outcome = self.poll();
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
            .map_err(|e| Failure::of(model::failure::Kind::Retry, "runtime.start", &e))?;
        let mut ends = Ends::new(&self.next, self.until.as_ref());
        self.consumer.read(&self.next).map_err(|e| crate::kafka::failed(&e))?;
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
                if runtime.block_on(self.deliver(&records, &mut looked)).is_err() {
                    is_cut = true;
                    break;
                }
                last = Instant::now();
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
                    if self.commits {
                        self.commit(records, part);
                    }
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

/// The partitions that are read to an end, with the offsets before which they end. They are all of one topic.
struct Ends {
    open: Option<BTreeMap<i32, i64>>,
}

impl Ends {
    fn new(next: &BTreeMap<Place, i64>, until: Option<&BTreeMap<Place, i64>>) -> Self {
        let open = until.map(|until| {
            let open = next.iter().filter_map(|(place, from)| Some((place, from, until.get(place)?)));
            open.filter(|(_, from, end)| from < end).map(|(place, _, end)| (place.partition, *end)).collect()
        });
        Self { open }
    }

    /// Whether all have ended.
    fn all(&self) -> bool {
        self.open.as_ref().is_some_and(BTreeMap::is_empty)
    }

    /// A partition has no further record now.
    fn end(&mut self, partition: i32) {
        if let Some(open) = &mut self.open {
            open.remove(&partition);
        }
    }

    /// Whether a record lies before its partition's end. One that does not ends it.
    fn takes(&mut self, partition: i32, offset: i64) -> bool {
        let Some(open) = &mut self.open else { return true };
        match open.get(&partition) {
            Some(end) if offset < *end => true,
            Some(_) => {
                open.remove(&partition);
                false
            }
            None => false,
        }
    }

    /// A record was taken: the last before its partition's end ends it.
    fn took(&mut self, partition: i32, offset: i64) {
        if let Some(open) = &mut self.open
            && open.get(&partition).is_some_and(|end| offset + 1 >= *end)
        {
            open.remove(&partition);
        }
    }
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
    fn partitions_end_at_an_offset_behind_it_or_where_their_records_do() {
        let place = |partition| Place { topic: "t".to_owned(), partition };
        let next: BTreeMap<Place, i64> = (0..4).map(|n| (place(n), 10)).collect();
        let until: BTreeMap<Place, i64> = [(place(0), 12), (place(1), 12), (place(2), 20), (place(3), 10)].into();
        let mut ends = Ends::new(&next, Some(&until));
        assert!(!ends.takes(3, 10), "it was empty from the start");
        assert!(ends.takes(0, 10));
        ends.took(0, 10);
        assert!(ends.takes(0, 11));
        ends.took(0, 11);
        assert!(!ends.takes(0, 12));
        // Offset 11 was a marker.
        assert!(!ends.takes(1, 12) && !ends.all());
        ends.end(2);
        assert!(ends.all());
        let mut never = Ends::new(&next, None);
        never.end(0);
        assert!(never.takes(0, i64::MAX) && !never.all());
    }

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

//! A load generator: Employee records as the event source mapping hands them over, and the truth about what was sent.
//!
//! [`Generator`] yields [`Delivery`]s: the JSON events of one topic of 32 partitions, at most 10,000 records and 6 MB
//! each, several partitions an event, offsets in order within a partition. One event in 100 is delivered twice, one
//! record in 1000 is two hours late, and a given share can't be decoded. Everything follows from the seed: neither the
//! clock nor the machine plays a part, so two runs of one seed send the same bytes.
//!
//! With [`Options::dedup`] every record has an employee of its own, and one in 500 is sent a second time later, under a new
//! offset: half of those with an event time up to half an hour after the first.

mod employee;
mod lateness;
mod spoil;
pub mod stream;
pub mod truth;

use std::collections::VecDeque;

use model::id::{Ids, SeededIds};

use crate::events::{Record, Records};

use employee::Employee;
use lateness::Lateness;
use truth::Truth;

/// What an event says of its source. A self-made ARN of the documented form: it names no account and no cluster.
const SOURCE: &str = concat!(
    r#""eventSource":"aws:kafka","#,
    r#""eventSourceArn":"arn:aws:kafka:eu-west-1:000000000000:cluster/frazil-demo/00000000-0000-4000-8000-000000000000-1","#,
    r#""bootstrapServers":"b-1.demo.invalid:9098,b-2.demo.invalid:9098","#
);
/// The topic of the records.
pub const TOPIC: &str = "protobuf-demo-topic-pure";
/// How many partitions the topic has.
pub const PARTITIONS: usize = 32;
/// What the event source mapping hands over at most: records.
const RECORDS_MAX: u64 = 10_000;
/// And bytes of JSON.
const BYTES_MAX: usize = 6 * 1024 * 1024;
/// Small runs get small events, so that they too have redeliveries: about this many events a run.
const EVENTS: u64 = 100;
/// The first record's time, 2026-11-02T08:20:00Z, in milliseconds: fixed, so that a seed repeats every byte.
pub(crate) const START_MS: i64 = 1_793_607_600_000;
/// The stream spans two and a half hours, so the table has several hours' partitions.
const SPAN_MS: i64 = 150 * 60 * 1000;
/// How late a late record is.
const LATE_MS: i64 = 2 * 60 * 60 * 1000;
/// One record in this many is late.
const LATE_EVERY: u64 = 1000;
/// One event in this many is delivered twice.
const TWICE_EVERY: u64 = 100;
/// Which of them: an early one, so that a run of a little more than a hundred events has two.
const TWICE_AT: u64 = 10;
/// A re-cut redelivery comes this many events later, past the next fold where there are several.
const RECUT_AFTER: u64 = 60;

/// One record in this many is sent twice, where records repeat.
const REPEATED_EVERY: u64 = 500;
/// How far a repeated record's event time may lie behind the first one's.
const REPEATED_MS_MAX: i64 = 30 * 60 * 1000;

/// What to generate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// How many records, not counting redeliveries.
    pub records: u64,
    /// The share of them that can't be decoded, 0 to 1.
    pub bad: f64,
    /// Repeats a run exactly.
    pub seed: u64,
    /// Whether keys are records' own, and some records are sent twice.
    pub dedup: bool,
}

/// What was sent so far, in records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Records, each counted once.
    pub records: u64,
    /// Records of events delivered a second time, and records sent a second time.
    pub duplicates: u64,
    /// Records whose event time is two hours late.
    pub late: u64,
    /// Records that can't be decoded.
    pub bad: u64,
}

/// One event as the event source mapping hands it over.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The event's JSON.
    pub body: Vec<u8>,
    /// Records in it.
    pub records: u64,
    /// Whether all of them were delivered before.
    pub again: bool,
    /// The time of its newest record, in milliseconds.
    pub sent_ms: i64,
}

/// Generates a run, event by event.
#[derive(Debug)]
pub struct Generator {
    options: Options,
    ids: SeededIds,
    /// The next offset of each partition.
    offsets: [i64; PARTITIONS],
    /// Events made so far, redeliveries aside.
    events: u64,
    /// Redeliveries waiting: the event count at which each is due.
    waiting: VecDeque<(u64, Delivery)>,
    /// Fixed-point share of bad records carried over: one is due at each overflow of 32 bits.
    bad_step: u64,
    bad_due: u64,
    sent: Sent,
    truth: Truth,
    lateness: Lateness,
    /// Records to be sent a second time: once so many were sent.
    repeats: VecDeque<(u64, Employee)>,
    /// The newest record's time.
    now_ms: i64,
    /// (Partition, event time) of the event's rows.
    rows: Vec<(usize, i64)>,
    payload: Vec<u8>,
}

impl Generator {
    /// A generator at its start. A share outside 0 to 1 is taken as the nearest end.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let share = if options.bad.is_nan() { 0.0 } else { options.bad.clamp(0.0, 1.0) };
        // 0 to 2^32 after the clamp.
        let bad_step = (share * 4_294_967_296.0).round() as u64;
        Self {
            options,
            ids: SeededIds::new(options.seed),
            offsets: [0; PARTITIONS],
            events: 0,
            waiting: VecDeque::new(),
            bad_step,
            // Half a share ahead: the first bad record comes in the middle of its stretch, not at its end.
            bad_due: if bad_step == 0 { 0 } else { 1 << 31 },
            sent: Sent::default(),
            truth: Truth::default(),
            lateness: Lateness::default(),
            repeats: VecDeque::new(),
            now_ms: START_MS,
            rows: Vec::new(),
            payload: Vec::with_capacity(256),
        }
    }

    /// What this run generates.
    #[must_use]
    pub fn options(&self) -> Options {
        self.options
    }

    /// What was sent so far.
    #[must_use]
    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// Rows that came so late that their events are behind the watermark less the lookback of the demo's pipeline, if each
    /// event is staged at the time of its newest record.
    #[must_use]
    pub const fn late_rows(&self) -> u64 {
        self.lateness.late()
    }

    /// What the table must hold once everything sent so far is folded.
    #[must_use]
    pub fn truth(&self) -> &Truth {
        &self.truth
    }

    /// The next event, or nothing when all records and redeliveries were handed over.
    pub fn next_delivery(&mut self) -> Option<Delivery> {
        let finished = self.sent.records >= self.options.records;
        if self.waiting.front().is_some_and(|(due, _)| finished || *due <= self.events)
            && let Some((_, delivery)) = self.waiting.pop_front()
        {
            self.sent.duplicates += delivery.records;
            return Some(delivery);
        }
        match finished {
            false => Some(self.generate()),
            true if self.repeats.is_empty() => None,
            true => Some(self.repeat_the_rest()),
        }
    }

    /// The records that were still to be sent a second time, as an event of their own.
    fn repeat_the_rest(&mut self) -> Delivery {
        let mut recorded = Records::new(SOURCE);
        let partition = usize::try_from(self.events * 7 % PARTITIONS as u64).unwrap_or(0);
        for _ in 0..RECORDS_MAX {
            let Some((_, employee)) = self.repeats.pop_front() else { break };
            self.repeat(partition, &employee, &mut recorded);
        }
        self.events += 1;
        self.deliver(&recorded)
    }

    /// The event of all records made for it.
    fn deliver(&mut self, recorded: &Records) -> Delivery {
        let (body, records) = recorded.whole();
        self.lateness.event(self.now_ms, &self.rows);
        self.rows.clear();
        Delivery { body, records, again: false, sent_ms: self.now_ms }
    }

    fn generate(&mut self) -> Delivery {
        let most = (self.options.records / EVENTS).clamp(20, RECORDS_MAX);
        // Room for those that are sent a second time.
        let most = if self.options.dedup { most - most / 20 } else { most };
        // Between three fifths and all of what is allowed: a poll seldom ends exactly at the limit.
        let least = most * 3 / 5;
        let wanted = least + self.ids.next_u64() % (most - least + 1);
        let wanted = wanted.min(self.options.records - self.sent.records);
        let width = 1 + self.ids.next_u64() % 8;
        // 7 and 5 share no factor with 32: events walk over all partitions, and those of one event differ.
        let partition = |j: u64| usize::try_from((self.events * 7 + j * 5) % PARTITIONS as u64).unwrap_or(0);
        let partitions: Vec<usize> = (0..width).map(partition).collect();

        let mut recorded = Records::new(SOURCE);
        let first = self.sent.records;
        for (j, &partition) in (0..).zip(&partitions) {
            recorded.expect(TOPIC, number(partition), wanted / width + 1);
            for nth in (j..wanted).step_by(usize::try_from(width).unwrap_or(1)) {
                if recorded.bytes() >= BYTES_MAX {
                    break;
                }
                self.record(partition, first + nth, &mut recorded);
            }
        }
        let index = self.events;
        self.events += 1;
        if index % TWICE_EVERY == TWICE_AT {
            self.redeliver(index, &recorded);
        }
        self.deliver(&recorded)
    }

    /// Makes one record, good or bad. `index` places it in the stream's time.
    fn record(&mut self, partition: usize, index: u64, recorded: &mut Records) {
        let draw = self.ids.next_u64();
        // Both factors are far below 2^63: at most 10^13 records over 9 million milliseconds.
        let elapsed = i128::from(index) * i128::from(SPAN_MS) / i128::from(self.options.records.max(1));
        let timestamp = START_MS + i64::try_from(elapsed).unwrap_or(SPAN_MS);
        let mut employee = Employee::drawn(draw, timestamp);
        if self.options.dedup {
            employee.id = u32::try_from(index).unwrap_or(u32::MAX);
        }
        self.now_ms = self.now_ms.max(timestamp);
        self.sent.records += 1;
        if self.sent.records % LATE_EVERY == LATE_EVERY / 2 {
            employee.start_ms -= LATE_MS;
            self.sent.late += 1;
        }
        self.bad_due += self.bad_step;
        let bad = self.bad_due >= 1 << 32;
        self.payload.clear();
        if bad {
            self.bad_due -= 1 << 32;
            spoil::encode(self.sent.bad, &employee, &mut self.payload);
            self.sent.bad += 1;
        } else {
            employee.encode(&mut self.payload);
        }
        let Some(next) = self.offsets.get_mut(partition) else { return };
        let offset = *next;
        *next += 1;
        put(recorded, partition, offset, timestamp, &self.payload);
        if !bad {
            self.truth.add(&employee, partition, offset, timestamp);
            self.rows.push((partition, employee.start_ms));
            if self.options.dedup && index % REPEATED_EVERY == REPEATED_EVERY / 3 {
                let wait = 1 + draw % (self.options.records / 10).max(1);
                let after = if draw.is_multiple_of(2) { 0 } else { 1 + (draw >> 33) as i64 % REPEATED_MS_MAX };
                let again = Employee { start_ms: employee.start_ms + after, ..employee };
                // A bounded wait: they are sent in the order in which they were due first.
                self.repeats.push_back((self.sent.records + wait, again));
            }
        }
        if self.repeats.front().is_some_and(|(due, _)| *due <= self.sent.records)
            && let Some((_, employee)) = self.repeats.pop_front()
        {
            self.repeat(partition, &employee, recorded);
        }
    }

    /// Sends a record a second time, under a new offset.
    fn repeat(&mut self, partition: usize, employee: &Employee, recorded: &mut Records) {
        self.payload.clear();
        employee.encode(&mut self.payload);
        let Some(next) = self.offsets.get_mut(partition) else { return };
        put(recorded, partition, *next, self.now_ms, &self.payload);
        *next += 1;
        self.sent.duplicates += 1;
        self.rows.push((partition, employee.start_ms));
    }

    /// Every other redelivery is the same event at once; the others are cut differently and come later.
    fn redeliver(&mut self, index: u64, recorded: &Records) {
        let recut = (index / TWICE_EVERY).is_multiple_of(2);
        if recut {
            for (body, records) in recorded.halves() {
                if records > 0 {
                    let delivery = Delivery { body, records, again: true, sent_ms: self.now_ms };
                    self.waiting.push_back((self.events + RECUT_AFTER, delivery));
                }
            }
        } else {
            let (body, records) = recorded.whole();
            let delivery = Delivery { body, records, again: true, sent_ms: self.now_ms };
            self.waiting.push_front((self.events, delivery));
        }
    }
}

/// A partition's number; there are few.
fn number(partition: usize) -> i32 {
    i32::try_from(partition).unwrap_or(i32::MAX)
}

/// Puts in a record without a key.
fn put(records: &mut Records, partition: usize, offset: i64, timestamp_ms: i64, value: &[u8]) {
    let record = Record { offset, timestamp_ms, log_append: false, key: None, value: Some(value) };
    records.push(TOPIC, number(partition), &record, []);
}

#[cfg(test)]
mod tests;

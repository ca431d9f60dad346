//! How far event time has come, so that a row can be called late.
//!
//! Every partition remembers the greatest event time of its rows, each capped at its object's minute and five more: a
//! clock that runs ahead must not make everybody else late. The watermark is the least of these over the partitions
//! that had rows within the last hour, and never moves back.
//!
//! It moves between minutes of objects, not between objects: within a minute keys are in order of their hashes, which
//! says nothing about time, and a fold may see half of a minute. So the cut into folds changes nothing.

use serde::{Deserialize, Serialize};

use crate::clock::{Minute, Timestamp};
use crate::ledger::Ledger;

/// An event time counts at most this far ahead of its object's minute, in minutes.
pub const AHEAD_MINUTES_MAX: i64 = 5;
/// The first instant of the year 1, in microseconds: an earlier event time counts as this one. Four digits of a year are
/// what the ledger's text has.
const EARLIEST_MICROS: i64 = -62_135_596_800_000_000;
/// A partition without rows for longer than this holds nobody back, in minutes.
pub const ACTIVE_MINUTES: i64 = 60;

/// How far one partition's event time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The greatest event time of a row, capped.
    pub event_time: Timestamp,
    /// The newest object minute that brought rows.
    pub minute: Minute,
}

/// How far a table's event time has come, for one pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermark {
    /// The newest object minute that brought rows.
    pub minute: Minute,
    /// What the rows of that minute are held against: the watermark after all earlier minutes. Absent while there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_time: Option<Timestamp>,
}

impl Seen {
    /// With one object's rows added.
    #[must_use]
    pub fn with(earlier: Option<Self>, greatest: Timestamp, minute: Minute) -> Self {
        let earliest = Timestamp::from_micros(EARLIEST_MICROS);
        let capped = greatest.min(minute.plus(AHEAD_MINUTES_MAX).start()).max(earliest);
        match earlier {
            None => Self { event_time: capped, minute },
            Some(seen) => Self { event_time: seen.event_time.max(capped), minute: seen.minute.max(minute) },
        }
    }
}

impl Ledger {
    /// Moves the watermark to an object's minute, before any row of that minute is added with [`Seen::with`], and gives
    /// what its rows are held against. An object of an earlier minute is held against the watermark as it is.
    pub fn enter_minute(&mut self, minute: Minute) -> Option<Timestamp> {
        let before = self.watermark;
        if before.is_some_and(|watermark| minute <= watermark.minute) {
            return before.and_then(|watermark| watermark.event_time);
        }
        let active = minute.plus(-ACTIVE_MINUTES);
        let seen = self.partitions().filter_map(|(_, partition)| partition.event_time);
        let least = seen.filter(|seen| seen.minute >= active).map(|seen| seen.event_time).min();
        let event_time = before.and_then(|watermark| watermark.event_time).max(least);
        self.watermark = Some(Watermark { minute, event_time });
        event_time
    }

    /// Takes over how far event time has come from a copy of the ledger that rows were added to.
    pub fn take_event_times(&mut self, marks: &Self) {
        self.watermark = marks.watermark;
        for (at, partition) in marks.partitions() {
            if let Some(seen) = partition.event_time {
                self.set_seen(&at, seen);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinate::{SourceId, TopicPartition};

    fn at(partition: i32) -> TopicPartition {
        TopicPartition { source: SourceId::of("c"), topic: "t".to_owned(), partition }
    }

    fn minute(n: i64) -> Minute {
        Timestamp::from_micros(0).minute().plus(1_000_000 + n)
    }

    fn time(minutes: i64) -> Timestamp {
        minute(minutes).start()
    }

    fn add(ledger: &mut Ledger, partition: i32, of: i64, greatest: i64) -> Option<Timestamp> {
        let watermark = ledger.enter_minute(minute(of));
        ledger.see(&at(partition), time(greatest), minute(of));
        watermark
    }

    #[test]
    fn the_slowest_partition_holds_it_back_until_it_is_silent() {
        let mut ledger = Ledger::empty(minute(0));
        assert_eq!(add(&mut ledger, 0, 10, 9), None);
        assert_eq!(add(&mut ledger, 1, 10, 2), None, "a minute is held against those before it");
        assert_eq!(add(&mut ledger, 0, 11, 11), Some(time(2)));
        assert_eq!(add(&mut ledger, 0, 70, 70), Some(time(2)));
        assert_eq!(add(&mut ledger, 0, 71, 71), Some(time(70)), "partition 1 was silent for more than an hour");
        assert_eq!(add(&mut ledger, 1, 72, 3), Some(time(71)));
        assert_eq!(add(&mut ledger, 0, 73, 73), Some(time(71)), "it never moves back");
        assert_eq!(
            add(&mut ledger, 0, 60, 60),
            Some(time(71)),
            "an object that lands late is held against what there is"
        );
        let text = serde_json::to_string(&ledger).unwrap();
        assert_eq!(Ledger::from_json(&text).unwrap(), ledger);
    }

    #[test]
    fn a_clock_ahead_makes_nobody_late() {
        let mut ledger = Ledger::empty(minute(0));
        add(&mut ledger, 0, 10, 1_000_000_000);
        assert_eq!(add(&mut ledger, 0, 11, 11), Some(time(15)), "five minutes ahead at most");
        let mut ledger = Ledger::empty(minute(0));
        add(&mut ledger, 0, 10, -500_000_000);
        assert_eq!(add(&mut ledger, 0, 11, 11), Some(time(-500_000_000)), "years ago is a time like others");
        let mut ledger = Ledger::empty(minute(0));
        for micros in [i64::MIN, i64::MAX] {
            ledger.see(&at(0), Timestamp::from_micros(micros), minute(10));
            let text = serde_json::to_string(&ledger).unwrap();
            assert_eq!(Ledger::from_json(&text).unwrap(), ledger, "whatever a producer sends can be written down");
        }
    }

    #[test]
    fn the_cut_into_folds_and_the_order_within_a_minute_change_nothing() {
        // (partition, minute, greatest event time) in order of minutes.
        let objects: Vec<(i32, i64, i64)> = (0..198).map(|n| (n as i32 * 7 % 5, n / 6, n / 6 - n * 11 % 9)).collect();
        let run = |order: &dyn Fn(usize) -> usize| {
            let mut ledger = Ledger::empty(minute(0));
            let mut held = vec![None; objects.len()];
            for n in 0..objects.len() {
                let n = order(n);
                let (partition, of, greatest) = objects[n];
                held[n] = add(&mut ledger, partition, of, greatest);
                // As if each object were a fold of its own.
                ledger = Ledger::from_json(&serde_json::to_string(&ledger).unwrap()).unwrap();
            }
            held
        };
        let plain = run(&|n| n);
        assert!(plain.iter().flatten().count() > 150);
        // Backwards within each minute.
        let turned = run(&|n| n / 6 * 6 + 5 - n % 6);
        assert_eq!(plain, turned);
    }
}

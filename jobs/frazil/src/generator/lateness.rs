//! Which rows come late, worked out once more from the definition: nothing of frazil's own watermark is used, so that the
//! two can be held against each other.

use super::PARTITIONS;

/// The lookback of the demo's pipeline.
pub(crate) const LOOKBACK_MS: i64 = 60 * 60 * 1000;
const MINUTE_MS: i64 = 60_000;

/// How far event time has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Lateness {
    /// The newest minute, and what its rows are held against.
    minute: i64,
    watermark: Option<i64>,
    /// By partition: (greatest event time, newest minute).
    seen: [Option<(i64, i64)>; PARTITIONS],
    late: u64,
}

impl Lateness {
    /// Takes in the rows of one event, (partition, event time) each, staged at a time.
    pub(super) fn event(&mut self, staged_ms: i64, rows: &[(usize, i64)]) {
        if rows.is_empty() {
            return;
        }
        let minute = staged_ms.div_euclid(MINUTE_MS);
        if minute > self.minute {
            self.minute = minute;
            let active = self.seen.iter().flatten().filter(|(_, newest)| minute - newest <= 60);
            self.watermark = self.watermark.max(active.map(|(greatest, _)| *greatest).min());
        }
        let late = |event_time: i64| self.watermark.is_some_and(|watermark| event_time < watermark - LOOKBACK_MS);
        self.late += rows.iter().filter(|(_, event_time)| late(*event_time)).count() as u64;
        let ahead = (minute + 5) * MINUTE_MS;
        for (partition, event_time) in rows {
            if let Some(seen) = self.seen.get_mut(*partition) {
                let before = seen.map_or(i64::MIN, |(greatest, _)| greatest);
                *seen = Some((before.max((*event_time).min(ahead)), minute));
            }
        }
    }

    /// Rows that came late so far.
    pub(super) const fn late(&self) -> u64 {
        self.late
    }
}

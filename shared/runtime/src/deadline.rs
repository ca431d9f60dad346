//! The instant until which something may be tried.

use std::time::Duration;

use model::clock::{Clock, Timestamp};

/// An instant after which no new attempt starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Timestamp);

impl Deadline {
    /// At an instant.
    #[must_use]
    pub const fn at(instant: Timestamp) -> Self {
        Self(instant)
    }

    /// Some time from now.
    #[must_use]
    pub fn after(clock: &dyn Clock, wait: Duration) -> Self {
        Self(clock.now().plus_micros(i64::try_from(wait.as_micros()).unwrap_or(i64::MAX)))
    }

    /// From a Lambda invocation's deadline, milliseconds since the epoch, less what is kept back for the answer.
    #[must_use]
    pub fn of_invocation(deadline_ms: u64, reserve: Duration) -> Self {
        let end = Timestamp::from_millis(i64::try_from(deadline_ms).unwrap_or(i64::MAX));
        Self(end.plus_micros(i64::try_from(reserve.as_micros()).map_or(i64::MIN, |micros| -micros)))
    }

    /// The instant itself.
    #[must_use]
    pub const fn instant(self) -> Timestamp {
        self.0
    }

    /// How much time is left; zero when it has passed.
    #[must_use]
    pub fn remaining(self, now: Timestamp) -> Duration {
        let micros = self.0.micros().saturating_sub(now.micros());
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    /// Whether it has passed.
    #[must_use]
    pub fn passed(self, now: Timestamp) -> bool {
        now >= self.0
    }
}

#[cfg(test)]
mod tests {
    use model::clock::ManualClock;

    use super::*;

    #[test]
    fn what_is_left_is_never_negative_and_the_answers_share_is_kept_back() {
        let clock = ManualClock::new(Timestamp::from_millis(1_000));
        let deadline = Deadline::after(&clock, Duration::from_secs(2));
        assert_eq!(deadline.remaining(clock.now()), Duration::from_secs(2));
        clock.advance_micros(5_000_000);
        assert!(deadline.passed(clock.now()));
        assert_eq!(deadline.remaining(clock.now()), Duration::ZERO);
        let invocation = Deadline::of_invocation(60_000, Duration::from_millis(500));
        assert_eq!(invocation.instant(), Timestamp::from_millis(59_500));
        assert!(!Deadline::of_invocation(u64::MAX, Duration::ZERO).passed(clock.now()));
    }
}

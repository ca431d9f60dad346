//! Time. Libraries take a [`Clock`]; only binaries choose [`SystemClock`].

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, Datelike, NaiveDate, SecondsFormat, Timelike};
use serde::{Deserialize, Serialize};

const MICROS_PER_MINUTE: i64 = 60_000_000;

/// An instant: microseconds since 1970-01-01T00:00:00Z. Serialised as RFC 3339 with six digits and `Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since the epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// From milliseconds since the epoch; saturates at the ends of the range.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1000))
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Milliseconds since the epoch, floored.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The minute this instant lies in.
    #[must_use]
    pub const fn minute(self) -> Minute {
        Minute(self.0.div_euclid(MICROS_PER_MINUTE))
    }

    /// This instant moved by a number of microseconds; saturates.
    #[must_use]
    pub const fn plus_micros(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match DateTime::from_timestamp_micros(self.0) {
            Some(time) => f.write_str(&time.to_rfc3339_opts(SecondsFormat::Micros, true)),
            // Outside chrono's years there is no calendar text; the number is still exact.
            None => write!(f, "{}us", self.0),
        }
    }
}

/// Why a text is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct ParseError {
    text: String,
    expected: &'static str,
}

impl FromStr for Timestamp {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        DateTime::parse_from_rfc3339(text)
            .map(|time| Self(time.timestamp_micros()))
            .map_err(|_| ParseError { text: text.to_owned(), expected: "an RFC 3339 time" })
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A whole minute of UTC, as object keys spell it: `yyyy-mm-dd/hh/mm`. Its text sorts as its time does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minute(i64);

impl Minute {
    /// The first instant of the minute.
    #[must_use]
    pub const fn start(self) -> Timestamp {
        Timestamp(self.0 * MICROS_PER_MINUTE)
    }

    /// This minute moved by a number of minutes.
    #[must_use]
    pub const fn plus(self, minutes: i64) -> Self {
        Self(self.0.saturating_add(minutes))
    }
}

impl fmt::Display for Minute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match DateTime::from_timestamp_micros(self.start().0) {
            Some(t) => write!(f, "{:04}-{:02}-{:02}/{:02}/{:02}", t.year(), t.month(), t.day(), t.hour(), t.minute()),
            None => Err(fmt::Error),
        }
    }
}

impl FromStr for Minute {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fault = || ParseError { text: text.to_owned(), expected: "a minute as yyyy-mm-dd/hh/mm" };
        let mut parts = text.split('/');
        let (Some(day), Some(hour), Some(minute), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(fault());
        };
        if day.len() != 10 || hour.len() != 2 || minute.len() != 2 {
            return Err(fault());
        }
        let day = NaiveDate::parse_from_str(day, "%Y-%m-%d").map_err(|_| fault())?;
        let hour: u32 = hour.parse().map_err(|_| fault())?;
        let minute: u32 = minute.parse().map_err(|_| fault())?;
        let time = day.and_hms_opt(hour, minute, 0).ok_or_else(fault)?;
        Ok(Timestamp(time.and_utc().timestamp_micros()).minute())
    }
}

impl Serialize for Minute {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Minute {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Where time comes from.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock: for binaries.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the machine's clock is read")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Timestamp(since.map_or(0, |d| i64::try_from(d.as_micros()).unwrap_or(i64::MAX)))
    }
}

/// A clock that moves only when told to: for tests and simulation.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock standing at `start`.
    #[must_use]
    pub const fn new(start: Timestamp) -> Self {
        Self(AtomicI64::new(start.0))
    }

    /// Moves the clock on by a number of microseconds.
    pub fn advance_micros(&self, micros: i64) {
        self.0.fetch_add(micros, Ordering::SeqCst);
    }

    /// Sets the clock.
    pub fn set(&self, time: Timestamp) {
        self.0.store(time.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_written_as_keys_spell_them_and_sort_as_time_does() {
        let t: Timestamp = "2026-11-29T14:05:59.999999Z".parse().unwrap();
        assert_eq!(t.minute().to_string(), "2026-11-29/14/05");
        assert_eq!("2026-11-29/14/05".parse::<Minute>().unwrap(), t.minute());
        assert!(t.minute().to_string() < t.minute().plus(1).to_string());
        assert_eq!(Timestamp::from_micros(-1).minute().to_string(), "1969-12-31/23/59");
        for bad in ["2026-11-29", "2026-11-29/14", "2026-11-29/24/00", "2026-13-01/00/00", "2026-1-01/00/00", "x"] {
            assert!(bad.parse::<Minute>().is_err(), "{bad}");
        }
    }

    #[test]
    fn instants_keep_six_digits() {
        let t = Timestamp::from_micros(1_709_251_199_999_001);
        assert_eq!(t.to_string(), "2024-02-29T23:59:59.999001Z");
        assert_eq!(t.to_string().parse::<Timestamp>().unwrap(), t);
        assert_eq!(Timestamp::from_micros(-1).millis(), -1);
    }
}

//! Dates and times as text, and as numbers that count from 1970.
//!
//! Sources of the formats: RFC 3339, and the extended form of ISO 8601 with years of four digits. `T` may be a space or small,
//! as RFC 3339 allows, seconds may be missing, and an offset may lack its minutes or its colon, as ISO 8601 does. What is finer
//! than a microsecond goes towards the past.

use chrono::NaiveDate;

use super::number::Number;
use super::schema::Unit;
use crate::Class;
use crate::rows::stop::{Outcome, Stop};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// Digits of a text, from the front.
struct Digits<'a>(&'a [u8]);

impl Digits<'_> {
    fn two(&mut self) -> Option<i64> {
        let (pair, rest) = self.0.split_first_chunk::<2>()?;
        let [tens, ones] = pair.map(|byte| byte.wrapping_sub(b'0'));
        if tens > 9 || ones > 9 {
            return None;
        }
        self.0 = rest;
        Some(i64::from(tens * 10 + ones))
    }

    /// Passes over a byte that is one of these.
    fn is(&mut self, any: &[u8]) -> bool {
        match self.0.split_first() {
            Some((byte, rest)) if any.contains(byte) => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    /// `YYYY-MM-DD` as days since 1970.
    fn date(&mut self) -> Option<i64> {
        let year = self.two()? * 100 + self.two()?;
        let month = if self.is(b"-") { self.two()? } else { return None };
        let day = if self.is(b"-") { self.two()? } else { return None };
        let date = NaiveDate::from_ymd_opt(year as i32, month as u32, day as u32)?;
        Some(date.signed_duration_since(NaiveDate::default()).num_days())
    }

    /// `HH:MM[:SS[.f…]]` as microseconds of the day.
    fn time(&mut self) -> Option<i64> {
        let hour = self.two().filter(|hour| *hour < 24)?;
        let minute = if self.is(b":") { self.two().filter(|minute| *minute < 60)? } else { return None };
        let mut micros = (hour * 60 + minute) * 60 * SECOND;
        if self.is(b":") {
            micros += self.two().filter(|second| *second < 60)? * SECOND;
            if self.is(b".,") {
                micros += self.fraction()?;
            }
        }
        Some(micros)
    }

    /// Digits behind a second's point, at least one, as microseconds.
    fn fraction(&mut self) -> Option<i64> {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        let all = digits.iter().chain(std::iter::repeat(&b'0')).take(6);
        (count > 0).then(|| all.fold(0, |micros, digit| micros * 10 + i64::from(digit - b'0')))
    }

    /// `Z`, `±HH:MM`, `±HHMM` or `±HH` as microseconds east of Greenwich; none where there is nothing else.
    fn zone(&mut self) -> Option<Option<i64>> {
        if self.0.is_empty() {
            return Some(None);
        }
        if self.is(b"Zz") {
            return Some(Some(0));
        }
        let west = self.is(b"-");
        if !west && !self.is(b"+") {
            return None;
        }
        let hours = self.two().filter(|hours| *hours < 24)?;
        let minutes = match self.is(b":") || !self.0.is_empty() {
            true => self.two().filter(|minutes| *minutes < 60)?,
            false => 0,
        };
        let offset = (hours * 60 + minutes) * 60 * SECOND;
        Some(Some(if west { -offset } else { offset }))
    }
}

#[cold]
fn no(what: &'static str) -> Box<Stop> {
    Stop::new(Class::OutOfRange, what)
}

/// Days since 1970 of a date's text.
pub(super) fn date(text: &[u8]) -> Outcome<i64> {
    let mut digits = Digits(text);
    let date = digits.date().filter(|_| digits.0.is_empty());
    date.ok_or_else(|| no("the text is no date such as 2026-01-31"))
}

/// Microseconds of the day of a time's text, which has no zone but UTC's.
pub(super) fn time(text: &[u8]) -> Outcome<i64> {
    let mut digits = Digits(text);
    let time = digits.time().and_then(|time| Some((time, digits.zone()?)));
    match time.filter(|_| digits.0.is_empty()) {
        Some((time, None | Some(0))) => Ok(time),
        Some(_) => Err(no("the time has an offset, and a column of times has no zone")),
        None => Err(no("the text is no time of a day such as 23:59:59.999")),
    }
}

/// Microseconds since 1970 of the text of a date and a time. For an instant the text has to have a zone; without one the
/// time is UTC's.
pub(super) fn moment(text: &[u8], instant: bool) -> Outcome<i64> {
    let mut digits = Digits(text);
    let read = digits.date().filter(|_| digits.is(b"Tt ")).and_then(|date| {
        let time = digits.time()?;
        Some((date * DAY + time, digits.zone()?))
    });
    match read.filter(|_| digits.0.is_empty()) {
        Some((_, None)) if instant => {
            Err(no("the text has no zone, without which it is no instant; a column of type timestamp takes it"))
        }
        Some((local, offset)) => Ok(local - offset.unwrap_or(0)),
        None => Err(no("the text is no date and time such as 2026-01-31T23:59:59.999Z")),
    }
}

/// Which column of dates and times takes a text, where one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeText {
    /// `timestamptz`: it has an offset.
    Instant,
    /// `timestamp`: it has none.
    Local,
    /// `date`
    Date,
}

impl TimeText {
    /// What the decoder reads a text as.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if moment(text, true).is_ok() {
            Some(Self::Instant)
        } else if moment(text, false).is_ok() {
            Some(Self::Local)
        } else {
            date(text).is_ok().then_some(Self::Date)
        }
    }
}

/// `HH:MM:SS.ffffff`
pub(super) fn time_text(micros: i64) -> String {
    let (seconds, fraction) = (micros / SECOND, micros % SECOND);
    format!("{:02}:{:02}:{:02}.{fraction:06}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Microseconds since 1970 of a number that counts some unit.
pub(super) fn counted(number: &Number<'_>, unit: Unit) -> Outcome<i64> {
    let micros = match unit {
        Unit::Days => number.rounded_down(0).map(|(days, _)| days.saturating_mul(DAY.into())),
        Unit::Seconds => number.rounded_down(6).map(|(micros, _)| micros),
        Unit::Millis => number.rounded_down(3).map(|(micros, _)| micros),
        Unit::Micros => number.rounded_down(0).map(|(micros, _)| micros),
        Unit::Nanos => number.rounded_down(-3).map(|(micros, _)| micros),
    };
    let micros = micros.ok().and_then(|micros| i64::try_from(micros).ok());
    micros.ok_or_else(|| no("the time is further away than 64 bits of microseconds reach"))
}

/// Days since 1970 of a number that counts some unit.
pub(super) fn counted_date(number: &Number<'_>, unit: Unit) -> Outcome<i64> {
    counted(number, unit).map(|micros| micros.div_euclid(DAY))
}

/// Microseconds of the day of a number that counts some unit.
pub(super) fn counted_time(number: &Number<'_>, unit: Unit) -> Outcome<i64> {
    let micros = counted(number, unit)?;
    if (0..DAY).contains(&micros) { Ok(micros) } else { Err(no("the number is no time of a day")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_dates_and_times_or_refused() {
        let day = |text: &str| date(text.as_bytes()).ok();
        assert_eq!(day("1970-01-01"), Some(0));
        assert_eq!(day("1969-12-31"), Some(-1));
        assert_eq!(day("0001-01-01"), Some(-719_162));
        assert_eq!(day("9999-12-31"), Some(2_932_896));
        for text in ["", "2026-02-29", "2026-13-01", "26-01-01", "20260101", "2026-01-01T", "2026-1-1", "+002026-01-01"]
        {
            assert_eq!(day(text), None, "{text}");
        }
        let of_day = |text: &str| time(text.as_bytes()).ok();
        assert_eq!(of_day("00:00"), Some(0));
        assert_eq!(of_day("23:59:59.9999999"), Some(DAY - 1));
        assert_eq!(of_day("10:00:00Z"), Some(36_000 * SECOND));
        assert_eq!(of_day("10:00:00,5+00:00"), Some(36_000 * SECOND + 500_000));
        for text in ["24:00", "12:60", "12:00:60", "12:00:00.", "12", "12:00:00+01:00", "12:00:00 ", "1200"] {
            assert_eq!(of_day(text), None, "{text}");
        }
        let at = |text: &str, instant| moment(text.as_bytes(), instant).ok();
        assert_eq!(at("1969-07-20T20:17:40.5-04:00", true), Some(-14_168_539_500_000));
        assert_eq!(at("1970-01-01t00:00:00z", true), Some(0));
        assert_eq!(at("1970-01-01 01:00+0100", true), Some(0));
        assert_eq!(at("1970-01-01T01:00:00+01", true), Some(0));
        assert_eq!(at("1969-12-31T23:59:59.9999999Z", true), Some(-1));
        assert_eq!(at("9999-12-31T23:59:59.999", false), Some(253_402_300_799_999_000));
        assert_eq!(at("1970-01-01T00:00:00-00:30", false), Some(1800 * SECOND));
        assert_eq!(at("1970-01-01T00:00:00", true), None);
        for text in [
            "1970-01-01",
            "1970-01-01T",
            "1970-01-01T00",
            "1970-01-01T00:00:00X",
            "1970-01-01T00:00:00+1",
            "1970-01-01T00:00:00+01:0",
            "0",
        ] {
            assert_eq!(at(text, false), None, "{text}");
        }
    }

    #[test]
    fn a_text_tells_which_column_takes_it() {
        let check = |text: &str, expected| assert_eq!(TimeText::of(text), expected, "{text}");
        check("2026-01-31T23:59:59.5+01:00", Some(TimeText::Instant));
        check("2026-01-31 10:00", Some(TimeText::Local));
        check("2026-01-31", Some(TimeText::Date));
        for text in ["", "10:00", "2026-01-31T23:59:60Z", "2026-1-5", "2026-1-5T1:2:3", "+12026-01-31T00:00:00"] {
            check(text, None);
        }
    }

    #[test]
    fn numbers_count_towards_the_past() {
        let check = |text: &str, unit, expected: Option<i64>| {
            assert_eq!(counted(&Number::of(text.as_bytes()).unwrap(), unit).ok(), expected, "{text} {unit:?}");
        };
        check("-1", Unit::Millis, Some(-1000));
        check("-1", Unit::Micros, Some(-1));
        check("-1001", Unit::Nanos, Some(-2));
        check("1764400000.123456789", Unit::Seconds, Some(1_764_400_000_123_456));
        check("253402300799999", Unit::Millis, Some(253_402_300_799_999_000));
        check("-62135596800000000", Unit::Micros, Some(-62_135_596_800_000_000));
        check("1709251199999123", Unit::Micros, Some(1_709_251_199_999_123));
        check("9223372036854775807", Unit::Millis, None);
        check("1e400", Unit::Nanos, None);
        let number = |text: &'static str| Number::of(text.as_bytes()).unwrap();
        assert_eq!(counted_date(&number("-1"), Unit::Days).unwrap(), -1);
        assert_eq!(counted_date(&number("-1"), Unit::Millis).unwrap(), -1);
        assert_eq!(counted_time(&number("86399999999"), Unit::Micros).unwrap(), DAY - 1);
        assert!(counted_time(&number("86400"), Unit::Seconds).is_err());
        assert!(counted_time(&number("-1"), Unit::Millis).is_err());
    }
}

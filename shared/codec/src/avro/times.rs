//! What Avro's logical types mean, as columns and as text.

use chrono::{DateTime, SecondsFormat};

use crate::rows::scale::Scale;
use crate::rows::stop::{Outcome, Stop};
use crate::{Class, decimal};

pub(super) use crate::rows::scale::scaled;

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

const SECONDS_OF_DAY: i64 = 86_400;

/// Microseconds of the day.
#[inline]
pub(super) fn of_day(value: i64, scale: Scale) -> Outcome<i64> {
    let micros = scaled(value, scale)?;
    if (0..DAY).contains(&micros) {
        return Ok(micros);
    }
    Err(Stop::new(Class::OutOfRange, format!("{value} is no time of a day")))
}

/// `HH:MM:SS.ffffff`
pub(super) fn of_day_text(value: i64, scale: Scale) -> Outcome<String> {
    let micros = of_day(value, scale)?;
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    Ok(format!("{:02}:{:02}:{:02}.{fraction:06}", seconds / 3600, seconds / 60 % 60, seconds % 60))
}

/// `YYYY-MM-DD`, of days since 1970.
pub(super) fn date_text(days: i64) -> Outcome<String> {
    let at = days.checked_mul(SECONDS_OF_DAY).and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    at.map(|at| at.format("%Y-%m-%d").to_string()).ok_or_else(no_calendar)
}

/// RFC 3339 in UTC with as many digits of a second as it takes of 0, 3, 6 and 9; without the zone where it has none.
pub(super) fn moment_text(value: i64, per_second: i64, zone: bool) -> Outcome<String> {
    let nanos = value.rem_euclid(per_second) * (1_000_000_000 / per_second);
    let at = DateTime::from_timestamp(value.div_euclid(per_second), u32::try_from(nanos).unwrap_or(0));
    let mut text = at.ok_or_else(no_calendar)?.to_rfc3339_opts(SecondsFormat::AutoSi, true);
    if !zone {
        text.pop();
    }
    Ok(text)
}

#[cold]
fn no_calendar() -> Box<Stop> {
    Stop::new(Class::OutOfRange, "no calendar has this time")
}

/// The sixteen bytes of a UUID's text: 32 hexadecimal digits of either case, in groups of 8, 4, 4, 4 and 12.
pub(super) fn uuid(text: &[u8]) -> Outcome<[u8; 16]> {
    let refused = || Stop::new(Class::OutOfRange, "the text is no UUID");
    let text: &[u8; 36] = text.try_into().map_err(|_| refused())?;
    let mut bytes = [0; 16];
    let mut digits = 0_usize;
    for (at, letter) in text.iter().enumerate() {
        if matches!(at, 8 | 13 | 18 | 23) {
            if *letter != b'-' {
                return Err(refused());
            }
            continue;
        }
        let digit = char::from(*letter).to_digit(16).ok_or_else(refused)? as u8;
        if let Some(byte) = bytes.get_mut(digits / 2) {
            *byte = *byte << 4 | digit;
        }
        digits += 1;
    }
    Ok(bytes)
}

/// The text of a UUID's sixteen bytes, lower case.
pub(super) fn uuid_text(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

/// A number in two's complement, the highest byte first; none where it takes more than 128 bits.
pub(super) fn number(bytes: &[u8]) -> Outcome<Option<i128>> {
    if bytes.is_empty() {
        return Err(Stop::new(Class::WrongType, "a decimal has no bytes: that is no number"));
    }
    Ok(decimal::unscaled(bytes))
}

/// A number's decimal digits, the last `scale` of them behind a point.
pub(super) fn decimal_text(number: i128, scale: usize) -> String {
    let digits = number.unsigned_abs().to_string();
    let sign = if number < 0 { "-" } else { "" };
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

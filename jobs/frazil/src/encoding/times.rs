//! Times as JSON spells them, as numbers since an epoch.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime};

/// Nanoseconds of a second.
pub(super) const SECOND: i128 = 1_000_000_000;

/// An instant, as RFC 3339 has it: nanoseconds since 1970.
pub(super) fn instant_nanos(text: &str) -> Option<i128> {
    let time = DateTime::parse_from_rfc3339(text).ok()?;
    Some(i128::from(time.timestamp()) * SECOND + i128::from(time.timestamp_subsec_nanos()))
}

/// A time of no zone, `2026-01-31T23:59:59.5`: the same since 1970.
pub(super) fn local_nanos(text: &str) -> Option<i128> {
    let time = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").ok()?.and_utc();
    Some(i128::from(time.timestamp()) * SECOND + i128::from(time.timestamp_subsec_nanos()))
}

/// A time of day, `23:59:59.5`: nanoseconds since midnight.
pub(super) fn day_nanos(text: &str) -> Option<i128> {
    let time = NaiveTime::parse_from_str(text, "%H:%M:%S%.f").ok()?;
    let since = time.signed_duration_since(NaiveTime::MIN);
    Some(i128::from(since.num_seconds()) * SECOND + i128::from(since.subsec_nanos()))
}

/// A date, `2026-01-31`: days since 1970.
pub(super) fn date_days(text: &str) -> Option<i64> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    Some(date.signed_duration_since(NaiveDate::from_ymd_opt(1970, 1, 1)?).num_days())
}

/// A length of time as protobuf spells it, `-1.5s`: nanoseconds.
pub(super) fn duration_nanos(text: &str) -> Option<i128> {
    let digits = text.strip_suffix('s')?;
    let (digits, sign) = digits.strip_prefix('-').map_or((digits, 1), |rest| (rest, -1));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let nanos: i128 = format!("{fraction:0<9}").parse().ok()?;
    Some(sign * (whole.parse::<i64>().ok().map(i128::from)? * SECOND + nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_since_their_epoch() {
        assert_eq!(instant_nanos("1970-01-01T01:00:00.5+01:00"), Some(SECOND / 2));
        assert_eq!(instant_nanos("1969-12-31T23:59:59.999999999Z"), Some(-1));
        assert_eq!(instant_nanos("1970-01-01T00:00:00"), None);
        assert_eq!(local_nanos("1970-01-02T00:00:00.000001"), Some(86_400 * SECOND + 1000));
        assert_eq!(local_nanos("1970-01-02T00:00:00Z"), None);
        assert_eq!(day_nanos("23:59:59.5"), Some(86_399 * SECOND + SECOND / 2));
        assert_eq!((date_days("1969-12-31"), date_days("2000-03-01"), date_days("x")), (Some(-1), Some(11_017), None));
        assert_eq!((duration_nanos("-1.5s"), duration_nanos("3s")), (Some(-3 * SECOND / 2), Some(3 * SECOND)));
        for bad in ["", "s", "1", "1.s", ".5s", "1.0000000001s", "--1s", "+1s"] {
            assert_eq!(duration_nanos(bad), None, "{bad}");
        }
    }
}

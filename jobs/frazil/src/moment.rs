//! Instants as they are typed: `2026-11-01T00:00Z`, with seconds or an offset as in RFC 3339, or `-2h` before now.

use chrono::{DateTime, NaiveDateTime};
use model::clock::Timestamp;

/// Reads an instant.
///
/// # Errors
/// The forms there are.
pub(crate) fn parse(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let fault = || format!("`{text}` is not a time: write 2026-11-01T00:00Z, or -2h (s, m, h, d) for that long ago");
    if let Some(ago) = text.strip_prefix('-') {
        let unit = ago.chars().last().ok_or_else(fault)?;
        let seconds: i64 = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return Err(fault()),
        };
        let count: i64 = ago.strip_suffix(unit).and_then(|count| count.parse::<u32>().ok()).ok_or_else(fault)?.into();
        return Ok(now.plus_micros(-count.saturating_mul(seconds).saturating_mul(1_000_000)));
    }
    let micros = match DateTime::parse_from_rfc3339(text) {
        Ok(time) => time.timestamp_micros(),
        Err(_) => {
            NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%MZ").map_err(|_| fault())?.and_utc().timestamp_micros()
        }
    };
    Ok(Timestamp::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_absolute_or_before_now() {
        let now: Timestamp = "2026-11-29T14:00:00.000000Z".parse().unwrap();
        for (text, want) in [
            ("2026-11-01T00:00Z", "2026-11-01T00:00:00.000000Z"),
            ("2026-11-01T00:00:01.5Z", "2026-11-01T00:00:01.500000Z"),
            ("2026-11-01T02:00:00+02:00", "2026-11-01T00:00:00.000000Z"),
            ("-2h", "2026-11-29T12:00:00.000000Z"),
            ("-90s", "2026-11-29T13:58:30.000000Z"),
            ("-1d", "2026-11-28T14:00:00.000000Z"),
        ] {
            assert_eq!(parse(text, now).map(|t| t.to_string()), Ok(want.to_owned()), "{text}");
        }
        for bad in ["", "-", "-h", "-2", "-2w", "--2h", "2h", "-2é", "yesterday", "2026-11-01", "2026-11-01T00:00"] {
            assert!(parse(bad, now).is_err(), "{bad}");
        }
    }
}

//! Durations and byte sizes as people write them: a whole number and a unit, `60s`, `512MiB`.

const DURATIONS: [(&str, u64); 5] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

const SIZES: [(&str, u64); 9] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// Milliseconds of `250ms`, `60s`, `5m`, `1h`, `7d`.
///
/// # Errors
/// The form that it should have.
pub fn duration_ms(text: &str) -> Result<u64, String> {
    number_and_unit(text, &DURATIONS, "a duration such as \"60s\", \"1h\" or \"7d\"")
}

/// Whole seconds, at least one.
pub(crate) fn duration_seconds(text: &str) -> Result<u64, String> {
    let ms = duration_ms(text)?;
    if ms == 0 || ms % 1000 != 0 {
        return Err(format!("`{text}` is not a whole number of seconds, at least one"));
    }
    Ok(ms / 1000)
}

/// Bytes of `512MiB` (a power of two) or `512MB` (a power of ten), at least one.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    match number_and_unit(text, &SIZES, "a size such as \"512MiB\"")? {
        0 => Err(format!("`{text}` is nothing; a size is at least one byte")),
        n => Ok(n),
    }
}

fn number_and_unit(text: &str, units: &[(&str, u64)], expected: &str) -> Result<u64, String> {
    let names = || units.iter().map(|(unit, _)| *unit).collect::<Vec<_>>().join(", ");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let unit = unit.trim_start();
    if number.is_empty() {
        return Err(format!("`{text}` is not {expected}"));
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(if unit.is_empty() {
            format!("`{text}` has no unit; expected {expected}")
        } else {
            format!("`{unit}` is not a unit (known: {}); expected {expected}", names())
        });
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(*factor))
        // Such a number is added to times and sizes later on: kept within signed 64 bits, in whichever unit.
        .filter(|n| i64::try_from(*n).is_ok())
        .ok_or_else(|| format!("`{text}` is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_a_whole_number_and_a_unit() {
        let check = |found: Result<u64, String>, expected: Result<u64, &str>| match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(part)) => assert!(found.contains(part), "{found}"),
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        };
        check(duration_ms("250ms"), Ok(250));
        check(duration_seconds("60s"), Ok(60));
        check(duration_seconds("1h"), Ok(3600));
        check(duration_seconds("7 d"), Ok(604_800));
        check(duration_seconds("2000ms"), Ok(2));
        check(duration_seconds("250ms"), Err("whole number of seconds"));
        check(duration_seconds("0s"), Err("at least one"));
        check(duration_seconds("60"), Err("no unit"));
        check(duration_seconds("s"), Err("is not a duration"));
        check(duration_seconds(""), Err("is not a duration"));
        check(duration_seconds("-1s"), Err("is not a duration"));
        check(duration_seconds("1.5h"), Err("`.5h` is not a unit"));
        check(duration_seconds("1w"), Err("known: ms, s, m, h, d"));
        check(duration_seconds("99999999999999999d"), Err("too large"));
        check(duration_seconds("99999999999999999999999s"), Err("too large"));
        check(bytes("512MiB"), Ok(536_870_912));
        check(bytes("1GB"), Ok(1_000_000_000));
        check(bytes("0B"), Err("at least one byte"));
        check(bytes("512mib"), Err("`mib` is not a unit"));
        check(bytes("é"), Err("is not a size"));
    }
}

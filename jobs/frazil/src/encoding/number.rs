//! Numbers by their digits: none goes through floating point that is not to be one.

/// Why a text is no such number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    NoNumber,
    /// It has digits behind the last that there is room for.
    Finer,
    /// It has more digits than 128 bits.
    Larger,
}

/// A number times ten to a power, where that is whole: `-12.50e3` say.
pub(super) fn scaled(text: &str, power: usize) -> Result<i128, Unfit> {
    let (text, sign) = match text.strip_prefix('-') {
        Some(rest) => (rest, -1),
        None => (text.strip_prefix('+').unwrap_or(text), 1),
    };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        None => (text, 0),
        Some((mantissa, exponent)) => {
            let (digits, is_negative) = match exponent.strip_prefix('-') {
                Some(digits) => (digits, true),
                None => (exponent.strip_prefix('+').unwrap_or(exponent), false),
            };
            if !is_digits(digits) {
                return Err(Unfit::NoNumber);
            }
            // Nothing is left of such differences.
            let exponent = digits.parse().unwrap_or(i64::from(i32::MAX));
            (mantissa, if is_negative { -exponent } else { exponent })
        }
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        None => (mantissa, ""),
        Some((_, fraction)) if !is_digits(fraction) => return Err(Unfit::NoNumber),
        Some(parts) => parts,
    };
    if !is_digits(whole) {
        return Err(Unfit::NoNumber);
    }
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    let length = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let shift = exponent.saturating_add(length(power)).saturating_sub(length(fraction.len()));
    let count = length(digits.len()).saturating_add(shift);
    if count > 39 {
        return Err(Unfit::Larger);
    }
    let digits = match usize::try_from(shift) {
        Ok(more) => format!("{digits}{}", "0".repeat(more)),
        Err(_) => {
            let kept = usize::try_from(count).unwrap_or(0);
            match digits.split_at_checked(kept) {
                Some((kept, rest)) if !kept.is_empty() && rest.bytes().all(|b| b == b'0') => kept.to_owned(),
                _ => return Err(Unfit::Finer),
            }
        }
    };
    digits.parse::<i128>().map(|number| sign * number).map_err(|_| Unfit::Larger)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_every_digit_or_are_refused() {
        let check = |text: &str, power, expected| assert_eq!(scaled(text, power), expected, "{text} {power}");
        check("0", 0, Ok(0));
        check("-0.000e9", 3, Ok(0));
        check("9007199254740993", 0, Ok(9_007_199_254_740_993));
        check("9007199254740993.0", 0, Ok(9_007_199_254_740_993));
        check("12345678901234567.89", 2, Ok(1_234_567_890_123_456_789));
        check("-12.50e3", 0, Ok(-12_500));
        check("1E+2", 1, Ok(1000));
        check("1200e-2", 0, Ok(12));
        check("+5", 0, Ok(5));
        check("1.5", 0, Err(Unfit::Finer));
        check("1e-1", 0, Err(Unfit::Finer));
        check("1e-99999999999999999999", 0, Err(Unfit::Finer));
        check("1e99999999999999999999", 0, Err(Unfit::Larger));
        check(&"9".repeat(39), 0, Err(Unfit::Larger));
        check(&format!("1{}", "0".repeat(38)), 0, Ok(10_i128.pow(38)));
        for none in ["", "-", ".5", "1.", "1e", "1e1.5", "x", "0x1", " 1", "1_0", "--1", "NaN"] {
            check(none, 0, Err(Unfit::NoNumber));
        }
    }
}

//! Numbers as a person checks them: whole ones with their thousands apart, others with as many digits as tell them apart.

/// Digits of a number that is not whole, as in a formula.
const DIGITS: i32 = 6;

/// A number: `26,280,000`, `0.0357143`. Six digits, or all that a whole number has.
pub(crate) fn figure(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { value.to_string() };
    }
    let magnitude = value.abs().log10().floor();
    // A whole number shows all of its digits; of a fraction nothing counts behind the sixth.
    let decimals = if value.fract() == 0.0 { 0 } else { (DIGITS - 1 - magnitude as i32).max(0) };
    let text = format!("{value:.*}", usize::try_from(decimals).unwrap_or(0));
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = fraction.trim_end_matches('0');
    let whole = grouped(whole);
    if fraction.is_empty() { whole } else { format!("{whole}.{fraction}") }
}

/// An amount: to the cent from ten cents on, and with four digits below.
pub(crate) fn dollars(value: f64) -> String {
    match value {
        value if value >= 0.1 => format!("${}", grouped_cents(value)),
        0.0 => "$0".to_owned(),
        value => {
            let decimals = 3 - value.log10().floor() as i32;
            format!("${value:.*}", usize::try_from(decimals).unwrap_or(0))
        }
    }
}

fn grouped_cents(value: f64) -> String {
    let text = format!("{value:.2}");
    let (whole, cents) = text.split_once('.').unwrap_or((&text, "00"));
    format!("{}.{cents}", grouped(whole))
}

/// Digits with their thousands apart.
pub(crate) fn grouped(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits),
    };
    let mut text = sign.to_owned();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_the_digits_that_a_check_by_hand_takes() {
        for (value, text) in [
            (0.0, "0"),
            (12.0, "12"),
            (26_280_000.0, "26,280,000"),
            (2_628_000_000_000.0, "2,628,000,000,000"),
            (0.035_714_285_7, "0.0357143"),
            (1234.5, "1,234.5"),
            (0.000_013_333_4, "0.0000133334"),
            (123_456.789, "123,457"),
        ] {
            assert_eq!(figure(value), text);
        }
        for (value, text) in [
            (0.0, "$0"),
            (131.4, "$131.40"),
            (1_234_567.891, "$1,234,567.89"),
            (0.012_345_6, "$0.01235"),
            (0.1, "$0.10"),
        ] {
            assert_eq!(dollars(value), text);
        }
    }
}

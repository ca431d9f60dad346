//! Numbers by their digits: nothing goes through floating point but what becomes floating point.

/// A number as it is written: `-12.50e3`.
pub(super) struct Number<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

/// Why a number is none of a column's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It has digits behind the last that there is room for.
    Finer,
    /// It has more digits than 128 bits.
    Larger,
}

impl<'a> Number<'a> {
    /// Of digits, which may have a sign before them, a point between them, and an exponent behind them; none where a text is
    /// something else.
    pub(super) fn of(text: &'a [u8]) -> Option<Self> {
        let (negative, rest) = match text.split_first()? {
            (b'-', rest) => (true, rest),
            (b'+', rest) => (false, rest),
            _ => (false, text),
        };
        let (whole, rest) = digits(rest);
        let (fraction, rest) = match rest.split_first() {
            Some((b'.', rest)) => match digits(rest) {
                ([], _) => return None,
                found => found,
            },
            _ => (&[][..], rest),
        };
        let exponent = match rest.split_first() {
            None => 0,
            Some((b'e' | b'E', rest)) => exponent(rest)?,
            Some(_) => return None,
        };
        (!whole.is_empty()).then_some(Self { negative, whole, fraction, exponent })
    }

    /// Whether it is zero, however it is written.
    pub(super) fn is_zero(&self) -> bool {
        self.digits().all(|digit| *digit == b'0')
    }

    /// It times a power of ten, where that is whole.
    pub(super) fn times_ten_to(&self, power: i64) -> Result<i128, Unfit> {
        let (number, is_whole) = self.rounded_down(power)?;
        if is_whole { Ok(number) } else { Err(Unfit::Finer) }
    }

    /// It times a power of ten, towards the smaller number, and whether that is all of it.
    pub(super) fn rounded_down(&self, power: i64) -> Result<(i128, bool), Unfit> {
        // Lengths of slices are far below 2^63.
        let shift = self.exponent.saturating_add(power).saturating_sub(self.fraction.len() as i64);
        let count = self.whole.len() + self.fraction.len();
        let behind = usize::try_from(shift.saturating_neg()).unwrap_or(0).min(count);
        let (mut number, mut zeros) = (0_i128, shift);
        for digit in self.digits().take(count - behind) {
            number =
                number.checked_mul(10).and_then(|n| n.checked_add(i128::from(digit - b'0'))).ok_or(Unfit::Larger)?;
        }
        while zeros > 0 && number != 0 {
            number = number.checked_mul(10).ok_or(Unfit::Larger)?;
            zeros -= 1;
        }
        let is_whole = self.digits().skip(count - behind).all(|digit| *digit == b'0');
        if self.negative {
            number = -number - i128::from(!is_whole);
        }
        Ok((number, is_whole))
    }

    fn digits(&self) -> impl Iterator<Item = &u8> {
        self.whole.iter().chain(self.fraction)
    }
}

fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.split_at(count)
}

/// An exponent too large to count is as good as the largest.
fn exponent(text: &[u8]) -> Option<i64> {
    let (negative, text) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, text),
    };
    match digits(text) {
        ([], _) => None,
        (digits, []) => {
            let number = digits
                .iter()
                .fold(0_i64, |number, digit| number.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
            Some(if negative { -number } else { number })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_exact_whatever_the_exponent() {
        let check = |text: &str, power: i64, expected: Result<(i128, bool), Unfit>| {
            assert_eq!(Number::of(text.as_bytes()).unwrap().rounded_down(power), expected, "{text} times 10^{power}");
        };
        let exact = |text: &str, power: i64, number: i128| check(text, power, Ok((number, true)));
        exact("0", 0, 0);
        exact("-0.000", 2, 0);
        exact("1e3", 0, 1000);
        exact("12.0", 0, 12);
        exact("1200e-2", 0, 12);
        exact("-12.345", 3, -12_345);
        exact("0.00001e5", 0, 1);
        exact("170141183460469231731687303715884105727", 0, i128::MAX);
        exact("9007199254740993", 0, 9_007_199_254_740_993);
        exact("0e999999999999999999999999", 38, 0);
        exact(&format!("1{}e-5000", "0".repeat(5000)), 0, 1);
        exact(&format!("0.{}1e5001", "0".repeat(5000)), 0, 1);
        check("12.7", 0, Ok((12, false)));
        check("-12.7", 0, Ok((-13, false)));
        check("-0.0000001", 6, Ok((-1, false)));
        check("1e-999999999999999999999999", 38, Ok((0, false)));
        check("-1e-30", 0, Ok((-1, false)));
        check("170141183460469231731687303715884105728", 0, Err(Unfit::Larger));
        check("1e39", 0, Err(Unfit::Larger));
        check("1e999999999999999999999999", 0, Err(Unfit::Larger));
        for text in ["", "-", ".5", "5.", "1e", "1e+", "1x", "0x10", " 1", "1 ", "1_000", "NaN", "Infinity", "--1"] {
            assert!(Number::of(text.as_bytes()).is_none(), "{text}");
        }
    }
}

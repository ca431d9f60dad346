//! Decimals as Kafka Connect and Debezium write them: the bytes of an unscaled whole number, in two's complement with the highest
//! byte first and of any length, in base64 where they stand in JSON.
//!
//! - Connect's `org.apache.kafka.connect.data.Decimal` (Debezium's `decimal.handling.mode = "precise"`) has its scale in its schema's
//!   parameters, beside `connect.decimal.precision`: [`precise`].
//! - Debezium's `io.debezium.data.VariableScaleDecimal`, of numbers that were declared without a scale, is `{scale, value}`: every value
//!   has a scale of its own, which may be negative: [`variable`].
//!
//! What does not fit its column, or would lose a digit there, is refused: never rounded.

use base64_simd::{STANDARD, STANDARD_NO_PAD};

use crate::{Class, Rejected};

/// The digits that a decimal of 128 bits has room for.
const DIGITS_MAX: u32 = 38;

/// The whole number that bytes are, as Java's `BigInteger.toByteArray` has it, or longer; none where it takes more than 128 bits, or
/// where there is no byte.
#[must_use]
pub fn unscaled(bytes: &[u8]) -> Option<i128> {
    let negative = *bytes.first()? >= 0x80;
    let fill = if negative { 0xff } else { 0 };
    let (front, bytes) = bytes.split_at(bytes.len().saturating_sub(16));
    let mut word = [fill; 16];
    word.get_mut(16 - bytes.len()..)?.copy_from_slice(bytes);
    let number = i128::from_be_bytes(word);
    (front.iter().all(|byte| *byte == fill) && (number < 0) == negative).then_some(number)
}

/// A text of base64, padded or not, as the unscaled value of a `decimal(precision, scale)`, whose scale its schema says.
///
/// # Errors
/// `wrong_type` where it is no base64 or no byte at all, which is no number; `out_of_range` where it has more digits than the precision.
pub fn precise(text: &[u8], precision: u8) -> Result<i128, Rejected> {
    within(decoded(text)?, precision)
}

/// A value of `{scale, value}`, the value a text of base64, as the unscaled value of a `decimal(precision, to)`.
///
/// # Errors
/// As [`precise`]; `out_of_range` as well where its last digits are behind the column's scale, and are not zero.
pub fn variable(scale: i32, value: &[u8], precision: u8, to: u8) -> Result<i128, Rejected> {
    let number = decoded(value)?;
    let more = i64::from(to) - i64::from(scale);
    let power =
        || u32::try_from(more.unsigned_abs()).ok().filter(|power| *power <= DIGITS_MAX).map(|power| 10_i128.pow(power));
    let rescaled = match (number, power()) {
        (0, _) => Some(0),
        (_, Some(power)) if more >= 0 => number.checked_mul(power),
        (_, Some(power)) if number % power == 0 => Some(number / power),
        (_, None) if more >= 0 => None,
        _ => {
            let message = format!("it has a digit behind the {to} that the column has: its scale is {scale}");
            return Err(refused(Class::OutOfRange, message));
        }
    };
    within(rescaled.ok_or_else(|| beyond(precision))?, precision)
}

fn decoded(text: &[u8]) -> Result<i128, Rejected> {
    let bytes = STANDARD.decode_to_vec(text).or_else(|_| STANDARD_NO_PAD.decode_to_vec(text));
    let bytes = bytes.map_err(|_| refused(Class::WrongType, "the text is not base64".to_owned()))?;
    if bytes.is_empty() {
        return Err(refused(Class::WrongType, "a decimal has no bytes: that is no number".to_owned()));
    }
    unscaled(&bytes).ok_or_else(|| refused(Class::OutOfRange, "it takes more than 128 bits".to_owned()))
}

/// A number of no more digits than these.
fn within(number: i128, precision: u8) -> Result<i128, Rejected> {
    let most = 10_u128.pow(u32::from(precision).min(DIGITS_MAX));
    if number.unsigned_abs() < most { Ok(number) } else { Err(beyond(precision)) }
}

fn beyond(precision: u8) -> Rejected {
    refused(Class::OutOfRange, format!("it has more than {precision} digits"))
}

const fn refused(class: Class, message: String) -> Rejected {
    Rejected { class, path: String::new(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = Result<i128, Class>;

    fn read(result: Result<i128, Rejected>) -> Read {
        result.map_err(|rejected| rejected.class)
    }

    /// A rate of `decimal(9,4)`.
    #[test]
    fn bytes_in_base64_are_numbers_of_any_length() {
        let check = |text: &str, expected: Read| assert_eq!(read(precise(text.as_bytes(), 9)), expected, "{text}");
        check("/w==", Ok(-1));
        check("AIA=", Ok(128));
        check("gA==", Ok(-128));
        check("/4A=", Ok(-128));
        check("U/w=", Ok(2_1500));
        check("is8=", Ok(-3_0001));
        check("AA==", Ok(0));
        check("", Err(Class::WrongType));
        // Without its padding, no base64, a digit too many, and more than there are.
        check("AIA", Ok(128));
        check("!", Err(Class::WrongType));
        check("O5rJ/w==", Ok(999_999_999));
        check("O5rKAA==", Err(Class::OutOfRange));
        check("xGU2AA==", Err(Class::OutOfRange));
        check(&STANDARD.encode_to_string([0x7f; 17]), Err(Class::OutOfRange));
        check(&STANDARD.encode_to_string([[0; 20].as_slice(), &[5]].concat()), Ok(5));
    }

    /// A column of `decimal(38,10)`.
    #[test]
    fn values_of_scales_of_their_own_are_brought_to_the_columns() {
        let check = |scale: i32, text: &str, expected: Read| {
            assert_eq!(read(variable(scale, text.as_bytes(), 38, 10)), expected, "{scale} {text}");
        };
        check(0, "AQ==", Ok(1_0000000000));
        check(3, "z8c=", Ok(-12_3450000000));
        check(-2, "Bw==", Ok(700_0000000000));
        check(10, "/w==", Ok(-1));
        check(12, "AQ==", Err(Class::OutOfRange));
        // Digits behind the column's that are zero are none.
        check(12, "ZA==", Ok(1));
        check(12, "nA==", Ok(-1));
        check(i32::MAX, "AQ==", Err(Class::OutOfRange));
        check(i32::MIN, "AQ==", Err(Class::OutOfRange));
        check(i32::MIN, "AA==", Ok(0));
        check(i32::MAX, "AA==", Ok(0));
        check(-27, "AQ==", Ok(10_i128.pow(37)));
        check(-28, "AQ==", Err(Class::OutOfRange));
        check(-28, "/w==", Err(Class::OutOfRange));
        check(0, "", Err(Class::WrongType));
    }

    #[test]
    fn a_number_takes_no_more_than_its_bits() {
        assert_eq!(unscaled(&[]), None);
        assert_eq!(unscaled(&i128::MIN.to_be_bytes()), Some(i128::MIN));
        assert_eq!(unscaled(&[[0xff].as_slice(), &i128::MIN.to_be_bytes()].concat()), Some(i128::MIN));
        assert_eq!(unscaled(&[[0].as_slice(), &i128::MIN.to_be_bytes()].concat()), None);
        assert_eq!(unscaled(&[[0xff].as_slice(), &i128::MAX.to_be_bytes()].concat()), None);
    }
}

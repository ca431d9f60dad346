//! From a single value's text to its cell.

use base64_simd::{STANDARD, STANDARD_NO_PAD};
use uuid::Uuid;

use super::number::{Number, Unfit};
use super::program::Store;
use super::schema::Unit;
use super::times;
use super::wire::{Begin, Reader};
use crate::rows::digits::Digits;
use crate::rows::level::Level;
use crate::rows::stop::{Outcome, Stop};
use crate::{Class, decimal};

/// Reads a value, which is not null, into its cell.
#[inline]
pub(super) fn keep(store: Store, slot: usize, begin: Begin, level: &mut Level, reader: &mut Reader<'_>) -> Outcome {
    match (store, begin) {
        (Store::Text | Store::TextOrNested, Begin::Text) => {
            let text = reader.text()?;
            let (buf, at, length) = reader.place(text);
            level.texts.get_mut(slot).map_or(Ok(()), |column| column.put(buf, at, length))
        }
        (Store::Long, Begin::Number) => {
            let number = match reader.short_integer() {
                Some(number) => number,
                None => whole(reader, i64::MIN.into(), i64::MAX.into())? as i64,
            };
            level.put8(slot, number);
            Ok(())
        }
        (Store::Int, Begin::Number) => {
            let number = match reader.short_integer().map(i32::try_from) {
                Some(Ok(number)) => number,
                Some(Err(_)) => return Err(beyond("32 bits")),
                None => whole(reader, i32::MIN.into(), i32::MAX.into())? as i32,
            };
            level.put4(slot, number);
            Ok(())
        }
        (Store::Double, Begin::Number) => {
            let number: f64 = float(reader)?;
            level.put8(slot, number.to_bits() as i64);
            Ok(())
        }
        (Store::Float, Begin::Number) => {
            let number: f32 = float(reader)?;
            level.put4(slot, number.to_bits() as i32);
            Ok(())
        }
        (Store::Boolean, Begin::True) => {
            level.put_bit(slot, true);
            reader.word(b"true")
        }
        (Store::Boolean, Begin::False) => reader.word(b"false"),
        _ => other(store, slot, begin, level, reader),
    }
}

#[inline(never)]
fn other(store: Store, slot: usize, begin: Begin, level: &mut Level, reader: &mut Reader<'_>) -> Outcome {
    match (store, begin) {
        (Store::Decimal { precision, scale, encoded }, Begin::Number | Begin::Text) => {
            let number = match (begin, encoded) {
                (Begin::Number, _) => exact(&digits(reader)?, scale)?,
                (_, Some(own)) => unscaled(reader, scale.saturating_sub(own))?,
                (_, None) => {
                    let text = reader.text()?;
                    let number = Number::of(reader.content(text));
                    exact(&number.ok_or_else(|| Stop::new(Class::WrongType, "the text is no number"))?, scale)?
                }
            };
            if number.unsigned_abs() >= 10_u128.pow(precision.into()) {
                return Err(beyond(&format!("the {precision} digits of its column")));
            }
            level.put16(slot, number);
        }
        (Store::Date(unit), _) => {
            let days = read(begin, unit, reader, times::date, times::counted_date)?;
            level.put4(slot, i32::try_from(days).map_err(|_| beyond("32 bits of days"))?);
        }
        (Store::Time(unit), _) => level.put8(slot, read(begin, unit, reader, times::time, times::counted_time)?),
        (Store::Moment { unit, instant }, _) => {
            level.put8(slot, read(begin, unit, reader, |text| times::moment(text, instant), times::counted)?);
        }
        (Store::TimeText(unit), _) => {
            let micros = read(begin, unit, reader, times::time, times::counted_time)?;
            put(slot, times::time_text(micros).as_bytes(), level)?;
        }
        (Store::Uuid, Begin::Text) => {
            let text = reader.text()?;
            let text = reader.content(text);
            // Of the forms that are read there only the one with hyphens is this long.
            let uuid = Uuid::try_parse_ascii(text).ok().filter(|_| text.len() == 36);
            let uuid = uuid.ok_or_else(|| Stop::new(Class::OutOfRange, "the text is no UUID"))?;
            put(slot, uuid.as_bytes(), level)?;
        }
        (Store::Bytes(length), Begin::Text) => {
            let bytes = base64(reader)?;
            if let Some(length) = length.filter(|length| *length as usize != bytes.len()) {
                let message = format!("there are {} bytes, and the column has {length} each", bytes.len());
                return Err(Stop::new(Class::OutOfRange, message));
            }
            put(slot, &bytes, level)?;
        }
        (Store::IntegerText, Begin::Number) => {
            let number = match reader.short_integer() {
                Some(number) => return put(slot, Digits::of(number).as_bytes(), level),
                None => whole(reader, i128::MIN, i128::MAX)?,
            };
            put(slot, number.to_string().as_bytes(), level)?;
        }
        (Store::NumberText, Begin::Number) => {
            let digits = reader.number()?;
            put(slot, digits, level)?;
        }
        (Store::BooleanText, Begin::True) => {
            reader.word(b"true")?;
            put(slot, b"true", level)?;
        }
        (Store::BooleanText, Begin::False) => {
            reader.word(b"false")?;
            put(slot, b"false", level)?;
        }
        (Store::Json, _) | (Store::Nested | Store::TextOrNested, Begin::Object | Begin::Array) => {
            let start = reader.at();
            reader.skip()?;
            put(slot, reader.written(start, reader.at()), level)?;
        }
        _ => return Err(unlike(wanted(store), begin)),
    }
    Ok(())
}

/// A date or a time: of a text, or of a number that counts a unit.
fn read(
    begin: Begin,
    unit: Option<Unit>,
    reader: &mut Reader<'_>,
    text: impl Fn(&[u8]) -> Outcome<i64>,
    counted: impl Fn(&Number<'_>, Unit) -> Outcome<i64>,
) -> Outcome<i64> {
    match (begin, unit) {
        (Begin::Text, _) => {
            let found = reader.text()?;
            text(reader.content(found))
        }
        (Begin::Number, Some(unit)) => counted(&digits(reader)?, unit),
        (Begin::Number, None) => {
            let message = "a number is no date or time unless the column says its `unit`";
            Err(Stop::new(Class::WrongType, message))
        }
        _ => Err(unlike("the text of a date or a time", begin)),
    }
}

fn put(slot: usize, value: &[u8], level: &mut Level) -> Outcome {
    level.texts.get_mut(slot).map_or(Ok(()), |text| text.put_any(value))
}

fn digits<'a>(reader: &mut Reader<'a>) -> Outcome<Number<'a>> {
    let text = reader.number()?;
    Number::of(text).ok_or_else(|| Stop::new(Class::WrongType, "the text is no number"))
}

/// A whole number, however it is written.
#[inline(never)]
fn whole(reader: &mut Reader<'_>, min: i128, max: i128) -> Outcome<i128> {
    match digits(reader)?.times_ten_to(0) {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        Err(Unfit::Finer) => {
            Err(Stop::new(Class::WrongType, "the number has a fraction, and its column holds whole numbers"))
        }
        _ => Err(beyond(match max {
            i128::MAX => "128 bits",
            max if max > i32::MAX.into() => "64 bits",
            _ => "32 bits",
        })),
    }
}

/// A number times ten to the power of the column's scale.
fn exact(number: &Number<'_>, scale: u8) -> Outcome<i128> {
    number.times_ten_to(scale.into()).map_err(|unfit| match unfit {
        Unfit::Finer => Stop::new(
            Class::OutOfRange,
            format!("the number has more than the {scale} digits of its column behind the point"),
        ),
        Unfit::Larger => beyond("38 digits"),
    })
}

#[cold]
fn beyond(what: &str) -> Box<Stop> {
    Stop::new(Class::OutOfRange, format!("the number has more than {what}"))
}

/// A floating-point number, which is neither infinite nor zero for want of digits.
fn float<T: std::str::FromStr + Into<f64> + Copy>(reader: &mut Reader<'_>) -> Outcome<T> {
    let text = reader.number()?;
    let number: Option<T> = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    let fits = |number: &T| {
        let number: f64 = (*number).into();
        number.is_finite() && (number != 0.0 || Number::of(text).is_some_and(|number| number.is_zero()))
    };
    number.filter(fits).ok_or_else(|| {
        Stop::new(
            Class::OutOfRange,
            "the number is larger, or closer to zero, than a floating-point number of its column",
        )
    })
}

/// The bytes that a string has in base64, padded or not.
fn base64(reader: &mut Reader<'_>) -> Outcome<Vec<u8>> {
    let text = reader.text()?;
    let text = reader.content(text);
    let bytes = STANDARD.decode_to_vec(text).or_else(|_| STANDARD_NO_PAD.decode_to_vec(text));
    bytes.map_err(|_| Stop::new(Class::WrongType, "the text is not base64"))
}

/// An unscaled number in base64.
fn unscaled(reader: &mut Reader<'_>, more: u8) -> Outcome<i128> {
    let bytes = base64(reader)?;
    if bytes.is_empty() {
        return Err(Stop::new(Class::WrongType, "a decimal has no bytes: that is no number"));
    }
    let number = decimal::unscaled(&bytes).and_then(|number| number.checked_mul(10_i128.pow(more.into())));
    number.ok_or_else(|| beyond("128 bits"))
}

/// What a column's values are, for a person.
const fn wanted(store: Store) -> &'static str {
    match store {
        Store::Boolean | Store::BooleanText => "true or false",
        Store::Int | Store::Long | Store::IntegerText => "a whole number",
        Store::Float | Store::Double | Store::NumberText => "a number",
        Store::Decimal { .. } => "a number, or a string of its digits",
        Store::Date(_) | Store::Time(_) | Store::Moment { .. } | Store::TimeText(_) => "the text of a date or a time",
        Store::Text | Store::TextOrNested | Store::Json => "a string",
        Store::Uuid => "the text of a UUID",
        Store::Bytes(_) => "a string of base64",
        Store::Nested => "an object or an array",
    }
}

/// A value of another type.
#[cold]
#[inline(never)]
pub(super) fn unlike(wanted: &str, begin: Begin) -> Box<Stop> {
    let found = match begin {
        Begin::Object => "an object",
        Begin::Array => "an array",
        Begin::Text => "a string",
        Begin::Number => "a number",
        Begin::True => "true",
        Begin::False => "false",
        Begin::Null => "null",
    };
    Stop::new(Class::WrongType, format!("it is {found}, and not {wanted}"))
}

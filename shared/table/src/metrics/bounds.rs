//! Smallest and largest values of a column, batch by batch.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, ArrowNativeTypeOp, AsArray};
use arrow::compute::{max, max_boolean, min, min_boolean};
use arrow::datatypes::{
    ArrowNumericType, ByteViewType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type,
    Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use iceberg::spec::{Datum, PrimitiveLiteral, PrimitiveType};

use super::cut;
use super::mode::Mode;
use crate::fault::Fault;
use crate::schema::literal;

/// The least and the greatest value so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends<T>(Option<(T, T)>);

impl<T: Copy> Ends<T> {
    fn widen(&mut self, least: Option<T>, greatest: Option<T>, order: impl Fn(&T, &T) -> Ordering) {
        let (Some(least), Some(greatest)) = (least, greatest) else { return };
        self.0 = Some(match self.0 {
            None => (least, greatest),
            Some((a, b)) => (
                if order(&least, &a).is_lt() { least } else { a },
                if order(&greatest, &b).is_gt() { greatest } else { b },
            ),
        });
    }
}

/// The ends of byte strings, in unsigned byte order (which is the code point order of UTF-8).
#[derive(Debug, Default)]
pub(super) struct ByteEnds(Option<(Vec<u8>, Vec<u8>)>);

impl ByteEnds {
    fn widen(&mut self, value: &[u8]) {
        match &mut self.0 {
            None => self.0 = Some((value.to_vec(), value.to_vec())),
            Some((least, greatest)) => {
                let replaced = if value < least.as_slice() {
                    least
                } else if value > greatest.as_slice() {
                    greatest
                } else {
                    return;
                };
                replaced.clear();
                replaced.extend_from_slice(value);
            }
        }
    }
}

/// What has been seen of one column.
#[derive(Debug)]
pub(super) enum Bounds {
    Unwanted,
    Boolean(Ends<bool>),
    Int(Ends<i32>),
    Long(Ends<i64>),
    Float(Ends<f32>),
    Double(Ends<f64>),
    Decimal(Ends<i128>),
    Bytes(ByteEnds),
}

impl Bounds {
    pub(super) fn new(data_type: &PrimitiveType) -> Self {
        match data_type {
            PrimitiveType::Boolean => Self::Boolean(Ends(None)),
            PrimitiveType::Int | PrimitiveType::Date => Self::Int(Ends(None)),
            PrimitiveType::Long
            | PrimitiveType::Time
            | PrimitiveType::Timestamp
            | PrimitiveType::Timestamptz
            | PrimitiveType::TimestampNs
            | PrimitiveType::TimestamptzNs => Self::Long(Ends(None)),
            PrimitiveType::Float => Self::Float(Ends(None)),
            PrimitiveType::Double => Self::Double(Ends(None)),
            PrimitiveType::Decimal { .. } => Self::Decimal(Ends(None)),
            PrimitiveType::String | PrimitiveType::Binary | PrimitiveType::Fixed(_) | PrimitiveType::Uuid => {
                Self::Bytes(ByteEnds::default())
            }
        }
    }

    /// Takes in an array and returns its number of NaN.
    pub(super) fn update(&mut self, array: &ArrayRef) -> Result<u64, Fault> {
        let mismatch = || Fault::Mismatch(format!("{} is not what the table's schema holds", array.data_type()));
        match self {
            Self::Unwanted => {}
            Self::Boolean(ends) => {
                let array = array.as_boolean_opt().ok_or_else(mismatch)?;
                ends.widen(min_boolean(array), max_boolean(array), bool::cmp);
            }
            Self::Int(ends) => {
                let (least, greatest) = match array.data_type() {
                    DataType::Int32 => min_max::<Int32Type>(array),
                    DataType::Date32 => min_max::<Date32Type>(array),
                    _ => return Err(mismatch()),
                };
                ends.widen(least, greatest, i32::cmp);
            }
            Self::Long(ends) => {
                let (least, greatest) = match array.data_type() {
                    DataType::Int64 => min_max::<Int64Type>(array),
                    DataType::Time64(TimeUnit::Microsecond) => min_max::<Time64MicrosecondType>(array),
                    DataType::Timestamp(TimeUnit::Microsecond, _) => min_max::<TimestampMicrosecondType>(array),
                    DataType::Timestamp(TimeUnit::Nanosecond, _) => min_max::<TimestampNanosecondType>(array),
                    _ => return Err(mismatch()),
                };
                ends.widen(least, greatest, i64::cmp);
            }
            Self::Decimal(ends) => {
                let (least, greatest) = match array.data_type() {
                    DataType::Decimal128(_, _) => min_max::<Decimal128Type>(array),
                    _ => return Err(mismatch()),
                };
                ends.widen(least, greatest, i128::cmp);
            }
            Self::Float(ends) => {
                let array = array.as_primitive_opt::<Float32Type>().ok_or_else(mismatch)?;
                return Ok(floats(array.iter().flatten(), f32::is_nan, |v| {
                    ends.widen(Some(v), Some(v), f32::total_cmp)
                }));
            }
            Self::Double(ends) => {
                let array = array.as_primitive_opt::<Float64Type>().ok_or_else(mismatch)?;
                return Ok(floats(array.iter().flatten(), f64::is_nan, |v| {
                    ends.widen(Some(v), Some(v), f64::total_cmp)
                }));
            }
            Self::Bytes(ends) => match array.data_type() {
                DataType::Utf8 => array.as_string::<i32>().iter().flatten().for_each(|v| ends.widen(v.as_bytes())),
                DataType::Binary => array.as_binary::<i32>().iter().flatten().for_each(|v| ends.widen(v)),
                DataType::FixedSizeBinary(_) => {
                    array.as_fixed_size_binary().iter().flatten().for_each(|v| ends.widen(v));
                }
                DataType::Utf8View => views::<arrow::datatypes::StringViewType>(array, ends),
                DataType::BinaryView => views::<arrow::datatypes::BinaryViewType>(array, ends),
                _ => return Err(mismatch()),
            },
        }
        Ok(0)
    }

    /// The bounds in the mode asked for.
    pub(super) fn finish(self, data_type: &PrimitiveType, mode: Mode) -> Result<(Option<Datum>, Option<Datum>), Fault> {
        let pair = |ends: Option<(PrimitiveLiteral, PrimitiveLiteral)>| -> Result<_, Fault> {
            let Some((least, greatest)) = ends else { return Ok((None, None)) };
            Ok((Some(literal::datum(data_type, &least)?), Some(literal::datum(data_type, &greatest)?)))
        };
        match self {
            Self::Unwanted => Ok((None, None)),
            Self::Boolean(Ends(ends)) => {
                pair(ends.map(|(a, b)| (PrimitiveLiteral::Boolean(a), PrimitiveLiteral::Boolean(b))))
            }
            Self::Int(Ends(ends)) => pair(ends.map(|(a, b)| (PrimitiveLiteral::Int(a), PrimitiveLiteral::Int(b)))),
            Self::Long(Ends(ends)) => pair(ends.map(|(a, b)| (PrimitiveLiteral::Long(a), PrimitiveLiteral::Long(b)))),
            // To a reader that compares as SQL does the two zeros are one: a bound of zero covers both.
            Self::Float(Ends(ends)) => pair(ends.map(|(a, b)| {
                let (a, b) = (if a == 0.0 { -0.0 } else { a }, if b == 0.0 { 0.0 } else { b });
                (PrimitiveLiteral::Float(a.into()), PrimitiveLiteral::Float(b.into()))
            })),
            Self::Double(Ends(ends)) => pair(ends.map(|(a, b)| {
                let (a, b) = (if a == 0.0 { -0.0 } else { a }, if b == 0.0 { 0.0 } else { b });
                (PrimitiveLiteral::Double(a.into()), PrimitiveLiteral::Double(b.into()))
            })),
            Self::Decimal(Ends(ends)) => {
                if let (PrimitiveType::Decimal { precision, .. }, Some((least, greatest))) = (data_type, ends) {
                    let limit = 10u128.checked_pow(*precision).unwrap_or(u128::MAX);
                    if least.unsigned_abs().max(greatest.unsigned_abs()) >= limit {
                        return Err(Fault::Mismatch(format!("a value has more digits than {data_type}")));
                    }
                }
                pair(ends.map(|(a, b)| (PrimitiveLiteral::Int128(a), PrimitiveLiteral::Int128(b))))
            }
            Self::Bytes(ByteEnds(None)) => Ok((None, None)),
            Self::Bytes(ByteEnds(Some((least, greatest)))) => bytes(data_type, mode, &least, &greatest),
        }
    }
}

fn bytes(
    data_type: &PrimitiveType,
    mode: Mode,
    least: &[u8],
    greatest: &[u8],
) -> Result<(Option<Datum>, Option<Datum>), Fault> {
    let width = match (mode, data_type) {
        // A uuid is no text: its sixteen bytes stand or fall together.
        (Mode::Truncate(width), PrimitiveType::String | PrimitiveType::Binary | PrimitiveType::Fixed(_)) => width,
        _ => u32::MAX,
    };
    let (lower, upper) = if *data_type == PrimitiveType::String {
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| Fault::Mismatch("text is not UTF-8".to_owned()));
        let upper = cut::text_up(text(greatest)?, width).map(String::into_bytes);
        (cut::text_down(text(least)?, width).as_bytes(), upper)
    } else {
        (cut::bytes_down(least, width), cut::bytes_up(greatest, width))
    };
    let datum = |bytes: &[u8]| {
        Datum::try_from_bytes(bytes, data_type.clone()).map_err(Fault::specification(format!("a bound of {data_type}")))
    };
    Ok((Some(datum(lower)?), upper.map(|upper| datum(&upper)).transpose()?))
}

fn min_max<T: ArrowNumericType>(array: &ArrayRef) -> (Option<T::Native>, Option<T::Native>)
where
    T::Native: ArrowNativeTypeOp,
{
    let array = array.as_primitive::<T>();
    (min(array), max(array))
}

fn floats<T: Copy>(values: impl Iterator<Item = T>, is_nan: impl Fn(T) -> bool, mut seen: impl FnMut(T)) -> u64 {
    let mut nans = 0;
    for value in values {
        if is_nan(value) {
            nans += 1;
        } else {
            seen(value);
        }
    }
    nans
}

/// The number of NaN in an array of any type.
pub(super) fn nans(array: &ArrayRef) -> u64 {
    if let Some(array) = array.as_primitive_opt::<Float32Type>() {
        floats(array.iter().flatten(), f32::is_nan, |_| {})
    } else if let Some(array) = array.as_primitive_opt::<Float64Type>() {
        floats(array.iter().flatten(), f64::is_nan, |_| {})
    } else {
        0
    }
}

/// Most values of a column lie within the ends seen so far, and a view mostly shows it without its text being fetched.
fn views<T: ByteViewType>(array: &ArrayRef, ends: &mut ByteEnds) {
    let array = array.as_byte_view::<T>();
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let mut places = ends.places();
    let mut last = None;
    for (row, view) in array.views().iter().enumerate() {
        // Text from a dictionary repeats its view.
        if last == Some(*view) || nulls.is_some_and(|nulls| nulls.is_null(row)) {
            continue;
        }
        last = Some(*view);
        let place = Place::of_view(*view);
        if places.is_some_and(|(least, greatest)| place.is_surely_within(least, greatest)) {
            continue;
        }
        ends.widen(array.value(row).as_ref());
        places = ends.places();
    }
}

/// Where a byte string stands among others, as far as its first twelve bytes tell.
#[derive(Clone, Copy)]
struct Place {
    /// The first bytes as a number, most significant first, zeros after; four of them for a long string, else all.
    start: u128,
    /// The length, when it is the whole string that `start` holds.
    whole: Option<u32>,
}

/// The longest string that a view holds in place.
const INLINE_BYTES: usize = 12;

impl Place {
    /// A view is a length (4 bytes) and either the string (12 bytes, zero-padded) or its first 4 bytes and an address.
    const fn of_view(view: u128) -> Self {
        let length = view as u32;
        let start = (view >> 32).swap_bytes();
        if length as usize <= INLINE_BYTES {
            Self { start, whole: Some(length) }
        } else {
            Self { start: start & (0xffff_ffff << 96), whole: None }
        }
    }

    fn of_bytes(bytes: &[u8]) -> Self {
        let mut first = [0; 16];
        let kept = if bytes.len() <= INLINE_BYTES { INLINE_BYTES } else { 4 };
        first.iter_mut().zip(bytes.iter().take(kept)).for_each(|(to, from)| *to = *from);
        let whole = u32::try_from(bytes.len()).ok().filter(|length| *length as usize <= INLINE_BYTES);
        Self { start: u128::from_be_bytes(first), whole }
    }

    /// Whether this is not above another one, without doubt.
    fn is_surely_at_most(self, other: Self) -> bool {
        match (self.whole, other.whole) {
            (Some(a), Some(b)) => (self.start, a) <= (other.start, b),
            _ => self.start >> 96 < other.start >> 96,
        }
    }

    fn is_surely_within(self, least: Self, greatest: Self) -> bool {
        least.is_surely_at_most(self) && self.is_surely_at_most(greatest)
    }
}

impl ByteEnds {
    fn places(&self) -> Option<(Place, Place)> {
        self.0.as_ref().map(|(least, greatest)| (Place::of_bytes(least), Place::of_bytes(greatest)))
    }
}

//! Which columns the values of a type may have, and where they go.

use pipeline::resolved;
use pipeline::types::Type;

use super::place::Target;
use super::schema::{self, Logical, Shape, Unit};
use crate::rows::cells::Source;
use crate::rows::level::Layout;

/// How a number is kept, whatever its writer's unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Word4,
    Word8,
    Word16,
    Bit,
    IntToDouble,
    FloatToDouble,
    SignedText,
    BoolText,
    /// Of a number that means nothing by itself, and counts this: microseconds.
    Counted(resolved::Unit),
    /// Microseconds, and as text.
    Micros,
    OfDay,
    OfDayText,
    DateText,
    MomentText {
        zone: bool,
    },
}

/// Where a single value goes; nothing where it is no single value, or can't be one of this column's. `unit` is what the column
/// says that numbers count.
pub(super) fn target(
    found: &schema::Type,
    data_type: &Type,
    unit: Option<resolved::Unit>,
    layout: &mut Layout,
) -> Option<(Target, Source)> {
    let number = |to: Number, layout: &mut Layout| {
        let (slot, source) = allocate(to, layout);
        Some((Target::Number { to, slot }, source))
    };
    let text = |layout: &mut Layout, target: fn(usize) -> Target| {
        let text = layout.text(None);
        Some((target(text), Source::Text(text)))
    };
    let checked: fn(usize) -> Target = |text| Target::Text { text, utf8: true };
    let plain: fn(usize) -> Target = |text| Target::Text { text, utf8: false };
    let is_fixed = matches!(found.shape, Shape::Fixed(_));
    let Some(logical) = found.logical else {
        return match (&found.shape, data_type) {
            (Shape::Int | Shape::Long, Type::Timestamptz | Type::Timestamp) => {
                unit.and_then(|unit| number(Number::Counted(unit), layout))
            }
            (Shape::Int, Type::Int) | (Shape::Float, Type::Float) => number(Number::Word4, layout),
            (Shape::Int | Shape::Long, Type::Long) | (Shape::Double, Type::Double) => number(Number::Word8, layout),
            (Shape::Int, Type::Decimal(10..=38, 0)) | (Shape::Long, Type::Decimal(19..=38, 0)) => {
                number(Number::Word16, layout)
            }
            (Shape::Int, Type::Double) => number(Number::IntToDouble, layout),
            (Shape::Float, Type::Double) => number(Number::FloatToDouble, layout),
            (Shape::Int | Shape::Long, Type::String) => number(Number::SignedText, layout),
            (Shape::Boolean, Type::Boolean) => number(Number::Bit, layout),
            (Shape::Boolean, Type::String) => number(Number::BoolText, layout),
            (Shape::String | Shape::Bytes | Shape::Fixed(_), Type::String) => text(layout, checked),
            (Shape::String | Shape::Bytes | Shape::Fixed(_), Type::Binary) => text(layout, plain),
            (Shape::Fixed(fixed), Type::Fixed(size)) if fixed.size == *size as usize => text(layout, plain),
            (Shape::Enum(_), Type::String) => text(layout, plain),
            _ => None,
        };
    };
    // What means something by itself has a unit of its own.
    if unit.is_some() {
        return None;
    }
    match (logical, data_type) {
        (Logical::Decimal { precision, scale }, Type::Decimal(digits, behind)) => {
            let (before, whole) = (precision - scale, usize::from(digits - behind));
            // Of more digits than any column has, those values that fit are taken.
            if usize::from(*behind) < scale || (before > whole && precision <= 38) {
                return None;
            }
            layout.words16 += 1;
            let slot = layout.words16 - 1;
            Some((Target::Decimal { slot, precision: *digits, scale: *behind }, Source::Word16(slot)))
        }
        (Logical::Decimal { precision: 0..=38, .. }, Type::String) => text(layout, |text| Target::DecimalText { text }),
        (Logical::Uuid, Type::Uuid | Type::Fixed(16)) if is_fixed => text(layout, plain),
        (Logical::Uuid, Type::Uuid) => text(layout, |text| Target::Uuid { text }),
        (Logical::Uuid, Type::String) if is_fixed => text(layout, |text| Target::UuidText { text }),
        (Logical::Uuid, Type::String) => text(layout, checked),
        (Logical::Decimal { .. } | Logical::Uuid | Logical::Duration, Type::Binary)
        | (Logical::Duration, Type::Fixed(12)) => text(layout, plain),
        (Logical::Date, Type::Date | Type::Int) | (Logical::Time(Unit::Millis), Type::Int) => {
            number(Number::Word4, layout)
        }
        (Logical::Date | Logical::Time(_) | Logical::Timestamp(_) | Logical::Local(_), Type::Long) => {
            number(Number::Word8, layout)
        }
        (Logical::Date, Type::String) => number(Number::DateText, layout),
        (Logical::Time(_), Type::Time) => number(Number::OfDay, layout),
        (Logical::Time(_), Type::String) => number(Number::OfDayText, layout),
        (Logical::Timestamp(_), Type::Timestamptz | Type::Timestamp) | (Logical::Local(_), Type::Timestamp) => {
            number(Number::Micros, layout)
        }
        (Logical::Timestamp(_), Type::String) => number(Number::MomentText { zone: true }, layout),
        (Logical::Local(_), Type::String) => number(Number::MomentText { zone: false }, layout),
        _ => None,
    }
}

/// For a person: the types that a column of this type's values may have.
pub(super) fn allowed(of: &schema::Type) -> String {
    match (of.logical, &of.shape) {
        (Some(Logical::Decimal { precision, scale }), _) if precision <= 38 => {
            return format!("decimal({precision}, {scale}) and wider ones, binary, string");
        }
        (Some(Logical::Decimal { scale, .. }), _) => {
            return format!("decimal(38, {scale}) (larger values are refused), binary");
        }
        (Some(Logical::Uuid), _) => "uuid, string, binary",
        (Some(Logical::Date), _) => "date, string, int, long (days)",
        (Some(Logical::Time(_)), _) => "time, string, long (its own unit)",
        (Some(Logical::Timestamp(_)), _) => "timestamptz, timestamp, string, long (its own unit)",
        (Some(Logical::Local(_)), _) => "timestamp, string, long (its own unit)",
        (Some(Logical::Duration), _) => "struct<months: long, days: long, milliseconds: long>, string (JSON), binary",
        (_, Shape::Int) => "int, long, double, decimal(10 or more, 0), string, with `unit` timestamptz and timestamp",
        (_, Shape::Long) => "long, decimal(19 or more, 0), string, with `unit` timestamptz and timestamp",
        (_, Shape::Float) => "float, double",
        (_, Shape::Double) => "double",
        (_, Shape::Boolean) => "boolean, string",
        (_, Shape::String) => "string, binary",
        (_, Shape::Bytes) => "binary, string (checked to be UTF-8)",
        (_, Shape::Fixed(fixed)) => {
            return format!("fixed({}), binary, string (checked to be UTF-8)", fixed.size);
        }
        (_, Shape::Enum(_)) => "string",
        (_, Shape::Record(record)) if record.fields.is_empty() => "boolean (present or not), string (JSON)",
        (_, Shape::Record(_)) => "a struct of its fields, string (JSON)",
        (_, Shape::Union(_)) => "a struct of its branches, string (JSON)",
        (_, Shape::Array(_)) => "list<…>, string (JSON)",
        (_, Shape::Map(_)) => "map<string, …>, string (JSON)",
        (_, Shape::Null) => "nothing",
    }
    .to_owned()
}

fn allocate(to: Number, layout: &mut Layout) -> (usize, Source) {
    let next = |count: &mut usize| {
        *count += 1;
        *count - 1
    };
    match to {
        Number::Word4 => {
            let slot = next(&mut layout.words4);
            (slot, Source::Word4(slot))
        }
        Number::Word16 => {
            let slot = next(&mut layout.words16);
            (slot, Source::Word16(slot))
        }
        Number::Bit => {
            let slot = next(&mut layout.bits);
            (slot, Source::Bit(slot))
        }
        Number::Word8
        | Number::IntToDouble
        | Number::FloatToDouble
        | Number::Counted(_)
        | Number::Micros
        | Number::OfDay => {
            let slot = next(&mut layout.words8);
            (slot, Source::Word8(slot))
        }
        Number::SignedText | Number::BoolText | Number::OfDayText | Number::DateText | Number::MomentText { .. } => {
            let slot = layout.text(None);
            (slot, Source::Text(slot))
        }
    }
}

//! Which columns single values may have, and how they get there.

use pipeline::types::Type;

use super::program::Store;
use super::schema::{Of, Single, Unit};
use crate::rows::cells::Source;
use crate::rows::level::Layout;

/// How a value becomes one of a column; nothing where it can't. `unit` is what the column says that a number counts.
pub(super) fn store(found: &Single, data_type: &Type, unit: Option<Unit>) -> Option<Store> {
    let unit = unit.or(found.unit);
    let is_number = matches!(found.of, Of::Integer | Of::Number);
    // Of text, one format's column is not another's.
    let is_free = found.of != Of::Text || found.default == Type::String || found.default == *data_type;
    Some(match (found.of, data_type) {
        (Of::Decimal { scale }, Type::Decimal(precision, wide)) if *wide >= scale => {
            Store::Decimal { precision: *precision, scale: *wide, encoded: Some(scale) }
        }
        (Of::Decimal { .. }, _) => return None,
        (Of::Any, Type::String) => Store::Json,
        (Of::Declared | Of::Unsaid, Type::String) => Store::TextOrNested,
        (Of::Boolean, Type::Boolean) => Store::Boolean,
        (Of::Boolean, Type::String) => Store::BooleanText,
        (Of::Boolean, _) => return None,
        (Of::Integer | Of::Text, Type::String) if found.default == Type::Time => Store::TimeText(unit),
        (Of::Text, Type::String) => Store::Text,
        (Of::Integer, Type::String) if unit.is_none() => Store::IntegerText,
        (Of::Number, Type::String) if unit.is_none() => Store::NumberText,
        (Of::Any | Of::Declared | Of::Unsaid, Type::Boolean) => Store::Boolean,
        (of, Type::Int) if of != Of::Text => Store::Int,
        (of, Type::Long) if of != Of::Text => Store::Long,
        (of, Type::Float) if of != Of::Text => Store::Float,
        (of, Type::Double) if of != Of::Text => Store::Double,
        (_, Type::Decimal(precision, scale)) if is_free => {
            Store::Decimal { precision: *precision, scale: *scale, encoded: None }
        }
        (_, Type::Date) if !is_number && is_free || unit.is_some() => Store::Date(unit),
        (_, Type::Time) if !is_number && is_free || unit.is_some() => Store::Time(unit),
        (_, Type::Timestamp | Type::Timestamptz)
            if !is_number && (is_free || matches!(found.default, Type::Timestamp | Type::Timestamptz))
                || unit.is_some() =>
        {
            Store::Moment { unit, instant: *data_type == Type::Timestamptz }
        }
        (of, Type::Uuid) if of != Of::Integer && of != Of::Number && is_free => Store::Uuid,
        (_, Type::Binary) if !is_number && is_free => Store::Bytes(None),
        (_, Type::Fixed(length)) if !is_number && (is_free || found.default == Type::Binary) => {
            Store::Bytes(Some(*length))
        }
        _ => return None,
    })
}

/// For a person: the types that a column of such values may have.
pub(super) fn allowed(found: &Single) -> String {
    match (found.of, &found.default) {
        (Of::Boolean, _) => "boolean, string".to_owned(),
        (Of::Integer | Of::Number, _) if found.unit.is_some() => format!("{}, long", found.default),
        (Of::Integer, _) => {
            "int, long, decimal(P, S), double, string; a date or a time with the column's `unit`".to_owned()
        }
        (Of::Number, _) => {
            "double, float, decimal(P, S), int, long, string; a date or a time with the column's `unit`".to_owned()
        }
        (Of::Decimal { scale }, _) => format!("decimal(P, {scale}) and those with more digits behind the point"),
        (Of::Text, Type::String) => {
            "string, decimal(P, S), date, time, timestamp, timestamptz, uuid, binary, fixed(L)".to_owned()
        }
        (Of::Text, Type::Binary) => "binary, fixed(L), string (base64)".to_owned(),
        (Of::Text, Type::Timestamptz) => "timestamptz, timestamp, string".to_owned(),
        (Of::Text, default) => format!("{default}, string"),
        (Of::Any, _) => "string (JSON), or any other type".to_owned(),
        (Of::Declared | Of::Unsaid, _) => "any type but a map whose keys are no strings".to_owned(),
    }
}

/// A cell for what is kept.
pub(super) fn allocate(store: Store, layout: &mut Layout) -> (usize, Source) {
    let next = |count: &mut usize| {
        *count += 1;
        *count - 1
    };
    match store {
        Store::Int | Store::Float | Store::Date(_) => {
            let slot = next(&mut layout.words4);
            (slot, Source::Word4(slot))
        }
        Store::Long | Store::Double | Store::Time(_) | Store::Moment { .. } => {
            let slot = next(&mut layout.words8);
            (slot, Source::Word8(slot))
        }
        Store::Decimal { .. } => {
            let slot = next(&mut layout.words16);
            (slot, Source::Word16(slot))
        }
        Store::Boolean => {
            let slot = layout.bit();
            (slot, Source::Bit(slot))
        }
        _ => {
            let slot = layout.text(None);
            (slot, Source::Text(slot))
        }
    }
}

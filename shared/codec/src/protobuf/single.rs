//! Where single values go, and how they are kept.

use pipeline::types::Type;
use prost_reflect::EnumDescriptor;

use super::compile::Place;
use super::mapping::Number;
use super::program::{MomentStore, Op, Store};
use crate::rows::cells::{Output, Slot, Source};
use crate::rows::level::Layout;
use crate::rows::names::Names;
use crate::rows::text;

pub(super) const fn word8(layout: &mut Layout) -> usize {
    layout.words8 += 1;
    layout.words8 - 1
}

/// How a number becomes a column of a type, if it may without losing anything.
pub(super) const fn store(number: Number, data_type: &Type) -> Option<Store> {
    Some(match (number, data_type) {
        (Number::Signed32, Type::Int) | (Number::Float, Type::Float) => Store::Word4,
        (Number::Signed32 | Number::Unsigned32 | Number::Signed64, Type::Long) | (Number::Double, Type::Double) => {
            Store::Word8
        }
        (Number::Unsigned64, Type::Long) => Store::Word8Checked,
        (Number::Signed32, Type::Decimal(10..=38, 0)) | (Number::Signed64, Type::Decimal(19..=38, 0)) => {
            Store::Signed16
        }
        (Number::Unsigned32, Type::Decimal(10..=38, 0)) | (Number::Unsigned64, Type::Decimal(20..=38, 0)) => {
            Store::Unsigned16
        }
        (Number::Signed32, Type::Double) => Store::SignedToDouble,
        (Number::Unsigned32, Type::Double) => Store::UnsignedToDouble,
        (Number::Float, Type::Double) => Store::FloatToDouble,
        (Number::Bool, Type::Boolean) => Store::Bit,
        (Number::Bool, Type::String) => Store::BoolText,
        (Number::Signed32 | Number::Signed64, Type::String) => Store::SignedText,
        (Number::Unsigned32 | Number::Unsigned64, Type::String) => Store::UnsignedText,
        _ => return None,
    })
}

pub(super) fn allocate(store: Store, default: Option<text::Default>, layout: &mut Layout) -> (usize, Source) {
    let next = |count: &mut usize| {
        *count += 1;
        *count - 1
    };
    match store.slot(0) {
        Slot::Word4(_) => {
            let slot = next(&mut layout.words4);
            (slot, Source::Word4(slot))
        }
        Slot::Word16(_) => {
            let slot = next(&mut layout.words16);
            (slot, Source::Word16(slot))
        }
        Slot::Bit(_) => {
            let slot = next(&mut layout.bits);
            (slot, Source::Bit(slot))
        }
        Slot::Text(_) => {
            let slot = layout.text(default);
            (slot, Source::Text(slot))
        }
        _ => {
            let slot = next(&mut layout.words8);
            (slot, Source::Word8(slot))
        }
    }
}

pub(super) fn moment(
    store: MomentStore,
    slot: usize,
    source: Source,
    present: Option<usize>,
    layout: &mut Layout,
    place: &Place,
) -> (Op, Output) {
    layout.moments += 1;
    let moment = layout.moments - 1;
    let output = Output { valid: present.or(place.parent), source };
    (Op::Moment { store, slot, moment, present, depth: place.depth + 1 }, output)
}

pub(super) fn names(values: &EnumDescriptor) -> Names {
    // In the order of declaration, since of two names of one number the first counts.
    Names::new(values.enum_descriptor_proto().value.iter().map(|value| (value.number(), value.name())))
}

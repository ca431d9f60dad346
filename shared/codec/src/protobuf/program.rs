//! What decoding a message comes down to: for each field number, what to do with its value and where to put it.

use super::wire;
use crate::rows::batch::Plan;
use crate::rows::cells::Slot;
use crate::rows::names::Names;
use crate::rows::scale::Scale;

/// A message compiled for a set of columns.
pub(crate) struct Program {
    pub(crate) root: Message,
    /// What the columns are. Taken when the decoder is built.
    pub(crate) plan: Plan,
}

/// One occurrence of a message type among the columns. The same type in two places is compiled twice, since its values
/// go to different columns.
pub(crate) struct Message {
    /// 1 + the index in `fields` of the field whose whole tag, wire type included, is this one byte.
    pub(crate) by_tag: [u8; 128],
    /// Field number and index in `fields`, by number.
    pub(crate) by_number: Vec<(u32, u32)>,
    /// In the order of their numbers.
    pub(crate) fields: Vec<Field>,
    pub(crate) oneofs: Vec<Oneof>,
    /// How deep below the outermost message it is.
    pub(crate) depth: usize,
}

pub(crate) struct Field {
    pub(crate) number: u32,
    pub(crate) name: String,
    /// The wire type of one value.
    pub(crate) wire: u8,
    /// Whether values may come packed as well.
    pub(crate) packable: bool,
    /// Index in the message's `oneofs`, plus 1; 0 for none.
    pub(crate) oneof: u32,
    pub(crate) op: Op,
}

/// A oneof that has a member among the columns.
pub(crate) struct Oneof {
    /// Where the level keeps which member is set.
    pub(crate) state: usize,
    /// What each member writes, to be taken back when another one comes.
    pub(crate) members: Vec<(u32, Vec<Slot>)>,
}

/// What is done with a value.
pub(crate) enum Op {
    /// Nothing: it is known and in no column.
    Skip,
    Number {
        read: Read,
        store: Store,
        slot: usize,
        present: Option<usize>,
    },
    /// A number that counts from 1970, as microseconds; `unsigned` where it is one of 64 bits.
    Counted {
        read: Read,
        scale: Scale,
        unsigned: bool,
        slot: usize,
        present: Option<usize>,
    },
    /// A string, or bytes; `utf8` where it has to be.
    Text {
        text: usize,
        utf8: bool,
        present: Option<usize>,
    },
    EnumName {
        names: Box<Names>,
        text: usize,
        present: Option<usize>,
    },
    /// A struct, a wrapper, the way of a path, or an empty message.
    Message {
        message: Box<Message>,
        present: Option<usize>,
    },
    Moment {
        store: MomentStore,
        slot: usize,
        moment: usize,
        present: Option<usize>,
        depth: usize,
    },
    /// A message as JSON.
    Json {
        raw: usize,
        present: Option<usize>,
        depth: usize,
    },
    List {
        list: usize,
        element: Box<Op>,
    },
    Map {
        list: usize,
        entry: Box<Message>,
        /// What the value holds when it is not on the wire, where that isn't all zero bits.
        prefill: Option<(Slot, i32)>,
    },
    /// Several columns of one field.
    Each(Vec<Op>),
}

/// How a number is read: always to 64 bits, signed ones sign-extended, floats as their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Int32,
    Int64,
    Uint32,
    Sint32,
    Sint64,
    Bool,
    Fixed32,
    Sfixed32,
    Fixed64,
}

impl Read {
    pub(crate) const fn wire(self) -> u8 {
        match self {
            Self::Fixed32 | Self::Sfixed32 => wire::FIXED32,
            Self::Fixed64 => wire::FIXED64,
            _ => wire::VARINT,
        }
    }
}

/// How a number is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Word4,
    Word8,
    /// Unsigned into a signed column: refused above 2^63-1.
    Word8Checked,
    Signed16,
    Unsigned16,
    Bit,
    FloatToDouble,
    SignedToDouble,
    UnsignedToDouble,
    SignedText,
    UnsignedText,
    BoolText,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MomentStore {
    /// A timestamp as microseconds, floored.
    Timestamp,
    /// A duration as microseconds, floored.
    Duration,
    /// A timestamp as RFC 3339 text, nanoseconds kept.
    TimestampText,
    /// A duration as seconds with their fraction and an `s`, as protobuf's JSON has it.
    DurationText,
}

impl Message {
    /// The field of a tag that is not one byte, or has an unusual wire type.
    pub(crate) fn field(&self, number: u32) -> Option<&Field> {
        let index = self.by_number.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        self.by_number.get(index).and_then(|(_, index)| self.fields.get(*index as usize))
    }
}

impl Op {
    /// Every cell that it may write.
    pub(crate) fn slots(&self, slots: &mut Vec<Slot>) {
        let mut push = |slot: Slot, present: Option<usize>| {
            slots.push(slot);
            slots.extend(present.map(Slot::Bit));
        };
        match self {
            Self::Skip => {}
            Self::Number { store, slot, present, .. } => push(store.slot(*slot), *present),
            Self::Counted { slot, present, .. } => push(Slot::Word8(*slot), *present),
            Self::Text { text, present, .. } | Self::EnumName { text, present, .. } => {
                push(Slot::Text(*text), *present);
            }
            Self::Message { message, present } => {
                slots.extend(present.map(Slot::Bit));
                slots.extend(message.oneofs.iter().map(|oneof| Slot::Oneof(oneof.state)));
                message.fields.iter().for_each(|field| field.op.slots(slots));
            }
            Self::Moment { store, slot, moment, present, .. } => {
                push(Slot::Moment(*moment), *present);
                slots.push(match store {
                    MomentStore::Timestamp | MomentStore::Duration => Slot::Word8(*slot),
                    MomentStore::TimestampText | MomentStore::DurationText => Slot::Text(*slot),
                });
            }
            Self::Json { raw, present, .. } => push(Slot::Raw(*raw), *present),
            Self::List { list, .. } | Self::Map { list, .. } => slots.push(Slot::List(*list)),
            Self::Each(ops) => ops.iter().for_each(|op| op.slots(slots)),
        }
    }
}

impl Store {
    pub(crate) const fn slot(self, slot: usize) -> Slot {
        match self {
            Self::Word4 => Slot::Word4(slot),
            Self::Word8 | Self::Word8Checked => Slot::Word8(slot),
            Self::Signed16 | Self::Unsigned16 => Slot::Word16(slot),
            Self::Bit => Slot::Bit(slot),
            Self::FloatToDouble | Self::SignedToDouble | Self::UnsignedToDouble => Slot::Word8(slot),
            Self::SignedText | Self::UnsignedText | Self::BoolText => Slot::Text(slot),
        }
    }
}

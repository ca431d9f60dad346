//! Messages on the way to columns.

use std::collections::{BTreeMap, HashSet};

use prost_reflect::MessageDescriptor;

use super::program::{Field, Message, Oneof, Op, Read};
use super::{mapping, wire};
use crate::rows::level::Layout;
use crate::source;

/// A message on the way to columns, before all of them are known.
pub(super) struct Way {
    /// The writer's.
    pub(super) message: MessageDescriptor,
    /// What the reader has in its place.
    pub(super) record: usize,
    pub(super) depth: usize,
    pub(super) ops: BTreeMap<u32, Vec<Op>>,
    /// Messages that paths lead through, and the bit that says they are there.
    pub(super) ways: BTreeMap<u32, (usize, Way)>,
}

impl Way {
    pub(super) const fn new(message: MessageDescriptor, record: usize, depth: usize) -> Self {
        Self { message, record, depth, ops: BTreeMap::new(), ways: BTreeMap::new() }
    }

    pub(super) fn into_message(mut self, reader: &source::Schema, layout: &mut Layout) -> Message {
        // What the reader does not know is unknown, whatever the writer says of it.
        let known: HashSet<&str> = reader.record(self.record).fields.iter().map(|field| field.id.as_str()).collect();
        let mut fields = Vec::new();
        for field in self.message.fields().filter(|field| known.contains(field.number().to_string().as_str())) {
            let mut ops = self.ops.remove(&field.number()).unwrap_or_default();
            if let Some((bit, way)) = self.ways.remove(&field.number()) {
                let message = Box::new(way.into_message(reader, layout));
                ops.push(Op::Message { message, present: Some(bit) });
            }
            let op = match ops.len() {
                0 => Op::Skip,
                1 => ops.pop().unwrap_or(Op::Skip),
                _ => Op::Each(ops),
            };
            let read = mapping::read(&field.kind());
            fields.push(Field {
                number: field.number(),
                name: field.name().to_owned(),
                wire: if field.is_group() { wire::GROUP } else { read.map_or(wire::LENGTH, Read::wire) },
                packable: field.is_list() && read.is_some(),
                oneof: 0,
                op,
            });
        }
        let mut oneofs = Vec::new();
        for oneof in self.message.oneofs().filter(|oneof| !oneof.is_synthetic()) {
            let is_member = |field: &&mut Field| oneof.fields().any(|member| member.number() == field.number);
            let mut members = Vec::new();
            for field in fields.iter_mut().filter(is_member) {
                let mut slots = Vec::new();
                field.op.slots(&mut slots);
                members.push((field.number, slots));
            }
            // A member that is in no column still unsets the ones that are.
            if members.iter().any(|(_, slots)| !slots.is_empty()) {
                oneofs.push(Oneof { state: layout.oneofs, members });
                layout.oneofs += 1;
                let reference = u32::try_from(oneofs.len()).unwrap_or(0);
                fields.iter_mut().filter(is_member).for_each(|field| field.oneof = reference);
            }
        }
        let mut by_tag = [0_u8; 128];
        let mut by_number = Vec::with_capacity(fields.len());
        for (index, field) in fields.iter().enumerate() {
            by_number.push((field.number, u32::try_from(index).unwrap_or(u32::MAX)));
            let packed = field.packable.then_some(wire::LENGTH);
            for wire in [Some(field.wire), packed].into_iter().flatten() {
                let tag = (field.number as usize).checked_mul(8).map(|tag| tag + usize::from(wire));
                if let Some(cell) = tag.and_then(|tag| by_tag.get_mut(tag)) {
                    *cell = u8::try_from(index + 1).unwrap_or(0);
                }
            }
        }
        Message { by_tag, by_number, fields, oneofs, depth: self.depth }
    }
}

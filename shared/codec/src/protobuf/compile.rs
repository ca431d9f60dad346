//! From a message descriptor and columns to a [`Program`].

use std::sync::Arc;

use pipeline::resolved::{ColumnCase, Pii, Unit, UnknownFields};
use pipeline::types::Type;
use prost_reflect::{FieldDescriptor, MessageDescriptor};

use super::json;
use super::mapping::{self, Number, Shape};
use super::program::{Message, MomentStore, Op, Program, Read, Store};
use super::single::{allocate, moment, names, store, word8};
use super::way::Way;
use crate::columns::{self, Column, Columns};
use crate::naming;
use crate::pii::Hasher;
use crate::rows::cells::{Output, Slot, Source};
use crate::rows::laid::Laid;
use crate::rows::level::{Gathered, Layout, Required};
use crate::rows::scale::Scale;
use crate::rows::text;
use crate::source::{self, At, ROOT};

/// Columns nest at most this deep. Written types end at half of it; the decoder follows the columns' nesting with its
/// stack, so this bounds that.
const NESTING_MAX: usize = 64;

/// Compiles the columns that come from the payload. They were planned for `reader`, whose fields are found in the writer's message
/// by their numbers: values are read as the writer has them, and a field that the writer lacks is null.
///
/// # Errors
/// Every column that the message can't fill: its index, and why.
pub(crate) fn compile(
    writer: &MessageDescriptor,
    reader: &source::Schema,
    columns: &Columns,
    hasher: &Arc<Hasher>,
) -> Result<Program, Vec<(usize, String)>> {
    let strict = columns.unknown_fields == UnknownFields::DeadLetter;
    let compiler = Compiler { reader, case: columns.column_case, strict, hasher };
    let mut root = Way::new(writer.clone(), ROOT, 0);
    let explode = columns.explode.as_deref().and_then(columns::numbers);
    let mut elements =
        explode.as_ref().map(|path| Elements { path, layout: Layout::default(), ops: Vec::new(), way: None });
    let laid = Laid::columns(columns, |column, layout| {
        Some(compiler.anywhere(column, &column.value_path()?, &mut root, layout, elements.as_mut()))
    });
    let mut plan = laid.finish(|layout| Some(compiler.explode(elements?, &mut root, layout)))?;
    let root = root.into_message(reader, &mut plan.layout);
    Ok(Program { root, plan })
}

struct Compiler<'h> {
    reader: &'h source::Schema,
    case: ColumnCase,
    strict: bool,
    hasher: &'h Arc<Hasher>,
}

/// The elements that become rows, on the way to their columns.
struct Elements<'c> {
    /// The field numbers that lead to them.
    path: &'c [u32],
    layout: Layout,
    /// What is done with an element as a whole.
    ops: Vec<Op>,
    /// What is done with the fields of one that is a message.
    way: Option<Way>,
}

/// Where a value stands.
pub(super) struct Place {
    /// The validity bit of what is around it; none where that is always there.
    pub(super) parent: Option<usize>,
    /// Its path from the level's beginning.
    path: String,
    /// How deep the message around it is.
    pub(super) depth: usize,
    /// What the column says that a number counts.
    unit: Option<Unit>,
}

impl Place {
    /// An element of a list or map, on a level of its own.
    const fn element(depth: usize) -> Self {
        Self { parent: None, path: String::new(), depth, unit: None }
    }
}

/// A field of the reader in the writer's message.
struct Known {
    at: At,
    field: Option<FieldDescriptor>,
}

/// Whether a value can be absent where what is around it is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Explicit,
    /// An implicit default, or an element.
    Always,
}

type Compiled = Result<(Op, Output), String>;

impl Compiler<'_> {
    /// Compiles a column of the record, or of the elements that become rows.
    fn anywhere(
        &self,
        column: &Column,
        path: &[u32],
        root: &mut Way,
        layout: &mut Layout,
        elements: Option<&mut Elements<'_>>,
    ) -> Result<(bool, Output), String> {
        let Some((elements, rest)) = elements.and_then(|e| path.strip_prefix(e.path).map(|rest| (e, rest))) else {
            return self.column(column, path, &column.source_name, root, layout).map(|output| (false, output));
        };
        // A path within the element begins behind its names; names of the schema have no dots.
        let name = column.source_name.splitn(elements.path.len() + 1, '.').nth(elements.path.len()).unwrap_or_default();
        let depth = elements.path.len() - 1;
        let Some(Known { at, field: Some(field) }) = self.lookup(&root.message, elements.path)? else {
            return self.nothing(column, name, &mut elements.layout).map(|output| (true, output));
        };
        let output = if rest.is_empty() {
            let place = Place { parent: None, path: name.to_owned(), depth, unit: column.unit };
            let (op, output) = self.whole(column, at, &field, true, &mut elements.layout, &place)?;
            elements.ops.push(op);
            output
        } else {
            let kind = field.kind();
            let message = kind.as_message().ok_or_else(|| format!("`{}` has no fields", field.name()))?;
            let record = self.inside(at);
            let way = elements.way.get_or_insert_with(|| Way::new(message.clone(), record, depth + 1));
            self.column(column, rest, name, way, &mut elements.layout)?
        };
        Ok((true, output))
    }

    /// Puts what is done with the elements where they are.
    fn explode(&self, elements: Elements<'_>, root: &mut Way, layout: &mut Layout) -> Result<usize, String> {
        let Elements { path, layout: mut inner, mut ops, way } = elements;
        if let Some(way) = way {
            ops.push(Op::Message { message: Box::new(way.into_message(self.reader, &mut inner)), present: None });
        }
        // Without a column of its own an element is a row all the same.
        let element = match ops.len() {
            0 => Op::Skip,
            1 => ops.pop().unwrap_or(Op::Skip),
            _ => Op::Each(ops),
        };
        layout.lists.push((inner, None));
        let list = layout.lists.len() - 1;
        let (last, through) = path.split_last().ok_or("the path of what is exploded is empty")?;
        let Some((way, _)) = self.along(through, root, layout)? else { return Ok(list) };
        let Some(field) = self.known(way, *last)?.field else { return Ok(list) };
        if !field.is_list() {
            return Err("what is exploded is not repeated".to_owned());
        }
        way.ops.entry(*last).or_default().push(Op::List { list, element: Box::new(element) });
        Ok(list)
    }

    /// The field at the end of a path; nothing where the writer lacks what it leads through.
    fn lookup(&self, message: &MessageDescriptor, path: &[u32]) -> Result<Option<Known>, String> {
        let (last, through) = path.split_last().ok_or("the path of what is exploded is empty")?;
        let mut way = Way::new(message.clone(), ROOT, 0);
        for number in through {
            let known = self.known(&way, *number)?;
            let Some(field) = known.field else { return Ok(None) };
            let kind = field.kind();
            let message = kind.as_message().cloned().ok_or_else(|| format!("`{}` has no fields", field.name()))?;
            way = Way::new(message, self.inside(known.at), 0);
        }
        self.known(&way, *last).map(Some)
    }

    /// The reader's field of a number, and the writer's.
    fn known(&self, way: &Way, number: u32) -> Result<Known, String> {
        let field = way.message.get_field(number);
        let id = number.to_string();
        let at = self.reader.fields(way.record).find(|at| self.reader.field(*at).id == id);
        match (at, field) {
            (Some(at), field) => Ok(Known { at, field }),
            (None, _) => Err(format!("{} has no field of number {number}", way.message.full_name())),
        }
    }

    /// The reader's record in a field.
    fn inside(&self, at: At) -> usize {
        self.reader.field(at).value.inside().unwrap_or(usize::MAX)
    }

    /// The message at the end of a path, and the bit that says whether it is there; nothing where the writer lacks one that the path
    /// leads through.
    fn along<'w>(
        &self,
        through: &[u32],
        root: &'w mut Way,
        layout: &mut Layout,
    ) -> Result<Option<(&'w mut Way, Option<usize>)>, String> {
        let (mut way, mut parent) = (root, None);
        for number in through {
            let known = self.known(way, *number)?;
            let Some(field) = known.field else { return Ok(None) };
            let message = match field.kind().as_message() {
                Some(message) if !field.is_list() && !field.is_map() => message.clone(),
                _ => {
                    return Err(format!("a path leads through single messages only, and `{}` isn't one", field.name()));
                }
            };
            let (record, depth) = (self.inside(known.at), way.depth + 1);
            let (bit, next) =
                way.ways.entry(*number).or_insert_with(|| (layout.bit(), Way::new(message, record, depth)));
            parent = Some(*bit);
            way = next;
        }
        Ok(Some((way, parent)))
    }

    /// Compiles a column at the end of a path within a message; `name` is the path for people.
    fn column(
        &self,
        column: &Column,
        path: &[u32],
        name: &str,
        root: &mut Way,
        layout: &mut Layout,
    ) -> Result<Output, String> {
        let (last, through) = path.split_last().ok_or("its source path is empty")?;
        if path.len() > NESTING_MAX {
            return Err(format!("its path is longer than {NESTING_MAX}"));
        }
        let Some((way, parent)) = self.along(through, root, layout)? else {
            return self.nothing(column, name, layout);
        };
        let Known { at, field: Some(field) } = self.known(way, *last)? else {
            return self.nothing(column, name, layout);
        };
        let place = Place { parent, path: name.to_owned(), depth: way.depth, unit: column.unit };
        let (op, output) = self.whole(column, at, &field, false, layout, &place)?;
        way.ops.entry(*last).or_default().push(op);
        Ok(output)
    }

    /// A column of a field that the writer lacks.
    fn nothing(&self, column: &Column, name: &str, layout: &mut Layout) -> Result<Output, String> {
        let output = layout.nothing(&column.data_type);
        layout.demand(column, &output, false, name, self.hasher)?;
        Ok(output)
    }

    /// Compiles a column of a field, or of an element of it, and what is asked of its values.
    fn whole(
        &self,
        column: &Column,
        at: At,
        field: &FieldDescriptor,
        element: bool,
        layout: &mut Layout,
        place: &Place,
    ) -> Compiled {
        // Bytes are hashed as they are; everything else as text.
        let bytes = column.pii == Some(Pii::Hash) && matches!(Shape::of(field), Shape::Bytes);
        let data_type = if bytes { &Type::Binary } else { &column.data_type };
        let (op, output) = if element {
            self.alike(at, field)?;
            let shape = Shape::of(field);
            self.value(&shape, field, self.inside(at), data_type, Presence::Always, layout, place)?
        } else {
            self.field(at, field, data_type, layout, place)?
        };
        layout.demand(column, &output, matches!(op, Op::Json { .. }), &place.path, self.hasher)?;
        Ok((op, output))
    }

    /// Whether the writer's field holds what the reader's does, so that a value of the one is one of the other.
    fn alike(&self, at: At, field: &FieldDescriptor) -> Result<(), String> {
        let read = self.reader.field(at);
        match mapping::alike(self.reader, &read.value, field) {
            true => Ok(()),
            false => Err(format!(
                "`{}` is of another kind in the writer's schema than `{}` in the pipeline's",
                field.name(),
                read.name
            )),
        }
    }

    fn field(&self, at: At, field: &FieldDescriptor, data_type: &Type, layout: &mut Layout, place: &Place) -> Compiled {
        self.alike(at, field)?;
        let record = self.inside(at);
        if place.depth > NESTING_MAX {
            return Err(format!("columns nest at most {NESTING_MAX} deep"));
        }
        if field.is_map() {
            return self.map(field, record, data_type, layout, place);
        }
        let shape = Shape::of(field);
        if field.is_list() {
            let Type::List { element, .. } = data_type else {
                return Err(format!(
                    "`{}` is repeated: its type is list<…> of {}, not {data_type}",
                    field.name(),
                    shape.allowed()
                ));
            };
            let mut elements = Layout::default();
            let inside = Place::element(place.depth);
            let (op, output) = self.value(&shape, field, record, element, Presence::Always, &mut elements, &inside)?;
            layout.lists.push((elements, None));
            let list = layout.lists.len() - 1;
            let output = Output { valid: place.parent, source: Source::List(list, Box::new(output)) };
            return Ok((Op::List { list, element: Box::new(op) }, output));
        }
        let presence = if field.supports_presence() { Presence::Explicit } else { Presence::Always };
        self.value(&shape, field, record, data_type, presence, layout, place)
    }

    fn map(
        &self,
        field: &FieldDescriptor,
        record: usize,
        data_type: &Type,
        layout: &mut Layout,
        place: &Place,
    ) -> Compiled {
        let parts =
            field.kind().as_message().and_then(|entry| Some((entry.clone(), entry.get_field(1)?, entry.get_field(2)?)));
        let (Some((entry, key, value)), Type::Map { key: key_type, value: value_type, .. }) = (parts, data_type) else {
            return Err(format!("`{}` is a map: its type is map<…>, not {data_type}", field.name()));
        };
        let mut elements = Layout::default();
        let inside = Place::element(place.depth + 1);
        let mut way = Way::new(entry, record, inside.depth);
        let [key_at, value_at] = [0, 1].map(|field| At { record, field });
        self.alike(key_at, &key)?;
        self.alike(value_at, &value)?;
        let (key_op, key_output) =
            self.value(&Shape::of(&key), &key, usize::MAX, key_type, Presence::Always, &mut elements, &inside)?;
        let (shape, inner) = (Shape::of(&value), self.inside(value_at));
        let (value_op, value_output) =
            self.value(&shape, &value, inner, value_type, Presence::Always, &mut elements, &inside)?;
        let mut slots = Vec::new();
        key_op.slots(&mut slots);
        let key_slot = slots.first().copied();
        // What a value that is not on the wire holds, where that isn't all zero bits.
        let prefill = match (&shape, &value_output.source) {
            (Shape::Enum(values), Source::Word4(slot)) => {
                let number = values.default_value().number();
                (number != 0).then_some((Slot::Word4(*slot), number))
            }
            (Shape::Empty(_), Source::Bit(slot)) => Some((Slot::Bit(*slot), 1)),
            _ => None,
        };
        way.ops.insert(1, vec![key_op]);
        way.ops.insert(2, vec![value_op]);
        let entry = Box::new(way.into_message(self.reader, &mut elements));
        layout.lists.push((elements, key_slot));
        let list = layout.lists.len() - 1;
        let source = Source::Map(list, Box::new((key_output, value_output)));
        Ok((Op::Map { list, entry, prefill }, Output { valid: place.parent, source }))
    }

    /// `record` is what the reader has in the place of a message.
    #[expect(clippy::too_many_arguments, reason = "a value is all of these, wherever it stands")]
    fn value(
        &self,
        shape: &Shape,
        field: &FieldDescriptor,
        record: usize,
        data_type: &Type,
        presence: Presence,
        layout: &mut Layout,
        place: &Place,
    ) -> Compiled {
        let refused = || match (place.unit, shape) {
            (Some(_), Shape::Timestamp) => format!("`{}` has a unit of its own: leave `unit` away", field.name()),
            _ => format!("`{}` can't be {data_type}: it can be {}", field.name(), shape.allowed()),
        };
        // Taken only when the value has an op, so that refused ones leave no bits behind.
        let present = |layout: &mut Layout| (presence == Presence::Explicit).then(|| layout.bit());
        let default = |bytes: &str| {
            (presence == Presence::Always)
                .then(|| text::Default { bytes: bytes.as_bytes().to_vec(), within: place.parent })
        };
        match (shape, data_type) {
            (Shape::Number(number), Type::Timestamptz | Type::Timestamp) if number.is_whole() => {
                let unit = place.unit.ok_or_else(refused)?;
                let read = mapping::read(&field.kind()).ok_or_else(refused)?;
                let present = present(layout);
                let slot = word8(layout);
                let scale = Scale::between(unit.per_second(), Unit::Micros.per_second());
                let unsigned = *number == Number::Unsigned64;
                let output = Output { valid: present.or(place.parent), source: Source::Word8(slot) };
                Ok((Op::Counted { read, scale, unsigned, slot, present }, output))
            }
            (Shape::Number(number), _) => {
                let store = store(*number, data_type).ok_or_else(refused)?;
                let read = mapping::read(&field.kind()).ok_or_else(refused)?;
                let default = default(if store == Store::BoolText { "false" } else { "0" });
                let present = present(layout);
                let (slot, source) = allocate(store, default, layout);
                let output = Output { valid: present.or(place.parent), source };
                Ok((Op::Number { read, store, slot, present }, output))
            }
            (Shape::Text | Shape::Bytes, Type::String | Type::Binary) => {
                // A binary column takes any bytes, also those of a field that is declared a string.
                let utf8 = *data_type == Type::String;
                let present = present(layout);
                let text = layout.text(None);
                let output = Output { valid: present.or(place.parent), source: Source::Text(text) };
                Ok((Op::Text { text, utf8, present }, output))
            }
            (Shape::Enum(_), Type::Int) => {
                let present = present(layout);
                let (slot, source) = allocate(Store::Word4, None, layout);
                let output = Output { valid: present.or(place.parent), source };
                Ok((Op::Number { read: Read::Int32, store: Store::Word4, slot, present }, output))
            }
            (Shape::Enum(values), Type::String) => {
                let names = Box::new(names(values));
                let present = present(layout);
                let text = layout.text(default(values.default_value().name()));
                let output = Output { valid: present.or(place.parent), source: Source::Text(text) };
                Ok((Op::EnumName { names, text, present }, output))
            }
            (Shape::Timestamp, Type::Timestamptz | Type::Timestamp) if place.unit.is_none() => {
                let slot = word8(layout);
                Ok(moment(MomentStore::Timestamp, slot, Source::Word8(slot), present(layout), layout, place))
            }
            (Shape::Duration, Type::Long) => {
                let slot = word8(layout);
                Ok(moment(MomentStore::Duration, slot, Source::Word8(slot), present(layout), layout, place))
            }
            (Shape::Timestamp, Type::String) => {
                let slot = layout.text(default("1970-01-01T00:00:00Z"));
                Ok(moment(MomentStore::TimestampText, slot, Source::Text(slot), present(layout), layout, place))
            }
            (Shape::Duration, Type::String) => {
                let slot = layout.text(default("0s"));
                Ok(moment(MomentStore::DurationText, slot, Source::Text(slot), present(layout), layout, place))
            }
            (Shape::Empty(message) | Shape::Message(message), Type::Boolean)
                if self.reader.record(record).fields.is_empty() =>
            {
                // The bit is the value, and so not a validity.
                let bit = layout.bit();
                let way = Way::new(message.clone(), record, place.depth + 1);
                let message = Box::new(way.into_message(self.reader, layout));
                let output = Output { valid: place.parent, source: Source::Bit(bit) };
                Ok((Op::Message { message, present: Some(bit) }, output))
            }
            (Shape::Json(message) | Shape::Message(message) | Shape::Empty(message), Type::String) => {
                let present = present(layout);
                let text = layout.text(None);
                let depth = place.depth + 1;
                layout.raws.push(Gathered {
                    name: place.path.clone(),
                    text,
                    always: presence == Presence::Always && place.parent.is_none(),
                    writer: Box::new(json::Source { message: message.clone(), depth, strict: self.strict }),
                });
                let output = Output { valid: present.or(place.parent), source: Source::Text(text) };
                Ok((Op::Json { raw: layout.raws.len() - 1, present, depth }, output))
            }
            // Of a writer that had no fields in it yet.
            (Shape::Empty(_), Type::Struct(_)) if self.reader.record(record).fields.is_empty() => Err(refused()),
            (Shape::Json(_), _) => Err(refused()),
            (_, Type::Struct(members)) => {
                let kind = field.kind();
                let message = kind.as_message().ok_or_else(refused)?;
                let present = present(layout);
                let valid = present.or(place.parent);
                let (message, outputs) = self.members(message, record, members, layout, valid, place)?;
                let output = Output { valid, source: Source::Struct(outputs) };
                Ok((Op::Message { message: Box::new(message), present }, output))
            }
            (Shape::Wrapper(inner), _) => {
                let kind = field.kind();
                let message = kind.as_message().ok_or_else(refused)?;
                let present = present(layout);
                let valid = present.or(place.parent);
                let inside =
                    Place { parent: valid, path: place.path.clone(), depth: place.depth + 1, unit: place.unit };
                let mut way = Way::new(message.clone(), record, inside.depth);
                let (op, output) = self
                    .value(&Shape::of(inner), inner, usize::MAX, data_type, Presence::Always, layout, &inside)
                    .map_err(|_| refused())?;
                way.ops.insert(1, vec![op]);
                Ok((Op::Message { message: Box::new(way.into_message(self.reader, layout)), present }, output))
            }
            _ => Err(refused()),
        }
    }

    /// The members of a struct.
    fn members(
        &self,
        message: &MessageDescriptor,
        record: usize,
        members: &[pipeline::types::Field],
        layout: &mut Layout,
        valid: Option<usize>,
        place: &Place,
    ) -> Result<(Message, Vec<Output>), String> {
        if members.is_empty() {
            return Err("a struct has at least one field".to_owned());
        }
        let mut way = Way::new(message.clone(), record, place.depth + 1);
        let mut outputs = Vec::with_capacity(members.len());
        for member in members {
            let at = self.member(record, &member.name)?;
            let read = self.reader.field(at);
            let number = read.id.parse().unwrap_or_default();
            let path = if place.path.is_empty() { read.name.clone() } else { format!("{}.{}", place.path, read.name) };
            let inside = Place { parent: valid, path, depth: way.depth, unit: None };
            let output = match way.message.get_field(number) {
                Some(field) => {
                    let (op, output) = self.field(at, &field, &member.data_type, layout, &inside)?;
                    way.ops.entry(number).or_default().push(op);
                    output
                }
                None => layout.nothing(&member.data_type),
            };
            if let (true, Some(bit)) = (member.required && output.valid != valid, output.valid) {
                layout.required.push(Required { bit, within: valid, path: inside.path });
            }
            outputs.push(output);
        }
        Ok((way.into_message(self.reader, layout), outputs))
    }

    /// The reader's field whose name, spelled as columns are, is `name`.
    fn member(&self, record: usize, name: &str) -> Result<At, String> {
        let folded = |at: &At| naming::fold(self.case, &self.reader.field(*at).name);
        self.reader.fields(record).find(|at| folded(at) == name).ok_or_else(|| {
            let known: Vec<String> = self.reader.fields(record).map(|at| folded(&at)).collect();
            let nearest = naming::nearest(name, known.iter().map(String::as_str));
            let hint = nearest.map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
            format!("{} has no field `{name}`{hint}", self.reader.record(record).name)
        })
    }
}

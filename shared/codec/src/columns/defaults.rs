//! The column types that a message's fields have when nothing else is asked for.

use pipeline::resolved::ColumnCase;
use pipeline::types::{Field, Type};
use prost_reflect::{FieldDescriptor, MessageDescriptor};

use crate::naming;
use crate::protobuf::mapping::Shape;

/// Messages below this many levels of structs, lists and maps become JSON. Written types nest at most 32 deep, and a
/// list or map may follow.
const NESTING_MAX: usize = 28;

/// More fields than this, nested ones included, are refused: no engine reads such a table, and messages that hold
/// messages that hold messages multiply.
pub(super) const FIELDS_MAX: usize = 10_000;

/// A source path that is left out.
pub(super) struct Excluded {
    pub(super) path: Vec<String>,
    /// Whether it was met.
    pub(super) applied: bool,
    /// The setting that leaves it out.
    pub(super) place: String,
}

/// Works out default types.
pub(super) struct Defaults {
    case: ColumnCase,
    pub(super) excluded: Vec<Excluded>,
    /// Fields seen so far.
    pub(super) fields: usize,
}

impl Defaults {
    pub(super) fn new(case: ColumnCase, excluded: &[String]) -> Self {
        let excluded = excluded.iter().enumerate().map(|(n, path)| Excluded {
            path: segments(path),
            applied: false,
            place: format!("table.exclude[{n}]"),
        });
        let excluded = excluded.collect();
        Self { case, excluded, fields: 0 }
    }

    /// The type of the field at `path`, whose message lies inside the messages of `around` (the outermost first); none
    /// when everything in it is left out.
    pub(super) fn of(
        &mut self,
        field: &FieldDescriptor,
        path: &[String],
        around: &[MessageDescriptor],
    ) -> Option<Type> {
        let mut path = path.to_vec();
        let mut around: Vec<String> = around.iter().map(|message| message.full_name().to_owned()).collect();
        self.field(field, &mut path, &mut around, 0)
    }

    /// Whether a path is left out.
    pub(super) fn excludes(&mut self, path: &[String]) -> bool {
        let found = self.excluded.iter_mut().filter(|excluded| excluded.path == path);
        found.map(|excluded| excluded.applied = true).count() > 0
    }

    fn field(
        &mut self,
        field: &FieldDescriptor,
        path: &mut Vec<String>,
        around: &mut Vec<String>,
        nesting: usize,
    ) -> Option<Type> {
        self.fields += 1;
        if self.fields > FIELDS_MAX {
            // The planner refuses the whole; what it is called no longer matters.
            return Some(Type::String);
        }
        if field.is_map() {
            let entry = field.kind();
            let (key, value) = entry.as_message().and_then(|entry| Some((entry.get_field(1)?, entry.get_field(2)?)))?;
            let key = Box::new(Shape::of(&key).default_type()?);
            path.push(value.name().to_owned());
            let value = self.value(&value, path, around, nesting + 1);
            path.pop();
            return Some(Type::Map { key, value: Box::new(value?), required: false });
        }
        if field.is_list() {
            let element = Box::new(self.value(field, path, around, nesting + 1)?);
            return Some(Type::List { element, required: false });
        }
        self.value(field, path, around, nesting)
    }

    fn value(
        &mut self,
        field: &FieldDescriptor,
        path: &mut Vec<String>,
        around: &mut Vec<String>,
        nesting: usize,
    ) -> Option<Type> {
        let message = match Shape::of(field) {
            Shape::Message(message) => message,
            shape => return shape.default_type(),
        };
        // A message inside itself has no end, and a struct must have one.
        if nesting > NESTING_MAX || around.iter().any(|outer| outer == message.full_name()) {
            return Some(Type::String);
        }
        around.push(message.full_name().to_owned());
        let mut members = Vec::new();
        for field in declared_fields(&message) {
            path.push(field.name().to_owned());
            if !self.excludes(path)
                && let Some(data_type) = self.field(&field, path, around, nesting + 1)
            {
                members.push(Field { name: naming::fold(self.case, field.name()), data_type, required: false });
            }
            path.pop();
        }
        around.pop();
        (!members.is_empty()).then_some(Type::Struct(members))
    }
}

/// A message's fields in the order of their declaration, which is the order that people gave them.
pub(super) fn declared_fields(message: &MessageDescriptor) -> impl Iterator<Item = FieldDescriptor> + '_ {
    let declared = &message.descriptor_proto().field;
    declared.iter().filter_map(|field| message.get_field(u32::try_from(field.number()).ok()?))
}

/// A written path's segments: dots separate, quotes keep a dot.
pub(super) fn segments(path: &str) -> Vec<String> {
    let mut segments = vec![String::new()];
    let mut quoted = false;
    for c in path.chars() {
        match (c, segments.last_mut()) {
            ('"', _) => quoted = !quoted,
            ('.', _) if !quoted => segments.push(String::new()),
            (_, Some(segment)) => segment.push(c),
            (_, None) => {}
        }
    }
    segments
}

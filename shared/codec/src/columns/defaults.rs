//! The column types that a record's fields have when nothing else is asked for.

use pipeline::resolved::{ColumnCase, Types};
use pipeline::types::{Field, Type};

use crate::naming;
use crate::source::{At, Kind, Schema, Value};

/// Records below this many levels of structs, lists and maps become JSON. Written types nest at most 32 deep, and a
/// list or map may follow.
const NESTING_MAX: usize = 28;

/// More fields than this, nested ones included, are refused: no engine reads such a table, and records that hold
/// records that hold records multiply.
pub(super) const FIELDS_MAX: usize = 10_000;

/// A source path that is left out.
pub(super) struct Excluded {
    pub(super) path: Vec<String>,
    /// Whether it was met.
    pub(super) applied: bool,
    /// The setting that leaves it out.
    pub(super) place: String,
    /// Whether a column of personal data is made of it: then what else is called so is left out.
    pub(super) is_personal: bool,
}

/// Works out default types.
pub(super) struct Defaults {
    case: ColumnCase,
    types: Types,
    pub(super) excluded: Vec<Excluded>,
    /// Fields seen so far.
    pub(super) fields: usize,
    /// Paths to values that have no default type, and why.
    pub(super) undecided: Vec<(String, String)>,
}

impl Defaults {
    pub(super) fn new<'p>(
        case: ColumnCase,
        types: Types,
        excluded: impl IntoIterator<Item = (usize, &'p String)>,
    ) -> Self {
        let excluded = excluded.into_iter().map(|(n, path)| Excluded {
            path: segments(path),
            applied: false,
            place: format!("table.exclude[{n}]"),
            is_personal: false,
        });
        let excluded = excluded.collect();
        Self { case, types, excluded, fields: 0, undecided: Vec::new() }
    }

    /// The type of the field at `path`, which lies inside the records of `around` (the outermost first); none when
    /// everything in it is left out, or it has no default.
    pub(super) fn of(&mut self, source: &Schema, field: At, path: &[String], around: &[usize]) -> Option<Type> {
        let mut path = path.to_vec();
        let mut around = around.to_vec();
        self.field(source, field, &mut path, &mut around, 0)
    }

    /// Whether a path is left out.
    pub(super) fn excludes(&mut self, path: &[String]) -> bool {
        let found = self.excluded.iter_mut().filter(|excluded| excluded.path == path);
        found.map(|excluded| excluded.applied = true).count() > 0
    }

    /// Whether a path is left out for all, and no column may be declared of it.
    pub(super) fn forbids(&mut self, path: &[String]) -> bool {
        self.excludes(path) && self.excluded.iter().any(|excluded| excluded.path == path && !excluded.is_personal)
    }

    fn field(
        &mut self,
        source: &Schema,
        at: At,
        path: &mut Vec<String>,
        around: &mut Vec<usize>,
        nesting: usize,
    ) -> Option<Type> {
        self.fields += 1;
        if self.fields > FIELDS_MAX {
            // The planner refuses the whole; what it is called no longer matters.
            return Some(Type::String);
        }
        self.value(source, &source.field(at).value, path, around, nesting)
    }

    fn value(
        &mut self,
        source: &Schema,
        value: &Value,
        path: &mut Vec<String>,
        around: &mut Vec<usize>,
        nesting: usize,
    ) -> Option<Type> {
        let record = match &value.kind {
            Kind::Single(single) => return self.single(&single.default, path),
            // The deepest record's own lists and maps are none the less columns of theirs.
            Kind::List(_) | Kind::Map(_) if nesting > NESTING_MAX + 1 => return Some(Type::String),
            Kind::List(element) => {
                let element = Box::new(self.value(source, element, path, around, nesting + 1)?);
                return Some(Type::List { element, required: false });
            }
            Kind::Map(entry) => {
                let [key, value] = source.record(*entry).fields.as_slice() else { return None };
                let Kind::Single(key) = &key.value.kind else { return None };
                let key = Box::new(self.single(&key.default, path)?);
                path.push(value.name.clone());
                let value = self.value(source, &value.value, path, around, nesting + 1);
                path.pop();
                return Some(Type::Map { key, value: Box::new(value?), required: false });
            }
            Kind::Record(record) => *record,
        };
        // A record inside itself has no end, and a struct must have one.
        if nesting > NESTING_MAX || around.contains(&record) {
            return Some(Type::String);
        }
        around.push(record);
        let mut members = Vec::new();
        for at in source.fields(record) {
            let name = &source.field(at).name;
            path.push(name.clone());
            if !self.excludes(path)
                && let Some(data_type) = self.field(source, at, path, around, nesting + 1)
            {
                members.push(Field { name: naming::fold(self.case, name), data_type, required: false });
            }
            path.pop();
        }
        around.pop();
        (!members.is_empty()).then_some(Type::Struct(members))
    }

    fn single(&mut self, default: &Result<Type, String>, path: &[String]) -> Option<Type> {
        match (default, self.types) {
            (Ok(Type::Uuid | Type::Time), Types::Portable) => Some(Type::String),
            (Ok(Type::Fixed(_)), Types::Portable) => Some(Type::Binary),
            (Ok(data_type), _) => Some(data_type.clone()),
            (Err(reason), _) => {
                self.undecided.push((path.join("."), reason.clone()));
                None
            }
        }
    }
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

//! Where a reader's values go: from its schema and columns to the cells of a row.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::secret::Secret;
use pipeline::resolved::{ColumnCase, Pii, Unit};
use pipeline::types::Type;

use super::describe::VALUE;
use super::schema::{self, Logical, Schema, Shape};
use super::single::{self, Number};
use super::view::{self, View};
use crate::columns::{self, Column, Columns};
use crate::naming;
use crate::pii::Hasher;
use crate::rows::batch::Plan;
use crate::rows::cells::{Output, Slot, Source};
use crate::rows::laid::Laid;
use crate::rows::level::{Layout, Required};

/// Columns nest at most this deep: the decoder follows them with its stack.
const NESTING_MAX: usize = 64;

/// A value's place.
pub(super) struct Placed {
    /// The bit that is set where it is there.
    pub(super) present: Option<usize>,
    pub(super) target: Target,
}

pub(super) enum Target {
    /// A bit that says that it is there: all there is to it.
    Flag {
        bit: usize,
    },
    Number {
        to: Number,
        slot: usize,
    },
    /// A string, bytes, or the name of an enum's value.
    Text {
        text: usize,
        utf8: bool,
    },
    Uuid {
        text: usize,
    },
    UuidText {
        text: usize,
    },
    Decimal {
        slot: usize,
        precision: u8,
        scale: u8,
    },
    DecimalText {
        text: usize,
    },
    /// By the place of a record's field, or a union's branch.
    Members(BTreeMap<usize, Vec<Placed>>),
    List {
        list: usize,
        element: Vec<Placed>,
    },
    Map {
        list: usize,
        value: Vec<Placed>,
    },
    Json {
        text: usize,
    },
}

/// The root of the columns, and what they consist of.
pub(super) struct Places {
    pub(super) root: Vec<Placed>,
    pub(super) plan: Plan,
}

/// The columns that a schema's records can't fill.
pub(super) fn misfits(schema: &Schema, columns: &Columns) -> Vec<(usize, String)> {
    // Nothing is decoded here.
    places(schema, columns, &Arc::new(Hasher::new(&Secret::new([])))).err().unwrap_or_default()
}

/// Finds every column's place.
///
/// # Errors
/// Every column that the records can't fill: its index, and why.
pub(super) fn places(schema: &Schema, columns: &Columns, hasher: &Arc<Hasher>) -> Result<Places, Vec<(usize, String)>> {
    let placer = Placer { schema, case: columns.column_case, hasher };
    let mut root = Way { is_root: true, ..Way::new(schema.root) };
    let explode = columns.explode.as_deref().and_then(columns::names);
    let mut elements = explode.map(|path| Elements { path, layout: Layout::default(), way: None });
    let laid = Laid::columns(columns, |column, layout| {
        Some(placer.anywhere(column, &column.value_names()?, &mut root, layout, elements.as_mut()))
    });
    let plan = laid.finish(|layout| Some(placer.explode(elements?, &mut root, layout)))?;
    // The payload's own record is always there, also where no column leads into it.
    let mut root = root.into_placed();
    if root.is_empty() {
        root.push(Placed { present: None, target: Target::Members(BTreeMap::new()) });
    }
    Ok(Places { root, plan })
}

struct Placer<'a> {
    schema: &'a Schema,
    case: ColumnCase,
    hasher: &'a Arc<Hasher>,
}

/// The elements that become rows, on the way to their columns.
struct Elements {
    /// The names that lead to them.
    path: Vec<String>,
    layout: Layout,
    /// None before a column is made of them.
    way: Option<Way>,
}

/// A type on the way to columns, before all of them are known.
struct Way {
    of: usize,
    is_root: bool,
    /// Whether it is a branch of a union of several types.
    is_branch: bool,
    /// The bit that says whether it is there, once a path has led through it.
    present: Option<usize>,
    /// What is done with it as a whole.
    own: Vec<Placed>,
    members: BTreeMap<usize, Way>,
}

/// Where a value stands.
struct Place {
    /// The validity bit of what is around it; none where that is always there.
    parent: Option<usize>,
    /// Its path from the level's beginning.
    path: String,
    depth: usize,
    /// What the column says that a number counts.
    unit: Option<Unit>,
}

type Compiled = Result<(Placed, Output), String>;

impl Placer<'_> {
    /// Places a column of the record, or of the elements that become rows.
    fn anywhere(
        &self,
        column: &Column,
        path: &[String],
        root: &mut Way,
        layout: &mut Layout,
        elements: Option<&mut Elements>,
    ) -> Result<(bool, Output), String> {
        let within = elements.and_then(|e| path.strip_prefix(e.path.as_slice()).map(|rest| (e, rest)));
        let Some((elements, rest)) = within else {
            return self.column(column, path, root, layout).map(|output| (false, output));
        };
        let way = match &mut elements.way {
            Some(way) => way,
            none => none.insert(Way::new(self.element(&elements.path)?)),
        };
        self.column(column, rest, way, &mut elements.layout).map(|output| (true, output))
    }

    /// The type of the elements of what a path leads to.
    fn element(&self, path: &[String]) -> Result<usize, String> {
        let mut of = self.schema.root;
        for (depth, name) in path.iter().enumerate() {
            of = self.member(of, name, depth == 0)?.1;
        }
        match view::of(self.schema, of).1 {
            View::One(id) => match self.schema.shape(id) {
                Shape::Array(items) => Ok(*items),
                _ => Err("what is exploded is not repeated".to_owned()),
            },
            _ => Err("what is exploded is not repeated".to_owned()),
        }
    }

    /// Puts what is done with the elements where they are.
    fn explode(&self, elements: Elements, root: &mut Way, layout: &mut Layout) -> Result<usize, String> {
        self.element(&elements.path)?;
        layout.lists.push((elements.layout, None));
        let list = layout.lists.len() - 1;
        let (way, ..) = self.along(&elements.path, root, layout)?;
        // Without a column of its own an element is a row all the same.
        let element = elements.way.map_or_else(Vec::new, Way::into_placed);
        way.own.push(Placed { present: None, target: Target::List { list, element } });
        Ok(list)
    }

    /// Whether columns see a payload of this schema as a record of one field.
    fn is_wrapped(&self) -> bool {
        match view::of(self.schema, self.schema.root) {
            (_, View::One(id)) => !matches!(self.schema.shape(id), Shape::Record(_)),
            (_, View::Branches(_)) => false,
            (_, View::Null) => true,
        }
    }

    /// A field of a type that is a record to columns: its place among the members, and its type. Of a payload that is no
    /// record the only field is the payload.
    fn member(&self, of: usize, name: &str, outermost: bool) -> Result<(usize, usize), String> {
        let schema = self.schema;
        if outermost && self.is_wrapped() {
            return match name {
                VALUE => Ok((usize::MAX, of)),
                _ => Err(format!("the payload has no field `{name}`")),
            };
        }
        let members = view::members(schema, of);
        let found = members.iter().find(|(_, known, _)| *known == name);
        found.map(|(place, _, of)| (*place, *of)).ok_or_else(|| self.no_field(of, name, false))
    }

    fn no_field(&self, of: usize, name: &str, folded: bool) -> String {
        let members = view::members(self.schema, of);
        if members.is_empty() {
            return "a path leads through single records only".to_owned();
        }
        let spell = |known: &str| if folded { naming::fold(self.case, known) } else { known.to_owned() };
        let known: Vec<String> = members.iter().map(|(_, known, _)| spell(known)).collect();
        let nearest = naming::nearest(name, known.iter().map(String::as_str));
        let hint = nearest.map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
        format!("{} has no field `{name}`{hint}", self.schema.type_name(of))
    }

    /// The type at the end of a path, the bit that says whether what it is in is there, and its depth.
    fn along<'w>(
        &self,
        path: &[String],
        root: &'w mut Way,
        layout: &mut Layout,
    ) -> Result<(&'w mut Way, Option<usize>, usize), String> {
        if path.len() > NESTING_MAX {
            return Err(format!("its path is longer than {NESTING_MAX}"));
        }
        let (mut way, mut parent) = (root, None);
        for (depth, name) in path.iter().enumerate() {
            let (place, of) = self.member(way.of, name, way.is_root && depth == 0)?;
            if place == usize::MAX {
                continue;
            }
            let (optional, view) = view::of(self.schema, way.of);
            // There is a record to every row, and of what is never null there is one too.
            let always = way.is_root && !self.is_wrapped();
            if optional && !always && way.present.is_none() {
                way.present = Some(layout.bit());
            }
            parent = way.present.or(parent);
            let next = way.members.entry(place).or_insert_with(|| Way::new(of));
            // In the place of a branch there may be another one.
            if matches!(view, View::Branches(_)) && next.present.is_none() {
                next.present = Some(layout.bit());
                next.is_branch = true;
            }
            way = next;
        }
        let parent = if way.is_branch { way.present } else { parent };
        Ok((way, parent, path.len()))
    }

    /// Places a column at the end of a path within a type.
    fn column(&self, column: &Column, path: &[String], root: &mut Way, layout: &mut Layout) -> Result<Output, String> {
        let (way, parent, depth) = self.along(path, root, layout)?;
        let place = Place { parent, path: path.join("."), depth, unit: column.unit };
        let of = way.of;
        // Bytes are hashed as they are; everything else as text.
        let is_bytes = matches!(
            view::of(self.schema, of),
            (_, View::One(id)) if matches!(self.schema.at(id),
                schema::Type { shape: Shape::Bytes | Shape::Fixed(_), logical: None })
        );
        let bytes = column.pii == Some(Pii::Hash) && is_bytes;
        let data_type = if bytes { &Type::Binary } else { &column.data_type };
        let (mut placed, output) = self.value(of, data_type, layout, &place)?;
        if way.is_branch {
            placed.present = way.present;
        }
        let is_json = matches!(placed.target, Target::Json { .. });
        layout.demand(column, &output, is_json, &place.path, self.hasher)?;
        way.own.push(placed);
        Ok(output)
    }

    /// A value of a type, which may be null where it can be.
    fn value(&self, of: usize, data_type: &Type, layout: &mut Layout, place: &Place) -> Compiled {
        if place.depth > NESTING_MAX {
            return Err(format!("columns nest at most {NESTING_MAX} deep"));
        }
        let (optional, view) = view::of(self.schema, of);
        let present = optional.then(|| layout.bit());
        let valid = present.or(place.parent);
        let (target, output) = match view {
            View::Null => return Err(format!("`{}` is always null: exclude it", place.path)),
            View::One(id) => match (self.schema.shape(id), data_type) {
                // The bit is the value, and so not a validity.
                (Shape::Record(record), Type::Boolean) if record.fields.is_empty() => {
                    let bit = present.unwrap_or_else(|| layout.bit());
                    let placed = Placed { present: None, target: Target::Flag { bit } };
                    return Ok((placed, Output { valid: place.parent, source: Source::Bit(bit) }));
                }
                _ => self.single(id, data_type, layout, valid, place)?,
            },
            View::Branches(_) => self.composite(of, data_type, layout, valid, place)?,
        };
        Ok((Placed { present, target }, Output { valid, source: output }))
    }

    fn composite(
        &self,
        of: usize,
        data_type: &Type,
        layout: &mut Layout,
        valid: Option<usize>,
        place: &Place,
    ) -> Result<(Target, Source), String> {
        if let Type::String = data_type {
            let text = layout.text(None);
            return Ok((Target::Json { text }, Source::Text(text)));
        }
        let inside = || Place { parent: None, path: String::new(), depth: place.depth + 1, unit: None };
        match (self.schema.shape(of), data_type) {
            (Shape::Array(items), Type::List { element, .. }) => {
                let mut elements = Layout::default();
                let (placed, output) = self.value(*items, element, &mut elements, &inside())?;
                layout.lists.push((elements, None));
                let list = layout.lists.len() - 1;
                Ok((Target::List { list, element: vec![placed] }, Source::List(list, Box::new(output))))
            }
            (Shape::Map(values), Type::Map { key, value, .. }) if **key == Type::String => {
                let mut elements = Layout::default();
                let key = Output { valid: None, source: Source::Text(elements.text(None)) };
                let (placed, output) = self.value(*values, value, &mut elements, &inside())?;
                layout.lists.push((elements, Some(Slot::Text(0))));
                let list = layout.lists.len() - 1;
                Ok((Target::Map { list, value: vec![placed] }, Source::Map(list, Box::new((key, output)))))
            }
            (Shape::Record(_) | Shape::Union(_) | Shape::Fixed(_), Type::Struct(fields)) => {
                self.members(of, fields, layout, valid, place)
            }
            _ => Err(self.refused(of, data_type, place)),
        }
    }

    /// The members of a struct.
    fn members(
        &self,
        of: usize,
        fields: &[pipeline::types::Field],
        layout: &mut Layout,
        valid: Option<usize>,
        place: &Place,
    ) -> Result<(Target, Source), String> {
        if fields.is_empty() {
            return Err("a struct has at least one field".to_owned());
        }
        let known = view::members(self.schema, of);
        let is_union = matches!(self.schema.shape(of), Shape::Union(_));
        let mut targets: BTreeMap<usize, Vec<Placed>> = BTreeMap::new();
        let mut outputs = Vec::with_capacity(fields.len());
        for field in fields {
            let found = known.iter().find(|(_, name, _)| naming::fold(self.case, name) == field.name);
            let (member, name, of) = found.ok_or_else(|| self.no_field(of, &field.name, true))?;
            let path = if place.path.is_empty() { (*name).to_owned() } else { format!("{}.{name}", place.path) };
            let inside = Place { parent: valid, path, depth: place.depth + 1, unit: None };
            let (placed, output) = if is_union {
                self.branch(*of, &field.data_type, layout, &inside)?
            } else {
                self.value(*of, &field.data_type, layout, &inside)?
            };
            if let (true, Some(bit)) = (field.required && output.valid != valid, output.valid) {
                layout.required.push(Required { bit, within: valid, path: inside.path });
            }
            targets.entry(*member).or_default().push(placed);
            outputs.push(output);
        }
        Ok((Target::Members(targets), Source::Struct(outputs)))
    }

    /// A branch of a union of several types, which is there or another one is.
    fn branch(&self, of: usize, data_type: &Type, layout: &mut Layout, place: &Place) -> Compiled {
        let bit = layout.bit();
        let inside = Place { parent: Some(bit), path: place.path.clone(), depth: place.depth, unit: None };
        let (placed, output) = self.value(of, data_type, layout, &inside)?;
        Ok((Placed { present: Some(bit), ..placed }, output))
    }

    /// A single value, or what columns see as one.
    fn single(
        &self,
        id: usize,
        data_type: &Type,
        layout: &mut Layout,
        valid: Option<usize>,
        place: &Place,
    ) -> Result<(Target, Source), String> {
        let found = self.schema.at(id);
        if let Some(target) = single::target(found, data_type, place.unit, layout) {
            return Ok(target);
        }
        let is_duration = found.logical == Some(Logical::Duration);
        match &found.shape {
            Shape::Array(_) | Shape::Map(_) | Shape::Record(_) => self.composite(id, data_type, layout, valid, place),
            _ if is_duration => self.composite(id, data_type, layout, valid, place),
            _ => Err(self.refused(id, data_type, place)),
        }
    }

    fn refused(&self, of: usize, data_type: &Type, place: &Place) -> String {
        let name = if place.path.is_empty() { "an element" } else { &place.path };
        if place.unit.is_some() && self.schema.at(of).logical.is_some() {
            return format!("`{name}` has a unit of its own in the schema: leave `unit` away");
        }
        format!("`{name}` can't be {data_type}: it can be {}", single::allowed(self.schema.at(of)))
    }
}

impl Way {
    const fn new(of: usize) -> Self {
        Self { of, is_root: false, is_branch: false, present: None, own: Vec::new(), members: BTreeMap::new() }
    }

    fn into_placed(self) -> Vec<Placed> {
        let mut placed = self.own;
        if !self.members.is_empty() {
            let members = self.members.into_iter().map(|(place, way)| (place, way.into_placed())).collect();
            placed.push(Placed { present: self.present, target: Target::Members(members) });
        }
        placed
    }
}

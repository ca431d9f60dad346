//! From a schema and columns to what is done with each value, and the cells of a row that it goes to.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::secret::Secret;
use pipeline::resolved::{self, ColumnCase, Pii, UnknownFields};
use pipeline::types::{self, Type};

use super::program::{Member, Object, Op, Store, Unknown};
use super::schema::{Of, Schema, Shape, Single, Unit};
use super::single;
use crate::columns::{self, Column, Columns, Withheld, Within};
use crate::naming::{self, Spelled};
use crate::pii::Hasher;
use crate::rows::batch::Plan;
use crate::rows::cells::{Output, Slot, Source};
use crate::rows::laid::Laid;
use crate::rows::level::{Layout, Required};

/// Columns nest at most this deep: the decoder follows them with its stack.
const NESTING_MAX: usize = 64;

/// What is done with a payload, and what its columns consist of.
pub(super) struct Compiled {
    pub(super) root: Op,
    pub(super) plan: Plan,
}

/// The columns that a schema's objects can't fill.
pub(super) fn misfits(schema: &Schema, columns: &Columns) -> Vec<(usize, String)> {
    // Nothing is decoded here.
    compile(schema, columns, &Arc::new(Hasher::new(&Secret::new([])))).err().unwrap_or_default()
}

/// Compiles the columns that come from the payload.
///
/// # Errors
/// Every column that the objects can't fill: its index, and why.
pub(super) fn compile(
    schema: &Schema,
    columns: &Columns,
    hasher: &Arc<Hasher>,
) -> Result<Compiled, Vec<(usize, String)>> {
    let withheld = Arc::new(columns.withheld.clone());
    let (case, unknown) = (columns.column_case, columns.unknown_fields);
    let placer = Placer { schema, case, unknown, withheld, hasher };
    let start = Place { withheld: placer.withheld.start(), ..Place::ROOT };
    let mut root = Way { place: start.clone(), ..Way::new(schema.root) };
    let explode = columns.explode.as_deref().and_then(columns::names);
    let mut elements = explode.map(|path| Elements { path, layout: Layout::default(), way: None });
    let laid = Laid::columns(columns, |column, layout| {
        Some(placer.anywhere(column, &column.value_names()?, &mut root, layout, elements.as_mut()))
    });
    let plan = laid.finish(|layout| Some(placer.explode(elements?, &mut root, layout)))?;
    // The payload is an object, also where no column leads into it.
    let root = placer.object(Names::of(schema, schema.root), placer.members(root), None, &start);
    Ok(Compiled { root, plan })
}

struct Placer<'a> {
    schema: &'a Schema,
    case: ColumnCase,
    unknown: UnknownFields,
    withheld: Arc<Withheld>,
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

/// A shape on the way to columns, before all of them are known.
struct Way {
    of: usize,
    /// What is done with it as a whole.
    own: Vec<Op>,
    members: BTreeMap<usize, Way>,
    place: Place,
}

/// Where a value stands.
#[derive(Clone)]
struct Place {
    /// The names that lead to it from the payload.
    path: Vec<String>,
    /// How many of them lead to its level.
    level: usize,
    /// Whether it is in a list or map.
    several: bool,
    depth: usize,
    /// How far they lead to what is withheld.
    withheld: Within,
}

/// The members of an object: the name of each, its shape where it has one, and its default.
struct Names<'s>(Vec<(&'s str, Option<usize>, Option<&'s str>)>);

impl<'s> Names<'s> {
    fn of(schema: &'s Schema, id: usize) -> Self {
        let fields = schema.fields(id).iter();
        Self(fields.map(|field| (field.name.as_str(), Some(field.of), field.default.as_deref())).collect())
    }
}

impl Place {
    const ROOT: Self = Self { path: Vec::new(), level: 0, several: false, depth: 0, withheld: Within::NOWHERE };

    fn within(&self, name: &str, withheld: &Withheld) -> Self {
        let withheld = withheld.enter(&self.withheld, name);
        let mut within = Self { depth: self.depth + 1, withheld, ..self.clone() };
        within.path.push(name.to_owned());
        within
    }

    /// That of the elements.
    fn elements(&self) -> Self {
        Self { level: self.path.len(), several: true, depth: self.depth + 1, ..self.clone() }
    }

    /// The names that lead to it from the beginning of its level.
    fn local_path(&self) -> String {
        self.path.get(self.level..).unwrap_or_default().join(".")
    }
}

type Placed = Result<(Op, Output), String>;

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
            none => {
                let way = Way::new(self.element(&elements.path)?);
                let through = |within, name: &String| self.withheld.enter(&within, name);
                let withheld = elements.path.iter().fold(self.withheld.start(), through);
                let place = Place { path: elements.path.clone(), withheld, ..Place::ROOT }.elements();
                none.insert(Way { place, ..way })
            }
        };
        self.column(column, rest, way, &mut elements.layout).map(|output| (true, output))
    }

    /// The shape of the elements of what a path leads to.
    fn element(&self, path: &[String]) -> Result<usize, String> {
        let mut of = self.schema.root;
        for name in path {
            of = self.member(of, name)?.1;
        }
        match self.schema.shape(of) {
            Shape::Array(items) => Ok(*items),
            _ => Err("what is exploded is not repeated".to_owned()),
        }
    }

    /// Puts what is done with the elements where they are.
    fn explode(&self, elements: Elements, root: &mut Way, layout: &mut Layout) -> Result<usize, String> {
        self.element(&elements.path)?;
        layout.lists.push((elements.layout, None));
        let list = layout.lists.len() - 1;
        // Without a column of its own an element is a row all the same.
        let element = elements.way.map_or(Op::Skip, |way| self.op(way));
        let way = self.along(&elements.path, root)?;
        way.own.push(Op::List { list, element: Box::new(element), present: None });
        Ok(list)
    }

    /// A member of an object: its place and its shape.
    fn member(&self, of: usize, name: &str) -> Result<(usize, usize), String> {
        let mut fields = self.schema.fields(of).iter().enumerate();
        let found = fields.find(|(_, field)| field.name == name).map(|(place, field)| (place, field.of));
        found.ok_or_else(|| self.no_field(of, name, false))
    }

    fn no_field(&self, of: usize, name: &str, folded: bool) -> String {
        let spell = |known: &str| if folded { naming::fold(self.case, known) } else { known.to_owned() };
        let known: Vec<String> = self.schema.fields(of).iter().map(|field| spell(&field.name)).collect();
        if known.is_empty() {
            return "a path leads through single objects only".to_owned();
        }
        let nearest = naming::nearest(name, known.iter().map(String::as_str));
        let hint = nearest.map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
        format!("{} has no field `{name}`{hint}", self.schema.title(of))
    }

    /// What is at the end of a path.
    fn along<'w>(&self, path: &[String], root: &'w mut Way) -> Result<&'w mut Way, String> {
        if path.len() > NESTING_MAX {
            return Err(format!("its path is longer than {NESTING_MAX}"));
        }
        let mut way = root;
        for name in path {
            let (member, of) = self.member(way.of, name)?;
            let place = way.place.within(name, &self.withheld);
            way = way.members.entry(member).or_insert_with(|| Way { place, ..Way::new(of) });
        }
        Ok(way)
    }

    /// Places a column at the end of a path within a shape.
    fn column(&self, column: &Column, path: &[String], root: &mut Way, layout: &mut Layout) -> Result<Output, String> {
        let way = self.along(path, root)?;
        // Bytes are hashed as they are; everything else as text.
        let is_bytes =
            matches!(self.schema.shape(way.of), Shape::Single(Single { default: Type::Binary, of: Of::Text, .. }));
        let bytes = column.pii == Some(Pii::Hash) && is_bytes;
        let data_type = if bytes { &Type::Binary } else { &column.data_type };
        let place = way.place.clone();
        let (mut op, output) = self.value(Some(way.of), data_type, unit(column), layout, &place)?;
        if let (Op::Single { store: store @ Store::TextOrNested, .. }, true) = (&mut op, column.pii.is_some()) {
            *store = Store::Text;
        }
        let is_json = matches!(op, Op::Single { store: Store::Json | Store::Nested, .. });
        layout.demand(column, &output, is_json, &place.local_path(), self.hasher)?;
        way.own.push(op);
        Ok(output)
    }

    /// A value of a shape, or of none: then the column says what it is.
    fn value(
        &self,
        of: Option<usize>,
        data_type: &Type,
        unit: Option<Unit>,
        layout: &mut Layout,
        place: &Place,
    ) -> Placed {
        if place.depth > NESTING_MAX {
            return Err(format!("columns nest at most {NESTING_MAX} deep"));
        }
        let shape = of.map(|of| self.schema.shape(of));
        let present = layout.bit();
        let valid = Some(present);
        let is_open = match shape {
            None => true,
            Some(Shape::Single(single)) => matches!(single.of, Of::Any | Of::Declared | Of::Unsaid),
            Some(_) => false,
        };
        match (shape, data_type) {
            (Some(Shape::Array(_)), Type::List { element, required }) => {
                let items = if let Some(Shape::Array(items)) = shape { Some(*items) } else { None };
                self.list(items, element, *required, layout, place, present)
            }
            (_, Type::List { element, required }) if is_open => {
                self.list(None, element, *required, layout, place, present)
            }
            (_, Type::Map { key, value, required }) if **key == Type::String => {
                let values = match shape {
                    Some(Shape::Map(values)) => Some(*values),
                    _ if is_open => None,
                    _ => return Err(self.refused(of, data_type, place)),
                };
                let mut elements = Layout::default();
                let key = Output { valid: None, source: Source::Text(elements.text(None)) };
                let inside = Place { withheld: self.withheld.enter(&place.withheld, "value"), ..place.elements() };
                let (op, output) = self.value(values, value, None, &mut elements, &inside)?;
                demand(*required, &output, &mut elements);
                layout.lists.push((elements, Some(Slot::Text(0))));
                let list = layout.lists.len() - 1;
                let source = Source::Map(list, Box::new((key, output)));
                Ok((Op::Map { list, value: Box::new(op), present }, Output { valid, source }))
            }
            (Some(Shape::Object(_)), Type::Struct(fields)) => {
                let known = Names::of(self.schema, of.unwrap_or_default());
                self.record(of, known, fields, layout, place, present)
            }
            (_, Type::Struct(fields)) if is_open => {
                let known = Names(fields.iter().map(|field| (field.name.as_str(), None, None)).collect());
                self.record(None, known, fields, layout, place, present)
            }
            (Some(Shape::Object(_) | Shape::Array(_) | Shape::Map(_)), Type::String) => {
                let slot = layout.text(None);
                let op = Op::Single { store: Store::Nested, slot, present };
                Ok((op, Output { valid, source: Source::Text(slot) }))
            }
            (None | Some(Shape::Single(_)), _) => {
                let declared = Single::new(Of::Declared, data_type.clone());
                let found = if let Some(Shape::Single(single)) = shape { single } else { &declared };
                let store = single::store(found, data_type, unit);
                let store = store.ok_or_else(|| self.refused(of, data_type, place))?;
                let (slot, source) = single::allocate(store, layout);
                Ok((Op::Single { store, slot, present }, Output { valid, source }))
            }
            _ => Err(self.refused(of, data_type, place)),
        }
    }

    fn list(
        &self,
        items: Option<usize>,
        element: &Type,
        required: bool,
        layout: &mut Layout,
        place: &Place,
        present: usize,
    ) -> Placed {
        let mut elements = Layout::default();
        let (op, output) = self.value(items, element, None, &mut elements, &place.elements())?;
        demand(required, &output, &mut elements);
        layout.lists.push((elements, None));
        let list = layout.lists.len() - 1;
        let source = Source::List(list, Box::new(output));
        Ok((Op::List { list, element: Box::new(op), present: Some(present) }, Output { valid: Some(present), source }))
    }

    /// A struct's members.
    fn record(
        &self,
        of: Option<usize>,
        known: Names<'_>,
        fields: &[types::Field],
        layout: &mut Layout,
        place: &Place,
        present: usize,
    ) -> Placed {
        if fields.is_empty() {
            return Err("a struct has at least one field".to_owned());
        }
        let (mut placed, mut outputs) = (BTreeMap::new(), Vec::with_capacity(fields.len()));
        for field in fields {
            let is = |name: &str| name == field.name || of.is_some() && naming::fold(self.case, name) == field.name;
            let found = known.0.iter().enumerate().find(|(_, (name, ..))| is(name));
            let (member, (name, of, _)) =
                found.ok_or_else(|| self.no_field(of.unwrap_or(self.schema.root), &field.name, true))?;
            let inside = place.within(name, &self.withheld);
            let (op, output) = self.value(*of, &field.data_type, None, layout, &inside)?;
            if let (true, Some(bit)) = (field.required, output.valid) {
                layout.required.push(Required { bit, within: Some(present), path: inside.local_path() });
            }
            placed.entry(member).or_insert_with(Vec::new).push(op);
            outputs.push(output);
        }
        let placed = placed.into_iter().map(|(member, ops)| (member, each(ops))).collect();
        let op = self.object(known, placed, Some(present), place);
        Ok((op, Output { valid: Some(present), source: Source::Struct(outputs) }))
    }

    fn object(&self, known: Names<'_>, mut placed: BTreeMap<usize, Op>, present: Option<usize>, place: &Place) -> Op {
        let unknown = match self.unknown {
            // What is new to the schema was added to it before.
            UnknownFields::Ignore | UnknownFields::Add => Unknown::Skip,
            UnknownFields::DeadLetter => Unknown::Refuse,
            UnknownFields::Rest => Unknown::Keep {
                path: place.path.as_slice().into(),
                several: place.several,
                withheld: (!place.withheld.is_empty()).then(|| (Arc::clone(&self.withheld), place.withheld.clone())),
            },
        };
        let spelled = Spelled::of(self.case, known.0.iter().map(|(name, ..)| *name));
        let members = known.0.into_iter().enumerate().map(|(index, (name, _, default))| {
            let op = placed.remove(&index).unwrap_or(Op::Skip);
            let default = default.filter(|_| !matches!(op, Op::Skip)).map(|json| json.as_bytes().into());
            let quoted = serde_json::Value::from(name).to_string().into_bytes().into();
            Member { name: name.into(), quoted, op, default }
        });
        let members: Box<[Member]> = members.collect();
        let mut by_name: Vec<usize> = (0..members.len()).collect();
        by_name.sort_by_key(|index| members.get(*index).map(|member| &member.name));
        Op::Object(Box::new(Object {
            has_defaults: members.iter().any(|member| member.default.is_some()),
            by_name: by_name.into(),
            members,
            present,
            unknown,
            spelled,
        }))
    }

    /// What is done with the members that ways lead to.
    fn members(&self, way: Way) -> BTreeMap<usize, Op> {
        way.members.into_iter().map(|(member, way)| (member, self.op(way))).collect()
    }

    fn op(&self, mut way: Way) -> Op {
        let mut ops = std::mem::take(&mut way.own);
        if !way.members.is_empty() {
            let (known, place) = (Names::of(self.schema, way.of), way.place.clone());
            ops.push(self.object(known, self.members(way), None, &place));
        }
        each(ops)
    }

    fn refused(&self, of: Option<usize>, data_type: &Type, place: &Place) -> String {
        let name = place.local_path();
        let name = if name.is_empty() { "an element" } else { &name };
        let allowed = match of.map(|of| self.schema.shape(of)) {
            None => "any type but a map whose keys are no strings".to_owned(),
            Some(Shape::Single(found)) => single::allowed(found),
            Some(Shape::Object(_)) => "a struct of its members, string (JSON)".to_owned(),
            Some(Shape::Map(_)) => "map<string, …>, string (JSON)".to_owned(),
            Some(Shape::Array(_)) => "list<…>, string (JSON)".to_owned(),
        };
        format!("`{name}` can't be {data_type}: it can be {allowed}")
    }
}

/// What the file says that a column's numbers count.
fn unit(column: &Column) -> Option<Unit> {
    column.unit.map(|unit| match unit {
        resolved::Unit::Seconds => Unit::Seconds,
        resolved::Unit::Millis => Unit::Millis,
        resolved::Unit::Micros => Unit::Micros,
        resolved::Unit::Nanos => Unit::Nanos,
    })
}

/// Refuses elements that are null where the column has none.
fn demand(required: bool, output: &Output, elements: &mut Layout) {
    if let (true, Some(bit)) = (required, output.valid) {
        elements.required.push(Required { bit, within: None, path: String::new() });
    }
}

fn each(mut ops: Vec<Op>) -> Op {
    match ops.len() {
        0 => Op::Skip,
        1 => ops.pop().unwrap_or(Op::Skip),
        _ => Op::Each(ops.into()),
    }
}

impl Way {
    const fn new(of: usize) -> Self {
        Self { of, own: Vec::new(), members: BTreeMap::new(), place: Place::ROOT }
    }
}

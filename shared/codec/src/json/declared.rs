//! A schema of what a pipeline declares, for payloads that have none.

use std::collections::BTreeMap;

use pipeline::expectation::Literal;
use pipeline::resolved::{ColumnDeclaration, From, Pipeline, Table, Value};
use pipeline::route::Part;
use pipeline::types::Type;
use sha2::{Digest as _, Sha256};

use super::schema::{Field, Object, Of, Schema, Shape, Single};

impl Schema {
    /// What a pipeline's columns, filter and route say of its payloads.
    #[must_use]
    pub fn declared(pipeline: &Pipeline) -> Self {
        let parts = pipeline.route.iter().flat_map(|route| route.parts());
        let route = parts.filter_map(|part| match part {
            Part::Field(path) => Some(path.as_slice()),
            _ => None,
        });
        Self::of(&pipeline.value, &pipeline.table, route)
    }

    /// [`Schema::declared`] of a pipeline's blocks, and the paths of its route.
    pub(super) fn of<'p>(value: &'p Value, table: &'p Table, route: impl Iterator<Item = &'p [String]>) -> Self {
        let mut tree = Tree::default();
        for ColumnDeclaration { from, data_type, .. } in &table.columns {
            if let From::Path(path) = from {
                tree.grow(path).say(data_type.as_ref().map_or(Leaf::Unsaid, |of| Leaf::Of(of.clone())));
            }
        }
        // What nothing else is said of is what it is compared with.
        if let Some(filter) = &value.filter {
            let data_type = match filter.one_of.first() {
                Some(Literal::Integer(_)) => Type::Long,
                Some(Literal::Boolean(_)) => Type::Boolean,
                _ => Type::String,
            };
            tree.grow(&filter.field).say(Leaf::Of(data_type));
        }
        for path in route {
            tree.grow(path).say(Leaf::Of(Type::String));
        }
        if let Some(path) = &value.explode {
            tree.grow(path).repeated = true;
        }
        let mut shapes = Vec::new();
        let root = tree.shape(&mut shapes);
        // A payload is an object, also where nothing is declared of it.
        let root = match shapes.get(root) {
            Some(Shape::Object(_)) => root,
            _ => {
                shapes.push(Shape::Object(Object::default()));
                shapes.len() - 1
            }
        };
        let digest = Sha256::digest(format!("{:?}", (&shapes, root)));
        Self {
            shapes,
            root,
            name: "JSON".to_owned(),
            digest: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            declared: true,
        }
    }
}

/// The members that are declared, and what is said of each.
#[derive(Default)]
struct Tree {
    /// Its place among those beside it, in the order in which they are declared.
    place: usize,
    leaf: Option<Leaf>,
    /// Whether it is a list whose elements become rows.
    repeated: bool,
    members: BTreeMap<String, Tree>,
}

#[derive(Clone, PartialEq)]
enum Leaf {
    /// A column is made of it, whose type is not said.
    Unsaid,
    Of(Type),
    /// Several columns of several types.
    Several,
}

impl Tree {
    fn grow(&mut self, path: &[String]) -> &mut Self {
        let mut found = self;
        for name in path {
            let place = found.members.len();
            found = found.members.entry(name.clone()).or_insert_with(|| Self { place, ..Self::default() });
        }
        found
    }

    fn say(&mut self, leaf: Leaf) {
        self.leaf = Some(match self.leaf.take() {
            None | Some(Leaf::Unsaid) => leaf,
            Some(before) if before == leaf || leaf == Leaf::Unsaid => before,
            Some(_) => Leaf::Several,
        });
    }

    fn shape(&self, shapes: &mut Vec<Shape>) -> usize {
        let said = match &self.leaf {
            Some(Leaf::Of(of)) => Some(of),
            _ => None,
        };
        // What is said of a list that becomes rows is said of the list, or of an element.
        let said = match said {
            Some(Type::List { element, .. }) if self.repeated => Some(element.as_ref()),
            other => other,
        };
        let of = match said {
            _ if !self.members.is_empty() => {
                // The members of a struct are what it says, and those that paths lead to.
                let mut members: Vec<_> = self.members.iter().collect();
                members.sort_by_key(|(_, member)| member.place);
                let mut fields: Vec<Field> =
                    members.into_iter().map(|(name, member)| field(name, member.shape(shapes))).collect();
                if let Some(Type::Struct(members)) = said {
                    let others = members.iter().filter(|member| !self.members.contains_key(&member.name));
                    fields.extend(others.map(|member| field(&member.name, lower(&member.data_type, shapes))));
                }
                add(Shape::Object(Object { title: None, fields }), shapes)
            }
            Some(of) => lower(of, shapes),
            None => {
                let of = if self.leaf == Some(Leaf::Several) { Of::Declared } else { Of::Unsaid };
                add(Shape::Single(Single::new(of, Type::String)), shapes)
            }
        };
        if self.repeated { add(Shape::Array(of), shapes) } else { of }
    }
}

fn add(shape: Shape, shapes: &mut Vec<Shape>) -> usize {
    shapes.push(shape);
    shapes.len() - 1
}

fn field(name: &str, of: usize) -> Field {
    Field { name: name.to_owned(), doc: None, of, optional: true, default: None }
}

/// The shape of what becomes a column of a type. Written types nest no deeper than their grammar allows.
pub(super) fn lower(data_type: &Type, shapes: &mut Vec<Shape>) -> usize {
    let shape = match data_type {
        Type::Struct(members) => {
            let fields = members.iter().map(|member| field(&member.name, lower(&member.data_type, shapes)));
            Shape::Object(Object { title: None, fields: fields.collect() })
        }
        Type::List { element, .. } => Shape::Array(lower(element, shapes)),
        Type::Map { value, .. } => Shape::Map(lower(value, shapes)),
        Type::Boolean => Shape::Single(Single::new(Of::Boolean, Type::Boolean)),
        Type::Int | Type::Long => Shape::Single(Single::new(Of::Integer, data_type.clone())),
        Type::Float | Type::Double => Shape::Single(Single::new(Of::Number, data_type.clone())),
        other => Shape::Single(Single::new(Of::Declared, other.clone())),
    };
    add(shape, shapes)
}

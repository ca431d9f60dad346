//! What a type is to columns: a union with null is an optional value, one of several types a record of optional branches.

use super::describe::DURATION;
use super::schema::{self, Logical, Schema, Shape, unqualified};

/// A type without the null that it may also be.
#[derive(Clone, Copy)]
pub(super) enum View<'s> {
    /// Null and nothing else.
    Null,
    /// One type, which is no union.
    One(usize),
    /// The branches of a union of several types, null among them where it is one.
    Branches(&'s [usize]),
}

/// The view of a type, and whether it may be null.
pub(super) fn of(schema: &Schema, id: usize) -> (bool, View<'_>) {
    let branches = match schema.shape(id) {
        Shape::Union(branches) => branches,
        Shape::Null => return (true, View::Null),
        _ => return (false, View::One(id)),
    };
    let mut others = branches.iter().filter(|branch| !is_null(schema, **branch));
    let optional = branches.iter().any(|branch| is_null(schema, *branch));
    match (others.next(), others.next()) {
        (None, _) => (optional, View::Null),
        (Some(only), None) => (optional, View::One(*only)),
        _ => (optional, View::Branches(branches)),
    }
}

pub(super) fn is_null(schema: &Schema, id: usize) -> bool {
    matches!(schema.shape(id), Shape::Null)
}

/// What a branch of a union is called: its type without the namespace, unless another branch would be called so too.
pub(super) fn branch_name<'s>(schema: &'s Schema, branches: &[usize], branch: usize) -> &'s str {
    let full = |index: usize| branches.get(index).map_or("", |id| schema.type_name(*id));
    let short = unqualified(full(branch));
    let several = (0..branches.len()).filter(|other| unqualified(full(*other)) == short).count() > 1;
    if several { full(branch) } else { short }
}

/// The earlier names of a branch, as [`branch_name`] would have them.
pub(super) fn branch_aliases(schema: &Schema, id: usize) -> Vec<String> {
    match schema.shape(id) {
        Shape::Record(record) => &record.name,
        Shape::Enum(values) => &values.name,
        Shape::Fixed(fixed) => &fixed.name,
        _ => return Vec::new(),
    }
    .aliases
    .iter()
    .map(|alias| unqualified(alias).to_owned())
    .collect()
}

/// The fields of what is a record to columns: the place of each, its name and its type.
pub(super) fn members(schema: &Schema, of: usize) -> Vec<(usize, &str, usize)> {
    match self::of(schema, of) {
        (_, View::Branches(branches)) => {
            let others = branches.iter().enumerate().filter(|(_, id)| !is_null(schema, **id));
            others.map(|(index, id)| (index, branch_name(schema, branches, index), *id)).collect()
        }
        (_, View::One(id)) => match schema.at(id) {
            schema::Type { shape: Shape::Record(record), .. } => {
                record.fields.iter().enumerate().map(|(n, field)| (n, field.name.as_str(), field.of)).collect()
            }
            // The parts are types of no schema: they are found by this.
            schema::Type { logical: Some(Logical::Duration), .. } => {
                DURATION.iter().enumerate().map(|(n, name)| (n, *name, schema.part)).collect()
            }
            _ => Vec::new(),
        },
        (_, View::Null) => Vec::new(),
    }
}

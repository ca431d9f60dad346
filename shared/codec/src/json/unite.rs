//! Two versions of a schema as one, that records of both can be read as.

use std::collections::{HashMap, HashSet};

use pipeline::resolved::ColumnCase;
use pipeline::types::Type;

use super::schema::{Field, Schema, Shape, Single};
use crate::naming::Spelled;
use crate::source::Brought;

impl Schema {
    /// This schema with the members of another version that it lacks, at any depth, behind its own. A member that one of them
    /// lacks may be missing; whole numbers of 64 bits and numbers of double precision take the place of shorter ones, and listed
    /// texts are those of both. A name that is but spelled otherwise there, so that `case` would make one column of both, is the same.
    /// What is of another kind there stays as it is here. Nothing where that changes nothing, or where the pipeline's columns are all
    /// there is.
    pub(crate) fn united(&self, other: &Self, case: ColumnCase, brought: &Brought) -> Option<Self> {
        if self.declared {
            return None;
        }
        // The other's shapes behind our own: whatever is new leads to them.
        let shift = self.shapes.len();
        let mut shapes = self.shapes.clone();
        shapes.extend(other.shapes.iter().cloned().map(|mut shape| {
            match &mut shape {
                Shape::Object(object) => object.fields.iter_mut().for_each(|field| field.of += shift),
                Shape::Map(of) | Shape::Array(of) => *of += shift,
                Shape::Single(_) => {}
            }
            shape
        }));
        let only: Option<HashSet<(usize, String)>> = match brought {
            Brought::All => None,
            Brought::Only(paths) => Some(other.along(paths).map(|(object, name)| (shift + object, name)).collect()),
        };
        let (mut open, mut seen, mut changed) = (vec![(self.root, other.root + shift)], HashSet::new(), false);
        let mut ours = HashMap::new();
        while let Some((own, new)) = open.pop() {
            let Some(theirs) = shapes.get(new).cloned().filter(|_| own != new && seen.insert((own, new))) else {
                continue;
            };
            match (shapes.get_mut(own), theirs) {
                (Some(Shape::Object(object)), Shape::Object(theirs)) => {
                    ours.insert(new, own);
                    let spelled = Spelled::of(case, object.fields.iter().map(|field| field.name.as_str()));
                    let alone = Spelled::of(case, theirs.fields.iter().map(|field| field.name.as_str()));
                    let mut met = HashSet::new();
                    for other in theirs.fields {
                        let named = object.fields.iter().position(|field| field.name == other.name);
                        let place = named.or_else(|| alone.find(&other.name).and_then(|_| spelled.find(&other.name)));
                        met.extend(place);
                        match place.and_then(|place| object.fields.get_mut(place)) {
                            Some(field) => {
                                open.push((field.of, other.of));
                                field.optional |= other.optional;
                            }
                            None if only.as_ref().is_some_and(|only| !only.contains(&(new, other.name.clone()))) => {}
                            None => {
                                met.insert(object.fields.len());
                                object.fields.push(Field { optional: true, ..other });
                                changed = true;
                            }
                        }
                    }
                    for (_, field) in object.fields.iter_mut().enumerate().filter(|(place, _)| !met.contains(place)) {
                        field.optional = true;
                    }
                }
                (Some(Shape::Map(own)), Shape::Map(new)) | (Some(Shape::Array(own)), Shape::Array(new)) => {
                    open.push((*own, new));
                }
                (Some(Shape::Single(single)), Shape::Single(theirs)) if only.is_none() => {
                    changed |= widen(single, theirs)
                }
                _ => {}
            }
        }
        // What is new leads to our objects where it led to those that they are now.
        let lead = |of: &mut usize| *of = ours.get(of).copied().unwrap_or(*of);
        for shape in &mut shapes {
            match shape {
                Shape::Object(object) => object.fields.iter_mut().for_each(|field| lead(&mut field.of)),
                Shape::Map(of) | Shape::Array(of) => lead(of),
                Shape::Single(_) => {}
            }
        }
        let digest = format!("{}+{}", self.digest, other.digest);
        changed.then(|| Self { shapes, digest, ..self.clone() })
    }

    /// The members along paths of names, each by its object and its name there.
    fn along(&self, paths: &[Vec<String>]) -> impl Iterator<Item = (usize, String)> {
        paths.iter().flat_map(move |path| {
            let (mut of, mut found) = (self.root, Vec::new());
            for name in path {
                // A column may be made of what is in the elements of a list.
                while let Some(Shape::Array(items)) = self.shapes.get(of) {
                    of = *items;
                }
                let Some(Shape::Object(object)) = self.shapes.get(of) else { break };
                let Some(field) = object.fields.iter().find(|field| field.name == *name) else { break };
                found.push((of, name.clone()));
                of = field.of;
            }
            found
        })
    }

    /// This schema without these members of the payload's object.
    pub(crate) fn without(&self, fields: &[String]) -> Self {
        let mut schema = self.clone();
        if let Some(Shape::Object(object)) = schema.shapes.get_mut(self.root) {
            object.fields.retain(|field| !fields.contains(&field.name));
            schema.digest = format!("{}-{}", schema.digest, fields.join(","));
        }
        schema
    }
}

/// Takes into a single value what another version's has more.
fn widen(own: &mut Single, theirs: Single) -> bool {
    let mut changed = false;
    if own.of == theirs.of
        && matches!((&own.default, &theirs.default), (Type::Int, Type::Long) | (Type::Float, Type::Double))
    {
        own.default = theirs.default;
        changed = true;
    }
    if own.of == theirs.of
        && let Some(symbols) = &mut own.symbols
    {
        match theirs.symbols {
            Some(others) => {
                let before = symbols.len();
                symbols.extend(others.into_iter().filter(|other| !symbols.contains(other)).collect::<Vec<_>>());
                changed |= symbols.len() > before;
            }
            // Any text is one there.
            None => {
                own.symbols = None;
                changed = true;
            }
        }
    }
    changed
}

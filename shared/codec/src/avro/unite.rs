//! Two versions of a schema as one, that records of both can be read as.

use std::collections::{HashMap, HashSet};

use pipeline::resolved::ColumnCase;

use super::program::Side;
use super::resolve::Least;
use super::run::skip;
use super::schema::{Enum, Field, Logical, Name, Record, Schema, Shape, Type, unqualified};
use super::view::{self, View};
use super::wire::Reader;
use crate::naming::Spelled;
use crate::source::Brought;

impl Schema {
    /// This schema with the fields of another version that it lacks, at any depth, behind its own, null where a record has none. A
    /// field that the other version lacks may be null, unless it has a default; one that the other has renamed has its name, and
    /// the earlier one as an alias. Numbers that are wider there are wider here, enums have the symbols of both, and what may be
    /// null in one may be. A name that is but spelled otherwise there, so that `case` would make one column of both, is the same. What
    /// is of another kind there stays as it is here. Nothing where that changes nothing.
    pub(crate) fn united(&self, other: &Self, case: ColumnCase, brought: &Brought) -> Option<Self> {
        let (uniter, _) = Uniter::of(self, other, case, brought);
        uniter.changed.then(|| uniter.finish())
    }

    /// This schema with the earlier names, as aliases, that its fields have in other versions of it: one names the field of the
    /// version before it only, whose own aliases lead further. A name that a version has for another field beside it is no earlier one.
    pub(crate) fn knowing(&self, versions: &[&Self]) -> Self {
        let mut known = self.clone();
        // Most schemas have no aliases, and all would be looked through.
        if !versions.iter().chain([&self]).any(|version| version.has_aliases()) {
            return known;
        }
        // As far as aliases of aliases lead, whatever the order of the versions.
        for _ in 0..RENAMES_MAX {
            let (mut is_new, mut beside) = (false, HashMap::<(usize, usize), HashSet<String>>::new());
            let mut earlier = Vec::new();
            for version in versions {
                for (id, of) in known.records_beside(version) {
                    let (Shape::Record(record), Shape::Record(other)) = (known.shape(id), version.shape(of)) else {
                        continue;
                    };
                    // Names that are but spelled otherwise are nobody's alias.
                    let places = places(ColumnCase::AsIs, record, other);
                    for (field, place) in (0..).zip(&places) {
                        let Some((own, theirs)) =
                            record.fields.get(field).zip(place.and_then(|place| other.fields.get(place)))
                        else {
                            continue;
                        };
                        let others = other.fields.iter().filter(|other| other.name != theirs.name);
                        beside.entry((id, field)).or_default().extend(others.map(|other| other.name.clone()));
                        // What a later version calls it, that one says itself.
                        if !theirs.aliases.contains(&own.name) {
                            let names = std::iter::once(&theirs.name).chain(&theirs.aliases);
                            earlier.extend(names.map(|name| (id, field, name.clone())));
                        }
                    }
                }
            }
            for (id, field, name) in earlier {
                let Some(Type { shape: Shape::Record(record), .. }) = known.types.get_mut(id) else { continue };
                let is_taken = record.fields.iter().any(|f| f.name == name || f.aliases.contains(&name))
                    || beside.get(&(id, field)).is_some_and(|names| names.contains(&name));
                if !is_taken && let Some(field) = record.fields.get_mut(field) {
                    field.aliases.push(name);
                    is_new = true;
                }
            }
            if !is_new {
                break;
            }
        }
        known
    }

    /// The records of both that are one: where ours stand, and the other's.
    fn records_beside(&self, other: &Self) -> Vec<(usize, usize)> {
        let shift = self.types.len();
        let (uniter, pairs) = Uniter::of(self, other, ColumnCase::AsIs, &Brought::All);
        let one = pairs.into_iter().filter(|(own, new)| *own < shift && uniter.is_same(*own, *new));
        let mut pairs: Vec<(usize, usize)> =
            one.filter_map(|(own, new)| Some((own, new.checked_sub(shift)?))).collect();
        pairs.sort_unstable();
        pairs
    }

    /// Whether it says of a field what it was called before.
    fn has_aliases(&self) -> bool {
        self.types.iter().any(|of| match &of.shape {
            Shape::Record(record) => record.fields.iter().any(|field| !field.aliases.is_empty()),
            _ => false,
        })
    }

    /// The fields along paths of names, each by its record and its name there.
    fn along(&self, paths: &[Vec<String>]) -> impl Iterator<Item = (usize, String)> {
        paths.iter().flat_map(move |path| {
            let (mut of, mut found) = (self.root, Vec::new());
            for name in path {
                let mut record = self.behind_null(of);
                // A column may be made of what is in the elements of a list.
                while let Shape::Array(items) = self.shape(record) {
                    record = self.behind_null(*items);
                }
                let Shape::Record(Record { fields, .. }) = self.shape(record) else { break };
                let Some(field) = fields.iter().find(|field| field.name == *name) else { break };
                found.push((record, name.clone()));
                of = field.of;
            }
            found
        })
    }

    /// The type that values are which are not null, where it is one.
    fn behind_null(&self, of: usize) -> usize {
        match view::of(self, of) {
            (_, View::One(one)) => one,
            _ => of,
        }
    }

    /// This schema without these fields of the payload's record.
    pub(crate) fn without(&self, fields: &[String]) -> Self {
        let mut schema = self.clone();
        if let (_, View::One(root)) = view::of(self, self.root)
            && let Some(Type { shape: Shape::Record(record), .. }) = schema.types.get_mut(root)
        {
            record.fields.retain(|field| !fields.contains(&field.name));
            schema.digest = format!("{}-{}", schema.digest, fields.join(","));
        }
        schema
    }
}

/// A type whose types stand so many places further on.
fn moved(shape: &mut Shape, by: usize) {
    match shape {
        Shape::Record(record) => record.fields.iter_mut().for_each(|field| field.of += by),
        Shape::Array(of) | Shape::Map(of) => *of += by,
        Shape::Union(branches) => branches.iter_mut().for_each(|of| *of += by),
        _ => {}
    }
}

struct Uniter {
    schema: Schema,
    case: ColumnCase,
    /// The only fields that are taken from the other, where not all are: by their records and names.
    brought: Option<HashSet<(usize, String)>>,
    /// Pairs of types that are to be merged: ours, and the other's.
    open: Vec<(usize, usize)>,
    changed: bool,
}

/// Renames of one field: more are not looked for.
const RENAMES_MAX: usize = 64;

/// The field of the other record that each of ours is.
fn places(case: ColumnCase, record: &Record, other: &Record) -> Vec<Option<usize>> {
    // By name first: an alias takes none that another field has the name of.
    let named = |name: &String| other.fields.iter().position(|field| field.name == *name);
    let mut places: Vec<Option<usize>> = record.fields.iter().map(|field| named(&field.name)).collect();
    for (field, place) in record.fields.iter().zip(0..) {
        if places.get(place) != Some(&None) {
            continue;
        }
        let renamed = |(at, theirs): (usize, &Field)| {
            let is_it = theirs.aliases.contains(&field.name) || field.aliases.contains(&theirs.name);
            (is_it && !places.contains(&Some(at))).then_some(at)
        };
        if let Some(at) = other.fields.iter().enumerate().find_map(renamed)
            && let Some(place) = places.get_mut(place)
        {
            *place = Some(at);
        }
    }
    let theirs = Spelled::of(case, other.fields.iter().map(|field| field.name.as_str()));
    let ours = Spelled::of(case, record.fields.iter().map(|field| field.name.as_str()));
    for (field, at) in record.fields.iter().zip(0..) {
        if places.get(at) == Some(&None)
            && ours.find(&field.name).is_some()
            && let Some(found) = theirs.find(&field.name).filter(|found| !places.contains(&Some(*found)))
            && let Some(place) = places.get_mut(at)
        {
            *place = Some(found);
        }
    }
    places
}

impl Uniter {
    /// Both versions as one, and the types of both that became one: ours, and the other's behind all of ours.
    fn of(own: &Schema, other: &Schema, case: ColumnCase, brought: &Brought) -> (Self, HashSet<(usize, usize)>) {
        // The other's types behind our own: whatever is new leads to them.
        let shift = own.types.len();
        let mut types = own.types.clone();
        types.extend(other.types.iter().cloned().map(|mut of| {
            moved(&mut of.shape, shift);
            of
        }));
        let digest = format!("{}+{}", own.digest, other.digest);
        let schema = Schema { types, root: own.root, part: own.part, digest };
        let brought = match brought {
            Brought::All => None,
            Brought::Only(paths) => Some(other.along(paths).map(|(record, name)| (shift + record, name)).collect()),
        };
        let mut uniter = Uniter { schema, case, brought, open: Vec::new(), changed: false };
        uniter.schema.root = uniter.join(own.root, shift + other.root);
        let mut seen = HashSet::new();
        while let Some((own, new)) = uniter.open.pop() {
            if seen.insert((own, new)) {
                uniter.merge(own, new);
            }
        }
        (uniter, seen)
    }

    fn shape(&self, id: usize) -> &Shape {
        self.schema.shape(id)
    }

    fn add(&mut self, shape: Shape) -> usize {
        self.schema.types.push(Type { shape, logical: None });
        self.schema.types.len() - 1
    }

    fn null_of(&self, branches: &[usize]) -> Option<usize> {
        branches.iter().position(|branch| matches!(self.shape(*branch), Shape::Null))
    }

    /// The type that stands where one of ours and one of the other's did.
    fn join(&mut self, own: usize, new: usize) -> usize {
        match (self.shape(own).clone(), self.shape(new).clone()) {
            (Shape::Union(branches), Shape::Union(others)) => {
                for other in &others {
                    match branches.iter().find(|branch| self.is_same(**branch, *other)) {
                        Some(branch) => self.open.push((*branch, *other)),
                        // A second type would make a struct of the column.
                        None if self.is_whole()
                            && self.several(&branches)
                            && !matches!(self.shape(*other), Shape::Null) =>
                        {
                            self.extend(own, *other);
                        }
                        None => {}
                    }
                }
                if self.is_whole() && self.null_of(&others).is_some() && self.null_of(&branches).is_none() {
                    let null = self.add(Shape::Null);
                    self.extend(own, null);
                }
                own
            }
            (Shape::Union(branches), _) => {
                if let Some(branch) = branches.iter().find(|branch| self.is_same(**branch, new)) {
                    self.open.push((*branch, new));
                }
                own
            }
            (Shape::Null, _) => own,
            (_, Shape::Union(others)) => {
                if let Some(other) = others.iter().find(|other| self.is_same(own, **other)) {
                    self.open.push((own, *other));
                }
                match self.null_of(&others) {
                    Some(_) if self.is_whole() => self.optional(own),
                    _ => own,
                }
            }
            (_, Shape::Null) if self.is_whole() => self.optional(own),
            _ => {
                self.open.push((own, new));
                own
            }
        }
    }

    fn several(&self, branches: &[usize]) -> bool {
        branches.iter().filter(|branch| !matches!(self.shape(**branch), Shape::Null)).count() > 1
    }

    /// One more branch of a union.
    fn extend(&mut self, union: usize, branch: usize) {
        if let Some(Type { shape: Shape::Union(branches), .. }) = self.schema.types.get_mut(union) {
            branches.push(branch);
            self.changed = true;
        }
    }

    /// A type that may be null too, its own values first: what is a default of it has zero in front.
    fn optional(&mut self, of: usize) -> usize {
        match self.shape(of) {
            Shape::Null => of,
            Shape::Union(branches) if self.null_of(branches).is_some() => of,
            Shape::Union(_) => {
                let null = self.add(Shape::Null);
                self.extend(of, null);
                of
            }
            _ => {
                self.changed = true;
                let null = self.add(Shape::Null);
                self.add(Shape::Union(vec![of, null]))
            }
        }
    }

    /// Whether values of both may be read as one type.
    fn is_same(&self, own: usize, new: usize) -> bool {
        match (self.shape(own), self.shape(new)) {
            (Shape::Record(Record { name: own, .. }), Shape::Record(Record { name: new, .. }))
            | (Shape::Enum(Enum { name: own, .. }), Shape::Enum(Enum { name: new, .. })) => is_named(own, new),
            (Shape::Fixed(own), Shape::Fixed(new)) => is_named(&own.name, &new.name),
            (Shape::Int, Shape::Long) | (Shape::Float, Shape::Double) => true,
            (own, new) => std::mem::discriminant(own) == std::mem::discriminant(new),
        }
    }

    /// Takes into one of our types what the other's has more.
    fn merge(&mut self, own: usize, new: usize) {
        if !self.is_same(own, new) {
            return;
        }
        match (self.shape(own).clone(), self.shape(new).clone()) {
            (Shape::Record(record), Shape::Record(other)) => {
                let record = self.record(record, &other, new);
                self.set(own, Shape::Record(record));
            }
            (Shape::Enum(values), Shape::Enum(others)) if self.is_whole() => {
                let more: Vec<String> =
                    others.symbols.into_iter().filter(|symbol| !values.symbols.contains(symbol)).collect();
                if !more.is_empty() {
                    self.changed = true;
                    let symbols = values.symbols.iter().cloned().chain(more).collect();
                    self.set(own, Shape::Enum(Enum { symbols, ..values }));
                }
            }
            (Shape::Array(items), Shape::Array(others)) => {
                let joined = self.join(items, others);
                self.set(own, Shape::Array(joined));
            }
            (Shape::Map(values), Shape::Map(others)) => {
                let joined = self.join(values, others);
                self.set(own, Shape::Map(joined));
            }
            _ if self.is_whole() => self.widen(own, new),
            _ => {}
        }
    }

    /// Whether our types become those of both: where but some fields are taken, values are still what ours say.
    const fn is_whole(&self) -> bool {
        self.brought.is_none()
    }

    /// A number of more digits.
    fn widen(&mut self, own: usize, new: usize) {
        let wide = self.schema.at(new).clone();
        let Some(of) = self.schema.types.get_mut(own) else { return };
        match (&of.shape, of.logical, &wide.shape, wide.logical) {
            (Shape::Int, None, Shape::Long, None) | (Shape::Float, None, Shape::Double, None) => *of = wide,
            (
                _,
                Some(Logical::Decimal { precision, scale }),
                _,
                Some(Logical::Decimal { precision: more, scale: same }),
            ) if more > precision && scale == same => {
                of.logical = wide.logical;
            }
            _ => return,
        }
        self.changed = true;
    }

    fn set(&mut self, id: usize, shape: Shape) {
        if let Some(of) = self.schema.types.get_mut(id) {
            of.shape = shape;
        }
    }

    /// One of our records with what the other's has more, which is the type `new`.
    fn record(&mut self, mut record: Record, other: &Record, new: usize) -> Record {
        let places = places(self.case, &record, other);
        for (field, place) in record.fields.iter_mut().zip(&places) {
            match place.and_then(|place| other.fields.get(place)) {
                Some(theirs) => {
                    self.rename(field, theirs);
                    let joined = self.join(field.of, theirs.of);
                    self.retype(field, joined);
                }
                None if !matches!(field.default, Some(Ok(_))) => {
                    let optional = self.optional(field.of);
                    field.of = optional;
                    field.default = Some(Ok(self.null(optional)));
                    self.changed = true;
                }
                None => {}
            }
        }
        for (_, theirs) in other.fields.iter().enumerate().filter(|(at, _)| !places.contains(&Some(*at))) {
            if self.brought.as_ref().is_some_and(|only| !only.contains(&(new, theirs.name.clone()))) {
                continue;
            }
            self.changed = true;
            let of = self.optional(theirs.of);
            record.fields.push(Field { of, default: Some(Ok(self.null(of))), ..theirs.clone() });
        }
        for alias in std::iter::once(&other.name.full).chain(&other.name.aliases) {
            if unqualified(alias) != unqualified(&record.name.full) && !record.name.aliases.contains(alias) {
                record.name.aliases.push(alias.clone());
            }
        }
        record
    }

    /// The newer name of a field, with the others that it had.
    fn rename(&mut self, field: &mut Field, theirs: &Field) {
        let before = (field.name.clone(), field.aliases.len());
        let names: Vec<String> =
            [&field.name, &theirs.name].into_iter().chain(&theirs.aliases).chain(&field.aliases).cloned().collect();
        if theirs.aliases.contains(&field.name) {
            field.name.clone_from(&theirs.name);
        }
        for name in names {
            if name != field.name && !field.aliases.contains(&name) {
                field.aliases.push(name);
            }
        }
        field.aliases.retain(|alias| *alias != field.name);
        if field.doc.is_none() {
            field.doc.clone_from(&theirs.doc);
        }
        self.changed |= before != (field.name.clone(), field.aliases.len());
    }

    /// Gives a field another type, of whose first branch its default is then.
    fn retype(&self, field: &mut Field, of: usize) {
        if of != field.of
            && let Some(Ok(default)) = &mut field.default
            && matches!(self.shape(of), Shape::Union(_))
        {
            default.insert(0, 0);
        }
        field.of = of;
    }

    /// Null as a value of a type that may be.
    fn null(&self, of: usize) -> Vec<u8> {
        match self.shape(of) {
            // Branches are numbered by zigzag varints; nobody's union has as many as two bytes of them.
            Shape::Union(branches) => vec![u8::try_from(2 * self.null_of(branches).unwrap_or(0)).unwrap_or(0)],
            _ => Vec::new(),
        }
    }

    /// The schema, whose defaults are still values of their types: one of a record that got more fields is none any more.
    fn finish(self) -> Schema {
        let mut schema = self.schema;
        let side = Side { least: Least::of(&schema), schema: schema.clone() };
        for of in &mut schema.types {
            let Shape::Record(record) = &mut of.shape else { continue };
            for field in &mut record.fields {
                let Some(Ok(bytes)) = &field.default else { continue };
                let mut reader = Reader::new(bytes, bytes.len());
                let is_one = skip(&side, field.of, &mut reader, 0).and_then(|()| reader.finish()).is_ok();
                if !is_one {
                    field.default = Some(Err("another version of its type has more fields".to_owned()));
                }
            }
        }
        schema
    }
}

/// Whether two names are of one type, as resolution has it: without their namespaces, or by an earlier one.
fn is_named(own: &Name, new: &Name) -> bool {
    let is = |one: &str, other: &Name| {
        unqualified(one) == unqualified(&other.full)
            || other.aliases.iter().any(|alias| unqualified(alias) == unqualified(one))
    };
    is(&own.full, new) || is(&new.full, own)
}

//! What becomes of values of a writer's schema when they are read as a reader's: the specification's "Schema Resolution".
//! What can't be read is found while reading, since only a value that is there is amiss: an array may be empty, a union of
//! another branch.
//!
//! A field or a type that the writer calls otherwise and says so, with the reader's name among its own aliases, is the reader's, too: a
//! record may be written with a newer version of the reader's schema. The specification asks the reader's aliases alone.
//!
//! Where the specification takes the first branch of a reader's union that matches, a branch of the very type comes first
//! here, as in Avro's own library for Java: in a union of long and int, an int is an int.

use std::collections::{HashMap, HashSet};

use pipeline::resolved::ColumnCase;

use super::schema::{Enum, Field, Fixed, Logical, Name, Record, Schema, Shape, Unit, unqualified};
use crate::naming::Spelled;

/// The resolution of pairs of types, which may lead back to themselves.
pub(super) struct Resolution {
    nodes: Vec<Node>,
    pub(super) root: usize,
}

pub(super) enum Node {
    /// No value of the one is one of the other.
    Refuse(String),
    Null,
    Number {
        read: Read,
        /// The writer's unit and the reader's, of times.
        units: Option<(Unit, Unit)>,
    },
    /// Strings, bytes and fixed bytes.
    Bytes(Length),
    /// For each of the writer's symbols the reader's, or why there is none.
    Enum(Vec<Result<usize, String>>),
    Record {
        /// In the writer's order.
        steps: Vec<Step>,
        /// Fields that the writer lacks.
        missing: Vec<Missing>,
    },
    Array(Elements),
    Map(Elements),
    /// The writer's union: the number of a branch comes first.
    Union(Vec<usize>),
    /// A value of a branch of the reader's union; `writer` is the writer's type.
    Branch {
        branch: usize,
        node: usize,
        writer: usize,
    },
}

/// How a number is read: always to 64 bits, of the reader's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    IntToFloat,
    LongToFloat,
    IntToDouble,
    LongToDouble,
    FloatToDouble,
    /// A part of a duration.
    Unsigned32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// In front of the bytes.
    Prefixed,
    Fixed(usize),
}

/// A field of the writer.
pub(super) struct Step {
    pub(super) name: String,
    pub(super) writer: usize,
    /// The reader's field and its node; none where the reader does not know it.
    pub(super) to: Option<(usize, usize)>,
}

/// A field that the writer does not know.
pub(super) struct Missing {
    pub(super) field: usize,
    /// The default's bytes and its node, or why there is none.
    pub(super) value: Result<(Vec<u8>, usize), String>,
}

/// Elements of an array, values of a map.
pub(super) struct Elements {
    pub(super) node: usize,
    pub(super) writer: usize,
    /// Bytes that one takes at least.
    pub(super) least: usize,
}

/// Types may lead to types this many times: names make long chains of what JSON nests little.
const DEPTH_MAX: usize = 200;

/// More pairs than this are not resolved.
const NODES_MAX: usize = 1 << 20;

impl Resolution {
    /// Names that are but spelled otherwise are the same where `case` makes one column of them.
    pub(super) fn of(writer: &Schema, reader: &Schema, case: ColumnCase) -> Self {
        let mut resolver = Resolver {
            writer,
            reader,
            case,
            nodes: Vec::new(),
            known: HashMap::new(),
            own: HashMap::new(),
            least: Least::of(writer),
            own_least: Least::of(reader),
        };
        let root = resolver.pair(writer.root, reader.root, 0);
        Self { nodes: resolver.nodes, root }
    }

    /// Of every type of a schema with itself, where `of` leads.
    pub(super) fn itself(schema: &Schema, of: usize) -> Self {
        let mut resolver = Resolver {
            writer: schema,
            reader: schema,
            case: ColumnCase::AsIs,
            nodes: Vec::new(),
            known: HashMap::new(),
            own: HashMap::new(),
            least: Least::of(schema),
            own_least: Least::of(schema),
        };
        let root = resolver.pair(of, of, 0);
        Self { nodes: resolver.nodes, root }
    }

    pub(super) fn node(&self, node: usize) -> &Node {
        static NOTHING: Node = Node::Null;
        self.nodes.get(node).unwrap_or(&NOTHING)
    }
}

struct Resolver<'s> {
    writer: &'s Schema,
    reader: &'s Schema,
    case: ColumnCase,
    nodes: Vec<Node>,
    known: HashMap<(usize, usize), usize>,
    /// The reader's types with themselves: its defaults are written in them.
    own: HashMap<(usize, usize), usize>,
    least: Least,
    own_least: Least,
}

impl Resolver<'_> {
    fn add(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn set(&mut self, at: usize, node: Node) -> usize {
        if let Some(place) = self.nodes.get_mut(at) {
            *place = node;
        }
        at
    }

    fn pair(&mut self, writer: usize, reader: usize, depth: usize) -> usize {
        if let Some(known) = self.known.get(&(writer, reader)) {
            return *known;
        }
        if depth > DEPTH_MAX || self.nodes.len() > NODES_MAX {
            return self.add(Node::Refuse("the schemas are too deep to be resolved".to_owned()));
        }
        // Known before what is in it: types lead back to themselves.
        let at = self.add(Node::Null);
        self.known.insert((writer, reader), at);
        let node = self.node(writer, reader, depth);
        self.set(at, node)
    }

    fn node(&mut self, writer: usize, reader: usize, depth: usize) -> Node {
        let (from, to) = (self.writer, self.reader);
        if let Shape::Union(branches) = from.shape(writer) {
            return Node::Union(branches.iter().map(|branch| self.pair(*branch, reader, depth + 1)).collect());
        }
        if let Shape::Union(branches) = to.shape(reader) {
            return match pick(from, writer, to, branches) {
                Some((branch, of)) => Node::Branch { branch, node: self.pair(writer, of, depth + 1), writer },
                None => unlike(from, writer, to, reader),
            };
        }
        if let Err(reason) = alike(from, writer, to, reader) {
            return reason.map_or_else(|| unlike(from, writer, to, reader), Node::Refuse);
        }
        match (from.shape(writer), to.shape(reader)) {
            (Shape::Null, _) => Node::Null,
            (Shape::String | Shape::Bytes, _) => Node::Bytes(Length::Prefixed),
            (Shape::Fixed(fixed), _) => Node::Bytes(Length::Fixed(fixed.size)),
            (Shape::Enum(written), Shape::Enum(read)) => Node::Enum(symbols(written, read)),
            (Shape::Array(writer), Shape::Array(reader)) => Node::Array(self.elements(*writer, *reader, depth)),
            (Shape::Map(writer), Shape::Map(reader)) => Node::Map(self.elements(*writer, *reader, depth)),
            (Shape::Record(written), Shape::Record(read)) => self.record(written, read, depth),
            (from, to) => match number(from, to) {
                Some(read) => Node::Number { read, units: self.units(writer, reader) },
                None => unlike(self.writer, writer, self.reader, reader),
            },
        }
    }

    fn units(&self, writer: usize, reader: usize) -> Option<(Unit, Unit)> {
        let unit = |logical: Option<Logical>| match logical {
            Some(Logical::Time(unit) | Logical::Timestamp(unit) | Logical::Local(unit)) => Some(unit),
            _ => None,
        };
        let to = unit(self.reader.at(reader).logical)?;
        Some((unit(self.writer.at(writer).logical).unwrap_or(to), to))
    }

    fn elements(&mut self, writer: usize, reader: usize, depth: usize) -> Elements {
        let node = self.pair(writer, reader, depth + 1);
        Elements { node, writer, least: self.least.bytes(writer) }
    }

    fn record(&mut self, written: &Record, read: &Record, depth: usize) -> Node {
        let named: HashMap<&str, usize> = written.fields.iter().map(|field| field.name.as_str()).zip(0..).collect();
        // By name first: an alias takes none that another field has the name of.
        let mut places: Vec<Option<usize>> =
            read.fields.iter().map(|field| named.get(field.name.as_str()).copied()).collect();
        let mut taken: HashSet<usize> = places.iter().flatten().copied().collect();
        for (field, place) in read.fields.iter().zip(&mut places).filter(|(_, place)| place.is_none()) {
            let mut former = field.aliases.iter().filter_map(|alias| named.get(alias.as_str()).copied());
            *place = former.find(|former| taken.insert(*former));
        }
        // Then by what the writer's had before: its schema may be the newer one.
        for (field, place) in read.fields.iter().zip(&mut places).filter(|(_, place)| place.is_none()) {
            let was = |(_, written): &(usize, &Field)| written.aliases.contains(&field.name);
            let mut renamed = written.fields.iter().enumerate().filter(was).map(|(index, _)| index);
            *place = renamed.find(|renamed| taken.insert(*renamed));
        }
        if places.contains(&None) && taken.len() < written.fields.len() {
            let theirs = Spelled::of(self.case, written.fields.iter().map(|field| field.name.as_str()));
            let ours = Spelled::of(self.case, read.fields.iter().map(|field| field.name.as_str()));
            for (field, place) in read.fields.iter().zip(&mut places).filter(|(_, place)| place.is_none()) {
                let found = ours.find(&field.name).and_then(|_| theirs.find(&field.name));
                *place = found.filter(|found| taken.insert(*found));
            }
        }
        let readers: HashMap<usize, usize> =
            places.iter().enumerate().filter_map(|(reader, place)| Some(((*place)?, reader))).collect();
        let mut steps = Vec::with_capacity(written.fields.len());
        for (index, field) in written.fields.iter().enumerate() {
            let to = readers.get(&index).copied();
            let known = to.and_then(|to| Some((to, read.fields.get(to)?)));
            let name = known.map_or(&field.name, |(_, known)| &known.name).clone();
            let to = known.map(|(to, known)| (to, self.pair(field.of, known.of, depth + 1)));
            steps.push(Step { name, writer: field.of, to });
        }
        let mut missing = Vec::new();
        for (index, field) in read.fields.iter().enumerate().filter(|(index, _)| places.get(*index) == Some(&None)) {
            let value = match &field.default {
                Some(Ok(bytes)) => Ok((bytes.clone(), self.own(field, depth))),
                Some(Err(reason)) => Err(format!("the writer has no such field, and its default is none: {reason}")),
                None => Err("the writer has no such field, and it has no default".to_owned()),
            };
            missing.push(Missing { field: index, value });
        }
        Node::Record { steps, missing }
    }

    /// The node of a reader's type as the reader writes it.
    fn own(&mut self, field: &Field, depth: usize) -> usize {
        // The same nodes, resolved with the reader on both sides.
        let mut inner = Resolver {
            writer: self.reader,
            reader: self.reader,
            case: ColumnCase::AsIs,
            nodes: std::mem::take(&mut self.nodes),
            known: std::mem::take(&mut self.own),
            own: HashMap::new(),
            least: self.own_least.clone(),
            own_least: self.own_least.clone(),
        };
        let node = inner.pair(field.of, field.of, depth + 1);
        (self.nodes, self.own) = (inner.nodes, inner.known);
        node
    }
}

/// The branch of a reader's union that a writer's type is read as.
fn pick(from: &Schema, writer: usize, to: &Schema, branches: &[usize]) -> Option<(usize, usize)> {
    let candidates = || branches.iter().copied().enumerate();
    let fits = |of: usize| alike(from, writer, to, of).is_ok();
    let same = |of: usize| std::mem::discriminant(from.shape(writer)) == std::mem::discriminant(to.shape(of));
    let meant = |of: usize| from.at(writer).logical == to.at(of).logical;
    let named = |of: usize| from.type_name(writer) == to.type_name(of);
    candidates()
        .find(|(_, of)| same(*of) && named(*of) && meant(*of) && fits(*of))
        .or_else(|| candidates().find(|(_, of)| same(*of) && named(*of) && fits(*of)))
        .or_else(|| candidates().find(|(_, of)| same(*of) && fits(*of)))
        .or_else(|| candidates().find(|(_, of)| fits(*of)))
}

/// Whether values of the one type may be values of the other, which is no union either; a reason where that needs one.
fn alike(from: &Schema, writer: usize, to: &Schema, reader: usize) -> Result<(), Option<String>> {
    let (w, r) = (from.at(writer), to.at(reader));
    let is_decimal = |logical: Option<Logical>| matches!(logical, Some(Logical::Decimal { .. }));
    let decimals = is_decimal(w.logical) && is_decimal(r.logical);
    let same = |written: &Name, read: &Name| {
        let is = |one: &str, other: &str| unqualified(one) == unqualified(other);
        let mut aliases = read.aliases.iter().map(|alias| (alias.as_str(), written.full.as_str()));
        let mut former = written.aliases.iter().map(|alias| (alias.as_str(), read.full.as_str()));
        if is(&read.full, &written.full) || aliases.any(|(a, b)| is(a, b)) || former.any(|(a, b)| is(a, b)) {
            return Ok(());
        }
        Err(Some(format!("the writer's `{}` is not the reader's `{}`", written.full, read.full)))
    };
    match (&w.shape, &r.shape) {
        (Shape::Null, Shape::Null) | (Shape::Array(_), Shape::Array(_)) | (Shape::Map(_), Shape::Map(_)) => {}
        (Shape::String | Shape::Bytes, Shape::String | Shape::Bytes) => {}
        (Shape::Record(Record { name: written, .. }), Shape::Record(Record { name: read, .. }))
        | (Shape::Enum(Enum { name: written, .. }), Shape::Enum(Enum { name: read, .. })) => same(written, read)?,
        // Numbers of one precision and scale are the same however long they are written.
        (Shape::Bytes | Shape::Fixed(_), Shape::Bytes | Shape::Fixed(_)) if decimals => {}
        (Shape::Fixed(written), Shape::Fixed(read)) => {
            same(&written.name, &read.name)?;
            if written.size != read.size {
                let Fixed { name, size } = written;
                return Err(Some(format!(
                    "`{}` has {size} bytes with the writer, {} with the reader",
                    name.full, read.size
                )));
            }
        }
        (from, to) if number(from, to).is_some() => {}
        _ => return Err(None),
    }
    meaning(w.logical, r.logical).map_err(Some)
}

/// Whether what values mean to the writer is what they mean to the reader.
fn meaning(writer: Option<Logical>, reader: Option<Logical>) -> Result<(), String> {
    use Logical::{Decimal, Local, Time, Timestamp};
    match (writer, reader) {
        (None, _) | (_, None) | (Some(Time(_)), Some(Time(_))) => Ok(()),
        (Some(Timestamp(_)), Some(Timestamp(_))) | (Some(Local(_)), Some(Local(_))) => Ok(()),
        (Some(Decimal { precision, scale }), Some(Decimal { precision: wide, scale: same })) => {
            if scale == same && precision <= wide {
                return Ok(());
            }
            Err(format!("the writer's decimal({precision}, {scale}) is not the reader's decimal({wide}, {same})"))
        }
        (Some(one), Some(other)) if one == other => Ok(()),
        (Some(one), Some(other)) => {
            Err(format!("the writer's {} is not the reader's {}", meaning_name(one), meaning_name(other)))
        }
    }
}

const fn meaning_name(logical: Logical) -> &'static str {
    match logical {
        Logical::Decimal { .. } => "decimal",
        Logical::Uuid => "uuid",
        Logical::Date => "date",
        Logical::Time(_) => "time",
        Logical::Timestamp(_) => "timestamp",
        Logical::Local(_) => "local timestamp",
        Logical::Duration => "duration",
    }
}

fn unlike(from: &Schema, writer: usize, to: &Schema, reader: usize) -> Node {
    let union = |schema: &Schema, id: usize| match schema.shape(id) {
        Shape::Union(branches) => {
            let names: Vec<&str> = branches.iter().map(|branch| schema.type_name(*branch)).collect();
            format!("one of {}", names.join(", "))
        }
        _ => schema.type_name(id).to_owned(),
    };
    Node::Refuse(format!("the writer's {} can't be read as {}", union(from, writer), union(to, reader)))
}

/// How numbers of one type are read as those of the other.
const fn number(from: &Shape, to: &Shape) -> Option<Read> {
    Some(match (from, to) {
        (Shape::Boolean, Shape::Boolean) => Read::Boolean,
        (Shape::Int, Shape::Int | Shape::Long) => Read::Int,
        (Shape::Int, Shape::Float) => Read::IntToFloat,
        (Shape::Int, Shape::Double) => Read::IntToDouble,
        (Shape::Long, Shape::Long) => Read::Long,
        (Shape::Long, Shape::Float) => Read::LongToFloat,
        (Shape::Long, Shape::Double) => Read::LongToDouble,
        (Shape::Float, Shape::Float) => Read::Float,
        (Shape::Float, Shape::Double) => Read::FloatToDouble,
        (Shape::Double, Shape::Double) => Read::Double,
        _ => return None,
    })
}

fn symbols(written: &Enum, read: &Enum) -> Vec<Result<usize, String>> {
    let places: HashMap<&str, usize> = read.symbols.iter().map(String::as_str).zip(0..).collect();
    let unknown = |symbol: &str| {
        format!("the symbol `{symbol}` is none of the reader's `{}`, which has no default", read.name.full)
    };
    let known = |symbol: &String| places.get(symbol.as_str()).copied().or(read.default);
    written.symbols.iter().map(|symbol| known(symbol).ok_or_else(|| unknown(symbol))).collect()
}

/// How many bytes a value of each type takes at least.
#[derive(Clone)]
pub(super) struct Least(Vec<usize>);

impl Least {
    pub(super) fn of(schema: &Schema) -> Self {
        let mut least = vec![None; schema.types.len()];
        for id in 0..schema.types.len() {
            Self::find(schema, id, &mut least, 0);
        }
        Self(least.into_iter().map(Option::unwrap_or_default).collect())
    }

    pub(super) fn bytes(&self, id: usize) -> usize {
        self.0.get(id).copied().unwrap_or_default()
    }

    fn find(schema: &Schema, id: usize, least: &mut [Option<usize>], depth: usize) -> usize {
        if let Some(Some(found)) = least.get(id) {
            return *found;
        }
        // Nothing at least while it is being asked for: a type that leads to itself is met here.
        if depth > DEPTH_MAX {
            return 0;
        }
        if let Some(place) = least.get_mut(id) {
            *place = Some(0);
        }
        let found = match schema.shape(id) {
            Shape::Null => 0,
            Shape::Float => 4,
            Shape::Double => 8,
            Shape::Fixed(fixed) => fixed.size,
            Shape::Record(record) => {
                let fields = record.fields.iter().map(|field| Self::find(schema, field.of, least, depth + 1));
                fields.fold(0, usize::saturating_add)
            }
            Shape::Union(branches) => {
                let branches = branches.iter().map(|branch| Self::find(schema, *branch, least, depth + 1));
                branches.min().unwrap_or(0).saturating_add(1)
            }
            _ => 1,
        };
        if let Some(place) = least.get_mut(id) {
            *place = Some(found);
        }
        found
    }
}

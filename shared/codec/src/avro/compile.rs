//! From a writer's schema, a reader's and columns to a [`Program`].

use std::collections::HashMap;
use std::sync::Arc;

use pipeline::resolved::UnknownFields;

use super::place::{self, Placed, Target};
use super::program::{Digits, Field, Foreign, Op, Program, Side, Store, Symbols};
use super::resolve::{Elements, Least, Missing, Node, Read, Resolution, Step};
use super::schema::{Logical, Schema, Shape, Unit};
use super::single::Number;
use super::view::{self, View};
use crate::columns::{Columns, Withheld, Within};
use crate::pii::Hasher;
use crate::rows::batch::Plan;
use crate::rows::names::Names;
use crate::rows::scale::Scale;
use crate::source::Described as _;

/// Why a field that the reader does not know rejects a record.
pub(super) const UNKNOWN: &str = "it is not in the schema";

/// More operations than this are not compiled: unions of records with unions multiply.
const OPS_MAX: usize = 1 << 20;

/// Compiles the columns that come from the payload.
///
/// # Errors
/// Every column that the reader's records can't fill: its index, and why.
pub(super) fn compile(
    writer: &Schema,
    reader: &Schema,
    columns: &Columns,
    hasher: &Arc<Hasher>,
) -> Result<(Program, Plan), Vec<(usize, String)>> {
    let places = place::places(reader, columns, hasher)?;
    let resolution = Resolution::of(writer, reader, columns.column_case);
    let withheld = match columns.withheld.is_empty() {
        true => Withheld::default(),
        false => columns.withheld.clone().learned(&[&reader.describe(), &writer.describe()]),
    };
    let mut compiler = Compiler {
        writer,
        reader,
        resolution: &resolution,
        unknown: columns.unknown_fields,
        withheld: &withheld,
        foreign: Vec::new(),
        paths: HashMap::new(),
        ops: 0,
    };
    let around = Around { path: String::new(), several: false, kept: true, own: false, withheld: withheld.start() };
    let root = compiler.each(resolution.root, reader.root, &places.root, writer.root, &around);
    let foreign = compiler.foreign;
    let program = Program {
        root,
        writer: Side { least: Least::of(writer), schema: writer.clone() },
        reader: Side { least: Least::of(reader), schema: reader.clone() },
        resolution,
        strict: columns.unknown_fields == UnknownFields::DeadLetter,
        foreign,
        rest: places.plan.rest,
    };
    Ok((program, places.plan))
}

struct Compiler<'a> {
    writer: &'a Schema,
    reader: &'a Schema,
    resolution: &'a Resolution,
    unknown: UnknownFields,
    withheld: &'a Withheld,
    foreign: Vec<Foreign>,
    /// The first place of each path among them.
    paths: HashMap<String, usize>,
    ops: usize,
}

/// What is around a value, for those that the reader does not know.
#[derive(Clone)]
struct Around {
    path: String,
    /// Whether it is in a list or map.
    several: bool,
    /// Whether it is the first time that these bytes are read.
    kept: bool,
    /// Whether it is a default, which is of the reader's types on both sides.
    own: bool,
    /// How far it leads to what is withheld.
    withheld: Within,
}

impl Around {
    fn within(&self, name: &str, withheld: &Withheld) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Self { path, withheld: withheld.enter(&self.withheld, name), ..*self }
    }

    const fn skip(&self, of: usize) -> Op {
        if self.own { Op::SkipOwn(of) } else { Op::Skip(of) }
    }

    fn repeated(&self) -> Self {
        Self { several: true, ..self.clone() }
    }
}

impl Compiler<'_> {
    /// A value that goes to several places, to one, or to none.
    fn each(&mut self, node: usize, of: usize, placed: &[Placed], writer: usize, around: &Around) -> Op {
        match placed {
            [] => around.skip(writer),
            [placed] => self.one(node, of, placed, around),
            _ => {
                let again = Around { kept: false, ..around.clone() };
                let ops = placed
                    .iter()
                    .enumerate()
                    .map(|(index, placed)| self.one(node, of, placed, if index == 0 { around } else { &again }));
                Op::Each(ops.collect())
            }
        }
    }

    fn one(&mut self, node: usize, of: usize, placed: &Placed, around: &Around) -> Op {
        self.ops += 1;
        if self.ops > OPS_MAX {
            return Op::Refuse("the schemas are too large to be resolved".into());
        }
        let resolution = self.resolution;
        match resolution.node(node) {
            Node::Refuse(reason) => Op::Refuse(reason.as_str().into()),
            Node::Null => Op::Nothing,
            Node::Union(branches) => {
                Op::Union(branches.iter().map(|branch| self.one(*branch, of, placed, around)).collect())
            }
            Node::Branch { branch, node, writer } => self.branch(*branch, *node, *writer, of, placed, around),
            _ => self.value(node, of, placed, around),
        }
    }

    /// A value of a branch of the reader's union.
    fn branch(&mut self, branch: usize, node: usize, writer: usize, of: usize, placed: &Placed, around: &Around) -> Op {
        let Shape::Union(branches) = self.reader.shape(of) else { return Op::Nothing };
        let id = branches.get(branch).copied().unwrap_or_default();
        if view::is_null(self.reader, id) {
            return match placed.target {
                Target::Members(_) if of == self.reader.root => Op::Refuse("the payload is null, and no record".into()),
                _ => Op::Nothing,
            };
        }
        if let (_, View::One(_)) = view::of(self.reader, of) {
            return self.one(node, id, placed, around);
        }
        match &placed.target {
            Target::Members(members) => {
                let name = view::branch_name(self.reader, branches, branch);
                let within = around.within(name, self.withheld);
                let op = match members.get(&branch) {
                    Some(members) => self.each(node, id, members, writer, &within),
                    None => around.skip(writer),
                };
                Op::Record { fields: Box::new([Field { name: name.into(), op }]), present: placed.present }
            }
            Target::Json { text } => Op::Json { node, of: id, text: *text, present: placed.present },
            _ => misplaced(),
        }
    }

    /// A value that is there.
    fn value(&mut self, node: usize, of: usize, placed: &Placed, around: &Around) -> Op {
        let present = placed.present;
        let resolution = self.resolution;
        match (resolution.node(node), &placed.target) {
            (_, Target::Json { text }) => Op::Json { node, of, text: *text, present },
            (Node::Number { read, units }, Target::Number { to, slot }) => {
                Op::Number { read: *read, store: store(*to, *units), slot: *slot, present }
            }
            (Node::Bytes(length), target) => match (target, self.reader.at(of).logical) {
                (Target::Text { text, utf8 }, _) => Op::Text { length: *length, text: *text, utf8: *utf8, present },
                (Target::Uuid { text }, _) => Op::Uuid { text: *text, present },
                (Target::UuidText { text }, _) => Op::UuidText { text: *text, present },
                (Target::Decimal { slot, precision, scale }, Some(Logical::Decimal { scale: own, .. })) => {
                    let to = Digits {
                        slot: *slot,
                        is_text: false,
                        max: 10_i128.pow(u32::from(*precision)) - 1,
                        scale: own,
                        factor: 10_i128.pow(u32::from(*scale).saturating_sub(own as u32)),
                    };
                    Op::Decimal { length: *length, to: Box::new(to), present }
                }
                (Target::DecimalText { text }, Some(Logical::Decimal { precision, scale })) => {
                    // Precisions above 38 have no text column.
                    let max = 10_i128.pow(precision.min(38) as u32) - 1;
                    let to = Digits { slot: *text, is_text: true, max, scale, factor: 1 };
                    Op::Decimal { length: *length, to: Box::new(to), present }
                }
                (Target::Members(members), Some(Logical::Duration)) => {
                    let part = |index: usize| {
                        let op = match members.get(&index).map(Vec::as_slice) {
                            None | Some([]) => Op::Pass(4),
                            Some([placed]) => part(placed),
                            Some(several) => Op::Each(several.iter().map(part).collect()),
                        };
                        Field { name: super::describe::DURATION.get(index).copied().unwrap_or_default().into(), op }
                    };
                    Op::Record { fields: Box::new([part(0), part(1), part(2)]), present }
                }
                _ => misplaced(),
            },
            (Node::Enum(written), Target::Text { text, .. }) => {
                let Shape::Enum(known) = self.reader.shape(of) else { return misplaced() };
                let name = |symbol: &usize| known.symbols.get(*symbol).map_or("", String::as_str);
                let named =
                    written.iter().zip(0_i32..).filter_map(|(to, number)| Some((number, name(to.as_ref().ok()?))));
                let refused = written.iter().zip(0_u64..).filter_map(|(to, number)| Some((number, to.clone().err()?)));
                let symbols = Symbols { names: Names::new(named), refused: refused.collect() };
                Op::Symbol { symbols: Box::new(symbols), text: *text, present }
            }
            (Node::Record { steps, .. }, Target::Flag { bit }) => {
                let fields =
                    steps.iter().map(|step| Field { name: step.name.as_str().into(), op: self.skip(step, around) });
                let there = Op::Record { fields: fields.collect(), present: Some(*bit) };
                match present {
                    None => there,
                    present => Op::Record { fields: Box::new([Field { name: "".into(), op: there }]), present },
                }
            }
            (Node::Record { steps, missing }, Target::Members(members)) => {
                let Shape::Record(record) = self.reader.shape(of) else { return misplaced() };
                let mut fields = Vec::with_capacity(steps.len());
                for step in steps {
                    let placed = step.to.and_then(|(field, node)| Some((record.fields.get(field)?, field, node)));
                    let op = match placed {
                        Some((known, field, node)) => {
                            let placed = members.get(&field).map_or(&[][..], Vec::as_slice);
                            self.each(node, known.of, placed, step.writer, &around.within(&step.name, self.withheld))
                        }
                        None => self.skip(step, around),
                    };
                    fields.push(Field { name: step.name.as_str().into(), op });
                }
                for Missing { field, value } in missing {
                    let (Some(placed), Some(known)) = (members.get(field), record.fields.get(*field)) else { continue };
                    let op = match value {
                        Ok((bytes, node)) => {
                            let inner = Around { kept: false, own: true, ..around.clone() };
                            let op = Box::new(self.each(*node, known.of, placed, known.of, &inner));
                            Op::Default { bytes: bytes.as_slice().into(), op }
                        }
                        Err(reason) => Op::Refuse(reason.as_str().into()),
                    };
                    fields.push(Field { name: known.name.as_str().into(), op });
                }
                Op::Record { fields: fields.into(), present }
            }
            (Node::Array(Elements { node, writer, least }), Target::List { list, element }) => {
                let Shape::Array(items) = self.reader.shape(of) else { return misplaced() };
                let element = Box::new(self.each(*node, *items, element, *writer, &around.repeated()));
                Op::List { list: *list, element, least: *least, present }
            }
            (Node::Map(Elements { node, writer, least }), Target::Map { list, value }) => {
                let Shape::Map(values) = self.reader.shape(of) else { return misplaced() };
                let inside = Around { withheld: self.withheld.enter(&around.withheld, "value"), ..around.repeated() };
                let value = Box::new(self.each(*node, *values, value, *writer, &inside));
                // A key takes a byte at least.
                Op::Map { list: *list, value, least: least.saturating_add(1), present }
            }
            _ => misplaced(),
        }
    }

    /// A field that the reader does not know.
    fn skip(&mut self, step: &Step, around: &Around) -> Op {
        match self.unknown {
            UnknownFields::DeadLetter => Op::Refuse(UNKNOWN.into()),
            UnknownFields::Rest if around.kept && !self.withheld.holds(&around.withheld, &step.name) => {
                let path = around.within(&step.name, self.withheld).path;
                let first = *self.paths.entry(path.clone()).or_insert(self.foreign.len());
                let resolution = Resolution::itself(self.writer, step.writer);
                self.foreign.push(Foreign { path, first, several: around.several, resolution, of: step.writer });
                Op::Keep(self.foreign.len() - 1)
            }
            _ if around.own => Op::SkipOwn(step.writer),
            _ => Op::Ignore(step.writer),
        }
    }
}

/// A part of a duration.
fn part(placed: &Placed) -> Op {
    match placed.target {
        Target::Number { to, slot } => {
            Op::Number { read: Read::Unsigned32, store: store(to, None), slot, present: placed.present }
        }
        _ => misplaced(),
    }
}

/// Places are made of the same types that values are resolved to.
fn misplaced() -> Op {
    Op::Refuse("its column was made for another type".into())
}

/// How a number of these units (the writer's, the reader's) is kept.
fn store(to: Number, units: Option<(Unit, Unit)>) -> Store {
    let to_micros = units.map_or(Scale::Same, |(from, _)| scale(from, Unit::Micros));
    match to {
        Number::Word4 => Store::Word4,
        Number::Word8 => match units.map_or(Scale::Same, |(from, to)| scale(from, to)) {
            Scale::Same => Store::Word8,
            other => Store::Scaled(other),
        },
        Number::Word16 => Store::Word16,
        Number::Bit => Store::Bit,
        Number::IntToDouble => Store::IntToDouble,
        Number::FloatToDouble => Store::FloatToDouble,
        Number::SignedText => Store::SignedText,
        Number::BoolText => Store::BoolText,
        Number::Micros => match to_micros {
            Scale::Same => Store::Word8,
            other => Store::Scaled(other),
        },
        Number::Counted(unit) => match Scale::between(unit.per_second(), per_second(Unit::Micros)) {
            Scale::Same => Store::Word8,
            other => Store::Scaled(other),
        },
        Number::OfDay => Store::OfDay(to_micros),
        Number::OfDayText => Store::OfDayText(to_micros),
        Number::DateText => Store::DateText,
        Number::MomentText { zone } => {
            Store::Moment { per_second: units.map_or(1_000_000, |(from, _)| per_second(from)), zone }
        }
    }
}

pub(super) const fn scale(from: Unit, to: Unit) -> Scale {
    Scale::between(per_second(from), per_second(to))
}

pub(super) const fn per_second(unit: Unit) -> i64 {
    match unit {
        Unit::Millis => 1_000,
        Unit::Micros => 1_000_000,
        Unit::Nanos => 1_000_000_000,
    }
}

//! Which branch of a union a value is.
//!
//! A branch can be named, as in Avro's JSON encoding: `{"branch": value}`. Else it is the one that the value fits, and of several
//! the one that spells it so in our rows and in JSON itself. Where that are several still, nothing is guessed: readers would get
//! another value than was meant.

use apache_avro::schema::Schema;
use apache_avro::types::Value as Avro;
use codec::json::Json;

use super::{Logical, Making};
use crate::encoding::{Misfit, float_word, integer, wrong};

/// How well a branch spells a value: the less the better.
type Rank = u8;

/// No value of this kind is one of the branch.
const FOREIGN: Rank = 9;

/// Branches that are tried for each part of a value at most. Branches in branches multiply.
const TRIES_OF_EACH: u64 = 1000;

/// How many branches may be tried for a value.
pub(super) fn tries(value: &Json) -> u64 {
    let mut parts = 0_u64;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        parts += 1;
        match value {
            Json::Array(elements) => open.extend(elements),
            Json::Object(members) => open.extend(members.iter().map(|(_, value)| value)),
            _ => {}
        }
    }
    parts.saturating_mul(TRIES_OF_EACH)
}

impl<'a> Making<'a> {
    pub(super) fn union(
        &self,
        branches: &[Schema],
        value: &Json,
        namespace: Option<&str>,
        depth: usize,
    ) -> Result<Avro, Misfit> {
        let made = |place: usize, made: Avro| {
            let place = u32::try_from(place).map_err(|_| Misfit::new("its union is too long"))?;
            Ok(Avro::Union(place, Box::new(made)))
        };
        if let ([(name, inner)], false) = (value.members(), self.is_default)
            && let Some(place) = branches.iter().position(|branch| called(branch, namespace) == *name)
            && let Some(branch) = branches.get(place)
        {
            return made(place, self.value(branch, inner, namespace, depth).map_err(|misfit| misfit.within(name))?);
        }
        let mut fitting: Vec<(Rank, usize, Avro)> = Vec::new();
        let mut unfit: Option<(Rank, Misfit)> = None;
        for (place, branch) in branches.iter().enumerate() {
            let Some(left) = self.left.get().checked_sub(1) else {
                return Err(Misfit::ambiguous(
                    "too many types would have to be tried for it: name those of unions, {\"type\": value}",
                ));
            };
            self.left.set(left);
            let rank = self.rank(branch, value, namespace);
            match self.value(branch, value, namespace, depth) {
                Ok(found) if self.is_default => return made(place, found),
                Ok(found) => fitting.push((rank, place, found)),
                // It might be this one, and another one that fits would be taken for it.
                Err(misfit) if misfit.is_ambiguous => return Err(misfit),
                // Of the branches that hold anything the nearest one says what is wrong.
                Err(misfit) if !matches!(branch, Schema::Null) => {
                    if unfit.as_ref().is_none_or(|(least, _)| rank < *least) {
                        unfit = Some((rank, misfit));
                    }
                }
                Err(_) => {}
            }
        }
        let least = fitting.iter().map(|(rank, ..)| *rank).min();
        fitting.retain(|(rank, ..)| Some(*rank) == least);
        match same(&fitting) {
            Some(same) => fitting.swap(0, same),
            None if fitting.len() > 1 => {
                let names: Vec<String> =
                    fitting.iter().filter_map(|(_, place, _)| Some(called(branches.get(*place)?, namespace))).collect();
                let first = names.first().map_or("", String::as_str);
                return Err(Misfit::ambiguous(format!(
                    "it may be {}: say which, as in {{\"{first}\": value}}",
                    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
                )));
            }
            None => {}
        }
        match fitting.into_iter().next() {
            Some((_, place, found)) => made(place, found),
            None => Err(unfit.map_or_else(|| wrong("null", value), |(_, misfit)| misfit)),
        }
    }

    /// How well a branch spells a value.
    fn rank(&self, branch: &Schema, value: &Json, namespace: Option<&str>) -> Rank {
        let named = match branch {
            Schema::Ref { name } => self.named(name, namespace).ok(),
            _ => None,
        };
        let branch = named.unwrap_or(branch);
        let is_decimal = match branch {
            Schema::Decimal(_) => true,
            Schema::Fixed(fixed) => matches!(Logical::of(fixed), Some(Logical::Decimal { .. })),
            _ => false,
        };
        match (value, branch) {
            (Json::Null, Schema::Null)
            | (Json::Boolean(_), Schema::Boolean)
            | (Json::Array(_), Schema::Array(_))
            | (Json::Object(_), Schema::Map(_) | Schema::Record(_) | Schema::Fixed(_)) => 0,
            (Json::Number(digits), branch) => {
                let is_whole = !digits.contains(['.', 'e', 'E']);
                match branch {
                    Schema::Int | Schema::Long => {
                        if is_whole {
                            0
                        } else {
                            3
                        }
                    }
                    Schema::Float | Schema::Double => 1,
                    _ if is_decimal => 2,
                    branch if is_time(branch) => 4,
                    _ => FOREIGN,
                }
            }
            (Json::Text(_), Schema::String | Schema::Enum(_) | Schema::Uuid | Schema::Bytes | Schema::Fixed(_)) => 0,
            (Json::Text(_), _) if is_decimal => 0,
            (Json::Text(text), Schema::Float | Schema::Double) => {
                if float_word(text).is_some() {
                    0
                } else {
                    1
                }
            }
            // Numbers as text are for those who can write no others.
            (Json::Text(_), Schema::Int | Schema::Long) => 1,
            (Json::Text(_), branch) if is_time(branch) => {
                if integer(value).is_ok() {
                    1
                } else {
                    0
                }
            }
            _ => FOREIGN,
        }
    }

    /// Schemas with what they refer to in the place of references, and branches in that of unions; and how those are called.
    pub(super) fn opened<'s>(
        &self,
        schemas: Vec<(&'s Schema, Option<&'s str>)>,
    ) -> (Vec<String>, Vec<(&'s Schema, Option<&'s str>)>)
    where
        'a: 's,
    {
        let (mut names, mut opened) = (Vec::new(), Vec::new());
        let mut open = schemas;
        open.reverse();
        while let Some((schema, namespace)) = open.pop() {
            match schema {
                Schema::Union(union) => {
                    names.extend(union.variants().iter().map(|branch| called(branch, namespace)));
                    open.extend(union.variants().iter().rev().map(|branch| (branch, namespace)));
                }
                Schema::Ref { name } => opened.extend(self.named(name, namespace).ok().map(|of| (of, namespace))),
                schema => opened.push((schema, namespace)),
            }
        }
        (names, opened)
    }
}

/// Of branches that all hold the same number, the first that holds all of it; none where they are something else, or one.
fn same(fitting: &[(Rank, usize, Avro)]) -> Option<usize> {
    let all = |is: fn(&Avro) -> bool| fitting.iter().all(|(.., made)| is(made));
    if all(|made| matches!(made, Avro::Int(_) | Avro::Long(_))) {
        return (!fitting.is_empty()).then_some(0);
    }
    if !all(|made| matches!(made, Avro::Float(_) | Avro::Double(_))) {
        return None;
    }
    let double = fitting.iter().find_map(|(.., made)| if let Avro::Double(n) = made { Some(*n) } else { None })?;
    fitting.iter().position(|(.., made)| match made {
        Avro::Float(n) => f64::from(*n).to_bits() == double.to_bits(),
        _ => true,
    })
}

/// Whether it counts from an epoch or from midnight.
const fn is_time(branch: &Schema) -> bool {
    matches!(
        branch,
        Schema::Date
            | Schema::TimeMillis
            | Schema::TimeMicros
            | Schema::TimestampMillis
            | Schema::TimestampMicros
            | Schema::TimestampNanos
            | Schema::LocalTimestampMillis
            | Schema::LocalTimestampMicros
            | Schema::LocalTimestampNanos
    )
}

/// What Avro's JSON encoding calls a branch. `namespace` is that of the record around it.
fn called(branch: &Schema, namespace: Option<&str>) -> String {
    let full = match branch {
        Schema::Record(record) => &record.name,
        Schema::Enum(symbols) => &symbols.name,
        Schema::Fixed(fixed) => &fixed.name,
        Schema::Ref { name } => name,
        branch => return primitive(branch).to_owned(),
    };
    let namespace = full.namespace.as_deref().or(namespace);
    namespace.map_or_else(|| full.name.clone(), |namespace| format!("{namespace}.{}", full.name))
}

/// The name of what has none of its own: that of the type below a logical type.
const fn primitive(branch: &Schema) -> &'static str {
    match branch {
        Schema::Null => "null",
        Schema::Boolean => "boolean",
        Schema::Int | Schema::Date | Schema::TimeMillis => "int",
        Schema::Long
        | Schema::TimeMicros
        | Schema::TimestampMillis
        | Schema::TimestampMicros
        | Schema::TimestampNanos
        | Schema::LocalTimestampMillis
        | Schema::LocalTimestampMicros
        | Schema::LocalTimestampNanos => "long",
        Schema::Float => "float",
        Schema::Double => "double",
        Schema::String | Schema::Uuid => "string",
        Schema::Bytes | Schema::Decimal(_) | Schema::BigDecimal => "bytes",
        Schema::Array(_) => "array",
        Schema::Map(_) => "map",
        Schema::Union(_) => "union",
        Schema::Record(_) | Schema::Enum(_) | Schema::Fixed(_) | Schema::Duration | Schema::Ref { .. } => "",
    }
}

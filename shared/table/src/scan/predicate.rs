//! What a reader looks for: enough of a predicate to leave out files and row groups, no more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use iceberg::spec::{Datum, PrimitiveLiteral, PrimitiveType, Schema, Transform};

use crate::fault::Fault;
use crate::schema::{Position, position};
use crate::transform;

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// A predicate over columns, as SQL means it: a comparison with a null is not true.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// Every row.
    All,
    /// A column compared with a value of its type (an int may stand for a long, a float for a double).
    Compare {
        /// The column; a dotted path for a field of a struct.
        column: String,
        /// The comparison.
        comparison: Comparison,
        /// The value.
        value: Datum,
    },
    /// A column whose value lies in one of the ranges: both ends included, in order and apart.
    Within {
        /// The column; a dotted path for a field of a struct.
        column: String,
        /// (First, last) of each range, of the column's type.
        ranges: Vec<(Datum, Datum)>,
    },
    /// A column that is null.
    IsNull(String),
    /// A column that is not null.
    IsNotNull(String),
    /// All of them.
    And(Vec<Predicate>),
    /// Any of them.
    Or(Vec<Predicate>),
}

/// A predicate whose columns have been found.
#[derive(Clone, Debug)]
pub(super) enum Bound {
    All,
    Test { field_id: i32, data_type: PrimitiveType, test: Test },
    And(Vec<Bound>),
    Or(Vec<Bound>),
}

/// What is asked of one column.
#[derive(Clone, Debug)]
pub(super) enum Test {
    Compare(Comparison, PrimitiveLiteral),
    Within(Arc<Ranges>),
    IsNull,
    IsNotNull,
}

/// (First, last).
pub(super) type Ends = (PrimitiveLiteral, PrimitiveLiteral);

/// Ranges of values, in order and apart.
#[derive(Debug)]
pub(super) struct Ranges {
    pub(super) all: Vec<Ends>,
    /// The same in buckets, by how many buckets there are; nothing where a range is more than one value.
    buckets: Mutex<BTreeMap<u32, Option<Arc<[Ends]>>>>,
}

impl Ranges {
    fn new(all: Vec<Ends>) -> Self {
        Self { all, buckets: Mutex::default() }
    }

    /// The buckets that single values of a type fall into.
    pub(super) fn buckets(&self, number: u32, source: &PrimitiveType) -> Option<Arc<[Ends]>> {
        let mut known = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let worked_out = || {
            let mut buckets = BTreeSet::new();
            for (first, last) in &self.all {
                match transform::value(Transform::Bucket(number), source, Some(first)) {
                    Ok(Some(PrimitiveLiteral::Int(bucket))) if first == last => drop(buckets.insert(bucket)),
                    _ => return None,
                }
            }
            let one = |bucket| (PrimitiveLiteral::Int(bucket), PrimitiveLiteral::Int(bucket));
            Some(buckets.into_iter().map(one).collect())
        };
        known.entry(number).or_insert_with(worked_out).clone()
    }
}

/// Predicates nest at most this deep; deeper ones are refused rather than recursed into.
const DEPTH_MAX: usize = 64;

impl Predicate {
    /// Finds the columns in a schema.
    pub(super) fn bind(&self, schema: &Schema) -> Result<Bound, Fault> {
        self.bind_at(schema, 0)
    }

    fn bind_at(&self, schema: &Schema, depth: usize) -> Result<Bound, Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::Request(format!("a predicate nests at most {DEPTH_MAX} deep")));
        }
        let test = |column: &str, test: &dyn Fn(&PrimitiveType) -> Result<Test, Fault>| {
            let id = schema
                .field_id_by_name(column)
                .ok_or_else(|| Fault::Request(format!("there is no column `{column}`")))?;
            let Position { data_type, .. } = position(schema, id)?;
            Ok(Bound::Test { field_id: id, test: test(&data_type)?, data_type })
        };
        let all = |predicates: &[Self]| {
            predicates.iter().map(|predicate| predicate.bind_at(schema, depth + 1)).collect::<Result<Vec<_>, _>>()
        };
        match self {
            Self::All => Ok(Bound::All),
            Self::IsNull(column) => test(column, &|_| Ok(Test::IsNull)),
            Self::IsNotNull(column) => test(column, &|_| Ok(Test::IsNotNull)),
            Self::Compare { column, comparison, value } => test(column, &|data_type| {
                let literal = converted(value, data_type).ok_or_else(|| {
                    Fault::Request(format!("`{column}` is a {data_type}; {value} is a {}", value.data_type()))
                })?;
                Ok(Test::Compare(*comparison, literal))
            }),
            Self::Within { column, ranges } => test(column, &|data_type| {
                let ranges = ranges.iter().map(|(first, last)| {
                    let ends = converted(first, data_type).zip(converted(last, data_type));
                    ends.ok_or_else(|| {
                        Fault::Request(format!("`{column}` is a {data_type}; {first} is a {}", first.data_type()))
                    })
                });
                Ok(Test::Within(Arc::new(Ranges::new(ranges.collect::<Result<_, _>>()?))))
            }),
            Self::And(predicates) => Ok(Bound::And(all(predicates)?)),
            Self::Or(predicates) => Ok(Bound::Or(all(predicates)?)),
        }
    }
}

/// The value as one of the column's type, where nothing is lost.
fn converted(value: &Datum, data_type: &PrimitiveType) -> Option<PrimitiveLiteral> {
    let same = match (value.data_type(), data_type) {
        (PrimitiveType::Decimal { scale: from, .. }, PrimitiveType::Decimal { scale: to, .. }) => from == to,
        (from, to) => from == to,
    };
    if same {
        return Some(value.literal().clone());
    }
    match (value.literal(), value.data_type(), data_type) {
        (PrimitiveLiteral::Int(v), PrimitiveType::Int, PrimitiveType::Long) => {
            Some(PrimitiveLiteral::Long((*v).into()))
        }
        (PrimitiveLiteral::Float(v), PrimitiveType::Float, PrimitiveType::Double) => {
            Some(PrimitiveLiteral::Double(f64::from(v.0).into()))
        }
        _ => None,
    }
}

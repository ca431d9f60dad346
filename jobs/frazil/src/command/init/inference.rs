//! What JSON values have in common, as column types.

use codec::json::TimeText;
use pipeline::types::{Field, Type};
use serde_json::Value;

/// Members of one object beyond which they are no columns.
const MEMBERS_MAX: usize = 200;
/// How deep a type may nest: the file's grammar takes a little more.
const DEPTH_MAX: usize = 24;
/// Members inside a column that a guess names.
const NAMED_MAX: usize = 5;

/// What was seen so far.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    /// Nothing, or null.
    Nothing,
    Boolean,
    /// A whole number of 64 bits.
    Whole(Range),
    /// A whole number of more.
    Large,
    Number,
    /// Text that every column of times takes, or that none does.
    Text(Option<TimeText>),
    /// Of elements.
    Array(Box<Shape>),
    /// Members in the order in which they came.
    Object(Vec<(String, Shape)>),
    /// Several of these.
    Several,
}

/// The least and the greatest of whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range(i64, i64);

/// What becomes of a member.
#[derive(Debug, PartialEq)]
pub(super) enum Column {
    /// A column; what of its type is more than what was seen.
    Of {
        data_type: Type,
        guess: Option<String>,
    },
    LeftOut {
        why: String,
    },
}

impl Shape {
    /// The same after another value.
    pub(super) fn with(self, value: &Value) -> Self {
        self.and(Self::of(value, DEPTH_MAX))
    }

    fn of(value: &Value, depth: usize) -> Self {
        let Some(depth) = depth.checked_sub(1) else { return Self::Several };
        match value {
            Value::Null => Self::Nothing,
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(n), _) => Self::Whole(Range(n, n)),
                // A float of a size at which every one is whole: its digits are too many to be told.
                (None, Some(n)) if n.fract() == 0.0 && (9.2e18..1e38).contains(&n.abs()) => Self::Large,
                _ => Self::Number,
            },
            // What the decoder would not read is no time.
            Value::String(text) => Self::Text(TimeText::of(text)),
            Value::Array(elements) => {
                let all = elements.iter().map(|element| Self::of(element, depth));
                Self::Array(Box::new(all.fold(Self::Nothing, Self::and)))
            }
            Value::Object(members) => {
                Self::Object(members.iter().map(|(name, value)| (name.clone(), Self::of(value, depth))).collect())
            }
        }
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, other) | (other, Self::Nothing) => other,
            (Self::Whole(a), Self::Whole(b)) => Self::Whole(Range(a.0.min(b.0), a.1.max(b.1))),
            (Self::Whole(_) | Self::Large, Self::Large) | (Self::Large, Self::Whole(_)) => Self::Large,
            (Self::Number, Self::Whole(_) | Self::Large | Self::Number)
            | (Self::Whole(_) | Self::Large, Self::Number) => Self::Number,
            (Self::Text(a), Self::Text(b)) => Self::Text(a.filter(|_| a == b)),
            (Self::Array(a), Self::Array(b)) => Self::Array(Box::new(a.and(*b))),
            (Self::Object(mut a), Self::Object(b)) => {
                for (name, shape) in b {
                    match a.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, known)) => *known = std::mem::replace(known, Self::Nothing).and(shape),
                        None => a.push((name, shape)),
                    }
                }
                Self::Object(a)
            }
            (a, b) if a == b => a,
            _ => Self::Several,
        }
    }

    /// What a member of this shape becomes, of so many values.
    pub(super) fn column(&self, name: &str, values: usize) -> Column {
        let of = |data_type, guess: Option<&str>| Column::Of { data_type, guess: guess.map(str::to_owned) };
        match self {
            Self::Nothing => Column::LeftOut { why: "it is null in every value".to_owned() },
            Self::Several => Column::LeftOut { why: "it is of several types, and a column is of one".to_owned() },
            Self::Boolean => of(Type::Boolean, None),
            Self::Whole(range) => match range.unit(name) {
                Some((unit, digits)) => Column::Of {
                    data_type: Type::Long,
                    guess: Some(format!(
                        "a whole number, that looks like {digits} since 1970: type = \"timestamptz\", unit = \"{unit}\""
                    )),
                },
                None => of(Type::Long, None),
            },
            Self::Large => of(Type::Decimal(38, 0), Some("a whole number of more than 64 bits: decimal(38, 0)")),
            Self::Number => of(Type::Double, Some("a double; where digits matter, money say, a decimal(…)")),
            Self::Text(Some(TimeText::Instant)) => {
                of(Type::Timestamptz, Some("a timestamptz, for every text is a time with an offset"))
            }
            Self::Text(Some(TimeText::Local)) => {
                of(Type::Timestamp, Some("a timestamp, for every text is a time without an offset"))
            }
            Self::Text(Some(TimeText::Date)) => of(Type::Date, Some("a date, for every text is one")),
            Self::Text(None) => of(Type::String, None),
            Self::Array(_) | Self::Object(_) => match self.nested() {
                Some((data_type, left)) if left.is_empty() => of(data_type, None),
                Some((data_type, left)) => {
                    let named = left.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
                    let more = match left.len().checked_sub(NAMED_MAX) {
                        Some(more @ 1..) => format!(" and {more} more"),
                        _ => String::new(),
                    };
                    let guess = format!(
                        "without {named}{more}, which is null, of several types or without a name; type = \"string\" keeps \
                         its whole JSON"
                    );
                    Column::Of { data_type, guess: Some(guess) }
                }
                None => {
                    let why = format!("a string with its JSON, for {values} values don't tell what is in it");
                    Column::Of { data_type: Type::String, guess: Some(why) }
                }
            },
        }
    }

    /// The type of what is inside others, and the paths of what was left out; none where nothing is known of it.
    fn nested(&self) -> Option<(Type, Vec<String>)> {
        let plain = |data_type| Some((data_type, Vec::new()));
        match self {
            Self::Nothing | Self::Several => None,
            Self::Boolean => plain(Type::Boolean),
            Self::Whole(_) => plain(Type::Long),
            Self::Large => plain(Type::Decimal(38, 0)),
            Self::Number => plain(Type::Double),
            Self::Text(Some(TimeText::Instant)) => plain(Type::Timestamptz),
            Self::Text(Some(TimeText::Local)) => plain(Type::Timestamp),
            Self::Text(Some(TimeText::Date)) => plain(Type::Date),
            Self::Text(None) => plain(Type::String),
            Self::Array(element) => {
                let (element, left) = element.nested()?;
                Some((Type::List { element: Box::new(element), required: false }, left))
            }
            Self::Object(members) if members.len() > MEMBERS_MAX => None,
            Self::Object(members) => {
                let (mut fields, mut left) = (Vec::new(), Vec::new());
                for (name, shape) in members {
                    let quoted = pipeline::path::text(&[name]);
                    let field = |data_type| Field { name: name.clone(), data_type, required: false };
                    // No path leads to what has no name.
                    match shape.nested().filter(|_| !name.is_empty()) {
                        Some((data_type, inner)) => {
                            fields.push(field(data_type));
                            left.extend(inner.into_iter().map(|path| format!("{quoted}.{path}")));
                        }
                        None => left.push(quoted),
                    }
                }
                (!fields.is_empty()).then_some((Type::Struct(fields), left))
            }
        }
    }
}

impl Range {
    /// The unit of times that these look like: of a member that is called like one, between 2001 and 2100.
    fn unit(self, name: &str) -> Option<(&'static str, &'static str)> {
        let name = name.to_lowercase();
        let is_called = ["at", "time", "ts", "date", "timestamp", "_ms", "_us"].iter().any(|end| name.ends_with(end));
        let units = [
            ("s", "seconds", 1_i64),
            ("ms", "milliseconds", 1000),
            ("us", "microseconds", 1_000_000),
            ("ns", "nanoseconds", 1_000_000_000),
        ];
        let within = |per: i64| self.0 >= 1_000_000_000 * per && self.1 <= 4_102_444_800 * per;
        let found = units.iter().find(|(.., per)| is_called && within(*per));
        found.map(|(unit, words, _)| (*unit, *words))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_column_is_what_its_values_have_in_common() {
        let check = |name: &str, values: &[Value], expected: &str| {
            let shape = values.iter().fold(Shape::Nothing, Shape::with);
            let found = match shape.column(name, values.len()) {
                Column::Of { data_type, guess } => format!("{data_type}{}", if guess.is_some() { "?" } else { "" }),
                Column::LeftOut { why } => why,
            };
            assert_eq!(found, expected, "{values:?}");
        };
        let none = "it is null in every value";
        let several = "it is of several types, and a column is of one";
        check("a", &[Value::Null], none);
        check("a", &[Value::Null, json!(1), json!(-1)], "long");
        check("a", &[json!(true)], "boolean");
        check("a", &[json!(1), json!(1.5)], "double?");
        check("a", &[json!(u64::MAX)], "decimal(38, 0)?");
        check("a", &[json!(1), json!("1")], several);
        check("a", &[json!({}), json!([])], several);
        check("a", &[json!("x"), json!("2026-01-31")], "string");
        check("a", &[json!("2026-01-31")], "date?");
        check("a", &[json!("2026-01-31T00:00:00.5+01:00"), json!("2026-01-31T00:00:00Z")], "timestamptz?");
        check("a", &[json!("2026-01-31T00:00:00")], "timestamp?");
        check("a", &[json!("2026-01-31T00:00:00"), json!("2026-01-31T00:00:00Z")], "string");
        // What the decoder would refuse is text.
        check("a", &[json!("2026-01-31T23:59:60Z")], "string");
        check("a", &[json!("2026-1-5T1:2:3")], "string");
        check("a", &[json!("+12026-01-31T00:00:00")], "string");
        check("a", &[json!("2026-01-31 10:00")], "timestamp?");
        check("a", &[json!({"": 1, "b": 2})], "struct<b: long>?");
        check("a", &[json!([1, null]), json!([])], "list<long>");
        check("a", &[json!([])], "string?");
        check("a", &[json!([{"b": 1}, {"c": "x"}]), json!([{"d": null}])], "list<struct<b: long, c: string>>?");
        check("a", &[json!({"b": {}})], "string?");
        check("createdAt", &[json!(1_764_000_000_123_i64)], "long?");
        check("amount", &[json!(1_764_000_000_123_i64)], "long");
        let deep = (0..60).fold(json!(1), |value, _| json!({ "d": value }));
        check("a", &[deep], "string?");
        let many: serde_json::Map<String, Value> = (0..300).map(|n| (format!("k{n}"), json!(n))).collect();
        check("a", &[Value::Object(many)], "string?");
    }
}

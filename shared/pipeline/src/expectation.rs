//! What a column's values must be like: `min`, `max`, `pattern` and `in` of `[table.columns]`. A record with a value that
//! is not goes to dead letters with class `expectation`. A null is nothing to judge: `required` is about those.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::Type;

/// The expectations of one column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Expectations {
    /// The least value that is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Literal>,
    /// The greatest value that is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Literal>,
    /// A regular expression, in the syntax of the `regex` crate, that matches somewhere in the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The values that are allowed; any where there are none.
    #[serde(default, rename = "in", skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<Literal>,
}

/// A value as the pipeline file writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Literal {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number. Serialised as text: JSON's readers keep fewer digits.
    Integer(#[serde(with = "digits")] i128),
    /// A number with a point; finite.
    Float(f64),
    /// A text.
    Text(String),
    /// A point in time with its offset: microseconds since 1970-01-01T00:00:00Z.
    Instant(i64),
    /// A date with a time of day, without an offset: microseconds since 1970-01-01T00:00:00.
    Local(i64),
}

mod digits {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(number: &i128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i128, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The kind of a literal, for a person.
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean(_) => "true or false",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a number with a point",
            Self::Text(_) => "a string",
            Self::Instant(_) => "a time with an offset",
            Self::Local(_) => "a time without an offset",
        })
    }
}

impl Literal {
    /// Whether it is greater than another of its kind; numbers are one kind.
    fn exceeds(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a > b,
            (Self::Instant(a), Self::Instant(b)) | (Self::Local(a), Self::Local(b)) => a > b,
            (a, b) => matches!((a.float(), b.float()), (Some(a), Some(b)) if a > b),
        }
    }

    /// As a floating-point number: those that the bounds of such columns are compared as.
    #[must_use]
    pub const fn float(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }
}

/// Which expectations the values of a type may have.
struct Takes {
    bounds: bool,
    pattern: bool,
    /// What they are written as.
    literal: fn(&Literal) -> bool,
    written: &'static str,
}

fn takes(data_type: &Type) -> Option<Takes> {
    let of = |bounds, pattern, literal, written| Some(Takes { bounds, pattern, literal, written });
    match data_type {
        Type::Int | Type::Long | Type::Decimal(_, 0) => {
            of(true, false, |l| matches!(l, Literal::Integer(_)), "a whole number")
        }
        Type::Float | Type::Double => {
            of(true, false, |l| matches!(l, Literal::Integer(_) | Literal::Float(_)), "a number")
        }
        Type::Timestamptz => {
            of(true, false, |l| matches!(l, Literal::Instant(_)), "a time such as 2026-01-31T00:00:00Z")
        }
        Type::Timestamp => of(true, false, |l| matches!(l, Literal::Local(_)), "a time such as 2026-01-31T00:00:00"),
        Type::String => of(false, true, |l| matches!(l, Literal::Text(_)), "a string"),
        Type::Boolean => of(false, false, |l| matches!(l, Literal::Boolean(_)), "true or false"),
        _ => None,
    }
}

impl Expectations {
    /// Whether nothing is expected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.settings().is_empty()
    }

    /// The settings that are there, as the file calls them.
    #[must_use]
    pub fn settings(&self) -> Vec<&'static str> {
        let there = [
            ("min", self.min.is_some()),
            ("max", self.max.is_some()),
            ("pattern", self.pattern.is_some()),
            ("in", !self.one_of.is_empty()),
        ];
        there.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect()
    }

    /// Settings that values of a type can't have, or not so: each with what is wrong.
    #[must_use]
    pub fn misfits(&self, data_type: &Type) -> Vec<(&'static str, String)> {
        let Some(takes) = takes(data_type) else {
            let message = |name| format!("`{name}` can't be expected of a column of the type {data_type}");
            return self.settings().into_iter().map(|name| (name, message(name))).collect();
        };
        let known = [("min", takes.bounds), ("max", takes.bounds), ("pattern", takes.pattern), ("in", true)];
        let offered: Vec<String> =
            known.iter().filter(|(_, taken)| *taken).map(|(name, _)| format!("`{name}`")).collect();
        let mut misfits = Vec::new();
        for name in self.settings() {
            let literals: Vec<&Literal> = match name {
                "min" => self.min.iter().collect(),
                "max" => self.max.iter().collect(),
                "in" => self.one_of.iter().collect(),
                _ => Vec::new(),
            };
            if known.contains(&(name, false)) {
                let offered = offered.join(", ");
                let message = format!("`{name}` can't be expected of a column of the type {data_type}; {offered} can");
                misfits.push((name, message));
            } else if let Some(other) = literals.into_iter().find(|literal| !(takes.literal)(literal)) {
                let written = takes.written;
                misfits.push((name, format!("`{name}` of a column of the type {data_type} is {written}, not {other}")));
            }
        }
        misfits
    }

    /// Whether no value is left between the bounds.
    pub(crate) fn is_contradiction(&self) -> bool {
        matches!((&self.min, &self.max), (Some(min), Some(max)) if min.exceeds(max))
    }
}

/// Microseconds since 1970-01-01T00:00:00 of a date and time of the proleptic Gregorian calendar, as TOML writes them.
pub(crate) fn literal_of(written: &toml::value::Datetime) -> Option<Literal> {
    const SECOND: i64 = 1_000_000;
    let (date, time) = (written.date?, written.time?);
    // Years that begin in March put the leap day last.
    let (year, month) = match date.month {
        month @ 3.. => (i64::from(date.year), i64::from(month) - 3),
        month => (i64::from(date.year) - 1, i64::from(month) + 9),
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = year * 365 + leap_days + (153 * month + 2) / 5 + i64::from(date.day) - 1 - 719_468;
    let seconds = (days * 24 + i64::from(time.hour)) * 3600
        + i64::from(time.minute) * 60
        + i64::from(time.second.unwrap_or_default());
    let micros = seconds * SECOND + i64::from(time.nanosecond.unwrap_or_default() / 1000);
    Some(match written.offset {
        None => Literal::Local(micros),
        Some(toml::value::Offset::Z) => Literal::Instant(micros),
        Some(toml::value::Offset::Custom { minutes }) => Literal::Instant(micros - i64::from(minutes) * 60 * SECOND),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_microseconds() {
        let check =
            |text: &str, expected: Literal| assert_eq!(literal_of(&text.parse().unwrap()), Some(expected), "{text}");
        check("1970-01-01T00:00:00Z", Literal::Instant(0));
        check("1970-01-01T00:00:00", Literal::Local(0));
        check("2000-02-29T12:30:15.000001Z", Literal::Instant(951_827_415_000_001));
        check("2000-03-01T01:00:00+01:00", Literal::Instant(951_868_800_000_000));
        check("1969-12-31T23:59:59.5Z", Literal::Instant(-500_000));
        check("0001-01-01T00:00:00Z", Literal::Instant(-62_135_596_800_000_000));
        check("9999-12-31T23:59:59Z", Literal::Instant(253_402_300_799_000_000));
        assert_eq!(literal_of(&"2000-01-01".parse().unwrap()), None);
        assert_eq!(literal_of(&"12:00:00".parse().unwrap()), None);
    }

    #[test]
    fn what_is_expected_goes_with_the_type() {
        let integer = || Some(Literal::Integer(1));
        let check = |expected: Expectations, data_type: &str, faults: &[&str]| {
            let found = expected.misfits(&data_type.parse().unwrap());
            let found: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
            assert_eq!(found, faults, "{data_type}: {expected:?}");
        };
        let none = Expectations::default;
        let bounds = || Expectations { min: integer(), max: Some(Literal::Float(2.5)), ..none() };
        check(bounds(), "double", &[]);
        check(bounds(), "long", &["max"]);
        check(bounds(), "string", &["min", "max"]);
        check(bounds(), "list<int>", &["min", "max"]);
        let pattern = || Expectations { pattern: Some("x".to_owned()), ..none() };
        check(pattern(), "string", &[]);
        check(pattern(), "binary", &["pattern"]);
        check(pattern(), "decimal(20, 0)", &["pattern"]);
        let list = |literal| Expectations { one_of: vec![literal], ..none() };
        check(list(Literal::Text("a".to_owned())), "string", &[]);
        check(list(Literal::Boolean(true)), "boolean", &[]);
        check(list(Literal::Boolean(true)), "int", &["in"]);
        check(list(Literal::Local(0)), "timestamptz", &["in"]);
        check(list(Literal::Local(0)), "timestamp", &[]);
        check(none(), "struct<a: int>", &[]);
        assert!(Expectations { min: Some(Literal::Float(1.5)), max: integer(), ..none() }.is_contradiction());
        assert!(!Expectations { min: integer(), max: integer(), ..none() }.is_contradiction());
        let all = Expectations { min: Some(Literal::Integer(i128::MIN)), ..bounds() };
        let json = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Expectations>(&json).unwrap(), all);
    }
}

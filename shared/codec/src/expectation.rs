//! Expectations, made ready to be asked of every row.

use std::collections::HashSet;

use pipeline::expectation::{Expectations, Literal};
use pipeline::types::Type;
use regex::bytes::{Regex, RegexBuilder};

/// Bytes that a compiled pattern may take.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// What a value of one column must be like. A column has one kind of values, and its rule only what goes with them.
#[derive(Debug)]
pub(crate) enum Rule {
    /// Whole numbers, and times in microseconds.
    Integers {
        min: i128,
        max: i128,
        one_of: HashSet<i128>,
    },
    Floats {
        min: f64,
        max: f64,
        one_of: Vec<f64>,
    },
    Booleans {
        one_of: Vec<bool>,
    },
    Texts {
        pattern: Option<Box<Regex>>,
        one_of: HashSet<Box<[u8]>>,
    },
}

/// The expectation that a value does not meet, without the value.
pub(crate) type Unmet = &'static str;

const BELOW: Unmet = "the value is below the column's `min`";
const ABOVE: Unmet = "the value is above the column's `max`";
const OUTSIDE: Unmet = "the value is no number between the column's `min` and `max`";
const UNLIKE: Unmet = "the value does not match the column's `pattern`";
const FOREIGN: Unmet = "the value is none of the column's `in`";

impl Rule {
    /// The rule of a column; none where nothing is expected.
    ///
    /// # Errors
    /// Every expectation that does not go with the type.
    pub(crate) fn of(expected: &Expectations, data_type: &Type) -> Result<Option<Self>, String> {
        if expected.is_empty() {
            return Ok(None);
        }
        let misfits: Vec<String> = expected.misfits(data_type).into_iter().map(|(_, message)| message).collect();
        if !misfits.is_empty() {
            return Err(misfits.join("; "));
        }
        let integer = |literal: &Literal| match literal {
            Literal::Integer(number) => Some(*number),
            Literal::Instant(micros) | Literal::Local(micros) => Some(i128::from(*micros)),
            _ => None,
        };
        // A float is compared with the float that is meant: 0.1 is another number with 64 bits.
        let float = |literal: &Literal| {
            literal.float().map(|number| if *data_type == Type::Float { f64::from(number as f32) } else { number })
        };
        let (min, max, one_of) = (expected.min.as_ref(), expected.max.as_ref(), &expected.one_of);
        Ok(Some(match data_type {
            Type::Float | Type::Double => Self::Floats {
                min: min.and_then(float).unwrap_or(f64::NEG_INFINITY),
                max: max.and_then(float).unwrap_or(f64::INFINITY),
                one_of: one_of.iter().filter_map(float).collect(),
            },
            Type::Boolean => Self::Booleans {
                one_of: one_of
                    .iter()
                    .filter_map(|l| if let Literal::Boolean(flag) = l { Some(*flag) } else { None })
                    .collect(),
            },
            Type::String => Self::Texts {
                pattern: expected.pattern.as_deref().map(pattern).transpose()?,
                one_of: one_of
                    .iter()
                    .filter_map(|l| if let Literal::Text(text) = l { Some(text.as_bytes().into()) } else { None })
                    .collect(),
            },
            _ => Self::Integers {
                min: min.and_then(integer).unwrap_or(i128::MIN),
                max: max.and_then(integer).unwrap_or(i128::MAX),
                one_of: one_of.iter().filter_map(integer).collect(),
            },
        }))
    }

    #[inline]
    pub(crate) fn integer(&self, value: i128) -> Result<(), Unmet> {
        match self {
            Self::Integers { min, .. } if value < *min => Err(BELOW),
            Self::Integers { max, .. } if value > *max => Err(ABOVE),
            Self::Integers { one_of, .. } if !one_of.is_empty() && !one_of.contains(&value) => Err(FOREIGN),
            _ => Ok(()),
        }
    }

    /// What is no number lies between no bounds.
    #[inline]
    pub(crate) fn float(&self, value: f64) -> Result<(), Unmet> {
        match self {
            Self::Floats { min, max, .. } if !(*min..=*max).contains(&value) => Err(match value {
                value if value < *min => BELOW,
                value if value > *max => ABOVE,
                _ => OUTSIDE,
            }),
            Self::Floats { one_of, .. } if !one_of.is_empty() && !one_of.contains(&value) => Err(FOREIGN),
            _ => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn boolean(&self, value: bool) -> Result<(), Unmet> {
        match self {
            Self::Booleans { one_of } if !one_of.contains(&value) => Err(FOREIGN),
            _ => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn text(&self, value: &[u8]) -> Result<(), Unmet> {
        let Self::Texts { pattern, one_of } = self else { return Ok(()) };
        if pattern.as_ref().is_some_and(|pattern| !pattern.is_match(value)) {
            return Err(UNLIKE);
        }
        if !one_of.is_empty() && !one_of.contains(value) {
            return Err(FOREIGN);
        }
        Ok(())
    }
}

fn pattern(text: &str) -> Result<Box<Regex>, String> {
    let regex = RegexBuilder::new(text).size_limit(PATTERN_BYTES_MAX).build();
    regex.map(Box::new).map_err(|_| "`pattern` is no regular expression".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(data_type: &str, change: impl FnOnce(&mut Expectations)) -> Rule {
        let mut expected = Expectations::default();
        change(&mut expected);
        Rule::of(&expected, &data_type.parse().unwrap()).unwrap().unwrap()
    }

    #[test]
    fn bounds_belong_to_what_they_bound() {
        let whole = rule("int", |e| (e.min, e.max) = (Some(Literal::Integer(-1)), Some(Literal::Integer(2))));
        let found: Vec<bool> = (-2..=3).map(|n| whole.integer(n).is_ok()).collect();
        assert_eq!(found, [false, true, true, true, true, false]);
        assert_eq!((whole.integer(-2), whole.integer(3)), (Err(BELOW), Err(ABOVE)));
        let double = rule("double", |e| e.max = Some(Literal::Float(0.5)));
        assert_eq!((double.float(f64::NEG_INFINITY), double.float(0.5)), (Ok(()), Ok(())));
        assert_eq!((double.float(0.75), double.float(f64::NAN)), (Err(ABOVE), Err(OUTSIDE)));
        let time = rule("timestamptz", |e| e.min = Some(Literal::Instant(5)));
        assert_eq!((time.integer(4), time.integer(5)), (Err(BELOW), Ok(())));
    }

    #[test]
    fn texts_match_somewhere_and_lists_hold_the_whole() {
        let like = rule("string", |e| e.pattern = Some("^[a-z]+$".to_owned()));
        assert_eq!((like.text(b"abc"), like.text(b"ab1"), like.text(b"")), (Ok(()), Err(UNLIKE), Err(UNLIKE)));
        let somewhere = rule("string", |e| e.pattern = Some("ö".to_owned()));
        assert_eq!(somewhere.text("größe".as_bytes()), Ok(()));
        let of = rule("string", |e| e.one_of = vec![Literal::Text("a".to_owned()), Literal::Text(String::new())]);
        assert_eq!((of.text(b"a"), of.text(b""), of.text(b"A")), (Ok(()), Ok(()), Err(FOREIGN)));
        let flags = rule("boolean", |e| e.one_of = vec![Literal::Boolean(true)]);
        assert_eq!((flags.boolean(true), flags.boolean(false)), (Ok(()), Err(FOREIGN)));
        let numbers = rule("decimal(20, 0)", |e| e.one_of = vec![Literal::Integer(u64::MAX.into())]);
        assert_eq!((numbers.integer(u64::MAX.into()), numbers.integer(-1)), (Ok(()), Err(FOREIGN)));
        let floats = rule("float", |e| e.one_of = vec![Literal::Float(0.1)]);
        assert_eq!((floats.float(0.1_f32.into()), floats.float(0.25)), (Ok(()), Err(FOREIGN)));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        assert!(Rule::of(&Expectations::default(), &Type::Binary).unwrap().is_none());
        let pattern = Expectations { pattern: Some("x".to_owned()), ..Expectations::default() };
        let refused = Rule::of(&pattern, &Type::Long).unwrap_err();
        assert!(refused.contains("`min`, `max`, `in` can"), "{refused}");
    }
}

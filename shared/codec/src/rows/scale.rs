//! Times from one unit to another.

use super::stop::{Outcome, Stop};
use crate::Class;

/// From one unit to another, towards the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Same,
    Times(i64),
    Over(i64),
}

impl Scale {
    /// Between units of which so many make a second: powers of ten.
    pub(crate) const fn between(from: i64, to: i64) -> Self {
        if from == to {
            Self::Same
        } else if from < to {
            Self::Times(to / from)
        } else {
            Self::Over(from / to)
        }
    }
}

/// A time in another unit, towards the past.
#[inline(always)]
pub(crate) fn scaled(value: i64, scale: Scale) -> Outcome<i64> {
    match scale {
        Scale::Same => Ok(value),
        Scale::Times(factor) => value.checked_mul(factor).ok_or_else(|| too_far(value)),
        Scale::Over(divisor) => Ok(value.div_euclid(divisor)),
    }
}

/// What is further from 1970 than a column of microseconds reaches.
#[cold]
pub(crate) fn too_far(value: impl std::fmt::Display) -> Box<Stop> {
    Stop::new(Class::OutOfRange, format!("{value} is further away than 64 bits of microseconds reach"))
}

//! Sets of offsets as closed intervals.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A closed range of offsets: both ends belong to it. Serialised `[first, last]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "(i64, i64)", into = "(i64, i64)")]
pub struct Interval {
    first: i64,
    last: i64,
}

/// An interval whose last offset lies before its first, or below zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("[{first}, {last}] is not an interval of offsets")]
pub struct NotAnInterval {
    first: i64,
    last: i64,
}

impl Interval {
    /// The offsets from `first` to `last`, both included.
    ///
    /// # Errors
    /// When `last < first` or `first < 0`: Kafka's offsets start at 0.
    pub const fn new(first: i64, last: i64) -> Result<Self, NotAnInterval> {
        if first < 0 || last < first { Err(NotAnInterval { first, last }) } else { Ok(Self { first, last }) }
    }

    /// The first offset.
    #[must_use]
    pub const fn first(self) -> i64 {
        self.first
    }

    /// The last offset.
    #[must_use]
    pub const fn last(self) -> i64 {
        self.last
    }

    /// How many offsets, at least 1.
    #[must_use]
    pub const fn count(self) -> u64 {
        // `last - first` fits: both lie in 0..=i64::MAX.
        (self.last - self.first) as u64 + 1
    }
}

impl TryFrom<(i64, i64)> for Interval {
    type Error = NotAnInterval;
    fn try_from((first, last): (i64, i64)) -> Result<Self, NotAnInterval> {
        Self::new(first, last)
    }
}

impl From<Interval> for (i64, i64) {
    fn from(i: Interval) -> Self {
        (i.first, i.last)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { write!(f, "{}", self.first) } else { write!(f, "{}-{}", self.first, self.last) }
    }
}

/// A set of offsets: sorted intervals that neither overlap nor touch, so equal sets are equal values.
/// Serialised `[[first, last], …]`; reading refuses lists that are not in this form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<Interval>", into = "Vec<Interval>")]
pub struct Intervals(Vec<Interval>);

/// A list of intervals that is not sorted, or whose members overlap or touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("intervals must be sorted and apart: {before} stands before {after}")]
pub struct NotASet {
    before: Interval,
    after: Interval,
}

impl TryFrom<Vec<Interval>> for Intervals {
    type Error = NotASet;
    fn try_from(list: Vec<Interval>) -> Result<Self, NotASet> {
        for pair in list.windows(2) {
            if let [before, after] = *pair
                && after.first <= before.last.saturating_add(1)
            {
                return Err(NotASet { before, after });
            }
        }
        Ok(Self(list))
    }
}

impl From<Intervals> for Vec<Interval> {
    fn from(set: Intervals) -> Self {
        set.0
    }
}

impl From<Interval> for Intervals {
    fn from(interval: Interval) -> Self {
        Self(vec![interval])
    }
}

impl FromIterator<Interval> for Intervals {
    fn from_iter<I: IntoIterator<Item = Interval>>(list: I) -> Self {
        let mut list: Vec<Interval> = list.into_iter().collect();
        list.sort_unstable();
        let mut out: Vec<Interval> = Vec::with_capacity(list.len());
        for next in list {
            match out.last_mut() {
                Some(prev) if next.first <= prev.last.saturating_add(1) => prev.last = prev.last.max(next.last),
                _ => out.push(next),
            }
        }
        Self(out)
    }
}

impl Intervals {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Whether there is no offset in it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many offsets.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|i| i.count()).fold(0, u64::saturating_add)
    }

    /// The intervals, in order.
    #[must_use]
    pub fn as_slice(&self) -> &[Interval] {
        &self.0
    }

    /// The lowest offset.
    #[must_use]
    pub fn first(&self) -> Option<i64> {
        self.0.first().map(|i| i.first)
    }

    /// The highest offset.
    #[must_use]
    pub fn last(&self) -> Option<i64> {
        self.0.last().map(|i| i.last)
    }

    /// The smallest interval holding the whole set.
    #[must_use]
    pub fn hull(&self) -> Option<Interval> {
        Some(Interval { first: self.first()?, last: self.last()? })
    }

    /// Whether an offset belongs to it. O(log n).
    #[must_use]
    pub fn contains(&self, offset: i64) -> bool {
        let at = self.0.partition_point(|i| i.last < offset);
        self.0.get(at).is_some_and(|i| i.first <= offset)
    }

    /// Whether every offset of `other` belongs to it.
    #[must_use]
    pub fn contains_all(&self, other: &Self) -> bool {
        other.subtract(self).is_empty()
    }

    /// Adds one offset; cheap when offsets come in order.
    pub fn push(&mut self, offset: i64) {
        if let Some(last) = self.0.last_mut() {
            if last.last.checked_add(1) == Some(offset) {
                last.last = offset;
                return;
            }
            if offset <= last.last {
                if !self.contains(offset)
                    && let Ok(one) = Interval::new(offset, offset)
                {
                    *self = self.union(&Self(vec![one]));
                }
                return;
            }
        }
        if let Ok(one) = Interval::new(offset, offset) {
            self.0.push(one);
        }
    }

    /// The offsets of either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.0.iter().chain(&other.0).copied().collect()
    }

    /// The offsets of both.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut out = Vec::new();
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            let (first, last) = (x.first.max(y.first), x.last.min(y.last));
            if first <= last {
                out.push(Interval { first, last });
            }
            if x.last <= y.last {
                a.next()
            } else {
                b.next()
            };
        }
        // Pieces of one interval cut by touching neighbours cannot arise: both inputs keep their members apart.
        Self(out)
    }

    /// The offsets of this set that are not in the other.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        let mut out = Vec::new();
        let mut cuts = other.0.iter().peekable();
        for interval in &self.0 {
            let mut first = interval.first;
            while let Some(cut) = cuts.peek() {
                if cut.last < first {
                    cuts.next();
                    continue;
                }
                if cut.first > interval.last {
                    break;
                }
                if cut.first > first {
                    out.push(Interval { first, last: cut.first - 1 });
                }
                if cut.last >= interval.last {
                    first = i64::MAX;
                    break;
                }
                first = cut.last + 1;
            }
            // `i64::MAX` marks "nothing left"; an interval that truly starts there is kept by its own first.
            if first <= interval.last && (first != i64::MAX || interval.first == i64::MAX && !other.contains(i64::MAX))
            {
                out.push(Interval { first, last: interval.last });
            }
        }
        Self(out)
    }

    /// The offsets between its first and last that are not in it.
    #[must_use]
    pub fn gaps(&self) -> Self {
        self.0
            .windows(2)
            .filter_map(|pair| match *pair {
                [a, b] => Interval::new(a.last + 1, b.first - 1).ok(),
                _ => None,
            })
            .collect()
    }
}

impl fmt::Display for Intervals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, interval) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str(",")?;
            }
            interval.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set() -> impl Strategy<Value = Intervals> {
        prop::collection::vec((0i64..60, 0i64..8), 0..8)
            .prop_map(|v| v.into_iter().map(|(a, n)| Interval::new(a, a + n).unwrap()).collect())
    }

    fn plain(s: &Intervals) -> BTreeSet<i64> {
        s.as_slice().iter().flat_map(|i| i.first()..=i.last()).collect()
    }

    fn well_formed(s: &Intervals) {
        Intervals::try_from(s.as_slice().to_vec()).unwrap();
    }

    proptest! {
        #[test]
        fn sets_of_intervals_behave_as_sets_of_offsets(a in set(), b in set(), x in 0i64..80) {
            let (pa, pb) = (plain(&a), plain(&b));
            for s in [&a.union(&b), &a.intersect(&b), &a.subtract(&b), &a.gaps()] { well_formed(s); }
            prop_assert_eq!(plain(&a.union(&b)), pa.union(&pb).copied().collect());
            prop_assert_eq!(plain(&a.intersect(&b)), pa.intersection(&pb).copied().collect());
            prop_assert_eq!(plain(&a.subtract(&b)), pa.difference(&pb).copied().collect());
            prop_assert_eq!(a.contains(x), pa.contains(&x));
            prop_assert_eq!(a.count(), pa.len() as u64);
            prop_assert_eq!(a.contains_all(&b), pb.is_subset(&pa));
            let mut pushed = a.clone();
            pushed.push(x);
            well_formed(&pushed);
            prop_assert!(pushed == a.union(&Interval::new(x, x).unwrap().into()));
            prop_assert_eq!(a.union(&a.gaps()).as_slice().len(), usize::from(!a.is_empty()));
            prop_assert_eq!(serde_json::from_str::<Intervals>(&serde_json::to_string(&a).unwrap()).unwrap(), a);
        }
    }

    #[test]
    fn the_ends_of_the_range_are_offsets_like_any_other() {
        let max = Intervals::from(Interval::new(i64::MAX, i64::MAX).unwrap());
        let all = Intervals::from(Interval::new(0, i64::MAX).unwrap());
        assert!(max.subtract(&max).is_empty());
        assert_eq!(max.subtract(&Intervals::new()), max);
        assert_eq!(all.subtract(&max).last(), Some(i64::MAX - 1));
        assert_eq!(max.subtract(&Intervals::from(Interval::new(3, 4).unwrap())), max);
        assert!(max.subtract(&all).is_empty());
        assert_eq!(all.union(&max), all);
        for bad in ["[[3,2]]", "[[-1,2]]", "[[0,2],[3,4]]", "[[5,6],[0,1]]", "[[0,2],[1,4]]"] {
            assert!(serde_json::from_str::<Intervals>(bad).is_err(), "{bad}");
        }
    }
}

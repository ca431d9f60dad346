//! Parts of an event: which records of each partition are handed over once more, whole, cut in two, or what an answer left.

use std::collections::HashMap;
use std::ops::Range;

use crate::events::Records;

/// Records of each partition of an event, by their place among them.
pub(super) type Part = Vec<Range<usize>>;

/// A record that a function says it has not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reported {
    /// `topic-partition`
    pub(super) partition: String,
    pub(super) offset: i64,
}

/// All of an event.
pub(super) fn whole(records: &Records) -> Part {
    records.partitions().iter().map(|partition| 0..partition.offsets.len()).collect()
}

/// How many records a part has.
pub(super) fn count(part: &[Range<usize>]) -> usize {
    part.iter().map(Range::len).sum()
}

/// What is left of a part once a function has answered: of each partition everything from the least reported offset on.
///
/// # Errors
/// The first record that is none of this part's: then nothing of the answer can be believed.
pub(super) fn left(records: &Records, part: &[Range<usize>], reported: &[Reported]) -> Result<Part, Reported> {
    let mut left: Part = part.iter().map(|range| range.end..range.end).collect();
    let partitions = records.partitions().iter().zip(part).enumerate();
    let by_name: HashMap<String, _> = partitions
        .map(|(n, (partition, range))| {
            let offsets = partition.offsets.get(range.clone()).unwrap_or_default();
            (format!("{}-{}", partition.topic, partition.partition), (n, range.start, offsets))
        })
        .collect();
    for record in reported {
        let (n, start, offsets) = by_name.get(&record.partition).ok_or_else(|| record.clone())?;
        let at = start + offsets.binary_search(&record.offset).map_err(|_| record.clone())?;
        if let Some(range) = left.get_mut(*n) {
            range.start = range.start.min(at);
        }
    }
    Ok(left)
}

/// What of a part comes before what is left of it.
pub(super) fn done(part: &[Range<usize>], left: &[Range<usize>]) -> Part {
    part.iter().zip(left).map(|(part, left)| part.start..left.start).collect()
}

/// A part of an event as two, each with the earlier or later records of every partition.
pub(super) fn cut(part: &[Range<usize>]) -> (Part, Part) {
    let several = part.iter().any(|range| range.len() > 1);
    if several {
        let middle = |range: &Range<usize>| range.start + range.len().div_ceil(2);
        let first = part.iter().map(|range| range.start..middle(range)).collect();
        return (first, part.iter().map(|range| middle(range)..range.end).collect());
    }
    // One record of each partition: half of the partitions.
    let half = part.iter().filter(|range| !range.is_empty()).count() / 2;
    let (mut seen, mut first, mut second) = (0, Vec::new(), Vec::new());
    for range in part {
        let is_first = !range.is_empty() && seen < half;
        seen += usize::from(!range.is_empty());
        first.push(if is_first { range.clone() } else { range.start..range.start });
        second.push(if is_first { range.end..range.end } else { range.clone() });
    }
    (first, second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Record;

    #[test]
    fn what_is_left_begins_at_the_least_reported_offset_of_each_partition() {
        let mut records = Records::new("");
        for (topic, partition, offset) in
            [("a-b", 0, 5), ("a-b", 0, 7), ("a-b", 0, 9), ("t", 1, 3), ("t", 1, 4), ("t", 11, 0)]
        {
            let record = Record { offset, timestamp_ms: -1, log_append: false, key: None, value: None };
            records.push(topic, partition, &record, []);
        }
        let reported = |all: &[(&str, i64)]| -> Vec<Reported> {
            all.iter().map(|(p, o)| Reported { partition: (*p).to_owned(), offset: *o }).collect()
        };
        let check = |part: &[Range<usize>], all: &[(&str, i64)], expected: Result<Part, (&str, i64)>| {
            let expected = expected.map_err(|(p, o)| Reported { partition: p.to_owned(), offset: o });
            assert_eq!(left(&records, part, &reported(all)), expected, "{part:?} {all:?}");
        };
        let all = whole(&records);
        check(&all, &[], Ok(vec![3..3, 2..2, 1..1]));
        check(&all, &[("a-b-0", 9), ("a-b-0", 7), ("t-11", 0)], Ok(vec![1..3, 2..2, 0..1]));
        check(&all, &[("a-b-0", 5), ("t-1", 3), ("t-11", 0)], Ok(all.clone()));
        // Only of what was handed over can anything be said.
        check(&[1..3, 0..0, 0..1], &[("a-b-0", 9)], Ok(vec![2..3, 0..0, 1..1]));
        check(&[1..3, 0..0, 0..1], &[("a-b-0", 5)], Err(("a-b-0", 5)));
        check(&[1..3, 0..0, 0..1], &[("t-1", 3)], Err(("t-1", 3)));
        for stranger in [("a-b-0", 6), ("a-b-1", 5), ("t-01", 3), ("t", 3), ("", 0), ("a-b-0", -1)] {
            check(&all, &[("a-b-0", 5), stranger], Err(stranger));
        }
        let left = left(&records, &all, &reported(&[("a-b-0", 7)])).unwrap();
        assert_eq!((done(&all, &left), count(&left)), (vec![0..1, 0..2, 0..1], 2));
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "one partition's part")]
    fn a_part_is_cut_until_one_record_is_left() {
        assert_eq!(cut(&[0..5, 2..3, 4..4]), (vec![0..3, 2..3, 4..4], vec![3..5, 3..3, 4..4]));
        assert_eq!(cut(&[0..1, 7..7, 2..3, 1..2]), (vec![0..1, 7..7, 2..2, 1..1], vec![1..1, 7..7, 2..3, 1..2]));
        let mut parts = vec![vec![0..9, 0..4, 0..1]];
        let mut single = 0;
        while let Some(part) = parts.pop() {
            let count: usize = part.iter().map(Range::len).sum();
            match count {
                1 => single += 1,
                _ => {
                    let (first, second) = cut(&part);
                    let len = |part: &[Range<usize>]| part.iter().map(Range::len).sum::<usize>();
                    assert!(len(&first) > 0 && len(&second) > 0 && len(&first) + len(&second) == count);
                    parts.extend([first, second]);
                }
            }
        }
        assert_eq!(single, 14);
        assert_eq!(cut(&[0..2]), (vec![0..1], vec![1..2]));
    }
}

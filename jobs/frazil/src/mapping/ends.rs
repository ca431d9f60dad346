//! Where partitions end for a mapping that reads a stretch of them.

use std::collections::BTreeMap;

use kafka::consumer::Place;

/// The partitions that are read to an end, with the offsets before which they end. They are all of one topic.
pub(super) struct Ends {
    open: Option<BTreeMap<i32, i64>>,
}

impl Ends {
    pub(super) fn new(next: &BTreeMap<Place, i64>, until: Option<&BTreeMap<Place, i64>>) -> Self {
        let open = until.map(|until| {
            let open = next.iter().filter_map(|(place, from)| Some((place, from, until.get(place)?)));
            open.filter(|(_, from, end)| from < end).map(|(place, _, end)| (place.partition, *end)).collect()
        });
        Self { open }
    }

    /// The partitions that have not ended, and the offsets before which they will.
    pub(super) fn open(&self) -> impl Iterator<Item = (i32, i64)> {
        self.open.iter().flatten().map(|(partition, end)| (*partition, *end))
    }

    /// Whether all have ended.
    pub(super) fn all(&self) -> bool {
        self.open.as_ref().is_some_and(BTreeMap::is_empty)
    }

    /// A partition has no further record now.
    pub(super) fn end(&mut self, partition: i32) {
        if let Some(open) = &mut self.open {
            open.remove(&partition);
        }
    }

    /// Whether a record lies before its partition's end. One that does not ends it.
    pub(super) fn takes(&mut self, partition: i32, offset: i64) -> bool {
        let Some(open) = &mut self.open else { return true };
        match open.get(&partition) {
            Some(end) if offset < *end => true,
            Some(_) => {
                open.remove(&partition);
                false
            }
            None => false,
        }
    }

    /// A record was taken: the last before its partition's end ends it.
    pub(super) fn took(&mut self, partition: i32, offset: i64) {
        if let Some(open) = &mut self.open
            && open.get(&partition).is_some_and(|end| offset + 1 >= *end)
        {
            open.remove(&partition);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_end_at_an_offset_behind_it_or_where_their_records_do() {
        let place = |partition| Place { topic: "t".to_owned(), partition };
        let next: BTreeMap<Place, i64> = (0..4).map(|n| (place(n), 10)).collect();
        let until: BTreeMap<Place, i64> = [(place(0), 12), (place(1), 12), (place(2), 20), (place(3), 10)].into();
        let mut ends = Ends::new(&next, Some(&until));
        assert!(!ends.takes(3, 10), "it was empty from the start");
        assert!(ends.takes(0, 10));
        ends.took(0, 10);
        assert!(ends.takes(0, 11));
        ends.took(0, 11);
        assert!(!ends.takes(0, 12));
        // Offset 11 was a marker.
        assert!(!ends.takes(1, 12) && !ends.all());
        ends.end(2);
        assert!(ends.all());
        let mut never = Ends::new(&next, None);
        never.end(0);
        assert!(never.takes(0, i64::MAX) && !never.all());
    }
}

use proptest::prelude::*;

use super::*;
use crate::clock::{Minute, Timestamp};
use crate::coordinate::SourceId;
use crate::coverage::Filtered;
use crate::id::{CommitId, SeededIds};

fn at() -> TopicPartition {
    TopicPartition { source: SourceId::of("cluster"), topic: "orders".to_owned(), partition: 3 }
}

fn set(offsets: impl IntoIterator<Item = i64>) -> Intervals {
    offsets.into_iter().map(|o| Interval::new(o, o).unwrap()).collect()
}

/// An object of one partition: per offset `r`ow, `f`iltered, `d`ead, or `.` not delivered.
fn object(first: i64, what: &str) -> Coverage {
    let of = |wanted: char| set(what.chars().enumerate().filter(|(_, c)| *c == wanted).map(|(n, _)| first + n as i64));
    let (rows, filtered, dead) = (of('r'), of('f'), of('d'));
    let delivered = rows.union(&filtered).union(&dead);
    let mut coverage = Coverage::default();
    if let Some(hull) = delivered.hull() {
        let sample = |offset| Sample { offset, timestamp_ms: Some(1000 + offset) };
        let covered = PartitionCoverage {
            filtered: if filtered.is_empty() { BTreeMap::new() } else { [(Filtered::Tombstone, filtered)].into() },
            delivered,
            dead,
            first: sample(hull.first()),
            last: sample(hull.last()),
        };
        coverage.insert(at(), covered).unwrap();
    }
    coverage
}

#[test]
fn a_topic_made_again_counts_under_its_newest_epoch() {
    let mut ledger = Ledger::empty(minute(0));
    let elsewhere = TopicPartition { topic: "others".to_owned(), ..at() };
    let two = TopicPartition { partition: 2, ..at() };
    ledger.epochs = vec![
        crate::ledger::Epoch::new(&at().source, "orders", None, minute(10)),
        crate::ledger::Epoch::new(&at().source, "orders", Some(3), minute(20)),
    ];
    let counted = |at: &TopicPartition, n| ledger.counted(at, minute(n)).source;
    let (first, second) = (ledger.epochs[0].counts_as.clone(), ledger.epochs[1].counts_as.clone());
    assert_eq!(
        (counted(&at(), 9), counted(&at(), 10), counted(&at(), 20)),
        (at().source, first.clone(), second.clone())
    );
    assert_eq!(
        (counted(&two, 9), counted(&two, 25), counted(&elsewhere, 25)),
        (at().source, first.clone(), at().source)
    );
    assert!(first != second && *ledger.origin(&second) == at().source && *ledger.origin(&at().source) == at().source);
}

fn minute(n: i64) -> Minute {
    Timestamp::from_micros(0).minute().plus(n)
}

/// The smallest harness that folds: a ledger, and the exact undelivered lists that settlements would hold.
struct Table {
    ledger: Ledger,
    undelivered: Undelivered,
    rows: Vec<i64>,
    ids: SeededIds,
}

impl Table {
    fn new() -> Self {
        Self {
            ledger: Ledger::empty(minute(0)),
            undelivered: Undelivered::default(),
            rows: Vec::new(),
            ids: SeededIds::new(1),
        }
    }

    fn fold(&mut self, objects: &[(u64, Coverage)]) -> Judgement {
        let keys: Vec<String> = (0..objects.len()).map(|n| format!("{n:03}")).collect();
        let staged: Vec<Staged<'_>> = objects
            .iter()
            .zip(&keys)
            .map(|((apply_sequence, coverage), key)| Staged {
                key,
                precedence: Precedence { apply_sequence: *apply_sequence, registry_version: 0 },
                origin: Origin::Stream,
                coverage,
                limits: None,
            })
            .collect();
        let known = Known { ledger: &self.ledger, undelivered: &self.undelivered, open_holes: false };
        let judgement = judge(&known, &staged);
        for (n, admitted) in judgement.admitted.iter().enumerate() {
            for (at, offsets) in admitted {
                let filtered = objects[n].1.get(at).unwrap().filtered_any();
                self.rows.extend(offsets.subtract(&filtered).as_slice().iter().flat_map(|i| i.first()..=i.last()));
            }
        }
        let next = self
            .ledger
            .settle(&judgement, &CommitId::new(&self.ids), self.ledger.low_minute, Timestamp::from_micros(0))
            .unwrap();
        for (at, settled) in &judgement.partitions {
            let old = self.undelivered.listed.entry(at.clone()).or_default();
            *old = old.subtract(&settled.found).union(&settled.undelivered);
        }
        self.ledger = next;
        judgement
    }

    fn partition(&self) -> crate::ledger::PartitionLedger {
        self.ledger.partition(&at()).cloned().unwrap_or_default()
    }
}

/// The verdict of an object at an offset, by the definition.
fn verdict(coverage: &Coverage, offset: i64) -> Option<Verdict> {
    let covered = coverage.get(&at())?;
    let hull = Intervals::from(covered.delivered.hull()?);
    if covered.decided().contains(offset) {
        Some(Verdict::Decided)
    } else if covered.dead.contains(offset) {
        Some(Verdict::Dead)
    } else {
        hull.contains(offset).then_some(Verdict::Undelivered)
    }
}

fn objects() -> impl Strategy<Value = Vec<(u64, Coverage)>> {
    prop::collection::vec(
        (0u64..3, 0i64..20, "[rfd.]{1,8}").prop_map(|(s, first, what)| (s, object(first, &what))),
        0..5,
    )
}

proptest! {
    /// Folding twice is folding once with everything: the strongest word about each coordinate holds, rows enter once,
    /// and the sets of the ledger are what the definition says, whatever the cut into folds.
    #[test]
    fn the_strongest_verdict_holds_and_rows_enter_once(folds in prop::collection::vec(objects(), 1..5)) {
        let mut table = Table::new();
        let mut seen: Vec<&Coverage> = Vec::new();
        for fold in &folds {
            let before = table.ledger.clone();
            let judgement = table.fold(fold);
            let found = judgement.partitions.iter().map(|(at, s)| (at.clone(), s.found.clone())).collect();
            prop_assert!(before.included_in(&table.ledger, &found).is_ok());
            seen.extend(fold.iter().map(|(_, c)| c));
        }
        let best = |offset| seen.iter().filter_map(|c| verdict(c, offset)).max();
        let partition = table.partition();
        for offset in 0..40 {
            match best(offset) {
                Some(Verdict::Decided) => {
                    prop_assert!(partition.reached.contains(offset) && !partition.dead.contains(offset), "{offset}");
                }
                Some(Verdict::Dead) => prop_assert!(partition.dead.contains(offset), "{offset}"),
                Some(Verdict::Undelivered) => {
                    prop_assert!(partition.reached.contains(offset), "{offset}");
                    prop_assert!(table.undelivered.listed.values().any(|u| u.contains(offset)), "{offset}");
                }
                None => {}
            }
        }
        let mut once: Vec<i64> = table.rows.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(once.len(), table.rows.len());
        // The counts are the sizes of the sets.
        let undelivered: u64 = table.undelivered.listed.values().map(Intervals::count).sum();
        prop_assert_eq!(partition.counts.dead, partition.dead.count());
        prop_assert_eq!(partition.counts.undelivered, undelivered);
        let filtered: u64 = partition.counts.filtered.values().sum();
        prop_assert_eq!(
            partition.reached.count(),
            table.rows.len() as u64 + filtered + partition.counts.dead + partition.counts.undelivered
        );
        // Everything handed over is in one of the counts, but for dead letters that a row has superseded since.
        let handed: u64 = seen.iter().filter_map(|c| c.get(&at())).map(|c| c.delivered.count()).sum();
        prop_assert!(table.rows.len() as u64 + filtered + partition.counts.dead + partition.counts.duplicates <= handed);
    }

    /// Two objects overlap in any way: each coordinate is spoken for by one of them, by the higher precedence.
    #[test]
    fn one_object_speaks_for_a_coordinate(objects in objects()) {
        let judgement = Table::new().fold(&objects);
        let mut spoken: BTreeMap<i64, usize> = BTreeMap::new();
        for (n, admitted) in judgement.admitted.iter().enumerate() {
            for offset in admitted.values().flat_map(|o| o.as_slice()).flat_map(|i| i.first()..=i.last()) {
                prop_assert!(spoken.insert(offset, n).is_none(), "{offset} twice");
            }
        }
        for offset in 0..40 {
            let wanted = objects
                .iter()
                .enumerate()
                .filter(|(_, (_, c))| verdict(c, offset) == Some(Verdict::Decided))
                .min_by_key(|(n, (sequence, _))| (Reverse(*sequence), *n))
                .map(|(n, _)| n);
            prop_assert_eq!(spoken.get(&offset).copied(), wanted, "{}", offset);
        }
    }

    /// The order of objects in the list is no matter; only precedence and keys are.
    #[test]
    fn a_judgement_settles_the_same_in_any_order(objects in objects()) {
        let forward = Table::new().fold(&objects);
        let mut back = objects;
        back.reverse();
        let backward = Table::new().fold(&back);
        let sets = |j: &Judgement| -> Vec<(Intervals, Intervals, Intervals)> {
            j.partitions.values().map(|s| (s.decided.clone(), s.dead.clone(), s.undelivered.clone())).collect()
        };
        prop_assert_eq!(sets(&forward), sets(&backward));
    }
}

fn check(folds: &[&[&str]], reached: &str, dead: &str, undelivered: u64, rows: &[i64], duplicates: u64) {
    let mut table = Table::new();
    for fold in folds {
        let objects: Vec<(u64, Coverage)> = fold
            .iter()
            .map(|text| {
                let (first, what) = text.split_once(':').unwrap();
                (0, object(first.parse().unwrap(), what))
            })
            .collect();
        table.fold(&objects);
    }
    let partition = table.partition();
    let mut found = table.rows.clone();
    found.sort_unstable();
    let name = format!("{folds:?}");
    assert_eq!(partition.reached.to_string(), reached, "{name}");
    assert_eq!(partition.dead.to_string(), dead, "{name}");
    assert_eq!(partition.counts.undelivered, undelivered, "{name}");
    assert_eq!(found, rows, "{name}");
    assert_eq!(partition.counts.duplicates, duplicates, "{name}");
}

#[test]
fn coordinates_settle_as_the_protocol_says() {
    check(&[&["0:rrr"], &["3:rr"]], "0-4", "", 0, &[0, 1, 2, 3, 4], 0);
    // The same batch again, whole and cut elsewhere.
    check(&[&["0:rrr"], &["0:rrr", "2:rr"]], "0-3", "", 0, &[0, 1, 2, 3], 4);
    // A transaction marker inside a batch, and one at a boundary.
    check(&[&["0:r.r"], &["4:r"]], "0-4", "", 2, &[0, 2, 4], 0);
    // Dead, then decoded after all: the row enters once and the dead letter is superseded.
    check(&[&["0:rd"], &["1:r"], &["1:r"]], "0-1", "", 0, &[0, 1], 1);
    // A dead verdict over a row changes nothing.
    check(&[&["0:rr"], &["0:dd"]], "0-1", "", 0, &[0, 1], 2);
    check(&[&["0:rr", "0:dd"]], "0-1", "", 0, &[0, 1], 2);
    // Undelivered, then here after all; and then once more.
    check(&[&["0:r.r"], &["1:r"], &["1:r"]], "0-2", "", 0, &[0, 1, 2], 1);
    check(&[&["0:r.r"], &["1:d"]], "0-2", "1", 0, &[0, 2], 0);
    // Rows below the first settled offset are taken; the hole between stays open.
    check(&[&["10:rr"], &["3:rr"]], "3-4,10-11", "", 0, &[3, 4, 10, 11], 0);
    check(&[&["10:rr"], &["3:rr"], &["5:rrrrr"]], "3-11", "", 0, &[3, 4, 5, 6, 7, 8, 9, 10, 11], 0);
    check(&[&["0:f"]], "0", "", 0, &[], 0);
}

#[test]
fn holes_between_objects_stay_open_while_something_may_still_come() {
    let (a, b) = (object(0, "r.r"), object(6, "r"));
    let ledger = Ledger::empty(minute(0));
    let nothing = Undelivered::default();
    let staged = |coverage, key| Staged {
        key,
        precedence: Precedence::default(),
        origin: Origin::Stream,
        coverage,
        limits: None,
    };
    let objects = [staged(&a, "a"), staged(&b, "b")];
    let settled = |open_holes| {
        let judgement = judge(&Known { ledger: &ledger, undelivered: &nothing, open_holes }, &objects);
        judgement.partitions[&at()].undelivered.to_string()
    };
    assert_eq!(settled(false), "1,3-5");
    assert_eq!(settled(true), "1");
    // What lies between the single records of a replay says nothing.
    let replay = [Staged { origin: Origin::Replay, ..objects[0].clone() }];
    let judgement = judge(&Known { ledger: &ledger, undelivered: &nothing, open_holes: false }, &replay);
    assert_eq!(judgement.partitions[&at()].decided.to_string(), "0,2");
    assert!(judgement.partitions[&at()].undelivered.is_empty());
}

#[test]
fn of_a_late_seen_object_only_what_fills_a_hole_is_used() {
    let (first, filler, beyond) = (object(10, "rrr"), object(8, "rrrrrrr"), object(13, "r"));
    let limits = limits(&[&first], &[&filler, &beyond]);
    assert_eq!(limits[0].as_ref().map(|l| l[&at()]), Some(12));
    assert_eq!(limits[1], None);
    let ledger = Ledger::empty(minute(0));
    let nothing = Undelivered::default();
    let staged = |coverage, key, limits| Staged {
        key,
        precedence: Precedence::default(),
        origin: Origin::Stream,
        coverage,
        limits,
    };
    let judgement = judge(
        &Known { ledger: &ledger, undelivered: &nothing, open_holes: false },
        &[staged(&first, "a", None), staged(&filler, "b", limits[0].clone())],
    );
    assert_eq!(judgement.partitions[&at()].decided.to_string(), "8-12");
}

#[test]
fn samples_stay_few_and_keep_the_ends() {
    let mut table = Table::new();
    for n in 0..200 {
        table.fold(&[(0, object(n * 5, "rrrrr"))]);
    }
    let samples = table.partition().samples;
    assert_eq!(samples.len(), crate::ledger::SAMPLES_MAX);
    assert_eq!((samples[0].offset, samples.last().unwrap().offset), (0, 999));
    assert!(samples.windows(2).all(|p| p[0].offset < p[1].offset));
}

#[test]
fn a_ledger_survives_its_json_and_names_what_it_would_forget() {
    let mut table = Table::new();
    table.fold(&[(0, object(0, "rrd.r"))]);
    let text = serde_json::to_string(&table.ledger).unwrap();
    assert_eq!(Ledger::from_json(&text).unwrap(), table.ledger);
    assert!(matches!(
        Ledger::from_json(&text.replace("ledger/1", "ledger/2")),
        Err(crate::ledger::Error::Refused(crate::stored::Refused::Newer { .. }))
    ));
    assert!(Ledger::from_json("{}").is_err());
    let empty = Ledger::empty(table.ledger.low_minute);
    assert!(empty.included_in(&table.ledger, &BTreeMap::new()).is_ok());
    let lost = table.ledger.included_in(&empty, &BTreeMap::new()).unwrap_err();
    assert!(lost.to_string().contains("would forget 0-4"), "{lost}");
    // A row may not turn into a dead letter.
    let mut worse = table.ledger.clone();
    worse.sources.get_mut(&at().source).unwrap().get_mut("orders").unwrap().get_mut(&3).unwrap().dead = set([1, 2]);
    assert!(table.ledger.included_in(&worse, &BTreeMap::new()).unwrap_err().to_string().contains("would forget 1"));
}

/// Coordinates decided by their object whose rows turn out not to fit: dead from then on, however the object is judged
/// again, until a row for one of them is taken.
#[test]
fn a_buried_coordinate_is_dead_once_and_may_still_be_admitted() {
    let ids = SeededIds::new(1);
    let mut ledger = Ledger::empty(minute(0));
    let mut fold = |coverage: &Coverage, buried: Intervals| {
        let staged =
            Staged { key: "k", precedence: Precedence::default(), origin: Origin::Stream, coverage, limits: None };
        let nothing = Undelivered::default();
        let known = Known { ledger: &ledger, undelivered: &nothing, open_holes: false };
        let mut judgement = judge(&known, &[staged]);
        judgement.bury(&at(), &buried, &ledger);
        let low = ledger.low_minute;
        ledger = ledger.settle(&judgement, &CommitId::new(&ids), low, low.start()).unwrap();
        let partition = ledger.partition(&at()).unwrap().clone();
        let counts = judgement.counts();
        (judgement.is_empty(), partition.dead, partition.counts.dead, counts.dead, counts.duplicates)
    };
    assert_eq!(fold(&object(0, "rrdrf"), set([1, 3, 9])), (false, set([1, 2, 3]), 3, 3, 0));
    assert_eq!(fold(&object(0, "rrrrf"), set([1, 2, 3])), (true, set([1, 2, 3]), 3, 0, 5), "they came again");
    assert_eq!(fold(&object(1, "rrrr"), set([3])), (false, set([3]), 1, 0, 2));
    assert_eq!(fold(&object(1, "rrr"), set([])), (false, set([]), 0, 0, 2));
    assert_eq!(ledger.partition(&at()).unwrap().reached, set(0..5));
}

#[test]
fn what_an_object_decided_is_known_within_its_limits() {
    let coverage = object(4, "rdfr.r");
    let staged = |limits| Staged {
        key: "k",
        precedence: Precedence::default(),
        origin: Origin::Stream,
        coverage: &coverage,
        limits,
    };
    let elsewhere = TopicPartition { partition: 4, ..at() };
    assert_eq!(staged(None).decided(&at()), set([4, 6, 7, 9]));
    assert_eq!(staged(Some([(at(), 6)].into())).decided(&at()), set([4, 6]));
    assert!(staged(Some(BTreeMap::new())).decided(&at()).is_empty() && staged(None).decided(&elsewhere).is_empty());
}

/// Rows at offsets of which nothing says any more whether they were settled: not duplicates, and not admitted.
#[test]
fn a_row_at_an_unlisted_offset_is_stale() {
    let mut table = Table::new();
    table.fold(&[(0, object(0, "r.rfd.r"))]);
    let again = object(0, "rrrfr.r");
    let staged =
        Staged { key: "k", precedence: Precedence::default(), origin: Origin::Stream, coverage: &again, limits: None };
    let listed = BTreeMap::from([(at(), set([5]))]);
    let unlisted = BTreeMap::from([(at(), set([0, 1, 2, 3, 4, 9]))]);
    let undelivered = Undelivered { listed, unlisted, settled: BTreeSet::from(["a".to_owned()]) };
    let known = Known { ledger: &table.ledger, undelivered: &undelivered, open_holes: false };
    let earlier = Staged { key: "a", ..staged.clone() };
    let judgement = judge(&known, &[earlier.clone(), staged.clone(), Staged { key: "l", ..staged }]);
    let settled = &judgement.partitions[&at()];
    // The dead one is admitted as ever; what was filtered and what is known to be settled came again.
    assert_eq!((settled.decided.to_string(), settled.stale.to_string()), ("4".to_owned(), "0-2".to_owned()));
    assert_eq!((settled.counts.stale, settled.counts.duplicates), (3, 18 - 1 - 3));
    let spoken: Vec<_> = judgement.stale.iter().map(|s| s.get(&at()).map(ToString::to_string)).collect();
    assert_eq!(spoken, [None, Some("0-2".to_owned()), None]);
    assert!(!judgement.is_empty());
    let next = table.ledger.settle(
        &judgement,
        &CommitId::new(&SeededIds::new(9)),
        table.ledger.low_minute,
        Timestamp::from_micros(0),
    );
    let (before, after) =
        (table.ledger.partition(&at()).unwrap().clone(), next.unwrap().partition(&at()).unwrap().clone());
    assert_eq!((after.reached, after.counts.undelivered), (before.reached, before.counts.undelivered));
    assert!(after.dead.is_empty() && before.dead.contains(4));
}

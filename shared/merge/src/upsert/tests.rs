use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Int32Array, Int64Array, StringViewArray, TimestampMicrosecondArray};
use proptest::prelude::*;

use super::*;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Plain {
    key: Option<i64>,
    order: Option<i64>,
    deletes: bool,
    timestamp: Option<i64>,
    partition: i32,
    offset: i64,
}

/// A row of the table: what a record made, and the one that marks it as deleted.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    row: Plain,
    by: Option<Plain>,
}

impl Held {
    /// Where it comes from, as the table says.
    fn place(&self) -> Plain {
        self.by.unwrap_or(self.row)
    }
}

const fn live(row: Plain) -> Held {
    Held { row, by: None }
}

/// A row that was deleted. Of one that only a delete made nothing is left but the key.
fn marked(row: Plain, by: Plain) -> Held {
    let row = match row.deletes {
        true => Plain { timestamp: None, partition: 0, offset: 0, order: None, ..row },
        false => row,
    };
    Held { row, by: Some(by) }
}

fn row(key: i64, order: i64, offset: i64) -> Plain {
    Plain { key: Some(key), order: Some(order), deletes: false, timestamp: Some(offset * 10), partition: 0, offset }
}

fn delete(key: i64, offset: i64) -> Plain {
    Plain { order: None, deletes: true, ..row(key, 0, offset) }
}

const fn of(partition: i32, timestamp: i64, row: Plain) -> Plain {
    Plain { partition, timestamp: Some(timestamp), ..row }
}

fn key(rows: &[Plain]) -> Vec<ArrayRef> {
    vec![Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.key)))]
}

fn order(rows: &[Plain], is_ordered: bool) -> Vec<ArrayRef> {
    let column = || Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.order))) as ArrayRef;
    is_ordered.then(column).into_iter().collect()
}

fn topic(row: &Plain) -> &'static str {
    if row.partition % 2 == 0 { "a" } else { "b" }
}

fn origin(rows: &[Plain]) -> Origin {
    Origin {
        topics: StringViewArray::from_iter_values(rows.iter().map(topic)),
        partitions: Int32Array::from_iter_values(rows.iter().map(|row| row.partition)),
        offsets: Int64Array::from_iter_values(rows.iter().map(|row| row.offset)),
        timestamps: TimestampMicrosecondArray::from_iter(rows.iter().map(|row| row.timestamp)),
        ordinals: Int32Array::from_iter_values(rows.iter().map(|_| 0)),
    }
}

/// Folds batches into a table of rows in files of three, as a fold would; gives the table afterwards.
fn fold(how: Deletes, is_ordered: bool, batches: &[Vec<Plain>], table: &[Held]) -> Vec<Held> {
    let order_types = if is_ordered { vec![DataType::Int64] } else { Vec::new() };
    let mut upsert = Upsert::new(&[DataType::Int64], &order_types).unwrap();
    for batch in batches {
        let deletes = batch.iter().any(|row| row.deletes);
        let deletes = deletes.then(|| BooleanArray::from_iter(batch.iter().map(|row| Some(row.deletes))));
        upsert.add(&key(batch), &order(batch, is_ordered), deletes, origin(batch), Epochs::new()).unwrap();
    }
    let files: Vec<&[Held]> = table.chunks(3).collect();
    for (file, rows) in files.iter().enumerate().rev() {
        let plain: Vec<Plain> = rows.iter().map(|held| held.row).collect();
        let positions: Vec<i64> = (0..).take(rows.len()).map(|at| at * 2).collect();
        upsert.meet(&key(&plain), u32::try_from(file).unwrap(), &positions).unwrap();
    }
    for (file, positions) in upsert.matched() {
        let rows: Vec<Held> = positions.iter().map(|at| files[file as usize][(at / 2) as usize]).collect();
        let plain: Vec<Plain> = rows.iter().map(|held| held.row).collect();
        let places: Vec<Plain> = rows.iter().map(Held::place).collect();
        let marked = BooleanArray::from_iter(rows.iter().map(|held| held.by.is_some().then_some(true)));
        upsert
            .versions(file, &positions, &order(&plain, is_ordered), Some(&marked), &origin(&places), &Epochs::new())
            .unwrap();
    }
    let outcome = upsert.finish(how);
    check_counts(&outcome, table.len());
    let at = |file: u32, position: i64| files[file as usize][(position / 2) as usize];
    let mut after: Vec<Held> = Vec::new();
    for (file, rows) in (0..).zip(&files) {
        for (position, held) in (0..).map(|at| at * 2).zip(rows.iter()) {
            if outcome.removed.binary_search(&(file, position)).is_err() {
                after.push(*held);
            }
        }
    }
    for Marked { file, position, by } in &outcome.marked {
        after.push(marked(at(*file, *position).row, batches[by.0][by.1]));
    }
    for (b, enter) in outcome.enter.iter().enumerate() {
        for (r, _) in enter.iter().enumerate().filter(|(_, enters)| *enters == Some(true)) {
            let row = batches[b][r];
            let by = outcome.entering_marked.iter().find(|(row, _)| *row == (b, r));
            after.push(by.map_or_else(|| live(row), |(_, by)| marked(row, batches[by.0][by.1])));
        }
    }
    after
}

/// Rows are what was there, and what was added, less what went.
fn check_counts(outcome: &Outcome, before: usize) {
    let fates = || outcome.fates.iter().flatten();
    let entering: usize = outcome.enter.iter().map(BooleanArray::true_count).sum();
    let added = fates().filter(|fate| **fate == Fate::Added).count();
    let updated = fates().filter(|fate| **fate == Fate::Updated).count();
    assert_eq!(entering, added + updated);
    let gone: u64 = outcome.gone.values().sum();
    let after = before - outcome.removed.len() + outcome.marked.len() + entering;
    assert_eq!(after as u64, before as u64 + added as u64 - gone);
    assert!(outcome.removed.is_sorted_by(|a, b| a < b));
}

/// The rule, record after record, against a table of one row a key.
fn defined(how: Deletes, is_ordered: bool, records: &[Plain]) -> BTreeMap<Option<i64>, Held> {
    let mut table: BTreeMap<Option<i64>, Held> = BTreeMap::new();
    for record in records {
        let there = table.get(&record.key).copied();
        match there {
            _ if record.deletes && how == Deletes::Ignore => {}
            None if record.deletes && how == SOFT => drop(table.insert(record.key, marked(*record, *record))),
            None if record.deletes => {}
            Some(held) if record.deletes => match how {
                Deletes::Soft { .. } => drop(table.insert(record.key, marked(held.row, *record))),
                _ => drop(table.remove(&record.key)),
            },
            Some(held) if held.by.is_none() && is_ordered && record.order < held.row.order => {}
            _ => drop(table.insert(record.key, live(*record))),
        }
    }
    table
}

fn by_key(table: &[Held]) -> BTreeMap<Option<i64>, Held> {
    let map: BTreeMap<_, _> = table.iter().map(|held| (held.row.key, *held)).collect();
    assert_eq!(map.len(), table.len(), "one row a key");
    map
}

fn orders(table: &[Held]) -> Vec<(i64, i64)> {
    let mut rows: Vec<_> = table.iter().map(|held| (held.row.key.unwrap(), held.row.offset)).collect();
    rows.sort_unstable();
    rows
}

const HARD: Deletes = Deletes::Hard;
const SOFT: Deletes = Deletes::Soft { makes_rows: true };
const SOFT_OF_ROWS: Deletes = Deletes::Soft { makes_rows: false };

#[test]
fn the_newest_version_stays_whichever_fold_brings_it() {
    let old = [live(row(1, 5, 0)), live(row(2, 5, 1))];
    // Lower, higher and equal values of `order_by`; a new key.
    let batch = vec![row(1, 4, 2), row(2, 6, 3), row(2, 6, 4), row(3, 1, 5), row(3, 0, 6)];
    assert_eq!(orders(&fold(HARD, true, std::slice::from_ref(&batch), &old)), [(1, 0), (2, 4), (3, 5)]);
    assert_eq!(orders(&fold(HARD, false, &[batch], &old)), [(1, 2), (2, 4), (3, 6)], "by offset alone");
}

#[test]
fn a_null_of_order_by_is_lowest_and_a_null_key_is_a_key() {
    let null = Plain { order: None, ..row(1, 0, 3) };
    let old = [live(row(1, i64::MIN, 0))];
    assert_eq!(orders(&fold(HARD, true, &[vec![null]], &old)), [(1, 0)]);
    let one = Plain { key: None, ..row(0, 1, 1) };
    let two = Plain { key: None, ..row(0, 1, 2) };
    let table = fold(HARD, true, &[vec![one], vec![two]], &[]);
    assert_eq!(table, [live(two)]);
}

#[test]
fn a_delete_needs_no_version_and_the_key_begins_anew() {
    let old = [live(row(1, 9, 0))];
    assert_eq!(fold(HARD, true, &[vec![delete(1, 1)]], &old), []);
    assert_eq!(orders(&fold(HARD, true, &[vec![delete(1, 1), row(1, 2, 2)]], &old)), [(1, 2)]);
    assert_eq!(fold(HARD, true, &[vec![delete(1, 1), row(1, 2, 2), delete(1, 3)]], &old), []);
    assert_eq!(fold(HARD, true, &[vec![delete(1, 1)]], &[]), [], "nothing to delete");
    assert_eq!(orders(&fold(Deletes::Ignore, true, &[vec![delete(1, 1)]], &old)), [(1, 0)]);
}

#[test]
fn a_delete_that_comes_from_before_a_row_leaves_it() {
    let old = [live(row(1, 9, 5))];
    assert_eq!(orders(&fold(HARD, true, &[vec![delete(1, 3)]], &old)), [(1, 5)], "a lower offset");
    let earlier = of(1, 49, delete(1, 3));
    let later = of(1, 51, delete(1, 3));
    assert_eq!(orders(&fold(HARD, true, &[vec![earlier]], &old)), [(1, 5)], "another partition, before");
    assert_eq!(fold(HARD, true, &[vec![later]], &old), [], "and after");
}

#[test]
fn soft_deletes_mark_what_is_there() {
    let old = [live(row(1, 9, 0))];
    let gone = fold(SOFT, true, &[vec![delete(1, 1)]], &old);
    assert_eq!(gone, [marked(row(1, 9, 0), delete(1, 1))]);
    assert_eq!(fold(SOFT, true, &[vec![delete(1, 1)]], &gone), gone, "the same one again");
    assert_eq!(fold(SOFT, true, &[vec![delete(1, 2)]], &gone), [marked(row(1, 9, 0), delete(1, 2))], "a later one");
    let anew = fold(SOFT, true, &[vec![row(1, 1, 3)]], &gone);
    assert_eq!(anew, [live(row(1, 1, 3))], "whatever its values");
    assert_eq!(fold(SOFT, true, &[vec![of(1, 5, row(1, 10, 3))]], &gone), gone, "from before the delete");
    let both = fold(SOFT, true, &[vec![row(2, 1, 4), delete(2, 5)]], &[]);
    assert_eq!(both, [marked(row(2, 1, 4), delete(2, 5))]);
    assert_eq!(fold(HARD, true, &[vec![delete(1, 2)]], &gone), [], "where they have become hard ones");
}

#[test]
fn a_soft_delete_of_a_key_without_a_row_makes_one_where_that_can_be() {
    assert_eq!(fold(SOFT_OF_ROWS, true, &[vec![delete(1, 1)]], &[]), []);
    let made = fold(SOFT, true, &[vec![delete(1, 1), delete(1, 2)]], &[]);
    assert_eq!(made, [marked(delete(1, 2), delete(1, 2))]);
    assert_eq!(fold(SOFT, true, &[vec![row(1, 7, 3)]], &made), [live(row(1, 7, 3))]);
    assert_eq!(fold(SOFT, true, &[vec![of(1, 19, row(1, 7, 3))]], &made), made, "another partition, before");
    assert_eq!(fold(SOFT, true, &[vec![of(1, 21, row(1, 7, 3))]], &made), [live(of(1, 21, row(1, 7, 3)))], "and after");
}

#[test]
fn floats_that_are_equal_are_of_one_version_and_nan_is_greatest() {
    use arrow::array::{Float32Array, Float64Array};
    let newest = |data_type: &DataType, values: ArrayRef| {
        let records: Vec<Plain> = (0..).take(values.len()).map(|offset| row(1, 0, offset)).collect();
        let mut upsert = Upsert::new(&[DataType::Int64], std::slice::from_ref(data_type)).unwrap();
        upsert.add(&key(&records), &[values], None, origin(&records), Epochs::new()).unwrap();
        upsert.finish(HARD).enter[0].iter().position(|enters| enters == Some(true)).unwrap()
    };
    let doubles = |values: &[f64]| newest(&DataType::Float64, Arc::new(Float64Array::from(values.to_vec())));
    assert_eq!((doubles(&[0.0, -0.0]), doubles(&[-0.0, 0.0])), (1, 1));
    assert_eq!((doubles(&[f64::NAN, f64::INFINITY]), doubles(&[-f64::NAN, f64::INFINITY])), (0, 0));
    assert_eq!((doubles(&[f64::NAN, -f64::NAN]), doubles(&[-1.0, -0.0, -2.0])), (1, 1));
    let singles = |values: &[f32]| newest(&DataType::Float32, Arc::new(Float32Array::from(values.to_vec())));
    assert_eq!((singles(&[0.0, -0.0]), singles(&[-f32::NAN, f32::INFINITY])), (1, 0));
    // As stored ones are, too.
    let stored = [row(1, 0, 5)];
    let mut upsert = Upsert::new(&[DataType::Int64], &[DataType::Float64]).unwrap();
    let later = [row(1, 0, 6)];
    upsert.add(&key(&later), &[Arc::new(Float64Array::from(vec![-0.0]))], None, origin(&later), Epochs::new()).unwrap();
    upsert.meet(&key(&stored), 0, &[0]).unwrap();
    let zero: ArrayRef = Arc::new(Float64Array::from(vec![0.0]));
    upsert.versions(0, &[0], &[zero], None, &origin(&stored), &Epochs::new()).unwrap();
    assert_eq!(upsert.finish(HARD).fates, [[Fate::Updated]]);
}

#[test]
fn all_old_rows_of_a_key_go_together() {
    let held = live;
    let old = [held(row(1, 9, 0)), held(row(2, 1, 1)), held(row(1, 3, 2)), held(row(1, 9, 3))];
    let after = fold(HARD, true, &[vec![row(1, 9, 4)]], &old);
    assert_eq!(orders(&after), [(1, 4), (2, 1)]);
    assert_eq!(orders(&fold(HARD, true, &[vec![row(1, 8, 4)]], &old)).len(), 4, "an older one changes nothing");
    assert_eq!(orders(&fold(HARD, true, &[vec![delete(1, 4)]], &old)), [(2, 1)]);
}

#[test]
fn rows_that_no_record_made_give_way() {
    let mut upsert = Upsert::new(&[DataType::Int64], &[]).unwrap();
    let new = [row(1, 0, 0)];
    upsert.add(&key(&new), &[], None, origin(&new), Epochs::new()).unwrap();
    upsert.meet(&key(&new), 7, &[3]).unwrap();
    assert_eq!(upsert.matched(), BTreeMap::from([(7, vec![3])]));
    let nowhere = Origin { topics: StringViewArray::from_iter([None::<&str>]), ..origin(&new) };
    upsert.versions(7, &[3], &[], None, &nowhere, &Epochs::new()).unwrap();
    let outcome = upsert.finish(HARD);
    assert_eq!((outcome.removed, &outcome.fates[0][..]), (vec![(7, 3)], &[Fate::Updated][..]));
}

#[test]
fn what_is_of_a_topic_made_again_comes_later_whatever_its_offset() {
    let mut upsert = Upsert::new(&[DataType::Int64], &[]).unwrap();
    let new = [row(1, 0, 0), delete(2, 1), row(3, 0, 2), row(3, 0, 500)];
    let deletes = BooleanArray::from_iter(new.iter().map(|row| Some(row.deletes)));
    upsert.add(&key(&new), &[], Some(deletes), origin(&new), vec![1, 1, 1, 0]).unwrap();
    let old = [row(1, 0, 100), row(2, 0, 101)];
    upsert.meet(&key(&old), 0, &[0, 1]).unwrap();
    upsert.versions(0, &[0, 1], &[], None, &origin(&old), &vec![0, 0]).unwrap();
    let outcome = upsert.finish(HARD);
    assert_eq!(outcome.removed, [(0, 0), (0, 1)]);
    assert_eq!(outcome.fates, [[Fate::Updated, Fate::Deleted, Fate::Added, Fate::Superseded]]);
}

#[test]
fn the_same_record_again_changes_nothing() {
    let old = [live(row(1, 1, 4))];
    let mut upsert = Upsert::new(&[DataType::Int64], &[DataType::Int64]).unwrap();
    upsert.add(&key(&[old[0].row]), &order(&[old[0].row], true), None, origin(&[old[0].row]), Epochs::new()).unwrap();
    upsert.meet(&key(&[old[0].row]), 0, &[0]).unwrap();
    upsert.versions(0, &[0], &order(&[old[0].row], true), None, &origin(&[old[0].row]), &Epochs::new()).unwrap();
    let outcome = upsert.finish(HARD);
    assert_eq!((outcome.removed.len(), outcome.enter[0].true_count()), (0, 0));
    assert_eq!(outcome.fates, [[Fate::Superseded]]);
}

#[test]
fn a_row_from_before_a_deletion_of_its_key_is_known() {
    let mut deletions = Deletions::new(&[DataType::Int64]).unwrap();
    let deleted = [delete(1, 5), delete(1, 9), delete(2, 7), of(1, 40, delete(3, 2))];
    deletions.add(&key(&deleted), &origin(&deleted), &Epochs::new()).unwrap();
    let rows = [row(1, 1, 8), row(1, 1, 10), row(2, 1, 6), row(4, 1, 0), row(3, 1, 3), row(3, 1, 5)];
    let before: Vec<bool> =
        deletions.before(&key(&rows), &origin(&rows), &Epochs::new()).unwrap().iter().map(Option::unwrap).collect();
    assert_eq!(before, [true, false, true, false, true, false]);
    assert!(deletions.add(&key(&[]), &origin(&deleted), &Epochs::new()).is_err());
}

#[test]
fn arrays_that_do_not_go_together_are_refused() {
    let rows = [row(1, 1, 1)];
    let mut upsert = Upsert::new(&[DataType::Int64], &[DataType::Int64]).unwrap();
    assert!(upsert.add(&key(&rows), &[], None, origin(&rows), Epochs::new()).is_err());
    assert!(upsert.add(&key(&[]), &order(&rows, true), None, origin(&rows), Epochs::new()).is_err());
    assert!(
        upsert
            .add(
                &key(&rows),
                &order(&rows, true),
                Some(BooleanArray::from(vec![true; 2])),
                origin(&rows),
                Epochs::new()
            )
            .is_err()
    );
    assert!(upsert.meet(&key(&rows), 0, &[]).is_err());
    assert!(upsert.versions(0, &[], &order(&rows, true), None, &origin(&rows), &Epochs::new()).is_err());
    assert!(Upsert::new(&[], &[]).is_err());
}

/// Records of a few keys in partitions whose timestamps never run backwards.
fn log() -> impl Strategy<Value = Vec<Plain>> {
    let one = (0..5_i64, 0..4_i64, 0..4_u8, 0..2_i64, 0..2_i32);
    prop::collection::vec(one, 0..40).prop_map(|records| {
        let mut next = [0_i64; 2];
        let mut clock = 0;
        let mut log = Vec::new();
        for (key, order, kind, passes, partition) in records {
            clock += passes;
            let offset = next[partition as usize];
            next[partition as usize] += 1 + passes;
            log.push(Plain {
                key: (key > 0).then_some(key),
                order: (order > 0 && kind > 0).then_some(order),
                deletes: kind == 0,
                timestamp: Some(clock),
                partition,
                offset,
            });
        }
        log
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn of_one_partition_every_cut_into_folds_and_batches_is_the_rule(
        log in log(),
        cuts in prop::collection::vec(0..40_usize, 0..4),
        inner in 1..9_usize,
        is_ordered in any::<bool>(),
        how in prop::sample::select(vec![HARD, SOFT, SOFT_OF_ROWS, Deletes::Ignore]),
    ) {
        let log: Vec<Plain> = (0..).zip(log).map(|(offset, row)| Plain { partition: 0, offset, ..row }).collect();
        let mut ends: Vec<usize> = cuts.into_iter().filter(|cut| *cut < log.len()).collect();
        ends.sort_unstable();
        ends.push(log.len());
        let (mut table, mut from) = (Vec::new(), 0);
        for to in ends {
            let batches: Vec<Vec<Plain>> = log[from..to].chunks(inner).map(<[Plain]>::to_vec).collect();
            table = fold(how, is_ordered, &batches, &table);
            from = to;
        }
        prop_assert_eq!(by_key(&table), defined(how, is_ordered, &log));
    }

    #[test]
    fn the_cut_into_folds_of_several_partitions_changes_nothing(
        log in log(),
        heads in prop::collection::vec((0..20_usize, 0..20_usize), 0..3),
        is_ordered in any::<bool>(),
    ) {
        // Of rows alone; and with deletes that leave their place behind, where that alone tells versions apart.
        let log: Vec<Plain> = log.into_iter().map(|row| Plain { deletes: row.deletes && !is_ordered, ..row }).collect();
        let partition = |n| log.iter().filter(move |row| row.partition == n).copied().collect::<Vec<_>>();
        let (zero, one) = (partition(0), partition(1));
        // Each fold takes what it likes of either partition, in order.
        let (mut a, mut b, mut table) = (0, 0, Vec::new());
        for (of_zero, of_one) in heads.into_iter().chain([(usize::MAX, usize::MAX)]) {
            let (to_a, to_b) = (a.max(of_zero.min(zero.len())), b.max(of_one.min(one.len())));
            table = fold(SOFT, is_ordered, &[one[b..to_b].to_vec(), zero[a..to_a].to_vec()], &table);
            (a, b) = (to_a, to_b);
        }
        let whole = fold(SOFT, is_ordered, std::slice::from_ref(&log), &[]);
        // Which values a deleted row was left with is not told by its place.
        let told = |table: &[Held]| -> BTreeMap<Option<i64>, (Option<Plain>, Option<Plain>)> {
            by_key(table).into_iter().map(|(key, held)| (key, (held.by.is_none().then_some(held.row), held.by))).collect()
        };
        prop_assert_eq!(told(&table), told(&whole));
    }
}

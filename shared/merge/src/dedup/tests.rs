use std::sync::Arc;

use arrow::array::{Int32Array, Int64Array, StringViewArray, TimestampMicrosecondArray};
use arrow::datatypes::Int64Type;
use proptest::prelude::*;

use super::*;

/// One row: key, event time, Kafka timestamp, partition, offset.
type Plain = (Option<i64>, i64, Option<i64>, i32, i64);

fn key(rows: &[Plain]) -> Vec<ArrayRef> {
    vec![Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.0)))]
}

fn times(rows: &[Plain]) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.1)))
}

fn origin(rows: &[Plain]) -> Origin {
    Origin {
        topics: StringViewArray::from_iter_values(rows.iter().map(|row| if row.3 % 2 == 0 { "a" } else { "b" })),
        partitions: Int32Array::from_iter_values(rows.iter().map(|row| row.3)),
        offsets: Int64Array::from_iter_values(rows.iter().map(|row| row.4)),
        timestamps: TimestampMicrosecondArray::from_iter(rows.iter().map(|row| row.2)),
        ordinals: Int32Array::from_iter_values(rows.iter().map(|_| 0)),
    }
}

/// As [`run`], of one batch.
fn one(lookback: i64, batch: &[Plain], table: &[(Option<i64>, Option<i64>)]) -> Vec<bool> {
    run(Some(lookback), &[batch.to_vec()], table).remove(0)
}

fn run(lookback: Option<i64>, batches: &[Vec<Plain>], table: &[(Option<i64>, Option<i64>)]) -> Vec<Vec<bool>> {
    let mut dedup = Dedup::new(&[DataType::Int64], lookback).unwrap();
    for batch in batches {
        dedup.add(&key(batch), lookback.map(|_| times(batch)).as_ref(), origin(batch)).unwrap();
    }
    let held: ArrayRef = Arc::new(Int64Array::from_iter(table.iter().map(|row| row.0)));
    let at: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter(table.iter().map(|row| row.1)));
    dedup.meet(&[held], Some(&at)).unwrap();
    dedup.finish().iter().map(|mask| mask.iter().map(Option::unwrap).collect()).collect()
}

/// As [`run`], the table's rows met one by one in the order given.
fn run_in_order(lookback: Option<i64>, rows: &[Plain], table: &[(Option<i64>, Option<i64>)]) -> Vec<bool> {
    let mut dedup = Dedup::new(&[DataType::Int64], lookback).unwrap();
    dedup.add(&key(rows), lookback.map(|_| times(rows)).as_ref(), origin(rows)).unwrap();
    for (id, time) in table {
        let held: ArrayRef = Arc::new(Int64Array::from(vec![*id]));
        let at: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![*time]));
        dedup.meet(&[held], Some(&at)).unwrap();
    }
    dedup.finish().remove(0).iter().map(Option::unwrap).collect()
}

/// The definition, row by row over everything that stays.
fn defined(lookback: Option<i64>, batches: &[Vec<Plain>], table: &[(Option<i64>, Option<i64>)]) -> Vec<Vec<bool>> {
    let mut order: Vec<(usize, usize)> =
        batches.iter().enumerate().flat_map(|(b, batch)| (0..batch.len()).map(move |r| (b, r))).collect();
    order.sort_by_key(|(b, r)| {
        let row = batches[*b][*r];
        let topic = if row.3 % 2 == 0 { "a" } else { "b" };
        (lookback.map_or(0, |_| row.1), row.2, topic, row.3, row.4)
    });
    let mut stay: Vec<(Option<i64>, Option<i64>)> = table.to_vec();
    let mut enter: Vec<Vec<bool>> = batches.iter().map(|batch| vec![false; batch.len()]).collect();
    for (b, r) in order {
        let (key, time, ..) = batches[b][r];
        let near = |other: &(Option<i64>, Option<i64>)| {
            other.0 == key
                && lookback
                    .is_none_or(|lookback| other.1.is_some_and(|at| at.abs_diff(time) <= lookback.unsigned_abs()))
        };
        if !stay.iter().any(near) {
            stay.push((key, Some(time)));
            enter[b][r] = true;
        }
    }
    enter
}

#[test]
fn chains_are_resolved_from_the_earliest() {
    let chain: Vec<Plain> =
        [30, 10, 20, 0].into_iter().enumerate().map(|(n, t)| (Some(1), t, None, 0, n as i64)).collect();
    // 0 stays, 10 is near it, 20 is near nothing that stays, 30 is near 20.
    assert_eq!(one(10, &chain, &[]), [false, false, true, true]);
    // With 5 in the table: 0 and 10 are near it, 20 stays, 30 is near 20.
    assert_eq!(one(10, &chain, &[(Some(1), Some(5))]), [false, false, true, false]);
    assert_eq!(run(None, &[chain], &[(Some(2), None)]), [[true, false, false, false]], "the first offset");
}

#[test]
fn nulls_are_equal_and_a_lookback_includes_its_ends() {
    let rows: Vec<Plain> = vec![(None, 0, None, 0, 0), (None, 10, None, 0, 1), (Some(0), 0, None, 0, 2)];
    assert_eq!(one(10, &rows, &[]), [true, false, true]);
    assert_eq!(one(9, &rows, &[]), [true, true, true]);
    assert_eq!(one(9, &rows, &[(None, Some(19))]), [true, false, true]);
    assert_eq!(
        run(Some(9), &[rows], &[(None, None)]),
        [[true, true, true]],
        "a row without an event time is near nothing"
    );
}

#[test]
fn keys_that_are_null_in_part_are_keys_of_their_own() {
    let rows: Vec<Plain> = (0..4).map(|offset| (None, 0, None, 0, offset)).collect();
    let column = |values: [Option<i64>; 4]| -> ArrayRef { Arc::new(Int64Array::from_iter(values)) };
    let key = [column([Some(1), None, Some(1), None]), column([None, Some(1), None, None])];
    let mut dedup = Dedup::new(&[DataType::Int64, DataType::Int64], None).unwrap();
    dedup.add(&key, None, origin(&rows)).unwrap();
    assert_eq!(dedup.distinct_keys(), 3);
    let held = [column([None, Some(2), None, None]), column([Some(1), None, Some(2), Some(3)])];
    dedup.meet(&held, None).unwrap();
    let mask: Vec<bool> = dedup.finish()[0].iter().map(Option::unwrap).collect();
    assert_eq!(mask, [true, false, false, true]);
}

#[test]
fn of_equal_event_times_the_first_sent_stays() {
    let rows: Vec<Plain> = vec![
        (Some(1), 0, Some(7), 0, 0),
        (Some(1), 0, Some(6), 1, 9),
        (Some(1), 0, Some(6), 0, 9),
        (Some(1), 0, None, 1, 99),
    ];
    assert_eq!(one(1, &rows, &[]), [false, false, false, true], "no timestamp is lowest");
    assert_eq!(one(1, &rows[..3], &[]), [false, false, true]);
}

#[test]
fn extreme_times_are_times() {
    let rows: Vec<Plain> =
        [i64::MIN, i64::MIN + 5, -1, 0, i64::MAX - 5, i64::MAX].into_iter().map(|t| (Some(1), t, None, 0, t)).collect();
    assert_eq!(one(10, &rows, &[]), [true, false, true, false, true, false]);
    let mut dedup = Dedup::new(&[DataType::Int64], Some(10)).unwrap();
    dedup.add(&key(&rows), Some(&times(&rows)), origin(&rows)).unwrap();
    assert_eq!(dedup.event_times().unwrap(), [(i64::MIN, i64::MIN + 15), (-11, 10), (i64::MAX - 15, i64::MAX)]);
}

#[test]
fn what_was_made_room_for_does_not_grow_and_keeps_to_what_a_row_takes() {
    for rows in [1i64, 1000, 28_672, 28_673, 60_000] {
        let batch: Vec<Plain> = (0..rows).map(|n| (Some(n), n, None, 0, n)).collect();
        let mut dedup = Dedup::new(&[DataType::Int64], Some(10)).unwrap();
        dedup.reserve(batch.len(), 1);
        let (before, row) = (dedup.held_bytes(), size_of::<u32>() + size_of::<i64>());
        dedup.add(&key(&batch), Some(&times(&batch)), origin(&batch)).unwrap();
        assert_eq!(dedup.held_bytes(), before + batch.len() * row, "{rows}");
        // A hash table has four buckets at the least.
        assert!(dedup.held_bytes() <= batch.len() * Dedup::row_bytes(&[DataType::Int64]) + 128, "{rows}");
        assert!(dedup.finish().iter().all(|mask| mask.true_count() == batch.len()));
    }
    assert!(Dedup::row_bytes(&[DataType::Utf8View]) > Dedup::row_bytes(&[DataType::Int64]));
}

#[test]
fn arrays_that_do_not_go_together_are_refused() {
    let rows: Vec<Plain> = vec![(Some(1), 0, None, 0, 0)];
    assert!(matches!(Dedup::new(&[], None), Err(Error::Shape(_))));
    let mut dedup = Dedup::new(&[DataType::Int64], Some(1)).unwrap();
    assert!(matches!(dedup.add(&key(&rows), None, origin(&rows)), Err(Error::Shape(_))));
    let null: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![None]));
    assert!(matches!(dedup.add(&key(&rows), Some(&null), origin(&rows)), Err(Error::Shape(_))));
    assert!(matches!(dedup.add(&key(&rows), Some(&times(&rows)), origin(&[])), Err(Error::Shape(_))));
}

#[test]
fn the_distinct_keys_come_back_as_they_were() {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(7), None, Some(7)]));
    let text = StringViewArray::from(vec![Some("a text that is not inlined"), Some(""), None, Some(""), None]);
    let rows: Vec<Plain> = (0..5).map(|offset| (None, 0, None, 0, offset)).collect();
    let mut dedup = Dedup::new(&[DataType::Int64, DataType::Utf8View], None).unwrap();
    assert!(dedup.keys().unwrap().iter().all(|column| column.is_empty()));
    dedup.add(&[ids, Arc::new(text)], None, origin(&rows)).unwrap();
    let keys = dedup.keys().unwrap();
    assert_eq!(keys[0].as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(i64::MIN), None, Some(7)]);
    let text: Vec<_> = keys[1].as_string_view().iter().collect();
    assert_eq!(text, [Some("a text that is not inlined"), Some(""), None]);
}

proptest! {
    #[test]
    fn the_order_in_which_the_tables_rows_are_met_does_not_matter(
        lookback in prop_oneof![Just(None), (0i64..8).prop_map(Some)],
        rows in prop::collection::vec((prop::option::of(0i64..4), 0i64..40), 0..40),
        (table, order) in prop::collection::vec((prop::option::of(0i64..4), prop::option::of(0i64..40)), 0..12)
            .prop_flat_map(|table| (Just(table.clone()), Just(table).prop_shuffle())),
    ) {
        let rows: Vec<Plain> = rows.into_iter().zip(0..).map(|((k, t), offset)| (k, t, None, 0, offset)).collect();
        let expected = run(lookback, std::slice::from_ref(&rows), &table).remove(0);
        prop_assert_eq!(&run_in_order(lookback, &rows, &order), &expected);
        prop_assert_eq!(&run_in_order(lookback, &rows, &table), &expected);
    }

    #[test]
    fn the_masks_are_the_definition(
        lookback in prop_oneof![Just(None), (0i64..8).prop_map(Some)],
        rows in prop::collection::vec((prop::option::of(0i64..4), 0i64..40, prop::option::of(0i64..3), 0i32..3), 0..60),
        cut in 0usize..60,
        table in prop::collection::vec((prop::option::of(0i64..4), prop::option::of(0i64..40)), 0..12),
    ) {
        let rows: Vec<Plain> = rows.into_iter().zip(0..).map(|((k, t, s, p), offset)| (k, t, s, p, offset)).collect();
        let (left, right) = rows.split_at(cut.min(rows.len()));
        let batches = [left.to_vec(), right.to_vec()];
        prop_assert_eq!(run(lookback, &batches, &table), defined(lookback, &batches, &table));
    }
}

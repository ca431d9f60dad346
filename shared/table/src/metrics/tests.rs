use std::cmp::Ordering;
use std::sync::Arc;

use super::*;
use crate::schema::{Strings, arrow_schema};
use crate::testing::{array, column, primitives, schema};
use arrow::array::{ArrayRef, Int64Array, ListArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Int32Type};
use iceberg::spec::{NestedField, PrimitiveLiteral, Type};
use proptest::prelude::*;

fn properties(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn modes_come_from_properties_as_other_writers_read_them() {
    let schema = schema(&[("a", "int"), ("b.c", "string"), ("p", "struct<q: int>"), ("tags", "list<int>")]);
    let check = |pairs: &[(&str, &str)], sorted: &[i32], expected: [Mode; 3]| {
        let modes = Modes::new(&properties(pairs), &schema, sorted).unwrap();
        let q = schema.field_id_by_name("p.q").unwrap();
        assert_eq!([modes.of(1), modes.of(2), modes.of(q)], expected, "{pairs:?}");
    };
    let default = "write.metadata.metrics.default";
    let inferred = "write.metadata.metrics.max-inferred-column-defaults";
    let t16 = Mode::Truncate(16);
    check(&[], &[], [t16; 3]);
    check(&[(default, "full")], &[], [Mode::Full; 3]);
    check(
        &[(default, "counts"), ("write.metadata.metrics.column.b.c", "truncate(3)")],
        &[1],
        [t16, Mode::Truncate(3), Mode::Counts],
    );
    check(&[(inferred, "1")], &[], [t16, Mode::None, Mode::None]);
    check(&[(inferred, "1")], &[2], [t16, t16, Mode::None]);
    check(&[(default, "none"), ("write.metadata.metrics.column.gone", "full")], &[], [Mode::None; 3]);
    for bad in [(default, "some"), (default, "truncate(0)"), (inferred, "few"), ("write.metadata.metrics.column.a", "")]
    {
        let fault = Modes::new(&properties(&[bad]), &schema, &[]).unwrap_err();
        assert!(fault.to_string().contains(bad.0), "{fault}");
    }
}

fn collect(schema: &Schema, mode: Mode, batches: &[RecordBatch]) -> Metrics {
    let mut collector = Collector::new(schema, &Modes::all(mode));
    batches.iter().for_each(|batch| collector.update(batch).unwrap());
    collector.finish().unwrap()
}

#[test]
fn nulls_of_a_struct_are_nulls_of_its_fields_and_repeated_fields_have_no_figures() {
    let schema = schema(&[("p", "struct<q: long>"), ("tags", "list<int>")]);
    let arrow = arrow_schema(&schema, Strings::Views).unwrap();
    let DataType::Struct(fields) = arrow.field(0).data_type().clone() else { panic!() };
    let q: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), Some(-7), None, Some(3)]));
    let p = StructArray::new(fields, vec![q], Some(NullBuffer::from(vec![true, false, true, true])));
    let tags = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1)]), None, None, None]);
    let DataType::List(element) = arrow.field(1).data_type().clone() else { panic!() };
    let tags = ListArray::new(element, tags.offsets().clone(), Arc::clone(tags.values()), tags.nulls().cloned());
    let batch = RecordBatch::try_new(arrow, vec![Arc::new(p), Arc::new(tags)]).unwrap();
    let metrics = collect(&schema, Mode::Full, &[batch]);
    let q = schema.field_id_by_name("p.q").unwrap();
    assert_eq!(metrics.value_counts, HashMap::from([(q, 4)]));
    assert_eq!(metrics.null_value_counts, HashMap::from([(q, 2)]));
    assert_eq!(metrics.lower_bounds, HashMap::from([(q, Datum::long(3))]));
    assert_eq!(metrics.upper_bounds, HashMap::from([(q, Datum::long(5))]));
    assert!(metrics.nan_value_counts.is_empty());
}

#[test]
fn a_decimal_beyond_its_column_is_refused() {
    let schema = schema(&[("d", "decimal(3, 1)")]);
    let values = [Some(PrimitiveLiteral::Int128(1000))];
    let array = array(&PrimitiveType::Decimal { precision: 3, scale: 1 }, &values, Strings::Views);
    let batch = RecordBatch::try_new(arrow_schema(&schema, Strings::Views).unwrap(), vec![array]).unwrap();
    let mut collector = Collector::new(&schema, &Modes::all(Mode::Full));
    collector.update(&batch).unwrap();
    assert!(collector.finish().unwrap_err().to_string().contains("more digits"));
}

/// Iceberg's order, NaN apart: by value, floats with -0.0 before 0.0, text and bytes by unsigned bytes.
fn order(a: &PrimitiveLiteral, b: &PrimitiveLiteral) -> Ordering {
    use PrimitiveLiteral::{Double, Float};
    match (a, b) {
        (Float(a), Float(b)) => a.0.total_cmp(&b.0),
        (Double(a), Double(b)) => a.0.total_cmp(&b.0),
        _ => a.partial_cmp(b).unwrap(),
    }
}

proptest! {
    #[test]
    fn every_value_lies_within_its_bounds_and_full_bounds_are_tight(
        (data_type, values) in prop::sample::select(primitives()).prop_flat_map(|data_type| {
            let values = (0usize..30).prop_flat_map({
                let data_type = data_type.clone();
                move |rows| column(&data_type, rows)
            });
            (Just(data_type), values)
        }),
        cut in 0usize..30,
        mode in prop_oneof![
            Just(Mode::None), Just(Mode::Counts), Just(Mode::Full), (1u32..20).prop_map(Mode::Truncate)
        ],
        views: bool,
    ) {
        let strings = if views { Strings::Views } else { Strings::Plain };
        let field = NestedField::optional(1, "c", Type::Primitive(data_type.clone()));
        let schema = Schema::builder().with_fields([Arc::new(field)]).build().unwrap();
        let arrow = arrow_schema(&schema, strings).unwrap();
        let batch = RecordBatch::try_new(arrow, vec![array(&data_type, &values, strings)]).unwrap();
        let cut = cut.min(values.len());
        let metrics = collect(&schema, mode, &[batch.slice(0, cut), batch.slice(cut, values.len() - cut)]);
        let (lower, upper) = (metrics.lower_bounds.get(&1), metrics.upper_bounds.get(&1));
        if mode == Mode::None {
            prop_assert_eq!(metrics, Metrics::default());
            return Ok(());
        }
        let present: Vec<&PrimitiveLiteral> = values.iter().flatten().collect();
        let nans = present.iter().filter(|v| v.is_nan()).count() as u64;
        let floating = matches!(data_type, PrimitiveType::Float | PrimitiveType::Double);
        prop_assert_eq!(metrics.value_counts[&1], values.len() as u64);
        prop_assert_eq!(metrics.null_value_counts[&1], (values.len() - present.len()) as u64);
        prop_assert_eq!(metrics.nan_value_counts.get(&1).copied(), floating.then_some(nans));
        let ordered: Vec<&PrimitiveLiteral> = present.into_iter().filter(|v| !v.is_nan()).collect();
        if mode == Mode::Counts || ordered.is_empty() {
            prop_assert_eq!((lower, upper), (None, None));
            return Ok(());
        }
        // Through the bytes that a manifest holds.
        let back = |bound: &Datum| {
            Datum::try_from_bytes(&bound.to_bytes().unwrap(), data_type.clone()).unwrap().literal().clone()
        };
        let lower = back(lower.expect("a lower bound always exists"));
        let upper = upper.map(back);
        for value in &ordered {
            prop_assert!(order(&lower, value).is_le(), "{:?} is below {:?}", value, lower);
            if let Some(upper) = &upper {
                prop_assert!(order(value, upper).is_le(), "{:?} is above {:?}", value, upper);
            }
        }
        let least = ordered.iter().copied().min_by(|a, b| order(a, b)).unwrap();
        let greatest = ordered.iter().copied().max_by(|a, b| order(a, b)).unwrap();
        match (mode, &data_type) {
            (Mode::Truncate(width), PrimitiveType::String) => {
                let PrimitiveLiteral::String(text) = &lower else { panic!() };
                prop_assert!(text.chars().count() <= width as usize);
                if let Some(PrimitiveLiteral::String(text)) = &upper {
                    prop_assert!(text.chars().count() <= width as usize);
                } else {
                    // Only a run of the last code point has nothing of this length above it.
                    let PrimitiveLiteral::String(text) = greatest else { panic!() };
                    prop_assert!(text.chars().take(width as usize).all(|c| c == char::MAX));
                }
            }
            (Mode::Truncate(width), PrimitiveType::Binary | PrimitiveType::Fixed(_)) => {
                let PrimitiveLiteral::Binary(bytes) = &lower else { panic!() };
                prop_assert!(bytes.len() <= width as usize);
                if upper.is_none() {
                    let PrimitiveLiteral::Binary(bytes) = greatest else { panic!() };
                    prop_assert!(bytes.iter().take(width as usize).all(|b| *b == 255));
                }
            }
            // OrderedFloat calls the two zeros equal, which is the width that bounds of zero have.
            _ => prop_assert_eq!((&lower, upper.as_ref()), (least, Some(greatest))),
        }
    }
}

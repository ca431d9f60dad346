use super::*;
use crate::schema::Strings;
use crate::testing::{array, column as values_of, primitives, values};
use iceberg::spec::PrimitiveLiteral::{Binary, Int, Int128, Long, String as Text, UInt128};
use proptest::prelude::*;

/// The same answer for one value and for a column of it.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a table of cases reads better without references")]
fn check(transform: Transform, source: &PrimitiveType, value: &PrimitiveLiteral, expected: Option<PrimitiveLiteral>) {
    let single = super::value(transform, source, Some(value)).unwrap();
    assert_eq!(single, expected, "{transform} of {value:?}");
    for strings in [Strings::Plain, Strings::Views] {
        let array = column(transform, &array(source, &[Some(value.clone()), None], strings)).unwrap();
        let result = result_type(transform, source).unwrap();
        assert_eq!(values(&array, &result), [expected.clone(), None], "{transform} of {value:?} in a column");
    }
}

#[test]
fn times_count_whole_units_from_1970_rounding_down() {
    let cases: [(i64, [i32; 4]); 9] = [
        (-1, [-1, -1, -1, -1]),
        (-3_600_000_000, [-1, -1, -1, -1]),
        (-3_600_000_001, [-1, -1, -1, -2]),
        (-86_400_000_000, [-1, -1, -1, -24]),
        (-86_400_000_001, [-1, -1, -2, -25]),
        (-86_400_000_002, [-1, -1, -2, -25]),
        (3_599_999_999, [0, 0, 0, 0]),
        (-62_135_596_800_000_000, [-1969, -23_628, -719_162, -17_259_888]),
        (253_402_300_799_999_999, [8029, 96_359, 2_932_896, 70_389_527]),
    ];
    let transforms = [Transform::Year, Transform::Month, Transform::Day, Transform::Hour];
    for (micros, expected) in cases {
        for (transform, expected) in transforms.into_iter().zip(expected) {
            check(transform, &PrimitiveType::Timestamp, &Long(micros), Some(Int(expected)));
            check(transform, &PrimitiveType::Timestamptz, &Long(micros), Some(Int(expected)));
            // Where nanoseconds reach, the last of the microsecond lies in the same unit.
            if let Some(nanos) = micros.checked_mul(1000) {
                check(transform, &PrimitiveType::TimestampNs, &Long(nanos), Some(Int(expected)));
                check(transform, &PrimitiveType::TimestamptzNs, &Long(nanos + 999), Some(Int(expected)));
            }
        }
    }
    check(Transform::Hour, &PrimitiveType::TimestampNs, &Long(-1), Some(Int(-1)));
    for (transform, expected) in [(Transform::Year, -2), (Transform::Month, -13), (Transform::Day, -366)] {
        check(transform, &PrimitiveType::Date, &Int(-366), Some(Int(expected)));
    }
    let far = super::value(Transform::Hour, &PrimitiveType::Timestamp, Some(&Long(i64::MAX)));
    assert!(far.unwrap_err().to_string().contains("too far"));
}

#[test]
fn hashes_and_buckets_equal_other_engines() {
    let decimal = PrimitiveType::Decimal { precision: 9, scale: 2 };
    let date = PrimitiveType::Date;
    let cases: Vec<(PrimitiveType, PrimitiveLiteral, i32, i32)> = vec![
        (PrimitiveType::Int, Int(-9), -714_281_095, 9),
        (PrimitiveType::Long, Long(-9), -714_281_095, 9),
        (date.clone(), Int(-1), 1_651_860_712, 8),
        (decimal.clone(), Int128(-100), -608_597_965, 3),
        (decimal.clone(), Int128(128), 1_544_076_949, 5),
        (decimal.clone(), Int128(-128), 267_099_677, 13),
        (decimal.clone(), Int128(-129), -435_537_839, 1),
        (decimal.clone(), Int128(255), -582_037_868, 4),
        (decimal.clone(), Int128(0), 1_364_076_727, 7),
        (PrimitiveType::String, Text("Zürich".to_owned()), 694_770_001, 1),
        (PrimitiveType::String, Text(String::new()), 0, 0),
        (PrimitiveType::Timestamp, Long(-2), -1_438_076_027, 5),
        (PrimitiveType::TimestampNs, Long(-1001), -1_438_076_027, 5),
        (PrimitiveType::Uuid, UInt128(0xff), -1_454_378_802, 14),
        (PrimitiveType::Binary, Binary(vec![0xff, 0]), -1_309_567_588, 12),
        // The specification's own.
        (PrimitiveType::Int, Int(34), 2_017_239_379, 3),
        (PrimitiveType::Long, Long(34), 2_017_239_379, 3),
        (decimal, Int128(1420), -500_754_589, 3),
        (date, Int(17_486), -653_330_422, 10),
        (PrimitiveType::Time, Long(81_068_000_000), -662_762_989, 3),
        (PrimitiveType::Timestamptz, Long(1_510_871_468_000_000), -2_047_944_441, 7),
        (PrimitiveType::String, Text("iceberg".to_owned()), 1_210_000_089, 9),
        (PrimitiveType::Uuid, UInt128(0xf79c_3e09_677c_4bbd_a479_3f34_9cb7_85e7), 1_488_055_340, 12),
        (PrimitiveType::Fixed(4), Binary(vec![0, 1, 2, 3]), -188_683_207, 9),
        (PrimitiveType::Binary, Binary(vec![0, 1, 2, 3]), -188_683_207, 9),
    ];
    for (source, value, hash, bucket) in cases {
        assert_eq!(super::bucket::hash(&source, &value).unwrap(), hash, "{value:?}");
        assert_eq!(bucket, (hash & 0x7fff_ffff) % 16, "the table is wrong about {value:?}");
        check(Transform::Bucket(16), &source, &value, Some(Int(bucket)));
    }
}

#[test]
fn truncation_goes_down_and_counts_code_points() {
    let ten = |v, expected| check(Transform::Truncate(10), &PrimitiveType::Int, &Int(v), Some(Int(expected)));
    ten(1, 0);
    ten(-1, -10);
    ten(-10, -10);
    ten(i32::MAX, 2_147_483_640);
    // There is no multiple of ten below the smallest int.
    ten(i32::MIN, 2_147_483_646);
    let decimal = PrimitiveType::Decimal { precision: 9, scale: 2 };
    check(Transform::Truncate(50), &decimal, &Int128(1065), Some(Int128(1050)));
    check(Transform::Truncate(50), &decimal, &Int128(-1), Some(Int128(-50)));
    let text = |v: &str, expected: &str| {
        check(Transform::Truncate(3), &PrimitiveType::String, &Text(v.to_owned()), Some(Text(expected.to_owned())));
    };
    text("iceberg", "ice");
    text("é😀zz", "é😀z");
    text("ab", "ab");
    let binary = PrimitiveType::Binary;
    check(Transform::Truncate(3), &binary, &Binary(vec![1, 2, 3, 4]), Some(Binary(vec![1, 2, 3])));
    check(Transform::Void, &PrimitiveType::Int, &Int(1), None);
}

#[test]
fn a_transform_that_means_nothing_is_refused() {
    for (transform, source) in [
        (Transform::Bucket(0), PrimitiveType::Int),
        (Transform::Truncate(0), PrimitiveType::Int),
        (Transform::Bucket(1 << 31), PrimitiveType::Int),
        (Transform::Bucket(4), PrimitiveType::Double),
        (Transform::Bucket(4), PrimitiveType::Boolean),
        (Transform::Truncate(4), PrimitiveType::Uuid),
        (Transform::Hour, PrimitiveType::Date),
        (Transform::Day, PrimitiveType::Time),
        (Transform::Unknown, PrimitiveType::Int),
    ] {
        assert!(result_type(transform, &source).is_err(), "{transform} of {source}");
    }
}

/// The definitions, in arithmetic wide enough never to overflow.
fn defined(transform: Transform, source: &PrimitiveType, value: &PrimitiveLiteral) -> Option<PrimitiveLiteral> {
    let wide = match value {
        Int(v) => i128::from(*v),
        Long(v) => i128::from(*v),
        Int128(v) => *v,
        _ => 0,
    };
    let down = |n: i128, unit: i128| (n - ((n % unit) + unit) % unit) / unit;
    let nanos = match source {
        PrimitiveType::Date => wide * 86_400_000_000_000,
        PrimitiveType::Timestamp | PrimitiveType::Timestamptz => wide * 1000,
        _ => wide,
    };
    let narrow = |n: i128| i32::try_from(n).ok().map(Int);
    match (transform, value) {
        (Transform::Hour, _) => narrow(down(nanos, 3_600_000_000_000)),
        (Transform::Day, _) => narrow(down(nanos, 86_400_000_000_000)),
        (Transform::Truncate(w), Int(_)) => {
            let rest = ((wide % i128::from(w)) + i128::from(w)) % i128::from(w);
            Some(Int((wide - rest) as i32))
        }
        (Transform::Truncate(w), Long(_)) => {
            let rest = ((wide % i128::from(w)) + i128::from(w)) % i128::from(w);
            Some(Long((wide - rest) as i64))
        }
        (Transform::Truncate(w), Int128(_)) => Some(Int128(down(wide, i128::from(w)) * i128::from(w))),
        (Transform::Truncate(w), Text(v)) => Some(Text(v.chars().take(w as usize).collect())),
        (Transform::Truncate(w), Binary(v)) => Some(Binary(v.iter().copied().take(w as usize).collect())),
        _ => None,
    }
}

proptest! {
    #[test]
    fn transforms_are_what_they_are_defined_to_be(
        (source, values_in) in prop::sample::select(primitives()).prop_flat_map(|source| {
            let values = values_of(&source, 12);
            (Just(source), values)
        }),
        width in 1u32..50,
        views: bool,
    ) {
        let strings = if views { Strings::Views } else { Strings::Plain };
        let from = array(&source, &values_in, strings);
        for transform in [
            Transform::Identity, Transform::Void, Transform::Bucket(width), Transform::Truncate(width), Transform::Year,
            Transform::Month, Transform::Day, Transform::Hour,
        ] {
            let Ok(result) = result_type(transform, &source) else {
                prop_assert!(column(transform, &from).is_err() || source == PrimitiveType::Uuid);
                continue;
            };
            let single: Result<Vec<_>, _> = values_in.iter().map(|v| value(transform, &source, v.as_ref())).collect();
            // Hours beyond an int are refused, both ways.
            let (Ok(single), Ok(got)) = (single, column(transform, &from)) else {
                prop_assert_eq!(transform, Transform::Hour);
                prop_assert!(column(transform, &from).is_err());
                continue;
            };
            prop_assert_eq!(values(&got, &result), single.clone());
            for (v, got) in values_in.iter().zip(single) {
                let (Some(v), true) = (v, matches!(transform, Transform::Day | Transform::Hour | Transform::Truncate(_)))
                else { continue };
                prop_assert_eq!(got, defined(transform, &source, v), "{} of {:?}", transform, v);
            }
        }
    }
}

use super::*;
use crate::schema::Strings;
use crate::testing::{array, column, primitives, schema};
use arrow::array::RecordBatch;
use iceberg::spec::PrimitiveLiteral::{Binary, Boolean, Double, Int, Int128, Long, String as Text, UInt128};
use proptest::prelude::*;
use std::collections::HashMap;

fn field(column: &str, transform: resolved::Transform) -> resolved::PartitionField {
    resolved::PartitionField { column: column.to_owned(), transform }
}

#[test]
fn what_a_pipeline_file_may_ask_for_is_what_a_spec_can_be_made_of() {
    use resolved::Transform::{Bucket, Day, Hour, Identity, Month, Truncate, Void, Year};
    let types = [
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "decimal(9, 2)",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "string",
        "uuid",
        "fixed(4)",
        "binary",
        "struct<x: int>",
        "list<int>",
        "map<string, int>",
    ];
    for data_type in types {
        let schema = schema(&[("c", data_type)]);
        for transform in [Identity, Bucket(4), Truncate(4), Year, Month, Day, Hour, Void] {
            let taken = pipeline::partition::takes(transform, &data_type.parse().unwrap());
            // A whole uuid is a value that manifests can't record yet, and a void one of it neither.
            let recorded = data_type != "uuid" || matches!(transform, Bucket(_));
            let made = spec(&schema, &[field("c", transform)]);
            assert_eq!(made.is_ok(), taken && recorded, "{transform:?} of {data_type}: {made:?}");
        }
    }
}

#[test]
fn paths_are_form_encoded_and_readable() {
    let check = |name: &str, data_type: &str, written, value: Option<PrimitiveLiteral>, expected: &str| {
        let schema = schema(&[(name, data_type)]);
        // Built by Iceberg's builder: a path has to be right for tables that others have made, too.
        let transform = super::transform(written);
        let unbound = UnboundPartitionField::builder()
            .source_id(1)
            .name(pipeline::partition::name(&field(name, written)))
            .transform(transform)
            .build();
        let spec = PartitionSpec::builder(schema.clone()).add_unbound_field(unbound).unwrap().build().unwrap();
        let tuple = Struct::from_iter([value.map(Literal::Primitive)]);
        assert_eq!(path(&spec, &schema, &tuple).unwrap(), expected);
    };
    let text = |value: &str, expected: &str| {
        check("s", "string", resolved::Transform::Identity, Some(Text(value.to_owned())), expected);
    };
    text("a/b", "s=a%2Fb");
    text("a b", "s=a+b");
    text("a+b", "s=a%2Bb");
    text("100%", "s=100%25");
    text("k=v", "s=k%3Dv");
    text("é", "s=%C3%A9");
    text("😀", "s=%F0%9F%98%80");
    text("..", "s=..");
    text("", "s=");
    text("~x*y", "s=%7Ex*y");
    text("a\0b", "s=a%00b");
    use resolved::Transform::{Bucket, Day, Hour, Identity, Month, Truncate, Void, Year};
    check("s", "string", Identity, None, "s=null");
    check("data#1", "string", Identity, Some(Text("x".to_owned())), "data%231=x");
    check("..", "string", Identity, Some(Text("..".to_owned())), "..=..");
    check("id", "long", Bucket(8), Some(Int(3)), "id_bucket=3");
    check("name", "string", Truncate(3), Some(Text("a/b".to_owned())), "name_trunc=a%2Fb");
    check("start_date", "timestamptz", Hour, Some(Int(498_878)), "start_date_hour=2026-11-29-14");
    check("at", "timestamp", Hour, Some(Int(-1)), "at_hour=1969-12-31-23");
    check("at", "timestamp", Day, Some(Int(20_786)), "at_day=2026-11-29");
    check("at", "date", Month, Some(Int(682)), "at_month=2026-11");
    check("at", "date", Month, Some(Int(-1)), "at_month=1969-12");
    check("at", "date", Year, Some(Int(-1969)), "at_year=0001");
    check("at", "date", Year, None, "at_year=null");
    check("id", "long", Void, None, "id_null=null");
    check("d", "date", Identity, Some(Int(-1)), "d=1969-12-31");
    check("t", "time", Identity, Some(Long(36_775_038_194)), "t=10%3A12%3A55.038194");
    check("t", "time", Identity, Some(Long(0)), "t=00%3A00");
    check("t", "timestamp", Identity, Some(Long(1_512_123_175_038_000)), "t=2017-12-01T10%3A12%3A55.038");
    check("t", "timestamptz", Identity, Some(Long(-1)), "t=1969-12-31T23%3A59%3A59.999999Z");
    check("b", "boolean", Identity, Some(Boolean(true)), "b=true");
    check("n", "decimal(9, 2)", Identity, Some(Int128(-5)), "n=-0.05");
    check("n", "decimal(9, 0)", Identity, Some(Int128(120)), "n=120");
    check("n", "double", Identity, Some(Double(1.0.into())), "n=1.0");
    check("u", "uuid", Identity, Some(UInt128(0xff)), "u=00000000-0000-0000-0000-0000000000ff");
    check("b", "binary", Identity, Some(Binary(vec![0xff, 0xfe])), "b=%2F%2F4%3D");
}

#[test]
fn a_spec_names_its_fields_as_iceberg_does_and_refuses_what_makes_no_sense() {
    let schema = schema(&[
        ("id", "long"),
        ("at", "timestamptz"),
        ("place", "struct<city: string>"),
        ("tags", "list<int>"),
        ("u", "uuid"),
    ]);
    use resolved::Transform::{Bucket, Day, Hour, Identity, Truncate};
    let fields =
        [field("id", Bucket(8)), field("at", Hour), field("place.city", Truncate(2)), field("place.city", Identity)];
    let spec_ = spec(&schema, &fields).unwrap();
    let named: Vec<_> = spec_.fields().iter().map(|f| (f.name.as_str(), f.field_id)).collect();
    assert_eq!(named, [("id_bucket", 1000), ("at_hour", 1001), ("place.city_trunc", 1002), ("place.city", 1003)]);
    assert!(spec(&schema, &[]).unwrap().is_unpartitioned());
    for refused in [
        vec![field("nowhere", Identity)],
        vec![field("id", Hour)],
        vec![field("id", Bucket(0))],
        vec![field("tags", Identity)],
        vec![field("place", Identity)],
        vec![field("at", Hour), field("at", Day)],
        vec![field("id", Bucket(8)), field("id", Bucket(4))],
        vec![field("u", Identity)],
    ] {
        assert!(spec(&schema, &refused).is_err(), "{refused:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn rows_meet_exactly_when_their_tuples_are_equal(
        (types, columns) in prop::collection::vec(prop::sample::select(primitives()), 1..4).prop_flat_map(|types| {
            let columns: Vec<_> = types.iter().map(|data_type| column(data_type, 40)).collect();
            (Just(types), columns)
        }),
        cut in 0usize..40,
    ) {
        let fields = types.iter().zip(0..).map(|(data_type, id)| {
            let data_type = Type::Primitive(data_type.clone());
            std::sync::Arc::new(iceberg::spec::NestedField::optional(id + 1, format!("c{id}"), data_type))
        });
        let schema: SchemaRef = std::sync::Arc::new(Schema::builder().with_fields(fields).build().unwrap());
        let by: Vec<_> = (0..types.len()).map(|n| field(&format!("c{n}"), resolved::Transform::Identity)).collect();
        let mut spec = PartitionSpec::builder(schema.clone());
        for field in &by {
            spec = spec.add_partition_field(&field.column, &field.column, Transform::Identity).unwrap();
        }
        let spec = spec.build().unwrap();
        let arrays = types.iter().zip(&columns).map(|(t, values)| array(t, values, Strings::Views)).collect();
        let arrow = crate::schema::arrow_schema(&schema, Strings::Views).unwrap();
        let batch = RecordBatch::try_new(arrow, arrays).unwrap();
        // In two batches, so that numbers are remembered between them.
        let mut partitioner = Partitioner::new(&spec, &schema).unwrap();
        let mut numbers = partitioner.assign(&batch.slice(0, cut)).unwrap();
        numbers.extend(partitioner.assign(&batch.slice(cut, 40 - cut)).unwrap());
        let mut seen: HashMap<u32, Vec<String>> = HashMap::new();
        for (row, number) in numbers.iter().enumerate() {
            let bits = |value: &PrimitiveLiteral| match value {
                Double(v) => format!("{:x}", v.0.to_bits()),
                PrimitiveLiteral::Float(v) => format!("{:x}", v.0.to_bits()),
                other => format!("{other:?}"),
            };
            let tuple = partitioner.tuple(*number).unwrap();
            let expected: Vec<String> = columns.iter().map(|c| c[row].as_ref().map_or("null".to_owned(), bits)).collect();
            let got: Vec<String> = tuple.iter().map(|v| match v {
                Some(Literal::Primitive(v)) => bits(v),
                _ => "null".to_owned(),
            }).collect();
            prop_assert_eq!(&got, &expected);
            prop_assert_eq!(seen.entry(*number).or_insert_with(|| expected.clone()), &expected);
        }
        let distinct: std::collections::HashSet<_> = seen.values().collect();
        prop_assert_eq!(distinct.len(), seen.len());
        prop_assert_eq!(seen.len(), partitioner.len());
    }
}

#[test]
fn a_long_value_makes_a_path_that_every_store_takes() {
    let check = |name: &str, value: &str| {
        let segment = super::segment(name, value);
        assert!(segment.len() <= super::SEGMENT_BYTES_MAX, "{segment}");
        // Still readable as an encoded text: no escape is cut.
        let escapes = segment.split('%').skip(1);
        assert!(
            escapes.into_iter().all(|e| e.len() >= 2 && e.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit)),
            "{segment}"
        );
        segment
    };
    assert_eq!(check("s", "short"), "s=short");
    for n in 30..400 {
        check("s", &"ü".repeat(n));
        check(&"n/".repeat(n), "v");
        check("s", &format!("{}ü", "a".repeat(n)));
    }
    assert_ne!(check("s", &"x".repeat(300)), check("s", &"x".repeat(301)));
}

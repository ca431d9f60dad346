//! Two versions of a schema as one.

use pipeline::resolved::ColumnCase;
use proptest::prelude::*;

use super::generate;
use super::*;

/// A version says what a field was called in the one before it, and what it was before that, the one before says.
#[test]
fn names_are_known_over_several_versions() {
    let check = |own: &str, versions: &[&str], written: &str, expected: &str| {
        let versions: Vec<Schema> = versions.iter().map(|version| record(version)).collect();
        let known = record(own).knowing(&versions.iter().collect::<Vec<_>>());
        assert_eq!(known.digest(), record(own).digest());
        check_read(&record(written), &known, "02", expected);
    };
    let (first, second) = ("a: \"int\"", "b: \"int\" | \"aliases\": [\"a\"]");
    let third = "c: \"int\" | \"aliases\": [\"b\"], \"default\": 7";
    check(third, &[third, second, first], first, "c=1");
    check(third, &[], first, "c=7");
    // Which another field has had since, is that one's.
    let between = "b: \"int\" | \"aliases\": [\"a\"]; a: [\"null\", \"int\"] | \"default\": null";
    check(third, &[third, between, second], first, "c=7");
    let nested = |field: &str| format!("r: {{\"type\": \"record\", \"name\": \"N\", \"fields\": [{field}]}}");
    let field = |name: &str, more: &str| nested(&format!("{{\"name\": \"{name}\", \"type\": \"int\"{more}}}"));
    let (first, second) = (field("a", ""), field("b", ", \"aliases\": [\"a\"]"));
    check(&field("c", ", \"aliases\": [\"b\"]"), &[&second, &first], &first, "r={c:1}");
}
use crate::columns::former_sources;
use crate::source::Brought;
use crate::testing::Random;
use crate::testing::cells;

/// The columns of both, and the rows that their payloads make: ours, then the other's.
fn check(own: &str, other: &str, columns: &[&str], payloads: [&str; 2], expected: [&str; 2]) {
    let versions = [own, other].map(record);
    let united = versions[0].united(&versions[1], ColumnCase::AsIs, &Brought::All).expect("it brings something");
    let planned = plan(&united, &iceberg()).unwrap();
    let types: Vec<String> =
        planned.columns.iter().map(|column| format!("{} {}", column.name, column.data_type)).collect();
    assert_eq!(types, columns, "{own} and {other}");
    for ((version, payload), expected) in versions.iter().zip(payloads).zip(expected) {
        check_read(version, &united, payload, expected);
        assert!(
            united.united(version, ColumnCase::AsIs, &Brought::All).is_none(),
            "{own} and {other}: nothing is new any more"
        );
    }
}

#[test]
fn what_one_lacks_is_null_or_its_default() {
    check(
        "a: \"int\"; b: \"string\"; c: \"int\" | \"default\": 7",
        "d: \"long\"; a: \"int\"",
        &["a int", "b string", "c int", "d long"],
        ["02 0261 04", "06 02"],
        ["a=1 b=\"a\" c=2 d=NULL", "a=1 b=NULL c=7 d=3"],
    );
    let union = "[\"int\", \"string\"]";
    check(
        "a: \"int\"",
        &format!("a: \"int\"; u: {union}"),
        &["a int", "u struct<int: int, string: string>"],
        ["02", "02 02 0278"],
        ["a=1 u=NULL", "a=1 u={int:NULL,string:\"x\"}"],
    );
}

#[test]
fn numbers_are_as_wide_as_the_wider_and_null_is_taken_where_one_takes_it() {
    check(
        "a: \"int\"; f: \"float\"",
        "a: \"long\"; f: \"double\"",
        &["a long", "f double"],
        ["02 0000003f", "04 000000000000e03f"],
        ["a=1 f=0.5", "a=2 f=0.5"],
    );
    check(
        "a: \"int\" | \"default\": 5; b: \"int\"",
        "a: [\"null\", \"int\"]; b: \"int\"; c: \"int\"",
        &["a int", "b int", "c int"],
        ["02 04", "00 04 06"],
        ["a=1 b=2 c=NULL", "a=NULL b=2 c=3"],
    );
    // A default before null was taken is still the default.
    check(
        "a: \"int\" | \"default\": 5; b: \"int\"",
        "b: [\"null\", \"int\"]",
        &["a int", "b int"],
        ["02 04", "00"],
        ["a=1 b=2", "a=5 b=NULL"],
    );
    let decimal = |precision| {
        format!("{{\"type\": \"bytes\", \"logicalType\": \"decimal\", \"precision\": {precision}, \"scale\": 2}}")
    };
    check(
        &format!("d: {}", decimal(5)),
        &format!("d: {}", decimal(9)),
        &["d decimal(9, 2)"],
        ["0201", "0401f4"],
        ["d=1", "d=500"],
    );
}

#[test]
fn what_is_inside_is_united_too() {
    let array = |of: &str| format!("{{\"type\": \"array\", \"items\": {of}}}");
    let inner = |fields: &str| format!("{{\"type\": \"record\", \"name\": \"I\", \"fields\": [{fields}]}}");
    let (a, b) = ("{\"name\": \"a\", \"type\": \"int\"}", "{\"name\": \"b\", \"type\": \"string\"}");
    check(
        &format!("xs: {}", array(&inner(a))),
        &format!("xs: {}", array(&inner(&format!("{b}, {a}")))),
        &["xs list<struct<a: int, b: string>>"],
        ["02 02 00", "02 0278 04 00"],
        ["xs=[{a:1,b:NULL}]", "xs=[{a:2,b:\"x\"}]"],
    );
    let symbols = |list: &str| format!("{{\"type\": \"enum\", \"name\": \"E\", \"symbols\": [{list}]}}");
    check(
        &format!("e: {}; m: {{\"type\": \"map\", \"values\": \"int\"}}", symbols("\"A\", \"B\"")),
        &format!("e: {}; m: {{\"type\": \"map\", \"values\": [\"null\", \"int\"]}}", symbols("\"C\", \"B\"")),
        &["e string", "m map<string, int>"],
        ["02 02 0278 02 00", "00 02 0278 00 00"],
        ["e=\"B\" m={\"x\":1}", "e=\"C\" m={\"x\":NULL}"],
    );
    // A type that leads to itself.
    let list = |more: &str| {
        format!(
            "{{\"type\": \"record\", \"name\": \"L\", \"fields\": [
        {{\"name\": \"v\", \"type\": \"int\"}}, {{\"name\": \"next\", \"type\": [\"null\", \"L\"]}}{more}]}}"
        )
    };
    let more = ", {\"name\": \"w\", \"type\": \"int\"}";
    check(
        &format!("l: {}", list("")),
        &format!("l: {}", list(more)),
        &["l struct<v: int, next: string, w: int>"],
        ["02 02 04 00", "02 02 04 00 06 08"],
        [
            "l={v:1,next:\"{\\\"v\\\":2,\\\"next\\\":null,\\\"w\\\":null}\",w:NULL}",
            "l={v:1,next:\"{\\\"v\\\":2,\\\"next\\\":null,\\\"w\\\":3}\",w:4}",
        ],
    );
}

#[test]
fn what_is_of_another_kind_stays_and_its_values_are_refused() {
    let check = |own: &str, other: &str, payload: &str, path: &str| {
        let (own, other) =
            (record(&format!("{own}; n: \"int\"")), record(&format!("{other}; n: \"int\"; new: \"int\"")));
        let united = own.united(&other, ColumnCase::AsIs, &Brought::All).unwrap();
        let types = |schema: &Schema| plan(schema, &iceberg()).unwrap().columns[0].data_type.clone();
        assert_eq!(types(&united), types(&own));
        refused(&other, &united, payload, Class::IncompatibleSchema, path);
    };
    check("f: \"int\"", "f: \"string\"", "0261 02 02", "f");
    check("f: [\"null\", \"int\"]", "f: [\"null\", \"string\"]", "02 0261 02 02", "f");
    // A column of one type would have to become a struct.
    check("f: [\"null\", \"int\"]", "f: [\"null\", \"int\", \"string\"]", "04 0261 02 02", "f");
    check(
        "f: {\"type\": \"array\", \"items\": \"int\"}",
        "f: {\"type\": \"map\", \"values\": \"int\"}",
        "00 02 02",
        "f",
    );
}

#[test]
fn a_rename_is_followed_from_either_version() {
    let (first, second) = ("name: \"string\"; n: \"int\"", "n: \"int\"; label: \"string\" | \"aliases\": [\"name\"]");
    let versions = [first, second].map(record);
    for (own, other) in [(0, 1), (1, 0)] {
        let united = versions[own].united(&versions[other], ColumnCase::AsIs, &Brought::All);
        let united = united.as_ref().unwrap_or(&versions[own]);
        let columns = plan(united, &iceberg()).unwrap();
        let former = former_sources(united, &columns);
        assert_eq!(former.into_iter().collect::<Vec<_>>(), [("value:label".to_owned(), vec!["value:name".to_owned()])]);
        let row = |version: usize, payload| rows(&versions[version], united, &iceberg(), &[payload]).unwrap().concat();
        for found in [row(0, "0261 02"), row(1, "02 0261")] {
            assert!(found.contains("label=\"a\"") && found.contains("n=1"), "{found}");
        }
    }
    // Neither is the other's field: an alias takes none whose name another has.
    let both = record("label: \"string\" | \"aliases\": [\"name\"]; name: \"string\"");
    assert!(both.united(&both, ColumnCase::AsIs, &Brought::All).is_none());
    let united = record("name: \"string\"").united(&both, ColumnCase::AsIs, &Brought::All).unwrap();
    assert_eq!(plan(&united, &iceberg()).unwrap().columns.len(), 2);
}

/// A default of a record that has got more fields is none: those without one are refused, and never read as something else.
#[test]
fn a_default_that_is_none_any_more_is_used_by_nobody() {
    let inner = |fields: &str| format!("{{\"type\": \"record\", \"name\": \"I\", \"fields\": [{fields}]}}");
    let (a, b) = ("{\"name\": \"a\", \"type\": \"int\"}", "{\"name\": \"b\", \"type\": \"int\"}");
    let own = record(&format!("r: {} | \"default\": {{\"a\": 1}}; n: \"int\"", inner(a)));
    let other = record(&format!("r: {}; n: \"int\"", inner(&format!("{a}, {b}"))));
    let united = own.united(&other, ColumnCase::AsIs, &Brought::All).unwrap();
    refused(&record("n: \"int\""), &united, "02", Class::IncompatibleSchema, "r");
    check_read(&own, &united, "04 02", "r={a:2,b:NULL} n=1");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever another version brings, a record that could be read before is read as it was, into the columns that there were.
    #[test]
    fn what_could_be_read_is_read_as_it_was(seed in any::<u64>()) {
        let mut random = Random(seed);
        let kind = generate::schema(&mut random);
        let version = generate::reader(&kind, &mut random);
        let schemas = [&kind, &version].map(|kind| schema(&generate::text(kind, true).to_string()));
        for (own, other) in [(&schemas[0], &schemas[1]), (&schemas[1], &schemas[0])] {
            let Some(united) = own.united(other, ColumnCase::AsIs, &Brought::All) else { continue };
            let (Ok(before), Ok(after)) = (plan(own, &iceberg()), plan(&united, &iceberg())) else { continue };
            let former = former_sources(&united, &after);
            let decoder = |reader, columns| Decoder::new(&schemas[0], reader, columns).unwrap();
            let mut decoders = [decoder(own, &before), decoder(&united, &after)];
            for _ in 0..5 {
                let payload = generate::payload(&kind, &mut random);
                let [earlier, later] = &mut decoders;
                if earlier.decode(&payload).is_ok() {
                    prop_assert_eq!(later.decode(&payload), Ok(()));
                }
            }
            let [earlier, later] = decoders.each_mut().map(|decoder| cells::of(&decoder.finish().unwrap()));
            for (earlier, later) in earlier.iter().zip(&later) {
                for ((name, cell), column) in earlier.iter().zip(&before.columns) {
                    let is_it = |other: &crate::columns::Column| {
                        let renamed = former.get(&other.source).is_some_and(|all| all.contains(&column.source));
                        other.source == column.source || renamed
                    };
                    let at = after.columns.iter().position(is_it);
                    prop_assert!(at.is_some(), "{} is gone", name);
                    let at = at.unwrap_or_default();
                    // Structs have got members, and so has what is JSON text; a symbol is no longer read as a default.
                    let may_differ = ["{", "\"S"].iter().any(|part| cell.to_string().contains(part));
                    if after.columns[at].data_type == column.data_type && !may_differ {
                        prop_assert!(cells::same(&later[at].1, cell), "{}: {} {}", name, cell, later[at].1);
                    }
                }
            }
        }
    }
}

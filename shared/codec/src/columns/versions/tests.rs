use pipeline::Environment;
use pipeline::route::{Part, Route};

use super::*;
use crate::avro;
use crate::protobuf;

/// A pipeline that adds columns, with the lines of its `[table]`.
fn pipeline(format: &str, table: &str) -> Pipeline {
    let text = format!(
        "[source]\ntopics = [\"t\"]\n[value]\nformat = \"{format}\"\nframing = \"confluent\"\n\
         schema = {{ registry = \"main\", name = \"r\", message = \"M\" }}\n[table]\nname = \"db.t\"\nrecord_columns = false\n{table}"
    );
    let text = if format == "avro" { text.replace(", message = \"M\"", "") } else { text };
    let registry = pipeline::environment::Registry::Files { dir: "registry".into() };
    let environment = Environment { registries: [("main".to_owned(), registry)].into(), ..Environment::embedded("/p") };
    pipeline::file::parse(&text, &environment, "/p/pipelines/t.toml".as_ref())
        .unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn avro(fields: &[&str]) -> Schema {
    let text = format!("{{\"type\": \"record\", \"name\": \"M\", \"fields\": [{}]}}", fields.join(", "));
    avro::Schema::parse(&text, &[]).unwrap().into()
}

fn field(name: &str, of: &str) -> String {
    format!("{{\"name\": \"{name}\", \"type\": [\"null\", {of}], \"default\": null}}")
}

fn renamed(name: &str, was: &str) -> String {
    format!("{{\"name\": \"{name}\", \"type\": \"string\", \"aliases\": [\"{was}\"]}}")
}

fn proto(fields: &str) -> Schema {
    let text = format!("syntax = \"proto3\"; message M {{ {fields} }}");
    protobuf::schema::from_text(&[("m.proto", &text)], "M").unwrap().into()
}

/// Judges versions, the newest first, and unites those that are met in this order. Gives the verdict of each as far as it is no, and
/// the columns of all that are met as `name type source (former)`.
fn judge(pipeline: &Pipeline, listed: &[Schema], met: &[usize]) -> (Vec<usize>, Vec<String>) {
    let own = Own::new(listed[0].clone(), (1..).zip(listed.iter().cloned()).collect());
    let tables = plan_tables(&own, pipeline).unwrap_or_else(|faults| panic!("{faults:?}"));
    let mut versions = Versions::new(pipeline, own, tables);
    let listed_so: Vec<usize> = versions.refused().iter().map(|(number, _)| *number as usize - 1).collect();
    let mut united = United::of(versions.own());
    let mut refused = Vec::new();
    for place in met {
        match versions.judge(pipeline, &listed[*place]) {
            Ok(reading) => {
                united.add(&reading).unwrap();
                versions.name(&mut united);
            }
            Err(rejected) => {
                assert_eq!(rejected.class, Class::IncompatibleSchema);
                refused.push(*place);
            }
        }
    }
    let column = |column: &Column| {
        let former = united.former.get(&column.source).map_or(String::new(), |former| {
            let former: std::collections::BTreeSet<&str> = former.iter().map(String::as_str).collect();
            format!(" ({})", former.into_iter().collect::<Vec<_>>().join(" "))
        });
        format!("{} {} {}{former}", column.name, column.data_type, column.source)
    };
    refused.sort_unstable();
    assert_eq!(refused, listed_so, "it was known before any was met");
    let mut columns: Vec<String> = united.tables.columns.columns.iter().map(column).collect();
    columns.sort();
    (refused, columns)
}

/// Whatever the order in which they are met.
fn check(pipeline: &Pipeline, listed: &[Schema], refused: &[usize], columns: &[&str]) {
    let all: Vec<usize> = (0..listed.len()).collect();
    let turned: Vec<usize> = all.iter().rev().copied().collect();
    for met in [all, turned] {
        let found = judge(pipeline, listed, &met);
        assert_eq!(found, (refused.to_vec(), columns.iter().map(|text| (*text).to_owned()).collect()), "{met:?}");
    }
}

#[test]
fn of_versions_that_disagree_the_newer_one_is_read_whichever_is_met_first() {
    let pipeline = pipeline("avro", "");
    let id = field("id", "\"long\"");
    let x = |of: &str| avro(&[&id, &field("x", of)]);
    check(
        &pipeline,
        &[avro(&[&id]), x("\"int\""), x("\"string\""), x("\"long\"")],
        &[2],
        &["id long value:id", "x long value:x"],
    );
    let within = |member: &str, of: &str| {
        x(&format!("{{\"type\": \"record\", \"name\": \"X\", \"fields\": [{}]}}", field(member, of)))
    };
    check(
        &pipeline,
        &[
            avro(&[&id]),
            within("a", "\"int\""),
            within("b", "\"int\""),
            within("a", "\"string\""),
            within("A", "\"int\""),
        ],
        &[3],
        // Names are spelled in small letters: they are one.
        &["id long value:id", "x struct<a: int, b: int> value:x"],
    );
    let as_is = self::pipeline("avro", "column_case = \"as-is\"");
    check(
        &as_is,
        &[avro(&[&id]), within("a", "\"int\""), within("A", "\"int\""), avro(&[&id, &field("X", "\"int\"")])],
        &[2, 3],
        &["id long value:id", "x struct<a: int> value:x"],
    );
}

/// So a type that holds what both have lets both in.
#[test]
fn a_column_may_be_declared_of_a_field_that_the_newest_lacks() {
    let (id, x) = (field("id", "\"long\""), |of: &str| field("x", of));
    let listed = [avro(&[&id]), avro(&[&id, &x("\"int\"")]), avro(&[&id, &x("\"string\"")])];
    let declared = |line: &str| pipeline("avro", &format!("[table.columns]\n{line}"));
    check(&declared("x = { type = \"string\" }"), &listed, &[], &["id long value:id", "x string value:x"]);
    check(
        &declared("x = { type = \"string\", required = true }"),
        &listed,
        &[],
        &["id long value:id", "x string value:x"],
    );
    check(&declared("x = { pii = \"last4\" }"), &listed, &[], &["id long value:id", "x string value:x|last4"]);
    check(&declared("x = { pii = \"drop\" }"), &listed, &[], &["id long value:id"]);
    // None of them has it; and the table can't be laid out by what the newest has not.
    let faults = |pipeline: &Pipeline| {
        let own = Own::new(listed[0].clone(), (1..).zip(listed.iter().cloned()).collect());
        plan_tables(&own, pipeline).unwrap_err().iter().map(|fault| fault.place.clone()).collect::<Vec<_>>()
    };
    assert_eq!(faults(&declared("y = { type = \"string\" }")), ["table.columns.y"]);
    let keyed = pipeline("avro", "sort_by = [\"x\"]\n[table.columns]\nx = { type = \"string\" }");
    assert_eq!(faults(&keyed), ["table.sort_by[0]"]);
}

#[test]
fn a_name_that_two_fields_of_protobuf_have_in_turn_is_the_newers() {
    let listed = [proto("int64 id = 1;"), proto("int64 id = 1; int32 x = 3;"), proto("int64 id = 1; string x = 2;")];
    check(&pipeline("protobuf", ""), &listed, &[2], &["id long value:1", "x int value:3"]);
}

#[test]
fn a_field_that_the_newest_lacks_is_one_column_under_all_its_names() {
    let (id, a) = (field("id", "\"long\""), "{\"name\": \"a\", \"type\": \"string\"}");
    let listed = [avro(&[&id]), avro(&[&id, &renamed("c", "b")]), avro(&[&id, &renamed("b", "a")]), avro(&[&id, a])];
    check(&pipeline("avro", ""), &listed, &[], &["c string value:c (value:a value:b)", "id long value:id"]);
    // So is one that the pipeline's own version has under the oldest of them.
    let versions = [avro(&[&id, a]), avro(&[&id, &renamed("b", "a")]), avro(&[&id, &renamed("c", "b")])];
    let mut newest_first = versions.clone();
    newest_first[1..].reverse();
    for listed in [versions, newest_first] {
        check(&pipeline("avro", ""), &listed, &[], &["a string value:c (value:a value:b)", "id long value:id"]);
        let hashed = pipeline("avro", "[table.columns]\nh = { from = \"a\", pii = \"last4\" }");
        let column = "h string value:c|last4 (value:a|last4 value:b|last4)";
        check(&hashed, &listed, &[], &[column, "id long value:id"]);
    }
}

/// What the table is laid out by keeps its name, under which the table has it.
#[test]
fn settings_hold_for_a_field_that_was_renamed() {
    let at = |name: &str, more: &str| {
        let of = "{\"type\": \"long\", \"logicalType\": \"timestamp-millis\"}";
        format!("{{\"name\": \"{name}\", \"type\": {of}{more}}}")
    };
    let (key, renamed_key) = ("{\"name\": \"key\", \"type\": \"string\"}", renamed("id", "key"));
    let (older, newer) = (avro(&[key, &at("at", "")]), avro(&[&renamed_key, &at("time", ", \"aliases\": [\"at\"]")]));
    let columns = ["at timestamptz value:time (value:at)", "key string value:id (value:key)"];
    for table in [
        "mode = \"dedup\"\nprimary_key = [\"key\"]\ndedup_within = { column = \"at\", lookback = \"1h\" }",
        "partition_by = [\"bucket(4, key)\", \"day(at)\"]",
        "sort_by = [\"key\", \"at\"]",
    ] {
        let pipeline = pipeline("avro", table);
        check(&pipeline, &[newer.clone(), older.clone()], &[], &columns);
        check(&pipeline, &[older.clone(), newer.clone()], &[], &columns);
    }
    // Without such a setting it is called as the newest calls it.
    let columns = ["id string value:id (value:key)", "time timestamptz value:time (value:at)"];
    check(&pipeline("avro", ""), &[newer, older], &[], &columns);
    // By number, as another version tells.
    let (older, newer) = (proto("string key = 1; int64 n = 2;"), proto("string id = 1; int64 n = 2;"));
    check(
        &pipeline("protobuf", "sort_by = [\"key\"]"),
        &[newer, older],
        &[],
        &["key string value:1", "n long value:2"],
    );
    // Where another field has the name now, that one is meant.
    let reused = proto("string id = 1; string key = 2;");
    let columns = ["id string value:1", "key string value:2"];
    check(&pipeline("protobuf", "sort_by = [\"key\"]"), &[reused, proto("string key = 1;")], &[], &columns);
}

/// A setting may have a name as columns are spelled, also one that the field has no more.
#[test]
fn a_name_that_is_spelled_as_columns_are_follows_renames() {
    let (id, user) = (field("id", "\"long\""), "{\"name\": \"userName\", \"type\": \"string\"}");
    let listed = [avro(&[&id, &renamed("login", "userName")]), avro(&[&id, user])];
    let turned = [listed[1].clone(), listed[0].clone()];
    let numbered = [proto("int64 id = 1; string login = 2;"), proto("int64 id = 1; string userName = 2;")];
    for (case, name) in [("lower", "username"), ("snake", "user_name")] {
        let table = |lines: &str| format!("column_case = \"{case}\"\n{lines}");
        let excluded = table(&format!("exclude = [\"{name}\"]"));
        let hashed = table(&format!("[table.columns]\n{name} = {{ pii = \"last4\" }}"));
        let column = format!("{name} string value:login|last4 (value:userName|last4)");
        for listed in [&listed, &turned] {
            check(&pipeline("avro", &excluded), listed, &[], &["id long value:id"]);
            let found = judge(&pipeline("avro", &hashed), listed, &[0, 1]);
            assert_eq!(found, (vec![], vec!["id long value:id".to_owned(), column.clone()]));
        }
        check(&pipeline("protobuf", &excluded), &numbered, &[], &["id long value:1"]);
        let column = format!("{name} string value:2|last4");
        check(&pipeline("protobuf", &hashed), &numbered, &[], &["id long value:1", &column]);
    }
    // Over several renames, whichever version is the pipeline's own.
    let a = "{\"name\": \"a\", \"type\": \"string\"}";
    let chain = [avro(&[&id, a]), avro(&[&id, &renamed("c", "b")]), avro(&[&id, &renamed("b", "a")])];
    for own in 0..chain.len() {
        let mut listed = vec![chain[own].clone()];
        listed.extend(chain.iter().enumerate().filter(|(at, _)| *at != own).map(|(_, version)| version.clone()));
        for name in ["a", "b", "c"] {
            check(&pipeline("avro", &format!("exclude = [\"{name}\"]")), &listed, &[], &["id long value:id"]);
            let hashed = pipeline("avro", &format!("[table.columns]\nh = {{ from = \"{name}\", pii = \"last4\" }}"));
            let column = "h string value:c|last4 (value:a|last4 value:b|last4)";
            check(&hashed, &listed, &[], &[column, "id long value:id"]);
        }
    }
}

/// `b` was `a`, `c` is `b`, and then another field is called `a`: names alone can't tell of which of them the file speaks.
#[test]
fn a_name_that_two_fields_of_avro_had_in_turn_means_but_one_of_them() {
    let (id, a) = (field("id", "\"long\""), "{\"name\": \"a\", \"type\": \"string\"}");
    let c = renamed("c", "b");
    let newest = avro(&[&id, &c, a]);
    let before = [avro(&[&id, &c]), avro(&[&id, &renamed("b", "a")]), avro(&[&id, a])];
    let listed: Vec<Schema> = std::iter::once(newest.clone()).chain(before.iter().cloned()).collect();
    let hashed = "a = { pii = \"last4\" }";
    let declared = |lines: &str| pipeline("avro", &format!("[table.columns]\n{lines}"));
    let faults = |pipeline: &Pipeline| {
        let own = Own::new(listed[0].clone(), (1..).zip(listed.iter().cloned()).collect());
        let faults = plan_tables(&own, pipeline).unwrap_err();
        assert!(faults.iter().all(|fault| fault.message.contains("`c` was `a` in another version")), "{faults:?}");
        faults.iter().map(|fault| fault.place.clone()).collect::<Vec<_>>()
    };
    assert_eq!(faults(&declared(hashed)), ["table.columns.a"]);
    assert_eq!(faults(&declared("x = \"a\"")), ["table.columns.x"]);
    assert_eq!(faults(&pipeline("avro", "[value.filter]\nfield = \"a\"\nin = [\"x\"]")), ["value.filter"]);
    // The file says what becomes of both.
    let columns = ["a string value:a|last4", "c string value:c (value:a value:b)", "id long value:id"];
    check(&declared(&format!("{hashed}\nc = \"c\"")), &listed, &[], &columns);
    let excluded = pipeline("avro", &format!("exclude = [\"c\"]\n[table.columns]\n{hashed}"));
    check(&excluded, &listed, &[], &["a string value:a|last4", "id long value:id"]);
    // Where the pipeline reads as before the name was used again, it is the renamed field's, and versions that have but the name are not
    // read.
    let older = [before[0].clone(), newest, before[1].clone(), before[2].clone()];
    check(
        &declared(hashed),
        &older,
        &[1, 3],
        &["a string value:c|last4 (value:a|last4 value:b|last4)", "id long value:id"],
    );
}

/// `b` was `a`, and another field is called `a` now: where `b` is to stay private, so is what older records have under `a`.
#[test]
fn what_has_the_name_that_a_private_field_had_is_private() {
    let (id, a) = (field("id", "\"long\""), "{\"name\": \"a\", \"type\": \"string\"}");
    let listed = [avro(&[&id, &renamed("b", "a"), a]), avro(&[&id, a])];
    let declared = |lines: &str| pipeline("avro", &format!("[table.columns]\n{lines}"));
    let hashed = "b = { pii = \"last4\" }";
    check(&pipeline("avro", "exclude = [\"b\"]"), &listed, &[], &["id long value:id"]);
    check(&declared(hashed), &listed, &[], &["b string value:b|last4 (value:a|last4)", "id long value:id"]);
    let both = declared(&format!("{hashed}\na = {{ pii = \"last4\" }}"));
    check(
        &both,
        &listed,
        &[],
        &["a string value:a|last4", "b string value:b|last4 (value:a|last4)", "id long value:id"],
    );
    let own = Own::new(listed[0].clone(), (1..).zip(listed.iter().cloned()).collect());
    for plain in ["a = \"a\"", "x = { from = \"a\", type = \"string\" }"] {
        let faults = plan_tables(&own, &declared(&format!("{hashed}\n{plain}"))).unwrap_err();
        assert!(faults.iter().any(|fault| fault.message.contains("which is personal data")), "{faults:?}");
    }
    let mut routed = declared(hashed);
    let (namespace, name) = (vec![Part::Text("db".to_owned())], vec![Part::Field(vec!["a".to_owned()])]);
    routed.route = Some(Route { namespace, name });
    let faults = plan_tables(&own, &routed).unwrap_err();
    assert!(faults.iter().any(|fault| fault.message.contains("`a` is personal data")), "{faults:?}");
    // By numbers they are two fields for ever.
    let numbered = [proto("int64 id = 1; string b = 2; string a = 3;"), proto("int64 id = 1; string a = 2;")];
    check(&pipeline("protobuf", "exclude = [\"b\"]"), &numbered, &[], &["a string value:3", "id long value:1"]);
}

/// A column of what lies in a record is in the place of the record's own, in versions that lack it, too.
#[test]
fn what_is_around_a_declared_field_is_no_column_in_any_version() {
    let within = |fields: &str| proto(&format!("int64 id = 1; P p = 2; message P {{ {fields} }}"));
    let listed = [within("string n = 2;"), within("string ssn = 1; string n = 2;")];
    for unknown in ["add", "rest", "ignore"] {
        let declared =
            |line: &str| pipeline("protobuf", &format!("unknown_fields = \"{unknown}\"\n[table.columns]\n{line}"));
        let rest = if unknown == "rest" { &["_rest map<string, string> @rest"][..] } else { &[] };
        let columns = |all: &[&'static str]| [rest, all].concat();
        let hashed = "h = { from = \"p.ssn\", pii = \"last4\" }";
        check(&declared(hashed), &listed, &[], &columns(&["h string value:2.1|last4", "id long value:1"]));
        let both = format!("{hashed}\nn = \"p.n\"");
        let all = columns(&["h string value:2.1|last4", "id long value:1", "n string value:2.2"]);
        check(&declared(&both), &listed, &[], &all);
        let dropped = "h = { from = \"p.ssn\", pii = \"drop\" }";
        check(&declared(dropped), &listed, &[], &columns(&["id long value:1", "p struct<n: string> value:2"]));
    }
}

/// What is left out in one version is so under every name that another tells.
#[test]
fn what_is_left_out_has_no_other_name() {
    let listed =
        [proto("int64 id = 1; string tax = 2;"), proto("int64 id = 1; string social = 2;"), proto("string ssn = 2;")];
    check(&pipeline("protobuf", "exclude = [\"ssn\"]"), &listed, &[], &["id long value:1"]);
    check(&pipeline("protobuf", "exclude = [\"tax\"]"), &listed, &[], &["id long value:1"]);
    let hashed = pipeline("protobuf", "[table.columns]\nssn = { pii = \"last4\" }");
    check(&hashed, &listed, &[], &["id long value:1", "ssn string value:2|last4"]);
    // The name is another field's now: either may be what is meant, and neither is published.
    let reused = [proto("int64 id = 1; string tax = 2; string ssn = 3;"), proto("int64 id = 1; string ssn = 2;")];
    check(&pipeline("protobuf", "exclude = [\"ssn\"]"), &reused, &[], &["id long value:1"]);
    // Behind a reused name is what should stay private, too: one column can't be made of both, and nothing of the other is.
    let within = |fields: &str| proto(&format!("int64 id = 1; {fields} message P {{ string ssn = 1; string o = 2; }}"));
    let reused = [within("P p = 3;"), within("P q = 3; P p = 4;")];
    let hashed = pipeline("protobuf", "[table.columns]\nh = { from = \"p.ssn\", pii = \"last4\" }");
    let columns = ["h string value:3.1|last4", "id long value:1", "p struct<o: string> value:4"];
    check(&hashed, &reused, &[], &columns);
    let reused = [proto("int64 id = 1; string ssn = 2;"), proto("int64 id = 1; string tax = 2; string ssn = 3;")];
    let hashed = pipeline("protobuf", "[table.columns]\nh = { from = \"ssn\", pii = \"last4\" }");
    check(&hashed, &reused, &[], &["h string value:2|last4", "id long value:1"]);
    let (id, a) = (field("id", "\"long\""), "{\"name\": \"a\", \"type\": \"string\"}");
    let listed = [avro(&[&id, &renamed("c", "b")]), avro(&[&id, &renamed("b", "a")]), avro(&[&id, a])];
    check(&pipeline("avro", "exclude = [\"a\"]"), &listed, &[], &["id long value:id"]);
}

/// A version that no list has, or one too many for it, may call a field by the name that the file leaves out.
#[test]
fn what_an_unlisted_version_calls_by_an_excluded_name_is_not_in_its_rows() {
    let check = |format: &str, own: Schema, version: Schema, exclude: &str| {
        let pipeline = pipeline(format, &format!("exclude = [\"{exclude}\"]"));
        let own = Own::alone(own);
        let tables = plan_tables(&own, &pipeline).unwrap_or_else(|faults| panic!("{faults:?}"));
        let mut versions = Versions::new(&pipeline, own, tables);
        let names = |reading: &Reading| {
            let columns = reading.tables.columns.columns.iter();
            columns.map(|column| column.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&versions.judge(&pipeline, &version).unwrap()), ["id"], "{format} {exclude}");
        assert_eq!(names(versions.own()).len(), 2, "the others go on");
    };
    let old = || proto("int64 id = 1; string mail = 2;");
    let new = || proto("int64 id = 1; string contact = 2;");
    check("protobuf", new(), old(), "mail");
    check("protobuf", old(), new(), "contact");
    let id = field("id", "\"long\"");
    check("avro", avro(&[&id, &field("mail", "\"string\"")]), avro(&[&id, &renamed("contact", "mail")]), "contact");
}

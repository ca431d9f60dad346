mod any_text;
mod many_tables;
mod whole_grammar;

use std::collections::BTreeMap;

use super::*;
use crate::environment::Registry;
use crate::expectation::{Expectations, Literal};
use crate::partition;
use crate::resolved::{
    ColumnCase, ColumnDeclaration, DedupWithin, Deletes, Exists, Fields, Filter, Fold, Format, Framing, From, Indexes,
    Late, Mode, NullKeys, Pii, RecordField, Schema, SortField, Source, Staging, Table, TableName, Transform, Types,
    Unit, UnknownFields, Upsert, Value, Write,
};
use crate::schema::tests::of_pipeline;
use crate::types::Type;

const SOURCE: &str = "[source]\ntopics = [\"t\"]\n";
const VALUE: &str =
    "[value]\nformat = \"protobuf\"\nframing = \"bare\"\nschema = { proto = \"x.proto\", message = \"p.M\" }\n";
const TABLE: &str = "[table]\nname = \"db.t\"\n";

fn environment() -> Environment {
    let vars = [("db", "bigdata"), ("prefix", "demo-"), ("shout", "BIG")];
    let registry = |name: &str| (name.to_owned(), Registry::Files { dir: "/project/schemas".into() });
    Environment {
        vars: vars.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        registries: ["main", "old"].map(registry).into(),
        ..Environment::embedded("/project/.frazil")
    }
}

fn parse_named(text: &str) -> Result<Pipeline, Vec<Fault>> {
    parse(text, &environment(), Path::new("/project/pipelines/t.toml"))
}

/// Each expectation is `line:column code part-of-the-message`; the list is exact.
fn check(text: &str, expected: &[&str]) {
    let found = match parse_named(text) {
        Ok(_) => {
            assert_eq!(of_pipeline(text), Vec::<String>::new(), "the schema refuses {text}");
            Vec::new()
        }
        Err(found) => found,
    };
    let shown: Vec<String> = found.iter().map(|f| format!("{f} [{}]", f.code)).collect();
    assert_eq!(found.len(), expected.len(), "{text}\n{shown:#?}");
    for (found, expected) in found.iter().zip(expected) {
        let mut parts = expected.splitn(3, ' ');
        let (place, code, part) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        assert_eq!(format!("{}:{}", found.line, found.column), place, "{text}\n{shown:#?}");
        assert_eq!(found.code.strip_prefix("config."), Some(code), "{text}\n{shown:#?}");
        assert!(found.message.contains(part), "{part:?} is not in {shown:#?}");
    }
}

/// A good file with more lines in `[table]`, the first of which is the third of the file.
fn table(lines: &str, expected: &[&str]) {
    check(&format!("{TABLE}{lines}\n{SOURCE}{VALUE}"), expected);
}

#[test]
fn where_s3_tables_puts_a_table_nobody_puts_its_files_elsewhere() {
    let bucket_arn = "arn:aws:s3tables:eu-west-1:111122223333:bucket/lake".to_owned();
    let catalog = Catalog::S3Tables { bucket_arn, region: "eu-west-1".to_owned() };
    let tables = Environment { catalog, warehouse: None, ..environment() };
    let faults = |environment: &Environment, more: &str| {
        let text = format!("{TABLE}{more}\n[table.properties]\n\"write.data.path\" = \"s3://a/b\"\n{SOURCE}{VALUE}");
        let read = parse(&text, environment, Path::new("/project/pipelines/t.toml"));
        read.err().unwrap_or_default().iter().map(|fault| (fault.line, fault.message.clone())).collect::<Vec<_>>()
    };
    let found = faults(&tables, "");
    assert!(matches!(&found[..], [(5, message)] if message.contains("S3 Tables gives each table")), "{found:?}");
    assert!(faults(&environment(), "").is_empty());
    // What others made is theirs.
    assert!(faults(&tables, "exists = \"join\"").is_empty());
}

#[test]
fn a_whole_file_is_resolved() {
    let text = r#"
[source]
topics = ["${prefix}protobuf-demo-topic-pure", "other"]
name = "orders-cluster"

[value]
format = "protobuf"
framing = "bare"
schema = { descriptor = "schemas/employee.desc", message = "gsr.proto.post.Employee" }
keep_raw = false

[table]
name = "${db}.employee"
exists = "must-be-new"
mode = "append"
primary_key = ["employee_id", "start_date"]
tombstones = 'filter'
format_version = 2
partition_by = ["bucket(8, employee_id)", "hours(start_date)", "team"]
sort_by = ["start_date desc nulls last", "_kafka_offset"]
fields = "all"
exclude = ["ssn", 'properties."utm.source"']
unknown_fields = "dead-letter"
column_case = "snake"
types = "iceberg"
record_columns = true

[table.columns]
employee_id = { from = "id", type = "long", required = true, doc = "who" }
age = "employee_age"
team = "team.name"
source = 'properties."utm.medium"'
sent = { from = "@timestamp" }
line = { type = "struct<sku: string, qty: int>" }

[table.properties]
"write.target-file-size-bytes" = "536870912"
"history.expire.max-snapshot-age-ms" = "864000000"

[fold]
max_age = "90s"
max_bytes = "1GiB"
max_rows = 1_000
memory = "auto"
tables_max = 50

[staging]
retention = "9d"
"#;
    let strings = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    let column = |name: &str, from: From| ColumnDeclaration {
        name: name.to_owned(),
        from,
        data_type: None,
        unit: None,
        required: false,
        doc: None,
        expect: Expectations::default(),
        pii: None,
    };
    let path = |list: &[&str]| From::Path(strings(list));
    let expected = Pipeline {
        name: "t".to_owned(),
        source: Source {
            topics: strings(&["demo-protobuf-demo-topic-pure", "other"]),
            exclude: Vec::new(),
            name: Some("orders-cluster".to_owned()),
        },
        value: Value {
            format: Format::Protobuf,
            framing: Framing::Bare,
            indexes: Indexes::Zigzag,
            schema: Schema::Descriptor {
                path: "/project/schemas/employee.desc".into(),
                message: "gsr.proto.post.Employee".to_owned(),
            },
            filter: None,
            explode: None,
        },
        key: None,
        table: Table {
            name: TableName { namespace: "bigdata".to_owned(), name: "employee".to_owned() },
            exists: Exists::MustBeNew,
            mode: Mode::Append,
            primary_key: strings(&["employee_id", "start_date"]),
            dedup_within: None,
            upsert: None,
            null_keys: NullKeys::Match,
            partition_by: ["bucket(8, employee_id)", "hour(start_date)", "team"]
                .map(|text| partition::parse(text).unwrap())
                .into(),
            sort_by: vec![
                SortField { column: "start_date".to_owned(), descending: true, nulls_first: false },
                SortField { column: "_kafka_offset".to_owned(), descending: false, nulls_first: true },
            ],
            fields: Fields::All,
            exclude: strings(&["ssn", "properties.\"utm.source\""]),
            unknown_fields: UnknownFields::DeadLetter,
            column_case: ColumnCase::Snake,
            types: Types::Iceberg,
            record_columns: true,
            format_version: 2,
            columns: vec![
                ColumnDeclaration {
                    data_type: Some(Type::Long),
                    required: true,
                    doc: Some("who".to_owned()),
                    ..column("employee_id", path(&["id"]))
                },
                column("age", path(&["employee_age"])),
                column("team", path(&["team", "name"])),
                column("source", path(&["properties", "utm.medium"])),
                column("sent", From::Record(RecordField::Timestamp)),
                ColumnDeclaration {
                    data_type: Some("struct<sku: string, qty: int>".parse().unwrap()),
                    ..column("line", path(&["line"]))
                },
            ],
            properties: BTreeMap::from([
                ("write.target-file-size-bytes".to_owned(), "536870912".to_owned()),
                ("history.expire.max-snapshot-age-ms".to_owned(), "864000000".to_owned()),
            ]),
        },
        route: None,
        tables: BTreeMap::new(),
        fold: Fold {
            max_age_seconds: 90,
            max_bytes: 1 << 30,
            max_rows: 1000,
            memory_bytes: None,
            tables_max: Some(50),
        },
        staging: Staging { retention_seconds: 9 * 86400 },
    };
    assert_eq!(parse_named(text), Ok(expected));
}

#[test]
fn what_a_file_leaves_out_has_its_default() {
    let pipeline = parse_named(&format!("{SOURCE}{VALUE}{TABLE}")).unwrap();
    let Table { exists, mode, fields, unknown_fields, column_case, types, record_columns, format_version, .. } =
        pipeline.table;
    assert_eq!((exists, mode, fields), (Exists::Create, Mode::Append, Fields::All));
    assert_eq!((unknown_fields, column_case, types), (UnknownFields::Ignore, ColumnCase::Lower, Types::Portable));
    assert_eq!((record_columns, format_version), (true, 2));
    // Others' table gets columns of ours where the mode can't do without, or where they are asked for.
    let joined = |more: &str| {
        let text = format!("{SOURCE}{VALUE}{TABLE}exists = \"join\"\n{more}");
        parse_named(&text).unwrap().table.record_columns
    };
    let upsert = "mode = \"upsert\"\nprimary_key = [\"id\"]";
    assert_eq!([joined(""), joined(upsert), joined("record_columns = true")], [false, true, true]);
    let fold =
        Fold { max_age_seconds: 60, max_bytes: 512 << 20, max_rows: 50_000_000, memory_bytes: None, tables_max: None };
    assert_eq!(pipeline.fold, fold);
    let memory = |text: &str| {
        let text = format!("{SOURCE}{VALUE}{TABLE}[fold]\nmemory = \"{text}\"");
        parse_named(&text).unwrap().fold.memory_bytes
    };
    assert_eq!([memory("auto"), memory("256MiB"), memory("2GB")], [None, Some(256 << 20), Some(2_000_000_000)]);
    assert_eq!(pipeline.staging.retention_seconds, 7 * 86400);
    // Engines expire after five days unless the table says otherwise: it has to, when objects are kept longer.
    let age = |retention: &str| {
        let text = format!("{SOURCE}{VALUE}{TABLE}[staging]\nretention = \"{retention}\"");
        parse_named(&text).unwrap().table.properties.get("history.expire.max-snapshot-age-ms").cloned()
    };
    assert_eq!(age("7d").as_deref(), Some("691200000"));
    assert_eq!(age("4d"), None);
}

#[test]
fn the_demos_file_is_good() {
    let text = include_str!("../../../../jobs/frazil/demo/employee.toml");
    let pipeline = parse(text, &Environment::embedded("/demo"), Path::new("/demo/pipelines/employee.toml")).unwrap();
    assert_eq!(pipeline.name, "employee");
    assert_eq!(pipeline.table.name.to_string(), "bigdata.employee");
    assert_eq!(pipeline.source.topics, ["protobuf-demo-topic-pure"]);
    let columns: Vec<&str> = pipeline.table.columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(columns, ["employee_id", "age", "start_date", "team", "role", "address", "name"]);
    let transforms: Vec<Transform> = pipeline.table.partition_by.iter().map(|f| f.transform).collect();
    assert_eq!(transforms, [Transform::Bucket(8), Transform::Hour, Transform::Identity]);
    let Schema::Proto { path, message } = pipeline.value.schema else { panic!("not a .proto") };
    assert_eq!(
        (path.as_path(), message.as_str()),
        (Path::new("/demo/proto/employee.proto"), "gsr.proto.post.Employee")
    );
}

#[test]
fn unknown_keys_name_the_nearest() {
    let nearest = |text: &str| parse_named(text).unwrap_err()[0].nearest.clone();
    check(&format!("{SOURCE}{VALUE}{TABLE}[tabel]\nx = 1"), &["9:2 unknown_key did you mean `table`?"]);
    check(
        &format!("{SOURCE}topic = 1\n{VALUE}{TABLE}"),
        &["3:1 unknown_key `topic` in `[source]`; did you mean `topics`?"],
    );
    assert_eq!(nearest(&format!("{SOURCE}topic = 1\n{VALUE}{TABLE}")).as_deref(), Some("topics"));
    table("partition-by = []", &["3:1 unknown_key did you mean `partition_by`?"]);
    table("zzz = 1", &["3:1 unknown_key unknown key `zzz` in `[table]`"]);
    table("max_age = \"1s\"", &["3:1 unknown_key it belongs in `[fold]`"]);
    check(
        &format!("topics = []\n{SOURCE}{VALUE}{TABLE}"),
        &["1:1 unknown_key `topics` is not known at the top of the file; it belongs in `[source]`"],
    );
    table("[table.columns]\nat = { form = \"x\" }", &["4:8 unknown_key in `[table.columns]`; did you mean `from`?"]);
    check(
        &format!("{SOURCE}{VALUE}{TABLE}").replace("proto =", "prot ="),
        &["6:1 missing needs `proto`, `descriptor`, `registry` or", "6:12 unknown_key did you mean `proto`?"],
    );
    // A misspelling is told beside what is missing for it.
    check(
        &format!("{SOURCE}{VALUE}{TABLE}[key]\nfromat = \"json\""),
        &[
            "9:2 missing needs `format`",
            "9:2 missing needs `schema`",
            "9:2 missing needs `framing`",
            "9:2 invalid no column is made of one",
            "10:1 unknown_key did you mean `format`?",
        ],
    );
}

#[test]
fn every_fault_is_reported_at_once_in_order() {
    let text = r#"[source]
topics = ["a b", 3, "ok"]
colour = "red"

[value]
format = "protobuff"
framing = "atuo"
schema = { proto = "x.proto", message = "p.M", nmae = "x" }

[table]
name = "${dp}.employee"
mode = "dedup"
dedup_within = { column = "at" }
partition_by = ["huor(at)"]

[fold]
max_age = 60
"#;
    check(
        text,
        &[
            "2:11 invalid is not a topic name",
            "2:18 wrong_type `topics` takes an array of strings, found a whole number",
            "3:1 unknown_key unknown key `colour` in `[source]`",
            "6:10 invalid did you mean \"protobuf\"?",
            "7:11 invalid did you mean \"auto\"",
            "8:48 unknown_key did you mean `name`?",
            "11:9 unknown_variable did you mean `db`? (it has: db, prefix, shout)",
            "12:8 missing `mode = \"dedup\"` needs a `primary_key`",
            "13:1 missing `[table.dedup_within]` needs `lookback`",
            "14:18 invalid did you mean `hour`?",
            "17:11 wrong_type `max_age` takes a string, found a whole number",
        ],
    );
    let shown = parse_named(text).unwrap_err()[0].to_string();
    assert!(shown.starts_with("/project/pipelines/t.toml:2:11: `a b` is not"), "{shown}");
}

#[test]
fn dedup_needs_a_key_and_a_lookback_that_means_something() {
    let with = |lines: &str| format!("{SOURCE}{VALUE}{TABLE}{lines}");
    let dedup = "mode = \"dedup\"\nprimary_key = [\"id\"]\n";
    let whole = parse_named(&with(dedup)).unwrap().table;
    assert_eq!((whole.mode, whole.dedup_within), (Mode::Dedup, None));
    for (text, late) in [("keep", Late::Keep), ("drop", Late::Drop), ("dead-letter", Late::DeadLetter)] {
        let within = parse_named(&with(&format!(
            "{dedup}dedup_within = {{ column = \"at\", lookback = \"90m\", late = \"{text}\" }}"
        )));
        let expected = DedupWithin { column: "at".to_owned(), lookback_seconds: 5400, late };
        assert_eq!(within.unwrap().table.dedup_within, Some(expected));
    }
    check(&with("mode = \"dedup\"\nprimary_key = []\n"), &["9:8 missing needs a `primary_key`"]);
    let within = |inner: &str| with(&format!("{dedup}dedup_within = {{ {inner} }}"));
    check(&within("column = \"at\", lookback = \"1x\""), &["11:44 invalid `lookback`: `x` is not a unit"]);
    check(&within("lookback = \"1h\""), &["11:1 missing needs `column`"]);
    check(
        &within("column = \"at\", lookback = \"1h\", late = \"dead_letter\""),
        &["11:57 invalid did you mean \"dead-letter\"?"],
    );
    check(&within("column = \"at\", lookback = \"1h\", latte = 1"), &["11:50 unknown_key did you mean `late`?"]);
    check(
        &with("mode = \"append\"\ndedup_within = { column = \"at\", lookback = \"1h\" }"),
        &["10:1 invalid belongs to"],
    );
    check(
        &with(&format!(
            "{dedup}dedup_within = {{ column = \"at\", lookback = \"1h\" }}\n[table.columns]\nat = {{ type = \"date\" }}"
        )),
        &["11:27 invalid has the type `date`"],
    );
}

#[test]
fn expectations_go_with_their_columns() {
    let column = |inner: &str| {
        let text = format!("{SOURCE}{VALUE}{TABLE}[table.columns]\na = {{ {inner} }}");
        parse_named(&text).map(|mut pipeline| pipeline.table.columns.pop().unwrap().expect)
    };
    let expected = Expectations {
        min: Some(Literal::Integer(0)),
        max: Some(Literal::Integer(u64::MAX.into())),
        ..Expectations::default()
    };
    assert_eq!(column("type = \"decimal(20, 0)\", min = 0, max = 0xffff_ffff_ffff_ffff"), Ok(expected));
    let expected = Expectations {
        pattern: Some("^BIG$".to_owned()),
        one_of: ["x", "y"].map(|text| Literal::Text(text.to_owned())).into(),
        ..Expectations::default()
    };
    assert_eq!(column("pattern = \"^${shout}$\", in = [\"x\", \"y\"]"), Ok(expected));
    let expected = Expectations { min: Some(Literal::Instant(951_782_400_000_000)), ..Expectations::default() };
    assert_eq!(column("type = \"timestamptz\", min = 2000-02-29T00:00:00Z"), Ok(expected));

    let check = |inner: &str, expected: &[&str]| {
        check(&format!("[table.columns]\na = {{ {inner} }}\n{SOURCE}{VALUE}{TABLE}"), expected);
    };
    check("type = \"string\", min = 1, max = \"x\"", &["2:30 invalid `pattern`, `in` can", "2:39 invalid `max`"]);
    check("type = \"int\", in = [1, \"2\"]", &["2:26 invalid is a whole number, not a string"]);
    check("type = \"long\", pattern = \"x\"", &["2:32 invalid `min`, `max`, `in` can"]);
    check("type = \"binary\", in = [\"x\"]", &["2:29 invalid can't be expected of a column of the type binary"]);
    check("type = \"timestamptz\", max = 2000-01-01T00:00:00", &["2:35 invalid a time such as 2026-01-31T00:00:00Z"]);
    check("min = 2, max = 1.5", &["2:22 invalid `max` is below `min`"]);
    check("min = nan, max = 2000-01-01", &["2:13 invalid finite", "2:24 invalid a date with a time"]);
    check("in = []", &["2:12 invalid at least one value"]);
    check("in = \"x\"", &["2:12 wrong_type an array of values, found a string"]);
    check("in = [1, 1]", &["2:16 duplicate there twice"]);
    check("min = [1]", &["2:13 wrong_type found an array"]);
    check("pattern = \"(\"", &["2:17 invalid no regular expression: unclosed group"]);
    check("from = \"@offset\", min = 1", &["2:31 invalid not for a record's own fields"]);
    check("mn = 1", &["2:7 unknown_key did you mean `min`?"]);
}

#[test]
fn personal_data_is_hashed_cut_or_dropped() {
    let with = |inner: &str| format!("[table.columns]\na = {{ {inner} }}\n{SOURCE}{VALUE}{TABLE}");
    let column = |inner: &str| parse_named(&with(inner)).unwrap().table.columns.pop().unwrap().pii;
    assert_eq!(column("pii = \"hash\", type = \"string\", pattern = \"x\""), Some(Pii::Hash));
    assert_eq!(column("pii = \"last4\", from = \"@key\""), Some(Pii::Last4));
    assert_eq!(column("pii = \"drop\", from = \"b.c\""), Some(Pii::Drop));
    let check = |inner: &str, expected: &[&str]| check(&with(inner), expected);
    check("pii = \"hsah\"", &["2:13 invalid did you mean \"hash\"?"]);
    check("pii = \"hash\", type = \"binary\"", &["2:28 invalid is a string, not binary"]);
    check("pii = \"hash\", from = \"@topic\"", &["2:13 invalid not for a record's own fields"]);
    check("pii = \"hash\", min = 1", &["2:27 invalid `pattern`, `in` can"]);
    check("pii = \"drop\", from = \"@key\"", &["2:13 invalid leave this one out"]);
    check("pii = \"drop\", doc = \"x\", in = [\"x\"]", &["2:21 invalid has no `doc`", "2:32 invalid has no `in`"]);
    let key = format!("{SOURCE}{VALUE}{TABLE}primary_key = [\"a\"]\ncolumns = {{ a = {{ pii = \"drop\" }} }}");
    super::tests::check(&key, &["9:16 unknown_column it is dropped as personal data"]);
}

/// As far as the paths that are written tell; the schema's planner knows names that fields had before, too.
#[test]
fn no_column_has_what_another_says_is_personal() {
    let key = "[key]\nformat = \"json\"\nframing = \"bare\"\n";
    let with = |lines: &str| format!("[table.columns]\n{lines}\n{SOURCE}{VALUE}{key}{TABLE}");
    let hash = "type = \"string\", pii = \"hash\"";
    let refused = |lines: &str, places: &[&str]| {
        let expected: Vec<String> = places.iter().map(|place| format!("{place} invalid it holds what `pii`")).collect();
        check(&with(lines), &expected.iter().map(String::as_str).collect::<Vec<_>>());
    };
    let of_key = format!("x = {{ from = \"@key.x\", {hash} }}\n");
    // The whole key, whichever comes first; a struct around the field; the field itself.
    refused(&format!("{of_key}k = \"@key\""), &["3:1"]);
    refused(&format!("k = {{ from = \"@key\", type = \"string\" }}\n{of_key}"), &["2:1"]);
    refused(&format!("{of_key}raw = {{ from = \"@key.x\", type = \"string\" }}"), &["3:1"]);
    refused(
        &format!("s = {{ from = \"@key.a\", type = \"struct<b: int>\" }}\nx = {{ from = \"@key.a.b\", {hash} }}"),
        &["2:1"],
    );
    // A part of what is hashed as a whole.
    refused(&format!("k = {{ from = \"@key\", {hash} }}\nx = {{ from = \"@key.x\", type = \"int\" }}"), &["3:1"]);
    let mail = format!("{of_key}m = {{ from = \"addr.mail\", {hash} }}\n");
    refused(&format!("{mail}a = \"addr\""), &["4:1"]);
    refused(&format!("{mail}a = {{ from = \"addr\", type = \"string\" }}\nb = \"addr.mail.x\""), &["4:1", "5:1"]);
    refused(&format!("{of_key}h = {{ from = \"@header.h\", {hash} }}\ni = \"@header.h\""), &["4:1"]);
    let dropped = format!("{of_key}m = {{ from = \"addr.mail\", pii = \"drop\" }}\n");
    refused(&format!("{dropped}a = {{ from = \"addr\", type = \"string\" }}"), &["4:1"]);
    refused(&format!("{of_key}a = {{ from = \"addr\", pii = \"drop\" }}\nb = \"addr.city\""), &["4:1"]);
    for fine in [
        format!("{dropped}a = \"addr\""),
        format!("{mail}a = \"addr.city\"\nl = {{ from = \"addr.mail\", pii = \"last4\" }}\nh = \"@header.h\""),
        format!("{of_key}k = {{ from = \"@key\", {hash} }}\ny = {{ from = \"@key.y\", {hash} }}"),
    ] {
        let found = parse_named(&with(&fine));
        assert!(found.is_ok(), "{fine}: {found:?}");
    }
}

#[test]
fn a_repeated_field_is_exploded_by_its_path() {
    let explode =
        |text: &str| parse_named(&format!("{SOURCE}{VALUE}explode = {text}\n{TABLE}")).map(|p| p.value.explode);
    assert_eq!(explode("\"batch.events\""), Ok(Some(vec!["batch".to_owned(), "events".to_owned()])));
    check(&format!("{SOURCE}{VALUE}explode = \"@key\"\n{TABLE}"), &["7:11 invalid `@key` is none"]);
    check(&format!("{SOURCE}{VALUE}explode = [\"a\"]\n{TABLE}"), &["7:11 wrong_type a string"]);
}

#[test]
fn an_avro_schema_is_a_file_or_in_a_registry_and_of_one_record() {
    let avro = |schema: &str| {
        let value = format!("[value]\nformat = \"avro\"\nframing = \"bare\"\nschema = {schema}\n");
        format!("{value}{SOURCE}{TABLE}")
    };
    let pipeline = parse_named(&avro("{ avsc = \"schemas/x.avsc\" }")).unwrap();
    assert_eq!(pipeline.value.format, Format::Avro);
    assert_eq!(pipeline.value.schema, Schema::Avro { path: "/project/schemas/x.avsc".into() });
    let check = |schema: &str, expected: &[&str]| check(&avro(schema), expected);
    check("{ avsc = \"x.avsc\", message = \"M\" }", &["4:29 invalid an Avro schema is of one record"]);
    check("{ registry = \"main\", name = \"x\", message = \"M\" }", &["4:43 invalid an Avro schema is of one record"]);
    check("{ avsc = \"\" }", &["4:19 invalid has a path"]);
    check("{}", &["4:1 missing needs `avsc`, `registry` or `registries`"]);
    check(
        "{ proto = \"x.proto\", message = \"M\" }",
        &["4:12 invalid no schema of `format = \"avro\"`, which takes `avsc`, `registry` or `registries`"],
    );
    check("{ avsc = \"a\", registry = \"main\" }", &["4:24 invalid one of `avsc`, `registry` and `registries`"]);
    super::tests::check(
        &format!("{SOURCE}{TABLE}{}", VALUE.replace("proto = \"x.proto\", message = \"p.M\"", "avsc = \"x.avsc\"")),
        &["8:12 invalid no schema of `format = \"protobuf\"`, which takes `proto`, `descriptor`,"],
    );
}

#[test]
fn a_unit_goes_with_a_number_that_becomes_a_time() {
    let with = |inner: &str| format!("[table.columns]\na = {{ {inner} }}\n{SOURCE}{VALUE}{TABLE}");
    let unit = |inner: &str| parse_named(&with(inner)).unwrap().table.columns.pop().unwrap().unit;
    assert_eq!(unit("type = \"timestamptz\", unit = \"ms\""), Some(Unit::Millis));
    assert_eq!(unit("from = \"b.c\", type = \"timestamp\", unit = \"ns\""), Some(Unit::Nanos));
    assert_eq!(unit("type = \"timestamptz\""), None);
    let check = |inner: &str, expected: &[&str]| check(&with(inner), expected);
    check("unit = \"ms\"", &["2:7 missing needs the column's `type`"]);
    check("type = \"long\", unit = \"s\"", &["2:22 invalid long is none"]);
    check("type = \"timestamptz\", unit = \"sec\"", &["2:36 invalid `unit` cannot be \"sec\""]);
    check("from = \"@key\", type = \"string\", unit = \"s\"", &["2:39 invalid in payloads"]);
    check("from = \"@timestamp\", unit = \"ms\"", &["2:28 invalid in payloads"]);
    check("type = \"timestmp\", unit = \"ms\"", &["2:15 invalid timestmp"]);
}

#[test]
fn unknown_fields_have_a_column_of_their_own() {
    assert_eq!(
        parse_named(&format!("{TABLE}unknown_fields = \"rest\"\nfields = \"listed\"\nsort_by = [\"_rest\"]\ncolumns = {{ a = \"a\" }}\n{SOURCE}{VALUE}"))
            .unwrap()
            .table
            .unknown_fields,
        UnknownFields::Rest
    );
    table(
        "unknown_fields = \"rest\"\ncolumns = { _REST = \"a\" }\ncolumn_case = \"as-is\"",
        &["4:13 reserved makes the column `_rest` itself"],
    );
    table("columns = { _rest = \"a\" }", &[]);
    table("unknown_fields = \"add\"", &["3:18 invalid takes a schema in a registry"]);
    let registered = VALUE.replace("proto = \"x.proto\", message", "registry = \"main\", name = \"x\", message");
    let unknown = |line: &str| parse_named(&format!("{TABLE}{line}{SOURCE}{registered}")).unwrap().table.unknown_fields;
    assert_eq!(unknown("unknown_fields = \"add\"\n"), UnknownFields::Add);
    assert_eq!((unknown(""), unknown("unknown_fields = \"ignore\"\n")), (UnknownFields::Add, UnknownFields::Ignore));
    table("unknown_fields = \"rst\"", &["3:18 invalid did you mean \"rest\"?"]);
}

#[test]
fn a_filter_has_a_field_and_values() {
    let value = |line: &str| format!("{SOURCE}{VALUE}{line}\n{TABLE}");
    let filter =
        parse_named(&value("filter = { field = 'a.\"b.c\"', in = [\"x\", \"${shout}\"] }")).unwrap().value.filter;
    let expected = Filter {
        field: ["a", "b.c"].map(str::to_owned).into(),
        one_of: ["x", "BIG"].map(|text| Literal::Text(text.to_owned())).into(),
    };
    assert_eq!(filter, Some(expected));
    let check = |line: &str, expected: &[&str]| check(&value(line), expected);
    check("filter = \"x\"", &["7:10 wrong_type a table"]);
    check("filter = {}", &["7:1 missing needs `field`", "7:1 missing needs `in`"]);
    check("filter = { field = \"a b\", in = [] }", &["7:23 invalid unexpected text", "7:32 invalid at least one"]);
    check("filter = { field = \"@key\", in = [1] }", &["7:20 invalid names a field of the value; `@key` is none"]);
    check(
        "filter = { filed = \"a\", in = [1] }",
        &["7:1 missing needs `field`", "7:12 unknown_key did you mean `field`?"],
    );
}

#[test]
fn syntax_says_where() {
    check("[source]\ntopics = [\"t\"\n[value]\n", &["3:1 syntax missing comma between array elements"]);
    check(&format!("{SOURCE}{VALUE}{TABLE}mode = append\n"), &["9:8 syntax string"]);
    check(&format!("{SOURCE}{VALUE}{TABLE}mode = \"append\nzzz = 1"), &["9:15 syntax invalid basic string"]);
    // A key that is there twice leaves the rest as it is: reading goes on.
    check(
        &format!("{SOURCE}{VALUE}{TABLE}mode = \"append\"\nmode = \"dedup\"\nzzz = 1"),
        &["10:1 duplicate `mode` is there twice", "11:1 unknown_key `zzz`"],
    );
    check(&format!("{SOURCE}{VALUE}{TABLE}[source]\nname = \"x\""), &["9:2 duplicate `source` is there twice"]);
}

#[test]
fn what_is_missing_is_named() {
    check("", &["1:1 missing no `[source]`", "1:1 missing no `[value]`", "1:1 missing no `[table]`"]);
    check(
        "[source]\n[value]\n[table]\n",
        &[
            "1:2 missing needs `topics`",
            "2:2 missing needs `format`",
            "2:2 missing needs `schema`",
            "2:2 missing needs `framing`: \"bare\", or",
            "3:2 missing needs `name`",
        ],
    );
    check(
        "source = 1\nvalue = []\ntable = \"x\"",
        &[
            "1:10 wrong_type `source` takes a table, found a whole number",
            "2:9 wrong_type `value` takes a table, found an array",
            "3:9 wrong_type `table` takes a table, found a string",
        ],
    );
    check(&format!("[source]\ntopics = []\n{VALUE}{TABLE}"), &["2:10 invalid at least one topic"]);
    check(
        &format!("[source]\ntopics = \"t\"\n{VALUE}{TABLE}"),
        &["2:10 wrong_type an array of strings, found a string"],
    );
    check(&format!("{SOURCE}{VALUE}{TABLE}").replace(", message = \"p.M\"", ""), &["6:1 missing needs `message`"]);
    check(
        &format!("{SOURCE}{VALUE}{TABLE}").replace("message", "descriptor = \"x\", message"),
        &["6:31 invalid is one of"],
    );
    check(&format!("{SOURCE}{VALUE}{TABLE}").replace("p.M", "p..M"), &["6:41 invalid full name"]);
    let unnamed = parse(&format!("{SOURCE}{VALUE}{TABLE}"), &environment(), Path::new("pipelines/My Pipeline.toml"));
    assert!(unnamed.unwrap_err()[0].message.contains("`My Pipeline` is not a pipeline name"));
}

#[test]
fn topics_and_table_names_are_held_to_their_systems() {
    check(
        &format!("[source]\ntopics = [\"a\", \"${{prefix}}b\", \"demo-b\", \"a/b\"]\n{VALUE}{TABLE}"),
        &["2:30 duplicate `demo-b` is there twice", "2:40 invalid is not a topic name"],
    );
    let topics = |topics: &str, name: &str, expected: &[&str]| {
        check(&format!("[source]\ntopics = [{topics}]\n{VALUE}[table]\nname = \"{name}\"\n"), expected);
    };
    topics("\"__consumer_offsets\"", "db.t", &["2:11 invalid `__consumer_offsets` is the brokers' own"]);
    topics(
        "\"_a\", \"_b*\", \"?_c\", \"d\"",
        "db.{topic}",
        &["2:10 invalid the topic `_a` can't begin", "2:10 invalid what fits `_b*`"],
    );
    topics("\"_a\", \"_b*\"", "db.x{topic}", &[]);
    let name = |name: &str, expected: &str| check(&format!("[table]\nname = {name}\n{SOURCE}{VALUE}"), &[expected]);
    name("\"employee\"", "2:8 invalid exactly `namespace.table`");
    name("\"a.b.c\"", "2:8 invalid exactly `namespace.table`");
    name("\"db.Employee\"", "2:12 invalid `Employee` cannot name a namespace or table");
    name("'db.em-ployee'", "2:12 invalid Glue and Athena fold case");
    name("\"${shout}.employee\"", "2:8 invalid `BIG` cannot name");
    name("\".employee\"", "2:9 invalid `` cannot name");
    name("\"db.{topc}\"", "2:12 invalid did you mean `{topic}`?");
    name("\"db.${db\"", "2:12 invalid not closed");
    name("\"db.${}x\"", "2:12 unknown_variable cannot name a variable");
    name("\"${shuot}.x\"", "2:9 unknown_variable did you mean `shout`?");
    let nearest = parse_named(&format!("[table]\nname = \"db.Employee\"\n{SOURCE}{VALUE}")).unwrap_err();
    assert_eq!(nearest[0].nearest.as_deref(), Some("employee"));
}

#[test]
fn columns_are_checked() {
    let column = |line: &str, expected: &[&str]| table(&format!("[table.columns]\n{line}"), expected);
    column("a = 3", &["4:5 wrong_type a source path, or a table"]);
    column("a = \"b..c\"", &["4:8 invalid expected a name"]);
    column("a = { from = 'b.\"c' }", &["4:17 invalid not closed"]);
    column("a = \"@kye\"", &["4:5 invalid did you mean `@key`?"]);
    column("a = \"@header\"", &["4:5 invalid a header is named: `@header.NAME`"]);
    column("a = \"@header.\"", &["4:5 invalid a header is named"]);
    column("a = { from = \"@key\", type = \"long\" }", &["4:29 invalid binary or string, not long"]);
    column("a = { from = \"@header.x\", pattern = \"x\" }", &["4:37 invalid of the type binary"]);
    column("a = { from = \"@header.x\", type = \"string\", pattern = \"x\" }", &[]);
    column("a = \"@timestmp\"", &["4:5 invalid did you mean `@timestamp`?"]);
    column("a = { type = \"bigint\" }", &["4:15 invalid did you mean `long`?"]);
    column("a = { type = \"struct<x: array>\" }", &["4:25 invalid did you mean `list`?"]);
    column("a = { type = \"list<uuid>\" }", &["4:14 invalid Athena does not read `uuid`"]);
    column("a = { required = \"yes\", doc = 1 }", &["4:18 wrong_type true or false", "4:31 wrong_type a string"]);
    column("_pos = \"x\"", &["4:1 reserved the Iceberg specification keeps it"]);
    column("_change_type = \"x\"", &["4:1 reserved the Iceberg specification keeps it"]);
    column("_Kafka_Offset = \"x\"", &["4:1 reserved one of the record columns"]);
    column("_table = \"x\"", &["4:1 reserved frazil stages a column of that name"]);
    column("Name = \"name\"", &["4:1 invalid write `name`"]);
    table(
        "column_case = \"as-is\"\n[table.columns]\nName = \"name\"\nname = \"n\"",
        &["6:1 duplicate differ only in case"],
    );
    table("types = \"iceberg\"\n[table.columns]\na = { type = \"list<uuid>\" }", &[]);
    table("column_case = \"as-is\"\n[table.columns]\nName = \"name\"", &[]);
    table("fields = \"listed\"", &["3:10 invalid needs columns"]);
    table(
        "exclude = [\"a\", \"id\", \"a\", \"b c\"]\n[table.columns]\nx = \"id\"",
        &[
            "3:17 invalid the column `x` is made from it",
            "3:23 duplicate `a` is there twice",
            "3:31 invalid unexpected text after the path",
        ],
    );
    // What is staged of a column that is declared no more.
    table("exclude = [\"@key.x\", \"@header.x\", \"x\"]", &[]);
    let key = |from: &str| format!("exclude = [\"@key.u.x\"]\n[table.columns]\nk = \"{from}\"");
    let (keyless, made) = ("1:2 missing no `[key]`", "3:12 invalid the column `k` is made from it");
    table(&key("@key"), &[made]);
    for from in ["@key.u", "@key.u.x", "@key.u.x.y"] {
        table(&key(from), &[keyless, made]);
    }
    table(&key("@key.v"), &[keyless]);
    table(
        "exclude = [\"@key.id\", \"@header.id\", \"@topic\", \"@key.a b\"]\n[table.columns]\nx = \"@header.id\"\nid = \"id\"",
        &[
            "3:23 invalid the column `x` is made from it",
            "3:38 invalid expected a name",
            "3:55 invalid unexpected text after the path",
        ],
    );
}

#[test]
fn keys_partitions_and_sort_order_are_checked() {
    let columns = "\n[table.columns]\nemployee_id = \"id\"\nat = { type = \"timestamptz\" }\nx = { type = \"double\" }\nat_day = \"d\"";
    let all = |line: &str, expected: &[&str]| table(&format!("{line}{columns}"), expected);
    let listed = |line: &str, expected: &[&str]| table(&format!("{line}\nfields = \"listed\"{columns}"), expected);
    all("primary_key = [\"employee_id\", \"other\"]", &[]);
    all("primary_key = [\"employee_id\", \"employee_id\"]", &["3:31 duplicate there twice"]);
    all("primary_key = [\"x\"]", &["3:16 invalid floating-point"]);
    all("primary_key = \"employee_id\"", &["3:15 wrong_type an array of strings"]);
    all("primary_key = [\"id\"]", &["3:16 unknown_column in the table that column is called `employee_id`"]);
    all("sort_by = [\"Employee_Id\"]", &["3:12 unknown_column did you mean `employee_id`?"]);
    listed("sort_by = [\"_kafka_offset\", \"at desc nulls last\"]", &[]);
    listed("sort_by = [\"emplyee_id\"]", &["3:12 unknown_column did you mean `employee_id`?"]);
    listed("primary_key = [\"other\"]", &["3:16 unknown_column not one of the listed columns"]);
    listed("record_columns = false\nsort_by = [\"_kafka_offset\"]", &["4:12 unknown_column `record_columns` is false"]);
    all(
        "sort_by = [\"at\", \"at desc\", \"x sideways\"]",
        &["3:18 duplicate there twice", "3:32 invalid unexpected `sideways`"],
    );
    all("partition_by = [\"bucket(8, employee_id)\", \"hours(at)\", \"team\"]", &[]);
    all("partition_by = [\"hour(at)\", \"hours(at)\"]", &["3:29 duplicate there twice"]);
    all("partition_by = [\"bucket(8, a)\", \"bucket(4, a)\"]", &["3:33 duplicate would be called `a_bucket`"]);
    all("partition_by = [\"month(at)\", \"hour(at)\"]", &["3:30 invalid keep the finer"]);
    all("partition_by = [\"day(at)\"]", &["3:17 invalid would be called `at_day`, as a column is"]);
    all("partition_by = [\"bucket(employee_id, 8)\"]", &["3:25 invalid the number of buckets first"]);
    // Behind an escape a place in the value is no longer a place in the file: its start is given.
    all("partition_by = [\"bucket(\\u0065, 8)\"]", &["3:17 invalid the number of buckets first"]);
    all("partition_by = [\"\"\"bucket(e, 8)\"\"\"]", &["3:27 invalid the number of buckets first"]);
}

#[test]
fn numbers_properties_and_words_are_checked() {
    table("format_version = 1", &["3:18 invalid it takes 2"]);
    table("format_version = 2.0", &["3:18 wrong_type a whole number, found a number with a point"]);
    table("format_version = 99999999999999999999", &["3:18 invalid does not fit 64 bits"]);
    table("record_columns = \"yes\"", &["3:18 wrong_type true or false, found a string"]);
    table("fields = \"lsited\"", &["3:10 invalid did you mean \"listed\"?"]);
    table("tombstones = \"keeps\"", &["3:14 invalid it takes \"filter\""]);
    let fold = |line: &str, expected: &str| check(&format!("[fold]\n{line}\n{SOURCE}{VALUE}{TABLE}"), &[expected]);
    fold("max_age = \"60\"", "2:11 invalid no unit");
    fold("max_age = \"250ms\"", "2:11 invalid whole number of seconds");
    fold("max_bytes = \"512mb\"", "2:13 invalid `mb` is not a unit");
    fold("max_rows = 0", "2:12 invalid at least 1");
    fold("max_rows = -1", "2:12 invalid at least 1");
    fold("tables_max = 0", "2:14 invalid at least 1");
    fold("memory = \"much\"", "2:10 invalid \"auto\" or at least 256MiB: `much` is not a size");
    fold("memory = \"512\"", "2:10 invalid `512` has no unit");
    fold("memory = \"255MiB\"", "2:10 invalid `255MiB` is less than 256MiB");
    fold("memory = 512", "2:10 wrong_type a string");
    fold("max_rows = \"1\"", "2:12 wrong_type a whole number, found a string");
    let property = |line: &str, expected: &[&str]| table(&format!("[table.properties]\n{line}"), expected);
    property("\"a.b\" = 1", &["4:9 wrong_type Iceberg's properties are text"]);
    property("a.b = \"1\"", &["4:1 wrong_type a property's name with dots is quoted"]);
    property("\"frazil.ledger.x\" = \"1\"", &["4:1 reserved written by frazil only"]);
    property("\"format-version\" = \"3\"", &["4:1 reserved use `format_version`"]);
    property("\"write.target-file-size-bytes\" = \"big\"", &["4:34 invalid a whole number of bytes"]);
    property("\"write.format.default\" = \"orc\"", &["4:26 invalid the only format frazil writes"]);
    property("\"history.expire.max-snapshot-age-ms\" = \"1d\"", &["4:40 invalid milliseconds as a whole number"]);
    property("\"history.expire.max-snapshot-age-ms\" = \"691200000\"", &[]);
    property("\"history.expire.max-snapshot-age-ms\" = \"691199999\"", &["4:40 invalid at least 691200000"]);
    property(
        "\"history.expire.max-snapshot-age-ms\" = \"691200000\"\n[staging]\nretention = \"8d\"",
        &["4:40 invalid at least 777600000"],
    );
}

#[test]
fn columns_are_counted_in_characters() {
    check(&format!("{SOURCE}{VALUE}{TABLE}doc = \"größe\"; \"ü\" = 1"), &["9:14 syntax expected"]);
    table("\"ü\" = 1", &["3:1 unknown_key `ü`"]);
    table("columns = { \"größe\" = { typ = 1 } }", &["3:25 unknown_key did you mean `type`?"]);
}

#[test]
fn the_schema_file_is_looked_for_beside_the_rest() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("pipelines/t.toml");
    std::fs::create_dir(temp.path().join("pipelines")).unwrap();
    let good = format!("{SOURCE}{VALUE}{TABLE}");
    std::fs::write(&file, &good).unwrap();
    let error = load(&file, &environment()).unwrap_err();
    let [fault] = error.faults() else { panic!("{error}") };
    assert_eq!((fault.line, fault.column, fault.code), (6, 20, code::SCHEMA_MISSING));
    assert!(fault.message.ends_with(&temp.path().join("x.proto").display().to_string()), "{fault}");
    assert_eq!((error.kind(), error.code()), (model::failure::Kind::Misconfigured, code::SCHEMA_MISSING));

    std::fs::write(&file, format!("{good}zzz = 1\n")).unwrap();
    assert_eq!(load(&file, &environment()).unwrap_err().faults().len(), 2);
    std::fs::write(&file, &good).unwrap();
    std::fs::write(temp.path().join("x.proto"), "").unwrap();
    assert_eq!(load(&file, &environment()).unwrap().name, "t");

    // Where there is a project, paths are relative to it.
    let elsewhere = Environment { root: Some(temp.path().join("elsewhere")), ..environment() };
    assert!(load(&file, &elsewhere).unwrap_err().to_string().contains("elsewhere/x.proto"));
    assert_eq!(project_folder(&environment(), Path::new("t.toml")), Path::new(".."));
    assert_eq!(project_folder(&environment(), Path::new("pipelines/t.toml")), Path::new(""));

    std::fs::write(&file, b"[source]\n# \xff").unwrap();
    assert!(load(&file, &environment()).unwrap_err().to_string().ends_with("t.toml:2:3: not UTF-8 from here on"));
    std::fs::write(&file, vec![b'\n'; BYTES_MAX as usize + 1]).unwrap();
    assert!(matches!(load(&file, &environment()), Err(Error::Unreadable { .. })));
    assert!(matches!(load(&temp.path().join("none.toml"), &environment()), Err(Error::Unreadable { .. })));
}

#[test]
fn framings_and_registries_are_read() {
    let value = |lines: &str, schema: &str| {
        let text = format!("{SOURCE}{TABLE}[value]\nformat = \"protobuf\"\n{lines}\nschema = {{ {schema} }}\n");
        assert_eq!(of_pipeline(&text), Vec::<String>::new(), "{text}");
        parse_named(&text).unwrap().value
    };
    let read = value(
        "framing = \"confluent\"\nconfluent_indexes = \"plain\"",
        "registry = \"main\", name = \"s\", message = \"p.M\"",
    );
    let registered = |registries: &[&str], name: &str, message: Option<&str>| Schema::Registered {
        registries: registries.iter().map(|name| (*name).to_owned()).collect(),
        name: name.to_owned(),
        message: message.map(str::to_owned),
    };
    assert_eq!((read.framing, read.indexes), (Framing::Confluent, Indexes::Plain));
    assert_eq!(read.schema, registered(&["main"], "s", Some("p.M")));
    let read = value("framing = \"auto\"", "registries = [\"old\", \"main\"], name = \"Employee.proto\"");
    assert_eq!((read.framing, read.indexes), (Framing::Auto, Indexes::Zigzag));
    assert_eq!(read.schema, registered(&["old", "main"], "Employee.proto", None));

    let faulty = |lines: &str, schema: &str, expected: &str| {
        let value = format!("[value]\nformat = \"protobuf\"\n{lines}\nschema = {{ {schema} }}\n");
        check(&format!("{value}{SOURCE}{TABLE}"), &[expected]);
    };
    let own = "proto = \"x.proto\", message = \"p.M\"";
    faulty("framing = \"avro-single-object\"", own, "3:11 invalid only `format = \"avro\"` comes as");
    faulty("framing = \"glue\"\nconfluent_indexes = \"plain\"", own, "4:1 invalid is for `framing = \"confluent\"`");
    faulty("framing = \"auto\"\nconfluent_indexes = \"plan\"", own, "4:21 invalid did you mean \"plain\"");
    let bare = "framing = \"bare\"";
    faulty(bare, "registry = \"man\", name = \"s\"", "4:23 invalid did you mean \"main\"");
    faulty(bare, "registries = [\"main\", \"main\"], name = \"s\"", "4:34 invalid named twice");
    faulty(bare, "registries = [], name = \"s\"", "4:25 invalid at least one");
    faulty(bare, "registry = \"main\"", "4:1 missing needs `name`");
    faulty(bare, "registry = \"main\", registries = [\"old\"], name = \"s\"", "4:31 invalid is one of");
    faulty(bare, "proto = \"x.proto\", registry = \"main\", name = \"s\", message = \"M\"", "4:31 invalid is one of");
    faulty(bare, "proto = \"x.proto\", name = \"s\", message = \"M\"", "4:31 invalid in a registry");
}

/// Of JSON there may be no schema: its columns say what there is.
#[test]
fn json_has_a_schema_or_declared_columns() {
    let columns = "[table.columns]\nid = { type = \"long\" }\n";
    let text =
        |schema: &str| format!("{SOURCE}{TABLE}{columns}[value]\nformat = \"json\"\nframing = \"bare\"\n{schema}");
    let read = |schema: &str| {
        assert_eq!(of_pipeline(&text(schema)), Vec::<String>::new(), "{schema}");
        parse_named(&text(schema)).unwrap().value.schema
    };
    assert_eq!(read(""), Schema::Declared);
    let fields = |schema: &str| parse_named(&text(schema)).unwrap().table.fields;
    assert_eq!((fields(""), fields("schema = { json_schema = \"x.json\" }")), (Fields::Listed, Fields::All));
    let Schema::Json { path } = read("schema = { json_schema = \"schemas/x.json\" }") else { panic!("no JSON Schema") };
    assert!(path.ends_with("schemas/x.json"), "{}", path.display());
    let faulty = |format: &str, schema: &str, expected: &str| {
        check(&format!("[value]\nformat = \"{format}\"\nframing = \"bare\"\n{schema}\n{SOURCE}{TABLE}"), &[expected]);
    };
    faulty("json", "schema = { json_schema = \"x.json\", message = \"M\" }", "4:36 invalid `message` is of protobuf");
    faulty("json", "schema = { json_schema = \"x.json\", name = \"s\" }", "4:36 invalid in a registry");
    faulty("json", "schema = { json_schema = \"\" }", "4:26 invalid a schema file has a path");
    faulty("json", "schema = { avsc = \"x.avsc\" }", "4:12 invalid takes `json_schema`, `registry` or `registries`");
    faulty(
        "json",
        "schema = { registry = \"main\", name = \"s\", message = \"M\" }",
        "4:43 invalid a JSON Schema is of one object",
    );
    faulty("json", "schema = { }", "4:1 missing needs `json_schema`, `registry` or `registries`");
    faulty("avro", "schema = { json_schema = \"x.json\" }", "4:12 invalid is no schema of `format = \"avro\"`");
    faulty("avro", "", "1:2 missing needs `schema`");
    faulty("json", "", "7:2 missing without a schema needs columns");
}

#[test]
fn keys_are_read_where_columns_are_made_of_their_fields() {
    let key = "[key]\nformat = \"json\"\nframing = \"bare\"\n";
    let column = "[table.columns]\nid = { from = \"@key.a.\\\"b.c\\\"\", type = \"timestamptz\", unit = \"ms\", pii = \"hash\" }\n";
    let column = &column.replace(", pii = \"hash\"", "");
    let found = parse_named(&format!("{SOURCE}{VALUE}{key}{TABLE}{column}")).unwrap();
    assert_eq!(found.table.columns[0].from, From::KeyField(vec!["a".to_owned(), "b.c".to_owned()]));
    let of_key = found.of_key().unwrap();
    assert_eq!((of_key.value.format, of_key.table.fields), (Format::Json, Fields::Listed));
    assert_eq!(of_key.table.columns[0].from, From::Path(vec!["a".to_owned(), "b.c".to_owned()]));
    check(&format!("{SOURCE}{VALUE}{TABLE}{column}"), &["7:2 missing there is no `[key]`"]);
    check(&format!("{SOURCE}{VALUE}{key}{TABLE}"), &["7:2 invalid no column is made of one"]);
    let with = |line: &str| format!("{SOURCE}{VALUE}{key}{line}\n{TABLE}{column}");
    check(&with("explode = \"a\""), &["10:1 unknown_key `explode`"]);
    check(&with("schema = { avsc = \"x\" }"), &["10:12 invalid no schema of `format = \"json\"`"]);
    check(&format!("{SOURCE}{VALUE}{key}{TABLE}[table.columns]\nid = \"@key.\""), &["13:12 invalid name"]);
}

#[test]
fn what_belongs_to_upsert_is_said_of_it_alone() {
    table("mode = \"upsert\"", &["3:8 missing needs a `primary_key`"]);
    let key = "primary_key = [\"a\"]";
    let upsert = format!("mode = \"upsert\"\n{key}");
    table(&format!("{upsert}\norder_by = [\"at\", \"at\"]"), &["5:19 duplicate there twice"]);
    table(&format!("{upsert}\nwrite = \"merge\""), &["5:9 invalid merge-on-read"]);
    table(&format!("{upsert}\nrecord_columns = false"), &["5:18 invalid which of two versions came later"]);
    table(
        &format!("{upsert}\norder_by = [\"x\"]\n[table.columns]\nx = {{ type = \"list<int>\" }}"),
        &["5:13 invalid no order"],
    );
    table(
        &format!("mode = \"dedup\"\n{key}\norder_by = [\"at\"]\nwrite = \"auto\"\ndeletes = \"hard\""),
        &["5:1 invalid `mode = \"upsert\"`", "6:1 invalid belongs to", "7:1 invalid belongs to"],
    );
    table(
        &format!("{upsert}\ndeletes = \"soft\"\n[table.columns]\n_is_deleted = {{ type = \"boolean\" }}"),
        &["5:11 reserved makes the column `_is_deleted` itself"],
    );
    table("null_keys = \"reject\"", &["3:1 invalid compare keys"]);
    let columns = "[table.columns]\na = { pii = \"last4\" }";
    table(&format!("{upsert}\n{columns}"), &["4:16 invalid rows of many would be one"]);
    table(
        &format!("{upsert}\norder_by = [\"b\"]\n[table.columns]\nb = {{ pii = \"last4\" }}"),
        &["5:13 invalid has not the order"],
    );
    let pipeline = parse_named(&format!(
        "[source]\ntopics = [\"x.*\"]\n{VALUE}[table]\nname = \"db.{{topic}}\"\nmode = \"upsert\"\n{key}\norder_by = [\"at\"]\n\
         write = \"merge-on-read\"\n[tables.one]\norder_by = []\nnull_keys = \"reject\"\n[tables.two]\nmode = \"append\"\n\
         [tables.three]\ndeletes = \"ignore\"\n"
    ))
    .unwrap();
    let of = |name: &str| pipeline.settings(name);
    let upsert = |order: &[&str], deletes| Upsert {
        order_by: order.iter().map(|name| (*name).to_owned()).collect(),
        write: Write::MergeOnRead,
        deletes,
    };
    assert_eq!(of("other").upsert, Some(upsert(&["at"], Deletes::Hard)));
    assert_eq!((of("one").upsert.clone(), of("one").null_keys), (Some(upsert(&[], Deletes::Hard)), NullKeys::Reject));
    assert_eq!(of("two").upsert, None);
    assert!(!of("three").takes_deletes() && of("one").takes_deletes());
    assert_eq!(of("one").beside_record_key(), Some("a"));
    let beside = |key: &str| {
        let columns = "[table.columns]\nid = \"@key.id\"\nt = \"@topic\"\np = \"@partition\"\no = \"@offset\"\nh = \"@header.h\"\nv = \"v\"\n";
        let of_key = "[key]\nformat = \"json\"\nframing = \"bare\"\n";
        let table = format!(
            "[table]\nname = \"db.t\"\nmode = \"upsert\"\nprimary_key = [{key}]\ndeletes = \"soft\"\n{columns}"
        );
        let columns = table.replace("\"@key.id\"", "{ from = \"@key.id\", type = \"long\" }");
        let pipeline = parse_named(&format!("[source]\ntopics = [\"x\"]\n{VALUE}{of_key}{columns}")).unwrap();
        assert!(pipeline.table.takes_deletes() && pipeline.table.marks_deletes());
        let (beside, one) = (pipeline.table.beside_record_key(), pipeline.table.of_one_record());
        (beside.map(str::to_owned), one.map(str::to_owned))
    };
    let some = |name: &str| Some(name.to_owned());
    assert_eq!(beside("\"id\", \"t\", \"p\", \"_kafka_topic\""), (None, None));
    assert_eq!(beside("\"id\", \"v\""), (some("v"), None));
    assert_eq!(beside("\"id\", \"h\""), (some("h"), None));
    assert_eq!(beside("\"id\", \"o\""), (some("o"), some("o")));
    assert_eq!(beside("\"t\", \"_kafka_offset\""), (some("_kafka_offset"), some("_kafka_offset")));
}

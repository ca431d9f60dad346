use std::collections::BTreeMap;

use pipeline::expectation::{Expectations, Literal};
use pipeline::resolved::{
    ColumnCase, ColumnDeclaration, DedupWithin, Exists, Fields, Filter, Format, Framing, From, Indexes, Late, Mode,
    NullKeys, Pii, RecordField, Schema, Table, TableName, Types, UnknownFields, Value,
};
use pipeline::types::Type;
use prost_reflect::MessageDescriptor;

use super::{Fault, plan};
use crate::protobuf::schema;
use crate::source::{self, Described};

/// A table of all fields, lower case, portable, with nothing declared.
pub(crate) fn table() -> Table {
    Table {
        name: TableName { namespace: "db".to_owned(), name: "t".to_owned() },
        exists: Exists::Create,
        mode: Mode::Append,
        primary_key: Vec::new(),
        dedup_within: None,
        upsert: None,
        null_keys: NullKeys::Match,
        partition_by: Vec::new(),
        sort_by: Vec::new(),
        fields: Fields::All,
        exclude: Vec::new(),
        unknown_fields: UnknownFields::Ignore,
        column_case: ColumnCase::Lower,
        types: Types::Portable,
        record_columns: false,
        format_version: 2,
        columns: Vec::new(),
        properties: BTreeMap::new(),
    }
}

/// A block of bare payloads.
pub(crate) fn value(filter: Option<Filter>) -> Value {
    let schema = Schema::Proto { path: "test.proto".into(), message: "M".to_owned() };
    Value { format: Format::Protobuf, framing: Framing::Bare, indexes: Indexes::Zigzag, schema, filter, explode: None }
}

pub(crate) fn path(path: &str) -> From {
    From::Path(path.split('.').map(str::to_owned).collect())
}

pub(crate) fn declare(table: &mut Table, name: &str, from: From, data_type: Option<&str>) {
    table.columns.push(ColumnDeclaration {
        name: name.to_owned(),
        from,
        data_type: data_type.map(|text| text.parse().unwrap()),
        unit: None,
        required: false,
        doc: None,
        expect: Expectations::default(),
        pii: None,
    });
}

fn message(body: &str) -> MessageDescriptor {
    let text = format!(
        "syntax = \"proto3\"; import \"google/protobuf/timestamp.proto\"; import \"google/protobuf/wrappers.proto\";
         import \"google/protobuf/struct.proto\"; {body}"
    );
    schema::from_text(&[("test.proto", &text)], "M").unwrap()
}

/// Columns as `name type source`.
fn check(message: &MessageDescriptor, table: &Table, expected: &[&str]) {
    let columns = plan(message, table).unwrap_or_else(|faults| panic!("{faults:?}")).columns;
    let columns: Vec<String> =
        columns.iter().map(|column| format!("{} {} {}", column.name, column.data_type, column.source)).collect();
    assert_eq!(columns, expected);
}

/// Faults, each by its place and a part of its text.
fn refused(message: &MessageDescriptor, table: &Table, expected: &[(&str, &str)]) {
    let faults = plan(message, table).expect_err("it should be refused");
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for (Fault { place, message, .. }, (wanted, part)) in faults.iter().zip(expected) {
        assert_eq!(place, wanted, "{message}");
        assert!(message.contains(part), "{message}\nlacks: {part}");
    }
}

fn employee() -> MessageDescriptor {
    let text = include_str!("../../../../proto/employee.proto");
    schema::from_text(&[("employee.proto", text)], "gsr.proto.post.Employee").unwrap()
}

#[test]
fn every_field_is_a_column() {
    let mut table = table();
    check(
        &employee(),
        &table,
        &[
            "id int value:1",
            "name string value:2",
            "address string value:3",
            "employee_age int value:4",
            "start_date timestamptz value:5",
            "team struct<name: string, location: string> value:6",
            "role string value:7",
        ],
    );
    table.exclude = vec!["address".to_owned(), "team.location".to_owned()];
    declare(&mut table, "employee_id", path("id"), Some("long"));
    declare(&mut table, "age", path("employee_age"), None);
    declare(&mut table, "sent", From::Record(RecordField::Timestamp), None);
    declare(&mut table, "role", From::Record(RecordField::Topic), None);
    check(
        &employee(),
        &table,
        &[
            "employee_id long value:1",
            "name string value:2",
            "age int value:4",
            "start_date timestamptz value:5",
            "team struct<name: string> value:6",
            "sent timestamptz @timestamp",
            "role string @topic",
        ],
    );
}

#[test]
fn a_field_that_a_path_leads_through_is_no_column_itself() {
    let mut table = table();
    declare(&mut table, "team", path("team.name"), None);
    declare(&mut table, "place", path("team.location"), Some("binary"));
    let columns = plan(&employee(), &table).unwrap().columns;
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["id", "name", "address", "employee_age", "start_date", "team", "place", "role"]);
    assert_eq!((columns[5].source.as_str(), columns[5].source_name.as_str()), ("value:6.1", "team.name"));
}

#[test]
fn listed_columns_are_all_there_is() {
    let mut table = table();
    table.fields = Fields::Listed;
    declare(&mut table, "role", path("role"), Some("int"));
    declare(&mut table, "offset", From::Record(RecordField::Offset), None);
    declare(&mut table, "started", path("start_date"), Some("timestamp"));
    table.columns[0].required = true;
    table.columns[0].doc = Some("what they do".to_owned());
    check(&employee(), &table, &["role int value:7", "offset long @offset", "started timestamp value:5"]);
    let columns = plan(&employee(), &table).unwrap();
    assert!(columns.columns[0].required);
    assert_eq!(columns.columns[0].doc.as_deref(), Some("what they do"));
    let text = serde_json::to_string(&columns).unwrap();
    assert_eq!(serde_json::from_str::<super::Columns>(&text).unwrap(), columns);
}

#[test]
fn names_are_spelled_as_asked_inside_as_well() {
    let message = message("message N { int32 subId = 1; } message M { N outerThing = 1; map<string, N> ByName = 2; }");
    let mut table = table();
    check(
        &message,
        &table,
        &["outerthing struct<subid: int> value:1", "byname map<string, struct<subid: int>> value:2"],
    );
    table.column_case = ColumnCase::Snake;
    check(
        &message,
        &table,
        &["outer_thing struct<sub_id: int> value:1", "by_name map<string, struct<sub_id: int>> value:2"],
    );
    // Sources may be named either way.
    declare(&mut table, "a", path("outer_thing.subId"), None);
    check(&message, &table, &["a int value:1.1", "by_name map<string, struct<sub_id: int>> value:2"]);
    table.columns.clear();
    table.column_case = ColumnCase::AsIs;
    check(
        &message,
        &table,
        &["outerThing struct<subId: int> value:1", "ByName map<string, struct<subId: int>> value:2"],
    );
}

#[test]
fn a_message_inside_itself_becomes_json() {
    let message = message(
        "message Tree { int32 v = 1; repeated Tree children = 2; Leaf leaf = 3; }
         message Leaf { Tree up = 1; google.protobuf.Struct s = 2; }
         message M { Tree tree = 1; map<string, M> more = 2; }",
    );
    check(
        &message,
        &table(),
        &[
            "tree struct<v: int, children: list<string>, leaf: struct<up: string, s: string>> value:1",
            "more map<string, string> value:2",
        ],
    );
    // Depth without recursion ends too, before a written type does.
    let chain: String =
        (0..60).map(|n| format!("message C{n} {{ repeated C{} c = 1; int32 v = 2; }} ", n + 1)).collect();
    let deep = self::message(&format!("{chain} message C60 {{ int32 v = 1; }} message M {{ C0 c = 1; }}"));
    let columns = plan(&deep, &table()).unwrap().columns;
    let text = columns[0].data_type.to_string();
    assert!(text.contains("list<string>"), "{text}");
    assert_eq!(text.parse::<pipeline::types::Type>().unwrap(), columns[0].data_type);
}

#[test]
fn every_fault_is_reported() {
    let mut table = table();
    table.exclude = vec!["addres".to_owned(), "team.nme".to_owned(), "role.x".to_owned()];
    declare(&mut table, "a", path("nane"), None);
    declare(&mut table, "b", path("name.x"), None);
    declare(&mut table, "Upper", path("id"), None);
    declare(&mut table, "_kafka_x", path("id"), None);
    declare(&mut table, "c", path("employee_age"), Some("string"));
    declare(&mut table, "d", path("start_date"), Some("date"));
    declare(&mut table, "e", path("name"), Some("uuid"));
    declare(&mut table, "f", From::Record(RecordField::Offset), Some("int"));
    declare(&mut table, "g", path("team"), Some("struct<name: string, loc: string>"));
    declare(&mut table, "h", path("id"), Some("boolean"));
    refused(
        &employee(),
        &table,
        &[
            ("table.columns.a", "did you mean `name`"),
            ("table.columns.b", "`name` isn't one"),
            ("table.columns.Upper", "write `upper`"),
            ("table.columns._kafka_x", "frazil reserves"),
            ("table.columns.e", "Athena"),
            ("table.columns.f", "can be long"),
            ("table.exclude[0]", "did you mean `address`"),
            ("table.exclude[1]", "did you mean `name`"),
            ("table.exclude[2]", "`role` has no fields"),
            ("table.columns.h", "int, long, double, decimal(10 or more, 0), string"),
            ("table.columns.d", "timestamptz, timestamp, string"),
            ("table.columns.g", "no field `loc`"),
        ],
    );
    // What the table is laid out by is looked at all the same, but for columns that are missing for a reason given.
    table.exclude.clear();
    table.columns.retain(|column| column.name == "a");
    table.partition_by = ["hour(name)", "a"].map(|text| pipeline::partition::parse(text).unwrap()).into();
    table.sort_by = vec![pipeline::sort::parse("nme").unwrap()];
    table.primary_key = vec!["team".to_owned(), "a".to_owned()];
    refused(
        &employee(),
        &table,
        &[
            ("table.columns.a", "did you mean `name`"),
            ("table.partition_by[0]", "`name` is string"),
            ("table.sort_by[0]", "did you mean `name`?"),
            ("table.primary_key[0]", "can't be a key"),
        ],
    );
}

#[test]
fn keys_and_headers_are_columns_too() {
    let mut table = table();
    table.fields = Fields::Listed;
    declare(&mut table, "k", From::Key, None);
    declare(&mut table, "city", From::Header("city.name".to_owned()), Some("string"));
    check(&employee(), &table, &["k binary @key", "city string @header.city.name"]);
    declare(&mut table, "n", From::Key, Some("long"));
    refused(&employee(), &table, &[("table.columns.n", "it can be binary, string")]);
}

#[test]
fn personal_data_is_in_no_other_column() {
    let message = message(
        "message N { string mail = 1; string name = 2; double d = 3; } message M { N n = 1; string mail = 2; bytes b = 3; N o = 4;
         repeated string l = 5; }",
    );
    let declare = |table: &mut Table, name: &str, from: &str, pii: Option<Pii>| {
        declare(table, name, path(from), None);
        table.columns.last_mut().unwrap().pii = pii;
    };
    let mut table = table();
    declare(&mut table, "mail", "n.mail", Some(Pii::Hash));
    declare(&mut table, "end", "n.mail", Some(Pii::Last4));
    declare(&mut table, "b", "b", Some(Pii::Hash));
    declare(&mut table, "gone", "o.mail", Some(Pii::Drop));
    declare(&mut table, "l", "l", Some(Pii::Drop));
    check(
        &message,
        &table,
        &[
            "mail string value:1.1|hash",
            "end string value:1.1|last4",
            "b string value:3|hash",
            "o struct<name: string, d: double> value:4",
        ],
    );
    declare(&mut table, "n", "n", None);
    declare(&mut table, "raw", "n.mail", None);
    declare(&mut table, "listed", "l", None);
    declare(&mut table, "other", "o", None);
    let part = "it holds what `pii` of the column `";
    refused(
        &message,
        &table,
        &[
            ("table.columns.listed", "excluded and declared"),
            ("table.columns.n", part),
            ("table.columns.raw", part),
            ("table.columns.n", part),
            ("table.columns.raw", part),
            ("table.columns.listed", part),
        ],
    );
    let mut table = self::table();
    declare(&mut table, "d", "n.d", Some(Pii::Hash));
    declare(&mut table, "n", "n", Some(Pii::Last4));
    declare(&mut table, "l", "l", Some(Pii::Hash));
    declare(&mut table, "x", "n.x", Some(Pii::Drop));
    refused(
        &message,
        &table,
        &[
            ("table.columns.x", "has no field `x`"),
            ("table.columns.d", "it can be double"),
            ("table.columns.n", "name a field within it"),
            ("table.columns.l", "is repeated"),
        ],
    );
}

/// Of keys, of parts, and of text that has in it whatever another version writes there.
#[test]
fn personal_data_is_in_no_column_around_it() {
    let with = |columns: &[(&str, From, Option<&str>, Option<Pii>)]| {
        let mut table = self::table();
        for (name, from, data_type, pii) in columns {
            declare(&mut table, name, from.clone(), *data_type);
            table.columns.last_mut().unwrap().pii = *pii;
        }
        table
    };
    let of_key = |name: &str| From::KeyField(vec![name.to_owned()]);
    let part = "it holds what `pii` of the column `";
    let message =
        message("message M { string a = 1; google.protobuf.Timestamp at = 2; P p = 3; } message P { string o = 1; }");
    let hashed = Some(Pii::Hash);
    for columns in [
        [("x", of_key("x"), Some("string"), hashed), ("c", From::Key, None, None)],
        [("x", From::Key, None, hashed), ("c", of_key("x"), Some("int"), None)],
        [("x", path("at"), None, hashed), ("c", path("at.seconds"), None, None)],
    ] {
        refused(&message, &with(&columns), &[("table.columns.c", part)]);
    }
    let both = [("x", of_key("x"), Some("string"), hashed), ("c", of_key("y"), Some("int"), None)];
    assert!(plan(&message, &with(&both)).is_ok());
    // In one version there is a field more, and the newest has a column of text there.
    let other = self::message("message M { string a = 1; P p = 3; } message P { string o = 1; string mail = 2; }");
    let versions = Versioned(message.describe(), vec![other.describe()]);
    let faults = |table: &Table| {
        let faults = plan(&versions, table).map(drop).unwrap_err();
        faults.into_iter().map(|fault| format!("{}: {}", fault.place, fault.message)).collect::<Vec<_>>()
    };
    let text = || ("p", path("p"), Some("string"), None);
    let found = faults(&with(&[text(), ("x", path("p.mail"), None, hashed)]));
    assert!(found.len() == 1 && found[0].starts_with("table.columns.p: it holds what `pii`"), "{found:?}");
    for unknown_fields in [UnknownFields::Ignore, UnknownFields::Add, UnknownFields::Rest] {
        let exclude = vec!["p.mail".to_owned()];
        let mut table = Table { exclude, unknown_fields, ..with(&[text()]) };
        let found = faults(&table);
        assert!(found.len() == 1 && found[0].starts_with("table.exclude[0]: `p.mail` excludes nothing"), "{found:?}");
        table.columns.clear();
        assert!(plan(&versions, &table).is_ok());
    }
}

/// A version with others that are known.
struct Versioned(source::Schema, Vec<source::Schema>);

impl Described for Versioned {
    fn describe(&self) -> source::Schema {
        source::Schema { versions: self.1.clone(), ..self.0.clone() }
    }

    fn misfits(&self, _: &super::Columns) -> Vec<(usize, String)> {
        Vec::new()
    }
}

#[test]
fn columns_of_one_source_are_told_apart() {
    let mut table = table();
    table.fields = Fields::Listed;
    declare(&mut table, "a", path("team.name"), None);
    declare(&mut table, "b", path("team.name"), Some("binary"));
    declare(&mut table, "k", From::Key, None);
    declare(&mut table, "text", From::Key, Some("string"));
    declare(&mut table, "id", path("id"), None);
    let sources =
        ["a string value:6.1#a", "b binary value:6.1#b", "k binary @key#k", "text string @key#text", "id int value:1"];
    check(&employee(), &table, &sources);
    let columns = plan(&employee(), &table).unwrap();
    assert_eq!(columns.columns[1].value_path(), Some(vec![6, 1]));
    assert_eq!(
        (columns.columns[1].source_name.as_str(), columns.columns[3].source_name.as_str()),
        ("team.name", "@key")
    );
    declare(&mut table, "o", From::Record(RecordField::Offset), None);
    declare(&mut table, "p", From::Record(RecordField::Offset), None);
    refused(&employee(), &table, &[("table.columns.p", "`@offset` is the column `o` already")]);
}

#[test]
fn expectations_go_with_the_types_that_sources_have() {
    let mut table = table();
    declare(&mut table, "role", path("role"), None);
    declare(&mut table, "age", path("employee_age"), None);
    declare(&mut table, "team", path("team"), None);
    declare(&mut table, "start_date", path("start_date"), None);
    for column in &mut table.columns {
        column.expect.min = Some(Literal::Integer(0));
    }
    refused(
        &employee(),
        &table,
        &[
            ("table.columns.start_date", "is a time such as"),
            ("table.columns.team", "can't be expected of a column of the type struct"),
            ("table.columns.role", "`pattern`, `in` can"),
        ],
    );
}

#[test]
fn two_columns_of_one_name_are_refused() {
    // Proto3 refuses such names itself; proto2 doesn't.
    let text = "syntax = \"proto2\"; message N { optional int32 a = 1; optional int32 A = 2; }
        message M { optional N n = 1; optional int32 Id = 2; optional int32 iD = 3; optional int32 _op = 4; }";
    let message = schema::from_text(&[("test.proto", text)], "M").unwrap();
    refused(
        &message,
        &table(),
        &[
            ("table", "the field `_op` can't be a column"),
            ("table", "two columns are named `n.a`"),
            ("table", "two columns are named `id`"),
        ],
    );
    let mut table = table();
    table.column_case = ColumnCase::AsIs;
    table.exclude = vec!["_op".to_owned()];
    refused(&message, &table, &[("table", "`n.a` and `n.A` differ only in case"), ("table", "`Id` and `iD`")]);
    table.exclude.extend(["n.A".to_owned(), "iD".to_owned()]);
    declare(&mut table, "n.a", path("Id"), None);
    refused(&message, &table, &[("table.columns.n.a", "two columns are named `n.a`")]);
    table.columns[0].name = "id".to_owned();
    table.columns[0].from = path("ID");
    table.column_case = ColumnCase::Lower;
    refused(&message, &table, &[("table.columns.id", "has no field `ID`")]);
    table.columns[0].from = path("id");
    refused(&message, &table, &[("table.columns.id", "`Id` or `iD`")]);
}

#[test]
fn an_exclusion_leaves_something_out_or_is_a_fault() {
    let message = message(
        "message N { int32 a = 1; string secret = 2; N n = 3; } message One { int32 x = 1; }
         message M { N n = 1; repeated N list = 2; map<string, N> map = 3; google.protobuf.Struct s = 4; One one = 5; }",
    );
    let mut table = table();
    table.exclude = ["n.secret", "n.n", "list.secret", "list.n", "map.value.secret", "map.value.n", "s", "one.x"]
        .map(str::to_owned)
        .to_vec();
    check(
        &message,
        &table,
        &["n struct<a: int> value:1", "list list<struct<a: int>> value:2", "map map<string, struct<a: int>> value:3"],
    );
    table.exclude = vec!["n.n.secret".to_owned(), "s.fields.value".to_owned(), "map.key".to_owned()];
    refused(
        &message,
        &table,
        &[
            ("table.exclude[0]", "`n.n.secret` excludes nothing"),
            ("table.exclude[1]", "the `value` of a map"),
            ("table.exclude[2]", "the `key` of a map"),
        ],
    );
    table.exclude = vec!["n.secret".to_owned(), "list".to_owned()];
    declare(&mut table, "n", path("n"), Some("string"));
    declare(&mut table, "list", path("list"), None);
    refused(
        &message,
        &table,
        &[("table.columns.list", "excluded and declared"), ("table.exclude[0]", "`n.secret` excludes nothing")],
    );
}

#[test]
fn a_table_without_columns_or_with_too_many_is_refused() {
    let empty = message("message M {}");
    refused(&empty, &table(), &[("table", "no column")]);
    let mut record = table();
    record.record_columns = true;
    check(&empty, &record, &[]);
    let wide: String = (0..8)
        .map(|n| {
            let fields: String = (1..=9).map(|f| format!("W{} f{f} = {f};", n + 1)).collect();
            format!("message W{n} {{ {fields} }}")
        })
        .collect();
    let wide = message(&format!("{wide} message W8 {{ int32 x = 1; }} message M {{ W0 w = 1; }}"));
    refused(&wide, &table(), &[("table", "more than 10000 fields")]);
}

#[test]
fn a_table_is_laid_out_by_columns_of_fitting_types() {
    let message = message(
        "message M { string name = 1; double score = 2; google.protobuf.Timestamp at = 3; Inner inner = 4;
         repeated int32 list = 5; } message Inner { int64 id = 1; }",
    );
    let with = |partition_by: &[&str], sort_by: &[&str], key: &[&str]| {
        let mut table = table();
        table.record_columns = true;
        table.partition_by = partition_by.iter().map(|text| pipeline::partition::parse(text).unwrap()).collect();
        table.sort_by = sort_by.iter().map(|text| pipeline::sort::parse(text).unwrap()).collect();
        table.primary_key = key.iter().map(|&name| name.to_owned()).collect();
        table
    };
    let fits = with(
        &["hour(at)", "bucket(4, inner.id)", "truncate(3, name)", "day(_kafka_timestamp)", "score"],
        &["inner.id desc", "_kafka_offset"],
        &["name", "inner.id"],
    );
    assert!(plan(&message, &fits).is_ok(), "{:?}", plan(&message, &fits));
    let cases: &[(&str, &str)] = &[
        ("hour(name)", "`hour(name)` can't be: `name` is string"),
        ("bucket(4, score)", "`score` is double"),
        ("inner", "`inner` is struct<id: long>"),
        ("day(inner.id)", "is long"),
        ("list", "is list<int"),
        ("hour(att)", "there is no column `att`; did you mean `at`?"),
        ("inner.idd", "there is no column `inner.idd`"),
        ("name.x", "there is no column `name.x`"),
        ("hour(_kafka_offset)", "is long"),
    ];
    for (text, expected) in cases {
        refused(&message, &with(&[text], &[], &[]), &[("table.partition_by[0]", expected)]);
    }
    refused(&message, &with(&[], &["list"], &[]), &[("table.sort_by[0]", "which has no order")]);
    refused(&message, &with(&[], &["nam"], &[]), &[("table.sort_by[0]", "did you mean `name`?")]);
    refused(&message, &with(&[], &[], &["score"]), &[("table.primary_key[0]", "can't be a key")]);
    let mut bare = with(&["day(_kafka_timestamp)"], &[], &[]);
    bare.record_columns = false;
    refused(&message, &bare, &[("table.partition_by[0]", "no column `_kafka_timestamp`")]);
}

#[test]
fn every_row_has_an_event_time_to_be_compared_by() {
    let message = message(
        "message M { string name = 1; google.protobuf.Timestamp at = 2; Inner inner = 3; }
         message Inner { google.protobuf.Timestamp at = 1; }",
    );
    let with = |column: &str| {
        let mut table = table();
        table.record_columns = true;
        table.mode = Mode::Dedup;
        table.primary_key = vec!["name".to_owned()];
        let column = column.to_owned();
        table.dedup_within = Some(DedupWithin { column, lookback_seconds: 3600, late: Late::Keep });
        table
    };
    let columns = plan(&message, &with("at")).unwrap().columns;
    assert_eq!(columns.iter().map(|c| c.required).collect::<Vec<_>>(), [false, true, false]);
    let place = "table.dedup_within.column";
    refused(&message, &with("name"), &[(place, "`name` is string; an event time is")]);
    refused(&message, &with("att"), &[(place, "did you mean `at`?")]);
    refused(&message, &with("inner.at"), &[(place, "declare a column for it")]);
    refused(&message, &with("_kafka_timestamp"), &[(place, "declare a column for it")]);
}

#[test]
fn portable_types_are_the_default() {
    let message = message("message M { string u = 1; }");
    let mut table = table();
    declare(&mut table, "u", path("u"), Some("list<struct<t: time>>"));
    refused(&message, &table, &[("table.columns.u", "Athena doesn't read time")]);
    table.types = Types::Iceberg;
    refused(&message, &table, &[("table.columns.u", "it can be string, binary")]);
}

/// A description that no schema is behind: fields that a pipeline file declares.
struct Declared(source::Schema);

impl Described for Declared {
    fn describe(&self) -> source::Schema {
        self.0.clone()
    }

    fn misfits(&self, _: &super::Columns) -> Vec<(usize, String)> {
        Vec::new()
    }
}

fn declared(records: Vec<Vec<(&str, source::Kind)>>) -> Declared {
    let field = |(name, kind): (&str, source::Kind)| source::Field {
        name: name.to_owned(),
        id: name.to_owned(),
        former: Vec::new(),
        names: Vec::new(),
        doc: None,
        value: source::Value { kind, optional: true },
    };
    let record = |fields: Vec<(&str, source::Kind)>| source::Record {
        name: "the record".to_owned(),
        fields: fields.into_iter().map(field).collect(),
        is_entry: false,
        is_union: false,
    };
    Declared(source::Schema {
        records: records.into_iter().map(record).collect(),
        noun: "record",
        rest: "",
        versions: Vec::new(),
    })
}

/// A dot in a name is a letter of it, and no step into a record.
#[test]
fn names_may_have_dots_and_whatever_sources_are_written_with() {
    let long = || source::Kind::Single(source::Single { default: Ok(Type::Long), comparable: None, within: None });
    let mut table = table();
    table.column_case = ColumnCase::AsIs;
    let odd = declared(vec![vec![("A.B", long()), ("C", source::Kind::Record(1))], vec![("a#b|c \"d\"", long())]]);
    let columns = plan(&odd, &table).unwrap();
    let sources: Vec<(&str, &str)> = columns.columns.iter().map(|c| (c.name.as_str(), c.source.as_str())).collect();
    assert_eq!(sources, [("A.B", "value:\"A.B\""), ("C", "value:C")]);
    assert_eq!(columns.columns[0].value_names(), Some(vec!["A.B".to_owned()]));
    let within = || From::Path(vec!["C".to_owned(), "a#b|c \"d\"".to_owned()]);
    declare(&mut table, "x", within(), None);
    declare(&mut table, "y", within(), None);
    let columns = plan(&odd, &table).unwrap();
    let [.., x, y] = columns.columns.as_slice() else { panic!("{columns:?}") };
    assert_eq!(
        (x.source.as_str(), y.source.as_str()),
        ("value:C.\"a#b|c \"\"d\"\"\"#x", "value:C.\"a#b|c \"\"d\"\"\"#y")
    );
    assert_eq!(x.value_names(), Some(vec!["C".to_owned(), "a#b|c \"d\"".to_owned()]));
    table.columns.clear();
    let both = declared(vec![vec![("A.B", long()), ("A", source::Kind::Record(1))], vec![("B", long())]]);
    let faults = plan(&both, &table).unwrap_err();
    assert!(faults.len() == 1 && faults[0].message.contains("two columns are named `A.B`"), "{faults:?}");
}

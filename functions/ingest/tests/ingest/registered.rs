//! A schema in a registry: its newest version makes the columns, and what records name beyond it comes behind them.

use staging::dead_letter::Class;

use crate::topic::{Topic, all};

const FRAMED: &str = "framing = \"confluent\"\nschema = { registry = \"main\", name = \"orders\"";

fn protobuf() -> String {
    format!("format = \"protobuf\"\n{FRAMED}, message = \"shop.Order\" }}")
}

fn avro() -> String {
    format!("format = \"avro\"\n{FRAMED} }}")
}

fn proto(body: &str) -> String {
    format!("syntax = \"proto3\"; package shop; {body}")
}

fn record(fields: &str) -> String {
    format!("{{\"type\": \"record\", \"name\": \"shop.Order\", \"fields\": [{fields}]}}")
}

/// Name, type and former sources of each column in the footer.
fn footer(topic: &Topic) -> Vec<String> {
    let columns = topic.footer().columns;
    columns.iter().map(|c| format!("{} {} {} {}", c.name, c.data_type, c.source, c.former.join(","))).collect()
}

#[tokio::test(start_paused = true)]
async fn versions_of_protobuf_are_united_by_number_and_new_columns_come_last() {
    let newest = proto("message Order { string id = 1; Line line = 2; } message Line { string sku = 1; }");
    // Between them a field was renamed, one is wider, some are new, one of them deep inside.
    let other = proto(
        "message Order { string order_id = 1; repeated int32 marks = 4; Line line = 2; optional bool gift = 3; }
         message Line { string article = 1; int64 qty = 2; }",
    );
    let files =
        [("registry/orders.proto", newest.as_str()), ("registry/1.proto", &newest), ("registry/2.proto", &other)];
    let topic = Topic::of(&files, &protobuf(), "[table.columns]\nk = \"@key\"").await.unwrap();
    let values = [
        "00 00000001 00 0a0161 12030a0178",
        "00 00000002 00 0a0162 1205 0a01791007 1801 22020102",
        "00 00000002 00 0a0163",
    ];
    topic.handle(all(&values)).await.unwrap();
    assert_eq!(topic.dead(), []);
    assert_eq!(
        topic.rows(),
        [
            "0: id=a line={sku: x, qty: NULL} marks=NULL gift=NULL k=NULL",
            "1: id=b line={sku: y, qty: 7} marks=[1, 2] gift=true k=NULL",
            "2: id=c line=NULL marks=[] gift=NULL k=NULL"
        ]
    );
    assert_eq!(
        footer(&topic),
        [
            "id string value:1 ",
            "line struct<sku: string, qty: long> value:2 ",
            "k binary @key ",
            "marks list<int> value:4 ",
            "gift boolean value:3 "
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_renamed_field_of_avro_stays_one_column_whichever_version_is_met_first() {
    let first = record("{\"name\": \"name\", \"type\": \"string\"}, {\"name\": \"qty\", \"type\": \"int\"}");
    let second = record(
        "{\"name\": \"unit\", \"type\": [\"null\", \"string\"], \"default\": null},
         {\"name\": \"label\", \"type\": \"string\", \"aliases\": [\"name\"]}, {\"name\": \"qty\", \"type\": \"long\"}",
    );
    let values = ["00 00000001 0261 02", "00 00000002 00 0262 04", "00 00000002 02 0278 0262 04"];
    let check = async |newest: &str, rows: [&str; 3], columns: [&str; 3]| {
        let files = [("registry/orders.avsc", newest), ("registry/1.avsc", &first), ("registry/2.avsc", &second)];
        let topic = Topic::of(&files, &avro(), "").await.unwrap();
        topic.handle(all(&values)).await.unwrap();
        assert_eq!((topic.dead(), topic.rows()), (Vec::new(), rows.map(str::to_owned).to_vec()));
        assert_eq!(footer(&topic), columns);
    };
    // The column is called as the pipeline's own version calls it, whatever else is met.
    let rows = ["0: name=a qty=1 unit=NULL", "1: name=b qty=2 unit=NULL", "2: name=b qty=2 unit=x"];
    let columns = ["name string value:label value:name", "qty long value:qty ", "unit string value:unit "];
    check(&first, rows, columns).await;
    let rows = ["0: unit=NULL label=a qty=1", "1: unit=NULL label=b qty=2", "2: unit=x label=b qty=2"];
    let columns = ["unit string value:unit ", "label string value:label value:name", "qty long value:qty "];
    check(&second, rows, columns).await;
}

/// A version that says what a field was called, or the pipeline's own schema, of a file or of the registry: whatever becomes of fields that
/// the schema does not know, this is one that it knows.
#[tokio::test(start_paused = true)]
async fn a_renamed_field_of_avro_is_no_unknown_one() {
    let first = record("{\"name\": \"name\", \"type\": \"string\"}, {\"name\": \"qty\", \"type\": \"int\"}");
    let second = first.replace("\"name\": \"name\"", "\"name\": \"label\", \"aliases\": [\"name\"]");
    let file = "format = \"avro\"\nframing = \"confluent\"\nschema = { avsc = \"own.avsc\" }".to_owned();
    for (own, name) in [(&first, "name"), (&second, "label")] {
        for value in [&file, &avro()] {
            for unknown in ["", "add", "ignore", "rest", "dead-letter"] {
                // Which takes a schema in a registry.
                if unknown == "add" && *value == file {
                    continue;
                }
                let files = [
                    ("own.avsc", own.as_str()),
                    ("registry/orders.avsc", own),
                    ("registry/1.avsc", &first),
                    ("registry/2.avsc", &second),
                ];
                let table = if unknown.is_empty() { String::new() } else { format!("unknown_fields = \"{unknown}\"") };
                let topic = Topic::of(&files, value, &table).await.unwrap();
                let outcome = topic.handle(all(&["00 00000001 0261 02", "00 00000002 0262 04"])).await.unwrap();
                let rest = if unknown == "rest" { " _rest={}" } else { "" };
                let rows = vec![format!("0: {name}=a qty=1{rest}"), format!("1: {name}=b qty=2{rest}")];
                assert_eq!((topic.dead(), topic.rows()), (vec![], rows), "{value} {unknown}");
                assert_eq!(outcome.records_with_unknown_fields, 0, "{value} {unknown}");
            }
        }
    }
}

/// The newest version tells of the one before it alone.
#[tokio::test(start_paused = true)]
async fn a_field_that_was_renamed_twice_is_one_column() {
    let field = |name: &str, before: &str| {
        let aliases = if before.is_empty() { String::new() } else { format!(", \"aliases\": [\"{before}\"]") };
        record(&format!("{{\"name\": \"{name}\", \"type\": \"string\"{aliases}}}"))
    };
    let (first, second, third) = (field("a", ""), field("b", "a"), field("c", "b"));
    let files = [
        ("registry/orders.avsc", third.as_str()),
        ("registry/1.avsc", &first),
        ("registry/2.avsc", &second),
        ("registry/3.avsc", &third),
    ];
    for unknown in ["add", "ignore", "dead-letter"] {
        let unknown_fields = format!("unknown_fields = \"{unknown}\"");
        let topic = Topic::of(&files, &avro(), &unknown_fields).await.unwrap();
        let values = ["00 00000001 0278", "00 00000003 027a", "00 00000002 0279"];
        topic.handle(all(&values)).await.unwrap();
        let rows = ["0: c=x", "1: c=z", "2: c=y"].map(str::to_owned).to_vec();
        assert_eq!((topic.dead(), topic.rows()), (vec![], rows), "{unknown}");
        assert_eq!(footer(&topic), ["c string value:c value:b,value:a"], "{unknown}");
        for (own, name) in [(&first, "a"), (&second, "b")] {
            let mut files = files;
            files[0].1 = own;
            let topic = Topic::of(&files, &avro(), &unknown_fields).await.unwrap();
            topic.handle(all(&values)).await.unwrap();
            let rows = ["x", "z", "y"].iter().zip(0..).map(|(value, n)| format!("{n}: {name}={value}")).collect();
            assert_eq!((topic.dead(), topic.rows()), (vec![], rows), "{unknown} {name}");
        }
    }
}

/// What the file says of a field holds under the name that it gets later.
#[tokio::test(start_paused = true)]
async fn what_is_left_out_or_hashed_stays_so_after_a_rename() {
    let field = |name: &str, more: &str| format!("{{\"name\": \"{name}\", \"type\": \"string\"{more}}}");
    let first = record(&format!("{}, {}, {}", field("ssn", ""), field("mail", ""), field("n", "")));
    let second = record(&format!(
        "{}, {}, {}",
        field("social", ", \"aliases\": [\"ssn\"]"),
        field("address", ", \"aliases\": [\"mail\"]"),
        field("n", "")
    ));
    let files = [("registry/orders.avsc", first.as_str()), ("registry/1.avsc", &first), ("registry/2.avsc", &second)];
    let table = "exclude = [\"ssn\"]\n[table.columns]\nmail = { pii = \"last4\" }";
    let topic = Topic::of(&files, &avro(), table).await.unwrap();
    topic
        .handle(all(&["00 00000001 0231 10 3132333435363738 026e", "00 00000002 0232 10 3132333435363738 026d"]))
        .await
        .unwrap();
    assert_eq!(
        (topic.dead(), topic.rows()),
        (Vec::new(), vec!["0: mail=5678 n=n".to_owned(), "1: mail=5678 n=m".to_owned()])
    );
    assert_eq!(footer(&topic)[0], "mail string value:address|last4 value:mail|last4");
}

#[tokio::test(start_paused = true)]
async fn a_version_whose_fields_can_not_be_columns_is_incompatible_and_others_flow() {
    let newest = proto("message Order { string id = 1; }");
    // A name that Iceberg reserves; and a number where there was text.
    let clash = proto("message Order { string id = 1; string _pos = 2; }");
    let other = proto("message Order { int32 id = 1; int32 qty = 3; }");
    let files = [
        ("registry/orders.proto", newest.as_str()),
        ("registry/1.proto", &newest),
        ("registry/2.proto", &clash),
        ("registry/3.proto", &other),
    ];
    let topic = Topic::of(&files, &protobuf(), "").await.unwrap();
    topic
        .handle(all(&[
            "00 00000001 00 0a0161",
            "00 00000002 00 0a0162",
            "00 00000003 00 0801",
            "00 00000001 00 0a0163",
        ]))
        .await
        .unwrap();
    assert_eq!(topic.dead(), [(1, Class::IncompatibleSchema), (2, Class::IncompatibleSchema)]);
    let letters = topic.letters();
    assert!(letters[0].message.contains("`_pos`"), "{}", letters[0].message);
    assert!(letters[1].message.contains("`id`"), "{}", letters[1].message);
    assert_eq!(topic.rows(), ["0: id=a", "3: id=c"], "they bring no columns either");
}

/// Versions that disagree about a field which the newest lacks: of an event, of several, of several processes.
#[tokio::test(start_paused = true)]
async fn of_versions_that_disagree_the_newer_one_is_read_whoever_comes_first() {
    let field = |of: &str| format!("{{\"name\": \"x\", \"type\": [\"null\", \"{of}\"], \"default\": null}}");
    let id = "{\"name\": \"id\", \"type\": \"int\"}";
    let (newest, text, number) =
        (record(id), record(&format!("{id}, {}", field("string"))), record(&format!("{id}, {}", field("int"))));
    let files = [
        ("registry/orders.avsc", newest.as_str()),
        ("registry/1.avsc", &text),
        ("registry/2.avsc", &number),
        ("registry/3.avsc", &newest),
    ];
    let (a, b, c) = ("00 00000001 02 020261", "00 00000002 04 020a", "00 00000003 06");
    let check = async |values: &[&str], rows: &[&str], dead: &[(i64, Class)]| {
        let topic = Topic::of(&files, &avro(), "").await.unwrap();
        topic.handle(all(values)).await.unwrap();
        let rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
        assert_eq!((topic.rows(), topic.dead()), (rows, dead.to_vec()));
        for letter in topic.letters() {
            assert!(
                letter.message.contains("column `x` is string in its schema, and int in another"),
                "{}",
                letter.message
            );
        }
    };
    check(&[a], &[], &[(0, Class::IncompatibleSchema)]).await;
    check(&[b], &["0: id=2 x=5"], &[]).await;
    check(&[c], &["0: id=3"], &[]).await;
    check(&[a, b, c], &["1: id=2 x=5", "2: id=3 x=NULL"], &[(0, Class::IncompatibleSchema)]).await;
    check(&[c, b, a], &["0: id=3 x=NULL", "1: id=2 x=5"], &[(2, Class::IncompatibleSchema)]).await;
}

/// What is registered while a process runs is judged in the registry's order, whichever version a record names first.
#[tokio::test(start_paused = true)]
async fn a_version_that_is_registered_later_is_judged_after_those_before_it() {
    let newest = proto("message Order { string id = 1; }");
    let files = [("registry/orders.proto", newest.as_str()), ("registry/1.proto", &newest)];
    let (text, number) = (
        proto("message Order { string id = 1; string x = 2; }"),
        proto("message Order { string id = 1; int32 x = 3; }"),
    );
    let (own, a, b) = ("00 00000001 00 0a0161", "00 00000002 00 0a0162 120178", "00 00000003 00 0a0163 1807");
    for values in [[own, a, b], [own, b, a], [b, a, own]] {
        let topic = Topic::of(&files, &protobuf(), "").await.unwrap();
        topic.register("2.proto", &text);
        topic.register("3.proto", &number);
        topic.handle(all(&values)).await.unwrap();
        let place = |value| i64::try_from(values.iter().position(|other| *other == value).unwrap()).unwrap();
        assert_eq!(topic.dead(), [(place(b), Class::IncompatibleSchema)], "{values:?}");
        assert!(topic.rows().contains(&format!("{}: id=b x=x", place(a))), "{:?}", topic.rows());
    }
}

/// A field that was renamed, and whose name is another's later: what becomes of the first does not depend on whether that one is met.
#[tokio::test(start_paused = true)]
async fn an_older_record_is_the_same_beside_a_version_that_uses_a_name_again() {
    let field = |name: &str, more: &str| format!("{{\"name\": \"{name}\", \"type\": \"int\"{more}}}");
    let (first, second) = (record(&field("a", "")), record(&field("b", ", \"aliases\": [\"a\"]")));
    let third = record(&format!("{}, {}", field("b", ", \"aliases\": [\"a\"]"), field("a", ", \"default\": 0")));
    let files = [
        ("registry/orders.avsc", second.as_str()),
        ("registry/1.avsc", &first),
        ("registry/2.avsc", &second),
        ("registry/3.avsc", &third),
    ];
    let check = async |values: &[&str], rows: &[&str]| {
        let topic = Topic::of(&files, &avro(), "").await.unwrap();
        topic.handle(all(values)).await.unwrap();
        let rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
        assert_eq!((topic.rows(), topic.dead()), (rows, Vec::new()));
    };
    check(&["00 00000001 14"], &["0: b=10"]).await;
    check(&["00 00000001 14", "00 00000003 16 18"], &["0: b=10 a=NULL", "1: b=11 a=12"]).await;
}

/// However many schemas nobody knows, those that somebody does are read.
#[tokio::test(start_paused = true)]
async fn unknown_schemas_hide_no_known_one() {
    let newest = proto("message Order { string id = 1; }");
    let files = [("registry/orders.proto", newest.as_str()), ("registry/9999.proto", &newest)];
    let topic = Topic::of(&files, &protobuf(), "").await.unwrap();
    let mut values: Vec<String> = (0..1500).map(|id| format!("00 {id:08x} 00 0a0161")).collect();
    values.push(format!("00 {:08x} 00 0a0162", 9999));
    topic.handle(all(&values.iter().map(String::as_str).collect::<Vec<_>>())).await.unwrap();
    assert_eq!((topic.rows(), topic.dead().len()), (vec!["1500: id=b".to_owned()], 1500));
}

#[tokio::test(start_paused = true)]
async fn what_the_file_says_of_unknown_fields_goes_before_their_columns() {
    let newest = proto("message Order { string id = 1; }");
    let other = proto("message Order { string id = 1; string note = 2; }");
    let files =
        [("registry/orders.proto", newest.as_str()), ("registry/1.proto", &newest), ("registry/2.proto", &other)];
    let check = async |unknown: &str, row: &str, dead: &[(i64, Class)]| {
        let topic = Topic::of(&files, &protobuf(), &format!("unknown_fields = \"{unknown}\"")).await.unwrap();
        let outcome = topic.handle(all(&["00 00000001 00 0a0161", "00 00000002 00 0a0162 120178"])).await.unwrap();
        assert_eq!((topic.rows().last().unwrap().as_str(), topic.dead()), (row, dead.to_vec()), "{unknown}");
        assert_eq!(outcome.records_with_unknown_fields, u64::from(unknown == "ignore"), "{unknown}");
    };
    check("add", "1: id=b note=x", &[]).await;
    check("ignore", "1: id=b", &[]).await;
    check("rest", "1: id=b _rest={2: EgF4}", &[]).await;
    check("dead-letter", "0: id=a", &[(1, Class::IncompatibleSchema)]).await;
    // Of Avro it is the schemas that tell, and a record that is refused is none.
    let note = ", {\"name\": \"note\", \"type\": \"string\"}";
    let field = "{\"name\": \"id\", \"type\": \"int\"}";
    let files = [
        ("registry/orders.avsc", record(field)),
        ("registry/1.avsc", record(field)),
        ("registry/2.avsc", record(&format!("{field}{note}"))),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let topic = Topic::of(&files, &avro(), "unknown_fields = \"ignore\"").await.unwrap();
    let values = ["00 00000001 02", "00 00000002 04 0261", "00 00000002 06 0262", "00 00000002 06 0862"];
    let outcome = topic.handle(all(&values)).await.unwrap();
    assert_eq!(
        (topic.rows().len(), topic.dead(), outcome.records_with_unknown_fields),
        (3, vec![(3, Class::Truncated)], 2)
    );
}

/// O-27, and what there was before it.
#[tokio::test(start_paused = true)]
async fn what_is_new_deep_inside_a_record_gets_its_column_there() {
    let with = |cust: &str, item: &str, attr: &str| {
        record(&format!(
            "{{\"name\": \"id\", \"type\": \"int\"}},
             {{\"name\": \"cust\", \"type\": {{\"type\": \"record\", \"name\": \"Cust\", \"fields\": [
                {{\"name\": \"cid\", \"type\": \"int\"}}{cust}]}}}},
             {{\"name\": \"items\", \"type\": {{\"type\": \"array\", \"items\": {{\"type\": \"record\", \"name\": \"Item\",
                \"fields\": [{{\"name\": \"sku\", \"type\": \"string\"}}{item}]}}}}}},
             {{\"name\": \"attr\", \"type\": {{\"type\": \"map\", \"values\": {{\"type\": \"record\", \"name\": \"Attr\",
                \"fields\": [{{\"name\": \"v\", \"type\": \"int\"}}{attr}]}}}}}}"
        ))
    };
    let older = with("", "", "");
    let newer = with(
        ", {\"name\": \"det\", \"type\": {\"type\": \"record\", \"name\": \"Det\", \"fields\": [{\"name\": \"mail\", \"type\": \"string\"}]}}",
        ", {\"name\": \"qty\", \"type\": [\"null\", \"int\"]}",
        ", {\"name\": \"u\", \"type\": \"string\"}",
    );
    let files = [("registry/orders.avsc", older.as_str()), ("registry/1.avsc", &older), ("registry/2.avsc", &newer)];
    let topic = Topic::of(&files, &avro(), "").await.unwrap();
    let values = [
        "00 00000002 02 0a 066d4078 04 0261 00 0262 02 04 00 02 026b 02 04636d 00",
        "00 00000001 04 0c 02 0263 00 02 026b 04 00",
    ];
    topic.handle(all(&values)).await.unwrap();
    assert_eq!(topic.dead(), []);
    assert_eq!(
        topic.columns(),
        [
            "id int",
            "cust struct<cid: int, det: struct<mail: string>>",
            "items list<struct<sku: string, qty: int>>",
            "attr map<string, struct<v: int, u: string>>"
        ]
    );
    assert_eq!(
        topic.rows(),
        [
            "0: id=1 cust={cid: 5, det: {mail: m@x}} items=[{sku: a, qty: NULL}, {sku: b, qty: 2}] attr={k: {v: 1, u: cm}}",
            "1: id=2 cust={cid: 6, det: NULL} items=[{sku: c, qty: NULL}] attr={k: {v: 2, u: NULL}}"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_schema_that_is_not_there_or_of_another_format_is_refused_before_there_is_an_event() {
    let check = async |file: &str, text: &str, value: &str, words: &str| {
        let error = Topic::of(&[(file, text)], value, "").await.err().map(|error| error.to_string());
        let error = error.unwrap_or_default();
        assert!(error.contains(words) && error.contains("`orders`"), "{error}");
    };
    let text = "syntax = \"proto3\"; message A { int32 a = 1; } message B { int32 b = 1; }";
    let unnamed = format!("format = \"protobuf\"\n{FRAMED} }}");
    check("registry/others.proto", text, &protobuf(), "not known to the registry `main`").await;
    check("registry/orders.proto", text, &unnamed, "nothing says which").await;
    check("registry/orders.proto", text, &protobuf(), "no message `shop.Order`").await;
    check("registry/orders.proto", text, &avro(), "of protobuf, and the pipeline reads avro").await;
    check("registry/orders.avsc", "{", &avro(), "not usable").await;
    let named = "format = \"protobuf\"\nframing = \"auto\"\n\
        schema = { registries = [\"main\"], name = \"orders\", message = \"B\" }";
    assert!(Topic::of(&[("registry/orders.proto", text)], named, "").await.is_ok());
}

/// In a folder other names' schemas stand beside: they are no versions of this one, though their records are called alike.
#[tokio::test(start_paused = true)]
async fn a_schema_of_another_name_is_no_version() {
    let field = |of: &str| format!("{{\"name\": \"x\", \"type\": [\"null\", \"{of}\"], \"default\": null}}");
    let id = "{\"name\": \"id\", \"type\": \"int\"}";
    let (newest, older) = (record(id), record(&format!("{id}, {}", field("string"))));
    // It would be judged first, for its id is the highest.
    let other = record(&format!("{id}, {}", field("int")));
    let files = [
        ("registry/orders.avsc", newest.as_str()),
        ("registry/refunds.avsc", &other),
        ("registry/1.avsc", &older),
        ("registry/2.avsc", &newest),
        ("registry/3.avsc", &other),
    ];
    let ids = [("registry/orders.ids", "1\n2\n"), ("registry/refunds.ids", "3\n")];
    for files in [files.to_vec(), [files.as_slice(), &ids].concat()] {
        let topic = Topic::of(&files, &avro(), "").await.unwrap();
        topic.handle(all(&["00 00000001 02 020261", "00 00000002 04"])).await.unwrap();
        assert_eq!((topic.dead(), topic.rows()), (vec![], vec!["0: id=1 x=a".to_owned(), "1: id=2 x=NULL".to_owned()]));
    }
}

/// O-27 has the other side: a name that another field has now. What is personal under it stays so in both, and nothing stops.
#[tokio::test(start_paused = true)]
async fn what_is_personal_under_a_name_is_so_in_every_field_that_has_it_in_some_version() {
    let first = proto("message Order { string mail = 1; int32 n = 3; }");
    let second = proto("message Order { string address = 1; string mail = 2; int32 n = 3; }");
    let values = [
        "00 00000001 00 0a08 3132333435363738 1801",
        "00 00000002 00 0a08 4142434445464748 1208 6162636465666768 1802",
    ];
    let check = async |newest: &str, table: &str, rows: [&str; 2]| {
        let files = [("registry/orders.proto", newest), ("registry/1.proto", &first), ("registry/2.proto", &second)];
        let topic = Topic::of(&files, &protobuf(), table).await.unwrap();
        topic.handle(all(&values)).await.unwrap();
        assert_eq!((topic.dead(), topic.rows()), (vec![], rows.map(str::to_owned).to_vec()), "{table}");
    };
    for table in ["exclude = [\"mail\"]", "[table.columns]\nmail = { pii = \"drop\" }"] {
        check(&first, table, ["0: n=1", "1: n=2"]).await;
        check(&second, table, ["0: n=1", "1: n=2"]).await;
    }
    // The column is the field's that has the name in the pipeline's own version.
    let kept = |name: &str| format!("[table.columns]\n{name} = {{ from = \"mail\", pii = \"last4\" }}");
    for name in ["mail", "contact"] {
        let rows = [format!("0: {name}=5678 n=1"), format!("1: {name}=EFGH n=2")];
        check(&first, &kept(name), [&rows[0], &rows[1]]).await;
        let rows = [format!("0: {name}=NULL n=1"), format!("1: {name}=efgh n=2")];
        check(&second, &kept(name), [&rows[0], &rows[1]]).await;
    }
}

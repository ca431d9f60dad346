//! What the file leaves out, hashes or declares, where versions of the schema call it otherwise, or another thing so.

use base64_simd::STANDARD;
use serde_json::{Value, json};
use staging::dead_letter::Class;

use crate::topic::{Topic, all, at};

const FRAMED: &str = "framing = \"confluent\"\nschema = { registry = \"main\", name = \"orders\"";

/// An ingest of versions of one schema, in a folder: the first is the newest, the others are 2, 3 and so on.
async fn topic(format: &str, versions: &[&str], table: &str) -> Topic {
    let (ending, message) = match format {
        "protobuf" => ("proto", ", message = \"Order\""),
        "avro" => ("avsc", ""),
        _ => ("json", ""),
    };
    let mut files = vec![(format!("registry/orders.{ending}"), *versions.first().unwrap())];
    files.extend((1..).zip(versions).map(|(id, text)| (format!("registry/{id}.{ending}"), *text)));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    Topic::of(&files, &format!("format = \"{format}\"\n{FRAMED}{message} }}"), table).await.unwrap()
}

fn proto(body: &str) -> String {
    format!("syntax = \"proto3\"; {body}")
}

fn record(fields: &[&str]) -> String {
    format!("{{\"type\": \"record\", \"name\": \"Order\", \"fields\": [{}]}}", fields.join(", "))
}

fn text(name: &str) -> String {
    format!("{{\"name\": \"{name}\", \"type\": \"string\"}}")
}

fn renamed(name: &str, was: &str) -> String {
    format!("{{\"name\": \"{name}\", \"type\": \"string\", \"aliases\": [\"{was}\"]}}")
}

fn object(members: &str) -> String {
    format!("{{\"title\": \"Order\", \"type\": \"object\", \"properties\": {{{members}}}}}")
}

/// Records of JSON behind the number of what they are written with.
fn texts(values: &[(u32, &str)]) -> Vec<Value> {
    let framed = |(offset, (id, value)): (i64, &(u32, &str))| {
        let bytes = [&[0][..], &id.to_be_bytes(), value.as_bytes()].concat();
        json!({"offset": offset, "value": STANDARD.encode_to_string(bytes)})
    };
    (0..).zip(values).map(framed).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_left_out_of_protobuf_under_another_number_is_not_kept_as_unknown() {
    let newest = proto(
        "message Order { string id = 1; Line line = 2; string mail = 3; string card = 7; }
         message Line { string sku = 1; string note = 5; }",
    );
    let other = proto(
        "message Order { string id = 1; Line line = 2; string mail = 4; string card = 8; string x = 9; Contact contact = 10; }
         message Line { string sku = 1; string note = 6; string y = 7; } message Contact { string mail = 1; }",
    );
    // It says of number 4 something else; the version before it does not.
    let third = proto("message Order { string id = 1; string address = 4; }");
    let table = "unknown_fields = \"rest\"\nexclude = [\"mail\", \"line.note\", \"contact.mail\"]\n\
        [table.columns]\ncard = { pii = \"last4\" }";
    let topic = topic("protobuf", &[&newest, &other, &third], table).await;
    let values = [
        "00 00000002 00 0a0161 1209 0a0178 320173 3a0179 220173 420173 4a017a 5203 0a0173",
        "00 00000001 00 0a0162 220173 4a017a 1206 0a0178 320173",
        "00 00000003 00 0a0163 220173",
    ];
    let outcome = topic.handle(all(&values)).await.unwrap();
    assert_eq!(topic.dead(), []);
    assert_eq!(
        topic.rows(),
        [
            "0: id=a line={sku: x} card=NULL _rest={2.7: OgF5, 9: SgF6}",
            "1: id=b line={sku: x} card= _rest={9: SgF6}",
            "2: id=c line=NULL card=NULL _rest={}"
        ]
    );
    assert_eq!(outcome.records_with_unknown_fields, 3, "what is let go of is counted");
}

#[tokio::test(start_paused = true)]
async fn what_is_left_out_of_avro_under_another_name_is_not_kept_as_unknown() {
    let inner = |fields: &[&str]| {
        let fields = fields.join(", ");
        format!("{{\"name\": \"p\", \"type\": {{\"type\": \"record\", \"name\": \"P\", \"fields\": [{fields}]}}}}")
    };
    let (id, a) = (text("id"), text("a"));
    let newest = record(&[&id, &inner(&[&a])]);
    let other = record(&[
        &id,
        &renamed("contact", "mail"),
        &inner(&[&a, &renamed("memo", "note"), &text("extra")]),
        &text("SSN"),
        &text("card"),
        &text("other"),
    ]);
    // What `contact` was, only the version above tells.
    let third = record(&[&id, &text("mail"), &inner(&[&a]), &text("address")]);
    let fourth = record(&[&id, &renamed("address", "contact"), &inner(&[&a])]);
    let table = "unknown_fields = \"rest\"\nexclude = [\"mail\", \"p.note\", \"ssn\"]\n[table.columns]\n\
        card = { pii = \"drop\" }";
    let topic = topic("avro", &[&newest, &other, &third, &fourth], table).await;
    let values = [
        "00 00000002 0261 0273 0262 0273 0265 0273 0273 026f",
        "00 00000003 0261 0273 0262 0273",
        "00 00000004 0261 0273 0262",
        "00 00000001 0261 0262",
    ];
    topic.handle(all(&values)).await.unwrap();
    assert_eq!(topic.dead(), []);
    assert_eq!(
        topic.rows(),
        [
            "0: id=a p={a: b} _rest={p.extra: \"e\", other: \"o\"}",
            "1: id=a p={a: b} _rest={}",
            "2: id=a p={a: b} _rest={}",
            "3: id=a p={a: b} _rest={}"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_left_out_of_json_in_another_spelling_is_not_kept_as_unknown() {
    let text = "{\"type\": \"string\"}";
    let one = |members: &str| format!("{{\"type\": \"object\", \"properties\": {{{members}}}}}");
    let p = one(&format!("\"a\": {text}, \"note\": {text}"));
    let m = format!("{{\"type\": \"object\", \"additionalProperties\": {}}}", one(&format!("\"k\": {text}")));
    let schema = object(&format!("\"id\": {text}, \"mail\": {text}, \"card\": {text}, \"p\": {p}, \"m\": {m}"));
    let record = "{\"id\":\"a\",\"MAIL\":\"s\",\"p\":{\"a\":\"b\",\"Note\":\"s\",\"z\":1},\"contact\":{\"mail\":\"s\",\"o\":1},\
        \"m\":{\"q\":{\"k\":\"1\",\"note\":\"s\",\"w\":3}},\"SSN\":\"s\",\"Card\":\"s\",\"x\":2}";
    for case in ["lower", "snake", "as-is"] {
        let table = format!(
            "unknown_fields = \"rest\"\ncolumn_case = \"{case}\"\n\
             exclude = [\"mail\", \"p.note\", \"contact.mail\", \"m.value.note\", \"ssn\"]\n\
             [table.columns]\ncard = {{ pii = \"last4\" }}"
        );
        let topic = topic("json", &[&schema], &table).await;
        topic.handle(texts(&[(1, record)])).await.unwrap();
        assert_eq!(topic.dead(), [], "{case}");
        // Where names are spelled alike the card's column has what is left of it.
        let card = if case == "as-is" { "NULL" } else { "" };
        let row = format!("0: id=a card={card} p={{a: b}} m={{q: {{k: 1}}}} _rest={{p.z: 1, m.w: [3], x: 2}}");
        assert_eq!(topic.rows(), [row], "{case}");
    }
    // Without a schema it is the same.
    let table = "unknown_fields = \"rest\"\nexclude = [\"mail\", \"p.note\"]\n[table.columns]\nid = { type = \"string\" }\n\
        a = { from = \"p.a\", type = \"string\" }\nx = { from = \"p.x\", pii = \"drop\" }";
    let topic = Topic::of(&[], "format = \"json\"\nframing = \"bare\"", table).await.unwrap();
    let record = "{\"id\":\"a\",\"Mail\":\"s\",\"p\":{\"a\":\"b\",\"NOTE\":\"s\",\"X\":\"s\",\"z\":1}}";
    topic.handle(vec![json!({"offset": 0, "value": STANDARD.encode_to_string(record)})]).await.unwrap();
    assert_eq!(topic.rows(), ["0: id=a a=b _rest={p.z: 1}"]);
}

/// A version that no list has, as of a schema in a file, may call a field by the name that is left out.
#[tokio::test(start_paused = true)]
async fn what_a_record_s_own_version_calls_by_an_excluded_name_is_in_no_column() {
    let own = proto("message Order { string id = 1; string contact = 2; }");
    let other = proto("message Order { string id = 1; string mail = 2; }");
    let files = [("schemas/order.proto", own.as_str()), ("registry/1.proto", &own), ("registry/2.proto", &other)];
    let value = "format = \"protobuf\"\nframing = \"confluent\"\n\
        schema = { proto = \"schemas/order.proto\", message = \"Order\" }";
    let topic = Topic::of(&files, value, "unknown_fields = \"rest\"\nexclude = [\"mail\"]").await.unwrap();
    topic.handle(all(&["00 00000001 00 0a0161 120173", "00 00000002 00 0a0161 120173"])).await.unwrap();
    assert_eq!(topic.dead(), []);
    assert_eq!(topic.rows(), ["0: id=a contact=s _rest={}", "1: id=a contact=NULL _rest={}"]);
}

/// Another version's field of the name that a declared column has is unknown, and its data is nowhere without a word.
#[tokio::test(start_paused = true)]
async fn a_declared_column_takes_the_place_of_no_other_version_s_field() {
    let newest = proto("message Order { string id = 1; Location location = 2; } message Location { string city = 1; }");
    let other = newest.replace("location = 2;", "location = 2; string city = 3;");
    let of = async |unknown: &str, row: &str, dead: &[(i64, Class)], ignoring: u64| {
        let table = format!("unknown_fields = \"{unknown}\"\n[table.columns]\ncity = \"location.city\"");
        let topic = topic("protobuf", &[&newest, &other], &table).await;
        let values = ["00 00000001 00 0a0161 12030a0178", "00 00000002 00 0a0162 12030a0178 1a0179"];
        let outcome = topic.handle(all(&values)).await.unwrap();
        assert_eq!((topic.rows().last().unwrap().as_str(), topic.dead()), (row, dead.to_vec()), "{unknown}");
        assert_eq!(outcome.records_with_unknown_fields, ignoring, "{unknown}");
    };
    of("add", "1: id=b city=x", &[], 1).await;
    of("ignore", "1: id=b city=x", &[], 1).await;
    of("rest", "1: id=b city=x _rest={3: GgF5}", &[], 0).await;
    of("dead-letter", "0: id=a city=x", &[(1, Class::IncompatibleSchema)], 0).await;

    let place = "{\"name\": \"location\", \"type\": {\"type\": \"record\", \"name\": \"L\", \"fields\": [\
        {\"name\": \"city\", \"type\": \"string\"}]}}";
    let (newest, other) = (record(&[&text("id"), place]), record(&[&text("id"), place, &text("city"), &text("more")]));
    let topic = self::topic("avro", &[&newest, &other], "[table.columns]\ncity = \"location.city\"").await;
    let outcome = topic.handle(all(&["00 00000001 0261 0278", "00 00000002 0262 0278 0279 027a"])).await.unwrap();
    assert_eq!(topic.rows(), ["0: id=a city=x more=NULL", "1: id=b city=x more=z"]);
    assert_eq!(outcome.records_with_unknown_fields, 1);

    // One that is a column by the name that the newest has for it can't be called so.
    let (newest, other) = (record(&[&text("id"), &text("town")]), record(&[&text("id"), &renamed("city", "town")]));
    let topic = self::topic("avro", &[&newest, &other], "[table.columns]\ncity = \"@topic\"").await;
    topic.handle(all(&["00 00000001 0261 0278", "00 00000002 0262 0279"])).await.unwrap();
    assert_eq!((topic.rows().len(), topic.dead()), (1, vec![(1, Class::IncompatibleSchema)]));

    let text = "{\"type\": \"string\"}";
    let location =
        format!("\"id\": {text}, \"location\": {{\"type\": \"object\", \"properties\": {{\"city\": {text}}}}}");
    let (newest, other) = (object(&location), object(&format!("{location}, \"CITY\": {text}")));
    let topic = self::topic("json", &[&newest, &other], "[table.columns]\ncity = \"location.city\"").await;
    let value = "{\"id\":\"b\",\"location\":{\"city\":\"x\"},\"CITY\":\"y\"}";
    let outcome = topic.handle(texts(&[(2, value)])).await.unwrap();
    assert_eq!((topic.rows(), outcome.records_with_unknown_fields), (vec!["0: id=b city=x".to_owned()], 1));
}

/// What the file names is not unknown, whichever version has it, and what a record's version lacks is null.
#[tokio::test(start_paused = true)]
async fn a_column_may_be_made_of_what_only_another_version_has() {
    let check = async |format: &str, versions: [&str; 2], records: Vec<Value>, unknown: &str, path: &str| {
        let table = format!("unknown_fields = \"{unknown}\"\n[table.columns]\nx = \"p.x\"\nn = \"p.n\"");
        let topic = topic(format, &versions, &table).await;
        let outcome = topic.handle(records).await.unwrap();
        let (mut rest, mut rows) = ([String::new(), String::new()], vec![true, true]);
        match unknown {
            "rest" => rest = [" _rest={}".to_owned(), format!(" _rest={{{path}}}")],
            "dead-letter" => rows[1] = false,
            _ => {}
        }
        assert_eq!(outcome.records_with_unknown_fields, u64::from(unknown == "ignore"), "{format} {unknown}");
        let all = [format!("0: id=a n=1{} x=NULL", rest[0]), format!("1: id=b n=NULL{} x=x", rest[1])];
        let expected: Vec<&String> = all.iter().zip(&rows).filter(|(_, is_row)| **is_row).map(|(row, _)| row).collect();
        if unknown == "dead-letter" {
            assert_eq!(topic.dead(), [(1, Class::IncompatibleSchema)], "{format}");
            assert!(topic.rows()[0].starts_with("0: id=a n=1"), "{format}");
        } else {
            assert_eq!(topic.rows().iter().collect::<Vec<_>>(), expected, "{format} {unknown}: {:?}", topic.letters());
        }
    };
    for unknown in ["rest", "ignore", "dead-letter"] {
        let newest = proto("message Order { string id = 1; P p = 2; } message P { int32 n = 1; }");
        let older = proto("message Order { string id = 1; P p = 2; string y = 4; } message P { string x = 2; }");
        let values = ["00 00000001 00 0a0161 12020801", "00 00000002 00 0a0162 1203120178 220179"];
        check("protobuf", [&newest, &older], all(&values), unknown, "4: IgF5").await;

        let p = |field: &str| {
            let of = format!("{{\"type\": \"record\", \"name\": \"P\", \"fields\": [{field}]}}");
            format!("{{\"name\": \"p\", \"type\": {of}}}")
        };
        let newest = record(&[&text("id"), &p("{\"name\": \"n\", \"type\": \"int\"}")]);
        let older = record(&[&text("id"), &p(&text("x")), &text("y")]);
        let values = ["00 00000001 0261 02", "00 00000002 0262 0278 0279"];
        check("avro", [&newest, &older], all(&values), unknown, "y: \"y\"").await;

        let of = |more: &str, members: &str| {
            let p = format!("{{\"type\": \"object\", \"properties\": {{{members}}}}}");
            object(&format!("\"id\": {{\"type\": \"string\"}}, \"p\": {p}{more}"))
        };
        let newest = of("", "\"n\": {\"type\": \"integer\"}");
        let older = of(", \"y\": {\"type\": \"string\"}", "\"x\": {\"type\": \"string\"}");
        let values =
            texts(&[(1, "{\"id\":\"a\",\"p\":{\"n\":1}}"), (2, "{\"id\":\"b\",\"p\":{\"x\":\"x\"},\"y\":\"y\"}")]);
        check("json", [&newest, &older], values, unknown, "y: \"y\"").await;
    }
}

/// Also where that has no default for it, whatever becomes of fields that the schema does not know.
#[tokio::test(start_paused = true)]
async fn what_a_version_of_avro_lacks_is_null() {
    let n = "{\"name\": \"n\", \"type\": \"int\"}";
    let with_default = "{\"name\": \"d\", \"type\": \"int\", \"default\": 7}";
    let (newest, older) = (record(&[&text("id"), n, with_default]), record(&[&text("id")]));
    for unknown in ["add", "rest", "ignore", "dead-letter"] {
        let rest = if unknown == "rest" { " _rest={}" } else { "" };
        let unknown = format!("unknown_fields = \"{unknown}\"");
        let topic = topic("avro", &[&newest, &older], &unknown).await;
        let values = ["00 00000001 0261 02 04", "00 00000002 0262"];
        topic.handle(all(&values)).await.unwrap();
        let rows = [format!("0: id=a n=1 d=2{rest}"), format!("1: id=b n=NULL d=7{rest}")];
        assert_eq!((topic.dead(), topic.rows()), (vec![], rows.to_vec()), "{unknown}");
        // Where a value is asked for, its records are none.
        let required = format!("{unknown}\n[table.columns]\nn = {{ from = \"n\", required = true }}");
        let topic = self::topic("avro", &[&newest, &older], &required).await;
        topic.handle(all(&values)).await.unwrap();
        assert_eq!((topic.dead(), topic.rows().len()), (vec![(1, Class::MissingRequired)], 1), "{unknown}");
    }
}

/// Who asks for a value has none of records whose version has no such field.
#[tokio::test(start_paused = true)]
async fn a_required_column_is_required_of_versions_that_lack_its_field() {
    let table = "[table.columns]\nx = { type = \"string\", required = true }";
    let (newest, other) =
        (proto("message Order { string id = 1; }"), proto("message Order { string id = 1; string x = 2; }"));
    let third = proto("message Order { string id = 1; string y = 3; }");
    let topic = self::topic("protobuf", &[&newest, &other, &third], table).await;
    let values =
        ["00 00000001 00 0a0161", "00 00000002 00 0a0162 120178", "00 00000003 00 0a0163", "00 00000001 00 0a"];
    topic.handle(all(&values)).await.unwrap();
    assert_eq!(topic.rows(), ["1: id=b x=x y=NULL"]);
    let missing = Class::MissingRequired;
    assert_eq!(topic.dead(), [(0, missing), (2, missing), (3, Class::Truncated)]);
    assert_eq!(topic.letters()[0].path, "x");
    assert!(topic.footer().columns.iter().any(|column| column.name == "x" && column.required));

    let (newest, other) = (record(&[&text("id")]), record(&[&text("id"), &text("x")]));
    let topic = self::topic("avro", &[&newest, &other], table).await;
    topic.handle(all(&["00 00000001 0261", "00 00000002 0262 0278"])).await.unwrap();
    assert_eq!((topic.rows(), topic.dead()), (vec!["1: id=b x=x".to_owned()], vec![(0, missing)]));
}

/// A name that is but spelled otherwise is the same column's, whichever version is the newer, with an alias or without.
#[tokio::test(start_paused = true)]
async fn a_rename_that_column_case_makes_nothing_of_is_none() {
    let p = |name: &str| {
        let fields = text(name);
        format!("{{\"name\": \"p\", \"type\": {{\"type\": \"record\", \"name\": \"P\", \"fields\": [{fields}]}}}}")
    };
    let one = record(&[&text("userId"), &p("subId")]);
    let other = record(&[&text("userid"), &p("subid")]);
    let told = record(&[&renamed("userid", "userId"), &p("subid")]);
    for unknown in ["add", "ignore", "rest", "dead-letter"] {
        let rest = if unknown == "rest" { " _rest={}" } else { "" };
        let rows: Vec<String> = (0..2).map(|n| format!("{n}: userid=a p={{subid: b}}{rest}")).collect();
        for versions in [[&one, &other], [&other, &one], [&told, &one]] {
            let table = format!("unknown_fields = \"{unknown}\"");
            let topic = topic("avro", &versions.map(String::as_str), &table).await;
            topic.handle(all(&["00 00000001 0261 0262", "00 00000002 0261 0262"])).await.unwrap();
            assert_eq!((topic.dead(), topic.rows()), (Vec::new(), rows.clone()), "{unknown} {versions:?}");
        }
        let one = proto("message Order { string userId = 1; P p = 2; } message P { string subId = 1; }");
        let other = proto("message Order { string userid = 1; P p = 2; } message P { string subid = 1; }");
        for versions in [[&one, &other], [&other, &one]] {
            let table = format!("unknown_fields = \"{unknown}\"");
            let topic = topic("protobuf", &versions.map(String::as_str), &table).await;
            topic.handle(all(&["00 00000001 00 0a0161 12030a0162", "00 00000002 00 0a0161 12030a0162"])).await.unwrap();
            assert_eq!((topic.dead(), topic.rows()), (Vec::new(), rows.clone()), "{unknown} {versions:?}");
        }
        let of = |name: &str, sub: &str| {
            let text = "{\"type\": \"string\"}";
            let p = format!("{{\"type\": \"object\", \"properties\": {{\"{sub}\": {text}}}}}");
            object(&format!("\"{name}\": {text}, \"p\": {p}"))
        };
        let (one, other) = (of("userId", "subId"), of("userid", "subid"));
        for versions in [[&one, &other], [&other, &one]] {
            let table = format!("unknown_fields = \"{unknown}\"");
            let topic = topic("json", &versions.map(String::as_str), &table).await;
            let values = ["{\"userId\":\"a\",\"p\":{\"subId\":\"b\"}}", "{\"userid\":\"a\",\"p\":{\"subid\":\"b\"}}"];
            topic.handle(texts(&[(1, values[0]), (2, values[1])])).await.unwrap();
            assert_eq!((topic.dead(), topic.rows()), (Vec::new(), rows.clone()), "{unknown} {versions:?}");
        }
    }
    // Two older versions, of which the newest has neither's field; and what the table may know it by.
    let newest = record(&[&text("id")]);
    let (one, other) = (record(&[&text("id"), &text("homeMail")]), record(&[&text("id"), &text("home_mail")]));
    let topic = topic("avro", &[&newest, &one, &other], "column_case = \"snake\"").await;
    topic.handle(all(&["00 00000003 0261 0262", "00 00000002 0261 0262"])).await.unwrap();
    assert_eq!((topic.dead(), topic.rows()[1].as_str()), (Vec::new(), "1: id=a home_mail=b"));
    let column = topic.footer().columns.into_iter().find(|column| column.name == "home_mail").unwrap();
    assert_eq!((column.source.as_str(), column.former), ("value:home_mail", vec!["value:homeMail".to_owned()]));
}

/// What is left out in one spelling is so in another.
#[tokio::test(start_paused = true)]
async fn what_is_left_out_stays_so_in_another_spelling() {
    let (one, other) = (record(&[&text("id"), &text("userId")]), record(&[&text("id"), &text("userid")]));
    for exclude in ["userId", "userid"] {
        for unknown in ["add", "rest"] {
            for versions in [[&one, &other], [&other, &one]] {
                let table = format!("unknown_fields = \"{unknown}\"\nexclude = [\"{exclude}\"]");
                let topic = topic("avro", &versions.map(String::as_str), &table).await;
                topic.handle(all(&["00 00000001 0261 0262", "00 00000002 0261 0262"])).await.unwrap();
                let rest = if unknown == "rest" { " _rest={}" } else { "" };
                let rows = [format!("0: id=a{rest}"), format!("1: id=a{rest}")];
                assert_eq!((topic.dead(), topic.rows()), (Vec::new(), rows.to_vec()), "{exclude} {unknown}");
            }
        }
    }
}

/// Also where it is another field, as numbers tell: nobody has both. Of one that has both the one is left out that is named.
#[tokio::test(start_paused = true)]
async fn another_field_that_is_spelled_as_what_is_left_out_is_left_out_too() {
    let newest = proto("message Order { string id = 1; string ssn = 2; }");
    // Proto3 takes no two names that differ in case only.
    let other =
        "syntax = \"proto2\"; message Order { optional string id = 1; optional string SSN = 3; optional P p = 4; }
        message P { optional string mail = 1; optional string MaiL = 2; }"
            .to_owned();
    let table = "exclude = [\"ssn\", \"p.MaiL\"]";
    for versions in [[&newest, &other], [&other, &newest]] {
        let topic = topic("protobuf", &versions.map(String::as_str), table).await;
        let (newest, other) = if versions[0] == &newest { (1, 2) } else { (2, 1) };
        let values =
            [format!("00 0000000{newest} 00 0a0161 120173"), format!("00 0000000{other} 00 0a0161 1a0173 2203 0a0174")];
        topic.handle(all(&values.each_ref().map(String::as_str))).await.unwrap();
        assert_eq!(
            (topic.dead(), topic.rows()),
            (Vec::new(), vec!["0: id=a p=NULL".to_owned(), "1: id=a p={mail: t}".to_owned()])
        );
    }
}

/// `phone2` is no slip for `phone`: another version has it. Nor is it a fault before one has.
#[tokio::test(start_paused = true)]
async fn a_field_may_be_left_out_that_only_another_version_has() {
    let newest = proto("message Order { string id = 1; string phone = 2; }");
    let other = proto("message Order { string id = 1; string phone2 = 3; }");
    for versions in [&[&newest, &other][..], &[&newest][..]] {
        let versions: Vec<&str> = versions.iter().map(|text| text.as_str()).collect();
        for unknown in ["add", "rest"] {
            let table = format!("unknown_fields = \"{unknown}\"\nexclude = [\"phone2\"]");
            let topic = topic("protobuf", &versions, &table).await;
            topic.handle(vec![at(0, "00 00000001 00 0a0161 1a0173")]).await.unwrap();
            assert_eq!(topic.footer().columns.iter().filter(|column| column.name == "phone2").count(), 0);
        }
    }
    let topic = topic("protobuf", &[&newest, &other], "unknown_fields = \"ignore\"\nexclude = [\"phone2\"]").await;
    topic.handle(vec![at(0, "00 00000002 00 0a0161 1a0173")]).await.unwrap();
    assert_eq!(topic.rows(), ["0: id=a phone=NULL"]);
}

/// What a path of the file leads to in one version lies in a union, a list or a map in another, where no path leads.
#[tokio::test(start_paused = true)]
async fn what_another_version_has_elsewhere_goes_with_what_it_lies_in() {
    let (id, n) = (text("id"), text("n"));
    let one = format!("{{\"type\": \"record\", \"name\": \"A\", \"fields\": [{}, {n}]}}", text("ssn"));
    let p = |of: &str| format!("{{\"name\": \"p\", \"type\": {of}}}");
    let other = format!("{{\"type\": \"record\", \"name\": \"B\", \"fields\": [{n}]}}");
    let avro = record(&[&id, &p(&one)]);
    let unions = record(&[&id, &p(&format!("[{one}, {other}]"))]);
    let lists = record(&[&id, &p(&format!("{{\"type\": \"array\", \"items\": {one}}}"))]);
    let maps = record(&[&id, &p(&format!("{{\"type\": \"map\", \"values\": {one}}}"))]);
    let before = "00 00000002 0261 0253 026e";
    for unknown in ["add", "rest", "ignore"] {
        for said in ["exclude = [\"p.ssn\"]\n", "[table.columns]\ns = { from = \"p.ssn\", pii = \"last4\" }\n"] {
            let table = format!("unknown_fields = \"{unknown}\"\n{said}");
            for (newest, now) in [
                (&unions, "00 00000001 0261 00 0253 026e"),
                (&lists, "00 00000001 0261 02 0253 026e 00"),
                (&maps, "00 00000001 0261 02 026b 0253 026e 00"),
            ] {
                let topic = topic("avro", &[newest, &avro], &table).await;
                topic.handle(all(&[now, before])).await.unwrap();
                let rows = topic.rows().join("; ");
                assert!(!rows.contains('S') && rows.contains("id=a"), "{table}{newest}: {rows}");
            }
            let member = |of: &str| object(&format!("\"id\": {{\"type\": \"string\"}}, \"p\": {of}"));
            let text = "{\"type\": \"string\"}";
            let inner = format!("{{\"type\": \"object\", \"properties\": {{\"ssn\": {text}, \"n\": {text}}}}}");
            let json = member(&inner);
            for (newest, now) in [
                (
                    format!("{{\"type\": \"array\", \"items\": {inner}}}"),
                    "{\"id\":\"a\",\"p\":[{\"ssn\":\"S\",\"n\":\"n\"}]}",
                ),
                (
                    format!("{{\"type\": \"object\", \"additionalProperties\": {text}}}"),
                    "{\"id\":\"a\",\"p\":{\"ssn\":\"S\"}}",
                ),
            ] {
                let topic = topic("json", &[&member(&newest), &json], &table).await;
                let before = "{\"id\":\"a\",\"p\":{\"ssn\":\"S\",\"n\":\"n\"}}";
                topic.handle(texts(&[(1, now), (2, before)])).await.unwrap();
                let rows = topic.rows().join("; ");
                assert!(!rows.contains('S') && rows.contains("id=a"), "{table}{newest}: {rows}");
            }
        }
    }
}

//! Payloads written out by hand, with what protobuf's documentation says they are.

use model::secret::Secret;
use pipeline::expectation::{Expectations, Literal};
use pipeline::resolved::{From, Pii, UnknownFields};

use super::*;
use crate::columns::tests::{declare, path, value};

#[test]
fn unsigned_integers_stay_unsigned() {
    let message = proto3("message M { uint32 a = 1; uint64 b = 2; fixed32 c = 3; sint64 d = 4; fixed64 e = 5; }");
    let payload = "08ffffffff0f 1087808080808080808001 1d00286bee 2001 29ffffffffffffffff";
    check(&message, payload, "a=4294967295 b=9223372036854775815 c=4000000000 d=-1 e=18446744073709551615");
    let mut table = table();
    declare(&mut table, "b", path("b"), Some("long"));
    refused(&message, &table, payload, Class::OutOfRange, "b");
    let largest = rows(&message, &table, &["10ffffffffffffffff7f"]).unwrap();
    assert_eq!(largest, ["a=0 b=9223372036854775807 c=0 d=0 e=0"]);
}

#[test]
fn what_is_expected_is_asked_of_every_value_that_is_there() {
    let message = proto3(
        "enum E { NONE = 0; SOME = 1; } message N { optional int64 deep = 1; }
         message M { int32 n = 1; optional string s = 2; double d = 3; N inner = 4; E e = 5; uint64 u = 6; bool b = 7;
         google.protobuf.Timestamp t = 8; }",
    );
    let mut table = table();
    for (name, from) in ["n", "s", "d", "inner.deep", "e", "u", "b", "t"].map(|from| (from.replace('.', "_"), from)) {
        declare(&mut table, &name, path(from), None);
    }
    let mut expect = |column: usize, change: fn(&mut Expectations)| change(&mut table.columns[column].expect);
    expect(0, |e| e.max = Some(Literal::Integer(5)));
    expect(1, |e| e.pattern = Some("^[a-z]{2}$".to_owned()));
    expect(2, |e| e.min = Some(Literal::Float(-0.5)));
    expect(3, |e| e.min = Some(Literal::Integer(0)));
    expect(4, |e| e.one_of = vec![Literal::Text("NONE".to_owned()), Literal::Text("7".to_owned())]);
    expect(5, |e| e.max = Some(Literal::Integer(1 << 63)));
    expect(6, |e| e.one_of = vec![Literal::Boolean(false)]);
    expect(7, |e| e.min = Some(Literal::Instant(0)));
    // Nulls and defaults.
    let good = ["", "0805 12(6162) 22(0800) 2807 3080808080808080808001 42(0801)", "08ffffffffffffffffff01"];
    assert_eq!(rows(&message, &table, &good).unwrap().len(), 3);
    let check = |payload: &str, path: &str| {
        refused(&message, &table, payload, Class::Expectation, path);
        // Nothing of it stays.
        let mut decoder = decoder(&message, &table);
        assert!(decoder.decode(&hex(payload)).is_err());
        decoder.decode(&[]).unwrap();
        assert_eq!(print(&decoder.finish().unwrap()), rows(&message, &table, &[""]).unwrap());
    };
    check("0806", "n");
    check("12(616263)", "s");
    check("12()", "s");
    check("19000000000000f0bf", "d");
    check("19000000000000f87f", "d");
    check("22(08ffffffffffffffffff01)", "inner.deep");
    check("2801", "e");
    check("3081808080808080808001", "u");
    check("3801", "b");
    check("42(08ffffffffffffffffff01)", "t");
    // The last occurrence counts.
    assert!(rows(&message, &table, &["0806 0805"]).is_ok());
    let rejected = rows(&message, &table, &["12(736563726574)"]).unwrap_err();
    assert!(!rejected.message.contains("secret") && rejected.message.contains("`pattern`"), "{rejected}");
}

#[test]
fn personal_data_leaves_a_hash_or_its_end() {
    let message = proto3(
        "enum E { NONE = 0; SOME = 1; } message N { optional string s = 1; }
         message M { N n = 1; int64 i = 2; bytes b = 3; E e = 4; string card = 5; int32 after = 6; }",
    );
    let mut table = table();
    for (name, from, pii) in [
        ("s", "n.s", Pii::Hash),
        ("i", "i", Pii::Hash),
        ("b", "b", Pii::Hash),
        ("e", "e", Pii::Last4),
        ("card", "card", Pii::Last4),
    ] {
        declare(&mut table, name, path(from), None);
        table.columns.last_mut().unwrap().pii = Some(pii);
    }
    table.columns[4].expect.pattern = Some("^[0-9]*$".to_owned());
    let columns = columns::plan(&message, &table).unwrap();
    assert!(matches!(Decoder::new(&message, &columns), Err(crate::Error::NoSalt { .. })));
    let salt = Secret::new(*b"Jefe");
    let mut decoder = Decoder::salted(&message, &columns, Some(&salt)).unwrap();
    let value: String = b"what do ya want for nothing?".iter().map(|byte| format!("{byte:02x}")).collect();
    for payload in [
        format!("0a(0a({value})) 1005 1a({value}) 2001 2a(3431313131313131313131313132333435) 3007"),
        String::new(),
        // Not UTF-8: refused as a string, hashed as bytes.
        "0a(0a()) 1a(ff)".to_owned(),
    ] {
        decoder.decode(&hex(&payload)).unwrap();
    }
    assert_eq!(decoder.decode(&hex("2a(61)")).unwrap_err().class, Class::Expectation);
    assert_eq!(decoder.decode(&hex("0a(0a(ff))")).unwrap_err().class, Class::InvalidUtf8);
    decoder.decode(&hex("2a(3132)")).unwrap();
    let hasher = crate::pii::Hasher::new(&salt);
    let hash = |value: &[u8]| hasher.hash(value);
    let known = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    let (none, zero, five, empty, odd) = ("NULL", hash(b"0"), hash(b"5"), hash(b""), hash(b"\xff"));
    assert_eq!(
        print(&decoder.finish().unwrap()),
        [
            format!(r#"s="{known}" i="{five}" b="{known}" e="ME" card="2345" after=7"#),
            format!(r#"s={none} i="{zero}" b="{empty}" e="NE" card="" after=0"#),
            format!(r#"s="{empty}" i="{zero}" b="{odd}" e="NE" card="" after=0"#),
            format!(r#"s={none} i="{zero}" b="{empty}" e="NE" card="2" after=0"#),
        ]
    );
}

#[test]
fn what_the_schema_does_not_know_is_kept_as_it_came() {
    let message = proto3(
        "message N { int32 x = 1; } message M { int32 a = 1; N n = 2; repeated N l = 3; map<string, N> m = 4;
         google.protobuf.Timestamp t = 5; N skipped = 6; google.protobuf.Struct j = 7; }",
    );
    let mut table = table();
    table.unknown_fields = UnknownFields::Rest;
    table.exclude = vec!["skipped".to_owned()];
    let rest = |payload: &str| {
        let rows = rows(&message, &table, &[payload, ""]).unwrap();
        // What a record holds is not in the next one.
        assert!(rows[1].ends_with(" _rest={}"), "{}", rows[1]);
        rows[0].split_once(" _rest=").unwrap().1.to_owned()
    };
    let base64 = |bytes: &str| base64_simd::STANDARD.encode_to_string(hex(bytes));
    assert_eq!(rest("0801 12(0802)"), "{}");
    // Occurrences of one field together, its tag before each; a known field of another wire type is unknown.
    let expected = format!(r#"{{"9":"{}","1":"{}"}}"#, base64("4805 4a(6869)"), base64("0a(61)"));
    assert_eq!(rest("4805 0801 0a(61) 4a(6869)"), expected);
    let expected = format!(
        r#"{{"2.8":"{}","3.8":"{}","4.2.8":"{}","5.9":"{}"}}"#,
        base64("4001"),
        base64("4002 4003"),
        base64("4004"),
        base64("4805")
    );
    assert_eq!(rest("12(0801 4001) 1a(4002) 1a(0801 4003) 22(12(4004)) 2a(0801 4805)"), expected);
    // What is left out or hashed does not come back under another wire type.
    assert_eq!(rest("3005"), "{}");
    let mut personal = table.clone();
    declare(&mut personal, "a", path("a"), None);
    personal.columns[0].pii = Some(Pii::Last4);
    let found = rows(&message, &personal, &["0a(736563726574) 4805"]).unwrap();
    assert!(found[0].ends_with(r#" _rest={"9":"SAU="}"#), "{}", found[0]);
    // Neither in fields that are in no column nor in JSON.
    assert_eq!(rest("32(4001) 3a(4001)"), "{}");
    assert_eq!(rest("4b 0801 4c"), format!(r#"{{"9":"{}"}}"#, base64("4b08014c")));
    // Beyond what is copied before it is read.
    let long = format!("4805 92b80a({})", "61".repeat(5000));
    assert!(rest(&long).starts_with(r#"{"9":"SAU=""#));
    refused(&message, &table, "4805 4aff", Class::Truncated, "");
    refused(&message, &table, &"4801".repeat(10_001), Class::TooLarge, "");
    assert!(rows(&message, &table, &[&"4801".repeat(10_000)]).is_ok());
}

#[test]
fn each_element_of_an_exploded_field_is_a_row() {
    let message = proto3(
        "message E { string sku = 1; repeated int32 n = 2; optional int64 q = 3; } message B { repeated E events = 1; int32 id = 2; }
         message M { string who = 1; repeated E e = 2; B batch = 3; repeated int32 nums = 4; map<string, int32> tags = 5; }",
    );
    let planned = |explode: &str, table: &Table| {
        let explode = Some(explode.split('.').map(str::to_owned).collect());
        columns::plan_records(&message, &pipeline::resolved::Value { explode, ..value(None) }, table).unwrap()
    };
    let all = |explode: &str, table: &Table, payloads: &[&str]| {
        let mut decoder = Decoder::new(&message, &planned(explode, table)).unwrap();
        for payload in payloads {
            decoder.decode(&hex(payload))?;
        }
        let rows = decoder.rows();
        let batch = decoder.finish().unwrap();
        assert_eq!(batch.num_rows(), rows);
        // Nothing is left for the next batch.
        decoder.decode(&hex(payloads[0])).unwrap();
        let again = print(&decoder.finish().unwrap());
        let rows = print(&batch);
        assert_eq!(again, rows[..again.len()]);
        Ok::<_, Rejected>(rows)
    };
    let table = table();
    let record = "0a(61) 12(0a(78) 12(0102) 1807) 22(05) 12() 2a(0a(6b) 1001)";
    let rest = r#"nums=[5] tags={"k":1}"#;
    assert_eq!(
        all("e", &table, &[record, "0a(7a)", "12(12(09)) 0a(62)"]).unwrap(),
        [
            format!(r#"who="a" e={{sku:"x",n:[1,2],q:7}} batch=NULL {rest}"#),
            format!(r#"who="a" e={{sku:"",n:[],q:NULL}} batch=NULL {rest}"#),
            r#"who="b" e={sku:"",n:[9],q:NULL} batch=NULL nums=[] tags={}"#.to_owned(),
        ]
    );
    // Numbers, packed and one by one.
    let rows = all("nums", &table, &["22(0102) 2003 0a(61)"]).unwrap();
    assert_eq!(rows.len(), 3);
    assert!(rows[2].starts_with(r#"who="a" e=[] batch=NULL nums=3"#), "{}", rows[2]);
    // Deep in the message, and beside columns of their own.
    let deep = "0a(61) 1a(1005 0a(0a(78)) 0a(0a(79) 1802))";
    let rows = all("batch.events", &table, &[deep]).unwrap();
    assert_eq!(rows[0], r#"who="a" e=[] events={sku:"x",n:[],q:NULL} nums=[] tags={}"#);
    let mut listed = table.clone();
    listed.fields = pipeline::resolved::Fields::Listed;
    for (name, from) in [("id", "batch.id"), ("sku", "batch.events.sku"), ("q", "batch.events.q"), ("who", "who")] {
        declare(&mut listed, name, path(from), None);
    }
    assert_eq!(
        all("batch.events", &listed, &[deep]).unwrap(),
        [r#"id=5 sku="x" q=NULL who="a""#, r#"id=5 sku="y" q=2 who="a""#]
    );
    // Columns of the record alone are as many rows.
    listed.columns.truncate(1);
    assert_eq!(all("batch.events", &listed, &[deep]).unwrap(), ["id=5", "id=5"]);

    // A record goes as a whole, and says which element.
    let mut strict = table.clone();
    declare(&mut strict, "sku", path("e.sku"), None);
    strict.columns[0].expect.pattern = Some("^[a-z]*$".to_owned());
    declare(&mut strict, "q", path("e.q"), None);
    let refused = |table: &Table, payload: &str, class: Class, path: &str| {
        let mut decoder = Decoder::new(&message, &planned("e", table)).unwrap();
        decoder.decode(&hex("12(0a(61))")).unwrap();
        let rejected = decoder.decode(&hex(payload)).unwrap_err();
        assert_eq!((rejected.class, rejected.path.as_str()), (class, path), "{rejected}");
        decoder.decode(&hex("12(0a(62) 1801)")).unwrap();
        assert_eq!(decoder.finish().unwrap().num_rows(), 2);
    };
    refused(&strict, "12(0a(61)) 12(0a(41))", Class::Expectation, "e[1].sku");
    refused(&strict, "12(0a(61)) 12(0a(ff))", Class::InvalidUtf8, "e[1].sku");
    let large = format!("0a({}) {}", "61".repeat(1 << 20), "1200".repeat(300));
    refused(&strict, &large, Class::TooLarge, "");
    strict.columns[1].required = true;
    let mut decoder = Decoder::new(&message, &planned("e", &strict)).unwrap();
    assert_eq!(decoder.decode(&hex("12(1801) 12()")).unwrap_err().path, "e[1].q");
    let value = |explode: &str| {
        let explode = Some(explode.split('.').map(str::to_owned).collect());
        pipeline::resolved::Value { explode, ..value(None) }
    };
    for (explode, part) in [
        ("who", "is not repeated"),
        ("tags", "is not repeated"),
        ("e.n", "single messages only"),
        ("x", "no field `x`"),
    ] {
        let faults = columns::plan_records(&message, &value(explode), &table).unwrap_err();
        assert!(
            faults.len() == 1 && faults[0].place == "value.explode" && faults[0].message.contains(part),
            "{faults:?}"
        );
    }
}

#[test]
fn a_filter_looks_at_one_field_of_any_record() {
    let message = proto3(
        "enum E { option allow_alias = true; ZERO = 0; ONE = 1; UNO = 1; } message N { optional string s = 1; }
         message M { N n = 1; E e = 2; sint64 i = 3; bool b = 4; google.protobuf.StringValue w = 5; double d = 6;
         bytes raw = 7; repeated string list = 8; }",
    );
    let planned = |field: &str, one_of: &[Literal]| {
        let From::Path(field) = path(field) else { panic!("a path") };
        let filter = pipeline::resolved::Filter { field, one_of: one_of.to_vec() };
        columns::plan_records(&message, &value(Some(filter)), &table())
    };
    let takes = |field: &str, one_of: &[Literal], payload: &str| {
        let columns = planned(field, one_of).unwrap();
        super::super::Filter::new(&message, &columns).unwrap().unwrap().takes(&hex(payload))
    };
    let text = |text: &str| Literal::Text(text.to_owned());
    let check = |field: &str, literal: Literal, payload: &str, expected: bool| {
        assert_eq!(takes(field, &[literal], payload), Ok(expected), "{field} {payload}");
    };
    check("n.s", text("a"), "0a(0a(61))", true);
    check("n.s", text("a"), "0a(0a(62))", false);
    check("n.s", text(""), "0a()", false);
    check("n.s", text(""), "0a(0a())", true);
    check("e", text("UNO"), "1001", true);
    check("e", text("ZERO"), "", true);
    check("e", text("7"), "1007", true);
    check("i", Literal::Integer(-1), "1801", true);
    check("i", Literal::Integer(0), "1801", false);
    check("b", Literal::Boolean(true), "2001", true);
    check("b", Literal::Boolean(false), "", true);
    check("w", text("x"), "2a(0a(78))", true);
    check("w", text(""), "", false);
    // Whatever else is in the record, as long as it is a message.
    check("b", Literal::Boolean(true), "2001 3a(ff) 9806 01", true);
    assert_eq!(takes("b", &[Literal::Boolean(true)], "2001 3a05ff").unwrap_err().class, Class::Truncated);
    assert_eq!(takes("n.s", &[text("a")], "0a(0a(ff))").unwrap_err().path, "n.s");
    let refused = |field: &str, literal: Literal, part: &str| {
        let faults = planned(field, &[literal]).unwrap_err();
        assert_eq!(faults[0].place, "value.filter");
        assert!(faults.len() == 1 && faults[0].message.contains(part), "{faults:?}");
    };
    refused("n.t", text("a"), "did you mean `s`?");
    refused("e", text("ZERRO"), "did you mean `ZERO`?");
    refused("e", Literal::Integer(1), "is the name of one of its values, not a whole number");
    refused("i", text("1"), "is a whole number, not a string");
    refused("b", Literal::Integer(1), "is true or false");
    for field in ["d", "raw", "list", "n"] {
        refused(field, text("a"), "can't be filtered by");
    }
}

#[test]
fn packed_and_unpacked_numbers_may_alternate() {
    let message = proto3("message M { repeated int32 v = 1; string s = 2; }");
    check(&message, "0a03010203 0804 12026869 0a020506 1202796f", r#"v=[1,2,3,4,5,6] s="yo""#);
    check(&message, "0a00", r#"v=[] s="""#);
    refused(&message, &table(), "0a02 01ff", Class::Truncated, "v[1]");
    let kinds = proto2(
        "enum E { X = 3; Y = 4; } message M { repeated fixed32 a = 1; repeated double b = 2 [packed = true];
         repeated bool c = 3; repeated E d = 4; repeated sint32 e = 5; }",
    );
    check(
        &kinds,
        "0a(01000000 02000000) 0d03000000 11000000000000f03f 1a(0001) 1801 2003 22(0405) 2a(0102)",
        r#"a=[1,2,3] b=[1.0] c=[false,true,true] d=["X","Y","5"] e=[-1,1]"#,
    );
}

#[test]
fn map_entries_may_lack_parts_and_repeat_keys() {
    let message = proto3("message M { map<string, int32> tags = 1; }");
    check(&message, "0a00 0a050a01611007 0a021003 0a030a0162 0a050a01611009", r#"tags={"":3,"a":9,"b":0}"#);
    // Within one entry, too, the last part counts.
    check(&message, "0a(0a(61) 1001 0a(62) 1002)", r#"tags={"b":2}"#);
    let kinds = proto3(
        "message N { int32 x = 1; repeated string s = 2; map<int32, string> m = 3; }
         message M { map<int64, N> n = 1; map<bool, bytes> b = 2; map<uint64, double> d = 3; map<sint32, google.protobuf.Empty> e = 4; }",
    );
    check(&kinds, "", "n={} b={} d={} e={}");
    // The value of a key that comes again is replaced, lists and maps in it included, and its neighbours stay.
    check(
        &kinds,
        "0a(0801 12(0801 12(61) 12(62) 1a(0805 12(70))))  0a(0802 12(12(62)))  0a(0801 12(12(63) 12() 1a(12(71))))
         12(0801 12()) 12() 1a(0801) 22(0802 12()) 22()",
        r#"n={1:{x:0,s:["c",""],m:{0:"q"}},2:{x:0,s:["b"],m:{}}} b={true:x[],false:x[]} d={1:0.0} e={1:true,0:true}"#,
    );
    // More entries than are compared one by one.
    let many: String = (0..40).map(|n| format!("0a(0a(61{:02x}) 10{:02x})", 0x61 + n % 20, n)).collect();
    let expected: Vec<String> = (0..20).map(|n| format!("\"a{}\":{}", char::from(0x61 + n), n + 20)).collect();
    check(&message, &many, &format!("tags={{{}}}", expected.join(",")));
}

#[test]
fn absent_and_default_are_told_apart_as_the_schema_says() {
    let message = proto3("message M { optional int32 opt = 1; int32 imp = 2; string st = 3; }");
    check(&message, "", r#"opt=NULL imp=0 st="""#);
    check(&message, "0800", r#"opt=0 imp=0 st="""#);
    let proto2 = proto2(
        "enum E { A = 7; B = 0; } message M { optional int32 a = 1 [default = 5]; required string b = 2; optional E c = 3;
         optional group G = 4 { optional bool x = 5; } repeated int32 d = 6; map<string, E> m = 7; }",
    );
    check(&proto2, "", "a=NULL b=NULL c=NULL g=NULL d=[] m={}");
    check(&proto2, "0800 1200 1800 23 2801 24 3a00", r#"a=0 b="" c="B" g={x:true} d=[] m={"":"A"}"#);
    let mut table = table();
    declare(&mut table, "m", path("m"), Some("map<string, int>"));
    assert_eq!(rows(&proto2, &table, &["3a00"]).unwrap(), [r#"a=NULL b=NULL c=NULL g=NULL d=[] m={"":7}"#]);
}

#[test]
fn enums_have_names_and_unknown_numbers_stay_numbers() {
    let message = proto3(
        "enum E { option allow_alias = true; ZERO = 0; BIG = 100000; ONE = 1; UNO = 1; MINUS = -1; }
         message M { E a = 1; E b = 2; optional E c = 3; repeated E d = 4; }",
    );
    check(
        &message,
        "0801 10a08d06 18ffffffffffffffffff01 2205 02 01 00 83 01",
        r#"a="ONE" b="BIG" c="MINUS" d=["2","ONE","ZERO","131"]"#,
    );
    // As for int32, the low 32 bits count.
    check(&message, "088180808010 10feffffffffffffffff01", r#"a="ONE" b="-2" c=NULL d=[]"#);
    let mut table = table();
    declare(&mut table, "a", path("a"), Some("int"));
    assert_eq!(rows(&message, &table, &["0863"]).unwrap(), [r#"a=99 b="ZERO" c=NULL d=[]"#]);
}

#[test]
fn the_last_occurrence_wins_and_messages_merge() {
    let message = proto3(
        "message N { int32 x = 1; string y = 2; repeated int32 z = 3; N n = 4; google.protobuf.Int32Value w = 5; }
         message M { int32 a = 1; string b = 2; N n = 3; google.protobuf.Timestamp t = 4; google.protobuf.Int32Value w = 5; }",
    );
    check(
        &message,
        "0801 0802 12(616263) 12(64)
         1a(0801 1801) 1a(12(71) 1802) 1a(2a(0807)) 1a(2a())
         22(0805) 22(10c03e) 2a(0809) 2a()",
        r#"a=2 b="d" n={x:1,y:"q",z:[1,2],n:NULL,w:7} t=5000008 w=9"#,
    );
    // A message inside itself is JSON, and merges all the same.
    check(
        &message,
        "1a(22(0801)) 1a(22(12(78)))",
        r#"a=0 b="" n={x:0,y:"",z:[],n:"{\"x\":1,\"y\":\"x\"}",w:NULL} t=NULL w=NULL"#,
    );
}

#[test]
fn of_a_oneof_the_last_member_counts() {
    let message = proto3(
        "message N { int32 x = 1; repeated int32 z = 2; oneof inner { string p = 3; string q = 4; } }
         message M { oneof kind { int32 a = 1; string b = 2; N n = 3; google.protobuf.Timestamp t = 4; N r = 6; } int32 k = 5; }",
    );
    check(&message, "", "a=NULL b=NULL n=NULL t=NULL r=NULL k=0");
    check(&message, "0801 120162", r#"a=NULL b="b" n=NULL t=NULL r=NULL k=0"#);
    check(&message, "120162 0800", "a=0 b=NULL n=NULL t=NULL r=NULL k=0");
    // Merged while it stays the member, fresh after another one was.
    check(
        &message,
        "1a(0801) 1a(1007) 1a(1008) 1a(1a(61)) 1a(22(62))",
        r#"a=NULL b=NULL n={x:1,z:[7,8],p:NULL,q:"b"} t=NULL r=NULL k=0"#,
    );
    check(
        &message,
        "1a(0801 1007 1a(61)) 22(0805) 1a(1009)",
        "a=NULL b=NULL n={x:0,z:[9],p:NULL,q:NULL} t=NULL r=NULL k=0",
    );
    check(&message, "22(0805) 0801 22(1000)", "a=NULL b=NULL n=NULL t=0 r=NULL k=0");
    // A member that is in no column unsets the others all the same, also along a path.
    let mut table = table();
    table.exclude = vec!["b".to_owned(), "t".to_owned()];
    declare(&mut table, "x", path("n.x"), None);
    assert_eq!(
        rows(&message, &table, &["1a(0801)", "1a(0801) 12(62)", "0801 12(62)"]).unwrap(),
        ["a=NULL x=1 r=NULL k=0", "a=NULL x=NULL r=NULL k=0", "a=NULL x=NULL r=NULL k=0"]
    );
}

#[test]
fn unknown_fields_are_passed_over_or_refused() {
    let message = proto2("message M { optional int32 a = 1; optional group G = 2 { optional int32 x = 1; } }");
    // Number, fixed, length, nested groups, and known numbers with another wire type.
    let unknown = "9a06(616263) 9806 01 9d06 01020304 9906 0102030405060708 9b06 0801 9b06 9c06 9c06 0a0161 1002";
    check(&message, &format!("0805 {unknown} 13 0806 {unknown} 14"), "a=5 g={x:6}");
    let mut strict = table();
    strict.unknown_fields = UnknownFields::DeadLetter;
    assert_eq!(rows(&message, &strict, &["0805 13 0806 14"]).unwrap(), ["a=5 g={x:6}"]);
    refused(&message, &strict, "0805 980601", Class::IncompatibleSchema, "");
    refused(&message, &strict, "13 980601 14", Class::IncompatibleSchema, "g");
    refused(&message, &strict, "0a0161", Class::IncompatibleSchema, "");
    // A field that is left out is not an unknown one.
    strict.exclude = vec!["g.x".to_owned()];
    assert_eq!(rows(&message, &strict, &["0805 13 0806 14"]).unwrap(), ["a=5"]);
}

#[test]
fn groups_end_with_their_own_number() {
    let message = proto2("message M { repeated group G = 1 { optional int32 x = 1; } optional int32 a = 2; }");
    check(&message, "0b 0801 0c 0b 0c 1001", "g=[{x:1},{x:NULL}] a=1");
    refused(&message, &table(), "0b 0801 14", Class::WrongType, "g[0]");
    refused(&message, &table(), "0b 0801", Class::Truncated, "g[0]");
    refused(&message, &table(), "1001 0c", Class::WrongType, "");
}

#[test]
fn what_is_not_protobuf_is_refused_with_a_place() {
    let message = proto3(
        "message N { string s = 1; fixed64 f = 2; } message M { N n = 1; repeated N r = 2; map<string, N> m = 3; }",
    );
    let check = |payload, class, path| refused(&message, &table(), payload, class, path);
    check("00 0000002a 00", Class::BadFraming, "");
    check("0300", Class::BadFraming, "");
    check("0a", Class::Truncated, "n");
    check("0a05 0a03 6162", Class::Truncated, "n");
    check("0a03 0a03 616263", Class::Truncated, "n.s");
    check("0a04 11 010203", Class::Truncated, "n.f");
    check("12() 12(0a(c328))", Class::InvalidUtf8, "r[1].s");
    check("1a() 1a(12(0a(61ff62)))", Class::InvalidUtf8, "m[1].value.s");
    check("1a(0a(c328))", Class::InvalidUtf8, "m[0].key");
    check("0a01 07", Class::WrongType, "n");
    check("0affffffffffffffffff7f", Class::WrongType, "n");
    check("0affffffffffffffff7f", Class::Truncated, "n");
    check(r"7b226122 3a317d", Class::Truncated, "");
}

#[test]
fn columns_choose_types_that_lose_nothing() {
    let message = proto3(
        "enum E { A = 0; } message N { int32 x = 1; }
         message M { int32 i = 1; uint32 u = 2; int64 l = 3; uint64 w = 4; float f = 5; bool b = 6; string s = 7;
         bytes y = 8; E e = 9; google.protobuf.Int64Value v = 10; N n = 11; google.protobuf.UInt32Value z = 12; }",
    );
    let mut text = table();
    for name in ["i", "u", "l", "w", "b", "y", "e", "v", "n", "z"] {
        declare(&mut text, name, path(name), Some("string"));
    }
    declare(&mut text, "f", path("f"), Some("double"));
    declare(&mut text, "s", path("s"), Some("binary"));
    let full = "08ffffffffffffffffff01 10ffffffff0f 18feffffffffffffffff01 20ffffffffffffffffff01 2d0000c03f
                3001 3a(c328) 42(4142) 4805 52(0803) 5a(0804) 62()";
    assert_eq!(
        rows(&message, &text, &["", full]).unwrap(),
        [
            r#"i="0" u="0" l="0" w="0" f=0.0 b="false" s=x[] y="" e="A" v=NULL n=NULL z=NULL"#,
            r#"i="-1" u="4294967295" l="-2" w="18446744073709551615" f=1.5 b="true" s=x[c3, 28] y="AB" e="5" v="3" n="{\"x\":4}" z="0""#,
        ]
    );
    refused(&message, &text, "4202c328", Class::InvalidUtf8, "y");
    let mut wide = table();
    for (name, data_type) in [
        ("i", "double"),
        ("u", "double"),
        ("l", "decimal(19, 0)"),
        ("w", "long"),
        ("e", "int"),
        ("v", "struct<value: long>"),
        ("z", "decimal(38, 0)"),
    ] {
        declare(&mut wide, name, path(name), Some(data_type));
    }
    assert_eq!(
        rows(
            &message,
            &wide,
            &["08ffffffffffffffffff01 10ffffffff0f 18feffffffffffffffff01 2007 4805 52() 62(08e807)"]
        )
        .unwrap(),
        [r#"i=-1.0 u=4294967295.0 l=-2 w=7 f=0.0 b=false s="" y=x[] e=5 v={value:0} n=NULL z=1000"#]
    );
}

#[test]
fn paths_and_required_columns() {
    let message = proto3(
        "message N { string name = 1; optional int32 x = 2; N n = 3; repeated int32 l = 4; } message M { N a = 1; int32 b = 2; }",
    );
    let mut table = table();
    for (name, from) in [("name", "a.name"), ("x", "a.x"), ("deep", "a.n.n.name"), ("l", "a.l"), ("b2", "b")] {
        declare(&mut table, name, path(from), None);
    }
    assert_eq!(
        rows(&message, &table, &["", "0a00 1003", "0a(0a(61) 1001 1a(1a(0a())) 2005)"]).unwrap(),
        [
            "name=NULL x=NULL deep=NULL l=NULL b2=0",
            r#"name="" x=NULL deep=NULL l=[] b2=3"#,
            r#"name="a" x=1 deep="" l=[5] b2=0"#,
        ]
    );
    let mut required = table.clone();
    required.columns.iter_mut().for_each(|column| column.required = column.name == "x");
    refused(&message, &required, "0a00", Class::MissingRequired, "a.x");
    refused(&message, &required, "", Class::MissingRequired, "a.x");
    assert_eq!(rows(&message, &required, &["0a021007"]).unwrap(), [r#"name="" x=7 deep=NULL l=[] b2=0"#]);
    // Inside a struct, only where the struct is there.
    let mut inner = crate::columns::tests::table();
    declare(&mut inner, "a", path("a"), Some("struct<name: string not null, x: int not null>"));
    assert_eq!(rows(&message, &inner, &["", "0a021007"]).unwrap(), ["a=NULL b=0", r#"a={name:"",x:7} b=0"#]);
    refused(&message, &inner, "0a00", Class::MissingRequired, "a.x");
    // One field, several columns.
    let mut twice = crate::columns::tests::table();
    for (name, from, data_type) in [("a", "a", None), ("json", "a", Some("string")), ("x", "a.x", Some("long"))] {
        declare(&mut twice, name, path(from), data_type);
    }
    twice.exclude = vec!["a.n".to_owned(), "a.l".to_owned()];
    assert_eq!(
        rows(&message, &twice, &["0a02 1005"]).unwrap(),
        [r#"a={name:"",x:5} json="{\"name\":\"\",\"x\":5}" x=5 b=0"#]
    );
}

#[test]
fn a_rejected_record_leaves_no_trace_wherever_it_stops() {
    let message = proto3(
        "message N { string s = 1; repeated N n = 2; map<string, string> m = 3; }
         message M { string a = 1; int32 b = 2; optional bool c = 3; repeated int64 d = 4; map<int32, N> e = 5; repeated N f = 6;
         google.protobuf.Timestamp g = 7; google.protobuf.Struct h = 8; oneof k { int32 i = 9; N j = 10; } uint64 u = 11; string z = 15; }",
    );
    let full =
        hex("0a(61) 1002 1801 22(0304) 2a(0805 12(0a(62) 12(0a(63)) 1a(0a(64) 12(65)))) 32(0a(66) 1a()) 32() 3a(0809)
         42(0a(0a(78) 12(2001))) 52(0a(7171)) 5807 7a(65)");
    let mut decoder = decoder(&message, &table());
    let plain = hex("0a(70) 1001 22(0a)");
    let mut expected = 0;
    let mut refused = 0;
    for end in 0..full.len() {
        // Cut short, and with a byte that no varint, length or text survives.
        for tail in [vec![], vec![0xff; 12]] {
            let payload = [&full[..end], &tail].concat();
            match decoder.decode(&payload) {
                Ok(()) => expected += 1,
                Err(_) => refused += 1,
            }
            decoder.decode(&plain).unwrap();
            expected += 1;
            assert_eq!(decoder.rows(), expected);
        }
    }
    assert!(refused > full.len());
    let batch = decoder.finish().unwrap();
    assert_eq!(batch.num_rows(), expected);
    let clean = rows(&message, &table(), &["0a(70) 1001 22(0a)"]).unwrap();
    let rows = print(&batch);
    assert_eq!(rows.iter().filter(|row| **row == clean[0]).count(), full.len() * 2);
}

#[test]
fn messages_nest_a_hundred_deep_and_no_deeper() {
    let message = proto3("message N { N n = 1; string s = 2; } message M { N n = 1; string s = 2; }");
    let nested = |depth: usize, core: &[u8]| {
        let mut bytes = core.to_vec();
        for _ in 0..depth {
            let mut outer = vec![0x0a];
            prost::encoding::encode_varint(bytes.len() as u64, &mut outer);
            outer.extend(bytes);
            bytes = outer;
        }
        bytes
    };
    let mut decoder = decoder(&message, &table());
    decoder.decode(&nested(100, b"\x12\x01z")).unwrap();
    let rejected = decoder.decode(&nested(101, b"")).unwrap_err();
    assert_eq!(rejected.class, Class::TooDeep);
    // Far beyond any stack.
    assert_eq!(decoder.decode(&nested(50_000, b"")).unwrap_err().class, Class::TooDeep);
    assert_eq!(decoder.decode(&nested(3, b"\x12\x02\xc3\x28")).unwrap_err().class, Class::InvalidUtf8);
    let rows = print(&decoder.finish().unwrap());
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].matches(r#"{\"n\":"#).count(), 98, "{}", rows[0]);
}

#[test]
fn strings_are_utf8_in_both_syntaxes() {
    for message in [
        proto3("message M { string s = 1; bytes b = 2; }"),
        proto2("message M { optional string s = 1; optional bytes b = 2; }"),
    ] {
        refused(&message, &table(), "0a02c328", Class::InvalidUtf8, "s");
        assert!(rows(&message, &table(), &["0a02c3a8 1202c328"]).unwrap()[0].starts_with("s=\"è\" b=x[c3, 28]"));
    }
}

#[test]
fn a_record_that_would_open_too_many_columns_is_refused() {
    let fields: String = (1..=400).map(|n| format!("int64 f{n} = {n};")).collect();
    let message = proto3(&format!("message N {{ {fields} }} message M {{ repeated N n = 1; int32 a = 2; }}"));
    let mut decoder = decoder(&message, &table());
    let rejected = decoder.decode(&[0x0a, 0x00].repeat(50_000)).unwrap_err();
    assert_eq!(rejected.class, Class::TooLarge);
    decoder.decode(&[0x0a, 0x00].repeat(5_000)).unwrap();
    assert_eq!(decoder.rows(), 1);
    assert!(decoder.bytes() > 5_000 * 400 * 8);
}

#[test]
fn a_decoder_goes_on_after_a_batch() {
    let message = proto3("message M { int32 a = 1; string s = 2; repeated int32 l = 3; optional bool b = 4; }");
    let mut decoder = decoder(&message, &table());
    assert_eq!(decoder.finish().unwrap().num_rows(), 0);
    for round in 0..3 {
        for row in 0..200 * (3 - round) {
            decoder.decode(&hex(if row % 2 == 0 { "0805 1201 61 1a020102 2001" } else { "" })).unwrap();
        }
        let rows = print(&decoder.finish().unwrap());
        for (row, text) in rows.iter().enumerate() {
            let expected = if row % 2 == 0 { r#"a=5 s="a" l=[1,2] b=true"# } else { r#"a=0 s="" l=[] b=NULL"# };
            assert_eq!(text, expected);
        }
        assert_eq!(rows.len(), 200 * (3 - round));
        assert_eq!((decoder.rows(), decoder.bytes()), (0, 0));
    }
}

#[test]
fn long_payloads_and_values_are_read_whole() {
    let message = proto3("message M { string a = 1; bytes b = 2; repeated fixed32 c = 3; }");
    let mut decoder = decoder(&message, &table());
    for length in [0, 31, 32, 33, 4000, 4090, 4091, 4092, 4093, 5000, 100_000] {
        let mut payload = vec![0x0a];
        prost::encoding::encode_varint(length, &mut payload);
        payload.resize(payload.len() + length as usize, b'x');
        payload.extend([0x1d, 1, 0, 0, 0]);
        decoder.decode(&payload).unwrap();
        let rows = print(&decoder.finish().unwrap());
        assert_eq!(rows, [format!("a=\"{}\" b=x[] c=[1]", "x".repeat(length as usize))]);
        assert_eq!(decoder.decode(&payload[..payload.len() - 1]).unwrap_err().class, Class::Truncated);
    }
}

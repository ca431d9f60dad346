//! Members that come twice, that are missing, and that the schema does not know.

use pipeline::resolved::{ColumnCase, UnknownFields};

use super::*;
use crate::columns::tests::{declare, path};

#[test]
fn the_last_of_a_name_counts() {
    let subject = object(
        "a: {\"type\": \"integer\"}; o: {\"properties\": {\"p\": {\"type\": \"integer\"}, \"q\": {\"type\": \"string\", \"default\": \"d\"}}};
         xs: {\"type\": \"array\", \"items\": {\"type\": \"integer\"}}; m: {\"additionalProperties\": {\"type\": \"integer\"}}; x: {}",
    );
    let check = |payload: &str, expected: &str| {
        let rows = rows(&subject, &iceberg(), &[payload.as_bytes()]).unwrap_or_else(|r| panic!("{payload}: {r}"));
        let expected: Vec<&str> = expected.split(' ').collect();
        let actual: Vec<&str> = rows[0].split(' ').filter(|cell| !cell.ends_with("=NULL")).collect();
        assert_eq!(actual, expected.into_iter().filter(|cell| !cell.is_empty()).collect::<Vec<_>>(), "{payload}");
    };
    check("{\"a\":1,\"a\":2}", "a=2");
    check("{\"a\":1,\"\\u0061\":2}", "a=2");
    check("{\"a\":1,\"a\":null}", "");
    check("{\"a\":null,\"a\":1}", "a=1");
    // What the others hold is nobody's concern, if it is JSON.
    check("{\"a\":\"x\",\"a\":2}", "a=2");
    check("{\"a\":1.5,\"x\":1,\"a\":2}", "a=2 x=\"1\"");
    check("{\"xs\":[1,2,3],\"xs\":[4]}", "xs=[4]");
    check("{\"xs\":[1,\"x\"],\"xs\":[]}", "xs=[]");
    check("{\"xs\":[1],\"xs\":null}", "");
    // An object takes the whole place of another.
    check("{\"o\":{\"p\":1,\"q\":\"z\"},\"o\":{\"p\":2}}", "o={p:2,q:\"d\"}");
    check("{\"o\":{\"p\":1,\"p\":3,\"q\":\"z\"}}", "o={p:3,q:\"z\"}");
    check("{\"o\":{\"p\":true,\"p\":3,\"q\":null}}", "o={p:3,q:NULL}");
    check("{\"o\":7,\"o\":{\"p\":1,\"q\":\"a\",\"p\":2}}", "o={p:2,q:\"a\"}");
    check("{\"m\":{\"k\":1,\"l\":2,\"k\":3}}", "m={\"k\":3,\"l\":2}");
    check("{\"m\":{\"k\":\"x\",\"l\":2,\"k\":3}}", "m={\"k\":3,\"l\":2}");
    check("{\"m\":{\"k\":1},\"m\":{\"l\":2}}", "m={\"l\":2}");
    check("{\"x\":1,\"x\":{\"a\":1,\"a\":2}}", "x=\"{\\\"a\\\":1,\\\"a\\\":2}\"");
    check("{\"stranger\":1,\"stranger\":2,\"a\":1}", "a=1");
    refused(&subject, "{\"a\":2,\"a\":\"x\"}", Class::WrongType, "a");
    refused(&subject, "{\"o\":{\"p\":1,\"p\":\"x\"}}", Class::WrongType, "o.p");
    refused(&subject, "{\"m\":{\"k\":1,\"a.b\":\"x\"}}", Class::WrongType, "m.a.b");
    refused(&subject, "{\"m\":{\"k\":1,\"\\u0061\":\"x\",\"k\":2}}", Class::WrongType, "m.a");
    refused(&subject, "{\"a\":NaN,\"a\":1}", Class::WrongType, "a");
    // Of more members than a word has bits.
    let many: Vec<String> = (0..200).map(|n| format!("m{n}: {{\"type\": \"integer\"}}")).collect();
    let subject = object(&many.join(";"));
    let payload: Vec<String> = (0..200).rev().map(|n| format!("\"m{n}\":{n}")).collect();
    let row = |more: &str| {
        let payload = format!("{{{},{more}}}", payload.join(","));
        rows(&subject, &iceberg(), &[payload.as_bytes()]).unwrap().remove(0)
    };
    let expected: Vec<String> = (0..200).map(|n| format!("m{n}={n}")).collect();
    assert_eq!(row("\"stranger\":0"), expected.join(" "));
    assert_eq!(row("\"m150\":7"), expected.join(" ").replace("m150=150", "m150=7"));
}

#[test]
fn names_match_exactly_or_as_columns_are_spelled() {
    let subject = object("userId: {\"type\": \"integer\"}; A.B: {\"type\": \"integer\"}; q\\\": true; é: true");
    super::check(
        &subject,
        "{\"user_id\":1,\"userId \":3,\"userId\":4,\"A.B\":5,\"A\":{\"B\":6},\"q\\u0022\":7,\"\\u00e9\":8,\"e\u{301}\":9}",
        "userid=4 a.b=5 q\"=\"7\" é=\"8\"",
    );
    super::check(&subject, "{\"\":1}", "userid=NULL a.b=NULL q\"=NULL é=NULL");
    for name in ["userid", "USERID"] {
        super::check(&subject, &format!("{{\"{name}\":4,\"a.b\":5,\"É\":8}}"), "userid=4 a.b=5 q\"=NULL é=\"8\"");
        refused(&subject, format!("{{\"userId\":4,\"{name}\":4}}"), Class::AmbiguousName, "userId");
    }
    let as_is = Table { column_case: ColumnCase::AsIs, ..iceberg() };
    let payload = b"{\"userid\":1,\"UserId\":2,\"userId\":4,\"USERID\":5}";
    assert_eq!(rows(&subject, &as_is, &[payload]).unwrap(), ["userId=4 A.B=NULL q\"=NULL é=NULL"]);
    // Of two members that are spelled alike each is itself, and a third one neither.
    let left_out = Table { exclude: vec!["iD".to_owned()], ..iceberg() };
    let cases = object("Id: {\"type\": \"integer\"}; iD: true");
    let payload = b"{\"iD\":1,\"ID\":2,\"Id\":3}";
    assert_eq!(rows(&cases, &left_out, &[payload]).unwrap(), ["id=3"]);
    // A member without a name is none that a column can have.
    super::check(&object(": {\"type\": \"integer\"}; b: {}"), "{\"\":1}", "b=NULL");
    // A name with a dot in it and a member within a member are not to share a column.
    let both = object("A.B: {\"type\": \"integer\"}; A: {\"properties\": {\"B\": {\"type\": \"integer\"}}}");
    let faults = plan(&both, &table()).unwrap_err();
    assert!(faults[0].message.contains("two columns are named `a.b`"), "{faults:?}");
    let cases = object("Id: true; iD: true");
    assert!(plan(&cases, &table()).unwrap_err()[0].message.contains("two columns are named `id`"));
}

#[test]
fn what_is_missing_is_its_default_or_null() {
    let subject = object(
        "a: {\"type\": \"integer\", \"default\": 1e2}; b: {\"type\": [\"null\", \"string\"], \"default\": null}; c: {\"default\": {\"k\": [1.50]}};
         o: {\"default\": {\"p\": 7}, \"properties\": {\"p\": {\"type\": \"integer\"}, \"q\": {\"type\": \"string\", \"default\": \"d\\\"\"}}};
         r: {\"$ref\": \"#/properties/a\"}",
    );
    let check = |payload: &str, expected: &str| super::check(&subject, payload, expected);
    check("{}", "a=100 b=NULL c=\"{\\\"k\\\":[1.50]}\" o={p:7,q:\"d\\\"\"} r=100");
    check("{\"a\":null,\"b\":null,\"c\":null,\"o\":null,\"r\":null}", "a=NULL b=NULL c=NULL o=NULL r=NULL");
    check("{\"a\":1,\"b\":\"\",\"c\":0,\"o\":{},\"r\":2}", "a=1 b=\"\" c=\"0\" o={p:NULL,q:\"d\\\"\"} r=2");
    check("{\"a\":1,\"a\":2,\"c\":0,\"o\":{\"q\":null},\"r\":2}", "a=2 b=NULL c=\"0\" o={p:NULL,q:NULL} r=2");
    // A default that is none refuses whoever needs it.
    let wrong = object("a: {\"type\": \"integer\", \"default\": \"x\"}; b: {}");
    let rejected = rows(&wrong, &iceberg(), &[b"{\"b\":1}"]).unwrap_err();
    assert_eq!((rejected.class, rejected.path.as_str()), (Class::WrongType, "a"));
    super::check(&wrong, "{\"a\":1}", "a=1 b=NULL");
    let mut table = iceberg();
    table.exclude = vec!["a".to_owned()];
    assert_eq!(rows(&wrong, &table, &[b"{\"b\":1}"]).unwrap(), ["b=\"1\""]);
    // Elements that open a default of 100 KB each.
    let long = "x".repeat(100_000);
    let items = format!("{{\"properties\": {{\"d\": {{\"type\": \"string\", \"default\": \"{long}\"}}}}}}");
    let subject = schema(&format!("{{\"properties\": {{\"xs\": {{\"items\": {items}}}}}}}"));
    let payload = format!("{{\"xs\":[{}{{}}]}}", "{},".repeat(3000));
    let rejected = rows(&subject, &iceberg(), &[payload.as_bytes()]).unwrap_err();
    assert_eq!(rejected.class, Class::TooLarge, "{rejected}");
}

#[test]
fn what_the_schema_does_not_know_is_passed_over_kept_or_refused() {
    let subject = object(
        "id: {\"type\": \"integer\"}; cust: {\"properties\": {\"cid\": {\"type\": \"integer\"}}};
         items: {\"type\": \"array\", \"items\": {\"properties\": {\"sku\": {\"type\": \"string\"}}}};
         attr: {\"additionalProperties\": {\"properties\": {\"v\": {\"type\": \"integer\"}}}}",
    );
    let payload = "{\"id\":1,\"cust\":{\"cid\":5,\"det\":{\"mail\": \"m@x\"}},\"items\":[{\"sku\":\"a\"},{\"sku\":\"b\",\"qty\":2},{\"qty\": null}],
        \"attr\":{\"k\":{\"v\":1,\"u\":\"cm\"}},\"A.b\":1,\"c\":true,\"c\":\"\\u00e9\"}";
    let known = "id=1 cust={cid:5} items=[{sku:\"a\"},{sku:\"b\"},{sku:NULL}] attr={\"k\":{v:1}}";
    super::check(&subject, payload, known);
    let mut table = iceberg();
    table.unknown_fields = UnknownFields::Rest;
    let rest = "_rest={\"cust.det\":\"{\\\"mail\\\": \\\"m@x\\\"}\",\"items.qty\":\"[2,null]\",\"attr.u\":\"[\\\"cm\\\"]\",\
        \"\\\"A.b\\\"\":\"1\",\"c\":\"\\\"\\\\u00e9\\\"\"}";
    assert_eq!(rows(&subject, &table, &[payload.as_bytes()]).unwrap(), [format!("{known} {rest}")]);
    assert_eq!(rows(&subject, &table, &[b"{\"id\":1}"]).unwrap(), ["id=1 cust=NULL items=NULL attr=NULL _rest={}"]);
    // Several columns of one value keep it once; what is in no column is known as a whole.
    declare(&mut table, "x", path("cust"), None);
    declare(&mut table, "y", path("cust.cid"), None);
    table.exclude = vec!["attr".to_owned(), "items".to_owned()];
    let row = rows(&subject, &table, &[payload.as_bytes()]).unwrap().remove(0);
    assert!(
        row.starts_with("id=1 x={cid:5} y=5 _rest={\"cust.det\":\"{\\\"mail\\\": \\\"m@x\\\"}\",\"\\\"A.b\\\"\""),
        "{row}"
    );
    let flood: Vec<String> = (0..10_001).map(|n| format!("\"f{n}\":0")).collect();
    let rejected = rows(&subject, &table, &[format!("{{{}}}", flood.join(",")).as_bytes()]).unwrap_err();
    assert_eq!(rejected.class, Class::TooLarge, "{rejected}");
    let mut table = iceberg();
    table.unknown_fields = UnknownFields::DeadLetter;
    let refuse = |payload: &str| {
        let rejected = rows(&subject, &table, &[payload.as_bytes()]).unwrap_err();
        (rejected.class, rejected.path)
    };
    assert_eq!(refuse(payload), (Class::IncompatibleSchema, "cust.det".to_owned()));
    assert_eq!(refuse("{\"attr\":{\"k\":{\"w\":1}}}"), (Class::IncompatibleSchema, "attr.k.w".to_owned()));
    assert_eq!(refuse("{\"Idd\":1}"), (Class::IncompatibleSchema, "Idd".to_owned()));
    assert_eq!(rows(&subject, &table, &[b"{\"Id\":1}"]).unwrap().len(), 1);
    assert_eq!(rows(&subject, &table, &[b"{\"id\":1}"]).unwrap().len(), 1);
}

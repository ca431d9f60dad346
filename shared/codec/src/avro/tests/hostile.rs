//! Bytes and schemas that mean harm.

use super::*;

#[test]
fn floods_of_elements_without_bytes_end() {
    let check = |items: &str, payload: &str, class: Class| {
        let schema = record(&format!("xs: {{\"type\": \"array\", \"items\": {items}}}; t: \"int\""));
        refused(&schema, &schema, payload, class, "xs");
        // Where it is passed over as well.
        let rejected = rows(&schema, &record("t: \"int\""), &iceberg(), &[payload]).expect_err(payload);
        assert_eq!(rejected.class, class, "{rejected}");
    };
    let void = "{\"type\": \"record\", \"name\": \"Void\", \"fields\": []}";
    // 2^31-1, 65,537 and 2^63-1 of them.
    check(void, "feffffff0f 00 02", Class::TooLarge);
    check(void, "828008 00 02", Class::TooLarge);
    check(void, "feffffffffffffffff01 00 02", Class::TooLarge);
    // In several blocks they are as many.
    check(void, "808008 02 00 02", Class::TooLarge);
    // What takes bytes is as many as there are bytes for.
    check("\"int\"", "feffffff0f 02 02", Class::Truncated);
    check("\"double\"", "06 0000000000000000 0000000000000000 00 02", Class::Truncated);
    // The least of numbers has no opposite.
    check("\"int\"", "ffffffffffffffffff01 00 00 02", Class::Truncated);
    let schema = record(&format!("xs: {{\"type\": \"array\", \"items\": {void}}}"));
    check_read(
        &schema,
        &record("xs: {\"type\": \"array\", \"items\": \"Void\"}".replace("\"Void\"", void).as_str()),
        "04 00",
        "xs=[true,true]",
    );
}

#[test]
fn recursion_ends() {
    let chain = record("next: [\"null\", \"R\"]; t: \"int\"");
    let nested = |depth: usize| format!("{}00{}", "02".repeat(depth), "02".repeat(depth + 1));
    // The first is the row's own; a text has a hundred and one.
    assert!(rows(&chain, &chain, &iceberg(), &[&nested(101)]).is_ok());
    let path = format!("next{}", ".next".repeat(100));
    for reader in [&chain, &record("t: \"int\"")] {
        let rejected = rows(&chain, reader, &iceberg(), &[&nested(103)]).unwrap_err();
        assert_eq!(rejected.class, Class::TooDeep, "{rejected}");
        assert!(rejected.path.starts_with(&path), "{rejected}");
    }
    // A record that is directly inside itself has no end, and no value.
    let endless = record("r: \"R\"");
    let rejected = rows(&endless, &endless, &iceberg(), &["02"]).unwrap_err();
    assert_eq!(rejected.class, Class::TooDeep, "{rejected}");
}

/// An element of a byte opens every column of its record, and takes every default.
#[test]
fn what_was_never_sent_takes_no_more_memory_than_there_is() {
    let default = "x".repeat(100_000);
    let element = |more: &str| {
        format!(
            "xs: {{\"type\": \"array\", \"items\": {{\"type\": \"record\", \"name\": \"E\", \"fields\": [
             {{\"name\": \"a\", \"type\": \"int\"}}{more}]}}}}"
        )
    };
    let writer = record(&element(""));
    let reader = record(&element(&format!(", {{\"name\": \"d\", \"type\": \"string\", \"default\": \"{default}\"}}")));
    // 3,000 elements: 300 MB of defaults.
    let payload = format!("f02e{}00", "02".repeat(3000));
    refused(&writer, &reader, &payload, Class::TooLarge, "xs[1342].d");
    let mut table = iceberg();
    crate::columns::tests::declare(&mut table, "xs", crate::columns::tests::path("xs"), Some("string"));
    let rejected = rows(&writer, &reader, &table, &[&payload]).unwrap_err();
    assert_eq!(rejected.class, Class::TooLarge, "{rejected}");
}

#[test]
fn schemas_that_multiply_end() {
    // Forty records, each twice in the one before: 2^40 fields.
    let multiplied: String = (0..40).fold("\"int\"".to_owned(), |inner, n| {
        let second = if n == 0 { "int".to_owned() } else { format!("M{}", n - 1) };
        format!(
            "{{\"type\": \"record\", \"name\": \"M{n}\", \"fields\": [{{\"name\": \"a\", \"type\": {inner}, \"default\": {{}}}},
             {{\"name\": \"b\", \"type\": \"{second}\"}}]}}"
        )
    });
    let multiplied = schema(&multiplied);
    let faults = plan(&multiplied, &table()).unwrap_err();
    assert!(faults.iter().any(|fault| fault.message.contains("more than 10000 fields")), "{faults:?}");
    let mut table = table();
    table.exclude = vec!["a".to_owned(), "b.a".to_owned(), "b.b.a".to_owned()];
    assert!(plan(&multiplied, &table).is_err());
    // A chain of names longer than any stack: known from texts that come one after the other.
    let links: Vec<String> = (0..5000)
        .map(|n| {
            let of = if n == 0 { "int".to_owned() } else { format!("L{}", n - 1) };
            format!(
                "{{\"type\": \"record\", \"name\": \"L{n}\", \"fields\": [{{\"name\": \"n\", \"type\": \"{of}\"}}]}}"
            )
        })
        .collect();
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    let (last, before) = links.split_last().unwrap();
    let chain = Schema::parse(last, before).unwrap();
    let rejected = rows(&chain, &chain, &iceberg(), &["02"]).unwrap_err();
    assert!(matches!(rejected.class, Class::TooDeep | Class::IncompatibleSchema), "{rejected}");
}

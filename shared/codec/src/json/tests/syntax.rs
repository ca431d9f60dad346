//! What is JSON, and what is none.

use super::*;

fn subject() -> Schema {
    object("a: {\"type\": \"string\"}; n: {\"type\": \"number\"}; x: {}")
}

#[test]
fn what_is_no_json_is_refused_wherever_it_stands() {
    let check = |payload: &[u8], class: Class, path: &str, expected: &str| {
        let message = refused(&subject(), payload, class, path);
        assert!(message.contains(expected), "{message}\nlacks: {expected}");
    };
    check(b"", Class::EmptyValue, "", "no bytes");
    check(b" \n", Class::Truncated, "", "");
    for top in ["[]", "[{\"a\": 1}]", "\"{}\"", "7", "true", "null"] {
        check(top.as_bytes(), Class::WrongType, "", "and not an object");
    }
    check(b"nul", Class::Truncated, "", "");
    check(b"[1", Class::Truncated, "", "");
    check(b"\xef\xbb\xbf{}", Class::BadFraming, "", "byte order mark");
    check(b"\x00\x00\x00\x00\x2a{}", Class::WrongType, "", "not the byte 0x00, at byte 0");
    check(b"{\x00}", Class::WrongType, "", "a member's name is expected");
    for behind in ["{}}", "{} 1", "{}{}", "{},", "{}\0", "{}\u{feff}"] {
        check(behind.as_bytes(), Class::TrailingBytes, "", "left over");
    }
    for form in [
        "{a: 1}",
        "{'a': 1}",
        "{\"a\" 1}",
        "{\"a\": \"\",}",
        "{,}",
        "{\"a\": \"\" \"n\": 1}",
        "{\"a\": \"\"; \"n\": 1}",
        "{\"a\"; 1}",
        "{//\n}",
        "{1: 1}",
        "{null: 1}",
        "{[]: 1}",
    ] {
        check(form.as_bytes(), Class::WrongType, "", "it is not JSON");
    }
    // In a column, in none, within text, and in what the schema does not know.
    for value in [
        "NaN",
        "Infinity",
        "-Infinity",
        "+1",
        ".5",
        "5.",
        "01",
        "-",
        "-a",
        "1e",
        "1e+",
        "0x10",
        "1_0",
        "tru",
        "nullx",
        "True",
        "undefined",
        "'a'",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"a\nb\"",
        "\"\t\"",
        "[1 2]",
        "[,]",
        "[1,]",
        "{\"b\"}",
        "{\"b\":1,}",
        "[1}",
        "{]",
        "\"\\U0041\"",
    ] {
        for member in ["n", "x", "stranger"] {
            let payload = format!("{{\"{member}\": {value}, \"z\": 1}}");
            let rejected = rows(&subject(), &iceberg(), &[payload.as_bytes()]).expect_err(&payload);
            assert_eq!(rejected.class, Class::WrongType, "{payload}: {rejected}");
        }
    }
    check(b"{\"n\": NaN}", Class::WrongType, "n", "JSON has no such number");
    check(b"{\"n\": 1.}", Class::WrongType, "n", "a digit is expected behind the point, not `}`, at byte 8");
}

#[test]
fn text_is_utf_8_and_whole_characters() {
    let check = |json: &[u8]| {
        for member in ["a", "x", "stranger"] {
            let payload = [format!("{{\"{member}\": ").as_bytes(), json, b"}"].concat();
            refused(&subject(), payload, Class::InvalidUtf8, member);
        }
    };
    check(b"\"\xff\"");
    check(b"\"plain plain plain plain plain plain \xc3\x28\"");
    check(b"\"\xc3\"");
    check(b"\"\\n\xe2\x82\"");
    // A surrogate as three bytes, and a character in more bytes than it takes.
    check(b"\"\xed\xa0\x80\"");
    check(b"\"\xc0\x80\"");
    for lone in ["\\ud800", "\\udc00", "\\ud800\\ud800", "\\ud83d\\u0041", "\\ud83dx", "\\udc00\\ud800"] {
        check(format!("\"{lone}\"").as_bytes());
    }
    refused(&subject(), b"{\"\xff\": 1}", Class::InvalidUtf8, "");
    let is = |json: &str, expected: &str| {
        super::check(&subject(), &format!("{{\"a\":{json}}}"), &format!("a={expected:?} n=NULL x=NULL"))
    };
    is("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\u{8}\u{c}\n\r\t");
    is("\"\\u00e9\\u20AC\\ud83d\\ude00\\u0000\"", "é€😀\0");
    is(
        "\"é€😀 and \\\\ a tail that is longer than a block of bytes\"",
        "é€😀 and \\ a tail that is longer than a block of bytes",
    );
    is("\"\\u007f\u{7f}\"", "\u{7f}\u{7f}");
}

/// Every beginning of a payload is refused, also where the bytes of the one before lie behind it.
#[test]
fn a_beginning_is_not_the_whole() {
    let mut decoder = decoder(&subject(), &iceberg());
    for padding in [0, 5000] {
        let a = "long enough to be read in words ".repeat(2) + &"x".repeat(padding);
        let whole = format!(
            "{{\"a\": \"{a}\\n\", \"n\": 12345678.5e10, \"x\": [true, {{\"y\": null}}], \"stranger\": 123456}}"
        );
        decoder.decode(whole.as_bytes()).unwrap();
        for end in (1..whole.len()).filter(|end| padding == 0 || end % 97 == 0 || *end > 5000) {
            decoder.decode(whole.as_bytes()).unwrap();
            let rejected = decoder.decode(&whole.as_bytes()[..end]).unwrap_err();
            assert_eq!(rejected.class, Class::Truncated, "{end}: {rejected}");
        }
    }
    let rows = print(&decoder.finish().unwrap());
    assert!(rows.len() > 300 && rows.iter().all(|row| row.ends_with("x=\"[true, {\\\"y\\\": null}]\"")));
}

/// Strings and numbers of every length, at the end of a payload and far from it.
#[test]
fn lengths_do_not_matter() {
    let subject = subject();
    for length in (0..70).chain([4000, 4090, 4096, 5000]) {
        for text in ["x".repeat(length), "é".repeat(length), format!("{}é", "x".repeat(length))] {
            super::check(&subject, &format!("{{\"a\":\"{text}\"}}"), &format!("a={text:?} n=NULL x=NULL"));
            super::check(&subject, &format!("{{\"n\":1,\"a\":\"{text}\"    }}"), &format!("a={text:?} n=1.0 x=NULL"));
        }
        let digits = format!("1{}", "0".repeat(length.min(200)));
        super::check(&subject, &format!("{{\"x\":{digits}}}"), &format!("a=NULL n=NULL x=\"{digits}\""));
    }
}

#[test]
fn blanks_stand_anywhere_between() {
    super::check(&subject(), " \t\r\n{ \"n\" \n:\t1.5 ,\r\"a\" : \"b\"\n,\"x\"\n:[ ]  }\n ", "a=\"b\" n=1.5 x=\"[ ]\"");
    refused(&subject(), "\u{a0}{}", Class::WrongType, "");
    refused(&subject(), "{\u{b}}", Class::WrongType, "");
}

#[test]
fn depth_ends() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for member in ["x", "stranger"] {
        // The payload itself is one.
        assert!(rows(&subject(), &iceberg(), &[format!("{{\"{member}\":{}}}", nested(99)).as_bytes()]).is_ok());
        for depth in [100, 100_000] {
            let payload = format!("{{\"{member}\":{}}}", nested(depth));
            assert_eq!(rows(&subject(), &iceberg(), &[payload.as_bytes()]).unwrap_err().class, Class::TooDeep);
        }
        let payload = format!("{{\"{member}\":{}", "{\"a\":".repeat(100_000));
        assert_eq!(rows(&subject(), &iceberg(), &[payload.as_bytes()]).unwrap_err().class, Class::TooDeep);
    }
    assert_eq!(rows(&subject(), &iceberg(), &["[".repeat(100_000).as_bytes()]).unwrap_err().class, Class::TooDeep);
}

/// An element of two bytes opens every column of its object.
#[test]
fn what_was_never_sent_takes_no_more_memory_than_there_is() {
    let members: Vec<String> = (0..1000).map(|n| format!("\"m{n}\": {{\"type\": \"number\"}}")).collect();
    let items = format!("{{\"type\": \"array\", \"items\": {{\"properties\": {{{}}}}}}}", members.join(","));
    let subject = schema(&format!("{{\"properties\": {{\"xs\": {items}}}}}"));
    let payload = format!("{{\"xs\":[{}{{}}]}}", "{},".repeat(100_000));
    let rejected = rows(&subject, &iceberg(), &[payload.as_bytes()]).unwrap_err();
    assert_eq!(rejected.class, Class::TooLarge, "{rejected}");
}

/// The good around a bad record are rows, in their order.
#[test]
fn a_bad_record_is_nothing_to_its_neighbours() {
    let subject = object("name: {\"type\": \"string\"}; xs: {\"type\": \"array\", \"items\": {\"type\": \"integer\"}}");
    let mut decoder = decoder(&subject, &iceberg());
    let payloads: [(&str, Option<Class>); 7] = [
        ("{\"name\": \"a1\", \"xs\": [1]}", None),
        ("{\"name\": \"a2\", \"xs\": [1, 2", Some(Class::Truncated)),
        ("{\"xs\": [2, 3], \"name\": \"a3\"}", None),
        ("{\"name\": \"a4\", \"xs\": [1, 2, 1.5]}", Some(Class::WrongType)),
        ("", Some(Class::EmptyValue)),
        ("{\"name\": \"a5\", \"xs\": []}]", Some(Class::TrailingBytes)),
        ("{\"name\": \"a6\"}", None),
    ];
    for (payload, class) in payloads {
        let taken = decoder.decode(payload.as_bytes()).map_err(|rejected| rejected.class).err();
        assert_eq!(taken, class, "{payload}");
    }
    let rows = print(&decoder.finish().unwrap());
    assert_eq!(rows, ["name=\"a1\" xs=[1]", "name=\"a3\" xs=[2,3]", "name=\"a6\" xs=NULL"]);
    refused(&subject, "{\"xs\": [1, 2, 1.5]}", Class::WrongType, "xs[2]");
}

//! Payloads as people paste them.

use serde_json::Value;

use crate::manners::failure::Failure;

/// How plain lines of stdin spell a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Hex,
    Base64,
}

/// What a decoder needs of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// The key, where there is one.
    pub(crate) key: Option<Vec<u8>>,
    /// The value; null is a tombstone.
    pub(crate) value: Option<Vec<u8>>,
    /// Name and value of each header, in order.
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    /// The data format and the schema's id, where a mapping has taken the framing off.
    pub(crate) unwrapped: Option<(String, String)>,
    /// The same of the key.
    pub(crate) unwrapped_key: Option<(String, String)>,
}

impl Record {
    pub(super) fn value(bytes: Vec<u8>) -> Self {
        Self { value: Some(bytes), ..Self::default() }
    }
}

/// What to do with a value that is not spelled as was said.
const OTHERWISE: &str = "give it with --hex, --base64 or --file, whichever it is";
/// What lines there are.
const LINES: &str =
    "give a value a line in hexadecimal (or base64 with --base64 -), or an object with a base64 `value`";

/// What may stand in an object.
const RECORD: &str = "name it as events and dead letters do: value, key, headers, topic, partition, offset, timestamp, \
                      valueSchemaMetadata, keySchemaMetadata";

/// What records of events have, and dead letters. Another member is a mistake: the value that a misspelled one was to be would be null,
/// and the record a tombstone.
const MEMBERS: [&str; 25] = [
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "key",
    "value",
    "headers",
    "keySchemaMetadata",
    "valueSchemaMetadata",
    "schema",
    "pipeline_id",
    "minute",
    "source",
    "timestamp_ms",
    "timestamp_type",
    "schema_id",
    "class",
    "part",
    "path",
    "message",
    "ordinal",
    "table",
    "staged",
    "row",
];

/// How the lines of dead-letter objects name their schema.
const LETTER: &str = "frazil.stored.dead_letter/";

type Is = fn(&Value) -> bool;

/// What says where and when a record was, and what that is.
const PLACES: [(&str, Is, &str); 6] = [
    ("topic", Value::is_string, "text"),
    ("partition", Value::is_i64, "whole number"),
    ("offset", Value::is_i64, "whole number"),
    ("timestamp", Value::is_i64, "whole number"),
    ("timestamp_ms", Value::is_i64, "whole number"),
    ("timestampType", Value::is_string, "text"),
];

/// Hexadecimal digits; white space between them is as good as none.
pub(super) fn hex(text: &str) -> Result<Vec<u8>, Failure> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let bytes: Option<Vec<u8>> = digits
        .chunks(2)
        .map(|pair| match *pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        })
        .collect();
    bytes.ok_or_else(|| Failure::usage("decode.hex", "not hexadecimal: pairs of 0-9, a-f").remedy(OTHERWISE))
}

/// Standard base64, with or without its padding.
pub(super) fn base64(text: &str) -> Result<Vec<u8>, Failure> {
    let bare = text.trim().trim_end_matches('=');
    base64_simd::STANDARD_NO_PAD.decode_to_vec(bare).map_err(|_| {
        Failure::usage("decode.base64", "not base64 (the standard alphabet, with + and /)").remedy(OTHERWISE)
    })
}

/// `NAME=HEX`
pub(super) fn header(text: &str) -> Result<(&str, Vec<u8>), Failure> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        let failure = Failure::usage("decode.header", "a header is NAME=HEX").at(format!("--header {text}"));
        failure.remedy("write its name, `=`, and its value in hexadecimal")
    })?;
    Ok((name, hex(value).map_err(|e| e.at(format!("--header {name}")))?))
}

/// One line of stdin: a value as text, or an object with a base64 `value`, as the records of a Lambda event and the
/// lines of a dead-letter object are.
pub(crate) fn line(line: &[u8], encoding: Encoding) -> Result<Record, Failure> {
    let text = str::from_utf8(line).map_err(|_| Failure::usage("decode.line", "not UTF-8").remedy(LINES))?;
    if !text.starts_with('{') {
        let bytes = match encoding {
            Encoding::Hex => hex(text),
            Encoding::Base64 => base64(text),
        };
        return bytes.map(Record::value);
    }
    let fault = |what: &str| Failure::usage("decode.line", what).remedy(LINES);
    let record: Value = serde_json::from_str(text).map_err(|_| fault("neither a value nor a JSON object"))?;
    // A dead letter that a later frazil wrote may say more.
    let is_letter = record.get("schema").and_then(Value::as_str).is_some_and(|of| of.starts_with(LETTER));
    let mut names = record.as_object().into_iter().flat_map(|members| members.keys());
    if let Some(name) = names.find(|name| !is_letter && !MEMBERS.contains(&name.as_str())) {
        return Err(Failure::usage("decode.line", format!("a record has no member `{name}`")).remedy(RECORD));
    }
    // Its record's value is null there, and says nothing.
    if record.get("row").is_some_and(|row| !row.is_null()) {
        return Err(fault("it is a row that a table did not take, and no record"));
    }
    for (name, is, what) in PLACES {
        if record.get(name).is_some_and(|value| !value.is_null() && !is(value)) {
            return Err(fault(&format!("`{name}` is no {what}")));
        }
    }
    let bytes = |name: &str| match record.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(value)) => base64(value).map(Some),
        Some(_) => Err(fault(&format!("`{name}` is neither base64 nor null"))),
    };
    let (key, value) = (bytes("key")?, bytes("value")?);
    let headers = match record.get("headers") {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(headers) => self::headers(headers),
    };
    let headers = headers.ok_or_else(|| fault("`headers` are neither an event's nor a dead letter's"))?;
    let said = |of: &str| {
        let Some(metadata) = record.get(of).filter(|metadata| !metadata.is_null()) else { return Ok(None) };
        let said = |name: &str| metadata.get(name)?.as_str().map(str::to_owned);
        let both = said("dataFormat").zip(said("schemaId"));
        both.map(Some).ok_or_else(|| fault(&format!("`{of}` has no `dataFormat` and `schemaId`")))
    };
    let (unwrapped, unwrapped_key) = (said("valueSchemaMetadata")?, said("keySchemaMetadata")?);
    Ok(Record { key, value, headers, unwrapped, unwrapped_key })
}

/// Headers as an event has them, objects of a name and its bytes as signed or unsigned numbers, or as a dead letter has
/// them, pairs of a name and base64.
fn headers(value: &Value) -> Option<Vec<(String, Option<Vec<u8>>)>> {
    let mut headers = Vec::new();
    for header in value.as_array()? {
        match header {
            Value::Object(members) => {
                for (name, value) in members {
                    let byte = |n: &Value| n.as_i64().filter(|n| (-128..256).contains(n)).map(|n| n as u8);
                    let value = match value {
                        Value::Null => None,
                        value => Some(value.as_array()?.iter().map(byte).collect::<Option<_>>()?),
                    };
                    headers.push((name.clone(), value));
                }
            }
            Value::Array(pair) => {
                let [Value::String(name), value] = pair.as_slice() else { return None };
                let value = match value {
                    Value::Null => None,
                    value => Some(base64(value.as_str()?).ok()?),
                };
                headers.push((name.clone(), value));
            }
            _ => return None,
        }
    }
    Some(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_people_paste_them() {
        let check = |text: &str, encoding, expected: Option<&[u8]>| {
            let found = line(text.as_bytes(), encoding).unwrap_or_else(|e| panic!("{text}: {}", e.message));
            assert_eq!(found.value.as_deref(), expected, "{text}");
        };
        check("08fF 01\t02", Encoding::Hex, Some(&[8, 255, 1, 2]));
        check("", Encoding::Hex, Some(&[]));
        check("CP8B", Encoding::Base64, Some(&[8, 255, 1]));
        check("CP8=", Encoding::Base64, Some(&[8, 255]));
        check("CP8", Encoding::Base64, Some(&[8, 255]));
        check(r#"{"topic":"t","value":"CA=="}"#, Encoding::Hex, Some(&[8]));
        check(r#"{"value":""}"#, Encoding::Hex, Some(&[]));
        check(r#"{"value":null}"#, Encoding::Hex, None);
        check(r#"{"offset":1}"#, Encoding::Hex, None);
    }

    #[test]
    fn keys_and_headers_come_with_records() {
        let check = |text: &str| {
            let found = line(text.as_bytes(), Encoding::Hex).unwrap_or_else(|e| panic!("{text}: {}", e.message));
            assert_eq!((found.key.as_deref(), found.value.as_deref()), (Some(&b"k"[..]), Some(&[8][..])), "{text}");
            let headers = [("a".to_owned(), Some(vec![255, 0])), ("a".to_owned(), None)];
            assert_eq!(found.headers, headers, "{text}");
        };
        check(r#"{"key":"aw==","value":"CA==","headers":[{"a":[-1,0]},{"a":null}]}"#);
        check(r#"{"key":"aw==","value":"CA==","headers":[["a","/wA="],["a",null]]}"#);
        // A dead letter may have members of a later version.
        let letter = r#"{"schema":"frazil.stored.dead_letter/1","value":"CA==","later":[1]}"#;
        assert_eq!(line(letter.as_bytes(), Encoding::Hex).unwrap().value.as_deref(), Some(&[8][..]));
        for headers in [r#"{"a":[1]}"#, "[1]", r#"[{"a":[256]}]"#, r#"[["a"]]"#, r#"[["a","*"]]"#] {
            assert!(line(format!("{{\"headers\":{headers}}}").as_bytes(), Encoding::Hex).is_err(), "{headers}");
        }
    }

    #[test]
    fn what_a_mapping_says_of_a_value_comes_with_it() {
        let unwrapped = |text: &str| line(text.as_bytes(), Encoding::Hex).map(|record| record.unwrapped).unwrap();
        let said = Some(("AVRO".to_owned(), "7".to_owned()));
        assert_eq!(unwrapped(r#"{"value":"","valueSchemaMetadata":{"dataFormat":"AVRO","schemaId":"7"}}"#), said);
        assert_eq!(unwrapped(r#"{"value":"","valueSchemaMetadata":null}"#), None);
        assert_eq!(unwrapped(r#"{"value":""}"#), None);
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for (text, encoding) in [
            ("8", Encoding::Hex),
            ("0g", Encoding::Hex),
            ("0x08", Encoding::Hex),
            ("CP8*", Encoding::Base64),
            ("{\"value\":1}", Encoding::Hex),
            ("{\"value\":\"*\"}", Encoding::Hex),
            ("{", Encoding::Hex),
            ("{\"valeu\":\"CA==\"}", Encoding::Hex),
            ("{\"value\":\"CA==\",\"Key\":\"aw==\"}", Encoding::Hex),
            ("{\"value\":\"CA==\",\"offset\":\"1\"}", Encoding::Hex),
            ("{\"value\":\"CA==\",\"topic\":1}", Encoding::Hex),
            ("{\"value\":null,\"row\":{\"id\":1}}", Encoding::Hex),
            ("{\"value\":\"CA==\",\"valueSchemaMetadata\":{\"dataFormat\":\"AVRO\"}}", Encoding::Hex),
        ] {
            assert!(line(text.as_bytes(), encoding).is_err(), "{text}");
        }
        assert!(line(&[0xff], Encoding::Hex).is_err());
        assert!(header("name").is_err());
        assert_eq!(header("n=00").unwrap(), ("n", vec![0]));
    }
}

//! Payloads as people paste them.

use serde_json::Value;

use crate::manners::failure::Failure;

/// How plain lines of stdin spell a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Hex,
    Base64,
}

/// What a decoder needs of a record. Without a `[key]` block a key is never read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The value; null is a tombstone.
    pub(super) value: Option<Vec<u8>>,
}

impl Record {
    pub(super) const fn value(bytes: Vec<u8>) -> Self {
        Self { value: Some(bytes) }
    }
}

/// What to do with a value that is not spelled as was said.
const OTHERWISE: &str = "give it with --hex, --base64 or --file, whichever it is";
/// What lines there are.
const LINES: &str =
    "give a value a line in hexadecimal (or base64 with --base64 -), or an object with a base64 `value`";

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
pub(super) fn line(line: &[u8], encoding: Encoding) -> Result<Record, Failure> {
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
    match record.get("value") {
        None | Some(Value::Null) => Ok(Record { value: None }),
        Some(Value::String(value)) => base64(value).map(Record::value),
        Some(_) => Err(fault("`value` is neither base64 nor null")),
    }
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
    fn what_is_no_value_is_refused() {
        for (text, encoding) in [
            ("8", Encoding::Hex),
            ("0g", Encoding::Hex),
            ("0x08", Encoding::Hex),
            ("CP8*", Encoding::Base64),
            ("{\"value\":1}", Encoding::Hex),
            ("{\"value\":\"*\"}", Encoding::Hex),
            ("{", Encoding::Hex),
        ] {
            assert!(line(text.as_bytes(), encoding).is_err(), "{text}");
        }
        assert!(line(&[0xff], Encoding::Hex).is_err());
        assert!(header("name").is_err());
        assert_eq!(header("n=00").unwrap(), ("n", vec![0]));
    }
}

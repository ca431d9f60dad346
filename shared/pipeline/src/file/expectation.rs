//! `min`, `max`, `pattern` and `in` of one column.

use toml::Spanned;
use toml::de::DeValue;

use crate::document::Section;
use crate::expectation::{Expectations, Literal, literal_of};
use crate::fault::code;
use crate::reader::Reader;
use crate::resolved::From;
use crate::types::Type;

/// More allowed values are a table to join with, not an expectation.
const VALUES_MAX: usize = 1_000;

/// Bytes that a compiled pattern may take.
pub(super) const PATTERN_BYTES_MAX: usize = 1 << 20;

pub(super) fn read<'t>(
    reader: &mut Reader<'t>,
    column: Section<'t>,
    from: &From,
    data_type: Option<&Type>,
) -> Expectations {
    let bound = |reader: &mut Reader<'t>, name| literal(reader, name, column.get(name)?.value);
    let min = bound(reader, "min");
    let max = bound(reader, "max");
    let pattern = pattern(reader, column);
    let one_of = one_of(reader, column, "in");
    let expected = Expectations { min, max, pattern, one_of };
    let at = |name| column.get(name).map_or(column.at, |entry| entry.value_at());
    if let From::Record(_) = from {
        for name in expected.settings() {
            let message =
                format!("`{name}` is for values of payloads, keys and headers, not for a record's own fields");
            reader.fault(at(name), code::INVALID, message);
        }
    } else if let Some(data_type) = data_type {
        for (name, message) in expected.misfits(data_type) {
            reader.fault(at(name), code::INVALID, message);
        }
    }
    if expected.is_contradiction() {
        reader.fault(at("max"), code::INVALID, "`max` is below `min`: no value would be left");
    }
    expected
}

/// One value, where it is of a kind that a column can be compared with.
fn literal<'t>(reader: &mut Reader<'t>, name: &str, value: &Spanned<DeValue<'t>>) -> Option<Literal> {
    const EXPECTED: &str = "a number, a string, true or false, or a date with a time";
    let at = value.span().start;
    match value.get_ref() {
        DeValue::String(_) => reader.string(name, value, EXPECTED).map(|text| Literal::Text(text.value)),
        DeValue::Boolean(flag) => Some(Literal::Boolean(*flag)),
        DeValue::Integer(integer) => match i128::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => Some(Literal::Integer(number)),
            Err(_) => {
                reader.fault(at, code::INVALID, format!("`{name}` has more digits than any column holds"));
                None
            }
        },
        DeValue::Float(float) => match float.as_str().parse::<f64>() {
            Ok(number) if number.is_finite() => Some(Literal::Float(number)),
            _ => {
                reader.fault(at, code::INVALID, format!("`{name}` takes a finite number"));
                None
            }
        },
        DeValue::Datetime(written) => {
            let literal = literal_of(written);
            if literal.is_none() {
                let message = format!("`{name}` takes a date with a time, such as 2026-01-31T00:00:00Z");
                reader.fault(at, code::INVALID, message);
            }
            literal
        }
        other => {
            reader.expected(name, other, at, EXPECTED);
            None
        }
    }
}

/// The values of an array under a key, each once.
pub(super) fn one_of<'t>(reader: &mut Reader<'t>, section: Section<'t>, name: &str) -> Vec<Literal> {
    let Some(entry) = section.get(name) else { return Vec::new() };
    let DeValue::Array(array) = entry.value.get_ref() else {
        reader.expected(name, entry.value.get_ref(), entry.value_at(), "an array of values");
        return Vec::new();
    };
    if array.is_empty() {
        reader.fault(entry.value_at(), code::INVALID, format!("`{name}` holds at least one value"));
    }
    if array.len() > VALUES_MAX {
        reader.fault(entry.value_at(), code::INVALID, format!("`{name}` holds at most {VALUES_MAX} values"));
        return Vec::new();
    }
    let mut values: Vec<Literal> = Vec::new();
    for value in array.iter() {
        let Some(literal) = literal(reader, name, value) else { continue };
        if values.contains(&literal) {
            reader.fault(value.span().start, code::DUPLICATE, format!("a value of `{name}` is there twice"));
        } else {
            values.push(literal);
        }
    }
    values
}

fn pattern<'t>(reader: &mut Reader<'t>, section: Section<'t>) -> Option<String> {
    let text = reader.text(section, "pattern")?;
    match regex::bytes::RegexBuilder::new(&text.value).size_limit(PATTERN_BYTES_MAX).build() {
        Ok(_) => Some(text.value),
        Err(e) => {
            // Several lines, of which the last says what is wrong.
            let message = e.to_string();
            let message = message.lines().last().unwrap_or_default().trim_start_matches("error: ");
            reader.fault(text.at, code::INVALID, format!("`pattern` is no regular expression: {message}"));
            None
        }
    }
}

//! From values as JSON: columns are guessed, and every guess is said.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::Value;

use super::inference::{Column, Shape};
use super::trial::Trial;
use super::{Draft, connect, quoted};
use crate::Session;
use crate::manners::failure::Failure;

/// Values that are looked at; more tell no more.
const VALUES_MAX: usize = 10_000;
/// The longest line.
const LINE_BYTES_MAX: u64 = 100 * 1024 * 1024;

pub(super) fn draft(
    path: &Path,
    name: &str,
    framing: Option<String>,
    session: &mut Session<'_>,
) -> Result<Draft, Failure> {
    let place = path.display().to_string();
    let values = match path == Path::new("-") {
        true => values(&mut *session.stdin, "stdin")?,
        false => {
            let file = std::fs::File::open(session.folder.join(path));
            values(BufReader::new(file.map_err(|e| Failure::io("init.samples", place.clone(), &e))?), &place)?
        }
    };
    of(&values, name, framing.unwrap_or_else(|| "bare".to_owned())).map_err(|failure| failure.at(place))
}

/// The draft of a topic of such values.
pub(super) fn of(values: &[Value], name: &str, framing: String) -> Result<Draft, Failure> {
    if values.is_empty() {
        return Err(Failure::usage("init.samples", "there are no values").remedy("give values as JSON, one a line"));
    }
    if let Some(envelope) = values.iter().find_map(connect::Envelope::of) {
        return connect::draft(&envelope?, values, name, framing);
    }
    let mut shape = Shape::Nothing;
    for value in values {
        if !value.is_object() {
            return Err(Failure::usage("init.samples", "a value is no JSON object")
                .remedy("give values of a topic of objects, one a line"));
        }
        shape = shape.with(value);
    }
    let Shape::Object(members) = &shape else {
        return Err(Failure::usage("init.samples", "no value has a member").remedy("give values that have some"));
    };
    let mut draft = Draft { format: "json", framing, ..Draft::default() };
    draft.columns.push(format!("# Guessed from {} value{}.", values.len(), if values.len() == 1 { "" } else { "s" }));
    let mut taken = Vec::new();
    for (member, found) in members {
        let name = column_name(member);
        let guess = match found.column(member, values.len()) {
            _ if taken.contains(&name) => {
                draft.columns.push(format!("# {} would be another column `{name}`.", quoted(member)));
                draft.guesses.push(format!("{member}: left out, for another member is the column `{name}`"));
                continue;
            }
            Column::Of { data_type, guess } => {
                let from = match name == *member {
                    true => String::new(),
                    false => format!("from = {}, ", quoted(&pipeline::path::text(&[member]))),
                };
                let data_type = data_type.to_string();
                let line = format!("{} = {{ {from}type = {} }}", key(&name), quoted(&data_type));
                if let Some(why) = (Trial { member, data_type: &data_type }).refused(&line) {
                    draft
                        .columns
                        .push(format!("# {} is left out: its column would be a fault of this file.", quoted(member)));
                    draft.guesses.push(format!("{}: left out: {why}", quoted(member)));
                    continue;
                }
                draft.columns.push(line);
                guess
            }
            Column::LeftOut { why } => {
                draft.columns.push(format!("# {} is left out: {why}.", quoted(member)));
                Some(format!("left out: {why}"))
            }
        };
        if let Some(guess) = guess {
            draft.guesses.push(format!("{member}: {guess}"));
        }
        taken.push(name);
    }
    if taken.is_empty() || draft.columns.iter().all(|line| line.starts_with('#')) {
        return Err(Failure::usage("init.samples", "nothing of these values can be a column")
            .remedy("give values that say more"));
    }
    Ok(draft)
}

/// A column's name: small letters, and `_` for what engines want in quotes.
pub(super) fn column_name(member: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || c == '_' { c } else { '_' };
    member.chars().flat_map(char::to_lowercase).map(plain).collect()
}

/// A key of TOML.
pub(super) fn key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if is_bare { name.to_owned() } else { quoted(name) }
}

fn values(mut from: impl BufRead, place: &str) -> Result<Vec<Value>, Failure> {
    let mut values = Vec::new();
    for number in 1_u64.. {
        let mut line = Vec::new();
        let mut bounded = std::io::Read::take(&mut from, LINE_BYTES_MAX);
        let taken = bounded.read_until(b'\n', &mut line).map_err(|e| Failure::io("init.samples", place, &e))?;
        if taken == 0 || values.len() == VALUES_MAX {
            break;
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        values.push(serde_json::from_slice(line).map_err(|error| {
            Failure::usage("init.samples", format!("line {number} is no JSON (column {})", error.column()))
                .remedy("give values as JSON, one a line; a schema's file is given by itself, without --samples")
        })?);
    }
    Ok(values)
}

//! Which of a pipeline's tables a record goes to: a table's name with `{topic}`, `{field:path}` or `{header:name}` in it.
//!
//! A value becomes a part of a name by one rule: ASCII letters in lower case, digits and `_` as they are, `-` and `.` as
//! `_`. Any other character makes the record unroutable; so does a value that is missing or empty. Values that differ only
//! in what the rule changes share a table, as Glue and Athena would have it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::glob;
use crate::name;
use crate::nearest::nearest;
use crate::path::{self, Wrong};
use crate::resolved::TableName;

/// How each record's table is named. At least one part is no text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// What a table's namespace is made of, in order.
    pub namespace: Vec<Part>,
    /// What its own name is made of, in order.
    pub name: Vec<Part>,
}

/// One part of a table's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The same in every name.
    Text(String),
    /// The record's topic.
    Topic,
    /// The value of a field, by the path of source field names that leads to it.
    Field(Vec<String>),
    /// Of the record's headers of this name the last.
    Header(String),
}

/// What may stand in braces, those of later versions last.
const PLACEHOLDERS: [&str; 5] = ["topic", "field", "header", "schema", "table"];
const LATER: [&str; 2] = ["schema", "table"];

/// Why a text is no route.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Not of this version: the placeholder with its braces, and its place.
    Later(String, usize),
    /// Something else.
    Wrong(Wrong),
}

impl Route {
    /// Whether a table may be one of its tables.
    #[must_use]
    pub fn takes(&self, table: &TableName) -> bool {
        may_be(&self.namespace, &table.namespace) && self.takes_name(&table.name)
    }

    /// Whether one of its tables may have this name, in whatever namespace.
    pub(crate) fn takes_name(&self, name: &str) -> bool {
        may_be(&self.name, name)
    }

    /// What tables' names are made of.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.namespace.iter().chain(&self.name)
    }

    /// Whether a field of the value has a say in the name.
    #[must_use]
    pub fn takes_fields(&self) -> bool {
        self.parts().any(|part| matches!(part, Part::Field(_)))
    }

    /// The table of all records of a topic, where their topic alone names it and can.
    #[must_use]
    pub fn of_topic(&self, topic: &str) -> Option<TableName> {
        let half = |parts: &[Part]| {
            let mut name = String::new();
            for part in parts {
                match part {
                    Part::Text(text) => name.push_str(text),
                    Part::Topic => name.push_str(&spelled(topic)?),
                    Part::Field(_) | Part::Header(_) => return None,
                }
            }
            name::table_part(&name).is_ok().then_some(name)
        };
        Some(TableName { namespace: half(&self.namespace)?, name: half(&self.name)? })
    }

    /// Whether the names that a topic, or a pattern of topics, begins may begin so.
    pub(crate) fn may_begin(&self, topic: &str) -> bool {
        let begins = [&self.namespace, &self.name].iter().any(|parts| parts.first() == Some(&Part::Topic));
        let first = topic.bytes().next();
        !begins || first.is_none_or(|b| matches!(b, b'*' | b'?') || b.is_ascii_alphanumeric())
    }

    /// The name as the pipeline file has it, with its braces. It stands where a table's name would: no table has braces in
    /// its name.
    #[must_use]
    pub fn written(&self) -> TableName {
        let written = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Topic => "{topic}".to_owned(),
            Part::Field(path) => format!("{{field:{}}}", path::text(path)),
            Part::Header(name) => format!("{{header:{name}}}"),
        };
        let half = |parts: &[Part]| parts.iter().map(written).collect();
        TableName { namespace: half(&self.namespace), name: half(&self.name) }
    }
}

/// Whether something can be a table's name, or a namespace's.
///
/// # Errors
/// Why not.
pub fn check_name(part: &str) -> Result<(), String> {
    name::table_part(part)
}

/// Whether parts may come to a name: one that is no text is any text of at least one character.
fn may_be(parts: &[Part], name: &str) -> bool {
    let pattern = parts.iter().map(|part| match part {
        Part::Text(text) => text.as_str(),
        _ => "?*",
    });
    name::table_part(name).is_ok() && glob::fits(&pattern.collect::<String>(), name)
}

/// A value as a part of a table's name; nothing where it can be none.
#[must_use]
pub fn spelled(value: &str) -> Option<Cow<'_, str>> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if value.is_empty() {
        return None;
    }
    if value.bytes().all(fits) {
        return Some(Cow::Borrowed(value));
    }
    let part = |b: u8| match b.to_ascii_lowercase() {
        b'-' | b'.' => Some('_'),
        b if fits(b) => Some(char::from(b)),
        _ => None,
    };
    value.bytes().map(part).collect::<Option<String>>().map(Cow::Owned)
}

/// Whether a name has a placeholder.
pub(crate) fn is_route(name: &str) -> bool {
    name.contains(['{', '}'])
}

/// Reads `namespace.name` with placeholders in it.
pub(crate) fn parse(text: &str) -> Result<Route, Refused> {
    let whole =
        |at| Refused::Wrong(Wrong::new(format!("`{text}` is not a table's name: exactly `namespace.table`"), at));
    // The parts before the dot, once it was met.
    let mut namespace = None;
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let at = text.len() - rest.len();
        if let Some(after) = rest.strip_prefix('.') {
            if parts.is_empty() || namespace.is_some() {
                return Err(whole(0));
            }
            namespace = Some(std::mem::take(&mut parts));
            rest = after;
        } else if let Some(inner) = rest.strip_prefix('{') {
            let Some((word, after)) = inner.split_once('}') else { return Err(unknown(rest, at)) };
            parts.push(placeholder(word, at)?);
            rest = after;
        } else {
            let (text, after) = rest.split_at(rest.find(['{', '.']).unwrap_or(rest.len()));
            fits(text, parts.is_empty()).map_err(|message| Refused::Wrong(Wrong::new(message, at)))?;
            parts.push(Part::Text(text.to_owned()));
            rest = after;
        }
    }
    let namespace = namespace.filter(|_| !parts.is_empty()).ok_or_else(|| whole(0))?;
    Ok(Route { namespace, name: parts })
}

/// Whether a text can be part of a table's name.
fn fits(text: &str, is_first: bool) -> Result<(), String> {
    // What stands before it may begin the name in its place.
    let whole = if is_first { text.to_owned() } else { format!("a{text}") };
    name::table_part(&whole).map_err(|_| {
        format!("`{text}` can't be part of a table's name: lower-case letters, digits and `_`, a letter or digit first")
    })
}

fn placeholder(word: &str, at: usize) -> Result<Part, Refused> {
    let written = format!("{{{word}}}");
    match word.split_once(':') {
        None if word == "topic" => Ok(Part::Topic),
        None if LATER.contains(&word) => Err(Refused::Later(written, at)),
        Some(("field", field)) => path::parse(field)
            .map(Part::Field)
            .map_err(|w| Refused::Wrong(Wrong { at: at + "{field:".len() + w.at, ..w })),
        Some(("header", name)) if !name.is_empty() => Ok(Part::Header(name.to_owned())),
        _ => Err(unknown(&written, at)),
    }
}

fn unknown(written: &str, at: usize) -> Refused {
    let word = written.trim_matches(['{', '}']);
    let head = word.split(':').next().unwrap_or(word);
    let known = PLACEHOLDERS.into_iter().find(|known| *known == head);
    let nearest = known.or_else(|| nearest(head, PLACEHOLDERS)).map(|found| match found {
        "field" | "header" => format!("{{{found}:…}}"),
        other => format!("{{{other}}}"),
    });
    let meant = nearest.as_ref().map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
    let message =
        format!("`{written}` is nothing that a table's name can hold; variables are written `${{name}}`{meant}");
    Refused::Wrong(Wrong { message, at, nearest })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(text: &str) -> Route {
        parse(text).unwrap()
    }

    #[test]
    fn names_are_read_in_parts_or_refused_at_their_place() {
        let text = |text: &str| Part::Text(text.to_owned());
        let field = |path: &[&str]| Part::Field(path.iter().map(|s| (*s).to_owned()).collect());
        let check = |written: &str, namespace: &[Part], name: &[Part]| {
            let route = route(written);
            assert_eq!((&route.namespace[..], &route.name[..]), (namespace, name), "{written}");
            assert_eq!(route.written().to_string(), written);
        };
        check("db.{topic}", &[text("db")], &[Part::Topic]);
        check("db.x_{topic}_v1", &[text("db")], &[text("x_"), Part::Topic, text("_v1")]);
        check("{field:tenant}.t", &[field(&["tenant"])], &[text("t")]);
        check(
            "db.{field:team.name}{header:a.b c}",
            &[text("db")],
            &[field(&["team", "name"]), Part::Header("a.b c".into())],
        );
        check("db.{field:\"a.b\"}", &[text("db")], &[field(&["a.b"])]);

        let wrong = |text: &str, at: usize, says: &str| match parse(text) {
            Err(Refused::Wrong(wrong)) => {
                assert_eq!(wrong.at, at, "{text}: {wrong}");
                assert!(wrong.message.contains(says), "{text}: {wrong}");
            }
            other => panic!("{text}: {other:?}"),
        };
        for text in ["{topic}", "{topic}.", ".{topic}", "a.{topic}.b"] {
            wrong(text, 0, "exactly `namespace.table`");
        }
        wrong("Db.{topic}", 0, "can't be part");
        wrong("db.{topc}", 3, "did you mean `{topic}`?");
        wrong("db.{field}", 3, "did you mean `{field:…}`?");
        wrong("db.{topic:x}", 3, "nothing that a table's name can hold");
        wrong("db.{header:}", 3, "nothing that a table's name can hold");
        wrong("db.{field:a b}", 12, "unexpected text");
        wrong("db.{topic", 3, "nothing that a table's name can hold");
        wrong("db.X{topic}", 3, "can't be part");
        wrong("db._{topic}", 3, "can't be part");
        assert_eq!(parse("db.a{table}"), Err(Refused::Later("{table}".into(), 4)));
    }

    #[test]
    fn values_are_spelled_as_tables_are_or_not_at_all() {
        for (value, want) in [
            ("orders", Some("orders")),
            ("CDC.public-Orders", Some("cdc_public_orders")),
            ("_x1", Some("_x1")),
            ("", None),
            ("a b", None),
            ("a/b", None),
            ("ü", None),
        ] {
            assert_eq!(spelled(value).as_deref(), want, "{value}");
        }
    }

    #[test]
    fn a_route_knows_its_tables() {
        let check = |written: &str, table: &str, want: bool| {
            let (namespace, name) = table.split_once('.').unwrap();
            let name = TableName { namespace: namespace.to_owned(), name: name.to_owned() };
            assert_eq!(route(written).takes(&name), want, "{written} {table}");
        };
        check("db.{topic}", "db.orders", true);
        check("db.{topic}", "other.orders", false);
        check("{header:h}.{topic}", "other.orders", true);
        check("db.{topic}", "db.Orders", false);
        check("db.x_{topic}", "db.x_", false);
        check("db.x_{topic}", "db.y_a", false);
        check("db.{topic}_{field:a}", "db.a_b_c", true);
        check("db.{topic}_{field:a}", "db.abc", false);
        check("db.{topic}{field:a}_v1", "db.ab_v1", true);
        check("db.{topic}{field:a}_v1", "db.a_v1", false);

        let of = |written: &str, topic: &str| route(written).of_topic(topic).map(|table| table.to_string());
        assert_eq!(of("db.x_{topic}", "A.b").as_deref(), Some("db.x_a_b"));
        assert_eq!(of("db.{topic}", "__consumer_offsets"), None);
        assert_eq!(of("db.{topic}_{header:h}", "a"), None);
    }
}

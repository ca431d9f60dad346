//! Reads values of the right type out of a document, applies variables, and collects what is wrong on the way.

use std::collections::BTreeMap;

use toml::de::DeValue;

use crate::document::{Entry, Section, kind};
use crate::fault::{Found, code};
use crate::name;
use crate::nearest::nearest;
use crate::path::Wrong;

/// A string after variables are applied grows no longer than this: variables may stand in it any number of times.
const TEXT_LENGTH_MAX: usize = 64 * 1024;

/// A string value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) value: String,
    pub(crate) at: usize,
    /// The byte of the file that the value's first byte stands at, where the file holds the value letter by letter.
    verbatim: Option<usize>,
}

impl Text {
    /// Where a byte of the value stands in the file; the value's start, where escapes or variables changed its length.
    pub(crate) fn position(&self, offset: usize) -> usize {
        self.verbatim.map_or(self.at, |start| start + offset)
    }
}

/// One file being read.
pub(crate) struct Reader<'t> {
    text: &'t str,
    vars: &'t BTreeMap<String, String>,
    environment: &'t str,
    pub(crate) found: Vec<Found>,
    /// Where the items of lists stand, those that could be read: `table.partition_by[0]`.
    pub(crate) items: Vec<(String, usize)>,
    /// Declared columns that could not be read.
    pub(crate) unread: Vec<String>,
}

impl<'t> Reader<'t> {
    pub(crate) const fn new(text: &'t str, environment: &'t str, vars: &'t BTreeMap<String, String>) -> Self {
        Self { text, vars, environment, found: Vec::new(), items: Vec::new(), unread: Vec::new() }
    }

    /// Line and column of a byte of the file, both from 1; columns are counted in characters.
    pub(crate) fn place(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }

    pub(crate) fn near(&mut self, at: usize, code: &'static str, message: String, nearest: Option<&str>) {
        self.found.push(Found { at, code, message, nearest: nearest.map(str::to_owned) });
    }

    pub(crate) fn fault(&mut self, at: usize, code: &'static str, message: impl Into<String>) {
        self.near(at, code, message.into(), None);
    }

    pub(crate) fn not_yet(&mut self, at: usize, what: &str) {
        self.fault(at, code::NOT_YET, format!("`{what}` is part of the grammar but not of this version"));
    }

    /// Something wrong inside a text.
    pub(crate) fn wrong(&mut self, text: &Text, wrong: &Wrong) {
        let message = format!("`{}`: {}", text.value, wrong.message);
        self.near(text.position(wrong.at), code::INVALID, message, wrong.nearest.as_deref());
    }

    /// The value as TOML writes it, strings in double quotes.
    pub(crate) fn source(&self, entry: &Entry<'_>) -> String {
        match entry.value.get_ref() {
            DeValue::String(text) => format!("{text:?}"),
            _ => self.text.get(entry.value.span()).unwrap_or("").to_owned(),
        }
    }

    pub(crate) fn expected(&mut self, name: &str, value: &DeValue<'_>, at: usize, expected: &str) {
        self.fault(at, code::WRONG_TYPE, format!("`{name}` takes {expected}, found {}", kind(value)));
    }

    /// The table under a key, where there is one.
    pub(crate) fn section(&mut self, parent: Section<'t>, name: &str) -> Option<Section<'t>> {
        let entry = parent.get(name)?;
        if let Some(section) = entry.section() {
            return Some(section);
        }
        self.expected(name, entry.value.get_ref(), entry.value_at(), "a table");
        None
    }

    /// The string under a key, variables applied.
    pub(crate) fn text(&mut self, parent: Section<'t>, name: &str) -> Option<Text> {
        self.string(name, parent.get(name)?.value, "a string")
    }

    /// The string under a key that must be there.
    pub(crate) fn required_text(&mut self, parent: Section<'t>, block: &str, name: &str) -> Option<Text> {
        if parent.get(name).is_none() {
            self.fault(parent.at, code::MISSING, format!("`[{block}]` needs `{name}`"));
        }
        self.text(parent, name)
    }

    /// One value that must be a string.
    pub(crate) fn string(&mut self, name: &str, value: &toml::Spanned<DeValue<'t>>, expected: &str) -> Option<Text> {
        let at = value.span().start;
        let DeValue::String(raw) = value.get_ref() else {
            self.expected(name, value.get_ref(), at, expected);
            return None;
        };
        let source = self.text.get(value.span()).unwrap_or("");
        // Quotes, and between them the value itself: then a place in the value is a place in the file.
        let verbatim = [1, 3].into_iter().find(|quotes| {
            source.len() == raw.len() + 2 * quotes && source.get(*quotes..).is_some_and(|s| s.starts_with(raw.as_ref()))
        });
        let start = verbatim.map(|quotes| at + quotes);
        if !raw.contains("${") {
            return Some(Text { value: raw.to_string(), at, verbatim: start });
        }
        let value = self.apply_variables(raw, at, start)?;
        Some(Text { value, at, verbatim: None })
    }

    fn apply_variables(&mut self, raw: &str, at: usize, verbatim: Option<usize>) -> Option<String> {
        let place = |offset: usize| verbatim.map_or(at, |start| start + offset);
        let mut value = String::new();
        let mut rest = raw;
        let mut whole = true;
        while let Some((before, after)) = rest.split_once("${") {
            let offset = raw.len() - after.len() - 2;
            value.push_str(before);
            let Some((variable, after)) = after.split_once('}') else {
                self.fault(place(offset), code::INVALID, "`${` is not closed by `}`");
                return None;
            };
            rest = after;
            if let Some(text) = self.vars.get(variable) {
                value.push_str(text);
            } else {
                whole = false;
                self.unknown_variable(variable, place(offset));
            }
            if value.len() > TEXT_LENGTH_MAX {
                self.fault(
                    at,
                    code::INVALID,
                    format!("with variables applied this is longer than {TEXT_LENGTH_MAX} bytes"),
                );
                return None;
            }
        }
        value.push_str(rest);
        whole.then_some(value)
    }

    fn unknown_variable(&mut self, variable: &str, at: usize) {
        let nearest = nearest(variable, self.vars.keys().map(String::as_str)).map(str::to_owned);
        let known = if self.vars.is_empty() {
            "it has none".to_owned()
        } else {
            format!("it has: {}", self.vars.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
        };
        let meant = nearest.as_ref().map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
        let problem = if name::variable(variable) { "is no variable of" } else { "cannot name a variable of" };
        let message = format!("`${{{variable}}}` {problem} the environment `{}`{meant} ({known})", self.environment);
        self.near(at, code::UNKNOWN_VARIABLE, message, nearest.as_deref());
    }

    /// The strings of an array under a key; none where the key is not there.
    pub(crate) fn texts(&mut self, parent: Section<'t>, name: &str) -> Vec<Text> {
        let Some(entry) = parent.get(name) else { return Vec::new() };
        let expected = "an array of strings";
        let DeValue::Array(array) = entry.value.get_ref() else {
            self.expected(name, entry.value.get_ref(), entry.value_at(), expected);
            return Vec::new();
        };
        array.iter().filter_map(|value| self.string(name, value, expected)).collect()
    }

    /// `true` or `false` under a key.
    pub(crate) fn flag(&mut self, parent: Section<'t>, name: &str, default: bool) -> bool {
        let Some(entry) = parent.get(name) else { return default };
        match entry.value.get_ref() {
            DeValue::Boolean(flag) => *flag,
            other => {
                self.expected(name, other, entry.value_at(), "true or false");
                default
            }
        }
    }

    /// A whole number under a key, with its place.
    pub(crate) fn number(&mut self, parent: Section<'t>, name: &str) -> Option<(i64, usize)> {
        let entry = parent.get(name)?;
        let at = entry.value_at();
        let DeValue::Integer(integer) = entry.value.get_ref() else {
            self.expected(name, entry.value.get_ref(), at, "a whole number");
            return None;
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
        if number.is_none() {
            self.fault(at, code::INVALID, format!("`{name}` does not fit 64 bits"));
        }
        Some((number?, at))
    }

    /// One of a closed list of words: those carried out `here`, with their meaning, and those known for `later`.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        parent: Section<'t>,
        name: &str,
        here: &[(&str, T)],
        later: &[&str],
    ) -> Option<T> {
        let text = self.text(parent, name)?;
        if let Some((_, value)) = here.iter().find(|(word, _)| *word == text.value) {
            return Some(*value);
        }
        if later.contains(&text.value.as_str()) {
            self.not_yet(text.at, &format!("{name} = {:?}", text.value));
            return None;
        }
        let words = || here.iter().map(|(word, _)| *word);
        let known: Vec<String> = words().map(|w| format!("\"{w}\"")).collect();
        let nearest = nearest(&text.value, words().chain(later.iter().copied()));
        let meant = nearest.map_or_else(String::new, |n| format!("; did you mean \"{n}\"?"));
        let message = format!("`{name}` cannot be {:?}; it takes {}{meant}", text.value, known.join(" or "));
        self.near(text.at, code::INVALID, message, nearest);
        None
    }
}

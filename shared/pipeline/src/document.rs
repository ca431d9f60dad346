//! A TOML document with the byte position of every key and value.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::fault::{Found, code};

/// A table and the place where it is introduced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section<'t> {
    table: &'t DeTable<'t>,
    pub(crate) at: usize,
}

/// A key with its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'t> {
    pub(crate) key: &'t str,
    pub(crate) key_at: usize,
    pub(crate) value: &'t Spanned<DeValue<'t>>,
}

impl<'t> Section<'t> {
    pub(crate) const fn new(table: &'t DeTable<'t>, at: usize) -> Self {
        Self { table, at }
    }

    /// In the order of the file: columns are declared in that order.
    pub(crate) fn entries(self) -> Vec<Entry<'t>> {
        let mut entries: Vec<Entry<'t>> = self
            .table
            .iter()
            .map(|(key, value)| Entry { key: key.get_ref(), key_at: key.span().start, value })
            .collect();
        entries.sort_by_key(|e| e.key_at);
        entries
    }

    pub(crate) fn get(self, name: &str) -> Option<Entry<'t>> {
        let (key, value) = self.table.get_key_value(name)?;
        Some(Entry { key: key.get_ref(), key_at: key.span().start, value })
    }
}

impl<'t> Entry<'t> {
    pub(crate) fn value_at(&self) -> usize {
        self.value.span().start
    }

    pub(crate) fn section(&self) -> Option<Section<'t>> {
        match self.value.get_ref() {
            DeValue::Table(table) => Some(Section::new(table, self.key_at)),
            _ => None,
        }
    }

    pub(crate) fn is_empty_array(&self) -> bool {
        matches!(self.value.get_ref(), DeValue::Array(array) if array.is_empty())
    }

    /// Whether it is a table with something in it.
    pub(crate) fn has_tables(&self) -> bool {
        matches!(self.value.get_ref(), DeValue::Table(table) if !table.is_empty())
    }
}

/// What a value is, for "found …".
pub(crate) const fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// The document, as far as its structure can be trusted, and the faults of its syntax.
///
/// A key that is there twice leaves the rest as it was written, so reading goes on. After any other fault of syntax what
/// follows may be filed under the wrong header; complaints about it would be guesses, and none are made.
pub(crate) fn parse(text: &str) -> (Option<DeTable<'_>>, Vec<Found>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut whole = true;
    let mut found: Vec<Found> = Vec::new();
    let mut line_of_last = None;
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        if error.message() == "duplicate key" {
            let key = text.get(span.clone()).unwrap_or("");
            found.push(Found {
                at: span.start,
                code: code::DUPLICATE,
                message: format!("`{key}` is there twice"),
                nearest: None,
            });
            continue;
        }
        whole = false;
        // What a parser says after the first complaint about a line is mostly an echo of it.
        let line = text.get(..span.start).map(|before| before.bytes().filter(|b| *b == b'\n').count());
        if line_of_last == Some(line) {
            continue;
        }
        line_of_last = Some(line);
        found.push(Found { at: span.start, code: code::SYNTAX, message: error.message().to_owned(), nearest: None });
    }
    (whole.then(|| table.into_inner()), found)
}

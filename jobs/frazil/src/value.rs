//! Arrow values as answers show them: rendered as in [`table::json`], and safe for a terminal.

pub(crate) use table::json::{Error, check_names, row, text, type_name};

/// Text for a terminal: control characters of stored data must not steer it.
#[must_use]
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

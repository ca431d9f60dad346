//! Paths of names: `team.name`, with a segment in double quotes where a dot, a space or a quote belongs to the name
//! itself: `properties."utm.source"`. A quote inside quotes is doubled.

/// Why a text is not what was expected: what is wrong, and at which byte of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Wrong {
    /// What is wrong and what would be right.
    pub message: String,
    /// Byte position in the text.
    pub at: usize,
    /// The nearest known name.
    pub nearest: Option<String>,
}

impl Wrong {
    pub(crate) fn new(message: impl Into<String>, at: usize) -> Self {
        Self { message: message.into(), at, nearest: None }
    }
}

/// Deeper paths are refused: schemas are read no deeper either.
const SEGMENTS_MAX: usize = 32;

const fn plain(c: char) -> bool {
    // Protobuf, Avro and JSON names that need no quotes; ASCII punctuation is kept for the grammar.
    c.is_ascii_alphanumeric() || c == '_' || c == '-' || !c.is_ascii() && !c.is_whitespace()
}

/// The segments of a whole text.
///
/// # Errors
/// [`Wrong`] where the text is empty, a quote is not closed, or something else than a path stands in it.
pub fn parse(text: &str) -> Result<Vec<String>, Wrong> {
    let start = text.len() - text.trim_start().len();
    let (path, end) = scan(text, start)?;
    match text.get(end..).unwrap_or("").trim_start() {
        "" => Ok(path),
        rest => Err(Wrong::new(
            "unexpected text after the path; a name with other characters than letters, digits, `_` and `-` is quoted",
            text.len() - rest.len(),
        )),
    }
}

/// The text that [`parse`] reads as these segments.
#[must_use]
pub fn text<S: AsRef<str>>(path: &[S]) -> String {
    let segments: Vec<String> = path
        .iter()
        .map(|segment| {
            let segment = segment.as_ref();
            if !segment.is_empty() && segment.chars().all(plain) {
                segment.to_owned()
            } else {
                format!("\"{}\"", segment.replace('"', "\"\""))
            }
        })
        .collect();
    segments.join(".")
}

/// A path starting at byte `start`, and the byte after it.
pub(crate) fn scan(text: &str, start: usize) -> Result<(Vec<String>, usize), Wrong> {
    let mut path = Vec::new();
    let mut at = start;
    loop {
        let (segment, end) = segment(text, at)?;
        path.push(segment);
        if path.len() > SEGMENTS_MAX {
            return Err(Wrong::new(format!("a path has at most {SEGMENTS_MAX} segments"), at));
        }
        if !text.get(end..).is_some_and(|rest| rest.starts_with('.')) {
            return Ok((path, end));
        }
        at = end + 1;
    }
}

fn segment(text: &str, start: usize) -> Result<(String, usize), Wrong> {
    let rest = text.get(start..).unwrap_or("");
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find(|c| !plain(c)).unwrap_or(rest.len());
        return match rest.get(..end) {
            Some(name) if !name.is_empty() => Ok((name.to_owned(), start + end)),
            _ => Err(Wrong::new("expected a name", start)),
        };
    };
    let mut name = String::new();
    let mut chars = quoted.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c != '"' {
            name.push(c);
        } else if chars.next_if(|(_, c)| *c == '"').is_some() {
            name.push('"');
        } else if name.is_empty() {
            return Err(Wrong::new("a name is not empty", start));
        } else {
            return Ok((name, start + 1 + at + 1));
        }
    }
    Err(Wrong::new("a quoted name is not closed", start))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_keep_a_literal_dot() {
        let check = |text: &str, expected: &[&str]| assert_eq!(parse(text).unwrap(), expected, "{text}");
        check("id", &["id"]);
        check(" team.name ", &["team", "name"]);
        check("properties.\"utm.source\"", &["properties", "utm.source"]);
        check("\"say \"\"hi\"\"\".x-y", &["say \"hi\"", "x-y"]);
        check("größe", &["größe"]);
    }

    #[test]
    fn what_is_not_a_path_says_where() {
        let check = |text: &str, at: usize, part: &str| {
            let wrong = parse(text).unwrap_err();
            assert_eq!(wrong.at, at, "{text}: {wrong}");
            assert!(wrong.message.contains(part), "{text}: {wrong}");
        };
        check("", 0, "expected a name");
        check("a.", 2, "expected a name");
        check("a..b", 2, "expected a name");
        check("a b", 2, "unexpected text");
        check("a[0]", 1, "quoted");
        check("a.\"b", 2, "not closed");
        check("a.\"\"", 2, "not empty");
        check(&["a"; 33].join("."), 64, "at most 32");
    }

    proptest! {
        #[test]
        fn a_written_path_is_read_back(path in prop::collection::vec("[^\u{0}]{1,8}", 1..5)) {
            prop_assert_eq!(parse(&text(&path)).unwrap(), path);
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _outcome = parse(&text);
        }
    }
}

//! Java's `.properties` text, which Kafka's own tools read (`java.util.Properties`, method `load`).
//!
//! A line is a key, then `=`, `:` or white space, then the value to the end of the line. `#` and `!` begin a comment, a
//! backslash at the end joins the next line, and `\t`, `\n`, `\r`, `\f`, `\uXXXX` or any other escaped character stand for
//! themselves in keys and values.

/// One entry.
#[derive(Clone, PartialEq, Eq)]
pub struct Property {
    /// The key, escapes resolved.
    pub key: String,
    /// The value, escapes resolved.
    pub value: String,
    /// The line that it begins on, counted from 1.
    pub line: usize,
}

/// Values may be passwords.
impl std::fmt::Debug for Property {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Property").field("key", &self.key).field("line", &self.line).finish_non_exhaustive()
    }
}

/// An escape that names no character.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`\\u` must be followed by four hexadecimal digits that name a character")]
pub struct BadEscape {
    /// The line it is on, counted from 1.
    pub line: usize,
}

/// Reads all entries, in order; of a repeated key every one.
///
/// # Errors
/// [`BadEscape`].
pub fn parse(text: &str) -> Result<Vec<Property>, BadEscape> {
    let mut properties = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, first)) = lines.next() {
        let start = first.trim_start_matches(is_space);
        if start.is_empty() || start.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = start.to_owned();
        while is_continued(&logical) {
            logical.pop();
            let Some((_, next)) = lines.next() else { break };
            logical.push_str(next.trim_start_matches(is_space));
        }
        let line = at + 1;
        let (key, value) = split(&logical);
        properties.push(Property { key: unescape(key, line)?, value: unescape(value, line)?, line });
    }
    Ok(properties)
}

const fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// Whether an odd number of backslashes ends the line.
fn is_continued(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// The key ends at the first `=`, `:` or space that is not escaped; spaces and one `=` or `:` stand between it and the value.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|c| {
        let ends = !escaped && (is_space(c) || matches!(c, '=' | ':'));
        escaped = !escaped && c == '\\';
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches(is_space);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, rest.trim_start_matches(is_space))
}

fn unescape(text: &str, line: usize) -> Result<String, BadEscape> {
    let mut out = String::with_capacity(text.len());
    // Java's characters are halves of UTF-16: two escapes may name one.
    let mut units: Vec<u16> = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let c = match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('u')) => {
                let digits: String = chars.by_ref().take(4).collect();
                let unit = (digits.len() == 4).then(|| u16::from_str_radix(&digits, 16).ok()).flatten();
                units.push(unit.ok_or(BadEscape { line })?);
                continue;
            }
            ('\\', Some('t')) => '\t',
            ('\\', Some('n')) => '\n',
            ('\\', Some('r')) => '\r',
            ('\\', Some('f')) => '\u{c}',
            ('\\', Some(other)) => other,
            ('\\', None) => break,
            (plain, _) => plain,
        };
        flush(&mut units, &mut out, line)?;
        out.push(c);
    }
    flush(&mut units, &mut out, line)?;
    Ok(out)
}

fn flush(units: &mut Vec<u16>, out: &mut String, line: usize) -> Result<(), BadEscape> {
    if !units.is_empty() {
        out.push_str(&String::from_utf16(units).map_err(|_| BadEscape { line })?);
        units.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_java_reads_them() {
        let text = "# one\n  ! two\n\n a=1\nb : 2 \nc 3\nd\\ e\\=f=g\\u0041\\ud83d\\ude00\\t=:x\nlong = one, \\\n    two, \\\n\tthree\n\
                    even\\\\\nempty=\nalone\nsasl.jaas.config=a \\\"b\\\" c;\r\nlast=x\\";
        let seen: Vec<(String, String, usize)> =
            parse(text).unwrap().into_iter().map(|p| (p.key, p.value, p.line)).collect();
        let wanted = [
            ("a", "1", 4),
            ("b", "2 ", 5),
            ("c", "3", 6),
            ("d e=f", "gA😀\t=:x", 7),
            ("long", "one, two, three", 8),
            ("even\\", "", 11),
            ("empty", "", 12),
            ("alone", "", 13),
            ("sasl.jaas.config", "a \"b\" c;", 14),
            ("last", "x", 15),
        ];
        assert_eq!(seen, wanted.map(|(key, value, line)| (key.to_owned(), value.to_owned(), line)));
    }

    #[test]
    fn an_escape_that_names_nothing_is_refused_with_its_line() {
        for text in ["\n\na=\\u12", "\n\na=\\uzzzz", "\n\na=\\ud83d x"] {
            assert_eq!(parse(text), Err(BadEscape { line: 3 }), "{text}");
        }
    }

    #[test]
    fn values_are_not_shown() {
        assert!(!format!("{:?}", parse("sasl.password=geheim").unwrap()).contains("geheim"));
    }
}

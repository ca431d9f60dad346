//! Sort fields as Iceberg's engines write them: `start_date desc nulls last`.

use crate::path::{self, Wrong};
use crate::resolved::SortField;

/// One field of `sort_by`. Ascending unless said otherwise; nulls first when ascending, last when descending, as
/// Iceberg's own builder has it. A nested column is written `struct.field`.
///
/// # Errors
/// [`Wrong`] where the text is anything else.
pub fn parse(text: &str) -> Result<SortField, Wrong> {
    let start = text.len() - text.trim_start().len();
    let (column, end) = path::scan(text, start)?;
    let mut words = words(text, end).into_iter().peekable();
    if let Some((at, word)) = words.peek()
        && word.starts_with('(')
    {
        return Err(Wrong::new("a sort field is a column, not a transform of one", *at));
    }
    let descending = match words.next_if(|(_, w)| w == "asc" || w == "desc") {
        Some((_, word)) => word == "desc",
        None => false,
    };
    let nulls_first = match words.next_if(|(_, w)| w == "nulls") {
        None => !descending,
        Some((at, _)) => match words.next() {
            Some((_, word)) if word == "first" => true,
            Some((_, word)) if word == "last" => false,
            Some((at, _)) => return Err(Wrong::new("expected `first` or `last` after `nulls`", at)),
            None => return Err(Wrong::new("expected `nulls first` or `nulls last`", at)),
        },
    };
    match words.next() {
        None => Ok(SortField { column: column.join("."), descending, nulls_first }),
        Some((at, word)) => {
            Err(Wrong::new(format!("unexpected `{word}`; a sort field is `column [asc|desc] [nulls first|last]`"), at))
        }
    }
}

/// The words from byte `start` on, in lower case, each with its place.
fn words(text: &str, start: usize) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    let mut at = start;
    while let Some(rest) = text.get(at..) {
        let word = rest.trim_start();
        if word.is_empty() {
            break;
        }
        let from = text.len() - word.len();
        let length = word.find(char::is_whitespace).unwrap_or(word.len());
        words.push((from, word.get(..length).unwrap_or("").to_lowercase()));
        at = from + length;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_stand_where_iceberg_puts_them() {
        let check = |text: &str, column: &str, descending: bool, nulls_first: bool| {
            assert_eq!(
                parse(text).unwrap(),
                SortField { column: column.to_owned(), descending, nulls_first },
                "{text}"
            );
        };
        check("start_date", "start_date", false, true);
        check("start_date asc", "start_date", false, true);
        check(" start_date DESC ", "start_date", true, false);
        check("start_date desc nulls last", "start_date", true, false);
        check("start_date desc nulls first", "start_date", true, true);
        check("start_date nulls last", "start_date", false, false);
        check("\"utm.source\"  asc  Nulls  Last", "utm.source", false, false);
        check("meta.at desc", "meta.at", true, false);
    }

    #[test]
    fn what_is_not_a_sort_field_says_where() {
        let check = |text: &str, at: usize, part: &str| {
            let wrong = parse(text).unwrap_err();
            assert_eq!(wrong.at, at, "{text}: {wrong}");
            assert!(wrong.message.contains(part), "{text}: {wrong}");
        };
        check("", 0, "expected a name");
        check("a descending", 2, "unexpected `descending`");
        check("a desc nulls", 7, "nulls first");
        check("a desc nulls middle", 13, "`first` or `last`");
        check("a nulls last desc", 13, "unexpected `desc`");
        check("hour(a)", 4, "not a transform");
        check("hour (a)", 5, "not a transform");
    }
}

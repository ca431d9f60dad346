//! Shortening a bound so that it stays one: a lower bound may lose its end, an upper bound must then grow.

/// The first `width` code points: never above the whole.
pub(super) fn text_down(text: &str, width: u32) -> &str {
    match text.char_indices().nth(width as usize) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

/// At most `width` code points, not below the whole; `None` when there is no such text.
pub(super) fn text_up(text: &str, width: u32) -> Option<String> {
    let kept = text_down(text, width);
    if kept.len() == text.len() {
        return Some(text.to_owned());
    }
    let mut kept: Vec<char> = kept.chars().collect();
    // The last code point that has a next one is raised, and what follows it dropped.
    while let Some(last) = kept.pop() {
        if let Some(next) = next_char(last) {
            kept.push(next);
            return Some(kept.into_iter().collect());
        }
    }
    None
}

/// The next code point, passing over the surrogates, which are not characters.
fn next_char(c: char) -> Option<char> {
    match u32::from(c) + 1 {
        0xd800 => Some('\u{e000}'),
        next => char::from_u32(next),
    }
}

/// The first `width` bytes: never above the whole.
pub(super) fn bytes_down(bytes: &[u8], width: u32) -> &[u8] {
    bytes.get(..width as usize).unwrap_or(bytes)
}

/// At most `width` bytes, not below the whole; `None` when there are none such.
pub(super) fn bytes_up(bytes: &[u8], width: u32) -> Option<Vec<u8>> {
    let kept = bytes_down(bytes, width);
    if kept.len() == bytes.len() {
        return Some(bytes.to_vec());
    }
    let mut kept = kept.to_vec();
    while let Some(last) = kept.pop() {
        if let Some(next) = last.checked_add(1) {
            kept.push(next);
            return Some(kept);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upper_bound_grows_in_its_last_possible_place() {
        let check = |text: &str, width: u32, expected: Option<&str>| {
            assert_eq!(text_up(text, width).as_deref(), expected, "{text:?}, {width}");
        };
        check("iceberg", 16, Some("iceberg"));
        check("iceberg", 3, Some("icf"));
        check("zz\u{10ffff}x", 3, Some("z{"));
        check("\u{10ffff}\u{10ffff}x", 2, None);
        check("a\u{d7ff}b", 2, Some("a\u{e000}"));
        check("naïve", 3, Some("nað"));
        check("😀😀", 1, Some("😁"));
        check("", 1, Some(""));
        let check = |bytes: &[u8], width: u32, expected: Option<&[u8]>| {
            assert_eq!(bytes_up(bytes, width).as_deref(), expected, "{bytes:?}, {width}");
        };
        check(&[1, 2, 3], 3, Some(&[1, 2, 3]));
        check(&[1, 2, 3], 2, Some(&[1, 3]));
        check(&[1, 255, 3], 2, Some(&[2]));
        check(&[255, 255, 3], 2, None);
    }
}

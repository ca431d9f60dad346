//! The known name nearest to one that is not known.

/// Longer names are not compared: the cost grows with the product of both lengths, and no name of ours is near that long.
const LENGTH_MAX: usize = 64;

/// The candidate within a third of its length in edits (insert, delete, replace, swap neighbours), at least one; the
/// first of several equally near.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.is_empty() || word.len() > LENGTH_MAX {
        return None;
    }
    let folded = word.to_lowercase();
    candidates
        .into_iter()
        .filter(|c| c.len() <= LENGTH_MAX && *c != word)
        .filter_map(|c| {
            let edits = strsim::osa_distance(&folded, &c.to_lowercase());
            (edits <= (c.chars().count() / 3).max(1)).then_some((edits, c))
        })
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, c)| c)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn only_a_name_that_may_have_been_meant_is_offered() {
        let check = |word: &str, expected: Option<&str>| {
            assert_eq!(nearest(word, ["topics", "exclude", "name", "partition_by", "types"]), expected, "{word}");
        };
        check("topic", Some("topics"));
        check("tpoics", Some("topics"));
        check("Partition-By", Some("partition_by"));
        check("nmae", Some("name"));
        check("type", Some("types"));
        check("bootstrap", None);
        check("", None);
        check(&"x".repeat(100_000), None);
    }
}

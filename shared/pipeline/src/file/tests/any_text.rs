use std::path::Path;

use proptest::prelude::*;

use super::{SOURCE, TABLE, VALUE, parse_named};

/// Pieces of the grammar and of TOML, in any order: nearer to a file than random letters are.
fn toml_like() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "[source]",
        "[value]",
        "[table]",
        "[table.columns]",
        "[table.properties]",
        "[tables.\"x\"]",
        "[[table]]",
        "[fold]",
        "[key]",
        "[env.local]",
        "vars",
        "topics",
        "name",
        "schema",
        "proto",
        "message",
        "partition_by",
        "sort_by",
        "columns",
        "from",
        "type",
        "mode",
        "memory",
        "keep_raw",
        "format_version",
        "max_age",
        " = ",
        " = ",
        " = ",
        ".",
        ",",
        "\"",
        "'",
        "\"\"\"",
        "[",
        "]",
        "{",
        "}",
        "\n",
        "\n",
        "\r\n",
        "#",
        "${db}",
        "${",
        "}",
        "@key",
        "\"db.t\"",
        "\"hour(a)\"",
        "bucket(8, ",
        "\"append\"",
        "60s",
        "true",
        "1e9",
        "0x_",
        "1979-05-27",
        "é",
        "\\u00e9",
        "\\",
        "\u{feff}",
        "\u{0}",
    ]);
    prop_oneof![
        prop::collection::vec(pieces, 0..60).prop_map(|parts| parts.concat()),
        ".{0,200}",
        // A good file with one stretch replaced.
        (0usize..260, 0usize..40, ".{0,8}").prop_map(|(at, length, with)| {
            let mut text: Vec<char> = format!("{SOURCE}{VALUE}{TABLE}[fold]\nmax_age = \"60s\"\n").chars().collect();
            let at = at.min(text.len());
            let end = (at + length).min(text.len());
            text.splice(at..end, with.chars());
            text.into_iter().collect()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_text_panics_and_every_refusal_says_where(text in toml_like()) {
        let lines = text.split('\n').count();
        let faults = [parse_named(&text).err(), crate::environment::parse(&text, Path::new("frazil.toml")).err()];
        for faults in faults.into_iter().flatten() {
            prop_assert!(!faults.is_empty());
            for fault in &faults {
                prop_assert!((1..=lines).contains(&fault.line), "{}", fault);
                prop_assert!(fault.column >= 1 && !fault.message.is_empty());
            }
            prop_assert!(faults.is_sorted_by_key(|f| (f.line, f.column)));
        }
    }
}

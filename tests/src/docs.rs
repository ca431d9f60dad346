//! Documents that name files and crates are held to them: a page that points at what is gone is worse than none.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::root;

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// README.md and everything under infra/docs.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let mut folders = vec![root().join("infra/docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("a folder's entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// What stands between backticks outside fenced blocks.
fn code(page: &str) -> Vec<String> {
    let mut spans = Vec::new();
    let mut fenced = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            spans.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    spans
}

/// The code spans that name a file or folder of this repository, from its root.
fn paths(page: &str) -> BTreeSet<String> {
    const FOLDERS: [&str; 6] = ["functions", "infra", "jobs", "proto", "shared", "tests"];
    code(page)
        .into_iter()
        .filter(|span| span.split_once('/').is_some_and(|(first, rest)| FOLDERS.contains(&first) && !rest.is_empty()))
        // Patterns and command lines are not paths.
        .filter(|span| !span.contains(|c: char| c.is_whitespace() || "<>*{}$…".contains(c)))
        .collect()
}

/// The targets of links to files, from the page's own folder.
fn links(page: &str) -> BTreeSet<String> {
    page.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split('#').next().unwrap_or_default().to_owned())
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .collect()
}

#[test]
fn every_file_a_page_names_is_there() {
    for page in pages() {
        let content = text(&page);
        let missing: Vec<String> = paths(&content).into_iter().filter(|path| !root().join(path).exists()).collect();
        assert_eq!(missing, Vec::<String>::new(), "{}", page.display());
        let folder = page.parent().expect("a page lies in a folder");
        let missing: Vec<String> = links(&content).into_iter().filter(|path| !folder.join(path).exists()).collect();
        assert_eq!(missing, Vec::<String>::new(), "links of {}", page.display());
    }
}

#[test]
fn paths_and_links_are_found_in_a_page() {
    let page = "See `tests/src/docs.rs`, `shared/<name>` and `cargo demo`, [a](other.md#part) or [b](https://x/y).\n\
                ```\n`jobs/none`\n```\n`proto/gone.json` `model::clock`";
    let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<String>>();
    assert_eq!(paths(page), set(&["tests/src/docs.rs", "proto/gone.json"]));
    assert_eq!(links(page), set(&["other.md"]));
}

#[test]
fn the_map_lists_every_crate() {
    let map = text(&root().join("infra/docs/ARCHITECTURE.md"));
    let manifest: toml::Table = text(&root().join("Cargo.toml")).parse().expect("Cargo.toml is TOML");
    let spans = code(&map);
    for member in manifest["workspace"]["members"].as_array().expect("members") {
        let member = member.as_str().expect("a member is a path").to_owned();
        assert!(spans.contains(&member), "infra/docs/ARCHITECTURE.md does not list `{member}`");
    }
}

//! Which crate may depend on which. The layout is only worth something while these arrows hold, so they are stated here
//! and compared with what cargo says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::root;

/// What each crate may depend on inside the workspace, lowest first. A crate is added here when it is added there.
const ALLOWED: &[(&str, &[&str])] = &[
    ("allocator", &[]),
    ("model", &[]),
    ("pipeline", &["model"]),
    ("codec", &["model", "pipeline"]),
    ("staging", &["model"]),
    ("table", &["model", "pipeline"]),
    ("merge", &["model"]),
    ("registry", &["model", "codec"]),
    ("aws", &["model", "staging", "table", "registry"]),
    ("kafka", &["model"]),
    ("runtime", &["model"]),
    ("ingest", &["model", "pipeline", "codec", "staging", "runtime", "registry", "aws"]),
    ("fold", &["model", "pipeline", "staging", "table", "merge", "runtime"]),
    // What a table has settled is the fold's to say; maintenance rests its deletions on it.
    ("maintain", &["model", "pipeline", "staging", "table", "merge", "runtime", "fold"]),
    (
        "frazil",
        &[
            "allocator",
            "model",
            "pipeline",
            "codec",
            "staging",
            "table",
            "merge",
            "registry",
            "aws",
            "kafka",
            "runtime",
            "ingest",
            "fold",
            "maintain",
        ],
    ),
    ("testkit", &["model", "pipeline", "codec", "staging", "table"]),
];

/// May hold anything, and nothing depends on them.
const TESTS: [&str; 2] = ["tests", "sim"];

/// For tests only, whoever asks.
const TESTKIT: &str = "testkit";

/// Heavy or networked crates, and whose normal dependencies may reach them, directly or through another crate of ours.
const RESTRICTED: &[(&str, &[&str])] = &[
    ("iceberg", &["table", "aws", "fold", "maintain", "frazil", TESTKIT]),
    ("aws-config", &["aws", "ingest", "frazil"]),
    ("aws-sdk-glue", &["aws", "ingest", "frazil"]),
    ("aws-sdk-s3", &["aws", "frazil"]),
    ("aws-sigv4", &["aws", "frazil"]),
    ("datafusion", &["frazil"]),
    ("rdkafka", &["kafka", "frazil"]),
    ("rusqlite", &["table", "aws", "fold", "maintain", "frazil", TESTKIT]),
];

/// What a crate names only under a feature that not everybody who depends on it takes: ingest is to take the store of
/// `aws` and not Iceberg's files. For ingest this is checked by what it links.
const BY_FEATURE: &[(&str, &str)] =
    &[("aws", "table"), ("aws", "iceberg"), ("aws", "aws-sdk-s3"), ("aws", "aws-sigv4")];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// In what is shipped, or in building it.
    Normal,
    /// The same, if a feature asks for it.
    Optional,
    /// In tests only.
    Dev,
}

#[derive(Clone, Debug)]
struct Edge {
    from: String,
    to: String,
    used: Use,
}

fn edge(from: &str, to: &str, used: Use) -> Edge {
    Edge { from: from.to_owned(), to: to.to_owned(), used }
}

/// What `cargo ARGS` prints. Nothing is fetched and the lock file stays as it is.
fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .current_dir(root())
        .args(args)
        .args(["--offline", "--locked"])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

/// Every declared dependency of every member, ours and others'.
fn declared() -> Vec<Edge> {
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--format-version", "1", "--no-deps"])).unwrap();
    let packages = metadata["packages"].as_array().expect("packages");
    packages
        .iter()
        .flat_map(|package| {
            let from = package["name"].as_str().expect("name");
            package["dependencies"].as_array().expect("dependencies").iter().map(move |dependency| {
                let used = match (dependency["kind"] == "dev", dependency["optional"] == true) {
                    (true, _) => Use::Dev,
                    (false, true) => Use::Optional,
                    (false, false) => Use::Normal,
                };
                edge(from, dependency["name"].as_str().expect("name"), used)
            })
        })
        .collect()
}

fn members(edges: &[Edge]) -> BTreeSet<&str> {
    edges.iter().map(|e| e.from.as_str()).chain(ALLOWED.iter().map(|(name, _)| *name)).chain(TESTS).collect()
}

/// One sentence per arrow that points where it may not.
fn faults(edges: &[Edge]) -> Vec<String> {
    let members = members(edges);
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let mut faults: Vec<String> = members
        .iter()
        .filter(|name| !TESTS.contains(name) && !allowed.contains_key(*name))
        .map(|name| format!("{name} is not listed in ALLOWED"))
        .collect();
    for Edge { from, to, used } in
        edges.iter().filter(|e| members.contains(e.to.as_str()) && !TESTS.contains(&e.from.as_str()))
    {
        let listed = allowed.get(from.as_str()).is_some_and(|names| names.contains(&to.as_str()));
        match used {
            _ if TESTS.contains(&to.as_str()) => faults.push(format!("{from} depends on {to}")),
            Use::Dev if to == TESTKIT || listed => {}
            Use::Normal if listed && !BY_FEATURE.contains(&(from, to)) => {}
            Use::Optional if listed => {}
            _ => faults.push(format!("{from} may not depend on {to} ({used:?})")),
        }
    }
    for (library, may) in RESTRICTED {
        let reaching = reaching(edges, library);
        faults.extend(
            reaching
                .iter()
                .filter(|name| !may.contains(name) && !TESTS.contains(name))
                .map(|name| format!("{name} reaches {library}")),
        );
    }
    faults
}

/// The crates from which `library` is reached, in tests aside. What is named only under a feature is not followed: whoever
/// takes the feature is told by the crate that has it, and ingest by its tree.
fn reaching<'a>(edges: &'a [Edge], library: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    loop {
        let before = found.len();
        for Edge { from, to, used } in edges {
            let by_feature = *used == Use::Optional && BY_FEATURE.contains(&(from, to));
            if *used != Use::Dev && !by_feature && (to == library || found.contains(to.as_str())) {
                found.insert(from.as_str());
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

#[test]
fn arrows_only_point_down() {
    assert_eq!(faults(&declared()), Vec::<String>::new());
}

#[test]
fn an_arrow_that_points_up_is_found() {
    let check = |edges: &[Edge], expected: &[&str]| assert_eq!(faults(edges), expected, "{edges:?}");
    check(&[edge("pipeline", "model", Use::Normal), edge("fold", "testkit", Use::Dev)], &[]);
    check(&[edge("model", "pipeline", Use::Normal)], &["model may not depend on pipeline (Normal)"]);
    check(&[edge("codec", "table", Use::Dev)], &["codec may not depend on table (Dev)"]);
    check(&[edge("fold", "testkit", Use::Normal)], &["fold may not depend on testkit (Normal)"]);
    check(&[edge("utils", "serde", Use::Normal)], &["utils is not listed in ALLOWED"]);
    check(&[edge("fold", "tests", Use::Dev)], &["fold depends on tests"]);
    check(
        &[edge("ingest", "staging", Use::Normal), edge("staging", "iceberg", Use::Normal)],
        &["ingest reaches iceberg", "staging reaches iceberg"],
    );
    check(&[edge("staging", "iceberg", Use::Dev)], &[]);
    check(
        &[edge("frazil", "aws", Use::Optional), edge("staging", "aws", Use::Optional)],
        &["staging may not depend on aws (Optional)"],
    );
    check(
        &[edge("fold", "staging", Use::Normal), edge("staging", "aws-sdk-s3", Use::Optional)],
        &["fold reaches aws-sdk-s3", "staging reaches aws-sdk-s3"],
    );
    // Only as an option may `aws` name Iceberg.
    check(&[edge("aws", "table", Use::Optional), edge("aws", "iceberg", Use::Optional)], &[]);
    check(&[edge("aws", "table", Use::Normal)], &["aws may not depend on table (Normal)"]);
}

/// What ingest will take of `aws`: the store, and nothing of Iceberg with it.
#[test]
fn the_store_on_s3_built_alone_links_no_table_library() {
    let tree = |features: &str| {
        let args =
            ["tree", "--package", "aws", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--features"];
        let tree = cargo(&[&args[..], &[features]].concat());
        tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let store = tree("store");
    assert!(store.contains("aws-sdk-s3") && store.contains("staging"), "this is not the store's tree: {store:?}");
    let unwanted = ["iceberg", "table", "rusqlite", "aws-lc-rs", "openssl", "aws-sdk-sso"];
    assert_eq!(unwanted.iter().filter(|name| store.contains(**name)).collect::<Vec<_>>(), Vec::<&&str>::new());
    assert!(tree("storage").contains("iceberg"));
}

/// What ingest will take of registries: Glue's without S3's or Iceberg's libraries, Confluent's without the AWS SDK.
#[test]
fn each_registry_built_alone_links_its_own_client() {
    let tree = |package: &str, features: &str| {
        let args =
            ["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--package", package, "--features"];
        let tree = cargo(&[&args[..], &[features]].concat());
        tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let check = |package: &str, features: &str, links: &[&str], not: &[&str]| {
        let tree = tree(package, features);
        for (names, expected) in [(links, true), (not, false)] {
            for name in names {
                let found = tree.iter().any(|linked| linked == name);
                assert_eq!(found, expected, "{package} with the features {features:?}: {name}");
            }
        }
    };
    let always = ["iceberg", "table", "rusqlite", "aws-lc-rs", "openssl", "reqwest", "aws-sdk-s3"];
    check("aws", "registry", &["aws-sdk-glue", "registry", "codec"], &always);
    check("registry", "confluent", &["hyper-util", "rustls", "codec"], &[&always[..], &["aws-config"]].concat());
    check("registry", "", &["codec"], &[&always[..], &["hyper", "rustls", "aws-config"]].concat());
}

/// `cargo demo` needs Rust and a C compiler, and no AWS SDK: it is to be quick the first time.
#[test]
fn the_demo_alone_links_no_aws() {
    let config: toml::Table =
        std::fs::read_to_string(root().join(".cargo/config.toml")).expect("cargo's configuration").parse().unwrap();
    let demo = config["alias"]["demo"].as_str().expect("an alias");
    assert!(demo.contains("--package frazil --no-default-features"), "{demo}");
    let tree =
        cargo(&["tree", "--package", "frazil", "--no-default-features", "--edges", "normal,build", "--prefix", "none"]);
    assert!(tree.contains("datafusion ") && !tree.lines().any(|line| line.starts_with("aws")), "{tree}");
}

/// Ingest's cold start and package size rest on what it does not link. Its features are its own only when it is built
/// alone: cargo unites the features of everything in one build.
#[test]
fn ingest_built_alone_links_no_table_library_no_query_engine_and_no_kafka_client() {
    let tree = cargo(&["tree", "--package", "ingest", "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    let linked: BTreeSet<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(linked.contains("staging") && linked.contains("parquet"), "this is not ingest's tree: {linked:?}");
    let unwanted = |name: &&&str| {
        [
            "iceberg",
            "datafusion",
            "rdkafka",
            "reqwest",
            "rusqlite",
            "openssl-sys",
            "aws-sdk-s3",
            "aws-sdk-sso",
            "aws-lc",
        ]
        .iter()
        .any(|prefix| name.starts_with(prefix))
    };
    assert_eq!(linked.iter().filter(unwanted).collect::<Vec<_>>(), Vec::<&&str>::new());
}

fn read(path: &Path) -> toml::Table {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).parse().unwrap()
}

/// The folders of the members, as the root manifest lists them.
fn manifests() -> Vec<(String, toml::Table)> {
    let workspace = read(&root().join("Cargo.toml"));
    let members = workspace["workspace"]["members"].as_array().expect("members");
    members
        .iter()
        .map(|member| {
            let member = member.as_str().expect("a member is a path");
            (member.to_owned(), read(&root().join(member).join("Cargo.toml")))
        })
        .collect()
}

fn inherits(value: Option<&toml::Value>) -> bool {
    value.and_then(|v| v.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
}

/// The names in a manifest's dependency tables that do not come from the workspace's table, where each has one version.
fn own_versions(manifest: &toml::Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let tables = std::iter::once(manifest).chain(targets.into_iter().flatten().filter_map(|(_, t)| t.as_table()));
    tables
        .flat_map(|table| ["dependencies", "dev-dependencies", "build-dependencies"].map(|kind| table.get(kind)))
        .filter_map(|dependencies| dependencies?.as_table())
        .flatten()
        .filter(|(_, dependency)| !inherits(Some(dependency)))
        .map(|(name, _)| name.clone())
        .collect()
}

#[test]
fn every_crate_inherits_the_workspace_lints_and_versions() {
    // A ban can't be lifted in a part of a crate: the one that needs unsafe code has the workspace's lints by hand.
    let mut by_hand = read(&root().join("Cargo.toml"))["workspace"]["lints"].clone();
    by_hand["rust"]["unsafe_code"] = "deny".into();
    for (member, manifest) in manifests() {
        match member.as_str() {
            "shared/allocator" => assert_eq!(manifest["lints"], by_hand, "{member}"),
            _ => assert!(inherits(manifest.get("lints")), "{member}: no `[lints] workspace = true`"),
        }
        for key in ["version", "edition", "rust-version", "license", "publish"] {
            assert!(inherits(manifest["package"].get(key)), "{member}: `{key}` is not the workspace's");
        }
        assert_eq!(own_versions(&manifest), Vec::<String>::new(), "{member}");
    }
}

#[test]
fn a_version_of_its_own_is_found_wherever_it_stands() {
    let manifest: toml::Table = "
        [dependencies]
        a.workspace = true
        b = '1'
        [dev-dependencies]
        c = { version = '1' }
        [target.'cfg(unix)'.dependencies]
        d = { path = '../d' }
    "
    .parse()
    .unwrap();
    assert_eq!(own_versions(&manifest), ["b", "c", "d"]);
}

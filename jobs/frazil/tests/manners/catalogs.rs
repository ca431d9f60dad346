//! What a person is told where a catalog refuses: each refusal at each catalog, by `frazil fold`, beside the table of them that is kept
//! for people (infra/docs/CATALOG-ERRORS.md). That table is what these tests made: `FRAZIL_BLESS=1` writes it anew.

#[path = "catalogs/glue.rs"]
mod glue;
#[path = "catalogs/rest.rs"]
mod rest;
#[path = "catalogs/s3tables.rs"]
mod s3tables;
#[path = "catalogs/server.rs"]
mod server;

use std::process::{Command, Stdio};

use server::{Reply, Request, Server};

use super::*;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/docs/CATALOG-ERRORS.md");

/// What a page says before its tables.
const HEAD: &str = "# What a catalog refuses, and what to do

What `frazil fold` says, by catalog. Made by a test, which makes each refusal and fails where this page says anything else: write it anew by
`FRAZIL_BLESS=1 cargo test --workspace --test manners what_catalogs`. Exit 2 is for a person to mend, 4 for another try, which a schedule
makes by itself; whatever the refusal, nothing staged is lost, and nothing comes twice. A table's files are refused by the store that has
them, which the message names.
";

/// One refusal: what is wrong, and how to make it.
struct Case {
    what: &'static str,
    /// `catalog` of frazil.toml, where `URL` is the server's.
    catalog: &'static str,
    /// Beside it.
    settings: &'static str,
    /// The table's name in the pipeline file.
    table: &'static str,
    variables: &'static [(&'static str, &'static str)],
    /// Whether AWS credentials and region are set.
    credentials: bool,
    region: bool,
}

impl Case {
    const fn new(what: &'static str, catalog: &'static str) -> Self {
        let table = "bigdata.employee";
        Self { what, catalog, settings: "", table, variables: &[], credentials: true, region: true }
    }
}

/// A fold's error: exit code, and the document's.
struct Said {
    what: &'static str,
    exit: i32,
    error: Value,
}

/// Folds an event into a catalog that a server plays.
fn fold(case: &Case, answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Said {
    let server = Server::start(answer);
    fold_at(case, &server.url, &[])
}

fn fold_at(case: &Case, url: &str, files: &[(&str, &str)]) -> Said {
    let place = Place::new();
    let pipeline = include_str!("../../demo/employee.toml").replace("bigdata.employee", case.table);
    place.write("pipelines/employee.toml", pipeline);
    place.write("proto/employee.proto", include_str!("../../../../proto/employee.proto"));
    for (name, content) in files {
        place.write(name, content);
    }
    let (settings, catalog) = (case.settings, case.catalog.replace("URL", url));
    // What is staged is staged before anything is wrong.
    place.write("frazil.toml", "[env.local]\ndir = \"dir\"\n");
    place.write("event.json", events(20, 0.0).remove(0));
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frazil"));
        command.args(arguments).arg("--json").current_dir(place.folder.path()).stdin(Stdio::null());
        // None of this machine's own settings, and none that a cloud's machine would give.
        for name in ["AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION", "FRAZIL_DIR", "FRAZIL_ENV"] {
            command.env_remove(name);
        }
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL"] {
            command.env_remove(name);
        }
        command.envs([("AWS_CONFIG_FILE", "/dev/null"), ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")]);
        command.env("AWS_EC2_METADATA_DISABLED", "true").env("AWS_ENDPOINT_URL", url);
        if case.credentials {
            command.envs([("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "hunter2")]);
        }
        if case.region {
            command.env("AWS_REGION", "eu-west-1");
        }
        command.envs(case.variables.iter().copied()).output().unwrap()
    };
    let staged = run(&["ingest", "employee", "--event", "event.json"]);
    place.write("frazil.toml", format!("[env.local]\ndir = \"dir\"\n{settings}\ncatalog = {catalog}\n"));
    // What the pipeline file may not say is refused before anything is staged.
    let left = if staged.status.success() { run(&["fold", "employee"]) } else { staged };
    let text = String::from_utf8(left.stdout).unwrap();
    assert!(!text.contains("hunter2"), "{}: a secret is shown: {text}", case.what);
    let document: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}: {text}", case.what));
    assert_eq!(document["ok"], false, "{}: it was done: {document}", case.what);
    let error = &document["error"];
    let member = |name: &str| error[name].as_str().unwrap_or_default();
    // What differs from run to run has one name here.
    let folder = std::fs::canonicalize(place.folder.path()).unwrap();
    let known = [(url.trim_start_matches("http://"), "HOST"), (folder.to_str().unwrap(), "PROJECT")];
    let plain = |text: &str| {
        let text = known.iter().fold(text.to_owned(), |text, (found, name)| text.replace(found, name));
        let text = text.replace(place.folder.path().to_str().unwrap(), "PROJECT");
        uuids(&text)
    };
    let [kind, code, message, at, remedy] =
        ["kind", "code", "message", "where", "remedy"].map(|name| plain(member(name)));
    let error = json!({"kind": kind, "code": code, "message": message, "where": at, "remedy": remedy});
    Said { what: case.what, exit: left.status.code().unwrap(), error }
}

/// Names of files with a uuid, without it.
fn uuids(text: &str) -> String {
    let is_uuid = |word: &[u8]| {
        word.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    let (mut plain, mut rest) = (String::new(), text);
    while let Some(at) = rest.as_bytes().windows(36).position(is_uuid) {
        plain.push_str(&rest[..at]);
        plain.push_str("UUID");
        rest = &rest[at + 36..];
    }
    plain + rest
}

fn table(said: &[Said]) -> String {
    let cell = |text: &Value| text.as_str().unwrap().replace('|', "\\|").replace('\n', " ");
    let row = |Said { what, exit, error }: &Said| {
        let [kind, code, message, remedy] = ["kind", "code", "message", "remedy"].map(|name| cell(&error[name]));
        let at = match cell(&error["where"]) {
            at if at.is_empty() => String::new(),
            at => format!(" (at {at})"),
        };
        format!("| {what} | {exit} | `{kind}`, `{code}` | {message}{at} | {remedy} |\n")
    };
    let head = "| what is wrong | exit | kind, code | what is said | what to do |\n| --- | --- | --- | --- | --- |\n";
    head.to_owned() + &said.iter().map(row).collect::<String>()
}

#[test]
fn what_catalogs_refuse_is_what_the_page_says() {
    let sections = [
        ("Glue", glue::refusals()),
        ("S3 Tables", s3tables::refusals()),
        ("REST", rest::refusals()),
        ("SQLite", sqlite()),
    ];
    let tables = sections.iter().map(|(catalog, said)| format!("\n## {catalog}\n\n{}", table(said)));
    let page = HEAD.to_owned() + &tables.collect::<String>();
    #[expect(clippy::disallowed_methods, reason = "how a person asks for the page to be written anew")]
    if std::env::var_os("FRAZIL_BLESS").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    for Said { what, error, .. } in sections.iter().flat_map(|(_, said)| said) {
        assert_ne!(error["remedy"], "", "{what}: nobody is told what to do");
    }
    let kept = std::fs::read_to_string(PAGE).unwrap_or_default();
    for (made, kept) in page.lines().zip(kept.lines()) {
        assert_eq!(made, kept, "infra/docs/CATALOG-ERRORS.md says something else");
    }
    assert_eq!(page.lines().count(), kept.lines().count(), "infra/docs/CATALOG-ERRORS.md has other lines");
}

fn sqlite() -> Vec<Said> {
    let check = |what, catalog, files: &[(&str, &str)]| fold_at(&Case::new(what, catalog), "http://127.0.0.1:9", files);
    vec![
        check(
            "the file is none of SQLite's",
            "\"sqlite:notes.txt\"",
            &[("notes.txt", "these are notes, and no database")],
        ),
        check("the file is a folder", "\"sqlite:folder\"", &[("folder/x", "")]),
        check("its folder can't be made", "\"sqlite:file/catalog.db\"", &[("file", "")]),
    ]
}

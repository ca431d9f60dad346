//! What a script may rely on: one document, one exit code, nothing else on stdout; by command, for success and failure.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at what it did not expect")]

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use frazil::generator::{Generator, Options};
use frazil::host::Host;
use frazil::manners::exit::Exit;
use model::clock::SystemClock;
use model::id::SystemIds;
use serde_json::{Value, json};

#[cfg(feature = "aws")]
#[path = "manners/catalogs.rs"]
mod catalogs;
#[cfg(feature = "kafka")]
#[path = "manners/clients.rs"]
mod clients;
#[path = "manners/decisions.rs"]
mod decisions;
#[cfg(unix)]
#[path = "manners/files.rs"]
mod files;
#[path = "manners/init.rs"]
mod init;
#[path = "manners/join.rs"]
mod join;
#[path = "manners/planning.rs"]
mod planning;
#[path = "manners/process.rs"]
mod process;
#[cfg(feature = "kafka")]
#[path = "manners/produce.rs"]
mod produce;
#[path = "manners/samples.rs"]
mod samples;
#[path = "manners/schemas.rs"]
mod schemas;
#[path = "manners/sizing.rs"]
mod sizing;

/// A folder to run commands in.
struct Place {
    folder: tempfile::TempDir,
}

/// What a command left behind.
struct Left {
    exit: Exit,
    stdout: String,
    stderr: String,
}

impl Left {
    /// The one document.
    fn document(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {:?} {:?}", self.stdout, self.stderr))
    }

    fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A place with a pipeline, and nothing stored yet.
    fn with_pipeline() -> Self {
        let place = Self::new();
        place.write("dir/pipelines/employee.toml", include_str!("../demo/employee.toml"));
        place.write("dir/proto/employee.proto", include_str!("../../../proto/employee.proto"));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn run_with(&self, stdin: &str, arguments: &[&str]) -> Left {
        self.run_before(false, stdin, arguments)
    }

    /// Runs a command, before a person where there is a terminal.
    fn run_before(&self, terminal: bool, stdin: &str, arguments: &[&str]) -> Left {
        let (mut stdin, mut stdout, mut stderr) = (Cursor::new(stdin.as_bytes()), Vec::new(), Vec::new());
        let host = Host {
            stdin: &mut stdin,
            stdout: &mut stdout,
            stderr: &mut stderr,
            terminal,
            folder: self.folder.path().to_owned(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIds),
            variable: |name| (name == "SALT").then(|| "a salt of some length".to_owned()),
            log: |_| {},
            signals: frazil::host::Signals::default(),
        };
        let exit = frazil::run_on(host, std::iter::once("frazil").chain(arguments.iter().copied()));
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Left { exit, stdout: text(stdout), stderr: text(stderr) }
    }

    fn run(&self, arguments: &[&str]) -> Left {
        self.run_with("", arguments)
    }

    /// Runs under `--json --dir dir` and holds what is left to the envelope's rules.
    fn json(&self, arguments: &[&str]) -> (Exit, Value) {
        let left = self.run(&[arguments, &["--json", "--dir", "dir"]].concat());
        let document = left.document();
        assert_eq!(document["schema"], format!("frazil.{}/1", arguments[0]), "{document}");
        let ok = document["ok"].as_bool().unwrap();
        assert_eq!(ok, matches!(left.exit, Exit::Done | Exit::No), "{document}");
        if !ok {
            let error = document["error"].as_object().unwrap();
            let members: Vec<&str> = error.keys().map(String::as_str).collect();
            assert!(["kind", "code", "message", "where", "remedy"].iter().all(|m| members.contains(m)), "{members:?}");
            // Whoever meets it is told what to do: every failure that these tests make is looked at here.
            assert!(error["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "no remedy: {document}");
        }
        (left.exit, document)
    }

    /// Runs a command that must fail, and gives exit and code.
    fn refused(&self, arguments: &[&str]) -> (Exit, String) {
        let (exit, document) = self.json(arguments);
        assert_eq!(document["ok"], false, "{arguments:?}: {document}");
        (exit, document["error"]["code"].as_str().unwrap().to_owned())
    }

    fn done(&self, arguments: &[&str]) -> Value {
        let (exit, document) = self.json(arguments);
        assert_eq!(exit, Exit::Done, "{arguments:?}: {document}");
        document
    }
}

/// Every file under a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

fn events(records: u64, bad: f64) -> Vec<Vec<u8>> {
    let mut generator = Generator::new(Options { records, bad, seed: 3, dedup: false });
    std::iter::from_fn(|| generator.next_delivery()).map(|delivery| delivery.body).collect()
}

#[test]
fn a_command_line_that_is_not_understood_is_answered_in_the_form_asked_for() {
    let place = Place::new();
    for (arguments, schema) in [
        (&["fold", "--json", "--nonsense"][..], "frazil.fold/1"),
        (&["--json", "melt"], "frazil/1"),
        (&["query", "--json"], "frazil.query/1"),
        (&["decode", "--json", "--hex", "00", "--base64", "AA=="], "frazil.decode/1"),
        (&["demo", "--json", "--bad", "2"], "frazil.demo/1"),
        (&["--json"], "frazil/1"),
    ] {
        let left = place.run(arguments);
        let document = left.document();
        assert_eq!((left.exit, &document["schema"]), (Exit::Usage, &json!(schema)), "{arguments:?}");
        assert_eq!((&document["ok"], &document["error"]["kind"]), (&json!(false), &json!("misconfigured")));
        assert!(!document["error"]["message"].as_str().unwrap().contains("Usage:"), "{document}");
    }
    let left = place.run(&["fold", "--nonsense"]);
    assert_eq!((left.exit, left.stdout.as_str()), (Exit::Usage, ""));
    assert!(left.stderr.contains("--nonsense"));
    let left = place.run(&["--help"]);
    assert_eq!(left.exit, Exit::Done);
    let commands = [
        "demo",
        "check",
        "plan",
        "schema",
        "ingest",
        "fold",
        "decode",
        "query",
        "maintain",
        "pause",
        "unpause",
        "rollback",
        "recover",
        "cost",
        "size",
        "reset-source",
    ];
    for command in commands {
        assert!(left.stdout.contains(command));
    }
}

#[test]
fn help_and_version_are_one_document_too() {
    let place = Place::new();
    let version = place.run(&["--json", "--version"]);
    assert_eq!(
        (version.exit, version.document()),
        (Exit::Done, json!({"schema": "frazil/1", "ok": true, "version": env!("CARGO_PKG_VERSION")}))
    );
    assert_eq!(place.run(&["--version"]).stdout, format!("frazil {}\n", env!("CARGO_PKG_VERSION")));
    for (arguments, schema) in
        [(&["--help", "--json"][..], "frazil/1"), (&["fold", "--json", "--help"], "frazil.fold/1")]
    {
        let left = place.run(arguments);
        let document = left.document();
        assert_eq!((left.exit, &document["schema"], &document["ok"]), (Exit::Done, &json!(schema), &json!(true)));
        assert!(document["help"].as_str().unwrap().contains("Usage:"));
    }
}

#[test]
fn without_json_answers_are_text_and_failures_go_to_stderr() {
    let place = Place::with_pipeline();
    let left = place.run(&["query", "SELECT 1", "--dir", "dir"]);
    assert_eq!((left.exit, left.stdout.as_str()), (Exit::Usage, ""));
    assert!(left.stderr.starts_with("frazil: "), "{}", left.stderr);
    let left = place.run(&["fold", "--dir", "dir"]);
    assert_eq!(left.exit, Exit::Done, "{}", left.stderr);
    assert!(left.stdout.contains("nothing to add"));
}

#[test]
fn which_environment_and_pipeline_is_meant_is_never_guessed() {
    let place = Place::with_pipeline();
    let check = |arguments: &[&str], code: &str| {
        let left = place.run(&[arguments, &["--json"]].concat());
        assert_eq!((left.exit, left.document()["error"]["code"].as_str().unwrap()), (Exit::Usage, code));
    };
    check(&["fold", "--dir", "dir", "--env", "prod"], "environment.ambiguous");
    check(&["fold", "--env", "prod"], "config.unknown_environment");
    check(&["fold"], "config.unknown_pipeline");
    check(&["fold", "employees", "--dir", "dir"], "config.unknown_pipeline");
    // A slip in a folder's name makes no folder.
    check(&["fold", "dir/pipelines/employee.toml", "--dir", "dirr"], "environment.empty");
    assert!(!place.path("dirr").exists());
    place.write("dir/pipelines/other.toml", "x = 1");
    check(&["fold", "--dir", "dir"], "config.several_pipelines");
    check(&["fold", "other", "--dir", "dir"], "config.unknown_key");
    place.write("frazil.toml", "[env.local]\ndir = \"dir\"\n");
    let left = place.run(&["fold", "employee", "--json"]);
    assert_eq!(left.exit, Exit::Usage, "schema paths are relative to the project: {}", left.stdout);
    place.write("proto/employee.proto", include_str!("../../../proto/employee.proto"));
    assert_eq!(place.run(&["fold", "employee", "--json"]).exit, Exit::Done);
}

#[test]
fn a_demo_accounts_for_every_record_and_its_table_can_be_queried() {
    let place = Place::new();
    let demo = &["demo", "--records", "4000", "--bad", "0.01", "--folds", "3", "--seed", "7", "--truth", "truth.json"];
    let first = place.done(demo);
    let count = |name: &str| first[name].as_u64().unwrap();
    assert_eq!((count("records_sent"), count("bad_sent"), count("late_sent")), (4000, 40, 4));
    assert!(count("duplicates_sent") > 0);
    assert_eq!(count("rows_in_table"), 3960);
    assert_eq!(count("duplicates_dropped"), count("duplicates_sent"));
    assert_eq!((count("dead_letters"), count("snapshots")), (40, 3));
    assert!(
        first["ingest"]["records_per_second_per_core"].is_u64() && first["fold"]["rows_per_second_per_core"].is_u64()
    );
    let truth: Value = serde_json::from_slice(&std::fs::read(place.path("truth.json")).unwrap()).unwrap();
    assert_eq!(truth["rows"], 3960);

    let answer = place.done(&[
        "query",
        "SELECT count(*) AS n, count(DISTINCT _kafka_partition * 100000 + _kafka_offset) AS places, \
         min(start_date) AS first, count(age) AS ages FROM bigdata.employee",
    ]);
    let row = &answer["rows"][0];
    assert_eq!((&row["n"], &row["places"], &row["ages"]), (&json!(3960), &json!(3960), &json!(3960)));
    assert!(row["first"].as_str().unwrap().starts_with("2026-11-02T06:"), "late records are there: {row}");

    // Another demo takes the first one's place; its rows do not add up with the first one's.
    let second = place.done(demo);
    assert_eq!(second["rows_in_table"], 3960);
    assert_ne!(first["metadata_location"], second["metadata_location"]);
}

#[test]
fn a_demo_of_repeated_records_keeps_one_of_each_whatever_the_folds() {
    let place = Place::new();
    let mut tables = Vec::new();
    for folds in ["1", "7", "50", "130"] {
        let arguments = [
            "demo",
            "--mode",
            "dedup",
            "--records",
            "20000",
            "--bad",
            "0.001",
            "--folds",
            folds,
            "--truth",
            "truth.json",
        ];
        let document = place.done(&arguments);
        let count = |name: &str| document[name].as_u64().unwrap();
        assert_eq!((count("rows_in_table"), count("dead_letters")), (19_980, 20));
        // One in 500 was sent twice, and one event in 100 delivered twice.
        assert_eq!(count("duplicates_dropped"), count("duplicates_sent"));
        let repeated = place.done(&["query", "SELECT count(DISTINCT employee_id) AS n FROM employee"]);
        assert_eq!(repeated["rows"][0]["n"], 19_980);
        assert!(count("late_found") >= 15 && count("late_found") <= 20, "{document}");
        let rows = place.done(&[
            "query",
            "SELECT sum(employee_id * _kafka_offset) AS a, sum(_kafka_partition * employee_id) AS b, min(start_date) AS c FROM employee",
        ]);
        tables.push((document["late_found"].clone(), document["duplicates_dropped"].clone(), rows["rows"].clone()));
    }
    assert!(tables.iter().all(|table| *table == tables[0]), "{tables:#?}");
}

#[test]
fn a_demo_touches_no_folder_that_is_not_a_demos() {
    let place = Place::new();
    place.write("dir/thesis.txt", "years of work");
    assert_eq!(place.refused(&["demo", "--records", "10"]), (Exit::Usage, "demo.folder".to_owned()));
    assert_eq!(files(place.folder.path()), [place.path("dir/thesis.txt")]);
    let empty = Place::new();
    let document = empty.done(&["demo", "--dry-run"]);
    assert_eq!((&document["dry_run"], &document["replaces_earlier_demo"]), (&json!(true), &json!(false)));
    assert!(files(empty.folder.path()).is_empty());
}

#[test]
fn a_demo_in_an_environment_replaces_nothing() {
    let place = Place::new();
    let at = |name: &str| place.path(name).display().to_string();
    let toml = format!(
        "[env.box]\nstore = \"file://{}\"\nwarehouse = \"file://{}\"\ncatalog = \"sqlite:tables.db\"\n",
        at("store"),
        at("lake"),
    );
    place.write("frazil.toml", &toml);
    let run = |arguments: &[&str]| {
        let left = place.run(&[arguments, &["--json"]].concat());
        (left.exit, left.document())
    };
    let demo = &["demo", "--env", "box", "--records", "3000", "--bad", "0.01", "--folds", "2"];
    let (exit, dry) = run(&[&demo[..], &["--dry-run"]].concat());
    assert_eq!((exit, &dry["env"], &dry["dir"]), (Exit::Done, &json!("box"), &Value::Null));
    assert_eq!(files(place.folder.path()), [place.path("frazil.toml")], "a dry run writes nothing");
    let (exit, _) = run(&[&demo[..], &["--dir", "dir"]].concat());
    assert_eq!(exit, Exit::Usage);

    // A pipeline of the person's own is not the demo's.
    place.write("pipelines/employee.toml", "mine");
    let (exit, refused) = run(demo);
    assert_eq!((exit, &refused["error"]["code"]), (Exit::Usage, &json!("demo.environment")), "{refused}");
    assert_eq!(std::fs::read(place.path("pipelines/employee.toml")).unwrap(), b"mine");
    assert!(!place.path("store").exists() && !place.path("proto").exists());
    std::fs::remove_file(place.path("pipelines/employee.toml")).unwrap();

    let (exit, done) = run(demo);
    assert_eq!((exit, &done["rows_in_table"], &done["env"]), (Exit::Done, &json!(2970), &json!("box")), "{done}");
    assert!(done["metadata_location"].as_str().unwrap().starts_with(&format!("file://{}", at("lake"))));
    let (exit, fold) = run(&["fold", "employee", "--env", "box"]);
    assert_eq!((exit, &fold["tables"][0]["rows_added"]), (Exit::Done, &json!(0)), "{fold}");
    let (_, answer) = run(&["query", "SELECT count(*) AS n FROM bigdata.employee", "--env", "box"]);
    assert_eq!(answer["rows"][0]["n"], 2970);

    // The store holds its pipeline now; with that gone, the catalog its table.
    let before = files(place.folder.path());
    for held in ["called employee", "the demo's table"] {
        let (exit, refused) = run(demo);
        assert_eq!((exit, &refused["error"]["code"]), (Exit::Usage, &json!("demo.environment")));
        assert!(refused["error"]["message"].as_str().unwrap().contains(held), "{refused}");
        if held == "called employee" {
            assert_eq!(files(place.folder.path()), before);
            std::fs::remove_dir_all(place.path("store")).unwrap();
        }
    }
}

#[test]
fn an_event_is_staged_once_however_often_it_comes_and_a_dry_run_stages_nothing() {
    let place = Place::with_pipeline();
    let event = events(50, 0.04).remove(0);
    place.write("event.json", &event);
    let before = files(place.folder.path());
    let planned = place.done(&["ingest", "--event", "event.json", "--dry-run"]);
    assert_eq!(planned["dry_run"], true);
    assert_eq!(files(place.folder.path()), before);

    let first = place.done(&["ingest", "--event", "event.json"]);
    assert_eq!((&first["records"], &first["already_stored"]), (&planned["records"], &json!(false)));
    assert_eq!(first["response"], json!({"batchItemFailures": []}));
    let key = first["staged"][0].as_str().unwrap();
    assert!(place.path("dir").join(key).is_file());
    let second = place.done(&["ingest", "employee", "--event", "event.json"]);
    // In another minute the object is staged under another key, and the fold drops it.
    assert!(second["already_stored"] == true || second["staged"] != first["staged"]);

    let planned = place.done(&["fold", "--dry-run"]);
    assert_eq!((&planned["dry_run"], &planned["tables"][0]["committed"]), (&json!(true), &json!(false)));
    let folded = place.done(&["fold"]);
    let table = &folded["tables"][0];
    let good = first["records"].as_u64().unwrap() - first["dead_letters"].as_u64().unwrap();
    assert_eq!((&table["name"], &table["rows_added"]), (&json!("bigdata.employee"), &json!(good)));
    assert_eq!((&table["committed"], &folded["runs"], &folded["objects_left"]), (&json!(true), &json!(1), &json!(0)));
    let again = place.done(&["fold"]);
    assert_eq!((&again["tables"][0]["rows_added"], &again["tables"][0]["committed"]), (&json!(0), &json!(false)));
}

#[test]
fn columns_of_every_source_reach_the_table() {
    let place = Place::new();
    place.write("frazil.toml", "[env.local]\ndir = \"dir\"\npii_salt = \"env:SALT\"\n");
    place.write(
        "proto/shop.proto",
        "syntax = \"proto3\"; package shop; message Order { string mail = 1; repeated Line lines = 2; string kind = 3; }
         message Line { string sku = 1; int32 qty = 2; }",
    );
    place.write(
        "pipelines/orders.toml",
        r#"
        [source]
        topics = ["orders"]
        [value]
        format = "protobuf"
        framing = "bare"
        schema = { proto = "proto/shop.proto", message = "shop.Order" }
        filter = { field = "kind", in = ["sale"] }
        explode = "lines"
        [table]
        name = "db.orders"
        unknown_fields = "rest"
        [table.columns]
        sku = "lines.sku"
        qty = { from = "lines.qty", max = 9 }
        text = { from = "@key", type = "string" }
        raw = "@key"
        city = { from = "@header.city", type = "string" }
        mail = { pii = "hash" }
        end = { from = "mail", pii = "last4" }
        kind = { pii = "drop" }
        "#,
    );
    // kind "sale", mail "a@example.com", field 9 = 1
    let record = "\u{1a}\u{4}sale\n\u{d}a@example.comH\u{1}";
    let value = |lines: &str| base64_simd::STANDARD.encode_to_string(format!("{record}{lines}"));
    let event = json!({"eventSource": "aws:kafka", "eventSourceArn": "arn:aws:kafka:eu-west-1:1:cluster/demo/0", "records": {"orders-0": [
        {"offset": 1, "timestamp": 1, "key": "azE=", "headers": [{"city": [66]}],
         "value": value("\u{12}\u{3}\n\u{1}x\u{12}\u{5}\n\u{1}y\u{10}\u{2}")},
        {"offset": 2, "timestamp": 1, "value": value("")},
        {"offset": 3, "timestamp": 1, "value": value("\u{12}\u{2}\u{10}\u{a}")},
        {"offset": 4, "timestamp": 1, "value": ""},
    ]}});
    place.write("event.json", event.to_string());
    let run = |arguments: &[&str]| {
        let left = place.run(&[arguments, &["--json"]].concat());
        assert_eq!(left.exit, Exit::Done, "{}", left.stdout);
        left.document()
    };
    let staged = run(&["ingest", "--event", "event.json"]);
    assert_eq!((&staged["dead_letters"], &staged["filtered"]), (&json!(1), &json!({"filter": 1, "explode": 1})));
    assert_eq!(run(&["fold"])["tables"][0]["rows_added"], 2);
    let answer = run(&[
        "query",
        "SELECT sku, qty, text, raw, city, \"end\", _rest, mail, _kafka_offset FROM db.orders ORDER BY sku",
    ]);
    let rows = answer["rows"].as_array().unwrap();
    let hash = rows[0]["mail"].as_str().unwrap();
    let row = |sku: &str, qty: i32| {
        json!({"sku": sku, "qty": qty, "text": "k1", "raw": "azE=", "city": "B", "end": ".com", "_rest": [{"key": "9", "value": "SAE="}],
               "mail": hash, "_kafka_offset": 1})
    };
    assert_eq!(rows, &[row("x", 0), row("y", 2)]);
    assert_eq!(hash.len(), 64);
    let none = run(&["query", "SELECT * FROM db.orders LIMIT 0"]);
    assert!(none["columns"].as_array().unwrap().iter().all(|column| column["name"] != "kind"));
}

#[test]
fn an_event_that_can_not_be_used_says_why() {
    let place = Place::with_pipeline();
    assert_eq!(place.refused(&["ingest", "--event", "absent.json"]), (Exit::Usage, "ingest.event_file".to_owned()));
    for body in ["", "{", "[]", "{\"records\":1}"] {
        place.write("event.json", body);
        let (exit, code) = place.refused(&["ingest", "--event", "event.json"]);
        assert_eq!((code.as_str(), exit.code() > 0), ("ingest.event", true), "{body}");
    }
    let foreign = String::from_utf8(events(20, 0.0).remove(0)).unwrap().replace("protobuf-demo-topic-pure", "other");
    place.write("event.json", foreign);
    assert_eq!(place.refused(&["ingest", "--event", "event.json"]), (Exit::Usage, "ingest.foreign_topics".to_owned()));
    let left = place.run_with("{", &["ingest", "--event", "-", "--json", "--dir", "dir"]);
    assert_eq!(left.document()["error"]["code"], "ingest.event");
}

#[test]
fn a_paused_pipeline_is_tried_again_later() {
    let place = Place::with_pipeline();
    place.write("event.json", events(20, 0.0).remove(0));
    place.write("dir/pipelines/employee/paused.json", r#"{"why":"rolled back"}"#);
    for body in [r#"{"why":"rolled back"}"#, "what?"] {
        place.write("dir/pipelines/employee/paused.json", body);
        let said = [&["ingest", "--event", "event.json"][..], &["fold"]].map(|arguments| {
            let (exit, document) = place.json(arguments);
            assert_eq!((exit, &document["error"]["code"]), (Exit::TryAgain, &json!("fold.paused")));
            document["error"].clone()
        });
        assert_eq!(said[0], said[1], "a pause says one thing, whoever meets it");
        assert_eq!(said[0]["message"].as_str().unwrap().contains("can't be read"), body == "what?");
    }
    std::fs::remove_file(place.path("dir/pipelines/employee/paused.json")).unwrap();
    place.done(&["ingest", "--event", "event.json"]);
    place.done(&["fold"]);
}

#[test]
fn a_staged_object_that_can_not_be_read_is_an_answer_of_no() {
    let place = Place::with_pipeline();
    place.write("event.json", events(20, 0.0).remove(0));
    let staged = place.done(&["ingest", "--event", "event.json"])["staged"][0].as_str().unwrap().to_owned();
    let object = place.path("dir").join(&staged);
    let mut bytes = std::fs::read(&object).unwrap();
    bytes.truncate(bytes.len() / 2);
    std::fs::write(&object, bytes).unwrap();
    let (exit, document) = place.json(&["fold"]);
    assert_eq!((exit, &document["ok"], &document["tables"][0]["rows_added"]), (Exit::No, &json!(true), &json!(0)));
    assert!(document["quarantined"].to_string().contains(&staged), "{document}");
    assert_eq!(place.json(&["fold", "--dry-run"]).0, Exit::No);
}

#[test]
fn a_query_reads_and_does_nothing_else() {
    let place = Place::new();
    assert_eq!(place.refused(&["query", "SELECT 1"]), (Exit::Usage, "environment.empty".to_owned()));
    place.done(&["demo", "--records", "200", "--bad", "0"]);
    place.write("data.csv", "a\n1\n");
    let before = files(place.folder.path());
    for (sql, code) in [
        ("SELECT * FROM bigdata.employees", "query.unknown_table"),
        ("SELECT * FROM nowhere.employee", "query.unknown_table"),
        ("SELECT salary FROM bigdata.employee", "query.unknown_column"),
        ("SELECT * FROM 'data.csv'", "query.unknown_table"),
        ("SELECT", "query.sql"),
        ("SELEC 1", "query.sql"),
        ("", "query.sql"),
        ("DROP TABLE bigdata.employee", "query.read_only"),
        ("DELETE FROM bigdata.employee", "query.read_only"),
        ("INSERT INTO bigdata.employee SELECT * FROM bigdata.employee", "query.read_only"),
        ("CREATE TABLE x AS SELECT 1", "query.read_only"),
        ("CREATE EXTERNAL TABLE x STORED AS CSV LOCATION 'data.csv'", "query.read_only"),
        ("COPY bigdata.employee TO 'stolen.csv'", "query.read_only"),
        ("EXPLAIN ANALYZE COPY bigdata.employee TO 'stolen.csv'", "query.read_only"),
        ("SET datafusion.catalog.information_schema = false", "query.read_only"),
    ] {
        let (exit, found) = place.refused(&["query", sql]);
        assert_eq!((exit, found.as_str()), (Exit::Usage, code), "{sql}");
    }
    let two = place.refused(&["query", "SELECT 1; DROP TABLE bigdata.employee"]);
    assert_eq!(two.0, Exit::Usage);
    let nested = format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000));
    assert_eq!(place.refused(&["query", &nested]).0, Exit::Usage);
    let chained = format!("SELECT 1{}", "+1".repeat(10_000));
    assert_eq!(place.refused(&["query", &chained]).0, Exit::Usage);
    assert_eq!(files(place.folder.path()), before);
}

#[test]
fn a_querys_answer_is_the_same_in_every_format() {
    let place = Place::new();
    place.done(&["demo", "--records", "200", "--bad", "0"]);
    let sql = "SELECT 'a\"b' AS text, employee_id, NULL AS nothing, '' AS empty FROM bigdata.employee \
               ORDER BY _kafka_partition, _kafka_offset LIMIT 1";
    let document = place.done(&["query", sql]);
    let columns: Vec<&str> =
        document["columns"].as_array().unwrap().iter().map(|c| c["type"].as_str().unwrap()).collect();
    assert_eq!(columns, ["string", "long", "null", "string"]);
    let row = &document["rows"][0];
    let id = row["employee_id"].as_u64().unwrap();
    assert_eq!(row, &json!({"text": "a\"b", "employee_id": id, "nothing": null, "empty": ""}));
    let run = |format: &str| place.run(&["query", sql, "--dir", "dir", "--format", format]).stdout;
    assert_eq!(&serde_json::from_str::<Value>(&run("jsonl")).unwrap(), row);
    assert_eq!(serde_json::from_str::<Value>(&run("json")).unwrap()["rows"][0], *row);
    assert_eq!(run("csv"), format!("text,employee_id,nothing,empty\r\n\"a\"\"b\",{id},,\"\"\r\n"));
    assert!(run("table").contains(&id.to_string()) && run("table").contains("NULL"));

    let none = place.done(&["query", "SELECT name FROM employee WHERE employee_id < 0"]);
    assert_eq!((&none["rows"], &none["columns"][0]["name"]), (&json!([]), &json!("name")));
    let twice = place.refused(&["query", "SELECT * FROM employee a JOIN employee b ON false"]);
    assert_eq!(twice, (Exit::Usage, "query.value".to_owned()));
    assert_eq!(place.refused(&["query", "SELECT 1", "--format", "csv"]).0, Exit::Usage);
    let tables = place.done(&["query", "SHOW TABLES"]);
    assert!(tables["rows"].to_string().contains("employee"));
}

#[test]
fn a_filter_finds_the_same_rows_whether_files_are_left_out_or_not() {
    let place = Place::new();
    place.done(&["demo", "--records", "3000", "--bad", "0"]);
    for condition in [
        "employee_id = 5",
        "employee_id BETWEEN 100 AND 20000",
        "start_date < TIMESTAMP '2026-11-02T09:00:00Z'",
        "team = 'Solutions Architects' AND age IN (1, 2, 3)",
        "team <> 'Solutions Architects'",
        "age IS NULL OR employee_id > 99000",
        "name LIKE 'Dummy1%' AND employee_id < 50000",
    ] {
        let count = |condition: &str| {
            let sql = format!("SELECT count(*) AS n FROM employee WHERE {condition}");
            place.done(&["query", &sql])["rows"][0]["n"].as_u64().unwrap()
        };
        // The same condition where no file can be left out by it: inside a CASE it is no plain comparison.
        let opaque = format!("CASE WHEN {condition} THEN 1 ELSE 0 END = 1");
        assert_eq!(count(condition), count(&opaque), "{condition}");
    }
}

#[test]
fn a_table_without_rows_is_a_table() {
    let place = Place::with_pipeline();
    let event = events(20, 1.0).remove(0);
    place.write("event.json", &event);
    let staged = place.done(&["ingest", "--event", "event.json"]);
    assert_eq!(staged["records"], staged["dead_letters"]);
    let table = &place.done(&["fold"])["tables"][0];
    assert_eq!((&table["rows_added"], &table["dead_letters"]), (&json!(0), &staged["dead_letters"]));
    assert_eq!(place.done(&["query", "SELECT count(*) AS n FROM employee"])["rows"], json!([{"n": 0}]));
    assert_eq!(place.done(&["query", "SELECT name FROM employee WHERE age > 3 LIMIT 5"])["rows"], json!([]));
}

#[test]
fn an_interrupted_command_says_so_in_the_form_asked_for() {
    let check = |arguments: &[&str]| {
        let arguments: Vec<std::ffi::OsString> = arguments.iter().map(Into::into).collect();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        assert_eq!(frazil::interrupted(&arguments, &mut stdout, &mut stderr).code(), 130);
        (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    };
    let (stdout, stderr) = check(&["frazil", "fold", "--json"]);
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&document["schema"], &document["ok"]), (&json!("frazil.fold/1"), &json!(false)));
    assert_eq!((&document["error"]["code"], stderr.as_str()), (&json!("interrupted"), ""));
    let (stdout, stderr) = check(&["frazil", "fold"]);
    assert_eq!((stdout.as_str(), stderr.contains("interrupted")), ("", true));
}

#[test]
fn a_payload_is_decoded_as_the_pipeline_would() {
    let place = Place::with_pipeline();
    let full = "0805 120644756d6d7937 2a0408011000 22020803 32030a0141 3802";
    let document = place.done(&["decode", "--hex", full]);
    let row = &document["rows"][0];
    assert_eq!((&row["employee_id"], &row["name"], &row["age"]), (&json!(5), &json!("Dummy7"), &json!(3)));
    assert_eq!((&row["start_date"], &row["role"]), (&json!("1970-01-01T00:00:01.000000Z"), &json!("ARCHITECT")));
    let empty = place.done(&["decode", "--hex", ""]);
    assert_eq!((&empty["rows"][0]["employee_id"], &empty["rows"][0]["age"]), (&json!(0), &json!(null)));
    assert!(empty["rows"][0].as_object().unwrap().contains_key("start_date"), "nulls are there: {empty}");
    let tombstone = place.done(&["decode", "--null"]);
    assert_eq!((&tombstone["tombstone"], &tombstone["rows"]), (&json!(true), &json!([])));

    let (exit, dead) = place.json(&["decode", "--hex", "1203ff"]);
    assert_eq!((exit, &dead["dead_letter"]["class"]), (Exit::No, &json!("truncated")));
    let (exit, dead) = place.json(&["decode", "--base64", "EgH/"]);
    assert_eq!((exit, &dead["dead_letter"]["class"]), (Exit::No, &json!("invalid_utf8")));
    assert_eq!(dead["dead_letter"]["path"], "name");
    assert!(dead.get("rows").is_none());

    assert_eq!(place.refused(&["decode", "--hex", "0g"]), (Exit::Usage, "decode.hex".to_owned()));
    assert_eq!(place.refused(&["decode", "--file", "absent"]), (Exit::Usage, "decode.file".to_owned()));
    assert_eq!(place.refused(&["decode", "--hex", "", "--header", "x"]), (Exit::Usage, "decode.header".to_owned()));
    place.write("payload", [0x08, 0x05]);
    assert_eq!(place.done(&["decode", "--file", "payload"])["rows"][0]["employee_id"], 5);
    assert_eq!(files(&place.path("dir")).len(), 2, "nothing was stored");
}

#[test]
fn a_key_and_headers_are_decoded_with_their_value() {
    let place = Place::with_pipeline();
    let columns =
        "\n[table.columns.k]\nfrom = \"@key\"\ntype = \"string\"\n[table.columns.city]\nfrom = \"@header.city\"\n";
    place.write("dir/pipelines/employee.toml", format!("{}{columns}", include_str!("../demo/employee.toml")));
    let row = &place.done(&["decode", "--hex", "0805", "--key-hex", "6b31", "--header", "city=00ff"])["rows"][0];
    assert_eq!((&row["employee_id"], &row["k"], &row["city"]), (&json!(5), &json!("k1"), &json!("AP8=")));
    let (exit, dead) = place.json(&["decode", "--hex", "0805", "--key-hex", "ff"]);
    assert_eq!((exit, &dead["dead_letter"]["path"]), (Exit::No, &json!("@key")));
    let stdin = "0805\n{\"key\":\"azI=\",\"value\":\"CAU=\",\"headers\":[{\"city\":[65]}]}\n";
    let lines = place.run_with(stdin, &["decode", "--dir", "dir"]).lines();
    assert_eq!((&lines[0]["rows"][0]["k"], &lines[1]["rows"][0]["k"]), (&json!(null), &json!("k2")));
    assert_eq!(lines[1]["rows"][0]["city"], "QQ==");
}

#[test]
fn hashed_values_take_a_salt_that_is_never_shown() {
    let place = Place::with_pipeline();
    let file = include_str!("../demo/employee.toml").replace("name = \"name\"", "name = { pii = \"hash\" }");
    place.write("dir/pipelines/employee.toml", &file);
    assert_eq!(place.refused(&["decode", "--hex", "1200"]), (Exit::Usage, "environment.pii_salt".to_owned()));
    place.write("pipelines/employee.toml", &file);
    place.write("proto/employee.proto", include_str!("../../../proto/employee.proto"));
    place.write(
        "frazil.toml",
        "[env.a]\ndir = \"dir\"\npii_salt = \"env:SALT\"\n[env.b]\ndir = \"dir\"\npii_salt = \"env:UNSET\"\n",
    );
    let left = place.run(&["decode", "--hex", "120141", "--json", "--env", "a"]);
    let hash = left.document()["rows"][0]["name"].as_str().unwrap().to_owned();
    assert_eq!((left.exit, hash.len(), left.stdout.contains("a salt")), (Exit::Done, 64, false));
    let left = place.run(&["decode", "--hex", "120141", "--json", "--env", "b"]);
    assert_eq!((left.exit, &left.document()["error"]["code"]), (Exit::Usage, &json!("environment.pii_salt")));
}

#[test]
fn a_record_that_the_filter_leaves_out_is_no_dead_letter() {
    let place = Place::with_pipeline();
    let filter = "keep_raw = false\nfilter = { field = \"role\", in = [\"ARCHITECT\"] }\n[table]\n";
    place.write("dir/pipelines/employee.toml", include_str!("../demo/employee.toml").replace("[table]\n", filter));
    let document = place.done(&["decode", "--hex", "0805"]);
    assert_eq!((&document["filtered"], &document["rows"]), (&json!("filter"), &json!([])));
    assert_eq!(place.done(&["decode", "--hex", "08053802"])["rows"][0]["employee_id"], 5);
    assert_eq!(place.json(&["decode", "--hex", "1203ff"]).1["dead_letter"]["class"], "truncated");
}

#[test]
fn lines_of_stdin_are_answered_one_by_one() {
    let place = Place::with_pipeline();
    let stdin = "0805\n\n1203ff\nnot hex\n{\"value\":\"CAU=\",\"offset\":7}\n{\"value\":null}\n";
    let left = place.run_with(stdin, &["decode", "--dir", "dir"]);
    let lines = left.lines();
    assert_eq!(lines.len(), 5);
    assert!(lines.iter().all(|line| line["schema"] == "frazil.decode/1"));
    assert_eq!(lines[0]["rows"][0]["employee_id"], 5);
    assert_eq!(lines[1]["dead_letter"]["class"], "truncated");
    assert_eq!((&lines[2]["ok"], &lines[2]["error"]["where"]), (&json!(false), &json!("stdin:4")));
    assert_eq!(lines[3]["rows"][0]["employee_id"], 5);
    assert_eq!(lines[4]["tombstone"], true);
    assert_eq!(left.exit, Exit::Usage, "the worst of them");
}

#[test]
fn every_type_has_one_form_in_rows() {
    let place = Place::new();
    place.write(
        "dir/proto/all.proto",
        "syntax = \"proto3\"; package p; import \"google/protobuf/timestamp.proto\";
         message All { int64 big = 1; uint64 huge = 2; double d = 3; float f = 4; bytes raw = 5; map<string, int32> m = 6;
           google.protobuf.Timestamp at = 7; optional string maybe = 8; repeated int32 n = 9; Inner inner = 10;
           message Inner { bool ok = 1; } }",
    );
    place.write(
        "dir/pipelines/all.toml",
        "[source]\ntopics = [\"t\"]\n[value]\nformat = \"protobuf\"\nframing = \"bare\"\n\
         schema = { proto = \"proto/all.proto\", message = \"p.All\" }\n[table]\nname = \"db.all\"\nmode = \"append\"\n",
    );
    let payload = "0880808080808080808001 10ffffffffffffffffff01 19000000000000f87f 250000807f 2a0200ff \
                   320e0a016b10ffffffffffffffffff01 3a00 4a020102 52020801";
    let left = place.run(&["decode", "--hex", payload, "--json", "--dir", "dir"]);
    let row = r#"{"big":-9223372036854775808,"huge":"18446744073709551615","d":"NaN","f":"Infinity","raw":"AP8=","m":[{"key":"k","value":-1}],"at":"1970-01-01T00:00:00.000000Z","maybe":null,"n":[1,2],"inner":{"ok":true}}"#;
    assert_eq!(left.stdout, format!("{{\"schema\":\"frazil.decode/1\",\"ok\":true,\"rows\":[{row}]}}\n"));
}

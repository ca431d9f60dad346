//! The built function against a small Lambda runtime interface on loopback.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// How long the function may take for one event before the test gives up on it.
const PATIENCE: Duration = Duration::from_secs(30);

/// One answer of the function: the path it was posted to, and its body.
type Answer = (String, Value);

/// A runtime interface (developer guide, "Using the Lambda runtime API for custom runtimes") that hands out what it is
/// given and passes on what comes back.
struct RuntimeInterface {
    address: String,
    events: Sender<String>,
    answers: Receiver<Answer>,
}

impl RuntimeInterface {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (events, next) = channel();
        let (post, answers) = channel();
        let next = Arc::new(Mutex::new(next));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (next, post) = (next.clone(), post.clone());
                // A connection ends when the function does; nobody waits for these threads.
                std::thread::spawn(move || serve(stream.unwrap(), &next, &post));
            }
        });
        Self { address, events, answers }
    }

    fn invoke(&self, event: &str) -> Answer {
        self.events.send(event.to_owned()).unwrap();
        self.answers.recv_timeout(PATIENCE).expect("the function answers")
    }
}

fn serve(stream: TcpStream, next: &Mutex<Receiver<String>>, post: &Sender<Answer>) -> Option<()> {
    let mut write = stream.try_clone().ok()?;
    let mut read = BufReader::new(stream);
    loop {
        let mut request = String::new();
        read.read_line(&mut request).ok().filter(|&n| n > 0)?;
        let mut length = 0;
        loop {
            let mut header = String::new();
            read.read_line(&mut header).ok().filter(|&n| n > 0)?;
            let Some((name, value)) = header.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        read.read_exact(&mut body).ok()?;
        let mut words = request.split(' ');
        let (method, path) = (words.next()?, words.next()?.to_owned());
        let (status, extra, body) = if method == "GET" {
            let event = next.lock().ok()?.recv().ok()?;
            // Far away: the year 2100.
            let extra = "Lambda-Runtime-Aws-Request-Id: r-1\r\nLambda-Runtime-Deadline-Ms: 4102444800000\r\n";
            ("200 OK", extra, event)
        } else {
            post.send((path, serde_json::from_slice(&body).unwrap())).ok()?;
            ("202 Accepted", "", String::new())
        };
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{extra}\r\n", body.len());
        write.write_all(head.as_bytes()).ok()?;
        write.write_all(body.as_bytes()).ok()?;
    }
}

/// The function's process; ended with the test.
struct Function(Child);

impl Drop for Function {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn command(folder: &Path, interface: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ingest"));
    command
        .env_clear()
        .env("AWS_LAMBDA_RUNTIME_API", interface)
        .env("AWS_LAMBDA_FUNCTION_NAME", "ingest")
        .env("AWS_LAMBDA_FUNCTION_VERSION", "1")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
        .env("FRAZIL_STORE", format!("file://{}/store", folder.display()))
        .env("FRAZIL_PIPELINE", folder.join("pipelines/people.toml"))
        .env("FRAZIL_PIPELINE_ID", "people-00ff00ff")
        .stderr(Stdio::null());
    command
}

fn project(folder: &Path) {
    for (name, text) in [
        (
            "pipelines/people.toml",
            r#"
            [source]
            topics = ["people"]
            [value]
            format = "protobuf"
            framing = "bare"
            schema = { proto = "schemas/people.proto", message = "Person" }
            [table]
            name = "demo.people"
            mode = "append"
            "#,
        ),
        ("schemas/people.proto", r#"syntax = "proto3"; message Person { int32 id = 1; string name = 2; }"#),
    ] {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

fn keys(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.join("store/staging")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push(path.display().to_string()) }
        }
    }
    found
}

#[test]
fn an_event_becomes_an_object_and_a_foreign_one_an_error_that_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    project(folder.path());
    let interface = RuntimeInterface::start();
    let _function = Function(command(folder.path(), &interface.address).spawn().unwrap());
    let event = |offset: i64| {
        let record =
            json!({"topic": "people", "partition": 0, "offset": offset, "timestamp": -1, "value": "CAcSA0FkYQ=="});
        let arn = "arn:aws:kafka:eu-west-1:123456789012:cluster/demo/0a1b2c3d-2";
        json!({"eventSource": "aws:kafka", "eventSourceArn": arn, "records": {"people-0": [record]}}).to_string()
    };
    let stored = json!({"batchItemFailures": []});
    let answered = "/2018-06-01/runtime/invocation/r-1/response".to_owned();
    assert_eq!(interface.invoke(&event(4)), (answered.clone(), stored.clone()));
    assert_eq!(keys(folder.path()).len(), 1);

    let (path, error) = interface.invoke(r#"{"Records":[{"eventSource":"aws:s3"}]}"#);
    assert_eq!(path, "/2018-06-01/runtime/invocation/r-1/error");
    assert_eq!(error["errorType"], "misconfigured");
    assert!(error["errorMessage"].as_str().unwrap().contains("not an event of a Kafka topic"), "{error}");
    let (path, error) = interface.invoke(event(5).get(..80).unwrap());
    assert_eq!((path.as_str(), &error["errorType"]), ("/2018-06-01/runtime/invocation/r-1/error", &json!("corrupt")));
    assert_eq!(keys(folder.path()).len(), 1);

    assert_eq!(interface.invoke(&event(5)), (answered, stored));
    assert_eq!(keys(folder.path()).len(), 2);
}

#[test]
fn wrong_settings_are_told_together_before_the_first_event() {
    let folder = tempfile::tempdir().unwrap();
    let output = command(folder.path(), "127.0.0.1:1")
        .env("FRAZIL_STORE", "s3://bucket")
        .env("FRAZIL_PIPELINE_ID", "people")
        .env("FRAZIL_LOG_FORMAT", "text")
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    for part in ["FRAZIL_STORE: ", "s3://", "FRAZIL_PIPELINE_ID: "] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

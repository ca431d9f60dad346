//! A registry that speaks HTTP, as the environment names it.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use base64_simd::STANDARD;
use model::failure::Kind;
use pipeline::environment::{Registry, SecretReference};
use serde_json::json;
use staging::dead_letter::Class;

use crate::topic::{Topic, all};

const PROTO: &str = "syntax = \"proto3\"; message M { int32 n = 1; }";
const FRAMED: &str = "format = \"protobuf\"\nframing = \"confluent\"\n";

/// What it answers from now on, and what it was asked: the path, and who asked.
#[derive(Default)]
struct Service {
    status: Mutex<u16>,
    asked: Mutex<Vec<(String, String)>>,
}

/// A service on loopback, which knows the id 1 and the subject `m`.
fn service() -> (Arc<Service>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let service = Arc::new(Service { status: Mutex::new(200), ..Service::default() });
    let known = Arc::clone(&service);
    // It ends with the process: nobody waits for it.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let path = lines.next().unwrap().unwrap().split(' ').nth(1).unwrap().to_owned();
            let head: Vec<String> = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let who = head
                .iter()
                .find_map(|line| line.to_lowercase().starts_with("authorization: ").then(|| line[15..].to_owned()));
            let status = *known.status.lock().unwrap();
            let (status, body) = match path.as_str() {
                _ if status != 200 => (status, json!({"error_code": status, "message": "no"})),
                "/schemas/ids/1" | "/subjects/m/versions/latest" => {
                    (200, json!({"schemaType": "PROTOBUF", "schema": PROTO, "version": 3, "id": 1, "subject": "m"}))
                }
                _ => (404, json!({"error_code": 40403, "message": "Schema not found"})),
            };
            known.asked.lock().unwrap().push((path, who.unwrap_or_default()));
            let body = body.to_string();
            let head = format!(
                "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            // Whoever asked may be gone.
            let _sent = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    (service, url)
}

fn registry(url: &str, secret: Option<&str>) -> Registry {
    let secret = secret.map(|name| SecretReference::Env(name.to_owned()));
    Registry::Confluent { url: url.to_owned(), secret, ca: None, certificate: None }
}

#[tokio::test]
async fn a_service_is_asked_once_and_as_whoever_the_environment_says() {
    let (service, url) = service();
    let value = format!("{FRAMED}schema = {{ registry = \"main\", name = \"m\" }}");
    let topic = Topic::at(registry(&url, Some("AUTH")), &[], &value).await.unwrap();
    topic.handle(all(&["00 00000001 00 0807", "00 00000001 00 0808", "00 00000063 00"])).await.unwrap();
    assert_eq!(
        (topic.rows(), topic.dead()),
        (vec!["0: n=7".to_owned(), "1: n=8".to_owned()], vec![(2, Class::UnknownSchema)])
    );
    assert_eq!(topic.footer().schemas[0].version, 3);
    let asked = service.asked.lock().unwrap().clone();
    let expected = [
        "/subjects/m/versions/latest",
        "/schemas/ids/1",
        "/schemas/ids/99",
        "/schemas/ids/99",
        "/schemas/ids/99",
        "/subjects/m/versions",
    ];
    let mut paths: Vec<&str> = asked.iter().map(|(path, _)| path.as_str()).collect();
    // Those of one event are asked for at once.
    paths[1..].sort_unstable();
    assert_eq!(paths, expected);
    let who = format!("Basic {}", STANDARD.encode_to_string("ann:a salt of some length"));
    assert!(asked.iter().all(|(_, found)| *found == who));
}

#[tokio::test]
async fn an_outage_fails_events_until_it_is_over_and_no_record_is_lost() {
    let (service, url) = service();
    let value = format!("{FRAMED}schema = {{ proto = \"schemas/m.proto\", message = \"M\" }}");
    let files = [("schemas/m.proto", PROTO)];
    let topic = Topic::at(registry(&url, None), &files, &value).await.unwrap();
    for (status, kind) in
        [(503, Kind::Retry), (401, Kind::Misconfigured), (403, Kind::Misconfigured), (302, Kind::Corrupt)]
    {
        *service.status.lock().unwrap() = status;
        let error = topic.handle(all(&["00 00000001 00 0807"])).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(topic.store.under("").is_empty());
    }
    *service.status.lock().unwrap() = 200;
    topic.handle(all(&["00 00000001 00 0807"])).await.unwrap();
    assert_eq!((topic.rows(), topic.dead()), (vec!["0: n=7".to_owned()], Vec::new()));
}

#[tokio::test]
async fn what_is_missing_of_a_registrys_settings_is_said_without_a_secret() {
    let value = format!("{FRAMED}schema = {{ proto = \"schemas/m.proto\", message = \"M\" }}");
    let check = async |registry: Registry, words: &str| {
        let error = Topic::at(registry, &[("schemas/m.proto", PROTO)], &value).await.err().unwrap();
        assert_eq!(error.kind(), Kind::Misconfigured);
        let text = error.to_string();
        assert!(text.contains(words) && text.contains("`main`") && !text.contains("a salt of"), "{text}");
    };
    let (_, url) = service();
    check(registry(&url, Some("NOT_SET")), "`NOT_SET` is not set").await;
    let with = |ca: Option<&str>, certificate: Option<&str>| Registry::Confluent {
        url: url.clone(),
        secret: None,
        ca: ca.map(Into::into),
        certificate: certificate.map(|path| (path.into(), SecretReference::Env("KEY".to_owned()))),
    };
    check(with(Some("/nowhere/ca.pem"), None), "/nowhere/ca.pem can't be read").await;
    check(with(None, Some("/nowhere/own.pem")), "/nowhere/own.pem can't be read").await;
}

//! A registry of Confluent's kind, as it answers and as it fails.

#![expect(clippy::unwrap_used, reason = "all of it is test code")]

mod server;

use std::sync::Arc;
use std::time::Duration;

use model::failure::Kind as Failure;
use model::secret::Secret;
use registry::confluent::{Confluent, Credentials, Identity, Settings, SetupError};
use registry::{Error, Import, Kind, Naming, Reference, Registered, Registrar as _, Source as _, Wanted};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use server::{Answer, OWN, Server};
use tokio_rustls::TlsAcceptor;
use uuid::Uuid;

const GUID: u128 = 0xf0e1_d2c3_b4a5_9687_7869_5a4b_3c2d_1e0f;

fn id(id: u32) -> Wanted {
    Reference::ConfluentId(id).into()
}

fn say(body: &Value) -> Answer {
    Answer::Say(200, OWN, body.to_string())
}

fn not_there(code: u32) -> Answer {
    Answer::Say(404, OWN, json!({ "error_code": code, "message": "not found" }).to_string())
}

fn plain(server: &Server) -> Confluent {
    Confluent::new(&Settings::new("sr", format!("http://127.0.0.1:{}/api/", server.port))).unwrap()
}

fn path(head: &str) -> &str {
    head.split(' ').nth(1).unwrap()
}

#[tokio::test]
async fn schemas_come_with_all_that_they_refer_to() {
    // main refers to a and b, a to b, b to c, c back to a.
    let server = Server::start(None, |head| match path(head) {
        "/api/schemas/ids/1" => say(&json!({ "schema": "\"string\"" })),
        "/api/schemas/ids/2" => say(&json!({
            "schema": "main", "schemaType": "PROTOBUF", "somethingNew": 1,
            "references": [
                { "name": "a.proto", "subject": "a/of:us", "version": 3 },
                { "name": "b.proto", "subject": "b", "version": 1 },
            ],
        })),
        "/api/subjects/a%2Fof%3Aus/versions/3?deleted=true" => say(&json!({
            "subject": "a/of:us", "version": 3, "id": 5, "schema": "a", "schemaType": "PROTOBUF",
            "references": [{ "name": "b.proto", "subject": "b", "version": 1 }],
        })),
        "/api/subjects/b/versions/1?deleted=true" => say(&json!({
            "schema": "b", "schemaType": "PROTOBUF", "references": [{ "name": "c.proto", "subject": "c", "version": 1 }],
        })),
        "/api/subjects/c/versions/1?deleted=true" => say(&json!({
            "schema": "c", "schemaType": "PROTOBUF", "references": [{ "name": "a.proto", "subject": "a", "version": 1 }],
        })),
        "/api/schemas/guids/f0e1d2c3-b4a5-9687-7869-5a4b3c2d1e0f" => say(&json!({ "schema": "{}", "schemaType": "JSON" })),
        "/api/subjects/orders-value/versions" => say(&json!([1, 7])),
        "/api/subjects/orders-value/versions/1" => say(&json!({ "schema": "\"long\"", "version": 1, "id": 3 })),
        "/api/subjects/orders-value/versions/latest" => say(&json!({ "schema": "\"int\"", "version": 7, "id": 9 })),
        _ => not_there(40403),
    })
    .await;
    let registry = plain(&server);
    let check = async |wanted: Wanted, kind, text: &str, imports: &[(&str, &str)], version| {
        let imports = imports.iter().map(|(name, text)| Import { name: (*name).to_owned(), text: (*text).to_owned() });
        let expected = Registered { kind, text: text.to_owned(), imports: imports.collect(), version };
        assert_eq!(registry.schema(&wanted).await, Ok(expected));
    };
    check(id(1), Kind::Avro, "\"string\"", &[], None).await;
    check(id(2), Kind::Protobuf, "main", &[("c.proto", "c"), ("b.proto", "b"), ("a.proto", "a")], None).await;
    assert_eq!(server.paths().len(), 5);
    check(Reference::ConfluentGuid(Uuid::from_u128(GUID)).into(), Kind::Json, "{}", &[], None).await;
    check(Wanted::Latest("orders-value".to_owned()), Kind::Avro, "\"int\"", &[], Some(7)).await;
    check(Wanted::Version("orders-value".to_owned(), 1), Kind::Avro, "\"long\"", &[], Some(1)).await;
    assert_eq!(registry.versions("orders-value").await, Ok(vec![1, 7]));
    assert!(matches!(registry.versions("others").await, Err(Error::NotFound { .. })));
    assert!(matches!(registry.schema(&id(3)).await, Err(Error::NotFound { .. })));
    let head = server.requests().remove(0).to_lowercase();
    assert!(
        head.contains("accept: application/vnd.schemaregistry.v1+json, ") && !head.contains("authorization"),
        "{head}"
    );
    for wanted in [Reference::GlueVersion(Uuid::nil()), Reference::AvroFingerprint(1)] {
        assert!(!registry.keeps(&wanted.into()));
    }
}

#[tokio::test]
async fn only_the_registry_itself_says_that_a_schema_is_not_there() {
    let check = async |answer: Answer, expected: Failure, words: &str| {
        let said = answer.clone();
        let server = Server::start(None, move |_| said.clone()).await;
        let settings = Settings {
            timeout: Duration::from_millis(300),
            ..Settings::new("sr", format!("http://127.0.0.1:{}", server.port))
        };
        let error = Confluent::new(&settings).unwrap().schema(&id(42)).await.unwrap_err();
        assert_eq!(error.kind(), expected, "{answer:?}: {error}");
        let text = error.to_string();
        assert!(text.contains(words) && text.contains("`sr`") && text.contains("id 42"), "{text}");
    };
    let text = |status, body: &str| Answer::Say(status, OWN, body.to_owned());
    for code in [40401, 40402, 40403] {
        check(not_there(code), Failure::Poison, "not known").await;
    }
    // Another path, another server, a proxy's page, a page that says it's fine.
    check(not_there(404), Failure::Corrupt, "code 404: not found").await;
    check(text(404, "{}"), Failure::Corrupt, "is the URL right?").await;
    check(Answer::Say(404, "text/html", "<p>no</p>".to_owned()), Failure::Corrupt, "`text/html`").await;
    check(Answer::Say(200, "text/html; charset=utf-8", "<p>hi</p>".to_owned()), Failure::Corrupt, "is the URL right?")
        .await;
    check(Answer::Head(200, "x: y"), Failure::Corrupt, "nothing that it names").await;
    check(Answer::Head(302, "location: http://127.0.0.1:1/"), Failure::Corrupt, "elsewhere").await;
    check(text(200, "{\"schema\": 1}"), Failure::Corrupt, "no schema").await;
    check(text(200, "{\"schema\": \"se"), Failure::Corrupt, "no schema").await;
    check(text(200, "{\"schema\":\"x\",\"schemaType\":\"THRIFT\"}"), Failure::Corrupt, "`THRIFT`").await;
    check(text(422, "{\"error_code\":42202,\"message\":\"a\\nb\"}"), Failure::Corrupt, "code 42202: a b").await;
    check(text(200, &format!("{{\"schema\":\"{}\"}}", "x".repeat(9 << 20))), Failure::Corrupt, "bytes").await;
    check(text(200, &format!("{{\"schema\":\"{}\"}}", "x".repeat((4 << 20) + 1))), Failure::Corrupt, "bytes").await;
    check(text(401, "{}"), Failure::Misconfigured, "HTTP 401").await;
    check(text(403, "{}"), Failure::Misconfigured, "HTTP 403").await;
    for status in [408, 429, 500, 502, 503] {
        check(text(status, "{\"error_code\":40403}"), Failure::Retry, "it answers HTTP").await;
    }
    check(Answer::HangUp, Failure::Retry, "could not be asked").await;
    check(Answer::BreakOff, Failure::Retry, "broke off").await;
    check(Answer::Nothing, Failure::Retry, "within 300 ms").await;
    // Nobody listens there any more.
    let port = Server::start(None, |_| Answer::Nothing).await.port;
    let error = Confluent::new(&Settings::new("sr", format!("http://127.0.0.1:{port}"))).unwrap().schema(&id(1)).await;
    assert!(matches!(error, Err(Error::Outage { .. })), "{error:?}");
}

#[tokio::test]
async fn references_that_lead_nowhere_are_no_schema() {
    let check = async |references: Value, answer: fn(&str) -> Answer, words: &str| {
        let server = Server::start(None, move |head| match path(head) {
            "/api/schemas/ids/1" => say(&json!({ "schema": "x", "references": references })),
            path => answer(path),
        })
        .await;
        let error = plain(&server).schema(&id(1)).await.unwrap_err();
        assert!(matches!(error, Error::Garbage { .. }) && error.to_string().contains(words), "{error}");
        assert!(server.paths().len() <= 201);
    };
    let one = json!([{ "name": "n", "subject": "s", "version": 1 }]);
    check(one.clone(), |_| not_there(40402), "version 1 of `s`, which is not there").await;
    check(one.clone(), |_| say(&json!({ "schema": "y", "schemaType": "JSON" })), "of Avro, and `s` of JSON").await;
    check(json!([{ "name": "n" }]), |_| not_there(40401), "no schema").await;
    // Each refers to another, for ever.
    let endless = |path: &str| {
        let name = format!("{path}x").replace(['/', '?', '='], "");
        say(&json!({ "schema": "y", "references": [{ "name": name, "subject": name, "version": 1 }] }))
    };
    check(one, endless, "deeper than 16").await;
    let many: Vec<_> = (0..300).map(|n| json!({ "name": n.to_string(), "subject": "s", "version": 1 })).collect();
    check(json!(many), |_| say(&json!({ "schema": "y" })), "more than 200").await;
}

fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes())
}

#[tokio::test]
async fn credentials_are_sent_and_never_shown() {
    let server = Server::start(None, |head| {
        let authorized = head.lines().any(|line| line.eq_ignore_ascii_case("authorization: Basic dXNlcjpwYTpzcw=="));
        if authorized { say(&json!({ "schema": "x" })) } else { Answer::Head(401, "www-authenticate: Basic") }
    })
    .await;
    for (text, lets_in) in
        [("user:pa:ss", true), ("{\"username\":\"user\",\"password\":\"pa:ss\"}", true), ("user:swordfish", false)]
    {
        let credentials = Some(Credentials::parse(&secret(text)).unwrap());
        let settings = Settings { credentials, ..Settings::new("sr", format!("http://127.0.0.1:{}", server.port)) };
        let registry = Confluent::new(&settings).unwrap();
        let answer = registry.schema(&id(1)).await;
        assert_eq!(answer.is_ok(), lets_in, "{answer:?}");
        let shown = format!("{settings:?} {registry:?} {answer:?}");
        assert!(!shown.contains("pa:ss") && !shown.contains("swordfish") && !shown.contains("dXNl"), "{shown}");
    }
    for text in ["user", ":pass", "", "{\"username\":\"user\"}", "{\"username\":\"a:b\",\"password\":\"p\"}"] {
        assert_eq!(Credentials::parse(&secret(text)).err(), Some(SetupError::Credentials), "{text}");
    }
}

#[tokio::test]
async fn what_a_registry_was_shown_is_not_repeated() {
    // What stands in the header, and what stands in it.
    for repeated in ["hunter2secret", "YW5uOmh1bnRlcjJzZWNyZXQ="] {
        let said = json!({"error_code": 42202, "message": format!("not with {repeated}")}).to_string();
        let server = Server::start(None, move |_| Answer::Say(422, OWN, said.clone())).await;
        let settings = Settings {
            credentials: Some(Credentials::parse(&secret("ann:hunter2secret")).unwrap()),
            ..Settings::new("sr", format!("http://127.0.0.1:{}", server.port))
        };
        let told = Confluent::new(&settings).unwrap().schema(&id(42)).await.unwrap_err().to_string();
        assert!(told.contains("not with") && !told.contains(repeated), "{told}");
    }
}

#[test]
fn a_url_is_of_a_registry_and_holds_no_credentials() {
    let check = |url: &str, words: &str| {
        let error = Confluent::new(&Settings::new("sr", url)).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains("hunter2"), "{error}");
    };
    check("https://user:hunter2@registry.example.com", "holds credentials");
    check("https://hunter2@registry.example.com", "holds credentials");
    check("registry.example.com:8081/hunter2", "http");
    check("hunter2", "not a URL");
    check("ftp://registry.example.com", "http");
    check("https://", "not a URL");
    check("https://registry.example.com/?password=hunter2", "query");
    check("https://registry.example.com/#hunter2", "fragment");
}

macro_rules! pem {
    ($name:literal) => {
        include_bytes!(concat!("tls/", $name, ".pem")).as_slice()
    };
}

fn acceptor(asks_for_certificate: bool) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem!("authority")).unwrap()).unwrap();
    let config =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
    let config = if asks_for_certificate {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        config.with_client_cert_verifier(verifier)
    } else {
        config.with_no_client_auth()
    };
    let chain = vec![CertificateDer::from_pem_slice(pem!("server")).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(pem!("server.key")).unwrap();
    TlsAcceptor::from(Arc::new(config.with_single_cert(chain, key).unwrap()))
}

#[tokio::test]
async fn certificates_are_checked_on_both_sides() {
    let own = Identity { chain_pem: pem!("client").to_vec(), key_pem: Secret::new(pem!("client.key")) };
    for asks in [false, true] {
        let server = Server::start(Some(acceptor(asks)), |_| say(&json!({ "schema": "x" }))).await;
        let check = async |trusted: Option<&[u8]>, identity: Option<Identity>, lets_in: bool| {
            let url = format!("https://127.0.0.1:{}", server.port);
            let trusted_pem = trusted.map(<[u8]>::to_vec);
            let settings = Settings { trusted_pem, identity, ..Settings::new("sr", url) };
            let answer = Confluent::new(&settings).unwrap().schema(&id(1)).await;
            assert_eq!(answer.is_ok(), lets_in, "{asks}: {answer:?}");
            if let Err(error) = answer {
                assert!(matches!(error, Error::Denied { .. }) && error.to_string().contains("trust"), "{error}");
            }
        };
        check(Some(pem!("authority")), Some(own.clone()), true).await;
        check(Some(&[pem!("stranger"), pem!("authority")].concat()), Some(own.clone()), true).await;
        check(Some(pem!("stranger")), Some(own.clone()), false).await;
        check(None, Some(own.clone()), false).await;
        check(Some(pem!("authority")), None, !asks).await;
    }
}

#[test]
fn a_certificate_that_is_none_is_said_at_once() {
    let check = |settings: Settings, words: &str| {
        let error = Confluent::new(&settings).unwrap_err();
        assert!(error.to_string().contains(words) && error.kind() == Failure::Misconfigured, "{error}");
    };
    let settings = || Settings::new("sr", "https://registry.example.com");
    let identity = |chain: &[u8], key: &[u8]| Some(Identity { chain_pem: chain.to_vec(), key_pem: Secret::new(key) });
    check(Settings { trusted_pem: Some(Vec::new()), ..settings() }, "trusted certificates can't be used: there is no");
    check(Settings { trusted_pem: Some(pem!("client.key").to_vec()), ..settings() }, "there is no certificate");
    check(Settings { identity: identity(b"", pem!("client.key")), ..settings() }, "client certificate can't be used");
    check(Settings { identity: identity(pem!("client"), b"hunter2"), ..settings() }, "client key can't be used");
    check(Settings { identity: identity(pem!("client"), pem!("server.key")), ..settings() }, "client certificate");
}

/// A registry that takes everything and counts, but for what it knows or does not want.
fn counting(head: &str) -> Answer {
    let (first, body) = head.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let known = body["schema"].as_str().unwrap().len() as u32;
    match path(first) {
        "/api/subjects/odd/versions" => {
            Answer::Say(409, OWN, json!({"error_code": 409, "message": "incompatible"}).to_string())
        }
        "/api/subjects/odd" | "/api/subjects/none" => not_there(40403),
        "/api/subjects/a.proto" if body["schema"] == "message Changed {}" => not_there(40403),
        // It looks at the text alone.
        "/api/subjects/blind" => say(&json!({"id": 1, "version": 1, "references": []})),
        "/api/subjects/wrong" => Answer::Say(404, "text/html", "<html>".to_owned()),
        path if path.ends_with("/versions") => say(&json!({ "id": known })),
        _ => say(&json!({"subject": "s", "id": known, "version": known + 1, "schema": "x"})),
    }
}

#[tokio::test]
async fn a_schema_goes_in_behind_what_it_imports() {
    let server = Server::start(None, counting).await;
    let import = |name: &str, text: &str| Import { name: name.to_owned(), text: text.to_owned() };
    let schema = Registered {
        kind: Kind::Protobuf,
        text: "import \"a.proto\"; message M {}".to_owned(),
        imports: vec![import("p/b.proto", "message B {}"), import("a.proto", "import \"p/b.proto\";")],
        version: None,
    };
    let registry = plain(&server);
    let id = Reference::ConfluentId(schema.text.len() as u32);
    assert_eq!(registry.register("t-value", &schema, Naming::Number).await, Ok(id));
    let sent: Vec<(String, Value)> = server
        .requests()
        .iter()
        .map(|request| request.split_once("\r\n\r\n").unwrap())
        .map(|(head, body)| (path(head).replace("/api/subjects/", ""), serde_json::from_str(body).unwrap()))
        .collect();
    let paths: Vec<&str> = sent.iter().map(|(path, _)| path.as_str()).collect();
    let expected =
        ["p%2Fb.proto/versions", "p%2Fb.proto", "a.proto/versions", "a.proto", "t-value/versions", "t-value"];
    assert_eq!(paths, expected);
    let of = |name: &str, text: &str| json!({"name": name, "subject": name, "version": text.len() + 1});
    assert_eq!(sent[0].1, json!({"schema": "message B {}", "schemaType": "PROTOBUF"}));
    assert_eq!(sent[2].1["references"], json!([of("p/b.proto", "message B {}")]));
    assert_eq!(sent[4].1["references"], json!([of("a.proto", "import \"p/b.proto\";")]));
    // Looked for, nothing is added.
    let server = Server::start(None, counting).await;
    assert_eq!(plain(&server).find("t-value", &schema, Naming::Number).await, Ok(Some(id)));
    assert!(server.paths().iter().all(|path| !path.ends_with("/versions")), "{:?}", server.paths());
    // With another import it is another schema, also where the registry does not say so.
    let mut changed = schema.clone();
    changed.imports = vec![import("a.proto", "message Changed {}")];
    assert_eq!(plain(&server).find("t-value", &changed, Naming::Number).await, Ok(None));
    assert_eq!(plain(&server).find("blind", &schema, Naming::Number).await, Ok(None));
    let refused = plain(&server).register("blind", &schema, Naming::Number).await;
    assert!(matches!(refused, Err(Error::Garbage { .. })), "{refused:?}");
}

#[tokio::test]
async fn what_a_registry_does_not_take_or_have_is_told_apart() {
    let server = Server::start(None, counting).await;
    let registry = plain(&server);
    let schema = Registered { kind: Kind::Avro, text: "\"int\"".to_owned(), imports: Vec::new(), version: None };
    assert_eq!(registry.find("none", &schema, Naming::Number).await, Ok(None));
    assert_eq!(registry.find("odd", &schema, Naming::Number).await, Ok(None));
    let refused = registry.register("odd", &schema, Naming::Number).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the registry `sr` does not take the schema as `odd`: HTTP 409, code 409: incompatible"
    );
    assert_eq!(refused.kind(), Failure::Misconfigured);
    let wrong = registry.find("wrong", &schema, Naming::Number).await;
    assert!(matches!(wrong, Err(Error::Garbage { .. })), "{wrong:?}");
    let other = registry.find("t", &schema, Naming::Fingerprint(1)).await;
    assert!(matches!(other, Err(Error::Refused { .. })), "{other:?}");
    let referring = Registered { imports: vec![Import { name: "a.B".to_owned(), text: "{}".to_owned() }], ..schema };
    let refused = registry.register("t", &referring, Naming::Number).await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
}

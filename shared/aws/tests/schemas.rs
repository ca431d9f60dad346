//! The Glue Schema Registry, as it answers and as it fails.

#![expect(clippy::unwrap_used, reason = "all of it is test code")]

#[expect(dead_code, reason = "it has more than these tests ask for")]
mod fake;

use std::time::Duration;

use aws::schemas::{Access, GlueSchemas};
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};
use aws_sdk_glue::Client;
use aws_sdk_glue::config::retry::RetryConfig;
use aws_sdk_glue::config::timeout::TimeoutConfig;
use aws_sdk_glue::config::{BehaviorVersion, Builder, Credentials, Region};
use fake::{Answer, Server};
use model::failure::Kind as Failure;
use registry::{Error, Kind, Naming, Reference, Registered, Registrar as _, Source as _, Wanted};
use uuid::Uuid;

const JSON: &str = "content-type: application/x-amz-json-1.1\r\n";
const ID: Uuid = Uuid::from_u128(0x5c0f_fee5_0000_4000_8000_0000_0000_00b2);

fn schemas(endpoint: &str, registry_name: Option<&str>) -> GlueSchemas {
    let access =
        Access { name: "main".to_owned(), registry_name: registry_name.map(str::to_owned), ..Access::default() };
    GlueSchemas::with(Client::from_conf(config(endpoint).build()), access)
}

fn config(endpoint: &str) -> Builder {
    let timeouts = TimeoutConfig::builder().operation_timeout(Duration::from_millis(500)).build();
    Builder::new()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .endpoint_url(endpoint)
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts)
        .credentials_provider(Credentials::new("test", "hunter2", None, None, "test"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
}

fn wanted() -> Wanted {
    Reference::GlueVersion(ID).into()
}

#[tokio::test]
async fn a_version_is_its_text() {
    let check = async |body: &str, registry: Option<&str>, expected: Result<(Kind, Option<u32>), Failure>| {
        let said = body.to_owned();
        let server = Server::start(move |_, _| Answer::Say(200, JSON, said.clone())).await;
        let found = schemas(&server.endpoint, registry).schema(&wanted()).await;
        let expected =
            expected.map(|(kind, version)| Registered { kind, text: "text".to_owned(), imports: Vec::new(), version });
        assert_eq!(found.map_err(|error| error.kind()), expected, "{body}");
        let requests = server.requests();
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].header("x-amz-target"), Some("AWSGlue.GetSchemaVersion"));
    };
    let arn = "\"SchemaArn\":\"arn:aws:glue:eu-west-1:123456789012:schema/ours/n\"";
    let of = |format: &str| {
        format!("{{\"SchemaDefinition\":\"text\",\"DataFormat\":\"{format}\",\"VersionNumber\":3,{arn}}}")
    };
    check(&of("AVRO"), None, Ok((Kind::Avro, Some(3)))).await;
    check(&of("PROTOBUF"), Some("ours"), Ok((Kind::Protobuf, Some(3)))).await;
    check(&of("JSON"), None, Ok((Kind::Json, Some(3)))).await;
    check(&of("JSON"), Some("theirs"), Err(Failure::Poison)).await;
    check("{\"SchemaDefinition\":\"text\",\"DataFormat\":\"AVRO\"}", Some("ours"), Ok((Kind::Avro, None))).await;
    check(&of("THRIFT"), None, Err(Failure::Corrupt)).await;
    check("{\"SchemaDefinition\":\"text\"}", None, Err(Failure::Corrupt)).await;
    check("{\"DataFormat\":\"AVRO\"}", None, Err(Failure::Corrupt)).await;
    check("<html>", None, Err(Failure::Corrupt)).await;
}

/// They are numbered, and may be asked for by number: to list them would take another permission.
#[tokio::test]
async fn the_versions_of_a_schema_are_numbered_up_to_the_newest() {
    let say = |version: u32, status: &str| {
        let body = format!(
            "{{\"SchemaDefinition\":\"text\",\"DataFormat\":\"AVRO\",\"VersionNumber\":{version},\"Status\":\"{status}\"}}"
        );
        Answer::Say(200, JSON, body)
    };
    let server = Server::start(move |nth, _| match nth {
        2 => say(2, "FAILURE"),
        _ => say(3, "AVAILABLE"),
    })
    .await;
    let glue = schemas(&server.endpoint, Some("ours"));
    assert_eq!(glue.versions("n").await, Ok(vec![1, 2, 3]));
    let version = async |number| glue.schema(&Wanted::Version("n".to_owned(), number)).await.map(|found| found.version);
    assert_eq!(version(3).await, Ok(Some(3)));
    assert!(matches!(version(2).await, Err(Error::NotFound { .. })), "nothing was ever written with it");
}

#[tokio::test]
async fn failures_are_told_apart() {
    let check = async |answer: fn() -> Answer, expected: Failure, words: &str| {
        let server = Server::start(move |_, _| answer()).await;
        let schemas = schemas(&server.endpoint, None);
        let error = schemas.schema(&wanted()).await.unwrap_err();
        assert_eq!(error.kind(), expected, "{error}");
        let text = format!("{error} {error:?} {schemas:?}");
        assert!(text.contains(words) && text.contains("`main`") && !text.contains("hunter2"), "{text}");
    };
    macro_rules! refusal {
        ($status:literal, $code:literal) => {
            || Answer::Say($status, JSON, format!("{{\"__type\":\"{}\",\"Message\":\"in Glue's words\"}}", $code))
        };
    }
    check(refusal!(400, "EntityNotFoundException"), Failure::Poison, "not known").await;
    check(refusal!(400, "AccessDeniedException"), Failure::Misconfigured, "in Glue's words").await;
    check(refusal!(403, "SomethingNewException"), Failure::Misconfigured, "SomethingNew").await;
    check(refusal!(400, "UnrecognizedClientException"), Failure::Misconfigured, "UnrecognizedClient").await;
    check(refusal!(400, "ExpiredTokenException"), Failure::Misconfigured, "ExpiredToken").await;
    check(refusal!(400, "ThrottlingException"), Failure::Retry, "Throttling").await;
    check(refusal!(500, "InternalServiceException"), Failure::Retry, "HTTP 500").await;
    check(refusal!(400, "InvalidInputException"), Failure::Corrupt, "InvalidInput").await;
    check(|| Answer::Say(502, "content-type: text/html\r\n", "<html>".to_owned()), Failure::Retry, "502").await;
    check(|| Answer::HangUp, Failure::Retry, "could not be reached").await;
    check(|| Answer::Cut(200, JSON, "{\"SchemaDefinition\":\"text\"}".to_owned()), Failure::Retry, "").await;
}

#[tokio::test]
async fn no_answer_is_a_time_out() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let error = schemas(&endpoint, None).schema(&wanted()).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    drop(listener);
    let error = schemas(&endpoint, None).schema(&wanted()).await.unwrap_err();
    assert!(matches!(error, Error::Outage { .. }), "{error}");
}

/// Credentials that can't be had, and why.
#[derive(Debug)]
struct Without(fn() -> CredentialsError);

impl ProvideCredentials for Without {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(Err((self.0)()))
    }
}

#[tokio::test]
async fn without_credentials_nothing_is_asked() {
    let check = async |why: fn() -> CredentialsError, role: Option<&str>, expected: Failure, words: &str| {
        let server = Server::start(|_, _| Answer::HangUp).await;
        let config = config(&server.endpoint).credentials_provider(Without(why)).build();
        let access = Access { name: "main".to_owned(), assume_role: role.map(str::to_owned), ..Access::default() };
        let error = GlueSchemas::with(Client::from_conf(config), access).schema(&wanted()).await.unwrap_err();
        assert!(error.kind() == expected && error.to_string().contains(words), "{error}");
        assert!(server.requests().is_empty());
    };
    let refused = || CredentialsError::provider_error("not authorized to perform sts:AssumeRole");
    check(refused, Some("arn:r"), Failure::Misconfigured, "the role arn:r can't be assumed: ").await;
    check(refused, Some("arn:r"), Failure::Misconfigured, "sts:AssumeRole").await;
    check(CredentialsError::not_loaded_no_source, None, Failure::Misconfigured, "could not be had").await;
    check(|| CredentialsError::provider_timed_out(Duration::from_secs(1)), None, Failure::Retry, "in time").await;
}

#[test]
fn what_is_no_version_of_glues_is_not_asked_for() {
    let schemas = schemas("http://127.0.0.1:1", None);
    assert!(schemas.keeps(&wanted()) && schemas.keeps(&Wanted::Latest("n".to_owned())));
    for other in [Reference::ConfluentId(1), Reference::ConfluentGuid(ID), Reference::AvroFingerprint(1)] {
        assert!(!schemas.keeps(&other.into()));
    }
}

#[tokio::test]
async fn a_schema_that_is_not_there_is_made_and_waited_for() {
    const MISSING: &str = "{\"__type\":\"EntityNotFoundException\",\"Message\":\"no\"}";
    let id = format!("\"SchemaVersionId\":\"{ID}\"");
    let schema = Registered { kind: Kind::Avro, text: "\"int\"".to_owned(), imports: Vec::new(), version: None };
    let naming = Naming::Version(Uuid::nil());
    // Each answer to its operation, by how often it was asked.
    let check = async |answers: Vec<(&'static str, u16, String)>, expected: Result<(), &str>| {
        let told = answers.clone();
        let server = Server::start(move |n, _| {
            let (_, status, body) = told[n].clone();
            Answer::Say(status, JSON, body)
        })
        .await;
        let found = schemas(&server.endpoint, Some("ours")).register("t", &schema, naming).await;
        match (found, expected) {
            (Ok(found), Ok(())) => assert_eq!(found, Reference::GlueVersion(ID)),
            (Err(Error::Refused { message, .. }), Err(words)) => assert!(message.contains(words), "{message}"),
            (found, _) => panic!("{answers:?}: {found:?}"),
        }
        let asked: Vec<String> =
            server.requests().iter().map(|r| r.header("x-amz-target").unwrap().replace("AWSGlue.", "")).collect();
        assert_eq!(asked, answers.iter().map(|(operation, ..)| *operation).collect::<Vec<_>>());
    };
    let by_definition = |status: u16, body: &str| ("GetSchemaByDefinition", status, body.to_owned());
    let version = |status: &str| ("GetSchemaVersion", 200, format!("{{{id},\"Status\":\"{status}\"}}"));
    check(vec![by_definition(200, &format!("{{{id},\"Status\":\"AVAILABLE\"}}"))], Ok(())).await;
    let absent = || by_definition(400, MISSING);
    let put = ("RegisterSchemaVersion", 200, format!("{{{id}}}"));
    check(vec![absent(), put.clone(), version("PENDING"), version("AVAILABLE")], Ok(())).await;
    check(vec![absent(), put, version("FAILURE")], Err("not compatible")).await;
    let none = ("RegisterSchemaVersion", 400, MISSING.to_owned());
    let made = ("CreateSchema", 200, format!("{{{id}}}"));
    check(vec![absent(), none.clone(), made, version("AVAILABLE")], Ok(())).await;
    let no_registry = ("CreateSchema", 400, MISSING.to_owned());
    check(vec![absent(), none, no_registry], Err("EntityNotFoundException: no")).await;

    let server =
        Server::start(|_, _| Answer::Say(403, JSON, "{\"__type\":\"AccessDeniedException\"}".to_owned())).await;
    let denied = schemas(&server.endpoint, None).find("t", &schema, naming).await;
    assert!(matches!(denied, Err(Error::Denied { .. })), "{denied:?}");
    let numbers = schemas(&server.endpoint, None).register("t", &schema, Naming::Number).await;
    assert!(matches!(numbers, Err(Error::Refused { .. })), "{numbers:?}");
}

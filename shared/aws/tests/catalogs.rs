//! Catalogs as they answer and as they fail: what each answer to a commit means, and how often it is asked.

#![expect(clippy::unwrap_used, reason = "all of it is test code")]

#[expect(dead_code, reason = "it has more than these tests ask for")]
mod fake;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws::catalog::glue::{Access, GlueCatalog};
use aws::catalog::rest::{Auth, RestCatalog, Settings};
use aws::catalog::s3tables::{S3TablesCatalog, TableBucket};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_glue::Client;
use aws_sdk_glue::config::retry::RetryConfig;
use aws_sdk_glue::config::timeout::TimeoutConfig;
use aws_sdk_glue::config::{BehaviorVersion, Builder, Credentials, Region};
use aws_sigv4::http_request::{PayloadChecksumKind, SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use fake::{Answer, Request, Server};
use iceberg::TableUpdate;
use iceberg::io::FileIO;
use model::clock::{Clock as _, ManualClock, Timestamp};
use model::failure::Kind;
use model::id::SeededIds;
use model::secret::Secret;
use table::catalog::{Catalog, Error, Loaded, TableName, metadata};
use testkit::catalog::contract;

const AMZ: &str = "content-type: application/x-amz-json-1.1\r\n";
const JSON: &str = "content-type: application/json\r\n";

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)))
}

fn name() -> TableName {
    TableName { namespace: "ns".to_owned(), name: "t".to_owned() }
}

/// A table whose metadata is in memory.
async fn table(io: &FileIO) -> Loaded {
    let made = metadata::create(contract::creation(), "memory:/ns/t".to_owned(), clock().now(), &SeededIds::new(1));
    let made = made.unwrap();
    made.write(io).await.unwrap();
    made.loaded(name())
}

fn set() -> Vec<TableUpdate> {
    vec![TableUpdate::SetProperties { updates: [("a".to_owned(), "1".to_owned())].into() }]
}

fn glue(endpoint: &str, io: &FileIO) -> GlueCatalog {
    let timeouts = TimeoutConfig::builder().operation_timeout(Duration::from_millis(500)).build();
    let config = Builder::new()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .endpoint_url(endpoint)
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts)
        .credentials_provider(Credentials::new("test", "hunter2", None, None, "test"))
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    let access = Access { warehouse: "memory:/".to_owned(), ..Access::default() };
    GlueCatalog::with(Client::from_conf(config.build()), access, io.clone(), clock(), Arc::new(SeededIds::new(2)))
}

fn refusal(code: &str) -> String {
    format!("{{\"__type\":\"{code}\",\"Message\":\"in Glue's words\"}}")
}

/// A commit to Glue, whose `UpdateTable` is answered so.
async fn to_glue(answer: impl Fn() -> Answer + Send + Sync + 'static) -> Result<Loaded, Error> {
    let io = FileIO::new_with_memory();
    let base = table(&io).await;
    let parameters = format!("{{\"table_type\":\"ICEBERG\",\"metadata_location\":\"{}\"}}", base.metadata_location);
    let entry = format!("{{\"Table\":{{\"Name\":\"t\",\"VersionId\":\"41\",\"Parameters\":{parameters}}}}}");
    let server = Server::start(move |_, request: &Request| match request.header("x-amz-target") {
        Some("AWSGlue.GetTable") => Answer::Say(200, AMZ, entry.clone()),
        _ => answer(),
    })
    .await;
    let outcome = glue(&server.endpoint, &io).commit(&base, vec![], set()).await;
    let requests = server.requests();
    assert_eq!(requests.len(), 2, "one look and one attempt");
    let sent: serde_json::Value = serde_json::from_slice(&requests[1].content).unwrap();
    assert_eq!((&sent["VersionId"], &sent["SkipArchive"]), (&"41".into(), &true.into()));
    outcome
}

#[tokio::test]
async fn a_swap_in_glue_says_what_came_of_it() {
    let check = async |status: u16, code: &'static str, expected: Kind, words: &str| {
        let error = to_glue(move || Answer::Say(status, AMZ, refusal(code))).await.unwrap_err();
        assert_eq!(error.kind(), expected, "{code}");
        assert!(error.to_string().contains(words), "{code}: {error}");
    };
    check(400, "ConcurrentModificationException", Kind::Conflict, "has changed").await;
    check(400, "EntityNotFoundException", Kind::Conflict, "no longer in the catalog").await;
    check(400, "ThrottlingException", Kind::Retry, "in Glue's words").await;
    check(400, "AccessDeniedException", Kind::Misconfigured, "glue:UpdateTable").await;
    check(400, "ExpiredTokenException", Kind::Misconfigured, "credentials").await;
    check(400, "InvalidInputException", Kind::Misconfigured, "in Glue's words").await;
    check(400, "OperationTimeoutException", Kind::OutcomeUnknown, "in Glue's words").await;
    check(500, "InternalServiceException", Kind::OutcomeUnknown, "in Glue's words").await;
    check(503, "ServiceUnavailable", Kind::OutcomeUnknown, "503").await;
    assert_eq!(to_glue(|| Answer::HangUp).await.unwrap_err().kind(), Kind::OutcomeUnknown);
    assert!(to_glue(|| Answer::Say(200, AMZ, "{}".to_owned())).await.is_ok());

    // Something said yes in a way that nobody can read: that is no refusal, and no table either.
    let server = Server::start(|_, _| Answer::Say(200, AMZ, "{\"Table\":5}".to_owned())).await;
    let error = glue(&server.endpoint, &FileIO::new_with_memory()).load(&name()).await.unwrap_err();
    assert_eq!((error.kind(), error.to_string().contains("can't be read")), (Kind::Retry, true), "{error}");
}

#[tokio::test]
async fn glue_that_is_not_there_was_asked_nothing() {
    let io = FileIO::new_with_memory();
    let base = table(&io).await;
    // A port on which nobody listens.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = glue(&format!("http://{free}"), &io).commit(&base, vec![], set()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Retry, "{error}");
}

const LAKE: &str = "arn:aws:s3tables:eu-west-1:111122223333:bucket/lake";
const ENTRY: &str = "/tables/arn%3Aaws%3As3tables%3Aeu-west-1%3A111122223333%3Abucket%2Flake/ns/t/metadata-location";

fn s3tables(endpoint: &str, io: &FileIO) -> S3TablesCatalog {
    let timeouts = TimeoutConfig::builder().operation_timeout(Duration::from_millis(500)).build();
    let config = aws_sdk_s3tables::config::Builder::new()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .endpoint_url(endpoint)
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts)
        .credentials_provider(Credentials::new("test", "hunter2", None, None, "test"))
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    let bucket = TableBucket { arn: LAKE.to_owned(), region: "eu-west-1".to_owned() };
    let client = aws_sdk_s3tables::Client::from_conf(config.build());
    S3TablesCatalog::with(client, bucket, io.clone(), clock(), Arc::new(SeededIds::new(2)))
}

/// A refusal by S3 Tables.
fn no(status: u16, code: &str) -> Answer {
    Answer::Say(status, JSON, format!("{{\"__type\":\"{code}\",\"message\":\"in its own words\"}}"))
}

/// What the entry of the table says: this metadata file, or none yet.
fn said(metadata: Option<&str>) -> Answer {
    let metadata = metadata.map_or_else(String::new, |at| format!("\"metadataLocation\":\"{at}\","));
    let said = format!("{{{metadata}\"versionToken\":\"v41\",\"warehouseLocation\":\"memory:/ns/t\"}}");
    Answer::Say(200, JSON, said)
}

fn swapped() -> Answer {
    let about = "\"name\":\"t\",\"namespace\":[\"ns\"],\"tableARN\":\"x\",\"metadataLocation\":\"x\"";
    Answer::Say(200, JSON, format!("{{{about},\"versionToken\":\"v42\"}}"))
}

/// A commit of these updates to S3 Tables, whose swap is answered so, and what was asked.
async fn to_s3tables(
    updates: Vec<TableUpdate>,
    answer: impl Fn() -> Answer + Send + Sync + 'static,
) -> (Result<Loaded, Error>, Vec<Request>) {
    let io = FileIO::new_with_memory();
    let base = table(&io).await;
    let location = base.metadata_location.clone();
    let server = Server::start(move |_, request: &Request| match request.line.as_str() {
        line if line.starts_with("GET ") => said(Some(&location)),
        _ => answer(),
    })
    .await;
    let outcome = s3tables(&server.endpoint, &io).commit(&base, vec![], updates).await;
    (outcome, server.requests())
}

#[tokio::test]
async fn a_swap_in_s3_tables_says_what_came_of_it() {
    let check = async |status: u16, code: &'static str, expected: Kind, words: &str| {
        let (outcome, asked) = to_s3tables(set(), move || no(status, code)).await;
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), expected, "{code}");
        assert!(error.to_string().contains(words), "{code}: {error}");
        assert_eq!(asked.len(), 2, "one look and one attempt: {code}");
    };
    check(409, "ConflictException", Kind::Conflict, "has changed").await;
    check(404, "NotFoundException", Kind::Conflict, "no longer in the catalog").await;
    check(429, "TooManyRequestsException", Kind::Retry, "in its own words").await;
    check(403, "ForbiddenException", Kind::Misconfigured, "s3tables:UpdateTableMetadataLocation").await;
    check(403, "AccessDeniedException", Kind::Misconfigured, LAKE).await;
    check(403, "ExpiredTokenException", Kind::Misconfigured, "credentials").await;
    check(400, "BadRequestException", Kind::Misconfigured, "in its own words").await;
    check(404, "", Kind::Misconfigured, "404").await;
    check(500, "InternalServerErrorException", Kind::OutcomeUnknown, "in its own words").await;
    check(503, "ServiceUnavailable", Kind::OutcomeUnknown, "503").await;
    assert_eq!(to_s3tables(set(), || Answer::HangUp).await.0.unwrap_err().kind(), Kind::OutcomeUnknown);
    // Done, and answered in a way that nobody can read.
    let cut = || Answer::Cut(200, JSON, "{\"versionToken\":\"v42\",\"name\":\"t\"}".to_owned());
    assert_eq!(to_s3tables(set(), cut).await.0.unwrap_err().kind(), Kind::OutcomeUnknown);

    let odd = || Answer::Say(200, JSON, "{\"versionToken\":\"v42\",\"namespace\":\"ns\"}".to_owned());
    assert_eq!(to_s3tables(set(), odd).await.0.unwrap_err().kind(), Kind::OutcomeUnknown);

    let (outcome, asked) = to_s3tables(set(), swapped).await;
    let after = outcome.unwrap();
    assert_eq!(after.version.as_deref(), Some("v42"));
    let lines: Vec<&str> = asked.iter().map(|request| request.line.as_str()).collect();
    assert_eq!(lines, [format!("GET {ENTRY}"), format!("PUT {ENTRY}")]);
    let sent: serde_json::Value = serde_json::from_slice(&asked[1].content).unwrap();
    assert_eq!((&sent["versionToken"], &sent["metadataLocation"]), (&"v41".into(), &after.metadata_location.into()));
}

#[tokio::test]
async fn s3_tables_that_is_not_there_was_asked_nothing() {
    let io = FileIO::new_with_memory();
    let base = table(&io).await;
    // A port on which nobody listens.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = s3tables(&format!("http://{free}"), &io).commit(&base, vec![], set()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Retry, "{error}");
}

#[tokio::test]
async fn a_swap_in_s3_tables_starts_from_what_was_loaded() {
    for (now, words) in
        [(Some("memory:/ns/t/metadata/other.metadata.json"), "no longer"), (None, "no longer in the catalog")]
    {
        let io = FileIO::new_with_memory();
        let base = table(&io).await;
        let server = Server::start(move |_, _| said(now)).await;
        let error = s3tables(&server.endpoint, &io).commit(&base, vec![], set()).await.unwrap_err();
        assert_eq!((error.kind(), error.to_string().contains(words)), (Kind::Conflict, true), "{error}");
        assert_eq!(server.requests().len(), 1, "no swap");
    }
}

#[tokio::test]
async fn nobody_but_s3_tables_says_where_a_table_s_files_are() {
    for name in ["write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"] {
        for (place, is_there) in [("memory:/elsewhere", false), ("memory:/ns/t2", false), ("memory:/ns/t/deeper", true)]
        {
            let updates = vec![TableUpdate::SetProperties { updates: [(name.to_owned(), place.to_owned())].into() }];
            let (outcome, asked) = to_s3tables(updates, swapped).await;
            assert_eq!((outcome.is_ok(), asked.len()), (is_there, 1 + usize::from(is_there)), "{name} {place}");
            if let Err(error) = outcome {
                let is_told = error.to_string().contains("S3 Tables gives it memory:/ns/t;");
                assert_eq!((error.kind(), is_told), (Kind::Misconfigured, true), "{error}");
            }
        }
    }
    let moved = vec![TableUpdate::SetLocation { location: "memory:/elsewhere".to_owned() }];
    assert_eq!(to_s3tables(moved, swapped).await.0.unwrap_err().kind(), Kind::Misconfigured);
}

#[tokio::test]
async fn a_table_of_s3_tables_without_metadata_is_not_there_and_is_finished_by_the_next_create() {
    let server = Server::start(|_, request: &Request| match request.line.as_str() {
        line if line.starts_with("GET ") => said(None),
        _ => swapped(),
    })
    .await;
    let io = FileIO::new_with_memory();
    let catalog = s3tables(&server.endpoint, &io);
    assert!(catalog.load(&name()).await.unwrap().is_none());
    let made = catalog.create(&name(), contract::creation()).await.unwrap();
    assert_eq!((made.metadata.location(), made.version.as_deref()), ("memory:/ns/t", Some("v42")));
    assert!(io.exists(&made.metadata_location).await.unwrap());
    // Neither a namespace nor an entry is made again.
    let entry = ["GET", "GET", "PUT"].map(|method| format!("{method} {ENTRY}"));
    assert_eq!(server.lines(), entry);
}

#[tokio::test]
async fn a_table_of_s3_tables_is_made_in_two_steps() {
    let bucket = "arn%3Aaws%3As3tables%3Aeu-west-1%3A111122223333%3Abucket%2Flake";
    // A create whose steps are answered so, and how it ends.
    let create = async |entry: fn() -> Answer, swap: fn() -> Answer| {
        let server = Server::start(move |n, request: &Request| match () {
            () if n == 0 => no(404, "NotFoundException"),
            () if request.line.starts_with("GET /namespaces") => no(404, "NotFoundException"),
            () if request.line.starts_with("PUT /namespaces") => no(409, "ConflictException"),
            () if request.line == format!("PUT {ENTRY}") => swap(),
            () if request.line == format!("GET {ENTRY}") => said(None),
            () => entry(),
        })
        .await;
        let outcome =
            s3tables(&server.endpoint, &FileIO::new_with_memory()).create(&name(), contract::creation()).await;
        (outcome, server.requests())
    };
    let made = || Answer::Say(200, JSON, "{\"tableARN\":\"x\",\"versionToken\":\"v41\"}".to_owned());
    let (outcome, asked) = create(made, swapped).await;
    outcome.unwrap();
    let lines: Vec<&str> = asked.iter().map(|request| request.line.as_str()).collect();
    let expected = [
        format!("GET {ENTRY}"),
        format!("GET /namespaces/{bucket}/ns"),
        format!("PUT /namespaces/{bucket}"),
        format!("PUT /tables/{bucket}/ns"),
        format!("GET {ENTRY}"),
        format!("PUT {ENTRY}"),
    ];
    assert_eq!(lines, expected);
    let sent: serde_json::Value = serde_json::from_slice(&asked[3].content).unwrap();
    assert_eq!(sent, serde_json::json!({"name": "t", "format": "ICEBERG"}));

    // An entry that somebody else made meanwhile is no table: the swap says whose it is.
    create(|| no(409, "ConflictException"), swapped).await.0.unwrap();
    let lost = create(made, || no(409, "ConflictException")).await.0;
    assert!(matches!(lost, Err(Error::AlreadyExists { .. })), "{lost:?}");
    // Of an entry nobody knows whether it was made, but there is no table yet; of a swap nobody does.
    assert_eq!(create(|| Answer::HangUp, swapped).await.0.unwrap_err().kind(), Kind::Retry);
    assert_eq!(create(made, || Answer::HangUp).await.0.unwrap_err().kind(), Kind::OutcomeUnknown);
    assert_eq!(create(made, || no(404, "NotFoundException")).await.0.unwrap_err().kind(), Kind::Retry);
    let refused = create(|| no(403, "ForbiddenException"), swapped).await.0.unwrap_err();
    let is_told = refused.to_string().contains("s3tables:CreateTable");
    assert_eq!((refused.kind(), is_told), (Kind::Misconfigured, true), "{refused}");
}

#[tokio::test]
async fn what_is_not_in_s3_tables_is_said_in_its_own_words_alone() {
    let load = async |answer: fn() -> Answer| {
        let server = Server::start(move |_, _| answer()).await;
        s3tables(&server.endpoint, &FileIO::new_with_memory()).load(&name()).await.map(|found| found.is_some())
    };
    assert!(!load(|| no(404, "NotFoundException")).await.unwrap());
    for other in
        [|| no(404, "UnknownOperationException"), || Answer::Say(404, "content-type: text/html\r\n", "<h1>".to_owned())]
    {
        assert_eq!(load(other).await.unwrap_err().kind(), Kind::Misconfigured);
    }
    assert_eq!(load(|| no(500, "InternalServerErrorException")).await.unwrap_err().kind(), Kind::Retry);
    let odd = || Answer::Say(200, JSON, "[]".to_owned());
    assert_eq!(load(odd).await.unwrap_err().kind(), Kind::Retry);
    assert_eq!(load(|| Answer::Say(200, JSON, "{}".to_owned())).await.unwrap_err().kind(), Kind::Corrupt);

    // Without the table bucket there is nothing to make a table in.
    let server = Server::start(|_, _| no(404, "NotFoundException")).await;
    let catalog = s3tables(&server.endpoint, &FileIO::new_with_memory());
    let missing = catalog.create(&name(), contract::creation()).await.unwrap_err();
    let is_told = missing.to_string().contains("there is no table bucket arn:aws:s3tables:");
    assert_eq!((missing.kind(), is_told), (Kind::Misconfigured, true), "{missing}");
    assert_eq!(catalog.list_namespaces().await.unwrap_err().kind(), Kind::Misconfigured);
    assert!(catalog.list_tables("ns").await.unwrap().is_empty());

    // What it takes for no name is asked for by none.
    for (namespace, table) in [("ns", "Orders"), ("ns", "a-b"), ("ns", "_a"), ("ns", "a_"), ("aws_ns", "t"), ("N", "t")]
    {
        let odd = TableName { namespace: namespace.to_owned(), name: table.to_owned() };
        let (loaded, made) = (catalog.load(&odd).await.unwrap_err(), catalog.create(&odd, contract::creation()).await);
        assert_eq!((loaded.kind(), made.unwrap_err().kind()), (Kind::Misconfigured, Kind::Misconfigured), "{odd}");
        assert!(loaded.to_string().contains("in S3 Tables"), "{loaded}");
    }
}

async fn rest(endpoint: &str, auth: Auth) -> RestCatalog {
    let settings = Settings { uri: format!("{endpoint}/api/"), warehouse: Some("a:b/c".to_owned()), auth };
    let lent = SharedCredentialsProvider::new(Credentials::new("AKID", "hunter2", None, None, "test"));
    RestCatalog::with(settings, Some(lent), clock(), Arc::new(SeededIds::new(3))).await.unwrap()
}

fn model(status: u16, kind: &str) -> Answer {
    let model = format!("{{\"message\":\"in its words\",\"type\":\"{kind}\",\"code\":{status}}}");
    Answer::Say(status, JSON, format!("{{\"error\":{model}}}"))
}

fn config() -> Answer {
    let said = "{\"defaults\":{\"prefix\":\"x\"},\"overrides\":{\"prefix\":\"main/lake\"}}";
    Answer::Say(200, JSON, said.to_owned())
}

/// A commit to a server whose answer is this.
async fn to_rest(answer: impl Fn() -> Answer + Send + Sync + 'static) -> Result<Loaded, Error> {
    let base = table(&FileIO::new_with_memory()).await;
    let server = Server::start(move |n, _| if n == 0 { config() } else { answer() }).await;
    let outcome = rest(&server.endpoint, Auth::Nothing).await.commit(&base, vec![], set()).await;
    let requests = server.requests();
    let lines: Vec<&str> = requests.iter().map(|request| request.line.as_str()).collect();
    assert_eq!(lines, ["GET /api/v1/config?warehouse=a%3Ab%2Fc", "POST /api/v1/main/lake/namespaces/ns/tables/t"]);
    assert!(requests[1].header("idempotency-key").is_some());
    let sent: serde_json::Value = serde_json::from_slice(&requests[1].content).unwrap();
    assert_eq!(sent["requirements"][0]["type"], "assert-table-uuid");
    assert_eq!(sent["updates"][0]["action"], "set-properties");
    outcome
}

#[tokio::test]
async fn a_commit_by_rest_says_what_came_of_it() {
    let check = async |status: u16, kind: &'static str, expected: Kind| {
        let error = to_rest(move || model(status, kind)).await.unwrap_err();
        assert_eq!(error.kind(), expected, "{status} {kind}: {error}");
        // What a server says of who is refused may be what it was shown.
        let is_told = !matches!(status, 401 | 403 | 404);
        assert_eq!(error.to_string().contains("in its words"), is_told, "{error}");
    };
    check(409, "CommitFailedException", Kind::Conflict).await;
    check(404, "NoSuchTableException", Kind::Conflict).await;
    check(400, "BadRequestException", Kind::Misconfigured).await;
    check(401, "NotAuthorizedException", Kind::Misconfigured).await;
    check(403, "ForbiddenException", Kind::Misconfigured).await;
    check(429, "SlowDown", Kind::Retry).await;
    for status in [500, 502, 503, 504] {
        check(status, "CommitStateUnknownException", Kind::OutcomeUnknown).await;
    }
    assert_eq!(to_rest(|| Answer::HangUp).await.unwrap_err().kind(), Kind::OutcomeUnknown);
    let cut = || Answer::Cut(200, JSON, "{\"metadata-location\":\"x\",\"metadata\":{}}".to_owned());
    assert_eq!(to_rest(cut).await.unwrap_err().kind(), Kind::OutcomeUnknown);
    let garbage = || Answer::Say(200, JSON, "{}".to_owned());
    assert_eq!(to_rest(garbage).await.unwrap_err().kind(), Kind::OutcomeUnknown);
    // A server that is none.
    let other = to_rest(|| Answer::Say(404, "content-type: text/html\r\n", "<h1>".to_owned())).await.unwrap_err();
    assert_eq!((other.kind(), other.to_string().contains("check the catalog's URL")), (Kind::Misconfigured, true));
}

#[tokio::test]
async fn what_is_not_there_is_nothing() {
    let load = async |status: u16, kind: &'static str| {
        let server = Server::start(move |n, _| if n == 0 { config() } else { model(status, kind) }).await;
        rest(&server.endpoint, Auth::Nothing).await.load(&name()).await.map(|found| found.is_some())
    };
    assert!(!load(404, "NoSuchTableException").await.unwrap());
    assert!(!load(404, "NoSuchNamespaceException").await.unwrap());
    assert_eq!(load(503, "x").await.unwrap_err().kind(), Kind::Retry);
}

/// A token is had once, kept until it ends or is refused, and never shown.
#[tokio::test]
async fn tokens_are_had_from_who_gives_them() {
    let server = Server::start(|n, request: &Request| match request.line.as_str() {
        "POST /api/v1/oauth/tokens" => {
            let form = String::from_utf8(request.content.clone()).unwrap();
            let asked =
                "grant_type=client_credentials&scope=PRINCIPAL%5FROLE%3AALL&client_id=ann&client_secret=hunter%202";
            assert_eq!(form, asked);
            let granted = format!("{{\"access_token\":\"t{n}\",\"token_type\":\"bearer\",\"expires_in\":3600}}");
            Answer::Say(200, JSON, granted)
        }
        line if line.starts_with("GET /api/v1/config") => config(),
        // The first token ends before its time.
        _ if request.header("authorization") == Some("Bearer t0") && n > 2 => model(401, "NotAuthorizedException"),
        _ => model(404, "NoSuchTableException"),
    })
    .await;
    let auth = Auth::OAuth2 {
        credential: Secret::new(*b"ann:hunter 2"),
        scope: Some("PRINCIPAL_ROLE:ALL".to_owned()),
        server: None,
    };
    let catalog = rest(&server.endpoint, auth).await;
    for _ in 0..3 {
        assert!(catalog.load(&name()).await.unwrap().is_none());
    }
    let tokens: Vec<String> =
        server.requests().iter().filter_map(|request| request.header("authorization").map(str::to_owned)).collect();
    assert_eq!(tokens, ["Bearer t0", "Bearer t0", "Bearer t0", "Bearer t4", "Bearer t4"]);
    assert!(!format!("{catalog:?}").contains("hunter"));

    let said = "{\"error\":\"invalid_client hunter2\"}";
    let server = Server::start(move |_, _| Answer::Say(400, JSON, said.to_owned())).await;
    let auth = Auth::OAuth2 { credential: Secret::new(*b"ann:hunter2"), scope: None, server: None };
    let error = rest(&server.endpoint, auth).await.load(&name()).await.unwrap_err();
    assert_eq!((error.kind(), error.to_string().contains("hunter2")), (Kind::Misconfigured, false), "{error}");
}

/// What a service of AWS would make of a request, with the same secret.
fn signature(request: &Request, endpoint: &str) -> String {
    let (method, path) = request.line.split_once(' ').unwrap();
    let signed = request.header("authorization").unwrap();
    let names = signed.split("SignedHeaders=").nth(1).unwrap().split(',').next().unwrap();
    // What signing adds itself, the host among it.
    let added = ["host", "x-amz-date", "x-amz-content-sha256"];
    let headers = request.headers().filter(|(name, _)| names.split(';').any(|n| n == *name) && !added.contains(name));
    let mut settings = SigningSettings::default();
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    let identity = Credentials::new("AKID", "hunter2", None, None, "test").into();
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_000);
    let params = SigningParams::builder().identity(&identity).region("eu-west-1").name("s3tables").time(time);
    let params = params.settings(settings).build().unwrap().into();
    let url = format!("{endpoint}{path}");
    let body = SignableBody::Bytes(&request.content);
    let (made, _) = sign(SignableRequest::new(method, url, headers, body).unwrap(), &params).unwrap().into_parts();
    let mut empty = http::Request::new(());
    made.apply_to_request_http1x(&mut empty);
    empty.headers()["authorization"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn requests_to_aws_are_signed() {
    let server = Server::start(|n, _| if n == 0 { config() } else { model(409, "CommitFailedException") }).await;
    let auth = Auth::SigV4 { service: "s3tables".to_owned(), region: Some("eu-west-1".to_owned()) };
    let base = table(&FileIO::new_with_memory()).await;
    let outcome = rest(&server.endpoint, auth).await.commit(&base, vec![], set()).await;
    assert_eq!(outcome.unwrap_err().kind(), Kind::Conflict);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        let said = request.header("authorization").unwrap();
        assert!(said.contains("Credential=AKID/20231114/eu-west-1/s3tables/aws4_request"), "{said}");
        assert_eq!(said, signature(&request, &server.endpoint), "{}", request.line);
        assert!(request.header("x-amz-content-sha256").is_some());
    }
}

//! The contract of catalogs, held against services that speak their interfaces. `./test` starts them and runs these with `--ignored`.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "all of it is test code, with its own settings"
)]

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use aws::catalog::glue::{Access, GlueCatalog};
use aws::catalog::rest::{self, RestCatalog};
use aws::catalog::s3tables::{S3TablesCatalog, TableBucket};
use aws::s3::S3;
use aws_sdk_glue::Client;
use aws_sdk_glue::config::retry::RetryConfig;
use aws_sdk_glue::types::{Table, TableInput};
use iceberg::TableUpdate;
use iceberg::io::FileIO;
use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};
use model::clock::{ManualClock, Timestamp};
use model::failure::Kind;
use model::id::SeededIds;
use table::catalog::{Catalog, Error, TableName};
use table::storage;
use testkit::catalog::contract::{self, Bench};
use testkit::catalog::wire::{Refusal, Wire, holds, http_answer, is_whole_http};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const BUCKET: &str = "frazil-catalogs";

/// Never the machine's own credentials: they are part of the environment that `./test` makes.
async fn settings() -> aws_config::SdkConfig {
    let endpoint = std::env::var("AWS_ENDPOINT_URL").expect("AWS_ENDPOINT_URL names the service");
    assert!(endpoint.contains("//127.0.0.1:"), "{endpoint}");
    let http = aws_smithy_http_client::Builder::new().build_http();
    aws_config::defaults(aws_config::BehaviorVersion::v2026_01_12()).http_client(http).load().await
}

async fn files() -> FileIO {
    let config = aws_sdk_s3::config::Builder::from(&settings().await).force_path_style(true).build();
    let client = aws_sdk_s3::Client::from_conf(config);
    if let Err(error) = client.create_bucket().bucket(BUCKET).send().await {
        let code = aws_sdk_s3::error::ProvideErrorMetadata::code(&error).unwrap_or_default().to_owned();
        assert!(code.starts_with("BucketAlready"), "{error:?}");
    }
    S3::from(client).file_io()
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)))
}

struct Glue {
    io: FileIO,
    ids: Arc<SeededIds>,
    warehouse: String,
}

impl Glue {
    async fn new(folder: &str) -> Self {
        let ids = Arc::new(SeededIds::new(folder.bytes().map(u64::from).sum()));
        Self { io: files().await, ids, warehouse: format!("s3://{BUCKET}/{folder}") }
    }

    async fn catalog(&self) -> GlueCatalog {
        let access = Access { warehouse: self.warehouse.clone(), ..Access::default() };
        GlueCatalog::connect(access, self.io.clone(), clock(), self.ids.clone()).await.unwrap()
    }
}

/// The address of a URL such as `http://127.0.0.1:5000`.
fn address(url: &str) -> SocketAddr {
    url.trim_end_matches('/').rsplit("//").next().unwrap().parse().unwrap()
}

fn glue_refuses(refusal: Refusal) -> Option<Vec<u8>> {
    let code = match refusal {
        Refusal::Throttled => "ThrottlingException",
        Refusal::Denied => "AccessDeniedException",
    };
    let said = format!("{{\"__type\":\"{code}\",\"Message\":\"no\"}}");
    Some(http_answer(400, "application/x-amz-json-1.1", &said))
}

#[async_trait]
impl Bench for Glue {
    async fn open(&self) -> Arc<dyn Catalog> {
        Arc::new(self.catalog().await)
    }

    fn io(&self) -> FileIO {
        self.io.clone()
    }

    fn wire(&self) -> Option<Wire> {
        let service = address(&std::env::var("AWS_ENDPOINT_URL").unwrap());
        let is_commit = |request: &[u8]| holds(request, b"AWSGlue.UpdateTable");
        Some(Wire { service, is_whole: is_whole_http, is_commit, refusal: glue_refuses })
    }

    async fn through(&self, service: SocketAddr) -> Option<Arc<dyn Catalog>> {
        let config = aws_sdk_glue::config::Builder::from(&settings().await).endpoint_url(format!("http://{service}"));
        let client = Client::from_conf(config.retry_config(RetryConfig::disabled()).build());
        let access = Access { warehouse: self.warehouse.clone(), ..Access::default() };
        Some(Arc::new(GlueCatalog::with(client, access, self.io.clone(), clock(), self.ids.clone())))
    }

    async fn forget(&self, table: &TableName) -> bool {
        let client = Client::new(&settings().await);
        client.delete_table().database_name(&table.namespace).name(&table.name).send().await.is_ok()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a service that speaks Glue: ./test runs it"]
async fn the_catalog_in_glue_keeps_the_contract() {
    contract::kept(&Glue::new("contract").await, "Glue").await;
}

/// A table bucket of its own, and the files that S3 Tables finds places for.
struct S3Tables {
    io: FileIO,
    ids: Arc<SeededIds>,
    bucket: TableBucket,
}

impl S3Tables {
    async fn new(name: &str) -> Self {
        let client = aws_sdk_s3tables::Client::new(&settings().await);
        let made = client.create_table_bucket().name(name).send().await.unwrap();
        let region = made.arn().split(':').nth(3).unwrap().to_owned();
        let ids = Arc::new(SeededIds::new(name.bytes().map(u64::from).sum()));
        Self { io: files().await, ids, bucket: TableBucket { arn: made.arn().to_owned(), region } }
    }

    async fn catalog(&self) -> S3TablesCatalog {
        S3TablesCatalog::connect(self.bucket.clone(), self.io.clone(), clock(), self.ids.clone()).await
    }
}

fn is_swap_of_s3_tables(request: &[u8]) -> bool {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    line.starts_with(b"PUT ") && holds(line, b"/metadata-location")
}

fn s3_tables_refuse(refusal: Refusal) -> Option<Vec<u8>> {
    let (status, code) = match refusal {
        Refusal::Throttled => (429, "TooManyRequestsException"),
        Refusal::Denied => (403, "ForbiddenException"),
    };
    let said = format!("{{\"__type\":\"{code}\",\"message\":\"no\"}}");
    Some(http_answer(status, "application/json", &said))
}

#[async_trait]
impl Bench for S3Tables {
    async fn open(&self) -> Arc<dyn Catalog> {
        Arc::new(self.catalog().await)
    }

    fn io(&self) -> FileIO {
        self.io.clone()
    }

    fn wire(&self) -> Option<Wire> {
        let service = address(&std::env::var("AWS_ENDPOINT_URL").unwrap());
        Some(Wire { service, is_whole: is_whole_http, is_commit: is_swap_of_s3_tables, refusal: s3_tables_refuse })
    }

    async fn through(&self, service: SocketAddr) -> Option<Arc<dyn Catalog>> {
        let config = aws_sdk_s3tables::config::Builder::from(&settings().await);
        let config = config.endpoint_url(format!("http://{service}")).retry_config(RetryConfig::disabled());
        let client = aws_sdk_s3tables::Client::from_conf(config.build());
        Some(Arc::new(S3TablesCatalog::with(client, self.bucket.clone(), self.io.clone(), clock(), self.ids.clone())))
    }

    async fn forget(&self, table: &TableName) -> bool {
        let client = aws_sdk_s3tables::Client::new(&settings().await);
        let gone = client.delete_table().table_bucket_arn(&self.bucket.arn).namespace(&table.namespace);
        gone.name(&table.name).send().await.is_ok()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a service that speaks S3 Tables: ./test runs it"]
async fn the_catalog_in_s3_tables_keeps_the_contract() {
    contract::kept(&S3Tables::new("contract").await, "S3 Tables").await;
}

/// Every file of a table is in the place that it was given, which takes no deletion; and an entry that a run left behind is gone on with.
#[tokio::test]
#[ignore = "needs a service that speaks S3 Tables: ./test runs it"]
async fn a_table_in_s3_tables_is_where_it_was_put() {
    let tables = S3Tables::new("places").await;
    let (catalog, client) = (tables.catalog().await, aws_sdk_s3tables::Client::new(&settings().await));
    let name = name("orders");
    client.create_namespace().table_bucket_arn(&tables.bucket.arn).namespace("entries").send().await.unwrap();
    let entry = client.create_table().table_bucket_arn(&tables.bucket.arn).namespace("entries").name("orders");
    entry.format(aws_sdk_s3tables::types::OpenTableFormat::Iceberg).send().await.unwrap();
    assert!(catalog.load(&name).await.unwrap().is_none());

    let elsewhere = format!("s3://{BUCKET}/elsewhere");
    let chosen = contract::creation();
    let mut properties = chosen.properties.clone();
    properties.insert("write.data.path".to_owned(), elsewhere.clone());
    for creation in [
        table::catalog::TableCreation { location: Some(elsewhere), ..chosen.clone() },
        table::catalog::TableCreation { properties, ..chosen.clone() },
    ] {
        assert_eq!(catalog.create(&name, creation).await.unwrap_err().kind(), Kind::Misconfigured);
    }
    let made = catalog.create(&name, chosen).await.unwrap();
    let there = client.get_table_metadata_location().table_bucket_arn(&tables.bucket.arn);
    let there = there.namespace("entries").name("orders").send().await.unwrap();
    assert_eq!(made.metadata.location(), there.warehouse_location());
    assert_eq!(Some(made.metadata_location.as_str()), there.metadata_location());
    assert_eq!(made.version.as_deref(), Some(there.version_token()));
    assert!(matches!(catalog.create(&name, contract::creation()).await, Err(Error::AlreadyExists { .. })));

    // S3 Tables removes files itself; what asks for it is not told otherwise.
    tables.io.delete(&made.metadata_location).await.unwrap();
    assert!(tables.io.exists(&made.metadata_location).await.unwrap());

    // One that was dropped and made again under the name is another table.
    let gone = client.delete_table().table_bucket_arn(&tables.bucket.arn).namespace("entries").name("orders");
    gone.send().await.unwrap();
    assert!(catalog.load(&name).await.unwrap().is_none());
    let set = || vec![TableUpdate::SetProperties { updates: [("a".to_owned(), "1".to_owned())].into() }];
    assert_eq!(catalog.commit(&made, vec![], set()).await.unwrap_err().kind(), Kind::Conflict);
    let again = catalog.create(&name, contract::creation()).await.unwrap();
    assert_eq!(catalog.commit(&made, vec![], set()).await.unwrap_err().kind(), Kind::Conflict);
    catalog.commit(&again, vec![], set()).await.unwrap();
}

/// Apache's own REST catalog, whose tables are in a folder.
struct Rest(String);

impl Rest {
    async fn at(uri: String) -> Arc<dyn Catalog> {
        let settings = rest::Settings { uri, warehouse: None, auth: rest::Auth::Nothing };
        Arc::new(RestCatalog::connect(settings, clock(), Arc::new(SeededIds::new(7))).await.unwrap())
    }
}

fn is_commit_by_rest(request: &[u8]) -> bool {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    line.starts_with(b"POST ") && holds(line, b"/tables/")
}

fn rest_refuses(refusal: Refusal) -> Option<Vec<u8>> {
    let (status, kind) = match refusal {
        Refusal::Throttled => (429, "TooManyRequestsException"),
        Refusal::Denied => (403, "ForbiddenException"),
    };
    let said = format!("{{\"error\":{{\"message\":\"no\",\"type\":\"{kind}\",\"code\":{status}}}}}");
    Some(http_answer(status, "application/json", &said))
}

#[async_trait]
impl Bench for Rest {
    async fn open(&self) -> Arc<dyn Catalog> {
        Self::at(self.0.clone()).await
    }

    fn io(&self) -> FileIO {
        storage::local()
    }

    fn swaps_exactly(&self) -> bool {
        false
    }

    fn wire(&self) -> Option<Wire> {
        let (service, is_commit) = (address(&self.0), is_commit_by_rest);
        Some(Wire { service, is_whole: is_whole_http, is_commit, refusal: rest_refuses })
    }

    async fn through(&self, service: SocketAddr) -> Option<Arc<dyn Catalog>> {
        Some(Self::at(format!("http://{service}")).await)
    }

    async fn forget(&self, table: &TableName) -> bool {
        let mut server = TcpStream::connect(address(&self.0)).await.unwrap();
        let path = format!("/v1/namespaces/{}/tables/{}", table.namespace, table.name);
        let request = format!("DELETE {path} HTTP/1.1\r\nhost: catalog\r\nconnection: close\r\n\r\n");
        server.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        server.read_to_end(&mut answer).await.unwrap();
        answer.starts_with(b"HTTP/1.1 20")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a service that speaks REST: ./test runs it"]
async fn a_catalog_that_speaks_rest_keeps_the_contract() {
    let endpoint = std::env::var("FRAZIL_TEST_REST_ENDPOINT").expect("FRAZIL_TEST_REST_ENDPOINT names the service");
    contract::kept(&Rest(endpoint), "REST").await;
}

fn name(of: &str) -> TableName {
    TableName { namespace: "entries".to_owned(), name: of.to_owned() }
}

async fn entry(client: &Client, of: &TableName) -> Table {
    let answer = client.get_table().database_name(&of.namespace).name(&of.name).send().await.unwrap();
    answer.table.unwrap()
}

/// Everything in the entry that is not of the metadata is somebody's, and stays.
#[tokio::test]
#[ignore = "needs a service that speaks Glue: ./test runs it"]
async fn what_others_wrote_into_an_entry_is_carried_over() {
    let glue = Glue::new("entries").await;
    let (catalog, client, name) = (glue.catalog().await, Client::new(&settings().await), name("carried"));
    let base = catalog.create(&name, contract::creation()).await.unwrap();
    let made = entry(&client, &name).await;
    assert_eq!(made.table_type(), Some("EXTERNAL_TABLE"));
    let column = &made.storage_descriptor().unwrap().columns()[0];
    assert_eq!((column.name(), column.r#type()), ("id", Some("bigint")));

    let descriptor = made.storage_descriptor().unwrap();
    let mut descriptor = descriptor.clone();
    descriptor.input_format = Some("theirs".to_owned());
    descriptor.parameters = Some([("k".to_owned(), "v".to_owned())].into());
    let mut parameters = made.parameters().unwrap().clone();
    parameters.insert("classification".to_owned(), "orders".to_owned());
    let input = TableInput::builder()
        .name("carried")
        .description("orders, as they come")
        .owner("data-engineering")
        .retention(7)
        .table_type("EXTERNAL_TABLE")
        .storage_descriptor(descriptor)
        .set_parameters(Some(parameters));
    let input = input.build().unwrap();
    client.update_table().database_name("entries").table_input(input).send().await.unwrap();

    // The table did not change: its next commit finds the entry as it is now.
    let schema = Schema::builder()
        .with_schema_id(1)
        .with_fields([
            NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long)).into(),
            NestedField::optional(2, "at", Type::Primitive(PrimitiveType::Timestamptz)).with_doc("when it came").into(),
        ])
        .build()
        .unwrap();
    let ledger = [("frazil.ledger.p-12345678".to_owned(), "{}".to_owned())].into();
    let updates = vec![
        TableUpdate::AddSchema { schema },
        TableUpdate::SetCurrentSchema { schema_id: -1 },
        TableUpdate::SetProperties { updates: ledger },
    ];
    let after = catalog.commit(&base, vec![], updates).await.unwrap();
    let now = entry(&client, &name).await;
    assert_eq!(
        (now.description(), now.owner(), now.retention()),
        (Some("orders, as they come"), Some("data-engineering"), 7)
    );
    let descriptor = now.storage_descriptor().unwrap();
    assert_eq!((descriptor.input_format(), descriptor.parameters().map(|all| all.len())), (Some("theirs"), Some(1)));
    let columns: Vec<_> = descriptor.columns().iter().map(|c| (c.name(), c.r#type(), c.comment())).collect();
    assert_eq!(columns, [("id", Some("bigint"), None), ("at", Some("timestamp"), Some("when it came"))]);
    let parameters = now.parameters().unwrap();
    assert_eq!(parameters["classification"], "orders");
    assert_eq!(parameters["metadata_location"], after.metadata_location);
    assert_eq!(parameters["previous_metadata_location"], base.metadata_location);
    assert!(parameters.keys().all(|key| !key.starts_with("frazil.")), "{parameters:?}");
    let loaded = catalog.load(&name).await.unwrap().unwrap();
    assert_eq!((loaded.metadata_location, loaded.version), (after.metadata_location, now.version_id));
}

#[tokio::test]
#[ignore = "needs a service that speaks Glue: ./test runs it"]
async fn what_is_no_iceberg_table_is_refused() {
    let glue = Glue::new("others").await;
    let (catalog, client) = (glue.catalog().await, Client::new(&settings().await));
    catalog.create(&name("ours"), contract::creation()).await.unwrap();
    let input = TableInput::builder().name("theirs").table_type("EXTERNAL_TABLE").build().unwrap();
    client.create_table().database_name("entries").table_input(input).send().await.unwrap();
    let refused = catalog.load(&name("theirs")).await.unwrap_err();
    assert_eq!((refused.kind(), refused.to_string().contains("no Iceberg table")), (Kind::Misconfigured, true));
    assert!(matches!(catalog.create(&name("theirs"), contract::creation()).await, Err(Error::AlreadyExists { .. })));
    assert!(!catalog.list_tables("entries").await.unwrap().contains(&name("theirs")));
    // Glue would make it `theirs`.
    let refused = catalog.load(&name("Theirs")).await.unwrap_err();
    assert_eq!((refused.kind(), refused.to_string().contains("call it `theirs`")), (Kind::Misconfigured, true));
    assert_eq!(catalog.create(&name("Orders"), contract::creation()).await.unwrap_err().kind(), Kind::Misconfigured);

    // One that was dropped and made again under the name is another table.
    let base = catalog.create(&name("again"), contract::creation()).await.unwrap();
    client.delete_table().database_name("entries").name("again").send().await.unwrap();
    let set = || vec![TableUpdate::SetProperties { updates: [("a".to_owned(), "1".to_owned())].into() }];
    assert_eq!(catalog.commit(&base, vec![], set()).await.unwrap_err().kind(), Kind::Conflict);
    let now = catalog.create(&name("again"), contract::creation()).await.unwrap();
    assert_eq!(catalog.commit(&base, vec![], set()).await.unwrap_err().kind(), Kind::Conflict);
    assert_ne!(now.metadata.uuid(), base.metadata.uuid());
    catalog.commit(&now, vec![], set()).await.unwrap();
}

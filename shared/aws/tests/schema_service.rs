//! Schemas in a service that speaks Glue's and STS's interfaces. `./test` starts one and runs these with `--ignored`.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "all of it is test code, with its own settings"
)]

use aws::schemas::{Access, GlueSchemas};
use aws_sdk_glue::Client;
use aws_sdk_glue::types::{Compatibility, DataFormat, RegistryId, SchemaId};
use registry::{Error, Kind, Naming, Reference, Registered, Registrar as _, Source as _, Wanted};
use uuid::Uuid;

/// Never the machine's own credentials: they are part of the environment that `./test` makes.
async fn client() -> Client {
    let endpoint = std::env::var("AWS_ENDPOINT_URL").expect("AWS_ENDPOINT_URL names the service");
    assert!(endpoint.contains("//127.0.0.1:"), "{endpoint}");
    let config = aws_config::defaults(aws_config::BehaviorVersion::v2026_01_12())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .load()
        .await;
    Client::new(&config)
}

async fn connect(access: Access) -> GlueSchemas {
    GlueSchemas::connect(Access { name: "main".to_owned(), ..access }).await.unwrap()
}

const TWICE: &str = "a schema of an earlier run may be there";

/// A schema with two versions; the UUID of the first.
async fn registered(client: &Client, registry: &str, schema: &str, format: DataFormat, texts: [&str; 2]) -> Uuid {
    if let Err(error) = client.create_registry().registry_name(registry).send().await {
        assert!(error.as_service_error().is_some_and(|e| e.is_already_exists_exception()), "{error:?}");
    }
    let created = client
        .create_schema()
        .registry_id(RegistryId::builder().registry_name(registry).build())
        .schema_name(schema)
        .data_format(format)
        .compatibility(Compatibility::None)
        .schema_definition(texts[0])
        .send()
        .await
        .expect(TWICE);
    let id = SchemaId::builder().registry_name(registry).schema_name(schema).build();
    client.register_schema_version().schema_id(id).schema_definition(texts[1]).send().await.unwrap();
    created.schema_version_id().expect("an id").parse().unwrap()
}

#[tokio::test]
#[ignore = "needs a service that speaks Glue: ./test runs it"]
async fn versions_are_found_by_uuid_and_the_newest_by_name() {
    const PROTO: &str = "syntax = \"proto3\"; message A {}";
    let client = client().await;
    let version = registered(
        &client,
        "frazil-ours",
        "a.proto",
        DataFormat::Protobuf,
        [PROTO, "syntax = \"proto3\"; message A { int32 n = 1; }"],
    )
    .await;
    let elsewhere = registered(&client, "frazil-theirs", "s", DataFormat::Avro, ["\"string\"", "\"int\""]).await;
    let ours = Access { registry_name: Some("frazil-ours".to_owned()), ..Access::default() };
    let role = Access {
        assume_role: Some("arn:aws:iam::210987654321:role/reads-schemas".to_owned()),
        external_id: Some("an-agreed-word".to_owned()),
        region: Some("us-east-1".to_owned()),
        ..ours.clone()
    };
    for (access, theirs) in [(Access::default(), true), (ours, false)] {
        let schemas = connect(access).await;
        let found = schemas.schema(&Reference::GlueVersion(version).into()).await.unwrap();
        assert_eq!((found.kind, found.text.as_str(), found.version), (Kind::Protobuf, PROTO, Some(1)));
        let found = schemas.schema(&Reference::GlueVersion(elsewhere).into()).await;
        assert_eq!(found.is_ok(), theirs, "{found:?}");
        let missing = schemas.schema(&Reference::GlueVersion(Uuid::from_u128(1)).into()).await;
        assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");
    }
    let ours = Access { registry_name: Some("frazil-ours".to_owned()), ..Access::default() };
    let schemas = connect(ours).await;
    let found = schemas.schema(&Wanted::Latest("a.proto".to_owned())).await.unwrap();
    assert_eq!(found.version, Some(2));
    assert!(found.text.contains("int32 n"), "{found:?}");
    let missing = schemas.schema(&Wanted::Latest("b.proto".to_owned())).await;
    assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");

    // A role is assumed at the same service, in an account that has none of it.
    let missing = connect(role).await.schema(&Reference::GlueVersion(version).into()).await;
    assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");
}

#[tokio::test]
#[ignore = "needs a service that speaks Glue: ./test runs it"]
async fn what_is_registered_is_found_again() {
    let client = client().await;
    if let Err(error) = client.create_registry().registry_name("frazil-new").send().await {
        assert!(error.as_service_error().is_some_and(|e| e.is_already_exists_exception()), "{error:?}");
    }
    let schemas = connect(Access { registry_name: Some("frazil-new".to_owned()), ..Access::default() }).await;
    let schema = |fields: &str| Registered {
        kind: Kind::Avro,
        text: format!("{{\"type\":\"record\",\"name\":\"R\",\"fields\":[{fields}]}}"),
        imports: Vec::new(),
        version: None,
    };
    let naming = Naming::Version(Uuid::nil());
    let first = schema("");
    assert_eq!(schemas.find("t", &first, naming).await, Ok(None), "{TWICE}");
    let id = schemas.register("t", &first, naming).await.unwrap();
    assert_eq!(schemas.find("t", &first, naming).await, Ok(Some(id)));
    assert_eq!(schemas.register("t", &first, naming).await, Ok(id));
    let second = schema("{\"name\":\"a\",\"type\":[\"null\",\"int\"],\"default\":null}");
    let other = schemas.register("t", &second, naming).await.unwrap();
    assert_ne!(other, id);
    let found = schemas.schema(&other.into()).await.unwrap();
    assert_eq!((found.text, found.version), (second.text, Some(2)));
}

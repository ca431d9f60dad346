//! Schemas put into Glue.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_glue::config::http::HttpResponse;
use aws_sdk_glue::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_glue::types::{Compatibility, DataFormat, RegistryId, SchemaVersionStatus};
use registry::{Error, Kind, Naming, Reference, Registered, Registrar, Wanted};

use super::{GlueSchemas, NOT_THERE, WORDS_MAX};
use crate::refusal::words as words_of;

/// How often it is looked whether a version that is checked against those before it has become available, and how long between.
const LOOKS: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(250);

/// The registry that an account has before it makes one.
const DEFAULT: &str = "default-registry";

impl GlueSchemas {
    /// Why Glue does not take a schema, or what else went wrong.
    fn unregistered<E>(&self, name: &str, error: SdkError<E, HttpResponse>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        if let SdkError::ServiceError(refusal) = &error
            && let Some(
                code @ ("InvalidInputException"
                | "AlreadyExistsException"
                | "ResourceNumberLimitExceededException"
                | NOT_THERE),
            ) = refusal.err().code()
        {
            let words = words_of(code, refusal.err().message(), WORDS_MAX);
            return self.refused(name, format!("{code}: {words}"));
        }
        self.failed(&Wanted::Latest(name.to_owned()), error)
    }

    fn refused(&self, name: &str, message: String) -> Error {
        Error::Refused { registry: self.access.name.clone(), name: name.to_owned(), message }
    }

    fn takes(&self, name: &str, schema: &Registered, naming: Naming) -> Result<(), Error> {
        match (naming, schema.imports.first()) {
            (Naming::Version(_), None) => Ok(()),
            (Naming::Version(_), Some(import)) => {
                Err(self
                    .refused(name, format!("Glue keeps a schema of one file, and this one imports `{}`", import.name)))
            }
            _ => Err(self.refused(name, "it knows schemas by UUIDs alone".to_owned())),
        }
    }

    fn reference(&self, name: &str, id: Option<&str>) -> Result<Reference, Error> {
        id.and_then(|id| id.parse().ok()).map(Reference::GlueVersion).ok_or_else(|| Error::Garbage {
            registry: self.access.name.clone(),
            wanted: Wanted::Latest(name.to_owned()),
            message: "it tells no UUID of the version".to_owned(),
        })
    }

    /// Waits until a version may be used.
    async fn available(&self, name: &str, id: &str) -> Result<(), Error> {
        for _ in 0..LOOKS {
            let version = self.client.get_schema_version().schema_version_id(id).send().await;
            match version.map_err(|error| self.unregistered(name, error))?.status() {
                Some(SchemaVersionStatus::Available) => return Ok(()),
                Some(SchemaVersionStatus::Failure | SchemaVersionStatus::Deleting) => {
                    let message = "the version is not compatible with those before it".to_owned();
                    return Err(self.refused(name, message));
                }
                _ => tokio::time::sleep(BETWEEN).await,
            }
        }
        Err(self.refused(name, format!("the version {id} has not become available yet")))
    }
}

#[async_trait]
impl Registrar for GlueSchemas {
    async fn find(&self, name: &str, schema: &Registered, naming: Naming) -> Result<Option<Reference>, Error> {
        self.takes(name, schema, naming)?;
        let request = self.client.get_schema_by_definition().schema_id(self.id(name)).schema_definition(&schema.text);
        match request.send().await {
            Ok(found) if found.status() == Some(&SchemaVersionStatus::Available) => {
                self.reference(name, found.schema_version_id()).map(Some)
            }
            Ok(_) => Ok(None),
            Err(SdkError::ServiceError(refusal)) if refusal.err().code() == Some(NOT_THERE) => Ok(None),
            Err(error) => Err(self.unregistered(name, error)),
        }
    }

    async fn register(&self, name: &str, schema: &Registered, naming: Naming) -> Result<Reference, Error> {
        if let Some(known) = self.find(name, schema, naming).await? {
            return Ok(known);
        }
        let request = self.client.register_schema_version().schema_id(self.id(name)).schema_definition(&schema.text);
        let id = match request.send().await {
            Ok(version) => version.schema_version_id,
            Err(SdkError::ServiceError(refusal)) if refusal.err().code() == Some(NOT_THERE) => {
                let format = match schema.kind {
                    Kind::Protobuf => DataFormat::Protobuf,
                    Kind::Avro => DataFormat::Avro,
                    Kind::Json => DataFormat::Json,
                };
                let registry = self.access.registry_name.as_deref().unwrap_or(DEFAULT);
                let created = self
                    .client
                    .create_schema()
                    .registry_id(RegistryId::builder().registry_name(registry).build())
                    .schema_name(name)
                    .data_format(format)
                    // As AWS's own serializers make one.
                    .compatibility(Compatibility::Backward)
                    .schema_definition(&schema.text)
                    .send()
                    .await;
                created.map_err(|error| self.unregistered(name, error))?.schema_version_id
            }
            Err(error) => return Err(self.unregistered(name, error)),
        };
        self.available(name, id.as_deref().unwrap_or_default()).await?;
        self.reference(name, id.as_deref())
    }
}

//! The Glue Schema Registry.
//!
//! A record names the version of a schema, by a UUID that means one version in one account and region: `GetSchemaVersion`. A
//! schema's versions are asked for by the same call, by their numbers up to the newest one's: to list them would take another
//! permission. The registry of another account is read by assuming a role there. What is needed of IAM: `glue:GetSchemaVersion` on
//! `arn:aws:glue:REGION:ACCOUNT:registry/REGISTRY` and `…:schema/REGISTRY/*`, and for a role `sts:AssumeRole`. Whoever registers
//! schemas needs `glue:GetSchemaByDefinition`, `glue:RegisterSchemaVersion` and `glue:CreateSchema` there, too.

mod registrar;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use aws_config::sts::AssumeRoleProvider;
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_glue::Client;
use aws_sdk_glue::config::http::HttpResponse;
use aws_sdk_glue::config::timeout::TimeoutConfig;
use aws_sdk_glue::config::{Builder, Region};
use aws_sdk_glue::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_glue::operation::get_schema_version::GetSchemaVersionOutput;
use aws_sdk_glue::types::{DataFormat, SchemaId, SchemaVersionNumber, SchemaVersionStatus};
use model::failure::Kind;
use registry::{Error, Registrar, Source, TEXT_BYTES_MAX, Wanted};
use uuid::Uuid;

use crate::refusal::{Meaning, meaning};
use crate::sdk;

/// How long one attempt and all of them may take. A version's text comes in well under a second.
const ATTEMPT: Duration = Duration::from_secs(3);
const OPERATION: Duration = Duration::from_secs(8);

/// The most versions that a schema has, many times over: an account has ten thousand.
const VERSIONS_MAX: u32 = 100_000;

/// What the session of an assumed role is called.
const SESSION: &str = "frazil";

/// Glue's word for what is not there.
const NOT_THERE: &str = "EntityNotFoundException";

/// Characters of a service's own words that are passed on.
const WORDS_MAX: usize = 200;

/// Which registry, and who asks it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// What the environment calls it.
    pub name: String,
    /// The registry's name in Glue. Versions of schemas in another one are not taken; without it, all of the account's are.
    pub registry_name: Option<String>,
    /// Its region, where it is not the one that the SDK's chain of settings says.
    pub region: Option<String>,
    /// A role to assume, of another account for example.
    pub assume_role: Option<String>,
    /// What the role asks for of those of other accounts.
    pub external_id: Option<String>,
}

/// Why no client could be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Neither the environment nor the SDK's chain of settings say a region.
    #[error("no AWS region is set for the registry `{0}`: set `region` in its block, or AWS_REGION")]
    NoRegion(String),
}

impl ConnectError {
    /// What happens next.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        Kind::Misconfigured
    }
}

/// A registry in Glue.
#[derive(Clone)]
pub struct GlueSchemas {
    client: Client,
    access: Access,
}

impl fmt::Debug for GlueSchemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlueSchemas").field("access", &self.access).finish_non_exhaustive()
    }
}

impl GlueSchemas {
    /// A client by the AWS SDK's own chain: environment, profile, web identity, container, instance. `AWS_ENDPOINT_URL` and
    /// `AWS_ENDPOINT_URL_GLUE` name another service. Nothing is asked of Glue yet.
    ///
    /// # Errors
    /// When no region is known.
    pub async fn connect(access: Access) -> Result<Self, ConnectError> {
        let mut settings = sdk::settings();
        if let Some(region) = &access.region {
            settings = settings.region(Region::new(region.clone()));
        }
        let shared = settings.load().await;
        let region = shared.region().cloned().ok_or_else(|| ConnectError::NoRegion(access.name.clone()))?;
        let timeouts = shared.timeout_config().map_or_else(TimeoutConfig::builder, TimeoutConfig::to_builder);
        let timeouts = timeouts.operation_attempt_timeout(ATTEMPT).operation_timeout(OPERATION).build();
        let mut config = Builder::from(&shared).timeout_config(timeouts);
        if let Some(role) = &access.assume_role {
            let mut role = AssumeRoleProvider::builder(role).configure(&shared).session_name(SESSION).region(region);
            if let Some(id) = &access.external_id {
                role = role.external_id(id);
            }
            config = config.credentials_provider(role.build().await);
        }
        Ok(Self::with(Client::from_conf(config.build()), access))
    }

    /// Over a client made elsewhere.
    #[must_use]
    pub const fn with(client: Client, access: Access) -> Self {
        Self { client, access }
    }

    fn read(&self, wanted: &Wanted, answer: GetSchemaVersionOutput) -> Result<registry::Registered, Error> {
        let garbage =
            |message: String| Error::Garbage { registry: self.access.name.clone(), wanted: wanted.clone(), message };
        if let (Some(own), Some(arn)) = (&self.access.registry_name, answer.schema_arn())
            && registry_of(arn).is_some_and(|registry| registry != own)
        {
            return Err(self.not_found(wanted));
        }
        let kind = match answer.data_format() {
            Some(DataFormat::Avro) => registry::Kind::Avro,
            Some(DataFormat::Protobuf) => registry::Kind::Protobuf,
            Some(DataFormat::Json) => registry::Kind::Json,
            Some(other) => return Err(garbage(format!("it is a schema of the format `{other}`"))),
            None => return Err(garbage("it tells no data format".to_owned())),
        };
        // It was registered, and refused for what its schema says of compatibility: no record is written with it.
        let is_refused = matches!(answer.status(), Some(SchemaVersionStatus::Failure | SchemaVersionStatus::Deleting));
        if is_refused && matches!(wanted, Wanted::Version(..)) {
            return Err(self.not_found(wanted));
        }
        let version = answer.version_number().and_then(|number| u32::try_from(number).ok());
        match answer.schema_definition {
            Some(text) if text.len() <= TEXT_BYTES_MAX => {
                Ok(registry::Registered { kind, text, imports: Vec::new(), version })
            }
            Some(_) => Err(garbage(format!("the schema has more than {TEXT_BYTES_MAX} bytes"))),
            None => Err(garbage("it holds no schema".to_owned())),
        }
    }

    fn not_found(&self, wanted: &Wanted) -> Error {
        Error::NotFound { registries: format!("the registry `{}`", self.access.name), wanted: wanted.clone() }
    }

    fn failed<E>(&self, wanted: &Wanted, error: SdkError<E, HttpResponse>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let (registry, wanted) = (self.access.name.clone(), wanted.clone());
        let error = match error {
            SdkError::ServiceError(refusal) => {
                let status = refusal.raw().status().as_u16();
                let error = refusal.into_err();
                let code = error.code().unwrap_or_default();
                if code == NOT_THERE {
                    return self.not_found(&wanted);
                }
                let words: String = error.message().unwrap_or_default().chars().take(WORDS_MAX).collect();
                let message = format!("Glue answers HTTP {status}, {code}: {words}");
                return match meaning(status, code) {
                    Meaning::Later | Meaning::Broken => Error::Outage { registry, wanted, message },
                    Meaning::Rights | Meaning::Credentials => Error::Denied { registry, wanted, message },
                    Meaning::No => Error::Garbage { registry, wanted, message },
                };
            }
            SdkError::TimeoutError(_) => {
                let waited_ms = u64::try_from(OPERATION.as_millis()).unwrap_or(u64::MAX);
                return Error::TimedOut { registry, wanted, waited_ms };
            }
            // A body that was read to its end, and makes no sense.
            SdkError::ResponseError(answer)
                if answer.raw().body().bytes().is_some() && !answer.raw().status().is_server_error() =>
            {
                let answer: SdkError<E, _> = SdkError::ResponseError(answer);
                let message = format!("Glue's answer can't be read: {}", sdk::causes(&answer));
                return Error::Garbage { registry, wanted, message };
            }
            error => error,
        };
        let source: Box<dyn std::error::Error + Send + Sync> =
            error.into_source().unwrap_or_else(|error| error.to_string().into());
        match sdk::find::<CredentialsError>(&*source) {
            Some(fault @ CredentialsError::ProviderTimedOut(_)) => {
                let message = format!("AWS credentials did not come in time: {}", sdk::causes(fault));
                Error::Outage { registry, wanted, message }
            }
            Some(fault) => {
                let message = match &self.access.assume_role {
                    Some(role) => format!("the role {role} can't be assumed: {}", sdk::causes(fault)),
                    None => format!("AWS credentials could not be had: {}", sdk::causes(fault)),
                };
                Error::Denied { registry, wanted, message }
            }
            None => {
                let message = format!("Glue could not be reached: {}", sdk::causes(&*source));
                Error::Outage { registry, wanted, message }
            }
        }
    }
}

#[async_trait]
impl Source for GlueSchemas {
    fn name(&self) -> &str {
        &self.access.name
    }

    fn keeps(&self, wanted: &Wanted) -> bool {
        self.request(wanted).is_some()
    }

    fn registrar(&self) -> Option<&dyn Registrar> {
        Some(self)
    }

    async fn schema(&self, wanted: &Wanted) -> Result<registry::Registered, Error> {
        let request = match self.request(wanted) {
            Some(Request::Version(id)) => self.client.get_schema_version().schema_version_id(id.to_string()),
            Some(Request::Numbered(schema, number)) => {
                self.client.get_schema_version().schema_id(schema).schema_version_number(number)
            }
            None => return Err(self.not_found(wanted)),
        };
        match request.send().await {
            Ok(answer) => self.read(wanted, answer),
            Err(error) => Err(self.failed(wanted, error)),
        }
    }

    async fn versions(&self, name: &str) -> Result<Vec<u32>, Error> {
        let wanted = Wanted::Latest(name.to_owned());
        let newest = self.schema(&wanted).await?.version.unwrap_or_default();
        Ok((1..=newest.min(VERSIONS_MAX)).collect())
    }
}

enum Request {
    Version(Uuid),
    Numbered(SchemaId, SchemaVersionNumber),
}

impl GlueSchemas {
    fn id(&self, name: &str) -> SchemaId {
        SchemaId::builder().schema_name(name).set_registry_name(self.access.registry_name.clone()).build()
    }

    fn request(&self, wanted: &Wanted) -> Option<Request> {
        match wanted {
            Wanted::Named(registry::Reference::GlueVersion(id)) => Some(Request::Version(*id)),
            Wanted::Named(_) => None,
            Wanted::Latest(name) => {
                let latest = SchemaVersionNumber::builder().latest_version(true).build();
                Some(Request::Numbered(self.id(name), latest))
            }
            Wanted::Version(name, number) => {
                let numbered = SchemaVersionNumber::builder().version_number(i64::from(*number)).build();
                Some(Request::Numbered(self.id(name), numbered))
            }
        }
    }
}

/// The registry in a schema's ARN: `arn:aws:glue:eu-west-1:123456789012:schema/REGISTRY/NAME`.
fn registry_of(arn: &str) -> Option<&str> {
    let resource = arn.splitn(6, ':').nth(5)?;
    resource.strip_prefix("schema/")?.split_once('/').map(|(registry, _)| registry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arn_names_its_registry() {
        let check = |arn: &str, expected: Option<&str>| assert_eq!(registry_of(arn), expected, "{arn}");
        check(
            "arn:aws:glue:eu-west-1:123456789012:schema/employee-schema-registry/Employee.proto",
            Some("employee-schema-registry"),
        );
        check("arn:aws-cn:glue:cn-north-1:123456789012:schema/r/a:b", Some("r"));
        check("arn:aws:glue:eu-west-1:123456789012:registry/r", None);
        check("schema/r/n", None);
        check("", None);
    }
}

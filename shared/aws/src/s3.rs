//! Amazon S3, and what speaks its protocol.
//!
//! What a bucket must be: a general purpose one (a directory bucket lists in no order). What it should have: a lifecycle
//! rule that ends incomplete multipart uploads after a day or more, for those of a process that died; no rule that removes
//! or archives objects.

use std::fmt;
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{Builder, Region};
use aws_types::SdkConfig;
use aws_types::service_config::ServiceConfigKey;
use model::failure::Kind;

use crate::sdk;

mod call;
mod fault;
mod put;
#[cfg(feature = "storage")]
mod storage;
mod store;
#[cfg(feature = "storage")]
mod upload;

#[cfg(feature = "storage")]
pub use storage::S3Storage;
pub use store::S3Store;

/// How long one attempt may take until the answer's head is there. The largest body of one request is a few times 8 MiB,
/// which a line of 2 Mbit/s still carries; bodies that stand still are ended much earlier by the SDK.
const ATTEMPT: Duration = Duration::from_secs(120);

/// Where requests are signed for when an endpoint is given and no region: what such services take when nothing is said.
const REGION_OF_ENDPOINTS: &str = "us-east-1";

/// Why no client could be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The chain of settings says nothing of a region.
    #[error("no AWS region is set: set AWS_REGION, or `region` in the profile")]
    NoRegion,
}

impl ConnectError {
    /// What happens next.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        Kind::Misconfigured
    }
}

/// One client, for every bucket of a region. Cloning shares its connections and credentials.
#[derive(Clone)]
pub struct S3 {
    client: Client,
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3").field("region", &self.region()).finish_non_exhaustive()
    }
}

/// A client made elsewhere.
impl From<Client> for S3 {
    fn from(client: Client) -> Self {
        Self { client }
    }
}

impl S3 {
    /// A client by the AWS SDK's own chain: environment, profile, web identity, container, instance. `AWS_ENDPOINT_URL`
    /// and `AWS_ENDPOINT_URL_S3` name another service, whose buckets are then addressed by path: few of them have a host
    /// name for each bucket. Nothing is asked of S3 yet.
    ///
    /// # Errors
    /// When no region is known.
    pub async fn connect() -> Result<Self, ConnectError> {
        Self::connect_in(None).await
    }

    /// The same for buckets of this region, where there is one, whatever the settings say of theirs.
    ///
    /// # Errors
    /// As [`S3::connect`].
    pub async fn connect_in(region: Option<&str>) -> Result<Self, ConnectError> {
        let mut settings = sdk::settings();
        if let Some(region) = region {
            settings = settings.region(Region::new(region.to_owned()));
        }
        let shared = settings.load().await;
        let timeouts = shared.timeout_config().map_or_else(TimeoutConfig::builder, TimeoutConfig::to_builder);
        let config = Builder::from(&shared).timeout_config(timeouts.operation_attempt_timeout(ATTEMPT).build());
        let config = match (has_endpoint(&shared), shared.region()) {
            (false, None) => return Err(ConnectError::NoRegion),
            (false, Some(_)) => config,
            (true, None) => config.force_path_style(true).region(Region::from_static(REGION_OF_ENDPOINTS)),
            (true, Some(_)) => config.force_path_style(true),
        };
        Ok(Self { client: Client::from_conf(config.build()) })
    }

    /// The store of a bucket, under a prefix (empty for all of the bucket; slashes at its ends don't count).
    ///
    /// # Errors
    /// When the prefix can't be part of keys, or the bucket is a directory bucket.
    pub fn store(&self, bucket: &str, prefix: &str) -> Result<S3Store, staging::store::Error> {
        S3Store::new(self.clone(), bucket, prefix)
    }

    /// Iceberg's files at `s3://` locations, of any bucket that the credentials reach.
    #[cfg(feature = "storage")]
    #[must_use]
    pub fn file_io(&self) -> iceberg::io::FileIO {
        table::storage::file_io(std::sync::Arc::new(S3Storage::new(self.clone())))
    }

    fn region(&self) -> Option<&str> {
        self.client.config().region().map(AsRef::as_ref)
    }
}

/// Whether the chain of settings names an endpoint, looked for as the SDK's own client does.
fn has_endpoint(shared: &SdkConfig) -> bool {
    let key = ServiceConfigKey::builder().service_id("S3").env("AWS_ENDPOINT_URL").profile("endpoint_url").build();
    let of_service = match (shared.service_config(), key) {
        (Some(settings), Ok(key)) => settings.load_config(key),
        _ => None,
    };
    of_service.is_some() || shared.endpoint_url().is_some()
}

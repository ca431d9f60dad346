//! Tokens for clients of Amazon MSK, on clusters that authenticate by IAM.
//!
//! A token is a presigned request in URL-safe base64 without padding: `GET https://kafka.REGION.amazonaws.com/
//! ?Action=kafka-cluster:Connect`, signed in its query by Signature Version 4 for the service `kafka-cluster` and 900 s,
//! and a parameter `User-Agent` added once it is signed. That is the format of AWS's own signers for clients that are not
//! Java's (`aws-msk-iam-sasl-signer-python` and its siblings); it is carried by the SASL mechanism OAUTHBEARER.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::sts::AssumeRoleProvider;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use aws_types::region::Region;
use model::failure::Kind;

use crate::sdk;

/// How long a token holds: what MSK takes at most.
const LIFE: Duration = Duration::from_secs(900);
/// How long credentials may be waited for.
const WAIT: Duration = Duration::from_secs(30);
/// What an assumed role's session is called unless it is named.
const SESSION: &str = "frazil";
/// For the signed request's `User-Agent`, percent-encoded.
const USER_AGENT: &str = concat!("frazil%2F", env!("CARGO_PKG_VERSION"));

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Neither the brokers' names nor the chain of settings say a region.
    #[error(
        "no AWS region is known to sign for: the brokers' names hold none (…kafka.REGION.amazonaws.com), and none is set"
    )]
    NoRegion,
    /// It can't be part of a host name.
    #[error("`{0}` is no AWS region")]
    BadRegion(String),
    /// The chain has none.
    #[error(
        "there are no AWS credentials: neither in the environment, a profile, a web identity, a container nor an instance"
    )]
    NoCredentials,
    /// The profile has none, or there is no such profile.
    #[error("there are no AWS credentials in the profile `{0}`")]
    NoCredentialsIn(String),
    /// They are set, and can't be used.
    #[error("AWS credentials could not be had: {0}")]
    BadCredentials(String),
    /// Whoever has them did not answer.
    #[error("AWS credentials did not come in time")]
    LateCredentials,
    /// The request could not be signed.
    #[error("the token could not be signed: {0}")]
    Unsigned(String),
}

impl Error {
    /// What happens next.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::NoRegion
            | Self::BadRegion(_)
            | Self::NoCredentials
            | Self::NoCredentialsIn(_)
            | Self::BadCredentials(_) => Kind::Misconfigured,
            Self::LateCredentials => Kind::Retry,
            Self::Unsigned(_) => Kind::Bug,
        }
    }

    /// What to do about it, where it is not to be tried again.
    #[must_use]
    pub const fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::NoRegion | Self::BadRegion(_) => Some("set AWS_REGION, or `region` in the profile"),
            Self::NoCredentials => Some("set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
            Self::NoCredentialsIn(_) => Some("check `awsProfileName`, and the profiles in ~/.aws/config"),
            Self::BadCredentials(_) => {
                Some("check profile and role; after single sign-on has run out: `aws sso login`")
            }
            Self::LateCredentials | Self::Unsigned(_) => None,
        }
    }
}

impl From<CredentialsError> for Error {
    /// The causes are said, the error itself is not kept: a provider's answer may be among its parts.
    fn from(error: CredentialsError) -> Self {
        match error {
            CredentialsError::CredentialsNotLoaded(_) => Self::NoCredentials,
            CredentialsError::ProviderTimedOut(_) => Self::LateCredentials,
            other => Self::BadCredentials(sdk::causes(&other)),
        }
    }
}

/// Whose tokens they are, where it is not whom the SDK's own chain says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// A profile; wins over what is in the environment.
    pub profile: Option<String>,
    /// A role to assume, asked for by the profile, else by the chain.
    pub role: Option<String>,
    /// What the role's session is called.
    pub session: Option<String>,
    /// What the role asks for of those of other accounts.
    pub external_id: Option<String>,
    /// The region whose STS is asked for the role; the cluster's unless given.
    pub sts_region: Option<String>,
}

/// A token. Not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// What is sent.
    pub value: String,
    /// When it ends, in milliseconds since the epoch: with its signature, or with the credentials if they end sooner.
    pub expires_ms: i64,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("expires_ms", &self.expires_ms).finish_non_exhaustive()
    }
}

/// Makes tokens for the clusters of a region.
#[derive(Clone)]
pub struct Signer {
    credentials: SharedCredentialsProvider,
    region: String,
    profile: Option<String>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("region", &self.region).finish_non_exhaustive()
    }
}

impl Signer {
    /// A signer for these brokers (`HOST:PORT,…`). The region is the one their names hold, else the chain's. Nobody is
    /// asked for credentials yet.
    ///
    /// # Errors
    /// When no region is known.
    pub async fn connect(who: &Who, bootstrap_servers: &str) -> Result<Self, Error> {
        let mut settings = sdk::settings();
        if let Some(profile) = &who.profile {
            settings = settings.profile_name(profile);
        }
        if let Some(region) = region_of(bootstrap_servers) {
            settings = settings.region(Region::new(region.to_owned()));
        }
        let mut config = settings.load().await;
        let region = config.region().ok_or(Error::NoRegion)?.to_string();
        if !is_region(&region) {
            return Err(Error::BadRegion(region));
        }
        if let Some(profile) = &who.profile {
            // The chain would take the environment's keys first.
            let provider = ProviderConfig::without_region()
                .with_region(Some(Region::new(region.clone())))
                .with_http_client(sdk::http());
            let of_profile =
                ProfileFileCredentialsProvider::builder().profile_name(profile).configure(&provider).build();
            config = config.into_builder().credentials_provider(SharedCredentialsProvider::new(of_profile)).build();
        }
        let credentials = match &who.role {
            None => config.credentials_provider().ok_or(Error::NoCredentials)?,
            Some(role) => {
                let mut asked = AssumeRoleProvider::builder(role)
                    .configure(&config)
                    .session_name(who.session.as_deref().unwrap_or(SESSION));
                if let Some(id) = &who.external_id {
                    asked = asked.external_id(id);
                }
                if let Some(region) = &who.sts_region {
                    asked = asked.region(Region::new(region.clone()));
                }
                SharedCredentialsProvider::new(asked.build().await)
            }
        };
        Ok(Self { credentials, region, profile: who.profile.clone() })
    }

    /// The region that is signed for.
    #[must_use]
    pub fn region(&self) -> &str {
        &self.region
    }

    /// A token that begins to hold now, in milliseconds since the epoch.
    ///
    /// # Errors
    /// Why there are no credentials. Nobody is waited for longer than half a minute.
    pub async fn token(&self, now_ms: i64) -> Result<Token, Error> {
        let asked = tokio::time::timeout(WAIT, self.credentials.provide_credentials()).await;
        let credentials =
            asked.map_err(|_| Error::LateCredentials)?.map_err(|error| match (Error::from(error), &self.profile) {
                (Error::NoCredentials, Some(profile)) => Error::NoCredentialsIn(profile.clone()),
                (error, _) => error,
            })?;
        presign(credentials, &self.region, now_ms)
    }
}

fn presign(credentials: Credentials, region: &str, now_ms: i64) -> Result<Token, Error> {
    let unsigned = |why: &(dyn std::error::Error + 'static)| Error::Unsigned(sdk::causes(why));
    // A signature's time has no fraction.
    let now = u64::try_from(now_ms).unwrap_or(0) / 1000;
    let signed_at = UNIX_EPOCH + Duration::from_secs(now);
    let ends = credentials.expiry().map_or(signed_at + LIFE, |expiry| expiry.min(signed_at + LIFE));

    let url = format!("https://kafka.{region}.amazonaws.com/?Action=kafka-cluster%3AConnect");
    let mut settings = SigningSettings::default();
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(LIFE);
    let identity = credentials.into();
    let params = SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name("kafka-cluster")
        .time(signed_at)
        .settings(settings)
        .build()
        .map_err(|e| unsigned(&e))?
        .into();
    let request = SignableRequest::new("GET", url.as_str(), std::iter::empty(), SignableBody::Bytes(&[]))
        .map_err(|e| unsigned(&e))?;
    let (signature, _) = sign(request, &params).map_err(|e| unsigned(&e))?.into_parts();
    let mut request = http::Request::get(&url).body(()).map_err(|e| unsigned(&e))?;
    signature.apply_to_request_http1x(&mut request);
    let signed = format!("{}&User-Agent={USER_AGENT}", request.uri());
    Ok(Token { value: base64_simd::URL_SAFE_NO_PAD.encode_to_string(signed), expires_ms: millis(ends) })
}

fn millis(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn is_region(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// The region that the first broker's name holds: `b-1.demo.a1b2c3.c2.kafka.eu-west-1.amazonaws.com:9098`,
/// `boot-a1b2c3.c1.kafka-serverless.eu-west-1.amazonaws.com:9098`.
#[must_use]
pub fn region_of(bootstrap_servers: &str) -> Option<&str> {
    bootstrap_servers.split(',').find_map(|server| {
        let host = server.trim().rsplit_once(':').map_or(server.trim(), |(host, _)| host);
        let mut labels = host.split('.');
        labels.find(|label| matches!(*label, "kafka" | "kafka-serverless"))?;
        let region = labels.next().filter(|region| is_region(region))?;
        (labels.next() == Some("amazonaws")).then_some(region)
    })
}

#[cfg(test)]
mod tests;

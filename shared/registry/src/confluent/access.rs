//! How a registry is reached: its URL, who we are, whom we trust.

use std::fmt;
use std::time::Duration;

use http::HeaderValue;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use model::failure::Kind;
use model::secret::Secret;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use url::Url;

/// Causes of one error that are looked at: a chain is finite, but nothing proves it short.
const CAUSES_MAX: usize = 16;

/// How one registry is reached. Secrets show as such.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the environment calls it.
    pub name: String,
    /// `http://` or `https://`, a host, and the path that the interface begins at.
    pub url: String,
    /// Who we are to it, by basic authentication.
    pub credentials: Option<Credentials>,
    /// Certificates, in PEM, that alone are trusted to vouch for it; those of the machine where there are none.
    pub trusted_pem: Option<Vec<u8>>,
    /// Who we are to it, by certificate.
    pub identity: Option<Identity>,
    /// How long one request may take.
    pub timeout: Duration,
}

impl Settings {
    /// A registry that asks for nothing.
    #[must_use]
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Self {
        let timeout = Duration::from_secs(5);
        Self { name: name.into(), url: url.into(), credentials: None, trusted_pem: None, identity: None, timeout }
    }
}

/// A user and a password.
#[derive(Clone, Debug)]
pub struct Credentials {
    user: String,
    password: Secret,
}

impl Credentials {
    /// Of a user without a colon, which basic authentication has no way to send.
    ///
    /// # Errors
    /// [`SetupError::Credentials`].
    pub fn new(user: impl Into<String>, password: Secret) -> Result<Self, SetupError> {
        let user = user.into();
        if user.is_empty() || user.contains(':') { Err(SetupError::Credentials) } else { Ok(Self { user, password }) }
    }

    /// As a secret holds them: `user:password`, or `{"username": …, "password": …}` as event source mappings want them.
    ///
    /// # Errors
    /// [`SetupError::Credentials`].
    pub fn parse(secret: &Secret) -> Result<Self, SetupError> {
        #[derive(Deserialize)]
        struct Pair {
            username: String,
            password: String,
        }
        let text = std::str::from_utf8(secret.reveal()).map_err(|_| SetupError::Credentials)?.trim();
        if text.starts_with('{') {
            let pair: Pair = serde_json::from_str(text).map_err(|_| SetupError::Credentials)?;
            return Self::new(pair.username, Secret::new(pair.password.into_bytes()));
        }
        let (user, password) = text.split_once(':').ok_or(SetupError::Credentials)?;
        Self::new(user, Secret::new(password.as_bytes()))
    }

    fn encoded(&self) -> String {
        base64_simd::STANDARD.encode_to_string([self.user.as_bytes(), b":", self.password.reveal()].concat())
    }

    /// What a server is shown of them.
    pub(super) fn shown(&self) -> [Secret; 2] {
        [self.password.clone(), Secret::new(self.encoded().into_bytes())]
    }

    pub(super) fn header(&self) -> Result<HeaderValue, SetupError> {
        let text = format!("Basic {}", self.encoded());
        let mut value = HeaderValue::try_from(text).map_err(|_| SetupError::Credentials)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// A certificate and its key.
#[derive(Clone)]
pub struct Identity {
    /// In PEM: ours first, then those that vouch for it.
    pub chain_pem: Vec<u8>,
    /// In PEM, unencrypted.
    pub key_pem: Secret,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// What is wrong with the settings of a registry. None of it shows a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The URL is none, or not of a registry.
    #[error("the registry's URL can't be used: {0}")]
    Url(&'static str),
    /// The secret does not hold a user and a password.
    #[error("the registry's secret is neither `user:password` nor {{\"username\": …, \"password\": …}}")]
    Credentials,
    /// A certificate or a key is none, or does not fit.
    #[error("the registry's {what} can't be used: {message}")]
    Certificate {
        /// Which.
        what: &'static str,
        /// What is wrong.
        message: String,
    },
}

impl SetupError {
    /// What happens next.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        Kind::Misconfigured
    }
}

/// The URL without a slash at its end. What it says is not repeated in errors: it may hold a password.
pub(super) fn base(text: &str) -> Result<String, SetupError> {
    let url = Url::parse(text).map_err(|_| SetupError::Url("it is not a URL such as https://registry.example.com"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(SetupError::Url("it begins with neither http:// nor https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(SetupError::Url("it holds credentials; they are a `secret`, such as \"env:SCHEMA_REGISTRY_AUTH\""));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(SetupError::Url("it has a query or a fragment"));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

pub(super) fn connector(settings: &Settings) -> Result<HttpsConnector<HttpConnector>, SetupError> {
    let wrong =
        |what: &'static str, error: &dyn fmt::Display| SetupError::Certificate { what, message: error.to_string() };
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("TLS", &error))?;
    let mut roots = RootCertStore::empty();
    let config = match &settings.trusted_pem {
        Some(pem) => {
            for certificate in certificates(pem, "trusted certificates")? {
                roots.add(certificate).map_err(|error| wrong("trusted certificates", &error))?;
            }
            config.with_root_certificates(roots)
        }
        None => {
            // Some of a machine's certificates are always odd, and one good one may be the right one.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            config.with_root_certificates(roots)
        }
    };
    let config = match &settings.identity {
        Some(identity) => {
            let chain = certificates(&identity.chain_pem, "client certificate")?;
            // The parser's words may quote the key.
            let key = PrivateKeyDer::from_pem_slice(identity.key_pem.reveal())
                .map_err(|_| wrong("client key", &"there is no unencrypted PKCS#8, PKCS#1 or SEC1 key in PEM"))?;
            config.with_client_auth_cert(chain, key).map_err(|error| wrong("client certificate", &error))?
        }
        None => config.with_no_client_auth(),
    };
    Ok(HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().build())
}

fn certificates(pem: &[u8], what: &'static str) -> Result<Vec<CertificateDer<'static>>, SetupError> {
    let wrong = |message: String| SetupError::Certificate { what, message };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(wrong("there is no certificate in PEM".to_owned())),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// An error and its causes, each said once.
pub(super) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |e| e.source()).take(CAUSES_MAX) {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
    }
    text
}

/// Whether certificates are why there is no connection: trying again changes nothing.
pub(super) fn distrust(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut chain = std::iter::successors(Some(error), |e| e.source()).take(CAUSES_MAX);
    let found = chain.find_map(|error| {
        // What TLS says reaches hyper inside errors of input and output, and those don't name what they hold as a cause.
        let mut inside = error;
        for _ in 0..CAUSES_MAX {
            match inside.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
                Some(held) => inside = held,
                None => break,
            }
        }
        inside.downcast_ref::<rustls::Error>()
    });
    match found {
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => true,
        Some(rustls::Error::AlertReceived(alert)) => {
            let alert = format!("{alert:?}");
            ["Certificate", "UnknownCA", "AccessDenied", "HandshakeFailure"].iter().any(|word| alert.contains(word))
        }
        _ => false,
    }
}

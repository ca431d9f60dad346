//! How a REST catalog is reached: its URL, and who we are to it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::Region;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_sigv4::http_request::{PayloadChecksumKind, SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use model::clock::{Clock, Timestamp};
use model::failure::Kind;
use model::secret::Secret;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use table::catalog::Error;
use tokio::sync::Mutex;

use super::super::fault::CREDENTIALS as CREDENTIALS_MISSING;
use super::answer::Answer;
use crate::sdk;

/// How long one request may take: a server writes the table's metadata within it.
const CALL: Duration = Duration::from_secs(30);

/// How long nobody waits for credentials of AWS.
const CREDENTIALS: Duration = Duration::from_secs(10);

/// An answer's bytes: a table's metadata with all of its snapshots.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A token is not used so shortly before its end.
const TOKEN_MARGIN_MS: i64 = 60_000;

/// What is asked of a token's server where nothing else is said.
const SCOPE: &str = "catalog";

/// What to do where there was no connection. It may pass by itself, or never.
const UNREACHABLE: &str = "run the same command again; where it stays so, check the URL's host, port and scheme (http or https), the network, and whether this machine trusts the server's certificate";

const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Which catalog, and who asks it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `http://` or `https://`, a host, and the path that `/v1` follows.
    pub uri: String,
    /// What the server calls the warehouse, where it has several: a name, an account's id, a bucket's ARN.
    pub warehouse: Option<String>,
    /// Who we are to it.
    pub auth: Auth,
}

/// Who we are to a server.
#[derive(Clone, Debug)]
pub enum Auth {
    /// Nobody.
    Nothing,
    /// Who holds this token.
    Token(Secret),
    /// By OAuth 2.0's client credentials.
    OAuth2 {
        /// `ID:SECRET`, or the secret alone.
        credential: Secret,
        /// What is asked for; `catalog` unless said.
        scope: Option<String>,
        /// Who gives tokens; the catalog itself unless said.
        server: Option<String>,
    },
    /// By AWS's signatures.
    SigV4 {
        /// The service's name in them: `glue`, `s3tables`.
        service: String,
        /// Its region, where it is not the one of the AWS settings.
        region: Option<String>,
    },
}

enum Signer {
    Nothing,
    Token(HeaderValue),
    OAuth2 { id: Option<String>, secret: Secret, scope: String, server: String, token: Mutex<Option<Token>> },
    SigV4 { service: String, region: String, credentials: SharedCredentialsProvider },
}

#[derive(Clone)]
struct Token {
    header: HeaderValue,
    /// In milliseconds since the epoch; none where it has no end that we know.
    ends: Option<i64>,
}

/// What sends requests.
pub(super) struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    signer: Signer,
    clock: Arc<dyn Clock>,
    /// Without a slash at the end.
    pub(super) base: String,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &self.base).finish_non_exhaustive()
    }
}

fn misconfigured(message: impl Into<String>) -> Error {
    Error::failed(Kind::Misconfigured, message)
}

/// A header that is not shown.
fn bearer(token: &[u8]) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_bytes(&[b"Bearer ", token].concat())
        .map_err(|_| misconfigured("the REST catalog's token is none: it holds a byte that no header may"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The URL without a slash at its end. What it says is not repeated in errors: it may hold a password.
fn base(text: &str) -> Result<String, Error> {
    let refused = |why: &str| misconfigured(format!("the REST catalog's URL can't be used: {why}"));
    let url: http::Uri =
        text.parse().map_err(|_| refused("it is not a URL such as https://catalog.example.com/api"))?;
    if !matches!(url.scheme_str(), Some("http" | "https")) || url.host().is_none_or(str::is_empty) {
        return Err(refused("it begins with neither http:// nor https://"));
    }
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(refused("it holds credentials; they are a `secret`, such as \"env:CATALOG_TOKEN\""));
    }
    if url.query().is_some() {
        return Err(refused("it has a query"));
    }
    Ok(text.trim_end_matches('/').trim_end_matches("/v1").to_owned())
}

impl Client {
    /// `lent` are credentials of AWS in the place of those that the SDK's chain finds.
    pub(super) async fn connect(
        settings: &Settings,
        lent: Option<SharedCredentialsProvider>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let base = base(&settings.uri)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        // Some of a machine's certificates are always odd, and one good one may be the right one.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::caused(Kind::Bug, "TLS can't be set up", e))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        // None is kept for later: a swap on a connection that is closed already would not know its outcome.
        let http = legacy::Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        let signer = match &settings.auth {
            Auth::Nothing => Signer::Nothing,
            Auth::Token(token) => Signer::Token(bearer(token.reveal())?),
            Auth::OAuth2 { credential, scope, server } => {
                let text = std::str::from_utf8(credential.reveal())
                    .map_err(|_| misconfigured("the REST catalog's secret is not text: it takes ID:SECRET"))?;
                let (id, secret) = match text.trim().split_once(':') {
                    Some((id, secret)) => (Some(id.to_owned()), secret),
                    None => (None, text.trim()),
                };
                Signer::OAuth2 {
                    id,
                    secret: Secret::new(secret.as_bytes()),
                    scope: scope.clone().unwrap_or_else(|| SCOPE.to_owned()),
                    server: server.clone().unwrap_or_else(|| format!("{base}/v1/oauth/tokens")),
                    token: Mutex::new(None),
                }
            }
            Auth::SigV4 { service, region } => {
                let mut chain = sdk::settings();
                if let Some(region) = region {
                    chain = chain.region(Region::new(region.clone()));
                }
                let shared = chain.load().await;
                let region = shared.region().ok_or_else(|| {
                    misconfigured("no AWS region is set for the REST catalog")
                        .with_remedy("say `region` in its block of frazil.toml, or set AWS_REGION")
                })?;
                let credentials = lent
                    .or_else(|| shared.credentials_provider())
                    .ok_or_else(|| misconfigured("there are no AWS credentials").with_remedy(CREDENTIALS_MISSING))?;
                Signer::SigV4 { service: service.clone(), region: region.to_string(), credentials }
            }
        };
        Ok(Self { http, signer, clock, base })
    }

    /// One request. Of a token that the server does not know any more a new one is had, and the request made once more: it was certainly
    /// not done.
    pub(super) async fn send(&self, method: Method, url: &str, body: Option<Vec<u8>>, key: Option<&str>) -> Answer {
        let body = Bytes::from(body.unwrap_or_default());
        let answer = self.once(&method, url, &body, key).await;
        match (&self.signer, &answer) {
            (Signer::OAuth2 { token, .. }, Answer::Said { status, .. })
                if matches!(status.as_u16(), 401 | 419) && token.lock().await.take().is_some() =>
            {
                self.once(&method, url, &body, key).await
            }
            _ => answer,
        }
    }

    async fn once(&self, method: &Method, url: &str, body: &Bytes, key: Option<&str>) -> Answer {
        let mut request = Request::builder().method(method.clone()).uri(url).header(ACCEPT, JSON);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, JSON);
        }
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let request = match request.body(Full::new(body.clone())) {
            Ok(request) => request,
            Err(error) => return Answer::Unasked(Error::caused(Kind::Bug, "the request can't be made", error)),
        };
        match self.signed(request, body).await {
            Ok(request) => self.exchange(request).await,
            Err(error) => Answer::Unasked(error),
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Answer {
        let exchange = async {
            let response = match self.http.request(request).await {
                Ok(response) => response,
                Err(error) if error.is_connect() => {
                    let why = format!("the REST catalog could not be reached: {}", sdk::causes(&error));
                    return Answer::Unasked(Error::failed(Kind::Retry, why).with_remedy(UNREACHABLE));
                }
                Err(error) => {
                    return Answer::Nothing(format!("the REST catalog did not answer: {}", sdk::causes(&error)));
                }
            };
            let (head, body) = response.into_parts();
            match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
                Ok(body) => Answer::Said { status: head.status, body: body.to_bytes() },
                Err(error) => Answer::Nothing(format!("the REST catalog's answer broke off: {error}")),
            }
        };
        let waited = || Answer::Nothing(format!("the REST catalog did not answer within {} s", CALL.as_secs()));
        tokio::time::timeout(CALL, exchange).await.unwrap_or_else(|_| waited())
    }

    async fn signed(&self, mut request: Request<Full<Bytes>>, body: &Bytes) -> Result<Request<Full<Bytes>>, Error> {
        match &self.signer {
            Signer::Nothing => {}
            Signer::Token(header) => {
                request.headers_mut().insert(AUTHORIZATION, header.clone());
            }
            Signer::OAuth2 { token, .. } => {
                let header = self.token(&mut *token.lock().await).await?;
                request.headers_mut().insert(AUTHORIZATION, header);
            }
            Signer::SigV4 { service, region, credentials } => {
                self.sigv4(&mut request, body, (service, region), credentials).await?;
            }
        }
        Ok(request)
    }

    /// The token that is there, or a new one.
    async fn token(&self, known: &mut Option<Token>) -> Result<HeaderValue, Error> {
        #[derive(Deserialize)]
        struct Granted {
            access_token: String,
            expires_in: Option<i64>,
        }
        let now = self.clock.now().millis();
        if let Some(token) = known.as_ref().filter(|token| token.ends.is_none_or(|ends| now < ends - TOKEN_MARGIN_MS)) {
            return Ok(token.header.clone());
        }
        let Signer::OAuth2 { id, secret, scope, server, .. } = &self.signer else {
            return Err(Error::failed(Kind::Bug, "a token is asked of a server that gives none"));
        };
        let encoded = |bytes: &[u8]| percent_encode(bytes, NON_ALPHANUMERIC).to_string();
        let mut form = format!("grant_type=client_credentials&scope={}", encoded(scope.as_bytes()));
        if let Some(id) = id {
            form.push_str(&format!("&client_id={}", encoded(id.as_bytes())));
        }
        form.push_str(&format!("&client_secret={}", encoded(secret.reveal())));
        let request = Request::post(server.as_str()).header(CONTENT_TYPE, FORM).header(ACCEPT, JSON);
        let request = request
            .body(Full::from(form))
            .map_err(|_| misconfigured("the URL of who gives the REST catalog's tokens is none"))?;
        match self.exchange(request).await {
            Answer::Said { status: StatusCode::OK, body } => {
                // The answer is the token: no word of it is repeated.
                let granted: Granted = serde_json::from_slice(&body).map_err(|_| {
                    misconfigured("who gives the REST catalog's tokens answers without one")
                        .with_remedy("check `oauth2_server`")
                })?;
                let header = bearer(granted.access_token.as_bytes())?;
                let ends = granted.expires_in.map(|seconds| now.saturating_add(seconds.saturating_mul(1000)));
                *known = Some(Token { header: header.clone(), ends });
                Ok(header)
            }
            Answer::Said { status, .. } if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                let why = format!("who gives the REST catalog's tokens answers HTTP {}", status.as_u16());
                Err(Error::failed(Kind::Retry, why))
            }
            Answer::Said { status, .. } => {
                let why = format!("who gives the REST catalog's tokens answers HTTP {}", status.as_u16());
                let remedy = match status {
                    StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                        "say in `oauth2_server` who gives the catalog's tokens, or check its URL"
                    }
                    _ => "check the catalog's `secret` and `scope`",
                };
                Err(misconfigured(why).with_remedy(remedy))
            }
            Answer::Unasked(error) => Err(error),
            Answer::Nothing(why) => Err(Error::failed(Kind::Retry, why)),
        }
    }

    async fn sigv4(
        &self,
        request: &mut Request<Full<Bytes>>,
        body: &Bytes,
        (service, region): (&str, &str),
        credentials: &SharedCredentialsProvider,
    ) -> Result<(), Error> {
        let asked = tokio::time::timeout(CREDENTIALS, credentials.provide_credentials()).await;
        let credentials = match asked {
            // The causes are said, the error is not kept: a provider's answer may be among its parts.
            Ok(answer) => answer
                .map_err(|error| misconfigured(format!("AWS credentials could not be had: {}", sdk::causes(&error))))
                .map_err(|error| error.with_remedy(CREDENTIALS_MISSING))?,
            Err(_) => return Err(Error::failed(Kind::Retry, "AWS credentials did not come in time")),
        };
        let bug = |error: &(dyn std::error::Error + 'static)| {
            Error::failed(Kind::Bug, format!("a request can't be signed: {}", sdk::causes(error)))
        };
        let mut settings = SigningSettings::default();
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        let identity = credentials.into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region(region)
            .name(service)
            .time(time_of(self.clock.now()))
            .settings(settings)
            .build()
            .map_err(|e| bug(&e))?
            .into();
        let headers = request.headers().iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let uri = request.uri().to_string();
        let signable = SignableRequest::new(request.method().as_str(), uri, headers, SignableBody::Bytes(body));
        let signable = signable.map_err(|e| bug(&e))?;
        let (instructions, _) = sign(signable, &params).map_err(|e| bug(&e))?.into_parts();
        instructions.apply_to_request_http1x(request);
        Ok(())
    }
}

fn time_of(now: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(now.millis()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_server_s_and_holds_no_secret() {
        for (text, expected) in [
            ("https://catalog.example.com", "https://catalog.example.com"),
            ("http://127.0.0.1:8181/", "http://127.0.0.1:8181"),
            ("https://glue.eu-west-1.amazonaws.com/iceberg", "https://glue.eu-west-1.amazonaws.com/iceberg"),
            ("https://polaris.example.com/api/catalog/v1/", "https://polaris.example.com/api/catalog"),
        ] {
            assert_eq!(base(text).unwrap(), expected);
        }
        for text in ["catalog", "ftp://a/b", "https://", "https://ann:hunter2@host/x", "https://host/?token=hunter2"] {
            let refused = base(text).unwrap_err();
            assert_eq!(refused.kind(), Kind::Misconfigured, "{text}");
            assert!(!refused.to_string().contains("hunter2"), "{refused}");
        }
    }
}

//! Registries that speak Confluent's HTTP interface: Confluent's own, Karapace, Redpanda's, Apicurio's.
//!
//! What is asked: `GET /schemas/ids/{id}`, `GET /schemas/guids/{guid}`, `GET /subjects/{subject}/versions` with each version of
//! these and `latest`, and for what a schema refers to `GET /subjects/{subject}/versions/{version}?deleted=true`. A 404 says that there is no such
//! schema only where it comes with one of the interface's own codes (40401 to 40403): a wrong path and somebody else's
//! server answer 404 as well. What is sent: `POST /subjects/{subject}`, which looks for a schema, and
//! `POST /subjects/{subject}/versions`, which adds one.

mod access;
mod answer;
mod registrar;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use codec::framing::Reference;
use codec::schema::{Import, Registered};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use model::secret::Secret;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{Error, Registrar, Source, TEXT_BYTES_MAX, Wanted};
use answer::{Found, Said};

pub use access::{Credentials, Identity, Settings, SetupError};

/// What is taken, the interface's own type first.
const TYPES: &str =
    "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json; q=0.9, application/json; q=0.5";

/// What is sent.
const OWN_TYPE: &str = "application/vnd.schemaregistry.v1+json";

/// What a subject's name is not sent as, within a path (RFC 3986, all but what is unreserved).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An answer's bytes: a text grows when it becomes a string of JSON.
const ANSWER_BYTES_MAX: usize = 2 * TEXT_BYTES_MAX;

/// How many schemas one may refer to, through others too, and how deep.
const REFERENCES_MAX: usize = 200;
const DEPTH_MAX: usize = 16;

/// Status, content type and body.
type Answered = (StatusCode, Option<HeaderValue>, Bytes);

/// A registry.
pub struct Confluent {
    name: String,
    /// Without a slash at the end.
    base: String,
    authorization: Option<HeaderValue>,
    /// What the server is shown, and may repeat.
    shown: Vec<Secret>,
    timeout: Duration,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl fmt::Debug for Confluent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Confluent").field("name", &self.name).field("base", &self.base).finish_non_exhaustive()
    }
}

impl Confluent {
    /// A client. Nothing is asked yet.
    ///
    /// # Errors
    /// What is wrong with the settings.
    pub fn new(settings: &Settings) -> Result<Self, SetupError> {
        let base = access::base(&settings.url)?;
        // None is kept for later: a connection lives with the event loop that it was made in, and the next question may come from
        // another thread's. What was answered is not asked again.
        let client =
            Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(access::connector(settings)?);
        let authorization = settings.credentials.as_ref().map(Credentials::header).transpose()?;
        let shown = settings.credentials.iter().flat_map(Credentials::shown).collect();
        Ok(Self { name: settings.name.clone(), base, authorization, shown, timeout: settings.timeout, client })
    }

    /// A schema, where there is one.
    async fn get(&self, wanted: &Wanted, path: &str) -> Result<Option<Found>, Error> {
        self.asked(wanted, path, answer::schema).await
    }

    /// What one request's answer says, where it is not that there is no such thing. `path` begins with a slash; `said` reads what is
    /// there.
    async fn asked<T>(&self, wanted: &Wanted, path: &str, said: Said<T>) -> Result<Option<T>, Error> {
        let (status, kind, body) = self.request(wanted, path, None).await?;
        answer::read(status, kind.as_ref(), &body, said).map_err(|message| self.garbage(wanted, message))
    }

    /// One request, with a body or to read alone, and what is answered: status, content type and body.
    async fn request(&self, wanted: &Wanted, path: &str, body: Option<String>) -> Result<Answered, Error> {
        let exchange = tokio::time::timeout(self.timeout, self.exchange(wanted, path, body)).await;
        exchange.unwrap_or_else(|_| {
            let waited_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
            Err(Error::TimedOut { registry: self.name.clone(), wanted: wanted.clone(), waited_ms })
        })
    }

    async fn exchange(&self, wanted: &Wanted, path: &str, body: Option<String>) -> Result<Answered, Error> {
        let url = format!("{}{path}", self.base);
        let mut request = match &body {
            Some(_) => Request::post(url).header(CONTENT_TYPE, OWN_TYPE),
            None => Request::get(url),
        };
        request = request.header(ACCEPT, TYPES);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request
            .body(Full::from(body.unwrap_or_default()))
            .map_err(|error| self.garbage(wanted, format!("the request can't be made: {error}")))?;
        let response = self.client.request(request).await.map_err(|error| self.unreached(wanted, &error))?;
        let (head, body) = response.into_parts();
        match head.status {
            StatusCode::UNAUTHORIZED => {
                return Err(self.denied(wanted, "it asks for other credentials (HTTP 401)".to_owned()));
            }
            StatusCode::FORBIDDEN => {
                return Err(self.denied(wanted, "these credentials may not read it (HTTP 403)".to_owned()));
            }
            status if status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429) => {
                return Err(self.outage(wanted, format!("it answers HTTP {}", status.as_u16())));
            }
            status if status.is_redirection() => {
                let message = format!(
                    "it sends us elsewhere (HTTP {}), and no other host is to see what we ask",
                    status.as_u16()
                );
                return Err(self.garbage(wanted, message));
            }
            _ => {}
        }
        let body = match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(self.garbage(wanted, format!("it has more than {ANSWER_BYTES_MAX} bytes")));
            }
            Err(error) => return Err(self.outage(wanted, format!("the answer broke off: {error}"))),
        };
        Ok((head.status, head.headers.get(CONTENT_TYPE).cloned(), body))
    }

    /// What a schema refers to, with what that refers to before it.
    async fn imports(&self, wanted: &Wanted, schema: &Found) -> Result<Vec<Import>, Error> {
        // The references of a schema are done when those of each are.
        struct Open {
            import: Option<Import>,
            references: std::vec::IntoIter<answer::Reference>,
        }
        let mut imports = Vec::new();
        let mut seen = BTreeSet::new();
        let mut open = vec![Open { import: None, references: schema.references.clone().into_iter() }];
        while let Some(last) = open.last_mut() {
            let Some(reference) = last.references.next() else {
                imports.extend(open.pop().and_then(|done| done.import));
                continue;
            };
            if !seen.insert(reference.name.clone()) {
                continue;
            }
            if seen.len() > REFERENCES_MAX || open.len() > DEPTH_MAX {
                let message = format!("it refers to more than {REFERENCES_MAX} schemas, or deeper than {DEPTH_MAX}");
                return Err(self.garbage(wanted, message));
            }
            let subject = utf8_percent_encode(&reference.subject, ENCODED);
            // What was deleted since is still what was meant.
            let path = format!("/subjects/{subject}/versions/{}?deleted=true", reference.version);
            let Some(found) = self.get(wanted, &path).await? else {
                let message = format!(
                    "it refers to version {} of `{}`, which is not there",
                    reference.version, reference.subject
                );
                return Err(self.garbage(wanted, message));
            };
            if found.kind != schema.kind {
                let message = format!("it is of {}, and `{}` of {}", schema.kind, reference.subject, found.kind);
                return Err(self.garbage(wanted, message));
            }
            let import = Some(Import { name: reference.name, text: found.text });
            open.push(Open { import, references: found.references.into_iter() });
        }
        Ok(imports)
    }

    fn unreached(&self, wanted: &Wanted, error: &hyper_util::client::legacy::Error) -> Error {
        let message = access::causes(error);
        match access::distrust(error) {
            true => self.denied(wanted, format!("one side does not trust the other's certificate: {message}")),
            false => self.outage(wanted, message),
        }
    }

    /// A server's words without what it was shown.
    fn struck(&self, words: String) -> String {
        self.shown.iter().fold(words, |words, secret| secret.struck_from(&words))
    }

    fn outage(&self, wanted: &Wanted, message: String) -> Error {
        Error::Outage { registry: self.name.clone(), wanted: wanted.clone(), message }
    }

    fn denied(&self, wanted: &Wanted, message: String) -> Error {
        Error::Denied { registry: self.name.clone(), wanted: wanted.clone(), message }
    }

    fn garbage(&self, wanted: &Wanted, message: String) -> Error {
        let message = self.struck(message);
        Error::Garbage { registry: self.name.clone(), wanted: wanted.clone(), message }
    }
}

#[async_trait]
impl Source for Confluent {
    fn name(&self) -> &str {
        &self.name
    }

    fn keeps(&self, wanted: &Wanted) -> bool {
        match wanted {
            Wanted::Named(Reference::ConfluentId(_) | Reference::ConfluentGuid(_))
            | Wanted::Latest(_)
            | Wanted::Version(..) => true,
            Wanted::Named(Reference::GlueVersion(_) | Reference::AvroFingerprint(_)) => false,
        }
    }

    fn registrar(&self) -> Option<&dyn Registrar> {
        Some(self)
    }

    async fn schema(&self, wanted: &Wanted) -> Result<Registered, Error> {
        let path = match wanted {
            Wanted::Named(Reference::ConfluentId(id)) => format!("/schemas/ids/{id}"),
            Wanted::Named(Reference::ConfluentGuid(guid)) => format!("/schemas/guids/{guid}"),
            Wanted::Latest(subject) => {
                format!("/subjects/{}/versions/latest", utf8_percent_encode(subject, ENCODED))
            }
            Wanted::Version(subject, number) => {
                format!("/subjects/{}/versions/{number}", utf8_percent_encode(subject, ENCODED))
            }
            Wanted::Named(Reference::GlueVersion(_) | Reference::AvroFingerprint(_)) => {
                return Err(self.not_found(wanted));
            }
        };
        let Some(found) = self.get(wanted, &path).await? else { return Err(self.not_found(wanted)) };
        let imports = self.imports(wanted, &found).await?;
        Ok(Registered { kind: found.kind, text: found.text, imports, version: found.version })
    }

    async fn versions(&self, name: &str) -> Result<Vec<u32>, Error> {
        let wanted = Wanted::Latest(name.to_owned());
        let path = format!("/subjects/{}/versions", utf8_percent_encode(name, ENCODED));
        let told = self.asked(&wanted, &path, answer::versions).await?;
        told.ok_or_else(|| self.not_found(&wanted))
    }
}

impl Confluent {
    fn not_found(&self, wanted: &Wanted) -> Error {
        Error::NotFound { registries: format!("the registry `{}`", self.name), wanted: wanted.clone() }
    }
}

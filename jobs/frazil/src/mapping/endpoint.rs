//! A Lambda endpoint: the action Invoke of Lambda's API (`POST /2015-03-31/functions/NAME/invocations`), as `cargo lambda watch`,
//! SAM and the runtime interface emulator serve it. Requests are not signed: Lambda's own endpoint takes others.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::uri::{Scheme, Uri};
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use model::failure::Kind;
use serde_json::Value;

use crate::manners::failure::Failure;

/// How long an invocation may take where nobody says: what Lambda allows at most.
pub(crate) const TIME_OUT: Duration = Duration::from_secs(15 * 60);
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);
/// The largest answer of an invocation, in bytes: Lambda's own limit.
const ANSWER_BYTES_MAX: usize = 6 * 1024 * 1024;
/// Letters of a function's own words that are repeated.
const WORDS_MAX: usize = 300;

const INVOCATION_TYPE: HeaderName = HeaderName::from_static("x-amz-invocation-type");
const FUNCTION_ERROR: HeaderName = HeaderName::from_static("x-amz-function-error");

/// Where events are posted to.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    url: Uri,
    time_out: Duration,
}

/// A query may hold a key.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("url", &self.shown()).field("time_out", &self.time_out).finish()
    }
}

impl Target {
    /// Reads what was typed.
    ///
    /// # Errors
    /// What is wrong with it. It is not repeated: there may be a password in it.
    pub(crate) fn read(url: &str, time_out: Duration) -> Result<Self, Failure> {
        let fault = |why: &str| {
            Failure::usage("invoke.url", why)
                .at("--invoke")
                .remedy("write http://HOST:PORT/2015-03-31/functions/NAME/invocations, or https")
        };
        let url: Uri = url.parse().map_err(|_| fault("it is no URL"))?;
        if url.scheme() != Some(&Scheme::HTTP) && url.scheme() != Some(&Scheme::HTTPS) {
            return Err(fault("it begins neither with http:// nor with https://"));
        }
        if url.authority().is_none_or(|authority| authority.as_str().contains('@') || authority.host().is_empty()) {
            return Err(fault("it names no host, or a user: events are posted without a login"));
        }
        let mut path = url.path().rsplit('/');
        let is_invoke = path.next() == Some("invocations")
            && path.next().is_some_and(|name| !name.is_empty())
            && path.next() == Some("functions");
        match is_invoke {
            true => Ok(Self { url, time_out }),
            false => Err(fault("its path is not that of a Lambda function's invocations")),
        }
    }

    /// The address without its query.
    fn shown(&self) -> String {
        let host = self.url.authority().map_or("", |authority| authority.as_str());
        format!("{}://{host}{}", self.url.scheme_str().unwrap_or_default(), self.url.path())
    }
}

/// Connections, each for one event: one that is kept may be closed on the other side while records are waited for, and what
/// became of an event that was sent on it would not be known.
enum Connections {
    Plain(Client<HttpConnector, Full<Bytes>>),
    Tls(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

/// A function that can be invoked.
pub(super) struct Endpoint {
    target: Target,
    connections: Connections,
}

impl Endpoint {
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// When TLS is asked for, and this machine knows no authorities.
    pub(super) fn new(target: Target) -> Result<Self, Failure> {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT));
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_max_idle_per_host(0);
        let connections = if target.url.scheme() == Some(&Scheme::HTTPS) {
            connector.enforce_http(false);
            let roots = HttpsConnectorBuilder::new().with_native_roots().map_err(|e| {
                Failure::io("invoke.authorities", "--invoke", &e).remedy(
                    "install the system's certificates of authorities, or name a PEM file of some in SSL_CERT_FILE",
                )
            })?;
            Connections::Tls(builder.build(roots.https_only().enable_http1().wrap_connector(connector)))
        } else {
            Connections::Plain(builder.build(connector))
        };
        Ok(Self { target, connections })
    }

    /// Invokes the function and gives its answer. Nothing is known to be stored on an error.
    ///
    /// # Errors
    /// When it could not be invoked, did not answer in time, or failed.
    pub(super) async fn invoke(&self, event: Bytes) -> Result<Bytes, Failure> {
        let shown = self.target.shown();
        let unsent = |error: &(dyn Error + 'static), what: &str| {
            let why = Failure::of(Kind::Retry, "", error).message;
            Failure::new(Kind::Retry, "invoke.unreachable", format!("{shown} {what}: {why}"))
                .remedy("check the address, and that the function is served there")
        };
        let request = Request::post(self.target.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(INVOCATION_TYPE, "RequestResponse")
            .body(Full::new(event))
            .map_err(|e| unsent(&e, "can't be asked"))?;
        let exchange = async {
            let sent = match &self.connections {
                Connections::Plain(client) => client.request(request),
                Connections::Tls(client) => client.request(request),
            };
            let answer = sent.await.map_err(|e| unsent(&e, "could not be invoked"))?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|e| unsent(e.as_ref(), "broke off its answer"))?.to_bytes();
            Ok::<_, Failure>(Response::from_parts(head, body))
        };
        let Ok(answer) = tokio::time::timeout(self.target.time_out, exchange).await else {
            let message = format!("{shown} has not answered within {} ms", self.target.time_out.as_millis());
            return Err(Failure::new(Kind::OutcomeUnknown, "invoke.time_out", message)
                .remedy("give it longer with --invoke-timeout, or hand over less at once with --batch"));
        };
        judged(answer?, &shown)
    }
}

/// The answer of a function that did not fail.
fn judged(answer: Response<Bytes>, shown: &str) -> Result<Bytes, Failure> {
    let status = answer.status();
    if status != StatusCode::OK {
        let remedy = match status {
            StatusCode::NOT_FOUND => "check the function's name in --invoke",
            StatusCode::PAYLOAD_TOO_LARGE => "hand over less at once with --batch",
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                "events are posted unsigned: name an endpoint that takes them, as `cargo lambda watch` and SAM serve it"
            }
            _ => "it is tried again; what the function logs says more",
        };
        let kind = if status.is_client_error() { Kind::Misconfigured } else { Kind::Retry };
        let message = format!("{shown} answered with status {}", status.as_u16());
        return Err(Failure::new(kind, "invoke.status", message).remedy(remedy));
    }
    let said = said(answer.body());
    // Some emulators leave out the header.
    match (answer.headers().contains_key(FUNCTION_ERROR), said) {
        (false, None) => Ok(answer.into_body()),
        (_, said) => {
            let said = said.unwrap_or_else(|| "and does not say how".to_owned());
            Err(Failure::new(Kind::Retry, "invoke.function", format!("the function failed: {said}"))
                .remedy("it is tried again; what the function logs says more"))
        }
    }
}

/// `errorType: errorMessage` of a function's error, in one line.
fn said(body: &[u8]) -> Option<String> {
    let document: Value = serde_json::from_slice(body).ok()?;
    let text = |name: &str| document.get(name)?.as_str();
    let (kind, message) = (text("errorType"), text("errorMessage"));
    let words = [kind, message].into_iter().flatten().collect::<Vec<_>>().join(": ");
    (kind.is_some() || message.is_some()).then(|| one_line(&words))
}

/// The beginning of a text, in one line.
pub(super) fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(WORDS_MAX) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_that_of_a_functions_invocations() {
        let read = |url: &str| Target::read(url, TIME_OUT);
        for (url, shown) in [
            ("http://127.0.0.1:9000/2015-03-31/functions/ingest/invocations", None),
            ("https://h/x/2015-03-31/functions/arn:aws:lambda:eu-west-1:1:function:f/invocations", None),
            ("http://[::1]:1/functions/f/invocations?Qualifier=live", Some("http://[::1]:1/functions/f/invocations")),
        ] {
            assert_eq!(read(url).unwrap().shown(), shown.unwrap_or(url));
        }
        for bad in [
            "",
            "127.0.0.1:9000",
            "ftp://h/functions/f/invocations",
            "http:///functions/f/invocations",
            "http://ann:geheim@h/functions/f/invocations",
            "http://h",
            "http://h/functions//invocations",
            "http://h/lambda-url/f",
            "http://h/functions/f/invocations/",
        ] {
            let failure = read(bad).unwrap_err();
            assert!(failure.remedy.is_some() && !format!("{failure:?}").contains("geheim"), "{bad}");
        }
        assert!(!format!("{:?}", read("http://h/functions/f/invocations?key=geheim").unwrap()).contains("geheim"));
    }

    #[test]
    fn an_answer_is_judged_as_lambda_answers() {
        let judge = |status: u16, header: bool, body: &str| {
            let mut answer = Response::builder().status(status);
            if header {
                answer = answer.header(FUNCTION_ERROR, "Unhandled");
            }
            judged(answer.body(Bytes::copy_from_slice(body.as_bytes())).unwrap(), "http://h/f")
        };
        assert_eq!(judge(200, false, "{}").unwrap(), "{}");
        let check = |status: u16, header: bool, body: &str, code: &str, words: &str| {
            let failure = judge(status, header, body).unwrap_err();
            assert_eq!(failure.code, code, "{status} {body}");
            assert!(failure.message.contains(words) && !failure.message.contains('\n'), "{}", failure.message);
            assert!(failure.remedy.is_some());
        };
        let error = "{\"errorType\":\"KeyError\",\"errorMessage\":\"no\\n such  key\",\"stackTrace\":[\"geheim\"]}";
        check(200, true, error, "invoke.function", "failed: KeyError: no such key");
        check(200, false, error, "invoke.function", "failed: KeyError: no such key");
        check(200, true, "geheim", "invoke.function", "does not say how");
        check(200, true, "{}", "invoke.function", "does not say how");
        for status in [202, 204, 302, 404, 413, 429, 500, 502] {
            check(status, false, "{}", "invoke.status", &status.to_string());
            assert!(!judge(status, false, "geheim").unwrap_err().message.contains("geheim"));
        }
        let long = format!("{{\"errorMessage\":{:?}}}", "é".repeat(1000));
        assert_eq!(
            judge(200, true, &long).unwrap_err().message.chars().count(),
            "the function failed: ".len() + WORDS_MAX + 1
        );
    }

    /// What an endpoint that answers each connection with these bytes makes of an invocation.
    fn invoked(answer: &'static [u8], time_out: Duration) -> (Result<Bytes, Failure>, String) {
        use std::io::{BufRead, BufReader, Read, Write};

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let target = Target::read(&format!("http://{address}/functions/f/invocations"), time_out).unwrap();
        let endpoint = Endpoint::new(target).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        std::thread::scope(|scope| {
            let (done, kept) = std::sync::mpsc::channel::<()>();
            let other = scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut read = BufReader::new(stream.try_clone().unwrap());
                let (mut head, mut line) = (String::new(), String::new());
                while read.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                    head.push_str(&std::mem::take(&mut line));
                }
                let mut body = [0; 5];
                // Whoever gave up has hung up.
                if read.read_exact(&mut body).is_ok() && !answer.is_empty() {
                    stream.write_all(answer).unwrap();
                } else {
                    kept.recv().unwrap_err();
                }
                format!("{head}{}", String::from_utf8_lossy(&body))
            });
            let answer = runtime.block_on(endpoint.invoke(Bytes::from_static(b"event")));
            drop(done);
            // In case it gave up before it was there.
            drop(std::net::TcpStream::connect(address));
            (answer, other.join().unwrap())
        })
    }

    #[test]
    fn an_event_is_posted_and_only_a_whole_answer_in_time_is_one() {
        let (answer, seen) = invoked(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull", TIME_OUT);
        assert_eq!(answer.unwrap(), "null");
        let head = seen.to_ascii_lowercase();
        assert!(head.starts_with("post /functions/f/invocations http/1.1") && head.ends_with("event"), "{seen}");
        assert!(head.contains("x-amz-invocation-type: requestresponse"), "{seen}");
        let failed = |answer, time_out| invoked(answer, time_out).0.unwrap_err();
        let cut = failed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnull", TIME_OUT);
        assert_eq!((cut.code.as_ref(), cut.kind), ("invoke.unreachable", Kind::Retry), "{}", cut.message);
        let other = failed(b"SSH-2.0-x\r\n", TIME_OUT);
        assert_eq!(other.code, "invoke.unreachable", "{}", other.message);
        let late = failed(b"", Duration::from_millis(20));
        assert_eq!((late.code.as_ref(), late.kind), ("invoke.time_out", Kind::OutcomeUnknown));
    }
}

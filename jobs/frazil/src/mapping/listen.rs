//! `--listen`: whether a mapping is ready and alive, over HTTP. Two addresses, and nothing that changes anything.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use model::failure::Kind;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::readiness::Readiness;
use crate::manners::failure::Failure;

/// Connections at once: whoever asks whether something is ready has one.
const CONNECTIONS_MAX: usize = 64;
/// How long one question may take, from the connection to the end of the answer.
const QUESTION: Duration = Duration::from_secs(10);
/// Bytes of a question's head.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// Answers until it is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    address: SocketAddr,
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the thread that answers whether this is ready had panicked");
        }
    }
}

impl Listening {
    /// Begins to answer in a thread of its own.
    ///
    /// # Errors
    /// When the address can't be listened at.
    pub(crate) fn begin(at: &str, readiness: Arc<Readiness>) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::of(Kind::Misconfigured, "listen.address", &error)
                .at(format!("--listen {at}"))
                .remedy("write an address of this machine and a free port, 127.0.0.1:8080 say; port 0 takes a free one")
        };
        let listener = TcpListener::bind(at).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Failure::of(Kind::Retry, "runtime.start", &e))?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || runtime.block_on(serve(listener, &readiness, stopped)));
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it answers.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn serve(listener: TcpListener, readiness: &Arc<Readiness>, mut stopped: oneshot::Receiver<Infallible>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!("nobody is answered whether this is ready: {error}"),
    };
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = &mut stopped => return,
            Some(_) = open.join_next() => continue,
            accepted = listener.accept(), if open.len() < CONNECTIONS_MAX => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many open files, say: it passes, and must not spin.
                tracing::debug!("a connection was not taken: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let readiness = Arc::clone(readiness);
        open.spawn(async move {
            let answer = service_fn(move |question: Request<Incoming>| {
                let answer = answered(question.method(), question.uri().path(), &readiness);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(QUESTION)
                .keep_alive(false)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), answer);
            match tokio::time::timeout(QUESTION, connection).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!("a question broke off: {error}"),
                Err(_) => tracing::debug!("a question took too long"),
            }
        });
    }
}

fn answered(method: &Method, path: &str, readiness: &Readiness) -> Response<Full<Bytes>> {
    let (status, body) = match (method, path) {
        (&Method::GET, "/ready") => match readiness.why_not() {
            None => (StatusCode::OK, json!({"ready": true})),
            Some(why) => (StatusCode::SERVICE_UNAVAILABLE, json!({"ready": false, "why": why})),
        },
        (&Method::GET, "/live") => (StatusCode::OK, json!({"live": true})),
        _ => (StatusCode::NOT_FOUND, json!({"error": "there are GET /ready and GET /live"})),
    };
    let mut answer = Response::new(Full::new(Bytes::from(Value::to_string(&body))));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;
    use crate::host::Signals;

    fn ask(address: SocketAddr, question: &str) -> (String, Value) {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(format!("{question} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("application/json"), "{head}");
        (head.split(' ').nth(1).unwrap().to_owned(), serde_json::from_str(body).unwrap())
    }

    #[test]
    fn it_answers_whether_it_is_ready_and_nothing_else() {
        let signals = Signals::default();
        let readiness = Arc::new(Readiness::new(signals.clone()));
        let listening = Listening::begin("127.0.0.1:0", Arc::clone(&readiness)).unwrap();
        let check = |question: &str, status: &str, body: Value| {
            assert_eq!(ask(listening.address(), question), (status.to_owned(), body), "{question}");
        };
        check("GET /ready", "503", json!({"ready": false, "why": "it is only starting"}));
        readiness.begin(1);
        readiness.reads(0);
        readiness.cluster(None);
        check("GET /ready", "200", json!({"ready": true}));
        check("GET /ready?verbose=1", "200", json!({"ready": true}));
        let nothing = json!({"error": "there are GET /ready and GET /live"});
        for question in ["GET /", "GET /metrics", "POST /ready", "DELETE /live", "GET /ready/"] {
            check(question, "404", nothing.clone());
        }
        signals.drain();
        assert!(signals.ask());
        check("GET /ready", "503", json!({"ready": false, "why": "it was told to end"}));
        check("GET /live", "200", json!({"live": true}));
        let taken = Listening::begin(&listening.address().to_string(), readiness).unwrap_err();
        assert_eq!((taken.code.as_ref(), taken.kind), ("listen.address", Kind::Misconfigured));
        let address = listening.address();
        drop(listening);
        assert!(TcpStream::connect(address).is_err());
    }
}

//! A server that answers what a test tells it to, and remembers what it was asked.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// What is answered.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// A status, a content type and a body.
    Say(u16, &'static str, String),
    /// A status and a header.
    Head(u16, &'static str),
    /// The connection is closed, before an answer or within it.
    HangUp,
    BreakOff,
    /// Nothing, ever.
    Nothing,
}

/// The interface's own type.
pub(crate) const OWN: &str = "application/vnd.schemaregistry.v1+json";

pub(crate) struct Server {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Serves on a loopback port until it is dropped. `answer` is given a request, its body behind its head.
    pub(crate) async fn start(
        tls: Option<TlsAcceptor>,
        answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (seen, answer, tls) = (Arc::clone(&seen), Arc::clone(&answer), tls.clone());
                connections.spawn(async move {
                    match tls {
                        Some(tls) => match tls.accept(stream).into_fallible().await {
                            Ok(stream) => serve(stream, &seen, &*answer).await,
                            // Whoever is not let in is told why only if the connection stays until it is read.
                            Err((_, mut stream)) => drop(stream.read_to_end(&mut Vec::new()).await),
                        },
                        None => serve(stream, &seen, &*answer).await,
                    }
                });
            }
        });
        Self { port, requests, _tasks: tasks }
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// What was asked for, without the heads.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.requests().iter().map(|head| head.split(' ').nth(1).unwrap().to_owned()).collect()
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    seen: &Mutex<Vec<String>>,
    answer: &(impl Fn(&str) -> Answer + ?Sized),
) {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    }
    // With the body behind it, where there is one.
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let end = text(&bytes).find("\r\n\r\n").unwrap() + 4;
    let length = text(&bytes).lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    while bytes.len() < end + length.unwrap_or(0) {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let head = text(&bytes);
    seen.lock().unwrap().push(head.clone());
    let text = match answer(&head) {
        Answer::Say(status, kind, body) => format!(
            "HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ),
        Answer::Head(status, header) => {
            format!("HTTP/1.1 {status} Said\r\n{header}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        }
        Answer::BreakOff => format!("HTTP/1.1 200 OK\r\ncontent-type: {OWN}\r\ncontent-length: 100\r\n\r\n{{"),
        Answer::HangUp => return,
        Answer::Nothing => std::future::pending().await,
    };
    // A client that has gone away is one of the cases.
    drop(stream.write_all(text.as_bytes()).await);
    drop(stream.shutdown().await);
}

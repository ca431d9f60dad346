//! A server that says what a test tells it to, request by request, and remembers what it was asked.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What was asked.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// `PUT /bucket/key?x-id=PutObject`
    pub(crate) line: String,
    head: String,
    /// Bytes of the body.
    pub(crate) body: usize,
    pub(crate) content: Vec<u8>,
}

impl Request {
    /// Every header's name and value.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.head.lines().filter_map(|line| line.split_once(": "))
    }

    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|h| h.1)
    }
}

/// What is answered.
pub(crate) enum Answer {
    /// A status, headers (each ended by CRLF) and a body.
    Say(u16, &'static str, String),
    /// The same, cut off after the first bytes of the body.
    Cut(u16, &'static str, String),
    /// Nothing: the connection is closed once the request is in.
    HangUp,
}

/// The time of every answer that tells one.
pub(crate) const DATE: &str = "date: Sun, 29 Nov 2026 12:00:07 GMT\r\n";

/// A status with S3's error document.
pub(crate) fn refusal(status: u16, headers: &'static str, code: &str) -> Answer {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>in S3's words</Message></Error>");
    Answer::Say(status, headers, body)
}

/// A status, the date, and nothing else.
pub(crate) fn bare(status: u16) -> Answer {
    Answer::Say(status, DATE, String::new())
}

pub(crate) struct Server {
    pub(crate) endpoint: String,
    requests: Arc<Mutex<Vec<Request>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Serves on a loopback port until it is dropped. `answer` is given the number of requests before this one.
    pub(crate) async fn start(answer: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                connections.spawn(async move {
                    let Some((mut stream, request)) = receive(stream).await else { return };
                    let number = {
                        let mut seen = seen.lock().unwrap();
                        seen.push(request.clone());
                        seen.len() - 1
                    };
                    let (text, cut) = match answer(number, &request) {
                        Answer::HangUp => return,
                        Answer::Say(status, headers, body) => (head(status, headers, &body) + &body, false),
                        Answer::Cut(status, headers, body) => {
                            (head(status, headers, &body) + &body[..body.len() / 2], true)
                        }
                    };
                    let text = if request.line.starts_with("HEAD ") && !cut {
                        text[..text.find("\r\n\r\n").unwrap() + 4].to_owned()
                    } else {
                        text
                    };
                    // A client that has gone away is one of the cases.
                    drop(stream.write_all(text.as_bytes()).await);
                });
            }
        });
        Self { endpoint, requests, _tasks: tasks }
    }

    /// Everything that was asked so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The first lines of everything that was asked so far, without what stands after the path.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.requests().iter().map(|r| r.line.split('?').next().unwrap().to_owned()).collect()
    }
}

fn head(status: u16, headers: &str, body: &str) -> String {
    let length =
        if headers.contains("content-length") { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    format!("HTTP/1.1 {status} Said\r\nconnection: close\r\n{length}{headers}\r\n")
}

async fn receive(mut stream: TcpStream) -> Option<(TcpStream, Request)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break end + 4;
        }
        // A connection that was opened and not used.
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let (line, head) = text.split_once("\r\n").unwrap();
    let line = line.trim_end_matches(" HTTP/1.1").to_owned();
    let mut request = Request { line, head: head.to_owned(), body: 0, content: Vec::new() };
    let length: usize = request.header("content-length").map_or(0, |n| n.parse().unwrap());
    if request.header("expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
    }
    while bytes.len() < end + length {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    }
    request.body = length;
    request.content = bytes[end..end + length].to_vec();
    Some((stream, request))
}

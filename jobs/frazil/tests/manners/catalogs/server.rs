//! A service that a test plays: it answers what it is told to.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// What was asked.
#[derive(Debug)]
pub(super) struct Request {
    /// `POST /v1/namespaces`
    pub(super) line: String,
    head: String,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// A header's value.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// What is answered: a status, a content type and a body; or nothing, and the connection is closed.
pub(super) type Reply = Option<(u16, &'static str, Vec<u8>)>;

pub(super) struct Server {
    pub(super) url: String,
}

impl Server {
    /// Serves on a loopback port as long as the tests run.
    pub(super) fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = Arc::clone(&answer);
                // A client that goes away, and one that speaks another protocol, are among the cases.
                std::thread::spawn(move || serve(stream, answer.as_ref()));
            }
        });
        Self { url }
    }
}

fn serve(mut stream: TcpStream, answer: &dyn Fn(&Request) -> Reply) -> Option<()> {
    let request = receive(&mut stream)?;
    let (status, kind, body) = answer(&request)?;
    let date = "Tue, 01 Dec 2026 00:00:00 GMT";
    let head = format!(
        "HTTP/1.1 {status} Said\r\nconnection: close\r\ndate: {date}\r\netag: \"e\"\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    match request.line.starts_with("HEAD ") {
        true => Some(()),
        false => stream.write_all(&body).ok(),
    }
}

fn receive(stream: &mut TcpStream) -> Option<Request> {
    let (mut bytes, mut chunk) = (Vec::<u8>::new(), [0; 4096]);
    let mut more = |bytes: &mut Vec<u8>| match stream.read(&mut chunk) {
        Ok(0) | Err(_) => None,
        Ok(read) => {
            bytes.extend_from_slice(&chunk[..read]);
            Some(())
        }
    };
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        // What begins otherwise than a request of HTTP is a handshake.
        if bytes.first().is_some_and(|byte| !byte.is_ascii_uppercase()) {
            return None;
        }
        more(&mut bytes)?;
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let (line, head) = head.split_once("\r\n")?;
    let line = line.trim_end_matches(" HTTP/1.1").to_owned();
    let mut request = Request { line, head: head.to_owned(), body: Vec::new() };
    let length: usize = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < end + length {
        more(&mut bytes)?;
    }
    request.body = bytes[end..end + length].to_vec();
    Some(request)
}

//! The wire between a catalog and its service, and what happens on it: a loopback proxy that loses the next commit before the service has
//! it, or its answer afterwards, or brings it late. It works on bytes, so that the adapter's own telling of failures is what is tried.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Bytes that are read from a service at once.
const CHUNK: usize = 64 << 10;

/// How a catalog and its service speak.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// Where the service is.
    pub service: SocketAddr,
    /// Whether what has come so far ends with a whole request.
    pub is_whole: fn(&[u8]) -> bool,
    /// Whether a request is the one that swaps.
    pub is_commit: fn(&[u8]) -> bool,
    /// A refusal in the service's own shape; none where the wire has no way to say it alone.
    pub refusal: fn(Refusal) -> Option<Vec<u8>>,
}

/// Why a service does not do what it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is asked too often.
    Throttled,
    /// Who asks may not.
    Denied,
}

/// What happens to the next commit.
#[derive(Clone, Debug)]
pub enum Mishap {
    /// The connection breaks before the service has the request.
    RequestLost,
    /// The connection breaks once the service has answered, and before the answer is there.
    AnswerLost,
    /// The connection breaks, and the request arrives when it is told to.
    Late,
    /// The service does not see it: this is the answer.
    Answered(Vec<u8>),
}

#[derive(Debug)]
struct State {
    wire: Wire,
    next: Option<Mishap>,
    commits: usize,
    late: Vec<(Option<TcpStream>, Vec<u8>)>,
}

/// What stands between them, on a loopback port until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    _tasks: JoinSet<()>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    /// Passes everything on.
    ///
    /// # Errors
    /// The system's, where no port can be had.
    pub async fn start(wire: Wire) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State { wire, next: None, commits: 0, late: Vec::new() }));
        let (shared, mut tasks) = (Arc::clone(&state), JoinSet::new());
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                // A connection that breaks is what this is for.
                connections.spawn(async move { drop(carry(client, &state).await) });
            }
        });
        Ok(Self { address, state, _tasks: tasks })
    }

    /// Where a catalog finds its service.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Does this to the next commit, and to that one alone.
    pub fn next(&self, mishap: Mishap) {
        lock(&self.state).next = Some(mishap);
    }

    /// Commits that came, whatever became of them.
    #[must_use]
    pub fn commits(&self) -> usize {
        lock(&self.state).commits
    }

    /// Lets late commits arrive, and waits for what the service says.
    ///
    /// # Errors
    /// The system's, where the service is gone.
    pub async fn arrive(&self) -> io::Result<()> {
        let (late, address) = {
            let mut state = lock(&self.state);
            (std::mem::take(&mut state.late), state.wire.service)
        };
        for (service, request) in late {
            let mut service = match service {
                Some(service) => service,
                None => TcpStream::connect(address).await?,
            };
            service.write_all(&request).await?;
            let mut answer = [0; 1];
            service.read_exact(&mut answer).await?;
        }
        Ok(())
    }
}

/// Passes requests to the service and answers to the client. The service is not called before there is a request for it: some serve one
/// connection after the other.
async fn carry(mut client: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let wire = lock(state).wire;
    let (mut service, mut request, mut answer) = (None::<TcpStream>, Vec::new(), vec![0; CHUNK]);
    loop {
        let answered = async {
            match &mut service {
                Some(service) => service.read(&mut answer).await,
                None => std::future::pending().await,
            }
        };
        let came = tokio::select! {
            read = client.read_buf(&mut request) => (read?, true),
            read = answered => (read?, false),
        };
        match came {
            (0, _) => return Ok(()),
            (read, false) => client.write_all(&answer[..read]).await?,
            (_, true) if !(wire.is_whole)(&request) => {}
            (_, true) => {
                let request = std::mem::take(&mut request);
                let mishap = if (wire.is_commit)(&request) {
                    let mut state = lock(state);
                    state.commits += 1;
                    state.next.take()
                } else {
                    None
                };
                match mishap {
                    Some(Mishap::RequestLost) => return Ok(()),
                    Some(Mishap::Late) => {
                        lock(state).late.push((service, request));
                        return Ok(());
                    }
                    Some(Mishap::Answered(said)) => {
                        client.write_all(&said).await?;
                        return client.shutdown().await;
                    }
                    passed @ (None | Some(Mishap::AnswerLost)) => {
                        let mut to = match service.take() {
                            Some(service) => service,
                            None => TcpStream::connect(wire.service).await?,
                        };
                        to.write_all(&request).await?;
                        if passed.is_some() {
                            to.read_exact(&mut [0; 1]).await?;
                            return Ok(());
                        }
                        service = Some(to);
                    }
                }
            }
        }
    }
}

/// Whether HTTP's request is whole: its head, and as much of a body as the head says.
#[must_use]
pub fn is_whole_http(request: &[u8]) -> bool {
    let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0_usize);
    request.len() >= end + 4 + length
}

/// An answer of HTTP that says what its type and body are.
#[must_use]
pub fn http_answer(status: u16, content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Whether these bytes are somewhere in a request.
#[must_use]
pub fn holds(request: &[u8], bytes: &[u8]) -> bool {
    request.windows(bytes.len()).any(|window| window == bytes)
}

//! A hand-written server, down to the bytes, that counts its requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// What happens after a request was read completely.
#[derive(Clone)]
pub(super) enum Reply {
    /// Answer, and wait for the next request on this connection.
    Send(Vec<u8>),
    /// Answer, and close the connection without announcing it.
    SendAndClose(Vec<u8>),
    /// Close without an answer.
    Close,
    /// Reset without an answer.
    Reset,
    /// Answer, and send the body forever.
    Flood(Vec<u8>),
}

#[derive(Default)]
struct Log {
    connections: usize,
    requests: Vec<String>,
}

/// Ends when its last handle is dropped.
pub(super) struct WireServer {
    address: SocketAddr,
    log: Arc<Mutex<Log>>,
    task: AbortHandle,
}

impl Drop for WireServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl WireServer {
    /// Starts a server that gives these replies in order, then the last one forever.
    pub(super) async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let log = Arc::new(Mutex::new(Log::default()));
        let shared = log.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.lock().unwrap().connections += 1;
                tokio::spawn(serve(stream, shared.clone(), replies.clone()));
            }
        });
        Self {
            address,
            log,
            task: task.abort_handle(),
        }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn connections(&self) -> usize {
        self.log.lock().unwrap().connections
    }

    /// All requests, head and body.
    pub(super) fn requests(&self) -> Vec<String> {
        self.log.lock().unwrap().requests.clone()
    }
}

async fn serve(mut stream: TcpStream, log: Arc<Mutex<Log>>, replies: Vec<Reply>) {
    while let Some(request) = read_request(&mut stream).await {
        let reply = {
            let mut log = log.lock().unwrap();
            log.requests.push(request);
            let index = (log.requests.len() - 1).min(replies.len() - 1);
            replies[index].clone()
        };
        match reply {
            Reply::Send(bytes) => stream.write_all(&bytes).await.unwrap(),
            Reply::SendAndClose(bytes) => {
                stream.write_all(&bytes).await.unwrap();
                return;
            }
            Reply::Close => return,
            Reply::Reset => {
                stream.set_zero_linger().unwrap();
                return;
            }
            Reply::Flood(bytes) => {
                stream.write_all(&bytes).await.unwrap();
                while stream.write_all(&[b' '; 16 << 10]).await.is_ok() {}
                return;
            }
        }
    }
}

/// Reads one request with its body, or nothing at the end of the connection. A partial request counts too: it was on
/// the wire.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .map_or(0, |(_, length)| length.trim().parse().unwrap());
            if body.len() >= length {
                return Some(text);
            }
        }
        let mut part = [0; 4096];
        match stream.read(&mut part).await {
            Ok(count) if count > 0 => bytes.extend_from_slice(&part[..count]),
            _ if bytes.is_empty() => return None,
            _ => return Some(text),
        }
    }
}

/// An answer with a JSON body and its length.
pub(super) fn http(status: u16, body: &str) -> Vec<u8> {
    http_with(status, &[], body)
}

pub(super) fn http_with(status: u16, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!(
        "HTTP/1.1 {status} Any\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    format!("{text}\r\n{body}").into_bytes()
}

//! Requests as bytes on a socket, so that nothing corrects odd ones on the way, and
//! answers as received.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long any answer may take before the test gives up.
const DEADLINE: Duration = Duration::from_secs(30);

/// The answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null where it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// One connection, used for request after request.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    /// Bytes that came after the last answer.
    rest: Vec<u8>,
}

impl Wire {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            rest: Vec::new(),
        }
    }

    /// Sends these bytes and reads one answer to them. `bodiless` where the
    /// method is HEAD. `Err` says how the connection ended instead.
    pub(crate) async fn send(&mut self, bytes: &[u8], bodiless: bool) -> Result<Answer, String> {
        let (mut reader, mut writer) = self.stream.split();
        let rest = &mut self.rest;
        // Both at once: an answer may come before the whole request is sent.
        let (sent, answer) = tokio::join!(
            writer.write_all(bytes),
            tokio::time::timeout(DEADLINE, read(&mut reader, rest, bodiless)),
        );
        match (answer, sent) {
            (Ok(Ok(answer)), _) => Ok(answer),
            (Ok(Err(why)), sent) => Err(format!("{why}; sent: {sent:?}")),
            (Err(_), _) => Err("no answer in time".to_owned()),
        }
    }
}

async fn read(
    reader: &mut (impl AsyncReadExt + Unpin),
    rest: &mut Vec<u8>,
    bodiless: bool,
) -> Result<Answer, String> {
    loop {
        let head = until(reader, rest, b"\r\n\r\n").await?;
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap_or_default();
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status: u16 = status.ok_or_else(|| format!("no status: {line:?}"))?;
        // 100 Continue: the real answer is still to come.
        if status < 200 {
            continue;
        }
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut answer = Answer {
            status,
            headers,
            body: Vec::new(),
        };
        if !bodiless && !matches!(status, 204 | 304) {
            answer.body = body(reader, rest, &answer).await?;
        }
        return Ok(answer);
    }
}

async fn body(
    reader: &mut (impl AsyncReadExt + Unpin),
    rest: &mut Vec<u8>,
    answer: &Answer,
) -> Result<Vec<u8>, String> {
    if let Some(length) = answer.header("content-length") {
        let length: usize = length.parse().map_err(|_| "a bad length".to_owned())?;
        while rest.len() < length {
            more(reader, rest).await?;
        }
        return Ok(rest.drain(..length).collect());
    }
    if answer.header("transfer-encoding") != Some("chunked") {
        while more(reader, rest).await.is_ok() {}
        return Ok(std::mem::take(rest));
    }
    let mut whole = Vec::new();
    loop {
        let size = until(reader, rest, b"\r\n").await?;
        let size = String::from_utf8_lossy(&size).trim().to_owned();
        let size = usize::from_str_radix(&size, 16).map_err(|_| "a bad chunk".to_owned())?;
        while rest.len() < size + 2 {
            more(reader, rest).await?;
        }
        whole.extend(rest.drain(..size));
        rest.drain(..2);
        if size == 0 {
            return Ok(whole);
        }
    }
}

/// What stands before `mark`, which is taken as well.
async fn until(
    reader: &mut (impl AsyncReadExt + Unpin),
    rest: &mut Vec<u8>,
    mark: &[u8],
) -> Result<Vec<u8>, String> {
    loop {
        if let Some(at) = rest.windows(mark.len()).position(|part| part == mark) {
            let found = rest.drain(..at).collect();
            rest.drain(..mark.len());
            return Ok(found);
        }
        more(reader, rest).await?;
    }
}

async fn more(reader: &mut (impl AsyncReadExt + Unpin), rest: &mut Vec<u8>) -> Result<(), String> {
    match reader.read_buf(rest).await {
        Ok(0) => Err(format!("closed after {} bytes", rest.len())),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

//! Health over HTTP: `/livez` if the process runs, `/readyz` if the initial lists are complete and no watch is stale.
//! Metrics on a port of their own: `/metrics`.
//! The pod network can connect, so connections have a deadline and carry one request; with too many, the oldest is cut.

use super::metrics::{Metrics, ScrapeFormat};
use hyper::{
    Request, Response, StatusCode, body::Incoming, header, server::conn::http1, service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{collections::VecDeque, convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet, yield_now},
    time::{sleep, timeout},
};

/// Maximum connections at once.
const MOST_CONNECTIONS: usize = 64;
/// Time limit for the head of a request.
const HEAD: Duration = Duration::from_secs(5);
/// Time limit for a whole connection.
const CONNECTION: Duration = Duration::from_secs(10);
/// Delay after an error of the socket, such as no file descriptor left.
const PAUSE: Duration = Duration::from_millis(200);

/// Whether the process is ready.
pub type ReadinessCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// Answers a request by its path and its `Accept` header: status, content type, text.
pub type Answers =
    Arc<dyn Fn(&str, Option<&str>) -> (StatusCode, &'static str, String) + Send + Sync>;

/// The content type of plain text.
const PLAIN: &str = "text/plain; charset=utf-8";

/// Opens the port and logs the address, since port 0 is allowed.
///
/// # Errors
/// The address cannot be used.
pub async fn bind(address: SocketAddr, endpoint: &'static str) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    tracing::info!(endpoint, %address, "endpoint listening");
    Ok(listener)
}

/// The answers about health.
pub fn health(ready: ReadinessCheck) -> Answers {
    Arc::new(move |path, _| {
        let (status, text) = route(path, &ready);
        (status, PLAIN, text.to_owned())
    })
}

/// The answers with metrics.
pub fn metrics(metrics: Metrics) -> Answers {
    Arc::new(move |path, accept| {
        let format = ScrapeFormat::from_accept(accept);
        match path {
            "/metrics" => match metrics.scrape(format) {
                Ok(text) => (StatusCode::OK, format.content_type(), text),
                Err(_) => (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    PLAIN,
                    "a metric cannot be written".to_owned(),
                ),
            },
            _ => (
                StatusCode::NOT_FOUND,
                PLAIN,
                "not found; use /metrics".to_owned(),
            ),
        }
    })
}

/// Serves until it is dropped, which closes open connections.
pub async fn serve(listener: TcpListener, answers: Answers) {
    let mut connections = JoinSet::new();
    // Oldest first.
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let accepted = listener.accept().await;
        while connections.try_join_next().is_some() {}
        open.retain(|connection| !connection.is_finished());
        match accepted {
            Ok((stream, _)) => {
                if open.len() >= MOST_CONNECTIONS
                    && let Some(oldest) = open.pop_front()
                {
                    oldest.abort();
                }
                let answers = answers.clone();
                open.push_back(connections.spawn(async move {
                    let _ = timeout(CONNECTION, answer(stream, answers)).await;
                }));
                // Serves each connection for a moment before the next is accepted: a full backlog must cut no unread
                // request.
                yield_now().await;
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "connection accept failed"
                );
                sleep(PAUSE).await;
            }
        }
    }
}

async fn answer(stream: TcpStream, answers: Answers) {
    let service = service_fn(|request: Request<Incoming>| {
        let accept = request.headers().get(header::ACCEPT);
        let accept = accept.and_then(|accept| accept.to_str().ok());
        let (status, content_type, text) = answers(request.uri().path(), accept);
        let mut response = Response::new(text);
        *response.status_mut() = status;
        let content_type = header::HeaderValue::from_static(content_type);
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    // A caller that misbehaves is not worth a log line.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn route(path: &str, ready: &ReadinessCheck) -> (StatusCode, &'static str) {
    match path {
        "/livez" => (StatusCode::OK, "ok"),
        "/readyz" if ready() => (StatusCode::OK, "ok"),
        "/readyz" => (
            StatusCode::SERVICE_UNAVAILABLE,
            "initial list not complete, or a watch is stale",
        ),
        _ => (StatusCode::NOT_FOUND, "not found; use /livez or /readyz"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    async fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn idle_connections_do_not_block_a_probe() {
        let listener = bind("127.0.0.1:0".parse().unwrap(), "health")
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        let mut server = JoinSet::new();
        server.spawn(serve(listener, health(Arc::new(|| true))));
        let mut silent = Vec::new();
        for number in 0..3 * MOST_CONNECTIONS {
            let mut stream = TcpStream::connect(address).await.unwrap();
            if number % 2 == 0 {
                stream
                    .write_all(b"GET /livez HTTP/1.1\r\nhost:")
                    .await
                    .unwrap();
            }
            silent.push(stream);
        }
        assert!(ask(address, "/livez").await.starts_with("HTTP/1.1 200"));
        // The oldest connection was cut.
        let mut rest = Vec::new();
        let cut = silent[1].read_to_end(&mut rest);
        assert!(timeout(HEAD, cut).await.is_ok(), "it is still open");
    }

    #[tokio::test]
    async fn connection_flood_does_not_block_a_probe() {
        let listener = bind("127.0.0.1:0".parse().unwrap(), "health")
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        // All connections are in the backlog, which takes 128, before the first is accepted.
        let mut probe = TcpStream::connect(address).await.unwrap();
        let request = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";
        probe.write_all(request).await.unwrap();
        let mut flood = Vec::new();
        for _ in 0..MOST_CONNECTIONS + 16 {
            flood.push(TcpStream::connect(address).await.unwrap());
        }
        let mut server = JoinSet::new();
        server.spawn(serve(listener, health(Arc::new(|| true))));
        let mut answer = String::new();
        let read = probe.read_to_string(&mut answer).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{read:?} {answer}");
    }

    #[tokio::test]
    async fn open_connections_do_not_block_readiness() {
        let is_ready = Arc::new(AtomicBool::new(false));
        let listener = bind("127.0.0.1:0".parse().unwrap(), "health")
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        let flag = is_ready.clone();
        let mut server = JoinSet::new();
        server.spawn(serve(
            listener,
            health(Arc::new(move || flag.load(Ordering::Relaxed))),
        ));
        // They send nothing, and stay below the limit.
        let mut silent = Vec::new();
        for _ in 0..MOST_CONNECTIONS / 2 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        assert!(ask(address, "/livez").await.starts_with("HTTP/1.1 200"));
        assert!(ask(address, "/readyz").await.starts_with("HTTP/1.1 503"));
        is_ready.store(true, Ordering::Relaxed);
        assert!(ask(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        assert!(ask(address, "/metrics").await.starts_with("HTTP/1.1 404"));
    }
}

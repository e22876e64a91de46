//! What the process answers over HTTP: `/livez` says that it runs, `/readyz` that its first
//! listings are in and its watches hear something. An API server that is away costs readiness only:
//! a restart would lose the answers of the hosting API that are awaited.
//!
//! The pod network reaches this port, so a connection has a deadline and carries one request, and
//! their number is limited. A caller that holds them all makes the probes fail and nothing else.

use hyper::{
    Request, Response, StatusCode, body::Incoming, header, server::conn::http1, service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};

/// Connections at once; further ones wait in the backlog of the socket.
const MOST_CONNECTIONS: usize = 64;
/// Time limit for the head of a request.
const HEAD: Duration = Duration::from_secs(5);
/// Time limit for a whole connection.
const CONNECTION: Duration = Duration::from_secs(10);
/// Pause after an error of the socket, such as no file descriptor left.
const PAUSE: Duration = Duration::from_millis(200);

/// Whether the process is ready.
pub type Ready = Arc<dyn Fn() -> bool + Send + Sync>;

/// Opens the port. The address that was chosen is logged, since port 0 is allowed.
///
/// # Errors
/// When the address cannot be taken.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "health is served");
    Ok(listener)
}

/// Serves until it is dropped; open connections are then cut.
pub async fn serve(listener: TcpListener, ready: Ready) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        // Never closed, so this is only a wait.
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let ready = ready.clone();
                connections.spawn(async move {
                    let _ = timeout(CONNECTION, answer(stream, ready)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "a connection could not be accepted"
                );
                sleep(PAUSE).await;
            }
        }
    }
}

async fn answer(stream: TcpStream, ready: Ready) {
    let service = service_fn(|request: Request<Incoming>| {
        let (status, text) = route(request.uri().path(), &ready);
        let mut response = Response::new(text.to_owned());
        *response.status_mut() = status;
        let plain = header::HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, plain);
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

fn route(path: &str, ready: &Ready) -> (StatusCode, &'static str) {
    match path {
        "/livez" => (StatusCode::OK, "ok"),
        "/readyz" if ready() => (StatusCode::OK, "ok"),
        "/readyz" => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the first listing is not in yet, or a watch has heard nothing for long",
        ),
        _ => (StatusCode::NOT_FOUND, "there is /livez and /readyz"),
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
    async fn says_whether_it_is_ready_while_others_hold_connections_open() {
        let is_ready = Arc::new(AtomicBool::new(false));
        let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let flag = is_ready.clone();
        let mut server = JoinSet::new();
        server.spawn(serve(
            listener,
            Arc::new(move || flag.load(Ordering::Relaxed)),
        ));
        // They say nothing, and stay below the limit.
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

//! Health over HTTP: `/livez` says that the process answers, `/readyz` that its first listings are in.

use axum::{Router, http::StatusCode, routing::get};
use std::{future::Future, net::SocketAddr, sync::Arc};
use tokio::net::TcpListener;

/// Opens the port. The address that was chosen is logged, since port 0 is allowed.
///
/// # Errors
/// When the address cannot be taken.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "health is served");
    Ok(listener)
}

/// Serves until `end`.
pub async fn serve(
    listener: TcpListener,
    ready: Arc<dyn Fn() -> bool + Send + Sync>,
    end: impl Future<Output = ()> + Send + 'static,
) {
    let router = Router::new().route("/livez", get(|| async { "ok" })).route(
        "/readyz",
        get(move || {
            let is_ready = ready();
            async move {
                if is_ready {
                    (StatusCode::OK, "ok")
                } else {
                    (
                        StatusCode::SERVICE_UNAVAILABLE,
                        "the first listing is not in yet",
                    )
                }
            }
        }),
    );
    if let Err(error) = axum::serve(listener, router)
        .with_graceful_shutdown(end)
        .await
    {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "health is not served any more"
        );
    }
}

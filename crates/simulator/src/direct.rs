//! The API without sockets: the cost of a request without the network.

use axum::Router;
use axum::body::{Bytes, to_bytes};
use http::{Request, Response};

use super::exchange::{Broken, exchange};
use super::world::Shared;

/// Answers requests as the port of the API does, ledger and faults included.
/// Callers have no address: a whitelist of IPv4 addresses locks them out.
#[derive(Clone, Debug)]
pub struct Direct {
    shared: Shared,
    router: Router,
}

impl Direct {
    pub(super) fn new(shared: Shared, router: Router) -> Self {
        Self { shared, router }
    }

    /// Answers one request.
    ///
    /// # Errors
    /// Where a client at the port would see its connection closed.
    pub async fn call(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Broken> {
        let (head, body) = request.into_parts();
        let (shared, router) = (self.shared.clone(), self.router.clone());
        let answer = exchange(shared, router, head, Ok(body)).await;
        let (head, body) = answer?.into_parts();
        let body = to_bytes(body, usize::MAX).await.map_err(|_| Broken)?;
        Ok(Response::from_parts(head, body))
    }
}

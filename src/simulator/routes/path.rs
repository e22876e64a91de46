//! The variable parts of a path.

use axum::extract::{self, FromRequestParts};
use http::request::Parts;
use serde::de::DeserializeOwned;

use super::super::answer::Refusal;

/// As axum's own, but parts that are no text name nothing that there is.
#[derive(Debug)]
pub(super) struct Path<T>(pub(super) T);

impl<T, S> FromRequestParts<S> for Path<T>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let read = extract::Path::from_request_parts(parts, state).await;
        let extract::Path(named) = read.map_err(|_| Refusal::not_found())?;
        Ok(Self(named))
    }
}

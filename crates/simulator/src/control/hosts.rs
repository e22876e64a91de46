//! Labels that somebody else puts on dedicated hosts.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::super::state::Label;
use super::super::world::Shared;
use super::{Query, Unfollowed, Which, read};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Labelled {
    /// The id of a dedicated host.
    id: u64,
    /// All that it bears from now on.
    labels: Vec<Label>,
}

/// `POST /_simulator/hosts`: gives a dedicated host other labels.
pub(super) async fn label(
    State(shared): State<Shared>,
    Query(which): Query<Which>,
    body: Bytes,
) -> Result<Response, Unfollowed> {
    let Labelled { id, labels } = read(&body)?;
    if let Some(bad) = labels.iter().find(|label| !label.is_valid()) {
        let message = format!("label {:?} breaks a rule of section 2.20", bad.key);
        return Err(Unfollowed::Value(message));
    }
    let (mut world, now) = shared.settled();
    let of = which.place(&world)?;
    if !world.accounts[of].label_host(id, labels) {
        return Err(Unfollowed::NotFound);
    }
    let record = world.accounts[of].host(&id.to_string(), now);
    match record {
        Ok(record) => Ok(Json(record).into_response()),
        Err(_) => Err(Unfollowed::NotFound),
    }
}

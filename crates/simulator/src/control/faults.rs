//! Fault rules.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use http::StatusCode;
use serde_json::{Value, json};

use super::super::faults::Rule;
use super::super::world::Shared;
use super::{Path, Unfollowed, read};

/// `GET /_simulator/faults`
pub(super) async fn list(State(shared): State<Shared>) -> Json<Value> {
    Json(json!(shared.lock().faults.rules()))
}

/// `POST /_simulator/faults`
pub(super) async fn add(
    State(shared): State<Shared>,
    body: Bytes,
) -> Result<Json<Value>, Unfollowed> {
    let rule: Rule = read(&body)?;
    let added = shared.lock().faults.add(rule);
    let id = added.map_err(|error| Unfollowed::Value(error.to_string()))?;
    Ok(Json(json!({"id": id})))
}

/// `DELETE /_simulator/faults`
pub(super) async fn clear(State(shared): State<Shared>) -> StatusCode {
    shared.lock().faults.clear();
    StatusCode::NO_CONTENT
}

/// `DELETE /_simulator/faults/{id}`
pub(super) async fn remove(
    State(shared): State<Shared>,
    Path(id): Path<u64>,
) -> Result<StatusCode, Unfollowed> {
    match shared.lock().faults.remove(id) {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Unfollowed::NotFound),
    }
}

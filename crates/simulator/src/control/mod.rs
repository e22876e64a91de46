//! The control port: `/_simulator/…`, one file per subject.

mod faults;
mod hosts;
mod machines;
mod origin;
mod page;
mod parameters;
mod people;
mod records;
mod settings;
mod time;

use axum::body::Bytes;
use axum::extract::FromRequestParts;
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{delete, get, patch, post};
use axum::{Json, Router};
use http::StatusCode;
use http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::world::{Shared, World};

/// Message for a key that no header can hold.
const UNSENDABLE: &str = "key must be one or more visible characters of ASCII";

/// A request to the control port that cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfollowed {
    /// The body is not what it should be.
    #[error("{0}")]
    Body(#[from] serde_json::Error),
    /// A value in it is invalid.
    #[error("{0}")]
    Value(String),
    /// Nothing has that name.
    #[error("nothing has that name")]
    NotFound,
    /// It exists, but not with this method.
    #[error("not with this method")]
    Method,
    /// The body was not read.
    #[error("the body is too large, or broke off")]
    Unread,
}

impl IntoResponse for Unfollowed {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Body(_) | Self::Value(_) => StatusCode::BAD_REQUEST,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unread => StatusCode::PAYLOAD_TOO_LARGE,
        };
        (status, Json(json!({"error": self.to_string()}))).into_response()
    }
}

/// Parts of a path; one that cannot be read names nothing.
struct Path<T>(T);

impl<S, T> FromRequestParts<S> for Path<T>
where
    S: Send + Sync,
    T: DeserializeOwned + Send,
{
    type Rejection = Unfollowed;

    async fn from_request_parts(head: &mut Parts, state: &S) -> Result<Self, Unfollowed> {
        let read = axum::extract::Path::from_request_parts(head, state).await;
        let axum::extract::Path(parts) = read.map_err(|_| Unfollowed::NotFound)?;
        Ok(Self(parts))
    }
}

/// A query; an unreadable one gets an error of this port.
struct Query<T>(T);

impl<S, T> FromRequestParts<S> for Query<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = Unfollowed;

    async fn from_request_parts(head: &mut Parts, state: &S) -> Result<Self, Unfollowed> {
        let read = axum::extract::Query::from_request_parts(head, state).await;
        let axum::extract::Query(query) =
            read.map_err(|rejection| Unfollowed::Value(rejection.body_text()))?;
        Ok(Self(query))
    }
}

/// The account that a request is about, by name; the first when absent.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    account: Option<String>,
}

impl Which {
    fn place(&self, world: &World) -> Result<usize, Unfollowed> {
        match &self.account {
            Some(name) => world.account_named(name).ok_or(Unfollowed::NotFound),
            None => Ok(0),
        }
    }
}

/// Reads a body whatever its `Content-Type`, so that plain `curl -d` works.
fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Unfollowed> {
    Ok(serde_json::from_slice(body)?)
}

/// The control port.
pub(crate) fn router(shared: Shared) -> Router {
    Router::new()
        .route("/", get(|| async { Redirect::to("/_simulator/") }))
        .route("/_simulator", get(people::show))
        .route("/_simulator/", get(people::show))
        .route("/_simulator/page", post(people::act))
        .route("/_simulator/clock", get(time::show).post(time::drive))
        .route(
            "/_simulator/ledger",
            get(records::ledger).delete(records::clear),
        )
        .route("/_simulator/ledger/counts", get(records::counts))
        .route("/_simulator/invariants", get(records::invariants))
        .route(
            "/_simulator/accounts",
            get(records::list_accounts).post(records::add_account),
        )
        .route("/_simulator/paying", get(records::paying))
        .route("/_simulator/catalogue", get(records::catalogue))
        .route(
            "/_simulator/machines",
            get(machines::list).post(machines::appear),
        )
        .route("/_simulator/machines/{uuid}", get(machines::show))
        .route("/_simulator/machines/{uuid}", patch(machines::alter))
        .route("/_simulator/hosts", post(hosts::label))
        .route(
            "/_simulator/faults",
            get(faults::list).post(faults::add).delete(faults::clear),
        )
        .route("/_simulator/faults/{id}", delete(faults::remove))
        .route(
            "/_simulator/switches",
            get(settings::switches).post(settings::turn),
        )
        .route(
            "/_simulator/settings",
            get(settings::show).post(settings::change),
        )
        .route("/_simulator/quota", post(settings::quota))
        .route("/_simulator/availability", post(settings::availability))
        .route("/_simulator/keys", get(settings::keys).post(settings::key))
        .route_layer(from_fn(parameters::guard))
        .fallback(|| async { Unfollowed::NotFound })
        .method_not_allowed_fallback(|| async { Unfollowed::Method })
        .layer(from_fn(origin::guard))
        .with_state(shared)
}

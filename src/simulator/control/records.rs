//! What happened: the ledger, its counts, and what it says about invariants.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::Deserialize;

use super::super::invariants::{Report, judge};
use super::super::ledger::Wanted;
use super::super::world::Shared;

#[derive(Debug, Deserialize)]
pub(super) struct LedgerQuery {
    method: Option<String>,
    path: Option<String>,
    since: Option<u64>,
    format: Option<String>,
}

/// `GET /_simulator/ledger`: an array, or with `format=jsonl` a line each.
/// The header `X-Ledger-Dropped` counts entries that had to make room.
pub(super) async fn ledger(
    State(shared): State<Shared>,
    Query(query): Query<LedgerQuery>,
) -> Response {
    let lines = query.format.as_deref() == Some("jsonl");
    let wanted = Wanted {
        method: query.method,
        path: query.path,
        since: query.since,
    };
    let world = shared.lock();
    let texts = world
        .ledger
        .read(&wanted)
        .filter_map(|entry| serde_json::to_string(entry).ok());
    let texts: Vec<String> = texts.collect();
    let (kind, body) = match lines {
        true => (
            "application/jsonl",
            texts.iter().map(|text| format!("{text}\n")).collect(),
        ),
        false => ("application/json", format!("[{}]", texts.join(","))),
    };
    let dropped = world.ledger.dropped().to_string();
    (
        [
            (CONTENT_TYPE.as_str(), kind),
            ("x-ledger-dropped", &dropped),
        ],
        body,
    )
        .into_response()
}

/// `DELETE /_simulator/ledger`
pub(super) async fn clear(State(shared): State<Shared>) -> StatusCode {
    shared.lock().ledger.clear();
    StatusCode::NO_CONTENT
}

/// `GET /_simulator/ledger/counts`
pub(super) async fn counts(State(shared): State<Shared>) -> Json<BTreeMap<String, u64>> {
    Json(shared.lock().ledger.counts().clone())
}

#[derive(Debug, Deserialize)]
pub(super) struct InvariantQuery {
    #[serde(default = "order_prefix")]
    prefix: String,
}

fn order_prefix() -> String {
    "fmo-order:".to_owned()
}

/// `GET /_simulator/invariants`
pub(super) async fn invariants(
    State(shared): State<Shared>,
    Query(query): Query<InvariantQuery>,
) -> Json<Report> {
    let (world, _) = shared.settled();
    Json(judge(world.account.machines(), &query.prefix))
}

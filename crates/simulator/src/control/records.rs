//! What happened: the ledger, its counts, and what it says about invariants;
//! and the present state: accounts, what they pay for, and the catalogue.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::accounts::{self, PlannedHosts};
use super::super::invariants::{Report, judge};
use super::super::keys::can_be_sent;
use super::super::ledger::Wanted;
use super::super::world::Shared;
use super::{Query, UNSENDABLE, Unfollowed, Which, read};

#[derive(Debug, Deserialize)]
pub(super) struct LedgerQuery {
    method: Option<String>,
    path: Option<String>,
    since: Option<u64>,
    account: Option<String>,
    machine: Option<String>,
    format: Option<String>,
}

/// `GET /_simulator/ledger`: an array, or with `format=jsonl` one line each.
/// The header `X-Ledger-Dropped` counts the entries that were dropped.
pub(super) async fn ledger(
    State(shared): State<Shared>,
    Query(query): Query<LedgerQuery>,
) -> Response {
    let lines = query.format.as_deref() == Some("jsonl");
    let wanted = Wanted {
        method: query.method,
        path: query.path,
        since: query.since,
        account: query.account,
        machine: query.machine,
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
    Json(shared.lock().ledger.counts())
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
    Query(which): Query<Which>,
) -> Result<Json<Report>, Unfollowed> {
    let (world, _) = shared.settled();
    let account = &world.accounts[which.place(&world)?];
    let mut report = judge(account.machines(), &query.prefix);
    let strange = world.strangers.violations(&account.name, &world.keys);
    report.violations.extend(strange);
    Ok(Json(report))
}

/// `GET /_simulator/accounts`: all accounts, each with the pending hash of a
/// password reset; no other secret.
pub(super) async fn list_accounts(State(shared): State<Shared>) -> Json<Value> {
    let (world, now) = shared.settled();
    let accounts = world.accounts.iter().map(|account| {
        json!({
            "name": account.name,
            "emailAddress": account.login().email(),
            "resetHash": account.login().reset_hash(now),
            "machines": account.machines().len(),
            "hosts": account.dedicated().iter().map(|host| host.id).collect::<Vec<_>>(),
        })
    });
    Json(accounts.collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewAccount {
    name: String,
    key: String,
}

/// `POST /_simulator/accounts`: one more, with a key of its own.
pub(super) async fn add_account(
    State(shared): State<Shared>,
    body: Bytes,
) -> Result<Json<Value>, Unfollowed> {
    let wanted: NewAccount = read(&body)?;
    if !can_be_sent(&wanted.key) {
        return Err(Unfollowed::Value(UNSENDABLE.to_owned()));
    }
    if wanted.name.is_empty() {
        return Err(Unfollowed::Value("name must not be empty".to_owned()));
    }
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    if world.account_named(&wanted.name).is_some() || world.keys.knows(&wanted.key) {
        return Err(Unfollowed::Value("name or key is taken".to_owned()));
    }
    let Some(first) = world.accounts.first() else {
        return Err(Unfollowed::NotFound);
    };
    let (catalogue, numbers) = (first.catalogue.clone(), first.numbers().clone());
    let mut account = accounts::added(&wanted.name, catalogue, numbers);
    account.house(PlannedHosts::default().labels(), now);
    world.accounts.push(account);
    let number = world.keys.set(&wanted.key, &wanted.name, true);
    Ok(Json(json!({"name": wanted.name, "apiKeyId": number})))
}

/// `GET /_simulator/paying`: what is being paid for, by account.
pub(super) async fn paying(State(shared): State<Shared>) -> Json<Value> {
    let (world, now) = shared.settled();
    let accounts = world.accounts.iter();
    Json(accounts.map(|account| account.paying(now)).collect())
}

/// `GET /_simulator/catalogue`: in the form that `--catalogue` reads.
pub(super) async fn catalogue(State(shared): State<Shared>) -> Json<Value> {
    let world = shared.lock();
    let first = world.accounts.first();
    Json(first.map_or(Value::Null, |account| account.catalogue.file()))
}

//! Switches, settings, quota, stock and keys.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::clock::span;
use super::super::keys::{KeyRecord, can_be_sent, key_id};
use super::super::options::Delivery;
use super::super::profile::Row;
use super::super::state::Settings;
use super::super::world::Shared;
use super::machines::offer;
use super::{Query, UNSENDABLE, Unfollowed, Which, read};

/// `GET /_simulator/switches`
pub(super) async fn switches(State(shared): State<Shared>) -> Json<Vec<Row>> {
    Json(shared.lock().switches.rows())
}

/// `POST /_simulator/switches`: names and values; all or none.
pub(super) async fn turn(
    State(shared): State<Shared>,
    body: Bytes,
) -> Result<Json<Vec<Row>>, Unfollowed> {
    let wanted: BTreeMap<String, String> = read(&body)?;
    let mut world = shared.lock();
    let mut turned = world.switches.clone();
    for (name, value) in &wanted {
        turned
            .set(name, value)
            .map_err(|error| Unfollowed::Value(error.to_string()))?;
    }
    world.switches = turned;
    Ok(Json(world.switches.rows()))
}

/// Settings for later orders, releases, commands and installations.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Change {
    /// `[min, max]`
    delivery_seconds: Option<(f64, f64)>,
    release_seconds: Option<f64>,
    failure_rate: Option<f64>,
    list_lag_seconds: Option<f64>,
    command_seconds: Option<f64>,
    install_seconds: Option<f64>,
    command_failure_rate: Option<f64>,
}

/// `GET /_simulator/settings`
pub(super) async fn show(State(shared): State<Shared>) -> Json<Value> {
    Json(face(shared.lock().settings))
}

fn face(settings: Settings) -> Value {
    let span = settings.chances.span;
    json!({
        "deliverySeconds": [span.min.as_secs_f64(), span.max.as_secs_f64()],
        "releaseSeconds": settings.release.as_secs_f64(),
        "failureRate": settings.chances.failure_rate,
        "listLagSeconds": settings.list_lag.as_secs_f64(),
        "commandSeconds": settings.command.as_secs_f64(),
        "installSeconds": settings.install.as_secs_f64(),
        "commandFailureRate": settings.command_failure_rate,
    })
}

/// `POST /_simulator/settings`
pub(super) async fn change(
    State(shared): State<Shared>,
    body: Bytes,
) -> Result<Json<Value>, Unfollowed> {
    let wanted: Change = read(&body)?;
    let (mut world, _) = shared.settled();
    let mut settings = world.settings;
    let seconds = |name: &str, value: f64| {
        span(value).ok_or_else(|| Unfollowed::Value(format!("{name} must be 0 or more")))
    };
    if let Some((min, max)) = wanted.delivery_seconds {
        let (min, max) = (
            seconds("deliverySeconds", min)?,
            seconds("deliverySeconds", max)?,
        );
        settings.chances.span = Delivery {
            min,
            max: max.max(min),
        };
    }
    if let Some(value) = wanted.release_seconds {
        settings.release = seconds("releaseSeconds", value)?;
    }
    if let Some(value) = wanted.list_lag_seconds {
        settings.list_lag = seconds("listLagSeconds", value)?;
    }
    if let Some(value) = wanted.command_seconds {
        settings.command = seconds("commandSeconds", value)?;
    }
    if let Some(value) = wanted.install_seconds {
        settings.install = seconds("installSeconds", value)?;
    }
    let share = |name: &str, rate: f64| match (0.0..=1.0).contains(&rate) {
        true => Ok(rate),
        false => Err(Unfollowed::Value(format!("{name} must be 0 to 1"))),
    };
    if let Some(rate) = wanted.failure_rate {
        settings.chances.failure_rate = share("failureRate", rate)?;
    }
    if let Some(rate) = wanted.command_failure_rate {
        settings.command_failure_rate = share("commandFailureRate", rate)?;
    }
    world.settings = settings;
    Ok(Json(face(settings)))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum QuotaType {
    OnDemand,
    Commit,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct QuotaChange {
    location: String,
    instance_type: String,
    quota_type: Option<QuotaType>,
    /// Needed by `commit`.
    #[serde(default)]
    contract_id: String,
    quota: usize,
}

/// `POST /_simulator/quota`
pub(super) async fn quota(
    State(shared): State<Shared>,
    Query(which): Query<Which>,
    body: Bytes,
) -> Result<StatusCode, Unfollowed> {
    let wanted: QuotaChange = read(&body)?;
    let mut world = shared.lock();
    let of = which.place(&world)?;
    let offer = offer(&world, of, &wanted.location, &wanted.instance_type)?;
    let pool = match (wanted.quota_type, wanted.contract_id) {
        (Some(QuotaType::Commit), contract) if !contract.is_empty() => Some(contract),
        (None | Some(QuotaType::OnDemand), contract) if contract.is_empty() => None,
        _ => {
            let message = "contractId goes with quotaType commit, and only with it";
            return Err(Unfollowed::Value(message.to_owned()));
        }
    };
    world.accounts[of].allot(|quota| quota.set_quota(offer, pool, wanted.quota));
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StockChange {
    location: String,
    instance_type: String,
    /// How many more can be ordered now; null is no limit.
    stock: Option<usize>,
}

/// `POST /_simulator/availability`: machines that are released later are added.
pub(super) async fn availability(
    State(shared): State<Shared>,
    Query(which): Query<Which>,
    body: Bytes,
) -> Result<StatusCode, Unfollowed> {
    let wanted: StockChange = read(&body)?;
    let (mut world, _) = shared.settled();
    let of = which.place(&world)?;
    let offer = offer(&world, of, &wanted.location, &wanted.instance_type)?;
    let account = &mut world.accounts[of];
    let taken = account.taken().from(offer, &None);
    let all = wanted.stock.map(|free| free.saturating_add(taken));
    account.allot(|quota| quota.set_stock(offer, all));
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyChange {
    key: String,
    valid: bool,
}

/// `GET /_simulator/keys`
pub(super) async fn keys(State(shared): State<Shared>) -> Json<Vec<KeyRecord>> {
    Json(shared.lock().keys.records())
}

/// `POST /_simulator/keys`
pub(super) async fn key(
    State(shared): State<Shared>,
    Query(which): Query<Which>,
    body: Bytes,
) -> Result<Json<Value>, Unfollowed> {
    let KeyChange { key, valid } = read(&body)?;
    if !can_be_sent(&key) {
        return Err(Unfollowed::Value(UNSENDABLE.to_owned()));
    }
    let mut world = shared.lock();
    let of = which.place(&world)?;
    let account = world.accounts[of].name.clone();
    let number = world.keys.set(&key, &account, valid);
    Ok(Json(
        json!({"id": key_id(&key), "apiKeyId": number, "valid": valid}),
    ))
}

//! The addresses from which an API key may be used (section 4.1).

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use http::HeaderMap;
use serde_json::json;

use super::super::answer::{Answer, Refusal};
use super::super::faults::Distortion;
use super::super::world::{Caller, Shared};
use super::super::{page, rules};
use super::{Outcome, Path};

/// `GET /v3/account/apiKey/{apiKeyId}/whitelist`
pub(super) async fn list(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(distortion): Extension<Distortion>,
    Path(key): Path<String>,
    headers: HeaderMap,
) -> Outcome {
    let (world, _) = shared.settled();
    let page = page::OTHERS.read(&headers, &world.switches)?;
    let records = world.keys.whitelist(&world.accounts[caller.0].name, &key)?;
    let start = distortion.start(page.start);
    let shown = records.into_iter().skip(start).take(page.results);
    Ok(Answer::list(shown.collect()))
}

fn allow(shared: &Shared, caller: Caller, key: &str, entry: Option<&str>, body: &[u8]) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    let account = world.accounts[caller.0].name.as_str();
    // A missing entry is reported before a wrong body.
    let known = world.keys.whitelist(account, key)?;
    let there = |id: &str| {
        let id = id.parse::<u64>().ok();
        id.is_some() && known.iter().any(|record| record["id"].as_u64() == id)
    };
    if entry.is_some_and(|entry| !there(entry)) {
        return Err(Refusal::not_found());
    }
    let range = rules::whitelist_entry(body, &world.switches)?;
    let record = world.keys.allow(account, key, entry, range, now)?;
    let effect = json!({"whitelist": key, "entry": record["id"]});
    // The document has an array here, whatever wraps single records elsewhere.
    Ok(Answer::list(vec![record]).changing(effect))
}

/// `POST /v3/account/apiKey/{apiKeyId}/whitelist`
pub(super) async fn add(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(key): Path<String>,
    body: Bytes,
) -> Outcome {
    allow(&shared, caller, &key, None, &body)
}

/// `PUT /v3/account/apiKey/{apiKeyId}/whitelist/{apiKeyWhitelistId}`
pub(super) async fn change(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path((key, entry)): Path<(String, String)>,
    body: Bytes,
) -> Outcome {
    allow(&shared, caller, &key, Some(&entry), &body)
}

/// `DELETE /v3/account/apiKey/{apiKeyId}/whitelist/{apiKeyWhitelistId}`
pub(super) async fn remove(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path((key, entry)): Path<(String, String)>,
) -> Outcome {
    let mut world = shared.lock();
    let world = &mut *world;
    let account = world.accounts[caller.0].name.as_str();
    world.keys.disallow(account, &key, &entry)?;
    Ok(Answer::empty().changing(json!({"whitelist": key, "removed": entry})))
}

//! API key whitelists, the password and SSH keys (sections 4.1, 4.2, 4.8).

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use rand::RngExt;
use serde_json::json;

use super::super::answer::{Answer, Refusal, code};
use super::super::faults::Distortion;
use super::super::profile::ResetLoggedIn;
use super::super::state::{Account, Attempt};
use super::super::world::{Caller, Shared, World};
use super::super::{page, rules};
use super::{Outcome, Path};

/// `GET /v3/account/apiKey/{apiKeyId}/whitelist`
pub(super) async fn whitelist(
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
    // What is not there is told before what is wrong with the body.
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
    // An array by the document, whatever single records come in elsewhere.
    Ok(Answer::list(vec![record]).changing(effect))
}

/// `POST /v3/account/apiKey/{apiKeyId}/whitelist`
pub(super) async fn add_entry(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(key): Path<String>,
    body: Bytes,
) -> Outcome {
    allow(&shared, caller, &key, None, &body)
}

/// `PUT /v3/account/apiKey/{apiKeyId}/whitelist/{apiKeyWhitelistId}`
pub(super) async fn change_entry(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path((key, entry)): Path<(String, String)>,
    body: Bytes,
) -> Outcome {
    allow(&shared, caller, &key, Some(&entry), &body)
}

/// `DELETE /v3/account/apiKey/{apiKeyId}/whitelist/{apiKeyWhitelistId}`
pub(super) async fn remove_entry(
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

fn credentials(status: StatusCode) -> Refusal {
    Refusal::new(status, code::INVALID_CREDENTIALS, "Invalid credentials")
}

/// `PUT /v3/account/password`
pub(super) async fn change_password(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Outcome {
    let (mut world, now) = shared.settled();
    let names = ["currentPassword", "newPassword"];
    let [current, new] = rules::texts(&body, names, &world.switches)?;
    let account = &mut world.accounts[caller.0];
    match account.log_in(|login| login.change(&current, &new, now)) {
        Attempt::Changed => Ok(Answer::empty().changing(json!({"password": "changed"}))),
        Attempt::Wrong => Err(credentials(StatusCode::UNAUTHORIZED)),
        Attempt::TooMany => Err(Refusal::new(
            StatusCode::TOO_MANY_REQUESTS,
            code::THROTTLED,
            "Too many login requests",
        )),
    }
}

/// Every caller has a valid key: whether that counts as logged in is open.
fn not_logged_in(world: &World) -> Result<(), Refusal> {
    match world.switches.reset_logged_in {
        ResetLoggedIn::Accept => Ok(()),
        ResetLoggedIn::Refuse422 => Err(Refusal::unprocessable("User already logged in")),
    }
}

/// `POST /v3/account/password/reset`
pub(super) async fn ask_for_reset(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    let [email] = rules::texts(&body, ["emailAddress"], &world.switches)?;
    not_logged_in(world)?;
    let hash = format!("{:032x}", world.luck.draw().random::<u128>());
    let account: &mut Account = &mut world.accounts[caller.0];
    let asked = account.log_in(|login| login.ask_for_reset(&email, now, hash));
    Ok(Answer::empty().changing(json!({"resetAsked": asked})))
}

/// `PUT /v3/account/password/reset/validate`
pub(super) async fn reset(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    let names = ["newPassword", "resetHash"];
    let [new, hash] = rules::texts(&body, names, &world.switches)?;
    not_logged_in(world)?;
    let account = &mut world.accounts[caller.0];
    match account.log_in(|login| login.reset(&hash, &new, now)) {
        true => Ok(Answer::empty().changing(json!({"password": "reset"}))),
        false => Err(credentials(StatusCode::FORBIDDEN)),
    }
}

/// `GET /v3/sshKey`
pub(super) async fn ssh_keys(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Outcome {
    Ok(Answer::list(shared.lock().accounts[caller.0].ssh_keys()))
}

/// `POST /v3/sshKey`
pub(super) async fn store_key(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    let key = rules::ssh_key(&body, &world.switches)?;
    let uuid = Account::uuid(now, &mut world.luck.draw());
    let account = &mut world.accounts[caller.0];
    let record = account.store_key(key, uuid, now, &world.switches)?;
    let answer = Answer::one(record, &world.switches);
    Ok(answer.changing(json!({"keyStored": uuid.to_string()})))
}

/// `GET /v3/sshKey/{uuid}`
pub(super) async fn ssh_key(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(uuid): Path<String>,
) -> Outcome {
    let world = shared.lock();
    let record = world.accounts[caller.0].ssh_key(&uuid)?;
    Ok(Answer::one(record, &world.switches))
}

/// `DELETE /v3/sshKey/{uuid}`
pub(super) async fn delete_key(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(uuid): Path<String>,
) -> Outcome {
    let mut world = shared.lock();
    world.accounts[caller.0].delete_key(&uuid)?;
    Ok(Answer::empty().changing(json!({"keyDeleted": uuid})))
}

//! Stored SSH keys (section 4.8).

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use serde_json::json;

use super::super::answer::Answer;
use super::super::rules;
use super::super::state::Account;
use super::super::world::{Caller, Shared};
use super::{Outcome, Path};

/// `GET /v3/sshKey`
pub(super) async fn list(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Outcome {
    Ok(Answer::list(shared.lock().accounts[caller.0].ssh_keys()))
}

/// `POST /v3/sshKey`
pub(super) async fn store(
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
pub(super) async fn get(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(uuid): Path<String>,
) -> Outcome {
    let world = shared.lock();
    let record = world.accounts[caller.0].ssh_key(&uuid)?;
    Ok(Answer::one(record, &world.switches))
}

/// `DELETE /v3/sshKey/{uuid}`
pub(super) async fn delete(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(uuid): Path<String>,
) -> Outcome {
    let mut world = shared.lock();
    world.accounts[caller.0].delete_key(&uuid)?;
    Ok(Answer::empty().changing(json!({"keyDeleted": uuid})))
}

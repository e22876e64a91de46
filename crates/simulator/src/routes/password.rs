//! The password of the account (section 4.2).

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use http::StatusCode;
use rand::RngExt;
use serde_json::json;

use super::super::answer::{Answer, Refusal, code};
use super::super::profile::ResetLoggedIn;
use super::super::rules;
use super::super::state::{Account, Attempt};
use super::super::world::{Caller, Shared, World};
use super::Outcome;

fn credentials(status: StatusCode) -> Refusal {
    Refusal::new(status, code::INVALID_CREDENTIALS, "Invalid credentials")
}

/// `PUT /v3/account/password`
pub(super) async fn change(
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

//! The page at `/_simulator/` for people with a browser, and its buttons.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::header::CONTENT_SECURITY_POLICY;

use super::super::world::{Shared, World};
use super::{Unfollowed, page};

/// Texts on the page may come from requests: nothing in it runs, and nothing is
/// fetched.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; \
    frame-ancestors 'none'; base-uri 'none'";

/// Buttons that move the clock: label, and seconds.
pub(super) const JUMPS: [(&str, u64); 3] =
    [("+1 minute", 60), ("+15 minutes", 900), ("+1 day", 86_400)];

/// Buttons that set the clock's speed: virtual seconds per real second.
pub(super) const SPEEDS: [(&str, u32); 3] =
    [("Stand still", 0), ("Real speed", 1), ("60 times", 60)];

/// Buttons that add a fault rule: label, and rule.
pub(super) const FAULTS: [(&str, &str); 4] = [
    (
        "Lose the next answer",
        r#"{"fault": "dropAfter", "count": 1}"#,
    ),
    (
        "Refuse the next request",
        r#"{"fault": {"status": {"code": 503}}, "count": 1}"#,
    ),
    (
        "Throttle the next request",
        r#"{"fault": {"status": {"code": 429, "retryAfter": 5}}, "count": 1}"#,
    ),
    (
        "Let the next delivery fail",
        r#"{"match": {"method": "POST", "path": "/v3/flexMetal/servers"}, "fault": {"fail": {"message": "Hardware broke"}}, "count": 1}"#,
    ),
];

/// `GET /_simulator/`
pub(super) async fn show(State(shared): State<Shared>) -> Response {
    let (world, now) = shared.settled();
    let html = Html(page::render(&world, now));
    ([(CONTENT_SECURITY_POLICY, POLICY)], html).into_response()
}

/// `POST /_simulator/page`: what a button does.
pub(super) async fn act(State(shared): State<Shared>, body: Bytes) -> Response {
    let mut world = shared.lock();
    for (name, value) in url::form_urlencoded::parse(&body) {
        if let Err(unfollowed) = press(&mut world, &name, &value) {
            return unfollowed.into_response();
        }
    }
    world.settle();
    Redirect::to("/_simulator/").into_response()
}

/// Does what the button with this name and value stands for.
fn press(world: &mut World, name: &str, value: &str) -> Result<(), Unfollowed> {
    let unknown = || Unfollowed::Value(format!("the page has no button {name}={value}"));
    let number: u32 = value.parse().map_err(|_| unknown())?;
    let place = usize::try_from(number).map_err(|_| unknown())?;
    match name {
        "advance" => world.clock.advance(Duration::from_secs(number.into())),
        "speed" => world.clock.set_speed(number.into()),
        "clear" => world.faults.clear(),
        // A missing one was already deleted in another window.
        "drop" => {
            world.faults.remove(number.into());
        }
        "fault" => {
            let (_, rule) = FAULTS.get(place).ok_or_else(unknown)?;
            let added = world.faults.add(serde_json::from_str(rule)?);
            added.map_err(|invalid| Unfollowed::Value(invalid.to_string()))?;
        }
        _ => return Err(unknown()),
    }
    Ok(())
}

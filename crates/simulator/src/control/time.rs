//! The clock.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::clock::span;
use super::super::world::{Shared, World};
use super::{Unfollowed, read};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Drive {
    /// Jumps ahead by this much.
    advance_seconds: Option<f64>,
    /// Virtual seconds per real second from now on; 0 stops the clock.
    speed: Option<f64>,
}

/// `GET /_simulator/clock`
pub(super) async fn show(State(shared): State<Shared>) -> Json<Value> {
    Json(face(&shared.lock()))
}

/// `POST /_simulator/clock`: when it answers, everything that became due is done.
pub(super) async fn drive(
    State(shared): State<Shared>,
    body: Bytes,
) -> Result<Json<Value>, Unfollowed> {
    let Drive {
        advance_seconds,
        speed,
    } = read(&body)?;
    let by = match advance_seconds {
        Some(seconds) => span(seconds).ok_or_else(|| invalid("advanceSeconds"))?,
        None => std::time::Duration::ZERO,
    };
    if speed.is_some_and(|speed| !speed.is_finite() || speed < 0.0) {
        return Err(invalid("speed"));
    }
    let mut world = shared.lock();
    world.clock.advance(by);
    if let Some(speed) = speed {
        world.clock.set_speed(speed);
    }
    world.settle();
    Ok(Json(face(&world)))
}

fn invalid(name: &str) -> Unfollowed {
    Unfollowed::Value(format!("{name} must be 0 or more"))
}

fn face(world: &World) -> Value {
    json!({"virtual": world.clock.now(), "speed": world.clock.speed()})
}

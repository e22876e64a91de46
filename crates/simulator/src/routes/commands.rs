//! Server commands (section 4.5).

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use http::HeaderMap;
use serde_json::json;

use super::super::answer::Answer;
use super::super::faults::{Distortion, Doom};
use super::super::profile::CommandType;
use super::super::world::{Caller, Shared};
use super::super::{page, rules};
use super::{Outcome, Path};

/// `GET /v3/flexMetal/servers/{uuid}/commands`
pub(super) async fn list(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(distortion): Extension<Distortion>,
    Path(uuid): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Outcome {
    let (world, now) = shared.settled();
    let page = page::OTHERS.read(&headers, &world.switches)?;
    let query = query.unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    let kind = pairs.find(|(name, value)| name == "type" && !value.is_empty());
    let kind = kind.filter(|_| world.switches.command_type == CommandType::Filter);
    let part = (distortion.start(page.start), page.results);
    let kind = kind.as_ref().map(|(_, kind)| kind.as_ref());
    let at = distortion.at(now);
    let records = world.accounts[caller.0].commands(&uuid, kind, part, at, &world.switches)?;
    Ok(Answer::list(records))
}

/// `POST /v3/flexMetal/servers/{uuid}/commands`
pub(super) async fn send(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(Doom(doom)): Extension<Doom>,
    Path(uuid): Path<String>,
    body: Bytes,
) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    let account = &mut world.accounts[caller.0];
    account.find(&uuid, now)?;
    let kind = rules::command(&body, &world.switches)?;
    let (settings, switches) = (&world.settings, &world.switches);
    let mut rng = world.luck.draw();
    let sent = account.command(
        &uuid,
        kind,
        now,
        settings,
        switches,
        &mut rng,
        doom.is_some(),
    )?;
    let record = account.command_record(&uuid, &sent.to_string(), now, switches)?;
    let answer = Answer::one(record, switches);
    Ok(answer.changing(json!({"commanded": uuid, "command": sent.to_string()})))
}

/// `GET /v3/flexMetal/servers/{uuid}/commands/{commandUuid}`
pub(super) async fn get(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(distortion): Extension<Distortion>,
    Path((uuid, command)): Path<(String, String)>,
) -> Outcome {
    let (world, now) = shared.settled();
    let account = &world.accounts[caller.0];
    let record = account.command_record(&uuid, &command, distortion.at(now), &world.switches)?;
    Ok(Answer::one(record, &world.switches))
}

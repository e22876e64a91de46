//! Tags of the account (section 4.6).

use axum::Extension;
use axum::extract::{Path, State};
use http::HeaderMap;
use serde_json::json;

use super::super::answer::{Answer, Refusal};
use super::super::faults::Distortion;
use super::super::page;
use super::super::state::Lens;
use super::super::world::Shared;
use super::Outcome;

/// `GET /v3/flexMetal/tags`
pub(super) async fn list(
    State(shared): State<Shared>,
    Extension(distortion): Extension<Distortion>,
    headers: HeaderMap,
) -> Outcome {
    let (world, now) = shared.settled();
    let page = page::OTHERS.read(&headers, &world.switches)?;
    if distortion.empty {
        return Ok(Answer::list(Vec::new()));
    }
    let lens = Lens {
        at: distortion.at(now),
        lag: world.settings.list_lag,
    };
    let found = world.account.tag_list(lens);
    let shown = found
        .into_iter()
        .skip(distortion.start(page.start))
        .take(page.results);
    Ok(Answer::list(
        shown.map(|tag| world.account.tag_record(tag)).collect(),
    ))
}

/// `GET /v3/flexMetal/tags/{tag}`
pub(super) async fn get(
    State(shared): State<Shared>,
    Extension(distortion): Extension<Distortion>,
    Path(tag): Path<String>,
) -> Outcome {
    let (world, now) = shared.settled();
    if distortion.empty {
        return Err(Refusal::not_found());
    }
    let lens = Lens {
        at: distortion.at(now),
        lag: world.settings.list_lag,
    };
    let record = world.account.tag(&tag, lens)?;
    Ok(Answer::one(record, &world.switches))
}

/// `DELETE /v3/flexMetal/tags/{tag}`
pub(super) async fn delete(State(shared): State<Shared>, Path(tag): Path<String>) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    world.account.delete_tag(&tag, now, &world.switches)?;
    Ok(Answer::empty().changing(json!({"tagDeleted": tag})))
}

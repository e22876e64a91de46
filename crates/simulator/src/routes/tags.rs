//! Tags of the account (section 4.6).

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use http::HeaderMap;
use serde_json::json;

use super::super::answer::{Answer, Refusal};
use super::super::faults::Distortion;
use super::super::state::Lens;
use super::super::world::{Caller, Shared};
use super::super::{page, rules};
use super::{Outcome, Path};

/// `GET /v3/flexMetal/tags`
pub(super) async fn list(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(distortion): Extension<Distortion>,
    headers: HeaderMap,
) -> Outcome {
    let (world, now) = shared.settled();
    let page = page::OTHERS.read(&headers, &world.switches)?;
    let lens = Lens {
        at: distortion.at(now),
        lag: world.settings.list_lag,
    };
    let shown = world.accounts[caller.0]
        .tag_list(lens)
        .skip(distortion.start(page.start))
        .take(page.results);
    Ok(Answer::list(
        shown
            .map(|tag| world.accounts[caller.0].tag_record(tag))
            .collect(),
    ))
}

/// `POST /v3/flexMetal/tags`
pub(super) async fn create(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    let tag = rules::new_tag(&body, &world.switches)?;
    let account = &mut world.accounts[caller.0];
    account.create_tag(&tag, now, &world.switches)?;
    let answer = Answer::one(account.tag_record(&tag), &world.switches);
    Ok(answer.changing(json!({"tagCreated": tag})))
}

/// `PUT /v3/flexMetal/tags/{tag}`
pub(super) async fn rename(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(tag): Path<String>,
    body: Bytes,
) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    let name = rules::new_tag(&body, &world.switches)?;
    let account = &mut world.accounts[caller.0];
    account.rename_tag(&tag, &name, now, &world.switches)?;
    let answer = Answer::one(account.tag_record(&name), &world.switches);
    Ok(answer.changing(json!({"tagRenamed": tag, "to": name})))
}

/// `GET /v3/flexMetal/tags/{tag}`
pub(super) async fn get(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
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
    let record = world.accounts[caller.0].tag(&tag, lens)?;
    Ok(Answer::one(record, &world.switches))
}

/// `DELETE /v3/flexMetal/tags/{tag}`
pub(super) async fn delete(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(tag): Path<String>,
) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    world.accounts[caller.0].delete_tag(&tag, now, &world.switches)?;
    Ok(Answer::empty().changing(json!({"tagDeleted": tag})))
}

//! Servers (section 4.4) and their tags (section 4.6).

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use http::HeaderMap;
use serde_json::json;

use super::super::answer::{Answer, Refusal};
use super::super::faults::Distortion;
use super::super::profile::{ListFilters, Switches};
use super::super::state::{Lens, ListQuery, StatusFilter};
use super::super::world::Shared;
use super::super::{page, rules};
use super::Outcome;

/// `GET /v3/flexMetal/servers`
pub(super) async fn list(
    State(shared): State<Shared>,
    Extension(distortion): Extension<Distortion>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Outcome {
    let (world, now) = shared.settled();
    let page = page::SERVERS.read(&headers, &world.switches)?;
    let query = filters(query.as_deref().unwrap_or_default(), &world.switches)?;
    if distortion.empty {
        return Ok(Answer::list(Vec::new()));
    }
    let lens = Lens {
        at: distortion.at(now),
        lag: world.settings.list_lag,
    };
    let found = world.account.list(&query, lens, &world.switches);
    let shown = found
        .into_iter()
        .skip(distortion.start(page.start))
        .take(page.results);
    let record = |machine: &super::super::state::Machine| {
        machine.record(lens.at, &world.account.catalogue, &world.switches)
    };
    Ok(Answer::list(shown.map(record).collect()))
}

/// Reads `status` (the last one counts) and every `tag`; empty ones are none.
fn filters(query: &str, switches: &Switches) -> Result<ListQuery, Refusal> {
    let mut found = ListQuery::default();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match name.as_ref() {
            _ if value.is_empty() => {}
            "status" => found.status = Some(StatusFilter::read(&value, switches)?),
            "tag" => found.tags.push(value.into_owned()),
            _ => {}
        }
    }
    if switches.list_filters == ListFilters::Required {
        if found.status.is_none() {
            return Err(Refusal::breach("status", "is required"));
        }
        if found.tags.is_empty() {
            return Err(Refusal::breach("tag", "is required"));
        }
    }
    Ok(found)
}

/// `POST /v3/flexMetal/servers`
pub(super) async fn order(State(shared): State<Shared>, body: Bytes) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    let order = rules::order(&body, &world.account.catalogue, &world.switches)?;
    let ordered =
        world
            .account
            .order(now, order, &world.settings, &world.switches, &mut world.rng)?;
    let uuid = ordered.uuid.to_string();
    let answer = one(world, &uuid, now)?;
    Ok(answer.changing(json!({"ordered": uuid})))
}

/// `GET /v3/flexMetal/servers/{uuid}`
pub(super) async fn get(
    State(shared): State<Shared>,
    Extension(distortion): Extension<Distortion>,
    Path(uuid): Path<String>,
) -> Outcome {
    let (world, now) = shared.settled();
    one(&world, &uuid, distortion.at(now))
}

/// `DELETE /v3/flexMetal/servers/{uuid}`
pub(super) async fn release(State(shared): State<Shared>, Path(uuid): Path<String>) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    let lasting = world.settings.release;
    let began = world
        .account
        .release(&uuid, now, lasting, &world.switches)?;
    let answer = one(world, &uuid, now)?;
    Ok(if began {
        answer.changing(json!({"released": uuid}))
    } else {
        answer
    })
}

/// `POST /v3/flexMetal/servers/{uuid}/tag/{tag}`
pub(super) async fn add_tag(
    State(shared): State<Shared>,
    Path((uuid, tag)): Path<(String, String)>,
) -> Outcome {
    rules::tag(&tag)?;
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    let added = world.account.add_tag(&uuid, &tag, now, &world.switches)?;
    let answer = one(world, &uuid, now)?;
    Ok(if added {
        answer.changing(json!({"tagged": uuid, "tag": tag}))
    } else {
        answer
    })
}

/// `DELETE /v3/flexMetal/servers/{uuid}/tag/{tag}`
pub(super) async fn remove_tag(
    State(shared): State<Shared>,
    Path((uuid, tag)): Path<(String, String)>,
) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    let removed = world
        .account
        .remove_tag(&uuid, &tag, now, &world.switches)?;
    let answer = one(world, &uuid, now)?;
    Ok(if removed {
        answer.changing(json!({"untagged": uuid, "tag": tag}))
    } else {
        answer
    })
}

fn one(world: &super::super::world::World, uuid: &str, at: super::super::clock::Moment) -> Outcome {
    let machine = world.account.find(uuid, at)?;
    let record = machine.record(at, &world.account.catalogue, &world.switches);
    Ok(Answer::one(record, &world.switches))
}

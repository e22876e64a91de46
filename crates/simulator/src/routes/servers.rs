//! Servers (section 4.4) and their tags (section 4.6).

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use http::HeaderMap;
use serde_json::json;

use super::super::answer::{Answer, Refusal};
use super::super::clock::Moment;
use super::super::faults::{Distortion, Doom};
use super::super::profile::{ListFilters, Switches, UnknownSshKey};
use super::super::state::{Account, Lens, ListQuery, Machine, StatusFilter};
use super::super::world::{Caller, Shared, World};
use super::super::{page, rules};
use super::{Outcome, Path};

/// `GET /v3/flexMetal/servers`
pub(super) async fn list(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(distortion): Extension<Distortion>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Outcome {
    let (world, now) = shared.settled();
    let page = page::SERVERS.read(&headers, &world.switches)?;
    let query = filters(query.as_deref().unwrap_or_default(), &world.switches)?;
    let lens = Lens {
        at: distortion.at(now),
        lag: world.settings.list_lag,
    };
    let account = &world.accounts[caller.0];
    let again = account.list(&query, lens, &world.switches);
    let again = again.take(usize::from(distortion.twice));
    let shown = again
        .chain(account.list(&query, lens, &world.switches))
        .skip(distortion.start(page.start))
        .take(page.results);
    let record = |machine: &Machine| machine.record(lens.at, &account.catalogue, &world.switches);
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
pub(super) async fn order(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(Doom(doom)): Extension<Doom>,
    body: Bytes,
) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    let account = &mut world.accounts[caller.0];
    let order = rules::order(&body, &account.catalogue, &world.switches)?;
    known_keys(account, &order.keys, &world.switches)?;
    let (settings, switches) = (&world.settings, &world.switches);
    let mut rng = world.luck.draw();
    let ordered = account.order(now, order, settings, switches, &mut rng, doom.as_deref())?;
    let uuid = ordered.uuid.to_string();
    let answer = one(world, caller, &uuid, now)?;
    Ok(answer.changing(json!({"ordered": uuid})))
}

fn known_keys(account: &Account, keys: &[String], switches: &Switches) -> Result<(), Refusal> {
    let unknown = rules::stored_keys(keys).any(|key| !account.stores_key(&key));
    match switches.unknown_ssh_key {
        UnknownSshKey::Refuse422 if unknown => Err(Refusal::breach("sshKey", "no such stored key")),
        _ => Ok(()),
    }
}

/// `PATCH /v3/flexMetal/servers/{uuid}`
pub(super) async fn reinstall(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(Doom(doom)): Extension<Doom>,
    Path(uuid): Path<String>,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    let wipe = wipe_disk(query.as_deref().unwrap_or_default())?;
    let account = &mut world.accounts[caller.0];
    let present = account.find(&uuid, now)?.slug.clone();
    let wanted = rules::reinstall(&body, &present, &account.catalogue, &world.switches)?;
    known_keys(account, &wanted.keys, &world.switches)?;
    let (settings, switches) = (&world.settings, &world.switches);
    let mut rng = world.luck.draw();
    let doomed = doom.is_some();
    let command = account.reinstall(&uuid, wanted, now, settings, switches, &mut rng, doomed)?;
    let answer = one(world, caller, &uuid, now)?;
    let command = command.to_string();
    Ok(answer.changing(json!({"reinstalled": uuid, "command": command, "wipeDisk": wipe})))
}

/// Reads `wipeDisk`; true when absent or empty.
fn wipe_disk(query: &str) -> Result<bool, Refusal> {
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    let given = pairs.find(|(name, value)| name == "wipeDisk" && !value.is_empty());
    match given.as_ref().map(|(_, value)| value.as_ref()) {
        None | Some("true" | "1") => Ok(true),
        Some("false" | "0") => Ok(false),
        Some(_) => Err(Refusal::breach("wipeDisk", "must be true or false")),
    }
}

/// `GET /v3/flexMetal/servers/{uuid}/lshw`
pub(super) async fn lshw(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(uuid): Path<String>,
) -> Outcome {
    let (world, now) = shared.settled();
    let account = &world.accounts[caller.0];
    let record = account.find(&uuid, now)?.lshw(now, &account.catalogue);
    Ok(Answer::one(record, &world.switches))
}

/// `GET /v3/flexMetal/servers/{uuid}/rootPassword`
pub(super) async fn root_password(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(uuid): Path<String>,
) -> Outcome {
    let (world, now) = shared.settled();
    let account = &world.accounts[caller.0];
    let record = account
        .find(&uuid, now)?
        .root_password(now, &account.catalogue);
    let record = record.ok_or_else(Refusal::not_found)?;
    Ok(Answer::one(record, &world.switches))
}

/// `GET /v3/flexMetal/servers/{uuid}`
pub(super) async fn get(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(distortion): Extension<Distortion>,
    Path(uuid): Path<String>,
) -> Outcome {
    let (world, now) = shared.settled();
    one(&world, caller, &uuid, distortion.at(now))
}

/// `DELETE /v3/flexMetal/servers/{uuid}`
pub(super) async fn release(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(uuid): Path<String>,
) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    let lasting = world.settings.release;
    let began = world.accounts[caller.0].release(&uuid, now, lasting, &world.switches)?;
    let answer = one(world, caller, &uuid, now)?;
    Ok(if began {
        answer.changing(json!({"released": uuid}))
    } else {
        answer
    })
}

/// `POST /v3/flexMetal/servers/{uuid}/tag/{tag}`
pub(super) async fn add_tag(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path((uuid, tag)): Path<(String, String)>,
) -> Outcome {
    rules::tag(&tag)?;
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    let added = world.accounts[caller.0].add_tag(&uuid, &tag, now, &world.switches)?;
    let answer = one(world, caller, &uuid, now)?;
    Ok(if added {
        answer.changing(json!({"tagged": uuid, "tag": tag}))
    } else {
        answer
    })
}

/// `DELETE /v3/flexMetal/servers/{uuid}/tag/{tag}`
pub(super) async fn remove_tag(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path((uuid, tag)): Path<(String, String)>,
) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    let removed = world.accounts[caller.0].remove_tag(&uuid, &tag, now, &world.switches)?;
    let answer = one(world, caller, &uuid, now)?;
    Ok(if removed {
        answer.changing(json!({"untagged": uuid, "tag": tag}))
    } else {
        answer
    })
}

fn one(world: &World, caller: Caller, uuid: &str, at: Moment) -> Outcome {
    let machine = world.accounts[caller.0].find(uuid, at)?;
    let record = machine.record(at, &world.accounts[caller.0].catalogue, &world.switches);
    Ok(Answer::one(record, &world.switches))
}

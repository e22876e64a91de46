//! Hosts (section 4.8).

use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use http::HeaderMap;
use rand::RngExt;
use serde_json::{Value, json};

use super::super::answer::{Answer, Refusal};
use super::super::catalogue::Family;
use super::super::clock::Moment;
use super::super::faults::{Distortion, Doom};
use super::super::page::{self, PAGE_TOKEN};
use super::super::profile::{HostPaging, Switches, UnknownSshKey};
use super::super::rules;
use super::super::state::{Outlook, PowerAction};
use super::super::world::{Caller, Shared};
use super::{Outcome, Path};

/// How long a page token is good (our choice).
const TOKEN_FOR: Duration = Duration::from_mins(5);

/// `GET /v3/host`
pub(super) async fn list(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(distortion): Extension<Distortion>,
    headers: HeaderMap,
) -> Outcome {
    let (world, now) = shared.settled();
    let mut page = page::OTHERS.read(&headers, &world.switches)?;
    let tokens = world.switches.host_paging == HostPaging::Token;
    let token = headers.get(PAGE_TOKEN).filter(|_| tokens);
    if let Some(token) = token {
        let text = token.to_str().ok();
        let parts = text.and_then(|text| text.strip_prefix("p-")?.split_once('-'));
        let numbers =
            parts.and_then(|(start, until)| Some((start.parse().ok()?, until.parse().ok()?)));
        let good = numbers.filter(|(_, until): &(usize, u64)| now.unix() < *until);
        let stale = || Refusal::breach("PAGE-TOKEN", "is none of ours, or good no more");
        page.start = good.ok_or_else(stale)?.0;
    }
    if distortion.empty {
        return Ok(Answer::list(Vec::new()));
    }
    let start = distortion.start(page.start);
    let account = &world.accounts[caller.0];
    let (records, more) = account.host_list(start, page.results, distortion.at(now));
    let next = page.start.saturating_add(page.results);
    let until = now.after(TOKEN_FOR);
    let token = (tokens && more).then(|| (format!("p-{next}-{}", until.unix()), until));
    Ok(Answer::list(records).leading_to(token))
}

/// `GET /v3/host/{hostId}`
pub(super) async fn get(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Outcome {
    let (world, now) = shared.settled();
    let record = world.accounts[caller.0].host(&id, now)?;
    Ok(Answer::one(record, &world.switches))
}

/// What every action on power answers (seen in clients).
fn result(word: &str, now: Moment, switches: &Switches) -> Answer {
    Answer::one(json!({"result": word, "timestamp": now.unix()}), switches)
}

fn power(shared: &Shared, caller: Caller, id: &str, action: PowerAction, word: &str) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    world.accounts[caller.0].host_power(id, action, now)?;
    let answer = result("OK", now, &world.switches);
    Ok(answer.changing(json!({"host": id, "power": word})))
}

/// `PUT /v3/host/{hostId}/start`
pub(super) async fn start(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Outcome {
    power(&shared, caller, &id, PowerAction::Start, "start")
}

/// `PUT /v3/host/{hostId}/stop`
pub(super) async fn stop(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Outcome {
    power(&shared, caller, &id, PowerAction::Stop, "stop")
}

/// `PUT /v3/host/{hostId}/restart`
pub(super) async fn restart(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Outcome {
    power(&shared, caller, &id, PowerAction::Restart, "restart")
}

/// `GET /v3/host/{hostId}/status`
pub(super) async fn status(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Outcome {
    let (world, now) = shared.settled();
    let word = world.accounts[caller.0].host_status(&id, now)?;
    Ok(result(word, now, &world.switches))
}

/// `POST /v3/host/{hostId}/os/install`
pub(super) async fn install(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(Doom(doom)): Extension<Doom>,
    Path(id): Path<String>,
    body: Bytes,
) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    let account = &mut world.accounts[caller.0];
    account.host(&id, now)?;
    let mut wanted = rules::host_install(&body, &account.catalogue, &world.switches)?;
    if let Some((name, key)) = &wanted.key {
        let stored = key.parse().is_ok_and(|key| account.stores_key(&key));
        if !stored && world.switches.unknown_ssh_key == UnknownSshKey::Refuse422 {
            return Err(Refusal::breach(*name, "no such stored key"));
        }
    }
    let mut rng = world.luck.draw();
    if wanted.hostname.is_empty() {
        wanted.hostname = format!("Server{:08x}", rng.random::<u32>());
    }
    // The machine's own name is shorter there; the answer keeps the whole one.
    let hostname = wanted.hostname.clone();
    let system = account.catalogue.system_by_id(i64::from(wanted.os));
    if system.is_some_and(|system| system.family == Family::Talos) {
        let label = hostname.split('.').next();
        wanted.hostname = label.unwrap_or_default().to_owned();
    }
    let outlook = Outlook {
        lasting: world.settings.install,
        fails: doom.is_some() || rng.random::<f64>() < world.settings.command_failure_rate,
    };
    account.host_install(&id, &wanted, now, outlook, &world.switches)?;
    // The answer repeats the request, with what was filled in.
    let mut echo = wanted.body;
    if let Value::Object(fields) = &mut echo {
        fields.insert("hostname".to_owned(), json!(hostname));
        fields.entry("quickFormat").or_insert(json!(true));
    }
    let answer = Answer::one(echo, &world.switches);
    Ok(answer.changing(json!({"host": id, "installed": wanted.os})))
}

/// `GET /v3/host/{hostId}/os/installLog`
pub(super) async fn log(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(distortion): Extension<Distortion>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Outcome {
    let (world, now) = shared.settled();
    let page = page::OTHERS.read(&headers, &world.switches)?;
    let lines = world.accounts[caller.0].host_log(&id, distortion.at(now))?;
    let start = distortion.start(page.start);
    let shown = lines.into_iter().skip(start).take(page.results);
    Ok(Answer::list(shown.collect()))
}

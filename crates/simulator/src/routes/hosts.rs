//! Hosts (section 4.8).

use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue};
use rand::RngExt;
use serde_json::{Value, json};

use super::super::answer::{Answer, Onward, Refusal};
use super::super::catalogue::Family;
use super::super::faults::{Distortion, Doom};
use super::super::page::{self, PAGE_TOKEN};
use super::super::profile::{HostPaging, HostStatus, Switches, UnknownSshKey};
use super::super::rules;
use super::super::state::{HostRecord, LabelFilter, Outlook, PowerAction};
use super::super::world::{Caller, Shared};
use super::{Outcome, Path};

/// How long a page token is valid (our choice).
const TOKEN_FOR: Duration = Duration::from_mins(5);

/// The token of the next page: its start, and the filter of the first page, which
/// stays whatever else is asked for.
struct PageToken {
    start: usize,
    until: u64,
    labels: String,
}

impl PageToken {
    fn text(&self) -> String {
        let labels = URL_SAFE_NO_PAD.encode(&self.labels);
        format!("p-{}-{}-{labels}", self.start, self.until)
    }

    fn read(header: &HeaderValue) -> Option<Self> {
        let mut parts = header.to_str().ok()?.strip_prefix("p-")?.splitn(3, '-');
        let start = parts.next()?.parse().ok()?;
        let until = parts.next()?.parse().ok()?;
        let labels = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
        let labels = String::from_utf8(labels).ok()?;
        Some(Self {
            start,
            until,
            labels,
        })
    }
}

/// The query `labels`; the last one counts.
fn labels(query: &str) -> String {
    let pairs = url::form_urlencoded::parse(query.as_bytes());
    let named = pairs.filter(|(name, _)| name == "labels");
    named
        .last()
        .map_or(String::new(), |(_, text)| text.into_owned())
}

/// `GET /v3/host`
pub(super) async fn list(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(distortion): Extension<Distortion>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Outcome {
    let (world, now) = shared.settled();
    let mut page = page::OTHERS.read(&headers, &world.switches)?;
    let tokens = world.switches.host_paging == HostPaging::Token;
    let sent = headers.get(PAGE_TOKEN);
    let mut labels = match sent {
        Some(_) => String::new(),
        None => labels(query.as_deref().unwrap_or_default()),
    };
    if let Some(token) = sent.filter(|_| tokens) {
        let good = PageToken::read(token).filter(|token| now.unix() < token.until);
        let stale = || Refusal::breach("PAGE-TOKEN", "is none of ours, or good no more");
        let token = good.ok_or_else(stale)?;
        page.start = token.start;
        labels = token.labels;
    }
    let filter = LabelFilter::read(&labels)?;
    let start = distortion.start(page.start);
    let account = &world.accounts[caller.0];
    let at = distortion.at(now);
    let (records, more) = account.host_list(&filter, start, page.results, at);
    let until = now.after(TOKEN_FOR);
    let records = records.into_iter();
    let records: Vec<_> = records.map(|one| worded(one, &world.switches)).collect();
    let onward = (tokens && more).then(|| {
        let token = PageToken {
            start: page.start.saturating_add(page.results),
            until: until.unix(),
            labels,
        };
        Onward {
            token: token.text(),
            now,
            until,
        }
    });
    Ok(Answer::list(records).leading_to(onward))
}

/// `GET /v3/host/{hostId}`
pub(super) async fn get(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Outcome {
    let (world, now) = shared.settled();
    let record = world.accounts[caller.0].host(&id, now)?;
    let record = worded(record, &world.switches);
    Ok(Answer::one(record, &world.switches))
}

/// The same record, with the word for power that the switches ask for.
fn worded<'a>(mut record: HostRecord<'a>, switches: &Switches) -> HostRecord<'a> {
    record.status = match (switches.host_status, record.status == "running") {
        (HostStatus::Running, true) => "running",
        (HostStatus::Running, false) => "stopped",
        (HostStatus::On, true) => "on",
        (HostStatus::On, false) => "off",
        (HostStatus::Active, _) => "active",
    };
    record
}

fn power(shared: &Shared, caller: Caller, id: &str, action: PowerAction, word: &str) -> Outcome {
    let (mut world, now) = shared.settled();
    let world = &mut *world;
    world.accounts[caller.0].host_power(id, action, now)?;
    // Seen in clients.
    let result = json!({"result": "OK", "timestamp": now.unix()});
    let answer = Answer::one(result, &world.switches);
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
    for (name, key) in &wanted.keys {
        let stored = key.parse().is_ok_and(|key| account.stores_key(&key));
        if !stored && world.switches.unknown_ssh_key == UnknownSshKey::Refuse422 {
            return Err(Refusal::breach(*name, "no such stored key"));
        }
    }
    let mut rng = world.luck.draw();
    if wanted.hostname.is_empty() {
        wanted.hostname = format!("Server{:08x}", rng.random::<u32>());
    }
    // The machine's own name is shorter; the answer keeps the whole one.
    let hostname = wanted.hostname.clone();
    let system = account.catalogue.system_by_id(i64::from(wanted.os));
    if system.is_some_and(|system| system.family == Family::Talos) {
        let label = hostname.split('.').next();
        wanted.hostname = label.unwrap_or_default().to_owned();
    }
    let outlook = Outlook {
        lasting: world.settings.install,
        fails: doom.is_some() || rng.random::<f64>() < world.settings.command_failure_rate,
        reason: doom,
    };
    account.host_install(&id, &wanted, now, outlook, &world.switches)?;
    // The answer repeats the request, with defaults filled in.
    let mut echo = wanted.body;
    if let Value::Object(fields) = &mut echo {
        fields.insert("hostname".to_owned(), json!(hostname));
        if fields.get("quickFormat").is_none_or(Value::is_null) {
            fields.insert("quickFormat".to_owned(), json!(true));
        }
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

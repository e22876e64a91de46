//! One request from arrival to answer: ledger, faults, key, route.

use std::net::{IpAddr, Ipv4Addr};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, Uri};
use ipnet::IpNet;
use serde_json::{Value, json};

use super::answer::{Answer, Effect, Refusal, code};
use super::clock::real_ms;
use super::faults::{Candidate, Fault, Harm};
use super::keys::key_id;
use super::ledger::{Entry, Outcome};
use super::page::RANGED_DATA;
use super::profile::WrongKey;
use super::rules::MAX_TAGS;
use super::serve::Peer;
use super::strangers::Call;
use super::world::{Caller, Shared, World};
use super::{routes, wire};

/// Name of the header that carries the key.
const PRIVATE_TOKEN: &str = "private-token";
/// Name of the header in which a proxy names its client.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Most bytes of a name, tag or header that the ledger keeps.
const LONGEST_NOTE: usize = 1024;

/// There is no answer: a fault closes the connection, or the change cannot be
/// stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulator closed the connection without an answer")]
pub struct Broken;

/// Handles one request. `body` is the refusal when it could not be read.
///
/// # Errors
/// When a fault closes the connection.
pub(crate) async fn exchange(
    shared: Shared,
    router: Router,
    mut head: Parts,
    body: Result<Bytes, Refusal>,
) -> Result<Response, Broken> {
    head.uri = without_trailing_slash(&head.uri);
    let (seq, harm) = arrive(&shared, &head, body.as_deref().unwrap_or_default());
    let answered = answer(&shared, router, head, body, seq, &harm).await;
    let status = answered
        .as_ref()
        .ok()
        .map(|response| response.status().as_u16());
    shared.lock().ledger.close(seq, status);
    answered
}

async fn answer(
    shared: &Shared,
    router: Router,
    head: Parts,
    body: Result<Bytes, Refusal>,
    seq: u64,
    harm: &Harm,
) -> Result<Response, Broken> {
    wait(harm, true).await;
    if harm.has(&Fault::DropBefore) {
        return Err(Broken);
    }
    let response = match instead(harm, false) {
        Some(response) => response,
        None => serve(shared, router, head, body, seq, harm).await?,
    };
    wait(harm, false).await;
    if harm.has(&Fault::DropAfter) {
        return Err(Broken);
    }
    let response = instead(harm, true).unwrap_or(response);
    Ok(wire::mangle(response, harm).await)
}

/// The answer of the API itself, after all changes are on disk.
async fn serve(
    shared: &Shared,
    router: Router,
    head: Parts,
    body: Result<Bytes, Refusal>,
    seq: u64,
    harm: &Harm,
) -> Result<Response, Broken> {
    let emptied = harm.has(&Fault::EmptyList)
        && head.method == Method::GET
        && routes::is_list(head.uri.path());
    let response = match (admit(shared, &head), body) {
        (Err(refusal), _) => refusal.into_response(),
        (Ok(_), Err(unread)) => unread.into_response(),
        (Ok(caller), Ok(body)) => {
            let sender = Sender::of_change(shared, &head);
            let mut request = Request::from_parts(head, Body::from(body));
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(harm.distortion());
            request.extensions_mut().insert(harm.doom());
            let response = routes::answer(router, request).await;
            if let Some(sender) = sender {
                sender.judge(shared, caller, seq);
            }
            match emptied && response.status().is_success() {
                true => Answer::list(Vec::<Value>::new()).into_response(),
                false => response,
            }
        }
    };
    if let Some(Effect(effect)) = response.extensions().get() {
        shared.lock().ledger.affect(seq, effect.clone());
    }
    shared.on_disk().await?;
    Ok(response)
}

/// Who asks for a change of a whitelist, with an accepted key.
struct Sender {
    key: String,
    from: IpAddr,
}

impl Sender {
    fn of_change(shared: &Shared, head: &Parts) -> Option<Self> {
        let changes = head.method != Method::GET && routes::changes_whitelist(head.uri.path());
        let key = head.headers.get(PRIVATE_TOKEN).filter(|_| changes)?;
        let from = origin(head, &shared.lock().proxies);
        let key = key.to_str().ok()?.to_owned();
        Some(Self { key, from })
    }

    /// Notes it when the change has locked the sender itself out.
    fn judge(&self, shared: &Shared, caller: Caller, seq: u64) {
        let world = &mut *shared.lock();
        if world.admit(&self.key, self.from).is_none()
            && let Some(account) = world.accounts.get(caller.0)
        {
            world
                .strangers
                .locked_out(&account.name, key_id(&self.key), seq);
        }
    }
}

/// Records the request and checks whether a fault hits it.
fn arrive(shared: &Shared, head: &Parts, body: &[u8]) -> (u64, Harm) {
    let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let (method, path) = (head.method.as_str(), head.uri.path());
    let query = head.uri.query().unwrap_or_default();
    let template = routes::template(path);
    let ordering = method == "POST" && template == Some(routes::SERVERS);

    let mut world = shared.lock();
    let at = world.clock.now();
    let from = origin(head, &world.proxies);
    let caller = text(PRIVATE_TOKEN).and_then(|key| world.admit(key, from));
    let account = caller.and_then(|Caller(place)| Some(world.accounts.get(place)?.name.clone()));
    let struck = world.faults.strike(Candidate {
        method,
        path,
        template,
        query,
        body,
        account: account.as_deref(),
    });
    let seq = world.ledger.open(Entry {
        seq: 0,
        real_ms: real_ms(),
        at,
        method: method.to_owned(),
        path: path.to_owned(),
        template,
        query: query.to_owned(),
        ranged_data: text(RANGED_DATA).map(short).map(str::to_owned),
        key_id: text(PRIVATE_TOKEN).map(key_id),
        account,
        status: None,
        outcome: Outcome::Pending,
        effect: None,
        fault: struck
            .as_ref()
            .map(|(id, harm)| json!({"id": id, "fault": harm}).into()),
        order: ordering.then(|| order(body)).flatten().map(Into::into),
    });
    let call = Call {
        seq,
        path,
        template,
        key: text(PRIVATE_TOKEN),
        caller,
    };
    let World {
        strangers,
        keys,
        accounts,
        ..
    } = &mut *world;
    strangers.watch(call, keys, accounts);
    (seq, struck.map(|(_, harm)| harm).unwrap_or_default())
}

/// Name and tags of an order, for the ledger. Nothing else of the body: it may
/// hold secrets.
fn order(body: &[u8]) -> Option<Value> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let name = body.get("name").and_then(Value::as_str).map(short);
    // Tags that no order can have are not kept: the ledger has many lines.
    let tags = body.get("tags").and_then(Value::as_array);
    let tags = tags.map(|tags| {
        let texts = tags.iter().filter_map(Value::as_str);
        texts.take(MAX_TAGS).map(short).collect::<Vec<_>>()
    });
    Some(json!({"name": name, "tags": tags}))
}

/// The part of a text from outside that the ledger keeps.
fn short(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST_NOTE))
        .unwrap_or_default()
}

async fn wait(harm: &Harm, early: bool) {
    let delay = harm.delay(early);
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

/// The answer that a fault gives instead of the real one.
fn instead(harm: &Harm, late: bool) -> Option<Response> {
    let (code, message, retry_after) = harm.0.iter().find_map(|fault| match fault {
        Fault::Refuse { status, message } if !late => Some((*status, message.as_str(), None)),
        Fault::Status {
            code,
            after,
            retry_after,
        } if *after == late => Some((*code, "Injected by a fault rule", *retry_after)),
        _ => None,
    })?;
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Refusal::new(status, code::FAULT, message).into_response();
    if let Some(seconds) = retry_after {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    Some(response)
}

/// The address that the request came from: the peer's, or, if that is a trusted
/// proxy, the last one in `X-Forwarded-For` that is not.
fn origin(head: &Parts, proxies: &[IpNet]) -> IpAddr {
    let peer = head.extensions.get::<Peer>();
    let mut address = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Peer(peer)| *peer);
    let headers = head.headers.get_all(FORWARDED_FOR).iter();
    let named = headers.filter_map(|header| header.to_str().ok());
    let hops: Vec<&str> = named.flat_map(|header| header.split(',')).collect();
    for hop in hops.into_iter().rev() {
        let trusted = proxies.iter().any(|proxy| proxy.contains(&address));
        let Ok(before) = hop.trim().parse::<IpAddr>() else {
            break;
        };
        if !trusted {
            break;
        }
        address = before.to_canonical();
    }
    address
}

fn admit(shared: &Shared, head: &Parts) -> Result<Caller, Refusal> {
    let world = shared.lock();
    let key = head
        .headers
        .get(PRIVATE_TOKEN)
        .and_then(|value| value.to_str().ok());
    // Health is for everybody (seen in clients); it needs no account.
    if head.uri.path() == routes::HEALTH {
        return Ok(Caller(0));
    }
    let from = origin(head, &world.proxies);
    if let Some(caller) = key.and_then(|key| world.admit(key, from)) {
        return Ok(caller);
    }
    let status = match world.switches.wrong_key {
        WrongKey::Answer403 => StatusCode::FORBIDDEN,
        WrongKey::Answer401 => StatusCode::UNAUTHORIZED,
    };
    Err(Refusal::new(
        status,
        code::INVALID_CREDENTIALS,
        "Invalid credentials",
    ))
}

/// Real clients write both forms; both mean the same.
fn without_trailing_slash(uri: &Uri) -> Uri {
    let path = uri.path();
    let bare = path.trim_end_matches('/');
    if bare.len() == path.len() || bare.is_empty() {
        return uri.clone();
    }
    let text = match uri.query() {
        Some(query) => format!("{bare}?{query}"),
        None => bare.to_owned(),
    };
    text.parse().unwrap_or_else(|_| uri.clone())
}

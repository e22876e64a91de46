//! The page for people: machines, what is paid, the latest requests, and
//! buttons for faults and the clock. Rendered here, without scripts.

use std::fmt::Write;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, StatusCode};
use serde_json::json;

use super::super::clock::Moment;
use super::super::ledger::{Outcome, Wanted};
use super::super::state::Machine;
use super::super::world::{Shared, World};

/// Most machines and requests shown.
const ROWS: usize = 50;

const HEAD: &str = "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\">\
<title>Hosting API simulator</title><style>body{font:14px system-ui;margin:2em;max-width:80em}\
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2em .6em;\
border-bottom:1px solid #ddd}form{display:inline}button{margin:.2em}\
.failed{color:#b00}.delivered{color:#070}</style><h1>Hosting API simulator</h1>";

/// Buttons: the name of a fault on the page, and its rule.
const FAULTS: [(&str, &str); 4] = [
    (
        "Lose the next answer",
        r#"{"fault": "dropAfter", "count": 1}"#,
    ),
    (
        "Refuse the next request",
        r#"{"fault": {"status": {"code": 503}}, "count": 1}"#,
    ),
    (
        "Let the next delivery fail",
        r#"{"match": {"method": "POST", "path": "/v3/flexMetal/servers"}, "fault": {"fail": {"message": "Hardware broke"}}, "count": 1}"#,
    ),
    (
        "Throttle the next request",
        r#"{"fault": {"status": {"code": 429, "retryAfter": 5}}, "count": 1}"#,
    ),
];

/// Makes text from outside harmless in HTML.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// `GET /_simulator/`
pub(super) async fn show(State(shared): State<Shared>) -> Html<String> {
    let (world, now) = shared.settled();
    let mut page = HEAD.to_owned();
    // Writing into a text cannot fail.
    let _ = write(&mut page, &world, now);
    Html(page)
}

fn write(page: &mut String, world: &World, now: Moment) -> std::fmt::Result {
    write!(
        page,
        "<p>Virtual time {}, {} times real speed. ",
        now.iso(),
        world.clock.speed()
    )?;
    for (label, seconds) in [("+1 minute", 60), ("+15 minutes", 900), ("+1 day", 86_400)] {
        button(page, "advance", &seconds.to_string(), label)?;
    }
    write!(page, "<p>{} fault rules. ", world.faults.rules().len())?;
    for (place, (label, _)) in FAULTS.iter().enumerate() {
        button(page, "fault", &place.to_string(), label)?;
    }
    button(page, "clear", "1", "Drop all faults")?;
    for account in &world.accounts {
        write!(page, "<h2>Account {}</h2>", escaped(&account.name))?;
        let paying = account.paying(now);
        write!(
            page,
            "<p>Paying for {} machines: {}",
            paying["machines"],
            escaped(&paying["instanceTypes"].to_string())
        )?;
        let all = account.machines();
        write!(page, "<p>{} machines, the latest first", all.len())?;
        page.push_str("<table><tr><th>Name<th>UUID<th>State<th>Next<th>In<th>Power<th>Tags</tr>");
        for machine in all.iter().rev().take(ROWS) {
            row(page, machine, now)?;
        }
        page.push_str("</table>");
    }
    page.push_str(
        "<h2>Latest requests</h2><table><tr><th>No<th>Request<th>Status<th>Account<th>Effect</tr>",
    );
    let wanted = Wanted::default();
    let mut latest: Vec<_> = world.ledger.read(&wanted).rev().take(ROWS).collect();
    latest.sort_by_key(|entry| std::cmp::Reverse(entry.seq));
    for entry in latest {
        let status = match (entry.status, entry.outcome) {
            (Some(status), _) => status.to_string(),
            (None, Outcome::Pending) => "…".to_owned(),
            (None, _) => "no answer".to_owned(),
        };
        let effect = entry
            .effect
            .as_ref()
            .map(|effect| json!(effect).to_string());
        write!(
            page,
            "<tr><td>{}<td>{} {}<td>{status}<td>{}<td>{}</tr>",
            entry.seq,
            escaped(&entry.method),
            escaped(&entry.path),
            escaped(entry.account.as_deref().unwrap_or("nobody")),
            escaped(&effect.unwrap_or_default()),
        )?;
    }
    page.push_str("</table></html>");
    Ok(())
}

fn row(page: &mut String, machine: &Machine, now: Moment) -> std::fmt::Result {
    let status = machine.status().word();
    let next = machine.plan.front();
    write!(
        page,
        "<tr><td>{}<td><code>{}</code><td class=\"{status}\">{status}<td>{}<td>{}<td>{}<td>{}</tr>",
        escaped(&machine.name),
        machine.uuid,
        next.map_or("", |step| step.status.word()),
        next.map_or_else(String::new, |step| format!(
            "{} s",
            step.at.since(now).as_secs()
        )),
        match machine.power(now) {
            Some(true) => "on",
            Some(false) => "off",
            None => "",
        },
        escaped(&machine.tags().join(" ")),
    )
}

fn button(page: &mut String, name: &str, value: &str, label: &str) -> std::fmt::Result {
    write!(
        page,
        "<form method=\"post\" action=\"/_simulator/page\">\
         <button name=\"{name}\" value=\"{value}\">{}</button></form>",
        escaped(label)
    )
}

/// `POST /_simulator/page`: what a button does. Only from the page itself, as
/// any other page in the same browser could send the form too.
pub(super) async fn act(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &http::HeaderValue| value.to_str().ok())
    };
    let own = text(HOST).map(|host| format!("http://{host}"));
    if text(ORIGIN).is_some_and(|origin| Some(origin) != own.as_deref()) {
        return (StatusCode::FORBIDDEN, "not from this page").into_response();
    }
    let mut world = shared.lock();
    for (name, value) in url::form_urlencoded::parse(&body) {
        let number = value.parse::<u32>().unwrap_or_default();
        match name.as_ref() {
            "advance" => world.clock.advance(Duration::from_secs(number.into())),
            "clear" => world.faults.clear(),
            "fault" => {
                let place = usize::try_from(number).unwrap_or(usize::MAX);
                let rule = FAULTS.get(place).map(|(_, rule)| *rule);
                let rule = rule.and_then(|rule| serde_json::from_str(rule).ok());
                let added = rule.map(|rule| world.faults.add(rule));
                if !matches!(added, Some(Ok(_))) {
                    let error = json!({"error": "no such fault"}).to_string();
                    return (StatusCode::BAD_REQUEST, error).into_response();
                }
            }
            _ => {}
        }
    }
    world.settle();
    Redirect::to("/_simulator/").into_response()
}

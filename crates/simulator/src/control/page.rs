//! The page for people as HTML: machines, what is paid, the latest requests,
//! and the buttons. Rendered here, without scripts.

use std::fmt::{Result, Write};
use std::time::Duration;

use serde_json::Value;

use super::super::clock::Moment;
use super::super::ledger::{Entry, Facts, Outcome, Wanted};
use super::super::state::{Account, Machine};
use super::super::world::World;
use super::people::{FAULTS, JUMPS, SPEEDS};

/// Most machines of an account, and most requests, that are shown.
const ROWS: usize = 50;

const HEAD: &str = "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\">\
<title>Hosting API simulator</title><style>body{font:14px system-ui;margin:2em;max-width:90em}\
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2em .6em;\
border-bottom:1px solid #ddd;vertical-align:top}form{display:inline}button{margin:.2em}\
.failed{color:#b00}.delivered{color:#070}</style><h1>Hosting API simulator</h1>";

/// The whole page.
pub(super) fn render(world: &World, now: Moment) -> String {
    let mut page = HEAD.to_owned();
    // Writing into a text cannot fail.
    let _ = write(&mut page, world, now);
    page
}

fn write(page: &mut String, world: &World, now: Moment) -> Result {
    clock(page, world, now)?;
    faults(page, world)?;
    for account in &world.accounts {
        machines(page, account, now)?;
        hosts(page, account, now)?;
    }
    requests(page, world)?;
    page.push_str("</html>");
    Ok(())
}

fn clock(page: &mut String, world: &World, now: Moment) -> Result {
    write!(page, "<p>Virtual time {}, ", now.iso())?;
    match world.clock.speed() {
        0.0 => page.push_str("standing still. "),
        speed => write!(page, "{speed} times real speed. ")?,
    }
    for (label, seconds) in JUMPS {
        button(page, "advance", seconds, label)?;
    }
    for (label, speed) in SPEEDS {
        button(page, "speed", speed, label)?;
    }
    Ok(())
}

fn faults(page: &mut String, world: &World) -> Result {
    let rules = world.faults.rules();
    let spent = rules.iter().filter(|rule| rule.spent()).count();
    write!(page, "<p>{} fault rules, {spent} used up. ", rules.len())?;
    for (place, (label, _)) in FAULTS.iter().enumerate() {
        button(page, "fault", place, label)?;
    }
    button(page, "clear", 1, "Drop all faults")?;
    if rules.is_empty() {
        return Ok(());
    }
    page.push_str("<table class=\"faults\"><tr><th>No<th>Rule<th>Hits<th></tr>");
    for active in rules {
        let rule = serde_json::to_string(active.rule()).unwrap_or_default();
        let (id, hits) = (active.id(), active.applied());
        let over = if active.spent() { ", used up" } else { "" };
        write!(
            page,
            "<tr><td>{id}<td><code>{}</code><td>{hits}{over}<td>",
            escaped(&rule)
        )?;
        button(page, "drop", id, &format!("Drop rule {id}"))?;
        page.push_str("</tr>");
    }
    page.push_str("</table>");
    Ok(())
}

fn machines(page: &mut String, account: &Account, now: Moment) -> Result {
    write!(page, "<h2>Account {}</h2>", escaped(&account.name))?;
    let paying = account.paying(now);
    write!(page, "<p>Paying for {} machines", paying["machines"])?;
    for (kind, bill) in paying["instanceTypes"].as_object().into_iter().flatten() {
        let (machines, hours) = (&bill["machines"], &bill["hours"]);
        write!(page, ", {machines} of {} ({hours} h so far)", escaped(kind))?;
    }
    let all = account.machines();
    write!(page, "<p>{} machines, the latest first", all.len())?;
    page.push_str(
        "<table><tr><th>Name<th>UUID<th>Type<th>State<th>Next<th>In<th>Power<th>Tags</tr>",
    );
    for machine in all.iter().rev().take(ROWS) {
        let kind = account.catalogue.kind(machine.offer.instance_type);
        machine_row(page, machine, kind.map_or("", |kind| &kind.name), now)?;
    }
    page.push_str("</table>");
    Ok(())
}

fn machine_row(page: &mut String, machine: &Machine, kind: &str, now: Moment) -> Result {
    let status = machine.status().word();
    let next = machine.plan.front();
    write!(
        page,
        "<tr><td>{}<td><code>{}</code><td>{}<td class=\"{status}\">{status}<td>{}<td>{}<td>{}<td>{}</tr>",
        escaped(&machine.name),
        machine.uuid,
        escaped(kind),
        next.map_or("", |step| step.status.word()),
        next.map_or_else(String::new, |step| lasting(step.at.since(now))),
        match machine.power(now) {
            Some(true) => "on",
            Some(false) => "off",
            None => "",
        },
        escaped(&machine.tags().join(" ")),
    )
}

/// The dedicated hosts: on-demand machines are in the table above.
fn hosts(page: &mut String, account: &Account, now: Moment) -> Result {
    let all = account.dedicated();
    if all.is_empty() {
        return Ok(());
    }
    write!(page, "<p>{} dedicated hosts", all.len())?;
    page.push_str(
        "<table class=\"hosts\"><tr><th>Id<th>Name<th>Type<th>Power<th>System<th>Installation</tr>",
    );
    for host in all.iter().take(ROWS) {
        let record = account.dedicated_record(host, now);
        let system = account.catalogue.system_by_id(record.os_id.into());
        write!(
            page,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            host.id,
            escaped(&record.live_host_name),
            escaped(record.instance_type),
            record.status,
            escaped(system.map_or("", |system| &system.slug)),
            record.install_status.unwrap_or_default(),
        )?;
    }
    page.push_str("</table>");
    Ok(())
}

fn requests(page: &mut String, world: &World) -> Result {
    page.push_str(
        "<h2>Latest requests</h2><table><tr><th>No<th>Request<th>Status<th>Account<th>Effect</tr>",
    );
    for entry in world.ledger.read(&Wanted::default()).rev().take(ROWS) {
        request_row(page, entry)?;
    }
    page.push_str("</table>");
    Ok(())
}

fn request_row(page: &mut String, entry: &Entry) -> Result {
    let status = match (entry.status, entry.outcome) {
        (Some(status), _) => status.to_string(),
        (None, Outcome::Pending) => "…".to_owned(),
        (None, _) => "no answer".to_owned(),
    };
    write!(
        page,
        "<tr><td>{}<td>{} {}<td>{status}<td>{}<td>{}</tr>",
        entry.seq,
        escaped(&entry.method),
        escaped(&entry.path),
        escaped(entry.account.as_deref().unwrap_or("nobody")),
        escaped(&entry.effect.as_ref().map_or_else(String::new, words)),
    )
}

/// What a request changed, in words: `ordered 0192…`.
fn words(effect: &Facts) -> String {
    let words = effect.fields().map(|(name, value)| match value {
        Value::String(text) => format!("{name} {text}"),
        other => format!("{name} {other}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn lasting(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

fn button(page: &mut String, name: &str, value: impl std::fmt::Display, label: &str) -> Result {
    write!(
        page,
        "<form method=\"post\" action=\"/_simulator/page\">\
         <button name=\"{name}\" value=\"{value}\">{}</button></form>",
        escaped(label)
    )
}

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

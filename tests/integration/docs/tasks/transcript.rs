//! Records events and log lines of a page's run, by object.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::rig::eventually;
use serde_json::Value;
use tokio::time::sleep;

use super::{DemoReader, normalized_text};

/// A log without a new line for this time is complete.
const QUIET: Duration = Duration::from_secs(1);
const QUIET_WITHIN: Duration = Duration::from_secs(60);

/// The start of a page's recording.
pub struct Transcript {
    log: PathBuf,
    /// The size of the log before, in bytes.
    before: usize,
    began: jiff::Timestamp,
}

impl Transcript {
    /// Waits until the log is quiet: the operator logs a change after it writes the status.
    pub async fn begin(folder: &Path) -> Self {
        let log = folder.join("logs/flexmetal-operator.log");
        let before = eventually("the log is quiet", QUIET_WITHIN, async || {
            let before = std::fs::read(&log).unwrap().len();
            sleep(QUIET).await;
            (std::fs::read(&log).unwrap().len() == before).then_some(before)
        })
        .await;
        Self {
            log,
            before,
            began: jiff::Timestamp::now(),
        }
    }

    /// The whole recording as one text.
    pub async fn end(self, reader: &DemoReader) -> String {
        let events = reader
            .run("kubectl get events.v1.events.k8s.io --all-namespaces -o json")
            .await;
        let events: Value = serde_json::from_str(&events).expect("kubectl prints events as JSON");
        let log = std::fs::read(&self.log).unwrap();
        let log = String::from_utf8_lossy(&log[self.before..]).into_owned();
        format!(
            "# Events\n\n{}\n# Log\n\n{}",
            normalized_text::normalize_text(&self.events(&events)) + "\n",
            normalized_text::normalize_text(&lines(&log))
        ) + "\n"
    }

    fn events(&self, list: &Value) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut by_object: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for event in list["items"].as_array().unwrap() {
            let at = text(&event["eventTime"]);
            let is_ours = text(&event["reportingController"]) == "flexmetal-operator";
            if !is_ours
                || at
                    .parse::<jiff::Timestamp>()
                    .is_ok_and(|at| at < self.began)
            {
                continue;
            }
            if is_refused(&text(&event["reason"])) {
                continue;
            }
            let of = &event["regarding"];
            let object = format!(
                "{} {}/{}",
                text(&of["kind"]),
                text(&of["namespace"]),
                text(&of["name"])
            );
            let line = format!(
                "  {} {}: {}",
                text(&event["type"]),
                text(&event["reason"]),
                text(&event["note"])
            );
            by_object.entry(object).or_default().push((at, line));
        }
        let mut shown = String::new();
        for (object, mut events) in by_object {
            events.sort();
            shown += &format!("{object}\n");
            events
                .iter()
                .for_each(|(_, line)| shown += &format!("{line}\n"));
        }
        shown
    }
}

/// The log lines for users, grouped by object, because lines of two objects may come in any order.
fn lines(log: &str) -> String {
    let mut by_object: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for line in log.lines() {
        // Skips the time and the module.
        let Some((level, rest)) = line.split_once(' ').and_then(|(_, rest)| {
            let (level, rest) = rest.trim_start().split_once(' ')?;
            Some((level, rest.split_once(": ")?.1))
        }) else {
            continue;
        };
        if ["INFO", "WARN", "ERROR"].contains(&level) && !is_timing_dependent(rest) {
            let message = &line[line.len() - rest.len()..];
            let lines = by_object.entry(object_of(rest)).or_default();
            // A refused order may be sent again with another tag.
            let is_order = |line: &str| line.starts_with("sending order");
            let is_again = is_order(message) && lines.last().is_some_and(|last| is_order(last));
            if !is_again {
                lines.push(message);
            }
        }
    }
    let mut shown = String::new();
    for (object, lines) in by_object {
        shown += &format!("{object}\n");
        lines
            .iter()
            .for_each(|line| shown += &format!("  {line}\n"));
    }
    shown
}

/// Whether a line depends on the speed of the computer: a temporary reason, a refusal, or a release request, which is
/// sent again until the provider accepts it.
fn is_timing_dependent(line: &str) -> bool {
    field(line, "reason").is_some_and(is_refused)
        || line.contains(" action=\"Report\" ")
        || line.starts_with("release request failed ")
}

/// Whether the provider refused an order, maybe only before the next poll of the catalog.
fn is_refused(reason: &str) -> bool {
    ["Refused", "OrderRefused"].contains(&reason)
}

/// A quoted field of a line.
fn field<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let (_, after) = line.split_once(&format!(" {name}=\""))?;
    Some(after.split_once('"')?.0)
}

/// The object that a line is about, from its fields.
fn object_of(line: &str) -> String {
    match (field(line, "namespace"), field(line, "name")) {
        (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
        _ => "nobody".to_owned(),
    }
}

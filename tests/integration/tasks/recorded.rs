//! What was recorded while a page was played: events of its objects and lines of the log, by object.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Reader, seen};

/// Where the record of a page begins.
pub struct Recorded {
    log: PathBuf,
    /// Bytes of the log that were there before.
    before: usize,
    began: jiff::Timestamp,
}

impl Recorded {
    pub fn begin(folder: &Path) -> Self {
        let log = folder.join("logs/flexmetal-operator.log");
        let before = std::fs::read(&log).unwrap().len();
        Self {
            log,
            before,
            began: jiff::Timestamp::now(),
        }
    }

    /// All of it as one text.
    pub async fn end(self, reader: &Reader) -> String {
        let events = reader
            .run("kubectl get events.v1.events.k8s.io --all-namespaces -o json")
            .await;
        let events: Value = serde_json::from_str(&events).expect("kubectl prints events as JSON");
        let log = std::fs::read(&self.log).unwrap();
        let log = String::from_utf8_lossy(&log[self.before..]).into_owned();
        format!(
            "# Events\n\n{}\n# Log\n\n{}",
            seen::plain(&self.events(&events)) + "\n",
            seen::plain(&lines(&log))
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
            if is_chance(&format!("{} ", text(&event["reason"]))) {
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

/// The lines that a person reads, by object: those of two objects come in any order.
fn lines(log: &str) -> String {
    let mut by_object: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for line in log.lines() {
        // The moment, and the module.
        let Some((level, rest)) = line.split_once(' ').and_then(|(_, rest)| {
            let (level, rest) = rest.trim_start().split_once(' ')?;
            Some((level, rest.split_once(": ")?.1))
        }) else {
            continue;
        };
        if ["INFO", "WARN", "ERROR"].contains(&level) && !is_chance(rest) {
            let told = &line[line.len() - rest.len()..];
            let lines = by_object.entry(object_of(rest)).or_default();
            // One that was refused comes again with another tag, by chance as well.
            let is_order = |line: &str| line.starts_with("sending an order");
            let is_again = is_order(told) && lines.last().is_some_and(|last| is_order(last));
            if !is_again {
                lines.push(told);
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

/// Whether it depends on how fast this machine is that something is told: a reason that an object passes through, and
/// an order that the provider refuses before the catalogue was looked at again.
fn is_chance(told: &str) -> bool {
    let is_refused = ["Refused ", "OrderRefused "]
        .iter()
        .any(|it| told.starts_with(it));
    is_refused || told.contains(" action=\"Report\" ")
}

/// The fields by which a line says whose it is.
fn object_of(line: &str) -> String {
    let field = |name: &str| {
        let (_, after) = line.split_once(&format!(" {name}=\""))?;
        Some(after.split_once('"')?.0)
    };
    match (field("namespace"), field("name")) {
        (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
        _ => "nobody".to_owned(),
    }
}

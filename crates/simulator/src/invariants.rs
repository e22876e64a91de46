//! The judge: finds in the histories of the machines what no user of the API may
//! ever do; `strangers` counts calls with a wrong key.
//!
//! A *mark* is what stands after a prefix but for the last 8 characters, in a
//! tag such as `fmo-order:<44 hex owner><8 hex number>`: it stands for one
//! object of the user, and the whole tag for one order of a machine for it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::clock::Moment;
use super::state::Machine;

/// Characters of the number of an order, at the end of its tag.
const NUMBER: usize = 8;

/// Something that must not have happened.
#[derive(Debug, Serialize, PartialEq)]
#[serde(
    tag = "rule",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub(crate) enum Violation {
    /// Two machines of one mark were live at the same time.
    TwoLiveMachines {
        mark: String,
        machines: [String; 2],
        since: Moment,
    },
    /// One order tag was accepted more than once.
    OrderedTwice { tag: String, machines: Vec<String> },
    /// A machine without a mark was released.
    ReleasedWithoutMark {
        machine: String,
        at: Moment,
        tags: Vec<String>,
    },
    /// Calls with a key that no account has, or with none (`keyId` null).
    ForeignKey {
        key_id: Option<String>,
        /// Number of the first in the ledger.
        first: u64,
        calls: u64,
    },
    /// Changes of a whitelist after which it did not admit their sender any more.
    LockedOut {
        key_id: String,
        /// Number of the first in the ledger.
        first: u64,
        calls: u64,
    },
    /// Calls with a key of `account` about what belongs to `owner`: a
    /// `server`, an `sshKey` or a `host`.
    ForeignResource {
        account: String,
        owner: String,
        kind: &'static str,
        id: String,
        first: u64,
        calls: u64,
    },
}

/// Everything that happened under one mark.
#[derive(Debug, Default, Serialize)]
struct Mark {
    /// Accepted orders: tag, machine, time.
    orders: Vec<Value>,
    /// Machines that ever bore it, in their present state.
    machines: Vec<Value>,
    /// Accepted releases.
    releases: Vec<Value>,
}

/// A time in which a machine was live and bore a mark, from one change of the
/// account to another; open at the end when it still does. Counted in changes
/// and not in time, as a driven clock may stand still between two of them.
#[derive(Clone, Copy, Debug)]
struct Claim {
    machine: Uuid,
    at: Moment,
    from: u64,
    to: Option<u64>,
}

/// The report of `/_simulator/invariants`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) violations: Vec<Violation>,
    marks: BTreeMap<String, Mark>,
}

/// Checks all machines.
pub(crate) fn judge(machines: &[Machine], prefix: &str) -> Report {
    let mut marks: BTreeMap<String, Mark> = BTreeMap::new();
    let mut claims: BTreeMap<&str, Vec<Claim>> = BTreeMap::new();
    let mut orders: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut violations = Vec::new();

    for machine in machines {
        let uuid = machine.uuid;
        let ordered_with = machine.taggings.first().filter(|_| machine.ordered);
        for tag in ordered_with.into_iter().flat_map(|tagging| &tagging.tags) {
            let Some(mark) = mark(tag, prefix) else {
                continue;
            };
            orders.entry(tag).or_default().push(uuid.to_string());
            let order =
                json!({"tag": tag, "machine": uuid.to_string(), "at": machine.created_at()});
            marks.entry(mark.to_owned()).or_default().orders.push(order);
        }
        for mark in ever_borne(machine, prefix) {
            let status = machine.status();
            let now = json!({"machine": uuid.to_string(), "status": status, "live": status.live()});
            marks.entry(mark.to_owned()).or_default().machines.push(now);
            claims
                .entry(mark)
                .or_default()
                .extend(times(machine, mark, prefix));
        }
        for release in &machine.releases {
            let mut borne = release
                .tags
                .iter()
                .filter_map(|tag| mark(tag, prefix))
                .peekable();
            if borne.peek().is_none() {
                let (at, tags) = (release.at, release.tags.clone());
                violations.push(Violation::ReleasedWithoutMark {
                    machine: uuid.to_string(),
                    at,
                    tags,
                });
            }
            for mark in borne {
                let record = json!({"machine": uuid.to_string(), "at": release.at});
                marks
                    .entry(mark.to_owned())
                    .or_default()
                    .releases
                    .push(record);
            }
        }
    }
    for (tag, machines) in orders
        .into_iter()
        .filter(|(_, machines)| machines.len() > 1)
    {
        violations.push(Violation::OrderedTwice {
            tag: tag.to_owned(),
            machines,
        });
    }
    for (mark, claims) in claims {
        violations.extend(overlaps(mark, claims));
    }
    Report { violations, marks }
}

/// The mark in a tag, if it is an order tag. A text that is no longer than a
/// number has none: the whole of it is the mark.
fn mark<'a>(tag: &'a str, prefix: &str) -> Option<&'a str> {
    let text = tag.strip_prefix(prefix).filter(|text| !text.is_empty())?;
    let end = text.len().saturating_sub(NUMBER);
    Some(
        text.get(..end)
            .filter(|mark| !mark.is_empty())
            .unwrap_or(text),
    )
}

fn ever_borne<'a>(machine: &'a Machine, prefix: &str) -> Vec<&'a str> {
    let tags = machine.taggings.iter().flat_map(|tagging| &tagging.tags);
    let mut marks: Vec<&str> = tags.filter_map(|tag| mark(tag, prefix)).collect();
    marks.sort_unstable();
    marks.dedup();
    marks
}

/// When the machine was live and bore the mark.
fn times(machine: &Machine, wanted: &str, prefix: &str) -> Vec<Claim> {
    let steps = machine.history.iter().map(|step| (step.tick, step.at));
    let taggings = machine
        .taggings
        .iter()
        .map(|tagging| (tagging.tick, tagging.at));
    let mut changes: Vec<(u64, Moment)> = steps.chain(taggings).collect();
    changes.sort_unstable();
    let mut claims: Vec<Claim> = Vec::new();
    let mut open = false;
    for (tick, at) in changes {
        let step = machine.history.iter().rev().find(|step| step.tick <= tick);
        let tagging = machine
            .taggings
            .iter()
            .rev()
            .find(|tagging| tagging.tick <= tick);
        let mut tags = tagging.into_iter().flat_map(|tagging| &tagging.tags);
        let held = step.is_some_and(|step| step.status.live())
            && tags.any(|tag| mark(tag, prefix) == Some(wanted));
        if held && !open {
            claims.push(Claim {
                machine: machine.uuid,
                at,
                from: tick,
                to: None,
            });
        } else if open
            && !held
            && let Some(last) = claims.last_mut()
        {
            last.to = Some(tick);
        }
        open = held;
    }
    claims
}

fn overlaps(mark: &str, mut claims: Vec<Claim>) -> Vec<Violation> {
    claims.sort_by_key(|claim| claim.from);
    let mut found = Vec::new();
    for (index, first) in claims.iter().enumerate() {
        for second in claims.iter().skip(index + 1) {
            if first.machine != second.machine && first.to.is_none_or(|to| second.from < to) {
                found.push(Violation::TwoLiveMachines {
                    mark: mark.to_owned(),
                    machines: [first.machine.to_string(), second.machine.to_string()],
                    since: second.at,
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_hash_is_order_tag_without_number() {
        let long = "mine:0123456789abcdef0123456700000001";
        assert_eq!(mark(long, "mine:"), Some("0123456789abcdef01234567"));
        assert_eq!(mark("mine:00000001", "mine:"), Some("00000001"));
        assert_eq!(mark("mine:web-1", "mine:"), Some("web-1"));
        assert_eq!(mark("mine:", "mine:"), None);
        assert_eq!(mark("other:web-1", "mine:"), None);
    }
}

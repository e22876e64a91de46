//! Tests: what kstatus reads in an object for every reason, as `docs/status.md` shows it.

use crate::kinds::{
    Reason,
    conditions::{Type, Wanted},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lab::rig::{Health, health};
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../docs/status.md");

/// Reasons that are never the cause of an object's state: they stand in other conditions than Ready.
const BESIDE: [Reason; 8] = [
    Reason::InSync,
    Reason::PendingChanges,
    Reason::Settled,
    Reason::KeyAccepted,
    Reason::OrphansFound,
    Reason::NoOrphans,
    Reason::NotChecked,
    Reason::EgressCovered,
];

/// One line of a table: a stage of life, the conditions that were decided, and what they read as.
pub(crate) fn row(stage: &str, conditions: &[Wanted], is_deleting: bool) -> String {
    let find = |kind| conditions.iter().find(|c| c.kind == kind);
    let state = |kind| find(kind).map_or("", Wanted::status_word);
    let shown: Vec<Value> = conditions
        .iter()
        .map(|c| json!({"type": c.kind.as_str(), "status": c.status_word()}))
        .collect();
    let mut metadata = json!({"generation": 3});
    if is_deleting {
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    let status = json!({"observedGeneration": 3, "conditions": shown});
    let read = match health(&json!({"metadata": metadata, "status": status})) {
        Health::Current => "Current",
        Health::InProgress => "InProgress",
        Health::Failed => "Failed",
        Health::Terminating => "Terminating",
    };
    let synced = find(Type::Synced).map_or_else(String::new, |c| match c.status {
        Some(true) => "True".to_owned(),
        _ => format!("{}, `{}`", c.status_word(), c.reason),
    });
    format!(
        "| {stage} | `{}` | {} | {} | {} | {synced} | {read} |",
        find(Type::Ready).expect("Ready is always told").reason,
        state(Type::Ready),
        state(Type::Reconciling),
        state(Type::Stalled),
    )
}

/// The same of conditions as they stand in a status.
pub(crate) fn row_of(stage: &str, shown: &[Condition], is_deleting: bool) -> String {
    let types = [Type::Ready, Type::Reconciling, Type::Stalled, Type::Synced];
    let of = |kind: Type| {
        let found = shown.iter().find(|c| c.type_ == kind.as_str())?;
        let reason = Reason::parse(&found.reason)?;
        Some(Wanted::new(kind, found.status == "True", reason, ""))
    };
    let wanted: Vec<Wanted> = types.into_iter().filter_map(of).collect();
    row(stage, &wanted, is_deleting)
}

/// The page has exactly these lines under this heading.
pub(crate) fn assert_documented(heading: &str, rows: &[String]) {
    let (_, section) = PAGE.split_once(&format!("## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let shown: Vec<&str> = section.lines().filter(|l| l.starts_with("| ")).collect();
    // The first is the head of the table.
    let shown = shown.get(1..).unwrap_or_default();
    assert!(
        shown == rows,
        "docs/status.md, {heading}: the table must be\n{}",
        rows.join("\n")
    );
}

#[test]
fn every_reason_is_read_by_somebody() {
    for reason in Reason::ALL {
        let is_cause = PAGE
            .lines()
            .any(|line| line.split('|').nth(2) == Some(&format!(" `{reason}` ")));
        assert_ne!(is_cause, BESIDE.contains(reason), "{reason}");
    }
}

//! Tests: what kstatus reads for every reason, as in `docs/contributing/status.md`, and what users read.

pub(crate) mod words;

use api::{
    Reason,
    conditions::{DesiredCondition, Type},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lab::rig::{Kstatus, health};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../docs/contributing/status.md");

/// Reasons that Ready never has; other conditions have them.
const NOT_IN_READY: [Reason; 4] = [
    Reason::InSync,
    Reason::PendingChanges,
    Reason::PasswordMissed,
    Reason::OrphansFound,
];

/// One line of a table: the case, its conditions, and what kstatus reads.
fn row(reading: &StatusReading) -> String {
    let StatusReading {
        stage,
        conditions,
        is_deleting,
        is_observed,
    } = reading;
    let find = |kind| conditions.iter().find(|c| c.kind == kind);
    let state = |kind| find(kind).map_or("", DesiredCondition::status_word);
    let shown: Vec<Value> = conditions
        .iter()
        .map(|c| json!({"type": c.kind.as_str(), "status": c.status_word()}))
        .collect();
    let mut metadata = json!({"generation": 3});
    if *is_deleting {
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    let observed = if *is_observed { 3 } else { 2 };
    let status = json!({"observedGeneration": observed, "conditions": shown});
    let read = match health(&json!({"metadata": metadata, "status": status})) {
        Kstatus::Current => "Current",
        Kstatus::InProgress => "InProgress",
        Kstatus::Failed => "Failed",
        Kstatus::Terminating => "Terminating",
    };
    let synced = find(Type::Synced).map_or_else(String::new, |c| match c.status {
        Some(true) => "True".to_owned(),
        _ => format!("{}, `{}`", c.status_word(), c.reason),
    });
    let flag = |kind| match find(kind).and_then(|c| c.status) {
        Some(true) => "True",
        _ => "",
    };
    format!(
        "| {stage} | `{}` | {} | {} | {} | {synced} | {} | {} | {read} |",
        find(Type::Ready).expect("Ready is always told").reason,
        state(Type::Ready),
        state(Type::Reconciling),
        state(Type::Stalled),
        flag(Type::Suspended),
        flag(Type::DeletionBlocked),
    )
}

/// A case of a kind: its name, its conditions, whether the object is being deleted, and whether the conditions are of
/// its generation.
pub(crate) struct StatusReading {
    stage: &'static str,
    conditions: Vec<DesiredCondition>,
    is_deleting: bool,
    is_observed: bool,
}

impl StatusReading {
    /// From decided conditions.
    pub(crate) fn new(
        stage: &'static str,
        conditions: &[DesiredCondition],
        is_deleting: bool,
    ) -> Self {
        Self {
            stage,
            conditions: conditions.to_vec(),
            is_deleting,
            is_observed: true,
        }
    }

    /// With the generation that status observed, and the object's generation.
    pub(crate) fn of_generation(self, observed: Option<i64>, generation: Option<i64>) -> Self {
        Self {
            is_observed: observed == generation,
            ..self
        }
    }

    /// From the conditions of a status.
    pub(crate) fn of_status(stage: &'static str, shown: &[Condition], is_deleting: bool) -> Self {
        let types = [
            Type::Ready,
            Type::Reconciling,
            Type::Stalled,
            Type::Synced,
            Type::Suspended,
            Type::DeletionBlocked,
            Type::EgressCovered,
        ];
        let of = |kind: Type| {
            let found = shown.iter().find(|c| c.type_ == kind.as_str())?;
            let reason = Reason::parse(&found.reason)?;
            let status = found.status == "True";
            Some(DesiredCondition::new(
                kind,
                status,
                reason,
                found.message.clone(),
            ))
        };
        let wanted: Vec<DesiredCondition> = types.into_iter().filter_map(of).collect();
        Self::new(stage, &wanted, is_deleting)
    }
}

#[test]
fn every_reason_reads_as_the_page_says() {
    let mut wrong = Vec::new();
    for (heading, readings) in readings_of_every_kind() {
        let mut rows: Vec<String> = Vec::new();
        for reading in readings {
            let row = row(&reading);
            // Two cases may differ only in their messages.
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        let (_, section) = PAGE.split_once(&format!("## {heading}\n")).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let shown: Vec<&str> = section.lines().filter(|l| l.starts_with("| ")).collect();
        // The first line is the head of the table.
        let shown = shown.get(1..).unwrap_or_default();
        if shown != rows {
            let rows = rows.join("\n");
            wrong.push(format!(
                "docs/contributing/status.md, {heading}: the table must be\n{rows}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_reason_is_read_by_somebody() {
    for reason in Reason::ALL {
        let is_in_ready = PAGE
            .lines()
            .any(|line| line.split('|').nth(2) == Some(&format!(" `{reason}` ")));
        assert_ne!(is_in_ready, NOT_IN_READY.contains(reason), "{reason}");
    }
}

/// Users read only these messages, so each says what is wrong and what comes next.
#[test]
fn every_message_of_every_reason_is_for_people() {
    let mut seen = BTreeSet::new();
    let mut complaints = BTreeSet::new();
    for (heading, readings) in readings_of_every_kind() {
        for reading in readings {
            for condition in &reading.conditions {
                seen.insert(condition.reason);
                let found = words::complaints(condition);
                complaints.extend(found.into_iter().map(|why| {
                    let (kind, reason) = (condition.kind.as_str(), condition.reason);
                    let message = &condition.message;
                    format!(
                        "{heading}, {}, {kind} {reason}: {why}: {message}",
                        reading.stage
                    )
                }));
            }
            let same = words::find_repeated_message(&reading.conditions);
            complaints.extend(same.map(|text| format!("{heading}: in three conditions: {text}")));
        }
    }
    let missing = Reason::ALL.iter().filter(|r| !seen.contains(r));
    complaints.extend(missing.map(|reason| format!("no case says {reason}")));
    let complaints: Vec<String> = complaints.into_iter().collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// Every case of every kind, under the heading of its table in `docs/contributing/status.md`.
fn readings_of_every_kind() -> [(&'static str, Vec<StatusReading>); 7] {
    [
        ("Servers", crate::server::decide::tests::readings::every()),
        ("Accounts", crate::account::tests::readings()),
        ("Tags", crate::tag::decide::tests::readings::every()),
        ("SSH keys", crate::ssh_key::decide::tests::readings::every()),
        (
            "Whitelists",
            crate::whitelist::decide::tests::readings::every(),
        ),
        ("Commands", crate::command::decide::tests::readings::every()),
        ("Hosts", crate::host::decide::tests::readings::every()),
    ]
}

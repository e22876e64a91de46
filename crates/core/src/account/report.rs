//! The status and the events that follow from a decision.

use super::{
    decide::AccountDecision,
    facts::{AccountFacts, SecretFact},
};
use crate::report::{EventReason, EventRecord, Severity};
use api::{
    Reason,
    account::AccountStatus,
    conditions::{self, Type},
    records::AccountRecords,
    usage::{UsageReading, UsageStatus},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The status that follows from a decision. A time changes only together with what it is about.
pub fn next_status(
    facts: &AccountFacts,
    decision: &AccountDecision,
    now: Timestamp,
) -> AccountStatus {
    let before = &facts.status;
    let generation = facts.meta.generation;
    let mut conditions = conditions::merge(
        &before.conditions,
        &decision.conditions,
        conditions::Generations::same(generation),
        now,
    );
    // The condition is about a key that may be gone. It stays while the Secret cannot be read.
    let is_read = !matches!(facts.secret, SecretFact::Unread(_));
    let is_set = |kind: Type| decision.conditions.iter().any(|c| c.kind == kind);
    if is_read && !is_set(Type::CandidateAccepted) {
        conditions.retain(|c| c.type_ != Type::CandidateAccepted.as_str());
    }
    let mut next = AccountStatus {
        observed_generation: generation,
        conditions,
        servers: decision.servers.clone().or_else(|| before.servers.clone()),
        users: decision
            .users
            .clone()
            .unwrap_or_else(|| before.users.clone()),
        catalog: (decision.offer.catalog.clone()).or_else(|| before.catalog.clone()),
        usage: usage(facts),
        calls: decision.calls.clone().or_else(|| before.calls.clone()),
        orphans: decision
            .orphans
            .clone()
            .unwrap_or_else(|| before.orphans.clone()),
        verified: (decision.verified.clone()).or_else(|| before.verified.clone()),
        operator_lease: before.operator_lease.clone(),
        ca_bundle: facts.ca_bundle(),
        credentials: (decision.credentials.clone()).or_else(|| before.credentials.clone()),
        pending_acknowledgements: decision.pending.clone(),
        acknowledged: decision.acknowledged.clone(),
        account_id: (decision.account_id.clone()).or_else(|| before.account_id.clone()),
        timing: Some(facts.timing),
        release_limit: decision.release_limit.clone(),
        last_orphan_scan_at: before.last_orphan_scan_at.clone(),
        last_handled_reconcile_at: (decision.handled.clone())
            .or_else(|| before.last_handled_reconcile_at.clone()),
        records: AccountRecords {
            known_servers: decision.known.clone(),
        },
    };
    // The time of a list alone is not worth a write: it is written with the next change.
    if next != *before
        && let Some(age) = facts
            .report
            .as_ref()
            .and_then(|s| s.complete_list.as_ref())
            .map(|list| facts.now.saturating_sub(list.ended))
    {
        let seconds = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
        let ended = Timestamp::from_second(now.as_second().saturating_sub(seconds));
        let ended = ended.ok().map(Time);
        if let Some(servers) = &mut next.servers {
            servers.counted_at.clone_from(&ended);
        }
        next.last_orphan_scan_at = ended;
    }
    next
}

/// The usage as last read. Before the first read of this process, the recorded one.
fn usage(facts: &AccountFacts) -> Option<UsageStatus> {
    if facts.spec.usage != Some(UsageReading::Enabled) {
        return None;
    }
    let read = facts
        .report
        .as_ref()
        .and_then(|report| report.usage.clone());
    match read {
        Some(read) if read.read_at.is_some() || read.error.is_some() => Some(read.to_status()),
        _ => Some(facts.status.usage.clone().unwrap_or_default()),
    }
}

/// Whether only counts and names differ: these change with every server, so their write may wait a little.
pub fn may_wait(before: &AccountStatus, next: &AccountStatus) -> bool {
    let mut same = next.clone();
    same.servers.clone_from(&before.servers);
    same.users.clone_from(&before.users);
    same.catalog.clone_from(&before.catalog);
    same.calls.clone_from(&before.calls);
    same.usage.clone_from(&before.usage);
    same.records
        .known_servers
        .clone_from(&before.records.known_servers);
    same.last_orphan_scan_at
        .clone_from(&before.last_orphan_scan_at);
    // The first known servers may not wait: a search relies on them.
    same == *before
        && (next.records.known_servers.is_empty() || !before.records.known_servers.is_empty())
}

/// The events that go with a status.
pub fn news(
    before: &AccountStatus,
    next: &AccountStatus,
    decision: &AccountDecision,
) -> Vec<EventRecord> {
    let mut news = Vec::new();
    if before.verified.is_some() && before.verified != next.verified {
        let note = match before.account_id == next.account_id {
            true => "Switched to another base URL or key; it shows the same servers",
            false => {
                "Switched to another base URL or key; no recorded server shows that it is of the same account, so it proves nothing about earlier orders and servers"
            }
        };
        news.push(EventRecord {
            severity: Severity::Normal,
            reason: EventReason::KeyAccepted,
            action: "Connect",
            note: note.into(),
        });
    }
    for wanted in &decision.conditions {
        let was = before
            .conditions
            .iter()
            .find(|c| c.type_ == wanted.kind.as_str());
        let is_news = was.is_none_or(|c| c.reason != wanted.reason.as_str());
        let of = |severity, action, note| EventRecord {
            severity,
            reason: wanted.reason.into(),
            action,
            note,
        };
        match wanted.kind {
            Type::Ready if is_news && wanted.reason != Reason::Pending => {
                let severity = match wanted.status {
                    Some(true) => Severity::Normal,
                    _ => Severity::Warning,
                };
                news.push(of(severity, "Check", wanted.message.clone()));
            }
            Type::Suspended
                if wanted.status == Some(true)
                    && !conditions::is_true(&before.conditions, Type::Suspended) =>
            {
                news.push(of(Severity::Normal, "Suspend", wanted.message.clone()));
            }
            Type::CandidateAccepted if is_news && wanted.status.is_some() => {
                let severity = match wanted.status {
                    Some(true) => Severity::Normal,
                    _ => Severity::Warning,
                };
                news.push(of(severity, "Try", wanted.message.clone()));
            }
            Type::OrphansFound if wanted.status == Some(true) && before.orphans != next.orphans => {
                news.push(of(Severity::Warning, "Scan", wanted.message.clone()));
            }
            Type::ReleaseLimitReached if wanted.status == Some(true) && is_news => {
                news.push(of(Severity::Warning, "Wait", wanted.message.clone()));
            }
            _ => {}
        }
    }
    news
}

/// The event of a finalizer that may not be written.
pub fn forbidden(why: &str) -> EventRecord {
    EventRecord {
        severity: Severity::Warning,
        reason: Reason::Pending.into(),
        action: "Wait",
        note: why.to_owned(),
    }
}

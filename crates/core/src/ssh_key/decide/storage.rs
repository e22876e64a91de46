//! Reconciles an SshKey that is not being deleted: uses the key that the account has, or stores it.

use super::{
    super::facts::{ListedKey, ListedKeys, SshKeyFacts},
    NewKey, SHORTLY, SLACK, SshKeyDecision, SshKeyEffect, is_only_blocked, wait_with_reason,
    waiting,
};
use crate::{
    account::view::{AccountView, ListKind},
    backoff::LONGEST_PAUSE,
    explanation::Explanation,
    public_key::{Fingerprint, PublicKey},
    resolved_account::Purpose,
    ssh_key::facts::CallProgress,
    wording::WHEN_RATE_ALLOWS,
};
use api::{Interval, Reason, conditions, ssh_key::StoredKeyAnnotation};
use std::time::Duration;

/// Most stores of a key that no list shows.
const MOST_UNSHOWN: u32 = 3;

pub(super) fn reconcile_key(facts: &SshKeyFacts) -> SshKeyDecision {
    let view = match facts.subject.account.usable(Purpose::Change) {
        Ok(view) => view,
        Err(_) if is_only_blocked(facts) && facts.is_reported_ready() => {
            return SshKeyDecision::unchanged(&facts.subject);
        }
        Err(explanation) => return wait_with_reason(facts, explanation),
    };
    let key = match facts.key() {
        Ok(key) => key,
        Err(why) => {
            let text = format!("spec.publicKey {why}. Delete this SshKey and create it again");
            return wait_with_reason(facts, Explanation::stalled(Reason::InvalidSpec, text));
        }
    };
    let since = facts.since();
    let Some(listed) = facts.listed().filter(|listed| listed.at >= since) else {
        return waiting(facts, view, since);
    };
    let print = key.fingerprint();
    match chosen(facts, &listed) {
        Some(stored) => use_stored(facts, view, &listed, stored, &print),
        None => store(facts, view, &listed, &key, print),
    }
}

/// The stored key that the object uses: the recorded one while it exists, else the oldest.
fn chosen<'a>(facts: &SshKeyFacts, listed: &'a ListedKeys) -> Option<&'a ListedKey> {
    let status = facts.subject.object.status.as_ref();
    let recorded = status.and_then(|s| s.uuid.as_deref()).unwrap_or_default();
    listed.keys.iter().min_by_key(|key| {
        let is_recorded = key.uuid.eq_ignore_ascii_case(recorded);
        let age = key.created_at.unwrap_or(i64::MAX);
        (!is_recorded, age, key.uuid.as_str())
    })
}

/// Reports a stored key as ready. A duplicate after a lost answer is deleted with the object.
fn use_stored(
    facts: &SshKeyFacts,
    view: &AccountView,
    listed: &ListedKeys,
    stored: &ListedKey,
    print: &Fingerprint,
) -> SshKeyDecision {
    let account_id = match facts.subject.account_id() {
        Ok(account_id) => account_id.to_owned(),
        Err(_) if facts.is_reported_ready() => return SshKeyDecision::unchanged(&facts.subject),
        Err(explanation) => {
            return wait_with_reason(facts, explanation)
                .requeue_after(view.times.active_poll_interval);
        }
    };
    if listed.keys.iter().any(|key| key.is_mine) && !facts.subject.has_finalizer() {
        return facts.subject.add_finalizer(SshKeyEffect::AddFinalizer);
    }
    let mut status = facts.subject.status();
    status.uuid = Some(stored.uuid.clone());
    status.fingerprint = Some(print.to_string());
    status.created_by_object = Some(stored.is_mine);
    status.records.account_id = Some(account_id);
    status
        .account_ref
        .get_or_insert_with(|| super::super::facts::account_of(&facts.subject.object));
    let message = match stored.is_mine {
        true => "The key is stored",
        false => {
            "The key was at the provider already and is used; it stays when this object is deleted"
        }
    };
    let next = next_list_time(listed.at, view.times.idle_poll_interval);
    SshKeyDecision::from_status(status)
        .because(Explanation::ready(Reason::Available, message))
        .wanting(ListKind::SshKeys, next)
        .requeue_after(next.saturating_sub(facts.subject.now.mono) + SLACK)
}

/// When an idle object needs the next list. All objects share these times, so one list serves them all.
fn next_list_time(listed_at: Duration, idle: Duration) -> Duration {
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let idle = millis(idle).max(1);
    Duration::from_millis((millis(listed_at) / idle + 1).saturating_mul(idle))
}

/// Stores a missing key, unless an earlier call may have stored it.
fn store(
    facts: &SshKeyFacts,
    view: &AccountView,
    listed: &ListedKeys,
    key: &PublicKey,
    print: Fingerprint,
) -> SshKeyDecision {
    let mut needed = facts.since();
    for call in [facts.store_call, facts.deletion_of_wanted_key()] {
        match call {
            CallProgress::None => {}
            // Only a list after its end shows the outcome. The requeue delay grows with the time waited.
            CallProgress::InFlight(since) => {
                let waited = facts.subject.now.mono.saturating_sub(since);
                return SshKeyDecision::unchanged(&facts.subject)
                    .requeue_after(waited.clamp(SHORTLY, SLACK));
            }
            // A list that began at the same moment may be older.
            CallProgress::Ended(at) => needed = needed.max(at + Duration::from_millis(1)),
        }
    }
    if listed.at < needed {
        return waiting(facts, view, needed);
    }
    let memory = &facts.subject.memory.own;
    let spacing = view.times.absence_check_interval;
    if facts.may_be_sent()
        && let Some(next) = memory.next_absence_check(facts.since(), spacing)
    {
        let text = format!(
            "Not certain whether the key is stored; stored again when the next list, after {}, does not show it either",
            Interval(spacing)
        );
        let decision = match facts.is_reported_ready() {
            // One list without the key is not enough.
            true => SshKeyDecision::unchanged(&facts.subject),
            false => wait_with_reason(facts, Explanation::waits(Reason::OutcomeUnknown, text)),
        };
        return decision
            .wanting(ListKind::SshKeys, next)
            .requeue_after(spacing);
    }
    let account_id = match facts.subject.account_id() {
        Ok(account_id) => account_id.to_owned(),
        Err(explanation) => {
            return wait_with_reason(facts, explanation)
                .requeue_after(view.times.active_poll_interval);
        }
    };
    if memory.unshown >= MOST_UNSHOWN {
        let text = "The provider accepted the key three times and does not list it; nothing more is sent. Check the stored keys at the provider, then create this object again or restart the operator";
        let next = next_list_time(listed.at, view.times.idle_poll_interval);
        let explanation = Explanation::stalled(Reason::ChecksFailed, text);
        return wait_with_reason(facts, explanation).wanting(ListKind::SshKeys, next);
    }
    let decision = match &memory.refused {
        Some(refused) => {
            let text = format!(
                "The provider refuses the key of spec.publicKey; {}. Create a new SshKey with another key",
                refused.message
            );
            let decision =
                wait_with_reason(facts, Explanation::stalled(Reason::RequestRefused, text));
            let rest = (refused.at + LONGEST_PAUSE).saturating_sub(facts.subject.now.mono);
            if !rest.is_zero() {
                return decision.requeue_after(rest);
            }
            decision
        }
        // A new object has no conditions yet, and the answer follows soon.
        None if conditions::is_new(&facts.subject.status().conditions) => {
            SshKeyDecision::unchanged(&facts.subject)
        }
        None => {
            let text = format!("Storing the key {WHEN_RATE_ALLOWS}");
            wait_with_reason(facts, Explanation::waits(Reason::Progressing, text))
        }
    };
    let annotation = StoredKeyAnnotation {
        uid: facts.subject.uid().to_owned(),
        account_id,
    };
    let is_annotated =
        facts.subject.has_finalizer() && facts.own_annotation().as_ref() == Some(&annotation);
    decision.with(SshKeyEffect::Store(Box::new(NewKey {
        name: facts.stored_name(),
        line: key.line(),
        key: print,
        listed_at: listed.at,
        annotation: (!is_annotated).then_some(annotation),
    })))
}

//! Decides the deletion of an SshKey: the policy decides about the stored key, even if other objects refer to it.

use super::{
    super::facts::{ListedKeys, SshKeyFacts},
    SshKeyDecision, SshKeyEffect, wait_with_reason, waiting,
};
use crate::{
    account::view::{AccountView, ListKind},
    explanation::Explanation,
    reconcile::CRD_RETRY,
    resolved_account::Purpose,
};
use api::{Interval, Reason, ssh_key::KeyDeletionPolicy};

/// The remedy for a user who does not want to wait.
const RETAIN: &str = "or set spec.deletionPolicy to Retain";

pub(super) fn decide_deletion(facts: &SshKeyFacts) -> SshKeyDecision {
    if !facts.subject.has_finalizer() {
        return SshKeyDecision::unchanged(&facts.subject);
    }
    let remove_finalizer =
        || SshKeyDecision::unchanged(&facts.subject).with(SshKeyEffect::RemoveFinalizer);
    if facts.policy() == KeyDeletionPolicy::Retain {
        return remove_finalizer();
    }
    match facts.subject.is_crd_deleting() {
        // The CRD is being deleted: the objects end, and the keys stay.
        Ok(true) => return remove_finalizer(),
        Ok(false) => {}
        Err(explanation) => return wait_with_reason(facts, explanation).requeue_after(CRD_RETRY),
    }
    let view = match facts.subject.account.usable(Purpose::End) {
        Ok(view) => view,
        Err(mut explanation) => {
            explanation.message = format!("{}; {RETAIN}", explanation.message);
            return wait_with_reason(facts, explanation);
        }
    };
    let annotation = facts.own_annotation();
    // Without an account ID it is unknown whether this is the account that has the key.
    if let Err(mut explanation) = facts.subject.account_id() {
        explanation.message = format!("{}; {RETAIN}", explanation.message);
        return wait_with_reason(facts, explanation).requeue_after(view.times.active_poll_interval);
    }
    let since = facts.since();
    let Some(listed) = facts.listed().filter(|listed| listed.at >= since) else {
        return waiting(facts, view, since);
    };
    if is_elsewhere(facts, view, &listed) {
        let text = format!(
            "The key was stored in another account than spec.accountRef leads to now. Restore the key and URL of that account, {RETAIN}"
        );
        return wait_with_reason(facts, Explanation::stalled(Reason::AccountChanged, text));
    }
    let Some(key) = listed.keys.iter().find(|key| key.is_mine) else {
        let status = facts.subject.object.status.as_ref();
        let is_expected =
            annotation.is_some() || status.is_some_and(|s| s.created_by_object == Some(true));
        let spacing = view.times.absence_check_interval;
        let next = facts.subject.memory.own.next_absence_check(since, spacing);
        return match next {
            Some(next) if is_expected && !is_known_deleted(facts) => {
                let text = format!(
                    "The provider does not list the stored key; this object ends when the next list, after {}, does not show it either",
                    Interval(spacing)
                );
                wait_with_reason(facts, Explanation::waits(Reason::Progressing, text))
                    .wanting(ListKind::SshKeys, next)
                    .requeue_after(spacing)
            }
            _ => remove_finalizer(),
        };
    };
    if facts.is_shared {
        return remove_finalizer();
    }
    let text = "Deleting the stored key; this object ends once it is gone";
    wait_with_reason(facts, Explanation::waits(Reason::Progressing, text)).with(
        SshKeyEffect::Delete {
            uuid: key.uuid.clone(),
        },
    )
}

/// Whether the key was stored in another account. An account that lists the recorded key is the same one, even if its
/// account ID changed.
fn is_elsewhere(facts: &SshKeyFacts, view: &AccountView, listed: &ListedKeys) -> bool {
    let (Some(annotation), Some(account_id)) = (facts.own_annotation(), &view.account_id) else {
        return false;
    };
    let status = facts.subject.status();
    let recorded = status.uuid.as_deref().unwrap_or_default();
    let mut shown = listed.keys.iter();
    annotation.account_id != *account_id
        && status.records.account_id.as_ref() != Some(account_id)
        && !shown.any(|key| key.uuid.eq_ignore_ascii_case(recorded))
}

/// Whether this process deleted the recorded key, so that no list has to confirm it.
fn is_known_deleted(facts: &SshKeyFacts) -> bool {
    let status = facts.subject.object.status.as_ref();
    status.and_then(|s| s.uuid.as_deref()).is_some_and(|uuid| {
        let mut deleted = facts.subject.memory.own.deleted.iter();
        deleted.any(|(gone, _)| gone.eq_ignore_ascii_case(uuid))
    })
}

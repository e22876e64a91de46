//! A living object: its key is found at the account, or stored there once.

use super::{
    super::facts::{Facts, Key, Listed},
    Decision, Effect, NewKey, SHORTLY, SLACK, hold, is_only_blocked, waiting,
};
use crate::{
    account::view::{List, View},
    account_facts::Purpose,
    backoff::LONGEST_PAUSE,
    cause::Cause,
    public_key::{Fingerprint, PublicKey},
    ssh_key::facts::Posting,
    wording::IN_TURN,
};
use api::{Interval, Reason, conditions, ssh_key::StoredKeyNote};
use std::time::Duration;

/// So often a key is stored that no look shows.
const MOST_UNSHOWN: u32 = 3;

pub(super) fn keep(facts: &Facts) -> Decision {
    let view = match facts.subject.account.usable(Purpose::Change) {
        Ok(view) => view,
        Err(_) if is_only_blocked(facts) && facts.is_told_ready() => {
            return Decision::unchanged(&facts.subject);
        }
        Err(cause) => return hold(facts, cause),
    };
    let key = match facts.key() {
        Ok(key) => key,
        Err(why) => {
            let text = format!("spec.publicKey {why}. Delete this SshKey and create it again");
            return hold(facts, Cause::needs_person(Reason::InvalidSpec, text));
        }
    };
    let since = facts.since();
    let Some(listed) = facts.listed().filter(|listed| listed.at >= since) else {
        return waiting(facts, view, since);
    };
    let print = key.fingerprint();
    match chosen(facts, &listed) {
        Some(stored) => kept(facts, view, &listed, stored, &print),
        None => store(facts, view, &listed, &key, print),
    }
}

/// The stored key that the object stands for: the recorded one while it is there, else the oldest.
fn chosen<'a>(facts: &Facts, listed: &'a Listed) -> Option<&'a Key> {
    let status = facts.subject.object.status.as_ref();
    let recorded = status.and_then(|s| s.uuid.as_deref()).unwrap_or_default();
    listed.keys.iter().min_by_key(|key| {
        let is_recorded = key.uuid.eq_ignore_ascii_case(recorded);
        let age = key.created_at.unwrap_or(i64::MAX);
        (!is_recorded, age, key.uuid.as_str())
    })
}

/// It is there: say so. A second one that a lost answer left is deleted with the object.
fn kept(
    facts: &Facts,
    view: &View,
    listed: &Listed,
    stored: &Key,
    print: &Fingerprint,
) -> Decision {
    let lineage = match facts.subject.lineage() {
        Ok(lineage) => lineage.to_owned(),
        Err(_) if facts.is_told_ready() => return Decision::unchanged(&facts.subject),
        Err(cause) => return hold(facts, cause).again(view.times.active_poll_interval),
    };
    if listed.keys.iter().any(|key| key.is_mine) && !facts.subject.has_finalizer() {
        return facts.subject.holding(Effect::Hold);
    }
    let mut status = facts.subject.status();
    status.uuid = Some(stored.uuid.clone());
    status.fingerprint = Some(print.to_string());
    status.created_by_object = Some(stored.is_mine);
    status.records.account_id = Some(lineage);
    status
        .account_ref
        .get_or_insert_with(|| super::super::facts::account_of(&facts.subject.object));
    let message = match stored.is_mine {
        true => "The key is stored",
        false => {
            "The key was at the provider already and is used; it stays when this object is deleted"
        }
    };
    let next = next_look(listed.at, view.times.idle_poll_interval);
    Decision::of(status)
        .because(Cause::ready(Reason::Available, message))
        .wanting(List::SshKeys, next)
        .again(next.saturating_sub(facts.subject.now.mono) + SLACK)
}

/// When the next look is due at rest. At moments that all objects share, whenever each of them came: one look
/// serves them all.
fn next_look(looked: Duration, idle: Duration) -> Duration {
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let idle = millis(idle).max(1);
    Duration::from_millis((millis(looked) / idle + 1).saturating_mul(idle))
}

/// It is not there: store it, unless a call that may have done so is not settled yet.
fn store(
    facts: &Facts,
    view: &View,
    listed: &Listed,
    key: &PublicKey,
    print: Fingerprint,
) -> Decision {
    let mut needed = facts.since();
    for call in [facts.posting, facts.wanted_leaves()] {
        match call {
            Posting::None => {}
            // No look before its end says what came of it. Whoever waits long asks rarely.
            Posting::InFlight(since) => {
                let waited = facts.subject.now.mono.saturating_sub(since);
                return Decision::unchanged(&facts.subject).again(waited.clamp(SHORTLY, SLACK));
            }
            // One that started in the same moment may be older.
            Posting::Ended(at) => needed = needed.max(at + Duration::from_millis(1)),
        }
    }
    if listed.at < needed {
        return waiting(facts, view, needed);
    }
    let memory = &facts.subject.memory.own;
    let spacing = view.times.absence_check_interval;
    if facts.may_be_sent()
        && let Some(next) = memory.next_proof(facts.since(), spacing)
    {
        let text = format!(
            "Not certain whether the key is stored; stored again when the next list, after {}, does not show it either",
            Interval(spacing)
        );
        let decision = match facts.is_told_ready() {
            // One look that does not show it decides nothing.
            true => Decision::unchanged(&facts.subject),
            false => hold(facts, Cause::waits(Reason::OutcomeUnknown, text)),
        };
        return decision.wanting(List::SshKeys, next).again(spacing);
    }
    let lineage = match facts.subject.lineage() {
        Ok(lineage) => lineage.to_owned(),
        Err(cause) => return hold(facts, cause).again(view.times.active_poll_interval),
    };
    if memory.unshown >= MOST_UNSHOWN {
        let text = "The provider accepted the key three times and does not list it; nothing more is sent. Check the stored keys at the provider, then create this object again or restart the operator";
        let next = next_look(listed.at, view.times.idle_poll_interval);
        let cause = Cause::needs_person(Reason::ChecksFailed, text);
        return hold(facts, cause).wanting(List::SshKeys, next);
    }
    let decision = match &memory.refused {
        Some(refused) => {
            let text = format!(
                "The provider refuses the key of spec.publicKey; {}. Create a new SshKey with another key",
                refused.message
            );
            let decision = hold(facts, Cause::needs_person(Reason::RequestRefused, text));
            let rest = (refused.at + LONGEST_PAUSE).saturating_sub(facts.subject.now.mono);
            if !rest.is_zero() {
                return decision.again(rest);
            }
            decision
        }
        // Nothing was said of a new object, and the answer comes soon.
        None if conditions::is_new(&facts.subject.status().conditions) => {
            Decision::unchanged(&facts.subject)
        }
        None => {
            let text = format!("Storing the key {IN_TURN}");
            hold(facts, Cause::waits(Reason::Progressing, text))
        }
    };
    let note = StoredKeyNote {
        uid: facts.subject.uid().to_owned(),
        account_id: lineage,
    };
    let is_noted = facts.subject.has_finalizer() && facts.note().as_ref() == Some(&note);
    decision.with(Effect::Store(Box::new(NewKey {
        name: facts.stored_name(),
        line: key.line(),
        key: print,
        looked: listed.at,
        note: (!is_noted).then_some(note),
    })))
}

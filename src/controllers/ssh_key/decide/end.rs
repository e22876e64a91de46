//! An object that is being deleted: what it stored goes by policy, once nobody refers to it.

use super::{
    super::facts::{Facts, Key},
    Decision, Effect, SHORTLY, hold, waiting,
};
use crate::{
    account::List,
    controllers::{account_facts::Purpose, cause::Cause, pass::KIND_UNSEEN, stored_keys::KeyUser},
    kinds::{Reason, ssh_key::KeyDeletionPolicy},
};
use std::collections::BTreeSet;

/// So many of those who refer to the key are named.
const MOST_NAMED: usize = 3;

/// What a person can do who does not want to wait.
const LET_STAY: &str = "or set spec.deletionPolicy to Retain to let the stored key stay";

pub(super) fn end(facts: &Facts) -> Decision {
    if !facts.subject.has_finalizer() {
        return Decision::unchanged(&facts.subject);
    }
    let let_go = || Decision::unchanged(&facts.subject).with(Effect::LetGo);
    match facts.subject.kind_goes() {
        // The objects go with their kind, and the keys stay.
        Ok(true) => return let_go(),
        Ok(false) => {}
        Err(cause) => return hold(facts, cause).again(KIND_UNSEEN),
    }
    if facts.policy() == KeyDeletionPolicy::Retain {
        return let_go();
    }
    let view = match facts.subject.account.usable(Purpose::End) {
        Ok(view) => view,
        Err(mut cause) => {
            cause.message = format!("{}; {LET_STAY}", cause.message);
            return hold(facts, cause);
        }
    };
    let note = facts.note();
    if let (Some(note), Some(lineage)) = (&note, &view.lineage)
        && note.lineage != *lineage
    {
        let text = format!(
            "spec.accountRef: the key was stored in another account than the one that this key and URL lead to now; set them back, {LET_STAY}"
        );
        return hold(facts, Cause::needs_person(Reason::AccountChanged, text));
    }
    let since = facts.since();
    let Some(listed) = facts.listed().filter(|listed| listed.at >= since) else {
        return waiting(facts, view, since);
    };
    let mine: Vec<&Key> = listed.keys.iter().filter(|key| key.is_mine).collect();
    if mine.is_empty() {
        let memory = &facts.subject.memory.own;
        let status = facts.subject.object.status.as_ref();
        let is_expected = note.is_some() || status.is_some_and(|s| s.created == Some(true));
        let spacing = view.times.absence_check_interval;
        let next = memory.next_proof(facts.subject.mark().as_str(), since, spacing);
        return match next {
            Some(next) if is_expected && memory.deleted.is_empty() => {
                let text = "the stored key is not shown; the object goes when the next look does not show it either";
                hold(facts, Cause::waits(Reason::Progressing, text))
                    .wanting(List::SshKeys, next)
                    .again(spacing)
            }
            _ => let_go(),
        };
    }
    let Some(users) = &facts.users else {
        return Decision::unchanged(&facts.subject).again(SHORTLY);
    };
    // What another living object stands for is left to it.
    let is_claimed = |key: &Key| {
        let print = key.fingerprint.as_ref();
        print.is_some_and(|print| facts.claimed.contains(print.as_str()))
    };
    let going: Vec<&Key> = mine.into_iter().filter(|key| !is_claimed(key)).collect();
    let Some(first) = going.first() else {
        return let_go();
    };
    let by_uuid = going.iter().flat_map(|key| users.of(&key.uuid));
    let in_use: BTreeSet<&KeyUser> = users.by_name.iter().chain(by_uuid).collect();
    if !in_use.is_empty() {
        let text = format!(
            "the key is deleted once no server refers to it any more; {} do: take it out of their spec.sshKeys, {LET_STAY}",
            named(facts.subject.namespace(), &in_use)
        );
        return hold(facts, Cause::missing(Reason::InUse, text));
    }
    let text = "the stored key is being deleted";
    hold(facts, Cause::waits(Reason::Progressing, text)).with(Effect::Delete {
        uuid: first.uuid.clone(),
    })
}

/// The first few of this namespace by name. What others are called is not for everybody.
fn named(namespace: &str, users: &BTreeSet<&KeyUser>) -> String {
    let own = users.iter().filter(|user| user.namespace == namespace);
    let own: Vec<&str> = own.map(|user| user.name.as_str()).collect();
    let shown = own.len().min(MOST_NAMED);
    let rest = users.len() - shown;
    let names = own[..shown].join(", ");
    match (shown, rest) {
        (0, rest) => format!("{rest} in other namespaces"),
        (_, 0) => names,
        (_, rest) => format!("{names} and {rest} more"),
    }
}

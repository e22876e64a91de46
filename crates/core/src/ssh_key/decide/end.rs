//! An object that is being deleted: what it stored goes by policy, once nobody refers to it.

use super::{
    super::facts::{Facts, Key},
    Decision, Effect, SHORTLY, hold, waiting,
};
use crate::{
    account::view::List, account_facts::Purpose, cause::Cause, pass::KIND_UNSEEN,
    stored_keys::KeyUser,
};
use api::{
    Reason,
    ssh_key::{KeyDeletionPolicy, StoredKeyNote},
};
use std::collections::BTreeSet;

/// So many of those who refer to the key are named.
const MOST_NAMED: usize = 3;

/// What a person can do who does not want to wait.
const LET_STAY: &str =
    "or set spec.deletionPolicy of this SshKey to Retain to let the stored key stay";

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
    // Nothing tells yet whether this is the account that the key was stored in.
    if let Err(mut cause) = facts.subject.lineage() {
        cause.message = format!("{}; {LET_STAY}", cause.message);
        return hold(facts, cause).again(view.times.active_poll_interval);
    }
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
            Some(next) if is_expected && !is_known_deleted(facts, note.as_ref()) => {
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
    if going.is_empty() {
        return let_go();
    }
    // Nor does one hold the object whose namespace is another: nobody here could end that.
    let namespace = facts.subject.namespace();
    let is_used_elsewhere = |key: &&Key| {
        let mut users = users.of(&key.uuid).iter();
        users.any(|user| user.namespace != namespace)
    };
    let (staying, leaving): (Vec<&Key>, Vec<&Key>) = going.into_iter().partition(is_used_elsewhere);
    let Some(first) = leaving.first() else {
        let uuids = staying.iter().map(|key| key.uuid.clone()).collect();
        return Decision::unchanged(&facts.subject).with(Effect::LetStay { uuids });
    };
    let by_uuid = leaving.iter().flat_map(|key| users.of(&key.uuid));
    let in_use: BTreeSet<&KeyUser> = users.by_name.iter().chain(by_uuid).collect();
    if !in_use.is_empty() {
        let (who, done) = match in_use.iter().any(|user| user.is_host) {
            true => ("server or host", "ordered or installed"),
            false => ("server", "ordered"),
        };
        let text = format!(
            "the key is deleted once no {who} of the namespace refers to it and none is being {done}; {}, wait for what is being {done}, {LET_STAY}",
            still_used(&in_use)
        );
        return hold(facts, Cause::missing(Reason::InUse, text));
    }
    let text = "the stored key is being deleted; this object ends once it is gone";
    hold(facts, Cause::waits(Reason::Progressing, text)).with(Effect::Delete {
        uuid: first.uuid.clone(),
    })
}

/// Whether what the object last stored is known to be deleted: then no look has to show that.
fn is_known_deleted(facts: &Facts, note: Option<&StoredKeyNote>) -> bool {
    let status = facts.subject.object.status.as_ref();
    let recorded = status.and_then(|s| Some((s.uuid.as_deref()?, s.fingerprint.as_deref()?)));
    recorded.is_some_and(|(uuid, print)| {
        let mut deleted = facts.subject.memory.own.deleted.iter();
        // One that was noted later may have been stored since.
        note.is_none_or(|note| note.fingerprint == print)
            && deleted.any(|(gone, _)| gone.eq_ignore_ascii_case(uuid))
    })
}

/// Who still uses the key, and what to do about it.
fn still_used(users: &BTreeSet<&KeyUser>) -> String {
    let of = |is_host: bool| -> BTreeSet<&str> {
        let users = users.iter().filter(|user| user.is_host == is_host);
        users.map(|user| user.name.as_str()).collect()
    };
    let servers = still_used_by(
        &of(false),
        [
            "BareMetalServer",
            "or is being ordered",
            "or are being ordered",
        ],
        "take it out of KINDS spec.sshKeys",
    );
    let hosts = still_used_by(
        &of(true),
        [
            "DedicatedHost",
            "or is being installed",
            "or are being installed",
        ],
        "name another one in KINDS spec.install.sshKeyRef, or take spec.install out",
    );
    let all: Vec<String> = servers.into_iter().chain(hosts).collect();
    all.join("; ")
}

/// The same of one kind, where one of it does.
fn still_used_by(
    names: &BTreeSet<&str>,
    [noun, one, many]: [&str; 3],
    remedy: &str,
) -> Option<String> {
    let remedy = |their| remedy.replace("KINDS", their);
    Some(match names.len() {
        0 => return None,
        1 => format!(
            "{noun} {} still uses it {one}: {}",
            named(names),
            remedy("its")
        ),
        _ => format!(
            "{noun}s {} still use it {many}: {}",
            named(names),
            remedy("their")
        ),
    })
}

/// The first few by name. All are of the object's own namespace.
fn named(names: &BTreeSet<&str>) -> String {
    let shown: Vec<&str> = names.iter().take(MOST_NAMED).copied().collect();
    let names_shown = shown.join(", ");
    match names.len() - shown.len() {
        0 => names_shown,
        rest => format!("{names_shown} and {rest} more"),
    }
}

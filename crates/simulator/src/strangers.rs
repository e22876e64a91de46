//! Calls that no client should make: with a key that no account has, without
//! any, about what belongs to another account, or one that locks itself out.

use std::collections::BTreeMap;

use super::invariants::Violation;
use super::keys::{Keys, key_id};
use super::routes;
use super::state::Account;
use super::world::Caller;

/// Most of either sort that are kept: a client goes wrong in few ways, and one that
/// invents keys forever must not fill the memory.
const MOST: usize = 1_000;

/// How often, and the number of the first in the ledger.
#[derive(Clone, Copy, Debug)]
struct Tally {
    first: u64,
    calls: u64,
}

/// All of them since the start; clearing the ledger does not clear them.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    /// By id of the key; `None` is no key at all.
    keys: BTreeMap<Option<String>, Tally>,
    /// By the caller's account, the owner's, and the resource.
    things: BTreeMap<(String, String, Thing), Tally>,
    /// Changes of a whitelist after which it admits the caller no more, by account and id of the key.
    locked_out: BTreeMap<(String, String), Tally>,
}

/// A resource of an account, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Thing {
    kind: &'static str,
    id: String,
}

impl Thing {
    /// The resource that this part of a path names.
    fn of(account: &Account, part: &str, among_hosts: bool) -> Option<Self> {
        let kind = match part.parse() {
            Ok(uuid) => account.owned(&uuid)?,
            Err(_) => {
                let id = part.parse().ok().filter(|_| among_hosts)?;
                account.owns_host(id).then_some("host")?
            }
        };
        let id = part.to_ascii_lowercase();
        Some(Self { kind, id })
    }
}

/// A request, as this module needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) seq: u64,
    pub(crate) path: &'a str,
    pub(crate) template: Option<&'static str>,
    pub(crate) key: Option<&'a str>,
    /// The account of the key, if it may be used.
    pub(crate) caller: Option<Caller>,
}

impl Strangers {
    /// Checks a request as it arrives.
    pub(crate) fn watch(&mut self, call: Call<'_>, keys: &Keys, accounts: &[Account]) {
        // Health is for everybody, and a browser asks for icons.
        if call.template.is_none_or(|path| path == routes::HEALTH) {
            return;
        }
        let caller = call.caller.and_then(|Caller(place)| accounts.get(place));
        match (caller, call.key) {
            (Some(caller), _) => self.meddled(call, &caller.name, accounts),
            // Revoked, or locked out by its whitelist: still the account's own key.
            (None, Some(key)) if keys.knows(key) => {}
            (None, key) => count(&mut self.keys, key.map(key_id), call.seq),
        }
    }

    /// Records a change after which its own key is refused from where it came.
    pub(crate) fn locked_out(&mut self, account: &str, key_id: String, seq: u64) {
        count(&mut self.locked_out, (account.to_owned(), key_id), seq);
    }

    fn meddled(&mut self, call: Call<'_>, caller: &str, accounts: &[Account]) {
        let among_hosts = call.template.is_some_and(routes::names_host);
        for part in call.path.split('/') {
            let others = accounts.iter().filter(|owner| owner.name != caller);
            let mut owned = others.filter_map(|owner| {
                let thing = Thing::of(owner, part, among_hosts)?;
                Some((caller.to_owned(), owner.name.clone(), thing))
            });
            if let Some(thing) = owned.next() {
                count(&mut self.things, thing, call.seq);
            }
        }
    }

    /// The violations by users of an account. A key that became known afterwards is
    /// not foreign.
    pub(crate) fn violations(&self, account: &str, keys: &Keys) -> Vec<Violation> {
        let known = keys.ids();
        let strange = self.keys.iter().filter(|(id, _)| match id {
            Some(id) => !known.contains(id),
            None => true,
        });
        let strange = strange.map(|(id, tally)| Violation::ForeignKey {
            key_id: id.clone(),
            first: tally.first,
            calls: tally.calls,
        });
        let things = self.things.iter();
        let things = things.filter(|((caller, owner, _), _)| caller == account || owner == account);
        let things = things.map(
            |((caller, owner, thing), tally)| Violation::ForeignResource {
                account: caller.clone(),
                owner: owner.clone(),
                kind: thing.kind,
                id: thing.id.clone(),
                first: tally.first,
                calls: tally.calls,
            },
        );
        let locked_out = self.locked_out.iter();
        let locked_out = locked_out.filter(|((of, _), _)| of == account);
        let locked_out = locked_out.map(|((_, key_id), tally)| Violation::LockedOut {
            key_id: key_id.clone(),
            first: tally.first,
            calls: tally.calls,
        });
        strange.chain(things).chain(locked_out).collect()
    }
}

fn count<K: Ord>(tallies: &mut BTreeMap<K, Tally>, key: K, seq: u64) {
    if tallies.len() >= MOST && !tallies.contains_key(&key) {
        return;
    }
    let tally = tallies.entry(key).or_insert(Tally {
        first: seq,
        calls: 0,
    });
    tally.calls += 1;
}

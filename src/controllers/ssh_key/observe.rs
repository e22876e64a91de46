//! Gathers the facts of a key object.

use super::{KeyContext, Shared, account_of};
use crate::account::Account;
use api::SshKey;
use flexmetal_core::ssh_key::facts::{self, SshKeyFacts};
use std::{collections::BTreeMap, sync::Arc};

/// Gathers the facts of an object, and the account to act through, if there is one.
pub(super) async fn observe(
    ctx: &KeyContext,
    shared: &Shared,
    object: Arc<SshKey>,
) -> (SshKeyFacts, Option<Account>) {
    let pinned = facts::account_of(&object);
    let (subject, account) = ctx.subject(object, &pinned).await;
    let list = subject.view().and_then(|view| view.ssh_keys.clone());
    let mut facts = SshKeyFacts {
        shown: list.map(|(at, keys)| (at, shared.key_lists.parse_list(&keys))),
        subject,
        is_shared: false,
        store_call: Default::default(),
        deletions: BTreeMap::new(),
    };
    facts.deletions = shared.posts.list_deletions(facts.connection());
    facts.refresh_memory();
    let own = facts.subject.memory.own.clone();
    ctx.objects
        .remember(facts.subject.uid(), |memory| memory.own = own);
    observe_related(ctx, shared, &mut facts);
    (facts, account)
}

/// Updates what other objects and calls of this process do. Calls nothing.
pub(super) fn observe_related(ctx: &KeyContext, shared: &Shared, facts: &mut SshKeyFacts) {
    let Some(key) = facts.fingerprint() else {
        return;
    };
    facts.store_call = shared.posts.store_progress(facts.connection(), &key);
    let subject = &facts.subject;
    let own = account_of(&subject.object);
    let conflicting_owners = ctx.conflicting_owners(subject.uid(), &own, key.as_str());
    facts.is_shared = conflicting_owners.successor.is_some();
}

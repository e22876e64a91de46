//! Gathers the facts of one pass.

use super::{KeyContext, Shared, account_of};
use crate::account::Account;
use api::SshKey;
use flexmetal_core::ssh_key::facts::{self, Facts};
use std::{collections::BTreeMap, sync::Arc};

/// Gathers the facts about an object, and the account to act through where there is one.
pub(super) async fn observe(
    ctx: &KeyContext,
    shared: &Shared,
    object: Arc<SshKey>,
) -> (Facts, Option<Account>) {
    let pinned = facts::account_of(&object);
    let (subject, account) = ctx.subject(object, &pinned).await;
    let list = subject.view().and_then(|view| view.ssh_keys.clone());
    let mut facts = Facts {
        shown: list.map(|(at, keys)| (at, shared.looks.read(&keys))),
        subject,
        is_shared: false,
        posting: Default::default(),
        leaving: BTreeMap::new(),
    };
    facts.leaving = shared.posts.leaving(facts.connection());
    facts.recall();
    let own = facts.subject.memory.own.clone();
    ctx.objects
        .remember(facts.subject.uid(), |memory| memory.own = own);
    look_around(ctx, shared, &mut facts);
    (facts, account)
}

/// What other objects and other passes of this process do. No call is made.
pub(super) fn look_around(ctx: &KeyContext, shared: &Shared, facts: &mut Facts) {
    let Some(key) = facts.fingerprint() else {
        return;
    };
    facts.posting = shared.posts.of(facts.connection(), &key);
    let subject = &facts.subject;
    let own = account_of(&subject.object);
    let rivals = ctx.rivals(subject.uid(), &own, key.as_str());
    facts.is_shared = rivals.successor.is_some();
}

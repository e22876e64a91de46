//! Gathers the facts of one pass.

use super::{KeyContext, Shared};
use crate::{
    account::Account,
    controllers::values::{ValueError, ValueSource},
    runtime::clock,
};
use api::{Reason, SshKey, references::ValueLocation};
use flexmetal_core::{
    account::key::AccountKey,
    cause::Cause,
    ssh_key::{
        facts::{self, Facts},
        memory::Content,
        public_key::{NoKey, PublicKey},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// The most bytes of what lies elsewhere: a key, and what may stand behind it.
const LONGEST: usize = 65_536;
/// What is read of a Secret while its account is not known.
const REST: Duration = Duration::from_secs(300);

/// Gathers the facts about an object, and the account to act through where there is one.
pub(super) async fn observe(
    ctx: &KeyContext,
    shared: &Shared,
    object: Arc<SshKey>,
) -> (Facts, Option<Account>) {
    let key = match object.metadata.deletion_timestamp {
        None => Some(key(ctx, &object).await),
        Some(_) => None,
    };
    let (subject, account) = ctx
        .subject(object.clone(), &facts::account_of(&object))
        .await;
    let list = subject.view().and_then(|view| view.ssh_keys.clone());
    let mut facts = Facts {
        shown: list.map(|(at, keys)| (at, shared.looks.read(&keys))),
        subject,
        key,
        users: None,
        claimed: BTreeSet::new(),
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
    if let Some(key) = facts.fingerprint() {
        facts.posting = shared.posts.of(facts.connection(), &key);
    }
    let Some(listed) = facts.listed() else { return };
    let mine = listed.keys.iter().filter(|key| key.is_mine);
    let mine: Vec<_> = mine.collect();
    if mine.is_empty() {
        return;
    }
    let subject = &facts.subject;
    let own = AccountKey::of(&facts::account_of(&subject.object), subject.namespace());
    let is_same = |other: &AccountKey| ctx.accounts.is_same(&own, other);
    let is_claimed = |print: &str| {
        let rivals = ctx.rivals(subject.uid(), &own, print);
        rivals.successor.is_some()
    };
    let prints = mine.iter().filter_map(|key| key.fingerprint.as_ref());
    let claimed = prints.map(ToString::to_string).filter(|p| is_claimed(p));
    let claimed = claimed.collect();
    let uuids: Vec<String> = mine.iter().map(|k| k.uuid.to_ascii_lowercase()).collect();
    let (namespace, name) = (subject.namespace(), subject.name());
    // Only what is to go is asked after.
    let is_asked = subject.is_deleting() || mine.len() > 1 || !is_kept(facts, &uuids);
    let users = is_asked
        .then(|| ctx.stored_keys.users(namespace, name, &uuids, &is_same))
        .flatten();
    facts.claimed = claimed;
    facts.users = users;
}

/// Whether the one key that the object stored is the one that it stands for.
fn is_kept(facts: &Facts, uuids: &[String]) -> bool {
    let status = facts.subject.object.status.as_ref();
    let recorded = status.and_then(|s| s.uuid.as_deref()).unwrap_or_default();
    uuids.iter().all(|uuid| uuid.eq_ignore_ascii_case(recorded))
}

/// The key that the object stands for.
async fn key(ctx: &KeyContext, object: &SshKey) -> Result<PublicKey, Cause> {
    if let Some(text) = &object.spec.public_key {
        return PublicKey::parse(text.as_bytes()).map_err(|why| no_key("spec.publicKey", why));
    }
    let Some(place) = &object.spec.value_from else {
        let text = "spec: set exactly one of publicKey and valueFrom";
        return Err(Cause::needs_person(Reason::InvalidSpec, text));
    };
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    let generation = object.metadata.generation;
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let memory = ctx.objects.memory(uid).own;
    let now = clock::now().mono;
    let has_record = |_: &_| ctx.objects.has_record(object);
    let (view, _) = ctx.account_facts(namespace, &facts::account_of(object), has_record);
    let rest = view.view().map_or(REST, |v| v.times.idle_poll_interval);
    if !memory.is_to_read(generation, now, rest)
        && let Some(content) = memory.content
    {
        return content.key;
    }
    let content = Content {
        key: read(ctx, namespace, place).await,
        generation,
        at: clock::now().mono,
    };
    ctx.objects
        .remember(uid, |memory| memory.own.read(content.clone()));
    content.key
}

async fn read(
    ctx: &KeyContext,
    namespace: &str,
    place: &ValueLocation,
) -> Result<PublicKey, Cause> {
    let Some(source) = ValueSource::at(place) else {
        let text = "spec.valueFrom: set exactly one of secretKeyRef and configMapKeyRef";
        return Err(Cause::needs_person(Reason::InvalidSpec, text));
    };
    let field = match source {
        ValueSource::Secret(_) => "spec.valueFrom.secretKeyRef",
        ValueSource::ConfigMap(_) => "spec.valueFrom.configMapKeyRef",
    };
    match ctx.value(namespace, source, LONGEST).await {
        Ok(bytes) => {
            let key = PublicKey::parse(&bytes).map_err(|why| no_key(field, why))?;
            // What stands behind the key there may be anything.
            Ok(key.without_comment())
        }
        Err(why @ ValueError::Unreadable { .. }) => Err(Cause::waits(
            Reason::ReferenceNotFound,
            format!("{field}: {why}"),
        )),
        Err(why @ ValueError::TooLong { .. }) => Err(Cause::needs_person(
            Reason::InvalidSpec,
            format!("{field}: {why}"),
        )),
        Err(why) => Err(Cause::missing(
            Reason::ReferenceNotFound,
            format!("{field}: {why}"),
        )),
    }
}

/// Never holds the text.
fn no_key(field: &str, why: NoKey) -> Cause {
    Cause::needs_person(Reason::InvalidSpec, format!("{field} {why}"))
}

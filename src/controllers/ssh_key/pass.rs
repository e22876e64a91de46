//! One pass over one key object.

use super::{KeyContext, Shared, act::act, observe::observe};
use crate::controllers::{objects::Seen, pass::Next};
use api::{SshKey, conditions::Type};
use flexmetal_core::{
    again::Again,
    report::Severity,
    ssh_key::decide::{decide, turn},
};
use std::sync::Arc;

/// The turns that people wait for or must act on.
const TURNS: [(Type, Severity, &str); 2] = [
    (Type::Ready, Severity::Normal, "Store"),
    (Type::Stalled, Severity::Warning, "Hold"),
];

/// One pass.
pub(super) async fn pass(ctx: Arc<KeyContext>, shared: Shared, seen: Seen<SshKey>) -> Again {
    if let Seen::Gone(last) = &seen {
        let meta = last.meta();
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        ctx.stored_keys.key_changed(namespace, name);
    }
    let object = match ctx.open(seen).await {
        Ok(object) => object,
        Err(again) => return again,
    };
    let (facts, account) = observe(&ctx, &shared, object).await;
    let decision = decide(&facts);
    let subject = &facts.subject;
    let again = match ctx.prepare(subject, account.as_ref(), &decision, turn) {
        Next::Rest(again) => return again,
        Next::Say(again) => again,
        Next::Act(effect, permit) => {
            let (ended, observation) = act(&ctx, &shared, &facts, effect, permit).await;
            return ctx
                .concluded(subject, ended, |memory| memory.note(observation))
                .await;
        }
    };
    let before = ctx.stored_keys.find(subject.namespace(), subject.name());
    let again = ctx.say(subject, &decision, again, &TURNS).await;
    if ctx.stored_keys.find(subject.namespace(), subject.name()) != before {
        ctx.stored_keys
            .key_changed(subject.namespace(), subject.name());
    }
    again
}

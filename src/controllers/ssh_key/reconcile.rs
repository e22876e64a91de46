//! Reconciles one key object.

use super::{KeyContext, Shared, account_of, act::act, observe::observe};
use crate::controllers::{
    objects::{ObservedObject, WorkItem},
    reconcile::Next,
};
use api::{SshKey, conditions::Type};
use flexmetal_core::{
    report::{EventReason, EventRecord, Severity},
    requeue::Requeue,
    ssh_key::decide::{decide, permit_for},
    stored_keys::still_referring,
};
use std::sync::Arc;

/// The conditions whose changes become events.
const REPORTED_CONDITIONS: [(Type, Severity, &str); 4] = [
    (Type::Ready, Severity::Normal, "Store"),
    (Type::Stalled, Severity::Warning, "Wait"),
    (Type::DeletionBlocked, Severity::Warning, "Wait"),
    (Type::Suspended, Severity::Normal, "Suspend"),
];

/// Handles one work item.
pub(super) async fn reconcile(
    ctx: Arc<KeyContext>,
    shared: Shared,
    seen: WorkItem<SshKey>,
) -> Requeue {
    if let WorkItem::Gone(last) = &seen {
        let meta = last.meta();
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        ctx.stored_keys.key_changed(namespace, name);
        if let ObservedObject::Decoded(object) = last {
            report_referrers(&ctx, object).await;
        }
    }
    let object = match ctx.check_work_item(seen).await {
        Ok(object) => object,
        Err(again) => return again,
    };
    let (facts, account) = observe(&ctx, &shared, object).await;
    let decision = decide(&facts);
    let subject = &facts.subject;
    let again = match ctx.prepare(subject, account.as_ref(), &decision, permit_for) {
        Next::Requeue(again) => return again,
        Next::Report(again) => again,
        Next::Act(effect, permit) => {
            let asked = account.as_ref().filter(|_| permit.is_some());
            let acting = act(&ctx, &shared, &facts, effect, permit);
            let (ended, observation) =
                Box::pin(ctx.await_effect(&*subject.object, asked, acting)).await;
            return ctx
                .finish_effect(subject, ended, |memory| {
                    memory.record_observation(observation)
                })
                .await;
        }
    };
    let before = ctx.stored_keys.find(subject.namespace(), subject.name());
    let again = ctx
        .report_status(subject, &decision, again, &REPORTED_CONDITIONS)
        .await;
    if ctx.stored_keys.find(subject.namespace(), subject.name()) != before {
        ctx.stored_keys
            .key_changed(subject.namespace(), subject.name());
    }
    again
}

/// Publishes one event that names the objects still referring to a deleted key. Its deletion does not wait for them.
async fn report_referrers(ctx: &KeyContext, object: &SshKey) {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let name = object.metadata.name.as_deref().unwrap_or_default();
    if !ctx.may_act() {
        return;
    }
    let own = account_of(object);
    let uuid = object.status.as_ref().and_then(|s| s.uuid.as_deref());
    let is_same = |other: &_| ctx.accounts.is_same(&own, other);
    let users = ctx.stored_keys.users(namespace, name, uuid, &is_same);
    if let Some(note) = still_referring(namespace, &users) {
        let news = EventRecord {
            severity: Severity::Warning,
            reason: EventReason::StillReferenced,
            action: "Delete",
            note,
        };
        ctx.publish(object, news).await;
    }
}

//! One reconcile of one account object.

use super::{
    act::{self, FinalizerTarget},
    memory::AccountMemory,
    object::{self, AccountObject},
    observe::{GatheredAccountFacts, observe},
    operator,
    secret::Secrets,
};
use crate::{
    account::AccountSettings,
    controllers::{
        context::Context,
        objects::{ObservedObject, WorkItem},
        report::Reported,
        writes::ApiServerError,
    },
    runtime::clock,
};
use api::{Reason, usage::UsageReading};
use flexmetal_core::{
    account::{
        decide::{AccountDecision, LONGEST_WRITE_PAUSE, decide},
        facts::AccountFacts,
        report,
    },
    requeue::Requeue,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{ResourceExt as _, core::error_boundary::InvalidObject};
use std::{sync::Arc, time::Duration};

/// Maximum delay of a status update that changes only counts.
const COUNTS: Duration = Duration::from_secs(10);

/// The context in which both kinds of account are reconciled.
pub(super) type AccountContext<K> = Context<K, AccountMemory>;

/// Reconciles one work item.
pub(super) async fn reconcile<K: AccountObject>(
    ctx: Arc<AccountContext<K>>,
    secrets: Arc<Secrets>,
    seen: WorkItem<K>,
) -> Requeue {
    match seen {
        WorkItem::Object(object) => {
            let uid = object.uid().unwrap_or_default();
            let mut memory = ctx.objects.memory(&uid);
            let again = match ctx.leadership.unbroken_since() {
                Some(term) => serve(&ctx, &secrets, &mut memory, &object, term).await,
                None => pause_as_standby(&ctx, &mut memory, &object),
            };
            ctx.objects.remember(&uid, |kept| *kept = memory);
            again
        }
        WorkItem::Undecodable(object) => match ctx.requeue_if_standby() {
            Some(again) => again,
            None => undecodable(&ctx, &object).await,
        },
        WorkItem::Gone(last) => forget(&ctx, &secrets, last.meta()).await,
    }
}

/// A standby writes, reports and calls nothing: both processes share one call limit of the account. Work whose permits
/// were granted still finishes.
fn pause_as_standby<K: AccountObject>(
    ctx: &AccountContext<K>,
    memory: &mut AccountMemory,
    object: &Arc<K>,
) -> Requeue {
    let (key, uid) = (
        object::key::<K>(object.meta()),
        object.uid().unwrap_or_default(),
    );
    object::announce(&ctx.accounts, &ObservedObject::Decoded(object.clone()));
    ctx.accounts.stop_serving(&key, &uid);
    *memory = AccountMemory::default();
    ctx.requeue_if_standby().unwrap_or(Requeue::Now)
}

async fn serve<K: AccountObject>(
    ctx: &AccountContext<K>,
    secrets: &Secrets,
    memory: &mut AccountMemory,
    object: &Arc<K>,
    term: Duration,
) -> Requeue {
    object::announce(&ctx.accounts, &ObservedObject::Decoded(object.clone()));
    match operator::claim(ctx, memory, object, term).await {
        Some(again) => again,
        None => reconcile_account(ctx, secrets, memory, object).await,
    }
}

async fn reconcile_account<K: AccountObject>(
    ctx: &AccountContext<K>,
    secrets: &Secrets,
    memory: &mut AccountMemory,
    object: &Arc<K>,
) -> Requeue {
    let generation = object.meta().generation;
    if memory.generation != generation {
        // Only after a spec change by a user: our own status updates would cause a loop.
        memory.generation = generation;
        memory.recheck_interval.reset();
        memory.forget_inputs();
        memory.trials.try_again();
        ctx.accounts.probe_now(&object::key::<K>(object.meta()));
    }
    let GatheredAccountFacts { facts, connection } = observe(ctx, secrets, memory, &**object).await;
    let decision = decide(&facts);
    memory
        .grace
        .record_awaited(decision.grace_reason, facts.now);
    let is_new = connection.is_some();
    let uid = object.uid().unwrap_or_default();
    let settings = settings(&facts, &decision, &**object);
    ctx.accounts
        .configure(&facts.key, &uid, settings, connection);
    if let Some(has_finalizers) = decision.has_finalizers {
        ctx.accounts
            .set_finalizers(&facts.key, &uid, has_finalizers);
    }
    if let Some(not_before) = decision.wants_complete_list
        && let Some(account) = ctx.accounts.get(&facts.key)
    {
        account.request_complete_list(&uid, not_before);
    }
    let handled = facts.status.last_handled_reconcile_at.as_deref();
    if let Some((_, since)) = facts.request.unhandled(handled)
        && let Some(account) = ctx.accounts.get(&facts.key)
    {
        account.request_retry(since);
    }
    if let Some(not_before) = decision.wants_catalogue
        && let Some(account) = ctx.accounts.get(&facts.key)
    {
        account.refresh_catalogue(not_before);
    }
    if is_new {
        // The next decision needs what the new connection shows.
        ctx.accounts.probe_now(&facts.key);
        memory.inputs_age = Duration::from_secs(1);
        return Requeue::Now;
    }
    if let Some(effect) = &decision.effect
        && still_unused(ctx, &facts)
        && ctx
            .retry_after(memory.backoff.remaining(facts.now))
            .is_none()
    {
        let target = FinalizerTarget {
            object,
            secret_namespace: &facts.secret_namespace,
            secret: &facts.spec.api_key_secret_ref.name,
        };
        tracing::debug!(account = %facts.key, effect = effect.as_str(), "writing finalizer");
        let written = act::act(ctx, &target, effect).await;
        return settle(ctx, memory, object, &facts, written).await;
    }
    let again = report_status(ctx, memory, object, &facts, &decision).await;
    match (memory.backoff.remaining(facts.now), again) {
        (Some(rest), Requeue::After(delay)) => Requeue::After(delay.min(rest)),
        (_, again) => again,
    }
}

/// The settings of the live account.
fn settings<K: AccountObject>(
    facts: &AccountFacts,
    decision: &AccountDecision,
    object: &K,
) -> AccountSettings {
    AccountSettings {
        block: decision.block.clone(),
        no_orders: decision.no_orders.clone(),
        allowed: object.allowed().map(<[_]>::to_vec),
        times: facts.times(),
        limits: facts.spec.limits.clone(),
        defaults: Some(facts.spec.defaults.unwrap_or_default()),
        install_form: facts.spec.host_install_form.unwrap_or_default(),
        release_limit: facts.spec.release_limit.map(|limit| {
            let counted = facts.status.release_limit.clone();
            (limit, counted.unwrap_or_default())
        }),
        egress: facts.spec.egress_cidrs.clone(),
        reads_usage: facts.spec.usage == Some(UsageReading::Enabled),
        known: decision.known.clone(),
        account_id: decision.account_id_in_force.clone(),
    }
}

/// Last check before a finalizer is removed: an object created meanwhile keeps it. `set_finalizers` blocks orders, so
/// none starts between this check and the write.
fn still_unused<K: AccountObject>(ctx: &AccountContext<K>, facts: &AccountFacts) -> bool {
    (facts.users != Some(0)) || ctx.accounts.users(&facts.key) == Some(0)
}

/// Records the result of an effect, and returns when to reconcile again.
async fn settle<K: AccountObject>(
    ctx: &AccountContext<K>,
    memory: &mut AccountMemory,
    object: &Arc<K>,
    facts: &AccountFacts,
    written: Result<bool, ApiServerError>,
) -> Requeue {
    memory.forget_inputs();
    memory.inputs_age = Duration::from_secs(1);
    let failure = match written {
        Ok(true) => {
            memory.backoff.reset();
            memory.failure = None;
            return Requeue::Now;
        }
        // Two conflicting writers must not loop without a delay.
        Ok(false) => {
            return Requeue::After(memory.backoff.fail(clock::now().mono, LONGEST_WRITE_PAUSE));
        }
        Err(failure) => failure,
    };
    let cause = act::explain(&failure);
    if matches!(failure.code(), Some(404 | 409)) {
        tracing::debug!(account = %facts.key, cause, "finalizer write conflict");
        let _ = ctx.read_object(&**object).await;
    } else {
        tracing::warn!(account = %facts.key, cause, "finalizer write failed");
        if failure.code() == Some(403) {
            ctx.publish(&**object, report::forbidden(&cause)).await;
        }
        memory.failure = Some(cause);
    }
    Requeue::After(memory.backoff.fail(clock::now().mono, LONGEST_WRITE_PAUSE))
}

/// Updates the status, unless the update may wait.
async fn report_status<K: AccountObject>(
    ctx: &AccountContext<K>,
    memory: &mut AccountMemory,
    object: &Arc<K>,
    facts: &AccountFacts,
    decision: &AccountDecision,
) -> Requeue {
    let again = memory.recheck_interval.next_interval(
        decision.recheck_reason,
        decision.requeue_after,
        facts.now,
    );
    // Slightly less, so that the next reconcile reads them again.
    memory.inputs_age = again.mul_f64(0.9);
    let now = Timestamp::from_second(clock::now().wall).unwrap_or_default();
    let next = report::next_status(facts, decision, now);
    if next == facts.status {
        memory.offered = decision.offer.read_at;
        return Requeue::After(again);
    }
    if report::may_wait(&facts.status, &next)
        && let Some(written) = memory.written
    {
        let pause = COUNTS.min(facts.times().active_poll_interval);
        let rest = (written + pause).saturating_sub(facts.now);
        if !rest.is_zero() {
            return Requeue::After(again.min(rest));
        }
    }
    let news = report::news(&facts.status, &next, decision);
    match ctx.report(object, &next, |_, _| news).await {
        Reported::Stale => Requeue::Now,
        Reported::Later(_) if ctx.is_shutting_down() => Requeue::Backoff,
        Reported::Later(rest) => Requeue::After(again.min(rest)),
        Reported::Unchanged | Reported::Written => {
            memory.written = Some(facts.now);
            memory.offered = decision.offer.read_at;
            let before = &facts.status;
            let is_another = next.calls != before.calls || next.catalog != before.catalog;
            if is_another {
                memory.figures_written = Some(facts.now);
            }
            // Orders wait until status records the account ID.
            match decision.account_id {
                Some(_) => Requeue::Now,
                None => Requeue::After(again),
            }
        }
    }
}

/// The object does not decode: block whatever depends on it.
async fn undecodable<K: AccountObject>(ctx: &AccountContext<K>, object: &InvalidObject) -> Requeue {
    let (message, again) = ctx.report_undecodable(object).await;
    object::announce(
        &ctx.accounts,
        &ObservedObject::<K>::Undecodable(Arc::new(object.clone())),
    );
    let key = object::key::<K>(&object.metadata);
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    let settings = AccountSettings::blocked(Reason::InvalidSpec, format!("{key}: {message}"));
    ctx.accounts
        .set_served(&key, uid, ctx.leadership.unbroken_since());
    ctx.accounts.configure(&key, uid, settings, None);
    again
}

/// The object is deleted. If a user removed its finalizer by hand, the Secret still has one.
async fn forget<K: AccountObject>(
    ctx: &AccountContext<K>,
    secrets: &Secrets,
    meta: &ObjectMeta,
) -> Requeue {
    let key = object::key::<K>(meta);
    let uid = meta.uid.as_deref().unwrap_or_default();
    ctx.accounts.remove(&key, uid);
    ctx.metrics.remove_account(&key.label());
    if ctx.is_shutting_down() || secrets.awaits_successor(&ctx.accounts, &key) {
        return Requeue::Backoff;
    }
    secrets.forget(uid);
    if !ctx.may_act() || ctx.read_only {
        // The leader does this, unless it is read-only.
        return Requeue::After(Duration::ZERO);
    }
    let annotations = meta.annotations.iter().flatten();
    let annotations = annotations.filter(|(name, _)| *name == api::names::SECRET_WITH_FINALIZER);
    for (_, secret) in annotations {
        let namespace = object::secret_namespace(&key, &ctx.namespace);
        let Some(is_shared) = secrets.is_shared(&ctx.accounts, uid, &namespace, secret) else {
            return Requeue::Backoff;
        };
        if !is_shared && let Err(failure) = act::remove_from_secret(ctx, &namespace, secret).await {
            tracing::warn!(
                account = %key,
                secret,
                cause = act::explain(&failure),
                "finalizer removal failed"
            );
            return Requeue::Backoff;
        }
    }
    Requeue::After(Duration::ZERO)
}

//! The loop of one account object.

use super::{
    Context,
    decide::{Decision, decide},
    facts::Facts,
    object::{self, AccountObject},
    observe::{Memory, Observed, observe},
    report, secret,
    writes::{self, Target},
};
use crate::{
    account::{AccountKey, Installation, view::Times},
    controllers::{backoff::Backoff, events::Severity, streams::Guarded},
    kinds::{Reason, account::Timing},
    runtime::clock,
};
use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _, core::DeserializeGuard};
use std::{sync::Arc, time::Duration};
use tokio::sync::{Notify, watch};

/// Changes that come together are one.
const TOGETHER: Duration = Duration::from_millis(100);
/// Longest time that counts alone wait to be written.
const COUNTS: Duration = Duration::from_secs(10);
/// Longest pause after failures.
const PAUSE: Duration = Duration::from_secs(60);
/// An object that cannot be read waits for its next version; this is the backstop.
const UNDECODABLE: Duration = Duration::from_secs(600);

/// The object as the watch shows it; None when it is gone.
type Shown<K> = Option<Arc<Guarded<K>>>;

/// Looks after the account objects of one name until the process ends.
pub async fn tend<K: AccountObject>(
    ctx: Arc<Context>,
    key: AccountKey,
    mut objects: watch::Receiver<Shown<K>>,
) {
    loop {
        let first = objects.borrow_and_update().clone();
        if let Some(first) = first {
            // A former object of this name may have been buried just before.
            ctx.accounts.announce(&key, used_before(&first));
            let changed = ctx.accounts.changes(&key);
            let Some(last) = live(&ctx, first, &mut objects, &changed).await else {
                return;
            };
            bury(&ctx, &last).await;
            continue;
        }
        tokio::select! {
            () = ctx.shutdown.cancelled() => return,
            seen = objects.changed() => if seen.is_err() { return },
        }
    }
}

/// Whether an earlier process has used the account.
pub fn used_before<K: AccountObject>(object: &Guarded<K>) -> bool {
    let status = object.0.as_ref().ok().and_then(K::status);
    status.is_some_and(|s| s.endpoint.is_some() || !s.known_machines.is_empty())
}

/// The life of one object. Returns it as last seen when it is gone; None at the end of the process.
async fn live<K: AccountObject>(
    ctx: &Context,
    first: Arc<Guarded<K>>,
    objects: &mut watch::Receiver<Shown<K>>,
    changed: &Notify,
) -> Option<Arc<Guarded<K>>> {
    let mut memory = Memory::default();
    let mut backoff = Backoff::capped(PAUSE);
    let mut current = first;
    let mut secret_age = Duration::ZERO;
    loop {
        let outcome = match &current.0 {
            Ok(object) => pass(ctx, &mut memory, object, secret_age).await,
            Err(error) => {
                undecodable(ctx, &current, &error.error).await;
                Ok(Next::after(UNDECODABLE))
            }
        };
        let again = match outcome {
            Ok(next) => {
                backoff.forget(&());
                secret_age = next.secret_age;
                if let Some(object) = next.object {
                    current = Arc::new(DeserializeGuard(Ok(object)));
                }
                next.again
            }
            Err(error) => failed(ctx, &current, &error, &mut backoff).await,
        };
        tokio::select! {
            biased;
            () = ctx.shutdown.cancelled() => return None,
            seen = objects.changed() => {
                seen.ok()?;
                let shown = objects.borrow_and_update().clone();
                match shown {
                    Some(new) if new.uid() == current.uid() => {
                        if new.meta().generation != current.meta().generation {
                            // Only what people wrote: our own status would make it spin.
                            memory.forget_secret();
                            ctx.accounts.probe_now(&object::key(K::KIND, new.meta()));
                        }
                        current = new;
                    }
                    Some(_) => {
                        // Another object of the same name: it gets a life of its own.
                        objects.mark_changed();
                        return Some(current);
                    }
                    None => return Some(current),
                }
            }
            () = changed.notified() => tokio::time::sleep(TOGETHER).await,
            () = tokio::time::sleep(again) => {}
        }
    }
}

/// What follows a pass.
struct Next<K> {
    again: Duration,
    secret_age: Duration,
    /// The object as this pass wrote it.
    object: Option<K>,
}

impl<K> Next<K> {
    fn after(again: Duration) -> Self {
        Self {
            again,
            // A little less, so that the next pass does read it.
            secret_age: again.mul_f64(0.9),
            object: None,
        }
    }

    fn at_once(object: Option<K>) -> Self {
        Self {
            again: Duration::ZERO,
            secret_age: Duration::from_secs(1),
            object,
        }
    }
}

async fn pass<K: AccountObject>(
    ctx: &Context,
    memory: &mut Memory,
    object: &K,
    secret_age: Duration,
) -> Result<Next<K>, kube::Error> {
    let Observed { facts, connection } = observe(ctx, memory, object, secret_age).await;
    let decision = decide(&facts);
    let is_new = connection.is_some();
    let installation = Installation {
        connection,
        block: decision.block.clone(),
        no_orders: decision.no_orders.clone(),
        allowed: object.allowed().cloned(),
        times: Times::from(&facts.spec.timing),
        limits: facts.spec.limits.clone(),
        known: decision.known.clone(),
    };
    ctx.accounts.install(&facts.key, installation);
    hold(ctx, &facts, &decision);
    if is_new {
        // What the new connection shows is part of the decision.
        ctx.accounts.probe_now(&facts.key);
        return Ok(Next::at_once(None));
    }
    if let Some(effect) = &decision.effect
        && may_act(ctx, &facts)
    {
        let target = Target {
            object,
            secret_namespace: &facts.secret_namespace,
            secret: &facts.spec.api_key_secret_ref.name,
        };
        tracing::debug!(account = %facts.key, ?effect, "finalizers");
        let written = writes::perform(&ctx.client, &target, effect).await?;
        memory.forget_secret();
        return Ok(Next::at_once(written));
    }
    let now = Timestamp::from_second(clock::now().wall).unwrap_or_default();
    let next = report::next_status(&facts, &decision, now);
    let mut follow = Next::after(decision.again);
    if next == facts.status {
        return Ok(follow);
    }
    if report::may_wait(&facts.status, &next)
        && let Some(written) = memory.written
    {
        let pause = COUNTS.min(Times::from(&facts.spec.timing).poll_moving);
        let rest = (written + pause).saturating_sub(facts.now);
        if !rest.is_zero() {
            follow.again = follow.again.min(rest);
            return Ok(follow);
        }
    }
    follow.object = report::write(&ctx.client, object, &next).await?;
    memory.written = Some(facts.now);
    report::tell(&ctx.events, object, &facts.status, &next, &decision).await;
    Ok(follow)
}

/// Says whether orders may rely on the account to stay.
fn hold(ctx: &Context, facts: &Facts, decision: &Decision) {
    if let Some(held) = decision.held {
        ctx.accounts.set_held(&facts.key, held);
    }
}

/// A last look before a finalizer goes: a server that was made meanwhile keeps it. Orders are held
/// back since `hold`, so none begins between this look and the write.
fn may_act(ctx: &Context, facts: &Facts) -> bool {
    (facts.users != Some(0)) || ctx.accounts.users(&facts.key) == Some(0)
}

async fn failed<K: AccountObject>(
    ctx: &Context,
    current: &Guarded<K>,
    error: &kube::Error,
    backoff: &mut Backoff<()>,
) -> Duration {
    let delay = backoff.failed((), clock::now().mono);
    let cause = secret::explain(error);
    let name = current.name_any();
    if matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409)) {
        // Somebody wrote meanwhile, or it is gone; the watch shows it soon.
        tracing::debug!(name, cause, "the account changed meanwhile");
        return delay.min(Duration::from_millis(200));
    }
    tracing::warn!(name, cause, "a write for the account failed");
    if matches!(error, kube::Error::Api(status) if status.code == 403) {
        let reference = current.object_ref(&());
        ctx.events
            .publish(
                Severity::Warning,
                Reason::Pending,
                "Hold",
                &cause,
                &reference,
            )
            .await;
    }
    delay
}

/// The object cannot be read: say so, on it alone, and let nothing change that rests on it.
async fn undecodable<K: AccountObject>(ctx: &Context, object: &Guarded<K>, error: &str) {
    let key = object::key(K::KIND, object.meta());
    let note =
        format!("{key} does not decode: {error}; correct the field, or apply the manifest again");
    tracing::warn!(account = %key, error, "an account object does not decode");
    ctx.accounts.install(
        &key,
        Installation {
            connection: None,
            block: Some((Reason::Undecodable, note.clone())),
            no_orders: None,
            allowed: None,
            times: Times::from(&Timing::default()),
            limits: Default::default(),
            known: Vec::new(),
        },
    );
    let reference = object.object_ref(&());
    ctx.events
        .publish(
            Severity::Warning,
            Reason::Undecodable,
            "Check",
            &note,
            &reference,
        )
        .await;
}

/// The object is gone. Whoever took its finalizer by force left the one on the Secret behind.
async fn bury<K: AccountObject>(ctx: &Context, object: &Guarded<K>) {
    let key = object::key(K::KIND, object.meta());
    ctx.accounts.remove(&key);
    ctx.note_secret(&key, None);
    if let Some(secret) = object.annotations().get(crate::kinds::names::HELD_SECRET) {
        let namespace = ctx.secret_namespace(&key);
        if !ctx.secret_is_shared(&key, &namespace, secret) {
            writes::let_go_after(&ctx.client, &namespace, secret).await;
        }
    }
}

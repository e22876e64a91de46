//! Carries out one effect, and returns how it ended and what was observed.

use super::{HostContext, install_log, installs, observe_related};
use crate::{
    account::{Account, Permit},
    controllers::{live_account::live_account, power::create_command},
    runtime::clock,
};
use api::{Reason, command::PowerAction, target::TargetKind};
use flexmetal_core::{
    explanation::Explanation,
    host::{
        decide::{HostEffect, power},
        facts::{BlockedInstall, HostFacts, HostObservation},
    },
    last_error::LastError,
    reconcile::Ended,
};
use hosting_types::{Error, HostId, host::Host};

/// How an effect ended, and what it observed.
pub(super) type HostEffectResult = (Ended, HostObservation);

/// Carries out an effect.
pub(super) async fn act(
    ctx: &HostContext,
    facts: &HostFacts,
    account: Option<&Account>,
    effect: &HostEffect,
    permit: Option<Permit>,
) -> HostEffectResult {
    let _calling = permit.is_some().then(|| ctx.objects.count_provider_call());
    match (effect, account, permit) {
        (HostEffect::Install(new), Some(account), Some(permit)) => {
            Box::pin(installs::install(ctx, facts, account, permit, new)).await
        }
        (HostEffect::ReadLog { pages }, _, Some(permit)) => {
            install_log::read_log(facts, permit, *pages).await
        }
        (HostEffect::Power { name, action }, Some(account), _) => {
            switch(ctx, facts, account, name, *action).await
        }
        _ => failed(LastError::check_failed(
            "Internal error; a call has no permit",
        )),
    }
}

/// Creates the command for a change of `spec.power`. Its name is recorded in status, so two processes create only one.
async fn switch(
    ctx: &HostContext,
    facts: &HostFacts,
    account: &Account,
    name: &str,
    action: PowerAction,
) -> HostEffectResult {
    match get_live(ctx, facts, account).await {
        Ok(fresh) if power::may_create(&fresh, name) => {}
        Ok(_) => return stale(),
        Err(done) => return done,
    }
    let kind = TargetKind::DedicatedHost;
    match create_command(ctx, kind, &*facts.subject.object, name, action).await {
        Ok(true) => (Ended::Done, HostObservation::Powered(name.to_owned())),
        Ok(false) => failed(LastError::from_write(format!(
            "ServerCommand {name} of spec.power belongs to another object"
        ))),
        Err(failure) => failed(LastError::from_write(failure.explain())),
    }
}

pub(super) fn failed(last_error: LastError) -> HostEffectResult {
    (Ended::Failed(last_error), HostObservation::Nothing)
}

pub(super) fn stale() -> HostEffectResult {
    (Ended::Stale, HostObservation::Nothing)
}

/// The installation cannot be sent now: it is reported and retried later, while all else goes on.
pub(super) fn block_install(facts: &HostFacts, explanation: Explanation) -> HostEffectResult {
    let blocked = BlockedInstall {
        generation: facts.subject.object.metadata.generation,
        at: clock::now().mono,
        explanation,
    };
    (Ended::Done, HostObservation::Blocked(Box::new(blocked)))
}

/// The same for a host that differs from its record; `why` is the message.
pub(super) fn busy(facts: &HostFacts, why: &str) -> HostEffectResult {
    let text = format!("{why}; nothing is sent; retrying");
    block_install(facts, Explanation::waits(Reason::ChecksFailed, text))
}

/// The live object, with its live account and namespace.
pub(super) async fn get_live(
    ctx: &HostContext,
    facts: &HostFacts,
    account: &Account,
) -> Result<HostFacts, HostEffectResult> {
    let write_failed = |why: String| failed(LastError::from_write(why));
    let object = match ctx.read_object(&facts.subject.object).await {
        Ok(Some(object)) => object,
        Ok(None) => return Err(stale()),
        Err(failure) => return Err(write_failed(failure.explain())),
    };
    let mut fresh = facts.clone();
    fresh.subject.object = object;
    let reference = fresh.subject.object.account();
    match live_account(ctx, fresh.subject.namespace(), &reference, account).await {
        Ok(Some(live)) => fresh.set_live(live),
        Ok(None) => {
            let why = "The account of this object no longer exists";
            return Err(failed(LastError::check_failed(why)));
        }
        Err(failure) => return Err(write_failed(failure.explain())),
    }
    observe_related(ctx, &mut fresh);
    Ok(fresh)
}

/// The same with the live SshKey of the object: a key that changed in between would let the wrong users in.
pub(super) async fn get_live_with_key(
    ctx: &HostContext,
    facts: &HostFacts,
    account: &Account,
) -> Result<HostFacts, HostEffectResult> {
    let mut fresh = get_live(ctx, facts, account).await?;
    let reference = fresh.subject.object.spec.ssh_key_ref.as_ref();
    let name = reference.map(|key| key.name.clone());
    fresh.key = match name {
        None => None,
        Some(name) => {
            let live = ctx.stored_keys.live(ctx, fresh.subject.namespace(), &name);
            let failed = |why: String| failed(LastError::from_write(why));
            Some(live.await.map_err(|failure| failed(failure.explain()))?)
        }
    };
    Ok(fresh)
}

/// The host as it is now.
pub(super) async fn read_host(permit: &mut Permit, id: HostId) -> Result<Host, HostEffectResult> {
    let answer = permit.call(async |client| client.host(id).await);
    answer.await.map_err(|error| {
        tracing::debug!(host = id.0, error = error.explain(), "host read failed");
        failed(LastError::from_provider(&error))
    })
}

/// How an effect ended after this answer. What was certainly not sent is retried with backoff.
pub(super) fn ended<T>(answer: &Result<T, Error>) -> Ended {
    match answer {
        Err(error @ (Error::AccessDenied(_) | Error::RateLimited(_) | Error::NotSent(_))) => {
            Ended::Failed(LastError::from_provider(error))
        }
        Ok(_) | Err(_) => Ended::Done,
    }
}

pub(super) fn nonce() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

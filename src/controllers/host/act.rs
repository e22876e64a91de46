//! Carries out one effect, and returns how it ended and what was observed.

use super::{HostContext, install_log, installs, look_around};
use crate::{
    account::{Account, Permit},
    controllers::{live_account::live_account, power::create_command},
    runtime::clock,
};
use api::{Reason, command::PowerAction, target::TargetKind};
use flexmetal_core::{
    cause::Cause,
    host::{
        decide::{Effect, power},
        facts::{Facts, Held, Observation},
    },
    pass::Ended,
    trouble::Trouble,
};
use hosting_types::{Error, HostId, host::Host};

/// How an effect ended, and what it brought to light.
pub(super) type Done = (Ended, Observation);

/// Carries out an effect.
pub(super) async fn act(
    ctx: &HostContext,
    facts: &Facts,
    account: Option<&Account>,
    effect: &Effect,
    permit: Option<Permit>,
) -> Done {
    let _calling = permit.is_some().then(|| ctx.objects.call_provider());
    match (effect, account, permit) {
        (Effect::Install(new), Some(account), Some(permit)) => {
            Box::pin(installs::install(ctx, facts, account, permit, new)).await
        }
        (Effect::ReadLog { pages }, _, Some(permit)) => {
            install_log::read_log(facts, permit, *pages).await
        }
        (Effect::Power { name, action }, Some(account), _) => {
            switch(ctx, facts, account, name, *action).await
        }
        _ => failed(Trouble::unexpected("Internal error; a call has no permit")),
    }
}

/// Creates the command that a change of `spec.power` came to, by the name that the object has on record: of two that do
/// so, one creates it.
async fn switch(
    ctx: &HostContext,
    facts: &Facts,
    account: &Account,
    name: &str,
    action: PowerAction,
) -> Done {
    match reread(ctx, facts, account).await {
        Ok(fresh) if power::may_create(&fresh, name) => {}
        Ok(_) => return stale(),
        Err(done) => return done,
    }
    let kind = TargetKind::DedicatedHost;
    match create_command(ctx, kind, &*facts.subject.object, name, action).await {
        Ok(true) => (Ended::Done, Observation::Powered(name.to_owned())),
        Ok(false) => failed(Trouble::of_write(format!(
            "ServerCommand {name} of spec.power belongs to another object"
        ))),
        Err(failure) => failed(Trouble::of_write(failure.explain())),
    }
}

pub(super) fn failed(trouble: Trouble) -> Done {
    (Ended::Failed(trouble), Observation::Nothing)
}

pub(super) fn stale() -> Done {
    (Ended::Stale, Observation::Nothing)
}

/// It cannot be sent: that is told, and looked at again later, while all else goes on.
pub(super) fn held(facts: &Facts, cause: Cause) -> Done {
    let held = Held {
        generation: facts.subject.object.metadata.generation,
        at: clock::now().mono,
        cause,
    };
    (Ended::Done, Observation::Held(Box::new(held)))
}

/// The same where the host is not as it was shown: in words.
pub(super) fn busy(facts: &Facts, why: &str) -> Done {
    let text = format!("{why}; nothing is sent; retrying");
    held(facts, Cause::waits(Reason::ChecksFailed, text))
}

/// The object, its account and its namespace as they are now.
pub(super) async fn reread(
    ctx: &HostContext,
    facts: &Facts,
    account: &Account,
) -> Result<Facts, Done> {
    let write_failed = |why: String| failed(Trouble::of_write(why));
    let object = match ctx.read(&facts.subject.object).await {
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
            return Err(failed(Trouble::unexpected(why)));
        }
        Err(failure) => return Err(write_failed(failure.explain())),
    }
    look_around(ctx, &mut fresh);
    Ok(fresh)
}

/// The same, with the SshKey that the object names: a key that was changed meanwhile lets in whom it should not.
pub(super) async fn reread_with_key(
    ctx: &HostContext,
    facts: &Facts,
    account: &Account,
) -> Result<Facts, Done> {
    let mut fresh = reread(ctx, facts, account).await?;
    let reference = fresh.subject.object.spec.ssh_key_ref.as_ref();
    let name = reference.map(|key| key.name.clone());
    fresh.key = match name {
        None => None,
        Some(name) => {
            let live = ctx.stored_keys.live(ctx, fresh.subject.namespace(), &name);
            let failed = |why: String| failed(Trouble::of_write(why));
            Some(live.await.map_err(|failure| failed(failure.explain()))?)
        }
    };
    Ok(fresh)
}

/// The host as it is now.
pub(super) async fn read_host(permit: &mut Permit, id: HostId) -> Result<Host, Done> {
    let answer = permit.call(async |client| client.host(id).await);
    answer.await.map_err(|error| {
        tracing::debug!(error = error.explain(), "cannot read a host");
        failed(Trouble::of_provider(&error))
    })
}

/// How an effect ended whose request was answered so: what was certainly not sent goes on with growing pauses.
pub(super) fn ended<T>(answer: &Result<T, Error>) -> Ended {
    match answer {
        Err(error @ (Error::AccessDenied(_) | Error::RateLimited(_) | Error::NotSent(_))) => {
            Ended::Failed(Trouble::of_provider(error))
        }
        Ok(_) | Err(_) => Ended::Done,
    }
}

pub(super) fn nonce() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

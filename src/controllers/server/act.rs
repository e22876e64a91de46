//! Carries out one effect, and returns what was observed.
//!
//! Every effect repeats its check on data that it reads itself, right before what cannot be undone.

use super::{
    ServerContext, adoption, observe, orders, outputs, reinstalls, release_limit, root_password,
    turn::Permission, writes,
};
use crate::{
    account::{Account, Permit},
    controllers::{
        power::create_command,
        server_commands::Switched,
        writes::{Failure, Written, read_server_time},
    },
    runtime::clock,
};
use api::{BareMetalServer, command::PowerAction, names::RETAINED_TAG, target::TargetKind};
use flexmetal_core::{
    account::marks,
    once::Reply,
    server::{
        answers,
        decide::{Effect, fence, power, release, tags},
        facts::Facts,
        memory::Observation,
    },
    server_commands::UnderWay,
    trouble::Trouble,
};
use hosting::Client;
use hosting_types::{Error, Server, ServerId, ServerStatus};
use std::{sync::Arc, time::Duration};

/// Carries out an effect, by the permission that was given for it.
pub(super) async fn act(
    ctx: &ServerContext,
    facts: &Facts,
    account: Option<&Account>,
    effect: &Effect,
    permission: Permission,
) -> Observation {
    match permission {
        Permission::NotNeeded => act_here(ctx, facts, account, effect).await,
        Permission::Order(permit) => {
            let _calling = ctx.objects.call_provider();
            match (effect, account) {
                (Effect::Order(planned), Some(account)) => {
                    Box::pin(orders::order(ctx, facts, account, permit, planned)).await
                }
                _ => wrong_permission(),
            }
        }
        Permission::Calls(permit) => {
            let _calling = ctx.objects.call_provider();
            match account {
                Some(account) => Box::pin(act_there(ctx, facts, account, effect, permit)).await,
                None => wrong_permission(),
            }
        }
    }
}

/// Effects on the object itself.
async fn act_here(
    ctx: &ServerContext,
    facts: &Facts,
    account: Option<&Account>,
    effect: &Effect,
) -> Observation {
    let object = &facts.object;
    match effect {
        Effect::AddFinalizer => {
            let is_put_back = facts.order().is_some();
            let added = writes::add_finalizer(ctx, object).await;
            // Also where the answer is lost: it is of this process then.
            ctx.objects.remember(facts.uid(), |memory| {
                memory.protocol.added_finalizer();
            });
            match written(added) {
                Observation::Done if is_put_back => Observation::PutBack,
                Observation::Done => Observation::FinalizerAdded,
                other => other,
            }
        }
        Effect::RemoveFinalizer => Box::pin(outputs::remove_finalizers(ctx, facts)).await,
        Effect::Command { name, action } => command(ctx, facts, name, *action).await,
        Effect::WriteOutput(output) => Box::pin(outputs::write(ctx, facts, output)).await,
        Effect::RecordOutput(output) => Box::pin(outputs::record_output(ctx, facts, output)).await,
        Effect::CheckDeletedOutputs(outputs) => {
            Box::pin(outputs::check_deleted(ctx, facts, outputs)).await
        }
        Effect::FindPassword { of, secret } => {
            Box::pin(root_password::find(ctx, facts, of, secret)).await
        }
        Effect::ForgetPassword { of, secret } => {
            Box::pin(root_password::forget(ctx, facts, of, secret)).await
        }
        Effect::Expire { at } => Box::pin(expire(ctx, facts, account, *at)).await,
        Effect::Order(_)
        | Effect::Claim { .. }
        | Effect::Adopt { .. }
        | Effect::Read { .. }
        | Effect::AddTag { .. }
        | Effect::RemoveTag { .. }
        | Effect::Retain { .. }
        | Effect::Release { .. }
        | Effect::Reinstall(_)
        | Effect::LookAtInstall { .. }
        | Effect::FetchPassword { .. } => wrong_permission(),
    }
}

/// Effects at the provider, but for the order.
async fn act_there(
    ctx: &ServerContext,
    facts: &Facts,
    account: &Account,
    effect: &Effect,
    mut permit: Permit,
) -> Observation {
    let uuid = match effect {
        Effect::FetchPassword { of, secret } => {
            let fetch = root_password::fetch(ctx, facts, account, permit, of, secret);
            return Box::pin(fetch).await;
        }
        Effect::Claim { uuid }
        | Effect::Adopt { uuid }
        | Effect::Read { uuid }
        | Effect::AddTag { uuid, .. }
        | Effect::RemoveTag { uuid, .. }
        | Effect::Retain { uuid }
        | Effect::Release { uuid } => uuid,
        Effect::Reinstall(new) => &new.machine,
        Effect::LookAtInstall { record, .. } => &record.intent.machine,
        Effect::Order(_)
        | Effect::AddFinalizer
        | Effect::RemoveFinalizer
        | Effect::Command { .. }
        | Effect::WriteOutput(_)
        | Effect::RecordOutput(_)
        | Effect::CheckDeletedOutputs(_)
        | Effect::FindPassword { .. }
        | Effect::ForgetPassword { .. }
        | Effect::Expire { .. } => return wrong_permission(),
    };
    let Ok(id) = ServerId::parse(uuid) else {
        return Observation::Failed(Trouble::unexpected(
            "The recorded UUID of the server is not valid",
        ));
    };
    match effect {
        Effect::Read { .. } => read(&mut permit, &id).await,
        Effect::Claim { .. } => Box::pin(adoption::claim(ctx, facts, &mut permit, &id)).await,
        Effect::Adopt { .. } => Box::pin(adoption::adopt(ctx, facts, &mut permit, &id)).await,
        Effect::AddTag { tag, .. } => match is_newest(ctx, facts, tag).await {
            Ok(()) => retag(facts, &mut permit, &id, tag, true).await,
            Err(observation) => observation,
        },
        Effect::RemoveTag { tag, .. } => match is_newest(ctx, facts, tag).await {
            Ok(()) => retag(facts, &mut permit, &id, tag, false).await,
            Err(observation) => observation,
        },
        Effect::Retain { .. } => Box::pin(retain(ctx, facts, account, permit, &id)).await,
        Effect::Release { .. } => Box::pin(release(ctx, facts, account, permit, &id)).await,
        Effect::Reinstall(new) => {
            Box::pin(reinstalls::reinstall(ctx, facts, account, permit, &id, new)).await
        }
        Effect::LookAtInstall { record, pages } => {
            reinstalls::look(&mut permit, &id, record, *pages).await
        }
        _ => wrong_permission(),
    }
}

/// Creates the command that a change of `spec.power` came to, by the name that the object has on record: of two that do
/// so, one creates it.
async fn command(
    ctx: &ServerContext,
    facts: &Facts,
    name: &str,
    action: PowerAction,
) -> Observation {
    match reread(ctx, facts).await {
        Ok(fresh) if power::may_create(&fresh, name) => {}
        Ok(_) => return Observation::Stale,
        Err(observation) => return observation,
    }
    let kind = TargetKind::BareMetalServer;
    match create_command(ctx, kind, &*facts.object, name, action).await {
        Ok(true) => Observation::Commanded(name.to_owned()),
        Ok(false) => Observation::Failed(Trouble::of_write(format!(
            "ServerCommand {name} of spec.power belongs to another object"
        ))),
        Err(failure) => Observation::Failed(Trouble::of_write(failure.explain())),
    }
}

/// The permission is not the one of this effect: a defect, and nothing is done.
fn wrong_permission() -> Observation {
    Observation::Failed(Trouble::unexpected(
        "Internal error; the permission is of another effect",
    ))
}

pub(super) fn written(written: Written<BareMetalServer>) -> Observation {
    match written {
        Written::Done(_) => answers::of_write(Reply::Done, String::new),
        Written::Stale => answers::of_write(Reply::Stale, String::new),
        Written::Unknown(failure) => {
            tracing::warn!(
                error = &failure as &dyn std::error::Error,
                "cannot write to a server object"
            );
            answers::of_write(Reply::Unknown, || failure.explain())
        }
    }
}

/// The object as it is now, and its kind, for the guards that are asked on them.
pub(super) async fn reread(ctx: &ServerContext, facts: &Facts) -> Result<Facts, Observation> {
    match ctx.read(&facts.object).await {
        Ok(Some(object)) => Ok(Facts {
            object,
            kind_deleting: ctx.kind_is_deleting().await,
            ..facts.clone()
        }),
        Ok(None) => Err(Observation::Stale),
        Err(failure) => Err(Observation::Failed(Trouble::of_write(failure.explain()))),
    }
}

/// The operator's own tags say whose a machine is, so no change of one rests on an object that is not so any more. Other tags
/// follow what was seen.
async fn is_newest(ctx: &ServerContext, facts: &Facts, tag: &str) -> Result<(), Observation> {
    if !marks::is_operators(tag) {
        return Ok(());
    }
    match fence::is_newest(facts, &reread(ctx, facts).await?) {
        true => Ok(()),
        false => Err(Observation::Stale),
    }
}

pub(super) fn refused(error: &Error, what: &str) -> Observation {
    tracing::debug!(error = error.explain(), "{what}");
    Observation::Failed(Trouble::of_provider(error))
}

async fn read(permit: &mut Permit, id: &ServerId) -> Observation {
    let at = clock::now().mono;
    let answer = permit.read(id).await;
    if let Err(error) = &answer {
        tracing::debug!(error = error.explain(), "cannot read a server");
    }
    answers::of_read(id.as_str(), &answer, at)
}

/// Tags a machine as retained, where that is still decided on the object as it is now and a read right before shows the machine
/// to be its own.
async fn retain(
    ctx: &ServerContext,
    facts: &Facts,
    account: &Account,
    mut permit: Permit,
    id: &ServerId,
) -> Observation {
    let fresh = match reread_with_account(ctx, facts, account).await {
        Ok(fresh) => fresh,
        Err(observation) => return observation,
    };
    match permit.read(id).await {
        Ok(_) if is_late(facts) => too_late(),
        Ok(record) if !fence::may_retain(&fresh, &record) => not_shown(),
        Ok(record) => change_tag(facts, &mut permit, record, RETAINED_TAG, true).await,
        Err(error) => refused(&error, "cannot read a server"),
    }
}

/// Changes a tag of a machine that a read right before shows to be the object's own, and not to be so already.
async fn retag(
    facts: &Facts,
    permit: &mut Permit,
    id: &ServerId,
    tag: &str,
    adds: bool,
) -> Observation {
    match permit.read(id).await {
        Ok(record) if !fence::is_sole(facts, &record) => not_shown(),
        // A tag that comes late meets another world, and may meet an object that is gone.
        Ok(_) if is_late(facts) => too_late(),
        Ok(record) => change_tag(facts, permit, record, tag, adds).await,
        Err(error) => refused(&error, "cannot read a server"),
    }
}

/// Changes a tag of a machine that was read right before. That read is in the snapshot then, whatever a late list showed.
pub(super) async fn change_tag(
    facts: &Facts,
    permit: &mut Permit,
    record: Server,
    tag: &str,
    adds: bool,
) -> Observation {
    let id = record.id.clone();
    if !tags::is_due(&record, tag, adds) {
        return answers::of_tag(id.as_str(), tag, adds, None);
    }
    let change = async |client: &Client| match adds {
        true => client.add_tag(&id, tag).await,
        false => client.remove_tag(&id, tag).await,
    };
    let answer = permit.call(change).await;
    if let Some(record) = answers::after_tag(record, tag, adds, &answer) {
        permit.learn(record);
    }
    match &answer {
        Ok(_) => {
            if !marks::is_operators(tag) {
                tracing::info!(
                    namespace = facts.namespace(),
                    name = facts.name(),
                    uuid = id.as_str(),
                    tag,
                    "{}",
                    if adds { "added a tag" } else { "removed a tag" }
                );
            }
        }
        Err(error) => tracing::warn!(
            uuid = id.as_str(),
            tag,
            error = error.explain(),
            "cannot change a tag"
        ),
    }
    answers::of_tag(id.as_str(), tag, adds, Some(&answer))
}

/// Whether what was decided is too old to be carried out.
pub(super) fn is_late(facts: &Facts) -> bool {
    let window = facts.view().map(|view| view.times.send_window);
    window.is_none_or(|window| clock::now().since(facts.now.mono) >= window)
}

/// What was decided is too old to be carried out; the next pass decides again.
pub(super) fn too_late() -> Observation {
    Observation::Failed(Trouble::unexpected(
        "Not sent; too much time passed between the decision and the request",
    ))
}

/// The read before a change did not show what the change rests on.
pub(super) fn not_shown() -> Observation {
    Observation::Failed(Trouble::unexpected(
        "Not sent; the server record read right before does not allow it",
    ))
}

/// Records the release in status with a new time, then reads the machine and sends one DELETE by that time. Stopped in between,
/// the next pass does the same again.
async fn release(
    ctx: &ServerContext,
    facts: &Facts,
    account: &Account,
    mut permit: Permit,
    id: &ServerId,
) -> Observation {
    let mut fresh = match reread_with_account(ctx, facts, account).await {
        Ok(fresh) => fresh,
        Err(observation) => return observation,
    };
    let is_begun = fence::is_begun(&fresh, id.as_str());
    if fresh.deleting() && !is_begun && fresh.release_due().is_some() {
        let (time, at) = match clocks(ctx).await {
            Ok(clocks) => clocks,
            Err(observation) => return observation,
        };
        fresh.memory.server_time = Some((time, at));
        if !fence::is_due(&fresh) {
            return Observation::NotDue(time, at);
        }
    }
    if !fence::may_record_release(&fresh, id.as_str()) {
        return Observation::Stale;
    }
    // What does not run costs nothing to lose.
    let is_live = fresh
        .recorded
        .as_ref()
        .is_some_and(|s| s.server.status.is_live());
    if fresh.deleting()
        && is_live
        && !is_begun
        && let Err(observation) = release_limit::count(ctx, &fresh, id.as_str()).await
    {
        return observation;
    }
    let Some(window) = fresh.view().map(|view| view.times.send_window) else {
        return Observation::Stale;
    };
    let window = i64::try_from(window.as_secs().max(1)).unwrap_or(i64::MAX);
    let send_by = clock::now().wall.saturating_add(window);
    let status = release::recorded(&fresh, id.as_str(), send_by);
    let recorded = ctx.write_status(&fresh.object, &status).await;
    // Without a difference it is on record already.
    let object = match recorded.unwrap_or_else(|| Written::Done(Arc::clone(&fresh.object))) {
        Written::Done(object) => object,
        other => return written(other),
    };
    let kind = TargetKind::BareMetalServer;
    ctx.server_commands.target_changed(kind, &object.metadata);
    let begun = Facts { object, ..fresh };
    // Who sends a command records that first, and reads this object then: from here on none begins.
    if let Err(observation) = no_command_runs(ctx, &begun).await {
        return observation;
    }
    let since = clock::now();
    match permit.read(id).await {
        Ok(record) if record.status == ServerStatus::Released => Observation::Done,
        Ok(record) if fence::may_release(&begun, &record, since, clock::now()) => {
            delete(ctx, &begun, permit, &record).await
        }
        Ok(_) => not_shown(),
        Err(error) => refused(&error, "cannot read a server"),
    }
}

/// Whether no command is under way for the object, as the API server has them now.
pub(super) async fn no_command_runs(ctx: &ServerContext, facts: &Facts) -> Result<(), Observation> {
    let commands = ctx.server_commands.clone();
    let server = Switched::Server {
        namespace: facts.namespace().to_owned(),
        name: facts.name().to_owned(),
    };
    match commands.under_way_now(&server).await {
        Ok(UnderWay::Nothing) => Ok(()),
        Ok(UnderWay::Command(_) | UnderWay::NotListed) => Err(Observation::Stale),
        Err(failure) => Err(Observation::Failed(Trouble::of_write(failure.explain()))),
    }
}

/// The object as it is now, with what its account says now: its policies, and whether it is stopped.
pub(super) async fn reread_with_account(
    ctx: &ServerContext,
    facts: &Facts,
    account: &Account,
) -> Result<Facts, Observation> {
    let fresh = reread(ctx, facts).await?;
    Box::pin(with_live_account(ctx, account, fresh)).await
}

/// The facts with what the account object says now. Its watch may be behind that of the servers: another one may
/// have its name by now, or another lineage be on record.
pub(super) async fn with_live_account(
    ctx: &ServerContext,
    account: &Account,
    mut fresh: Facts,
) -> Result<Facts, Observation> {
    match observe::live_account(ctx, &fresh.object, account).await {
        Ok(Some(live)) => {
            fresh.set_live(live);
            Ok(fresh)
        }
        Ok(None) => Err(Observation::Failed(Trouble::unexpected(
            "The account of this object no longer exists",
        ))),
        Err(failure) => Err(Observation::Failed(Trouble::of_write(failure.explain()))),
    }
}

/// The API server's clock, and the monotonic one when that was asked for.
async fn clocks(ctx: &ServerContext) -> Result<(i64, Duration), Observation> {
    let at = clock::now().mono;
    let time = read_server_time(&ctx.client).await;
    let failed = |failure: Failure| Observation::Failed(Trouble::of_write(failure.explain()));
    Ok((time.map_err(failed)?, at))
}

/// Deletes the object, where it is past its end by the clock of the API server as well.
async fn expire(
    ctx: &ServerContext,
    facts: &Facts,
    account: Option<&Account>,
    at: i64,
) -> Observation {
    let fresh = match account {
        Some(account) => reread_with_account(ctx, facts, account).await,
        None => reread(ctx, facts).await,
    };
    let object = match fresh {
        Ok(fresh) if fence::may_expire(&fresh, at) => fresh.object,
        Ok(_) => return Observation::Stale,
        Err(observation) => return observation,
    };
    match clocks(ctx).await {
        Ok((time, _)) if time >= at => written(ctx.delete(&object).await),
        Ok((time, read)) => Observation::NotDue(time, read),
        Err(observation) => observation,
    }
}

/// The DELETE itself, by the process that leads at this very moment.
async fn delete(
    ctx: &ServerContext,
    facts: &Facts,
    mut permit: Permit,
    record: &Server,
) -> Observation {
    if !ctx.may_act() {
        return Observation::Stale;
    }
    tracing::debug!(
        namespace = facts.namespace(),
        name = facts.name(),
        uuid = record.id.as_str(),
        "sending a release"
    );
    let answer = permit
        .call(async |client| client.release(&record.id).await)
        .await;
    permit.learn_release(&record.id, &answer);
    if let Err(error) = &answer {
        tracing::info!(
            uuid = record.id.as_str(),
            error = error.explain(),
            "the provider did not accept a release"
        );
    }
    answers::of_release(&answer, record, clock::now().mono)
}

//! Carries out one effect, and returns what was observed.
//!
//! Every effect repeats its check on data that it reads itself, right before what cannot be undone.

use super::{
    ServerContext, observe, orders, outputs, reinstalls, release_limit, root_password,
    turn::Permission, writes,
};
use crate::{
    account::{Account, Permit},
    controllers::{power::create_command, server_commands::Switched, writes::Written},
    runtime::clock,
};
use api::{BareMetalServer, command::PowerAction, order::OrderNote, target::TargetKind};
use flexmetal_core::{
    moment::Moment,
    once::Reply,
    server::{
        answers,
        decide::{Effect, LookUp, fence, metadata, power, release, tags},
        facts::Facts,
        memory::Observation,
    },
    server_commands::UnderWay,
    trouble::Trouble,
};
use hosting::Client;
use hosting_types::{Error, Server, ServerId};
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
        Effect::WriteNote(note) => record(ctx, facts, note).await,
        Effect::PutBack(note) => match written(writes::write_order_note(ctx, object, note).await) {
            Observation::Done => Observation::PutBack,
            other => other,
        },
        Effect::HoldObject => written(writes::hold(ctx, object).await),
        Effect::LetGo => Box::pin(outputs::let_go(ctx, facts)).await,
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
        | Effect::LookForOrder(_)
        | Effect::Read { .. }
        | Effect::Claim { .. }
        | Effect::AddTag { .. }
        | Effect::RemoveTag { .. }
        | Effect::Reinstall(_)
        | Effect::LookAtInstall { .. }
        | Effect::BeginRelease { .. }
        | Effect::Release { .. }
        | Effect::ReleaseFailed { .. }
        | Effect::FetchPassword { .. } => wrong_permission(),
    }
}

async fn record(ctx: &ServerContext, facts: &Facts, note: &OrderNote) -> Observation {
    let is_repeated = metadata::is_repeated(facts, note);
    match written(writes::write_order_note(ctx, &facts.object, note).await) {
        Observation::Done if is_repeated => Observation::PutBack,
        other => other,
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
        Effect::LookForOrder(look) => return look_for_order(&mut permit, look).await,
        Effect::Read { uuid, .. }
        | Effect::Claim { uuid, .. }
        | Effect::AddTag { uuid, .. }
        | Effect::RemoveTag { uuid, .. }
        | Effect::BeginRelease { uuid }
        | Effect::Release { uuid }
        | Effect::ReleaseFailed { uuid } => uuid,
        Effect::Reinstall(new) => &new.machine,
        Effect::LookAtInstall { record, .. } => &record.intent.machine,
        Effect::Order(_)
        | Effect::WriteNote(_)
        | Effect::PutBack(_)
        | Effect::HoldObject
        | Effect::Command { .. }
        | Effect::WriteOutput(_)
        | Effect::RecordOutput(_)
        | Effect::CheckDeletedOutputs(_)
        | Effect::FindPassword { .. }
        | Effect::ForgetPassword { .. }
        | Effect::Expire { .. }
        | Effect::LetGo => {
            return wrong_permission();
        }
    };
    let Ok(id) = ServerId::parse(uuid) else {
        return Observation::Failed(Trouble::unexpected(
            "what is recorded is no UUID of a machine",
        ));
    };
    match effect {
        Effect::Read { not_listed, .. } => read(&mut permit, &id, *not_listed).await,
        Effect::Claim { note, .. } => claim(ctx, facts, &mut permit, &id, note).await,
        Effect::AddTag { tag, when, .. } => {
            if effect.lets_stay()
                && let Err(observation) = Box::pin(may_retain(ctx, facts, account, uuid)).await
            {
                return observation;
            }
            if !effect.lets_stay()
                && let Err(observation) = is_newest(ctx, facts, tag).await
            {
                return observation;
            }
            retag(facts, &mut permit, &id, when, tag, true).await
        }
        Effect::RemoveTag { tag, when, .. } if *when == fence::TagProof::GivesWay => {
            // Another process may have noted in the meantime that the object has the machine.
            match reread(ctx, facts).await {
                Ok(fresh) => retag(&fresh, &mut permit, &id, when, tag, false).await,
                Err(observation) => observation,
            }
        }
        Effect::RemoveTag { tag, when, .. } => match is_newest(ctx, facts, tag).await {
            Ok(()) => retag(facts, &mut permit, &id, when, tag, false).await,
            Err(observation) => observation,
        },
        Effect::BeginRelease { .. } => {
            Box::pin(begin_release(ctx, facts, account, permit, &id)).await
        }
        Effect::Release { .. } => Box::pin(release(ctx, facts, account, permit, &id)).await,
        Effect::Reinstall(new) => {
            Box::pin(reinstalls::reinstall(ctx, facts, account, permit, &id, new)).await
        }
        Effect::LookAtInstall { record, pages } => {
            reinstalls::look(&mut permit, &id, record, *pages).await
        }
        Effect::ReleaseFailed { .. } => {
            Box::pin(release_failed(ctx, facts, account, permit, &id)).await
        }
        Effect::Order(_)
        | Effect::LookForOrder(_)
        | Effect::WriteNote(_)
        | Effect::PutBack(_)
        | Effect::HoldObject
        | Effect::Command { .. }
        | Effect::WriteOutput(_)
        | Effect::RecordOutput(_)
        | Effect::CheckDeletedOutputs(_)
        | Effect::FetchPassword { .. }
        | Effect::FindPassword { .. }
        | Effect::ForgetPassword { .. }
        | Effect::Expire { .. }
        | Effect::LetGo => wrong_permission(),
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
            "spec.power: there is a ServerCommand {name} that is not of this object"
        ))),
        Err(failure) => Observation::Failed(Trouble::of_write(failure.explain())),
    }
}

/// The permission is not the one of this effect: a defect, and nothing is done.
fn wrong_permission() -> Observation {
    Observation::Failed(Trouble::unexpected(
        "the permission was that of another effect",
    ))
}

pub(super) fn written(written: Written<BareMetalServer>) -> Observation {
    match written {
        Written::Done(_) => answers::of_write(Reply::Done, String::new),
        Written::Stale => answers::of_write(Reply::Stale, String::new),
        Written::Unknown(failure) => {
            tracing::warn!(
                error = &failure as &dyn std::error::Error,
                "a write to a server object failed"
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

/// The marks of a machine say whose it is, so no change of one rests on an object that is not so any more. Other tags
/// follow what was seen.
async fn is_newest(ctx: &ServerContext, facts: &Facts, tag: &str) -> Result<(), Observation> {
    if !tags::is_operators(tag) {
        return Ok(());
    }
    match fence::is_newest(facts, &reread(ctx, facts).await?) {
        true => Ok(()),
        false => Err(Observation::Stale),
    }
}

/// The look-ups that go with a listing: the order's tag, and the control's.
async fn look_for_order(permit: &mut Permit, look: &LookUp) -> Observation {
    let shown = async {
        let order_tag = tag_exists(permit, &look.order_tag).await?;
        let control_tag = tag_exists(permit, &look.control.order_tag).await?;
        Ok::<_, Error>((order_tag, control_tag))
    };
    match shown.await {
        Ok((order_tag, control_tag)) => answers::of_look(look, order_tag, control_tag),
        Err(error) => refused(&error, "a look at the provider failed"),
    }
}

/// Whether the account's list of tags holds this one.
async fn tag_exists(permit: &mut Permit, tag: &str) -> Result<bool, Error> {
    match permit.call(async |client| client.tag(tag).await).await {
        Ok(_) => Ok(true),
        Err(Error::NotFound(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn refused(error: &Error, what: &str) -> Observation {
    tracing::debug!(error = error.explain(), "{what}");
    Observation::Failed(Trouble::of_provider(error))
}

async fn read(permit: &mut Permit, id: &ServerId, not_listed: Option<Duration>) -> Observation {
    let at = clock::now().mono;
    let answer = permit.read(id).await;
    if let Err(error) = &answer {
        tracing::debug!(error = error.explain(), "a machine could not be read");
    }
    answers::of_read(&answer, not_listed, at)
}

/// A machine is retained only where that is the policy at this very moment, and not once its release was
/// noted.
async fn may_retain(
    ctx: &ServerContext,
    facts: &Facts,
    account: &Account,
    uuid: &str,
) -> Result<(), Observation> {
    let fresh = reread_with_account(ctx, facts, account).await?;
    match fence::may_retain(&fresh, uuid) {
        true => Ok(()),
        false => Err(Observation::Stale),
    }
}

/// Puts a machine on record once a read shows it to be the object's. The note is written on the version that was decided
/// on, so whoever gives way for this object in between makes it stale.
async fn claim(
    ctx: &ServerContext,
    facts: &Facts,
    permit: &mut Permit,
    id: &ServerId,
    note: &OrderNote,
) -> Observation {
    match permit.read(id).await {
        Ok(server) if !fence::may_claim(facts, &server) || is_late(facts) => not_shown(),
        Ok(_) => record(ctx, facts, note).await,
        Err(error) => refused(&error, "a machine could not be read"),
    }
}

/// Changes a tag of a machine that a read right before shows to be the right one, and not to be so already. That read is
/// in the snapshot then, whatever a late list showed.
async fn retag(
    facts: &Facts,
    permit: &mut Permit,
    id: &ServerId,
    when: &fence::TagProof,
    tag: &str,
    adds: bool,
) -> Observation {
    let record = match permit.read(id).await {
        Ok(record) if !when.holds(facts, &record) => return not_shown(),
        // A mark that comes late meets another world, and may meet an object that is gone.
        Ok(_) if is_late(facts) => return not_shown(),
        Ok(record) if !tags::is_due(&record, tag, adds) => {
            return answers::of_tag(id.as_str(), tag, adds, None);
        }
        Ok(record) => record,
        Err(error) => return refused(&error, "a machine could not be read"),
    };
    let change = async |client: &Client| match adds {
        true => client.add_tag(id, tag).await,
        false => client.remove_tag(id, tag).await,
    };
    let answer = permit.call(change).await;
    if let Some(record) = answers::after_tag(record, tag, adds, &answer) {
        permit.learn(record);
    }
    match &answer {
        Ok(_) => {
            if !tags::is_operators(tag) {
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
            machine = id.as_str(),
            tag,
            error = error.explain(),
            "a tag could not be changed"
        ),
    }
    answers::of_tag(id.as_str(), tag, adds, Some(&answer))
}

/// Whether what was decided is too old to be carried out.
fn is_late(facts: &Facts) -> bool {
    let window = facts.view().map(|view| view.times.send_window);
    window.is_none_or(|window| clock::now().since(facts.now.mono) >= window)
}

/// The read before a change did not show what the change rests on.
pub(super) fn not_shown() -> Observation {
    Observation::Failed(Trouble::unexpected(
        "a read of the machine right before did not show what the change rests on",
    ))
}

/// Records the release in status, then sends it, both on one record of the server: read here, and used within the
/// send window. Stopped in between, the next pass finds the release record and reads the server again.
async fn begin_release(
    ctx: &ServerContext,
    facts: &Facts,
    account: &Account,
    mut permit: Permit,
    id: &ServerId,
) -> Observation {
    let since = clock::now();
    let fresh = match reread_with_account(ctx, facts, account).await {
        Ok(fresh) => fresh,
        Err(observation) => return observation,
    };
    let record = match permit.read(id).await {
        Ok(record) if fence::may_begin_release(&fresh, &record) => record,
        Ok(_) => return not_shown(),
        Err(error) => return refused(&error, "a machine could not be read"),
    };
    // What does not run costs nothing to lose.
    if record.status.is_live()
        && let Err(observation) = release_limit::count(ctx, &fresh, id.as_str()).await
    {
        return observation;
    }
    let status = release::recorded(&fresh, id.as_str());
    let recorded = ctx.write_status(&fresh.object, &status).await;
    // Without a difference it is on record already.
    match recorded.unwrap_or_else(|| Written::Done(Arc::clone(&fresh.object))) {
        Written::Done(object) if fence::follows_the_note(&record) => {
            let kind = TargetKind::BareMetalServer;
            ctx.server_commands.target_changed(kind, &object.metadata);
            let begun = Facts { object, ..fresh };
            // Who sends a command notes that first, and reads this object then: from here on none begins.
            match no_command_runs(ctx, &begun).await {
                Ok(()) => send_release(ctx, &begun, permit, &record, since).await,
                Err(observation) => observation,
            }
        }
        other => written(other),
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
            "the account that says what the object leaves open is not there",
        ))),
        Err(failure) => Err(Observation::Failed(Trouble::of_write(failure.explain()))),
    }
}

/// The release of a machine whose release was noted before. What holds it may have been said since.
async fn release(
    ctx: &ServerContext,
    facts: &Facts,
    account: &Account,
    mut permit: Permit,
    id: &ServerId,
) -> Observation {
    let since = clock::now();
    let fresh = match reread_with_account(ctx, facts, account).await {
        Ok(fresh) => fresh,
        Err(observation) => return observation,
    };
    if let Err(observation) = no_command_runs(ctx, &fresh).await {
        return observation;
    }
    match permit.read(id).await {
        Ok(record) if fence::is_over(&record) => Observation::Done,
        Ok(record) => send_release(ctx, &fresh, permit, &record, since).await,
        Err(error) => refused(&error, "a machine could not be read"),
    }
}

/// The release of a machine that the provider could not deliver, in whose place another one is ordered.
async fn release_failed(
    ctx: &ServerContext,
    facts: &Facts,
    account: &Account,
    mut permit: Permit,
    id: &ServerId,
) -> Observation {
    let since = clock::now();
    let fresh = match reread_with_account(ctx, facts, account).await {
        Ok(fresh) => fresh,
        Err(observation) => return observation,
    };
    match permit.read(id).await {
        Ok(record) if fence::may_release_failed(&fresh, &record, since, clock::now()) => {
            delete(ctx, facts, permit, &record).await
        }
        Ok(_) => not_shown(),
        Err(error) => refused(&error, "a machine could not be read"),
    }
}

/// Deletes the object, where it is past its end by the clock of the API server as well: a deletion that is not carried out
/// says when it would have been.
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
    match ctx.delete(&object, true).await {
        Written::Done(tried)
            if !fence::is_expired_at(tried.metadata.deletion_timestamp.as_ref(), at) =>
        {
            Observation::Failed(Trouble::unexpected(
                "by the API server's clock spec.expiresAt is not over yet",
            ))
        }
        Written::Done(_) => written(ctx.delete(&object, false).await),
        other => written(other),
    }
}

/// One DELETE, on a record that was asked for at `since`, by the permit of that read: nothing waits
/// in between.
async fn send_release(
    ctx: &ServerContext,
    facts: &Facts,
    permit: Permit,
    record: &Server,
    since: Moment,
) -> Observation {
    let Some(window) = facts.view().map(|view| view.times.send_window) else {
        return not_shown();
    };
    if !fence::may_release(facts, record, since, clock::now(), window) {
        return not_shown();
    }
    delete(ctx, facts, permit, record).await
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
            machine = record.id.as_str(),
            error = error.explain(),
            "the provider did not take a release"
        );
    }
    answers::of_release(&answer, record, clock::now().mono)
}

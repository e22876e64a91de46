//! Carries out one effect and returns what it observed. Right before an irreversible request, it reads the data again
//! and repeats its check.

use super::{
    ServerContext, adoption, observe, orders, outputs, permits::EffectPermit, reinstalls,
    release_limit, root_password, writes,
};
use crate::{
    account::{Account, Permit},
    controllers::{
        power::create_command,
        writes::{ApiServerError, WriteOutcome, read_server_time},
    },
    runtime::clock,
};
use api::{BareMetalServer, command::PowerAction, names::RETAINED_TAG, target::TargetKind};
use flexmetal_core::{
    account::ownership_tags,
    attempt_state::Reply,
    last_error::LastError,
    server::{
        answers,
        decide::{
            ServerEffect, power,
            precondition::{self, ReleaseObstacle},
            release, tags,
        },
        facts::ServerFacts,
        memory::{ReleaseAnswer, ServerObservation},
    },
    server_commands::{PowerTarget, RunningCommand},
};
use hosting::Client;
use hosting_types::{Error, Server, ServerId, ServerStatus};
use std::{sync::Arc, time::Duration};

/// Carries out an effect, by the permission that was given for it.
pub(super) async fn act(
    ctx: &ServerContext,
    facts: &ServerFacts,
    account: Option<&Account>,
    effect: &ServerEffect,
    permission: EffectPermit,
) -> ServerObservation {
    match permission {
        EffectPermit::NotNeeded => act_on_cluster(ctx, facts, account, effect).await,
        EffectPermit::Order(permit) => {
            let _calling = ctx.objects.count_provider_call();
            match (effect, account) {
                (ServerEffect::Order(planned), Some(account)) => {
                    Box::pin(orders::order(ctx, facts, account, permit, planned)).await
                }
                _ => wrong_permission(),
            }
        }
        EffectPermit::Calls(permit) => {
            let _calling = ctx.objects.count_provider_call();
            match account {
                Some(account) => {
                    Box::pin(act_on_provider(ctx, facts, account, effect, permit)).await
                }
                None => wrong_permission(),
            }
        }
    }
}

/// Effects that call only the API server.
async fn act_on_cluster(
    ctx: &ServerContext,
    facts: &ServerFacts,
    account: Option<&Account>,
    effect: &ServerEffect,
) -> ServerObservation {
    let object = &facts.object;
    match effect {
        ServerEffect::AddFinalizer => {
            let is_put_back = facts.order().is_some();
            let added = writes::add_finalizer(ctx, object).await;
            // Also if the answer is lost: the finalizer may be from this process.
            ctx.objects.remember(facts.uid(), |memory| {
                memory.protocol.added_finalizer();
            });
            match written(added) {
                ServerObservation::Done if is_put_back => ServerObservation::FinalizerRestored,
                ServerObservation::Done => ServerObservation::FinalizerAdded,
                other => other,
            }
        }
        ServerEffect::RemoveFinalizer => Box::pin(outputs::remove_finalizers(ctx, facts)).await,
        ServerEffect::Command { name, action } => command(ctx, facts, name, *action).await,
        ServerEffect::WriteOutput(output) => Box::pin(outputs::write(ctx, facts, output)).await,
        ServerEffect::RecordOutput(output) => {
            Box::pin(outputs::record_output(ctx, facts, output)).await
        }
        ServerEffect::CheckDeletedOutputs(outputs) => {
            Box::pin(outputs::check_deleted(ctx, facts, outputs)).await
        }
        ServerEffect::FindPassword { of, secret } => {
            Box::pin(root_password::find(ctx, facts, of, secret)).await
        }
        ServerEffect::ForgetPassword { of, secret } => {
            Box::pin(root_password::forget(ctx, facts, of, secret)).await
        }
        ServerEffect::Expire { at } => Box::pin(expire(ctx, facts, account, *at)).await,
        ServerEffect::Order(_)
        | ServerEffect::Claim { .. }
        | ServerEffect::Adopt { .. }
        | ServerEffect::Read { .. }
        | ServerEffect::AddTag { .. }
        | ServerEffect::RemoveTag { .. }
        | ServerEffect::Retain { .. }
        | ServerEffect::Release { .. }
        | ServerEffect::Reinstall(_)
        | ServerEffect::PollInstall { .. }
        | ServerEffect::FetchPassword { .. } => wrong_permission(),
    }
}

/// Effects that call the provider, except the order.
async fn act_on_provider(
    ctx: &ServerContext,
    facts: &ServerFacts,
    account: &Account,
    effect: &ServerEffect,
    mut permit: Permit,
) -> ServerObservation {
    let uuid = match effect {
        ServerEffect::FetchPassword { of, secret } => {
            let fetch = root_password::fetch(ctx, facts, account, permit, of, secret);
            return Box::pin(fetch).await;
        }
        ServerEffect::Claim { uuid }
        | ServerEffect::Adopt { uuid }
        | ServerEffect::Read { uuid }
        | ServerEffect::AddTag { uuid, .. }
        | ServerEffect::RemoveTag { uuid, .. }
        | ServerEffect::Retain { uuid }
        | ServerEffect::Release { uuid } => uuid,
        ServerEffect::Reinstall(new) => &new.server_uuid,
        ServerEffect::PollInstall { record, .. } => &record.intent.server,
        ServerEffect::Order(_)
        | ServerEffect::AddFinalizer
        | ServerEffect::RemoveFinalizer
        | ServerEffect::Command { .. }
        | ServerEffect::WriteOutput(_)
        | ServerEffect::RecordOutput(_)
        | ServerEffect::CheckDeletedOutputs(_)
        | ServerEffect::FindPassword { .. }
        | ServerEffect::ForgetPassword { .. }
        | ServerEffect::Expire { .. } => return wrong_permission(),
    };
    let Ok(id) = ServerId::parse(uuid) else {
        return ServerObservation::Failed(LastError::check_failed(
            "The recorded UUID of the server is not valid",
        ));
    };
    match effect {
        ServerEffect::Read { .. } => read_server(&mut permit, &id).await,
        ServerEffect::Claim { .. } => Box::pin(adoption::claim(ctx, facts, &mut permit, &id)).await,
        ServerEffect::Adopt { .. } => Box::pin(adoption::adopt(ctx, facts, &mut permit, &id)).await,
        ServerEffect::AddTag { tag, .. } => match is_newest(ctx, facts, tag).await {
            Ok(()) => retag(facts, &mut permit, &id, tag, true).await,
            Err(observation) => observation,
        },
        ServerEffect::RemoveTag { tag, .. } => match is_newest(ctx, facts, tag).await {
            Ok(()) => retag(facts, &mut permit, &id, tag, false).await,
            Err(observation) => observation,
        },
        ServerEffect::Retain { .. } => Box::pin(retain(ctx, facts, account, permit, &id)).await,
        ServerEffect::Release { .. } => Box::pin(release(ctx, facts, account, permit, &id)).await,
        ServerEffect::Reinstall(new) => {
            Box::pin(reinstalls::reinstall(ctx, facts, account, permit, &id, new)).await
        }
        ServerEffect::PollInstall { record, pages } => {
            reinstalls::poll_reinstall(&mut permit, &id, record, *pages).await
        }
        _ => wrong_permission(),
    }
}

/// Creates the command for a change of `spec.power`. Its name is recorded in status, so two processes create only one.
async fn command(
    ctx: &ServerContext,
    facts: &ServerFacts,
    name: &str,
    action: PowerAction,
) -> ServerObservation {
    match get_live(ctx, facts).await {
        Ok(fresh) if power::may_create(&fresh, name) => {}
        Ok(_) => return ServerObservation::Stale,
        Err(observation) => return observation,
    }
    let kind = TargetKind::BareMetalServer;
    match create_command(ctx, kind, &*facts.object, name, action).await {
        Ok(true) => ServerObservation::Commanded(name.to_owned()),
        Ok(false) => ServerObservation::Failed(LastError::from_write(format!(
            "ServerCommand {name} of spec.power belongs to another object"
        ))),
        Err(failure) => ServerObservation::Failed(LastError::from_write(failure.explain())),
    }
}

/// The permission belongs to another effect: a bug. Nothing is done.
fn wrong_permission() -> ServerObservation {
    ServerObservation::Failed(LastError::check_failed(
        "Internal error; the permission is of another effect",
    ))
}

pub(super) fn written(written: WriteOutcome<BareMetalServer>) -> ServerObservation {
    match written {
        WriteOutcome::Done(_) => answers::observe_write_reply(Reply::Done, String::new),
        WriteOutcome::Stale => answers::observe_write_reply(Reply::Stale, String::new),
        WriteOutcome::Unknown(failure) => {
            answers::observe_write_reply(Reply::Unknown, || failure.explain())
        }
    }
}

/// The live object, and whether its kind is being deleted, for the check right before an effect.
pub(super) async fn get_live(
    ctx: &ServerContext,
    facts: &ServerFacts,
) -> Result<ServerFacts, ServerObservation> {
    match ctx.read_object(&facts.object).await {
        Ok(Some(object)) => Ok(ServerFacts {
            object,
            kind_deleting: ctx.is_kind_deleting().await,
            ..facts.clone()
        }),
        Ok(None) => Err(ServerObservation::Stale),
        Err(failure) => Err(ServerObservation::Failed(LastError::from_write(
            failure.explain(),
        ))),
    }
}

/// Ownership tags change only while the live object is the version that was decided on. Other tags need no such check.
async fn is_newest(
    ctx: &ServerContext,
    facts: &ServerFacts,
    tag: &str,
) -> Result<(), ServerObservation> {
    if !ownership_tags::is_operators(tag) {
        return Ok(());
    }
    match precondition::is_newest(facts, &get_live(ctx, facts).await?) {
        true => Ok(()),
        false => Err(ServerObservation::Stale),
    }
}

pub(super) fn refused(error: &Error) -> ServerObservation {
    tracing::debug!(error = error.explain(), "provider read failed");
    ServerObservation::Failed(LastError::from_provider(error))
}

async fn read_server(permit: &mut Permit, id: &ServerId) -> ServerObservation {
    let at = clock::now().mono;
    let answer = permit.read_server(id).await;
    if let Err(error) = &answer {
        tracing::debug!(
            uuid = id.as_str(),
            error = error.explain(),
            "server read failed"
        );
    }
    answers::observe_read_answer(id.as_str(), &answer, at)
}

/// Adds the retained tag, if the live object still decides so and a read right before shows that the server is its own.
async fn retain(
    ctx: &ServerContext,
    facts: &ServerFacts,
    account: &Account,
    mut permit: Permit,
    id: &ServerId,
) -> ServerObservation {
    let fresh = match get_live_with_account(ctx, facts, account).await {
        Ok(fresh) => fresh,
        Err(observation) => return observation,
    };
    match permit.read_server(id).await {
        Ok(_) if is_late(facts) => too_late(),
        Ok(record) if !precondition::may_retain(&fresh, &record) => not_shown(),
        Ok(record) => change_tag(facts, &mut permit, record, RETAINED_TAG, true).await,
        Err(error) => refused(&error),
    }
}

/// Changes a tag, if a read right before shows that the object is the only owner and the change is still needed.
async fn retag(
    facts: &ServerFacts,
    permit: &mut Permit,
    id: &ServerId,
    tag: &str,
    adds: bool,
) -> ServerObservation {
    match permit.read_server(id).await {
        Ok(record) if !precondition::is_sole(facts, &record) => not_shown(),
        // A late tag change may hit a server whose state or owner has changed.
        Ok(_) if is_late(facts) => too_late(),
        Ok(record) => change_tag(facts, permit, record, tag, adds).await,
        Err(error) => refused(&error),
    }
}

/// Changes a tag of a server that was just read. The snapshot then has that read, even if an older list arrives later.
pub(super) async fn change_tag(
    facts: &ServerFacts,
    permit: &mut Permit,
    record: Server,
    tag: &str,
    adds: bool,
) -> ServerObservation {
    let id = record.id.clone();
    if !tags::is_due(&record, tag, adds) {
        return answers::observe_tag_answer(id.as_str(), tag, adds, None);
    }
    let change = async |client: &Client| match adds {
        true => client.add_tag(&id, tag).await,
        false => client.remove_tag(&id, tag).await,
    };
    let answer = permit.call(change).await;
    if let Some(record) = answers::record_after_tag_change(record, tag, adds, &answer) {
        permit.record_server(record);
    }
    match &answer {
        Ok(_) => {
            if !ownership_tags::is_operators(tag) {
                tracing::info!(
                    namespace = facts.namespace(),
                    name = facts.name(),
                    uuid = id.as_str(),
                    tag,
                    action = if adds { "Add" } else { "Remove" },
                    "tag changed"
                );
            }
        }
        Err(error) => tracing::warn!(
            namespace = facts.namespace(),
            name = facts.name(),
            uuid = id.as_str(),
            tag,
            error = error.explain(),
            "tag change failed"
        ),
    }
    answers::observe_tag_answer(id.as_str(), tag, adds, Some(&answer))
}

/// Whether the decision is too old to carry out.
pub(super) fn is_late(facts: &ServerFacts) -> bool {
    let window = facts.view().map(|view| view.times.send_window);
    window.is_none_or(|window| clock::now().elapsed_since(facts.now.mono) >= window)
}

/// The decision is too old to carry out; the next reconcile decides again.
pub(super) fn too_late() -> ServerObservation {
    ServerObservation::Failed(LastError::check_failed(
        "Not sent; too much time passed between the decision and the request",
    ))
}

/// The read right before a change does not show what the change needs.
pub(super) fn not_shown() -> ServerObservation {
    ServerObservation::Failed(LastError::check_failed(
        "Not sent; the server record read right before does not allow it",
    ))
}

/// Records the release in status with a new deadline, then reads the server and sends one DELETE before it. After an
/// interruption, the next reconcile does the same again.
async fn release(
    ctx: &ServerContext,
    facts: &ServerFacts,
    account: &Account,
    mut permit: Permit,
    id: &ServerId,
) -> ServerObservation {
    let mut fresh = match get_live_with_account(ctx, facts, account).await {
        Ok(fresh) => fresh,
        Err(observation) => return observation,
    };
    let is_begun = precondition::is_release_begun(&fresh, id.as_str());
    if fresh.deleting() && !is_begun && fresh.release_due().is_some() {
        let (time, at) = match clocks(ctx).await {
            Ok(clocks) => clocks,
            Err(observation) => return observation,
        };
        fresh.memory.server_time = Some((time, at));
        if !precondition::is_release_due(&fresh) {
            return ServerObservation::NotDue(time, at);
        }
    }
    if !precondition::may_record_release(&fresh, id.as_str()) {
        return ServerObservation::Stale;
    }
    // Only the release of a live server counts against the release limit.
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
        return ServerObservation::Stale;
    };
    let window = i64::try_from(window.as_secs().max(1)).unwrap_or(i64::MAX);
    let send_by = clock::now().wall.saturating_add(window);
    let status = release::status_with_release(&fresh, id.as_str(), send_by);
    let recorded = ctx.write_status(&fresh.object, &status).await;
    // None: status has this record already.
    let object = match recorded.unwrap_or_else(|| WriteOutcome::Done(Arc::clone(&fresh.object))) {
        WriteOutcome::Done(object) => object,
        other => return written(other),
    };
    let kind = TargetKind::BareMetalServer;
    ctx.server_commands.target_changed(kind, &object.metadata);
    let begun = ServerFacts { object, ..fresh };
    // The sender of a command records it first and reads this object then, so no command starts from here on.
    if let Err(observation) = no_command_runs(ctx, &begun).await {
        return observation;
    }
    let since = clock::now();
    let answer = permit.read_server(id).await;
    let now = clock::now();
    match answer {
        Ok(record) if record.status == ServerStatus::Released => ServerObservation::Done,
        Ok(record) => match precondition::check_release(&begun, &record, since, now) {
            Ok(()) => delete(ctx, &begun, account, permit, &record).await,
            Err(ReleaseObstacle::NotAllowed) => not_shown(),
            Err(ReleaseObstacle::TooLate) => too_late(),
        },
        Err(error) => refused(&error),
    }
}

/// Fails if a command is under way for the object. Reads the commands live.
pub(super) async fn no_command_runs(
    ctx: &ServerContext,
    facts: &ServerFacts,
) -> Result<(), ServerObservation> {
    let commands = ctx.server_commands.clone();
    let server = PowerTarget::Server {
        namespace: facts.namespace().to_owned(),
        name: facts.name().to_owned(),
    };
    match commands.under_way_now(&server).await {
        Ok(RunningCommand::Nothing) => Ok(()),
        Ok(RunningCommand::Command(_) | RunningCommand::NotListed) => Err(ServerObservation::Stale),
        Err(failure) => Err(ServerObservation::Failed(LastError::from_write(
            failure.explain(),
        ))),
    }
}

/// The live object with its live account: its policies, and whether it is stopped.
pub(super) async fn get_live_with_account(
    ctx: &ServerContext,
    facts: &ServerFacts,
    account: &Account,
) -> Result<ServerFacts, ServerObservation> {
    let fresh = get_live(ctx, facts).await?;
    Box::pin(with_live_account(ctx, account, fresh)).await
}

/// Adds the live account to the facts. Its watch may lag: the name may belong to another account object or account ID
/// by now.
pub(super) async fn with_live_account(
    ctx: &ServerContext,
    account: &Account,
    mut fresh: ServerFacts,
) -> Result<ServerFacts, ServerObservation> {
    match observe::live_account(ctx, &fresh.object, account).await {
        Ok(Some(live)) => {
            fresh.set_live(live);
            Ok(fresh)
        }
        Ok(None) => Err(ServerObservation::Failed(LastError::check_failed(
            "The account of this object no longer exists",
        ))),
        Err(failure) => Err(ServerObservation::Failed(LastError::from_write(
            failure.explain(),
        ))),
    }
}

/// The API server's clock, and the monotonic clock right before it was read.
async fn clocks(ctx: &ServerContext) -> Result<(i64, Duration), ServerObservation> {
    let at = clock::now().mono;
    let time = read_server_time(&ctx.client).await;
    let failed = |failure: ApiServerError| {
        ServerObservation::Failed(LastError::from_write(failure.explain()))
    };
    Ok((time.map_err(failed)?, at))
}

/// Deletes the object, if it has expired by the API server's clock too.
async fn expire(
    ctx: &ServerContext,
    facts: &ServerFacts,
    account: Option<&Account>,
    at: i64,
) -> ServerObservation {
    let fresh = match account {
        Some(account) => get_live_with_account(ctx, facts, account).await,
        None => get_live(ctx, facts).await,
    };
    let object = match fresh {
        Ok(fresh) if precondition::may_expire(&fresh, at) => fresh.object,
        Ok(_) => return ServerObservation::Stale,
        Err(observation) => return observation,
    };
    match clocks(ctx).await {
        Ok((time, _)) if time >= at => written(ctx.delete(&object).await),
        Ok((time, read)) => ServerObservation::NotDue(time, read),
        Err(observation) => observation,
    }
}

/// Sends the DELETE, if this process is the leader.
async fn delete(
    ctx: &ServerContext,
    facts: &ServerFacts,
    account: &Account,
    mut permit: Permit,
    record: &Server,
) -> ServerObservation {
    if !ctx.may_act() {
        return ServerObservation::Stale;
    }
    tracing::debug!(
        namespace = facts.namespace(),
        name = facts.name(),
        uuid = record.id.as_str(),
        "sending release"
    );
    let answer = permit
        .call(async |client| client.release(&record.id).await)
        .await;
    permit.record_release(&record.id, &answer);
    let observation = answers::observe_release_answer(&answer, record, clock::now().mono);
    let result = match (&answer, &observation) {
        (Ok(_), _) => "Accepted",
        (Err(Error::NotSent(_)), _) => "NotSent",
        (Err(_), ServerObservation::Released(sent))
            if matches!(sent.answer, ReleaseAnswer::Unknown(_)) =>
        {
            "OutcomeUnknown"
        }
        (Err(_), _) => "Refused",
    };
    ctx.metrics.record_release(&account.key().label(), result);
    if let Err(error) = &answer {
        tracing::info!(
            namespace = facts.namespace(),
            name = facts.name(),
            uuid = record.id.as_str(),
            result,
            error = error.explain(),
            "release request failed"
        );
    }
    observation
}

//! Carries out one effect, and returns what was observed.

use super::{CommandContext, send};
use crate::{
    account::{Account, Permit},
    controllers::{
        live_account::live_account,
        provider_commands,
        reconcile::ended,
        writes::{ApiServerError, WriteOutcome},
    },
    runtime::clock,
};
use api::{
    BareMetalServer, Reason,
    command::{CommandOutcome, CommandRecord, ListedCommands, PowerAction},
    host_install::HostInstallHistory,
    target::{Target, TargetKind},
};
use flexmetal_core::{
    account::ownership_tags,
    command::{
        decide::{CommandEffect, NewCommand, decide, may_send},
        facts::{CommandFacts, CommandObservation, TargetFact},
    },
    host_record::{against, is_switched},
    last_error::LastError,
    owner::Owner,
    provider_commands as listed,
    provider_commands::{NotListed, RequestedCommand, command_of},
    reconcile::Ended,
    wording,
};
use hosting_types::{CommandId, Error, HostId, Server, ServerId, ServerStatus, command::Command};

/// How an effect ended, and what it observed.
pub(super) type CommandEffectResult = (Ended, CommandObservation);

/// Carries out an effect, by the permit that was given for it.
pub(super) async fn act(
    ctx: &CommandContext,
    facts: &CommandFacts,
    account: Option<&Account>,
    effect: &CommandEffect,
    permit: Option<Permit>,
) -> CommandEffectResult {
    let _calling = permit.is_some().then(|| ctx.objects.count_provider_call());
    match (effect, permit, account) {
        (CommandEffect::Send(new), Some(permit), Some(account)) => {
            Box::pin(send(ctx, facts, account, new, permit)).await
        }
        (CommandEffect::ReadCommand(record), Some(mut permit), _) => {
            poll_command(facts, &mut permit, record).await
        }
        (CommandEffect::Search { record, calls }, Some(mut permit), _) => {
            search(facts, &mut permit, record, *calls).await
        }
        (CommandEffect::RemoveFinalizer, ..) => (
            remove_finalizer(ctx, facts).await,
            CommandObservation::Nothing,
        ),
        (CommandEffect::Delete, ..) => (delete(ctx, facts).await, CommandObservation::Nothing),
        (
            CommandEffect::Send(_) | CommandEffect::ReadCommand(_) | CommandEffect::Search { .. },
            ..,
        ) => failed("Internal error; a call has no permit"),
    }
}

/// Removes our finalizer. If the object is not being deleted, counts the removal.
async fn remove_finalizer(ctx: &CommandContext, facts: &CommandFacts) -> Ended {
    let ended = ctx.remove_finalizer(&facts.subject).await;
    if ended == Ended::Done && !facts.subject.is_deleting() {
        let (uid, now) = (facts.subject.uid(), clock::now().mono);
        ctx.objects
            .remember(uid, |memory| memory.finalizer_restores.record_restore(now));
    }
    ended
}

async fn delete(ctx: &CommandContext, facts: &CommandFacts) -> Ended {
    let subject = &facts.subject;
    tracing::info!(
        namespace = subject.namespace(),
        name = subject.name(),
        cause = "spec.ttlSecondsAfterFinished",
        "deleting finished command"
    );
    match ctx.delete(&subject.object).await {
        // Without a finalizer, the object is gone.
        WriteOutcome::Stale => Ended::Done,
        written => ended(written),
    }
}

/// Starts an attempt and sends the command once, after live reads of object, account and target. A server must have its
/// order tag and run no other command; a host must be the recorded one.
async fn send(
    ctx: &CommandContext,
    facts: &CommandFacts,
    account: &Account,
    new: &NewCommand,
    mut permit: Permit,
) -> CommandEffectResult {
    let stale = || (Ended::Stale, CommandObservation::Nothing);
    let since = clock::now();
    let (fresh, target) = match get_live(ctx, facts, account).await {
        Ok(fresh) => fresh,
        Err(outcome) => return outcome,
    };
    let is_due = matches!(decide(&fresh).effect, Some(CommandEffect::Send(due)) if *due == *new);
    if !is_due {
        return stale();
    }
    let checked = match &target {
        Target::Server(server) => {
            check_server_before_send(ctx, &fresh, server, new, &mut permit).await
        }
        Target::Host(host) => {
            let known = host
                .status
                .as_ref()
                .and_then(|s| s.records.install.as_ref());
            check_host_before_send(new, known, &mut permit).await
        }
    };
    let listed = match checked {
        Ok(listed) => listed,
        Err(outcome) => return outcome,
    };
    if !ctx.may_act() {
        return stale();
    }
    let window = account.view().times.send_window;
    let (record, object) = match send::start(ctx, &fresh, new, listed, (since, window)).await {
        send::CommandStart::Send(record, object) => (record, object),
        send::CommandStart::Closed(None) => return stale(),
        send::CommandStart::Closed(Some(record)) => return unsent(record),
    };
    // Whoever deletes the target, or installs or releases its server, records that first and sees this intent from here
    // on.
    let mut last = fresh;
    last.subject.object = object;
    if refresh(ctx, &mut last, account).await.is_err() {
        return unsent(record);
    }
    let is_let = may_send(&last, new)
        && send::may_send(since, &record, window)
        && account.is_current_permit_for(&permit, Some(&new.account.credentials_hash));
    if !is_let {
        return unsent(record);
    }
    // The last trace if this process ends before the answer.
    tracing::info!(
        namespace = last.subject.namespace(),
        name = last.subject.name(),
        target_kind = target.kind().as_str(),
        target_id = new.server,
        action = new.action.as_str(),
        attempt = record.intent.attempt,
        "sending command"
    );
    let log_failure = |error: &Error| {
        tracing::warn!(
            namespace = last.subject.namespace(),
            name = last.subject.name(),
            attempt = record.intent.attempt,
            error = error.explain(),
            "command request failed"
        );
    };
    match target {
        Target::Server(_) => {
            let Ok(id) = ServerId::parse(&new.server) else {
                return unsent(record);
            };
            let action = command_of(new.action);
            let answer = permit.call(async |client| client.send_command(&id, action).await);
            let answer = answer.await.inspect_err(log_failure);
            send::answered(record, answer)
        }
        Target::Host(_) => {
            let Some(id) = host_id(&new.server) else {
                return unsent(record);
            };
            let answer = permit.call(async |client| match new.action {
                PowerAction::PowerOn => client.start_host(id).await,
                PowerAction::PowerOff | PowerAction::Shutdown => client.stop_host(id).await,
                PowerAction::Reboot => client.restart_host(id).await,
            });
            let answer = answer.await.inspect_err(log_failure);
            send::answered_by_host(record, answer)
        }
    }
}

/// Checks a server right before a command, and returns a summary of its commands.
async fn check_server_before_send(
    ctx: &CommandContext,
    fresh: &CommandFacts,
    server: &BareMetalServer,
    new: &NewCommand,
    permit: &mut Permit,
) -> Result<ListedCommands, CommandEffectResult> {
    let not_now = |reason, why| {
        (
            Ended::Done,
            CommandObservation::Busy(reason, why, clock::now().mono),
        )
    };
    let busy = |why: String| not_now(Reason::Queued, why);
    let Ok(id) = ServerId::parse(&new.server) else {
        return Err(failed("The recorded server UUID is not valid"));
    };
    let blocked = match permit.read_server(&id).await {
        Ok(record) => {
            let owner = owner(ctx, server).await?;
            explain_blocked_command(&owner, server, &record)
        }
        Err(error) => return Err(not_done(&error)),
    };
    if let Some((reason, why)) = blocked {
        return Err(not_now(reason, why));
    }
    let commands = list_commands(permit, &id, new.pages).await?;
    if listed::is_done(&commands, &fresh.records()) {
        let why = format!("The shutdown of server {id} is done already");
        return Err(busy(why));
    }
    if let Some(other) = listed::running(&commands, &fresh.records(), clock::now().wall) {
        let other = other.id.as_str();
        return Err(busy(format!("Server {id} runs another command ({other})")));
    }
    match listed::summarize_commands(&commands, clock::now().wall) {
        Some(summary) => Ok(summary),
        None => Err(busy(format!(
            "Server {id} had too many commands in a minute; the record cannot hold them"
        ))),
    }
}

/// Checks that a host is the recorded one and is not being installed. The provider lists no commands of hosts.
async fn check_host_before_send(
    new: &NewCommand,
    known: Option<&HostInstallHistory>,
    permit: &mut Permit,
) -> Result<ListedCommands, CommandEffectResult> {
    let Some(id) = host_id(&new.server) else {
        return Err(failed("The recorded host number is not valid"));
    };
    let answer = permit.call(async |client| client.host(id).await);
    let host = answer.await.map_err(|error| not_done(&error))?;
    match against(&host, id.0, new.server_id, known) {
        None => Ok(ListedCommands::default()),
        Some(why) => {
            let busy = CommandObservation::Busy(Reason::Queued, why, clock::now().mono);
            Err((Ended::Done, busy))
        }
    }
}

fn host_id(number: &str) -> Option<HostId> {
    number.parse().ok().map(HostId)
}

/// The attempt ended without a request.
fn unsent(record: CommandRecord) -> CommandEffectResult {
    let record = send::unsent(record);
    (
        Ended::Stale,
        CommandObservation::Sent(record, clock::now().mono),
    )
}

/// The owner of this object's servers, with the live namespace.
async fn owner(
    ctx: &CommandContext,
    server: &BareMetalServer,
) -> Result<Owner, CommandEffectResult> {
    let of = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, name) = (of(&server.metadata.namespace), of(&server.metadata.name));
    let since = clock::now().mono;
    let read = ctx
        .namespace_uids
        .read_uid(&ctx.client, &namespace, since)
        .await;
    let uid = read.map_err(|why| {
        (
            Ended::Failed(LastError::from_write(why)),
            CommandObservation::Nothing,
        )
    })?;
    Ok(Owner::new(&ctx.cluster, &namespace, &name, &uid))
}

/// Why a server, as just read, takes no command of this object; None: it does.
fn explain_blocked_command(
    owner: &Owner,
    server: &BareMetalServer,
    record: &Server,
) -> Option<(Reason, String)> {
    let name = server.metadata.name.as_deref().unwrap_or_default();
    // With another owner's tag as well, the ownership is not settled.
    let mut owners = ownership_tags::owners(record).map(|found| found == owner.as_str());
    let is_its = owners.next() == Some(true) && owners.all(|is_own| is_own);
    let id = &record.id;
    match &record.status {
        _ if !is_its => Some((
            Reason::TagsMissing,
            format!(
                "Server {id} has the wrong order tags; BareMetalServer {name} must be its only owner. Correct the tags at the provider"
            ),
        )),
        ServerStatus::Delivered => None,
        other => Some((
            Reason::Queued,
            format!("Server {id} is {:?} at the provider", other.as_str()),
        )),
    }
}

/// The live object, with live target and account.
async fn get_live(
    ctx: &CommandContext,
    facts: &CommandFacts,
    account: &Account,
) -> Result<(CommandFacts, Target), CommandEffectResult> {
    let stale = || (Ended::Stale, CommandObservation::Nothing);
    let object = match ctx.read_object(&facts.subject.object).await {
        Ok(Some(object)) => object,
        Ok(None) => return Err(stale()),
        Err(failure) => return Err(not_read(&failure)),
    };
    let mut fresh = facts.clone();
    fresh.subject.object = object;
    refresh(ctx, &mut fresh, account).await?;
    match fresh.target.clone() {
        TargetFact::Found(target) => Ok((fresh, target)),
        _ => Err(stale()),
    }
}

/// Updates target and account with live reads.
async fn refresh(
    ctx: &CommandContext,
    fresh: &mut CommandFacts,
    account: &Account,
) -> Result<(), CommandEffectResult> {
    let reference = fresh.subject.object.account();
    match live_account(ctx, fresh.subject.namespace(), &reference, account).await {
        Ok(Some(live)) => fresh.subject.account.set_live(live),
        Ok(None) => return Err((Ended::Stale, CommandObservation::Nothing)),
        Err(failure) => return Err(not_read(&failure)),
    }
    super::observe_related(ctx, fresh).await;
    Ok(())
}

fn not_read(failure: &ApiServerError) -> CommandEffectResult {
    let last_error = LastError::from_write(failure.explain());
    (Ended::Failed(last_error), CommandObservation::Nothing)
}

/// All commands of the server.
async fn list_commands(
    permit: &mut Permit,
    id: &ServerId,
    pages: u32,
) -> Result<Vec<Command>, CommandEffectResult> {
    let list = provider_commands::list_commands(permit, id, None, pages);
    list.await.map_err(|why| match why {
        NotListed::Longer(pages) => (Ended::Done, CommandObservation::Longer(pages)),
        NotListed::Failed(last_error) => (Ended::Failed(last_error), CommandObservation::Nothing),
    })
}

fn failed(why: &str) -> CommandEffectResult {
    (
        Ended::Failed(LastError::check_failed(why)),
        CommandObservation::Nothing,
    )
}

fn not_done(error: &Error) -> CommandEffectResult {
    tracing::debug!(error = error.explain(), "command read failed");
    (
        Ended::Failed(LastError::from_provider(error)),
        CommandObservation::Nothing,
    )
}

/// Reads a command of a server, or the power state of a host.
async fn poll_command(
    facts: &CommandFacts,
    permit: &mut Permit,
    record: &CommandRecord,
) -> CommandEffectResult {
    let at = clock::now().mono;
    if facts.kind() == TargetKind::DedicatedHost {
        return match power_of(permit, record).await {
            Ok(word) => (
                Ended::Done,
                CommandObservation::CommandRead(shown(record, word), at),
            ),
            Err(outcome) => outcome,
        };
    }
    let ids = ServerId::parse(&record.intent.server).ok();
    let id = record
        .id
        .as_deref()
        .and_then(|id| CommandId::parse(id).ok());
    let Some((server, id)) = ids.zip(id) else {
        return failed("The recorded command UUID is not valid");
    };
    let answer = permit.call(async |client| client.command(&server, &id).await);
    match answer.await {
        Ok(command) => {
            let word = command.state.as_str().to_owned();
            (
                Ended::Done,
                CommandObservation::CommandRead(shown(record, word), at),
            )
        }
        Err(error) => not_done(&error),
    }
}

/// The record with the provider's current state of the command.
fn shown(record: &CommandRecord, word: String) -> CommandRecord {
    CommandRecord {
        state: Some(word),
        ..record.clone()
    }
}

/// The power state of a host in the provider's words; empty if the host has none.
async fn power_of(
    permit: &mut Permit,
    record: &CommandRecord,
) -> Result<String, CommandEffectResult> {
    let Some(id) = host_id(&record.intent.server) else {
        return Err(failed("The recorded host number is not valid"));
    };
    let answer = permit.call(async |client| client.host(id).await);
    let host = answer.await.map_err(|error| not_done(&error))?;
    Ok(host.status)
}

/// Searches for a command of unknown outcome: one that was not listed before the request, or, for a host, the requested
/// power state.
async fn search(
    facts: &CommandFacts,
    permit: &mut Permit,
    record: &CommandRecord,
    calls: u32,
) -> CommandEffectResult {
    let intent = &record.intent;
    let attempt = intent.attempt.clone();
    let at = clock::now().mono;
    if facts.kind() == TargetKind::DedicatedHost {
        let observation = match power_of(permit, record).await {
            Ok(word) if is_switched(&word, intent.action) == Some(true) => {
                let accepted = CommandRecord {
                    outcome: Some(CommandOutcome::Accepted),
                    ..shown(record, word)
                };
                CommandObservation::CommandRead(accepted, at)
            }
            Ok(_) => CommandObservation::NotListed(attempt, at),
            Err(outcome) => return outcome,
        };
        return (Ended::Done, observation);
    }
    let Ok(server) = ServerId::parse(&intent.server) else {
        return failed("The recorded server UUID is not valid");
    };
    let commands = match list_commands(permit, &server, calls).await {
        Ok(commands) => commands,
        Err(outcome) => return outcome,
    };
    let found = listed::since(
        &intent.listed,
        &commands,
        RequestedCommand::Power(intent.action),
    );
    let observation = match found.as_slice() {
        [] => CommandObservation::NotListed(attempt, at),
        [one] => CommandObservation::CommandRead(send::accepted(record.clone(), one), at),
        several => {
            let ids = several.iter().map(|command| command.id.as_str());
            CommandObservation::Several(attempt, wording::listed(ids))
        }
    };
    (Ended::Done, observation)
}

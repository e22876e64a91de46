//! Re-installs a server, which wipes its disks: records the attempt in status, then sends the request once. Status
//! suffices: an object that lost it counts the requested revision as performed and sends nothing.

use super::{ServerContext, act, ssh_keys};
use crate::{
    account::{Account, Permit},
    controllers::{provider_commands::list_commands, writes::WriteOutcome},
    runtime::clock,
};
use api::{
    BareMetalServer,
    install::{InstallHistory, InstallIntent, InstallRecord},
    server::BareMetalServerStatus,
};
use flexmetal_core::{
    attempt_state::{self, AttemptState, Closed, Reply},
    last_error::LastError,
    provider_commands::{NotListed, state_of},
    server::{
        decide::{
            NewReinstall, precondition,
            reinstall::{
                self,
                attempt::{self, ReinstallCheck},
            },
        },
        facts::ServerFacts,
        install_memory::InstallObservation,
        memory::ServerObservation,
    },
};
use hosting_types::{
    CommandId, ServerId,
    command::{Command, REINSTALLATIONS},
};
use std::sync::Arc;

/// Records a re-installation and sends it at most once, after live reads of object, account and server, and while no
/// command is under way.
pub(super) async fn reinstall(
    ctx: &ServerContext,
    facts: &ServerFacts,
    account: &Account,
    mut permit: Permit,
    id: &ServerId,
    new: &NewReinstall,
) -> ServerObservation {
    let since = clock::now();
    let fresh = match act::get_live_with_account(ctx, facts, account).await {
        Ok(fresh) => fresh,
        Err(observation) => return observation,
    };
    let Some(known) = reinstall::may_start(&fresh, new) else {
        return ServerObservation::Stale;
    };
    let window = account.view().times.send_window;
    let listed = match check_before_send(&fresh, &mut permit, id, new, &known).await {
        Ok(ReinstallCheck::Free(listed)) => listed,
        Ok(ReinstallCheck::Repeated(listed, why)) => {
            let intent = attempt::build_intent(&fresh, new, nonce(), (since, window), listed);
            return sent(attempt::close_not_repeated(intent, why, clock::now().wall));
        }
        Ok(ReinstallCheck::Busy(why)) => {
            return installs(InstallObservation::Busy(why, clock::now().mono));
        }
        Err(observation) => return observation,
    };
    if !ctx.may_act() {
        return ServerObservation::Stale;
    }
    if clock::now().elapsed_since(since.mono) >= window {
        let why = "Checks of the server right before the request took too long";
        return ServerObservation::Failed(LastError::check_failed(why));
    }
    let intent = attempt::build_intent(&fresh, new, nonce(), (since, window), listed);
    let mut attempt = ReinstallAttempt::new(&fresh, known, intent);
    match attempt.write(ctx).await {
        AttemptState::Send => {}
        AttemptState::Closed(Closed::NotStarted) => return ServerObservation::Stale,
        _ => {
            let why = "its record could not be written to status";
            return sent(attempt::close_unsent(attempt.record, why));
        }
    }
    let record = attempt.record;
    // Whoever deletes the object or sends a command records that first, and sees this intent from here on.
    let commands = act::no_command_runs(ctx, &fresh).await;
    let last = act::get_live_with_account(ctx, &fresh, account).await;
    let keys = new.request.ssh_keys.as_deref().unwrap_or_default();
    let account_id = &new.account.account_id;
    let keys_unchanged =
        ssh_keys::may_send_keys(ctx, &fresh.object, account_id, (keys, &new.key_uids)).await;
    let against = match (commands, last) {
        (Err(_), _) => Some("a ServerCommand may be under way, or their list failed"),
        (_, Err(_)) => Some("the object could not be read after it was recorded"),
        (_, Ok(last)) if !reinstall::may_send(&last, new, &record.intent) => {
            Some("the object changed after it was recorded")
        }
        _ if !attempt_state::may_send(since, record.intent.send_by, clock::now(), window) => {
            Some("it was started too long ago")
        }
        _ if !keys_unchanged => {
            Some("an SSH key of spec.sshKeys was replaced or deleted, or could not be read")
        }
        _ if !account.is_current_permit_for(&permit, Some(&new.account.credentials_hash)) => {
            Some("the account has another key or URL since it was started")
        }
        _ => None,
    };
    if let Some(why) = against {
        return sent(attempt::close_unsent(record, why));
    }
    // The last trace if this process ends before the answer.
    tracing::info!(
        namespace = fresh.namespace(),
        name = fresh.name(),
        uuid = id.as_str(),
        revision = new.revision,
        attempt = record.intent.attempt,
        "sending reinstall"
    );
    let answer = permit.call(async |client| client.reinstall(id, &new.request).await);
    let answer = answer.await;
    if let Err(error) = &answer {
        tracing::warn!(
            namespace = fresh.namespace(),
            name = fresh.name(),
            attempt = record.intent.attempt,
            error = error.explain(),
            "reinstall request failed"
        );
    }
    sent(attempt::record_answer(record, &answer))
}

fn nonce() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

async fn check_before_send(
    fresh: &ServerFacts,
    permit: &mut Permit,
    id: &ServerId,
    new: &NewReinstall,
    known: &InstallHistory,
) -> Result<ReinstallCheck, ServerObservation> {
    match permit.read_server(id).await {
        Ok(record) => {
            if let Some(why) = precondition::explain_blocked_reinstall(fresh, &record) {
                return Ok(ReinstallCheck::Busy(why));
            }
        }
        Err(error) => return Err(act::refused(&error)),
    }
    let commands = list(permit, id, new.pages).await?;
    Ok(attempt::check_commands(known, &commands, clock::now().wall))
}

async fn list(
    permit: &mut Permit,
    id: &ServerId,
    pages: u32,
) -> Result<Vec<Command>, ServerObservation> {
    let list = list_commands(permit, id, Some(REINSTALLATIONS), pages);
    list.await.map_err(|why| match why {
        NotListed::Longer(pages) => installs(InstallObservation::Longer(pages)),
        NotListed::Failed(last_error) => ServerObservation::Failed(last_error),
    })
}

fn installs(observation: InstallObservation) -> ServerObservation {
    ServerObservation::Reinstall(observation)
}

/// An attempt of this work item.
struct ReinstallAttempt {
    /// The object version that the next write is based on.
    object: Arc<BareMetalServer>,
    record: InstallRecord,
    status: BareMetalServerStatus,
}

impl ReinstallAttempt {
    fn new(fresh: &ServerFacts, known: InstallHistory, intent: InstallIntent) -> Self {
        let record = InstallRecord::unfinished(intent);
        let status = attempt::status_with_attempt(fresh, attempt::record_attempt(known, &record));
        Self {
            object: fresh.object.clone(),
            record,
            status,
        }
    }

    /// Writes the intent step by step, until it may be sent or is closed.
    async fn write(&mut self, ctx: &ServerContext) -> AttemptState {
        // Metadata needs no write: the object keeps its finalizer as long as it has its server.
        let mut state = AttemptState::WriteStatus;
        loop {
            let reply = match state {
                AttemptState::WriteStatus => {
                    match ctx.write_status(&self.object, &self.status).await {
                        Some(WriteOutcome::Done(object)) => {
                            self.object = object;
                            Reply::Done
                        }
                        // A new nonce is always a difference, so None means that nothing was written.
                        Some(WriteOutcome::Stale) | None => {
                            return AttemptState::Closed(Closed::NotStarted);
                        }
                        Some(WriteOutcome::Unknown(failure)) => {
                            tracing::warn!(
                                namespace = self.object.metadata.namespace,
                                name = self.object.metadata.name,
                                error = &failure as &dyn std::error::Error,
                                "reinstall record unconfirmed"
                            );
                            Reply::Unknown
                        }
                    }
                }
                AttemptState::ReadStatus => self.read_object(ctx).await,
                AttemptState::WriteMetadata | AttemptState::ReadMetadata => Reply::Stale,
                AttemptState::Send | AttemptState::Closed(_) => return state,
            };
            state = state.after(reply);
        }
    }

    /// Reads the object and compares it with the attempt.
    async fn read_object(&mut self, ctx: &ServerContext) -> Reply {
        let Ok(found) = ctx.read_object(&self.object).await else {
            return Reply::Unknown;
        };
        let Some(found) = found else {
            return Reply::Stale;
        };
        let reply = attempt::reply_from_read(&found, &self.record.intent);
        self.object = found;
        reply
    }
}

fn sent(record: InstallRecord) -> ServerObservation {
    installs(InstallObservation::Sent(
        Box::new(record),
        clock::now().mono,
    ))
}

/// Polls a re-installation, or searches for its command.
pub(super) async fn poll_reinstall(
    permit: &mut Permit,
    id: &ServerId,
    record: &InstallRecord,
    pages: u32,
) -> ServerObservation {
    let at = clock::now().mono;
    let known = record.command_id.as_deref();
    let found = match known.and_then(|id| CommandId::parse(id).ok()) {
        Some(command) => {
            let answer = permit.call(async |client| client.command(id, &command).await);
            match answer.await {
                Ok(command) => attempt::observe_command(record, &command, at),
                Err(error) => return act::refused(&error),
            }
        }
        None => match list(permit, id, pages).await {
            Ok(commands) => attempt::observe_command_list(record, &commands, at),
            Err(observation) => return observation,
        },
    };
    // After its end the server is read too, since the last read is from before.
    if let InstallObservation::Polled(record, _) = &found
        && state_of(record.state.as_deref()).is_over()
        && let Err(error) = permit.read_server(id).await
    {
        return act::refused(&error);
    }
    installs(found)
}

//! The one effect that wipes a disk: the note that a machine is installed again, and the request, once.
//!
//! The steps are those of [`once::Stage`]. The intent stands in status alone: an object that lost its status counts the
//! revision that it asks for as performed and sends nothing, so a second trace would stop nothing more. What stands in
//! metadata beside it is whose machine it is: the finalizer and the finalizer.

use super::{ServerContext, act, ssh_keys};
use crate::{
    account::{Account, Permit},
    controllers::{machine_commands::commands_of, writes::Written},
    runtime::clock,
};
use api::{
    BareMetalServer,
    install::{InstallHistory, InstallIntent, InstallRecord},
    server::BareMetalServerStatus,
};
use flexmetal_core::{
    machine_commands::{NotListed, state_of},
    once::{self, Closed, Reply, Stage},
    server::{
        decide::{
            NewInstall, fence,
            reinstall::{
                self,
                attempt::{self, Before},
            },
        },
        facts::Facts,
        install_memory::InstallObservation,
        memory::Observation,
    },
    trouble::Trouble,
};
use hosting_types::{
    CommandId, ServerId,
    command::{Command, REINSTALLATIONS},
};
use std::sync::Arc;

/// Notes that the machine is installed again, and sends the request at most once: on object, account and machine read right
/// before, while no command is under way.
pub(super) async fn reinstall(
    ctx: &ServerContext,
    facts: &Facts,
    account: &Account,
    mut permit: Permit,
    id: &ServerId,
    new: &NewInstall,
) -> Observation {
    let since = clock::now();
    let fresh = match reread(ctx, facts, account).await {
        Ok(fresh) => fresh,
        Err(observation) => return observation,
    };
    let Some(known) = reinstall::may_start(&fresh, new) else {
        return Observation::Stale;
    };
    let window = account.view().times.send_window;
    let listed = match look_before(&fresh, &mut permit, id, new, &known).await {
        Ok(Before::Free(listed)) => listed,
        Ok(Before::Repeated(listed, why)) => {
            let intent = attempt::intent(&fresh, new, nonce(), (since, window), listed);
            return sent(attempt::repeated(intent, why, clock::now().wall));
        }
        Ok(Before::Busy(why)) => {
            return installs(InstallObservation::Busy(why, clock::now().mono));
        }
        Err(observation) => return observation,
    };
    if !ctx.may_act() {
        return Observation::Stale;
    }
    if clock::now().since(since.mono) >= window {
        let why = "Checks of the server right before the request took too long";
        return Observation::Failed(Trouble::unexpected(why));
    }
    let intent = attempt::intent(&fresh, new, nonce(), (since, window), listed);
    let mut attempt = Attempt::new(&fresh, known, intent);
    match attempt.write(ctx).await {
        Stage::Send => {}
        Stage::Closed(Closed::NotStarted) => return Observation::Stale,
        _ => {
            let why = "its record could not be written to status";
            return sent(attempt::unsent(attempt.record, why));
        }
    }
    let record = attempt.record;
    // What came in between: whoever ends the object or sends a command notes that first, and sees this intent from here on.
    let commands = act::no_command_runs(ctx, &fresh).await;
    let last = reread(ctx, &fresh, account).await;
    let keys = new.request.ssh_keys.as_deref().unwrap_or_default();
    let lineage = &new.account.lineage;
    let keys_stand = ssh_keys::stand(ctx, &fresh.object, lineage, (keys, &new.key_uids)).await;
    let against = match (commands, last) {
        (Err(_), _) => Some("a ServerCommand may be under way, or their list failed"),
        (_, Err(_)) => Some("the object could not be read after it was recorded"),
        (_, Ok(last)) if !reinstall::may_send(&last, new, &record.intent) => {
            Some("the object changed after it was recorded")
        }
        _ if !once::may_send(since, record.intent.send_by, clock::now(), window) => {
            Some("it was started too long ago")
        }
        _ if !keys_stand => {
            Some("an SSH key of spec.sshKeys was replaced or deleted, or could not be read")
        }
        _ if !account.stands_on(&permit, Some(&new.account.connection)) => {
            Some("the account has another key or URL since it was started")
        }
        _ => None,
    };
    if let Some(why) = against {
        return sent(attempt::unsent(record, why));
    }
    // The last that is known if this process ends before the answer.
    tracing::info!(
        namespace = fresh.namespace(),
        name = fresh.name(),
        uuid = id.as_str(),
        revision = new.revision,
        attempt = record.intent.attempt,
        "sending a re-installation"
    );
    let answer = permit.call(async |client| client.reinstall(id, &new.request).await);
    let answer = answer.await;
    if let Err(error) = &answer {
        tracing::warn!(
            attempt = record.intent.attempt,
            error = error.explain(),
            "a re-installation was refused, or its answer was lost"
        );
    }
    sent(attempt::answered(record, &answer))
}

fn nonce() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

async fn reread(
    ctx: &ServerContext,
    facts: &Facts,
    account: &Account,
) -> Result<Facts, Observation> {
    let fresh = act::reread(ctx, facts).await?;
    act::with_live_account(ctx, account, fresh).await
}

async fn look_before(
    fresh: &Facts,
    permit: &mut Permit,
    id: &ServerId,
    new: &NewInstall,
    known: &InstallHistory,
) -> Result<Before, Observation> {
    match permit.read(id).await {
        Ok(record) => {
            if let Some(why) = fence::against_reinstall(fresh, &record) {
                return Ok(Before::Busy(why));
            }
        }
        Err(error) => return Err(act::refused(&error, "cannot read a server")),
    }
    let commands = list(permit, id, new.pages).await?;
    Ok(attempt::before(known, &commands, clock::now().wall))
}

async fn list(permit: &mut Permit, id: &ServerId, pages: u32) -> Result<Vec<Command>, Observation> {
    let list = commands_of(permit, id, Some(REINSTALLATIONS), pages);
    list.await.map_err(|why| match why {
        NotListed::Longer(pages) => installs(InstallObservation::Longer(pages)),
        NotListed::Failed(trouble) => Observation::Failed(trouble),
    })
}

fn installs(observation: InstallObservation) -> Observation {
    Observation::Installs(observation)
}

/// An attempt that this pass started.
struct Attempt {
    /// The object that the next write rests on.
    object: Arc<BareMetalServer>,
    record: InstallRecord,
    status: BareMetalServerStatus,
}

impl Attempt {
    fn new(fresh: &Facts, known: InstallHistory, intent: InstallIntent) -> Self {
        let record = InstallRecord::open(intent);
        let status = attempt::status(fresh, attempt::noted(known, &record));
        Self {
            object: fresh.object.clone(),
            record,
            status,
        }
    }

    /// Writes the intent, stage by stage, until it may be sent or is closed.
    async fn write(&mut self, ctx: &ServerContext) -> Stage {
        // What metadata has to say stands there for as long as the object has its machine.
        let mut stage = Stage::WriteStatus;
        loop {
            let reply = match stage {
                Stage::WriteStatus => match ctx.write_status(&self.object, &self.status).await {
                    Some(Written::Done(object)) => {
                        self.object = object;
                        Reply::Done
                    }
                    // Without a difference, which a new nonce is, nothing was written.
                    Some(Written::Stale) | None => return Stage::Closed(Closed::NotStarted),
                    Some(Written::Unknown(failure)) => {
                        tracing::warn!(
                            error = &failure as &dyn std::error::Error,
                            "the answer to the write that starts a re-installation was lost"
                        );
                        Reply::Unknown
                    }
                },
                Stage::ReadStatus => self.read(ctx).await,
                Stage::WriteMetadata | Stage::ReadMetadata => Reply::Stale,
                Stage::Send | Stage::Closed(_) => return stage,
            };
            stage = stage.after(reply);
        }
    }

    /// What a read says.
    async fn read(&mut self, ctx: &ServerContext) -> Reply {
        let Ok(found) = ctx.read(&self.object).await else {
            return Reply::Unknown;
        };
        let Some(found) = found else {
            return Reply::Stale;
        };
        let reply = attempt::shown(&found, &self.record.intent);
        self.object = found;
        reply
    }
}

fn sent(record: InstallRecord) -> Observation {
    installs(InstallObservation::Sent(
        Box::new(record),
        clock::now().mono,
    ))
}

/// Looks how far a re-installation is, or for the command by which it goes on.
pub(super) async fn look(
    permit: &mut Permit,
    id: &ServerId,
    record: &InstallRecord,
    pages: u32,
) -> Observation {
    let at = clock::now().mono;
    let known = record.command_id.as_deref();
    let found = match known.and_then(|id| CommandId::parse(id).ok()) {
        Some(command) => {
            let answer = permit.call(async |client| client.command(id, &command).await);
            match answer.await {
                Ok(command) => attempt::looked(record, &command, at),
                Err(error) => return act::refused(&error, "cannot read a re-installation"),
            }
        }
        None => match list(permit, id, pages).await {
            Ok(commands) => attempt::found(record, &commands, at),
            Err(observation) => return observation,
        },
    };
    // Of one that is over the machine is read as well: what was seen of it is of before.
    if let InstallObservation::Looked(record, _) = &found
        && state_of(record.state.as_deref()).is_over()
        && let Err(error) = permit.read(id).await
    {
        return act::refused(&error, "cannot read a server");
    }
    installs(found)
}

//! The one effect that wipes a disk: the note that a machine is installed again, and the request, once.
//!
//! The steps are those of [`once::Stage`]. The intent stands in status alone: an object that lost its status counts the
//! revision that it asks for as performed and sends nothing, so a second trace would stop nothing more. What stands in
//! metadata beside it is whose machine it is: the finalizer and the order annotation.

use super::{
    ServerContext, act,
    decide::{NewInstall, fence, reinstall},
    facts::{Facts, has_finalizer},
    install_memory::InstallObservation,
    memory::Observation,
    ssh_keys,
};
use crate::{
    account::{Account, Permit},
    controllers::{
        machine_commands::{
            self as listed, Asked,
            pages::{NotListed, commands_of},
        },
        once::{self, Closed, Reply, Stage},
        writes::Written,
    },
    kinds::{
        BareMetalServer,
        command::{CommandOutcome, ListedCommands},
        reinstall::{InstallEnd, InstallIntent, InstallRecord, InstallStatus},
        server::BareMetalServerStatus,
        wording,
    },
    runtime::{Moment, clock},
};
use hosting::{
    CommandId, Error, Server, ServerId,
    command::{Command, REINSTALLATIONS},
};
use std::{sync::Arc, time::Duration};

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
    let listed = match look_before(&fresh, &mut permit, id, new, &known).await {
        Ok(Before::Free(listed)) => listed,
        Ok(Before::Repeated(listed, why)) => {
            return repeated(intent(&fresh, new, since, account, listed), why);
        }
        Err(observation) => return observation,
    };
    if !ctx.may_act(Some(fresh.namespace())) {
        return Observation::Stale;
    }
    let window = account.view().times.send_window;
    let intent = intent(&fresh, new, since, account, listed);
    let mut attempt = Attempt::new(&fresh, known, intent);
    match attempt.write(ctx).await {
        Stage::Send => {}
        Stage::Closed(Closed::NotStarted) => return Observation::Stale,
        _ => return unsent(attempt.record),
    }
    let record = attempt.record;
    // What came in between: whoever ends the object or sends a command notes that first, and sees this intent from here on.
    let is_let = match act::no_command_runs(ctx, &fresh).await {
        Ok(()) => match reread(ctx, &fresh, account).await {
            Ok(last) => reinstall::may_send(&last, new, &record.intent),
            Err(_) => false,
        },
        Err(_) => false,
    };
    let keys = new.request.ssh_keys.as_deref().unwrap_or_default();
    let is_let = is_let
        && once::may_send(since, record.intent.send_by, clock::now(), window)
        && ssh_keys::stand(&ctx.stored_keys, &fresh.object, &new.account.lineage, keys)
        && account.stands_on(&permit, Some(&new.account.connection));
    if !is_let {
        return unsent(record);
    }
    // The last that is known if this process ends before the answer.
    tracing::info!(
        namespace = fresh.namespace(),
        name = fresh.name(),
        machine = id.as_str(),
        revision = new.revision,
        attempt = record.intent.attempt,
        "sending a re-installation"
    );
    let answer = permit.call(async |client| client.reinstall(id, &new.request).await);
    answered(record, answer.await)
}

async fn reread(
    ctx: &ServerContext,
    facts: &Facts,
    account: &Account,
) -> Result<Facts, Observation> {
    let fresh = act::reread(ctx, facts).await?;
    act::with_live_account(ctx, account, fresh).await
}

/// What a machine shows right before.
enum Before {
    /// Nothing stands against it; with its re-installations up to now.
    Free(ListedCommands),
    /// It was installed again by somebody whom nobody here knows: in words.
    Repeated(ListedCommands, String),
}

async fn look_before(
    fresh: &Facts,
    permit: &mut Permit,
    id: &ServerId,
    new: &NewInstall,
    known: &InstallStatus,
) -> Result<Before, Observation> {
    let busy = |why: String| installs(InstallObservation::Busy(why, clock::now().mono));
    match permit.read(id).await {
        Ok(record) => {
            if let Some(why) = fence::against_reinstall(fresh, &record) {
                return Err(busy(why));
            }
        }
        Err(error) => return Err(act::refused(&error, "a machine could not be read")),
    }
    let commands = list(permit, id, new.pages).await?;
    let now = clock::now().wall;
    if let Some(other) = listed::running(&commands, &[], now) {
        let other = other.id.as_str();
        return Err(busy(format!(
            "machine {id} is being installed by another request, command {other}"
        )));
    }
    let Some(noted) = listed::noted(&commands, now) else {
        return Err(busy(format!(
            "machine {id} has had more re-installations within a minute than can be noted"
        )));
    };
    let last = known.last.as_ref();
    let before = last.map(|last| &last.intent.listed);
    let its = last.and_then(|last| last.command_id.as_deref());
    let strange = listed::unaccounted(before, its, known.since, &commands);
    Ok(match strange.as_slice() {
        [] => Before::Free(noted),
        strange => {
            let ids = strange.iter().map(|command| command.id.as_str());
            let why = format!(
                "the machine was installed again by {}, which this object knows nothing of: by somebody else, or by an operator whose record is lost",
                wording::listed(ids)
            );
            Before::Repeated(noted, why)
        }
    })
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

fn intent(
    fresh: &Facts,
    new: &NewInstall,
    since: Moment,
    account: &Account,
    listed: ListedCommands,
) -> InstallIntent {
    let window = account.view().times.send_window.as_secs();
    InstallIntent {
        uid: fresh.uid().to_owned(),
        machine: new.machine.clone(),
        revision: new.revision,
        wipe_disk: fresh.object.spec.install.unwrap_or_default().wipes_disk(),
        attempt: uuid::Uuid::new_v4().simple().to_string(),
        started_at: since.wall,
        send_by: since
            .wall
            .saturating_add(i64::try_from(window).unwrap_or(i64::MAX)),
        account: new.account.clone(),
        listed,
        sent: new.sent.clone(),
    }
}

/// An attempt that this pass started.
struct Attempt {
    /// The object that the next write rests on.
    object: Arc<BareMetalServer>,
    record: InstallRecord,
    status: BareMetalServerStatus,
}

impl Attempt {
    fn new(fresh: &Facts, known: InstallStatus, intent: InstallIntent) -> Self {
        let record = InstallRecord::open(intent);
        let install = InstallStatus {
            revision: known.performed(),
            last: Some(record.clone()),
            ..known
        };
        Self {
            object: fresh.object.clone(),
            record,
            status: BareMetalServerStatus {
                install: Some(install),
                ..fresh.status()
            },
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
        let status = found.status.as_ref().and_then(|s| s.install.as_ref());
        let last = status.and_then(|install| install.last.as_ref());
        let reply = Reply::Shows {
            metadata: has_finalizer(&found),
            status: last.is_some_and(|last| last.intent == self.record.intent),
        };
        self.object = found;
        reply
    }
}

/// It was not sent by this attempt, which has ended.
fn unsent(record: InstallRecord) -> Observation {
    let record = InstallRecord {
        outcome: Some(CommandOutcome::NotSent),
        ..record
    };
    sent(record)
}

/// It is not sent at all: somebody else did that, or an operator whose record is lost.
fn repeated(intent: InstallIntent, why: String) -> Observation {
    sent(InstallRecord {
        end: Some(InstallEnd::NotRepeated),
        ended_at: Some(clock::now().wall),
        message: Some(why),
        ..InstallRecord::open(intent)
    })
}

fn sent(record: InstallRecord) -> Observation {
    installs(InstallObservation::Sent(
        Box::new(record),
        clock::now().mono,
    ))
}

/// What an answer says.
fn answered(record: InstallRecord, answer: Result<Server, Error>) -> Observation {
    let of = |outcome, message: Option<String>| {
        sent(InstallRecord {
            outcome,
            message,
            ..record.clone()
        })
    };
    let error = match answer {
        Ok(_) => return of(Some(CommandOutcome::Accepted), None),
        Err(error) => error,
    };
    tracing::warn!(
        attempt = record.intent.attempt,
        error = error.explain(),
        "a re-installation was not taken, or its answer was lost"
    );
    // A 409 among them: what it says of is another request, or this one.
    if error.may_have_taken_effect() {
        return of(None, None);
    }
    let outcome = match &error {
        // It goes on when the key works, or there is room, or there is a connection.
        Error::AccessDenied(_) | Error::RateLimited(_) | Error::NotSent(_) => {
            CommandOutcome::NotSent
        }
        _ => CommandOutcome::Refused,
    };
    of(Some(outcome), Some(error.explain()))
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
    if let Some(command) = known.and_then(|id| CommandId::parse(id).ok()) {
        let answer = permit.call(async |client| client.command(id, &command).await);
        return match answer.await {
            Ok(command) => looked(permit, id, record, &command, at).await,
            Err(error) => act::refused(&error, "a look at a re-installation failed"),
        };
    }
    let commands = match list(permit, id, pages).await {
        Ok(commands) => commands,
        Err(observation) => return observation,
    };
    let intent = &record.intent;
    let found = listed::since(&intent.listed, &commands, Asked::Installation);
    let attempt = intent.attempt.clone();
    installs(match found.as_slice() {
        [] => InstallObservation::NotListed(attempt, at),
        [one] => return looked(permit, id, record, one, at).await,
        several => {
            let ids = several.iter().map(|command| command.id.as_str());
            InstallObservation::Several(attempt, wording::listed(ids))
        }
    })
}

/// What a command shows. Of one that is over the machine is read as well: what was seen of it is of before.
async fn looked(
    permit: &mut Permit,
    id: &ServerId,
    record: &InstallRecord,
    command: &Command,
    at: Duration,
) -> Observation {
    if command.state.is_over()
        && let Err(error) = permit.read(id).await
    {
        return act::refused(&error, "a machine could not be read");
    }
    let record = InstallRecord {
        outcome: Some(CommandOutcome::Accepted),
        command_id: Some(command.id.as_str().to_owned()),
        state: Some(command.state.as_str().to_owned()),
        ..record.clone()
    };
    installs(InstallObservation::Looked(Box::new(record), at))
}

//! Switching and restarting a host: the note in status, then one request, once.

use super::{
    HostContext,
    act::{Done, busy, ended, failed, nonce, read_host, reread, stale},
    note::note,
};
use crate::{
    account::{Account, Permit},
    runtime::clock,
};
use api::{
    command::CommandOutcome,
    host_power::{HostAction, HostCommand},
};
use flexmetal_core::{
    host::{
        decide::{
            attempt,
            power::{self, NewCommand},
        },
        facts::{Facts, Observation},
    },
    once::{self, Closed, Stage},
    pass::Ended,
    trouble::Trouble,
};
use hosting_types::{Error, HostId, host::HostResult};

/// Sends a command at most once: on object, account and host as they were read right before.
pub(super) async fn send(
    ctx: &HostContext,
    facts: &Facts,
    account: &Account,
    mut permit: Permit,
    new: &NewCommand,
) -> Done {
    let since = clock::now();
    let window = account.view().times.send_window;
    let fresh = match reread(ctx, facts, account).await {
        Ok(fresh) => fresh,
        Err(done) => return done,
    };
    let Some(known) = power::may_start(&fresh, new) else {
        return stale();
    };
    let id = HostId(new.host);
    let host = match read_host(&mut permit, id).await {
        Ok(host) => host,
        Err(done) => return done,
    };
    if let Some(why) = attempt::against(&host, new.host, new.server_id) {
        return busy(&fresh, false, &why);
    }
    if !ctx.may_act() {
        return stale();
    }
    if clock::now().since(since.mono) >= window {
        let why = "the looks at the host right before took too long";
        return failed(Trouble::unexpected(why));
    }
    let command = attempt::command(new, nonce(), (since, window));
    let status = attempt::commanding(&fresh, known, new, &command);
    let object = fresh.subject.object.clone();
    let shown = |object: &_| attempt::shown_command(object, &command);
    match note(ctx, object, &status, shown).await {
        Stage::Send => {}
        Stage::Closed(Closed::NotStarted) => return stale(),
        _ => {
            let why = "that it is under way could not be noted in the object's status";
            return unsent(command, why);
        }
    }
    // One that was lost had its effect after all, or somebody else has switched the host since it was read.
    if new.attempts > 1
        && (power::shows(&host, new.action) || is_done(&mut permit, id, new.action).await)
    {
        let command = HostCommand {
            outcome: Some(CommandOutcome::Accepted),
            ..command
        };
        return told(Ended::Done, command);
    }
    let against = match reread(ctx, &fresh, account).await {
        Err(_) => Some("object or account could not be read after it was noted"),
        Ok(last) if !power::may_send(&last, new, &command) => {
            Some("object or account changed after it was noted")
        }
        Ok(_) if !once::may_send(since, command.send_by, clock::now(), window) => {
            Some("it was started too long ago")
        }
        Ok(_) if !account.stands_on(&permit, Some(&new.account.connection)) => {
            Some("the account has another key or URL since it was started")
        }
        Ok(_) if !ctx.may_act() => Some("this operator does not act there any more"),
        Ok(_) => None,
    };
    if let Some(why) = against {
        return unsent(command, why);
    }
    // The last that is known if this process ends before the answer.
    tracing::info!(
        namespace = fresh.subject.namespace(),
        name = fresh.subject.name(),
        host = new.host,
        action = ?new.action,
        attempt = command.attempt,
        "sending a command to a host"
    );
    let answer = request(&mut permit, id, new.action).await;
    if let Err(error) = &answer {
        tracing::warn!(
            attempt = command.attempt,
            error = error.explain(),
            "a command to a host was not taken, or its answer was lost"
        );
    }
    told(ended(&answer), attempt::answered_command(command, &answer))
}

/// Whether the host is by now what a command is to make of it. Where that cannot be read, the record of right before counts.
async fn is_done(permit: &mut Permit, id: HostId, action: HostAction) -> bool {
    let call = permit.call_maybe_forbidden(async |client| client.host_status(id).await);
    match call.await {
        Ok(shown) => power::is_done(&shown.result, action),
        Err(error) => {
            tracing::debug!(
                host = id.0,
                error = error.explain(),
                "whether a host runs could not be read"
            );
            false
        }
    }
}

async fn request(permit: &mut Permit, id: HostId, action: HostAction) -> Result<HostResult, Error> {
    let call = permit.call_maybe_forbidden(async |client| match action {
        HostAction::Start => client.start_host(id).await,
        HostAction::Stop => client.stop_host(id).await,
        HostAction::Restart => client.restart_host(id).await,
    });
    call.await
}

fn unsent(command: HostCommand, why: &str) -> Done {
    told(Ended::Stale, attempt::unsent_command(command, why))
}

fn told(ended: Ended, command: HostCommand) -> Done {
    let at = clock::now().mono;
    (ended, Observation::Commanded(Box::new(command), at))
}

//! Carries out one effect, and returns what was observed.

use super::{
    CommandContext,
    decide::{Effect, NewCommand, decide},
    facts::{Facts, Observation, ServerFact},
    listed::{self, command_of},
    send,
};
use crate::{
    account::{Account, Permit},
    controllers::{
        mark::marks_of,
        pass::{Ended, ended},
        trouble::Trouble,
        writes::Written,
    },
    kinds::{BareMetalServer, command::CommandRecord, wording},
    runtime::clock,
};
use futures::FutureExt as _;
use hosting::{
    CommandId, Error, ServerId, ServerStatus,
    command::Command,
    listing::{Gap, Listing},
};
use std::sync::Arc;
use tokio::sync::Mutex;

/// Pages of a machine's commands that are read at most.
pub(super) const MOST_PAGES: u32 = 8;

/// What an effect comes to.
type Outcome = (Ended, Observation);

/// Carries out an effect, by the permit that was given for it.
pub(super) async fn act(
    ctx: &CommandContext,
    facts: &Facts,
    account: Option<&Account>,
    effect: &Effect,
    permit: Option<Permit>,
) -> Outcome {
    let _calling = permit.is_some().then(|| ctx.objects.call_provider());
    match (effect, permit, account) {
        (Effect::Send(new), Some(permit), Some(account)) => {
            Box::pin(send(ctx, facts, account, new, permit)).await
        }
        (Effect::Look(record), Some(mut permit), _) => look(&mut permit, record).await,
        (Effect::Search(record), Some(permit), _) => search(permit, record).await,
        (Effect::LetGo, ..) => (ctx.let_go(&facts.subject).await, Observation::Nothing),
        (Effect::Delete, ..) => (delete(ctx, facts).await, Observation::Nothing),
        (Effect::Send(_) | Effect::Look(_) | Effect::Search(_), ..) => {
            failed("a call was due without a permit")
        }
    }
}

fn failed(why: &str) -> Outcome {
    (
        Ended::Failed(Trouble::unexpected(why)),
        Observation::Nothing,
    )
}

fn not_done(error: &Error) -> Outcome {
    tracing::debug!(error = error.explain(), "a look at a command failed");
    (
        Ended::Failed(Trouble::of_provider(error)),
        Observation::Nothing,
    )
}

async fn delete(ctx: &CommandContext, facts: &Facts) -> Ended {
    let subject = &facts.subject;
    tracing::info!(
        namespace = subject.namespace(),
        name = subject.name(),
        "a command that is over is deleted (spec.ttlSecondsAfterFinished)"
    );
    match ctx.delete(&subject.object, false).await {
        // Nothing holds it: it is gone.
        Written::Stale => Ended::Done,
        written => ended(written),
    }
}

/// Starts an attempt, and sends the command once: on object and server read right before, on a machine that bears the
/// mark of that server and runs no other command.
async fn send(
    ctx: &CommandContext,
    facts: &Facts,
    account: &Account,
    new: &NewCommand,
    mut permit: Permit,
) -> Outcome {
    let (fresh, server) = match reread(ctx, facts).await {
        Ok(fresh) => fresh,
        Err(outcome) => return outcome,
    };
    let is_due = matches!(decide(&fresh).effect, Some(Effect::Send(due)) if *due == *new);
    if !is_due {
        return (Ended::Stale, Observation::Nothing);
    }
    let Ok(id) = ServerId::parse(&new.machine) else {
        return failed("what is recorded is no UUID of a machine");
    };
    match permit.read(&id).await {
        Ok(record) => {
            let meta = &server.metadata;
            let name = meta.name.as_deref().unwrap_or_default();
            let mark = ctx
                .cluster
                .object_mark(fresh.subject.namespace(), name, &new.server);
            let mut marks = marks_of(&record.tags);
            // The mark of another object beside it: whose machine it is is not settled.
            let is_its = marks.any(|(found, _)| found == mark)
                && marks_of(&record.tags).all(|(found, _)| found == mark);
            if !is_its {
                let why = format!("machine {id} does not bear the tag of BareMetalServer {name}");
                return (Ended::Done, Observation::Busy(why, clock::now().mono));
            }
            if record.status != ServerStatus::Delivered {
                let why = format!(
                    "the provider says of machine {id}: {}",
                    record.status.as_str()
                );
                return (Ended::Done, Observation::Busy(why, clock::now().mono));
            }
        }
        Err(error) => return not_done(&error),
    }
    let permit = Mutex::new(permit);
    let commands = match commands_of(&permit, &id).await {
        Ok(commands) => commands,
        Err(outcome) => return outcome,
    };
    let now = clock::now();
    if let Some(other) = listed::running(&commands, now.wall) {
        let why = format!("machine {id} runs another command, {}", other.id.as_str());
        return (Ended::Done, Observation::Busy(why, now.mono));
    }
    let Some(noted) = listed::noted(&commands) else {
        let why = format!("machine {id} has had more commands within an hour than can be noted");
        return (Ended::Done, Observation::Busy(why, now.mono));
    };
    if !ctx.may_act(Some(fresh.subject.namespace())) {
        return (Ended::Stale, Observation::Nothing);
    }
    let window = account.view().times.send_window;
    let record = match send::start(ctx, &fresh, new, noted, window).await {
        send::Started::Send(record) => record,
        send::Started::Closed(None) => return (Ended::Stale, Observation::Nothing),
        send::Started::Closed(Some(record)) => {
            return (Ended::Stale, Observation::Sent(record, clock::now().mono));
        }
    };
    let mut permit = permit.into_inner();
    if !account.stands_on(&permit, Some(&new.account.connection)) {
        let record = send::unsent(record);
        return (Ended::Stale, Observation::Sent(record, clock::now().mono));
    }
    // The last that is known if this process ends before the answer.
    tracing::info!(
        namespace = fresh.subject.namespace(),
        name = fresh.subject.name(),
        machine = id.as_str(),
        command = command_of(new.action).as_str(),
        attempt = record.intent.attempt,
        "sending a command"
    );
    let action = command_of(new.action);
    let answer = permit.call(async |client| client.send_command(&id, action).await);
    send::answered(record, answer.await)
}

/// Object, server and namespace as they are now.
async fn reread(
    ctx: &CommandContext,
    facts: &Facts,
) -> Result<(Facts, Arc<BareMetalServer>), Outcome> {
    let stale = || (Ended::Stale, Observation::Nothing);
    let object = match ctx.read(&facts.subject.object).await {
        Ok(Some(object)) => object,
        Ok(None) => return Err(stale()),
        Err(failure) => {
            let trouble = Trouble::of_write(failure.explain());
            return Err((Ended::Failed(trouble), Observation::Nothing));
        }
    };
    let mut fresh = facts.clone();
    fresh.subject.object = object;
    super::look_around(ctx, &mut fresh).await;
    match fresh.server.clone() {
        ServerFact::Found(server) => Ok((fresh, server)),
        _ => Err(stale()),
    }
}

/// The commands of a machine, the whole list.
async fn commands_of(permit: &Mutex<Permit>, id: &ServerId) -> Result<Vec<Command>, Outcome> {
    let pages = Listing::of_commands(move |page| {
        async move {
            let mut permit = permit.lock().await;
            let page = permit.call(async |client| client.commands(id, None, page).await);
            Ok(page.await?)
        }
        .boxed()
    });
    match pages.collect().await {
        Ok(all) => Ok(all.into_records()),
        Err(incomplete) => Err(match incomplete.gap {
            Gap::Failed(error) => not_done(&error),
            gap => failed(&gap.to_string()),
        }),
    }
}

/// Looks at a command that the provider has.
async fn look(permit: &mut Permit, record: &CommandRecord) -> Outcome {
    let ids = ServerId::parse(&record.intent.machine).ok();
    let id = record
        .id
        .as_deref()
        .and_then(|id| CommandId::parse(id).ok());
    let Some((machine, id)) = ids.zip(id) else {
        return failed("what is recorded is no UUID of a command");
    };
    let at = clock::now().mono;
    let answer = permit.call(async |client| client.command(&machine, &id).await);
    match answer.await {
        Ok(command) => {
            let record = CommandRecord {
                state: Some(command.state.as_str().to_owned()),
                ..record.clone()
            };
            (Ended::Done, Observation::Looked(record, at))
        }
        Err(error) => not_done(&error),
    }
}

/// Looks for a command of unknown outcome: the one that was not there when it was sent.
async fn search(permit: Permit, record: &CommandRecord) -> Outcome {
    let intent = &record.intent;
    let Ok(machine) = ServerId::parse(&intent.machine) else {
        return failed("what is recorded is no UUID of a machine");
    };
    let at = clock::now().mono;
    let commands = match commands_of(&Mutex::new(permit), &machine).await {
        Ok(commands) => commands,
        Err(outcome) => return outcome,
    };
    let attempt = intent.attempt.clone();
    let found = listed::since(&intent.listed, &commands, intent.action);
    let observation = match found.as_slice() {
        [] => Observation::NotListed(attempt, at),
        [one] => Observation::Looked(send::accepted(record.clone(), one), at),
        several => {
            let ids = several.iter().map(|command| command.id.as_str());
            Observation::Several(attempt, wording::listed(ids))
        }
    };
    (Ended::Done, observation)
}

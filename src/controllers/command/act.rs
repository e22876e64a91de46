//! Carries out one effect, and returns what was observed.

use super::{CommandContext, send};
use crate::{
    account::{Account, Permit},
    controllers::{machine_commands, pass::ended, writes::Written},
    runtime::clock,
};
use api::{BareMetalServer, command::CommandRecord};
use flexmetal_core::{
    command::{
        decide::{Effect, NewCommand, decide, may_send},
        facts::{Facts, Observation, ServerFact},
    },
    machine_commands as listed,
    machine_commands::{Asked, NotListed, command_of},
    mark::marks_of,
    pass::Ended,
    trouble::Trouble,
    wording,
};
use hosting_types::{CommandId, Error, Server, ServerId, ServerStatus, command::Command};
use std::sync::Arc;

/// What an effect comes to.
pub(super) type Outcome = (Ended, Observation);

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
        (Effect::Search { record, pages }, Some(mut permit), _) => {
            search(&mut permit, record, *pages).await
        }
        (Effect::LetGo, ..) => (let_go(ctx, facts).await, Observation::Nothing),
        (Effect::Delete, ..) => (delete(ctx, facts).await, Observation::Nothing),
        (Effect::Send(_) | Effect::Look(_) | Effect::Search { .. }, ..) => {
            failed("a call was due without a permit")
        }
    }
}

/// Takes our finalizer off. Of an object that lives on it is remembered how often.
async fn let_go(ctx: &CommandContext, facts: &Facts) -> Ended {
    let ended = ctx.let_go(&facts.subject).await;
    if ended == Ended::Done && !facts.subject.is_deleting() {
        let (uid, now) = (facts.subject.uid(), clock::now().mono);
        ctx.objects
            .remember(uid, |memory| memory.holds.put_back(now));
    }
    ended
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
    let stale = || (Ended::Stale, Observation::Nothing);
    let since = clock::now();
    let (fresh, server) = match reread(ctx, facts).await {
        Ok(fresh) => fresh,
        Err(outcome) => return outcome,
    };
    let is_due = matches!(decide(&fresh).effect, Some(Effect::Send(due)) if *due == *new);
    if !is_due {
        return stale();
    }
    let Ok(id) = ServerId::parse(&new.machine) else {
        return failed("what is recorded is no UUID of a machine");
    };
    let kept_back = match permit.read(&id).await {
        Ok(record) => not_its_machine(ctx, &server, &record),
        Err(error) => return not_done(&error),
    };
    let busy = |why: String| (Ended::Done, Observation::Busy(why, clock::now().mono));
    if let Some(why) = kept_back {
        return busy(why);
    }
    let commands = match commands_of(&mut permit, &id, new.pages).await {
        Ok(commands) => commands,
        Err(outcome) => return outcome,
    };
    if listed::is_done(&commands, &fresh.records()) {
        return busy(format!("the shutdown of machine {id} is done by now"));
    }
    if let Some(other) = listed::running(&commands, &fresh.records(), clock::now().wall) {
        let other = other.id.as_str();
        return busy(format!("machine {id} runs another command, {other}"));
    }
    let Some(noted) = listed::noted(&commands, clock::now().wall) else {
        return busy(format!(
            "machine {id} has had more commands within a minute than can be noted"
        ));
    };
    if !ctx.may_act() {
        return stale();
    }
    let window = account.view().times.send_window;
    let (record, object) = match send::start(ctx, &fresh, new, noted, (since, window)).await {
        send::Started::Send(record, object) => (record, object),
        send::Started::Closed(None) => return stale(),
        send::Started::Closed(Some(record)) => return unsent(record),
    };
    // What came in between: whoever ends the server or its machine notes that first, and sees the intent from here on.
    let mut last = fresh;
    last.subject.object = object;
    super::look_around(ctx, &mut last).await;
    let is_let = may_send(&last, new)
        && send::may_send(since, &record, window)
        && account.stands_on(&permit, Some(&new.account.connection));
    if !is_let {
        return unsent(record);
    }
    // The last that is known if this process ends before the answer.
    tracing::info!(
        namespace = last.subject.namespace(),
        name = last.subject.name(),
        machine = id.as_str(),
        command = command_of(new.action).as_str(),
        attempt = record.intent.attempt,
        "sending a command"
    );
    let action = command_of(new.action);
    let answer = permit.call(async |client| client.send_command(&id, action).await);
    send::answered(record, answer.await)
}

/// It was not sent by this attempt, which has ended.
fn unsent(record: CommandRecord) -> Outcome {
    let record = send::unsent(record);
    (Ended::Stale, Observation::Sent(record, clock::now().mono))
}

/// Why a machine, as it was just read, takes no command of this server; None: it does.
fn not_its_machine(
    ctx: &CommandContext,
    server: &BareMetalServer,
    record: &Server,
) -> Option<String> {
    let meta = &server.metadata;
    let of = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, name, uid) = (of(&meta.namespace), of(&meta.name), of(&meta.uid));
    let mark = ctx.cluster.object_mark(&namespace, &name, &uid);
    // The mark of another object beside it: whose machine it is is not settled.
    let mut marks = marks_of(&record.tags).map(|(found, _)| found == mark);
    let is_its = marks.next() == Some(true) && marks.all(|is_own| is_own);
    let id = &record.id;
    match &record.status {
        _ if !is_its => Some(format!(
            "machine {id} does not bear the tag of BareMetalServer {name} alone"
        )),
        ServerStatus::Delivered => None,
        other => Some(format!(
            "the provider says of machine {id}: {}",
            other.as_str()
        )),
    }
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

/// All commands of the machine.
async fn commands_of(
    permit: &mut Permit,
    id: &ServerId,
    pages: u32,
) -> Result<Vec<Command>, Outcome> {
    let list = machine_commands::commands_of(permit, id, None, pages);
    list.await.map_err(|why| match why {
        NotListed::Longer(pages) => (Ended::Done, Observation::Longer(pages)),
        NotListed::Failed(trouble) => (Ended::Failed(trouble), Observation::Nothing),
    })
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
async fn search(permit: &mut Permit, record: &CommandRecord, pages: u32) -> Outcome {
    let intent = &record.intent;
    let Ok(machine) = ServerId::parse(&intent.machine) else {
        return failed("what is recorded is no UUID of a machine");
    };
    let at = clock::now().mono;
    let commands = match commands_of(permit, &machine, pages).await {
        Ok(commands) => commands,
        Err(outcome) => return outcome,
    };
    let attempt = intent.attempt.clone();
    let found = listed::since(&intent.listed, &commands, Asked::Power(intent.action));
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

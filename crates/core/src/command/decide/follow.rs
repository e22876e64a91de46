//! A command that was sent, or may have been: follow it to its end, or search for it.

use super::{
    super::facts::{CommandFacts, TargetFact},
    CommandDecision, CommandEffect, completion, start, wait_with_reason,
};
use crate::{
    account::view::AccountView, explanation::Explanation, host_record::is_switched,
    provider_commands::state_of, resolved_account::Purpose,
};
use api::{
    Interval, Reason,
    command::{CommandOutcome, CommandRecord, PowerAction},
    target::TargetKind,
};
use hosting_types::{command::CommandState, identity::is_same_uuid};
use std::time::Duration;

/// The provider has the command.
pub(super) fn follow(facts: &CommandFacts, record: &CommandRecord) -> CommandDecision {
    let state = state(facts, record);
    let server = facts.describe_server(&record.intent.server);
    if state == CommandState::Finished {
        return completion::complete(facts, record);
    }
    if let Some(decision) = escalated(facts, record) {
        return decision;
    }
    if state == CommandState::Failed {
        let message = format!(
            "{} of {server} failed at the provider. To try again, create another ServerCommand",
            record.intent.action.as_str()
        );
        return completion::failed(facts, Reason::CommandFailed, message);
    }
    if facts.is_late() {
        return completion::late(
            facts,
            "The command was not done",
            "; it was sent, and may still be carried out",
        );
    }
    let view = match facts.subject.account.usable(Purpose::End) {
        Ok(view) => view,
        Err(explanation) => return completion::wait(facts, explanation),
    };
    if let Some(decision) = leads_elsewhere(facts, view, record) {
        return decision;
    }
    let every = view.times.active_poll_interval;
    let shown = match record.state.as_deref() {
        Some(word) => format!("the provider says {word:?}"),
        None => "its end is not seen yet".to_owned(),
    };
    let message = format!(
        "{} of {server} was sent; {shown}; checked every {}",
        record.intent.action.as_str(),
        Interval(every)
    );
    let decision = wait_with_reason(facts, Explanation::waits(Reason::Progressing, message));
    let last_read = facts.subject.memory.own.last_read;
    // The answer to the request counts as the first read.
    let due = last_read.map_or(facts.subject.first_seen, |at| at + every);
    let is_recorded = facts.subject.status().records.sent == facts.records();
    match time_until(facts, due) {
        None if is_recorded => decision.with(CommandEffect::ReadCommand(Box::new(record.clone()))),
        None => decision.requeue_once_written(),
        Some(rest) => {
            // Once due, it is tried at every read.
            let escalates = until_escalation(facts, record).filter(|rest| !rest.is_zero());
            let rests = [Some(rest), escalates, Some(facts.time_left())];
            let rest = rests.into_iter().flatten().min().unwrap_or(rest);
            decision.requeue_after(rest.max(Duration::from_secs(1)))
        }
    }
}

/// It is unknown whether the provider has the command.
pub(super) fn search(facts: &CommandFacts, record: &CommandRecord) -> CommandDecision {
    let action = record.intent.action.as_str();
    let server = facts.describe_server(&record.intent.server);
    if let Some(decision) = escalated(facts, record) {
        return decision;
    }
    let search = facts.subject.memory.own.search.as_ref();
    let search = search.filter(|search| search.attempt == record.intent.attempt);
    if let Some(ids) = search.and_then(|search| search.several.as_deref()) {
        let message = format!(
            "The answer to {action} of {server} was lost; several commands may be it ({ids}), so it is not sent again. Check whether it was done; if not, create another ServerCommand"
        );
        return completion::failed(facts, Reason::OutcomeUnknown, message);
    }
    let unknown = format!(
        "Outcome of {action} of {server} is unknown; not sent again. Check whether it was done; if not, create another ServerCommand"
    );
    if facts.is_late() {
        return completion::failed(facts, Reason::OutcomeUnknown, unknown);
    }
    let view = match facts.subject.account.usable(Purpose::End) {
        Ok(view) => view,
        Err(explanation) => return completion::wait(facts, explanation),
    };
    if let Some(decision) = leads_elsewhere(facts, view, record) {
        return decision;
    }
    let Some(search) = search else {
        return wait_with_reason(facts, Explanation::waits(Reason::OutcomeUnknown, unknown))
            .requeue_after(Duration::from_secs(1));
    };
    // Another process may still send it; a command that is listed before that is not the one.
    let sent = facts.subject.memory.own.sent.as_ref();
    let is_own = sent.is_some_and(|sent| sent.intent.attempt == search.attempt);
    let begins = search.begins(is_own, view.times.send_window);
    // A restart of a host leaves no trace.
    let is_host = facts.kind() == TargetKind::DedicatedHost;
    let is_lost = is_host && record.intent.action == PowerAction::Reboot;
    if is_lost && time_until(facts, begins).is_none()
        || search.is_over(begins, view.times.absence_grace_period)
    {
        return completion::failed(facts, Reason::OutcomeUnknown, unknown);
    }
    let message = format!(
        "Outcome of {action} of {server} is unknown; not sent again; {} checked every {}",
        match is_host {
            true => "its power is",
            false => "the server's commands are",
        },
        Interval(view.times.absence_check_interval)
    );
    let decision = wait_with_reason(facts, Explanation::waits(Reason::OutcomeUnknown, message));
    let due = search.due(begins, view.times.absence_check_interval);
    match time_until(facts, due) {
        None => decision.with(CommandEffect::Search {
            record: Box::new(record.clone()),
            calls: match is_host {
                true => 1,
                false => facts.pages(),
            },
        }),
        Some(rest) => decision.requeue_after(rest),
    }
}

/// The account is not the one any more that got the command, so it shows nothing about the command.
fn leads_elsewhere(
    facts: &CommandFacts,
    view: &AccountView,
    record: &CommandRecord,
) -> Option<CommandDecision> {
    let sent_to = &record.intent.account;
    let is_same = view.credentials_hash.as_ref() == Some(&sent_to.credentials_hash)
        || view.account_id.as_ref() == Some(&sent_to.account_id);
    let message = format!(
        "Account changed since {} of {}; its end cannot be seen, and it is not sent again. Check whether it was done; if not, create another ServerCommand",
        record.intent.action.as_str(),
        facts.describe_server(&record.intent.server)
    );
    (!is_same).then(|| completion::failed(facts, Reason::OutcomeUnknown, message))
}

/// The power-off that follows a shutdown, if it is requested and due. It is another command: the outcome of the
/// shutdown need not be known.
fn escalated(facts: &CommandFacts, record: &CommandRecord) -> Option<CommandDecision> {
    if !is_escalated(facts, record) || facts.subject.is_deleting() || facts.is_late() {
        return None;
    }
    // It would not be sent, and would hide how the shutdown continues.
    if facts.subject.read_only {
        return None;
    }
    // Another server that the object has by now was not asked to shut down.
    if let TargetFact::Found(target) = &facts.target
        && !target
            .provider_id()
            .is_some_and(|it| is_same_uuid(&it, &record.intent.server))
    {
        return None;
    }
    let decision = start::start(facts, Some(PowerAction::PowerOff));
    // What blocks the power-off must not hide how the shutdown continues. A failed shutdown does not continue.
    (decision.effect.is_some() || has_failed(facts, record)).then_some(decision)
}

/// Whether it is time to switch the power off: the shutdown failed, or its time is over.
pub(super) fn is_escalated(facts: &CommandFacts, record: &CommandRecord) -> bool {
    until_escalation(facts, record).is_some_and(|rest| rest.is_zero() || has_failed(facts, record))
}

fn has_failed(facts: &CommandFacts, record: &CommandRecord) -> bool {
    record.outcome == Some(CommandOutcome::Accepted) && state(facts, record) == CommandState::Failed
}

/// How far a command is, by the provider's word. Commands of hosts have no ID to follow, so a host's power shows it.
fn state(facts: &CommandFacts, record: &CommandRecord) -> CommandState {
    let word = record.state.as_deref();
    match facts.kind() {
        TargetKind::BareMetalServer => state_of(word),
        // Accepted is all that is known of a restart, and below if the provider's word does not say whether the host
        // runs.
        TargetKind::DedicatedHost if record.intent.action == PowerAction::Reboot => {
            CommandState::Finished
        }
        TargetKind::DedicatedHost => {
            match word.map(|word| is_switched(word, record.intent.action)) {
                None | Some(Some(false)) => CommandState::Pending,
                Some(None | Some(true)) => CommandState::Finished,
            }
        }
    }
}

/// How long a shutdown may take before a power-off follows; None: none follows, or it was sent already.
fn until_escalation(facts: &CommandFacts, record: &CommandRecord) -> Option<Duration> {
    let after = facts.subject.object.spec.escalate_after?.0;
    let was_sent = |r: &CommandRecord| {
        r.intent.action == PowerAction::PowerOff && r.outcome != Some(CommandOutcome::NotSent)
    };
    if record.intent.action != PowerAction::Shutdown || facts.records().iter().any(was_sent) {
        return None;
    }
    let is_over = record.outcome == Some(CommandOutcome::Accepted)
        && state(facts, record) == CommandState::Finished;
    if is_over || record.outcome == Some(CommandOutcome::Refused) {
        return None;
    }
    // A clock that jumps forward must not switch anything off.
    let since = facts.steady.saturating_sub(record.intent.started_at);
    let since = Duration::from_secs(u64::try_from(since).unwrap_or(0));
    Some(after.saturating_sub(since))
}

/// How long until a moment; None: it has come.
fn time_until(facts: &CommandFacts, due: Duration) -> Option<Duration> {
    let rest = due.saturating_sub(facts.subject.now.mono);
    (!rest.is_zero()).then_some(rest)
}

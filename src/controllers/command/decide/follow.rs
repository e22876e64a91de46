//! A command that was sent, or may have been: followed to its end, or looked for.

use super::{
    super::{facts::Facts, listed::state_of},
    Decision, Effect, end, hold, start,
};
use crate::{
    controllers::{account_facts::Purpose, cause::Cause},
    kinds::{
        Interval, Reason,
        command::{CommandRecord, PowerAction},
    },
};
use hosting::command::CommandState;
use std::time::Duration;

/// The provider has the command.
pub(super) fn follow(facts: &Facts, record: &CommandRecord) -> Decision {
    let state = state_of(record.state.as_deref());
    let next = match state {
        CommandState::Finished => return end::complete(facts, record),
        CommandState::Failed => Escalation::Now,
        CommandState::Pending | CommandState::Other(_) => Escalation::When,
    };
    if let Some(decision) = escalated(facts, record, next) {
        return decision;
    }
    if state == CommandState::Failed {
        let message = format!(
            "the provider says that {} of machine {} failed; for another try, create another ServerCommand",
            record.intent.action.as_str(),
            record.intent.machine
        );
        return end::failed(facts, Reason::CommandFailed, message);
    }
    if facts.is_late() {
        return end::late(
            facts,
            "the command was sent, may still be carried out, and was not done",
        );
    }
    let view = match facts.subject.account.usable(Purpose::End) {
        Ok(view) => view,
        Err(cause) => return end::wait(facts, cause),
    };
    let every = view.times.active_poll_interval;
    let message = format!(
        "{} of machine {} was sent, and the provider says {:?}; looked at again every {}",
        record.intent.action.as_str(),
        record.intent.machine,
        record.state.as_deref().unwrap_or_default(),
        Interval(every)
    );
    let decision = hold(facts, Cause::waits(Reason::Progressing, message));
    let looked = facts.subject.memory.own.looked;
    // The answer to the request was the first look.
    let due = looked.map_or(facts.subject.first_seen, |at| at + every);
    let is_told = facts.subject.status().sent == facts.records();
    match rest(facts, due) {
        None if is_told => decision.with(Effect::Look(Box::new(record.clone()))),
        None => decision.going_on(),
        Some(rest) => {
            let escalates = until_escalation(facts, record);
            let rests = [Some(rest), escalates, Some(facts.time_left())];
            let rest = rests.into_iter().flatten().min().unwrap_or(rest);
            decision.again(rest.max(Duration::from_secs(1)))
        }
    }
}

/// Nobody knows whether the provider has the command.
pub(super) fn search(facts: &Facts, record: &CommandRecord) -> Decision {
    let action = record.intent.action.as_str();
    let machine = &record.intent.machine;
    if let Some(decision) = escalated(facts, record, Escalation::When) {
        return decision;
    }
    let search = facts.subject.memory.own.search.as_ref();
    let search = search.filter(|search| search.attempt == record.intent.attempt);
    if let Some(ids) = search.and_then(|search| search.several.as_deref()) {
        let message = format!(
            "the answer to {action} of machine {machine} was lost, and several commands of that time may be it: {ids}; it is not sent again: look at the machine, and create another ServerCommand if it is still needed"
        );
        return end::failed(facts, Reason::OutcomeUnknown, message);
    }
    let unknown = format!(
        "it is not known whether {action} of machine {machine} was carried out; it is not sent again: look at the machine, and create another ServerCommand if it is still needed"
    );
    if facts.is_late() {
        return end::failed(facts, Reason::OutcomeUnknown, unknown);
    }
    let view = match facts.subject.account.usable(Purpose::End) {
        Ok(view) => view,
        Err(cause) => return end::wait(facts, cause),
    };
    let ordered = &record.intent.account;
    let is_same = view.connection.as_ref() == Some(&ordered.connection)
        || view.lineage.as_ref() == Some(&ordered.lineage);
    if !is_same {
        let message = format!(
            "the account leads elsewhere since {action} of machine {machine} was sent, so its end cannot be seen; it is not sent again"
        );
        return end::failed(facts, Reason::OutcomeUnknown, message);
    }
    let Some(search) = search else {
        return hold(facts, Cause::waits(Reason::OutcomeUnknown, unknown))
            .again(Duration::from_secs(1));
    };
    // A request may arrive late, and a list may be behind.
    let settled = search.first_seen + view.times.absence_grace_period;
    if search.missed.is_some_and(|missed| missed >= settled) {
        return end::failed(facts, Reason::OutcomeUnknown, unknown);
    }
    let message = format!(
        "it is not known whether {action} of machine {machine} was carried out, and it is not sent again; the machine's commands are looked at again every {}",
        Interval(view.times.absence_check_interval)
    );
    let decision = hold(facts, Cause::waits(Reason::OutcomeUnknown, message));
    let due = search.missed.map_or(search.first_seen, |at| {
        at + view.times.absence_check_interval
    });
    match rest(facts, due) {
        None => decision.with(Effect::Search(Box::new(record.clone()))),
        Some(rest) => decision.again(rest),
    }
}

/// When a shutdown is followed by a power-off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escalation {
    /// It has failed.
    Now,
    /// When its time is over.
    When,
}

/// The power-off that follows a shutdown, where it is asked for and due. It is another command: the outcome of the first
/// one need not be known.
fn escalated(facts: &Facts, record: &CommandRecord, when: Escalation) -> Option<Decision> {
    let rest = until_escalation(facts, record)?;
    let is_due = when == Escalation::Now || rest.is_zero();
    if !is_due || facts.subject.is_deleting() || facts.is_late() {
        return None;
    }
    let decision = start::start(facts, Some(PowerAction::PowerOff));
    // What holds it up must not hide how the shutdown goes on.
    let goes_on = decision.effect.is_some() || decision.goes_on;
    (goes_on || when == Escalation::Now).then_some(decision)
}

/// How long a shutdown may still take before the power is switched off; None: it is not.
fn until_escalation(facts: &Facts, record: &CommandRecord) -> Option<Duration> {
    let after = facts.subject.object.spec.escalate_after?.0;
    if record.intent.action != PowerAction::Shutdown {
        return None;
    }
    // A clock that is turned forward switches nothing off.
    let since = facts.steady.saturating_sub(record.intent.started_at);
    let since = Duration::from_secs(u64::try_from(since).unwrap_or(0));
    Some(after.saturating_sub(since))
}

/// How long it is until a moment; None: it has come.
fn rest(facts: &Facts, due: Duration) -> Option<Duration> {
    let rest = due.saturating_sub(facts.subject.now.mono);
    (!rest.is_zero()).then_some(rest)
}

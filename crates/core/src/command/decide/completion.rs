//! A command ends, well or badly, and what follows.

use super::{
    super::facts::CommandFacts, CommandDecision, CommandEffect, moment, status, wait_with_reason,
};
use crate::{explanation::Explanation, host_record::is_switched};
use api::{
    Interval, Reason,
    command::{CommandRecord, PowerAction},
    conditions::{DesiredCondition, Type},
    target::TargetKind,
};
use std::time::Duration;

/// Longest requeue delay of a command that waits.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);

/// The command was carried out.
pub(super) fn complete(facts: &CommandFacts, record: &CommandRecord) -> CommandDecision {
    let action = record.intent.action;
    let is_seen = facts.kind() == TargetKind::BareMetalServer
        || action != PowerAction::Reboot
            && record
                .state
                .as_deref()
                .is_some_and(|word| is_switched(word, action).is_some());
    let how = match is_seen {
        true => "is done",
        false if action == PowerAction::Reboot => {
            "was accepted; the provider does not say when it is done"
        }
        false => "was accepted; the provider does not say whether it runs",
    };
    let server = facts.describe_server(&record.intent.server);
    let message = format!("{} of {server} {how}", action.as_str());
    let done = DesiredCondition::new(Type::Complete, true, Reason::Completed, message.clone());
    finish(facts, Explanation::ready(Reason::Completed, message), done)
}

/// The command was not carried out, or its outcome is unknown.
pub(super) fn failed(
    facts: &CommandFacts,
    reason: Reason,
    message: impl Into<String>,
) -> CommandDecision {
    let message = message.into();
    let failed = DesiredCondition::new(Type::Failed, true, reason, message.clone());
    finish(facts, Explanation::stalled(reason, message), failed)
}

fn finish(
    facts: &CommandFacts,
    explanation: Explanation,
    condition: DesiredCondition,
) -> CommandDecision {
    let mut status = status(facts);
    status.finished_at = moment(facts.subject.now.wall);
    // The next reconcile removes the finalizer.
    CommandDecision::from_status(status)
        .set_finished()
        .because(explanation)
        .and(condition)
        .requeue_once_written()
}

/// The provider refused the command.
pub(super) fn refused(facts: &CommandFacts, record: &CommandRecord) -> CommandDecision {
    let why = record.message.as_deref().unwrap_or("it does not say why");
    let message = format!(
        "The provider refused {} of {}; {why}. To try again, create another ServerCommand",
        record.intent.action.as_str(),
        facts.describe_server(&record.intent.server)
    );
    failed(facts, Reason::RequestRefused, message)
}

/// The command has reached its timeout.
pub(super) fn late(facts: &CommandFacts, what: &str, more: &str) -> CommandDecision {
    let timeout: Interval = facts.subject.object.spec.timeout();
    let message = format!(
        "{what} within {timeout} of its creation (spec.timeout){more}. To try again, create another ServerCommand"
    );
    failed(facts, Reason::CommandFailed, message)
}

/// The command is finished: remove the finalizer, then delete the object after its time to live.
pub(super) fn finished(facts: &CommandFacts) -> CommandDecision {
    let decision = CommandDecision::unchanged(&facts.subject).set_finished();
    if facts.subject.has_finalizer() {
        // If something keeps adding the finalizer, such as another operator, remove it only with backoff.
        let rest = facts
            .subject
            .memory
            .finalizer_restores
            .remaining(facts.subject.now.mono);
        return match rest.filter(|_| !facts.subject.is_deleting()) {
            Some(rest) => decision.requeue_after(rest),
            None => decision.with(CommandEffect::RemoveFinalizer),
        };
    }
    let Some(ttl) = facts.subject.object.spec.ttl_seconds_after_finished else {
        return decision;
    };
    let ended = facts.subject.object.status.as_ref();
    let ended = ended.and_then(|status| status.finished_at.as_ref());
    if facts.subject.is_deleting() {
        return decision;
    }
    let due = ended.map_or(facts.steady, |time| {
        time.0.as_second().saturating_add(ttl.into())
    });
    match u64::try_from(due.saturating_sub(facts.steady)) {
        Ok(rest) if rest > 0 => decision.requeue_after(Duration::from_secs(rest)),
        _ => decision.with(CommandEffect::Delete),
    }
}

/// The object is being deleted, and no command of it is under way.
pub(super) fn remove_finalizer(facts: &CommandFacts) -> CommandDecision {
    match facts.subject.has_finalizer() {
        true => CommandDecision::unchanged(&facts.subject).with(CommandEffect::RemoveFinalizer),
        false => CommandDecision::unchanged(&facts.subject),
    }
}

/// Waits for what is impossible now, as long as the command has time. An event enqueues the command; the delay is for
/// lost events.
pub(super) fn wait(facts: &CommandFacts, explanation: Explanation) -> CommandDecision {
    let rest = facts.time_left().min(LONGEST_SLEEP);
    wait_with_reason(facts, explanation).requeue_after(rest.max(Duration::from_secs(1)))
}

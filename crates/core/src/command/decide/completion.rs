//! A command comes to its end, well or badly, and what follows.

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

/// Nothing that waits sleeps longer.
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
    let machine = facts.describe_server(&record.intent.server);
    let message = format!("{} of {machine} {how}", action.as_str());
    let done = DesiredCondition::new(Type::Complete, true, Reason::Completed, message.clone());
    over(facts, Explanation::ready(Reason::Completed, message), done)
}

/// The command was not carried out, or nobody knows.
pub(super) fn failed(
    facts: &CommandFacts,
    reason: Reason,
    message: impl Into<String>,
) -> CommandDecision {
    let message = message.into();
    let failed = DesiredCondition::new(Type::Failed, true, reason, message.clone());
    over(facts, Explanation::stalled(reason, message), failed)
}

fn over(facts: &CommandFacts, cause: Explanation, condition: DesiredCondition) -> CommandDecision {
    let mut status = status(facts);
    status.finished_at = moment(facts.subject.now.wall);
    // The finalizer goes with the next pass.
    CommandDecision::from_status(status)
        .over()
        .because(cause)
        .and(condition)
        .requeue_now()
}

/// The provider said no.
pub(super) fn refused(facts: &CommandFacts, record: &CommandRecord) -> CommandDecision {
    let why = record.message.as_deref().unwrap_or("it does not say why");
    let message = format!(
        "The provider refused {} of {}; {why}. To try again, create another ServerCommand",
        record.intent.action.as_str(),
        facts.describe_server(&record.intent.server)
    );
    failed(facts, Reason::RequestRefused, message)
}

/// The time is over in which the command had to be done.
pub(super) fn late(facts: &CommandFacts, what: &str, more: &str) -> CommandDecision {
    let timeout: Interval = facts.subject.object.spec.timeout();
    let message = format!(
        "{what} within {timeout} of its creation (spec.timeout){more}. To try again, create another ServerCommand"
    );
    failed(facts, Reason::CommandFailed, message)
}

/// The object is over: nothing holds it, and it goes when its time has passed.
pub(super) fn finished(facts: &CommandFacts) -> CommandDecision {
    let decision = CommandDecision::unchanged(&facts.subject).over();
    if facts.subject.has_finalizer() {
        // What puts it on again and again, such as another operator, must not be answered without a pause.
        let rest = facts
            .subject
            .memory
            .finalizer_restores
            .rest(facts.subject.now.mono);
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

/// The object is being deleted, and nothing of it is under way.
pub(super) fn remove_finalizer(facts: &CommandFacts) -> CommandDecision {
    match facts.subject.has_finalizer() {
        true => CommandDecision::unchanged(&facts.subject).with(CommandEffect::RemoveFinalizer),
        false => CommandDecision::unchanged(&facts.subject),
    }
}

/// Waits for what cannot be asked for now, for as long as the command has time. It is woken when its turn comes; should a
/// wake ever be lost, it looks by itself.
pub(super) fn wait(facts: &CommandFacts, cause: Explanation) -> CommandDecision {
    let rest = facts.time_left().min(LONGEST_SLEEP);
    wait_with_reason(facts, cause).requeue_after(rest.max(Duration::from_secs(1)))
}

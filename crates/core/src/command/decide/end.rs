//! A command comes to its end, well or badly, and what follows.

use super::{super::facts::Facts, Decision, Effect, hold, moment, status};
use crate::{cause::Cause, host_record::is_switched};
use api::{
    Interval, Reason,
    command::{CommandRecord, PowerAction},
    conditions::{Type, Wanted},
    target::TargetKind,
};
use std::time::Duration;

/// Nothing that waits sleeps longer.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);

/// The command was carried out.
pub(super) fn complete(facts: &Facts, record: &CommandRecord) -> Decision {
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
    let machine = facts.machine_name(&record.intent.server);
    let message = format!("{} of {machine} {how}", action.as_str());
    let done = Wanted::new(Type::Complete, true, Reason::Completed, message.clone());
    over(facts, Cause::ready(Reason::Completed, message), done)
}

/// The command was not carried out, or nobody knows.
pub(super) fn failed(facts: &Facts, reason: Reason, message: impl Into<String>) -> Decision {
    let message = message.into();
    let failed = Wanted::new(Type::Failed, true, reason, message.clone());
    over(facts, Cause::needs_person(reason, message), failed)
}

fn over(facts: &Facts, cause: Cause, condition: Wanted) -> Decision {
    let mut status = status(facts);
    status.finished_at = moment(facts.subject.now.wall);
    // The finalizer goes with the next pass.
    Decision::of(status)
        .over()
        .because(cause)
        .and(condition)
        .going_on()
}

/// The provider said no.
pub(super) fn refused(facts: &Facts, record: &CommandRecord) -> Decision {
    let why = record.message.as_deref().unwrap_or("it does not say why");
    let message = format!(
        "The provider refused {} of {}; {why}. To try again, create another ServerCommand",
        record.intent.action.as_str(),
        facts.machine_name(&record.intent.server)
    );
    failed(facts, Reason::RequestRefused, message)
}

/// The time is over in which the command had to be done.
pub(super) fn late(facts: &Facts, what: &str, more: &str) -> Decision {
    let timeout: Interval = facts.subject.object.spec.timeout();
    let message = format!(
        "{what} within {timeout} of its creation (spec.timeout){more}. To try again, create another ServerCommand"
    );
    failed(facts, Reason::CommandFailed, message)
}

/// The object is over: nothing holds it, and it goes when its time has passed.
pub(super) fn finished(facts: &Facts) -> Decision {
    let decision = Decision::unchanged(&facts.subject).over();
    if facts.subject.has_finalizer() {
        // What puts it on again and again, such as another operator, must not be answered without a pause.
        let rest = facts.subject.memory.holds.rest(facts.subject.now.mono);
        return match rest.filter(|_| !facts.subject.is_deleting()) {
            Some(rest) => decision.again(rest),
            None => decision.with(Effect::LetGo),
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
        Ok(rest) if rest > 0 => decision.again(Duration::from_secs(rest)),
        _ => decision.with(Effect::Delete),
    }
}

/// The object is being deleted, and nothing of it is under way.
pub(super) fn let_go(facts: &Facts) -> Decision {
    match facts.subject.has_finalizer() {
        true => Decision::unchanged(&facts.subject).with(Effect::LetGo),
        false => Decision::unchanged(&facts.subject),
    }
}

/// Waits for what cannot be asked for now, for as long as the command has time. It is woken when its turn comes; should a
/// wake ever be lost, it looks by itself.
pub(super) fn wait(facts: &Facts, cause: Cause) -> Decision {
    let rest = facts.time_left().min(LONGEST_SLEEP);
    hold(facts, cause).again(rest.max(Duration::from_secs(1)))
}

//! `spec.power` and `spec.restartToken`: one command for each change, and none at first sight of the host.
//!
//! A command to switch on or off does the same when it is done twice, so one whose answer was lost is sent again after a
//! look, a few times: by the very process that sent it, while its effect may still be awaited, and not when the host was
//! installed in between. Whoever finds one that another process has noted only looks: since then somebody may have switched
//! the host. A restart is never repeated on doubt.

use super::{
    super::facts::Facts,
    Effect, Step,
    install::{held, may_touch},
    remedy,
};
use crate::{account::view::View, cause::Cause};
use api::{
    Interval, PoliciesInForce, Reason,
    command::CommandOutcome,
    host::DedicatedHostStatus,
    host_install::HostInstallStatus,
    host_power::{HostAction, HostCommand, HostPowerStatus},
    order::OrderAccount,
    power::Power,
};
use hosting_types::host::Host;
use std::time::Duration;

/// So often a command to switch on or off is sent for one change, while its answers are lost.
const ATTEMPTS: i32 = 3;

/// A command that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCommand {
    /// The provider's number of the host.
    pub host: u64,
    /// The provider's number of the machine behind it, as it was seen.
    pub server_id: Option<i64>,
    /// What is done.
    pub action: HostAction,
    /// `spec.power` that is acted on.
    pub wish: Option<Power>,
    /// `spec.restartToken` that is acted on.
    pub restart_token: Option<String>,
    /// How many attempts there were for this change, with this one.
    pub attempts: i32,
    /// The generation of the object whose wish it is.
    pub generation: Option<i64>,
    /// The account that it goes to.
    pub account: OrderAccount,
}

/// What is to be noted and done for a host that a list begun then shows. `is_busy`: it is being installed, or about to be, and
/// takes no command; wishes are heard when that is over.
pub(super) fn step(
    facts: &Facts,
    view: &View,
    began: Duration,
    host: &Host,
    is_busy: bool,
    status: &mut DedicatedHostStatus,
) -> Step {
    let Some(known) = &mut status.power else {
        return Step::default();
    };
    settle(facts, view, began, host, is_busy, known);
    let spec = &facts.subject.object.spec;
    if spec.power.is_none() {
        known.wish = None;
    }
    let Some((action, attempts)) = due(facts, known) else {
        let open = known.last.as_ref().filter(|last| last.is_open());
        return match open {
            Some(last) => searching(view, host, last),
            None => Step {
                cause: known
                    .last
                    .as_ref()
                    .and_then(|last| ended(facts, known, last)),
                ..Step::default()
            },
        };
    };
    let what = match action {
        HostAction::Start => format!("spec.power is On, so host {} is to be switched on", host.id),
        HostAction::Stop => format!(
            "spec.power is Off, so host {} is to be switched off",
            host.id
        ),
        HostAction::Restart => format!(
            "spec.restartToken has changed, so host {} is to be restarted",
            host.id
        ),
    };
    if let Some(cause) = remedy::held(facts, &format!("{what}, and nothing is sent")) {
        return Step::because(cause);
    }
    // An installation goes first, and its own cause says so.
    if is_busy {
        return Step::default();
    }
    let every = view.times.active_poll_interval;
    if let Some((cause, rest)) = held(facts, every, false) {
        return Step {
            cause: Some(cause),
            rest: Some(rest),
            is_moving: true,
            ..Step::default()
        };
    }
    let account = match facts.subject.lineage() {
        Ok(_) => facts.order_account(),
        Err(cause) => return Step::because(cause),
    };
    let new = account.map(|account| NewCommand {
        host: host.id.0,
        server_id: facts.subject.status().server_id.or(host.server_id),
        action,
        wish: spec.power,
        restart_token: match action {
            HostAction::Restart => spec.restart_token.clone(),
            HostAction::Start | HostAction::Stop => known.restart_token.clone(),
        },
        attempts,
        generation: facts.subject.object.metadata.generation,
        account,
    });
    Step {
        cause: Some(Cause::waits(
            Reason::Progressing,
            format!("{what}; the command is sent within seconds"),
        )),
        effect: new.map(|new| Effect::Command(Box::new(new))),
        is_moving: true,
        ..Step::default()
    }
}

/// What is due, and the number of the attempt.
fn due(facts: &Facts, known: &HostPowerStatus) -> Option<(HostAction, i32)> {
    let spec = &facts.subject.object.spec;
    let last = known.last.as_ref();
    let not_sent = last.filter(|last| last.is_to_be_sent());
    // It certainly was not sent, so this is no repetition. It goes before a wish for power that came later, by which it
    // would be lost.
    if let Some(last) = not_sent.filter(|last| last.action == HostAction::Restart)
        && spec.restart_token.is_some()
        && spec.restart_token == known.restart_token
    {
        return Some((
            HostAction::Restart,
            last.attempts.saturating_add(1).min(100),
        ));
    }
    if let Some(wish) = spec.power {
        let action = HostAction::of(wish);
        if known.wish != Some(wish) {
            // What may still be on its way must not come after it.
            return last
                .is_none_or(|last| !is_fresh(facts, last))
                .then_some((action, 1));
        }
        let of_wish = last.filter(|last| last.action == action);
        if let Some(last) = of_wish
            && (last.is_to_be_sent() || is_lost(facts, last))
        {
            return Some((action, last.attempts.saturating_add(1).min(100)));
        }
    }
    let token = spec.restart_token.as_ref()?;
    let is_new = known.restart_token.as_ref() != Some(token);
    let is_free = last.is_none_or(|last| !last.is_open());
    (is_new && is_free).then_some((HostAction::Restart, 1))
}

/// Whether a command is asked for that was not sent yet.
pub(super) fn is_wished_for(facts: &Facts, known: &HostPowerStatus) -> bool {
    let spec = &facts.subject.object.spec;
    let not_sent = known.last.as_ref().filter(|last| last.is_to_be_sent());
    let not_sent = |action: HostAction| not_sent.is_some_and(|last| last.action == action);
    let switches = spec
        .power
        .is_some_and(|wish| known.wish != Some(wish) || not_sent(HostAction::of(wish)));
    let restarts = spec.restart_token.is_some()
        && (spec.restart_token != known.restart_token || not_sent(HostAction::Restart));
    switches || restarts
}

/// Whether it may still be on its way.
fn is_fresh(facts: &Facts, last: &HostCommand) -> bool {
    let Some(view) = facts.subject.view() else {
        return true;
    };
    last.is_open() && facts.subject.now.mono < facts.begins(&last.attempt, view)
}

/// Whether its answer was lost, and it is to be sent again: by who sent it alone, and soon. However old one is that another
/// process has noted, nobody knows who has switched the host since.
fn is_lost(facts: &Facts, last: &HostCommand) -> bool {
    let may_be_repeated = last.is_open()
        && last.action.is_repeatable()
        && last.attempts < ATTEMPTS
        && facts.has_commanded(last);
    // Another account may count another machine alike.
    let account = facts.order_account();
    let is_there = account.is_some_and(|account| account.lineage == last.account.lineage);
    // A look after it did not show what was asked for, else it were not open.
    let looked = facts.subject.view().zip(facts.hosts());
    let is_time = looked.is_some_and(|(view, (began, _))| {
        began >= facts.begins(&last.attempt, view) && !facts.is_overdue(&last.attempt, view, began)
    });
    may_be_repeated && is_there && is_time
}

/// Takes in what is known by now of a command whose answer was lost.
fn settle(
    facts: &Facts,
    view: &View,
    began: Duration,
    host: &Host,
    is_busy: bool,
    known: &mut HostPowerStatus,
) {
    let Some(last) = known.last.as_mut().filter(|last| last.is_open()) else {
        return;
    };
    if last.action == HostAction::Restart {
        return last.give_up("its answer was lost, or the operator ended before it came");
    }
    if began < facts.begins(&last.attempt, view) {
        return;
    }
    if shows(host, last.action) {
        last.outcome = Some(CommandOutcome::Accepted);
    } else if is_busy {
        // An installation switches the host on, and its end is no time for what was asked for before.
        last.give_up("its answer was lost, and an installation came in between");
    } else if !facts.is_overdue(&last.attempt, view, began) {
        if last.attempts >= ATTEMPTS && facts.has_commanded(last) {
            last.give_up("its answers were lost, and the host does not show it");
        }
    } else if facts.has_commanded(last) {
        last.give_up("its answer was lost, and the host does not show it");
    } else {
        last.give_up(
            "the operator that sent it, or was about to, ended before the answer, and the host does not show it",
        );
    }
}

/// Whether the host shows what a command brings about, in the words that are known.
pub fn shows(host: &Host, action: HostAction) -> bool {
    is_done(&host.status, action)
}

/// The same by the word alone. Clients have seen two pairs of them.
pub fn is_done(word: &str, action: HostAction) -> bool {
    let words = match action {
        HostAction::Start => ["running", "on"],
        HostAction::Stop => ["stopped", "off"],
        HostAction::Restart => return false,
    };
    words.iter().any(|done| word.eq_ignore_ascii_case(done))
}

fn searching(view: &View, host: &Host, last: &HostCommand) -> Step {
    let text = format!(
        "it is not known whether host {} was switched {}, since the answer was lost; looked at again every {}",
        host.id,
        direction(last.action),
        Interval(view.times.active_poll_interval)
    );
    Step {
        cause: Some(Cause::waits(Reason::OutcomeUnknown, text)),
        is_moving: true,
        ..Step::default()
    }
}

fn direction(action: HostAction) -> &'static str {
    match action {
        HostAction::Start => "on",
        HostAction::Stop => "off",
        HostAction::Restart => "off and on",
    }
}

/// How the last command ended, where that is not well and its wish still stands.
fn ended(facts: &Facts, known: &HostPowerStatus, last: &HostCommand) -> Option<Cause> {
    let spec = &facts.subject.object.spec;
    let (stands, field, remedy) = match last.action {
        HostAction::Start | HostAction::Stop => (
            spec.power.map(HostAction::of) == Some(last.action),
            "spec.power",
            "take spec.power out, and set it again for another try",
        ),
        HostAction::Restart => (
            spec.restart_token.is_some() && spec.restart_token == known.restart_token,
            "spec.restartToken",
            "set spec.restartToken to another word for another try, or take it out",
        ),
    };
    let why = last.message.as_deref().unwrap_or("no answer came");
    let host = facts.number();
    if !stands {
        return None;
    }
    // Without its answer. What is known not to have been sent is no open question.
    if last.given_up && last.outcome.is_none() {
        let text = format!(
            "{field}: it is not known whether host {host} was switched {}: {why}; {remedy}",
            direction(last.action)
        );
        return Some(Cause::needs_person(Reason::OutcomeUnknown, text));
    }
    (last.outcome == Some(CommandOutcome::Refused)).then(|| {
        let text = format!(
            "{field}: the provider refused to switch host {host} {}: {why}; {remedy}",
            direction(last.action)
        );
        Cause::needs_person(Reason::RequestRefused, text)
    })
}

/// Whether a command that was decided is still due on the object as it was read right before. Returns what is known of power,
/// which the attempt goes beside.
pub fn may_start(fresh: &Facts, new: &NewCommand) -> Option<HostPowerStatus> {
    let known = fresh.power()?;
    // Another process may have noted the very same meanwhile.
    let is_due = due(fresh, &known) == Some((new.action, new.attempts));
    (is_due && is_wished(fresh, new)).then_some(known)
}

/// Whether it may still be sent, on the object as it is after the attempt was written: nothing but that has come in between.
pub fn may_send(last: &Facts, new: &NewCommand, command: &HostCommand) -> bool {
    let power = last.subject.status().power;
    let noted = power.and_then(|power| power.last);
    noted.as_ref() == Some(command) && is_wished(last, new)
}

/// Whether the object asks for this very command.
fn is_wished(fresh: &Facts, new: &NewCommand) -> bool {
    let spec = &fresh.subject.object.spec;
    let is_it = match new.action {
        HostAction::Start | HostAction::Stop => spec.power.map(HostAction::of) == Some(new.action),
        HostAction::Restart => {
            spec.restart_token.is_some() && spec.restart_token == new.restart_token
        }
    };
    let install = fresh.install();
    let is_installing = install.as_ref().and_then(HostInstallStatus::open).is_some();
    let policies = fresh.known_policies();
    is_it
        && !is_installing
        && fresh.number() == new.host
        && fresh.subject.object.metadata.generation == new.generation
        && policies.is_some_and(PoliciesInForce::let_send)
        && may_touch(fresh, &new.account)
}

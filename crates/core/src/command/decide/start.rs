//! Whether a command may be sent now.

use super::{
    super::{
        adoption,
        facts::{CommandFacts, TargetFact, is_installing, is_target_deleting},
    },
    CommandDecision, CommandEffect, NewCommand, completion, status, wait_with_reason,
};
use crate::{
    explanation::{Explanation, ReadyState},
    resolved_account::Purpose,
    wording::WHEN_RATE_ALLOWS,
};
use api::{
    BareMetalServer, DedicatedHost, Interval, ManagementPolicy, Reason,
    command::{CommandTarget, PowerAction},
    order::{OrderAccount, OrderRecord},
    power::is_overtaken,
    references::PinnedAccount,
    target::Target,
};
use hosting_types::identity::is_same_uuid;
use std::time::Duration;

/// The provider's status of a server that takes commands.
const DELIVERED: &str = "delivered";
/// How soon a target that could not be read is read again.
const UNREADABLE: Duration = Duration::from_secs(10);

/// The command of the spec, or the one that follows it.
pub(super) fn start(facts: &CommandFacts, following: Option<PowerAction>) -> CommandDecision {
    let subject = &facts.subject;
    let (namespace, spec) = (subject.namespace(), &subject.object.spec);
    let name = facts.target_name();
    if subject.is_deleting() {
        return completion::remove_finalizer(facts);
    }
    if facts.is_repeated() {
        let message = "The command may have been sent already, so it is not sent again. This object is a copy, was restored, or lost its status: if still needed, create another ServerCommand without the annotation flexmetal.dev/command";
        return completion::failed(facts, Reason::NotRepeated, message);
    }
    if facts.is_late() {
        return completion::late(facts, "The command could not be sent", "");
    }
    if facts.will_time_out() {
        let text = "would fail this command, which is older than its spec.timeout";
        return completion::wait(facts, Explanation::read_only(text));
    }
    if !facts.is_first {
        // Does not name the other one: its end would change the message of all that wait.
        let message = format!(
            "Another ServerCommand for {name} goes first; this one follows when those before it are over"
        );
        return completion::wait(facts, Explanation::waits(Reason::Queued, message));
    }
    let target = match &facts.target {
        TargetFact::NotRead => {
            return CommandDecision::unchanged(subject).requeue_after(UNREADABLE);
        }
        TargetFact::Missing => {
            let message = format!(
                "{name} of spec.targetRef does not exist in namespace {namespace}. Create it, or delete this command"
            );
            return completion::wait(
                facts,
                Explanation::missing(Reason::ReferenceNotFound, message),
            );
        }
        TargetFact::Unreadable(why) => {
            let message = format!(
                "Cannot read {name}; {why}; retrying every {}",
                Interval(UNREADABLE)
            );
            return wait_with_reason(facts, Explanation::waits(Reason::ChecksFailed, message))
                .requeue_after(UNREADABLE);
        }
        TargetFact::Found(target) => target,
    };
    if is_target_deleting(target) {
        let message =
            format!("{name} is being deleted, so the command is not sent. Delete this command");
        return completion::failed(facts, Reason::Superseded, message);
    }
    if is_overtaken(target, &subject.object) {
        let message = format!(
            "{name} no longer asks for this command by spec.power; it is not sent. If it is still needed, create another ServerCommand"
        );
        return completion::failed(facts, Reason::Superseded, message);
    }
    if let Some(message) = explain_older_than_adoption(facts, target) {
        return completion::failed(facts, Reason::NotRepeated, message);
    }
    let mut status = status(facts);
    let Some(seen) = CommandTarget::from_target(status.records.target.as_ref(), target) else {
        let message = format!(
            "{name} is not the one that this command first saw; it has another object, server or account, so the command is not sent. If still needed, create another ServerCommand"
        );
        return completion::failed(facts, Reason::Superseded, message);
    };
    // Status records the target and its account first: from then on the command waits for that account.
    let of_target = Some(target.account());
    if status.account_ref != of_target || status.records.target.as_ref() != Some(&seen) {
        status.account_ref = of_target;
        status.records.target = Some(seen);
        let explanation = sending();
        return CommandDecision::from_status(status)
            .because(explanation)
            .requeue_once_written();
    }
    if is_installing(target) {
        let what = format!("{name} is being installed (spec.install.revision)");
        return match target {
            Target::Server(_) => {
                let message = format!(
                    "{what}; this command is not sent. When that is over, create another ServerCommand"
                );
                completion::failed(facts, Reason::Reinstalling, message)
            }
            // The installation may not be sent after all: command and installation each yield to the other.
            Target::Host(_) => {
                let message =
                    format!("{what}; the command follows when that is over, within spec.timeout");
                completion::wait(facts, Explanation::waits(Reason::Reinstalling, message))
            }
        };
    }
    if let Err(explanation) = check_target_ready(facts, target) {
        let is_suspended = explanation.ready_state == ReadyState::Suspended;
        let suspended = is_suspended.then(|| explanation.message.clone());
        return CommandDecision {
            suspended,
            ..completion::wait(facts, explanation)
        };
    }
    let view = match subject.account.usable(Purpose::Change) {
        Ok(view) => view,
        Err(explanation) => return completion::wait(facts, explanation),
    };
    if let Err(explanation) = subject.account_id() {
        return completion::wait(facts, explanation);
    }
    let every = view.times.active_poll_interval;
    if let Some((at, reason, why)) = &subject.memory.own.busy {
        let rest = (*at + every).saturating_sub(subject.now.mono);
        if !rest.is_zero() {
            let message = format!("{why}; checked every {}", Interval(every));
            return wait_with_reason(facts, Explanation::waits(*reason, message))
                .requeue_after(rest);
        }
    }
    let (Some(server), Some(account)) = (target.provider_id(), order_account(facts, target)) else {
        return CommandDecision::unchanged(subject).requeue_after(UNREADABLE);
    };
    let new = NewCommand {
        action: following.unwrap_or(spec.action),
        target: target.meta().uid.clone().unwrap_or_default(),
        server,
        server_id: server_id(target),
        account,
        pages: match target {
            Target::Server(_) => facts.pages(),
            Target::Host(_) => 0,
        },
    };
    let explanation = sending();
    wait_with_reason(facts, explanation).with(CommandEffect::Send(Box::new(new)))
}

/// The command waits only for the rate limiter.
fn sending() -> Explanation {
    Explanation::waits(
        Reason::Progressing,
        format!("The command is sent {WHEN_RATE_ALLOWS}"),
    )
}

/// The account as an intent names it; None while it is unknown.
fn order_account(facts: &CommandFacts, target: &Target) -> Option<OrderAccount> {
    let view = facts.subject.view()?;
    let PinnedAccount { kind, name } = target.account();
    Some(OrderAccount {
        kind,
        name,
        uid: view.uid.clone(),
        account_id: view.account_id.clone()?,
        credentials_hash: view.credentials_hash.clone()?,
    })
}

/// The provider's number of the server behind a host, as last read.
fn server_id(target: &Target) -> Option<i64> {
    match target {
        Target::Server(_) => None,
        Target::Host(host) => host.status.as_ref()?.server_id,
    }
}

/// Whether a command may still be sent, on object, account and target as they are after its intent is written. A
/// release or installation first records itself, then reads the commands: one of the two sees the other.
pub fn may_send(fresh: &CommandFacts, new: &NewCommand) -> bool {
    let TargetFact::Found(target) = &fresh.target else {
        return false;
    };
    !fresh.subject.is_deleting()
        && !fresh.is_late()
        && fresh.is_first
        && !is_target_deleting(target)
        && !is_installing(target)
        && !is_overtaken(target, &fresh.subject.object)
        && explain_older_than_adoption(fresh, target).is_none()
        && CommandTarget::from_target(fresh.subject.status().records.target.as_ref(), target)
            .is_some()
        && target.meta().uid.as_ref() == Some(&new.target)
        && target
            .provider_id()
            .is_some_and(|it| is_same_uuid(&it, &new.server))
        && server_id(target) == new.server_id
        && order_account(fresh, target).as_ref() == Some(&new.account)
        && fresh.subject.account.usable(Purpose::Change).is_ok()
        && check_target_ready(fresh, target).is_ok()
}

/// Why a command that is not younger than the adoption of its server is not sent. Hosts are not adopted.
fn explain_older_than_adoption(facts: &CommandFacts, target: &Target) -> Option<String> {
    let Target::Server(server) = target else {
        return None;
    };
    adoption::explain_older_command(&facts.subject.object, server, facts.subject.now.wall)
}

/// Whether the target, as its object shows it, takes a command.
fn check_target_ready(facts: &CommandFacts, target: &Target) -> Result<(), Explanation> {
    let name = facts.target_name();
    let defaults = facts.subject.view().and_then(|view| view.defaults);
    let policies = target.policies().or(defaults.unwrap_or_default());
    if policies.suspend.unwrap_or_default() {
        let message = format!(
            "{name} is suspended; the command waits, at most for spec.timeout. To resume, set spec.suspend to false there"
        );
        return Err(Explanation {
            message,
            ..Explanation::suspended()
        });
    }
    if policies.management_policy == Some(ManagementPolicy::ObserveOnly) {
        let message = format!(
            "{name} has managementPolicy ObserveOnly; the command is not sent. Delete this command, or set spec.managementPolicy to Full there"
        );
        return Err(Explanation::stalled(Reason::ObserveOnly, message));
    }
    match target {
        Target::Server(server) => check_delivered(&name, server),
        Target::Host(host) => check_host_owned(facts, &name, host),
    }
}

/// Whether an object has a server that takes commands.
fn check_delivered(name: &str, server: &BareMetalServer) -> Result<(), Explanation> {
    let status = server.status.clone().unwrap_or_default();
    let created = server.own_order().and_then(OrderRecord::created);
    let has_server = status.uuid.is_some() && created.is_some();
    let shown = match status.provider_status.as_deref() {
        Some(DELIVERED) if has_server => return Ok(()),
        Some(word) if has_server => {
            format!("its server is {word:?}; the command follows when that is delivered")
        }
        _ => "it has no server; the command follows when one is ordered and delivered".to_owned(),
    };
    let message = format!("{name} takes no command now; {shown}, within spec.timeout");
    Err(Explanation::waits(Reason::ReferenceNotReady, message))
}

/// Whether the object owns its host: the account has shown it and grants it, and no other object owns it.
fn check_host_owned(
    facts: &CommandFacts,
    name: &str,
    host: &DedicatedHost,
) -> Result<(), Explanation> {
    let number = host.spec.host_id;
    if let Some(owner) = &facts.conflicting_owners.owner {
        let message = format!(
            "Host {number} belongs to the older {}; nothing is sent. {}",
            owner.named("DedicatedHost", facts.subject.namespace()),
            owner.remedy(facts.subject.namespace())
        );
        return Err(Explanation::stalled(Reason::OwnershipConflict, message));
    }
    if facts.subject.account.usable(Purpose::Change).is_ok()
        && !facts
            .subject
            .account
            .terms()
            .is_some_and(|t| t.may_use_host(number))
    {
        let message = format!(
            "The account does not grant host {number} to this namespace; nothing is sent. Ask an administrator of the account to add {number} to hostIDs of the namespace's entry in spec.allowedNamespaces"
        );
        return Err(Explanation::stalled(Reason::NotAllowed, message));
    }
    let seen_in = host
        .status
        .as_ref()
        .and_then(|s| s.records.account_id.as_ref());
    let account_id = facts
        .subject
        .view()
        .and_then(|view| view.account_id.as_ref());
    // Until the account is first read its ID is unknown; the account reports that itself.
    if seen_in.is_none() || account_id.is_some() && seen_in != account_id {
        let message = format!(
            "{name} is not seen in this account yet; the command follows when it is, within spec.timeout"
        );
        return Err(Explanation::waits(Reason::ReferenceNotReady, message));
    }
    Ok(())
}

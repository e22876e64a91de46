//! Whether a command may be sent now.

use super::{
    super::facts::{Facts, ServerFact, is_ending, is_installing},
    Decision, Effect, NewCommand, end, hold, status,
};
use crate::{account_facts::Purpose, cause::Cause};
use api::{
    BareMetalServer, Interval, ManagementPolicy, Reason,
    command::PowerAction,
    order::OrderAccount,
    power::is_overtaken,
    references::PinnedAccount,
    server::{OrderOutcome, OrderRecord},
};
use std::time::Duration;

/// The provider's word for a machine that takes commands.
const DELIVERED: &str = "delivered";
/// How soon a server that could not be read is read again.
const UNREADABLE: Duration = Duration::from_secs(10);

/// The command of the spec, or the one that follows it.
pub(super) fn start(facts: &Facts, following: Option<PowerAction>) -> Decision {
    let subject = &facts.subject;
    let (namespace, spec) = (subject.namespace(), &subject.object.spec);
    let name = &spec.server_ref.name;
    if subject.is_deleting() {
        return end::let_go(facts);
    }
    if facts.is_repeated() {
        let message = "the command may have been sent already, for an object of which this one is a copy or was restored, or before this one lost its status; so it is not sent again: if it is still needed, create another ServerCommand without the annotation flexmetal.dev/command";
        return end::failed(facts, Reason::NotRepeated, message);
    }
    if facts.is_late() {
        return end::late(facts, "the command could not be sent");
    }
    if !facts.is_first {
        // Not which one: its end would be another message for all that wait.
        let message = format!(
            "another ServerCommand for BareMetalServer {name} goes first; this one follows when those before it are over"
        );
        return end::wait(facts, Cause::waits(Reason::Queued, message));
    }
    let server = match &facts.server {
        ServerFact::NotRead => return Decision::unchanged(subject).again(UNREADABLE),
        ServerFact::Missing => {
            let message = format!(
                "spec.serverRef: there is no BareMetalServer {name} in namespace {namespace}; create it, or delete this command"
            );
            return end::wait(facts, Cause::missing(Reason::ReferenceNotFound, message));
        }
        ServerFact::Unreadable(why) => {
            let message = format!(
                "BareMetalServer {name} could not be read: {why}; read again every {}",
                Interval(UNREADABLE)
            );
            return hold(facts, Cause::waits(Reason::ChecksFailed, message)).again(UNREADABLE);
        }
        ServerFact::Found(server) => server,
    };
    if is_ending(server) {
        let message = format!(
            "BareMetalServer {name} is being deleted, so no command is sent to its machine any more; delete this command"
        );
        return end::failed(facts, Reason::ServerEnding, message);
    }
    if is_installing(server) {
        let message = format!(
            "the machine of BareMetalServer {name} is being installed again (spec.install.revision), so this command is not sent; create another ServerCommand when that is over"
        );
        return end::failed(facts, Reason::Reinstalling, message);
    }
    if is_overtaken(server, &subject.object) {
        let message = format!(
            "spec.power of BareMetalServer {name} has changed since, or its machine, so this command of its is not sent; if it is needed all the same, create another ServerCommand"
        );
        return end::failed(facts, Reason::Superseded, message);
    }
    // Whose account it is stands in status first: the object waits for that account from then on.
    let of_server = server.status.as_ref().and_then(|s| s.account.as_ref());
    let of_server = PinnedAccount::in_force(of_server, server.spec.account_ref.as_ref());
    if subject.status().account.as_ref() != Some(&of_server) {
        let mut status = status(facts);
        status.account = Some(of_server);
        let cause = Cause::waits(Reason::Progressing, "the command is sent within seconds");
        return Decision::of(status).because(cause).going_on();
    }
    if let Err(cause) = stands_ready(facts, server) {
        return end::wait(facts, cause);
    }
    let view = match subject.account.usable(Purpose::Change) {
        Ok(view) => view,
        Err(cause) => return end::wait(facts, cause),
    };
    let lineage = match subject.lineage() {
        Ok(lineage) => lineage,
        Err(cause) => return end::wait(facts, cause),
    };
    let every = view.times.active_poll_interval;
    if let Some((at, why)) = &subject.memory.own.busy {
        let rest = (*at + every).saturating_sub(subject.now.mono);
        if !rest.is_zero() {
            let message = format!("{why}; looked at again every {}", Interval(every));
            return hold(facts, Cause::waits(Reason::Queued, message)).again(rest);
        }
    }
    let machine = server.status.as_ref().and_then(|s| s.uuid.clone());
    let (Some(machine), Some(connection)) = (machine, view.connection.clone()) else {
        return Decision::unchanged(subject).again(UNREADABLE);
    };
    let PinnedAccount { kind, name } = of_server;
    let new = NewCommand {
        action: following.unwrap_or(spec.action),
        server: server.metadata.uid.clone().unwrap_or_default(),
        machine,
        account: OrderAccount {
            kind,
            name,
            uid: view.uid.clone(),
            lineage: lineage.to_owned(),
            connection,
        },
        pages: facts.pages(),
    };
    let cause = Cause::waits(Reason::Progressing, "the command is sent within seconds");
    hold(facts, cause).with(Effect::Send(Box::new(new)))
}

/// Whether a command may still be sent, on object and server as they are after its intent was written. Whoever releases the
/// machine notes that first, and asks for the commands then: so either this sees the note, or that sees the intent.
pub fn may_send(fresh: &Facts, new: &NewCommand) -> bool {
    let ServerFact::Found(server) = &fresh.server else {
        return false;
    };
    let status = server.status.as_ref();
    let is_its_machine = status.and_then(|s| s.uuid.as_ref()) == Some(&new.machine);
    !fresh.subject.is_deleting()
        && !fresh.is_late()
        && fresh.is_first
        && !is_ending(server)
        && !is_installing(server)
        && !is_overtaken(server, &fresh.subject.object)
        && server.metadata.uid.as_ref() == Some(&new.server)
        && is_its_machine
        && stands_ready(fresh, server).is_ok()
}

/// Whether the server, as its object shows it, takes a command.
fn stands_ready(facts: &Facts, server: &BareMetalServer) -> Result<(), Cause> {
    let name = &facts.subject.object.spec.server_ref.name;
    let status = server.status.clone().unwrap_or_default();
    let defaults = facts.subject.view().and_then(|view| view.defaults);
    let in_force = |of_server: Option<bool>, of_account: Option<bool>| {
        of_server.or(of_account).unwrap_or_default()
    };
    let by_namespace = facts.is_namespace_suspended.then_some(true);
    let suspends = server.spec.suspend.or(by_namespace);
    if in_force(suspends, defaults.and_then(|d| d.suspend)) {
        let message = format!(
            "BareMetalServer {name} is suspended, so nothing is sent to its machine; the command follows when that is over, as long as spec.timeout lets it"
        );
        return Err(Cause::suspended(message));
    }
    let is_observed = |policy| policy == ManagementPolicy::ObserveOnly;
    let of_account = defaults.and_then(|d| d.management_policy);
    let management = server.spec.management_policy.or(of_account);
    if management.is_some_and(is_observed) {
        let message = format!(
            "BareMetalServer {name} is only looked at (managementPolicy: ObserveOnly), so nothing is sent to its machine; delete this command, or set managementPolicy: Full there"
        );
        return Err(Cause::needs_person(Reason::ObserveOnly, message));
    }
    let is_made = |order: &OrderRecord| order.outcome == Some(OrderOutcome::Created);
    let has_machine = status.uuid.is_some() && status.order.as_ref().is_some_and(is_made);
    if !has_machine || status.provider_status.as_deref() != Some(DELIVERED) {
        let shown = match status.provider_status.as_deref() {
            Some(word) if has_machine => format!("its machine is {word:?}"),
            _ => "it has no machine".to_owned(),
        };
        let message = format!(
            "BareMetalServer {name} takes no command now, {shown}; the command follows when its machine is delivered, as long as spec.timeout lets it"
        );
        return Err(Cause::waits(Reason::ServerNotReady, message));
    }
    Ok(())
}

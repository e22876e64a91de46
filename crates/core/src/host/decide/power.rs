//! `spec.power` of a host: each change creates one ServerCommand, which sends the request. The initial value creates
//! none.

use super::{super::facts::HostFacts, HostEffect, HostStep, remedy};
use crate::{
    account::view::AccountView,
    explanation::Explanation,
    power::{self, PowerFacts},
};
use api::{
    Interval, PoliciesInForce, Reason,
    host::DedicatedHostStatus,
    host_install::HostInstallHistory,
    power::{Power, PowerCommandStatus, PowerRecord, PowerState},
};

/// Records the desired power of a listed host and returns what is due. `is_busy`: the host is being installed or about
/// to be, so a change waits.
pub(super) fn step(
    facts: &HostFacts,
    view: &AccountView,
    is_busy: bool,
    status: &mut DedicatedHostStatus,
) -> HostStep {
    let host = facts.number();
    let number = host.to_string();
    let planned = power::plan_power_change(&PowerFacts {
        may_send: !is_busy && may_send(facts),
        ..power_facts(facts, &number, status.records.power.take())
    });
    status.records.power = planned.record;
    let effect = planned
        .due
        .map(|(name, action)| HostEffect::Power { name, action });
    let known = status.records.power.as_ref();
    let is_blocked = |c: &&PowerCommandStatus| c.state == PowerState::Recorded && !may_send(facts);
    let awaited = known.and_then(PowerRecord::awaited);
    if let Some(command) = awaited.filter(|c| !is_blocked(c)) {
        let every = view.times.active_poll_interval;
        let does = match command.state {
            PowerState::Recorded => "is created as soon as the API server accepts it".to_owned(),
            _ => format!("is under way; checked every {}", Interval(every)),
        };
        let text = format!("ServerCommand {} of spec.power {does}", command.name);
        return HostStep {
            explanation: Some(Explanation::waits(Reason::Progressing, text)),
            effect,
            rest: Some(every),
            is_moving: true,
            ..HostStep::default()
        };
    }
    if let Some(desired) = facts.subject.object.spec.power
        && power::is_unsent(Some(desired), known)
    {
        let to = match desired {
            Power::PoweredOn => "on",
            Power::PoweredOff => "off",
        };
        let what = format!("Host {host} is to be switched {to} (spec.power)");
        let explanation = remedy::explain_block(facts, &what);
        return explanation.map_or_else(HostStep::default, HostStep::because);
    }
    let failed = power::failed(known);
    failed.map_or_else(HostStep::default, |text| {
        HostStep::because(Explanation::stalled(Reason::CommandFailed, text))
    })
}

fn power_facts<'a>(
    facts: &'a HostFacts,
    number: &'a str,
    known: Option<PowerRecord>,
) -> PowerFacts<'a> {
    let install = facts.install();
    let is_installing = install
        .as_ref()
        .and_then(HostInstallHistory::unfinished)
        .is_some();
    PowerFacts {
        name: facts.subject.name(),
        generation: facts.subject.object.metadata.generation.unwrap_or_default(),
        desired: facts.subject.object.spec.power,
        // Until an installation record exists, the host counts as new.
        record: known.filter(|_| install.is_some()),
        target_id: number,
        is_there: true,
        may_send: may_send(facts) && !is_installing,
        is_read_only: facts.subject.read_only,
        command: &facts.power,
        created: facts.subject.memory.own.powered.as_deref(),
        now: facts.subject.now.wall,
    }
}

fn may_send(facts: &HostFacts) -> bool {
    !facts.subject.read_only
        && facts
            .known_policies()
            .is_some_and(PoliciesInForce::may_send)
}

/// Whether a command may still be created. `fresh` is the object as read right before.
pub fn may_create(fresh: &HostFacts, name: &str) -> bool {
    let number = fresh.number().to_string();
    let known = fresh.subject.status().records.power;
    !fresh.subject.is_deleting() && power::may_create(&power_facts(fresh, &number, known), name)
}

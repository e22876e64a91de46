//! `spec.power` of a host: each change of it is one ServerCommand, and first sight of the host none. That object sends it.

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

/// What is to be recorded of the wish for a host that is shown, and done. `is_busy`: it is being installed, or about to be, and
/// takes no command; the wish is heard when that is over.
pub(super) fn step(
    facts: &HostFacts,
    view: &AccountView,
    is_busy: bool,
    status: &mut DedicatedHostStatus,
) -> HostStep {
    let host = facts.number();
    let number = host.to_string();
    let wished = power::plan_power_change(&PowerFacts {
        may_send: !is_busy && lets_send(facts),
        ..power_facts(facts, &number, status.records.power.take())
    });
    status.records.power = wished.record;
    let effect = wished
        .due
        .map(|(name, action)| HostEffect::Power { name, action });
    let known = status.records.power.as_ref();
    let is_held = |c: &&PowerCommandStatus| c.state == PowerState::Recorded && !lets_send(facts);
    let awaited = known.and_then(PowerRecord::awaited);
    if let Some(command) = awaited.filter(|c| !is_held(c)) {
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
    if let Some(wish) = facts.subject.object.spec.power
        && power::is_unsent(Some(wish), known)
    {
        let to = match wish {
            Power::PoweredOn => "on",
            Power::PoweredOff => "off",
        };
        let what = format!("Host {host} is to be switched {to} (spec.power)");
        let cause = remedy::explain_block(facts, &what);
        return cause.map_or_else(HostStep::default, HostStep::because);
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
        .and_then(HostInstallHistory::open)
        .is_some();
    PowerFacts {
        name: facts.subject.name(),
        generation: facts.subject.object.metadata.generation.unwrap_or_default(),
        desired: facts.subject.object.spec.power,
        // First sight is over once the installations are on record.
        record: known.filter(|_| install.is_some()),
        target_id: number,
        is_there: true,
        may_send: lets_send(facts) && !is_installing,
        command: &facts.power,
        created: facts.subject.memory.own.powered.as_deref(),
        now: facts.subject.now.wall,
    }
}

fn lets_send(facts: &HostFacts) -> bool {
    facts
        .known_policies()
        .is_some_and(PoliciesInForce::let_send)
}

/// Whether a command may still be created: judged again on the object as it is right before.
pub fn may_create(fresh: &HostFacts, name: &str) -> bool {
    let number = fresh.number().to_string();
    let known = fresh.subject.status().records.power;
    !fresh.subject.is_deleting() && power::may_create(&power_facts(fresh, &number, known), name)
}

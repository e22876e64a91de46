//! `spec.power` of a server. The provider does not say whether a machine is on; only of a delivered one the wish is heard:
//! before, there is nothing to switch.

use super::{super::facts::ServerFacts, ServerEffect, reinstall};
use crate::power::{self, PowerFacts};
use api::{Reason, install::InstallHistory, power::PowerRecord};
use hosting_types::{Server, ServerStatus};

/// What is to be recorded of the wish for a machine, and done.
pub fn decide_power(
    facts: &ServerFacts,
    server: &Server,
) -> (Option<PowerRecord>, Option<ServerEffect>) {
    let is_delivered = server.status == ServerStatus::Delivered;
    let wished = power::plan_power_change(&power_facts(facts, server.id.as_str(), is_delivered));
    let effect = |(name, action)| ServerEffect::Command { name, action };
    (wished.record, wished.due.map(effect))
}

fn power_facts<'a>(facts: &'a ServerFacts, machine: &'a str, is_there: bool) -> PowerFacts<'a> {
    // A machine that is being installed again takes no command; the wish is heard when that is over.
    let installing = reinstall::find_history(facts, machine);
    let is_installing = installing.as_ref().and_then(InstallHistory::open).is_some();
    PowerFacts {
        name: facts.name(),
        generation: facts.object.metadata.generation.unwrap_or_default(),
        desired: facts.object.spec.power,
        // That of an earlier object is no wish of this one.
        record: facts
            .status()
            .records
            .power
            .filter(|_| facts.has_own_record()),
        target_id: machine,
        is_there,
        may_send: facts.policies().let_send() && !is_installing,
        command: &facts.power,
        created: facts.memory.power_command.as_deref(),
        now: facts.now.wall,
    }
}

/// Whether a command may still be created: judged again on the object as it is right before.
pub fn may_create(fresh: &ServerFacts, name: &str) -> bool {
    let machine = fresh.status().uuid.unwrap_or_default();
    !fresh.deleting() && power::may_create(&power_facts(fresh, &machine, true), name)
}

/// What Synced says where the wish came to nothing, or waits until the object is suspended no more.
pub fn explain_unsynced(
    facts: &ServerFacts,
    record: Option<&PowerRecord>,
) -> Option<(bool, Reason, String)> {
    if facts.policies().suspend && power::is_unsent(facts.object.spec.power, record) {
        let text = "No command is created for spec.power; it follows once suspend is lifted (see the condition Suspended)";
        return Some((false, Reason::PendingChanges, text.to_owned()));
    }
    power::failed(record).map(|text| (false, Reason::CommandFailed, text))
}

//! `spec.power` of a server. The provider does not report the power state, and an undelivered server cannot be
//! switched.

use super::{super::facts::ServerFacts, ServerEffect, reinstall};
use crate::{
    explanation::Explanation,
    power::{self, PowerFacts},
};
use api::{Reason, install::InstallHistory, power::PowerRecord};
use hosting_types::{Server, ServerStatus};

/// The power record of a server, and the command that is due.
pub fn decide_power(
    facts: &ServerFacts,
    server: &Server,
) -> (Option<PowerRecord>, Option<ServerEffect>) {
    let is_delivered = server.status == ServerStatus::Delivered;
    let plan = power::plan_power_change(&power_facts(facts, server.id.as_str(), is_delivered));
    let effect = |(name, action)| ServerEffect::Command { name, action };
    (plan.record, plan.due.map(effect))
}

fn power_facts<'a>(facts: &'a ServerFacts, server_uuid: &'a str, is_there: bool) -> PowerFacts<'a> {
    // A server that is being re-installed takes no command. The change follows later.
    let installing = reinstall::find_history(facts, server_uuid);
    let is_installing = installing
        .as_ref()
        .and_then(InstallHistory::unfinished)
        .is_some();
    PowerFacts {
        name: facts.name(),
        generation: facts.object.metadata.generation.unwrap_or_default(),
        desired: facts.object.spec.power,
        // A record of an earlier object does not count.
        record: facts
            .status()
            .records
            .power
            .filter(|_| facts.has_own_record()),
        target_id: server_uuid,
        is_there,
        may_send: facts.policies().may_send() && !facts.read_only && !is_installing,
        is_read_only: facts.read_only,
        command: &facts.power,
        created: facts.memory.power_command.as_deref(),
        now: facts.now.wall,
    }
}

/// Whether a command may still be created, by the object as just read.
pub fn may_create(fresh: &ServerFacts, name: &str) -> bool {
    let server_uuid = fresh.status().uuid.unwrap_or_default();
    !fresh.deleting() && power::may_create(&power_facts(fresh, &server_uuid, true), name)
}

/// What Synced reports if the power change failed or is suspended.
pub fn explain_unsynced(
    facts: &ServerFacts,
    record: Option<&PowerRecord>,
) -> Option<(bool, Reason, String)> {
    if facts.policies().suspend && power::is_unsent(facts.object.spec.power, record) {
        let text = "No command is created for spec.power; it follows once suspend is lifted (see the condition Suspended)";
        return Some((false, Reason::PendingChanges, text.to_owned()));
    }
    if facts.read_only && power::is_unsent(facts.object.spec.power, record) {
        let blocked = Explanation::read_only("would create a ServerCommand for spec.power");
        return Some((false, blocked.reason, blocked.message));
    }
    power::failed(record).map(|text| (false, Reason::CommandFailed, text))
}

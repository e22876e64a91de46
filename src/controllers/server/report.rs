//! A server's status and events, from what was decided.

use super::ServerContext;
use crate::controllers::report::{Machine, Reported};
use api::target::TargetKind;
use flexmetal_core::{
    report::Step,
    server::{
        decide::{Decision, expiry, fence},
        facts::Facts,
        steps,
    },
    wording::listed,
};
use hosting_types::{Server, ServerStatus};

/// Writes the decided status, where it differs, and publishes what it tells that the one before did not.
pub async fn report(ctx: &ServerContext, facts: &Facts, decision: &Decision) -> Reported {
    let status = decision.draft.finish(jiff::Timestamp::now());
    let reported = ctx
        .report(&facts.object, &status, |_, _| steps::told(facts, &status))
        .await;
    if reported == Reported::Written {
        let kind = TargetKind::BareMetalServer;
        ctx.server_commands
            .target_changed(kind, &facts.object.metadata);
    }
    reported
}

/// Tells people what no condition shows: the release of the machine is on record, whatever is written on the object from
/// now on.
pub async fn release_started(ctx: &ServerContext, facts: &Facts, uuid: &str) {
    let note = format!(
        "the release of machine {uuid} has started; deletionPolicy: Retain comes too late from now on"
    );
    tell(ctx, facts, Step::ReleaseStarted, uuid, note).await;
}

/// Tells people that the object deleted itself.
pub async fn expired(ctx: &ServerContext, facts: &Facts, at: i64) {
    let status = facts.status();
    let uuid = status.uuid.as_deref().unwrap_or_default();
    let note = format!(
        "spec.expiresAt was {}, so this object deleted itself; its machine goes the way of any deletion",
        expiry::moment(at)
    );
    tell(ctx, facts, Step::Expired, uuid, note).await;
}

/// Tells people what a status write does not show them: how the object's machines ended.
pub async fn ended(ctx: &ServerContext, facts: &Facts) {
    let all = || facts.own.iter().chain(&facts.recorded).map(|s| &*s.server);
    let named = |is: fn(&Server) -> bool| -> Vec<&str> {
        let found = all().filter(|server| is(server));
        found.map(|server| server.id.as_str()).collect()
    };
    let own = facts
        .own
        .iter()
        .map(|s| &*s.server)
        .filter(|s| s.status.is_live());
    let live: Vec<&str> = own.map(|server| server.id.as_str()).collect();
    let released = named(|server| server.status == ServerStatus::Released);
    if let Some(first) = live.first() {
        let note = format!(
            "machine {} stays at the provider and is still billed; to find it again: tag {}",
            listed(live.iter().copied()),
            facts.tag_of_retained()
        );
        tell(ctx, facts, Step::Retained, first, note).await;
    } else if let Some(first) = released.first() {
        let note = format!("machine {} is released", listed(released.iter().copied()));
        tell(ctx, facts, Step::Released, first, note).await;
    }
}

async fn tell(ctx: &ServerContext, facts: &Facts, step: Step, uuid: &str, note: String) {
    let of_machine = facts.own.iter().find_map(|s| {
        let is_it = uuid == s.server.id.as_str();
        is_it.then(|| fence::order_tag_of(&s.server, &facts.mark()))?
    });
    let machine = Machine {
        uuid: Some(uuid.to_owned()),
        order: of_machine.map(str::to_owned),
    };
    ctx.publish_of(&*facts.object, &machine, step.news(note))
        .await;
}

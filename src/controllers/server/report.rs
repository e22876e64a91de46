//! Writes a server's status and publishes its events.

use super::ServerContext;
use crate::controllers::report::{Reported, ServerFields};
use api::{server::BareMetalServerStatus, target::TargetKind};
use flexmetal_core::{
    report::ServerEvent,
    server::{
        decide::{ServerDecision, expiry, release},
        events,
        facts::ServerFacts,
    },
};
use hosting_types::{Server, ServerStatus};
use std::time::Duration;

/// Writes the decided status if it differs, and publishes events for what changed.
pub async fn report(
    ctx: &ServerContext,
    facts: &ServerFacts,
    decision: &ServerDecision,
) -> Reported {
    let status = decision.desired.finish(jiff::Timestamp::now());
    let reported = ctx
        .report(&facts.object, &status, |_, _| {
            events::collect_events(facts, &status)
        })
        .await;
    if reported == Reported::Written {
        if facts.status().delivered_at.is_none() && status.delivered_at.is_some() {
            record_delivery(ctx, &status);
        }
        let kind = TargetKind::BareMetalServer;
        ctx.server_commands
            .target_changed(kind, &facts.object.metadata);
    }
    reported
}

fn record_delivery(ctx: &ServerContext, status: &BareMetalServerStatus) {
    let seconds = status
        .provisioning_seconds
        .and_then(|it| u64::try_from(it).ok());
    if let (Some(seconds), Some(location), Some(instance_type)) =
        (seconds, &status.location, &status.instance_type)
    {
        let took = Duration::from_secs(seconds);
        ctx.metrics.record_delivery(location, instance_type, took);
    }
}

/// Reports that the release is recorded, which no condition shows. Later edits of the object do not stop it.
pub async fn release_started(ctx: &ServerContext, facts: &ServerFacts, uuid: &str) {
    let note =
        format!("Started to release server {uuid}; deletionPolicy Retain has no effect any more");
    publish_step(ctx, facts, ServerEvent::ReleaseStarted, uuid, note).await;
}

/// Reports that the object deleted itself.
pub async fn expired(ctx: &ServerContext, facts: &ServerFacts, at: i64) {
    let status = facts.status();
    let uuid = status.uuid.as_deref().unwrap_or_default();
    let note = format!(
        "Deleted this object (spec.expiresAt {}); its server follows the deletion policy",
        expiry::to_timestamp(at)
    );
    publish_step(ctx, facts, ServerEvent::Expired, uuid, note).await;
}

/// Reports how the object's servers ended, which no status update shows.
pub async fn ended(ctx: &ServerContext, facts: &ServerFacts) {
    let own = facts.own.iter().map(|s| &*s.server);
    let mut live = own.filter(|server| server.status.is_live()).map(id);
    if let Some(first) = live.next() {
        let note = release::describe_retained(facts);
        return publish_step(ctx, facts, ServerEvent::Retained, first, note).await;
    }
    let recorded = facts.recorded.as_ref().map(|s| &*s.server);
    let Some((uuid, status)) = recorded.map(|server| (id(server), &server.status)) else {
        return;
    };
    match status {
        ServerStatus::Released => {
            let note = format!("Released server {uuid}");
            publish_step(ctx, facts, ServerEvent::Released, uuid, note).await;
        }
        ServerStatus::Failed if !facts.policies().retain() => {
            let note = format!(
                "Failed server {uuid} is not released; the provider refuses it, and nothing more is sent. Release it at the provider"
            );
            publish_step(ctx, facts, ServerEvent::NotReleased, uuid, note).await;
        }
        _ => {}
    }
}

fn id(server: &Server) -> &str {
    server.id.as_str()
}

async fn publish_step(
    ctx: &ServerContext,
    facts: &ServerFacts,
    step: ServerEvent,
    uuid: &str,
    note: String,
) {
    let fields = ServerFields {
        uuid: Some(uuid.to_owned()),
        order: facts.order().map(|order| order.seq),
    };
    ctx.publish_of(&*facts.object, &fields, step.news(note))
        .await;
}

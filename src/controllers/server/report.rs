//! A server's status and events, from what was decided.

use super::{ServerContext, decide::Decision, facts::Facts};
use crate::{
    controllers::{
        events::Severity,
        report::{News, Reported, turned},
    },
    kinds::{Reason, conditions::Type},
};
use hosting::ServerStatus;

/// The turns that people wait for or must act on.
const TURNS: [(Type, Severity, &str); 2] = [
    (Type::Ready, Severity::Normal, "Deliver"),
    (Type::Stalled, Severity::Warning, "Hold"),
];

/// Writes the decided status, where it differs, and publishes what changed.
pub async fn report(ctx: &ServerContext, facts: &Facts, decision: &Decision) -> Reported {
    let status = decision.draft.finish(jiff::Timestamp::now());
    let news = |before: &[_], after: &[_]| turned(before, after, &TURNS);
    ctx.report(&facts.object, &status, news).await
}

/// Tells people what a status write does not show them: how the object's machine ended.
pub async fn ended(ctx: &ServerContext, facts: &Facts) {
    let machines = || facts.own.iter().map(|s| &s.server);
    let (reason, note) = if machines().any(|s| s.status.is_live()) {
        (Reason::Retained, "the machine stays at the provider")
    } else if machines().any(|s| s.status == ServerStatus::Released) {
        (Reason::Released, "the machine is released")
    } else {
        return;
    };
    let news = News {
        severity: Severity::Normal,
        reason,
        action: "Release",
        note: note.into(),
    };
    ctx.publish(&*facts.object, news).await;
}

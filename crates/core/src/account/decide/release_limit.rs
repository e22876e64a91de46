//! The release limit: what it says, and the acknowledgement that lifts it.

use super::super::facts::Facts;
use crate::{
    acknowledgement::Situation,
    wording::{counted, listed},
};
use api::{
    Reason,
    acknowledgement::AcknowledgementEffect,
    conditions::{Type, Wanted},
    release_limit::ReleaseLimitStatus,
};

/// What the release limit has counted, unless a user acknowledges what it holds.
pub(super) fn next(facts: &Facts) -> Option<ReleaseLimitStatus> {
    facts.spec.release_limit?;
    let held = situation(facts);
    let is_meant = held.is_some_and(|held| facts.acknowledgements().is_given(&held));
    facts.status.release_limit.clone().filter(|_| !is_meant)
}

/// The situation in which releases are held: the ones that count, and since when.
pub(super) fn situation(facts: &Facts) -> Option<Situation> {
    let status = holding(facts)?;
    let begun = listed(status.releases.iter().map(|release| release.uuid.as_str()));
    let subject = format!("releases after those of {begun}");
    let since = status.blocked_since.iter();
    let since = since.map(|since| since.0.as_second().to_string());
    let releases = status.releases.iter();
    let releases =
        releases.map(|release| format!("{}@{}", release.uuid, release.started_at.0.as_second()));
    let effect = AcknowledgementEffect::LiftReleaseLimit;
    Some(Situation::new(effect, since.chain(releases), subject))
}

/// What holds releases now.
fn holding(facts: &Facts) -> Option<&ReleaseLimitStatus> {
    let limit = facts.spec.release_limit?;
    let status = facts.status.release_limit.as_ref()?;
    limit.blocks(status).then_some(status)
}

/// The condition of an account that has a release limit, or had one.
pub(super) fn condition(facts: &Facts) -> Option<Wanted> {
    let kind = Type::ReleaseLimitReached;
    let Some(limit) = facts.spec.release_limit else {
        return Wanted::flag(kind, None, &facts.status.conditions);
    };
    let (Some(status), Some(held)) = (holding(facts), situation(facts)) else {
        return Some(Wanted::new(kind, false, Reason::InSync, ""));
    };
    let message = format!(
        "{} began within {}, as many as spec.releaseLimit lets; further ones are held, and their machines are billed; if they are meant, {}, which lets as many more begin; to keep the machines instead, set spec.deletionPolicy of their objects to Retain",
        counted(status.releases.len(), "release"),
        limit.window,
        facts.acknowledgements().remedy(&held),
    );
    Some(Wanted::new(kind, true, Reason::ReleaseLimited, message))
}

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
    release_limit::{NamespaceReleases, ReleaseLimitStatus},
};

/// So many namespaces are asked about at once; the status holds two tokens more.
const MOST_ASKED: usize = 6;

/// What the release limit has counted, but where a user acknowledges what it holds.
pub(super) fn next(facts: &Facts) -> Option<ReleaseLimitStatus> {
    facts.spec.release_limit?;
    let mut status = facts.status.release_limit.clone()?;
    let given = facts.acknowledgements();
    for (of, _) in situations(facts).filter(|(_, held)| given.is_given(held)) {
        status.namespaces.retain(|other| other != of);
    }
    (!status.namespaces.is_empty()).then_some(status)
}

/// What lets more releases begin.
const EFFECT: AcknowledgementEffect = AcknowledgementEffect::LiftReleaseLimit;

/// The situations in which releases are held, by namespace: the ones that count, and since when.
pub(super) fn situations(facts: &Facts) -> impl Iterator<Item = (&NamespaceReleases, Situation)> {
    holding(facts).map(|of| {
        let begun = listed(of.releases.iter().map(|release| release.uuid.as_str()));
        let subject = format!(
            "releases of namespace {} after those of {begun}",
            of.namespace
        );
        let since = of.blocked_since.iter();
        let since = since.map(|since| since.0.as_second().to_string());
        let releases = of.releases.iter();
        let releases = releases
            .map(|release| format!("{}@{}", release.uuid, release.started_at.0.as_second()));
        let exact = [of.namespace.clone()]
            .into_iter()
            .chain(since)
            .chain(releases);
        (of, Situation::new(EFFECT, exact, subject))
    })
}

/// The namespaces whose releases are held, as many as may be asked about at once.
fn holding(facts: &Facts) -> impl Iterator<Item = &NamespaceReleases> {
    let limit = facts.spec.release_limit.into_iter();
    let status = facts.status.release_limit.iter();
    let held = limit
        .zip(status)
        .flat_map(|(limit, status)| limit.blocked(status));
    held.take(MOST_ASKED)
}

/// The condition of an account that has a release limit, or had one.
pub(super) fn condition(facts: &Facts) -> Option<Wanted> {
    let kind = Type::ReleaseLimitReached;
    let Some(limit) = facts.spec.release_limit else {
        return Wanted::flag(kind, None, &facts.status.conditions);
    };
    let mut all = situations(facts);
    let Some((of, held)) = all.next() else {
        return Some(Wanted::new(kind, false, Reason::InSync, ""));
    };
    let others = match all.count() {
        0 => String::new(),
        more => format!("; the same in {more} more, see status.pendingAcknowledgements"),
    };
    let message = format!(
        "{} of namespace {} began within {}, as many as spec.releaseLimit lets; further ones there are held, and their machines are billed; if they are meant, {}, which lets as many more begin; to keep the machines instead, set spec.deletionPolicy of their objects to Retain{others}",
        counted(of.releases.len(), "release"),
        of.namespace,
        limit.window,
        facts.acknowledgements().remedy(&held),
    );
    Some(Wanted::new(kind, true, Reason::ReleaseLimited, message))
}

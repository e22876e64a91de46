//! The release limit: its condition, and the acknowledgement that lifts it.

use super::super::facts::AccountFacts;
use crate::{acknowledgement::Situation, wording::counted};
use api::{
    Reason,
    acknowledgement::AcknowledgementEffect,
    conditions::{DesiredCondition, Type},
    release_limit::{NamespaceReleases, ReleaseLimitStatus},
};
use std::cmp::Reverse;

/// Most namespaces that are asked about at once; the status has space for two tokens more.
const MOST_ASKED: usize = 6;

/// What the release limit has counted, without the namespaces for which a user lifts it.
pub(super) fn decide_release_limit(facts: &AccountFacts) -> Option<ReleaseLimitStatus> {
    facts.spec.release_limit?;
    let mut status = facts.status.release_limit.clone()?;
    let given = facts.acknowledgements();
    let lifted = situations(facts).into_iter();
    for (of, _) in lifted.filter(|(_, situation)| given.is_given(situation)) {
        status.namespaces.retain(|other| other != of);
    }
    (!status.namespaces.is_empty()).then_some(status)
}

/// The acknowledgement that lets more releases begin.
const EFFECT: AcknowledgementEffect = AcknowledgementEffect::LiftReleaseLimit;

/// The situations to ask about, the latest first: one that nobody acknowledges makes space for newer ones.
pub(super) fn list_asked_situations(facts: &AccountFacts) -> impl Iterator<Item = Situation> {
    let all = situations(facts).into_iter().take(MOST_ASKED);
    all.map(|(_, situation)| situation)
}

/// The namespaces whose releases are blocked, the latest first. A situation has the start and the count of releases.
pub(super) fn situations(facts: &AccountFacts) -> Vec<(&NamespaceReleases, Situation)> {
    let limit = facts.spec.release_limit.into_iter();
    let status = facts.status.release_limit.iter();
    let blocked = limit
        .zip(status)
        .flat_map(|(limit, status)| limit.blocked(status));
    let mut blocked: Vec<&NamespaceReleases> = blocked.collect();
    let since = |of: &NamespaceReleases| of.blocked_since.as_ref().map(|since| since.0);
    blocked.sort_by_key(|of| Reverse(since(of)));
    let situations = blocked.into_iter().map(|of| {
        let since = since(of).map_or(0, |since| since.as_second());
        let begun = counted(of.count(), "release");
        let subject = format!("releases of namespace {} beyond {begun}", of.namespace);
        let exact = [of.namespace.clone(), since.to_string(), begun];
        (of, Situation::new(EFFECT, exact, subject))
    });
    situations.collect()
}

/// The condition of an account that has a release limit, or had one.
pub(super) fn condition(facts: &AccountFacts) -> Option<DesiredCondition> {
    let kind = Type::ReleaseLimitReached;
    let Some(limit) = facts.spec.release_limit else {
        return DesiredCondition::flag(kind, None, &facts.status.conditions);
    };
    let all = situations(facts);
    let Some((of, situation)) = all.first() else {
        return Some(DesiredCondition::new(kind, false, Reason::InSync, ""));
    };
    let others = match all.len().saturating_sub(1) {
        0 => String::new(),
        more => format!("; same in {more} more, see status.pendingAcknowledgements"),
    };
    let message = format!(
        "{} of namespace {} began within {}, the most of spec.releaseLimit; more wait and stay billed. To allow as many again, {}; to keep the servers, set spec.deletionPolicy of their objects to Retain{others}",
        counted(of.count(), "release"),
        of.namespace,
        limit.window,
        facts.acknowledgements().remedy(situation),
    );
    Some(DesiredCondition::new(
        kind,
        true,
        Reason::ReleaseLimited,
        message,
    ))
}

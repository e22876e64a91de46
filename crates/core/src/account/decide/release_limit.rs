//! The release limit: what it says, and the acknowledgement that lifts it.

use super::super::facts::Facts;
use crate::{acknowledgement::Situation, wording::counted};
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

/// The situations that are asked about: of those that began last, so that one which nobody acknowledges gives way.
pub(super) fn asked(facts: &Facts) -> Vec<Situation> {
    let mut all: Vec<_> = situations(facts).collect();
    all.sort_by_key(|(of, _)| std::cmp::Reverse(of.blocked_since.as_ref().map(|since| since.0)));
    all.truncate(MOST_ASKED);
    all.into_iter().map(|(_, held)| held).collect()
}

/// The situations in which releases are held, by namespace: since when, and how many count.
pub(super) fn situations(facts: &Facts) -> impl Iterator<Item = (&NamespaceReleases, Situation)> {
    let limit = facts.spec.release_limit.into_iter();
    let status = facts.status.release_limit.iter();
    let held = limit
        .zip(status)
        .flat_map(|(limit, status)| limit.blocked(status));
    held.map(|of| {
        let since = of
            .blocked_since
            .as_ref()
            .map_or(0, |since| since.0.as_second());
        let begun = counted(of.count(), "release");
        let subject = format!("releases of namespace {} beyond {begun}", of.namespace);
        let exact = [of.namespace.clone(), since.to_string(), begun];
        (of, Situation::new(EFFECT, exact, subject))
    })
}

/// The condition of an account that has a release limit, or had one.
pub(super) fn condition(facts: &Facts) -> Option<Wanted> {
    let kind = Type::ReleaseLimitReached;
    let Some(limit) = facts.spec.release_limit else {
        return Wanted::flag(kind, None, &facts.status.conditions);
    };
    let all: Vec<_> = situations(facts).collect();
    let last = |(of, _): &&(&NamespaceReleases, _)| of.blocked_since.as_ref().map(|it| it.0);
    let Some((of, held)) = all.iter().max_by_key(last) else {
        return Some(Wanted::new(kind, false, Reason::InSync, ""));
    };
    let others = match all.len().saturating_sub(1) {
        0 => String::new(),
        more => format!("; the same in {more} more, see status.pendingAcknowledgements"),
    };
    let message = format!(
        "{} of namespace {} began within {}, as many as spec.releaseLimit lets; further ones there wait, and their servers are billed; if they are meant, {}, which lets as many more begin; to keep the servers instead, set spec.deletionPolicy of their objects to Retain{others}",
        counted(of.count(), "release"),
        of.namespace,
        limit.window,
        facts.acknowledgements().remedy(held),
    );
    Some(Wanted::new(kind, true, Reason::ReleaseLimited, message))
}

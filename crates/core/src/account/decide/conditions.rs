//! The conditions and counts of an account.

use super::{
    super::facts::{BundleFact, Facts, SecretFact},
    orphans,
};
use crate::{
    account::{facts::AccountReport, orphans::Verdict},
    cause::{AS_READY, Cause},
    wording::counted,
};
use api::{
    Reason,
    account::ServerCounts,
    conditions::{Type, Wanted},
    names::ACCOUNT_FINALIZER,
};

/// The conditions, in the order in which they are shown.
pub(super) fn conditions(
    facts: &Facts,
    trouble: Option<&Cause>,
    accepted: bool,
    own: Option<&AccountReport>,
) -> Vec<Wanted> {
    let deleting =
        facts.deleting() || matches!(facts.secret, SecretFact::Found { deleting: true, .. });
    let users = facts.users.unwrap_or_default();
    let cause = match trouble {
        // Whoever waits for its end reads beside the trouble what it waits for.
        Some(trouble) if deleting && users > 0 => Cause {
            message: format!(
                "{}; the account or its Secret is being deleted, and used by {}{}",
                trouble.message,
                counted(users, "object"),
                super::uses::named(facts),
            ),
            ..trouble.clone()
        },
        Some(trouble) => trouble.clone(),
        None if deleting => Cause::waits(
            Reason::InUse,
            format!(
                "the account or its Secret is being deleted; used by {}{}, and kept for that by the finalizer {ACCOUNT_FINALIZER}; it ends once nothing uses it; delete what does",
                counted(users, "object"),
                super::uses::named(facts),
            ),
        ),
        None => Cause::ready(Reason::Available, "the account works"),
    };
    let before = &facts.status.conditions;
    let suspended = super::suspended(&facts.key, &facts.spec);
    let suspended = suspended.map(|why| (Reason::Suspended, why));
    let mut conditions = cause.shown(None, before, deleting);
    conditions.extend(Wanted::flag(Type::Suspended, suspended, before));
    conditions.push(key_accepted(facts, trouble, accepted));
    conditions.extend(super::candidate::condition(facts));
    conditions.push(orphans::condition(facts, own));
    conditions.extend(super::release_limit::condition(facts));
    conditions
}

fn key_accepted(facts: &Facts, trouble: Option<&Cause>, accepted: bool) -> Wanted {
    let about_key = trouble.filter(|t| match t.reason {
        Reason::KeyRejected
        | Reason::AccountChanged
        | Reason::InvalidKey
        | Reason::InvalidEndpoint => true,
        // What is missing may be the CA bundle.
        Reason::ReferenceNotFound => facts.bundle == BundleFact::Known,
        _ => false,
    });
    match about_key {
        Some(t) => Wanted::new(Type::KeyAccepted, false, t.reason, AS_READY),
        None if accepted => Wanted::new(
            Type::KeyAccepted,
            true,
            Reason::InSync,
            "the hosting API accepts the key",
        ),
        None => Wanted {
            kind: Type::KeyAccepted,
            status: None,
            reason: Reason::Pending,
            message: "the key was not tried yet; Ready says when it is".into(),
        },
    }
}

/// How many objects and machines there are; None: as before. Where no complete listing shows the machines, the last
/// known counts stay, with the time that they are of.
pub(super) fn counts(facts: &Facts, own: Option<&AccountReport>) -> Option<ServerCounts> {
    let int = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let objects = int(facts.users?);
    let last = facts.status.servers.as_ref();
    let of_limit = |live: i32| match facts.spec.limits.max_servers {
        Some(most) => format!("{live}/{most}"),
        None => live.to_string(),
    };
    let Some(report) = own.filter(|report| report.proof.is_some()) else {
        let last = last?.clone();
        return Some(ServerCounts {
            objects,
            of_limit: of_limit(last.live),
            ..last
        });
    };
    let others = report.counts.others;
    let live = int(report.counts.live);
    Some(ServerCounts {
        objects,
        live,
        of_limit: of_limit(live),
        retained: int(report.counts.retained),
        orphans: match &report.verdict {
            Verdict::Found(orphans) => int(orphans.len()),
            Verdict::NotChecked => last.map_or(0, |s| s.orphans),
        },
        duplicates: int(report.counts.duplicates),
        other_clusters: others.map_or(last.and_then(|s| s.other_clusters), |o| {
            Some(int(o.other_clusters))
        }),
        unmanaged: others.map_or(last.and_then(|s| s.unmanaged), |o| Some(int(o.unmanaged))),
        counted_at: last.and_then(|s| s.counted_at.clone()),
    })
}

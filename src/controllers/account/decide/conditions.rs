//! The conditions and counts of an account.

use super::super::facts::{Facts, SecretFact};
use crate::{
    account::{AccountReport, orphans::Verdict},
    controllers::cause::Cause,
    kinds::{
        Reason,
        account::ServerCounts,
        conditions::{Type, Wanted},
        names::ACCOUNT_FINALIZER,
    },
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
        Some(trouble) => trouble.clone(),
        None if deleting => Cause::waits(
            Reason::InUse,
            format!(
                "the account or its Secret is being deleted; {users} objects still use it, and {ACCOUNT_FINALIZER} keeps it for them; list them: kubectl get baremetalservers {}",
                match &facts.key.namespace {
                    Some(namespace) => format!("-n {namespace}"),
                    None => "-A".to_owned(),
                }
            ),
        ),
        None => Cause::ready(Reason::AccountReady, "the account works"),
    };
    let mut conditions = cause.conditions().to_vec();
    conditions.push(key_accepted(trouble, accepted));
    conditions.push(orphans_found(own));
    conditions
}

fn key_accepted(trouble: Option<&Cause>, accepted: bool) -> Wanted {
    let about_key = trouble.filter(|t| {
        matches!(
            t.reason,
            Reason::KeyRejected
                | Reason::AccountChanged
                | Reason::InvalidKey
                | Reason::SecretNotFound
                | Reason::InvalidEndpoint
        )
    });
    match about_key {
        Some(t) => Wanted::new(Type::KeyAccepted, false, t.reason, t.message.clone()),
        None if accepted => Wanted::new(
            Type::KeyAccepted,
            true,
            Reason::KeyAccepted,
            "the hosting API accepts the key",
        ),
        None => Wanted {
            kind: Type::KeyAccepted,
            status: None,
            reason: Reason::Pending,
            message: "the key was not tried yet".into(),
        },
    }
}

fn orphans_found(own: Option<&AccountReport>) -> Wanted {
    match own.map(|s| &s.verdict) {
        None | Some(Verdict::NotChecked) => Wanted {
            kind: Type::OrphansFound,
            status: None,
            reason: Reason::NotChecked,
            message: "not judged: no complete listing was compared yet, or not all namespaces are watched".into(),
        },
        Some(Verdict::Found { count: 0, .. }) => Wanted::new(
            Type::OrphansFound,
            false,
            Reason::NoOrphans,
            "every live machine of this cluster has an object",
        ),
        Some(Verdict::Found { count, .. }) => Wanted::new(
            Type::OrphansFound,
            true,
            Reason::OrphansFound,
            format!(
                "{count} live machines bear this cluster's mark and no object claims them, so they cost unseen; status.orphans names the first: release them at the provider, or tag them fmo-retained to keep them"
            ),
        ),
    }
}

/// How many objects and machines there are; None: as before.
pub(super) fn counts(facts: &Facts, report: &AccountReport) -> Option<ServerCounts> {
    let int = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    Some(ServerCounts {
        objects: int(facts.users?),
        live: int(report.counts.live),
        retained: int(report.counts.retained),
        orphans: match &report.verdict {
            Verdict::Found { count, .. } => int(*count),
            Verdict::NotChecked => facts.status.servers.as_ref().map_or(0, |s| s.orphans),
        },
    })
}

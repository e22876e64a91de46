//! The conditions and counts of an account.

use super::super::facts::{Facts, SecretFact};
use crate::{
    account::{AccountReport, marks, orphans::Verdict},
    controllers::cause::{AS_READY, Cause},
    kinds::{
        Reason,
        account::ServerCounts,
        conditions::{Type, Wanted},
        names::{ACCOUNT_FINALIZER, RETAINED_PREFIX},
        wording::{counted, listed},
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
                "the account or its Secret is being deleted; used by {}, and kept for that by the finalizer {ACCOUNT_FINALIZER}; it ends once nothing uses it; list what does: kubectl get flexmetal {}",
                counted(users, "object"),
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
    conditions.extend(super::brake::condition(facts));
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
        Some(t) => Wanted::new(Type::KeyAccepted, false, t.reason, AS_READY),
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
            message: "the key was not tried yet; Ready says when it is".into(),
        },
    }
}

fn orphans_found(own: Option<&AccountReport>) -> Wanted {
    match own.map(|report| (report, &report.verdict)) {
        None | Some((_, Verdict::NotChecked)) => Wanted {
            kind: Type::OrphansFound,
            status: None,
            reason: Reason::NotChecked,
            message: "not checked: no complete listing was compared yet, or not all namespaces are watched; where all are, it is checked once a complete listing is there".into(),
        },
        Some((report, Verdict::Found { count: 0, .. })) => Wanted::new(
            Type::OrphansFound,
            false,
            Reason::NoOrphans,
            with_an_object(report),
        ),
        Some((_, Verdict::Found { count, first })) => {
            let shown = first.len().min(MOST_NAMED);
            let names = listed(first.iter().take(shown).map(|o| o.uuid.as_str()));
            let them = if *count == 1 { "it" } else { "them" };
            let more = match count - shown {
                0 => String::new(),
                more => format!(" and {more} more (status.orphans has the first {})", first.len()),
            };
            Wanted::new(
                Type::OrphansFound,
                true,
                Reason::OrphansFound,
                format!(
                    "{} of this cluster without an object, billed all the same: {names}{more}; release {them} at the provider, or, to keep {them}, add the tag {RETAINED_PREFIX} there, which ends this warning and nothing else",
                    counted(*count, "live machine")
                ),
            )
        }
    }
}

/// Most orphans in a message.
const MOST_NAMED: usize = 8;

/// That no machine is lost, and which stay without an object because somebody said so.
fn with_an_object(report: &AccountReport) -> String {
    let servers = report.proof.iter().flat_map(|proof| &proof.servers);
    let retained = servers.filter(|s| s.status.is_live() && marks::is_retained(s));
    let retained: Vec<&str> = retained.map(|server| server.id.as_str()).collect();
    match retained.len() {
        0 => "every live machine of this cluster has an object".to_owned(),
        count => format!(
            "every live machine of this cluster has an object, but for {}, billed: {}",
            counted(count, "retained machine"),
            listed(retained)
        ),
    }
}

/// How many objects and machines there are; None: as before. Where no complete listing shows the machines, the last
/// known counts stay, with the time that they are of.
pub(super) fn counts(facts: &Facts, own: Option<&AccountReport>) -> Option<ServerCounts> {
    let int = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let objects = int(facts.users?);
    let last = facts.status.servers.as_ref();
    let Some(report) = own.filter(|report| report.proof.is_some()) else {
        let last = last?.clone();
        return Some(ServerCounts { objects, ..last });
    };
    Some(ServerCounts {
        objects,
        live: int(report.counts.live),
        retained: int(report.counts.retained),
        orphans: match &report.verdict {
            Verdict::Found { count, .. } => int(*count),
            Verdict::NotChecked => last.map_or(0, |s| s.orphans),
        },
        counted_at: last.and_then(|s| s.counted_at.clone()),
    })
}

//! The conditions and counts of an account.

use super::{
    super::facts::AccountFacts,
    account_identity::AccountIdentity,
    orphans,
    problem::{self, UNTRIED},
};
use crate::{
    account::{facts::AccountReport, orphans::OrphanScanResult},
    explanation::{AS_READY, Explanation, suspension},
    wording::counted,
};
use api::{
    Reason,
    account::ServerCounts,
    conditions::{DesiredCondition, Type},
    names::ACCOUNT_FINALIZER,
};

/// The conditions, in the order in which they are shown.
pub(super) fn conditions(
    facts: &AccountFacts,
    trouble: Option<&Explanation>,
    identity: AccountIdentity,
    accepted: bool,
    own: Option<&AccountReport>,
) -> Vec<DesiredCondition> {
    let before = &facts.status.conditions;
    let in_use = in_use(facts);
    let cause = match (trouble, &in_use) {
        (Some(trouble), _) => trouble.clone(),
        (None, Some(why)) => Explanation::waits(Reason::InUse, why.as_str()),
        (None, None) if super::is_ending(facts) => Explanation::waits(
            Reason::Progressing,
            "The account or its Secret is being deleted; it ends once nothing uses it",
        ),
        (None, None) => Explanation::ready(Reason::Available, "The account works"),
    };
    let suspended = super::suspended(&facts.key, &facts.spec);
    // The end of an account waits for its users, whatever else is wrong with it.
    let blocked = in_use.filter(|_| facts.is_deleting());
    let blocked = blocked.map(|why| (Reason::InUse, why));
    let is_said = cause.reason == Reason::InUse;
    let mut conditions = cause.shown(None, before, facts.is_deleting() && is_said);
    if !is_said {
        conditions.retain(|c| c.kind != Type::DeletionBlocked);
        conditions.extend(DesiredCondition::flag(
            Type::DeletionBlocked,
            blocked,
            before,
        ));
    }
    conditions.extend(suspension(suspended, before));
    conditions.push(key_accepted(facts, trouble, identity, accepted));
    conditions.extend(super::candidate::condition(facts));
    conditions.push(orphans::condition(facts, own));
    conditions.extend(super::release_limit::condition(facts));
    conditions
}

/// Who uses the account, where it is to end; None: nobody. Until all objects have been listed it is as it was said.
fn in_use(facts: &AccountFacts) -> Option<String> {
    if !super::is_ending(facts) || facts.users == Some(0) {
        return None;
    }
    let Some(users) = facts.users else {
        let before = &facts.status.conditions;
        let said =
            |kind| DesiredCondition::shown(kind, before).filter(|c| c.reason == Reason::InUse);
        // Where both say so, Ready has the message.
        let said = said(Type::Ready).or_else(|| said(Type::DeletionBlocked));
        return said.map(|c| c.message);
    };
    Some(format!(
        "The account or its Secret is being deleted; used by {}{}. Delete these objects (this releases servers, unless deletionPolicy is Retain); the finalizer {ACCOUNT_FINALIZER} stays until then",
        counted(users, "object"),
        super::uses::named(facts),
    ))
}

fn key_accepted(
    facts: &AccountFacts,
    trouble: Option<&Explanation>,
    identity: AccountIdentity,
    accepted: bool,
) -> DesiredCondition {
    // The certificates may be missing, too, and Ready says that alone.
    let said = |message: String| match trouble.is_some_and(|trouble| trouble.message == message) {
        true => AS_READY.to_owned(),
        false => message,
    };
    match problem::find_key_problem(facts, identity) {
        Some(cause) => {
            DesiredCondition::new(Type::KeyAccepted, false, cause.reason, said(cause.message))
        }
        None if accepted => DesiredCondition::new(
            Type::KeyAccepted,
            true,
            Reason::InSync,
            "The hosting API accepts the key",
        ),
        None => DesiredCondition {
            kind: Type::KeyAccepted,
            status: None,
            reason: Reason::Pending,
            message: said(UNTRIED.into()),
        },
    }
}

/// How many machines there are; None: as before. Where no complete listing shows the machines, the last
/// known counts stay, with the time that they are of.
pub(super) fn counts(facts: &AccountFacts, own: Option<&AccountReport>) -> Option<ServerCounts> {
    let int = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let last = facts.status.servers.as_ref();
    let of_limit = |live: i32| match facts.spec.limits.max_servers {
        Some(most) => format!("{live}/{most}"),
        None => live.to_string(),
    };
    let Some(report) = own.filter(|report| report.complete_list.is_some()) else {
        let last = last?.clone();
        return Some(ServerCounts {
            of_limit: of_limit(last.live),
            ..last
        });
    };
    let others = report.counts.others;
    let live = int(report.counts.live);
    Some(ServerCounts {
        live,
        of_limit: of_limit(live),
        retained: int(report.counts.retained),
        orphans: match &report.orphan_scan {
            OrphanScanResult::Found(orphans) => int(orphans.len()),
            OrphanScanResult::NotChecked => last.map_or(0, |s| s.orphans),
        },
        duplicates: int(report.counts.duplicates),
        other_clusters: others.map_or(last.and_then(|s| s.other_clusters), |o| {
            Some(int(o.other_clusters))
        }),
        unmanaged: others.map_or(last.and_then(|s| s.unmanaged), |o| Some(int(o.unmanaged))),
        counted_at: last.and_then(|s| s.counted_at.clone()),
    })
}

//! The conditions and counts of an account.

use super::{
    super::facts::AccountFacts,
    account_identity::AccountIdentity,
    orphans,
    problem::{self, UNTRIED},
};
use crate::{
    account::{facts::AccountReport, orphan_scan::OrphanScanResult},
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
    explanation: Option<&Explanation>,
    identity: AccountIdentity,
    accepted: bool,
    own: Option<&AccountReport>,
) -> Vec<DesiredCondition> {
    let before = &facts.status.conditions;
    let in_use = in_use(facts);
    let ready = match (explanation, &in_use) {
        (Some(explanation), _) => explanation.clone(),
        (None, Some(why)) => Explanation::waits(Reason::InUse, why.as_str()),
        (None, None) if super::is_account_or_secret_deleting(facts) => Explanation::waits(
            Reason::Progressing,
            "The account or its Secret is being deleted; it ends once nothing uses it",
        ),
        (None, None) => Explanation::ready(Reason::Available, "The account works"),
    };
    let suspended = super::suspended(&facts.key, &facts.spec);
    // The deletion of an account waits for its users, whatever else is wrong with it.
    let blocked = in_use.filter(|_| facts.is_deleting());
    let blocked = blocked.map(|why| (Reason::InUse, why));
    let is_in_use = ready.reason == Reason::InUse;
    let mut conditions = ready.to_conditions(None, before, facts.is_deleting() && is_in_use);
    if !is_in_use {
        conditions.retain(|c| c.kind != Type::DeletionBlocked);
        conditions.extend(DesiredCondition::flag(
            Type::DeletionBlocked,
            blocked,
            before,
        ));
    }
    if facts.read_only {
        let text = "nothing is ordered, changed or released through this account";
        conditions.retain(|c| c.kind != Type::Synced);
        conditions.push(Explanation::read_only(text).unsent_as_read_only());
    }
    conditions.extend(suspension(suspended, before));
    conditions.push(key_accepted(facts, explanation, identity, accepted));
    conditions.extend(super::candidate::condition(facts));
    conditions.push(orphans::condition(facts, own));
    conditions.extend(super::release_limit::condition(facts));
    conditions
}

/// Who uses an account that is being deleted; None: nobody. Until all objects are listed, the last message stays.
fn in_use(facts: &AccountFacts) -> Option<String> {
    if !super::is_account_or_secret_deleting(facts) || facts.users == Some(0) {
        return None;
    }
    let Some(users) = facts.users else {
        let before = &facts.status.conditions;
        let shown = |kind| {
            DesiredCondition::find_existing(kind, before).filter(|c| c.reason == Reason::InUse)
        };
        // If both conditions have this reason, Ready has the message.
        let shown = shown(Type::Ready).or_else(|| shown(Type::DeletionBlocked));
        return shown.map(|c| c.message);
    };
    Some(format!(
        "The account or its Secret is being deleted; used by {}{}. Delete these objects (this releases servers, unless deletionPolicy is Retain); the finalizer {ACCOUNT_FINALIZER} stays until then",
        counted(users, "object"),
        super::uses::describe_uses(facts),
    ))
}

fn key_accepted(
    facts: &AccountFacts,
    explanation: Option<&Explanation>,
    identity: AccountIdentity,
    accepted: bool,
) -> DesiredCondition {
    // The message refers to Ready only if it is the same there: Ready may report missing certificates instead.
    let shorten = |message: String| match explanation
        .is_some_and(|explanation| explanation.message == message)
    {
        true => AS_READY.to_owned(),
        false => message,
    };
    match problem::find_key_problem(facts, identity) {
        Some(key_problem) => DesiredCondition::new(
            Type::KeyAccepted,
            false,
            key_problem.reason,
            shorten(key_problem.message),
        ),
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
            message: shorten(UNTRIED.into()),
        },
    }
}

/// The server counts; None: unchanged. Without a complete list the last counts stay, with their time.
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

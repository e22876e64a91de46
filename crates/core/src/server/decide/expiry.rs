//! `spec.expiresAt`: warns before it, then deletes the object. Past it nothing is ordered.
//! Forward jumps of the wall clock do not count, and the API server's clock decides right before the deletion.

use super::{super::facts::ServerFacts, ServerDecision, ServerEffect, remedy};
use crate::explanation::Explanation;
use api::{Reason, lifetime::ExpiryWarning};
use jiff::Timestamp;
use std::time::Duration;

const DAY: i64 = 86_400;
const HOUR: i64 = 3_600;
/// Longest time between two checks: a user may edit the field, or a clock may be turned back.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);

/// Whether the object is past its expiry.
pub fn is_over(facts: &ServerFacts) -> bool {
    facts
        .expires_at()
        .is_some_and(|at| facts.steady_wall() >= at)
}

/// Why an expired object neither orders nor adopts.
pub fn explain_blocked_order(facts: &ServerFacts) -> Option<Explanation> {
    let at = facts.expires_at().filter(|_| is_over(facts))?;
    let text = format!(
        "Expired at {} (spec.expiresAt); nothing is ordered. Set a later time, or delete this object",
        to_timestamp(at),
    );
    Some(Explanation::stalled(Reason::Expired, text))
}

/// Warns before the expiry of an object with a server, and deletes it afterwards. Returns when to reconcile again.
pub fn reconcile_expiry(facts: &ServerFacts, decision: &mut ServerDecision) -> Option<Duration> {
    let Some(at) = facts.expires_at() else {
        decision.desired.status.records.expiry_warning = None;
        return None;
    };
    let rest = at.saturating_sub(facts.steady_wall());
    decision.desired.status.records.expiry_warning = if rest <= HOUR {
        Some(ExpiryWarning::Hour)
    } else {
        (rest <= DAY).then_some(ExpiryWarning::Day)
    };
    if rest <= 0 {
        expire_object(facts, at, decision);
        return Some(LONGEST_SLEEP);
    }
    let next = [rest, rest - HOUR, rest - DAY];
    let next = next.into_iter().filter(|rest| *rest > 0).min();
    let next = next.and_then(|rest| u64::try_from(rest).ok());
    let next = next.map_or(LONGEST_SLEEP, Duration::from_secs);
    Some(next.min(LONGEST_SLEEP))
}

fn expire_object(facts: &ServerFacts, at: i64, decision: &mut ServerDecision) {
    let policies = facts.policies();
    if !policies.may_send() {
        return;
    }
    if policies.deletion_protection {
        let text = format!(
            "Expired at {} (spec.expiresAt); protected by {}, so this object and its server stay, and the server is billed. To delete this object, {}; to keep it, set a later spec.expiresAt",
            to_timestamp(at),
            remedy::name_policy_field(facts, "deletionProtection", |p| p
                .deletion_protection
                .is_some()),
            remedy::describe_edit("deletionProtection", "false"),
        );
        decision
            .desired
            .set(facts, Explanation::stalled(Reason::Expired, text), None);
        return;
    }
    let text = format!(
        "Expired at {} (spec.expiresAt); deleting this object as soon as the API server accepts it. Its server follows the deletion policy",
        to_timestamp(at)
    );
    let explanation = Explanation::waits(Reason::Expired, text);
    decision.desired.set(facts, explanation, None);
    decision.effect = Some(ServerEffect::Expire { at });
}

/// The time for a message.
pub fn to_timestamp(at: i64) -> Timestamp {
    Timestamp::from_second(at).unwrap_or_default()
}

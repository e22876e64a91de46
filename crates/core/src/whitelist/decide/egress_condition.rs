//! The EgressCovered condition, and the explanation of a blocked plan.

use super::{
    super::facts::WhitelistFacts,
    descriptions,
    desired_entries::DesiredWhitelist,
    list::ProviderWhitelist,
    plan::{PlanBlocker, WhitelistPlan, end},
    ranges::Range,
};
use api::{
    Reason,
    conditions::{DesiredCondition, Type},
};

/// Most ranges that a message names.
const MOST_NAMED: usize = 4;

/// The condition EgressCovered.
pub(super) fn condition(
    facts: &WhitelistFacts,
    list: &ProviderWhitelist,
    target: &DesiredWhitelist,
    plan: &WhitelistPlan,
) -> DesiredCondition {
    let is = |status, reason, message: String| DesiredCondition {
        kind: Type::EgressCovered,
        status,
        reason,
        message,
    };
    // A plan blocked by entries of other objects does not affect the operator's access.
    let blocker = plan.blocked_by.as_ref();
    if let Some(blocker) = blocker.filter(|blocker| !matches!(blocker, PlanBlocker::OfOthers(_))) {
        let (reason, message) =
            self::explain_blocker(facts, list, target, blocker, plan.steps.len());
        let status = (reason != Reason::EgressUnknown).then_some(false);
        return is(status, reason, message);
    }
    let Some(egress) = &target.egress else {
        let message = format!("{UNKNOWN}. {REMEDY}");
        return is(None, Reason::EgressUnknown, message);
    };
    let (now, then) = (list.admitted(), end(list, target));
    let nothing_counts = list.is_open() && (plan.steps.is_empty() || then.is_empty());
    if nothing_counts {
        let message = "No entry counts, so the key may be used from everywhere".to_owned();
        return is(Some(true), Reason::InSync, message);
    }
    let missing = egress.not_covered_by(&then);
    match (missing.is_empty(), list.is_open() || now.covers_all(egress)) {
        (true, true) => is(Some(true), Reason::InSync, String::new()),
        (true, false) => {
            let missing = named(&egress.not_covered_by(&now));
            let message =
                format!("The operator is not admitted until the plan is done; missing {missing}");
            is(Some(false), Reason::EgressNotCovered, message)
        }
        (false, _) => {
            let message = format!(
                "The operator is not admitted in the end, as acknowledged; missing {}",
                named(&missing)
            );
            is(Some(false), Reason::EgressNotCovered, message)
        }
    }
}

const UNKNOWN: &str = "The addresses from which the operator calls the provider are unknown";
const REMEDY: &str =
    "Set spec.egressCIDRs of the object or of the account to those that the provider sees";

/// Why the plan is blocked, and how a user unblocks it.
pub(super) fn explain_blocker(
    facts: &WhitelistFacts,
    list: &ProviderWhitelist,
    target: &DesiredWhitelist,
    blocker: &PlanBlocker,
    steps: usize,
) -> (Reason, String) {
    let (reason, why, remedy) = match blocker {
        PlanBlocker::EgressUnknown => (Reason::EgressUnknown, UNKNOWN.to_owned(), REMEDY.to_owned()),
        PlanBlocker::NotCovered(missing) => (
            Reason::EgressNotCovered,
            "The declared entries do not admit the operator; those of other objects do not count".to_owned(),
            format!(
                "Add an entry for {}, or correct spec.egressCIDRs",
                named(missing)
            ),
        ),
        PlanBlocker::NothingLeft => (
            Reason::EgressNotCovered,
            "No entry would be left that counts; the provider may then admit everybody or nobody".to_owned(),
            "Keep an entry that admits the operator".to_owned(),
        ),
        PlanBlocker::NoFirstEntry => (
            Reason::EgressNotCovered,
            "No single entry covers the operator, and the list may not be enforced yet".to_owned(),
            "Add an entry that covers the operator, or set spec.egressCIDRs to addresses of one family".to_owned(),
        ),
        PlanBlocker::OfOthers(ids) => {
            let named: Vec<String> = ids
                .iter()
                .take(MOST_NAMED)
                .map(ToString::to_string)
                .collect();
            let more = match ids.len().saturating_sub(MOST_NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            (
                Reason::OwnershipConflict,
                format!(
                    "The entryPolicy Exact would remove entries of another IpWhitelist; its tag (maybe from another cluster) is on entry {}{more}",
                    named.join(", ")
                ),
                "Remove that object or these entries, or use entryPolicy Additive".to_owned(),
            )
        }
    };
    let situation = match blocker {
        PlanBlocker::OfOthers(_) => descriptions::removal(facts.key(), &facts.others(list)),
        _ => descriptions::lockout(facts.key(), list, target),
    };
    let steps = match steps {
        1 => "1 step waits".to_owned(),
        count => format!("{count} steps wait"),
    };
    let message = format!(
        "{why}; {steps}. {remedy}; or, to {}, {}",
        match blocker {
            PlanBlocker::OfOthers(_) => "remove them",
            _ => "accept a lock-out",
        },
        facts.acknowledgements().remedy(&situation)
    );
    (reason, message)
}

fn named(ranges: &[Range]) -> String {
    let shown: Vec<String> = ranges
        .iter()
        .take(MOST_NAMED)
        .map(ToString::to_string)
        .collect();
    match ranges.len().saturating_sub(MOST_NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

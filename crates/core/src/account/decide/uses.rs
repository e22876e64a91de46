//! The use of an account, for its status.

use super::super::facts::AccountFacts;
use crate::wording::MOST_NAMES;
use api::account_use::{CallBudget, KindUsers};

/// The objects that use the account, by kind; None: unchanged.
pub(super) fn users(facts: &AccountFacts) -> Option<Vec<KindUsers>> {
    facts.users?;
    let users = facts.used_by.iter().map(|used_by| KindUsers {
        kind: used_by.kind.clone(),
        count: i32::try_from(used_by.count).unwrap_or(i32::MAX),
    });
    Some(users.collect())
}

/// Who uses the account, for a message; empty if no names are known.
pub(super) fn describe_uses(facts: &AccountFacts) -> String {
    let each = facts.named_users.iter();
    let each =
        each.flat_map(|(kind, names)| names.iter().map(move |name| format!("{kind} {name}")));
    let shown: Vec<String> = each.take(MOST_NAMES).collect();
    let all = facts.users.unwrap_or_default();
    match (shown.len(), all.saturating_sub(shown.len())) {
        (0, _) => String::new(),
        (_, 0) => format!(" ({})", shown.join(", ")),
        (_, more) => format!(" ({} and {more} more)", shown.join(", ")),
    }
}

/// The call budget; None: unchanged. Its figures change by themselves, so not every change is written at once.
pub(super) fn calls(facts: &AccountFacts) -> Option<CallBudget> {
    let report = facts.report.as_ref()?;
    let calls = report.calls;
    let int = |calls: u32| i32::try_from(calls).unwrap_or(i32::MAX);
    let next = CallBudget {
        per_minute: int(calls.full),
        per_minute_in_force: int(calls.in_force),
    };
    (facts.figures_are_due || facts.status.calls.is_none()).then_some(next)
}

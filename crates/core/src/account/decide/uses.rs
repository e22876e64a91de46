//! What the status of an account tells of its use.

use super::super::facts::Facts;
use api::account_use::{CallBudget, KindUsers};

/// The objects that use the account, kind by kind; None: as before.
pub(super) fn users(facts: &Facts) -> Option<Vec<KindUsers>> {
    facts.users?;
    let users = facts.used_by.iter().map(|used_by| KindUsers {
        kind: used_by.kind.clone(),
        count: i32::try_from(used_by.count).unwrap_or(i32::MAX),
    });
    Some(users.collect())
}

/// Who uses the account, for people: nothing where no names are known.
pub(super) fn named(facts: &Facts) -> String {
    let of_kind = |(kind, names): &(String, Vec<String>)| {
        let all = facts.used_by.iter().find(|used_by| used_by.kind == *kind);
        let more = all.map_or(0, |all| all.count.saturating_sub(names.len()));
        let names = names.join(", ");
        match more {
            0 => format!("{kind} {names}"),
            more => format!("{kind} {names} and {more} more"),
        }
    };
    let kinds: Vec<String> = facts.named_users.iter().map(of_kind).collect();
    match kinds.is_empty() {
        true => String::new(),
        false => format!(" ({})", kinds.join("; ")),
    }
}

/// How many calls may be made; None: as before. Such figures change by themselves, and are not told at every turn.
pub(super) fn calls(facts: &Facts) -> Option<CallBudget> {
    let report = facts.report.as_ref()?;
    let calls = report.calls;
    let int = |calls: u32| i32::try_from(calls).unwrap_or(i32::MAX);
    let next = CallBudget {
        per_minute: int(calls.full),
        per_minute_in_force: int(calls.in_force),
    };
    (facts.figures_are_due || facts.status.calls.is_none()).then_some(next)
}

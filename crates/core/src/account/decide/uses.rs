//! What the status of an account tells of its use.

use super::super::facts::Facts;
use crate::account::{facts::AccountReport, view::Catalogue};
use api::account_use::{CallBudget, Capacity, KindUsers, QuotaUse, Stock};
use hosting_types::{catalogue::Availability, quota::LocationQuota};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Most quotas in status.
const MOST_QUOTAS: usize = 20;
/// Most characters of a provider's name.
const LONGEST_NAME: usize = 64;

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
        in_force: int(calls.in_force),
    };
    (facts.figures_are_due || facts.status.calls.is_none()).then_some(next)
}

/// What can be ordered; None: as before.
pub(super) fn capacity(facts: &Facts, own: Option<&AccountReport>) -> Option<Capacity> {
    let before = facts.status.capacity.as_ref();
    if before.is_some() && !facts.figures_are_due {
        return None;
    }
    let (looked, catalogue) = own?.catalogue.as_ref()?;
    let age = facts.now.saturating_sub(*looked).as_secs();
    let looked = facts.wall.saturating_sub_unsigned(age);
    let next = Capacity {
        looked_at: Timestamp::from_second(looked).ok().map(Time),
        ..of(catalogue)
    };
    // The moment of a look alone is not worth a write.
    let is_news = before.is_none_or(|before| {
        let same = Capacity {
            looked_at: before.looked_at.clone(),
            ..next.clone()
        };
        same != *before
    });
    is_news.then_some(next)
}

fn of(catalogue: &Catalogue) -> Capacity {
    let mut quotas: Vec<QuotaUse> = catalogue.quotas.iter().flat_map(of_place).collect();
    quotas.sort_unstable();
    let further = quotas.len().saturating_sub(MOST_QUOTAS);
    quotas.truncate(MOST_QUOTAS);
    let mut stock = Stock::default();
    let places = catalogue.plans.iter().flat_map(|plan| &plan.locations);
    for place in places {
        match place.availability {
            Availability::High | Availability::Medium => stock.available += 1,
            Availability::Low => stock.low += 1,
            Availability::Unavailable => stock.unavailable += 1,
            // Nobody knows what it means.
            Availability::Other(_) => {}
        }
    }
    Capacity {
        quotas,
        further_quotas: i32::try_from(further).unwrap_or(i32::MAX),
        stock,
        looked_at: None,
    }
}

fn of_place(place: &LocationQuota) -> impl Iterator<Item = QuotaUse> + '_ {
    let number = |n: i64| i32::try_from(n.max(0)).unwrap_or(i32::MAX);
    place.usages.iter().map(move |usage| QuotaUse {
        location: name(&place.location),
        instance_type: name(&usage.instance_type),
        contract_id: usage
            .contract_id
            .as_deref()
            .map(name)
            .filter(|contract| !contract.is_empty()),
        quota: usage.quota.map(number),
        used: usage.usage.map(number),
    })
}

/// A name as the provider gives it, short enough for status.
fn name(text: &str) -> String {
    let plain = text.trim().chars().filter(|c| !c.is_control());
    plain.take(LONGEST_NAME).collect()
}

//! Steps in words, and what a user acknowledges of them. Pure.

use super::{
    desired_entries::DesiredWhitelist, list::ProviderWhitelist, lockout_guard::WhitelistStep,
    plan::WhitelistPlan, ranges::Range,
};
use crate::{acknowledgement::Situation, wording::listed};
use api::{
    acknowledgement::AcknowledgementEffect,
    whitelist::{EntryPolicy, MOST_STEPS},
};
use hosting_types::ApiKeyId;

/// The steps of a plan, the first of them.
pub fn shown(plan: &WhitelistPlan, list: &ProviderWhitelist) -> Vec<String> {
    let steps = plan.steps.iter().take(MOST_STEPS);
    let mut shown: Vec<String> = steps.map(|step| of_step(step, list)).collect();
    // The one that is next may be further down.
    if let Some(next) = &plan.next {
        let next = of_step(next, list);
        if !shown.contains(&next) {
            shown.insert(0, next);
        }
    }
    if plan.steps.len() > shown.len() {
        shown.push(format!("and {} more", plan.steps.len() - shown.len()));
    }
    shown
}

/// One step. Says nothing that other steps change, so that it is found again in what was shown before.
pub fn of_step(step: &WhitelistStep, list: &ProviderWhitelist) -> String {
    let activity = |active: bool| if active { "" } else { ", inactive" };
    match step {
        WhitelistStep::Add(wished) => format!(
            "add {}: {}{}",
            wished.name,
            wished.range,
            activity(wished.active)
        ),
        WhitelistStep::Change(id, wished) => format!(
            "change {} (entry {id}): {}{}",
            wished.name,
            wished.range,
            activity(wished.active)
        ),
        WhitelistStep::Remove(id) => {
            let entry = list.get(*id);
            let words = entry.map_or_else(String::new, |entry| format!(": {}", entry.words()));
            let name = entry.and_then(|entry| entry.name.as_deref());
            match name {
                // The mark may hold any name.
                Some(name) => format!(
                    "remove {} (entry {id}){words}",
                    name.chars().take(32).collect::<String>()
                ),
                None if entry.is_some_and(|entry| entry.is_of_other) => {
                    format!("remove entry {id} of another object{words}")
                }
                None => format!("remove entry {id}, which no object added{words}"),
            }
        }
    }
}

/// The situation in which a user acknowledges that the operator may lock itself out. It is what the list will be, and so
/// changes with that, and not with each step on the way.
pub fn lockout(key: ApiKeyId, list: &ProviderWhitelist, target: &DesiredWhitelist) -> Situation {
    let mut parts: Vec<String> = vec![
        format!("key {key}"),
        format!("end {} mode {:?}", target.is_end, target.mode),
    ];
    let range = |range: &Option<Range>| range.map_or_else(String::new, |range| range.to_string());
    let mut wished: Vec<String> = target
        .entries
        .iter()
        .map(|w| format!("entry {} {} {}", w.name, w.range, w.active))
        .collect();
    wished.sort_unstable();
    parts.append(&mut wished);
    let egress = target.egress.iter().flat_map(|egress| egress.ranges());
    parts.extend(egress.map(|range| format!("egress {range}")));
    if target.mode == EntryPolicy::Additive || target.is_end {
        let mut others: Vec<String> = list
            .others()
            .map(|entry| format!("other {} {:?}", range(&entry.range), entry.active))
            .collect();
        others.sort_unstable();
        parts.append(&mut others);
    }
    let entries = target.entries.iter();
    let entries: Vec<String> = entries.map(|w| format!("{} {}", w.name, w.range)).collect();
    let entries = match entries.is_empty() {
        true => "none of its entries".to_owned(),
        false => listed(entries.iter().map(String::as_str)),
    };
    let subject = format!("whitelist of API key {key} with {entries}");
    Situation::new(AcknowledgementEffect::AllowLockout, parts, subject)
}

/// The situation in which a user acknowledges that these entries of other objects are removed.
pub fn removal(key: ApiKeyId, others: &[i64]) -> Situation {
    let ids: Vec<String> = others.iter().map(ToString::to_string).collect();
    let subject = format!(
        "entries {} of other objects on the whitelist of API key {key}",
        listed(ids.iter().map(String::as_str))
    );
    let exact = [format!("key {key}")].into_iter().chain(ids);
    Situation::new(AcknowledgementEffect::RemoveOthersEntries, exact, subject)
}

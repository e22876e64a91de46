//! Describes steps as text, and the situations that a user acknowledges.

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

/// The first steps of a plan, as status shows them.
pub fn shown(plan: &WhitelistPlan, list: &ProviderWhitelist) -> Vec<String> {
    let steps = plan.steps.iter().take(MOST_STEPS);
    let mut shown: Vec<String> = steps.map(|step| of_step(step, list)).collect();
    // The next step may be further down.
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

/// One step as text. The text does not depend on other steps, so it can be found again in an earlier status.
pub fn of_step(step: &WhitelistStep, list: &ProviderWhitelist) -> String {
    let activity = |active: bool| if active { "" } else { ", inactive" };
    match step {
        WhitelistStep::Add(desired) => format!(
            "add {}: {}{}",
            desired.name,
            desired.range,
            activity(desired.active)
        ),
        WhitelistStep::Change(id, desired) => format!(
            "change {} (entry {id}): {}{}",
            desired.name,
            desired.range,
            activity(desired.active)
        ),
        WhitelistStep::Remove(id) => {
            let entry = list.get(*id);
            let words = entry.map_or_else(String::new, |entry| format!(": {}", entry.words()));
            let name = entry.and_then(|entry| entry.name.as_deref());
            match name {
                // An owner comment may have any name.
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

/// The situation in which a user acknowledges that the operator may lock itself out.
/// It describes the resulting list, so it does not change with each step.
pub fn lockout(key: ApiKeyId, list: &ProviderWhitelist, target: &DesiredWhitelist) -> Situation {
    let mut parts: Vec<String> = vec![
        format!("key {key}"),
        format!("end {} mode {:?}", target.is_end, target.mode),
    ];
    let range = |range: &Option<Range>| range.map_or_else(String::new, |range| range.to_string());
    let mut desired: Vec<String> = target
        .entries
        .iter()
        .map(|w| format!("entry {} {} {}", w.name, w.range, w.active))
        .collect();
    desired.sort_unstable();
    parts.append(&mut desired);
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

/// The situation in which a user acknowledges the removal of these entries of other objects.
pub fn removal(key: ApiKeyId, others: &[i64]) -> Situation {
    let ids: Vec<String> = others.iter().map(ToString::to_string).collect();
    let subject = format!(
        "entries {} of other objects on the whitelist of API key {key}",
        listed(ids.iter().map(String::as_str))
    );
    let exact = [format!("key {key}")].into_iter().chain(ids);
    Situation::new(AcknowledgementEffect::RemoveOthersEntries, exact, subject)
}

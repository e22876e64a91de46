//! The effective policies in status, and whether the object is suspended.

use super::{super::facts::ServerFacts, desired_status::DesiredStatus};
use crate::explanation::{suspension, unsent};
use api::{
    Reason,
    conditions::{DesiredCondition, Type},
};

/// Shows the policies, once status reports anything of the object.
pub fn show_policies(facts: &ServerFacts, desired: &mut DesiredStatus) {
    if desired.is_silent() {
        return;
    }
    desired.status.policies = facts.known_policies();
    let Some(policies) = desired.status.policies else {
        return;
    };
    if policies.suspend && !facts.deleting() && is_unsent(facts, desired) {
        let DesiredCondition {
            reason, message, ..
        } = unsent();
        desired.set_unsynced(reason, message);
    }
    let why = policies.suspend.then(|| {
        let is_own = facts.object.spec.suspend.is_some();
        let what = "nothing is ordered, changed or released";
        facts.account.describe_suspension(is_own, what)
    });
    let suspended = suspension(why, &desired.status.conditions);
    desired.conditions.extend(suspended);
}

/// Whether the spec was not compared, or its changes were in progress, and Synced does not report that.
fn is_unsent(facts: &ServerFacts, desired: &DesiredStatus) -> bool {
    let is_compared = desired.status.observed_generation == facts.object.metadata.generation;
    match desired.condition(Type::Synced) {
        Some(synced) => synced.status == Some(true) && !is_compared,
        None => match DesiredCondition::find_existing(Type::Synced, &desired.status.conditions) {
            Some(synced) if synced.reason == Reason::PendingChanges => false,
            Some(synced) if synced.reason == Reason::Progressing => true,
            _ => !is_compared,
        },
    }
}

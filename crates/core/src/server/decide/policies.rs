//! The policies in force, as status shows them, and whether the object is suspended.

use super::{super::facts::ServerFacts, desired_status::DesiredStatus};
use crate::explanation::{suspension, unsent};
use api::{
    Reason,
    conditions::{DesiredCondition, Type},
};

/// Shows the policies, from the first status on that says anything of the object.
pub fn show_policies(facts: &ServerFacts, draft: &mut DesiredStatus) {
    if draft.is_silent() {
        return;
    }
    draft.status.policies = facts.known_policies();
    let Some(policies) = draft.status.policies else {
        return;
    };
    if policies.suspend && !facts.deleting() && is_unsent(facts, draft) {
        let DesiredCondition {
            reason, message, ..
        } = unsent();
        draft.set_unsynced(reason, message);
    }
    let why = policies.suspend.then(|| {
        let is_own = facts.object.spec.suspend.is_some();
        let what = "nothing is ordered, changed or released";
        facts.account.describe_suspension(is_own, what)
    });
    let suspended = suspension(why, &draft.status.conditions);
    draft.conditions.extend(suspended);
}

/// Whether nobody has compared the spec, or changes of it were being sent, and Synced says nothing of that.
fn is_unsent(facts: &ServerFacts, draft: &DesiredStatus) -> bool {
    let is_compared = draft.status.observed_generation == facts.object.metadata.generation;
    match draft.condition(Type::Synced) {
        Some(synced) => synced.status == Some(true) && !is_compared,
        None => match DesiredCondition::shown(Type::Synced, &draft.status.conditions) {
            Some(synced) if synced.reason == Reason::PendingChanges => false,
            Some(synced) if synced.reason == Reason::Progressing => true,
            _ => !is_compared,
        },
    }
}

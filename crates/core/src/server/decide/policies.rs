//! The policies in force, as status shows them, and whether the object is suspended.

use super::{super::facts::Facts, draft::Draft, remedy};
use api::{
    Reason,
    conditions::{Type, Wanted},
};

/// Shows the policies, from the first status on that says anything of the object.
pub fn show(facts: &Facts, draft: &mut Draft) {
    if draft.is_silent() {
        return;
    }
    draft.status.policies = facts.known_policies();
    let Some(policies) = draft.status.policies else {
        return;
    };
    let why = (policies.suspend).then(|| (Reason::Suspended, remedy::suspended(facts)));
    let suspended = Wanted::flag(Type::Suspended, why, &draft.status.conditions);
    draft.conditions.extend(suspended);
}

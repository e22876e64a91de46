//! The policies in force, as status shows them.

use super::{super::facts::Facts, draft::Draft};

/// Shows the policies, from the first status on that says anything of the object.
pub fn show(facts: &Facts, draft: &mut Draft) {
    let is_new = draft.status.conditions.is_empty() && draft.conditions.is_empty();
    if !is_new {
        draft.status.policies = facts.known_policies();
    }
}

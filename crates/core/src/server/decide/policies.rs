//! The policies in force, as status shows them.

use super::{super::facts::Facts, draft::Draft};

/// Shows the policies, from the first status on that says anything of the object.
pub fn show(facts: &Facts, draft: &mut Draft) {
    if !draft.is_silent() {
        draft.status.policies = facts.known_policies();
    }
}

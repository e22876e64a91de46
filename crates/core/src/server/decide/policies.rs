//! The policies in force: what waits for them, and status that shows them.

use super::{super::facts::Facts, Decision, draft::Draft};
use crate::cause::Cause;
use api::Reason;
use std::time::Duration;

/// How long the labels of a namespace are waited for without a word: the watch brings them at any moment.
const SILENCE: Duration = Duration::from_secs(5);

/// Waits for a namespace that may say that its servers are suspended, where nobody knows what was in force before.
pub fn unread(facts: &Facts) -> Option<Decision> {
    if facts.is_namespace_suspended.is_some() || facts.known_policies().is_some() {
        return None;
    }
    let waited = facts.now.since(facts.first_seen);
    if waited < SILENCE {
        return Some(Decision::unchanged(facts).again(SILENCE - waited));
    }
    let namespace = facts.namespace();
    let message = format!(
        "namespace {namespace} was not read yet, and its labels may say that its servers are suspended; if this stays, the operator cannot read it: grant its ServiceAccount get, list and watch on namespaces, or in {namespace} get alone where it watches some namespaces only"
    );
    let cause = Cause::missing(Reason::Pending, message);
    Some(Decision::hold(facts, cause))
}

/// Shows the policies, from the first status on that says anything of the object.
pub fn show(facts: &Facts, draft: &mut Draft) {
    let is_new = draft.status.conditions.is_empty() && draft.conditions.is_empty();
    if !is_new {
        draft.status.policies = facts.known_policies();
    }
}

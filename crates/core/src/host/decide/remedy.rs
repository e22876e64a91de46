//! Why nothing is sent for a host, and how a user changes that.

use super::super::facts::HostFacts;
use crate::explanation::Explanation;
use api::Reason;

/// Why nothing is sent for the host: suspended, observe-only, read-only mode, or unknown policies. `what` describes the blocked
/// request.
pub(super) fn explain_block(facts: &HostFacts, what: &str) -> Option<Explanation> {
    let Some(policies) = facts.known_policies() else {
        let text = format!(
            "{what}; nothing is sent until suspend and managementPolicy of the account are read"
        );
        return Some(Explanation::waits(Reason::Pending, text));
    };
    if policies.suspend {
        return Some(Explanation::suspended());
    }
    if facts.subject.read_only {
        return Some(Explanation::read_only(what));
    }
    policies.observe_only().then(|| {
        let text = format!(
            "{what}; nothing is sent, because managementPolicy is ObserveOnly. To send it, set spec.managementPolicy to Full"
        );
        Explanation::stalled(Reason::ObserveOnly, text)
    })
}

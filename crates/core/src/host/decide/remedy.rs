//! Why nothing is sent for a host, and what a user does to have it sent.

use super::super::facts::HostFacts;
use crate::explanation::Explanation;
use api::Reason;

/// Why nothing is sent for the host: it is suspended, only looked at, or nobody knows. `what`: what is to be done.
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
    policies.observe_only().then(|| {
        let text = format!(
            "{what}; nothing is sent, because managementPolicy is ObserveOnly. To send it, set spec.managementPolicy to Full"
        );
        Explanation::stalled(Reason::ObserveOnly, text)
    })
}

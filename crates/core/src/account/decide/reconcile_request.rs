//! Reconcile requests: a user or a tool asks for a list of the servers now, and status confirms it.

use super::super::facts::AccountFacts;
use crate::{account::key_state::KeyState, reconcile_request::answered_at};
use std::time::Duration;

/// When a complete list that answers the request may begin, or the request that the last one answered.
pub(super) fn answer(facts: &AccountFacts) -> (Option<Duration>, Option<String>) {
    let handled = facts.status.last_handled_reconcile_at.as_deref();
    let Some((request, since)) = facts.request.unhandled(handled) else {
        return (None, None);
    };
    let report = facts.report.as_ref();
    let Some(report) = report.filter(|report| report.key == KeyState::Accepted) else {
        return (None, None);
    };
    let last = report.complete_list.as_ref().map(|list| list.began);
    match answered_at(since, last, facts.times().active_poll_interval) {
        None => (None, Some(request.to_owned())),
        next => (next, None),
    }
}

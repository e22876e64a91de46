//! A person, or a tool, asks for a look now: the servers are listed, and then status says that they were.

use super::super::facts::AccountFacts;
use crate::{account::key_state::KeyState, reconcile_request::answered_at};
use std::time::Duration;

/// When a complete listing may begin that answers the request; or the request that was answered by one.
pub(super) fn answer(facts: &AccountFacts) -> (Option<Duration>, Option<String>) {
    let handled = facts.status.last_handled_reconcile_at.as_deref();
    let Some((word, since)) = facts.request.open(handled) else {
        return (None, None);
    };
    let report = facts.report.as_ref();
    let Some(report) = report.filter(|report| report.key == KeyState::Accepted) else {
        return (None, None);
    };
    let last = report.complete_list.as_ref().map(|proof| proof.began);
    match answered_at(since, last, facts.times().active_poll_interval) {
        None => (None, Some(word.to_owned())),
        next => (next, None),
    }
}

//! A user or a tool requests a reconcile by annotation: the server is read, and then status reports that.

use super::{super::facts::ServerFacts, ServerDecision, ServerEffect};
use crate::resolved_account::Purpose;
use std::time::Duration;

/// Reads the servers that were not read since the request, unless another effect is due, then reports it as handled.
pub fn handle_reconcile_request(facts: &ServerFacts, decision: &mut ServerDecision) {
    let status = &mut decision.desired.status;
    let Some(asked) = facts.reconcile_request() else {
        return;
    };
    if status.last_handled_reconcile_at.as_deref() == Some(asked) {
        return;
    }
    // Nothing is reported yet, so the first status comes first.
    if status.conditions.is_empty() && decision.desired.conditions.is_empty() {
        return;
    }
    let memory = &facts.memory;
    let since = memory.asked.since();
    let is_old = |at: Duration| since.is_none_or(|since| at < since);
    // A read that found nothing counts, too.
    let missed = memory.protocol.missing().map(|(_, last)| last);
    let mut servers = facts.own.iter().chain(&facts.recorded);
    let unread = servers.find(|s| is_old(s.seen) && missed.is_none_or(is_old));
    if let Some(unread) = unread {
        let Ok(view) = facts.account.usable(Purpose::End) else {
            return;
        };
        // Not more often than polls: each read is a call.
        let rest = (unread.seen + view.times.active_poll_interval).checked_sub(facts.now.mono);
        match rest.filter(|rest| !rest.is_zero()) {
            Some(rest) => decision.requeue = decision.requeue.cap_delay(rest),
            None if decision.effect.is_none() => {
                decision.effect = Some(ServerEffect::Read {
                    uuid: unread.server.id.as_str().to_owned(),
                });
            }
            None => {}
        }
        return;
    }
    status.last_handled_reconcile_at = Some(asked.to_owned());
}

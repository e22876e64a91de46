//! The server in `spec.externalID`: why the object may not see it, and how an observe-only object shows it.

use super::{
    super::{
        facts::{ExternalServer, ServerFacts},
        protocol_facts,
    },
    ServerDecision,
    desired_status::DesiredStatus,
    existing::{self, ExistingServer, report_if_unreachable},
    explain, order,
};
use crate::{
    account::{ownership_tags, view::AccountView},
    explanation::{Explanation, OUT_OF_TOUCH},
    owner,
    resolved_account::Purpose,
};
use api::{Interval, Reason};
use hosting_types::{Server, ServerStatus};
use std::time::Duration;

/// Reported when no list shows the server any more.
const UNLISTED: (Reason, &str) = (Reason::AccountNotReady, OUT_OF_TOUCH);

/// Shows the server, and sends nothing.
pub fn show_external_server(facts: &ServerFacts, external: &ExternalServer) -> ServerDecision {
    let since = facts.first_seen.max(facts.leader_since);
    let Ok(view) = facts.account.usable(Purpose::End) else {
        return match facts.account.usable(Purpose::Order) {
            Err(explanation) if facts.status().uuid.is_none() => {
                ServerDecision::wait_with_reason(facts, explanation)
            }
            _ => {
                let mut decision = report_if_unreachable(facts, DesiredStatus::unchanged(facts));
                if let Some(view) = facts.view().filter(|_| facts.account.is_out_of_touch()) {
                    let seen = external.shown.as_ref().map_or(since, |shown| shown.seen);
                    existing::report_unseen_since(
                        facts,
                        view,
                        seen.max(since),
                        &mut decision,
                        UNLISTED,
                    );
                }
                decision
            }
        };
    };
    let Some(shown) = external.shown.as_ref().filter(|s| s.seen >= since) else {
        return wait_for_external_server(facts, view, external, since);
    };
    let server = &shown.server;
    if let Some(explanation) = explain_not_visible(facts, server) {
        return ServerDecision::wait_with_reason(facts, explanation)
            .requeue_after(view.times.idle_poll_interval);
    }
    let existing_server = ExistingServer {
        server: server.clone(),
        others: Vec::new(),
    };
    let mut desired = DesiredStatus::unchanged(facts);
    desired.show_server(facts, server);
    let explanation = existing::explain_server(facts, &existing_server);
    let synced = match explanation.is_in_sync() {
        true => existing::pending(facts, None, server),
        false => None,
    };
    desired.set(facts, explanation, synced);
    let mut decision = report_if_unreachable(facts, desired);
    // A failed list shows nothing newer.
    existing::report_unseen_since(facts, view, shown.seen, &mut decision, UNLISTED);
    let interval = match server.status {
        ServerStatus::Delivered | ServerStatus::Failed | ServerStatus::Released => {
            view.times.idle_poll_interval
        }
        _ => view.times.active_poll_interval,
    };
    let due = last_interval_start(facts.now.mono, interval);
    decision.wants_servers = Some(due).filter(|due| shown.seen < *due);
    let next = (due + interval).saturating_sub(facts.now.mono);
    decision.requeue = decision.requeue.cap_delay(next);
    decision
}

/// Start of the current interval. All objects request a list from the same moment, so one list serves them all.
fn last_interval_start(now: Duration, interval: Duration) -> Duration {
    let interval = interval.as_millis().max(1);
    let passed = u64::try_from(now.as_millis() % interval).unwrap_or(0);
    now.saturating_sub(Duration::from_millis(passed))
}

/// No recent list shows the server.
fn wait_for_external_server(
    facts: &ServerFacts,
    view: &AccountView,
    external: &ExternalServer,
    since: Duration,
) -> ServerDecision {
    let idle = view.times.idle_poll_interval;
    let Some(listed_at) = external.listed_at.filter(|at| *at >= since) else {
        let is_shown = facts.policies().observe_only() && facts.status().uuid.is_some();
        let mut wait = match is_shown {
            true => {
                let mut wait = report_if_unreachable(facts, DesiredStatus::unchanged(facts));
                existing::report_unseen_since(facts, view, since, &mut wait, UNLISTED);
                wait
            }
            false => order::wait_for_poll(facts, view),
        };
        wait.wants_servers = Some(since);
        return wait;
    };
    let explanation = Explanation::stalled(
        Reason::ServerNotFound,
        explain::describe_external_not_found(&external.uuid, Interval(idle)),
    );
    let mut decision = ServerDecision::wait_with_reason(facts, explanation).requeue_after(idle);
    let due = last_interval_start(facts.now.mono, idle);
    decision.wants_servers = Some(due).filter(|due| listed_at < *due);
    decision
}

/// How often the server in `spec.externalID` is checked while adoption is blocked.
pub fn idle_poll_interval(facts: &ServerFacts) -> Duration {
    let times = facts.view().map(|view| view.times).unwrap_or_default();
    times.idle_poll_interval
}

/// Why the object may not see this server, if so. A cluster account also has servers of other namespaces.
pub fn explain_not_visible(facts: &ServerFacts, server: &Server) -> Option<Explanation> {
    if !protocol_facts::is_shared(facts) {
        return None;
    }
    let own = owner::namespace_hash(facts.cluster.as_str(), facts.namespace());
    let mut namespaces = ownership_tags::owners(server)
        .map(owner::namespace_of)
        .peekable();
    let has_none = namespaces.peek().is_none();
    let terms = facts.account.terms();
    let lets_adopt = terms.is_some_and(|terms| terms.may_adopt());
    let text = match namespaces.all(|namespace| namespace == own) {
        true if !has_none || lets_adopt => return None,
        true => format!(
            "Server {} has no order tag; the cluster account does not allow to adopt it. Ask an administrator of the account to set allowAdoption in its spec.allowedNamespaces entry for this namespace, or change spec.externalID",
            server.id
        ),
        false => {
            let idle = Interval(idle_poll_interval(facts));
            return Some(explain::explain_other_namespace(server.id.as_str(), idle));
        }
    };
    Some(Explanation::stalled(Reason::NotAllowed, text))
}

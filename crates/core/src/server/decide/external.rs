//! The server that `spec.externalID` names: what stands against adopting it, and how it is shown where it is only looked at.

use super::{
    super::{
        facts::{Facts, Named},
        ownership,
    },
    Decision,
    draft::Draft,
    explain,
    machine::{self, Machine, out_of_touch},
    order,
};
use crate::{
    account::{marks, view::View},
    account_facts::Purpose,
    cause::{Cause, OUT_OF_TOUCH},
    owner,
};
use api::{Interval, Reason};
use hosting_types::{Server, ServerStatus};
use std::time::Duration;

/// What is said where no list shows the machine any more.
const UNLISTED: (Reason, &str) = (Reason::AccountNotReady, OUT_OF_TOUCH);

/// Shows the machine, and sends nothing.
pub fn show(facts: &Facts, external: &Named) -> Decision {
    let since = facts.first_seen.max(facts.acting_since);
    let Ok(view) = facts.account.usable(Purpose::End) else {
        return match facts.account.usable(Purpose::Order) {
            Err(cause) if facts.status().uuid.is_none() => Decision::hold(facts, cause),
            _ => {
                let mut decision = out_of_touch(facts, Draft::unchanged(facts));
                if let Some(view) = facts.view().filter(|_| facts.account.is_out_of_touch()) {
                    let seen = external.shown.as_ref().map_or(since, |shown| shown.seen);
                    machine::not_seen(facts, view, seen.max(since), &mut decision, UNLISTED);
                }
                decision
            }
        };
    };
    let Some(shown) = external.shown.as_ref().filter(|s| s.seen >= since) else {
        return not_shown(facts, view, external, since);
    };
    let server = &shown.server;
    if let Some(cause) = against_sight(facts, server) {
        return Decision::hold(facts, cause).again(view.times.idle_poll_interval);
    }
    let machine = Machine {
        server: server.clone(),
        others: Vec::new(),
    };
    let mut draft = Draft::unchanged(facts);
    draft.show(facts, server);
    let cause = machine::cause(facts, &machine);
    let synced = match cause.is_in_sync() {
        true => machine::pending(facts, None, server),
        false => None,
    };
    draft.set(facts, cause, synced);
    let mut decision = out_of_touch(facts, draft);
    // A list that fails shows nothing newer.
    machine::not_seen(facts, view, shown.seen, &mut decision, UNLISTED);
    let interval = match server.status {
        ServerStatus::Delivered | ServerStatus::Failed | ServerStatus::Released => {
            view.times.idle_poll_interval
        }
        _ => view.times.active_poll_interval,
    };
    let due = tick(facts.now.mono, interval);
    decision.wants_servers = Some(due).filter(|due| shown.seen < *due);
    let next = (due + interval).saturating_sub(facts.now.mono);
    decision.again = decision.again.within(next);
    decision
}

/// The last full interval: what many objects want at such moments costs what one of them costs.
fn tick(now: Duration, interval: Duration) -> Duration {
    let interval = interval.as_millis().max(1);
    let passed = u64::try_from(now.as_millis() % interval).unwrap_or(0);
    now.saturating_sub(Duration::from_millis(passed))
}

/// No listing that is new enough shows the machine.
fn not_shown(facts: &Facts, view: &View, external: &Named, since: Duration) -> Decision {
    let idle = view.times.idle_poll_interval;
    let Some(looked) = external.looked.filter(|at| *at >= since) else {
        let is_shown = facts.policies().observe_only() && facts.status().uuid.is_some();
        let mut wait = match is_shown {
            true => {
                let mut wait = out_of_touch(facts, Draft::unchanged(facts));
                machine::not_seen(facts, view, since, &mut wait, UNLISTED);
                wait
            }
            false => order::waiting(facts, view),
        };
        wait.wants_servers = Some(since);
        return wait;
    };
    let cause = Cause::needs_person(
        Reason::ServerNotFound,
        explain::named_not_found(&external.uuid, Interval(idle)),
    );
    let mut decision = Decision::hold(facts, cause).again(idle);
    let due = tick(facts.now.mono, idle);
    decision.wants_servers = Some(due).filter(|due| looked < *due);
    decision
}

/// How often a server that the spec names is looked at while something stands against it.
pub fn idle(facts: &Facts) -> Duration {
    let times = facts.view().map(|view| view.times).unwrap_or_default();
    times.idle_poll_interval
}

/// Why the account of the object does not even show it this server, if anything: one of the cluster has servers of other
/// namespaces, too.
pub fn against_sight(facts: &Facts, server: &Server) -> Option<Cause> {
    if !ownership::is_shared(facts) {
        return None;
    }
    let own = owner::namespace_hash(facts.cluster.as_str(), facts.namespace());
    let mut namespaces = marks::owners(server).map(owner::namespace_of).peekable();
    let has_none = namespaces.peek().is_none();
    let terms = facts.account.terms();
    let lets_adopt = terms.is_some_and(|terms| terms.let_adopt());
    let text = match namespaces.all(|namespace| namespace == own) {
        true if !has_none || lets_adopt => return None,
        true => format!(
            "Server {} has no order tag; the cluster account does not allow to adopt it. Ask an administrator of the account to set allowAdoption in its spec.allowedNamespaces entry for this namespace, or change spec.externalID",
            server.id
        ),
        false => {
            let idle = Interval(idle(facts));
            return Some(explain::other_namespace(server.id.as_str(), idle));
        }
    };
    Some(Cause::needs_person(Reason::NotAllowed, text))
}

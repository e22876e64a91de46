//! The spec names a machine that is there: the object takes that one on, or only shows it, and never orders one.
//!
//! It is taken on by the object's mark, put on it after a read right before that shows it to be nobody's. Whoever holds
//! a machine is told by its marks alone, so two objects that name one machine meet there: see [`super::rivals`].

use super::{
    super::facts::{External, Facts, is_same_uuid},
    Decision, Effect,
    draft::Draft,
    evidence::Evidence,
    expiry,
    fence::TagProof,
    machine::{self, Machine, out_of_touch},
    order,
};
use crate::{
    account::{
        marks,
        view::{Sighting, View},
    },
    account_facts::Purpose,
    cause::{Cause, OUT_OF_TOUCH},
};
use api::{
    Interval, Reason,
    acknowledgement::AcknowledgementEffect::{AssumeAbsent, OrderAnother},
    names::{CLUSTER_TAG, ORDER_TAG},
    references::AccountKind,
};
use hosting_types::{Server, ServerStatus};
use std::time::Duration;

/// Whether an object without a machine takes on what its spec names, by what it tells of earlier orders.
pub fn counts(facts: &Facts, evidence: &Evidence) -> bool {
    let Some(external) = &facts.external else {
        return false;
    };
    match evidence {
        Evidence::None | Evidence::Bare | Evidence::Stranger(..) | Evidence::Foreign(_) => true,
        // That of an earlier object of this name has its own way, if it is the one.
        Evidence::Former(..) => {
            let machines = facts.former.iter().flat_map(|f| &f.machines);
            let is_it = |s: &Sighting| is_same_uuid(s.server.id.as_str(), &external.uuid);
            !machines.filter(|s| s.server.status.is_live()).any(is_it)
        }
        Evidence::Own(_) | Evidence::Garbled(_) => false,
    }
}

/// Decides for a living object that names its machine.
pub fn decide(facts: &Facts, evidence: &Evidence, external: &External) -> Decision {
    let mut decision = match facts.policies().observe_only() {
        true => show(facts, external),
        false => take_on(facts, evidence, external),
    };
    // It never orders, so nothing of orders is asked.
    decision.draft.withdraw(OrderAnother);
    decision.draft.withdraw(AssumeAbsent);
    decision
}

/// Takes the machine on: finalizer, then mark. The rest follows as for any machine that bears the object's mark.
fn take_on(facts: &Facts, evidence: &Evidence, external: &External) -> Decision {
    let view = match facts.account.usable(Purpose::End) {
        Ok(view) => view,
        Err(cause) => return Decision::hold(facts, cause),
    };
    // One that bears the object's mark already is on this listing.
    let since = facts.first_seen.max(facts.acting_since);
    if view.proof.as_ref().is_none_or(|proof| proof.began < since) {
        return order::waiting(facts, view).proof(since);
    }
    let Some(shown) = external.shown.as_ref().filter(|s| s.seen >= since) else {
        return not_shown(facts, view, external, since);
    };
    let server = &shown.server;
    let again = view.times.idle_poll_interval;
    if facts.policies().suspend {
        return Decision::hold(facts, Cause::suspended());
    }
    if let Some(cause) = expiry::against_order(facts) {
        return Decision::hold(facts, cause);
    }
    if let Some(cause) = against(facts, server) {
        let mut decision = Decision::hold(facts, cause).again(again);
        decision.wants_servers = Some(tick(facts.now.mono, again)).filter(|at| shown.seen < *at);
        return decision;
    }
    if let Some(rest) = unclaimed_rest(facts, view, server) {
        let cause = Cause::waits(
            Reason::Progressing,
            format!(
                "machine {} bears the tag of an object that is gone, and is taken on once no object has claimed it for {}",
                server.id,
                Interval(view.times.send_window)
            ),
        );
        return Decision::hold(facts, cause).again(rest);
    }
    let taking = Decision::hold(
        facts,
        Cause::waits(
            Reason::Progressing,
            format!(
                "machine {} is being taken on, which is done within seconds",
                server.id
            ),
        ),
    );
    if !facts.has_finalizer() {
        return taking.with(Effect::HoldObject);
    }
    let epoch = facts.now.wall.max(evidence.last_epoch() + 1);
    taking.with(Effect::AddTag {
        uuid: server.id.as_str().into(),
        tag: facts.mark().order_tag(epoch),
        when: TagProof::Unowned,
    })
}

/// How long a machine with marks of objects that are gone has to wait still: what is gone for a moment may be back.
fn unclaimed_rest(facts: &Facts, view: &View, server: &Server) -> Option<Duration> {
    marks::object_marks(server).next()?;
    let since = facts.memory.unclaimed.as_ref();
    let waited = since.map_or(Duration::ZERO, |(_, since)| facts.now.since(*since));
    let rest = view.times.send_window.checked_sub(waited)?;
    (!rest.is_zero()).then_some(rest)
}

/// What is said where no list shows the machine any more.
const UNLISTED: (Reason, &str) = (Reason::AccountNotReady, OUT_OF_TOUCH);

/// Shows the machine, and sends nothing.
fn show(facts: &Facts, external: &External) -> Decision {
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
    draft.show(server);
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
fn not_shown(facts: &Facts, view: &View, external: &External, since: Duration) -> Decision {
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
        format!(
            "spec.externalID: the account shows no on-demand machine {}, and none is ordered in its place; correct the identifier, or the account; looked for again every {}",
            external.uuid,
            Interval(idle)
        ),
    );
    let mut decision = Decision::hold(facts, cause).again(idle);
    let due = tick(facts.now.mono, idle);
    decision.wants_servers = Some(due).filter(|due| looked < *due);
    decision
}

/// A deleted object whose machine was to be marked, or may be by now: it goes once a list of every machine, asked for
/// when no mark can be on its way any more, does not show its mark.
pub fn end(facts: &Facts, view: &View, external: &External) -> Decision {
    let since = facts.memory.ending_since.unwrap_or(facts.now.mono);
    let since = since + view.times.send_window;
    let listed = view.proof.as_ref().is_some_and(|p| p.began >= since);
    if listed && external.looked.is_some_and(|at| at >= since) {
        return Decision::unchanged(facts).with(Effect::LetGo);
    }
    let mut wait = order::waiting(facts, view).proof(since);
    wait.wants_servers = Some(since);
    let rest = since.saturating_sub(facts.now.mono);
    match rest.is_zero() {
        true => wait,
        false => wait.again(rest),
    }
}

/// Why the object does not take this machine on, if anything. Judged on what was seen, and again on a read right before
/// the mark is put on.
pub fn against(facts: &Facts, server: &Server) -> Option<Cause> {
    let uuid = &server.id;
    match server.status {
        ServerStatus::Released | ServerStatus::Releasing => {
            return Some(Cause::needs_person(
                Reason::ReleasedExternally,
                format!(
                    "spec.externalID: machine {uuid} is released, and none is ordered in its place; name another one, or delete this object",
                ),
            ));
        }
        ServerStatus::Failed => {
            return Some(Cause::needs_person(
                Reason::ProvisioningFailed,
                format!(
                    "spec.externalID: the provider could not deliver machine {uuid}, so it is not taken on; name another one, or delete this object",
                ),
            ));
        }
        _ => {}
    }
    owner(facts, server).or_else(|| against_sight(facts, server))
}

/// Who else has the machine, if anybody.
fn owner(facts: &Facts, server: &Server) -> Option<Cause> {
    let uuid = &server.id;
    let conflict = |text: String| Some(Cause::needs_person(Reason::OwnershipConflict, text));
    let cluster = facts.cluster.tag();
    let foreign = |tag: &&String| tag.starts_with(CLUSTER_TAG) && **tag != cluster;
    if let Some(tag) = server.tags.iter().find(foreign) {
        return conflict(format!(
            "spec.externalID: machine {uuid} belongs to another cluster (tag {tag}); if it is not used there any more, take its tags that begin with fmo- off at the provider"
        ));
    }
    let own = facts.mark();
    for tag in server.tags.iter().filter(|t| t.starts_with(ORDER_TAG)) {
        let mark = marks::object_mark(tag);
        if mark == Some(own.as_str()) {
            continue;
        }
        let other = mark.and_then(|mark| facts.other_mark(mark));
        match other.and_then(|other| other.claimed) {
            Some(false) => {}
            Some(true) => {
                return conflict(format!(
                    "spec.externalID: machine {uuid} is that of another object (tag {tag}); it is taken on once that object is gone and has left it there (deletionPolicy: Retain)"
                ));
            }
            None => {
                return conflict(format!(
                    "spec.externalID: machine {uuid} bears the tag {tag}, and whether an object of it lives cannot be seen from here; if none does, take that tag off at the provider"
                ));
            }
        }
    }
    if facts.is_recorded_elsewhere(server) {
        return conflict(format!(
            "spec.externalID: machine {uuid} is on record in another object; it is taken on once that object is gone"
        ));
    }
    None
}

/// Why the account of the object does not even show it this machine, if anything: one of the cluster has machines of
/// others, too.
fn against_sight(facts: &Facts, server: &Server) -> Option<Cause> {
    if super::account_of(&facts.object).kind == AccountKind::ProviderAccount {
        return None;
    }
    let own = marks::namespace_mark(facts.cluster.as_str(), facts.namespace());
    let mut kept_in = marks::retained_in(server).peekable();
    let is_kept_here = kept_in.peek().is_some() && kept_in.all(|namespace| namespace == own);
    let is_unmarked = !server.tags.iter().any(|tag| marks::is_mark(tag));
    let is_own = marks::object_marks(server).any(|mark| mark == facts.mark().as_str());
    let terms = facts.account.terms();
    let let_adopt = terms.is_some_and(|terms| terms.let_adopt());
    if is_kept_here || is_own || (is_unmarked && let_adopt) {
        return None;
    }
    let text = match is_unmarked {
        true => format!(
            "spec.externalID: through a cluster account a machine that was not retained in this namespace, such as {}, is taken on only where the entry of the namespace in spec.allowedNamespaces says allowAdoption: true; ask whoever may change the account to set it",
            server.id
        ),
        false => format!(
            "spec.externalID: machine {} was not retained in this namespace, so it is not taken on through a cluster account; delete the object that has it, with deletionPolicy Retain, in this namespace",
            server.id
        ),
    };
    Some(Cause::needs_person(Reason::NotAllowed, text))
}

//! The annotation speaks of another object: was this one restored, copied, or carried over?

use super::{
    super::facts::{Facts, Former},
    Decision, Effect,
    absent::{self, NoProof},
    evidence::Evidence,
    fence::TagProof,
    order, remedy, rivals,
};
use crate::{
    account::marks,
    account_facts::Purpose,
    cause::Cause,
    mark::{Mark, marks_of},
};
use api::{Interval, Reason, names::ORDER_ANNOTATION, server::Intent};
use std::time::Duration;

/// The mark comes out with this namespace and name: an earlier life of this very object.
///
/// Its machine, when live and unclaimed, is taken over: it gets this object's mark, loses the old
/// one, and then the annotation is written again (by [`super::machine::tend`], which sees the mark).
pub fn former(facts: &Facts, evidence: &Evidence, intent: &Intent, mark: &Mark) -> Decision {
    let view = match facts.account.usable(Purpose::End) {
        Ok(view) => view,
        Err(cause) => return Decision::hold(facts, cause),
    };
    let (Some(known), Some(_)) = (&facts.former, &view.proof) else {
        return waiting_for_listing(facts);
    };
    let mut machines: Vec<_> = known.machines.iter().collect();
    machines.sort_by_key(|s| (s.server.created_at, s.server.id.as_str().to_owned()));
    let Some(live) = machines.iter().find(|s| s.server.status.is_live()) else {
        if machines
            .iter()
            .any(|s| matches!(s.server.status, hosting_types::ServerStatus::Releasing))
        {
            return Decision::hold(
                facts,
                Cause::waits(
                    Reason::Releasing,
                    "the machine of an earlier object of this name is being released; the order follows once it is gone",
                ),
            );
        }
        if machines.is_empty() {
            return absent::unless_given(facts, evidence, &NoProof::FormerNotShown, |remedy| {
                let text = format!(
                    "the annotation {ORDER_ANNOTATION} or the status tells of an order of an earlier object of this name, and no machine with its tag {}… is shown; if it has none and this object shall order one, {remedy}",
                    mark.tag_prefix()
                );
                Cause::needs_person(Reason::ServerNotFound, text)
            });
        }
        // Its machine is over, and so is the matter.
        return order::next(facts, evidence);
    };
    if let Some(rival) = rivals::rival(facts, evidence, &live.server) {
        let text = format!(
            "machine {} of an earlier object of this name has been taken on by another object (tag {}…), and none is ordered in its place; delete this object",
            live.server.id,
            rival.mark.tag_prefix(),
        );
        return Decision::hold(facts, Cause::needs_person(Reason::OwnershipConflict, text));
    }
    let unclaimed_for = facts
        .memory
        .former
        .as_ref()
        .map_or(Duration::ZERO, |(_, since)| facts.now.since(*since));
    let window = view.times.send_window;
    if known.claimed == Some(true) || unclaimed_for < window {
        let rest = match window.saturating_sub(unclaimed_for) {
            rest if rest.is_zero() => view.times.active_poll_interval,
            rest => rest,
        };
        return Decision::hold(
            facts,
            Cause::waits(
                Reason::WaitingForListing,
                format!(
                    "machine {} of an earlier object of this name is taken over once no other object has claimed it for {}",
                    live.server.id,
                    Interval(window)
                ),
            ),
        )
        .again(rest);
    }
    let taking = Decision::hold(
        facts,
        Cause::waits(
            Reason::Ordering,
            format!(
                "taking over machine {} of an earlier object of this name, which is done within seconds",
                live.server.id
            ),
        ),
    );
    if let Some(cause) = remedy::held(facts, "nothing is taken over") {
        return Decision::hold(facts, cause);
    }
    if !facts.has_finalizer() {
        return taking.with(Effect::HoldObject);
    }
    let epoch = facts.now.wall.max(intent.epoch + 1);
    taking.with(Effect::AddTag {
        uuid: live.server.id.as_str().into(),
        tag: facts.mark().order_tag(epoch),
        when: TagProof::FormerMark(mark.clone()),
    })
}

/// A tag of a machine that was taken over or on, and is still to go once it bears this object's mark: the mark of who
/// had it before and is gone, or that it was kept.
pub fn leftover(
    facts: &Facts,
    evidence: &Evidence,
    server: &hosting_types::Server,
) -> Option<String> {
    if !matches!(evidence, Evidence::Former(..)) && !facts.names(server) {
        return None;
    }
    let own = facts.mark();
    let is_left = |mark: &Mark| *mark != own && rivals::is_left(facts, evidence, mark);
    let marks = marks_of(&server.tags).filter(|(mark, _)| is_left(mark));
    let left = marks.map(|(mark, epoch)| mark.order_tag(epoch)).next();
    left.or_else(|| marks::retained_tag(server).map(str::to_owned))
}

/// The mark does not come out: a copied manifest, unless the machine may have nobody else.
pub fn stranger(facts: &Facts, evidence: &Evidence, intent: &Intent, mark: &Mark) -> Decision {
    let view = match facts.account.usable(Purpose::End) {
        Ok(view) => view,
        Err(cause) => return Decision::hold(facts, cause),
    };
    let (Some(known), Some(_)) = (&facts.former, &view.proof) else {
        return waiting_for_listing(facts);
    };
    if is_copy(facts, known) {
        return order::next(facts, evidence);
    }
    let why = NoProof::OfObject(intent.uid.clone());
    absent::unless_given(facts, evidence, &why, |remedy| {
        let text = format!(
            "the annotation {ORDER_ANNOTATION} or the status tells of an order of another object (UID {}, tag {}…) whose machine may have no other owner; if this object shall order a machine of its own all the same, {remedy}",
            intent.uid,
            mark.tag_prefix()
        );
        Cause::needs_person(Reason::OwnershipConflict, text)
    })
}

/// A copy is harmless: the machine has its own object, or is none any more.
fn is_copy(facts: &Facts, known: &Former) -> bool {
    if !facts.all_namespaces {
        return false;
    }
    known.claimed == Some(true) || !known.machines.iter().any(|s| s.server.status.is_live())
}

fn waiting_for_listing(facts: &Facts) -> Decision {
    Decision::hold(
        facts,
        Cause::waits(
            Reason::WaitingForListing,
            "nothing is ordered until the machines of this account were listed once",
        ),
    )
    .proof(Duration::ZERO)
}

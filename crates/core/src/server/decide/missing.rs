//! The recorded machine is not among those that bear the mark. Missing does not mean deleted.

use super::{
    super::facts::Facts,
    Again, Decision, Effect,
    absent::{self, NoProof},
    control,
    draft::Draft,
    evidence::{Attempt, Evidence},
    fence::{self, TagProof},
    leads_to,
    machine::out_of_touch,
    resolve::ordered_hostname,
};
use crate::{
    account::view::{Proof, Sighting, View},
    account_facts::Purpose,
    acknowledgement::Situation,
    cause::Cause,
};
use api::{Reason, names::ORDER_TAG};
use hosting_types::Server;
use std::{sync::Arc, time::Duration};

/// How far the search for the recorded machine is.
pub enum Disappearance {
    /// It is proved that there is no such machine.
    Gone,
    /// A user acknowledges that there is none.
    Acknowledged,
    /// Nothing proves it, and why: a user must acknowledge it.
    Unproved(NoProof),
    /// Look, or wait: the effect if one is due, and the moment from which a new listing counts.
    Looking(Option<Effect>, Option<Duration>),
}

/// Decides for a living object whose recorded machine is not shown.
pub fn look(facts: &Facts, attempt: &Attempt) -> Decision {
    if let Some(sighting) = &facts.recorded {
        return tags_missing(facts, attempt, sighting);
    }
    let Ok(view) = facts.account.usable(Purpose::End) else {
        return out_of_touch(facts, Draft::unchanged(facts));
    };
    match progress(facts, view, attempt) {
        // Nothing is ordered in its place, unless a user acknowledges that.
        Disappearance::Gone if is_acknowledged(facts, view, attempt, &NoProof::NotShown) => {
            absent::close(facts, attempt)
        }
        Disappearance::Gone => unproved(facts, view, attempt, &NoProof::NotShown),
        Disappearance::Acknowledged => absent::close(facts, attempt),
        Disappearance::Unproved(why) => unproved(facts, view, attempt, &why),
        Disappearance::Looking(effect, proof) => {
            let mut decision = out_of_touch(facts, Draft::unchanged(facts))
                .again(view.times.absence_check_interval);
            decision.effect = effect;
            decision.wants_proof = proof;
            decision
        }
    }
}

/// A user has to acknowledge that the machine is gone. It is asked for once nothing shows the machine for the absence
/// grace period, and counts while that is so: until then it is looked for.
pub fn unproved(facts: &Facts, view: &View, attempt: &Attempt, why: &NoProof) -> Decision {
    let uuid = attempt.uuid.as_deref().unwrap_or("unknown");
    let asked = situation(facts, attempt, why);
    let given = facts.acknowledgements();
    let is_asked = is_asked(facts, view, attempt, why);
    let or = |what: &str| match is_asked {
        true => format!("{what}{}", given.remedy(&asked)),
        false => String::new(),
    };
    let text = match why {
        NoProof::NotShown => format!(
            "machine {uuid} is not at the provider any more; nothing is ordered in its place; delete this object{}",
            or("; or, to order another one, ")
        ),
        NoProof::OtherAccount => format!(
            "machine {uuid} was {}, so that it is not shown says nothing; put the former ones back{}",
            why.text(),
            or(", or, if it is gone, ")
        ),
        _ => format!(
            "machine {uuid} is not shown, and {}{}",
            why.text(),
            or("; if it is gone, ")
        ),
    };
    let cause = Cause::needs_person(Reason::ServerNotFound, text);
    let mut decision = Decision::hold(facts, cause).again(view.times.idle_poll_interval);
    if is_asked {
        decision.draft.ask(facts, &asked);
    }
    let rest = due(facts, view).saturating_sub(facts.now.mono);
    let is_long = is_long(facts, view, attempt);
    if !rest.is_zero() {
        decision.again = decision.again.within(rest);
    } else if !is_long || given.is_given(&asked) {
        let (effect, proof) = next_look(facts, view, attempt);
        decision.effect = effect;
        decision.wants_proof = Some(proof);
        decision.again = Again::After(view.times.absence_check_interval);
    }
    decision
}

fn situation(facts: &Facts, attempt: &Attempt, why: &NoProof) -> Situation {
    absent::situation(facts, &Evidence::Own(attempt.clone()), why)
}

/// Whether a user acknowledges that the machine is gone, and reads and listings of late still do not show it.
fn is_acknowledged(facts: &Facts, view: &View, attempt: &Attempt, why: &NoProof) -> bool {
    let asked = situation(facts, attempt, why);
    is_long(facts, view, attempt)
        && is_recent(facts, view)
        && facts.acknowledgements().is_given(&asked)
}

/// Whether a user is asked: a provider may show a new machine late.
fn is_asked(facts: &Facts, view: &View, attempt: &Attempt, why: &NoProof) -> bool {
    let asked = situation(facts, attempt, why);
    is_long(facts, view, attempt) || facts.acknowledgements().is_pending(&asked)
}

/// When the machine was not shown for the absence grace period.
fn due(facts: &Facts, view: &View) -> Duration {
    let first = facts.memory.missing.reads.first().copied();
    first.unwrap_or(facts.now.mono) + view.times.absence_grace_period
}

/// Whether a read and a listing did not show the machine when that period was over.
fn is_long(facts: &Facts, view: &View, attempt: &Attempt) -> bool {
    let due = due(facts, view);
    let is_missed = |proof: &Arc<Proof>| {
        let uuid = attempt.uuid.as_deref().unwrap_or_default();
        proof.began >= due && !proof.shows(uuid)
    };
    let last = facts.memory.missing.reads.last();
    last.is_some_and(|last| *last >= due) && view.proof.as_ref().is_some_and(is_missed)
}

/// How far the search is: two reads that say 404 and two listings, with a control, without it. Not within the absence
/// grace period of its order: what is new may not be shown yet.
pub fn progress(facts: &Facts, view: &View, attempt: &Attempt) -> Disappearance {
    let missing = &facts.memory.missing;
    if missing.reads.len() >= 2 {
        match against_proof(view, attempt) {
            None => {
                if missing.listings.len() >= 2
                    && is_fresh(facts, view)
                    && !is_within_grace(facts, view, attempt)
                {
                    return Disappearance::Gone;
                }
            }
            Some(why) if is_acknowledged(facts, view, attempt, &why) => {
                return Disappearance::Acknowledged;
            }
            Some(why) if why == NoProof::OtherAccount || is_asked(facts, view, attempt, &why) => {
                return Disappearance::Unproved(why);
            }
            Some(_) => {}
        }
    }
    let (effect, proof) = next_look(facts, view, attempt);
    Disappearance::Looking(effect, Some(proof))
}

/// Why nothing that is seen now can prove that the machine is gone.
fn against_proof(view: &View, attempt: &Attempt) -> Option<NoProof> {
    if !leads_to(view, attempt.record.intent.account.as_ref()) {
        return Some(NoProof::OtherAccount);
    }
    (view.proof.is_some() && control(view).is_none()).then_some(NoProof::NoKnownServer)
}

/// The read that is due, and the moment from which a new listing counts.
fn next_look(facts: &Facts, view: &View, attempt: &Attempt) -> (Option<Effect>, Duration) {
    let missing = &facts.memory.missing;
    let (Some(proof), Some(uuid)) = (view.proof.as_ref(), attempt.uuid.as_ref()) else {
        return (None, Duration::ZERO);
    };
    let spacing = view.times.absence_check_interval;
    let shown = proof.shows(uuid);
    // A listing from before the first miss may be from before the machine.
    let since_missed = missing
        .reads
        .first()
        .is_some_and(|read| proof.began >= *read);
    let not_listed = (!shown && since_missed && control(view).is_some()).then_some(proof.began);
    let is_due = missing
        .reads
        .last()
        .is_none_or(|last| facts.now.since(*last) >= spacing);
    let effect = is_due.then(|| Effect::Read {
        uuid: uuid.clone(),
        not_listed,
    });
    let next_listing = missing
        .listings
        .last()
        .map(|last| *last + spacing)
        .or(missing.reads.first().copied())
        .unwrap_or_default();
    // What a user acknowledges needs one from after the grace period, and of late.
    let due = due(facts, view);
    let next_listing = match facts.now.mono >= due {
        true if is_new(facts, view, proof.began) => next_listing.max(due),
        true => facts.now.mono,
        false => next_listing,
    };
    (effect, next_listing)
}

/// The last look counts for this many check intervals at the end of an object.
const FRESH: u32 = 10;

/// Whether what ends an object was seen of late: a machine that was missed long ago may have been shown since, while
/// nobody looked.
fn is_fresh(facts: &Facts, view: &View) -> bool {
    let missing = &facts.memory.missing;
    let looks = [missing.reads.last(), missing.listings.last()];
    let is_new = |at: &Duration| is_new(facts, view, *at);
    !facts.deleting() || looks.into_iter().all(|at| at.is_some_and(is_new))
}

/// Whether the last read and the last listing are of late.
fn is_recent(facts: &Facts, view: &View) -> bool {
    let read = facts.memory.missing.reads.last().copied();
    let listed = view.proof.as_ref().map(|proof| proof.began);
    [read, listed]
        .into_iter()
        .all(|at| at.is_some_and(|at| is_new(facts, view, at)))
}

fn is_new(facts: &Facts, view: &View, at: Duration) -> bool {
    facts.now.since(at) <= view.times.absence_check_interval * FRESH
}

/// Whether the machine was ordered so short a time ago that the provider may not show it yet. A clock that was turned
/// back makes none new.
fn is_within_grace(facts: &Facts, view: &View, attempt: &Attempt) -> bool {
    let age = facts.now.wall.checked_sub(attempt.record.intent.epoch);
    let age = age.and_then(|age| u64::try_from(age).ok());
    age.is_some_and(|age| Duration::from_secs(age) < view.times.absence_grace_period)
}

/// The machine is there, and bears no mark of this object.
pub fn tags_missing(facts: &Facts, attempt: &Attempt, sighting: &Sighting) -> Decision {
    let mut decision = without_marks(facts, attempt, &sighting.server);
    // No listing by mark shows this machine, so nobody else looks at it.
    if let Ok(view) = facts.account.usable(Purpose::End) {
        let rest = view
            .times
            .idle_poll_interval
            .saturating_sub(facts.now.since(sighting.seen));
        decision.again = Again::After(rest);
        if rest.is_zero() && decision.effect.is_none() {
            let uuid = sighting.server.id.as_str().to_owned();
            decision.effect = Some(Effect::Read {
                uuid,
                not_listed: None,
            });
        }
    }
    decision
}

fn without_marks(facts: &Facts, attempt: &Attempt, server: &Server) -> Decision {
    let intent = &attempt.record.intent;
    let order_tag = facts.mark().order_tag(intent.epoch);
    let cluster_tag = facts.cluster.tag();
    let mut draft = Draft::unchanged(facts);
    if let Some(other) = server.tags.iter().find(|t| t.starts_with(ORDER_TAG)) {
        let cause = Cause::needs_person(
            Reason::OwnershipConflict,
            format!(
                "machine {} bears tag {other} of another object and not {order_tag}; put the right tag back at the provider",
                server.id
            ),
        );
        draft.set(facts, cause, None);
        return Decision::of(draft);
    }
    // What bears another object's mark is shown to nobody else.
    draft.show(server);
    let cause = Cause::needs_person(
        Reason::TagsMissing,
        format!(
            "machine {} lost the tags that say whose it is; put them back at the provider: {order_tag} {cluster_tag}",
            server.id
        ),
    );
    draft.set(facts, cause, None);
    let decision = Decision::of(draft);
    // One of the two marks still says whose it is: the other may be put back.
    if server.has_tag(&cluster_tag)
        && fence::may_be_of(server, ordered_hostname(facts, intent), intent.epoch)
        && server.status.is_live()
        && facts.policies().let_send()
        && !facts.deleting()
        && facts.account.usable(Purpose::End).is_ok()
    {
        return decision.with(Effect::AddTag {
            uuid: server.id.as_str().into(),
            tag: order_tag,
            when: TagProof::ClusterMarkOnly,
        });
    }
    decision
}

//! The recorded machine is not among those that bear the mark. Missing does not mean deleted.

use super::{
    super::facts::Facts,
    Again, Decision, Effect, absent, control,
    draft::Draft,
    evidence::{Attempt, Evidence},
    fence::{self, TagProof},
    leads_to,
    machine::out_of_touch,
    remedy,
    resolve::ordered_hostname,
};
use crate::{
    account::view::{Sighting, View},
    account_facts::Purpose,
    acknowledgement::Situation,
    cause::Cause,
};
use api::{Reason, names::ORDER_TAG};
use hosting_types::Server;
use std::time::Duration;

/// Why what is seen says nothing of the machine.
const ELSEWHERE: &str =
    "recorded in an account that the present base URL and key are not known to lead to";
/// Why nobody can prove that the machine is gone.
const NO_OTHER: &str = "no other known machine shows that the listings are complete";
/// What reads and listings say for the absence grace period.
const NOT_SHOWN: &str = "not shown for the absence grace period";

/// How far the search for the recorded machine is.
pub enum Disappearance {
    /// It is proved that there is no such machine.
    Gone,
    /// A user acknowledges that there is none.
    Acknowledged,
    /// A user must acknowledge it: what is seen now is not the account that the machine was recorded in.
    Elsewhere,
    /// Look, or wait: the effect if one is due, and the moment from which a new listing counts.
    Looking(Option<Effect>, Option<Duration>),
}

/// Decides for a living object whose recorded machine is not shown.
pub fn look(facts: &Facts, attempt: &Attempt) -> Decision {
    if let Some(sighting) = &facts.recorded {
        return marks_missing(facts, attempt, sighting);
    }
    let Ok(view) = facts.account.usable(Purpose::End) else {
        return out_of_touch(facts, Draft::unchanged(facts));
    };
    match progress(facts, view, attempt) {
        Disappearance::Gone => gone(facts, view, attempt),
        Disappearance::Acknowledged => absent::close(facts, attempt),
        Disappearance::Elsewhere => elsewhere(facts, view, attempt),
        Disappearance::Looking(effect, proof) => {
            let mut decision = out_of_touch(facts, Draft::unchanged(facts))
                .again(view.times.absence_check_interval);
            decision.effect = effect;
            decision.wants_proof = proof;
            decision
        }
    }
}

/// The recorded machine of a living object is gone. Nothing is ordered in its place, unless a user acknowledges that once
/// it was not shown for the absence grace period, and it is still not shown then.
fn gone(facts: &Facts, view: &View, attempt: &Attempt) -> Decision {
    let uuid = attempt.uuid.as_deref().unwrap_or("unknown");
    let asked = situation(facts, attempt, NOT_SHOWN);
    let given = facts.acknowledgements();
    let is_given = given.is_given(&asked);
    let missing = &facts.memory.missing;
    let first = missing.reads.first().copied().unwrap_or_default();
    let due = first + view.times.absence_grace_period;
    let mut looks = [missing.reads.last(), missing.listings.last()].into_iter();
    let is_long = looks.all(|at| at.is_some_and(|at| *at >= due));
    if is_long && is_given && is_recent(facts, view) {
        return absent::close(facts, attempt);
    }
    let is_asked = is_long || given.is_pending(&asked);
    let or = match is_asked {
        true => format!("; or, to order another one, {}", given.remedy(&asked)),
        false => String::new(),
    };
    let text = format!(
        "machine {uuid} is not at the provider any more; nothing is ordered in its place; delete this object: {}{or}",
        remedy::delete(facts)
    );
    let cause = Cause::needs_person(Reason::MachineNotFound, text);
    let mut decision = Decision::hold(facts, cause).again(view.times.idle_poll_interval);
    if is_asked {
        decision.draft.ask(facts, &asked);
    }
    let rest = due.saturating_sub(facts.now.mono);
    if !rest.is_zero() {
        decision.again = decision.again.within(rest);
    } else if !is_long || is_given {
        let (effect, proof) = next_look(facts, view, attempt);
        decision.effect = effect;
        decision.wants_proof = Some(proof.max(due));
        decision.again = Again::After(view.times.absence_check_interval);
    }
    decision
}

/// The machine is not shown, and by a URL or key that are not known to lead to where it was recorded.
pub fn elsewhere(facts: &Facts, view: &View, attempt: &Attempt) -> Decision {
    let uuid = attempt.uuid.as_deref().unwrap_or("unknown");
    let asked = situation(facts, attempt, ELSEWHERE);
    let text = format!(
        "machine {uuid} was {ELSEWHERE}, so that it is not shown says nothing; put the former ones back, or, if it is gone, {}",
        facts.acknowledgements().remedy(&asked)
    );
    let cause = Cause::needs_person(Reason::MachineNotFound, text);
    let mut decision = Decision::hold(facts, cause).again(view.times.idle_poll_interval);
    decision.draft.ask(facts, &asked);
    decision
}

/// The machine of a deleted object is not shown, and no other one shows that the listings are complete.
pub fn unproved(facts: &Facts, attempt: &Attempt) -> Decision {
    let uuid = attempt.uuid.as_deref().unwrap_or("unknown");
    let asked = situation(facts, attempt, NO_OTHER);
    let text = format!(
        "machine {uuid} is not shown, and {NO_OTHER}; if it is gone, {}",
        facts.acknowledgements().remedy(&asked)
    );
    let mut decision = Decision::hold(facts, Cause::needs_person(Reason::MachineNotFound, text));
    decision.draft.ask(facts, &asked);
    decision
}

fn situation(facts: &Facts, attempt: &Attempt, why: &str) -> Situation {
    absent::situation(facts, &Evidence::Own(attempt.clone()), why)
}

/// How far the search is: two reads that say 404 and two listings, with a control, without it. Not within the absence
/// grace period of its order: what is new may not be shown yet.
pub fn progress(facts: &Facts, view: &View, attempt: &Attempt) -> Disappearance {
    let missing = &facts.memory.missing;
    if missing.reads.len() >= 2 {
        // A token may have been given long ago, so it is believed only of what two reads do not show.
        let is_given = |why| {
            let asked = situation(facts, attempt, why);
            view.proof.is_some() && facts.acknowledgements().is_given(&asked)
        };
        if !leads_to(view, attempt.record.intent.account.as_ref()) {
            return match is_given(ELSEWHERE) {
                true => Disappearance::Acknowledged,
                false => Disappearance::Elsewhere,
            };
        }
        if control(view).is_none() && is_given(NO_OTHER) {
            return Disappearance::Acknowledged;
        }
        if missing.listings.len() >= 2
            && is_fresh(facts, view)
            && !is_within_grace(facts, view, attempt)
        {
            return Disappearance::Gone;
        }
    }
    let (effect, proof) = next_look(facts, view, attempt);
    Disappearance::Looking(effect, Some(proof))
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
    let due = missing
        .reads
        .last()
        .is_none_or(|last| facts.now.since(*last) >= spacing);
    let effect = due.then(|| Effect::Read {
        uuid: uuid.clone(),
        not_listed,
    });
    let next_listing = missing
        .listings
        .last()
        .map(|last| *last + spacing)
        .or(missing.reads.first().copied())
        .unwrap_or_default();
    (effect, next_listing)
}

/// The last look counts for this many check intervals at the end of an object.
const FRESH: u32 = 10;

/// Whether what ends an object was seen of late: a machine that was missed long ago may have been shown since, while
/// nobody looked.
fn is_fresh(facts: &Facts, view: &View) -> bool {
    !facts.deleting() || is_recent(facts, view)
}

/// Whether a read and a listing of late did not show the machine.
fn is_recent(facts: &Facts, view: &View) -> bool {
    let oldest = view.times.absence_check_interval * FRESH;
    let is_new = |at: &Duration| facts.now.since(*at) <= oldest;
    let missing = &facts.memory.missing;
    let looks = [missing.reads.last(), missing.listings.last()];
    looks.into_iter().all(|at| at.is_some_and(is_new))
}

/// Whether the machine was ordered so short a time ago that the provider may not show it yet. A clock that was turned
/// back makes none new.
fn is_within_grace(facts: &Facts, view: &View, attempt: &Attempt) -> bool {
    let age = facts.now.wall.checked_sub(attempt.record.intent.epoch);
    let age = age.and_then(|age| u64::try_from(age).ok());
    age.is_some_and(|age| Duration::from_secs(age) < view.times.absence_grace_period)
}

/// The machine is there, and bears no mark of this object.
pub fn marks_missing(facts: &Facts, attempt: &Attempt, sighting: &Sighting) -> Decision {
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
        Reason::MarksMissing,
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

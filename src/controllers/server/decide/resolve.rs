//! An order of unknown outcome: look for its mark; prove its absence, never guess it.
//!
//! Absence takes three complete listings, spaced, the last after the settle time, each with the
//! order's tag unknown to the account, and each with a control: the same two questions must show a
//! machine that we know. Without a control, or after two unknown outcomes in a row, a person says so.

use super::{
    super::facts::{Facts, Hold},
    Decision, Effect, Search, control,
    draft::Draft,
    evidence::Evidence,
    usable_account,
};
use crate::{
    account::view::View,
    controllers::server::memory::Obstacle,
    kinds::{Reason, names::ACKNOWLEDGE_ABSENT, server::OrderOutcome},
};
use std::time::Duration;

/// How far the search is.
pub enum Progress {
    /// It is proved, or a person says, that the order made no machine.
    Absent(&'static str),
    /// Ask beside this listing.
    Look(Search),
    /// Wait for a listing that begins at or after this moment.
    Wait(Duration),
    /// A person must say; why, and what.
    Stuck(String),
}

/// What a person writes to say that the order made no machine.
pub fn acknowledgement(facts: &Facts, evidence: &Evidence) -> String {
    match evidence {
        Evidence::Own(attempt) => facts.mark().order_tag(attempt.record.intent.epoch),
        _ => facts.mark().tag_prefix(),
    }
}

/// Whether a person said that the order made no machine.
pub fn acknowledged(facts: &Facts, evidence: &Evidence) -> bool {
    facts.acknowledged() == Some(acknowledgement(facts, evidence).as_str())
}

/// How far the search is, for living and deleted objects alike.
pub fn progress(facts: &Facts, view: &View, evidence: &Evidence) -> Progress {
    let search = facts.memory.search.as_ref();
    let since = search.map_or(facts.now.mono, |s| s.first_seen);
    let Some(proof) = &view.proof else {
        return Progress::Wait(since);
    };
    if acknowledged(facts, evidence) {
        return Progress::Absent("acknowledged by annotation");
    }
    // There is no attempt to look for, so no look can end this: a person must.
    let Evidence::Own(attempt) = evidence else {
        return Progress::Stuck("only the finalizer tells of an order".into());
    };
    let Some(search) = search else {
        return Progress::Wait(since);
    };
    let intent = &attempt.record.intent;
    let times = &view.times;
    if search.samples.len() >= 3
        && search
            .samples
            .last()
            .is_some_and(|s| *s >= search.first_seen + times.settle)
    {
        return if intent.unknown_before >= 1 {
            Progress::Stuck("two orders in a row had an unknown outcome".into())
        } else {
            Progress::Absent("three listings with control showed no machine")
        };
    }
    let mut not_before = search
        .looked
        .map_or(search.first_seen, |last| last + times.listing_spacing);
    if search.samples.len() >= 2 {
        not_before = not_before.max(search.first_seen + times.settle);
    }
    if proof.began < not_before {
        return Progress::Wait(not_before);
    }
    match control(view) {
        Some(known) => Progress::Look(Search {
            attempt: intent.attempt.clone(),
            order_tag: facts.mark().order_tag(intent.epoch),
            since: intent.epoch,
            hostname: facts.hostname().into(),
            control: known.clone(),
            proof_began: proof.began,
        }),
        None => Progress::Stuck(
            "no machine that we know is there to show that the listings tell the truth".into(),
        ),
    }
}

/// Decides for a living object with an order of unknown outcome.
pub fn resolve(facts: &Facts, evidence: &Evidence) -> Decision {
    let view = match usable_account(facts, false) {
        Ok(view) => view,
        Err(hold) => return Decision::hold(facts, hold),
    };
    match progress(facts, view, evidence) {
        Progress::Absent(how) => absent(facts, evidence, how),
        other => waiting(facts, view, evidence, other),
    }
}

/// Says that the search goes on, with the look that is due.
pub fn waiting(facts: &Facts, view: &View, evidence: &Evidence, progress: Progress) -> Decision {
    let remedy = format!(
        "if the provider shows no machine for it, annotate {ACKNOWLEDGE_ABSENT}={}",
        acknowledgement(facts, evidence)
    );
    let search = facts.memory.search.as_ref();
    let obstacle = match search.and_then(|s| s.obstacle.as_ref()) {
        Some(Obstacle::NoControl) => Some(
            "the tag of a machine that we know is not shown, so look-ups prove nothing".to_owned(),
        ),
        Some(Obstacle::TagExists) => {
            Some("the order's tag exists, and no machine with it is shown".to_owned())
        }
        Some(Obstacle::Unmarked(uuid)) => Some(format!(
            "machine {uuid} has this host name, was made since, and bears no mark"
        )),
        None => None,
    };
    let (hold, effect, wants) = match (progress, obstacle) {
        (Progress::Stuck(why), _) => {
            let hold = Hold::needs_person(
                Reason::OutcomeUnknown,
                format!("whether the order made a machine is not known: {why}; {remedy}"),
            );
            (hold, None, None)
        }
        (progress, Some(why)) => {
            let hold = Hold::needs_person(
                Reason::OutcomeUnknown,
                format!("whether the order made a machine is not known: {why}; {remedy}"),
            );
            split(hold, progress)
        }
        (progress, None) => {
            let hold = Hold::waits(
                Reason::OutcomeUnknown,
                "whether the order made a machine is not known; looking for it",
            );
            split(hold, progress)
        }
    };
    let mut decision = Decision::of(Draft::holding(facts, hold));
    decision.again = wants.map_or(view.times.poll_still, |w: Duration| {
        // Once the moment is past the account wakes us, as soon as it has a listing.
        match w.saturating_sub(facts.now.mono) {
            rest if rest.is_zero() => view.times.poll_moving,
            rest => rest.min(view.times.poll_still),
        }
    });
    decision.effect = effect;
    decision.wants_proof = wants;
    decision
}

fn split(hold: Hold, progress: Progress) -> (Hold, Option<Effect>, Option<Duration>) {
    match progress {
        Progress::Look(search) => (hold, Some(Effect::LookForOrder(search)), None),
        Progress::Wait(not_before) => (hold, None, Some(not_before)),
        Progress::Absent(_) | Progress::Stuck(_) => (hold, None, None),
    }
}

/// The order made no machine: its epoch is closed in status, and the next pass may begin anew.
fn absent(facts: &Facts, evidence: &Evidence, how: &str) -> Decision {
    let Evidence::Own(attempt) = evidence else {
        return Decision::unchanged(facts);
    };
    let mut draft = Draft::holding(
        facts,
        Hold::waits(
            Reason::Ordering,
            format!("the last order made no machine: {how}"),
        ),
    );
    let mut record = attempt.record.clone();
    record.outcome = Some(OrderOutcome::Absent);
    record.settled_at = Some(facts.now.wall);
    record.message = Some(how.into());
    draft.status.order = Some(record);
    Decision::of(draft).again(Duration::ZERO)
}

//! Finalizer and order annotation: what is missing is put back before anything else.
//!
//! Without them a deleted object is gone at once and its machine is paid for by nobody's wish. Putting them
//! back needs no account and no call, so it goes on while the account is blocked and the object suspended.

use super::{
    super::facts::Facts,
    Decision, Effect,
    evidence::{Attempt, Evidence},
};
use crate::{again::Again, cause::Cause};
use api::{Reason, order::OrderNote, server::OrderRecord};

/// Puts the order of a living object back into its metadata, and says so when something takes it off again
/// and again. A closed outcome is written down there too; once it is, nothing is put back any more.
pub fn keep(facts: &Facts, evidence: &Evidence, decision: &mut Decision) {
    let Evidence::Own(attempt) = evidence else {
        return;
    };
    if facts.deleting() {
        return;
    }
    if attempt.record.outcome.is_some_and(|o| o.is_closed()) {
        if is_noted(facts, attempt) && !is_recorded(facts, attempt) {
            // As soon as the outcome stands in status it is written down here, too.
            decision.once_written = Again::AtOnce;
        }
        if decision.effect.is_none() && is_noted(facts, attempt) && is_recorded(facts, attempt) {
            let note = OrderNote {
                intent: attempt.record.intent.clone(),
                outcome: attempt.record.outcome,
            };
            decision.effect = Some(Effect::WriteNote(Box::new(note)));
        }
        return;
    }
    let now = facts.now.mono;
    let contest = &facts.memory.contest;
    if let Some(rest) = contest.contested_for(now) {
        let cause = Cause::needs_person(
            Reason::MetadataConflict,
            "something takes the operator's finalizer or order annotation off this object again and again, and without them a delete loses the machine; find what writes the object without them (metadata.managedFields names the writers) and stop it",
        );
        decision.draft.set(facts, cause, None);
        decision.again = decision.again.within(rest);
    }
    if facts.has_finalizer() && is_noted(facts, attempt) {
        // What keeps being changed meets the same pauses.
        if matches!(decision.effect, Some(Effect::WriteNote(_)))
            && let Some(rest) = contest.rest(now)
        {
            decision.effect = None;
            decision.again = Again::After(rest);
        }
        return;
    }
    match contest.rest(now) {
        Some(rest) => {
            decision.effect = None;
            decision.again = Again::After(rest);
        }
        None => {
            let note = OrderNote::open(attempt.record.intent.clone());
            decision.effect = Some(Effect::PutBack(Box::new(note)));
        }
    }
}

/// Whether the annotation is of this very attempt. Where the account is is kept up to date by
/// [`super::machine::tend`], and no reason to put it back.
fn is_noted(facts: &Facts, attempt: &Attempt) -> bool {
    let own = &attempt.record.intent;
    let same = |note: &OrderNote| {
        let noted = &note.intent;
        (&noted.cluster, &noted.uid, &noted.mark) == (&own.cluster, &own.uid, &own.mark)
            && (noted.epoch, &noted.attempt) == (own.epoch, &own.attempt)
            && note.outcome.is_none()
    };
    matches!(facts.annotation(), Some(Ok(note)) if same(&note))
}

/// Whether the outcome stands in status.
fn is_recorded(facts: &Facts, attempt: &Attempt) -> bool {
    let status = facts.object.status.as_ref();
    let shown = status.and_then(|s| s.records.order.as_ref());
    shown.is_some_and(|s| s.intent == attempt.record.intent && s.outcome == attempt.record.outcome)
}

/// Whether that note is of an attempt that the annotation is of already: it is not written for the first time.
pub fn is_repeated(facts: &Facts, note: &OrderNote) -> bool {
    let attempt = Attempt {
        record: OrderRecord::open(note.intent.clone()),
        uuid: None,
    };
    note.outcome.is_none() && is_noted(facts, &attempt)
}

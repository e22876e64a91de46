//! A user acknowledges that an order made no machine, or that the recorded machine is gone.
//!
//! It stands for one order, one machine or one mark, and for what stands in the way of a proof: whatever changes that, or
//! shows the machine, makes it void.

use super::{
    super::facts::Facts,
    Decision,
    draft::Draft,
    evidence::{Attempt, Evidence},
    order,
};
use crate::{acknowledgement::Situation, cause::Cause};
use api::{Reason, acknowledgement::AcknowledgementEffect::AssumeAbsent, server::OrderOutcome};

/// Said of an order that was closed by an acknowledgement.
const ACKNOWLEDGED: &str = "acknowledged by a user";
/// Anybody may have written the mark of a foreign order.
const LONGEST_MARK: usize = 24;

/// By which tag or mark a machine of the order is looked for.
pub fn sought(facts: &Facts, evidence: &Evidence) -> String {
    match evidence {
        Evidence::Own(attempt) => facts.mark().order_tag(attempt.record.intent.epoch),
        Evidence::Former(_, mark) | Evidence::Stranger(_, mark) => mark.as_str().to_owned(),
        Evidence::Foreign(intent) => intent.mark.chars().take(LONGEST_MARK).collect(),
        Evidence::None | Evidence::Bare | Evidence::Garbled(_) => facts.mark().tag_prefix(),
    }
}

/// The situation of this order, with what stands in the way of a proof.
pub fn situation(facts: &Facts, evidence: &Evidence, why: &str) -> Situation {
    let sought = sought(facts, evidence);
    let machine = match evidence {
        Evidence::Own(Attempt { uuid, .. }) => uuid.as_deref(),
        _ => None,
    };
    let what = machine.map_or_else(
        || format!("order {sought}"),
        |uuid| format!("machine {uuid}"),
    );
    let exact = [sought.as_str(), machine.unwrap_or_default(), why];
    Situation::new(AssumeAbsent, exact, format!("{what}: {why}"))
}

/// An object that speaks of an order of others: it waits for the acknowledgement, and then orders. `cause` is told what
/// a user has to do.
pub fn unless_given(
    facts: &Facts,
    evidence: &Evidence,
    why: &str,
    cause: impl FnOnce(String) -> Cause,
) -> Decision {
    let asked = situation(facts, evidence, why);
    if facts.acknowledgements().is_given(&asked) {
        return order_anyway(facts, evidence, &asked);
    }
    let remedy = facts.acknowledgements().remedy(&asked);
    let mut decision = Decision::hold(facts, cause(remedy));
    decision.draft.ask(facts, &asked);
    decision
}

/// Orders where this is given. It stays given until the record of the order is written, which uses it up.
pub fn order_anyway(facts: &Facts, evidence: &Evidence, given: &Situation) -> Decision {
    let mut decision = order::next(facts, evidence);
    decision.draft.ask(facts, given);
    decision
}

/// Closes an own order, as a user acknowledged that there is no machine of it. The next pass may start another one.
pub fn close(facts: &Facts, attempt: &Attempt) -> Decision {
    let text = format!("no machine is there: {ACKNOWLEDGED}; another order follows within seconds");
    let mut draft = Draft::holding(facts, Cause::waits(Reason::Ordering, text));
    let mut record = attempt.record.clone();
    record.outcome = Some(OrderOutcome::Absent);
    record.outcome_at = Some(facts.now.wall);
    record.acknowledged = true;
    record.message = Some(ACKNOWLEDGED.into());
    draft.forget_machine();
    draft.status.records.order = Some(record);
    draft.use_up(facts, AssumeAbsent);
    Decision::of(draft).at_once()
}

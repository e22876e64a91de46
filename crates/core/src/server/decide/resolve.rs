//! An order of unknown outcome: look for its mark; prove its absence, never guess it.
//!
//! Absence takes three complete listings, spaced, the last after the absence grace period, each with the
//! order's tag unknown to the account, and each with a control: the same two questions must show a
//! machine that we know. Without a control, or after two unknown outcomes in a row, a user acknowledges it.

use super::{
    super::facts::Facts,
    Decision, Effect, LookUp,
    absent::{self, NoProof},
    control,
    draft::Draft,
    evidence::Evidence,
    fence, leads_to,
};
use crate::{
    account::view::{Proof, View},
    account_facts::Purpose,
    acknowledgement::Situation,
    cause::Cause,
    server::memory::Obstacle,
};
use api::{
    Interval, Reason,
    acknowledgement::AcknowledgementEffect::AssumeAbsent,
    names::ORDER_TAG,
    server::{Intent, OrderOutcome},
};
use std::time::Duration;

/// How far the search is.
pub enum Absence {
    /// Complete listings prove that the order made no machine.
    Proved(&'static str),
    /// A user acknowledges it, and what was sent would have arrived by now.
    Acknowledged,
    /// The same, and it may still arrive: wait for a proof listing that starts at or after this moment.
    Arriving(Duration),
    /// Ask beside this listing.
    Look(LookUp),
    /// Wait for a proof listing that starts at or after this moment.
    Wait(Duration),
    /// Wait for a list of every machine of the account that starts at or after this moment.
    List(Duration),
    /// A user must acknowledge it; why.
    Stuck(NoProof),
}

/// What a user may acknowledge meanwhile.
enum Asked {
    This(Situation),
    Nothing,
    /// This process does not know yet.
    AsBefore,
}

fn asked(facts: &Facts, evidence: &Evidence, absence: &Absence) -> Asked {
    if matches!(absence, Absence::Arriving(_)) {
        return Asked::AsBefore;
    }
    let this = |why: &NoProof| Asked::This(absent::situation(facts, evidence, why));
    if let Some(why) = obstacle(facts, absence) {
        return this(&why);
    }
    let search = facts.memory.search.as_ref();
    match evidence {
        // It will be needed in the end.
        Evidence::Own(attempt) if search.is_some_and(|s| s.looked.is_some()) => {
            match attempt.record.intent.unknown_before {
                0 => Asked::Nothing,
                _ => this(&NoProof::UnknownTwice),
            }
        }
        _ => Asked::AsBefore,
    }
}

/// What stands in the way of a proof.
fn obstacle(facts: &Facts, absence: &Absence) -> Option<NoProof> {
    if let Absence::Stuck(why) = absence {
        return Some(why.clone());
    }
    let search = facts.memory.search.as_ref();
    Some(match search?.obstacle.as_ref()? {
        Obstacle::NoControl => NoProof::KnownTagNotShown,
        Obstacle::TagExists => NoProof::TagExists,
        Obstacle::Unmarked(uuid) => NoProof::Untagged(uuid.clone()),
    })
}

/// How far the search is, for living and deleted objects alike.
pub fn progress(facts: &Facts, view: &View, evidence: &Evidence) -> Absence {
    let search = facts.memory.search.as_ref();
    let since = search.map_or(facts.now.mono, |s| s.first_seen);
    let Some(proof) = &view.proof else {
        return Absence::Wait(since);
    };
    let found = looked_for(facts, view, evidence, proof);
    if matches!(found, Absence::Proved(_)) {
        return found;
    }
    match asked(facts, evidence, &found) {
        Asked::This(asked) if facts.acknowledgements().is_given(&asked) => {
            // A user who looks at the provider does not see what is still on its way, nor a list that lags behind.
            // Without a search there is no moment to count from.
            let arrived = since + view.times.absence_grace_period;
            match search.is_some() && proof.began < arrived {
                true => Absence::Arriving(arrived),
                false => Absence::Acknowledged,
            }
        }
        _ => found,
    }
}

/// How far the search is by itself.
fn looked_for(facts: &Facts, view: &View, evidence: &Evidence, proof: &Proof) -> Absence {
    // There is no attempt to look for, so no look can end this: a user must.
    let Evidence::Own(attempt) = evidence else {
        return Absence::Stuck(NoProof::FinalizerOnly);
    };
    let Some(search) = &facts.memory.search else {
        return Absence::Wait(facts.now.mono);
    };
    let intent = &attempt.record.intent;
    if !leads_to(view, intent.account.as_ref()) {
        return Absence::Stuck(NoProof::OrderedElsewhere);
    }
    let times = &view.times;
    if search.samples.len() >= 3
        && search
            .samples
            .last()
            .is_some_and(|s| *s >= search.first_seen + times.absence_grace_period)
    {
        return if intent.unknown_before >= 1 {
            Absence::Stuck(NoProof::UnknownTwice)
        } else {
            Absence::Proved("three complete listings showed no machine")
        };
    }
    let mut not_before = search.looked.map_or(search.first_seen, |last| {
        last + times.absence_check_interval
    });
    if search.samples.len() >= 2 {
        not_before = not_before.max(search.first_seen + times.absence_grace_period);
    }
    if proof.began < not_before {
        return Absence::Wait(not_before);
    }
    let Some(known) = control(view) else {
        return Absence::Stuck(NoProof::NoKnownServer);
    };
    // The listing shows only machines with our mark. What lost it is on the list of all, which must
    // not be older than what it goes with.
    let Some((_, servers)) = view.servers.as_ref().filter(|(at, _)| *at >= proof.began) else {
        return Absence::List(proof.began);
    };
    let suspect = servers
        .iter()
        .find(|s| fence::is_suspect(s, ordered_hostname(facts, intent), intent.epoch));
    Absence::Look(LookUp {
        attempt: intent.attempt.clone(),
        order_tag: facts.mark().order_tag(intent.epoch),
        suspect: suspect.map(|s| s.id.as_str().to_owned()),
        control: known,
        proof_began: proof.began,
    })
}

/// The host name that was ordered: the spec may say another one by now.
pub(super) fn ordered_hostname<'a>(facts: &'a Facts, intent: &'a Intent) -> &'a str {
    match intent.hostname.as_str() {
        "" => facts.hostname(),
        ordered => ordered,
    }
}

/// Decides for a living object with an order of unknown outcome.
pub fn resolve(facts: &Facts, evidence: &Evidence) -> Decision {
    let view = match facts.account.usable(Purpose::End) {
        Ok(view) => view,
        Err(cause) => return Decision::hold(facts, cause),
    };
    if matches!(evidence, Evidence::Bare) {
        let asked = absent::situation(facts, evidence, &NoProof::FinalizerOnly);
        if facts.acknowledgements().is_given(&asked) {
            return absent::order_anyway(facts, evidence, &asked);
        }
    }
    match (progress(facts, view, evidence), evidence) {
        (Absence::Proved(how), _) => proved(facts, evidence, how),
        (Absence::Acknowledged, Evidence::Own(attempt)) => absent::close(facts, attempt),
        (other, _) => waiting(facts, view, evidence, other),
    }
}

/// Says that the search goes on, with the look that is due.
pub fn waiting(facts: &Facts, view: &View, evidence: &Evidence, absence: Absence) -> Decision {
    let unknown = unknown(facts, evidence);
    let grace = Interval(view.times.absence_grace_period);
    let asked = asked(facts, evidence, &absence);
    let cause = match (&absence, obstacle(facts, &absence), &asked) {
        (Absence::Arriving(_), ..) => Cause::waits(
            Reason::OutcomeUnknown,
            format!(
                "{unknown}; that there is no machine is acknowledged, and counts once a listing shows none that began {grace} after the first look; until then what was sent may still arrive, or be shown"
            ),
        ),
        (_, Some(why), Asked::This(asked)) => Cause::needs_person(
            Reason::OutcomeUnknown,
            format!(
                "{unknown}: {}; if the provider shows no machine for it, {}",
                why.text(),
                facts.acknowledgements().remedy(asked)
            ),
        ),
        _ => Cause::waits(
            Reason::OutcomeUnknown,
            format!(
                "{unknown}; looked for again every {}, and believed absent {grace} after the first look at the earliest; {}",
                Interval(view.times.absence_check_interval),
                afterwards(facts, evidence)
            ),
        ),
    };
    let mut decision =
        Decision::of(Draft::holding(facts, cause)).again(view.times.idle_poll_interval);
    match &asked {
        Asked::This(asked) => decision.draft.ask(facts, asked),
        Asked::Nothing => decision.draft.withdraw(AssumeAbsent),
        Asked::AsBefore => {}
    }
    match absence {
        Absence::Look(look) => decision.effect = Some(Effect::LookForOrder(look)),
        Absence::Wait(not_before) | Absence::Arriving(not_before) => {
            decision.wants_proof = Some(not_before);
            // Once the moment is past the account wakes us, as soon as it has a listing.
            let rest = match not_before.saturating_sub(facts.now.mono) {
                rest if rest.is_zero() => view.times.active_poll_interval,
                rest => rest.min(view.times.idle_poll_interval),
            };
            decision = decision.again(rest);
        }
        Absence::List(not_before) => {
            decision.wants_servers = Some(not_before);
            decision = decision.again(view.times.active_poll_interval);
        }
        Absence::Proved(_) | Absence::Acknowledged | Absence::Stuck(_) => {}
    }
    decision
}

/// What happens by itself once the search is over.
fn afterwards(facts: &Facts, evidence: &Evidence) -> &'static str {
    match evidence {
        _ if facts.deleting() => {
            "a machine that is found is released or kept as the deletion policy says; once that is done, or there is none, this object goes by itself"
        }
        Evidence::Own(attempt) if attempt.record.outcome.is_some() => {
            "a machine that is found is this object's; when there is none, this message says what to do"
        }
        _ => {
            "a machine that is found is this object's; if there is none, an order follows by itself"
        }
    }
}

/// What is not known, and what is looked for.
fn unknown(facts: &Facts, evidence: &Evidence) -> String {
    let sought = absent::sought(facts, evidence);
    match evidence {
        Evidence::Own(attempt) if attempt.record.outcome.is_some() => format!(
            "which machine the order made is lost; looking for tag {sought}; nothing is ordered meanwhile"
        ),
        Evidence::Own(_) => format!(
            "the answer to the order was lost; looking for tag {sought}; nothing is ordered meanwhile"
        ),
        Evidence::Bare => format!(
            "an order may have made a machine; its tag begins with {sought}; nothing is ordered meanwhile"
        ),
        _ => format!(
            "an order of another object may have made a machine; its tag begins with {ORDER_TAG}{sought}; nothing is ordered meanwhile"
        ),
    }
}

/// The order made no machine: its epoch is closed in status, and the next pass may start again.
fn proved(facts: &Facts, evidence: &Evidence, how: &str) -> Decision {
    let Evidence::Own(attempt) = evidence else {
        return Decision::unchanged(facts);
    };
    if attempt.record.outcome == Some(OrderOutcome::Created) {
        let text = "the machine of this object is not at the provider any more, and which it was is lost; nothing is ordered in its place; delete this object";
        return Decision::hold(facts, Cause::needs_person(Reason::ServerNotFound, text));
    }
    let mut draft = Draft::holding(
        facts,
        Cause::waits(
            Reason::Ordering,
            format!("the last order made no machine: {how}; another one follows"),
        ),
    );
    let mut record = attempt.record.clone();
    record.outcome = Some(OrderOutcome::Absent);
    record.outcome_at = Some(facts.now.wall);
    record.message = Some(how.into());
    draft.status.records.order = Some(record);
    draft.withdraw(AssumeAbsent);
    Decision::of(draft).at_once()
}

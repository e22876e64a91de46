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

/// Why nothing that is seen proves that there is no machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoProof {
    /// Reads and listings have not shown the recorded machine for the absence grace period.
    NotShown,
    /// The recorded machine is of an account that the present URL and key are not known to lead to.
    OtherAccount,
    /// The same of the account that the order went to.
    OrderedElsewhere,
    /// No other known machine is recorded that a complete listing would have to show.
    NoKnownServer,
    /// The tag of a known machine is not shown in answers that should have it.
    KnownTagNotShown,
    /// The order's tag exists.
    TagExists,
    /// This machine may be of the order, and has no tag of any.
    Untagged(String),
    /// Only our finalizer is left of an order.
    FinalizerOnly,
    /// Two orders in a row had an unknown outcome.
    UnknownTwice,
    /// No machine of an earlier object of this name is shown.
    FormerNotShown,
    /// The order is of the object with this UID.
    OfObject(String),
    /// The order is of this other cluster.
    OfCluster(String),
    /// The account does not serve this namespace.
    NotServed,
}

impl NoProof {
    /// What stands for it in tokens. A token that a user was shown stays good while this is so, whatever the words.
    fn code(&self) -> String {
        match self {
            Self::NotShown => "NotShown".to_owned(),
            Self::OtherAccount => "OtherAccount".to_owned(),
            Self::OrderedElsewhere => "OrderedElsewhere".to_owned(),
            Self::NoKnownServer => "NoKnownServer".to_owned(),
            Self::KnownTagNotShown => "KnownTagNotShown".to_owned(),
            Self::TagExists => "TagExists".to_owned(),
            Self::Untagged(uuid) => format!("Untagged {uuid}"),
            Self::FinalizerOnly => "FinalizerOnly".to_owned(),
            Self::UnknownTwice => "UnknownTwice".to_owned(),
            Self::FormerNotShown => "FormerNotShown".to_owned(),
            Self::OfObject(uid) => format!("OfObject {uid}"),
            Self::OfCluster(cluster) => format!("OfCluster {cluster}"),
            Self::NotServed => "NotServed".to_owned(),
        }
    }

    /// In words.
    pub fn text(&self) -> String {
        let text = match self {
            Self::NotShown => "not shown for the absence grace period",
            Self::OtherAccount => {
                "recorded in an account that the present base URL and key are not known to lead to"
            }
            Self::OrderedElsewhere => {
                "the present base URL and key are not known to lead to the account that the order went to, so what they show proves nothing; put the former ones back"
            }
            Self::NoKnownServer => "no other known machine shows that the listings are complete",
            Self::KnownTagNotShown => {
                "the tag of a known machine is not shown, so the answers are not believed"
            }
            Self::TagExists => "that tag exists in the account, and no machine with it is shown",
            Self::Untagged(uuid) => {
                return format!(
                    "machine {uuid} has this host name, was made since, and bears no order's tag"
                );
            }
            Self::FinalizerOnly => "only the finalizer shows that there was an order",
            Self::UnknownTwice => "two orders in a row had an unknown outcome",
            Self::FormerNotShown => "no machine with its tag is shown",
            Self::OfObject(uid) => return format!("made by the object with UID {uid}"),
            Self::OfCluster(cluster) => return format!("written by cluster {cluster}"),
            Self::NotServed => "the account does not serve this namespace",
        };
        text.to_owned()
    }
}

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
pub fn situation(facts: &Facts, evidence: &Evidence, why: &NoProof) -> Situation {
    let sought = sought(facts, evidence);
    let machine = match evidence {
        Evidence::Own(Attempt { uuid, .. }) => uuid.as_deref(),
        _ => None,
    };
    let what = machine.map_or_else(
        || format!("order {sought}"),
        |uuid| format!("machine {uuid}"),
    );
    let code = why.code();
    let exact = [sought.as_str(), machine.unwrap_or_default(), &code];
    Situation::new(AssumeAbsent, exact, format!("{what}: {}", why.text()))
}

/// An object that speaks of an order of others: it waits for the acknowledgement, and then orders. `cause` is told what
/// a user has to do.
pub fn unless_given(
    facts: &Facts,
    evidence: &Evidence,
    why: &NoProof,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever changes one of these makes every token void that was shown for it and is still to be given.
    #[test]
    fn codes_in_tokens_are_not_the_words_of_messages() {
        let text = |text: &str| text.to_owned();
        for (why, code) in [
            (NoProof::NotShown, "NotShown"),
            (NoProof::OtherAccount, "OtherAccount"),
            (NoProof::OrderedElsewhere, "OrderedElsewhere"),
            (NoProof::NoKnownServer, "NoKnownServer"),
            (NoProof::KnownTagNotShown, "KnownTagNotShown"),
            (NoProof::TagExists, "TagExists"),
            (NoProof::Untagged(text("u")), "Untagged u"),
            (NoProof::FinalizerOnly, "FinalizerOnly"),
            (NoProof::UnknownTwice, "UnknownTwice"),
            (NoProof::FormerNotShown, "FormerNotShown"),
            (NoProof::OfObject(text("u")), "OfObject u"),
            (NoProof::OfCluster(text("c")), "OfCluster c"),
            (NoProof::NotServed, "NotServed"),
        ] {
            assert_eq!(why.code(), code);
            assert!(!why.text().contains(code), "{why:?}");
        }
    }
}

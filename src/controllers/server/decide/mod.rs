//! The decision: facts in, one decision out. No I/O, no clock, no randomness.
//!
//! An object with a machine is tended; one without is searched for when an order of it may have
//! arrived, and ordered when it is certain that none has. A deleted object is released. Each of
//! these is a file beside this one; the checks that effects repeat on fresh data are in [`fence`].

pub mod adopt;
pub mod draft;
pub mod evidence;
pub mod fence;
pub mod machine;
pub mod missing;
pub mod order;
pub mod release;
pub mod request;
pub mod resolve;
pub mod sending;

#[cfg(test)]
mod tests;

use super::facts::{AccountFacts, Facts, Hold};
use crate::{
    account::view::{State, View},
    kinds::{Reason, account::KnownMachine, server::OrderOutcome},
};
use draft::Draft;
use evidence::{Evidence, evidence};
use hosting::Order;
use std::time::Duration;

/// What to do now, what to say, and when to look again.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The next status.
    pub draft: Draft,
    /// At most one effect.
    pub effect: Option<Effect>,
    /// A proof listing that begins at or after this moment is wanted.
    pub wants_proof: Option<Duration>,
    /// A look at the catalogue not older than this moment is wanted.
    pub wants_catalogue: Option<Duration>,
    /// When to look again if nothing wakes the object before.
    pub again: Duration,
}

/// An effect, or a look that costs a call. Each is carried out by one arm of `act`.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Take a permit, begin a new epoch in metadata and status, send the order once.
    Order(Box<NewOrder>),
    /// Write the order annotation and the finalizer that should be there.
    WriteIntent(Box<crate::kinds::server::Intent>),
    /// Put the finalizer on, before a machine of an earlier object is taken over.
    HoldObject,
    /// Look for an order of unknown outcome beside the listing that does not show it.
    LookForOrder(Search),
    /// Read the machine.
    Read {
        /// Which.
        uuid: String,
        /// Begin of the newest proof listing, with control, that does not show it.
        not_listed: Option<Duration>,
    },
    /// Put a tag on a machine that a fresh read shows to be this object's.
    AddTag {
        /// Which machine.
        uuid: String,
        /// Which tag.
        tag: String,
        /// What the fresh read must show.
        when: fence::TagProof,
    },
    /// Take a tag off a machine that a fresh read shows to be this object's.
    RemoveTag {
        /// Which machine.
        uuid: String,
        /// Which tag.
        tag: String,
        /// What the fresh read must show.
        when: fence::TagProof,
    },
    /// Note in metadata that the release of this machine begins, and release it. From the note on,
    /// Retain comes too late.
    BeginRelease {
        /// Which machine.
        uuid: String,
    },
    /// Release a machine whose release was noted before.
    Release {
        /// Which machine.
        uuid: String,
    },
    /// Take our finalizer off: the end.
    LetGo,
}

/// What an order is made of; the permit, the epoch and the tags come with the begin.
#[derive(Clone, Debug, PartialEq)]
pub struct NewOrder {
    /// The request, with the user's tags only.
    pub order: Order,
    /// The epoch must exceed this.
    pub after_epoch: i64,
    /// How many epochs in a row, up to this one, had an unknown outcome.
    pub unknown_before: i32,
    /// How many attempts in a row were refused or not sent.
    pub failures: i32,
}

/// Look-ups for an order of unknown outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The attempt.
    pub attempt: String,
    /// Its order tag.
    pub order_tag: String,
    /// Its epoch: machines older than this are none of it.
    pub since: i64,
    /// Its host name.
    pub hostname: String,
    /// A machine that the listing shows, and whose tag must be shown as well.
    pub control: KnownMachine,
    /// Begin of the listing that goes with it.
    pub proof_began: Duration,
}

/// How long an object that needs nothing sleeps. The account wakes it when its machine changes.
const IDLE: Duration = Duration::from_secs(600);

/// Decides what to do for one server object.
pub fn decide(facts: &Facts) -> Decision {
    let evidence = evidence(facts);
    let mut decision = choose(facts, &evidence);
    // What is known of an own order belongs into status, whatever is decided beside it: an outcome
    // that only this process remembers would be unknown to the next.
    let shown = facts.object.status.as_ref().and_then(|s| s.order.as_ref());
    if let Evidence::Own(attempt) = &evidence
        && decision.draft.status.order.as_ref() == shown
    {
        decision.draft.status.order = Some(attempt.record.clone());
    }
    decision
}

fn choose(facts: &Facts, evidence: &Evidence) -> Decision {
    if facts.deleting() {
        return release::release(facts, evidence);
    }
    if let Some(machine) = machine::choose(facts, evidence) {
        return machine::tend(facts, evidence, &machine);
    }
    match evidence {
        Evidence::Own(attempt) => match attempt.record.outcome {
            Some(OrderOutcome::Created) => missing::look(facts, attempt),
            Some(_) => order::next(facts, evidence),
            None => resolve::resolve(facts, evidence),
        },
        Evidence::Bare if resolve::acknowledged(facts, evidence) => order::next(facts, evidence),
        Evidence::Bare => resolve::resolve(facts, evidence),
        Evidence::None => order::next(facts, evidence),
        Evidence::Former(intent, mark) => adopt::former(facts, evidence, intent, mark),
        Evidence::Stranger(intent, mark) => adopt::stranger(facts, evidence, intent, mark),
        Evidence::Foreign(intent) => Decision::hold(
            facts,
            Hold::needs_person(
                Reason::OwnershipConflict,
                format!(
                    "the annotation {} was written by cluster {}; remove the annotation{} to order anew",
                    crate::kinds::names::ORDER_ANNOTATION,
                    intent.cluster,
                    if facts.has_finalizer() {
                        " and then the finalizer that came with it"
                    } else {
                        ""
                    }
                ),
            ),
        ),
        Evidence::Garbled(text) => Decision::hold(
            facts,
            Hold::needs_person(
                Reason::OwnershipConflict,
                format!(
                    "the annotation {} cannot be read ({text:?}); restore it, or remove it if this object has no machine",
                    crate::kinds::names::ORDER_ANNOTATION
                ),
            ),
        ),
    }
}

impl Decision {
    /// Wait, and say why; what is known of the machine stays as it was.
    pub fn hold(facts: &Facts, hold: Hold) -> Self {
        Self::of(Draft::holding(facts, hold)).again(IDLE)
    }

    /// Wait, and say so only where something was said before: the first steps of a new object are
    /// not worth a write.
    pub fn hold_quietly(facts: &Facts, hold: Hold) -> Self {
        if facts
            .object
            .status
            .as_ref()
            .is_none_or(|s| s.conditions.is_empty())
        {
            return Self::unchanged(facts);
        }
        Self::hold(facts, hold)
    }

    /// Keep the status as it is.
    pub fn unchanged(facts: &Facts) -> Self {
        Self::of(Draft::unchanged(facts)).again(IDLE)
    }

    /// Say this and do nothing.
    pub fn of(draft: Draft) -> Self {
        Self {
            draft,
            effect: None,
            wants_proof: None,
            wants_catalogue: None,
            again: IDLE,
        }
    }

    /// With an effect.
    #[must_use]
    pub fn with(mut self, effect: Effect) -> Self {
        self.effect = Some(effect);
        self
    }

    /// Look again after this time.
    #[must_use]
    pub fn again(mut self, after: Duration) -> Self {
        self.again = after;
        self
    }

    /// With the wish for a proof listing that begins at or after this moment.
    #[must_use]
    pub fn proof(mut self, not_before: Duration) -> Self {
        self.wants_proof = Some(not_before);
        self
    }
}

/// The account when it may be called; else why not. `orders` asks for more than reading and releasing.
fn usable_account(facts: &Facts, orders: bool) -> Result<&View, Hold> {
    match &facts.account {
        AccountFacts::Missing(which) => Err(Hold::needs_person(
            Reason::AccountNotFound,
            format!("spec.accountRef: {which} does not exist; create it"),
        )),
        AccountFacts::Found {
            not_allowed: Some(why),
            ..
        } if orders => Err(Hold::needs_person(Reason::NamespaceNotAllowed, why.clone())),
        AccountFacts::Found { view, .. } => match &view.state {
            State::Usable => Ok(view),
            State::Blocked(reason, message) => Err(Hold {
                reason: *reason,
                message: message.clone(),
                stalled: needs_person(*reason),
            }),
        },
    }
}

/// Whether a blocked account needs a person, or a little time.
fn needs_person(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::Pending
            | Reason::ProviderUnreachable
            | Reason::RateLimited
            | Reason::WaitingForListing
    )
}

/// The machine that shows that a listing tells the truth: one that we know, and that the listing shows.
fn control(view: &View) -> Option<&KnownMachine> {
    let proof = view.proof.as_ref()?;
    view.known
        .iter()
        .find(|known| proof.servers.iter().any(|s| s.id.as_str() == known.uuid))
}

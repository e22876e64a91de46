//! The turn at the account that an effect needs.
//!
//! A read and the change that rests on it are one permit, and so are the start of an order and its
//! send: nothing waits in between.

use super::pass::caller;
use crate::account::{Account, Denied, OrderPermit, OrderTurn, Permit, Turn};
use api::Reason;
use flexmetal_core::{
    account::{lane::Lane, marks},
    server::{decide::Effect, facts::Facts, memory::Observation},
    trouble::Trouble,
};

/// The answer to a request for a turn.
// One of them lives for one pass; a box would save nothing.
#[allow(clippy::large_enum_variant)]
pub(super) enum Asked {
    /// The effect may be carried out now.
    Now(Permission),
    /// The object is queued; its account wakes it.
    Queued,
    /// The account lets no order start.
    Denied(Reason, String),
    /// The account says no.
    Refused(Observation),
}

/// What an effect is carried out by.
pub(super) enum Permission {
    /// It calls nobody but the API server.
    NotNeeded,
    /// Calls at the provider.
    Calls(Permit),
    /// One order.
    Order(OrderPermit),
}

/// Asks for the turn of an effect.
pub(super) fn ask(facts: &Facts, account: Option<&Account>, effect: &Effect) -> Asked {
    let (lane, calls) = match effect {
        Effect::AddFinalizer
        | Effect::RemoveFinalizer
        | Effect::Command { .. }
        | Effect::WriteOutput(_)
        | Effect::RecordOutput(_)
        | Effect::CheckDeletedOutputs(_)
        | Effect::FindPassword { .. }
        | Effect::ForgetPassword { .. }
        | Effect::Expire { .. } => {
            return Asked::Now(Permission::NotNeeded);
        }
        Effect::Order(_) => return ask_to_order(facts, account),
        Effect::Read { .. } => (Lane::Resolve, 1),
        // The read, and both tags.
        Effect::Claim { .. } => (Lane::Resolve, 3),
        Effect::Adopt { .. } => (Lane::Resolve, 2),
        Effect::FetchPassword { .. } => (Lane::Change, 2),
        Effect::Retain { .. } | Effect::Release { .. } => (Lane::Release, 2),
        Effect::AddTag { tag, .. } | Effect::RemoveTag { tag, .. } => {
            match marks::is_operators(tag) {
                true => (Lane::Resolve, 2),
                false => (Lane::Change, 2),
            }
        }
        Effect::Reinstall(new) => (Lane::Change, 2 + new.pages),
        Effect::LookAtInstall { record, pages } => {
            let is_known = record.command_id.is_some();
            // And one for the machine, where it is over.
            (Lane::Resolve, 1 + if is_known { 1 } else { *pages })
        }
    };
    let Some(account) = account else {
        return vanished();
    };
    match account.turn(lane, calls, &caller(facts)) {
        Ok(Turn::Now(permit)) => match account.stands_on(&permit, connection(facts)) {
            true => Asked::Now(Permission::Calls(permit)),
            false => Asked::Refused(Observation::Stale),
        },
        Ok(Turn::Queued) => Asked::Queued,
        Err(error) => Asked::Refused(Observation::Failed(Trouble::of_provider(&error))),
    }
}

/// The connection that the facts speak of.
fn connection(facts: &Facts) -> Option<&str> {
    facts.view()?.connection.as_deref()
}

fn ask_to_order(facts: &Facts, account: Option<&Account>) -> Asked {
    let Some(account) = account else {
        return vanished();
    };
    let Some(owner) = facts.owner() else {
        return Asked::Refused(Observation::Stale);
    };
    match account.order_turn(owner.place(), &caller(facts)) {
        Ok(OrderTurn::Now(permit)) => Asked::Now(Permission::Order(permit)),
        Ok(OrderTurn::Queued) => Asked::Queued,
        Err(Denied::Limit(message)) => Asked::Denied(Reason::LimitReached, message),
        Err(Denied::Blocked(reason, message)) => Asked::Denied(reason, message),
    }
}

/// The account vanished between decision and effect: the next pass says so.
fn vanished() -> Asked {
    let trouble = Trouble {
        reason: Reason::AccountNotFound,
        message: "The account of spec.accountRef no longer exists".into(),
    };
    Asked::Refused(Observation::Failed(trouble))
}

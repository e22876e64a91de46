//! What an account asks a user to acknowledge, and what it acted on.

use super::{
    super::facts::AccountFacts,
    account_identity::{self, AccountIdentity},
    candidate, release_limit,
};
use crate::acknowledgement::withdraw;
use api::acknowledgement::{Acknowledged, AcknowledgementEffect, PendingAcknowledgement};

/// The two lists of the next status. `begins`: it records the connection as that of another account.
pub(super) fn next(
    facts: &AccountFacts,
    identity: AccountIdentity,
    begins: bool,
) -> (Vec<PendingAcknowledgement>, Vec<Acknowledged>) {
    let given = facts.acknowledgements();
    let mut pending = given.pending.to_vec();
    let mut acknowledged = given.acknowledged.to_vec();
    let effect = AcknowledgementEffect::LiftReleaseLimit;
    withdraw(effect, &mut pending);
    for (_, held) in release_limit::situations(facts) {
        // It lets more begin with this very status.
        if let Some(token) = given.token(&held) {
            given.use_up_token(token, &mut pending, &mut acknowledged);
        }
    }
    for held in release_limit::asked(facts) {
        if given.token(&held).is_none() {
            pending.push(given.entry(&held));
        }
    }
    let effect = AcknowledgementEffect::NewAccount;
    match candidate::situation(facts).or_else(|| account_identity::changed(facts, identity)) {
        Some(other) => given.ask(&other, &mut pending),
        None if begins => {
            given.use_up(effect, &mut pending, &mut acknowledged);
            withdraw(effect, &mut pending);
        }
        None if identity == AccountIdentity::Same && facts.keys.candidate.is_none() => {
            withdraw(effect, &mut pending);
        }
        // Nobody knows yet where the connection leads.
        None => {}
    }
    let effect = AcknowledgementEffect::SameAccount;
    let is_listed = facts
        .report
        .as_ref()
        .is_some_and(|r| r.complete_list.is_some());
    match account_identity::unshown(facts).filter(|_| identity == AccountIdentity::Same) {
        Some(unshown) if !given.is_given(&unshown) => given.ask(&unshown, &mut pending),
        // What was known is forgotten with this very status.
        Some(_) => given.use_up(effect, &mut pending, &mut acknowledged),
        None if begins || (identity == AccountIdentity::Same && is_listed) => {
            withdraw(effect, &mut pending);
        }
        None => {}
    }
    (pending, acknowledged)
}

//! What an account asks a user to acknowledge, and what it acted on.

use super::{
    super::facts::AccountFacts,
    account_identity::{self, AccountIdentity},
    candidate, release_limit,
};
use crate::acknowledgement::withdraw;
use api::acknowledgement::{Acknowledged, AcknowledgementEffect, PendingAcknowledgement};

/// The two lists of the next status. `begins`: the status starts a new account ID.
pub(super) fn decide_acknowledgements(
    facts: &AccountFacts,
    identity: AccountIdentity,
    begins: bool,
) -> (Vec<PendingAcknowledgement>, Vec<Acknowledged>) {
    let given = facts.acknowledgements();
    let mut pending = given.pending.to_vec();
    let mut acknowledged = given.acknowledged.to_vec();
    let effect = AcknowledgementEffect::LiftReleaseLimit;
    withdraw(effect, &mut pending);
    for (_, blocked) in release_limit::situations(facts) {
        // More releases may begin as soon as this status is written.
        if let Some(token) = given.token(&blocked) {
            given.use_up_token(token, &mut pending, &mut acknowledged);
        }
    }
    for blocked in release_limit::list_asked_situations(facts) {
        if given.token(&blocked).is_none() {
            pending.push(given.entry(&blocked));
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
        // It is not known yet which account the credentials lead to.
        None => {}
    }
    let effect = AcknowledgementEffect::SameAccount;
    let is_listed = facts
        .report
        .as_ref()
        .is_some_and(|r| r.complete_list.is_some());
    match account_identity::unshown(facts).filter(|_| identity == AccountIdentity::Same) {
        Some(unshown) if !given.is_given(&unshown) => given.ask(&unshown, &mut pending),
        // This status also forgets the known servers.
        Some(_) => given.use_up(effect, &mut pending, &mut acknowledged),
        None if begins || (identity == AccountIdentity::Same && is_listed) => {
            withdraw(effect, &mut pending);
        }
        None => {}
    }
    (pending, acknowledged)
}

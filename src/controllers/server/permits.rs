//! The permit that an effect needs from its account. A read and the change based on it share one permit, and so do the
//! start of an order and its request.

use super::reconcile::caller;
use crate::account::{Account, Denied, OrderPermit, OrderPermitAnswer, Permit, PermitAnswer};
use api::Reason;
use flexmetal_core::{
    account::{ownership_tags, priority::Priority},
    last_error::LastError,
    server::{decide::ServerEffect, facts::ServerFacts, memory::ServerObservation},
};

/// The answer to a request for a permit.
// Short-lived; a box would save nothing.
#[allow(clippy::large_enum_variant)]
pub(super) enum PermissionAnswer {
    /// The effect may be carried out now.
    Now(EffectPermit),
    /// The object is queued; its account enqueues it later.
    Queued,
    /// The account allows no order now.
    Denied(Reason, String),
    /// The account refuses.
    Refused(ServerObservation),
}

/// What carries out an effect.
pub(super) enum EffectPermit {
    /// The effect calls only the API server.
    NotNeeded,
    /// Calls to the provider.
    Calls(Permit),
    /// One order.
    Order(OrderPermit),
}

/// Requests the permit for an effect.
pub(super) fn request_permission(
    facts: &ServerFacts,
    account: Option<&Account>,
    effect: &ServerEffect,
) -> PermissionAnswer {
    let (priority, calls) = match effect {
        ServerEffect::AddFinalizer
        | ServerEffect::RemoveFinalizer
        | ServerEffect::Command { .. }
        | ServerEffect::WriteOutput(_)
        | ServerEffect::RecordOutput(_)
        | ServerEffect::CheckDeletedOutputs(_)
        | ServerEffect::FindPassword { .. }
        | ServerEffect::ForgetPassword { .. }
        | ServerEffect::Expire { .. } => {
            return PermissionAnswer::Now(EffectPermit::NotNeeded);
        }
        ServerEffect::Order(_) => return request_order_permission(facts, account),
        ServerEffect::Read { .. } => (Priority::Resolve, 1),
        // One read and two tags.
        ServerEffect::Claim { .. } => (Priority::Resolve, 3),
        ServerEffect::Adopt { .. } => (Priority::Resolve, 2),
        ServerEffect::FetchPassword { .. } => (Priority::Change, 2),
        ServerEffect::Retain { .. } | ServerEffect::Release { .. } => (Priority::Release, 2),
        ServerEffect::AddTag { tag, .. } | ServerEffect::RemoveTag { tag, .. } => {
            match ownership_tags::is_operators(tag) {
                true => (Priority::Resolve, 2),
                false => (Priority::Change, 2),
            }
        }
        ServerEffect::Reinstall(new) => (Priority::Change, 2 + new.pages),
        ServerEffect::PollInstall { record, pages } => {
            let is_known = record.command_id.is_some();
            // And one to read the server, if the command is over.
            (Priority::Resolve, 1 + if is_known { 1 } else { *pages })
        }
    };
    let Some(account) = account else {
        return vanished();
    };
    match account.request_permit(priority, calls, &caller(facts)) {
        Ok(PermitAnswer::Now(permit)) => {
            match account.is_current_permit_for(&permit, connection(facts)) {
                true => PermissionAnswer::Now(EffectPermit::Calls(permit)),
                false => PermissionAnswer::Refused(ServerObservation::Stale),
            }
        }
        Ok(PermitAnswer::Queued) => PermissionAnswer::Queued,
        Err(error) => {
            PermissionAnswer::Refused(ServerObservation::Failed(LastError::from_provider(&error)))
        }
    }
}

/// The credentials hash in the facts.
fn connection(facts: &ServerFacts) -> Option<&str> {
    facts.view()?.credentials_hash.as_deref()
}

fn request_order_permission(facts: &ServerFacts, account: Option<&Account>) -> PermissionAnswer {
    let Some(account) = account else {
        return vanished();
    };
    let Some(owner) = facts.owner() else {
        return PermissionAnswer::Refused(ServerObservation::Stale);
    };
    match account.request_order_permit(owner.name_hash(), &caller(facts)) {
        Ok(OrderPermitAnswer::Now(permit)) => PermissionAnswer::Now(EffectPermit::Order(permit)),
        Ok(OrderPermitAnswer::Queued) => PermissionAnswer::Queued,
        Err(Denied::Limit(message)) => PermissionAnswer::Denied(Reason::LimitReached, message),
        Err(Denied::Blocked(reason, message)) => PermissionAnswer::Denied(reason, message),
    }
}

/// The account vanished between decision and effect; the next reconcile reports it.
fn vanished() -> PermissionAnswer {
    let last_error = LastError {
        reason: Reason::AccountNotFound,
        message: "The account of spec.accountRef no longer exists".into(),
    };
    PermissionAnswer::Refused(ServerObservation::Failed(last_error))
}

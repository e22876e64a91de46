//! A host that is not the object's to touch: another object has it, or its account does not let this one have it.
//!
//! What is asked for meanwhile counts as done. Else what was written while it could do nothing would be consent on the day on
//! which the host becomes this object's, and wipe or switch what somebody else has made of it.

use super::{super::facts::Facts, install::wished};
use crate::cause::Cause;
use api::{Reason, conditions::Type, host::DedicatedHostStatus};

/// The reasons with which a host is not the object's.
const REASONS: [Reason; 3] = [
    Reason::OwnershipConflict,
    Reason::NotAllowed,
    Reason::NamespaceNotAllowed,
];

/// Whether it is so by what is known now, or was so when status was last written: nobody may have looked when it ended.
/// `against`: why the host is not looked at.
pub(super) fn is(facts: &Facts, against: Option<&Cause>) -> bool {
    let is_now = against.is_some_and(|cause| REASONS.contains(&cause.reason));
    let status = facts.subject.object.status.as_ref();
    let ready = status.and_then(|status| {
        let mut all = status.conditions.iter();
        all.find(|condition| condition.type_ == Type::Ready.as_str())
    });
    let was = ready.is_some_and(|ready| {
        ready.status != "True" && REASONS.iter().any(|it| it.as_str() == ready.reason)
    });
    is_now || was
}

/// What the spec says counts as done. What was sent, or may have been, stays on record; only nothing is sent for it any more.
pub(super) fn waive(facts: &Facts, status: &mut DedicatedHostStatus) {
    let spec = &facts.subject.object.spec;
    let uid = facts.subject.uid();
    if let Some(power) = status.power.as_mut().filter(|power| power.uid == uid) {
        power.wish = spec.power;
        if spec.restart_token.is_some() {
            power.restart_token.clone_from(&spec.restart_token);
        }
        if let Some(last) = &mut power.last
            && (last.is_open() || last.is_to_be_sent())
        {
            last.give_up("the host was not this object's to switch meanwhile");
        }
    }
    if let Some(install) = status.install.as_mut().filter(|it| it.uid == uid) {
        install.revision = install.performed().max(wished(facts));
    }
}

//! Read-only mode: what a decision would change is reported, and not done.

use super::{super::facts::ServerFacts, DesiredStatus, IDLE, ServerDecision, ServerEffect};
use crate::{
    read_only::{Effect, explain_blocked_change},
    requeue::Requeue,
};
use api::{Reason, conditions::Type};

impl Effect for ServerEffect {
    fn change(&self) -> Option<String> {
        Some(match self {
            Self::Order(new) => format!(
                "order {} at {}",
                new.order.instance_type, new.order.location
            ),
            Self::AddFinalizer => "add the finalizer".to_owned(),
            Self::Claim { uuid } | Self::Adopt { uuid } => format!("adopt server {uuid}"),
            // While the operator is read-only, an output is only compared.
            Self::Read { .. } | Self::PollInstall { .. } | Self::WriteOutput(_) => return None,
            Self::AddTag { uuid, tag } => format!("add tag {tag:?} to server {uuid}"),
            Self::RemoveTag { uuid, tag } => format!("remove tag {tag:?} from server {uuid}"),
            Self::Retain { uuid } => format!("tag server {uuid} as retained"),
            Self::Release { uuid } => format!("release server {uuid}; this erases its disks"),
            Self::Command { name, .. } => format!("create ServerCommand {name}"),
            Self::Reinstall(new) => format!(
                "re-install server {}; this erases its disks",
                new.server_uuid
            ),
            Self::RecordOutput(output) => format!("write {} {}", output.kind.kind(), output.name),
            Self::CheckDeletedOutputs(_) => "free deleted outputs".to_owned(),
            Self::FindPassword { secret, .. } | Self::FetchPassword { secret, .. } => {
                format!("fetch the root password into Secret {secret}")
            }
            Self::ForgetPassword { secret, .. } => format!("delete Secret {secret}"),
            Self::Expire { .. } => "delete this object (spec.expiresAt)".to_owned(),
            Self::RemoveFinalizer => "remove the finalizer, which ends this object".to_owned(),
        })
    }
}

/// Reports a change instead of making it. The first one that is reported stays.
pub(super) fn block_change(facts: &ServerFacts, decision: &mut ServerDecision) {
    if !facts.read_only {
        return;
    }
    let Some((effect, blocked)) = decision
        .effect
        .take_if(|effect| effect.change().is_some())
        .and_then(|effect| explain_blocked_change(&effect).map(|blocked| (effect, blocked)))
    else {
        return;
    };
    if decision.requeue == Requeue::Now {
        decision.requeue = Requeue::After(IDLE);
    }
    let desired = &mut decision.desired;
    let is_reported = desired
        .condition(Type::Synced)
        .is_some_and(|synced| synced.reason == Reason::ReadOnly);
    // The conditions of an existing server are right, unless they say that this very change is under way.
    let is_shown = !facts.deleting() && desired.condition(Type::Ready).is_some();
    let report = |desired: &mut DesiredStatus, blocked| {
        let install = desired.condition(Type::InstallUpToDate).cloned();
        desired.set(facts, blocked, None);
        desired.conditions.extend(install);
        // As for every change that is not made: the old generation shows that the spec is not applied.
        desired.status.observed_generation = facts.status().observed_generation;
    };
    match effect {
        _ if is_reported => {}
        ServerEffect::Order(_)
        | ServerEffect::Claim { .. }
        | ServerEffect::Adopt { .. }
        | ServerEffect::Reinstall(_)
        | ServerEffect::Expire { .. } => report(desired, blocked),
        _ if is_shown => desired.set_unsynced(blocked.reason, blocked.message),
        _ => report(desired, blocked),
    }
}

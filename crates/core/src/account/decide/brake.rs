//! The brake on releases: what it says, and a person's word that lifts it.

use super::super::facts::Facts;
use crate::wording::counted;
use api::{
    Reason,
    brake::BrakeStatus,
    conditions::{Type, Wanted},
    names::ACKNOWLEDGE_RELEASES,
};

/// What the brake has counted, once a person's word is heard.
pub(super) fn next(facts: &Facts) -> Option<BrakeStatus> {
    facts.spec.release_brake?;
    let said = facts.acknowledged_releases();
    let is_meant = holding(facts).is_some_and(|held| said == Some(held.word().as_str()));
    facts.status.release_brake.clone().filter(|_| !is_meant)
}

/// Whether a person's word is used up, or was never asked for.
pub(super) fn is_used_up(facts: &Facts) -> bool {
    facts.acknowledged_releases().is_some() && holding(facts).is_none()
}

/// What holds releases now.
fn holding(facts: &Facts) -> Option<&BrakeStatus> {
    let brake = facts.spec.release_brake?;
    let status = facts.status.release_brake.as_ref()?;
    brake.holds(status).then_some(status)
}

/// The condition of an account that has a brake, or had one.
pub(super) fn condition(facts: &Facts) -> Option<Wanted> {
    let kind = Type::ReleasesHeld;
    let was_told = facts
        .status
        .conditions
        .iter()
        .any(|c| c.type_ == kind.as_str());
    let Some(brake) = facts.spec.release_brake else {
        return was_told.then(|| Wanted::new(kind, false, Reason::Settled, ""));
    };
    let Some(status) = holding(facts) else {
        return Some(Wanted::new(kind, false, Reason::Settled, ""));
    };
    let rest = format!("{ACKNOWLEDGE_RELEASES}={} --overwrite", status.word());
    let message = format!(
        "{} began within {}, as many as spec.releaseBrake lets; further ones are held, and their machines are billed; if they are meant, let as many more begin: {}; to keep the machines instead, set deletionPolicy Retain on their objects: kubectl get bms {}",
        counted(status.begun.len(), "release"),
        brake.window,
        facts.key.command("annotate", &rest),
        match &facts.key.namespace {
            Some(namespace) => format!("-n {namespace}"),
            None => "-A".to_owned(),
        }
    );
    Some(Wanted::new(kind, true, Reason::ReleaseHeld, message))
}

//! Broken rules. The model must notice each of them, or it shows nothing.

use super::{
    scenes::{self, Scene},
    walk,
};

/// Which rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// None: the shipped code.
    Ships,
    /// Every step is permitted.
    Unguarded,
    /// A process assumes that no request of its predecessor is in flight.
    Hasty,
    /// Sent requests are not remembered.
    Forgetful,
    /// A step is judged on the list of the previous poll.
    Stale,
    /// Each of two objects takes the other's entries for a user's.
    Trusting,
}

fn breaks(scene: &Scene) {
    if let Ok(states) = walk(scene) {
        panic!("{:?}: nothing noticed in {states} states", scene.variant);
    }
}

#[test]
fn a_guard_that_is_off_is_noticed() {
    breaks(&scenes::edits().with(Variant::Unguarded));
}

#[test]
fn model_detects_ignored_calls_in_flight() {
    breaks(&scenes::edits().with(Variant::Hasty));
}

#[test]
fn model_detects_forgotten_sent_changes() {
    breaks(&scenes::edits().with(Variant::Forgetful));
}

#[test]
fn model_detects_step_from_old_list() {
    breaks(&scenes::user_changes().with(Variant::Stale));
}

#[test]
fn model_detects_mutual_trust_in_entries() {
    breaks(&scenes::two_clusters().with(Variant::Trusting));
}

//! Broken rules: the model has to notice each of them, or it proves nothing.

use super::{
    scenes::{self, Scene},
    walk,
};

/// Which rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// None: what ships.
    Ships,
    /// Every step is permitted.
    Unguarded,
    /// A process takes it that nothing of the former one is on its way.
    Hasty,
    /// What was sent is not remembered.
    Forgetful,
    /// A step is judged on the list of the look before.
    Stale,
    /// Of two objects each believes itself alone, and takes the entries of the other one for a person's.
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
fn a_process_that_does_not_wait_for_what_is_under_way_is_noticed() {
    breaks(&scenes::edits().with(Variant::Hasty));
}

#[test]
fn a_process_that_forgets_what_it_has_sent_is_noticed() {
    breaks(&scenes::edits().with(Variant::Forgetful));
}

#[test]
fn a_step_that_rests_on_an_old_list_is_noticed() {
    breaks(&scenes::people().with(Variant::Stale));
}

#[test]
fn objects_that_count_on_the_entries_of_each_other_are_noticed() {
    breaks(&scenes::strangers().with(Variant::Trusting));
}

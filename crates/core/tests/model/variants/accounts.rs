//! Operators that are mistaken about accounts, and about what was there before them.

use super::{
    super::{pass::Variant, rules, scene::Scene, world::Fault::*},
    caught,
};

#[test]
fn absence_proved_in_another_account_is_caught() {
    let scene = Scene {
        control: false,
        other_control: true,
        regular: true,
        ticks: 4,
        faults: vec![(Lost, 1), (Connect, 1)],
        ..Scene::default()
    };
    caught(Variant::LineageIgnored, rules::ONE_MACHINE, scene);
}

#[test]
fn an_order_over_another_connection_is_caught() {
    let scene = Scene {
        regular: true,
        ticks: 4,
        faults: vec![(Lost, 1), (Connect, 2)],
        ..Scene::default()
    };
    caught(Variant::OtherConnection, rules::ONE_MACHINE, scene);
}

#[test]
fn an_older_object_taken_for_a_new_one_is_caught() {
    caught(Variant::AllAreNew, rules::ONE_MACHINE, after_a_lease());
}

#[test]
fn an_account_that_was_used_since_the_process_started_is_caught() {
    caught(Variant::UsedAtStart, rules::ONE_MACHINE, after_a_lease());
}

/// An object loses every trace while its order is on its way, and another process gains the lease.
fn after_a_lease() -> Scene {
    Scene {
        lease: true,
        processes: 2,
        regular: true,
        ticks: 2,
        faults: vec![(Lost, 1), (Lease, 1), (StripNote, 1), (StripStatus, 1)],
        ..Scene::default()
    }
}

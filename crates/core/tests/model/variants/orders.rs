//! Operators that order twice.

use super::{
    super::{pass::Variant, rules, scene::Scene, world::Fault::*},
    caught,
};

#[test]
fn a_blind_retry_is_caught() {
    let scene = Scene {
        ticks: 2,
        faults: vec![(Lost, 1)],
        ..Scene::default()
    };
    caught(Variant::BlindRetry, rules::ONE_MACHINE, scene);
}

#[test]
fn absence_after_one_listing_is_caught() {
    let scene = Scene {
        ticks: 2,
        faults: vec![(Lost, 1)],
        ..Scene::default()
    };
    caught(Variant::OneListing, rules::ONE_MACHINE, scene);
}

#[test]
fn absence_without_a_control_is_caught() {
    let scene = Scene {
        ticks: 4,
        faults: vec![(Lost, 1), (Blank, 1)],
        ..Scene::default()
    };
    caught(Variant::NoControl, rules::ONE_MACHINE, scene);
}

#[test]
fn a_server_error_taken_for_a_refusal_is_caught() {
    let scene = Scene {
        ticks: 3,
        faults: vec![(ServerError, 1)],
        ..Scene::default()
    };
    caught(Variant::ServerErrorRefuses, rules::ONE_MACHINE, scene);
}

#[test]
fn sending_the_attempt_of_another_is_caught() {
    let scene = Scene {
        ticks: 1,
        processes: 2,
        regular: true,
        ..Scene::default()
    };
    caught(Variant::ForeignAttempt, rules::ONE_POST, scene);
}

#[test]
fn sending_however_late_is_caught() {
    let scene = Scene {
        ticks: 4,
        processes: 2,
        regular: true,
        ..Scene::default()
    };
    caught(Variant::NoSendBy, rules::ONE_MACHINE, scene);
}

#[test]
fn an_intent_in_the_annotation_only_is_caught() {
    let scene = Scene {
        processes: 2,
        regular: true,
        ticks: 1,
        faults: vec![(Lost, 1), (StripNote, 1)],
        ..Scene::default()
    };
    caught(Variant::NoIntentInStatus, rules::ONE_MACHINE, scene);
}

#[test]
fn an_order_before_the_first_look_is_caught() {
    let scene = Scene {
        ticks: 2,
        faults: vec![(Crash, 1), (StripNote, 1), (StripStatus, 1)],
        ..Scene::default()
    };
    caught(Variant::NoFirstLook, rules::ONE_MACHINE, scene);
}

#[test]
fn a_status_that_is_not_confirmed_is_caught() {
    let scene = Scene {
        processes: 2,
        regular: true,
        ticks: 1,
        faults: vec![(Lost, 1), (LostWrite, 1), (StripNote, 1)],
        ..Scene::default()
    };
    caught(Variant::StatusNotConfirmed, rules::ONE_MACHINE, scene);
}

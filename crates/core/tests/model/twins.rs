//! The cases that remain: outside of the bounds there is a twin, and it is reported.

use super::{
    rules,
    scene::Scene,
    world::{Fault::*, Mood},
};
use stateright::{Checker, HasDiscoveries, Model};

/// A twin, found where the bounds are lifted, is kept in sight: the object names it and needs a person.
fn makes_a_twin_that_is_reported(scene: Scene) {
    let scene = Scene { every: 0, ..scene };
    let checker = scene
        .clone()
        .checker()
        .finish_when(HasDiscoveries::AnyOf([rules::ONE_MACHINE].into()))
        .spawn_dfs()
        .join();
    let twin = checker
        .discovery(rules::ONE_MACHINE)
        .expect("the case exists");
    let (_, end) = rules::walk(&scene, twin.last_state(), Mood::Normal).expect("it ends");
    let object = end.objects[0].expect("the object is there");
    assert_eq!(rules::reason(&object), "DuplicateServers");
    assert!(object.status.is_some_and(|s| s.stalled));
}

/// The first case that remains.
#[test]
fn a_process_frozen_before_the_socket_makes_a_twin_that_is_reported() {
    makes_a_twin_that_is_reported(Scene {
        ticks: 4,
        processes: 2,
        regular: true,
        freezes: true,
        ..Scene::default()
    });
}

/// The second case that remains.
#[test]
fn an_order_later_than_the_absence_grace_period_makes_a_twin_that_is_reported() {
    makes_a_twin_that_is_reported(Scene {
        ticks: 5,
        regular: true,
        slow: true,
        faults: vec![(Crash, 1), (Lost, 1), (StripNote, 1), (StripStatus, 1)],
        ..Scene::default()
    });
}

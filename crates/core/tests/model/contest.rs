//! A tool that takes finalizer and annotation off again and again, for twenty minutes.

use super::{
    moves::Action,
    rules::{self, round},
    scene::Scene,
    start,
    step::Answer,
    world::{Fault::*, *},
};
use stateright::Model as _;

/// How long the tool goes on, in ticks.
const LONG: Tick = 120;

/// The order is written down again after a pause that grows, and a person reads why.
fn meets_back_off_and_is_told(scene: &Scene, mut w: World) {
    let mut put_back = 0;
    for _ in 0..LONG {
        let object = w.objects[0].as_mut().expect("nobody deletes it");
        if object.finalizer || object.note.is_some() {
            object.finalizer = false;
            object.note = None;
            object.version += 1;
            put_back += 1;
        }
        round(scene, &mut w);
        w.now += 1;
    }
    assert!(
        (6..=14).contains(&put_back),
        "put back {put_back} times in {LONG} ticks"
    );
    let object = w.objects[0].expect("nobody deletes it");
    assert_eq!(rules::reason(&object), "MetadataConflict");
    assert!(object.status.is_some_and(|s| s.stalled));
    // Left alone, it is whole again.
    let (_, end) = rules::walk(scene, &w, w.mood).expect("it ends");
    assert!(end.objects[0].is_some_and(|o| o.finalizer && o.note.is_some()));
}

/// A machine that was delivered, while the provider answers like this.
fn delivered(mood: Mood) {
    let scene = Scene {
        delivered: true,
        ..Scene::default()
    };
    let world = World {
        mood,
        ..start::world(&scene)
    };
    meets_back_off_and_is_told(&scene, world);
}

#[test]
fn stripped_from_a_machine_that_is_shown() {
    delivered(Mood::Normal);
}

#[test]
fn stripped_from_a_machine_that_is_not_shown() {
    delivered(Mood::Blank);
}

#[test]
fn stripped_while_the_key_is_refused() {
    delivered(Mood::Denied);
}

#[test]
fn stripped_from_an_order_of_unknown_outcome() {
    let scene = Scene {
        control: false,
        regular: true,
        faults: vec![(Lost, 1)],
        ..Scene::default()
    };
    let mut world = start::world(&scene);
    let step = |answer| Action::Step(0, 0, answer);
    let order = [
        Action::Pass(0, 0),
        step(Answer::Ok),
        step(Answer::Ok),
        step(Answer::LostBefore),
    ];
    for action in order {
        world = scene.next_state(&world, action).expect("it can be done");
    }
    assert_eq!((world.posts.len(), world.machines.len()), (1, 0));
    meets_back_off_and_is_told(&scene, world);
}

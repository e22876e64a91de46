//! Deliberately broken operators. Each is caught, else the model would prove nothing.

use super::{pass::Variant, rules, scene::Scene, world::Fault::*};
use stateright::{Checker, HasDiscoveries, Model};

/// A broken operator: the checker finds a way to break the named rule.
fn caught(variant: Variant, rule: &'static str, scene: Scene) {
    // What ships does not break it in the same world.
    let honest = Scene { every: 0, ..scene };
    let checker = honest
        .clone()
        .checker()
        .target_state_count(20_000)
        .spawn_dfs()
        .join();
    assert!(
        checker.discovery(rule).is_none(),
        "what ships breaks: {rule}"
    );
    let scene = Scene { variant, ..honest };
    let checker = scene
        .checker()
        .finish_when(HasDiscoveries::AnyOf([rule].into()))
        .spawn_dfs()
        .join();
    let found = checker.discovery(rule);
    println!(
        "{variant:?}: {} states, {}",
        checker.unique_state_count(),
        if found.is_some() {
            "caught"
        } else {
            "not caught"
        }
    );
    if let Some(path) = &found
        && std::env::var_os("MODEL_STATES").is_some()
    {
        println!("{:?}", path.clone().into_actions());
    }
    assert!(found.is_some(), "{variant:?} was not caught by: {rule}");
}

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
fn a_finalizer_dropped_on_denial_is_caught() {
    let scene = Scene {
        delivered: true,
        ticks: 1,
        faults: vec![(Deny, 1), (Delete, 1)],
        ..Scene::default()
    };
    caught(Variant::LetGoOnDenial, rules::HELD, scene);
}

#[test]
fn a_copied_annotation_that_is_honoured_is_caught() {
    let scene = Scene {
        delivered: true,
        ticks: 1,
        faults: vec![(Copy, 1), (Delete, 1)],
        ..Scene::default()
    };
    caught(Variant::CopyHonoured, rules::OWN_DELETE, scene);
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
        aged: true,
        regular: true,
        ticks: 2,
        faults: vec![(Crash, 1), (Lost, 1), (StripNote, 1)],
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
fn a_release_that_was_not_noted_is_caught() {
    let scene = Scene {
        delivered: true,
        ticks: 1,
        faults: vec![(Crash, 1), (Lost, 1), (Delete, 1), (Edit, 1)],
        ..Scene::default()
    };
    caught(Variant::NoReleaseBegun, rules::OWN_DELETE, scene);
}

#[test]
fn a_status_that_is_not_confirmed_is_caught() {
    let scene = Scene {
        aged: true,
        regular: true,
        ticks: 2,
        faults: vec![(Crash, 1), (Lost, 1), (LostWrite, 1), (StripNote, 1)],
        ..Scene::default()
    };
    caught(Variant::StatusNotConfirmed, rules::ONE_MACHINE, scene);
}

#[test]
fn a_machine_let_go_after_its_release_was_noted_is_caught() {
    let scene = Scene {
        delivered: true,
        processes: 2,
        regular: true,
        ticks: 1,
        faults: vec![(Delete, 1), (Edit, 2)],
        ..Scene::default()
    };
    caught(Variant::LateRetain, rules::TOO_LATE, scene);
}

#[test]
fn a_server_error_taken_for_the_refusal_of_a_release_is_caught() {
    let scene = Scene {
        ticks: 3,
        faults: vec![(Fail, 1), (Delete, 1), (ServerError, 1)],
        ..Scene::default()
    };
    caught(Variant::ErrorRefusesRelease, rules::HELD, scene);
}

#[test]
fn an_unknown_machine_taken_for_the_refusal_of_a_release_is_caught() {
    let scene = Scene {
        ticks: 3,
        faults: vec![(Fail, 1), (Delete, 1), (Blank, 1)],
        ..Scene::default()
    };
    caught(Variant::NotFoundRefusesRelease, rules::HELD, scene);
}

#[test]
fn a_machine_retained_by_a_former_policy_is_caught() {
    let scene = Scene {
        delivered: true,
        stale: true,
        regular: true,
        ticks: 1,
        faults: vec![(Delete, 1), (Edit, 2)],
        ..Scene::default()
    };
    caught(Variant::FormerPolicy, rules::IN_SIGHT, scene);
}

//! From a reached state, faults and people at rest: a fair schedule, which has to end.

use super::{
    pass::{Done, pass, seen},
    scenes::Scene,
    world::{Ends, State},
};
use flexmetal_core::explanation::ReadyState;
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::atomic::Ordering,
};

/// Most rounds of one tick each.
const MOST_TICKS: u64 = 20;
/// Most passes of an object within a tick.
const PASSES: usize = 60;
/// One of so many states is walked from.
const ONE_OF: u64 = 16;

/// Whether a fair schedule ends with every object at rest, and the list as they say.
pub fn ends(scene: &Scene, state: &State) -> bool {
    let mut hash = DefaultHasher::new();
    state.hash(&mut hash);
    if !hash.finish().is_multiple_of(ONE_OF) {
        return true;
    }
    scene.walks.fetch_add(1, Ordering::Relaxed);
    is_ended(scene, state.clone(), false)
}

/// The same, told.
pub fn show(scene: &Scene, state: &State) {
    is_ended(scene, state.clone(), true);
}

fn is_ended(scene: &Scene, mut state: State, is_told: bool) -> bool {
    for round in 1..=MOST_TICKS {
        // A person has locked the operator out.
        if scene.addresses(state.egress).any(|a| state.refuses(a)) {
            return true;
        }
        if state.broken.is_some() {
            return false;
        }
        let mut at_rest = state.wire.is_empty();
        while let Some(late) = state.wire.pop() {
            scene.effect(&mut state, late.slot, &late.step, late.is_overtaken);
        }
        for slot in 0..scene.objects {
            at_rest &= rests(scene, &mut state, slot);
        }
        if is_told {
            println!("round {round}: {state:#?}");
        }
        if at_rest {
            scene.longest.fetch_max(round, Ordering::Relaxed);
            return state.broken.is_none();
        }
        state.now = state.now.saturating_add(1);
    }
    false
}

/// Passes of one object until none has an effect. Whether it is at rest then.
fn rests(scene: &Scene, state: &mut State, slot: usize) -> bool {
    for _ in 0..PASSES {
        match pass(scene, state, slot, Ends::Ok) {
            None => return true,
            Some(Done::Sent | Done::Went) => {}
            Some(Done::Rested(decision)) if decision.requeue_now => {}
            Some(Done::Rested(decision)) => {
                let standing = decision.explanation.map(|cause| cause.ready_state);
                return match standing {
                    Some(ReadyState::Ready) => matches_spec(scene, state, slot),
                    Some(ReadyState::Stalled) => true,
                    _ => false,
                };
            }
        }
    }
    false
}

/// Each entry of the spec is there once, and nothing else of ours.
fn matches_spec(scene: &Scene, state: &State, slot: usize) -> bool {
    let Some(object) = &state.objects[slot] else {
        return true;
    };
    let facts = super::pass::facts(scene, state, slot, object);
    let Ok(target) = facts.target() else {
        return false;
    };
    let list = seen(scene, &state.list, slot);
    let is_met = target
        .entries
        .iter()
        .all(|wished| list.own().filter(|entry| wished.is_met_by(entry)).count() == 1);
    // A person may have changed the list since the last look.
    let is_known = facts
        .usable_snapshot()
        .is_some_and(|look| *look.list == list);
    !is_known || (is_met && list.own().count() == target.entries.len())
}

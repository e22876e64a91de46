//! A fair schedule from a reached state, without faults and user changes. It has to end.

use super::{
    reconcile::{Done, reconcile, seen},
    scenes::Scene,
    world::{Ends, State},
};
use flexmetal_core::explanation::ReadyState;
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::atomic::Ordering,
};

/// Maximum number of ticks.
const MOST_TICKS: u64 = 20;
/// Maximum number of reconciles of an object within a tick.
const RECONCILES: usize = 60;
/// One in this many states starts a walk.
const ONE_OF: u64 = 16;

/// Whether a fair schedule ends with every object idle and the list as their specs require.
pub fn ends(scene: &Scene, state: &State) -> bool {
    let mut hash = DefaultHasher::new();
    state.hash(&mut hash);
    if !hash.finish().is_multiple_of(ONE_OF) {
        return true;
    }
    scene.walks.fetch_add(1, Ordering::Relaxed);
    is_ended(scene, state.clone(), false)
}

/// The same, printed.
pub fn show(scene: &Scene, state: &State) {
    is_ended(scene, state.clone(), true);
}

fn is_ended(scene: &Scene, mut state: State, prints: bool) -> bool {
    for tick in 1..=MOST_TICKS {
        // A user has locked the operator out.
        if scene.addresses(state.egress).any(|a| state.refuses(a)) {
            return true;
        }
        if state.broken.is_some() {
            return false;
        }
        let mut is_idle = state.wire.is_empty();
        while let Some(late) = state.wire.pop() {
            scene.effect(&mut state, late.slot, &late.step, late.is_overtaken);
        }
        for slot in 0..scene.objects {
            is_idle &= rests(scene, &mut state, slot);
        }
        if prints {
            println!("round {tick}: {state:#?}");
        }
        if is_idle {
            scene.longest.fetch_max(tick, Ordering::Relaxed);
            return state.broken.is_none();
        }
        state.now = state.now.saturating_add(1);
    }
    false
}

/// Reconciles one object until it has no effect. Returns whether it is idle then.
fn rests(scene: &Scene, state: &mut State, slot: usize) -> bool {
    for _ in 0..RECONCILES {
        match reconcile(scene, state, slot, Ends::Ok) {
            None => return true,
            Some(Done::Sent | Done::Went) => {}
            Some(Done::Rested(decision)) if decision.requeue_once_written => {}
            Some(Done::Rested(decision)) => {
                let ready_state = decision
                    .explanation
                    .map(|explanation| explanation.ready_state);
                return match ready_state {
                    Some(ReadyState::Ready) => matches_spec(scene, state, slot),
                    Some(ReadyState::Stalled) => true,
                    _ => false,
                };
            }
        }
    }
    false
}

/// Whether each spec entry is listed once, and nothing else is ours.
fn matches_spec(scene: &Scene, state: &State, slot: usize) -> bool {
    let Some(object) = &state.objects[slot] else {
        return true;
    };
    let facts = super::reconcile::facts(scene, state, slot, object);
    let Ok(target) = facts.target() else {
        return false;
    };
    let list = seen(scene, &state.list, slot);
    let is_met = target
        .entries
        .iter()
        .all(|desired| list.own().filter(|entry| desired.is_met_by(entry)).count() == 1);
    // A user may have changed the list since the last poll.
    let is_known = facts
        .usable_snapshot()
        .is_some_and(|snapshot| *snapshot.list == list);
    !is_known || (is_met && list.own().count() == target.entries.len())
}

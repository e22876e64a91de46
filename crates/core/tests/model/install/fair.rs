//! A fair schedule from a reached state, without further faults. The desired re-installation is performed, or status
//! says why not.

use super::{facts::Around, reconcile::decided, scenes::Scene, world::*};
use api::Reason;

/// Repetitions within one tick that count as spinning.
const MOST_REPEATS: usize = 40;
/// Maximum number of ticks until everything ends.
const TICKS: u8 = 12;

/// Checks that the schedule ends.
pub(super) fn ends(scene: &Scene, from: &State) -> Result<(), String> {
    let scene = &Scene {
        is_behind: false,
        attempts: u8::MAX,
        ..*scene
    };
    let mut state = *from;
    state.seen(0);
    state.seen(1);
    for _ in 0..TICKS {
        let mut repeats = 0;
        loop {
            let before = state;
            state = run_all_once(scene, &state);
            if state.broken.is_some() {
                return Err(format!("broken: {:?}", state.broken));
            }
            if state == before {
                break;
            }
            repeats += 1;
            if repeats == MOST_REPEATS {
                return Err(format!("spins: {state:?}"));
            }
        }
        if is_settled(scene, &state) {
            return Ok(());
        }
        state.now += 1;
    }
    let said = state.object.map(|object| object.said);
    let said = said.map(|said| match said {
        Said::Lost => "lost".to_owned(),
        Said::Installs(number) => format!("{:?}", STATUSES.get(number)),
    });
    let view = &state.processes[0].view;
    let decided = decided(scene, view, Around::from_state(&state, 0));
    Err(format!("never ends: {state:?} {said:?} {decided:?}"))
}

/// Each actor does everything it can, once.
fn run_all_once(scene: &Scene, from: &State) -> State {
    let mut state = *from;
    let mut go = |chosen: Move| {
        if state.broken.is_none()
            && let Some(next) = scene.go(&state, chosen)
        {
            state = next;
        }
        state
    };
    for number in 0..2 {
        if go(Move::See(0)).wire[number].is_some() {
            go(Move::Arrive(number));
        }
    }
    for it in 0..2 {
        match go(Move::See(it)).processes[it].task {
            Task::Idle => go(Move::Pass(it)),
            _ => go(Move::Step(it, Fate::Done)),
        };
    }
    go(Move::Power);
    for number in 0..MOST_MADE {
        let ends = |m: Made| m.may_end(from.now, scene.is_quick) && !scene.never_ends;
        if go(Move::See(0)).made[number].is_some_and(ends) {
            go(Move::End(number, Progress::Finished));
        }
    }
    go(Move::See(0))
}

fn is_settled(scene: &Scene, state: &State) -> bool {
    let Some(object) = state.object else {
        return true;
    };
    if object.is_begun {
        return true;
    }
    let Said::Installs(number) = object.said else {
        return false;
    };
    let said = STATUSES.get(number);
    let decided = decided(scene, &object, Around::from_state(state, 0));
    if object.is_deleting {
        return false;
    }
    if said.unfinished().is_some() {
        return scene.never_ends && decided.ready == Some(Reason::ReinstallFailed);
    }
    let is_performed = i64::from(object.revision) <= said.performed();
    is_performed || decided.synced == Some(Reason::Protected)
}

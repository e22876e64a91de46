//! Re-installations under every interleaving of two leaders, crashes, lost or late writes and requests, user actions,
//! lost or restored status, and a power command. The properties judge what the provider executes.

mod facts;
mod fair;
mod moves;
mod reconcile;
mod scenes;
mod world;

use scenes::*;
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::{collections::HashSet, sync::Mutex, time::Duration};
use world::*;

const SAFE: &str = "a machine is wiped once for each number, and only while it is the object's";
const ENDS: &str = "what is wished for is performed, or status says why not";

/// A scene, with the states whose fair schedule ends.
struct Walk {
    scene: Scene,
    end: Mutex<HashSet<State>>,
}

impl Walk {
    fn ends(&self, state: &State) -> bool {
        // Only the shipped variant has to end.
        let is_asked = self.scene.variant == Variant::Ships && state.broken.is_none();
        if !is_asked || self.end.lock().unwrap().contains(state) {
            return true;
        }
        let ends = fair::ends(&self.scene, state).is_ok();
        if ends {
            self.end.lock().unwrap().insert(*state);
        }
        ends
    }
}

// Not modelled: a status lost or restored between the last read and the request's arrival; and, but for one scene, a
// command that ends in the tick of its creation.
impl Model for Walk {
    type State = State;
    type Action = Move;

    fn init_states(&self) -> Vec<State> {
        let object = Object {
            revision: 2,
            generation: 1,
            is_protected: false,
            is_deleting: false,
            is_begun: false,
            said: moves::first(),
        };
        let process = Process {
            memory: memory(Default::default()),
            task: Task::Idle,
            view: object,
            sees_newest: true,
        };
        let scene = &self.scene;
        vec![State {
            now: 0,
            object: Some(object),
            is_retained: false,
            processes: [process; 2],
            made: [None; MOST_MADE],
            wire: [None; 2],
            power: match scene.has_power {
                true => Power::Requested,
                false => Power::None,
            },
            wiped: [0; REVISIONS],
            attempts: 0,
            edits: 0,
            crashes: scene.crashes,
            user_installs: scene.user_installs,
            strips: scene.strips,
            restores: scene.restores,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, moves: &mut Vec<Move>) {
        let scene = &self.scene;
        let Some(object) = state.object.filter(|_| state.broken.is_none()) else {
            // After the object is gone, only requests in flight matter.
            if state.broken.is_none() {
                steps(scene, state, moves);
            }
            return;
        };
        let is_sending = state.is_sending();
        if state.now < scene.ticks && !is_sending {
            moves.push(Move::Tick);
        }
        steps(scene, state, moves);
        for (number, made) in state.made.iter().enumerate() {
            if made.is_some_and(|made| made.may_end(state.now, scene.is_quick)) {
                moves.push(Move::End(number, Progress::Finished));
                if scene.fails {
                    moves.push(Move::End(number, Progress::Failed));
                }
            }
        }
        if state.user_installs > 0 {
            moves.push(Move::Portal);
        }
        if usize::from(state.edits) < scene.edits.len() {
            moves.push(Move::Edit);
        }
        if scene.protects && !object.is_protected {
            moves.push(Move::Protect);
        }
        if scene.ends && !object.is_deleting {
            moves.push(Move::Delete);
        }
        if state.strips > 0 && !is_sending {
            moves.push(Move::Strip);
        }
        if state.restores > 0 && !is_sending {
            moves.push(Move::Restore);
        }
        if !matches!(state.power, Power::None | Power::Over) {
            moves.push(Move::Power);
        }
    }

    fn next_state(&self, state: &State, chosen: Move) -> Option<State> {
        let mut next = self.scene.go(state, chosen)?;
        // The order of the two processes makes no difference.
        next.processes.sort_unstable();
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SAFE, |_, state: &State| state.broken.is_none()),
            Property::always(ENDS, |walk: &Self, state: &State| walk.ends(state)),
        ]
    }
}

/// Steps of the processes, and arrivals of requests.
fn steps(scene: &Scene, state: &State, moves: &mut Vec<Move>) {
    for (number, wire) in state.wire.iter().enumerate() {
        if wire.is_some() {
            moves.push(Move::Arrive(number));
        }
    }
    for (it, me) in state.processes.iter().enumerate() {
        let fates: &[Fate] = match me.task {
            Task::Idle => {
                moves.push(Move::Pass(it));
                &[]
            }
            Task::Start(_) if state.attempts >= scene.attempts => &[],
            Task::Intend { .. } | Task::RecordRelease { .. } => {
                &[Fate::Done, Fate::Unanswered, Fate::Lost]
            }
            Task::Send(_) if scene.refuses => &[
                Fate::Done,
                Fate::Unanswered,
                Fate::Late,
                Fate::Lost,
                Fate::Refused,
                Fate::Conflict,
                Fate::Denied,
            ],
            Task::Send(_) => &[Fate::Done, Fate::Unanswered, Fate::Late, Fate::Lost],
            _ => &[Fate::Done],
        };
        moves.extend(fates.iter().map(|fate| Move::Step(it, *fate)));
        if scene.is_behind && !me.sees_newest {
            moves.push(Move::See(it));
        }
        let is_empty = me.task == Task::Idle && me.memory == memory(Default::default());
        if state.crashes > 0 && !is_empty {
            moves.push(Move::Crash(it));
        }
    }
}

/// The number of states, or what broke and the moves to it.
fn walk(scene: Scene) -> Result<usize, String> {
    let began = super::now();
    let end = Mutex::default();
    let checker = Walk { scene, end }
        .checker()
        .threads(2)
        .timeout(Duration::from_secs(600))
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let states = checker.unique_state_count();
    println!(
        "install model: {}, {:?}: {states} states, depth {}, {:.1} s",
        scene.name,
        scene.variant,
        checker.max_depth(),
        began.elapsed().as_secs_f64()
    );
    let found = checker.discoveries().into_iter().next();
    found.map_or(Ok(states), |(name, path)| {
        let last = *path.last_state();
        let why = match last.broken {
            Some(why) => why.to_owned(),
            None => fair::ends(&scene, &last).unwrap_err(),
        };
        Err(format!("{name}: {why}: {:?}", path.into_actions()))
    })
}

fn holds(scene: Scene) {
    match walk(scene) {
        Ok(states) => assert!(states > 500, "a model that hardly moves proves nothing"),
        Err(why) => panic!("{}: {why}", scene.name),
    }
}

/// Scenes that every run walks.
const REPRESENTATIVE: [&str; 3] = ["losses", "refused", "restored"];

/// Asserts that this variant breaks the safety property.
fn breaks(scene: Scene, variant: Variant) {
    let walked = walk(Scene { variant, ..scene });
    let is_unsafe = walked.as_ref().is_err_and(|why| why.starts_with(SAFE));
    assert!(is_unsafe, "{} {variant:?}: {walked:?}", scene.name);
}

#[test]
fn each_revision_wipes_once_or_is_explained() {
    let seconds = |scene: &Scene| match scene.name {
        name if REPRESENTATIVE.contains(&name) => None,
        "behind" | "raised" => Some(25),
        _ => Some(5),
    };
    let all = Vec::from(ALL);
    let scenes: Vec<Scene> = match std::env::var("MODEL_SCENE") {
        Ok(only) => all.into_iter().filter(|s| s.name == only).collect(),
        Err(_) => tiers::select("install scenes", all, seconds),
    };
    scenes.into_iter().for_each(holds);
}

#[test]
fn each_rule_is_needed() {
    breaks(LOSSES, Variant::IntentAfterSend);
    breaks(LOSSES, Variant::AgainAfterLost);
    breaks(RAISED, Variant::NoListBefore);
    breaks(RESTORED, Variant::Unaccounted);
    breaks(SET_BACK, Variant::Unaccounted);
    breaks(POWER, Variant::NoAsk);
    breaks(SET_BACK, Variant::NoLiveRead);
    breaks(RETAINED, Variant::RetainAtOnce);
    breaks(RELEASED, Variant::RetainAtOnce);
}

//! The steps of a whitelist under every interleaving of faults and user changes, over the shipped decision code. After
//! each step of ours the provider's list admits the operator, or it was not enforced before and after.

mod reconcile;
mod scenes;
mod variants;
mod walk;
mod world;

use scenes::Scene;
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::{io::Write as _, sync::atomic::Ordering, time::Duration};
use world::{Move, State};

/// No step of ours locks the operator out or changes a foreign entry.
const SAFE: &str = "no step locks out";
/// Without further faults and user changes, a fair schedule ends.
const ENDS: &str = "it ends";
/// Scenes that every run walks.
const REPRESENTATIVE: [&str; 3] = ["people", "two", "busy"];
/// Longest walk of a scene. A longer one is cut off and shows nothing.
const LIMIT: Duration = Duration::from_secs(600);

impl Model for Scene {
    type State = State;
    type Action = Move;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, moves: &mut Vec<Move>) {
        if state.broken.is_none() {
            self.moves(state, moves);
        }
    }

    fn next_state(&self, state: &State, chosen: Move) -> Option<State> {
        self.go(state, &chosen).filter(|next| next != state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SAFE, |_, state: &State| state.broken.is_none()),
            Property::always(ENDS, |scene: &Scene, state: &State| {
                state.broken.is_some() || walk::ends(scene, state)
            }),
        ]
    }
}

/// Walks a scene. Returns the number of states, or what broke and the moves to it.
fn walk(scene: &Scene) -> Result<usize, (String, Vec<Move>)> {
    let began = super::now();
    let checker = scene
        .clone()
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyFailures)
        .timeout(LIMIT)
        .spawn_bfs()
        .join();
    assert!(began.elapsed() < LIMIT, "{}: cut off", scene.name);
    let states = checker.unique_state_count();
    println!(
        "whitelist model: {:<10} {states:>7} states, depth {}, {} fair walks, the longest {} rounds, {:.1} s",
        scene.name,
        checker.max_depth(),
        scene.walks.load(Ordering::Relaxed),
        scene.longest.load(Ordering::Relaxed),
        began.elapsed().as_secs_f64(),
    );
    match checker.discoveries().into_iter().next() {
        None => Ok(states),
        Some((name, path)) => {
            let last = path.last_state();
            if std::env::var_os("MODEL_STATES").is_some() {
                walk::show(scene, last);
            }
            let why = last.broken.unwrap_or(name);
            Err((why.to_owned(), path.into_actions()))
        }
    }
}

#[test]
fn no_step_of_a_whitelist_locks_out() {
    let all = scenes::all();
    let seconds = |scene: &Scene| match scene.name {
        name if REPRESENTATIVE.contains(&name) => None,
        "exclusive" => Some(30),
        _ => Some(5),
    };
    let scenes: Vec<Scene> = match std::env::var("MODEL_SCENE") {
        Ok(only) => all.into_iter().filter(|s| s.name == only).collect(),
        Err(_) => tiers::select("whitelist scenes", all, seconds),
    };
    let mut all = (0, 0);
    for scene in scenes {
        match walk(&scene) {
            Ok(states) => all = (all.0 + states, all.1 + 1),
            Err((why, moves)) => panic!("{}: {why}: {moves:#?}", scene.name),
        }
    }
    let (states, count) = all;
    // Bypasses the test harness's capture: every run's log needs the figure.
    writeln!(
        std::io::stdout(),
        "whitelist model: {states} states in {count} configurations"
    )
    .unwrap();
    assert!(
        states > 1000 * count,
        "a model that hardly moves proves nothing"
    );
}

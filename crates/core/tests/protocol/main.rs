//! The shipped order and release protocol under every interleaving of faults; see `docs/contributing/protocol.md`.
//! Liveness is checked by a fair walk, since stateright's `eventually` misses cycles.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test program: a failure is the message"
)]

mod outside;
mod process;
mod promises;
mod rules;
mod scene;
mod scenes;
mod variants;
mod world;

use scene::Scene;
use stateright::{Checker, HasDiscoveries, Model};
use std::{
    io::Write as _,
    time::{Duration, Instant},
};

/// Longest walk of a scene. A longer one is cut off and shows nothing about the remaining states.
const LIMIT: Duration = Duration::from_secs(3600);

/// A limit in seconds for a quick run; walks are cut off then.
fn limit_by_hand() -> Option<Duration> {
    let seconds = std::env::var("MODEL_LIMIT").ok()?;
    Some(Duration::from_secs(seconds.parse().expect("MODEL_LIMIT")))
}

/// The time at which a walk starts.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing in this program pauses the time, and it has no tokio"
)]
fn now() -> Instant {
    Instant::now()
}

/// How the walk of a scene ended.
struct Walked {
    states: usize,
    /// The broken promise, and how it broke.
    broken: Option<(&'static str, String)>,
    was_cut_off: bool,
}

/// Walks a scene to its end, or until a promise is broken.
fn walk(scene: &Scene) -> Walked {
    let limit = limit_by_hand().unwrap_or(LIMIT);
    let began = now();
    let checker = scene
        .clone()
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyFailures)
        .timeout(limit)
        .spawn_bfs()
        .join();
    let took = began.elapsed();
    let states = checker.unique_state_count();
    let depth = checker.max_depth();
    let broken = checker.discoveries().into_iter().next();
    let broken = broken.map(|(name, path)| (name, format_path(scene, name, path)));
    println!(
        "model: {:<16} {states:>8} states, depth {depth}, {:.0} s{}",
        scene.name,
        took.as_secs_f64(),
        broken
            .as_ref()
            .map_or(String::new(), |(name, _)| format!(", broken: {name}")),
    );
    Walked {
        states,
        broken,
        // Stateright does not report a cut-off: the queue is closed at the limit, as if the walk were done.
        was_cut_off: took >= limit,
    }
}

fn format_path(
    scene: &Scene,
    name: &str,
    path: stateright::Path<world::World, scene::Action>,
) -> String {
    let last = path.last_state().clone();
    let shows = std::env::var_os("MODEL_STATES").is_some();
    let steps = path
        .into_vec()
        .into_iter()
        .map(|(state, action)| match shows {
            true => format!("    {state:?}\n  {action:?}\n"),
            false => format!("  {action:?}\n"),
        });
    let steps: String = steps.collect();
    let end = match name == promises::ENDS {
        true => promises::walk(scene, &last, shows).unwrap_or_default(),
        false => format!("{:?}", last.broken),
    };
    format!("{steps}  {end}")
}

/// Asserts that the scene keeps every promise. Returns the number of states.
fn holds(scene: &Scene) -> usize {
    let walked = walk(scene);
    if let Some((name, how)) = walked.broken {
        panic!("{}: broken: {name}\n{how}", scene.name);
    }
    assert!(
        !walked.was_cut_off || limit_by_hand().is_some(),
        "{}: cut off, so nothing is proven; only a run with MODEL_LIMIT may end like this",
        scene.name,
    );
    walked.states
}

/// The scenes of this run.
fn selected(list: &str, all: Vec<Scene>) -> Vec<Scene> {
    match std::env::var("MODEL_SCENE") {
        Ok(only) => {
            let named: Vec<Scene> = all.into_iter().filter(|s| s.name == only).collect();
            assert!(!named.is_empty(), "no scene is called {only}");
            named
        }
        Err(_) => tiers::select(list, all, |s| scenes::seconds(s.name)),
    }
}

#[test]
fn minute_suffices_unless_etcd_was_restored() {
    let with_minute = |scene: Scene| Scene {
        minute: true,
        ..scene
    };
    let all = scenes::all().into_iter().map(with_minute).collect();
    for scene in selected("scenes with a minute", all) {
        match scenes::NEED_GRACE.contains(&scene.name) {
            true => assert!(walk(&scene).broken.is_some(), "{} holds", scene.name),
            false => _ = holds(&scene),
        }
    }
}

#[test]
fn the_protocol_holds() {
    let scenes = selected("protocol scenes", scenes::all());
    let count = scenes.len();
    let states: usize = scenes.iter().map(holds).sum();
    // Bypasses the test harness's capture: every run's log needs the figure.
    writeln!(
        std::io::stdout(),
        "protocol: {states} states in {count} scenes"
    )
    .unwrap();
    assert!(
        states > 1000 * count || std::env::var_os("MODEL_SCENE").is_some(),
        "a model that hardly moves proves nothing"
    );
}

//! The order protocol under every interleaving of faults, over the deciding code that ships.
//!
//! See `docs/architecture.md`. Stateright walks the states; liveness is a fair walk from reached
//! states, since stateright's own `eventually` does not see cycles.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test program: a failure is the message"
)]

mod attempt;
mod calls;
mod faults;
mod outside;
mod pass;
mod people;
mod process;
mod real;
mod rules;
mod scene;
mod scenes;
mod start;
mod step;
mod twins;
mod variants;
mod world;

use scene::Scene;
use stateright::{Checker, HasDiscoveries, Model};
use std::{io::Write as _, sync::atomic::Ordering};

/// Walks a scene to its end; prints and fails on a broken rule.
fn holds(scene: &Scene) -> usize {
    let began = jiff::Timestamp::now();
    let limit = std::env::var("MODEL_LIMIT")
        .ok()
        .and_then(|s| s.parse().ok());
    let limit = std::time::Duration::from_secs(limit.unwrap_or(3600));
    let checker = scene
        .clone()
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyFailures)
        .timeout(limit)
        .spawn_bfs()
        .join();
    let states = checker.unique_state_count();
    let took = jiff::Timestamp::now().duration_since(began).as_secs_f64();
    if took > limit.as_secs_f64() {
        println!("model: {} was cut off", scene.name);
    }
    println!(
        "model: {:<12} {states:>8} states, depth {}, {} fair walks, the longest {} rounds, {:.0} s; {}",
        scene.name,
        checker.max_depth(),
        scene.walks.load(Ordering::Relaxed),
        scene.longest.load(Ordering::Relaxed),
        took,
        rules::bounds(scene),
    );
    if let Some((name, path)) = checker.discoveries().into_iter().next() {
        println!("broken: {name}");
        for (state, action) in path.into_vec() {
            if std::env::var_os("MODEL_STATES").is_some() {
                println!("    {state:?}");
            }
            println!("  {action:?}");
        }
        panic!("{}: broken: {name}", scene.name);
    }
    states
}

#[test]
fn the_protocol_holds() {
    let only = std::env::var("MODEL_SCENE").ok();
    let scenes: Vec<Scene> = scenes::all()
        .into_iter()
        .filter(|s| only.as_ref().is_none_or(|o| s.name == o))
        .collect();
    let count = scenes.len();
    let states: usize = scenes.iter().map(holds).sum();
    // Past the test program's capture: the figure belongs into every run's log.
    writeln!(
        std::io::stdout(),
        "model check: {states} states in {count} configurations"
    )
    .unwrap();
    assert!(
        states > 1000 * count,
        "a model that hardly moves proves nothing"
    );
}

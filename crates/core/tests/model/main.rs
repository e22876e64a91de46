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

mod account;
mod attempt;
mod calls;
mod command;
mod contest;
mod faults;
mod install;
mod moves;
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
mod whitelist;
mod world;

use scene::Scene;
use stateright::{Checker, HasDiscoveries, Model};
use std::{
    io::Write as _,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

/// Longest walk of a scene. One that takes longer proves nothing of the states that it leaves out.
const LIMIT: Duration = Duration::from_secs(3600);

/// The limit in seconds that a person set for a first look, who then knows that walks are cut off.
fn limit_by_hand() -> Option<Duration> {
    let seconds = std::env::var("MODEL_LIMIT").ok()?;
    Some(Duration::from_secs(seconds.parse().expect("MODEL_LIMIT")))
}

/// The time at which a walk begins.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing in this program pauses the time, and it has no tokio"
)]
fn now() -> Instant {
    Instant::now()
}

/// Walks a scene to its end; prints, and fails on a broken rule or when the walk was cut off.
fn holds(scene: &Scene) -> usize {
    let by_hand = limit_by_hand();
    let limit = by_hand.unwrap_or(LIMIT);
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
    // The walk does not say so itself: its queue is closed at the limit, and it ends as if done.
    let was_cut_off = took >= limit;
    if was_cut_off {
        println!("model: {} was cut off", scene.name);
    }
    let states = checker.unique_state_count();
    println!(
        "model: {:<12} {states:>8} states, depth {}, {} fair walks, the longest {} rounds, {:.0} s; {}",
        scene.name,
        checker.max_depth(),
        scene.walks.load(Ordering::Relaxed),
        scene.longest.load(Ordering::Relaxed),
        took.as_secs_f64(),
        rules::bounds(scene),
    );
    if let Some((name, path)) = checker.discoveries().into_iter().next() {
        println!("broken: {name}");
        if name == rules::ENDS {
            rules::show_walk(scene, path.last_state());
        }
        for (state, action) in path.into_vec() {
            if std::env::var_os("MODEL_STATES").is_some() {
                println!("    {state:?}");
            }
            println!("  {action:?}");
        }
        panic!("{}: broken: {name}", scene.name);
    }
    assert!(
        !was_cut_off || by_hand.is_some(),
        "{}: cut off after {} s, so nothing is proven; only a run with MODEL_LIMIT may end like this",
        scene.name,
        limit.as_secs(),
    );
    states
}

#[test]
fn the_protocol_holds() {
    let all = scenes::all();
    let scenes: Vec<Scene> = match std::env::var("MODEL_SCENE") {
        Ok(only) => all.into_iter().filter(|s| s.name == only).collect(),
        Err(_) => tiers::select("model scenes", all, |s| scenes::seconds(s.name)),
    };
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

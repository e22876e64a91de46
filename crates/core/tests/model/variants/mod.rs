//! Deliberately broken operators. Each is caught, else the model would prove nothing.

mod accounts;
mod machines;
mod orders;

use super::{pass::Variant, rules, scene::Scene};
use stateright::{Checker, HasDiscoveries, Model};

/// A broken operator: the checker finds a way to break the named rule.
fn caught(variant: Variant, rule: &'static str, scene: Scene) {
    // Only who is judged by where it ends is walked to its end, from every state.
    let every = u64::from(rule == rules::ENDS);
    // What ships does not break it in the same world.
    let honest = Scene { every, ..scene };
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

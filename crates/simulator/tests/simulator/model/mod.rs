//! The model test: random use of the simulator, and a small model that says
//! what every answer and every list must be.
//!
//! `PROPTEST_CASES` and `PROPTEST_RNG_SEED` in the environment make it search
//! longer, or elsewhere.

mod access;
mod acts;
mod check;
mod listings;
mod machines;
mod marks;
mod records;
mod rig;
mod setup;
mod tags;
mod transitions;
mod world;

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, RngSeed};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use tokio::runtime::Runtime;

use rig::Rig;
use setup::Setup;
use transitions::Transition;
use world::World;

/// Everything is compared after this many transitions.
const OFTEN: usize = 12;

struct Account;

impl ReferenceStateMachine for Account {
    type State = World;
    type Transition = Transition;

    fn init_state() -> BoxedStrategy<World> {
        Setup::any().prop_map(World::new).boxed()
    }

    fn transitions(world: &World) -> BoxedStrategy<Transition> {
        transitions::next(world)
    }

    fn preconditions(world: &World, transition: &Transition) -> bool {
        transitions::possible(world, transition)
    }

    fn apply(world: World, transition: &Transition) -> World {
        world.after(transition)
    }
}

/// The simulator of a case, with the runtime that it runs on.
struct Simulator {
    rig: Rig,
    runtime: Runtime,
}

impl StateMachineTest for Simulator {
    type SystemUnderTest = Self;
    type Reference = Account;

    fn init_test(world: &World) -> Self {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        let rig = runtime.block_on(Rig::new(world));
        Self { rig, runtime }
    }

    fn apply(mut simulator: Self, world: &World, transition: Transition) -> Self {
        let Self { rig, runtime } = &mut simulator;
        runtime.block_on(async {
            rig.steps += 1;
            acts::act(rig, world, &transition).await;
            let look = matches!(transition, Transition::Look | Transition::Restart);
            if look || rig.steps.is_multiple_of(OFTEN) {
                check::whole(rig, world).await;
            }
        });
        simulator
    }

    fn check_invariants(simulator: &Self, world: &World) {
        let Self { rig, runtime } = simulator;
        runtime.block_on(check::quick(rig, world));
    }

    fn teardown(simulator: Self, world: World) {
        let Self { rig, runtime } = &simulator;
        runtime.block_on(check::whole(rig, &world));
    }
}

/// The same cases in every run; the environment takes precedence.
fn config() -> Config {
    let file = "crates/simulator/tests/simulator/model/regressions.txt";
    Config {
        cases: 30,
        rng_seed: RngSeed::Fixed(4),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        max_shrink_iters: 3_000,
        ..Config::default()
    }
}

prop_state_machine! {
    #![proptest_config(config())]

    #[test]
    fn the_simulator_agrees_with_its_model(sequential 20..50 => Simulator);
}

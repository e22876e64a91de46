//! What must hold in every state, and the fair walk that must end well.

use super::{
    outside,
    process::{Answer, Hand, ListRead},
    rules::Rule,
    scene::{NOBODY, Scene},
    world::*,
};
use flexmetal_core::protocol::{ProtocolStep, WaitReason};
use rustc_hash::FxBuildHasher;
use stateright::Property;
use std::hash::BuildHasher as _;

pub const ONE_POST: &str = "one POST an order, and none while the outcome of another is not known";
pub const ONE_SERVER: &str = "never two live servers of one object";
pub const OWN_DELETE: &str =
    "no DELETE of another object's server, of a retained one, or for an object that stays";
pub const NO_LOSS: &str = "no object gone before its server, and no server unreported";
pub const NO_SECOND_ORDER: &str =
    "no order beside a live own server, or a former one that nobody named";
pub const ONE_OBJECT: &str = "never two objects that have one server";
pub const STAYS: &str = "no object turns from its live server to another one";
pub const OTHERS: &str = "no server of another cluster is taken";
pub const ENDS: &str = "with faults off it ends";

/// Ticks of the fair walk: twice any grace period.
const FAIR_TICKS: usize = 30;

fn is_none_of(world: &World, broken: &[Broken]) -> bool {
    !world.broken.is_some_and(|it| broken.contains(&it))
}

pub fn properties() -> Vec<Property<Scene>> {
    vec![
        Property::always(ONE_POST, |_, w: &World| {
            is_none_of(w, &[Broken::SecondPost])
        }),
        Property::always(ONE_SERVER, |_, w: &World| has_one_server(w)),
        Property::always(OWN_DELETE, |_, w: &World| {
            let all = [
                Broken::ForeignDelete,
                Broken::KeptDelete,
                Broken::LivingDelete,
            ];
            is_none_of(w, &all)
        }),
        Property::always(NO_LOSS, |_, w: &World| is_none_of(w, &[Broken::Dropped])),
        Property::always(NO_SECOND_ORDER, |_, w: &World| {
            is_none_of(w, &[Broken::OrderDespiteOwn, Broken::OrderDespitePrevious])
        }),
        Property::always(STAYS, |_, w: &World| is_none_of(w, &[Broken::Turned])),
        Property::always(OTHERS, |_, w: &World| {
            is_none_of(w, &[Broken::TakenFromOthers])
        }),
        Property::always(ONE_OBJECT, has_one_object),
        Property::always(ENDS, |scene: &Scene, w: &World| {
            // The same states in every run. SipHash would take an eighth of the time.
            !FxBuildHasher.hash_one(w).is_multiple_of(scene.every)
                || w.broken.is_some()
                || walk(scene, w, false).is_none()
        }),
    ]
}

/// Servers that a user revived, or acknowledged untruthfully, are not judged.
fn has_one_server(world: &World) -> bool {
    let owners = world.servers.iter().flatten().map(|s| s.owner);
    let mut owners: Vec<Owner> = owners.filter(|owner| *owner != NOBODY).collect();
    owners.sort_unstable();
    owners.dedup();
    owners
        .iter()
        .all(|owner| world.live_of(*owner).count() <= 1)
}

fn has_one_object(scene: &Scene, world: &World) -> bool {
    let has = |slot: usize| world.objects[slot].and_then(|o| o.has());
    scene.twin || has(0).is_none() || has(0) != has(1)
}

/// Why the fair walk does not end well, if it does not.
pub fn walk(scene: &Scene, world: &World, shows: bool) -> Option<String> {
    let mut w = World {
        budget: [0; FAULTS],
        ..world.clone()
    };
    let mut why = None;
    for tick in 0..FAIR_TICKS {
        for process in 0..w.processes.len() {
            for slot in (0..SLOTS).filter(|slot| scene.sees(process, *slot)) {
                for _ in 0..6 {
                    let before = w.clone();
                    work(scene, &mut w, process, slot);
                    // The next step would change nothing either.
                    if w == before {
                        break;
                    }
                }
            }
        }
        while let Some(wire) = w.wire.pop() {
            outside::arrive(&mut w, wire);
        }
        if shows {
            println!(
                "  {tick}: {:?}",
                (0..SLOTS).map(|s| plan(scene, &w, s)).collect::<Vec<_>>()
            );
        }
        if let Some(broken) = w.broken {
            return Some(format!("{broken:?}"));
        }
        if !has_one_server(&w) || !has_one_object(scene, &w) {
            return Some(format!("{ONE_SERVER}, {ONE_OBJECT}: {:?}", w.objects));
        }
        outside::tick(&mut w);
        why = against_end(scene, &w);
        if why.is_none() && tick > 12 {
            break;
        }
    }
    if shows {
        println!("  {:?}\n  {:?}\n  {:?}", w.objects, w.servers, w.processes);
    }
    why
}

fn work(scene: &Scene, world: &mut World, process: usize, slot: usize) {
    world.processes[process].cache[slot] = world.objects[slot];
    let mut hand = Hand {
        scene,
        world,
        process,
        slot,
    };
    if hand.task() != Task::Idle {
        return hand.step(Answer::Ok);
    }
    if let Some((_, _, ProtocolStep::Order { .. })) = hand.plan() {
        return hand.start_order(Answer::Ok);
    }
    match hand.wants_list() {
        Some(_) => hand.reconcile(ListRead::True),
        None => hand.reconcile(ListRead::Not),
    }
}

fn plan(scene: &Scene, world: &World, slot: usize) -> Option<ProtocolStep> {
    let mut world = world.clone();
    let process = if scene.twin { slot } else { 0 };
    let hand = Hand {
        scene,
        world: &mut world,
        process,
        slot,
    };
    hand.plan().map(|(_, _, step)| step)
}

/// What is wrong at the end, if anything.
fn against_end(scene: &Scene, world: &World) -> Option<String> {
    for slot in 0..SLOTS {
        let Some(object) = world.objects[slot] else {
            continue;
        };
        let ends = match plan(scene, world, slot) {
            // No key is in use: everything waits for a user.
            None => true,
            Some(ProtocolStep::Wait(wait)) => wait.why.is_blocked(),
            Some(ProtocolStep::Reconcile(server)) => {
                let server = world.servers[index(server)];
                object.finalizer && server.is_some_and(|s| !s.kept)
            }
            Some(_) => false,
        };
        if !ends {
            return Some(format!("object {slot}: {:?}", plan(scene, world, slot)));
        }
    }
    let keeps = |slot| matches!(plan(scene, world, slot), Some(ProtocolStep::Reconcile(_)));
    if scene.one_keeps && !(0..SLOTS).any(keeps) {
        return Some(format!("no object has the server: {:?}", world.objects));
    }
    let objects = || world.objects.iter().flatten();
    for (at, server) in world.servers.iter().enumerate() {
        let is_ours = |s: &Srv| s.is_live() && (s.tags != [None; TAGS] || s.owner != NOBODY);
        let Some(server) = server.filter(is_ours) else {
            continue;
        };
        let has_tag = server.tags != [None; TAGS];
        // A user who removes every tag hides the server.
        let has_tag = (has_tag && scene.off != Some(Rule::AnyTag)) || (server.stripped && !has_tag);
        let is_recorded = objects().any(|o| o.has() == Some(at));
        let owned = objects().find(|o| server.has_tag(o.owner));
        let is_reported = match owned {
            None => server.kept || server.cluster || has_tag,
            // The owner has another server and reports this one next to it, or is blocked. All owners blocked by this
            // server do not count.
            Some(_) => {
                let mut owners = (0..SLOTS)
                    .filter(|slot| world.objects[*slot].is_some_and(|o| server.has_tag(o.owner)));
                !owners.all(|slot| {
                    matches!(plan(scene, world, slot), Some(ProtocolStep::Wait(wait))
                        if wait.why == WaitReason::Conflict(id(at)))
                })
            }
        };
        if !is_recorded && !is_reported {
            return Some(format!("server {at} is nobody's"));
        }
    }
    None
}

//! What must hold in every state, and the walk that must end.

use super::{outside, real, scene::Scene, step::Answer, world::*};
use flexmetal_operator::kinds::Reason;
use stateright::Property;
use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    sync::atomic::Ordering,
};

pub const ONE_POST: &str = "at most one POST an epoch";
pub const ONE_MACHINE: &str = "never two live machines of one object";
pub const IN_SIGHT: &str = "no machine unclaimed and unreported";
pub const OWN_DELETE: &str = "no DELETE on another object's or a retained machine";
pub const HELD: &str = "no finalizer dropped while a machine lives that was not retained";
pub const TOO_LATE: &str = "no machine retained once its release was noted";
pub const ENDS: &str = "with faults off it ends";

/// Most rounds of the fair schedule.
pub const MOST_ROUNDS: usize = 40;

pub fn properties() -> Vec<Property<Scene>> {
    vec![
        Property::always(ONE_POST, |_, w: &World| {
            w.broken != Some(Broken::SecondPost)
        }),
        Property::always(ONE_MACHINE, |_, w: &World| one_machine(w)),
        Property::always(IN_SIGHT, |_, w: &World| w.machines.iter().all(in_sight)),
        Property::always(OWN_DELETE, |_, w: &World| {
            w.broken != Some(Broken::ForeignDelete)
        }),
        Property::always(HELD, |_, w: &World| w.broken != Some(Broken::Dropped)),
        Property::always(TOO_LATE, |_, w: &World| {
            w.broken != Some(Broken::LateRetain)
        }),
        Property::always(ENDS, ends),
    ]
}

/// Of one name, whatever its lives: a restored object continues the one before.
fn one_machine(w: &World) -> bool {
    (0u8..).take(SLOTS).all(|slot| {
        w.machines
            .iter()
            .filter(|m| m.is_live() && m.owner.slot == slot)
            .count()
            <= 1
    })
}

/// Either an object's mark claims the machine, or the orphan scan lists it: it bears the cluster's mark,
/// some object's mark, and is retained only where the policy said so.
fn in_sight(m: &Machine) -> bool {
    !m.is_live()
        || m.stripped
        || (m.cluster && m.marks.iter().any(Option::is_some) && (!m.retained || m.by_policy))
}

/// Whether nothing is left to do for an object but what a person has to.
fn at_rest(o: &Obj) -> bool {
    let Some(status) = o.status else { return false };
    let suspended = real::reason_number(Reason::Suspended);
    let is_suspended = o.suspend && status.ready.is_some_and(|r| r.reason == suspended);
    status.stalled || is_suspended || (!o.deleting && status.ready.is_some_and(|r| r.on))
}

fn ends(scene: &Scene, world: &World) -> bool {
    // A broken operator is judged by the other rules.
    if scene.every == 0 {
        return true;
    }
    let mut hash = DefaultHasher::new();
    world.hash(&mut hash);
    if !hash.finish().is_multiple_of(scene.every) {
        return true;
    }
    let Some((rounds, _)) = walk(scene, world) else {
        return false;
    };
    scene.walks.fetch_add(1, Ordering::Relaxed);
    scene.longest.fetch_max(rounds, Ordering::Relaxed);
    true
}

/// The fair schedule with all faults off. Returns the rounds it took and where it ended.
pub fn walk(scene: &Scene, world: &World) -> Option<(usize, World)> {
    let mut w = world.clone();
    w.mood = Mood::Normal;
    w.budget = [0; FAULTS];
    for rounds in 0..MOST_ROUNDS {
        let before = w.clone();
        round(scene, &mut w);
        let still = w.objects.iter().flatten().all(at_rest)
            && w.objects == before.objects
            && w.machines == before.machines;
        if still {
            return Some((rounds, w));
        }
        w.now += 1;
    }
    None
}

fn round(scene: &Scene, w: &mut World) {
    while !w.wire.is_empty() {
        outside::land(w, 0, !scene.stale);
    }
    for p in 0..w.processes.len() {
        outside::list(w, p, false, scene.control);
        for slot in 0..SLOTS {
            for _ in 0..6 {
                let now = w.objects[slot];
                outside::learn(&mut w.processes[p], slot, now);
                let before = w.clone();
                scene.hand(w, p, slot).pass();
                for _ in 0..6 {
                    scene.hand(w, p, slot).step(Answer::Ok);
                }
                if *w == before {
                    break;
                }
            }
        }
    }
    for m in &mut w.machines {
        match m.life {
            Life::Provisioning => outside::progress(m, Life::Delivered),
            Life::Releasing => outside::progress(m, Life::Released),
            _ => {}
        }
    }
}

/// In words, for a report.
pub fn reason(o: &Obj) -> &'static str {
    o.status
        .and_then(|s| s.ready)
        .map_or("", |r| Reason::ALL[usize::from(r.reason)].as_str())
}

/// The bounds, in words.
pub fn bounds(scene: &Scene) -> String {
    format!(
        "{} process(es), {} ticks of {TICK} s, absence grace period {GRACE}, send window, way and lag 1 each, {} writes{}{}; {:?}",
        scene.processes,
        scene.ticks,
        scene.writes,
        if scene.stale { ", stale watch" } else { "" },
        if scene.control { "" } else { ", no control" },
        scene.faults
    )
}

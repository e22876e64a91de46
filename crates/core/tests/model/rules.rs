//! What must hold in every state, and the walk that must end.

use super::{outside, real, scene::Scene, step::Answer, world::*};
use api::{Reason, server::OrderOutcome};
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
pub const SUSPENDED: &str = "no DELETE for a suspended object";
pub const CLOSED: &str = "no closed order is put back";
pub const KIND: &str = "no release begins once the kind is being deleted";
pub const EARLY: &str = "no release begins before its delay is over";
pub const BESIDE: &str =
    "no order begins beside a machine that is kept of the same name and that nobody named";
pub const NAMED: &str = "no order of an object that names its machine";
pub const OBSERVED: &str = "nothing is changed or released that is only looked at";
pub const LIVE: &str =
    "no DELETE for an object that lives but on a failed machine that was never delivered";
pub const EXPIRY: &str = "no object deleted before its end, and no order begins after it";
pub const ROW: &str = "never more machines in a row than the spec lets be ordered";
pub const RELEASE_LIMIT: &str =
    "never more releases than the release limit lets, and once more for each word";
pub const HOLDERS: &str = "never two objects that have one machine";
pub const ENDS: &str = "with faults off it ends";

/// What the spec says when it says nothing.
const MOST_IN_A_ROW: usize = 2;

/// Prints how the fair schedule goes on from a state from which it does not end well.
pub fn show_walk(scene: &Scene, world: &World) {
    for mood in moods(world) {
        println!("walk, {mood:?}:");
        let mut w = World {
            mood,
            budget: [0; FAULTS],
            ..world.clone()
        };
        for _ in 0..12 {
            round(scene, &mut w);
            w.now += 1;
            for o in w.objects.iter().flatten() {
                let Obj {
                    version, deleting, ..
                } = o;
                let (reason, whole) = (reason(o), is_whole(o));
                println!("  {} {reason} {version} {deleting} {whole}", w.now);
            }
        }
        println!("  {:?} {:?} {:?}", w.broken, w.machines, w.processes);
        for p in &w.processes {
            println!("  {:?}", real::MEMORIES.get(p.memory[0]));
        }
    }
}

/// As the provider answers now, and as it should.
fn moods(world: &World) -> Vec<Mood> {
    let mut moods = vec![Mood::Normal];
    if world.mood != Mood::Normal {
        moods.push(world.mood);
    }
    moods
}

/// Most rounds of the fair schedule.
pub const MOST_ROUNDS: usize = 40;

pub fn properties() -> Vec<Property<Scene>> {
    vec![
        Property::always(ONE_POST, |_, w: &World| {
            w.broken != Some(Broken::SecondPost)
        }),
        Property::always(ONE_MACHINE, one_machine),
        Property::always(IN_SIGHT, |_, w: &World| all_in_sight(w)),
        Property::always(OWN_DELETE, |_, w: &World| {
            w.broken != Some(Broken::ForeignDelete)
        }),
        Property::always(HELD, |_, w: &World| w.broken != Some(Broken::Dropped)),
        Property::always(TOO_LATE, |_, w: &World| {
            w.broken != Some(Broken::LateRetain)
        }),
        Property::always(SUSPENDED, |_, w: &World| {
            w.broken != Some(Broken::SuspendedDelete)
        }),
        Property::always(CLOSED, |_, w: &World| {
            w.broken != Some(Broken::ClosedPutBack)
        }),
        Property::always(KIND, |_, w: &World| w.broken != Some(Broken::KindReleased)),
        Property::always(EARLY, |_, w: &World| w.broken != Some(Broken::EarlyRelease)),
        Property::always(BESIDE, |_, w: &World| w.broken != Some(Broken::Beside)),
        Property::always(NAMED, |_, w: &World| w.broken != Some(Broken::NamedOrder)),
        Property::always(OBSERVED, |_, w: &World| w.broken != Some(Broken::Observed)),
        Property::always(LIVE, |_, w: &World| w.broken != Some(Broken::LiveReleased)),
        Property::always(EXPIRY, |_, w: &World| {
            !matches!(w.broken, Some(Broken::EarlyExpiry | Broken::ExpiredOrder))
        }),
        Property::always(ROW, |scene: &Scene, w: &World| {
            !scene.replaces || w.machines.len() <= MOST_IN_A_ROW
        }),
        Property::always(RELEASE_LIMIT, |_, w: &World| {
            w.broken != Some(Broken::OverReleaseLimit)
        }),
        Property::always(HOLDERS, |_, w: &World| one_holder(w)),
        Property::always(ENDS, ends),
    ]
}

/// Of one name, whatever its lives: a restored object continues the one before. Beside those that a person named there
/// may be another.
fn one_machine(scene: &Scene, w: &World) -> bool {
    let most = 1 + usize::from(scene.twin);
    (0u8..).take(SLOTS).all(|slot| {
        w.machines
            .iter()
            .filter(|m| m.is_live() && m.owner.slot == slot && !m.named)
            .count()
            <= most
    })
}

/// Either an object's mark claims the machine, or the orphan scan lists it: it bears the cluster's mark,
/// some object's mark, and is retained only where the policy said so.
fn in_sight(m: &Machine) -> bool {
    !m.is_live()
        || m.stripped
        || (m.cluster && m.marks.iter().any(Option::is_some) && (!m.retained || m.by_policy))
}

/// What was there before the objects is nobody's while it bears no mark, and in the sight of an object that lives.
fn all_in_sight(w: &World) -> bool {
    let is_new = |m: &Machine| {
        let mut marks = m.marks.iter().flatten().peekable();
        m.brought && (marks.peek().is_none() || marks.any(|(who, _)| w.lives(*who)))
    };
    w.machines.iter().all(|m| in_sight(m) || is_new(m))
}

/// No two objects have one live machine on record, in status or by the note that they have taken it on.
fn one_holder(w: &World) -> bool {
    (0u8..).zip(&w.machines).all(|(number, m)| {
        let notes = |o: &Obj| {
            let intent = o.note.map(|note| note.intent);
            let is_own = intent.is_some_and(|i| i.who == o.who && i.attempt == ADOPTED);
            is_own && o.names == Some(number)
        };
        let has = |o: &&Obj| o.has() == Some(number) || notes(o);
        !m.is_live() || w.objects.iter().flatten().filter(has).count() <= 1
    })
}

/// Whether the finalizer of an object may truly go: it has no machine, but those that policy lets stay.
pub fn may_be_dropped(w: &World, kind_deleting: bool, object: &Obj) -> bool {
    let stays = (object.retain || kind_deleting) && object.begun.is_none();
    // A failed machine only after the provider said that it does not release it, or by policy.
    let holds = |m: &Machine| m.is_live() || (m.life == Life::Failed && !m.refused && !stays);
    let mut own = w.machines.iter().filter(|m| m.owner == object.who);
    let lives = own.any(|m| holds(m) && !m.retained);
    let is_coming =
        |wire: &Wire| matches!(wire, Wire::Post { intent, .. } if intent.who == object.who);
    !lives && !w.wire.iter().any(is_coming)
}

/// Whether nothing is left to do for an object but what a person has to.
fn at_rest(o: &Obj) -> bool {
    let Some(status) = o.status else { return false };
    let says = |reasons: &[Reason]| {
        let mut reasons = reasons.iter().map(|reason| real::reason_number(*reason));
        status
            .ready
            .is_some_and(|r| reasons.any(|reason| r.reason == reason))
    };
    let is_suspended = o.suspend && says(&[Reason::Suspended, Reason::Pending]);
    // A deletion that a user holds up waits for that user.
    let is_held = o.deleting && says(&[Reason::ObserveOnly, Reason::ReleaseLimited]);
    status.stalled || is_suspended || is_held || (!o.deleting && status.ready.is_some_and(|r| r.on))
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
    moods(world).into_iter().all(|mood| {
        let Some((rounds, end)) = walk(scene, world, mood) else {
            return false;
        };
        scene.walks.fetch_add(1, Ordering::Relaxed);
        scene.longest.fetch_max(rounds, Ordering::Relaxed);
        // What holds in every state holds on the way there and beyond the last tick, too.
        let is_row = !scene.replaces || end.machines.len() <= MOST_IN_A_ROW;
        is_row
            && end.broken.is_none()
            && one_machine(scene, &end)
            && all_in_sight(&end)
            && one_holder(&end)
    })
}

/// Whether nothing may change state, and the account object says why.
fn is_blocked(w: &World) -> bool {
    let mut acting = w.processes.iter().filter(|p| p.acting.is_some());
    acting.all(|p| p.blocked || p.settings.block.is_some())
}

/// Whether finalizer and annotation are on an object whose status tells of an order that is open or made a
/// machine: who deletes it now does not lose the machine from sight.
fn is_whole(o: &Obj) -> bool {
    let order = o.status.and_then(|s| s.order);
    let own = order.filter(|order| order.intent.who == o.who);
    let traced = own.filter(|order| matches!(order.outcome, None | Some(OrderOutcome::Created)));
    traced.is_none_or(|order| {
        o.deleting
            || (o.finalizer
                && o.note
                    .is_some_and(|n| n.intent.attempt == order.intent.attempt))
    })
}

/// The fair schedule with all faults off. Returns the rounds it took and where it ended.
pub fn walk(scene: &Scene, world: &World, mood: Mood) -> Option<(usize, World)> {
    let mut w = world.clone();
    w.mood = mood;
    w.budget = [0; FAULTS];
    for rounds in 0..MOST_ROUNDS {
        let before = w.clone();
        round(scene, &mut w);
        // While the provider answers wrongly an object may wait for as long as that goes on.
        let is_blocked = mood != Mood::Normal || is_blocked(&w);
        let needs_nobody = |o: &Obj| !scene.ordinary || o.status.is_some_and(|s| !s.stalled);
        let rests = |o: &Obj| (is_blocked || at_rest(o)) && is_whole(o) && needs_nobody(o);
        let still = w.objects.iter().flatten().all(rests)
            && w.objects == before.objects
            && w.machines == before.machines;
        if still {
            return Some((rounds, w));
        }
        w.now += 1;
    }
    None
}

pub fn round(scene: &Scene, w: &mut World) {
    while !w.wire.is_empty() {
        outside::land(w, 0, !scene.stale);
    }
    for p in 0..w.processes.len() {
        w.processes[p] = awake(w, p);
        if w.processes[p].acting.is_some() {
            outside::list(w, p, false, scene.controls());
        }
        for slot in 0..SLOTS {
            for _ in 0..6 {
                let now = w.objects[slot];
                let tick = w.now;
                outside::learn(&mut w.processes[p], slot, now, tick);
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
            Life::Provisioning => outside::progress(m, Life::Delivered, w.now),
            Life::Releasing => outside::progress(m, Life::Released, w.now),
            _ => {}
        }
    }
}

/// A process that has taken up what there is: the lease that nobody holds, and key and URL.
fn awake(w: &World, p: usize) -> Process {
    let mut process = w.processes[p];
    if process.acting.is_some() && process.connection != w.connection {
        process.connect(w.connection);
    }
    if w.processes.iter().all(|p| p.acting.is_none()) {
        process.gain(w.now, w.connection, w.account.is_used());
    }
    process
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

//! What goes on outside of the processes: the API server, the provider, the wire.

use super::{
    account,
    real::{self, TagA},
    world::*,
};
use flexmetal_core::server::decide::Effect;

/// The watch, or an answer, shows a process an object.
pub fn learn(process: &mut Process, slot: usize, object: Option<Obj>, now: Tick) {
    if process.cache[slot].map(|o| o.who) != object.map(|o| o.who) {
        process.memory[slot] = 0;
        process.first_seen[slot] = now;
        process.newcomer[slot] = true;
    }
    process.cache[slot] = object;
}

/// A write at the API server: only on the version that it rests on. Returns the object as written.
pub fn write(
    world: &mut World,
    slot: usize,
    version: u8,
    like: Who,
    prompt: bool,
    change: impl FnOnce(&mut Obj),
) -> Option<Obj> {
    let mut object = world.objects[slot].filter(|o| o.who == like && o.version == version)?;
    change(&mut object);
    object.version += 1;
    place(world, slot, object, prompt);
    Some(object)
}

/// Stores an object; a deleted one that nothing holds is gone.
pub fn place(world: &mut World, slot: usize, object: Obj, prompt: bool) {
    let gone = object.deleting && !object.finalizer;
    world.objects[slot] = (!gone).then_some(object);
    if prompt {
        let now = world.objects[slot];
        let tick = world.now;
        for p in &mut world.processes {
            learn(p, slot, now, tick);
        }
    }
}

/// Finalizer and annotation, in one write.
pub fn annotate(object: &mut Obj, note: NoteA) {
    object.finalizer = true;
    object.note = Some(note);
}

/// The same at the start of an order.
pub fn announce(object: &mut Obj, intent: IntentA) {
    let outcome = None;
    annotate(object, NoteA { intent, outcome });
}

/// The provider makes a machine.
pub fn create(world: &mut World, intent: &IntentA, account: u8) -> u8 {
    assert!(
        world.machines.len() < MOST_MACHINES,
        "the bounds allow too many machines"
    );
    world.machines.push(Machine {
        account,
        marks: [Some((intent.who, intent.epoch)), None, None],
        cluster: true,
        retained: false,
        life: Life::Provisioning,
        delivered: false,
        created: world.now,
        owner: intent.who,
        stripped: false,
        by_policy: false,
        refused: false,
        flaps_until: 0,
        renamed: intent.renamed,
        named: false,
        brought: false,
    });
    u8::try_from(world.machines.len() - 1).unwrap()
}

/// The provider gets a DELETE. False: refused.
///
/// A machine that bears `fmo-retained` is retained, unless the release of this very machine is noted on
/// an object that is still there: then the policy was turned back in time.
pub fn release(world: &mut World, machine: u8, by: Who) -> bool {
    let noted = world.objects[usize::from(by.slot)]
        .is_some_and(|o| o.who == by && o.begun == Some(machine));
    let has = |o: &Obj| o.who != by && o.has() == Some(machine);
    let is_anothers = world.objects.iter().flatten().any(has);
    let m = &mut world.machines[usize::from(machine)];
    // Another process took the mark off while this one released: it had the machine when its release was noted.
    let is_its = m.owner == by || (m.owner == NOBODY && noted);
    // What is released already loses nothing by it.
    let is_over = matches!(m.life, Life::Releasing | Life::Released);
    if !is_over && (!is_its || is_anothers || (m.retained && !noted)) {
        world.broken = Some(Broken::ForeignDelete);
    }
    let takes = m.life == Life::Delivered;
    if takes {
        m.life = Life::Releasing;
    }
    takes
}

/// Machine and tag of an effect that changes one, and whether it adds it.
pub fn change_of(effect: &Effect) -> Option<(&str, &str, bool)> {
    match effect {
        Effect::AddTag { uuid, tag, .. } => Some((uuid, tag, true)),
        Effect::RemoveTag { uuid, tag, .. } => Some((uuid, tag, false)),
        _ => None,
    }
}

impl Machine {
    /// Its tags after a change.
    pub fn put_on(&mut self, effect: &Effect) {
        let Some((_, tag, adds)) = change_of(effect) else {
            return;
        };
        match (real::tag_of(tag), adds) {
            (TagA::Cluster, on) => self.cluster = on,
            (TagA::Retained, on) => self.retained = on,
            (TagA::Order(who, epoch), true) => {
                let is_new = !self.marks.contains(&Some((who, epoch)));
                if let Some(free) = self.marks.iter_mut().find(|x| is_new && x.is_none()) {
                    *free = Some((who, epoch));
                }
            }
            (TagA::Order(who, epoch), false) => {
                self.marks = self.marks.map(|x| x.filter(|x| *x != (who, epoch)));
            }
        }
        // One order of marks, so that equal machines are equal.
        self.marks.sort_unstable_by(|a, b| b.cmp(a));
    }
}

/// The change of a tag arrives, for the object of this slot.
pub fn change_tag(world: &mut World, slot: usize, effect: &Effect) {
    let Some((uuid, tag, adds)) = change_of(effect) else {
        return;
    };
    let number = real::machine_of(uuid);
    // As it is at this moment, in the object or in its account: what the process saw may be older.
    let is_policy = world.kind_deleting || world.objects[slot].is_some_and(|o| o.retain);
    let noted = world.objects[slot].is_some_and(|o| o.begun == Some(number));
    if effect.lets_stay() && noted {
        world.broken = Some(Broken::LateRetain);
    }
    let living: Vec<Who> = world.objects.iter().flatten().map(|o| o.who).collect();
    let m = &mut world.machines[usize::from(number)];
    m.put_on(effect);
    match (real::tag_of(tag), adds) {
        (TagA::Cluster, _) => {}
        (TagA::Retained, on) => m.by_policy = on && is_policy,
        (TagA::Order(who, _), true) => {
            // Whoever came first has it, as long as its mark is there.
            if !living.contains(&m.owner) || !m.bears(m.owner) {
                m.owner = who;
            }
        }
        (TagA::Order(who, _), false) => {
            if m.owner == who && m.brought && !m.bears(who) {
                let mut left = m.marks.iter().flatten().map(|(who, _)| *who);
                m.owner = left.find(|who| living.contains(who)).unwrap_or(NOBODY);
            }
        }
    }
}

/// A listing as the provider answers at present.
pub fn list(world: &mut World, process: usize, late: bool, controls: [bool; 2]) {
    let now = world.now;
    let mood = world.mood;
    let p = &mut world.processes[process];
    if mood == Mood::Denied {
        p.blocked = true;
        return;
    }
    p.blocked = false;
    let account = p.connection.account();
    let mut shown = 0u8;
    p.bare = None;
    for (n, m) in world.machines.iter().enumerate() {
        let hidden = late && now - m.created <= 1;
        let all = mood == Mood::Normal && !hidden && m.account == account;
        let listed = all && m.cluster;
        if listed {
            shown |= 1 << n;
        }
        if all && (m.marks == [None; MOST_MARKS] || (m.brought && !m.cluster)) {
            let former = p.bare.replace((u8::try_from(n).unwrap(), *m));
            assert!(
                former.is_none(),
                "the bounds allow two machines without marks"
            );
        }
        // What a listing does not show and was seen before is read by its identifier.
        p.seen[n] = match mood {
            Mood::Normal if listed || (p.seen[n].is_some() && m.account == account) => Some(*m),
            _ => None,
        };
    }
    p.proof = Some(ProofA {
        began: now,
        shown,
        control: controls[usize::from(account)] && mood == Mood::Normal,
    });
    account::pass(world, process);
}

/// A request without a waiting sender arrives.
pub fn land(world: &mut World, index: usize, prompt: bool) {
    match world.wire.remove(index) {
        Wire::Post {
            intent, account, ..
        } => {
            create(world, &intent, account);
        }
        Wire::Delete { machine, by, .. } => {
            release(world, machine, by);
        }
        Wire::Intent {
            slot,
            version,
            intent,
        } => {
            write(world, usize::from(slot), version, intent.who, prompt, |o| {
                if !o.deleting || o.finalizer {
                    announce(o, intent);
                }
            });
        }
    }
}

/// A machine reaches its next state.
pub fn progress(machine: &mut Machine, to: Life, now: Tick) {
    machine.life = to;
    machine.flaps_until = match to {
        Life::Failed => now + GRACE,
        _ => 0,
    };
    machine.delivered |= to == Life::Delivered;
}

/// Whether a request must arrive before time goes on.
pub fn is_due(wire: &Wire, now: Tick) -> bool {
    match wire {
        Wire::Post { sent, .. } | Wire::Delete { sent, .. } => *sent < now,
        Wire::Intent { .. } => false,
    }
}

/// The lease changes hands. Who had it learns of that before its next pass, not in the middle of one.
pub fn lease(world: &mut World, to: usize) {
    for p in &mut world.processes {
        p.stand_by();
    }
    let used = world.account.is_used();
    world.processes[to].gain(world.now, world.connection, used);
    account::pass(world, to);
}

/// The kind is deleted: every object is, and the API server shows it on the kind.
pub fn delete_kind(world: &mut World, prompt: bool) {
    world.kind_deleting = true;
    for slot in 0..SLOTS {
        if let Some(object) = world.objects[slot].filter(|o| !o.deleting) {
            let deleted = Obj {
                deleting: true,
                version: object.version + 1,
                ..object
            };
            place(world, slot, deleted, prompt);
        }
    }
}

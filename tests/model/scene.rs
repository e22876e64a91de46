//! A scene: how the world starts, which faults it may meet, and every step that can be taken in it.

use super::{
    outside::{self, land, list, progress},
    pass::Variant,
    people::{Strip, User},
    rules, start,
    step::{Answer, Hand},
    world::*,
};
use stateright::{Model, Property};
use std::sync::{Arc, atomic::AtomicUsize};

/// One configuration of the model.
#[derive(Clone)]
pub struct Scene {
    pub name: &'static str,
    pub processes: usize,
    /// The last tick.
    pub ticks: Tick,
    pub faults: Vec<(Fault, u8)>,
    /// The watch may lag behind.
    pub stale: bool,
    /// A process lists once a tick, at its first pass; else whenever it comes to it.
    pub regular: bool,
    /// There is a machine that everybody knows.
    pub control: bool,
    /// The object was there long before, held, and an earlier process has used the account.
    pub aged: bool,
    /// The machine is ordered and delivered already.
    pub delivered: bool,
    /// A process may stand still between clock and socket.
    pub freezes: bool,
    /// A request may be on its way for longer than a tick.
    pub slow: bool,
    pub variant: Variant,
    /// Most writes of one object in a state that is walked on from; an order and its end take six.
    pub writes: u8,
    /// Of how many states one is walked to its end by the fair schedule.
    pub every: u64,
    /// The longest such walk, in rounds, and how many there were.
    pub longest: Arc<AtomicUsize>,
    pub walks: Arc<AtomicUsize>,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            name: "",
            processes: 1,
            ticks: 4,
            faults: Vec::new(),
            stale: false,
            regular: false,
            control: true,
            aged: false,
            delivered: false,
            freezes: false,
            slow: false,
            variant: Variant::Honest,
            writes: 10,
            every: 16,
            longest: Arc::default(),
            walks: Arc::default(),
        }
    }
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Tick,
    Watch(usize, usize),
    List(usize, bool),
    Pass(usize, usize),
    Step(usize, usize, Answer),
    Crash(usize),
    Land(usize),
    Progress(usize, Life),
    Mood(Mood),
    User(User, usize),
    Strip(Strip, usize),
}

impl Scene {
    pub fn hand<'a>(&self, world: &'a mut World, process: usize, slot: usize) -> Hand<'a> {
        Hand {
            world,
            process,
            slot,
            variant: self.variant,
            has_control: self.control,
            prompt: !self.stale,
            freezes: self.freezes,
        }
    }
}

impl Model for Scene {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![start::world(self)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let start = if self.aged { 2 * GRACE } else { 0 };
        if world.now < start + self.ticks
            && (self.slow || !world.wire.iter().any(|w| outside::is_due(w, world.now)))
        {
            actions.push(Action::Tick);
        }
        for (p, process) in world.processes.iter().enumerate() {
            if !self.regular {
                actions.push(Action::List(p, false));
            }
            if world.has(Fault::LateListing)
                && world.mood == Mood::Normal
                && world.machines.iter().any(|m| world.now - m.created <= 1)
            {
                actions.push(Action::List(p, true));
            }
            if world.has(Fault::Crash) {
                actions.push(Action::Crash(p));
            }
            for slot in 0..SLOTS {
                if self.stale && process.cache[slot] != world.objects[slot] {
                    actions.push(Action::Watch(p, slot));
                }
                match &process.task[slot] {
                    Task::Idle if process.cache[slot].is_some() => {
                        actions.push(Action::Pass(p, slot))
                    }
                    task => actions.extend(
                        self.answers(world, task)
                            .into_iter()
                            .map(|a| Action::Step(p, slot, a)),
                    ),
                }
            }
        }
        actions.extend((0..world.wire.len()).map(Action::Land));
        for (n, m) in world.machines.iter().enumerate() {
            match m.life {
                Life::Provisioning => {
                    actions.push(Action::Progress(n, Life::Delivered));
                    if world.has(Fault::Fail) {
                        actions.push(Action::Progress(n, Life::Failed));
                    }
                }
                Life::Delivered if world.has(Fault::ReleasedOutside) => {
                    actions.push(Action::Progress(n, Life::Released));
                }
                Life::Releasing => actions.push(Action::Progress(n, Life::Released)),
                _ => {}
            }
            if world.has(Fault::StripTags) && m.is_live() && !m.stripped {
                actions.extend(
                    [Strip::All, Strip::Order, Strip::Cluster].map(|s| Action::Strip(s, n)),
                );
            }
        }
        match world.mood {
            Mood::Normal => {
                if world.has(Fault::Blank) {
                    actions.push(Action::Mood(Mood::Blank));
                }
                if world.has(Fault::Deny) {
                    actions.push(Action::Mood(Mood::Denied));
                }
            }
            _ => actions.push(Action::Mood(Mood::Normal)),
        }
        self.users(world, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Tick => world.now += 1,
            Action::Watch(p, slot) => {
                let now = world.objects[slot];
                outside::learn(&mut world.processes[p], slot, now);
            }
            Action::List(p, late) => {
                if late && !world.spend(Fault::LateListing) {
                    return None;
                }
                list(&mut world, p, late, self.control);
            }
            Action::Pass(p, slot) => {
                let began = world.processes[p].proof.map(|proof| proof.began);
                if self.regular && began.is_none_or(|b| b < world.now) {
                    list(&mut world, p, false, self.control);
                }
                self.hand(&mut world, p, slot).pass();
            }
            Action::Step(p, slot, answer) => self.step(&mut world, p, slot, answer)?,
            Action::Crash(p) => {
                world.spend(Fault::Crash);
                world.processes[p] = Process::fresh(world.now, world.used, &world.objects);
            }
            Action::Land(index) => land(&mut world, index, !self.stale),
            Action::Progress(n, to) => {
                match (world.machines[n].life, to) {
                    (_, Life::Failed) => world.spend(Fault::Fail),
                    (Life::Delivered, _) => world.spend(Fault::ReleasedOutside),
                    _ => true,
                };
                progress(&mut world.machines[n], to);
            }
            Action::Mood(mood) => {
                match mood {
                    Mood::Blank => world.spend(Fault::Blank),
                    Mood::Denied => world.spend(Fault::Deny),
                    Mood::Normal => true,
                };
                world.mood = mood;
            }
            Action::User(user, slot) => self.user(&mut world, user, slot)?,
            Action::Strip(strip, n) => {
                world.spend(Fault::StripTags);
                let m = &mut world.machines[n];
                m.stripped = true;
                if strip != Strip::Cluster {
                    m.marks = [None; 2];
                }
                if strip != Strip::Order {
                    m.cluster = false;
                }
                m.retained &= strip != Strip::All;
            }
        }
        (world != *last).then_some(world)
    }

    /// Two processes that see the provider differently write their statuses in turn until the slower one
    /// looks again, which may take it forever; so the writes of an object are bounded.
    fn within_boundary(&self, world: &World) -> bool {
        world
            .objects
            .iter()
            .flatten()
            .all(|o| o.version <= self.writes)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        rules::properties()
    }
}

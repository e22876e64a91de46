//! A scene: a small world, and what may go wrong in it.

use super::{
    outside::{self, Act, Off},
    process::{Answer, Hand, ListRead},
    promises,
    rules::Rule,
    world::*,
};
use flexmetal_core::protocol::{
    AcknowledgedActions, ProtocolOrder, ProtocolOutcome, ProtocolStep, ProtocolTimes,
};
use stateright::{Model, Property};

/// The initial state of a scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// An object that is created while the process watches.
    New,
    /// An object that was created while no process was leader.
    Old,
    /// An object with a delivered server.
    Delivered,
    /// The same, and an older server to which a user gave the same order tag.
    Tagged,
    /// A retained server; its object can be applied again.
    Kept,
    /// The same, and the namespace was recreated.
    NamespaceRecreated,
    /// A server without an owner; the object names it.
    Named,
    /// The same, and both objects name it.
    NamedTwice,
    /// A retained server of this name, and one without an owner, which the object names.
    NamedAndRetained,
    /// A retained server of this name; the object with the other name names it.
    KeptNamed,
    /// Two clusters with one cluster ID, each with an object of this name; one has a server.
    Twin,
    /// The same; the other object names that server.
    TwinNamed,
    /// A server of another cluster, which the object names.
    OtherCluster,
    /// An object with a server in each of two namespaces, and one names the other's retained one.
    OtherNamespace,
}

/// The object with the other name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// An object that names the first server.
    Names,
    /// A copy of the first object with everything that the operator wrote.
    Copy,
}

/// A scene.
#[derive(Clone, Debug)]
pub struct Scene {
    pub name: &'static str,
    pub ticks: Tick,
    pub faults: Vec<(Fault, u8)>,
    pub start: Start,
    pub other: Other,
    /// Number of processes.
    pub processes: usize,
    /// The grace period in ticks.
    pub grace: Tick,
    /// A new leader waits for a minute instead of the grace period, where the rules permit that.
    pub minute: bool,
    /// Maximum delay of a list in ticks.
    pub lag: usize,
    /// The watch may be behind.
    pub stale: bool,
    /// The world may change between a decision and its write.
    pub slow: bool,
    /// A known server must be on the lists.
    pub control: bool,
    pub other_control: bool,
    pub replace: bool,
    pub reorder: bool,
    pub retain: bool,
    pub is_shared: bool,
    /// At the end one object must have its server, and not only a reason why not.
    pub one_keeps: bool,
    pub twin: bool,
    /// The processes continue when etcd is restored.
    pub runs_on: bool,
    pub portal: &'static [Off],
    /// One in this many states is walked to its end.
    pub every: u64,
    pub off: Option<Rule>,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            name: "",
            ticks: 0,
            faults: Vec::new(),
            start: Start::New,
            other: Other::Names,
            processes: 1,
            grace: 4,
            minute: false,
            lag: 1,
            stale: false,
            slow: false,
            control: true,
            other_control: false,
            replace: false,
            reorder: false,
            runs_on: false,
            retain: false,
            is_shared: false,
            one_keeps: false,
            twin: false,
            portal: &[Off::All],
            every: 16,
            off: None,
        }
    }
}

/// A move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Tick,
    Pass(usize, usize, ListRead),
    Order(usize, usize, Answer),
    Miss(usize, usize),
    Step(usize, usize, Answer),
    Sync(usize, usize),
    Arrive(usize),
    Drop(usize),
    Crash(usize),
    Outside(Act),
}

/// The first name, in the namespace before it is recreated.
const FIRST: Owner = Owner {
    name: 0,
    namespace: 0,
};
/// The owner of a server without an owner.
pub const NOBODY: Owner = Owner {
    name: 9,
    namespace: 9,
};
/// The sequence number in the tag of an initial server.
const EARLY: u32 = 1_700_000_000;

fn object(uid: u8, owner: Owner) -> Obj {
    Obj {
        uid,
        owner,
        version: 0,
        deleting: false,
        finalizer: false,
        order: None,
        release: None,
        names: None,
        retain: false,
        replace: false,
        reorder: false,
        acknowledged: AcknowledgedActions::default(),
    }
}

fn server(owner: Owner) -> Srv {
    let mut server = Srv {
        cluster: owner != NOBODY,
        ..Srv::new(owner, 0, 0)
    };
    if owner != NOBODY {
        server.put(owner, EARLY);
    }
    server
}

/// The object, with this server recorded.
fn with_server(object: Obj, at: usize) -> Obj {
    Obj {
        finalizer: true,
        order: Some(ProtocolOrder {
            uid: object.uid(),
            seq: EARLY,
            nonce: 0,
            send_by: 0,
            account: flexmetal_core::protocol::AccountId(0),
            outcome: ProtocolOutcome::Created(id(at)),
            answer_lost: false,
            lost: 0,
            cut: 0,
        }),
        ..object
    }
}

impl Scene {
    /// Whether this account has a known server.
    pub fn has_known(&self, account: u8) -> bool {
        match account {
            0 => self.control,
            _ => self.other_control,
        }
    }

    pub fn times(&self) -> ProtocolTimes {
        ProtocolTimes {
            grace: span(self.grace),
            check: span(2),
            idle: span(2),
            restart: span(if self.minute { 2 } else { self.grace }),
            flight_time: span(2),
        }
    }

    /// Whether a process sees the object of this slot.
    pub fn sees(&self, process: usize, slot: usize) -> bool {
        !self.twin || process == slot
    }

    pub fn apply_other(&self, world: &mut World, slot: usize) {
        let uid = world.uids;
        world.uids += 1;
        let owner = Owner {
            name: 1,
            namespace: world.namespace,
        };
        world.objects[slot] = match self.other {
            Other::Names => Some(Obj {
                names: Some(0),
                ..object(uid, owner)
            }),
            Other::Copy => world.objects[0].or(world.backup[0]).map(|first| Obj {
                uid,
                owner,
                version: 0,
                deleting: false,
                acknowledged: AcknowledgedActions::default(),
                ..first
            }),
        };
    }

    fn world(&self) -> World {
        let mut world = World {
            now: 0,
            objects: [None; SLOTS],
            namespace: 0,
            uids: 0,
            nonces: 0,
            servers: [None; SERVERS],
            before: Vec::new(),
            wire: Vec::new(),
            processes: Vec::new(),
            account: Account {
                id: 0,
                leads: 0,
                accepted: 0,
                made_for: 0,
                same: false,
                new: false,
            },
            posts: Vec::new(),
            etcd: None,
            backup: [None; SLOTS],
            budget: [0; FAULTS],
            broken: None,
        };
        for (fault, count) in &self.faults {
            world.budget[*fault as usize] = *count;
        }
        self.furnish(&mut world);
        for object in world.objects.iter_mut().flatten() {
            (object.replace, object.reorder) = (self.replace, self.reorder);
            object.retain |= self.retain;
        }
        world.before = vec![world.servers; self.lag];
        let is_new = self.start == Start::New;
        world.uids = if is_new { 0 } else { 2 };
        for _ in 0..self.processes {
            let process = Process::new(&world);
            world.processes.push(process);
        }
        world.uids = 2;
        world
    }

    fn furnish(&self, world: &mut World) {
        let first = object(0, FIRST);
        let second = object(1, Owner { name: 1, ..FIRST });
        let named = |object: Obj| Obj {
            names: Some(0),
            ..object
        };
        let kept = Srv {
            kept: true,
            stays: true,
            ..server(FIRST)
        };
        match self.start {
            Start::New | Start::Old => world.objects[0] = Some(first),
            Start::Delivered => {
                world.servers[0] = Some(server(FIRST));
                world.objects[0] = Some(with_server(first, 0));
            }
            Start::Tagged => {
                let mut tagged = Srv {
                    cluster: true,
                    ..server(NOBODY)
                };
                tagged.put(FIRST, EARLY);
                world.servers[0] = Some(tagged);
                world.servers[1] = Some(server(FIRST));
                world.objects[0] = Some(with_server(first, 1));
            }
            Start::Kept => {
                world.servers[0] = Some(kept);
                world.objects[0] = Some(first);
            }
            Start::NamespaceRecreated => {
                world.namespace = 1;
                world.servers[0] = Some(kept);
                let owner = Owner {
                    namespace: 1,
                    ..FIRST
                };
                world.objects[0] = Some(object(0, owner));
            }
            Start::Named => {
                world.servers[0] = Some(server(NOBODY));
                world.objects[0] = Some(named(first));
            }
            Start::NamedTwice => {
                world.servers[0] = Some(server(NOBODY));
                world.objects = [Some(named(first)), Some(named(second))];
            }
            Start::NamedAndRetained => {
                world.servers[0] = Some(server(NOBODY));
                world.servers[1] = Some(kept);
                world.objects[0] = Some(named(first));
            }
            Start::KeptNamed | Start::OtherNamespace => {
                world.servers[0] = Some(kept);
                world.objects = [None, Some(named(second))];
                world.backup[0] = Some(first);
            }
            Start::Twin | Start::TwinNamed => {
                let other = Owner {
                    namespace: 7,
                    ..FIRST
                };
                world.servers[0] = Some(server(other));
                world.objects[1] = Some(with_server(object(1, other), 0));
                world.objects[0] = Some(match self.start {
                    Start::TwinNamed => named(first),
                    _ => first,
                });
            }
            Start::OtherCluster => {
                world.servers[0] = Some(Srv {
                    foreign: true,
                    ..server(NOBODY)
                });
                world.objects[0] = Some(named(first));
            }
        }
    }

    fn works(&self, world: &World, process: usize, slot: usize, actions: &mut Vec<Action>) {
        let mut copy = world.clone();
        let hand = Hand {
            scene: self,
            world: &mut copy,
            process,
            slot,
        };
        let lost = |add: &mut dyn FnMut(Answer)| {
            if world.has(Fault::Lost) {
                [Answer::Before, Answer::After, Answer::Later]
                    .into_iter()
                    .for_each(add);
            }
        };
        match hand.task() {
            Task::Idle => {}
            task => {
                actions.push(Action::Step(process, slot, Answer::Ok));
                let mut add = |answer| actions.push(Action::Step(process, slot, answer));
                if matches!(
                    task,
                    Task::Send { .. } | Task::Change { .. } | Task::Delete { .. }
                ) {
                    lost(&mut add);
                }
                if hand.may_be_refused() && world.has(Fault::Refuse) {
                    add(Answer::Refused);
                    if matches!(task, Task::Send { .. }) {
                        add(Answer::NotSent);
                    }
                }
                return;
            }
        }
        if let Some((_, _, ProtocolStep::Order { .. })) = hand.plan() {
            actions.push(Action::Order(process, slot, Answer::Ok));
            if world.has(Fault::LostWrite) {
                actions.push(Action::Order(process, slot, Answer::After));
                actions.push(Action::Order(process, slot, Answer::Later));
            }
            return;
        }
        // Reads may show a new server late.
        let is_new = |s: &Srv| world.now < s.created + self.grace;
        if hand
            .reads()
            .is_some_and(|at| world.servers[at].as_ref().is_some_and(is_new))
            && world.has(Fault::Miss)
        {
            actions.push(Action::Miss(process, slot));
        }
        match hand.wants_list() {
            None => actions.push(Action::Pass(process, slot, ListRead::Not)),
            Some(_) => {
                let mut add = |read| actions.push(Action::Pass(process, slot, read));
                add(ListRead::True);
                // A process may act on the newest list before it reads the next one.
                add(ListRead::Not);
                if world.has(Fault::LateList) && world.before[0] != world.servers {
                    add(ListRead::Late);
                }
                if world.has(Fault::EmptyList) {
                    add(ListRead::Empty);
                }
                if world.has(Fault::Omit) {
                    add(ListRead::Omits(SERVERS));
                    let there = world.servers.iter().enumerate();
                    let there = there.filter(|(_, server)| server.is_some());
                    there.for_each(|(at, _)| add(ListRead::Omits(at)));
                }
            }
        }
    }

    /// Applies this move to the world.
    pub fn apply(&self, world: &mut World, action: Action) {
        let hand = |world: &mut World, process, slot, f: &dyn Fn(&mut Hand<'_>)| {
            f(&mut Hand {
                scene: self,
                world,
                process,
                slot,
            });
        };
        match action {
            Action::Tick => outside::tick(world),
            Action::Pass(process, slot, read) => {
                match read {
                    ListRead::Not | ListRead::True => {}
                    ListRead::Late => world.spend(Fault::LateList),
                    ListRead::Empty => world.spend(Fault::EmptyList),
                    ListRead::Omits(_) => world.spend(Fault::Omit),
                }
                hand(world, process, slot, &|hand| hand.reconcile(read));
            }
            Action::Order(process, slot, answer) => {
                if answer != Answer::Ok {
                    world.spend(Fault::LostWrite);
                }
                hand(world, process, slot, &|hand| hand.start_order(answer));
            }
            Action::Miss(process, slot) => {
                world.spend(Fault::Miss);
                hand(world, process, slot, &|hand| hand.miss());
            }
            Action::Step(process, slot, answer) => {
                match answer {
                    Answer::Ok => {}
                    Answer::Refused | Answer::NotSent => world.spend(Fault::Refuse),
                    _ => world.spend(Fault::Lost),
                }
                hand(world, process, slot, &|hand| hand.step(answer));
            }
            Action::Sync(process, slot) => {
                world.processes[process].cache[slot] = world.objects[slot];
            }
            Action::Arrive(at) => {
                let wire = world.wire.remove(at);
                outside::arrive(world, wire);
            }
            Action::Drop(at) => _ = world.wire.remove(at),
            Action::Crash(process) => {
                world.spend(Fault::Crash);
                world.processes[process] = Process::new(world);
            }
            Action::Outside(act) => outside::act(self, world, act),
        }
        self.watch(world);
    }

    /// Every process sees every change at once, unless its watch may be behind.
    fn watch(&self, world: &mut World) {
        for process in 0..world.processes.len() {
            for slot in (0..SLOTS).filter(|slot| self.sees(process, *slot) && !self.stale) {
                let mut hand = Hand {
                    scene: self,
                    world,
                    process,
                    slot,
                };
                hand.see();
            }
        }
    }
}

impl Model for Scene {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.world()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.broken.is_some() {
            return;
        }
        let is_due = |wire: &Wire| outside::is_due(wire, world.now);
        for (at, wire) in world.wire.iter().enumerate() {
            actions.push(Action::Arrive(at));
            if is_due(wire) || matches!(wire, Wire::Write { .. }) {
                actions.push(Action::Drop(at));
            }
        }
        if world.now < self.ticks && !world.wire.iter().any(is_due) {
            actions.push(Action::Tick);
        }
        for process in 0..world.processes.len() {
            for slot in (0..SLOTS).filter(|slot| self.sees(process, *slot)) {
                let cached = world.processes[process].cache[slot];
                if self.stale && cached != world.objects[slot] {
                    actions.push(Action::Sync(process, slot));
                }
                let is_busy = world.processes[process].task[slot] != Task::Idle;
                if is_busy || world.objects[slot].is_some() || cached.is_some() {
                    self.works(world, process, slot, actions);
                }
            }
            if world.has(Fault::Crash) {
                actions.push(Action::Crash(process));
            }
        }
        let acts = outside::acts(self, world);
        actions.extend(acts.into_iter().map(Action::Outside));
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        self.apply(&mut next, action);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties()
    }
}

//! A scene: how the world begins, which faults it may meet, and every step that can be taken in it.

use super::{
    outside::{self, land, list, progress},
    pass::Variant,
    real, rules,
    step::{Answer, Hand},
    world::*,
};
use flexmetal_operator::kinds::Reason;
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
    pub variant: Variant,
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
            variant: Variant::Honest,
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

/// What people do to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum User {
    Delete,
    Suspend,
    Retain,
    Rename,
    StripNote,
    StripStatus,
    /// Under another name, with the finalizer or without.
    Copy(bool),
    Restore,
    Acknowledge,
}

/// Which tags somebody takes off a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strip {
    All,
    Order,
    Cluster,
}

const WHO: Who = Who { slot: 0, life: 0 };

fn object(who: Who, created: Tick) -> Obj {
    Obj {
        who,
        version: 1,
        created,
        deleting: false,
        finalizer: false,
        note: None,
        begun: None,
        acknowledged: None,
        retain: false,
        suspend: false,
        renamed: false,
        status: None,
    }
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

    /// The answers that the next step of a task may get.
    fn answers(&self, world: &World, task: &Task) -> Vec<Answer> {
        use flexmetal_operator::controllers::server::decide::Effect;
        let mut answers = vec![Answer::Ok];
        let (post, delete, write) = match task {
            Task::Idle => return Vec::new(),
            Task::Send(_, true) => (!self.freezes, false, false),
            Task::Frozen(_) => (true, false, false),
            Task::Delete { .. } => (false, true, false),
            Task::Note(_) | Task::Status(..) => (false, false, true),
            Task::Act { effect, .. } => {
                let writes = matches!(
                    &*super::pass::EFFECTS.get(*effect),
                    Effect::WriteIntent(_)
                        | Effect::HoldObject
                        | Effect::LetGo
                        | Effect::BeginRelease { .. }
                );
                (false, false, writes)
            }
            _ => (false, false, false),
        };
        if (post || delete) && world.has(Fault::Lost) {
            answers.extend([Answer::LostBefore, Answer::Later]);
        }
        if post && world.has(Fault::ServerError) {
            answers.extend([Answer::ErrorBefore, Answer::ErrorLater]);
        }
        if post && world.has(Fault::Refuse) {
            answers.push(Answer::Refused);
        }
        if write && world.has(Fault::LostWrite) {
            answers.extend([Answer::LostBefore, Answer::LostAfter]);
            if matches!(task, Task::Note(_)) {
                answers.push(Answer::Later);
            }
        }
        answers
    }

    fn step(&self, world: &mut World, process: usize, slot: usize, answer: Answer) -> Option<()> {
        let task = world.processes[process].task[slot];
        let provider = matches!(task, Task::Send(..) | Task::Frozen(_) | Task::Delete { .. });
        let spent = match answer {
            Answer::Ok => true,
            Answer::ErrorBefore | Answer::ErrorLater => world.spend(Fault::ServerError),
            Answer::Refused => world.spend(Fault::Refuse),
            _ if provider => world.spend(Fault::Lost),
            _ => world.spend(Fault::LostWrite),
        };
        spent.then(|| self.hand(world, process, slot).step(answer))
    }

    fn user(&self, world: &mut World, user: User, slot: usize) -> Option<()> {
        let fault = match user {
            User::Delete => Fault::Delete,
            User::Suspend | User::Retain | User::Rename => Fault::Edit,
            User::StripNote => Fault::StripNote,
            User::StripStatus => Fault::StripStatus,
            User::Copy(_) => Fault::Copy,
            User::Restore => Fault::Restore,
            User::Acknowledge => Fault::Acknowledge,
        };
        if !world.spend(fault) {
            return None;
        }
        if let User::Copy(finalizer) = user {
            let source = world.objects[0]?;
            let slot = 1;
            let mut copy = object(
                Who {
                    slot: 1,
                    life: world.lives[slot],
                },
                world.now,
            );
            copy.note = source.note;
            copy.finalizer = finalizer;
            world.lives[slot] += 1;
            outside::place(world, slot, copy, !self.stale);
            return Some(());
        }
        if user == User::Restore {
            let note = world.backup[slot].filter(|_| world.objects[slot].is_none())?;
            let life = world.lives[slot];
            world.lives[slot] += 1;
            let mut restored = object(
                Who {
                    slot: u8::try_from(slot).ok()?,
                    life,
                },
                world.now,
            );
            restored.note = Some(note);
            outside::place(world, slot, restored, !self.stale);
            return Some(());
        }
        let mut o = world.objects[slot]?;
        match user {
            User::Delete => {
                world.backup[slot] = o.note;
                o.deleting = true;
            }
            User::Suspend => o.suspend = !o.suspend,
            User::Retain => o.retain = !o.retain,
            User::Rename => o.renamed = true,
            User::StripNote => {
                o.finalizer = false;
                o.note = None;
                o.begun = None;
            }
            User::StripStatus => o.status = None,
            User::Acknowledge => {
                // A person who looks at the provider and tells the truth.
                let epoch = o.note?.epoch;
                let open = o.status?.ready?.reason == real::reason_number(Reason::OutcomeUnknown);
                let none =
                    world.wire.is_empty() && !world.machines.iter().any(|m| m.owner == o.who);
                if !(open && o.status?.stalled && none) {
                    return None;
                }
                o.acknowledged = Some(epoch);
            }
            User::Copy(_) | User::Restore => {}
        }
        o.version += 1;
        outside::place(world, slot, o, !self.stale);
        Some(())
    }
}

impl Model for Scene {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut first = object(WHO, 0);
        let mut machines = Vec::new();
        let mut posts = Vec::new();
        let begin = if self.aged { 2 * SETTLE } else { 0 };
        if self.aged {
            let reason = real::reason_number(Reason::Suspended);
            first.status = Some(StatusA {
                ready: Some(ReadyA {
                    on: false,
                    since: 0,
                    reason,
                }),
                stalled: true,
                ..Default::default()
            });
        }
        if self.delivered {
            let intent = IntentA {
                who: WHO,
                epoch: 0,
                send_by: 10,
                attempt: 200,
                unknown_before: 0,
            };
            let outcome = Some(flexmetal_operator::kinds::server::OrderOutcome::Created);
            first.finalizer = true;
            first.note = Some(intent);
            first.status = Some(StatusA {
                order: Some(RecordA {
                    intent,
                    outcome,
                    settled: 0,
                    failures: 0,
                }),
                uuid: Some(0),
                ready: Some(ReadyA {
                    on: true,
                    since: 0,
                    reason: real::reason_number(Reason::Delivered),
                }),
                stalled: false,
            });
            machines.push(Machine {
                marks: [Some((WHO, 0)), None],
                cluster: true,
                retained: false,
                life: Life::Delivered,
                delivered: true,
                created: 0,
                owner: WHO,
                stripped: false,
                by_policy: false,
            });
            posts.push((WHO, 0));
        }
        let objects = [Some(first), None];
        let used = self.aged || self.delivered;
        let mut budget = [0; FAULTS];
        for (fault, times) in &self.faults {
            budget[*fault as usize] = *times;
        }
        vec![World {
            now: begin,
            objects,
            backup: [None; SLOTS],
            lives: [1, 0],
            machines,
            wire: Vec::new(),
            mood: Mood::Normal,
            processes: vec![Process::fresh(begin, used, &objects); self.processes],
            attempts: 0,
            posts,
            used,
            budget,
            broken: None,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let begin = if self.aged { 2 * SETTLE } else { 0 };
        if world.now < begin + self.ticks
            && !world.wire.iter().any(|w| outside::is_due(w, world.now))
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
            .all(|o| o.version <= MOST_WRITES)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        rules::properties()
    }
}

impl Scene {
    fn users(&self, world: &World, actions: &mut Vec<Action>) {
        for (slot, object) in world.objects.iter().enumerate() {
            let Some(o) = object else {
                if world.has(Fault::Restore) && world.backup[slot].is_some() {
                    actions.push(Action::User(User::Restore, slot));
                }
                continue;
            };
            let mut may = |fault, user| {
                if world.has(fault) {
                    actions.push(Action::User(user, slot));
                }
            };
            if !o.deleting {
                may(Fault::Delete, User::Delete);
                if !o.renamed {
                    may(Fault::Edit, User::Rename);
                }
            }
            may(Fault::Edit, User::Suspend);
            may(Fault::Edit, User::Retain);
            // Whoever takes the annotation off a restored object wants a new machine, and gets one.
            if o.who.life == 0 && (o.finalizer || o.note.is_some()) {
                may(Fault::StripNote, User::StripNote);
            }
            if o.status.is_some() {
                may(Fault::StripStatus, User::StripStatus);
            }
            if world.objects[1].is_none() && o.note.is_some() {
                may(Fault::Copy, User::Copy(true));
                may(Fault::Copy, User::Copy(false));
            }
            may(Fault::Acknowledge, User::Acknowledge);
        }
    }
}

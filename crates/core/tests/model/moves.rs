//! Every step that can be taken in a scene, and what it does.

use super::{
    account,
    outside::{self, land, list, progress},
    people::{Strip, User},
    real, rules,
    scene::Scene,
    start,
    step::Answer,
    world::*,
};
use api::acknowledgement::AcknowledgementEffect::{self, LiftReleaseLimit, NewAccount};
use stateright::{Model, Property};

/// The token that the account shows for this effect, unless a user gave it.
fn open_token(world: &World, effect: AcknowledgementEffect) -> Option<String> {
    let token = real::token(world.account.asked, effect)?;
    (!real::has_token(world.account.given, &token)).then_some(token)
}

/// A user gives that token.
fn give(world: &mut World, effect: AcknowledgementEffect) -> Option<()> {
    let token = open_token(world, effect)?;
    world.account.given = real::with_token(world.account.given, &token);
    Some(())
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
    /// An API server falls behind: it goes on showing what there is now.
    FallBehind,
    /// A process ends, and what the next one lists first is what that API server shows.
    Older(usize),
    Land(usize),
    Progress(usize, Life),
    Mood(Mood),
    User(User, usize),
    Strip(Strip, usize),
    Connect(usize, Connection),
    Lease(usize),
    KindDeleted,
    /// A user acknowledges the account's present key and URL.
    AcknowledgeAccount,
    /// A user acknowledges the releases that the release limit holds.
    LetMore,
}

impl Scene {
    /// What befalls a process: another connection, the lease.
    fn of_process(&self, world: &World, p: usize, actions: &mut Vec<Action>) {
        let process = &world.processes[p];
        if process.acting.is_none() {
            // It takes up key and URL when it gains the lease.
        } else if process.connection != world.connection {
            actions.push(Action::Connect(p, world.connection));
        } else if world.has(Fault::Connect) {
            let others = Connection::ALL
                .into_iter()
                .filter(|c| *c != world.connection && !(self.ordinary && *c == Connection::Other));
            actions.extend(others.map(|c| Action::Connect(p, c)));
        }
        if process.acting.is_none()
            && (world.has(Fault::Lease) || world.processes.iter().all(|p| p.acting.is_none()))
        {
            actions.push(Action::Lease(p));
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
            if !self.regular && process.acting.is_some() {
                actions.push(Action::List(p, false));
            }
            if world.has(Fault::LateListing)
                && process.acting.is_some()
                && world.mood == Mood::Normal
                && world.machines.iter().any(|m| world.now - m.created <= 1)
            {
                actions.push(Action::List(p, true));
            }
            if world.has(Fault::Crash) {
                actions.push(Action::Crash(p));
            }
            if world.older.is_some_and(|older| older != world.shown()) {
                actions.push(Action::Older(p));
            }
            self.of_process(world, p, actions);
            for slot in 0..SLOTS {
                if process.cache[slot] != world.objects[slot] {
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
        if world.has(Fault::Older) && world.older.is_none() {
            actions.push(Action::FallBehind);
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
                Life::Failed if world.has(Fault::Flap) && world.now < m.flaps_until => {
                    actions.push(Action::Progress(n, Life::Delivered));
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
        let is_asked = |effect| open_token(world, effect).is_some();
        if world.has(Fault::AcknowledgeAccount) && is_asked(NewAccount) {
            actions.push(Action::AcknowledgeAccount);
        }
        if world.has(Fault::Word) && is_asked(LiftReleaseLimit) {
            actions.push(Action::LetMore);
        }
        if world.has(Fault::KindDeleted) {
            actions.push(Action::KindDeleted);
        }
        self.users(world, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Tick => world.now += 1,
            Action::Watch(p, slot) => {
                let now = world.objects[slot];
                let tick = world.now;
                outside::learn(&mut world.processes[p], slot, now, tick);
            }
            Action::List(p, late) => {
                if late && !world.spend(Fault::LateListing) {
                    return None;
                }
                list(&mut world, p, late, self.controls());
            }
            Action::Pass(p, slot) => {
                let began = world.processes[p].proof.map(|proof| proof.began);
                let acts = world.processes[p].acting.is_some();
                if self.regular && acts && began.is_none_or(|b| b < world.now) {
                    list(&mut world, p, false, self.controls());
                }
                self.hand(&mut world, p, slot).pass();
            }
            Action::Step(p, slot, answer) => self.step(&mut world, p, slot, answer)?,
            Action::Crash(p) => {
                world.spend(Fault::Crash);
                let fresh = Process::fresh(
                    world.now,
                    world.account.is_used(),
                    &world.objects,
                    world.connection,
                );
                world.processes[p] = Process {
                    acting: fresh.acting.filter(|_| !self.lease),
                    ..fresh
                };
            }
            Action::FallBehind => world.older = Some(world.shown()),
            Action::Older(p) => {
                world.spend(Fault::Older);
                let older = world.older.take()?;
                let (now, connection) = (world.now, world.connection);
                world.processes[p] = Process::fresh(now, older.used, &older.objects, connection);
            }
            Action::Land(index) => land(&mut world, index, !self.stale),
            Action::Progress(n, to) => {
                match (world.machines[n].life, to) {
                    (_, Life::Failed) => world.spend(Fault::Fail),
                    (Life::Failed, _) => world.spend(Fault::Flap),
                    (Life::Delivered, _) => world.spend(Fault::ReleasedOutside),
                    _ => true,
                };
                let now = world.now;
                progress(&mut world.machines[n], to, now);
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
            Action::Connect(p, connection) => {
                if connection != world.connection {
                    world.spend(Fault::Connect);
                    world.connection = connection;
                }
                world.processes[p].connect(connection);
                account::pass(&mut world, p);
            }
            Action::Lease(p) => {
                if world.processes.iter().any(|p| p.acting.is_some()) {
                    world.spend(Fault::Lease);
                }
                outside::lease(&mut world, p);
            }
            Action::AcknowledgeAccount => {
                world.spend(Fault::AcknowledgeAccount);
                give(&mut world, NewAccount)?;
                for p in 0..world.processes.len() {
                    if world.processes[p].acting.is_some() {
                        account::pass(&mut world, p);
                    }
                }
            }
            Action::LetMore => {
                world.spend(Fault::Word);
                give(&mut world, LiftReleaseLimit)?;
                for p in 0..world.processes.len() {
                    account::pass(&mut world, p);
                }
            }
            Action::KindDeleted => {
                world.spend(Fault::KindDeleted);
                outside::delete_kind(&mut world, !self.stale);
            }
            Action::Strip(strip, n) => {
                world.spend(Fault::StripTags);
                let m = &mut world.machines[n];
                m.stripped = true;
                if strip != Strip::Cluster {
                    m.marks = [None; MOST_MARKS];
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

//! What a process does: one reconcile of an object, and the next step of its task.

use super::{
    rules::Rule,
    scene::Scene,
    world::{Broken::*, *},
};
use flexmetal_core::protocol::{
    self, AcknowledgedActions, DeletionAction, EndedServerAction, KnownServerCheck, ListSummary,
    ProtocolMemory, ProtocolObject, ProtocolOrder, ProtocolOutcome, ProtocolServer, ProtocolStep,
    ProtocolView, Release, ServerId, ServerPhase, Wait, adopt, order, release, resolve,
};

/// How a call or a write ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    Ok,
    /// Lost before any effect.
    Before,
    /// Lost after the effect.
    After,
    /// Lost, and the effect comes later.
    Later,
    Refused,
    NotSent,
}

/// The list that is read, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListRead {
    Not,
    True,
    /// The servers as they were some ticks ago.
    Late,
    Empty,
    /// Without this server; [`SERVERS`]: without the known server.
    Omits(usize),
}

/// A process that works on one object.
pub struct Hand<'a> {
    pub scene: &'a Scene,
    pub world: &'a mut World,
    pub process: usize,
    pub slot: usize,
}

impl Hand<'_> {
    fn is_off(&self, rule: Rule) -> bool {
        self.scene.off == Some(rule)
    }

    fn me(&mut self) -> &mut Process {
        &mut self.world.processes[self.process]
    }

    fn own(&self) -> &Process {
        &self.world.processes[self.process]
    }

    fn memory(&mut self) -> &mut ProtocolMemory {
        let slot = self.slot;
        &mut self.me().memory[slot]
    }

    pub fn task(&self) -> Task {
        self.own().task[self.slot]
    }

    fn go(&mut self, task: Task) {
        let slot = self.slot;
        self.me().task[slot] = task;
    }

    fn now(&self) -> std::time::Duration {
        span(self.world.now)
    }

    /// The object as this process sees it.
    fn object(&self) -> Option<Obj> {
        match self.scene.stale {
            true => self.own().cache[self.slot],
            false => self.world.objects[self.slot],
        }
    }

    fn learn(&mut self, object: Option<Obj>) {
        let slot = self.slot;
        self.me().cache[slot] = object;
    }

    fn namespace_of(&self, owner: Owner) -> u8 {
        if self.scene.is_shared { owner.name } else { 0 }
    }

    /// The server as the rules see it, for this object.
    fn shown(&self, object: &Obj, index: usize, seen: &Seen) -> ProtocolServer {
        let server = &seen.server;
        let tags = || server.tags.iter().flatten();
        let mine = object.owner;
        let own = tags()
            .filter(|(owner, _)| *owner == mine)
            .map(|(_, seq)| *seq);
        let is_previous = |(owner, _): &(Owner, u32)| owner.name == mine.name && *owner != mine;
        let is_same_host = server.owner.name == mine.name;
        ProtocolServer {
            id: id(index),
            state: server.state,
            created: unix(server.created),
            has_cluster_tag: server.cluster,
            has_other_cluster: server.foreign,
            own_seq: own.max(),
            is_of_previous_namespace: tags().any(is_previous),
            has_other_owner: tags().any(|(owner, _)| *owner != mine),
            has_other_namespace: tags()
                .any(|(owner, _)| self.namespace_of(*owner) != self.namespace_of(mine)),
            is_retained: server.kept,
            is_untagged_namesake: tags().next().is_none() && is_same_host,
            seen: span(seen.at),
        }
    }

    fn servers(&self, object: &Obj) -> Vec<ProtocolServer> {
        let seen = self.own().seen.iter().enumerate();
        let seen = seen.filter_map(|(index, seen)| Some((index, seen.as_ref()?)));
        let all = seen.map(|(index, seen)| self.shown(object, index, seen));
        let mut all: Vec<ProtocolServer> = all.collect();
        self.scene.bend_servers(&mut all);
        self.scene
            .bend_own(object.record().as_ref(), object, &mut all);
        all
    }

    /// Seen servers that fulfil this for another one of these objects.
    fn which(
        &self,
        object: &Obj,
        objects: &[Option<Obj>; SLOTS],
        is_so: impl Fn(&Obj, usize, &Srv) -> bool,
    ) -> Vec<ServerId> {
        let others = || objects.iter().flatten().filter(|o| o.uid != object.uid);
        let seen = self.own().seen.iter().enumerate();
        let seen = seen.filter_map(|(index, seen)| Some((index, seen.as_ref()?.server)));
        seen.filter(|(index, server)| others().any(|o| is_so(o, *index, server)))
            .map(|(index, _)| id(index))
            .collect()
    }

    /// The objects of its cluster that this process sees.
    fn objects(&self, live: bool) -> [Option<Obj>; SLOTS] {
        let mut objects = match self.scene.stale && !live {
            true => self.own().cache,
            false => self.world.objects,
        };
        if self.scene.twin {
            for (slot, object) in objects.iter_mut().enumerate() {
                object.take_if(|_| slot != self.process);
            }
        }
        objects
    }

    /// A list's check of the known server, if the account has one.
    fn known(&self, list: Option<(Tick, bool)>) -> Option<ListSummary> {
        let (began, is_shown) = list?;
        let known = match self.scene.has_known(self.world.account.made_for) {
            false => KnownServerCheck::NoneExists,
            true if is_shown || self.is_off(Rule::KnownServer) => KnownServerCheck::Shown,
            true => KnownServerCheck::NotShown,
        };
        let began = match self.is_off(Rule::FreshList) {
            true => self.now(),
            false => span(began),
        };
        Some(ListSummary { began, known })
    }

    fn end_of(object: &Obj, objects: &[Option<Obj>; SLOTS]) -> DeletionAction {
        let is_named = |other: &Obj| {
            !other.deleting && other.names.map(usize::from) == object.has() && other.names.is_some()
        };
        match object.retain || objects.iter().flatten().any(is_named) {
            true => DeletionAction::Retain,
            false => DeletionAction::Release,
        }
    }

    fn facts(&self, object: &Obj, objects: &[Option<Obj>; SLOTS]) -> ProtocolObject {
        let uid = object.uid();
        let order = object.order.map(|order| ProtocolOrder {
            account: match self.is_off(Rule::NewKey) {
                true => self.world.account_id(),
                false => order.account,
            },
            ..order
        });
        let release = object
            .release
            .map(|release| match self.is_off(Rule::ReleaseUid) {
                true => Release { uid, ..release },
                false => release,
            });
        ProtocolObject {
            uid: object.uid(),
            finalizer: object.finalizer
                || (self.is_off(Rule::RestoreFinalizer) && object.record().is_some()),
            deleting: object.deleting,
            order,
            release,
            external: object.names.map(|index| id(index.into())),
            end: Self::end_of(object, objects),
            after: match self.is_replaced(object) {
                true => EndedServerAction::Replace,
                false => EndedServerAction::Wait,
            },
            acknowledged: object.acknowledged,
        }
    }

    /// Whether the policies replace the recorded server in the state that was seen.
    fn is_replaced(&self, object: &Obj) -> bool {
        let Some(id) = object.record().and_then(|order| order.outcome.server()) else {
            return false;
        };
        let released = object.release.filter(|it| it.uid == object.uid());
        let gave_up = released.is_some_and(|it| it.server == id && !it.deleting);
        match self.own().seen[index(id)].map(|seen| seen.server.state) {
            Some(ServerPhase::Failed) => object.replace,
            Some(ServerPhase::Released | ServerPhase::Releasing) if gave_up => object.replace,
            Some(ServerPhase::Released | ServerPhase::Releasing) => object.reorder,
            Some(ServerPhase::Live) | None => false,
        }
    }

    /// Builds the protocol's view of the object, with this memory.
    fn with_view<T>(
        &self,
        object: &Obj,
        memory: &ProtocolMemory,
        f: impl FnOnce(&ProtocolView<'_>) -> T,
    ) -> T {
        let process = self.own();
        let servers = self.servers(object);
        let objects = self.objects(false);
        let mut recorded = self.which(object, &objects, |other, at, _| other.has() == Some(at));
        let mut owned = self.which(object, &objects, |other, _, server| {
            server.has_tag(other.owner)
        });
        if self.is_off(Rule::OneOwner) {
            (recorded, owned) = (Vec::new(), Vec::new());
        }
        let (list, whole) = (self.known(process.list), self.known(process.whole));
        let recorded_at = object.record().and_then(|order| order.outcome.server());
        let recorded_at = recorded_at.map(index);
        let mut view = ProtocolView {
            now: self.now(),
            unix: unix(self.world.now),
            leader_since: span(process.since),
            times: self.scene.times(),
            object: self.facts(object, &objects),
            memory,
            servers: &servers,
            recorded_elsewhere: &recorded,
            owned_elsewhere: &owned,
            // Every list of the account is a list by cluster tag, too.
            cluster_list: list,
            account_list: whole,
            is_listed: recorded_at
                .is_some_and(|at| process.seen[at].is_some_and(|seen| seen.listed)),
            account: self.world.account_id(),
            is_shared: self.scene.is_shared,
        };
        self.scene.bend_view(&mut view);
        f(&view)
    }

    fn decided(&self, object: &Obj, memory: &ProtocolMemory) -> ProtocolStep {
        let step = self.with_view(object, memory, protocol::decide);
        self.scene.bend_step(step, object)
    }

    /// The refreshed memory of this process for the object.
    fn memory_of(&self, object: &Obj) -> ProtocolMemory {
        let process = self.own();
        let mut memory = match process.uids[self.slot] == Some(object.uid) {
            true => process.memory[self.slot],
            false => ProtocolMemory::default(),
        };
        let facts = self.facts(object, &[None; SLOTS]);
        let order = facts.order.filter(|order| order.uid == object.uid());
        memory.observe_object(&facts, order, object.uid >= process.newer, self.now());
        memory
    }

    /// The watch shows the object.
    pub fn see(&mut self) {
        let slot = self.slot;
        if let Some(object) = self.object() {
            self.me().memory[slot] = self.memory_of(&object);
            self.me().uids[slot] = Some(object.uid);
        } else {
            self.me().uids[slot] = None;
        }
    }

    /// The decision of this process now.
    pub fn plan(&self) -> Option<(Obj, ProtocolMemory, ProtocolStep)> {
        let object = self.object()?;
        self.own().key?;
        let memory = self.memory_of(&object);
        let memory = self.with_view(&object, &memory, resolve::observed);
        let step = self.decided(&object, &memory);
        Some((object, memory, step))
    }

    /// Whether a list is useful, because it is requested or shows more than was seen. Returns whether it is the whole
    /// account's.
    pub fn wants_list(&self) -> Option<bool> {
        let (object, memory, step) = self.plan()?;
        if let ProtocolStep::Wait(Wait {
            list: Some(list), ..
        }) = step
        {
            let is_due = span(self.world.now) > list.after;
            return is_due.then_some(list.whole);
        }
        let id = match object.record()?.outcome {
            ProtocolOutcome::Created(id) | ProtocolOutcome::Adopting(id) => id,
            _ => return None,
        };
        let at = index(id);
        let key = self.own().key?;
        let there = self.world.servers[at].filter(|s| s.account == key);
        let seen = self.own().seen[at].map(|seen| seen.server);
        let may_be_false = self.world.has(Fault::Omit) || self.world.has(Fault::EmptyList);
        let is_stale = there != seen || memory.missing().is_some() || may_be_false;
        let is_old = self.own().whole.is_none_or(|(at, _)| at < self.world.now);
        (is_stale && is_old).then_some(true)
    }

    /// Reads a list.
    fn list(&mut self, whole: bool, read: ListRead) {
        let now = self.world.now;
        let Some(key) = self.own().key else { return };
        let from = match read {
            ListRead::Late => self.world.before[0],
            _ => self.world.servers,
        };
        let whole = whole && !self.is_off(Rule::Whole);
        let known_at = u8::from(self.world.account.made_for != 0);
        let mut is_known = known_at == key && self.scene.has_known(known_at);
        is_known &= read != ListRead::Empty && read != ListRead::Omits(SERVERS);
        for (index, server) in from.iter().enumerate() {
            let shown = server.filter(|s| s.account == key && (whole || s.cluster));
            let shown = shown.filter(|_| read != ListRead::Empty && read != ListRead::Omits(index));
            let seen = &mut self.world.processes[self.process].seen[index];
            *seen = match (shown, *seen) {
                (Some(server), _) => Some(Seen {
                    at: now,
                    server,
                    listed: true,
                }),
                // Without the cluster tag, a list by cluster tag says nothing about the server.
                (None, Some(seen)) if !whole && !seen.server.cluster => Some(seen),
                (None, _) => None,
            };
        }
        if whole || self.is_off(Rule::Whole) {
            self.me().whole = Some((now, is_known));
        }
        self.me().list = Some((now, is_known));
    }

    /// One reconcile: observe, decide, and the first step of the decision.
    pub fn reconcile(&mut self, read: ListRead) {
        self.use_key();
        if read != ListRead::Not {
            let Some(whole) = self.wants_list() else {
                return;
            };
            self.list(whole, read);
        }
        let Some((object, memory, step)) = self.plan() else {
            return;
        };
        let slot = self.slot;
        self.me().uids[slot] = Some(object.uid);
        self.me().memory[slot] = memory;
        // The read is a step of its own, which may be answered wrongly.
        if read != ListRead::Not && matches!(step, ProtocolStep::Read(_)) {
            return;
        }
        if let Some(order) = object
            .record()
            .filter(|_| self.is_off(Rule::OnlyWriterSends))
            && order.outcome == ProtocolOutcome::Open
            && unix(self.world.now) <= order.send_by
        {
            return self.go(Task::Send {
                order,
                is_sure: true,
            });
        }
        self.begin(&object, step);
    }

    /// The first step of the decision. What is indistinguishable from it is done at once.
    fn begin(&mut self, object: &Obj, step: ProtocolStep) {
        let at = (object.uid, object.version);
        let (uid, version) = at;
        match step {
            ProtocolStep::Wait(_) | ProtocolStep::Reconcile(_) => {}
            ProtocolStep::AddFinalizer => {
                // The API server accepts no new finalizer on a deleted object.
                let is_living = |o: &Obj| !o.deleting;
                if self.world.objects[self.slot]
                    .as_ref()
                    .is_some_and(is_living)
                    && self.write(at, |o| o.finalizer = true)
                {
                    self.memory().added_finalizer();
                }
            }
            ProtocolStep::RemoveFinalizer => self.go(Task::RemoveFinalizer { uid, version }),
            ProtocolStep::ForgetRelease => _ = self.write(at, |o| o.release = None),
            ProtocolStep::Record(order) => match self.scene.slow {
                true => self.go(Task::Write {
                    uid,
                    version,
                    order,
                }),
                false => _ = self.record(at, order),
            },
            ProtocolStep::Order { .. } => {}
            ProtocolStep::Claim(server) => self.claim(object, index(server)),
            ProtocolStep::Finish(server) => self.finish(object, index(server)),
            ProtocolStep::Read(server) => _ = self.get(object, index(server)),
            ProtocolStep::Retain(server) => {
                if self
                    .get(object, index(server))
                    .is_some_and(|s| release::may_retain(&s))
                {
                    self.change(index(server), Change::Kept(true));
                }
            }
            ProtocolStep::Unretain(server) => {
                if self.get(object, index(server)).is_some() {
                    self.change(index(server), Change::Kept(false));
                }
            }
            ProtocolStep::Release(server) => self.record_release(object, server),
        }
    }

    fn change(&mut self, server: usize, change: Change) {
        let server = u8::try_from(server).unwrap();
        let since = self.world.now;
        self.go(Task::Change {
            server,
            change,
            since,
        });
    }

    /// A write at a version.
    fn write(&mut self, (uid, version): (u8, u8), change: impl FnOnce(&mut Obj)) -> bool {
        let slot = self.slot;
        let version = match self.is_off(Rule::Precondition) {
            true => self.world.objects[slot]
                .filter(|o| o.uid == uid)
                .map_or(version, |o| o.version),
            false => version,
        };
        let written = self.world.write(slot, (uid, version), change);
        if written.is_some() {
            let object = self.world.objects[slot];
            self.learn(object);
        }
        written.is_some()
    }

    fn record(&mut self, at: (u8, u8), order: Option<ProtocolOrder>) -> bool {
        let before = self.world.objects[self.slot].and_then(|object| {
            let has = object.has()?;
            let seen = self.own().seen[has].filter(|seen| seen.server.has_tag(object.owner))?;
            (seen.server.is_live() && self.world.servers[has] == Some(seen.server)).then_some(has)
        });
        let other = order.and_then(|order| order.outcome.server());
        let other = other.filter(|other| before.is_some_and(|has| id(has) != *other));
        let is_written = self.write(at, |o| {
            (o.order, o.acknowledged) = (order, AcknowledgedActions::default())
        });
        if is_written {
            if other.is_some() {
                self.world.breaks(Turned);
            }
            self.wrote(order);
        }
        is_written
    }

    fn wrote(&mut self, order: Option<ProtocolOrder>) {
        let now = self.now();
        self.memory().record_written(order, now);
        if let Some(order) = order
            && let ProtocolOutcome::Created(server) = order.outcome
            && let Some(object) = self.world.objects[self.slot]
            && let Some(server) = &mut self.world.servers[index(server)]
        {
            server.owner = object.owner;
            (server.stays, server.stripped) = (false, false);
            if server.foreign {
                self.world.breaks(TakenFromOthers);
            }
        }
    }

    /// Reads a server; none: the answer is 404.
    fn get(&mut self, object: &Obj, at: usize) -> Option<ProtocolServer> {
        let key = self.own().key?;
        let now = self.world.now;
        let Some(server) = self.world.servers[at].filter(|s| s.account == key) else {
            let now = self.now();
            self.memory().read_missing(now);
            return None;
        };
        let listed = self.own().seen[at].is_some_and(|seen| seen.listed);
        let seen = Seen {
            at: now,
            server,
            listed,
        };
        self.me().seen[at] = Some(seen);
        let shown = self.shown(object, at, &seen);
        let now = self.now();
        self.memory().record_seen(now);
        Some(shown)
    }

    /// A read that returns 404 for an existing server.
    pub fn miss(&mut self) {
        let Some((object, memory, _)) = self.plan() else {
            return;
        };
        let slot = self.slot;
        self.me().uids[slot] = Some(object.uid);
        self.me().memory[slot] = memory;
        let now = self.now();
        self.memory().read_missing(now);
    }

    /// The server to read if the next step is a read, which may be answered wrongly.
    pub fn reads(&self) -> Option<usize> {
        match self.plan()?.2 {
            ProtocolStep::Read(server) => Some(index(server)),
            _ => None,
        }
    }

    /// Reads the object live, decides again, and writes the open record.
    pub fn start_order(&mut self, answer: Answer) {
        let slot = self.slot;
        let Some((_, memory, ProtocolStep::Order { .. })) = self.plan() else {
            return;
        };
        self.me().memory[slot] = memory;
        let Some(object) = self.world.objects[slot] else {
            return;
        };
        if Some(object.uid) != self.own().uids[slot]
            || self.world.account.accepted != self.own().key.unwrap_or(9)
        {
            return;
        }
        let ProtocolStep::Order { after, lost, cut } = self.decided(&object, &memory) else {
            return self.learn(Some(object));
        };
        if !object.finalizer {
            if self.write((object.uid, object.version), |o| o.finalizer = true) {
                self.memory().added_finalizer();
            }
            return;
        }
        self.world.nonces += 1;
        let now = self.world.now;
        let nonce = self.world.nonces.into();
        let order = self.with_view(&object, &memory, |view| {
            order::open_record(view, after, (lost, cut), nonce, unix(now + 1))
        });
        let at @ (uid, version) = (object.uid, object.version);
        match answer {
            // Between the read and the write another process may write.
            Answer::Ok if self.scene.slow => {
                let order = Some(order);
                self.go(Task::Write {
                    uid,
                    version,
                    order,
                });
            }
            Answer::Ok => {
                if self.write(at, |o| {
                    (o.order, o.acknowledged) = (Some(order), AcknowledgedActions::default())
                }) {
                    self.wrote(Some(order));
                    self.go(Task::Send {
                        order,
                        is_sure: true,
                    });
                }
            }
            Answer::After => {
                self.write(at, |o| {
                    (o.order, o.acknowledged) = (Some(order), AcknowledgedActions::default())
                });
                self.go(Task::Send {
                    order,
                    is_sure: false,
                });
            }
            _ => {
                let write = Wire::Write {
                    slot: u8::try_from(slot).unwrap(),
                    version: object.version,
                    order,
                };
                self.world.wire.push(write);
                self.go(Task::Send {
                    order,
                    is_sure: false,
                });
            }
        }
    }

    /// The next step of the process's task.
    pub fn step(&mut self, answer: Answer) {
        let task = self.task();
        self.go(Task::Idle);
        match task {
            Task::Idle => {}
            Task::Send { order, is_sure } => self.send(order, is_sure, answer),
            // A change that is based on an old read is not sent.
            Task::Change { since, .. } if self.world.now > since + 1 => {}
            Task::Change { server, change, .. } => self.send_change(server, change, answer),
            Task::Write {
                uid,
                version,
                order,
            } => {
                let is_written = self.record((uid, version), order);
                if let Some(order) = order.filter(|_| is_written)
                    && order.outcome == ProtocolOutcome::Open
                    && !order.answer_lost
                {
                    self.go(Task::Send {
                        order,
                        is_sure: true,
                    });
                }
            }
            Task::RemoveFinalizer { uid, version } => self.remove_finalizer((uid, version)),
            Task::ReadServer {
                server,
                uid,
                send_by,
                release,
            } => self.read_server(server, uid, send_by, release),
            Task::Delete {
                server,
                uid,
                send_by,
            } => self.delete(server, uid, send_by, answer),
        }
    }

    /// Sends one POST, if the own nonce is recorded and in time.
    fn send(&mut self, order: ProtocolOrder, is_sure: bool, answer: Answer) {
        let slot = self.slot;
        let live = self.world.objects[slot];
        let found = match is_sure || self.is_off(Rule::Nonce) {
            true => Some(order),
            false => live.and_then(|o| o.record()),
        };
        if !is_sure && found == Some(order) {
            self.learn(live);
            self.wrote(Some(order));
        }
        let now = match self.is_off(Rule::SendBy) {
            true => order.send_by,
            false => unix(self.world.now),
        };
        if !order::may_send(&order, found.as_ref(), now) {
            if found == Some(order) {
                self.memory()
                    .record_answer(order.with(ProtocolOutcome::NotSent));
            }
            return;
        }
        let Some(key) = self.own().key else { return };
        let Some(object) = live
            .filter(|o| o.uid() == order.uid)
            .or(self.own().cache[slot])
        else {
            return;
        };
        match answer {
            Answer::NotSent => {
                return self
                    .memory()
                    .record_answer(order.with(ProtocolOutcome::NotSent));
            }
            Answer::Refused => {
                self.judge_post(&object, order.seq);
                return self
                    .memory()
                    .record_answer(order.with(ProtocolOutcome::Refused));
            }
            _ => self.judge_post(&object, order.seq),
        }
        let post = Wire::Post {
            owner: object.owner,
            seq: order.seq,
            account: key,
            sent: self.world.now,
        };
        let lost = ProtocolOrder {
            answer_lost: true,
            ..order
        };
        match answer {
            Answer::Ok => {
                if let Some(server) = self.arrive_post(post) {
                    self.memory()
                        .record_answer(order.with(ProtocolOutcome::Created(id(server))));
                    let listed = false;
                    let (at, it) = (self.world.now, self.world.servers[server]);
                    self.me().seen[server] = it.map(|server| Seen { at, server, listed });
                }
            }
            Answer::After => {
                self.arrive_post(post);
                self.memory().record_answer(lost);
            }
            Answer::Later => {
                self.world.wire.push(post);
                self.memory().record_answer(lost);
            }
            _ => self.memory().record_answer(lost),
        }
    }

    fn arrive_post(&mut self, post: Wire) -> Option<usize> {
        super::outside::arrive(self.world, post)
    }

    /// Checks the promises about a POST.
    fn judge_post(&mut self, object: &Obj, seq: u32) {
        let owner = object.owner;
        let world = &mut *self.world;
        if world.posts.contains(&(owner, seq)) || world.is_under_way(owner) {
            world.breaks(SecondPost);
        }
        if world.live_of(owner).next().is_some() {
            world.breaks(OrderDespiteOwn);
        }
        let is_previous = |s: &&Srv| {
            s.is_live()
                && s.owner.name == owner.name
                && s.owner != owner
                && !s.second_allowed
                && !s.stripped
        };
        if world.servers.iter().flatten().any(|s| is_previous(&s)) {
            world.breaks(OrderDespitePrevious);
        }
        world.posts.push((owner, seq));
    }

    fn send_change(&mut self, server: u8, change: Change, answer: Answer) {
        match answer {
            Answer::Before => {}
            Answer::Later => {
                let sent = self.world.now;
                self.world.wire.push(Wire::Tag {
                    server,
                    change,
                    sent,
                });
            }
            _ => {
                super::outside::retag(self.world, server, change);
                if answer != Answer::Ok {
                    return;
                }
                let at = usize::from(server);
                let now = self.world.now;
                if let (Some(seen), Some(server)) = (
                    &mut self.world.processes[self.process].seen[at],
                    self.world.servers[at],
                ) {
                    (seen.at, seen.server) = (now, server);
                }
                if let Change::Own(..) = change {
                    let now = self.now();
                    self.memory().record_claim(id(at), now);
                }
            }
        }
    }

    /// Lists the objects live and reads the server.
    fn claim(&mut self, object: &Obj, at: usize) {
        let live = match self.is_off(Rule::LiveList) {
            true => self.own().cache,
            false => self.objects(true),
        };
        let Some(server) = self.get(object, at) else {
            return;
        };
        let others = || live.iter().flatten().filter(|o| o.uid != object.uid);
        let is_recorded = others().any(|o| o.has() == Some(at));
        let is_recorded = is_recorded && !self.is_off(Rule::OneOwner);
        let there = self.world.servers[at];
        let is_owned = there.is_some_and(|s| others().any(|o| s.has_tag(o.owner)));
        let is_owned = is_owned && !self.is_off(Rule::OneOwner);
        let gives_way = self.is_off(Rule::KeepOwnTag);
        let server = ProtocolServer {
            own_seq: server.own_seq.filter(|_| !gives_way),
            ..server
        };
        match adopt::claim(&server, self.scene.is_shared, is_recorded, is_owned) {
            adopt::ClaimStep::Wait => {}
            adopt::ClaimStep::Yield => _ = self.record((object.uid, object.version), None),
            adopt::ClaimStep::Tag
                if there.is_some_and(|s| s.cluster && s.has_tag(object.owner)) =>
            {
                let now = self.now();
                self.memory().record_claim(id(at), now);
            }
            adopt::ClaimStep::Tag => {
                let owner = there
                    .map(|s| s.owner)
                    .filter(|owner| *owner != super::scene::NOBODY);
                if self.scene.is_shared
                    && owner.is_some_and(|owner| owner.name != object.owner.name)
                {
                    self.world.breaks(TakenFromOthers);
                }
                if let Some(order) = object.record() {
                    self.change(at, Change::Own(object.owner, order.seq));
                }
            }
        }
    }

    fn finish(&mut self, object: &Obj, at: usize) {
        let Some(order) = object.record() else { return };
        let server = match self.is_off(Rule::AdoptRead) {
            true => self.own().seen[at].map(|seen| self.shown(object, at, &seen)),
            false => self.get(object, at),
        };
        let Some(server) = server else { return };
        let (uid, version) = (object.uid, object.version);
        let objects = self.objects(false);
        let comes_before = |other: &Obj| {
            let recorded = other.record().and_then(|order| order.outcome.server());
            other.owner < object.owner
                && recorded == Some(id(at))
                && self.world.servers[at].is_some_and(|s| s.has_tag(other.owner))
        };
        let mut others = objects.iter().flatten().filter(|o| o.uid != object.uid);
        let yields = others.any(comes_before) && !self.is_off(Rule::Yield);
        match adopt::finish(&order, &server, yields) {
            adopt::AdoptionStep::Yield => _ = self.record((uid, version), None),
            adopt::AdoptionStep::ClaimAgain => self.memory().unclaimed(),
            adopt::AdoptionStep::Wait => {}
            adopt::AdoptionStep::RemoveOther => {
                let tags = self.world.servers[at].map(|s| s.tags).unwrap_or_default();
                let other = tags
                    .iter()
                    .flatten()
                    .find(|(owner, _)| *owner != object.owner);
                if let Some((owner, _)) = other {
                    self.change(at, Change::Off(*owner));
                }
            }
            adopt::AdoptionStep::Adopted(order) => self.memory().record_answer(order),
        }
    }

    fn remove_finalizer(&mut self, at: (u8, u8)) {
        let slot = self.slot;
        let before = self.world.objects[slot];
        let at = match self.is_off(Rule::FinalizerPrecondition) {
            true => before
                .filter(|o| o.uid == at.0)
                .map_or(at, |o| (o.uid, o.version)),
            false => at,
        };
        if self
            .world
            .write(slot, at, |o| o.finalizer = false)
            .is_none()
        {
            return;
        }
        let object = self.world.objects[slot];
        self.learn(object);
        let Some(gone) = before.filter(|_| object.is_none()) else {
            return;
        };
        let objects = self.objects(true);
        let is_named = |index: usize| {
            let mut others = objects.iter().flatten();
            others.any(|o| o.names.map(usize::from) == Some(index) || o.has() == Some(index))
        };
        let mut live: Vec<usize> = self.world.live_of(gone.owner).collect();
        live.retain(|index| !is_named(*index));
        let is_let = |s: &Srv| s.kept || s.stripped;
        let servers = &mut self.world.servers;
        let mut is_dropped = self
            .world
            .wire
            .iter()
            .any(|w| matches!(w, Wire::Post { owner, .. } if *owner == gone.owner));
        for index in live {
            if let Some(server) = &mut servers[index] {
                is_dropped |= !is_let(server);
                server.stays = server.kept;
            }
        }
        if is_dropped {
            self.world.breaks(Dropped);
        }
    }

    /// Reads the object live, decides again, and records the release.
    fn record_release(&mut self, object: &Obj, server: ServerId) {
        let slot = self.slot;
        let live = self.world.objects[slot].filter(|o| o.uid == object.uid);
        let Some(live) = live else { return };
        let memory = self.own().memory[slot];
        if self.decided(&live, &memory) != ProtocolStep::Release(server) {
            return self.learn(Some(live));
        }
        let begun = live
            .release
            .is_some_and(|it| it.uid == live.uid() && it.deleting);
        if live.deleting && live.retain && !begun {
            self.world.breaks(KeptDelete);
        }
        let release = Release {
            uid: live.uid(),
            server,
            send_by: unix(self.world.now + 1),
            deleting: live.deleting,
        };
        let is_recorded = self.is_off(Rule::ReleaseRecord)
            || self.write((live.uid, live.version), |o| o.release = Some(release));
        if is_recorded {
            self.go(Task::ReadServer {
                server: u8::try_from(index(server)).unwrap(),
                uid: live.uid,
                send_by: self.world.now + 1,
                release,
            });
        }
    }

    fn read_server(&mut self, server: u8, uid: u8, send_by: Tick, release: Release) {
        let Some(object) = self.object().or(self.own().cache[self.slot]) else {
            return;
        };
        let at = usize::from(server);
        let fresh = match self.is_off(Rule::FreshRead) {
            true => self.own().seen[at].map(|seen| self.shown(&object, at, &seen)),
            false => self.get(&object, at),
        };
        let Some(mut fresh) = fresh else { return };
        fresh.has_other_owner &= !self.is_off(Rule::OneTag);
        if object.uid == uid && release::may_delete(&fresh, &release) {
            // Between this read and the DELETE it may become live.
            if fresh.is_live() && !release.deleting {
                self.world.breaks(LivingDelete);
            }
            self.go(Task::Delete {
                server,
                uid,
                send_by,
            });
        }
    }

    fn delete(&mut self, server: u8, uid: u8, send_by: Tick, answer: Answer) {
        if self.world.now > send_by && !self.is_off(Rule::DeleteBy) {
            return;
        }
        let sent = self.world.now;
        match answer {
            Answer::Before => {}
            Answer::Refused => self.memory().refused_release(),
            Answer::Later => self.world.wire.push(Wire::Delete { server, uid, sent }),
            _ => super::outside::delete(self.world, server, uid),
        }
    }

    /// Whether the next request may be refused: an order, or the DELETE of a failed server.
    pub fn may_be_refused(&self) -> bool {
        match self.task() {
            Task::Delete { server, .. } => self.world.servers[usize::from(server)]
                .is_some_and(|s| s.state == ServerPhase::Failed),
            Task::Send { .. } => true,
            _ => false,
        }
    }

    /// Accepts the key in the Secret, or continues with the previous one (K1).
    fn use_key(&mut self) {
        let account = self.world.account;
        if self.own().key == Some(account.leads) && account.accepted == account.leads {
            return;
        }
        if account.leads == account.accepted {
            return self.switch_to(account.leads);
        }
        let is_known = self.scene.has_known(account.made_for) && account.leads == account.made_for;
        let is_used = |o: &Obj| {
            let outcome = o.record().map(|order| order.outcome);
            matches!(
                outcome,
                Some(ProtocolOutcome::Open | ProtocolOutcome::Created(_))
            )
        };
        let is_used = self.objects(false).iter().flatten().any(is_used);
        let is_used = is_used && !self.is_off(Rule::NewKey);
        let is_same = is_known || account.same;
        if is_same || account.new || !is_used {
            let account = &mut self.world.account;
            account.accepted = account.leads;
            if !is_same {
                account.id += 1;
                account.made_for = account.leads;
            }
            (account.same, account.new) = (false, false);
            let leads = account.leads;
            self.switch_to(leads);
        }
    }

    /// Servers seen with another key do not count.
    fn switch_to(&mut self, key: u8) {
        let me = self.me();
        if me.key.replace(key).is_some_and(|previous| previous != key) {
            me.seen = [None; SERVERS];
            (me.list, me.whole) = (None, None);
        }
    }
}

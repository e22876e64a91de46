//! What a process does next: the act half, each call and each write a step of its own.

use super::{
    outside::{create, learn, write},
    pass::{self, EFFECTS, Variant},
    real::{self, MEMORIES},
    world::*,
};
use flexmetal_operator::{
    controllers::server::{
        decide::{Effect, NewOrder, fence},
        facts::Facts,
        memory::Observation,
    },
    kinds::server::{OrderOutcome, OrderRecord},
};

/// How a call or a write ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    Ok,
    /// Lost before any effect.
    LostBefore,
    /// Lost, and the effect is there.
    LostAfter,
    /// Lost, and the effect comes later.
    Later,
    /// A 5xx before any effect.
    ErrorBefore,
    /// A 5xx, and the effect comes later.
    ErrorLater,
    /// Refused by the provider.
    Refused,
}

/// A process at work in a world.
pub struct Hand<'a> {
    pub world: &'a mut World,
    pub process: usize,
    pub slot: usize,
    pub variant: Variant,
    pub has_control: bool,
    /// The watch shows every change at once.
    pub prompt: bool,
    /// A process may stand still between its last look at the clock and the socket.
    pub freezes: bool,
}

/// How a write to the API server ended.
pub enum Written {
    Done(Obj),
    Stale,
    Unknown,
}

impl Hand<'_> {
    pub fn me(&mut self) -> &mut Process {
        &mut self.world.processes[self.process]
    }

    fn task(&self) -> Task {
        self.world.processes[self.process].task[self.slot]
    }

    pub fn go(&mut self, task: Task) {
        let slot = self.slot;
        self.me().task[slot] = task;
    }

    pub fn facts(&self, object: &Obj) -> Facts {
        let sight = pass::sight(self.world, self.process, object, self.has_control);
        pass::facts(self.variant, &sight)
    }

    pub fn mono(&self) -> std::time::Duration {
        real::ticks(self.world.now - self.world.processes[self.process].started)
    }

    fn note(&mut self, observation: Observation) {
        let slot = self.slot;
        let mut memory = (*MEMORIES.get(self.me().memory[slot])).clone();
        let spacing = real::times().listing_spacing;
        let nothing = matches!(
            &observation,
            Observation::Ordered { order, .. } if order.outcome == Some(OrderOutcome::NotSent)
        );
        memory.note(observation, spacing);
        if nothing {
            memory.note(Observation::Failed { at: self.mono() }, spacing);
        }
        self.me().memory[slot] = real::keep(memory);
    }

    pub fn failed(&mut self) {
        let at = self.mono();
        self.note(Observation::Failed { at });
        self.go(Task::Idle);
    }

    pub fn done(&mut self, observation: Observation) {
        self.note(observation);
        self.go(Task::Idle);
    }

    /// The process has read or written the object: it never goes back behind that.
    fn learn(&mut self, object: Option<Obj>) {
        let slot = self.slot;
        learn(self.me(), slot, object);
    }

    /// GET of the object; None when it is gone.
    pub fn get(&mut self, like: &Obj) -> Option<Obj> {
        let found = self.world.objects[self.slot].filter(|o| o.who == like.who);
        if found.is_some() {
            self.learn(found);
        }
        found
    }

    /// A write that rests on a version, and how its answer fares.
    pub fn write(
        &mut self,
        version: u8,
        like: Who,
        answer: Answer,
        change: impl FnOnce(&mut Obj),
    ) -> Written {
        if answer == Answer::LostBefore || answer == Answer::Later {
            return Written::Unknown;
        }
        let Some(done) = write(self.world, self.slot, version, like, self.prompt, change) else {
            return Written::Stale;
        };
        if answer == Answer::LostAfter {
            return Written::Unknown;
        }
        if self.world.objects[self.slot].is_some() {
            self.learn(Some(done));
        }
        Written::Done(done)
    }

    /// One pass: observe, decide; then the effect is next, or the report is made.
    pub fn pass(&mut self) {
        let Some(object) = self.world.processes[self.process].cache[self.slot] else {
            return;
        };
        let sight = pass::sight(self.world, self.process, &object, self.has_control);
        if let Some(intent) = pass::stolen(self.variant, &sight) {
            let begun = Begun {
                intent,
                since: self.world.now,
                planned: 0,
                version: object.version,
            };
            return self.go(Task::Send(begun, true));
        }
        let out = pass::decided(self.variant, &sight);
        let slot = self.slot;
        self.me().memory[slot] = out.memory;
        match out.effect {
            Some(effect) if out.due && self.is_one_step(effect) => {
                self.act(effect, &object, Answer::Ok)
            }
            Some(effect) if out.due => self.go(Task::Act { effect, object }),
            // The status is written with the version that the facts came from; a conflict loses it.
            _ if object.status != Some(out.status) && out.status != StatusA::default() => {
                let status = out.status;
                self.write(object.version, object.who, Answer::Ok, |o| {
                    o.status = Some(status)
                });
            }
            _ => {}
        }
    }

    /// Whether nothing is gained by a state between the decision and its effect: looks, and the order,
    /// which begins by reading and deciding anew. The rest is parted, so that the world moves in between.
    fn is_one_step(&self, effect: u32) -> bool {
        match &*EFFECTS.get(effect) {
            Effect::Order(_) | Effect::LookForOrder(_) | Effect::Read { .. } => true,
            Effect::WriteIntent(_) | Effect::HoldObject => !self.world.has(Fault::LostWrite),
            _ => false,
        }
    }

    /// The next step of what the process is in the middle of.
    pub fn step(&mut self, answer: Answer) {
        match self.task() {
            Task::Idle => {}
            Task::Act { effect, object } => self.act(effect, &object, answer),
            Task::Note(begun) => self.write_note(begun, answer),
            Task::NoteLost(begun) => {
                let like = self.world.objects[self.slot].filter(|o| o.who == begun.intent.who);
                let found = like.and_then(|o| self.get(&o));
                let ours = real::intent(&begun.intent);
                match found {
                    Some(o) if fence::is_ours(&real::object(&o), &ours) => self.noted(begun, o),
                    _ => self.go(Task::Send(begun, false)),
                }
            }
            Task::Status(begun, object) => self.write_status(begun, &object, answer),
            Task::StatusLost(begun) => {
                let found = self.world.objects[self.slot].filter(|o| o.who == begun.intent.who);
                let found = found.and_then(|o| self.get(&o));
                let ours = real::intent(&begun.intent);
                let confirmed = found.is_some_and(|o| {
                    fence::is_ours(&real::object(&o), &ours)
                        && o.status
                            .and_then(|s| s.order)
                            .is_some_and(|r| r.intent == begun.intent)
                });
                self.go(Task::Send(begun, confirmed));
            }
            Task::Send(begun, confirmed) => self.send(begun, confirmed, answer),
            Task::Frozen(begun) => self.post(begun, answer),
            Task::Delete {
                machine,
                since,
                object,
            } => self.delete(machine, since, &object, answer),
        }
    }

    fn act(&mut self, number: u32, object: &Obj, answer: Answer) {
        let effect = EFFECTS.get(number);
        let denied = self.world.mood == Mood::Denied;
        if denied
            && !matches!(
                *effect,
                Effect::WriteIntent(_) | Effect::HoldObject | Effect::LetGo
            )
        {
            return self.failed();
        }
        match &*effect {
            Effect::Order(planned) => self.begin(number, planned, object),
            Effect::WriteIntent(intent) => {
                let note = real::intent_of(intent);
                if object.deleting && !object.finalizer {
                    return self.failed();
                }
                self.plain(object, answer, |o| {
                    o.finalizer = true;
                    o.note = Some(note);
                    o.begun = None;
                });
            }
            Effect::HoldObject => self.plain(object, answer, |o| o.finalizer = true),
            Effect::LetGo => {
                let rightly = self.may_be_dropped(object);
                let before = self.world.objects[self.slot];
                self.plain(object, answer, |o| o.finalizer = false);
                if self.world.objects[self.slot] != before && !rightly {
                    self.world.broken = Some(Broken::Dropped);
                }
            }
            Effect::LookForOrder(search) => self.look(search),
            Effect::Read { uuid, not_listed } => {
                let number = real::machine_of(uuid);
                let at = self.mono();
                match self.read(number) {
                    Some(m) => self.done(Observation::Found {
                        at,
                        failed: m.life == Life::Failed && !m.delivered,
                    }),
                    None => self.done(Observation::NotFound {
                        at,
                        listing: *not_listed,
                    }),
                }
            }
            Effect::AddTag { uuid, tag, when } => self.retag(object, uuid, tag, when, true),
            Effect::RemoveTag { uuid, tag, when } => self.retag(object, uuid, tag, when, false),
            Effect::BeginRelease { uuid } => {
                self.begin_release(object, real::machine_of(uuid), answer)
            }
            Effect::Release { uuid } => {
                let machine = real::machine_of(uuid);
                match self.read(machine) {
                    Some(m) if m.life == Life::Released => self.done(Observation::Done),
                    Some(_) => self.go(Task::Delete {
                        machine,
                        since: self.world.now,
                        object: *object,
                    }),
                    None => self.failed(),
                }
            }
        }
    }

    /// A single write that rests on the version that the decision saw.
    fn plain(&mut self, object: &Obj, answer: Answer, change: impl FnOnce(&mut Obj)) {
        match self.write(object.version, object.who, answer, change) {
            Written::Unknown => self.failed(),
            Written::Done(_) => self.done(Observation::Done),
            Written::Stale => self.done(Observation::Stale),
        }
    }

    /// Whether the finalizer may truly go: no live machine of this object, but those that policy lets stay.
    fn may_be_dropped(&self, object: &Obj) -> bool {
        if object.retain && object.begun.is_none() {
            return true;
        }
        let lives = self
            .world
            .machines
            .iter()
            .any(|m| m.owner == object.who && m.is_live() && !m.retained);
        let coming = self
            .world
            .wire
            .iter()
            .any(|w| matches!(w, Wire::Post { intent, .. } if intent.who == object.who));
        !lives && !coming
    }

    fn begin(&mut self, number: u32, planned: &NewOrder, object: &Obj) {
        let Some(fresh) = self.get(object) else {
            return self.failed();
        };
        let facts = self.facts(&fresh);
        let word = self.world.attempts;
        let begun = fence::begin(
            &facts,
            planned,
            &format!("a{word}"),
            real::times().send_window,
        );
        match begun {
            Some(intent) => {
                self.world.attempts += 1;
                self.go(Task::Note(Begun {
                    intent: real::intent_of(&intent),
                    since: self.world.now,
                    planned: number,
                    version: fresh.version,
                }));
            }
            None => self.failed(),
        }
    }

    fn write_note(&mut self, begun: Begun, answer: Answer) {
        let slot = u8::try_from(self.slot).unwrap();
        if answer == Answer::Later {
            self.world.wire.push(Wire::Intent {
                slot,
                version: begun.version,
                intent: begun.intent,
            });
        }
        let written = self.write(begun.version, begun.intent.who, answer, |o| {
            o.finalizer = true;
            o.note = Some(begun.intent);
            o.begun = None;
        });
        match written {
            Written::Done(object) => self.noted(begun, object),
            Written::Stale => self.failed(),
            Written::Unknown => self.go(Task::NoteLost(begun)),
        }
    }

    fn noted(&mut self, begun: Begun, object: Obj) {
        if self.variant == Variant::NoIntentInStatus {
            self.go(Task::Send(begun, true));
        } else {
            self.go(Task::Status(begun, object));
        }
    }

    fn record(begun: &Begun) -> OrderRecord {
        let failures = match &*EFFECTS.get(begun.planned) {
            Effect::Order(planned) => planned.failures,
            _ => 0,
        };
        OrderRecord {
            intent: real::intent(&begun.intent),
            outcome: None,
            settled_at: None,
            message: None,
            failures,
            ssh_keys_hash: None,
        }
    }

    fn write_status(&mut self, begun: Begun, object: &Obj, answer: Answer) {
        let order = real::record_of(&Self::record(&begun));
        let ready = ReadyA {
            on: false,
            since: 0,
            reason: real::reason_number(flexmetal_operator::kinds::Reason::Ordering),
        };
        let status = StatusA {
            order: Some(order),
            uuid: None,
            ready: Some(ready),
            stalled: false,
        };
        match self.write(object.version, object.who, answer, |o| {
            o.status = Some(status)
        }) {
            Written::Done(_) => self.go(Task::Send(begun, true)),
            Written::Stale => self.go(Task::Send(begun, false)),
            Written::Unknown => self.go(Task::StatusLost(begun)),
        }
    }

    fn send(&mut self, begun: Begun, confirmed: bool, answer: Answer) {
        let started = self.world.processes[self.process].started;
        let window = real::times().send_window;
        let in_time = self.variant == Variant::NoSendBy
            || fence::may_send(
                &real::intent(&begun.intent),
                real::moment(begun.since, started),
                real::moment(self.world.now, started),
                window,
            );
        if !confirmed || !in_time {
            return self.settled(begun, OrderOutcome::NotSent);
        }
        if self.freezes {
            return self.go(Task::Frozen(begun));
        }
        self.post(begun, answer);
    }

    fn settled(&mut self, begun: Begun, outcome: OrderOutcome) {
        let mut order = Self::record(&begun);
        order.outcome = Some(outcome);
        order.settled_at = Some(real::wall(self.world.now));
        order.failures = order.failures.saturating_add(1);
        self.done(Observation::Ordered { order, uuid: None });
    }

    fn post(&mut self, begun: Begun, answer: Answer) {
        let key = (begun.intent.who, begun.intent.epoch);
        if self.world.posts.contains(&key) {
            self.world.broken = Some(Broken::SecondPost);
        }
        self.world.posts.push(key);
        self.world.posts.sort_unstable();
        if self.world.mood == Mood::Denied || answer == Answer::Refused {
            return self.settled(begun, OrderOutcome::Refused);
        }
        match answer {
            Answer::Later | Answer::ErrorLater => {
                self.world.wire.push(Wire::Post {
                    intent: begun.intent,
                    sent: self.world.now,
                });
            }
            Answer::LostBefore | Answer::ErrorBefore => {}
            _ => {
                let number = create(self.world, &begun.intent);
                let made = self.world.machines[usize::from(number)];
                self.me().seen[usize::from(number)] = Some(made);
                let mut order = Self::record(&begun);
                order.outcome = Some(OrderOutcome::Created);
                order.settled_at = Some(BASE);
                order.failures = 0;
                return self.done(Observation::Ordered {
                    order,
                    uuid: Some(real::uuid(number)),
                });
            }
        }
        let is_error = matches!(answer, Answer::ErrorLater | Answer::ErrorBefore);
        match self.variant {
            Variant::BlindRetry => self.settled(begun, OrderOutcome::NotSent),
            Variant::ServerErrorRefuses if is_error => self.settled(begun, OrderOutcome::Refused),
            _ => self.done(Observation::Ordered {
                order: Self::record(&begun),
                uuid: None,
            }),
        }
    }
}

//! What a process does next: the act half, each call and each write a step of its own.

use super::{
    account,
    outside::{annotate, learn, write},
    pass::{self, EFFECTS, Variant},
    real::{self, MEMORIES},
    rules,
    world::*,
};
use flexmetal_core::{
    once::{Reply, Stage},
    server::{
        answers,
        decide::{Effect, metadata},
        facts::Facts,
        memory::Observation,
    },
    trouble::Trouble,
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
    /// Whether the kind was being deleted when the pass looked.
    pub kind_deleting: bool,
    /// The watch shows every change at once.
    pub prompt: bool,
    /// A process may stand still between its last look at the clock and the socket.
    pub freezes: bool,
    /// The world may move on between the read of a machine and the mark that is put on it.
    pub parts_marks: bool,
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
        let sight = pass::sight(self.world, self.process, object, self.kind_deleting);
        pass::facts(self.variant, &sight)
    }

    pub fn mono(&self) -> std::time::Duration {
        real::ticks(self.world.now - self.world.processes[self.process].started)
    }

    fn note(&mut self, observation: Observation) {
        let slot = self.slot;
        let mut memory = (*MEMORIES.get(self.me().memory[slot])).clone();
        memory.note(
            observation,
            self.mono(),
            real::times().absence_check_interval,
        );
        self.me().memory[slot] = real::keep(memory);
    }

    pub fn failed(&mut self) {
        self.done(Observation::Failed(Trouble::unexpected("it failed")));
    }

    pub fn done(&mut self, observation: Observation) {
        self.note(observation);
        self.go(Task::Idle);
    }

    /// The process has read or written the object: it never goes back behind that.
    fn learn(&mut self, object: Option<Obj>) {
        let (slot, now) = (self.slot, self.world.now);
        learn(self.me(), slot, object, now);
    }

    /// GET of the object; None when it is gone.
    pub fn get(&mut self, like: &Obj) -> Option<Obj> {
        let found = self.world.objects[self.slot].filter(|o| o.who == like.who);
        if found.is_some() {
            self.learn(found);
        }
        found
    }

    /// A write that rests on a version, and how its answer fares. Done, it moves the version on.
    pub fn write(
        &mut self,
        version: &mut u8,
        like: Who,
        answer: Answer,
        change: impl FnOnce(&mut Obj),
    ) -> Reply {
        if answer == Answer::LostBefore || answer == Answer::Later {
            return Reply::Unknown;
        }
        let Some(done) = write(self.world, self.slot, *version, like, self.prompt, change) else {
            return Reply::Stale;
        };
        if answer == Answer::LostAfter {
            return Reply::Unknown;
        }
        if self.world.objects[self.slot].is_some() {
            self.learn(Some(done));
        }
        *version = done.version;
        Reply::Done
    }

    /// One pass: observe, decide; then the effect is next, or the report is made.
    pub fn pass(&mut self) {
        let acts = self.me().acting.is_some();
        if acts {
            account::pass(self.world, self.process);
        }
        let Some(object) = self.world.processes[self.process].cache[self.slot] else {
            return;
        };
        if !acts && !self.has_unrecorded(&object) {
            return;
        }
        let sight = pass::sight(self.world, self.process, &object, self.kind_deleting);
        if let Some(intent) = pass::stolen(self.variant, &sight) {
            return self.go(Task::Attempt(Stage::Send, self.stolen(intent)));
        }
        let out = pass::decided(self.variant, &sight);
        let slot = self.slot;
        self.me().memory[slot] = out.memory;
        match out.effect.filter(|_| acts) {
            Some(effect) if out.due && self.is_one_step(effect) => {
                self.act(effect, &object, Answer::Ok)
            }
            Some(effect) if out.due && self.is_mark(effect) => self.go(Task::Mark {
                effect,
                object,
                since: self.world.now,
                is_read: false,
            }),
            Some(effect) if out.due => self.go(Task::Act {
                effect,
                object,
                kind_deleting: self.kind_deleting,
            }),
            // The status is written with the version that the facts came from; a conflict loses it.
            _ if object.status != Some(out.status) && out.status != StatusA::default() => {
                let status = out.status;
                let mut version = object.version;
                self.write(&mut version, object.who, Answer::Ok, |o| {
                    o.status = Some(status)
                });
            }
            _ => {}
        }
    }

    /// Whether the process knows the outcome of an order that status still calls open: it is recorded
    /// without the lease, too.
    fn has_unrecorded(&self, object: &Obj) -> bool {
        let memory = self.world.processes[self.process].memory[self.slot];
        let known = MEMORIES.get(memory).order.as_ref().map(real::record_of);
        let recorded = object.status.and_then(|s| s.order);
        known.zip(recorded).is_some_and(|(known, recorded)| {
            let is_open = recorded.intent == known.intent && recorded.outcome.is_none();
            is_open && known.outcome.is_some()
        })
    }

    /// Whether nothing is gained by a state between the decision and its effect: looks, and the order,
    /// which reads and decides once more first. The rest is parted, so that the world moves in between.
    fn is_one_step(&self, effect: u32) -> bool {
        match &*EFFECTS.get(effect) {
            Effect::Order(_) | Effect::LookForOrder(_) | Effect::Read { .. } => true,
            Effect::WriteNote(_) | Effect::PutBack(_) | Effect::HoldObject => {
                !self.world.has(Fault::LostWrite)
            }
            _ => false,
        }
    }

    /// Whether the effect puts an order's tag on a machine that others may want, too.
    pub fn is_mark(&self, effect: u32) -> bool {
        let is_order = |tag: &str| matches!(real::tag_of(tag), real::TagA::Order(..));
        self.parts_marks
            && matches!(&*EFFECTS.get(effect), Effect::AddTag { tag, .. } if is_order(tag))
    }

    /// The next step of what the process is in the middle of.
    pub fn step(&mut self, answer: Answer) {
        match self.task() {
            Task::Idle => {}
            Task::Act {
                effect,
                object,
                kind_deleting,
            } => {
                self.kind_deleting = kind_deleting;
                self.act(effect, &object, answer);
            }
            Task::Attempt(stage, begun) => self.attempt(stage, begun, answer),
            // As for a release: what rests on an old read is not sent.
            Task::Mark { since, .. } if self.world.now > since => self.failed(),
            Task::Mark {
                effect,
                object,
                is_read: true,
                ..
            } => self.change_tag(effect, &object, answer),
            Task::Mark { effect, object, .. } => self.act(effect, &object, answer),
            Task::Frozen(begun) => self.post(&begun, answer),
            Task::Delete {
                machine,
                since,
                object,
                record,
            } => self.delete(machine, since, &object, &record, answer),
        }
    }

    fn act(&mut self, number: u32, object: &Obj, answer: Answer) {
        let effect = EFFECTS.get(number);
        match &*effect {
            Effect::Order(planned) => self.start(planned, object),
            Effect::Claim { uuid, .. } if !self.may_claim(object, uuid) => self.failed(),
            Effect::WriteNote(note) | Effect::Claim { note, .. } | Effect::PutBack(note) => {
                let is_put_back = matches!(&*effect, Effect::PutBack(_));
                let facts = self.facts(object);
                let is_repeated = is_put_back || metadata::is_repeated(&facts, note);
                let note = real::note_of(note);
                // Its outcome goes into an annotation that is there, and nowhere else.
                if note.outcome.is_some() && object.note.is_none() {
                    self.world.broken = Some(Broken::ClosedPutBack);
                }
                // The API server takes no new finalizer on a deleted object.
                if object.deleting && !object.finalizer {
                    return self.failed();
                }
                let written = self.plain(object, answer, |o| annotate(o, note));
                match (written, is_repeated) {
                    (Reply::Done, true) => self.done(Observation::PutBack),
                    (written, _) => self.written(written),
                }
            }
            Effect::HoldObject => {
                let written = self.plain(object, answer, |o| o.finalizer = true);
                self.written(written);
            }
            Effect::LetGo => {
                let rightly = rules::may_be_dropped(self.world, self.kind_deleting, object);
                let before = self.world.objects[self.slot];
                let written = self.plain(object, answer, |o| o.finalizer = false);
                if self.world.objects[self.slot] != before && !rightly {
                    self.world.broken = Some(Broken::Dropped);
                }
                self.written(written);
            }
            Effect::LookForOrder(look) => self.look(look),
            Effect::Read { uuid, not_listed } => {
                let answer = self.read(real::machine_of(uuid));
                let noted = answers::of_read(&answer, *not_listed, self.mono());
                self.done(noted);
            }
            Effect::AddTag { when, .. } | Effect::RemoveTag { when, .. } => {
                self.retag(number, object, when, answer);
            }
            Effect::BeginRelease { uuid } => {
                self.begin_release(object, real::machine_of(uuid), answer);
            }
            Effect::ReleaseFailed { uuid } => {
                self.release_failed(object, real::machine_of(uuid), answer);
            }
            // The worlds here have no wish for power.
            Effect::Command { .. }
            | Effect::WriteOutput(_)
            | Effect::RecordOutput(_)
            | Effect::CheckDeletedOutputs(_)
            | Effect::Reinstall(_)
            | Effect::LookAtInstall { .. }
            | Effect::FindPassword { .. }
            | Effect::FetchPassword { .. }
            | Effect::ForgetPassword { .. } => {
                self.failed();
            }
            Effect::Expire { at } => self.expire(object, *at, answer),
            Effect::Release { uuid } => self.release(object, real::machine_of(uuid)),
        }
    }

    /// A single write that rests on the version that the decision saw.
    fn plain(&mut self, object: &Obj, answer: Answer, change: impl FnOnce(&mut Obj)) -> Reply {
        let mut version = object.version;
        self.write(&mut version, object.who, answer, change)
    }

    pub fn written(&mut self, written: Reply) {
        self.done(answers::of_write(written, || "it failed".into()));
    }
}

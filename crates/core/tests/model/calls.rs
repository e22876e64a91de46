//! Calls to the provider but for the order: looks, tags, releases.

use super::{
    outside::{change_of, change_tag, release},
    pass::{EFFECTS, Variant},
    real::{self, TagA},
    step::{Answer, Hand},
    world::*,
};
use api::release_limit::Admission;
use flexmetal_core::{
    once::Reply,
    server::{
        answers,
        decide::{LookUp, fence, tags},
        memory::{Observation, ReleaseAnswer, Sent},
    },
};
use hosting_types::{Error, Server};

impl Hand<'_> {
    /// GET of a machine, which also goes into the snapshot.
    pub fn read(&mut self, number: u8) -> Result<Server, Error> {
        let found = match self.world.mood {
            Mood::Denied => return Err(real::denied()),
            Mood::Blank => None,
            Mood::Normal => self.world.machines.get(usize::from(number)).copied(),
        };
        let account = self.me().connection.account();
        let found = found.filter(|m| m.account == account);
        self.me().seen[usize::from(number)] = found;
        let record = found.map(|m| real::server(number, &m));
        record.ok_or_else(real::not_found)
    }

    /// GET of the order's tag and of the control's.
    pub fn look(&mut self, look: &LookUp) {
        let TagA::Order(who, epoch) = real::tag_of(&look.order_tag) else {
            return self.failed();
        };
        if self.world.mood == Mood::Denied {
            return self.failed();
        }
        let blank = self.world.mood == Mood::Blank;
        let now = self.world.now;
        // A tag may be as late as the machine in a listing.
        let late = self.world.budget[Fault::LateListing as usize] > 0;
        let account = self.me().connection.account();
        let shown = |m: &Machine| m.account == account && (!late || now - m.created > 1);
        let bears = |m: &Machine| shown(m) && m.marks.contains(&Some((who, epoch)));
        let order_tag = !blank && self.world.machines.iter().any(bears);
        let control_tag = (!blank && look.control.uuid == real::control(account))
            || self.variant == Variant::NoControl;
        self.done(answers::of_look(look, order_tag, control_tag));
    }

    pub fn retag(&mut self, task: u32, object: &Obj, when: &fence::TagProof, answer: Answer) {
        let effect = EFFECTS.get(task);
        let Some((uuid, tag, adds)) = change_of(&effect) else {
            return self.failed();
        };
        if effect.lets_stay() {
            let fresh = self.get(object).map(|o| self.facts(&o));
            let may = fresh.is_some_and(|f| {
                let is_any =
                    self.variant == Variant::AnyReleaseBegun && f.release_begun().is_some();
                fence::may_retain(&f, uuid) && !is_any
            });
            if !may && !matches!(self.variant, Variant::LateRetain | Variant::FormerPolicy) {
                return self.done(Observation::Stale);
            }
        }
        let rests_on_seen = effect.lets_stay() || self.variant == Variant::NoReread;
        let fresh = match when {
            fence::TagProof::GivesWay => self.get(object),
            _ if rests_on_seen => Some(*object),
            _ => self
                .get(object)
                .filter(|fresh| fence::is_newest(&self.facts(object), &self.facts(fresh))),
        };
        let Some(object) = fresh.as_ref() else {
            return self.done(Observation::Stale);
        };
        // What is known of others is from before the read.
        let facts = self.facts(object);
        match self.read(real::machine_of(uuid)) {
            Ok(record) if !when.holds(&facts, &record) => return self.failed(),
            Ok(record) if !tags::is_due(&record, tag, adds) => {
                return self.done(answers::of_tag(uuid, tag, adds, None));
            }
            Ok(_) => {}
            Err(_) => return self.failed(),
        }
        if self.is_mark(task) {
            let (object, since) = (*object, self.world.now);
            return self.go(Task::Mark {
                effect: task,
                object,
                since,
                is_read: true,
            });
        }
        self.change_tag(task, object, answer);
    }

    /// Whether a read of the machine lets the object put it on record.
    pub fn may_claim(&mut self, object: &Obj, uuid: &str) -> bool {
        let record = self.read(real::machine_of(uuid));
        let facts = self.facts(object);
        let is_unread = self.variant == Variant::ClaimUnread;
        is_unread || record.is_ok_and(|record| fence::may_claim(&facts, &record))
    }

    /// The change of a tag goes out.
    pub fn change_tag(&mut self, task: u32, object: &Obj, answer: Answer) {
        let effect = EFFECTS.get(task);
        let Some((uuid, tag, adds)) = change_of(&effect) else {
            return self.failed();
        };
        let number = real::machine_of(uuid);
        if object.observe {
            self.world.broken = Some(Broken::Observed);
        }
        let before = self.world.machines[usize::from(number)];
        if answer != Answer::LostBefore {
            change_tag(self.world, self.slot, &effect);
        }
        let mut made = before;
        made.put_on(&effect);
        let is_answered = answer == Answer::Ok;
        let answer = match is_answered {
            true => Ok(real::server(number, &made)),
            false => Err(real::lost()),
        };
        let record = real::server(number, &before);
        let known = answers::after_tag(record, tag, adds, &answer);
        if known.is_some() && self.variant != Variant::LostMarkStays {
            self.me().seen[usize::from(number)] = Some(match is_answered {
                true => self.world.machines[usize::from(number)],
                false => made,
            });
        }
        self.done(answers::of_tag(uuid, tag, adds, Some(&answer)));
    }

    pub fn begin_release(&mut self, object: &Obj, machine: u8, answer: Answer) {
        let Some(fresh) = self.get(object) else {
            return self.done(Observation::Stale);
        };
        if self.kind_deleting {
            self.world.broken = Some(Broken::KindReleased);
        }
        let mut judged = fresh;
        if self.variant == Variant::DelayIgnored {
            judged.delay = 0;
        }
        let facts = self.facts(&judged);
        let record = match self.read(machine) {
            Ok(record) if fence::may_begin_release(&facts, &record) => record,
            _ => return self.failed(),
        };
        if self.world.now < fresh.created + fresh.delay {
            self.world.broken = Some(Broken::EarlyRelease);
        }
        if fence::follows_the_note(&record) && !self.count(machine) {
            return self.failed();
        }
        let mut version = fresh.version;
        let written = self.write(&mut version, fresh.who, answer, |o| o.begun = Some(machine));
        self.check_release_limit(machine);
        match (written, self.world.objects[self.slot]) {
            (Reply::Done, Some(object)) if fence::follows_the_note(&record) => {
                self.go(Task::Delete {
                    machine,
                    since: self.world.now,
                    object,
                    record: self.world.machines[usize::from(machine)],
                });
            }
            (written, _) => self.written(written),
        }
    }

    /// Counts a release at the account; false: its release limit holds it.
    fn count(&mut self, machine: u8) -> bool {
        let Some(limit) = &mut self.world.account.release_limit else {
            return true;
        };
        if self.variant == Variant::ReleaseLimitIgnored {
            return true;
        }
        let status = real::release_limit_status(limit);
        let (next, is_let) = match real::RELEASE_LIMIT.admit(&status, &real::uuid(machine), BASE) {
            Admission::AlreadyCounted => return true,
            Admission::Block(None) => return false,
            Admission::Count(next) => (next, true),
            Admission::Block(Some(next)) => (next, false),
        };
        limit.blocked = next.blocked_since.is_some();
        limit.counted = next
            .releases
            .iter()
            .fold(0, |set, b| set | (1 << real::machine_of(&b.uuid)));
        is_let
    }

    /// Notes which releases have begun: as many as the release limit lets, and once more for each word.
    fn check_release_limit(&mut self, machine: u8) {
        let is_begun = self.world.objects[self.slot].is_some_and(|o| o.begun == Some(machine));
        if let Some(limit) = self
            .world
            .account
            .release_limit
            .as_mut()
            .filter(|_| is_begun)
        {
            limit.begun |= 1 << machine;
            if limit.begun.count_ones() > 1 + u32::from(limit.words) {
                self.world.broken = Some(Broken::OverReleaseLimit);
            }
        }
    }

    pub fn release(&mut self, object: &Obj, machine: u8) {
        let fresh = match self.variant {
            Variant::NoReread => Some(*object),
            _ => self.get(object),
        };
        let Some(object) = fresh else {
            return self.done(Observation::Stale);
        };
        let newest = self.world.objects[self.slot].filter(|o| o.who == object.who);
        if !object.suspend && newest.is_none_or(|o| o.suspend) {
            self.world.broken = Some(Broken::SuspendedDelete);
        }
        match self.read(machine) {
            Ok(record) if fence::is_over(&record) => self.done(Observation::Done),
            Ok(_) => self.go(Task::Delete {
                machine,
                since: self.world.now,
                object,
                record: self.world.machines[usize::from(machine)],
            }),
            Err(_) => self.failed(),
        }
    }

    pub fn delete(
        &mut self,
        machine: u8,
        since: Tick,
        object: &Obj,
        record: &Machine,
        answer: Answer,
    ) {
        let started = self.world.processes[self.process].started;
        let facts = self.facts(object);
        // As it was read at the start of this step; another process may have changed the machine since.
        let record = real::server(machine, record);
        let may = fence::may_release(
            &facts,
            &record,
            real::moment(since, started),
            real::moment(self.world.now, started),
            real::times().send_window,
        );
        if !may {
            return self.failed();
        }
        if object.observe {
            self.world.broken = Some(Broken::Observed);
        }
        if object.suspend {
            self.world.broken = Some(Broken::SuspendedDelete);
        }
        let answer = self.answer_to_delete(machine, object.who, answer);
        let noted = answers::of_release(&answer, &record, self.mono());
        self.done(self.broken_release(noted, &answer));
    }

    /// The DELETE of a failed machine, for an object that lives.
    pub fn release_failed(&mut self, object: &Obj, machine: u8, answer: Answer) {
        let Some(fresh) = self.get(object) else {
            return self.done(Observation::Stale);
        };
        let started = self.world.processes[self.process].started;
        let now = real::moment(self.world.now, started);
        let facts = self.facts(&fresh);
        let record = match self.read(machine) {
            Ok(record) if fence::may_release_failed(&facts, &record, now, now) => record,
            _ => return self.failed(),
        };
        let is = self.world.machines[usize::from(machine)];
        if is.life != Life::Failed || is.delivered || fresh.deleting || fresh.suspend {
            self.world.broken = Some(Broken::LiveReleased);
        }
        let answer = self.answer_to_delete(machine, fresh.who, answer);
        let noted = answers::of_release(&answer, &record, self.mono());
        self.done(noted);
    }

    /// The object deletes itself.
    pub fn expire(&mut self, object: &Obj, at: i64, answer: Answer) {
        let Some(fresh) = self.get(object) else {
            return self.done(Observation::Stale);
        };
        if !fence::may_expire(&self.facts(&fresh), at) {
            return self.done(Observation::Stale);
        }
        let is_over = fresh.expires > 0 && self.world.now >= fresh.expires;
        if !is_over {
            self.world.broken = Some(Broken::EarlyExpiry);
        }
        let mut version = fresh.version;
        let written = self.write(&mut version, fresh.who, answer, |o| o.deleting = true);
        self.written(written);
    }

    fn answer_to_delete(&mut self, machine: u8, by: Who, answer: Answer) -> Result<Server, Error> {
        match self.world.mood {
            Mood::Denied => return Err(real::denied()),
            Mood::Blank => return Err(real::not_found()),
            Mood::Normal => {}
        }
        if matches!(answer, Answer::Later | Answer::ErrorLater) {
            let sent = self.world.now;
            self.world.wire.push(Wire::Delete { machine, by, sent });
        }
        match answer {
            Answer::LostBefore | Answer::Later => Err(real::lost()),
            Answer::ErrorBefore | Answer::ErrorLater => Err(real::broke()),
            _ => {
                let taken = release(self.world, machine, by);
                let m = &mut self.world.machines[usize::from(machine)];
                if taken {
                    return Ok(real::server(machine, m));
                }
                m.refused |= m.life == Life::Failed;
                Err(real::refused())
            }
        }
    }

    /// What a broken operator would note of a release instead.
    fn broken_release(&self, noted: Observation, answer: &Result<Server, Error>) -> Observation {
        let is_refusal = matches!(
            (self.variant, answer),
            (Variant::ErrorRefusesRelease, Err(Error::Server(_)))
                | (Variant::NotFoundRefusesRelease, Err(Error::NotFound(_)))
        );
        match noted {
            Observation::Released(sent) if is_refusal => Observation::Released(Sent {
                answer: ReleaseAnswer::Refused,
                ..sent
            }),
            noted => noted,
        }
    }
}

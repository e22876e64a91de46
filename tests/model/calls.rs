//! Calls to the provider but for the order: looks, tags, releases.

use super::{
    outside::release,
    pass::Variant,
    real::{self, TagA},
    step::{Answer, Hand, Written},
    world::*,
};
use flexmetal_operator::controllers::server::{
    decide::{Search, fence},
    memory::{Observation, Obstacle, ReleaseAnswer, Sent},
};

impl Hand<'_> {
    /// GET of a machine, which also goes into the snapshot.
    pub fn read(&mut self, number: u8) -> Option<Machine> {
        let found = match self.world.mood {
            Mood::Blank => None,
            _ => self.world.machines.get(usize::from(number)).copied(),
        };
        self.me().seen[usize::from(number)] = found;
        found
    }

    pub fn look(&mut self, search: &Search) {
        let blank = self.world.mood == Mood::Blank;
        let now = self.world.now;
        let TagA::Order(who, epoch) = real::tag_of(&search.order_tag) else {
            return self.failed();
        };
        // A tag may be as late as the machine in a listing.
        let late = self.world.budget[Fault::LateListing as usize] > 0;
        let shown = |m: &Machine| !late || now - m.created > 1;
        let exists = !blank
            && self
                .world
                .machines
                .iter()
                .any(|m| shown(m) && m.marks.contains(&Some((who, epoch))));
        let mut all = (0u8..).zip(&self.world.machines).filter(|_| !blank);
        let suspect = all
            .find(|(n, m)| fence::is_suspect(&real::server(*n, m), search))
            .map(|(n, _)| Obstacle::Unmarked(real::uuid(n)));
        let obstacle = if exists {
            Some(Obstacle::TagExists)
        } else if blank && self.variant != Variant::NoControl {
            Some(Obstacle::NoControl)
        } else {
            suspect
        };
        self.done(Observation::Looked {
            attempt: search.attempt.clone(),
            proof_began: search.proof_began,
            obstacle,
        });
    }

    pub fn retag(
        &mut self,
        object: &Obj,
        uuid: &str,
        tag: &str,
        when: &fence::TagProof,
        add: bool,
    ) {
        let number = real::machine_of(uuid);
        let tag = real::tag_of(tag);
        let facts = self.facts(object);
        let retains = add && tag == TagA::Retained;
        if retains {
            match self.get(object) {
                Some(o) if o.deleting && o.begun.is_none() => {}
                _ => return self.done(Observation::Stale),
            }
        }
        let Some(m) = self.read(number) else {
            return self.failed();
        };
        if !when.holds(&facts, &real::server(number, &m)) {
            return self.failed();
        }
        let m = &mut self.world.machines[usize::from(number)];
        match (tag, add) {
            (TagA::Cluster, on) => m.cluster = on,
            (TagA::Retained, on) => {
                m.retained = on;
                m.by_policy = on && object.retain;
            }
            (TagA::Order(who, epoch), true) => {
                if let Some(free) = m.marks.iter_mut().find(|x| x.is_none()) {
                    *free = Some((who, epoch));
                }
                m.owner = who;
            }
            (TagA::Order(who, epoch), false) => {
                m.marks = m.marks.map(|x| x.filter(|x| *x != (who, epoch)));
            }
        }
        // One order of marks, so that equal machines are equal.
        m.marks.sort_unstable_by(|a, b| b.cmp(a));
        let m = *m;
        self.me().seen[usize::from(number)] = Some(m);
        self.done(Observation::Done);
    }

    pub fn begin_release(&mut self, object: &Obj, machine: u8, answer: Answer) {
        let Some(fresh) = self.get(object) else {
            return self.done(Observation::Stale);
        };
        let facts = self.facts(&fresh);
        let Some(m) = self.read(machine) else {
            return self.failed();
        };
        if !fence::may_begin_release(&facts, &real::server(machine, &m)) {
            return self.failed();
        }
        match self.write(fresh.version, fresh.who, answer, |o| {
            o.begun = Some(machine)
        }) {
            Written::Done(object) if m.is_live() => {
                self.go(Task::Delete {
                    machine,
                    since: self.world.now,
                    object,
                });
            }
            Written::Unknown => self.failed(),
            Written::Stale => self.done(Observation::Stale),
            Written::Done(_) => self.done(Observation::Done),
        }
    }

    pub fn delete(&mut self, machine: u8, since: Tick, object: &Obj, answer: Answer) {
        let started = self.world.processes[self.process].started;
        let facts = self.facts(object);
        // The record was read when this step began; another process may have changed the machine since.
        let Some(record) = self.world.processes[self.process].seen[usize::from(machine)] else {
            return self.failed();
        };
        let may = fence::may_release(
            &facts,
            &real::server(machine, &record),
            real::moment(since, started),
            real::moment(self.world.now, started),
            real::times().send_window,
        );
        if !may || self.world.mood == Mood::Denied {
            return self.failed();
        }
        let at = self.mono();
        let answer = match answer {
            Answer::Later => {
                self.world.wire.push(Wire::Delete {
                    machine,
                    by: object.who,
                    sent: self.world.now,
                });
                ReleaseAnswer::Unknown
            }
            Answer::LostBefore => ReleaseAnswer::Unknown,
            _ if release(self.world, machine, object.who) => ReleaseAnswer::Accepted,
            _ => ReleaseAnswer::Refused,
        };
        self.done(Observation::Released(Sent {
            uuid: real::uuid(machine),
            failed: matches!(record.life, Life::Failed),
            answer,
            at,
        }));
    }
}

//! One lease as one process sees it, by its own monotonic clock: no clocks of two machines are ever
//! compared. Plain data.

use super::{
    ACTS, LASTS,
    record::{Identity, Record},
};
use std::time::Duration;

/// What was last seen of a lease.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    pub(super) record: Record,
    /// When this process first saw it say this.
    pub(super) since: Duration,
    /// It was there at the first look of this process.
    at_first: bool,
    /// It is not there any more, since that moment.
    pub(super) gone: bool,
}

impl Sight {
    /// The sight after one more look; whether the lease says something else by now.
    pub(super) fn next(
        last: Option<Self>,
        record: Option<Record>,
        now: Duration,
        is_first: bool,
    ) -> (Option<Self>, bool) {
        match (last, record) {
            (None, None) => (None, false),
            (Some(last), None) if last.gone => (Some(last), false),
            // Somebody deleted it. Who held it notices by a renewal, so it holds a while longer.
            (Some(last), None) => (
                Some(Self {
                    since: now,
                    gone: true,
                    ..last
                }),
                true,
            ),
            (Some(last), Some(record)) if !last.gone && last.record.says_the_same(&record) => {
                (Some(Self { record, ..last }), false)
            }
            (_, Some(record)) => (
                Some(Self {
                    record,
                    since: now,
                    at_first: is_first,
                    gone: false,
                }),
                true,
            ),
        }
    }

    /// Whether the lease holds still at `now`.
    pub(super) fn holds(&self, now: Duration) -> bool {
        self.record.holder.is_some() && now < self.since + self.record.lasts
    }

    /// When it ends if nobody renews it.
    fn ends(&self) -> Duration {
        self.since + self.record.lasts
    }
}

/// A lease that this process wants, and holds where it can.
#[derive(Clone, Debug, Default)]
pub(super) struct Seat {
    sight: Option<Sight>,
    looked: bool,
    held: Option<Held>,
}

/// The lease is ours.
#[derive(Clone, Copy, Debug)]
struct Held {
    transitions: i32,
    /// When the last renewal that worked was asked for.
    renewed: Duration,
    /// When the write that won it was known to be done.
    gained: Duration,
    /// From when on we may act.
    since: Duration,
    /// Nobody else can still believe that he may.
    clear: bool,
}

/// What is to be done with a lease now.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// To write this: it is free, or ours to renew.
    Write(Box<Record>),
    /// Another one holds it, until this moment if he does not renew it.
    Wait(Duration),
}

impl Seat {
    /// A look showed this.
    pub(super) fn see(&mut self, me: &Identity, record: Option<Record>, now: Duration) {
        let is_mine = |record: &Record| record.holder.as_deref() == Some(me.as_str());
        if !record.as_ref().is_some_and(is_mine) {
            self.held = None;
        }
        let is_first = !std::mem::replace(&mut self.looked, true);
        self.sight = Sight::next(self.sight.take(), record, now, is_first).0;
    }

    /// What to do at `now`. `stamp` is the wall time for people to read.
    pub(super) fn step(
        &self,
        me: &Identity,
        now: Duration,
        stamp: k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime,
    ) -> Step {
        let write = |before: Option<&Record>| {
            Step::Write(Box::new(Record::held_by(me, before, LASTS, stamp)))
        };
        let Some(sight) = &self.sight else {
            return write(None);
        };
        let is_ours = match sight.record.holder.as_deref() {
            None => true,
            // Only at the first look: one that comes later lives beside us, whatever it is called.
            Some(holder) => holder == me.as_str() || (sight.at_first && me.is_former(holder)),
        };
        if is_ours || !sight.holds(now) {
            return write((!sight.gone).then_some(&sight.record));
        }
        Step::Wait(sight.ends())
    }

    /// A write of ours was taken. It was asked for at `asked`, and known to be done at `now`.
    pub(super) fn wrote(&mut self, record: Record, asked: Duration, now: Duration) {
        let transitions = record.transitions;
        self.looked = true;
        self.sight = Some(Sight {
            record,
            since: now,
            at_first: false,
            gone: false,
        });
        self.held = Some(match self.held {
            Some(held) if held.transitions == transitions => Held {
                renewed: asked,
                // Where it had ended already, an operator of the whole cluster may have stepped in.
                clear: held.clear && now < held.renewed + LASTS,
                ..held
            },
            _ => Held {
                transitions,
                renewed: asked,
                gained: now,
                since: now,
                clear: false,
            },
        });
    }

    /// Whether it is ours, in force or lapsed: nobody else is known to have it.
    pub(super) fn is_ours(&self) -> bool {
        self.held.is_some()
    }

    /// Whether it is ours and still has to be made sure that nobody else acts.
    pub(super) fn is_unclear(&self) -> bool {
        self.held.is_some_and(|held| !held.clear)
    }

    /// Nobody else can still act from `from` on; None: nobody else could.
    pub(super) fn make_clear(&mut self, from: Option<Duration>) {
        if let Some(held) = &mut self.held {
            held.clear = true;
            held.since = held.since.max(from.unwrap_or_default());
        }
    }

    /// Since when we act; None: we may not, at `now`.
    pub(super) fn since(&self, now: Duration) -> Option<Duration> {
        let held = self.held?;
        let in_force = held.clear && held.since <= now && now < held.renewed + ACTS;
        in_force.then_some(held.since)
    }

    /// When we may begin to act, where that is still to come.
    pub(super) fn begins(&self, now: Duration) -> Option<Duration> {
        let held = self.held?;
        (held.clear && held.since > now).then_some(held.since)
    }

    /// Whether it was renewed in time: nobody else may have it.
    pub(super) fn is_in_force(&self, now: Duration) -> bool {
        self.held.is_some_and(|held| now < held.renewed + ACTS)
    }

    /// Gives it up; returns it as it stands, where it was ours.
    pub(super) fn give_up(&mut self) -> Option<Record> {
        let record = self.record().cloned();
        self.held = None;
        record
    }

    /// When the write that won it was known to be done.
    pub(super) fn gained(&self) -> Option<Duration> {
        Some(self.held?.gained)
    }

    /// Who else has it.
    pub(super) fn holder(&self) -> Option<&str> {
        let sight = self.sight.as_ref().filter(|_| self.held.is_none())?;
        sight.record.holder.as_deref()
    }

    /// The lease as it stands, where it is ours.
    pub(super) fn record(&self) -> Option<&Record> {
        let sight = self.sight.as_ref().filter(|_| self.held.is_some())?;
        Some(&sight.record)
    }
}

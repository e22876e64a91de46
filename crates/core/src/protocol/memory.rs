//! What one process knows of one object by itself. Losing it is always safe.

use super::{Object, Order, Outcome, ServerId};
use std::time::Duration;

/// What one process knows of one object since it became leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// Record and finalizer as this process last saw or wrote them; none: it did not see the object yet.
    seen: Option<(Option<Order>, bool)>,
    /// Since when they are so, by the monotonic clock.
    since: Duration,
    /// What it knows of orders that may be under way.
    sight: Sight,
    /// The answer to the order of the open record.
    answer: Option<Order>,
    /// The lists for an open record that show nothing: when the first and the last of them began.
    absent: Option<(Duration, Duration)>,
    /// Reads of the recorded server that say that there is none: the first and the last.
    missing: Option<(Duration, Duration)>,
    /// Both tags are on this server, since then.
    claimed: Option<(ServerId, Duration)>,
    /// How often in a row the release of the failed server was refused.
    refused: u8,
}

/// What a process knows of orders that may be under way (O2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sight {
    /// Nothing.
    #[default]
    Nothing,
    /// None is: it saw the object come into being, or how the last order ended.
    NoneUnderWay,
    /// At first sight the object had neither record nor finalizer, or a closed record.
    Quiet,
}

impl Memory {
    /// Takes in the object as this process sees it. `is_new`: it came into being after this process became leader.
    pub fn see(&mut self, object: &Object, order: Option<Order>, is_new: bool, now: Duration) {
        let Some((known, finalizer)) = self.seen else {
            self.seen = Some((order, object.finalizer));
            self.since = now;
            self.sight = match order {
                None if object.finalizer => Sight::Nothing,
                None if is_new => Sight::NoneUnderWay,
                Some(order) if !order.is_closed() => Sight::Nothing,
                _ => Sight::Quiet,
            };
            return;
        };
        let is_changed = known != order;
        if is_changed || (!finalizer && object.finalizer && order.is_none()) {
            self.sight = Sight::Nothing;
            self.since = now;
        }
        if is_changed {
            self.forget();
        }
        self.seen = Some((order, object.finalizer));
    }

    /// What was collected was about the record before.
    fn forget(&mut self) {
        self.answer = None;
        self.absent = None;
        self.missing = None;
        self.claimed = None;
        self.refused = 0;
    }

    /// This process put the finalizer on.
    pub fn added_finalizer(&mut self) {
        if let Some((_, finalizer)) = &mut self.seen {
            *finalizer = true;
        }
    }

    /// This process wrote the record, and knows from it that no order is under way, unless it is open.
    pub fn wrote(&mut self, order: Option<Order>, now: Duration) {
        let is_open = order.is_some_and(|order| order.outcome == Outcome::Open);
        self.seen = Some((order, true));
        self.since = now;
        self.sight = match is_open {
            true => Sight::Nothing,
            false => Sight::NoneUnderWay,
        };
        self.forget();
    }

    /// This process has the answer to the order that it sent: the record as it has to become.
    pub fn answered(&mut self, order: Order) {
        self.answer = Some(order);
    }

    /// What has to be recorded of this open order, whose answer this process has.
    pub fn answer_to(&self, order: &Order) -> Option<Order> {
        let answer = self.answer?;
        let is_it = (answer.seq, answer.nonce) == (order.seq, order.nonce);
        (is_it && order.outcome == Outcome::Open && answer != *order).then_some(answer)
    }

    /// A complete list of the whole account that began then shows nothing of the open order.
    pub fn listed_absent(&mut self, began: Duration) {
        let first = self.absent.map_or(began, |(first, _)| first);
        self.absent = Some((first, began));
    }

    /// Such a list contradicts, or is not believed: what was collected before it proves nothing.
    pub fn listed_otherwise(&mut self) {
        self.absent = None;
    }

    /// A read of the recorded server that was asked for then says that there is none.
    pub fn read_missing(&mut self, at: Duration) {
        let first = self.missing.map_or(at, |(first, _)| first);
        self.missing = Some((first, at));
    }

    /// The recorded server was shown.
    pub fn shown(&mut self, at: Duration) {
        if self.missing.is_some_and(|(_, last)| at > last) {
            self.missing = None;
        }
    }

    /// Both tags were put on the server, or were there.
    pub fn claimed(&mut self, server: ServerId, at: Duration) {
        if self.claimed.is_none_or(|(claimed, _)| claimed != server) {
            self.claimed = Some((server, at));
        }
    }

    /// The claim has to be made again.
    pub fn unclaimed(&mut self) {
        self.claimed = None;
    }

    /// The provider refused to release the server while it is failed.
    pub fn refused_release(&mut self) {
        self.refused = self.refused.saturating_add(1);
    }

    /// Since when record and finalizer are as they are.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// What it knows of orders that may be under way.
    pub fn sight(&self) -> Sight {
        self.sight
    }

    /// When the first and the last list began that show nothing of the open order.
    pub fn absent(&self) -> Option<(Duration, Duration)> {
        self.absent
    }

    /// When the first and the last read said that the recorded server is not there.
    pub fn missing(&self) -> Option<(Duration, Duration)> {
        self.missing
    }

    /// Since when both tags are on this server.
    pub fn claimed_since(&self, server: ServerId) -> Option<Duration> {
        let (claimed, since) = self.claimed?;
        (claimed == server).then_some(since)
    }

    /// How often in a row the release of the failed server was refused.
    pub fn refused(&self) -> u8 {
        self.refused
    }
}

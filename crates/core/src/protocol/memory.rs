//! What one process knows of one object by itself. Losing it is always safe.

use super::{ProtocolObject, ProtocolOrder, ProtocolOutcome, ServerId};
use std::time::Duration;

/// What one process knows of one object since it became leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProtocolMemory {
    /// Record and finalizer as this process last saw or wrote them; none: it did not see the object yet.
    seen: Option<(Option<ProtocolOrder>, bool)>,
    /// Since when they are so, by the monotonic clock.
    since: Duration,
    /// What it knows of orders that may be under way.
    in_flight: OrdersInFlight,
    /// The answer to the order of the open record.
    answer: Option<ProtocolOrder>,
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
pub enum OrdersInFlight {
    /// One may be under way.
    #[default]
    Possible,
    /// None is: this process saw the object come into being, or how its last order ended.
    Impossible,
    /// None is, unless somebody put the object back to an earlier state: when this process first saw it as leader, it had
    /// neither record nor finalizer, or a closed record.
    Unlikely,
}

impl ProtocolMemory {
    /// Takes in the object as this process sees it. `is_new`: it came into being after this process became leader.
    pub fn see(
        &mut self,
        object: &ProtocolObject,
        order: Option<ProtocolOrder>,
        is_new: bool,
        now: Duration,
    ) {
        let Some((known, finalizer)) = self.seen else {
            self.seen = Some((order, object.finalizer));
            self.since = now;
            self.in_flight = match order {
                None if object.finalizer => OrdersInFlight::Possible,
                None if is_new => OrdersInFlight::Impossible,
                Some(order) if !order.is_closed() => OrdersInFlight::Possible,
                _ => OrdersInFlight::Unlikely,
            };
            return;
        };
        let is_changed = known != order;
        if is_changed && order.is_some() && self.answer == order {
            // It was written by this process, which lost the answer to that.
            self.wrote(order, now);
            self.seen = Some((order, object.finalizer));
            return;
        }
        if is_changed || (!finalizer && object.finalizer && order.is_none()) {
            self.in_flight = OrdersInFlight::Possible;
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

    /// Servers are looked for in another way, or were not for a while: what was collected before proves nothing.
    pub fn reset_absence(&mut self) {
        self.absent = None;
        self.missing = None;
    }

    /// This process put the finalizer on.
    pub fn added_finalizer(&mut self) {
        if let Some((_, finalizer)) = &mut self.seen {
            *finalizer = true;
        }
    }

    /// This process wrote the record. From an answer, and from confirmed absence, it knows that no order is under way;
    /// taking a server says nothing of that.
    pub fn wrote(&mut self, order: Option<ProtocolOrder>, now: Duration) {
        let outcome = |order: Option<ProtocolOrder>| order.map(|order| order.outcome);
        let before = self.seen.and_then(|(order, _)| outcome(order));
        self.in_flight = match (before, outcome(order)) {
            (_, Some(ProtocolOutcome::Open))
            | (Some(ProtocolOutcome::Open), None | Some(ProtocolOutcome::Adopting(_))) => {
                OrdersInFlight::Possible
            }
            (Some(ProtocolOutcome::Open), Some(_)) => OrdersInFlight::Impossible,
            _ => self.in_flight,
        };
        self.seen = Some((order, true));
        self.since = now;
        self.forget();
    }

    /// This process has the answer to the order that it sent, or the server that it takes is the object's: the record as it
    /// has to become.
    pub fn answered(&mut self, order: ProtocolOrder) {
        self.answer = Some(order);
    }

    /// What has to be recorded of this order, whose answer this process has, or of the server that is taken.
    pub fn answer_to(&self, order: &ProtocolOrder) -> Option<ProtocolOrder> {
        let answer = self.answer?;
        let is_it = match order.outcome {
            ProtocolOutcome::Open => (answer.seq, answer.nonce) == (order.seq, order.nonce),
            ProtocolOutcome::Adopting(server) => answer.outcome == ProtocolOutcome::Created(server),
            _ => false,
        };
        (is_it && answer != *order).then_some(answer)
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

    /// The server that the object has on record, or is about to take.
    pub fn recorded(&self) -> Option<ServerId> {
        match self.seen?.0?.outcome {
            ProtocolOutcome::Created(server) | ProtocolOutcome::Adopting(server) => Some(server),
            _ => None,
        }
    }

    /// Since when record and finalizer are as they are.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// What it knows of orders that may be under way.
    pub fn in_flight(&self) -> OrdersInFlight {
        self.in_flight
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

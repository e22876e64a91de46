//! What one process knows of one object. Losing it is always safe.

use super::{ProtocolObject, ProtocolOrder, ProtocolOutcome, ServerId};
use std::time::Duration;

/// What one process knows of one object since it became leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProtocolMemory {
    /// Record and finalizer as this process last saw or wrote them; none: it has not seen the object yet.
    seen: Option<(Option<ProtocolOrder>, bool)>,
    /// Since when they are unchanged, by the monotonic clock.
    since: Duration,
    /// What it knows of orders that may be in flight.
    in_flight: OrdersInFlight,
    /// The answer to the order of the open record.
    answer: Option<ProtocolOrder>,
    /// When the first and the last list began that show nothing for the open record.
    absent: Option<(Duration, Duration)>,
    /// When the first and the last read of the recorded server returned 404.
    missing: Option<(Duration, Duration)>,
    /// The server that has both tags, and since when.
    claimed: Option<(ServerId, Duration)>,
    /// How often in a row the release of the failed server was refused.
    refused: u8,
}

/// What a process knows of orders that may be in flight (O2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OrdersInFlight {
    /// An order may be in flight.
    #[default]
    Possible,
    /// No order is in flight: this process saw the object's creation, or how its last order ended.
    Impossible,
    /// No order is in flight, unless the object was restored to an earlier state: when this process first saw it as
    /// leader, it had neither record nor finalizer, or a closed record.
    Unlikely,
}

impl ProtocolMemory {
    /// Updates the memory with the object as this process sees it. `is_new`: it was created after this process became
    /// leader.
    pub fn observe_object(
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
            // This process wrote it, but lost the answer to the write.
            self.record_written(order, now);
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

    /// Drops what was collected about the previous record.
    fn forget(&mut self) {
        self.answer = None;
        self.absent = None;
        self.missing = None;
        self.claimed = None;
        self.refused = 0;
    }

    /// Drops collected absences: servers are searched in another way now, or were not searched for a while.
    pub fn reset_absence(&mut self) {
        self.absent = None;
        self.missing = None;
    }

    /// Records that this process added the finalizer.
    pub fn added_finalizer(&mut self) {
        if let Some((_, finalizer)) = &mut self.seen {
            *finalizer = true;
        }
    }

    /// Records that this process wrote the record. An answer, or confirmed absence, shows that no order is in flight;
    /// an adoption does not.
    pub fn record_written(&mut self, order: Option<ProtocolOrder>, now: Duration) {
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

    /// Records the answer to the order that this process sent, or a finished adoption, as the record to write.
    pub fn record_answer(&mut self, order: ProtocolOrder) {
        self.answer = Some(order);
    }

    /// The record to write for this order, if this process has its answer, or for this adoption.
    pub fn answer_to(&self, order: &ProtocolOrder) -> Option<ProtocolOrder> {
        let answer = self.answer?;
        let is_it = match order.outcome {
            ProtocolOutcome::Open => (answer.seq, answer.nonce) == (order.seq, order.nonce),
            ProtocolOutcome::Adopting(server) => answer.outcome == ProtocolOutcome::Created(server),
            _ => false,
        };
        (is_it && answer != *order).then_some(answer)
    }

    /// Records that a complete list of the whole account, begun then, shows nothing for the open order.
    pub fn record_absence(&mut self, began: Duration) {
        let first = self.absent.map_or(began, |(first, _)| first);
        self.absent = Some((first, began));
    }

    /// Records that such a list contradicts or does not count, which voids the lists before.
    pub fn clear_absence(&mut self) {
        self.absent = None;
    }

    /// Records that a read of the recorded server, requested then, returned 404.
    pub fn read_missing(&mut self, at: Duration) {
        let first = self.missing.map_or(at, |(first, _)| first);
        self.missing = Some((first, at));
    }

    /// Records that the recorded server was shown.
    pub fn record_seen(&mut self, at: Duration) {
        if self.missing.is_some_and(|(_, last)| at > last) {
            self.missing = None;
        }
    }

    /// Records that the server has both tags.
    pub fn record_claim(&mut self, server: ServerId, at: Duration) {
        if self.claimed.is_none_or(|(claimed, _)| claimed != server) {
            self.claimed = Some((server, at));
        }
    }

    /// Records that the server must be claimed again.
    pub fn unclaimed(&mut self) {
        self.claimed = None;
    }

    /// Records that the provider refused to release the failed server.
    pub fn refused_release(&mut self) {
        self.refused = self.refused.saturating_add(1);
    }

    /// The server that the object recorded, or is adopting.
    pub fn recorded(&self) -> Option<ServerId> {
        match self.seen?.0?.outcome {
            ProtocolOutcome::Created(server) | ProtocolOutcome::Adopting(server) => Some(server),
            _ => None,
        }
    }

    /// Since when record and finalizer are unchanged.
    pub fn unchanged_since(&self) -> Duration {
        self.since
    }

    /// What it knows of orders that may be in flight.
    pub fn in_flight(&self) -> OrdersInFlight {
        self.in_flight
    }

    /// When the first and the last list began that show nothing for the open order.
    pub fn absent(&self) -> Option<(Duration, Duration)> {
        self.absent
    }

    /// When the first and the last read of the recorded server returned 404.
    pub fn missing(&self) -> Option<(Duration, Duration)> {
        self.missing
    }

    /// Since when this server has both tags.
    pub fn claimed_since(&self, server: ServerId) -> Option<Duration> {
        let (claimed, since) = self.claimed?;
        (claimed == server).then_some(since)
    }

    /// How often in a row the release of the failed server was refused.
    pub fn refused(&self) -> u8 {
        self.refused
    }
}

//! An open record: find its server. That there is no server is confirmed, never assumed (O5).

use super::{
    KnownServerCheck, ListSummary, ProtocolMemory, ProtocolOrder, ProtocolOutcome, ProtocolStep,
    ProtocolView, WaitReason, adopt, memory::OrdersInFlight, missing,
};

/// Whether it is confirmed that no order made a server.
pub enum OrderAbsence {
    /// It is confirmed.
    Confirmed,
    /// A user acknowledges it, and a server of an order in flight would be shown by now.
    Acknowledged,
    /// Not yet.
    Not(ProtocolStep),
}

/// Decides for an open record, of a living object or a deleted one.
pub fn resolve(view: &ProtocolView<'_>, order: &ProtocolOrder) -> ProtocolStep {
    let mut servers = view.servers.iter();
    if let Some(server) = servers.find(|server| server.own_seq == Some(order.seq)) {
        return ProtocolStep::Record(Some(order.with(ProtocolOutcome::Created(server.id))));
    }
    if let Some(server) = view.own_live(Some(order.seq)) {
        return adopt::start(view, Some(order), server);
    }
    match confirm_absent(view) {
        OrderAbsence::Confirmed => ProtocolStep::Record(Some(confirmed(order))),
        OrderAbsence::Acknowledged => missing::acknowledged(order),
        OrderAbsence::Not(step) => step,
    }
}

/// The record of an order that made no server.
fn confirmed(order: &ProtocolOrder) -> ProtocolOrder {
    let (lost, cut) = match order.answer_lost {
        true => (order.lost.saturating_add(1), order.cut),
        false => (order.lost, order.cut.saturating_add(1)),
    };
    ProtocolOrder {
        outcome: ProtocolOutcome::Absent,
        lost,
        cut,
        ..*order
    }
}

/// Checks whether absence is confirmed: two lists of the whole account, the first begun when no order can still arrive,
/// the last after the grace period, each with a known server and no server that may be the object's.
pub fn confirm_absent(view: &ProtocolView<'_>) -> OrderAbsence {
    let since = view.seen_since();
    let due = since + view.times.grace;
    if let Some((first, last)) = view.memory.absent()
        && last > due
        && last >= first + view.times.flight_time
    {
        return OrderAbsence::Confirmed;
    }
    let list = view.account_list.filter(|list| list.began > since);
    let Some(list) = list else {
        return OrderAbsence::Not(WaitReason::OutcomeUnknown.after_list(since, true));
    };
    let next = list.began + view.times.check;
    let next = match view.now > due {
        true => next,
        false => next.min(due.max(list.began)),
    };
    if list.began <= due {
        return OrderAbsence::Not(WaitReason::OutcomeUnknown.after_list(next, true));
    }
    match why_not_absent(view, list) {
        None => OrderAbsence::Not(WaitReason::OutcomeUnknown.after_list(next, true)),
        Some(_) if view.object.acknowledged.assume_absent => OrderAbsence::Acknowledged,
        Some(why) => OrderAbsence::Not(why.after_list(list.began + view.times.idle, true)),
    }
}

/// Why this list does not confirm that there is no server.
fn why_not_absent(view: &ProtocolView<'_>, list: ListSummary) -> Option<WaitReason> {
    match list.known {
        KnownServerCheck::NotShown => Some(WaitReason::ListIncomplete),
        KnownServerCheck::NoneExists => Some(WaitReason::NoKnownServer),
        KnownServerCheck::Shown => view.suspect().map(WaitReason::UntaggedServer),
    }
}

/// Updates what this process knows of the object with the newest list.
pub fn observed(view: &ProtocolView<'_>) -> ProtocolMemory {
    let mut memory = *view.memory;
    if let Some(order) = view.order()
        && let ProtocolOutcome::Created(id) | ProtocolOutcome::Adopting(id) = order.outcome
        && let Some(server) = view.server(id)
    {
        memory.record_seen(server.seen);
    }
    let is_searched = memory.in_flight() == OrdersInFlight::Possible;
    // Before this moment the server may not exist yet, so a list without it does not count.
    let since = view.seen_since() + view.times.flight_time;
    let since = memory.absent().map_or(since, |(_, last)| last);
    if let Some(list) = view
        .account_list
        .filter(|list| is_searched && list.began > since)
    {
        match why_not_absent(view, list) {
            None => memory.record_absence(list.began),
            // A contradiction voids the lists before.
            Some(_) => memory.clear_absence(),
        }
    }
    memory
}

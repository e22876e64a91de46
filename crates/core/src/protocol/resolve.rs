//! An open record: its server is looked for, and that there is none is confirmed, never guessed (O5).

use super::{
    KnownServerCheck, ListSummary, ProtocolMemory, ProtocolOrder, ProtocolOutcome, ProtocolStep,
    ProtocolView, Why, adopt, memory::OrdersInFlight, missing,
};

/// How far the proof is that no order made a server.
pub enum OrderAbsence {
    /// It is confirmed.
    Confirmed,
    /// A user acknowledges it, and what was under way would be shown by now.
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

/// How far the proof is: two lists of the whole account, the first one begun when no order can arrive any more, the last
/// one after the grace period, each with a known server and without a server that may be the object's.
pub fn confirm_absent(view: &ProtocolView<'_>) -> OrderAbsence {
    let since = view.seen_since();
    let due = since + view.times.grace;
    if let Some((first, last)) = view.memory.absent()
        && last > due
        && last >= first + view.times.spacing
    {
        return OrderAbsence::Confirmed;
    }
    let list = view.account_list.filter(|list| list.began > since);
    let Some(list) = list else {
        return OrderAbsence::Not(Why::OutcomeUnknown.after_list(since, true));
    };
    let next = list.began + view.times.check;
    let next = match view.now > due {
        true => next,
        false => next.min(due.max(list.began)),
    };
    if list.began <= due {
        return OrderAbsence::Not(Why::OutcomeUnknown.after_list(next, true));
    }
    match why_not_absent(view, list) {
        None => OrderAbsence::Not(Why::OutcomeUnknown.after_list(next, true)),
        Some(_) if view.object.acknowledged.assume_absent => OrderAbsence::Acknowledged,
        Some(why) => OrderAbsence::Not(why.after_list(list.began + view.times.idle, true)),
    }
}

/// Why this list does not prove that there is no server.
fn why_not_absent(view: &ProtocolView<'_>, list: ListSummary) -> Option<Why> {
    match list.known {
        KnownServerCheck::NotShown => Some(Why::ListIncomplete),
        KnownServerCheck::NoneExists => Some(Why::NoKnownServer),
        KnownServerCheck::Shown => view.suspect().map(Why::UntaggedServer),
    }
}

/// Takes the newest list into what this process knows of the object.
pub fn observed(view: &ProtocolView<'_>) -> ProtocolMemory {
    let mut memory = *view.memory;
    if let Some(order) = view.order()
        && let ProtocolOutcome::Created(id) | ProtocolOutcome::Adopting(id) = order.outcome
        && let Some(server) = view.server(id)
    {
        memory.shown(server.seen);
    }
    let is_looked_for = memory.in_flight() == OrdersInFlight::Possible;
    // Before, the server may not even be there, so a list without it says nothing.
    let since = view.seen_since() + view.times.spacing;
    let since = memory.absent().map_or(since, |(_, last)| last);
    if let Some(list) = view
        .account_list
        .filter(|list| is_looked_for && list.began > since)
    {
        match why_not_absent(view, list) {
            None => memory.listed_absent(list.began),
            // A contradiction makes what was collected before it worthless.
            Some(_) => memory.listed_otherwise(),
        }
    }
    memory
}

//! A living object: keeps its server in order, or orders one once it is certain that it has none (O1, O2).

use super::{
    EndedServerAction, KnownServerCheck, ProtocolOrder, ProtocolOutcome, ProtocolStep,
    ProtocolView, ServerId, ServerPhase, WaitReason, adopt,
    memory::OrdersInFlight,
    missing::{self, ServerAbsence},
    release,
};
use std::time::Duration;

/// How many orders in a row may be confirmed absent after a lost answer.
const MOST_LOST: u8 = 2;
/// How many orders in a row may be confirmed absent after their process was cut off.
const MOST_CUT: u8 = 5;

/// No live server is recorded: adopt the object's own or the named one, or order one.
pub fn without_server(view: &ProtocolView<'_>, order: Option<&ProtocolOrder>) -> ProtocolStep {
    if let Some(server) = view.own_live(None) {
        return adopt::start(view, order, server);
    }
    if let Some(named) = view.object.external.or(view.object.acknowledged.adopt) {
        return adopt::start_named(view, order, named);
    }
    start(view, order)
}

/// The list after which the object may order, or end without a server: the reason to wait for it, and the moment after
/// which it must begin.
pub fn waits_until(view: &ProtocolView<'_>) -> (WaitReason, Duration) {
    let since = view.seen_since();
    match view.memory.in_flight() {
        OrdersInFlight::Impossible => (WaitReason::WaitingForList, since),
        OrdersInFlight::Unlikely => {
            let restart = view.leader_since + view.times.restart;
            (WaitReason::Restarted, since.max(restart))
        }
        OrdersInFlight::Possible => (WaitReason::MayBeUnderWay, since + view.times.grace),
    }
}

/// Starts an order if it is certain that the object has no server and no order is in flight.
fn start(view: &ProtocolView<'_>, order: Option<&ProtocolOrder>) -> ProtocolStep {
    let (why, after) = waits_until(view);
    let knows = view.memory.in_flight() == OrdersInFlight::Impossible;
    let acknowledged = view.object.acknowledged;
    let list = if knows {
        view.cluster_list
    } else {
        view.account_list
    };
    if view.now <= after {
        return why.after_list(after, !knows);
    }
    let Some(list) = list.filter(|list| list.began > after) else {
        return WaitReason::WaitingForList.after_list(after, !knows);
    };
    let next = list.began + view.times.idle;
    if view.has_previous_server() && !acknowledged.order_another {
        // Wants a list of the whole account, since such a list may have shown them.
        return WaitReason::ServerExists.after_list(next, true);
    }
    match list.known {
        KnownServerCheck::Shown => {}
        KnownServerCheck::NotShown => return WaitReason::ListIncomplete.after_list(next, !knows),
        // A record that was closed at first observation is of an order that made no server. Previous servers that are
        // shown count as known ones.
        KnownServerCheck::NoneExists
            if view.memory.in_flight() != OrdersInFlight::Possible
                || view.has_previous_server()
                || acknowledged.assume_absent => {}
        KnownServerCheck::NoneExists => return WaitReason::NoKnownServer.after_list(next, true),
    }
    if let Some(suspect) = view.suspect()
        && !knows
        && !acknowledged.assume_absent
    {
        return WaitReason::UntaggedServer(suspect).after_list(next, true);
    }
    let (lost, cut) = match order {
        Some(order) if !acknowledged.assume_absent => (order.lost, order.cut),
        _ => (0, 0),
    };
    if lost >= MOST_LOST || cut >= MOST_CUT {
        return WaitReason::OrdersFailed.after_list(next, true);
    }
    let after = last_seq(view, order);
    ProtocolStep::Order { after, lost, cut }
}

/// Numbers further ahead do not count: any client that may tag a server can write any number.
const DAY: i64 = 86_400;

/// The highest known number of an order of this object.
pub fn last_seq(view: &ProtocolView<'_>, order: Option<&ProtocolOrder>) -> u32 {
    let shown = view.servers.iter().filter_map(|server| server.own_seq);
    let shown = shown.filter(|seq| i64::from(*seq) <= view.unix.saturating_add(DAY));
    let recorded = order.map(|order| order.seq);
    shown.chain(recorded).max().unwrap_or_default()
}

/// A living object with a recorded server.
pub fn reconcile_server(
    view: &ProtocolView<'_>,
    order: &ProtocolOrder,
    id: ServerId,
) -> ProtocolStep {
    let Some(server) = missing::shown(view, id) else {
        return match missing::confirm_gone(view, id) {
            ServerAbsence::Searching(step) => step,
            ServerAbsence::Gone => without(view, order, WaitReason::Gone(id)),
            ServerAbsence::Unconfirmed(why) => without(view, order, why),
        };
    };
    let is_released = view.release_of(id).is_some();
    let has_release = view.object.release.is_some();
    let has_ended = matches!(server.state, ServerPhase::Failed | ServerPhase::Released);
    // A live server with the own tag is the object's, whatever happened to this one.
    if has_ended && let Some(other) = view.own_live(None).filter(|other| other.id != id) {
        return adopt::start(view, Some(order), other);
    }
    match server.state {
        ServerPhase::Live if has_release => ProtocolStep::ForgetRelease,
        ServerPhase::Live if server.own_seq.is_none() => WaitReason::TagsMissing(id).step(),
        ServerPhase::Live if server.has_other_owner => WaitReason::Conflict(id).step(),
        ServerPhase::Live if server.is_retained => ProtocolStep::Unretain(id),
        ServerPhase::Live => ProtocolStep::Reconcile(id),
        ServerPhase::Failed if is_released || view.object.after == EndedServerAction::Replace => {
            match release::has_ended(view, server) {
                true => after_end(view, order, server.state),
                false => release::send(view, server),
            }
        }
        ServerPhase::Releasing if is_released => WaitReason::Releasing.step(),
        state => after_end(view, order, state),
    }
}

/// What follows if the recorded server is gone, or may be gone.
fn without(view: &ProtocolView<'_>, order: &ProtocolOrder, why: WaitReason) -> ProtocolStep {
    let missing = order.outcome.server();
    match view
        .own_live(None)
        .filter(|other| Some(other.id) != missing)
    {
        Some(other) => adopt::start(view, Some(order), other),
        None if view.object.acknowledged.assume_absent => missing::acknowledged(order),
        None => why.after_list(missing::next_list_at(view), true),
    }
}

/// What follows once the server has ended.
fn after_end(view: &ProtocolView<'_>, order: &ProtocolOrder, state: ServerPhase) -> ProtocolStep {
    let has_ended = matches!(state, ServerPhase::Released | ServerPhase::Failed);
    match view.object.after {
        EndedServerAction::Replace if has_ended && view.object.external.is_none() => {
            start(view, Some(order))
        }
        _ => WaitReason::Ended(state).step(),
    }
}

/// The number of an order that starts at this Unix second: greater than the last one.
pub fn next_seq(unix: i64, after: u32) -> u32 {
    let now = u32::try_from(unix.max(0)).unwrap_or(u32::MAX);
    now.max(after.saturating_add(1))
}

/// The open record of an order that starts now.
pub fn open_record(
    view: &ProtocolView<'_>,
    after: u32,
    (lost, cut): (u8, u8),
    nonce: u64,
    send_by: i64,
) -> ProtocolOrder {
    ProtocolOrder {
        uid: view.object.uid,
        seq: next_seq(view.unix, after),
        nonce,
        send_by,
        account: view.account,
        outcome: ProtocolOutcome::Open,
        answer_lost: false,
        lost,
        cut,
    }
}

/// Whether the order may be sent now: by the process that wrote its open record, while that is unchanged, and in time
/// (O3).
pub fn may_send(order: &ProtocolOrder, found: Option<&ProtocolOrder>, unix: i64) -> bool {
    found == Some(order) && order.outcome == ProtocolOutcome::Open && unix <= order.send_by
}

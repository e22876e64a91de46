//! A living object: its server is kept, or one is ordered once it is certain that it has none (O1, O2).

use super::{
    After, Known, Order, Outcome, ServerId, State, Step, View, Why, adopt,
    memory::InFlight,
    missing::{self, Missing},
    release,
};
use std::time::Duration;

/// So many orders in a row may be confirmed absent after a lost answer.
const MOST_LOST: u8 = 2;
/// So many orders in a row may be confirmed absent after their process was cut off.
const MOST_CUT: u8 = 5;

/// No live server is recorded: take the one that is the object's, or order one.
pub fn without_server(view: &View<'_>, order: Option<&Order>) -> Step {
    if let Some(server) = view.own_live(None) {
        return adopt::start(view, order, server);
    }
    if let Some(named) = view.object.external.or(view.object.acknowledged.adopt) {
        return adopt::start_named(view, order, named);
    }
    start(view, order)
}

/// The list after which the object may order, or may end without a server: since when it counts, and why it is waited
/// for until then.
pub fn waits_until(view: &View<'_>) -> (Why, Duration) {
    let since = view.seen_since();
    match view.memory.in_flight() {
        InFlight::Impossible => (Why::WaitingForList, since),
        InFlight::Unlikely => {
            let restart = view.leader_since + view.times.restart;
            (Why::Restarted, since.max(restart))
        }
        InFlight::Possible => (Why::MayBeUnderWay, since + view.times.grace),
    }
}

/// Starts an order where it is certain that the object has no server and none is under way.
fn start(view: &View<'_>, order: Option<&Order>) -> Step {
    let (why, after) = waits_until(view);
    let knows = view.memory.in_flight() == InFlight::Impossible;
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
        return Why::WaitingForList.after_list(after, !knows);
    };
    let next = list.began + view.times.idle;
    if view.has_former() && !acknowledged.order_another {
        // Of the whole account, as that may have shown them.
        return Why::ServerExists.after_list(next, true);
    }
    match list.known {
        Known::Shown => {}
        Known::NotShown => return Why::ListIncomplete.after_list(next, !knows),
        // A record that was closed at first sight tells of an order that made none; and former servers that are shown say as
        // much as known ones.
        Known::NoneExists
            if view.memory.in_flight() != InFlight::Possible
                || view.has_former()
                || acknowledged.assume_absent => {}
        Known::NoneExists => return Why::NoKnownServer.after_list(next, true),
    }
    if let Some(suspect) = view.suspect()
        && !knows
        && !acknowledged.assume_absent
    {
        return Why::UntaggedServer(suspect).after_list(next, true);
    }
    let (lost, cut) = match order {
        Some(order) if !acknowledged.assume_absent => (order.lost, order.cut),
        _ => (0, 0),
    };
    if lost >= MOST_LOST || cut >= MOST_CUT {
        return Why::OrdersFailed.after_list(next, true);
    }
    let after = last_seq(view, order);
    Step::Order { after, lost, cut }
}

/// Numbers that lie further ahead are none: whoever may tag a server may write any.
const DAY: i64 = 86_400;

/// The highest number of an order of this object that is known.
pub fn last_seq(view: &View<'_>, order: Option<&Order>) -> u32 {
    let shown = view.servers.iter().filter_map(|server| server.own_seq);
    let shown = shown.filter(|seq| i64::from(*seq) <= view.unix.saturating_add(DAY));
    let recorded = order.map(|order| order.seq);
    shown.chain(recorded).max().unwrap_or_default()
}

/// A living object with a recorded server.
pub fn tend(view: &View<'_>, order: &Order, id: ServerId) -> Step {
    let Some(server) = missing::shown(view, id) else {
        return match missing::prove_gone(view, id) {
            Missing::Look(step) => step,
            Missing::Gone => without(view, order, Why::Gone(id)),
            Missing::Unproved(why) => without(view, order, why),
        };
    };
    let is_released = view.release_of(id).is_some();
    let has_release = view.object.release.is_some();
    let is_over = matches!(server.state, State::Failed | State::Released);
    // What is live is the object's, whatever became of this one.
    if is_over && let Some(other) = view.own_live(None).filter(|other| other.id != id) {
        return adopt::start(view, Some(order), other);
    }
    match server.state {
        State::Live if has_release => Step::ForgetRelease,
        State::Live if server.own_seq.is_none() => Why::TagsMissing(id).step(),
        State::Live if server.has_other_owner => Why::Conflict(id).step(),
        State::Live if server.is_retained => Step::Unretain(id),
        State::Live => Step::Keep(id),
        State::Failed if is_released || view.object.after == After::Replace => {
            match release::has_ended(view, server) {
                true => after_end(view, order, server.state),
                false => release::send(view, server),
            }
        }
        State::Releasing if is_released => Why::Releasing.step(),
        state => after_end(view, order, state),
    }
}

/// What follows a server that is gone, or of which nothing proves that it is there.
fn without(view: &View<'_>, order: &Order, why: Why) -> Step {
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

/// What follows a server that is over.
fn after_end(view: &View<'_>, order: &Order, state: State) -> Step {
    let is_over = matches!(state, State::Released | State::Failed);
    match view.object.after {
        After::Replace if is_over && view.object.external.is_none() => start(view, Some(order)),
        _ => Why::Ended(state).step(),
    }
}

/// The number of an order that starts at this Unix second: greater than the last one.
pub fn next_seq(unix: i64, after: u32) -> u32 {
    let now = u32::try_from(unix.max(0)).unwrap_or(u32::MAX);
    now.max(after.saturating_add(1))
}

/// The open record of an order that starts now.
pub fn open_record(
    view: &View<'_>,
    after: u32,
    (lost, cut): (u8, u8),
    nonce: u64,
    send_by: i64,
) -> Order {
    Order {
        uid: view.object.uid,
        seq: next_seq(view.unix, after),
        nonce,
        send_by,
        account: view.account,
        outcome: Outcome::Open,
        answer_lost: false,
        lost,
        cut,
    }
}

/// Whether the order may be sent now: by who wrote its open record, which stands, and in time (O3).
pub fn may_send(order: &Order, found: Option<&Order>, unix: i64) -> bool {
    found == Some(order) && order.outcome == Outcome::Open && unix <= order.send_by
}

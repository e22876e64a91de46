//! A living object: its server is kept, or one is ordered once it is certain that it has none (O1, O2).

use super::{
    After, Known, Order, ServerId, State, Step, View, Why,
    memory::Sight,
    missing::{self, Missing},
    release, take,
};
use std::time::Duration;

/// So many orders in a row may be confirmed absent after a lost answer.
const MOST_LOST: u8 = 2;
/// So many orders in a row may be confirmed absent after their process was cut off.
const MOST_CUT: u8 = 5;

/// No live server is recorded: take the one that is the object's, or order one.
pub fn without_server(view: &View<'_>, order: Option<&Order>) -> Step {
    if let Some(server) = view.own_live(None) {
        return take::begin(view, order, server);
    }
    if let Some(named) = view.object.external.or(view.object.words.adopt) {
        return take::take_named(view, order, named);
    }
    start(view, order)
}

/// The list after which the object may order, or may end without a server: since when it counts, and why it is waited
/// for until then.
pub fn waits_until(view: &View<'_>) -> (Why, Duration) {
    let since = view.seen_since();
    match view.memory.sight() {
        Sight::NoneUnderWay => (Why::List, since),
        Sight::Quiet => {
            let restart = view.leader_since + view.times.restart;
            (Why::Restarted, since.max(restart))
        }
        Sight::Nothing => (Why::MayBeUnderWay, since + view.times.grace),
    }
}

/// Starts an order where it is certain that the object has no server and none is under way.
fn start(view: &View<'_>, order: Option<&Order>) -> Step {
    let (why, after) = waits_until(view);
    let knows = view.memory.sight() == Sight::NoneUnderWay;
    let words = view.object.words;
    let list = if knows { view.list } else { view.whole };
    if view.now <= after {
        return why.until(after, !knows);
    }
    let Some(list) = list.filter(|list| list.began > after) else {
        return Why::List.until(after, !knows);
    };
    let next = list.began + view.times.check;
    match list.known {
        Known::Shown => {}
        Known::NotShown => return Why::NotBelieved.until(next, !knows),
        Known::NoneExists if knows || !view.object.finalizer || words.absent => {}
        Known::NoneExists => return Why::NothingKnown.until(next, true),
    }
    if let Some(suspect) = view.suspect()
        && !knows
        && !words.absent
    {
        return Why::Suspect(suspect).until(next, true);
    }
    if view.has_former() && !words.another {
        return Why::Exists.until(next, !knows);
    }
    let (lost, cut) = match order {
        Some(order) if !words.absent => (order.lost, order.cut),
        _ => (0, 0),
    };
    if lost >= MOST_LOST || cut >= MOST_CUT {
        return Why::CameToNothing.step();
    }
    let after = last_seq(view, order);
    Step::Order { after, lost, cut }
}

/// The highest number of an order of this object that is known.
pub fn last_seq(view: &View<'_>, order: Option<&Order>) -> u32 {
    let shown = view.servers.iter().filter_map(|server| server.own);
    let recorded = order.map(|order| order.seq);
    shown.chain(recorded).max().unwrap_or_default()
}

/// A living object with a recorded server.
pub fn keep(view: &View<'_>, order: &Order, id: ServerId) -> Step {
    if order.account != view.account {
        return missing::of_other_account(view, order);
    }
    let Some(server) = missing::shown(view, id) else {
        return match missing::missing(view, id) {
            Missing::Look(step) => step,
            Missing::Gone | Missing::Unproved(_) => match view.own_live(None) {
                Some(other) => take::begin(view, Some(order), other),
                None if view.object.words.absent => missing::acknowledged(order),
                None => Why::Gone(id).until(missing::next(view), true),
            },
        };
    };
    let is_released = view.release_of(id).is_some();
    let other = view.own_live(None).filter(|other| other.id != id);
    match server.state {
        State::Live if is_released => Step::ForgetRelease,
        State::Live if server.own.is_none() => Why::TagsMissing(id).step(),
        State::Live if server.others => Why::Conflict(id).step(),
        State::Live if server.kept => Step::Unretain(id),
        State::Live => Step::Keep(id),
        // What is live is the object's, whatever became of this one.
        State::Failed | State::Released if other.is_some() => other
            .map_or(Step::Keep(id), |other| {
                take::begin(view, Some(order), other)
            }),
        State::Failed if is_released || view.object.after == After::Replace => {
            match release::has_ended(view, server) {
                true => next(view, order, server.state),
                false => release::send(view, server),
            }
        }
        State::Releasing if is_released => Why::Releasing.step(),
        state => next(view, order, state),
    }
}

/// What follows a server that is over.
fn next(view: &View<'_>, order: &Order, state: State) -> Step {
    let is_over = matches!(state, State::Released | State::Failed);
    match view.object.after {
        After::Replace if is_over && view.object.external.is_none() => start(view, Some(order)),
        _ => Why::Over(state).step(),
    }
}

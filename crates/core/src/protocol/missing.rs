//! A server that is recorded is not shown: when is it gone? Missing is not gone.

use super::{Known, Order, Outcome, Server, ServerId, Step, View, Why};
use std::time::Duration;

/// How far the proof is that a server is gone.
pub enum Missing {
    /// It is looked for.
    Look(Step),
    /// It is gone.
    Gone,
    /// It is gone for all that is shown, and why nothing proves it.
    Unproved(Why),
}

/// The server, unless a read since says that there is none.
pub fn shown<'a>(view: &'a View<'_>, id: ServerId) -> Option<&'a Server> {
    let missed = view.memory.missing().map(|(_, last)| last);
    let is_newer = |server: &&Server| missed.is_none_or(|missed| server.seen > missed);
    view.server(id).filter(is_newer)
}

/// How far the proof is: two reads say 404, the last one after the grace period, and a list of the whole account with a
/// known server does not show it.
pub fn missing(view: &View<'_>, id: ServerId) -> Missing {
    let due = view.seen_since() + view.times.grace;
    let Some((first, last)) = view.memory.missing() else {
        return Missing::Look(Step::Read(id));
    };
    let is_read = last > due && last >= first + view.times.spacing;
    if !is_read && view.now >= last + view.times.spacing {
        return Missing::Look(Step::Read(id));
    }
    let list = view.whole.filter(|list| list.began > due.max(first));
    let is_listed = view.server(id).is_some_and(|server| server.listed);
    match list {
        Some(list) if is_read && !is_listed => match list.known {
            Known::Shown => Missing::Gone,
            Known::NotShown => Missing::Unproved(Why::NotBelieved),
            Known::NoneExists => Missing::Unproved(Why::NothingKnown),
        },
        _ => Missing::Look(Why::Missing(id).until(due.max(first), true)),
    }
}

/// When the next list is wanted by an object that goes on looking.
pub fn next(view: &View<'_>) -> Duration {
    view.whole.map_or(view.now, |list| list.began) + view.times.check
}

/// The record is of another account, which nothing that is shown here says anything of.
pub fn of_other_account(view: &View<'_>, order: &Order) -> Step {
    let due = view.seen_since() + view.times.grace;
    match view.object.words.absent && view.now > due {
        true => acknowledged(order),
        false => Why::OtherAccount.step(),
    }
}

/// A user acknowledged that there is no server.
pub fn acknowledged(order: &Order) -> Step {
    let order = Order {
        outcome: Outcome::Absent,
        lost: 0,
        cut: 0,
        ..*order
    };
    Step::Record(Some(order))
}

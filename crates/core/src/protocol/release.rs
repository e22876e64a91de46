//! The object is being deleted: its server stays or is released, and the finalizer goes at a proven end (R1 to R5). The
//! failed server of a living object is released in the same way before another one is ordered.

use super::{
    End, Known, Order, Server, ServerId, State, Step, View, Why,
    memory::Sight,
    missing::{self, Missing},
    order, resolve, take,
};

/// So often the provider has to refuse the release of a failed server before it counts as ended.
const REFUSED: u8 = 2;

/// A deleted object without a recorded server (R1).
pub fn without_server(view: &View<'_>, order: Option<&Order>) -> Step {
    match view.memory.sight() {
        Sight::NoneUnderWay => Step::RemoveFinalizer,
        Sight::Quiet => quiet(view, order),
        Sight::Nothing => match view.own_live(None) {
            Some(server) => take::begin(view, order, server),
            None => match resolve::absence(view) {
                resolve::Absence::Confirmed | resolve::Absence::Acknowledged => {
                    Step::RemoveFinalizer
                }
                resolve::Absence::Not(step) => step,
            },
        },
    }
}

/// The record was closed at first sight: one list after the time in which an order could still arrive.
fn quiet(view: &View<'_>, order: Option<&Order>) -> Step {
    let (why, after) = order::waits_until(view);
    if view.now <= after {
        return why.until(after, true);
    }
    let Some(list) = view.whole.filter(|list| list.began > after) else {
        return Why::List.until(after, true);
    };
    if let Some(server) = view.own_live(None) {
        return take::begin(view, order, server);
    }
    match list.known {
        Known::NotShown => Why::NotBelieved.until(list.began + view.times.check, true),
        Known::Shown | Known::NoneExists => Step::RemoveFinalizer,
    }
}

/// A deleted object with a recorded server.
pub fn release(view: &View<'_>, order: &Order, id: ServerId) -> Step {
    if order.account != view.account {
        return missing::of_other_account(view, order);
    }
    let Some(server) = missing::shown(view, id) else {
        return match missing::missing(view, id) {
            Missing::Look(step) => step,
            Missing::Gone => Step::RemoveFinalizer,
            Missing::Unproved(_) if view.object.words.absent => Step::RemoveFinalizer,
            Missing::Unproved(why) => why.until(missing::next(view), true),
        };
    };
    if has_ended(view, server) {
        return Step::RemoveFinalizer;
    }
    let is_begun = view.release_of(id).is_some();
    match view.object.end {
        _ if is_begun => {}
        End::Wait => return Why::End.step(),
        End::Retain => return retain(server),
        End::Release => {}
    }
    send(view, server)
}

/// Whether a server that is to be released needs no further DELETE, ever.
pub fn has_ended(view: &View<'_>, server: &Server) -> bool {
    match server.state {
        State::Released => true,
        State::Failed => view.memory.refused() >= REFUSED || server.own.is_none(),
        State::Live | State::Releasing => false,
    }
}

fn retain(server: &Server) -> Step {
    match server.state {
        State::Failed | State::Releasing | State::Released => Step::RemoveFinalizer,
        State::Live if server.own.is_none() => Why::TagsMissing(server.id).step(),
        State::Live if server.others => Why::Conflict(server.id).step(),
        State::Live if server.kept => Step::RemoveFinalizer,
        State::Live => Step::Retain(server.id),
    }
}

/// Records the release and sends its DELETE, or says why not.
pub fn send(view: &View<'_>, server: &Server) -> Step {
    if server.state == State::Releasing {
        return match view.release_of(server.id) {
            Some(_) => Why::Releasing.step(),
            // Somebody else releases it.
            None => Why::Over(State::Releasing).step(),
        };
    }
    if server.own.is_none() {
        return Why::TagsMissing(server.id).step();
    }
    if server.others {
        return Why::Conflict(server.id).step();
    }
    Step::Release(server.id)
}

/// Whether the DELETE may be sent, by a read right before it (R5): the server is this object's and nobody else's, and of an
/// object that stays it failed.
pub fn may_delete(server: &Server, is_deleting: bool) -> bool {
    let may_go = match server.state {
        State::Live => is_deleting,
        State::Failed => true,
        State::Releasing | State::Released => false,
    };
    may_go && server.is_sole()
}

/// Whether the server may be tagged as retained, by a read right before.
pub fn may_retain(server: &Server) -> bool {
    server.is_live() && server.is_sole()
}

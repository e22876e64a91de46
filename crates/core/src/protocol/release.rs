//! The object is being deleted: its server stays or is released, and the finalizer goes at a proven end (R1 to R5). The
//! failed server of a living object is released in the same way before another one is ordered.

use super::{
    End, Known, Order, Release, Server, ServerId, State, Step, View, Why, adopt,
    memory::InFlight,
    missing::{self, Missing},
    order, resolve,
};

/// So often the provider has to refuse the release of a failed server before it counts as ended.
const REFUSED: u8 = 2;

/// A deleted object without a recorded server (R1).
pub fn without_server(view: &View<'_>, order: Option<&Order>) -> Step {
    // What shows is taken, and the policy decides. A retained server that the object has not taken stays retained.
    if let Some(server) = view.own_live_but_kept() {
        return adopt::start(view, order, server);
    }
    match view.memory.in_flight() {
        InFlight::Impossible => Step::RemoveFinalizer,
        InFlight::Unlikely => after_one_list(view),
        InFlight::Possible => match resolve::prove_absent(view) {
            resolve::Absence::Confirmed | resolve::Absence::Acknowledged => Step::RemoveFinalizer,
            resolve::Absence::Not(step) => step,
        },
    }
}

/// The record was closed at first sight: one list after the time in which an order could still arrive.
fn after_one_list(view: &View<'_>) -> Step {
    let (why, after) = order::waits_until(view);
    if view.now <= after {
        return why.after_list(after, true);
    }
    let Some(list) = view.account_list.filter(|list| list.began > after) else {
        return Why::WaitingForList.after_list(after, true);
    };
    match list.known {
        Known::NotShown => Why::ListIncomplete.after_list(list.began + view.times.idle, true),
        Known::Shown | Known::NoneExists => Step::RemoveFinalizer,
    }
}

/// A deleted object with a recorded server.
pub fn release(view: &View<'_>, id: ServerId) -> Step {
    let Some(server) = missing::shown(view, id) else {
        return match missing::prove_gone(view, id) {
            Missing::Look(step) => step,
            Missing::Gone => Step::RemoveFinalizer,
            Missing::Unproved(_) if view.object.acknowledged.assume_absent => Step::RemoveFinalizer,
            Missing::Unproved(why) => why.after_list(missing::next_list_at(view), true),
        };
    };
    if has_ended(view, server) {
        return Step::RemoveFinalizer;
    }
    let is_begun = view.release_of(id).is_some();
    match view.object.end {
        _ if is_begun => {}
        End::Wait => return Why::Deletion.step(),
        End::Retain => return retain(server),
        End::Release => {}
    }
    send(view, server)
}

/// Whether a server that is to be released needs no further DELETE, ever.
pub fn has_ended(view: &View<'_>, server: &Server) -> bool {
    match server.state {
        State::Released => true,
        State::Failed => view.memory.refused() >= REFUSED || server.own_seq.is_none(),
        State::Live | State::Releasing => false,
    }
}

fn retain(server: &Server) -> Step {
    match server.state {
        State::Failed | State::Releasing | State::Released => Step::RemoveFinalizer,
        State::Live if server.own_seq.is_none() => Why::TagsMissing(server.id).step(),
        State::Live if server.has_other_owner => Why::Conflict(server.id).step(),
        State::Live if server.is_retained => Step::RemoveFinalizer,
        State::Live => Step::Retain(server.id),
    }
}

/// Records the release and sends its DELETE, or says why not.
pub fn send(view: &View<'_>, server: &Server) -> Step {
    if server.state == State::Releasing {
        return match view.release_of(server.id) {
            Some(_) => Why::Releasing.step(),
            // Somebody else releases it.
            None => Why::Ended(State::Releasing).step(),
        };
    }
    if server.own_seq.is_none() {
        return Why::TagsMissing(server.id).step();
    }
    if server.has_other_owner {
        return Why::Conflict(server.id).step();
    }
    Step::Release(server.id)
}

/// Whether the DELETE may be sent at this Unix second that was recorded so, by a read right before it (R5): in time, the server
/// is this object's and nobody else's, and of an object that stays it failed.
pub fn may_delete(server: &Server, release: &Release, unix: i64) -> bool {
    let may_go = match server.state {
        State::Live => release.deleting,
        State::Failed => true,
        State::Releasing | State::Released => false,
    };
    may_go && server.is_sole() && unix <= release.send_by
}

/// Whether the server may be tagged as retained, by a read right before.
pub fn may_retain(server: &Server) -> bool {
    server.is_live() && server.is_sole()
}

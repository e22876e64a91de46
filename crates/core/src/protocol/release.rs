//! The object is being deleted: its server is retained or released, and the finalizer is removed once the end is
//! confirmed (R1 to R5). A living object's failed server is released in the same way before a replacement is ordered.

use super::{
    DeletionAction, KnownServerCheck, ProtocolOrder, ProtocolServer, ProtocolStep, ProtocolView,
    Release, ServerId, ServerPhase, WaitReason, adopt,
    memory::OrdersInFlight,
    missing::{self, ServerAbsence},
    order, resolve,
};

/// How often the provider has to refuse the release of a failed server before it counts as ended.
const REFUSED: u8 = 2;

/// A deleted object without a recorded server (R1).
pub fn without_server(view: &ProtocolView<'_>, order: Option<&ProtocolOrder>) -> ProtocolStep {
    // A server that is shown is adopted, and the policy decides. A retained one that is not adopted stays retained.
    if let Some(server) = view.own_live_not_retained() {
        return adopt::start(view, order, server);
    }
    match view.memory.in_flight() {
        OrdersInFlight::Impossible => ProtocolStep::RemoveFinalizer,
        OrdersInFlight::Unlikely => after_one_list(view),
        OrdersInFlight::Possible => match resolve::confirm_absent(view) {
            resolve::OrderAbsence::Confirmed | resolve::OrderAbsence::Acknowledged => {
                ProtocolStep::RemoveFinalizer
            }
            resolve::OrderAbsence::Not(step) => step,
        },
    }
}

/// The record was closed at first observation: one list after the time in which an order could still arrive.
fn after_one_list(view: &ProtocolView<'_>) -> ProtocolStep {
    let (why, after) = order::waits_until(view);
    if view.now <= after {
        return why.after_list(after, true);
    }
    let Some(list) = view.account_list.filter(|list| list.began > after) else {
        return WaitReason::WaitingForList.after_list(after, true);
    };
    match list.known {
        KnownServerCheck::NotShown => {
            WaitReason::ListIncomplete.after_list(list.began + view.times.idle, true)
        }
        KnownServerCheck::Shown | KnownServerCheck::NoneExists => ProtocolStep::RemoveFinalizer,
    }
}

/// A deleted object with a recorded server.
pub fn release(view: &ProtocolView<'_>, id: ServerId) -> ProtocolStep {
    let Some(server) = missing::shown(view, id) else {
        return match missing::confirm_gone(view, id) {
            ServerAbsence::Searching(step) => step,
            ServerAbsence::Gone => ProtocolStep::RemoveFinalizer,
            ServerAbsence::Unconfirmed(_) if view.object.acknowledged.assume_absent => {
                ProtocolStep::RemoveFinalizer
            }
            ServerAbsence::Unconfirmed(why) => why.after_list(missing::next_list_at(view), true),
        };
    };
    if has_ended(view, server) {
        return ProtocolStep::RemoveFinalizer;
    }
    let is_begun = view.release_of(id).is_some();
    match view.object.end {
        _ if is_begun => {}
        DeletionAction::Wait => return WaitReason::Deletion.step(),
        DeletionAction::Retain => return retain(server),
        DeletionAction::Release => {}
    }
    send(view, server)
}

/// Whether a server to release needs no further DELETE, ever.
pub fn has_ended(view: &ProtocolView<'_>, server: &ProtocolServer) -> bool {
    match server.state {
        ServerPhase::Released => true,
        ServerPhase::Failed => view.memory.refused() >= REFUSED || server.own_seq.is_none(),
        ServerPhase::Live | ServerPhase::Releasing => false,
    }
}

fn retain(server: &ProtocolServer) -> ProtocolStep {
    match server.state {
        ServerPhase::Failed | ServerPhase::Releasing | ServerPhase::Released => {
            ProtocolStep::RemoveFinalizer
        }
        ServerPhase::Live if server.own_seq.is_none() => WaitReason::TagsMissing(server.id).step(),
        ServerPhase::Live if server.has_other_owner => WaitReason::Conflict(server.id).step(),
        ServerPhase::Live if server.is_retained => ProtocolStep::RemoveFinalizer,
        ServerPhase::Live => ProtocolStep::Retain(server.id),
    }
}

/// Records the release and sends its DELETE, or gives the reason why not.
pub fn send(view: &ProtocolView<'_>, server: &ProtocolServer) -> ProtocolStep {
    if server.state == ServerPhase::Releasing {
        return match view.release_of(server.id) {
            Some(_) => WaitReason::Releasing.step(),
            // Another client releases it.
            None => WaitReason::Ended(ServerPhase::Releasing).step(),
        };
    }
    if server.own_seq.is_none() {
        return WaitReason::TagsMissing(server.id).step();
    }
    if server.has_other_owner {
        return WaitReason::Conflict(server.id).step();
    }
    ProtocolStep::Release(server.id)
}

/// Whether a read right before the recorded DELETE allows it (R5): the server is this object's and no other's, and if the
/// object stays, the server failed.
pub fn may_delete(server: &ProtocolServer, release: &Release) -> bool {
    let may_go = match server.state {
        ServerPhase::Live => release.deleting,
        ServerPhase::Failed => true,
        ServerPhase::Releasing | ServerPhase::Released => false,
    };
    may_go && server.is_sole()
}

/// Whether the server may be tagged as retained, by a read right before.
pub fn may_retain(server: &ProtocolServer) -> bool {
    server.is_live() && server.is_sole()
}

//! Adoption is one procedure, however the object comes to a server (A2): record the claim, list the objects live, put
//! both tags on, wait until every other process that may change tags has seen them, and read the server again.

use super::{
    ProtocolOrder, ProtocolOutcome, ProtocolServer, ProtocolStep, ProtocolView, ServerId,
    ServerPhase, WaitReason,
    missing::{self, ServerAbsence},
    order::last_seq,
};

/// What follows from a live list of the objects and a read of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimStep {
    /// Another object has it: remove the record.
    Yield,
    /// Add the missing tags.
    Tag,
    /// It is being released: wait for the end.
    Wait,
}

/// What follows from the read of a claimed server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdoptionStep {
    /// It is released, or has the tag of another cluster: remove the record.
    Yield,
    /// A tag is missing, or another object comes first: claim it again.
    ClaimAgain,
    /// Remove an order tag of another owner, and read the server again.
    RemoveOther,
    /// It is the object's: write this record.
    Adopted(ProtocolOrder),
    /// It is being released: wait for the end.
    Wait,
}

/// Starts to adopt a server, on a read that is newer than the record. Otherwise two processes with different reads
/// would undo each other's step again and again.
pub fn start(
    view: &ProtocolView<'_>,
    order: Option<&ProtocolOrder>,
    server: &ProtocolServer,
) -> ProtocolStep {
    let since = view.seen_since();
    if server.seen <= since {
        return WaitReason::WaitingForList.after_list(since, true);
    }
    if server.has_other_cluster {
        return WaitReason::OtherCluster(server.id).step();
    }
    if view.is_taken(server) {
        return WaitReason::Conflict(server.id).step();
    }
    if !view.object.finalizer {
        return ProtocolStep::AddFinalizer;
    }
    let now = u32::try_from(view.unix.max(0)).unwrap_or(u32::MAX);
    let next = now.max(last_seq(view, order).saturating_add(1));
    let (lost, cut) = order.map_or((0, 0), |order| (order.lost, order.cut));
    ProtocolStep::Record(Some(ProtocolOrder {
        uid: view.object.uid,
        seq: server.own_seq.unwrap_or(next),
        nonce: 0,
        send_by: view.unix,
        account: view.account,
        outcome: ProtocolOutcome::Adopting(server.id),
        answer_lost: false,
        lost,
        cut,
    }))
}

/// Starts to adopt the server that the spec or a user names, or gives the reason why not.
pub fn start_named(
    view: &ProtocolView<'_>,
    order: Option<&ProtocolOrder>,
    id: ServerId,
) -> ProtocolStep {
    let since = view.seen_since();
    let Some(list) = view.account_list.filter(|list| list.began > since) else {
        return WaitReason::WaitingForList.after_list(since, true);
    };
    let next = list.began + view.times.idle;
    let wait = |why: WaitReason| why.after_list(next, true);
    let Some(server) = view.server(id).filter(|server| server.seen > since) else {
        return wait(WaitReason::ServerNotFound(id));
    };
    if !server.is_live() {
        return wait(WaitReason::NotLive(id, server.state));
    }
    if server.has_other_cluster {
        return wait(WaitReason::OtherCluster(id));
    }
    if view.is_shared && server.has_other_namespace {
        return wait(WaitReason::OtherNamespace(id));
    }
    if view.is_taken(server) {
        return wait(WaitReason::Conflict(id));
    }
    start(view, order, server)
}

/// Continues an adoption.
pub fn proceed(view: &ProtocolView<'_>, id: ServerId) -> ProtocolStep {
    if view.recorded_elsewhere.contains(&id) {
        return ProtocolStep::Record(None);
    }
    if view.memory.missing().is_some() {
        return match missing::confirm_gone(view, id) {
            ServerAbsence::Searching(step) => step,
            ServerAbsence::Gone => ProtocolStep::Record(None),
            ServerAbsence::Unconfirmed(_) if view.object.acknowledged.assume_absent => {
                ProtocolStep::Record(None)
            }
            ServerAbsence::Unconfirmed(why) => why.after_list(missing::next_list_at(view), true),
        };
    }
    if missing::shown(view, id).is_some_and(|server| server.state == ServerPhase::Released) {
        return ProtocolStep::Record(None);
    }
    match view.memory.claimed_since(id) {
        None => ProtocolStep::Claim(id),
        Some(since) if view.now <= since + view.times.flight_time => {
            WaitReason::Settling.until(since + view.times.flight_time)
        }
        Some(_) => ProtocolStep::Finish(id),
    }
}

/// What follows from a live list of the objects and a read of the server. Once the own tag is on, the tag of another
/// object is no reason to yield: that would leave a server with only this object's tag. `is_shared`: as in
/// [`ProtocolView`].
pub fn claim(
    server: &ProtocolServer,
    is_shared: bool,
    is_recorded: bool,
    is_owned: bool,
) -> ClaimStep {
    let is_new = server.own_seq.is_none();
    let is_others = server.has_other_cluster || (is_new && is_shared && server.has_other_namespace);
    match server.state {
        _ if is_recorded || is_others || (is_owned && is_new) => ClaimStep::Yield,
        ServerPhase::Released => ClaimStep::Yield,
        ServerPhase::Releasing => ClaimStep::Wait,
        ServerPhase::Live | ServerPhase::Failed => ClaimStep::Tag,
    }
}

/// What follows from the read of a claimed server. `yields`: it also has the order tag of another object that adopts it
/// and comes first. Without this, two objects that adopt it at once would remove each other's tag.
pub fn finish(order: &ProtocolOrder, server: &ProtocolServer, yields: bool) -> AdoptionStep {
    let Some(seq) = server.own_seq else {
        return match server.state {
            ServerPhase::Released => AdoptionStep::Yield,
            _ => AdoptionStep::ClaimAgain,
        };
    };
    match server.state {
        _ if server.has_other_cluster => AdoptionStep::Yield,
        ServerPhase::Released => AdoptionStep::Yield,
        ServerPhase::Releasing => AdoptionStep::Wait,
        ServerPhase::Live | ServerPhase::Failed if yields || !server.has_cluster_tag => {
            AdoptionStep::ClaimAgain
        }
        ServerPhase::Live | ServerPhase::Failed if server.has_other_owner => {
            AdoptionStep::RemoveOther
        }
        ServerPhase::Live | ServerPhase::Failed => AdoptionStep::Adopted(ProtocolOrder {
            seq,
            ..order.with(ProtocolOutcome::Created(server.id))
        }),
    }
}

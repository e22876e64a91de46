//! Taking a server is one procedure, whichever way the object comes to it (A2): the claim is recorded, the objects are
//! listed live, both tags go on, and once whoever else may change tags has seen them the server is read again.

use super::{
    ProtocolOrder, ProtocolOutcome, ProtocolServer, ProtocolStep, ProtocolView, ServerId,
    ServerPhase, Why,
    missing::{self, Missing},
    order::last_seq,
};

/// What follows from a live list of the objects and a read of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimStep {
    /// Another object has it: the record goes.
    Yield,
    /// The tags that are missing are put on.
    Tag,
    /// It is being released: wait for the end.
    Wait,
}

/// What follows from the read of a server that was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It is released: the record goes.
    Yield,
    /// A tag is missing, or another object comes before: it is claimed again.
    ClaimAgain,
    /// An order tag of another owner comes off, and the server is read again.
    RemoveOther,
    /// It is the object's: the record to write.
    Adopted(ProtocolOrder),
    /// It is being released: wait for the end.
    Wait,
}

/// Starts to take a server, on a look that is newer than the record: of two processes that look at different times one would
/// start again and again what the other one gives up.
pub fn start(
    view: &ProtocolView<'_>,
    order: Option<&ProtocolOrder>,
    server: &ProtocolServer,
) -> ProtocolStep {
    let since = view.seen_since();
    if server.seen <= since {
        return Why::WaitingForList.after_list(since, true);
    }
    if server.has_other_cluster {
        return Why::OtherCluster(server.id).step();
    }
    if view.is_taken(server) {
        return Why::Conflict(server.id).step();
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

/// Starts to take the server that the spec or a user names, or says why not.
pub fn start_named(
    view: &ProtocolView<'_>,
    order: Option<&ProtocolOrder>,
    id: ServerId,
) -> ProtocolStep {
    let since = view.seen_since();
    let Some(list) = view.account_list.filter(|list| list.began > since) else {
        return Why::WaitingForList.after_list(since, true);
    };
    let next = list.began + view.times.idle;
    let wait = |why: Why| why.after_list(next, true);
    let Some(server) = view.server(id).filter(|server| server.seen > since) else {
        return wait(Why::ServerNotFound(id));
    };
    if !server.is_live() {
        return wait(Why::NotLive(id, server.state));
    }
    if server.has_other_cluster {
        return wait(Why::OtherCluster(id));
    }
    if view.is_shared && server.has_other_namespace {
        return wait(Why::OtherNamespace(id));
    }
    if view.is_taken(server) {
        return wait(Why::Conflict(id));
    }
    start(view, order, server)
}

/// Goes on taking a server.
pub fn proceed(view: &ProtocolView<'_>, id: ServerId) -> ProtocolStep {
    if view.recorded_elsewhere.contains(&id) {
        return ProtocolStep::Record(None);
    }
    if view.memory.missing().is_some() {
        return match missing::confirm_gone(view, id) {
            Missing::Searching(step) => step,
            Missing::Gone => ProtocolStep::Record(None),
            Missing::Unconfirmed(_) if view.object.acknowledged.assume_absent => {
                ProtocolStep::Record(None)
            }
            Missing::Unconfirmed(why) => why.after_list(missing::next_list_at(view), true),
        };
    }
    if missing::shown(view, id).is_some_and(|server| server.state == ServerPhase::Released) {
        return ProtocolStep::Record(None);
    }
    match view.memory.claimed_since(id) {
        None => ProtocolStep::Claim(id),
        Some(since) if view.now <= since + view.times.spacing => {
            Why::Settling.until(since + view.times.spacing)
        }
        Some(_) => ProtocolStep::Finish(id),
    }
}

/// What follows from a live list of the objects and a read of the server. Once the own tag is on, only another object's
/// record makes this one give way: it would leave a server with nobody's tag but its own. `is_shared`: as in [`View`].
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

/// What follows from the read of a server that was claimed. `yields`: it has the order tag of another object that takes it,
/// too, and comes before this one. Of two objects that adopt it at once each would else remove the other's tag.
pub fn finish(order: &ProtocolOrder, server: &ProtocolServer, yields: bool) -> Finish {
    let Some(seq) = server.own_seq else {
        return match server.state {
            ServerPhase::Released => Finish::Yield,
            _ => Finish::ClaimAgain,
        };
    };
    match server.state {
        _ if server.has_other_cluster => Finish::Yield,
        ServerPhase::Released => Finish::Yield,
        ServerPhase::Releasing => Finish::Wait,
        ServerPhase::Live | ServerPhase::Failed if yields || !server.has_cluster_tag => {
            Finish::ClaimAgain
        }
        ServerPhase::Live | ServerPhase::Failed if server.has_other_owner => Finish::RemoveOther,
        ServerPhase::Live | ServerPhase::Failed => Finish::Adopted(ProtocolOrder {
            seq,
            ..order.with(ProtocolOutcome::Created(server.id))
        }),
    }
}

//! Taking a server is one procedure, whichever way the object comes to it (A2): the claim is recorded, the objects are
//! listed live, both tags go on, and once whoever else may change tags has seen them the server is read again.

use super::{
    Order, Outcome, Server, ServerId, State, Step, View, Why,
    missing::{self, Missing},
    order::last_seq,
};

/// What follows from a live list of the objects and a read of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Another object has it: the record goes.
    GiveWay,
    /// The tags that are missing are put on.
    Tag,
}

/// What follows from the read of a server that was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It is released: the record goes.
    GiveWay,
    /// A tag is missing: it is claimed again.
    ClaimAgain,
    /// An order tag of another owner comes off, and the server is read again.
    RemoveOther,
    /// It is the object's: the record to write.
    Adopted(Order),
    /// It is being released: wait for the end.
    Wait,
}

/// Starts to take a server.
pub fn begin(view: &View<'_>, order: Option<&Order>, server: &Server) -> Step {
    if view.is_taken(server) {
        return Why::Conflict(server.id).step();
    }
    if !view.object.finalizer {
        return Step::AddFinalizer;
    }
    let now = u32::try_from(view.unix).unwrap_or(u32::MAX);
    let next = now.max(last_seq(view, order).saturating_add(1));
    Step::Record(Some(Order {
        uid: view.object.uid,
        seq: server.own.unwrap_or(next),
        nonce: 0,
        send_by: view.unix,
        account: view.account,
        outcome: Outcome::Adopting(server.id),
        answer_lost: false,
        lost: 0,
        cut: 0,
    }))
}

/// Starts to take the server that the spec or a user names, or says why not.
pub fn take_named(view: &View<'_>, order: Option<&Order>, id: ServerId) -> Step {
    let since = view.seen_since();
    let Some(list) = view.whole.filter(|list| list.began > since) else {
        return Why::List.until(since, true);
    };
    let next = list.began + view.times.check;
    let wait = |why: Why| why.until(next, true);
    let Some(server) = view.server(id).filter(|server| server.seen > since) else {
        return wait(Why::NotShown);
    };
    if !server.is_live() {
        return wait(Why::NotLive(server.state));
    }
    if server.foreign {
        return wait(Why::Foreign);
    }
    if view.is_shared && server.other_namespace {
        return wait(Why::OtherNamespace);
    }
    if view.is_taken(server) {
        return wait(Why::Conflict(id));
    }
    begin(view, order, server)
}

/// Goes on taking a server.
pub fn go_on(view: &View<'_>, order: &Order, id: ServerId) -> Step {
    if order.account != view.account {
        return missing::of_other_account(view, order);
    }
    if view.recorded.contains(&id) {
        return Step::Record(None);
    }
    if view.memory.missing().is_some() {
        return match missing::missing(view, id) {
            Missing::Look(step) => step,
            Missing::Gone => Step::Record(None),
            Missing::Unproved(_) if view.object.words.absent => Step::Record(None),
            Missing::Unproved(why) => why.until(missing::next(view), true),
        };
    }
    match view.memory.claimed_since(id) {
        None => Step::Claim(id),
        Some(since) if view.now <= since + view.times.spacing => Why::Settling.step(),
        Some(_) => Step::Finish(id),
    }
}

/// What follows from a live list of the objects and a read of the server. Once the own tag is on, only another object's
/// record makes this one give way: it would leave a server with nobody's tag but its own.
pub fn claim(server: &Server, is_recorded: bool, is_owned: bool) -> Claim {
    match is_recorded || (is_owned && server.own.is_none()) {
        true => Claim::GiveWay,
        false => Claim::Tag,
    }
}

/// What follows from the read of a server that was claimed.
pub fn finish(order: &Order, server: &Server) -> Finish {
    let Some(seq) = server.own else {
        return match server.state {
            State::Released => Finish::GiveWay,
            _ => Finish::ClaimAgain,
        };
    };
    match server.state {
        State::Released => Finish::GiveWay,
        State::Releasing => Finish::Wait,
        State::Live | State::Failed if !server.cluster => Finish::ClaimAgain,
        State::Live | State::Failed if server.others => Finish::RemoveOther,
        State::Live | State::Failed => Finish::Adopted(Order {
            seq,
            ..order.with(Outcome::Created(server.id))
        }),
    }
}

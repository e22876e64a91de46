//! When a recorded server that is not shown is gone. Missing is not gone.

use super::{
    KnownServerCheck, ProtocolOrder, ProtocolOutcome, ProtocolServer, ProtocolStep, ProtocolView,
    ServerId, WaitReason,
};
use std::time::Duration;

/// Whether it is confirmed that a server is gone.
pub enum ServerAbsence {
    /// The search goes on.
    Searching(ProtocolStep),
    /// It is gone.
    Gone,
    /// Nothing shows it, but it is not confirmed gone, for this reason.
    Unconfirmed(WaitReason),
}

/// The server, unless a later read returned 404.
pub fn shown<'a>(view: &'a ProtocolView<'_>, id: ServerId) -> Option<&'a ProtocolServer> {
    let missed = view.memory.missing().map(|(_, last)| last);
    let is_newer = |server: &&ProtocolServer| missed.is_none_or(|missed| server.seen > missed);
    view.server(id).filter(is_newer)
}

/// Checks whether it is gone: two reads returned 404, the last one after the grace period, and a list of the whole
/// account with a known server does not show it.
pub fn confirm_gone(view: &ProtocolView<'_>, id: ServerId) -> ServerAbsence {
    let due = view.seen_since() + view.times.grace;
    let Some((first, last)) = view.memory.missing() else {
        return ServerAbsence::Searching(ProtocolStep::Read(id));
    };
    let is_read = last > due && last >= first + view.times.flight_time;
    if !is_read && view.now >= last + view.times.flight_time {
        return ServerAbsence::Searching(ProtocolStep::Read(id));
    }
    let list = view.account_list.filter(|list| list.began > due.max(first));
    match list {
        Some(list) if is_read && !view.is_listed => match list.known {
            KnownServerCheck::Shown => ServerAbsence::Gone,
            KnownServerCheck::NotShown => ServerAbsence::Unconfirmed(WaitReason::ListIncomplete),
            KnownServerCheck::NoneExists => ServerAbsence::Unconfirmed(WaitReason::NoKnownServer),
        },
        // A list that shows it is not final: the next one may not.
        Some(list) if is_read => ServerAbsence::Searching(
            WaitReason::Missing(id).after_list(list.began + view.times.check, true),
        ),
        None if is_read => {
            ServerAbsence::Searching(WaitReason::Missing(id).after_list(due.max(first), true))
        }
        _ => ServerAbsence::Searching(WaitReason::Missing(id).until(last + view.times.flight_time)),
    }
}

/// When an object that searches on wants the next list.
pub fn next_list_at(view: &ProtocolView<'_>) -> Duration {
    view.account_list.map_or(view.now, |list| list.began) + view.times.idle
}

/// The record is of another account. Nothing that this account shows says anything about it.
pub fn of_other_account(view: &ProtocolView<'_>, order: &ProtocolOrder) -> ProtocolStep {
    let due = view.seen_since() + view.times.grace;
    match view.object.acknowledged.assume_absent && view.now > due {
        true => acknowledged(order),
        false if view.now <= due => WaitReason::OtherAccount.until(due),
        false => WaitReason::OtherAccount.step(),
    }
}

/// The step after a user acknowledged that there is no server.
pub fn acknowledged(order: &ProtocolOrder) -> ProtocolStep {
    let order = ProtocolOrder {
        outcome: ProtocolOutcome::Absent,
        lost: 0,
        cut: 0,
        ..*order
    };
    ProtocolStep::Record(Some(order))
}

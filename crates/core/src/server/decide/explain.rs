//! Explains why an object waits by the protocol, and what a user may acknowledge.

use super::{super::facts::ServerFacts, remedy};
use crate::{
    account::{
        ownership_tags,
        view::{AccountView, ListKind, SeenServer},
    },
    acknowledgement::Situation,
    explanation::Explanation,
    protocol::{OrdersInFlight, ServerPhase, Wait, WaitReason},
    server::protocol_facts::{times, uuid},
    wording::{counted, first_named, listed},
};
use api::{
    Interval, Reason,
    acknowledgement::AcknowledgementEffect::{Adopt, AssumeAbsent, OrderAnother},
    names::ACKNOWLEDGE,
    order::OrderRecord,
};
use jiff::Timestamp;
use std::{collections::BTreeSet, time::Duration};

/// Live servers from before the namespace was recreated, without the object's own ones.
fn list_previous_servers(facts: &ServerFacts) -> Vec<&SeenServer> {
    let own = |s: &&SeenServer| !facts.own.iter().any(|own| own.server.id == s.server.id);
    facts.previous.iter().filter(own).collect()
}

/// The situation in which another server is ordered next to the previous ones; none if there are no previous ones.
pub fn order_another_situation(facts: &ServerFacts) -> Option<Situation> {
    let previous = list_previous_uuids(facts);
    if previous.is_empty() {
        return None;
    }
    let all = listed(previous.iter().map(String::as_str));
    let subject = format!("next to {all}");
    Some(Situation::new(OrderAnother, previous, subject))
}

fn list_previous_uuids(facts: &ServerFacts) -> Vec<String> {
    let previous = list_previous_servers(facts).into_iter();
    let mut uuids: Vec<String> = previous
        .map(|s| s.server.id.as_str().to_ascii_lowercase())
        .collect();
    uuids.sort_unstable();
    uuids
}

/// Previous and retained servers that the deletion leaves, if the deleted object has no order record.
fn list_uuids_left_by_deletion(facts: &ServerFacts) -> Vec<String> {
    if !facts.deleting() || facts.order().is_some() {
        return Vec::new();
    }
    let own = facts.own.iter().filter(|s| s.server.status.is_live());
    let own = own.map(|s| s.server.id.as_str().to_ascii_lowercase());
    list_previous_uuids(facts).into_iter().chain(own).collect()
}

/// The server that a user may have the object adopt. One token is for one server; of several, `spec.externalID` names
/// one.
pub fn adopt_situation(facts: &ServerFacts) -> Option<(String, Situation)> {
    let [uuid] = <[String; 1]>::try_from(list_previous_uuids(facts)).ok()?;
    let situation = Situation::new(Adopt, [uuid.clone()], format!("server {uuid}"));
    Some((uuid, situation))
}

/// The situation in which the object is assumed to have no server: what is searched for, and what prevents certainty.
pub fn assume_absent_situation(facts: &ServerFacts) -> Situation {
    let account = facts.view().and_then(|view| view.account_id.clone());
    let suspects = facts.suspects.iter().map(|s| s.server.id.as_str());
    // All of them, even if a message shows fewer: the token is for exactly these.
    let suspects: BTreeSet<&str> = suspects.collect();
    let suspects = Vec::from_iter(suspects).join(", ");
    let (sought, subject) = match facts.order() {
        Some(order) => match &order.server {
            Some(server) => (server.clone(), format!("server {server}")),
            None => {
                let tag = facts.order_tag(order).unwrap_or_default();
                (
                    format!("{tag} {:?} {suspects}", order.outcome),
                    format!("order {tag}"),
                )
            }
        },
        None => {
            let owner = facts.owner().map(|owner| owner.to_string());
            let left = list_uuids_left_by_deletion(facts).join(" ");
            let subject = match left.is_empty() {
                true => "an order without a record".to_owned(),
                false => format!("an order without a record; leaves {left}"),
            };
            let sought = format!("{} {suspects} {left}", owner.unwrap_or_default());
            (sought, subject)
        }
    };
    Situation::new(AssumeAbsent, [sought, account.unwrap_or_default()], subject)
}

/// The explanation of a wait, and what a user may acknowledge.
pub struct WaitExplanation {
    /// Why the object waits.
    pub explanation: Explanation,
    /// What a user may acknowledge.
    pub situations: Vec<Situation>,
}

/// Explains why the object waits.
pub fn explain_wait(facts: &ServerFacts, view: &AccountView, wait: &Wait) -> WaitExplanation {
    let plain = |explanation| WaitExplanation {
        explanation,
        situations: Vec::new(),
    };
    let waits = |reason, text: String| plain(Explanation::waits(reason, text));
    let needs = |reason, text: String| plain(Explanation::stalled(reason, text));
    let grace = Interval(view.times.absence_grace_period);
    let idle = Interval(view.times.idle_poll_interval);
    // Only `spec.externalID` names a server that is not the object's yet.
    let or_name = match facts.object.spec.external_id {
        Some(_) => ", or set spec.externalID to another server",
        None => "",
    };
    match wait.why {
        WaitReason::WaitingForList | WaitReason::Settling => {
            match view.list_error(ListKind::Servers) {
                Some((reason, message)) => waits(*reason, message.clone()),
                None => waits(
                    Reason::Progressing,
                    describe_progress(facts, view, wait.why),
                ),
            }
        }
        WaitReason::Restarted => {
            let until = end_of_wait(facts, wait);
            waits(
                Reason::WaitingForListing,
                format!(
                    "The operator restarted; an earlier order may still arrive. Waiting until {until}"
                ),
            )
        }
        WaitReason::MayBeUnderWay => waits(
            Reason::WaitingForListing,
            format!(
                "The record of an earlier order may be lost; waiting for {grace} (timing.absenceGracePeriod) until none can arrive"
            ),
        ),
        WaitReason::OutcomeUnknown => waits(
            Reason::OutcomeUnknown,
            format!(
                "{}; checked every {}, absent after {grace} at the earliest. {}",
                describe_unknown_outcome(facts),
                Interval(view.times.absence_check_interval),
                describe_next_step(facts)
            ),
        ),
        WaitReason::ListIncomplete if is_sought(facts) => {
            ask_to_assume_absent(facts, "lists show no server that identifies the account")
        }
        WaitReason::ListIncomplete => plain(Explanation::missing(
            Reason::WaitingForListing,
            format!(
                "The server list shows no server that identifies the account; nothing is ordered. If those servers are gone, set {ACKNOWLEDGE} of {} to the token in its status.pendingAcknowledgements; if it has none, ask the provider why the list omits them",
                remedy::account(facts)
            ),
        )),
        WaitReason::NoKnownServer => {
            ask_to_assume_absent(facts, "no other known server shows that lists are complete")
        }
        WaitReason::UntaggedServer(server) => ask_to_assume_absent(
            facts,
            &format!(
                "server {} has this host name and no order tag",
                uuid(server)
            ),
        ),
        WaitReason::OrdersFailed => ask_to_assume_absent(
            facts,
            "several orders in a row had an unknown outcome and created no server",
        ),
        WaitReason::OtherAccount => {
            let situation = assume_absent_situation(facts);
            let text = format!(
                "This object belongs to another provider account; this one does not show its server. Restore the former base URL and key; or, if this object has no server there, {}",
                facts.acknowledgements().remedy(&situation)
            );
            WaitExplanation {
                explanation: Explanation::stalled(Reason::OutcomeUnknown, text),
                situations: vec![situation],
            }
        }
        WaitReason::ServerExists => explain_previous_servers(facts, view),
        WaitReason::ServerNotFound(server) => needs(
            Reason::ServerNotFound,
            describe_external_not_found(&uuid(server), idle),
        ),
        WaitReason::NotLive(server, ServerPhase::Failed) => needs(
            Reason::ProvisioningFailed,
            format!(
                "The provider could not deliver server {}; it is not adopted. Delete this object{or_name}",
                uuid(server)
            ),
        ),
        WaitReason::NotLive(server, state) => needs(
            Reason::ReleasedExternally,
            format!(
                "Server {} is {}; none is ordered in its place. Delete this object{or_name}",
                uuid(server),
                if state == ServerPhase::Releasing {
                    "being released"
                } else {
                    "released"
                },
            ),
        ),
        WaitReason::Conflict(server) => needs(
            Reason::OwnershipConflict,
            describe_conflict(facts, &uuid(server), or_name, idle),
        ),
        WaitReason::OtherCluster(server) => needs(
            Reason::OwnershipConflict,
            format!(
                "Server {} belongs to another cluster; checked every {idle}. If it is unused there, remove its tags that start with fmo- at the provider{or_name}",
                uuid(server)
            ),
        ),
        WaitReason::OtherNamespace(server) => plain(explain_other_namespace(&uuid(server), idle)),
        WaitReason::TagsMissing(server) => needs(
            Reason::TagsMissing,
            format!(
                "Server {} lost its order tag; checked every {idle}. Restore the tag at the provider: {}",
                uuid(server),
                facts
                    .order()
                    .and_then(|order| facts.order_tag(order))
                    .unwrap_or_default()
            ),
        ),
        WaitReason::Missing(server) => waits(
            Reason::ServerNotFound,
            format!(
                "The provider does not list server {}; checked every {}",
                uuid(server),
                Interval(view.times.absence_check_interval)
            ),
        ),
        WaitReason::Gone(server) => explain_gone_server(facts, server),
        WaitReason::Ended(_) | WaitReason::Deletion | WaitReason::Releasing => waits(
            Reason::Releasing,
            format!("The release has begun; checked every {idle}"),
        ),
    }
}

/// Two objects have the server, by record or order tag.
fn describe_conflict(facts: &ServerFacts, server: &str, or_name: &str, idle: Interval) -> String {
    let others: Vec<&str> = match (facts.owner(), &facts.recorded) {
        (Some(owner), Some(recorded)) => {
            let tags = recorded.server.tags.iter().map(String::as_str);
            tags.filter(|tag| ownership_tags::owner(tag).is_some_and(|of| of != owner.as_str()))
                .collect()
        }
        _ => Vec::new(),
    };
    match others.is_empty() {
        false => format!(
            "Server {server} has order tags of several objects; checked every {idle}. Remove the tags of others at the provider: {}",
            first_named(others)
        ),
        true => format!(
            "Server {server} belongs to another object. Delete the object that has it in status.uuid, in another namespace only after its spec.deletionPolicy is Retain{or_name}"
        ),
    }
}

/// Whether a server is searched for that a user may declare absent: one of an open order, a recorded one that is not
/// shown, or any that a deleted object may have.
fn is_sought(facts: &ServerFacts) -> bool {
    match facts.order() {
        Some(order) if order.server.is_some() => !is_shown(facts),
        Some(order) => order.outcome.is_none(),
        None => facts.deleting() && facts.memory.protocol.in_flight() == OrdersInFlight::Possible,
    }
}

/// Whether the recorded server is shown, in any state.
pub fn is_shown(facts: &ServerFacts) -> bool {
    facts.recorded.is_some() && facts.memory.protocol.missing().is_none()
}

/// Explains why the server cannot be confirmed absent, and by which token a user declares it absent.
fn ask_to_assume_absent(facts: &ServerFacts, against: &str) -> WaitExplanation {
    let situation = assume_absent_situation(facts);
    let remedy = facts.acknowledgements().remedy(&situation);
    let recorded = facts.order().and_then(|order| order.server.as_deref());
    let (reason, what) = match recorded {
        Some(server) if is_shown(facts) => (
            Reason::OutcomeUnknown,
            format!("Server {server} was released or failed; another one may have been ordered"),
        ),
        Some(server) => (
            Reason::ServerNotFound,
            format!("The provider does not list server {server}"),
        ),
        None => (Reason::OutcomeUnknown, describe_unknown_outcome(facts)),
    };
    let left = list_uuids_left_by_deletion(facts);
    let text = match left.is_empty() {
        true => format!(
            "{what}; {against}. Nothing is ordered; if this object has no server there, {remedy}"
        ),
        false => format!(
            "Servers of an earlier {}/{} are live and billed; {}. To release them, do so at the provider; to keep them and delete only this object, {remedy}",
            facts.namespace(),
            facts.name(),
            first_named(left.iter().map(String::as_str)),
        ),
    };
    WaitExplanation {
        explanation: Explanation::stalled(reason, text),
        situations: vec![situation],
    }
}

/// No list shows the server in `spec.externalID`.
pub fn describe_external_not_found(server: &str, idle: Interval) -> String {
    format!(
        "No on-demand server {server} in the account; checked every {idle}. None is ordered in its place: correct spec.externalID, or create a new object with another spec.accountRef"
    )
}

/// The server in `spec.externalID` belongs to another namespace.
pub fn explain_other_namespace(server: &str, idle: Interval) -> Explanation {
    Explanation::stalled(
        Reason::OwnershipConflict,
        format!(
            "Server {server} belongs to another namespace; checked every {idle}. To adopt it, have an administrator remove its fmo-order tag at the provider and set allowAdoption in the account's entry for this namespace"
        ),
    )
}

/// The recorded server no longer exists at the provider.
fn explain_gone_server(facts: &ServerFacts, server: crate::protocol::ServerId) -> WaitExplanation {
    let situation = assume_absent_situation(facts);
    let text = format!(
        "Server {} no longer exists; none is ordered in its place. Delete this object; or, to order another one, {}",
        uuid(server),
        facts.acknowledgements().remedy(&situation)
    );
    WaitExplanation {
        explanation: Explanation::stalled(Reason::ServerNotFound, text),
        situations: vec![situation],
    }
}

/// Servers from before the namespace was recreated are live.
fn explain_previous_servers(facts: &ServerFacts, view: &AccountView) -> WaitExplanation {
    let previous = list_previous_uuids(facts);
    let (namespace, name) = (facts.namespace(), facts.name());
    let are = if previous.len() == 1 { "is" } else { "are" };
    let all = previous.iter().map(String::as_str);
    let all = match previous.len() {
        1 | 2 => listed(all),
        _ => first_named(all),
    };
    let given = facts.acknowledgements();
    let another = order_another_situation(facts);
    let adopt = adopt_situation(facts).map(|(_, asked)| asked);
    let to_adopt = match &adopt {
        Some(asked) => format!("To adopt {all}, {}", given.remedy(asked)),
        None => format!("To adopt one, set spec.externalID to it: {all}"),
    };
    let to_order = another.iter().map(|asked| given.remedy(asked)).next();
    let text = format!(
        "{} of an earlier {namespace}/{name} {are} live and billed; nothing is ordered until released, checked every {}. {to_adopt}. To order one now, {}",
        counted(previous.len(), "server"),
        Interval(view.times.idle_poll_interval),
        to_order.unwrap_or_default(),
    );
    WaitExplanation {
        explanation: Explanation::stalled(Reason::ServerExists, text),
        situations: another.into_iter().chain(adopt).collect(),
    }
}

/// When the wait ends. The value is the same in each reconcile.
fn end_of_wait(facts: &ServerFacts, wait: &Wait) -> Timestamp {
    let after = wait.list.map_or(Duration::ZERO, |list| list.after);
    let after = i64::try_from(after.as_secs() + 1).unwrap_or(i64::MAX);
    Timestamp::from_second(facts.wall_at_start.saturating_add(after)).unwrap_or_default()
}

fn describe_progress(facts: &ServerFacts, view: &AccountView, why: WaitReason) -> String {
    let adopting = facts.order().and_then(|order| order.server.as_deref());
    match (why, adopting) {
        (WaitReason::Settling, Some(uuid)) => format!(
            "Adopting server {uuid}; its tags are set, and it is read again after {}",
            Interval(times(view).flight_time)
        ),
        _ => "Nothing is ordered until the servers of the account are listed".to_owned(),
    }
}

/// What is unknown, and what is searched for.
fn describe_unknown_outcome(facts: &ServerFacts) -> String {
    let sought = |order: &OrderRecord| facts.order_tag(order).unwrap_or_default();
    match facts.order().filter(|order| order.outcome.is_none()) {
        Some(order) if order.answer_lost => format!(
            "The answer to the order was lost; looking for tag {}",
            sought(order)
        ),
        Some(order) => format!(
            "The order may have been sent; looking for tag {}",
            sought(order)
        ),
        None => "An order may have created a server; its record is lost".to_owned(),
    }
}

/// What happens after the search.
fn describe_next_step(facts: &ServerFacts) -> &'static str {
    match facts.deleting() {
        true => {
            "If found, the server is released or retained by spec.deletionPolicy; once that is done, or it is absent, this object goes"
        }
        false => {
            "Nothing is ordered until then: if found, the server is this object's; if absent, an order follows"
        }
    }
}

/// Whether this wait is a first step of a new object, which is not worth a write.
pub fn is_first_step(facts: &ServerFacts, wait: &Wait) -> bool {
    matches!(
        wait.why,
        WaitReason::WaitingForList | WaitReason::Settling | WaitReason::ListIncomplete
    ) && facts.memory.protocol.in_flight() == OrdersInFlight::Impossible
        && facts.order().is_none()
}

//! Decides for a deleted object: release or retain its server, confirm that it is gone, then remove the finalizer.
//! An order of unknown outcome is resolved first. Once the release is recorded, Retain comes too late.

use super::{
    super::facts::ServerFacts, ServerDecision, ServerEffect, delete_request,
    desired_status::DesiredStatus, explain, precondition, reinstall, remedy, terms,
};
use crate::{
    account::{
        ownership_tags,
        view::{AccountView, SeenServer},
    },
    explanation::Explanation,
    protocol::{DeletionAction, OrdersInFlight, ProtocolStep, Wait, WaitReason},
    server_commands::RunningCommand,
    wording::{counted, listed},
};
use api::{
    BareMetalServer, Interval, Reason,
    names::ACKNOWLEDGE,
    records::ReleaseRecord,
    server::{BareMetalServerStatus, DeletionPolicy},
};
use hosting_types::{Server, ServerStatus};
use jiff::Timestamp;
use std::{sync::Arc, time::Duration};

/// How soon to check again whether a command has ended.
const COMMAND_RUNS: Duration = Duration::from_secs(5);

/// Reported for a released server until the object is gone.
const RELEASED: &str = "The server is released; this object goes once the finalizer is removed";
/// Longest time between two checks of a delayed release: a clock may be turned back.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);
/// How soon to retry after the CRD could not be read.
const READ_CRD_AGAIN: Duration = Duration::from_secs(5);

/// Decides for a deleted object without our finalizer: only its outputs need the operator.
pub fn decide_without_finalizer(facts: &ServerFacts) -> ServerDecision {
    let decision = ServerDecision::unchanged(facts);
    match facts.has_output_finalizer() {
        true => decision.with_effect(ServerEffect::RemoveFinalizer),
        false => decision,
    }
}

/// Decides for an object whose account is unavailable, perhaps forever.
pub fn decide_without_account(facts: &ServerFacts, explanation: Explanation) -> ServerDecision {
    if !facts.deleting() {
        return ServerDecision::wait_with_reason(facts, explanation);
    }
    let is_left =
        |s: &SeenServer| s.server.status.is_live() && !ownership_tags::is_retained(&s.server);
    let leaves_one = facts.own.iter().any(is_left);
    // Another live server is a duplicate if the object has one, but not if it was only to adopt one.
    let has_one = facts.order().is_some_and(|order| order.created().is_some());
    let server = facts.recorded.as_ref().map(|s| s.server.clone());
    let server = server.filter(|server| server.status == ServerStatus::Released);
    if let Some(server) = server.filter(|_| has_one || !leaves_one) {
        return finish_deletion(facts, &server);
    }
    if !facts.has_no_order_or_server() || leaves_one {
        return ServerDecision::wait_with_reason(facts, explanation);
    }
    let asked = explain::assume_absent_situation(facts);
    let given = facts.acknowledgements();
    // The account does not serve the namespace, so no list resolves this. The object must not hang forever: its
    // finalizer may be a copy, or of an order that was never sent.
    let is_refused = facts.account.refusing().is_some();
    let made_none = match facts.memory.protocol.in_flight() {
        OrdersInFlight::Impossible => true,
        OrdersInFlight::Unlikely => is_refused,
        OrdersInFlight::Possible => false,
    };
    let may_be_asked_yet = !is_refused && explanation.reason != Reason::AccountNotFound;
    if !made_none && may_be_asked_yet {
        return ServerDecision::wait_with_reason(facts, explanation);
    }
    if made_none || given.is_given(&asked) {
        return ServerDecision::unchanged(facts).with_effect(ServerEffect::RemoveFinalizer);
    }
    let text = format!(
        "{}. Whether an order created a server stays unknown; if the provider shows none, {}",
        explanation.message,
        given.remedy(&asked)
    );
    let mut decision =
        ServerDecision::wait_with_reason(facts, Explanation::stalled(explanation.reason, text));
    decision.desired.request_acknowledgement(facts, &asked);
    decision
}

/// Decides the next step of a deleted object.
pub fn decide_deleted(
    facts: &ServerFacts,
    account: &AccountView,
    step: ProtocolStep,
) -> ServerDecision {
    let server = facts.recorded.as_ref().map(|s| s.server.clone());
    let Some(server) = server else {
        return match (step, facts.order().and_then(|order| order.created())) {
            (ProtocolStep::Read(_), Some(uuid)) => {
                wait_for_missing_server(facts, account, uuid, step)
            }
            _ => super::decide_any(facts, account, step),
        };
    };
    match step {
        ProtocolStep::RemoveFinalizer => finish_deletion(facts, &server),
        ProtocolStep::Wait(Wait {
            why: WaitReason::Deletion,
            ..
        }) => match decide_end(facts) {
            Ok(_) => ServerDecision::unchanged(facts).requeue_now(),
            Err(wait) => *wait,
        },
        ProtocolStep::Wait(Wait {
            why: WaitReason::Releasing | WaitReason::Ended(_),
            ..
        }) => delete_request::wait_for_release(facts, account, &server),
        ProtocolStep::Release(_) => decide_release(facts, account, &server),
        _ => super::decide_any(facts, account, step),
    }
}

/// The recorded server is not listed, and reads search for it.
fn wait_for_missing_server(
    facts: &ServerFacts,
    account: &AccountView,
    uuid: &str,
    step: ProtocolStep,
) -> ServerDecision {
    let text = format!(
        "The provider does not list server {uuid}; checked every {}",
        Interval(account.times.absence_check_interval)
    );
    let explanation = Explanation::waits(Reason::ServerNotFound, text);
    let said = ServerDecision::wait_with_reason(facts, explanation).desired;
    ServerDecision {
        desired: said,
        ..super::decide_any(facts, account, step)
    }
}

/// Removes the finalizer, with a last status.
fn finish_deletion(facts: &ServerFacts, server: &Arc<Server>) -> ServerDecision {
    let text = match ownership_tags::is_retained(server) && server.status.is_live() {
        true => format!(
            "{}; this object goes once the finalizer is removed",
            describe_retained(facts)
        ),
        false => RELEASED.to_owned(),
    };
    let explanation = Explanation::waits(Reason::Progressing, text);
    wait_and_show_server(facts, server, explanation).with_effect(ServerEffect::RemoveFinalizer)
}

/// Sends the release of the recorded server, or waits until it may be sent.
fn decide_release(
    facts: &ServerFacts,
    account: &AccountView,
    server: &Arc<Server>,
) -> ServerDecision {
    let uuid = server.id.as_str();
    if !precondition::is_release_begun(facts, uuid) {
        // The write that records the release also reports it.
        let uuid = uuid.to_owned();
        return ServerDecision::unchanged(facts).with_effect(ServerEffect::Release { uuid });
    }
    let begun = "the started release waits, and the server cannot be kept";
    if let Some(explanation) = remedy::explain_blocked(facts, begun) {
        // It resumes when the user wants it, so it waits and is not stalled.
        let explanation = Explanation::waits(explanation.reason, explanation.message);
        return wait_and_show_server(facts, server, explanation);
    }
    // The intent of a command may have been recorded at the same time as the release.
    if let Some(explanation) = explain_command_wait(facts, server) {
        return wait_and_show_server(facts, server, explanation).requeue_after(COMMAND_RUNS);
    }
    delete_request::send_delete(facts, account, server)
}

/// The whole status that records the release of this server, before its DELETE. It also reports the release, so no
/// second write comes right after.
pub fn status_with_release(fresh: &ServerFacts, uuid: &str, send_by: i64) -> BareMetalServerStatus {
    let mut object = BareMetalServer::clone(&fresh.object);
    object.status.get_or_insert_default().records.release = Some(ReleaseRecord {
        uid: fresh.uid().to_owned(),
        server: uuid.to_owned(),
        send_by,
        deleting: fresh.deleting(),
    });
    let begun = ServerFacts {
        object: Arc::new(object),
        ..fresh.clone()
    };
    let now = Timestamp::from_second(fresh.now.wall).unwrap_or_default();
    super::decide(&begun).desired.finish(now)
}

/// What the deletion does now. Policy, protection, suspension, delay and limit count until the release is recorded.
///
/// # Errors
/// The decision to wait.
pub fn decide_end(facts: &ServerFacts) -> Result<DeletionAction, Box<ServerDecision>> {
    let Some(server) = facts.recorded.as_ref().map(|s| s.server.clone()) else {
        return Ok(DeletionAction::Release);
    };
    if reinstall::may_be_in_flight(facts) && server.status.is_live() {
        return Err(Box::new(wait_for_reinstall(facts, &server)));
    }
    decide_before_release(facts, &server)
}

/// The release is not recorded, so policy, protection and suspension still count.
fn decide_before_release(
    facts: &ServerFacts,
    server: &Arc<Server>,
) -> Result<DeletionAction, Box<ServerDecision>> {
    let wait = |decision: ServerDecision| Err(Box::new(decision));
    let policies = facts.policies();
    let Some(kind_deleting) = facts.kind_deleting else {
        return wait(wait_and_show_server(
            facts,
            server,
            Explanation::waits(
                Reason::Releasing,
                format!(
                    "Cannot read the CRD baremetalservers.flexmetal.dev, so nothing is released or retained; retrying every {}. The operator needs the right to get it",
                    Interval(READ_CRD_AGAIN)
                ),
            ),
        )
        .requeue_after(READ_CRD_AGAIN));
    };
    if let Some(explanation) = remedy::explain_blocked_deletion(facts, server.id.as_str())
        && !kind_deleting
    {
        return wait(wait_and_show_server(facts, server, explanation));
    }
    // A user who deletes the object and sets Retain on it asks for the one thing that protection allows.
    let is_own_word = facts.object.spec.deletion_policy == Some(DeletionPolicy::Retain);
    if policies.deletion_protection && !is_own_word && !kind_deleting {
        return wait(wait_and_show_server(
            facts,
            server,
            Explanation::waits(
                Reason::Protected,
                format!(
                    "Protected by {}; server {} stays and is billed. To release it, {}; to keep it, {} ({}/{} takes it back when applied again)",
                    remedy::name_policy_field(facts, "deletionProtection", |p| p
                        .deletion_protection
                        .is_some()),
                    server.id,
                    remedy::describe_edit("deletionProtection", "false"),
                    remedy::describe_edit("deletionPolicy", "Retain"),
                    facts.namespace(),
                    facts.name(),
                ),
            ),
        ));
    }
    if !kind_deleting
        && policies.retain()
        && let Some(explanation) = terms::explain_blocked_retain(facts)
    {
        return wait(wait_and_show_server(facts, server, explanation));
    }
    // Another object of the namespace adopts it.
    if kind_deleting || policies.retain() || facts.is_handed_over {
        return Ok(DeletionAction::Retain);
    }
    // A server that is not live needs no time for second thoughts.
    let is_delayed = server.status.is_live() && !precondition::is_release_due(facts);
    if let Some(due) = facts.release_due().filter(|_| is_delayed) {
        return wait(wait_for_delay(facts, server, due));
    }
    if let Some(explanation) = explain_command_wait(facts, server) {
        return wait(wait_and_show_server(facts, server, explanation).requeue_after(COMMAND_RUNS));
    }
    if let Some(explanation) = explain_release_limit(facts, server) {
        return wait(wait_and_show_server(facts, server, explanation).requeue_after(LONGEST_SLEEP));
    }
    Ok(DeletionAction::Release)
}

/// A re-install request may be in flight. The server stays this object's until that is over.
fn wait_for_reinstall(facts: &ServerFacts, server: &Arc<Server>) -> ServerDecision {
    let text = format!(
        "Server {} may be re-installing; this is known within {}. Then it is released or retained; checked every {}",
        server.id,
        Interval(reinstall::longest_flight(facts)),
        Interval(COMMAND_RUNS)
    );
    wait_and_show_server(
        facts,
        server,
        Explanation::waits(Reason::Reinstalling, text),
    )
    .requeue_after(COMMAND_RUNS)
}

/// The release waits for a command that may be in progress.
fn explain_command_wait(facts: &ServerFacts, server: &Server) -> Option<Explanation> {
    if !server.status.is_live() {
        return None;
    }
    let id = &server.id;
    let text = match &facts.commands {
        RunningCommand::Nothing => return None,
        // A recorded release lists the commands again right before it is sent.
        RunningCommand::NotListed if precondition::is_release_begun(facts, id.as_str()) => {
            return None;
        }
        RunningCommand::NotListed => format!(
            "Waiting for the list of ServerCommands; then server {id} is released; checked every {}",
            Interval(COMMAND_RUNS)
        ),
        RunningCommand::Command(command) => format!(
            "Waiting for ServerCommand {command}, or its spec.timeout; then server {id} is released; checked every {}",
            Interval(COMMAND_RUNS)
        ),
    };
    Some(Explanation::waits(Reason::Queued, text))
}

/// The release limit of the account blocks the release.
fn explain_release_limit(facts: &ServerFacts, server: &Server) -> Option<Explanation> {
    let (limit, status) = facts.view()?.release_limit.as_ref()?;
    let is_free = !server.status.is_live() || status.counts(server.id.as_str());
    if is_free || !limit.blocks(status, facts.namespace()) {
        return None;
    }
    let text = format!(
        "Release limit of this namespace ({} within {}) reached; server {} stays and is billed. To keep it, {}; to release more, set {ACKNOWLEDGE} of the account to the token in its status.pendingAcknowledgements",
        limit.max_releases,
        limit.window,
        server.id,
        remedy::describe_edit("deletionPolicy", "Retain"),
    );
    Some(Explanation::waits(Reason::ReleaseLimited, text))
}

/// The release delay is not over.
fn wait_for_delay(facts: &ServerFacts, server: &Arc<Server>, due: i64) -> ServerDecision {
    let rest = u64::try_from(due.saturating_sub(facts.steady_wall())).unwrap_or(0);
    let delay = facts.policies().release_delay.unwrap_or_default().0;
    let seen = facts
        .memory
        .delayed_since
        .map_or(Duration::ZERO, |since| facts.now.elapsed_since(since));
    let rest = Duration::from_secs(rest).min(delay.saturating_sub(seen));
    let when = match facts.now.wall < due {
        true => format!("at {}", Timestamp::from_second(due).unwrap_or_default()),
        // The reported time has passed, but only because the clock was set forward.
        false => {
            "after its delay; the operator's clock was set forward, which does not count".to_owned()
        }
    };
    let text = format!(
        "Server {} is released {when}; it is billed until then. To release it now, {}; to keep it and delete only this object, {}",
        server.id,
        remedy::describe_edit("releaseDelay", "0s"),
        remedy::describe_edit("deletionPolicy", "Retain"),
    );
    let explanation = Explanation::waits(Reason::ReleaseDelayed, text);
    wait_and_show_server(facts, server, explanation).requeue_after(rest.min(LONGEST_SLEEP))
}

/// What is reported of the servers that stay when the object is gone.
pub fn describe_retained(facts: &ServerFacts) -> String {
    let live = facts.own.iter().filter(|s| s.server.status.is_live());
    let live: Vec<&str> = live.map(|s| s.server.id.as_str()).collect();
    let (kept, them, uuids) = match live.as_slice() {
        [] => return "No live server is left".into(),
        [uuid] => (
            format!("Retained server {uuid}; it is still billed"),
            "it",
            "this UUID",
        ),
        all => (
            format!(
                "Retained {}; they are still billed: {}",
                counted(all.len(), "server"),
                listed(all.iter().copied())
            ),
            "them",
            "one of these UUIDs",
        ),
    };
    match facts.is_handed_over {
        true => format!("{kept}. The object here with {uuids} in spec.externalID adopts {them}"),
        false => format!(
            "{kept}. Apply {}/{} again to adopt {them}",
            facts.namespace(),
            facts.name(),
        ),
    }
}

/// Waits for this reason, and shows the server.
pub(super) fn wait_and_show_server(
    facts: &ServerFacts,
    server: &Server,
    explanation: Explanation,
) -> ServerDecision {
    let mut desired = DesiredStatus::unchanged(facts);
    desired.show_server(facts, server);
    desired.set(facts, explanation, None);
    ServerDecision::from_status(desired)
}

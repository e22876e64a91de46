//! The DELETE of a server: send it, wait for its effect, send it again.

use super::{
    super::{
        facts::{ServerFacts, is_same_uuid},
        memory::{ReleaseAnswer, SentRelease},
    },
    ServerDecision, ServerEffect,
    existing::quote_status_message,
    release::wait_and_show_server,
};
use crate::{account::view::AccountView, explanation::Explanation};
use api::{Interval, Reason};
use hosting_types::{Server, ServerStatus};
use std::{sync::Arc, time::Duration};

/// How long an accepted DELETE may show no effect before it is sent again.
const ACCEPTED_PAUSE: Duration = Duration::from_secs(60);

/// A normal release is over soon. For this long, changes of its state are not worth a write.
const QUIET_RELEASE: Duration = Duration::from_secs(120);

/// The release is in progress.
pub(super) fn wait_for_release(
    facts: &ServerFacts,
    view: &AccountView,
    server: &Server,
) -> ServerDecision {
    let next = match facts.deleting() {
        true => "",
        false => "; another one is ordered after it",
    };
    let text = format!(
        "The release has begun{next}; checked every {}",
        Interval(view.times.active_poll_interval)
    );
    let explanation = Explanation::waits(Reason::Releasing, text);
    let is_it = |sent: &&SentRelease| is_same_uuid(&sent.uuid, server.id.as_str());
    let sent = facts.memory.sent.as_ref().filter(is_it);
    match sent.and_then(|sent| remaining_pause(facts, sent.at, QUIET_RELEASE)) {
        Some(rest) => ServerDecision::wait_with_reason(facts, explanation).requeue_after(rest),
        None => wait_and_show_server(facts, server, explanation),
    }
}

fn accepted_pause(view: &AccountView) -> Duration {
    ACCEPTED_PAUSE.max(view.times.active_poll_interval)
}

/// Sends the DELETE, or waits for the effect of the last one.
pub fn send_delete(
    facts: &ServerFacts,
    view: &AccountView,
    server: &Arc<Server>,
) -> ServerDecision {
    let uuid = server.id.as_str().to_owned();
    let paced = |decision: ServerDecision, at, pause| match remaining_pause(facts, at, pause) {
        Some(rest) => decision.requeue_after(rest),
        None => decision.with_effect(ServerEffect::Release { uuid: uuid.clone() }),
    };
    let poll = view.times.active_poll_interval;
    match last_answer(facts, server) {
        None => wait_for_release(facts, view, server).with_effect(ServerEffect::Release { uuid }),
        Some((ReleaseAnswer::Refused, at)) => {
            let said = quote_status_message(facts, server);
            let every = Interval(poll);
            let (reason, text) = match server.status {
                // A delivered server can be released, so its state is not the reason.
                ServerStatus::Delivered => (
                    Reason::RequestRefused,
                    format!("The provider refuses the release; retrying every {every}"),
                ),
                ServerStatus::Failed => (
                    Reason::Releasing,
                    format!(
                        "The provider refuses to release the failed server{said}; retrying once after {every}, then this object goes"
                    ),
                ),
                _ => (
                    Reason::Releasing,
                    format!(
                        "The provider does not release the server while it is {:?}; retrying every {every}",
                        server.status.as_str()
                    ),
                ),
            };
            let decision = wait_and_show_server(facts, server, Explanation::waits(reason, text));
            paced(decision, at, poll)
        }
        Some((ReleaseAnswer::Accepted, at)) => paced(
            wait_for_release(facts, view, server),
            at,
            accepted_pause(view),
        ),
        Some((ReleaseAnswer::Unknown(error), at)) => {
            // The account lacked answers then, and has them again.
            let pause = match view.answers_since > Some(at) {
                true => Duration::ZERO,
                false => poll,
            };
            let text = format!("{}; retrying every {}", error.message, Interval(poll));
            let explanation = Explanation::waits(error.reason, text);
            paced(wait_and_show_server(facts, server, explanation), at, pause)
        }
    }
}

/// How the last DELETE of this server ended, if it was sent in the server's present state: a refusal for a waiting
/// server says nothing about a failed one.
pub(super) fn last_answer<'a>(
    facts: &'a ServerFacts,
    server: &Server,
) -> Option<(&'a ReleaseAnswer, Duration)> {
    let sent = facts.memory.sent.as_ref()?;
    let is_failed = server.status == ServerStatus::Failed;
    (is_same_uuid(&sent.uuid, server.id.as_str()) && sent.failed == is_failed)
        .then_some((&sent.answer, sent.at))
}

/// What is left of a pause that began at this moment.
fn remaining_pause(facts: &ServerFacts, since: Duration, pause: Duration) -> Option<Duration> {
    let rest = pause.checked_sub(facts.now.elapsed_since(since))?;
    (!rest.is_zero()).then_some(rest)
}

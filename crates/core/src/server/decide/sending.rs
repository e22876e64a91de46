//! The DELETE of a machine whose release was noted: send it, wait for what it does, ask again.
//!
//! A failed machine may go without a release, when the provider refuses one and never delivered it.

use super::{
    super::{
        facts::{Facts, is_same_uuid},
        memory::ReleaseAnswer,
    },
    Decision, Effect,
    machine::said,
    release::showing,
};
use crate::{account::view::View, cause::Cause};
use api::{Interval, Reason, names::SERVER_FINALIZER};
use hosting_types::{Server, ServerStatus};
use std::{sync::Arc, time::Duration};

/// How long an accepted DELETE may show no effect before it is sent again.
const ACCEPTED_PAUSE: Duration = Duration::from_secs(60);

/// A release that goes on as it should is over soon: for so long what changes on the way is not worth a write.
const SOON: Duration = Duration::from_secs(120);

/// The release is under way.
pub(super) fn under_way(facts: &Facts, view: &View, server: &Server) -> Decision {
    let text = format!(
        "the release has begun; looked at again every {}; if nothing changes it is sent again after {} at the latest",
        Interval(view.times.active_poll_interval),
        Interval(accepted_pause(view))
    );
    let cause = Cause::waits(Reason::Releasing, text);
    let sent = facts.memory.release.sent.as_ref();
    match sent.and_then(|sent| rest(facts, sent.at, SOON)) {
        Some(rest) => Decision::hold(facts, cause).again(rest),
        None => showing(facts, server, cause),
    }
}

fn accepted_pause(view: &View) -> Duration {
    ACCEPTED_PAUSE.max(view.times.active_poll_interval)
}

/// Sends the DELETE, or waits for what the last one does.
pub fn send(facts: &Facts, view: &View, server: &Arc<Server>) -> Decision {
    let effect = Effect::Release {
        uuid: server.id.as_str().into(),
    };
    let releasing = |cause| showing(facts, server, cause);
    let retry = |at, pause| rest(facts, at, pause);
    match answer(facts, server) {
        None => under_way(facts, view, server).with(effect),
        Some((ReleaseAnswer::Refused, at)) => {
            let (reason, text) = match server.status {
                // A delivered server can be released: it is not for its state.
                ServerStatus::Delivered => (
                    Reason::RequestRefused,
                    "the provider refuses the release".to_owned(),
                ),
                _ => (
                    Reason::Releasing,
                    format!(
                        "the provider does not release the machine while it is {:?}",
                        server.status.as_str()
                    ),
                ),
            };
            let every = Interval(view.times.active_poll_interval);
            let cause = Cause::waits(reason, format!("{text}; asking again every {every}"));
            match retry(at, view.times.active_poll_interval) {
                Some(rest) => releasing(cause).again(rest),
                None => releasing(cause).with(effect),
            }
        }
        Some((answer, at)) => {
            let pause = match answer {
                ReleaseAnswer::Accepted => accepted_pause(view),
                _ => view.times.active_poll_interval,
            };
            let decision = under_way(facts, view, server);
            match retry(at, pause) {
                Some(rest) => decision.again(rest),
                None => decision.with(effect),
            }
        }
    }
}

/// How the last DELETE of this machine ended, if it was sent in the state that the machine is in:
/// what was refused to a waiting machine says nothing of a failed one.
pub(super) fn answer(facts: &Facts, server: &Server) -> Option<(ReleaseAnswer, Duration)> {
    let sent = facts.memory.release.sent.as_ref()?;
    let is_failed = server.status == ServerStatus::Failed;
    (is_same_uuid(&sent.uuid, server.id.as_str()) && sent.failed == is_failed)
        .then_some((sent.answer, sent.at))
}

/// What is left of a pause that began at this moment.
fn rest(facts: &Facts, since: Duration, pause: Duration) -> Option<Duration> {
    let rest = pause.checked_sub(facts.now.since(since))?;
    (!rest.is_zero()).then_some(rest)
}

/// A failed machine: DELETE once; when that is refused and it was never delivered, it may go.
pub fn failed(facts: &Facts, view: &View, server: &Arc<Server>) -> Decision {
    let said = said(server);
    let effect = Effect::Release {
        uuid: server.id.as_str().into(),
    };
    let read = Effect::Read {
        uuid: server.id.as_str().into(),
        not_listed: None,
    };
    let spacing = view.times.absence_check_interval;
    let held = |why: &str| {
        let decision = showing(
            facts,
            server,
            Cause::needs_person(
                Reason::RequestRefused,
                format!(
                    "the machine failed{said}, and {why}; ask the provider to release it; if the record stays as it is, take the finalizer {SERVER_FINALIZER} off this object"
                ),
            ),
        )
        .again(view.times.idle_poll_interval);
        match facts.has_finalizer() {
            true => decision,
            // A user took it off: the record stays, and nothing else is left.
            false => decision.with(Effect::LetGo),
        }
    };
    match answer(facts, server) {
        answer @ (None | Some((ReleaseAnswer::Unknown, _))) => {
            let cause = Cause::waits(
                Reason::Releasing,
                "the release of the failed machine is being sent; looked at again within seconds",
            );
            match answer.and_then(|(_, at)| rest(facts, at, view.times.active_poll_interval)) {
                Some(rest) => showing(facts, server, cause).again(rest),
                None => showing(facts, server, cause).with(effect),
            }
        }
        Some((ReleaseAnswer::Accepted, at)) => {
            let pause = ACCEPTED_PAUSE.max(spacing);
            if facts.now.since(at) >= pause * 5 {
                return held("the provider took the release without doing it");
            }
            showing(
                facts,
                server,
                Cause::waits(
                    Reason::Releasing,
                    format!(
                        "the release of the failed machine was sent; waiting until the provider shows it, {} at most",
                        Interval(pause * 5)
                    ),
                ),
            )
            .again(pause)
        }
        Some((ReleaseAnswer::Refused, _)) if server.delivered_at.is_some() => {
            held("the provider does not release it although it was delivered")
        }
        Some((ReleaseAnswer::Refused, _)) => {
            let reads = &facts.memory.release.failed_reads;
            if reads.len() >= 2 {
                return showing(
                    facts,
                    server,
                    Cause::waits(
                        Reason::Progressing,
                        "the machine failed before it was delivered, and the provider keeps the record; this object ends within seconds",
                    ),
                )
                .with(Effect::LetGo);
            }
            let cause = Cause::waits(
                Reason::Releasing,
                format!(
                    "the machine failed and cannot be released; making sure that it was never delivered; looked at every {}",
                    Interval(spacing)
                ),
            );
            match reads
                .last()
                .and_then(|last| spacing.checked_sub(facts.now.since(*last)))
                .filter(|r| !r.is_zero())
            {
                Some(rest) => showing(facts, server, cause).again(rest),
                None => showing(facts, server, cause).with(read),
            }
        }
    }
}

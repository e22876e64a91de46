//! One attempt to install a host, without the calls: the check before it, the status that records it, and its outcome.

use super::{super::facts::HostFacts, install::NewHostInstall};
use crate::{
    attempt_state::Reply, explanation::Explanation, host_record::word, moment::Moment,
    reconcile::Decision,
};
use api::{
    DedicatedHost, Reason,
    command::CommandOutcome,
    host::DedicatedHostStatus,
    host_install::{HostInstallHistory, HostInstallIntent, HostInstallRecord, HostLog},
    install::InstallEnd,
};
use hosting_types::{Error, host::Host};
use std::time::Duration;

/// What the installation log shows right before an installation.
#[derive(Debug)]
pub enum HostInstallCheck {
    /// The host may be installed.
    Free,
    /// The log shows an installation that is not recorded here, with a description.
    Repeated(String),
}

/// Whether the log shows an installation that this object does not know.
pub fn check_before_install(known: &HostInstallHistory, log: &HostLog) -> HostInstallCheck {
    match &known.log {
        Some(accounted) if log.is_later_than(accounted) => HostInstallCheck::Repeated(
            "its log shows an installation that this object does not know (by somebody else, or its record is lost)".to_owned(),
        ),
        // A log that lost entries may have lost later ones, too.
        Some(accounted) if accounted.is_later_than(log) => HostInstallCheck::Repeated(
            "its log shows less than before, so later installations are unknown".to_owned(),
        ),
        Some(_) => HostInstallCheck::Free,
        None => HostInstallCheck::Repeated("what its log showed before is unknown".to_owned()),
    }
}

/// The intent of an attempt that starts at `since`. `attempt` is a new nonce.
pub fn intent(
    fresh: &HostFacts,
    new: &NewHostInstall,
    attempt: String,
    (since, window): (Moment, Duration),
    (host, log): (&Host, HostLog),
) -> HostInstallIntent {
    let spec = &fresh.subject.object.spec;
    HostInstallIntent {
        uid: fresh.subject.uid().to_owned(),
        host_id: spec.host_id,
        revision: new.revision,
        os_id: i64::try_from(new.os_id).unwrap_or(i64::MAX),
        attempt,
        started_at: since.wall,
        send_by: since
            .wall
            .saturating_add(i64::try_from(window.as_secs()).unwrap_or(i64::MAX)),
        account: new.account.clone(),
        key_uid: Some(new.key_uid.clone()),
        before: word(&host.install_status).map(str::to_owned),
        log,
        secret_texts: spec.has_secret_texts(),
    }
}

/// The complete status that records an installation. It is written before the request is sent.
pub fn installing(
    fresh: &HostFacts,
    known: HostInstallHistory,
    record: &HostInstallRecord,
) -> DedicatedHostStatus {
    let mut status = fresh.subject.status();
    status.records.install = Some(HostInstallHistory {
        revision: known.performed(),
        last: Some(record.clone()),
        ..known
    });
    let message = format!(
        "Host {} is about to be installed (spec.install.revision {}); the request is sent at {} at the latest, or not at all",
        record.intent.host_id,
        record.intent.revision,
        jiff::Timestamp::from_second(record.intent.send_by).unwrap_or_default()
    );
    let explanation = Explanation::waits(Reason::Reinstalling, message);
    let decision: Decision<DedicatedHostStatus, ()> =
        Decision::from_status(status).because(explanation);
    let now = jiff::Timestamp::from_second(fresh.subject.now.wall).unwrap_or_default();
    decision.status(&fresh.subject, now).0
}

/// What a read shows of a status update whose answer was lost. Only status counts here, so metadata always matches.
pub fn shown_install(object: &DedicatedHost, intent: &HostInstallIntent) -> Reply {
    let status = object
        .status
        .as_ref()
        .and_then(|s| s.records.install.as_ref());
    let last = status.and_then(|install| install.last.as_ref());
    Reply::Shows {
        metadata: true,
        status: last.is_some_and(|last| last.intent == *intent),
    }
}

/// The record of an installation that is not sent, because the log shows an unknown one.
pub fn repeated(intent: HostInstallIntent, why: String, now: i64) -> HostInstallRecord {
    HostInstallRecord {
        end: Some(InstallEnd::NotRepeated),
        ended_at: Some(now),
        message: Some(why),
        ..HostInstallRecord::unfinished(intent)
    }
}

/// The record of an attempt that ended before its request was sent.
pub fn unsent_install(record: HostInstallRecord, why: &str) -> HostInstallRecord {
    HostInstallRecord {
        outcome: Some(CommandOutcome::NotSent),
        message: Some(why.to_owned()),
        ..record
    }
}

/// The record after the answer to the request.
pub fn answered_install(
    record: HostInstallRecord,
    answer: &Result<(), Error>,
) -> HostInstallRecord {
    let (outcome, message) = outcome(answer, record.intent.secret_texts);
    HostInstallRecord {
        outcome,
        message,
        ..record
    }
}

/// The error text for status. If the request had a secret, the provider's text is left out, because it may repeat it.
pub fn explained(error: &Error, had_secret: bool) -> String {
    match (had_secret, error.status()) {
        (false, _) => error.explain(),
        (true, Some(status)) => format!(
            "the provider answered with status {status}; its text is not shown, because it may repeat the script or another secret text"
        ),
        // Without the error's sources, which may contain the provider's text.
        (true, None) => error.to_string(),
    }
}

fn outcome<T>(
    answer: &Result<T, Error>,
    had_secret: bool,
) -> (Option<CommandOutcome>, Option<String>) {
    let error = match answer {
        Ok(_) => return (Some(CommandOutcome::Accepted), None),
        Err(error) => error,
    };
    // A 409 may be about another request or about this one.
    if error.may_have_taken_effect() {
        return (None, None);
    }
    let outcome = match error {
        // The installation may be sent again once the key works, the rate allows it, or the network is back.
        Error::AccessDenied(_) | Error::RateLimited(_) | Error::NotSent(_) => {
            CommandOutcome::NotSent
        }
        _ => CommandOutcome::Refused,
    };
    (Some(outcome), Some(explained(error, had_secret)))
}

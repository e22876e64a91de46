//! `spec.install`: only a higher `revision` re-installs a server, and at most once.
//! The revision at the first observation of a delivered server counts as performed, so a lost status sends no request.

pub mod attempt;
mod follow;
mod start;

pub use start::{NewReinstall, may_send, may_start};

use super::{
    super::facts::{ServerFacts, is_same_uuid},
    ServerEffect,
};
use crate::explanation::{AS_READY, AS_SYNCED, Explanation};
use api::{
    Reason,
    conditions::{DesiredCondition, Type},
    install::{InstallEnd, InstallHistory, InstallRecord},
};
use hosting_types::{Server, ServerStatus};
use std::{collections::BTreeMap, time::Duration};

/// What to record, do and report for the re-installation.
#[derive(Default)]
pub struct Reinstallation {
    /// The history to record.
    pub record: Option<InstallHistory>,
    /// The effect that is due once the history is recorded.
    pub effect: Option<ServerEffect>,
    /// The explanation of Ready, instead of a healthy server's.
    pub explanation: Option<Explanation>,
    /// Why a desired re-installation is blocked or failed, while the server goes on.
    pub unsynced: Option<(Reason, String)>,
    /// When to reconcile again.
    pub rest: Option<Duration>,
    /// Whether the installation data must be read.
    pub wants_installation: bool,
}

/// Decides what to record and do for the re-installation of a server.
pub fn decide_reinstall(facts: &ServerFacts, server: &Server) -> Reinstallation {
    let id = server.id.as_str();
    if server.status != ServerStatus::Delivered {
        let record = find_history(facts, id).or_else(|| facts.status().records.install);
        return Reinstallation {
            record,
            ..Reinstallation::default()
        };
    }
    let Some(known) = find_history(facts, id) else {
        let mut first = InstallHistory::new(
            facts.uid(),
            id,
            wanted_revision(facts),
            accountable_since(facts, server),
        );
        // The process that sent one remembers it, even if the object lost its status.
        first.last = remembered_record(facts, id);
        return Reinstallation {
            record: Some(first),
            ..Reinstallation::default()
        };
    };
    let known = follow::settle_history(facts, known);
    let mut found = match known.unfinished() {
        Some(record) => follow::follow_install(facts, record),
        None if wanted_revision(facts) > known.performed() => {
            carry_last_failure(start::decide_start(facts, &known), known.last.as_ref())
        }
        None => decide_after_last(facts, &known),
    };
    // An effect relies on the written status, not on what only this process knows.
    if facts.status().records.install.as_ref() != Some(&known) {
        found.effect = None;
    }
    found.record = Some(known);
    found
}

/// Since when re-installations need a record: since delivery, by the provider's clock.
/// A restored object, or one that lost its status, lacks their records, but the server was changed.
fn accountable_since(facts: &ServerFacts, server: &Server) -> i64 {
    let known = server.delivered_at.or(server.created_at);
    known.map_or(facts.now.wall, |at| at.min(facts.now.wall))
}

/// Until the next revision is sent, the failure of the last one still applies.
fn carry_last_failure(mut found: Reinstallation, last: Option<&InstallRecord>) -> Reinstallation {
    let Some(explanation) = last.and_then(|last| explain_end(last).explanation) else {
        return found;
    };
    if found.explanation.is_none() {
        let message = match (found.unsynced.take(), last.and_then(describe_outcome)) {
            (Some((_, why)), Some(outcome)) => format!("{outcome}. {why}"),
            _ => explanation.message.clone(),
        };
        found.explanation = Some(Explanation {
            message,
            ..explanation
        });
    }
    found
}

/// The desired `spec.install.revision`.
pub fn wanted_revision(facts: &ServerFacts) -> i64 {
    facts.object.spec.install.unwrap_or_default().revision
}

/// The known re-installations of this server, by status and by the memory of this process.
pub fn find_history(facts: &ServerFacts, server_uuid: &str) -> Option<InstallHistory> {
    let status = facts.status();
    let shown = status.records.install.filter(|_| facts.has_own_record());
    let is_its = |install: &InstallHistory| {
        install.uid == facts.uid() && is_same_uuid(&install.server, server_uuid)
    };
    let mut known = shown.filter(is_its)?;
    if let Some(record) = remembered_record(facts, server_uuid)
        && knows_more(&record, known.last.as_ref())
    {
        known.last = Some(record);
    }
    Some(known)
}

/// The same for the server in status.
pub fn find_history_of_status(facts: &ServerFacts) -> Option<InstallHistory> {
    let status = facts.object.status.as_ref()?;
    find_history(facts, status.uuid.as_deref()?)
}

/// Hashes of what the last finished re-installation of this server sent, if any.
pub fn installed_hashes(
    facts: &ServerFacts,
    server_uuid: &str,
) -> Option<BTreeMap<String, String>> {
    follow::settle_history(facts, find_history(facts, server_uuid)?).installed
}

fn remembered_record(facts: &ServerFacts, server_uuid: &str) -> Option<InstallRecord> {
    let record = facts.memory.install.record.as_deref().cloned()?;
    let intent = &record.intent;
    (intent.uid == facts.uid() && is_same_uuid(&intent.server, server_uuid)).then_some(record)
}

/// Whether this process remembers more than the object shows.
fn knows_more(record: &InstallRecord, shown: Option<&InstallRecord>) -> bool {
    let Some(shown) = shown else {
        return record.may_be_sent();
    };
    let rank = |r: &InstallRecord| (r.end.is_some(), r.outcome.is_some(), r.command_id.is_some());
    match record.intent.attempt == shown.intent.attempt {
        true => shown.end.is_none() && rank(record) >= rank(shown),
        // The watch may be behind. Another process may also have started an attempt, which must not be hidden:
        // of two for the same revision, the recorded one counts.
        false => {
            let is_further = !shown.may_be_sent() || record.intent.revision > shown.intent.revision;
            let is_later = record.intent.started_at > shown.intent.started_at;
            record.may_be_sent() && !shown.is_open() && is_further && is_later
        }
    }
}

/// Whether a re-install request may be in flight, so the server must stay this object's. Only an answer shows that it
/// arrived: a found command may be another one's. Counted since this process first saw the attempt.
pub fn may_be_in_flight(facts: &ServerFacts) -> bool {
    let known = find_history_of_status(facts);
    let open = known.as_ref().and_then(InstallHistory::unfinished);
    let Some(open) = open.filter(|record| record.outcome.is_none()) else {
        return false;
    };
    let since = facts.memory.install.unanswered.as_ref();
    let since = since.filter(|(attempt, _)| *attempt == open.intent.attempt);
    since.is_none_or(|(_, since)| facts.now.elapsed_since(*since) < longest_flight(facts))
}

/// Longest time that a request may be in flight.
pub fn longest_flight(facts: &ServerFacts) -> Duration {
    /// How long the client waits for the answer to a request that was sent at the last moment.
    const ON_THE_WIRE: Duration = Duration::from_secs(180);
    let window = facts.view().map(|view| view.times.send_window);
    // The longest window that an account may set.
    window.unwrap_or(Duration::from_secs(200)) + ON_THE_WIRE
}

/// No attempt is open, and no new revision is desired.
fn decide_after_last(facts: &ServerFacts, known: &InstallHistory) -> Reinstallation {
    let revision = wanted_revision(facts);
    // A user who lowers the revision accepts the server as it is.
    let last = known.last.as_ref();
    let last = last.filter(|last| last.intent.revision == revision && last.may_be_sent());
    last.map_or_else(Reinstallation::default, explain_end)
}

/// How a re-installation ended, if it left the server unhealthy.
fn describe_outcome(last: &InstallRecord) -> Option<String> {
    let (revision, server_uuid) = (last.intent.revision, &last.intent.server);
    match last.end? {
        InstallEnd::Failed => Some(format!(
            "Re-installation {revision} of server {server_uuid} failed"
        )),
        InstallEnd::TimedOut => Some(format!(
            "Re-installation {revision} of server {server_uuid} timed out"
        )),
        InstallEnd::Unknown => Some(format!(
            "Server {server_uuid} may be re-installed (revision {revision})"
        )),
        InstallEnd::Refused | InstallEnd::NotRepeated | InstallEnd::Finished => None,
    }
}

/// What a user can do after it: repeat it, or accept the server.
fn describe_next_step(last: &InstallRecord) -> String {
    let revision = last.intent.revision;
    format!(
        "To re-install it, raise spec.install.revision above {revision}; to accept it, set it below {revision}"
    )
}

/// What to report after the end of a re-installation.
fn explain_end(last: &InstallRecord) -> Reinstallation {
    let mut found = Reinstallation::default();
    let revision = last.intent.revision;
    let server_uuid = &last.intent.server;
    let why = last.message.as_deref().unwrap_or("no reason given");
    let next = describe_next_step(last);
    let what = describe_outcome(last).unwrap_or_default();
    match last.end {
        Some(InstallEnd::Failed) => {
            let message = format!("{what}. {next}");
            found.explanation = Some(Explanation::stalled(Reason::ReinstallFailed, message));
        }
        Some(InstallEnd::TimedOut) => {
            let message = format!("{what}; it exceeded spec.provisioning.timeout. {next}");
            found.explanation = Some(Explanation::stalled(Reason::ReinstallFailed, message));
        }
        Some(InstallEnd::Unknown) => {
            let message =
                format!("{what}; it is not sent again: {why}. Look at the server. {next}");
            found.explanation = Some(Explanation::stalled(Reason::OutcomeUnknown, message));
        }
        Some(InstallEnd::Refused) => {
            let message = format!(
                "Re-installation {revision} of server {server_uuid} was refused; the server is as it was: {why}. Correct the spec and raise spec.install.revision above {revision}, or set it below"
            );
            found.unsynced = Some((Reason::RequestRefused, message));
        }
        Some(InstallEnd::NotRepeated) => {
            let message = format!(
                "Re-installation {revision} of server {server_uuid} is not sent; {why}. To re-install it anyway, raise spec.install.revision above {revision}; else set it below"
            );
            found.unsynced = Some((Reason::NotRepeated, message));
        }
        Some(InstallEnd::Finished) | None => {}
    }
    found
}

/// The condition `InstallUpToDate`. `differences`: where the installation differs from the spec, in words.
pub fn build_condition(
    facts: &ServerFacts,
    found: &Reinstallation,
    differences: &[String],
) -> Option<DesiredCondition> {
    let known = found.record.as_ref()?;
    if known.unfinished().is_some() && found.explanation.is_none() {
        // The server is not shown as delivered, so its disk content is unknown.
        return None;
    }
    let of = |up_to_date, reason, message: String| {
        Some(DesiredCondition::new(
            Type::InstallUpToDate,
            up_to_date,
            reason,
            message,
        ))
    };
    if let Some(explanation) = &found.explanation {
        return of(false, explanation.reason, AS_READY.to_owned());
    }
    if let Some((reason, _)) = &found.unsynced {
        return of(false, *reason, AS_SYNCED.to_owned());
    }
    let (wanted, performed) = (wanted_revision(facts), known.performed());
    let lower = match wanted < performed && facts.object.spec.install.is_some() {
        true => format!(
            "Revision {performed} counts as performed, spec.install.revision is {wanted}; nothing is sent until it is higher"
        ),
        false => String::new(),
    };
    if let Some(last) = &known.last
        && let Some(explanation) = explain_end(last).explanation
    {
        let message = format!(
            "Unknown disk content since re-installation {}. {}",
            last.intent.revision,
            match lower.as_str() {
                "" => describe_next_step(last),
                lower => lower.to_owned(),
            }
        );
        return Some(DesiredCondition {
            status: None,
            ..DesiredCondition::new(Type::InstallUpToDate, false, explanation.reason, message)
        });
    }
    if differences.is_empty() {
        return of(true, Reason::InSync, lower);
    }
    let consent = match lower.as_str() {
        "" => format!(
            "To install it, set spec.install.revision to {}; {}",
            performed.saturating_add(1),
            describe_data_loss(facts)
        ),
        lower => format!("{lower}; then {}", describe_data_loss(facts)),
    };
    of(
        false,
        Reason::PendingChanges,
        format!("Not installed; {}. {consent}", differences.join("; ")),
    )
}

/// What a re-installation does to the disks, in words.
fn describe_data_loss(facts: &ServerFacts) -> &'static str {
    match facts.object.spec.install.unwrap_or_default().wipes_disk() {
        true => "this wipes the whole disk with all data (spec.install.wipeDisk)",
        false => "this loses all data, although spec.install.wipeDisk is false",
    }
}

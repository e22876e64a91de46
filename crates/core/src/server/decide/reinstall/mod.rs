//! `spec.install`: a machine is installed again by a higher `revision`, once, and by nothing else.
//!
//! What the revision says at first sight of a delivered machine counts as performed; so it does where the object lost its
//! status, so an intent in status alone is enough: who has lost it sends nothing. A revision that was sent, or may have
//! been, is never sent again; what came of it is found by looking at the machine's commands (module `follow`).

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

/// What the wish, and what was done about it, come to.
#[derive(Default)]
pub struct Reinstallation {
    /// What is recorded of it.
    pub record: Option<InstallHistory>,
    /// What is due, once that is on record.
    pub effect: Option<ServerEffect>,
    /// How the server stands, in the place of a machine with which all goes well.
    pub explanation: Option<Explanation>,
    /// What stands against a re-installation that is wished for, or became of it, while the machine goes on.
    pub unsynced: Option<(Reason, String)>,
    /// When to look again.
    pub rest: Option<Duration>,
    /// What the machine is installed with has to be read.
    pub wants_installation: bool,
}

/// What is to be noted and done for a machine.
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
        // A process that sent one knows of it, although the object lost its status.
        first.last = remembered_record(facts, id);
        return Reinstallation {
            record: Some(first),
            ..Reinstallation::default()
        };
    };
    let known = follow::settle_history(facts, known);
    let mut found = match known.open() {
        Some(record) => follow::follow(facts, record),
        None if wanted_revision(facts) > known.performed() => {
            carry_last_failure(start::decide_start(facts, &known), known.last.as_ref())
        }
        None => decide_after_last(facts, &known),
    };
    // An effect rests on what stands in status, and not on what only this process knows.
    if facts.status().records.install.as_ref() != Some(&known) {
        found.effect = None;
    }
    found.record = Some(known);
    found
}

/// From when on a re-installation of the machine has to be accounted for: since its delivery, by the provider's own clock.
/// An object that was restored, that lost its status, or is older than it was, has forgotten what was done since, and the
/// machine has not.
fn accountable_since(facts: &ServerFacts, server: &Server) -> i64 {
    let known = server.delivered_at.or(server.created_at);
    known.map_or(facts.now.wall, |at| at.min(facts.now.wall))
}

/// While nothing is sent for the next number, the machine is as the last one left it.
fn carry_last_failure(mut found: Reinstallation, last: Option<&InstallRecord>) -> Reinstallation {
    let Some(cause) = last.and_then(|last| explain_end(last).explanation) else {
        return found;
    };
    if found.explanation.is_none() {
        let message = match (found.unsynced.take(), last.and_then(describe_outcome)) {
            (Some((_, why)), Some(outcome)) => format!("{outcome}. {why}"),
            _ => cause.message.clone(),
        };
        found.explanation = Some(Explanation { message, ..cause });
    }
    found
}

/// The `spec.install.revision` that is asked for.
pub fn wanted_revision(facts: &ServerFacts) -> i64 {
    facts.object.spec.install.unwrap_or_default().revision
}

/// What is known of the re-installations of this machine: by the status, and by what this process knows itself.
pub fn find_history(facts: &ServerFacts, machine: &str) -> Option<InstallHistory> {
    let status = facts.status();
    let shown = status.records.install.filter(|_| facts.has_own_record());
    let is_its = |install: &InstallHistory| {
        install.uid == facts.uid() && is_same_uuid(&install.machine, machine)
    };
    let mut known = shown.filter(is_its)?;
    if let Some(record) = remembered_record(facts, machine)
        && knows_more(&record, known.last.as_ref())
    {
        known.last = Some(record);
    }
    Some(known)
}

/// The same of the machine that status names.
pub fn find_history_of_status(facts: &ServerFacts) -> Option<InstallHistory> {
    let status = facts.object.status.as_ref()?;
    find_history(facts, status.uuid.as_deref()?)
}

/// Hashes of what the last re-installation of this machine that is finished by now has sent; None: there is none.
pub fn installed_hashes(facts: &ServerFacts, machine: &str) -> Option<BTreeMap<String, String>> {
    follow::settle_history(facts, find_history(facts, machine)?).installed
}

fn remembered_record(facts: &ServerFacts, machine: &str) -> Option<InstallRecord> {
    let record = facts.memory.install.record.as_deref().cloned()?;
    let intent = &record.intent;
    (intent.uid == facts.uid() && is_same_uuid(&intent.machine, machine)).then_some(record)
}

/// Whether what this process remembers goes beyond what the object shows.
fn knows_more(record: &InstallRecord, shown: Option<&InstallRecord>) -> bool {
    let Some(shown) = shown else {
        return record.may_be_sent();
    };
    let rank = |r: &InstallRecord| (r.end.is_some(), r.outcome.is_some(), r.command_id.is_some());
    match record.intent.attempt == shown.intent.attempt {
        true => shown.end.is_none() && rank(record) >= rank(shown),
        // The watch may be behind. Another process may also have started one since, or beside this one, which this must
        // not hide: of two for one number the one that is on record counts.
        false => {
            let is_further = !shown.may_be_sent() || record.intent.revision > shown.intent.revision;
            let is_later = record.intent.started_at > shown.intent.started_at;
            record.may_be_sent() && !shown.is_open() && is_further && is_later
        }
    }
}

/// Whether a request to install the machine may be on its way at this moment: the machine goes to nobody else until it is
/// over. By this process's own clock since it first saw the attempt, so no clock that is turned matters. Only the answer
/// says that it has arrived: a command that was found and goes on may be another one's.
pub fn may_be_in_flight(facts: &ServerFacts) -> bool {
    let known = find_history_of_status(facts);
    let open = known.as_ref().and_then(InstallHistory::open);
    let Some(open) = open.filter(|record| record.outcome.is_none()) else {
        return false;
    };
    let since = facts.memory.install.unanswered.as_ref();
    let since = since.filter(|(attempt, _)| *attempt == open.intent.attempt);
    since.is_none_or(|(_, since)| facts.now.since(*since) < longest_flight(facts))
}

/// For so long at most.
pub fn longest_flight(facts: &ServerFacts) -> Duration {
    /// A request that was sent at the last moment is over by then: the client waits no longer for an answer.
    const ON_THE_WIRE: Duration = Duration::from_secs(180);
    let window = facts.view().map(|view| view.times.send_window);
    // The longest that an account may have.
    window.unwrap_or(Duration::from_secs(200)) + ON_THE_WIRE
}

/// Nothing is open, and nothing new is asked for.
fn decide_after_last(facts: &ServerFacts, known: &InstallHistory) -> Reinstallation {
    let wished = wanted_revision(facts);
    // Who sets the number back takes the machine as it is.
    let last = known.last.as_ref();
    let last = last.filter(|last| last.intent.revision == wished && last.may_be_sent());
    last.map_or_else(Reinstallation::default, explain_end)
}

/// What a re-installation came to, where that leaves the machine unwell.
fn describe_outcome(last: &InstallRecord) -> Option<String> {
    let (wished, machine) = (last.intent.revision, &last.intent.machine);
    match last.end? {
        InstallEnd::Failed => Some(format!(
            "Re-installation {wished} of server {machine} failed"
        )),
        InstallEnd::TimedOut => Some(format!(
            "Re-installation {wished} of server {machine} timed out"
        )),
        InstallEnd::Unknown => Some(format!(
            "Server {machine} may be re-installed (revision {wished})"
        )),
        InstallEnd::Refused | InstallEnd::NotRepeated | InstallEnd::Finished => None,
    }
}

/// What a user can do after one, to have it again or not.
fn describe_next_step(last: &InstallRecord) -> String {
    let wished = last.intent.revision;
    format!(
        "To re-install it, raise spec.install.revision above {wished}; to accept it, set it below {wished}"
    )
}

/// What the end of a re-installation leaves behind.
fn explain_end(last: &InstallRecord) -> Reinstallation {
    let mut found = Reinstallation::default();
    let wished = last.intent.revision;
    let machine = &last.intent.machine;
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
                "Re-installation {wished} of server {machine} was refused; the server is as it was: {why}. Correct the spec and raise spec.install.revision above {wished}, or set it below"
            );
            found.unsynced = Some((Reason::RequestRefused, message));
        }
        Some(InstallEnd::NotRepeated) => {
            let message = format!(
                "Re-installation {wished} of server {machine} is not sent; {why}. To re-install it anyway, raise spec.install.revision above {wished}; else set it below"
            );
            found.unsynced = Some((Reason::NotRepeated, message));
        }
        Some(InstallEnd::Finished) | None => {}
    }
    found
}

/// The condition `InstallUpToDate`. `differences`: what the spec asks for and the machine is not installed with, in words.
pub fn build_condition(
    facts: &ServerFacts,
    found: &Reinstallation,
    differences: &[String],
) -> Option<DesiredCondition> {
    let known = found.record.as_ref()?;
    if known.open().is_some() && found.explanation.is_none() {
        // The machine is not shown as delivered: nothing is known of what is on it.
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
    if let Some(cause) = &found.explanation {
        return of(false, cause.reason, AS_READY.to_owned());
    }
    if let Some((reason, _)) = &found.unsynced {
        return of(false, *reason, AS_SYNCED.to_owned());
    }
    let (wished, performed) = (wanted_revision(facts), known.performed());
    let lower = match wished < performed && facts.object.spec.install.is_some() {
        true => format!(
            "Revision {performed} counts as performed, spec.install.revision is {wished}; nothing is sent until it is higher"
        ),
        false => String::new(),
    };
    if let Some(last) = &known.last
        && let Some(cause) = explain_end(last).explanation
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
            ..DesiredCondition::new(Type::InstallUpToDate, false, cause.reason, message)
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

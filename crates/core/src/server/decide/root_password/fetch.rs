//! A password that is not stored: what blocks it, when it is fetched, and when it is lost.

use super::{
    super::{
        super::{
            facts::ServerFacts,
            password_memory::{PasswordFailure, PasswordMemory},
        },
        ServerDecision, ServerEffect, outputs, remedy,
    },
    LONGEST_SLEEP, find_doubtful_reinstall,
    precondition::shows_delivered,
    remaining_pause, seconds,
};
use crate::{backoff::LONGEST_PAUSE, requeue::Requeue, resolved_account::Purpose};
use api::{
    Interval, Reason,
    conditions::{DesiredCondition, Type},
    install::InstallHistory,
    outputs::OutputKind,
    root_password::{Installed, PasswordWarning, RootPassword, RootPasswordRecord},
};
use jiff::Timestamp;
use std::time::Duration;

const HOUR: i64 = 3_600;

/// Decides the next step for a password that is not stored, and returns the condition.
pub(super) fn decide_fetch(
    facts: &ServerFacts,
    decision: &mut ServerDecision,
    wanted: &RootPassword,
    record: &mut RootPasswordRecord,
    known: Option<&PasswordMemory>,
) -> DesiredCondition {
    let server_uuid = record.server.clone();
    // The spec may ask for Windows while its re-installation is still to come.
    if let Some(slug) = other_system(decision) {
        let text = format!(
            "Server {server_uuid} has {slug}; only Windows has a root password. Remove spec.rootPassword, or install Windows: set spec.os.slug and raise spec.install.revision, which wipes the server"
        );
        return not_stored(Reason::Pending, text);
    }
    let until = record.available_until.0;
    let rest = until.as_second().saturating_sub(facts.steady_wall());
    if rest > 0 && record.warned == Some(PasswordWarning::Missed) {
        record.warned = None;
    }
    if is_missed(facts, decision, record, known, rest) {
        record.warned = Some(PasswordWarning::Missed);
        let text = format!(
            "Root password of server {server_uuid} is lost; it was not stored and was available until {until}. Set one on the server itself, or raise spec.install.revision to re-install it, which wipes it"
        );
        return not_stored(Reason::PasswordMissed, text);
    }
    // A warning may become due, a name may become free, or a clock may be corrected.
    decision.requeue_within(LONGEST_SLEEP);
    let obstacle = find_obstacle(facts, decision, wanted, known);
    let said = explain_not_stored(facts, wanted, &server_uuid, until, obstacle.as_ref());
    let (of, secret) = (record.installation(), wanted.secret_ref.name.clone());
    let is_free = known.is_some_and(|known| known.free.as_ref() == Some(&secret));
    // The preconditions check the written status.
    let written = facts.status();
    let is_written = written.provider_status == decision.desired.status.provider_status
        && Installed::last(&written).is_some_and(|(last, _)| last == of);
    let output = outputs::output_record(OutputKind::Secret, &secret);
    let step = match is_free {
        false => Some(ServerEffect::FindPassword { of, secret }),
        true => {
            may_ask(facts, obstacle.as_ref()).then_some(ServerEffect::FetchPassword { of, secret })
        }
    };
    if !is_written {
        decision.requeue_once_written = Requeue::Now;
    } else if (facts.read_only || outputs::ensure_recorded(facts, decision, &output))
        && let Some(step) = step
    {
        let pause = match &obstacle {
            Some(Obstacle::Taken) => time_until_name_check(facts, known),
            _ => remaining_pause(facts, known),
        };
        decision.schedule_effect(facts, pause, step);
    }
    let is_under_way = !facts.memory.queued
        && matches!(
            decision.effect,
            Some(
                ServerEffect::RecordOutput(_)
                    | ServerEffect::FindPassword { .. }
                    | ServerEffect::FetchPassword { .. }
            )
        );
    // A password that is about to be fetched needs no warning.
    if obstacle.is_some() || is_written && !is_under_way {
        record.warned = record.warned.max(warning(rest));
    }
    said
}

/// Whether the provider reported, after the end of the window, that there is no password. A clock alone is not enough
/// to send a user to a re-installation, which wipes the server.
fn is_missed(
    facts: &ServerFacts,
    decision: &ServerDecision,
    record: &RootPasswordRecord,
    known: Option<&PasswordMemory>,
    rest: i64,
) -> bool {
    let doubt = find_doubtful_reinstall(decision, record);
    // A re-installation with an unknown end may have set another password since.
    let since = doubt.map_or(i64::MAX, |(_, at)| facts.now.wall.saturating_sub(at));
    let since = seconds(since.min(rest.saturating_neg()));
    let said_so = |known: &PasswordMemory| {
        known.failure == Some(PasswordFailure::Absent) && known.tried + since >= facts.now.mono
    };
    let is_recorded = record.warned == Some(PasswordWarning::Missed) && doubt.is_none();
    rest <= 0 && (is_recorded || known.is_some_and(said_so))
}

/// What blocks storing it now.
enum Obstacle {
    /// Something else uses the name.
    Taken,
    /// The server is suspended or observe-only, or the operator is read-only; in words.
    Blocked(String),
    /// The server may be getting another password now.
    Reinstalling,
    /// The account cannot be used.
    Account,
    /// The provider showed no password.
    Absent,
    /// The last try failed; in words.
    Failed(String),
}

fn find_obstacle(
    facts: &ServerFacts,
    decision: &ServerDecision,
    wanted: &RootPassword,
    known: Option<&PasswordMemory>,
) -> Option<Obstacle> {
    let failure = known.and_then(|known| known.failure.as_ref());
    if failure == Some(&PasswordFailure::Taken(wanted.secret_ref.name.clone())) {
        return Some(Obstacle::Taken);
    }
    if let Some(blocked) = remedy::explain_blocked(facts, "no root password is read") {
        return Some(Obstacle::Blocked(blocked.message));
    }
    if facts.read_only {
        return Some(Obstacle::Blocked("the operator is read-only".to_owned()));
    }
    let install = decision.desired.status.records.install.as_ref();
    if install.and_then(InstallHistory::unfinished).is_some() {
        return Some(Obstacle::Reinstalling);
    }
    if facts.account.usable(Purpose::Change).is_err() {
        return Some(Obstacle::Account);
    }
    match failure {
        Some(PasswordFailure::Absent) => Some(Obstacle::Absent),
        Some(PasswordFailure::Error(why)) => Some(Obstacle::Failed(why.clone())),
        Some(PasswordFailure::Taken(_)) | None => None,
    }
}

fn explain_not_stored(
    facts: &ServerFacts,
    wanted: &RootPassword,
    server_uuid: &str,
    until: Timestamp,
    obstacle: Option<&Obstacle>,
) -> DesiredCondition {
    let name = &wanted.secret_ref.name;
    let again = format!(
        "retrying at growing intervals of at most {}",
        Interval(LONGEST_PAUSE)
    );
    let why = match obstacle {
        None => "the operator requests it".to_owned(),
        Some(Obstacle::Taken) => {
            let text = format!(
                "Secret {name} is not this object's; nothing is written. Set spec.rootPassword.secretRef to another name, or delete it if it is unused, before the password expires at {until}; checked every {}",
                Interval(LONGEST_SLEEP)
            );
            return not_stored(Reason::NameTaken, text);
        }
        Some(Obstacle::Blocked(why)) => why.clone(),
        Some(Obstacle::Reinstalling) => {
            "the server is being re-installed and gets another one, which is requested then"
                .to_owned()
        }
        Some(Obstacle::Account) => {
            "the account cannot be used. Look at the conditions of the account".to_owned()
        }
        Some(Obstacle::Absent) => format!("the provider shows none; {again}"),
        Some(Obstacle::Failed(why)) => format!("{why}; {again}"),
    };
    let is = match until.as_second() > facts.steady_wall() {
        true => "is",
        false => "was",
    };
    let text = format!(
        "Root password of server {server_uuid} is not stored; it {is} available until {until}: {why}"
    );
    not_stored(Reason::Pending, text)
}

fn not_stored(reason: Reason, text: String) -> DesiredCondition {
    DesiredCondition::new(Type::RootPasswordStored, false, reason, text)
}

/// Whether the password may be requested now.
fn may_ask(facts: &ServerFacts, obstacle: Option<&Obstacle>) -> bool {
    let is_let = matches!(
        obstacle,
        None | Some(Obstacle::Absent | Obstacle::Failed(_))
    );
    is_let && shows_delivered(&facts.status())
}

fn warning(rest: i64) -> Option<PasswordWarning> {
    match rest {
        rest if rest <= HOUR => Some(PasswordWarning::Hour),
        rest if rest <= 6 * HOUR => Some(PasswordWarning::SixHours),
        _ => None,
    }
}

/// The system of the server, if it is known and not Windows.
fn other_system(decision: &ServerDecision) -> Option<&str> {
    let slug = decision.desired.status.os.as_deref()?;
    let is_windows = slug.to_ascii_lowercase().starts_with("win");
    (!is_windows).then_some(slug)
}

/// How long until a name in use is checked again.
fn time_until_name_check(facts: &ServerFacts, known: Option<&PasswordMemory>) -> Duration {
    let tried = known.map_or(Duration::ZERO, |known| known.tried);
    (tried + LONGEST_SLEEP).saturating_sub(facts.now.mono)
}

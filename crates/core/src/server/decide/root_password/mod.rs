//! `spec.rootPassword`: stores the password of a Windows server once for each installation, while it is available.
//! Status records that. A Secret without that record names its installation, so it is checked before any request.

mod fetch;
mod precondition;

pub use precondition::{deletion_due_at, may_fetch, may_find};

use super::{
    super::{
        facts::{ServerFacts, is_same_uuid},
        password_memory::{PasswordFailure, PasswordMemory},
    },
    ServerDecision, ServerEffect,
    desired_status::time,
};
use crate::backoff::LONGEST_PAUSE;
use api::{
    Interval, Reason,
    conditions::{DesiredCondition, Type},
    install::InstallEnd,
    root_password::{Installed, RootPassword, RootPasswordRecord},
    server::BareMetalServerStatus,
};
use fetch::decide_fetch;
use hosting_types::{Server, ServerStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

/// Longest time between two checks: a name may become free, or a clock may be turned back.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);

/// Adds the effect that is due to a decision, and updates the record in status. Returns the condition.
pub fn reconcile_password(
    facts: &ServerFacts,
    decision: &mut ServerDecision,
) -> Option<DesiredCondition> {
    let shown = decision.desired.status.records.root_password.take();
    let wanted = facts.object.spec.root_password.as_ref();
    let sought = wanted
        .zip(find_installation(facts, &decision.desired.status))
        .filter(|_| !facts.deleting());
    let server_uuid = shown.as_ref().map(|shown| shown.server.clone());
    let is_of_it = server_uuid.is_some() && server_uuid == decision.desired.status.uuid;
    if sought.is_none() && (wanted.is_none() || !is_of_it) {
        let kind = Type::RootPasswordStored.as_str();
        let conditions = &mut decision.desired.status.conditions;
        conditions.retain(|c| c.type_ != kind);
    }
    let mut record = shown.filter(|_| facts.has_own_record());
    if let Some((_, (of, at))) = &sought {
        let known = record.take().filter(|record| record.installation() == *of);
        record = match known {
            // The window starts at the time that the provider reports, once it does.
            Some(record) => record.begin(*at),
            None => RootPasswordRecord::new(of, at.unwrap_or(facts.steady_wall())),
        };
    }
    let mut record = record?;
    let of = record.installation();
    let known = Some(&facts.memory.root_password).filter(|known| known.of == of);
    record_progress(&mut record, known, facts.steady_wall());
    record.deletes_at = deletes_at(wanted, &record);
    schedule_deletion(facts, decision, &record, known);
    let said = match (&record.secret, sought) {
        (Some(secret), sought) => {
            let overdue = explain_overdue(facts, &record, known);
            // A failed deletion is reported even if no password is wanted any more.
            (sought.is_some() || overdue.is_some())
                .then(|| explain_stored(decision, &record, overdue, secret))
        }
        (None, Some((wanted, _))) => {
            Some(decide_fetch(facts, decision, wanted, &mut record, known))
        }
        (None, None) => None,
    };
    decision.desired.status.records.root_password = Some(record);
    said
}

/// The last installation of the server in status, if it is delivered and seen as the object's, and its time.
fn find_installation(
    facts: &ServerFacts,
    status: &BareMetalServerStatus,
) -> Option<(Installed, Option<i64>)> {
    let uuid = status.uuid.as_deref()?;
    let is_it = |server: &Server| {
        server.status == ServerStatus::Delivered && is_same_uuid(server.id.as_str(), uuid)
    };
    facts.own.iter().find(|s| is_it(&s.server))?;
    Installed::last(status)
}

/// Records what this process has done.
fn record_progress(record: &mut RootPasswordRecord, known: Option<&PasswordMemory>, now: i64) {
    let Some(known) = known else { return };
    if let Some((secret, at)) = &known.stored
        && record.secret.is_none()
    {
        record.secret = Some(secret.clone());
        record.stored_at = time(*at);
    }
    if known.is_deleted && record.secret.is_some() {
        record.deleted_at = record.deleted_at.take().or_else(|| time(now));
    }
}

/// When the Secret is deleted: by the spec's ttl, or by the last one if the spec no longer asks for a password.
fn deletes_at(wanted: Option<&RootPassword>, record: &RootPasswordRecord) -> Option<Time> {
    let Some(wanted) = wanted else {
        return record.deletes_at.clone();
    };
    let ttl = i64::try_from(wanted.ttl?.0.as_secs()).unwrap_or(i64::MAX);
    let stored = record.stored_at.as_ref()?.0.as_second();
    time(stored.saturating_add(ttl))
}

/// Deletes the Secret after its time, even if the server or the spec changed.
fn schedule_deletion(
    facts: &ServerFacts,
    decision: &mut ServerDecision,
    record: &RootPasswordRecord,
    known: Option<&PasswordMemory>,
) {
    let written = facts.object.status.as_ref();
    let written = written.and_then(|status| status.records.root_password.as_ref());
    let is_written = written.is_some_and(|written| written.secret == record.secret);
    let (Some(secret), Some(at), None) = (&record.secret, &record.deletes_at, &record.deleted_at)
    else {
        return;
    };
    if !is_written {
        return;
    }
    let rest = at.0.as_second().saturating_sub(facts.steady_wall());
    let rest = seconds(rest).max(remaining_pause(facts, known));
    let forget = ServerEffect::ForgetPassword {
        of: record.installation(),
        secret: secret.clone(),
    };
    decision.schedule_effect(facts, rest, forget);
}

/// The condition for a stored password.
fn explain_stored(
    decision: &ServerDecision,
    record: &RootPasswordRecord,
    overdue: Option<String>,
    secret: &str,
) -> DesiredCondition {
    let server_uuid = &record.server;
    let mut text = match &record.deleted_at {
        Some(_) => format!(
            "Secret {secret} is deleted (spec.rootPassword.ttl); it had the root password of server {server_uuid}"
        ),
        None => {
            format!("Root password is stored in Secret {secret}; it is of server {server_uuid}")
        }
    };
    if let Some(overdue) = overdue {
        text += &overdue;
    }
    if let Some((revision, _)) = find_doubtful_reinstall(decision, record) {
        text += &format!(
            "; re-installation {revision}, whose end is unknown, may have changed it (see status.install.last)"
        );
    }
    DesiredCondition::new(Type::RootPasswordStored, true, Reason::InSync, text)
}

/// Why the Secret still exists after its time.
fn explain_overdue(
    facts: &ServerFacts,
    record: &RootPasswordRecord,
    known: Option<&PasswordMemory>,
) -> Option<String> {
    let at = record
        .deletes_at
        .as_ref()
        .filter(|_| record.deleted_at.is_none())?
        .0;
    let failure = known.and_then(|known| known.failure.as_ref())?;
    let (PasswordFailure::Error(why), true) = (failure, at.as_second() <= facts.steady_wall())
    else {
        return None;
    };
    Some(format!(
        "; due for deletion since {at} (spec.rootPassword.ttl): {why}; retrying at growing intervals of at most {}",
        Interval(LONGEST_PAUSE)
    ))
}

/// A later re-installation that may have happened and was not seen to finish: its revision, and when that was settled,
/// in seconds since 1970.
fn find_doubtful_reinstall(
    decision: &ServerDecision,
    record: &RootPasswordRecord,
) -> Option<(i64, i64)> {
    let install = decision.desired.status.records.install.as_ref();
    let install = install.filter(|install| is_same_uuid(&install.server, &record.server))?;
    let last = install.last.as_ref()?;
    let is_later = Some(last.intent.revision) > record.revision;
    let may_be = matches!(
        last.end,
        Some(InstallEnd::Unknown | InstallEnd::TimedOut | InstallEnd::NotRepeated)
    );
    (is_later && may_be).then_some((last.intent.revision, last.ended_at.unwrap_or(0)))
}

/// How long until the next try.
fn remaining_pause(facts: &ServerFacts, known: Option<&PasswordMemory>) -> Duration {
    let rest = known.and_then(|known| known.backoff.remaining(facts.now.mono));
    rest.unwrap_or_default()
}

fn seconds(rest: i64) -> Duration {
    Duration::from_secs(u64::try_from(rest).unwrap_or(0))
}

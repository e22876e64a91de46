//! Follows a sent re-installation to its end, or searches for one whose answer was lost.

use super::{
    super::{super::facts::ServerFacts, ServerEffect, is_same_account},
    Reinstallation, may_be_in_flight, wanted_revision,
};
use crate::{
    account::view::AccountView, explanation::Explanation, provider_commands::state_of,
    resolved_account::Purpose,
};
use api::{
    Interval, Reason,
    command::CommandOutcome,
    install::{FinishedInstall, InstallEnd, InstallHistory, InstallRecord},
};
use hosting_types::command::CommandState;
use std::{cmp::Ordering, time::Duration};

/// The known history, with the end of the last re-installation if it has ended.
pub(super) fn settle_history(facts: &ServerFacts, mut known: InstallHistory) -> InstallHistory {
    if let Some((end, message)) = known
        .unfinished()
        .and_then(|record| find_end(facts, record))
        && let Some(record) = &mut known.last
    {
        record.end = Some(end);
        record.ended_at = Some(facts.now.wall);
        record.message = message.or_else(|| record.message.take());
        if end == InstallEnd::Finished {
            known.installed = Some(record.intent.sent.clone());
            known.finished = Some(FinishedInstall {
                revision: record.intent.revision,
                at: facts.now.wall,
            });
        }
    }
    if known.unfinished().is_none() {
        known.revision = known.performed();
    }
    known
}

/// How a re-installation ended and why, if it did.
fn find_end(facts: &ServerFacts, record: &InstallRecord) -> Option<(InstallEnd, Option<String>)> {
    if record.outcome == Some(CommandOutcome::Refused) {
        return Some((InstallEnd::Refused, None));
    }
    match state_of(record.state.as_deref()) {
        CommandState::Finished => return Some((InstallEnd::Finished, None)),
        CommandState::Failed => return Some((InstallEnd::Failed, None)),
        CommandState::Pending | CommandState::Other(_) => {}
    }
    if is_late(facts, record) && !may_be_in_flight(facts) {
        match wanted_revision(facts).cmp(&record.intent.revision) {
            Ordering::Greater => return Some((InstallEnd::TimedOut, None)),
            // A user accepts the server as it is.
            Ordering::Less => {
                let why = "it did not end within spec.provisioning.timeout, and the revision was set back";
                return Some((InstallEnd::Unknown, Some(why.to_owned())));
            }
            Ordering::Equal => {}
        }
    }
    let view = facts.account.usable(Purpose::End).ok()?;
    let unknown = |why: String| Some((InstallEnd::Unknown, Some(why)));
    if !is_same_account(view, Some(&record.intent.account)) {
        return unknown("the account changed since it was sent, so its end is not visible".into());
    }
    let search = facts.memory.install.search.as_ref();
    let search = search.filter(|search| search.attempt == record.intent.attempt)?;
    if record.command_id.is_some() {
        return None;
    }
    if let Some(ids) = &search.several {
        return unknown(format!("several commands of that time match: {ids}"));
    }
    let begins = search.begins(is_own(facts, record), view.times.send_window);
    if search.is_over(begins, view.times.absence_grace_period) {
        return unknown(match record.is_taken() {
            true => "the provider accepted it, but lists no command of it".into(),
            false => "its answer was lost, and the provider lists no command of it".into(),
        });
    }
    None
}

/// Whether this process sent it.
fn is_own(facts: &ServerFacts, record: &InstallRecord) -> bool {
    let sent = facts.memory.install.record.as_deref();
    sent.is_some_and(|sent| sent.intent.attempt == record.intent.attempt)
}

/// Whether it takes longer than `spec.provisioning.timeout`.
fn is_late(facts: &ServerFacts, record: &InstallRecord) -> bool {
    let timeout = facts.object.spec.provisioning.unwrap_or_default().timeout();
    let since = facts.steady_wall().saturating_sub(record.intent.started_at);
    u64::try_from(since).is_ok_and(|since| since >= timeout.0.as_secs())
}

/// Follows an open re-installation.
pub(super) fn follow_install(facts: &ServerFacts, record: &InstallRecord) -> Reinstallation {
    let mut found = Reinstallation::default();
    let intent = &record.intent;
    let view = facts.account.usable(Purpose::End).ok();
    let is_late = is_late(facts, record);
    let every = view.map(|view| poll_interval(view, record, is_late));
    let again = match every {
        Some(every) => format!("checked every {}", Interval(every)),
        None => "checked once the account is available".to_owned(),
    };
    let (begins, shown) = match (&record.state, record.is_taken()) {
        (Some(word), _) => (
            "Re-installing server",
            format!("the provider says {word:?}"),
        ),
        (None, true) => (
            "Re-installing server",
            "the provider does not show its progress".to_owned(),
        ),
        (None, false) => (
            "May be re-installing server",
            "the answer was lost, and it is not sent again".to_owned(),
        ),
    };
    let what = format!(
        "{begins} {} (revision {}); {shown}",
        intent.server, intent.revision
    );
    found.explanation = Some(match is_late {
        true => Explanation::stalled(
            Reason::ReinstallFailed,
            format!(
                "{what}, for longer than {} (spec.provisioning.timeout); {again}. Ask the provider, raise spec.install.revision to retry, or set it back to accept the server as it is",
                facts.object.spec.provisioning.unwrap_or_default().timeout()
            ),
        ),
        false => Explanation::waits(Reason::Reinstalling, format!("{what}; {again}")),
    });
    let Some((view, every)) = view.zip(every) else {
        return found;
    };
    let memory = &facts.memory.install;
    let due = match (&record.command_id, &memory.search) {
        // The answer to the request counts as the first poll.
        (Some(_), _) => memory.polled_at.map_or(facts.now.mono, |at| at + every),
        (None, Some(search)) => search.due(
            search.begins(is_own(facts, record), view.times.send_window),
            every,
        ),
        (None, None) => facts.now.mono + Duration::from_secs(1),
    };
    let rest = due.saturating_sub(facts.now.mono);
    match rest.is_zero() {
        true => {
            found.effect = Some(ServerEffect::PollInstall {
                record: Box::new(record.clone()),
                pages: super::start::allowed_pages(facts),
            });
        }
        false => found.rest = Some(rest),
    }
    found
}

fn poll_interval(view: &AccountView, record: &InstallRecord, is_late: bool) -> Duration {
    match (is_late, record.is_taken()) {
        (true, _) => view.times.idle_poll_interval,
        (false, true) => view.times.active_poll_interval,
        (false, false) => view.times.absence_check_interval,
    }
}

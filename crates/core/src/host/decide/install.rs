//! `spec.install`: only a higher `revision` installs a host, at most once. The first observed revision counts as done.
//! A request that may have been sent is never repeated. Its outcome is read from the host and its installation log.

use super::{super::facts::HostFacts, HostEffect, HostStep, remedy};
use crate::{
    account::view::{AccountView, ListKind},
    explanation::Explanation,
    host_record::{is_under_way, word},
    report::{EventRecord, install_events},
    resolved_account::Purpose,
    server_commands::RunningCommand,
    stored_keys::{KeyLookup, StoredKey},
    wording::WHEN_RATE_ALLOWS,
};
use api::{
    Interval, Reason,
    command::CommandOutcome,
    conditions::Type,
    host::DedicatedHostStatus,
    host_install::{
        HostInstallHistory, HostInstallIntent, HostInstallRecord, HostLog, UnknownWord,
    },
    install::{FinishedInstall, InstallEnd},
    order::OrderAccount,
    power::{PowerRecord, PowerState},
};
use hosting_types::{
    host::{Host, InstallStatus},
    identity::is_same_uuid,
    server::SystemFamily,
};
use std::time::Duration;

/// How long an installation may take before the host reports it as slow. Polling continues.
pub const TIMEOUT: Duration = Duration::from_secs(2 * 3600);

/// Reasons that mean the object may not use the host.
const NOT_OWNED_REASONS: [Reason; 2] = [Reason::OwnershipConflict, Reason::NotAllowed];
/// Requeue delay while a ServerCommand runs.
const COMMAND_RUNS: Duration = Duration::from_secs(5);

/// An installation that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewHostInstall {
    /// The provider's number of the host.
    pub host: u64,
    /// The provider's number of the server behind the host, as last listed.
    pub server_id: Option<i64>,
    /// The `spec.install.revision` that requests it.
    pub revision: i64,
    /// The generation of the object whose spec is used.
    pub generation: Option<i64>,
    /// The provider's number of the operating system.
    pub os_id: u64,
    /// The family of the operating system.
    pub family: SystemFamily,
    /// The provider's identifier of the stored key.
    pub key: String,
    /// UID of its SshKey object.
    pub key_uid: String,
    /// The account that the request uses.
    pub account: OrderAccount,
    /// Most pages of the installation log to read before it.
    pub pages: u32,
}

/// The requested `spec.install.revision`, or 0.
pub fn wanted_revision(facts: &HostFacts) -> i64 {
    let install = facts.subject.object.spec.install.as_ref();
    install.map_or(0, |install| install.revision)
}

/// While the object may not use the host (by `against` or by the last status), its requests count as performed.
/// Otherwise an old request would erase or switch the host once this object may use it.
pub(super) fn count_requests_as_performed(
    facts: &HostFacts,
    against: Option<&Explanation>,
    status: &mut DedicatedHostStatus,
) {
    let is_now = against.is_some_and(|explanation| NOT_OWNED_REASONS.contains(&explanation.reason));
    let mut ready = status.conditions.iter();
    let ready = ready.find(|condition| condition.type_ == Type::Ready.as_str());
    let was = ready.is_some_and(|ready| {
        ready.status != "True"
            && NOT_OWNED_REASONS
                .iter()
                .any(|it| it.as_str() == ready.reason)
    });
    let uid = facts.subject.uid();
    if let Some(install) = status.records.install.as_mut().filter(|it| it.uid == uid)
        && (is_now || was)
    {
        install.revision = install.performed().max(wanted_revision(facts));
        if let Some(power) = &mut status.records.power {
            power.desired = facts.subject.object.spec.power;
            power.command = power
                .command
                .take()
                .filter(|it| it.state != PowerState::Recorded);
        }
    }
}

/// The events about an installation, once it is recorded.
pub(super) fn news(before: &DedicatedHostStatus, next: &DedicatedHostStatus) -> Vec<EventRecord> {
    let last = |status: &DedicatedHostStatus| status.records.install.clone()?.last;
    let Some(now) = last(next) else {
        return Vec::new();
    };
    let progress =
        |record: &HostInstallRecord| (record.outcome == Some(CommandOutcome::Accepted), record.end);
    let intent = &now.intent;
    let was = last(before).filter(|was| was.intent.attempt == intent.attempt);
    let what = format!(
        "host {} (spec.install.revision {})",
        intent.host_id, intent.revision
    );
    install_events(
        &what,
        was.as_ref().map_or((false, None), progress),
        progress(&now),
    )
}

/// Updates the installation record from a list that began at `began`, and returns what is due.
pub(super) fn step(
    facts: &HostFacts,
    view: &AccountView,
    began: Duration,
    host: &Host,
    status: &mut DedicatedHostStatus,
) -> HostStep {
    let Some(known) = &mut status.records.install else {
        // Not Ready yet: a revision raised after Ready must count as a request.
        let text = format!(
            "Host {} is seen for the first time; nothing is sent before its installation log is read, {WHEN_RATE_ALLOWS}",
            host.id
        );
        return HostStep {
            explanation: Some(Explanation::waits(Reason::Progressing, text)),
            effect: read_log(facts, view),
            is_moving: true,
            ..HostStep::default()
        };
    };
    record_unknown_status(facts, host, known);
    update_outcome(facts, view, began, host, known);
    if let Some(record) = known.unfinished().cloned() {
        return follow(facts, view, began, host, &record);
    }
    if known.log.is_none()
        && let Some(snapshot) = &facts.subject.memory.own.log
    {
        // If another process recorded the host first, earlier and later installations cannot be distinguished.
        known.log = Some(match facts.subject.memory.own.is_first {
            true => snapshot.log,
            false => HostLog::default(),
        });
    }
    let under_way = is_under_way(host, Some(&*known));
    let mut step = match wanted_revision(facts) > known.performed() {
        true => start(facts, view, began, host, known),
        false => HostStep {
            explanation: after(facts, known),
            // Records the log at the first observation, so a status that is restored later shows what it lacks.
            effect: known.log.is_none().then(|| read_log(facts, view)).flatten(),
            ..HostStep::default()
        },
    };
    if under_way {
        step.is_moving = true;
        step.explanation.get_or_insert_with(|| {
            let text = format!(
                "Host {} is being installed, but not for this object; nothing is sent until that is over (status.providerInstallStatus); checked every {}",
                host.id,
                Interval(view.times.active_poll_interval)
            );
            Explanation::waits(Reason::Reinstalling, text)
        });
    } else if known.is_stuck() && wanted_revision(facts) <= known.performed() {
        step.explanation.get_or_insert_with(|| {
            let text = format!(
                "Unknown installation status {:?} of host {} for more than {}; commands are sent again. Ask the provider; spec.install.revision {} installs the host, which erases its disks",
                word(&host.install_status).unwrap_or_default(),
                host.id,
                Interval(TIMEOUT),
                known.performed().saturating_add(1)
            );
            Explanation::stalled(Reason::ReinstallFailed, text)
        });
    }
    step
}

/// Records since when the host shows an unknown installation status. After `TIMEOUT` it counts as no installation, and
/// requests made until then count as performed.
fn record_unknown_status(facts: &HostFacts, host: &Host, known: &mut HostInstallHistory) {
    let InstallStatus::Other(_) = &host.install_status else {
        known.unknown = None;
        return;
    };
    let now = facts.subject.now.wall;
    let shown = word(&host.install_status).unwrap_or_default();
    let same = known.unknown.take().filter(|unknown| unknown.word == shown);
    let mut unknown = same.unwrap_or_else(|| UnknownWord {
        word: shown.to_owned(),
        since: now,
        is_stuck: false,
    });
    // The clock may have been ahead at that time.
    unknown.since = unknown.since.min(now);
    if !unknown.is_stuck && is_late(facts, unknown.since) {
        unknown.is_stuck = true;
        known.revision = known.performed().max(wanted_revision(facts));
    }
    known.unknown = Some(unknown);
}

/// Whether reading the installation log succeeded or failed. The first installation record needs one of them.
pub(super) fn log_was_tried(facts: &HostFacts) -> bool {
    let own = &facts.subject.memory.own;
    own.log.is_some() || own.log_error.is_some()
}

/// Reads the log if it is due. A failure only delays the next read.
fn read_log(facts: &HostFacts, view: &AccountView) -> Option<HostEffect> {
    let own = &facts.subject.memory.own;
    let every = match &own.log_error {
        Some((_, _, true)) => view.times.idle_poll_interval,
        _ => view.times.active_poll_interval,
    };
    let last = own.log.as_ref().map(|snapshot| snapshot.at);
    let failed = own.log_error.as_ref().map(|(at, _, _)| *at);
    let is_due = last
        .max(failed)
        .is_none_or(|at| facts.subject.now.mono >= at + every);
    let pages = facts.log_pages();
    is_due.then_some(HostEffect::ReadLog { pages })
}

/// Records what the list and the log show of an open installation, including its end.
fn update_outcome(
    facts: &HostFacts,
    view: &AccountView,
    began: Duration,
    host: &Host,
    known: &mut HostInstallHistory,
) {
    let is_own = known.last.as_ref().is_some_and(|last| facts.has_sent(last));
    let own = &facts.subject.memory.own;
    let wanted = wanted_revision(facts);
    let is_stuck = known.is_stuck();
    let under_way = is_under_way(host, Some(&*known));
    let Some(record) = &mut known.last else {
        return;
    };
    // The unknown installation is reported now, so its log entries count as known.
    if record.end == Some(InstallEnd::NotRepeated) && record.ended_at.is_some() {
        known.log = Some(record.intent.log);
    }
    if !record.is_open() {
        known.revision = known.performed();
        return;
    }
    if record.outcome == Some(CommandOutcome::Refused) {
        record.end = Some(InstallEnd::Refused);
        record.ended_at = Some(facts.subject.now.wall);
        known.revision = known.performed();
        return;
    }
    let attempt = record.intent.attempt.clone();
    let begins = facts.begins(&attempt, view);
    let snapshot = own.log.as_ref().filter(|snapshot| snapshot.at >= begins);
    let is_later = snapshot.is_some_and(|snapshot| snapshot.log.is_later_than(&record.intent.log));
    if began < begins {
        return;
    }
    // A field missing from the answer means nothing.
    let shown = word(&host.install_status);
    let is_changed = shown.is_some() && shown != record.intent.before.as_deref();
    record.is_seen |= under_way || is_changed;
    let has_arrived = record.is_seen || is_later;
    if has_arrived {
        record.outcome.get_or_insert(CommandOutcome::Accepted);
    }
    // If only the log shows it, the list may be late and still show the end of the previous installation.
    let may_be_over = record.is_seen || began >= begins + view.times.absence_check_interval;
    let end = match (&host.install_status, has_arrived) {
        (InstallStatus::Finished | InstallStatus::Failed, true) if !may_be_over => None,
        (InstallStatus::Finished, true) => Some((InstallEnd::Finished, None)),
        (InstallStatus::Failed, true) => {
            let error = snapshot.and_then(|snapshot| snapshot.error.clone());
            Some((InstallEnd::Failed, error))
        }
        (_, true)
            if is_late(facts, record.intent.started_at)
                && (is_stuck || wanted > record.intent.revision) =>
        {
            Some((InstallEnd::TimedOut, None))
        }
        (_, false) if facts.is_overdue(&attempt, view, began) => {
            let why = match record.outcome {
                Some(_) => "the provider accepted it, and shows no trace of it",
                None => "the answer was lost, and the provider shows no trace of it",
            };
            Some((InstallEnd::Unknown, Some(why.to_owned())))
        }
        _ => None,
    };
    let Some((end, message)) = end else { return };
    let is_over = matches!(end, InstallEnd::Finished | InstallEnd::Failed);
    if is_over && is_own {
        // If this process sent it, a log read after the end counts as known. After another process's installation,
        // later ones cannot be distinguished, so they stay unknown.
        let after = own.log.as_ref().filter(|snapshot| snapshot.at > began);
        let is_unreadable = own.log_error.as_ref().is_some_and(|(at, _, _)| *at > began);
        match after {
            Some(snapshot) => known.log = Some(snapshot.log),
            None if is_unreadable => {}
            None => return,
        }
    }
    record.end = Some(end);
    record.ended_at = Some(facts.subject.now.wall);
    record.message = message.or_else(|| record.message.take());
    if end == InstallEnd::Finished {
        known.finished = Some(FinishedInstall {
            revision: record.intent.revision,
            at: facts.subject.now.wall,
        });
    }
    known.revision = known.performed();
}

/// Whether `began` (seconds since the epoch) is at least `TIMEOUT` ago.
fn is_late(facts: &HostFacts, began: i64) -> bool {
    let since = facts.subject.now.wall.saturating_sub(began);
    u64::try_from(since).is_ok_and(|since| since >= TIMEOUT.as_secs())
}

/// Follows an open installation.
fn follow(
    facts: &HostFacts,
    view: &AccountView,
    began: Duration,
    host: &Host,
    record: &HostInstallRecord,
) -> HostStep {
    let times = &view.times;
    let revision = record.intent.revision;
    let every = Interval(times.active_poll_interval);
    let (is, shown) = match (word(&host.install_status), record.is_seen) {
        (Some(word), true) => ("is being", format!("the provider says {word:?}")),
        (None, true) => {
            let shown = "the provider does not say how far it is";
            ("is being", shown.to_owned())
        }
        (_, false) if record.outcome.is_some() => {
            let shown = "the provider does not show it yet";
            ("is being", shown.to_owned())
        }
        (_, false) => {
            let shown = "the answer was lost, and it is not sent a second time";
            ("may be being", shown.to_owned())
        }
    };
    let log = match &facts.subject.memory.own.log_error {
        Some(_) if record.intent.secret_texts => "; its log cannot be read".to_owned(),
        Some((_, why, _)) => format!("; its log cannot be read: {why}"),
        None => String::new(),
    };
    let what = format!(
        "Host {} {is} installed (spec.install.revision {revision}); {shown}{log}",
        host.id
    );
    let explanation = match is_late(facts, record.intent.started_at) {
        true => Explanation::stalled(
            Reason::ReinstallFailed,
            format!(
                "{what}; this takes longer than {}; checked every {every}. Ask the provider, or raise spec.install.revision to try again",
                Interval(TIMEOUT)
            ),
        ),
        false => Explanation::waits(
            Reason::Reinstalling,
            format!("{what}; checked every {every}"),
        ),
    };
    // Once it is over, the log is read again without delay.
    let has_arrived = record.is_seen || record.outcome == Some(CommandOutcome::Accepted);
    let is_over = has_arrived && !host.install_status.is_under_way();
    let own = &facts.subject.memory.own;
    let failed = own.log_error.as_ref().map(|(at, _, _)| *at);
    let last_read = own.log.as_ref().map(|snapshot| snapshot.at).max(failed);
    let is_final_read = is_over && facts.has_sent(record) && last_read.is_none_or(|at| at <= began);
    let effect = match is_final_read {
        true => Some(HostEffect::ReadLog {
            pages: facts.log_pages(),
        }),
        false => read_log(facts, view),
    };
    HostStep {
        explanation: Some(explanation),
        effect,
        is_moving: true,
        ..HostStep::default()
    }
}

/// The explanation after the last installation, if no new one is requested.
fn after(facts: &HostFacts, known: &HostInstallHistory) -> Option<Explanation> {
    let install = facts.subject.object.spec.install.as_ref()?;
    let performed = known.performed();
    if install.revision < performed {
        let text = format!(
            "spec.install.revision is {}, but {performed} counts as performed; nothing is sent. Set it to {performed}, or to {} to install the host, which erases its disks",
            install.revision,
            performed.saturating_add(1)
        );
        return Some(Explanation::stalled(Reason::InvalidSpec, text));
    }
    let last = known.last.as_ref()?;
    if last.intent.revision != install.revision {
        return None;
    }
    ended(facts, last)
}

/// How the last installation failed, if it did.
fn ended(facts: &HostFacts, last: &HostInstallRecord) -> Option<Explanation> {
    let revision = last.intent.revision;
    let host = facts.number();
    let why = last
        .message
        .as_deref()
        .map_or(String::new(), |why| format!("; {why}"));
    let again = format!(
        "To try again, raise spec.install.revision above {revision}; to leave the host as it is, remove spec.install"
    );
    let (reason, what) = match last.end? {
        InstallEnd::Finished => return None,
        InstallEnd::Failed => (
            Reason::ReinstallFailed,
            format!(
                "The installation of host {host} failed (spec.install.revision {revision}){why}"
            ),
        ),
        InstallEnd::Refused => (
            Reason::RequestRefused,
            format!(
                "The provider refused to install host {host} (spec.install.revision {revision}){why}. Correct the spec"
            ),
        ),
        InstallEnd::TimedOut => (
            Reason::ReinstallFailed,
            format!(
                "The installation of host {host} did not end (spec.install.revision {revision}){why}"
            ),
        ),
        InstallEnd::Unknown => (
            Reason::OutcomeUnknown,
            format!(
                "Not known whether host {host} was installed (spec.install.revision {revision}){why}; it is not sent again"
            ),
        ),
        InstallEnd::NotRepeated => (
            Reason::NotRepeated,
            format!("Host {host} was not installed for spec.install.revision {revision}{why}"),
        ),
    };
    Some(Explanation::stalled(reason, format!("{what}. {again}")))
}

/// Starts the requested installation, or explains why it waits.
fn start(
    facts: &HostFacts,
    view: &AccountView,
    began: Duration,
    host: &Host,
    known: &HostInstallHistory,
) -> HostStep {
    let subject = &facts.subject;
    let wanted = wanted_revision(facts);
    let number = host.id;
    let what = format!(
        "Host {number} is to be installed (spec.install.revision {wanted}), which erases its disks"
    );
    if let Some(explanation) = remedy::explain_block(facts, &what) {
        return HostStep::because(explanation);
    }
    let every = view.times.active_poll_interval;
    if is_under_way(host, Some(known)) {
        let text = format!(
            "{what}; the provider already shows {:?}, which goes first; checked every {}",
            word(&host.install_status).unwrap_or_default(),
            Interval(every)
        );
        return HostStep::because(Explanation::waits(Reason::Reinstalling, text));
    }
    let awaited = facts.subject.status().records.power;
    let awaited = awaited.as_ref().and_then(PowerRecord::awaited);
    let command = match &facts.commands {
        RunningCommand::Nothing => awaited
            .map(|command| format!("ServerCommand {} of spec.power goes first", command.name)),
        RunningCommand::NotListed => {
            Some("the ServerCommands are not listed yet, and one may be under way".to_owned())
        }
        RunningCommand::Command(name) => Some(format!(
            "ServerCommand {name}, which may be under way, goes first"
        )),
    };
    if let Some(why) = command {
        let text = format!("{what}; {why}; checked every {}", Interval(COMMAND_RUNS));
        return HostStep {
            explanation: Some(Explanation::waits(Reason::Queued, text)),
            rest: Some(COMMAND_RUNS),
            ..HostStep::default()
        };
    }
    let own = &subject.memory.own;
    if known.log.is_none() {
        return HostStep {
            explanation: Some(match &own.log_error {
                Some((_, why, true)) => Explanation::stalled(
                    Reason::ChecksFailed,
                    format!(
                        "{what}; its installation log is needed first and cannot be read: {why}. Ask the provider"
                    ),
                ),
                Some((_, why, false)) => Explanation::waits(
                    Reason::ChecksFailed,
                    format!(
                        "{what}; its installation log is needed first and cannot be read: {why}; retrying every {}",
                        Interval(every)
                    ),
                ),
                None => Explanation::waits(
                    Reason::Reinstalling,
                    format!("{what}; its installation log is read {WHEN_RATE_ALLOWS}"),
                ),
            }),
            effect: read_log(facts, view),
            is_moving: true,
            ..HostStep::default()
        };
    }
    if let Some((explanation, rest)) = recent_block(facts, every) {
        return HostStep {
            explanation: Some(explanation),
            rest: Some(rest),
            ..HostStep::default()
        };
    }
    let system = match system(facts, view) {
        Ok(Some(system)) => system,
        Ok(None) => {
            return HostStep {
                explanation: Some(match view.list_error(ListKind::Catalogue) {
                    Some((reason, why)) => {
                        crate::resolved_account::explain_blocked(*reason, why.clone())
                    }
                    None => Explanation::waits(
                        Reason::Reinstalling,
                        format!("{what}; the list of systems is read {WHEN_RATE_ALLOWS}"),
                    ),
                }),
                wants: Some((ListKind::Catalogue, catalogue_since(facts, view))),
                ..HostStep::default()
            };
        }
        // The provider may offer the system later.
        Err(explanation) => {
            let at = view.catalogue.as_ref().map_or(began, |(at, _)| *at);
            return HostStep {
                explanation: Some(explanation),
                wants: Some((ListKind::Catalogue, at + view.times.idle_poll_interval)),
                ..HostStep::default()
            };
        }
    };
    let account = match subject.account_id() {
        Ok(_) => facts.order_account(),
        Err(explanation) => return HostStep::because(explanation),
    };
    let key = match key(facts, view) {
        Ok(key) => key.clone(),
        Err(explanation) => return HostStep::because(explanation),
    };
    let (os_id, family) = system;
    let new = account.map(|account| NewHostInstall {
        host: number.0,
        // The recorded server, even if the list has no serverID.
        server_id: subject.status().server_id.or(host.server_id),
        revision: wanted,
        generation: subject.object.metadata.generation,
        os_id,
        family,
        key: key.uuid,
        key_uid: key.uid,
        account,
        pages: facts.log_pages(),
    });
    HostStep {
        explanation: Some(Explanation::waits(
            Reason::Reinstalling,
            format!("{what}; the request is sent {WHEN_RATE_ALLOWS}"),
        )),
        effect: new.map(|new| HostEffect::Install(Box::new(new))),
        is_moving: true,
        ..HostStep::default()
    }
}

/// Why it could not be sent recently, and how long that still applies.
fn recent_block(facts: &HostFacts, every: Duration) -> Option<(Explanation, Duration)> {
    let blocked = facts.subject.memory.own.blocked_install.as_ref()?;
    let rest = (blocked.at + every).saturating_sub(facts.subject.now.mono);
    let is_current = blocked.generation == facts.subject.object.metadata.generation;
    (is_current && !rest.is_zero())
        .then(|| (blocked.explanation.clone().checked_every(every), rest))
}

/// A list of systems that is older is not used, because a number may name another system by now.
fn catalogue_since(facts: &HostFacts, view: &AccountView) -> Duration {
    let now = facts.subject.now.mono;
    let newest = now.saturating_sub(view.times.idle_poll_interval);
    facts.subject.observations_count_from().max(newest)
}

/// The number and the family of the system. None: the list of systems must be read first.
fn system(
    facts: &HostFacts,
    view: &AccountView,
) -> Result<Option<(u64, SystemFamily)>, Explanation> {
    let invalid = |text: String| Explanation::stalled(Reason::InvalidSpec, text);
    let Some(os) = &facts.subject.object.spec.os else {
        let text = "spec.os names no system, but an installation needs one. Set spec.os";
        return Err(invalid(text.to_owned()));
    };
    let Some((at, catalogue)) = &view.catalogue else {
        return Ok(None);
    };
    if *at < catalogue_since(facts, view) {
        return Ok(None);
    }
    let mut systems = catalogue.systems.iter();
    let (field, found) = match (&os.id, &os.slug) {
        (Some(id), _) => (
            format!("spec.os.id {id}"),
            systems.find(|system| system.id == Some(*id)),
        ),
        (None, Some(slug)) => (
            format!("spec.os.slug {slug:?}"),
            systems.find(|system| system.slug.eq_ignore_ascii_case(slug)),
        ),
        (None, None) => {
            let text = "spec.os has neither id nor slug. Set one of them";
            return Err(invalid(text.to_owned()));
        }
    };
    let Some(found) = found else {
        return Err(invalid(format!(
            "The provider does not offer {field}. Choose another system"
        )));
    };
    let Some(id) = found.id.and_then(|id| u64::try_from(id).ok()) else {
        return Err(invalid(format!(
            "The provider gives no number for {field}, which an installation needs. Choose another system, or set spec.os.id"
        )));
    };
    let family = SystemFamily::of_slug(&found.slug);
    match family {
        SystemFamily::CustomIpxe => Err(invalid(format!(
            "A dedicated host cannot be installed with custom-ipxe ({field}). Choose another system"
        ))),
        SystemFamily::Talos => Ok(Some((id, family))),
        _ if !os.kernel_params.is_empty() => Err(invalid(format!(
            "System {} does not read spec.os.kernelParams. Remove them, or choose a system talos-…",
            found.slug
        ))),
        _ => Ok(Some((id, family))),
    }
}

/// The stored key that the installation uses, or the reason to wait for it.
fn key<'a>(facts: &'a HostFacts, view: &AccountView) -> Result<&'a StoredKey, Explanation> {
    let Some(reference) = &facts.subject.object.spec.ssh_key_ref else {
        let text =
            "spec.sshKeyRef names no SshKey, but an installation needs one. Set spec.sshKeyRef";
        return Err(Explanation::stalled(Reason::InvalidSpec, text));
    };
    let field = format!("SshKey {} of spec.sshKeyRef", reference.name);
    let waits = |why: &str| {
        let text = format!("{field} is not stored yet; {why}; the installation follows when it is");
        Explanation::waits(Reason::ReferenceNotReady, text)
    };
    match &facts.key {
        Some(KeyLookup::Ready(stored)) if stored.account != facts.subject.object.account() => {
            let text = format!(
                "{field} is stored in another account, {} {}. Name a key of the host's account",
                stored.account.kind.as_str(),
                stored.account.name
            );
            Err(Explanation::stalled(Reason::InvalidSpec, text))
        }
        Some(KeyLookup::Ready(stored)) if view.account_id.as_ref() != Some(&stored.account_id) => {
            Err(waits(
                "the account's key and URL are of another account than before",
            ))
        }
        Some(KeyLookup::Ready(stored)) => Ok(stored),
        Some(KeyLookup::NotReady(why)) => Err(waits(why)),
        Some(KeyLookup::NotKnown) | None => Err(waits("it is not listed yet")),
        Some(KeyLookup::Missing) => Err(Explanation::missing(
            Reason::ReferenceNotFound,
            format!("{field} does not exist in this namespace. Create it"),
        )),
        Some(KeyLookup::Ending) => Err(Explanation::missing(
            Reason::ReferenceNotFound,
            format!(
                "{field} is being deleted. Name another one, or create it again when it is gone"
            ),
        )),
    }
}

/// Checks that a decided installation is still due. `fresh` is the object as read right before.
/// Returns the installation record that the intent is added to.
pub fn may_start(fresh: &HostFacts, new: &NewHostInstall) -> Option<HostInstallHistory> {
    let known = fresh.install()?;
    let is_due =
        known.unfinished().is_none() && known.log.is_some() && new.revision > known.performed();
    (is_due && is_still_wanted(fresh, new)).then_some(known)
}

/// Whether it may still be sent. `last` is the object after the intent was written, and nothing else may have changed.
pub fn may_send(last: &HostFacts, new: &NewHostInstall, intent: &HostInstallIntent) -> bool {
    let status = last.subject.status();
    let open = status
        .records
        .install
        .as_ref()
        .and_then(HostInstallHistory::unfinished);
    let is_unanswered = open.is_some_and(|record| {
        record.intent == *intent && record.outcome.is_none() && !record.is_seen
    });
    is_unanswered && is_still_wanted(last, new)
}

/// Whether the object still requests exactly this installation.
fn is_still_wanted(fresh: &HostFacts, new: &NewHostInstall) -> bool {
    let subject = &fresh.subject;
    let policies = fresh.known_policies();
    let key = match &fresh.key {
        Some(KeyLookup::Ready(stored)) => {
            stored.uid == new.key_uid
                && is_same_uuid(&stored.uuid, &new.key)
                && stored.account_id == new.account.account_id
        }
        _ => false,
    };
    may_touch(fresh, &new.account)
        && policies.is_some_and(api::PoliciesInForce::may_send)
        && key
        && fresh.number() == new.host
        && subject.object.metadata.generation == new.generation
        && wanted_revision(fresh) == new.revision
}

/// Whether the object may use the host through this account: not deleted, permitted, and no conflicting owner.
fn may_touch(fresh: &HostFacts, account: &OrderAccount) -> bool {
    let subject = &fresh.subject;
    let id = subject.object.spec.host_id;
    !subject.is_deleting()
        && subject.account.usable(Purpose::Change).is_ok()
        && subject.account.terms().is_some_and(|t| t.may_use_host(id))
        && fresh.conflicting_owners.owner.is_none()
        && fresh.order_account().as_ref() == Some(account)
        && subject.status().account_ref.is_some()
        && subject.status().records.account_id.as_ref() == Some(&account.account_id)
}

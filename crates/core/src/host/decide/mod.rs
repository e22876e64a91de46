//! Decides what to do for a host from its facts. All objects share the account's list of hosts.
//! Only spec changes send requests: the spec at the first observation of the host counts as done.

pub mod attempt;
pub mod install;
mod observed;
pub mod power;
mod remedy;
#[cfg(test)]
pub(crate) mod tests;

use super::facts::HostFacts;
use crate::{
    account::{
        priority::Priority,
        view::{AccountView, HostsById, ListKind},
    },
    explanation::Explanation,
    host_record::{is_of_another_kind, is_on_demand, is_under_way},
    read_only::Effect,
    reconcile::{self, ReadSource},
    resolved_account::{Purpose, explain_blocked},
};
use api::{
    Interval, Reason,
    command::PowerAction,
    host::{DedicatedHostStatus, HostPolicies},
    host_install::HostInstallHistory,
    power::PowerRecord,
};
use hosting_types::host::Host;
use install::NewHostInstall;
use std::time::Duration;

/// Shortest requeue delay of an object that waits.
const MIN_REQUEUE: Duration = Duration::from_secs(1);

/// A decision about a host.
pub type HostDecision = reconcile::Decision<DedicatedHostStatus, HostEffect>;

/// What a decision asks for. Each effect is a sequence of calls under one permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEffect {
    /// Install the host.
    Install(Box<NewHostInstall>),
    /// Create the ServerCommand for a change of `spec.power`.
    Power {
        /// Its name.
        name: String,
        /// What it does.
        action: PowerAction,
    },
    /// Read its installation log.
    ReadLog {
        /// Most pages to read.
        pages: u32,
    },
}

impl Effect for HostEffect {
    fn change(&self) -> Option<String> {
        match self {
            Self::Install(new) => Some(format!("install host {}; this erases its disks", new.host)),
            Self::Power { name, .. } => Some(format!("create ServerCommand {name}")),
            Self::ReadLog { .. } => None,
        }
    }
}

/// What one part of the spec (install or power) contributes to the decision.
#[derive(Default)]
struct HostStep {
    /// Replaces the explanation of an idle host.
    explanation: Option<Explanation>,
    /// The effect that is due.
    effect: Option<HostEffect>,
    /// A second list to read, besides the hosts, and the earliest start that is new enough.
    wants: Option<(ListKind, Duration)>,
    /// Longest delay until the next reconcile.
    rest: Option<Duration>,
    /// Whether something is in progress, so that hosts are polled at the active interval.
    is_moving: bool,
}

impl HostStep {
    fn because(explanation: Explanation) -> Self {
        Self {
            explanation: Some(explanation),
            ..Self::default()
        }
    }
}

/// Decides what to do for the object.
pub fn decide(facts: &HostFacts) -> HostDecision {
    // Deletion undoes nothing on the host, and the object has no finalizer.
    if facts.subject.is_deleting() {
        return HostDecision::unchanged(&facts.subject);
    }
    let mut decision = reconcile_host(facts)
        .block_change(&facts.subject, Some(ListKind::Hosts))
        .answering(&facts.subject, || match explain_skipped_poll(facts) {
            Some(_) => ReadSource::NotNeeded,
            None => ReadSource::List(ListKind::Hosts),
        });
    decision.news = install::news(&facts.subject.status(), &decision.status);
    decision.suspended = facts.policies().suspend.then(|| {
        let is_own = facts.subject.object.spec.suspend.is_some();
        let account = &facts.subject.account;
        account.describe_suspension(is_own, "nothing is sent for the host")
    });
    decision
}

/// Why the account's list is not read for this host.
fn explain_skipped_poll(facts: &HostFacts) -> Option<Explanation> {
    let subject = &facts.subject;
    if facts.number() == 0 {
        let text = "spec.hostID must be at least 1. Create a new object with the number of the host, and delete this one";
        return Some(Explanation::stalled(Reason::InvalidSpec, text));
    }
    if subject.account.usable(Purpose::Change).is_ok()
        && let Some(terms) = subject.account.terms()
        && !terms.may_use_host(subject.object.spec.host_id)
    {
        let entry = terms.entry().map_or("", |(entry, _)| entry);
        let text = format!(
            "ClusterProviderAccount {} does not grant host {} to namespace {}; the provider is not asked about it. Ask an administrator of the account to add {} to hostIDs of entry {entry:?} in its spec.allowedNamespaces (allowAdoption grants no host)",
            subject.object.account().name,
            facts.number(),
            subject.namespace(),
            facts.number(),
        );
        return Some(Explanation::stalled(Reason::NotAllowed, text));
    }
    let other = facts.conflicting_owners.owner.as_ref()?;
    let owner = other.named("DedicatedHost", subject.namespace());
    if !facts.is_owner_known {
        // No conflict yet, so pending requests do not count as performed.
        let text = format!(
            "Not known yet whether the older {owner} may have host {}; continues once its account is read",
            facts.number()
        );
        return Some(Explanation::waits(Reason::Pending, text));
    }
    let text = format!(
        "Host {} (spec.hostID) belongs to the older {owner}. {}",
        facts.number(),
        other.remedy(subject.namespace())
    );
    Some(Explanation::stalled(Reason::OwnershipConflict, text))
}

/// The part of the status that every decision has. It includes all that this process has sent.
fn base(facts: &HostFacts) -> DedicatedHostStatus {
    let subject = &facts.subject;
    let mut status = subject.status();
    if subject.view().is_some() {
        status.account_ref = Some(subject.object.account());
    }
    status.records.install = facts.install().or(status.records.install);
    if let Some(policies) = facts.known_policies() {
        status.policies = Some(HostPolicies {
            management_policy: policies.management_policy,
            suspend: policies.suspend,
        });
    }
    status
}

/// Why the record is not a dedicated host, if it is not.
fn not_dedicated(host: &Host) -> Option<String> {
    let id = host.id;
    if is_on_demand(host) {
        return Some(format!(
            "Host {id} (spec.hostID) is an on-demand server. Use a BareMetalServer with spec.externalID for it, and delete this object"
        ));
    }
    is_of_another_kind(host).then(|| {
        format!(
            "The provider does not call host {id} (spec.hostID) a dedicated host; nothing is sent to it. Delete this object"
        )
    })
}

fn reconcile_host(facts: &HostFacts) -> HostDecision {
    let subject = &facts.subject;
    let mut status = base(facts);
    let usable = subject.account.usable(Purpose::Change);
    let view = usable.and_then(|view| match explain_skipped_poll(facts) {
        None => Ok(view),
        Some(explanation) => Err(explanation),
    });
    install::count_requests_as_performed(facts, view.as_ref().err(), &mut status);
    let view = match view {
        Ok(view) => view,
        Err(explanation) => return HostDecision::from_status(status).because(explanation),
    };
    let Some((began, hosts)) = facts.hosts() else {
        let decision = HostDecision::from_status(status);
        let decision = match view.list_error(ListKind::Hosts) {
            Some((reason, message)) => decision.because(explain_blocked(*reason, message.clone())),
            None => decision,
        };
        return decision.wanting(ListKind::Hosts, facts.not_before());
    };
    match hosts.get(&facts.number()) {
        None => missing(facts, status, view, began, hosts),
        Some(host) => match not_dedicated(host) {
            Some(text) => HostDecision::from_status(status)
                .because(Explanation::stalled(Reason::InvalidSpec, text))
                .wanting(ListKind::Hosts, began + view.times.idle_poll_interval),
            None => shown(facts, status, view, began, host),
        },
    }
}

/// The list does not contain the host. A list may be late or wrongly empty, so one list is not enough.
fn missing(
    facts: &HostFacts,
    status: DedicatedHostStatus,
    view: &AccountView,
    began: Duration,
    hosts: &HostsById,
) -> HostDecision {
    let times = &view.times;
    let first = facts.subject.memory.own.unseen.unwrap_or(began);
    let is_gone = began > first && began >= first + times.absence_grace_period;
    let number = facts.number();
    let (explanation, next) = match is_gone {
        false => {
            let text = format!(
                "The account's list of {} hosts does not show host {number} (spec.hostID); it counts as missing after {}; checked every {}",
                hosts.len(),
                Interval(times.absence_grace_period),
                Interval(times.absence_check_interval),
            );
            let explanation = Explanation::waits(Reason::ServerNotFound, text);
            (explanation, times.absence_check_interval)
        }
        true => {
            let text = format!(
                "The account does not have host {number} (spec.hostID). Ask the provider where it is, or delete this object and create one with a number that the account has (GET /v3/host lists them)"
            );
            let explanation = Explanation::stalled(Reason::ServerNotFound, text);
            (explanation, times.idle_poll_interval)
        }
    };
    HostDecision::from_status(status)
        .because(explanation)
        .wanting(ListKind::Hosts, began + next)
}

/// The list contains the host.
fn shown(
    facts: &HostFacts,
    mut status: DedicatedHostStatus,
    view: &AccountView,
    began: Duration,
    host: &Host,
) -> HostDecision {
    let subject = &facts.subject;
    let idle = began + view.times.idle_poll_interval;
    if let Some(explanation) = explain_changed_server(facts, &status, view, host) {
        return HostDecision::from_status(status)
            .because(explanation)
            .wanting(ListKind::Hosts, idle);
    }
    observed::fill(&mut status, facts, began, host);
    if view.account_id.is_some() {
        status.records.account_id.clone_from(&view.account_id);
    }
    status.records.install = status.records.install.filter(|i| i.uid == subject.uid());
    let is_first = status.records.install.is_none();
    status.records.install = status.records.install.or_else(|| {
        // Written together with the log, so a process that stops in between has recorded nothing.
        install::log_was_tried(facts).then(|| {
            let mut first = HostInstallHistory::new(subject.uid(), install::wanted_revision(facts));
            // This process remembers an installation it sent, even if the object lost its status.
            first.last = subject.memory.own.install.clone();
            first
        })
    });
    let install = install::step(facts, view, began, host, &mut status);
    // An installation that cannot start does not block power.
    let open = status
        .records
        .install
        .as_ref()
        .and_then(HostInstallHistory::unfinished);
    let is_busy = is_under_way(host, status.records.install.as_ref())
        || open.is_some()
        || matches!(install.effect, Some(HostEffect::Install(_)));
    let power = power::step(facts, view, is_busy, &mut status);
    // Requests are sent only when status already has these records.
    let is_written = {
        let written = subject.status();
        written.records.power == status.records.power
            && written.records.install == status.records.install
            && written.records.account_id == status.records.account_id
            && written.account_ref == status.account_ref
    };
    let is_moving = install.is_moving || power.is_moving;
    let pace = match is_moving {
        true => began + view.times.active_poll_interval,
        false => idle,
    };
    let sending = |effect: &HostEffect| !matches!(effect, HostEffect::ReadLog { .. });
    let effects = [install.effect, power.effect];
    let (sends, reads): (Vec<HostEffect>, Vec<HostEffect>) =
        effects.into_iter().flatten().partition(sending);
    let effect = sends.into_iter().next().filter(|_| is_written && !is_first);
    let effect = effect.or_else(|| reads.into_iter().next().filter(|_| is_written));
    let explanation = install.explanation.or(power.explanation);
    let explanation = explanation.unwrap_or_else(|| explain_idle(facts, host));
    let mut decision = HostDecision::from_status(status)
        .because(explanation)
        .wanting(ListKind::Hosts, pace);
    if let Some((list, at)) = install.wants {
        decision = decision.wanting_also(list, at);
    }
    if let Some(rest) = [install.rest, power.rest].into_iter().flatten().min() {
        let again = decision.requeue_after.min(rest.max(MIN_REQUEUE));
        decision = decision.requeue_after(again);
    }
    decision = match effect {
        Some(effect) => decision.with(effect),
        None => decision,
    };
    match is_written {
        true => decision,
        false => decision.requeue_once_written(),
    }
}

/// The explanation of a host for which nothing is to be done.
fn explain_idle(facts: &HostFacts, host: &Host) -> Explanation {
    let says = match host.status.as_str() {
        "" => "the provider does not say whether it runs".to_owned(),
        word => format!("the provider calls it {word:?}"),
    };
    let text = match facts.policies().observe_only() {
        true => format!("The host exists; {says}; it is only observed"),
        false => format!("The host exists; {says}"),
    };
    Explanation::ready(Reason::Available, text)
}

/// Whether the spec asks for something that is not sent yet, or a command is awaited.
fn is_pending(facts: &HostFacts, status: &DedicatedHostStatus) -> bool {
    let install = status.records.install.as_ref();
    let installs =
        install.is_some_and(|install| install::wanted_revision(facts) > install.performed());
    let desired = facts.subject.object.spec.power;
    let switches = status.records.power.as_ref().is_some_and(|known| {
        desired.is_some() && known.desired != desired || PowerRecord::awaited(known).is_some()
    });
    installs || switches
}

/// Why the host with this number is not the one seen before. The recorded fields stay as they are.
fn explain_changed_server(
    facts: &HostFacts,
    status: &DedicatedHostStatus,
    view: &AccountView,
    host: &Host,
) -> Option<Explanation> {
    let changed = status.records.account_id.is_some()
        && view.account_id.is_some()
        && status.records.account_id != view.account_id;
    let number = facts.number();
    let is_same =
        matches!((status.server_id, host.server_id), (Some(before), Some(now)) if before == now);
    match (status.server_id, host.server_id) {
        // Two accounts may use the same numbers, so an equal serverID does not permit erasing.
        _ if is_same && changed && is_pending(facts, status) => {
            let text = format!(
                "Key and URL are of another account than host {number} was first seen in; the serverID is the same, but nothing is sent. Restore them, or withdraw the request (spec.install.revision as in status, no spec.power) and repeat it when the object is Ready"
            );
            Some(Explanation::stalled(Reason::AccountChanged, text))
        }
        _ if is_same => None,
        _ if changed => {
            let text = format!(
                "Key and URL are of another account than host {number} was first seen in; nothing shows that it is the same host, so nothing is sent. Restore them, or, if this host is meant, delete this object and create it again"
            );
            Some(Explanation::stalled(Reason::AccountChanged, text))
        }
        (Some(before), Some(now)) => {
            let text = format!(
                "Host {number} (spec.hostID) is another server than before; serverID {now}, before {before}; nothing is sent. Ask the provider, or, if this server is meant, delete this object and create it again"
            );
            Some(Explanation::stalled(Reason::ServerNotFound, text))
        }
        // A field missing from the answer means nothing.
        (None, _) | (_, None) => None,
    }
}

/// Priority and number of calls of an effect.
pub fn permit_for(effect: &HostEffect) -> Option<(Priority, u32)> {
    match effect {
        // One call reads the host, one sends the request, and `pages` read the log.
        HostEffect::Install(new) => Some((Priority::Change, 2 + new.pages)),
        HostEffect::ReadLog { pages } => Some((Priority::Poll, *pages)),
        HostEffect::Power { .. } => None,
    }
}

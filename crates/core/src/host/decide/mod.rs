//! The decision: facts in, one decision out.
//!
//! The account's list of hosts is looked at, once for all objects. What is sent follows from changes of the spec alone: what
//! it says when the host is first seen counts as done.

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
    pass::{self, ReadSource},
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

/// No pass follows sooner after one that only waits.
const BRIEFEST: Duration = Duration::from_secs(1);

/// A decision about a host.
pub type HostDecision = pass::Decision<DedicatedHostStatus, HostEffect>;

/// What a decision asks for. Each is one row of calls by one permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEffect {
    /// Install the host.
    Install(Box<NewHostInstall>),
    /// Create the ServerCommand that a change of `spec.power` came to.
    Power {
        /// Its name.
        name: String,
        /// What it does.
        action: PowerAction,
    },
    /// Read its installation log.
    ReadLog {
        /// So many pages of it are allowed for.
        pages: u32,
    },
}

/// What a wish of the spec, and what was done about it, come to.
#[derive(Default)]
struct HostStep {
    /// How the host stands, in the place of one with which all is well.
    explanation: Option<Explanation>,
    /// What is due.
    effect: Option<HostEffect>,
    /// A look at a list besides that of the hosts is wanted.
    wants: Option<(ListKind, Duration)>,
    /// When to look again.
    rest: Option<Duration>,
    /// Whether something is under way, so that the host is looked at closely.
    is_moving: bool,
}

impl HostStep {
    fn because(cause: Explanation) -> Self {
        Self {
            explanation: Some(cause),
            ..Self::default()
        }
    }
}

/// Decides.
pub fn decide(facts: &HostFacts) -> HostDecision {
    // Nothing of ours is on a host that had to be undone: the object just goes.
    if facts.subject.is_deleting() {
        return HostDecision::unchanged(&facts.subject);
    }
    let mut decision =
        reconcile_host(facts).answering(&facts.subject, || match explain_skipped_poll(facts) {
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

/// Why the host is not even looked at, whatever the account says.
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
    let rival = facts.conflicting_owners.owner.as_ref()?;
    let owner = rival.named("DedicatedHost", subject.namespace());
    if !facts.is_owner_known {
        // No conflict yet: nothing that is asked for is used up by it.
        let text = format!(
            "Not known yet whether the older {owner} may have host {}; continues once its account is read",
            facts.number()
        );
        return Some(Explanation::waits(Reason::Pending, text));
    }
    let text = format!(
        "Host {} (spec.hostID) belongs to the older {owner}. {}",
        facts.number(),
        rival.remedy(subject.namespace())
    );
    Some(Explanation::stalled(Reason::OwnershipConflict, text))
}

/// What is known in any case. All that this process knows of what it sent is in every status.
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

/// Why the record is of something else than a dedicated host, if it is.
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
        Some(cause) => Err(cause),
    });
    install::waive_requests(facts, view.as_ref().err(), &mut status);
    let view = match view {
        Ok(view) => view,
        Err(cause) => return HostDecision::from_status(status).because(cause),
    };
    let Some((began, hosts)) = facts.hosts() else {
        let decision = HostDecision::from_status(status);
        let decision = match view.error_of(ListKind::Hosts) {
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

/// The account does not show the host. A list may be late or falsely empty, so one is not enough.
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
    let (cause, next) = match is_gone {
        false => {
            let text = format!(
                "The account's list of {} hosts does not show host {number} (spec.hostID); it counts as missing after {}; checked every {}",
                hosts.len(),
                Interval(times.absence_grace_period),
                Interval(times.absence_check_interval),
            );
            let cause = Explanation::waits(Reason::ServerNotFound, text);
            (cause, times.absence_check_interval)
        }
        true => {
            let text = format!(
                "The account does not have host {number} (spec.hostID). Ask the provider where it is, or delete this object and create one with a number that the account has (GET /v3/host lists them)"
            );
            let cause = Explanation::stalled(Reason::ServerNotFound, text);
            (cause, times.idle_poll_interval)
        }
    };
    HostDecision::from_status(status)
        .because(cause)
        .wanting(ListKind::Hosts, began + next)
}

/// The account shows the host.
fn shown(
    facts: &HostFacts,
    mut status: DedicatedHostStatus,
    view: &AccountView,
    began: Duration,
    host: &Host,
) -> HostDecision {
    let subject = &facts.subject;
    let idle = began + view.times.idle_poll_interval;
    if let Some(cause) = explain_changed_server(facts, &status, view, host) {
        return HostDecision::from_status(status)
            .because(cause)
            .wanting(ListKind::Hosts, idle);
    }
    observed::fill(&mut status, facts, began, host);
    if view.account_id.is_some() {
        status.records.account_id.clone_from(&view.account_id);
    }
    status.records.install = status.records.install.filter(|i| i.uid == subject.uid());
    let is_first = status.records.install.is_none();
    status.records.install = status.records.install.or_else(|| {
        // With what its log shows in the same write: a process that ends in between has noted nothing.
        install::log_was_tried(facts).then(|| {
            let mut first = HostInstallHistory::new(subject.uid(), install::wanted_revision(facts));
            // A process that sent one knows of it, although the object lost its status.
            first.last = subject.memory.own.install.clone();
            first
        })
    });
    let install = install::step(facts, view, began, host, &mut status);
    // One that cannot start holds nothing up.
    let open = status
        .records
        .install
        .as_ref()
        .and_then(HostInstallHistory::open);
    let is_busy = is_under_way(host, status.records.install.as_ref())
        || open.is_some()
        || matches!(install.effect, Some(HostEffect::Install(_)));
    let power = power::step(facts, view, is_busy, &mut status);
    // What is sent rests on what stands in status, and not on what only this process knows.
    let stands = {
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
    let effect = sends.into_iter().next().filter(|_| stands && !is_first);
    let effect = effect.or_else(|| reads.into_iter().next().filter(|_| stands));
    let cause = install.explanation.or(power.explanation);
    let cause = cause.unwrap_or_else(|| explain_idle(facts, host));
    let mut decision = HostDecision::from_status(status)
        .because(cause)
        .wanting(ListKind::Hosts, pace);
    if let Some((list, at)) = install.wants {
        decision = decision.wanting_also(list, at);
    }
    if let Some(rest) = [install.rest, power.rest].into_iter().flatten().min() {
        let again = decision.requeue_after.min(rest.max(BRIEFEST));
        decision = decision.requeue_after(again);
    }
    decision = match effect {
        Some(effect) => decision.with(effect),
        None => decision,
    };
    match stands {
        true => decision,
        false => decision.requeue_now(),
    }
}

/// Nothing is to be done.
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

/// Whether something is asked for that would be sent.
fn is_pending(facts: &HostFacts, status: &DedicatedHostStatus) -> bool {
    let install = status.records.install.as_ref();
    let installs =
        install.is_some_and(|install| install::wanted_revision(facts) > install.performed());
    let wish = facts.subject.object.spec.power;
    let switches = status.records.power.as_ref().is_some_and(|known| {
        wish.is_some() && known.wish != wish || PowerRecord::awaited(known).is_some()
    });
    installs || switches
}

/// Why the host under this number is not the one that was seen before. Its record is left as it was.
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
        // Two accounts may count their machines alike: that is not enough to wipe one.
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
        // What the answer leaves out says nothing.
        (None, _) | (_, None) => None,
    }
}

/// Lane and calls of an effect.
pub fn permit_for(effect: &HostEffect) -> Option<(Priority, u32)> {
    match effect {
        // The host and its log are looked at first; the request itself has a call of its own.
        HostEffect::Install(new) => Some((Priority::Change, 2 + new.pages)),
        HostEffect::ReadLog { pages } => Some((Priority::Poll, *pages)),
        HostEffect::Power { .. } => None,
    }
}

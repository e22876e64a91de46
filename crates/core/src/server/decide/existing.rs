//! The object has a server: show it, update its tags, and decide whether it is ready.

use super::{
    super::{
        facts::{ServerFacts, account_of, is_same_uuid},
        protocol_facts,
    },
    ServerDecision, ServerEffect,
    desired_status::{DesiredStatus, status_message},
    expiry,
    placement_candidates::list_candidates,
    power, reinstall, replace, sent_hashes,
    tags::{self, SpecTagPlan, UnsyncedTags},
    terms::is_same,
};
use crate::{
    account::{
        ownership_tags,
        view::{AccountView, SeenServer},
    },
    explanation::{Explanation, OUT_OF_TOUCH, ReadyState},
    requeue::Requeue,
    resolved_account::Purpose,
    wording::{first_named, omitted},
};
use api::{
    Interval, Reason,
    conditions::{DesiredCondition, Type},
    names::RETAINED_TAG,
    power::{PowerRecord, PowerState},
    server::{MOST_DUPLICATES, OrderRecord},
};
use hosting_types::{Server, ServerStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use std::{sync::Arc, time::Duration};

/// The server that an object has.
#[derive(Clone, Debug)]
pub struct ExistingServer {
    /// The provider's record.
    pub server: Arc<Server>,
    /// Other live servers of the object.
    pub others: Vec<String>,
}

/// The recorded server, with the object's other live ones.
pub(crate) fn find_existing(facts: &ServerFacts) -> Option<ExistingServer> {
    let recorded = facts.order()?.created()?;
    let is_it = |s: &&SeenServer| is_same_uuid(s.server.id.as_str(), recorded);
    let all = facts.own.iter().chain(&facts.recorded);
    let server = all.filter(is_it).max_by_key(|s| s.seen)?.server.clone();
    let others = facts
        .own
        .iter()
        .filter(|s| s.server.status.is_live() && !is_it(s));
    let others = others.map(|s| s.server.id.as_str().to_owned());
    Some(ExistingServer {
        server,
        others: others.collect(),
    })
}

/// Decides for a living object with a server.
pub fn reconcile_existing(facts: &ServerFacts, existing_server: &ExistingServer) -> ServerDecision {
    let server = &existing_server.server;
    let account = facts.account.usable(Purpose::End);
    let Some(record) = facts.order() else {
        return ServerDecision::unchanged(facts);
    };
    let mut desired = DesiredStatus::unchanged(facts);
    desired.show_server(facts, server);
    let others = existing_server.others.iter().take(MOST_DUPLICATES);
    desired.status.duplicate_uuids = others.cloned().collect();
    desired.status.duplicates_omitted = omitted(existing_server.others.len(), MOST_DUPLICATES);
    replace::forget_replaced(facts, server, &mut desired);
    desired
        .status
        .account_ref
        .get_or_insert_with(|| account_of(&facts.object));
    let (power_record, power_effect) = power::decide_power(facts, server);
    desired.status.records.power = power_record;
    let install = reinstall::decide_reinstall(facts, server);
    desired.status.records.install.clone_from(&install.record);
    let differences = find_differences(facts, Some(record), server);
    let up_to_date = reinstall::build_condition(facts, &install, &differences.install);
    let tags = tags::plan_tags(facts, record, server);
    desired.status.records.tags.clone_from(&tags.added);
    let mut explanation = explain_server(facts, existing_server);
    if explanation.ready_state != ReadyState::Stalled
        && let Some(install) = install.explanation
    {
        explanation = install;
    }
    let power = power::explain_unsynced(facts, desired.status.records.power.as_ref());
    let unsent = [
        install.unsynced.as_ref().map(|(reason, _)| *reason),
        tags.unsynced.as_ref().map(|said| said.reason),
        power.as_ref().map(|(_, reason, _)| *reason),
    ];
    // Suspension blocks these changes, and so does read-only mode. The old `observedGeneration` shows that the spec is
    // not applied.
    let is_suspended = facts.policies().suspend && unsent.contains(&Some(Reason::PendingChanges));
    let is_read_only = unsent.contains(&Some(Reason::ReadOnly));
    let is_unsent = explanation.is_in_sync() && (is_suspended || is_read_only);
    let synced = match explanation.is_in_sync() {
        true => install
            .unsynced
            .map(|(reason, message)| (false, reason, message))
            .or_else(|| explain_unsynced(facts, differences, tags.unsynced.as_ref()))
            .or(power),
        false => None,
    };
    // The number of an adopted server is the time of its tag, not of an order.
    let is_ordered = !record.nonce.is_empty();
    let ordered = Timestamp::from_second(i64::from(record.seq)).ok();
    desired.status.ordered_at = ordered.filter(|_| is_ordered).map(Time);
    desired.set(facts, explanation, synced);
    if is_unsent {
        desired.status.observed_generation = facts.status().observed_generation;
    }
    desired.conditions.extend(up_to_date);

    let mut decision = ServerDecision::from_status(desired);
    let until_expiry = expiry::reconcile_expiry(facts, &mut decision);
    let Ok(view) = account else {
        return decision;
    };
    if decision.effect.is_some() {
        return decision;
    }
    if !facts.policies().may_send() {
        // Reads go on.
        decision.requeue = install
            .rest
            .map_or(decision.requeue, |rest| decision.requeue.cap_delay(rest));
        let only_polls = |effect: &ServerEffect| matches!(effect, ServerEffect::PollInstall { .. });
        decision.effect = install.effect.filter(only_polls);
        return decision;
    }
    if !server.status.is_live() {
        return replace::wait_for_replacement(facts, view, server, decision);
    }
    let SpecTagPlan {
        effect,
        rest,
        is_to_record,
        ..
    } = tags;
    let read = || plan_deadline_read(facts, server);
    decision.wants_installation = install.wants_installation;
    if let Some(effect) = next_operator_tag_change(facts, server)
        .or(power_effect)
        .or(effect)
        .or(install.effect)
        .or_else(read)
    {
        return decision.with_effect(effect);
    }
    let mut decision = report_if_unreachable(facts, decision.desired);
    decision.wants_installation = install.wants_installation;
    let rests = [
        until_expiry,
        time_until_late(facts, server),
        rest,
        install.rest,
    ];
    for rest in rests.into_iter().flatten().filter(|rest| !rest.is_zero()) {
        decision.requeue = decision.requeue.cap_delay(rest);
    }
    let power = decision.desired.status.records.power.as_ref();
    let awaited = power.and_then(PowerRecord::awaited).map(|c| c.state);
    if awaited.is_some() {
        decision.requeue = decision.requeue.cap_delay(view.times.active_poll_interval);
    }
    // Once the status is written, the next reconcile acts on what it records: a command, a tag or a re-installation.
    let is_new = decision.desired.status.records.install != facts.status().records.install;
    if is_to_record || awaited == Some(PowerState::Recorded) || is_new {
        decision.requeue_once_written = Requeue::Now;
    }
    // The next reconcile reads the installation data.
    if install.wants_installation && facts.installation.is_none() {
        decision.requeue = Requeue::Now;
    }
    decision
}

/// The next change of the operator's own tags: add the cluster tag, or remove the tag of retained servers.
fn next_operator_tag_change(facts: &ServerFacts, server: &Server) -> Option<ServerEffect> {
    let uuid = server.id.as_str().to_owned();
    let tag = facts.cluster.tag();
    if !server.has_tag(&tag) {
        return Some(ServerEffect::AddTag { uuid, tag });
    }
    let tag = RETAINED_TAG.to_owned();
    ownership_tags::is_retained(server).then_some(ServerEffect::RemoveTag { uuid, tag })
}

/// Polls list servers by the cluster tag, so a server that lost it is read by UUID.
pub(super) fn read_unlisted_server(facts: &ServerFacts, decision: &mut ServerDecision) {
    let Ok(view) = facts.account.usable(Purpose::End) else {
        return;
    };
    let cluster = facts.cluster.tag();
    let is_unlisted =
        |server: &Server| server.status != ServerStatus::Released && !server.has_tag(&cluster);
    let Some(alone) = facts.recorded.as_ref().filter(|s| is_unlisted(&s.server)) else {
        return;
    };
    let due = alone.seen + view.times.idle_poll_interval;
    let uuid = alone.server.id.as_str().to_owned();
    decision.schedule_effect(
        facts,
        due.saturating_sub(facts.now.mono),
        ServerEffect::Read { uuid },
    );
}

/// Leaves this status as it is, but reports in Synced when the account has been unreachable for a while: the shown
/// server may be stale.
pub(super) fn report_if_unreachable(
    facts: &ServerFacts,
    mut desired: DesiredStatus,
) -> ServerDecision {
    if facts.view().is_none() || facts.account.is_out_of_touch() {
        report_out_of_touch(facts, &mut desired);
    }
    ServerDecision::from_status(desired)
}

/// Reports in Synced that the account is not ready, after a grace period. Ready stays.
pub(super) fn report_out_of_touch(facts: &ServerFacts, desired: &mut DesiredStatus) {
    let reason = Reason::AccountNotReady;
    desired.waiting_reason = Some(reason);
    let rest = facts
        .memory
        .reference_grace
        .grace_left(reason, facts.now.mono);
    let said = facts.status().conditions;
    let is_reported =
        |c: &Condition| c.type_ == Type::Synced.as_str() && c.reason == reason.as_str();
    if rest.is_zero() || said.iter().any(is_reported) {
        desired.set_unsynced(reason, OUT_OF_TOUCH);
    } else {
        desired.grace_left = Some(rest);
    }
}

/// Reported for a server that reads do not find, until it is certain that it is gone.
const NOT_THERE: (Reason, &str) = (
    Reason::ServerNotFound,
    "The provider does not list this server; status shows its last known state. Look for it at the provider",
);

/// Reports in Synced that reads do not find the server, once two of them, some time apart, did not.
pub(super) fn report_missing_server(facts: &ServerFacts, decision: &mut ServerDecision) {
    let Some((first, last)) = facts.memory.protocol.missing() else {
        return;
    };
    let Ok(view) = facts.account.usable(Purpose::End) else {
        return;
    };
    let mut shown = protocol_facts::list_seen_servers(facts);
    let is_reported =
        |c: &DesiredCondition| c.status == Some(false) && c.reason == Reason::ServerNotFound;
    let is_reported = decision
        .desired
        .condition(Type::Ready)
        .is_some_and(is_reported);
    if facts.deleting()
        || is_reported
        || facts.status().uuid.is_none()
        || shown.any(|s| s.seen > last)
    {
        return;
    }
    if last >= first + protocol_facts::times(view).flight_time {
        return report_unseen(view, decision, NOT_THERE);
    }
    report_unseen_since(facts, view, first, decision, NOT_THERE);
}

/// Reports in Synced, after two idle poll intervals, that the server was not seen since `since`. Ready stays.
pub(super) fn report_unseen_since(
    facts: &ServerFacts,
    view: &AccountView,
    since: Duration,
    decision: &mut ServerDecision,
    synced: (Reason, &str),
) {
    let idle = view.times.idle_poll_interval;
    let rest = (since + idle * 2).saturating_sub(facts.now.mono);
    if !rest.is_zero() {
        decision.requeue_within(rest);
        return;
    }
    report_unseen(view, decision, synced);
}

fn report_unseen(view: &AccountView, decision: &mut ServerDecision, (reason, why): (Reason, &str)) {
    let idle = Interval(view.times.idle_poll_interval);
    let text = format!("{why}; checked every {idle}");
    decision.desired.set_unsynced(reason, text);
}

/// Explains the state of the object.
pub(super) fn explain_server(facts: &ServerFacts, existing_server: &ExistingServer) -> Explanation {
    let server = &existing_server.server;
    if !existing_server.others.is_empty() {
        return Explanation::stalled(
            Reason::DuplicateServers,
            format!(
                "Several servers have this object's order tag and are billed; it uses {}. Release the others at the provider: {} (see status.duplicateUUIDs)",
                server.id,
                first_named(existing_server.others.iter().map(String::as_str))
            ),
        );
    }
    let said = quote_status_message(facts, server);
    match &server.status {
        ServerStatus::Delivered if server.addresses.is_empty() => Explanation::waits(
            Reason::Provisioning,
            format!(
                "Server {} is delivered without an address; {}",
                server.id,
                describe_next_check(facts)
            ),
        ),
        ServerStatus::Delivered => Explanation::ready(Reason::Delivered, ""),
        ServerStatus::Failed | ServerStatus::Releasing | ServerStatus::Released => {
            replace::explain_ended_server(facts, server)
        }
        other if is_late(facts, server) == Some(true) => {
            let message = format!(
                "Server {} is still {:?} after {}{said}; it is billed. Ask the provider, raise spec.provisioning.timeout, or delete this object",
                server.id,
                other.as_str(),
                provisioning_timeout(facts),
            );
            Explanation::stalled(Reason::ProvisioningTimeout, message)
        }
        other => {
            let message = format!(
                "Server {} is {:?}{said}; {}",
                server.id,
                other.as_str(),
                describe_next_check(facts)
            );
            Explanation::waits(Reason::Provisioning, message)
        }
    }
}

/// How long the delivery may take.
fn provisioning_timeout(facts: &ServerFacts) -> Interval {
    facts.object.spec.provisioning.unwrap_or_default().timeout()
}

/// How long until a server is late; zero: it is late. None: its delivery is not awaited.
fn time_until_late(facts: &ServerFacts, server: &Server) -> Option<Duration> {
    Some(
        provisioning_timeout(facts)
            .0
            .saturating_sub(time_awaited(facts, server)?),
    )
}

/// Whether a server is late: true if a read after the deadline still shows it, false if no read was made since.
/// None: it is not late yet, or its delivery is not awaited.
fn is_late(facts: &ServerFacts, server: &Server) -> Option<bool> {
    let over = time_awaited(facts, server)?.checked_sub(provisioning_timeout(facts).0)?;
    let since = facts.now.mono.saturating_sub(over);
    let mut shown = facts.own.iter().chain(&facts.recorded);
    let seen = shown.find(|s| s.server.id == server.id);
    Some(seen.is_none_or(|s| s.seen >= since))
}

/// The read after the deadline, which shows whether the server is late.
fn plan_deadline_read(facts: &ServerFacts, server: &Server) -> Option<ServerEffect> {
    let is_unseen = is_late(facts, server) == Some(false);
    is_unseen.then(|| ServerEffect::Read {
        uuid: server.id.as_str().to_owned(),
    })
}

/// How long the object has waited for the delivery. None: it does not wait.
fn time_awaited(facts: &ServerFacts, server: &Server) -> Option<Duration> {
    if !server.status.is_live() || server.status == ServerStatus::Delivered {
        return None;
    }
    // An adopted server is older than the object, and the provider's clock may be behind.
    let object = facts.object.metadata.creation_timestamp.as_ref();
    let object = object.map_or(i64::MIN, |time| time.0.as_second());
    let since = server.created_at?.max(object);
    let waited = facts.steady_wall().saturating_sub(since);
    Some(Duration::from_secs(u64::try_from(waited).unwrap_or(0)))
}

/// When a server that is not ready is checked again, in words.
fn describe_next_check(facts: &ServerFacts) -> String {
    match facts.view() {
        Some(view) => format!(
            "checked every {}",
            Interval(view.times.active_poll_interval)
        ),
        None => "checked once the account is available".to_owned(),
    }
}

/// The provider's message, as a part of a sentence.
pub fn quote_status_message(facts: &ServerFacts, server: &Server) -> String {
    let message = status_message(facts, server);
    message.map_or_else(String::new, |message| format!(": {message}"))
}

/// What Synced reports of a server without other problems. None: it is in sync.
fn explain_unsynced(
    facts: &ServerFacts,
    differences: Differences,
    tags: Option<&UnsyncedTags>,
) -> Option<(bool, Reason, String)> {
    let tags = tags.filter(|_| !facts.policies().observe_only());
    let Some((is_in_sync, reason, mut message)) = differences.pending() else {
        return tags.map(|said| (false, said.reason, said.message.clone()));
    };
    // A tag change in progress is not worth another event.
    if let Some(lasting) = tags.and_then(|said| said.lasting.as_deref()) {
        message = format!("{message}. {lasting}");
    }
    Some((is_in_sync, reason, message))
}

/// What Synced reports if the server differs from the spec. `record` is none if it was not ordered here.
pub(super) fn pending(
    facts: &ServerFacts,
    record: Option<&OrderRecord>,
    server: &Server,
) -> Option<(bool, Reason, String)> {
    find_differences(facts, record, server).pending()
}

/// Differences between the spec and the shown server, in words, without those that the operator is applying.
#[derive(Default)]
struct Differences {
    /// A re-installation changes these.
    install: Vec<String>,
    /// Nothing changes these.
    lasting: Vec<String>,
}

impl Differences {
    /// What Synced reports of them.
    fn pending(self) -> Option<(bool, Reason, String)> {
        let next = match (self.install.is_empty(), self.lasting.is_empty()) {
            (true, true) => return None,
            (false, true) => {
                "Set the spec back to match the server, or raise spec.install.revision, which erases all data (see the condition InstallUpToDate)"
            }
            // A re-installation changes no placement, contract or UUID.
            _ => "Set the spec back to match the server, or create another object",
        };
        let all = [self.lasting, self.install].concat().join("; ");
        Some((
            false,
            Reason::PendingChanges,
            format!("Not applied; {all}. {next}"),
        ))
    }
}

/// One difference, in words.
fn describe_difference(field: &str, wanted: &str, shown: &str) -> String {
    let quoted = |text: &str| match text {
        "" => "not set".to_owned(),
        text => shorten_value(text).to_owned(),
    };
    format!(
        "{field} is {}, the server has {}",
        quoted(wanted),
        quoted(shown)
    )
}

fn find_differences(
    facts: &ServerFacts,
    record: Option<&OrderRecord>,
    server: &Server,
) -> Differences {
    let spec = &facts.object.spec;
    let mut found = Differences::default();
    // These can differ if the spec changed and the server of the previous request appeared later, or if the object lost
    // its status.
    let is_one_of_them =
        list_candidates(spec).any(|c| c.matches(&server.location, &server.instance_type));
    let differ =
        |one: &str, shown: &str| !is_one_of_them && !shown.is_empty() && !is_same(one, shown);
    for (field, asked, shown) in [
        ("spec.location", &spec.location, &server.location),
        (
            "spec.instanceType",
            &spec.instance_type,
            &server.instance_type,
        ),
    ] {
        if let Some(asked) = asked.as_ref().filter(|asked| differ(asked, shown)) {
            found.lasting.push(describe_difference(field, asked, shown));
        }
    }
    // A server from the on-demand pool shows no contract.
    let contract = spec.contract_id.as_deref().filter(|c| !c.is_empty());
    if let Some(shown) = server.contract_id.as_deref()
        && Some(shown) != contract
    {
        found.lasting.push(describe_difference(
            "spec.contractID",
            contract.unwrap_or_default(),
            shown,
        ));
    }
    if !is_same(facts.hostname(), &server.name) {
        let (wanted, shown) = (facts.hostname(), &server.name);
        found.install.push(match spec.hostname {
            Some(_) => describe_difference("spec.hostname", wanted, shown),
            // An adopted server has the name of another object.
            None if !shown.is_empty() => format!(
                "set spec.hostname to {}, which the server has (default: {})",
                shorten_value(shown),
                shorten_value(wanted)
            ),
            None => describe_difference("the host name (spec.hostname is not set)", wanted, shown),
        });
    }
    let slug = spec.os.as_ref().map(|os| &os.slug);
    if let Some(slug) = slug.filter(|slug| !is_same(slug, &server.os_slug))
        && !server.os_slug.is_empty()
    {
        found
            .install
            .push(describe_difference("spec.os.slug", slug, &server.os_slug));
    }
    if let Some(named) = spec.external_id.as_deref()
        && !is_same_uuid(named, server.id.as_str())
    {
        found.lasting.push(describe_difference(
            "spec.externalID",
            named,
            server.id.as_str(),
        ));
    }
    if let Some(wanted) = facts.memory.installation.hashes.as_ref() {
        let installed = reinstall::installed_hashes(facts, server.id.as_str());
        let sent = installed.or_else(|| record.map(|record| record.sent.clone()));
        found.install.extend(sent_hashes::describe_differences(
            &sent.unwrap_or_default(),
            wanted,
        ));
    }
    found
}

/// The start of a value: neither spec nor provider may make a message too long.
fn shorten_value(text: &str) -> &str {
    /// Most bytes of one value.
    const MOST: usize = 80;
    &text[..text.floor_char_boundary(MOST)]
}

//! The object has a machine: show it, keep its tags, say whether it is ready.

use super::{
    super::{
        facts::{Facts, account_of, is_same_uuid},
        ownership,
    },
    Decision, Effect,
    candidates::candidates,
    draft::{Draft, status_message},
    expiry, power, reinstall, replace, sent,
    tags::{self, Said, Tags},
    terms::is_same,
};
use crate::{
    account::{
        marks,
        view::{Sighting, View},
    },
    account_facts::Purpose,
    again::Again,
    cause::{Cause, OUT_OF_TOUCH, Standing},
    wording::{first_named, omitted},
};
use api::{
    Interval, Reason,
    conditions::{Type, Wanted},
    names::RETAINED_TAG,
    power::{PowerRecord, PowerState},
    server::{MOST_DUPLICATES, OrderRecord},
};
use hosting_types::{Server, ServerStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use std::{sync::Arc, time::Duration};

/// The machine that an object keeps.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its record.
    pub server: Arc<Server>,
    /// Other live machines of the object.
    pub others: Vec<String>,
}

/// The recorded server, with what else is live and the object's.
pub(crate) fn kept(facts: &Facts) -> Option<Machine> {
    let recorded = facts.order()?.created()?;
    let is_it = |s: &&Sighting| is_same_uuid(s.server.id.as_str(), recorded);
    let all = facts.own.iter().chain(&facts.recorded);
    let server = all.filter(is_it).max_by_key(|s| s.seen)?.server.clone();
    let others = facts
        .own
        .iter()
        .filter(|s| s.server.status.is_live() && !is_it(s));
    let others = others.map(|s| s.server.id.as_str().to_owned());
    Some(Machine {
        server,
        others: others.collect(),
    })
}

/// Decides for a living object with a machine.
pub fn tend(facts: &Facts, machine: &Machine) -> Decision {
    let server = &machine.server;
    let account = facts.account.usable(Purpose::End);
    let Some(record) = facts.order() else {
        return Decision::unchanged(facts);
    };
    let mut draft = Draft::unchanged(facts);
    draft.show(facts, server);
    let others = machine.others.iter().take(MOST_DUPLICATES);
    draft.status.duplicate_uuids = others.cloned().collect();
    draft.status.duplicates_omitted = omitted(machine.others.len(), MOST_DUPLICATES);
    replace::forget(facts, server, &mut draft);
    draft
        .status
        .account_ref
        .get_or_insert_with(|| account_of(&facts.object));
    let (power_record, power_effect) = power::wished(facts, server);
    draft.status.records.power = power_record;
    let install = reinstall::reinstall(facts, server);
    draft.status.records.install.clone_from(&install.record);
    let differences = differences(facts, Some(record), server);
    let up_to_date = reinstall::condition(facts, &install, &differences.install);
    let tags = tags::tags(facts, record, server);
    draft.status.records.tags.clone_from(&tags.put_on);
    let mut cause = cause(facts, machine);
    if cause.standing != Standing::Stalled
        && let Some(install) = install.cause
    {
        cause = install;
    }
    let power = power::unsynced(facts, draft.status.records.power.as_ref());
    let unsent = [
        install.unsynced.as_ref().map(|(reason, _)| *reason),
        tags.said.as_ref().map(|said| said.reason),
        power.as_ref().map(|(_, reason, _)| *reason),
    ];
    // What the suspension keeps from being sent. Of the object without it, tools read on while that goes on.
    let is_unsent = facts.policies().suspend
        && cause.is_in_sync()
        && unsent.contains(&Some(Reason::PendingChanges));
    let synced = match cause.is_in_sync() {
        true => install
            .unsynced
            .map(|(reason, message)| (false, reason, message))
            .or_else(|| unsynced(facts, differences, tags.said.as_ref()))
            .or(power),
        false => None,
    };
    // That of a server that was taken is the moment of its tag.
    let is_ordered = !record.nonce.is_empty();
    let ordered = Timestamp::from_second(i64::from(record.seq)).ok();
    draft.status.ordered_at = ordered.filter(|_| is_ordered).map(Time);
    draft.set(facts, cause, synced);
    if is_unsent {
        draft.status.observed_generation = facts.status().observed_generation;
    }
    draft.conditions.extend(up_to_date);

    let mut decision = Decision::of(draft);
    let until_expiry = expiry::tend(facts, &mut decision);
    let Ok(view) = account else {
        return decision;
    };
    if decision.effect.is_some() {
        return decision;
    }
    if !facts.policies().let_send() {
        // Reading goes on.
        decision.again = install
            .rest
            .map_or(decision.again, |rest| decision.again.within(rest));
        let only_looks = |effect: &Effect| matches!(effect, Effect::LookAtInstall { .. });
        decision.effect = install.effect.filter(only_looks);
        return decision;
    }
    if !server.status.is_live() {
        return replace::wait(facts, view, server, decision);
    }
    let Tags {
        effect,
        rest,
        is_to_record,
        ..
    } = tags;
    let read = || look_of_the_deadline(facts, server);
    decision.wants_installation = install.wants_installation;
    if let Some(effect) = own_tags(facts, server)
        .or(power_effect)
        .or(effect)
        .or(install.effect)
        .or_else(read)
    {
        return decision.with(effect);
    }
    let mut decision = out_of_touch(facts, decision.draft);
    decision.wants_installation = install.wants_installation;
    let rests = [until_expiry, until_late(facts, server), rest, install.rest];
    for rest in rests.into_iter().flatten().filter(|rest| !rest.is_zero()) {
        decision.again = decision.again.within(rest);
    }
    let power = decision.draft.status.records.power.as_ref();
    let awaited = power.and_then(PowerRecord::awaited).map(|c| c.state);
    if awaited.is_some() {
        decision.again = decision.again.within(view.times.active_poll_interval);
    }
    // What is noted is created, and what came of a re-installation acted on, as soon as that is on record.
    let is_new = decision.draft.status.records.install != facts.status().records.install;
    if is_to_record || awaited == Some(PowerState::Recorded) || is_new {
        decision.once_written = Again::AtOnce;
    }
    // Read with the next pass, which needs it.
    if install.wants_installation && facts.installation.is_none() {
        decision.again = Again::AtOnce;
    }
    decision
}

/// The next change of the operator's own tags on the server that is due: it has the tag of the cluster, and is not kept.
fn own_tags(facts: &Facts, server: &Server) -> Option<Effect> {
    let uuid = server.id.as_str().to_owned();
    let tag = facts.cluster.tag();
    if !server.has_tag(&tag) {
        return Some(Effect::AddTag { uuid, tag });
    }
    let tag = RETAINED_TAG.to_owned();
    marks::is_retained(server).then_some(Effect::RemoveTag { uuid, tag })
}

/// Polls list by the cluster's tag: a server that has lost it is read alone.
pub(super) fn read_alone(facts: &Facts, decision: &mut Decision) {
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
    decision.due_after(
        facts,
        due.saturating_sub(facts.now.mono),
        Effect::Read { uuid },
    );
}

/// Nothing to do but to say so when the account has not been reached for a while: what is shown of the
/// machine may not be true any more.
pub(super) fn out_of_touch(facts: &Facts, mut draft: Draft) -> Decision {
    if facts.view().is_none() || facts.account.is_out_of_touch() {
        lose_touch(facts, &mut draft);
    }
    Decision::of(draft)
}

/// The account does not answer as it should: Synced says so after a while, and Ready stays.
pub(super) fn lose_touch(facts: &Facts, draft: &mut Draft) {
    let reason = Reason::AccountNotReady;
    draft.patience_for = Some(reason);
    let rest = facts.memory.patience.rest(reason, facts.now.mono);
    let said = facts.status().conditions;
    let is_told = |c: &Condition| c.type_ == Type::Synced.as_str() && c.reason == reason.as_str();
    if rest.is_zero() || said.iter().any(is_told) {
        draft.unsync(reason, OUT_OF_TOUCH);
    } else {
        draft.patience = Some(rest);
    }
}

/// What is said of a machine that reads do not find, while it is not certain that it is gone.
const NOT_THERE: (Reason, &str) = (
    Reason::ServerNotFound,
    "The provider does not list this server; status shows its last known state. Look for it at the provider",
);

/// Reads say that there is no such machine, and nothing has shown it since. After two of them, some time apart, Synced says so.
pub(super) fn tell_missed(facts: &Facts, decision: &mut Decision) {
    let Some((first, last)) = facts.memory.protocol.missing() else {
        return;
    };
    let Ok(view) = facts.account.usable(Purpose::End) else {
        return;
    };
    let mut shown = ownership::sightings(facts);
    let is_told = |c: &Wanted| c.status == Some(false) && c.reason == Reason::ServerNotFound;
    let is_told = decision.draft.condition(Type::Ready).is_some_and(is_told);
    if facts.deleting() || is_told || facts.status().uuid.is_none() || shown.any(|s| s.seen > last)
    {
        return;
    }
    if last >= first + ownership::times(view).spacing {
        return unseen(view, decision, NOT_THERE);
    }
    not_seen(facts, view, first, decision, NOT_THERE);
}

/// The machine was not seen since then. Synced says so after two idle intervals, and Ready stays.
pub(super) fn not_seen(
    facts: &Facts,
    view: &View,
    since: Duration,
    decision: &mut Decision,
    told: (Reason, &str),
) {
    let idle = view.times.idle_poll_interval;
    let rest = (since + idle * 2).saturating_sub(facts.now.mono);
    if !rest.is_zero() {
        decision.look_within(rest);
        return;
    }
    unseen(view, decision, told);
}

fn unseen(view: &View, decision: &mut Decision, (reason, why): (Reason, &str)) {
    let idle = Interval(view.times.idle_poll_interval);
    let text = format!("{why}; checked every {idle}");
    decision.draft.unsync(reason, text);
}

/// How the object stands, and why.
pub(super) fn cause(facts: &Facts, machine: &Machine) -> Cause {
    let server = &machine.server;
    if !machine.others.is_empty() {
        return Cause::needs_person(
            Reason::DuplicateServers,
            format!(
                "Several servers have this object's order tag and are billed; it uses {}. Release the others at the provider: {} (see status.duplicateUUIDs)",
                server.id,
                first_named(machine.others.iter().map(String::as_str))
            ),
        );
    }
    let said = said(facts, server);
    match &server.status {
        ServerStatus::Delivered if server.addresses.is_empty() => Cause::waits(
            Reason::Provisioning,
            format!(
                "Server {} is delivered without an address; {}",
                server.id,
                looked_again(facts)
            ),
        ),
        ServerStatus::Delivered => Cause::ready(Reason::Delivered, ""),
        ServerStatus::Failed | ServerStatus::Releasing | ServerStatus::Released => {
            replace::cause(facts, server)
        }
        other if is_late(facts, server) == Some(true) => {
            let message = format!(
                "Server {} is still {:?} after {}{said}; it is billed. Ask the provider, raise spec.provisioning.timeout, or delete this object",
                server.id,
                other.as_str(),
                timeout(facts),
            );
            Cause::needs_person(Reason::ProvisioningTimeout, message)
        }
        other => {
            let message = format!(
                "Server {} is {:?}{said}; {}",
                server.id,
                other.as_str(),
                looked_again(facts)
            );
            Cause::waits(Reason::Provisioning, message)
        }
    }
}

/// How long the delivery may take.
fn timeout(facts: &Facts) -> Interval {
    facts.object.spec.provisioning.unwrap_or_default().timeout()
}

/// How long a machine that is not delivered yet may still take; zero: no longer. None: nobody waits for it.
fn until_late(facts: &Facts, server: &Server) -> Option<Duration> {
    Some(timeout(facts).0.saturating_sub(awaited(facts, server)?))
}

/// Whether a machine takes too long. Polls are rare at times, so only a look since then tells; false: none is known yet.
/// None: it may still take a while, or nobody waits for it.
fn is_late(facts: &Facts, server: &Server) -> Option<bool> {
    let over = awaited(facts, server)?.checked_sub(timeout(facts).0)?;
    let since = facts.now.mono.saturating_sub(over);
    let mut shown = facts.own.iter().chain(&facts.recorded);
    let seen = shown.find(|s| s.server.id == server.id);
    Some(seen.is_none_or(|s| s.seen >= since))
}

/// The look by which it is told that a machine takes too long.
fn look_of_the_deadline(facts: &Facts, server: &Server) -> Option<Effect> {
    let is_unseen = is_late(facts, server) == Some(false);
    is_unseen.then(|| Effect::Read {
        uuid: server.id.as_str().to_owned(),
    })
}

/// How long a machine that is not delivered yet has been awaited.
fn awaited(facts: &Facts, server: &Server) -> Option<Duration> {
    if !server.status.is_live() || server.status == ServerStatus::Delivered {
        return None;
    }
    // A machine that is taken on was there before, and the provider's clock may be behind.
    let object = facts.object.metadata.creation_timestamp.as_ref();
    let object = object.map_or(i64::MIN, |time| time.0.as_second());
    let since = server.created_at?.max(object);
    let waited = facts.steady_wall().saturating_sub(since);
    Some(Duration::from_secs(u64::try_from(waited).unwrap_or(0)))
}

/// When a machine that is not ready yet is looked at again, in words.
fn looked_again(facts: &Facts) -> String {
    match facts.view() {
        Some(view) => format!(
            "checked every {}",
            Interval(view.times.active_poll_interval)
        ),
        None => "checked once the account is available".to_owned(),
    }
}

/// The provider's own words, as a part of a sentence.
pub fn said(facts: &Facts, server: &Server) -> String {
    let message = status_message(facts, server);
    message.map_or_else(String::new, |message| format!(": {message}"))
}

/// What Synced says of a machine with which all goes well, when it is not simply in sync.
fn unsynced(
    facts: &Facts,
    differences: Differences,
    tags: Option<&Said>,
) -> Option<(bool, Reason, String)> {
    let tags = tags.filter(|_| !facts.policies().observe_only());
    let Some((is_in_sync, reason, mut message)) = differences.pending() else {
        return tags.map(|said| (false, said.reason, said.message.clone()));
    };
    // What goes on by itself is not worth another event.
    if let Some(lasting) = tags.and_then(|said| said.lasting.as_deref()) {
        message = format!("{message}. {lasting}");
    }
    Some((is_in_sync, reason, message))
}

/// What Synced says of a machine that is not as the spec says, if it is not. None for `record`: it was not ordered here.
pub(super) fn pending(
    facts: &Facts,
    record: Option<&OrderRecord>,
    server: &Server,
) -> Option<(bool, Reason, String)> {
    differences(facts, record, server).pending()
}

/// What the spec says and the machine does not show, in words, but for what is brought about.
#[derive(Default)]
struct Differences {
    /// What a re-installation changes.
    install: Vec<String>,
    /// What nothing changes.
    lasting: Vec<String>,
}

impl Differences {
    /// What Synced says of them.
    fn pending(self) -> Option<(bool, Reason, String)> {
        let next = match (self.install.is_empty(), self.lasting.is_empty()) {
            (true, true) => return None,
            (false, true) => {
                "Set the spec back to match the server, or raise spec.install.revision, which erases all data (see the condition InstallUpToDate)"
            }
            _ => {
                "A server's placement, contract and UUID cannot change: set the spec back to match it, or create another object"
            }
        };
        let all = [self.lasting, self.install].concat().join("; ");
        Some((
            false,
            Reason::PendingChanges,
            format!("Not applied; {all}. {next}"),
        ))
    }
}

/// One difference. The provider may change case and blanks.
fn differs(field: &str, wanted: &str, shown: &str) -> String {
    let quoted = |text: &str| match text {
        "" => "not set".to_owned(),
        text => cut(text).to_owned(),
    };
    format!(
        "{field} is {}, the server has {}",
        quoted(wanted),
        quoted(shown)
    )
}

fn differences(facts: &Facts, record: Option<&OrderRecord>, server: &Server) -> Differences {
    let spec = &facts.object.spec;
    let mut found = Differences::default();
    // These can differ where the request was changed and a machine of the former one appeared after all, or
    // where the object lost its status.
    let is_one_of_them = candidates(spec).any(|c| c.is(&server.location, &server.instance_type));
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
            found.lasting.push(differs(field, asked, shown));
        }
    }
    // What came from the on-demand pool shows no contract.
    let contract = spec.contract_id.as_deref().filter(|c| !c.is_empty());
    if let Some(shown) = server.contract_id.as_deref()
        && Some(shown) != contract
    {
        found.lasting.push(differs(
            "spec.contractID",
            contract.unwrap_or_default(),
            shown,
        ));
    }
    if !is_same(facts.hostname(), &server.name) {
        let (wanted, shown) = (facts.hostname(), &server.name);
        found.install.push(match spec.hostname {
            Some(_) => differs("spec.hostname", wanted, shown),
            // An adopted server has the name of another object.
            None if !shown.is_empty() => format!(
                "set spec.hostname to {}, which the server has (default: {})",
                cut(shown),
                cut(wanted)
            ),
            None => differs("the host name (spec.hostname is not set)", wanted, shown),
        });
    }
    let slug = spec.os.as_ref().map(|os| &os.slug);
    if let Some(slug) = slug.filter(|slug| !is_same(slug, &server.os_slug))
        && !server.os_slug.is_empty()
    {
        found
            .install
            .push(differs("spec.os.slug", slug, &server.os_slug));
    }
    if let Some(named) = spec.external_id.as_deref()
        && !is_same_uuid(named, server.id.as_str())
    {
        found
            .lasting
            .push(differs("spec.externalID", named, server.id.as_str()));
    }
    if let Some(wanted) = facts.memory.installation.hashes.as_ref() {
        let installed = reinstall::installed(facts, server.id.as_str());
        let sent = installed.or_else(|| record.map(|record| record.sent.clone()));
        found
            .install
            .extend(sent::differences(&sent.unwrap_or_default(), wanted));
    }
    found
}

/// The start of a value: neither a spec nor a provider makes a message as long as it likes.
fn cut(text: &str) -> &str {
    /// Most bytes of one value.
    const MOST: usize = 80;
    &text[..text.floor_char_boundary(MOST)]
}

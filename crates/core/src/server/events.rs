//! Events (and log lines) for the steps of a server's life. Most compare the written status with the previous one, so
//! each step is reported once, after it is recorded.

use super::{
    decide::{expiry, sent_hashes::lacks_key},
    facts::{ServerFacts, is_same_uuid},
};
use crate::report::{EventRecord, ServerEvent, Severity, install_events};
use api::{
    Reason,
    conditions::{self, Type, find_condition},
    install::{InstallEnd, InstallRecord},
    root_password::{PasswordWarning, RootPasswordRecord},
    server::{BareMetalServerStatus, OrderOutcome, OrderRecord},
};
use hosting_types::ServerStatus;

/// Events for what is new in the `next` status.
pub fn collect_events(facts: &ServerFacts, next: &BareMetalServerStatus) -> Vec<EventRecord> {
    let before = facts.status();
    let first = [
        report_order(facts, &before, next),
        report_missing_key(facts, &before, next),
        report_delivery(&before, next),
        report_pending_changes(&before, next),
    ];
    let last = [
        report_replacement(&before, next),
        report_expiry(facts, &before, next),
        report_password(&before, next),
        report_delay(&before, next),
    ];
    let mut news: Vec<EventRecord> = first.into_iter().flatten().collect();
    news.extend(report_reinstall(&before, next));
    news.extend(last.into_iter().flatten());
    let is_stalled =
        |status: &BareMetalServerStatus| conditions::is_true(&status.conditions, Type::Stalled);
    // A refusal has an event of its own.
    let has_own_event = |reason: Reason| {
        reason == Reason::OrderRefused
            && news
                .iter()
                .any(|n| n.reason.as_str() == ServerEvent::Refused.as_str())
    };
    if is_stalled(next)
        && !is_stalled(&before)
        && let Some(ready) = find_condition(&next.conditions, Type::Ready)
        && let Some(reason) = Reason::parse(&ready.reason)
        && !has_own_event(reason)
    {
        news.push(report_stalled(reason, &ready.message));
    } else if let Some(reason) = find_deletion_block(next)
        && find_deletion_block(&before) != Some(reason)
        && let Some(ready) = find_condition(&next.conditions, Type::Ready)
    {
        news.push(report_stalled(reason, &ready.message));
    }
    if let Some(suspended) = conditions::found_true(&next.conditions, Type::Suspended)
        && !conditions::is_true(&before.conditions, Type::Suspended)
        && find_deletion_block(next) != Some(Reason::Suspended)
    {
        news.push(EventRecord {
            severity: Severity::Normal,
            reason: Reason::Suspended.into(),
            action: "Suspend",
            note: suspended.message.clone(),
        });
    }
    news
}

/// Event for an object that needs a user or was stopped by one.
fn report_stalled(reason: Reason, message: &str) -> EventRecord {
    EventRecord {
        severity: Severity::Warning,
        reason: reason.into(),
        action: "Wait",
        note: message.to_owned(),
    }
}

/// The reason of a deletion that a user blocks.
fn find_deletion_block(status: &BareMetalServerStatus) -> Option<Reason> {
    let blocked = conditions::found_true(&status.conditions, Type::DeletionBlocked)?;
    let reason = Reason::parse(&blocked.reason)?;
    let by_user = [
        Reason::ObserveOnly,
        Reason::Protected,
        Reason::ReleaseLimited,
        Reason::Suspended,
    ];
    by_user.contains(&reason).then_some(reason)
}

/// UUID of the server whose release is recorded but not yet reported, neither by this process nor, by its status, a
/// previous one.
pub fn find_unreported_release(facts: &ServerFacts) -> Option<&str> {
    let begun = facts.release_begun().filter(|_| facts.deleting());
    let uuid = begun?.server.as_str();
    let is_it = |other: &str| is_same_uuid(other, uuid);
    let is_own = facts.own.iter().any(|s| is_it(s.server.id.as_str()));
    let is_reported = facts.memory.release_reported.as_deref().is_some_and(is_it);
    let status = facts.object.status.as_ref();
    let shown = status.filter(|status| status.uuid.as_deref().is_some_and(is_it));
    let shown = shown.and_then(|status| status.provider_status.as_deref());
    let followed = [ServerStatus::Releasing, ServerStatus::Released];
    let is_shown = followed.iter().any(|s| shown == Some(s.as_str()));
    (is_own && !is_reported && !is_shown).then_some(uuid)
}

/// Reports when the provider accepts a re-installation, refuses it, and when it ends.
fn report_reinstall(
    before: &BareMetalServerStatus,
    next: &BareMetalServerStatus,
) -> Vec<EventRecord> {
    let last_install = |status: &BareMetalServerStatus| status.records.install.clone()?.last;
    let Some(now) = last_install(next) else {
        return Vec::new();
    };
    let intent = &now.intent;
    let was = last_install(before).filter(|was| was.intent.attempt == intent.attempt);
    let what = format!("server {} (revision {})", intent.server, intent.revision);
    let progress = |record: &InstallRecord| (record.is_taken(), record.end);
    let was = was.as_ref().map_or((false, None), progress);
    let mut news = install_events(&what, was, progress(&now));
    let why = now.message.as_deref().unwrap_or("no reason given");
    let not = match now.end.filter(|_| was.1.is_none()) {
        Some(InstallEnd::Refused) => format!("The provider refused to re-install {what}: {why}"),
        Some(InstallEnd::NotRepeated) => format!("Did not re-install {what}: {why}"),
        _ => return news,
    };
    news.push(ServerEvent::NotReinstalled.news(not));
    news
}

/// Reports each replaced server once.
fn report_replacement(
    before: &BareMetalServerStatus,
    next: &BareMetalServerStatus,
) -> Option<EventRecord> {
    let last = next.replaced_servers.last()?;
    let is_new = !before
        .replaced_servers
        .iter()
        .any(|r| is_same_uuid(&r.uuid, &last.uuid));
    is_new.then(|| {
        ServerEvent::Replaced.news(format!(
            "Server {} is {:?}; ordering another one in its place",
            last.uuid, last.provider_status
        ))
    })
}

/// Reports the expiry one day and one hour before.
fn report_expiry(
    facts: &ServerFacts,
    before: &BareMetalServerStatus,
    next: &BareMetalServerStatus,
) -> Option<EventRecord> {
    let at = facts.expires_at()?;
    (next.records.expiry_warning > before.records.expiry_warning && !expiry::is_over(facts)).then(|| {
        let consequence = match facts.policies().retain() {
            true => "its server stays at the provider and is billed",
            false => "its server is released",
        };
        ServerEvent::Expiring.news(format!(
            "The operator deletes this object at {} (spec.expiresAt); {consequence}. To keep it, set a later time",
            expiry::to_timestamp(at)
        ))
    })
}

/// Reports six hours and one hour before the password expires, and when it is missed.
fn report_password(
    before: &BareMetalServerStatus,
    next: &BareMetalServerStatus,
) -> Option<EventRecord> {
    let now = next.records.root_password.as_ref()?;
    let is_it = |was: &&RootPasswordRecord| was.installation() == now.installation();
    let was = before.records.root_password.as_ref().filter(is_it);
    let condition = find_condition(&next.conditions, Type::RootPasswordStored)?;
    let step = match now.warned? {
        PasswordWarning::Missed => ServerEvent::PasswordMissed,
        PasswordWarning::SixHours | PasswordWarning::Hour => ServerEvent::PasswordExpiring,
    };
    let is_news = now.warned > was.and_then(|was| was.warned) && now.stored_at.is_none();
    is_news.then(|| step.news(condition.message.clone()))
}

/// Reports a delayed release when the delay begins and when its end changes.
fn report_delay(
    before: &BareMetalServerStatus,
    next: &BareMetalServerStatus,
) -> Option<EventRecord> {
    let delay_message = |status: &BareMetalServerStatus| {
        let ready = find_condition(&status.conditions, Type::Ready)?;
        let is_it = ready.reason == Reason::ReleaseDelayed.as_str();
        is_it.then(|| ready.message.clone())
    };
    let now = delay_message(next)?;
    (delay_message(before).as_ref() != Some(&now)).then(|| ServerEvent::ReleaseDelayed.news(now))
}

fn report_order(
    facts: &ServerFacts,
    before: &BareMetalServerStatus,
    next: &BareMetalServerStatus,
) -> Option<EventRecord> {
    let order = next.records.order.as_ref()?;
    let is_same = |other: &&OrderRecord| (order.seq, &order.nonce) == (other.seq, &other.nonce);
    let was = before.records.order.as_ref().filter(is_same);
    let is_new = was.is_none_or(|was| was.outcome != order.outcome);
    let tag = facts.order_tag(order).unwrap_or_default();
    let uuid = order.server.as_deref().unwrap_or("without UUID");
    match order.outcome {
        None => {
            let is_lost = order.answer_lost && was.is_some_and(|was| !was.answer_lost);
            is_lost.then(|| {
                ServerEvent::AnswerLost.news(format!(
                    "The answer to the order was lost; nothing is ordered meanwhile. Looking for tag {tag}"
                ))
            })
        }
        Some(OrderOutcome::Created) if is_new => Some(match classify_origin(was, order) {
            ServerEvent::Adopted => ServerEvent::Adopted
                .news(format!("Adopted existing server {uuid}; it has tag {tag}")),
            ServerEvent::Ordered => {
                let kind = next.instance_type.as_deref().unwrap_or_default();
                let place = next.location.as_deref().unwrap_or_default();
                ServerEvent::Ordered.news(format!(
                    "Ordered server {uuid}; {kind} at {place}, with tag {tag}"
                ))
            }
            _ => ServerEvent::FoundByTag.news(format!(
                "Found server {uuid} of the order; it has tag {tag}"
            )),
        }),
        Some(OrderOutcome::Refused) if is_new => {
            let why = order.message.as_deref().unwrap_or("no reason given");
            Some(ServerEvent::Refused.news(format!(
                "The provider refused the order; no server was created for tag {tag}: {why}"
            )))
        }
        _ => None,
    }
}

/// Reports each created server and each accepted re-installation without an SSH key.
fn report_missing_key(
    facts: &ServerFacts,
    before: &BareMetalServerStatus,
    next: &BareMetalServerStatus,
) -> Option<EventRecord> {
    let ordered = |status: &BareMetalServerStatus| {
        let made = |order: &OrderRecord| order.outcome == Some(OrderOutcome::Created);
        let order = status.records.order.clone().filter(made)?;
        Some((order.nonce, order.sent))
    };
    let installed = |status: &BareMetalServerStatus| {
        let last = status.records.install.clone()?.last?;
        let intent = last.is_taken().then_some(last.intent)?;
        Some((intent.attempt, intent.sent))
    };
    let order = ordered(next).filter(|_| ordered(next) != ordered(before));
    let install = installed(next).filter(|_| installed(next) != installed(before));
    let (_, sent) = install.or(order)?;
    let uuid = next.uuid.as_deref().unwrap_or_default();
    lacks_key(&facts.object.spec, &sent).then(|| {
        ServerEvent::NoSshKey.news(format!(
            "Server {uuid} is installed without an SSH key. To add one, set spec.sshKeys and raise spec.install.revision; this erases its disks"
        ))
    })
}

/// Whether the order's server was ordered, adopted or found by its tag.
fn classify_origin(was: Option<&OrderRecord>, order: &OrderRecord) -> ServerEvent {
    let is_adopted = was.is_some_and(|was| was.outcome == Some(OrderOutcome::Adopting));
    match (is_adopted || order.nonce.is_empty(), order.answer_lost) {
        (true, _) => ServerEvent::Adopted,
        (false, false) => ServerEvent::Ordered,
        (false, true) => ServerEvent::FoundByTag,
    }
}

fn report_delivery(
    before: &BareMetalServerStatus,
    next: &BareMetalServerStatus,
) -> Option<EventRecord> {
    let is_ready = conditions::is_true(&next.conditions, Type::Ready);
    // An object that was only blocked for a while is not delivered again.
    let was = before.uuid == next.uuid
        && before.provider_status == next.provider_status
        && !before.addresses.is_empty();
    if !is_ready || was {
        return None;
    }
    let (uuid, address) = (next.uuid.as_deref()?, &next.addresses.first()?.address);
    Some(ServerEvent::Delivered.news(format!("Delivered server {uuid}: {address}")))
}

fn report_pending_changes(
    before: &BareMetalServerStatus,
    next: &BareMetalServerStatus,
) -> Option<EventRecord> {
    let pending_message = |status: &BareMetalServerStatus| {
        let found = find_condition(&status.conditions, Type::Synced);
        let found = found.filter(|c| c.reason == Reason::PendingChanges.as_str());
        found.map(|c| c.message.clone())
    };
    let now = pending_message(next)?;
    (pending_message(before).as_ref() != Some(&now)).then(|| {
        let uuid = next.uuid.as_deref().unwrap_or_default();
        ServerEvent::PendingChanges.news(format!("Server {uuid} has pending changes: {now}"))
    })
}

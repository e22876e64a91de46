//! The only place that updates a status and publishes the events about it.

use super::{
    context::Context,
    objects::FailedStatusWrite,
    writes::{ApiServerError, WriteOutcome},
};
use crate::runtime::kind_api::KindApi;
use api::{
    Reason,
    conditions::{self, Type},
};
use flexmetal_core::report::{EventRecord, Severity};
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Condition};
use std::{sync::Arc, time::Duration};

/// Reason of a conflict although no other write changed the object.
const REFUSED: &str = "a conflict with a version that nobody has changed";

/// Reason if the object is deleted. It is not reported.
const GONE: &str = "gone";

/// Result of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// The status is already as decided.
    Unchanged,
    /// The status was updated.
    Written,
    /// The object changed in between: decide again with the new one.
    Stale,
    /// The update failed, now or a moment ago; retry after this time. Nothing else of the object waits for it.
    Later(Duration),
}

/// The server that a log line is about, if any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFields {
    /// UUID of the server.
    pub uuid: Option<String>,
    /// Number of its order.
    pub order: Option<u32>,
}

impl<K: KindApi, M: Clone + Default + Send> Context<K, M> {
    /// Updates the status if it differs, and publishes what changed. `news` makes the events from the conditions before
    /// and after.
    pub async fn report(
        &self,
        object: &Arc<K>,
        status: &K::Status,
        news: impl FnOnce(&[Condition], &[Condition]) -> Vec<EventRecord>,
    ) -> Reported {
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        let rest = self.objects.report_rest(uid);
        if let Some(rest) = rest.filter(|_| !self.is_shutting_down()) {
            return Reported::Later(rest);
        }
        match self.write_status(object, status).await {
            None => Reported::Unchanged,
            Some(WriteOutcome::Done(_)) => {
                self.objects.reported(uid);
                let before = object.status().map(K::conditions).unwrap_or_default();
                let after = K::conditions(status);
                let server = ServerFields {
                    uuid: K::provider_id(status).map(str::to_owned),
                    order: K::order_number(status),
                };
                let all = news(before, after);
                if let Some(change) = change(before, after).or_else(|| sync(before, after))
                    && all
                        .iter()
                        .all(|news| news.reason.as_str() != change.reason.as_str())
                {
                    log(&object.object_ref(&()), &server, &change);
                }
                for news in all {
                    self.publish_of(&**object, &server, news).await;
                }
                Reported::Written
            }
            Some(WriteOutcome::Stale) => {
                // The watch may be behind: without this read, the next reconcile would repeat the same write. If no
                // other write changed the object, a new decision would not help.
                let version = |object: &Arc<K>| object.meta().resource_version.clone();
                match self.read_object(object).await {
                    Ok(Some(fresh)) if version(&fresh) != version(object) => Reported::Stale,
                    Ok(Some(_)) => Reported::Later(self.report_failed(object, REFUSED).rest),
                    Ok(None) => Reported::Later(self.objects.report_failed(uid, GONE).rest),
                    Err(failure) => {
                        Reported::Later(self.report_failed(object, &failure.explain()).rest)
                    }
                }
            }
            Some(WriteOutcome::Unknown(failure)) => {
                let failed = self.report_failed(object, &failure.explain());
                if failed.is_news && failure.is_of_content() {
                    self.publish(&**object, unwritable(&failure)).await;
                }
                Reported::Later(failed.rest)
            }
        }
    }

    /// Records a failed status update, and logs each reason once.
    fn report_failed(&self, object: &K, cause: &str) -> FailedStatusWrite {
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        let failed = self.objects.report_failed(uid, cause);
        if failed.is_news {
            tracing::warn!(
                kind = %K::kind(&()),
                namespace = object.meta().namespace,
                name = object.meta().name,
                cause,
                retry_after_seconds = failed.rest.as_secs_f64(),
                "status update failed"
            );
        }
        failed
    }

    /// Publishes one event about an object, and logs it. Best effort.
    pub async fn publish(&self, object: &impl kube::Resource<DynamicType = ()>, news: EventRecord) {
        self.publish_of(object, &ServerFields::default(), news)
            .await;
    }

    /// The same, for an event about a server.
    pub async fn publish_of(
        &self,
        object: &impl kube::Resource<DynamicType = ()>,
        server: &ServerFields,
        news: EventRecord,
    ) {
        let reference = object.object_ref(&());
        log(&reference, server, &news);
        self.events.publish(&news, &reference).await;
    }
}

/// The event about a status that the API server rejects: the conditions show an earlier state.
fn unwritable(failure: &ApiServerError) -> EventRecord {
    EventRecord {
        severity: Severity::Warning,
        reason: Reason::WriteFailed.into(),
        action: "Report",
        note: format!(
            "The API server refuses the status, so it shows an earlier state; {}. Correct the field that it names",
            failure.explain()
        ),
    }
}

/// Maximum characters of a message in a log line.
const MOST_LOGGED: usize = 600;

/// Logs what happened to an object, or its new reason. Values are quoted, so that text of the provider cannot start a
/// line of its own.
fn log(reference: &ObjectReference, server: &ServerFields, news: &EventRecord) {
    let kind = reference.kind.as_deref();
    let (namespace, name) = (reference.namespace.as_deref(), reference.name.as_deref());
    let (uuid, order) = (server.uuid.as_deref(), server.order);
    let (reason, action) = (news.reason.as_str(), news.action);
    let end = news.note.floor_char_boundary(MOST_LOGGED);
    let cause = Some(&news.note[..end]).filter(|cause| !cause.is_empty());
    match news.severity {
        Severity::Normal => tracing::info!(
            kind,
            namespace,
            name,
            uuid,
            order,
            reason,
            action,
            cause,
            "reason reported"
        ),
        Severity::Warning => tracing::warn!(
            kind,
            namespace,
            name,
            uuid,
            order,
            reason,
            action,
            cause,
            "reason reported"
        ),
    }
}

/// The condition, if its reason has changed.
fn changed<'a>(kind: Type, before: &[Condition], after: &'a [Condition]) -> Option<&'a Condition> {
    let now = after.iter().find(|c| c.type_ == kind.as_str())?;
    let is_same = |was: &Condition| was.type_ == now.type_ && was.reason == now.reason;
    (!before.iter().any(is_same)).then_some(now)
}

/// The change of `Synced`, if its reason has changed.
fn sync(before: &[Condition], after: &[Condition]) -> Option<EventRecord> {
    let now = changed(Type::Synced, before, after)?;
    Some(EventRecord {
        severity: Severity::Normal,
        reason: Reason::parse(&now.reason)?.into(),
        action: "Report",
        note: match now.message.is_empty() {
            true => "Synced".to_owned(),
            false => format!("Synced: {}", now.message),
        },
    })
}

/// The change of `Ready`, if its reason has changed: a warning if a user must act.
fn change(before: &[Condition], after: &[Condition]) -> Option<EventRecord> {
    let now = changed(Type::Ready, before, after)?;
    Some(EventRecord {
        severity: match [Type::Stalled, Type::DeletionBlocked]
            .iter()
            .any(|kind| conditions::is_true(after, *kind))
        {
            true => Severity::Warning,
            false => Severity::Normal,
        },
        reason: Reason::parse(&now.reason)?.into(),
        action: "Report",
        note: now.message.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::telemetry::{LogFormat, tests::CapturedLog};
    use flexmetal_core::report::ServerEvent;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn ready(status: &str, reason: Reason) -> Vec<Condition> {
        let of = |type_: &str, status: &str| Condition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.as_str().into(),
            message: "m".into(),
            observed_generation: None,
            last_transition_time: Time(jiff::Timestamp::MIN),
        };
        let stalled = if status == "stalled" { "True" } else { "False" };
        let ready = if status == "ready" { "True" } else { "False" };
        vec![of("Ready", ready), of("Stalled", stalled)]
    }

    #[test]
    fn changed_reason_is_logged_with_its_severity() {
        let waits = ready("waits", Reason::NoStock);
        let stalled = ready("stalled", Reason::InvalidSpec);
        assert_eq!(change(&waits, &waits), None);
        let line = |before: &[Condition], after: &[Condition]| {
            change(before, after).map(|news| (news.reason.as_str(), news.severity))
        };
        assert_eq!(line(&[], &waits), Some(("NoStock", Severity::Normal)));
        assert_eq!(
            line(&waits, &stalled),
            Some(("InvalidSpec", Severity::Warning))
        );
        assert_eq!(line(&stalled, &[]), None);
    }

    #[test]
    fn lost_account_is_logged_while_ready_stays() {
        let with = |reason: Reason| {
            let mut all = ready("ready", Reason::Delivered);
            let synced = Condition {
                type_: "Synced".into(),
                reason: reason.as_str().into(),
                ..all[1].clone()
            };
            all.push(synced);
            all
        };
        let (well, lost) = (with(Reason::InSync), with(Reason::AccountNotReady));
        assert_eq!((change(&well, &lost), sync(&well, &well)), (None, None));
        let line = |before: &[Condition], after: &[Condition]| {
            sync(before, after).map(|news| (news.reason.as_str(), news.note))
        };
        let expected = |reason| Some((reason, "Synced: m".to_owned()));
        assert_eq!(line(&well, &lost), expected("AccountNotReady"));
        assert_eq!(line(&lost, &well), expected("InSync"));
    }

    #[test]
    fn provider_text_is_logged_in_one_short_line() {
        let object = ObjectReference {
            name: Some("web".into()),
            namespace: Some("shop".into()),
            ..ObjectReference::default()
        };
        let server = ServerFields {
            uuid: Some("u1".into()),
            order: None,
        };
        let news = EventRecord {
            severity: Severity::Warning,
            reason: ServerEvent::Refused.into(),
            action: "Order",
            note: format!("no\n INFO forged\u{1b}[31m {}", "x".repeat(5000)),
        };
        for format in [LogFormat::Text, LogFormat::Json] {
            let (written, subscriber) = CapturedLog::start(format, "info");
            tracing::subscriber::with_default(subscriber, || log(&object, &server, &news));
            let text = written.text();
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(!text.contains('\u{1b}') && text.len() < 1000, "{text}");
            assert!(text.contains("WARN") && text.contains("u1"), "{text}");
        }
    }
}

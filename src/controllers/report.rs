//! The one place that writes a status, and publishes the events that go with it.

use super::{context::Context, events::Severity, writes::Written};
use crate::kinds::{
    Kind, Reason,
    conditions::{self, Type},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::{sync::Arc, time::Duration};

/// What a conflict is called that no other write explains.
const REFUSED: &str = "a conflict with a version that nobody has changed";

/// What it is called where the object is gone, and nobody is told.
const GONE: &str = "gone";

/// How reporting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// The status stood as decided already.
    Stands,
    /// It was written.
    Written,
    /// The object changed in between: decide again, on what is there now.
    Stale,
    /// The write failed, now or a moment ago: it is tried again after this time. Nothing else of
    /// the object waits for that.
    Later(Duration),
}

/// Something that people should hear of beside the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Whether it is a warning.
    pub severity: Severity,
    /// Why.
    pub reason: Reason,
    /// What was done or tried: a word such as `Order`.
    pub action: &'static str,
    /// In words.
    pub note: String,
}

impl<K: Kind, M: Clone + Default + Send> Context<K, M> {
    /// Writes the decided status, where it differs, and publishes what changed. `news` gives the
    /// events from the conditions before and after.
    pub async fn report(
        &self,
        object: &Arc<K>,
        status: &K::Status,
        news: impl FnOnce(&[Condition], &[Condition]) -> Vec<News>,
    ) -> Reported {
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        let rest = self.objects.report_rest(uid);
        if let Some(rest) = rest.filter(|_| !self.is_ending()) {
            return Reported::Later(rest);
        }
        match self.write_status(object, status).await {
            None => Reported::Stands,
            Some(Written::Done(_)) => {
                self.objects.reported(uid);
                let before = object.status().map(K::conditions).unwrap_or_default();
                for news in news(before, K::conditions(status)) {
                    self.publish(&**object, news).await;
                }
                Reported::Written
            }
            Some(Written::Stale) => {
                // The watch may be behind; the next pass must not try the same again. Where nobody
                // wrote, deciding again would end in the same; where the object is gone there is
                // nothing left to tell.
                let version = |object: &Arc<K>| object.meta().resource_version.clone();
                match self.read(object).await {
                    Ok(Some(fresh)) if version(&fresh) != version(object) => Reported::Stale,
                    Ok(Some(_)) => Reported::Later(self.report_failed(object, REFUSED)),
                    Ok(None) => Reported::Later(self.objects.report_failed(uid, GONE).rest),
                    Err(failure) => Reported::Later(self.report_failed(object, &failure.explain())),
                }
            }
            Some(Written::Unknown(failure)) => {
                Reported::Later(self.report_failed(object, &failure.explain()))
            }
        }
    }

    /// A status could not be written; returns when to try again. A cause is told once.
    fn report_failed(&self, object: &K, cause: &str) -> Duration {
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        let failed = self.objects.report_failed(uid, cause);
        if failed.is_news {
            tracing::warn!(
                kind = %K::kind(&()),
                namespace = object.meta().namespace,
                name = object.meta().name,
                cause,
                "a status could not be written; it is tried again, ever more rarely"
            );
        }
        failed.rest
    }

    /// Publishes one event about an object. Best effort.
    pub async fn publish(&self, object: &impl kube::Resource<DynamicType = ()>, news: News) {
        let reference = object.object_ref(&());
        self.events.publish(&news, &reference).await;
    }
}

/// The events of conditions that people wait for or must act on: those that are True now and were
/// not before, with the action that each stands for.
pub fn turned(
    before: &[Condition],
    after: &[Condition],
    watched: &[(Type, Severity, &'static str)],
) -> Vec<News> {
    let turned =
        |kind: Type| conditions::is_true(after, kind) && !conditions::is_true(before, kind);
    let news = watched.iter().filter(|(kind, ..)| turned(*kind));
    news.filter_map(|(kind, severity, action)| {
        let condition = after.iter().find(|c| c.type_ == kind.as_str())?;
        Some(News {
            severity: *severity,
            reason: Reason::parse(&condition.reason)?,
            action,
            note: condition.message.clone(),
        })
    })
    .collect()
}

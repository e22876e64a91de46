//! Reports that an object waits for a call without an answer. Its own reconcile reports nothing before the call ends.

use super::{context::Context, objects::ObservedObject};
use crate::{
    account::Account,
    runtime::{clock, kind_api::KindApi},
};
use api::{
    Interval, Reason,
    conditions::{self, Generations},
};
use flexmetal_core::{explanation::Explanation, report};
use futures::future::{Either, select};
use hosting::CHANGE_TIMEOUT;
use jiff::Timestamp;
use std::{pin::pin, sync::Arc, time::Duration};

/// How often to check whether there is something to report.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl<K: KindApi, M: Clone + Default + Send> Context<K, M> {
    /// Carries out an effect. `account` is the account that it calls, if any.
    pub async fn await_effect<O>(
        &self,
        object: &K,
        account: Option<&Account>,
        effect: impl Future<Output = O>,
    ) -> O {
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        let is_new = object
            .status()
            .map(K::conditions)
            .is_none_or(conditions::is_new);
        let mut effect = pin!(effect);
        let Some(account) = account else {
            return effect.await;
        };
        loop {
            if let Ok(ended) = tokio::time::timeout(CHECK_INTERVAL, &mut effect).await {
                return ended;
            }
            let Some(ObservedObject::Decoded(newest)) = self.objects.newest(uid) else {
                continue;
            };
            let report = pin!(self.report_awaiting(&newest, account, is_new));
            // The status update finishes even if the call ends first.
            if let Either::Left((ended, report)) = select(&mut effect, report).await {
                report.await;
                return ended;
            }
        }
    }

    /// Reports on new and deleted objects. For an existing object that stays, nothing is reported.
    async fn report_awaiting(&self, object: &Arc<K>, account: &Account, is_new: bool) {
        let meta = object.meta();
        let is_deleting = meta.deletion_timestamp.is_some();
        let observation = self
            .objects
            .first_observation(meta.uid.as_deref().unwrap_or_default());
        let age = observation.map_or(Duration::ZERO, |observation| {
            clock::now().elapsed_since(observation.first_seen)
        });
        let is_due = is_deleting || is_new && Explanation::time_until_first_status(age).is_zero();
        let mut status = object.status().cloned().unwrap_or_default();
        let before = K::conditions(&status).to_vec();
        let (observed, conditions) = K::conditions_mut(&mut status);
        let may_report_more =
            conditions::is_new(&before) || before.iter().any(|c| c.message == waiting_message());
        let is_reported = *observed == meta.generation && !may_report_more;
        if !is_due || is_reported || !self.may_act() {
            return;
        }
        let error = account.view().outage;
        let (reason, message) = error.unwrap_or_else(|| (Reason::Progressing, waiting_message()));
        let wanted = Explanation::waits(reason, message).to_conditions(None, &before, is_deleting);
        *observed = meta.generation;
        let generations = Generations {
            observed: *observed,
            current: meta.generation,
        };
        *conditions = conditions::merge(&before, &wanted, generations, Timestamp::now());
        let news = |before: &[_], after: &[_]| {
            report::condition_events(before, after, &super::reconcile::REPORTED_CONDITIONS)
        };
        self.report(object, &status, news).await;
    }
}

/// The message of an object that waits for an answer, until the account is known to have an outage.
fn waiting_message() -> String {
    format!(
        "Waiting for the hosting API to answer; the call is given up after {}, then the operator looks for its outcome",
        Interval(CHANGE_TIMEOUT)
    )
}

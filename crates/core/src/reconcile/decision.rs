//! What a kind decides, and the status that follows.

use super::Subject;
use crate::{
    account::view::ListKind,
    explanation::{
        AS_READY, Explanation, OUT_OF_TOUCH, ReadyState, copy_synced_to_ready, suspension, unsent,
    },
    last_error::{REPORTED_AFTER_FAILURES, is_account_error},
    report::EventRecord,
};
use api::{
    Kind, Reason,
    conditions::{self, DesiredCondition, Generations, Type},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::time::Duration;

/// Message of a deleted object whose next step is queued.
const WAITS_TO_END: &str = "The deletion waits in the queue of the account, or for a list; continues as soon as that is over";

/// Requeue delay of an object that needs nothing.
const IDLE: Duration = Duration::from_secs(600);

/// What to report, what to do, and when to reconcile again.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<S, E> {
    /// The next status without conditions and generation, which follow from the rest.
    pub status: S,
    /// Why the object is in its state; None: the conditions stay. The first steps of a new object are not worth a
    /// write.
    pub explanation: Option<Explanation>,
    /// Nothing more is sent for the object, whatever happens to it or to its account.
    pub is_over: bool,
    /// Why nothing is sent for the object, if a user suspended it and not the account.
    pub suspended: Option<String>,
    /// What is not sent in read-only mode.
    pub blocked: Option<Explanation>,
    /// Conditions other than Ready, Reconciling, Stalled and Synced.
    pub conditions: Vec<DesiredCondition>,
    /// Events about this status, except those of its conditions.
    pub news: Vec<EventRecord>,
    /// At most one effect.
    pub effect: Option<E>,
    /// Requests a list that starts at or after this moment.
    pub wants: Option<(ListKind, Duration)>,
    /// Requests a second list.
    pub wants_also: Option<(ListKind, Duration)>,
    /// When to reconcile again if nothing enqueues the object before.
    pub requeue_after: Duration,
    /// Whether to reconcile again as soon as this status is written.
    pub requeue_once_written: bool,
}

impl<S: Clone + Default, E> Decision<S, E> {
    /// Keeps the status, and does nothing.
    pub fn unchanged<K: Kind<Status = S>, T>(subject: &Subject<K, T>) -> Self {
        Self::from_status(subject.status())
    }

    /// Sets this status, and does nothing.
    pub fn from_status(status: S) -> Self {
        Self {
            status,
            explanation: None,
            is_over: false,
            suspended: None,
            blocked: None,
            conditions: Vec::new(),
            news: Vec::new(),
            effect: None,
            wants: None,
            wants_also: None,
            requeue_after: IDLE,
            requeue_once_written: false,
        }
    }

    /// Sets the explanation.
    #[must_use]
    pub fn because(mut self, explanation: Explanation) -> Self {
        self.explanation = Some(explanation);
        self
    }

    /// Adds a condition of the kind.
    #[must_use]
    pub fn and(mut self, condition: DesiredCondition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Ends the object: nothing more is sent for it.
    #[must_use]
    pub fn set_finished(mut self) -> Self {
        self.is_over = true;
        self
    }

    /// Sets the effect.
    #[must_use]
    pub fn with(mut self, effect: E) -> Self {
        self.effect = Some(effect);
        self
    }

    /// Requests a list that starts at or after this moment.
    #[must_use]
    pub fn wanting(mut self, list: ListKind, not_before: Duration) -> Self {
        self.wants = Some((list, not_before));
        self
    }

    /// Requests a second list.
    #[must_use]
    pub fn wanting_also(mut self, list: ListKind, not_before: Duration) -> Self {
        self.wants_also = Some((list, not_before));
        self
    }

    /// Reconciles again after this time at the latest.
    #[must_use]
    pub fn requeue_after(mut self, after: Duration) -> Self {
        self.requeue_after = after;
        self
    }

    /// Reconciles again as soon as this status is written.
    #[must_use]
    pub fn requeue_once_written(mut self) -> Self {
        self.requeue_once_written = true;
        self
    }

    /// The reason whose [`ReferenceGrace`](crate::reference_grace::ReferenceGrace) runs.
    pub fn grace_reason<K: Kind<Status = S>, T>(&self, subject: &Subject<K, T>) -> Option<Reason> {
        if self.is_out_of_touch(subject) {
            return Some(Reason::AccountNotReady);
        }
        let awaited = self.explanation.as_ref();
        let awaited = awaited.filter(|explanation| explanation.ready_state == ReadyState::Missing);
        awaited.map(|explanation| explanation.reason)
    }

    /// The status to write at this moment, and after which time it changes by itself.
    pub fn status<K: Kind<Status = S>, T>(
        &self,
        subject: &Subject<K, T>,
        now: Timestamp,
    ) -> (S, Option<Duration>) {
        let mut status = self.status.clone();
        let before = subject.object.status().map(K::conditions);
        let before = before.unwrap_or_default();
        let mut is_kept = false;
        let (mut wanted, mut rest) = match self.shown(subject) {
            Some(explanation) => {
                let grace = &subject.memory.grace;
                let (explanation, rest) = explanation.apply_grace(grace, subject.now.mono, before);
                is_kept = explanation.is_kept(before, subject.is_deleting());
                let blocked = self.blocked.as_ref().map(Explanation::unsent_as_read_only);
                let is_user = explanation.reason != Reason::ReadOnly;
                let is_unsent = is_kept && is_user && self.is_unsent(subject);
                let synced = blocked.or_else(|| is_unsent.then(unsent));
                (
                    explanation.to_conditions(synced, before, subject.is_deleting()),
                    rest,
                )
            }
            None => (Vec::new(), None),
        };
        if self.is_out_of_touch(subject) {
            let (synced, until) = out_of_touch(subject, before);
            rest = rest.into_iter().chain(until).min();
            wanted.retain(|c| c.kind != Type::Synced || synced.is_none());
            wanted.extend(synced);
        }
        if wanted.is_empty() && before.is_empty() {
            let age = subject
                .now
                .mono
                .saturating_sub(subject.observations_count_from());
            let quiet = Explanation::time_until_first_status(age);
            if subject.is_deleting() {
                return (status, rest);
            }
            if !quiet.is_zero() {
                return (status, Some(rest.map_or(quiet, |rest| rest.min(quiet))));
            }
            wanted = Explanation::queued().to_conditions(None, before, false);
        }
        wanted.extend(self.suspension(subject, before));
        let is_live = !subject.is_deleting();
        let stays =
            |explanation: Explanation| is_live && explanation.ready_state == ReadyState::Suspended;
        if self
            .reported_explanation(subject)
            .is_some_and(|explanation| !stays(explanation))
        {
            let ready = wanted.iter().find(|c| c.kind == Type::Ready);
            let ready = ready.map_or("", |c| c.message.as_str()).to_owned();
            wanted.extend(
                self.conditions
                    .iter()
                    .cloned()
                    .map(|condition| DesiredCondition {
                        message: match condition.message == ready && !ready.is_empty() {
                            true => AS_READY.to_owned(),
                            false => condition.message,
                        },
                        ..condition
                    }),
            );
        }
        let is_observed = !is_kept && wanted.iter().any(|c| c.kind == Type::Ready);
        copy_synced_to_ready(&mut wanted, before);
        let current = subject.object.meta().generation;
        let (observed, conditions) = K::conditions_mut(&mut status);
        if is_observed {
            *observed = current;
        }
        let generations = Generations {
            observed: *observed,
            current,
        };
        *conditions = conditions::merge(before, &wanted, generations, now);
        (status, rest)
    }

    /// The condition Suspended; None: it is unknown whether the account is suspended. An ended object is not suspended.
    fn suspension<K: Kind<Status = S>, T>(
        &self,
        subject: &Subject<K, T>,
        before: &[Condition],
    ) -> Option<DesiredCondition> {
        if self.is_over {
            return suspension(None, before);
        }
        let why = self.suspended.as_deref().or(subject.account.suspension());
        if why.is_none() && !subject.account.is_stop_known() {
            return None;
        }
        suspension(why.map(str::to_owned), before)
    }

    /// Whether a suspended object has an uncompared spec or unsent changes. If the account is not suspended, the kind
    /// reports the suspension only with unsent changes.
    fn is_unsent<K: Kind<Status = S>, T>(&self, subject: &Subject<K, T>) -> bool {
        let mut status = subject.status();
        let (observed, _) = K::conditions_mut(&mut status);
        let is_compared = *observed == subject.object.meta().generation;
        !is_compared || subject.account.suspension().is_none()
    }

    /// Whether the object exists at the provider, and the account does not answer as it should.
    fn is_out_of_touch<K: Kind<Status = S>, T>(&self, subject: &Subject<K, T>) -> bool {
        let exists = subject.object.status().is_some_and(K::exists);
        let is_about_account = || {
            self.reported_explanation(subject)
                .is_some_and(|explanation| is_account_error(explanation.reason))
        };
        exists
            && !subject.is_deleting()
            && (subject.account.is_out_of_touch() || is_about_account())
    }

    /// The explanation to show. That the account does not answer explains nothing about an existing object.
    fn shown<K: Kind<Status = S>, T>(&self, subject: &Subject<K, T>) -> Option<Explanation> {
        let is_blocked = subject.account.is_blocked();
        let is_kept =
            |explanation: &Explanation| is_blocked || is_account_error(explanation.reason);
        self.reported_explanation(subject)
            .filter(|explanation| !(self.is_out_of_touch(subject) && is_kept(explanation)))
    }

    /// The explanation, or the last error if the effect keeps failing.
    fn reported_explanation<K: Kind<Status = S>, T>(
        &self,
        subject: &Subject<K, T>,
    ) -> Option<Explanation> {
        let memory = &subject.memory;
        let last_error = memory.last_error.as_ref().filter(|_| {
            self.effect.is_some() && memory.backoff.failures() >= REPORTED_AFTER_FAILURES
        });
        let is_stalled = |explanation: &Explanation| explanation.ready_state == ReadyState::Stalled;
        match (last_error, &self.explanation) {
            (Some(last_error), explanation) if !explanation.as_ref().is_some_and(is_stalled) => {
                Some(Explanation::waits(
                    last_error.reason,
                    last_error.describe_retry(),
                ))
            }
            (_, None) => self.waits_for_answers(subject),
            (_, explanation) => explanation.clone(),
        }
    }

    /// Explains an object that waits without an explanation: its account has no answers, or its deletion is queued.
    fn waits_for_answers<K: Kind<Status = S>, T>(
        &self,
        subject: &Subject<K, T>,
    ) -> Option<Explanation> {
        let waits = self.effect.is_some() || self.wants.is_some() || self.wants_also.is_some();
        let view = subject.view().filter(|_| waits)?;
        if let Some((reason, message)) = view.outage.clone() {
            return Some(Explanation::waits(reason, message));
        }
        if !subject.is_deleting() {
            return None;
        }
        let last_error = subject.memory.last_error.as_ref();
        Some(match last_error.filter(|_| self.effect.is_some()) {
            Some(last_error) => Explanation::waits(last_error.reason, last_error.describe_retry()),
            None => Explanation::waits(Reason::Progressing, WAITS_TO_END),
        })
    }
}

/// Synced of an object whose account does not answer as it should: None at first, with the time until it is set.
fn out_of_touch<K: Kind, T>(
    subject: &Subject<K, T>,
    before: &[Condition],
) -> (Option<DesiredCondition>, Option<Duration>) {
    let reason = Reason::AccountNotReady;
    let rest = subject.memory.grace.grace_left(reason, subject.now.mono);
    let is_reported =
        |c: &Condition| c.type_ == Type::Synced.as_str() && c.reason == reason.as_str();
    if !rest.is_zero() && !before.iter().any(is_reported) {
        return (None, Some(rest));
    }
    let synced = DesiredCondition::new(Type::Synced, false, reason, OUT_OF_TOUCH);
    (Some(synced), None)
}

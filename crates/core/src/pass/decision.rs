//! What a kind decides, and the status that follows.

use super::Subject;
use crate::{
    account::view::ListKind,
    explanation::{AS_READY, Explanation, OUT_OF_TOUCH, ReadyState, fall_back, suspension, unsent},
    last_error::{PERSISTS, is_accounts},
    report::News,
};
use api::{
    Kind, Reason,
    conditions::{self, DesiredCondition, Generations, Type},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::time::Duration;

/// What a deleted object says whose next step waits for its turn.
const WAITS_TO_END: &str = "The deletion waits in the queue of the account, or for a list; continues as soon as that is over";

/// How long an object that needs nothing sleeps.
const IDLE: Duration = Duration::from_secs(600);

/// What to say, what to do, and when to look again.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<S, E> {
    /// The next status, but for conditions and generation, which follow from the rest.
    pub status: S,
    /// Why the object is as it is; None: nothing is said, and the conditions stay. The first steps of a new object
    /// are not worth a write.
    pub explanation: Option<Explanation>,
    /// Nothing more is sent for the object, whatever becomes of it and of its account.
    pub is_over: bool,
    /// Why nothing is sent for the object, where a user has stopped it and not the account.
    pub suspended: Option<String>,
    /// Conditions beside Ready, Reconciling, Stalled and Synced.
    pub conditions: Vec<DesiredCondition>,
    /// What the status tells that the one before did not, beside its conditions.
    pub news: Vec<News>,
    /// At most one effect.
    pub effect: Option<E>,
    /// A look at a list that starts at or after this moment is wanted.
    pub wants: Option<(ListKind, Duration)>,
    /// The same of another list.
    pub wants_also: Option<(ListKind, Duration)>,
    /// When to look again if nothing wakes the object before.
    pub requeue_after: Duration,
    /// Whether the next pass follows as soon as this status is written.
    pub requeue_now: bool,
}

impl<S: Clone + Default, E> Decision<S, E> {
    /// The status stays as it is, and nothing is done.
    pub fn unchanged<K: Kind<Status = S>, T>(subject: &Subject<K, T>) -> Self {
        Self::from_status(subject.status())
    }

    /// This status, and nothing is done.
    pub fn from_status(status: S) -> Self {
        Self {
            status,
            explanation: None,
            is_over: false,
            suspended: None,
            conditions: Vec::new(),
            news: Vec::new(),
            effect: None,
            wants: None,
            wants_also: None,
            requeue_after: IDLE,
            requeue_now: false,
        }
    }

    /// With the cause.
    #[must_use]
    pub fn because(mut self, cause: Explanation) -> Self {
        self.explanation = Some(cause);
        self
    }

    /// With a condition of the kind.
    #[must_use]
    pub fn and(mut self, condition: DesiredCondition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Nothing more is sent for the object.
    #[must_use]
    pub fn over(mut self) -> Self {
        self.is_over = true;
        self
    }

    /// With an effect.
    #[must_use]
    pub fn with(mut self, effect: E) -> Self {
        self.effect = Some(effect);
        self
    }

    /// With the wish for a look at a list that starts at or after this moment.
    #[must_use]
    pub fn wanting(mut self, list: ListKind, not_before: Duration) -> Self {
        self.wants = Some((list, not_before));
        self
    }

    /// The same of another list.
    #[must_use]
    pub fn wanting_also(mut self, list: ListKind, not_before: Duration) -> Self {
        self.wants_also = Some((list, not_before));
        self
    }

    /// Looks again after this time at the latest.
    #[must_use]
    pub fn requeue_after(mut self, after: Duration) -> Self {
        self.requeue_after = after;
        self
    }

    /// The next pass follows as soon as this status is written.
    #[must_use]
    pub fn requeue_now(mut self) -> Self {
        self.requeue_now = true;
        self
    }

    /// What the object waits for with [`Patience`](crate::patience::Patience).
    pub fn grace_reason<K: Kind<Status = S>, T>(&self, subject: &Subject<K, T>) -> Option<Reason> {
        if self.is_out_of_touch(subject) {
            return Some(Reason::AccountNotReady);
        }
        let awaited = self.explanation.as_ref();
        let awaited = awaited.filter(|cause| cause.ready_state == ReadyState::Missing);
        awaited.map(|cause| cause.reason)
    }

    /// The status to write at this moment, and after which time it would say something else by itself.
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
            Some(cause) => {
                let patience = &subject.memory.grace;
                let (cause, rest) = cause.apply_grace(patience, subject.now.mono, before);
                is_kept = cause.is_kept(before, subject.is_deleting());
                let synced = (is_kept && self.is_unsent(subject)).then(unsent);
                (cause.shown(synced, before, subject.is_deleting()), rest)
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
            let age = subject.now.mono.saturating_sub(subject.since());
            let quiet = Explanation::queued_after(age);
            if subject.is_deleting() {
                return (status, rest);
            }
            if !quiet.is_zero() {
                return (status, Some(rest.map_or(quiet, |rest| rest.min(quiet))));
            }
            wanted = Explanation::queued().shown(None, before, false);
        }
        wanted.extend(self.suspension(subject, before));
        let is_live = !subject.is_deleting();
        let stays = |cause: Explanation| is_live && cause.ready_state == ReadyState::Suspended;
        if self
            .reported_explanation(subject)
            .is_some_and(|cause| !stays(cause))
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
        let is_told = !is_kept && wanted.iter().any(|c| c.kind == Type::Ready);
        fall_back(&mut wanted, before);
        let current = subject.object.meta().generation;
        let (observed, conditions) = K::conditions_mut(&mut status);
        if is_told {
            *observed = current;
        }
        let generations = Generations {
            observed: *observed,
            current,
        };
        *conditions = conditions::merge(before, &wanted, generations, now);
        (status, rest)
    }

    /// The condition Suspended; None: it is not known whether the account is. What is over is not.
    fn suspension<K: Kind<Status = S>, T>(
        &self,
        subject: &Subject<K, T>,
        before: &[Condition],
    ) -> Option<DesiredCondition> {
        if self.is_over {
            return suspension(None, before);
        }
        let why = self.suspended.as_deref().or(subject.account.stopped());
        if why.is_none() && !subject.account.is_stop_known() {
            return None;
        }
        suspension(why.map(str::to_owned), before)
    }

    /// Whether a suspended object has a spec that nobody has compared, or changes to be sent: the kind says that it is
    /// suspended where the account is not only then.
    fn is_unsent<K: Kind<Status = S>, T>(&self, subject: &Subject<K, T>) -> bool {
        let mut status = subject.status();
        let (observed, _) = K::conditions_mut(&mut status);
        let is_compared = *observed == subject.object.meta().generation;
        !is_compared || subject.account.stopped().is_none()
    }

    /// Whether the account does not answer as it should, and the object stands for something that is there.
    fn is_out_of_touch<K: Kind<Status = S>, T>(&self, subject: &Subject<K, T>) -> bool {
        let exists = subject.object.status().is_some_and(K::exists);
        let is_accounts = || {
            self.reported_explanation(subject)
                .is_some_and(|cause| is_accounts(cause.reason))
        };
        exists && !subject.is_deleting() && (subject.account.is_out_of_touch() || is_accounts())
    }

    /// The cause as people read it. That an account does not answer is no cause for what is there.
    fn shown<K: Kind<Status = S>, T>(&self, subject: &Subject<K, T>) -> Option<Explanation> {
        let is_blocked = subject.account.is_blocked();
        let is_kept = |cause: &Explanation| is_blocked || is_accounts(cause.reason);
        self.reported_explanation(subject)
            .filter(|cause| !(self.is_out_of_touch(subject) && is_kept(cause)))
    }

    /// The cause: an effect that keeps failing is one.
    fn reported_explanation<K: Kind<Status = S>, T>(
        &self,
        subject: &Subject<K, T>,
    ) -> Option<Explanation> {
        let memory = &subject.memory;
        let trouble = memory
            .last_error
            .as_ref()
            .filter(|_| self.effect.is_some() && memory.backoff.failures() >= PERSISTS);
        let needs_person = |cause: &Explanation| cause.ready_state == ReadyState::Stalled;
        match (trouble, &self.explanation) {
            (Some(trouble), cause) if !cause.as_ref().is_some_and(needs_person) => {
                Some(Explanation::waits(trouble.reason, trouble.persistent()))
            }
            (_, None) => self.waits_for_answers(subject),
            (_, cause) => cause.clone(),
        }
    }

    /// Nothing else is said of what waits: that its account has no answers, or of what is deleted that it waits at all.
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
        let trouble = subject.memory.last_error.as_ref();
        Some(match trouble.filter(|_| self.effect.is_some()) {
            Some(trouble) => Explanation::waits(trouble.reason, trouble.persistent()),
            None => Explanation::waits(Reason::Progressing, WAITS_TO_END),
        })
    }
}

/// What Synced says where the account does not answer as it should: nothing at first. With the time until then.
fn out_of_touch<K: Kind, T>(
    subject: &Subject<K, T>,
    before: &[Condition],
) -> (Option<DesiredCondition>, Option<Duration>) {
    let reason = Reason::AccountNotReady;
    let rest = subject.memory.grace.grace_left(reason, subject.now.mono);
    let is_told = |c: &Condition| c.type_ == Type::Synced.as_str() && c.reason == reason.as_str();
    if !rest.is_zero() && !before.iter().any(is_told) {
        return (None, Some(rest));
    }
    let synced = DesiredCondition::new(Type::Synced, false, reason, OUT_OF_TOUCH);
    (Some(synced), None)
}

//! What a kind decides, and the status that follows.

use super::Subject;
use crate::{
    account::view::List,
    cause::{AS_READY, Cause, Standing},
    trouble::PERSISTS,
};
use api::{
    Kind, Reason,
    conditions::{self, Wanted},
};
use jiff::Timestamp;
use std::time::Duration;

/// How long an object that needs nothing sleeps.
const IDLE: Duration = Duration::from_secs(600);

/// What to say, what to do, and when to look again.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<S, E> {
    /// The next status, but for conditions and generation, which follow from the rest.
    pub status: S,
    /// Why the object is as it is; None: nothing is said, and the conditions stay. The first steps of a new object
    /// are not worth a write.
    pub cause: Option<Cause>,
    /// Conditions beside Ready, Reconciling, Stalled and Synced.
    pub conditions: Vec<Wanted>,
    /// At most one effect.
    pub effect: Option<E>,
    /// A look at a list that starts at or after this moment is wanted.
    pub wants: Option<(List, Duration)>,
    /// The same of another list.
    pub wants_also: Option<(List, Duration)>,
    /// When to look again if nothing wakes the object before.
    pub again: Duration,
    /// Whether the next pass follows as soon as this status is written.
    pub goes_on: bool,
}

impl<S: Clone + Default, E> Decision<S, E> {
    /// The status stays as it is, and nothing is done.
    pub fn unchanged<K: Kind<Status = S>, T>(subject: &Subject<K, T>) -> Self {
        Self::of(subject.status())
    }

    /// This status, and nothing is done.
    pub fn of(status: S) -> Self {
        Self {
            status,
            cause: None,
            conditions: Vec::new(),
            effect: None,
            wants: None,
            wants_also: None,
            again: IDLE,
            goes_on: false,
        }
    }

    /// With the cause.
    #[must_use]
    pub fn because(mut self, cause: Cause) -> Self {
        self.cause = Some(cause);
        self
    }

    /// With a condition of the kind.
    #[must_use]
    pub fn and(mut self, condition: Wanted) -> Self {
        self.conditions.push(condition);
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
    pub fn wanting(mut self, list: List, not_before: Duration) -> Self {
        self.wants = Some((list, not_before));
        self
    }

    /// The same of another list.
    #[must_use]
    pub fn wanting_also(mut self, list: List, not_before: Duration) -> Self {
        self.wants_also = Some((list, not_before));
        self
    }

    /// Looks again after this time at the latest.
    #[must_use]
    pub fn again(mut self, after: Duration) -> Self {
        self.again = after;
        self
    }

    /// The next pass follows as soon as this status is written.
    #[must_use]
    pub fn going_on(mut self) -> Self {
        self.goes_on = true;
        self
    }

    /// What the object waits for with [`Patience`](crate::patience::Patience).
    pub fn patience_for(&self) -> Option<Reason> {
        let awaited = self.cause.as_ref();
        let awaited = awaited.filter(|cause| cause.standing == Standing::Missing);
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
        let Some(cause) = self.shown(subject) else {
            return (status, None);
        };
        let (cause, rest) = cause.judged(&subject.memory.patience, subject.now.mono, before);
        let more = self.conditions.iter().cloned().map(|condition| Wanted {
            message: match condition.message == cause.message && !cause.message.is_empty() {
                true => AS_READY.to_owned(),
                false => condition.message,
            },
            ..condition
        });
        let mut wanted: Vec<Wanted> = [cause.synced()].into_iter().chain(more).collect();
        wanted.splice(0..0, cause.conditions());
        let generation = subject.object.meta().generation;
        let merged = conditions::merge(before, &wanted, generation, now);
        let (observed, conditions) = K::conditions_mut(&mut status);
        *observed = generation;
        *conditions = merged;
        (status, rest)
    }

    /// The cause as people read it: an effect that keeps failing is one.
    fn shown<K: Kind<Status = S>, T>(&self, subject: &Subject<K, T>) -> Option<Cause> {
        let memory = &subject.memory;
        let trouble = memory
            .trouble
            .as_ref()
            .filter(|_| self.effect.is_some() && memory.backoff.failures() >= PERSISTS);
        let needs_person = |cause: &Cause| cause.standing == Standing::Stalled;
        match (trouble, &self.cause) {
            (Some(trouble), cause) if !cause.as_ref().is_some_and(needs_person) => {
                Some(Cause::waits(trouble.reason, trouble.persistent()))
            }
            (_, cause) => cause.clone(),
        }
    }
}

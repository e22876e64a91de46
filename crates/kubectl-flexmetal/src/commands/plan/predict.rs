//! Repeats the decisions on an object over a predicted state, until nothing follows without the provider.

use super::{account::FoundAccount, effects::PlannedEffect};
use crate::ages;
use api::{Kind, names::OBJECT_FINALIZER};
use flexmetal_core::{
    moment::Moment,
    reconcile::{Decision, Memory, Subject},
};
use jiff::Timestamp;
use kube::{Resource, core::object::HasStatus};
use std::{sync::Arc, time::Duration};

/// The most decisions on one object: two for each of the tags that a server can have, and those around them.
const MOST_STEPS: usize = 400;
/// The most waits in a row without an effect. Confirming an absence takes three lists.
const MOST_WAITS: usize = 4;
/// A list that is requested now begins a moment later.
const READ_DELAY: Duration = Duration::from_millis(20);
/// A requeue at least this long means that an object needs nothing.
const IDLE: Duration = Duration::from_secs(600);
/// How long the operator has known every object, in a plan. It has reported the first steps of a new one by then.
const KNOWN_FOR: Duration = Duration::from_secs(3600);

/// What follows a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// The next decision, over the predicted state.
    Now,
    /// The next decision at this moment, over lists that are read then.
    At(Duration),
    /// Nothing, until the provider or a user changes something.
    End,
}

/// A decision: what it sends to the provider, and what follows.
pub type Step = (Vec<PlannedEffect>, NextStep);

/// The last step of a plan.
pub fn send_last(effect: PlannedEffect) -> Step {
    (vec![effect], NextStep::End)
}

/// The same, for a request that is neither billed nor erases anything.
pub fn send(act: &'static str, description: String) -> Step {
    send_last(PlannedEffect::new(act, description))
}

/// What follows a decision without an effect. `wanted`: when a list is wanted.
pub fn find_next_step(
    now: Moment,
    wanted: Option<Duration>,
    requeue_after: Duration,
    has_acted: bool,
) -> NextStep {
    match wanted {
        Some(at) => NextStep::At(at),
        None if has_acted && requeue_after < IDLE => NextStep::At(now.mono + requeue_after),
        None => NextStep::End,
    }
}

/// The process of a plan has run since 1970: both of its clocks show the same.
pub fn start() -> Moment {
    moment_at(ages::now().as_second())
}

/// This Unix second.
pub fn moment_at(wall: i64) -> Moment {
    Moment {
        wall,
        mono: Duration::from_secs(u64::try_from(wall).unwrap_or_default()),
    }
}

/// When the operator first saw an object, in a plan.
pub fn first_seen(object: &impl Resource, now: Moment) -> Duration {
    let created = object.meta().creation_timestamp.as_ref();
    let created = created.map_or(now.mono, |time| moment_at(time.0.as_second()).mono);
    created.min(now.mono.saturating_sub(KNOWN_FOR))
}

/// What the operator would send, from this moment on.
pub fn predict_effects(
    start: Moment,
    mut decide: impl FnMut(Moment) -> Step,
) -> Vec<PlannedEffect> {
    let mut effects = Vec::new();
    let (mut now, mut waits) = (start, 0);
    for _ in 0..MOST_STEPS {
        let (sent, next) = decide(now);
        if !sent.is_empty() {
            waits = 0;
        }
        let after_seconds = now.elapsed_since(start.mono).as_secs();
        effects.extend(sent.into_iter().map(|effect| PlannedEffect {
            after_seconds,
            ..effect
        }));
        match next {
            NextStep::End => break,
            NextStep::Now => {}
            NextStep::At(_) if waits == MOST_WAITS => break,
            NextStep::At(at) => {
                waits += 1;
                let mono = at.max(now.mono) + READ_DELAY;
                let wall = i64::try_from(mono.as_secs()).unwrap_or(i64::MAX);
                now = Moment { wall, mono };
            }
        }
    }
    effects
}

/// Predicts the decisions on an object of a kind that shares the facts of a [`Subject`]. `decide`: the decision, and the
/// subject with the memory that it was made with. `carry_out`: applies an effect to the object and the memory.
pub fn predict<K, T, E>(
    object: &mut K,
    found: &FoundAccount,
    decide: impl Fn(Subject<K, T>) -> (Subject<K, T>, Decision<K::Status, E>),
    carry_out: impl Fn(&E, &mut K, &mut Subject<K, T>) -> Step,
) -> Vec<PlannedEffect>
where
    K: Kind + Resource<DynamicType = ()> + HasStatus,
    T: Clone + Default,
{
    let mut memory = Memory::default();
    let mut has_acted = false;
    predict_effects(found.start, |now| {
        let is_recorded = object.status().is_some_and(K::exists);
        let (mut subject, decision) = decide(Subject {
            now,
            leader_since: Duration::ZERO,
            first_seen: first_seen(object, now),
            cluster: found.cluster.clone(),
            kind_deleting: Some(false),
            read_only: false,
            account: found.resolve(is_recorded, now),
            memory: memory.clone(),
            object: Arc::new(object.clone()),
        });
        let awaited = decision.grace_reason(&subject);
        subject.memory.grace.record_awaited(awaited, now.mono);
        let step = match &decision.effect {
            Some(effect) => {
                has_acted = true;
                carry_out(effect, object, &mut subject)
            }
            None => {
                let at = Timestamp::from_second(now.wall).unwrap_or_default();
                let status = decision.status(&subject, at).0;
                let is_written = object.status() != Some(&status);
                *object.status_mut() = Some(status);
                subject.memory.reported = Some(now.mono);
                let wanted = decision.wants.into_iter().chain(decision.wants_also);
                let wanted = wanted.map(|(_, at)| at).max();
                let next = match is_written && decision.requeue_once_written {
                    true => NextStep::Now,
                    false => find_next_step(now, wanted, decision.requeue_after, has_acted),
                };
                (Vec::new(), next)
            }
        };
        memory = subject.memory;
        step
    })
}

/// Adds our finalizer.
pub fn add_finalizer(object: &mut impl Resource, finalizer: &str) {
    let finalizers = object.meta_mut().finalizers.get_or_insert_default();
    if !finalizers.iter().any(|it| it == finalizer) {
        finalizers.push(finalizer.to_owned());
    }
}

/// Adds our finalizer to an object that is no server.
pub fn add_object_finalizer(object: &mut impl Resource) -> Step {
    add_finalizer(object, OBJECT_FINALIZER);
    (Vec::new(), NextStep::Now)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The effects of these steps, and when the decisions were made. Then it waits for ever.
    fn predict(steps: Vec<Step>) -> (Vec<PlannedEffect>, Vec<Moment>) {
        let mut asked = Vec::new();
        let mut steps = steps.into_iter();
        let effects = predict_effects(moment_at(1000), |now| {
            asked.push(now);
            let wait = NextStep::At(now.mono + Duration::from_secs(30));
            steps.next().unwrap_or((Vec::new(), wait))
        });
        (effects, asked)
    }

    fn tag() -> Vec<PlannedEffect> {
        vec![PlannedEffect::change_tag("u1", "blue", true)]
    }

    #[test]
    fn effect_after_a_wait_says_how_long() {
        let wait = NextStep::At(Duration::from_secs(1060));
        let (effects, asked) = predict(vec![
            (tag(), NextStep::Now),
            (Vec::new(), wait),
            (tag(), NextStep::End),
            (tag(), NextStep::End),
        ]);
        let after: Vec<u64> = effects.iter().map(|effect| effect.after_seconds).collect();
        assert_eq!(after, [0, 60]);
        assert_eq!(asked[2].wall, 1060, "both clocks move");
    }

    #[test]
    fn endless_waits_and_steps_are_bounded() {
        let (effects, asked) = predict(Vec::new());
        assert_eq!((effects.len(), asked.len()), (0, MOST_WAITS + 1));
        let (_, asked) = predict(vec![(Vec::new(), NextStep::Now); 999]);
        assert_eq!(asked.len(), MOST_STEPS);
    }

    #[test]
    fn clock_of_a_plan_is_now() {
        assert!(start().wall > 1_700_000_000);
    }
}

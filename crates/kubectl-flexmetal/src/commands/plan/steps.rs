//! Repeats the decisions on an object over a predicted state, until nothing follows without the provider.

use super::effects::PlannedEffect;
use api::conditions::Type;
use flexmetal_core::moment::Moment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::time::Duration;

/// The most decisions on one object.
const MOST_STEPS: usize = 20;
/// The most waits in a row without an effect. Confirming an absence takes three lists.
const MOST_WAITS: usize = 4;
/// A list that is requested now begins a moment later.
const READ_DELAY: Duration = Duration::from_millis(20);

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

/// The reason of the condition Ready.
pub fn find_ready_reason(conditions: &[Condition]) -> Option<String> {
    let mut conditions = conditions.iter();
    let ready = conditions.find(|it| it.type_ == Type::Ready.as_str())?;
    Some(ready.reason.clone())
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What it sends to the provider.
    pub effects: Vec<PlannedEffect>,
    /// What follows.
    pub next: NextStep,
}

impl Step {
    /// A decision that sends nothing.
    pub fn quiet(next: NextStep) -> Self {
        Self {
            effects: Vec::new(),
            next,
        }
    }

    /// A decision that sends this.
    pub fn sending(effect: PlannedEffect, next: NextStep) -> Self {
        Self {
            effects: vec![effect],
            next,
        }
    }
}

/// An object whose decisions are predicted. It applies each decision to its own state.
pub trait Prediction {
    /// Decides at this moment.
    fn decide(&mut self, now: Moment) -> Step;

    /// The reason of the condition Ready, as predicted.
    fn ready_reason(&self) -> Option<String>;
}

/// What the operator would send.
pub fn predict_effects(object: &mut impl Prediction, start: Moment) -> Vec<PlannedEffect> {
    let mut effects = Vec::new();
    let mut now = start;
    let mut waits = 0;
    let mut waited_for = None;
    for _ in 0..MOST_STEPS {
        let step = object.decide(now);
        if !step.effects.is_empty() {
            waits = 0;
        }
        let waited = now.elapsed_since(start.mono).as_secs();
        effects.extend(step.effects.into_iter().map(|effect| PlannedEffect {
            after_seconds: waited,
            waits_for: waited_for.clone().filter(|_| waited > 0),
            ..effect
        }));
        match step.next {
            NextStep::End => break,
            NextStep::Now => {}
            NextStep::At(_) if waits == MOST_WAITS => break,
            NextStep::At(at) => {
                waits += 1;
                waited_for = object.ready_reason();
                now = advance(now, at);
            }
        }
    }
    effects
}

/// The later moment. Both clocks move alike.
fn advance(now: Moment, at: Duration) -> Moment {
    let mono = at.max(now.mono) + READ_DELAY;
    let seconds = mono.as_secs().saturating_sub(now.mono.as_secs());
    Moment {
        wall: now
            .wall
            .saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX)),
        mono,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers with these steps, then waits forever. Records when it was asked.
    struct Script {
        steps: Vec<Step>,
        asked: Vec<Moment>,
    }

    impl Prediction for Script {
        fn decide(&mut self, now: Moment) -> Step {
            self.asked.push(now);
            match self.steps.is_empty() {
                true => Step::quiet(NextStep::At(now.mono + Duration::from_secs(30))),
                false => self.steps.remove(0),
            }
        }

        fn ready_reason(&self) -> Option<String> {
            Some("Restarted".into())
        }
    }

    const START: Moment = Moment {
        wall: 1000,
        mono: Duration::from_secs(1000),
    };

    fn predict(steps: Vec<Step>) -> (Vec<PlannedEffect>, Vec<Moment>) {
        let mut script = Script {
            steps,
            asked: Vec::new(),
        };
        let effects = predict_effects(&mut script, START);
        (effects, script.asked)
    }

    fn tag() -> PlannedEffect {
        PlannedEffect::of_tag("u1", "blue", true)
    }

    #[test]
    fn effect_after_a_wait_says_how_long() {
        let wait = Step::quiet(NextStep::At(START.mono + Duration::from_secs(60)));
        let steps = vec![
            Step::sending(tag(), NextStep::Now),
            wait,
            Step::sending(tag(), NextStep::End),
        ];
        let (effects, asked) = predict(steps);
        let after: Vec<u64> = effects.iter().map(|effect| effect.after_seconds).collect();
        assert_eq!(after, [0, 60]);
        assert_eq!(effects[0].waits_for, None);
        assert_eq!(effects[1].waits_for.as_deref(), Some("Restarted"));
        assert_eq!(asked[2].wall, 1060, "both clocks move");
    }

    #[test]
    fn endless_waits_and_steps_are_bounded() {
        let (effects, asked) = predict(Vec::new());
        assert_eq!((effects.len(), asked.len()), (0, MOST_WAITS + 1));
        let (_, asked) = predict(vec![Step::quiet(NextStep::Now); 99]);
        assert_eq!(asked.len(), MOST_STEPS);
    }

    #[test]
    fn end_is_the_last_decision() {
        let (effects, asked) = predict(vec![
            Step::sending(tag(), NextStep::End),
            Step::sending(tag(), NextStep::End),
        ]);
        assert_eq!((effects.len(), asked.len()), (1, 1));
    }
}

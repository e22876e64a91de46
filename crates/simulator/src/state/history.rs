//! The states that a machine has been in, first to last.

use serde::{Deserialize, Serialize, Serializer};

use super::super::clock::Moment;
use super::machine::Step;
use super::status::Status;

/// Steps in order of time, at least one. Listings read the ends of thousands of
/// histories for one page, so the ends are stored with the machine itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Vec<Step>")]
pub(crate) struct History {
    began: Moment,
    last: Moment,
    status: Status,
    steps: Vec<Step>,
}

/// A history without a single step.
#[derive(Debug, thiserror::Error)]
#[error("a machine without a history")]
pub(crate) struct Empty;

impl TryFrom<Vec<Step>> for History {
    type Error = Empty;

    fn try_from(steps: Vec<Step>) -> Result<Self, Empty> {
        let (first, last) = steps.first().zip(steps.last()).ok_or(Empty)?;
        Ok(Self {
            began: first.at,
            last: last.at,
            status: last.status,
            steps,
        })
    }
}

/// Stored as the list of its steps: the rest follows from them.
impl Serialize for History {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.steps.serialize(serializer)
    }
}

impl History {
    /// A history that starts with this step.
    pub(super) fn new(first: Step) -> Self {
        Self {
            began: first.at,
            last: first.at,
            status: first.status,
            steps: vec![first],
        }
    }

    /// Adds a step.
    pub(super) fn push(&mut self, step: Step) {
        self.last = step.at;
        self.status = step.status;
        self.steps.push(step);
    }

    /// Numbers all steps as one change of the account.
    pub(super) fn number(&mut self, tick: u64) {
        for step in &mut self.steps {
            step.tick = tick;
        }
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Step> {
        self.steps.iter()
    }

    /// When it started.
    pub(crate) fn began(&self) -> Moment {
        self.began
    }

    /// The last state.
    pub(crate) fn status(&self) -> Status {
        self.status
    }

    /// The state at that time; the first if nothing had happened yet.
    pub(crate) fn status_at(&self, at: Moment) -> Status {
        match self.last <= at {
            true => self.status,
            false => self.step(at).map_or(self.status, |step| step.status),
        }
    }

    /// The last thing that happened at or before `at`; the first ever if none.
    pub(crate) fn step(&self, at: Moment) -> Option<&Step> {
        let mut steps = self.steps.iter().rev();
        let found = steps.find(|step| step.at <= at);
        found.or_else(|| self.steps.first())
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::Cause;
    use super::*;

    fn step(at: u64, status: Status) -> Step {
        Step::new(Moment::from_unix(at), status, Cause::Pipeline)
    }

    #[test]
    fn history_gives_same_status_after_json() {
        let mut history = History::new(step(10, Status::Created));
        history.push(step(20, Status::Delivered));
        history.push(step(30, Status::Releasing));
        let text = serde_json::to_string(&history).unwrap();
        let read: History = serde_json::from_str(&text).unwrap();
        for history in [history, read] {
            let at = |at| history.status_at(Moment::from_unix(at));
            assert_eq!(history.began(), Moment::from_unix(10));
            assert_eq!(history.status(), Status::Releasing);
            assert_eq!(at(5), Status::Created);
            assert_eq!(at(20), Status::Delivered);
            assert_eq!(at(29), Status::Delivered);
            assert_eq!(at(30), Status::Releasing);
        }
        assert!(serde_json::from_str::<History>("[]").is_err());
    }
}

//! Why an object is in its state, and which conditions follow from that.

use super::reference_grace::ReferenceGrace;
use api::{
    Interval, Reason,
    conditions::{DesiredCondition, Type, is_true},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::time::Duration;

/// Why an object is in its state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Explanation {
    /// The reason.
    pub reason: Reason,
    /// What is wrong or happening, and the remedy, for users.
    pub message: String,
    /// What the conditions make kstatus read.
    pub ready_state: ReadyState,
}

/// The state of an object as kstatus, `kubectl wait` and GitOps tools read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadyState {
    /// The object is as declared.
    Ready,
    /// The object becomes ready without a user.
    Reconciling,
    /// A referenced object does not exist. It may be applied later, so this reads as Reconciling at first, and as
    /// Stalled after the grace period of [`ReferenceGrace`].
    Missing,
    /// Nothing is sent for the object: a user suspended it, or the operator is read-only. Its conditions stay, apart
    /// from Suspended and Synced.
    Suspended,
    /// A user must act.
    Stalled,
}

/// Message of another condition if Ready already has the text.
pub const AS_READY: &str = "See the condition Ready";
/// Message of another condition if Synced already has the text.
pub const AS_SYNCED: &str = "See the condition Synced";
/// Message of Synced while the account does not answer. It omits the error: each new error text would rewrite every
/// object.
pub const OUT_OF_TOUCH: &str = "The account does not work, so this is its last known state. Look at the conditions of the account";
/// Message of an object that was suspended before it was as declared.
const AS_SUSPENDED: &str = "Suspended; not all of the spec is applied. It continues when suspend is lifted, see the condition Suspended";
/// Message of Synced for a suspended object with unsent changes, or with a spec that was not compared.
const UNSENT: &str =
    "The spec has unsent changes; they follow when suspend is lifted, see the condition Suspended";

/// How long a new object has no conditions: the first steps of most are not worth a write.
const FIRST_STATUS: Duration = Duration::from_secs(4);

/// Message of a new object after that.
const QUEUED: &str =
    "Waiting in the queue of the account; continues as soon as earlier work of the account is done";

/// Reasons about referenced objects.
const REFERENCES: [Reason; 4] = [
    Reason::AccountNotFound,
    Reason::NotAllowed,
    Reason::ReferenceNotFound,
    Reason::ReferenceNotReady,
];

/// Reasons of a deletion that is not blocked.
const ENDS: [Reason; 2] = [Reason::Releasing, Reason::Progressing];

impl Explanation {
    /// The object is as declared.
    pub fn ready(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(ReadyState::Ready, reason, message)
    }

    /// The object waits and continues without a user.
    pub fn waits(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(ReadyState::Reconciling, reason, message)
    }

    /// The object waits for a referenced object.
    pub fn missing(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(ReadyState::Missing, reason, message)
    }

    /// Adds the check interval to the message, if a referenced object is missing.
    #[must_use]
    pub fn checked_every(mut self, every: Duration) -> Self {
        if self.ready_state == ReadyState::Missing {
            let every = Interval(every);
            self.message = format!("{}; checked every {every}", self.message);
        }
        self
    }

    /// The object waits in the queue of its account.
    pub fn queued() -> Self {
        Self::waits(Reason::Queued, QUEUED)
    }

    /// How long an object of this age still has no conditions.
    pub fn time_until_first_status(age: Duration) -> Duration {
        FIRST_STATUS.saturating_sub(age)
    }

    /// A user suspended the object. The condition Suspended says why.
    pub fn suspended() -> Self {
        Self::new(ReadyState::Suspended, Reason::Suspended, "")
    }

    /// The operator is read-only. `text`: what is not sent, at most 80 characters.
    pub fn read_only(text: &str) -> Self {
        let message = format!(
            "Read-only mode: {text}. It follows once the operator runs without --read-only"
        );
        Self::new(ReadyState::Suspended, Reason::ReadOnly, message)
    }

    /// Synced of an object for which something is not sent in read-only mode.
    pub fn unsent_as_read_only(&self) -> DesiredCondition {
        DesiredCondition::new(Type::Synced, false, self.reason, self.message.clone())
    }

    /// Whether a suspended object keeps its conditions and their generation, as nothing compares its spec. It does not
    /// if it was Reconciling, or if Ready has a reason about a reference. In read-only mode, only Ready stays.
    pub fn is_kept(&self, before: &[Condition], is_deleting: bool) -> bool {
        let stays = |ready: &DesiredCondition| match self.reason {
            Reason::ReadOnly => ready.status == Some(true),
            _ => !REFERENCES.contains(&ready.reason),
        };
        self.ready_state == ReadyState::Suspended
            && !is_deleting
            && DesiredCondition::find_existing(Type::Ready, before)
                .is_some_and(|ready| stays(&ready))
            && !is_true(before, Type::Reconciling)
    }

    /// The object waits for a user.
    pub fn stalled(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(ReadyState::Stalled, reason, message)
    }

    fn new(ready_state: ReadyState, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            ready_state,
        }
    }

    /// Judges a missing reference: Reconciling with the time left, or Stalled. What is Stalled already stays so, as a
    /// new process has no memory of the wait.
    #[must_use]
    pub fn apply_grace(
        self,
        grace: &ReferenceGrace,
        now: Duration,
        before: &[Condition],
    ) -> (Self, Option<Duration>) {
        if self.ready_state != ReadyState::Missing {
            return (self, None);
        }
        let is_reported = |c: &Condition| {
            c.type_ == Type::Stalled.as_str()
                && c.status == "True"
                && c.reason == self.reason.as_str()
        };
        let rest = grace.grace_left(self.reason, now);
        let (ready_state, rest) = match before.iter().any(is_reported) || rest.is_zero() {
            true => (ReadyState::Stalled, None),
            false => (ReadyState::Reconciling, Some(rest)),
        };
        (
            Self {
                ready_state,
                ..self
            },
            rest,
        )
    }

    /// The condition Synced. Its message refers to Ready, which has the text.
    pub fn synced(&self) -> DesiredCondition {
        match self.is_in_sync() {
            true => DesiredCondition::new(Type::Synced, true, Reason::InSync, ""),
            false => DesiredCondition::new(Type::Synced, false, self.reason, AS_READY),
        }
    }

    /// Whether the last exchange worked and nothing is left to send.
    pub fn is_in_sync(&self) -> bool {
        match self.ready_state {
            ReadyState::Ready => true,
            ReadyState::Reconciling => self.reason == Reason::Provisioning,
            ReadyState::Missing | ReadyState::Suspended | ReadyState::Stalled => false,
        }
    }

    /// All conditions of an object that had `before`. `synced` replaces the Synced of this explanation, or the kept
    /// one. An object that is being deleted also gets DeletionBlocked.
    pub fn to_conditions(
        self,
        synced: Option<DesiredCondition>,
        before: &[Condition],
        is_deleting: bool,
    ) -> Vec<DesiredCondition> {
        let is_read_only = self.reason == Reason::ReadOnly;
        let synced = synced.or_else(|| is_read_only.then(|| self.unsent_as_read_only()));
        if self.is_kept(before, is_deleting) {
            let mut kept = unchanged_conditions(before);
            if let Some(synced) = synced {
                kept.retain(|c| c.kind != Type::Synced);
                kept.push(synced);
            }
            return kept;
        }
        let is_suspended = self.ready_state == ReadyState::Suspended;
        if is_suspended && !is_deleting {
            let message = match is_read_only {
                true => self.message.as_str(),
                false => AS_SUSPENDED,
            };
            return Self::waits(self.reason, message).to_conditions(synced, before, false);
        }
        let synced = synced.unwrap_or_else(|| self.synced());
        let text = match is_read_only {
            true => AS_SYNCED,
            false => &self.message,
        };
        let why = Some((self.reason, text.to_owned()))
            .filter(|(reason, _)| is_deleting && !ENDS.contains(reason));
        let is_blocked = why.is_some();
        let ready_state = match is_suspended {
            true => ReadyState::Reconciling,
            false => self.ready_state,
        };
        let mut shown = Self {
            ready_state,
            ..self
        }
        .conditions()
        .to_vec();
        // Ready and DeletionBlocked have the text.
        for condition in shown.iter_mut().skip(1) {
            if (is_blocked || is_read_only) && condition.status == Some(true) {
                AS_READY.clone_into(&mut condition.message);
            }
        }
        shown.push(synced);
        shown.extend(DesiredCondition::flag(Type::DeletionBlocked, why, before));
        shown
    }

    /// Ready, Reconciling and Stalled. Where Reconciling or Stalled is False it has reason `InSync` and no message.
    pub fn conditions(self) -> [DesiredCondition; 3] {
        let Self {
            reason,
            message,
            ready_state,
        } = self;
        let ready_state = match ready_state {
            ReadyState::Missing => ReadyState::Reconciling,
            other => other,
        };
        let flag = |kind, of| {
            if ready_state == of {
                DesiredCondition::new(kind, true, reason, message.clone())
            } else {
                DesiredCondition::new(kind, false, Reason::InSync, "")
            }
        };
        let reconciling = flag(Type::Reconciling, ReadyState::Reconciling);
        let stalled = flag(Type::Stalled, ReadyState::Stalled);
        let ready = DesiredCondition::new(
            Type::Ready,
            ready_state == ReadyState::Ready,
            reason,
            message,
        );
        [ready, reconciling, stalled]
    }
}

/// `kubectl get -o wide` shows only the message of Ready. If Ready has none, it shows a pending Synced, also where only
/// Synced is to be written.
pub fn copy_synced_to_ready(wanted: &mut Vec<DesiredCondition>, before: &[Condition]) {
    let Some(synced) = wanted.iter().find(|c| c.kind == Type::Synced) else {
        return;
    };
    let pending = match (synced.status, synced.message.as_str()) {
        (Some(true), _) | (_, AS_READY) => String::new(),
        (_, message) => message.to_owned(),
    };
    if let Some(ready) = wanted.iter_mut().find(|c| c.kind == Type::Ready) {
        if ready.message.is_empty() {
            ready.message = pending;
        }
        return;
    }
    let Some(ready) = DesiredCondition::find_existing(Type::Ready, before) else {
        return;
    };
    let was = DesiredCondition::find_existing(Type::Synced, before).map(|synced| synced.message);
    let is_borrowed = ready.message.is_empty() || was.as_ref() == Some(&ready.message);
    if is_borrowed && ready.message != pending {
        wanted.push(DesiredCondition {
            message: pending,
            ..ready
        });
    }
}

/// Synced of a suspended object with unsent changes, or with a spec that was not compared.
pub fn unsent() -> DesiredCondition {
    DesiredCondition::new(Type::Synced, false, Reason::PendingChanges, UNSENT)
}

/// The condition Suspended: why nothing is sent for the object, if a user suspended it.
pub fn suspension(why: Option<String>, before: &[Condition]) -> Option<DesiredCondition> {
    let why = why.map(|why| (Reason::Suspended, why));
    DesiredCondition::flag(Type::Suspended, why, before)
}

/// The conditions that every kind has, unchanged.
fn unchanged_conditions(before: &[Condition]) -> Vec<DesiredCondition> {
    let of = |kind| DesiredCondition::find_existing(kind, before);
    Type::WITH_OBSERVED_GENERATION
        .into_iter()
        .filter_map(of)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(conditions: &[DesiredCondition]) -> Vec<(Type, Reason)> {
        let on = conditions.iter().filter(|c| c.status == Some(true));
        on.map(|c| (c.kind, c.reason)).collect()
    }

    /// The conditions, as written on an object that had none.
    fn merged(conditions: &[DesiredCondition]) -> Vec<Condition> {
        let generations = api::conditions::Generations::default();
        api::conditions::merge(&[], conditions, generations, jiff::Timestamp::MIN)
    }

    #[test]
    fn a_suspended_object_keeps_its_conditions() {
        let ready = Explanation::ready(Reason::Delivered, "m").to_conditions(None, &[], false);
        let before = merged(&ready);
        let suspended = Explanation::suspended;
        assert_eq!(suspended().to_conditions(None, &before, false), ready);
        // Only Synced reports unsent changes.
        let mut unsynced = ready.clone();
        unsynced[3] = unsent();
        let shown = suspended().to_conditions(Some(unsent()), &before, false);
        assert_eq!(shown, unsynced);
        let stuck = Explanation::stalled(Reason::LimitReached, "m").to_conditions(None, &[], false);
        let before = merged(&stuck);
        assert_eq!(suspended().to_conditions(None, &before, false), stuck);
        // Suspended work has stopped, and a missing reference may exist by now.
        let said = |explanation: Explanation| {
            let shown = explanation.to_conditions(None, &[], false);
            merged(&shown)
        };
        let waits = said(Explanation::waits(Reason::NoStock, "m"));
        let missing = said(Explanation::stalled(Reason::AccountNotFound, "m"));
        for before in [&waits[..], &missing, &[]] {
            let shown = suspended().to_conditions(None, before, false);
            assert_eq!(on(&shown), [(Type::Reconciling, Reason::Suspended)]);
        }
    }

    #[test]
    fn empty_ready_message_falls_back_to_synced() {
        let ready = || Explanation::ready(Reason::Delivered, "");
        let pending =
            |text: &str| DesiredCondition::new(Type::Synced, false, Reason::PendingChanges, text);
        let shown = |explanation: Explanation, synced| {
            let mut shown = explanation.to_conditions(synced, &[], false);
            copy_synced_to_ready(&mut shown, &[]);
            (shown[0].message.clone(), shown)
        };
        assert_eq!(shown(ready(), None).0, "");
        let own = Explanation::ready(Reason::Available, "there");
        let (text, own) = shown(own, Some(pending("m")));
        assert_eq!(text, "there");
        let (text, shown) = shown(ready(), Some(pending("other-os")));
        assert_eq!(text, "other-os");
        // Only Synced is written.
        let before = merged(&shown);
        let mut alone = vec![pending("later")];
        copy_synced_to_ready(&mut alone, &before);
        assert_eq!(alone[1].message, "later");
        let mut alone = vec![DesiredCondition::new(
            Type::Synced,
            true,
            Reason::InSync,
            "",
        )];
        copy_synced_to_ready(&mut alone, &before);
        assert_eq!(alone[1].message, "");
        let own = merged(&own);
        let mut alone = vec![DesiredCondition::new(
            Type::Synced,
            false,
            Reason::Progressing,
            "x",
        )];
        let own: Vec<Condition> = own.into_iter().filter(|c| c.type_ != "Synced").collect();
        copy_synced_to_ready(&mut alone, &own);
        assert_eq!(alone.len(), 1, "it has its own");
    }

    #[test]
    fn blocked_deletion_says_why() {
        use Type::{DeletionBlocked, Reconciling, Stalled};
        let shown = |explanation: Explanation| explanation.to_conditions(None, &[], true);
        let suspended = shown(Explanation::suspended());
        let why = Reason::Suspended;
        assert_eq!(on(&suspended), [(Reconciling, why), (DeletionBlocked, why)]);
        let waits = shown(Explanation::waits(Reason::Protected, "protected"));
        let why = Reason::Protected;
        assert_eq!(on(&waits), [(Reconciling, why), (DeletionBlocked, why)]);
        let text: Vec<&str> = waits.iter().map(|c| c.message.as_str()).collect();
        assert_eq!(text, ["protected", AS_READY, "", AS_READY, "protected"]);
        let stuck = shown(Explanation::stalled(Reason::TagsMissing, "m"));
        let why = Reason::TagsMissing;
        assert_eq!(on(&stuck), [(Stalled, why), (DeletionBlocked, why)]);

        let before = merged(&waits);
        let goes_on = || Explanation::waits(Reason::Releasing, "m");
        let ended = goes_on().to_conditions(None, &before, true);
        assert_eq!(on(&ended), [(Reconciling, Reason::Releasing)]);
        let last = ended.last().unwrap();
        assert_eq!((last.kind, last.status), (DeletionBlocked, Some(false)));
        assert_eq!(
            goes_on().to_conditions(None, &[], true).len(),
            4,
            "it never waited"
        );
    }

    #[test]
    fn at_most_one_of_the_three_is_true() {
        for (explanation, expected) in [
            (
                Explanation::ready(Reason::Delivered, "m"),
                [true, false, false],
            ),
            (
                Explanation::waits(Reason::Ordering, "m"),
                [false, true, false],
            ),
            (
                Explanation::missing(Reason::ReferenceNotFound, "m"),
                [false, true, false],
            ),
            (Explanation::suspended(), [false, false, false]),
            (
                Explanation::stalled(Reason::InvalidSpec, "m"),
                [false, false, true],
            ),
        ] {
            let reason = explanation.reason;
            let conditions = explanation.conditions();
            assert_eq!(
                conditions.each_ref().map(|c| c.status == Some(true)),
                expected
            );
            assert_eq!(conditions[0].reason, reason, "Ready always says why");
        }
    }
    #[test]
    fn missing_reference_stalls_and_stays_so() {
        let at = Duration::from_secs;
        let explanation = || Explanation::missing(Reason::ReferenceNotFound, "m");
        let mut grace = ReferenceGrace::default();
        let (first, rest) = explanation().apply_grace(&grace, at(1000), &[]);
        assert_eq!(
            (first.ready_state, rest),
            (ReadyState::Reconciling, Some(at(120)))
        );
        grace.record_awaited(Some(Reason::ReferenceNotFound), at(1000));
        let (later, rest) = explanation().apply_grace(&grace, at(1090), &[]);
        assert_eq!(
            (later.ready_state, rest),
            (ReadyState::Reconciling, Some(at(30)))
        );
        let (last, rest) = explanation().apply_grace(&grace, at(1120), &[]);
        assert_eq!((last.ready_state, rest), (ReadyState::Stalled, None));

        let shown = last.conditions();
        let shown = merged(&shown);
        let (again, _) = explanation().apply_grace(&ReferenceGrace::default(), at(1), &shown);
        assert_eq!(again.ready_state, ReadyState::Stalled);
        let other = Explanation::missing(Reason::AccountNotFound, "m");
        let (other, _) = other.apply_grace(&ReferenceGrace::default(), at(1), &shown);
        assert_eq!(other.ready_state, ReadyState::Reconciling);
    }
}
